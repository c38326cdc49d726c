//! The bridge to the host: effects go out in order, and their results wake the tasks that wait for them.

use crate::message::{Bytes, Done, Effect, EffectError, EffectId, ErrorKind, RequestId};
use llm_do_core::send::BoxFuture;
use llm_do_host::Ambient;
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    future::poll_fn,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::Duration,
};

/// A report of the host about an effect.
#[derive(Debug)]
pub(crate) enum Got {
    Done(Done),
    Failed(EffectError),
    Head { status: u16, headers: Vec<(String, String)> },
    Piece(Vec<u8>),
    End,
}

/// The effects of a step, and the tasks that wait for results. Clones are the same bridge.
#[derive(Clone, Default)]
pub(crate) struct Bridge(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    now_ms: u64,
    today: Arc<str>,
    random: u64,
    last: EffectId,
    effects: Vec<Effect>,
    waiting: HashMap<EffectId, Slot>,
    /// The runs of the appends and stores of the last list, by their numbers.
    records: HashMap<EffectId, Arc<str>>,
    /// The answers of the last list that depend on a run.
    answers: Vec<(Arc<str>, RequestId)>,
    /// The runs whose journals can't be written, each with the reason.
    broken: BTreeMap<Arc<str>, String>,
}

#[derive(Default)]
struct Slot {
    got: VecDeque<Got>,
    waker: Option<Waker>,
}

/// An effect whose result is awaited. A dropped one that has begun something in the host ends it.
pub(crate) struct Pending {
    bridge: Bridge,
    id: EffectId,
    /// True if the host keeps working on the effect after the list.
    lasts: bool,
    over: bool,
}

/// An answer to a request of the app.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Body,
}

/// The body of an answer.
pub(crate) enum Body {
    None,
    Text(String),
    Bytes(Vec<u8>),
}

impl Bridge {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the host's time. It never goes back.
    pub(crate) fn set_time(&self, now_ms: u64, today: Arc<str>) {
        let mut state = self.state();
        state.now_ms = state.now_ms.max(now_ms);
        state.today = today;
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.state().now_ms
    }

    pub(crate) fn today(&self) -> Arc<str> {
        Arc::clone(&self.state().today)
    }

    /// Mixes entropy into later random numbers.
    pub(crate) fn seed(&self, entropy: &[u8]) {
        let mut state = self.state();
        for chunk in entropy.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            state.random ^= u64::from_le_bytes(word);
            next_random(&mut state.random);
        }
    }

    pub(crate) fn random(&self) -> u64 {
        next_random(&mut self.state().random)
    }

    /// Begins a list of effects: those of the last one have been performed.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.records.clear();
        state.answers.clear();
    }

    /// Takes the effects of the list.
    pub(crate) fn take(&self) -> Vec<Effect> {
        mem::take(&mut self.state().effects)
    }

    /// Adds an effect that has no result.
    pub(crate) fn emit(&self, effect: Effect) {
        self.state().effects.push(effect);
    }

    /// Adds an effect with a result.
    fn ask(&self, lasts: bool, effect: impl FnOnce(EffectId) -> Effect) -> Pending {
        let mut state = self.state();
        state.last += 1;
        let id = state.last;
        state.effects.push(effect(id));
        state.waiting.insert(id, Slot::default());
        Pending { bridge: self.clone(), id, lasts, over: false }
    }

    /// Performs an effect, and returns its result.
    pub(crate) async fn perform(&self, effect: impl FnOnce(EffectId) -> Effect) -> Result<Done, EffectError> {
        match self.ask(false, effect).next().await {
            Got::Done(done) => Ok(done),
            Got::Failed(error) => Err(error),
            Got::Head { .. } | Got::Piece(_) | Got::End => Err(EffectError {
                kind: ErrorKind::Other,
                message: "the host gave a result of another kind".into(),
            }),
        }
    }

    /// Begins a request or a wait.
    pub(crate) fn start(&self, effect: impl FnOnce(EffectId) -> Effect) -> Pending {
        self.ask(true, effect)
    }

    /// Adds whole lines to a run's journal. The host writes them before every later effect of the list.
    ///
    /// # Errors
    /// An earlier write has failed.
    pub(crate) fn append(&self, run: &Arc<str>, path: &str, text: &str) -> Result<(), String> {
        let mut state = self.state();
        if let Some(reason) = state.broken.get(run) {
            return Err(reason.clone());
        }
        if let Some(Effect::Append { run: last, text: lines, .. }) = state.effects.last_mut()
            && last == run
        {
            lines.push_str(text);
            return Ok(());
        }
        state.last += 1;
        let id = state.last;
        state.records.insert(id, Arc::clone(run));
        state.effects.push(Effect::Append {
            id,
            run: Arc::clone(run),
            path: path.to_owned(),
            text: text.to_owned(),
        });
        Ok(())
    }

    /// Stores a file that belongs to a run's journal. The host writes it before every later effect of the list.
    pub(crate) fn store(&self, run: &Arc<str>, path: String, content: &[u8]) {
        let mut state = self.state();
        state.last += 1;
        let id = state.last;
        state.records.insert(id, Arc::clone(run));
        state.effects.push(Effect::Store { id, run: Arc::clone(run), path, base64: Bytes(content.to_vec()) });
    }

    /// The reason why a run's journal can't be written, if it can't.
    pub(crate) fn broken(&self, run: &str) -> Option<String> {
        self.state().broken.get(run).cloned()
    }

    /// Forgets that a run's journal could not be written: the run is opened again.
    pub(crate) fn mend(&self, run: &str) {
        self.state().broken.remove(run);
    }

    /// Answers a request of the app. An answer with a run leaves only if the run's records before it are written.
    pub(crate) fn respond(&self, request: RequestId, run: Option<Arc<str>>, answer: Answer) {
        self.answer(request, run, answer, false);
    }

    /// Begins a stream of events as the answer to a request.
    pub(crate) fn stream(&self, request: RequestId, run: Option<Arc<str>>) {
        let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        self.answer(request, run, Answer { status: 200, headers, body: Body::None }, true);
    }

    fn answer(&self, request: RequestId, run: Option<Arc<str>>, answer: Answer, stream: bool) {
        let Answer { status, headers, body } = answer;
        let (text, base64) = match body {
            Body::None => (None, None),
            Body::Text(text) => (Some(text), None),
            Body::Bytes(bytes) => (None, Some(Bytes(bytes))),
        };
        let mut state = self.state();
        if let Some(run) = &run {
            state.answers.push((Arc::clone(run), request));
        }
        state.effects.push(Effect::Respond { request, run, status, headers, text, base64, stream });
    }

    /// Takes a result. Returns the run whose journal could not be written, with the requests whose answers were skipped.
    pub(crate) fn got(&self, id: EffectId, got: Got) -> Option<(Arc<str>, Vec<RequestId>)> {
        let waker;
        let broken = {
            let mut state = self.state();
            let run = state.records.get(&id).cloned();
            let broken = match (run, &got) {
                (Some(run), Got::Failed(error)) if !state.broken.contains_key(&run) => {
                    state.broken.insert(Arc::clone(&run), error.message.clone());
                    let skipped =
                        state.answers.iter().filter(|(of, _)| *of == run).map(|(_, request)| *request);
                    let skipped = skipped.collect();
                    Some((run, skipped))
                }
                _ => None,
            };
            let slot = state.waiting.get_mut(&id);
            waker = slot.and_then(|slot| {
                slot.got.push_back(got);
                slot.waker.take()
            });
            broken
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        broken
    }
}

/// Returns the next number (SplitMix64).
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Pending {
    /// Returns the next report of the host.
    pub(crate) async fn next(&mut self) -> Got {
        let got = poll_fn(|context| {
            let mut state = self.bridge.state();
            let slot = state.waiting.entry(self.id).or_default();
            match slot.got.pop_front() {
                Some(got) => Poll::Ready(got),
                None => {
                    slot.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
        self.over |= matches!(got, Got::Done(_) | Got::Failed(_) | Got::End);
        got
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut state = self.bridge.state();
        state.waiting.remove(&self.id);
        if self.lasts && !self.over {
            // The host has not seen it yet: nothing has begun.
            let is_new = |effect: &Effect| matches!(effect, Effect::Send { id, .. } | Effect::Wait { id, .. } if *id == self.id);
            match state.effects.iter().position(is_new) {
                Some(at) => drop(state.effects.remove(at)),
                None => state.effects.push(Effect::Abort { id: self.id }),
            }
        }
    }
}

/// Time and randomness of the page.
impl Ambient for Bridge {
    fn after(&self, time: Duration) -> BoxFuture<'static, ()> {
        let bridge = self.clone();
        Box::pin(async move {
            let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let mut wait = bridge.start(|id| Effect::Wait { id, ms });
            wait.next().await;
        })
    }

    fn random(&self) -> u64 {
        self.random()
    }
}

/// Wakes those who wait for a change of something.
#[derive(Default)]
pub(crate) struct Signal(Mutex<Vec<Waker>>);

impl Signal {
    pub(crate) fn notify(&self) {
        let wakers = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until `found` returns something. It is asked after each change.
    pub(crate) async fn until<T>(&self, mut found: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| match found() {
            Some(value) => Poll::Ready(value),
            None => {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

/// The names of things that are in use. A name is free again when its guard is dropped.
#[derive(Clone, Default)]
pub(crate) struct Names(Arc<Mutex<HashSet<Arc<str>>>>);

impl Names {
    /// Takes a name, unless it is in use.
    pub(crate) fn take(&self, name: &Arc<str>) -> Option<Taken> {
        let is_new = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(name));
        is_new.then(|| Taken { names: self.clone(), name: Arc::clone(name) })
    }
}

/// A name in use.
pub(crate) struct Taken {
    names: Names,
    name: Arc<str>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.names.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}
