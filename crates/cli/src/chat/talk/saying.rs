//! Messages of the user to the worker, and the files that join them.

use super::{Input, Leave, Line, Started, Talk};
use crate::{exit::Exit, opening::NotReady};
use llm_do::Joined;
use llm_do_core::{call_path::CallPath, question::Answer};
use serde_json::Value;
use std::{sync::Arc, time::Instant};

impl Talk<'_> {
    /// Gives the conversation that waits a message, with the files that it names.
    pub(super) fn deliver(&mut self, text: String) {
        let mut files = self.known.mentioned(&text);
        self.face.user(&text);
        let joins = self.held().map(Joined::next).unwrap_or_default();
        files.retain(|file| !joins.iter().any(|joined| joined.path.as_deref() == Some(file)));
        let attach = files.into_iter().map(|file| Answer::Attach { file: file.into(), content: None });
        let message = Answer::Give { value: Arc::new(Value::String(text)) };
        self.take(Input::Give(attach.chain([message]).collect()));
    }

    /// Begins a run with that message, these files and those that the message names.
    pub(super) fn start(&mut self, text: String, first: &[Arc<str>]) {
        let mut files: Vec<String> = first.iter().map(ToString::to_string).collect();
        let mentioned = self.known.mentioned(&text).into_iter().filter(|file| !files.contains(file));
        let mentioned: Vec<String> = mentioned.collect();
        files.extend(mentioned);
        let started = self.starter.start(text.clone(), &files);
        self.said_first(&text, started);
    }

    /// Shows the first message, and the result of starting the run.
    pub(super) fn said_first(&mut self, text: &str, started: Result<Started, NotReady>) {
        self.face.user(text);
        match started {
            Ok(started) => self.began(started),
            Err(problem) => {
                self.exit = Exit::Wrong;
                self.face.problem(&problem.text());
                self.face.compose(text);
                self.take(Input::NotBegun);
                if self.face.is_piped() {
                    self.dialogue.clear_queue();
                    self.leave(Leave::End);
                }
            }
        }
    }

    /// A run has begun.
    pub(super) fn began(&mut self, started: Started) {
        self.run = Some(started);
        self.since = Some(Instant::now());
        self.take(Input::Began);
    }

    /// Gives an answer to the conversation that waits for the user. If no chat has begun, begins one. Returns false,
    /// with a message to the user, if no conversation waits.
    pub(super) fn give(&mut self, answer: Answer) -> bool {
        self.take(Input::Give(vec![answer]))
    }

    /// Adds a file to the next message.
    pub(super) fn attach(&mut self, file: &str) {
        // The run looks for the file itself.
        if !self.dialogue.is_running() && !self.known.is_file(file) {
            self.face.problem(&format!("there is no file {file} in the program's folder"));
        } else {
            self.take(Input::Attach(file.into()));
        }
    }

    /// Sends a message to the current answer, or as the next message if there is no answer.
    pub(super) fn say_now(&mut self, text: String) {
        // A chat that has just begun has no record yet.
        let path = self.under_way().cloned().unwrap_or_else(CallPath::root);
        self.take(Input::SayNow(Line::Message(text), path));
    }
}
