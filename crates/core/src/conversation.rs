//! A worker's conversation: a state machine without I/O.
//!
//! [`Conversation::next`] gives the next action; the engine performs it and feeds the result back. The same fold over
//! a run's records rebuilds the conversation ([`crate::rebuild::conversation_at`]). The records are the only source
//! of truth.

mod calls;
mod compaction;
mod ensures;
mod output;
mod turns;
mod values;

pub use calls::{PlannedCall, batches};
pub use compaction::{Compaction, OldResult, Summary};
pub(crate) use compaction::{OlderTurns, Room, SUMMARISER, number_of, placeholder, summary_message};
pub use ensures::{Ensure, Ensures, Judge, problem};
pub use output::{FINAL_TOOL, FINISH_TOOL, OutputContract};
use turns::UserMessage;
pub use turns::{Heard, Joining, Said};
pub(crate) use values::{Beginning, Begun};

use crate::{
    call_path::CallPath,
    estimate::estimate,
    limits::Limits,
    model::{EMPTY, FinishReason, Message, MessageId, ModelResponse, Part, Role, Sees, ToolCall},
    origin::{Content, ContentKind, Origin, Origins, Trail},
    outcome::{Ending, Failure, FailureKind},
    schema::sha256_of_all,
};
use calls::Repeat;
use output::Answer;
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// A message that asks for a shorter answer.
const CUT_OFF: &str = "Your answer was cut off because it was too long. Answer again, shorter.";

/// Settings that are fixed for the whole conversation.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The call that the conversation belongs to.
    pub call: CallPath,
    /// Worker ID, for messages.
    pub worker: Arc<str>,
    /// Limits of this call.
    pub limits: Limits,
    /// The contract of the final answer.
    pub output: OutputContract,
    /// The kinds of files that the model reads.
    pub sees: Sees,
    /// Names of the tools offered, in order; without the final-result tool.
    pub tools: Vec<Arc<str>>,
    /// True if the provider runs tools of its own in the conversation.
    pub server_tools: bool,
    /// True if the conversation is held with the user: text of the model is for the user, and the user's next message
    /// follows it.
    pub with_user: bool,
    /// The origin of the user's words: trusted if the user is the operator.
    pub user: Origin,
    /// True if the user speaks first.
    pub listens: bool,
}

/// The next action.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Ask the model.
    Ask,
    /// Make these calls; feed their results back in this order.
    Call(Vec<PlannedCall>),
    /// Call the `ensures` tools with this output, and feed back the ending of each call, in order.
    Ensure(Arc<Value>),
    /// Wait for the user's next message or action ([`Conversation::heard`]).
    Listen(Said),
    /// The conversation has ended with an output.
    Done(Completion),
    /// The conversation has ended without an output.
    Failed(Failure),
}

/// A finished conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The output.
    pub value: Arc<Value>,
    /// True if `max_tokens` cut off the answer. The operator is informed, since the text does not show it.
    pub truncated: bool,
}

/// The state of one conversation.
#[derive(Debug)]
pub struct Conversation {
    setup: Arc<Setup>,
    /// All messages up to the head, including those that are not sent.
    history: Vec<Arc<Message>>,
    /// The messages that are sent.
    messages: Vec<Arc<Message>>,
    digest: Arc<str>,
    /// Estimated tokens of the messages that are sent.
    tokens: u64,
    /// The compactions by which the sent messages differ from the history, oldest first.
    in_force: Vec<Compaction>,
    /// The number of compactions so far.
    compacted: u32,
    /// True if a summary has failed since the user's last message.
    summary_failed: bool,
    turn: u32,
    /// Number of attempts already made at the next turn, by answers that failed.
    attempts: u32,
    /// The user's messages in the history, oldest first.
    user: Vec<UserMessage>,
    /// The parts that join the user's next message.
    joining: Vec<Joining>,
    /// The results of the calls that the user has made, and the user's words within these calls, by the number of the
    /// user's message.
    ran: BTreeMap<u32, (Content, Vec<Content>)>,
    /// The ID of the next message. An undone message keeps its ID.
    next_id: u32,
    /// True if the user has ended the conversation: only the result is still to be given.
    closing: bool,
    invalid_outputs: u32,
    repeats: HashMap<String, Repeat>,
    /// The contents that the conversation has received.
    trail: Trail,
    phase: Phase,
}

/// The phase of a conversation.
#[derive(Debug, PartialEq)]
enum Phase {
    Ask,
    Calls(Vec<PlannedCall>),
    /// An output that the `ensures` tools have yet to check, and the call that delivered it.
    Judged(Completion, Option<ToolCall>),
    Listening(Said),
    Done(Completion),
    Failed(Failure),
}

impl Conversation {
    /// Starts a conversation with its first message, which is empty if there is none.
    pub fn new(setup: impl Into<Arc<Setup>>, first: Arc<Message>) -> Self {
        let setup = setup.into();
        let listens = setup.listens;
        let mut conversation = Self {
            setup,
            history: Vec::new(),
            messages: Vec::new(),
            digest: "".into(),
            tokens: 0,
            in_force: Vec::new(),
            compacted: 0,
            summary_failed: false,
            turn: 0,
            attempts: 0,
            user: if listens { Vec::new() } else { vec![UserMessage::default()] },
            joining: Vec::new(),
            ran: BTreeMap::new(),
            next_id: 0,
            closing: false,
            invalid_outputs: 0,
            repeats: HashMap::new(),
            trail: Trail::default(),
            phase: if listens { Phase::Listening(Said::default()) } else { Phase::Ask },
        };
        if !first.parts.is_empty() {
            conversation.push(first);
        }
        conversation
    }

    /// Begins the conversation with these contents: those that led to it, and its input.
    #[must_use]
    pub fn after(mut self, trail: Trail) -> Self {
        if let Some(first) = self.user.first_mut() {
            first.trail = trail.clone();
        }
        Self { trail, ..self }
    }

    /// The contents that the conversation has received up to its last message. If one of them is untrusted, everything
    /// that follows from the conversation is untrusted.
    pub fn trail(&self) -> &Trail {
        &self.trail
    }

    /// Takes the contents of the messages that [`Conversation::results`] or [`Conversation::ensured`] adds next.
    pub fn received(&mut self, contents: impl IntoIterator<Item = Content>) {
        contents.into_iter().for_each(|content| self.trail.push(content));
    }

    /// Takes the content of an answer of the model, which [`Conversation::answered`] adds next.
    pub(crate) fn received_answer(&mut self, answer: &Message) {
        if self.has_server_tools() {
            self.trail.push(Content::of_provider(&self.setup.call, &self.setup.worker, answer));
        }
    }

    /// Takes the content of a message of the user, which is added next.
    fn received_words(&mut self, value: &Arc<Value>) {
        let Setup { call, worker, user, .. } = &*self.setup;
        self.trail.push(Content {
            kind: ContentKind::Input,
            call: call.clone(),
            function: Arc::clone(worker),
            value: Arc::clone(value),
            origins: Origins::whole(*user),
            source: None,
        });
    }

    /// The first message of a conversation.
    pub fn first_message(parts: Vec<Part>) -> Arc<Message> {
        Arc::new(Message { id: MessageId(0), parent: None, role: Role::User, parts })
    }

    /// The messages that are sent: valid for any provider, each call answered exactly once.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Returns true if the provider runs tools of its own in the conversation
    /// ([`ServerTool`](crate::server_tool::ServerTool)). The engine does not see what they read, so each answer may
    /// contain words of others.
    pub fn has_server_tools(&self) -> bool {
        self.setup.server_tools
    }

    /// Number of the next model turn, from 0.
    pub fn turn(&self) -> u32 {
        self.turn
    }

    /// Number of the next attempt at the next model turn, from 0. The attempts of an answer that failed still count, so
    /// that the answer to the user's next message takes other keys in the journal.
    pub fn next_attempt(&self) -> u32 {
        self.attempts
    }

    /// Sets the number of the next attempt at the next model turn.
    pub(crate) fn attempted(&mut self, next_attempt: u32) {
        self.attempts = next_attempt;
    }

    /// Number of the turn whose calls are planned.
    pub fn calling_turn(&self) -> u32 {
        self.turn.saturating_sub(1)
    }

    /// Hash over the messages that are sent, chained: equal digests mean equal messages.
    pub fn digest(&self) -> &Arc<str> {
        &self.digest
    }

    /// Estimated tokens of the messages that are sent.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// ID of the last message. Before a request there is one.
    pub fn head(&self) -> MessageId {
        self.messages.last().map_or(MessageId(0), |message| message.id)
    }

    /// The next action.
    pub fn next(&self) -> Next {
        match &self.phase {
            Phase::Ask if self.turns_of_answer() >= self.setup.limits.turns() => {
                Next::Failed(self.limit(format!(
                    "`{}` used all of its {} model turns without finishing",
                    self.setup.worker,
                    self.setup.limits.turns()
                )))
            }
            Phase::Ask => Next::Ask,
            Phase::Calls(calls) => Next::Call(calls.clone()),
            Phase::Judged(completion, _) => Next::Ensure(Arc::clone(&completion.value)),
            Phase::Listening(said) => Next::Listen(said.clone()),
            Phase::Done(completion) => Next::Done(completion.clone()),
            Phase::Failed(failure) => Next::Failed(failure.clone()),
        }
    }

    /// The last text the model wrote, for failures.
    pub fn last_text(&self) -> Option<Value> {
        self.history
            .iter()
            .rev()
            .filter(|m| m.role == Role::Assistant)
            .map(|m| m.said())
            .find(|text| !text.trim().is_empty())
            .map(Value::String)
    }

    /// The failure of a call below a conversation whose answer the user stopped.
    pub(crate) fn stopped(&self) -> Failure {
        let message = format!("`{}` was stopped by the user", self.setup.worker);
        Failure::new(FailureKind::Stopped, message).with_partial(self.last_text())
    }

    fn limit(&self, message: String) -> Failure {
        Failure::new(FailureKind::Limit, message).with_partial(self.last_text())
    }

    /// The [`Conversation::digest`] of a history that consists of these messages.
    pub fn digest_of(messages: &[Arc<Message>]) -> Arc<str> {
        let json = |message: &Message| serde_json::to_string(message).expect("messages are plain data");
        messages.iter().fold("".into(), |digest: Arc<str>, message| chained(&digest, &json(message)))
    }

    fn push(&mut self, message: Arc<Message>) {
        self.next_id = self.next_id.max(message.id.0.saturating_add(1));
        self.history.push(Arc::clone(&message));
        self.send(message);
    }

    /// Adds a message to those that are sent.
    fn send(&mut self, message: Arc<Message>) {
        let json = serde_json::to_string(&*message).expect("messages are plain data");
        self.digest = chained(&self.digest, &json);
        self.tokens += estimate(&message, json.len());
        self.messages.push(message);
    }

    fn next_message(&self, role: Role, parts: Vec<Part>) -> Arc<Message> {
        let parent = self.history.last().map(|message| message.id);
        Arc::new(Message { id: MessageId(self.next_id), parent, role, parts })
    }

    /// Converts the answer to the message that is recorded. Calls get IDs that are unique in the turn. Blank text and
    /// results (which only the harness gives) are dropped. An answer without content gets a placeholder, unless the
    /// provider has paused it and needs its own parts returned. Providers reject histories without these changes.
    pub fn answer_message(&self, response: &ModelResponse) -> Arc<Message> {
        let mut seen: Vec<Arc<str>> = Vec::new();
        let mut parts = Vec::with_capacity(response.parts.len());
        for part in &response.parts {
            match part {
                Part::Text { text } if text.trim().is_empty() => {}
                Part::Result(_) | Part::Attachment { .. } => {}
                Part::Call(call) => {
                    let mut call = call.clone();
                    let mut number = seen.len();
                    while call.id.is_empty() || seen.contains(&call.id) {
                        call.id = format!("call_{}_{number}", self.turn).into();
                        number += 1;
                    }
                    seen.push(Arc::clone(&call.id));
                    parts.push(Part::Call(call));
                }
                part => parts.push(part.clone()),
            }
        }
        // Reasoning is never sent back as text, so reasoning alone does not count as content.
        let is_content = |part: &Part| match part {
            Part::Text { .. } | Part::Call(_) | Part::Blob(_) => true,
            Part::Opaque { .. } => response.finish == FinishReason::Paused,
            _ => false,
        };
        if !parts.iter().any(is_content) {
            parts.push(Part::text(EMPTY));
        }
        self.next_message(Role::Assistant, parts)
    }

    /// Takes the model's answer. `Some` is a message of the harness that asks for a repair; it is part of the history
    /// and must be recorded.
    pub fn answered(&mut self, message: Arc<Message>, finish: FinishReason) -> Option<Arc<Message>> {
        self.turn += 1;
        self.attempts = 0;
        self.push(Arc::clone(&message));
        let calls: Vec<ToolCall> = message.calls().cloned().collect();
        if finish == FinishReason::Stopped {
            self.phase = match self.setup.with_user {
                true => Phase::Listening(self.said_by_model(true)),
                false => Phase::Failed(self.stopped()),
            };
            return None;
        }
        if calls.is_empty() && finish == FinishReason::Paused {
            self.phase = Phase::Ask;
            return None;
        }
        if calls.is_empty() {
            return self.final_text(finish);
        }
        self.plan(calls, finish);
        None
    }

    fn final_text(&mut self, finish: FinishReason) -> Option<Arc<Message>> {
        // A turn that the provider paused has several messages.
        let before = self.history.iter().rposition(|message| message.role != Role::Assistant);
        let answer = &self.history[before.map_or(0, |at| at + 1)..];
        let text: String = answer.iter().map(|message| message.text()).collect();
        let empty = answer.iter().flat_map(|message| &message.parts).all(|part| match part {
            Part::Text { text } => text.trim().is_empty() || &**text == EMPTY,
            Part::Reasoning { .. } | Part::Opaque { .. } | Part::ServerUse(_) | Part::Cited { .. } => true,
            _ => false,
        });
        if finish == FinishReason::Refusal {
            let why = if empty { String::new() } else { format!(": {text}") };
            let message = format!("the model declined to answer{why}");
            self.phase = Phase::Failed(Failure::new(FailureKind::Refusal, message));
            return None;
        }
        let wrong = if empty && finish == FinishReason::Length {
            self.phase = Phase::Failed(Failure::new(
                FailureKind::Limit,
                "the answer reached `max_tokens` before any text; raise `model_settings.max_tokens`",
            ));
            return None;
        } else if empty {
            "Your answer was empty. Answer now.".to_owned()
        } else {
            let truncated = finish == FinishReason::Length;
            if self.setup.with_user && !self.closing {
                self.phase = Phase::Listening(Said { text: text.into(), cut_off: truncated });
                return None;
            }
            // A value that is complete may still lack what was to follow, as the last of several does.
            if truncated && self.setup.output.schema().is_some() {
                return self.repair(
                    FailureKind::InvalidOutput,
                    CUT_OFF.to_owned(),
                    Some(Value::String(text)),
                );
            }
            match self.setup.output.read_text(&text) {
                Answer::Valid(value) => {
                    self.phase = Phase::Done(Completion { value: Arc::new(value), truncated });
                    return None;
                }
                Answer::ForTools(value) => {
                    self.phase = Phase::Judged(Completion { value: Arc::new(value), truncated }, None);
                    return None;
                }
                // The conditions of a truncated answer would mislead.
                Answer::Invalid(_) | Answer::Unmet(..) if truncated => CUT_OFF.to_owned(),
                Answer::Invalid(reasons) => reasons,
                Answer::Unmet(value, reasons) => {
                    return self.repair(FailureKind::Postcondition, reasons, Some(value));
                }
            }
        };
        self.repair(FailureKind::InvalidOutput, wrong, (!empty).then_some(Value::String(text)))
    }

    /// Returns an invalid output to the model with the reasons, or gives up.
    fn repair(&mut self, kind: FailureKind, reasons: String, last: Option<Value>) -> Option<Arc<Message>> {
        if !self.try_again(kind, &reasons, last) {
            return None;
        }
        let message = self.next_message(Role::User, vec![Part::text(reasons)]);
        self.push(Arc::clone(&message));
        Some(message)
    }

    fn try_again(&mut self, kind: FailureKind, reasons: &str, last: Option<Value>) -> bool {
        self.invalid_outputs += 1;
        if self.invalid_outputs > self.setup.limits.output_retries {
            let attempts = self.setup.limits.output_retries + 1;
            let message = match kind {
                FailureKind::Postcondition => {
                    format!("no output met the conditions after {attempts} attempts. The last one: {reasons}")
                }
                _ => format!("no valid output after {attempts} attempts. The last one: {reasons}"),
            };
            let failure = Failure::new(kind, message).with_partial(last);
            self.phase = Phase::Failed(failure);
            return false;
        }
        self.phase = Phase::Ask;
        true
    }

    /// Takes the endings of the calls of the `ensures` tools, in order. `Some` is a message of the harness, as in
    /// [`Conversation::answered`].
    pub fn ensured(&mut self, said: &[Ending]) -> Option<Arc<Message>> {
        let Phase::Judged(completion, call) = &self.phase else { return None };
        let (completion, call) = (completion.clone(), call.clone());
        let verdict = self.setup.output.ensures().map_or(Ok(None), |ensures| ensures.verdict(said));
        let last = (*completion.value).clone();
        match (verdict, call) {
            (Ok(None), _) => self.phase = Phase::Done(completion),
            (Err(failure), _) => self.phase = Phase::Failed(failure.with_partial(Some(last))),
            (Ok(Some(reasons)), Some(call)) => {
                self.repair_call(FailureKind::Postcondition, &call, reasons, last);
            }
            (Ok(Some(_)), None) if completion.truncated => {
                return self.repair(FailureKind::Postcondition, CUT_OFF.to_owned(), Some(last));
            }
            (Ok(Some(reasons)), None) => {
                return self.repair(FailureKind::Postcondition, reasons, Some(last));
            }
        }
        None
    }
}

/// The digest extended by one message.
fn chained(digest: &str, json: &str) -> Arc<str> {
    sha256_of_all(&[digest.as_bytes(), json.as_bytes()]).into()
}

#[cfg(test)]
mod tests;
