//! The last phase of opening a program: a session on this machine, whose runs start here.

use crate::{
    attachments::file_places,
    located::Located,
    machinery::Machinery,
    over_time::outside::CountedModel,
    problem::{NoKey, Problem},
    resume::{Decisions, PastRun, ResumeError},
    run::Run,
    settings::{Input, RunOptions, Settings},
};
use llm_do_core::{
    authority::Authority,
    model::{Model, ModelError, ModelName, Models},
    operator::Operator,
    origin::UntrustedPlaces,
    worker::WorkerDefinition,
};
use llm_do_host::{Effects, EventSink, Host as _, ModelSource, Prepared, RunPorts};
use llm_do_program::{Start as ProgramStart, exports};
use llm_do_runs::{JournalWriter, NewRunId};
use std::{
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
};

/// An opened program with an entry and options on this machine, ready for any number of runs, one after another or side
/// by side.
///
/// A session is cheap to clone. [`Session::worker`] and [`Session::with_options`] give sessions of the same program with
/// another entry or other options; they share everything that was read and started. What a session has on every platform
/// is in [`llm_do_host::Session`].
#[derive(Clone)]
pub struct Session {
    pub(crate) session: llm_do_host::Session<Machinery>,
    /// The message among the words that named the program.
    pub(crate) message: Option<String>,
}

impl Deref for Session {
    type Target = llm_do_host::Session<Machinery>;

    fn deref(&self) -> &Self::Target {
        &self.session
    }
}

impl Session {
    /// Returns the same program with another worker as the entry, and the same options.
    ///
    /// # Errors
    /// The worker does not exist, or it asks for more than is granted.
    pub fn worker(&self, id: &str) -> Result<Self, Problem> {
        let session = self.session.worker(id)?;
        let message = self.message.clone().filter(|_| session.entry().id == self.entry().id);
        Ok(Self { session, message })
    }

    /// Returns the same program and entry with other options. Grants of this session that are not among the options
    /// don't count, except that code which may already run unconfined in this process needs that grant again.
    ///
    /// # Errors
    /// The program asks for more than these options grant, or a model can't be used.
    pub fn with_options(&self, options: RunOptions) -> Result<Self, Problem> {
        Ok(Self { session: self.session.with_options(options)?, message: self.message.clone() })
    }

    /// Returns the same session with its models wrapped by `over`, for a host that decides when requests are sent.
    #[must_use]
    pub fn over_models(&self, over: impl FnOnce(Arc<dyn Models>) -> Arc<dyn Models>) -> Self {
        Self { session: self.session.over_models(over), message: self.message.clone() }
    }

    /// Goes through all phases: finds the program, loads it, checks its grants and opens its models.
    ///
    /// # Errors
    /// All problems that can be known before a run starts.
    pub fn open(settings: Settings) -> Result<Self, Problem> {
        let options = settings.run.clone();
        let loaded = Located::find(settings)?.load(Effects::Allowed, &options)?;
        loaded.grant(options, ModelSource::Providers)?.open()
    }

    /// Opens the workers of a program that others may call, each as the entry of a session: those that its manifest
    /// exports. If it exports none, or the settings name a worker, opens the entry alone.
    ///
    /// # Errors
    /// The same as for [`Session::open`].
    pub fn open_exported(settings: Settings) -> Result<Vec<Self>, Problem> {
        let options = settings.run.clone();
        let mut located = Located::find(settings)?;
        let source = &mut located.target.source;
        let exports = match source.start {
            ProgramStart::Entry(None) => exports(source),
            _ => Vec::new(),
        };
        if let Some(first) = exports.first() {
            source.start = ProgramStart::Entry(Some(first.clone()));
            located.settings.request.entry = Some(first.clone());
        }
        let loaded = located.load(Effects::Allowed, &options)?;
        let first = loaded.grant(options, ModelSource::Providers)?.open()?;
        let others: Vec<Self> =
            exports.iter().skip(1).map(|id| first.worker(id)).collect::<Result<_, _>>()?;
        Ok([vec![first], others].concat())
    }

    /// Returns true if a worker gets the tools of the session's client ([`crate::Settings::client_servers`]).
    pub fn lists_client(&self, worker: &WorkerDefinition) -> bool {
        self.host().mcp.lists_client(worker)
    }

    /// Returns the places to which earlier runs of the program wrote untrusted words.
    ///
    /// # Errors
    /// The list can't be read, or was not written by this user's llm-do.
    pub fn untrusted_places(&self) -> Result<Arc<dyn UntrustedPlaces>, Problem> {
        self.host().untrusted_places()
    }

    /// Returns true if others wrote a file of this machine: it is in an untrusted mount of the program, or untrusted
    /// words were written to it. Its contents are not the operator's words.
    ///
    /// # Errors
    /// The list of written places can't be read, or was not written by this user's llm-do.
    pub fn is_of_others(&self, file: &Path) -> Result<bool, Problem> {
        Ok(self.others()?.wrote(file))
    }

    /// Returns the places of the program that others write.
    ///
    /// # Errors
    /// The same as for [`Session::is_of_others`].
    pub fn others(&self) -> Result<Others, Problem> {
        Ok(Others { authority: self.authority(), listed: self.untrusted_places()? })
    }

    /// Returns the message among the words that named the program.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Returns the names of the providers that models can have, sorted.
    pub fn providers(&self) -> Vec<String> {
        self.host().providers.names().into_iter().map(str::to_owned).collect()
    }

    /// Returns a model of the loaded workers that is reached over the network, if there is one.
    pub fn hosted_model(&self) -> Option<ModelName> {
        let workers = self.loaded().workers().iter().filter(|worker| worker.code.is_none());
        let mut models = workers.filter_map(|worker| self.model_of(worker));
        models.find(|model| self.host().providers.is_hosted(model))
    }

    /// Opens a model that the host itself asks, outside of runs. No request is sent. Budgets over time count its requests.
    ///
    /// # Errors
    /// The provider is unknown, not granted, or can't be used.
    pub fn model(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        let inner = self.models().open(name)?;
        let terms = self.terms(name);
        match self.budgets() {
            Some(budgets) if terms.price.is_some() || !name.is_free() => {
                Ok(Arc::new(CountedModel { inner, spending: budgets.for_run(), terms }))
            }
            _ => Ok(inner),
        }
    }

    /// Returns the folder of the user's own files, which belong to no project.
    pub fn home(&self) -> &Path {
        self.host().home()
    }

    /// Returns the folder of the journals.
    pub fn runs_dir(&self) -> &Path {
        self.host().runs_dir()
    }

    /// Prepares one run: checks the input and creates the journal. Nothing is sent before [`Run::finish`] is polled.
    ///
    /// # Errors
    /// The input doesn't fit, a file can't be attached, or the journal can't be created.
    pub fn start(
        &self,
        input: &Input,
        operator: Option<Arc<dyn Operator>>,
        events: Option<Arc<dyn EventSink>>,
    ) -> Result<Run, Problem> {
        let start = self.prepare(input, true)?;
        let machinery = self.host();
        let redactor = Arc::clone(machinery.redactor());
        let key = machinery.seal_key()?;
        let journal = JournalWriter::create(machinery.runs_dir(), redactor, Some(key))?;
        self.over_journal(journal, start, input, operator, events)
    }

    /// Prepares a run as [`Session::start`] does, with the proposed ID.
    ///
    /// # Errors
    /// The same as for [`Session::start`], or a run with that ID exists.
    pub fn start_as(
        &self,
        id: &NewRunId,
        input: &Input,
        operator: Option<Arc<dyn Operator>>,
        events: Option<Arc<dyn EventSink>>,
    ) -> Result<Run, Problem> {
        let start = self.prepare(input, true)?;
        let machinery = self.host();
        let redactor = Arc::clone(machinery.redactor());
        let key = machinery.seal_key()?;
        let journal = JournalWriter::create_as(id, machinery.runs_dir(), redactor, Some(key))?;
        self.over_journal(journal, start, input, operator, events)
    }

    /// Prepares the run over a new journal.
    fn over_journal(
        &self,
        journal: JournalWriter,
        start: Prepared,
        input: &Input,
        operator: Option<Arc<dyn Operator>>,
        events: Option<Arc<dyn EventSink>>,
    ) -> Result<Run, Problem> {
        let untrusted = self.untrusted_places()?;
        let (id, date) = (Arc::clone(journal.id()), today());
        let ports = RunPorts { id, date, log: journal, operator, events, untrusted };
        let (run, driver) = self.begin(ports, start, self.start_record(input));
        Ok(Run::new(run, driver))
    }

    /// Continues a run that was suspended or interrupted. This session must be opened with [`PastRun::settings`].
    ///
    /// # Errors
    /// The program has changed, a decision is about a question that is not open, or the journal can't be written.
    pub fn resume(
        &self,
        past: PastRun,
        decisions: Decisions,
        operator: Option<Arc<dyn Operator>>,
        events: Option<Arc<dyn EventSink>>,
    ) -> Result<Run, Problem> {
        self.fits(&past)?;
        // Attachments are in the journal as soon as a conversation has begun with them.
        let start = self.prepare(&past.input(), !past.has_begun())?;
        let (date, redactor) = (Arc::clone(past.date()), Arc::clone(self.host().redactor()));
        let (journal, history) = past.reopen(&decisions, redactor)?;
        let untrusted = self.untrusted_places()?;
        let ports =
            RunPorts { id: Arc::clone(journal.id()), date, log: journal, operator, events, untrusted };
        let resumed = self.resumed(ports, start, history, decisions.0);
        let (run, driver) = resumed.map_err(ResumeError::from)?;
        Ok(Run::new(run, driver))
    }

    /// Checks that a run can continue with this program: the workers are those that it began with.
    ///
    /// # Errors
    /// A worker, or the code of its tools, has changed.
    pub fn fits(&self, past: &PastRun) -> Result<(), Problem> {
        let fits: Result<(), ResumeError> = past.fits(self.definitions());
        Ok(fits?)
    }

    /// Copies a run that waits into a new run ([`llm_do_runs::fork`]). Returns its folder.
    ///
    /// # Errors
    /// The run is not this user's, or can't be copied.
    pub fn fork(&self, past: &PastRun) -> Result<PathBuf, Problem> {
        let redactor = Arc::clone(self.host().redactor());
        Ok(past.fork(redactor)?)
    }

    /// Returns a JSON object with the user's seal ([`SealKey::seal`](llm_do_runs::SealKey::seal)).
    ///
    /// # Errors
    /// The key can't be read or made.
    pub fn seal(&self, purpose: &str, object: Vec<u8>) -> Result<Vec<u8>, NoKey> {
        Ok(self.host().seal_key()?.seal(purpose, object))
    }

    /// Returns true if [`Session::seal`] has sealed this object for this purpose.
    pub fn has_sealed(&self, purpose: &str, object: &[u8]) -> bool {
        self.host().seal_key().is_ok_and(|key| key.has_sealed(purpose, object))
    }
}

/// The places of a program that others write: its untrusted mounts, and the files that untrusted words were written to.
pub struct Others {
    authority: Authority,
    listed: Arc<dyn UntrustedPlaces>,
}

impl Others {
    /// Returns true if others wrote a file of this machine.
    pub fn wrote(&self, file: &Path) -> bool {
        file_places(file).iter().any(|place| self.authority.is_untrusted(place) || self.listed.hold(place))
    }
}

/// Returns the date in UTC, as templates see it.
pub fn today() -> Arc<str> {
    jiff::tz::Offset::UTC.to_datetime(jiff::Timestamp::now()).date().to_string().into()
}
