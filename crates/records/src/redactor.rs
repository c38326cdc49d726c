//! Redaction of secrets in records and output.

mod stream;
mod views;

pub use stream::Stream;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use llm_do_core::redact::Redact;
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::HashSet, ffi::OsString, fmt, ops::Range};
use views::{View, views};

/// Length of the shortest values that are redacted, in bytes. Shorter ones would match innocent text.
pub const SHORTEST_SECRET: usize = 8;

/// Replaces secret values by `[secret NAME]`.
///
/// A value is found in plain form, as a JSON number, escaped in a JSON string (also in one within another),
/// percent-encoded, and in Base64 at any alignment (as part of an `Authorization: Basic` header, for example), with or
/// without line breaks. In Base64 it is replaced by as many letters of `SECRET`, so that the text around it can still
/// be decoded.
#[derive(Default)]
pub struct Redactor {
    found: Option<Found>,
}

struct Found {
    /// Finds the forms.
    search: AhoCorasick,
    /// The forms, in the order of the search's patterns.
    forms: Vec<Form>,
    /// Length of the longest form, in bytes.
    longest: usize,
}

/// A form of a secret.
struct Form {
    text: String,
    /// The replacement; `None` for Base64, of which each character is replaced by a letter.
    label: Option<String>,
}

/// A secret in a text.
struct Match {
    range: Range<usize>,
    form: usize,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms = self.found.as_ref().map_or(0, |found| found.forms.len());
        f.debug_struct("Redactor").field("forms", &forms).finish_non_exhaustive()
    }
}

impl Found {
    fn matches<'a>(&'a self, view: &'a View<'_>) -> impl Iterator<Item = Match> + 'a {
        let found = self.search.find_iter(view.bytes());
        let found = found.map(|found| (found.pattern().as_usize(), found.range()));
        // White space belongs to a plain value, and means nothing in Base64.
        let fits = |form: &usize| !view.is_compact() || self.forms[*form].label.is_none();
        found
            .filter(move |(form, _)| fits(form))
            .map(|(form, range)| Match { range: view.original(range), form })
    }

    fn is_in(&self, text: &[u8]) -> bool {
        views(text, false).iter().any(|view| self.matches(view).next().is_some())
    }

    /// Returns the secrets of a text in order, without overlaps.
    fn all(&self, text: &str) -> Vec<Match> {
        let views = views(text.as_bytes(), true);
        let mut all: Vec<Match> = views.iter().flat_map(|view| self.matches(view)).collect();
        all.sort_by(|a, b| a.range.start.cmp(&b.range.start).then(b.range.end.cmp(&a.range.end)));
        let mut end = 0;
        all.retain(|found| {
            let free = found.range.start >= end;
            if free {
                end = found.range.end;
            }
            free
        });
        all
    }

    /// Appends the replacement of a match.
    fn replace(&self, text: &str, form: usize, out: &mut String) {
        match &self.forms[form].label {
            Some(label) => out.push_str(label),
            None => {
                let mut letters = "SECRET".chars().cycle();
                let mut rest = text.chars().peekable();
                while let Some(c) = rest.next() {
                    match c {
                        // An escaped line break.
                        '\\' => out.extend(['\\'].into_iter().chain(rest.next())),
                        c if c.is_whitespace() => out.push(c),
                        _ => out.extend(letters.next()),
                    }
                }
            }
        }
    }
}

impl Redactor {
    /// Redacts these values, given as pairs of name and value. Values are trimmed; those shorter than
    /// [`SHORTEST_SECRET`] bytes are ignored. Of two names for one value the first is used.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut seen = HashSet::new();
        let mut forms = Vec::new();
        for (name, value) in secrets {
            let value = value.trim();
            if value.len() < SHORTEST_SECRET {
                continue;
            }
            let plain = Form { text: value.to_owned(), label: Some(format!("[secret {name}]")) };
            let encoded = base64_forms(value.as_bytes()).map(|text| Form { text, label: None });
            forms.extend(std::iter::once(plain).chain(encoded).filter(|form| seen.insert(form.text.clone())));
        }
        if forms.is_empty() {
            return Self::default();
        }
        let search = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(forms.iter().map(|form| &form.text))
            .expect("an environment is far smaller than what an automaton can hold");
        let longest = forms.iter().map(|form| form.text.len()).max().unwrap_or_default();
        Self { found: Some(Found { search, forms, longest }) }
    }

    /// Redacts the values of those environment variables whose names are names of secrets ([`is_secret_name`]), and
    /// `others` (keys of providers, headers).
    pub fn for_environment(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        others: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        Self::new(others.into_iter().chain(secret_variables(variables)))
    }

    /// Returns the text without the secrets.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(found) = &self.found else { return Cow::Borrowed(text) };
        if !found.is_in(text.as_bytes()) {
            return Cow::Borrowed(text);
        }
        let all = found.all(text);
        let (mut out, mut end) = (String::with_capacity(text.len()), 0);
        for Match { range, form } in all {
            out.push_str(&text[end..range.start]);
            found.replace(&text[range.clone()], form, &mut out);
            end = range.end;
        }
        out.push_str(&text[end..]);
        Cow::Owned(out)
    }

    /// Returns true if serialised JSON may hold a secret. If false, it holds none.
    pub(crate) fn suspects(&self, json: &[u8]) -> bool {
        self.found.as_ref().is_some_and(|found| found.is_in(json))
    }

    /// Returns the number as a redacted text, if it is a secret.
    fn number(&self, number: &serde_json::Number) -> Option<String> {
        let text = number.to_string();
        match self.redact(&text) {
            Cow::Owned(redacted) => Some(redacted),
            Cow::Borrowed(_) => None,
        }
    }

    fn is_in(&self, value: &Value) -> bool {
        let Some(found) = &self.found else { return false };
        let holds = |text: &str| found.is_in(text.as_bytes());
        match value {
            Value::String(text) => holds(text),
            Value::Number(number) => self.number(number).is_some(),
            Value::Array(items) => items.iter().any(|item| self.is_in(item)),
            Value::Object(fields) => fields.iter().any(|(key, item)| holds(key) || self.is_in(item)),
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Returns the value without the secrets, in strings and keys, wherever `sound` still holds for the result. A
    /// secret may equal a word of the format itself (`TOKEN=assistant`). Such words stay: they reveal nothing, and
    /// without them the record could not be read back.
    pub(crate) fn redact_value(&self, value: &Value, sound: &dyn Fn(&Value) -> bool) -> Value {
        let places = self.walk(value, &mut |_| true).1;
        let mut chosen = vec![false; places];
        self.choose(value, sound, &mut chosen, 0..places);
        self.chosen(value, &chosen)
    }

    /// Chooses all places of the range if the result is sound, else bisects the range: few places are unsound.
    fn choose(
        &self,
        value: &Value,
        sound: &dyn Fn(&Value) -> bool,
        chosen: &mut [bool],
        range: Range<usize>,
    ) {
        chosen[range.clone()].fill(true);
        if range.is_empty() || sound(&self.chosen(value, chosen)) {
            return;
        }
        chosen[range.clone()].fill(false);
        if range.len() > 1 {
            let middle = range.start + range.len() / 2;
            self.choose(value, sound, chosen, range.start..middle);
            self.choose(value, sound, chosen, middle..range.end);
        }
    }

    fn chosen(&self, value: &Value, chosen: &[bool]) -> Value {
        self.walk(value, &mut |place| chosen[place]).0
    }

    /// Returns the value with those places replaced for which `choose` holds, and the number of places.
    fn walk(&self, value: &Value, choose: &mut dyn FnMut(usize) -> bool) -> (Value, usize) {
        struct Walk<'a> {
            redactor: &'a Redactor,
            choose: &'a mut dyn FnMut(usize) -> bool,
            places: usize,
        }
        impl Walk<'_> {
            fn text(&mut self, text: &str) -> String {
                match self.redactor.redact(text) {
                    Cow::Borrowed(same) => same.to_owned(),
                    Cow::Owned(redacted) => {
                        if self.chosen() {
                            redacted
                        } else {
                            text.to_owned()
                        }
                    }
                }
            }
            fn value(&mut self, value: &Value) -> Value {
                match value {
                    Value::String(text) => Value::String(self.text(text)),
                    Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
                    Value::Object(fields) => {
                        let mut out = Map::new();
                        for (key, item) in fields {
                            let key = self.text(key);
                            out.insert(key, self.value(item));
                        }
                        Value::Object(out)
                    }
                    Value::Number(number) => match self.redactor.number(number) {
                        Some(redacted) if self.chosen() => Value::String(redacted),
                        _ => value.clone(),
                    },
                    Value::Null | Value::Bool(_) => value.clone(),
                }
            }
            /// Returns true if the next place is to be replaced.
            fn chosen(&mut self) -> bool {
                self.places += 1;
                (self.choose)(self.places - 1)
            }
        }
        let mut walk = Walk { redactor: self, choose, places: 0 };
        let out = walk.value(value);
        (out, walk.places)
    }
}

impl Redact for Redactor {
    fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redact(text)
    }
    fn value(&self, value: Value) -> Value {
        if self.is_in(&value) { self.redact_value(&value, &|_| true) } else { value }
    }
}

/// Returns true if an environment variable of that name holds a secret, judged by its name: `*_KEY`, `*_TOKEN`,
/// `*_SECRET`, `*PASSWORD*` and similar names, in any case.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let last = name.rsplit('_').next().unwrap_or(&name);
    ["TOKEN", "SECRET", "APIKEY", "PASSPHRASE", "PASSWD", "AUTHORIZATION"]
        .iter()
        .any(|end| last.ends_with(end))
        || matches!(last, "KEY" | "PASS" | "PAT")
        || name.contains("PASSWORD")
        || name.contains("SECRET_")
}

/// Returns the variables that hold secrets, judged by their names. Values that are not UTF-8 can't appear in a record.
fn secret_variables(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (String, String)> {
    variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| is_secret_name(name))
}

/// Returns the forms of the bytes inside the Base64 of a longer value. The characters at either end also encode their
/// neighbours and are left out.
fn base64_forms(bytes: &[u8]) -> impl Iterator<Item = String> {
    let forms = [0, 1, 2].map(|before| {
        let mut padded = vec![0; before];
        padded.extend_from_slice(bytes);
        let whole = (before * 8).div_ceil(6)..padded.len() * 8 / 6;
        [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)]
            .map(|form| form[whole.clone()].to_owned())
    });
    forms.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    fn redactor(secrets: &[(&str, &str)]) -> Redactor {
        Redactor::new(secrets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn values_are_replaced_wherever_they_stand() {
        let r = redactor(&[("API_KEY", "sk-live-123456"), ("LONGER", "sk-live-1234567890")]);
        assert_eq!(r.redact("Bearer sk-live-123456,"), "Bearer [secret API_KEY],");
        assert_eq!(r.redact("sk-live-1234567890sk-live-123456"), "[secret LONGER][secret API_KEY]");
        assert!(matches!(r.redact("nothing of the kind"), Cow::Borrowed(_)));
    }

    #[test]
    fn short_values_and_no_values_change_nothing() {
        assert_eq!(redactor(&[("A_KEY", "1234567"), ("B_KEY", "")]).redact("1234567"), "1234567");
        assert!(!Redactor::default().suspects(b"anything"));
    }

    #[test]
    fn escaped_values_are_found_in_json_and_in_json_within_json() {
        let secret = "pa\"ss\\wo\nrd";
        let r = redactor(&[("DB_PASSWORD", secret)]);
        let once = json!({ "a": secret }).to_string();
        assert_eq!(r.redact(&once), r#"{"a":"[secret DB_PASSWORD]"}"#);
        assert!(r.suspects(once.as_bytes()));
        let twice = json!({ "text": once }).to_string();
        assert!(r.suspects(twice.as_bytes()));
    }

    #[test]
    fn escaped_and_encoded_values_are_found() {
        let secret = "pä/ss wörd+1";
        let r = redactor(&[("KEY", secret)]);
        for text in [
            r#"{"a": "p\u00e4\/ss w\u00F6rd+1!"}"#,
            r#"{\"a\": \"p\\u00e4\\/ss w\\u00f6rd+1!\"}"#,
            r"\u0070\u00e4\u002fss wörd+1!",
            "GET /?key=p%C3%A4%2Fss%20w%c3%b6rd%2B1!",
        ] {
            let redacted = r.redact(text);
            assert!(redacted.contains("[secret KEY]!"), "{redacted}");
            assert!(r.suspects(json!(text).to_string().as_bytes()), "{text}");
        }
        for innocent in [r"C:\users\new \u12", "100 % of p", r"\"] {
            assert!(matches!(r.redact(innocent), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn base64_with_line_breaks_is_found_and_keeps_them() {
        let secret = "a rather long secret that does not fit into one line of base64 of a mail at all, since it has 100";
        let r = redactor(&[("KEY", secret)]);
        let encoded = STANDARD.encode(format!("user:{secret} and more"));
        for end in ["\n", "\r\n", "\n    ", "\\n", "\\r\\n"] {
            let lines: Vec<&str> =
                encoded.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
            let text = format!("before {}", lines.join(end));
            let redacted = r.redact(&text);
            assert_eq!(redacted.matches(end).count(), lines.len() - 1, "{redacted}");
            let joined: String = redacted["before ".len()..].replace(end, "");
            let decoded = STANDARD.decode(joined.as_bytes()).unwrap();
            let decoded = String::from_utf8_lossy(&decoded);
            assert!(decoded.starts_with("user") && decoded.ends_with("and more"), "{decoded}");
            assert!(!decoded.contains("long secret"), "{decoded}");
        }
    }

    #[test]
    fn base64_is_found_at_every_alignment_and_stays_base64() {
        let secret = "hunter2?>hunter2";
        let r = redactor(&[("TOKEN", secret)]);
        for before in ["", "u", "us", "use", "user:"] {
            for engine in [&STANDARD, &base64::engine::general_purpose::URL_SAFE] {
                let encoded = engine.encode(format!("{before}{secret} and more"));
                let redacted = r.redact(&encoded);
                assert_ne!(redacted, encoded);
                let decoded = engine.decode(redacted.as_bytes()).unwrap();
                assert!(decoded.starts_with(before.as_bytes()) && decoded.ends_with(b" and more"));
                let text = String::from_utf8_lossy(&decoded);
                assert!(!text.contains("hunter2?>"), "{text}");
            }
        }
    }

    #[test]
    fn values_are_cleaned_wherever_they_hold_a_secret() {
        let secrets = [("TOKEN", "hunter2hunter2"), ("PIN", "1234567890"), ("FLOAT", "12345678.5")];
        let r = redactor(&secrets);
        for (dirty, clean) in [
            (json!("hunter2hunter2"), json!("[secret TOKEN]")),
            (json!([[1, "hunter2hunter2"]]), json!([[1, "[secret TOKEN]"]])),
            (json!({ "a": { "hunter2hunter2": null } }), json!({ "a": { "[secret TOKEN]": null } })),
            (json!({ "a": [1.5, null, "hunter2"] }), json!({ "a": [1.5, null, "hunter2"] })),
            (json!({ "pin": 1234567890, "not": 123 }), json!({ "pin": "[secret PIN]", "not": 123 })),
            (json!([12345678.5]), json!(["[secret FLOAT]"])),
        ] {
            assert_eq!(Redact::value(&r, dirty), clean);
        }
    }

    #[test]
    fn words_of_the_format_stay_where_it_needs_them() {
        let r = redactor(&[("TOKEN", "assistant")]);
        let value = json!({ "role": "assistant", "text": "my assistant", "list": ["assistant"] });
        let sound = |v: &Value| v["role"] == "assistant";
        assert_eq!(
            r.redact_value(&value, &sound),
            json!({ "role": "assistant", "text": "my [secret TOKEN]", "list": ["[secret TOKEN]"] })
        );
    }

    #[test]
    fn names_tell_which_variables_are_secret() {
        for name in
            ["OPENAI_API_KEY", "GITHUB_TOKEN", "aws_secret_access_key", "PGPASSWORD", "TOKEN", "X_SECRET"]
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in
            ["PATH", "PWD", "KEYBOARD", "SSH_AUTH_SOCK", "MONKEY", "HOME", "SSH_ASKPASS", "PATH_KEYS_DIR"]
        {
            assert!(!is_secret_name(name), "{name}");
        }
    }
}
