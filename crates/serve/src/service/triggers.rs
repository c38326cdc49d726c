//! Runs that start by themselves (`docs/reference/triggers.md`): by the clock, by a signed request, by a file in a folder.
//!
//! A trigger is a client of the service. Each event has a key, and starts a run as a request with that Idempotency-Key does: the
//! journal of the run holds the key, so that no later process starts another run for the event.

mod cron;
mod folder;
mod schedule;
mod slots;
mod webhook;

pub(crate) use webhook::Delivered;

use super::Service;
use crate::{
    error::{ApiError, Code},
    known::KnownNames,
    live::LiveRun,
    log::LogEntry,
    program::{Programs, Served},
    signing::Secret,
    token::{Scope, Token, Tokens},
    trigger_settings::{BadTrigger, Concurrency, PREFIX, TriggerSettings, WebhookSettings},
    views::{StartRun, State},
};
use futures_util::future::select_all;
use jiff::Timestamp;
use llm_do::{
    client_schema,
    core::{authority::Access, schema::Schema},
    program::signature::{Given, input_value},
};
use schedule::Schedule;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use slots::Slots;
use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Most runs of a trigger that wait for the end of an earlier one.
const MOST_WAITING: usize = 100;
/// Largest body of a delivery, unless the settings give another size.
const LARGEST_BODY: u64 = 1 << 20;
/// The time that a file stays the same before its run starts, unless the settings say otherwise.
const SETTLED: Duration = Duration::from_secs(2);
/// The time after which an event is tried again whose run found no room.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// The source of a trigger's events.
enum Kind {
    Cron { schedule: Box<Schedule>, slots: Slots },
    Webhook { settings: WebhookSettings, secret: Secret },
    Folder { path: PathBuf, settled: Duration, files: KnownNames },
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Cron { .. } => "cron",
            Self::Webhook { .. } => "webhook",
            Self::Folder { .. } => "folder",
        }
    }

    /// The fields of the trigger's events.
    fn fields(&self) -> &'static [&'static str] {
        match self {
            Self::Cron { .. } => &["slot", "date"],
            Self::Webhook { .. } => &["body"],
            Self::Folder { .. } => &["name", "bytes", "file"],
        }
    }
}

/// A trigger with valid settings.
pub(crate) struct Trigger {
    pub(crate) name: Arc<str>,
    kind: Kind,
    /// The token of the client that starts the trigger's runs. It has no text, so no request can have it.
    token: Token,
    program: Arc<str>,
    worker: Arc<str>,
    message: Option<String>,
    input: Map<String, Value>,
    from: BTreeMap<String, String>,
    concurrency: Concurrency,
    at_once: usize,
    /// A lock that is held while an event starts its run: runs start one after the other.
    turn: tokio::sync::Mutex<()>,
    /// The reason why the last event started no run, if it started none.
    problem: Mutex<Option<String>>,
}

/// An event that starts a run.
struct Event {
    /// The name of the event in all processes.
    key: String,
    fields: Value,
    /// The name and content of the event's file.
    file: Option<(String, Vec<u8>)>,
}

/// The outcome of an event.
enum Fired {
    /// The event started that run.
    Started(Arc<str>),
    /// The event had started that run before.
    Known(Arc<str>),
    /// The event started no run, because earlier runs are under way.
    Skipped,
}

/// The triggers of a service.
#[derive(Default)]
pub(crate) struct Triggers(Vec<Arc<Trigger>>);

impl Triggers {
    /// The triggers of the tokens' file, for these programs.
    ///
    /// # Errors
    /// A trigger has wrong settings.
    pub(crate) fn new(tokens: &Tokens, programs: &Programs, home: &Path) -> Result<Self, BadTrigger> {
        let mut all: Vec<Arc<Trigger>> = Vec::new();
        for (line, settings) in tokens.triggers() {
            let wrong = |reason: String| BadTrigger { line: *line, name: Arc::clone(&settings.name), reason };
            if all.iter().any(|known| known.name == settings.name) {
                return Err(wrong("two triggers have this name".into()));
            }
            all.push(Arc::new(Trigger::new(settings, programs, home).map_err(wrong)?));
        }
        Ok(Self(all))
    }

    /// The most runs at work at once of each client whose further runs wait.
    pub(crate) fn lines(&self) -> HashMap<Arc<str>, usize> {
        let queue = self.0.iter().filter(|trigger| trigger.concurrency == Concurrency::Queue);
        queue.map(|trigger| (Arc::clone(trigger.token.name()), trigger.at_once)).collect()
    }

    fn iter(&self) -> impl Iterator<Item = &Arc<Trigger>> {
        self.0.iter()
    }
}

impl Trigger {
    fn new(settings: &TriggerSettings, programs: &Programs, home: &Path) -> Result<Self, String> {
        let TriggerSettings { name, program, worker, message, input, from, .. } = settings;
        if name.parse::<crate::ProgramName>().is_err() {
            return Err(
                "a name has at most 64 letters, digits and -_., and begins with a letter or a digit".into()
            );
        }
        let failed = |error: std::io::Error| format!("cannot use {}: {error}", home.display());
        let notes = home.join("serve").join("triggers");
        let kind = match (&settings.cron, &settings.webhook, &settings.folder) {
            (Some(cron), None, None) => Kind::Cron {
                schedule: Schedule::new(cron)?.into(),
                slots: Slots::open(&notes, name).map_err(failed)?,
            },
            (None, Some(webhook), None) => Kind::Webhook {
                settings: webhook.clone(),
                secret: webhook.secret.secret().map_err(|error| format!("webhook: secret: {error}"))?,
            },
            (None, None, Some(folder)) => Kind::Folder {
                path: folder::place(&folder.path)?,
                settled: folder.settle_s.map_or(SETTLED, Duration::from_secs),
                files: KnownNames::open(&notes, &format!("{name}.files")).map_err(failed)?,
            },
            _ => return Err("give one of `cron`, `webhook` and `folder`".into()),
        };
        let served = match program {
            Some(program) => {
                programs.get(program).ok_or_else(|| format!("the program `{program}` is not served"))?
            }
            None => {
                programs.only().ok_or("the server has several programs: give the name of one as `program`")?
            }
        };
        let worker = fitting(served, worker.as_deref(), &kind, settings)?;
        let program: Arc<str> = served.name().as_str().into();
        // A schedule and its input are the operator's words. Bodies and files are those of others.
        let words = matches!(kind, Kind::Cron { .. }).then_some(Scope::Answer);
        let scopes = [Scope::Start].into_iter().chain(words);
        Ok(Self {
            token: Token::of_trigger(format!("{PREFIX}{name}").into(), scopes, Arc::clone(&program)),
            name: Arc::clone(name),
            program,
            worker,
            message: message.clone(),
            input: input.clone(),
            from: from.clone(),
            concurrency: settings.concurrency.unwrap_or(match kind {
                Kind::Cron { .. } => Concurrency::Skip,
                Kind::Webhook { .. } | Kind::Folder { .. } => Concurrency::Queue,
            }),
            at_once: settings.at_once.map_or(1, NonZeroUsize::get),
            kind,
            turn: tokio::sync::Mutex::default(),
            problem: Mutex::default(),
        })
    }

    /// The request for the run of an event. An argument whose place the event does not have is left out.
    fn request(&self, event: &Value) -> StartRun {
        let mut input = self.input.clone();
        for (parameter, pointer) in &self.from {
            if let Some(value) = event.pointer(pointer) {
                input.insert(parameter.clone(), value.clone());
            }
        }
        StartRun {
            program: Some(self.program.to_string()),
            worker: Some(self.worker.to_string()),
            message: self.message.clone(),
            input: self.message.is_none().then(|| input.into()),
            ..StartRun::default()
        }
    }

    /// An argument gets the file of an event. If none does, the file is attached.
    fn hands_file(&self) -> bool {
        self.from.values().any(|pointer| pointer == "/file")
    }

    fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The ID of the worker that a trigger starts.
///
/// # Errors
/// There is no such worker, or no event could give it an input that fits.
fn fitting(
    served: &Served,
    worker: Option<&str>,
    kind: &Kind,
    settings: &TriggerSettings,
) -> Result<Arc<str>, String> {
    let session = served.session(worker).map_err(|error| error.detail().to_owned())?;
    let entry = session.entry();
    let (message, from) = (settings.message.as_deref(), &settings.from);
    if message.is_some() && !(settings.input.is_empty() && from.is_empty()) {
        return Err("give either `message`, or `input` and `from`".into());
    }
    let schema = Value::Object(client_schema(entry));
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, pointer) in from {
        let first = pointer.strip_prefix('/').map(|rest| rest.split('/').next().unwrap_or_default());
        if !first.is_some_and(|first| kind.fields().contains(&first)) {
            let fields: Vec<String> = kind.fields().iter().map(|field| format!("/{field}")).collect();
            let (kind, fields) = (kind.name(), fields.join(", "));
            return Err(format!(
                "from: {name}: `{pointer}` is no place in the event of a {kind}: it begins with one of {fields}"
            ));
        }
        if properties.is_none_or(|properties| !properties.contains_key(name)) {
            return Err(format!("from: the worker `{}` has no parameter `{name}`", entry.id));
        }
        if settings.input.contains_key(name) {
            return Err(format!("`{name}` is given both as `input` and as `from`"));
        }
        let path = entry
            .signature
            .parameters
            .iter()
            .find(|known| *known.name == **name)
            .and_then(|known| known.path);
        if (pointer == "/file") != (path == Some(Access::Read)) {
            return Err(match pointer == "/file" {
                true => format!(
                    "from: {name}: the file of an event is for a parameter of type `path` that the worker reads"
                ),
                false => format!(
                    "from: {name}: a path is the operator's to say: give it as `input`, or the file as `/file`"
                ),
            });
        }
    }
    if message.is_none() && !entry.signature.declared && settings.input.is_empty() {
        return Err(format!("the worker `{}` has no parameters: give its input as `message`", entry.id));
    }
    let input = Value::Object(settings.input.clone());
    let given = Given { message, json: message.is_none().then_some(&input), parameters: &[] };
    let fixed = input_value(&entry.id, &entry.signature, given).map_err(|error| error.to_string())?;
    let mut fixed_schema = schema.clone();
    if let Some(required) = fixed_schema.get_mut("required").and_then(Value::as_array_mut) {
        let bindings = &session.program().manifest().bindings;
        let comes = |name: &Value| {
            name.as_str().is_some_and(|name| {
                from.contains_key(name) || bindings.iter().any(|(bound, _)| bound == name)
            })
        };
        required.retain(|name| !comes(name));
    }
    let fixed_schema = Schema::new(fixed_schema).map_err(|error| error.to_string())?;
    fixed_schema.validate(&fixed).map_err(|wrong| {
        let wrong = wrong.iter().map(|each| match each.pointer.as_str() {
            "" => each.message.clone(),
            pointer => format!("{pointer}: {}", each.message),
        });
        let wrong: Vec<String> = wrong.collect();
        format!("the input can't fit the worker `{}`: {}", entry.id, wrong.join("; "))
    })?;
    Ok(Arc::clone(&entry.id))
}

/// An event whose run could not be started for that reason may start it later.
fn may_pass(code: Code) -> bool {
    use Code::{
        Internal, ProgramBroken, ShuttingDown, Storage, TooManyBodies, TooManyRuns, TooManyUploads,
        TooMuchMemory,
    };
    matches!(
        code,
        Internal
            | ProgramBroken
            | ShuttingDown
            | Storage
            | TooManyBodies
            | TooManyRuns
            | TooManyUploads
            | TooMuchMemory
    )
}

impl Service {
    /// Starts the tasks of the triggers, which start runs.
    pub(crate) fn set_triggers(&self) {
        for trigger in self.triggers().iter() {
            if trigger.concurrency == Concurrency::Replace {
                // An earlier process may have ended between the start of a run and the end of the one that it replaces.
                self.replace(trigger);
            }
            let (service, trigger) = (self.clone(), Arc::clone(trigger));
            match &trigger.kind {
                Kind::Cron { .. } => self.spawn(async move { cron::follow(&service, &trigger).await }),
                Kind::Folder { .. } => self.spawn(async move { folder::watch(&service, &trigger).await }),
                Kind::Webhook { .. } => {}
            }
        }
    }

    /// Starts the run of an event, once.
    async fn fire(&self, trigger: &Arc<Trigger>, event: Event) -> Result<Fired, ApiError> {
        let (service, of) = (self.clone(), Arc::clone(trigger));
        // A sender that disconnects does not end it in the middle.
        let fired = tokio::spawn(async move { service.fire_in_turn(&of, event).await });
        let fired = fired.await.map_err(ApiError::internal)?;
        let outcome = match &fired {
            Ok(Fired::Started(_)) => "started",
            Ok(Fired::Known(_)) => "known",
            Ok(Fired::Skipped) => "skipped",
            Err(_) => "failed",
        };
        self.metrics().triggered(&trigger.program, &trigger.name, outcome);
        let problem = match &fired {
            Ok(Fired::Started(_) | Fired::Known(_)) => None,
            Ok(Fired::Skipped) => Some("skipped: an earlier run is under way".to_owned()),
            Err(error) => Some(format!("started no run: {}", error.detail())),
        };
        if let Some(problem) = problem.as_ref().filter(|problem| trigger.problem().as_ref() != Some(*problem))
        {
            self.log_trigger(trigger, problem.clone());
        }
        trigger.set_problem(problem);
        fired
    }

    async fn fire_in_turn(&self, trigger: &Trigger, event: Event) -> Result<Fired, ApiError> {
        let _turn = trigger.turn.lock().await;
        if let Some(run) = self.run_of_key(trigger.token.name(), &event.key) {
            return Ok(Fired::Known(run));
        }
        let under_way = self.under_way_of(trigger).len();
        match trigger.concurrency {
            Concurrency::Skip if under_way >= trigger.at_once => return Ok(Fired::Skipped),
            Concurrency::Queue if under_way >= trigger.at_once + MOST_WAITING => {
                let detail = format!("{MOST_WAITING} runs of the trigger wait: deliver the event later");
                return Err(ApiError::new(Code::TooManyRuns, detail));
            }
            Concurrency::Skip | Concurrency::Queue | Concurrency::Replace => {}
        }
        let mut fields = event.fields;
        let mut attached = Vec::new();
        if let Some((name, bytes)) = event.file {
            let upload = self.upload(&trigger.token, name, bytes).await?;
            let upload = format!("{}{}", crate::uploads::PREFIX, upload.upload);
            fields["file"] = upload.as_str().into();
            if !trigger.hands_file() {
                attached.push(upload);
            }
        }
        let request = StartRun { attachments: attached, ..trigger.request(&fields) };
        let run = self.start_once(&trigger.token, request, event.key).await?;
        if trigger.concurrency == Concurrency::Replace {
            self.replace(trigger);
        }
        Ok(Fired::Started(run))
    }

    /// The runs of a trigger that are under way, oldest first.
    fn under_way_of(&self, trigger: &Trigger) -> Vec<Arc<LiveRun>> {
        let mut runs = self.live_runs();
        runs.retain(|run| run.client().name == *trigger.token.name());
        runs
    }

    /// Cancels the oldest runs of a trigger and keeps the newest, as many as may be at work at once.
    fn replace(&self, trigger: &Trigger) {
        let runs = self.under_way_of(trigger);
        for run in &runs[..runs.len().saturating_sub(trigger.at_once)] {
            self.log_entry(LogEntry {
                by: Some(trigger.token.name().to_string()),
                text: format!("replaced by a newer run of the trigger {}", trigger.name),
                ..run.entry("run_cancelled")
            });
            run.cancel();
        }
    }

    /// Waits until a further run of a trigger would not have to wait.
    async fn until_free(&self, trigger: &Trigger) {
        loop {
            let runs = self.under_way_of(trigger);
            if runs.len() < trigger.at_once {
                return;
            }
            select_all(runs.iter().map(|run| Box::pin(run.ended()))).await;
        }
    }

    fn log_trigger(&self, trigger: &Trigger, text: String) {
        self.log_entry(LogEntry {
            event: "trigger",
            program: Some(trigger.program.to_string()),
            worker: Some(trigger.worker.to_string()),
            by: Some(trigger.token.name().to_string()),
            text: format!("trigger {}: {text}", trigger.name),
            ..LogEntry::default()
        });
    }

    /// The triggers whose runs a token may see.
    pub(crate) async fn trigger_views(&self, token: &Token) -> Vec<TriggerView> {
        let mut views = Vec::new();
        for trigger in self.triggers().iter() {
            if !token.sees(&trigger.program, trigger.token.name()) {
                continue;
            }
            let last = match self.newest_keyed(trigger.token.name()) {
                Some(run) => self.run(token, &run).await.ok(),
                None => None,
            };
            let next = match &trigger.kind {
                Kind::Cron { schedule, slots } => {
                    let now = Timestamp::now();
                    let until = slots.until().map_or(now, |until| Schedule::corrected(until, now));
                    schedule.next(until.max(now))
                }
                Kind::Webhook { .. } | Kind::Folder { .. } => None,
            };
            views.push(TriggerView {
                name: Arc::clone(&trigger.name),
                kind: trigger.kind.name(),
                program: Arc::clone(&trigger.program),
                worker: Arc::clone(&trigger.worker),
                client: Arc::clone(trigger.token.name()),
                concurrency: trigger.concurrency.name(),
                under_way: self.under_way_of(trigger).len(),
                next_ms: next.and_then(|next| next.as_millisecond().try_into().ok()),
                last: last.map(|run| LastRun { run: run.run, state: run.state, started_ms: run.started_ms }),
                problem: trigger.problem(),
            });
        }
        views
    }
}

/// A trigger.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Trigger")]
pub(crate) struct TriggerView {
    /// The trigger's name.
    pub(crate) name: Arc<str>,
    /// `cron`, `webhook` or `folder`.
    pub(crate) kind: &'static str,
    /// The program's name.
    pub(crate) program: Arc<str>,
    /// The worker that its runs start with.
    pub(crate) worker: Arc<str>,
    /// The name of the client that its runs are of.
    pub(crate) client: Arc<str>,
    /// The treatment of an event while an earlier run is under way: `skip`, `queue` or `replace`.
    pub(crate) concurrency: &'static str,
    /// The number of runs under way, those that wait included.
    pub(crate) under_way: usize,
    /// The next slot, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_ms: Option<u64>,
    /// The newest of its runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<LastRun>,
    /// Why the last event since the start of the server started no run. Absent if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// The newest run of a trigger.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct LastRun {
    /// The run's ID.
    pub(crate) run: Arc<str>,
    /// The run's state.
    pub(crate) state: State,
    /// The start of the run, in milliseconds since 1970.
    pub(crate) started_ms: u64,
}

/// The triggers of a server.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Triggers")]
pub(crate) struct TriggerViews {
    /// In the order of the file.
    pub(crate) triggers: Vec<TriggerView>,
}
