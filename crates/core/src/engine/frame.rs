//! What travels down the call tree: authority, the chain of callers, deadlines and budgets.

use super::Principal;
use crate::{
    authority::Authority,
    function::{Function, FunctionMeta, FunctionSource},
    gate::{RuleLine, Subject},
    model::Usage,
    results::Results,
    worker::WorkerDefinition,
};
use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

/// The place in the tree from which calls are made.
#[derive(Clone)]
pub struct Frame {
    authority: Arc<Authority>,
    link: Option<Arc<Link>>,
    results: Arc<Results>,
    /// Set when code calls on behalf of the innermost worker.
    tool: Option<Arc<FunctionMeta>>,
}

/// One worker in the chain of callers.
pub struct Link {
    worker: Arc<WorkerDefinition>,
    above: Option<Arc<Link>>,
    depth: u32,
    /// What it may call, once that is known.
    functions: OnceLock<Arc<[Function]>>,
    deadline: Option<Deadline>,
    budget: Budget,
}

/// Working time of one call: waiting for people and rate limits doesn't count (SPEC §8.1).
pub struct Deadline {
    limit: Duration,
    started_ms: u64,
    waits: Mutex<Waits>,
}

#[derive(Default)]
struct Waits {
    total_ms: u64,
    /// End of the latest wait counted, so that waits side by side count once.
    until_ms: u64,
}

impl Deadline {
    /// Starts now.
    pub fn new(limit: Duration, now_ms: u64) -> Self {
        Self { limit, started_ms: now_ms, waits: Mutex::default() }
    }

    fn remaining(&self, now_ms: u64) -> Duration {
        let waited = self.waits.lock().unwrap_or_else(PoisonError::into_inner).total_ms;
        let worked = now_ms.saturating_sub(self.started_ms).saturating_sub(waited);
        self.limit.saturating_sub(Duration::from_millis(worked))
    }

    fn waited(&self, start_ms: u64, end_ms: u64) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let start_ms = start_ms.max(waits.until_ms);
        if end_ms > start_ms {
            waits.total_ms += end_ms - start_ms;
            waits.until_ms = end_ms;
        }
    }
}

/// Most tokens of one answer under a budget, where the worker names no maximum: every provider takes it, and one child
/// does not reserve all that its siblings could use.
const UNSTATED: u32 = 4096;

/// Tokens that a call and everything below it may use (SPEC §10.4).
#[derive(Default)]
pub struct Budget {
    max_tokens: Option<u64>,
    spent: Mutex<Spent>,
}

#[derive(Default)]
struct Spent {
    used: u64,
    reserved: u64,
}

impl Budget {
    /// A budget of so many tokens, or none.
    pub fn new(max_tokens: Option<u64>) -> Self {
        Self { max_tokens, spent: Mutex::default() }
    }
}

/// Tokens reserved for one request at every budget above it; settled with what it used.
#[must_use]
pub struct Reservation {
    link: Arc<Link>,
    tokens: u64,
}

impl Frame {
    /// Where a run starts: the operator calls with the program's authority.
    pub fn operator(authority: Arc<Authority>) -> Self {
        Self { authority, link: None, results: Arc::default(), tool: None }
    }

    /// The frame of a worker that this frame calls.
    #[must_use]
    pub fn enter(&self, worker: &Arc<WorkerDefinition>, authority: Authority, now_ms: u64) -> Self {
        let limits = &worker.limits;
        let deadline = limits.timeout_ms.map(|ms| Deadline::new(Duration::from_millis(ms), now_ms));
        Self {
            authority: Arc::new(authority),
            link: Some(Arc::new(Link {
                worker: Arc::clone(worker),
                above: self.link.clone(),
                depth: self.depth(),
                functions: OnceLock::new(),
                deadline,
                budget: Budget::new(limits.max_tokens),
            })),
            results: Arc::default(),
            tool: None,
        }
    }

    /// The same place, with calls made by a tool on behalf of the worker.
    #[must_use]
    pub fn on_behalf(&self, tool: &FunctionMeta) -> Self {
        Self { tool: Some(Arc::new(tool.clone())), ..self.clone() }
    }

    /// What may be touched from here.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Long results of this worker's conversation.
    pub fn results(&self) -> &Results {
        &self.results
    }

    /// On whose behalf calls are made.
    pub fn principal(&self) -> Principal {
        match (&self.link, &self.tool) {
            (None, _) => Principal::Operator,
            (Some(link), None) => Principal::Worker(Arc::clone(&link.worker.id)),
            (Some(link), Some(tool)) => {
                Principal::Tool { tool: Arc::clone(&tool.name), worker: Arc::clone(&link.worker.id) }
            }
        }
    }

    /// The worker that calls, if it is one.
    pub fn worker(&self) -> Option<&Arc<WorkerDefinition>> {
        self.link.as_ref().map(|link| &link.worker)
    }

    fn links(&self) -> impl Iterator<Item = &Arc<Link>> {
        std::iter::successors(self.link.as_ref(), |link| link.above.as_ref())
    }

    /// IDs from the root worker down to the caller.
    pub fn chain(&self) -> Vec<Arc<str>> {
        let mut ids: Vec<Arc<str>> = self.links().map(|link| Arc::clone(&link.worker.id)).collect();
        ids.reverse();
        ids
    }

    /// How deep a worker called from here would stand; the root worker is 0.
    pub fn depth(&self) -> u32 {
        self.link.as_ref().map_or(0, |link| link.depth + 1)
    }

    /// The tightest `limits.max_depth` above, as an absolute depth.
    pub fn depth_limit(&self) -> Option<u32> {
        self.links().filter_map(|link| link.worker.limits.max_depth.map(|max| link.depth + max)).min()
    }

    /// `tool_rules` of the worker that calls.
    pub fn rules(&self) -> &[RuleLine] {
        self.link.as_ref().map_or(&[], |link| &link.worker.rules)
    }

    /// `tool_rules` of the workers above it, innermost first.
    pub fn rules_above(&self) -> Vec<Arc<[RuleLine]>> {
        self.links().skip(1).map(|link| Arc::clone(&link.worker.rules)).collect()
    }

    /// Whether the caller is a library's or a generated one: the worker, or the code that calls on its behalf.
    pub fn is_foreign(&self) -> bool {
        let tool = self.tool.as_ref().map(|tool| &tool.source);
        let sources = self.worker().map(|worker| &worker.source).into_iter().chain(tool);
        sources
            .into_iter()
            .any(|source| matches!(source, FunctionSource::Library(_) | FunctionSource::Generated))
    }

    /// What the worker that calls may call: code that it calls may call that too, on its behalf.
    pub fn functions(&self) -> &[Function] {
        self.link.as_ref().and_then(|link| link.functions.get()).map_or(&[], |functions| functions)
    }

    /// Says what the worker may call; once.
    pub(crate) fn offer(&self, functions: &[Function]) {
        if let Some(link) = &self.link {
            let _ = link.functions.set(functions.into());
        }
    }

    /// The `timeout` of the caller's rules for such a call.
    pub fn timeout_of(&self, names: &[&str], subjects: &[Subject]) -> Option<Duration> {
        self.worker()?
            .overrides
            .iter()
            .find(|o| o.pattern.names_one_of(names) && o.pattern.covers(subjects))?
            .timeout
    }

    /// Working time left to the innermost of the chain's deadlines, if there are any.
    pub fn remaining(&self, now_ms: u64) -> Option<Duration> {
        self.links().filter_map(|link| Some(link.deadline.as_ref()?.remaining(now_ms))).min()
    }

    /// Takes a wait that has just ended out of every deadline's working time.
    pub fn waited(&self, time: Duration, now_ms: u64) {
        let start = now_ms.saturating_sub(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        for deadline in self.links().filter_map(|link| link.deadline.as_ref()) {
            deadline.waited(start, now_ms);
        }
    }

    /// Reserves the worst case of a request: `wanted` output tokens, or a bound where none is stated, or all that is
    /// left. `Err` names the worker whose budget is used up. Without any budget nothing is reserved and the request
    /// stays as it is.
    pub fn reserve(&self, wanted: Option<u32>) -> Result<Option<(Reservation, u32)>, Arc<WorkerDefinition>> {
        let mut left: Option<(u64, &Arc<Link>)> = None;
        for link in self.links() {
            let Some(max) = link.budget.max_tokens else { continue };
            let spent = link.budget.spent.lock().unwrap_or_else(PoisonError::into_inner);
            let here = max.saturating_sub(spent.used.saturating_add(spent.reserved));
            if left.is_none_or(|(least, _)| here < least) {
                left = Some((here, link));
            }
        }
        let (Some((left, tightest)), Some(own)) = (left, &self.link) else { return Ok(None) };
        if left == 0 {
            return Err(Arc::clone(&tightest.worker));
        }
        let tokens = left.min(u64::from(wanted.unwrap_or(UNSTATED)));
        for link in self.links() {
            link.budget.spent.lock().unwrap_or_else(PoisonError::into_inner).reserved += tokens;
        }
        let capped = u32::try_from(tokens).unwrap_or(u32::MAX);
        Ok(Some((Reservation { link: Arc::clone(own), tokens }, capped)))
    }
}

impl Reservation {
    /// Replaces the reservation by what the request used; what a provider doesn't tell counts as all of it.
    pub fn settle(self, usage: Option<Usage>) {
        let used = match usage {
            None => 0,
            Some(usage) if usage == Usage::default() => self.tokens,
            Some(usage) => usage.total(),
        };
        let mut link = Some(&self.link);
        while let Some(here) = link {
            let mut spent = here.budget.spent.lock().unwrap_or_else(PoisonError::into_inner);
            spent.reserved = spent.reserved.saturating_sub(self.tokens);
            spent.used = spent.used.saturating_add(used);
            link = here.above.as_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_people_counts_for_no_deadline_and_once() {
        let deadline = Deadline::new(Duration::from_secs(10), 1_000);
        assert_eq!(deadline.remaining(3_000), Duration::from_secs(8));
        // Two questions at once, an hour long: the time is left out once.
        deadline.waited(3_000, 3_603_000);
        deadline.waited(3_500, 3_603_000);
        assert_eq!(deadline.remaining(3_604_000), Duration::from_secs(7));
        assert_eq!(deadline.remaining(9_999_000), Duration::ZERO);
    }
}
