//! The operator at the terminal: shows what a call would do, and takes the answer (SPEC §9.4).

mod channel;
pub(crate) mod cut_off;
mod editor;
mod entry;
mod grant;
mod view;

pub(crate) use channel::{Channel, Taken};
pub(crate) use grant::TerminalGrantor;

use crate::{
    paint::Paint,
    screen::Screen,
    terminal::{Terminal, Typed},
    visible,
};
use editor::Edited;
use llm_do_core::{
    operator::{Answer, Ask, Operator},
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

/// Asks on the terminal. Called for one question at a time.
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
    fn answer<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let mut prompting = Prompting {
                terminal: Arc::clone(&self.terminal),
                cancelled: Arc::default(),
                answered: false,
                _screen: self.screen.pause(),
            };
            let (send, receive) = oneshot::channel();
            let dialogue = Dialogue {
                terminal: Arc::clone(&self.terminal),
                cancelled: Arc::clone(&prompting.cancelled),
                ask: ask.clone(),
                paint: self.paint,
                draft: None,
            };
            // Its own thread: reading a terminal blocks, and a run goes on elsewhere meanwhile.
            let started = thread::Builder::new().name("prompt".into()).spawn(move || {
                // Nobody waits for the answer to a cancelled question.
                let _ = send.send(dialogue.hold());
            });
            let answer = match started {
                Ok(_) => receive.await.ok(),
                Err(_) => None,
            };
            prompting.answered = true;
            answer.unwrap_or(Answer::Deny { reason: Some("nobody could be asked".into()), remember: false })
        })
    }
}

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

/// One question until its answer.
struct Dialogue {
    terminal: Arc<Terminal>,
    cancelled: Arc<AtomicBool>,
    ask: Ask,
    paint: Paint,
    /// Edited arguments that were not JSON, kept for the next attempt.
    draft: Option<String>,
}

impl Dialogue {
    fn hold(mut self) -> Answer {
        let columns = self.terminal.columns();
        self.terminal.show(&view::question(&self.ask, Extent::Folded, columns, self.paint));
        self.terminal.read_keys(&self.cancelled);
        let answer = loop {
            self.terminal.show(&format!("{} ", self.paint.bold(KEYS)));
            let typed = self.terminal.next(&self.cancelled);
            let Typed::Text(text) = &typed else {
                match typed {
                    Typed::Other => {
                        self.terminal.show("\n");
                        continue;
                    }
                    Typed::Cancelled => return Answer::Later,
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
                    match entry::read(&self.terminal, &self.cancelled, "reason (Enter for none): ", "") {
                        entry::Entered::Line(reason) => {
                            let reason = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
                            break Answer::Deny { reason, remember };
                        }
                        entry::Entered::Left => break Answer::Deny { reason: None, remember },
                        entry::Entered::Cancelled => return Answer::Later,
                    }
                }
                "e" => {
                    self.echo("edit");
                    match editor::edit(&self.terminal, &self.cancelled, &self.ask.input, self.draft.take()) {
                        Edited::Arguments(input) => break Answer::Edit { input },
                        Edited::Unchanged => self.terminal.show("  nothing was changed\n"),
                        Edited::Wrong { text, problem } => {
                            let problem = visible::text(&problem);
                            self.terminal.show(&format!(
                                "  {} {problem}\n  press e to go on editing\n",
                                self.paint.red("not usable:")
                            ));
                            self.draft = Some(text);
                        }
                        Edited::Failed(problem) => {
                            let problem = visible::text(&problem);
                            self.terminal.show(&format!("  {} {problem}\n", self.paint.red("cannot edit:")));
                        }
                        Edited::Cancelled => return Answer::Later,
                    }
                    self.terminal.read_keys(&self.cancelled);
                }
                "v" => {
                    self.echo("");
                    self.terminal.show(&view::question(&self.ask, Extent::Full, columns, self.paint));
                }
                "" => self.terminal.show("\n"),
                _ => self.terminal.show(&format!("\n{HELP}")),
            }
        };
        self.terminal.restore();
        answer
    }

    /// Ends the line of the prompt with what was understood.
    fn echo(&self, word: &str) {
        self.terminal.show(&format!("{word}\n"));
    }
}
