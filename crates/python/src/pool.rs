//! Warm hosts, by the files that they may touch and the package whose code they run.
//!
//! The confinement of a process can't change later, so a host serves only calls with the same view. It runs the code of
//! one package only: in the same process, a library's code could pose as the program's.
//!
//! Each key has a home: the host in which all its calls run, so that a module has one state. Calls without `parallel`
//! take turns there ([`crate::turns`]). Only calls with `parallel="process"` run in hosts of their own.

use crate::{
    host::{Host, HostError},
    turns::Turns,
};
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
    /// A hash of the files, variables and network that it may use.
    pub(crate) view: Arc<str>,
}

/// The largest number of idle hosts that are kept. Each is a process with an interpreter, about 15 MB.
const MOST_IDLE: usize = 8;

/// The choice of a host for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The home of its key.
    Home,
    /// A host that no other call uses at the same time.
    Own,
}

/// The hosts of a run. They end with the run, together with all processes that its calls left behind.
#[derive(Default)]
pub(crate) struct Pool {
    hosts: Mutex<HashMap<Key, Vec<Slot>>>,
    queues: Mutex<HashMap<Key, Arc<Queues>>>,
    /// Hosts that are started before the first call.
    warming: Mutex<HashMap<Key, Arc<Notify>>>,
    /// Calls that were abandoned and are being stopped.
    stopping: Mutex<Vec<JoinHandle<()>>>,
}

/// The locks that calls of a key wait for.
#[derive(Default)]
struct Queues {
    turns: Arc<Turns>,
    /// A lock that a call holds while it starts the home.
    start: tokio::sync::Mutex<()>,
}

struct Slot {
    host: Arc<Host>,
    room: Room,
    /// The calls that it serves.
    calls: usize,
    /// The number of these calls that were abandoned and do not stop. Such a host gets no further calls, and ends with
    /// its other calls.
    stuck: usize,
    /// The end of its last call.
    used: Instant,
}

impl Slot {
    fn new(host: Arc<Host>, room: Room) -> Self {
        Self { host, room, calls: 0, stuck: 0, used: Instant::now() }
    }

    /// Returns true if the host can serve another call.
    fn is_free(&self, room: Room) -> bool {
        self.room == room && self.stuck == 0 && (room == Room::Home || self.calls == 0)
    }
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

    /// Returns the turns of the calls that run in the home of a key.
    pub(crate) fn turns(&self, key: &Key) -> Arc<Turns> {
        Arc::clone(&self.queues(key).turns)
    }

    fn queues(&self, key: &Key) -> Arc<Queues> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(queues.entry(key.clone()).or_default())
    }

    /// Returns a host for a call: an existing one, or else a host that `start` starts.
    pub(crate) async fn lease(
        self: &Arc<Self>,
        key: &Key,
        room: Room,
        start: impl Future<Output = Result<Host, HostError>>,
    ) -> Result<Lease, HostError> {
        let lease = |host| Lease { host, key: key.clone(), pool: Arc::clone(self) };
        let queues = self.queues(key);
        if let Some(host) = self.free(key, room) {
            return Ok(lease(host));
        }
        let _starts = match room {
            Room::Home => {
                let starts = queues.start.lock().await;
                if let Some(host) = self.free(key, room) {
                    return Ok(lease(host));
                }
                let warming = self.warming().remove(key);
                if let Some(warming) = warming {
                    warming.notified().await;
                    if let Some(host) = self.free(key, room) {
                        return Ok(lease(host));
                    }
                }
                Some(starts)
            }
            Room::Own => None,
        };
        let host = Arc::new(start.await?);
        let slot = Slot { calls: 1, ..Slot::new(Arc::clone(&host), room) };
        self.lock().entry(key.clone()).or_default().push(slot);
        Ok(lease(host))
    }

    /// Starts a host for the next call that wants one of its own, unless one is free.
    pub(crate) fn warm_alone(
        self: &Arc<Self>,
        key: &Key,
        start: impl Future<Output = Result<Host, HostError>> + Send + 'static,
    ) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let is_free = |slot: &Slot| !slot.host.is_gone() && slot.is_free(Room::Own);
        if self.lock().get(key).is_some_and(|slots| slots.iter().any(is_free)) {
            return;
        }
        // Not if the run is over by then.
        let (pool, key) = (Arc::downgrade(self), key.clone());
        runtime.spawn(async move {
            let host = start.await;
            if let (Some(pool), Ok(host)) = (pool.upgrade(), host) {
                pool.lock().entry(key).or_default().push(Slot::new(Arc::new(host), Room::Own));
            }
        });
    }

    /// Starts the home before the first call, unless there is one. If it can't be started, the first call reports the
    /// error.
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
                let slot = Slot::new(Arc::new(host), Room::Home);
                pool.lock().entry(key.clone()).or_default().push(slot);
            }
            pool.warming().remove(&key);
            done.notify_one();
        });
    }

    /// Waits until the abandoned calls have stopped or were ended.
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

    fn free(&self, key: &Key, room: Room) -> Option<Arc<Host>> {
        let mut hosts = self.lock();
        let slots = hosts.get_mut(key)?;
        slots.retain(|slot| !slot.host.is_gone());
        let slot = slots.iter_mut().find(|slot| slot.is_free(room))?;
        slot.calls += 1;
        Some(Arc::clone(&slot.host))
    }

    /// Ends the use of a host by one call, which has ended or is stuck.
    fn end(&self, key: &Key, host: &Arc<Host>, stuck: Option<&str>) {
        let mut hosts = self.lock();
        let Some(slots) = hosts.get_mut(key) else { return };
        slots.retain(|slot| !slot.host.is_gone());
        if let Some(slot) = slots.iter_mut().find(|slot| Arc::ptr_eq(&slot.host, host)) {
            slot.used = Instant::now();
            match stuck {
                Some(_) => slot.stuck += 1,
                None => slot.calls -= 1,
            }
            if slot.stuck > 0 && slot.calls == slot.stuck {
                slot.host.kill(stuck.unwrap_or("a call in it did not stop"));
                slots.retain(|slot| !Arc::ptr_eq(&slot.host, host));
            }
        }
        end_idle(&mut hosts);
    }

    pub(crate) fn add_stopping(&self, stop: JoinHandle<()>) {
        let mut stopping = self.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        stopping.retain(|stop| !stop.is_finished());
        stopping.push(stop);
    }

    /// Removes a host and ends it.
    fn discard(&self, key: &Key, host: &Arc<Host>, reason: &str) {
        if let Some(slots) = self.lock().get_mut(key) {
            slots.retain(|slot| !Arc::ptr_eq(&slot.host, host));
        }
        host.kill(reason);
    }
}

/// Ends the hosts that have been idle longest, until at most [`MOST_IDLE`] are idle.
fn end_idle(hosts: &mut HashMap<Key, Vec<Slot>>) {
    let since = |slot: &Slot| (slot.calls == 0).then_some(slot.used);
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
    /// Returns the pool that waits for the end of this call when the run ends.
    pub(crate) fn pool(&self) -> Arc<Pool> {
        Arc::clone(&self.pool)
    }

    /// Ends the use of the host, after its call has ended.
    pub(crate) fn give_back(self) {
        self.pool.end(&self.key, &self.host, None);
    }

    /// Ends the use of the host, although its call does not stop. The host ends after its other calls, which get the
    /// reason if it ends before them.
    pub(crate) fn leave(self, reason: &str) {
        self.pool.end(&self.key, &self.host, Some(reason));
    }

    /// Ends the host and all its calls, for that reason.
    pub(crate) fn discard(self, reason: &str) {
        self.pool.discard(&self.key, &self.host, reason);
    }
}
