//! The operations of clients, whatever the transport.

mod answering;
mod cases;
mod continuing;
mod costs;
mod editing;
mod files;
mod followed;
mod inputs;
mod language;
mod maps;
mod notify;
mod owning;
mod playing;
mod quotas;
mod reading;
mod starting;
mod triggers;

use crate::{
    browser_sessions::BrowserSessions,
    costs::Costs,
    disk::Disk,
    error::{ApiError, Code},
    listing::Listing,
    live::LiveRun,
    log::LogEntry,
    metrics::Metrics,
    notices::{self, Notice, Notices, Signal},
    owner::Owner,
    program::{BadPrograms, Host, Programs, Served},
    quotas::{Limits, Quotas},
    runs::Runs,
    token::{Token, Tokens},
    uploads::Uploads,
    views::{SessionView, State},
};
use futures_util::Stream;
use llm_do::{
    BudgetState, BudgetsOverTime, Client,
    core::model::{Model, ModelName},
    runs::{RunSummary, SealKey, is_run_id, summary_of},
};
use notify::Notifiers;
use std::{
    collections::HashSet,
    num::NonZero,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, broadcast::Receiver},
    task::{JoinSet, spawn_blocking},
};
use triggers::Triggers;

pub(crate) use answering::{Answered, Continued};
pub(crate) use cases::{TestView, Tests};
pub(crate) use costs::{CostsOfRuns, Span};
pub(crate) use language::{Completion, CursorIn, DefinitionPlaces, Explained};
pub(crate) use maps::{MapView, Maps, RowStateView, Rows, RowsOf};
pub(crate) use owning::Begun;
pub(crate) use playing::{RenderPrompt, RenderedPrompt};
pub(crate) use reading::{LARGEST_PAGE, Page};
pub(crate) use triggers::{Delivered, TriggerViews};

/// A plain model, with its name.
type TitleModel = (ModelName, Arc<dyn Model>);

/// Programs as a service. It is cheap to clone; all clones share the runs.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

struct Inner {
    host: Arc<dyn Host>,
    programs: Programs,
    tokens: Tokens,
    /// The models that an answer to a chat may choose.
    chat_models: Vec<ModelName>,
    runs: Runs,
    triggers: Triggers,
    notifiers: Option<Notifiers>,
    listing: Listing,
    costs: Costs,
    notices: Arc<Notices>,
    quotas: Quotas,
    disk: Disk,
    browsers: BrowserSessions,
    uploads: Uploads,
    /// The model that answers requests for a title of a conversation.
    titles: OnceLock<TitleModel>,
    metrics: Metrics,
    grace: Duration,
    chats_expire: Option<Duration>,
    owner: Owner,
    /// Held while a run that has ended is continued: of two requests, the second finds what the first has continued.
    continuing: tokio::sync::Mutex<()>,
    /// The permits to prepare runs. More at once would be no faster, and each preparation takes a thread with its
    /// memory.
    starting: Semaphore,
    /// The tasks of the runs.
    tasks: Mutex<JoinSet<()>>,
}

impl Inner {
    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service {
    /// A service of these programs for clients with these tokens. It continues the runs that an earlier process of it has
    /// left. To be called inside a tokio runtime.
    ///
    /// # Errors
    /// Two programs have one name, a token names a program that is not among them, or a trigger or notifier has wrong
    /// settings.
    pub async fn open(
        programs: Vec<Served>,
        tokens: Tokens,
        limits: Limits,
        host: Arc<dyn Host>,
    ) -> Result<Self, BadPrograms> {
        let programs = Programs::new(programs)?;
        for (token, program) in tokens.programs() {
            if programs.get(program).is_none() {
                return Err(BadPrograms::Unknown {
                    token: Arc::clone(token.name()),
                    program: Arc::clone(program),
                });
            }
        }
        for program in tokens.quotas().programs() {
            if programs.get(program).is_none() {
                return Err(BadPrograms::UnknownOfQuota(Arc::clone(program)));
            }
        }
        let triggers = Triggers::new(&tokens, &programs, &host.home())?;
        let notifiers =
            Notifiers::new(tokens.notify(), &programs, &host.home()).map_err(BadPrograms::Notify)?;
        let owner = Owner::host(&programs);
        let service = Self::of(programs, tokens, (triggers, notifiers), limits, host, owner);
        let of = service.clone();
        // What can't be removed now is removed later.
        let _ = spawn_blocking(move || of.0.uploads.clean()).await;
        service.continue_all().await;
        service.set_triggers();
        Ok(service)
    }

    fn of(
        programs: Programs,
        tokens: Tokens,
        (triggers, notifiers): (Triggers, Option<Notifiers>),
        limits: Limits,
        host: Arc<dyn Host>,
        owner: Owner,
    ) -> Self {
        let key = SealKey::of(&host.home());
        if let Err(error) = &key {
            host.log(&format!(
                "the key that seals journals can't be used ({error}): clients lose sight of runs that have ended"
            ));
        }
        let key = key.ok();
        let quotas = Quotas::new(&tokens, &limits);
        Self(Arc::new(Inner {
            uploads: Uploads::of(&host.home(), &quotas.upload_files, &quotas.uploads),
            chat_models: host.chat_models(),
            host,
            programs,
            tokens,
            runs: Runs::new(limits.runs, limits.queue, Arc::clone(&quotas.runs), triggers.lines()),
            triggers,
            notifiers,
            listing: Listing::of(key),
            costs: Costs::default(),
            notices: Arc::default(),
            titles: OnceLock::new(),
            quotas,
            disk: Disk::default(),
            browsers: BrowserSessions::default(),
            metrics: Metrics::default(),
            grace: limits.grace,
            chats_expire: limits.chats_expire,
            owner,
            continuing: tokio::sync::Mutex::default(),
            starting: Semaphore::new(2 * thread::available_parallelism().map_or(1, NonZero::get)),
            tasks: Mutex::default(),
        }))
    }

    pub(crate) fn token(&self, text: &str) -> Option<Arc<Token>> {
        self.0.tokens.find(text)
    }

    pub(crate) fn triggers(&self) -> &Triggers {
        &self.0.triggers
    }

    pub(crate) fn notifiers(&self) -> Option<&Notifiers> {
        self.0.notifiers.as_ref()
    }

    pub(crate) fn host(&self) -> &dyn Host {
        &*self.0.host
    }

    /// Subscribes to changes of runs and questions from now on. Returns `None` if the service ends.
    pub(crate) fn signals(&self) -> Option<Receiver<Signal>> {
        self.0.notices.subscribe()
    }

    /// The run with that ID, if it is under way.
    pub(crate) fn live_run(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.0.runs.get(id)
    }

    /// The runs that are under way, oldest first.
    pub(crate) fn live_runs(&self) -> Vec<Arc<LiveRun>> {
        self.0.runs.all()
    }

    /// The run that a client's request with that key has started.
    pub(crate) fn run_of_key(&self, client: &Arc<str>, key: &str) -> Option<Arc<str>> {
        self.0.runs.of_key(client, key)
    }

    /// The newest run that a request of that client with a key has started.
    pub(crate) fn newest_keyed(&self, client: &str) -> Option<Arc<str>> {
        self.0.runs.newest_keyed(client)
    }

    /// Spawns work other than runs, which is aborted when the service ends.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks().spawn(work);
    }

    /// The sessions of pages in a browser.
    pub(crate) fn browsers(&self) -> &BrowserSessions {
        &self.0.browsers
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn log(&self, line: &str) {
        self.0.host.log(line);
    }

    pub(crate) fn log_entry(&self, entry: LogEntry) {
        self.0.host.log_entry(&entry);
    }

    /// Logs what becomes of a run. A client that owns the process hears it from the service.
    fn log_run(&self, entry: LogEntry) {
        if !matches!(self.0.owner, Owner::Client(_)) {
            self.log_entry(entry);
        }
    }

    pub(crate) fn owner(&self) -> &Owner {
        &self.0.owner
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.0.runs.is_ending()
    }

    /// The counts for Prometheus that a token may see.
    pub(crate) async fn metrics_text(&self, token: &Arc<Token>) -> Result<String, ApiError> {
        let (service, token) = (self.clone(), Arc::clone(token));
        let text = spawn_blocking(move || {
            let runs = service.0.runs.all();
            let seen = runs.iter().filter(|run| token.sees(&run.client().program, &run.client().name));
            let states: Vec<State> = seen.map(|run| run.state()).collect();
            let budgets = service.budgets_seen(&token);
            service.0.metrics.text(&token, &states, &budgets, |each| service.each_quota(&token, each))
        });
        text.await.map_err(ApiError::internal)
    }

    /// The budgets over time that a token may see: all, if it sees everything, or else its own. A file that can't be read
    /// has none; it is an error of the next run.
    fn budgets_seen(&self, token: &Token) -> Vec<BudgetState> {
        let budgets = BudgetsOverTime::read(&self.0.host.home(), std::env::home_dir().as_deref());
        let mut states = budgets.and_then(|budgets| budgets.states()).unwrap_or_default();
        states.retain(|state| token.sees_all() || state.token.as_deref() == Some(&**token.name()));
        states
    }

    /// The permissions of a token, as clients see them.
    pub(crate) fn session_view(&self, token: &Token) -> SessionView {
        SessionView {
            name: Arc::clone(token.name()),
            scopes: token.scopes().collect(),
            read: token.reads(),
            programs: token.only_programs().map(|programs| programs.cloned().collect()),
            models: self.0.chat_models.clone(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// Subscribes to notices about the runs that a client may see, from now on.
    ///
    /// # Errors
    /// Too many streams are open.
    pub(crate) fn notices(&self, token: &Arc<Token>) -> Result<impl Stream<Item = Notice> + use<>, ApiError> {
        let place = self.0.quotas.streams.take(token.name(), 1)?;
        let (service, of) = (self.clone(), Arc::clone(token));
        Ok(notices::stream(&self.0.notices, token, place, move || service.question_count(&of)))
    }

    /// Ends the service: no run starts any more, runs that wait for an answer are suspended, the others may end within the
    /// grace period, or are cancelled if the owner of the process is their client. The next process of a server continues what
    /// is left.
    pub(crate) async fn end(&self) {
        self.0.runs.end();
        let deadline = tokio::time::Instant::now() + self.0.grace;
        // A run that is suspended is at work until its journal has the end.
        let mut suspended = HashSet::new();
        loop {
            let left = self.0.runs.all();
            for run in &left {
                match (run.state(), &self.0.owner) {
                    (State::Waiting, _) => {
                        run.questions().close();
                        suspended.insert(Arc::clone(&run.id));
                    }
                    _ if suspended.contains(&run.id) => {}
                    // There is no client any more that could want its output.
                    (_, Owner::Client(_) | Owner::Tools(_)) => run.cancel(),
                    (_, Owner::Host { .. }) => {}
                }
            }
            // A run that was admitted before may be about to begin. Runs in the queue get the places of those that end: one that
            // an earlier process has suspended is so again.
            let is_over = left.is_empty() && self.0.runs.admitted() == 0;
            if is_over || tokio::time::Instant::now() >= deadline {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let text = match self.0.owner {
            Owner::Host { .. } => "cut off; the next start of the server continues it",
            Owner::Client(_) | Owner::Tools(_) => "cut off; `llm-do runs resume` continues it",
        };
        for run in self.0.runs.all() {
            self.log_entry(LogEntry {
                state: Some(State::CutOff.name()),
                text: text.into(),
                ..run.entry("run_cut_off")
            });
            // Readers would keep their connections open.
            run.over();
        }
        self.0.notices.close();
        // A run that was admitted before may have begun meanwhile.
        loop {
            let mut tasks = std::mem::take(&mut *self.0.tasks());
            if tasks.is_empty() {
                break;
            }
            tasks.shutdown().await;
        }
    }

    /// The programs that a client may use.
    fn programs_of(&self, token: &Token) -> impl Iterator<Item = &Arc<Served>> {
        self.0.programs.iter().filter(|program| token.may_use(program.name().as_str()))
    }

    /// The program with that name.
    ///
    /// # Errors
    /// There is none that the client may use.
    fn program(&self, token: &Token, name: Option<&str>) -> Result<Arc<Served>, ApiError> {
        let found = match name {
            Some(name) => self.0.programs.get(name),
            None => Some(self.0.programs.only().ok_or_else(|| {
                ApiError::new(
                    Code::BadRequest,
                    "the server has several programs: give the name of one as `program`",
                )
            })?),
        };
        let found = found.filter(|program| token.may_use(program.name().as_str()));
        found.cloned().ok_or_else(|| ApiError::new(Code::NotFound, "there is no such program"))
    }

    pub(crate) fn live(&self, token: &Token, id: &str) -> Option<Arc<LiveRun>> {
        let live = self.0.runs.get(id)?;
        token.sees(&live.client().program, &live.client().name).then_some(live)
    }

    /// A run of this service in its program's folder.
    async fn stored(&self, token: &Token, id: &str) -> Result<(Arc<Served>, RunSummary), ApiError> {
        if !is_run_id(id) {
            return Err(ApiError::no_run(id));
        }
        for program in self.programs_of(token) {
            let (of, run, service) = (Arc::clone(program), id.to_owned(), self.clone());
            let read = spawn_blocking(move || {
                // What this process writes is known to be own.
                let is_own =
                    service.0.runs.get(&run).is_some() || service.0.listing.is_own(&of.run_dir(&run));
                if is_own { summary_of(of.runs_dir(), &run).ok() } else { None }
            });
            let Some(summary) = read.await.map_err(ApiError::internal)? else { continue };
            let sees = |client: &Client| {
                *client.program == *program.name().as_str() && token.sees(&client.program, &client.name)
            };
            if self.0.owner.started_by(program.runs_dir(), &summary).is_some_and(|client| sees(&client)) {
                return Ok((Arc::clone(program), summary));
            }
        }
        Err(ApiError::no_run(id))
    }

    /// The folders of the runs that a client may see.
    fn runs_dirs(&self, token: &Token) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> =
            self.programs_of(token).map(|program| program.runs_dir().to_owned()).collect();
        folders.sort();
        folders.dedup();
        folders
    }
}

/// Carries out what may read files on its way, off the threads that answer requests.
async fn apart<T: Send + 'static>(
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    let runtime = Handle::current();
    spawn_blocking(move || runtime.block_on(work)).await.map_err(ApiError::internal)?
}
