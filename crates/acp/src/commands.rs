//! The slash commands that editors offer, and those that call a worker of the program.

use agent_client_protocol::v1::schema::{AvailableCommand, AvailableCommandInput, UnstructuredCommandInput};
use llm_do::{
    core::worker::WorkerDefinition,
    dialogue::{COMMANDS, Command, Typed as Line, Usage, parse as parse_line},
};
use std::sync::Arc;

/// The meaning of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A message for the worker.
    Message(String),
    /// A command with its arguments.
    Command(Command, String),
    /// A call of the worker of that name with these arguments.
    Run(Arc<str>, String),
}

fn in_editors() -> impl Iterator<Item = &'static Usage> {
    COMMANDS.iter().filter(|usage| usage.in_editors)
}

/// Returns the commands that the client shows: the fixed ones, and the workers that the user may call. A worker with
/// the name of a fixed command gets none.
pub(crate) fn available(workers: &[Arc<WorkerDefinition>]) -> Vec<AvailableCommand> {
    let with_hint = |command: AvailableCommand, hint: &str| {
        command.input(AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)))
    };
    let known = in_editors().map(|usage| {
        let command = AvailableCommand::new(usage.name, sentence(usage.does));
        match usage.arguments.hint() {
            Some(hint) => with_hint(command, hint),
            None => command,
        }
    });
    let free = workers.iter().filter(|worker| in_editors().all(|usage| usage.name != &*worker.id));
    let workers = free.map(|worker| {
        let does = worker.description.as_deref().and_then(|text| text.trim().lines().next());
        let parameters = worker.signature.parameters.iter().map(|parameter| format!("{}=…", parameter.name));
        let hint = match worker.signature.declared {
            true => parameters.collect::<Vec<_>>().join(" "),
            false => "input".to_owned(),
        };
        with_hint(AvailableCommand::new(&*worker.id, does.unwrap_or("A worker of the program")), &hint)
    });
    known.chain(workers).collect()
}

/// Returns a text with a capital letter at its beginning.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Reads a prompt. It is a command only if it names a command of editors or a worker that the user may call, because a
/// message may begin with a path. A command without arguments must be the whole prompt.
pub(crate) fn parse(text: String, workers: &[Arc<WorkerDefinition>]) -> Typed {
    match parse_line(text.trim(), |usage| usage.in_editors) {
        Line::Command(usage, arguments) => Typed::Command(usage.command, arguments.to_owned()),
        Line::Other(name, arguments) => match workers.iter().find(|worker| *worker.id == *name) {
            Some(worker) => Typed::Run(Arc::clone(&worker.id), arguments.to_owned()),
            None => Typed::Message(text),
        },
        Line::Message(_) | Line::TooMuch(_) => Typed::Message(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_without_arguments_stands_alone() {
        let parse = |text: &str| super::parse(text.into(), &[]);
        assert_eq!(parse("/undo "), Typed::Command(Command::Undo, String::new()));
        assert_eq!(parse("/compact"), Typed::Command(Command::Compact, String::new()));
        assert_eq!(parse("/compact the names"), Typed::Command(Command::Compact, "the names".into()));
        for message in ["/undo it", "undo", "/etc/hosts", "//undo", "/nothing", "/copy"] {
            assert_eq!(parse(message), Typed::Message(message.into()));
        }
    }

    #[test]
    fn editors_show_the_commands_that_they_offer() {
        let shown: Vec<String> = available(&[]).into_iter().map(|command| command.name).collect();
        assert_eq!(shown, ["tools", "cost", "keep", "undo", "retry", "compact", "done"]);
    }
}
