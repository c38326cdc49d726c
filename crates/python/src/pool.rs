//! Warm hosts, by the files that they may touch and the package whose code they run.
//!
//! The confinement of a process can't change later, so a host serves only calls with the same view. It runs the code of one
//! package only: in the same process, a library's code could pose as the program's.

use crate::host::{Host, HostError};
use llm_do_core::worker::CodePackage;
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::{sync::Notify, task::JoinHandle};

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

/// The hosts of a run. They end with it, and so do all processes that its calls left behind.
#[derive(Default)]
pub(crate) struct Pool {
    hosts: Mutex<HashMap<Key, Vec<Slot>>>,
    /// Hosts that are started before the first call.
    warming: Mutex<HashMap<Key, Arc<Notify>>>,
    /// Calls that were given up and are being stopped.
    stopping: Mutex<Vec<JoinHandle<()>>>,
}

struct Slot {
    host: Arc<Host>,
    work: Work,
}

#[derive(Clone, Copy, PartialEq)]
enum Work {
    /// No call, since that time.
    Idle(Instant),
    /// One sync call.
    Alone,
    /// That many async calls, which share an event loop.
    Shared(usize),
}

/// The use of a host for one call.
pub(crate) struct Lease {
    pub(crate) host: Arc<Host>,
    key: Key,
    pool: Arc<Pool>,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<Slot>>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A host for one call: a free warm one, or one that `start` starts. Async calls share hosts.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        key: &Key,
        is_async: bool,
        start: impl Future<Output = Result<Host, HostError>>,
    ) -> Result<Lease, HostError> {
        let lease = |host| Lease { host, key: key.clone(), pool: Arc::clone(self) };
        if let Some(host) = self.free(key, is_async) {
            return Ok(lease(host));
        }
        // One call waits for the host that is starting. Further calls start further hosts.
        let warming = self.warming().remove(key);
        if let Some(warming) = warming {
            warming.notified().await;
            if let Some(host) = self.free(key, is_async) {
                return Ok(lease(host));
            }
        }
        let host = Arc::new(start.await?);
        let work = if is_async { Work::Shared(1) } else { Work::Alone };
        self.lock().entry(key.clone()).or_default().push(Slot { host: Arc::clone(&host), work });
        Ok(lease(host))
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
                let slot = Slot { host: Arc::new(host), work: Work::Idle(Instant::now()) };
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

    fn free(&self, key: &Key, is_async: bool) -> Option<Arc<Host>> {
        let mut hosts = self.lock();
        let slots = hosts.get_mut(key)?;
        slots.retain(|slot| !slot.host.is_gone());
        let slot = slots.iter_mut().find(|slot| match slot.work {
            Work::Idle(_) => true,
            Work::Alone => false,
            Work::Shared(calls) => is_async && calls < MOST_SHARED,
        })?;
        slot.work = match slot.work {
            Work::Shared(calls) => Work::Shared(calls + 1),
            _ if is_async => Work::Shared(1),
            _ => Work::Alone,
        };
        Some(Arc::clone(&slot.host))
    }

    fn give_back(&self, key: &Key, host: &Arc<Host>) {
        let mut hosts = self.lock();
        let Some(slots) = hosts.get_mut(key) else { return };
        slots.retain(|slot| !slot.host.is_gone());
        if let Some(slot) = slots.iter_mut().find(|slot| Arc::ptr_eq(&slot.host, host)) {
            slot.work = match slot.work {
                Work::Shared(calls) if calls > 1 => Work::Shared(calls - 1),
                _ => Work::Idle(Instant::now()),
            };
        }
        end_idle(&mut hosts);
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
        self.pool.give_back(&self.key, &self.host);
    }

    /// Ends the host, because its call does not end or its state is unknown.
    pub(crate) fn discard(self) {
        self.pool.discard(&self.key, &self.host);
    }
}
