//! Messages between the process that holds a run and the processes that make its calls: one line of JSON each.

use llm_do::core::{
    account::{Account, Amount, Spent, Wanted},
    authority::Place,
    budget::Reserved,
    call_path::CallPath,
    call_spec::{CallSpec, FrameSpec},
    driver::{CutOff, Exchanged, Known, StepEnd, StepName, Stepped},
    engine::{Halt, Outcome},
    function::FunctionSource,
    journal::RecordKind,
    origin::Origins,
    question::{Question, QuestionId, Reply},
    undo::SideEffect,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// The beginning of a line that is a message. The test harness prints lines of its own.
pub(crate) const MARK: char = '\u{1}';

/// A message to the process that makes a call.
#[derive(Serialize, Deserialize)]
pub(crate) enum ToCall {
    /// Make this call.
    Start(Box<FrameSpec>, CallSpec),
    /// The step of that request has no record: run it.
    Run(u64),
    /// The reply to a request.
    Reply(u64, Value),
}

/// A message to the process that holds the run.
#[derive(Serialize, Deserialize)]
pub(crate) enum ToRun {
    /// A request.
    Ask(u64, Box<Ask>),
    /// The step of that request has run.
    Ran(u64, RecordKind),
    /// The call has ended.
    Ended(Result<Outcome, Halt>),
}

/// The methods of a driver, and of the state that the calls of a run share.
#[derive(Serialize, Deserialize)]
pub(crate) enum Ask {
    Step {
        path: CallPath,
        name: StepName,
        intent: Option<RecordKind>,
        deadline: Option<Duration>,
        done: Option<RecordKind>,
    },
    Record(CallPath, StepName, RecordKind),
    Calls(Box<FrameSpec>, Vec<CallSpec>),
    Exchange(CallPath, StepName, Question, Known),
    Sleep(CallPath, StepName, Duration),
    Random(CallPath, StepName),
    Now,
    Begun(CallPath, StepName),
    ReservedBefore(CallPath, u32),
    Cancelled,
    Open(Account, Spent, u64),
    Reserve(Account, Wanted),
    Settle(Account, Reserved, Amount),
    Remaining(Account, u64),
    Waited(Account, u64, u64),
    Left(Account),
    Remembers(String),
    ForgetAnswer(QuestionId),
    Did(CallPath, SideEffect),
    Undo(CallPath, u32),
    Restored(CallPath, u32, Vec<Place>),
    Generate(CallPath, Arc<str>, Arc<Value>),
    Generated(CallPath),
    KeepResult(CallPath, String),
    Result(CallPath, usize),
    State(FunctionSource, String),
    SetState(FunctionSource, String, Arc<Value>, Origins, u64),
    Forget(CallPath),
}

/// The end of a step: `None` if its deadline expired.
pub(crate) type WireStepped = Result<(Option<RecordKind>, u64, Duration), Halt>;

pub(crate) fn stepped_to_wire(stepped: Result<Stepped, Halt>) -> WireStepped {
    stepped.map(|Stepped { end, at_ms, took }| match end {
        StepEnd::Done(body) => (Some(body), at_ms, took),
        StepEnd::TimedOut => (None, at_ms, took),
    })
}

pub(crate) fn stepped_from_wire(wire: WireStepped) -> Result<Stepped, Halt> {
    wire.map(|(body, at_ms, took)| Stepped {
        end: body.map_or(StepEnd::TimedOut, StepEnd::Done),
        at_ms,
        took,
    })
}

/// The record that a step counts as done with.
pub(crate) fn done(cut_off: CutOff) -> Option<RecordKind> {
    match cut_off {
        CutOff::Again => None,
        CutOff::Done(body) => Some(body),
    }
}

pub(crate) type WireExchanged = Result<(Reply, Option<Question>, Duration), Halt>;

pub(crate) fn exchanged_to_wire(exchanged: Result<Exchanged, Halt>) -> WireExchanged {
    exchanged.map(|Exchanged { reply, asked, waited }| (reply, asked, waited))
}

pub(crate) fn line(message: &impl Serialize) -> String {
    format!("{MARK}{}\n", serde_json::to_string(message).expect("messages are JSON"))
}
