//! A page in memory: performs the effects of an engine in their order, as a worker of a browser does.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use llm_do_page::{
    Engine,
    message::{Bytes, Effect, Effects},
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub(crate) const NOW_MS: u64 = 1_795_996_800_000;

/// The response to a request of a model: its status and pieces, or the kind of its failure.
pub(crate) type Response = Result<(u16, Vec<String>), &'static str>;

/// A page.
pub(crate) struct Page {
    engine: Engine,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    folders: BTreeSet<String>,
    pub(crate) now_ms: u64,
    inputs: Vec<Value>,
    /// The responses to requests of models, in order.
    pub(crate) responses: VecDeque<Response>,
    /// The requests that were sent: address, headers, body.
    pub(crate) sent: Vec<(String, Vec<(String, String)>, String)>,
    /// The answers to requests of the app: status and body.
    pub(crate) answers: BTreeMap<u64, (u16, String)>,
    pub(crate) ended: BTreeSet<u64>,
    /// The effects that were performed, in order.
    pub(crate) performed: Vec<Effect>,
    /// The page dies before it performs the effect with this number, counted from the first.
    pub(crate) dies_before: Option<usize>,
    pub(crate) is_dead: bool,
    /// Appends fail from this one on, counted from the first, with this kind.
    pub(crate) full_from: Option<(usize, &'static str)>,
    appends: usize,
    /// The timers, by the time at which they fire.
    timers: BTreeSet<(u64, u64)>,
    last_request: u64,
    options: Value,
}

impl Page {
    /// A page with these files, whose visitor has chosen these options.
    pub(crate) fn new(files: &[(&str, &str)], options: Value) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
        Self::over(files, options)
    }

    pub(crate) fn over(files: BTreeMap<String, Vec<u8>>, options: Value) -> Self {
        let mut page = Self {
            engine: Engine::default(),
            files,
            folders: BTreeSet::new(),
            now_ms: NOW_MS,
            inputs: Vec::new(),
            responses: VecDeque::new(),
            sent: Vec::new(),
            answers: BTreeMap::new(),
            ended: BTreeSet::new(),
            performed: Vec::new(),
            dies_before: None,
            is_dead: false,
            full_from: None,
            appends: 0,
            timers: BTreeSet::new(),
            last_request: 0,
            options,
        };
        page.begin();
        page
    }

    fn begin(&mut self) {
        let (entropy, seal_key) = (STANDARD.encode([1; 32]), STANDARD.encode([7; 32]));
        self.inputs.push(json!({"input": "start", "entropy": entropy, "seal_key": seal_key}));
        let mut options = self.options.clone();
        options["input"] = "options".into();
        self.inputs.push(options);
    }

    /// Opens the page again over its files: nothing of the engine's memory is left.
    pub(crate) fn reload(&mut self) {
        self.engine = Engine::default();
        (self.is_dead, self.dies_before, self.full_from) = (false, None, None);
        self.inputs.clear();
        self.timers.clear();
        self.begin();
    }

    /// Sends a request of the app without waiting. Returns its number.
    pub(crate) fn send(&mut self, method: &str, path: &str, body: Option<Value>) -> u64 {
        self.last_request += 1;
        let id = self.last_request;
        let body = body.map(|body| body.to_string());
        self.inputs.push(json!({
            "input": "request", "id": id, "method": method, "path": path, "headers": {}, "body": body,
        }));
        id
    }

    /// Sends a request of the app and runs until nothing is left to do. Returns the status and the body.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let id = self.send(method, path, body);
        self.settle();
        self.answer(id)
    }

    /// Returns the answer to a request.
    pub(crate) fn answer(&self, id: u64) -> (u16, Value) {
        let (status, body) = self.answers.get(&id).cloned().unwrap_or_default();
        let value = serde_json::from_str(&body).unwrap_or(Value::String(body));
        (status, value)
    }

    pub(crate) fn text(&self, path: &str) -> String {
        String::from_utf8_lossy(self.files.get(path).map_or(&[][..], Vec::as_slice)).into_owned()
    }

    /// Steps until no input is left. A timer fires when nothing else happens.
    pub(crate) fn settle(&mut self) {
        while !self.is_dead {
            if self.inputs.is_empty() {
                let Some((due, id)) = self.timers.pop_first() else { return };
                self.now_ms = self.now_ms.max(due);
                self.done(json!({}), id);
            }
            let inputs = std::mem::take(&mut self.inputs);
            self.now_ms += 1;
            let message = json!({"now_ms": self.now_ms, "today": "2026-11-29", "inputs": inputs});
            let answer = self.engine.step(&message.to_string());
            let Effects { effects } =
                serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
            self.perform(effects);
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        let mut broken: Option<(String, Value)> = None;
        for effect in effects {
            if self.dies_before.is_some_and(|at| self.performed.len() >= at) {
                self.is_dead = true;
                return;
            }
            if let (Some((run, error)), Some(of)) = (&broken, run_of(&effect))
                && of == run
            {
                if let Some(id) = id_of(&effect) {
                    self.inputs.push(json!({"input": "failed", "id": id, "error": error}));
                }
                continue;
            }
            self.performed.push(effect.clone());
            if let Err((kind, id)) = self.one(effect.clone()) {
                let error = json!({"kind": kind, "message": format!("the page says {kind}")});
                self.inputs.push(json!({"input": "failed", "id": id, "error": error}));
                if let (Effect::Append { .. } | Effect::Store { .. }, Some(run)) = (&effect, run_of(&effect))
                {
                    broken = Some((run.to_owned(), error));
                }
            }
        }
    }

    fn done(&mut self, mut result: Value, id: u64) {
        (result["input"], result["id"]) = ("done".into(), id.into());
        self.inputs.push(result);
    }

    fn exists(&self, path: &str) -> Option<&'static str> {
        let below = format!("{path}/");
        if self.files.contains_key(path) {
            return Some("file");
        }
        let is_folder = path.is_empty()
            || self.folders.contains(path)
            || self.files.keys().any(|file| file.starts_with(&below));
        is_folder.then_some("folder")
    }

    #[allow(clippy::too_many_lines, reason = "one arm an effect")]
    fn one(&mut self, effect: Effect) -> Result<(), (&'static str, u64)> {
        match effect {
            Effect::Append { id, path, text, .. } => {
                self.appends += 1;
                if let Some((from, kind)) = self.full_from
                    && self.appends > from
                {
                    return Err((kind, id));
                }
                self.files.entry(path).or_default().extend_from_slice(text.as_bytes());
            }
            Effect::Store { path, base64, .. } => drop(self.files.insert(path, base64.0)),
            Effect::Read { id, path, from, most } => {
                let Some(content) = self.files.get(&path) else {
                    return Err((if self.exists(&path).is_some() { "wrong_kind" } else { "missing" }, id));
                };
                let start = usize::try_from(from).unwrap().min(content.len());
                let end = start + usize::try_from(most).unwrap_or(usize::MAX).min(content.len() - start);
                let result = json!({"base64": STANDARD.encode(&content[start..end]), "bytes": content.len()});
                self.done(result, id);
            }
            Effect::Stat { id, path } => {
                let kind = self.exists(&path).ok_or(("missing", id))?;
                let bytes = self.files.get(&path).map_or(0, Vec::len);
                self.done(json!({"kind": kind, "bytes": bytes}), id);
            }
            Effect::List { id, path, deep, most } => {
                if self.exists(&path) != Some("folder") {
                    return Err(("missing", id));
                }
                let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
                let mut found = BTreeMap::new();
                let all = self.files.iter().map(|(path, content)| (path, Some(content.len())));
                for (file, bytes) in all.chain(self.folders.iter().map(|path| (path, None))) {
                    let Some(rest) = file.strip_prefix(&prefix).filter(|rest| !rest.is_empty()) else {
                        continue;
                    };
                    let parts: Vec<&str> = rest.split('/').collect();
                    for depth in 1..=parts.len() {
                        if depth > 1
                            && (!deep || [".git", "node_modules", ".llm-do"].contains(&parts[depth - 2]))
                        {
                            break;
                        }
                        let is_file = depth == parts.len() && bytes.is_some();
                        let kind = if is_file { "file" } else { "folder" };
                        let size = bytes.filter(|_| is_file).unwrap_or(0);
                        found.insert(parts[..depth].join("/"), (kind, size));
                    }
                }
                let cut = found.len() as u64 > most;
                let entries: Vec<Value> = found
                    .into_iter()
                    .take(usize::try_from(most).unwrap())
                    .map(|(path, (kind, bytes))| json!({"path": path, "kind": kind, "bytes": bytes}))
                    .collect();
                self.done(json!({"entries": entries, "cut": cut}), id);
            }
            Effect::Write { id, path, base64: Bytes(content), new, .. } => {
                if new && self.exists(&path).is_some() {
                    return Err(("exists", id));
                }
                self.files.insert(path, content);
                self.done(json!({}), id);
            }
            Effect::Folder { id, path, .. } => {
                self.folders.insert(path);
                self.done(json!({}), id);
            }
            Effect::Move { id, path, to, .. } => {
                let below = format!("{path}/");
                let moved: Vec<String> = self
                    .files
                    .keys()
                    .filter(|file| **file == path || file.starts_with(&below))
                    .cloned()
                    .collect();
                for file in moved {
                    let content = self.files.remove(&file).unwrap();
                    self.files.insert(format!("{to}{}", &file[path.len()..]), content);
                }
                self.done(json!({}), id);
            }
            Effect::Remove { id, path, .. } => {
                if self.files.remove(&path).is_none() && !self.folders.remove(&path) {
                    return Err(("missing", id));
                }
                self.done(json!({}), id);
            }
            Effect::Lock { id, .. } => self.done(json!({}), id),
            Effect::Wait { id, ms } => drop(self.timers.insert((self.now_ms + ms, id))),
            Effect::Abort { id } => self.timers.retain(|(_, timer)| *timer != id),
            Effect::Unlock { .. } => {}
            Effect::Send { id, url, headers, body, .. } => {
                self.sent.push((url, headers, body.unwrap_or_default()));
                match self.responses.pop_front().expect("a response to each request") {
                    Err(kind) => return Err((kind, id)),
                    Ok((status, pieces)) => {
                        let headers = json!([["content-type", "text/event-stream"]]);
                        self.inputs
                            .push(json!({"input": "head", "id": id, "status": status, "headers": headers}));
                        for piece in pieces {
                            self.inputs
                                .push(json!({"input": "piece", "id": id, "base64": STANDARD.encode(piece)}));
                        }
                        self.inputs.push(json!({"input": "end", "id": id}));
                    }
                }
            }
            Effect::Respond { request, status, text, base64, stream, .. } => {
                let bytes = base64.map(|Bytes(bytes)| String::from_utf8_lossy(&bytes).into_owned());
                self.answers.insert(request, (status, text.or(bytes).unwrap_or_default()));
                if !stream {
                    self.ended.insert(request);
                }
            }
            Effect::Piece { request, text, .. } => self.answers.get_mut(&request).unwrap().1.push_str(&text),
            Effect::End { request } => drop(self.ended.insert(request)),
        }
        Ok(())
    }
}

fn run_of(effect: &Effect) -> Option<&str> {
    match effect {
        Effect::Append { run, .. } | Effect::Store { run, .. } => Some(run),
        Effect::Write { run, .. }
        | Effect::Folder { run, .. }
        | Effect::Move { run, .. }
        | Effect::Remove { run, .. }
        | Effect::Send { run, .. }
        | Effect::Respond { run, .. }
        | Effect::Piece { run, .. } => run.as_deref(),
        _ => None,
    }
}

fn id_of(effect: &Effect) -> Option<u64> {
    match effect {
        Effect::Append { id, .. }
        | Effect::Store { id, .. }
        | Effect::Write { id, .. }
        | Effect::Folder { id, .. }
        | Effect::Move { id, .. }
        | Effect::Remove { id, .. }
        | Effect::Send { id, .. } => Some(*id),
        _ => None,
    }
}
