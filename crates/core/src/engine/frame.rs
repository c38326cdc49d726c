//! Frames pass authority, the chain of callers and budgets down the call tree.

use super::Principal;
use crate::{
    account::Account,
    authority::{Authority, Refusal},
    budget::Budget,
    call_path::CallPath,
    call_spec::{FrameSpec, WorkerCall},
    definition::{CallOverride, WorkerDefinition, WorkerMode},
    driver::Driver,
    function::Function,
    gate::{RuleLine, SessionRules, Subject, ToolSets},
    ledger,
    listing::Listings,
    origin::{Origin, Origins, Trail},
    shared::Results,
    source::{FunctionId, FunctionSource},
};
use serde_json::Value;
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// The place in the tree from which calls are made.
///
/// A frame changes only once after its worker has been entered: when the worker's functions are known. The driver owns
/// the state that calls of one run share ([`Driver::shared`]). A frame can therefore be serialised ([`Frame::spec`])
/// and made again in another process.
#[derive(Clone)]
pub struct Frame {
    authority: Arc<Authority>,
    link: Option<Arc<Link>>,
    /// The tool whose code calls on behalf of the innermost worker, if code calls.
    on_behalf: Option<Arc<FunctionId>>,
    /// The budget account for calls from here, if anything limits them.
    account: Option<Arc<Account>>,
    /// The contents that led here.
    trail: Trail,
    /// The operator's rules from the conversations that led here.
    session: SessionRules,
    start: Arc<Start>,
}

/// The data about the start of a run that all its calls share.
#[derive(Debug, Default)]
struct Start {
    /// The input of the entry.
    input: Arc<Value>,
    /// The origins of that input.
    origins: Origins,
    /// The origin of the user's words during the run.
    user: Origin,
    /// The sets that tools returned before the first request.
    sets: OnceLock<ToolSets>,
}

/// A worker in the chain of callers.
pub struct Link {
    worker: Arc<WorkerDefinition>,
    /// The call in which the worker runs.
    path: CallPath,
    above: Option<Arc<Link>>,
    depth: u32,
    /// The functions that the worker may call, once they are known.
    functions: OnceLock<Arc<[Function]>>,
    /// The listings of its tools by external servers, once they are known.
    listings: OnceLock<Listings>,
}

impl Frame {
    /// The frame at the start of a run: the operator calls with the program's authority.
    pub fn operator(authority: Arc<Authority>) -> Self {
        Self {
            authority,
            link: None,
            on_behalf: None,
            account: None,
            trail: Trail::default(),
            session: SessionRules::default(),
            start: Arc::default(),
        }
    }

    /// Sets the input of the entry and its origins, at the start of a run. The user's words during the run have the
    /// origin `user`.
    #[must_use]
    pub fn with_input(self, input: &Arc<Value>, origins: Origins, user: Origin) -> Self {
        let start = Start { input: Arc::clone(input), origins, user, sets: OnceLock::new() };
        Self { start: Arc::new(start), ..self }
    }

    /// The origins of the entry's input.
    pub(crate) fn input_origins(&self) -> &Origins {
        &self.start.origins
    }

    /// The origin of the user's words during the run.
    pub(crate) fn user(&self) -> Origin {
        self.start.user
    }

    /// The input of the run's entry.
    pub fn run_input(&self) -> &Value {
        &self.start.input
    }

    /// The sets of rules that tools have returned at the start of the run.
    pub fn sets(&self) -> &ToolSets {
        static NONE: ToolSets = ToolSets::none();
        self.start.sets.get().unwrap_or(&NONE)
    }

    /// Sets the sets for all frames of the run. Called once, before the first request.
    pub(crate) fn keep_sets(&self, sets: ToolSets) {
        let _ = self.start.sets.set(sets);
    }

    /// Sets the budget of the whole run.
    #[must_use]
    pub fn within(self, account: Option<Arc<Account>>) -> Self {
        Self { account, ..self }
    }

    /// The frame after a conversation, or code, has received the contents of that trail.
    #[must_use]
    pub fn after(&self, trail: Trail) -> Self {
        Self { trail, ..self.clone() }
    }

    /// Sets the operator's rules.
    #[must_use]
    pub(crate) fn ruled(&self, session: SessionRules) -> Self {
        Self { session, ..self.clone() }
    }

    /// The rules that the operator has made in the conversations that led here.
    pub fn session_rules(&self) -> &SessionRules {
        &self.session
    }

    /// The contents that led here.
    pub fn trail(&self) -> &Trail {
        &self.trail
    }

    /// The frame of a worker that this frame calls; `path` is the place of that call, `budget` the budget of the call.
    pub async fn enter(
        &self,
        worker: &Arc<WorkerDefinition>,
        authority: Authority,
        path: &CallPath,
        budget: Budget,
        driver: &dyn Driver,
    ) -> Self {
        let above = self.account.as_ref();
        let account = ledger::open_worker(&worker.id, budget, above, path, driver).await;
        self.below(worker, path, Arc::new(authority), account)
    }

    /// The frame inside that worker, with the authority of this frame. The worker makes no call of a run.
    pub(crate) fn of(&self, worker: &Arc<WorkerDefinition>) -> Self {
        self.below(worker, &CallPath::root(), Arc::clone(&self.authority), self.account.clone())
    }

    /// Replaces the authority by the one that a worker has by itself when it is called from here.
    ///
    /// # Errors
    /// The worker would be refused.
    pub(crate) fn seeing_as(&self, worker: &WorkerDefinition) -> Result<Self, Refusal> {
        let authority = worker.own_authority(&self.authority)?;
        Ok(Self { authority: Arc::new(authority), ..self.clone() })
    }

    /// The frame for one answer of its worker's conversation with the user. The answer begins with that turn.
    pub(crate) async fn for_answer(&self, path: &CallPath, turn: u32, driver: &dyn Driver) -> Self {
        let Some(worker) = self.worker() else { return self.clone() };
        let (budget, above) = (worker.limits.of_answer(), self.account.as_ref());
        let account = ledger::open_answer(&worker.id, budget, above, path, turn, driver).await;
        self.clone().within(account)
    }

    /// The frame for a call that the operator makes in the middle of a conversation which is called from here: with
    /// this authority and budget, and without a calling worker.
    pub(crate) fn of_operator(&self) -> Self {
        Self { link: None, on_behalf: None, trail: Trail::default(), ..self.clone() }
    }

    /// The frame for a call whose time its caller limits.
    pub(super) async fn limited(
        &self,
        function: &Arc<str>,
        timeout: Duration,
        path: &CallPath,
        driver: &dyn Driver,
    ) -> Self {
        let account = ledger::open_call(function, timeout, self.account.as_ref(), path, driver).await;
        self.clone().within(account)
    }

    fn below(
        &self,
        worker: &Arc<WorkerDefinition>,
        path: &CallPath,
        authority: Arc<Authority>,
        account: Option<Arc<Account>>,
    ) -> Self {
        let link = Link {
            worker: Arc::clone(worker),
            path: path.clone(),
            above: self.link.clone(),
            depth: self.depth(),
            functions: OnceLock::new(),
            listings: OnceLock::new(),
        };
        Self { account, authority, link: Some(Arc::new(link)), on_behalf: None, ..self.clone() }
    }

    /// The frame as data.
    pub fn spec(&self) -> FrameSpec {
        let mut workers: Vec<WorkerCall> = self.links().map(|link| link.call()).collect();
        workers.reverse();
        FrameSpec {
            authority: Authority::clone(&self.authority),
            workers,
            on_behalf: self.on_behalf.as_deref().cloned(),
            account: self.account.clone(),
            trail: self.trail.clone(),
            session: self.session.clone(),
            run_input: Arc::clone(&self.start.input),
            input_origins: self.start.origins.clone(),
            user: self.start.user,
            sets: self.sets().clone(),
            listings: self.listings().clone(),
        }
    }

    /// Makes a frame from its data. `workers` are the definitions of its workers in their order. The functions of the
    /// calling worker have to be offered afterwards.
    pub(crate) fn from_spec(spec: FrameSpec, workers: &[Arc<WorkerDefinition>]) -> Self {
        let FrameSpec {
            authority,
            workers: calls,
            on_behalf,
            account,
            trail,
            session,
            run_input,
            input_origins,
            user,
            sets,
            listings,
        } = spec;
        let authority = Arc::new(authority);
        let root = Self::operator(Arc::clone(&authority)).with_input(&run_input, input_origins, user);
        root.keep_sets(sets);
        let frame = workers.iter().zip(&calls).fold(root, |above, (worker, WorkerCall { path, .. })| {
            above.below(worker, path, Arc::clone(&authority), account.clone())
        });
        frame.keep_listings(listings);
        Self { on_behalf: on_behalf.map(Arc::new), account, trail, session, ..frame }
    }

    /// The listings of the calling worker's tools by external servers.
    pub fn listings(&self) -> &Listings {
        static NONE: Listings = Listings::new();
        self.link.as_ref().and_then(|link| link.listings.get()).unwrap_or(&NONE)
    }

    /// Sets the listings for the calling worker. Called once, before its functions are made.
    pub(crate) fn keep_listings(&self, listings: Listings) {
        if let Some(link) = &self.link {
            let _ = link.listings.set(listings);
        }
    }

    /// The frame for calls that a tool makes on behalf of the worker.
    #[must_use]
    pub fn on_behalf(&self, tool: FunctionId) -> Self {
        Self { on_behalf: Some(Arc::new(tool)), ..self.clone() }
    }

    /// Returns true if one of the workers in the chain has a conversation with the user; `chat` is true if the entry
    /// has one.
    pub(super) fn is_in_conversation(&self, chat: bool) -> bool {
        let talks = |link: &Arc<Link>| link.worker.interactive && link.worker.mode == WorkerMode::Chat;
        chat || self.links().any(talks)
    }

    /// The authority of calls from here, shared.
    pub(crate) fn shared_authority(&self) -> &Arc<Authority> {
        &self.authority
    }

    /// The authority of calls from here.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The call of the calling worker, if a worker calls.
    pub fn path(&self) -> Option<&CallPath> {
        self.link.as_ref().map(|link| &link.path)
    }

    /// Long results of this worker's conversation.
    pub fn results<'a>(&'a self, driver: &'a dyn Driver) -> Results<'a> {
        self.path().map_or_else(Results::default, |path| Results::new(driver.shared(), path).of(&self.trail))
    }

    /// The principal of calls from here.
    pub fn principal(&self) -> Principal {
        match (&self.link, &self.on_behalf) {
            (None, _) => Principal::Operator,
            (Some(link), None) => Principal::Worker(Arc::clone(&link.worker.id)),
            (Some(link), Some(tool)) => {
                Principal::Tool { tool: Arc::clone(&tool.name), worker: Arc::clone(&link.worker.id) }
            }
        }
    }

    /// The worker that calls, if a worker calls.
    pub fn worker(&self) -> Option<&Arc<WorkerDefinition>> {
        self.link.as_ref().map(|link| &link.worker)
    }

    /// The workers from the caller up to the root.
    pub(super) fn workers(&self) -> impl Iterator<Item = &Arc<WorkerDefinition>> {
        self.links().map(|link| &link.worker)
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

    /// The tightest `limits.max_depth` in the chain, as an absolute depth.
    pub fn depth_limit(&self) -> Option<u32> {
        self.links().filter_map(|link| link.worker.limits.max_depth.map(|max| link.depth + max)).min()
    }

    /// `tool_rules` of the calling worker.
    pub fn rules(&self) -> &[RuleLine] {
        self.link.as_ref().map_or(&[], |link| &link.worker.rules)
    }

    /// `tool_rules` of the workers further up, innermost first.
    pub fn rules_above(&self) -> Vec<Arc<[RuleLine]>> {
        self.links().skip(1).map(|link| Arc::clone(&link.worker.rules)).collect()
    }

    /// Returns true if the caller belongs to a library or is generated: the worker, or the code that calls on its
    /// behalf.
    pub fn is_foreign(&self) -> bool {
        let tool = self.on_behalf.as_ref().map(|tool| &tool.source);
        let sources = self.worker().map(|worker| &worker.source).into_iter().chain(tool);
        sources.into_iter().any(FunctionSource::is_foreign)
    }

    /// Returns true if code calls on behalf of a worker.
    pub fn is_code(&self) -> bool {
        self.on_behalf.is_some()
    }

    /// The functions that the calling worker may call. Code that it calls may also call them, on its behalf.
    pub fn functions(&self) -> &[Function] {
        self.link.as_ref().and_then(|link| link.functions.get()).map_or(&[], |functions| functions)
    }

    /// The function with that identity among them.
    pub fn function(&self, id: &FunctionId) -> Option<&Function> {
        self.functions().iter().find(|f| f.meta.name == id.name && f.meta.source == id.source)
    }

    /// Sets the functions that the worker may call. Called once.
    pub(crate) fn offer(&self, functions: &[Function]) {
        if let Some(link) = &self.link {
            let _ = link.functions.set(functions.into());
        }
    }

    /// The value that the caller's rules state for such a call, from the first rule that has one.
    pub fn overridden<T>(
        &self,
        names: &[&str],
        subjects: Option<&[Subject]>,
        stated: impl Fn(&CallOverride) -> Option<T>,
    ) -> Option<T> {
        let overrides = self.worker()?.overrides.iter();
        let mut fitting = overrides.filter(|o| o.pattern.names_one_of(names) && o.pattern.covers(subjects));
        fitting.find_map(stated)
    }

    /// Working time left until the earliest of the chain's deadlines, if there are any.
    pub async fn remaining(&self, driver: &dyn Driver) -> Option<Duration> {
        let account = self.account.as_ref().filter(|account| account.has_deadline())?;
        driver.shared().remaining(account, driver.now_ms()).await
    }

    /// Excludes a wait that has just ended from the working time of every deadline.
    pub async fn waited(&self, time: Duration, driver: &dyn Driver) {
        let now_ms = driver.now_ms();
        let start_ms = now_ms.saturating_sub(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        if let Some(account) = self.account.as_ref().filter(|account| account.has_deadline()) {
            driver.shared().waited(account, start_ms, now_ms).await;
        }
    }

    /// Waits for an event that is not work, such as a turn. No deadline includes the wait.
    pub async fn untimed<T>(&self, driver: &dyn Driver, wait: impl Future<Output = T>) -> T {
        let start_ms = driver.now_ms();
        let result = wait.await;
        let waited_ms = driver.now_ms().saturating_sub(start_ms);
        if waited_ms > 0 {
            self.waited(Duration::from_millis(waited_ms), driver).await;
        }
        result
    }

    /// The account that counts usage from here, if anything other than time is limited.
    pub(crate) fn ledger(&self) -> Option<&Arc<Account>> {
        self.account.as_ref().filter(|account| account.counts())
    }
}

impl Link {
    fn call(&self) -> WorkerCall {
        let Self { worker, path, .. } = self;
        let worker = FunctionId { source: worker.source.clone(), name: Arc::clone(&worker.id) };
        WorkerCall { worker, path: path.clone() }
    }
}
