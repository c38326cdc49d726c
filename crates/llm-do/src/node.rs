//! Runs on a cluster: their start at a client, and their execution on a node (`docs/guides/cluster.md`).

use crate::{
    located::Located,
    open_questions::now_ms,
    problem::Problem,
    resume::{Decisions, ResumeError, fits},
    run::Run,
    session::{Session, today},
    settings::{Input, RunOptions, Settings},
};
use llm_do_core::{
    authority::Access,
    gate::Mode,
    journal::RecordKind,
    launch::RunRecords,
    origin::UntrustedPlaces,
    question::{Given, QuestionId, Requester, Waiting},
};
use llm_do_host::{Effects, Host as _, Invocation, ModelSource, Past, RunPorts};
use llm_do_records::{BlobSource, parse_line};
use llm_do_runs::{JournalLog, JournalWriter, ReadError, SealKey};
use llm_do_sandbox::place_of;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The start of a run on a cluster, as its client stores it. Paths in the program's folder are relative to that folder, because
/// each node has a copy of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClusterStart {
    /// The command, its options and its input.
    pub invocation: Invocation,
    /// The person or program that started the run.
    pub requester: Requester,
    /// Time after which a question expires, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions_expire_ms: Option<u64>,
}

/// The log of a run that a node executes.
pub struct NodeLog {
    /// ID of the run.
    pub id: Arc<str>,
    /// The folder that takes long values on their way to the log.
    pub dir: Arc<Path>,
    /// The log that takes the lines.
    pub log: Box<dyn JournalLog>,
    /// The key of the run's seals.
    pub key: SealKey,
    /// The lines that the log has of the run so far.
    pub before: Vec<Vec<u8>>,
    /// The places that earlier runs wrote untrusted words to.
    pub untrusted: Arc<dyn UntrustedPlaces>,
}

impl Session {
    /// Returns the start of a run with that input for a cluster. Attached files are read now.
    ///
    /// # Errors
    /// The input does not fit, or the program can't run on a cluster: it is a lone file, or it writes to a folder of its own.
    pub fn cluster_start(&self, input: &Input) -> Result<ClusterStart, Problem> {
        let prepared = self.prepare(input, true)?;
        let root = self.cluster_root()?;
        let options = self.options();
        let input = Input { attachments: Vec::new(), contents: prepared.attachments, ..input.clone() };
        let here = self.host().current_dir().to_owned();
        let input = self.with_paths_that_travel(input, &here, &root);
        let unrecorded = |reason: String| not_on_cluster(format!("its command can't be recorded ({reason})"));
        let RunRecords::New(start) = self.start_record(&input) else {
            return Err(unrecorded("it has no start".into()));
        };
        let given = start.invocation.unwrap_or_default();
        let mut invocation =
            Invocation::deserialize(&*given).map_err(|error| unrecorded(error.to_string()))?;
        let target = invocation.request.positionals.first().map(|target| here.join(target));
        let target = target.and_then(|target| fs::canonicalize(target).ok());
        let target = target.and_then(|target| Some(target.strip_prefix(&root).ok()?.to_owned()));
        // Beside a message, if an empty one, a word is never the message.
        invocation.request.positionals =
            vec![target.unwrap_or_default().to_string_lossy().into_owned(), String::new()];
        invocation.request.project = None;
        invocation.here = PathBuf::new();
        // Questions wait in the database. A replay uses the recorded mode.
        invocation.mode = Some(match self.gate().mode {
            Mode::Interactive => Mode::Defer,
            mode => mode,
        });
        invocation.grants = self.grants().iter().map(ToString::to_string).collect();
        Ok(ClusterStart {
            invocation,
            requester: options.requester.clone(),
            questions_expire_ms: options
                .questions_expire
                .map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
        })
    }

    /// Returns the folder of a program that can run on a cluster.
    ///
    /// # Errors
    /// The program is a lone file, or a worker has a mount that it writes to below the program's folder, of which each node has
    /// its own copy.
    pub fn cluster_root(&self) -> Result<PathBuf, Problem> {
        let program = self.program();
        if self.loaded().is_lone_file() {
            return Err(not_on_cluster("it is a lone worker file, and nodes get a project's folder".into()));
        }
        let mut writes = BTreeSet::new();
        for worker in program.loaded() {
            let mounts = worker.sandbox.narrowing.mounts.iter();
            let inside =
                mounts.filter(|mount| mount.access == Access::Write && mount.place.is_within(program.root()));
            writes.extend(inside.map(|mount| (Arc::clone(&worker.id), mount.place.clone())));
        }
        if let Some((worker, place)) = writes.first() {
            return Err(not_on_cluster(format!(
                "`{worker}` writes to {}, which is in the program's folder, and each node has its own copy of that: mount a folder \
                 that all nodes share at the same path, and grant it",
                place.as_str()
            )));
        }
        fs::canonicalize(program.root().as_str()).map_err(|error| not_on_cluster(error.to_string()))
    }

    /// Makes the paths of an input valid on every node: those in the program's folder relative to it, others absolute.
    fn with_paths_that_travel(&self, mut input: Input, here: &Path, root: &Path) -> Input {
        let travelling = |text: &str| {
            let whole = here.join(text);
            let real = fs::canonicalize(&whole).unwrap_or(whole);
            match real.strip_prefix(root) {
                Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
                Ok(below) => below.to_string_lossy().into_owned(),
                Err(_) => real.to_string_lossy().into_owned(),
            }
        };
        for parameter in self.entry().signature.parameters.iter().filter(|parameter| parameter.path.is_some())
        {
            for (name, value) in &mut input.parameters {
                if *name == *parameter.name {
                    *value = travelling(value);
                }
            }
            if let Some(value) = input.json.as_mut().and_then(|json| json.get_mut(&*parameter.name))
                && let Value::String(text) = value
            {
                *value = Value::String(travelling(text));
            }
        }
        input
    }

    /// Prepares a run on a node, or continues it: with records in the log, the run takes the steps that they contain from there.
    /// Answers to questions that are not open have no effect. Must be called inside a runtime.
    ///
    /// # Errors
    /// The input does not fit, the program is not the one that the run began with, or the log can't be read or written.
    pub fn run_on_node(
        &self,
        log: NodeLog,
        input: &Input,
        answers: BTreeMap<QuestionId, Given>,
    ) -> Result<Run, Problem> {
        let NodeLog { id, dir, log, key, before, untrusted } = log;
        let redactor = Arc::clone(self.host().redactor());
        let (journal, before) =
            JournalWriter::within(log, Arc::clone(&id), Arc::clone(&dir), redactor, Some(&key), &before)
                .map_err(|problem| damaged(&dir, problem))?;
        let past = match before.is_empty() {
            true => None,
            false => Some(Past::of(before).map_err(|error: ResumeError| error)?),
        };
        let Some(past) = past else {
            let start = self.prepare(input, true)?;
            let ports = RunPorts { id, date: today(), log: journal, operator: None, events: None, untrusted };
            let (run, driver) = self.begin(ports, start, self.start_record(input));
            return Ok(Run::new(run, driver));
        };
        fits(past.records(), self.definitions())?;
        let start = self.prepare(input, !past.has_begun())?;
        let mut open = Decisions::default();
        for (id, given) in answers {
            let one = Decisions([(id, given)].into());
            let admitted: Result<(), ResumeError> = one.admitted_by(past.records(), now_ms());
            if admitted.is_ok() {
                open.0.extend(one.0);
            }
        }
        let date = Arc::clone(past.date());
        let ports = RunPorts { id, date, log: journal, operator: None, events: None, untrusted };
        let resumed = self.resumed(ports, start, past.history(), open.0);
        let (run, driver) = resumed.map_err(ResumeError::from)?;
        Ok(Run::new(run, driver))
    }
}

impl ClusterStart {
    /// Opens the program in that folder for a run on a node. `base` provides what depends on the node: environment, providers,
    /// toolsets. `mode` is the recorded mode of a run that has begun. Nothing is recorded outside of `dir`.
    ///
    /// # Errors
    /// As for [`Session::open`].
    pub fn open(
        &self,
        program: &Path,
        dir: &Path,
        base: Settings,
        mode: Option<Mode>,
    ) -> Result<Session, Problem> {
        let mut request = self.invocation.request.clone();
        if let Some(target) = request.positionals.first_mut() {
            *target = program.join(&*target).to_string_lossy().into_owned();
        }
        let options = self.invocation.options(base.run, &place_of).map_err(ResumeError::from)?;
        let options = RunOptions {
            // The mode decides which tools a worker is offered, so that it can't change.
            mode: mode.or(options.mode),
            unattended: Mode::Defer,
            can_ask: false,
            program_is_copy: true,
            requester: self.requester.clone(),
            questions_expire: self.questions_expire_ms.map(Duration::from_millis),
            ..options
        };
        let mut around = base.around.clone();
        around.here = program.to_owned();
        // The bundle alone decides what the program is.
        around.project = None;
        let settings = Settings { request, around, run: options.clone(), ..base };
        let loaded = Located::find(settings)?.recorded_in(dir.to_owned()).load(Effects::Allowed, &options)?;
        loaded.grant(options, ModelSource::Providers)?.open()
    }
}

/// Returns the recorded mode of a run, if its log has a first record.
///
/// # Errors
/// The line is no record.
pub fn recorded_mode(first: &[u8], dir: &Path) -> Result<Option<Mode>, Problem> {
    let record = parse_line(first, &Values(dir)).map_err(|problem| damaged(dir, problem))?;
    Ok(match record.body {
        RecordKind::RunStarted { approval, .. } => Some(approval),
        _ => None,
    })
}

/// Returns the time in seconds until the first of the open questions expires.
pub fn first_expiry(waiting: &[Waiting]) -> Option<u64> {
    let first = waiting.iter().filter_map(|waiting| waiting.question.expires_ms()).min()?;
    // One second more: the question must have expired when the run looks at it.
    Some(first.saturating_sub(now_ms()) / 1000 + 1)
}

/// The long values of a run in its folder.
struct Values<'a>(&'a Path);

impl BlobSource for Values<'_> {
    fn read(&self, hash: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        File::open(self.0.join("blobs").join(hash))?.take(most).read_to_end(&mut content)?;
        Ok(content)
    }
}

fn damaged(dir: &Path, problem: llm_do_records::Problem) -> Problem {
    ResumeError::Read(ReadError::Line { path: dir.to_path_buf(), line: 1, problem }).into()
}

fn not_on_cluster(reason: String) -> Problem {
    Problem::NotOnCluster { reason }
}
