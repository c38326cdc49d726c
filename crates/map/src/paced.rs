//! Models that send their requests at their provider's pace.

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
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};
use tokio::sync::Notify;

/// Providers that no limit is known of, and that nobody is kept waiting by.
const UNPACED: [&str; 2] = ["script", "replay"];
/// Most requests at the same time to a model on this machine.
const LOCAL: usize = 4;

/// The paces of all providers.
pub(crate) struct Paces {
    ceiling: usize,
    paces: Mutex<HashMap<String, Arc<Pace>>>,
    /// The runs whose requests wait for their turn.
    waiting: Mutex<HashSet<String>>,
    /// Why no request can succeed.
    refusal: OnceLock<String>,
    /// Something has changed that lets rows begin, or has them stop.
    pub(crate) changed: Notify,
}

impl Paces {
    /// With those of these models. No provider gets more requests at the same time than `ceiling`.
    pub(crate) fn new(ceiling: usize, models: &[ModelName]) -> Self {
        let this = Self {
            ceiling,
            paces: Mutex::default(),
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

    /// The rows that may run at the same time, and whether one more may begin: rows that would only wait for their turn
    /// would use up their workers' time.
    pub(crate) fn room(&self) -> (usize, bool) {
        let paces = lock(&self.paces);
        let rooms = paces.values().map(|pace| pace.room());
        let (window, waiting) = rooms.fold((0, 0), |(a, b), (window, waiting)| (a.max(window), b + waiting));
        if paces.is_empty() { (self.ceiling, true) } else { (window.min(self.ceiling), waiting < 3) }
    }

    /// The providers that take no requests for now, with the time until which.
    pub(crate) fn paused(&self) -> Option<(Arc<str>, tokio::time::Instant)> {
        let paces = lock(&self.paces);
        let paused = paces.values().filter_map(|pace| Some((Arc::clone(pace.provider()), pace.paused()?)));
        paused.max_by_key(|(_, until)| *until)
    }

    /// The requests that were refused because there were too many.
    pub(crate) fn refusals(&self) -> u64 {
        lock(&self.paces).values().map(|pace| pace.refusals()).sum()
    }

    /// Notes why no request can succeed.
    pub(crate) fn refuse(&self, why: String) {
        // Only the first says it.
        let _ = self.refusal.set(why);
        self.changed.notify_one();
    }

    /// Why no request can succeed.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.refusal.get().map(String::as_str)
    }

    /// The runs whose requests wait for their turn.
    pub(crate) fn waiting(&self) -> Vec<String> {
        lock(&self.waiting).iter().cloned().collect()
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
        let (pace, paces) = (self.paces.of(name.provider()), Arc::clone(&self.paces));
        Ok(Arc::new(PacedModel { inner, pace, paces }))
    }

    fn terms(&self, name: &ModelName) -> Terms {
        self.inner.terms(name)
    }
}

struct PacedModel {
    inner: Arc<dyn Model>,
    pace: Arc<Pace>,
    paces: Arc<Paces>,
}

/// A run among those that wait.
pub(crate) struct Waits<'a>(&'a Paces, &'a str);

impl<'a> Waits<'a> {
    pub(crate) fn new(paces: &'a Paces, run: &'a str) -> Self {
        lock(&paces.waiting).insert(run.to_owned());
        Self(paces, run)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        lock(&self.0.waiting).remove(self.1);
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

    /// A request that is refused because there are too many was not worked on. It waits and is sent again, and is no attempt
    /// of its row.
    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        deltas: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            loop {
                let waits = Waits::new(&self.paces, request.run);
                let permit = self.pace.permit().await;
                drop(waits);
                let answer = self.inner.respond(request, deltas).await;
                match &answer {
                    Err(error) if error.kind == ModelErrorKind::RateLimited => {
                        self.pace.refused(&permit, error.retry_after());
                        self.paces.changed.notify_one();
                        drop(permit);
                        continue;
                    }
                    Err(error) if matches!(error.kind, ModelErrorKind::Auth | ModelErrorKind::NotFound) => {
                        self.paces.refuse(error.message.clone());
                    }
                    Err(_) => {}
                    Ok(_) => self.pace.answered(),
                }
                drop(permit);
                self.paces.changed.notify_one();
                return answer;
            }
        })
    }

    fn forget(&self, run: &str, conversation: &CallPath) {
        self.inner.forget(run, conversation);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
