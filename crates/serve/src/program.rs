//! The programs of a service, by name.

use crate::{
    error::{ApiError, Code},
    views::StartRun,
};
use llm_do::{
    Client, Decisions, PastRun, Problem, ResumeError, RunOptions, Session, Settings,
    core::{
        gate::{Calls, FileSet, Mode, Rule, RuleLine},
        journal::{Record, RecordKind},
    },
    not_for_clients,
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

/// Who starts a run.
pub(crate) enum Starter {
    /// A client, and whether its words are the operator's.
    Client { client: Client, trusted: bool },
    /// The operator, who owns the process: whether questions can be asked, and whether the run is followed from its first
    /// event on.
    Owner { attended: bool, follows: bool },
}

/// The program around a service: its command line, its environment, and its log.
pub trait Host: Send + Sync + 'static {
    /// The settings with which that target is opened.
    ///
    /// # Errors
    /// What is wrong with the command line, and what to do.
    fn settings(&self, target: &str) -> Result<Settings, String>;
    /// Takes a line for the log. It may hold text of clients, with nothing hidden in it.
    fn log(&self, line: &str);
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
    /// A program has no worker for that name.
    #[error("the token `{token}` names the program `{program}`, which is not served")]
    Unknown {
        /// The name of the token.
        token: Arc<str>,
        /// What it names.
        program: Arc<str>,
    },
}

/// A program with the workers that clients may start.
pub struct Served {
    name: ProgramName,
    target: String,
    /// The first is the default.
    sessions: Vec<Session>,
    /// Those of other workers, which only the operator has started.
    others: Mutex<BTreeMap<String, Session>>,
}

impl Served {
    /// A program from the sessions of its workers, as [`Session::open_exported`] gives them for that target. Without a name
    /// it has that of its manifest, else that of its folder.
    ///
    /// # Errors
    /// It has no name that clients could say.
    pub fn new(
        name: Option<ProgramName>,
        target: String,
        sessions: Vec<Session>,
    ) -> Result<Self, BadPrograms> {
        let name = match name {
            Some(name) => name,
            None => sessions.first().map(own_name).unwrap_or_default().parse()?,
        };
        Ok(Self { name, target, sessions, others: Mutex::default() })
    }

    /// The program of the one client that owns the process, which need not say its name.
    pub(crate) fn of_owner(target: String, sessions: Vec<Session>) -> Self {
        let name = ProgramName(sessions.first().map(own_name).unwrap_or_default().into());
        Self { name, target, sessions, others: Mutex::default() }
    }

    /// Its name.
    pub fn name(&self) -> &ProgramName {
        &self.name
    }

    /// Its workers, the default first.
    pub(crate) fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// The folder of its journals.
    pub(crate) fn runs_dir(&self) -> &Path {
        self.sessions.first().map(Session::runs_dir).unwrap_or(Path::new(""))
    }

    fn home(&self) -> &Path {
        self.sessions.first().map(Session::home).unwrap_or(Path::new(""))
    }

    /// The session of any worker of the program, for the operator.
    ///
    /// # Errors
    /// There is no such worker, or it can't be run.
    fn any_session(&self, worker: Option<&str>) -> Result<Session, ApiError> {
        let (exported, first) = (self.session(worker), self.sessions.first());
        let (Err(_), Some(id), Some(first)) = (&exported, worker, first) else { return exported.cloned() };
        let others = || self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let known = others().get(id).cloned();
        if let Some(session) = known {
            return Ok(session);
        }
        let session = first.worker(id)?;
        others().insert(id.to_owned(), session.clone());
        Ok(session)
    }

    fn session(&self, worker: Option<&str>) -> Result<&Session, ApiError> {
        let found = match worker {
            None => self.sessions.first(),
            Some(id) => self.sessions.iter().find(|session| *session.entry().id == *id),
        };
        found.ok_or_else(|| {
            let workers: Vec<&str> = self.sessions.iter().map(|session| &*session.entry().id).collect();
            ApiError::new(
                Code::NotFound,
                format!(
                    "the program `{}` exports no such worker; it exports {}",
                    self.name,
                    workers.join(", ")
                ),
            )
        })
    }

    /// The session for a request, with what the request tightens.
    ///
    /// # Errors
    /// There is no such worker, or the request asks for more than the operator has allowed.
    pub(crate) fn for_request(&self, request: &StartRun, starter: Starter) -> Result<Session, ApiError> {
        let worker = request.worker.as_deref();
        let session = match &starter {
            Starter::Client { .. } => self.session(worker)?.clone(),
            Starter::Owner { .. } => self.any_session(worker)?,
        };
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
        let (can_ask, untrusted_input, client) = match starter {
            Starter::Client { client, trusted } => (true, !trusted, Some(client)),
            // Who chats is there to be asked.
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
            ..served.clone()
        };
        Ok(session.with_options(options)?)
    }

    /// Reads a run that this program's service has left.
    ///
    /// # Errors
    /// It is not the user's, or can't be read.
    pub(crate) fn past(&self, dir: &Path) -> Result<PastRun, Problem> {
        Ok(PastRun::open(dir, self.home())?)
    }

    /// The session that continues such a run: of any worker if the operator continues it.
    ///
    /// # Errors
    /// The run was started by somebody else, or the program has changed since.
    pub(crate) fn for_past(
        &self,
        past: &PastRun,
        host: &dyn Host,
        by_owner: bool,
    ) -> Result<Session, Problem> {
        let unknown = |reason: String| Problem::from(ResumeError::Unknown(reason));
        past.admits(&Decisions::default())?;
        let Some(Record { body: RecordKind::RunStarted { entry, .. }, .. }) = past.records().first() else {
            return Err(unknown("it has no first record".into()));
        };
        let settings = past.settings(host.settings(&self.target).map_err(unknown)?)?;
        let found = match by_owner {
            true => self.any_session(Some(entry)).ok(),
            false => self.sessions.iter().find(|session| session.entry().id == *entry).cloned(),
        };
        let session = found
            .ok_or_else(|| unknown(format!("the program `{}` no longer exports `{entry}`", self.name)))?;
        session.with_options(RunOptions { can_ask: true, ..settings.run })
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
