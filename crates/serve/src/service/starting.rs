//! Starting runs.

use super::{Service, inputs::Prepared};
use crate::{
    error::{ApiError, Code},
    listing::title,
    live::{About, LiveRun, Ports, now_ms},
    log::LogEntry,
    meter::Share,
    owner::Owner,
    program::{Served, Starter},
    runs::{Halted, Permit, Place, Room, Stuck},
    token::{Scope, Token},
    views::{StartRun, State, status_state},
};
use llm_do::{
    Client, IdempotencyKey, Report, Run, Session,
    core::{attachment::Attachment, journal::RunStatus, outcome::Halt, schema::sha256},
};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};
use tokio::{runtime::Handle, task::spawn_blocking};

/// Longest idempotency key, in bytes.
const LONGEST_KEY: usize = 256;

/// A run about to begin.
pub(super) struct Ready {
    began: Instant,
    pub(super) live: Arc<LiveRun>,
    pub(super) run: Run,
    pub(super) room: Room,
    /// True if the run may make calls that need an approval, and refuses them because no questions are taken.
    pub(super) denies_unattended: bool,
}

/// The parts of quotas and the place that a run holds until it ends.
pub(super) struct Held {
    _of_token: Share,
    _of_program: Option<Share>,
    place: Arc<Mutex<Option<Permit>>>,
}

impl Service {
    /// Starts a run, or finds the one that the same request has started before. Returns its ID, and whether it is new.
    ///
    /// A start that has begun is completed even if nothing waits for it any more: a client that disconnected and repeats its
    /// request finds the run.
    pub(crate) async fn start(
        &self,
        token: &Token,
        request: StartRun,
        key: Option<String>,
    ) -> Result<(Arc<str>, bool), ApiError> {
        let (service, token) = (self.clone(), token.clone());
        let starting = tokio::spawn(async move { service.start_or_find(&token, request, key).await });
        starting.await.map_err(ApiError::internal)?
    }

    async fn start_or_find(
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
        self.start_or_find_of(&program, request, client, token).await
    }

    /// Starts the run of a trigger's event, whatever its request is: its settings may have changed since a run was started for it.
    pub(crate) async fn start_once(
        &self,
        token: &Token,
        request: StartRun,
        key: String,
    ) -> Result<Arc<str>, ApiError> {
        let program = self.program(token, request.program.as_deref())?;
        let request_of = sha256(key.as_bytes()).into();
        let client = Client {
            name: Arc::clone(token.name()),
            program: program.name().as_str().into(),
            key: Some(IdempotencyKey { key: key.into(), request: request_of }),
        };
        Ok(self.start_or_find_of(&program, request, client, token).await?.0)
    }

    async fn start_or_find_of(
        &self,
        program: &Arc<Served>,
        request: StartRun,
        client: Client,
        token: &Token,
    ) -> Result<(Arc<str>, bool), ApiError> {
        let Some(keyed) = self.0.runs.keyed(&client)? else {
            return Ok((self.start_new(program, request, client, token).await?, true));
        };
        let mut is_new = false;
        let run = keyed.run.get_or_try_init(|| {
            is_new = true;
            self.start_new(program, request, client.clone(), token)
        });
        match run.await {
            Ok(run) => Ok((Arc::clone(run), is_new)),
            Err(error) => {
                self.0.runs.forget(&client);
                Err(error)
            }
        }
    }

    async fn start_new(
        &self,
        program: &Arc<Served>,
        request: StartRun,
        client: Client,
        token: &Token,
    ) -> Result<Arc<str>, ApiError> {
        let room = self.admit_run(&client).await?;
        let starter = self.starter(token, client);
        let ready = self.prepare(program, request, Vec::new(), starter, room, token).await?;
        Ok(Arc::clone(&self.begin(ready).await?.id))
    }

    /// The starter of a run of that client.
    pub(super) fn starter(&self, token: &Token, client: Client) -> Starter {
        // The clients of a server of tools answer questions, but what they say comes from their models.
        let trusted = token.has(Scope::Answer) && !matches!(self.0.owner, Owner::Tools(_));
        Starter::Client { client, via: self.0.owner.via(), trusted }
    }

    /// Starts the task of a run, and waits until the run can be continued even if the process is killed.
    ///
    /// # Errors
    /// The first record can't be written.
    pub(super) async fn begin(&self, ready: Ready) -> Result<Arc<LiveRun>, ApiError> {
        let Ready { began, live, run, room, .. } = ready;
        self.set_off(Arc::clone(&live), run, room);
        if !live.recorded().await {
            // Without a record it is no run that a client could find.
            let why = match self.0.runs.take_halted(&live.id) {
                Some(Halted::CutOff(why) | Halted::Changed(why)) => why,
                None => "the run ended before its first record".into(),
            };
            return Err(ApiError::storage(why));
        }
        self.0.metrics.recorded(&live.client().program, began.elapsed());
        Ok(live)
    }

    /// Prepares a run with these files, in that room.
    pub(super) async fn prepare(
        &self,
        program: &Arc<Served>,
        mut request: StartRun,
        files: Vec<Attachment>,
        starter: Starter,
        room: Room,
        token: &Token,
    ) -> Result<Ready, ApiError> {
        let began = Instant::now();
        let (program, service, token) = (Arc::clone(program), self.clone(), token.clone());
        let runtime = Handle::current();
        // It is never closed.
        let _turn = self.0.starting.acquire().await.map_err(ApiError::internal)?;
        let prepared = spawn_blocking(move || {
            let client = starter.client().clone();
            let session = program.for_request(&request, starter)?;
            let about = About { title: title_of(&request, &session), ..about(&session, client) };
            let Prepared { mut input, uploads } =
                runtime.block_on(service.input(&token, &session, &mut request))?;
            input.contents.extend(files);
            let ports = Ports::new(service.0.owner.via(), service.0.chats_expire);
            let operator = session.options().can_ask.then(|| ports.operator());
            let run = session.start(&input, operator, Some(ports.events()))?;
            for upload in &uploads {
                service.0.uploads.claim(upload, run.id(), session.runs_dir())?;
            }
            let live = LiveRun::new(&run, ports, about, &service.0.notices);
            let denies_unattended = session.denies_unattended() && session.may_ask();
            Ok::<_, ApiError>(Ready { began, live, run, room, denies_unattended })
        });
        let ready = prepared.await.map_err(ApiError::internal)??;
        let (live, client) = (&ready.live, ready.live.client());
        self.log_run(LogEntry {
            by: Some(client.name.to_string()),
            text: format!("started by {}: {}", client.name, live.about.worker),
            ..live.entry("run_started")
        });
        self.0.metrics.started(&client.program, &live.about.worker);
        Ok(ready)
    }

    /// Starts the task of a run, which begins as soon as the run has its place. The function is not async: otherwise a
    /// client that disconnects could end it after the run is listed and before its task starts.
    pub(super) fn set_off(&self, live: Arc<LiveRun>, run: Run, room: Room) {
        if matches!(room.place, Place::Later(_)) {
            live.queue();
        }
        self.0.runs.insert(&live);
        live.announce();
        let held = Held { _of_token: room.of_token, _of_program: room.of_program, place: Arc::default() };
        let run = match room.place {
            Place::Now(place) => {
                keep(&held.place, Some(place));
                run
            }
            Place::Later(later) => {
                let (slot, live) = (Arc::clone(&held.place), Arc::clone(&live));
                run.held(async move {
                    keep(&slot, later.await);
                    live.placed();
                })
            }
        };
        let service = self.clone();
        let mut tasks = self.0.tasks();
        while tasks.try_join_next().is_some() {}
        // What only the beginning needs is left behind: thousands of such tasks may wait.
        let running = live.carry_out(run);
        tasks.spawn(async move {
            let report = running.await;
            drop(held);
            service.ended(&live, &report);
        });
    }

    fn ended(&self, live: &LiveRun, report: &Report) {
        // What the operator of the server can mend is no end: the run can be continued.
        let cut_off = match &report.halt {
            Some(halt @ (Halt::Journal(_) | Halt::Diverged { .. })) => Some(halt.to_string()),
            Some(Halt::Cancelled | Halt::Aborted { .. }) | None => None,
        };
        let status = if cut_off.is_some() { State::CutOff } else { status_state(report.status) };
        let name = status.name();
        let text = match &cut_off {
            Some(why) => why.clone(),
            None if live.has_expired() => {
                format!("{name}: the chat expired, because its next message did not come")
            }
            None => name.into(),
        };
        self.log_run(LogEntry { state: Some(name), text, ..live.entry("run_ended") });
        self.0.metrics.ended(&live.client().program, status, report.usage, live.age());
        if let Some(why) = cut_off {
            let program = Arc::clone(&live.client().program);
            self.0.runs.set_stuck(Arc::clone(&live.id), Stuck::now(program, Halted::CutOff(why)));
        } else if report.status != RunStatus::Suspended {
            self.0.host.run_ended(&report.dir);
            let (service, id) = (self.clone(), Arc::clone(&live.id));
            // Nothing waits for it.
            drop(spawn_blocking(move || service.0.uploads.ended(&id)));
        }
        self.0.runs.remove(&live.id);
        live.over();
        live.announce_end(status);
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
}

fn keep(slot: &Mutex<Option<Permit>>, place: Option<Permit>) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = place;
}

/// The properties of a run of a session that are known before it begins.
pub(super) fn about(session: &Session, client: Client) -> About {
    About {
        worker: Arc::clone(&session.entry().id),
        chat: session.options().chat,
        client,
        title: None,
        taken_ms: now_ms(),
    }
}

/// The beginning of a request's input, unless it has a secret that journals leave out.
fn title_of(request: &StartRun, session: &Session) -> Option<String> {
    let text = match (&request.message, &request.input) {
        (Some(message), _) => message.clone(),
        (None, Some(input)) => input.to_string(),
        (None, None) => return None,
    };
    Some(title(&text)).filter(|_| !session.holds_secret(&text))
}

/// # Errors
/// A request gives two inputs, or none.
pub(super) fn either(request: &StartRun) -> Result<(), ApiError> {
    match request.message.is_some() == request.input.is_some() {
        true => Err(ApiError::new(Code::BadRequest, "give either `message` or `input`")),
        false => Ok(()),
    }
}

/// The hash of a request, whatever the order of its fields.
fn fingerprint(request: &StartRun) -> Arc<str> {
    // A request is data that serialises.
    let mut value = serde_json::to_value(request).unwrap_or_default();
    value.sort_all_objects();
    sha256(value.to_string().as_bytes()).into()
}
