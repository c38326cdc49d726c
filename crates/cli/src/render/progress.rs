//! Calls as they come and go, on stderr, and the root worker's answer on stdout while it is made.
//!
//! On a terminal each call has one lasting line, which appears when the call has ended. Until then a live row shows it.
//! Elsewhere a worker has a line when it begins, too, since nothing shows it meanwhile.

use super::Output;
use crate::{paint::Paint, screen::Row, visible};
use llm_do_core::{
    call_path::CallPath,
    engine::{Failure, FailureKind},
    event::Event,
    journal::{Ending, Record, RecordKind},
    launch::unknown_finish_note,
    model::{Delta, Message, ModelName, Part, Purpose},
    question::{Answer, Question},
    server_tool::ServerUse,
    step_name::StepName,
};
use llm_do_records::{compacted, duration};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

/// Characters of a call's arguments that are shown.
const ARGUMENTS: usize = 60;
/// Calls under way that are shown.
const ROWS: usize = 6;
/// Characters of a failure that are shown.
const FAILURE: usize = 160;

/// Follows a run.
pub(super) struct Progress {
    output: Output,
    paint: Paint,
    verbose: bool,
    live: bool,
    streams: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The calls under way, by place.
    open: BTreeMap<CallPath, Open>,
    /// Leaves that have failed and may be tried again.
    failed: BTreeMap<CallPath, Open>,
    /// The model of the root worker.
    model: Option<ModelName>,
    /// What of the root's answer has been shown, by turn.
    streamed: Option<(u32, String)>,
    /// The root's answer has a schema: what is shown is its final form alone.
    typed: bool,
}

struct Open {
    function: Arc<str>,
    input: Arc<Value>,
    /// When it began to work, later by the time that it has waited for the operator.
    began_ms: u64,
    asked_ms: u64,
    worker: bool,
    /// Its model, if that is another than the root's.
    model: Option<ModelName>,
    /// Its activity or the thing that it waits for, and since when.
    doing: Option<String>,
    since: Instant,
}

impl Progress {
    pub(super) fn new(output: &Output) -> Self {
        Self {
            output: output.clone(),
            paint: output.err,
            verbose: output.verbose > 0,
            live: output.err_terminal,
            streams: output.streams_answer(),
            state: Mutex::default(),
        }
    }

    /// The text of the root's last turn that stands on the screen.
    pub(super) fn streamed(&self) -> Option<String> {
        self.lock().streamed.take().map(|(_, text)| text)
    }

    /// See [`super::Renderer::expects`]. A run that is resumed records the beginning of its conversation no more.
    pub(super) fn expects(&self, typed: bool) {
        self.lock().typed = typed;
    }

    pub(super) fn event(&self, event: &Event) {
        let mut state = self.lock();
        match event {
            Event::Record { record } => self.record(&mut state, record),
            Event::Delta { path, turn, delta: Delta::Text { text } }
                if self.streams && *path == CallPath::root() =>
            {
                self.answer(&mut state, *turn, text);
            }
            Event::Delta { .. } => {}
            Event::Discard { path, turn } => {
                let shown = state
                    .streamed
                    .take_if(|(shown, text)| *path == CallPath::root() && shown == turn && !text.is_empty());
                if shown.is_some() {
                    self.output.line(&format!(
                        "{}",
                        self.paint.dim("(the answer was cut off; the text above does not count)")
                    ));
                }
            }
        }
        if self.live {
            self.output.screen.live(state.rows());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, state: &mut State, turn: u32, text: &str) {
        if state.typed {
            return;
        }
        let streamed = state.streamed.get_or_insert_default();
        if streamed.0 != turn {
            *streamed = (turn, String::new());
        }
        // A model's leading blank lines would only push the answer down.
        let text = if streamed.1.is_empty() { text.trim_start() } else { text };
        streamed.1.push_str(text);
        self.output.screen.answer(&visible::prose(text));
    }

    fn record(&self, state: &mut State, record: &Record) {
        let path = &record.path;
        match &record.body {
            RecordKind::CallStarted { function, input, .. } => {
                let open = Open {
                    function: Arc::clone(function),
                    input: Arc::clone(input),
                    began_ms: record.at_ms,
                    asked_ms: 0,
                    worker: false,
                    model: None,
                    doing: None,
                    since: Instant::now(),
                };
                state.open.insert(path.clone(), open);
            }
            RecordKind::ConversationStarted { worker, model, output, .. } => {
                if *path == CallPath::root() {
                    state.typed = output.is_some();
                }
                let Some(open) = state.open.get_mut(path) else { return };
                open.worker = true;
                let root = *path == CallPath::root();
                let other_model = root || state.model.as_ref() != Some(model);
                let arguments = if root { String::new() } else { arguments(&open.input, self.verbose) };
                let mut line = format!("{} {}", self.paint.cyan("▸"), self.paint.bold(visible::line(worker)));
                if !arguments.is_empty() {
                    line.push_str(&format!(" {arguments}"));
                }
                if other_model {
                    line.push_str(&format!("  {}", self.paint.dim(visible::line(model.as_str()))));
                    open.model = Some(model.clone());
                }
                if root {
                    state.model = Some(model.clone());
                }
                if root || !self.live {
                    self.line(path, &line);
                }
            }
            RecordKind::ModelRequested { attempt, .. } => {
                let doing = if record.step.request() == Some(Purpose::Summary) {
                    "summarising older turns".to_owned()
                } else if *attempt == 0 {
                    "thinking".to_owned()
                } else {
                    format!("asking again ({})", attempt + 1)
                };
                state.doing(path, Some(doing));
            }
            RecordKind::ModelAnswered { message, usage, unoffered, unknown_finish, .. } => {
                state.doing(path, None);
                for (index, name) in unoffered.iter().enumerate() {
                    let name = visible::line(name);
                    let line = format!(
                        "{} {} {}",
                        self.paint.red("✗"),
                        visible::start(&name, ARGUMENTS),
                        self.paint.dim("was called, and was not offered")
                    );
                    self.line(&path.keyed(&format!("unoffered-{index}")), &line);
                }
                if let Some(word) = unknown_finish {
                    let note = unknown_finish_note(word);
                    self.output.line(&format!("{} {}", self.paint.dim("note:"), visible::text(&note)));
                }
                for (index, used) in server_uses(message).enumerate() {
                    let said = visible::line(&used.to_string()).into_owned();
                    let line = format!("· the provider ran {}", visible::start(&said, FAILURE));
                    self.line(&path.server_tool(index), &format!("{}", self.paint.dim(line)));
                }
                if self.verbose {
                    let tokens = match (usage.input_tokens, usage.output_tokens) {
                        (None, None) => return,
                        (input, output) => format!("{} in, {} out", known(input), known(output)),
                    };
                    self.line(
                        &path.keyed("answer"),
                        &format!("{}", self.paint.dim(format!("· answered: {tokens}"))),
                    );
                }
            }
            RecordKind::Compacted(compaction) => {
                let said = compacted(compaction);
                let line = format!("· {}", visible::start(&visible::line(&said), FAILURE));
                self.line(&path.keyed("compacted"), &format!("{}", self.paint.dim(line)));
            }
            RecordKind::ModelFailed { error } => {
                state.doing(path, Some("waiting to ask again".into()));
                let message = visible::line(&error.message);
                let line = format!("{} {}", self.paint.yellow("↻"), visible::start(&message, FAILURE));
                self.line(&path.keyed("failed"), &line);
            }
            RecordKind::Asked(question) => {
                if let Some(open) = state.open.get_mut(path) {
                    let waits_for = match question {
                        Question::Approval(_) => "waiting for an approval",
                        Question::Input(_) => "waiting for your input",
                        Question::Settlement(_) => "waiting for your decision",
                    };
                    open.does(Some(waits_for.into()));
                    open.asked_ms = record.at_ms;
                }
            }
            RecordKind::Answered(given) => {
                if let Some(open) = state.open.get_mut(path) {
                    open.does(None);
                    if let Answer::Edit { input } = &given.answer {
                        open.input = Arc::clone(input);
                    }
                    // Waiting for a person is no work.
                    open.began_ms += record.at_ms.saturating_sub(open.asked_ms);
                }
            }
            RecordKind::ToolStarted { .. } => {
                if let StepName::Tool(attempt @ 1..) = record.step
                    && let Some(open) = state.failed.remove(path)
                {
                    let doing = Some(format!("trying again ({})", attempt + 1));
                    state.open.insert(path.clone(), Open { doing, began_ms: record.at_ms, ..open });
                }
            }
            RecordKind::ToolEnded { ending, .. } | RecordKind::CallEnded { ending, .. } => {
                if let Some(open) = state.open.remove(path) {
                    self.ended(path, &open, ending, record.at_ms);
                    if record.step.is_tool() && matches!(ending, Ending::Failure(_)) {
                        state.failed.insert(path.clone(), open);
                    }
                }
            }
            RecordKind::TimedOut { .. } => {
                // Of a leaf it is the end; a worker's own ending follows.
                if record.step.is_tool()
                    && let Some(open) = state.open.remove(path)
                {
                    let line = format!(
                        "{} {} {}",
                        self.paint.red("✗"),
                        name(&open),
                        self.paint.dim("ran out of time")
                    );
                    self.line(path, &line);
                    state.failed.insert(path.clone(), open);
                }
            }
            RecordKind::Note { text } => {
                self.output.line(&format!("{} {}", self.paint.dim("note:"), visible::text(text)));
            }
            RecordKind::RunEnded { .. } => {
                state.open.clear();
                state.failed.clear();
            }
            _ => {}
        }
    }

    fn ended(&self, path: &CallPath, open: &Open, ending: &Ending, at_ms: u64) {
        // The root's end is told by the result and the summary.
        if *path == CallPath::root() {
            return;
        }
        let took = self.paint.dim(duration(at_ms.saturating_sub(open.began_ms)));
        let name = name(open);
        let arguments = arguments(&open.input, self.verbose && !open.worker);
        let mut what =
            if arguments.is_empty() { name } else { format!("{name} {}", self.paint.dim(arguments)) };
        if let (Some(model), true) = (&open.model, self.live) {
            what.push_str(&format!("  {}", self.paint.dim(visible::line(model.as_str()))));
        }
        let line = match ending {
            Ending::Output(_) => format!("{} {what}  {took}", self.paint.green("✓")),
            Ending::Suspended => {
                format!("{} {what}  {}", self.paint.yellow("…"), self.paint.dim("waits for an approval"))
            }
            Ending::Failure(failure) => format!("{} {what}  {}", self.paint.red("✗"), self.why(failure)),
        };
        self.line(path, &line);
    }

    fn why(&self, failure: &Failure) -> String {
        let message = visible::line(&failure.message);
        let message = visible::start(&message, FAILURE);
        match failure.kind {
            FailureKind::Blocked | FailureKind::Denied | FailureKind::Authority => {
                format!("{} {}", self.paint.yellow("refused:"), self.paint.dim(message))
            }
            _ => format!("{}", self.paint.dim(message)),
        }
    }

    fn line(&self, path: &CallPath, line: &str) {
        self.output.line(&format!("{}{line}", "  ".repeat(path.depth())));
    }
}

/// What the provider ran while it made this answer.
fn server_uses(message: &Message) -> impl Iterator<Item = &ServerUse> {
    message.parts.iter().filter_map(|part| match part {
        Part::ServerUse(used) => Some(used),
        _ => None,
    })
}

impl State {
    fn doing(&mut self, path: &CallPath, doing: Option<String>) {
        if let Some(open) = self.open.get_mut(path) {
            open.does(doing);
        }
    }

    /// The calls under way, in the order of the tree, and the number of those that find no place.
    fn rows(&self) -> Vec<Row> {
        // The root waits for its calls as long as there are any.
        let alone = self.open.len() == 1;
        let shown = |path: &CallPath, open: &Open| alone || path.depth() > 0 || open.doing.is_some();
        let calls: Vec<_> = self.open.iter().filter(|(path, open)| shown(path, open)).collect();
        let row = |(path, open): &(&CallPath, &Open)| {
            let mut text = visible::line(&open.function).into_owned();
            if let Some(doing) = &open.doing {
                text = format!("{text}: {doing}");
            }
            Row { indent: 2 * path.depth(), text, since: open.since }
        };
        let mut rows: Vec<Row> = calls.iter().take(ROWS).map(row).collect();
        if let Some(first) = calls.get(ROWS) {
            let text = format!("and {} more", calls.len() - ROWS);
            rows.push(Row { indent: 2 * first.0.depth(), text, since: first.1.since });
        }
        rows
    }
}

impl Open {
    fn does(&mut self, doing: Option<String>) {
        if self.doing != doing {
            self.doing = doing;
            self.since = Instant::now();
        }
    }
}

fn name(open: &Open) -> String {
    visible::line(&open.function).into_owned()
}

/// `path="notes.txt" offset=3`, cut to one line.
fn arguments(input: &Value, all: bool) -> String {
    let Some(map) = input.as_object() else { return String::new() };
    let pairs: Vec<String> = map.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let text = pairs.join(" ");
    let text = visible::line(&text);
    if all {
        visible::start(&text, 10 * ARGUMENTS).into_owned()
    } else {
        visible::start(&text, ARGUMENTS).into_owned()
    }
}

fn known(tokens: Option<u64>) -> String {
    tokens.map_or_else(|| "?".to_owned(), |tokens| tokens.to_string())
}
