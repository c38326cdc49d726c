//! The events of AG-UI.

use super::request::SaidIn;
use crate::{
    error::ApiError,
    faces::{
        answering::Shown,
        round::{AtClient, Called, Piece, Settled},
        stream::Writer,
    },
    views::{QuestionView, State},
};
use axum::response::sse::Event;
use llm_do::{
    core::{call_path::CallPath, client_tool::name_at_client, model::Usage, question::Question},
    output_text, question_text,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The writer of a run of the protocol, which corresponds to a round of a run of llm-do.
pub(super) struct Writing {
    thread: String,
    /// The ID that the client has given to the protocol's run.
    run: String,
    round: SaidIn,
    /// The message that is being written.
    open: Option<String>,
    /// The number of messages begun so far.
    messages: usize,
}

/// The beginning of the IDs of calls that the client executes.
pub(super) const AT_CLIENT: &str = "client_";

fn event(kind: &str, mut fields: Value) -> Event {
    fields["type"] = kind.into();
    Event::default().data(fields.to_string())
}

/// Returns the ID of a call. The round that begins the call and the one that ends it use the same ID.
fn call_id(run: &str, path: &CallPath) -> String {
    format!("{run}_{}", path.as_str().replace('/', "-"))
}

/// Returns the ID of a call that the client executes. The message with the result has it.
pub(super) fn client_call_id(run: &str, path: &CallPath) -> String {
    format!("{AT_CLIENT}{}", call_id(run, path))
}

impl Writing {
    pub(super) fn new(thread: String, run: String, round: SaidIn) -> Self {
        Self { thread, run, round, open: None, messages: 0 }
    }

    fn end_message(&mut self) -> Option<Event> {
        let id = self.open.take()?;
        Some(event("TEXT_MESSAGE_END", json!({"messageId": id})))
    }

    fn begin_call(id: &str, function: &str, input: &Value) -> [Event; 3] {
        [
            event("TOOL_CALL_START", json!({"toolCallId": id, "toolCallName": name_at_client(function)})),
            event("TOOL_CALL_ARGS", json!({"toolCallId": id, "delta": input.to_string()})),
            event("TOOL_CALL_END", json!({"toolCallId": id})),
        ]
    }

    fn called(&mut self, called: &Called) -> Vec<Event> {
        let id = call_id(&self.round.run, &called.open.path);
        let mut events: Vec<Event> = self.end_message().into_iter().collect();
        if called.open.at_client.is_asked() {
            // The client has the call, and has made its result.
            return events;
        }
        if !called.open.began_before || called.open.at_client == AtClient::NotAsked {
            events.extend(Self::begin_call(&id, &called.open.function, &called.open.input));
        }
        let content = match &called.result {
            Ok(value) => output_text(value, false),
            Err(failure) => failure.message.clone(),
        };
        let message = format!("{id}_result");
        events.push(event(
            "TOOL_CALL_RESULT",
            json!({"messageId": message, "toolCallId": id, "content": content, "role": "tool"}),
        ));
        events
    }

    fn finished(&self, outcome: Value, settled: &Settled) -> Event {
        let mut fields = json!({
            "threadId": self.thread,
            "runId": self.run,
            "outcome": outcome,
            "metadata": {"run": settled.run.run},
        });
        if let Some(output) = &settled.run.output {
            fields["result"] = (**output).clone();
        }
        if let Some(usage) = usage_of(settled.usage) {
            fields["usage"] = json!([usage]);
        }
        event("RUN_FINISHED", fields)
    }
}

impl Writer for Writing {
    fn begin(&mut self) -> Vec<Event> {
        vec![event("RUN_STARTED", json!({"threadId": self.thread, "runId": self.run}))]
    }

    fn piece(&mut self, piece: Piece) -> Vec<Event> {
        match piece {
            Piece::Text { text, .. } => {
                let mut events = Vec::new();
                let id = match &self.open {
                    Some(id) => id.clone(),
                    None => {
                        self.messages += 1;
                        let id = self.round.message(self.messages);
                        events
                            .push(event("TEXT_MESSAGE_START", json!({"messageId": id, "role": "assistant"})));
                        self.open.insert(id).clone()
                    }
                };
                events.push(event("TEXT_MESSAGE_CONTENT", json!({"messageId": id, "delta": text})));
                events
            }
            Piece::Void { .. } | Piece::Said { .. } => self.end_message().into_iter().collect(),
            Piece::Called(called) => self.called(&called),
            Piece::Grown(growth) => vec![event("CUSTOM", json!({"name": "partial", "value": growth}))],
            Piece::Withdrawn => vec![event("CUSTOM", json!({"name": "discard_partial", "value": null}))],
        }
    }

    fn end(&mut self, settled: Settled) -> Vec<Event> {
        let mut events: Vec<Event> = self.end_message().into_iter().collect();
        if !settled.questions.is_empty() {
            let own = settled.open.iter().filter(|open| open.at_client == AtClient::No && !open.began_before);
            for open in own {
                let id = call_id(&self.round.run, &open.path);
                events.extend(Self::begin_call(&id, &open.function, &open.input));
            }
            for open in settled.at_client.iter().filter(|open| open.at_client == AtClient::Asked) {
                let id = client_call_id(&self.round.run, &open.path);
                events.extend(Self::begin_call(&id, &open.function, &open.input));
            }
            let is_at_client = |question: &&QuestionView| {
                settled.at_client.iter().any(|open| open.path == question.waiting.id.call)
            };
            let interrupts: Vec<Value> = settled
                .questions
                .iter()
                .filter(|question| !is_at_client(question))
                .map(|question| interrupt(&settled, question))
                .collect();
            if interrupts.is_empty() {
                // The protocol has no outcome of its own for calls of the client: the next request has the results.
                events.push(self.finished(json!({"type": "success"}), &settled));
                return events;
            }
            events.push(self.finished(json!({"type": "interrupt", "interrupts": interrupts}), &settled));
            return events;
        }
        events.push(match (settled.run.state, settled.failure()) {
            (State::Cancelled, _) => self.finished(json!({"type": "cancelled"}), &settled),
            (state, Some(message)) => {
                let mut fields =
                    json!({"message": message, "code": state.name(), "metadata": {"run": settled.run.run}});
                if let Some(usage) = usage_of(settled.usage) {
                    fields["usage"] = json!([usage]);
                }
                event("RUN_ERROR", fields)
            }
            (_, None) => self.finished(json!({"type": "success"}), &settled),
        });
        events
    }

    fn broken(&mut self, error: &ApiError) -> Vec<Event> {
        let code = serde_json::to_value(error.code()).unwrap_or_default();
        vec![event("RUN_ERROR", json!({"message": error.detail(), "code": code}))]
    }
}

/// Converts a question to an interrupt.
fn interrupt(settled: &Settled, question: &QuestionView) -> Value {
    let waiting = &question.waiting;
    let run: &Arc<str> = &settled.run.run;
    let (reason, schema) = match &waiting.question {
        Question::Approval(_) => (
            "tool_approval",
            json!({
                "type": "object",
                "properties": {
                    "approved": {"type": "boolean"},
                    "reason": {"type": "string", "description": "Why the call is refused"},
                    "arguments": {"type": "object", "description": "Arguments in place of the call's own"},
                },
                "required": ["approved"],
            }),
        ),
        Question::Input(input) => (
            "input_required",
            input
                .schema
                .as_deref()
                .filter(|schema| schema.is_object())
                .cloned()
                .unwrap_or_else(|| json!({"type": "string"})),
        ),
        Question::Settlement(_) => (
            "settlement",
            json!({
                "type": "object",
                "properties": {
                    "again": {"type": "boolean", "description": "true: run it again; false, without a result: end the run"},
                    "result": {"description": "The result of the call, if it took effect"},
                },
            }),
        ),
    };
    let mut fields = json!({
        "id": Shown::of(run, waiting).to_string(),
        "reason": reason,
        "message": question_text::markdown(&waiting.question),
        "responseSchema": schema,
        "metadata": {"run": run, "question": waiting},
    });
    // The question can be one of a call below.
    let mut told = settled.open.iter().filter(|open| open.at_client == AtClient::No);
    if let Some(open) = told.find(|open| waiting.id.call.is_within(&open.path)) {
        fields["toolCallId"] = call_id(run, &open.path).into();
    }
    fields
}

fn usage_of(usage: Usage) -> Option<Value> {
    let (input, output) = (usage.input_tokens?, usage.output_tokens?);
    let mut counted =
        json!({"inputTokens": input, "outputTokens": output, "totalTokens": input.saturating_add(output)});
    if let Some(cached) = usage.cached_tokens {
        counted["cachedInputTokens"] = cached.into();
    }
    if let Some(written) = usage.cache_write_tokens {
        counted["cacheWriteInputTokens"] = written.into();
    }
    Some(counted)
}
