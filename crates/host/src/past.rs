//! Runs of the past: what their records tell a host that resumes or replays them. See `docs/guides/runs.md` and
//! `docs/guides/replay.md`. [`History`] finds the steps that a resumed run skips.

use crate::{
    input::Input,
    invocation::{BadInvocation, Invocation},
    options::RunOptions,
    run::RunEnd,
};
use llm_do_core::{
    attachment::Attachment,
    authority::Place,
    call_path::CallPath,
    engine::{End, Halt},
    function::tool_name,
    gate::Mode,
    journal::{Ending, Queued, Record, RecordKind, RunStatus, UsedDefinition},
    launch::{Counts, LaunchReport},
    model::{Blob, ModelName},
    question::{Answer, EXPIRED, Given, NotAccepted, Question, QuestionId, Waiting},
    schema::Schema,
};
use llm_do_records::History;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    convert::Infallible,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// The reason why a run can't be resumed. `R` are the errors of a host that reads a log, `O` those of opening it again.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError<R = Infallible, O = Infallible> {
    /// The key that distinguishes the user's own journals can't be read.
    #[error("no journal is known to be your own: {0}")]
    Key(String),
    /// The journal can't be read, or was not written by this user's llm-do.
    #[error(transparent)]
    Read(R),
    /// The journal can't be continued.
    #[error(transparent)]
    Reopen(O),
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

/// A run of the past, by its records.
#[derive(Clone, Debug)]
pub struct Past {
    records: Arc<[Record]>,
    invocation: Invocation,
    mode: Mode,
    date: Arc<str>,
    run: Arc<str>,
}

impl<R, O> From<BadInvocation> for ResumeError<R, O> {
    fn from(error: BadInvocation) -> Self {
        Self::Unknown(error.to_string())
    }
}

impl Past {
    /// Reads how a run was started from its records.
    ///
    /// # Errors
    /// The records have no beginning, or don't say how the run was started.
    pub fn of<R, O>(records: Vec<Record>) -> Result<Self, ResumeError<R, O>> {
        let Some(Record { body: RecordKind::RunStarted { invocation, approval, date, run, .. }, .. }) =
            records.first()
        else {
            return Err(ResumeError::Unknown("it was cut off before its first record".into()));
        };
        let invocation = invocation.as_deref().cloned().unwrap_or_default();
        let invocation =
            Invocation::deserialize(invocation).map_err(|error| ResumeError::Unknown(error.to_string()))?;
        let (mode, date, run) = (*approval, Arc::clone(date), Arc::clone(run));
        Ok(Self { records: records.into(), invocation, mode, date, run })
    }

    /// Returns the records of the run so far.
    pub fn records(&self) -> &Arc<[Record]> {
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

    /// Returns the date of the run, as templates see it.
    pub fn date(&self) -> &Arc<str> {
        &self.date
    }

    /// Returns the ID of the run.
    pub fn run(&self) -> &Arc<str> {
        &self.run
    }

    /// Returns the input of the run.
    pub fn input(&self) -> Input {
        self.invocation.input.clone()
    }

    /// Returns the options with which the run was started, to continue it; `base` provides those that are not recorded.
    /// `real` finds the place that a path leads to.
    ///
    /// # Errors
    /// The rules or grants of the run can't be read any more.
    pub fn options<R, O>(
        &self,
        base: RunOptions,
        real: &dyn Fn(&Path) -> io::Result<Place>,
    ) -> Result<RunOptions, ResumeError<R, O>> {
        Ok(self.resumed(self.invocation.options(base, real)?))
    }

    /// Returns the recorded options as the resumed run has them.
    #[must_use]
    pub fn resumed(&self, options: RunOptions) -> RunOptions {
        // The mode decides which tools a worker is offered, so that it can't change.
        RunOptions { mode: Some(self.mode), unattended: Mode::Defer, ..options }
    }

    /// Returns the recorded options as a replay has them.
    #[must_use]
    pub fn replayed(&self, options: RunOptions) -> RunOptions {
        RunOptions { can_ask: self.mode == Mode::Interactive, ..options }
    }

    /// Returns the input of the run for a replay, with its attachments by name alone: their content is part of the
    /// records.
    pub fn replayed_input(&self) -> (Input, Vec<Attachment>) {
        let mut input = self.input();
        let of_path = |path: PathBuf| {
            path.file_name().map_or_else(|| "attachment".into(), |name| name.to_string_lossy().into())
        };
        let named = std::mem::take(&mut input.attachments).into_iter().map(of_path);
        let contents = std::mem::take(&mut input.contents).into_iter().map(|given| given.file.name);
        let names: Vec<Arc<str>> = named.chain(contents).collect();
        let file = |name| Blob { name, media_type: "text/plain".into(), data: Arc::default() };
        (input, names.into_iter().map(|name| file(name).into()).collect())
    }

    /// Returns the first model that answered a worker, for workers of a replay that name none.
    pub fn model(&self) -> Option<ModelName> {
        self.records.iter().find_map(|record| match &record.body {
            RecordKind::ConversationStarted { model, .. } => Some(model.clone()),
            _ => None,
        })
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
    pub fn end(&self) -> Option<RunEnd> {
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
        let origins = self.records.iter().rev().find_map(|record| match &record.body {
            RecordKind::CallEnded { origins, .. } if record.path == CallPath::root() => Some(origins.clone()),
            _ => None,
        });
        let history = self.history();
        let took = at_ms.saturating_sub(history.began_ms).saturating_sub(history.idle_ms);
        let report = LaunchReport {
            status: *status,
            end,
            origins: origins.unwrap_or_default(),
            usage: *usage,
            took: Duration::from_millis(took),
            counts: Counts::of(self.records.iter().map(|record| &record.body)),
            left: None,
            halt: None,
        };
        Some(RunEnd { run: Arc::clone(&self.run), report, over_budget: None })
    }

    /// Returns true if the conversation of the entry has begun, with its attachments.
    pub fn has_begun(&self) -> bool {
        self.history().has_conversation(&CallPath::root())
    }

    /// Returns the steps of the run.
    pub fn history(&self) -> History {
        History::of(self.records.to_vec())
    }
}

/// Checks that a program's workers, its manifest and the sets of its rules are those with which the run of these records
/// began.
///
/// # Errors
/// A worker, or the code of its tools, has changed.
pub fn fits<R, O>(records: &[Record], used: &[UsedDefinition]) -> Result<(), ResumeError<R, O>> {
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
fn fits_schema<R, O>(
    records: &[Record],
    id: &QuestionId,
    question: &Question,
    given: &Given,
) -> Result<(), ResumeError<R, O>> {
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
    /// Checks that each decision answers a question that is open at that time, in a run that has not ended.
    ///
    /// # Errors
    /// A decision is about a question that is not open, or the run has ended.
    pub fn admitted_by<R, O>(&self, records: &[Record], now_ms: u64) -> Result<(), ResumeError<R, O>> {
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
                Some(question) if question.has_expired(now_ms) => {
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
