//! A server that runs: the negotiated protocol, calls, and the end of the connection.

mod calls;
mod offers;

pub(crate) use calls::{Call, CallError, Called, Continuation};

use crate::{
    http::{Fault, Reached},
    known::Lifecycle,
    process::Started,
    transport::{LineReader, Printed, UNREADABLE, keep},
};
use calls::Parked;
use rmcp::{
    ClientHandler, ClientLifecycleMode, ErrorData, Peer, RoleClient, ServiceError,
    model::{
        ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
        ElicitationCapability, Implementation, ListRootsRequestMethod, ProgressNotificationParam,
        ProgressToken, ProtocolVersion, SubscriptionFilter,
    },
    service::{
        ClientInitializeError, NotificationContext, RequestContext, RunningService,
        serve_client_with_lifecycle,
    },
    transport::{DynamicTransportError, IntoTransport},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::HashMap,
    error::Error,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{RwLock, broadcast, mpsc, oneshot, watch},
    time::timeout,
};

/// Most time for a server to end by itself after its standard input is closed.
const ENDING: Duration = Duration::from_secs(1);

/// Most time for a server over HTTP to end its session.
const CLOSING: Duration = Duration::from_secs(2);

/// Most questions of a server that wait to be read, and most signs of its progress.
const WAITING: usize = 64;

/// Most time to wait for the end of a killed process.
const KILLED: Duration = Duration::from_secs(5);

/// The time in which the rest of a process's standard error is read after its end.
const LAST_LINES: Duration = Duration::from_secs(1);

/// A server with which a protocol was negotiated.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    /// The protocol's task. It ends when this is dropped. `None` once it was closed.
    service: Mutex<Option<RunningService<RoleClient, Client>>>,
    lifecycle: Lifecycle,
    heard: Arc<Heard>,
    /// Questions that servers of earlier revisions ask the user during calls.
    questions: tokio::sync::Mutex<mpsc::Receiver<Asked>>,
    /// Calls that wait for the user, by their idempotency keys.
    parked: Mutex<HashMap<String, Parked>>,
    /// A lock that is held for reading while the server is sent notice of a cancelled call.
    telling: Arc<RwLock<()>>,
    other: OtherEnd,
}

/// A question of a server.
struct Asked {
    asked: ElicitRequestParams,
    reply: oneshot::Sender<ElicitResult>,
}

/// The other end of a connection.
pub(crate) enum OtherEnd {
    /// A process that llm-do has started.
    Process(ServerProcess),
    /// A server over HTTP.
    Remote(Box<Reached>),
}

/// A server's process while it is connected.
pub(crate) struct ServerProcess {
    printed: Arc<Printed>,
    /// The violation of the protocol, if the server committed one.
    broken: Arc<OnceLock<String>>,
    /// The reason for which the process has ended, once it has.
    ended: watch::Receiver<Option<Arc<str>>>,
    /// The process ends when this is dropped.
    _end: mpsc::Sender<()>,
}

/// A server that can't be used, with the reason.
pub(crate) struct Unopened {
    pub(crate) reason: String,
    /// True if the server may speak an earlier revision than those that were tried.
    pub(crate) may_be_older: bool,
}

impl From<String> for Unopened {
    fn from(reason: String) -> Self {
        Self { reason, may_be_older: false }
    }
}

/// The client's side of a session. It offers a server questions to the user, and neither sampling nor roots.
struct Client {
    heard: Arc<Heard>,
    questions: mpsc::Sender<Asked>,
    /// See [`Connection::telling`].
    telling: Arc<RwLock<()>>,
}

/// Notifications and progress that a server sends beside its answers.
struct Heard {
    /// True if the server has said that its tools have changed.
    changed: AtomicBool,
    /// The number of calls under way.
    calls: AtomicUsize,
    progress: broadcast::Sender<ProgressToken>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let elicitation =
            ElicitationCapability::new().with_form(Default::default()).with_url(Default::default());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(elicitation);
        ClientConfig::new(capabilities, Implementation::new("llm-do", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    /// Hands the question to a call that is under way. Outside of calls, a user would not know what the question is
    /// about.
    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let (reply, answer) = oneshot::channel();
        if self.heard.calls.load(Ordering::Acquire) == 0
            || self.questions.send(Asked { asked, reply }).await.is_err()
        {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        }
        match answer.await {
            Ok(answer) => Ok(answer),
            Err(_) => {
                // The call was given up. The server must hear this first: an answer before it would look like the user's.
                let _ = timeout(CLOSING, self.telling.write()).await;
                Ok(ElicitResult::new(ElicitationAction::Cancel))
            }
        }
    }

    async fn on_progress(
        &self,
        progress: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        // Without a call that waits there is no receiver.
        let _ = self.heard.progress.send(progress.progress_token);
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.heard.changed.store(true, Ordering::Release);
    }

    #[expect(deprecated, reason = "servers of older revisions ask")]
    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }
}

impl Connection {
    /// Negotiates a protocol with a process that was just started. `known` is the lifecycle that was negotiated with
    /// that server before.
    ///
    /// # Errors
    /// The server can't be used.
    pub(crate) async fn with_process(started: Started, known: Option<Lifecycle>) -> Result<Self, Unopened> {
        let Started { mut running, input, watching } = started;
        let (printed, broken) = (Arc::new(Printed::default()), Arc::new(OnceLock::new()));
        let Some(stdout) = running.stdout() else { return Err("its output can't be read".to_owned().into()) };
        let reading = running.stderr().map(|stderr| tokio::spawn(keep(stderr, Arc::clone(&printed))));
        let transport = LineReader::new(stdout, input, Arc::clone(&printed), Arc::clone(&broken));
        let (end, mut told) = mpsc::channel::<()>(1);
        let (tell, ended) = watch::channel(None);
        tokio::spawn(async move {
            let exit = tokio::select! {
                exit = running.wait() => Some(exit),
                // The connection was dropped, and the standard input of the server is closed, which asks it to end.
                _ = told.recv() => tokio::time::timeout(ENDING, running.wait()).await.ok(),
            };
            let exit = match exit {
                Some(exit) => exit,
                None => {
                    running.kill();
                    match tokio::time::timeout(KILLED, running.wait()).await {
                        Ok(exit) => exit,
                        Err(_) => return,
                    }
                }
            };
            // The end is told with the last line that the process printed.
            if let Some(reading) = reading {
                let _ = timeout(LAST_LINES, reading).await;
            }
            let _ = tell.send(Some(exit.to_string().into()));
            drop(watching);
        });
        let process = ServerProcess { printed, broken, ended, _end: end };
        Self::negotiate(transport, known, OtherEnd::Process(process)).await
    }

    /// Negotiates a protocol over a transport.
    ///
    /// # Errors
    /// The server can't be used.
    pub(crate) async fn negotiate<T, E, A>(
        transport: T,
        known: Option<Lifecycle>,
        other: OtherEnd,
    ) -> Result<Self, Unopened>
    where
        T: IntoTransport<RoleClient, E, A>,
        E: Error + Send + Sync + 'static,
    {
        let heard = Arc::new(Heard {
            changed: AtomicBool::new(false),
            calls: AtomicUsize::new(0),
            progress: broadcast::Sender::new(WAITING),
        });
        let (ask, questions) = mpsc::channel(WAITING);
        let lifecycle = match known {
            Some(Lifecycle::Initialize) => ClientLifecycleMode::Initialize,
            Some(Lifecycle::Discover) => {
                ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
            }
            None => ClientLifecycleMode::Auto {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
                legacy_version: Some(ProtocolVersion::V_2025_11_25),
            },
        };
        let telling = Arc::<RwLock<()>>::default();
        let client = Client { heard: Arc::clone(&heard), questions: ask, telling: Arc::clone(&telling) };
        let service = match serve_client_with_lifecycle(client, transport, lifecycle).await {
            Ok(service) => service,
            Err(error) => {
                let reason = unopened(&error, &other).await;
                return Err(Unopened { reason, may_be_older: may_be_older(&error) });
            }
        };
        let peer = service.peer().clone();
        let info = peer.peer_info();
        let lifecycle = match &info {
            Some(info) if !info.protocol_version.has_initialize() => Lifecycle::Discover,
            _ => Lifecycle::Initialize,
        };
        let tools = info.as_ref().and_then(|info| info.capabilities.tools.as_ref());
        if lifecycle == Lifecycle::Discover && tools.is_some_and(|tools| tools.list_changed == Some(true)) {
            tokio::spawn(listen(peer.clone(), Arc::clone(&heard)));
        }
        let (service, parked) = (Mutex::new(Some(service)), Mutex::default());
        let questions = tokio::sync::Mutex::new(questions);
        Ok(Self { peer, service, lifecycle, heard, questions, parked, telling, other })
    }

    /// Ends the connection, and the session of a server over HTTP.
    pub(crate) async fn close(&self) {
        // Calls that were cancelled a moment ago.
        let _ = timeout(CLOSING, self.telling.write()).await;
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut service) = service {
            let _ = service.close_with_timeout(CLOSING).await;
        }
    }

    /// Returns true if the server is reached over HTTP.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.other, OtherEnd::Remote(_))
    }

    /// Returns the lifecycle that was negotiated with the server.
    pub(crate) fn lifecycle(&self) -> Lifecycle {
        self.lifecycle
    }

    /// Returns true if the server has said since the last call of this function that its tools have changed.
    pub(crate) fn has_changed(&self) -> bool {
        self.heard.changed.swap(false, Ordering::AcqRel)
    }

    /// Returns true if the connection can't be used any more.
    pub(crate) fn is_gone(&self) -> bool {
        let ended = match &self.other {
            OtherEnd::Process(process) => process.is_gone(),
            OtherEnd::Remote(_) => false,
        };
        ended || self.peer.is_transport_closed()
    }

    /// Returns the text that the server printed since the last call of this function.
    pub(crate) fn printed(&self) -> Option<Arc<str>> {
        match &self.other {
            OtherEnd::Process(process) => process.printed.take(),
            OtherEnd::Remote(_) => None,
        }
    }

    /// Removes the user's tokens from a message of the server.
    async fn clean<T: Serialize + DeserializeOwned>(&self, sent: T) -> T {
        let OtherEnd::Remote(reached) = &self.other else { return sent };
        let Ok(value) = serde_json::to_value(&sent) else { return sent };
        serde_json::from_value(reached.clean(value).await).unwrap_or(sent)
    }

    fn parked(&self) -> MutexGuard<'_, HashMap<String, Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the reason for which a request has no answer.
    async fn explain(&self, error: &ServiceError) -> Fault {
        let reason = match error {
            ServiceError::McpError(error) if error.code == UNREADABLE => error.message.to_string(),
            ServiceError::McpError(error) => format!("it answered with an error: {}", error.message),
            ServiceError::Timeout { timeout } => {
                format!("it did not answer within {} s, and was told to stop", timeout.as_secs_f64())
            }
            ServiceError::TransportSend(error) => return self.other.fault(error).await,
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => self.other.gone().await,
            other => other.to_string(),
        };
        Fault { reason, refused: false }
    }
}

impl OtherEnd {
    /// Returns the reason for which a message could not be sent.
    async fn fault(&self, error: &DynamicTransportError) -> Fault {
        match self {
            Self::Process(process) => Fault { reason: process.gone().await, refused: false },
            Self::Remote(reached) => reached.shown(reached.fault(error)).await,
        }
    }

    /// Returns the reason for which the connection is gone.
    async fn gone(&self) -> String {
        match self {
            Self::Process(process) => process.gone().await,
            Self::Remote(_) => {
                "the connection broke before the answer was complete, or the answer was too long".to_owned()
            }
        }
    }
}

impl ServerProcess {
    fn is_gone(&self) -> bool {
        self.ended.borrow().is_some() || self.broken.get().is_some()
    }

    /// Returns the reason for which the connection is gone.
    async fn gone(&self) -> String {
        if let Some(broken) = self.broken.get() {
            return broken.clone();
        }
        // Its output closes a moment before the process ends.
        let mut ended = self.ended.clone();
        let exit = timeout(KILLED, ended.wait_for(Option::is_some)).await;
        let said = self.printed.cause().map(|line| format!(": {line}")).unwrap_or_default();
        match exit {
            Ok(Ok(exit)) => format!("its process has ended ({}){said}", exit.as_deref().unwrap_or("?")),
            _ => format!("it closed its output{said}"),
        }
    }
}

impl Drop for Connection {
    /// Cancels the calls that wait for the user, sends the server their cancellations, and only then closes the
    /// connection.
    fn drop(&mut self) {
        let parked = std::mem::take(&mut *self.parked());
        if parked.is_empty() {
            return;
        }
        drop(parked);
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        let telling = Arc::clone(&self.telling);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = timeout(CLOSING, telling.write()).await;
                drop(service);
            });
        }
    }
}

/// Subscribes to changes of the list of tools. Since revision 2026-07-28 a server only notifies clients that subscribe.
async fn listen(peer: Peer<RoleClient>, heard: Arc<Heard>) {
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let Ok(mut subscription) = peer.listen(filter).await else { return };
    while let Ok(Some(_)) = subscription.next().await {
        heard.changed.store(true, Ordering::Release);
    }
}

/// Returns true if the server has answered the request for its revisions with something else than revisions that need
/// no session. A server that does not know the request should answer with an error, and the library then begins a
/// session. Some servers answer with an empty result.
fn may_be_older(error: &ClientInitializeError) -> bool {
    matches!(
        error,
        ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::NoCompatibleProtocolVersion { .. }
    )
}

/// Returns the reason for which no protocol was negotiated.
async fn unopened(error: &ClientInitializeError, other: &OtherEnd) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused to begin: {}", error.message)
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            Box::pin(unopened(fallback, other)).await
        }
        ClientInitializeError::TransportError { error, .. } => other.fault(error).await.reason,
        ClientInitializeError::ConnectionClosed(_) => other.gone().await,
        other => format!("it does not speak a known revision of the protocol: {other}"),
    }
}
