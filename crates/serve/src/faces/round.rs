//! Rounds of a run. A round begins with a message of the client and continues until the run ends or asks something.

use crate::{
    error::ApiError,
    events::Reader,
    live::{Attached, LiveRun, is_turn},
    service::Service,
    token::Token,
    views::{RunView, State},
};
use llm_do::{
    core::{
        call_path::CallPath,
        client_tool::CLIENT,
        event::Event,
        journal::{Ending, Record, RecordKind},
        model::{Delta, Usage},
        outcome::{Failure, FailureKind},
        partial::Growth,
        question::{Input, Question},
        rule::Rule,
        source::FunctionSource,
        step_name::{Attempt, StepName},
    },
    output_text,
    records::{CallView, RunView as Calls, duration},
};
use serde_json::Value;
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};
use tokio::sync::watch;

/// A piece of a round, in the order in which it happens.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// Further text of a turn, in the answer to that request.
    Text { turn: Attempt, text: String },
    /// The text of the turn so far is void, because its request has failed and may be repeated.
    Void { turn: Attempt },
    /// The text of the turn is complete.
    Said { turn: Attempt },
    /// A call of a tool or a worker has ended.
    Called(Called),
    /// The typed output has grown.
    Grown(Vec<Growth>),
    /// The typed output so far is void.
    Withdrawn,
}

/// A call that the entry of the run has made, and that has ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Called {
    /// The call.
    pub(crate) open: Open,
    /// The result, or the failure.
    pub(crate) result: Result<Arc<Value>, Failure>,
}

/// A call of the entry that has begun and not ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Open {
    /// The place of the call.
    pub(crate) path: CallPath,
    /// The function.
    pub(crate) function: Arc<str>,
    /// The arguments.
    pub(crate) input: Arc<Value>,
    /// True if the call began in an earlier round.
    pub(crate) began_before: bool,
    /// The part of the client in the call.
    pub(crate) at_client: AtClient,
}

/// The part of the client in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtClient {
    /// The worker has the tool.
    No,
    /// The client has the tool, and was not asked to execute the call.
    NotAsked,
    /// The client was asked in this round.
    Asked,
    /// The client was asked in an earlier round.
    AskedBefore,
}

impl AtClient {
    /// Returns true if the client executes the call, or has executed it.
    pub(crate) fn is_asked(self) -> bool {
        matches!(self, Self::Asked | Self::AskedBefore)
    }
}

/// Turns the events of a run into pieces. Text and calls are those of the entry itself. Calls below them are left out.
pub(crate) struct Hearing {
    /// True if the client gets the text of the entry's model. False if it gets only the entry's typed output.
    text: bool,
    /// True if a part of the typed output was told.
    grown: bool,
    /// The text of the turn in progress.
    so_far: Option<(u32, String)>,
    /// The turn after the last one that was answered.
    next_turn: u32,
    /// The newest request of the entry.
    requested: Attempt,
    /// The last complete text of the round.
    last: Option<String>,
    calls: Calls,
    /// The number of the record after the last one.
    next: u64,
    /// The number of calls that began in earlier rounds.
    began_before: usize,
    /// The calls that the client was asked to execute, each with true if that was in an earlier round.
    at_client: HashMap<CallPath, bool>,
    usage: Usage,
}

impl Hearing {
    pub(crate) fn new(text: bool) -> Self {
        Self {
            text,
            grown: false,
            so_far: None,
            next_turn: 0,
            requested: Attempt { turn: 0, attempt: 0 },
            last: None,
            calls: Calls::of_calls_under_way(),
            next: 0,
            began_before: 0,
            at_client: HashMap::new(),
            usage: Usage::default(),
        }
    }

    /// Creates a value that knows the records of earlier rounds, which are no part of this round.
    pub(crate) fn after(text: bool, before: &[Record]) -> Self {
        let mut hearing = Self::new(text);
        for record in before {
            hearing.record(record);
        }
        let began_before = hearing.calls.begun();
        hearing.at_client.values_mut().for_each(|before| *before = true);
        Self { usage: Usage::default(), last: None, began_before, ..hearing }
    }

    fn event(&mut self, event: &Event) -> Vec<Piece> {
        match event {
            Event::Record { record } => self.record(record),
            Event::Delta { path, turn, delta: Delta::Text { text } }
                if self.text && *path == CallPath::root() && *turn >= self.next_turn =>
            {
                match &mut self.so_far {
                    Some((of, so_far)) if of == turn => so_far.push_str(text),
                    so_far => *so_far = Some((*turn, text.clone())),
                }
                vec![Piece::Text { turn: self.request(*turn), text: text.clone() }]
            }
            Event::Discard { path, turn } if *path == CallPath::root() => {
                let was_said = self.so_far.take_if(|(of, _)| of == turn).is_some();
                let void = was_said.then_some(Piece::Void { turn: self.request(*turn) });
                void.into_iter().chain(self.withdrawn()).collect()
            }
            Event::Partial { path, growth, .. } if *path == CallPath::root() => {
                self.grown = true;
                vec![Piece::Grown(growth.clone())]
            }
            Event::DiscardPartial { path, .. } if *path == CallPath::root() => {
                self.withdrawn().into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the piece that voids the typed output, if a part of it was told.
    fn withdrawn(&mut self) -> Option<Piece> {
        std::mem::take(&mut self.grown).then_some(Piece::Withdrawn)
    }

    pub(crate) fn record(&mut self, record: &Record) -> Vec<Piece> {
        let path = &record.path;
        self.next = record.seq + 1;
        // A further attempt says nothing new: the call was told with the result of its first one.
        let was_open = |call: &&CallView| is_of_entry(path) && call.failed_attempts == 0;
        let open = self.calls.call_under_way(path).filter(was_open).map(|call| self.open_call(call));
        if let RecordKind::Asked(Question::Input(_)) = &record.body
            && self.calls.call_under_way(path).is_some_and(|call| is_of_client(&call.source))
        {
            self.at_client.insert(path.clone(), false);
        }
        self.calls.fold(record.into());
        let result = match &record.body {
            RecordKind::ModelRequested { .. } => {
                if let (StepName::Model(turn), true) = (&record.step, *path == CallPath::root()) {
                    self.requested = *turn;
                }
                return Vec::new();
            }
            RecordKind::ModelAnswered { message, usage, .. } => {
                self.usage = self.usage.plus(*usage);
                return match record.step {
                    StepName::Model(turn) if *path == CallPath::root() => self.said(turn, message.said()),
                    _ => Vec::new(),
                };
            }
            RecordKind::ToolEnded { ending, .. } | RecordKind::CallEnded { ending, .. } => match ending {
                Ending::Output(value) => Ok(Arc::clone(value)),
                Ending::Failure(failure) => Err(failure.clone()),
                Ending::Suspended => return Vec::new(),
            },
            RecordKind::TimedOut { after_ms } if record.step.is_tool() => {
                let reason = format!("stopped after {}", duration(*after_ms));
                Err(Failure::new(FailureKind::Timeout, reason))
            }
            RecordKind::Verdict { rule: Rule::Blocked, reason, .. } => {
                let reason = reason.as_deref().unwrap_or("the call was refused");
                Err(Failure::new(FailureKind::Denied, reason))
            }
            _ => return Vec::new(),
        };
        let called = |open| Piece::Called(Called { open, result });
        open.map(called).into_iter().collect()
    }

    /// Returns the request of a turn that is being answered.
    fn request(&self, turn: u32) -> Attempt {
        match self.requested.turn == turn {
            true => self.requested,
            false => Attempt { turn, attempt: 0 },
        }
    }

    /// Returns the pieces that complete the text of a turn, with text that came in no delta.
    fn said(&mut self, turn: Attempt, text: String) -> Vec<Piece> {
        self.next_turn = self.next_turn.max(turn.turn.saturating_add(1));
        let streamed = self.so_far.take().filter(|(of, _)| *of == turn.turn).map(|(_, text)| text);
        if !self.text || (text.is_empty() && streamed.is_none()) {
            return Vec::new();
        }
        let mut pieces = Vec::new();
        let streamed = streamed.unwrap_or_default();
        match text.strip_prefix(&*streamed) {
            Some("") => {}
            Some(rest) => pieces.push(Piece::Text { turn, text: rest.to_owned() }),
            None => {
                pieces.push(Piece::Void { turn });
                pieces.push(Piece::Text { turn, text: text.clone() });
            }
        }
        pieces.push(Piece::Said { turn });
        self.last = Some(text);
        pieces
    }

    /// Returns the pieces of the text that the round ends with, if the client does not have it yet. This is the output
    /// of a worker whose text is not for the client, or whose code makes the output.
    pub(crate) fn rest(&mut self, text: &str) -> Vec<Piece> {
        if text.is_empty() || self.last.as_deref() == Some(text) {
            return Vec::new();
        }
        let turn = Attempt { turn: self.next_turn, attempt: 0 };
        self.next_turn = turn.turn.saturating_add(1);
        self.last = Some(text.to_owned());
        vec![Piece::Text { turn, text: text.to_owned() }, Piece::Said { turn }]
    }

    fn open_call(&self, call: &CallView) -> Open {
        Open {
            path: call.path.clone(),
            function: Arc::clone(&call.function),
            input: Arc::clone(call.given.as_ref().unwrap_or(&call.input)),
            began_before: call.number < self.began_before,
            at_client: match self.at_client.get(&call.path) {
                Some(true) => AtClient::AskedBefore,
                Some(false) => AtClient::Asked,
                None if is_of_client(&call.source) => AtClient::NotAsked,
                None => AtClient::No,
            },
        }
    }

    /// The calls, of any worker, that the client executes.
    fn calls_at_client(&self) -> Vec<Open> {
        let calls = self.calls.under_way().filter(|call| self.at_client.contains_key(&call.path));
        calls.map(|call| self.open_call(call)).collect()
    }

    /// The calls of the entry that have begun and not ended.
    fn calls_of_entry(&self) -> impl Iterator<Item = &CallView> {
        self.calls.under_way().filter(|call| is_of_entry(&call.path))
    }

    fn open(&self) -> Vec<Open> {
        let untold = self.calls_of_entry().filter(|call| call.failed_attempts == 0);
        untold.map(|call| self.open_call(call)).collect()
    }

    /// Returns true if the open calls ask no further question before one that waits is answered: each of them waits for an
    /// answer, or the gate has decided about it. A call of the client's tool is a question after that.
    fn none_in_gate(&self) -> bool {
        let is_decided = |call: &CallView| call.verdict.is_some() && !is_of_client(&call.source);
        self.calls_of_entry().all(|call| call.open_questions > 0 || is_decided(call))
    }
}

/// Returns true if the client of a run has the function.
pub(crate) fn is_of_client(source: &FunctionSource) -> bool {
    matches!(source, FunctionSource::Toolset(kind) if **kind == *CLIENT)
}

/// Returns true if a turn of the entry makes the call.
fn is_of_entry(path: &CallPath) -> bool {
    path.parent() == Some(CallPath::root()) && path.turn_below(&CallPath::root()).is_some()
}

/// The end of a round.
#[derive(Clone, Debug)]
pub(crate) struct Settled {
    /// The run as it is now.
    pub(crate) run: RunView,
    /// The questions that keep calls waiting.
    pub(crate) questions: Vec<crate::views::QuestionView>,
    /// The wait of a conversation for its next message, with the reason why the last message has no answer, if it has
    /// none. `None`: no conversation waits.
    pub(crate) turn: Option<Option<Failure>>,
    /// The calls that have not ended.
    pub(crate) open: Vec<Open>,
    /// The calls, of any worker, whose results the client sends.
    pub(crate) at_client: Vec<Open>,
    /// The tokens of the round.
    pub(crate) usage: Usage,
}

impl Settled {
    pub(crate) fn of(run: RunView, hearing: &Hearing) -> Self {
        let (turns, questions): (Vec<_>, Vec<_>) =
            run.questions.iter().cloned().partition(|question| is_turn(&question.waiting));
        let turn = turns.into_iter().next().map(|question| match question.waiting.question {
            Question::Input(Input { conversation: Some(turn), .. }) => turn.failure,
            _ => None,
        });
        let at_client = hearing.calls_at_client();
        Self { run, questions, turn, open: hearing.open(), at_client, usage: hearing.usage }
    }

    /// Returns the text that the round ends with.
    pub(crate) fn text(&self) -> Option<String> {
        if let Some(output) = &self.run.output {
            return Some(output_text(output, false));
        }
        let turn = self.run.questions.iter().find(|question| is_turn(&question.waiting))?;
        match &turn.waiting.question {
            Question::Input(Input { prompt, conversation: Some(turn), .. }) if turn.failure.is_none() => {
                Some(prompt.to_string())
            }
            _ => None,
        }
    }

    /// Returns true if the run continues by itself.
    fn is_at_work(&self) -> bool {
        matches!(self.run.state, State::Queued | State::Running)
    }

    /// Returns the reason why the round has failed, if it has.
    pub(crate) fn failure(&self) -> Option<String> {
        if let Some(failure) = &self.run.failure {
            return Some(failure.message.clone());
        }
        if let Some(failure) = self.turn.as_ref().and_then(Option::as_ref) {
            return Some(failure.message.clone());
        }
        match self.run.state {
            State::Failed | State::Limit | State::Refused => Some("the run failed".into()),
            State::Cancelled => Some("the run was cancelled".into()),
            State::CutOff => Some(
                self.run
                    .reason
                    .clone()
                    .unwrap_or_else(|| "the server shuts down; its next start continues the run".into()),
            ),
            State::Changed => {
                Some(self.run.reason.clone().unwrap_or_else(|| "the run can't be continued".into()))
            }
            State::Queued | State::Running | State::Waiting | State::Done => None,
        }
    }
}

/// A round in progress. If it is dropped before its end, the client of its request has disconnected: see [`Attached`].
pub(crate) struct Round {
    service: Service,
    token: Arc<Token>,
    live: Arc<LiveRun>,
    reader: Reader,
    questions: watch::Receiver<()>,
    hearing: Hearing,
    ready: VecDeque<Piece>,
    state: Progress,
    attached: Option<Attached>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Following,
    /// The run waits for an answer, and all earlier events are read.
    Asked,
    /// The run has ended, and all its events are read.
    Ended,
    Over,
}

impl Round {
    pub(crate) fn new(
        service: &Service,
        token: &Arc<Token>,
        live: Arc<LiveRun>,
        reader: Reader,
        hearing: Hearing,
    ) -> Self {
        let questions = live.questions().subscribe();
        let attached = live.attach();
        Self {
            service: service.clone(),
            token: Arc::clone(token),
            live,
            reader,
            questions,
            hearing,
            ready: VecDeque::new(),
            state: Progress::Following,
            attached: Some(attached),
        }
    }

    /// Lets the run continue if this round is dropped before its end.
    pub(crate) fn detach(&mut self) {
        if let Some(attached) = self.attached.take() {
            attached.leave();
        }
    }

    pub(crate) fn run(&self) -> &Arc<LiveRun> {
        &self.live
    }

    /// Returns the next piece, or the end of the round.
    ///
    /// # Errors
    /// The journal can't be read.
    pub(crate) async fn next(&mut self) -> Result<Next, ApiError> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Ok(Next::Piece(piece));
            }
            match self.state {
                Progress::Following => self.hear().await?,
                Progress::Asked | Progress::Ended => {
                    let settled = self.settled().await?;
                    if self.state == Progress::Asked && settled.is_at_work() {
                        // Another client has answered, or the question is withdrawn.
                        self.state = Progress::Following;
                        continue;
                    }
                    self.state = Progress::Over;
                    self.ready.extend(settled.text().into_iter().flat_map(|text| self.hearing.rest(&text)));
                    if self.ready.is_empty() {
                        return Ok(Next::Settled(Box::new(settled)));
                    }
                }
                Progress::Over => return Ok(Next::Settled(Box::new(self.settled().await?))),
            }
        }
    }

    async fn hear(&mut self) -> Result<(), ApiError> {
        self.questions.borrow_and_update();
        // In this order: a question is put after its record.
        let waits = self.live.state() == State::Waiting && self.hearing.next >= self.live.next_record();
        let are_put = self.live.questions().count() >= self.hearing.calls.questions().count();
        if waits && are_put && self.hearing.none_in_gate() {
            self.state = Progress::Asked;
            return Ok(());
        }
        tokio::select! {
            biased;
            event = self.reader.event() => match event {
                Some(Ok(event)) => self.ready.extend(self.hearing.event(&event)),
                Some(Err(error)) => return Err(ApiError::internal(error)),
                None => {
                    self.live.ended().await;
                    self.state = Progress::Ended;
                }
            },
            // The sender lives as long as the run.
            _ = self.questions.changed() => {}
        }
        Ok(())
    }

    async fn settled(&self) -> Result<Settled, ApiError> {
        Ok(Settled::of(self.service.run(&self.token, &self.live.id).await?, &self.hearing))
    }
}

/// The next piece of a round, or its end.
pub(crate) enum Next {
    Piece(Piece),
    Settled(Box<Settled>),
}

impl Drop for Round {
    fn drop(&mut self) {
        let Some(attached) = self.attached.take() else { return };
        match self.state {
            Progress::Following => self.service.log(&format!("run {}: its client is gone", self.live.id)),
            Progress::Asked | Progress::Ended | Progress::Over => attached.leave(),
        }
    }
}

#[cfg(test)]
mod settling;

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do::core::model::{FinishReason, Message, MessageId, Part, Role};
    use serde_json::json;

    fn record(path: &CallPath, step: &str, body: RecordKind) -> Event {
        let record = Record { seq: 0, at_ms: 0, path: path.clone(), step: step.into(), body };
        Event::Record { record: Arc::new(record) }
    }

    fn answered(turn: u32, text: &str) -> Event {
        let parts = vec![Part::text(text)];
        let message = Message { id: MessageId(0), parent: None, role: Role::Assistant, parts };
        let usage = Usage { input_tokens: Some(3), output_tokens: Some(1), ..Usage::default() };
        let body = RecordKind::ModelAnswered {
            message: Arc::new(message),
            finish: FinishReason::Stop,
            usage,
            unknown_finish: None,
            unoffered: Vec::new(),
        };
        record(&CallPath::root(), &format!("model.{turn}.0"), body)
    }

    fn delta(turn: u32, text: &str) -> Event {
        Event::Delta { path: CallPath::root(), turn, delta: Delta::Text { text: text.into() } }
    }

    fn heard(hearing: &mut Hearing, events: &[Event]) -> Vec<Piece> {
        events.iter().flat_map(|event| hearing.event(event)).collect()
    }

    fn text(turn: u32, text: &str) -> Piece {
        Piece::Text { turn: request(turn), text: text.into() }
    }

    fn request(turn: u32) -> Attempt {
        Attempt { turn, attempt: 0 }
    }

    #[test]
    fn text_is_whole_whatever_deltas_came() {
        for (deltas, pieces) in [
            (vec![delta(0, "one "), delta(0, "two")], vec![text(0, "one "), text(0, "two")]),
            (vec![delta(0, "one ")], vec![text(0, "one "), text(0, "two")]),
            (vec![], vec![text(0, "one two")]),
            // The first one was missed.
            (
                vec![delta(0, "two")],
                vec![text(0, "two"), Piece::Void { turn: request(0) }, text(0, "one two")],
            ),
            (
                vec![delta(0, "oops"), Event::Discard { path: CallPath::root(), turn: 0 }],
                vec![text(0, "oops"), Piece::Void { turn: request(0) }, text(0, "one two")],
            ),
        ] {
            let mut hearing = Hearing::new(true);
            // What comes late of a turn that is answered says nothing new.
            let events = [deltas, vec![answered(0, "one two"), delta(0, "late")]].concat();
            let said = [pieces, vec![Piece::Said { turn: request(0) }]].concat();
            assert_eq!(heard(&mut hearing, &events), said);
            assert_eq!(hearing.usage.total(), 4);
            assert_eq!(hearing.rest("one two"), [], "it was said");
            assert_eq!(hearing.rest("more"), [text(1, "more"), Piece::Said { turn: request(1) }]);
        }
    }

    #[test]
    fn text_after_a_retry_belongs_to_its_own_request_in_a_stream_and_in_the_records() {
        let requested = |attempt: u32| {
            let body = RecordKind::ModelRequested {
                turn: 0,
                attempt,
                head: MessageId(0),
                digest: "d".into(),
                max_tokens: None,
            };
            record(&CallPath::root(), &format!("model.0.{attempt}"), body)
        };
        let Event::Record { record: first } = answered(0, "done") else { panic!("a record") };
        let step = "model.0.1".into();
        let second = Event::Record { record: Arc::new(Record { step, ..(*first).clone() }) };
        let retried = Attempt { turn: 0, attempt: 1 };
        let streamed = [
            requested(0),
            delta(0, "oops"),
            Event::Discard { path: CallPath::root(), turn: 0 },
            requested(1),
            delta(0, "do"),
            second.clone(),
        ];
        let said = [
            text(0, "oops"),
            Piece::Void { turn: request(0) },
            Piece::Text { turn: retried, text: "do".into() },
            Piece::Text { turn: retried, text: "ne".into() },
            Piece::Said { turn: retried },
        ];
        assert_eq!(heard(&mut Hearing::new(true), &streamed), said);
        let stored = [requested(0), requested(1), second];
        let said = [Piece::Text { turn: retried, text: "done".into() }, Piece::Said { turn: retried }];
        assert_eq!(heard(&mut Hearing::new(true), &stored), said);
    }

    #[test]
    fn words_of_workers_below_and_of_typed_workers_are_not_the_answer() {
        let mut hearing = Hearing::new(false);
        assert_eq!(heard(&mut hearing, &[delta(0, "a"), answered(0, "a")]), []);
        assert_eq!(hearing.rest("{}"), [text(1, "{}"), Piece::Said { turn: request(1) }]);
        let mut hearing = Hearing::new(true);
        let below = Event::Delta {
            path: CallPath::root().call(0, 0),
            turn: 0,
            delta: Delta::Text { text: "b".into() },
        };
        assert_eq!(heard(&mut hearing, &[below]), []);
    }

    #[test]
    fn call_is_in_the_gate_until_it_is_decided_or_asked_about() {
        let path = CallPath::root().call(0, 0);
        let of_kind = |path: &CallPath, step: &str, body: Value| {
            record(path, step, serde_json::from_value(body).expect("a record"))
        };
        let started = |source: &str| {
            of_kind(
                &path,
                "call",
                json!({
                    "kind": "call_started", "function": "look", "source": {"toolset": source},
                    "principal": {"worker": "main"}, "input": {},
                }),
            )
        };
        let verdict = of_kind(
            &path,
            "verdict",
            json!({"kind": "verdict", "rule": "preApproved", "by": {"default": "read"}}),
        );
        let asked = of_kind(
            &path,
            "ask",
            json!({"kind": "asked", "question": "input", "chain": ["main"], "prompt": "?"}),
        );
        let mut hearing = Hearing::new(true);
        heard(&mut hearing, &[started("filesystem")]);
        assert!(!hearing.none_in_gate());
        heard(&mut hearing, std::slice::from_ref(&verdict));
        assert!(hearing.none_in_gate());
        // The client's tool asks its client after the decision.
        let mut hearing = Hearing::new(true);
        heard(&mut hearing, &[started(CLIENT), verdict]);
        assert!(!hearing.none_in_gate());
        heard(&mut hearing, &[asked]);
        assert!(hearing.none_in_gate());
    }

    #[test]
    fn call_is_heard_once_with_its_arguments_even_if_it_began_before() {
        let path = CallPath::root().call(0, 0);
        let started = serde_json::from_value(json!({
            "kind": "call_started", "function": "write_file", "source": {"toolset": "filesystem"},
            "principal": {"worker": "main"}, "input": {"path": "a"},
        }));
        let started = record(&path, "call", started.expect("a record"));
        let ended = RecordKind::ToolEnded {
            ending: Ending::Output(Arc::new(json!("done"))),
            blobs: Vec::new(),
            log: None,
            origins: Default::default(),
            mixed: false,
        };
        let ended = record(&path, "tool", ended);
        let Event::Record { record: before } = &started else { panic!("a record") };
        let mut hearing = Hearing::after(true, &[(**before).clone()]);
        assert!(!hearing.none_in_gate(), "the gate has not decided");
        let [Piece::Called(called)] = &heard(&mut hearing, &[ended.clone(), ended])[..] else {
            panic!("one call");
        };
        assert_eq!((&*called.open.function, &*called.open.input), ("write_file", &json!({"path": "a"})));
        assert!(called.open.began_before && called.result.is_ok());
        assert!(hearing.none_in_gate() && hearing.open().is_empty());
    }
}
