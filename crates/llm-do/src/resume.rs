//! Resuming a run that was suspended or interrupted. See `docs/guides/runs.md`. [`llm_do_records::History`] finds the
//! steps that the resumed run skips.

use crate::{
    invocation,
    open_questions::now_ms,
    run::Report,
    settings::{Input, RunOptions, Settings},
};
use llm_do_core::{
    call_path::CallPath,
    engine::{End, Halt},
    function::tool_name,
    gate::Mode,
    journal::{Ending, Queued, Record, RecordKind, RunStatus, UsedDefinition},
    launch::Counts,
    question::{Answer, EXPIRED, Given, NotAccepted, Question, QuestionId, Waiting},
    schema::Schema,
};
use llm_do_host::{BadInvocation, Invocation};
use llm_do_records::{History, Redactor};
use llm_do_runs::{
    JournalWriter, ReadError, ReopenError, SealKey, keeps_running, read_own_journal, writer_of,
};
use llm_do_sandbox::place_of;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The reason why a run can't be resumed.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// The key that distinguishes the user's own journals can't be read.
    #[error("no journal is known to be your own: {0}")]
    Key(String),
    /// The journal can't be read, or was not written by this user's llm-do.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The journal can't be continued.
    #[error(transparent)]
    Reopen(#[from] ReopenError),
    /// The run has ended.
    #[error("the run is {0}: there is nothing left to do")]
    Over(&'static str),
    /// The first record does not say how the run was started.
    #[error("the journal does not tell how the run was started: {0}")]
    Unknown(String),
    /// A worker has changed.
    #[error(
        "`{worker}` ({file}) has changed since the run began: a run can be resumed only with the workers that it began with"
    )]
    Changed {
        /// The worker.
        worker: Arc<str>,
        /// The file of the worker.
        file: Arc<str>,
    },
    /// The code of a worker's tools has changed.
    #[error(
        "the code of the tools of `{worker}` ({file}) has changed since the run began: a run can be resumed only with the code \
         that it began with"
    )]
    ChangedCode {
        /// The worker.
        worker: Arc<str>,
        /// The file of the worker.
        file: Arc<str>,
    },
    /// A decision is about a question that is not open.
    #[error("nothing waits at `{0}`")]
    NotAsked(QuestionId),
    /// The question already has an answer.
    #[error("`{id}` is already decided, by {by} ({via})")]
    AlreadyDecided {
        /// The question.
        id: QuestionId,
        /// The author of the answer.
        by: Arc<str>,
        /// The channel of the answer.
        via: Arc<str>,
    },
    /// The question has expired.
    #[error(
        "the question `{0}` has expired and takes no answer any more: the call counts as denied. `llm-do runs resume` without a \
         decision about it continues the run"
    )]
    Expired(QuestionId),
    /// The answer does not fit the question, which stays open.
    #[error("the question `{id}` still waits: {why}")]
    NotAccepted {
        /// The question.
        id: QuestionId,
        /// The reason.
        why: NotAccepted,
    },
    /// The arguments of an edit don't fit the tool.
    #[error("the new arguments for `{id}` don't fit the schema of `{function}`: {wrong}")]
    BadArguments {
        /// The question.
        id: QuestionId,
        /// The tool.
        function: Arc<str>,
        /// Every violation.
        wrong: String,
    },
    /// The resume can't be recorded.
    #[error(transparent)]
    Halt(#[from] Halt),
}

/// A run to be continued, read from its journal.
#[derive(Debug)]
pub struct PastRun {
    dir: PathBuf,
    key: SealKey,
    records: Vec<Record>,
    invocation: Invocation,
    mode: Mode,
    date: Arc<str>,
}

impl From<BadInvocation> for ResumeError {
    fn from(error: BadInvocation) -> Self {
        Self::Unknown(error.to_string())
    }
}

impl PastRun {
    /// Reads a run that was suspended, interrupted or cut off. Its recorded permissions are trusted, so it must have
    /// been written by the llm-do whose folder (`~/.llm-do`) is `home`: a project from elsewhere may bring runs along.
    ///
    /// # Errors
    /// The run is active in another process, can't be read, was written by another user, or does not say how it was
    /// started.
    pub fn open(dir: &Path, home: &Path) -> Result<Self, ResumeError> {
        // Its questions and unfinished calls are those of the other process.
        if keeps_running(dir) {
            return Err(ReopenError::Running { holder: writer_of(dir) }.into());
        }
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

    /// Returns the folder of the run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the records of the run so far.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the invocation with which the run was started.
    pub fn invocation(&self) -> &Invocation {
        &self.invocation
    }

    /// Returns the mode of the run, which is the effect of `ask`.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the input of the run.
    pub fn input(&self) -> Input {
        self.invocation.input.clone()
    }

    /// Returns the settings with which the run was started; `base` provides those that depend on this machine and the
    /// current time.
    ///
    /// # Errors
    /// The rules or grants of the run can't be read any more.
    pub fn settings(&self, base: Settings) -> Result<Settings, ResumeError> {
        let settings = invocation::settings(&self.invocation, base, &self.dir)?;
        Ok(Settings { run: self.resumed(settings.run), ..settings })
    }

    /// Returns the options with which the run was started, for an open session of its program; `base` provides those
    /// that are not recorded.
    ///
    /// # Errors
    /// The rules or grants of the run can't be read any more.
    pub fn options(&self, base: RunOptions) -> Result<RunOptions, ResumeError> {
        Ok(self.resumed(self.invocation.options(base, &place_of)?))
    }

    fn resumed(&self, options: RunOptions) -> RunOptions {
        // The mode decides which tools a worker is offered, so that it can't change.
        RunOptions { mode: Some(self.mode), unattended: Mode::Defer, ..options }
    }

    /// Returns the open questions of the run.
    pub fn waiting(&self) -> Vec<Waiting> {
        self.history().waiting()
    }

    /// Returns the messages that wait for the conversation of the entry, oldest first.
    pub fn queued(&self) -> Vec<Queued> {
        self.history().queued(&CallPath::root()).to_vec()
    }

    /// Returns the answered questions, each with the author of its answer.
    pub fn answered(&self) -> impl Iterator<Item = (QuestionId, Arc<str>)> {
        self.records.iter().filter_map(|record| match &record.body {
            RecordKind::Answered(given) => {
                Some((QuestionId::new(&record.path, &record.step), Arc::clone(&given.by)))
            }
            _ => None,
        })
    }

    /// Returns true if the last record suspends the run, so it was not cut off later.
    pub fn is_suspended(&self) -> bool {
        let end = self.records.last().map(|record| &record.body);
        matches!(end, Some(RecordKind::RunEnded { status: RunStatus::Suspended, .. }))
    }

    /// Returns the end of the run from its records, or `None` if the run can be continued.
    pub fn report(&self) -> Option<Report> {
        let Some(Record { body: RecordKind::RunEnded { status, ending, usage }, at_ms, .. }) =
            self.records.last()
        else {
            return None;
        };
        if matches!(status, RunStatus::Suspended | RunStatus::Interrupted) {
            return None;
        }
        let end = match ending {
            Ending::Output(value) => End::Done(Arc::clone(value)),
            Ending::Failure(failure) => End::Failed(failure.clone()),
            Ending::Suspended => return None,
        };
        let Some(RecordKind::RunStarted { run, .. }) = self.records.first().map(|first| &first.body) else {
            return None;
        };
        let origins = self.records.iter().rev().find_map(|record| match &record.body {
            RecordKind::CallEnded { origins, .. } if record.path == CallPath::root() => Some(origins.clone()),
            _ => None,
        });
        let history = self.history();
        let took = at_ms.saturating_sub(history.began_ms).saturating_sub(history.idle_ms);
        Some(Report {
            run: Arc::clone(run),
            dir: self.dir.clone(),
            status: *status,
            end,
            origins: origins.unwrap_or_default(),
            usage: *usage,
            took: Duration::from_millis(took),
            counts: Counts::of(self.records.iter().map(|record| &record.body)),
            left: None,
            halt: None,
            over_budget: None,
        })
    }

    /// Checks that the run can continue with these decisions.
    ///
    /// # Errors
    /// A decision is about a question that is not open, or the run has ended.
    pub fn admits(&self, decisions: &Decisions) -> Result<(), ResumeError> {
        decisions.admitted_by(&self.records)
    }

    fn history(&self) -> History {
        History::of(self.records.clone())
    }

    /// Returns true if the conversation of the entry has begun, with its attachments.
    pub(crate) fn has_begun(&self) -> bool {
        self.history().has_conversation(&CallPath::root())
    }

    /// Opens the journal for further records, and returns its contents.
    pub(crate) fn reopen(
        &self,
        decisions: &Decisions,
        redactor: Arc<Redactor>,
    ) -> Result<(JournalWriter, History), ResumeError> {
        let (journal, records) = JournalWriter::reopen(&self.dir, redactor, &self.key)?;
        // Read again under the lock: another process may have resumed the run in between.
        decisions.admitted_by(&records)?;
        Ok((journal, History::of(records)))
    }

    /// Copies the run into a new one. Returns the folder of the copy.
    pub(crate) fn fork(&self, redactor: Arc<Redactor>) -> Result<PathBuf, ResumeError> {
        Ok(llm_do_runs::fork(&self.dir, redactor, &self.key)?)
    }

    pub(crate) fn date(&self) -> Arc<str> {
        Arc::clone(&self.date)
    }

    /// Checks that the program's workers, its manifest and the sets of its rules are those with which the run began.
    pub(crate) fn fits(&self, used: &[UsedDefinition]) -> Result<(), ResumeError> {
        fits(&self.records, used)
    }
}

/// Checks that these definitions are those with which the run of the records began.
pub(crate) fn fits(records: &[Record], used: &[UsedDefinition]) -> Result<(), ResumeError> {
    let Some(Record { body: RecordKind::RunStarted { definitions, .. }, .. }) = records.first() else {
        return Ok(());
    };
    for then in definitions {
        let now = used.iter().find(|now| now.worker == then.worker);
        let (worker, file) = (Arc::clone(&then.worker), Arc::clone(&then.file));
        let Some(now) = now.filter(|now| now.sha256 == then.sha256) else {
            return Err(ResumeError::Changed { worker, file });
        };
        // Runs of earlier versions recorded no code.
        if then.code_sha256.is_some() && then.code_sha256 != now.code_sha256 {
            return Err(ResumeError::ChangedCode { worker, file });
        }
    }
    // A manifest, or a set of a rule, that there was not then.
    let is_new = |now: &&UsedDefinition| {
        now.worker.starts_with('@') && !definitions.iter().any(|then| then.worker == now.worker)
    };
    match used.iter().find(is_new) {
        Some(now) => {
            Err(ResumeError::Changed { worker: Arc::clone(&now.worker), file: Arc::clone(&now.file) })
        }
        None => Ok(()),
    }
}

/// Checks that the arguments of an edit fit the schema of the tool that the model was offered. A call of code has no
/// schema there: the engine checks its arguments.
fn fits_schema(
    records: &[Record],
    id: &QuestionId,
    question: &Question,
    given: &Given,
) -> Result<(), ResumeError> {
    let (Answer::Edit { input }, Question::Approval(approval)) = (&given.answer, question) else {
        return Ok(());
    };
    let caller = id.call.parent();
    let name = tool_name(&approval.function);
    let offered = records.iter().rev().find_map(|record| match &record.body {
        RecordKind::ConversationStarted { tools, .. } if Some(&record.path) == caller.as_ref() => {
            tools.iter().find(|tool| *tool.name == *name)
        }
        _ => None,
    });
    let Some(schema) = offered.and_then(|tool| Schema::new((*tool.input).clone()).ok()) else {
        return Ok(());
    };
    schema.accept(input).map(drop).map_err(|wrong| ResumeError::BadArguments {
        id: id.clone(),
        function: Arc::clone(&approval.function),
        wrong: wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
    })
}

/// The operator's answers to the questions that a run waits for.
#[derive(Clone, Debug, Default)]
pub struct Decisions(pub BTreeMap<QuestionId, Given>);

impl Decisions {
    /// Checks that each decision answers an open question, in a run that has not ended.
    pub(crate) fn admitted_by(&self, records: &[Record]) -> Result<(), ResumeError> {
        let history = History::of(records.to_vec());
        for (id, given) in &self.0 {
            if let Some(Given { by, via, .. }) = history.answer_to(id) {
                if **via == *EXPIRED {
                    return Err(ResumeError::Expired(id.clone()));
                }
                let (by, via) = (Arc::clone(by), Arc::clone(via));
                return Err(ResumeError::AlreadyDecided { id: id.clone(), by, via });
            }
            match history.question(id) {
                Some(question) if question.has_expired(now_ms()) => {
                    return Err(ResumeError::Expired(id.clone()));
                }
                Some(question) => {
                    let accepted = question.accept(&given.answer);
                    accepted.map_err(|why| ResumeError::NotAccepted { id: id.clone(), why })?;
                    fits_schema(records, id, &question, given)?;
                }
                None => return Err(ResumeError::NotAsked(id.clone())),
            }
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
