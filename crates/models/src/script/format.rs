//! The file format of scripts.

use llm_do_core::model::{FinishReason, ModelError, ModelErrorKind, Purpose, Usage};
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;
use serde_saphyr::{Error, Spanned};
use std::time::Duration;
#[cfg(not(target_arch = "wasm32"))]
use std::{fs::File, io::Read as _};

/// Longest script, in bytes.
#[cfg(not(target_arch = "wasm32"))]
const LONGEST: u64 = 16 << 20;

/// A script: the first entry that fits a request answers it.
#[derive(Debug)]
pub(super) struct Script {
    /// The path as it was given.
    pub(super) path: String,
    pub(super) answers: Vec<Entry>,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    answers: Vec<Spanned<WrittenEntry>>,
}

/// An entry as it is written. Flat, since serde can't both flatten and refuse unknown keys.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenEntry {
    #[serde(default)]
    when: When,
    times: Option<u32>,
    delay_ms: Option<u64>,
    stream: Option<WrittenStream>,
    error: Option<WrittenFailure>,
    text: Option<String>,
    json: Option<Value>,
    reasoning: Option<String>,
    #[serde(default)]
    calls: Vec<Call>,
    finish: Option<FinishReason>,
    usage: Option<Tokens>,
}

/// An entry: its conditions, and its answer.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) when: When,
    /// The number of times that the entry answers one conversation; unlimited if not given.
    pub(super) times: Option<u32>,
    pub(super) delay: Duration,
    pub(super) stream: Stream,
    pub(super) error: Option<Failure>,
    pub(super) answer: Answer,
}

/// Conditions, all of which must hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct When {
    pub(super) worker: Option<String>,
    pub(super) turn: Option<u32>,
    /// The purpose of requests that the entry answers. By default, entries answer turns of conversations.
    #[serde(default)]
    pub(super) purpose: Purpose,
    pub(super) last: Option<String>,
    pub(super) last_regex: Option<Regex>,
}

/// A regular expression.
#[derive(Debug)]
pub(super) struct Regex(pub(super) regex::Regex);

impl<'de> Deserialize<'de> for Regex {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        regex::Regex::new(&text).map(Self).map_err(|error| D::Error::custom(format!("bad regex: {error}")))
    }
}

/// The content of an answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) reasoning: Option<String>,
    pub(super) text: Option<String>,
    pub(super) json: Option<Value>,
    pub(super) calls: Vec<Call>,
    pub(super) finish: Option<FinishReason>,
    pub(super) usage: Option<Tokens>,
}

/// A tool call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) tool: String,
    pub(super) id: Option<String>,
    pub(super) arguments: Option<Value>,
    /// Text instead of a value, for example invalid JSON.
    pub(super) raw_arguments: Option<String>,
}

/// Token counts. The port's own type takes unknown keys.
#[derive(Debug)]
pub(super) struct Tokens(pub(super) Usage);

impl<'de> Deserialize<'de> for Tokens {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            input_tokens: Option<u64>,
            cached_tokens: Option<u64>,
            cache_write_tokens: Option<u64>,
            output_tokens: Option<u64>,
        }
        let Written { input_tokens, cached_tokens, cache_write_tokens, output_tokens } =
            Written::deserialize(input)?;
        let usage = Usage {
            input_tokens,
            cached_tokens,
            cache_write_tokens,
            output_tokens,
            server_uses: None,
            cost_usd: None,
        };
        Ok(Self(usage))
    }
}

/// The way in which text is streamed.
#[derive(Debug)]
pub(super) struct Stream {
    /// Characters in a piece, at least one.
    pub(super) chars: usize,
    pub(super) pause: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenStream {
    chars: usize,
    #[serde(default)]
    pause_ms: u64,
}

/// A request that fails.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: ModelErrorKind,
    pub(super) message: Option<String>,
    pub(super) retry_after_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFailure {
    kind: Option<ModelErrorKind>,
    status: Option<u16>,
    message: Option<String>,
    retry_after_ms: Option<u64>,
}

/// Returns true if the text has anything to render.
pub(super) fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%") || text.contains("{#")
}

impl Script {
    /// Reads a script. `check` returns the error of a template.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn read(path: &str, check: &dyn Fn(&str) -> Result<(), String>) -> Result<Self, ModelError> {
        let missing = |error: &dyn std::fmt::Display| {
            ModelError::new(
                ModelErrorKind::NotFound,
                format!("script:{path}: the file can't be read: {error}"),
            )
        };
        let mut text = String::new();
        // Opening a FIFO would wait for a writer.
        if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(missing(&"it is not a regular file"));
        }
        let file = File::open(path).map_err(|error| missing(&error))?;
        file.take(LONGEST + 1).read_to_string(&mut text).map_err(|error| missing(&error))?;
        if text.len() as u64 > LONGEST {
            return Err(missing(&"it is longer than 16 MiB"));
        }
        Self::from_text(path, &text, check)
    }

    /// Reads the text of a script.
    pub(super) fn from_text(
        path: &str,
        text: &str,
        check: &dyn Fn(&str) -> Result<(), String>,
    ) -> Result<Self, ModelError> {
        Self::parse(path, text, check)
            .map_err(|what| ModelError::new(ModelErrorKind::BadRequest, format!("script:{path}: {what}")))
    }

    fn parse(path: &str, text: &str, check: &dyn Fn(&str) -> Result<(), String>) -> Result<Self, String> {
        // As in worker files, `yes` and `n` are texts.
        let options = serde_saphyr::options! { strict_booleans: true };
        let written: Written =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| told(&error))?;
        let answers = written.answers.into_iter().map(|entry| {
            let line = entry.referenced.line();
            Entry::of(entry.value, check).map_err(|what| format!("line {line}: {what}"))
        });
        Ok(Self { path: path.to_owned(), answers: answers.collect::<Result<_, _>>()? })
    }
}

impl Entry {
    fn of(written: WrittenEntry, check: &dyn Fn(&str) -> Result<(), String>) -> Result<Self, String> {
        let WrittenEntry {
            when,
            times,
            delay_ms,
            stream,
            error,
            text,
            json,
            reasoning,
            calls,
            finish,
            usage,
        } = written;
        let says = text.is_some() || json.is_some() || reasoning.is_some() || !calls.is_empty();
        match &error {
            Some(_) if says || finish.is_some() || usage.is_some() => {
                return Err("an entry with `error` can't also answer".into());
            }
            None if !says => return Err("an entry needs `text`, `json`, `calls` or `error`".into()),
            _ => {}
        }
        if text.is_some() && json.is_some() {
            return Err("`text` and `json` exclude each other".into());
        }
        if times == Some(0) {
            return Err("`times: 0` is an entry that never answers".into());
        }
        for call in &calls {
            if call.arguments.is_some() && call.raw_arguments.is_some() {
                return Err(format!(
                    "call of `{}`: `arguments` and `raw_arguments` exclude each other",
                    call.tool
                ));
            }
        }
        let in_values = json.iter().chain(calls.iter().filter_map(|call| call.arguments.as_ref()));
        let mut templates: Vec<&str> =
            [&text, &reasoning].into_iter().flatten().map(String::as_str).collect();
        in_values.for_each(|value| strings(value, &mut templates));
        for template in templates.into_iter().filter(|text| is_template(text)) {
            check(template).map_err(|error| format!("template {template:?}: {error}"))?;
        }
        Ok(Self {
            when,
            times,
            delay: Duration::from_millis(delay_ms.unwrap_or(0)),
            stream: Stream::of(stream)?,
            error: error.map(Failure::of).transpose()?,
            answer: Answer { reasoning, text, json, calls, finish, usage },
        })
    }
}

impl Stream {
    fn of(written: Option<WrittenStream>) -> Result<Self, String> {
        match written {
            None => Ok(Self { chars: usize::MAX, pause: Duration::ZERO }),
            Some(WrittenStream { chars: 0, .. }) => Err("`stream.chars` is at least 1".into()),
            Some(WrittenStream { chars, pause_ms }) => {
                Ok(Self { chars, pause: Duration::from_millis(pause_ms) })
            }
        }
    }
}

impl Failure {
    fn of(written: WrittenFailure) -> Result<Self, String> {
        use ModelErrorKind as K;
        let WrittenFailure { kind, status, message, retry_after_ms } = written;
        let kind = match (kind, status) {
            (Some(kind), None) => kind,
            (None, Some(status)) => match status {
                429 => K::RateLimited,
                401 | 403 => K::Auth,
                404 => K::NotFound,
                408 => K::Timeout,
                500..=599 => K::Server,
                400..=499 => K::BadRequest,
                _ => return Err(format!("`status: {status}` is not an error status")),
            },
            _ => return Err("`error` needs either `kind` or `status`".into()),
        };
        Ok(Self { kind, message, retry_after_ms })
    }
}

fn strings<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => out.push(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
        Value::Object(map) => map.values().for_each(|value| strings(value, out)),
        _ => {}
    }
}

/// Returns a YAML error with its place, and the nearest name if a name is wrong.
fn told(error: &Error) -> String {
    let inner = error.without_snippet();
    let what = match inner {
        Error::SerdeUnknownField { field, expected, .. } => unknown("key", field, expected),
        Error::SerdeUnknownVariant { variant, expected, .. } => unknown("value", variant, expected),
        other => other.render_with_options(plain()),
    };
    match inner.location() {
        Some(place) => format!("line {}, column {}: {what}", place.line(), place.column()),
        None => what,
    }
}

fn plain() -> serde_saphyr::RenderOptions<'static> {
    serde_saphyr::RenderOptions::default()
}

fn unknown(what: &str, name: &str, expected: &[&'static str]) -> String {
    let near = expected.iter().map(|other| (strsim::damerau_levenshtein(name, other), other)).min();
    let hint = match near {
        Some((distance, near)) if distance <= 1 + near.len() / 3 => format!("; did you mean `{near}`?"),
        _ => String::from("."),
    };
    format!("unknown {what} `{name}`{hint} There are: {}", expected.join(", "))
}
