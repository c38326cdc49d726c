//! Models that send their requests at the pace of their provider.

use crate::pace::Pace;
use llm_do_core::{
    call_path::CallPath,
    model::{
        Capabilities, DeltaSink, Model, ModelError, ModelErrorKind, ModelName, ModelRequest, ModelResponse,
        ModelSettings, Models, Terms,
    },
    send::BoxFuture,
    server_tool::ServerTool,
};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    future::pending,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Instant,
};
use tokio::sync::Notify;

/// Providers without a rate limit. Their requests are never delayed.
const UNPACED: [&str; 2] = ["script", "replay"];
/// The largest number of requests at the same time to a model on this machine.
const LOCAL: usize = 4;
/// The number of refusals since the last answer from which on no refusal concerns a single row.
const REFUSALS: u32 = 10;

/// The paces of all providers.
pub(crate) struct Paces {
    ceiling: usize,
    paces: Mutex<HashMap<String, Arc<Pace>>>,
    standings: Mutex<HashMap<String, Arc<Standing>>>,
    /// The runs with requests that wait for their turn or for a verdict, and the number of these requests.
    waiting: Mutex<HashMap<String, usize>>,
    /// The reason why no request can succeed.
    refusal: OnceLock<String>,
    /// Notified when rows may begin, or when the rows must stop.
    pub(crate) changed: Notify,
}

impl Paces {
    /// Creates the paces of the providers of these models. No provider gets more than `ceiling` requests at the same
    /// time.
    pub(crate) fn new(ceiling: usize, models: &[ModelName]) -> Self {
        let this = Self {
            ceiling,
            paces: Mutex::default(),
            standings: Mutex::default(),
            waiting: Mutex::default(),
            refusal: OnceLock::new(),
            changed: Notify::new(),
        };
        models
            .iter()
            .map(ModelName::provider)
            .filter(|name| !UNPACED.contains(name))
            .for_each(|name| drop(this.of(name)));
        this
    }

    fn of(&self, provider: &str) -> Arc<Pace> {
        let ceiling = if provider == "local" { self.ceiling.min(LOCAL) } else { self.ceiling };
        let new = || Arc::new(Pace::new(provider.into(), ceiling));
        Arc::clone(lock(&self.paces).entry(provider.to_owned()).or_insert_with(new))
    }

    /// Returns the number of rows that may run at the same time, and whether one more may begin: rows that only waited
    /// for their turn would use up their workers' time.
    pub(crate) fn room(&self) -> (usize, bool) {
        let paces = lock(&self.paces);
        let rooms = paces.values().map(|pace| pace.room());
        let (window, waiting) = rooms.fold((0, 0), |(a, b), (window, waiting)| (a.max(window), b + waiting));
        if paces.is_empty() {
            return (self.ceiling, true);
        }
        // If nothing but refusals has come, more of them are of no use.
        let only_refused = |known: &RequestCounts| !known.held.is_empty() && !known.has_answered_others();
        let next =
            waiting < 3 && !self.standings().iter().any(|standing| only_refused(&lock(&standing.known)));
        (window.min(self.ceiling), next)
    }

    fn standings(&self) -> Vec<Arc<Standing>> {
        lock(&self.standings).values().map(Arc::clone).collect()
    }

    /// Returns the number of runs with a refused request that waits for its verdict.
    pub(crate) fn held(&self) -> usize {
        let mut runs = HashSet::new();
        self.standings().iter().for_each(|standing| runs.extend(lock(&standing.known).held.keys().cloned()));
        runs.len()
    }

    /// Returns true if exactly that many runs exist and all of them only wait for a verdict.
    pub(crate) fn only_held(&self, running: usize) -> bool {
        let is_held = |known: &RequestCounts| known.held.values().sum::<usize>() == known.open;
        running > 0
            && self.held() == running
            && self.standings().iter().all(|standing| is_held(&lock(&standing.known)))
    }

    /// Decides about refused requests without waiting for further answers.
    pub(crate) fn settle(&self) {
        self.standings().iter().for_each(|standing| standing.settle());
    }

    fn standing(&self, model: &ModelName) -> Arc<Standing> {
        Arc::clone(lock(&self.standings).entry(model.as_str().to_owned()).or_default())
    }

    /// Returns the provider with the longest current pause, and the end of the pause.
    pub(crate) fn paused(&self) -> Option<(Arc<str>, tokio::time::Instant)> {
        let paces = lock(&self.paces);
        let paused = paces.values().filter_map(|pace| Some((Arc::clone(pace.provider()), pace.paused()?)));
        paused.max_by_key(|(_, until)| *until)
    }

    /// Returns the number of requests that were refused because there were too many.
    pub(crate) fn refusals(&self) -> u64 {
        lock(&self.paces).values().map(|pace| pace.refusals()).sum()
    }

    /// Records the reason why no request can succeed.
    pub(crate) fn refuse(&self, why: String) {
        // Only the first says it.
        let _ = self.refusal.set(why);
        self.changed.notify_one();
    }

    /// Returns the reason why no request can succeed.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refusal.get().map(String::as_str)
    }

    /// Returns the runs with requests that wait for their turn or for a verdict.
    pub(crate) fn waiting(&self) -> Vec<String> {
        lock(&self.waiting).keys().cloned().collect()
    }
}

/// Decides if a refusal concerns every request to a model with its key, or a single row.
///
/// A refused request is held until this is decided. If a later request of another row is answered, the refusal concerns
/// the held row alone. If all running rows are held, the map decides.
#[derive(Default)]
struct Standing {
    known: Mutex<RequestCounts>,
    /// Notified when [`RequestCounts`] has changed.
    changed: Notify,
}

#[derive(Default)]
struct RequestCounts {
    /// The runs that were answered last, the newest first.
    answered: VecDeque<String>,
    /// The run and the time of sending of the latest request that was answered.
    latest: Option<(String, Instant)>,
    /// The number of requests that have not ended, including held ones.
    open: usize,
    /// Runs with held requests, and the number of these.
    held: HashMap<String, usize>,
    /// The number of refusals since the last answer.
    refused: u32,
    /// The number of times that held requests were settled, and the last verdict.
    settled: (u64, Verdict),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Verdict {
    /// The refusal concerns only this request.
    One,
    /// No request can succeed.
    #[default]
    All,
}

impl RequestCounts {
    /// Returns true if a run without a held request was answered.
    fn has_answered_others(&self) -> bool {
        self.answered.iter().any(|run| !self.held.contains_key(run))
    }

    /// Returns the verdict on a refusal of that run at that time, if there is one. `settled` is the number of times
    /// that held requests had been settled by then.
    fn verdict(&self, run: &str, refused: Instant, settled: u64) -> Option<Verdict> {
        match &self.latest {
            Some((other, sent)) if other != run && *sent > refused => Some(Verdict::One),
            _ if self.refused >= REFUSALS => Some(Verdict::All),
            _ => (self.settled.0 > settled).then_some(self.settled.1),
        }
    }
}

impl Standing {
    fn change(&self, change: impl FnOnce(&mut RequestCounts)) {
        change(&mut lock(&self.known));
        self.changed.notify_waiters();
    }

    fn answered(&self, run: &str, sent: Instant) {
        self.change(|known| {
            known.refused = 0;
            known.answered.retain(|known| known != run);
            known.answered.push_front(run.to_owned());
            // One more than can be held.
            known.answered.truncate(REFUSALS as usize + 1);
            if known.latest.as_ref().is_none_or(|(_, latest)| sent > *latest) {
                known.latest = Some((run.to_owned(), sent));
            }
        });
    }

    /// Decides if a refusal concerns one request or all, and waits until this is known.
    async fn judge(&self, run: &str, paces: &Paces) -> Verdict {
        let (refused, settled) = (Instant::now(), lock(&self.known).settled.0);
        let _held = Held::new(self, run);
        paces.changed.notify_one();
        loop {
            let changed = self.changed.notified();
            let verdict = lock(&self.known).verdict(run, refused, settled);
            match verdict {
                Some(verdict) => return verdict,
                None => changed.await,
            }
        }
    }

    /// Decides about held requests without further answers: if another row was answered and had no refusal since, each
    /// refusal concerns only its row.
    fn settle(&self) {
        self.change(|known| {
            let verdict = if known.has_answered_others() { Verdict::One } else { Verdict::All };
            known.settled = (known.settled.0 + 1, verdict);
        });
    }
}

/// A request that has not ended.
struct InFlight<'a>(&'a Standing);

impl<'a> InFlight<'a> {
    fn new(standing: &'a Standing) -> Self {
        standing.change(|known| known.open += 1);
        Self(standing)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.change(|known| known.open -= 1);
    }
}

/// A refused request that waits for its verdict.
struct Held<'a>(&'a Standing, &'a str);

impl<'a> Held<'a> {
    fn new(standing: &'a Standing, run: &'a str) -> Self {
        standing.change(|known| {
            known.refused += 1;
            *known.held.entry(run.to_owned()).or_default() += 1;
        });
        Self(standing, run)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.change(|known| leave(&mut known.held, self.1));
    }
}

/// Decreases the number of requests of that run by one.
fn leave(requests: &mut HashMap<String, usize>, run: &str) {
    if let Some(count) = requests.get_mut(run) {
        *count -= 1;
        if *count == 0 {
            requests.remove(run);
        }
    }
}

/// Models whose requests wait for their turn.
pub(crate) struct Paced {
    pub(crate) inner: Arc<dyn Models>,
    pub(crate) paces: Arc<Paces>,
}

impl Models for Paced {
    fn open(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        let inner = self.inner.open(name)?;
        if UNPACED.contains(&name.provider()) {
            return Ok(inner);
        }
        let (pace, standing) = (self.paces.of(name.provider()), self.paces.standing(name));
        Ok(Arc::new(PacedModel { inner, pace, standing, paces: Arc::clone(&self.paces) }))
    }

    fn terms(&self, name: &ModelName) -> Terms {
        self.inner.terms(name)
    }
}

struct PacedModel {
    inner: Arc<dyn Model>,
    pace: Arc<Pace>,
    standing: Arc<Standing>,
    paces: Arc<Paces>,
}

impl PacedModel {
    /// Returns a refusal that does not concern the rate as the answer to its request. If no request can succeed, there
    /// is no answer: the map ends and cancels the run, whose records then end before this request, so that the next
    /// command continues there.
    async fn refused(&self, run: &str, error: ModelError) -> ModelError {
        let _waits = Waits::new(&self.paces, run);
        let about_key = error.kind == ModelErrorKind::Auth && error.status != Some(403);
        if about_key || self.standing.judge(run, &self.paces).await == Verdict::All {
            self.paces.refuse(error.message);
            return pending().await;
        }
        error
    }
}

/// A run that is counted among the waiting ones.
pub(crate) struct Waits<'a>(&'a Paces, &'a str);

impl<'a> Waits<'a> {
    pub(crate) fn new(paces: &'a Paces, run: &'a str) -> Self {
        *lock(&paces.waiting).entry(run.to_owned()).or_default() += 1;
        Self(paces, run)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        leave(&mut lock(&self.0.waiting), self.1);
    }
}

impl Model for PacedModel {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn refused_settings(&self, settings: &ModelSettings) -> Vec<String> {
        self.inner.refused_settings(settings)
    }

    fn refused_server_tools(&self, tools: &[ServerTool]) -> Vec<String> {
        self.inner.refused_server_tools(tools)
    }

    fn context(&self) -> Option<u64> {
        self.inner.context()
    }

    fn default_output(&self) -> Option<u32> {
        self.inner.default_output()
    }

    /// Sends a request, and sends it again after a wait if the provider refuses it because there are too many. Such a
    /// request was not worked on, and does not count as an attempt of its row.
    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        deltas: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let _open = InFlight::new(&self.standing);
            loop {
                let waits = Waits::new(&self.paces, request.run);
                let permit = self.pace.permit().await;
                drop(waits);
                let sent = Instant::now();
                let answer = self.inner.respond(request, deltas).await;
                match &answer {
                    Err(error) if error.kind == ModelErrorKind::RateLimited => {
                        self.pace.refused(&permit, error.retry_after());
                        self.paces.changed.notify_one();
                        drop(permit);
                        continue;
                    }
                    Err(_) => {}
                    Ok(_) => {
                        self.pace.answered();
                        self.standing.answered(request.run, sent);
                    }
                }
                drop(permit);
                self.paces.changed.notify_one();
                return match answer {
                    Err(error) if matches!(error.kind, ModelErrorKind::Auth | ModelErrorKind::NotFound) => {
                        Err(self.refused(request.run, error).await)
                    }
                    answer => answer,
                };
            }
        })
    }

    fn continues(&self, request: ModelRequest<'_>) -> bool {
        self.inner.continues(request)
    }

    fn answered_before(&self, request: ModelRequest<'_>) {
        self.inner.answered_before(request);
    }

    fn forget(&self, run: &str, conversation: &CallPath) {
        self.inner.forget(run, conversation);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
