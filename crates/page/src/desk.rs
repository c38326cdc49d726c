//! The open questions of a run, and the messages that wait for its conversation.

use crate::bridge::Signal;
use llm_do_core::{
    call_path::CallPath,
    operator::{Operator, Recall},
    question::{Answer, Given, Input, Question, QuestionId, Reply, Waiting},
    send::BoxFuture,
};
use llm_do_host::{Interjector, Said};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// The channel of answers and messages, as records name it.
pub(crate) const VIA: &str = "page";
/// The most messages that wait for a conversation.
const MOST_MESSAGES: usize = 32;

/// The questions of a run.
#[derive(Default)]
pub(crate) struct Desk {
    state: Mutex<Table>,
    /// Notified of each question that is put, answered or withdrawn.
    pub(crate) changed: Signal,
    interjector: OnceLock<Interjector>,
}

#[derive(Default)]
struct Table {
    open: BTreeMap<QuestionId, Open>,
    /// The questions that have answers, each with who gave it.
    decided: BTreeMap<QuestionId, Arc<str>>,
    messages: VecDeque<Said>,
}

struct Open {
    waiting: Waiting,
    given: Option<Given>,
}

/// The reason why an answer is not taken.
pub(crate) enum NotTaken {
    Unknown,
    Decided(Arc<str>),
    Changed,
    Expired,
    NotAccepted(String),
}

/// Returns true if the question is the one with which the run's own conversation waits for the next message.
pub(crate) fn is_turn(waiting: &Waiting) -> bool {
    waiting.id.call == CallPath::root()
        && matches!(&waiting.question, Question::Input(Input { conversation: Some(_), .. }))
}

fn message(said: Said) -> Given {
    Given::new(Answer::Give { value: Arc::new(said.text.into()) }, said.by, said.via)
}

impl Desk {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the run's interjector, whose words the conversation gets back if its answer ends without another request.
    pub(crate) fn interjects(&self, interjector: Interjector) {
        let _ = self.interjector.set(interjector);
    }

    /// Notes that an answer to a question was recorded before.
    pub(crate) fn was_answered(&self, id: QuestionId, by: Arc<str>) {
        self.table().decided.insert(id, by);
    }

    /// Returns the open questions; the turn of a chat comes last.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        let mut open: Vec<Waiting> = self
            .table()
            .open
            .values()
            .filter(|open| open.given.is_none())
            .map(|open| open.waiting.clone())
            .collect();
        open.sort_by_key(is_turn);
        open
    }

    /// Returns true if a question waits.
    pub(crate) fn waits(&self) -> bool {
        self.table().open.values().any(|open| open.given.is_none())
    }

    /// Returns true if that question was put, or has an answer.
    pub(crate) fn knows(&self, id: &QuestionId) -> bool {
        let table = self.table();
        table.open.contains_key(id) || table.decided.contains_key(id)
    }

    /// Gives an answer to a question. `seen` is the digest of the question that it is for.
    pub(crate) fn give(
        &self,
        id: &QuestionId,
        seen: Option<&str>,
        given: Given,
        now_ms: u64,
    ) -> Result<(), NotTaken> {
        {
            let mut table = self.table();
            let Table { open, decided, .. } = &mut *table;
            let Some(open) = open.get_mut(id).filter(|open| open.given.is_none()) else {
                return Err(decided
                    .get(id)
                    .map_or(NotTaken::Unknown, |by| NotTaken::Decided(Arc::clone(by))));
            };
            let Open { waiting, given: slot } = open;
            if waiting.question.has_expired(now_ms) {
                return Err(NotTaken::Expired);
            }
            if seen.is_some_and(|seen| waiting.digest() != seen) {
                return Err(NotTaken::Changed);
            }
            waiting.question.accept(&given.answer).map_err(|why| NotTaken::NotAccepted(why.to_string()))?;
            decided.insert(id.clone(), Arc::clone(&given.by));
            *slot = Some(given);
        }
        self.changed.notify();
        Ok(())
    }

    /// Adds a message for the next turn.
    pub(crate) fn queue(&self, said: Said) {
        self.table().messages.push_back(said);
    }

    /// Returns true if another message may wait.
    pub(crate) fn has_room(&self) -> bool {
        self.table().messages.len() < MOST_MESSAGES
    }

    /// Returns true if messages wait.
    pub(crate) fn has_messages(&self) -> bool {
        !self.table().messages.is_empty()
    }
}

/// A question that was put. Dropping it withdraws the question.
struct Put<'a> {
    desk: &'a Desk,
    id: &'a QuestionId,
}

impl Drop for Put<'_> {
    fn drop(&mut self) {
        self.desk.table().open.remove(self.id);
        self.desk.changed.notify();
    }
}

impl Operator for Desk {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            {
                let mut table = self.table();
                if is_turn(waiting) {
                    // The answer has ended without another request.
                    let left = self.interjector.get().map(Interjector::take_back).unwrap_or_default();
                    left.into_iter().rev().for_each(|said| table.messages.push_front(said));
                    if let Some(said) = table.messages.pop_front() {
                        return Reply::Given(message(said));
                    }
                }
                table.open.insert(waiting.id.clone(), Open { waiting: waiting.clone(), given: None });
            }
            let put = Put { desk: self, id: &waiting.id };
            self.changed.notify();
            let given = self
                .changed
                .until(|| self.table().open.get_mut(&waiting.id).and_then(|open| open.given.take()))
                .await;
            drop(put);
            Reply::Given(given)
        })
    }
}
