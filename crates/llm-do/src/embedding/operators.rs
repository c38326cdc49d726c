//! An operator that is a function.

use llm_do_core::{
    operator::{Operator, Recall},
    question::{Answer, Given, Reply, Waiting},
    send::BoxFuture,
};

/// An operator that is an async function: it receives each question, and gives an answer or `None` for "not now", which
/// suspends the run.
///
/// ```
/// use llm_do::operator::{Answer, Question, answer_with};
///
/// let operator = answer_with(|waiting| async move {
///     match &waiting.question {
///         Question::Approval(call) if &*call.function == "write_file" => Some(Answer::Approve { remember: false }),
///         Question::Approval(_) => Some(Answer::Deny { reason: Some("not in this program".into()), remember: false }),
///         _ => None,
///     }
/// });
/// let options = llm_do::Options::new().operator(operator);
/// ```
pub fn answer_with<F, A>(answer: F) -> AnswerWith<F>
where
    F: Fn(Waiting) -> A + Send + Sync,
    A: Future<Output = Option<Answer>> + Send,
{
    AnswerWith(answer)
}

/// The operator that [`answer_with`] makes.
#[derive(Clone, Copy, Debug)]
pub struct AnswerWith<F>(F);

/// The channel of answers that a program gives, as the journal records it.
pub(super) const VIA: &str = "program";

impl<F, A> Operator for AnswerWith<F>
where
    F: Fn(Waiting) -> A + Send + Sync,
    A: Future<Output = Option<Answer>> + Send,
{
    fn exchange<'a>(&'a self, waiting: &'a Waiting, recall: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            if let Some(given) = recall.recall() {
                return Reply::Given(given);
            }
            match (self.0)(waiting.clone()).await {
                Some(answer) => Reply::Given(Given::operator(answer, VIA)),
                None => Reply::Later,
            }
        })
    }
}
