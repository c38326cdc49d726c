//! The runs that clients have started.

use crate::{live::LiveRun, state::Fingerprint};
use llm_do::Problem;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Most runs at once.
const MOST_LIVE: usize = 64;
/// Most runs that are remembered after their end, so that a repeated call gets their result.
const MOST_ENDED: usize = 256;
/// Longest idempotency key, in bytes.
const LONGEST_KEY: usize = 256;

/// The runs of this server, by ID and by idempotency key.
#[derive(Default)]
pub(crate) struct Runs(Mutex<Known>);

#[derive(Default)]
struct Known {
    runs: HashMap<Arc<str>, Arc<LiveRun>>,
    keys: HashMap<String, Keyed>,
    /// Oldest first.
    order: VecDeque<Arc<str>>,
    ending: bool,
}

/// The call that a key was given with.
struct Keyed {
    call: Fingerprint,
    run: Arc<str>,
}

/// Why a call starts no run.
pub(crate) enum NotStarted {
    /// The key is too long.
    LongKey,
    /// The key was given with another call.
    OtherCall,
    /// Too many runs are at work.
    Busy,
    /// The server ends.
    Ending,
    /// The program or the input is wrong.
    Problem(Box<Problem>),
}

impl Runs {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run with that ID.
    pub(crate) fn get(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.known().runs.get(id).cloned()
    }

    /// The run of an earlier call with that key, or a new one.
    ///
    /// # Errors
    /// The call starts no run.
    pub(crate) fn begin(
        &self,
        key: Option<&str>,
        call: &Fingerprint,
        start: impl FnOnce() -> Result<Arc<LiveRun>, Problem>,
    ) -> Result<Arc<LiveRun>, NotStarted> {
        if key.is_some_and(|key| key.len() > LONGEST_KEY) {
            return Err(NotStarted::LongKey);
        }
        // Locked until the run is known: of two calls with one key, the second must find it.
        let mut known = self.known();
        if let Some(Keyed { call: first, run }) = key.and_then(|key| known.keys.get(key)) {
            return match (first == call, known.runs.get(run)) {
                (true, Some(run)) => Ok(Arc::clone(run)),
                _ => Err(NotStarted::OtherCall),
            };
        }
        known.has_room()?;
        let run = start().map_err(|problem| NotStarted::Problem(Box::new(problem)))?;
        let id = run.id();
        if let Some(key) = key {
            known.keys.insert(key.to_owned(), Keyed { call: call.clone(), run: Arc::clone(id) });
        }
        known.order.push_back(Arc::clone(id));
        known.runs.insert(Arc::clone(id), Arc::clone(&run));
        known.forget();
        Ok(run)
    }

    /// The run with that ID: the one in memory, or that which `resume` continues if it is not there or is suspended.
    ///
    /// # Errors
    /// It can't be continued.
    pub(crate) fn continued(
        &self,
        id: &Arc<str>,
        resume: impl FnOnce() -> Result<Arc<LiveRun>, Problem>,
    ) -> Result<Arc<LiveRun>, NotStarted> {
        // Locked until the run is known: of two requests, the second must find what the first has continued.
        let mut known = self.known();
        if let Some(run) = known.runs.get(id).filter(|run| !run.is_suspended()) {
            return Ok(Arc::clone(run));
        }
        known.has_room()?;
        let run = resume().map_err(|problem| NotStarted::Problem(Box::new(problem)))?;
        if known.runs.insert(Arc::clone(id), Arc::clone(&run)).is_none() {
            known.order.push_back(Arc::clone(id));
        }
        known.forget();
        Ok(run)
    }

    /// Ends all runs: those that wait for an answer are suspended, the others cancelled. Returns when their journals have
    /// their ends.
    pub(crate) async fn end(&self) {
        let runs: Vec<Arc<LiveRun>> = {
            let mut known = self.known();
            known.ending = true;
            known.runs.values().cloned().collect()
        };
        for run in runs.iter().filter(|run| !run.has_ended()) {
            match run.questions().waiting().is_empty() {
                true => run.cancel(),
                false => run.questions().close(),
            }
        }
        for run in &runs {
            run.ended().await;
        }
    }
}

impl Known {
    /// # Errors
    /// No further run can be started.
    fn has_room(&self) -> Result<(), NotStarted> {
        if self.ending {
            return Err(NotStarted::Ending);
        }
        match self.runs.values().filter(|run| !run.has_ended()).count() >= MOST_LIVE {
            true => Err(NotStarted::Busy),
            false => Ok(()),
        }
    }

    /// Forgets the oldest of the runs that have ended.
    fn forget(&mut self) {
        let ended = |id: &&Arc<str>| self.runs.get(*id).is_none_or(|run| run.has_ended());
        let all: Vec<Arc<str>> = self.order.iter().filter(ended).cloned().collect();
        let old = all.len().saturating_sub(MOST_ENDED);
        for id in &all[..old] {
            self.runs.remove(id);
            self.order.retain(|known| known != id);
            self.keys.retain(|_, keyed| keyed.run != *id);
        }
    }
}
