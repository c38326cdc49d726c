//! What clients can do, whatever the transport.

use crate::{
    error::{ApiError, Code},
    events::{self, Reader},
    live::{LiveRun, Ports, is_turn},
    metrics::Metrics,
    program::{BadPrograms, Host, Programs, Served, Starter},
    runs::{MOST_KEYS, Runs},
    token::{OPERATOR, Scope, Token, Tokens},
    views::{GiveAnswer, MessageSent, QuestionOfRun, QuestionView, RunView, StartRun, State, WorkerView},
};
use axum::response::sse;
use futures_util::Stream;
use llm_do::{
    Client, Decisions, IdempotencyKey, Input, PastRun, Problem, Report, ResumeError, Run, Session,
    client_schema,
    core::{
        journal::{Ending, RecordKind, RunStatus},
        question::{Answer, Given},
        schema::sha256,
    },
    digest,
    records::{History, Open, RunState},
    runs::{RunSummary, is_run_id, list_runs_before, read_ends, read_journal, summary_of},
};
use serde::Deserialize;
use std::{collections::HashMap, convert::Infallible, path::Path, sync::Arc, time::Duration};
use tokio::{
    sync::OwnedSemaphorePermit,
    task::{JoinSet, spawn_blocking},
};

/// Longest idempotency key, in bytes.
const LONGEST_KEY: usize = 256;
/// Most runs on a page.
pub(crate) const LARGEST_PAGE: usize = 200;

/// How much a service takes on.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most runs at once, those that wait for answers included.
    pub runs: usize,
    /// Most runs at once that one token has started.
    pub runs_of_token: usize,
    /// How long the runs at work may take to end when the service shuts down.
    pub grace: Duration,
}

/// Programs as a service. It is cheap to clone; all clones share the runs.
#[derive(Clone)]
pub struct Service(Arc<Inner>);

struct Inner {
    host: Arc<dyn Host>,
    programs: Programs,
    tokens: Tokens,
    runs: Runs,
    metrics: Metrics,
    grace: Duration,
    owner: Owner,
    /// The tasks of the runs.
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

/// A run that has begun.
pub(crate) struct Begun {
    pub(crate) live: Arc<LiveRun>,
    /// One who follows it from its first event on, if that was asked for.
    pub(crate) reader: Option<Reader>,
    /// Whether it refuses calls that need an approval, and may make some, because no questions are taken.
    pub(crate) denies_unattended: bool,
}

/// Who owns the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The operator of a server of many clients, who is not among them.
    Host,
    /// The one client, who is the operator: its runs are the operator's own.
    Client,
}

impl Owner {
    /// Through what answers and messages come, as recorded.
    fn via(self) -> &'static str {
        match self {
            Self::Host => "http",
            Self::Client => "stdio",
        }
    }

    /// The client that a run was started by, as its journal says. `None`: it is not one that clients see.
    fn client_of(self, program: &Served, run: &RunSummary) -> Option<Client> {
        match self {
            Self::Host => client_of(run),
            Self::Client => Some(operator_of(program)),
        }
    }
}

impl Service {
    /// A service of these programs for clients with these tokens. It continues the runs that an earlier process of it has
    /// left. To be called inside a tokio runtime.
    ///
    /// # Errors
    /// Two programs have one name, or a token names a program that is not among them.
    pub async fn open(
        programs: Vec<Served>,
        tokens: Tokens,
        limits: Limits,
        host: Arc<dyn Host>,
    ) -> Result<Self, BadPrograms> {
        let programs = Programs::new(programs)?;
        for (token, program) in tokens.programs() {
            if programs.get(program).is_none() {
                return Err(BadPrograms::Unknown {
                    token: Arc::clone(token.name()),
                    program: Arc::clone(program),
                });
            }
        }
        let service = Self(Arc::new(Inner {
            host,
            programs,
            tokens,
            runs: Runs::new(limits.runs, limits.runs_of_token),
            metrics: Metrics::default(),
            grace: limits.grace,
            owner: Owner::Host,
            tasks: tokio::sync::Mutex::default(),
        }));
        service.continue_all().await;
        Ok(service)
    }

    /// A service of one program for the one client that owns the process and is its operator. Runs that an earlier process
    /// has left wait until they are resumed.
    ///
    /// # Errors
    /// As [`Service::open`].
    pub(crate) fn of_owner(
        program: Served,
        limits: Limits,
        host: Arc<dyn Host>,
    ) -> Result<Self, BadPrograms> {
        Ok(Self(Arc::new(Inner {
            host,
            programs: Programs::new(vec![program])?,
            tokens: Tokens::default(),
            runs: Runs::new(limits.runs, limits.runs_of_token),
            metrics: Metrics::default(),
            grace: limits.grace,
            owner: Owner::Client,
            tasks: tokio::sync::Mutex::default(),
        })))
    }

    /// The name of the program, if there is only one.
    pub(crate) fn only_program(&self) -> Option<Arc<str>> {
        Some(self.0.programs.only()?.name().as_str().into())
    }

    /// The run with that ID, if it is under way here.
    pub(crate) fn under_way(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.0.runs.get(id)
    }

    /// Starts a run of the operator who owns the process, with one who follows it from its first event on if that is asked for.
    pub(crate) async fn start_own(
        &self,
        request: StartRun,
        attended: bool,
        follows: bool,
    ) -> Result<Begun, ApiError> {
        either(&request)?;
        let Some(program) = self.0.programs.only() else {
            return Err(ApiError::new(Code::NotFound, "there is no such program"));
        };
        self.begin(program, request, operator_of(program), Starter::Owner { attended, follows }).await
    }

    pub(crate) fn token(&self, text: &str) -> Option<Arc<Token>> {
        self.0.tokens.find(text)
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn log(&self, line: &str) {
        self.0.host.log(line);
    }

    /// Logs what becomes of a run. A client that owns the process hears it over the pipe.
    fn log_run(&self, id: &str, what: &str) {
        if self.0.owner == Owner::Host {
            self.log(&format!("run {id}: {what}"));
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.0.runs.is_ending()
    }

    /// The states of the runs under way, for metrics.
    pub(crate) fn states(&self) -> Vec<State> {
        self.0.runs.all().iter().map(|run| run.state()).collect()
    }

    /// The workers that a client may start.
    pub(crate) fn workers(&self, token: &Token) -> Vec<WorkerView> {
        let programs = self.0.programs.iter().filter(|program| token.may_use(program.name().as_str()));
        programs.flat_map(workers_of).collect()
    }

    /// Starts a run, or finds the one that the same request has started before. Returns its ID, and whether it is new.
    pub(crate) async fn start(
        &self,
        token: &Token,
        request: StartRun,
        key: Option<String>,
    ) -> Result<(Arc<str>, bool), ApiError> {
        let program = self.program(token, request.program.as_deref())?;
        either(&request)?;
        if key.as_ref().is_some_and(|key| key.is_empty() || key.len() > LONGEST_KEY) {
            return Err(ApiError::new(Code::BadRequest, "an Idempotency-Key has 1 to 256 characters"));
        }
        let client = Client {
            name: Arc::clone(token.name()),
            program: program.name().as_str().into(),
            key: key.map(|key| IdempotencyKey { key: key.into(), request: fingerprint(&request) }),
        };
        let trusted = token.has(Scope::Answer);
        let starter = Starter::Client { client: client.clone(), trusted };
        let Some(keyed) = self.0.runs.keyed(&client)? else {
            return Ok((Arc::clone(&self.begin(&program, request, client, starter).await?.live.id), true));
        };
        let mut is_new = false;
        let run = keyed.run.get_or_try_init(|| {
            is_new = true;
            let begun = self.begin(&program, request, client.clone(), starter);
            async { Ok::<_, ApiError>(Arc::clone(&begun.await?.live.id)) }
        });
        match run.await {
            Ok(run) => Ok((Arc::clone(run), is_new)),
            Err(error) => {
                self.0.runs.forget(&client);
                Err(error)
            }
        }
    }

    async fn begin(
        &self,
        program: &Arc<Served>,
        request: StartRun,
        client: Client,
        starter: Starter,
    ) -> Result<Begun, ApiError> {
        let room = self.0.runs.admit(&client.name)?;
        let (program, via) = (Arc::clone(program), self.0.owner.via());
        let follows = matches!(starter, Starter::Owner { follows: true, .. });
        let prepared = spawn_blocking(move || {
            let session = program.for_request(&request, starter)?;
            let input = Input { message: request.message, json: request.input, ..Input::default() };
            let ports = Ports::new(via);
            let operator = session.options().can_ask.then(|| ports.operator());
            let run = session.start(&input, operator, Some(ports.events()))?;
            let live = live(&session, &run, ports, client);
            // Before the run has begun, which asks its model for deltas only if they are wanted.
            let reader = follows.then(|| Reader::new(&program.run_dir(&live.id), Some(&live), None));
            let denies_unattended = session.denies_unattended() && session.may_ask();
            Ok::<_, ApiError>((live, run, reader, denies_unattended))
        });
        let (live, run, reader, denies_unattended) = prepared.await.map_err(ApiError::internal)??;
        self.log_run(&live.id, &format!("started by {}: {}", live.client.name, live.worker));
        self.0.metrics.started(&live.client.program, &live.worker);
        self.set_off(Arc::clone(&live), run, room).await;
        live.recorded().await;
        Ok(Begun { live, reader, denies_unattended })
    }

    /// Lets a run go.
    async fn set_off(&self, live: Arc<LiveRun>, run: Run, room: OwnedSemaphorePermit) {
        self.0.runs.insert(&live);
        let service = self.clone();
        let mut tasks = self.0.tasks.lock().await;
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let report = live.carry_out(run).await;
            drop(room);
            service.ended(&live, &report);
        });
    }

    fn ended(&self, live: &LiveRun, report: &Report) {
        let status = status_state(report.status);
        self.log_run(&live.id, status.name());
        self.0.metrics.ended(&live.client.program, status, report.usage);
        self.0.runs.remove(&live.id);
        live.over();
    }

    /// Waits until a run is over, or asks something.
    pub(crate) async fn settle(&self, id: &str, within: Duration) {
        let Some(live) = self.0.runs.get(id) else { return };
        let mut questions = live.questions().subscribe();
        let settled = async {
            loop {
                questions.borrow_and_update();
                if live.state() == State::Waiting {
                    return;
                }
                tokio::select! {
                    () = live.ended() => return,
                    _ = questions.changed() => {}
                }
            }
        };
        // After that time the client gets what there is.
        let _ = tokio::time::timeout(within, settled).await;
    }

    /// One run, if the client may see it.
    pub(crate) async fn run(&self, token: &Token, id: &str) -> Result<RunView, ApiError> {
        if let Some(live) = self.live(token, id) {
            return Ok(live_view(&live));
        }
        let (program, summary) = self.stored(token, id).await?;
        self.view(&program, summary, true).await
    }

    /// The newest runs that the client may see, before that one.
    pub(crate) async fn runs(
        &self,
        token: &Token,
        before: Option<String>,
        limit: usize,
    ) -> Result<Vec<RunView>, ApiError> {
        let mut found: Vec<(Arc<Served>, RunSummary)> = Vec::new();
        for program in self.0.programs.iter().filter(|program| token.may_use(program.name().as_str())) {
            let (program, token, before) = (Arc::clone(program), token.clone(), before.clone());
            let owner = self.0.owner;
            let listed = spawn_blocking(move || {
                let sees = |run: &RunSummary| {
                    owner.client_of(&program, run).is_some_and(|client| {
                        *client.program == *program.name().as_str()
                            && token.sees(&client.program, &client.name)
                    })
                };
                let runs = list_runs_before(program.runs_dir(), before.as_deref(), limit, sees);
                runs.map(|runs| runs.into_iter().map(|run| (Arc::clone(&program), run)).collect::<Vec<_>>())
            });
            found.extend(listed.await.map_err(ApiError::internal)?.map_err(ApiError::internal)?);
        }
        found.sort_by(|(_, a), (_, b)| b.run.cmp(&a.run));
        found.truncate(limit);
        let mut views = Vec::with_capacity(found.len());
        for (program, summary) in found {
            views.push(match self.0.runs.get(&summary.run) {
                Some(live) => live_view(&live),
                None => self.view(&program, summary, false).await?,
            });
        }
        Ok(views)
    }

    /// The questions that a client may see.
    pub(crate) fn questions(&self, token: &Token) -> Vec<QuestionOfRun> {
        let mut questions = Vec::new();
        for run in self.0.runs.all() {
            let Client { name, program, .. } = &run.client;
            if token.sees(program, name) {
                questions.extend(run.questions().waiting().into_iter().map(|waiting| QuestionOfRun {
                    run: Arc::clone(&run.id),
                    program: Arc::clone(program),
                    question: waiting.into(),
                }));
            }
        }
        questions
    }

    /// The events of a run after the record with that number.
    pub(crate) async fn events(
        &self,
        token: &Token,
        id: &str,
        after: Option<u64>,
    ) -> Result<impl Stream<Item = Result<sse::Event, Infallible>> + use<>, ApiError> {
        Ok(events::stream(self.reader(token, id, after).await?))
    }

    /// One who follows a run after the record with that number.
    pub(crate) async fn reader(
        &self,
        token: &Token,
        id: &str,
        after: Option<u64>,
    ) -> Result<Reader, ApiError> {
        // Looked up before the journal: a run that ends in between is read from it.
        let live = self.0.runs.get(id);
        let (program, _) = self.stored(token, id).await?;
        Ok(Reader::new(&program.run_dir(id), live.as_deref(), after))
    }

    /// Gives an answer to a question. The first one stands.
    pub(crate) async fn answer(&self, token: &Token, id: &str, given: GiveAnswer) -> Result<(), ApiError> {
        let GiveAnswer { id: question, digest: seen, answer } = given;
        if matches!(answer, Answer::Model { .. }) {
            return Err(ApiError::new(
                Code::Forbidden,
                "the models are the server's: an answer can't choose another",
            ));
        }
        let changed = format!("the question `{question}` is not the one that `digest` names: read it again");
        let changed = ApiError::new(Code::QuestionChanged, changed);
        let given = Given { answer, by: Arc::clone(token.name()), via: self.0.owner.via().into() };
        if let Some(live) = self.live(token, id) {
            let questions = live.questions();
            if let Some(waiting) = questions.waiting().iter().find(|waiting| waiting.id == question)
                && digest(waiting) != seen
            {
                return Err(changed);
            }
            questions.take(&question, &given.answer, &given.by)?.give(given);
        } else {
            let (program, summary) = self.stored(token, id).await?;
            if let Some(why) = self.0.runs.stuck_because(id) {
                return Err(ApiError::new(Code::Conflict, why));
            }
            let (dir, host) = (program.run_dir(&summary.run), Arc::clone(&self.0.host));
            let owner = self.0.owner;
            let continued = spawn_blocking(move || {
                let past = program.past(&dir)?;
                if past.waiting().iter().any(|waiting| waiting.id == question && digest(waiting) != seen) {
                    return Err(changed);
                }
                let decisions = Decisions(HashMap::from([(question, given)]));
                past.admits(&decisions).map_err(Problem::from)?;
                Ok(continued(&program, past, decisions, &*host, owner)?)
            });
            let room = self.0.runs.admit(token.name())?;
            let (live, run) = continued.await.map_err(ApiError::internal)??;
            self.set_off(live, run, room).await;
        }
        self.0.metrics.answered();
        Ok(())
    }

    /// Gives a message to a chat.
    pub(crate) fn message(&self, token: &Token, id: &str, text: String) -> Result<MessageSent, ApiError> {
        let live = self.live(token, id).ok_or_else(|| ApiError::no_run(id))?;
        if !live.chat {
            return Err(ApiError::new(Code::Conflict, format!("the run `{id}` is no chat")));
        }
        // Other clients' words in the place of the one who is talked with would be a forgery.
        if *live.client.name != **token.name() && !token.has(Scope::Answer) {
            return Err(ApiError::without_scope(Scope::Answer));
        }
        let delivered = live.say(text, token.name()).ok_or_else(|| {
            ApiError::new(Code::Conflict, "too many messages wait for the conversation: send this one later")
        })?;
        Ok(MessageSent { delivered })
    }

    /// Ends a run.
    pub(crate) fn cancel(&self, token: &Token, id: &str) -> Result<(), ApiError> {
        let live = self.live(token, id).ok_or_else(|| {
            ApiError::new(Code::Conflict, "the run is not under way: only a run that is can be cancelled")
        })?;
        if *live.client.name != **token.name() && !token.has(Scope::Answer) {
            return Err(ApiError::without_scope(Scope::Answer));
        }
        self.log_run(id, &format!("cancelled by {}", token.name()));
        live.cancel();
        Ok(())
    }

    /// Ends the service: no run starts any more, runs that wait for an answer are suspended, the others may end within the
    /// grace period. The next process continues what is left.
    pub(crate) async fn end(&self) {
        self.0.runs.end();
        let deadline = tokio::time::Instant::now() + self.0.grace;
        loop {
            let left = self.0.runs.all();
            for run in &left {
                match (run.state(), self.0.owner) {
                    (State::Waiting, _) => run.questions().close(),
                    // There is no client any more that could want its output.
                    (_, Owner::Client) => run.cancel(),
                    (_, Owner::Host) => {}
                }
            }
            if left.is_empty() || tokio::time::Instant::now() >= deadline {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for run in self.0.runs.all() {
            self.log(&format!("run {}: cut off; the next start of the server continues it", run.id));
            // Readers would keep their connections open.
            run.over();
        }
        self.0.tasks.lock().await.shutdown().await;
    }

    fn program(&self, token: &Token, name: Option<&str>) -> Result<Arc<Served>, ApiError> {
        let found = match name {
            Some(name) => self.0.programs.get(name),
            None => Some(self.0.programs.only().ok_or_else(|| {
                ApiError::new(
                    Code::BadRequest,
                    "the server has several programs: give the name of one as `program`",
                )
            })?),
        };
        let found = found.filter(|program| token.may_use(program.name().as_str()));
        found.cloned().ok_or_else(|| ApiError::new(Code::NotFound, "there is no such program"))
    }

    fn live(&self, token: &Token, id: &str) -> Option<Arc<LiveRun>> {
        let live = self.0.runs.get(id)?;
        token.sees(&live.client.program, &live.client.name).then_some(live)
    }

    /// A run of this service in its program's folder.
    async fn stored(&self, token: &Token, id: &str) -> Result<(Arc<Served>, RunSummary), ApiError> {
        if !is_run_id(id) {
            return Err(ApiError::no_run(id));
        }
        for program in self.0.programs.iter().filter(|program| token.may_use(program.name().as_str())) {
            let (of, run) = (Arc::clone(program), id.to_owned());
            let read = spawn_blocking(move || summary_of(of.runs_dir(), &run)).await;
            let Ok(summary) = read.map_err(ApiError::internal)? else { continue };
            let sees = |client: &Client| {
                *client.program == *program.name().as_str() && token.sees(&client.program, &client.name)
            };
            if self.0.owner.client_of(program, &summary).is_some_and(|client| sees(&client)) {
                return Ok((Arc::clone(program), summary));
            }
        }
        Err(ApiError::no_run(id))
    }

    /// A run that is not under way here, with its result if `whole`.
    async fn view(
        &self,
        program: &Arc<Served>,
        summary: RunSummary,
        whole: bool,
    ) -> Result<RunView, ApiError> {
        let reason = self.0.runs.stuck_because(&summary.run);
        let state = match (&reason, summary.state) {
            (Some(_), _) => State::Changed,
            (None, RunState::Ended(status)) => status_state(status),
            (None, RunState::Open(Open::Running)) => State::Running,
            (None, RunState::Open(Open::CutOff)) => State::CutOff,
        };
        let client = self.0.owner.client_of(program, &summary);
        let mut view = RunView {
            run: summary.run.as_str().into(),
            program: program.name().as_str().into(),
            worker: summary.entry.into(),
            chat: summary.chat,
            client: client.map(|client| client.name).unwrap_or_default(),
            state,
            reason,
            started_ms: summary.started_ms,
            took_ms: summary.took_ms,
            output: None,
            failure: None,
            usage: summary.usage,
            questions: Vec::new(),
        };
        if whole {
            let dir = program.run_dir(&summary.run);
            let read = spawn_blocking(move || result_of(&dir, state)).await;
            let (ending, questions) = read.map_err(ApiError::internal)?.map_err(ApiError::internal)?;
            view.questions = questions;
            match ending {
                Some(Ending::Output(value)) => view.output = Some(value),
                Some(Ending::Failure(failure)) => view.failure = Some(failure),
                Some(Ending::Suspended) | None => {}
            }
        }
        Ok(view)
    }

    /// Continues the runs of an earlier process that are not over, and remembers the keys of its requests.
    async fn continue_all(&self) {
        for program in self.0.programs.iter() {
            let of = Arc::clone(program);
            let listed = spawn_blocking(move || {
                let is_own = |run: &RunSummary| {
                    client_of(run).is_some_and(|client| *client.program == *of.name().as_str())
                };
                list_runs_before(of.runs_dir(), None, MOST_KEYS, is_own)
            });
            let runs = match listed.await {
                Ok(Ok(runs)) => runs,
                Ok(Err(error)) => {
                    self.log(&format!("{}: cannot read the runs of before: {error}", program.name()));
                    continue;
                }
                Err(_) => continue,
            };
            for summary in runs.into_iter().rev() {
                let id: Arc<str> = summary.run.as_str().into();
                if let Some(client) = client_of(&summary) {
                    self.0.runs.remember(&client, &id);
                }
                let is_left = match summary.state {
                    RunState::Ended(status) => status == RunStatus::Suspended,
                    RunState::Open(open) => open == Open::CutOff,
                };
                if is_left {
                    self.continue_one(program, id).await;
                }
            }
        }
    }

    async fn continue_one(&self, program: &Arc<Served>, id: Arc<str>) {
        let Some(room) = self.0.runs.room().await else { return };
        let (of, dir, host) = (Arc::clone(program), program.run_dir(&id), Arc::clone(&self.0.host));
        let continued = spawn_blocking(move || {
            let past = of.past(&dir)?;
            continued(&of, past, Decisions::default(), &*host, Owner::Host)
        });
        match continued.await {
            Ok(Ok((live, run))) => {
                self.log(&format!("run {id}: continued"));
                self.set_off(live, run, room).await;
            }
            Ok(Err(problem)) => {
                self.log(&format!("run {id}: cannot be continued: {problem}"));
                self.0.runs.set_stuck(id, problem.to_string());
            }
            Err(_) => {}
        }
    }
}

fn live(session: &Session, run: &Run, ports: Ports, client: Client) -> Arc<LiveRun> {
    LiveRun::new(run, ports, Arc::clone(&session.entry().id), session.options().chat, client)
}

/// A run that an earlier process has left, about to be continued.
fn continued(
    program: &Served,
    past: PastRun,
    decisions: Decisions,
    host: &dyn Host,
    owner: Owner,
) -> Result<(Arc<LiveRun>, Run), Problem> {
    let session = program.for_past(&past, host, owner == Owner::Client)?;
    let foreign = || Problem::from(ResumeError::Unknown("no client of this service started it".into()));
    let client = match owner {
        Owner::Host => past.invocation().client.clone().ok_or_else(foreign)?,
        Owner::Client => operator_of(program),
    };
    let ports = Ports::new(owner.via());
    let run = session.resume(past, decisions, Some(ports.operator()), Some(ports.events()))?;
    Ok((live(&session, &run, ports, client), run))
}

/// The operator of that program as a client of its own.
fn operator_of(program: &Served) -> Client {
    Client { name: OPERATOR.into(), program: program.name().as_str().into(), key: None }
}

/// # Errors
/// A request gives two inputs, or none.
fn either(request: &StartRun) -> Result<(), ApiError> {
    match request.message.is_some() == request.input.is_some() {
        true => Err(ApiError::new(Code::BadRequest, "give either `message` or `input`")),
        false => Ok(()),
    }
}

/// How the run in that folder ended, and what it waits for.
fn result_of(
    dir: &Path,
    state: State,
) -> Result<(Option<Ending>, Vec<QuestionView>), llm_do::runs::ReadError> {
    if matches!(state, State::Waiting | State::Changed) {
        let waiting = History::of(read_journal(dir)?.records).waiting();
        return Ok((None, waiting.into_iter().map(QuestionView::from).collect()));
    }
    let last = read_ends(dir)?.map(|(_, last)| last.body);
    Ok(match last {
        Some(RecordKind::RunEnded { ending, .. }) => (Some(ending), Vec::new()),
        _ => (None, Vec::new()),
    })
}

/// The client that a run was started by, as its journal says.
fn client_of(run: &RunSummary) -> Option<Client> {
    Client::deserialize(run.invocation.get("client")?).ok()
}

fn live_view(live: &LiveRun) -> RunView {
    let mut questions: Vec<QuestionView> =
        live.questions().waiting().into_iter().map(QuestionView::from).collect();
    // First what keeps a call waiting, then the turn of the chat.
    questions.sort_by_key(|question| is_turn(&question.waiting));
    RunView {
        run: Arc::clone(&live.id),
        program: Arc::clone(&live.client.program),
        worker: Arc::clone(&live.worker),
        chat: live.chat,
        client: Arc::clone(&live.client.name),
        state: live.state(),
        reason: None,
        started_ms: None,
        took_ms: None,
        output: None,
        failure: None,
        usage: None,
        questions,
    }
}

fn status_state(status: RunStatus) -> State {
    match status {
        RunStatus::Done => State::Done,
        RunStatus::Failed => State::Failed,
        RunStatus::Limit => State::Limit,
        RunStatus::Refused => State::Refused,
        RunStatus::Suspended => State::Waiting,
        RunStatus::Interrupted => State::Cancelled,
    }
}

fn workers_of(program: &Arc<Served>) -> Vec<WorkerView> {
    let view = |(number, session): (usize, &Session)| {
        let worker = session.entry();
        let reach = session.reach();
        WorkerView {
            program: program.name().as_str().into(),
            worker: Arc::clone(&worker.id),
            default: number == 0,
            description: worker.description.as_ref().map(ToString::to_string),
            input: client_schema(worker).into(),
            output: worker.returns.as_ref().map(|schema| Arc::clone(schema.value())),
            changes: reach.changes,
            network: reach.network,
        }
    };
    program.sessions().iter().enumerate().map(view).collect()
}

/// The hash of a request, whatever the order of its fields.
fn fingerprint(request: &StartRun) -> Arc<str> {
    // A request is data that serialises.
    let mut value = serde_json::to_value(request).unwrap_or_default();
    value.sort_all_objects();
    sha256(value.to_string().as_bytes()).into()
}
