//! The operator at the terminal: shows a question and takes the answer.

mod channel;
mod cut_off;
mod editor;
mod entry;
mod grant;
mod input;
mod view;

pub(crate) use channel::{Channel, Taken};
pub(crate) use editor::edit_file;
pub(crate) use grant::TerminalGrantor;

use crate::{
    paint::Paint,
    screen::Screen,
    terminal::{Terminal, Typed},
};
use editor::Edited;
use llm_do_core::{
    operator::{Operator, Recall},
    question::{Answer, Approval, Given, Question, Reply, Waiting},
    send::BoxFuture,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};
use tokio::sync::oneshot;
use view::Extent;

const KEYS: &str = "[a]pprove  [d]eny  [r]emember  [e]dit  [?] more";

const HELP: &str = "  a  approve this call
  d  deny it; you may say why, and the model is told
  r  approve it, and the same call again for the rest of this session
  D  deny it, and the same call again for the rest of this session
  e  edit the arguments, in $VISUAL or $EDITOR where one is set
  v  show everything in full
  Ctrl-D denies, Ctrl-C ends the whole run
";

/// Through what the answers come, as recorded.
const VIA: &str = "terminal";

/// Asks on the terminal. A person looks at one question at a time: runs share one in a
/// [`OneAtATime`](llm_do_core::operator::OneAtATime).
pub(crate) struct TerminalOperator {
    terminal: Arc<Terminal>,
    screen: Arc<Screen>,
    paint: Paint,
}

impl TerminalOperator {
    /// Asks on this terminal, while the screen keeps still.
    pub(crate) fn new(terminal: Arc<Terminal>, screen: Arc<Screen>, paint: Paint) -> Self {
        Self { terminal, screen, paint }
    }
}

impl Operator for TerminalOperator {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let mut prompting = Prompting {
                terminal: Arc::clone(&self.terminal),
                cancelled: Arc::default(),
                answered: false,
                _screen: self.screen.pause(),
            };
            let (send, receive) = oneshot::channel();
            let (terminal, paint) = (Arc::clone(&self.terminal), self.paint);
            let cancelled = Arc::clone(&prompting.cancelled);
            let waiting = waiting.clone();
            // Its own thread: reading a terminal blocks, and the rest of the run continues meanwhile.
            let started = thread::Builder::new().name("prompt".into()).spawn(move || {
                let answer = match waiting.question {
                    Question::Approval(approval) => {
                        Dialogue { terminal, cancelled, approval, paint, extent: Extent::Folded, draft: None }
                            .hold()
                    }
                    Question::Input(wanted) => input::ask(&terminal, &cancelled, &wanted, paint),
                    Question::Settlement(cut_off) => {
                        cut_off::ask(&terminal, &cancelled, &waiting.id.call, &cut_off, paint)
                    }
                };
                // A cancelled question has no receiver any more.
                let _ = send.send(answer);
            });
            let answer = match started {
                Ok(_) => receive.await.ok().flatten(),
                Err(_) => None,
            };
            prompting.answered = true;
            answer.map_or(Reply::Later, |answer| Reply::Given(Given::operator(answer, VIA)))
        })
    }
}

/// What is shown of a call that needs an approval, whole.
pub(crate) fn approval_text(approval: &Approval, columns: usize, paint: Paint) -> String {
    view::question(approval, Extent::Full, columns, paint)
}

pub(crate) use cut_off::question as settlement_text;
pub(crate) use input::{question as input_text, value as read_value};

/// A prompt that is up. Dropped before an answer (the run was ended), it puts the terminal back at once, so that the
/// process may end right after.
struct Prompting {
    terminal: Arc<Terminal>,
    cancelled: Arc<AtomicBool>,
    answered: bool,
    _screen: crate::screen::Paused,
}

impl Drop for Prompting {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Release);
        self.terminal.restore();
        if !self.answered {
            self.terminal.show("\n");
        }
    }
}

/// The question about a call, until its answer.
struct Dialogue {
    terminal: Arc<Terminal>,
    cancelled: Arc<AtomicBool>,
    approval: Approval,
    paint: Paint,
    /// How much of the call is shown.
    extent: Extent,
    /// Edited arguments that were not JSON, kept for the next attempt.
    draft: Option<String>,
}

impl Dialogue {
    /// The answer; none if the question was cancelled.
    fn hold(mut self) -> Option<Answer> {
        self.terminal.draw(|columns| self.question(columns));
        self.terminal.read_keys(&self.cancelled);
        let answer = loop {
            self.terminal.show(&format!("{} ", self.paint.bold(KEYS)));
            let typed = self.terminal.next(&self.cancelled);
            let Typed::Text(text) = &typed else {
                match typed {
                    Typed::Resized => {
                        self.terminal.redraw(|columns| self.question(columns));
                        continue;
                    }
                    Typed::Other => {
                        self.terminal.show("\n");
                        continue;
                    }
                    Typed::Cancelled => return None,
                    Typed::End | Typed::Text(_) => {
                        self.echo("denied");
                        break Answer::Deny { reason: None, remember: false };
                    }
                }
            };
            match text.trim_end_matches(['\n', '\r']) {
                "a" => {
                    self.echo("approved");
                    break Answer::Approve { remember: false };
                }
                "r" => {
                    self.echo("approved for this session");
                    break Answer::Approve { remember: true };
                }
                key @ ("d" | "D") => {
                    let remember = key == "D";
                    self.echo(if remember { "denied for this session" } else { "denied" });
                    let question = |columns| self.question(columns);
                    let label = "reason (Enter for none): ";
                    match entry::read(&self.terminal, &self.cancelled, &question, label, "") {
                        entry::Entered::Line(reason) => {
                            let reason = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
                            break Answer::Deny { reason, remember };
                        }
                        entry::Entered::Left => break Answer::Deny { reason: None, remember },
                        entry::Entered::Cancelled => return None,
                    }
                }
                "e" => {
                    self.echo("edit");
                    let draft = self.draft.take();
                    let question = |columns| self.question(columns);
                    match editor::edit(
                        &self.terminal,
                        &self.cancelled,
                        &question,
                        &self.approval.input,
                        draft,
                    ) {
                        Edited::Arguments(input) => break Answer::Edit { input },
                        Edited::Unchanged => self.terminal.show("  nothing was changed\n"),
                        Edited::Wrong { text, problem } => {
                            self.problem("not usable:", &problem);
                            self.terminal.show("  press e to continue editing\n");
                            self.draft = Some(text);
                        }
                        Edited::Failed(problem) => self.problem("cannot edit:", &problem),
                        Edited::Cancelled => return None,
                    }
                    self.terminal.read_keys(&self.cancelled);
                }
                "v" => {
                    self.echo("");
                    self.extent = Extent::Full;
                    self.terminal.draw(|columns| self.question(columns));
                }
                "" => self.terminal.show("\n"),
                _ => self.terminal.show(&format!("\n{HELP}")),
            }
        };
        self.terminal.restore();
        Some(answer)
    }

    fn question(&self, columns: usize) -> String {
        view::question(&self.approval, self.extent, columns, self.paint)
    }

    fn problem(&self, what: &str, problem: &str) {
        self.terminal.draw(|columns| input::problem_rows(what, problem, columns, self.paint));
    }

    /// Ends the line of the prompt with what was understood.
    fn echo(&self, word: &str) {
        self.terminal.show(&format!("{word}\n"));
    }
}
