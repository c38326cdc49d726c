//! Opens models by name.

use crate::{
    custom::CustomProvider,
    default_model, exchange,
    failure::{Secrets, Whom},
    known::{KNOWN, KnownProvider},
    prices,
    remote::Remote,
    transport::{Transport, is_loopback},
};
use llm_do_core::model::{Model, ModelError, ModelErrorKind, ModelName, Models, PROVIDER_ALIASES, Terms};
use llm_do_wire::{Dialect, Form, Wire};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use url::Url;

/// Default idle timeout in the middle of an answer.
const IDLE: Duration = Duration::from_secs(120);

/// Looks a variable up in an environment.
type Env = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Creates a model of one provider.
type Factory = dyn Fn(&ModelName) -> Result<Arc<dyn Model>, ModelError> + Send + Sync;

/// All providers: those that are known by name, those that a program declares, `script:`, and those that are
/// registered by [`Providers::with`].
///
/// ```
/// use llm_do_core::model::Models as _;
/// use llm_do_models::Providers;
///
/// let providers = Providers::new(|name| (name == "OPENAI_API_KEY").then(|| "sk-…".to_owned()));
/// let model = providers.open(&"openai:gpt-5-mini".parse()?)?;
/// assert!(model.capabilities().native_schema);
///
/// let missing = providers.open(&"anthropic:claude-haiku-4-5".parse()?).err().map(|error| error.message);
/// assert!(missing.is_some_and(|text| text.contains("ANTHROPIC_API_KEY")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Providers {
    env: Arc<Env>,
    /// Keys that are used where the environment has none, by the variables that would hold them.
    stored: BTreeMap<String, String>,
    custom: BTreeMap<String, CustomProvider>,
    factories: BTreeMap<String, Box<Factory>>,
    streaming: bool,
    idle: Duration,
    /// The user's prices of models; the first matching entry applies.
    prices: Vec<(String, Terms)>,
    transport: Arc<dyn Transport>,
    opened: Mutex<HashMap<ModelName, Arc<dyn Model>>>,
}

impl fmt::Debug for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Providers").field("names", &self.names()).finish_non_exhaustive()
    }
}

/// The place of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The key is in an environment variable.
    Environment,
    /// The key is among the stored keys ([`Providers::stored_keys`]).
    Stored,
}

/// A key, and the place where it was found.
pub(crate) struct FoundKey<'v> {
    pub(crate) variable: &'v str,
    pub(crate) source: KeySource,
    key: String,
}

/// The address and credentials of a model.
struct Access {
    wire: Wire,
    dialect: Dialect,
    base: String,
    /// True if the address is the provider's own.
    official: bool,
    key: Option<String>,
    key_var: Option<Arc<str>>,
    headers: BTreeMap<String, String>,
    /// True if answers are streamed, if the program sets it.
    stream: Option<bool>,
}

impl Models for Providers {
    fn open(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        if let Some(model) = self.opened().get(name) {
            return Ok(Arc::clone(model));
        }
        let model = self.make(name)?;
        self.opened().insert(name.clone(), Arc::clone(&model));
        Ok(model)
    }

    /// Returns the user's price, otherwise the list price. A provider that a program declares may have the name of a
    /// known provider, but not its prices.
    fn terms(&self, name: &ModelName) -> Terms {
        let said = self.prices.iter().find(|(key, _)| prices::names(key, name));
        match said {
            Some((_, terms)) => *terms,
            None if self.custom.contains_key(name.provider()) => Terms::default(),
            None => prices::listed(name, self.transport.now()),
        }
    }
}

impl Providers {
    /// Makes the known providers and `script:`, with keys and addresses from this environment. Empty values count as
    /// absent. Requests are sent over HTTP by this process.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn new(env: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let transport = Arc::<crate::client::Clients>::default();
        Self::over(transport, env).with("script", |name| crate::script::open(name.model()))
    }

    /// Makes the known providers over a transport, with keys and addresses from this environment. Empty values count as
    /// absent.
    pub fn over(
        transport: Arc<dyn Transport>,
        env: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let env = move |name: &str| {
            let value = env(name)?.trim().to_owned();
            (!value.is_empty()).then_some(value)
        };
        Self {
            env: Arc::new(env),
            stored: BTreeMap::new(),
            custom: BTreeMap::new(),
            factories: BTreeMap::new(),
            streaming: true,
            idle: IDLE,
            prices: Vec::new(),
            transport,
            opened: Mutex::default(),
        }
    }

    /// Adds keys that the user has stored, each with the variable that would hold it. The environment takes precedence.
    #[must_use]
    pub fn stored_keys(mut self, keys: impl IntoIterator<Item = (String, String)>) -> Self {
        self.stored.extend(keys);
        self
    }

    /// Adds a provider that a program declares, under this name. It replaces a known one.
    #[must_use]
    pub fn custom(mut self, name: impl Into<String>, provider: CustomProvider) -> Self {
        self.custom.insert(name.into(), provider);
        self
    }

    /// Registers a provider that creates its own models, as `local:` and `replay:` do. [`Providers::custom`] can't
    /// replace it.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<String>,
        factory: impl Fn(&ModelName) -> Result<Arc<dyn Model>, ModelError> + Send + Sync + 'static,
    ) -> Self {
        self.factories.insert(name.into(), Box::new(factory));
        self
    }

    /// Sets the user's prices for a model, or for all models with a prefix (`openai:gpt-5*`). The first entry applies.
    #[must_use]
    pub fn price(mut self, key: impl Into<String>, terms: Terms) -> Self {
        self.prices.push((key.into(), terms));
        self
    }

    /// Sets whether answers are streamed, if the provider supports it. The default is true.
    #[must_use]
    pub fn streaming(mut self, streaming: bool) -> Self {
        self.streaming = streaming;
        self
    }

    /// Sets the idle timeout of a request; 120 seconds by default. An answer that isn't streamed may take five times as
    /// long.
    #[must_use]
    pub fn idle_timeout(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// Returns the names of all providers, sorted, without aliases.
    pub fn names(&self) -> Vec<&str> {
        let known = KNOWN.iter().map(|known| known.name);
        let mut names: Vec<&str> = known
            .chain(self.custom.keys().map(String::as_str))
            .chain(self.factories.keys().map(String::as_str))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(crate) fn var(&self, name: &str) -> Option<String> {
        (self.env)(name)
    }

    /// Returns the key that one of these variables holds, or that is stored for one of them.
    pub(crate) fn key<'v>(&self, variables: &[&'v str]) -> Option<FoundKey<'v>> {
        let found = |source, variable: &'v str, key| FoundKey { variable, source, key };
        let of_env = |var: &&'v str| Some(found(KeySource::Environment, var, self.var(var)?));
        let stored = |var: &&'v str| Some(found(KeySource::Stored, var, self.stored.get(*var)?.clone()));
        variables.iter().find_map(of_env).or_else(|| variables.iter().find_map(stored))
    }

    /// Returns the variables that may hold the key of a known provider, the usual one first. Empty: it takes no key.
    /// `None`: no provider of that name is known.
    pub fn key_variables(provider: &str) -> Option<&'static [&'static str]> {
        KnownProvider::named(provider).map(|known| known.keys)
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, HashMap<ModelName, Arc<dyn Model>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        if let Some(factory) = self.factories.get(name.provider()) {
            return factory(name);
        }
        Ok(Arc::new(self.remote_named(name)?))
    }

    /// Returns true if a factory makes the models of that provider, which then has no endpoint.
    pub(crate) fn is_made_elsewhere(&self, name: &ModelName) -> bool {
        self.factories.contains_key(name.provider())
    }

    /// Returns the usual model of that provider: the default model if the provider has a key.
    pub fn usual_model(provider: &str) -> Option<String> {
        default_model::usual(KnownProvider::named(provider)?.name)
    }

    /// Returns true if requests for that model leave this machine. A model that can't be opened sends no requests.
    pub fn is_hosted(&self, name: &ModelName) -> bool {
        !self.is_made_elsewhere(name)
            && self.remote_named(name).is_ok_and(|remote| !is_loopback(&remote.base))
    }

    /// Returns a model behind an endpoint.
    pub(crate) fn remote_named(&self, name: &ModelName) -> Result<Remote, ModelError> {
        let provider = name.provider();
        let access = if let Some(custom) = self.custom.get(provider) {
            self.declared(provider, custom)?
        } else if let Some(known) = KnownProvider::named(provider) {
            self.known(known)?
        } else {
            return Err(self.unknown(provider));
        };
        self.remote(name, access)
    }

    fn unknown(&self, provider: &str) -> ModelError {
        let names = self.names();
        let mut near: Vec<(usize, &str)> = names
            .iter()
            .copied()
            .chain(PROVIDER_ALIASES.iter().map(|(alias, _)| *alias))
            .map(|name| (strsim::damerau_levenshtein(provider, name), name))
            .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
            .collect();
        near.sort_unstable();
        let hint = match near.as_slice() {
            [] => String::new(),
            near => {
                let near: Vec<_> = near.iter().take(3).map(|(_, name)| format!("`{name}`")).collect();
                format!(" Did you mean {}?", near.join(" or "))
            }
        };
        ModelError::new(
            ModelErrorKind::NotFound,
            format!("there is no provider `{provider}`.{hint} Providers: {}", names.join(", ")),
        )
    }

    fn declared(&self, name: &str, custom: &CustomProvider) -> Result<Access, ModelError> {
        let key = match &custom.api_key_env {
            Some(var) => Some(self.key(&[var]).ok_or_else(|| missing_key(name, &[var], var))?.key),
            None => None,
        };
        Ok(Access {
            wire: custom.api.wire(),
            dialect: Dialect::Own,
            base: custom.base_url.clone(),
            official: false,
            key,
            key_var: custom.api_key_env.as_deref().map(Arc::from),
            headers: custom.headers.clone(),
            stream: custom.stream,
        })
    }

    fn known(&self, known: &'static KnownProvider) -> Result<Access, ModelError> {
        let own = known.base(&*self.env);
        let other = known.base_vars.iter().find_map(|var| Some((*var, self.var(var)?)));
        // An address that can't be used is said before a key that it may not need.
        if let Some((var, base)) = &other {
            address(&format!("{} ({var})", known.name), base, known.wire)?;
        }
        let (base, official) = match (other.map(|(_, base)| base), own) {
            (Some(base), own) => {
                let same = own.is_ok_and(|own| same_host(&own, &base));
                (base, same)
            }
            (None, Ok(base)) => (base, true),
            (None, Err(var)) => return Err(missing(known.name, &[var])),
        };
        let found = self.key(known.keys);
        // A server on this machine that replaces a provider rarely needs a key.
        let needed = !known.keys.is_empty() && !base.parse().is_ok_and(|url| is_loopback(&url));
        if found.is_none() && needed {
            return Err(missing_key(known.name, known.keys, known.name));
        }
        let (key_var, key) = found.map(|found| (found.variable, found.key)).unzip();
        Ok(Access {
            wire: known.wire,
            dialect: known.dialect,
            base,
            official,
            key,
            key_var: key_var.map(Arc::from),
            headers: BTreeMap::new(),
            stream: None,
        })
    }

    fn remote(&self, name: &ModelName, access: Access) -> Result<Remote, ModelError> {
        let Access { wire, dialect, base, official, key, key_var, headers, stream } = access;
        let form = Form::new(wire, dialect, name.provider(), name.model()).official(official);
        let url = address(name.provider(), &base, form.wire())?;
        let secrets = key.iter().chain(headers.values()).cloned();
        let secrets = secrets.chain(url.password().map(str::to_owned));
        let whom = Whom {
            name: name.as_str().into(),
            host: host(&url).into(),
            base: shown_base(&url).into(),
            key_var,
            idle: self.idle,
            secrets: Secrets::new(secrets),
            reached: Arc::default(),
        };
        Ok(Remote {
            transport: Arc::clone(&self.transport),
            headers: exchange::headers(&form, key.as_deref(), &headers, &whom)?,
            base: url,
            form,
            whom,
            stream: self.streaming && stream.unwrap_or(true),
        })
    }
}

/// Makes the error for a key that is neither set nor stored. `stored_as` is the name under which `llm-do keys set`
/// stores it.
fn missing_key(provider: &str, vars: &[&str], stored_as: &str) -> ModelError {
    let ModelError { kind, message, .. } = missing(provider, vars);
    ModelError::new(kind, format!("{message}; `llm-do keys set {stored_as}` stores one"))
}

fn missing(provider: &str, vars: &[&str]) -> ModelError {
    let text = format!("{provider}: {} is not set in the environment", vars.join(" or "));
    ModelError::new(ModelErrorKind::Auth, text)
}

/// Returns the base address: everything before the wire's own path, with a slash at the end.
fn address(provider: &str, base: &str, wire: Wire) -> Result<Url, ModelError> {
    let bad = |why: &str| {
        // Not quoted: people put passwords into addresses.
        let text =
            format!("{provider}: its base address is not usable: {why}; for example https://host.example/v1");
        ModelError::new(ModelErrorKind::BadRequest, text)
    };
    // `OLLAMA_HOST` is usually given without a scheme, and often as the address to listen on.
    let bare = wire == Wire::Ollama && !base.contains("://");
    let base =
        if bare { format!("http://{}", base.replace("0.0.0.0", "127.0.0.1")) } else { base.to_owned() };
    let mut url: Url = base.parse().map_err(|_| bad("it is no URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("it is neither http:// nor https://"));
    }
    if bare && url.port().is_none() {
        url.set_port(Some(11434)).map_err(|()| bad("it has no host"))?;
    }
    let mut path = url.path().trim_end_matches('/').to_owned();
    // Anthropic's own clients add the version, so the usual variable and common documentation omit it.
    let versioned =
        path.rsplit('/').next().is_some_and(|last| last.starts_with('v') && last[1..].parse::<u8>().is_ok());
    if wire == Wire::Anthropic && !versioned && !path.contains("/publishers") && !path.contains("/projects/")
    {
        path.push_str("/v1");
    }
    path.push('/');
    url.set_path(&path);
    Ok(url)
}

/// Returns an address without the parts that may be secret.
fn shown_base(url: &Url) -> String {
    format!("{}://{}{}", url.scheme(), host(url), url.path())
}

fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn same_host(own: &str, other: &str) -> bool {
    match (own.parse::<Url>(), other.parse::<Url>()) {
        (Ok(own), Ok(other)) => own.origin() == other.origin(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn providers(vars: &'static [(&'static str, &'static str)]) -> Providers {
        Providers::new(move |name| {
            vars.iter().find(|(var, _)| *var == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn failure(providers: &Providers, name: &str) -> ModelError {
        match providers.open(&name.parse().unwrap()) {
            Ok(_) => panic!("{name} opens"),
            Err(error) => error,
        }
    }

    #[test]
    fn a_missing_key_is_told_by_its_variable() {
        let error = failure(&providers(&[]), "anthropic:claude-haiku-4-5");
        assert_eq!(error.kind, ModelErrorKind::Auth);
        assert!(error.message.contains("ANTHROPIC_API_KEY"), "{error}");
        let empty = failure(&providers(&[("OPENAI_API_KEY", "  ")]), "openai:gpt-5-mini");
        assert!(empty.message.contains("OPENAI_API_KEY"), "{empty}");
        let vertex = failure(&providers(&[("VERTEX_API_KEY", "k")]), "vertex:gemini-3-flash");
        assert!(vertex.message.contains("VERTEX_PROJECT_ID"), "{vertex}");
        let custom =
            CustomProvider { api_key_env: Some("GATEWAY_KEY".into()), ..CustomProvider::new("http://h/v1") };
        let error = failure(&providers(&[]).custom("gateway", custom), "gateway:m");
        assert!(error.message.contains("GATEWAY_KEY"), "{error}");
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_told_by_its_name_alone() {
        let broken = failure(&providers(&[("OPENAI_API_KEY", "half\na key")]), "openai:gpt-5-mini");
        assert_eq!(broken.kind, ModelErrorKind::BadRequest);
        assert!(broken.message.contains("`authorization`") && !broken.message.contains("half"), "{broken}");
        let mut custom = CustomProvider::new("http://h/v1");
        custom.headers.insert("x team".into(), "blue".into());
        let error = failure(&providers(&[]).custom("gateway", custom), "gateway:m");
        assert!(error.message.contains("`x team` has a name"), "{error}");
    }

    #[test]
    fn a_base_address_that_is_none_is_told_before_a_missing_key() {
        for base in ["localhost:8000/v1", "gateway.example/v1", "ftp://x/v1"] {
            let env = move |name: &str| (name == "OPENAI_BASE_URL").then(|| base.to_owned());
            let error = failure(&Providers::new(env), "openai:m");
            assert!(error.message.contains("openai (OPENAI_BASE_URL): its base address"), "{error}");
            assert!(!error.message.contains("OPENAI_API_KEY"), "{error}");
        }
    }

    #[test]
    fn an_unknown_provider_is_told_with_its_neighbours_and_the_list() {
        let error = failure(&providers(&[]), "antropic:claude");
        assert_eq!(error.kind, ModelErrorKind::NotFound);
        assert!(error.message.contains("Did you mean `anthropic`?"), "{error}");
        for name in ["openai", "ollama", "script", "bedrock"] {
            assert!(error.message.contains(name), "{error}");
        }
        assert!(!failure(&providers(&[]), "zzzzzzzzzz:m").message.contains("Did you mean"));
    }

    #[test]
    fn every_known_provider_opens_with_its_key_under_each_of_its_names() {
        let all = Providers::new(|name| match name {
            "VERTEX_PROJECT_ID" => Some("p".into()),
            _ if name.ends_with("_BASE_URL") || name.ends_with("_HOST") || name.ends_with("_BASE") => None,
            "AWS_REGION" | "AWS_DEFAULT_REGION" | "VERTEX_LOCATION" => None,
            _ => Some("key-of-tests".into()),
        });
        for known in KNOWN {
            let aliases = PROVIDER_ALIASES.iter().filter(|(_, name)| *name == known.name);
            for name in std::iter::once(known.name).chain(aliases.map(|(alias, _)| *alias)) {
                let model = all.open(&format!("{name}:claude-x").parse().unwrap());
                assert!(model.is_ok(), "{name}: {:?}", model.err());
            }
            let base = known.base(&|name| all.var(name)).unwrap();
            assert!(base.ends_with('/') && !base.contains('{'), "{base}");
        }
        let mut names: Vec<_> = KNOWN
            .iter()
            .map(|known| known.name)
            .chain(PROVIDER_ALIASES.iter().map(|(alias, _)| *alias))
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "names are unique");
        for (alias, name) in PROVIDER_ALIASES {
            assert!(KNOWN.iter().any(|known| known.name == *name), "{alias} is a name of {name}");
        }
    }

    #[test]
    fn addresses_get_what_their_wire_needs() {
        for (wire, given, used) in [
            (Wire::OpenAi, "http://h:1/v1", "http://h:1/v1/"),
            (Wire::OpenAi, "http://h:1", "http://h:1/"),
            (Wire::OpenAi, "https://h/v1/?api-version=2", "https://h/v1/?api-version=2"),
            (Wire::Anthropic, "http://h:1", "http://h:1/v1/"),
            (Wire::Anthropic, "http://h:1/v1/", "http://h:1/v1/"),
            (Wire::Anthropic, "https://h/anthropic", "https://h/anthropic/v1/"),
            (Wire::Ollama, "0.0.0.0:11434", "http://127.0.0.1:11434/"),
            (Wire::Ollama, "box", "http://box:11434/"),
            (Wire::Ollama, "https://box/x", "https://box/x/"),
        ] {
            assert_eq!(address("p", given, wire).unwrap().as_str(), used, "{given}");
        }
        for bad in ["", "nonsense", "ftp://h/", "file:///etc/passwd"] {
            assert!(address("p", bad, Wire::OpenAi).is_err(), "{bad}");
        }
        let secret = address("p", "ftp://user:hunter22@h/", Wire::OpenAi).unwrap_err();
        assert!(!secret.message.contains("hunter22"));
    }

    #[test]
    fn native_schemas_are_claimed_only_where_they_are_kept() {
        let vars: &'static [_] = &[
            ("OPENAI_API_KEY", "k"),
            ("GEMINI_API_KEY", "k"),
            ("ANTHROPIC_API_KEY", "k"),
            ("GROQ_API_KEY", "k"),
        ];
        let own = providers(vars);
        let native = |providers: &Providers, name: &str| {
            providers.open(&name.parse().unwrap()).unwrap().capabilities().native_schema
        };
        for name in ["openai:gpt-5-mini", "openai:gpt-4o", "openai_resp:gpt-5", "gemini:gemini-3-flash"] {
            assert!(native(&own, name), "{name}");
        }
        for name in [
            "openai:gpt-4-turbo",
            "gemini:gemini-2.5-flash",
            "anthropic:claude-sonnet-4-5",
            "groq:openai/gpt-oss-20b",
            "ollama:qwen3",
        ] {
            assert!(!native(&own, name), "{name}");
        }
        let elsewhere = Providers::new(|name| match name {
            "OPENAI_API_KEY" => Some("k".into()),
            "OPENAI_BASE_URL" => Some("http://127.0.0.1:8000/v1".into()),
            _ => None,
        });
        assert!(!native(&elsewhere, "openai:gpt-5-mini"));
    }

    #[test]
    fn settings_a_provider_has_not_are_refused_with_the_reason() {
        use llm_do_core::model::ModelSettings;
        let all = Providers::new(|name| name.ends_with("_KEY").then(|| "k".to_owned()));
        let refused = |name: &str, settings: &ModelSettings| {
            all.open(&name.parse().unwrap()).unwrap().refused_settings(settings)
        };
        let seed = ModelSettings { seed: Some(1), ..ModelSettings::default() };
        assert!(refused("anthropic:claude-haiku-4-5", &seed)[0].contains("seed"));
        assert!(refused("openai:gpt-5-mini", &seed).is_empty());
        let stop = ModelSettings { stop: vec!["x".into()], ..ModelSettings::default() };
        assert!(refused("openai_resp:gpt-5", &stop)[0].contains("stop"));
        let effort =
            |text: &str| ModelSettings { reasoning_effort: Some(text.into()), ..ModelSettings::default() };
        assert!(refused("openai:gpt-5-mini", &effort("2000"))[0].contains("not a number"));
        assert!(refused("anthropic:claude-haiku-4-5", &effort("2000")).is_empty());
        assert!(refused("anthropic:claude-haiku-4-5", &effort("lots"))[0].contains("lots"));
        assert!(refused("cohere:command-r", &effort("low"))[0].contains("no such setting"));
    }

    #[test]
    fn nothing_about_a_provider_prints_its_secrets() {
        let custom = CustomProvider {
            headers: BTreeMap::from([("x-key".to_owned(), "hunter22".to_owned())]),
            ..CustomProvider::new("https://u:hunter22@h/v1")
        };
        assert!(!format!("{custom:?}").contains("hunter22"));
        let providers = providers(&[("OPENAI_API_KEY", "hunter22")]).custom("gw", custom);
        assert!(!format!("{providers:?}").contains("hunter22"));
    }

    #[test]
    fn a_model_is_opened_once_and_a_registered_provider_makes_its_own() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let made = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&made);
        let providers = providers(&[("OPENAI_API_KEY", "k")]).with("local", move |name| {
            count.fetch_add(1, Ordering::Relaxed);
            Err(ModelError::new(ModelErrorKind::NotFound, format!("no weights for {}", name.model())))
        });
        assert!(failure(&providers, "local:m").message.contains("no weights for m"));
        assert_eq!(made.load(Ordering::Relaxed), 1);
        let name = "openai:gpt-5-mini".parse().unwrap();
        assert!(Arc::ptr_eq(&providers.open(&name).unwrap(), &providers.open(&name).unwrap()));
    }
}
