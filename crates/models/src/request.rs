//! Requests in `genai`'s form.
//!
//! `genai` consumes a request, so each turn builds one from the history. This costs no more than copying a stored
//! request, and a waiting run stores none.

use crate::{history, known::Wire, response::Echo, server_tools, valid::Valid};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use genai::{
    ModelIden,
    chat::{
        CacheControl, ChatMessage, ChatRequest, ChatRole, ContentPart, CustomPart, MessageContent, Tool,
        ToolCall, ToolResponse,
    },
};
use llm_do_core::{
    model::{Arguments, Blob, Message, ModelRequest, Part, Role, ToolResult, ToolSpec},
    server_tool::ToolHost,
};
use serde_json::{Map, Value, json};
use std::{borrow::Cow, sync::Arc};

/// The message form of one model.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) wire: Wire,
    /// Whose tools the endpoint runs itself.
    pub(crate) host: ToolHost,
    pub(crate) iden: ModelIden,
    /// The provider's name in [`Part::Opaque`].
    pub(crate) provider: Arc<str>,
    pub(crate) images: bool,
    pub(crate) pdf: bool,
    /// The provider requires the text of its thinking back while tools run.
    pub(crate) echoes_reasoning: bool,
}

/// Content that can't be sent to this model, described in a sentence.
#[derive(Debug, PartialEq)]
pub(crate) struct Unsendable(pub(crate) String);

/// Anthropic caches the content before a mark: tools and system, which stay the same for the conversation, and the
/// history up to now. The mark before the last answer is at the end of the previous request, so that the lookup hits
/// its cache even if one turn has added more blocks than a lookup searches.
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
    /// The request in `genai`'s form without its messages.
    pub(crate) fn without_messages(&self, request: &ModelRequest<'_>, valid: &Valid) -> ChatRequest {
        let own = request.server_tools.iter().filter_map(|tool| server_tools::tool(self.wire, tool));
        let tools: Vec<Tool> = own.chain(request.tools.iter().map(|tool| tool_of(tool, valid))).collect();
        ChatRequest { tools: (!tools.is_empty()).then_some(tools), ..ChatRequest::default() }
    }

    /// The request in `genai`'s form.
    ///
    /// # Errors
    ///
    /// The request contains something that can't be sent to this model.
    pub(crate) fn request(&self, request: &ModelRequest<'_>) -> Result<ChatRequest, Unsendable> {
        let mut valid = Valid::of(self, request.tools);
        let mut chat = self.without_messages(request, &valid);
        chat.messages.reserve(request.messages.len() + 1);
        let system = request.system.as_ref();
        match self.wire {
            _ if system.trim().is_empty() => {}
            // As a message it can carry a cache mark, which `ChatRequest::system` can't.
            Wire::Anthropic => chat.messages.push(ChatMessage::system(system)),
            _ => chat.system = Some(system.to_owned()),
        }
        let last_answer = last_answer(request.messages);
        for (number, message) in request.messages.iter().enumerate() {
            valid.is_answered = number < last_answer;
            self.push(message, &mut valid, &mut chat.messages)?;
        }
        if self.wire == Wire::Anthropic {
            mark_for_cache(&mut chat);
        }
        Ok(chat)
    }

    /// The history in the provider's form, under the key of the request's body, where `genai` would leave out what a
    /// tool of the provider has said.
    pub(crate) fn history(
        &self,
        request: &ModelRequest<'_>,
        chat: &ChatRequest,
    ) -> Option<(&'static str, Value)> {
        match self.wire {
            _ if request.server_tools.is_empty() => None,
            Wire::Responses => Some(("input", history::responses(&chat.messages))),
            Wire::Gemini => {
                let signs_calls = self.iden.model_name.contains("gemini-3");
                Some(("contents", history::gemini(&chat.messages, signs_calls)))
            }
            Wire::OpenAi | Wire::Anthropic | Wire::Ollama | Wire::Cohere | Wire::Bedrock => None,
        }
    }

    /// `genai` turns tools of these names into the provider's own, which run there and pass no gate.
    pub(crate) fn reserved(&self) -> &'static [&'static str] {
        match self.wire {
            Wire::Anthropic | Wire::Responses => &["web_search"],
            Wire::Gemini => &["googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext"],
            _ => &[],
        }
    }

    /// Adds a message in `genai`'s form, which may be several messages or none.
    pub(crate) fn push(
        &self,
        message: &Message,
        valid: &mut Valid,
        out: &mut Vec<ChatMessage>,
    ) -> Result<(), Unsendable> {
        match message.role {
            Role::User => self.push_user(&message.parts, valid, out),
            Role::Assistant => {
                let parts = self.answer(&message.parts, valid);
                // Most providers reject an empty answer in the history.
                if !parts.is_empty() {
                    out.push(ChatMessage::assistant(MessageContent::from_parts(parts)));
                }
                Ok(())
            }
            Role::Tool => {
                self.push_results(&message.parts, valid, out);
                // Files that a tool has fetched for the model. Only user messages may contain them.
                self.push_user(&message.parts, valid, out)
            }
        }
    }

    fn push_user(&self, parts: &[Part], valid: &Valid, out: &mut Vec<ChatMessage>) -> Result<(), Unsendable> {
        let mut content = Vec::new();
        for part in parts {
            match part {
                Part::Text { text } if !text.trim().is_empty() => {
                    content.push(ContentPart::from_text(text.as_ref()));
                }
                Part::Blob(blob) => content.push(self.blob(blob, valid)?),
                Part::Attachment { .. } => content.extend(part.sent().map(ContentPart::from_text)),
                _ => {}
            }
        }
        if !content.is_empty() {
            out.push(ChatMessage::user(MessageContent::from_parts(content)));
        }
        Ok(())
    }

    fn blob(&self, blob: &Blob, valid: &Valid) -> Result<ContentPart, Unsendable> {
        Ok(match self.file_text(blob, valid)? {
            Some(text) => ContentPart::from_text(text),
            None => {
                let data = STANDARD.encode(&blob.data);
                ContentPart::from_binary_base64(&*blob.media_type, data, Some(blob.name.to_string()))
            }
        })
    }

    /// The text that is sent for a file. `None`: the model takes the file itself, an image or a PDF.
    ///
    /// # Errors
    ///
    /// The model takes no such file, and it is no text. In a message that another model has answered, words take the place of
    /// such a file.
    pub(crate) fn file_text(&self, blob: &Blob, valid: &Valid) -> Result<Option<String>, Unsendable> {
        let media_type = blob.media_type.as_ref();
        let image = media_type.starts_with("image/");
        if image && self.images || media_type == "application/pdf" && self.pdf {
            return Ok(None);
        }
        if !image && let Ok(text) = std::str::from_utf8(&blob.data) {
            return Ok(Some(format!("{}:\n{text}", blob.name)));
        }
        if valid.is_answered {
            let size = blob.data.len();
            return Ok(Some(format!("[{}: {media_type}, {size} bytes, which you can't see]", blob.name)));
        }
        let what = format!("`{}` ({media_type}) can't be sent: the model doesn't take such files", blob.name);
        Err(Unsendable(what))
    }

    fn answer(&self, parts: &[Part], valid: &mut Valid) -> Vec<ContentPart> {
        let mut content = Vec::with_capacity(parts.len());
        let mut thought: Option<&str> = None;
        // Few answers have any, and those have one for each call.
        let mut signatures: Vec<(String, Vec<String>)> = Vec::new();
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
                        signatures.push((id, of_call));
                    }
                    Some(Echo::Citations(citations)) => cite(&mut content, &citations),
                    None => {}
                },
                Part::Call(call) => {
                    let own = signatures.iter().rposition(|(id, _)| *id == *call.id);
                    content.push(ContentPart::ToolCall(ToolCall {
                        call_id: valid.ids.call(&valid.mapping, &call.id).into_owned(),
                        fn_name: valid.mapping.told(&call.name).into_owned(),
                        fn_arguments: valid
                            .mapping
                            .arguments(&call.name, object(&call.arguments))
                            .into_owned(),
                        thought_signatures: own.map(|own| signatures.swap_remove(own).1),
                    }));
                }
                _ => {}
            }
        }
        content
    }

    /// One message with all results of a turn, as every provider except Ollama requires. For Ollama a message holds
    /// one result, and `genai` drops the others.
    fn push_results(&self, parts: &[Part], valid: &Valid, out: &mut Vec<ChatMessage>) {
        let mut results = Vec::with_capacity(parts.len());
        results.extend(parts.iter().filter_map(|part| match part {
            Part::Result(result) => Some(self.result(result, valid)),
            _ => None,
        }));
        if self.wire == Wire::Ollama {
            let alone = |result| ChatMessage::tool(MessageContent::from_parts(vec![result]));
            out.extend(results.into_iter().map(alone));
        } else if !results.is_empty() {
            out.push(ChatMessage::tool(MessageContent::from_parts(results)));
        }
    }

    fn result(&self, result: &ToolResult, valid: &Valid) -> ContentPart {
        let id = valid.ids.result(&result.call_id);
        if result.is_error && self.wire == Wire::Anthropic {
            // `genai` has no place for the flag; a raw block has.
            let block = json!({
                "type": "tool_result",
                "tool_use_id": id,
                "content": result.content,
                "is_error": true,
            });
            return ContentPart::from_custom(block, None);
        }
        let mut response = ToolResponse::new(id, result.content.as_ref());
        // The others go by the id alone, and a history holds many of these.
        if self.wire == Wire::Gemini {
            response = response.with_fn_name(valid.mapping.told(&result.name));
        }
        ContentPart::ToolResponse(response)
    }
}

/// A tool in `genai`'s form.
fn tool_of(tool: &ToolSpec, valid: &Valid) -> Tool {
    Tool::new(valid.mapping.told(&tool.name).into_owned())
        .with_description(tool.description.as_ref())
        .with_schema(valid.mapping.input(tool).into_owned())
}

/// The position of the last answer of a history, or 0.
pub(crate) fn last_answer(messages: &[Arc<Message>]) -> usize {
    messages.iter().rposition(|message| message.role == Role::Assistant).unwrap_or(0)
}

/// Gives the text that was added last its citations back.
fn cite(content: &mut Vec<ContentPart>, citations: &[Value]) {
    if let Some(ContentPart::Text(text)) = content.pop_if(|part| matches!(part, ContentPart::Text(_))) {
        let block = json!({"type": "text", "text": text, "citations": citations});
        content.push(ContentPart::from_custom(block, None));
    }
}

/// Providers reject a history in which arguments are not an object. The model's text is kept under the key that
/// Anthropic recommends.
pub(crate) fn object(arguments: &Arguments) -> Cow<'_, Value> {
    let text = match arguments {
        Arguments::Json(value) if value.is_object() => return Cow::Borrowed(value),
        Arguments::Json(value) => Value::String(value.to_string()),
        Arguments::Invalid { text, .. } => Value::String(text.to_string()),
    };
    Cow::Owned(Value::Object(Map::from_iter([("INVALID_JSON".to_owned(), text)])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use genai::adapter::AdapterKind;
    use llm_do_core::model::MessageId;

    fn form(wire: Wire) -> Form {
        Form {
            wire,
            host: ToolHost::Without,
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
            form(wire)
                .push(&message(0, Role::Tool, parts.to_vec()), &mut Valid::default(), &mut out)
                .unwrap();
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
        form(Wire::OpenAi)
            .push(&message(0, Role::Tool, vec![result, image()]), &mut Valid::default(), &mut out)
            .unwrap();
        assert_eq!(
            out.iter().map(|message| message.role.clone()).collect::<Vec<_>>(),
            [ChatRole::Tool, ChatRole::User]
        );
    }

    #[test]
    fn arguments_go_back_as_an_object_always() {
        let object = |arguments: &Arguments| object(arguments).into_owned();
        let json = |value: Value| object(&Arguments::Json(Arc::new(value)));
        assert_eq!(json(json!({"a": 1})), json!({"a": 1}));
        assert_eq!(json(json!([1])), json!({"INVALID_JSON": "[1]"}));
        assert_eq!(object(&Arguments::parse("{\"a")), json!({"INVALID_JSON": "{\"a"}));
    }
}
