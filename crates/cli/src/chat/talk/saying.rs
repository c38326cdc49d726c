//! Messages of the user to the worker, and the files that join them.

use super::{Leaving, NOT_YOUR_TURN, Pending, Started, Talk, VIA};
use crate::{exit::Exit, opening::NotReady};
use llm_do::Joined;
use llm_do_core::{
    call_path::CallPath,
    question::{Answer, Given, Reply},
};
use serde_json::Value;
use std::sync::Arc;

impl Talk<'_> {
    /// Sends a message to the worker, or queues it while the worker answers.
    pub(super) fn say(&mut self, text: String) {
        let mut files = self.known.mentioned(&text);
        if self.pending.is_none() {
            if self.run.is_some() {
                self.queue.push_back(text);
                self.show_queue();
                return;
            }
            files.retain(|file| !self.first_files.contains(file));
            let files = [self.first_files.clone(), files].concat();
            let started = self.starter.start(text.clone(), &files);
            self.said_first(&text, started);
            return;
        }
        self.face.user(&text);
        self.working();
        let joins = self.held().map(Joined::next).unwrap_or_default();
        files.retain(|file| !joins.iter().any(|joined| joined.path.as_deref() == Some(file)));
        self.next.extend(files.into_iter().map(|file| Answer::Attach { file: file.into(), content: None }));
        self.next.push_back(Answer::Give { value: Arc::new(Value::String(text)) });
        self.give_next();
    }

    /// Shows the first message, and the result of starting the run.
    pub(super) fn said_first(&mut self, text: &str, started: Result<Started, NotReady>) {
        self.face.user(text);
        match started {
            Ok(started) => {
                self.first_files.clear();
                self.run = Some(started);
                self.working();
            }
            Err(problem) => {
                self.exit = Exit::Wrong;
                self.face.problem(&problem.text());
                self.face.compose(text);
                if self.face.is_piped() {
                    self.leaving = Some(Leaving::Chat);
                }
            }
        }
    }

    /// Gives the next of several answers that belong together.
    pub(super) fn give_next(&mut self) {
        if let Some(answer) = self.next.pop_front() {
            self.aside(answer);
        }
    }

    /// Gives an answer to the conversation that waits for the user. If no chat has begun, begins one. Returns false,
    /// with a message to the user, if no conversation waits.
    pub(super) fn aside(&mut self, answer: Answer) -> bool {
        if self.run.is_none() {
            return self.listen_first(answer);
        }
        let Some(Pending { reply, .. }) = self.pending.take() else {
            self.face.problem(NOT_YOUR_TURN);
            return false;
        };
        self.aside = !matches!(answer, Answer::Give { .. });
        // A run that is over needs no answer.
        let _ = reply.send(Reply::Given(Given::operator(answer, VIA)));
        true
    }

    /// Begins a chat in which the user gives another answer before the first message.
    fn listen_first(&mut self, answer: Answer) -> bool {
        match self.starter.listen() {
            Ok(started) => {
                let files = std::mem::take(&mut self.first_files).into_iter();
                self.next.extend(files.map(|file| Answer::Attach { file: file.into(), content: None }));
                self.next.push_back(answer);
                self.run = Some(started);
                self.working();
                true
            }
            Err(problem) => {
                let why = problem.text();
                self.face.problem(&format!("{why}\n  this chat has to begin with your first message"));
                false
            }
        }
    }

    /// Adds a file to the first message.
    pub(super) fn attach_first(&mut self, file: &str) {
        if !self.known.is_file(file) {
            self.face.problem(&format!("there is no file {file} in the program's folder"));
        } else if !self.first_files.iter().any(|known| known == file) {
            self.first_files.push(file.to_owned());
            self.face.note(&format!("{file} joins your next message; /detach takes it back"));
        }
    }

    /// Sends a message to the current answer, or as the next message if there is no answer.
    pub(super) fn say_now(&mut self, text: String) {
        match &self.run {
            Some(run) if self.pending.is_none() => {
                // A chat that has just begun has no record yet.
                let path = self.under_way().cloned();
                run.interjector.say(path.unwrap_or_else(CallPath::root), text);
                self.face.note("it is said with the next request of this answer");
            }
            _ => self.say(text),
        }
    }
}
