//! What the records of the run say: it is shown, and kept as far as commands need it.

use super::{CALL, Conversation, Open, Talk, arguments, start};

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
use llm_do_records::duration;
use serde_json::Value;
use std::sync::Arc;

impl Open {
    /// The function and its arguments, on one line.
    fn call(&self) -> String {
        start(&format!("{}{}", self.function, arguments(&self.input)), CALL)
    }
}

impl Talk<'_> {
    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::Record { record } => {
                self.show_record(record);
                self.note_record(record);
            }
            Event::Delta { path, delta: Delta::Text { text }, .. } => {
                if let Some(conversation) = self.conversations.get(path) {
                    self.face.delta(&conversation.worker, text);
                }
            }
            Event::Delta { .. } => {}
            Event::Discard { path, .. } => {
                if self.conversations.contains_key(path) {
                    self.face.discard();
                }
            }
        }
    }

    /// Keeps what later commands need of a record.
    pub(super) fn note_record(&mut self, record: &Record) {
        let path = &record.path;
        let open = self.open.get(path);
        self.decisions.record(record, || open.map(Open::call));
        match &record.body {
            RecordKind::CallStarted { function, input, .. } => {
                let (function, input) = (Arc::clone(function), Arc::clone(input));
                let at_ms = record.at_ms;
                let open =
                    Open { function, input, began_ms: at_ms, asked: 0, asked_ms: at_ms, worker: None, model: None };
                self.open.insert(path.clone(), open);
            }
            RecordKind::ConversationStarted { worker, model, .. } => {
                if let Some(open) = self.open.get_mut(path) {
                    (open.worker, open.model) = (Some(Arc::clone(worker)), Some(model.clone()));
                }
                if let Some(conversation) = Conversation::begun(&record.body) {
                    self.conversations.insert(path.clone(), conversation);
                }
            }
            RecordKind::ModelChosen { model, .. } => {
                if let Some(open) = self.open.get_mut(path) {
                    open.model = Some(model.clone());
                }
            }
            RecordKind::Asked(_) => {
                for open in self.open_around(path) {
                    if open.asked == 0 {
                        open.asked_ms = record.at_ms;
                    }
                    open.asked += 1;
                }
            }
            RecordKind::Answered(_) => self.no_longer_wait(path, 1, record.at_ms),
            RecordKind::ModelAnswered { usage, .. } => {
                if let Some(Open { worker: Some(worker), model: Some(model), .. }) = self.open.get(path) {
                    let used = self.used.entry((Arc::clone(worker), model.to_string())).or_default();
                    *used = used.plus(*usage);
                }
            }
            RecordKind::ToolEnded { ending, .. } | RecordKind::CallEnded { ending, .. }
                // A call that was suspended continues when the run is resumed.
                if *path != CallPath::root() && *ending != Ending::Suspended =>
            {
                // Questions of a call that was stopped are withdrawn.
                let withdrawn = self.open.get(path).map_or(0, |open| open.asked);
                self.no_longer_wait(path, withdrawn, record.at_ms);
                let held = self.conversations.get(path);
                let held = held.map(|held| (Arc::clone(&held.worker), held.transcript.clone()));
                if let (Some(called), Some(conversation)) = (self.called(record), self.conversation_above(path)) {
                    if let Some((worker, transcript)) = held {
                        conversation.transcript.held(&worker, transcript);
                    }
                    conversation.transcript.called(called);
                }
                self.open.remove(path);
            }
            _ => {}
        }
        self.note_turn(record);
    }

    /// A call under way, and those that it is part of.
    fn open_around(&mut self, path: &CallPath) -> impl Iterator<Item = &mut Open> {
        self.open.iter_mut().filter(|(other, _)| path.is_within(other)).map(|(_, open)| open)
    }

    /// Leaves the time out in which a call, and those that it is part of, did nothing but wait for the user.
    fn no_longer_wait(&mut self, path: &CallPath, questions: usize, at_ms: u64) {
        for open in self.open_around(path).filter(|open| open.asked > 0) {
            open.asked = open.asked.saturating_sub(questions);
            if open.asked == 0 {
                open.began_ms += at_ms.saturating_sub(open.asked_ms);
            }
        }
    }

    /// The workers from the entry to that call, as far as they are under way.
    pub(super) fn chain(&self, path: &CallPath) -> Vec<&str> {
        let within = self.open.iter().filter(|(other, _)| path.is_within(other));
        within.filter_map(|(_, open)| open.worker.as_deref()).collect()
    }

    /// The conversation with the user that has led to a call.
    fn conversation_above(&mut self, path: &CallPath) -> Option<&mut Conversation> {
        let above = std::iter::successors(path.parent(), CallPath::parent);
        let path = above.into_iter().find(|path| self.conversations.contains_key(path))?;
        self.conversations.get_mut(&path)
    }

    /// The call that has ended with that record; `None`: it is not under way.
    fn called(&self, record: &Record) -> Option<Called> {
        let (RecordKind::ToolEnded { ending, .. } | RecordKind::CallEnded { ending, .. }) = &record.body
        else {
            return None;
        };
        let open = self.open.get(&record.path)?;
        let what = open.call();
        let (line, done) = match ending {
            Ending::Output(_) => {
                (format!("{what}  {}", duration(record.at_ms.saturating_sub(open.began_ms))), true)
            }
            Ending::Failure(failure) => (format!("{what}  {}", start(&failure.message, CALL)), false),
            Ending::Suspended => return None,
        };
        Some(Called { depth: record.path.depth().saturating_sub(1), line, done })
    }

    /// Keeps what a record tells of its own conversation.
    pub(super) fn note_turn(&mut self, record: &Record) {
        if let Some(conversation) = self.conversations.get_mut(&record.path) {
            conversation.transcript.record(record);
        }
        let above = record.path.parent().filter(|_| record.path.is_by_user());
        if let Some(conversation) = above.and_then(|path| self.conversations.get_mut(&path)) {
            conversation.transcript.ran(record);
        }
    }

    /// Shows what a worker has returned: a text as an answer, a value as it is.
    pub(super) fn show_output(&mut self, worker: &str, value: &Value) {
        match value {
            Value::String(text) => self.face.answer(worker, text, false),
            value => self.face.output(worker, &output_text(value, true)),
        }
    }

    /// Says that a worker talks to the user in the middle of the run.
    pub(super) fn introduce(&mut self, path: &CallPath, worker: &str, origin: Origin) {
        let above = path.parent().map(|parent| self.chain(&parent)).unwrap_or_default();
        let chain = [above, vec![worker]].concat().join(" → ");
        let library = worker.split_once(':').map(|(library, _)| format!(" (of the library {library})"));
        let library = library.unwrap_or_default();
        let tainted = match origin {
            Origin::Untrusted => "; it has read untrusted content, so others may steer what it says",
            Origin::Trusted | Origin::Typed => "",
        };
        self.face.note(&format!("{chain}{library} talks to you; /done ends this conversation{tainted}"));
    }

    /// Shows what a record tells.
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
            RecordKind::ModelChosen { model, .. } => {
                self.face.note(&format!("{model} answers from your next message on"));
            }
            RecordKind::ModelNotChosen { reason } => self.face.problem(&format!("the model stays: {reason}")),
            RecordKind::NotAttached { reason } => {
                self.face.problem(&format!("not attached: {reason}"));
                // The message that named it is not sent without it.
                if let Some(Answer::Give { value }) = self.next.back().cloned() {
                    self.next.clear();
                    self.face.compose(&show(&value));
                }
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
            RecordKind::ModelFailed { error } => self.face.note(&format!("↻ {}", error.message)),
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
                let (Some(open), Some(called)) = (self.open.get(path), self.called(record)) else { return };
                if let (true, Ending::Output(value)) = (path.is_by_user(), ending) {
                    let name = Arc::clone(&open.function);
                    self.show_output(&name, value);
                    self.face.note("/keep lets this result join your next message");
                }
                self.face.call(&called);
            }
            _ => {}
        }
    }
}
