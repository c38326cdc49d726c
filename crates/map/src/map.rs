//! The map itself: chooses the rows that run, and decides when to stop.

use crate::{
    batch::{self, Batched, Batcher},
    board::{Board, Waiting},
    columns::{Columns, Matched},
    estimate::{Estimate, Measured},
    input::{Rows, Source},
    kept::{self, Progress},
    key::RowId,
    options::{MapOptions, Stopped, Summary, Survey},
    order::{Order, Ordered},
    paced_model::{Paced, Paces},
    problem::Problem,
    publish::Publisher,
    results::{ASKS, Done, Failed, INTERRUPTED, INVALID_INPUT, RowEnd},
    row::Row,
    state::{MapFolder, Places, foreign},
    stop::Stop,
    survey::{identify, survey},
};
use futures_util::{StreamExt as _, future::LocalBoxFuture, stream::FuturesUnordered};
use llm_do::{
    Report, ResumeError, RunLog, Session, file_places,
    models::BatchModel,
    runs::{Canceller, SealedLog},
};
use llm_do_core::{
    authority::Place,
    engine::{End, FailureKind, Halt},
    gate::DecidedBy,
    journal::RecordKind,
    model::{ModelName, Usage},
    origin::UntrustedPlaces,
    price::Usd,
    question::Question,
    worker::WorkerMode,
};
use serde_json::Value;
use std::{
    collections::HashMap,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

/// The number of rows that are read before the loop handles other events.
const PIECE: usize = 256;
/// The largest number of tokens of an answer, and of bytes of a token, if neither is known.
const MAX_TOKENS: u32 = 4096;
const BYTES_PER_TOKEN: u64 = 3;
/// The interval at which the board is updated while no event happens.
const TICK: Duration = Duration::from_millis(250);
/// The shortest time between two writes of the progress.
const TELL: Duration = Duration::from_millis(500);

/// A worker that runs over many inputs.
pub struct Map {
    session: Session,
    options: MapOptions,
    source: Source,
    columns: Columns,
    state: MapFolder,
    order: Order,
    rows: Option<Rows>,
    /// The number of the next row, from 0.
    next: u64,
    publisher: Publisher,
    paces: Arc<Paces>,
    batcher: Option<Arc<Batcher>>,
    untrusted: Arc<dyn UntrustedPlaces>,
    /// The files of this map that the list of untrusted places contains.
    listed: Vec<Written>,
    board: Board,
    stop: Stop,
    measured: Measured,
    /// The estimated cost of a row before any row was measured, in dollars.
    guess: f64,
    /// True if rows cost something.
    costs: bool,
    /// True if the cost of a row is not known.
    unknown_cost: bool,
    survey: Survey,
    /// The number of rows that this command has begun.
    begun: u64,
    cancellers: HashMap<RowId, Canceller>,
    /// The time when the progress was last written.
    told: Option<Instant>,
    /// Shows others that this command is at work.
    _listed: Option<SealedLog>,
}

/// A file that a map writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    State,
    Outputs,
    Failures,
}

/// A row's run that has ended.
struct Ended {
    row: u64,
    id: RowId,
    input: Value,
    report: Report,
}

type Running = FuturesUnordered<LocalBoxFuture<'static, Ended>>;

impl Map {
    /// Reads the input once, compares it with the state of earlier commands, and begins the output.
    ///
    /// # Errors
    /// The input can't be read or doesn't fit the worker, or the place of the output is occupied.
    pub fn open(session: Session, options: MapOptions, board: Board, stop: Stop) -> Result<Self, Problem> {
        let places = Places::checked(&options.outputs)?;
        let source = Source::at(&options.inputs, places.own_files())?;
        let bindings = &session.program().manifest().bindings;
        let bound = bindings.iter().map(|(name, node)| (name.to_owned(), node.to_json())).collect();
        let first = source.rows(false)?;
        let columns = Columns::new(
            Arc::clone(session.entry()),
            (&options.renamed, &options.ignored, &options.constants),
            bound,
            source.form,
            first.columns(),
        )?;
        let columns = columns.trusted(options.trusted);
        let others = match options.trusted {
            true => Some(session.others().map_err(Problem::Prompt)?),
            false => None,
        };
        if others.as_ref().is_some_and(|others| others.wrote(&options.inputs)) {
            return Err(Problem::OfOthers(options.inputs));
        }
        let untrusted = session.untrusted_places().map_err(Problem::Prompt)?;
        let names = session.model_names();
        let batches = if options.batch { Some(batch_model(&session, &names)?) } else { None };
        let state = MapFolder::open(&session, places, &options.inputs, options.retry_failed)?;
        let (order, survey) =
            survey(&source, &columns, &state, others.as_ref()).inspect_err(|_| state.give_up())?;
        let publisher =
            Publisher::new(&state.places, options.unordered).map_err(|error| state.failed(error))?;
        let paces = Arc::new(Paces::new(options.concurrency, &names));
        let over = Arc::clone(&paces);
        let mut session = session.over_models(|inner| Arc::new(Paced { inner, paces: over }));
        let batcher = match batches {
            None => None,
            Some(model) => {
                let path = state.places.file("batches.jsonl");
                let ended = |row: &str| match RowId::parse(row.as_bytes()) {
                    Some(id) => Ok(state.results.find(id)?.is_some()),
                    None => Ok(true),
                };
                let batcher = Batcher::open(model, &path, ended, Arc::clone(&paces), board.clone());
                let batcher = Arc::new(batcher.map_err(Problem::state(&path))?);
                let over = Arc::clone(&batcher);
                session = session.over_models(|inner| Arc::new(Batched { inner, batcher: over }));
                Some(batcher)
            }
        };
        let costs = names.iter().any(|name| !name.is_free() || session.terms(name).price.is_some());
        let priced = names.iter().all(|name| session.terms(name).price.is_some());
        board.change(|counts| {
            (counts.rows, counts.done, counts.failed) = (survey.rows, survey.done, survey.failed);
            (counts.before, counts.done_before) = (survey.done + survey.failed, survey.done);
            counts.priced = priced;
        });
        let mut this = Self {
            session,
            options,
            source,
            columns,
            state,
            order,
            rows: None,
            next: 0,
            publisher,
            paces,
            batcher,
            untrusted,
            listed: Vec::new(),
            board,
            stop,
            measured: Measured::default(),
            guess: 0.0,
            costs,
            unknown_cost: false,
            survey,
            begun: 0,
            cancellers: HashMap::new(),
            told: None,
            _listed: None,
        };
        let begun = this.publisher.begin(&this.order, &this.state.results);
        begun
            .and_then(|()| this.publisher.advance(&this.order, &this.state.results))
            .map_err(|e| this.state.failed(e))?;
        Ok(this)
    }

    /// Returns the survey of the input: the rows, and the number of those that have ended.
    pub fn survey(&self) -> &Survey {
        &self.survey
    }

    /// Estimates the tokens and the cost of the remaining rows, based on those that this command has run.
    pub fn estimate(&self) -> Option<Estimate> {
        let counts = self.board.counts();
        let estimate = self.measured.of_rows(counts.rows.saturating_sub(counts.ended()));
        // The rows that were measured were asked directly.
        if self.options.batch { estimate.map(Estimate::at_half_price) } else { estimate }
    }

    /// Renders the first request of the first row that is missing, without sending it.
    ///
    /// # Errors
    /// The request can't be rendered: then no row's request could. Or rows may need more than one request, although
    /// batches are requested.
    pub async fn render(&mut self) -> Result<(), Problem> {
        let rendered = self.render_first().await;
        rendered.inspect_err(|_| self.state.give_up())
    }

    async fn render_first(&mut self) -> Result<(), Problem> {
        if self.session.entry().code.is_some() || self.survey.missing() == 0 {
            return Ok(());
        }
        let mut rows = self.source.rows(self.columns.wants_text())?;
        let mut number = 0;
        while let Some(row) = rows.next()? {
            let id = self.order.get(number).map_err(|error| self.state.failed(error))?.id;
            number += 1;
            if self.state.results.find(id).map_err(|error| self.state.failed(error))?.is_some() {
                continue;
            }
            let Ok(content) = row.content else { continue };
            let Ok(matched) = self.columns.input(content) else { continue };
            let first = match self.session.preview(&matched.input).await {
                // It fails alone.
                Err(llm_do::Problem::Input(_)) => continue,
                first => first.map_err(Problem::Prompt)?,
            };
            self.guess = self.guessed(&first);
            return if self.options.batch { asks_once(&first) } else { Ok(()) };
        }
        Ok(())
    }

    /// Estimates the highest cost of a row that makes one request, in dollars. Returns zero if the price is not known.
    fn guessed(&self, first: &RecordKind) -> f64 {
        let RecordKind::ConversationStarted { system, tools, message, .. } = first else { return 0.0 };
        let Some(name) = self.session.model_name() else { return 0.0 };
        let terms = self.session.terms(&name);
        let tools = serde_json::to_string(tools).map_or(0, |text| text.len());
        let bytes = system.len() + tools + message.text().len();
        let set = self.session.options().set.over(&self.session.entry().settings_for(&name)).max_tokens;
        let output = set.or(terms.max_output).unwrap_or(MAX_TOKENS);
        let cost = terms.price.map(|price| price.at_most(bytes as u64 / BYTES_PER_TOKEN, output.into()));
        cost.map_or(0.0, Usd::as_dollars)
    }

    /// Runs rows that are missing: all of them, or at most that number.
    ///
    /// # Errors
    /// The input or the state can't be read or written. Rows that were running are missing after the error.
    pub async fn work(&mut self, most: Option<u64>) -> Result<Stopped, Problem> {
        self.board.change(|counts| counts.since = Some(Instant::now()));
        let worked = match self.batcher.clone() {
            // Rows that are to say what all will cost are not waited for until tomorrow.
            Some(batcher) if most.is_none() => {
                batcher.turn(true);
                tokio::select! {
                    worked = self.work_on(most) => worked,
                    failed = batcher.work() => Err(self.state.failed(failed.err().unwrap_or_else(|| io::Error::other("no batches")))),
                }
            }
            _ => self.work_on(most).await,
        };
        self.board.change(|counts| {
            counts.worked = counts.worked();
            (counts.since, counts.running, counts.waiting) = (None, 0, None);
        });
        self.tell()?;
        worked
    }

    /// Lists this map for the service, which shows maps while they run.
    ///
    /// # Errors
    /// The folder of the project's runs can't be written. The map can run.
    pub fn list_for_service(&mut self) -> io::Result<()> {
        self._listed = kept::list(&self.session, &self.options.outputs, &self.options.inputs)?;
        Ok(())
    }

    /// Writes how far it has come.
    fn tell(&mut self) -> Result<(), Problem> {
        self.told = Some(Instant::now());
        let running = self.cancellers.keys().map(ToString::to_string).collect();
        let progress = Progress::of(&self.board.counts(), running);
        progress.write(&self.state.places).map_err(|error| self.state.failed(error))
    }

    async fn work_on(&mut self, most: Option<u64>) -> Result<Stopped, Problem> {
        let last = most.map(|most| self.begun + most);
        let mut running = Running::new();
        let mut stopped = None;
        loop {
            let refusal = self.paces.refusal().map(str::to_owned);
            if self.stop.is_on() {
                stopped = Some(Stopped::Interrupted);
            }
            if self.stop.is_on() || refusal.is_some() {
                self.cancel_waiting();
            }
            let mut again = false;
            if stopped.is_none() && refusal.is_none() {
                match self.fill(&mut running, last)? {
                    Filled::Enough => {}
                    Filled::Again => again = true,
                    Filled::Stop(why) => stopped = Some(why),
                }
            }
            // No row is left whose answer could show whether a refusal is about a single row.
            if !again && refusal.is_none() && self.paces.only_held(running.len()) {
                self.paces.settle();
            }
            self.show(running.len());
            if self.told.is_none_or(|told| told.elapsed() >= TELL) {
                self.tell()?;
            }
            if running.is_empty() && !again {
                return match refusal {
                    Some(why) => Err(Problem::Refused(why)),
                    None => Ok(self.ended_by(stopped.unwrap_or(Stopped::Done))),
                };
            }
            tokio::select! {
                biased;
                Some(ended) = running.next() => self.take(ended)?,
                () = tokio::task::yield_now(), if again => {}
                () = self.paces.changed.notified() => {}
                () = self.stop.changed() => {}
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    /// Returns the reason for the stop, which is a limit if the last rows have reached it.
    fn ended_by(&self, stopped: Stopped) -> Stopped {
        match stopped {
            Stopped::Done | Stopped::Pilot if self.too_many_failed() => Stopped::MaxFailures,
            stopped => stopped,
        }
    }

    fn too_many_failed(&self) -> bool {
        let most = self.options.max_failures.map(|most| most.of(self.survey.rows));
        most.is_some_and(|most| self.board.counts().failed > most)
    }

    /// Begins rows while there is room for them.
    fn fill(&mut self, running: &mut Running, last: Option<u64>) -> Result<Filled, Problem> {
        for _ in 0..PIECE {
            if self.next >= self.order.rows() {
                return Ok(Filled::Stop(Stopped::Done));
            }
            let ordered = self.order.get(self.next).map_err(|error| self.state.failed(error))?;
            if self.state.results.find(ordered.id).map_err(|error| self.state.failed(error))?.is_some() {
                self.read()?;
                continue;
            }
            if self.too_many_failed() {
                return Ok(Filled::Stop(Stopped::MaxFailures));
            }
            if self.options.max_cost.is_some() && self.unknown_cost {
                return Ok(Filled::Stop(Stopped::UnknownCost));
            }
            if last.is_some_and(|last| self.begun >= last) {
                return Ok(Filled::Stop(Stopped::Pilot));
            }
            let (room, next) = match (&self.batcher, last) {
                (Some(_), None) => (batch::ROWS, true),
                _ => self.paces.room(),
            };
            if running.len().saturating_sub(self.paces.held()) >= room || (!next && !running.is_empty()) {
                return Ok(Filled::Enough);
            }
            match self.affordable(running.len()) {
                Afford::Yes => {}
                Afford::Later => return Ok(Filled::Enough),
                Afford::No => return Ok(Filled::Stop(Stopped::MaxCost)),
            }
            self.begin_next(ordered, running)?;
        }
        Ok(Filled::Again)
    }

    /// Decides if the maximum cost allows one more row.
    fn affordable(&self, running: usize) -> Afford {
        let Some(most) = self.options.max_cost else { return Afford::Yes };
        let spent = self.board.counts().usage.cost_usd.map_or(0.0, Usd::as_dollars);
        let is_first = self.measured.is_empty();
        let dearest = if is_first { self.guess } else { self.measured.dearest() };
        if spent + (running as f64 + 1.0) * dearest <= most {
            return Afford::Yes;
        }
        match running {
            // A guess is no reason to run nothing.
            0 if is_first && most > 0.0 => Afford::Yes,
            0 => Afford::No,
            _ => Afford::Later,
        }
    }

    /// Reads the next row.
    fn read(&mut self) -> Result<Row, Problem> {
        let rows = match &mut self.rows {
            Some(rows) => rows,
            None => self.rows.insert(self.source.rows(self.columns.wants_text())?),
        };
        self.next += 1;
        rows.next()?.ok_or_else(|| self.changed())
    }

    fn changed(&self) -> Problem {
        Problem::Changed(self.source.path.display().to_string())
    }

    /// Adds files of this map to the list of places with untrusted words, before these words are written.
    fn list(&mut self, files: &[Written]) -> Result<(), Problem> {
        let Places { dir, outputs, failures } = &self.state.places;
        let path = |file: &Written| match file {
            Written::State => dir,
            Written::Outputs => outputs,
            Written::Failures => failures,
        };
        let new: Vec<Written> = files.iter().filter(|file| !self.listed.contains(file)).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut places: Vec<Place> = new.iter().flat_map(|file| file_places(path(file))).collect();
        places.retain(|place| !self.untrusted.hold(place));
        if !places.is_empty() {
            let added = self.untrusted.add(&places);
            added.map_err(|error| self.state.failed(io::Error::other(error)))?;
        }
        self.listed.extend(new);
        Ok(())
    }

    /// Begins the next row.
    fn begin_next(&mut self, ordered: Ordered, running: &mut Running) -> Result<(), Problem> {
        let number = self.next;
        let row = self.read()?;
        let identified = identify(&self.columns, &self.state.closure, row)?;
        if identified.key != ordered.key {
            return Err(self.changed());
        }
        if !self.options.trusted {
            self.list(&[Written::State, Written::Failures])?;
        }
        match identified.matched {
            Ok(matched) => self.start(number, ordered.id, matched, running),
            Err((message, input)) => {
                self.begun += 1;
                let failed = Failed { kind: INVALID_INPUT.into(), message, usage: Usage::default(), input };
                self.end(number, ordered.id, &RowEnd::Failed(failed))
            }
        }
    }

    fn start(&mut self, row: u64, id: RowId, matched: Matched, running: &mut Running) -> Result<(), Problem> {
        self.begun += 1;
        let before = self.state.unfinished.remove(&id).unwrap_or_default();
        let log = RunLog {
            id: id.to_string().into(),
            dir: self.state.places.dir.as_path().into(),
            log: self.state.journal.of_row(id),
            before,
            date: Arc::clone(&self.state.date),
            untrusted: Arc::clone(&self.untrusted),
        };
        let Matched { input, value, .. } = matched;
        match self.session.start_in(log, &input, None) {
            Ok(run) => {
                self.cancellers.insert(id, run.canceller());
                let finish = run.finish();
                running.push(Box::pin(async move { Ended { row, id, input: value, report: finish.await } }));
                Ok(())
            }
            Err(llm_do::Problem::Resume(ResumeError::Read(_))) => Err(foreign(&self.state.places)),
            Err(llm_do::Problem::Resume(error)) => {
                Err(self.state.failed(io::Error::other(error.to_string())))
            }
            Err(problem) => {
                let (kind, message) = (INVALID_INPUT.into(), problem.to_string());
                let failed = Failed { kind, message, usage: Usage::default(), input: value };
                self.end(row, id, &RowEnd::Failed(failed))
            }
        }
    }

    /// Processes a run that has ended.
    fn take(&mut self, ended: Ended) -> Result<(), Problem> {
        let Ended { row, id, input, report } = ended;
        self.cancellers.remove(&id);
        let Report { end, origins, usage, halt, counts, .. } = report;
        match halt {
            // It is missing still, and continues with the next command.
            Some(Halt::Cancelled) => return Ok(()),
            Some(halt) => return Err(self.state.failed(io::Error::other(halt.to_string()))),
            None => {}
        }
        let failed = |kind: &str, message: String, input| {
            RowEnd::Failed(Failed { kind: kind.into(), message, usage, input })
        };
        let end = match end {
            End::Done(output) => RowEnd::Done(Done { output, usage }),
            End::Failed(failure) => failed(&kind_of(failure.kind), failure.message, input),
            End::Suspended(waiting) => match waiting.first().map(|waiting| &waiting.question) {
                Some(Question::Settlement(settlement)) => {
                    let message = format!(
                        "it was cut off while `{}` was running, and whether that had its effect is not known",
                        settlement.function
                    );
                    failed(INTERRUPTED, message, input)
                }
                Some(Question::Approval(approval)) => {
                    let function = &approval.function;
                    let steered = match (&approval.rule, self.options.trusted) {
                        (DecidedBy::Untrusted { .. }, false) => {
                            ", because words of the row could steer it: `--trusted` says that you wrote the rows, and"
                        }
                        (DecidedBy::Untrusted { .. }, true) => ", because untrusted words could steer it:",
                        _ => ":",
                    };
                    let message = format!(
                        "its call of `{function}` needs an approval{steered} `--allow {function}` lets such calls run"
                    );
                    failed(ASKS, message, input)
                }
                Some(Question::Input(_)) | None => {
                    failed(ASKS, "it waits for input of a user, and there is none to ask".into(), input)
                }
            },
        };
        if origins.is_untrusted() {
            let file = if matches!(end, RowEnd::Done(_)) { Written::Outputs } else { Written::Failures };
            self.list(&[Written::State, file])?;
        }
        self.unknown_cost |= self.costs && counts.requests > 0 && usage.cost_usd.is_none();
        self.measured.add(&usage);
        self.board.change(|counts| counts.usage = counts.usage.plus(usage));
        self.end(row, id, &end)
    }

    /// Records the end of a row.
    fn end(&mut self, row: u64, id: RowId, end: &RowEnd) -> Result<(), Problem> {
        let MapFolder { results, journal, .. } = &mut self.state;
        let written = (|| {
            results.add(id, end)?;
            match end {
                RowEnd::Done(_) => journal.ended(id),
                // Its records are not to be continued, should it be tried again.
                RowEnd::Failed(failed) if &*failed.kind != INVALID_INPUT => journal.forget(id)?,
                RowEnd::Failed(_) => {}
            }
            results.set_journal_from(journal.oldest())?;
            if let Some(batcher) = &self.batcher {
                batcher.ended(&id.to_string())?;
            }
            self.publisher.ended(row, id, end, &self.order, results)
        })();
        written.map_err(|error| self.state.failed(error))?;
        self.board.change(|counts| match end {
            RowEnd::Done(_) => counts.done += 1,
            RowEnd::Failed(_) => counts.failed += 1,
        });
        Ok(())
    }

    /// Cancels runs whose requests only wait for their turn.
    fn cancel_waiting(&self) {
        for run in self.paces.waiting() {
            let id = RowId::parse(run.as_bytes());
            if let Some(canceller) = id.and_then(|id| self.cancellers.get(&id)) {
                canceller.cancel();
            }
        }
    }

    fn show(&self, running: usize) {
        let waiting =
            self.paces.paused().map(|(provider, until)| Waiting { provider, until: until.into_std() });
        let refused = self.paces.refusals();
        self.board.change(|counts| {
            (counts.running, counts.waiting, counts.refused) = (running as u64, waiting, refused);
        });
    }

    /// Writes the buffered part of the preliminary output: `output.part` in the folder of the state.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn flush(&mut self) -> Result<(), Problem> {
        self.publisher.flush().map_err(|error| self.state.failed(error))
    }

    /// Writes the output and the failures.
    ///
    /// # Errors
    /// The files can't be written, or the user has changed one of them meanwhile. The state still has all results.
    pub fn publish(self) -> Result<Summary, Problem> {
        let kept = match self.options.keep {
            true => Some(self.source.rows(false)?),
            false => None,
        };
        let Self { mut state, publisher, order, board, .. } = self;
        let places = state.places.clone();
        state.published.check(&places)?;
        let failed = Problem::state(&places.outputs);
        publisher.finish(&order, &state.results, &mut state.published, kept).map_err(failed)?;
        let counts = board.counts();
        let failures = (counts.failed > 0).then_some(places.failures);
        Ok(Summary { counts, outputs: places.outputs, failures })
    }
}

/// The result of beginning rows.
enum Filled {
    /// All places for running rows are taken.
    Enough,
    /// A place for another row may be free.
    Again,
    /// The map must not begin another row.
    Stop(Stopped),
}

/// The decision if the maximum cost allows one more row.
enum Afford {
    Yes,
    /// Yes, if the rows that run cost less than their maximum.
    Later,
    No,
}

/// Returns the model of a worker, if it may be called in batches.
fn batch_model(session: &Session, names: &[ModelName]) -> Result<BatchModel, Problem> {
    let no = |what: &str| Err(Problem::NoBatch(what.to_owned()));
    let entry = session.entry();
    if entry.code.is_some() {
        return no("the worker is code, which may make any number of requests");
    }
    if entry.mode == WorkerMode::Chat || entry.interactive {
        return no("the worker holds conversations, and a row of a batch is one request");
    }
    if !entry.ensures.is_empty() {
        return no("the worker has `ensures`, which may ask for another answer");
    }
    if entry.limits.timeout_ms.is_some() {
        return no("the worker has a `timeout`, and a batch may take a day");
    }
    match names {
        [name] => session.batches(name).map_err(|error| Problem::NoBatch(error.message)),
        _ => no("the worker can call workers with other models"),
    }
}

/// Checks that a row makes one request: it has no tools except the tool that takes its result.
fn asks_once(first: &RecordKind) -> Result<(), Problem> {
    let RecordKind::ConversationStarted { tools, server_tools, final_tool, .. } = first else {
        return Ok(());
    };
    match (tools.len() - usize::from(*final_tool), server_tools.len()) {
        (0, 0) => Ok(()),
        _ => Err(Problem::NoBatch(
            "the worker has tools or workers to call, and a row of a batch is one request".into(),
        )),
    }
}

/// Returns the kind of a failure in one word.
fn kind_of(kind: FailureKind) -> String {
    match serde_json::to_value(kind) {
        Ok(Value::String(word)) => word,
        _ => "failed".into(),
    }
}
