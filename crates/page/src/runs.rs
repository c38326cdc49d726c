//! Runs: starting, continuing, listing, showing, following, replaying.

use crate::{
    desk::Desk,
    feed::{Feed, texts_of},
    host::PageHost,
    journal::{self, folder_of, is_run_id, name_of, runs_of, state_of},
    live::{BY, LiveRun},
    log::PageLog,
    message::{Done, Effect, ErrorKind, FileKind, RequestId},
    problem::ApiError,
    program::{Asked, PageProgram, run_options},
    routes::Route,
    service::Service,
};
use futures_util::future::select;
use jiff::{Timestamp, tz::TimeZone};
use llm_do_core::{
    call_path::CallPath,
    gate::Mode,
    journal::{Ending, Record, RecordKind, RunStatus},
    model::Usage,
    outcome::Halt,
    price::Usd,
    question::{Answer, Question, QuestionId, Waiting},
    schema::sha256,
};
use llm_do_host::{Input, Invocation, Run, RunOptions, RunPorts, Said, Session};
use llm_do_program::signatures::not_for_clients;
use llm_do_records::{Compared, History, Journal, ReplayDriver, Section, WholeRun, page, sections};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    pin::pin,
    sync::Arc,
};

/// The longest title, in characters.
const LONGEST_TITLE: usize = 120;
/// The most runs of a page of a list.
const LARGEST_PAGE: usize = 200;
/// The runs of a page of a list, if the request does not say.
const PAGE: usize = 50;
/// The dearest runs that are listed.
const DEAREST: usize = 20;

/// A run to start.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StartRun {
    program: Option<String>,
    worker: Option<String>,
    message: Option<String>,
    input: Option<Value>,
    chat: bool,
    approval: Option<Mode>,
    ask: Vec<String>,
    deny: Vec<String>,
    budget: Vec<String>,
    attachments: Vec<String>,
}

/// An answer to a question.
#[derive(Debug, Deserialize)]
pub(crate) struct GiveAnswer {
    #[serde(flatten)]
    id: QuestionId,
    digest: String,
    #[serde(flatten)]
    answer: Answer,
}

/// A message to a chat.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendMessage {
    text: String,
    #[serde(default)]
    now: bool,
}

/// A run that is not executed here.
struct Stored {
    program: Arc<str>,
    id: Arc<str>,
    read: journal::Read,
}

/// Returns a question as the app reads it.
pub(crate) fn question_view(mut waiting: Waiting, preview: bool) -> Value {
    let digest = waiting.digest();
    if !preview && let Question::Approval(approval) = &mut waiting.question {
        approval.preview = None;
    }
    // A question is data that serialises.
    let mut view = serde_json::to_value(&waiting).unwrap_or_default();
    view["digest"] = digest.into();
    view
}

fn title(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(LONGEST_TITLE).collect()
}

/// The beginning of a recorded input.
fn title_of(records: &[Record]) -> Option<String> {
    let Some(RecordKind::RunStarted { invocation: Some(invocation), .. }) =
        records.first().map(|record| &record.body)
    else {
        return None;
    };
    let input = &invocation["input"];
    match (&input["message"], &input["json"]) {
        (Value::String(message), _) => Some(title(message)),
        (_, Value::Null) => None,
        (_, json) => Some(title(&json.to_string())),
    }
}

impl Service {
    /// A run under way as the app reads it.
    pub(crate) fn run_view(&self, live: &LiveRun) -> Value {
        let mut view = json!({
            "run": live.id,
            "program": live.program,
            "worker": live.worker,
            "chat": live.chat,
            "client": BY,
            "state": live.state(),
            "started_ms": live.started_ms,
        });
        if let Some(title) = &live.title {
            view["title"] = title.as_str().into();
        }
        let questions: Vec<Value> =
            live.desk.waiting().into_iter().map(|waiting| question_view(waiting, true)).collect();
        if !questions.is_empty() {
            view["questions"] = questions.into();
        }
        view
    }

    /// A stored run as the app reads it. `whole`: with its output.
    fn stored_view(&self, stored: &Stored, whole: bool) -> Value {
        let records = &stored.read.records;
        let (mut state, mut reason) = state_of(records);
        if let Some(halted) = self.halted(&stored.id) {
            (state, reason) = ("cut_off", Some(halted));
        }
        let (first, last) = (records.first(), records.last());
        let started_ms = first.map_or(0, |record| record.at_ms);
        let mut view = json!({
            "run": stored.id,
            "program": stored.program,
            "worker": "",
            "chat": false,
            "client": BY,
            "state": state,
            "started_ms": started_ms,
        });
        if let Some(RecordKind::RunStarted { entry, chat, .. }) = first.map(|record| &record.body) {
            view["worker"] = entry.to_string().into();
            view["chat"] = (*chat).into();
        }
        if stored.read.seals.is_none() {
            view["outside"] = true.into();
        }
        if let Some(reason) = reason {
            view["reason"] = reason.into();
        }
        if let Some(title) = title_of(records) {
            view["title"] = title.into();
        }
        let usage = journal::view_of(records).usage();
        if usage != Usage::default() {
            view["usage"] = json!(usage);
        }
        match last.map(|record| (&record.body, record.at_ms)) {
            Some((RecordKind::RunEnded { ending, .. }, at_ms)) => {
                view["took_ms"] = at_ms.saturating_sub(started_ms).into();
                match ending {
                    Ending::Output(output) if whole => view["output"] = (**output).clone(),
                    Ending::Failure(failure) if state != "cut_off" => view["failure"] = json!(failure),
                    _ => {}
                }
            }
            _ if whole && state == "waiting" => {
                let waiting = History::of(records.clone()).waiting();
                view["questions"] = waiting.into_iter().map(|waiting| question_view(waiting, true)).collect();
            }
            _ => {}
        }
        view
    }

    /// Starts a run. Returns it with the status of the answer.
    ///
    /// # Errors
    /// The run can't start.
    pub(crate) async fn start_run(
        self: &Arc<Self>,
        route: &Route<'_>,
    ) -> Result<(Arc<LiveRun>, u16), ApiError> {
        let body: Value = route.body()?;
        let mut canonical = body.clone();
        canonical.sort_all_objects();
        let fingerprint = sha256(canonical.to_string().as_bytes());
        let request: StartRun = serde_json::from_value(body)
            .map_err(|error| ApiError::bad(format!("the body is wrong: {error}")))?;
        let key = route.header("idempotency-key").map(str::to_owned);
        if let Some(key) = &key
            && let Some(run) = self.keyed(key, &fingerprint)?
            && let Some(live) = self.run(&run)
        {
            return Ok((live, 200));
        }
        if request.message.is_some() == request.input.is_some() {
            return Err(ApiError::bad("give either `message` or `input`"));
        }
        if !request.attachments.is_empty() {
            return Err(ApiError::not_in_page("attachments: name the file in the message"));
        }
        let name = match &request.program {
            Some(name) => name.clone(),
            None => match self.program_names().await?.as_slice() {
                [only] => only.clone(),
                _ => return Err(ApiError::bad("program: the page has several programs, name one")),
            },
        };
        let program = self.program(&name).await?;
        let worker = match &request.worker {
            Some(worker) => Some(worker.clone()),
            None => program.exported().await.into_iter().next().flatten(),
        };
        let (id, guard) = self.new_run(&program.name).await?;
        let asked = Asked {
            chat: request.chat,
            approval: request.approval,
            ask: request.ask,
            deny: request.deny,
            budget: request.budget,
        };
        let (options, run) = (self.options(), Some(Arc::clone(&id)));
        let given = |host: &PageHost| run_options(&options, &asked, host);
        let opened = program.session(worker.as_deref(), &options, run, &BTreeMap::new(), given).await;
        let session = opened.inspect_err(|_| self.unlock(&program.name, &id))?;
        let arguments = request.input.as_ref().and_then(Value::as_object);
        if let Some(name) = arguments.and_then(|arguments| not_for_clients(session.entry(), arguments)) {
            self.unlock(&program.name, &id);
            return Err(ApiError::new(422, "bad_input", format!("the worker has no parameter `{name}`")));
        }
        let text = match (&request.message, &request.input) {
            (Some(message), _) => message.clone(),
            (None, input) => input.as_ref().map(ToString::to_string).unwrap_or_default(),
        };
        let shown = Some(title(&text)).filter(|_| !session.holds_secret(&text));
        let input = Input { message: request.message, json: request.input, ..Input::default() };
        let feed = Arc::new(Feed::new(self.bridge.clone(), Arc::clone(&id), Vec::new()));
        let log = self.log(&program.name, &id, &session, self.sealer()?.chain(&id), &feed);
        let desk = Arc::new(Desk::default());
        let run = session.start(
            Arc::clone(&id),
            log,
            &input,
            Some(Arc::clone(&desk) as _),
            Some(Arc::clone(&feed) as _),
        );
        let run = run.inspect_err(|_| self.unlock(&program.name, &id))?;
        let live = LiveRun::new(
            &run,
            Arc::clone(&program.name),
            Arc::clone(&session.entry().id),
            request.chat,
            shown,
            self.bridge.now_ms(),
            (desk, feed),
        );
        if let Some(key) = key {
            self.remember_key(key, fingerprint, &id);
        }
        self.set_off(&live, run, guard);
        match live.until_longer(0).await {
            true => Ok((live, 201)),
            false => {
                Err(ApiError::storage(self.halted(&id).unwrap_or_else(|| "the run left no record".into())))
            }
        }
    }

    fn log(
        &self,
        program: &str,
        id: &Arc<str>,
        session: &Session<PageHost>,
        seals: llm_do_records::Chain,
        feed: &Arc<Feed>,
    ) -> PageLog {
        let redactor = Arc::clone(llm_do_host::Host::redactor(&**session.host()));
        PageLog::new(
            self.bridge.clone(),
            Arc::clone(id),
            folder_of(program, id),
            redactor,
            seals,
            Arc::clone(feed),
        )
    }

    /// Reserves the ID of a new run.
    async fn new_run(&self, program: &str) -> Result<(Arc<str>, crate::bridge::Taken), ApiError> {
        loop {
            let now = i64::try_from(self.bridge.now_ms()).unwrap_or(i64::MAX);
            let now = Timestamp::from_millisecond(now).unwrap_or_default();
            let millisecond = u16::try_from(now.subsec_millisecond()).unwrap_or(0);
            let random = u16::try_from(self.bridge.random() % 64).unwrap_or(0);
            let time = now.to_zoned(TimeZone::UTC).strftime("%Y%m%d-%H%M%S").to_string();
            let id: Arc<str> = format!("{time}-{:04x}", millisecond << 6 | random).into();
            let path = folder_of(program, &id);
            let found = self.bridge.perform(|effect| Effect::Stat { id: effect, path }).await;
            let is_free = matches!(found, Err(error) if error.kind == ErrorKind::Missing);
            if is_free && let Some(guard) = self.lock(program, &id).await? {
                return Ok((id, guard));
            }
        }
    }

    /// Takes the lock of a run. `None`: this engine executes it.
    async fn lock(&self, program: &str, id: &Arc<str>) -> Result<Option<crate::bridge::Taken>, ApiError> {
        let Some(guard) = self.busy.take(id) else { return Ok(None) };
        let name = format!("run:{program}/{id}");
        match self.bridge.perform(|effect| Effect::Lock { id: effect, name }).await {
            Ok(_) => Ok(Some(guard)),
            Err(error) if error.kind == ErrorKind::Held => {
                Err(ApiError::conflict("the run is under way in another tab"))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn unlock(&self, program: &str, id: &str) {
        self.bridge.emit(Effect::Unlock { name: format!("run:{program}/{id}") });
    }

    /// Begins to execute a run.
    fn set_off(self: &Arc<Self>, live: &Arc<LiveRun>, run: Run, guard: crate::bridge::Taken) {
        self.bridge.mend(&live.id);
        self.add_run(live);
        let (service, live) = (Arc::clone(self), Arc::clone(live));
        let running = run.finish();
        self.spawner.spawn(Box::pin(async move {
            let ended = running.await;
            let halted = match (&ended.report.halt, service.bridge.broken(&live.id)) {
                (_, Some(reason)) => Some(reason),
                (Some(halt @ (Halt::Journal(_) | Halt::Diverged { .. })), None) => Some(halt.to_string()),
                (_, None) => None,
            };
            let state = match &halted {
                Some(_) => "cut_off",
                None => name_of(ended.report.status),
            };
            live.feed.close();
            live.ended();
            service.remove_run(&live, state, halted);
            service.unlock(&live.program, &live.id);
            drop(guard);
        }));
    }

    /// Finds a run that is not executed here.
    async fn stored(&self, id: &str) -> Result<Stored, ApiError> {
        if !is_run_id(id) {
            return Err(ApiError::no_run(id));
        }
        let sealer = self.sealer()?;
        for program in self.program_names().await? {
            match journal::read(&self.bridge, &program, id, &sealer).await {
                Ok(read) => return Ok(Stored { program: program.into(), id: id.into(), read }),
                Err(error) if error.kind == ErrorKind::Missing => {}
                Err(error) => return Err(ApiError::new(500, "internal", error.message)),
            }
        }
        Err(ApiError::no_run(id))
    }

    /// Returns one run.
    ///
    /// # Errors
    /// There is none.
    pub(crate) async fn show_run(&self, id: &str) -> Result<Value, ApiError> {
        match self.run(id) {
            Some(live) => Ok(self.run_view(&live)),
            None => Ok(self.stored_view(&self.stored(id).await?, true)),
        }
    }

    /// Returns the runs of all programs as lists show them, newest first, with the records of those that are stored.
    async fn all_runs(&self, program: Option<&str>) -> Result<Vec<(Value, Option<Stored>)>, ApiError> {
        let sealer = self.sealer()?;
        let mut runs = Vec::new();
        for name in self.program_names().await? {
            if program.is_some_and(|wanted| wanted != name) {
                continue;
            }
            let path = runs_of(&name);
            let listed =
                self.bridge.perform(|id| Effect::List { id, path, deep: false, most: 100_000 }).await;
            let Ok(Done { entries, .. }) = listed else { continue };
            for entry in
                entries.into_iter().filter(|entry| entry.kind == FileKind::Folder && is_run_id(&entry.path))
            {
                if let Some(live) = self.run(&entry.path) {
                    runs.push((self.run_view(&live), None));
                    continue;
                }
                // A folder without a record is no run.
                let Ok(read) = journal::read(&self.bridge, &name, &entry.path, &sealer).await else {
                    continue;
                };
                let stored = Stored { program: name.as_str().into(), id: entry.path.into(), read };
                runs.push((self.stored_view(&stored, false), Some(stored)));
            }
        }
        runs.sort_by(|(a, _), (b, _)| b["run"].as_str().cmp(&a["run"].as_str()));
        Ok(runs)
    }

    /// Returns a page of the runs.
    ///
    /// # Errors
    /// The query is wrong.
    pub(crate) async fn list_runs(&self, route: &Route<'_>) -> Result<Value, ApiError> {
        let limit = match route.query("limit") {
            None => PAGE,
            Some(text) => text.parse().unwrap_or(0),
        };
        if !(1..=LARGEST_PAGE).contains(&limit) {
            return Err(ApiError::bad(format!("limit: a number from 1 to {LARGEST_PAGE}")));
        }
        let before = route.query("before");
        let states: Vec<&str> =
            route.query("state").unwrap_or_default().split(',').filter(|state| !state.is_empty()).collect();
        let chat = route.flag("chat")?;
        let text = route.query("q").map(str::to_lowercase).filter(|text| !text.is_empty());
        let runs = self.all_runs(route.query("program")).await?;
        let admitted = runs.into_iter().filter(|(run, stored)| {
            let is = |field: &str, wanted: Option<&str>| wanted.is_none_or(|wanted| run[field] == *wanted);
            before.is_none_or(|before| run["run"].as_str() < Some(before))
                && is("worker", route.query("worker"))
                && chat.is_none_or(|chat| run["chat"] == chat)
                && (states.is_empty() || states.iter().any(|state| run["state"] == **state))
                && text.as_deref().is_none_or(|text| {
                    let output = stored.as_ref().and_then(|stored| match stored.read.records.last()?.body {
                        RecordKind::RunEnded { ending: Ending::Output(ref output), .. } => {
                            Some(output.to_string())
                        }
                        _ => None,
                    });
                    format!("{run}{}", output.unwrap_or_default()).to_lowercase().contains(text)
                })
        });
        let mut page: Vec<Value> = admitted.map(|(run, _)| run).take(limit + 1).collect();
        let more = page.len() > limit;
        page.truncate(limit);
        let mut list = json!({"runs": page});
        if more && let Some(last) = page.last() {
            list["next"] = last["run"].clone();
        }
        Ok(list)
    }

    /// Streams the events of a run.
    ///
    /// # Errors
    /// There is no such run.
    pub(crate) async fn follow_run(
        &self,
        request: RequestId,
        id: &str,
        after: Option<u64>,
        view: bool,
    ) -> Result<(), ApiError> {
        if let Some(live) = self.run(id) {
            live.feed.follow(request, after, view);
            return Ok(());
        }
        let Stored { read, .. } = self.stored(id).await?;
        let records: Vec<Arc<Record>> = read.records.into_iter().map(Arc::new).collect();
        let (text, _) = texts_of(&records, after, view);
        self.bridge.stream(request, None);
        if !text.is_empty() {
            self.bridge.emit(Effect::Piece { request, run: None, text });
        }
        self.bridge.emit(Effect::End { request });
        Ok(())
    }

    /// Gives an answer to a run, which continues if it waited.
    ///
    /// # Errors
    /// The answer is not taken, or the run can't continue.
    pub(crate) async fn answer_run(self: &Arc<Self>, id: &str, given: GiveAnswer) -> Result<(), ApiError> {
        let GiveAnswer { id: question, digest, answer } = given;
        let live = self.continue_run(id).await?;
        live.answer(&question, Some(&digest), answer, self.bridge.now_ms()).await
    }

    /// Gives a message to a chat, which continues if it waited.
    ///
    /// # Errors
    /// The message is not taken, or the run can't continue.
    pub(crate) async fn message_run(
        self: &Arc<Self>,
        id: &str,
        given: SendMessage,
    ) -> Result<bool, ApiError> {
        let was_live = self.run(id).is_some();
        let live = self.continue_run(id).await?;
        if !live.chat {
            return Err(ApiError::conflict(format!("the run `{id}` is no chat")));
        }
        // A chat that was continued puts the question of its turn again, or goes on with an answer.
        let begun = live.feed.len();
        let is_ready = || was_live || live.desk.waits() || live.feed.len() > begun || live.is_over();
        while !is_ready() {
            select(
                pin!(live.desk.changed.until(|| is_ready().then_some(()))),
                pin!(live.feed.recorded.until(|| is_ready().then_some(()))),
            )
            .await;
        }
        live.say(given.text, given.now, self.bridge.now_ms()).await
    }

    /// Returns a run under way, after it continues if it was cut off or waits.
    ///
    /// # Errors
    /// The run is over, its program has changed, or another tab executes it.
    pub(crate) async fn continue_run(self: &Arc<Self>, id: &str) -> Result<Arc<LiveRun>, ApiError> {
        if let Some(live) = self.run(id) {
            return Ok(live);
        }
        let stored = self.stored(id).await?;
        let Stored { program: name, id, .. } = &stored;
        let guard = self.lock(name, id).await?;
        let guard = guard.ok_or_else(|| ApiError::conflict("the run is just being continued"))?;
        // Read again: another tab may have written it until it gave the lock back.
        let read = journal::read(&self.bridge, name, id, &self.sealer()?).await;
        let continued = match read {
            Ok(read) => self.reopened(name, id, read).await,
            Err(error) => Err(error.into()),
        };
        let (live, run) = continued.inspect_err(|_| self.unlock(name, id))?;
        self.set_off(&live, run, guard);
        Ok(live)
    }

    /// Opens a run again from its records.
    async fn reopened(
        &self,
        name: &str,
        id: &Arc<str>,
        read: journal::Read,
    ) -> Result<(Arc<LiveRun>, Run), ApiError> {
        let journal::Read { records, bytes, whole_bytes, seals, lines } = read;
        if let Some(RecordKind::RunEnded { status, .. }) = records.last().map(|record| &record.body)
            && !matches!(status, RunStatus::Suspended | RunStatus::Interrupted)
        {
            return Err(ApiError::conflict(format!(
                "the run is {}: there is nothing left to do",
                name_of(*status)
            )));
        }
        let Some(seals) = seals else {
            return Err(ApiError::conflict(
                "the run was not written in this browser, or was changed since: it can be looked at, and not be continued",
            ));
        };
        let Some(Record {
            body: RecordKind::RunStarted { entry, chat, approval, date, definitions, invocation, .. },
            at_ms,
            ..
        }) = records.first()
        else {
            return Err(ApiError::conflict("the run was cut off before its first record"));
        };
        let invocation = Invocation::deserialize(invocation.as_deref().cloned().unwrap_or_default());
        let invocation =
            invocation.map_err(|error| ApiError::conflict(format!("the run can't be continued: {error}")))?;
        let (chat, date, started_ms, input) = (*chat, Arc::clone(date), *at_ms, invocation.input.clone());
        let program = self.program(name).await?;
        let options = self.options();
        let given = |host: &PageHost| {
            let base = run_options(&options, &Asked::default(), host)?;
            let real = |path: &std::path::Path| llm_do_host::Host::real(host, path);
            let options =
                invocation.options(base, &real).map_err(|error| ApiError::conflict(error.to_string()))?;
            // The mode decides which tools a worker is offered, so that it can't change.
            Ok(RunOptions { mode: Some(*approval), unattended: Mode::Defer, ..options })
        };
        let session =
            program.session(Some(entry), &options, Some(Arc::clone(id)), &BTreeMap::new(), given).await?;
        let changed = definitions.iter().find(|then| {
            let same = |now: &&llm_do_core::journal::UsedDefinition| {
                now.worker == then.worker && now.sha256 == then.sha256
            };
            !session.definitions().iter().any(|now| same(&now))
        });
        if let Some(changed) = changed {
            return Err(ApiError::conflict(format!(
                "`{}` ({}) has changed since the run began: a run can be continued only with the workers that it began with",
                changed.worker, changed.file
            )));
        }
        if bytes != whole_bytes {
            // The end of the file is half a record, of a write that was cut off.
            self.bridge.store(id, format!("{}/journal.jsonl", folder_of(name, id)), &lines);
        }
        let history = History::of(records.clone());
        let start = session.prepare(&input, !history.has_conversation(&CallPath::root()))?;
        let desk = Arc::new(Desk::default());
        for record in &records {
            if let RecordKind::Answered(given) = &record.body {
                desk.was_answered(QuestionId::new(&record.path, &record.step), Arc::clone(&given.by));
            }
        }
        for queued in history.queued(&CallPath::root()) {
            let said = Said {
                text: queued.text.to_string(),
                by: Arc::clone(&queued.by),
                via: Arc::clone(&queued.via),
            };
            desk.queue(said);
        }
        let title = title_of(&records);
        let feed = Arc::new(Feed::new(self.bridge.clone(), Arc::clone(id), records));
        let log = self.log(name, id, &session, seals, &feed);
        let ports = RunPorts {
            id: Arc::clone(id),
            date,
            log,
            operator: Some(Arc::clone(&desk) as _),
            events: Some(Arc::clone(&feed) as _),
            untrusted: llm_do_host::Host::untrusted_places(&**session.host())?,
        };
        self.bridge.mend(id);
        let (run, _) = session.resumed(ports, start, history, BTreeMap::new()).map_err(ApiError::storage)?;
        let worker = Arc::clone(&session.entry().id);
        let live = LiveRun::new(&run, name.into(), worker, chat, title, started_ms, (desk, feed));
        Ok((live, run))
    }

    /// Returns a run as one HTML file.
    ///
    /// # Errors
    /// There is no such run.
    pub(crate) async fn export_run(&self, id: &str) -> Result<String, ApiError> {
        let (records, running) = match self.run(id) {
            Some(live) => (live.feed.records().iter().map(|record| (**record).clone()).collect(), true),
            None => (self.stored(id).await?.read.records, false),
        };
        let journal = Journal { records, torn: false, whole_bytes: 0 };
        Ok(page(&WholeRun::of(id, journal, running), None))
    }

    /// Compares a run with its program.
    ///
    /// # Errors
    /// There is no such run, or its program does not load.
    pub(crate) async fn replay_run(&self, id: &str) -> Result<Value, ApiError> {
        let Stored { program, read, .. } = self.stored(id).await?;
        let records = read.records;
        let Some(RecordKind::RunStarted { entry, approval, date, invocation, run, .. }) =
            records.first().map(|record| record.body.clone())
        else {
            return Err(ApiError::conflict("the run was cut off before its first record"));
        };
        let invocation = Invocation::deserialize(invocation.as_deref().cloned().unwrap_or_default());
        let invocation =
            invocation.map_err(|error| ApiError::conflict(format!("the run can't be replayed: {error}")))?;
        let model = records.iter().find_map(|record| match &record.body {
            RecordKind::ConversationStarted { model, .. } => Some(model.to_string()),
            _ => None,
        });
        let program = self.program(&program).await?;
        let options = self.options();
        let given = |host: &PageHost| {
            let mut base = run_options(&options, &Asked::default(), host)?;
            base.model = None;
            let real = |path: &std::path::Path| llm_do_host::Host::real(host, path);
            let options =
                invocation.options(base, &real).map_err(|error| ApiError::conflict(error.to_string()))?;
            Ok::<_, ApiError>(RunOptions { mode: Some(approval), unattended: Mode::Defer, ..options })
        };
        let opened = program.load(Some(&entry), &options, None, &BTreeMap::new()).await?;
        let redactor = Arc::clone(llm_do_host::Host::redactor(&**opened.host()));
        let driver = Arc::new(ReplayDriver::new(records.into(), redactor));
        let default = model.and_then(|name| name.parse().ok());
        let source = llm_do_host::ModelSource::Given { models: driver.models(), default };
        let session = opened.grant(given(opened.host())?, source)?.open()?;
        let start = session.prepare(&invocation.input, false)?;
        let context = session.context(run, date, Arc::clone(&driver) as _, driver.models());
        let ended = session.launch(context, start).run().await;
        let report = driver.report();
        if let (Some(halt @ (Halt::Journal(_) | Halt::Aborted { .. } | Halt::Diverged { .. })), None) =
            (ended.halt, &report.divergence)
        {
            return Err(ApiError::new(500, "internal", halt.to_string()));
        }
        let compared: &Compared = &report.compared;
        let divergence = report.divergence.as_ref().map(|divergence| {
            let sections: Vec<Section> = sections(&divergence.what);
            json!({"path": divergence.path, "step": divergence.step, "sections": sections})
        });
        Ok(json!({"compared": compared, "whole": report.whole, "divergence": divergence}))
    }

    /// Returns the costs of the runs.
    ///
    /// # Errors
    /// The query is wrong.
    pub(crate) async fn costs(&self, route: &Route<'_>) -> Result<Value, ApiError> {
        let since_ms: u64 = match route.query("since_ms") {
            None => 0,
            Some(text) => text.parse().map_err(|_| ApiError::bad("since_ms: a time in milliseconds"))?,
        };
        let mut lines: [BTreeMap<String, Line>; 4] = Default::default();
        let (mut total, mut dearest) = (Line::default(), Vec::new());
        for (mut view, stored) in self.all_runs(route.query("program")).await? {
            if view["started_ms"].as_u64().unwrap_or(0) < since_ms {
                continue;
            }
            let records: Vec<Arc<Record>> =
                match (&stored, self.run(view["run"].as_str().unwrap_or_default())) {
                    (Some(stored), _) => stored.read.records.iter().cloned().map(Arc::new).collect(),
                    (None, Some(live)) => live.feed.records(),
                    (None, None) => continue,
                };
            let spent = spent_by(&records);
            total.runs += 1;
            let day = i64::try_from(view["started_ms"].as_u64().unwrap_or(0)).unwrap_or(0);
            let day = Timestamp::from_millisecond(day).unwrap_or_default().to_zoned(TimeZone::UTC).date();
            let mut of_run: [BTreeMap<String, Line>; 4] = Default::default();
            for ((worker, model), one) in &spent {
                total.add(one);
                let program = view["program"].as_str().unwrap_or_default();
                let names = [format!("{program}/{worker}"), model.clone(), day.to_string(), BY.to_owned()];
                for (of_run, name) in of_run.iter_mut().zip(names) {
                    of_run.entry(name).or_default().add(one);
                }
            }
            for (lines, of_run) in lines.iter_mut().zip(of_run) {
                for (name, line) in of_run {
                    let all = lines.entry(name).or_default();
                    all.runs += 1;
                    all.add(&line);
                }
            }
            if !spent.is_empty() {
                view.as_object_mut().map(|view| view.remove("questions"));
                let all = spent.values().fold(Line::default(), |mut all, one| {
                    all.add(one);
                    all
                });
                view["usage"] = json!(all.usage);
                dearest.push((all.weight(), view));
            }
        }
        dearest.sort_by_key(|(weight, _)| Reverse(*weight));
        let [workers, models, days, clients] = lines.map(|lines| {
            let mut lines: Vec<_> = lines.into_iter().collect();
            lines.sort_by_key(|(_, line)| Reverse(line.weight()));
            lines
        });
        let mut days = days;
        days.sort_by(|(a, _), (b, _)| b.cmp(a));
        let shown = |lines: Vec<(String, Line)>| -> Vec<Value> {
            lines.into_iter().map(|(name, line)| line.view(&name)).collect()
        };
        let dearest: Vec<Value> = dearest.into_iter().take(DEAREST).map(|(_, view)| view).collect();
        Ok(json!({
            "total": total.view(""),
            "workers": shown(workers),
            "models": shown(models),
            "days": shown(days),
            "clients": shown(clients),
            "dearest": dearest,
            "more": false,
        }))
    }

    /// Returns the session of the worker that a run started with.
    pub(crate) async fn session_of_run(&self, id: &str) -> Result<Session<PageHost>, ApiError> {
        let (program, worker) = match self.run(id) {
            Some(live) => (live.program.to_string(), live.worker.to_string()),
            None => {
                let stored = self.stored(id).await?;
                let view = self.stored_view(&stored, false);
                (stored.program.to_string(), view["worker"].as_str().unwrap_or_default().to_owned())
            }
        };
        let program: Arc<PageProgram> = self.program(&program).await?;
        self.open_worker(&program, Some(&worker)).await
    }
}

/// Requests and their costs.
#[derive(Clone, Default)]
struct Line {
    runs: u64,
    requests: u64,
    unpriced: u64,
    usage: Usage,
}

impl Line {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.unpriced += other.unpriced;
        let cost_usd = match (self.usage.cost_usd, other.usage.cost_usd) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            (a, b) => a.or(b),
        };
        self.usage = Usage { cost_usd, ..self.usage.plus(other.usage) };
    }

    /// Costs first, then tokens.
    fn weight(&self) -> (Usd, u64) {
        (self.usage.cost_usd.unwrap_or(Usd::ZERO), self.usage.total())
    }

    fn view(&self, name: &str) -> Value {
        let Self { runs, requests, unpriced, usage } = self;
        json!({"name": name, "runs": runs, "requests": requests, "unpriced": unpriced, "usage": usage})
    }
}

/// Returns the costs of a run by worker and model.
fn spent_by(records: &[Arc<Record>]) -> BTreeMap<(String, String), Line> {
    let mut conversations: HashMap<&CallPath, (String, String)> = HashMap::new();
    let mut spent: BTreeMap<(String, String), Line> = BTreeMap::new();
    for record in records {
        match &record.body {
            RecordKind::ConversationStarted { worker, model, .. } => {
                conversations.insert(&record.path, (worker.to_string(), model.to_string()));
            }
            RecordKind::ModelChosen { model, .. } => {
                if let Some((_, chosen)) = conversations.get_mut(&record.path) {
                    *chosen = model.to_string();
                }
            }
            RecordKind::ModelAnswered { usage, .. } => {
                if let Some(by) = conversations.get(&record.path) {
                    let unpriced = usage.cost_usd.is_none().into();
                    let one = Line { runs: 0, requests: 1, unpriced, usage: *usage };
                    spent.entry(by.clone()).or_default().add(&one);
                }
            }
            _ => {}
        }
    }
    spent
}
