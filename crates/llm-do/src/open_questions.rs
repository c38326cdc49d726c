//! The open questions of a run, for operators that are other programs.

use llm_do_core::question::{Answer, Given, NotAccepted, QuestionId, Reply, Waiting};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::sync::{oneshot, watch};

/// Returns the digest that an answer names, so that it applies only to the question that its author saw:
/// [`Waiting::digest`].
pub fn digest(waiting: &Waiting) -> String {
    waiting.digest()
}

/// The open questions of a run, and the authors of the answers to the others. The first answer to a question counts.
pub struct OpenQuestions {
    state: Mutex<QuestionTable>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct QuestionTable {
    /// Open questions by call and step. Few runs ask more than one question at a time, and many may wait with one.
    open: Vec<OpenQuestion>,
    decided: HashMap<QuestionId, Arc<str>>,
    /// The questions that waited in an earlier process and that the run has not put again yet.
    expected: HashSet<QuestionId>,
    /// The questions that were withdrawn after their expiry.
    expired: HashSet<QuestionId>,
    closed: bool,
}

impl QuestionTable {
    /// Returns the index of an open question, or the index at which to insert it.
    fn find(&self, id: &QuestionId) -> Result<usize, usize> {
        self.open.binary_search_by(|open| open.waiting.id.cmp(id))
    }
}

/// An open question.
struct OpenQuestion {
    waiting: Waiting,
    reply: oneshot::Sender<Given>,
}

/// The reason why an answer is rejected. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The question does not exist, or it was withdrawn.
    #[error("there is no question `{0}`")]
    Unknown(QuestionId),
    /// The answer does not fit the question.
    #[error("the question `{id}` stays open: {why}")]
    NotAccepted {
        /// The question.
        id: QuestionId,
        /// The reason.
        why: NotAccepted,
    },
    /// The question has an answer.
    #[error("the question `{id}` is already answered by {by}")]
    AlreadyDecided {
        /// The question.
        id: QuestionId,
        /// The author of the answer.
        by: Arc<str>,
    },
    /// The question is not the one that the answer is for.
    #[error("the question `{0}` is not the one that `digest` names: read it again")]
    Changed(QuestionId),
    /// The question has expired.
    #[error("the question `{0}` has expired: it counts as denied, and the run continues without an answer")]
    Expired(QuestionId),
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_millis().try_into().unwrap_or(u64::MAX)
}

impl Default for OpenQuestions {
    fn default() -> Self {
        Self { state: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl OpenQuestions {
    fn state(&self) -> MutexGuard<'_, QuestionTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a question. Returns `None` after [`OpenQuestions::close`]: the question is put off.
    pub fn ask(&self, waiting: &Waiting) -> Option<Asked<'_>> {
        let (reply, replied) = oneshot::channel();
        let mut state = self.state();
        if state.closed {
            return None;
        }
        state.expected.remove(&waiting.id);
        let open = OpenQuestion { waiting: waiting.clone(), reply };
        match state.find(&waiting.id) {
            Ok(at) => state.open[at] = open,
            Err(at) => {
                state.open.reserve_exact(1);
                state.open.insert(at, open);
            }
        }
        drop(state);
        self.changed.send_replace(());
        Some(Asked { questions: self, id: waiting.id.clone(), replied })
    }

    /// Notes that a question was answered in an earlier process.
    pub fn was_answered(&self, id: QuestionId, by: Arc<str>) {
        let mut state = self.state();
        state.expected.remove(&id);
        state.decided.insert(id, by);
    }

    /// Notes that a question waited in an earlier process: the run that continues puts it again.
    pub fn waited(&self, id: QuestionId) {
        self.state().expected.insert(id);
    }

    /// Waits until a run that continues has put a question that [`OpenQuestions::waited`] has named. Returns
    /// immediately for other questions.
    pub async fn put_again(&self, id: &QuestionId) {
        let mut changed = self.subscribe();
        while self.state().expected.contains(id) {
            // The sender lives as long as this.
            let _ = changed.changed().await;
        }
    }

    /// Returns the open questions, by call and step.
    pub fn waiting(&self) -> Vec<Waiting> {
        self.state().open.iter().map(|open| open.waiting.clone()).collect()
    }

    /// Returns the number of open questions.
    pub fn count(&self) -> usize {
        self.state().open.len()
    }

    /// Takes an answer to a question, which is no longer open then. The run gets it with [`Taken::give`]. `seen` is the
    /// [`digest`] of the question that the answer is for; without it, the answer is for whatever the run asks there.
    ///
    /// # Errors
    /// The question is not open, is another one or has expired, or the answer does not fit it.
    pub fn take(
        &self,
        id: &QuestionId,
        seen: Option<&str>,
        answer: &Answer,
        by: &Arc<str>,
    ) -> Result<Taken, NotTaken> {
        let mut state = self.state();
        match state.find(id) {
            // The run takes it from those that wait, as soon as it sees this.
            Ok(at) if state.open[at].waiting.question.has_expired(now_ms()) => {
                Err(NotTaken::Expired(id.clone()))
            }
            Ok(at) if seen.is_some_and(|seen| state.open[at].waiting.digest() != seen) => {
                Err(NotTaken::Changed(id.clone()))
            }
            Ok(at) => {
                let accepted = state.open[at].waiting.question.accept(answer);
                accepted.map_err(|why| NotTaken::NotAccepted { id: id.clone(), why })?;
                let OpenQuestion { reply, .. } = state.open.remove(at);
                state.decided.insert(id.clone(), Arc::clone(by));
                Ok(Taken(reply))
            }
            Err(_) => Err(match state.decided.get(id) {
                Some(by) => NotTaken::AlreadyDecided { id: id.clone(), by: Arc::clone(by) },
                None if state.expired.contains(id) => NotTaken::Expired(id.clone()),
                None => NotTaken::Unknown(id.clone()),
            }),
        }
    }

    /// Puts off the open questions and all later ones, which suspends the run.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.expected.clear();
        state.open.clear();
        drop(state);
        self.changed.send_replace(());
    }

    /// Reports when a question was put or withdrawn.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

/// An answer that was taken.
pub struct Taken(oneshot::Sender<Given>);

impl Taken {
    /// Gives the answer to the run. If the run has ended in this moment, it has no effect.
    pub fn give(self, given: Given) {
        let _ = self.0.send(given);
    }
}

/// A question that was put. Dropping it withdraws the question.
pub struct Asked<'a> {
    questions: &'a OpenQuestions,
    id: QuestionId,
    replied: oneshot::Receiver<Given>,
}

impl Asked<'_> {
    /// Waits for the answer. Returns `Reply::Later` if the question was put off.
    pub async fn reply(&mut self) -> Reply {
        (&mut self.replied).await.map_or(Reply::Later, Reply::Given)
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let mut state = self.questions.state();
        let Ok(at) = state.find(&self.id) else { return };
        let OpenQuestion { waiting, .. } = state.open.remove(at);
        if waiting.question.has_expired(now_ms()) {
            state.expired.insert(waiting.id);
        }
        drop(state);
        self.questions.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::question::{Input, OPERATOR, Question};
    use serde_json::json;

    fn question(call: &str) -> Waiting {
        let chain = vec!["main".into()];
        let input = Input {
            chain,
            prompt: "?".into(),
            schema: None,
            changes: Vec::new(),
            conversation: None,
            expires_ms: None,
        };
        let id = format!("{call}:input.0").parse().expect("the ID of a question");
        Waiting { id, question: Question::Input(input) }
    }

    fn give(text: &str) -> Answer {
        Answer::Give { value: Arc::new(json!(text)) }
    }

    #[tokio::test]
    async fn the_first_answer_stands_and_a_later_one_hears_who_decided() {
        let questions = OpenQuestions::default();
        let asks = question("0/0.0");
        let mut asked = questions.ask(&asks).expect("it is open");
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let misfit = Answer::Approve { remember: false };
        let why = NotAccepted::OtherKind;
        let refused = NotTaken::NotAccepted { id: asks.id.clone(), why };
        assert_eq!(questions.take(&asks.id, None, &misfit, &ann).err(), Some(refused));
        let taken = questions.take(&asks.id, None, &give("one"), &ann).expect("it is open");
        let late = questions.take(&asks.id, None, &give("two"), &bob).err();
        assert_eq!(late, Some(NotTaken::AlreadyDecided { id: asks.id.clone(), by: ann }));
        taken.give(Given::operator(give("one"), "test"));
        assert!(matches!(asked.reply().await, Reply::Given(given) if given.answer == give("one")));
        assert!(questions.waiting().is_empty());
    }

    #[tokio::test]
    async fn an_answer_for_one_question_does_not_settle_another_in_its_place() {
        let questions = OpenQuestions::default();
        let (shown, by) = (question("0/0.0"), OPERATOR.into());
        let seen = digest(&shown);
        let now = Waiting { question: shown.question.clone().expiring(now_ms() + 3_600_000), ..shown };
        let _asked = questions.ask(&now).expect("it is open");
        let take = |seen: &str| questions.take(&now.id, Some(seen), &give("x"), &by);
        assert_eq!(take(&seen).err(), Some(NotTaken::Changed(now.id.clone())));
        assert!(take(&digest(&now)).is_ok(), "it has stayed open");
    }

    #[tokio::test]
    async fn a_question_of_an_earlier_process_is_waited_for_until_it_is_put_again() {
        let questions = OpenQuestions::default();
        let asks = question("0/0.0");
        questions.put_again(&asks.id).await;
        questions.waited(asks.id.clone());
        let mut putting = Box::pin(questions.put_again(&asks.id));
        assert!(futures_util::poll!(&mut putting).is_pending());
        let _asked = questions.ask(&asks).expect("it is open");
        putting.await;
        questions.waited(asks.id.clone());
        questions.close();
        questions.put_again(&asks.id).await;
    }

    #[tokio::test]
    async fn an_expired_question_takes_no_answer() {
        let questions = OpenQuestions::default();
        let Waiting { id, question } = question("0/0.0");
        let ann: Arc<str> = "ann".into();
        let past = Waiting { id: id.clone(), question: question.clone().expiring(now_ms()) };
        let asked = questions.ask(&past).expect("it is open");
        assert_eq!(questions.take(&id, None, &give("late"), &ann).err(), Some(NotTaken::Expired(id.clone())));
        drop(asked);
        assert_eq!(
            questions.take(&id, None, &give("later"), &ann).err(),
            Some(NotTaken::Expired(id.clone()))
        );
        let future = Waiting { id: id.clone(), question: question.expiring(now_ms() + 3_600_000) };
        let _asked = questions.ask(&future).expect("it is open");
        assert!(questions.take(&id, None, &give("in time"), &ann).is_ok());
    }

    #[tokio::test]
    async fn questions_are_withdrawn_and_put_off() {
        let questions = OpenQuestions::default();
        let changed = questions.subscribe();
        let (one, other) = (question("0/0.0"), question("0/0.1"));
        drop(questions.ask(&one).expect("it is open"));
        assert!(changed.has_changed().expect("it lives"));
        let by = OPERATOR.into();
        assert_eq!(
            questions.take(&one.id, None, &give("x"), &by).err(),
            Some(NotTaken::Unknown(one.id.clone()))
        );
        let mut asked = questions.ask(&other).expect("it is open");
        assert_eq!(questions.waiting(), [other]);
        questions.close();
        assert_eq!(asked.reply().await, Reply::Later);
        assert!(questions.ask(&one).is_none());
    }
}
