//! Rebuilds a conversation from records alone, which proves that they suffice.

use crate::{
    call_path::CallPath,
    conversation::{Conversation, FINAL_TOOL, Next, OutputContract, PlannedCall, Setup},
    journal::{Record, RecordKind},
    limits::Limits,
    model::{Blob, ToolResult},
    outcome::{Ending, timed_out},
    results::{first_page, is_cut, keep, show, show_failure},
    schema::Schema,
};
use std::{collections::HashMap, sync::Arc};

/// Records that don't contain a whole conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// No conversation started there.
    #[error("no conversation was recorded at {0}")]
    NoConversation(CallPath),
    /// A recorded schema is invalid.
    #[error("the recorded output schema of {path} is not usable: {reason}")]
    Schema {
        /// The call.
        path: CallPath,
        /// Why.
        reason: String,
    },
}

/// The conversation at `path`, as far as the records contain it. `limits` come from the worker's definition, which is
/// in the journal's first record.
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
            RecordKind::TimedOut { after_ms } if record.step.is_tool() => {
                let function = names.get(&record.path).copied().map_or("?", |name| &**name);
                ends.insert(&record.path, (Ending::Failure(timed_out(function, *after_ms)), &[]));
            }
            RecordKind::ConversationStarted {
                worker,
                tools,
                server_tools,
                output,
                final_tool,
                ensures,
                message,
                can_read_on,
                can,
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
                    sees: can.sees,
                    tools: offered.filter(|name| &**name != FINAL_TOOL).collect(),
                    server_tools: !server_tools.is_empty(),
                };
                fold = Some(Fold {
                    conversation: Conversation::new(setup, Arc::clone(message)),
                    path,
                    results: Vec::new(),
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
    /// The results that the model has seen in part.
    results: Vec<Arc<str>>,
    can_read_on: bool,
    /// The number of tools that check an output.
    judges: usize,
}

impl Fold<'_> {
    /// Applies the recorded calls that follow the last answer, if all of them have ended: first the `ensures` tools,
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

    /// Feeds back the results of the planned calls.
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
                    let number = (self.can_read_on && is_cut(&text)).then(|| keep(&mut self.results, &text));
                    Some(ToolResult {
                        call_id: Arc::clone(&call.id),
                        name: Arc::clone(&call.name),
                        content: first_page(&text, number).into(),
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
