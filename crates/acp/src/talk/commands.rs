//! Implementations of the commands of a session.

use super::{Listening, Stage, Talk, asking::is_conversation, give};
use crate::commands::Command;
use agent_client_protocol::v1::schema::StopReason;
use llm_do::{
    core::{call_path::CallPath, question::Answer},
    last_message, last_run,
    program::visible,
    records::{Spent, thousands},
    typed_input,
};
use serde_json::Value;
use std::sync::Arc;

impl Talk {
    pub(super) fn command(&mut self, command: Command) {
        match command {
            Command::Tools => self.say(&self.tools()),
            Command::Cost => self.say(&self.cost()),
            Command::Undo | Command::Retry => match self.undo(command == Command::Retry) {
                Ok(()) => return,
                Err(why) => self.say(why),
            },
            Command::Compact(keep) => {
                let keep = (!keep.is_empty()).then(|| keep.into());
                match self.aside(Answer::Compact { keep }) {
                    Ok(()) => return,
                    Err(why) => self.say(why),
                }
            }
            Command::UndoCompaction => match self.aside(Answer::UndoCompaction) {
                Ok(()) => return,
                Err(why) => self.say(why),
            },
            Command::Keep => match self.keep() {
                Ok(()) => return,
                Err(why) => self.say(why),
            },
            Command::Run(worker, arguments) => match self.run(&worker, &arguments) {
                Ok(()) => return,
                Err(why) => self.say(&format!("{}\n\nNothing was run.", visible::text(&why))),
            },
            Command::Done => match self.listening.take() {
                Some(Listening { waiting, reply }) if waiting.id.call != CallPath::root() => {
                    let conversation = is_conversation(&waiting.question);
                    return give(
                        reply,
                        if conversation { Answer::End } else { Answer::Decline { reason: None } },
                    );
                }
                listening => {
                    self.listening = listening;
                    self.say("There is no conversation in the middle of a run, and no question.");
                }
            },
        }
        self.turn_ends(Ok(StopReason::EndTurn));
    }

    /// Returns the conversation that waits for the user.
    ///
    /// # Errors
    /// No conversation waits, with the reason.
    fn conversation(&self) -> Result<&Listening, &'static str> {
        let waits = self.listening.as_ref().filter(|on| is_conversation(&on.waiting.question));
        waits.ok_or(match (&self.stage, &self.listening) {
            (Stage::Left { .. }, _) => "The chat was left: say something first, which continues it.",
            (_, Some(_)) => "A question waits for its answer first.",
            _ => "The chat has not begun: say something first.",
        })
    }

    /// Gives the conversation an answer that is not a message.
    fn aside(&mut self, answer: Answer) -> Result<(), &'static str> {
        self.conversation()?;
        if let Some(Listening { reply, .. }) = self.listening.take() {
            give(reply, answer);
        }
        Ok(())
    }

    /// Adds the result of the user's last call to the next message.
    fn keep(&mut self) -> Result<(), &'static str> {
        let at = &self.conversation()?.waiting.id.call;
        let Some(message) = self.updates.view().conversation(at).and_then(last_run) else {
            return Err("There is no result to keep: the name of a worker as a command makes one.");
        };
        self.aside(Answer::Keep { message })?;
        self.say("*(The result joins your next message.)*");
        Ok(())
    }

    /// Calls a worker of the program. The client sees the call and its result.
    fn run(&mut self, name: &str, arguments: &str) -> Result<(), String> {
        self.conversation()?;
        let worker = self.workers.iter().find(|worker| *worker.id == *name);
        let worker = worker.ok_or_else(|| format!("There is no worker `{name}`."))?;
        let (input, worker) = (Arc::new(typed_input(worker, arguments)?), Arc::clone(&worker.id));
        Ok(self.aside(Answer::Run { worker, input })?)
    }

    /// Takes the user's last message back, and sends it again with `again`.
    fn undo(&mut self, again: bool) -> Result<(), &'static str> {
        const NOTHING: &str = "There is nothing to take back.";
        let waiting = &self.conversation()?.waiting;
        let held = self.updates.view().conversation(&waiting.id.call);
        let Some((message, text)) = held.and_then(last_message) else {
            return Err(NOTHING);
        };
        if again {
            // What had joined the message joins it again.
            self.queue.push_front(Answer::Give { value: Arc::new(Value::String(text)) });
        } else {
            self.leaves_files = true;
            self.say("*(Your last message and what followed it are taken back. The worker does not see them any more.)*");
        }
        self.aside(Answer::Undo { message })
    }

    fn tools(&self) -> String {
        let at = self.listening.as_ref().map(|on| &on.waiting.id.call);
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
