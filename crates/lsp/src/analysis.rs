//! The thread that owns the programs.

use crate::{
    Client, Host,
    answers::{Failure, Question, uri_in, whole_file},
    documents::Documents,
    findings::{self, Pages},
    places::path_of,
    programs::Programs,
    progress::Progress,
};
use crossbeam_channel::{Receiver, Sender};
use llm_do::host::program::{Cancel, Diagnostic};
use lsp_server::{ErrorCode, Message, Notification, Request, RequestId, Response};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Work for the thread.
pub(crate) enum Job {
    /// A document was opened, changed or closed.
    Documents(Documents, PathBuf),
    /// A document was opened, saved or closed: files on disk may have changed.
    Saved,
    /// Files have changed on disk.
    Disk(Vec<PathBuf>),
    /// The folders of the workspace: real paths, and paths as the client writes them.
    Folders(Vec<(PathBuf, PathBuf)>),
    /// The workspace is trusted, or is not.
    Trust(bool),
    /// A request.
    Ask(Ask),
}

/// A request, with the documents at its time.
pub(crate) struct Ask {
    pub(crate) id: RequestId,
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) documents: Documents,
}

/// The way to the client. A request is answered once: by the thread that answers it, or by its cancellation.
#[derive(Clone)]
pub(crate) struct Outbox {
    pub(crate) sender: Sender<Message>,
    pub(crate) pending: Arc<Mutex<HashSet<RequestId>>>,
}

impl Outbox {
    pub(crate) fn expect(&self, id: &RequestId) {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
    }

    pub(crate) fn is_pending(&self, id: &RequestId) -> bool {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    pub(crate) fn respond(&self, response: Response) {
        if self.pending.lock().unwrap_or_else(PoisonError::into_inner).remove(&response.id) {
            self.send(response.into());
        }
    }

    pub(crate) fn fail(&self, id: RequestId, code: ErrorCode, message: impl Into<String>) {
        self.respond(Response::new_err(id, code as i32, message.into()));
    }

    pub(crate) fn notify(&self, method: &str, params: Value) {
        self.send(Notification { method: method.into(), params }.into());
    }

    pub(crate) fn request(&self, id: &str, method: &str, params: Value) {
        self.send(Request { id: RequestId::from(id.to_owned()), method: method.into(), params }.into());
    }

    fn send(&self, message: Message) {
        // The client has gone; the main thread notices that.
        let _ = self.sender.send(message);
    }
}

struct Analysis {
    client: Client,
    out: Outbox,
    programs: Programs,
    documents: Documents,
    folders: Vec<(PathBuf, PathBuf)>,
    pages: Pages,
    /// The folders of the programs in the workspace.
    roots: BTreeSet<PathBuf>,
    /// The programs whose findings may have changed.
    dirty: BTreeSet<PathBuf>,
    /// The findings that the client shows, by program and URI.
    published: BTreeMap<PathBuf, BTreeMap<String, Value>>,
    /// The number of requests to refresh findings.
    refreshed: u32,
    progress: Arc<Progress>,
    /// The number of changes that the client has made, and of those that were noted.
    changes: Arc<AtomicU64>,
    noted: u64,
}

/// Does the work until the channel closes.
pub(crate) fn run(
    jobs: &Receiver<Job>,
    changes: Arc<AtomicU64>,
    host: Arc<dyn Host>,
    client: Client,
    out: Outbox,
) {
    let home = host.settings(&PathBuf::from("/")).ok().map(|settings| settings.home);
    let progress = Arc::new(Progress::new(out.clone(), client.shows_progress));
    let announcing = Arc::clone(&progress);
    let programs = Programs::new(host, &client, Arc::new(move |what: &str| announcing.inspects(what)));
    let mut analysis = Analysis {
        client,
        out,
        programs,
        documents: Documents::default(),
        folders: Vec::new(),
        pages: Pages::new(home.as_deref()),
        roots: BTreeSet::new(),
        dirty: BTreeSet::new(),
        published: BTreeMap::new(),
        refreshed: 0,
        progress,
        changes,
        noted: 0,
    };
    while let Ok(first) = jobs.recv() {
        let mut asked = Vec::new();
        // Several edits are checked once.
        for job in std::iter::once(first).chain(jobs.try_iter()) {
            if let Some(ask) = analysis.note(job) {
                asked.push(ask);
            }
        }
        for ask in asked {
            analysis.answer(ask);
            analysis.progress.end();
        }
        while jobs.is_empty() {
            let Some(key) = analysis.dirty.pop_first() else { break };
            analysis.publish(key);
            analysis.progress.end();
        }
    }
}

impl Analysis {
    /// Takes note of a change. Returns a request.
    fn note(&mut self, job: Job) -> Option<Ask> {
        if !matches!(job, Job::Ask(_)) {
            self.noted += 1;
        }
        match job {
            Job::Ask(ask) => return Some(ask),
            Job::Documents(documents, changed) => {
                // The program of a document that was closed, too.
                let before = Programs::key(&changed, &self.documents);
                let after = Programs::key(&changed, &documents);
                self.documents = documents;
                self.dirty.extend(before);
                self.dirty.extend(after);
                if Programs::is_manifest(&changed) {
                    self.find_programs();
                }
            }
            Job::Saved => {
                self.programs.look_again();
                if !self.client.watches_files {
                    self.dirty.extend(self.programs.keys().cloned());
                }
            }
            Job::Disk(paths) => {
                self.programs.changed(&paths);
                self.dirty.extend(self.programs.keys().cloned());
                if paths.iter().any(|path| Programs::is_manifest(path)) {
                    self.find_programs();
                }
            }
            Job::Folders(folders) => {
                self.folders = folders;
                self.find_programs();
            }
            Job::Trust(trusted) => {
                if self.programs.trusted != trusted {
                    self.programs.trusted = trusted;
                    self.dirty.extend(self.programs.keys().cloned());
                    self.programs.forget();
                }
            }
        }
        None
    }

    fn find_programs(&mut self) {
        self.roots = self.folders.iter().flat_map(|(real, _)| Programs::in_folder(real)).collect();
        self.dirty.extend(self.roots.iter().cloned());
        self.dirty.extend(self.documents.iter().filter_map(|(path, _)| Programs::key(path, &self.documents)));
        // A file that belongs to another program now must not keep the findings of its old one.
        self.dirty.extend(self.published.keys().cloned());
    }

    fn answer(&mut self, ask: Ask) {
        if !self.out.is_pending(&ask.id) {
            return;
        }
        if ask.method == "workspace/symbol" {
            // Programs that were not checked yet have symbols, too.
            for key in &self.dirty {
                self.programs.check(key, &self.documents);
            }
        }
        let answer = match self.is_outdated(&ask) {
            true => Err(Failure::Outdated),
            false => {
                let Self { client, programs, documents, folders, pages, .. } = self;
                let mut question =
                    Question { client, programs, documents, folders, pages, params: &ask.params };
                catch_unwind(AssertUnwindSafe(|| question.answer(&ask.method))).unwrap_or_else(|_| {
                    self.programs.forget();
                    Err(Failure::Refused(format!("a defect of llm-do in {}; please report it", ask.method)))
                })
            }
        };
        match answer {
            Ok(value) => self.out.respond(Response::new_ok(ask.id, value)),
            Err(Failure::Invalid(message)) => self.out.fail(ask.id, ErrorCode::InvalidParams, message),
            Err(Failure::Refused(message)) => self.out.fail(ask.id, ErrorCode::RequestFailed, message),
            Err(Failure::Outdated) => {
                self.out.fail(
                    ask.id,
                    ErrorCode::ContentModified,
                    "the document has changed since the request",
                );
            }
        }
    }

    /// Returns true if the document of a request has changed since.
    fn is_outdated(&self, ask: &Ask) -> bool {
        let uri = ask.params.pointer("/textDocument/uri").and_then(Value::as_str);
        let Some(path) = uri.and_then(path_of).map(|path| crate::places::real(&path)) else { return false };
        match (ask.documents.get(&path), self.documents.get(&path)) {
            (Some(then), Some(now)) => then.text != now.text,
            (then, now) => then.is_some() != now.is_some(),
        }
    }

    /// Returns what ends a check: a change that was not noted yet.
    fn newer_change(&self) -> Cancel {
        let (changes, noted) = (Arc::clone(&self.changes), self.noted);
        Cancel::when(move || changes.load(Ordering::SeqCst) > noted)
    }

    /// Checks a program and sends its findings. A newer change ends a check that reads everything. The program stays
    /// dirty then.
    fn publish(&mut self, key: PathBuf) {
        if !key.exists() && !self.documents.iter().any(|(path, _)| path.starts_with(&key)) {
            self.programs.close(&key);
            self.send_findings(&key, BTreeMap::new());
            return;
        }
        if !self.programs.is_known(&key) {
            self.progress.checks(&key);
        }
        let cancel = self.newer_change();
        let Self { client, programs, documents, folders, pages, roots, .. } = self;
        let checked = catch_unwind(AssertUnwindSafe(|| {
            let (program, is_whole) = programs.check_unless(&key, documents, &cancel);
            if !is_whole {
                return None;
            }
            let uri = |shown: &str| uri_in(documents, folders, &program.real(shown));
            let whole = whole_file(&key, program);
            let problem = program.problem().map(str::to_owned);
            // A worker that has become part of a project has its findings there.
            let is_left = key != program.root && Programs::key(&key, documents).as_ref() != Some(&key);
            // A program in a folder of another one has its findings itself.
            let nested: Vec<&PathBuf> = roots
                .iter()
                .filter(|root| **root != program.root && root.starts_with(&program.root))
                .collect();
            let is_own = |one: &&Diagnostic| {
                let path = one.span.as_ref().map(|span| program.real(span.file().path()));
                !is_left && path.is_none_or(|path| !nested.iter().any(|root| path.starts_with(root)))
            };
            let found: Vec<&Diagnostic> = program.found.iter().filter(is_own).collect();
            Some((findings::by_file(&found, &whole, &uri, client.columns, pages), problem))
        }));
        let all = match checked {
            Ok(None) => {
                self.dirty.insert(key);
                return;
            }
            Ok(Some((all, problem))) => {
                if let Some(problem) = problem {
                    self.out.notify("window/showMessage", json!({"type": 1, "message": problem}));
                }
                all
            }
            Err(_) => {
                let message =
                    format!("a defect of llm-do while it checked {}; please report it", key.display());
                self.out.notify("window/showMessage", json!({"type": 1, "message": message}));
                self.programs.close(&key);
                BTreeMap::new()
            }
        };
        self.send_findings(&key, all);
    }

    fn send_findings(&mut self, key: &PathBuf, all: BTreeMap<String, Vec<Value>>) {
        let mut shown = self.published.remove(key).unwrap_or_default();
        let mut changed = false;
        let mut now = BTreeMap::new();
        let open: BTreeMap<&str, i32> =
            self.documents.iter().map(|(_, document)| (document.uri.as_str(), document.version)).collect();
        let gone = shown.keys().filter(|uri| !all.contains_key(*uri)).cloned().collect::<Vec<_>>();
        let empty = gone.into_iter().map(|uri| (uri, Vec::new()));
        let own = self.documents.iter().filter(|(path, document)| {
            !all.contains_key(&document.uri)
                && !shown.contains_key(&document.uri)
                && Programs::key(path, &self.documents).as_ref() == Some(key)
        });
        let own: Vec<(String, Vec<Value>)> =
            own.map(|(_, document)| (document.uri.clone(), Vec::new())).collect();
        for (uri, found) in
            all.iter().map(|(uri, found)| (uri.clone(), found.clone())).chain(empty).chain(own)
        {
            let version = open.get(uri.as_str()).copied();
            // A client that asks for the findings of open documents would show them twice.
            let is_pulled = self.client.pulls && version.is_some();
            let sent = if is_pulled { Vec::new() } else { found.clone() };
            let key = json!([found, version]);
            if shown.remove(&uri).as_ref() != Some(&key) {
                changed = true;
                let mut params = json!({"uri": uri, "diagnostics": sent});
                if let Some(version) = version {
                    params["version"] = version.into();
                }
                self.out.notify("textDocument/publishDiagnostics", params);
            }
            if !found.is_empty() || version.is_some() {
                now.insert(uri, key);
            }
        }
        if !now.is_empty() {
            self.published.insert(key.clone(), now);
        }
        if changed && self.client.pulls && self.client.refreshes_findings {
            self.refreshed += 1;
            self.out.request(
                &format!("refresh-{}", self.refreshed),
                "workspace/diagnostic/refresh",
                Value::Null,
            );
        }
    }
}
