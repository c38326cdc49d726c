//! Questions to the operator: approvals, inputs and settlements.

use super::{Engine, Frame};
use crate::{
    call_path::CallPath,
    conversation::Said,
    driver::{CutOff, Exchanged, Known},
    function::UserAnswer,
    journal::RecordKind,
    outcome::{Ending, FailureKind, Halt, Stop},
    question::{
        Answer, FILES, Given, Input, Question, QuestionId, Reply, Settlement, ToolQuestion, Turn, Waiting,
    },
    risk::Risk,
    schema::Schema,
    step_name::StepName,
};
use serde_json::Value;
use std::sync::Arc;

/// An answer, with the question as it is recorded; without it if the answer was known before it was asked.
pub(super) struct Answered {
    pub(super) given: Given,
    pub(super) asked: Option<Question>,
}

impl Engine {
    /// Puts a question to the operator. The waiting time does not count as working time.
    pub(super) async fn exchange(
        &self,
        frame: &Frame,
        path: &CallPath,
        step: StepName,
        question: Question,
        known: Known,
    ) -> Result<Answered, Stop> {
        let driver = &self.host.driver;
        let id = QuestionId::new(path, &step);
        let Exchanged { reply, asked, waited } = driver.exchange(path, step, question.clone(), known).await?;
        frame.waited(waited, &**driver).await;
        match reply {
            Reply::Given(given) => Ok(Answered { given, asked }),
            Reply::Later => Err(Stop::Suspended(vec![Waiting { id, question: asked.unwrap_or(question) }])),
        }
    }

    /// Asks the user for text, or for a form with that schema, on behalf of the call at `path`. `number` counts the
    /// questions of the call. The answer fits the schema.
    ///
    /// # Errors
    /// A failure if the user gives no answer or an invalid one; suspension if there is no answer now.
    pub async fn input(
        &self,
        frame: &Frame,
        path: &CallPath,
        number: u32,
        prompt: &str,
        schema: Option<&Schema>,
    ) -> Result<Arc<Value>, Stop> {
        match self.put(frame, path, number, prompt, schema).await? {
            UserAnswer::Given(value) => Ok(value),
            UserAnswer::Declined(reason) => {
                let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
                Err(Stop::failed(FailureKind::Denied, format!("The user gave no answer{why}")))
            }
            UserAnswer::Stopped => {
                let message = "The user stopped the answer instead of answering the question".to_owned();
                Err(Stop::failed(FailureKind::Stopped, message))
            }
        }
    }

    /// Puts the questions of a leaf at `path`. The first of them has that number.
    ///
    /// # Errors
    /// A failure if an answer does not fit its schema; suspension if there is no answer now.
    pub(super) async fn put_all(
        &self,
        frame: &Frame,
        path: &CallPath,
        first: u32,
        questions: &[ToolQuestion],
    ) -> Result<Vec<UserAnswer>, Stop> {
        let mut answers = Vec::new();
        for (number, question) in (first..).zip(questions) {
            let unusable =
                |error| Stop::failed(FailureKind::Tool, format!("A form is no usable JSON Schema: {error}"));
            let schema =
                question.schema.as_deref().cloned().map(Schema::new).transpose().map_err(unusable)?;
            answers.push(self.put(frame, path, number, &question.prompt, schema.as_ref()).await?);
        }
        Ok(answers)
    }

    /// Puts a question of the call at `path` to the user. An answer fits the schema.
    ///
    /// # Errors
    /// A failure if the answer does not fit the schema; suspension if there is no answer now.
    pub(crate) async fn put(
        &self,
        frame: &Frame,
        path: &CallPath,
        number: u32,
        prompt: &str,
        schema: Option<&Schema>,
    ) -> Result<UserAnswer, Stop> {
        let prompt = self.host.redact.text(prompt).into();
        let shown = schema.map(|schema| Arc::clone(schema.value()));
        let input = Input {
            chain: frame.chain(),
            prompt,
            schema: shown,
            changes: Vec::new(),
            conversation: None,
            expires_ms: None,
        };
        let step = StepName::Input(number);
        let question = Question::Input(input.clone());
        let Answered { given, .. } =
            self.exchange(frame, path, step.clone(), question, Known::Nothing).await?;
        match given.answer {
            Answer::Give { value } => match input.accept(&value) {
                Ok(()) => Ok(UserAnswer::Given(value)),
                // An operator of the host's own has not asked first, or the journal is of a time when others did not.
                Err(wrong) => {
                    let message = format!("The user's answer was not taken: {wrong}");
                    Err(Stop::failed(FailureKind::InvalidInput, message))
                }
            },
            Answer::Decline { reason } => Ok(UserAnswer::Declined(reason)),
            Answer::Stop => Ok(UserAnswer::Stopped),
            _ => Err(misfit(path, &step).into()),
        }
    }

    /// Waits for the user's next message or action in the conversation at `path`, after the model has said `said`. Time
    /// limits don't count the wait.
    pub(crate) async fn listen(
        &self,
        frame: &Frame,
        path: &CallPath,
        said: Said,
        turn: Turn,
    ) -> Result<Answer, Stop> {
        let prompt = self.host.redact.text(&said.text).into();
        let step = StepName::Message(turn.number);
        let (chain, conversation) = (frame.chain(), Some(turn));
        let question = Question::Input(Input {
            chain,
            prompt,
            schema: None,
            changes: Vec::new(),
            conversation,
            expires_ms: None,
        });
        let Answered { given, .. } = self.exchange(frame, path, step, question, Known::Nothing).await?;
        Ok(given.answer)
    }

    /// Settles an earlier execution of that step of the leaf at `path`, if one had started and not ended when the run was
    /// interrupted: from the state of the files (`found`), or else by asking the operator. Only the records determine
    /// whether there was such an attempt.
    pub(crate) async fn settle(
        &self,
        frame: &Frame,
        path: &CallPath,
        step: &StepName,
        question: impl FnOnce(Risk) -> Settlement,
        found: impl AsyncFnOnce() -> Option<Answer>,
    ) -> Result<CutOff, Stop> {
        let Some(RecordKind::ToolStarted { risk, .. }) = self.host.driver.begun(path, step) else {
            return Ok(CutOff::Again);
        };
        if risk == Risk::Read {
            return Ok(CutOff::Again);
        }
        let evidence = found().await.map(|answer| Known::Answer(Given::operator(answer, FILES)));
        let settlement = question(risk);
        let function = Arc::clone(&settlement.function);
        let question = Question::Settlement(settlement);
        let Answered { given, .. } =
            self.exchange(frame, path, StepName::Settle, question, evidence.unwrap_or_default()).await?;
        match given.answer {
            Answer::Again => Ok(CutOff::Again),
            Answer::Done { result } => Ok(CutOff::Done(RecordKind::ToolEnded {
                ending: Ending::Output(result),
                blobs: Vec::new(),
                log: None,
                origins: Default::default(),
                mixed: false,
            })),
            Answer::Abort => Err(Halt::Aborted { path: path.clone(), function }.into()),
            _ => Err(misfit(path, &StepName::Settle).into()),
        }
    }
}

/// A recorded answer that does not fit its question.
pub(super) fn misfit(path: &CallPath, step: &StepName) -> Halt {
    let reason = "the recorded answer does not fit the question".to_owned();
    Halt::Diverged { path: path.clone(), step: step.clone(), reason }
}
