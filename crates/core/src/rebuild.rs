//! Rebuilds a conversation from records alone, which proves that they suffice.

use crate::{
    call_path::CallPath,
    conversation::{Compaction, Conversation, Next, OutputContract, PlannedCall, Setup, number_of},
    journal::{Record, RecordKind},
    limits::Limits,
    model::{Blob, MessageId, Purpose, ToolResult},
    origin::{Content, ContentKind, Origin, Origins, Trail},
    outcome::{Ending, timed_out},
    question::{Answer, Given, Question},
    results::{first_page, is_cut, keep, show, show_failure},
    schema::Schema,
    step_name::StepName,
    worker::attached,
};
use serde_json::Value;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

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
        /// The reason.
        reason: String,
    },
}

/// Rebuilds the conversation at `path` from the part that the records contain. `limits` come from the worker's
/// definition, which is in the journal's first record.
pub fn conversation_at(
    records: &[Record],
    path: &CallPath,
    limits: Limits,
) -> Result<Conversation, FoldError> {
    let mut fold: Option<Fold<'_>> = None;
    let mut ends: HashMap<&CallPath, Ended<'_>> = HashMap::new();
    let mut names: HashMap<&CallPath, &Arc<str>> = HashMap::new();
    let mut inputs: HashMap<&CallPath, &Arc<Value>> = HashMap::new();
    // The calls of leaves that only read.
    let mut reading: HashSet<&CallPath> = HashSet::new();
    let mut trail = Trail::default();
    let mut user = Origin::Trusted;
    // What the user answered to the question of each call.
    let mut given: HashMap<&CallPath, &Arc<Value>> = HashMap::new();
    for record in records {
        match &record.body {
            RecordKind::ToolEnded { ending, blobs, origins, .. }
            | RecordKind::CallEnded { ending, blobs, origins, .. }
                if record.path != *path =>
            {
                let said = match &record.body {
                    RecordKind::CallEnded { said, .. } => &**said,
                    _ => &[],
                };
                let function = names.get(&record.path).copied();
                let input = inputs.get(&record.path).copied();
                let (ending, origins) = (ending.clone(), origins.clone());
                let by_user = match (&ending, given.get(&record.path)) {
                    (Ending::Output(value), Some(given)) => value == *given,
                    _ => false,
                };
                let source = match &record.body {
                    RecordKind::ToolEnded { mixed: false, .. } if reading.contains(&record.path) => input,
                    _ => None,
                };
                ends.insert(&record.path, Ended { ending, blobs, function, source, origins, by_user, said });
            }
            RecordKind::ToolStarted { risk, .. } if risk.only_reads() => {
                reading.insert(&record.path);
            }
            RecordKind::CallStarted { function, input, origins, .. } => {
                names.insert(&record.path, function);
                inputs.insert(&record.path, input);
                if record.path == CallPath::root() {
                    user = origins.greatest();
                }
                if record.path == *path {
                    trail = Trail::default().with(Content {
                        kind: ContentKind::Arguments,
                        call: path.clone(),
                        function: Arc::clone(function),
                        value: Arc::clone(input),
                        origins: origins.clone(),
                        source: None,
                    });
                }
            }
            RecordKind::TimedOut { after_ms } if record.step.is_tool() => {
                let function = names.get(&record.path).copied();
                let failure = timed_out(function.map_or("?", |name| &**name), *after_ms);
                let (ending, origins) = (Ending::Failure(failure), Origins::TRUSTED);
                ends.insert(
                    &record.path,
                    Ended { ending, blobs: &[], function, source: None, origins, by_user: false, said: &[] },
                );
            }
            RecordKind::ConversationStarted {
                worker,
                tools,
                server_tools,
                output,
                final_tool,
                with_user,
                listens,
                ensures,
                message,
                can_read_on,
                can,
                origin,
                ..
            } if record.path == *path => {
                let schema =
                    output.as_ref().map(|value| Schema::new((**value).clone())).transpose().map_err(
                        |error| FoldError::Schema { path: path.clone(), reason: error.to_string() },
                    )?;
                let schema = schema.map(Arc::new);
                let output = match with_user {
                    true => OutputContract::of_conversation(schema, *final_tool),
                    false => OutputContract::new(schema, *final_tool),
                };
                let last = output.final_tool_name();
                let offered = tools.iter().map(|spec| Arc::clone(&spec.name));
                let setup = Setup {
                    call: path.clone(),
                    worker: Arc::clone(worker),
                    limits: limits.clone(),
                    output: output.ensuring(ensures.clone()),
                    sees: can.sees,
                    tools: offered.filter(|name| Some(&**name) != last).collect(),
                    server_tools: !server_tools.is_empty(),
                    with_user: *with_user,
                    user,
                    listens: *listens,
                };
                fold = Some(Fold {
                    conversation: Conversation::new(setup, Arc::clone(message))
                        .after(trail.clone().begun(*origin, path, worker)),
                    worker: Arc::clone(worker),
                    path,
                    results: Vec::new(),
                    can_read_on: *can_read_on,
                    judges: ensures.as_ref().map_or(0, |ensures| ensures.tools().count()),
                });
            }
            RecordKind::Asked(Question::Input(_)) if record.path == *path => {
                if let Some(fold) = &mut fold {
                    fold.go_on(&ends);
                    fold.conversation.listen();
                }
            }
            RecordKind::Answered(Given { answer, .. }) if record.path == *path => {
                let Some(fold) = &mut fold else { continue };
                match (&record.step, answer) {
                    (StepName::Message(number), answer) => {
                        if let Answer::Keep { message } = answer {
                            fold.ran(*message, &ends);
                        }
                        fold.conversation.heard(*number, answer);
                    }
                    (StepName::Now(_), Answer::Give { value }) => {
                        fold.go_on(&ends);
                        fold.conversation.said_meanwhile(value);
                    }
                    _ => {}
                }
            }
            RecordKind::Answered(Given { answer: Answer::Give { value }, .. }) => {
                given.insert(&record.path, value);
            }
            RecordKind::Attached { part, bytes, origin } if record.path == *path => {
                if let (Some(fold), StepName::Attach(number)) = (&mut fold, &record.step) {
                    let file = attached(path, &fold.worker, *number, part.clone(), *bytes, *origin);
                    fold.conversation.joins(file);
                }
            }
            RecordKind::Compacted(compaction) if record.path == *path => {
                if let Some(fold) = &mut fold {
                    fold.go_on(&ends);
                    fold.compacted(compaction);
                }
            }
            RecordKind::ModelAnswered { message, finish, .. }
                if record.path == *path && record.step.request() == Some(Purpose::Answer) =>
            {
                if let Some(fold) = &mut fold {
                    fold.go_on(&ends);
                    fold.conversation.received_answer(message);
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

/// The end of a call.
struct Ended<'a> {
    ending: Ending,
    /// The files that the call returned.
    blobs: &'a [Blob],
    function: Option<&'a Arc<str>>,
    /// The arguments of the call, if its value is the content that they name.
    source: Option<&'a Arc<Value>>,
    /// The origins of its value.
    origins: Origins,
    /// True if the value is the user's answer.
    by_user: bool,
    /// The user's words within the call.
    said: &'a [Arc<Value>],
}

impl Ended<'_> {
    fn function(&self) -> Arc<str> {
        self.function.map_or_else(|| "?".into(), Arc::clone)
    }

    /// The result of the call, in the form that its caller receives.
    fn result(&self, path: CallPath) -> Option<Content> {
        let content =
            Content::result(path, self.function(), &self.ending, self.origins.clone(), self.source)?;
        Some(if self.by_user { content.of_user() } else { content })
    }

    /// The user's words within the call, in the form that its caller receives.
    fn said(&self, path: &CallPath) -> Vec<Content> {
        Content::said(path, &self.function(), self.said).collect()
    }

    /// All contents that the caller receives.
    fn contents(&self, path: CallPath) -> impl Iterator<Item = Content> {
        self.said(&path).into_iter().chain(self.result(path))
    }
}

struct Fold<'a> {
    conversation: Conversation,
    worker: Arc<str>,
    path: &'a CallPath,
    /// The results of which the model has seen a part.
    results: Vec<Arc<str>>,
    can_read_on: bool,
    /// Number of tools that check an output.
    judges: usize,
}

impl Fold<'_> {
    /// Applies the recorded calls that follow the last answer, if all of them have ended: first the `ensures` tools,
    /// then the calls, which may be the refusal of an output.
    fn go_on(&mut self, ends: &HashMap<&CallPath, Ended<'_>>) {
        self.judge(ends);
        self.answer_calls(ends);
    }

    /// Takes the result of the call that the user made with that message.
    fn ran(&mut self, number: u32, ends: &HashMap<&CallPath, Ended<'_>>) {
        let path = self.path.by_user(number);
        let Some(ended) = ends.get(&path) else { return };
        if let Some(result) = ended.result(path.clone()) {
            self.conversation.ran(number, result, ended.said(&path));
        }
    }

    /// Applies a compaction. The results that it leaves out are kept as in the run, so that later ones get the same numbers.
    fn compacted(&mut self, compaction: &Compaction) {
        let numbered = compaction.results.iter().filter(|old| old.number.is_some());
        let named: HashSet<(MessageId, &str)> = numbered.map(|old| (old.message, &*old.call_id)).collect();
        for (message, result) in self.conversation.old_results() {
            if named.contains(&(message, &*result.call_id)) && number_of(result).is_none() {
                keep(&mut self.results, &result.content);
            }
        }
        self.conversation.compacted(compaction.clone());
    }

    fn judge(&mut self, ends: &HashMap<&CallPath, Ended<'_>>) {
        let Next::Ensure(_) = self.conversation.next() else { return };
        let turn = self.conversation.calling_turn();
        let paths = (0..self.judges).map(|at| self.path.judge(turn, at));
        let ended = paths.map(|path| ends.get(&path).map(|ended| (path, ended)));
        let Some(ended) = ended.collect::<Option<Vec<_>>>() else { return };
        let said: Vec<Ending> = ended.iter().map(|(_, ended)| ended.ending.clone()).collect();
        if !said.contains(&Ending::Suspended) {
            self.conversation.received(ended.into_iter().flat_map(|(path, ended)| ended.contents(path)));
            self.conversation.ensured(&said);
        }
    }

    /// Feeds back the results of the planned calls.
    fn answer_calls(&mut self, ends: &HashMap<&CallPath, Ended<'_>>) {
        let Next::Call(planned) = self.conversation.next() else { return };
        let turn = self.conversation.calling_turn();
        let (mut blobs, mut contents) = (Vec::new(), Vec::new());
        let answers: Option<Vec<ToolResult>> = planned
            .iter()
            .map(|planned| match planned {
                PlannedCall::Answered(result) => Some(result.clone()),
                PlannedCall::Make { index, call, .. } => {
                    let path = self.path.call(turn, *index);
                    let ended = ends.get(&path)?;
                    blobs.extend(ended.blobs.iter().cloned());
                    contents.extend(ended.contents(path));
                    let (text, is_error) = match &ended.ending {
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
            self.conversation.received(contents);
            self.conversation.results(answers, blobs);
        }
    }
}
