//! Converts failures of requests to the port's errors, without secrets.

use crate::transport::{SendError, SendErrorKind, is_loopback};
use http::{HeaderMap, StatusCode};
use llm_do_core::model::{ModelError, ModelErrorKind};
use llm_do_wire::Failure;
use serde_json::Value;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

/// Maximum excerpt of a server's answer in an error, in characters.
const EXCERPT: usize = 500;

/// Values that must never appear in output: keys, and the values of configured headers.
#[derive(Clone, Default)]
pub(crate) struct Secrets(Arc<[String]>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    pub(crate) fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut values: Vec<String> =
            values.into_iter().flat_map(|value| [value.trim().to_owned(), value]).collect();
        // Shorter values would match ordinary words. Longest first, so that a value inside another does not break the
        // longer match.
        values.retain(|value| value.len() >= 4);
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self(values.into())
    }

    fn scrub(&self, text: String) -> String {
        self.0.iter().fold(text, |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), "[secret]") } else { text }
        })
    }

    /// Returns a single line of bounded length. Secrets are removed before the text is cut, because a partial secret
    /// would not be recognised.
    fn excerpt(&self, text: &str) -> String {
        let text = self.scrub(text.to_owned());
        let words: Vec<&str> = text
            .split(|c: char| c.is_whitespace() || c.is_control())
            .filter(|word| !word.is_empty())
            .collect();
        let line = words.join(" ");
        match line.char_indices().nth(EXCERPT) {
            Some((end, _)) => format!("{} …", &line[..end]),
            None => line,
        }
    }
}

/// The model and endpoint of a failure.
#[derive(Clone, Debug)]
pub(crate) struct Whom {
    /// The name of the model, as `provider:model`.
    pub(crate) name: Arc<str>,
    /// Host and port of the endpoint.
    pub(crate) host: Arc<str>,
    /// The base address.
    pub(crate) base: Arc<str>,
    /// The variable with the key, if it takes one.
    pub(crate) key_var: Option<Arc<str>>,
    /// The idle timeout between two pieces of an answer.
    pub(crate) idle: Duration,
    pub(crate) secrets: Secrets,
    /// True if the endpoint has ever answered.
    pub(crate) reached: Arc<AtomicBool>,
}

impl Whom {
    /// Makes an error about this model, with secrets removed from its text.
    pub(crate) fn error(&self, kind: ModelErrorKind, what: &str) -> ModelError {
        ModelError::new(kind, self.secrets.scrub(format!("{}: {what}", self.name)))
    }

    /// Makes the error for a truncated answer.
    fn cut(&self) -> ModelError {
        self.error(ModelErrorKind::Network, "the stream was cut: it ended before the answer was complete")
    }

    /// Makes the error for an answer that the server has ended because of a failure.
    fn broken(&self, word: &str) -> ModelError {
        let word = self.secrets.excerpt(word);
        let what = format!("the answer broke off: the server ended it with the reason `{word}`");
        self.error(ModelErrorKind::Network, &what)
    }

    /// Makes the error for an answer that violates the interface.
    pub(crate) fn garbled(&self, cause: &dyn fmt::Display) -> ModelError {
        self.error(ModelErrorKind::Network, &format!("the answer is garbled: {cause}"))
    }

    /// Makes the error for an answer without data within the idle timeout.
    pub(crate) fn timeout(&self) -> ModelError {
        let what = format!("{} sent nothing for {} seconds", self.host, self.idle.as_secs_f32());
        self.error(ModelErrorKind::Timeout, &what)
    }

    /// Makes the error for an answer of another type than the interface's.
    fn not_json(&self, kind: &str) -> ModelError {
        let what = format!("{} answered with `{kind}`, not JSON; is the base address right?", self.host);
        self.error(ModelErrorKind::BadRequest, &what)
    }

    /// Makes the error for JSON of another service.
    fn foreign(&self) -> ModelError {
        let what = format!(
            "{} answered with JSON that is no answer of this interface; is the base address right?",
            self.host
        );
        self.error(ModelErrorKind::BadRequest, &what)
    }

    /// Converts the failure to read an answer.
    pub(crate) fn failed(&self, failure: Failure) -> ModelError {
        match failure {
            Failure::Reported(body) => self.event(&body),
            Failure::Garbled(cause) => self.garbled(&self.secrets.excerpt(&cause)),
            Failure::TooLong => self.garbled(&"it is longer than an answer may be"),
            Failure::Cut => self.cut(),
            Failure::Broken(word) => self.broken(&word),
            Failure::Foreign => self.foreign(),
            Failure::NotJson(kind) => self.not_json(&kind),
        }
    }

    /// Converts a failure of the transport.
    pub(crate) fn http(&self, error: &SendError) -> ModelError {
        let cause = self.secrets.excerpt(&error.cause);
        match error.kind {
            SendErrorKind::Timeout => self.timeout(),
            SendErrorKind::Connect => {
                let what = format!("cannot connect to {}: {cause}", self.host);
                // A server on this machine that has never answered is not running. To ask it again would only take time.
                if cause.contains("refused") && self.is_here() && !self.reached.load(Ordering::Relaxed) {
                    return self
                        .error(ModelErrorKind::NotFound, &format!("{what}; is a server running there?"));
                }
                self.error(ModelErrorKind::Network, &what)
            }
            SendErrorKind::Request => {
                self.error(ModelErrorKind::BadRequest, &format!("the request cannot be sent: {cause}"))
            }
            SendErrorKind::Broken => self
                .error(ModelErrorKind::Network, &format!("the connection to {} broke: {cause}", self.host)),
        }
    }

    /// Returns true if the endpoint is on this machine.
    fn is_here(&self) -> bool {
        self.base.parse().is_ok_and(|url| is_loopback(&url))
    }

    /// Converts a status that is no success.
    pub(crate) fn status(
        &self,
        status: StatusCode,
        body: &str,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> ModelError {
        self.reached.store(true, Ordering::Relaxed);
        let said = self.said(body);
        let kind = kind_of(status, body);
        let code = status.as_u16();
        let mut error = match (kind, code) {
            // A server's message about a key often quotes a part of it, which scrubbing can't recognise.
            (ModelErrorKind::Auth, 401) => self.error(kind, &self.refused_key(code)),
            (ModelErrorKind::Auth, _) if refuses_key(body) => self.error(kind, &self.refused_key(code)),
            (ModelErrorKind::Auth, _) => self.error(kind, &format!("refused ({code}): {said}")),
            (ModelErrorKind::NotFound, _) => {
                let what = format!(
                    "{} knows no such model or address ({code}): {said}; check the model's name and the base address, {}",
                    self.host, self.base
                );
                self.error(kind, &what)
            }
            (_, 300..=399) => {
                let what = format!(
                    "{} redirects ({code}); redirects are not followed, so give the final address as base address",
                    self.host
                );
                self.error(kind, &what)
            }
            (ModelErrorKind::RateLimited, _) => self.error(kind, &format!("rate limited ({code}): {said}")),
            (ModelErrorKind::ContextExceeded, _) => {
                let what = format!(
                    "the conversation is longer than the model's context window ({code}): {said}; send less, split the \
                     work between workers, or use a model with a larger window"
                );
                self.error(kind, &what)
            }
            (ModelErrorKind::Server | ModelErrorKind::Timeout, _) => {
                self.error(kind, &format!("the server failed ({code}): {said}"))
            }
            _ => self.error(kind, &format!("the request was refused ({code}): {said}")),
        };
        error.retry_after_ms = retry_after(headers, now).or_else(|| retry_in_body(body));
        error.status = Some(code);
        error
    }

    /// Returns the server's message, extracted from the JSON that most servers wrap it in.
    fn said(&self, body: &str) -> String {
        let said = serde_json::from_str::<Value>(body).ok().and_then(|value| {
            let value = if let Value::Array(mut items) = value { items.pop()? } else { value };
            ["/error/message", "/message", "/error", "/detail"]
                .iter()
                .find_map(|pointer| value.pointer(pointer)?.as_str().map(str::to_owned))
        });
        let said = self.secrets.excerpt(said.as_deref().unwrap_or(body));
        if said.is_empty() { "no reason given".into() } else { said }
    }

    fn refused_key(&self, code: u16) -> String {
        match &self.key_var {
            Some(var) => {
                format!(
                    "{} refused the key in {var} ({code}); check that it is whole and still valid",
                    self.host
                )
            }
            None => {
                format!(
                    "{} wants a key ({code}); name the variable that holds it with `api_key_env`",
                    self.host
                )
            }
        }
    }

    /// Converts an error in an event of a stream, or in the body of an answer with a success status.
    pub(crate) fn event(&self, body: &Value) -> ModelError {
        let inner = body.get("error").filter(|inner| inner.is_object()).unwrap_or(body);
        let word = |key: &str| inner.get(key).and_then(Value::as_str).unwrap_or_default();
        let text = body.to_string();
        let status = inner.get("code").and_then(Value::as_u64).and_then(|code| {
            StatusCode::from_u16(u16::try_from(code).ok()?).ok().filter(|status| status.as_u16() >= 400)
        });
        let kind = match status {
            Some(status) => kind_of(status, &text),
            None if exceeds_context(&text) => ModelErrorKind::ContextExceeded,
            None if refuses_key(&text) => return self.error(ModelErrorKind::Auth, &self.refused_key(401)),
            None => kind_of_word(&format!("{} {} {}", word("type"), word("code"), word("status"))),
        };
        let mut error = self.error(kind, &format!("the server reports an error: {}", self.said(&text)));
        error.status = status.map(|status| status.as_u16());
        error.retry_after_ms = retry_in_body(&text);
        error
    }
}

fn kind_of(status: StatusCode, body: &str) -> ModelErrorKind {
    use ModelErrorKind as K;
    match status.as_u16() {
        // Out of credit: a retry does not help.
        429 if body.contains("insufficient_quota") => K::Auth,
        429 => K::RateLimited,
        408 | 504 => K::Timeout,
        500..=599 => K::Server,
        401..=403 => K::Auth,
        404 | 410 => K::NotFound,
        400 | 413 | 422 if exceeds_context(body) => K::ContextExceeded,
        400 | 422 if refuses_key(body) => K::Auth,
        400 | 422 if knows_no_model(body) => K::NotFound,
        _ => K::BadRequest,
    }
}

fn kind_of_word(word: &str) -> ModelErrorKind {
    use ModelErrorKind as K;
    let has = |part: &str| word.contains(part);
    if has("rate_limit") || has("RESOURCE_EXHAUSTED") {
        K::RateLimited
    } else if has("authentication") || has("permission") || has("insufficient_quota") {
        K::Auth
    } else if has("not_found") {
        K::NotFound
    } else if has("invalid_request") || has("invalid_prompt") || has("INVALID_ARGUMENT") {
        K::BadRequest
    } else {
        // `overloaded_error`, `api_error`, `server_error`, and unknown types.
        K::Server
    }
}

/// Returns true if the body reports that the context is too long. Each provider words this differently, and none has a
/// separate status for it.
fn exceeds_context(body: &str) -> bool {
    says(
        body,
        &[
            "context_length_exceeded",
            "context_window",
            "context window",
            "context length",
            "context limit",
            "exceed_context_size",
            "available context size",
            "maximum prompt length",
            "maximum number of tokens allowed",
            "prompt is too long",
            "input is too long",
            "too many tokens",
            "input token count",
            "request_too_large",
        ],
    )
}

/// Returns true if the body reports a refused key. Gemini, xAI and some gateways send it with the status of a wrong
/// request.
fn refuses_key(body: &str) -> bool {
    says(
        body,
        &[
            "api_key_invalid",
            "api key not valid",
            "api key expired",
            "incorrect api key",
            "invalid api key",
            "invalid_api_key",
        ],
    )
}

/// Returns true if the body reports an unknown model. Mistral, OpenRouter, DeepSeek and Bedrock send it with the status
/// of a wrong request.
fn knows_no_model(body: &str) -> bool {
    says(
        body,
        &[
            "model_not_found",
            "invalid_model",
            "invalid model",
            "is not a valid model",
            "model not exist",
            "model not found",
            "model identifier is invalid",
        ],
    )
}

fn says(body: &str, signs: &[&str]) -> bool {
    let body = body.to_lowercase();
    signs.iter().any(|sign| body.contains(sign))
}

/// Reads `retry-after-ms`, or `retry-after` in seconds or as a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<u64> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let millis = |value: f64| (value.is_finite() && value >= 0.0).then_some(value.round() as u64);
    if let Some(ms) = text("retry-after-ms").and_then(|text| millis(text.parse().ok()?)) {
        return Some(ms);
    }
    let Some(after) = text("retry-after") else {
        // What is left is counted by requests and by tokens; the one that is used up says when there is more.
        let reset = |what: &str| {
            let used_up = text(&format!("x-ratelimit-remaining-{what}")) == Some("0");
            text(&format!("x-ratelimit-reset-{what}")).filter(|_| used_up).and_then(reset_ms)
        };
        return reset("requests").max(reset("tokens"));
    };
    if let Ok(seconds) = after.parse::<f64>() {
        return millis(seconds * 1000.0);
    }
    let date = httpdate::parse_http_date(after).ok()?;
    let wait = date.duration_since(now).unwrap_or_default();
    u64::try_from(wait.as_millis()).ok()
}

/// Returns the wait that a body requests, in milliseconds: Gemini's `RetryInfo`, and the members that gateways use
/// instead of headers.
fn retry_in_body(body: &str) -> Option<u64> {
    let value = match serde_json::from_str(body).ok()? {
        Value::Array(mut items) => items.pop()?,
        value => value,
    };
    let error = value.get("error").filter(|error| error.is_object()).unwrap_or(&value);
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    let delay = details.filter_map(|detail| detail.get("retryDelay")).find_map(|delay| match delay {
        Value::String(text) => reset_ms(text),
        // As a structure of Protocol Buffers.
        parts => {
            let seconds =
                parts.get("seconds").and_then(|it| it.as_u64().or_else(|| it.as_str()?.parse().ok()));
            let nanos = parts.get("nanos").and_then(Value::as_u64).unwrap_or(0);
            seconds.map(|seconds| seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000))
        }
    });
    let member = |name: &str| error.get(name).or_else(|| error.get("metadata")?.get(name));
    let number = |name: &str| member(name)?.as_f64().filter(|number| (0.0..1e12).contains(number));
    delay
        .or_else(|| number("retry_after_ms").map(|ms| ms.ceil() as u64))
        .or_else(|| number("retry_after").map(|seconds| (seconds * 1000.0).ceil() as u64))
}

/// Parses a time such as `6m0s`, `1.5s` or `120ms`, in milliseconds.
fn reset_ms(text: &str) -> Option<u64> {
    let mut rest = text;
    let mut ms = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit_end = rest[end..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| end + at);
        ms += number
            * match &rest[end..unit_end] {
                "ms" => 1.0,
                "s" => 1000.0,
                "m" => 60_000.0,
                "h" => 3_600_000.0,
                _ => return None,
            };
        rest = &rest[unit_end..];
    }
    (ms > 0.0 && ms < 1e12).then_some(ms.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn whom() -> Whom {
        Whom {
            name: "openai:m".into(),
            host: "api.example".into(),
            base: "https://api.example/v1/".into(),
            key_var: Some("OPENAI_API_KEY".into()),
            idle: Duration::from_secs(2),
            secrets: Secrets::new(["sk-0123456789".to_owned()]),
            reached: Arc::default(),
        }
    }

    fn status(code: u16, body: &str) -> ModelError {
        whom().status(StatusCode::from_u16(code).unwrap(), body, &HeaderMap::new(), SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn a_key_never_gets_into_an_error() {
        let quoted = r#"{"error":{"message":"no such key: sk-0123456789, sk-012****789"}}"#;
        for code in [400, 401, 403, 404, 429, 500] {
            let error = status(code, quoted);
            assert!(!error.message.contains("sk-0123456789"), "{code}: {error}");
        }
        let error = status(401, quoted);
        assert!(!error.message.contains("sk-"), "{error}");
        assert!(error.message.contains("OPENAI_API_KEY"), "{error}");
        // A long answer is cut, but never in the middle of a key.
        let long = format!("{}sk-0123456789", "x".repeat(EXCERPT - 6));
        assert!(!status(500, &long).message.contains("sk-"), "{}", status(500, &long));
        assert_eq!(format!("{:?}", whom().secrets), "Secrets(1)");
    }

    #[test]
    fn a_body_may_say_how_long_to_wait() {
        let gemini = |delay: &str| {
            format!(
                r#"{{"error":{{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED","details":[{{"@type":"type.googleapis.com/google.rpc.Help"}},{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":{delay}}}]}}}}"#
            )
        };
        for (body, wait) in [
            (gemini(r#""2s""#), 2000),
            (gemini(r#""34.5s""#), 34_500),
            (format!("[{}]", gemini(r#""0.25s""#)), 250),
            (gemini(r#"{"seconds": "3", "nanos": 500000000}"#), 3500),
            (r#"{"error":{"message":"slow","retry_after":1.5}}"#.to_owned(), 1500),
            (r#"{"message":"slow","retry_after_ms":70}"#.to_owned(), 70),
        ] {
            assert_eq!(status(429, &body).retry_after_ms, Some(wait), "{body}");
            let event = serde_json::from_str(body.trim_matches(['[', ']'])).unwrap_or_default();
            if !body.starts_with('[') {
                assert_eq!(whom().event(&event).retry_after_ms, Some(wait), "{body}");
            }
        }
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", HeaderValue::from_static("1"));
        let error = whom().status(
            StatusCode::TOO_MANY_REQUESTS,
            &gemini(r#""9s""#),
            &headers,
            SystemTime::UNIX_EPOCH,
        );
        assert_eq!(error.retry_after_ms, Some(1000), "the header counts");
        assert_eq!(status(429, &gemini(r#""soon""#)).retry_after_ms, None);
    }

    #[test]
    fn statuses_become_kinds() {
        use ModelErrorKind as K;
        for (code, body, kind) in [
            (429, "", K::RateLimited),
            (429, r#"{"error":{"code":"insufficient_quota"}}"#, K::Auth),
            (500, "", K::Server),
            (503, "", K::Server),
            (529, r#"{"type":"error","error":{"type":"overloaded_error"}}"#, K::Server),
            (408, "", K::Timeout),
            (401, "", K::Auth),
            (403, "", K::Auth),
            (404, "", K::NotFound),
            (400, "bad", K::BadRequest),
            (308, "", K::BadRequest),
            (400, r#"{"error":{"code":"context_length_exceeded","message":"m"}}"#, K::ContextExceeded),
            (
                400,
                r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000"}}"#,
                K::ContextExceeded,
            ),
            (
                400,
                r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}"#,
                K::Auth,
            ),
            (
                400,
                r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: x"}"#,
                K::Auth,
            ),
            (400, r#"{"object":"error","message":"Invalid model: m","type":"invalid_model"}"#, K::NotFound),
            (400, r#"{"error":{"message":"x/y is not a valid model ID","code":400}}"#, K::NotFound),
            (400, r#"{"error":{"message":"Model Not Exist"}}"#, K::NotFound),
            (400, r#"{"message":"Input is too long for requested model."}"#, K::ContextExceeded),
            (
                400,
                r#"{"error":{"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
                K::ContextExceeded,
            ),
        ] {
            assert_eq!(status(code, body).kind, kind, "{code} {body}");
        }
    }

    #[test]
    fn errors_that_a_user_can_mend_say_how() {
        for (body, says) in [
            ("prompt is too long", "larger window"),
            ("API key not valid", "OPENAI_API_KEY (400); check that it"),
            ("Model Not Exist", "check the model's name"),
        ] {
            let error = status(400, &format!(r#"{{"error":{{"message":"{body}"}}}}"#));
            assert!(error.message.contains(says), "{error}");
        }
    }

    #[test]
    fn errors_inside_a_stream_become_kinds() {
        use ModelErrorKind as K;
        for (body, kind) in [
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, K::Server),
            (r#"{"error":{"code":503,"message":"busy","status":"UNAVAILABLE"}}"#, K::Server),
            (r#"{"type":"rate_limit_error"}"#, K::RateLimited),
            (r#"{"type":"invalid_request_error","message":"no"}"#, K::BadRequest),
            (r#"{"code":"context_length_exceeded"}"#, K::ContextExceeded),
        ] {
            assert_eq!(whom().event(&serde_json::from_str(body).unwrap()).kind, kind, "{body}");
        }
    }

    #[test]
    fn a_server_says_how_long_to_wait_in_three_ways() {
        let at = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_str(value).unwrap());
            retry_after(&headers, httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:00 GMT").unwrap())
        };
        assert_eq!(at("retry-after", "2"), Some(2000));
        assert_eq!(at("retry-after", "0.5"), Some(500));
        assert_eq!(at("retry-after-ms", "1500"), Some(1500));
        assert_eq!(at("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), Some(37_000));
        assert_eq!(at("retry-after", "Sun, 06 Nov 1994 08:48:00 GMT"), Some(0));
        assert_eq!(at("retry-after", "soon"), None);
        assert_eq!(at("retry-after", "-1"), None);
        assert_eq!(at("retry-after", "NaN"), None);
    }

    #[test]
    fn what_is_used_up_says_when_there_is_more_where_no_wait_is_named() {
        let after = |pairs: &[(&'static str, &str)]| {
            let pair = |(name, value): &(&'static str, &str)| {
                (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
            };
            retry_after(&pairs.iter().map(pair).collect(), SystemTime::now())
        };
        let requests = [("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "6m0.5s")];
        assert_eq!(after(&requests), Some(360_500));
        assert_eq!(after(&[requests[0], requests[1], ("retry-after-ms", "20")]), Some(20));
        assert_eq!(
            after(&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "120ms")]),
            Some(120)
        );
        assert_eq!(after(&[("x-ratelimit-remaining-tokens", "5"), ("x-ratelimit-reset-tokens", "1s")]), None);
        assert_eq!(
            after(&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "soon")]),
            None
        );
    }

    #[test]
    fn excerpts_are_one_bounded_line() {
        assert_eq!(whom().secrets.excerpt("a\n\u{1b}[31m b"), "a [31m b");
        assert!(whom().secrets.excerpt(&"ä".repeat(1000)).chars().count() <= EXCERPT + 2);
        assert_eq!(whom().said("[{\"error\":{\"message\":\"m\"}}]"), "m");
        assert_eq!(whom().said(""), "no reason given");
    }
}
