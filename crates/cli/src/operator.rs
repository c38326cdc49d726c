//! The operator at the terminal: shows a question and takes the answer.

mod channel;
mod grant;

pub(crate) use channel::{Channel, Taken};
pub(crate) use grant::TerminalGrantor;

use crate::{
    editor::Drafts,
    paint::Paint,
    questions::{self, Extent, Meant},
    screen::Screen,
    terminal::{Dialogue, Entered, Terminal, Withdrawal},
};
use llm_do_core::{
    operator::{Operator, Recall},
    question::{Answer, Given, Question, Reply, Waiting},
    send::BoxFuture,
};
use llm_do_terminal::Rejection;
use std::{
    sync::{Arc, atomic::AtomicBool},
    thread::{self, JoinHandle},
};
use tokio::sync::oneshot;

/// The channel of the answers, as recorded.
const VIA: &str = "terminal";

/// An operator that asks on the terminal. A person sees one question at a time: runs share one in a
/// [`OneAtATime`](llm_do_core::operator::OneAtATime).
pub(crate) struct TerminalOperator {
    terminal: Arc<Terminal>,
    screen: Arc<Screen>,
    paint: Paint,
}

impl TerminalOperator {
    /// Returns an operator on this terminal. The screen is paused during a question.
    pub(crate) fn new(terminal: Arc<Terminal>, screen: Arc<Screen>, paint: Paint) -> Self {
        Self { terminal, screen, paint }
    }
}

impl Operator for TerminalOperator {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let screen = self.screen.pause();
            let Ok(asking) = Asking::begin(&self.terminal, waiting, self.paint) else { return Reply::Later };
            let withdrawal = asking.dialogue.withdrawal();
            let (send, receive) = oneshot::channel();
            // Its own thread: reading a terminal blocks, and the rest of the run continues meanwhile.
            let started = thread::Builder::new().name("prompt".into()).spawn(move || {
                // A withdrawn question has no receiver any more.
                let _ = send.send(asking.hold());
            });
            let Ok(thread) = started else { return Reply::Later };
            let _prompting = Prompting { withdrawal, thread: Some(thread), _screen: screen };
            let answer = receive.await.ok().flatten();
            answer.map_or(Reply::Later, |answer| Reply::Given(Given::operator(answer, VIA)))
        })
    }
}

/// An open prompt. If it is dropped before an answer (the run was ended), it restores the terminal immediately, so that
/// the process may end right after.
struct Prompting {
    withdrawal: Withdrawal,
    thread: Option<JoinHandle<()>>,
    _screen: crate::screen::Paused,
}

impl Drop for Prompting {
    fn drop(&mut self) {
        self.withdrawal.withdraw();
        if let Some(thread) = self.thread.take() {
            // It ends by itself now. A panic of it was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// A question on the terminal, until its answer.
struct Asking {
    dialogue: Dialogue,
    waiting: Waiting,
    paint: Paint,
    drafts: Drafts,
}

impl Asking {
    fn begin(terminal: &Arc<Terminal>, waiting: &Waiting, paint: Paint) -> std::io::Result<Self> {
        let kind = questions::kind(&waiting.question);
        let hint = match &waiting.question {
            Question::Approval(_) => "Ctrl-D: deny, Ctrl-C: end the run",
            Question::Input(_) => "Ctrl-D: no answer, Ctrl-C: end the run",
            Question::Settlement(_) => "Ctrl-D: decide later, Ctrl-C: end the run",
        };
        let text = text(waiting, Extent::Folded, paint);
        let dialogue = Dialogue::begin(terminal, kind, hint, paint, text)?;
        Ok(Self { dialogue, waiting: waiting.clone(), paint, drafts: Drafts::default() })
    }

    /// Returns the answer, or `None` if the question was withdrawn or is left for later.
    fn hold(mut self) -> Option<Answer> {
        let answer = loop {
            let entered = match self.dialogue.next() {
                Entered::Answer(entered) => entered,
                Entered::End => break self.left(),
                Entered::Gone => return None,
            };
            match questions::meant(&self.waiting.question, entered).and_then(|meant| self.follow(meant)) {
                Ok(Some(answer)) => break answer,
                Ok(None) => {}
                Err(problem) => self.dialogue.reject(problem),
            }
        };
        self.dialogue.finish(answer.as_ref().map_or("later", word));
        answer
    }

    /// Handles an entry. `None`: the question still waits; `Some(None)`: it is left for later.
    fn follow(&mut self, meant: Meant) -> Result<Option<Option<Answer>>, Rejection> {
        match meant {
            Meant::Answer(answer) => Ok(Some(Some(answer))),
            Meant::Later => Ok(Some(None)),
            Meant::Show => {
                self.dialogue.show_instead(text(&self.waiting, Extent::Full, self.paint));
                Ok(None)
            }
            Meant::Edit => {
                let Question::Approval(approval) = &self.waiting.question else { return Ok(None) };
                let edit = |terminal: &_, cancelled: &AtomicBool| {
                    self.drafts.edit(terminal, cancelled, &approval.input)
                };
                let input = self.dialogue.away(edit).map_err(|error| error.to_string())??;
                let answer = Answer::Edit { input };
                self.waiting.question.accept(&answer).map_err(questions::rejection)?;
                Ok(Some(Some(answer)))
            }
        }
    }

    /// Returns the answer for Ctrl-D.
    fn left(&self) -> Option<Answer> {
        match &self.waiting.question {
            Question::Approval(_) => Some(Answer::Deny { reason: None, remember: false }),
            Question::Input(_) => Some(Answer::Decline { reason: None }),
            Question::Settlement(_) => None,
        }
    }
}

fn text(waiting: &Waiting, extent: Extent, paint: Paint) -> Box<dyn Fn(usize) -> String + Send> {
    let waiting = waiting.clone();
    Box::new(move |columns| paint.lines(&questions::rows(&waiting, extent, columns)))
}

/// Returns an answer as a word below its question.
fn word(answer: &Answer) -> &'static str {
    match answer {
        Answer::Approve { remember: false } => "approved",
        Answer::Approve { remember: true } => "approved for this session",
        Answer::Allow { .. } => "approved, with a rule for this session",
        Answer::Deny { remember: false, .. } => "denied",
        Answer::Deny { remember: true, .. } => "denied for this session",
        Answer::Edit { .. } => "edited",
        Answer::Decline { .. } => "not answered",
        Answer::Again => "again",
        Answer::Done { .. } => "done",
        Answer::Abort => "end the run",
        _ => "answered",
    }
}
