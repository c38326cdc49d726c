//! A session: an opened program with an entry and options, whose runs start here.

use crate::{
    counting::Counting,
    effects::Effects,
    event_sink::EventSink,
    grant::{self, Grant},
    host::{Budgets, DecidingFiles, Host},
    input::Input,
    invocation::Started,
    limited,
    loaded::{Granted, Loaded, ModelSource},
    model_choice::{self, DetectedModel},
    obstacle::Obstacle,
    options::RunOptions,
    ports::RunLog,
    reach::Reach,
    recorder::Recorder,
    run::Run,
    start::Prepared,
};
use llm_do_core::{
    authority::{Authority, Extent, Network, Place},
    driver::{Driver, MemoryDriver},
    engine::{Engine, Explained, RunContext},
    gate::{FileSet, Gate, Mode, RuleLine, Set},
    journal::{RecordKind, Runtime, UsedDefinition},
    launch::{Launch, RunRecords, RunStart, Tally},
    model::{ModelName, Models, Terms},
    operator::{Deferring, DeferringApprovals, Operator, Unattended},
    origin::{Origin, Origins, UntrustedPlaces},
    outcome::Halt,
    question::{Given, QuestionId},
    source::FunctionSource,
    toolset::{ToolsetRegistry, WithServed},
    vfs::FileSystem,
    worker::{BoundPath, Definitions, ModelChoice, WorkerDefinition},
};
use llm_do_program::{Diagnostic, Program};
use llm_do_records::History;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

/// The version of llm-do, as records name it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// An opened program with an entry and options, ready for any number of runs, one after another or side by side.
///
/// A session is cheap to clone. [`Session::worker`] and [`Session::with_options`] give sessions of the same program with
/// another entry or other options; they share everything that was read and started.
pub struct Session<H> {
    loaded: Loaded<H>,
    opened: Arc<Opened>,
}

impl<H> Clone for Session<H> {
    fn clone(&self) -> Self {
        Self { loaded: self.loaded.clone(), opened: Arc::clone(&self.opened) }
    }
}

/// State that results from the options of a session.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) options: RunOptions,
    pub(crate) grants: Vec<Grant>,
    source: ModelSource,
    pub(crate) models: Arc<dyn Models>,
    choice: ModelChoice,
    detected: Option<DetectedModel>,
    /// The models of workers that can't be asked, each with the reason. Others are asked in their place.
    left_out: BTreeMap<ModelName, String>,
    gate: Arc<Gate>,
    budgets: Option<Arc<dyn Budgets>>,
    denies_unattended: bool,
    started: Started,
    /// Runtimes of the tools' code, determined when a run first records them.
    runtimes: OnceLock<Vec<Runtime>>,
}

impl<H: Host> Granted<H> {
    /// Opens the models of every worker that is loaded, and combines the rules.
    ///
    /// # Errors
    /// A model can't be used.
    pub fn open(self) -> Result<Session<H>, H::Problem> {
        let Self { loaded, options, grants, choice, detected, source } = self;
        let host = &loaded.host;
        let mut left_out = BTreeMap::new();
        let models: Arc<dyn Models> = match &source {
            ModelSource::Given { models, .. } => Arc::clone(models),
            ModelSource::Providers => {
                let operators = model_choice::of_operator(&options, &**host);
                let models = model_choice::granted(host, operators, &grants);
                for worker in loaded.workers.iter().filter(|worker| worker.code.is_none()) {
                    left_out.extend(model_choice::open(worker, &choice, &*models)?);
                }
                models
            }
        };
        // The models of a host, and recorded ones, cost nothing that a budget of the user counts.
        let budgets = match &source {
            ModelSource::Given { .. } => None,
            ModelSource::Providers => host.budgets(loaded.program.entry(), options.client.as_ref())?,
        };
        let program = &loaded.program;
        let user = host.user();
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
            started: Started::new(&loaded.request, host.current_dir(), &options),
            options,
            grants,
            source,
            models,
            choice,
            detected,
            left_out,
            gate: Arc::new(gate),
            budgets,
            denies_unattended: unattended && mode == Mode::AutoDeny,
            runtimes: OnceLock::new(),
        };
        Ok(Session { loaded, opened: Arc::new(opened) })
    }
}

impl<H: Host> Session<H> {
    /// Returns the loaded program.
    pub fn loaded(&self) -> &Loaded<H> {
        &self.loaded
    }

    /// Returns the means of the program.
    pub fn host(&self) -> &Arc<H> {
        self.loaded.host()
    }

    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Returns the grants of the session's runs, with those that the grantor added.
    pub fn grants(&self) -> &[Grant] {
        &self.opened.grants
    }

    /// Returns the models of the session's runs.
    pub fn models(&self) -> &Arc<dyn Models> {
        &self.opened.models
    }

    /// Returns the budgets over time that count the session's runs.
    pub fn budgets(&self) -> Option<&dyn Budgets> {
        self.opened.budgets.as_deref()
    }

    /// Returns the same session with its models wrapped by `over`, for a host that decides when requests are sent.
    #[must_use]
    pub fn over_models(&self, over: impl FnOnce(Arc<dyn Models>) -> Arc<dyn Models>) -> Self {
        let mut opened = (*self.opened).clone();
        opened.models = over(opened.models);
        Self { loaded: self.loaded.clone(), opened: Arc::new(opened) }
    }

    /// Returns the prices of a model and the sizes of its requests and answers, as far as they are known.
    pub fn terms(&self, name: &ModelName) -> Terms {
        self.opened.models.terms(name)
    }

    /// Returns the model of a worker.
    pub fn model_of(&self, worker: &WorkerDefinition) -> Option<ModelName> {
        self.opened.choice.of(worker).ok()
    }

    /// Returns the models of the loaded workers, without duplicates. A worker that is code has no model.
    pub fn model_names(&self) -> Vec<ModelName> {
        let workers = self.program().loaded();
        let prompts = workers.iter().filter(|worker| worker.code.is_none());
        let mut names: Vec<ModelName> = prompts.filter_map(|worker| self.model_of(worker)).collect();
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        names
    }

    /// Returns the definitions of the workers that the entry can call, the manifest, and the files of sets in their
    /// rules.
    pub fn definitions(&self) -> &[UsedDefinition] {
        &self.loaded.used
    }

    /// Returns the start record of a run with this input.
    pub fn start_record(&self, input: &Input) -> RunRecords {
        RunRecords::New(RunStart {
            version: VERSION.into(),
            target: self.loaded.request.positionals.first().map_or(".", String::as_str).into(),
            definitions: self.loaded.used.to_vec(),
            runtimes: self.runtimes().to_vec(),
            invocation: Some(self.opened.started.with(input)),
            requester: Some(self.opened.options.requester.clone()),
        })
    }

    /// Checks the input and prepares a new run over an empty log. Nothing is sent before [`Run::finish`] is polled.
    /// `id` is the run's ID.
    ///
    /// # Errors
    /// The input doesn't fit, a file can't be attached, or the host's places of untrusted words can't be read.
    pub fn start<L: RunLog + 'static>(
        &self,
        id: Arc<str>,
        log: L,
        input: &Input,
        operator: Option<Arc<dyn Operator>>,
        events: Option<Arc<dyn EventSink>>,
    ) -> Result<Run, H::Problem> {
        let start = self.prepare(input, true)?;
        let untrusted = self.host().untrusted_places()?;
        let ports = RunPorts { id, date: self.host().today(), log, operator, events, untrusted };
        Ok(self.begin(ports, start, self.start_record(input)).0)
    }

    /// Prepares a new run with this start and this start record. Also returns the run's driver.
    pub fn begin<L: RunLog + 'static>(
        &self,
        ports: RunPorts<L>,
        start: Prepared,
        records: RunRecords,
    ) -> (Run, Arc<Recorder<L>>) {
        let RunPorts { id, date, log, operator, events, untrusted } = ports;
        let driver = Recorder::new(log, self.host().ambient(), self.answering(operator));
        let (driver, tally) = self.recording(driver, untrusted, events);
        self.over(driver, tally, id, date, start, records)
    }

    /// Prepares the continuation of a run from the records that its log has. Also returns the run's driver.
    ///
    /// # Errors
    /// The resume or a decision can't be recorded.
    pub fn resumed<L: RunLog + 'static>(
        &self,
        ports: RunPorts<L>,
        start: Prepared,
        before: History,
        decisions: BTreeMap<QuestionId, Given>,
    ) -> Result<(Run, Arc<Recorder<L>>), Halt> {
        let RunPorts { id, date, log, operator, events, untrusted } = ports;
        let driver = Recorder::resume(log, self.host().ambient(), self.answering(operator), before, VERSION)?;
        let (driver, tally) = self.recording(driver, untrusted, events);
        let driver = driver.decide(decisions)?;
        Ok(self.over(driver, tally, id, date, start, RunRecords::Resumed))
    }

    /// Gives a driver what the session's options say of it, and makes it count its records.
    fn recording<L: RunLog>(
        &self,
        driver: Recorder<L>,
        untrusted: Arc<dyn UntrustedPlaces>,
        events: Option<Arc<dyn EventSink>>,
    ) -> (Recorder<L>, Arc<Tally>) {
        let tally = Arc::<Tally>::default();
        let counting = Counting { tally: Arc::clone(&tally), next: events };
        let driver = driver
            .with_untrusted_places(untrusted)
            .with_questions_expiring(self.opened.options.questions_expire)
            .with_events(Arc::new(counting));
        (driver, tally)
    }

    fn over<L: RunLog + 'static>(
        &self,
        driver: Recorder<L>,
        tally: Arc<Tally>,
        id: Arc<str>,
        date: Arc<str>,
        start: Prepared,
        records: RunRecords,
    ) -> (Run, Arc<Recorder<L>>) {
        let driver = Arc::new(driver);
        let context = self.context(id, date, Arc::clone(&driver) as _, Arc::clone(self.models()));
        let launch = Launch { records, tally, ..self.launch(context, start) };
        (Run::new(Arc::clone(&driver) as _, launch), driver)
    }

    /// Returns the same program with another worker as the entry, and the same options.
    ///
    /// # Errors
    /// The worker does not exist, or it asks for more than is granted.
    pub fn worker(&self, id: &str) -> Result<Self, H::Problem> {
        let Opened { options, grants, source, .. } = &*self.opened;
        self.loaded.worker(id)?.grant_beyond(options.clone(), grants, source.clone())?.open()
    }

    /// Returns the same program and entry with other options. Grants of this session that are not among the options
    /// don't count, except that code which may already run unconfined in this process needs that grant again.
    ///
    /// # Errors
    /// The program asks for more than these options grant, or a model can't be used.
    pub fn with_options(&self, options: RunOptions) -> Result<Self, H::Problem> {
        self.loaded.grant(options, self.opened.source.clone())?.open()
    }

    /// Returns the most that a run can do outside of its conversations.
    pub fn reach(&self) -> Reach {
        let workers = self.program().loaded();
        Reach::of(self.entry(), &workers, self.toolsets(), &self.authority())
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
        &**self.host().files()
    }

    /// Returns the worker that runs start with.
    pub fn entry(&self) -> &Arc<WorkerDefinition> {
        self.loaded.program.entry()
    }

    /// Returns the options of the session's runs.
    pub fn options(&self) -> &RunOptions {
        &self.opened.options
    }

    /// Warnings of the loader.
    pub fn warnings(&self) -> &[Diagnostic] {
        self.loaded.warnings()
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

    /// Returns true if the entry's model reads files of that media type. Every model reads text.
    pub fn reads(&self, media_type: &str) -> bool {
        let name = self.opened.choice.of(self.entry()).ok();
        let model = name.and_then(|name| self.opened.models.open(&name).ok());
        media_type == "text/plain" || model.is_some_and(|model| model.capabilities().sees.reads(media_type))
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

    /// Returns true if a text contains the value of a secret that journals leave out.
    pub fn holds_secret(&self, text: &str) -> bool {
        self.host().redactor().redact(text) != text
    }

    /// Returns a text without the values of secrets, as journals keep it.
    pub fn redacted(&self, text: &str) -> String {
        self.host().redactor().redact(text).into_owned()
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
    pub async fn preview(&self, input: &Input) -> Result<RecordKind, H::Problem> {
        self.trial("preview", input)?.preview().await.map_err(|failure| Obstacle::Preview(failure).into())
    }

    /// Returns the gate's decision about a call that the entry's model could make, and the rule that decides. Nothing
    /// is sent, asked or run, and nothing is written.
    ///
    /// # Errors
    /// The same as for [`Session::start`], or the entry has no such tool.
    pub async fn explain(
        &self,
        input: &Input,
        tool: &str,
        arguments: &Value,
    ) -> Result<Explained, H::Problem> {
        self.trial("explain", input)?
            .explain(tool, arguments)
            .await
            .map_err(|failure| Obstacle::Preview(failure).into())
    }

    /// Returns a launch whose records are kept in memory.
    fn trial(&self, name: &str, input: &Input) -> Result<Launch, H::Problem> {
        let start = self.prepare(input, true)?;
        let driver = Arc::new(MemoryDriver::new(0, None));
        let context = self.context(name.into(), self.host().today(), driver, Arc::clone(&self.opened.models));
        Ok(self.launch(context, start))
    }

    /// Returns the parts of one run's engine.
    pub fn context(
        &self,
        run: Arc<str>,
        date: Arc<str>,
        driver: Arc<dyn Driver>,
        models: Arc<dyn Models>,
    ) -> RunContext {
        let host = self.host();
        RunContext {
            run,
            date,
            driver,
            models,
            model: self.opened.choice.clone(),
            settings_override: self.opened.options.set.clone(),
            files: Arc::new(WithServed::new(Arc::clone(host.files()), Arc::clone(host.toolsets()))),
            definitions: limited::definitions(&self.loaded.program, self.opened.options.limits),
            toolsets: Arc::clone(host.toolsets()),
            client_tools: self.opened.options.client_tools.as_slice().into(),
            gate: Arc::clone(&self.opened.gate),
            chat: self.opened.options.chat,
            attended: self.opened.options.can_ask
                || self.opened.options.chat
                || self.opened.gate.mode == Mode::Defer,
            redact: Arc::clone(host.redactor()) as _,
            for_client: self.opened.options.client.is_some(),
            stand_ins: None,
            spending: self.opened.budgets.as_deref().map(Budgets::for_run),
        }
    }

    /// Returns the launch of the entry, which writes no records around the call.
    pub fn launch(&self, context: RunContext, start: Prepared) -> Launch {
        let Prepared { input, origins, attachments, authority } = start;
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

    /// Returns the kinds of toolsets.
    pub fn toolsets(&self) -> &ToolsetRegistry {
        self.host().toolsets()
    }

    /// Returns the authority of the entry's caller, if no parameter hands anything over.
    pub fn authority(&self) -> Authority {
        let places = grant::places(&self.opened.grants);
        self.beginning(&places, &[], self.opened.options.client.is_some())
    }

    /// Returns the authority of the entry's caller in a run of a client, if the client hands nothing over.
    pub fn authority_of_client(&self) -> Authority {
        let places = grant::places(&self.opened.grants);
        self.beginning(&places, &[], true)
    }

    /// Returns the authority of the entry's caller, with these places and bound parameters.
    pub(crate) fn beginning(&self, places: &[Extent], bound: &[BoundPath], of_client: bool) -> Authority {
        let (program, network) = (self.program(), self.network());
        let authority = match of_client {
            true => program.authority_of_client(places, network, bound),
            false => program.authority(places, network, bound),
        };
        let authority = authority
            .with_variables(self.variables())
            .with_processes(grant::processes(&self.opened.grants))
            .with_servers(grant::network(&self.opened.grants));
        let authority = match self.opened.options.program_is_copy {
            true => authority.reading_below(program.root()),
            false => authority,
        };
        self.loaded.protected.with(authority, self.deciding_places())
    }

    /// Returns the granted variables whose values the redactor knows.
    fn variables(&self) -> Vec<Arc<str>> {
        let mut names = grant::variables(&self.opened.grants);
        let host = self.host();
        names.retain(|name| host.keeps_secret(name) && host.effects() != Effects::Denied);
        names
    }

    fn network(&self) -> Network {
        grant::network(&self.opened.grants)
    }

    /// Returns the operator that answers questions: if the mode defers them, the run waits.
    pub fn answering(&self, operator: Option<Arc<dyn Operator>>) -> Arc<dyn Operator> {
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
        self.opened.runtimes.get_or_init(|| self.host().runtimes(&self.loaded.workers))
    }

    /// Returns the places beside the program's definitions that decide about the run, and about the next one: files with
    /// sets of the operator's rules, scripts that replace a model, weights, and what the host adds.
    fn deciding_places(&self) -> Vec<Place> {
        fn sets(rules: &[RuleLine]) -> Vec<&FileSet> {
            rules.iter().flat_map(|rule| rule.conditions.sets()).filter_map(Set::file).collect()
        }
        let choice = &self.opened.choice;
        let workers = self.loaded.workers.iter().filter_map(|worker| choice.chain(worker).ok()).flatten();
        self.host().deciding_places(&DecidingFiles {
            sets_of_operator: sets(&self.opened.gate.operator),
            sets_of_user: sets(&self.opened.gate.user.lines),
            models: workers.chain(choice.defaults.iter().chain(&choice.fallback).cloned()).collect(),
        })
    }
}

/// The ports of one run.
pub struct RunPorts<L> {
    /// ID of the run.
    pub id: Arc<str>,
    /// The date, as templates see it.
    pub date: Arc<str>,
    /// The log that takes the records.
    pub log: L,
    /// The operator that answers questions, if there is one.
    pub operator: Option<Arc<dyn Operator>>,
    /// The listener to the run's events.
    pub events: Option<Arc<dyn EventSink>>,
    /// The places to which earlier runs of the program wrote untrusted words.
    pub untrusted: Arc<dyn UntrustedPlaces>,
}
