//! What the commands of a session do.

use super::{Listening, Stage, Talk, give, is_conversation};
use crate::commands::Command;
use agent_client_protocol::v1::schema::StopReason;
use llm_do::{
    core::{call_path::CallPath, question::Answer},
    records::thousands,
};

impl Talk {
    pub(super) fn command(&mut self, command: Command) {
        match command {
            Command::Tools => self.say(&self.tools()),
            Command::Cost => self.say(&self.cost()),
            Command::Undo | Command::Retry => match self.undo(command == Command::Retry) {
                Ok(()) => return,
                Err(why) => self.say(why),
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

    /// Takes the user's last message back, and says it again if wanted.
    fn undo(&mut self, again: bool) -> Result<(), &'static str> {
        const NOTHING: &str = "There is nothing to take back.";
        let Some(Listening { waiting, .. }) =
            self.listening.as_ref().filter(|on| is_conversation(&on.waiting.question))
        else {
            return Err(match &self.stage {
                Stage::Left { .. } => "The chat was left: say something first, which continues it.",
                _ => NOTHING,
            });
        };
        let conversation = self.conversations.get(&waiting.id.call);
        let Some((message, text)) =
            conversation.and_then(|conversation| conversation.transcript.last_message())
        else {
            return Err(NOTHING);
        };
        let text = text.to_owned();
        if again {
            self.queue.push_front(text);
        } else {
            self.say("*(Your last message and what followed it are taken back. The worker does not see them any more.)*");
        }
        if let Some(Listening { reply, .. }) = self.listening.take() {
            give(reply, Answer::Undo { message });
        }
        Ok(())
    }

    fn tools(&self) -> String {
        let at = self.listening.as_ref().map(|on| &on.waiting.id.call);
        let conversation = at.and_then(|at| self.conversations.get(at));
        let Some(conversation) = conversation.or_else(|| self.conversations.get(&CallPath::root())) else {
            return "The tools are known when the chat has begun.".to_owned();
        };
        if conversation.tools.is_empty() {
            return "The worker has no tools.".to_owned();
        }
        let lines = conversation.tools.iter().map(|(name, description)| {
            format!("- `{name}`: {}", description.lines().next().unwrap_or_default())
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn cost(&self) -> String {
        if self.used.is_empty() {
            return "Nothing has been used yet.".to_owned();
        }
        let count = |tokens: Option<u64>| tokens.map_or_else(|| "?".to_owned(), thousands);
        let lines = self.used.iter().map(|((worker, model), usage)| {
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
