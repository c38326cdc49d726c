//! Handling of a run's records: shows them, and keeps the parts that commands need.

use super::{CALL, Conversation, Input, Talk, arguments, start};

use llm_do::{Called, attached_name, output_text};
use llm_do_core::{
    call_path::CallPath,
    event::Event,
    journal::{Ending, Record, RecordKind},
    model::{Delta, FinishReason, Purpose},
    origin::Origin,
    question::{Answer, Given},
    results::show,
    step_name::StepName,
    undo::Restoration,
};
use llm_do_records::{CallView, duration};
use serde_json::Value;
use std::sync::Arc;

/// Returns the function and its arguments, on one line.
fn call_line(call: &CallView) -> String {
    start(&format!("{}{}", call.function, arguments(&call.input)), CALL)
}

/// Returns the line of a call that has ended, with its time or the reason why it failed.
pub(super) fn ended_line(call: &CallView) -> String {
    let what = call_line(call);
    match &call.failure {
        Some(failure) => format!("{what}  {}", start(&failure.message, CALL)),
        None => format!("{what}  {}", duration(call.worked_ms(call.ended_ms.unwrap_or(call.started_ms)))),
    }
}

impl Talk<'_> {
    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::Record { record } => {
                self.view.fold((&**record).into());
                self.show_record(record);
                self.note_record(record);
            }
            Event::Delta { path, delta: Delta::Text { text }, .. } => {
                if let Some(conversation) = self.conversations.get(path) {
                    self.face.delta(&conversation.worker, text);
                }
            }
            Event::Delta { .. } | Event::Partial { .. } | Event::DiscardPartial { .. } => {}
            Event::Discard { path, .. } => {
                if self.conversations.contains_key(path) {
                    self.face.discard();
                }
            }
        }
    }

    /// Keeps the parts of a record that later commands need. The view already has the record.
    pub(super) fn note_record(&mut self, record: &Record) {
        let view = &self.view;
        self.decisions.record(record, view, || view.call(&record.path).map(call_line));
        if let Some(conversation) = Conversation::begun(&record.body) {
            self.conversations.insert(record.path.clone(), conversation);
        }
    }

    /// Shows the output of a worker: a text as an answer, a value as JSON.
    pub(super) fn show_output(&mut self, worker: &str, value: &Value) {
        match value {
            Value::String(text) => self.face.answer(worker, text, false),
            value => self.face.output(worker, &output_text(value, true)),
        }
    }

    /// Shows that a worker talks to the user in the middle of the run.
    pub(super) fn introduce(&mut self, path: &CallPath, worker: &str, origin: Origin) {
        let above = path.parent().map(|parent| self.view.chain(&parent)).unwrap_or_default();
        let chain = [above, vec![worker]].concat().join(" → ");
        let library = worker.split_once(':').map(|(library, _)| format!(" (of the library {library})"));
        let library = library.unwrap_or_default();
        let tainted = match origin {
            Origin::Untrusted => "; it has read untrusted content, so others may steer what it says",
            Origin::Trusted | Origin::Typed => "",
        };
        self.face.note(&format!("{chain}{library} talks to you; /done ends this conversation{tainted}"));
    }

    /// Shows a record.
    pub(super) fn show_record(&mut self, record: &Record) {
        let path = &record.path;
        match &record.body {
            RecordKind::Answered(Given { answer: Answer::Give { value }, .. })
                if matches!(record.step, StepName::Now(_)) =>
            {
                self.face.said(&show(value));
            }
            RecordKind::Answered(Given { answer: Answer::Rule { rule, calls }, .. }) => {
                self.show_new_rule(*rule, calls);
            }
            RecordKind::Answered(Given { answer: Answer::Forget { .. }, .. }) => {
                self.face.note("it holds no more");
            }
            RecordKind::Answered(Given { answer: Answer::Detach { .. }, .. }) => {
                self.face.note("it does not join your next message any more");
            }
            RecordKind::Answered(Given { answer: Answer::Keep { .. }, .. }) => {
                self.face.note("the result joins your next message; /detach takes it back");
            }
            RecordKind::Attached { part, bytes, .. } => {
                let name = attached_name(part);
                self.face
                    .note(&format!("{name} ({bytes} bytes) joins your next message; /detach takes it back"));
            }
            RecordKind::ModelChosen { model, .. } if record.step.is_stand_in() => {
                self.face.note(&format!("{model} answers from here on"));
            }
            RecordKind::ModelChosen { model, .. } => {
                self.face.note(&format!("{model} answers from your next message on"));
            }
            RecordKind::ModelNotChosen { reason } => self.face.problem(&format!("the model stays: {reason}")),
            RecordKind::NotAttached { reason } => {
                self.face.problem(&format!("not attached: {reason}"));
                // The message that named it is not sent without it.
                self.take(Input::NotAttached(Vec::new()));
            }
            RecordKind::ModelAnswered { message, finish, .. }
                if record.step.request() == Some(Purpose::Answer) =>
            {
                let Some(conversation) = self.conversations.get(path) else { return };
                let (text, cut_off) = (message.said(), *finish == FinishReason::Stopped);
                if !text.trim().is_empty() {
                    let worker = Arc::clone(&conversation.worker);
                    self.face.answer(&worker, &text, cut_off);
                } else if cut_off {
                    self.face.note("stopped before the answer had any text");
                }
            }
            RecordKind::ConversationStarted { worker, origin, with_user: true, .. }
                if *path != CallPath::root() =>
            {
                self.introduce(path, worker, *origin);
            }
            RecordKind::Compacted(compaction) if self.conversations.contains_key(path) => {
                self.compacted(compaction);
            }
            RecordKind::ModelFailed { error, .. } => self.face.note(&format!("↻ {}", error.message)),
            RecordKind::Note { text } => self.face.note(text),
            RecordKind::Undone { files, others } => {
                // The question shows those that can be restored.
                let left = files.iter().filter(|file| file.state != Restoration::Restorable);
                left.for_each(|file| self.face.note(&file.to_string()));
                if !others.is_empty() {
                    self.face.note(&format!("what these have done is not undone: {}", others.join(", ")));
                }
            }
            RecordKind::Restored { files } => {
                files.iter().for_each(|file| self.face.note(&file.to_string()));
            }
            RecordKind::ToolEnded { ending, .. } | RecordKind::CallEnded { ending, .. }
                if *path != CallPath::root() =>
            {
                let Some(call) = self.view.call(path) else { return };
                let Some(called) = Called::of(call, &ended_line) else { return };
                if let (true, Ending::Output(value)) = (path.is_by_user(), ending) {
                    let name = Arc::clone(&call.function);
                    self.show_output(&name, value);
                    self.face.note("/keep lets this result join your next message");
                }
                self.face.call(&called);
            }
            _ => {}
        }
    }
}
