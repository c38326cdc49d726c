//! Implementations of the commands of a session.

use super::{Message, Talk};
use agent_client_protocol::v1::schema::StopReason;
use llm_do::{
    core::{call_path::CallPath, question::Answer},
    dialogue::{Command, Input, Undone},
    last_message, last_run,
    program::visible,
    records::{ConversationView, Spent, thousands},
    typed_input,
};
use std::sync::Arc;

impl Talk {
    /// Executes a command of those that editors offer.
    pub(super) fn command(&mut self, command: Command, arguments: &str) {
        match (command, arguments) {
            (Command::Undo, _) => self.undo(Undone::Returned),
            // What had joined the message joins it again.
            (Command::Retry, _) => self.undo(Undone::Again),
            (Command::Compact, "undo") => self.give(Answer::UndoCompaction),
            (Command::Compact, keep) => {
                self.give(Answer::Compact { keep: (!keep.is_empty()).then(|| keep.into()) });
            }
            (Command::Keep, _) => {
                let last = self.held().and_then(last_run);
                if self.take(Input::Keep(last)) {
                    self.say("*(The result joins your next message.)*");
                }
            }
            (Command::Done, _) => {
                self.take(Input::End);
            }
            (Command::Tools, _) => self.shows(&self.tools()),
            (Command::Cost, _) => self.shows(&self.cost()),
            // Editors do not offer the others.
            _ => self.turn_ends(Ok(StopReason::EndTurn)),
        }
    }

    /// Answers the prompt with a text of llm-do itself.
    fn shows(&mut self, text: &str) {
        self.say(text);
        self.turn_ends(Ok(StopReason::EndTurn));
    }

    fn give(&mut self, answer: Answer) {
        self.take(Input::Give(vec![answer]));
    }

    /// Returns the conversation that waits for the user.
    fn held(&self) -> Option<&ConversationView> {
        self.updates.view().conversation(&self.dialogue.turn()?.call)
    }

    /// Calls a worker of the program. The client sees the call and its result.
    pub(super) fn call(&mut self, name: &str, arguments: &str) {
        let worker = self.workers.iter().find(|worker| *worker.id == *name);
        let input = worker
            .ok_or_else(|| format!("There is no worker `{name}`."))
            .and_then(|worker| Ok((Arc::clone(&worker.id), typed_input(worker, arguments)?)));
        match input {
            Ok((worker, input)) => self.give(Answer::Run { worker, input: Arc::new(input) }),
            Err(why) => self.shows(&format!("{}\n\nNothing was run.", visible::text(&why))),
        }
    }

    /// Takes the user's last message back.
    fn undo(&mut self, then: Undone<Message>) {
        let last = self.held().and_then(last_message);
        let last = last.map(|(number, text)| (number, Message { text, files: Vec::new() }));
        self.take(Input::Undo(last, then));
    }

    fn tools(&self) -> String {
        let at = self.dialogue.turn().or(self.dialogue.in_words()).map(|id| &id.call);
        let tools = at.and_then(|at| self.tools.get(at));
        let Some(tools) = tools.or_else(|| self.tools.get(&CallPath::root())) else {
            return "The tools are known when the chat has begun.".to_owned();
        };
        if tools.is_empty() {
            return "The worker has no tools.".to_owned();
        }
        let lines = tools.iter().map(|(name, description)| {
            format!("- `{name}`: {}", description.lines().next().unwrap_or_default())
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn cost(&self) -> String {
        let costs = self.updates.view().costs();
        if costs.len() == 0 {
            return "Nothing has been used yet.".to_owned();
        }
        let count = |tokens: Option<u64>| tokens.map_or_else(|| "?".to_owned(), thousands);
        let lines = costs.map(|(worker, model, Spent { usage, .. })| {
            let cost = usage.cost_usd.map(|cost| format!(", {cost}")).unwrap_or_default();
            format!(
                "- {worker} · {model}: {} in, {} out{cost}",
                count(usage.input_tokens),
                count(usage.output_tokens)
            )
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}
