//! Redaction of secrets in records and output.

use aho_corasick::{AhoCorasick, MatchKind};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use llm_do_core::redact::Redact;
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::HashSet, ffi::OsString, fmt, ops::Range};

/// Shorter values are not redacted: they would match innocent text.
pub const SHORTEST_SECRET: usize = 8;

/// Replaces secret values by `[secret NAME]`.
///
/// A value is found in plain form, escaped in a JSON string, and in Base64 at any alignment (as part of an
/// `Authorization: Basic` header, for example). In Base64 it is replaced by as many letters of `SECRET`, so that the
/// text around it can still be decoded.
#[derive(Default)]
pub struct Redactor {
    found: Option<Found>,
}

struct Found {
    /// Finds the forms in plain text.
    text: AhoCorasick,
    /// Finds the forms in serialised JSON, where each is escaped once more.
    json: AhoCorasick,
    /// The replacement of each form.
    replacements: Vec<String>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms = self.found.as_ref().map_or(0, |found| found.replacements.len());
        f.debug_struct("Redactor").field("forms", &forms).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Redacts these values, given as pairs of name and value. Values are trimmed; those shorter than
    /// [`SHORTEST_SECRET`] bytes are ignored. Of two names for one value the first is used.
    pub fn new(secrets: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut seen = HashSet::new();
        let (mut forms, mut replacements) = (Vec::new(), Vec::new());
        for (name, value) in secrets {
            let value = value.trim();
            if value.len() < SHORTEST_SECRET {
                continue;
            }
            let label = format!("[secret {name}]");
            let plain = [value.to_owned(), json_escaped(value)].map(|form| (form, label.clone()));
            let encoded = base64_forms(value.as_bytes()).map(|form| {
                let filler = "SECRET".chars().cycle().take(form.len()).collect();
                (form, filler)
            });
            for (form, replacement) in plain.into_iter().chain(encoded) {
                if seen.insert(form.clone()) {
                    forms.push(form);
                    replacements.push(replacement);
                }
            }
        }
        if forms.is_empty() {
            return Self::default();
        }
        let search = |forms: &[String]| {
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(forms)
                .expect("an environment is far smaller than what an automaton can hold")
        };
        let escaped: Vec<String> = forms.iter().map(|form| json_escaped(form)).collect();
        Self { found: Some(Found { text: search(&forms), json: search(&escaped), replacements }) }
    }

    /// Redacts the values of those environment variables whose names are names of secrets ([`is_secret_name`]), and
    /// `others` (keys of providers, headers).
    pub fn for_environment(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        others: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        Self::new(others.into_iter().chain(secret_variables(variables)))
    }

    /// The text without the secrets.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match &self.found {
            Some(found) if found.text.is_match(text) => {
                Cow::Owned(found.text.replace_all(text, &found.replacements))
            }
            _ => Cow::Borrowed(text),
        }
    }

    /// Whether serialised JSON may hold a secret. False: it holds none.
    pub(crate) fn suspects(&self, json: &[u8]) -> bool {
        self.found.as_ref().is_some_and(|found| found.json.is_match(json))
    }

    fn is_in(&self, value: &Value) -> bool {
        let Some(found) = &self.found else { return false };
        match value {
            Value::String(text) => found.text.is_match(text),
            Value::Array(items) => items.iter().any(|item| self.is_in(item)),
            Value::Object(fields) => {
                fields.iter().any(|(key, item)| found.text.is_match(key) || self.is_in(item))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// The value without the secrets, in strings and keys, wherever `sound` still holds for the result. A secret may
    /// equal a word of the format itself (`TOKEN=assistant`). Such words stay: they reveal nothing, and without them the
    /// record could not be read back.
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

    /// The value with those places replaced for which `choose` holds, and the number of places.
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
                        self.places += 1;
                        if (self.choose)(self.places - 1) { redacted } else { text.to_owned() }
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
                    Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
                }
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

/// Whether an environment variable of that name holds a secret, judged by its name: `*_KEY`, `*_TOKEN`, `*_SECRET`,
/// `*PASSWORD*` and their like, in any case.
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

/// The variables that hold secrets, judged by their names. Values that are not UTF-8 can't appear in a record.
fn secret_variables(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (String, String)> {
    variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| is_secret_name(name))
}

/// The text as it stands between the quotes of a JSON string.
fn json_escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The forms of the bytes inside the Base64 of a longer value. The characters at either end also encode their neighbours
/// and are left out.
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
        let r = redactor(&[("TOKEN", "hunter2hunter2")]);
        for (dirty, clean) in [
            (json!("hunter2hunter2"), json!("[secret TOKEN]")),
            (json!([[1, "hunter2hunter2"]]), json!([[1, "[secret TOKEN]"]])),
            (json!({ "a": { "hunter2hunter2": null } }), json!({ "a": { "[secret TOKEN]": null } })),
            (json!({ "a": [1.5, null, "hunter2"] }), json!({ "a": [1.5, null, "hunter2"] })),
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
