//! Slash commands: their implementations in a terminal, and the completion of their arguments. The table of commands, with
//! names, arguments and help, is [`COMMANDS`].

mod attach;
mod cost;
mod help;
mod model;
mod other_runs;
mod rules;
mod run;
mod save;
mod tools;
mod undo;

use super::{Conversation, Input, Leave, Line, Talk};
use crate::chat::{known::Known, words::mention};
use llm_do::{
    dialogue::{Arguments, COMMANDS, Command, Extent, Typed, Undone, Usage, parse},
    last_answer, last_run,
    program::diagnostics::nearest,
};
use llm_do_core::{call_path::CallPath, question::Answer};
use llm_do_records::ConversationView;
use llm_do_terminal::{Candidate, Candidates, fuzzy};

fn unknown(known: &Known, name: &str) -> String {
    let workers: Vec<String> = known.workers().iter().map(|worker| format!("/{}", worker.id)).collect();
    let commands: Vec<String> = COMMANDS.iter().map(|usage| format!("/{}", usage.name)).collect();
    let meant = nearest(name, commands.iter().chain(&workers).map(String::as_str)).into_iter().next();
    let meant = meant.map(|name| format!(" Did you mean {name}?")).unwrap_or_default();
    format!(
        "there is no command {name}.{meant} /help shows the commands; // sends a message that begins with a slash."
    )
}

/// Returns the candidates for the caret (a position in bytes): a command, its arguments, or a file that a message
/// names.
pub(in crate::chat) fn complete(known: &Known, text: &str, caret: usize) -> Option<Candidates> {
    let line = text.get(..caret)?;
    let word = line.rsplit(char::is_whitespace).next().unwrap_or_default();
    let replaces = caret - word.len()..caret;
    if !line.starts_with('/') {
        let list = attach::files(known, word.strip_prefix('@')?);
        let list = list.into_iter().map(|file| Candidate { text: mention(&file.text), ..file });
        return Some(Candidates { replaces, list: list.collect() });
    }
    let Some((name, arguments)) = line[1..].split_once(char::is_whitespace) else {
        let workers = known.workers().iter().map(|worker| (format!("/{} ", worker.id), run::about(worker)));
        let all = COMMANDS.iter().map(|usage| {
            // Arguments follow.
            let space = if usage.arguments == Arguments::None { "" } else { " " };
            (format!("/{}{space}", usage.name), usage.does)
        });
        let fitting = fuzzy::rank(&line[1..], all.chain(workers), |(name, _)| name);
        let list = fitting.into_iter().map(|(name, does)| candidate(&name, does)).collect();
        return Some(Candidates { replaces, list });
    };
    let before = &arguments[..arguments.len() - word.len()];
    let list = match Usage::named(name) {
        Some(usage) if usage.arguments == Arguments::None => return None,
        Some(usage) => complete_arguments(usage.command, known, before, word),
        None => run::parameters(known.exported(name)?, word),
    };
    Some(Candidates { replaces, list })
}

/// Returns the candidates for a word of a command's arguments, behind the words before it.
fn complete_arguments(command: Command, known: &Known, before: &str, word: &str) -> Vec<Candidate> {
    match command {
        Command::Run => run::complete(known, before, word),
        Command::Attach => attach::files(known, word),
        _ if !before.is_empty() => Vec::new(),
        Command::Help => help::complete(word),
        Command::Model => model::complete(known, word),
        Command::Resume => other_runs::complete(known, word),
        Command::Rules => rules::complete(word),
        _ => Vec::new(),
    }
}

fn candidate(text: &str, note: &str) -> Candidate {
    Candidate { text: text.to_owned(), note: note.to_owned() }
}

impl Talk<'_> {
    /// Reads a line of the user as a message or a command.
    pub(super) fn read(&mut self, line: &str) {
        let typed = parse(line, |_| true);
        if !matches!(typed, Typed::Message(_)) {
            self.face.command(line);
        }
        match typed {
            Typed::Message(text) => {
                self.take(Input::Say(Line::Message(text.to_owned())));
            }
            Typed::Command(usage, arguments) => self.command(usage, arguments),
            Typed::Other(name, arguments) if self.known.exported(name).is_some() => {
                run::run(self, name, arguments);
            }
            Typed::Other(name, _) => {
                let why = unknown(self.known, &format!("/{name}"));
                self.face.problem(&why);
            }
            Typed::TooMuch(usage) => self.face.problem(&format!("/{} takes no arguments", usage.name)),
        }
    }

    fn command(&mut self, usage: &Usage, arguments: &str) {
        if usage.of_chat && self.extent == Extent::Run {
            let why = format!("/{} is for a chat, and this is a run of {}", usage.name, self.worker);
            return self.face.problem(&why);
        }
        match (usage.command, arguments) {
            (Command::Help, name) => help::show(self, name),
            (Command::Tools, _) => tools::show(self),
            (Command::Cost, _) => cost::show(self),
            (Command::Model, name) => model::model(self, name),
            (Command::Rules, text) => rules::rules(self, text),
            (Command::Run | Command::Now, "") => {
                let what = if usage.command == Command::Run { "the name of a worker" } else { "a text" };
                self.face.problem(&format!("/{} needs {what}", usage.name));
            }
            (Command::Run, text) => {
                let (name, arguments) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
                run::run(self, name, arguments);
            }
            (Command::Keep, _) => {
                let last = self.held().and_then(last_run);
                self.take(Input::Keep(last));
            }
            (Command::Attach, "") => attach::list(self),
            (Command::Attach, file) => self.attach(file),
            (Command::Detach, name) => attach::detach(self, name),
            (Command::Now, text) => self.say_now(text.to_owned()),
            (Command::Undo | Command::Edit, "") => undo::undo(self, Undone::Returned),
            (Command::Edit, new) => undo::undo(self, Undone::Replaced(Line::Message(new.to_owned()))),
            (Command::Retry, _) => undo::undo(self, Undone::Again),
            (Command::Compact, "undo") => {
                self.change(Answer::UndoCompaction, Some("the last compaction is taken back"));
            }
            (Command::Compact, keep) => {
                self.change(Answer::Compact { keep: (!keep.is_empty()).then(|| keep.into()) }, None);
            }
            (Command::Save, file) => save::save(self, file),
            (Command::Copy, _) => self.copy(),
            (Command::Fork, _) => self.leave(Leave::Fork),
            (Command::Resume, run) => other_runs::resume(self, run),
            (Command::New, _) => self.leave(Leave::New),
            (Command::Done, _) => {
                self.take(Input::End);
            }
            (Command::Exit, _) => self.leave(Leave::End),
            // It takes no arguments.
            (Command::Undo, _) => {}
        }
    }

    fn copy(&mut self) {
        match self.held().and_then(last_answer) {
            None => self.face.problem("there is no answer yet"),
            Some(answer) if self.face.copy(&answer) => {
                self.face.note("sent to the clipboard of this terminal");
            }
            Some(_) => {
                self.face.problem(
                    "there is no clipboard here, or the answer is too long for it; /save writes a file",
                );
            }
        }
    }

    /// Returns the conversation that waits for the user, or the chat itself, with its call.
    pub(super) fn at(&self) -> Option<(&CallPath, &Conversation)> {
        let waiting = self.dialogue.turn().and_then(|id| self.conversations.get_key_value(&id.call));
        waiting.or_else(|| self.conversations.get_key_value(&CallPath::root()))
    }

    /// Returns the same conversation without the call.
    pub(super) fn current(&self) -> Option<&Conversation> {
        self.at().map(|(_, conversation)| conversation)
    }

    /// Returns the view of that conversation.
    pub(super) fn held(&self) -> Option<&ConversationView> {
        self.view.conversation(self.at()?.0)
    }
}
