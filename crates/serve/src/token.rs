//! The tokens of clients, and what each allows.

use crate::{
    notify_settings::NotifySettings,
    quota_settings::{OfEach, QuotaSettings},
    trigger_settings::{self, TriggerSettings},
};
use llm_do::{TokenBudgets, core::schema::sha256};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_saphyr::Spanned;
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The file of tokens in the folder of the user.
const FILE: &str = "serve.yaml";
/// The name of the token that a service makes for its operator.
pub(crate) const OPERATOR: &str = "operator";
/// The name of all clients of a server of tools.
pub(crate) const TOOLS: &str = "mcp";

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Start runs, talk with its own chats, and cancel its own runs.
    Start,
    /// Read runs: its own, or all of its programs with `read: all`.
    Read,
    /// Answer the questions of the runs that it may read.
    Answer,
    /// Read and change the definitions of its programs. Definitions are authority: they say what runs may do.
    Edit,
}

impl Scope {
    /// The name of the scope in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Read => "read",
            Self::Answer => "answer",
            Self::Edit => "edit",
        }
    }
}

/// Which runs a token with the scope `read` reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reads {
    /// Those that it has started.
    #[default]
    Own,
    /// Those of every client.
    All,
}

/// The treatment of requests in OpenAI's form that set what a worker fixes: the temperature of its model, for example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ModelSettings {
    /// The request is an error.
    #[default]
    Refuse,
    /// The settings have no effect, and the response names them.
    Ignore,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The name in records and lists.
    #[schemars(regex(pattern = "^(?!operator$|trigger:)[\\s\\S]+$"))]
    name: Arc<str>,
    /// The SHA-256 hash of the token, as `llm-do serve --new-token` prints it.
    #[schemars(regex(pattern = "^[0-9A-Fa-f]{64}$"))]
    sha256: String,
    /// What the token allows.
    #[schemars(length(min = 1))]
    scopes: BTreeSet<Scope>,
    /// The runs that it reads.
    #[serde(default)]
    read: Reads,
    /// The programs that it may use. Absent: all.
    #[serde(default)]
    programs: Option<BTreeSet<Arc<str>>>,
    /// The quotas of the token that differ from those of other tokens.
    #[serde(default)]
    quotas: OfEach,
    /// The most that its runs may use in a day and in a month.
    #[serde(default)]
    budgets: TokenBudgets,
    /// The treatment of model settings. Absent: as the file says for all tokens.
    #[serde(default)]
    model_settings: Option<ModelSettings>,
}

/// Least length of a token that the operator chooses, in characters.
const SHORTEST: usize = 16;
/// Greatest length of such a token.
const LONGEST: usize = 256;

/// The text of a token. Only its hash is kept.
pub struct NewToken(String);

/// A text that is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token has 16 to 256 characters: letters, digits and -._~+/=")]
pub struct BadToken;

impl NewToken {
    /// A token that the operator has chosen.
    ///
    /// # Errors
    /// It is too short, or a client could not send it.
    pub fn given(text: &str) -> Result<Self, BadToken> {
        match is_token(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(BadToken),
        }
    }

    /// 256 random bits as hexadecimal digits.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// The text, to be shown once.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The hash of the token, which `serve.yaml` contains.
    pub fn sha256(&self) -> String {
        sha256(self.0.as_bytes())
    }
}

/// The tokens of a service, and what each may use of it.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    all: Vec<Arc<Token>>,
    quotas: QuotaSettings,
    /// The triggers of the file, with their lines.
    triggers: Vec<(u64, TriggerSettings)>,
    notify: NotifySettings,
    /// The treatment of model settings for tokens without one of their own.
    model_settings: ModelSettings,
}

/// A file of tokens that can't be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the tokens in {}: {reason}", path.display())]
pub struct BadTokens {
    /// The file.
    pub path: PathBuf,
    /// The problem with the file.
    pub reason: String,
}

/// The content of `serve.yaml`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct File {
    /// The tokens of clients.
    tokens: Vec<Token>,
    /// Limits on the use of resources.
    quotas: QuotaSettings,
    /// What starts runs by itself.
    #[schemars(with = "Vec<TriggerSettings>")]
    triggers: Vec<Spanned<TriggerSettings>>,
    /// Who is told of runs.
    notify: NotifySettings,
    /// The treatment of model settings, for tokens that do not say it.
    model_settings: ModelSettings,
}

/// The JSON Schema of `serve.yaml`.
pub fn settings_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut schema = generator.into_root_schema_for::<File>();
    schema.insert("title".into(), "serve.yaml of llm-do".into());
    schema.to_value()
}

impl Tokens {
    /// Reads the tokens of `serve.yaml` in the user's folder. Without the file there are none.
    ///
    /// # Errors
    /// The file can't be read, or holds something else.
    pub fn read(home: &Path) -> Result<Self, BadTokens> {
        let path = home.join(FILE);
        let wrong = |reason: String| BadTokens { path: path.clone(), reason };
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            read => read.map_err(|error| wrong(error.to_string()))?,
        };
        // As in worker files, `yes` and `no` are texts, while `true` and `1` are none.
        let options = serde_saphyr::options! { strict_booleans: true, no_schema: true, with_snippet: false };
        let File { tokens, quotas, triggers, notify, model_settings } =
            serde_saphyr::from_str_with_options(&text, options).map_err(|error| wrong(error.to_string()))?;
        let mut names = BTreeSet::new();
        for token in &tokens {
            let is_hash =
                token.sha256.len() == 64 && token.sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_hash {
                return Err(wrong(format!(
                    "`sha256` of the token `{}` is not a SHA-256 hash: 64 hexadecimal digits",
                    token.name
                )));
            }
            if *token.name == *OPERATOR
                || token.name.is_empty()
                || token.name.starts_with(trigger_settings::PREFIX)
            {
                return Err(wrong(format!("a token can't have the name `{}`", token.name)));
            }
            if token.scopes.is_empty() {
                return Err(wrong(format!(
                    "the token `{}` has no scopes: it would allow nothing",
                    token.name
                )));
            }
            if token.budgets.limit_nothing() {
                return Err(wrong(format!(
                    "a budget of the token `{}` limits nothing: add `max_cost_usd` or `max_tokens`",
                    token.name
                )));
            }
            if !names.insert(&token.name) {
                return Err(wrong(format!("two tokens have the name `{}`", token.name)));
            }
        }
        let triggers = triggers.into_iter().map(|each| (each.referenced.line(), each.value)).collect();
        let file = Self { all: Vec::new(), quotas, triggers, notify, model_settings };
        Ok(tokens.into_iter().fold(file, Self::with))
    }

    /// Adds the token of the operator, who may do everything except change definitions.
    #[must_use]
    pub fn with_operator(self, token: &NewToken) -> Self {
        self.with(Token::operator(token.sha256(), []))
    }

    /// Adds the token of the clients of a server of tools.
    #[must_use]
    pub(crate) fn with_tools(self, token: &NewToken) -> Self {
        self.with(Token::of_tools(token.sha256()))
    }

    /// Adds the token of an operator who may change definitions too.
    #[must_use]
    pub fn with_editing_operator(self, token: &NewToken) -> Self {
        self.with(Token::operator(token.sha256(), [Scope::Edit]))
    }

    fn with(mut self, mut token: Token) -> Self {
        token.model_settings.get_or_insert(self.model_settings);
        self.all.push(Arc::new(token));
        self
    }

    /// All of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Token>> {
        self.all.iter()
    }

    /// The quotas of the file.
    pub(crate) fn quotas(&self) -> &QuotaSettings {
        &self.quotas
    }

    /// The triggers of the file, with their lines.
    pub(crate) fn triggers(&self) -> &[(u64, TriggerSettings)] {
        &self.triggers
    }

    /// Whom the server tells of runs.
    pub(crate) fn notify(&self) -> &NotifySettings {
        &self.notify
    }

    /// The programs that tokens name.
    pub(crate) fn programs(&self) -> impl Iterator<Item = (&Token, &Arc<str>)> {
        self.all
            .iter()
            .flat_map(|token| token.programs.iter().flatten().map(move |program| (&**token, program)))
    }

    /// The token with that text. Hashes are compared, so that the time of the comparison says nothing about the tokens.
    pub(crate) fn find(&self, text: &str) -> Option<Arc<Token>> {
        let hash = sha256(text.trim().as_bytes());
        self.all.iter().find(|token| token.sha256.eq_ignore_ascii_case(&hash)).cloned()
    }
}

impl Token {
    /// The name of the token, which records show.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The token of the operator who owns the process, which has no text.
    pub(crate) fn of_owner() -> Self {
        Self::operator(String::new(), [])
    }

    /// The token of a trigger, which has no text. It starts runs of that program.
    pub(crate) fn of_trigger(
        name: Arc<str>,
        scopes: impl IntoIterator<Item = Scope>,
        program: Arc<str>,
    ) -> Self {
        Self {
            name,
            sha256: String::new(),
            scopes: scopes.into_iter().collect(),
            read: Reads::Own,
            programs: Some(BTreeSet::from([program])),
            quotas: OfEach::default(),
            budgets: TokenBudgets::default(),
            model_settings: None,
        }
    }

    /// The token of a link or button, which has no text. It answers a question of that program.
    pub(crate) fn of_link(name: Arc<str>, program: Arc<str>) -> Self {
        Self {
            name,
            sha256: String::new(),
            scopes: BTreeSet::from([Scope::Answer]),
            read: Reads::All,
            programs: Some(BTreeSet::from([program])),
            quotas: OfEach::default(),
            budgets: TokenBudgets::default(),
            model_settings: None,
        }
    }

    /// The token of the clients of a server of tools. A client over a pair of pipes has no text for it.
    pub(crate) fn of_tools(sha256: String) -> Self {
        Self { name: TOOLS.into(), read: Reads::Own, ..Self::operator(sha256, []) }
    }

    /// The token of the operator, with these scopes beside those that every operator has.
    fn operator(sha256: String, more: impl IntoIterator<Item = Scope>) -> Self {
        let scopes = [Scope::Start, Scope::Read, Scope::Answer].into_iter().chain(more).collect();
        Self {
            name: OPERATOR.into(),
            sha256,
            scopes,
            read: Reads::All,
            programs: None,
            quotas: OfEach::default(),
            budgets: TokenBudgets::default(),
            model_settings: None,
        }
    }

    /// The quotas of the token that differ from those of other tokens.
    pub(crate) fn quotas(&self) -> &OfEach {
        &self.quotas
    }

    /// The treatment of the token's requests in OpenAI's form that set what a worker fixes.
    pub(crate) fn model_settings(&self) -> ModelSettings {
        self.model_settings.unwrap_or_default()
    }

    /// The same token with that treatment of model settings.
    #[cfg(test)]
    pub(crate) fn with_model_settings(self, settings: ModelSettings) -> Self {
        Self { model_settings: Some(settings), ..self }
    }

    /// Returns true if the token reads the runs of all clients.
    pub(crate) fn reads_all(&self) -> bool {
        self.read == Reads::All
    }

    /// Returns true if the token reads the runs of all clients and programs.
    pub(crate) fn sees_all(&self) -> bool {
        self.read == Reads::All && self.programs.is_none()
    }

    /// The scopes of the token, in the order of [`Scope`].
    pub(crate) fn scopes(&self) -> impl Iterator<Item = Scope> {
        self.scopes.iter().copied()
    }

    /// The runs that the token reads.
    pub(crate) fn reads(&self) -> Reads {
        self.read
    }

    /// The programs that it may use; `None`: all.
    pub(crate) fn only_programs(&self) -> Option<impl Iterator<Item = &Arc<str>>> {
        self.programs.as_ref().map(|programs| programs.iter())
    }

    /// Returns true if the token has that scope.
    pub(crate) fn has(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Returns true if the token may use that program.
    pub(crate) fn may_use(&self, program: &str) -> bool {
        self.programs.as_ref().is_none_or(|programs| programs.contains(program))
    }

    /// Returns true if the token may see the runs of that program that the client started.
    pub(crate) fn sees(&self, program: &str, client: &str) -> bool {
        self.may_use(program) && (self.read == Reads::All || *self.name == *client)
    }
}

/// Returns true if clients can send that text as a token.
pub(crate) fn is_token(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
    (SHORTEST..=LONGEST).contains(&text.len()) && text.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Tokens, String> {
        let home = tempfile::tempdir().expect("a folder");
        fs::write(home.path().join(FILE), text).expect("a file");
        Tokens::read(home.path()).map_err(|error| error.reason)
    }

    /// The schema accepts what the reader accepts, as far as a file can be judged without programs and secrets.
    #[test]
    fn reader_and_schema_agree() {
        let schema = llm_do::core::schema::Schema::new(settings_schema()).expect("a schema");
        let hash = "0".repeat(64);
        let token = |more: &str| format!("tokens: [{{name: ci, sha256: '{hash}', scopes: [start]{more}}}]");
        let trigger = |more: &str| format!("triggers: [{{name: t, {more}}}]");
        let notify = |more: &str| format!("notify: {{to: [{{name: n, when: [failed], {more}}}]}}");
        let good = [
            "{}".to_owned(),
            token(""),
            token(", read: all, programs: [desk], quotas: {disk: 2 GiB, runs: 3}, model_settings: ignore"),
            token(", programs: null"),
            token(", budgets: {day: {max_cost_usd: 1.5, max_tokens: 1000}, month: {max_tokens: 9}}"),
            "quotas: {all: {memory: 1024, bodies: ' 64 MiB '}, programs: {desk: {runs: 1}}}".into(),
            trigger(
                "cron: {at: '0 3 * * *', time_zone: UTC, missed: once}, input: {a: [1]}, from: {b: /date}",
            ),
            trigger("webhook: {signature: stripe, secret: {env: S}, max_body: 10}, message: Go., at_once: 2"),
            trigger("folder: {path: /in, settle_s: 0}, cron: null, concurrency: replace"),
            notify("ntfy: {url: {file: /u}, token: {env: T}}, workers: [a]"),
            notify("slack: {url: {env: U}, signing_secret: {env: S}, users: [U1]}"),
            "notify: {url: 'https://x', link_minutes: 5}\nmodel_settings: refuse".into(),
        ];
        let bad = [
            "token: []".to_owned(),
            token(", scope: x"),
            token(", budgets: {week: {max_tokens: 9}}"),
            token(", budgets: {day: {max_cost_usd: -1}}"),
            token(", budgets: {day: {}}"),
            token("").replace(&hash, "00"),
            token("").replace("start", "begin"),
            token("").replace("[start]", "[]"),
            token("").replace("name: ci", "name: operator"),
            token("").replace("name: ci", "name: 'trigger:x'"),
            "tokens: [{name: ci}]".into(),
            "quotas: {all: {memory: 1 MB}}".into(),
            "quotas: {all: {memory: -1}}".into(),
            "quotas: {token: {run: 1}}".into(),
            trigger("cron: {at: 7}"),
            trigger("cron: {at: '* * * * *', missed: all}"),
            trigger("cron: {time_zone: UTC}"),
            trigger("webhook: {signature: md5, secret: {env: S}}"),
            trigger("webhook: {signature: github, secret: S}"),
            trigger("webhook: {signature: github, secret: {env: S, file: /s}}"),
            trigger("folder: {path: /in, depth: 1}"),
            trigger("folder: {path: /in}, at_once: 0"),
            trigger("folder: {path: /in}, concurrency: wait"),
            notify("when: [started]"),
            notify("ntfy: {}"),
            "notify: {link_minutes: 0}".into(),
            "model_settings: drop".into(),
        ];
        for (texts, fits) in [(&good[..], true), (&bad[..], false)] {
            for text in texts {
                let options =
                    serde_saphyr::options! { strict_booleans: true, no_schema: true, with_snippet: false };
                let value: Value = serde_saphyr::from_str_with_options(text, options).unwrap_or(Value::Null);
                let judged = (read(text).is_ok(), schema.validate(&value).is_ok());
                assert_eq!(
                    judged,
                    (fits, fits),
                    "{text}: {:?} {:?}",
                    read(text).err(),
                    schema.validate(&value)
                );
            }
        }
        // One kind each: the reader of the triggers says it with the programs, later.
        for both in ["cron: {at: '* * * * *'}, folder: {path: /in}", "message: Go."] {
            let value: Value = serde_saphyr::from_str(&trigger(both)).expect("YAML");
            assert!(schema.validate(&value).is_err(), "{both}");
        }
    }

    #[test]
    fn the_file_on_the_page_is_a_good_one() {
        for page in [
            include_str!("../../../docs/reference/http.md"),
            include_str!("../../../docs/reference/quotas.md"),
            include_str!("../../../docs/reference/budgets.md"),
        ] {
            let (_, rest) = page.split_once("```yaml tokens\n").expect("a file of tokens");
            let (file, _) = rest.split_once("```").expect("its end");
            let tokens = read(file).expect("a good file");
            assert!(!tokens.all.is_empty());
        }
    }

    #[test]
    fn notifiers_on_the_page_are_good_ones() {
        let page = include_str!("../../../docs/reference/notify.md");
        let (_, rest) = page.split_once("```yaml notify\n").expect("notifiers");
        let (file, _) = rest.split_once("```").expect("its end");
        let tokens = read(file).expect("a good file");
        let names: Vec<&str> = tokens.notify().to.iter().map(|each| &*each.name).collect();
        assert_eq!(names, ["phone", "team", "audit"]);
    }

    #[test]
    fn triggers_on_the_pages_are_good_ones() {
        for page in [
            include_str!("../../../docs/reference/triggers.md"),
            include_str!("../../../docs/guides/triggers.md"),
        ] {
            let (_, rest) = page.split_once("```yaml triggers\n").expect("a file of triggers");
            let (file, _) = rest.split_once("```").expect("its end");
            let tokens = read(file).expect("a good file");
            let names: Vec<&str> = tokens.triggers().iter().map(|(_, trigger)| &*trigger.name).collect();
            assert_eq!(names, ["nightly", "issues", "inbox"]);
        }
    }

    #[test]
    fn a_token_is_found_by_its_text_and_allows_what_its_entry_says() {
        let new = NewToken::generate().expect("random numbers");
        let tokens = read(&format!(
            "tokens:\n  - name: ci\n    sha256: {}\n    scopes: [start, read]\n    programs: [notes]\n",
            new.sha256()
        ));
        let tokens = tokens.expect("a good file");
        let token = tokens.find(new.text()).expect("the token");
        assert!(token.has(Scope::Start) && token.has(Scope::Read) && !token.has(Scope::Answer));
        assert!(token.sees("notes", "ci") && !token.sees("notes", "other") && !token.sees("mail", "ci"));
        assert!(tokens.find(&new.sha256()).is_none(), "the hash is no token");
        assert!(tokens.find("").is_none());
    }

    #[test]
    fn settings_are_refused_unless_the_file_or_the_token_ignores_them() {
        let hash = |digit: &str| digit.repeat(64);
        let entry = |name: &str, digit: &str, more: &str| {
            format!("  - {{name: {name}, sha256: {}, scopes: [start]{more}}}\n", hash(digit))
        };
        let settings = |file: &str| {
            let tokens = read(file).expect("a good file").with_operator(&NewToken("0".repeat(64)));
            let all = tokens.all().map(|token| token.model_settings() == ModelSettings::Ignore);
            all.collect::<Vec<bool>>()
        };
        let two = entry("a", "a", "") + &entry("b", "b", ", model_settings: ignore");
        assert_eq!(settings(&format!("tokens:\n{two}")), [false, true, false]);
        let two = entry("a", "a", "") + &entry("b", "b", ", model_settings: refuse");
        assert_eq!(settings(&format!("model_settings: ignore\ntokens:\n{two}")), [true, false, true]);
        assert!(read("model_settings: maybe\n").is_err());
    }

    #[test]
    fn names_are_read_as_in_worker_files() {
        let hash = "a".repeat(64);
        for name in ["no", "on", "yes", "y", "off"] {
            let file = format!(
                "tokens:\n  - {{name: {name}, sha256: {hash}, scopes: [read], programs: [{name}]}}\n"
            );
            let tokens = read(&file).expect(name);
            assert_eq!((&**tokens.all[0].name(), tokens.all[0].may_use(name)), (name, true));
        }
        assert!(read(&format!("tokens:\n  - {{name: true, sha256: {hash}, scopes: [read]}}\n")).is_err());
    }

    #[test]
    fn a_chosen_token_is_one_that_a_header_can_carry() {
        assert!(NewToken::given(&"a".repeat(16)).is_ok());
        for wrong in ["", "short", "a; Path=/admin; x=aaaaaaa", "a token with spaces", "ümläut-ümläut-ümläut"]
        {
            assert!(NewToken::given(wrong).is_err(), "{wrong}");
        }
        assert!(NewToken::given(&"a".repeat(257)).is_err());
    }

    #[test]
    fn a_file_that_cannot_be_meant_is_refused() {
        let hash = "a".repeat(64);
        for (text, reason) in [
            ("tokens:\n  - {name: a, sha256: abc, scopes: [read]}\n".to_owned(), "64 hexadecimal digits"),
            (format!("tokens:\n  - {{name: a, sha256: {hash}, scopes: []}}\n"), "allow nothing"),
            (
                format!("tokens:\n  - {{name: operator, sha256: {hash}, scopes: [read]}}\n"),
                "the name `operator`",
            ),
            (format!("tokens:\n  - {{name: a, sha256: {hash}, scopes: [root]}}\n"), "root"),
            (format!("tokens:\n  - {{name: a, sha256: {hash}, scope: [read]}}\n"), "scope"),
        ] {
            let error = read(&text).expect_err(&text);
            assert!(error.contains(reason), "{error}");
        }
    }
}
