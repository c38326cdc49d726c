//! The conversation of a worker, folded from its records: what was said and done, and what the user has taken back.

use super::{Keep, Retry, RunView};
use crate::line::RecordRef;
use llm_do_core::{
    call_path::CallPath,
    conversation::Compaction,
    engine::Failure,
    gate::Rule,
    journal::{Ending, RecordKind},
    model::{FinishReason, Message, MessageId, ModelName, Part, Purpose},
    origin::Origin,
    question::{Answer, ContextUse, Given, Input, Question, QuestionId},
    step_name::{Attempt, StepName},
    undo::UndoneFile,
};
use serde::Serialize;
use serde_json::Value;
use std::{ops::Range, sync::Arc};

/// The state of a conversation, according to the records so far.
#[derive(Clone, Debug, Default)]
pub struct ConversationView {
    /// The conversation is held with the user.
    pub with_user: bool,
    /// The user speaks first.
    pub listens: bool,
    /// The context that the next request takes, if a question for the next message states it.
    pub context: Option<ContextUse>,
    items: Vec<Item>,
    /// The numbers of the answers whose files and results join the next message.
    joining: Vec<u32>,
    /// The newest answer of the model.
    newest: MessageId,
    /// The turn that follows.
    next_turn: u32,
    /// The records that the user has taken back.
    undone: Vec<Range<u64>>,
}

/// A part of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Item {
    /// The number of its first record.
    pub seq: u64,
    /// The time of that record, in milliseconds since 1970.
    pub at_ms: u64,
    /// The user has taken it back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub undone: bool,
    /// The part.
    #[serde(flatten)]
    pub kind: ItemKind,
}

/// A kind of part of a conversation. The JSON form leaves out long texts that the record of the item has.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ItemKind {
    /// A message of the user, or of the caller if its number is 0.
    User {
        /// The number.
        number: u32,
        /// The text or form.
        #[serde(skip)]
        text: Arc<Value>,
        /// The files and results that joined it, by the numbers of the answers that chose them.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        joined: Vec<u32>,
        /// The turn that follows it.
        #[serde(skip)]
        turn: u32,
        /// The newest answer of the model before it.
        #[serde(skip)]
        newest: MessageId,
    },
    /// Words of the user to the answer under way.
    Interjection {
        /// The turn that gets them.
        turn: u32,
        /// The words.
        #[serde(skip)]
        text: Arc<Value>,
    },
    /// An answer of the model.
    Assistant {
        /// The turn.
        turn: u32,
        /// The answer.
        #[serde(skip)]
        message: Arc<Message>,
        /// Why it ended.
        finish: FinishReason,
    },
    /// A message that asks for a better answer.
    Repair,
    /// A call of a worker by the user.
    Run {
        /// The number of the user's answer.
        number: u32,
        /// The worker.
        worker: Arc<str>,
        /// The place of the call.
        path: CallPath,
        /// The output, once it has one.
        #[serde(skip)]
        output: Option<Arc<Value>>,
        /// The numbers of the answers by which its result joins a message, or has joined one.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        kept_by: Vec<u32>,
        /// The result joins a message, or has joined one.
        kept: bool,
    },
    /// A file that the user attaches.
    Attached {
        /// The number of the user's answer.
        number: u32,
        /// The file, as the user named it.
        file: Arc<str>,
        /// The name that the model reads, once the file was read.
        #[serde(skip)]
        name: Option<Arc<str>>,
        /// The content came with the answer, so that `file` is no path.
        #[serde(skip)]
        given: bool,
        /// The size, once it was read.
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// The origin of its content, once it was read.
        #[serde(skip_serializing_if = "Option::is_none")]
        origin: Option<Origin>,
        /// Why it does not join the message.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
        /// The user has taken it back.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        detached: bool,
    },
    /// A compaction.
    Compacted {
        /// The compaction.
        #[serde(skip)]
        compaction: Arc<Compaction>,
        /// The user has taken it back.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        taken_back: bool,
    },
    /// The effects of turns that the user has taken back.
    Undo {
        /// The files that they changed.
        files: Arc<[UndoneFile]>,
        /// The functions that have done something else.
        others: Arc<[Arc<str>]>,
        /// The files that were restored.
        #[serde(skip_serializing_if = "Option::is_none")]
        restored: Option<Arc<[UndoneFile]>>,
    },
    /// A rule of the user.
    Rule {
        /// The question that was answered with it.
        id: QuestionId,
        /// The rule.
        rule: Rule,
        /// The calls that it applies to.
        calls: Arc<str>,
        /// The user has taken it back.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        forgotten: bool,
    },
    /// Another model answers from here on.
    Model {
        /// The model.
        model: ModelName,
    },
    /// A message has no answer.
    Failure {
        /// Why.
        failure: Failure,
        /// The answer was cut off.
        cut_off: bool,
    },
    /// A note.
    Note {
        /// The text.
        text: Arc<str>,
        /// The tone.
        tone: NoteTone,
    },
    /// The user has ended the conversation.
    End {
        /// The user.
        by: Arc<str>,
    },
}

/// The tone of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoteTone {
    /// News.
    Info,
    /// A problem.
    Warn,
}

impl ConversationView {
    /// Returns the parts, oldest first. Parts that the user has taken back are marked.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Returns the parts that the user has not taken back, oldest first.
    pub fn standing(&self) -> impl DoubleEndedIterator<Item = &Item> {
        self.items.iter().filter(|item| !item.undone)
    }

    /// Returns the numbers of the answers whose files and results join the next message, in order.
    pub fn joining(&self) -> &[u32] {
        &self.joining
    }

    pub(super) fn is_undone(&self, seq: u64) -> bool {
        self.undone.iter().any(|range| range.contains(&seq))
    }

    /// Takes the message of that number back, and what followed it. Returns the items that change.
    fn undo(&mut self, number: u32, until: u64) -> Vec<usize> {
        let is_it = |item: &Item| {
            !item.undone && matches!(item.kind, ItemKind::User { number: n, .. } if n == number)
        };
        let Some(at) = self.items.iter().rposition(is_it) else { return Vec::new() };
        let ItemKind::User { joined, newest, .. } = &self.items[at].kind else { return Vec::new() };
        self.joining.splice(0..0, joined.iter().copied());
        let newest = *newest;
        self.undone.retain(|range| range.start < self.items[at].seq);
        self.undone.push(self.items[at].seq..until);
        let mut changed = Vec::new();
        for (index, item) in self.items.iter_mut().enumerate().skip(at) {
            let stays = match &item.kind {
                ItemKind::Rule { .. } => true,
                // A compaction that shortens only older messages stays in force.
                ItemKind::Compacted { compaction, .. } => {
                    compaction.has_effect() && compaction.names().max().unwrap_or_default() <= newest
                }
                _ => item.undone,
            };
            if !stays {
                item.undone = true;
                changed.push(index);
            }
        }
        changed
    }
}

impl RunView {
    /// Applies a record to its conversation.
    pub(super) fn of_conversation(&mut self, record: RecordRef<'_>) {
        debug_assert_eq!(self.keep, Keep::All);
        let RecordRef { path, step, body, .. } = record;
        match body {
            RecordKind::ConversationStarted { with_user, listens, message, .. } => {
                let (with_user, listens) = (*with_user, *listens);
                let held = ConversationView { with_user, listens, ..ConversationView::default() };
                self.conversations.insert(path.clone(), held);
                if !message.parts.is_empty() {
                    let text = Arc::new(Value::String(message.text()));
                    let newest = MessageId::default();
                    self.add_item(
                        record,
                        ItemKind::User { number: 0, text, joined: Vec::new(), turn: 0, newest },
                    );
                }
            }
            RecordKind::CallEnded { ending: Ending::Output(output), .. } if path.is_by_user() => {
                self.call_of_user_ended(path, output);
            }
            RecordKind::Answered(given) => self.user_did(record, given),
            RecordKind::Asked(Question::Input(Input { conversation: Some(turn), .. })) => {
                let Some(held) = self.conversations.get_mut(path) else { return };
                held.context = turn.context.or(held.context);
                if let Some(failure) = turn.failure.clone() {
                    self.add_item(record, ItemKind::Failure { failure, cut_off: turn.cut_off });
                }
            }
            RecordKind::ModelRequested { turn, .. } if step.request() == Some(Purpose::Answer) => {
                if let Some(held) = self.conversations.get_mut(path) {
                    held.next_turn = turn.saturating_add(1);
                }
            }
            RecordKind::ModelAnswered { message, finish, .. } => {
                let StepName::Model(attempt) = step else { return };
                if let Some(held) = self.conversations.get_mut(path) {
                    held.newest = message.id;
                    let (turn, message) = (attempt.turn, Arc::clone(message));
                    self.add_item(record, ItemKind::Assistant { turn, message, finish: *finish });
                }
            }
            // The call says that another attempt follows.
            RecordKind::ModelFailed { error, retries: Some(of) }
                if matches!(step, StepName::Model(Attempt { attempt, .. })
                    if Retry::after(error, *attempt, *of, record.at_ms).is_some()) => {}
            RecordKind::ModelFailed { error, .. } => {
                self.warn(record, &format!("Request failed: {}", error.message));
            }
            RecordKind::ModelNotChosen { reason } => self.warn(record, &format!("The model stays: {reason}")),
            RecordKind::Limit { what } | RecordKind::NotReserved { what } => {
                self.warn(record, &format!("Limit: {what}"));
            }
            RecordKind::MessageAdded { .. } => self.add_item(record, ItemKind::Repair),
            RecordKind::ModelChosen { model, .. } => {
                self.add_item(record, ItemKind::Model { model: model.clone() });
            }
            RecordKind::Note { text } => {
                self.add_item(record, ItemKind::Note { text: Arc::clone(text), tone: NoteTone::Info });
            }
            RecordKind::Compacted(compaction) => {
                let compaction = Arc::new(compaction.clone());
                self.add_item(record, ItemKind::Compacted { compaction, taken_back: false });
            }
            RecordKind::Attached { part, bytes, origin } => {
                let StepName::Attach(chosen) = step else { return };
                let read = self.change_item(path, |kind| match kind {
                    ItemKind::Attached { number, name, bytes: size, origin: from, .. }
                        if number == chosen =>
                    {
                        *name = Some(name_of(part));
                        (*size, *from) = (Some(*bytes), Some(*origin));
                        true
                    }
                    _ => false,
                });
                if let Some(held) = self.conversations.get_mut(path).filter(|_| read) {
                    held.joining.push(*chosen);
                }
            }
            RecordKind::NotAttached { reason: why } => {
                let StepName::Attach(chosen) = step else { return };
                self.change_item(path, |kind| match kind {
                    ItemKind::Attached { number, reason, .. } if number == chosen => {
                        *reason = Some(Arc::clone(why));
                        true
                    }
                    _ => false,
                });
            }
            RecordKind::Undone { files, others } => {
                let (files, others) = (files.as_slice().into(), others.as_slice().into());
                self.add_item(record, ItemKind::Undo { files, others, restored: None });
            }
            RecordKind::Restored { files } => {
                self.change_item(path, |kind| match kind {
                    ItemKind::Undo { restored, .. } => {
                        *restored = Some(files.as_slice().into());
                        true
                    }
                    _ => false,
                });
            }
            _ => {}
        }
    }

    fn add_item(&mut self, record: RecordRef<'_>, kind: ItemKind) {
        if let Some(held) = self.conversations.get_mut(record.path) {
            self.changes.item(record.path, held.items.len());
            held.items.push(Item { seq: record.seq, at_ms: record.at_ms, undone: false, kind });
        }
    }

    fn warn(&mut self, record: RecordRef<'_>, text: &str) {
        self.add_item(record, ItemKind::Note { text: text.into(), tone: NoteTone::Warn });
    }

    /// Changes the newest item of a conversation that `change` accepts. `false`: it accepts none.
    fn change_item(&mut self, path: &CallPath, mut change: impl FnMut(&mut ItemKind) -> bool) -> bool {
        let Some(held) = self.conversations.get_mut(path) else { return false };
        let changed = held
            .items
            .iter_mut()
            .enumerate()
            .rev()
            .find_map(|(index, item)| change(&mut item.kind).then_some(index));
        if let Some(index) = changed {
            self.changes.item(path, index);
        }
        changed.is_some()
    }

    /// Notes the output of a call that the user has made in a conversation.
    fn call_of_user_ended(&mut self, call: &CallPath, output: &Arc<Value>) {
        let Some(conversation) = call.parent() else { return };
        self.change_item(&conversation, |kind| match kind {
            ItemKind::Run { path, output: of_call, .. } if path == call => {
                *of_call = Some(Arc::clone(output));
                true
            }
            _ => false,
        });
    }

    fn user_did(&mut self, record: RecordRef<'_>, Given { answer, by, .. }: &Given) {
        let RecordRef { path, step, .. } = record;
        let Some(held) = self.conversations.get_mut(path) else { return };
        let number = match (step, answer) {
            (StepName::Message(number), _) => *number,
            (StepName::Now(turn), Answer::Give { value }) => {
                let text = Arc::clone(value);
                return self.add_item(record, ItemKind::Interjection { turn: *turn, text });
            }
            _ => return,
        };
        match answer {
            Answer::Give { value } => {
                let joined = std::mem::take(&mut held.joining);
                let (turn, newest, text) = (held.next_turn, held.newest, Arc::clone(value));
                self.add_item(record, ItemKind::User { number, text, joined, turn, newest });
            }
            Answer::Undo { message } => {
                for index in held.undo(*message, record.seq) {
                    self.changes.item(path, index);
                }
            }
            Answer::Run { worker, .. } => {
                let (worker, path) = (Arc::clone(worker), path.by_user(number));
                let run =
                    ItemKind::Run { number, worker, path, output: None, kept_by: Vec::new(), kept: false };
                self.add_item(record, run);
            }
            Answer::Keep { message } => {
                let kept = self.change_item(path, |kind| match kind {
                    ItemKind::Run { number: of, kept_by, kept, .. } if of == message => {
                        kept_by.push(number);
                        *kept = true;
                        true
                    }
                    _ => false,
                });
                if let Some(held) = self.conversations.get_mut(path).filter(|_| kept) {
                    held.joining.push(number);
                }
            }
            Answer::Detach { message } => {
                held.joining.retain(|joining| joining != message);
                self.change_item(path, |kind| match kind {
                    ItemKind::Run { kept_by, kept, .. } if kept_by.contains(message) => {
                        *kept = false;
                        true
                    }
                    ItemKind::Attached { number, detached, .. } if number == message => {
                        *detached = true;
                        true
                    }
                    _ => false,
                });
            }
            Answer::Attach { file, content } => {
                let attached = ItemKind::Attached {
                    number,
                    file: Arc::clone(file),
                    name: None,
                    given: content.is_some(),
                    bytes: None,
                    origin: None,
                    reason: None,
                    detached: false,
                };
                self.add_item(record, attached);
            }
            Answer::Rule { rule, calls } => {
                let id = QuestionId::new(path, step);
                let calls = Arc::clone(calls);
                self.add_item(record, ItemKind::Rule { id, rule: *rule, calls, forgotten: false });
            }
            Answer::Forget { of } => {
                self.change_item(path, |kind| match kind {
                    ItemKind::Rule { id, forgotten, .. } if id == of => {
                        *forgotten = true;
                        true
                    }
                    _ => false,
                });
            }
            Answer::UndoCompaction => {
                let in_force = |item: &Item| {
                    let ItemKind::Compacted { compaction, taken_back: false } = &item.kind else {
                        return false;
                    };
                    !item.undone && compaction.has_effect()
                };
                let last = held.items.iter().rposition(in_force);
                if let Some((index, item)) = last.and_then(|index| Some((index, held.items.get_mut(index)?)))
                    && let ItemKind::Compacted { taken_back, .. } = &mut item.kind
                {
                    *taken_back = true;
                    self.changes.item(path, index);
                }
            }
            Answer::End => self.add_item(record, ItemKind::End { by: Arc::clone(by) }),
            _ => {}
        }
    }
}

/// Returns the name of a file that the model gets.
fn name_of(part: &Part) -> Arc<str> {
    match part {
        Part::Attachment { name, .. } => name.as_ref().into(),
        Part::Blob(blob) => blob.name.as_ref().into(),
        _ => "a file".into(),
    }
}
