//! The agent: passes each message of the client to its session.

use crate::{
    backlog::Backlog,
    commands,
    host::Host,
    lines, opening,
    opening::{failed, not_found, wrong},
    options::Options,
    prompt::Prompt,
    servers,
    signal::Signal,
    talk::{Stage, Talk, TheirClient},
};
use agent_client_protocol::{
    Agent, Client, Error, on_receive_notification, on_receive_request,
    schema::ProtocolVersion,
    v1::{
        ConnectionTo,
        schema::{
            AgentCapabilities, AvailableCommandsUpdate, CancelNotification, CloseSessionRequest,
            CloseSessionResponse, Implementation, InitializeRequest, InitializeResponse, ListSessionsRequest,
            ListSessionsResponse, LoadSessionRequest, LoadSessionResponse, McpCapabilities, McpServer,
            NewSessionRequest, NewSessionResponse, PromptCapabilities, PromptRequest, ResumeSessionRequest,
            ResumeSessionResponse, SessionCapabilities, SessionCloseCapabilities, SessionId, SessionInfo,
            SessionListCapabilities, SessionNotification, SessionResumeCapabilities, SessionUpdate,
            SetSessionConfigOptionRequest, SetSessionConfigOptionResponse,
        },
    },
};
use llm_do::{
    Session,
    core::{authority::Place, worker::WorkerDefinition},
    place_of,
    program::visible,
    runs::{NewRunId, RunSummary},
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

/// Chats in one page of a list.
const PAGE: usize = 50;
/// Characters of a chat's title in a list.
const TITLE: usize = 80;

/// The connection to the client broke.
#[derive(Debug, thiserror::Error)]
#[error("the connection to the editor broke: {0}")]
pub struct Disconnected(String);

/// Answers the client at the other end of these streams until it disconnects, or until `stopped`. Chats that run at
/// that moment are cut off and can be resumed. Must be called inside a tokio runtime.
///
/// # Errors
/// The connection broke, or the client sent something that is not the protocol.
pub async fn serve(
    host: Arc<dyn Host>,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    stopped: impl Future<Output = ()>,
) -> Result<(), Disconnected> {
    let backlog = Arc::new(Backlog::default());
    let sessions = Arc::new(Sessions {
        host,
        open: Mutex::default(),
        shows_forms: AtomicBool::new(false),
        backlog: Arc::clone(&backlog),
    });
    let connected = connect(Arc::clone(&sessions), lines::over(reader, writer, Arc::clone(&backlog)));
    let end = tokio::select! {
        end = connected => end,
        () = stopped => Ok(()),
        () = backlog.stalled() => Err(failed("it reads nothing")),
    };
    sessions.close_all().await;
    end.map_err(|error| {
        // The message of an internal error is only its kind.
        let detail = error.data.as_ref().and_then(|data| data.as_str()).map(str::to_owned);
        Disconnected(detail.unwrap_or(error.message))
    })
}

async fn connect(
    sessions: Arc<Sessions>,
    transport: impl agent_client_protocol::ConnectTo<Agent> + 'static,
) -> Result<(), Error> {
    let [begin, new, load, resume, list, close, prompt, cancel, choose] =
        std::array::from_fn(|_| Arc::clone(&sessions));
    Agent
        .v1()
        .name("llm-do")
        .on_receive_request(
            async move |request: InitializeRequest, responder, _| {
                let forms = request.client_capabilities.elicitation.is_some_and(|modes| modes.form.is_some());
                begin.shows_forms.store(forms, Ordering::Relaxed);
                responder.respond(initialized())
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, client: ConnectionTo<Client>| {
                let sessions = Arc::clone(&new);
                let respond_to = client.clone();
                client.spawn(async move {
                    let opening = sessions.new_session(request, &respond_to);
                    let opened = responder.cancellation().run_until_cancelled(opening).await;
                    let id = opened.as_ref().ok().map(|opened| opened.session_id.clone());
                    responder.respond_with_result(opened)?;
                    // A client knows the session once it has the response.
                    id.map_or(Ok(()), |id| sessions.show_commands(&respond_to, id))
                })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest, responder, client: ConnectionTo<Client>| {
                let sessions = Arc::clone(&load);
                let respond_to = client.clone();
                client.spawn(async move {
                    let LoadSessionRequest { session_id, cwd, mcp_servers, .. } = request;
                    let opening = sessions.past(session_id.clone(), cwd, mcp_servers, true, &respond_to);
                    let opened = responder.cancellation().run_until_cancelled(opening).await;
                    responder.respond_with_result(opened.map(|()| LoadSessionResponse::new()))?;
                    sessions.show_commands(&respond_to, session_id)
                })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ResumeSessionRequest, responder, client: ConnectionTo<Client>| {
                let sessions = Arc::clone(&resume);
                let respond_to = client.clone();
                client.spawn(async move {
                    let ResumeSessionRequest { session_id, cwd, mcp_servers, .. } = request;
                    let opening = sessions.past(session_id.clone(), cwd, mcp_servers, false, &respond_to);
                    let opened = responder.cancellation().run_until_cancelled(opening).await;
                    responder.respond_with_result(opened.map(|()| ResumeSessionResponse::new()))?;
                    sessions.show_commands(&respond_to, session_id)
                })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ListSessionsRequest, responder, client: ConnectionTo<Client>| {
                let sessions = Arc::clone(&list);
                client.spawn(async move {
                    let listed = responder.cancellation().run_until_cancelled(sessions.list(request)).await;
                    responder.respond_with_result(listed)
                })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CloseSessionRequest, responder, client: ConnectionTo<Client>| {
                let sessions = Arc::clone(&close);
                client.spawn(async move {
                    responder.respond_with_result(sessions.close(&request.session_id).await)
                })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, _| {
                let said = prompt.of(&request.session_id).and_then(|session| {
                    let said = Prompt::of(&request.prompt, &session.folder)?;
                    Ok((session, said))
                });
                match said {
                    Ok((session, said)) => {
                        session.hear(Signal::Prompt(said, responder));
                        Ok(())
                    }
                    Err(error) => responder.respond_with_error(error),
                }
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |notification: CancelNotification, _| {
                // One for a session that is not open has nothing to stop.
                if let Ok(session) = cancel.of(&notification.session_id) {
                    session.hear(Signal::Cancel);
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: SetSessionConfigOptionRequest, responder, client: ConnectionTo<Client>| {
                let sessions = Arc::clone(&choose);
                client.spawn(async move {
                    let chosen = sessions.choose(request).await;
                    responder.respond_with_result(chosen.map(SetSessionConfigOptionResponse::new))
                })
            },
            on_receive_request!(),
        )
        .connect_to(transport)
        .await
}

fn initialized() -> InitializeResponse {
    let sessions = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .close(SessionCloseCapabilities::new());
    let prompts = PromptCapabilities::new().image(true).embedded_context(true);
    let capabilities = AgentCapabilities::new().load_session(true).session_capabilities(sessions);
    let capabilities = capabilities.prompt_capabilities(prompts);
    let capabilities = capabilities.mcp_capabilities(McpCapabilities::new().http(true));
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .agent_info(Implementation::new("llm-do", env!("CARGO_PKG_VERSION")))
}

/// The sessions of one client.
struct Sessions {
    host: Arc<dyn Host>,
    open: Mutex<HashMap<SessionId, OpenSession>>,
    /// True if the client shows forms.
    shows_forms: AtomicBool,
    backlog: Arc<Backlog>,
}

/// A session that is open.
struct OpenSession {
    handle: Handle,
    task: JoinHandle<()>,
}

/// The address of a session: its channel, its folder and its workers.
#[derive(Clone)]
struct Handle {
    sender: mpsc::UnboundedSender<Signal>,
    /// The folder that the program's workers see as their own.
    folder: Place,
    /// The workers that the user may call.
    workers: Arc<[Arc<WorkerDefinition>]>,
}

impl Handle {
    fn hear(&self, signal: Signal) {
        // A session whose task has ended was closed in this moment. A request in the signal is answered with an error when
        // it is dropped.
        let _ = self.sender.send(signal);
    }
}

impl Sessions {
    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, OpenSession>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, id: &SessionId) -> Result<Handle, Error> {
        let sessions = self.sessions();
        sessions.get(id).map(|open| open.handle.clone()).ok_or_else(|| {
            not_found(format!("no session {id} is open; session/load opens one that was begun before"))
        })
    }

    async fn new_session(
        &self,
        request: NewSessionRequest,
        client: &ConnectionTo<Client>,
    ) -> Result<NewSessionResponse, Error> {
        let servers = servers::of(request.mcp_servers)?;
        let has_servers = !servers.is_empty();
        let (host, cwd) = (Arc::clone(&self.host), request.cwd.clone());
        let session = blocking(move || opening::new(&*host, &cwd, servers)).await?;
        self.note_unused(has_servers, &session);
        let options = Options::of(session);
        let shown = options.shown();
        let folder = own_place(&request.cwd)?;
        let mut sessions = self.sessions();
        let run = loop {
            let run = NewRunId::propose();
            if !sessions.contains_key(&SessionId::from(Arc::clone(run.as_str()))) {
                break run;
            }
        };
        let id = SessionId::from(Arc::clone(run.as_str()));
        let stage = Stage::New { options: Box::new(options), id: run };
        let open = self.begin(id.clone(), folder, client, stage, |talk| talk);
        sessions.insert(id.clone(), open);
        Ok(NewSessionResponse::new(id).config_options(shown))
    }

    /// Opens an earlier chat. With `show`, the client gets its messages.
    async fn past(
        &self,
        id: SessionId,
        cwd: PathBuf,
        servers: Vec<McpServer>,
        show: bool,
        client: &ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let servers = servers::of(servers)?;
        let has_servers = !servers.is_empty();
        // One that is open here is left first, and read again.
        if self.of(&id).is_ok() {
            self.close(&id).await?;
        }
        let (host, run, folder) = (Arc::clone(&self.host), id.to_string(), cwd.clone());
        let (session, past) = blocking(move || opening::past(&*host, &folder, &run, servers)).await?;
        self.note_unused(has_servers, &session);
        let folder = own_place(&cwd)?;
        let stage = Stage::Left { session: Box::new(session), dir: past.dir().to_owned() };
        let open = self.begin(id.clone(), folder, client, stage, |talk| talk.with_past(&past, show));
        self.sessions().insert(id, open);
        Ok(())
    }

    fn begin(
        &self,
        id: SessionId,
        folder: Place,
        client: &ConnectionTo<Client>,
        stage: Stage,
        with: impl FnOnce(Talk) -> Talk,
    ) -> OpenSession {
        let (sender, signals) = mpsc::unbounded_channel();
        let workers: Arc<[Arc<WorkerDefinition>]> = stage.workers().into();
        let client = TheirClient {
            connection: client.clone(),
            backlog: Arc::clone(&self.backlog),
            shows_forms: self.shows_forms.load(Ordering::Relaxed),
        };
        let talk = Talk::new(id, Arc::clone(&self.host), client, sender.clone(), stage, Arc::clone(&workers));
        let task = tokio::spawn(with(talk).hold(signals));
        OpenSession { handle: Handle { sender, folder, workers }, task }
    }

    /// Tells the client the commands of a session, if it is open.
    fn show_commands(&self, client: &ConnectionTo<Client>, id: SessionId) -> Result<(), Error> {
        let Ok(session) = self.of(&id) else { return Ok(()) };
        let commands = AvailableCommandsUpdate::new(commands::available(&session.workers));
        self.backlog.sent();
        client
            .send_notification(SessionNotification::new(id, SessionUpdate::AvailableCommandsUpdate(commands)))
    }

    /// Shows a note if the servers of the client are unused: they reach only workers that list them.
    fn note_unused(&self, has_servers: bool, session: &Session) {
        if has_servers && !session.program().loaded().iter().any(|worker| session.lists_client(worker)) {
            let text = "MCP servers of the editor are not used: no worker of this program lists `client` among its MCP servers";
            self.host.note(text);
        }
    }

    async fn list(&self, request: ListSessionsRequest) -> Result<ListSessionsResponse, Error> {
        let Some(cwd) = request.cwd else {
            return Err(wrong("`cwd` is missing: chats are kept with their program, so name its folder"));
        };
        let (host, folder) = (Arc::clone(&self.host), cwd.clone());
        let chats = blocking(move || opening::list(&*host, &folder)).await?;
        // Newest first, so that a page continues below the last ID of the page before.
        let after = request.cursor;
        let mut rest =
            chats.into_iter().filter(|chat| after.as_ref().is_none_or(|after| chat.run < *after)).peekable();
        let page: Vec<RunSummary> = rest.by_ref().take(PAGE).collect();
        let next = rest.peek().and(page.last()).map(|last| last.run.clone());
        let sessions = page.into_iter().map(|chat| info(chat, &cwd)).collect();
        Ok(ListSessionsResponse::new(sessions).next_cursor(next))
    }

    async fn choose(
        &self,
        request: SetSessionConfigOptionRequest,
    ) -> Result<Vec<agent_client_protocol::v1::schema::SessionConfigOption>, Error> {
        let session = self.of(&request.session_id)?;
        let (chosen, choice) = oneshot::channel();
        session.hear(Signal::Option(request, chosen));
        choice.await.unwrap_or_else(|_| Err(wrong("the session is closed")))
    }

    async fn close(&self, id: &SessionId) -> Result<CloseSessionResponse, Error> {
        let open = self.sessions().remove(id);
        let Some(OpenSession { handle, task }) = open else {
            return Err(not_found(format!("no session {id} is open")));
        };
        handle.hear(Signal::Close);
        // A task that was aborted is over, too.
        let _ = task.await;
        Ok(CloseSessionResponse::new())
    }

    async fn close_all(&self) {
        let open: Vec<OpenSession> = self.sessions().drain().map(|(_, open)| open).collect();
        for OpenSession { handle, .. } in &open {
            handle.hear(Signal::Close);
        }
        for OpenSession { task, .. } in open {
            let _ = task.await;
        }
    }
}

fn info(chat: RunSummary, cwd: &Path) -> SessionInfo {
    let title = chat.message.as_deref().map(|text| visible::start(&visible::line(text), TITLE).into_owned());
    let updated = chat.started_ms.zip(chat.took_ms).and_then(|(began, took)| time(began + took));
    SessionInfo::new(chat.run, cwd).title(title.unwrap_or(chat.entry)).updated_at(updated)
}

/// Formats a time as ISO 8601.
fn time(ms: u64) -> Option<String> {
    let time = jiff::Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
    Some(time.to_string())
}

fn own_place(cwd: &Path) -> Result<Place, Error> {
    place_of(cwd).map_err(|error| wrong(format!("`cwd` is `{}`: {error}", cwd.display())))
}

/// Runs work that reads files or starts processes on a thread beside the connection.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Error::internal_error().data(error.to_string())))
}
