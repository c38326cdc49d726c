//! The messages of the user and the answers of the worker in one conversation, read from the records.

use crate::output_text;
use llm_do_core::{
    call_path::CallPath,
    model::{FinishReason, Part},
    results::show,
};
use llm_do_program::visible;
use llm_do_records::{CallState, CallView, ConversationView, Item, ItemKind, RunView, compacted};
use std::fmt::Write as _;

/// A part of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The user's message with its number, and the files and results that joined it.
    User(u32, String, Vec<Joined>),
    /// A message that the user sent while the worker was at work.
    Meanwhile(String),
    /// An answer of the worker, and true if it was cut off.
    Worker(String, bool),
    /// A call below the conversation has ended.
    Called(Called),
    /// A conversation with the user that a call below held has ended.
    Held(Held),
    /// A compaction: from this point on the model is sent less of the earlier conversation.
    Compacted(Compacted),
}

/// A call that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The calls above it, without the root.
    pub depth: usize,
    /// The function with its arguments, and how long it took or why it failed.
    pub line: String,
    /// True if the call has not failed.
    pub done: bool,
}

/// A conversation in the middle of another one, up to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The worker that talked to the user.
    pub worker: String,
    /// The parts of the conversation, oldest first. The first message is the caller's.
    pub parts: Vec<Said>,
}

impl Called {
    /// Returns the sign for the end of the call.
    pub fn mark(&self) -> char {
        if self.done { '✓' } else { '✗' }
    }
}

/// A compaction of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// A description of the compaction, on one line.
    pub what: String,
    /// The summary that the model wrote in place of older turns, if they were summarised.
    pub summary: Option<String>,
}

/// A file or a result that joins a message of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The number of the user's answer that chose it.
    pub number: u32,
    /// The name that the user sees.
    pub name: String,
    /// The path of the file as the user named it, if it is one.
    pub path: Option<String>,
    /// The text of the result, if it is one.
    pub result: Option<String>,
}

/// Returns the name of a file that the model gets.
pub fn attached_name(part: &Part) -> &str {
    match part {
        Part::Attachment { name, .. } => name,
        Part::Blob(blob) => &blob.name,
        _ => "a file",
    }
}

/// A conversation up to its head, without undone messages.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    parts: Vec<Said>,
}

impl Transcript {
    /// Returns the conversation of the call at `path`. `line` describes a call below it that has ended.
    pub fn of(view: &RunView, path: &CallPath, line: &dyn Fn(&CallView) -> String) -> Self {
        let Some(held) = view.conversation(path) else { return Self::default() };
        let mut parts: Vec<(u64, Said)> =
            held.standing().filter_map(|item| Some((item.seq, said(held, item)?))).collect();
        for call in view.calls().filter(|call| conversation_above(view, call) == Some(path)) {
            let Some(seq) = call.ended_seq.filter(|seq| !view.is_undone(path, *seq)) else { continue };
            let Some(called) = Called::of(call, line) else { continue };
            if let Some((worker, inner)) = call.worker.as_ref().zip(view.conversation(&call.path))
                && inner.with_user
            {
                let Self { parts: inner } = Self::of(view, &call.path, line);
                parts.push((seq, Said::Held(Held { worker: worker.to_string(), parts: inner })));
            }
            parts.push((seq, Said::Called(called)));
        }
        parts.sort_by_key(|(seq, _)| *seq);
        Self { parts: parts.into_iter().map(|(_, part)| part).collect() }
    }

    /// Returns the parts of the conversation, oldest first.
    pub fn into_parts(self) -> Vec<Said> {
        self.parts
    }

    /// Returns the conversation as Markdown. Characters that a terminal would obey or hide are shown as escapes.
    pub fn markdown(&self, worker: &str) -> String {
        let mut text = String::new();
        write_markdown(&self.parts, worker, None, &mut text);
        text
    }
}

impl Called {
    /// Returns the call, if it has ended with an output or a failure.
    pub fn of(call: &CallView, line: &dyn Fn(&CallView) -> String) -> Option<Self> {
        let done = match call.state {
            CallState::Done => true,
            CallState::Failed | CallState::Refused | CallState::TimedOut => false,
            CallState::Open | CallState::Suspended | CallState::Cancelled => return None,
        };
        (done || call.failure.is_some()).then(|| Self {
            depth: call.path.depth().saturating_sub(1),
            line: line(call),
            done,
        })
    }
}

/// Returns the conversation with the user that has led to a call.
fn conversation_above<'a>(view: &'a RunView, call: &'a CallView) -> Option<&'a CallPath> {
    let mut above = call.parent.as_ref();
    while let Some(path) = above.filter(|path| !view.conversation(path).is_some_and(|held| held.with_user)) {
        above = view.call(path).and_then(|call| call.parent.as_ref());
    }
    above
}

/// Returns a part of a conversation in the form of a transcript.
fn said(held: &ConversationView, item: &Item) -> Option<Said> {
    Some(match &item.kind {
        ItemKind::User { number: 0, .. } if held.listens => return None,
        ItemKind::User { number, text, joined, .. } => {
            let joined = joined.iter().filter_map(|number| Joined::of(held, *number));
            Said::User(*number, show(text), joined.collect())
        }
        ItemKind::Interjection { text, .. } => Said::Meanwhile(show(text)),
        ItemKind::Assistant { message, finish, .. } => {
            let (text, cut_off) = (message.said(), *finish == FinishReason::Stopped);
            if !cut_off && text.trim().is_empty() {
                return None;
            }
            Said::Worker(text, cut_off)
        }
        ItemKind::Compacted { compaction, taken_back: false } if compaction.has_effect() => {
            let summary = compaction.summary.as_ref().map(|summary| summary.text.to_string());
            Said::Compacted(Compacted { what: compacted(compaction), summary })
        }
        _ => return None,
    })
}

impl Joined {
    /// Returns the file or result that the user's answer of that number has chosen.
    fn of(held: &ConversationView, chosen: u32) -> Option<Self> {
        held.items().iter().rev().find_map(|item| match &item.kind {
            ItemKind::Attached { number, file, name, given, .. } if *number == chosen => Some(Self {
                number: chosen,
                name: name.as_ref().unwrap_or(file).to_string(),
                path: (!given).then(|| file.to_string()),
                result: None,
            }),
            ItemKind::Run { worker, output, kept_by, .. } if kept_by.contains(&chosen) => Some(Self {
                number: chosen,
                name: format!("result of {worker}"),
                path: None,
                result: output.as_ref().map(|output| output_text(output, true)),
            }),
            _ => None,
        })
    }

    /// Returns the files and results that join the user's next message.
    pub fn next(held: &ConversationView) -> Vec<Self> {
        held.joining().iter().filter_map(|number| Self::of(held, *number)).collect()
    }
}

/// Returns the number of the user's last call of a worker.
pub fn last_run(held: &ConversationView) -> Option<u32> {
    held.items().iter().rev().find_map(|item| match item.kind {
        ItemKind::Run { number, .. } => Some(number),
        _ => None,
    })
}

/// Returns the user's last message, with its number.
pub fn last_message(held: &ConversationView) -> Option<(u32, String)> {
    held.standing().rev().find_map(|item| match said(held, item) {
        Some(Said::User(number, text, _)) => Some((number, text)),
        _ => None,
    })
}

/// Returns the worker's last answer.
pub fn last_answer(held: &ConversationView) -> Option<String> {
    held.standing().rev().find_map(|item| match said(held, item) {
        Some(Said::Worker(text, _)) => Some(text).filter(|text| !text.trim().is_empty()),
        _ => None,
    })
}

/// The deepest heading of Markdown.
const DEEPEST: usize = 6;

/// Writes a conversation between the user and a worker. `caller` began it in the middle of another one; its headings
/// are one level deeper than those of the caller's.
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
    /// Writes the name, and the text of a result.
    fn write(&self, text: &mut String) -> std::fmt::Result {
        write!(text, "*(with {})*\n\n", visible::line(&self.name))?;
        self.result.iter().try_for_each(|result| write!(text, "{}\n\n", quoted(result)))
    }
}

/// Returns a text as a quotation in Markdown.
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
        Transcript { parts }
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
        let compacted = Said::Compacted(Compacted { what: "compacted: 2 → 1 tokens".into(), summary });
        let parts = vec![Said::User(0, "hi".into(), vec![joined]), compacted];
        let transcript = Transcript { parts };
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
        let called = Called { depth: 0, line: "read_file path=\"*a*\"  2ms".into(), done: true };
        transcript.parts.push(Said::Called(called));
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
        transcript.parts.push(Said::Held(Held { worker: "clerk".into(), parts: inner.parts }));
        transcript.parts.push(Said::Called(Called { depth: 0, line: "clerk  2s".into(), done: true }));
        assert_eq!(
            transcript.markdown("main"),
            "## You\n\na\n\n### main\n\na\n\n### clerk\n\nA\n\n### You\n\nb\n\n    ✓ clerk  2s\n\n"
        );
    }
}
