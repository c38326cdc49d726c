//! Frames carry authority, the chain of callers, deadlines and budgets down the call tree.

use super::Principal;
use crate::{
    authority::Authority,
    call_path::CallPath,
    definition::WorkerDefinition,
    driver::Driver,
    function::{Function, FunctionMeta},
    gate::{RuleLine, Subject},
    ledger::Account,
    results::Results,
    source::FunctionSource,
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
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
    /// The budget account for calls from here, if anything limits them.
    account: Option<Arc<Account>>,
}

/// One worker in the chain of callers.
pub struct Link {
    worker: Arc<WorkerDefinition>,
    above: Option<Arc<Link>>,
    depth: u32,
    /// The functions that it may call, once they are known.
    functions: OnceLock<Arc<[Function]>>,
    /// Workers that this call of it has generated.
    generated: Mutex<BTreeMap<Arc<str>, Arc<WorkerDefinition>>>,
}

impl Frame {
    /// Where a run starts: the operator calls with the program's authority.
    pub fn operator(authority: Arc<Authority>) -> Self {
        Self { authority, link: None, results: Arc::default(), tool: None, account: None }
    }

    /// This frame with the budget of the whole run.
    #[must_use]
    pub fn within(self, account: Option<Arc<Account>>) -> Self {
        Self { account, ..self }
    }

    /// The frame of a worker that this frame calls; `path` is the place of that call.
    #[must_use]
    pub fn enter(
        &self,
        worker: &Arc<WorkerDefinition>,
        authority: Authority,
        path: &CallPath,
        driver: &dyn Driver,
    ) -> Self {
        let (budget, above) = (worker.limits.budget(), self.account.as_ref());
        Self {
            account: Account::of_worker(&worker.id, budget, above, path, driver),
            authority: Arc::new(authority),
            link: Some(Arc::new(Link {
                worker: Arc::clone(worker),
                above: self.link.clone(),
                depth: self.depth(),
                functions: OnceLock::new(),
                generated: Mutex::default(),
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

    /// The authority of calls from here.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Long results of this worker's conversation.
    pub fn results(&self) -> &Results {
        &self.results
    }

    /// The principal of calls from here.
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

    /// The depth of a worker called from here. The root worker has depth 0.
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
        sources.into_iter().any(FunctionSource::is_foreign)
    }

    /// The functions that the calling worker may call. Code that it calls may call them too, on its behalf.
    pub fn functions(&self) -> &[Function] {
        self.link.as_ref().and_then(|link| link.functions.get()).map_or(&[], |functions| functions)
    }

    /// Sets the functions that the worker may call. Called once.
    pub(crate) fn offer(&self, functions: &[Function]) {
        if let Some(link) = &self.link {
            let _ = link.functions.set(functions.into());
        }
    }

    /// A worker that the calling worker has generated in this call. No other caller can call it.
    pub(crate) fn generated(&self, name: &str) -> Option<Arc<WorkerDefinition>> {
        self.lock_generated()?.get(name).cloned()
    }

    /// The names of the generated workers.
    pub(crate) fn generated_names(&self) -> Vec<String> {
        self.lock_generated().map_or_else(Vec::new, |made| made.keys().map(ToString::to_string).collect())
    }

    /// Makes a worker known to its creator.
    pub(crate) fn generate(&self, worker: Arc<WorkerDefinition>) {
        if let Some(mut made) = self.lock_generated() {
            made.insert(Arc::clone(&worker.id), worker);
        }
    }

    fn lock_generated(&self) -> Option<MutexGuard<'_, BTreeMap<Arc<str>, Arc<WorkerDefinition>>>> {
        let made = &self.link.as_ref()?.generated;
        Some(made.lock().unwrap_or_else(PoisonError::into_inner))
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
        self.account.as_ref()?.remaining(now_ms)
    }

    /// Excludes a wait that has just ended from the working time of every deadline.
    pub fn waited(&self, time: Duration, now_ms: u64) {
        let start = now_ms.saturating_sub(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        if let Some(account) = &self.account {
            account.waited(start, now_ms);
        }
    }

    /// The account that counts usage from here, if anything but time is limited.
    pub(crate) fn ledger(&self) -> Option<&Arc<Account>> {
        self.account.as_ref().filter(|account| account.counts())
    }
}
