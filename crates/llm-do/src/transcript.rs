//! The messages of the user and the answers of the worker in one conversation, read from the records.

use crate::output_text;
use llm_do_core::{
    journal::{Ending, Record, RecordKind},
    model::{MessageId, Part, Purpose},
    question::{Answer, Given},
    results::show,
    step_name::StepName,
};
use llm_do_program::visible;
use llm_do_records::compacted;
use std::{collections::HashMap, fmt::Write as _};

/// A part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The user's message with its number, and what joined it.
    User(u32, String, Vec<Joined>),
    /// What the user has said while the worker was at work.
    Meanwhile(String),
    /// What the worker has said, and whether it was cut off.
    Worker(String, bool),
    /// A call below the conversation has ended.
    Called(Called),
    /// A conversation with the user that a call below held has ended.
    Held(Held),
    /// From here on the model is sent less of what came before.
    Compacted(Compacted),
}

/// A call that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The calls above it, without the root.
    pub depth: usize,
    /// The function with its arguments, and how long it took or why it failed.
    pub line: String,
    /// It has not failed.
    pub done: bool,
}

/// A conversation in the middle of another one, up to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The worker that talked to the user.
    pub worker: String,
    /// What was said, oldest first. The first message is the caller's.
    pub parts: Vec<Said>,
}

impl Called {
    /// A sign for how it ended.
    pub fn mark(&self) -> char {
        if self.done { '✓' } else { '✗' }
    }
}

/// A compaction of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// What it did, on one line.
    pub what: String,
    /// What the model has written in place of older turns, if they were summarised.
    pub summary: Option<String>,
    /// The newest message of the conversation that it shortens.
    pub newest: MessageId,
}

/// A file or a result that joins a message of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The number of the user's answer that chose it.
    pub number: u32,
    /// As the user reads it.
    pub name: String,
    /// The path of the file as the user named it, if it is one.
    pub path: Option<String>,
    /// The text of the result, if it is one.
    pub result: Option<String>,
}

/// A call that the user has made.
#[derive(Clone, Debug)]
struct Ran {
    /// The number of the user's message.
    number: u32,
    worker: String,
    /// The text of its result, once it has one.
    result: Option<String>,
}

/// The name of a file that the model gets.
pub fn attached_name(part: &Part) -> &str {
    match part {
        Part::Attachment { name, .. } => name,
        Part::Blob(blob) => &blob.name,
        _ => "a file",
    }
}

/// A conversation up to its head: what was undone is not in it.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    parts: Vec<Said>,
    joining: Vec<Joined>,
    /// The calls that the user has made.
    ran: Vec<Ran>,
    /// The file that is being attached.
    attaching: Option<String>,
    /// The newest answer of the model.
    newest: MessageId,
    /// The newest answer of the model before each message of the user.
    before: HashMap<u32, MessageId>,
}

impl Transcript {
    /// Takes a record of the conversation's call.
    pub fn record(&mut self, record: &Record) {
        match &record.body {
            RecordKind::ConversationStarted { message, listens: false, .. } => {
                self.parts.push(Said::User(0, message.text(), Vec::new()));
            }
            RecordKind::Attached { part, .. } => {
                let StepName::Attach(number) = record.step else { return };
                let name = attached_name(part).to_owned();
                self.joining.push(Joined { number, name, path: self.attaching.take(), result: None });
            }
            RecordKind::ModelAnswered { message, finish, .. }
                if record.step.request() == Some(Purpose::Answer) =>
            {
                self.newest = message.id;
                let text = message.said();
                let cut_off = *finish == llm_do_core::model::FinishReason::Stopped;
                if cut_off || !text.trim().is_empty() {
                    self.parts.push(Said::Worker(text, cut_off));
                }
            }
            RecordKind::Answered(Given { answer, .. }) => {
                let number = match record.step {
                    StepName::Message(number) => number,
                    StepName::Now(_) => {
                        if let Answer::Give { value } = answer {
                            self.parts.push(Said::Meanwhile(show(value)));
                        }
                        return;
                    }
                    _ => return,
                };
                match answer {
                    Answer::Attach { file, content } => {
                        self.attaching = content.is_none().then(|| file.to_string());
                    }
                    Answer::Detach { message } => self.joining.retain(|joined| joined.number != *message),
                    Answer::Give { value } => {
                        let joined = std::mem::take(&mut self.joining);
                        self.before.insert(number, self.newest);
                        self.parts.push(Said::User(number, show(value), joined));
                    }
                    Answer::Keep { message } => {
                        let Some(ran) = self.ran.iter().find(|ran| ran.number == *message) else { return };
                        let (name, result) = (format!("result of {}", ran.worker), ran.result.clone());
                        self.joining.push(Joined { number, name, path: None, result });
                    }
                    Answer::Run { worker, .. } => {
                        self.ran.push(Ran { number, worker: worker.to_string(), result: None });
                    }
                    Answer::Undo { message } => self.undo(*message),
                    Answer::UndoCompaction => {
                        let last = self.parts.iter().rposition(|part| matches!(part, Said::Compacted(_)));
                        if let Some(at) = last {
                            self.parts.remove(at);
                        }
                    }
                    _ => {}
                }
            }
            RecordKind::Compacted(compaction) if compaction.has_effect() => {
                let summary = compaction.summary.as_ref().map(|summary| summary.text.to_string());
                let newest = compaction.names().max().unwrap_or_default();
                self.parts.push(Said::Compacted(Compacted { what: compacted(compaction), summary, newest }));
            }
            _ => {}
        }
    }

    /// Takes the record of a call below the conversation that the user has made.
    pub fn ran(&mut self, record: &Record) {
        if let RecordKind::CallEnded { ending: Ending::Output(value), .. } = &record.body
            && let Some(ran) = self.ran.iter_mut().find(|ran| record.path.is_message_of_user(ran.number))
        {
            ran.result = Some(output_text(value, true));
        }
    }

    /// Takes a call below the conversation that has ended.
    pub fn called(&mut self, called: Called) {
        self.parts.push(Said::Called(called));
    }

    /// Takes a conversation with the user that a call below held, and that has ended.
    pub fn held(&mut self, worker: &str, conversation: Self) {
        self.parts.push(Said::Held(Held { worker: worker.to_owned(), parts: conversation.parts }));
    }

    fn undo(&mut self, number: u32) {
        let at = self.parts.iter().position(|part| matches!(part, Said::User(n, ..) if *n == number));
        let Some(at) = at else { return };
        if let Said::User(_, _, joined) = &mut self.parts[at] {
            self.joining.splice(0..0, std::mem::take(joined));
        }
        let before = self.before.get(&number).copied().unwrap_or_default();
        // What shortens only older messages stays in force.
        let stays =
            |part: &Said| matches!(part, Said::Compacted(Compacted { newest, .. }) if *newest <= before);
        let compactions: Vec<Said> = self.parts.drain(at..).filter(stays).collect();
        self.parts.extend(compactions);
    }

    /// What joins the user's next message.
    pub fn joining(&self) -> &[Joined] {
        &self.joining
    }

    /// The number of the user's last call of a worker.
    pub fn last_result(&self) -> Option<u32> {
        self.ran.last().map(|ran| ran.number)
    }

    /// What was said, oldest first.
    pub fn parts(&self) -> &[Said] {
        &self.parts
    }

    /// The user's last message, with its number.
    pub fn last_message(&self) -> Option<(u32, &str)> {
        self.parts.iter().rev().find_map(|part| match part {
            Said::User(number, text, _) => Some((*number, text.as_str())),
            Said::Meanwhile(_) | Said::Worker(..) | Said::Called(_) | Said::Held(_) | Said::Compacted(_) => {
                None
            }
        })
    }

    /// The worker's last words.
    pub fn last_answer(&self) -> Option<&str> {
        self.parts.iter().rev().find_map(|part| match part {
            Said::Worker(text, _) => Some(text.as_str()).filter(|text| !text.trim().is_empty()),
            Said::User(..) | Said::Meanwhile(_) | Said::Called(_) | Said::Held(_) | Said::Compacted(_) => {
                None
            }
        })
    }

    /// The conversation as Markdown. Characters that a terminal would obey or hide are shown as escapes.
    pub fn markdown(&self, worker: &str) -> String {
        let mut text = String::new();
        write_markdown(&self.parts, worker, None, &mut text);
        text
    }
}

/// The deepest heading of Markdown.
const DEEPEST: usize = 6;

/// Writes what was said between the user and a worker. `caller` began a conversation in the middle of another one; its
/// headings are one level deeper than those of the caller's.
fn write_markdown(parts: &[Said], worker: &str, caller: Option<(&str, usize)>, text: &mut String) {
    let depth = caller.map_or(0, |(_, depth)| depth);
    let marks = "#".repeat((2 + depth).min(DEEPEST));
    let worker = visible::line(worker);
    for part in parts {
        // A String takes everything.
        let _ = match part {
            Said::User(number, said, joined) => {
                let by_caller = caller.filter(|_| *number == 0);
                let who = by_caller.map_or("You".into(), |(caller, _)| visible::line(caller));
                let _ = write!(text, "{marks} {who}\n\n{}\n\n", visible::prose(said.trim_end()));
                joined.iter().try_for_each(|joined| joined.write(text))
            }
            Said::Meanwhile(said) => {
                write!(text, "{marks} You, meanwhile\n\n{}\n\n", visible::prose(said.trim_end()))
            }
            Said::Worker(said, cut_off) => {
                let mark = if *cut_off { "*(cut off)*\n\n" } else { "" };
                let _ = write!(text, "{marks} {worker}\n\n");
                match said.trim_end() {
                    "" => write!(text, "{mark}"),
                    said => write!(text, "{}\n\n{mark}", visible::prose(said)),
                }
            }
            // A block of code: nothing in it is Markdown.
            Said::Called(called) => {
                write!(text, "    {} {}\n\n", called.mark(), visible::line(&called.line))
            }
            Said::Held(held) => {
                write_markdown(&held.parts, &held.worker, Some((&worker, depth + 1)), text);
                Ok(())
            }
            Said::Compacted(Compacted { what, summary, .. }) => {
                let _ = write!(text, "*({})*\n\n", visible::line(what));
                summary.iter().try_for_each(|summary| write!(text, "{}\n\n", quoted(summary)))
            }
        };
    }
}

impl Joined {
    /// Its name, and the text of a result.
    fn write(&self, text: &mut String) -> std::fmt::Result {
        write!(text, "*(with {})*\n\n", visible::line(&self.name))?;
        self.result.iter().try_for_each(|result| write!(text, "{}\n\n", quoted(result)))
    }
}

/// A text as a quotation in Markdown.
fn quoted(text: &str) -> String {
    let text = visible::prose(text.trim_end());
    let lines: Vec<String> = text.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talk() -> Transcript {
        let user = |number, text: &str| Said::User(number, text.into(), Vec::new());
        let worker = |text: &str| Said::Worker(text.into(), false);
        let parts = vec![user(0, "a"), worker("A"), user(1, "b"), worker("B"), user(3, "c")];
        Transcript { parts, ..Transcript::default() }
    }

    #[test]
    fn an_undone_message_takes_what_follows_with_it() {
        let mut transcript = talk();
        transcript.undo(1);
        assert_eq!(transcript.parts().len(), 2);
        assert_eq!(transcript.last_message(), Some((0, "a")));
        transcript.undo(7);
        assert_eq!(transcript.parts().len(), 2, "there is no such message");
    }

    #[test]
    fn a_compaction_of_older_messages_stays_when_a_newer_message_is_undone() {
        let compacted = |newest| {
            let what = format!("up to {newest}");
            Said::Compacted(Compacted { what, summary: None, newest: MessageId(newest) })
        };
        let mut transcript = talk();
        transcript.before.insert(1, MessageId(2));
        transcript.parts.extend([compacted(2), compacted(4)]);
        transcript.undo(1);
        assert_eq!(transcript.parts()[2..], [compacted(2)]);
        assert_eq!(transcript.last_message(), Some((0, "a")));
    }

    #[test]
    fn what_others_wrote_is_saved_visibly() {
        let joined = Joined {
            number: 1,
            name: "a\u{202e}\nb".into(),
            path: None,
            result: Some("one\n\n\u{1b}[2Jtwo".into()),
        };
        let summary = Some("older\u{200b}".into());
        let compacted = Said::Compacted(Compacted {
            what: "compacted: 2 → 1 tokens".into(),
            summary,
            newest: MessageId(1),
        });
        let parts = vec![Said::User(0, "hi".into(), vec![joined]), compacted];
        let transcript = Transcript { parts, ..Transcript::default() };
        assert_eq!(
            transcript.markdown("main"),
            "## You\n\nhi\n\n*(with a\\u{202e}\\nb)*\n\n> one\n>\n> \\x1b[2Jtwo\n\n\
             *(compacted: 2 → 1 tokens)*\n\n> older\\u{200b}\n\n"
        );
    }

    #[test]
    fn it_is_saved_as_markdown() {
        let mut transcript = talk();
        transcript.parts.truncate(2);
        transcript.parts.push(Said::Meanwhile("quick".into()));
        transcript.called(Called { depth: 0, line: "read_file path=\"*a*\"  2ms".into(), done: true });
        transcript.parts.push(Said::Worker("half".into(), true));
        assert_eq!(
            transcript.markdown("main"),
            "## You\n\na\n\n## main\n\nA\n\n## You, meanwhile\n\nquick\n\n    ✓ read_file path=\"*a*\"  2ms\n\n## main\n\nhalf\n\n*(cut off)*\n\n"
        );
    }

    #[test]
    fn a_conversation_in_the_middle_is_saved_below_its_caller() {
        let mut inner = talk();
        inner.parts.truncate(3);
        let mut transcript = talk();
        transcript.parts.truncate(1);
        transcript.held("clerk", inner);
        transcript.called(Called { depth: 0, line: "clerk  2s".into(), done: true });
        assert_eq!(
            transcript.markdown("main"),
            "## You\n\na\n\n### main\n\na\n\n### clerk\n\nA\n\n### You\n\nb\n\n    ✓ clerk  2s\n\n"
        );
    }
}
