//! Warm hosts, by the files that they may touch and the package whose code they run.
//!
//! The confinement of a process can't change later, so a host serves only calls with the same view. It runs the code of one
//! package only: in the same process, a library's code could pose as the program's.
//!
//! The first host of a key is its home. Calls that don't say `parallel` take the home in turns, in order of arrival, so that a
//! module has one state. Only while a function in it makes calls of its own do others go elsewhere: such a call may be what
//! it waits for.

use crate::host::{Host, HostError};
use llm_do_core::worker::CodePackage;
use serde_json::Value;
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::{
    sync::{Notify, OwnedMutexGuard},
    task::JoinHandle,
};

/// The calls that a host can serve.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The package whose code it runs.
    pub(crate) package: Arc<CodePackage>,
    /// Hash of what it may touch.
    pub(crate) view: Arc<str>,
}

/// Most idle hosts that are kept. Each is a process with an interpreter, about 15 MB.
const MOST_IDLE: usize = 8;

/// Most async calls that share the event loop of one host.
const MOST_SHARED: usize = 64;

/// How a call uses a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// Whether it has its turn in the home ([`Pool::turn`]), because it does not say `parallel`.
    pub(crate) in_turn: bool,
    /// Whether it is async and shares the event loop of a host with others that are.
    pub(crate) shares: bool,
    /// Whether the function makes calls of its own.
    pub(crate) orchestrates: bool,
}

/// The hosts of a run. They end with it, and so do all processes that its calls left behind.
#[derive(Default)]
pub(crate) struct Pool {
    hosts: Mutex<HashMap<Key, Vec<Slot>>>,
    turns: Mutex<HashMap<Key, Arc<Turns>>>,
    /// A host was given back or has ended.
    freed: Notify,
    /// `ctx.state` of each package.
    states: Mutex<HashMap<Arc<CodePackage>, Arc<State>>>,
    /// Hosts that are started before the first call.
    warming: Mutex<HashMap<Key, Arc<Notify>>>,
    /// Calls that were given up and are being stopped.
    stopping: Mutex<Vec<JoinHandle<()>>>,
}

/// The values that the functions of one package share in a run.
#[derive(Default)]
pub(crate) struct State(Mutex<HashMap<String, Value>>);

impl State {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Value>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of that name, or null.
    pub(crate) fn get(&self, name: &str) -> Value {
        self.lock().get(name).cloned().unwrap_or_default()
    }

    /// Sets a value.
    pub(crate) fn set(&self, name: String, value: Value) {
        self.lock().insert(name, value);
    }
}

/// What the calls of a key wait for, in order of arrival.
#[derive(Default)]
struct Turns {
    /// Held by the call whose turn it is to take the home.
    home: Arc<tokio::sync::Mutex<()>>,
    /// Held by the call that starts a host which others may use too.
    start: tokio::sync::Mutex<()>,
}

struct Slot {
    host: Arc<Host>,
    work: Work,
    /// How many of its calls make calls of their own.
    orchestrating: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Work {
    /// No call, since that time.
    Idle(Instant),
    /// One call.
    Alone,
    /// That many async calls, which share an event loop.
    Shared(usize),
}

/// The use of a host for one call.
pub(crate) struct Lease {
    pub(crate) host: Arc<Host>,
    key: Key,
    usage: Use,
    pool: Arc<Pool>,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<Slot>>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a call's turn to take the home, until the returned guard is dropped.
    pub(crate) async fn turn(&self, key: &Key) -> OwnedMutexGuard<()> {
        let home = Arc::clone(&self.turns(key).home);
        let turn = home.lock_owned().await;
        self.wait_for_home(key).await;
        turn
    }

    /// A host for one call: the home if the call has its turn, a free warm one, or one that `start` starts.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        key: &Key,
        usage: Use,
        start: impl Future<Output = Result<Host, HostError>>,
    ) -> Result<Lease, HostError> {
        let lease = |host| Lease { host, key: key.clone(), usage, pool: Arc::clone(self) };
        let turns = self.turns(key);
        if let Some(host) = self.free(key, usage) {
            return Ok(lease(host));
        }
        let _starts = match usage.in_turn || usage.shares {
            true => {
                let starts = turns.start.lock().await;
                if let Some(host) = self.free(key, usage) {
                    return Ok(lease(host));
                }
                Some(starts)
            }
            false => None,
        };
        // One call waits for the host that is starting. Further calls start further hosts.
        let warming = self.warming().remove(key);
        if let Some(warming) = warming {
            warming.notified().await;
            if let Some(host) = self.free(key, usage) {
                return Ok(lease(host));
            }
        }
        let host = Arc::new(start.await?);
        let slot = Slot { host: Arc::clone(&host), work: Work::Idle(Instant::now()), orchestrating: 0 };
        let mut hosts = self.lock();
        let slots = hosts.entry(key.clone()).or_default();
        slots.push(slot);
        if let Some(slot) = slots.last_mut() {
            slot.begin(usage);
        }
        Ok(lease(host))
    }

    /// The state of a package.
    pub(crate) fn state(&self, package: &Arc<CodePackage>) -> Arc<State> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(states.entry(Arc::clone(package)).or_default())
    }

    fn turns(&self, key: &Key) -> Arc<Turns> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(key.clone()).or_default())
    }

    /// Waits until the home is idle, unless a function in it makes calls: it may wait for this one.
    async fn wait_for_home(&self, key: &Key) {
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            // From here on no notification is missed.
            freed.as_mut().enable();
            let busy = self
                .lock()
                .get(key)
                .and_then(|slots| slots.iter().find(|slot| !slot.host.is_gone()))
                .is_some_and(|home| !matches!(home.work, Work::Idle(_)) && home.orchestrating == 0);
            if !busy {
                return;
            }
            freed.await;
        }
    }

    /// Starts a host before the first call, unless there is one. If it can't be started, the first call reports the error.
    pub(crate) fn warm(
        self: &Arc<Self>,
        key: &Key,
        start: impl Future<Output = Result<Host, HostError>> + Send + 'static,
    ) {
        let there = self.lock().get(key).is_some_and(|slots| slots.iter().any(|slot| !slot.host.is_gone()));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let done = match self.warming().entry(key.clone()) {
            Entry::Vacant(free) if !there => Arc::clone(free.insert(Arc::new(Notify::new()))),
            _ => return,
        };
        // Not if the run is over by then.
        let (pool, key) = (Arc::downgrade(self), key.clone());
        runtime.spawn(async move {
            let host = start.await;
            let Some(pool) = pool.upgrade() else { return };
            if let Ok(host) = host {
                let slot = Slot { host: Arc::new(host), work: Work::Idle(Instant::now()), orchestrating: 0 };
                pool.lock().entry(key.clone()).or_default().push(slot);
            }
            pool.warming().remove(&key);
            done.notify_one();
        });
    }

    /// Waits for the calls that were given up to stop or to be ended.
    pub(crate) async fn wait_for_stopping(&self) {
        let stopping = std::mem::take(&mut *self.stopping.lock().unwrap_or_else(PoisonError::into_inner));
        for stop in stopping {
            // It ends by itself after the grace time of the call.
            let _ = stop.await;
        }
    }

    fn warming(&self) -> MutexGuard<'_, HashMap<Key, Arc<Notify>>> {
        self.warming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free(&self, key: &Key, usage: Use) -> Option<Arc<Host>> {
        let mut hosts = self.lock();
        let slots = hosts.get_mut(key)?;
        slots.retain(|slot| !slot.host.is_gone());
        let slot = slots.iter_mut().find(|slot| match slot.work {
            Work::Idle(_) => true,
            Work::Alone => false,
            Work::Shared(calls) => usage.shares && calls < MOST_SHARED,
        })?;
        slot.begin(usage);
        Some(Arc::clone(&slot.host))
    }

    fn give_back(&self, key: &Key, host: &Arc<Host>, usage: Use) {
        let mut hosts = self.lock();
        if let Some(slots) = hosts.get_mut(key) {
            slots.retain(|slot| !slot.host.is_gone());
            if let Some(slot) = slots.iter_mut().find(|slot| Arc::ptr_eq(&slot.host, host)) {
                slot.end(usage);
            }
            end_idle(&mut hosts);
        }
        drop(hosts);
        self.freed.notify_waiters();
    }

    pub(crate) fn add_stopping(&self, stop: JoinHandle<()>) {
        let mut stopping = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        stopping.retain(|stop| !stop.is_finished());
        stopping.push(stop);
    }

    /// Removes a host and ends it.
    fn discard(&self, key: &Key, host: &Arc<Host>) {
        if let Some(slots) = self.lock().get_mut(key) {
            slots.retain(|slot| !Arc::ptr_eq(&slot.host, host));
        }
        host.kill();
        self.freed.notify_waiters();
    }
}

impl Slot {
    fn begin(&mut self, usage: Use) {
        self.work = match self.work {
            Work::Shared(calls) => Work::Shared(calls + 1),
            _ if usage.shares => Work::Shared(1),
            _ => Work::Alone,
        };
        self.orchestrating += usize::from(usage.orchestrates);
    }

    fn end(&mut self, usage: Use) {
        self.work = match self.work {
            Work::Shared(calls) if calls > 1 => Work::Shared(calls - 1),
            _ => Work::Idle(Instant::now()),
        };
        self.orchestrating -= usize::from(usage.orchestrates);
    }
}

/// Ends the hosts that have been idle longest, until at most [`MOST_IDLE`] are idle.
fn end_idle(hosts: &mut HashMap<Key, Vec<Slot>>) {
    let since = |slot: &Slot| match slot.work {
        Work::Idle(since) => Some(since),
        _ => None,
    };
    let mut idle: Vec<Instant> = hosts.values().flatten().filter_map(since).collect();
    if idle.len() <= MOST_IDLE {
        return;
    }
    idle.sort_unstable();
    let oldest_kept = idle[idle.len() - MOST_IDLE];
    for slots in hosts.values_mut() {
        slots.retain(|slot| since(slot).is_none_or(|since| since >= oldest_kept));
    }
    hosts.retain(|_, slots| !slots.is_empty());
}

impl Lease {
    /// The pool that waits for the end of this call when the run ends.
    pub(crate) fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    /// Makes the host free for the next call, after this one has ended.
    pub(crate) fn give_back(self) {
        self.pool.give_back(&self.key, &self.host, self.usage);
    }

    /// Ends the host, because its call does not end or its state is unknown.
    pub(crate) fn discard(self) {
        self.pool.discard(&self.key, &self.host);
    }
}
