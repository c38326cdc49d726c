//! The runs that are under way, and the requests that started runs.

use crate::{
    error::{ApiError, Code},
    live::LiveRun,
    meter::{Kind, Meter, Share},
};
use futures_util::{FutureExt, future::BoxFuture};
use llm_do::{Client, IdempotencyKey};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

/// Most requests whose keys are remembered. Of older ones a repetition starts another run.
pub(crate) const MOST_KEYS: usize = 10_000;

/// Time between two tries to continue a run whose program has changed: each try reads the program.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// The runs of this process.
pub(crate) struct Runs {
    live: Mutex<BTreeMap<Arc<str>, Arc<LiveRun>>>,
    /// Runs that are not under way and not over, with the reason.
    stuck: Mutex<HashMap<Arc<str>, Stuck>>,
    keys: Mutex<Keys>,
    /// Each run at work holds a permit.
    slots: Arc<Semaphore>,
    /// The semaphores of clients that may have only some runs at work at once. Their further runs wait, and do not
    /// count as queued.
    lines: HashMap<Arc<str>, Arc<Semaphore>>,
    /// Runs under way and runs that wait for a place.
    meter: Arc<Meter>,
    queued: Arc<AtomicUsize>,
    most_queued: usize,
    ending: AtomicBool,
}

/// A run that is not under way and not over.
#[derive(Clone)]
pub(crate) struct Stuck {
    /// The program of the run.
    pub(crate) program: Arc<str>,
    /// The reason why the run stopped.
    pub(crate) how: Halted,
    /// The time of the last attempt to continue the run.
    pub(crate) tried: Instant,
}

impl Stuck {
    /// A run that has come to a halt now.
    pub(crate) fn now(program: Arc<str>, how: Halted) -> Self {
        Self { program, how, tried: Instant::now() }
    }
}

/// The reason why a run stopped before its end.
#[derive(Clone)]
pub(crate) enum Halted {
    /// The program has changed since the run began, so the run can't be continued.
    Changed(String),
    /// The run was cut off, for example because its journal can't be written. It can be continued when the cause is
    /// gone.
    CutOff(String),
}

/// A run's part of the queue, given back when it is dropped.
struct InQueue(Arc<AtomicUsize>);

impl Drop for InQueue {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The permits that a run at work holds.
pub(crate) struct Permit {
    _slot: OwnedSemaphorePermit,
    _line: Option<OwnedSemaphorePermit>,
}

/// A place among the runs at once.
pub(crate) enum Place {
    /// The place is free now.
    Now(Permit),
    /// The place is free when other runs have ended, in the order in which the runs were started.
    Later(BoxFuture<'static, Option<Permit>>),
}

/// The parts of quotas and the place that a run needs to begin.
pub(crate) struct Room {
    pub(crate) of_token: Share,
    /// The part of the program's quota. Absent: the run was admitted before.
    pub(crate) of_program: Option<Share>,
    pub(crate) place: Place,
}

#[derive(Default)]
struct Keys {
    by_key: HashMap<KeyOf, Arc<Keyed>>,
    /// Oldest first.
    order: VecDeque<KeyOf>,
}

/// A client's name, and its idempotency key.
type KeyOf = (Arc<str>, Arc<str>);

/// The request that a key was first given with.
pub(crate) struct Keyed {
    request: Arc<str>,
    /// The ID of the request's run, once the run has started.
    pub(crate) run: OnceCell<Arc<str>>,
}

impl Runs {
    pub(crate) fn new(
        most: usize,
        most_queued: usize,
        meter: Arc<Meter>,
        lines: HashMap<Arc<str>, usize>,
    ) -> Self {
        Self {
            live: Mutex::default(),
            stuck: Mutex::default(),
            keys: Mutex::default(),
            slots: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            lines: lines
                .into_iter()
                .map(|(client, most)| (client, Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))))
                .collect(),
            meter,
            queued: Arc::default(),
            most_queued,
            ending: AtomicBool::new(false),
        }
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<LiveRun>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stuck(&self) -> MutexGuard<'_, HashMap<Arc<str>, Stuck>> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses new runs from now on.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// Room for another run of that client: now, or when other runs have ended.
    ///
    /// # Errors
    /// The client has too many, the queue is full, or the server shuts down.
    pub(crate) fn admit(&self, client: &Arc<str>) -> Result<Room, ApiError> {
        if self.is_ending() {
            return Err(ApiError::new(Code::ShuttingDown, "the server is shutting down"));
        }
        let of_token = self.meter.take(client, 1)?;
        if self.lines.contains_key(client) {
            return Ok(Room { of_token, of_program: None, place: self.in_line(client, None) });
        }
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            let place = Permit { _slot: slot, _line: None };
            return Ok(Room { of_token, of_program: None, place: Place::Now(place) });
        }
        let more = |queued: usize| (queued < self.most_queued).then_some(queued + 1);
        if self.queued.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_err() {
            let detail = "too many runs are under way or wait: start another when one has ended";
            return Err(ApiError::new(Code::TooManyRuns, detail).of_quota(Kind::Runs.name()));
        }
        let in_queue = InQueue(Arc::clone(&self.queued));
        Ok(Room { of_token, of_program: None, place: self.in_line(client, Some(in_queue)) })
    }

    /// Returns a place now, or after the runs that already wait.
    fn in_line(&self, client: &str, in_queue: Option<InQueue>) -> Place {
        let (slots, line) = (Arc::clone(&self.slots), self.lines.get(client).cloned());
        let mut place = Box::pin(async move {
            let line = match line {
                Some(line) => Some(line.acquire_owned().await.ok()?),
                None => None,
            };
            Some(Permit { _slot: slots.acquire_owned().await.ok()?, _line: line })
        });
        // Polled once, so that it is in the line from now on.
        if let Some(Some(place)) = (&mut place).now_or_never() {
            return Place::Now(place);
        }
        Place::Later(Box::pin(async move {
            let place = place.await;
            drop(in_queue);
            place
        }))
    }

    /// Room for a run of an earlier process, which was admitted there: it counts for no limit but that of the runs at once.
    /// `None`: the server shuts down.
    pub(crate) fn room_in_line(&self, client: &Arc<str>) -> Option<Room> {
        if self.is_ending() {
            return None;
        }
        Some(Room {
            of_token: self.meter.take_anyway(client, 1),
            of_program: None,
            place: self.in_line(client, None),
        })
    }

    /// Waits for room for another run of that client. `None`: the server shuts down.
    pub(crate) async fn room(&self, client: &Arc<str>) -> Option<Room> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok().filter(|_| !self.is_ending())?;
        let place = Permit { _slot: slot, _line: None };
        Some(Room { of_token: self.meter.take_anyway(client, 1), of_program: None, place: Place::Now(place) })
    }

    /// The number of runs that have room: those under way, those that wait for a place, and those about to begin.
    pub(crate) fn admitted(&self) -> u64 {
        self.meter.used().all
    }

    pub(crate) fn insert(&self, run: &Arc<LiveRun>) {
        self.stuck().remove(&run.id);
        self.live().insert(Arc::clone(&run.id), Arc::clone(run));
    }

    pub(crate) fn remove(&self, id: &str) {
        self.live().remove(id);
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.live().get(id).cloned()
    }

    /// All runs under way, by ID, which is the order of time.
    pub(crate) fn all(&self) -> Vec<Arc<LiveRun>> {
        self.live().values().cloned().collect()
    }

    pub(crate) fn set_stuck(&self, id: Arc<str>, stuck: Stuck) {
        self.stuck().insert(id, stuck);
    }

    /// The reason why that run stopped, if it did.
    pub(crate) fn halted(&self, id: &str) -> Option<Halted> {
        self.stuck().get(id).map(|stuck| stuck.how.clone())
    }

    /// Returns true if the program of that run has changed, and the last attempt to continue the run was long enough
    /// ago. The call then counts as an attempt.
    pub(crate) fn is_due(&self, id: &str) -> bool {
        let mut stuck = self.stuck();
        match stuck.get_mut(id) {
            Some(Stuck { how: Halted::Changed(_), tried, .. }) if tried.elapsed() >= TRY_AGAIN => {
                *tried = Instant::now();
                true
            }
            _ => false,
        }
    }

    /// Forgets the reason why that run stopped, and returns it.
    pub(crate) fn take_halted(&self, id: &str) -> Option<Halted> {
        self.stuck().remove(id).map(|stuck| stuck.how)
    }

    /// Forgets the runs of that program that are stuck, and returns their IDs.
    pub(crate) fn take_stuck(&self, program: &str) -> Vec<Arc<str>> {
        let of_program = |_: &Arc<str>, stuck: &mut Stuck| *stuck.program == *program;
        self.stuck().extract_if(of_program).map(|(id, _)| id).collect()
    }

    /// Returns the entry of the client's key, which is new or belongs to the same request. `None`: the client gave no
    /// key.
    ///
    /// # Errors
    /// The key was given with another request.
    pub(crate) fn keyed(&self, client: &Client) -> Result<Option<Arc<Keyed>>, ApiError> {
        let Some(IdempotencyKey { key, request }) = &client.key else { return Ok(None) };
        let of = (Arc::clone(&client.name), Arc::clone(key));
        let mut keys = self.keys();
        if let Some(known) = keys.by_key.get(&of) {
            return match known.request == *request {
                true => Ok(Some(Arc::clone(known))),
                false => Err(ApiError::new(
                    Code::KeyReused,
                    "the Idempotency-Key was used for another request: use a new key for each different request",
                )),
            };
        }
        let keyed = Arc::new(Keyed { request: Arc::clone(request), run: OnceCell::new() });
        keys.by_key.insert(of.clone(), Arc::clone(&keyed));
        keys.order.push_back(of);
        if keys.order.len() > MOST_KEYS
            && let Some(oldest) = keys.order.pop_front()
        {
            keys.by_key.remove(&oldest);
        }
        Ok(Some(keyed))
    }

    /// The run that a client's request with that key has started.
    pub(crate) fn of_key(&self, client: &Arc<str>, key: &str) -> Option<Arc<str>> {
        self.keys().by_key.get(&(Arc::clone(client), key.into()))?.run.get().cloned()
    }

    /// The newest run that a request of that client with a key has started.
    pub(crate) fn newest_keyed(&self, client: &str) -> Option<Arc<str>> {
        let keys = self.keys();
        let own = keys.by_key.iter().filter(|((name, _), _)| **name == *client);
        own.filter_map(|(_, keyed)| keyed.run.get()).max().cloned()
    }

    /// Forgets a key whose request started no run.
    pub(crate) fn forget(&self, client: &Client) {
        let Some(IdempotencyKey { key, .. }) = &client.key else { return };
        let of = (Arc::clone(&client.name), Arc::clone(key));
        let mut keys = self.keys();
        if keys.by_key.get(&of).is_some_and(|keyed| !keyed.run.initialized()) {
            keys.by_key.remove(&of);
            keys.order.retain(|known| *known != of);
        }
    }

    /// Remembers the request that started a run of an earlier process.
    pub(crate) fn remember(&self, client: &Client, run: &Arc<str>) {
        // Two runs with one key are of different requests: the newer is kept.
        if let Ok(Some(keyed)) = self.keyed(client) {
            let _ = keyed.run.set(Arc::clone(run));
        }
    }
}
