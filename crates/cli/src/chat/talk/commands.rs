//! What the commands of a chat do.

use super::{CALL, Conversation, Leaving, SAVED, Talk, VIA, start, used};
use crate::chat::command::{COMMANDS, Command};
use llm_do_core::{
    call_path::CallPath,
    question::{Answer, Given, Reply},
};
use std::{fs::OpenOptions, io::Write as _, time::Instant};

impl Talk<'_> {
    pub(super) fn command(&mut self, command: Command) {
        match command {
            Command::Help => self.face.page(&help()),
            Command::Tools => self.face.page(&self.tools()),
            Command::Cost => self.face.page(&self.cost()),
            Command::Undo => {
                if let Some(text) = self.undo() {
                    self.face.note("your last message and what followed it are taken back");
                    self.face.compose(&text);
                }
            }
            Command::Retry => {
                if let Some(text) = self.undo() {
                    self.again = Some(text);
                }
            }
            Command::Edit(new) => {
                if let Some(text) = self.undo() {
                    match new {
                        Some(new) => self.again = Some(new),
                        None => self.face.compose(&text),
                    }
                }
            }
            Command::Save(file) => self.save(file.as_deref().unwrap_or(SAVED)),
            Command::Copy => {
                let answer = self.current().and_then(|conversation| conversation.transcript.last_answer());
                match answer.map(str::to_owned) {
                    None => self.face.problem("there is no answer yet"),
                    Some(answer) if self.face.copy(&answer) => self.face.note("copied"),
                    Some(_) => self.face.problem("this terminal has no clipboard; /save writes a file"),
                }
            }
            Command::New => match self.run {
                Some(_) => self.leave(Leaving::ForNew),
                None => self.face.note("a new chat begins with your next message"),
            },
            Command::Done => match self.pending.take() {
                Some(pending) if pending.id.call != CallPath::root() => {
                    self.since = Some(Instant::now());
                    let _ = pending.reply.send(Reply::Given(Given::operator(Answer::End, VIA)));
                }
                pending => {
                    self.pending = pending;
                    self.face
                        .problem("/done ends a conversation in the middle of a run; /exit leaves this chat");
                }
            },
            Command::Exit => self.leave(Leaving::Chat),
        }
    }

    /// The conversation that waits for the user, or the chat itself.
    fn current(&self) -> Option<&Conversation> {
        let waiting = self.pending.as_ref().and_then(|pending| self.conversations.get(&pending.id.call));
        waiting.or_else(|| self.conversations.get(&CallPath::root()))
    }

    /// Takes the user's last message back. Gives its text.
    fn undo(&mut self) -> Option<String> {
        let last = self.current().and_then(|conversation| conversation.transcript.last_message());
        let Some((message, text)) = last.map(|(number, text)| (number, text.to_owned())) else {
            self.face.problem("there is nothing to take back");
            return None;
        };
        let Some(pending) = self.pending.take() else {
            self.face.problem("an answer is being made: Ctrl-C stops it");
            return None;
        };
        self.since = Some(Instant::now());
        let _ = pending.reply.send(Reply::Given(Given::operator(Answer::Undo { message }, VIA)));
        Some(text)
    }

    fn tools(&self) -> String {
        let Some(conversation) = self.current() else {
            return "The tools are known when the chat has begun.".to_owned();
        };
        if conversation.tools.is_empty() {
            return format!("{} has no tools.", conversation.worker);
        }
        let lines = conversation.tools.iter().map(|(name, description)| {
            let first = description.lines().next().unwrap_or_default();
            format!("{name}  {}", start(first, CALL))
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn cost(&self) -> String {
        if self.used.is_empty() {
            return "Nothing has been used yet.".to_owned();
        }
        let lines =
            self.used.iter().map(|((worker, model), usage)| format!("{worker}  {model}  {}", used(*usage)));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn save(&mut self, file: &str) {
        let Some(conversation) = self.current() else {
            self.face.problem("there is nothing to save yet");
            return;
        };
        let text = conversation.transcript.markdown(&conversation.worker);
        let written = OpenOptions::new().write(true).create_new(true).open(file);
        match written.and_then(|mut file| file.write_all(text.as_bytes())) {
            Ok(()) => self.face.note(&format!("saved to {file}")),
            Err(error) => {
                self.face.problem(&format!("cannot write {file}: {error}; /save FILE names another file"));
            }
        }
    }
}

fn help() -> String {
    let width = COMMANDS.iter().map(|entry| entry.name.len() + entry.arguments.len() + 1).max().unwrap_or(0);
    let commands = COMMANDS.iter().map(|entry| {
        let usage = format!("{} {}", entry.name, entry.arguments);
        format!("{usage:width$}  {}", entry.does)
    });
    let keys = "Ctrl-J breaks a line · Ctrl-R searches the history · Ctrl-X Ctrl-E opens your editor\n\
                Ctrl-C clears the draft, or stops the answer · Ctrl-D leaves · Ctrl-G goes to a question and back";
    format!("{}\n\n{keys}", commands.collect::<Vec<_>>().join("\n"))
}
