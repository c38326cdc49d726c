//! Answers in the engine's form.

use crate::{known::Wire, output, request::Form};
use genai::chat::{self, ContentPart, StopReason};
use llm_do_core::model::{Arguments, FinishReason, ModelResponse, Part, ToolCall, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{collections::HashSet, sync::Arc};

/// An answer of `genai`, streamed or not.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) content: Vec<ContentPart>,
    /// Thinking outside the content parts.
    pub(crate) reasoning: Option<String>,
    pub(crate) stop: Option<StopReason>,
    pub(crate) usage: Option<chat::Usage>,
    /// The model's refusal. OpenAI sends it in a separate field, which `genai` skips.
    pub(crate) refusal: String,
    /// The number of the turn, to make call ids unique.
    pub(crate) turn: u32,
    /// The output is wrapped in an object, since the provider accepts no other schema.
    pub(crate) wrapped: bool,
}

/// Data that a provider requires back unchanged, as the value of a [`Part::Opaque`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Echo {
    /// Signs the [`Part::Reasoning`] just before it, or is independent.
    Signature(String),
    /// The [`Part::Reasoning`] just before it goes back.
    Reasoning,
    /// A block of a kind that only this provider knows.
    Block(Value),
    /// Signatures of one call.
    Call { id: String, signatures: Vec<String> },
}

impl Echo {
    pub(crate) fn read(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }

    fn part(&self, form: &Form) -> Option<Part> {
        let value = serde_json::to_value(self).ok()?;
        Some(Part::Opaque { provider: Arc::clone(&form.provider), value })
    }
}

impl Answer {
    /// An answer that `genai` could not read: of OpenAI's wire, since a call's arguments are no JSON; of Gemini,
    /// since the prompt was blocked. `None` if it is neither.
    pub(crate) fn salvage(body: &Value, blank: Self) -> Option<Self> {
        if let Some(refusal) = blocked(body) {
            return Some(Self { refusal, ..blank });
        }
        let choice = body.pointer("/choices/0")?;
        let message = choice.get("message")?;
        let text = |key: &str| message.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let mut content: Vec<_> = text("content").map(ContentPart::from_text).into_iter().collect();
        for call in message.get("tool_calls")?.as_array()? {
            content.push(ContentPart::ToolCall(chat::ToolCall {
                call_id: call.get("id").and_then(Value::as_str).unwrap_or_default().into(),
                fn_name: call.pointer("/function/name")?.as_str()?.into(),
                fn_arguments: call.pointer("/function/arguments").cloned().unwrap_or_default(),
                thought_signatures: None,
            }));
        }
        Some(Self {
            content,
            reasoning: text("reasoning_content").or_else(|| text("reasoning")).map(str::to_owned),
            stop: choice.get("finish_reason").and_then(Value::as_str).map(|stop| stop.to_owned().into()),
            usage: body.get("usage").and_then(|usage| chat::Usage::deserialize(usage).ok()),
            ..blank
        })
    }

    /// The answer in the engine's form.
    pub(crate) fn response(self, form: &Form) -> ModelResponse {
        let mut parts = Vec::new();
        let in_content = self.content.iter().any(|part| matches!(part, ContentPart::ReasoningContent(_)));
        let calls = self.content.iter().filter(|part| part.is_tool_call()).count();
        if let Some(text) = self.reasoning.filter(|text| !in_content && !text.is_empty()) {
            parts.push(Part::Reasoning { text: text.into() });
            // Required back only while tools run; later it is not needed.
            if form.echoes_reasoning && calls > 0 {
                parts.extend(Echo::Reasoning.part(form));
            }
        }
        push_content(self.content, self.turn, form, &mut parts);
        let mut finish = finish(self.stop.as_ref(), calls > 0);
        if !self.refusal.is_empty() {
            parts.push(Part::text(self.refusal));
            finish = FinishReason::Refusal;
        }
        if self.wrapped {
            unwrap_texts(&mut parts);
        }
        ModelResponse { parts, finish, usage: usage(self.usage) }
    }
}

fn unwrap_texts(parts: &mut Vec<Part>) {
    let text: String = parts.iter().filter_map(Part::as_text).collect();
    if let Some(inner) = output::unwrap(&text) {
        parts.retain(|part| part.as_text().is_none());
        parts.push(Part::text(inner));
    }
}

/// Gemini's reason for a blocked prompt, as text for people.
pub(crate) fn blocked(body: &Value) -> Option<String> {
    let reason = body.pointer("/promptFeedback/blockReason")?.as_str()?;
    Some(format!("The provider blocked the prompt ({reason})."))
}

fn push_content(content: Vec<ContentPart>, turn: u32, form: &Form, parts: &mut Vec<Part>) {
    // Gemini signs single calls. For other providers a call only repeats the signatures before it.
    let of_calls: HashSet<String> = match form.wire {
        Wire::Gemini => content
            .iter()
            .filter_map(|part| part.as_tool_call()?.thought_signatures.clone())
            .flatten()
            .collect(),
        _ => HashSet::new(),
    };
    let mut ids = HashSet::new();
    let mut content = content.into_iter().peekable();
    while let Some(part) = content.next() {
        match part {
            ContentPart::Text(text) if !text.is_empty() => parts.push(Part::text(text)),
            ContentPart::ThoughtSignature(signature) if of_calls.contains(&signature) => {}
            ContentPart::ThoughtSignature(signature) => {
                let thought = content.next_if(|next| matches!(next, ContentPart::ReasoningContent(_)));
                if let Some(ContentPart::ReasoningContent(text)) = thought
                    && !text.is_empty()
                {
                    parts.push(Part::Reasoning { text: text.into() });
                }
                parts.extend(Echo::Signature(signature).part(form));
            }
            ContentPart::ReasoningContent(text) if !text.is_empty() => {
                parts.push(Part::Reasoning { text: text.into() });
            }
            ContentPart::Custom(block) => parts.extend(Echo::Block(block.data).part(form)),
            ContentPart::ToolCall(call) => {
                let id = unique(call.call_id, turn, &mut ids);
                if let Some(signatures) = call.thought_signatures.filter(|_| form.wire == Wire::Gemini) {
                    parts.extend(Echo::Call { id: id.clone(), signatures }.part(form));
                }
                parts.push(Part::Call(ToolCall {
                    id: id.into(),
                    name: form.meant(&call.fn_name).into(),
                    arguments: arguments(call.fn_arguments),
                }));
            }
            _ => {}
        }
    }
}

/// If a provider gives calls no ids, `genai` restarts their numbers in each answer, and for Gemini even in each piece
/// of a stream. An id that may repeat gets the turn as a suffix, a repeated one a number.
fn unique(mut id: String, turn: u32, ids: &mut HashSet<String>) -> String {
    let numbered =
        id.strip_prefix("call_").is_some_and(|n| n.len() <= 3 && n.bytes().all(|b| b.is_ascii_digit()));
    if id.is_empty() || numbered || id.starts_with("call#") {
        id = format!("{}#{turn}", if id.is_empty() { "call" } else { &id });
    }
    let mut candidate = id.clone();
    let mut n = 1;
    while !ids.insert(candidate.clone()) {
        n += 1;
        candidate = format!("{id}.{n}");
    }
    candidate
}

/// `genai` leaves arguments that it can't parse as text.
fn arguments(value: Value) -> Arguments {
    match value {
        Value::String(text) => Arguments::parse(&text),
        Value::Null => Arguments::Json(Arc::new(Value::Object(Map::new()))),
        value => Arguments::Json(Arc::new(value)),
    }
}

fn finish(stop: Option<&StopReason>, calls: bool) -> FinishReason {
    let done = if calls { FinishReason::ToolCalls } else { FinishReason::Stop };
    match stop {
        // Not all providers have a separate finish reason for calls.
        None | Some(StopReason::Completed(_) | StopReason::ToolCall(_) | StopReason::StopSequence(_)) => done,
        Some(StopReason::MaxTokens(_)) => FinishReason::Length,
        Some(StopReason::ContentFilter(_)) => FinishReason::Refusal,
        Some(StopReason::Other(word)) => match word.as_str() {
            "guardrail_intervened" | "content_filtered" => FinishReason::Refusal,
            _ => FinishReason::Other,
        },
    }
}

fn usage(usage: Option<chat::Usage>) -> Usage {
    let count = |tokens: i32| u64::try_from(tokens).ok();
    usage.map_or_else(Usage::default, |usage| {
        let details = usage.prompt_tokens_details.unwrap_or_default();
        Usage {
            input_tokens: usage.prompt_tokens.and_then(count),
            cached_tokens: details.cached_tokens.and_then(count),
            cache_write_tokens: details.cache_creation_tokens.and_then(count),
            output_tokens: usage.completion_tokens.and_then(count),
            cost_usd: None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use genai::{ModelIden, adapter::AdapterKind};
    use llm_do_core::model::{Message, MessageId, Role};
    use serde_json::json;

    fn form(wire: Wire) -> Form {
        Form {
            wire,
            iden: ModelIden::new(AdapterKind::Gemini, "gemini-3-flash"),
            provider: "p".into(),
            images: true,
            pdf: true,
            echoes_reasoning: true,
        }
    }

    fn call(id: &str, signatures: Option<&str>) -> ContentPart {
        ContentPart::ToolCall(chat::ToolCall {
            call_id: id.into(),
            fn_name: "f".into(),
            fn_arguments: json!({}),
            thought_signatures: signatures.map(|signature| vec![signature.to_owned()]),
        })
    }

    fn ids(response: &ModelResponse) -> Vec<&str> {
        let calls = response.parts.iter().filter_map(|part| match part {
            Part::Call(call) => Some(&*call.id),
            _ => None,
        });
        calls.collect()
    }

    #[test]
    fn calls_have_ids_of_their_own_even_where_the_provider_gives_none() {
        let answer = |ids: &[&str]| Answer {
            content: ids.iter().map(|id| call(id, None)).collect(),
            turn: 3,
            ..Answer::default()
        };
        let response = answer(&["call#f#0", "call#f#0", "", "call_0", "toolu_1", "toolu_1"])
            .response(&form(Wire::Gemini));
        assert_eq!(
            ids(&response),
            ["call#f#0#3", "call#f#0#3.2", "call#3", "call_0#3", "toolu_1", "toolu_1.2"]
        );
        let real = answer(&["call_Abc123", "toolu_9"]).response(&form(Wire::OpenAi));
        assert_eq!(ids(&real), ["call_Abc123", "toolu_9"]);
    }

    #[test]
    fn signatures_of_gemini_return_to_the_calls_they_belong_to() {
        let form = form(Wire::Gemini);
        let content = vec![
            ContentPart::ThoughtSignature("of-text".into()),
            ContentPart::ThoughtSignature("of-call".into()),
            ContentPart::from_text("Hm."),
            call("a", Some("of-call")),
            call("b", None),
        ];
        let reasoning = Some("Thinking.".to_owned());
        let response = Answer { content, reasoning, ..Answer::default() }.response(&form);
        assert!(matches!(&response.parts[0], Part::Reasoning { text } if &**text == "Thinking."));
        let message =
            Message { id: MessageId(0), parent: None, role: Role::Assistant, parts: response.parts };
        let mut back = Vec::new();
        form.push(&message, &mut back).unwrap();
        let content = &back[0].content;
        assert!(content.thought_signatures().contains(&"of-text"));
        let calls = content.tool_calls();
        assert_eq!(calls[0].thought_signatures, Some(vec!["of-call".to_owned()]));
        assert_eq!(calls[1].thought_signatures, None);
    }

    #[test]
    fn thinking_goes_back_as_text_only_where_it_is_wanted_and_tools_run() {
        let form = form(Wire::OpenAi);
        let sent_back = |content: Vec<ContentPart>| {
            let reasoning = Some("Thinking.".to_owned());
            let parts = Answer { content, reasoning, ..Answer::default() }.response(&form).parts;
            let mut back = Vec::new();
            form.push(&Message { id: MessageId(0), parent: None, role: Role::Assistant, parts }, &mut back)
                .unwrap();
            back[0].content.joined_reasoning_content()
        };
        assert_eq!(sent_back(vec![call("a", None)]).as_deref(), Some("Thinking."));
        assert_eq!(sent_back(vec![ContentPart::from_text("Hi.")]), None);
    }

    #[test]
    fn finish_reasons_are_mapped() {
        let of = |word: &str, calls| finish(Some(&StopReason::from(word.to_owned())), calls);
        for (word, calls, expected) in [
            ("stop", false, FinishReason::Stop),
            ("STOP", true, FinishReason::ToolCalls),
            ("tool_use", true, FinishReason::ToolCalls),
            ("tool_calls", false, FinishReason::Stop),
            ("max_tokens", true, FinishReason::Length),
            ("refusal", false, FinishReason::Refusal),
            ("SAFETY", false, FinishReason::Refusal),
            ("guardrail_intervened", false, FinishReason::Refusal),
            ("pause_turn", false, FinishReason::Other),
        ] {
            assert_eq!(of(word, calls), expected, "{word}");
        }
    }

    #[test]
    fn an_empty_usage_is_unknown_and_not_zero() {
        assert_eq!(usage(None), Usage::default());
        assert_eq!(usage(Some(chat::Usage::default())).input_tokens, None);
    }
}
