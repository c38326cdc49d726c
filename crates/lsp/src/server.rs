//! The main thread: the lifecycle, and the texts of documents.

use crate::{
    Client, Ended, Host,
    analysis::{self, Ask, Job, Outbox},
    capabilities,
    documents::{Document, Documents},
    places::{path_of, real},
    syntax,
};
use crossbeam_channel::{Sender, unbounded};
use gen_lsp_types::{
    DidChangeTextDocumentParams, DidChangeWatchedFilesParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, InitializeParams,
};
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

/// Files whose changes the client reports.
const WATCHED: &str = "**/*";

/// The notification of a client that the workspace is now trusted, or is not. The configuration of a client is no source of
/// trust: editors read it from files of the workspace, too.
const TRUST: &str = "llm-do/didChangeTrust";

struct Server {
    client: Client,
    out: Outbox,
    documents: Documents,
    /// The folders of the workspace: real paths, and paths as the client writes them.
    folders: Vec<(PathBuf, PathBuf)>,
    jobs: Sender<Job>,
    /// The number of changes that were sent, which ends checks of an older state.
    changes: Arc<AtomicU64>,
    syntax: Sender<Ask>,
    is_shut_down: bool,
}

/// Serves a client until it ends the connection.
///
/// # Errors
/// The client does not begin with `initialize`.
pub(crate) fn run(connection: &Connection, host: Arc<dyn Host>) -> Result<Ended, String> {
    let (id, params) = connection.initialize_start().map_err(|error| error.to_string())?;
    let params: InitializeParams = match serde_json::from_value(params) {
        Ok(params) => params,
        Err(error) => {
            let message = format!("the parameters of initialize are invalid: {error}");
            let response = Response::new_err(id, ErrorCode::InvalidParams as i32, message.clone());
            let _ = connection.sender.send(response.into());
            return Err(message);
        }
    };
    let client = capabilities::client(&params);
    let result = capabilities::server(&client);
    connection.initialize_finish(id, result).map_err(|error| error.to_string())?;
    let out = Outbox { sender: connection.sender.clone(), pending: Arc::default() };
    let (jobs, work) = unbounded();
    let changes = Arc::new(AtomicU64::new(0));
    let (syntax, asked) = unbounded::<Ask>();
    let folders = folders(&serde_json::to_value(&params).unwrap_or_default());
    let mut server = Server {
        client: client.clone(),
        out: out.clone(),
        documents: Documents::default(),
        folders,
        jobs,
        changes: Arc::clone(&changes),
        syntax,
        is_shut_down: false,
    };
    thread::scope(|scope| {
        scope.spawn(|| analysis::run(&work, changes, host, client.clone(), out.clone()));
        scope.spawn(|| asked.iter().for_each(|ask| answer_syntax(&client, &out, &ask)));
        server.begin();
        let ended = server.serve(connection);
        // The threads end when their channels close.
        drop(server);
        ended
    })
}

/// Returns the folders of a workspace from the parameters of `initialize`.
fn folders(params: &Value) -> Vec<(PathBuf, PathBuf)> {
    let listed = params.get("workspaceFolders").and_then(Value::as_array).into_iter().flatten();
    let mut uris: Vec<&str> = listed.filter_map(|folder| folder.get("uri")?.as_str()).collect();
    if uris.is_empty() {
        uris.extend(params.get("rootUri").and_then(Value::as_str));
    }
    uris.into_iter().filter_map(folder).collect()
}

fn folder(uri: &str) -> Option<(PathBuf, PathBuf)> {
    let written = path_of(uri)?;
    let real = std::fs::canonicalize(&written).unwrap_or_else(|_| written.clone());
    Some((real, written))
}

fn answer_syntax(client: &Client, out: &Outbox, ask: &Ask) {
    if !out.is_pending(&ask.id) {
        return;
    }
    let uri = ask.params.pointer("/textDocument/uri").and_then(Value::as_str);
    let path = uri.and_then(path_of).map(|path| real(&path));
    let document = path.as_ref().and_then(|path| ask.documents.get(path));
    let Some((path, document)) = path.as_ref().zip(document) else {
        return match uri {
            // A document without a file belongs to no program.
            Some(uri) if path_of(uri).is_none() => out.respond(Response::new_ok(ask.id.clone(), Value::Null)),
            _ => out.fail(ask.id.clone(), ErrorCode::InvalidParams, "the document is not open"),
        };
    };
    let path = path.to_string_lossy();
    let answer =
        std::panic::catch_unwind(|| syntax::answer(&ask.method, &path, &document.text, client.columns));
    match answer {
        Ok(value) => out.respond(Response::new_ok(ask.id.clone(), value)),
        Err(_) => out.fail(ask.id.clone(), ErrorCode::InternalError, "a defect of llm-do; please report it"),
    }
}

impl Server {
    /// Sends a change to the thread that owns the programs.
    fn send(&self, job: Job) {
        // Before the change itself: a check that sees the number waits for the change.
        self.changes.fetch_add(1, Ordering::SeqCst);
        let _ = self.jobs.send(job);
    }

    fn begin(&mut self) {
        self.send(Job::Folders(self.folders.clone()));
        if self.client.watches_files {
            let watchers = json!([{"globPattern": WATCHED}]);
            let registration = json!({
                "id": "files",
                "method": "workspace/didChangeWatchedFiles",
                "registerOptions": {"watchers": watchers},
            });
            self.out.request(
                "register",
                "client/registerCapability",
                json!({"registrations": [registration]}),
            );
        }
    }

    fn serve(&mut self, connection: &Connection) -> Result<Ended, String> {
        for message in &connection.receiver {
            match message {
                Message::Request(request) => self.request(request),
                Message::Notification(notification) if notification.method == "exit" => {
                    return Ok(if self.is_shut_down { Ended::Properly } else { Ended::Abruptly });
                }
                Message::Notification(notification) => self.notification(notification),
                // No answer matters.
                Message::Response(_) => {}
            }
        }
        Ok(Ended::Abruptly)
    }

    fn request(&mut self, request: Request) {
        let Request { id, method, params } = request;
        if self.out.is_pending(&id) {
            // A second answer could not be told from the first.
            return self.complain(&format!("the request {id} was sent twice"));
        }
        self.out.expect(&id);
        if method == "shutdown" {
            self.is_shut_down = true;
            return self.out.respond(Response::new_ok(id, Value::Null));
        }
        if self.is_shut_down {
            return self.out.fail(id, ErrorCode::InvalidRequest, "the server was shut down");
        }
        let ask = Ask { id, method, params, documents: self.documents.clone() };
        let is_syntax = syntax::METHODS.contains(&ask.method.as_str());
        let known = ["textDocument/", "callHierarchy/", "workspace/symbol"];
        if is_syntax {
            let _ = self.syntax.send(ask);
        } else if known.iter().any(|prefix| ask.method.starts_with(prefix)) {
            let _ = self.jobs.send(Job::Ask(ask));
        } else {
            self.out.fail(ask.id, ErrorCode::MethodNotFound, format!("unknown method {}", ask.method));
        }
    }

    fn notification(&mut self, notification: Notification) {
        let Notification { method, params } = notification;
        let done = match method.as_str() {
            "textDocument/didOpen" => read(params).map(|params| self.open(params)),
            "textDocument/didChange" => read(params).and_then(|params| self.change(params)),
            "textDocument/didClose" => read(params).map(|params| self.close(&params)),
            "textDocument/didSave" => {
                self.send(Job::Saved);
                Ok(())
            }
            "workspace/didChangeWatchedFiles" => read(params).map(|params| self.disk(&params)),
            "workspace/didChangeWorkspaceFolders" => {
                self.change_folders(&params);
                Ok(())
            }
            TRUST => {
                if let Some(trusted) = params.get("trusted").and_then(Value::as_bool) {
                    self.send(Job::Trust(trusted));
                }
                Ok(())
            }
            "$/cancelRequest" => {
                let id = params.get("id").cloned().map(serde_json::from_value::<RequestId>);
                if let Some(Ok(id)) = id {
                    self.out.fail(id, ErrorCode::RequestCanceled, "the request was cancelled");
                }
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(message) = done {
            self.complain(&format!("{method}: {message}"));
        }
    }

    /// Tells the client about a message that it should not have sent.
    fn complain(&self, message: &str) {
        let params = json!({"type": 1, "message": format!("llm-do: {message}")});
        self.out.notify("window/showMessage", params);
    }

    fn open(&mut self, params: DidOpenTextDocumentParams) {
        let item = params.text_document;
        let uri = item.uri.0;
        let Some(path) = path_of(&uri).map(|path| real(&path)) else { return };
        let (text, version) = (item.text.into(), item.version);
        self.documents.insert(path.clone(), Document { uri, text, version, is_lost: false });
        self.send(Job::Saved);
        self.send(Job::Documents(self.documents.clone(), path));
    }

    fn change(&mut self, params: DidChangeTextDocumentParams) -> Result<(), String> {
        let uri = params.text_document.text_document_identifier.uri.0;
        let Some(path) = path_of(&uri).map(|path| real(&path)) else { return Ok(()) };
        let version = params.text_document.version;
        let changed = self.documents.change(&path, version, params.content_changes, self.client.columns);
        if self.documents.get(&path).is_some() {
            self.send(Job::Documents(self.documents.clone(), path));
        }
        changed.map_err(|reason| {
            format!(
                "a change of {uri} was not applied, because {reason}; close the document and open it again"
            )
        })
    }

    fn close(&mut self, params: &DidCloseTextDocumentParams) {
        let Some(path) = path_of(&params.text_document.uri.0).map(|path| real(&path)) else { return };
        self.documents.remove(&path);
        self.send(Job::Documents(self.documents.clone(), path));
        self.send(Job::Saved);
    }

    fn disk(&self, params: &DidChangeWatchedFilesParams) {
        let paths = params.changes.iter().filter_map(|change| path_of(&change.uri.0)).map(|path| real(&path));
        // Runs write many files that are no definitions.
        let paths = paths.filter(|path| !path.components().any(|part| part.as_os_str() == ".llm-do"));
        let paths: Vec<PathBuf> = paths.collect();
        if !paths.is_empty() {
            self.send(Job::Disk(paths));
        }
    }

    fn change_folders(&mut self, params: &Value) {
        let listed = |name: &str| -> Vec<(PathBuf, PathBuf)> {
            let all =
                params.pointer(&format!("/event/{name}")).and_then(Value::as_array).into_iter().flatten();
            all.filter_map(|one| folder(one.get("uri")?.as_str()?)).collect()
        };
        let removed = listed("removed");
        self.folders.retain(|folder| !removed.contains(folder));
        self.folders.extend(listed("added"));
        self.send(Job::Folders(self.folders.clone()));
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, String> {
    serde_json::from_value(params).map_err(|error| format!("the parameters are invalid: {error}"))
}
