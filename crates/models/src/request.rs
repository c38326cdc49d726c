//! Requests as `genai` takes them.
//!
//! A conversation of N turns is converted message by message as it grows, not N times over: [`Transcripts`] keeps
//! what is converted, and each request only pays for its new messages and for the copy that `genai` consumes.

use crate::{Place, known::Wire, response::Echo};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use genai::{
    ModelIden,
    chat::{
        CacheControl, ChatMessage, ChatRequest, ChatRole, ContentPart, CustomPart, MessageContent, Tool,
        ToolCall, ToolResponse,
    },
};
use llm_do_core::{
    call_path::CallPath,
    model::{Arguments, Blob, Message, ModelRequest, Part, Role, ToolResult, ToolSpec},
};
use serde_json::{Map, Value, json};
use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Most conversations that are kept; beyond, the one longest unused is converted again when it goes on.
const KEPT: usize = 1024;

/// How one model takes its messages.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) wire: Wire,
    pub(crate) iden: ModelIden,
    /// The provider as [`Part::Opaque`] names it.
    pub(crate) provider: Arc<str>,
    pub(crate) images: bool,
    pub(crate) pdf: bool,
    /// The provider wants the text of its thinking back while tools run.
    pub(crate) echoes_reasoning: bool,
}

/// Something that can't be sent to this model: the sentence says what.
#[derive(Debug, PartialEq)]
pub(crate) struct Unsendable(pub(crate) String);

/// What is converted already, by conversation.
#[derive(Default)]
pub(crate) struct Transcripts {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_place: HashMap<Place, Transcript>,
    clock: u64,
}

struct Transcript {
    system: Arc<str>,
    tools: Arc<[ToolSpec]>,
    /// The messages that `request` holds. Kept, so that the same address means the same message.
    seen: Vec<Arc<Message>>,
    request: ChatRequest,
    used: u64,
}

impl Transcripts {
    /// The request in `genai`'s form.
    ///
    /// # Errors
    ///
    /// The request holds something that this model can't be sent.
    pub(crate) fn request(&self, request: &ModelRequest<'_>, form: &Form) -> Result<ChatRequest, Unsendable> {
        let place: Place = (request.run.into(), request.conversation.clone());
        // Taken out while it is worked on: the lock is held for two map operations only.
        let mut transcript = self
            .lock()
            .by_place
            .remove(&place)
            .filter(|kept| kept.leads_to(request))
            .unwrap_or_else(|| Transcript::new(request, form));
        for message in &request.messages[transcript.seen.len()..] {
            form.push(message, &mut transcript.request.messages)?;
            transcript.seen.push(Arc::clone(message));
        }
        let mut sent = transcript.request.clone();
        let mut kept = self.lock();
        kept.clock += 1;
        transcript.used = kept.clock;
        kept.by_place.insert(place, transcript);
        if kept.by_place.len() > KEPT {
            let oldest =
                kept.by_place.iter().min_by_key(|(_, kept)| kept.used).map(|(place, _)| place.clone());
            oldest.and_then(|place| kept.by_place.remove(&place));
        }
        drop(kept);
        if form.wire == Wire::Anthropic {
            mark_for_cache(&mut sent);
        }
        Ok(sent)
    }

    /// Drops what is kept of a conversation.
    pub(crate) fn forget(&self, run: &str, conversation: &CallPath) {
        self.lock().by_place.remove(&(Box::from(run), conversation.clone()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        // Whatever panicked, a transcript is either in the map and whole or not in it.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transcript {
    fn new(request: &ModelRequest<'_>, form: &Form) -> Self {
        let mut chat = ChatRequest::default();
        let system = request.system.trim();
        match form.wire {
            _ if system.is_empty() => {}
            // As a message it can carry a cache mark, which `ChatRequest::system` can't.
            Wire::Anthropic => chat.messages.push(ChatMessage::system(request.system.as_ref())),
            _ => chat.system = Some(request.system.to_string()),
        }
        if !request.tools.is_empty() {
            chat.tools = Some(request.tools.iter().map(|tool| form.tool(tool)).collect());
        }
        Self {
            system: Arc::clone(request.system),
            tools: Arc::clone(request.tools),
            seen: Vec::new(),
            request: chat,
            used: 0,
        }
    }

    /// Whether the request only adds messages to what is kept.
    fn leads_to(&self, request: &ModelRequest<'_>) -> bool {
        let same_system = Arc::ptr_eq(&self.system, request.system) || self.system == *request.system;
        let same_tools = Arc::ptr_eq(&self.tools, request.tools) || self.tools == *request.tools;
        same_system
            && same_tools
            && self.seen.len() <= request.messages.len()
            && self.seen.iter().zip(request.messages).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

/// Anthropic caches what lies before a mark: tools and system, which stay the same for the conversation, and the
/// history up to now. The mark before the last answer is where the request before this one ended, so that its
/// cache is found even when one turn has brought more blocks than a look-up goes back.
fn mark_for_cache(request: &mut ChatRequest) {
    let first = request.messages.iter().take_while(|message| message.role == ChatRole::System).count();
    match first.checked_sub(1) {
        Some(system) => mark(&mut request.messages[system]),
        None => {
            if let Some(tool) = request.tools.as_mut().and_then(|tools| tools.last_mut()) {
                tool.cache_control = Some(CacheControl::Ephemeral);
            }
        }
    }
    let history = &mut request.messages[first..];
    if let Some(answer) = history.iter().rposition(|message| message.role == ChatRole::Assistant)
        && let Some(before) = answer.checked_sub(1)
    {
        mark(&mut history[before]);
    }
    if let Some(last) = history.last_mut() {
        mark(last);
    }
}

fn mark(message: &mut ChatMessage) {
    message.options = Some(CacheControl::Ephemeral.into());
}

impl Form {
    /// `genai` turns tools of these names into the provider's own, which run there and pass no gate.
    fn reserved(&self) -> &'static [&'static str] {
        match self.wire {
            Wire::Anthropic | Wire::Responses => &["web_search"],
            Wire::Gemini => &["googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext"],
            _ => &[],
        }
    }

    /// A tool's name as this provider is told it.
    fn told<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.reserved().contains(&name) { format!("{name}_").into() } else { name.into() }
    }

    /// The tool that the model means by a name.
    pub(crate) fn meant<'a>(&self, told: &'a str) -> &'a str {
        match told.strip_suffix('_') {
            Some(name) if self.reserved().contains(&name) => name,
            _ => told,
        }
    }

    fn tool(&self, tool: &ToolSpec) -> Tool {
        Tool::new(self.told(&tool.name).into_owned())
            .with_description(tool.description.as_ref())
            .with_schema(tool.input.as_ref().clone())
    }

    /// Adds a message in `genai`'s form; it may be several there, or none.
    pub(crate) fn push(&self, message: &Message, out: &mut Vec<ChatMessage>) -> Result<(), Unsendable> {
        match message.role {
            Role::User => self.push_user(&message.parts, out),
            Role::Assistant => {
                let parts = self.answer(&message.parts);
                // An answer without anything in it is refused by most when it comes back.
                if !parts.is_empty() {
                    out.push(ChatMessage::assistant(MessageContent::from_parts(parts)));
                }
                Ok(())
            }
            Role::Tool => {
                self.push_results(&message.parts, out);
                // Files that a tool has fetched for the model: only users may send those.
                self.push_user(&message.parts, out)
            }
        }
    }

    fn push_user(&self, parts: &[Part], out: &mut Vec<ChatMessage>) -> Result<(), Unsendable> {
        let mut content = Vec::new();
        for part in parts {
            match part {
                Part::Text { text } if !text.trim().is_empty() => {
                    content.push(ContentPart::from_text(text.as_ref()));
                }
                Part::Blob(blob) => content.push(self.blob(blob)?),
                _ => {}
            }
        }
        if !content.is_empty() {
            out.push(ChatMessage::user(MessageContent::from_parts(content)));
        }
        Ok(())
    }

    fn blob(&self, blob: &Blob) -> Result<ContentPart, Unsendable> {
        let media_type = blob.media_type.as_ref();
        let image = media_type.starts_with("image/");
        if image && self.images || media_type == "application/pdf" && self.pdf {
            let data = STANDARD.encode(&blob.data);
            return Ok(ContentPart::from_binary_base64(media_type, data, Some(blob.name.to_string())));
        }
        if !image && let Ok(text) = std::str::from_utf8(&blob.data) {
            return Ok(ContentPart::from_text(format!("{}:\n{text}", blob.name)));
        }
        let what = format!("`{}` ({media_type}) can't be sent: the model doesn't take such files", blob.name);
        Err(Unsendable(what))
    }

    fn answer(&self, parts: &[Part]) -> Vec<ContentPart> {
        let mut content = Vec::new();
        let mut thought: Option<&str> = None;
        let mut signatures: HashMap<String, Vec<String>> = HashMap::new();
        for part in parts {
            match part {
                Part::Text { text } if !text.trim().is_empty() => {
                    content.push(ContentPart::from_text(text.as_ref()));
                }
                Part::Reasoning { text } => thought = Some(text),
                Part::Opaque { provider, value } if *provider == self.provider => match Echo::read(value) {
                    Some(Echo::Signature(signature)) => {
                        content.push(ContentPart::ThoughtSignature(signature));
                        if matches!(self.wire, Wire::Anthropic | Wire::Bedrock) {
                            let text = thought.take().unwrap_or_default();
                            content.push(ContentPart::ReasoningContent(text.into()));
                        }
                    }
                    Some(Echo::Reasoning) => {
                        content.extend(thought.take().map(|text| ContentPart::ReasoningContent(text.into())));
                    }
                    Some(Echo::Block(data)) => {
                        let model_iden = Some(self.iden.clone());
                        content.push(ContentPart::Custom(CustomPart { model_iden, data }));
                    }
                    Some(Echo::Call { id, signatures: of_call }) => {
                        signatures.insert(id, of_call);
                    }
                    None => {}
                },
                Part::Call(call) => content.push(ContentPart::ToolCall(ToolCall {
                    call_id: call.id.to_string(),
                    fn_name: self.told(&call.name).into_owned(),
                    fn_arguments: object(&call.arguments),
                    thought_signatures: signatures.remove(call.id.as_ref()),
                })),
                _ => {}
            }
        }
        content
    }

    /// One message with all results of a turn, which is what every provider but Ollama wants: there, a message
    /// holds one, and `genai` drops the others.
    fn push_results(&self, parts: &[Part], out: &mut Vec<ChatMessage>) {
        let mut results = parts.iter().filter_map(|part| match part {
            Part::Result(result) => Some(self.result(result)),
            _ => None,
        });
        if self.wire == Wire::Ollama {
            out.extend(results.map(|result| ChatMessage::tool(MessageContent::from_parts(vec![result]))));
        } else if let Some(first) = results.next() {
            let all: Vec<_> = std::iter::once(first).chain(results).collect();
            out.push(ChatMessage::tool(MessageContent::from_parts(all)));
        }
    }

    fn result(&self, result: &ToolResult) -> ContentPart {
        if result.is_error && self.wire == Wire::Anthropic {
            // `genai` has no place for the flag; a raw block has.
            let block = json!({
                "type": "tool_result",
                "tool_use_id": result.call_id,
                "content": result.content,
                "is_error": true,
            });
            return ContentPart::from_custom(block, None);
        }
        let response = ToolResponse::new(result.call_id.as_ref(), result.content.as_ref());
        ContentPart::ToolResponse(response.with_fn_name(self.told(&result.name)))
    }
}

/// Providers refuse a history in which arguments are no object. What the model wrote instead stays readable under
/// the key that Anthropic recommends for it.
fn object(arguments: &Arguments) -> Value {
    let text = match arguments {
        Arguments::Json(value) if value.is_object() => return value.as_ref().clone(),
        Arguments::Json(value) => Value::String(value.to_string()),
        Arguments::Invalid { text, .. } => Value::String(text.to_string()),
    };
    Value::Object(Map::from_iter([("INVALID_JSON".to_owned(), text)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use genai::adapter::AdapterKind;
    use llm_do_core::model::{MessageId, ModelName, ModelSettings};

    fn form(wire: Wire) -> Form {
        Form {
            wire,
            iden: ModelIden::new(AdapterKind::OpenAI, "m"),
            provider: "p".into(),
            images: true,
            pdf: true,
            echoes_reasoning: false,
        }
    }

    fn message(id: u32, role: Role, parts: Vec<Part>) -> Arc<Message> {
        Arc::new(Message { id: MessageId(id), parent: None, role, parts })
    }

    fn image() -> Part {
        Part::Blob(Blob { name: "a.png".into(), media_type: "image/png".into(), data: (*b"png").into() })
    }

    /// What stays the same in a conversation.
    struct Fixed {
        path: CallPath,
        name: ModelName,
        system: Arc<str>,
        tools: Arc<[ToolSpec]>,
        settings: ModelSettings,
    }

    impl Fixed {
        fn new(path: &str) -> Self {
            Self {
                path: path.into(),
                name: "p:m".parse().unwrap(),
                system: "Be brief.".into(),
                tools: Arc::new([]),
                settings: ModelSettings::default(),
            }
        }
        fn request<'a>(&'a self, messages: &'a [Arc<Message>]) -> ModelRequest<'a> {
            ModelRequest {
                conversation: &self.path,
                run: "run",
                worker: "w",
                turn: 0,
                model: &self.name,
                system: &self.system,
                messages,
                tools: &self.tools,
                settings: &self.settings,
                output: None,
            }
        }
    }

    #[test]
    fn a_turn_converts_only_its_new_messages() {
        let place = Fixed::new("0");
        let transcripts = Transcripts::default();
        let mut form = form(Wire::OpenAi);
        let mut messages = vec![message(0, Role::User, vec![image()])];
        transcripts.request(&place.request(&messages), &form).unwrap();
        // From now on the image can't be converted, and needs not to be.
        form.images = false;
        messages.push(message(1, Role::Assistant, vec![Part::text("A cat.")]));
        messages.push(message(2, Role::User, vec![Part::text("Sure?")]));
        let sent = transcripts.request(&place.request(&messages), &form).unwrap();
        assert_eq!(sent.messages.len(), 3);
        assert_eq!(transcripts.lock().by_place.len(), 1);
        // Nor is anything kept of a conversation that is over, or that has been replaced.
        transcripts.forget("run", &place.path);
        assert!(transcripts.request(&place.request(&messages), &form).is_err());
        let other = [message(0, Role::User, vec![Part::text("Anew.")])];
        assert_eq!(transcripts.request(&place.request(&other), &form).unwrap().messages.len(), 1);
    }

    #[test]
    fn a_changed_system_text_is_sent() {
        let mut place = Fixed::new("0");
        let transcripts = Transcripts::default();
        let messages = [message(0, Role::User, vec![Part::text("Hi.")])];
        transcripts.request(&place.request(&messages), &form(Wire::OpenAi)).unwrap();
        place.system = "Be long.".into();
        let sent = transcripts.request(&place.request(&messages), &form(Wire::OpenAi)).unwrap();
        assert_eq!(sent.system.as_deref(), Some("Be long."));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let transcripts = Transcripts::default();
        let messages = [message(0, Role::User, vec![Part::text("Hi.")])];
        for n in 0..KEPT + 10 {
            let place = Fixed::new(&format!("0/{n}"));
            transcripts.request(&place.request(&messages), &form(Wire::OpenAi)).unwrap();
        }
        let kept = transcripts.lock();
        assert_eq!(kept.by_place.len(), KEPT);
        assert!(
            !kept.by_place.contains_key(&(Box::from("run"), CallPath::from("0/0"))),
            "the oldest goes first"
        );
    }

    #[test]
    fn results_stand_together_but_for_ollama() {
        let result = |id: &str| {
            Part::Result(ToolResult {
                call_id: id.into(),
                name: "f".into(),
                content: "x".into(),
                is_error: false,
            })
        };
        let parts = [result("a"), result("b")];
        for (wire, count) in [(Wire::OpenAi, 1), (Wire::Anthropic, 1), (Wire::Gemini, 1), (Wire::Ollama, 2)] {
            let mut out = Vec::new();
            form(wire).push(&message(0, Role::Tool, parts.to_vec()), &mut out).unwrap();
            assert_eq!(out.len(), count, "{wire:?}");
        }
    }

    #[test]
    fn a_file_that_a_tool_has_fetched_follows_its_result() {
        let result = Part::Result(ToolResult {
            call_id: "a".into(),
            name: "f".into(),
            content: "x".into(),
            is_error: false,
        });
        let mut out = Vec::new();
        form(Wire::OpenAi).push(&message(0, Role::Tool, vec![result, image()]), &mut out).unwrap();
        assert_eq!(
            out.iter().map(|message| message.role.clone()).collect::<Vec<_>>(),
            [ChatRole::Tool, ChatRole::User]
        );
    }

    #[test]
    fn names_that_mean_a_providers_own_tool_are_told_otherwise() {
        for (wire, name, told) in [
            (Wire::Anthropic, "web_search", "web_search_"),
            (Wire::Responses, "web_search", "web_search_"),
            (Wire::Gemini, "codeExecution", "codeExecution_"),
            (Wire::OpenAi, "web_search", "web_search"),
            (Wire::Anthropic, "mine_", "mine_"),
        ] {
            assert_eq!(form(wire).told(name), told);
            assert_eq!(form(wire).meant(told), name);
        }
    }

    #[test]
    fn arguments_go_back_as_an_object_always() {
        let json = |value: Value| object(&Arguments::Json(Arc::new(value)));
        assert_eq!(json(json!({"a": 1})), json!({"a": 1}));
        assert_eq!(json(json!([1])), json!({"INVALID_JSON": "[1]"}));
        assert_eq!(object(&Arguments::parse("{\"a")), json!({"INVALID_JSON": "{\"a"}));
    }
}
