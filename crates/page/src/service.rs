//! The requests of the app.

use crate::{
    bridge::{Answer, Body, Bridge, Names},
    live::LiveRun,
    message::{AppRequest, Done, Effect, FileKind, Options, RequestId},
    problem::{ApiError, diagnostics},
    program::{Asked, PageProgram, run_options},
    routes::Route,
    tasks::Spawner,
};
use llm_do_core::{
    origin::UntrustedSet,
    worker::{WorkerDefinition, WorkerMode},
};
use llm_do_host::Session;
use llm_do_models::Providers;
use llm_do_program::signatures::client_schema;
use llm_do_records::Sealer;
use serde::Serialize;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The version of llm-do.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The programs and runs of a page.
pub(crate) struct Service {
    pub(crate) bridge: Bridge,
    pub(crate) spawner: Spawner,
    /// The runs that this engine starts or continues.
    pub(crate) busy: Names,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sealer: Option<Sealer>,
    options: Arc<Options>,
    programs: BTreeMap<String, Arc<PageProgram>>,
    untrusted: BTreeMap<String, Arc<UntrustedSet>>,
    runs: BTreeMap<Arc<str>, Arc<LiveRun>>,
    /// The runs that requests with a key have started.
    keys: HashMap<String, (String, Arc<str>)>,
    /// Why runs were cut off in this page.
    halted: BTreeMap<Arc<str>, String>,
    /// The streams of changes of runs.
    followers: Vec<RequestId>,
    questions: usize,
}

impl Service {
    pub(crate) fn new(bridge: Bridge, spawner: Spawner) -> Arc<Self> {
        Arc::new(Self { bridge, spawner, busy: Names::default(), state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(&self, seal_key: &[u8]) {
        let key = <[u8; 32]>::try_from(seal_key).ok();
        self.state().sealer = key.map(Sealer::from);
    }

    /// Returns the sealer of this browser.
    ///
    /// # Errors
    /// The host has given no key of 32 bytes.
    pub(crate) fn sealer(&self) -> Result<Sealer, ApiError> {
        let sealer = self.state().sealer.clone();
        sealer.ok_or_else(|| ApiError::storage("the host has given no key that seals journals"))
    }

    pub(crate) fn options(&self) -> Arc<Options> {
        Arc::clone(&self.state().options)
    }

    pub(crate) fn set_options(&self, options: Options) {
        self.state().options = Arc::new(options);
    }

    /// Reads a program again when it is needed next.
    pub(crate) fn changed(&self, program: &str) {
        self.state().programs.remove(program);
    }

    pub(crate) fn run(&self, id: &str) -> Option<Arc<LiveRun>> {
        self.state().runs.get(id).cloned()
    }

    pub(crate) fn runs(&self) -> Vec<Arc<LiveRun>> {
        self.state().runs.values().cloned().collect()
    }

    pub(crate) fn add_run(&self, live: &Arc<LiveRun>) {
        let mut state = self.state();
        state.halted.remove(&live.id);
        state.runs.insert(Arc::clone(&live.id), Arc::clone(live));
    }

    /// Removes a run that is over. `halted`: the reason why it was cut off.
    pub(crate) fn remove_run(&self, live: &LiveRun, state: &'static str, halted: Option<String>) {
        let followers = {
            let mut all = self.state();
            all.runs.remove(&live.id);
            if let Some(reason) = halted {
                all.halted.insert(Arc::clone(&live.id), reason);
            }
            all.followers.clone()
        };
        self.tell_run(&followers, live, state);
    }

    pub(crate) fn halted(&self, run: &str) -> Option<String> {
        self.state().halted.get(run).cloned()
    }

    /// Ends a run whose journal can't be written. If its task has ended meanwhile, its end is not recorded.
    pub(crate) fn break_off(&self, run: &Arc<str>, reason: String) {
        match self.run(run) {
            Some(live) => live.canceller.cancel(),
            None => drop(self.state().halted.insert(Arc::clone(run), reason)),
        }
    }

    /// The run that a request with that key has started.
    ///
    /// # Errors
    /// The key was used for another request.
    pub(crate) fn keyed(&self, key: &str, request: &str) -> Result<Option<Arc<str>>, ApiError> {
        match self.state().keys.get(key) {
            None => Ok(None),
            Some((of, run)) if of == request => Ok(Some(Arc::clone(run))),
            Some(_) => {
                let detail = "the Idempotency-Key was used for another request: use a new key for each different request";
                Err(ApiError::new(409, "key_reused", detail))
            }
        }
    }

    pub(crate) fn remember_key(&self, key: String, request: String, run: &Arc<str>) {
        self.state().keys.insert(key, (request, Arc::clone(run)));
    }

    /// Ends the stream to a request that the app does not read any more. Returns true if it was one.
    pub(crate) fn close(&self, request: RequestId) -> bool {
        let (runs, was_follower) = {
            let mut state = self.state();
            let before = state.followers.len();
            state.followers.retain(|follower| *follower != request);
            (state.runs.values().cloned().collect::<Vec<_>>(), state.followers.len() < before)
        };
        let left = runs.iter().any(|run| run.feed.leave(request));
        was_follower || left
    }

    /// Tells the streams of changes what has changed in this step.
    pub(crate) fn tell(&self) {
        let runs = self.runs();
        let questions = runs.iter().map(|run| run.desk.waiting().len()).sum();
        let (followers, is_new) = {
            let mut state = self.state();
            let is_new = state.questions != questions;
            state.questions = questions;
            (state.followers.clone(), is_new)
        };
        for run in runs {
            if let Some(state) = run.news() {
                self.tell_run(&followers, &run, state);
            }
        }
        if is_new {
            for request in followers {
                self.send(request, "questions", &json!({"count": questions}));
            }
        }
    }

    fn tell_run(&self, followers: &[RequestId], live: &LiveRun, state: &'static str) {
        let LiveRun { id, program, worker, chat, .. } = live;
        for request in followers {
            let notice =
                json!({"run": id, "program": program, "worker": worker, "state": state, "chat": chat});
            self.send(*request, "run", &notice);
        }
    }

    fn send(&self, request: RequestId, event: &str, data: &Value) {
        let text = format!("event: {event}\ndata: {data}\n\n");
        self.bridge.emit(Effect::Piece { request, run: None, text });
    }

    /// Returns a program.
    ///
    /// # Errors
    /// There is none of that name.
    pub(crate) async fn program(&self, name: &str) -> Result<Arc<PageProgram>, ApiError> {
        if let Some(program) = self.state().programs.get(name).cloned() {
            return Ok(program);
        }
        let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\']);
        if !is_name || name.chars().any(char::is_control) {
            return Err(crate::program::no_program(name));
        }
        let untrusted = Arc::clone(self.state().untrusted.entry(name.to_owned()).or_default());
        let program = PageProgram::open(&self.bridge, name, untrusted).await?;
        self.state().programs.insert(name.to_owned(), Arc::clone(&program));
        Ok(program)
    }

    /// Returns the names of the programs.
    pub(crate) async fn program_names(&self) -> Result<Vec<String>, ApiError> {
        let listed =
            self.bridge.perform(|id| Effect::List { id, path: String::new(), deep: false, most: 1000 });
        let Done { entries, .. } = listed.await?;
        let folders = entries.into_iter().filter(|entry| entry.kind == FileKind::Folder);
        let mut names: Vec<String> =
            folders.map(|entry| entry.path).filter(|name| !name.starts_with('.')).collect();
        names.sort();
        Ok(names)
    }

    fn json(&self, request: &AppRequest, status: u16, value: &impl Serialize) {
        let body = Body::Text(serde_json::to_string(value).unwrap_or_default());
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        self.bridge.respond(request.id, None, Answer { status, headers, body });
    }

    fn nothing(&self, request: &AppRequest, status: u16, run: Option<&Arc<str>>) {
        self.bridge.respond(
            request.id,
            run.cloned(),
            Answer { status, headers: Vec::new(), body: Body::None },
        );
    }

    /// Answers a request.
    ///
    /// # Errors
    /// The request was not carried out.
    pub(crate) async fn answer(self: &Arc<Self>, request: &AppRequest) -> Result<(), ApiError> {
        let route = Route::of(request)?;
        let path: Vec<&str> = route.path.iter().map(String::as_str).collect();
        match (route.method, path.as_slice()) {
            ("GET", ["v1", "session"]) => self.json(request, 200, &self.session()),
            ("POST", ["v1", "session"]) => self.json(request, 200, &json!({"secret": "page", "idle_s": 0})),
            ("DELETE", ["v1", "session"]) => self.nothing(request, 204, None),
            ("GET", ["v1", "programs"]) => {
                let mut programs = Vec::new();
                for name in self.program_names().await? {
                    programs.push(self.program_view(&name).await?);
                }
                self.json(request, 200, &json!({"programs": programs}));
            }
            ("GET", ["v1", "workers"]) => {
                let mut workers = Vec::new();
                for name in self.program_names().await? {
                    // A program that does not load has no workers: its findings say why.
                    workers.extend(self.workers_of(&name).await.unwrap_or_default());
                }
                self.json(request, 200, &json!({"workers": workers}));
            }
            ("POST", ["v1", "runs"]) => {
                let (live, status) = self.start_run(&route).await?;
                let body = Body::Text(self.run_view(&live).to_string());
                let headers = vec![
                    ("content-type".to_owned(), "application/json".to_owned()),
                    ("location".to_owned(), format!("/v1/runs/{}", live.id)),
                ];
                self.bridge.respond(request.id, Some(Arc::clone(&live.id)), Answer { status, headers, body });
            }
            ("GET", ["v1", "runs"]) => self.json(request, 200, &self.list_runs(&route).await?),
            ("GET", ["v1", "runs", run]) => self.json(request, 200, &self.show_run(run).await?),
            ("GET", ["v1", "runs", run, "events"]) => {
                let after = match route.header("last-event-id") {
                    Some(text) => Some(
                        text.parse()
                            .map_err(|_| ApiError::bad("Last-Event-ID is not the number of a record"))?,
                    ),
                    None => None,
                };
                self.follow_run(request.id, run, after, route.flag("view")?.unwrap_or(false)).await?;
            }
            ("POST", ["v1", "runs", run, "answers"]) => {
                self.answer_run(run, route.body()?).await?;
                self.nothing(request, 204, Some(&Arc::from(*run)));
            }
            ("POST", ["v1", "runs", run, "messages"]) => {
                let delivered = self.message_run(run, route.body()?).await?;
                let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
                let body = Body::Text(json!({"delivered": delivered}).to_string());
                self.bridge.respond(request.id, Some(Arc::from(*run)), Answer { status: 200, headers, body });
            }
            ("POST", ["v1", "runs", run, "stop"]) => {
                let live = self.run(run).ok_or_else(|| ApiError::no_run(run))?;
                if !live.chat {
                    return Err(ApiError::conflict(format!("the run `{}` is no chat: cancel it", live.id)));
                }
                live.stop();
                self.nothing(request, 204, None);
            }
            ("POST", ["v1", "runs", run, "cancel"]) => {
                let live = self.run(run).ok_or_else(|| {
                    ApiError::conflict("the run is not under way: only a run that is can be cancelled")
                })?;
                live.canceller.cancel();
                live.until_over().await;
                self.nothing(request, 202, Some(&live.id));
            }
            ("POST", ["v1", "runs", run, "continue"]) => {
                let live = self.continue_run(run).await?;
                self.nothing(request, 202, Some(&live.id));
            }
            ("POST", ["v1", "runs", run, "replay"]) => self.json(request, 200, &self.replay_run(run).await?),
            ("GET", ["v1", "runs", run, "export"]) => {
                let headers = vec![("content-type".to_owned(), "text/html; charset=utf-8".to_owned())];
                let body = Body::Text(self.export_run(run).await?);
                self.bridge.respond(request.id, None, Answer { status: 200, headers, body });
            }
            ("GET", ["v1", "runs", run, "files"]) => {
                let path = route.query("path").unwrap_or("/");
                self.json(request, 200, &self.folder_of_run(run, path).await?);
            }
            ("GET", ["v1", "runs", run, "files", "content"]) => {
                let path = route.query("path").unwrap_or("/");
                let (bytes, name) = self.file_of_run(run, path).await?;
                let headers = vec![
                    ("content-type".to_owned(), "application/octet-stream".to_owned()),
                    ("content-disposition".to_owned(), format!("attachment; filename=\"{name}\"")),
                ];
                self.bridge.respond(
                    request.id,
                    None,
                    Answer { status: 200, headers, body: Body::Bytes(bytes) },
                );
            }
            ("GET", ["v1", "questions"]) => {
                let previews = route.flag("previews")?.unwrap_or(true);
                let mut questions = Vec::new();
                for live in self.runs() {
                    for waiting in live.desk.waiting() {
                        let mut question = crate::runs::question_view(waiting, previews);
                        question["run"] = json!(live.id);
                        question["program"] = json!(live.program);
                        question["client"] = json!(crate::live::BY);
                        questions.push(question);
                    }
                }
                self.json(request, 200, &json!({"questions": questions}));
            }
            ("GET", ["v1", "events"]) => {
                self.bridge.stream(request.id, None);
                let count = {
                    let mut state = self.state();
                    state.followers.push(request.id);
                    state.questions
                };
                self.send(request.id, "questions", &json!({"count": count}));
            }
            ("GET", ["v1", "costs"]) => self.json(request, 200, &self.costs(&route).await?),
            ("GET", ["v1", "programs", program, "files"]) => {
                self.json(request, 200, &self.definitions(program).await?);
            }
            ("GET", ["v1", "programs", program, "files", "content"]) => {
                let path = route.query("path").unwrap_or_default();
                self.json(request, 200, &self.definition(program, path).await?);
            }
            ("PUT", ["v1", "programs", program, "files", "content"]) => {
                self.json(request, 200, &self.save(program, route.body()?).await?);
            }
            ("POST", ["v1", "programs", program, "check"]) => {
                #[derive(serde::Deserialize)]
                #[serde(deny_unknown_fields)]
                struct Texts {
                    #[serde(default)]
                    files: BTreeMap<String, String>,
                }
                let Texts { files } = route.body()?;
                let found = self.program(program).await?.check(&files).await;
                self.json(request, 200, &json!({"diagnostics": diagnostics(&found)}));
            }
            ("POST", ["v1", "programs", program, "prompt"]) => {
                self.json(request, 200, &self.prompt(program, route.body()?).await?);
            }
            ("POST", ["v1", "programs", program, kind @ ("completion" | "hover" | "definition")]) => {
                self.json(request, 200, &self.language(program, kind, route.body()?).await?);
            }
            ("POST", ["v1", "uploads"]) => {
                return Err(ApiError::not_in_page("uploads: write the file into the program's folder"));
            }
            (_, ["v1", "triggers", ..]) => return Err(ApiError::not_in_page("triggers")),
            (_, ["v1", "programs", _, "tests", ..]) => return Err(ApiError::not_in_page("tests")),
            (_, ["v1", "programs", _, "maps", ..]) => return Err(ApiError::not_in_page("maps")),
            (
                _,
                ["v1", "models" | "chat" | "responses" | "ag-ui" | "notify", ..] | ["mcp" | "answer", ..],
            ) => {
                return Err(ApiError::not_in_page("interfaces for other programs"));
            }
            _ => return Err(ApiError::not_found("there is no such path")),
        }
        Ok(())
    }

    fn session(&self) -> Value {
        json!({
            "name": crate::live::BY,
            "scopes": ["start", "read", "answer", "edit"],
            "read": "all",
            "models": self.models(),
            "version": VERSION,
        })
    }

    /// The models that the visitor can use: those that are named, and the usual ones of providers with keys.
    fn models(&self) -> Vec<String> {
        let options = self.options();
        let mut models: Vec<String> = options.model.iter().chain(&options.default_model).cloned().collect();
        let has_key = |provider: &&str| {
            let keys = Providers::key_variables(provider).unwrap_or_default();
            keys.iter().any(|key| options.keys.contains_key(*key))
        };
        let providers = ["anthropic", "openai", "gemini", "openrouter", "mistral", "groq", "xai", "deepseek"];
        models.extend(
            providers.iter().filter(|name| has_key(name)).filter_map(|name| Providers::usual_model(name)),
        );
        models.sort();
        models.dedup();
        models
    }

    async fn program_view(&self, name: &str) -> Result<Value, ApiError> {
        let program = self.program(name).await?;
        let found = program.check(&BTreeMap::new()).await;
        let errors = found.iter().filter(|found| found.is_error()).count();
        let session = self.open_worker(&program, None).await.ok();
        let description = session.as_ref().and_then(|session| {
            let manifest = session.program().manifest().description.as_ref().map(ToString::to_string);
            manifest.or_else(|| session.entry().description.as_ref().map(ToString::to_string))
        });
        let mut view = json!({
            "program": name,
            "edit": true,
            "findings": {"errors": errors, "warnings": found.len() - errors},
        });
        if let Some(description) = description {
            view["description"] = description.into();
        }
        Ok(view)
    }

    /// Opens a worker to look at it.
    pub(crate) async fn open_worker(
        &self,
        program: &PageProgram,
        worker: Option<&str>,
    ) -> Result<Session<crate::host::PageHost>, ApiError> {
        let options = self.options();
        let given = |host: &crate::host::PageHost| run_options(&options, &Asked::default(), host);
        program.session(worker, &options, None, &BTreeMap::new(), given).await
    }

    async fn workers_of(&self, name: &str) -> Result<Vec<Value>, ApiError> {
        let program = self.program(name).await?;
        let mut views = Vec::new();
        for (number, worker) in program.exported().await.into_iter().enumerate() {
            let session = self.open_worker(&program, worker.as_deref()).await?;
            let entry = session.entry();
            let reach = session.reach();
            let mut view = json!({
                "program": name,
                "worker": entry.id,
                "default": number == 0,
                "input": input_schema(entry),
                "chat": entry.mode == WorkerMode::Chat,
                "changes": reach.changes,
                "network": reach.network,
            });
            if let Some(description) = &entry.description {
                view["description"] = description.to_string().into();
            }
            if let Some(schema) = &entry.returns {
                view["output"] = (**schema.value()).clone();
            }
            if let Some(model) = session.model_name() {
                view["model"] = model.to_string().into();
            }
            views.push(view);
        }
        Ok(views)
    }
}

/// The schema of a worker's input, in which files and folders have the format `path`.
fn input_schema(worker: &WorkerDefinition) -> Value {
    let mut schema = client_schema(worker);
    for parameter in worker.signature.parameters.iter().filter(|parameter| parameter.path.is_some()) {
        if let Some(property) = schema.get_mut("properties").and_then(|all| all.get_mut(&*parameter.name)) {
            property["format"] = "path".into();
        }
    }
    schema.into()
}
