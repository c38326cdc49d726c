//! The runs that are under way, and the requests that started runs.

use crate::{
    error::{ApiError, Code},
    live::LiveRun,
};
use llm_do::{Client, IdempotencyKey};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

/// Most requests whose keys are remembered. Of older ones a repetition starts another run.
pub(crate) const MOST_KEYS: usize = 10_000;

/// The runs of this process.
pub(crate) struct Runs {
    live: Mutex<BTreeMap<Arc<str>, Arc<LiveRun>>>,
    /// Runs of an earlier process that can't be continued, with the reason.
    stuck: Mutex<HashMap<Arc<str>, String>>,
    keys: Mutex<Keys>,
    /// Each run holds a permit.
    slots: Arc<Semaphore>,
    most_of_token: usize,
    ending: AtomicBool,
}

#[derive(Default)]
struct Keys {
    by_key: HashMap<KeyOf, Arc<Keyed>>,
    /// Oldest first.
    order: VecDeque<KeyOf>,
}

/// A client's name, and what it calls a request.
type KeyOf = (Arc<str>, Arc<str>);

/// The request that a key was first given with.
pub(crate) struct Keyed {
    request: Arc<str>,
    /// Its run, once it has started.
    pub(crate) run: OnceCell<Arc<str>>,
}

impl Runs {
    pub(crate) fn new(most: usize, most_of_token: usize) -> Self {
        Self {
            live: Mutex::default(),
            stuck: Mutex::default(),
            keys: Mutex::default(),
            slots: Arc::new(Semaphore::new(most)),
            most_of_token,
            ending: AtomicBool::new(false),
        }
    }

    fn live(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<LiveRun>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stuck(&self) -> MutexGuard<'_, HashMap<Arc<str>, String>> {
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

    /// Room for another run of that client.
    ///
    /// # Errors
    /// There is none, or the server shuts down.
    pub(crate) fn admit(&self, client: &str) -> Result<OwnedSemaphorePermit, ApiError> {
        if self.is_ending() {
            return Err(ApiError::new(Code::ShuttingDown, "the server is shutting down"));
        }
        let of_token = self.live().values().filter(|run| *run.client.name == *client).count();
        if of_token >= self.most_of_token {
            let detail =
                format!("{of_token} runs of this token are under way: start another when one has ended");
            return Err(ApiError::new(Code::TooManyRuns, detail));
        }
        Arc::clone(&self.slots).try_acquire_owned().map_err(|_| {
            ApiError::new(Code::TooManyRuns, "too many runs are under way: start another when one has ended")
        })
    }

    /// Room for a run that was admitted before. `None`: the server shuts down.
    pub(crate) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.slots).acquire_owned().await.ok().filter(|_| !self.is_ending())
    }

    pub(crate) fn insert(&self, run: &Arc<LiveRun>) {
        self.live().insert(Arc::clone(&run.id), Arc::clone(run));
    }

    pub(crate) fn remove(&self, id: &str) {
        self.live().remove(id);
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.live().get(id).cloned()
    }

    /// By ID, and so by time.
    pub(crate) fn all(&self) -> Vec<Arc<LiveRun>> {
        self.live().values().cloned().collect()
    }

    pub(crate) fn set_stuck(&self, id: Arc<str>, why: String) {
        self.stuck().insert(id, why);
    }

    /// Why that run can't be continued.
    pub(crate) fn stuck_because(&self, id: &str) -> Option<String> {
        self.stuck().get(id).cloned()
    }

    /// What is known of the requests with that key: nothing, or the same request.
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
