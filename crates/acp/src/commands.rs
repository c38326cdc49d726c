//! Slash commands that make sense in an editor. Everything else of `llm-do chat` the editor has itself.

use agent_client_protocol::v1::schema::AvailableCommand;

/// What a line of the user means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A message for the worker.
    Message(String),
    /// A command.
    Command(Command),
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Undo,
    Retry,
    Tools,
    Cost,
    Done,
}

const COMMANDS: &[(&str, Command, &str)] = &[
    ("undo", Command::Undo, "Take your last message back, with all that followed it"),
    ("retry", Command::Retry, "Ask for another answer to your last message"),
    ("tools", Command::Tools, "Show the tools that the worker may call"),
    ("cost", Command::Cost, "Show the tokens and the cost so far, by worker and model"),
    ("done", Command::Done, "End a conversation in the middle of a run; its caller gets the result"),
];

/// The commands as the client shows them.
pub(crate) fn available() -> Vec<AvailableCommand> {
    COMMANDS.iter().map(|(name, _, does)| AvailableCommand::new(*name, *does)).collect()
}

/// Reads a prompt. Only a known command alone is one: a message may begin with a path.
pub(crate) fn parse(text: String) -> Typed {
    let name = text.trim().strip_prefix('/');
    match COMMANDS.iter().find(|(command, ..)| name == Some(command)) {
        Some((_, command, _)) => Typed::Command(*command),
        None => Typed::Message(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_stands_alone() {
        assert_eq!(parse("/undo ".into()), Typed::Command(Command::Undo));
        for message in ["/undo it", "undo", "/etc/hosts", "//undo"] {
            assert_eq!(parse(message.into()), Typed::Message(message.into()));
        }
    }
}
