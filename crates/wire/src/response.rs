//! Answers in the engine's form.

use crate::{
    failure::Failure,
    form::{Form, Wire},
    output,
    server_tools::{self, Results},
    valid::Mapping,
};
use llm_do_core::{
    model::{Arguments, FinishReason, ModelResponse, Part, ToolCall, Usage},
    server_tool::ServerUse,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::HashSet, sync::Arc};

/// An answer, streamed or not.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) blocks: Vec<Block>,
    /// The uses of the provider's tools that it reports outside the blocks.
    pub(crate) uses: Vec<ServerUse>,
    /// Thinking outside the blocks.
    pub(crate) reasoning: Option<String>,
    pub(crate) stop: Option<String>,
    pub(crate) usage: Usage,
    /// The model's refusal, where a provider sends it apart from the text.
    pub(crate) refusal: String,
    /// The number of the turn, to make call ids unique.
    pub(crate) turn: u32,
    /// The output is wrapped in an object, since the provider accepts no other schema.
    pub(crate) wrapped: bool,
    /// The names that the provider got.
    pub(crate) mapping: Mapping,
}

/// A piece of an answer.
#[derive(Debug, PartialEq)]
pub(crate) enum Block {
    /// Text, with the provider's own notes on where it comes from.
    Text { text: String, citations: Vec<Value> },
    /// Thinking. Its signature may be empty.
    Thinking { text: String, signature: String },
    /// A signature without text.
    Signature(String),
    /// A call of a function.
    Call(Call),
    /// A piece that the provider requires back unchanged.
    Opaque(Value),
}

/// A call of a function.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The arguments: JSON, or the text that the model wrote instead.
    pub(crate) arguments: String,
    pub(crate) signatures: Vec<String>,
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
    /// Citations, which belong to the [`Part::Text`] just before.
    Citations(Vec<Value>),
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

impl Block {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into(), citations: Vec::new() }
    }

    fn push(
        self,
        form: &Form,
        (turn, mapping): (u32, &Mapping),
        ids: &mut HashSet<String>,
        results: &mut Results,
        parts: &mut Vec<Part>,
    ) {
        match self {
            Self::Text { text, .. } if text.is_empty() => {}
            Self::Text { text, citations } => {
                parts.push(Part::text(text));
                let sources = server_tools::cited(&citations);
                // Other providers don't want them back.
                if !citations.is_empty() && form.wire == Wire::Anthropic {
                    parts.extend(Echo::Citations(citations).part(form));
                }
                if !sources.is_empty() {
                    parts.push(Part::Cited { sources });
                }
            }
            Self::Thinking { text, signature } => {
                if !text.is_empty() {
                    parts.push(Part::Reasoning { text: text.into() });
                }
                if !signature.is_empty() {
                    parts.extend(Echo::Signature(signature).part(form));
                }
            }
            Self::Signature(signature) => parts.extend(Echo::Signature(signature).part(form)),
            Self::Opaque(value) => {
                parts.extend(results.used(form.wire, &value).map(Part::ServerUse));
                parts.extend(Echo::Block(value).part(form));
            }
            Self::Call(Call { id, name, arguments, signatures }) => {
                let id = unique(id, turn, ids);
                if !signatures.is_empty() {
                    parts.extend(Echo::Call { id: id.clone(), signatures }.part(form));
                }
                let name = mapping.meant(&name);
                let arguments = match Arguments::parse(&arguments) {
                    Arguments::Json(value) if mapping.renames(name) => {
                        Arguments::Json(Arc::new(mapping.meant_arguments(name, (*value).clone())))
                    }
                    arguments => arguments,
                };
                parts.push(Part::Call(ToolCall { id: id.into(), name: name.into(), arguments }));
            }
        }
    }
}

impl Answer {
    /// Returns the answer in the engine's form.
    ///
    /// # Errors
    /// The provider has ended the answer because of a failure.
    pub(crate) fn response(self, form: &Form) -> Result<ModelResponse, Failure> {
        let mut parts = Vec::new();
        let in_blocks = self.blocks.iter().any(|block| matches!(block, Block::Thinking { .. }));
        let has_calls = self.blocks.iter().any(|block| matches!(block, Block::Call(_)));
        if let Some(text) = self.reasoning.filter(|text| !in_blocks && !text.is_empty()) {
            parts.push(Part::Reasoning { text: text.into() });
            // Required back only while tools run; later it is not needed.
            if form.echoes_reasoning() && has_calls {
                parts.extend(Echo::Reasoning.part(form));
            }
        }
        let mut ids = HashSet::new();
        let own = self.blocks.iter().filter_map(|block| match block {
            Block::Opaque(value) => Some(value),
            _ => None,
        });
        let mut results = Results::among(form.wire, own);
        for block in self.blocks {
            block.push(form, (self.turn, &self.mapping), &mut ids, &mut results, &mut parts);
        }
        parts.extend(self.uses.into_iter().map(Part::ServerUse));
        let uses = parts.iter().filter(|part| matches!(part, Part::ServerUse(_))).count() as u64;
        let counted = (uses > 0).then_some(uses);
        let usage = Usage { server_uses: self.usage.server_uses.or(counted), ..self.usage };
        let word = self.stop.as_deref();
        let (mut finish, mut unknown_finish) = match finish(word, form.wire, has_calls) {
            Finish::Known(finish) => (finish, None),
            Finish::Unknown(word) => (FinishReason::Other, Some(word.into())),
            Finish::Broken(word) => return Err(Failure::Broken(word.to_owned())),
        };
        if !self.refusal.is_empty() {
            parts.push(Part::text(self.refusal));
            (finish, unknown_finish) = (FinishReason::Refusal, None);
        }
        if self.wrapped {
            unwrap_texts(&mut parts);
        }
        Ok(ModelResponse { parts, finish, usage, unknown_finish })
    }
}

fn unwrap_texts(parts: &mut Vec<Part>) {
    let text: String = parts.iter().filter_map(Part::as_text).collect();
    if let Some(inner) = output::unwrap(&text) {
        parts.retain(|part| part.as_text().is_none());
        parts.push(Part::text(inner));
    }
}

/// Returns Gemini's reason for a blocked prompt, as text for people.
pub(crate) fn blocked(body: &Value) -> Option<String> {
    let reason = body.pointer("/promptFeedback/blockReason")?.as_str()?;
    Some(format!("The provider blocked the prompt ({reason})."))
}

/// Makes an id unique. Providers that give calls no ids restart their numbers in each answer. An id that may repeat
/// gets the turn as a suffix, a repeated one a number.
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

/// Returns arguments as text. Providers send them as text or as a value.
pub(crate) fn arguments_text(arguments: Option<&Value>) -> String {
    match arguments {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// The end of an answer.
#[derive(Debug, PartialEq)]
enum Finish<'w> {
    Known(FinishReason),
    /// The answer broke off and does not count.
    Broken(&'w str),
    /// The answer ended for a reason that llm-do does not know.
    Unknown(&'w str),
}

/// Returns the meaning of a provider's word for the end of an answer. Words are compared in lower case.
fn finish(word: Option<&str>, wire: Wire, calls: bool) -> Finish<'_> {
    const DONE: &[&str] = &[
        "stop",
        "end_turn",
        "complete",
        "completed",
        "stop_sequence",
        "eos",
        "eos_token",
        "end",
        "done",
        "finished",
        "tool_calls",
        "tool_call",
        "tool_use",
        "function_call",
        "function_calls",
    ];
    const LENGTH: &[&str] = &[
        "length",
        "max_tokens",
        "max_output_tokens",
        "max_new_tokens",
        "max_length",
        "max_completion_tokens",
        "incomplete",
        "model_length",
        "model_context_window_exceeded",
        "context_length",
        "context_length_exceeded",
        "context_window",
        "token_limit",
        "error_limit",
    ];
    const REFUSED: &[&str] = &[
        "content_filter",
        "content_filtered",
        "refusal",
        "refused",
        "safety",
        "recitation",
        "blocklist",
        "blocked",
        "prohibited_content",
        "spii",
        "language",
        "error_toxic",
        "guardrail_intervened",
        "sensitive",
        "moderation",
    ];
    const BROKEN: &[&str] = &[
        "error",
        "insufficient_system_resource",
        "abort",
        "aborted",
        "network_error",
        "cancelled",
        "canceled",
        "user_cancel",
        "failed",
        "failure",
        "timeout",
        "time_limit",
        "interrupted",
        "unavailable",
        "overloaded",
        "load",
        "unload",
        "malformed_function_call",
        "malformed_response",
        "malformed_model_output",
        "malformed_tool_use",
        "unexpected_tool_call",
        "too_many_tool_calls",
        "missing_thought_signature",
        "image_other",
    ];
    // Parts of words that no list has.
    const REFUSED_PARTS: &[&str] =
        &["filter", "safety", "policy", "prohibited", "sensitive", "moderation", "recitation"];
    const BROKEN_PARTS: &[&str] =
        &["error", "fail", "abort", "cancel", "timeout", "malformed", "unavailable"];
    let done = Finish::Known(if calls { FinishReason::ToolCalls } else { FinishReason::Stop });
    let Some(said) = word else {
        return if calls { done } else { Finish::Known(FinishReason::Other) };
    };
    let word = said.trim().to_ascii_lowercase();
    let is = |words: &[&str]| words.contains(&&*word);
    let has = |parts: &[&str]| parts.iter().any(|part| word.contains(part));
    // Not all providers have a separate reason for calls.
    if is(DONE) {
        done
    } else if is(LENGTH) {
        Finish::Known(FinishReason::Length)
    } else if is(REFUSED) {
        Finish::Known(FinishReason::Refusal)
    } else if word == "pause_turn" {
        Finish::Known(FinishReason::Paused)
    } else if is(BROKEN) || word == "other" && wire == Wire::Gemini {
        Finish::Broken(said)
    } else if has(REFUSED_PARTS) {
        Finish::Known(FinishReason::Refusal)
    } else if has(BROKEN_PARTS) {
        Finish::Broken(said)
    } else {
        Finish::Unknown(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::Dialect;
    use llm_do_core::{
        call_path::CallPath,
        model::{Message, MessageId, ModelRequest, ModelSettings, Role},
    };
    use serde_json::{Value, json};

    fn form(wire: Wire) -> Form {
        Form::new(wire, Dialect::Moonshot, "p", "m")
    }

    /// Returns the body of a request whose history ends with these parts of an answer.
    fn sent_back(form: &Form, parts: Vec<Part>) -> Value {
        let message = Message { id: MessageId(0), parent: None, role: Role::Assistant, parts };
        let request = ModelRequest {
            conversation: &CallPath::root(),
            run: "run",
            worker: "w",
            purpose: Default::default(),
            turn: 0,
            model: &"p:m".parse().unwrap(),
            system: &"".into(),
            messages: &[Arc::new(message)],
            tools: &Arc::from([]),
            server_tools: &Arc::from([]),
            settings: &ModelSettings::default(),
            output: None,
        };
        serde_json::from_slice(&form.request(&request, true).unwrap().body).unwrap()
    }

    fn call(id: &str, signature: Option<&str>) -> Block {
        Block::Call(Call {
            id: id.into(),
            name: "f".into(),
            arguments: "{}".into(),
            signatures: signature.map(str::to_owned).into_iter().collect(),
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
            blocks: ids.iter().map(|id| call(id, None)).collect(),
            turn: 3,
            ..Answer::default()
        };
        let response = answer(&["call#f#0", "call#f#0", "", "call_0", "toolu_1", "toolu_1"])
            .response(&form(Wire::Gemini))
            .unwrap();
        assert_eq!(
            ids(&response),
            ["call#f#0#3", "call#f#0#3.2", "call#3", "call_0#3", "toolu_1", "toolu_1.2"]
        );
        let real = answer(&["call_Abc123", "toolu_9"]).response(&form(Wire::OpenAi)).unwrap();
        assert_eq!(ids(&real), ["call_Abc123", "toolu_9"]);
    }

    #[test]
    fn signatures_of_gemini_return_to_the_calls_they_belong_to() {
        let form = form(Wire::Gemini);
        let blocks = vec![
            Block::Signature("of-text".into()),
            Block::text("Hm."),
            call("a", Some("of-call")),
            call("b", None),
        ];
        let reasoning = Some("Thinking.".to_owned());
        let response = Answer { blocks, reasoning, ..Answer::default() }.response(&form).unwrap();
        assert!(matches!(&response.parts[0], Part::Reasoning { text } if &**text == "Thinking."));
        let sent = sent_back(&form, response.parts);
        assert_eq!(
            sent["contents"][0]["parts"],
            json!([
                {"text": "Hm.", "thoughtSignature": "of-text"},
                {"functionCall": {"id": "a", "name": "f", "args": {}}, "thoughtSignature": "of-call"},
                {"functionCall": {"id": "b", "name": "f", "args": {}}},
            ])
        );
    }

    #[test]
    fn thinking_goes_back_as_text_only_where_it_is_wanted_and_tools_run() {
        let form = form(Wire::OpenAi);
        let sent = |blocks: Vec<Block>| {
            let reasoning = Some("Thinking.".to_owned());
            let parts = Answer { blocks, reasoning, ..Answer::default() }.response(&form).unwrap().parts;
            sent_back(&form, parts)["messages"][0]["reasoning_content"].clone()
        };
        assert_eq!(sent(vec![call("a", None)]), "Thinking.");
        assert_eq!(sent(vec![Block::text("Hi.")]), Value::Null);
    }

    #[test]
    fn finish_reasons_are_mapped() {
        use FinishReason as F;
        for (words, calls, expected) in [
            (&["stop", "STOP", "eos", "end_turn", "stop_sequence"] as &[&str], false, F::Stop),
            (&["tool_calls"], false, F::Stop),
            (&["stop", "tool_use", "tool_calls", "function_call"], true, F::ToolCalls),
            (
                &["max_tokens", "MAX_TOKENS", "length", "ERROR_LIMIT", "model_context_window_exceeded"],
                true,
                F::Length,
            ),
            (
                &["refusal", "SAFETY", "sensitive", "guardrail_intervened", "content_policy_violation"],
                false,
                F::Refusal,
            ),
            (&["content_filter_error"], false, F::Refusal),
            (&["pause_turn"], false, F::Paused),
        ] {
            for word in words {
                assert_eq!(finish(Some(word), Wire::OpenAi, calls), Finish::Known(expected), "{word}");
            }
        }
        for word in [
            "error",
            "ERROR",
            "insufficient_system_resource",
            "abort",
            "network_error",
            "engine_failure",
            "load",
        ] {
            for calls in [false, true] {
                assert_eq!(finish(Some(word), Wire::OpenAi, calls), Finish::Broken(word));
            }
        }
        assert_eq!(
            finish(Some("MALFORMED_FUNCTION_CALL"), Wire::Gemini, false),
            Finish::Broken("MALFORMED_FUNCTION_CALL")
        );
        assert_eq!(finish(Some("OTHER"), Wire::Gemini, false), Finish::Broken("OTHER"));
        assert_eq!(finish(Some("other"), Wire::OpenAi, false), Finish::Unknown("other"));
        assert_eq!(finish(Some("bored"), Wire::OpenAi, true), Finish::Unknown("bored"));
        assert_eq!(finish(None, Wire::OpenAi, false), Finish::Known(F::Other), "the reason is unknown");
        assert_eq!(finish(None, Wire::OpenAi, true), Finish::Known(F::ToolCalls), "the calls say it");
    }
}
