//! The shared state in memory: of a run whose calls are all made in one process, or the single copy for calls in
//! several processes.

use super::{Shared, deadline::Deadline};
use crate::{
    account::{Account, Amount, Decision, Left, Owner, Spent, Wanted},
    authority::Place,
    budget::Reserved,
    call_path::CallPath,
    operator::Recall,
    origin::Origins,
    question::{Given, Known, MEMORY, QuestionId},
    send::{BoxFuture, MaybeSend},
    source::FunctionSource,
    undo::SideEffect,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    future::{poll_fn, ready},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::Duration,
};

/// Returns true if a turn from `since` on of that conversation has made the call.
fn is_since(call: &CallPath, conversation: &CallPath, since: u32) -> bool {
    call.turn_below(conversation).is_some_and(|turn| turn >= since)
}

/// Shared state in memory. Every future except that of a reservation is ready at once.
///
/// Most of it stays empty in most runs. An empty `BTreeMap` takes half the memory of an empty `HashMap`, and thousands
/// of runs may wait at once.
#[derive(Debug, Default)]
pub struct InProcess {
    ledger: Mutex<Ledger>,
    answers: Mutex<BTreeMap<Arc<str>, Remembered>>,
    effects: Mutex<Vec<(CallPath, SideEffect)>>,
    generated: Mutex<BTreeMap<CallPath, Generated>>,
    results: Mutex<BTreeMap<CallPath, Vec<Arc<str>>>>,
    /// The state of each package, by name.
    state: Mutex<BTreeMap<FunctionSource, BTreeMap<String, Set>>>,
}

/// A value of the state of a package.
#[derive(Debug)]
struct Set {
    at_ms: u64,
    value: Arc<Value>,
    origins: Origins,
}

/// An answer, and the question that it answered.
#[derive(Debug)]
struct Remembered {
    given: Given,
    question: QuestionId,
}

/// Generated workers: the name and the arguments of each.
type Generated = BTreeMap<Arc<str>, Arc<Value>>;

#[derive(Debug, Default)]
struct Ledger {
    run: OwnerState,
    workers: BTreeMap<CallPath, OwnerState>,
    answers: BTreeMap<CallPath, OwnerState>,
    calls: BTreeMap<CallPath, OwnerState>,
    /// Requests that wait for others to settle.
    waiting: Vec<Waker>,
}

#[derive(Debug, Default)]
struct OwnerState {
    spent: Spent,
    deadline: Option<Deadline>,
}

impl Ledger {
    fn state(&self, owner: &Owner) -> Option<&OwnerState> {
        match owner {
            Owner::Run => Some(&self.run),
            Owner::Worker { path, .. } => self.workers.get(path),
            Owner::Answer { path, .. } => self.answers.get(path),
            Owner::Call { path, .. } => self.calls.get(path),
        }
    }

    fn state_mut(&mut self, owner: &Owner) -> Option<&mut OwnerState> {
        match owner {
            Owner::Run => Some(&mut self.run),
            Owner::Worker { path, .. } => self.workers.get_mut(path),
            Owner::Answer { path, .. } => self.answers.get_mut(path),
            Owner::Call { path, .. } => self.calls.get_mut(path),
        }
    }

    fn spent(&self, owner: &Owner) -> Spent {
        self.state(owner).map(|state| state.spent).unwrap_or_default()
    }

    fn change(&mut self, account: &Account, change: impl Fn(&mut Spent)) {
        for account in account.chain() {
            if let Some(state) = self.state_mut(&account.owner) {
                change(&mut state.spent);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn done<'a, T: MaybeSend + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(ready(value))
}

impl InProcess {
    /// The known answer to that question, for an operator's queue and for the driver that gets the answer.
    pub fn known<'a>(&'a self, known: &'a Known, question: &'a QuestionId) -> KnownHere<'a> {
        KnownHere { known, question, shared: self }
    }

    /// The amounts that an account has spent. Zero, if it is not open.
    pub fn spent(&self, owner: &Owner) -> Spent {
        lock(&self.ledger).spent(owner)
    }
}

/// The answer to a question that may be known in the operator's place.
#[derive(Clone, Copy)]
pub struct KnownHere<'a> {
    known: &'a Known,
    question: &'a QuestionId,
    shared: &'a InProcess,
}

impl KnownHere<'_> {
    /// Remembers an answer, if it asks for that and the question has a key. An answer that was remembered earlier still
    /// belongs to the question that it answered.
    pub fn answered(&self, given: &Given) {
        if let Known::Remembered(keys) = self.known
            && !given.is_remembered()
            && let Some(key) = keys.of(&given.answer)
        {
            let remembered = Remembered { given: given.clone(), question: self.question.clone() };
            lock(&self.shared.answers).insert(Arc::clone(key), remembered);
        }
    }
}

impl Recall for KnownHere<'_> {
    fn recall(&self) -> Option<Given> {
        match self.known {
            Known::Nothing => None,
            Known::Answer(given) => Some(given.clone()),
            Known::Remembered(keys) => {
                let answers = lock(&self.shared.answers);
                let found = keys.all().find_map(|key| answers.get(key));
                found.map(|found| Given { via: MEMORY.into(), ..found.given.clone() })
            }
        }
    }
}

impl Shared for InProcess {
    fn open<'a>(&'a self, account: &'a Account, spent: Spent, now_ms: u64) -> BoxFuture<'a, ()> {
        let deadline = account.budget.timeout_ms.map(|ms| Deadline::new(Duration::from_millis(ms), now_ms));
        let mut ledger = lock(&self.ledger);
        match &account.owner {
            Owner::Run => {}
            Owner::Worker { path, .. } => drop(ledger.workers.entry(path.clone()).or_default()),
            Owner::Answer { path, .. } => drop(ledger.answers.entry(path.clone()).or_default()),
            Owner::Call { path, .. } => drop(ledger.calls.entry(path.clone()).or_default()),
        }
        if let Some(state) = ledger.state_mut(&account.owner) {
            *state = OwnerState { spent, deadline };
        }
        done(())
    }

    fn reserve<'a>(
        &'a self,
        account: &'a Account,
        wanted: Wanted,
    ) -> BoxFuture<'a, Result<Reserved, String>> {
        Box::pin(poll_fn(move |context| {
            let mut ledger = lock(&self.ledger);
            match account.decide(|owner| ledger.spent(owner), wanted) {
                Decision::Granted(reserved) => {
                    ledger.change(account, |spent| {
                        spent.used = spent.used.plus(reserved.used_at_once());
                        spent.reserved = spent.reserved.plus(reserved.held());
                    });
                    Poll::Ready(Ok(reserved))
                }
                Decision::Wait => {
                    if !ledger.waiting.iter().any(|waiting| waiting.will_wake(context.waker())) {
                        ledger.waiting.push(context.waker().clone());
                    }
                    Poll::Pending
                }
                Decision::Refused(what) => Poll::Ready(Err(what)),
            }
        }))
    }

    fn settle<'a>(&'a self, account: &'a Account, reserved: Reserved, used: Amount) -> BoxFuture<'a, ()> {
        let mut ledger = lock(&self.ledger);
        ledger.change(account, |spent| {
            spent.reserved = spent.reserved.minus(reserved.held());
            spent.used = spent.used.plus(used);
        });
        let waiting = std::mem::take(&mut ledger.waiting);
        drop(ledger);
        waiting.into_iter().for_each(Waker::wake);
        done(())
    }

    fn remaining<'a>(&'a self, account: &'a Account, now_ms: u64) -> BoxFuture<'a, Option<Duration>> {
        let ledger = lock(&self.ledger);
        let deadlines = account.chain().filter(|account| account.budget.timeout_ms.is_some());
        let deadlines = deadlines.filter_map(|account| ledger.state(&account.owner)?.deadline.as_ref());
        done(deadlines.map(|deadline| deadline.remaining(now_ms)).min())
    }

    fn waited<'a>(&'a self, account: &'a Account, start_ms: u64, end_ms: u64) -> BoxFuture<'a, ()> {
        let mut ledger = lock(&self.ledger);
        for account in account.chain() {
            if let Some(OwnerState { deadline: Some(deadline), .. }) = ledger.state_mut(&account.owner) {
                deadline.waited(start_ms, end_ms);
            }
        }
        done(())
    }

    fn left<'a>(&'a self, account: &'a Account) -> BoxFuture<'a, Left> {
        done(account.left(self.spent(&account.owner)))
    }

    fn remembers<'a>(&'a self, question: &'a str) -> BoxFuture<'a, bool> {
        done(lock(&self.answers).contains_key(question))
    }

    fn forget<'a>(&'a self, question: &'a QuestionId) -> BoxFuture<'a, bool> {
        let mut answers = lock(&self.answers);
        let before = answers.len();
        answers.retain(|_, found| found.question != *question);
        done(answers.len() < before)
    }

    fn did<'a>(&'a self, call: &'a CallPath, effect: SideEffect) -> BoxFuture<'a, ()> {
        lock(&self.effects).push((call.clone(), effect));
        done(())
    }

    fn undo<'a>(&'a self, conversation: &'a CallPath, since: u32) -> BoxFuture<'a, Vec<SideEffect>> {
        lock(&self.answers).retain(|_, found| !is_since(&found.question.call, conversation, since));
        let effects = lock(&self.effects);
        let undone = effects.iter().filter(|(call, _)| is_since(call, conversation, since));
        done(undone.map(|(_, effect)| effect.clone()).collect())
    }

    fn restored<'a>(
        &'a self,
        conversation: &'a CallPath,
        since: u32,
        places: Vec<Place>,
    ) -> BoxFuture<'a, ()> {
        let mut effects = lock(&self.effects);
        for (_, effect) in effects.iter_mut().filter(|(call, _)| is_since(call, conversation, since)) {
            if let SideEffect::Files { files, .. } = effect {
                files.retain(|(place, _)| !places.contains(place));
            }
        }
        effects.retain(|(_, effect)| !matches!(effect, SideEffect::Files { files, .. } if files.is_empty()));
        done(())
    }

    fn generate<'a>(
        &'a self,
        creator: &'a CallPath,
        name: Arc<str>,
        arguments: Arc<Value>,
    ) -> BoxFuture<'a, ()> {
        lock(&self.generated).entry(creator.clone()).or_default().insert(name, arguments);
        done(())
    }

    fn generated<'a>(&'a self, creator: &'a CallPath) -> BoxFuture<'a, Vec<(Arc<str>, Arc<Value>)>> {
        let all = lock(&self.generated);
        let made = all.get(creator).into_iter().flatten();
        done(made.map(|(name, arguments)| (Arc::clone(name), Arc::clone(arguments))).collect())
    }

    fn keep_result<'a>(&'a self, conversation: &'a CallPath, text: &'a str) -> BoxFuture<'a, usize> {
        let mut results = lock(&self.results);
        done(crate::results::keep(results.entry(conversation.clone()).or_default(), text))
    }

    fn result<'a>(&'a self, conversation: &'a CallPath, number: usize) -> BoxFuture<'a, Option<Arc<str>>> {
        let results = lock(&self.results);
        let kept = results.get(conversation).and_then(|kept| kept.get(number.checked_sub(1)?));
        done(kept.cloned())
    }

    fn state<'a>(
        &'a self,
        package: &'a FunctionSource,
        name: &'a str,
    ) -> BoxFuture<'a, Option<(Arc<Value>, Origins)>> {
        let state = lock(&self.state);
        let set = state.get(package).and_then(|values| values.get(name));
        done(set.map(|set| (Arc::clone(&set.value), set.origins.clone())))
    }

    fn set_state<'a>(
        &'a self,
        package: &'a FunctionSource,
        name: &'a str,
        value: Arc<Value>,
        origins: Origins,
        at_ms: u64,
    ) -> BoxFuture<'a, ()> {
        let mut state = lock(&self.state);
        let values = state.entry(package.clone()).or_default();
        if values.get(name).is_none_or(|before| before.at_ms <= at_ms) {
            values.insert(name.to_owned(), Set { at_ms, value, origins });
        }
        done(())
    }

    fn ended<'a>(&'a self, path: &'a CallPath) -> BoxFuture<'a, ()> {
        lock(&self.generated).remove(path);
        lock(&self.results).remove(path);
        let mut ledger = lock(&self.ledger);
        ledger.workers.remove(path);
        ledger.answers.remove(path);
        ledger.calls.remove(path);
        done(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use serde_json::json;

    #[test]
    fn the_value_that_was_recorded_last_counts_in_any_order() {
        let shared = InProcess::default();
        let package = FunctionSource::Program;
        let set = |value: u32, at_ms| {
            let set = shared.set_state(&package, "n", Arc::new(json!(value)), Origins::TRUSTED, at_ms);
            set.now_or_never().expect("it is ready at once");
        };
        let now = || {
            let found = shared.state(&package, "n").now_or_never().expect("it is ready at once");
            found.map(|(value, _)| Value::clone(&value))
        };
        assert_eq!(now(), None);
        set(1, 10);
        set(2, 10);
        assert_eq!(now(), Some(json!(2)), "within a millisecond the order of the calls counts");
        set(3, 30);
        set(4, 20);
        assert_eq!(now(), Some(json!(3)));
        let library = FunctionSource::Library("lib".into());
        assert!(shared.state(&library, "n").now_or_never().expect("it is ready at once").is_none());
    }
}
