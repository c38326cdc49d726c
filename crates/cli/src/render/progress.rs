//! Calls while they run, on stderr, and the root worker's answer on stdout while it is made.
//!
//! On a terminal each call has one lasting line, which appears when the call has ended. Until then a live row shows it.
//! In other output a worker also has a line when it begins, because there are no live rows.

use super::Output;
use crate::{paint::Paint, screen::Row, visible};
use llm_do_core::{
    call_path::CallPath,
    engine::{Failure, FailureKind},
    event::Event,
    journal::{Ending, Record, RecordKind},
    launch::unknown_finish_note,
    model::{Delta, Message, Part, Purpose},
    server_tool::ServerUse,
};
use llm_do_records::{Activity, CallState, CallView, RunView, WaitsFor, compacted, duration};
use serde_json::Value;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The most characters of a call's arguments that are shown.
const ARGUMENTS: usize = 60;
/// The most current calls that are shown.
const ROWS: usize = 6;
/// The most characters of a failure that are shown.
const FAILURE: usize = 160;

/// The display of a run's progress.
pub(super) struct Progress {
    output: Output,
    paint: Paint,
    verbose: bool,
    live: bool,
    streams: bool,
    state: Mutex<RunProgress>,
}

struct RunProgress {
    view: RunView,
    /// The time at which the first record came, and the record's time in milliseconds since 1970.
    first: Option<(Instant, u64)>,
    /// The shown part of the root's answer, with its turn.
    streamed: Option<(u32, String)>,
    /// True if the root's answer has a schema: only its final form is shown.
    typed: bool,
}

impl Progress {
    pub(super) fn new(output: &Output) -> Self {
        Self {
            output: output.clone(),
            paint: output.err,
            verbose: output.verbose > 0,
            live: output.err_terminal,
            streams: output.streams_answer(),
            state: Mutex::new(RunProgress {
                view: RunView::of_calls_under_way(),
                first: None,
                streamed: None,
                typed: false,
            }),
        }
    }

    /// Returns the text of the root's last turn that is on the screen.
    pub(super) fn streamed(&self) -> Option<String> {
        self.lock().streamed.take().map(|(_, text)| text)
    }

    /// Sets if the output is typed, as [`super::Renderer::expects`] does. A resumed run does not record the beginning
    /// of its conversation again.
    pub(super) fn expects(&self, typed: bool) {
        self.lock().typed = typed;
    }

    pub(super) fn event(&self, event: &Event) {
        let mut state = self.lock();
        match event {
            Event::Record { record } => {
                state.first.get_or_insert_with(|| (Instant::now(), record.at_ms));
                state.view.fold((&**record).into());
                self.record(&mut state, record);
            }
            Event::Delta { path, turn, delta: Delta::Text { text } }
                if self.streams && *path == CallPath::root() =>
            {
                self.answer(&mut state, *turn, text);
            }
            Event::Delta { .. } | Event::Partial { .. } | Event::DiscardPartial { .. } => {}
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

    fn lock(&self) -> MutexGuard<'_, RunProgress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, state: &mut RunProgress, turn: u32, text: &str) {
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

    fn record(&self, state: &mut RunProgress, record: &Record) {
        let path = &record.path;
        match &record.body {
            RecordKind::ConversationStarted { worker, model, output, .. } => {
                let root = *path == CallPath::root();
                if root {
                    state.typed = output.is_some();
                }
                let Some(call) = state.view.call(path) else { return };
                let arguments = if root { String::new() } else { arguments(&call.input, self.verbose) };
                let mut line = format!("{} {}", self.paint.cyan("▸"), self.paint.bold(visible::line(worker)));
                if !arguments.is_empty() {
                    line.push_str(&format!(" {arguments}"));
                }
                if root || state.is_of_other_model(call) {
                    line.push_str(&format!("  {}", self.paint.dim(visible::line(model.as_str()))));
                }
                if root || !self.live {
                    self.line(path, &line);
                }
            }
            RecordKind::ModelAnswered { message, usage, unoffered, unknown_finish, .. } => {
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
            RecordKind::ModelFailed { error, .. } => {
                let message = visible::line(&error.message);
                let line = format!("{} {}", self.paint.yellow("↻"), visible::start(&message, FAILURE));
                self.line(&path.keyed("failed"), &line);
            }
            RecordKind::ModelChosen { model, .. } => {
                let line = format!(
                    "{} {} answers from here on",
                    self.paint.yellow("→"),
                    visible::line(model.as_str())
                );
                self.line(&path.keyed("model"), &line);
            }
            RecordKind::ToolEnded { ending, .. } | RecordKind::CallEnded { ending, .. } => {
                if let Some(call) = state.view.call(path) {
                    self.ended(state, call, ending, record.at_ms);
                }
            }
            RecordKind::TimedOut { .. } => {
                // Of a leaf it is the end; a worker's own ending follows.
                if record.step.is_tool()
                    && let Some(call) = state.view.call(path)
                {
                    let line = format!(
                        "{} {} {}",
                        self.paint.red("✗"),
                        visible::line(&call.function),
                        self.paint.dim("ran out of time")
                    );
                    self.line(path, &line);
                }
            }
            RecordKind::Note { text } => {
                self.output.line(&format!("{} {}", self.paint.dim("note:"), visible::text(text)));
            }
            _ => {}
        }
    }

    fn ended(&self, state: &RunProgress, call: &CallView, ending: &Ending, at_ms: u64) {
        // The root's end is told by the result and the summary.
        if call.path == CallPath::root() {
            return;
        }
        let took = self.paint.dim(duration(call.took_ms(at_ms)));
        let name = visible::line(&call.function);
        let arguments = arguments(&call.input, self.verbose && call.worker.is_none());
        let mut what = match arguments.is_empty() {
            true => name.into_owned(),
            false => format!("{name} {}", self.paint.dim(arguments)),
        };
        if let (Some(model), true) = (&call.model, self.live && state.is_of_other_model(call)) {
            what.push_str(&format!("  {}", self.paint.dim(visible::line(model.as_str()))));
        }
        let line = match ending {
            Ending::Output(_) => format!("{} {what}  {took}", self.paint.green("✓")),
            Ending::Suspended => {
                format!("{} {what}  {}", self.paint.yellow("…"), self.paint.dim("waits for an approval"))
            }
            Ending::Failure(failure) => format!("{} {what}  {}", self.paint.red("✗"), self.why(failure)),
        };
        self.line(&call.path, &line);
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

/// Returns the uses of server-side tools in an answer.
fn server_uses(message: &Message) -> impl Iterator<Item = &ServerUse> {
    message.parts.iter().filter_map(|part| match part {
        Part::ServerUse(used) => Some(used),
        _ => None,
    })
}

impl RunProgress {
    /// Returns true if the call's model differs from the one of the root worker.
    fn is_of_other_model(&self, call: &CallView) -> bool {
        let root = self.view.call(&CallPath::root()).and_then(|root| root.model.as_ref());
        root != call.model.as_ref()
    }

    /// Returns the instant of a record's time.
    fn at(&self, ms: u64) -> Instant {
        let Some((first, first_ms)) = self.first else { return Instant::now() };
        first + Duration::from_millis(ms.saturating_sub(first_ms))
    }

    /// Returns rows for the current calls, in the order of the tree, and the number of those without a row.
    fn rows(&self) -> Vec<Row> {
        if self.view.end_of_run().is_some() {
            return Vec::new();
        }
        let open: Vec<&CallView> =
            self.view.under_way().filter(|call| call.state == CallState::Open).collect();
        // The root waits for its calls as long as there are any.
        let alone = open.len() == 1;
        let shown = |call: &&CallView| alone || call.path.depth() > 0 || doing(call.activity).is_some();
        let calls: Vec<&CallView> = open.into_iter().filter(shown).collect();
        let row = |call: &&CallView| {
            let mut text = visible::line(&call.function).into_owned();
            if let Some(doing) = doing(call.activity) {
                text = format!("{text}: {doing}");
            }
            Row { indent: 2 * call.path.depth(), text, since: self.at(call.since_ms) }
        };
        let mut rows: Vec<Row> = calls.iter().take(ROWS).map(row).collect();
        if let Some(first) = calls.get(ROWS) {
            let text = format!("and {} more", calls.len() - ROWS);
            rows.push(Row { indent: 2 * first.path.depth(), text, since: self.at(first.since_ms) });
        }
        rows
    }
}

/// Describes the activity of a call, if it has one of its own.
fn doing(activity: Activity) -> Option<String> {
    Some(match activity {
        Activity::Working => return None,
        Activity::Asking { purpose: Purpose::Summary, .. } => "summarising older turns".to_owned(),
        Activity::Asking { attempt: 0, .. } => "thinking".to_owned(),
        Activity::Asking { attempt, .. } => format!("asking again ({})", attempt + 1),
        Activity::Pausing => "waiting to ask again".to_owned(),
        Activity::Waiting(WaitsFor::Approval) => "waiting for an approval".to_owned(),
        Activity::Waiting(WaitsFor::Message | WaitsFor::Answer) => "waiting for your input".to_owned(),
        Activity::Waiting(WaitsFor::Settlement) => "waiting for your decision".to_owned(),
        Activity::Repeating { attempt } => format!("trying again ({})", attempt + 1),
    })
}

/// Formats arguments as `path="notes.txt" offset=3`, cut to one line.
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
