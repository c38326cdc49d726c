//! Slash commands. Each command is one entry of [`COMMANDS`], which says everything about it: its name, its arguments, its
//! help, how its arguments are completed and what it does. A new command is a new file here and a line in the table.

mod copy;
mod cost;
mod help;
mod leave;
mod save;
mod tools;
mod undo;

use super::{Conversation, Talk};
use llm_do::program::diagnostics::nearest;
use llm_do_core::call_path::CallPath;
use llm_do_terminal::{Candidate, Candidates, fuzzy};

/// All commands, in the order of the help.
pub(in crate::chat) const COMMANDS: &[&Command] = &[
    &help::HELP,
    &tools::TOOLS,
    &cost::COST,
    &undo::UNDO,
    &undo::RETRY,
    &undo::EDIT,
    &save::SAVE,
    &copy::COPY,
    &leave::NEW,
    &leave::DONE,
    &leave::EXIT,
];

/// A command.
pub(in crate::chat) struct Command {
    /// Its name, with the slash.
    pub(in crate::chat) name: &'static str,
    /// Another name for it, with the slash.
    alias: Option<&'static str>,
    arguments: Arguments,
    /// What it does, in a line.
    does: &'static str,
    /// What `/help NAME` adds to that line; empty for nothing.
    more: &'static str,
    /// Does it, with its arguments.
    run: fn(&mut Talk<'_>, &str),
}

/// The arguments of a command.
enum Arguments {
    /// It takes none.
    None,
    /// It takes some or none.
    Optional {
        /// As help shows them.
        shown: &'static str,
        complete: Complete,
    },
}

/// Knows what the word at the caret could be. It is given the arguments before the word, and the word.
type Complete = fn(&str, &str) -> Vec<Candidate>;

impl Arguments {
    fn shown(&self) -> &'static str {
        match self {
            Self::None => "",
            Self::Optional { shown, .. } => shown,
        }
    }
}

impl Command {
    /// The name with the arguments, as help shows them.
    fn usage(&self) -> String {
        format!("{} {}", self.name, self.arguments.shown()).trim_end().to_owned()
    }

    fn is_named(&self, name: &str) -> bool {
        self.name == name || self.alias == Some(name)
    }

    /// The command of that name, with the slash.
    fn named(name: &str) -> Option<&'static Self> {
        COMMANDS.iter().copied().find(|command| command.is_named(name))
    }
}

/// What a line of the user means.
pub(super) enum Typed {
    /// A message for the worker.
    Message(String),
    /// A command with its arguments.
    Command(&'static Command, String),
    /// A command that does not exist or can't be understood, with what to do.
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
        None => Typed::Wrong(unknown(name)),
        Some(Command { arguments: Arguments::None, .. }) if !arguments.is_empty() => {
            Typed::Wrong(format!("{name} takes no arguments"))
        }
        Some(command) => Typed::Command(command, arguments.to_owned()),
    }
}

fn unknown(name: &str) -> String {
    let meant = nearest(name, COMMANDS.iter().map(|command| command.name)).into_iter().next();
    let meant = meant.map(|name| format!(" Did you mean {name}?")).unwrap_or_default();
    format!(
        "There is no command {name}.{meant} /help shows the commands; // sends a message that begins with a slash."
    )
}

/// What could stand at the caret (a place in bytes) of a line that may be a command.
pub(in crate::chat) fn complete(text: &str, caret: usize) -> Option<Candidates> {
    let line = text.get(..caret).filter(|line| line.starts_with('/'))?;
    let Some((name, arguments)) = line.split_once(char::is_whitespace) else {
        let fitting = fuzzy::rank(&line[1..], COMMANDS, |command| command.name);
        let candidate = |command: &&Command| candidate(command.name, command.does);
        return Some(Candidates { replaces: 0..caret, list: fitting.into_iter().map(candidate).collect() });
    };
    let Arguments::Optional { complete, .. } = Command::named(name)?.arguments else { return None };
    let word = arguments.rsplit(char::is_whitespace).next().unwrap_or_default();
    let before = arguments.len() - word.len();
    Some(Candidates { replaces: caret - word.len()..caret, list: complete(&arguments[..before], word) })
}

fn candidate(text: &str, note: &str) -> Candidate {
    Candidate { text: text.to_owned(), note: note.to_owned() }
}

/// Completes nothing.
fn no_completion(_before: &str, _word: &str) -> Vec<Candidate> {
    Vec::new()
}

impl Talk<'_> {
    /// Does what a command says.
    pub(super) fn command(&mut self, command: &Command, arguments: &str) {
        (command.run)(self, arguments);
    }

    /// The conversation that waits for the user, or the chat itself.
    fn current(&self) -> Option<&Conversation> {
        let waiting = self.pending.as_ref().and_then(|pending| self.conversations.get(&pending.id.call));
        waiting.or_else(|| self.conversations.get(&CallPath::root()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line as its kind and text.
    fn read(line: &str) -> (&'static str, String) {
        match parse(line) {
            Typed::Message(text) => ("message", text),
            Typed::Command(command, arguments) => (command.name, arguments),
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
        let (kind, why) = read("/hepl");
        assert!(kind == "wrong" && why.contains("Did you mean /help?"), "{why}");
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

    #[test]
    fn names_and_arguments_are_completed() {
        let texts = |line: &str| {
            let found = complete(line, line.len()).map(|found| (found.replaces, found.list));
            found.map(|(range, list)| (range, list.into_iter().map(|c| c.text).collect::<Vec<_>>()))
        };
        assert_eq!(texts("/und"), Some((0..4, vec!["/undo".to_owned()])));
        assert_eq!(texts("/help und"), Some((6..9, vec!["undo".to_owned()])));
        assert_eq!(texts("/undo x"), None);
        assert_eq!(texts("hello"), None);
    }
}
