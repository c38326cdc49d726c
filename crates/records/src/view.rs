//! The state of a run, folded from its records one after another.
//!
//! [`RunView`] is the only place that interprets records for displays: terminal, editor, service, web app and pages
//! read it. A view takes each record in constant time, but for the depth of its call, so that it follows a run of any
//! length.

mod call;
mod changes;
mod conversation;
#[cfg(test)]
mod tests;

pub use call::{Activity, CallView, Retry, Spent};
pub use changes::{CallChange, CallStanding, CostChange, ItemChange, RetryChange, RunChanges, SpentChange};
pub use conversation::{ConversationView, Item, ItemKind, NoteTone};

use crate::{
    line::RecordRef,
    tree::{CallState, Decision, WaitsFor},
};
use call::state_of;
use llm_do_core::{
    call_path::CallPath,
    gate::Rule,
    journal::{Ending, Record, RecordKind, RunStatus},
    launch::unknown_finish_note,
    model::Usage,
    question::{Answer, Question, QuestionId, Requester},
    step_name::{Attempt, StepName},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

/// The calls and conversations that a view keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Keep {
    /// All calls and conversations.
    #[default]
    All,
    /// Calls under way, and the call that the last record has ended.
    UnderWay,
}

/// The state of a run, according to its records so far.
#[derive(Clone, Debug, Default)]
pub struct RunView {
    keep: Keep,
    start: Option<RunStart>,
    end: Option<RunEnd>,
    started_ms: Option<u64>,
    last_ms: u64,
    usage: Usage,
    calls: HashMap<CallPath, CallView>,
    /// Calls that have not ended for good, in the order of the tree.
    under_way: BTreeSet<CallPath>,
    /// The number of calls that have begun.
    begun: usize,
    latest: Option<Latest>,
    activities: u64,
    /// Questions without an answer, in the order of the tree.
    questions: BTreeMap<QuestionId, WaitsFor>,
    costs: BTreeMap<(Arc<str>, Arc<str>), Spent>,
    conversations: HashMap<CallPath, ConversationView>,
    /// Calls that a view of the calls under way forgets with the next record.
    ended: Vec<CallPath>,
    /// Leaves that have failed, and may be tried again until their caller continues.
    failed: Vec<CallPath>,
    changes: changes::Changed,
}

/// The start of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunStart {
    /// The target, as typed.
    pub target: Arc<str>,
    /// The entry worker.
    pub entry: Arc<str>,
    /// The person or program that started the run, and the channel. Journals of earlier versions do not say so.
    pub requester: Option<Requester>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEnd {
    /// The way in which it ended.
    pub status: RunStatus,
    /// The output or failure.
    pub ending: Ending,
    /// The time of its record.
    pub at_ms: u64,
}

/// The activity that has begun last in a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Latest {
    /// A call of that function.
    Call(Arc<str>),
    /// A request for that turn.
    Model(u32),
    /// A note of code, or of the engine.
    Note(Arc<str>),
}

impl RunView {
    /// Makes a view of a run whose records follow. It keeps all calls and conversations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a view for displays that show what is under way: it forgets calls that have ended, and keeps no
    /// conversation.
    pub fn of_calls_under_way() -> Self {
        Self { keep: Keep::UnderWay, ..Self::default() }
    }

    /// Makes the view of these records.
    pub fn of(records: &[Record]) -> Self {
        let mut view = Self::new();
        records.iter().for_each(|record| view.fold(record.into()));
        view
    }

    /// Takes the next record.
    pub fn fold(&mut self, record: RecordRef<'_>) {
        self.forget();
        self.changes.begin();
        self.started_ms.get_or_insert(record.at_ms);
        self.last_ms = record.at_ms;
        match record.body {
            RecordKind::RunStarted { target, entry, requester, .. } => {
                let (target, entry) = (Arc::clone(target), Arc::clone(entry));
                self.start = Some(RunStart { target, entry, requester: requester.clone() });
            }
            RecordKind::RunResumed { .. } => self.resume(record.at_ms),
            RecordKind::RunEnded { status, ending, .. } => self.end(*status, ending, record.at_ms),
            RecordKind::CallStarted { .. } => self.begin_call(record),
            _ => self.of_call(record),
        }
        if self.keep == Keep::All {
            self.of_conversation(record);
        }
    }

    /// Returns the start of the run, if it is among the records.
    pub fn start(&self) -> Option<&RunStart> {
        self.start.as_ref()
    }

    /// Returns the end of the run. A run that was resumed since has none.
    pub fn end_of_run(&self) -> Option<&RunEnd> {
        self.end.as_ref()
    }

    /// Returns the time of the first record, in milliseconds since 1970.
    pub fn started_ms(&self) -> u64 {
        self.started_ms.unwrap_or_default()
    }

    /// Returns the time of the newest record.
    pub fn last_ms(&self) -> u64 {
        self.last_ms
    }

    /// Tokens of the whole run.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Tokens and cost of each worker with each model.
    pub fn costs(&self) -> impl ExactSizeIterator<Item = (&str, &str, &Spent)> {
        self.costs.iter().map(|((worker, model), spent)| (&**worker, &**model, spent))
    }

    /// Returns the call at that place.
    pub fn call(&self, path: &CallPath) -> Option<&CallView> {
        self.calls.get(path)
    }

    /// Returns all calls that the view keeps, in no order.
    pub fn calls(&self) -> impl Iterator<Item = &CallView> {
        self.calls.values()
    }

    /// Returns the calls that have not ended for good, in the order of the tree.
    pub fn under_way(&self) -> impl DoubleEndedIterator<Item = &CallView> {
        self.under_way.iter().filter_map(|path| self.calls.get(path))
    }

    /// Returns the call at that place, if it has not ended for good.
    pub fn call_under_way(&self, path: &CallPath) -> Option<&CallView> {
        self.calls.get(path).filter(|_| self.under_way.contains(path))
    }

    /// Returns the workers from the entry to that call, as far as they are under way.
    pub fn chain(&self, path: &CallPath) -> Vec<&str> {
        let mut chain = Vec::new();
        let mut at = Some(path);
        while let Some(call) = at.and_then(|path| self.calls.get(path)) {
            if self.under_way.contains(&call.path) {
                chain.extend(call.worker.as_deref());
            }
            at = call.parent.as_ref();
        }
        chain.reverse();
        chain
    }

    /// Returns the number of calls that have begun.
    pub fn begun(&self) -> usize {
        self.begun
    }

    /// Returns the number of calls and requests that have begun, and the last of them.
    pub fn activities(&self) -> (u64, Option<&Latest>) {
        (self.activities, self.latest.as_ref())
    }

    /// Returns the questions without an answer, in the order of the tree. Those of a run that was interrupted wait
    /// again when it is resumed.
    pub fn questions(&self) -> impl Iterator<Item = (&QuestionId, WaitsFor)> {
        self.questions.iter().map(|(id, kind)| (id, *kind))
    }

    /// Returns the conversation of the call at that place. A view of the calls under way has none.
    pub fn conversation(&self, path: &CallPath) -> Option<&ConversationView> {
        self.conversations.get(path)
    }

    /// Returns the conversations with their calls, in no order.
    pub fn conversations(&self) -> impl Iterator<Item = (&CallPath, &ConversationView)> {
        self.conversations.iter()
    }

    /// Returns true if the user has taken back a message of a conversation, and with it the record of that number.
    pub fn is_undone(&self, path: &CallPath, seq: u64) -> bool {
        let mut at = Some(path);
        while let Some(path) = at {
            if self.conversations.get(path).is_some_and(|held| held.is_undone(seq)) {
                return true;
            }
            at = self.calls.get(path).and_then(|call| call.parent.as_ref());
        }
        false
    }

    fn forget(&mut self) {
        for path in self.ended.drain(..) {
            self.calls.remove(&path);
        }
    }

    /// Notes that the call has ended for good: a view of the calls under way keeps it until the next record. A leaf
    /// that failed may be tried again.
    fn ended_for_good(&mut self, path: &CallPath, may_repeat: bool) {
        self.under_way.remove(path);
        if self.keep == Keep::UnderWay {
            let list = if may_repeat { &mut self.failed } else { &mut self.ended };
            list.push(path.clone());
        }
    }

    /// Notes that the caller at that place continues, so that its leaves that failed are not tried again.
    fn continues(&mut self, caller: &CallPath) {
        if !self.failed.is_empty() {
            let calls = &self.calls;
            let is_over = |path: &mut CallPath| match calls.get(path) {
                Some(call) => call.parent.as_ref() == Some(caller),
                None => true,
            };
            self.ended.extend(self.failed.extract_if(.., is_over));
        }
    }

    fn resume(&mut self, at_ms: u64) {
        self.end = None;
        for path in &self.under_way {
            if let Some(call) = self.calls.get_mut(path) {
                (call.state, call.ended_ms, call.ended_seq) = (CallState::Open, None, None);
                call.does(Activity::Working, at_ms);
                self.changes.call(path);
            }
        }
        for (id, kind) in &self.questions {
            if let Some(call) = self.calls.get_mut(&id.call) {
                call.does(Activity::Waiting(*kind), at_ms);
            }
        }
        self.changes.run();
    }

    fn end(&mut self, status: RunStatus, ending: &Ending, at_ms: u64) {
        self.end = Some(RunEnd { status, ending: ending.clone(), at_ms });
        self.changes.run();
        if status == RunStatus::Suspended {
            return;
        }
        for path in &self.under_way {
            if let Some(call) = self.calls.get_mut(path) {
                call.ended_ms.get_or_insert(at_ms);
                self.changes.call(path);
            }
        }
    }

    fn begin_call(&mut self, record: RecordRef<'_>) {
        let parent = record.path.parent().filter(|parent| self.calls.contains_key(parent));
        let number = self.calls.get(record.path).map_or(self.begun, |earlier| earlier.number);
        let Some(call) = CallView::begun(record, parent, number) else { return };
        let function = Arc::clone(&call.function);
        self.begun += 1;
        self.activity(Latest::Call(function));
        self.under_way.insert(record.path.clone());
        self.calls.insert(record.path.clone(), call);
        self.changes.call(record.path);
    }

    fn activity(&mut self, latest: Latest) {
        self.activities += 1;
        self.latest = Some(latest);
    }

    /// Changes a call and those that it is part of.
    fn around(&mut self, path: &CallPath, mut change: impl FnMut(&mut CallView)) {
        let mut at = Some(path.clone());
        while let Some(call) = at.and_then(|path| self.calls.get_mut(&path)) {
            change(call);
            self.changes.call(&call.path);
            at = call.parent.clone();
        }
    }

    fn asked(&mut self, record: RecordRef<'_>, question: &Question) {
        let kind = WaitsFor::of(question);
        if self.questions.insert(QuestionId::new(record.path, record.step), kind).is_none() {
            self.around(record.path, |call| {
                if call.open_questions == 0 {
                    call.held_since_ms = record.at_ms;
                }
                call.open_questions += 1;
            });
        }
        if let Some(call) = self.calls.get_mut(record.path) {
            if let Question::Approval(approval) = question {
                let by = approval.rule.clone();
                call.verdict = Some(Decision { rule: Rule::Ask, by, reason: None });
            }
            call.asked_ms = Some(record.at_ms);
            call.does(Activity::Waiting(kind), record.at_ms);
            self.changes.call(record.path);
        }
    }

    /// Notes that a question of that call does not wait any more.
    fn no_longer_wait(&mut self, path: &CallPath, at_ms: u64) {
        self.around(path, |call| {
            call.open_questions = call.open_questions.saturating_sub(1);
            if call.open_questions == 0 {
                call.held_ms = call.held_ms.saturating_add(at_ms.saturating_sub(call.held_since_ms));
            }
        });
    }

    fn answered(&mut self, record: RecordRef<'_>, answer: &Answer) {
        if self.questions.remove(&QuestionId::new(record.path, record.step)).is_some() {
            self.no_longer_wait(record.path, record.at_ms);
        }
        let Some(call) = self.calls.get_mut(record.path) else { return };
        // A call that was edited may fail before the gate decides again.
        call.verdict.take_if(|verdict| verdict.rule == Rule::Ask);
        if let Some(asked_ms) = call.asked_ms.take() {
            call.waited_ms = call.waited_ms.saturating_add(record.at_ms.saturating_sub(asked_ms));
        }
        if matches!(call.state, CallState::Suspended) {
            call.state = CallState::Open;
        }
        call.does(Activity::Working, record.at_ms);
        if let Answer::Edit { input } = answer {
            let given = std::mem::replace(&mut call.input, Arc::clone(input));
            call.given.get_or_insert(given);
        }
        self.changes.call(record.path);
    }

    /// Withdraws the questions of a call that has ended, and of those below it.
    fn withdraw(&mut self, path: &CallPath, at_ms: u64) {
        if self.calls.get(path).is_none_or(|call| call.open_questions == 0) {
            return;
        }
        let withdrawn: Vec<QuestionId> =
            self.questions.keys().filter(|id| id.call.is_within(path)).cloned().collect();
        for id in withdrawn {
            self.questions.remove(&id);
            self.no_longer_wait(&id.call, at_ms);
        }
    }

    fn spend(&mut self, path: &CallPath, usage: Usage) {
        self.usage = self.usage.plus(usage);
        self.around(path, |call| call.spent.add(usage));
        if let Some(call) = self.calls.get(path) {
            let worker = call.worker.as_ref().unwrap_or(&call.function);
            let model = call.model.as_ref().map(ToString::to_string).unwrap_or_default();
            let key = (Arc::clone(worker), Arc::from(model));
            self.changes.cost(&key);
            self.costs.entry(key).or_default().add(usage);
        }
    }

    fn of_call(&mut self, record: RecordRef<'_>) {
        let RecordRef { path, step, body, at_ms, .. } = record;
        match body {
            RecordKind::Asked(question) => return self.asked(record, question),
            RecordKind::Answered(given) => return self.answered(record, &given.answer),
            RecordKind::ModelAnswered { usage, .. } => self.spend(path, *usage),
            RecordKind::ModelRequested { turn, .. } => {
                self.activity(Latest::Model(*turn));
                self.continues(path);
            }
            RecordKind::Note { text } => self.activity(Latest::Note(Arc::clone(text))),
            RecordKind::ToolEnded { ending, .. } | RecordKind::CallEnded { ending, .. }
                if *ending != Ending::Suspended =>
            {
                self.withdraw(path, at_ms);
            }
            _ => {}
        }
        let Some(call) = self.calls.get_mut(path) else { return };
        match body {
            RecordKind::Verdict { rule, by, reason } => {
                call.verdict = Some(Decision { rule: *rule, by: by.clone(), reason: reason.clone() });
                if *rule == Rule::Blocked {
                    call.end(CallState::Refused, record);
                    self.under_way.remove(path);
                }
            }
            RecordKind::ToolStarted { .. } => {
                call.leaf = true;
                if matches!(call.state, CallState::Failed | CallState::Refused | CallState::TimedOut) {
                    call.failed_attempts += 1;
                    let attempt = if let StepName::Tool(attempt) = step { *attempt } else { 0 };
                    call.does(Activity::Repeating { attempt }, at_ms);
                }
                (call.state, call.failure) = (CallState::Open, None);
                (call.ended_ms, call.ended_seq) = (None, None);
                self.under_way.insert(path.clone());
                self.failed.retain(|failed| failed != path);
            }
            RecordKind::ToolEnded { ending, origins, .. } | RecordKind::CallEnded { ending, origins, .. } => {
                call.output_origins = origins.clone();
                let state = match ending {
                    Ending::Output(_) => CallState::Done,
                    Ending::Suspended => CallState::Suspended,
                    Ending::Failure(failure) => {
                        call.failure = Some(failure.clone());
                        state_of(failure.kind)
                    }
                };
                call.end(state, record);
                call.does(Activity::Working, at_ms);
                if let (RecordKind::CallEnded { usage, .. }, true) = (body, call.model.is_some()) {
                    call.usage = Some(*usage);
                }
                if state != CallState::Suspended {
                    self.continues(path);
                    self.ended_for_good(path, step.is_tool() && state != CallState::Done);
                }
            }
            // The timeout of a model request does not end the call: the engine decides how to proceed.
            RecordKind::TimedOut { .. } if step.is_tool() => {
                call.end(CallState::TimedOut, record);
                self.ended_for_good(path, true);
            }
            RecordKind::Cancelled => call.end(CallState::Cancelled, record),
            RecordKind::ConversationStarted { worker, model, .. } => {
                (call.worker, call.model) = (Some(Arc::clone(worker)), Some(model.clone()));
            }
            RecordKind::ModelChosen { model, .. } => call.model = Some(model.clone()),
            RecordKind::ModelRequested { attempt, .. } => {
                call.requests += 1;
                call.retries += u32::from(*attempt > 0);
                call.requested_ms = at_ms;
                call.retry = None;
                let purpose = step.request().unwrap_or_default();
                call.does(Activity::Asking { purpose, attempt: *attempt }, at_ms);
            }
            RecordKind::ModelAnswered { usage, unoffered, unknown_finish, .. } => {
                call.unoffered.extend(unoffered.iter().cloned());
                call.notes.extend(unknown_finish.as_deref().map(unknown_finish_note));
                call.does(Activity::Working, at_ms);
                if call.state == CallState::Open {
                    // Its own tokens, until the record of its end has the sum.
                    call.usage = Some(call.usage.unwrap_or_default().plus(*usage));
                }
            }
            RecordKind::ModelFailed { error, retries } => {
                call.failed_requests += 1;
                call.retry = match (step, retries) {
                    (StepName::Model(Attempt { attempt, .. }), Some(of)) => {
                        Retry::after(error, *attempt, *of, at_ms).map(Box::new)
                    }
                    _ => None,
                };
                call.does(Activity::Pausing, at_ms);
            }
            RecordKind::Random { value } if matches!(step, StepName::Jitter(_)) => {
                if let Some(retry) = &mut call.retry {
                    retry.spread(*value, at_ms);
                }
            }
            RecordKind::Note { text } => call.notes.push(Arc::clone(text)),
            _ => return,
        }
        self.changes.call(path);
    }
}

impl WaitsFor {
    /// Returns the kind of a question.
    pub fn of(question: &Question) -> Self {
        match question {
            Question::Approval(_) => Self::Approval,
            Question::Input(input) if input.conversation.is_some() => Self::Message,
            Question::Input(_) => Self::Answer,
            Question::Settlement(_) => Self::Settlement,
        }
    }
}
