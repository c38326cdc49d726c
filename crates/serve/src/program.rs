//! The programs of a service, by name.

use crate::{
    definitions::Definitions,
    error::{ApiError, Code},
    log::LogEntry,
    outgoing::Outgoing,
    trigger_settings::BadTrigger,
    views::{Findings, StartRun},
};
use llm_do::{
    Client, Decisions, Editing, Effects, Located, ModelSource, PastRun, Problem, ResumeError, RunOptions,
    Session, Settings,
    core::{
        function::tool_name,
        gate::{Calls, FileSet, Mode, Rule, RuleLine},
        journal::{Record, RecordKind},
        model::ModelName,
        question::Requester,
        send::BoxFuture,
    },
    not_for_clients,
    program::{Diagnostic, language::Symbols},
    runs::{AlreadyServed, Serving},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard},
};

/// The party that starts a run.
pub(crate) enum Starter {
    /// A client, the channel through which it came, and whether its words are the operator's.
    Client { client: Client, via: &'static str, trusted: bool },
    /// The operator, who owns the process, and whether questions can be asked.
    Owner { client: Client, attended: bool },
}

impl Starter {
    /// The client that the run is of.
    pub(crate) fn client(&self) -> &Client {
        match self {
            Self::Client { client, .. } | Self::Owner { client, .. } => client,
        }
    }
}

/// The program around a service: its command line, its environment, and its log.
pub trait Host: Send + Sync + 'static {
    /// The settings with which that target is opened.
    ///
    /// # Errors
    /// The command line is wrong. The text describes the problem and the solution.
    fn settings(&self, target: &str) -> Result<Settings, String>;
    /// Takes a line for the log. It may hold text of clients, with nothing hidden in it.
    fn log(&self, line: &str);
    /// Takes an entry for the log, as a line unless the host keeps its parts.
    fn log_entry(&self, entry: &LogEntry) {
        self.log(&entry.to_string());
    }
    /// Hears that the run in that folder is over, once for each run. Must not block for long.
    fn run_ended(&self, _run_dir: &Path) {}
    /// Sends a message to a notifier with `POST`, and returns the status of the response. It follows no redirects, and its errors
    /// do not show the address.
    fn post(&self, _message: Outgoing) -> BoxFuture<'static, Result<u16, String>> {
        Box::pin(async { Err("this host sends no messages".to_owned()) })
    }
    /// The user's folder of llm-do, where uploads are kept.
    fn home(&self) -> PathBuf;
    /// The models that an answer to a chat may choose. None, unless the operator names some.
    fn chat_models(&self) -> Vec<ModelName> {
        Vec::new()
    }
}

/// The name of a program, as clients and tokens say it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramName(Arc<str>);

impl ProgramName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProgramName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ProgramName {
    type Err = BadPrograms;

    fn from_str(text: &str) -> Result<Self, BadPrograms> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let starts = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
        match starts && text.len() <= 64 && text.chars().all(fits) {
            true => Ok(Self(text.into())),
            false => Err(BadPrograms::Name(text.to_owned())),
        }
    }
}

/// Programs that can't be served together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPrograms {
    /// No client could say that name.
    #[error(
        "`{0}` can't be the name of a program: a name has at most 64 letters, digits and -_., and begins with a letter or a \
         digit"
    )]
    Name(String),
    /// Two programs have one name.
    #[error("two programs have the name `{0}`")]
    SameName(ProgramName),
    /// Two servers would continue the same runs.
    #[error(
        "another llm-do serve{} serves `{name}` from the same folder: stop that one, or give this one another name with \
         NAME=TARGET",
        process.map(|process| format!(" (process {process})")).unwrap_or_default()
    )]
    Served {
        /// The program.
        name: ProgramName,
        /// The process ID of the other server, if the system reports it.
        process: Option<u32>,
    },
    /// A token names a program that is not served.
    #[error("the token `{token}` names the program `{program}`, which is not served")]
    Unknown {
        /// The name of the token.
        token: Arc<str>,
        /// The program that the token names.
        program: Arc<str>,
    },
    /// The quotas name a program that is not served.
    #[error("the quotas name the program `{0}`, which is not served")]
    UnknownOfQuota(Arc<str>),
    /// A trigger has wrong settings.
    #[error(transparent)]
    Trigger(#[from] BadTrigger),
    /// A notifier has wrong settings.
    #[error("{0}")]
    Notify(String),
    /// Two workers have the same name as tools.
    #[error("`{}` and `{}` would both be the tool `{name}`: rename one of them, or export only one", workers[0], workers[1])]
    SameTool {
        /// The name.
        name: String,
        /// The workers.
        workers: [Arc<str>; 2],
    },
}

/// Checks that clients of the Model Context Protocol can tell the workers apart.
///
/// # Errors
/// Two workers have the same name as tools.
pub(crate) fn distinct(sessions: &[Session]) -> Result<(), BadPrograms> {
    let mut known: HashMap<String, &Session> = HashMap::new();
    for session in sessions {
        let name = tool_name(&session.entry().id);
        if let Some(other) = known.insert(name.clone(), session) {
            let workers = [other, session].map(|session| Arc::clone(&session.entry().id));
            return Err(BadPrograms::SameTool { name, workers });
        }
    }
    Ok(())
}

/// A program with the workers that clients may start.
pub struct Served {
    name: ProgramName,
    target: String,
    runs_dir: PathBuf,
    home: PathBuf,
    state: RwLock<Loaded>,
    /// Keeps other servers from serving the program. Absent in `of_owner` and `of_tools`, which are no servers of the
    /// program.
    serving: Option<Serving>,
    /// Held while a definition is saved.
    pub(crate) saving: Mutex<()>,
    /// The state of the last `check`, with which the next one begins.
    editing: Mutex<Option<Editing>>,
}

/// A program as it was loaded last.
struct Loaded {
    /// The first is the default.
    sessions: Arc<[Session]>,
    /// Sessions of other workers that were started, if clients may start these too.
    others: Option<Arc<Others>>,
    /// The error of the last reload, if the files on disk do not load.
    broken: Option<Arc<Broken>>,
    /// The number of errors and warnings that `check` finds, absent before the first check.
    findings: Option<Findings>,
}

type Others = Mutex<BTreeMap<String, Session>>;

/// The reason why a program does not load.
pub(crate) struct Broken {
    /// The reason in words.
    pub(crate) reason: String,
    /// The problems in the program's files.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Served {
    /// A program from the sessions of its workers, as [`Session::open_exported`] gives them for that target. Without a name
    /// it has that of its manifest, else that of its folder.
    ///
    /// # Errors
    /// The program has no name that clients could say, another process serves it, or two workers have the same name as tools.
    pub fn new(
        name: Option<ProgramName>,
        target: String,
        sessions: Vec<Session>,
    ) -> Result<Self, BadPrograms> {
        let name = match name {
            Some(name) => name,
            None => sessions.first().map(own_name).unwrap_or_default().parse()?,
        };
        distinct(&sessions)?;
        let mut served = Self::of(name, target, sessions, None);
        let serving = Serving::begin(&served.runs_dir, served.name.as_str());
        let busy = |AlreadyServed { process }| BadPrograms::Served { name: served.name.clone(), process };
        served.serving = Some(serving.map_err(busy)?);
        Ok(served)
    }

    /// The program of the one client that owns the process, which need not say its name, and may start each of its workers.
    pub(crate) fn of_owner(target: String, sessions: Vec<Session>) -> Self {
        let name = ProgramName(sessions.first().map(own_name).unwrap_or_default().into());
        Self::of(name, target, sessions, Some(Arc::default()))
    }

    /// The program of a server of tools. The name tells its runs from those of other programs with the same folder of runs.
    pub(crate) fn of_tools(target: String, sessions: Vec<Session>) -> Self {
        let root = sessions.first().map(|first| first.program().root().as_str().to_owned());
        let name = ProgramName(format!("mcp:{}", root.unwrap_or_default()).into());
        Self::of(name, target, sessions, None)
    }

    /// The name of its manifest, else that of its folder, whatever clients call it by.
    pub(crate) fn own_name(&self) -> String {
        self.sessions().first().map(own_name).unwrap_or_default()
    }

    fn of(name: ProgramName, target: String, sessions: Vec<Session>, others: Option<Arc<Others>>) -> Self {
        let folder = |of: fn(&Session) -> &Path| sessions.first().map(|first| of(first).to_owned());
        Self {
            name,
            target,
            runs_dir: folder(Session::runs_dir).unwrap_or_default(),
            home: folder(Session::home).unwrap_or_default(),
            state: RwLock::new(Loaded { sessions: sessions.into(), others, broken: None, findings: None }),
            serving: None,
            saving: Mutex::default(),
            editing: Mutex::default(),
        }
    }

    /// The name of the program.
    pub fn name(&self) -> &ProgramName {
        &self.name
    }

    fn loaded(&self) -> RwLockReadGuard<'_, Loaded> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program's workers as they were loaded last, the default first.
    pub(crate) fn sessions(&self) -> Arc<[Session]> {
        Arc::clone(&self.loaded().sessions)
    }

    /// The reason why the files on disk do not load, if they do not.
    pub(crate) fn broken(&self) -> Option<Arc<Broken>> {
        self.loaded().broken.clone()
    }

    /// Loads the program again for later runs. If the files on disk do not load, the previous program stays. Returns
    /// true if they load.
    pub(crate) fn reload(&self, host: &dyn Host) -> bool {
        let opened = match host.settings(&self.target) {
            Ok(settings) => match Session::open_exported(settings) {
                Ok(sessions) => match distinct(&sessions) {
                    Ok(()) => Ok(sessions),
                    Err(error) => Err(Broken { reason: error.to_string(), diagnostics: Vec::new() }),
                },
                Err(Problem::Program(found)) => {
                    Err(Broken { reason: "the program has errors".into(), diagnostics: found.0 })
                }
                Err(problem) => Err(Broken { reason: problem.to_string(), diagnostics: Vec::new() }),
            },
            Err(reason) => Err(Broken { reason, diagnostics: Vec::new() }),
        };
        *self.editing.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.findings = None;
        match opened {
            Ok(sessions) => {
                state.sessions = sessions.into();
                state.others = state.others.as_ref().map(|_| Arc::default());
                state.broken = None;
                true
            }
            Err(broken) => {
                state.broken = Some(Arc::new(broken));
                false
            }
        }
    }

    /// Calls `with` with the program's definition files. The program as it was loaded last determines which files are
    /// definitions.
    ///
    /// # Errors
    /// The error of `with`, or the program's folder can't be opened.
    pub(crate) fn definitions<T>(
        &self,
        with: impl FnOnce(&Definitions) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let sessions = self.sessions();
        let protections = sessions.iter().map(|session| Arc::clone(session.program().protection()));
        with(&Definitions::open(protections.collect())?)
    }

    /// Returns the findings of `check`, with these texts in place of the files.
    pub(crate) fn check(
        &self,
        host: &dyn Host,
        unsaved: BTreeMap<String, String>,
    ) -> Result<Vec<Diagnostic>, String> {
        self.edit(host, |editing| editing.findings(unsaved))
    }

    /// Calls `with` with the symbols of the program, with these texts in place of the files. There are none if the program
    /// can't be found.
    pub(crate) fn symbols<T>(
        &self,
        host: &dyn Host,
        unsaved: BTreeMap<String, String>,
        with: impl FnOnce(Option<Symbols<'_>>) -> T,
    ) -> Result<T, String> {
        self.edit(host, |editing| {
            editing.findings(unsaved);
            with(editing.symbols())
        })
    }

    /// Calls `with` with the program in the editor, as its files are now.
    fn edit<T>(&self, host: &dyn Host, with: impl FnOnce(&mut Editing) -> T) -> Result<T, String> {
        // One at a time: each check begins with what the one before knows.
        let mut editing = self.editing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut current = match editing.take().filter(Editing::is_current) {
            Some(mut current) => {
                current.look_again();
                current
            }
            None => Editing::open(&host.settings(&self.target)?).map_err(|problem| problem.to_string())?,
        };
        let answer = with(&mut current);
        *editing = Some(current);
        Ok(answer)
    }

    /// Counts the errors and warnings that `check` finds. It runs once for each loaded program.
    pub(crate) fn findings(&self, host: &dyn Host) -> Option<Findings> {
        if let Some(found) = self.loaded().findings {
            return Some(found);
        }
        let sessions = self.sessions();
        let found = self.check(host, BTreeMap::new()).ok()?;
        let errors = found.iter().filter(|found| found.is_error()).count();
        let counted = Findings { errors, warnings: found.len() - errors };
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        // If it was loaded again meanwhile, it may be another program.
        if Arc::ptr_eq(&state.sessions, &sessions) {
            state.findings = Some(counted);
        }
        Some(counted)
    }

    /// The folder of its journals.
    pub(crate) fn runs_dir(&self) -> &Path {
        &self.runs_dir
    }

    /// Returns the folder.
    pub(crate) fn root(&self) -> PathBuf {
        let sessions = self.sessions();
        sessions.first().map(|first| first.program().root().as_str().into()).unwrap_or_default()
    }

    /// Returns true for a project, whose runs lie in its own folder.
    pub(crate) fn is_project(&self) -> bool {
        let root = self.root();
        root.is_absolute() && self.runs_dir.starts_with(root)
    }

    fn home(&self) -> &Path {
        &self.home
    }

    /// The session of a worker as it was loaded last, the default one without an ID. `None`: clients may not start it.
    ///
    /// # Errors
    /// It does not load.
    fn find(&self, worker: Option<&str>) -> Result<Option<Session>, Problem> {
        let (sessions, others) = {
            let loaded = self.loaded();
            (Arc::clone(&loaded.sessions), loaded.others.clone())
        };
        let (Some(first), Some(id)) = (sessions.first(), worker) else {
            return Ok(sessions.first().cloned());
        };
        let exported = sessions.iter().find(|session| *session.entry().id == *id);
        let (None, Some(others)) = (exported, others) else { return Ok(exported.cloned()) };
        let others = || others.lock().unwrap_or_else(PoisonError::into_inner);
        let known = others().get(id).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let session = first.worker(id)?;
        others().insert(id.to_owned(), session.clone());
        Ok(Some(session))
    }

    /// The session of a worker, for a new run.
    ///
    /// # Errors
    /// The program does not load, or has no such worker for clients.
    pub(crate) fn session(&self, worker: Option<&str>) -> Result<Session, ApiError> {
        if let Some(broken) = self.broken() {
            return Err(ApiError::broken(&self.name, &broken));
        }
        self.find(worker)?.ok_or_else(|| {
            let sessions = self.sessions();
            let workers: Vec<&str> = sessions.iter().map(|session| &*session.entry().id).collect();
            let (name, workers) = (&self.name, workers.join(", "));
            // Without a worker in the request, the default one is found.
            let worker = worker.unwrap_or_default();
            let detail = format!("the program `{name}` does not export `{worker}`; it exports {workers}");
            ApiError::new(Code::NotFound, detail)
        })
    }

    /// The session for a request, with what the request tightens.
    ///
    /// # Errors
    /// There is no such worker, or the request asks for more than the operator has allowed.
    pub(crate) fn for_request(&self, request: &StartRun, starter: Starter) -> Result<Session, ApiError> {
        let session = self.session(request.worker.as_deref())?;
        let served = session.options();
        let arguments = request.input.as_ref().and_then(Value::as_object);
        if let Some(name) = arguments.and_then(|arguments| not_for_clients(session.entry(), arguments)) {
            return Err(ApiError::new(Code::BadInput, format!("the worker has no parameter `{name}`")));
        }
        if request.chat && session.entry().code.is_some() {
            let id = &session.entry().id;
            return Err(ApiError::new(
                Code::BadRequest,
                format!("`{id}` is code, and holds no conversation"),
            ));
        }
        let mut budget = served.budget;
        for text in &request.budget {
            budget = budget
                .and(text)
                .map_err(|error| ApiError::new(Code::BadRequest, format!("budget: {error}")))?;
        }
        let mut rules = served.rules.clone();
        for (field, given, rule) in [("deny", &request.deny, Rule::Blocked), ("ask", &request.ask, Rule::Ask)]
        {
            for text in given {
                rules.push(rule_line(field, text, rule)?);
            }
        }
        let mode = match (request.approval, session.gate().mode) {
            (None, _) => served.mode,
            (Some(wanted), own)
                if own.tighten(wanted) == wanted && wanted != Mode::ApproveAll || wanted == own =>
            {
                Some(wanted)
            }
            // The operator may put off what would be asked at once.
            (Some(Mode::Defer), Mode::Interactive) if matches!(starter, Starter::Owner { .. }) => {
                Some(Mode::Defer)
            }
            (Some(_), _) => {
                return Err(ApiError::new(
                    Code::Forbidden,
                    "approval: a request can only tighten the mode of the server, for example with `auto_deny`",
                ));
            }
        };
        let requester = match &starter {
            Starter::Client { client, via, .. } => {
                Requester { by: Arc::clone(&client.name), via: (*via).into() }
            }
            Starter::Owner { .. } => served.requester.clone(),
        };
        let (can_ask, untrusted_input, client) = match starter {
            Starter::Client { client, trusted, .. } => (true, !trusted, Some(client)),
            // Who chats is there to be asked. The run is one of the operator's own.
            Starter::Owner { attended, .. } => (attended || request.chat, false, None),
        };
        let options = RunOptions {
            mode,
            can_ask,
            rules,
            budget,
            chat: request.chat,
            untrusted_input,
            client,
            client_tools: request.client_tools.clone(),
            requester,
            ..served.clone()
        };
        Ok(session.with_options(options)?)
    }

    /// The session of any of its workers as these texts define it in the place of definition files. It is for a look at the
    /// worker's prompt, and none of its runs begins.
    ///
    /// # Errors
    /// The program does not load with them, or has no such worker.
    pub(crate) fn edited(
        &self,
        host: &dyn Host,
        worker: &str,
        starter: Starter,
        texts: BTreeMap<String, String>,
    ) -> Result<Session, ApiError> {
        let settings = host.settings(&self.target).map_err(|reason| ApiError::new(Code::Program, reason))?;
        let (client, untrusted_input) = match starter {
            Starter::Client { client, trusted, .. } => (Some(client), !trusted),
            Starter::Owner { .. } => (None, false),
        };
        let options = RunOptions { can_ask: true, untrusted_input, client, ..settings.run.clone() };
        let loaded = Located::find(settings)?.edited(texts, worker).load(Effects::Allowed, &options);
        let loaded = loaded.map_err(|problem| match problem {
            Problem::Program(found) => {
                let broken = Broken { reason: "the program has errors".into(), diagnostics: found.0 };
                ApiError::broken(&self.name, &broken)
            }
            problem => problem.into(),
        })?;
        Ok(loaded.grant(options, ModelSource::Providers)?.open()?)
    }

    /// Reads a run that this program's service has left.
    ///
    /// # Errors
    /// It is not the user's, or can't be read.
    pub(crate) fn past(&self, dir: &Path) -> Result<PastRun, Problem> {
        Ok(PastRun::open(dir, self.home())?)
    }

    /// The session that continues such a run.
    ///
    /// # Errors
    /// The run was started by somebody else, or the program has changed since.
    pub(crate) fn for_past(&self, past: &PastRun, host: &dyn Host) -> Result<Session, Problem> {
        let unknown = |reason: String| Problem::from(ResumeError::Unknown(reason));
        past.admits(&Decisions::default())?;
        let Some(Record { body: RecordKind::RunStarted { entry, .. }, .. }) = past.records().first() else {
            return Err(unknown("it has no first record".into()));
        };
        let settings = past.settings(host.settings(&self.target).map_err(unknown)?)?;
        let loaded = match self.find(Some(entry))? {
            Some(session) => session.fits(past).map(|()| session),
            None => Err(unknown(format!("the program `{}` no longer exports `{entry}`", self.name))),
        };
        // Its files may be again what they were when the run began. Runs that begin later keep what was loaded.
        let session = loaded.or_else(|changed| {
            self.reread(entry, host).filter(|session| session.fits(past).is_ok()).ok_or(changed)
        })?;
        session.with_options(RunOptions { can_ask: true, ..settings.run })
    }

    /// The session of a worker, as the files of the program are now. `None`: they do not load, or export no such worker.
    fn reread(&self, worker: &str, host: &dyn Host) -> Option<Session> {
        let sessions = Session::open_exported(host.settings(&self.target).ok()?).ok()?;
        match sessions.iter().find(|session| *session.entry().id == *worker) {
            Some(session) => Some(session.clone()),
            None if self.loaded().others.is_some() => sessions.first()?.worker(worker).ok(),
            None => None,
        }
    }

    /// The folder of that run.
    pub(crate) fn run_dir(&self, id: &str) -> PathBuf {
        self.runs_dir().join(id)
    }
}

/// The programs of a service, by name. The first that was named is the default where there is no other.
pub(crate) struct Programs(BTreeMap<ProgramName, Arc<Served>>);

impl Programs {
    /// # Errors
    /// Two have one name.
    pub(crate) fn new(served: Vec<Served>) -> Result<Self, BadPrograms> {
        let mut programs = BTreeMap::new();
        for program in served {
            let name = program.name.clone();
            if programs.insert(name.clone(), Arc::new(program)).is_some() {
                return Err(BadPrograms::SameName(name));
            }
        }
        Ok(Self(programs))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.0.values()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Served>> {
        self.0.get(&ProgramName(name.into()))
    }

    /// The only program, if there is one.
    pub(crate) fn only(&self) -> Option<&Arc<Served>> {
        self.0.values().next().filter(|_| self.0.len() == 1)
    }
}

/// A rule of a request. Sets of values in files are the operator's.
fn rule_line(field: &str, text: &str, rule: Rule) -> Result<RuleLine, ApiError> {
    let wrong = |error: &dyn fmt::Display| ApiError::new(Code::BadRequest, format!("{field}: {error}"));
    let no_files = |_: &FileSet| Err("a request can't name files".to_owned());
    let Calls { pattern, conditions } = Calls::parse(text, &no_files).map_err(|error| wrong(&error))?;
    if conditions.sets().any(|set| set.file().is_some()) {
        return Err(wrong(&"a request can't name files"));
    }
    Ok(RuleLine::new(pattern, rule, format!("{field} {text} of the request")).when(conditions))
}

fn own_name(session: &Session) -> String {
    let program = session.program();
    let folder = || Some(Path::new(program.root().as_str()).file_name()?.to_string_lossy().into_owned());
    program.manifest().name.clone().or_else(folder).unwrap_or_default()
}
