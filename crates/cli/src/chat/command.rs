//! Slash commands.

use llm_do::program::diagnostics::nearest;

/// What a line of the user means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// A message for the worker.
    Message(String),
    /// A command.
    Command(Command),
    /// A command that does not exist or can't be understood, with what to do.
    Wrong(String),
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Tools,
    Cost,
    Undo,
    Retry,
    /// With the new text, if it is given.
    Edit(Option<String>),
    /// With the file, if one is named.
    Save(Option<String>),
    Copy,
    /// With what the summary must keep, if the user says so.
    Compact(Option<String>),
    UndoCompaction,
    New,
    Done,
    Exit,
}

/// One command in the help and in completion.
pub(super) struct Entry {
    /// Its name, with the slash.
    pub(super) name: &'static str,
    /// Its arguments, as help shows them.
    pub(super) arguments: &'static str,
    /// What it does.
    pub(super) does: &'static str,
}

/// All commands, in the order of the help.
pub(super) const COMMANDS: &[Entry] = &[
    entry("/help", "", "show the commands"),
    entry("/tools", "", "show the tools that the worker may call"),
    entry("/cost", "", "show the tokens and the cost so far, by worker and model"),
    entry("/undo", "", "take your last message back, with all that followed it"),
    entry("/retry", "", "ask for another answer to your last message"),
    entry("/edit", "[TEXT]", "change your last message and send it again"),
    entry("/compact", "[WHAT TO KEEP]", "summarise older turns to make room; /compact undo takes it back"),
    entry("/save", "[FILE]", "write the conversation to a Markdown file"),
    entry("/copy", "", "copy the last answer"),
    entry("/new", "", "end this chat and begin another one"),
    entry("/done", "", "end a conversation in the middle of a run; its caller gets the result"),
    entry("/exit", "", "leave the chat; it can be resumed"),
];

const fn entry(name: &'static str, arguments: &'static str, does: &'static str) -> Entry {
    Entry { name, arguments, does }
}

/// Reads a line. `//` at its beginning sends a message that begins with one slash.
pub(super) fn parse(line: &str) -> Typed {
    if let Some(message) = line.strip_prefix("//") {
        return Typed::Message(format!("/{message}"));
    }
    if !line.starts_with('/') {
        return Typed::Message(line.to_owned());
    }
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = Some(rest.trim()).filter(|rest| !rest.is_empty()).map(str::to_owned);
    let command = match name {
        "/help" => Command::Help,
        "/tools" => Command::Tools,
        "/cost" => Command::Cost,
        "/undo" => Command::Undo,
        "/retry" => Command::Retry,
        "/edit" => Command::Edit(rest.clone()),
        "/save" => Command::Save(rest.clone()),
        "/copy" => Command::Copy,
        "/compact" if rest.as_deref() == Some("undo") => return Typed::Command(Command::UndoCompaction),
        "/compact" => Command::Compact(rest.clone()),
        "/new" => Command::New,
        "/done" => Command::Done,
        "/exit" | "/quit" => Command::Exit,
        _ => return Typed::Wrong(unknown(name)),
    };
    match (&command, rest) {
        (Command::Edit(_) | Command::Save(_) | Command::Compact(_), _) | (_, None) => Typed::Command(command),
        (_, Some(_)) => Typed::Wrong(format!("{name} takes no arguments")),
    }
}

fn unknown(name: &str) -> String {
    let meant = nearest(name, COMMANDS.iter().map(|entry| entry.name)).into_iter().next();
    let meant = meant.map(|name| format!(" Did you mean {name}?")).unwrap_or_default();
    format!(
        "There is no command {name}.{meant} /help shows the commands; // sends a message that begins with a slash."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_commands_or_mistakes() {
        assert_eq!(parse("hello /help"), Typed::Message("hello /help".into()));
        assert_eq!(parse("//etc/hosts"), Typed::Message("/etc/hosts".into()));
        assert_eq!(parse("/edit  a b "), Typed::Command(Command::Edit(Some("a b".into()))));
        assert_eq!(parse("/compact undo"), Typed::Command(Command::UndoCompaction));
        assert_eq!(parse("/compact the names"), Typed::Command(Command::Compact(Some("the names".into()))));
        assert_eq!(parse("/save"), Typed::Command(Command::Save(None)));
        assert_eq!(parse("/undo 2"), Typed::Wrong("/undo takes no arguments".into()));
        let Typed::Wrong(why) = parse("/hepl") else { panic!() };
        assert!(why.contains("Did you mean /help?"), "{why}");
    }

    #[test]
    fn each_command_of_the_help_is_understood() {
        for entry in COMMANDS {
            assert!(matches!(parse(entry.name), Typed::Command(_)), "{}", entry.name);
        }
    }
}
