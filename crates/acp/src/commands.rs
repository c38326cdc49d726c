//! Slash commands that make sense in an editor, and those that call a worker of the program. Editors have their own
//! equivalents of the other commands of `llm-do chat`.

use agent_client_protocol::v1::schema::{AvailableCommand, AvailableCommandInput, UnstructuredCommandInput};
use llm_do::core::worker::WorkerDefinition;
use std::sync::Arc;

/// The meaning of a line that the user typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A message for the worker.
    Message(String),
    /// A command.
    Command(Command),
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Undo,
    Retry,
    /// Summarise older turns; the text says which facts the summary must keep.
    Compact(String),
    UndoCompaction,
    Keep,
    Tools,
    Cost,
    Done,
    /// Call the worker of that name with these arguments.
    Run(Arc<str>, String),
}

/// A command that is always there.
struct FixedCommand {
    name: &'static str,
    does: &'static str,
    arguments: Arguments,
}

/// Arguments that a command takes after its name.
enum Arguments {
    /// Nothing.
    None(Command),
    /// A text, which may be empty.
    Text { hint: &'static str, command: fn(&str) -> Command },
}

const COMMANDS: &[FixedCommand] = &[
    FixedCommand {
        name: "undo",
        does: "Take your last message back, with all that followed it",
        arguments: Arguments::None(Command::Undo),
    },
    FixedCommand {
        name: "retry",
        does: "Ask for another answer to your last message",
        arguments: Arguments::None(Command::Retry),
    },
    FixedCommand {
        name: "compact",
        does: "Summarise older turns to make room; `undo` takes the last compaction back",
        arguments: Arguments::Text {
            hint: "what the summary must keep, or undo",
            command: |text| match text {
                "undo" => Command::UndoCompaction,
                keep => Command::Compact(keep.to_owned()),
            },
        },
    },
    FixedCommand {
        name: "keep",
        does: "Let the result of your last call of a worker join your next message",
        arguments: Arguments::None(Command::Keep),
    },
    FixedCommand {
        name: "tools",
        does: "Show the tools that the worker may call",
        arguments: Arguments::None(Command::Tools),
    },
    FixedCommand {
        name: "cost",
        does: "Show the tokens and the cost so far, by worker and model",
        arguments: Arguments::None(Command::Cost),
    },
    FixedCommand {
        name: "done",
        does: "End a conversation in the middle of a run; its caller gets the result",
        arguments: Arguments::None(Command::Done),
    },
];

/// Returns the commands that the client shows: the fixed ones, and the workers that the user may call. A worker with
/// the name of a fixed command gets none.
pub(crate) fn available(workers: &[Arc<WorkerDefinition>]) -> Vec<AvailableCommand> {
    let with_hint = |name: &str, does: &str, hint: &str| {
        let input = AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint));
        AvailableCommand::new(name, does).input(input)
    };
    let known = COMMANDS.iter().map(|known| match known.arguments {
        Arguments::None(_) => AvailableCommand::new(known.name, known.does),
        Arguments::Text { hint, .. } => with_hint(known.name, known.does, hint),
    });
    let free = workers.iter().filter(|worker| COMMANDS.iter().all(|known| known.name != &*worker.id));
    let workers = free.map(|worker| {
        let does = worker.description.as_deref().and_then(|text| text.trim().lines().next());
        let parameters = worker.signature.parameters.iter().map(|parameter| format!("{}=…", parameter.name));
        let hint = match worker.signature.declared {
            true => parameters.collect::<Vec<_>>().join(" "),
            false => "input".to_owned(),
        };
        with_hint(&worker.id, does.unwrap_or("A worker of the program"), &hint)
    });
    known.chain(workers).collect()
}

/// Reads a prompt. It is a command only if it names a known command or a worker that the user may call, because a
/// message may begin with a path. A command without arguments must be the whole prompt.
pub(crate) fn parse(text: String, workers: &[Arc<WorkerDefinition>]) -> Typed {
    let Some(line) = text.trim().strip_prefix('/') else { return Typed::Message(text) };
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let arguments = arguments.trim();
    let command = match COMMANDS.iter().find(|known| known.name == name) {
        Some(FixedCommand { arguments: Arguments::None(command), .. }) if arguments.is_empty() => {
            Some(command.clone())
        }
        Some(FixedCommand { arguments: Arguments::None(_), .. }) => None,
        Some(FixedCommand { arguments: Arguments::Text { command, .. }, .. }) => Some(command(arguments)),
        None => {
            let worker = workers.iter().find(|worker| *worker.id == *name);
            worker.map(|worker| Command::Run(Arc::clone(&worker.id), arguments.to_owned()))
        }
    };
    command.map_or(Typed::Message(text), Typed::Command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_arguments_stands_alone() {
        let parse = |text: &str| super::parse(text.into(), &[]);
        assert_eq!(parse("/undo "), Typed::Command(Command::Undo));
        assert_eq!(parse("/compact"), Typed::Command(Command::Compact(String::new())));
        assert_eq!(parse("/compact the names"), Typed::Command(Command::Compact("the names".into())));
        assert_eq!(parse("/compact undo"), Typed::Command(Command::UndoCompaction));
        for message in ["/undo it", "undo", "/etc/hosts", "//undo", "/nothing"] {
            assert_eq!(parse(message), Typed::Message(message.into()));
        }
    }
}
