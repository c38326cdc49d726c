//! The last phase of opening a program: a session, whose runs start here.

use crate::{
    attachments::{self, file_places},
    grant::{self, Grant},
    granted::{Granted, ModelSource},
    invocation::Started,
    kinds, limited,
    loaded::{Effects, Loaded},
    located::Located,
    missing,
    model_choice::{self, DetectedModel},
    over_time::{RunSpending, outside::CountedModel},
    problem::{NoKey, Problem},
    reach::Reach,
    resume::{Decisions, PastRun, ResumeError},
    run::{Run, counted},
    settings::{Input, InputPart, ReadPart, RunOptions, Settings},
};
use llm_do_core::{
    attachment::Attachment,
    authority::{Access, Authority, Extent, Network, Place},
    driver::{Driver, MemoryDriver},
    engine::{Engine, Explained, RunContext},
    gate::{Gate, Mode, RuleLine, Set},
    journal::{RecordKind, Runtime},
    launch::{Launch, RunRecords, RunStart},
    model::{Model, ModelError, ModelName, Models},
    operator::{Deferring, DeferringApprovals, Operator, Unattended},
    origin::{Origin, Origins, UntrustedPlaces},
    source::FunctionSource,
    toolset::{ToolsetRegistry, WithServed},
    vfs::FileSystem,
    worker::{BoundPath, Definitions, INPUT, ModelChoice, WorkerDefinition},
};
use llm_do_host::EventSink;
use llm_do_program::{
    BindError, Diagnostic, Program, Start as ProgramStart, exports,
    signature::{self, Given, InputError},
};
use llm_do_runs::{JournalWriter, LocalDriver, Machine, NewRunId};
use llm_do_sandbox::place_of;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// An opened program with an entry and options, ready for any number of runs, one after another or side by side.
///
/// A session is cheap to clone. [`Session::worker`] and [`Session::with_options`] give sessions of the same program with
/// another entry or other options; they share everything that was read and started.
#[derive(Clone)]
pub struct Session {
    pub(crate) loaded: Loaded,
    pub(crate) opened: Arc<Opened>,
}

/// State that results from the options of a session.
#[derive(Clone)]
pub(crate) struct Opened {
    options: RunOptions,
    grants: Vec<Grant>,
    source: ModelSource,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) choice: ModelChoice,
    detected: Option<DetectedModel>,
    /// The models of workers that can't be asked, each with the reason. Others are asked in their place.
    left_out: BTreeMap<ModelName, String>,
    gate: Arc<Gate>,
    spending: Option<Arc<RunSpending>>,
    denies_unattended: bool,
    started: Started,
    /// Runtimes of the tools' code, determined when a run first records them.
    runtimes: OnceLock<Vec<Runtime>>,
}

/// Input, attachments and authority with which a run starts.
pub(crate) struct Start {
    pub(crate) input: Value,
    pub(crate) origins: Origins,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) authority: Authority,
}

impl Granted {
    /// Opens the models of every worker that is loaded, and combines the rules.
    ///
    /// # Errors
    /// A model can't be used.
    pub fn open(self) -> Result<Session, Problem> {
        let Self { loaded, options, grants, choice, detected, source } = self;
        let machinery = &loaded.machinery;
        let mut left_out = BTreeMap::new();
        let models: Arc<dyn Models> = match &source {
            ModelSource::Given { models, .. } => Arc::clone(models),
            ModelSource::Providers => {
                let operators = model_choice::of_operator(&options, &machinery.environment, &machinery.user);
                let models =
                    model_choice::granted(&machinery.providers, &machinery.declared, operators, &grants);
                for worker in loaded.workers.iter().filter(|worker| worker.code.is_none()) {
                    left_out.extend(model_choice::open(worker, &choice, &*models)?);
                }
                models
            }
        };
        // The models of a host, and recorded ones, cost nothing that a budget of the user counts.
        let spending = match &source {
            ModelSource::Given { .. } => None,
            ModelSource::Providers => {
                machinery.over_time.of_run(&loaded.counted(), options.client.as_ref())?
            }
        };
        let program = &loaded.program;
        let user = &machinery.user;
        let asked = options.mode.or(user.mode).unwrap_or_default();
        let mode = program.mode().map_or(asked, |mode| asked.tighten(mode));
        let unattended = mode == Mode::Interactive && !options.can_ask;
        let mode = if unattended { options.unattended } else { mode };
        let gate = Gate {
            mode,
            operator: options.rules.clone(),
            project: program.approval().clone(),
            user: user.approval.clone(),
            sets_of_workers: program.tool_sets(),
        };
        let opened = Opened {
            started: Started::new(&loaded.request, &machinery.current_dir, &options),
            options,
            grants,
            source,
            models,
            choice,
            detected,
            left_out,
            gate: Arc::new(gate),
            spending,
            denies_unattended: unattended && mode == Mode::AutoDeny,
            runtimes: OnceLock::new(),
        };
        Ok(Session { loaded, opened: Arc::new(opened) })
    }
}

impl Session {
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

    /// Returns the same program with another worker as the entry, and the same options.
    ///
    /// # Errors
    /// The worker does not exist, or it asks for more than is granted.
    pub fn worker(&self, id: &str) -> Result<Self, Problem> {
        let Opened { options, grants, source, .. } = &*self.opened;
        self.loaded.worker(id)?.grant_beyond(options.clone(), grants, source.clone())?.open()
    }

    /// Returns the same program and entry with other options. Grants of this session that are not among the options
    /// don't count, except that code which may already run unconfined in this process needs that grant again.
    ///
    /// # Errors
    /// The program asks for more than these options grant, or a model can't be used.
    pub fn with_options(&self, options: RunOptions) -> Result<Self, Problem> {
        self.loaded.grant(options, self.opened.source.clone())?.open()
    }

    /// Returns the most that a run can do outside of its conversations.
    pub fn reach(&self) -> Reach {
        let workers = self.program().loaded();
        Reach::of(self.entry(), &workers, self.toolsets(), &self.authority())
    }

    /// Returns true if a worker gets the tools of the session's client ([`crate::Settings::client_servers`]).
    pub fn lists_client(&self, worker: &WorkerDefinition) -> bool {
        self.loaded.machinery.mcp.lists_client(worker)
    }

    /// Returns true if a worker gets the tools that the client of a run declares ([`RunOptions::client_tools`]).
    pub fn takes_client_tools(&self) -> bool {
        let mut workers = self.program().loaded().into_iter();
        workers.any(|worker| self.toolsets().has_client_tools(&worker))
    }

    /// Returns the program.
    pub fn program(&self) -> &Arc<Program> {
        &self.loaded.program
    }

    /// Returns the file system through which the workers' tools open files.
    pub fn files(&self) -> &dyn FileSystem {
        &*self.loaded.machinery.files
    }

    /// Returns the worker that runs start with.
    pub fn entry(&self) -> &Arc<WorkerDefinition> {
        self.loaded.program.entry()
    }

    /// Returns the options of the session's runs.
    pub fn options(&self) -> &RunOptions {
        &self.opened.options
    }

    /// Returns the places to which earlier runs of the program wrote untrusted words.
    ///
    /// # Errors
    /// The list can't be read, or was not written by this user's llm-do.
    pub fn untrusted_places(&self) -> Result<Arc<dyn UntrustedPlaces>, Problem> {
        Ok(self.loaded.machinery.untrusted_places()?)
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
        self.loaded.message.as_deref()
    }

    /// Warnings of the loader.
    pub fn warnings(&self) -> &[Diagnostic] {
        self.loaded.warnings()
    }

    /// Returns the names of the providers that models can have, sorted.
    pub fn providers(&self) -> Vec<String> {
        self.loaded.machinery.providers.names().into_iter().map(str::to_owned).collect()
    }

    /// Returns the rules of the session's runs, beside those of their workers.
    pub fn gate(&self) -> &Gate {
        &self.opened.gate
    }

    /// Returns the detected model, which workers get if no other is named.
    pub fn detected_model(&self) -> Option<&DetectedModel> {
        self.opened.detected.as_ref()
    }

    /// Returns the models of workers' lists that can't be asked, because a key or a grant is missing, each with the
    /// reason. The other models of the list answer.
    pub fn left_out_models(&self) -> &BTreeMap<ModelName, String> {
        &self.opened.left_out
    }

    /// Returns true if interactive runs refuse every call that needs an approval, because no operator can be asked.
    pub fn denies_unattended(&self) -> bool {
        self.opened.denies_unattended
    }

    /// Returns true if calls of the loaded workers may need an approval, as far as this is known before a run. Code can
    /// ask without that this is known.
    pub fn may_ask(&self) -> bool {
        let asks = |worker: &Arc<WorkerDefinition>| {
            !worker.server_tools.is_empty() || self.toolsets().may_ask(worker)
        };
        self.program().loaded().iter().any(asks)
    }

    /// Returns the workers that the user may call in the middle of a conversation: the exported ones, sorted by name;
    /// all of the program's own if it exports none. A worker whose definition is wrong is left out.
    pub fn callable(&self) -> Vec<Arc<WorkerDefinition>> {
        let program = self.program();
        let exports = &program.manifest().exports;
        let names: Vec<&str> = match exports.is_empty() {
            true => program.workers().iter().map(|worker| worker.id.as_str()).collect(),
            false => exports.iter().map(|(name, _)| name.as_str()).collect(),
        };
        let named = |name: &str| program.named_by(&FunctionSource::Program, name).ok();
        let mut workers: Vec<_> = names.into_iter().filter_map(named).collect();
        workers.sort_by(|a, b| a.id.cmp(&b.id));
        workers.dedup_by(|a, b| a.id == b.id);
        workers
    }

    /// Returns the model of the entry, if one is named or detected.
    pub fn model_name(&self) -> Option<ModelName> {
        self.opened.choice.of(self.entry()).ok().filter(|_| self.entry().code.is_none())
    }

    /// Returns a model of the loaded workers that is reached over the network, if there is one.
    pub fn hosted_model(&self) -> Option<ModelName> {
        let workers = self.loaded.workers.iter().filter(|worker| worker.code.is_none());
        let mut models = workers.filter_map(|worker| self.opened.choice.of(worker).ok());
        models.find(|model| self.loaded.machinery.providers.is_hosted(model))
    }

    /// Returns true if the entry's model reads files of that media type. Every model reads text.
    pub fn reads(&self, media_type: &str) -> bool {
        let name = self.opened.choice.of(self.entry()).ok();
        let model = name.and_then(|name| self.opened.models.open(&name).ok());
        media_type == "text/plain" || model.is_some_and(|model| model.capabilities().sees.reads(media_type))
    }

    /// Opens a model that the host itself asks, outside of runs. No request is sent. Budgets over time count its requests.
    ///
    /// # Errors
    /// The provider is unknown, not granted, or can't be used.
    pub fn model(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        let inner = self.opened.models.open(name)?;
        let terms = self.opened.models.terms(name);
        match &self.opened.spending {
            Some(spending) if terms.price.is_some() || !name.is_free() => {
                Ok(Arc::new(CountedModel { inner, spending: spending.for_run(), terms }))
            }
            _ => Ok(inner),
        }
    }

    /// Returns the folder of the user's own files, which belong to no project.
    pub fn home(&self) -> &Path {
        self.loaded.machinery.home()
    }

    /// Returns the folder of the journals.
    pub fn runs_dir(&self) -> &Path {
        self.loaded.machinery.runs_dir()
    }

    /// Returns true if the entry still lacks an input that could be read from elsewhere.
    pub fn lacks_input(&self, input: &Input) -> bool {
        if input.message.is_some() || input.json.is_some() {
            return false;
        }
        let signature = &self.entry().signature;
        if !signature.declared {
            return input.parameters.is_empty() && input.attachments.is_empty() && input.contents.is_empty();
        }
        let bound = |name: &str| {
            input.parameters.iter().any(|(given, _)| given == name)
                || self.program().manifest().bindings.iter().any(|(given, _)| given == name)
        };
        signature.parameters.iter().any(|p| p.required && p.path.is_none() && !bound(&p.name))
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
        let machinery = &self.loaded.machinery;
        let redactor = Arc::clone(&machinery.redactor);
        let key = machinery.seal_key()?;
        let journal = JournalWriter::create(machinery.runs_dir(), redactor, Some(key))?;
        self.begin(journal, start, input, operator, events)
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
        let machinery = &self.loaded.machinery;
        let redactor = Arc::clone(&machinery.redactor);
        let key = machinery.seal_key()?;
        let journal = JournalWriter::create_as(id, machinery.runs_dir(), redactor, Some(key))?;
        self.begin(journal, start, input, operator, events)
    }

    /// Prepares the run over a new journal.
    fn begin(
        &self,
        journal: JournalWriter,
        start: Start,
        input: &Input,
        operator: Option<Arc<dyn Operator>>,
        events: Option<Arc<dyn EventSink>>,
    ) -> Result<Run, Problem> {
        let machinery = &self.loaded.machinery;
        let driver = LocalDriver::new(journal, Machine::ambient(), self.answering(operator))
            .with_untrusted_places(machinery.untrusted_places()?)
            .with_questions_expiring(self.opened.options.questions_expire);
        let (driver, tally) = counted(driver, events);
        let driver = Arc::new(driver);
        let id = Arc::clone(driver.log().id());
        let context = self.context(id, today(), Arc::clone(&driver) as _, Arc::clone(&self.opened.models));
        let records = RunRecords::New(RunStart {
            version: VERSION.into(),
            target: self.loaded.request.positionals.first().map_or(".", String::as_str).into(),
            definitions: self.loaded.used.to_vec(),
            runtimes: self.runtimes().to_vec(),
            invocation: Some(self.opened.started.with(input)),
            requester: Some(self.opened.options.requester.clone()),
        });
        Ok(Run::new(driver, Launch { records, tally, ..self.launch(context, start) }))
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
        past.fits(&self.loaded.used)?;
        // Attachments are in the journal as soon as a conversation has begun with them.
        let start = self.prepare(&past.input(), !past.has_begun())?;
        let date = past.date();
        let redactor = Arc::clone(&self.loaded.machinery.redactor);
        let driver = past
            .reopen(&decisions, self.answering(operator), redactor, VERSION)?
            .with_untrusted_places(self.loaded.machinery.untrusted_places()?)
            .with_questions_expiring(self.opened.options.questions_expire);
        let (driver, tally) = counted(driver, events);
        let driver = Arc::new(driver.decide(decisions.0).map_err(ResumeError::from)?);
        let id = Arc::clone(driver.log().id());
        let context = self.context(id, date, Arc::clone(&driver) as _, Arc::clone(&self.opened.models));
        let launch = Launch { records: RunRecords::Resumed, tally, ..self.launch(context, start) };
        Ok(Run::new(driver, launch))
    }

    /// Checks that a run can continue with this program: the workers are those that it began with.
    ///
    /// # Errors
    /// A worker, or the code of its tools, has changed.
    pub fn fits(&self, past: &PastRun) -> Result<(), Problem> {
        Ok(past.fits(&self.loaded.used)?)
    }

    /// Copies a run that waits into a new run ([`llm_do_runs::fork`]). Returns its folder.
    ///
    /// # Errors
    /// The run is not this user's, or can't be copied.
    pub fn fork(&self, past: &PastRun) -> Result<PathBuf, Problem> {
        let redactor = Arc::clone(&self.loaded.machinery.redactor);
        Ok(past.fork(redactor)?)
    }

    /// Returns a JSON object with the user's seal ([`SealKey::seal`](llm_do_runs::SealKey::seal)).
    ///
    /// # Errors
    /// The key can't be read or made.
    pub fn seal(&self, purpose: &str, object: Vec<u8>) -> Result<Vec<u8>, NoKey> {
        Ok(self.loaded.machinery.seal_key()?.seal(purpose, object))
    }

    /// Returns true if [`Session::seal`] has sealed this object for this purpose.
    pub fn has_sealed(&self, purpose: &str, object: &[u8]) -> bool {
        self.loaded.machinery.seal_key().is_ok_and(|key| key.has_sealed(purpose, object))
    }

    /// Returns true if a text contains the value of a secret that journals leave out.
    pub fn holds_secret(&self, text: &str) -> bool {
        self.loaded.machinery.redactor.redact(text) != text
    }

    /// Returns a text without the values of secrets, as journals keep it.
    pub fn redacted(&self, text: &str) -> String {
        self.loaded.machinery.redactor.redact(text).into_owned()
    }

    /// Returns an engine for calls of the run with that ID and date, which another process has started with this
    /// program. The driver reaches that process.
    pub fn engine(&self, run: Arc<str>, date: Arc<str>, driver: Arc<dyn Driver>) -> Engine {
        Engine::new(self.context(run, date, driver, Arc::clone(&self.opened.models)))
    }

    /// Returns the first request to the entry's model for this input: the record of the conversation's start, with the
    /// rendered instructions, the first message and the tools. Nothing is sent and nothing is written.
    ///
    /// # Errors
    /// The same as for [`Session::start`], or the reason why a run would fail before its first request.
    pub async fn preview(&self, input: &Input) -> Result<RecordKind, Problem> {
        self.trial("preview", input)?.preview().await.map_err(Problem::Preview)
    }

    /// Returns the gate's decision about a call that the entry's model could make, and the rule that decides. Nothing
    /// is sent, asked or run, and nothing is written.
    ///
    /// # Errors
    /// The same as for [`Session::start`], or the entry has no such tool.
    pub async fn explain(&self, input: &Input, tool: &str, arguments: &Value) -> Result<Explained, Problem> {
        self.trial("explain", input)?.explain(tool, arguments).await.map_err(Problem::Preview)
    }

    /// Returns a launch whose records are kept in memory.
    fn trial(&self, name: &str, input: &Input) -> Result<Launch, Problem> {
        let start = self.prepare(input, true)?;
        let driver = Arc::new(MemoryDriver::new(0, None));
        let context = self.context(name.into(), today(), driver, Arc::clone(&self.opened.models));
        Ok(self.launch(context, start))
    }

    /// Returns the parts of one run's engine.
    pub(crate) fn context(
        &self,
        run: Arc<str>,
        date: Arc<str>,
        driver: Arc<dyn Driver>,
        models: Arc<dyn Models>,
    ) -> RunContext {
        let machinery = &self.loaded.machinery;
        RunContext {
            run,
            date,
            driver,
            models,
            model: self.opened.choice.clone(),
            settings_override: self.opened.options.set.clone(),
            files: Arc::new(WithServed::new(Arc::clone(&machinery.files), Arc::clone(&machinery.toolsets))),
            definitions: limited::definitions(&self.loaded.program, self.opened.options.limits),
            toolsets: Arc::clone(&machinery.toolsets),
            client_tools: self.opened.options.client_tools.as_slice().into(),
            gate: Arc::clone(&self.opened.gate),
            chat: self.opened.options.chat,
            attended: self.opened.options.can_ask
                || self.opened.options.chat
                || self.opened.gate.mode == Mode::Defer,
            redact: Arc::clone(&machinery.redactor) as _,
            for_client: self.opened.options.client.is_some(),
            stand_ins: None,
            spending: self.opened.spending.as_deref().map(RunSpending::for_run),
        }
    }

    /// Returns the launch of the entry, which writes no records around the call.
    pub(crate) fn launch(&self, context: RunContext, start: Start) -> Launch {
        let Start { input, origins, attachments, authority } = start;
        let user = match self.opened.options.untrusted_input {
            true => Origin::Untrusted,
            false => Origin::Trusted,
        };
        Launch {
            context,
            entry: limited::worker(self.entry(), self.opened.options.limits),
            input: Arc::new(input),
            input_origins: origins.and(Origins::whole(user)),
            user,
            attachments,
            authority,
            budget: self.opened.options.budget,
            records: RunRecords::None,
            held: None,
            tally: Arc::default(),
        }
    }

    /// Checks that the paths exist that an input hands over to a worker for reading. Paths are those that the entry's
    /// caller knows. The call itself refuses a path that may not be handed over.
    ///
    /// # Errors
    /// The first parameter with a path that does not exist.
    pub fn check_paths(&self, worker: &WorkerDefinition, input: &Value) -> Result<(), String> {
        let authority = self.authority();
        for parameter in &worker.signature.parameters {
            let (name, Some(access)) = (&parameter.name, parameter.path) else { continue };
            let Some(path) = input.get(&**name).and_then(Value::as_str) else { continue };
            let Ok(located) = authority.locate(path, access) else { continue };
            let real = self.program().real(located.place().as_str(), access);
            real.map_err(|reason| format!("`{name}`: `{path}` {reason}"))?;
        }
        Ok(())
    }

    pub(crate) fn toolsets(&self) -> &ToolsetRegistry {
        &self.loaded.machinery.toolsets
    }

    /// Returns the authority of the entry's caller, if no parameter hands anything over.
    pub(crate) fn authority(&self) -> Authority {
        let places = grant::places(&self.opened.grants);
        self.beginning(&places, &[], self.opened.options.client.is_some())
    }

    /// Returns the authority of the entry's caller in a run of a client, if the client hands nothing over.
    pub(crate) fn authority_of_client(&self) -> Authority {
        let places = grant::places(&self.opened.grants);
        self.beginning(&places, &[], true)
    }

    /// Returns the authority of the entry's caller, with these places and bound parameters.
    fn beginning(&self, places: &[Extent], bound: &[BoundPath], of_client: bool) -> Authority {
        let (program, network) = (self.program(), self.network());
        let authority = match of_client {
            true => program.authority_of_client(places, network, bound),
            false => program.authority(places, network, bound),
        };
        let authority = authority
            .with_variables(self.variables())
            .with_processes(grant::processes(&self.opened.grants))
            .with_servers(grant::network(&self.opened.grants));
        self.loaded.machinery.protected.with(authority, self.deciding_files())
    }

    /// Returns the files beside the program's definitions that decide about the run, and about the next one: those with
    /// sets of the operator's rules, scripts that replace a model, weights, and budgets over time with their use.
    fn deciding_files(&self) -> Vec<Place> {
        let machinery = &self.loaded.machinery;
        let (operator, user) = (&self.opened.gate.operator, &self.opened.gate.user.lines);
        let sets = |rules: &[RuleLine], folder: &Path| -> Vec<PathBuf> {
            let files = rules.iter().flat_map(|rule| rule.conditions.sets()).filter_map(Set::file);
            files.map(|set| folder.join(&*set.file)).collect()
        };
        let mut files = sets(operator, &machinery.current_dir);
        files.extend(sets(user, machinery.home()));
        let choice = &self.opened.choice;
        let workers = self.loaded.workers.iter().filter_map(|worker| choice.chain(worker).ok()).flatten();
        let models = workers.chain(choice.defaults.iter().chain(&choice.fallback).cloned());
        let local = models.filter(|model| ["script", "local"].contains(&model.provider()));
        files.extend(local.map(|model| machinery.current_dir.join(model.model())));
        files.sort();
        files.dedup();
        // A name of weights in the user's catalogue is no file here.
        files.retain(|file| file.exists());
        files.extend(own_files(machinery.home()));
        files.iter().flat_map(|file| named_and_real(file)).collect()
    }

    /// Returns the granted variables whose values the redactor knows.
    fn variables(&self) -> Vec<Arc<str>> {
        let known = &self.loaded.machinery.variables;
        let mut names = grant::variables(&self.opened.grants);
        names.retain(|name| known.contains(name) && self.loaded.machinery.effects != Effects::Denied);
        names
    }

    fn network(&self) -> Network {
        grant::network(&self.opened.grants)
    }

    /// Returns the operator that answers questions: if the mode defers them, the run waits.
    pub(crate) fn answering(&self, operator: Option<Arc<dyn Operator>>) -> Arc<dyn Operator> {
        let is_chat = self.opened.options.chat && operator.is_some();
        let operator = operator.unwrap_or_else(|| Arc::new(Unattended));
        match self.opened.gate.mode {
            Mode::Defer if is_chat => Arc::new(DeferringApprovals(operator)),
            Mode::Defer => Arc::new(Deferring(operator)),
            _ => operator,
        }
    }

    /// Returns the runtimes of the code of the program's tools.
    fn runtimes(&self) -> &[Runtime] {
        self.opened.runtimes.get_or_init(|| kinds::runtimes(self.toolsets(), &self.loaded.workers))
    }

    /// Returns the names of the entry's arguments that come from those parts of an input that were read from a file.
    pub(crate) fn read_names(&self, input: &Input, which: impl Fn(&ReadPart) -> bool) -> Vec<String> {
        let signature = &self.entry().signature;
        let message = || signature.message.as_deref().unwrap_or(INPUT).to_owned();
        let is_declared = |name: &String| {
            let properties = signature.schema.value().get("properties");
            signature.declared || properties.is_some_and(|all| all.get(name).is_some())
        };
        let names =
            input.read.iter().filter(|read| which(read)).flat_map(|ReadPart { part, .. }| match part {
                InputPart::Parameter(name) if is_declared(name) => vec![name.clone()],
                InputPart::Parameter(_) => vec![INPUT.to_owned()],
                InputPart::Message => vec![message()],
                InputPart::Json => match &input.json {
                    Some(Value::Object(map)) if signature.declared || map.contains_key(INPUT) => {
                        map.keys().cloned().collect()
                    }
                    _ => vec![message()],
                },
            });
        names.collect()
    }

    /// Returns true if the operator has granted a place.
    pub(crate) fn grants_place(&self, place: &Place, access: Access) -> bool {
        let granted = grant::places(&self.opened.grants);
        granted.iter().any(|extent| place.is_within(&extent.place) && extent.access >= access)
    }

    /// Returns the origins of a complete input.
    fn origins_of(&self, input: &Input, bound: &[BoundPath]) -> Origins {
        let mut names = self.read_names(input, |read| read.untrusted);
        // The value of a path is the name of its mount by now.
        names.retain(|name| !bound.iter().any(|bound| *bound.parameter == **name));
        names.iter().fold(Origins::TRUSTED, |origins, name| {
            let at = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
            origins.with(at, Origin::Untrusted)
        })
    }

    /// Checks that the paths of an input lie below the required folder ([`RunOptions::paths_below`]), with links
    /// resolved.
    fn admit_paths(&self, given: &Value, bound: &[BoundPath]) -> Result<(), Problem> {
        let Some(folder) = &self.opened.options.paths_below else { return Ok(()) };
        let root = place_of(folder).ok();
        let beyond = bound.iter().find_map(|BoundPath { parameter, place, .. }| {
            let path = given.get(&**parameter)?.as_str()?;
            let is_below = root.as_ref().is_some_and(|root| place.is_within(root));
            (!is_below).then_some((parameter, path))
        });
        let Some((parameter, path)) = beyond else { return Ok(()) };
        let message = format!("`{parameter}`: `{path}` leads out of the folder of this run");
        let signature = signature::show(&self.entry().id, &self.entry().signature);
        Err(Problem::Input(InputError { message, signature }))
    }

    /// Checks an input and completes it, and reads the attachments.
    pub(crate) fn prepare(&self, input: &Input, attach: bool) -> Result<Start, Problem> {
        let (entry, program) = (self.entry(), self.program());
        let given = Given {
            message: input.message.as_deref(),
            json: input.json.as_ref(),
            parameters: &input.parameters,
        };
        let value = signature::input_value(&entry.id, &entry.signature, given)?;
        let here = self.loaded.machinery.here.as_ref().unwrap_or_else(|| program.root());
        let mut places: Vec<Extent> = grant::places(&self.opened.grants);
        let mut complete = value.clone();
        let located = self.located_in_view(input, here, &value)?;
        let bind = |complete: &mut Value, places: &[Extent]| program.bind(complete, here, places, &located);
        let bound = match bind(&mut complete, &places) {
            Err(BindError::Beyond(required)) => {
                let missing = required.iter().map(missing::place).collect();
                let grantor = &*self.loaded.machinery.grantor;
                let obtained = missing::obtain(grantor, &self.loaded.identity, missing)?;
                places.extend(grant::places(&obtained));
                complete = value.clone();
                bind(&mut complete, &places)
            }
            bound => bound,
        };
        let mut bound = bound.map_err(missing::unbound)?;
        self.admit_paths(&value, &bound)?;
        let untrusted = self.read_names(input, |read| read.untrusted);
        for path in &mut bound {
            path.untrusted = untrusted.iter().any(|name| *name == *path.parameter);
        }
        let (value, origins) = (complete, self.origins_of(input, &bound));
        signature::validate_input(&entry.id, &entry.signature, &value)?;
        let authority = self.beginning(&places, &bound, self.opened.options.client.is_some());
        let attachments = match attach {
            true => attachments::read(entry, &input.attachments, &input.contents)?,
            false => Vec::new(),
        };
        Ok(Start { input: value, origins, attachments, authority })
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

/// Returns the place that names a file, and the place that it leads to.
fn named_and_real(file: &Path) -> impl Iterator<Item = Place> {
    let named = || Some(place_of(file.parent()?).ok()?.join(file.file_name()?.to_str()?));
    // A file that does not exist yet has a name only.
    named().into_iter().chain(place_of(file).ok())
}

/// Returns llm-do's own folder, and the files and folders there that decide about runs: for a program that lies in it,
/// which leaves the folder as a whole writable. No run makes a file there that decides about the next.
fn own_files(home: &Path) -> Vec<PathBuf> {
    const DECIDING: &[&str] =
        &["budgets.yaml", "config.yaml", "grants.yaml", "libs", "serve.yaml", "spending", "workers"];
    std::iter::once(home.to_owned()).chain(DECIDING.iter().map(|name| home.join(name))).collect()
}

/// Returns the date in UTC, as templates see it.
pub fn today() -> Arc<str> {
    jiff::tz::Offset::UTC.to_datetime(jiff::Timestamp::now()).date().to_string().into()
}
