//! Conversion of a run's events to updates that the client shows.

use crate::tool_call::Call;
use agent_client_protocol::v1::schema::{
    ContentBlock, ContentChunk, MessageId, SessionUpdate, TextContent, ToolCall, ToolCallContent,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use llm_do::{
    core::{
        call_path::CallPath,
        conversation::Compaction,
        event::Event,
        journal::{Ending, Record, RecordKind},
        model::{Delta, Purpose},
        question::{Answer, Approval, Given, Question},
        results::show,
        step_name::StepName,
    },
    output_text,
    program::visible,
    records::RunView,
};
use std::{collections::BTreeMap, sync::Arc};

/// Characters of a result that are shown. The journal has all of them.
const RESULT: usize = 20_000;

/// The time of a recorded event: now, or before the client has opened the chat.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Time {
    Now,
    Before,
}

/// State of the client's display, as far as later updates depend on it.
#[derive(Default)]
pub(crate) struct Updates {
    view: RunView,
    /// Calls under way, as the client shows them.
    calls: BTreeMap<CallPath, Call>,
    /// Conversations with the user.
    conversations: BTreeMap<CallPath, Conversation>,
}

#[derive(Default)]
struct Conversation {
    /// The text of the current answer that was sent in pieces.
    streamed: String,
    /// True if further pieces are held back because the client reads slowly. The rest of the answer is sent at its end.
    held_back: bool,
    /// Answers so far.
    answers: u64,
}

impl Updates {
    /// Returns the updates of an event, in order. `slow` is true if the client has not read earlier updates.
    pub(crate) fn event(&mut self, event: &Event, slow: bool) -> Vec<SessionUpdate> {
        match event {
            Event::Record { record } => {
                self.view.fold((&**record).into());
                self.record(record, Time::Now)
            }
            Event::Delta { path, delta, .. } => match (self.conversations.get_mut(path), delta) {
                (Some(conversation), Delta::Text { .. }) if slow || conversation.held_back => {
                    conversation.held_back = true;
                    Vec::new()
                }
                (Some(_), Delta::Reasoning { .. }) if slow => Vec::new(),
                (Some(conversation), Delta::Text { text }) => {
                    conversation.streamed.push_str(text);
                    vec![SessionUpdate::AgentMessageChunk(conversation.chunk(path, text))]
                }
                (Some(conversation), Delta::Reasoning { text }) => {
                    vec![SessionUpdate::AgentThoughtChunk(conversation.chunk(path, text))]
                }
                _ => Vec::new(),
            },
            // The protocol has no place for a value that grows.
            Event::Partial { .. } | Event::DiscardPartial { .. } => Vec::new(),
            Event::Discard { path, .. } => match self.conversations.get_mut(path) {
                // What was sent can't be taken back.
                Some(conversation) if !conversation.streamed.is_empty() => {
                    conversation.begin_answer();
                    vec![message("\n\n*(The answer broke off. It is asked for again.)*\n\n")]
                }
                _ => Vec::new(),
            },
        }
    }

    /// Returns the view of the run so far.
    pub(crate) fn view(&self) -> &RunView {
        &self.view
    }

    /// Returns the updates for a chat up to its head, for a client that has not seen it. Undone messages are left out.
    pub(crate) fn replay(&mut self, records: &[Record]) -> Vec<SessionUpdate> {
        records.iter().for_each(|record| self.view.fold(record.into()));
        let mut updates = Vec::new();
        for record in records {
            let path = &record.path;
            let undone = self.view.is_undone(path, record.seq);
            let told = self.record(record, Time::Before);
            updates.extend(match &record.body {
                _ if undone => continue,
                // A chat in which the user speaks first may have none.
                RecordKind::ConversationStarted { message, with_user: true, .. }
                    if path.depth() == 0 && !message.parts.is_empty() =>
                {
                    vec![user(&message.text())]
                }
                RecordKind::ConversationStarted { with_user: true, .. } => continue,
                RecordKind::Answered(Given { answer: Answer::Give { value }, .. })
                    if self.conversations.contains_key(path)
                        && matches!(record.step, StepName::Message(_)) =>
                {
                    vec![user(&show(value))]
                }
                _ => told,
            });
        }
        updates
    }

    /// Returns the call that a question is about, as the client shows it.
    pub(crate) fn asks(&mut self, path: &CallPath, approval: &Approval) -> Option<&Call> {
        let call = self.calls.get_mut(path)?;
        if let Some(preview) = &approval.preview {
            call.previews(preview);
        }
        Some(call)
    }

    /// Returns the call at that place, if it is under way.
    pub(crate) fn call(&self, path: &CallPath) -> Option<&Call> {
        self.calls.get(path)
    }

    fn record(&mut self, record: &Record, time: Time) -> Vec<SessionUpdate> {
        let path = &record.path;
        match &record.body {
            RecordKind::ConversationStarted { worker, with_user: true, .. } => {
                self.conversations.insert(path.clone(), Conversation::default());
                match path.depth() {
                    0 => Vec::new(),
                    _ => vec![message(&format!(
                        "\n\n*{worker} talks to you. `/done` ends this conversation.*\n\n"
                    ))],
                }
            }
            // A summary is no answer.
            RecordKind::ModelAnswered { message, .. } if record.step.request() == Some(Purpose::Answer) => {
                let Some(conversation) = self.conversations.get_mut(path) else { return Vec::new() };
                let text = message.said();
                let unseen = match (conversation.streamed.is_empty(), conversation.held_back) {
                    (true, _) => Some(&*text),
                    (false, true) => Some(text.strip_prefix(&conversation.streamed).unwrap_or(&text)),
                    (false, false) => None,
                };
                let unseen = unseen.filter(|text| !text.trim().is_empty());
                let chunk =
                    unseen.map(|text| SessionUpdate::AgentMessageChunk(conversation.chunk(path, text)));
                conversation.begin_answer();
                chunk.into_iter().collect()
            }
            RecordKind::CallStarted { function, source, input, .. } if path.depth() > 0 => {
                let caller = path.parent().filter(|parent| parent.depth() > 0);
                let caller = caller.and_then(|caller| self.view.call(&caller)?.worker.clone());
                let call = Call::new(caller, Arc::clone(function), source.clone(), Arc::clone(input));
                let shown = ToolCall::new(path.to_string(), call.title()).name(function.to_string());
                let shown = shown.kind(call.kind()).raw_input(call.input()).content(diff(&call));
                self.calls.insert(path.clone(), call);
                vec![SessionUpdate::ToolCall(shown)]
            }
            RecordKind::LinksFollowed { places, .. } => {
                let Some(call) = self.calls.get_mut(path) else { return Vec::new() };
                call.touches(places);
                let fields = ToolCallUpdateFields::new().locations(call.locations()).content(diff(call));
                vec![update(path, fields)]
            }
            // The question of a call that a resumed run asks again shows the same change.
            RecordKind::Asked(Question::Approval(approval)) if time == Time::Before => {
                self.asks(path, approval);
                Vec::new()
            }
            RecordKind::ToolStarted { .. } => {
                let Some(call) = self.calls.get(path) else { return Vec::new() };
                let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
                vec![update(path, fields.title(call.title()).content(diff(call)))]
            }
            RecordKind::ToolEnded { ending, .. } | RecordKind::CallEnded { ending, .. } => {
                self.ended(path, ending)
            }
            RecordKind::ModelFailed { error, .. } if time == Time::Now => thought(&error.message),
            RecordKind::ModelChosen { model, .. } if time == Time::Now && record.step.is_stand_in() => {
                thought(&format!("{model} answers from here on."))
            }
            RecordKind::Note { text } if time == Time::Now => thought(text),
            RecordKind::Compacted(Compaction { before, after, failure: None, .. }) if time == Time::Now => {
                thought(&format!("Older turns are compacted: about {before} tokens become {after}."))
            }
            _ => Vec::new(),
        }
    }

    fn ended(&mut self, path: &CallPath, ending: &Ending) -> Vec<SessionUpdate> {
        let (status, text) = match ending {
            Ending::Output(value) => (ToolCallStatus::Completed, output_text(value, true)),
            Ending::Failure(failure) => (ToolCallStatus::Failed, failure.message.clone()),
            Ending::Suspended => return Vec::new(),
        };
        let Some(call) = self.calls.remove(path) else { return Vec::new() };
        self.conversations.remove(path);
        let content = match diff(&call) {
            // A diff says it all, if the change was made.
            diff if !diff.is_empty() && status == ToolCallStatus::Completed => diff,
            _ => vec![text_content(&visible::start(&visible::text(&text), RESULT))],
        };
        vec![update(path, ToolCallUpdateFields::new().title(call.title()).status(status).content(content))]
    }
}

impl Conversation {
    fn begin_answer(&mut self) {
        *self = Self { answers: self.answers + 1, ..Self::default() };
    }

    fn chunk(&self, path: &CallPath, text: &str) -> ContentChunk {
        chunk(text).message_id(MessageId::new(format!("{path}:{}", self.answers)))
    }
}

fn diff(call: &Call) -> Vec<ToolCallContent> {
    call.diff().map(ToolCallContent::from).into_iter().collect()
}

/// Returns a text as the content of a call.
pub(crate) fn text_content(text: &str) -> ToolCallContent {
    ToolCallContent::from(ContentBlock::Text(TextContent::new(text)))
}

fn update(path: &CallPath, fields: ToolCallUpdateFields) -> SessionUpdate {
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(path.to_string(), fields))
}

fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::Text(TextContent::new(text)))
}

fn user(text: &str) -> SessionUpdate {
    SessionUpdate::UserMessageChunk(chunk(text))
}

fn thought(text: &str) -> Vec<SessionUpdate> {
    vec![SessionUpdate::AgentThoughtChunk(chunk(&format!("{text}\n")))]
}

/// Returns a message of llm-do itself.
pub(crate) fn message(text: &str) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(chunk(text))
}
