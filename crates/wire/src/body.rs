//! Requests: path, headers and body.

mod anthropic;
mod bedrock;
mod completions;
mod gemini;
mod ollama;
mod responses;

pub(crate) use anthropic::{Body as AnthropicBody, DEFAULT_OF_BATCHES};
pub(crate) use completions::Body as CompletionsBody;

use crate::{
    form::{Dialect, Form, Unsendable, Wire},
    server_tools,
};
use llm_do_core::model::ModelRequest;
use serde::Serialize;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Sends.
    Post,
}

/// A request, ready to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The method.
    pub method: Method,
    /// The path below the base address, without a slash at the beginning.
    pub path: String,
    /// A name and a value for the query, besides those of the base address.
    pub query: Option<(&'static str, &'static str)>,
    /// Headers besides those of every request ([`Form::headers`]). Values of a header that an endpoint declares, too,
    /// are joined with commas.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

const JSON: (&str, &str) = ("content-type", "application/json");
const ANTHROPIC_VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");
const ANTHROPIC_BETA: &str = "anthropic-beta";

impl Form {
    /// Returns the headers of every request, with the key. Headers that an endpoint declares replace them.
    pub fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        let mut headers = vec![(JSON.0, JSON.1.to_owned())];
        match (self.wire, self.dialect) {
            (_, Dialect::GitHub) => headers.push(("accept", "application/vnd.github+json".to_owned())),
            (Wire::Anthropic, Dialect::Vertex) => {}
            (Wire::Anthropic, _) => headers.push((ANTHROPIC_VERSION.0, ANTHROPIC_VERSION.1.to_owned())),
            _ => {}
        }
        headers.extend(key.map(|key| match (self.wire, self.dialect) {
            (_, Dialect::Vertex) => ("authorization", format!("Bearer {key}")),
            (Wire::Anthropic, _) => ("x-api-key", key.to_owned()),
            (Wire::Gemini, _) => ("x-goog-api-key", key.to_owned()),
            _ => ("authorization", format!("Bearer {key}")),
        }));
        headers
    }

    /// Makes the request for an answer, streamed or in one piece.
    ///
    /// # Errors
    ///
    /// The request contains something that can't be sent to this model.
    pub fn request(&self, request: &ModelRequest<'_>, stream: bool) -> Result<Outgoing, Unsendable> {
        let body = match self.wire {
            Wire::OpenAi => written(&completions::Body::new(self, request)?.for_chat(self, request, stream)),
            Wire::Responses => written(&responses::Body::new(self, request, stream)?),
            Wire::Anthropic => written(&anthropic::Body::new(self, request)?.for_chat(stream)),
            Wire::Gemini => written(&gemini::Body::new(self, request)?),
            Wire::Ollama => written(&ollama::Body::new(self, request, stream)?),
            Wire::Bedrock => written(&bedrock::Body::new(self, request)?),
        }?;
        let betas = match self.host() {
            llm_do_core::server_tool::ToolHost::Anthropic => server_tools::betas(request.server_tools),
            _ => Vec::new(),
        };
        let headers = (!betas.is_empty()).then(|| (ANTHROPIC_BETA, betas.join(","))).into_iter().collect();
        let query = (self.wire == Wire::Gemini && stream).then_some(("alt", "sse"));
        Ok(Outgoing { method: Method::Post, path: self.path(stream), query, headers, body })
    }

    fn path(&self, stream: bool) -> String {
        let model = segment(self.model.strip_prefix("models/").unwrap_or(&self.model));
        match (self.wire, self.dialect) {
            (Wire::OpenAi, _) => "chat/completions".into(),
            (Wire::Responses, _) => "responses".into(),
            (Wire::Ollama, _) => "api/chat".into(),
            (Wire::Anthropic, Dialect::Vertex) => {
                let verb = if stream { "streamRawPredict" } else { "rawPredict" };
                format!("publishers/anthropic/models/{model}:{verb}")
            }
            (Wire::Anthropic, _) => "messages".into(),
            (Wire::Gemini, dialect) => {
                let publisher = if dialect == Dialect::Vertex { "publishers/google/" } else { "" };
                let verb = if stream { "streamGenerateContent" } else { "generateContent" };
                format!("{publisher}models/{model}:{verb}")
            }
            (Wire::Bedrock, _) => {
                let verb = if stream { "converse-stream" } else { "converse" };
                format!("model/{model}/{verb}")
            }
        }
    }
}

fn written(body: &impl Serialize) -> Result<Vec<u8>, Unsendable> {
    serde_json::to_vec(body).map_err(|error| Unsendable(error.to_string()))
}

/// Encodes a name as one segment of a path.
fn segment(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'@' => {
                segment.push(char::from(byte));
            }
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_name_stays_in_its_segment_of_the_path() {
        for (name, path) in [
            ("gemini-2.5-flash", "models/gemini-2.5-flash:generateContent"),
            ("models/gemini-2.5-flash", "models/gemini-2.5-flash:generateContent"),
            ("../x?y#z", "models/..%2Fx%3Fy%23z:generateContent"),
        ] {
            assert_eq!(Form::new(Wire::Gemini, Dialect::Own, "gemini", name).path(false), path);
        }
        let arn = Form::new(Wire::Bedrock, Dialect::Own, "bedrock", "arn:aws:bedrock:x/y").path(true);
        assert_eq!(arn, "model/arn%3Aaws%3Abedrock%3Ax%2Fy/converse-stream");
        let claude = Form::new(Wire::Gemini, Dialect::Vertex, "vertex", "claude-x@1").path(true);
        assert_eq!(claude, "publishers/anthropic/models/claude-x@1:streamRawPredict");
    }

    #[test]
    fn a_key_goes_where_its_provider_looks_for_it() {
        for (wire, dialect, model, expected) in [
            (Wire::OpenAi, Dialect::Own, "m", ("authorization", "Bearer k")),
            (Wire::Responses, Dialect::Own, "m", ("authorization", "Bearer k")),
            (Wire::Anthropic, Dialect::Own, "m", ("x-api-key", "k")),
            (Wire::OpenAi, Dialect::OpenCode, "minimax-m2", ("x-api-key", "k")),
            (Wire::Gemini, Dialect::Own, "m", ("x-goog-api-key", "k")),
            (Wire::Gemini, Dialect::Vertex, "gemini-3", ("authorization", "Bearer k")),
            (Wire::Gemini, Dialect::Vertex, "claude-x", ("authorization", "Bearer k")),
            (Wire::Ollama, Dialect::Own, "m", ("authorization", "Bearer k")),
            (Wire::Bedrock, Dialect::Own, "m", ("authorization", "Bearer k")),
        ] {
            let form = Form::new(wire, dialect, "p", model);
            let (name, value) = form.headers(Some("k")).pop().unwrap_or_default();
            assert_eq!((name, value.as_str()), expected, "{wire:?} {dialect:?}");
            assert!(form.headers(None).iter().all(|(name, _)| *name != expected.0));
        }
    }
}
