//! The operator port: a person or a program that answers questions.

use crate::{
    call_path::CallPath,
    question::{Answer, Given, Input, Question, Reply, UNATTENDED, Waiting},
    send::{BoxFuture, MaybeSend, MaybeSync},
};
use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

/// Answers a question without the operator. It is consulted when the question reaches the head of the queue, since
/// the answer to an earlier question may cover it by then.
pub trait Recall: MaybeSend + MaybeSync {
    /// The answer, if there is one now.
    fn recall(&self) -> Option<Given>;
}

/// Never has an answer.
impl Recall for () {
    fn recall(&self) -> Option<Given> {
        None
    }
}

/// A person or a program that answers questions.
///
/// Several questions may arrive at once; wrap a person in [`OneAtATime`]. The future is dropped when the answer is no
/// longer needed.
pub trait Operator: MaybeSend + MaybeSync {
    /// Answers one question. An answer must fit its question ([`Answer::fits`](crate::question::Answer::fits)).
    fn exchange<'a>(&'a self, waiting: &'a Waiting, recall: &'a dyn Recall) -> BoxFuture<'a, Reply>;
    /// Reports that the conversation of that call has ended.
    fn conversation_ended(&self, _call: &CallPath) {}
}

impl<O: Operator + ?Sized> Operator for Arc<O> {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, recall: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        (**self).exchange(waiting, recall)
    }
    fn conversation_ended(&self, call: &CallPath) {
        (**self).conversation_ended(call);
    }
}

/// Defers the questions of a run in mode `defer`. Settlements of interrupted tools are still asked, because the run
/// can't be resumed without their answers.
pub struct Deferring<O>(pub O);

/// Defers the approvals of a chat in mode `defer`. Messages and other words come from the user, who is present.
pub struct DeferringApprovals<O>(pub O);

impl<O: Operator> Operator for DeferringApprovals<O> {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, recall: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        match waiting.question {
            Question::Approval(_) => Box::pin(async { Reply::Later }),
            Question::Input(_) | Question::Settlement(_) => self.0.exchange(waiting, recall),
        }
    }
    fn conversation_ended(&self, call: &CallPath) {
        self.0.conversation_ended(call);
    }
}

impl<O: Operator> Operator for Deferring<O> {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, recall: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        match waiting.question {
            Question::Approval(_) | Question::Input(_) => Box::pin(async { Reply::Later }),
            Question::Settlement(_) => self.0.exchange(waiting, recall),
        }
    }
    fn conversation_ended(&self, call: &CallPath) {
        self.0.conversation_ended(call);
    }
}

/// The operator of an unattended run that does not wait: it denies calls and declines inputs. Settlements are left
/// open, since only a person can know if the effect took place, and so are conversations, which a person can continue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unattended;

impl Operator for Unattended {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        let answer = match waiting.question {
            Question::Approval(_) => Answer::Deny { reason: None, remember: false },
            Question::Input(Input { conversation: Some(_), .. }) => return Box::pin(async { Reply::Later }),
            Question::Input(_) => Answer::Decline { reason: Some("there is nobody to ask".into()) },
            Question::Settlement(_) => return Box::pin(async { Reply::Later }),
        };
        Box::pin(async { Reply::Given(Given::operator(answer, UNATTENDED)) })
    }
}

/// Puts questions to an operator one at a time, in order of arrival, for any number of calls and runs, because a person
/// looks at one at a time. Runs that share a terminal share a single queue.
///
/// A conversation in the middle of a run keeps the line from its first message to its end: questions of other calls
/// wait until then, and questions of calls below the conversation are put.
///
/// A question is not put if `recall` has its answer when its turn comes.
pub struct OneAtATime<O> {
    operator: O,
    line: Mutex<Queue>,
}

/// The waiting questions, by number. Of those that may be put, the lowest is served.
#[derive(Default)]
struct Queue {
    next: u64,
    waiting: BTreeMap<u64, InLine>,
    /// The conversations that keep the line, each below the previous one.
    leases: Vec<CallPath>,
}

/// A question in the line.
struct InLine {
    call: CallPath,
    waker: Option<Waker>,
}

impl Queue {
    /// The question whose turn it is.
    fn first(&mut self) -> Option<(u64, &mut InLine)> {
        let lease = self.leases.last();
        let may = |place: &InLine| lease.is_none_or(|lease| place.call.is_within(lease));
        self.waiting.iter_mut().find(|(_, place)| may(place)).map(|(number, place)| (*number, place))
    }

    /// The waker of the question whose turn it is.
    fn next_waker(&mut self) -> Option<Waker> {
        self.first().and_then(|(_, place)| place.waker.take())
    }
}

impl<O> OneAtATime<O> {
    /// A queue for that operator.
    pub fn new(operator: O) -> Self {
        Self { operator, line: Mutex::default() }
    }

    fn line(&self) -> MutexGuard<'_, Queue> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of waiting questions, including the current one.
    pub fn waiting(&self) -> usize {
        self.line().waiting.len()
    }

    async fn turn(&self, call: &CallPath) -> Turn<'_, O> {
        let number = {
            let mut line = self.line();
            let number = line.next;
            line.next += 1;
            line.waiting.insert(number, InLine { call: call.clone(), waker: None });
            number
        };
        // It leaves the queue when it is dropped, even before its turn.
        let turn = Turn { of: self, number };
        poll_fn(|context| {
            let mut line = self.line();
            if line.first().is_some_and(|(first, _)| first == number) {
                return Poll::Ready(());
            }
            if let Some(place) = line.waiting.get_mut(&number) {
                place.waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
        turn
    }
}

/// A place in the queue.
struct Turn<'a, O> {
    of: &'a OneAtATime<O>,
    number: u64,
}

impl<O> Drop for Turn<'_, O> {
    fn drop(&mut self) {
        let mut line = self.of.line();
        line.waiting.remove(&self.number);
        let waker = line.next_waker();
        drop(line);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<O: Operator> Operator for OneAtATime<O> {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, recall: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let call = &waiting.id.call;
            let _turn = self.turn(call).await;
            if let Question::Input(Input { conversation: Some(_), .. }) = &waiting.question {
                let mut line = self.line();
                // That of the whole run is nothing that others would have to wait for.
                if call.depth() > 0 && line.leases.last() != Some(call) {
                    line.leases.push(call.clone());
                }
            }
            match recall.recall() {
                Some(given) => Reply::Given(given),
                None => self.operator.exchange(waiting, recall).await,
            }
        })
    }

    fn conversation_ended(&self, call: &CallPath) {
        let mut line = self.line();
        line.leases.retain(|lease| lease != call);
        let waker = line.next_waker();
        drop(line);
        waker.into_iter().for_each(Waker::wake);
        self.operator.conversation_ended(call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        call_path::CallPath,
        question::{Input, Known, QuestionId},
        shared::InProcess,
        step_name::StepName,
    };
    use futures_util::{FutureExt, future::join_all};
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn question(number: u32) -> Waiting {
        Waiting {
            id: QuestionId::new(&CallPath::root(), &StepName::Input(number)),
            question: Question::Input(Input {
                chain: Vec::new(),
                prompt: "?".into(),
                schema: None,
                changes: Vec::new(),
                conversation: None,
                expires_ms: None,
            }),
        }
    }

    /// Notes the order of questions and how many it has at once; answers on the third poll.
    #[derive(Default)]
    struct Person {
        seen: Mutex<Vec<StepName>>,
        at_once: AtomicUsize,
        most: AtomicUsize,
    }

    impl Operator for Person {
        fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
            Box::pin(async move {
                self.seen.lock().unwrap().push(waiting.id.step.clone());
                let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
                self.most.fetch_max(now, Ordering::SeqCst);
                let mut polls = 0;
                poll_fn(|context| {
                    polls += 1;
                    if polls == 3 {
                        return Poll::Ready(());
                    }
                    context.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
                self.at_once.fetch_sub(1, Ordering::SeqCst);
                let value = Arc::new(waiting.id.step.to_string().into());
                Reply::Given(Given::operator(Answer::Give { value }, "test"))
            })
        }
    }

    #[test]
    fn a_person_sees_one_question_at_a_time_in_order_of_arrival() {
        let line = OneAtATime::new(Person::default());
        let questions: Vec<Waiting> = (0..20).map(question).collect();
        let replies = join_all(questions.iter().map(|waiting| line.exchange(waiting, &())));
        let replies = futures_executor(Box::pin(replies));
        assert_eq!(replies.len(), 20);
        let seen = line.operator.seen.lock().unwrap().clone();
        assert_eq!(seen, (0..20).map(StepName::Input).collect::<Vec<_>>());
        assert_eq!(line.operator.most.load(Ordering::SeqCst), 1);
        assert_eq!(line.waiting(), 0);
    }

    #[test]
    fn who_leaves_the_line_does_not_hold_it_up() {
        let line = OneAtATime::new(Person::default());
        let questions: Vec<Waiting> = (0..3).map(question).collect();
        let mut first = line.exchange(&questions[0], &());
        let mut second = line.exchange(&questions[1], &());
        let third = line.exchange(&questions[2], &());
        assert!((&mut first).now_or_never().is_none());
        assert!((&mut second).now_or_never().is_none());
        drop(second);
        drop(first);
        assert!(matches!(futures_executor(third), Reply::Given(_)));
    }

    #[test]
    fn an_answer_that_is_known_by_then_spares_the_question() {
        let line = OneAtATime::new(Person::default());
        let known = Given::operator(Answer::Decline { reason: None }, crate::question::MEMORY);
        let (shared, recall) = (InProcess::default(), Known::Answer(known.clone()));
        let waiting = question(0);
        let reply = futures_executor(line.exchange(&waiting, &shared.known(&recall, &waiting.id)));
        assert_eq!(reply, Reply::Given(known));
        assert!(line.operator.seen.lock().unwrap().is_empty());
    }

    /// Polls until it is ready.
    fn futures_executor<T>(mut future: BoxFuture<'_, T>) -> T {
        loop {
            if let Some(value) = (&mut future).now_or_never() {
                return value;
            }
        }
    }
}
