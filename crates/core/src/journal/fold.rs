//! Rebuilding a conversation from records alone: the proof that they suffice.

use super::{Ending, Record, RecordKind};
use crate::{
    call_path::CallPath,
    conversation::{Conversation, FINAL_TOOL, Next, OutputContract, PlannedCall, Setup},
    engine::{Failure, FailureKind},
    model::{Blob, ToolResult},
    results::Results,
    schema::Schema,
    worker::{Limits, show, show_failure},
};
use std::{collections::HashMap, sync::Arc};

/// Records that don't tell a whole conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// No conversation began there.
    #[error("no conversation was recorded at {0}")]
    NoConversation(CallPath),
    /// A recorded schema is none.
    #[error("the recorded output schema of {path} is not usable: {reason}")]
    Schema {
        /// The call.
        path: CallPath,
        /// Why.
        reason: String,
    },
}

/// The conversation at `path`, as far as the records tell it. `limits` are those of the worker's definition, which the
/// journal holds in its first record.
pub fn conversation_at(
    records: &[Record],
    path: &CallPath,
    limits: Limits,
) -> Result<Conversation, FoldError> {
    let mut fold: Option<Fold<'_>> = None;
    let mut ends: HashMap<&CallPath, Ended<'_>> = HashMap::new();
    let mut names: HashMap<&CallPath, &Arc<str>> = HashMap::new();
    for record in records {
        match &record.body {
            RecordKind::ToolEnded { ending, blobs, .. } | RecordKind::CallEnded { ending, blobs, .. }
                if record.path != *path =>
            {
                ends.insert(&record.path, (ending.clone(), blobs));
            }
            RecordKind::CallStarted { function, .. } => {
                names.insert(&record.path, function);
            }
            RecordKind::TimedOut { after_ms } if record.step == "tool" => {
                let function = names.get(&record.path).copied().map_or("?", |name| &**name);
                ends.insert(&record.path, (Ending::Failure(timed_out(function, *after_ms)), &[]));
            }
            RecordKind::ConversationStarted {
                worker,
                tools,
                output,
                final_tool,
                ensures,
                message,
                can_read_on,
                sees,
                ..
            } if record.path == *path => {
                let schema =
                    output.as_ref().map(|value| Schema::new((**value).clone())).transpose().map_err(
                        |error| FoldError::Schema { path: path.clone(), reason: error.to_string() },
                    )?;
                let offered = tools.iter().map(|spec| Arc::clone(&spec.name));
                let setup = Setup {
                    worker: Arc::clone(worker),
                    limits: limits.clone(),
                    output: OutputContract::new(schema.map(Arc::new), *final_tool).ensuring(ensures.clone()),
                    sees: *sees,
                    tools: offered.filter(|name| &**name != FINAL_TOOL).collect(),
                };
                fold = Some(Fold {
                    conversation: Conversation::new(setup, Arc::clone(message)),
                    path,
                    results: Results::default(),
                    can_read_on: *can_read_on,
                    judges: ensures.as_ref().map_or(0, |ensures| ensures.tools().count()),
                });
            }
            RecordKind::ModelAnswered { message, finish, .. } if record.path == *path => {
                if let Some(fold) = &mut fold {
                    fold.go_on(&ends);
                    fold.conversation.answered(Arc::clone(message), *finish);
                }
            }
            _ => {}
        }
    }
    let mut fold = fold.ok_or_else(|| FoldError::NoConversation(path.clone()))?;
    fold.go_on(&ends);
    Ok(fold.conversation)
}

/// How a call ended, and the files that it returned.
type Ended<'a> = (Ending, &'a [Blob]);

struct Fold<'a> {
    conversation: Conversation,
    path: &'a CallPath,
    results: Results,
    can_read_on: bool,
    /// How many tools look at an output.
    judges: usize,
}

impl Fold<'_> {
    /// Does what follows the last answer from the records, as far as all of it has ended: first the tools of `ensures`,
    /// then the calls, which may be the refusal of an output.
    fn go_on(&mut self, ends: &HashMap<&CallPath, Ended<'_>>) {
        self.judge(ends);
        self.answer_calls(ends);
    }

    fn judge(&mut self, ends: &HashMap<&CallPath, Ended<'_>>) {
        let Next::Ensure(_) = self.conversation.next() else { return };
        let turn = self.conversation.calling_turn();
        let paths = (0..self.judges).map(|at| self.path.judge(turn, at));
        let said = paths.map(|path| ends.get(&path).map(|(ending, _)| ending.clone()));
        if let Some(said) = said.collect::<Option<Vec<_>>>()
            && !said.contains(&Ending::Suspended)
        {
            self.conversation.ensured(&said);
        }
    }

    /// Answers the planned calls.
    fn answer_calls(&mut self, ends: &HashMap<&CallPath, Ended<'_>>) {
        let Next::Call(planned) = self.conversation.next() else { return };
        let turn = self.conversation.calling_turn();
        let mut blobs = Vec::new();
        let answers: Option<Vec<ToolResult>> = planned
            .iter()
            .map(|planned| match planned {
                PlannedCall::Answered(result) => Some(result.clone()),
                PlannedCall::Make { index, call, .. } => {
                    let (ending, returned) = ends.get(&self.path.call(turn, *index))?;
                    blobs.extend(returned.iter().cloned());
                    let (text, is_error) = match ending {
                        Ending::Output(value) => (show(value), false),
                        Ending::Failure(failure) => (show_failure(failure), true),
                        Ending::Suspended => return None,
                    };
                    Some(ToolResult {
                        call_id: Arc::clone(&call.id),
                        name: Arc::clone(&call.name),
                        content: self.results.show(&text, self.can_read_on).into(),
                        is_error,
                    })
                }
            })
            .collect();
        if let Some(answers) = answers {
            self.conversation.results(answers, blobs);
        }
    }
}

/// What a caller is told of a leaf that was stopped at its deadline; a function of what is recorded.
pub(crate) fn timed_out(function: &str, after_ms: u64) -> Failure {
    let seconds = after_ms as f64 / 1000.0;
    Failure::new(
        FailureKind::Timeout,
        format!("`{function}` did not finish in {seconds:.1} s and was stopped."),
    )
}
