//! Answers to the questions of a run, by clients that know a question by its run and its digest.

use crate::{
    error::{ApiError, Code},
    service::Service,
    token::{Scope, Token},
    views::{GiveAnswer, RunView},
};
use llm_do::{
    core::{
        journal::{Record, RecordKind},
        question::{Answer, QuestionId, Waiting},
    },
    digest,
    runs::is_run_id,
};
use std::{fmt, str::FromStr, sync::Arc};

/// A question that was shown to a client, as text: `RUN_DIGEST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) run: Arc<str>,
    pub(crate) digest: String,
}

impl Shown {
    pub(crate) fn of(run: &Arc<str>, waiting: &Waiting) -> Self {
        Self { run: Arc::clone(run), digest: digest(waiting) }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.run, self.digest)
    }
}

impl FromStr for Shown {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (run, digest) = text.split_once('_').ok_or(())?;
        let is_digest = !digest.is_empty() && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_run_id(run) && is_digest {
            true => Ok(Self { run: run.into(), digest: digest.to_owned() }),
            false => Err(()),
        }
    }
}

/// A run, with the questions that wait for an answer.
pub(crate) struct Answering<'a> {
    pub(crate) service: &'a Service,
    pub(crate) token: &'a Token,
    pub(crate) run: Arc<str>,
    /// True if the token has started the run.
    pub(crate) is_own: bool,
    pub(crate) waiting: Vec<Waiting>,
}

impl<'a> Answering<'a> {
    pub(crate) fn new(service: &'a Service, token: &'a Token, view: RunView) -> Self {
        Self {
            service,
            token,
            is_own: view.client == *token.name(),
            run: view.run,
            waiting: view.questions.into_iter().map(|question| question.waiting).collect(),
        }
    }

    /// Returns the question that was shown, even if it is no longer open.
    ///
    /// # Errors
    /// The run has asked no such question.
    pub(crate) fn question(&self, shown: &Shown, records: &[Record]) -> Result<Waiting, ApiError> {
        let unknown = || ApiError::new(Code::NotFound, format!("the run has asked no question `{shown}`"));
        if shown.run != self.run {
            return Err(ApiError::new(Code::BadRequest, format!("`{shown}` is a question of another run")));
        }
        let open = self.waiting.iter().find(|waiting| digest(waiting) == shown.digest).cloned();
        open.or_else(|| asked(records, &shown.digest)).ok_or_else(unknown)
    }

    /// Gives answers, in that order.
    pub(crate) async fn give_all(&self, answers: Vec<(Waiting, Answer)>) -> Result<(), ApiError> {
        self.may_answer()?;
        let mut seen: Vec<&QuestionId> = Vec::with_capacity(answers.len());
        for (question, _) in &answers {
            if seen.contains(&&question.id) {
                let why = format!("the question `{}` is answered twice", question.id);
                return Err(ApiError::new(Code::BadRequest, why));
            }
            seen.push(&question.id);
        }
        for (question, answer) in answers {
            self.give(&question, answer).await?;
        }
        Ok(())
    }

    pub(crate) async fn give(&self, question: &Waiting, answer: Answer) -> Result<(), ApiError> {
        let given = GiveAnswer { id: question.id.clone(), digest: digest(question), answer };
        self.service.answer(self.token, &self.run, given).await
    }

    pub(crate) fn may_answer(&self) -> Result<(), ApiError> {
        match self.token.has(Scope::Answer) {
            true => Ok(()),
            false => Err(ApiError::without_scope(Scope::Answer)),
        }
    }
}

/// Finds the question with a digest among the records of the run, even if it is no longer open.
fn asked(records: &[Record], wanted: &str) -> Option<Waiting> {
    records.iter().find_map(|record| {
        let RecordKind::Asked(question) = &record.body else { return None };
        let id = QuestionId::new(&record.path, &record.step);
        let waiting = Waiting { id, question: question.clone() };
        (digest(&waiting) == wanted).then_some(waiting)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_read_as_it_was_written_and_others_are_none() {
        let text = "20261121-221530-4f2a_0123456789abcdef";
        assert_eq!(text.parse::<Shown>().map(|shown| shown.to_string()).as_deref(), Ok(text));
        for wrong in ["", "_", "20261121-221530-4f2a", "20261121-221530-4f2a_", "../../etc_00", "a_b_c"] {
            assert_eq!(wrong.parse::<Shown>(), Err(()), "{wrong}");
        }
    }
}
