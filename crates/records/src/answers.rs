//! The answers of a recorded run as a model: `replay:RUN`.
//!
//! The place of a request (the call in the tree, and the turn or the summary) selects its answer. Tools run for real;
//! only the model is replaced. A request whose conversation differs from the recorded one is an error that names the
//! first difference.

use crate::{replay::capabilities, sent::messages_sent};
use llm_do_core::{
    call_path::CallPath,
    conversation::Conversation,
    journal::{Record, RecordKind},
    model::{
        Capabilities, Delta, DeltaSink, FinishReason, Message, Model, ModelError, ModelErrorKind,
        ModelRequest, ModelResponse, Part, Purpose, Usage,
    },
    send::BoxFuture,
    server_tool::ServerTool,
    step_name::StepName,
};
use std::{borrow::Cow, collections::HashMap, sync::Arc};

/// Longest excerpt of a message in an error, in characters.
const EXCERPT: usize = 200;

/// A model that gives the answers of a recorded run.
#[derive(Debug)]
pub struct RecordedAnswers {
    /// The name for people: `replay:RUN`.
    name: String,
    records: Vec<Record>,
    answers: HashMap<CallPath, HashMap<(Purpose, u32), Recorded>>,
}

/// The result of the last attempt at a turn.
#[derive(Debug)]
struct Recorded {
    /// The step: `model.2.0`.
    step: StepName,
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
    /// The record ends before the answer.
    Nothing,
}

impl RecordedAnswers {
    /// Collects the answers in the records of the run `run`.
    pub fn of(run: &str, records: Vec<Record>) -> Self {
        let mut answers: HashMap<CallPath, HashMap<(Purpose, u32), Recorded>> = HashMap::new();
        for Record { path, step, body, .. } in &records {
            if let RecordKind::ModelRequested { turn, digest, .. } = body {
                let recorded =
                    Recorded { step: step.clone(), digest: Arc::clone(digest), came: Came::Nothing };
                let purpose = step.request().unwrap_or_default();
                answers.entry(path.clone()).or_default().insert((purpose, *turn), recorded);
                continue;
            }
            let came = match body {
                RecordKind::ModelAnswered { message, finish, usage, .. } => {
                    Came::Answer { message: Arc::clone(message), finish: *finish, usage: *usage }
                }
                RecordKind::ModelFailed { error, .. } => Came::Failure(error.clone()),
                _ => continue,
            };
            let mut asked = answers.get_mut(path).into_iter().flat_map(HashMap::values_mut);
            if let Some(recorded) = asked.find(|recorded| recorded.step == *step) {
                recorded.came = came;
            }
        }
        Self { name: format!("replay:{run}"), records, answers }
    }

    fn answer(&self, request: &ModelRequest<'_>) -> Result<ModelResponse, ModelError> {
        let ModelRequest { conversation: path, purpose, turn, .. } = request;
        let wrong = |what: String| {
            let place = match purpose {
                Purpose::Answer => "turn",
                Purpose::Summary => "summary",
            };
            let message = format!("{}: at {path}, {place} {turn}, {what}", self.name);
            Err(ModelError::new(ModelErrorKind::BadRequest, message))
        };
        let Some(turns) = self.answers.get(path) else {
            return wrong("no model was asked in the recorded run".into());
        };
        let Some(recorded) = turns.get(&(*purpose, *turn)) else {
            return wrong(format!("there is no answer: the recorded run has {} requests there", turns.len()));
        };
        if *Conversation::digest_of(request.messages) != *recorded.digest {
            return wrong(self.difference(path, recorded, request.messages));
        }
        match &recorded.came {
            Came::Answer { message, finish, usage, .. } => Ok(ModelResponse {
                parts: message.parts.clone(),
                finish: *finish,
                usage: *usage,
                unknown_finish: None,
            }),
            Came::Failure(error) => wrong(format!("the recorded request failed: {}", error.message)),
            Came::Nothing => wrong("the record breaks off".into()),
        }
    }

    /// Describes the first message that differs.
    fn difference(&self, path: &CallPath, recorded: &Recorded, now: &[Arc<Message>]) -> String {
        let Some(before) = messages_sent(&self.records, path, &recorded.step) else {
            return "the conversation is not the recorded one".into();
        };
        let same = before.iter().zip(now).take_while(|(before, now)| before == now).count();
        let excerpt = |messages: &[Arc<Message>]| match messages.get(same) {
            None => "nothing".to_owned(),
            Some(message) => {
                let parts = message.parts.iter().filter_map(|part| match part {
                    Part::Text { .. } | Part::Attachment { .. } => part.sent().map(Cow::into_owned),
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

    /// Returns none: the recorded run had the tools.
    fn refused_server_tools(&self, _: &[ServerTool]) -> Vec<String> {
        Vec::new()
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        deltas: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            let answer = self.answer(&request)?;
            let mut calls = 0..;
            for part in &answer.parts {
                match part {
                    Part::Text { text } => deltas.delta(Delta::Text { text: text.to_string() }),
                    Part::Reasoning { text } => deltas.delta(Delta::Reasoning { text: text.to_string() }),
                    Part::Call(call) => {
                        deltas.delta(Delta::Call { name: call.name.to_string() });
                        let text = call.arguments.text().into_owned();
                        deltas.delta(Delta::Arguments { call: calls.next().unwrap_or(u32::MAX), text });
                    }
                    _ => {}
                }
            }
            Ok(answer)
        })
    }
}
