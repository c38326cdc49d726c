//! The answers of a recorded run as a model: `replay:RUN`.
//!
//! What is answered depends on the place alone (the call in the tree and the turn), so tools run in earnest and the model
//! alone is replaced. An answer fits only the conversation that it was given in; any other is an error that says where.

use crate::{read::read_journal, replay::capabilities, sent::messages_sent};
use llm_do_core::{
    call_path::CallPath,
    conversation::Conversation,
    journal::{Record, RecordKind},
    model::{
        Capabilities, Delta, DeltaSink, FinishReason, Message, Model, ModelError, ModelErrorKind,
        ModelRequest, ModelResponse, Part, Usage,
    },
    send::BoxFuture,
};
use std::{collections::HashMap, path::Path, sync::Arc};

/// Longest excerpt of a message in an error, in characters.
const EXCERPT: usize = 200;

/// A model that gives the answers of a recorded run.
#[derive(Debug)]
pub struct RecordedAnswers {
    /// What people call it: `replay:RUN`.
    name: String,
    records: Vec<Record>,
    answers: HashMap<CallPath, HashMap<u32, Recorded>>,
}

/// What came of the last attempt at a turn.
#[derive(Debug)]
struct Recorded {
    /// The step: `model.2.0`.
    step: String,
    digest: Arc<str>,
    came: Came,
}

#[derive(Clone, Debug)]
enum Came {
    Answer {
        message: Arc<Message>,
        finish: FinishReason,
        usage: Usage,
    },
    Failure(ModelError),
    /// The record breaks off before it.
    Nothing,
}

impl RecordedAnswers {
    /// Reads the run in that folder.
    ///
    /// # Errors
    /// Its journal can't be read.
    pub fn read(run_dir: &Path) -> Result<Self, ModelError> {
        let journal = read_journal(run_dir)
            .map_err(|error| ModelError::new(ModelErrorKind::NotFound, format!("replay: {error}")))?;
        let mut answers: HashMap<CallPath, HashMap<u32, Recorded>> = HashMap::new();
        for Record { path, step, body, .. } in &journal.records {
            if let RecordKind::ModelRequested { turn, digest, .. } = body {
                let recorded =
                    Recorded { step: step.clone(), digest: Arc::clone(digest), came: Came::Nothing };
                answers.entry(path.clone()).or_default().insert(*turn, recorded);
                continue;
            }
            let came = match body {
                RecordKind::ModelAnswered { message, finish, usage } => {
                    Came::Answer { message: Arc::clone(message), finish: *finish, usage: *usage }
                }
                RecordKind::ModelFailed { error } => Came::Failure(error.clone()),
                _ => continue,
            };
            let mut asked = answers.get_mut(path).into_iter().flat_map(HashMap::values_mut);
            if let Some(recorded) = asked.find(|recorded| recorded.step == *step) {
                recorded.came = came;
            }
        }
        let run = run_dir.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self { name: format!("replay:{run}"), records: journal.records, answers })
    }

    fn answer(&self, request: &ModelRequest<'_>) -> Result<ModelResponse, ModelError> {
        let ModelRequest { conversation: path, turn, .. } = request;
        let wrong = |what: String| {
            let message = format!("{}: at {path}, turn {turn}, {what}", self.name);
            Err(ModelError::new(ModelErrorKind::BadRequest, message))
        };
        let Some(turns) = self.answers.get(path) else {
            return wrong("no model was asked in the recorded run".into());
        };
        let Some(recorded) = turns.get(turn) else {
            return wrong(format!("there is no answer: the recorded run has {} turns there", turns.len()));
        };
        if *Conversation::digest_of(request.messages) != *recorded.digest {
            return wrong(self.difference(path, recorded, request.messages));
        }
        match &recorded.came {
            Came::Answer { message, finish, usage } => {
                Ok(ModelResponse { parts: message.parts.clone(), finish: *finish, usage: *usage })
            }
            Came::Failure(error) => wrong(format!("the recorded request failed: {}", error.message)),
            Came::Nothing => wrong("the record breaks off".into()),
        }
    }

    /// The first message that is not what it was.
    fn difference(&self, path: &CallPath, recorded: &Recorded, now: &[Arc<Message>]) -> String {
        let Some(before) = messages_sent(&self.records, path, &recorded.step) else {
            return "the conversation is not the recorded one".into();
        };
        let same = before.iter().zip(now).take_while(|(before, now)| before == now).count();
        let excerpt = |messages: &[Arc<Message>]| match messages.get(same) {
            None => "nothing".to_owned(),
            Some(message) => {
                let parts = message.parts.iter().filter_map(|part| match part {
                    Part::Text { text } => Some(text.to_string()),
                    Part::Result(result) => Some(format!("{}: {}", result.name, result.content)),
                    Part::Call(call) => Some(format!("a call of {}", call.name)),
                    Part::Blob(blob) => Some(format!("the file {}", blob.name)),
                    _ => None,
                });
                let text: String = parts.collect::<Vec<_>>().join("; ");
                format!("{:?}", text.chars().take(EXCERPT).collect::<String>())
            }
        };
        format!(
            "the conversation is not the recorded one: message {same} was {} and is now {}",
            excerpt(&before),
            excerpt(now)
        )
    }
}

impl Model for RecordedAnswers {
    fn capabilities(&self) -> Capabilities {
        capabilities(&self.records)
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        deltas: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let answer = self.answer(&request)?;
            for part in &answer.parts {
                match part {
                    Part::Text { text } => deltas.delta(Delta::Text { text: text.to_string() }),
                    Part::Reasoning { text } => deltas.delta(Delta::Reasoning { text: text.to_string() }),
                    Part::Call(call) => deltas.delta(Delta::Call { name: call.name.to_string() }),
                    _ => {}
                }
            }
            Ok(answer)
        })
    }
}
