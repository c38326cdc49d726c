//! The batch interfaces of providers: many requests are submitted together and answered within a day, at half the
//! price.
//!
//! OpenAI's interface takes a file of requests and answers with a file of results, Anthropic's takes them in one
//! request. Both answer in any order, and may leave requests unanswered when the batch expires.

use crate::{
    body::{AnthropicBody, CompletionsBody, DEFAULT_OF_BATCHES, Method, Outgoing},
    failure::Failure,
    form::{Dialect, Form, Unsendable, Wire},
};
use llm_do_core::model::{ModelRequest, ModelResponse, Part, Role};
use serde_json::{Value, json};

/// The boundary between the parts of an uploaded file.
const BOUNDARY: &str = "llm-do-batch-5b0c2f7e9d1a4c68";

/// The batch interface of a provider.
#[derive(Clone, Copy, Debug)]
pub struct Batches<'f> {
    form: &'f Form,
    is_anthropic: bool,
}

/// The progress of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The provider works on it.
    Running {
        /// Requests that have ended.
        ended: u64,
    },
    /// The results can be read.
    Ended,
    /// The provider failed the whole batch, and worked on none of its requests.
    Failed {
        /// The provider's reason.
        reason: String,
        /// True if the tokens of the organization's batches exceed a limit together: there is room when another one has
        /// ended.
        is_full: bool,
    },
}

/// The outcome of one request of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The provider's answer, for [`Batches::response`].
    Answered(Value),
    /// The provider has refused or failed the request, with this error.
    Failed(Value),
    /// The batch expired before the provider worked on the request.
    Expired,
}

impl Form {
    /// Returns the batch interface of the provider, if it has one.
    pub fn batches(&self) -> Option<Batches<'_>> {
        let is_known = self.dialect == Dialect::Own && matches!(self.wire, Wire::OpenAi | Wire::Anthropic);
        is_known.then_some(Batches { form: self, is_anthropic: self.wire == Wire::Anthropic })
    }
}

impl Batches<'_> {
    /// Makes the body of a request.
    ///
    /// # Errors
    ///
    /// The request has something that no batch can have: a second turn, a file, a tool of the provider.
    pub fn body(&self, request: &ModelRequest<'_>) -> Result<Value, Unsendable> {
        let unsendable = |what: &str| Err(Unsendable(what.to_owned()));
        let [message] = request.messages else { return unsendable("more than one message") };
        let is_text = |part: &Part| matches!(part, Part::Text { .. });
        if message.role != Role::User || !message.parts.iter().all(is_text) {
            return unsendable("files");
        }
        if !request.server_tools.is_empty() {
            return unsendable("tools of the provider");
        }
        if self.is_anthropic && request.settings.reasoning_effort.is_some() {
            return unsendable("reasoning_effort to Anthropic");
        }
        let body = if self.is_anthropic {
            let mut body = AnthropicBody::new(self.form, request)?;
            body.max_tokens = request.settings.max_tokens.unwrap_or(DEFAULT_OF_BATCHES);
            serde_json::to_value(body)
        } else {
            serde_json::to_value(CompletionsBody::new(self.form, request)?)
        };
        body.map_err(|error| Unsendable(error.to_string()))
    }

    /// Reads the answer to a request.
    ///
    /// # Errors
    ///
    /// The answer can't be read, or reports an error.
    pub fn response(&self, request: &ModelRequest<'_>, body: Value) -> Result<ModelResponse, Failure> {
        let mut reader = self.form.reader(request, false, "application/json");
        reader.body(body);
        reader.response()
    }

    /// Makes the request that uploads a file with the bodies of requests, each with a unique name. `None`: the
    /// interface has no files.
    pub fn upload(&self, requests: &[(String, Value)]) -> Option<Outgoing> {
        if self.is_anthropic {
            return None;
        }
        let mut body = format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--{BOUNDARY}\r\n\
             content-disposition: form-data; name=\"file\"; filename=\"batch.jsonl\"\r\n\
             content-type: application/jsonl\r\n\r\n"
        )
        .into_bytes();
        for (id, request) in requests {
            let line =
                json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": request});
            body.extend_from_slice(line.to_string().as_bytes());
            body.push(b'\n');
        }
        body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let (path, headers) = ("files".to_owned(), vec![("content-type", kind)]);
        Some(Outgoing { method: Method::Post, path, query: None, headers, body })
    }

    /// Makes the request that submits a batch: of the file with that name if the interface has files, of the requests
    /// otherwise. `token` marks the batch if the interface has marks, so that [`Batches::marked`] finds it.
    pub fn submission(&self, token: &str, requests: &[(String, Value)], file: &str) -> Outgoing {
        let body = if self.is_anthropic {
            let requests: Vec<Value> =
                requests.iter().map(|(id, body)| json!({"custom_id": id, "params": body})).collect();
            json!({ "requests": requests })
        } else {
            json!({
                "input_file_id": file,
                "endpoint": "/v1/chat/completions",
                "completion_window": "24h",
                "metadata": {"llm_do": token},
            })
        };
        let path = self.collection().to_owned();
        let body = body.to_string().into_bytes();
        Outgoing { method: Method::Post, path, query: None, headers: Vec::new(), body }
    }

    /// Makes the request for the last batches. `None`: the interface has no marks.
    pub fn list(&self) -> Option<Outgoing> {
        let list = Outgoing { query: Some(("limit", "100")), ..read(self.collection().to_owned()) };
        (!self.is_anthropic).then_some(list)
    }

    /// Returns the batch with that mark among the last ones.
    pub fn marked<'l>(&self, list: &'l Value, token: &str) -> Option<&'l Value> {
        let mut batches = list.get("data").and_then(Value::as_array).into_iter().flatten();
        batches.find(|batch| batch.pointer("/metadata/llm_do").and_then(Value::as_str) == Some(token))
    }

    /// Makes the request for the progress of a batch. `None`: the name is not valid.
    pub fn look(&self, batch: &str) -> Option<Outgoing> {
        plain(batch).then(|| read(format!("{}/{batch}", self.collection())))
    }

    /// Returns the progress of a batch, from the answer to [`Batches::look`].
    pub fn progress(&self, found: &Value) -> Progress {
        let count = |pointer: &str| found.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        if self.is_anthropic {
            let ended = ["succeeded", "errored", "canceled", "expired"]
                .iter()
                .map(|word| count(&format!("/request_counts/{word}")))
                .sum();
            return match found["processing_status"].as_str() {
                Some("ended") => Progress::Ended,
                _ => Progress::Running { ended },
            };
        }
        match found["status"].as_str() {
            Some("completed" | "expired" | "cancelled") => Progress::Ended,
            Some("failed") => {
                let said = |key: &str| {
                    let pointer = format!("/errors/data/0/{key}");
                    found.pointer(&pointer).and_then(Value::as_str)
                };
                Progress::Failed {
                    reason: said("message").unwrap_or("no reason given").to_owned(),
                    is_full: said("code") == Some("token_limit_exceeded"),
                }
            }
            _ => {
                let ended = count("/request_counts/completed") + count("/request_counts/failed");
                Progress::Running { ended }
            }
        }
    }

    /// Makes the requests for the results of a batch, from the answer to [`Batches::look`]. `None`: a name is not
    /// valid.
    pub fn results(&self, batch: &str, found: &Value) -> Option<Vec<Outgoing>> {
        if self.is_anthropic {
            return plain(batch).then(|| vec![read(format!("{}/{batch}/results", self.collection()))]);
        }
        let files = ["output_file_id", "error_file_id"].iter().filter_map(|key| found[key].as_str());
        files.map(|file| plain(file).then(|| read(format!("files/{file}/content")))).collect()
    }

    /// Returns the outcome of a request, from a line of the results: the name of the request, and its outcome.
    pub fn outcome(&self, line: &str) -> Option<(String, Outcome)> {
        let mut line = serde_json::from_str::<Value>(line).ok()?;
        let id = line["custom_id"].as_str()?.to_owned();
        let outcome = if self.is_anthropic {
            match line.pointer("/result/type").and_then(Value::as_str) {
                Some("succeeded") => Outcome::Answered(line["result"]["message"].take()),
                Some("expired" | "canceled") => Outcome::Expired,
                _ => Outcome::Failed(line["result"]["error"].take()),
            }
        } else {
            let status = line.pointer("/response/status_code").and_then(Value::as_u64);
            match (status, line.pointer("/error/code").and_then(Value::as_str)) {
                (Some(200), _) => Outcome::Answered(line["response"]["body"].take()),
                (_, Some("batch_expired" | "batch_cancelled")) => Outcome::Expired,
                (Some(_), _) => Outcome::Failed(line["response"]["body"].take()),
                (None, _) => Outcome::Failed(line["error"].take()),
            }
        };
        Some((id, outcome))
    }

    fn collection(&self) -> &'static str {
        if self.is_anthropic { "messages/batches" } else { "batches" }
    }
}

fn read(path: String) -> Outgoing {
    Outgoing { method: Method::Get, path, query: None, headers: Vec::new(), body: Vec::new() }
}

/// Returns true if a text can be the name of a batch or a file. A server gives the names, and a name must not change
/// the path.
fn plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(wire: Wire) -> Form {
        Form::new(wire, Dialect::Own, "p", "m")
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_none() {
        for wire in [Wire::OpenAi, Wire::Anthropic] {
            let form = form(wire);
            let batches = form.batches().unwrap();
            for bad in ["", "../files", "a/b", "a?b"] {
                assert_eq!(batches.look(bad), None, "{bad}");
                let found = json!({"output_file_id": bad});
                assert_eq!(batches.results(bad, &found), None, "{bad}");
            }
            assert!(batches.look("batch_1-a").unwrap().path.ends_with("batches/batch_1-a"));
        }
    }

    #[test]
    fn outcomes_are_told_apart() {
        let (openai, anthropic) = (form(Wire::OpenAi), form(Wire::Anthropic));
        let answered = json!({"custom_id": "a", "response": {"status_code": 200, "body": {"x": 1}}});
        let refused = json!({"custom_id": "a", "response": {"status_code": 400, "body": {"error": {}}}});
        let expired = json!({"custom_id": "a", "error": {"code": "batch_expired"}});
        let message = json!({"custom_id": "a", "result": {"type": "succeeded", "message": {"x": 1}}});
        let errored = json!({"custom_id": "a", "result": {"type": "errored", "error": {"y": 1}}});
        let canceled = json!({"custom_id": "a", "result": {"type": "canceled"}});
        for (form, line, expected) in [
            (&openai, answered, Outcome::Answered(json!({"x": 1}))),
            (&openai, refused, Outcome::Failed(json!({"error": {}}))),
            (&openai, expired, Outcome::Expired),
            (&anthropic, message, Outcome::Answered(json!({"x": 1}))),
            (&anthropic, errored, Outcome::Failed(json!({"y": 1}))),
            (&anthropic, canceled, Outcome::Expired),
        ] {
            let outcome = form.batches().unwrap().outcome(&line.to_string());
            assert_eq!(outcome, Some(("a".to_owned(), expected)), "{line}");
        }
        assert_eq!(openai.batches().unwrap().outcome("no JSON"), None);
    }
}
