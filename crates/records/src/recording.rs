//! Recorded answers of models for tests: the records of a run's journal that hold requests to models and their answers,
//! without parts that differ between two equal runs. See `docs/reference/cases.md`.

use crate::{
    line::{Problem, RecordRef, parse_line},
    replay::{Difference, Divergence, capabilities},
    sent::messages_sent,
};
use llm_do_core::{
    call_path::CallPath,
    conversation::Conversation,
    journal::{Record, RecordKind},
    listing::Listing,
    model::{
        Capabilities, DeltaSink, FinishReason, Message, Model, ModelError, ModelErrorKind, ModelName,
        ModelRequest, ModelResponse, Models, Purpose, Usage,
    },
    question::Question,
    schema::without_own,
    send::BoxFuture,
    server_tool::ServerTool,
    step_name::{Attempt, StepName},
};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The ID of a recorded run.
const RUN: &str = "recorded";

/// The runs of one repeat of a case: the call that it is about, then those of its judge.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    runs: Vec<Vec<Record>>,
}

/// A recording that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum BadRecording {
    /// A line can't be read.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The reason.
        problem: Problem,
    },
    /// A run has no date, or another text in its place.
    #[error("line {line}: `{date}` is not a date, as in 2026-01-31")]
    Date {
        /// Number of the line, from 1.
        line: usize,
        /// The text.
        date: Arc<str>,
    },
    /// Lines are missing at the end: a run has no last record.
    #[error("it ends in the middle of a run")]
    BreaksOff,
}

impl Recording {
    /// Adds a run. `places` are the folders of this machine in it, each with the name that it gets.
    ///
    /// # Errors
    /// A record has no form in JSON.
    pub fn add(&mut self, records: &[Record], places: &[(&str, &str)]) -> Result<(), serde_json::Error> {
        let Some(Record { body: RecordKind::RunStarted { run, .. }, .. }) = records.first() else {
            return Ok(());
        };
        let run = Arc::clone(run);
        let mut kept = Vec::new();
        for (seq, record) in in_order(records).into_iter().filter(|record| is_kept(&record.body)).enumerate()
        {
            let body = anonymous(&record.body);
            let record =
                RecordRef { seq: seq as u64, at_ms: 0, path: &record.path, step: &record.step, body: &body };
            let mut line = serde_json::to_string(&record)?;
            for (place, name) in
                places.iter().copied().chain([(&*run, RUN)]).filter(|(from, _)| !from.is_empty())
            {
                line = line.replace(place, name);
            }
            kept.push(serde_json::from_str(&line)?);
        }
        self.runs.push(kept);
        Ok(())
    }

    /// Parses the recording in the lines of a file.
    ///
    /// # Errors
    /// A line is no record, or of another format; or lines are missing.
    pub fn parse(text: &str) -> Result<Self, BadRecording> {
        let mut runs: Vec<Vec<Record>> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = |problem| BadRecording::Line { line: number + 1, problem };
            let record = parse_line(line.as_bytes(), &HashMap::<String, Vec<u8>>::new()).map_err(wrong)?;
            let expected = match &record.body {
                RecordKind::RunStarted { date, .. } => {
                    if !is_date(date) {
                        return Err(BadRecording::Date { line: number + 1, date: Arc::clone(date) });
                    }
                    runs.push(Vec::new());
                    0
                }
                _ => runs.last().map_or(0, Vec::len) as u64,
            };
            let found = record.seq;
            match runs.last_mut() {
                Some(run) if found == expected => run.push(record),
                _ => return Err(wrong(Problem::OutOfOrder { expected, found })),
            }
        }
        match !runs.is_empty() && runs.iter().all(|run| is_whole(run)) {
            true => Ok(Self { runs }),
            false => Err(BadRecording::BreaksOff),
        }
    }

    /// Returns the lines of a file with the recording. Two runs that did the same have the same lines.
    ///
    /// # Errors
    /// A record has no form in JSON.
    pub fn lines(&self) -> Result<String, serde_json::Error> {
        self.runs
            .iter()
            .flatten()
            .map(|record| serde_json::to_string(record).map(|line| line + "\n"))
            .collect()
    }

    /// Returns true if no run is recorded.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the models of the run of that number, and the date that it ran on; `None` if it is not recorded.
    pub fn run(&self, number: usize) -> Option<RecordedModels> {
        let records = self.runs.get(number)?;
        let Some(Record { body: RecordKind::RunStarted { date, .. }, .. }) = records.first() else {
            return None;
        };
        Some(RecordedModels::new(records.clone(), Some(Arc::clone(date))))
    }
}

/// Returns true if the last record of a run is the end of its root call.
fn is_whole(run: &[Record]) -> bool {
    run.last().is_some_and(|last| {
        last.path == CallPath::root() && matches!(last.body, RecordKind::CallEnded { .. })
    })
}

/// Returns true if a text is a date as templates see it: `2026-01-31`.
fn is_date(text: &str) -> bool {
    let fits = |(at, c): (usize, char)| if matches!(at, 4 | 7) { c == '-' } else { c.is_ascii_digit() };
    text.len() == 10 && text.chars().enumerate().all(fits)
}

/// Returns true if a recording keeps a record: the requests and answers of a run depend on it, and it is the same in
/// two equal runs.
fn is_kept(body: &RecordKind) -> bool {
    !matches!(
        body,
        RecordKind::RunEnded { .. }
            | RecordKind::Definition(_)
            | RecordKind::Slept { .. }
            | RecordKind::Random { .. }
            | RecordKind::Foreseen { .. }
            | RecordKind::LinksFollowed { .. }
            | RecordKind::Rechecked { .. }
            | RecordKind::Verdict { .. }
            | RecordKind::Asked(Question::Approval(_))
            | RecordKind::ToolStarted { .. }
            | RecordKind::Note { .. }
            | RecordKind::Reserved(_)
    )
}

/// Returns the record without parts that depend on the moment and the machine.
fn anonymous(body: &RecordKind) -> RecordKind {
    let mut body = body.clone();
    match &mut body {
        RecordKind::RunStarted { run, version, target, definitions, runtimes, invocation, .. } => {
            (*run, *version, *target) = (RUN.into(), "".into(), ".".into());
            (*definitions, *runtimes, *invocation) = (Vec::new(), Vec::new(), None);
        }
        RecordKind::ToolEnded { log, .. } => *log = None,
        // Scripts and weights are named by their files.
        RecordKind::ConversationStarted { model, .. } if ["script", "local"].contains(&model.provider()) => {
            if let Ok(name) = format!("{}:{RUN}", model.provider()).parse() {
                *model = name;
            }
        }
        _ => {}
    }
    body
}

/// Returns the records in an order that doesn't depend on which of several calls ended first. The records of a call
/// stand before the next record of its caller, and calls made side by side are in the order of their places.
fn in_order(records: &[Record]) -> Vec<&Record> {
    let mut groups: BTreeMap<&CallPath, Vec<&Record>> = BTreeMap::new();
    for record in records {
        groups.entry(&record.path).or_default().push(record);
    }
    let mut children: HashMap<CallPath, Vec<&CallPath>> = HashMap::new();
    for path in groups.keys().filter(|path| ***path != CallPath::root()) {
        let mut above = path.parent();
        while let Some(place) = above.take_if(|place| !groups.contains_key(place)) {
            above = place.parent();
        }
        children.entry(above.unwrap_or_else(CallPath::root)).or_default().push(path);
    }
    let mut out = Vec::with_capacity(records.len());
    emit(&CallPath::root(), &groups, &children, &mut out);
    out
}

fn emit<'a>(
    path: &CallPath,
    groups: &BTreeMap<&'a CallPath, Vec<&'a Record>>,
    children: &HashMap<CallPath, Vec<&'a CallPath>>,
    out: &mut Vec<&'a Record>,
) {
    let own = groups.get(path).map(Vec::as_slice).unwrap_or_default();
    let mut below = children.get(path).cloned().unwrap_or_default();
    let began =
        |path: &CallPath| groups.get(path).and_then(|records| records.first()).map_or(0, |first| first.seq);
    for record in own {
        below.retain(|child| {
            let before = began(child) < record.seq;
            if before {
                emit(child, groups, children, out);
            }
            !before
        });
        out.push(record);
    }
    for child in below {
        emit(child, groups, children, out);
    }
}

/// The models of a recorded run. A request is answered if its place in the call tree, its step and its content are the
/// recorded ones: instructions, tools, schema and messages. Which model is asked, and its settings, are not compared.
#[derive(Clone)]
pub struct RecordedModels {
    shared: Arc<Recorded>,
}

struct Recorded {
    records: Vec<Record>,
    date: Option<Arc<str>>,
    answers: HashMap<(CallPath, Purpose, u32), Answer>,
    missed: Mutex<Option<Divergence>>,
}

/// The last attempt at a request.
struct Answer {
    step: StepName,
    digest: Arc<str>,
    came: Result<(Arc<Message>, FinishReason, Usage), ModelError>,
}

impl fmt::Debug for RecordedModels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordedModels").field("answers", &self.shared.answers.len()).finish_non_exhaustive()
    }
}

impl RecordedModels {
    /// Makes the models of a call that asks none: each request is one that is not recorded.
    pub fn of_nothing() -> Self {
        Self::new(Vec::new(), None)
    }

    fn new(records: Vec<Record>, date: Option<Arc<str>>) -> Self {
        let mut answers: HashMap<(CallPath, Purpose, u32), Answer> = HashMap::new();
        let mut asked: HashMap<(CallPath, StepName), (CallPath, Purpose, u32)> = HashMap::new();
        for record in &records {
            let step = (record.path.clone(), record.step.clone());
            match &record.body {
                RecordKind::ModelRequested { turn, digest, .. } => {
                    let key = (record.path.clone(), record.step.request().unwrap_or_default(), *turn);
                    let cut = ModelError::new(ModelErrorKind::BadRequest, "the recording breaks off here");
                    let answer =
                        Answer { step: record.step.clone(), digest: Arc::clone(digest), came: Err(cut) };
                    answers.insert(key.clone(), answer);
                    asked.insert(step, key);
                }
                RecordKind::ModelAnswered { message, finish, usage, .. } => {
                    if let Some(answer) = asked.get(&step).and_then(|key| answers.get_mut(key)) {
                        answer.came = Ok((Arc::clone(message), *finish, *usage));
                    }
                }
                RecordKind::ModelFailed { error, .. } => {
                    if let Some(answer) = asked.get(&step).and_then(|key| answers.get_mut(key)) {
                        answer.came = Err(error.clone());
                    }
                }
                _ => {}
            }
        }
        Self { shared: Arc::new(Recorded { records, date, answers, missed: Mutex::default() }) }
    }

    /// Returns the date of the recorded run, for templates.
    pub fn date(&self) -> Option<&Arc<str>> {
        self.shared.date.as_ref()
    }

    /// Returns the model that answered first, for workers that name none.
    pub fn first_model(&self) -> Option<ModelName> {
        self.shared.records.iter().find_map(|record| match &record.body {
            RecordKind::ConversationStarted { model, .. } => Some(model.clone()),
            _ => None,
        })
    }

    /// Returns the tools that a toolset listed for the worker of that call.
    pub fn listing(&self, call: &CallPath, toolset: &str) -> Option<Arc<Listing>> {
        self.shared.records.iter().find_map(|record| match &record.body {
            RecordKind::ToolsListed { toolset: listed, listing }
                if record.path == *call && **listed == *toolset =>
            {
                Some(Arc::clone(listing))
            }
            _ => None,
        })
    }

    /// Returns the first request that is not the recorded one.
    pub fn missed(&self) -> Option<Divergence> {
        self.shared.missed().clone()
    }
}

impl Recorded {
    fn missed(&self) -> MutexGuard<'_, Option<Divergence>> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, request: &ModelRequest<'_>) -> Result<ModelResponse, ModelError> {
        let path = request.conversation;
        let key = (path.clone(), request.purpose, request.turn);
        let miss = |step: StepName, what: Difference| {
            let divergence = Divergence { path: path.clone(), chain: self.chain(path), step, what };
            self.missed().get_or_insert(divergence);
            Err(ModelError::new(ModelErrorKind::BadRequest, "the request is not the recorded one"))
        };
        let Some(answer) = self.answers.get(&key) else {
            return miss(
                StepName::Model(Attempt { turn: request.turn, attempt: 0 }),
                Difference::Added { now: None },
            );
        };
        let begun = self.records.iter().rev().find(|record| {
            record.path == *path && matches!(record.body, RecordKind::ConversationStarted { .. })
        });
        if let Some(record) = begun {
            let recorded = with_schema_as_sent(&record.body);
            let mut now = recorded.clone();
            if let RecordKind::ConversationStarted {
                system, tools, server_tools, output, final_tool, ..
            } = &mut now
            {
                *system = Arc::clone(request.system);
                // A summary is asked for without tools, by instructions of the harness.
                if request.purpose == Purpose::Answer {
                    *tools = Arc::clone(request.tools);
                    *server_tools = Arc::clone(request.server_tools);
                    if !*final_tool {
                        *output = request.output.cloned();
                    }
                }
            }
            if request.purpose == Purpose::Answer && now != recorded {
                return miss(StepName::Conversation, Difference::Changed { recorded, now });
            }
        }
        if *Conversation::digest_of(request.messages) != *answer.digest {
            let recorded = messages_sent(&self.records, path, &answer.step).unwrap_or_default();
            let now = request.messages.to_vec();
            return miss(answer.step.clone(), Difference::Sent { recorded, now });
        }
        let (message, finish, usage) = answer.came.clone()?;
        Ok(ModelResponse { parts: message.parts.clone(), finish, usage, unknown_finish: None })
    }

    /// Returns the functions from the root down to a call.
    fn chain(&self, path: &CallPath) -> Vec<Arc<str>> {
        let function = |place: &CallPath| {
            self.records.iter().find_map(|record| match &record.body {
                RecordKind::CallStarted { function, .. } if record.path == *place => {
                    Some(Arc::clone(function))
                }
                _ => None,
            })
        };
        let mut chain: Vec<Arc<str>> = std::iter::successors(Some(path.clone()), CallPath::parent)
            .filter_map(|place| function(&place))
            .collect();
        chain.reverse();
        chain
    }
}

/// Returns the beginning of a conversation with the output's schema as the model was sent it, if it was. The record has
/// the whole schema, by which a resumed run checks the answer.
fn with_schema_as_sent(started: &RecordKind) -> RecordKind {
    let mut started = started.clone();
    if let RecordKind::ConversationStarted { output, final_tool: false, with_user, can, .. } = &mut started {
        let sent = can.native_schema && !*with_user;
        *output = output.as_ref().filter(|_| sent).map(without_own);
    }
    started
}

impl Models for RecordedModels {
    fn open(&self, _: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(self.clone()))
    }
}

impl Model for RecordedModels {
    fn capabilities(&self) -> Capabilities {
        capabilities(&self.shared.records)
    }

    /// Returns none: the recorded run had the tools.
    fn refused_server_tools(&self, _: &[ServerTool]) -> Vec<String> {
        Vec::new()
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        _: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move { self.shared.answer(&request) })
    }
}
