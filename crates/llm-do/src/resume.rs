//! Going on with a run that was suspended or cut off (SPEC §12).

use crate::{
    grant::Grant,
    session::{Input, Settings},
};
use llm_do_core::{
    call_path::CallPath,
    engine::{Halt, Principal},
    gate::{Mode, Pattern, Rule, RuleLine},
    journal::{Record, RecordKind, RunStatus, UsedDefinition},
    ledger::Budget,
    model::{ModelName, ModelSettings},
    operator::{Answer, Ask},
};
use llm_do_program::target::Request;
use llm_do_runs::{History, ReadError, ReopenError, SealKey, Settle, read_own_journal};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// How a run was started, as its journal tells it: what the operator said, and where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Invocation {
    /// The program.
    pub request: Request,
    /// The current directory.
    pub here: PathBuf,
    /// `--model`.
    pub model: Option<ModelName>,
    /// `--set`.
    pub set: ModelSettings,
    /// `--approval`.
    pub mode: Option<Mode>,
    /// `--deny`, `--ask`, `--allow`.
    pub rules: Vec<RuleGiven>,
    /// `--grant`.
    pub grants: Vec<String>,
    /// `--budget`.
    pub budget: Budget,
    /// What the entry was given.
    pub input: Input,
}

/// One rule of the operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleGiven {
    /// The pattern.
    pub pattern: String,
    /// What it says.
    pub rule: Rule,
    /// Where it came from: `--deny write_file`.
    pub origin: Arc<str>,
}

impl Invocation {
    /// What the operator said, without the input.
    pub(crate) fn of(settings: &Settings) -> Self {
        let rules = settings.rules.iter().map(|line| RuleGiven {
            pattern: line.pattern.to_string(),
            rule: line.rule,
            origin: Arc::clone(&line.origin),
        });
        Self {
            request: settings.request.clone(),
            here: settings.around.here.clone(),
            model: settings.model.clone(),
            set: settings.set.clone(),
            mode: settings.mode,
            rules: rules.collect(),
            grants: settings.grants.iter().map(ToString::to_string).collect(),
            budget: settings.budget,
            input: Input::default(),
        }
    }

    /// The settings that it was started with; `base` gives what belongs to this machine and moment.
    ///
    /// # Errors
    /// Its rules or grants can't be read any more.
    pub(crate) fn settings(&self, base: Settings) -> Result<Settings, ResumeError> {
        let Invocation { request, here, model, set, mode, rules, grants, budget, .. } = self.clone();
        let unknown = |error: String| ResumeError::Unknown(error);
        let rules = rules.into_iter().map(|RuleGiven { pattern, rule, origin }| {
            let pattern = Pattern::parse(&pattern).map_err(|error| unknown(error.to_string()))?;
            Ok(RuleLine { pattern, rule, origin })
        });
        let grants = grants.iter().map(|text| Grant::parse(text).map_err(|error| unknown(error.to_string())));
        let mut around = base.around;
        around.here = here;
        Ok(Settings {
            request,
            around,
            model,
            set,
            mode,
            budget,
            rules: rules.collect::<Result<_, ResumeError>>()?,
            grants: grants.collect::<Result<_, ResumeError>>()?,
            ..base
        })
    }

    /// For the journal.
    pub(crate) fn with(&self, input: &Input) -> Arc<Value> {
        let whole = Self { input: input.clone(), ..self.clone() };
        // Paths that are not Unicode can't be told; a run with one can't be resumed.
        Arc::new(serde_json::to_value(whole).unwrap_or(Value::Null))
    }
}

/// Why a run can't be resumed.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The key that tells own journals from others' can't be read.
    #[error("no journal is known to be your own: {0}")]
    Key(String),
    /// Its journal can't be read, or was not written by this user's llm-do.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its journal can't be gone on with.
    #[error(transparent)]
    Reopen(#[from] ReopenError),
    /// It has an end.
    #[error("the run is {0}: there is nothing left to do")]
    Over(&'static str),
    /// Its first record does not tell how it was started.
    #[error("the journal does not tell how the run was started: {0}")]
    Unknown(String),
    /// A worker is not what it was.
    #[error(
        "`{worker}` ({file}) has changed since the run began: a run goes on only with the workers that it began with"
    )]
    Changed {
        /// The worker.
        worker: Arc<str>,
        /// Its file.
        file: Arc<str>,
    },
    /// A decision is about nothing that waits.
    #[error("nothing waits at `{0}`")]
    NotAsked(String),
    /// The question was answered before.
    #[error("`{0}` is already decided")]
    AlreadyDecided(String),
    /// That it goes on can't be recorded.
    #[error(transparent)]
    Halt(#[from] Halt),
}

/// A run that is to go on, read from its journal.
#[derive(Debug)]
pub struct PastRun {
    dir: PathBuf,
    key: SealKey,
    records: Vec<Record>,
    invocation: Invocation,
    mode: Mode,
    date: Arc<str>,
}

impl PastRun {
    /// Reads a run that was suspended, interrupted or cut off. What it was allowed is believed, so it must have been written
    /// by the llm-do whose folder (`~/.llm-do`) is `home`: a project from somewhere else may bring runs along.
    ///
    /// # Errors
    /// It can't be read, was written by somebody else, or does not tell how it was started.
    pub fn open(dir: &Path, home: &Path) -> Result<Self, ResumeError> {
        let key = SealKey::read(home).map_err(|error| ResumeError::Key(error.to_string()))?;
        let records = read_own_journal(dir, &key)?.records;
        let Some(Record { body: RecordKind::RunStarted { invocation, approval, date, .. }, .. }) =
            records.first()
        else {
            return Err(ResumeError::Unknown("it was cut off before its first record".into()));
        };
        let invocation = invocation.as_deref().cloned().unwrap_or_default();
        let invocation =
            Invocation::deserialize(invocation).map_err(|error| ResumeError::Unknown(error.to_string()))?;
        let (mode, date) = (*approval, Arc::clone(date));
        Ok(Self { dir: dir.to_owned(), key, records, invocation, mode, date })
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The key that its journal is sealed with.
    pub(crate) fn key(&self) -> &SealKey {
        &self.key
    }

    /// How it was started.
    pub fn invocation(&self) -> &Invocation {
        &self.invocation
    }

    /// What `ask` does in it.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What it was given.
    pub fn input(&self) -> Input {
        self.invocation.input.clone()
    }

    /// The settings that it was started with; `base` gives what belongs to this machine and moment.
    ///
    /// # Errors
    /// Its rules or grants can't be read any more.
    pub fn settings(&self, base: Settings) -> Result<Settings, ResumeError> {
        // Which tools a worker is offered hangs on the mode: it is what it was.
        Ok(Settings { mode: Some(self.mode), unattended: Mode::Defer, ..self.invocation.settings(base)? })
    }

    /// The questions that it waits for, by their places.
    pub fn questions(&self) -> Vec<Ask> {
        self.history().open_questions().into_values().cloned().collect()
    }

    /// The leaves that had begun and not ended, that may have had their effect, and that left nothing by which to tell.
    pub fn unsettled(&self) -> Vec<CutOffLeaf> {
        let history = self.history();
        let leaf = |(path, function): (&CallPath, &Arc<str>)| {
            let started = self.records.iter().find_map(|record| match &record.body {
                RecordKind::CallStarted { principal, input, .. } if record.path == *path => {
                    Some((principal, input))
                }
                _ => None,
            });
            let (worker, input) = match started {
                Some((Principal::Worker(worker) | Principal::Tool { worker, .. }, input)) => {
                    (worker.clone(), input.clone())
                }
                Some((Principal::Operator, input)) => ("the operator".into(), input.clone()),
                None => (Arc::default(), Arc::default()),
            };
            CutOffLeaf { path: path.clone(), worker, function: Arc::clone(function), input }
        };
        history.unsettled().into_iter().map(leaf).collect()
    }

    /// Whether it can go on with these decisions.
    ///
    /// # Errors
    /// A decision is about nothing that waits, or the run has an end.
    pub fn admits(&self, decisions: &Decisions) -> Result<(), ResumeError> {
        decisions.admitted_by(&self.records)
    }

    fn history(&self) -> History {
        History::of(self.records.clone(), HashMap::new())
    }

    /// Whether its entry has begun to work, with what was attached to it.
    pub(crate) fn has_begun(&self) -> bool {
        self.history().has_conversation(&CallPath::root())
    }

    pub(crate) fn date(&self) -> Arc<str> {
        Arc::clone(&self.date)
    }

    /// That the program's workers are those that the run began with.
    pub(crate) fn fits(&self, used: &[UsedDefinition]) -> Result<(), ResumeError> {
        let Some(Record { body: RecordKind::RunStarted { definitions, .. }, .. }) = self.records.first()
        else {
            return Ok(());
        };
        let changed = definitions
            .iter()
            .find(|then| !used.iter().any(|now| now.worker == then.worker && now.sha256 == then.sha256));
        match changed {
            Some(then) => {
                Err(ResumeError::Changed { worker: Arc::clone(&then.worker), file: Arc::clone(&then.file) })
            }
            None => Ok(()),
        }
    }
}

/// A leaf that had begun and not ended when its run was cut off.
#[derive(Clone, Debug, PartialEq)]
pub struct CutOffLeaf {
    /// Its place.
    pub path: CallPath,
    /// Who called it.
    pub worker: Arc<str>,
    /// What was called.
    pub function: Arc<str>,
    /// With what.
    pub input: Arc<Value>,
}

/// What the operator has decided about what a run waits for.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    /// Answers to questions, by the places of their calls.
    pub answers: HashMap<CallPath, Answer>,
    /// What becomes of leaves that were cut off, by their places.
    pub settle: HashMap<CallPath, Settle>,
}

impl Decisions {
    /// Whether each is about something that waits, in a run that has no end.
    pub(crate) fn admitted_by(&self, records: &[Record]) -> Result<(), ResumeError> {
        let history = History::of(records.to_vec(), HashMap::new());
        let (questions, cut_off) = (history.open_questions(), history.cut_off());
        if let Some(path) = self.answers.keys().find(|path| !questions.contains_key(path)) {
            return Err(match history.is_answered(path) {
                true => ResumeError::AlreadyDecided(path.to_string()),
                false => ResumeError::NotAsked(path.to_string()),
            });
        }
        if let Some(path) = self.settle.keys().find(|path| !cut_off.contains_key(path)) {
            return Err(ResumeError::NotAsked(path.to_string()));
        }
        match records.last() {
            Some(Record { body: RecordKind::RunEnded { status, .. }, .. }) => match status {
                RunStatus::Suspended | RunStatus::Interrupted => Ok(()),
                RunStatus::Done => Err(ResumeError::Over("done")),
                RunStatus::Failed | RunStatus::Limit | RunStatus::Refused => {
                    Err(ResumeError::Over("over, and has failed"))
                }
            },
            _ => Ok(()),
        }
    }
}
