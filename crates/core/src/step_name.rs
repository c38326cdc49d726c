//! Names of steps. A step name and a path in the call tree are the key of every record.
//!
//! There is one printer ([`StepName`]'s `Display`) and one parser ([`FromStr`]). The text form is part of the journal's
//! format (`docs/reference/journal.md`): names may be added but never changed.

use crate::model::Purpose;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{convert::Infallible, fmt, str::FromStr, sync::Arc};

/// A request of a conversation: the turn, and the attempt at it. Both count from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt {
    /// The turn of the conversation.
    pub turn: u32,
    /// The attempt at this turn.
    pub attempt: u32,
}

/// A step of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestStep {
    /// The reservation of budget for the request.
    Reserve,
    /// The request itself.
    Model,
    /// The random part of the wait before the next attempt.
    Jitter,
    /// The wait before the next attempt.
    Wait,
}

/// The name of a step, unique within its call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StepName {
    /// `run`: the run's own start, resume and end.
    Run,
    /// `call`: the call has started.
    Call,
    /// `definition`: a worker that was loaded for this call.
    Definition,
    /// `links`, `links.N`: the real places of the call's paths. N counts the rounds that the operator's answers have
    /// added: by editing the arguments, or because something changed before an approval took effect.
    Links(u32),
    /// `rule`, `rule.N`: the answer of the function's own approval code. N as in [`StepName::Links`].
    Rule(u32),
    /// `check`, `check.N`: the check of the arguments by the function itself. N as in [`StepName::Links`].
    Check(u32),
    /// `ask`, `ask.N`: the operator is asked to approve the call. N as in [`StepName::Links`].
    Ask(u32),
    /// `recheck`, `recheck.N`: the check that nothing has changed since the operator approved. N as in
    /// [`StepName::Links`].
    Recheck(u32),
    /// `verdict`: the gate's decision.
    Verdict,
    /// `foresee`: the changes that the call will make.
    Foresee,
    /// `settle`: the settlement of an interrupted tool.
    Settle,
    /// `tool`, `tool.N`: a leaf's execution. N counts further attempts after a failure.
    Tool(u32),
    /// `input.N`: text that the call wants from the operator. N counts within the call.
    Input(u32),
    /// `lease`: the conversation takes the line to the user.
    Lease,
    /// `message.N`: the user's next message of a conversation. N counts within the call, from 1.
    Message(u32),
    /// `attach.N`: the file that the user attaches with the message of that number is read.
    Attach(u32),
    /// `model_choice.N`: the user chooses another model with the message of that number.
    ModelChoice(u32),
    /// `stand_in.N`: another model takes the place of one that is unavailable. N counts within the call.
    StandIn(u32),
    /// `now.T`: the user's words during the answer, delivered before the request of that turn.
    Now(u32),
    /// `queued.N`: the user says something that waits for the conversation. N counts within the call.
    Queued(u32),
    /// `undone.N`: the effects of the turns that message N takes back.
    Undone(u32),
    /// `restore.N`: the user is asked whether to restore the files that those turns changed.
    Restore(u32),
    /// `restored.N`: these files are restored.
    Restored(u32),
    /// `conversation`: a worker's conversation begins.
    Conversation,
    /// `tools`: the functions of a worker that is code are made.
    Tools,
    /// `list.TOOLSET`: an external program lists the tools of a worker's toolset.
    List(Arc<str>),
    /// `listed.TOOLSET`: the notices for the operator about that list.
    Listed(Arc<str>),
    /// `insert.N`: a toolset returns a text that the instructions insert. N counts within the call.
    Insert(u32),
    /// `reserve.T.A`: the budget for a request.
    Reserve(Attempt),
    /// `reserve.T.calls`: the budget for the calls of a turn.
    ReserveCalls(u32),
    /// `reserve.T.ensures`: the budget for the tools that check the output of a turn.
    ReserveEnsures(u32),
    /// `calls`: the budget for a call that code makes.
    ReserveCall,
    /// `model.T.A`: a request to a model.
    Model(Attempt),
    /// `jitter.T.A`: the random part of the wait before the next attempt.
    Jitter(Attempt),
    /// `wait.T.A`: the wait before the next attempt.
    Wait(Attempt),
    /// `compact.N`: the conversation was compacted. N counts within the call.
    Compact(u32),
    /// `summary.N.A`, `summary.N.A.reserve`, `summary.N.A.jitter`, `summary.N.A.wait`: a request for the summary of
    /// compaction N.
    Summary(Attempt, RequestStep),
    /// `repair.T`: a message that asks for a better answer.
    Repair(u32),
    /// `truncated`: the answer was cut off.
    Truncated,
    /// `limit`: a limit was reached.
    Limit,
    /// `kept`: the place where a generated worker was saved.
    Kept,
    /// `work.N`: the result whether code that makes calls was in time for its next call or its end. N counts within the
    /// call.
    Work(u32),
    /// `log.N`: the text that code printed. N counts within the call.
    Log(u32),
    /// `left_out`: a tool of the provider was refused, so the conversation is held without it.
    LeftOut,
    /// `misfit`: the result does not fit the schema that describes it.
    Misfit,
    /// `end`: the call has ended.
    End,
    /// Another name: of an embedding program, or of a later version.
    Other(Arc<str>),
}

impl StepName {
    /// A step of the request for that purpose. `of` counts turns or compactions, and the attempts at them.
    pub fn of_request(purpose: Purpose, of: Attempt, step: RequestStep) -> Self {
        match (purpose, step) {
            (Purpose::Summary, step) => Self::Summary(of, step),
            (Purpose::Answer, RequestStep::Reserve) => Self::Reserve(of),
            (Purpose::Answer, RequestStep::Model) => Self::Model(of),
            (Purpose::Answer, RequestStep::Jitter) => Self::Jitter(of),
            (Purpose::Answer, RequestStep::Wait) => Self::Wait(of),
        }
    }

    /// The purpose of the request that the step sends, if it sends one.
    pub fn request(&self) -> Option<Purpose> {
        match self {
            Self::Model(_) => Some(Purpose::Answer),
            Self::Summary(_, RequestStep::Model) => Some(Purpose::Summary),
            _ => None,
        }
    }

    /// The step that uses this step's reservation, if that is one request.
    pub fn reserved_for(&self) -> Option<Self> {
        match self {
            Self::Reserve(of) => Some(Self::Model(*of)),
            Self::Summary(of, RequestStep::Reserve) => Some(Self::Summary(*of, RequestStep::Model)),
            _ => None,
        }
    }

    /// Returns true if the step reserves budget.
    pub fn is_reservation(&self) -> bool {
        matches!(self, Self::ReserveCalls(_) | Self::ReserveEnsures(_) | Self::ReserveCall)
            || self.reserved_for().is_some()
    }

    /// Returns true if the step changes nothing outside of the process: it reserves budget in the ledger, or begins a
    /// conversation, which reads files.
    pub fn is_harmless(&self) -> bool {
        self.is_reservation() || matches!(self, Self::Conversation)
    }

    /// Returns true if the step is an execution of a leaf.
    pub fn is_tool(&self) -> bool {
        matches!(self, Self::Tool(_))
    }

    /// Returns true if the step lets another model take the place of one that is unavailable.
    pub fn is_stand_in(&self) -> bool {
        matches!(self, Self::StandIn(_))
    }

    /// Returns true if the step is the question whether files are restored.
    pub fn is_restore(&self) -> bool {
        matches!(self, Self::Restore(_))
    }

    /// The turn of a conversation that the step belongs to, if it belongs to one.
    pub fn turn(&self) -> Option<u32> {
        match self {
            Self::Reserve(of) | Self::Model(of) | Self::Jitter(of) | Self::Wait(of) => Some(of.turn),
            Self::ReserveCalls(turn) | Self::ReserveEnsures(turn) | Self::Repair(turn) | Self::Now(turn) => {
                Some(*turn)
            }
            _ => None,
        }
    }
}

impl fmt::Display for StepName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempt = |f: &mut fmt::Formatter<'_>, name, Attempt { turn, attempt }: &Attempt| {
            write!(f, "{name}.{turn}.{attempt}")
        };
        match self {
            Self::Run => f.write_str("run"),
            Self::Call => f.write_str("call"),
            Self::Definition => f.write_str("definition"),
            Self::Links(0) => f.write_str("links"),
            Self::Links(round) => write!(f, "links.{round}"),
            Self::Rule(0) => f.write_str("rule"),
            Self::Rule(round) => write!(f, "rule.{round}"),
            Self::Check(0) => f.write_str("check"),
            Self::Check(round) => write!(f, "check.{round}"),
            Self::Ask(0) => f.write_str("ask"),
            Self::Ask(round) => write!(f, "ask.{round}"),
            Self::Recheck(0) => f.write_str("recheck"),
            Self::Recheck(round) => write!(f, "recheck.{round}"),
            Self::Verdict => f.write_str("verdict"),
            Self::Foresee => f.write_str("foresee"),
            Self::Settle => f.write_str("settle"),
            Self::Tool(0) => f.write_str("tool"),
            Self::Tool(attempt) => write!(f, "tool.{attempt}"),
            Self::Input(number) => write!(f, "input.{number}"),
            Self::Lease => f.write_str("lease"),
            Self::Message(number) => write!(f, "message.{number}"),
            Self::Attach(number) => write!(f, "attach.{number}"),
            Self::ModelChoice(number) => write!(f, "model_choice.{number}"),
            Self::StandIn(number) => write!(f, "stand_in.{number}"),
            Self::Now(turn) => write!(f, "now.{turn}"),
            Self::Queued(number) => write!(f, "queued.{number}"),
            Self::Undone(number) => write!(f, "undone.{number}"),
            Self::Restore(number) => write!(f, "restore.{number}"),
            Self::Restored(number) => write!(f, "restored.{number}"),
            Self::Conversation => f.write_str("conversation"),
            Self::Tools => f.write_str("tools"),
            Self::List(toolset) => write!(f, "list.{toolset}"),
            Self::Listed(toolset) => write!(f, "listed.{toolset}"),
            Self::Insert(number) => write!(f, "insert.{number}"),
            Self::Reserve(of) => attempt(f, "reserve", of),
            Self::ReserveCalls(turn) => write!(f, "reserve.{turn}.calls"),
            Self::ReserveEnsures(turn) => write!(f, "reserve.{turn}.ensures"),
            Self::ReserveCall => f.write_str("calls"),
            Self::Model(of) => attempt(f, "model", of),
            Self::Jitter(of) => attempt(f, "jitter", of),
            Self::Wait(of) => attempt(f, "wait", of),
            Self::Compact(number) => write!(f, "compact.{number}"),
            Self::Summary(of, step) => {
                attempt(f, "summary", of)?;
                f.write_str(match step {
                    RequestStep::Model => "",
                    RequestStep::Reserve => ".reserve",
                    RequestStep::Jitter => ".jitter",
                    RequestStep::Wait => ".wait",
                })
            }
            Self::Repair(turn) => write!(f, "repair.{turn}"),
            Self::Truncated => f.write_str("truncated"),
            Self::Limit => f.write_str("limit"),
            Self::Kept => f.write_str("kept"),
            Self::Work(number) => write!(f, "work.{number}"),
            Self::Log(number) => write!(f, "log.{number}"),
            Self::LeftOut => f.write_str("left_out"),
            Self::Misfit => f.write_str("misfit"),
            Self::End => f.write_str("end"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

impl FromStr for StepName {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(parse(text).unwrap_or_else(|| Self::Other(text.into())))
    }
}

/// The name that is printed as this text; `None` if there is none.
fn parse(text: &str) -> Option<StepName> {
    use StepName as S;
    /// Accepts only the printed form: `007` and `+7` are other names.
    fn number(text: &str) -> Option<u32> {
        let number: u32 = text.parse().ok()?;
        let canonical = text == "0" || !(text.starts_with('0') || text.starts_with('+'));
        canonical.then_some(number)
    }
    let Some((name, rest)) = text.split_once('.') else {
        return Some(match text {
            "run" => S::Run,
            "call" => S::Call,
            "definition" => S::Definition,
            "links" => S::Links(0),
            "rule" => S::Rule(0),
            "check" => S::Check(0),
            "ask" => S::Ask(0),
            "recheck" => S::Recheck(0),
            "verdict" => S::Verdict,
            "foresee" => S::Foresee,
            "settle" => S::Settle,
            "tool" => S::Tool(0),
            "lease" => S::Lease,
            "conversation" => S::Conversation,
            "tools" => S::Tools,
            "calls" => S::ReserveCall,
            "truncated" => S::Truncated,
            "limit" => S::Limit,
            "kept" => S::Kept,
            "left_out" => S::LeftOut,
            "misfit" => S::Misfit,
            "end" => S::End,
            _ => return None,
        });
    };
    match name {
        "list" => return Some(S::List(rest.into())),
        "listed" => return Some(S::Listed(rest.into())),
        _ => {}
    }
    if let Some((turn, rest)) = rest.split_once('.') {
        let turn = number(turn)?;
        match (name, rest) {
            ("reserve", "calls") => return Some(S::ReserveCalls(turn)),
            ("reserve", "ensures") => return Some(S::ReserveEnsures(turn)),
            ("summary", rest) => {
                let (attempt, step) = match rest.split_once('.') {
                    None => (rest, RequestStep::Model),
                    Some((attempt, "reserve")) => (attempt, RequestStep::Reserve),
                    Some((attempt, "jitter")) => (attempt, RequestStep::Jitter),
                    Some((attempt, "wait")) => (attempt, RequestStep::Wait),
                    Some(_) => return None,
                };
                return Some(S::Summary(Attempt { turn, attempt: number(attempt)? }, step));
            }
            _ => {}
        }
        let of = Attempt { turn, attempt: number(rest)? };
        return match name {
            "reserve" => Some(S::Reserve(of)),
            "model" => Some(S::Model(of)),
            "jitter" => Some(S::Jitter(of)),
            "wait" => Some(S::Wait(of)),
            _ => None,
        };
    }
    let number = number(rest)?;
    match name {
        "links" if number > 0 => Some(S::Links(number)),
        "rule" if number > 0 => Some(S::Rule(number)),
        "check" if number > 0 => Some(S::Check(number)),
        "ask" if number > 0 => Some(S::Ask(number)),
        "recheck" if number > 0 => Some(S::Recheck(number)),
        "tool" if number > 0 => Some(S::Tool(number)),
        "input" => Some(S::Input(number)),
        "message" => Some(S::Message(number)),
        "attach" => Some(S::Attach(number)),
        "insert" => Some(S::Insert(number)),
        "model_choice" => Some(S::ModelChoice(number)),
        "stand_in" => Some(S::StandIn(number)),
        "now" => Some(S::Now(number)),
        "compact" => Some(S::Compact(number)),
        "queued" => Some(S::Queued(number)),
        "undone" => Some(S::Undone(number)),
        "restore" => Some(S::Restore(number)),
        "restored" => Some(S::Restored(number)),
        "repair" => Some(S::Repair(number)),
        "work" => Some(S::Work(number)),
        "log" => Some(S::Log(number)),
        _ => None,
    }
}

impl From<&str> for StepName {
    fn from(text: &str) -> Self {
        let Ok(name) = text.parse();
        name
    }
}

impl Serialize for StepName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StepName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(&*String::deserialize(deserializer)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_name_is_read_back_as_it_was_printed() {
        use StepName as S;
        let of = Attempt { turn: 3, attempt: 12 };
        let names = [
            (S::Run, "run"),
            (S::Call, "call"),
            (S::Definition, "definition"),
            (S::Links(0), "links"),
            (S::Links(2), "links.2"),
            (S::Rule(0), "rule"),
            (S::Rule(1), "rule.1"),
            (S::Check(0), "check"),
            (S::Check(1), "check.1"),
            (S::Ask(0), "ask"),
            (S::Ask(1), "ask.1"),
            (S::Recheck(0), "recheck"),
            (S::Recheck(2), "recheck.2"),
            (S::Verdict, "verdict"),
            (S::Foresee, "foresee"),
            (S::Settle, "settle"),
            (S::Tool(0), "tool"),
            (S::Tool(2), "tool.2"),
            (S::Input(0), "input.0"),
            (S::Lease, "lease"),
            (S::Message(1), "message.1"),
            (S::Attach(2), "attach.2"),
            (S::Insert(0), "insert.0"),
            (S::ModelChoice(4), "model_choice.4"),
            (S::StandIn(0), "stand_in.0"),
            (S::Now(3), "now.3"),
            (S::Queued(2), "queued.2"),
            (S::Undone(2), "undone.2"),
            (S::Restore(2), "restore.2"),
            (S::Restored(2), "restored.2"),
            (S::Conversation, "conversation"),
            (S::Reserve(of), "reserve.3.12"),
            (S::ReserveCalls(3), "reserve.3.calls"),
            (S::ReserveEnsures(3), "reserve.3.ensures"),
            (S::ReserveCall, "calls"),
            (S::Model(of), "model.3.12"),
            (S::Jitter(of), "jitter.3.12"),
            (S::Wait(of), "wait.3.12"),
            (S::Compact(1), "compact.1"),
            (S::Summary(of, RequestStep::Model), "summary.3.12"),
            (S::Summary(of, RequestStep::Reserve), "summary.3.12.reserve"),
            (S::Summary(of, RequestStep::Jitter), "summary.3.12.jitter"),
            (S::Summary(of, RequestStep::Wait), "summary.3.12.wait"),
            (S::Repair(3), "repair.3"),
            (S::Truncated, "truncated"),
            (S::Limit, "limit"),
            (S::Tools, "tools"),
            (S::Kept, "kept"),
            (S::List("mcp".into()), "list.mcp"),
            (S::Listed("mcp".into()), "listed.mcp"),
            (S::Work(7), "work.7"),
            (S::Log(4), "log.4"),
            (S::LeftOut, "left_out"),
            (S::Misfit, "misfit"),
            (S::End, "end"),
            (S::Other("elicit.1.2".into()), "elicit.1.2"),
        ];
        for (name, text) in names {
            assert_eq!(name.to_string(), text);
            assert_eq!(StepName::from(text), name);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_that_prints_as_itself(text in "[a-z]{0,12}(\\.[0-9a-z+]{0,4}){0,3}|.*") {
            prop_assert_eq!(StepName::from(&*text).to_string(), text);
        }
    }
}
