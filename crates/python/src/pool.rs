//! Warm hosts, by what they may touch and whose code they run.
//!
//! A confined process can't be widened or narrowed later, so a host serves only calls with the same view, and the code of
//! one package only: a library's code in the same process could pass itself off as the program's.

use crate::host::{Host, HostError};
use llm_do_core::worker::CodePackage;
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use tokio::{sync::Notify, task::JoinHandle};

/// What a host is made for.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// Whose code it runs.
    pub(crate) package: Arc<CodePackage>,
    /// What it may touch, with the network and the tier.
    pub(crate) view: Arc<str>,
}

/// Most hosts that are kept warm without work. Each is a process with an interpreter, some 15 MB.
const MOST_IDLE: usize = 8;

/// Most async calls that share one host's loop.
const MOST_SHARED: usize = 64;

/// The hosts of a run. They end with it, and with them whatever its calls left behind.
#[derive(Default)]
pub(crate) struct Pool {
    hosts: Mutex<HashMap<Key, Vec<Slot>>>,
    /// Hosts that are being started ahead of the first call.
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
    /// None, since then.
    Idle(Instant),
    /// One call that has the interpreter to itself.
    Alone,
    /// So many async calls, which share a loop.
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

    /// A host for one call: a warm one that is free, or one that `start` starts. Async calls share.
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
        // One call waits for the host that is on its way; more than one want more than one.
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

    /// Starts a host ahead of the first call, if none is there or on its way. That it can't be started is said by the call.
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
        // A run that is over by then wants no host any more.
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

    /// Waits until the calls that were given up have stopped, or have been ended.
    pub(crate) async fn settle(&self) {
        let stopping = std::mem::take(&mut *self.stopping.lock().unwrap_or_else(PoisonError::into_inner));
        for stop in stopping {
            // It ends by itself, after the time that code is given to stop.
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
        cool(&mut hosts);
    }

    pub(crate) fn stops(&self, stop: JoinHandle<()>) {
        let mut stopping = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        stopping.retain(|stop| !stop.is_finished());
        stopping.push(stop);
    }

    /// Forgets a host and ends it.
    fn discard(&self, key: &Key, host: &Arc<Host>) {
        if let Some(slots) = self.lock().get_mut(key) {
            slots.retain(|slot| !Arc::ptr_eq(&slot.host, host));
        }
        host.kill();
    }
}

/// Ends the hosts that have been idle longest, until few enough are.
fn cool(hosts: &mut HashMap<Key, Vec<Slot>>) {
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
    /// Where the stop of its call is waited for when the run ends.
    pub(crate) fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    /// The call has ended well: the host is free for the next.
    pub(crate) fn give_back(self) {
        self.pool.give_back(&self.key, &self.host);
    }

    /// The call would not end, or the host is not to be trusted any more: ends it.
    pub(crate) fn discard(self) {
        self.pool.discard(&self.key, &self.host);
    }
}
