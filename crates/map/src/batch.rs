//! Requests in batches: rows wait until their answers are among the results of a batch.
//!
//! `batches.jsonl` in the folder of the state has a line before a batch is submitted, a line with its name, and a line
//! when all its rows have ended. A command that finds a batch there waits for it instead of sending the requests again.

use crate::{
    board::Board,
    paced_model::{Paces, Waits},
};
use llm_do::models::{BatchModel, BatchOutcome, BatchState};
use llm_do_core::{
    call_path::CallPath,
    model::{
        Capabilities, DeltaSink, Model, ModelError, ModelErrorKind, ModelName, ModelRequest, ModelResponse,
        ModelSettings, Models, Terms,
    },
    price::Usd,
    send::BoxFuture,
    server_tool::ServerTool,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

/// The largest number of requests in a batch.
pub(crate) const MOST: usize = 2000;
/// The number of rows that run at the same time: those of two batches, so that one is filled while the provider works
/// on the other.
pub(crate) const ROWS: usize = 2 * MOST;
/// A batch that is not full is submitted when no request has come for this time.
const QUIET: Duration = Duration::from_millis(500);
/// The first and the longest time between two polls of a batch.
const FIRST_POLL: Duration = Duration::from_millis(500);
const LONGEST_POLL: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(100);

/// The batches of one model.
pub(crate) struct Batcher {
    model: BatchModel,
    state: Mutex<BatchQueue>,
    /// True while requests are sent in batches.
    on: AtomicBool,
    paces: Arc<Paces>,
    board: Board,
}

struct BatchQueue {
    ledger: Ledger,
    /// Requests for the next batch.
    pending: Vec<(String, Asking)>,
    last_added: Instant,
    /// Requests that are in a batch.
    waiting: HashMap<String, Asking>,
    /// The rows of batches that are not known to have ended.
    in_batch: HashSet<String>,
    /// Results that no row has asked for yet.
    arrived: HashMap<String, BatchOutcome>,
    batches: Vec<SubmittedBatch>,
    /// Batches that may have been submitted: the process was killed before it received their names.
    unconfirmed: Vec<(String, Vec<String>)>,
    /// No batch is submitted before this time, after a failed submission.
    not_before: Instant,
    failures: u32,
    /// The number of batches in a row that the provider accepted and then did not work on.
    returned: u32,
}

/// A row that waits for its answer.
struct Asking {
    body: Value,
    answer: oneshot::Sender<BatchOutcome>,
}

/// A submitted batch.
struct SubmittedBatch {
    name: String,
    /// Rows of the batch that have not ended.
    left: HashSet<String>,
    collected: bool,
    ended: u64,
    next_poll: Instant,
    pause: Duration,
}

/// A line of `batches.jsonl`.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    /// The rows are about to be submitted.
    Submitting { token: String, rows: Vec<String> },
    /// The batch was submitted.
    Submitted { token: String, batch: String },
    /// No batch with that token exists.
    Lost { token: String },
    /// All rows of the batch have ended.
    Done { batch: String },
}

/// A batch as recorded in `batches.jsonl`.
struct RecordedBatch {
    token: String,
    batch: Option<String>,
    rows: HashSet<String>,
}

struct Ledger {
    file: File,
    lines: u64,
}

impl Ledger {
    fn add(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.lines += 1;
        self.file.write_all(&text)
    }
}

impl Batcher {
    /// Opens the file at `path` and continues with the batches of earlier commands. `ended` says which rows have an
    /// end.
    pub(crate) fn open(
        model: BatchModel,
        path: &Path,
        ended: impl Fn(&str) -> io::Result<bool>,
        paces: Arc<Paces>,
        board: Board,
    ) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path)?;
        let mut known: Vec<RecordedBatch> = Vec::new();
        let (mut bytes, mut lines) = (0, 0);
        let mut reader = BufReader::new(file.try_clone()?);
        let mut text = Vec::new();
        loop {
            text.clear();
            let read = reader.read_until(b'\n', &mut text)?;
            if text.last() != Some(&b'\n') {
                break;
            }
            (bytes, lines) = (bytes + read as u64, lines + 1);
            let line = serde_json::from_slice(&text).map_err(|error| {
                let what = format!("line {lines} was not written by a map: {error}");
                io::Error::new(io::ErrorKind::InvalidData, what)
            })?;
            match line {
                Line::Submitting { token, rows } => {
                    // A row is in the newest batch that has it: the earlier ones did not answer it.
                    let rows: HashSet<String> = rows.into_iter().collect();
                    known.iter_mut().for_each(|earlier| earlier.rows.retain(|row| !rows.contains(row)));
                    known.push(RecordedBatch { token, batch: None, rows });
                }
                Line::Submitted { token, batch } => {
                    if let Some(known) = known.iter_mut().find(|known| known.token == token) {
                        known.batch = Some(batch);
                    }
                }
                Line::Lost { token } => known.retain(|known| known.token != token),
                Line::Done { batch } => known.retain(|known| known.batch.as_ref() != Some(&batch)),
            }
        }
        file.set_len(bytes)?;
        let now = Instant::now();
        let mut state = BatchQueue {
            ledger: Ledger { file, lines },
            pending: Vec::new(),
            last_added: now,
            waiting: HashMap::new(),
            in_batch: HashSet::new(),
            arrived: HashMap::new(),
            batches: Vec::new(),
            unconfirmed: Vec::new(),
            not_before: now,
            failures: 0,
            returned: 0,
        };
        for RecordedBatch { token, batch, rows } in known {
            let mut left = Vec::new();
            for row in rows {
                if !ended(&row)? {
                    left.push(row);
                }
            }
            state.in_batch.extend(left.iter().cloned());
            match batch {
                _ if left.is_empty() => {}
                Some(name) => state.batches.push(SubmittedBatch::new(name, left)),
                None => state.unconfirmed.push((token, left)),
            }
        }
        Ok(Self { model, state: Mutex::new(state), on: AtomicBool::new(false), paces, board })
    }

    /// Turns batches on or off: from now on, requests are sent in batches or directly.
    pub(crate) fn turn(&self, on: bool) {
        self.on.store(on, Ordering::Release);
    }

    fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    /// Notes that a row has ended.
    pub(crate) fn ended(&self, row: &str) -> io::Result<()> {
        let mut state = self.lock();
        let BatchQueue { batches, ledger, in_batch, .. } = &mut *state;
        in_batch.remove(row);
        for batch in batches.iter_mut() {
            if batch.left.remove(row) && batch.left.is_empty() {
                ledger.add(&Line::Done { batch: batch.name.clone() })?;
            }
        }
        batches.retain(|batch| !batch.left.is_empty());
        Ok(())
    }

    /// Submits batches and collects their results, until the future is dropped.
    pub(crate) async fn work(&self) -> Result<(), io::Error> {
        loop {
            self.confirm().await?;
            self.submit().await?;
            self.poll().await?;
            self.show();
            sleep(TICK).await;
        }
    }

    /// Finds out the state of batches whose names are not known.
    async fn confirm(&self) -> io::Result<()> {
        let (token, rows) = {
            let state = self.lock();
            match state.unconfirmed.first() {
                Some(first) if state.not_before <= Instant::now() => first.clone(),
                _ => return Ok(()),
            }
        };
        match self.model.find(&token).await {
            Ok(Some(batch)) => {
                let mut state = self.lock();
                state.ledger.add(&Line::Submitted { token, batch: batch.clone() })?;
                state.unconfirmed.remove(0);
                state.batches.push(SubmittedBatch::new(batch, rows));
            }
            Ok(None) => {
                let mut state = self.lock();
                state.ledger.add(&Line::Lost { token })?;
                state.unconfirmed.remove(0);
                state.take_back(rows);
            }
            Err(error) => {
                let mut state = self.lock();
                state.failures += 1;
                state.pause(&error);
                drop(state);
                self.failed(&error);
            }
        }
        Ok(())
    }

    /// Submits a batch, if it is full or no more requests come.
    async fn submit(&self) -> io::Result<()> {
        let (token, requests) = {
            let mut state = self.lock();
            let now = Instant::now();
            let due = state.pending.len() >= MOST || now - state.last_added > QUIET;
            if state.pending.is_empty() || !due || state.not_before > now {
                return Ok(());
            }
            let count = state.pending.len().min(MOST);
            let requests: Vec<(String, Value)> = state.pending[..count]
                .iter()
                .map(|(row, asking)| (row.clone(), asking.body.clone()))
                .collect();
            let rows: Vec<String> = requests.iter().map(|(row, _)| row.clone()).collect();
            let token = format!("{}-{}", rows.first().map_or("", String::as_str), state.ledger.lines);
            state.ledger.add(&Line::Submitting { token: token.clone(), rows })?;
            (token, requests)
        };
        let submitted = self.model.submit(&token, &requests).await;
        let mut state = self.lock();
        match submitted {
            Ok(batch) => {
                state.failures = 0;
                state.ledger.add(&Line::Submitted { token, batch: batch.clone() })?;
                let rows = state.hand_over(requests.len());
                state.batches.push(SubmittedBatch::new(batch, rows));
            }
            Err(error) => {
                // Without an answer it may have been taken.
                if matches!(error.kind, ModelErrorKind::Timeout | ModelErrorKind::Network) {
                    let rows = state.hand_over(requests.len());
                    state.unconfirmed.push((token, rows));
                } else {
                    state.ledger.add(&Line::Lost { token })?;
                    if !error.is_transient() && !is_fatal(&error) {
                        for (_, asking) in state.pending.drain(..requests.len()) {
                            // A row that was cancelled waits no more.
                            let _ = asking.answer.send(BatchOutcome::Failed(error.clone()));
                        }
                    }
                }
                state.failures += 1;
                state.pause(&error);
                drop(state);
                self.failed(&error);
            }
        }
        Ok(())
    }

    /// Queues the requests of a batch again, after a pause: the provider accepted the batch and then had no room for
    /// it.
    fn again(&self, name: &str, error: &ModelError) -> io::Result<()> {
        let mut state = self.lock();
        state.ledger.add(&Line::Done { batch: name.to_owned() })?;
        if let Some(at) = state.batches.iter().position(|batch| batch.name == name) {
            let rows = state.batches.remove(at).left;
            state.take_back(rows);
        }
        state.returned += 1;
        state.pause(error);
        drop(state);
        self.failed(error);
        Ok(())
    }

    /// Polls batches, and collects the results of those that have ended.
    async fn poll(&self) -> io::Result<()> {
        let now = Instant::now();
        let due: Vec<String> = {
            let state = self.lock();
            let due = state.batches.iter().filter(|batch| !batch.collected && batch.next_poll <= now);
            due.map(|batch| batch.name.clone()).collect()
        };
        for name in due {
            let collected = match self.model.state(&name).await {
                Ok(BatchState::Running { ended }) => Ok(Err(ended)),
                Ok(BatchState::Ended) => self.model.results(&name).await.map(Ok),
                Ok(BatchState::Failed(error)) if error.is_transient() => {
                    self.again(&name, &error)?;
                    continue;
                }
                Ok(BatchState::Failed(error)) => Ok(Ok(self.all_failed(&name, &error))),
                Err(error) if error.is_transient() || is_fatal(&error) => Err(error),
                // The provider has no such batch any more.
                Err(error) => Ok(Ok(self.all_failed(&name, &error))),
            };
            match collected {
                Ok(Ok(outcomes)) => self.deliver(&name, outcomes),
                Ok(Err(ended)) => self.with(&name, |batch| {
                    batch.ended = ended;
                    batch.wait();
                }),
                Err(error) => {
                    self.with(&name, SubmittedBatch::wait);
                    self.failed(&error);
                }
            }
        }
        Ok(())
    }

    fn all_failed(&self, name: &str, error: &ModelError) -> BTreeMap<String, BatchOutcome> {
        let state = self.lock();
        let rows = state.batches.iter().filter(|batch| batch.name == name).flat_map(|batch| &batch.left);
        rows.map(|row| (row.clone(), BatchOutcome::Failed(error.clone()))).collect()
    }

    /// Gives each row of a batch its result. The provider did not work on a row without a result.
    fn deliver(&self, name: &str, mut outcomes: BTreeMap<String, BatchOutcome>) {
        let mut state = self.lock();
        state.returned = 0;
        let BatchQueue { batches, waiting, arrived, .. } = &mut *state;
        for batch in batches.iter_mut().filter(|batch| batch.name == name) {
            batch.collected = true;
            for row in &batch.left {
                let outcome = outcomes.remove(row).unwrap_or(BatchOutcome::Expired);
                match waiting.remove(row) {
                    // A row that was cancelled waits no more; its result is asked for again.
                    Some(asking) => _ = asking.answer.send(outcome),
                    None => _ = arrived.insert(row.clone(), outcome),
                }
            }
        }
    }

    fn with(&self, name: &str, change: impl FnOnce(&mut SubmittedBatch)) {
        if let Some(batch) = self.lock().batches.iter_mut().find(|batch| batch.name == name) {
            change(batch);
        }
    }

    fn failed(&self, error: &ModelError) {
        if is_fatal(error) {
            self.paces.refuse(error.message.clone());
        }
        self.board.change(|counts| counts.batches = Some(error.message.clone()));
    }

    fn show(&self) {
        let state = self.lock();
        let open: Vec<&SubmittedBatch> = state.batches.iter().filter(|batch| !batch.collected).collect();
        if open.is_empty() || state.failures > 0 {
            return;
        }
        let (ended, all) =
            open.iter().fold((0, 0), |(ended, all), batch| (ended + batch.ended, all + batch.left.len()));
        let (count, s) = (open.len(), if open.len() == 1 { "" } else { "es" });
        let text = format!("{count} batch{s} with {ended} of {all} requests ended");
        self.board.change(|counts| counts.batches = Some(text));
    }

    /// Returns the answer to a request of a row, from the batch that contains it or from the next one.
    async fn ask(&self, request: &ModelRequest<'_>) -> Result<ModelResponse, ModelError> {
        if request.turn > 0 {
            let what =
                "its first answer did not fit, and in a batch a row is asked once: run it without --batch";
            return Err(ModelError::new(ModelErrorKind::BadRequest, what));
        }
        let body = self.model.body(request)?;
        let (sender, receiver) = oneshot::channel();
        let arrived = {
            let mut state = self.lock();
            let arrived = state.arrived.remove(request.run);
            if arrived.is_none() {
                let asking = Asking { body, answer: sender };
                let row = request.run.to_owned();
                if state.in_batch.contains(&row) {
                    state.waiting.insert(row, asking);
                } else {
                    state.pending.push((row, asking));
                    state.last_added = Instant::now();
                }
            }
            arrived
        };
        let outcome = match arrived {
            Some(outcome) => outcome,
            None => {
                let _waits = Waits::new(&self.paces, request.run);
                let stopped = || ModelError::new(ModelErrorKind::Network, "the batch was given up");
                receiver.await.map_err(|_| stopped())?
            }
        };
        // A further attempt is in another batch.
        self.lock().in_batch.remove(request.run);
        match outcome {
            BatchOutcome::Answered(body) => self.model.answer(request, body),
            BatchOutcome::Failed(error) => Err(error),
            BatchOutcome::Expired => {
                let what = "the batch was over before the request was worked on";
                Err(ModelError::new(ModelErrorKind::Timeout, what))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BatchQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BatchQueue {
    /// Moves the first requests from the next batch into a submitted one, and returns their rows.
    fn hand_over(&mut self, count: usize) -> Vec<String> {
        let handed: Vec<(String, Asking)> = self.pending.drain(..count).collect();
        let rows: Vec<String> = handed.iter().map(|(row, _)| row.clone()).collect();
        self.waiting.extend(handed);
        self.in_batch.extend(rows.iter().cloned());
        rows
    }

    /// Takes rows out of their batch: those that wait for an answer go into the next one.
    fn take_back(&mut self, rows: impl IntoIterator<Item = String>) {
        for row in rows {
            self.in_batch.remove(&row);
            if let Some(asking) = self.waiting.remove(&row) {
                self.pending.push((row, asking));
            }
        }
    }

    /// Submits nothing for a while, longer with each failure in a row.
    fn pause(&mut self, error: &ModelError) {
        let failures = self.failures.max(self.returned).min(10);
        let pause = FIRST_POLL.saturating_mul(1 << failures).min(LONGEST_POLL);
        self.not_before = Instant::now() + error.retry_after().unwrap_or(pause);
    }
}

impl SubmittedBatch {
    fn new(name: String, left: Vec<String>) -> Self {
        let left = left.into_iter().collect();
        Self {
            name,
            left,
            collected: false,
            ended: 0,
            next_poll: Instant::now() + FIRST_POLL,
            pause: FIRST_POLL,
        }
    }

    /// Schedules the next poll, each time after a longer pause.
    fn wait(&mut self) {
        self.next_poll = Instant::now() + self.pause;
        self.pause = self.pause.mul_f64(1.4).min(LONGEST_POLL);
    }
}

/// Returns true if the error means that no batch can be submitted or read.
fn is_fatal(error: &ModelError) -> bool {
    matches!(error.kind, ModelErrorKind::Auth)
}

/// Models whose requests go into batches while batches are turned on.
pub(crate) struct Batched {
    pub(crate) inner: Arc<dyn Models>,
    pub(crate) batcher: Arc<Batcher>,
}

impl Models for Batched {
    fn open(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        let inner = self.inner.open(name)?;
        Ok(Arc::new(BatchedModel { inner, batcher: Arc::clone(&self.batcher) }))
    }

    /// Returns the terms of a model at half the price, as in a batch.
    fn terms(&self, name: &ModelName) -> Terms {
        let terms = self.inner.terms(name);
        match self.batcher.is_on() {
            true => Terms { price: terms.price.map(|price| price.map_tokens(Usd::half)), ..terms },
            false => terms,
        }
    }
}

struct BatchedModel {
    inner: Arc<dyn Model>,
    batcher: Arc<Batcher>,
}

impl Model for BatchedModel {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn refused_settings(&self, settings: &ModelSettings) -> Vec<String> {
        self.inner.refused_settings(settings)
    }

    fn refused_server_tools(&self, tools: &[ServerTool]) -> Vec<String> {
        self.inner.refused_server_tools(tools)
    }

    fn context(&self) -> Option<u64> {
        self.inner.context()
    }

    fn default_output(&self) -> Option<u32> {
        self.inner.default_output()
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        deltas: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        match self.batcher.is_on() {
            true => Box::pin(async move { self.batcher.ask(&request).await }),
            false => self.inner.respond(request, deltas),
        }
    }

    fn answered_before(&self, request: ModelRequest<'_>) {
        self.inner.answered_before(request);
    }

    fn continues(&self, request: ModelRequest<'_>) -> bool {
        self.batcher.is_on() && {
            let state = self.batcher.lock();
            state.in_batch.contains(request.run) || state.arrived.contains_key(request.run)
        }
    }

    fn forget(&self, run: &str, conversation: &CallPath) {
        self.inner.forget(run, conversation);
    }
}
