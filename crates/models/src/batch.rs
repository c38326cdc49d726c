//! The batch interfaces of providers: many requests handed over at once and answered within a day, at half the price.
//!
//! OpenAI's takes a file of requests and answers with a file of results, Anthropic's takes them in one request. Both answer in
//! any order, and may leave requests unanswered when their time is over. `genai` has neither, so requests are written here.

use crate::{
    completions::Body, failure::Whom, known::Wire, providers::Providers, remote::Remote, valid::Mapping,
};
use genai::{adapter::AdapterKind, resolver::AuthData};
use llm_do_core::model::{
    Message, Model as _, ModelError, ModelErrorKind, ModelName, ModelRequest, ModelResponse, Part, Role,
    ToolSpec,
};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Most bytes of results that are read of one batch.
const MOST_BYTES: usize = 512 << 20;
/// Most tokens of an answer of Anthropic's models where the worker names none: a request must.
const MAX_TOKENS: u32 = 8192;
/// Between the parts of a file that is handed over.
const BOUNDARY: &str = "llm-do-batch-5b0c2f7e9d1a4c68";

/// A model behind its provider's batch interface.
pub struct BatchModel {
    remote: Remote,
}

/// How far a batch is.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchState {
    /// It is worked on.
    Running {
        /// Requests that have ended.
        ended: u64,
    },
    /// Its results can be read.
    Ended,
    /// The provider failed the whole batch, and worked on none of its requests. A transient error: it takes the same batch
    /// later.
    Failed(ModelError),
}

/// What came of one request of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum BatchOutcome {
    /// The provider's answer, for [`BatchModel::answer`].
    Answered(Value),
    /// The provider has refused or failed it.
    Failed(ModelError),
    /// It was not worked on before the time of the batch was over.
    Expired,
}

impl Providers {
    /// A model behind its provider's batch interface. Nothing is sent.
    ///
    /// # Errors
    /// The provider has no such interface, or can't be used.
    pub fn batches(&self, name: &ModelName) -> Result<BatchModel, ModelError> {
        let unsupported = || {
            let what = format!(
                "{name} has no batch interface that llm-do speaks; the chat models of `openai:` and `anthropic:` have"
            );
            ModelError::new(ModelErrorKind::Unsupported, what)
        };
        if self.is_made_elsewhere(name) {
            return Err(unsupported());
        }
        let remote = self.remote_named(name)?;
        let known = match remote.form.wire {
            Wire::OpenAi => remote.form.iden.adapter_kind == AdapterKind::OpenAI,
            Wire::Anthropic => remote.form.iden.adapter_kind == AdapterKind::Anthropic,
            _ => false,
        };
        if known { Ok(BatchModel { remote }) } else { Err(unsupported()) }
    }
}

impl BatchModel {
    fn whom(&self) -> &Whom {
        &self.remote.whom
    }

    fn is_anthropic(&self) -> bool {
        self.remote.form.wire == Wire::Anthropic
    }

    /// Whether answers follow a schema that is sent along.
    pub fn native_schema(&self) -> bool {
        self.remote.capabilities().native_schema
    }

    /// The body of a request.
    ///
    /// # Errors
    /// It has something that no batch can have: a second turn, a file, a tool of the provider.
    pub fn body(&self, request: &ModelRequest<'_>) -> Result<Value, ModelError> {
        let unsupported = |what: &str| {
            let what = format!("a batch can't send {what}: run it without --batch");
            self.whom().error(ModelErrorKind::Unsupported, &what)
        };
        let [message] = request.messages else { return Err(unsupported("more than one message")) };
        let text = only_text(message).ok_or_else(|| unsupported("files"))?;
        if !request.server_tools.is_empty() {
            return Err(unsupported("tools of the provider"));
        }
        if !self.is_anthropic() {
            let body = Body::new(&self.remote.form, request).map_err(|what| unsupported(&what.0))?;
            return serde_json::to_value(body).map_err(|error| unsupported(&error.to_string()));
        }
        let settings = request.settings;
        if settings.reasoning_effort.is_some() {
            return Err(unsupported("reasoning_effort to Anthropic"));
        }
        let mapping = Mapping::of(&self.remote.form, request.tools);
        let mut body = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            body.extend(value.map(|value| (key.to_owned(), value)));
        };
        put("model", Some(self.remote.target.model.model_name.to_string().into()));
        put("max_tokens", Some(settings.max_tokens.unwrap_or(MAX_TOKENS).into()));
        put("system", (!request.system.trim().is_empty()).then(|| (**request.system).into()));
        put("messages", Some(json!([{"role": "user", "content": text}])));
        put("stop_sequences", (!settings.stop.is_empty()).then(|| json!(settings.stop)));
        let tools: Vec<Value> = request.tools.iter().map(|tool| anthropic_tool(tool, &mapping)).collect();
        put("tools", (!tools.is_empty()).then(|| tools.into()));
        put("temperature", settings.temperature.map(Value::from));
        put("top_p", settings.top_p.map(Value::from));
        Ok(Value::Object(body))
    }

    /// The answer to that request.
    ///
    /// # Errors
    /// It can't be read, or reports an error.
    pub fn answer(&self, request: &ModelRequest<'_>, body: Value) -> Result<ModelResponse, ModelError> {
        let Some(mut reader) = self.remote.reader() else {
            return Err(self.whom().garbled(&"it has an unknown form"));
        };
        reader.body(body);
        if let Some(failure) = reader.failure() {
            return Err(self.remote.failed(failure));
        }
        let answer = reader.answer(self.remote.blank(request));
        answer.response(&self.remote.form).map_err(|broken| self.whom().broken(&broken.0))
    }

    /// Hands requests over, each with a name that is its own; the name of the batch. `token` marks the batch where the
    /// interface has room for marks, so that [`BatchModel::find`] finds it.
    ///
    /// # Errors
    /// The provider does not take them.
    pub async fn submit(&self, token: &str, requests: &[(String, Value)]) -> Result<String, ModelError> {
        let made = if self.is_anthropic() {
            let requests: Vec<Value> =
                requests.iter().map(|(id, body)| json!({"custom_id": id, "params": body})).collect();
            self.json(self.request(Method::POST, "messages/batches")?, Some(json!({ "requests": requests })))
                .await?
        } else {
            let mut lines = Vec::new();
            for (id, body) in requests {
                let line =
                    json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body});
                lines.extend_from_slice(line.to_string().as_bytes());
                lines.push(b'\n');
            }
            let kind = format!("multipart/form-data; boundary={BOUNDARY}");
            let upload =
                self.request(Method::POST, "files")?.header("content-type", kind).body(form_of(&lines));
            let file = self.json(upload, None).await?;
            let batch = json!({
                "input_file_id": self.name(&file)?,
                "endpoint": "/v1/chat/completions",
                "completion_window": "24h",
                "metadata": {"llm_do": token},
            });
            self.json(self.request(Method::POST, "batches")?, Some(batch)).await?
        };
        self.name(&made)
    }

    /// The batch with that mark among the last ones. `None` also where the interface has no marks.
    ///
    /// # Errors
    /// The provider does not say.
    pub async fn find(&self, token: &str) -> Result<Option<String>, ModelError> {
        if self.is_anthropic() {
            return Ok(None);
        }
        let list = self.json(self.request(Method::GET, "batches?limit=100")?, None).await?;
        let batches = list.get("data").and_then(Value::as_array).into_iter().flatten();
        let marked =
            |batch: &&Value| batch.pointer("/metadata/llm_do").and_then(Value::as_str) == Some(token);
        batches.clone().find(marked).map(|batch| self.name(batch)).transpose()
    }

    /// How far a batch is.
    ///
    /// # Errors
    /// The provider does not say.
    pub async fn state(&self, batch: &str) -> Result<BatchState, ModelError> {
        let found = self.json(self.request(Method::GET, &self.path_of(batch)?)?, None).await?;
        let count = |pointer: &str| found.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
        if self.is_anthropic() {
            let ended = ["succeeded", "errored", "canceled", "expired"]
                .iter()
                .map(|word| count(&format!("/request_counts/{word}")))
                .sum();
            return Ok(match found["processing_status"].as_str() {
                Some("ended") => BatchState::Ended,
                _ => BatchState::Running { ended },
            });
        }
        match found["status"].as_str() {
            Some("completed" | "expired" | "cancelled") => Ok(BatchState::Ended),
            Some("failed") => {
                let why = found
                    .pointer("/errors/data/0/message")
                    .and_then(Value::as_str)
                    .unwrap_or("no reason given");
                // The organization's batches have too many tokens together: there is room when another one has ended.
                let kind = match found.pointer("/errors/data/0/code").and_then(Value::as_str) {
                    Some("token_limit_exceeded") => ModelErrorKind::RateLimited,
                    _ => ModelErrorKind::BadRequest,
                };
                Ok(BatchState::Failed(self.whom().error(kind, &format!("the batch failed: {why}"))))
            }
            _ => {
                let ended = count("/request_counts/completed") + count("/request_counts/failed");
                Ok(BatchState::Running { ended })
            }
        }
    }

    /// The results of a batch that has ended, by the names of its requests. A request that is not among them was not
    /// worked on.
    ///
    /// # Errors
    /// They can't be read.
    pub async fn results(&self, batch: &str) -> Result<BTreeMap<String, BatchOutcome>, ModelError> {
        let mut outcomes = BTreeMap::new();
        let path = self.path_of(batch)?;
        if self.is_anthropic() {
            let lines = self.text(self.request(Method::GET, &format!("{path}/results"))?).await?;
            self.read_lines(&lines, &mut outcomes);
            return Ok(outcomes);
        }
        let found = self.json(self.request(Method::GET, &path)?, None).await?;
        for key in ["output_file_id", "error_file_id"] {
            let Some(file) = found[key].as_str() else { continue };
            let lines =
                self.text(self.request(Method::GET, &format!("files/{}/content", plain(file)?))?).await?;
            self.read_lines(&lines, &mut outcomes);
        }
        Ok(outcomes)
    }

    fn read_lines(&self, lines: &str, outcomes: &mut BTreeMap<String, BatchOutcome>) {
        for line in lines.lines() {
            let Ok(mut line) = serde_json::from_str::<Value>(line) else { continue };
            let Some(id) = line["custom_id"].as_str().map(str::to_owned) else { continue };
            let outcome = if self.is_anthropic() {
                match line.pointer("/result/type").and_then(Value::as_str) {
                    Some("succeeded") => BatchOutcome::Answered(line["result"]["message"].take()),
                    Some("expired" | "canceled") => BatchOutcome::Expired,
                    _ => BatchOutcome::Failed(self.whom().event(&line["result"]["error"])),
                }
            } else {
                let status = line.pointer("/response/status_code").and_then(Value::as_u64);
                match (status, line.pointer("/error/code").and_then(Value::as_str)) {
                    (Some(200), _) => BatchOutcome::Answered(line["response"]["body"].take()),
                    (_, Some("batch_expired" | "batch_cancelled")) => BatchOutcome::Expired,
                    (Some(_), _) => BatchOutcome::Failed(self.whom().event(&line["response"]["body"])),
                    (None, _) => BatchOutcome::Failed(self.whom().event(&line["error"])),
                }
            };
            outcomes.insert(id, outcome);
        }
    }

    fn path_of(&self, batch: &str) -> Result<String, ModelError> {
        let batch = plain(batch)?;
        Ok(if self.is_anthropic() { format!("messages/batches/{batch}") } else { format!("batches/{batch}") })
    }

    fn name(&self, made: &Value) -> Result<String, ModelError> {
        let named = made["id"].as_str().map(str::to_owned);
        named.ok_or_else(|| self.whom().garbled(&"it names nothing"))
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, ModelError> {
        let remote = &self.remote;
        let client = remote.clients.http(remote.needs)?;
        let mut request = client.request(method, format!("{}{path}", remote.target.endpoint.base_url()));
        if self.is_anthropic() {
            request = request.header("anthropic-version", "2023-06-01");
        }
        match (&remote.target.auth, self.is_anthropic()) {
            (AuthData::Key(key), true) => request = request.header("x-api-key", key),
            (AuthData::Key(key), false) => request = request.bearer_auth(key),
            _ => {}
        }
        for (name, value) in remote.headers.iter().flat_map(genai::Headers::iter) {
            request = request.header(name, value);
        }
        Ok(request)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ModelError> {
        // Uploads and downloads of many requests take their time.
        let sent = request.timeout(self.whom().idle * 5).send().await;
        let response = sent.map_err(|error| self.whom().http(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = response.text().await.unwrap_or_default();
        Err(self.whom().status(status, &body, &headers))
    }

    async fn text(&self, request: RequestBuilder) -> Result<String, ModelError> {
        let mut response = self.send(request).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.whom().http(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MOST_BYTES {
                return Err(self.whom().garbled(&"it is longer than the results of a batch may be"));
            }
        }
        String::from_utf8(bytes).map_err(|error| self.whom().garbled(&error))
    }

    async fn json(&self, request: RequestBuilder, body: Option<Value>) -> Result<Value, ModelError> {
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(body.to_string()),
            None => request,
        };
        let text = self.text(request).await?;
        serde_json::from_str(&text).map_err(|error| self.whom().garbled(&error))
    }
}

/// The text of a message that has nothing else.
fn only_text(message: &Message) -> Option<String> {
    let text = |part: &Part| match part {
        Part::Text { text } => Some(text.to_string()),
        _ => None,
    };
    let texts: Option<Vec<String>> = message.parts.iter().map(text).collect();
    texts.filter(|_| message.role == Role::User).map(|texts| texts.join("\n\n"))
}

fn anthropic_tool(tool: &ToolSpec, mapping: &Mapping) -> Value {
    json!({
        "name": mapping.told(&tool.name),
        "description": tool.description,
        "input_schema": mapping.input(tool),
    })
}

/// The name of a batch or file as a part of a path. A server names them; what could lead elsewhere is no name.
fn plain(name: &str) -> Result<&str, ModelError> {
    let known = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    let what = "the server names a batch or a file with characters that no name has";
    if known { Ok(name) } else { Err(ModelError::new(ModelErrorKind::Network, what)) }
}

/// A form with the purpose and the file of a batch.
fn form_of(lines: &[u8]) -> Vec<u8> {
    let head = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--{BOUNDARY}\r\n\
         content-disposition: form-data; name=\"file\"; filename=\"batch.jsonl\"\r\ncontent-type: application/jsonl\r\n\r\n"
    );
    [head.as_bytes(), lines, format!("\r\n--{BOUNDARY}--\r\n").as_bytes()].concat()
}
