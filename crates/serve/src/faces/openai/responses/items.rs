//! The output items of a response, and its events.

use super::{
    Head,
    id::{ResponseId, request_id},
};
use crate::{
    error::ApiError,
    faces::{
        answering::Shown,
        openai::{
            error::Wrong,
            tools::{LABEL, call_id},
        },
        round::{Called, Piece, Settled},
        stream::Writer,
    },
    views::QuestionView,
};
use axum::response::sse::Event;
use llm_do::{
    core::{question::Question, step_name::Attempt},
    output_text,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The name of an approval request that asks the user something.
const ASK: &str = "ask_user";
/// The name of an approval request about a tool that was cut off.
const SETTLE: &str = "settle";

/// The output of a response.
pub(super) struct Items {
    run: Arc<str>,
    list: Vec<Value>,
    /// The message that is being written: the request that it answers, and its text.
    open: Option<(Attempt, String)>,
}

impl Items {
    pub(super) fn new(id: &ResponseId) -> Self {
        Self { run: Arc::clone(&id.run), list: Vec::new(), open: None }
    }

    pub(super) fn list(&self) -> Vec<Value> {
        self.list.clone()
    }

    /// The ID of a message names the request that it answers, so that it is the same in a stream and afterwards.
    fn message_id(&self, Attempt { turn, attempt }: Attempt) -> String {
        match attempt {
            0 => format!("msg_{}_{turn}", self.run),
            attempt => format!("msg_{}_{turn}_{attempt}", self.run),
        }
    }

    fn message(&self, turn: Attempt, content: &[Value], status: &str) -> Value {
        json!({
            "id": self.message_id(turn),
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        })
    }

    pub(super) fn piece(&mut self, piece: Piece) {
        match piece {
            Piece::Text { turn, text } => match &mut self.open {
                Some((of, so_far)) if *of == turn => so_far.push_str(&text),
                open => *open = Some((turn, text)),
            },
            Piece::Void { .. } => self.open = None,
            Piece::Said { .. } => {
                if let Some((turn, text)) = self.open.take() {
                    self.list.push(self.message(turn, &[part(&text)], "completed"));
                }
            }
            Piece::Called(called) => self.list.push(self.call(&called)),
            Piece::Grown(_) | Piece::Withdrawn => {}
        }
    }

    fn call(&self, called: &Called) -> Value {
        let (output, error) = match &called.result {
            Ok(value) => (Some(output_text(value, false)), None),
            Err(failure) => {
                let content = json!([{"type": "text", "text": failure.message}]);
                (None, Some(json!({"type": "mcp_tool_execution_error", "content": content})))
            }
        };
        json!({
            "id": format!("mcp_{}_{}", self.run, called.open.path.as_str().replace('/', "-")),
            "type": "mcp_call",
            "server_label": LABEL,
            "name": called.open.function,
            "arguments": called.open.input.to_string(),
            "approval_request_id": null,
            "output": output,
            "status": if error.is_some() { "failed" } else { "completed" },
            "error": error,
        })
    }

    /// Adds the call of the forced function, which carries the output.
    pub(super) fn call_forced(&mut self, head: &Head, settled: &Settled) {
        if let Some(Ok((forced, arguments))) = head.arguments(settled) {
            self.list.push(json!({
                "id": format!("fc_{}", self.run),
                "type": "function_call",
                "call_id": call_id(&self.run),
                "name": forced.name(),
                "arguments": arguments,
                "status": "completed",
            }));
        }
    }

    /// Adds the questions.
    pub(super) fn ask(&mut self, questions: &[QuestionView]) {
        for question in questions {
            let waiting = &question.waiting;
            let (name, arguments) = match &waiting.question {
                Question::Approval(approval) => (&*approval.function, approval.input.to_string()),
                Question::Input(input) => {
                    (ASK, json!({"prompt": input.prompt, "schema": input.schema}).to_string())
                }
                Question::Settlement(settlement) => {
                    let of = json!({"function": settlement.function, "arguments": settlement.input});
                    (SETTLE, of.to_string())
                }
            };
            self.list.push(json!({
                "id": request_id(&Shown::of(&self.run, waiting)),
                "type": "mcp_approval_request",
                "server_label": LABEL,
                "name": name,
                "arguments": arguments,
            }));
        }
    }
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

/// A response as a stream of events, numbered in order.
pub(super) struct Writing {
    head: Head,
    items: Items,
    number: u64,
}

impl Writing {
    pub(super) fn new(head: Head, items: Items) -> Self {
        Self { head, items, number: 0 }
    }

    fn event(&mut self, kind: &str, mut fields: Value) -> Event {
        fields["type"] = kind.into();
        fields["sequence_number"] = self.number.into();
        self.number += 1;
        Event::default().event(kind).data(fields.to_string())
    }

    /// Returns the index of the next item.
    fn index(&self) -> usize {
        self.items.list.len()
    }

    /// Begins a message.
    fn begin_message(&mut self, turn: Attempt) -> Vec<Event> {
        let (id, index) = (self.items.message_id(turn), self.index());
        let item = self.items.message(turn, &[], "in_progress");
        vec![
            self.event("response.output_item.added", json!({"output_index": index, "item": item})),
            self.event(
                "response.content_part.added",
                json!({"item_id": id, "output_index": index, "content_index": 0, "part": part("")}),
            ),
        ]
    }

    /// Ends the message that is being written, with that status.
    fn end_message(&mut self, status: &str) -> Vec<Event> {
        let Some((turn, text)) = self.items.open.take() else { return Vec::new() };
        let (id, index) = (self.items.message_id(turn), self.index());
        let item = self.items.message(turn, &[part(&text)], status);
        self.items.list.push(item.clone());
        vec![
            self.event(
                "response.output_text.done",
                json!({"item_id": id, "output_index": index, "content_index": 0, "text": text, "logprobs": []}),
            ),
            self.event(
                "response.content_part.done",
                json!({"item_id": id, "output_index": index, "content_index": 0, "part": part(&text)}),
            ),
            self.event("response.output_item.done", json!({"output_index": index, "item": item})),
        ]
    }

    fn called(&mut self, called: &Called) -> Vec<Event> {
        let (item, index) = (self.items.call(called), self.index());
        self.items.list.push(item.clone());
        let (id, arguments) = (item["id"].clone(), item["arguments"].clone());
        let mut begun = item.clone();
        begun["status"] = "in_progress".into();
        begun["output"] = Value::Null;
        begun["error"] = Value::Null;
        let of = json!({"item_id": id, "output_index": index});
        let ended =
            if called.result.is_ok() { "response.mcp_call.completed" } else { "response.mcp_call.failed" };
        let mut done = of.clone();
        done["arguments"] = arguments;
        vec![
            self.event("response.output_item.added", json!({"output_index": index, "item": begun})),
            self.event("response.mcp_call.in_progress", of.clone()),
            self.event("response.mcp_call_arguments.done", done),
            self.event(ended, of),
            self.event("response.output_item.done", json!({"output_index": index, "item": item})),
        ]
    }
}

impl Writing {
    /// Adds the call of the forced function, and returns its events.
    fn forced(&mut self, settled: &Settled) -> Vec<Event> {
        let index = self.index();
        self.items.call_forced(&self.head, settled);
        let Some(item) = self.items.list.get(index).cloned() else { return Vec::new() };
        let (id, arguments) = (item["id"].clone(), item["arguments"].clone());
        let mut begun = item.clone();
        begun["status"] = "in_progress".into();
        begun["arguments"] = "".into();
        let name = item["name"].clone();
        vec![
            self.event("response.output_item.added", json!({"output_index": index, "item": begun})),
            self.event(
                "response.function_call_arguments.delta",
                json!({"item_id": id, "output_index": index, "delta": arguments}),
            ),
            self.event(
                "response.function_call_arguments.done",
                json!({"item_id": id, "output_index": index, "name": name, "arguments": arguments}),
            ),
            self.event("response.output_item.done", json!({"output_index": index, "item": item})),
        ]
    }
}

impl Writer for Writing {
    fn begin(&mut self) -> Vec<Event> {
        let response = self.head.response("in_progress", &self.items, None);
        vec![
            self.event("response.created", json!({"response": response})),
            self.event("response.in_progress", json!({"response": response})),
        ]
    }

    fn piece(&mut self, piece: Piece) -> Vec<Event> {
        if !self.head.is_heard(&piece) {
            return Vec::new();
        }
        match piece {
            Piece::Text { turn, text } => {
                let continues = self.items.open.as_ref().is_some_and(|(of, _)| *of == turn);
                let mut events = if continues { Vec::new() } else { self.begin_message(turn) };
                let (id, index) = (self.items.message_id(turn), self.index());
                events.push(self.event(
                    "response.output_text.delta",
                    json!({"item_id": id, "output_index": index, "content_index": 0, "delta": text, "logprobs": []}),
                ));
                self.items.piece(Piece::Text { turn, text });
                events
            }
            Piece::Void { .. } => self.end_message("incomplete"),
            Piece::Said { .. } => self.end_message("completed"),
            Piece::Called(called) => self.called(&called),
            // The interface has no place for a value that grows.
            Piece::Grown(_) | Piece::Withdrawn => Vec::new(),
        }
    }

    fn end(&mut self, settled: Settled) -> Vec<Event> {
        let mut events = self.end_message("incomplete");
        events.extend(self.forced(&settled));
        let before = self.index();
        self.items.ask(&settled.questions);
        for index in before..self.items.list.len() {
            let item = self.items.list[index].clone();
            events
                .push(self.event("response.output_item.added", json!({"output_index": index, "item": item})));
            events
                .push(self.event("response.output_item.done", json!({"output_index": index, "item": item})));
        }
        let status = self.head.status(&settled);
        let response = self.head.response(status, &self.items, Some(&settled));
        let last = match status {
            "completed" => "response.completed",
            "in_progress" => "response.incomplete",
            _ => "response.failed",
        };
        events.push(self.event(last, json!({"response": response})));
        events
    }

    fn broken(&mut self, error: &ApiError) -> Vec<Event> {
        let body = Wrong::from(error.clone()).body();
        let of = |name: &str| body["error"][name].clone();
        vec![self.event("error", json!({"code": of("code"), "message": of("message"), "param": null}))]
    }
}
