//! Slash commands. Each command is one entry of [`COMMANDS`], which contains its name, its arguments, its help, the
//! completion of its arguments and its implementation. A new command is a new file here and a line in the table.

mod attach;
mod compact;
mod copy;
mod cost;
mod help;
mod leave;
mod model;
mod now;
mod other_runs;
mod rules;
mod run;
mod save;
mod tools;
mod undo;

use super::{Conversation, Talk};
use crate::chat::{Kind, known::Known, words::mention};
use llm_do::program::diagnostics::nearest;
use llm_do_core::call_path::CallPath;
use llm_do_records::ConversationView;
use llm_do_terminal::{Candidate, Candidates, fuzzy};

/// All commands, in the order of the help.
pub(in crate::chat) const COMMANDS: &[&Command] = &[
    &help::HELP,
    &tools::TOOLS,
    &cost::COST,
    &model::MODEL,
    &rules::RULES,
    &run::RUN,
    &run::KEEP,
    &attach::ATTACH,
    &attach::DETACH,
    &now::NOW,
    &undo::UNDO,
    &undo::RETRY,
    &undo::EDIT,
    &compact::COMPACT,
    &save::SAVE,
    &copy::COPY,
    &other_runs::FORK,
    &other_runs::RESUME,
    &leave::NEW,
    &leave::DONE,
    &leave::EXIT,
];

/// A command.
pub(in crate::chat) struct Command {
    /// The name of the command, with the slash.
    pub(in crate::chat) name: &'static str,
    /// Another name for it, with the slash.
    alias: Option<&'static str>,
    arguments: Arguments,
    /// True if the command is about the chat itself, and has no meaning in a run that is none.
    of_chat: bool,
    /// The description of the command, in one line.
    does: &'static str,
    /// Text that `/help NAME` adds to that line; may be empty.
    more: &'static str,
    /// The implementation, which takes the arguments.
    run: fn(&mut Talk<'_>, &str),
}

/// The arguments of a command.
enum Arguments {
    /// The command takes no arguments.
    None,
    /// The command needs arguments.
    Some {
        /// The arguments, as help shows them.
        shown: &'static str,
        complete: Complete,
    },
    /// The arguments can be left out.
    Optional {
        /// The arguments, as help shows them.
        shown: &'static str,
        complete: Complete,
    },
}

/// A source of candidates for the word at the caret. It gets the arguments before the word, and the word.
type Complete = fn(&Known, &str, &str) -> Vec<Candidate>;

impl Arguments {
    fn shown(&self) -> &'static str {
        match self {
            Self::None => "",
            Self::Some { shown, .. } | Self::Optional { shown, .. } => shown,
        }
    }
}

impl Command {
    /// Returns the name with the arguments, as help shows them.
    fn usage(&self) -> String {
        format!("{} {}", self.name, self.arguments.shown()).trim_end().to_owned()
    }

    fn is_named(&self, name: &str) -> bool {
        self.name == name || self.alias == Some(name)
    }

    /// Returns the command of that name, with the slash.
    fn named(name: &str) -> Option<&'static Self> {
        COMMANDS.iter().copied().find(|command| command.is_named(name))
    }
}

/// The meaning of a line that the user typed.
pub(super) enum Typed {
    /// A message for the worker.
    Message(String),
    /// A command with its arguments.
    Command(&'static Command, String),
    /// An unknown command that may be a worker: the name without the slash, and the arguments.
    Other(String, String),
    /// A command that can't be understood, with a suggestion.
    Wrong(String),
}

/// Reads a line. `//` at its beginning sends a message that begins with one slash.
pub(super) fn parse(line: &str) -> Typed {
    if let Some(message) = line.strip_prefix("//") {
        return Typed::Message(format!("/{message}"));
    }
    if !line.starts_with('/') {
        return Typed::Message(line.to_owned());
    }
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let arguments = arguments.trim();
    match Command::named(name) {
        None => Typed::Other(name[1..].to_owned(), arguments.to_owned()),
        Some(Command { arguments: Arguments::None, .. }) if !arguments.is_empty() => {
            Typed::Wrong(format!("{name} takes no arguments"))
        }
        Some(command) => Typed::Command(command, arguments.to_owned()),
    }
}

fn unknown(known: &Known, name: &str) -> String {
    let workers: Vec<String> = known.workers().iter().map(|worker| format!("/{}", worker.id)).collect();
    let names = COMMANDS.iter().map(|command| command.name).chain(workers.iter().map(String::as_str));
    let meant = nearest(name, names).into_iter().next();
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
    let Some((name, arguments)) = line.split_once(char::is_whitespace) else {
        let workers = known.workers().iter().map(|worker| (format!("/{} ", worker.id), run::about(worker)));
        let all = COMMANDS.iter().map(|command| {
            // Arguments follow.
            let space = if matches!(command.arguments, Arguments::None) { "" } else { " " };
            (format!("{}{space}", command.name), command.does)
        });
        let fitting = fuzzy::rank(&line[1..], all.chain(workers), |(name, _)| name);
        let list = fitting.into_iter().map(|(name, does)| candidate(&name, does)).collect();
        return Some(Candidates { replaces, list });
    };
    let before = &arguments[..arguments.len() - word.len()];
    let list = match Command::named(name).map(|command| &command.arguments) {
        Some(Arguments::None) => return None,
        Some(Arguments::Some { complete, .. } | Arguments::Optional { complete, .. }) => {
            complete(known, before, word)
        }
        None => run::parameters(known.exported(&name[1..])?, word),
    };
    Some(Candidates { replaces, list })
}

fn candidate(text: &str, note: &str) -> Candidate {
    Candidate { text: text.to_owned(), note: note.to_owned() }
}

/// Completes nothing.
fn no_completion(_known: &Known, _before: &str, _word: &str) -> Vec<Candidate> {
    Vec::new()
}

impl Talk<'_> {
    /// Executes a command.
    pub(super) fn command(&mut self, command: &Command, arguments: &str) {
        if command.of_chat && self.kind == Kind::Run {
            let why = format!("{} is for a chat, and this is a run of {}", command.name, self.worker);
            return self.face.problem(&why);
        }
        (command.run)(self, arguments);
    }

    /// Calls an exported worker that is named like a command.
    pub(super) fn worker_or_wrong(&mut self, name: &str, arguments: &str) {
        match self.known.exported(name) {
            Some(_) => run::run(self, name, arguments),
            None => {
                let why = unknown(self.known, &format!("/{name}"));
                self.face.problem(&why);
            }
        }
    }

    /// Returns the conversation that waits for the user, or the chat itself, with its call.
    pub(super) fn at(&self) -> Option<(&CallPath, &Conversation)> {
        let waiting =
            self.pending.as_ref().and_then(|pending| self.conversations.get_key_value(&pending.id.call));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a line as its kind and text.
    fn read(line: &str) -> (&'static str, String) {
        match parse(line) {
            Typed::Message(text) => ("message", text),
            Typed::Command(command, arguments) => (command.name, arguments),
            Typed::Other(name, arguments) => ("other", format!("{name}|{arguments}")),
            Typed::Wrong(why) => ("wrong", why),
        }
    }

    #[test]
    fn lines_are_messages_commands_or_mistakes() {
        assert_eq!(read("hello /help"), ("message", "hello /help".into()));
        assert_eq!(read("//etc/hosts"), ("message", "/etc/hosts".into()));
        assert_eq!(read("/edit  a b "), ("/edit", "a b".into()));
        assert_eq!(read("/save"), ("/save", String::new()));
        assert_eq!(read("/quit"), ("/exit", String::new()));
        assert_eq!(read("/undo 2"), ("wrong", "/undo takes no arguments".into()));
        assert_eq!(read("/summarise file=a b"), ("other", "summarise|file=a b".into()));
    }

    #[test]
    fn names_are_distinct() {
        let mut names: Vec<&str> =
            COMMANDS.iter().flat_map(|command| [Some(command.name), command.alias]).flatten().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
