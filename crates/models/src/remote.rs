//! A model behind an HTTP endpoint.

use crate::{
    client::{Clients, Needs},
    completions::{Endpoint, UNNAMED, events},
    failure::Whom,
    known::Wire,
    output::{self, Output},
    reader::{Failure, Reader, Size},
    request::Form,
    response::{Answer, Block, usage_of_genai},
    server_tools,
    valid::Mapping,
};
use futures_util::StreamExt as _;
use genai::{
    Error, Headers, ServiceTarget,
    adapter::AdapterKind,
    chat::{
        ChatOptions, ChatRequest, ChatStream, ChatStreamEvent, JsonSpec, MessageContent, ReasoningEffort,
    },
    webc,
};
use llm_do_core::{
    model::{
        Capabilities, Delta, DeltaSink, Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse,
        ModelSettings, Sees,
    },
    send::BoxFuture,
    server_tool::ServerTool,
};
use serde_json::{Map, Value, json};
use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// A model behind an endpoint.
pub(crate) struct Remote {
    pub(crate) clients: Arc<Clients>,
    pub(crate) needs: Needs,
    pub(crate) target: ServiceTarget,
    /// The endpoint, if llm-do speaks to it itself.
    pub(crate) completions: Option<Endpoint>,
    pub(crate) headers: Option<Headers>,
    pub(crate) form: Form,
    pub(crate) whom: Whom,
    /// The endpoint is the provider's own, so its capabilities are known.
    pub(crate) official: bool,
    /// Answers are streamed, unless a stream of this endpoint has lost its first event.
    pub(crate) stream: bool,
}

/// One request, ready to send.
struct Prepared {
    chat: ChatRequest,
    options: ChatOptions,
}

/// A request with a streamed answer.
struct Asked {
    events: ChatStream,
    /// `None` where `genai` reads the answer.
    reader: Option<Arc<Mutex<Reader>>>,
    /// Whether `genai` has read more than an answer may have.
    too_long: Arc<AtomicBool>,
    blank: Answer,
}

impl Model for Remote {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            native_schema: self.native_schema(),
            // `genai` sends Cohere none.
            tools: self.form.wire != Wire::Cohere,
            sees: Sees { images: self.form.images, pdf: self.form.pdf },
        }
    }

    fn refused_settings(&self, settings: &ModelSettings) -> Vec<String> {
        let mut refused = Vec::new();
        let provider = &self.form.provider;
        let has_seed = match self.form.wire {
            Wire::OpenAi => self.form.iden.adapter_kind != AdapterKind::DeepSeek,
            Wire::Gemini | Wire::Ollama => true,
            Wire::Responses | Wire::Anthropic | Wire::Cohere | Wire::Bedrock => false,
        };
        if settings.seed.is_some() && !has_seed {
            refused.push(format!("seed: {provider} has no such setting"));
        }
        if !settings.stop.is_empty() && self.form.wire == Wire::Responses {
            refused.push(format!("stop: {provider} has no such setting; `openai:` has"));
        }
        if let Some(effort) = &settings.reasoning_effort {
            refused.extend(self.refused_effort(effort).map(|why| format!("reasoning_effort: {why}")));
        }
        refused
    }

    fn refused_server_tools(&self, tools: &[ServerTool]) -> Vec<String> {
        tools.iter().filter_map(|tool| tool.refused_by(self.form.host, &self.form.provider)).collect()
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        deltas: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let answer = if let Some(endpoint) = &self.completions {
                self.complete(endpoint, &request, deltas).await?
            } else if self.may_stream(&request) {
                // To ask takes more room than to wait for what comes, and thousands may wait.
                let mut asked = Box::pin(self.ask(&request)).await?;
                self.streamed(&mut asked, deltas).await?
            } else {
                Box::pin(self.whole(&request)).await?
            };
            self.whom.reached.store(true, Ordering::Relaxed);
            answer.response(&self.form).map_err(|broken| self.whom.broken(&broken.0))
        })
    }
}

impl Remote {
    /// `genai` closes a stream of Gemini's at the first finish reason, and where Gemini runs code, text follows one.
    fn may_stream(&self, request: &ModelRequest<'_>) -> bool {
        let runs_code = self.form.wire == Wire::Gemini && !request.server_tools.is_empty();
        self.stream && !runs_code && self.clients.may_stream(self.target.endpoint.base_url())
    }

    fn model(&self) -> &str {
        &self.target.model.model_name
    }

    /// True only if the answer follows the schema while tools are offered. Gemini does this since its third
    /// generation, Ollama's constraint prevents calls, and compatible endpoints are unknown. Anthropic rejects
    /// schemas with keywords as common as `minimum`, and its models handle a final-result tool well.
    fn native_schema(&self) -> bool {
        let model = self.model();
        match self.form.wire {
            Wire::OpenAi => {
                self.form.iden.adapter_kind == AdapterKind::OpenAI && self.official && !is_old_gpt(model)
            }
            Wire::Responses => self.official && !is_old_gpt(model),
            Wire::Gemini => {
                self.official && gemini_generation(model).is_some_and(|generation| generation >= 3.0)
            }
            Wire::Anthropic | Wire::Ollama | Wire::Cohere | Wire::Bedrock => false,
        }
    }

    fn refused_effort(&self, effort: &str) -> Option<String> {
        const WORDS: &str = "none, minimal, low, medium, high, xhigh or max";
        let provider = &self.form.provider;
        let budgets = match self.form.wire {
            Wire::Cohere => return Some(format!("{provider} has no such setting")),
            Wire::OpenAi | Wire::Responses | Wire::Ollama => false,
            Wire::Gemini => gemini_generation(self.model()).is_some_and(|generation| generation < 3.0),
            Wire::Anthropic | Wire::Bedrock => true,
        };
        match effort.parse::<ReasoningEffort>() {
            Ok(ReasoningEffort::Budget(_)) if !budgets => {
                Some(format!("{provider} takes {WORDS}, not a number of tokens"))
            }
            Ok(_) => None,
            Err(_) if budgets => Some(format!("`{effort}` is not {WORDS}, nor a number of tokens")),
            Err(_) => Some(format!("`{effort}` is not {WORDS}")),
        }
    }

    fn prepare(&self, request: &ModelRequest<'_>, stream: bool) -> Result<Prepared, ModelError> {
        let chat = self
            .form
            .request(request)
            .map_err(|what| self.whom.error(ModelErrorKind::Unsupported, &what.0))?;
        let options = self.options(request, &chat, stream);
        Ok(Prepared { chat, options })
    }

    fn options(&self, request: &ModelRequest<'_>, chat: &ChatRequest, stream: bool) -> ChatOptions {
        let ModelSettings { temperature, top_p, max_tokens, seed, stop, reasoning_effort } = request.settings;
        let effort = reasoning_effort.as_ref().and_then(|effort| effort.parse().ok());
        let output = request.output.filter(|_| self.form.wire == Wire::Gemini);
        let by_genai = self.reader().is_none();
        ChatOptions {
            temperature: *temperature,
            top_p: *top_p,
            max_tokens: *max_tokens,
            seed: *seed,
            stop_sequences: stop.clone(),
            reasoning_effort: effort.or_else(|| self.no_effort()),
            // This option and the one for reasoning change the request, too.
            capture_usage: Some(true),
            capture_content: Some(by_genai),
            // On OpenAI's wire `genai` makes room for as many calls as the number of one says.
            capture_tool_calls: Some(by_genai),
            capture_reasoning_content: Some(self.captures_reasoning()),
            capture_raw_body: Some(!stream && !by_genai),
            response_format: output.map(|schema| JsonSpec::new("answer", schema.as_ref().clone()).into()),
            stream_header_timeout: Some(self.whom.idle),
            stream_read_timeout: Some(self.whom.idle),
            extra_headers: self.headers(request.server_tools),
            // Routes the requests of one conversation to the server that caches its prefix. It also keeps `genai`
            // from switching the newest models' automatic cache off.
            prompt_cache_key: self.caches_by_key().then(|| cache_key(request)),
            extra_body: self.extra_body(request, chat),
            ..ChatOptions::default()
        }
    }

    /// `genai` takes a model name's last word for a reasoning effort and cuts it off, `mistral-medium` to `mistral`.
    /// An effort without a value on OpenAI's wire keeps the name and sends nothing.
    fn no_effort(&self) -> Option<ReasoningEffort> {
        let ends_in_effort = self
            .model()
            .rsplit_once('-')
            .is_some_and(|(_, last)| ReasoningEffort::from_keyword(last).is_some());
        let speaks_openai = matches!(self.form.wire, Wire::OpenAi | Wire::Responses);
        (ends_in_effort && speaks_openai).then_some(ReasoningEffort::Budget(0))
    }

    /// Models without thinking reject a request for it.
    fn captures_reasoning(&self) -> bool {
        match self.form.wire {
            Wire::Responses => is_reasoning_gpt(self.model()),
            Wire::Gemini => gemini_generation(self.model()).is_some_and(|generation| generation >= 2.5),
            _ => true,
        }
    }

    pub(crate) fn caches_by_key(&self) -> bool {
        matches!(self.form.iden.adapter_kind, AdapterKind::OpenAI | AdapterKind::OpenAIResp)
            && (self.official || self.model().starts_with("gpt-"))
    }

    /// The endpoint's headers, with those that the tools need.
    fn headers(&self, tools: &[ServerTool]) -> Option<Headers> {
        const BETA: &str = "anthropic-beta";
        let betas = if self.form.wire == Wire::Anthropic { server_tools::betas(tools) } else { Vec::new() };
        if betas.is_empty() {
            return self.headers.clone();
        }
        let mut headers = self.headers.clone().unwrap_or_default();
        let given = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(BETA));
        let (name, given) = given.map_or((BETA, None), |(name, value)| (name.as_str(), Some(value.as_str())));
        let all: Vec<&str> = given.into_iter().chain(betas).collect();
        let beta = (name.to_owned(), all.join(","));
        headers.merge(beta);
        Some(headers)
    }

    fn extra_body(&self, request: &ModelRequest<'_>, chat: &ChatRequest) -> Option<Value> {
        let mut body = Map::new();
        // Not by `genai`'s own option, which would make every optional property a required one.
        if let Some(schema) = request.output
            && matches!(self.form.wire, Wire::OpenAi | Wire::Responses)
        {
            let output = Output::of(schema);
            match self.form.wire {
                Wire::OpenAi => body.insert("response_format".into(), output.response_format()),
                Wire::Responses => body.insert("text".into(), json!({ "format": output.text_format() })),
                _ => None,
            };
        }
        if self.form.wire == Wire::Responses && self.captures_reasoning() {
            // `genai` asks for summaries, which only verified organisations get; others are refused outright.
            let effort = request.settings.reasoning_effort.as_deref();
            body.insert("reasoning".into(), json!({ "effort": effort }));
        }
        if self.form.wire == Wire::Responses && !request.server_tools.is_empty() {
            let reasoning = self.captures_reasoning().then_some("reasoning.encrypted_content");
            let included = reasoning.into_iter().chain(server_tools::included(request.server_tools));
            body.insert("include".into(), included.collect());
        }
        body.extend(self.form.history(request, chat).map(|(key, history)| (key.to_owned(), history)));
        (!body.is_empty()).then_some(Value::Object(body))
    }

    /// An answer without what the server says.
    pub(crate) fn blank(&self, request: &ModelRequest<'_>) -> Answer {
        let takes_schema = matches!(self.form.wire, Wire::OpenAi | Wire::Responses);
        let wrapped = takes_schema && request.output.is_some_and(|schema| output::wraps(schema));
        let mapping = Mapping::of(&self.form, request.tools);
        Answer { turn: request.turn, wrapped, mapping, ..Answer::default() }
    }

    pub(crate) fn reader(&self) -> Option<Reader> {
        Reader::new(self.form.wire, self.form.iden.adapter_kind)
    }

    /// What it returns is in a box: futures that pass it on keep room for it, each its own.
    async fn ask(&self, request: &ModelRequest<'_>) -> Result<Box<Asked>, ModelError> {
        let client = self.clients.get(self.needs)?;
        let Prepared { chat, mut options } = self.prepare(request, true)?;
        let reader = self.reader().map(|reader| Arc::new(Mutex::new(reader)));
        if let Some(reader) = &reader {
            let reader = Arc::clone(reader);
            options = options.with_raw_frame_fn(move |_, frame| lock(&reader).event(frame.event, frame.data));
        }
        let too_long = Arc::new(AtomicBool::new(false));
        if reader.is_none() {
            let (size, too_long) = (Mutex::new(Size::default()), Arc::clone(&too_long));
            options = options.with_raw_frame_fn(move |_, frame| {
                if !size.lock().unwrap_or_else(PoisonError::into_inner).add(frame.data) {
                    too_long.store(true, Ordering::Relaxed);
                }
            });
        }
        let asked = client.exec_chat_stream(self.target.clone(), chat, Some(&options)).await;
        let events = asked.map_err(|error| self.report(error))?.stream;
        Ok(Box::new(Asked { events, reader, too_long, blank: self.blank(request) }))
    }

    async fn streamed(&self, asked: &mut Asked, deltas: &dyn DeltaSink) -> Result<Answer, ModelError> {
        let Asked { events, reader, too_long, blank } = asked;
        match reader {
            Some(reader) => self.read(events, reader, blank, deltas).await,
            None => Box::pin(self.read_by_genai(events, too_long, blank, deltas)).await,
        }
    }

    /// Polls the stream to its end. The reader sees each event before `genai` reads it, so `genai`'s own view of the
    /// events does not count.
    async fn read(
        &self,
        events: &mut ChatStream,
        reader: &Mutex<Reader>,
        blank: &mut Answer,
        deltas: &dyn DeltaSink,
    ) -> Result<Answer, ModelError> {
        loop {
            let event = events.next().await;
            let mut reader = lock(reader);
            match event {
                Some(Ok(ChatStreamEvent::End(_))) => reader.end(true),
                None => reader.end(false),
                Some(_) => {}
            }
            self.tell(&mut reader, &blank.mapping, deltas);
            if let Some(failure) = reader.failure() {
                return Err(self.failed(failure));
            }
            match event {
                Some(Ok(ChatStreamEvent::End(_))) | None if reader.is_whole() => break,
                // A page at a wrong address has no events.
                None if reader.is_untouched() => {
                    self.clients.stop_streaming(self.target.endpoint.base_url());
                    return Err(self.whom.no_event());
                }
                None => return Err(self.whom.cut()),
                // The bytes after an answer are not needed.
                Some(Err(Error::WebStream { .. })) if reader.is_whole() => break,
                Some(Err(error @ Error::WebStream { .. })) => return Err(self.report(error)),
                Some(Ok(_) | Err(_)) => {}
            }
        }
        // The end of the transfer follows the end of the answer. A connection that has not read it yet when the stream
        // is dropped is closed, and the next turn has to make a new one.
        tokio::task::yield_now().await;
        Ok(lock(reader).answer(mem::take(blank)))
    }

    async fn read_by_genai(
        &self,
        events: &mut ChatStream,
        too_long: &AtomicBool,
        blank: &mut Answer,
        deltas: &dyn DeltaSink,
    ) -> Result<Answer, ModelError> {
        let mut announced = HashSet::new();
        while let Some(event) = events.next().await {
            if too_long.load(Ordering::Relaxed) {
                return Err(self.too_long());
            }
            match event.map_err(|error| self.report(error))? {
                ChatStreamEvent::Chunk(chunk) if !chunk.content.is_empty() => {
                    deltas.delta(Delta::Text { text: chunk.content });
                }
                ChatStreamEvent::ReasoningChunk(chunk) if !chunk.content.is_empty() => {
                    deltas.delta(Delta::Reasoning { text: chunk.content });
                }
                ChatStreamEvent::ToolCallChunk(chunk) => {
                    let call = chunk.tool_call;
                    if !call.fn_name.is_empty() && announced.insert(call.call_id) {
                        deltas.delta(Delta::Call { name: blank.mapping.meant(&call.fn_name).into() });
                    }
                }
                ChatStreamEvent::End(end) => {
                    // Some adapters of `genai` end a stream without an error if the connection breaks.
                    if end.captured_stop_reason.is_none() {
                        return Err(self.whom.cut());
                    }
                    tokio::task::yield_now().await;
                    let content = end.captured_content.map(MessageContent::into_parts).unwrap_or_default();
                    return Ok(Answer {
                        blocks: Block::of_genai(content),
                        reasoning: end.captured_reasoning_content,
                        stop: end.captured_stop_reason,
                        usage: usage_of_genai(end.captured_usage),
                        ..mem::take(blank)
                    });
                }
                _ => {}
            }
        }
        Err(self.whom.cut())
    }

    async fn whole(&self, request: &ModelRequest<'_>) -> Result<Answer, ModelError> {
        let client = self.clients.get(self.needs)?;
        let Prepared { chat, options } = self.prepare(request, false)?;
        let blank = self.blank(request);
        // No data arrives before the whole answer is ready, so the idle timeout between pieces does not apply.
        let patience = self.whom.idle * 5;
        let asked = client.exec_chat(self.target.clone(), chat, Some(&options));
        let asked = tokio::time::timeout(patience, asked).await.map_err(|_| self.whom.timeout())?;
        let body = match asked {
            Ok(response) => match response.captured_raw_body {
                Some(body) => body,
                None => {
                    return Ok(Answer {
                        blocks: Block::of_genai(response.content.into_parts()),
                        reasoning: response.reasoning_content,
                        stop: response.stop_reason,
                        usage: usage_of_genai(Some(response.usage)),
                        ..blank
                    });
                }
            },
            // `genai` could not read the answer, but the reader may.
            Err(Error::ChatResponseGeneration { response_body, .. }) if self.reader().is_some() => {
                *response_body
            }
            Err(
                Error::WebModelCall {
                    webc_error: webc::Error::ResponseFailedNotJson { content_type, body },
                    ..
                }
                | Error::WebAdapterCall {
                    webc_error: webc::Error::ResponseFailedNotJson { content_type, body },
                    ..
                },
            ) => return self.mislabelled(&content_type, &body, blank),
            Err(error) => return Err(self.report(error)),
        };
        let Some(mut reader) = self.reader() else {
            return Err(self.whom.garbled(&"it has an unknown form"));
        };
        reader.body(body);
        match reader.failure() {
            Some(failure) => Err(self.failed(failure)),
            None => Ok(reader.answer(blank)),
        }
    }

    /// Reads an answer whose type is not JSON: JSON with another type, or events where none were asked for.
    fn mislabelled(&self, kind: &str, body: &str, blank: Answer) -> Result<Answer, ModelError> {
        let text = body.trim_start_matches('\u{feff}').trim_start();
        let read = match text.as_bytes().first() {
            Some(b'{' | b'[') => serde_json::from_str(text).ok().and_then(|body| {
                let mut reader = self.reader()?;
                reader.body(body);
                Some(reader)
            }),
            Some(b'<') | None => None,
            Some(_) => self.events_of(text),
        };
        let Some(mut reader) = read else { return Err(self.whom.not_json(kind)) };
        match reader.failure() {
            Some(failure) => Err(self.failed(failure)),
            None if !reader.is_whole() => Err(self.whom.cut()),
            None => Ok(reader.answer(blank)),
        }
    }

    /// A reader of the events of a text. `None`: it has none.
    fn events_of(&self, text: &str) -> Option<Reader> {
        let mut reader =
            self.reader().map(|_| Reader::of_whole_events(self.form.wire, self.form.iden.adapter_kind))?;
        let mut has_events = false;
        for event in events(text) {
            has_events = true;
            reader.event((event.event != UNNAMED).then_some(&*event.event), &event.data);
        }
        has_events.then_some(reader)
    }

    /// Tells what the reader has read since the last time.
    pub(crate) fn tell(&self, reader: &mut Reader, mapping: &Mapping, deltas: &dyn DeltaSink) {
        for delta in reader.deltas() {
            deltas.delta(match delta {
                Delta::Call { name } => Delta::Call { name: mapping.meant(&name).into() },
                delta => delta,
            });
        }
    }

    pub(crate) fn failed(&self, failure: Failure) -> ModelError {
        match failure {
            Failure::Reported(body) => self.whom.event(&body),
            Failure::Garbled(cause) => self.whom.garbled(&cause),
            Failure::TooLong => self.too_long(),
            Failure::Foreign => self.whom.foreign(),
            Failure::NoStart => {
                self.clients.stop_streaming(self.target.endpoint.base_url());
                self.whom.no_start()
            }
        }
    }

    pub(crate) fn too_long(&self) -> ModelError {
        self.whom.garbled(&"it is longer than an answer may be")
    }

    fn report(&self, error: Error) -> ModelError {
        self.whom.report(error)
    }
}

fn lock(reader: &Mutex<Reader>) -> MutexGuard<'_, Reader> {
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name of the conversation, short since OpenAI takes 64 characters at most.
pub(crate) fn cache_key(request: &ModelRequest<'_>) -> String {
    let mut hasher = DefaultHasher::new();
    (request.run, request.conversation).hash(&mut hasher);
    format!("llm-do-{:016x}", hasher.finish())
}

/// Models from before structured output.
fn is_old_gpt(model: &str) -> bool {
    model == "gpt-4"
        || ["gpt-3", "gpt-4-", "chatgpt-", "o1-mini", "o1-preview"].iter().any(|old| model.starts_with(old))
}

fn is_reasoning_gpt(model: &str) -> bool {
    let numbered = model
        .strip_prefix("gpt-")
        .and_then(|rest| rest.chars().next())
        .is_some_and(|c| ('5'..='9').contains(&c));
    (numbered && !model.contains("-chat"))
        || ["o1", "o3", "o4", "codex"].iter().any(|prefix| model.starts_with(prefix))
}

/// `2.5` of `gemini-2.5-flash`.
fn gemini_generation(model: &str) -> Option<f32> {
    let rest = model.strip_prefix("models/").unwrap_or(model).strip_prefix("gemini-")?;
    rest.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_names_tell_what_a_model_can() {
        assert_eq!(gemini_generation("gemini-2.5-flash"), Some(2.5));
        assert_eq!(gemini_generation("gemini-3-pro-preview"), Some(3.0));
        assert_eq!(gemini_generation("gemini-flash-latest"), None);
        assert!(is_old_gpt("gpt-4") && is_old_gpt("gpt-4-turbo") && is_old_gpt("gpt-3.5-turbo"));
        assert!(!is_old_gpt("gpt-4o") && !is_old_gpt("gpt-4.1-mini") && !is_old_gpt("gpt-5"));
        assert!(
            is_reasoning_gpt("gpt-5-mini")
                && is_reasoning_gpt("o3")
                && !is_reasoning_gpt("gpt-5-chat-latest")
        );
        assert!(!is_reasoning_gpt("gpt-4o"));
    }
}
