//! The calls of one answer: those that are made, and those that are answered without being made.

use super::{CUT_OFF, Completion, Conversation, Phase, output::Answer};
use crate::{
    content::{Readable, readable},
    json::{self, Fault},
    model::{Arguments, Blob, FinishReason, Message, Part, Role, ToolCall, ToolResult},
    outcome::{Failure, FailureKind},
    schema::canonical,
};
use serde_json::Value;
use std::{
    collections::{HashSet, hash_map::Entry},
    sync::Arc,
};

/// The answer to a call whose arguments may be incomplete.
const CUT_OFF_CALL: &str = "The call was not made: your answer was cut off in it because it was too long. Make the call \
                            again, with less text before it.";

/// The number of times that a call is refused because it repeats itself. The next one ends the conversation.
const REFUSED_REPEATS: u32 = 2;

/// A tool call of the model's last turn.
#[derive(Clone, Debug, PartialEq)]
pub enum PlannedCall {
    /// A call to be made.
    Make {
        /// Index among the turn's calls. Turn and index are the call's key.
        index: usize,
        /// Position of the tool in [`Setup::tools`](crate::conversation::Setup::tools).
        tool: usize,
        /// The arguments.
        input: Arc<Value>,
        /// The model's call.
        call: ToolCall,
    },
    /// A call that is answered without being made: unknown name, broken arguments, a loop.
    Answered(ToolResult),
}

/// The number of times in a row that a call gave the same result.
#[derive(Debug)]
pub(super) struct Repeat {
    /// The result, shared with the history.
    result: Arc<str>,
    times: u32,
    refused: u32,
}

impl Conversation {
    /// Decides about each call of an answer.
    pub(super) fn plan(&mut self, calls: Vec<ToolCall>, finish: FinishReason) {
        let alone = calls.len() == 1;
        let last = calls.len() - 1;
        let mut planned = Vec::with_capacity(calls.len());
        let answer = |content: String, call: &ToolCall| {
            PlannedCall::Answered(ToolResult {
                call_id: Arc::clone(&call.id),
                name: Arc::clone(&call.name),
                content: content.into(),
                is_error: true,
            })
        };
        let mut unusable: Vec<ToolCall> = Vec::new();
        for (index, call) in calls.into_iter().enumerate() {
            let input = match &call.arguments {
                Arguments::Json(value) if value.is_object() => Arc::clone(value),
                Arguments::Json(value) => {
                    let text = format!(
                        "The arguments must be a JSON object, not `{}`.",
                        shorten(&value.to_string())
                    );
                    planned.push(answer(text, &call));
                    unusable.push(call);
                    continue;
                }
                Arguments::Invalid { text, reason } => {
                    let cut = if finish == FinishReason::Length { " (the answer was cut off)" } else { "" };
                    let said = shorten(text);
                    let wrong = match json::read(text) {
                        Err(error) if error.fault == Fault::Refused => "can't be taken",
                        _ => "are not valid JSON",
                    };
                    let text = format!("The arguments {wrong}{cut}: {reason}. You wrote: {said}");
                    planned.push(answer(text, &call));
                    unusable.push(call);
                    continue;
                }
            };
            let is_cut = finish == FinishReason::Length && index == last;
            if self.setup.output.is_final_tool(&call.name) {
                if alone && is_cut {
                    let reasons = CUT_OFF.to_owned();
                    self.repair_call(FailureKind::InvalidOutput, &call, reasons, (*input).clone());
                    return;
                }
                if alone {
                    self.final_call(&call, &input);
                    return;
                }
                let text =
                    "Give the final result alone, after you have seen the results of your other calls.";
                planned.push(answer(text.to_owned(), &call));
                unusable.push(call);
                continue;
            }
            let Some(tool) = self.setup.tools.iter().position(|name| **name == *call.name) else {
                planned.push(answer(self.unknown_tool(&call.name), &call));
                unusable.push(call);
                continue;
            };
            // Without a character of them, arguments that were cut off look like none.
            if is_cut && input.as_object().is_some_and(serde_json::Map::is_empty) {
                planned.push(answer(CUT_OFF_CALL.to_owned(), &call));
                unusable.push(call);
                continue;
            }
            let key = repeat_key(&call.name, &input);
            if let Some(repeat) = self.repeats.get_mut(&key)
                && repeat.times >= self.setup.limits.max_repeats
            {
                repeat.refused += 1;
                let times = repeat.times;
                if repeat.refused > REFUSED_REPEATS {
                    self.phase = Phase::Failed(self.over_and_over(&call.name));
                    return;
                }
                let text = format!(
                    "This same call gave this same result {times} times. It was not made again: use the result or do something else."
                );
                planned.push(answer(text, &call));
                continue;
            }
            planned.push(PlannedCall::Make { index, tool, input, call });
        }
        self.phase = match self.repeats_unusable(unusable) {
            Some(failure) => Phase::Failed(failure),
            None => Phase::Calls(planned),
        };
    }

    /// Counts calls of one answer that can't be made, equal ones once. Returns the failure if one of them came as often as a
    /// call that is made, and is then refused, may come.
    fn repeats_unusable(&mut self, mut calls: Vec<ToolCall>) -> Option<Failure> {
        let most = self.setup.limits.max_repeats.saturating_add(REFUSED_REPEATS);
        let key = |call: &ToolCall| match &call.arguments {
            Arguments::Json(input) => repeat_key(&call.name, input),
            Arguments::Invalid { text, .. } => format!("{}\0{text}", call.name),
        };
        let mut counted = HashSet::new();
        calls.retain(|call| counted.insert(key(call)));
        calls.into_iter().find_map(|call| {
            let none = || Repeat { result: "".into(), times: 0, refused: 0 };
            let repeat = self.repeats.entry(key(&call)).or_insert_with(none);
            repeat.times = repeat.times.saturating_add(1);
            (repeat.times > most).then(|| self.over_and_over(&call.name))
        })
    }

    fn over_and_over(&self, name: &str) -> Failure {
        self.limit(format!("the model called `{}` over and over with the same arguments", shorten(name)))
    }

    fn final_call(&mut self, call: &ToolCall, input: &Arc<Value>) {
        let complete = |value| Completion { value: Arc::new(value), truncated: false };
        match self.setup.output.read_call(input) {
            Answer::Valid(value) => self.phase = Phase::Done(complete(value)),
            Answer::ForTools(value) => self.phase = Phase::Judged(complete(value), Some(call.clone())),
            Answer::Invalid(reasons) => {
                self.repair_call(FailureKind::InvalidOutput, call, reasons, (**input).clone());
            }
            Answer::Unmet(value, reasons) => {
                self.repair_call(FailureKind::Postcondition, call, reasons, value);
            }
        }
    }

    /// Returns an invalid output from the final-result tool to the model, like [`Self::repair`]. The tool's result
    /// gives the reason.
    pub(super) fn repair_call(&mut self, kind: FailureKind, call: &ToolCall, reasons: String, last: Value) {
        if self.try_again(kind, &reasons, Some(last)) {
            self.phase = Phase::Calls(vec![PlannedCall::Answered(ToolResult {
                call_id: Arc::clone(&call.id),
                name: Arc::clone(&call.name),
                content: reasons.into(),
                is_error: true,
            })]);
        }
    }

    /// The tools that an answer calls although they were not offered.
    pub(crate) fn unoffered(&self, answer: &Message) -> Vec<Arc<str>> {
        let is_offered = |name: &str| {
            self.setup.tools.iter().any(|tool| **tool == *name) || self.setup.output.is_final_tool(name)
        };
        answer.calls().filter(|call| !is_offered(&call.name)).map(|call| Arc::clone(&call.name)).collect()
    }

    fn unknown_tool(&self, name: &str) -> String {
        let mut names: Vec<&str> = self.setup.tools.iter().map(|name| &**name).collect();
        names.extend(self.setup.output.final_tool_name());
        match names.as_slice() {
            [] => format!("There is no tool `{}`, and no other tools either. Answer in text.", shorten(name)),
            names => format!("There is no tool `{}`. There are: {}.", shorten(name), names.join(", ")),
        }
    }

    /// Takes the results of the planned calls, in their order.
    pub fn results(&mut self, results: Vec<ToolResult>, blobs: Vec<Blob>) {
        if let Phase::Calls(planned) = &self.phase {
            for (planned, result) in planned.iter().zip(&results) {
                let PlannedCall::Make { input, call, .. } = planned else { continue };
                let new = Repeat { result: Arc::clone(&result.content), times: 1, refused: 0 };
                match self.repeats.entry(repeat_key(&call.name, input)) {
                    Entry::Occupied(mut before) if before.get().result == new.result => {
                        before.get_mut().times += 1;
                    }
                    entry => drop(entry.insert_entry(new)),
                }
            }
        }
        let message = self.next_message(Role::Tool, results.into_iter().map(Part::Result).collect());
        self.push(message);
        if !blobs.is_empty() {
            let parts = self.shown(blobs);
            let message = self.next_message(Role::User, parts);
            self.push(message);
        }
        self.phase = Phase::Ask;
    }

    /// Images and files that tools returned and that the model can read. Providers don't accept them in a tool's
    /// result, so they follow the results in a user message.
    fn shown(&self, blobs: Vec<Blob>) -> Vec<Part> {
        let sees = self.setup.sees;
        let shown = blobs.into_iter().map(|blob| match readable(&blob) {
            Readable::As(media_type) if sees.reads(&media_type) => Part::Blob(Blob { media_type, ..blob }),
            Readable::As(media_type) => {
                let (name, size) = (&blob.name, blob.data.len());
                Part::text(format!("[{name}: {media_type}, {size} bytes, which you can't see]"))
            }
            Readable::Not(why) => Part::text(format!("[{}: {why}]", blob.name)),
        });
        std::iter::once(Part::text("Files that the tools returned:")).chain(shown).collect()
    }
}

/// Groups of calls that may run in parallel, in order. A barrier is a group of its own (`docs/reference/loop.md`).
pub fn batches<C>(calls: impl IntoIterator<Item = C>, is_barrier: impl Fn(&C) -> bool) -> Vec<Vec<C>> {
    let mut groups: Vec<Vec<C>> = Vec::new();
    let mut open = false;
    for call in calls {
        let barrier = is_barrier(&call);
        match groups.last_mut() {
            Some(group) if open && !barrier => group.push(call),
            _ => groups.push(vec![call]),
        }
        open = !barrier;
    }
    groups
}

fn repeat_key(name: &str, input: &Value) -> String {
    format!("{name}\0{}", canonical(input))
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(500) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}
