//! The chat as labelled lines: for pipes, screen readers and `--plain`.

use super::face::{Face, Status, Wish};
use crate::questions::{self, Extent, Meant};
use anstyle::Style;
use llm_do::Called;
use llm_do_core::question::{QuestionId, Waiting};
use llm_do_terminal::{Line, Plain, Rejection, Speaker};
use std::{
    collections::VecDeque,
    io::{Stderr, Stdout, Write as _, stderr, stdout},
};

/// Columns of the line about a call.
const COLUMNS: usize = 80;

/// The plain face of a chat: answers and questions on stdout, everything else on stderr.
pub(super) struct PlainFace {
    out: Plain<Stdout>,
    notes: Plain<Stderr>,
    /// True if stdin is a terminal.
    typed: bool,
    quiet: bool,
    questions: VecDeque<Waiting>,
    /// True if the prompt for the next message is on the screen.
    prompted: bool,
    doing: bool,
}

impl PlainFace {
    pub(super) fn new(typed: bool, quiet: bool) -> Self {
        let (out, notes) = (Plain::new(stdout()), Plain::new(stderr()));
        Self { out, notes, typed, quiet, questions: VecDeque::new(), prompted: false, doing: false }
    }

    fn say(&mut self, speaker: Speaker<'_>, text: &str) {
        self.break_prompt();
        let lines: Vec<Line> = Line::split(text, Style::new()).collect();
        // A reader that has gone ends the chat by the end of its input.
        let _ = self.out.say(speaker, &lines);
    }

    fn aside(&mut self, text: &str) {
        self.say_apart(Speaker::Note, text);
    }

    fn say_apart(&mut self, speaker: Speaker<'_>, text: &str) {
        self.break_prompt();
        let lines: Vec<Line> = Line::split(text, Style::new()).collect();
        let _ = self.notes.say(speaker, &lines);
    }

    /// Starts a new line after a prompt.
    fn break_prompt(&mut self) {
        if std::mem::take(&mut self.prompted) {
            let _ = writeln!(stdout());
        }
    }

    fn prompt(&mut self) {
        if self.typed && !self.prompted && !self.doing && self.questions.is_empty() {
            self.prompted = true;
            let _ = self.out.prompt(Speaker::You);
        }
    }

    fn put(&mut self, waiting: &Waiting) {
        let mut lines = questions::text(waiting, Extent::Full, COLUMNS);
        lines.push(Line::plain(&questions::keys(&questions::kind(&waiting.question))));
        self.break_prompt();
        let _ = self.out.say(Speaker::Question, &lines);
    }
}

impl Face for PlainFace {
    /// Shows nothing, because the message is on the screen where it was typed.
    fn user(&mut self, _text: &str) {}
    fn command(&mut self, _line: &str) {}

    fn said(&mut self, text: &str) {
        self.say(Speaker::You, text);
    }

    fn delta(&mut self, _worker: &str, _text: &str) {}
    fn discard(&mut self) {}

    fn answer(&mut self, worker: &str, text: &str, cut_off: bool) {
        self.say(Speaker::Worker(worker), text);
        if cut_off {
            self.aside("the answer was cut off");
        }
    }

    fn output(&mut self, worker: &str, json: &str) {
        self.say(Speaker::Worker(worker), json);
    }

    fn call(&mut self, called: &Called) {
        if !self.quiet {
            self.aside(&called.line);
        }
    }

    fn note(&mut self, text: &str) {
        if !self.quiet {
            self.aside(text);
        }
    }

    fn problem(&mut self, text: &str) {
        self.say_apart(Speaker::Error, text);
    }

    fn page(&mut self, text: &str) {
        self.aside(text);
    }

    fn ask(&mut self, waiting: &Waiting) {
        self.put(waiting);
        self.questions.push_back(waiting.clone());
    }

    fn withdraw(&mut self, id: &QuestionId) {
        self.questions.retain(|waiting| waiting.id != *id);
    }

    fn status(&mut self, status: &Status) {
        self.doing = status.doing.is_some();
        self.prompt();
    }

    fn settle(&mut self) {
        self.prompt();
    }

    fn queue(&mut self, _queue: Vec<String>) {}

    fn compose(&mut self, text: &str) {
        self.aside(&format!("your message was: {text}"));
    }

    fn copy(&mut self, _text: &str) -> bool {
        false
    }

    fn notify(&mut self, _text: &str) {}

    fn event(&mut self, _event: llm_do_terminal::Event) -> Option<Wish> {
        None
    }

    fn line(&mut self, line: Option<String>) -> Option<Wish> {
        // The line ended where the prompt stood.
        self.prompted &= line.is_none();
        let Some(waiting) = self.questions.front() else {
            let Some(line) = line else { return Some(Wish::End) };
            if line.trim().is_empty() {
                self.prompt();
                return None;
            }
            return Some(Wish::Say(line));
        };
        let id = waiting.id.clone();
        let Some(line) = line else {
            self.questions.pop_front();
            return Some(Wish::Later(id));
        };
        let entered = questions::line(&questions::kind(&waiting.question), &line);
        let meant =
            entered.map_err(Rejection::from).and_then(|entered| questions::meant(&waiting.question, entered));
        match meant {
            Ok(Meant::Answer(answer)) => {
                self.questions.pop_front();
                Some(Wish::Answer(id, answer))
            }
            Ok(Meant::Later | Meant::Edit | Meant::Show) => {
                self.questions.pop_front();
                Some(Wish::Later(id))
            }
            Err(rejection) => {
                self.aside(&rejection.problem);
                None
            }
        }
    }

    fn is_piped(&self) -> bool {
        !self.typed
    }

    fn leave(&mut self) {
        self.break_prompt();
    }
}
