//! A server that runs: the negotiated protocol, calls, its end.

mod offers;

use crate::{
    elicit::{self, MOST_ROUNDS},
    http::{Fault, Reached},
    known::Lifecycle,
    process::Started,
    transport::{Lines, Printed, UNREADABLE, keep},
};
use llm_do_core::function::UserAnswer;
use rmcp::{
    ClientHandler, ClientLifecycleMode, ErrorData, Peer, RoleClient, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
        ClientCapabilities, ClientConfig, ClientRequest, ElicitRequestParams, ElicitResult,
        ElicitationAction, ElicitationCapability, Implementation, InputRequest, InputRequiredResult,
        ListRootsRequestMethod, ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestId,
        ServerResult, SubscriptionFilter,
    },
    service::{
        ClientInitializeError, NotificationContext, PeerRequestOptions, RequestContext, RunningService,
        serve_client_with_lifecycle,
    },
    transport::{DynamicTransportError, IntoTransport},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use std::{
    any::Any,
    collections::HashMap,
    error::Error,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{RwLock, broadcast, mpsc, oneshot, watch},
    time::{Instant, sleep, timeout},
};

/// How long a server may take to end by itself after its standard input is closed.
const ENDING: Duration = Duration::from_secs(1);

/// How long a server over HTTP may take to end its session.
const CLOSING: Duration = Duration::from_secs(2);

/// How long a request waits that the server wants to have again without an answer of the user.
const AGAIN: Duration = Duration::from_millis(500);

/// How many questions of a server and signs of its progress wait to be looked at.
const WAITING: usize = 64;

/// How long the end of a killed process is waited for.
const KILLED: Duration = Duration::from_secs(5);

/// A server with which a protocol was negotiated.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    /// Ends when this is dropped. Gone once it was closed.
    service: Mutex<Option<RunningService<RoleClient, Client>>>,
    lifecycle: Lifecycle,
    heard: Arc<Heard>,
    /// What servers of earlier revisions ask the user during calls.
    questions: tokio::sync::Mutex<mpsc::Receiver<Asked>>,
    /// Calls that wait for the user, by their idempotency keys.
    parked: Mutex<HashMap<String, Parked>>,
    /// Read while the server is told of a cancelled call.
    telling: Arc<RwLock<()>>,
    other: OtherEnd,
}

/// A question of a server.
struct Asked {
    asked: ElicitRequestParams,
    reply: oneshot::Sender<ElicitResult>,
}

/// A request that was sent and has no answer yet.
struct Sent {
    answer: oneshot::Receiver<Result<ServerResult, ServiceError>>,
    progress: ProgressToken,
    pending: Pending,
}

/// A request that waits for the user's answer to a question.
struct Parked {
    sent: Sent,
    reply: oneshot::Sender<ElicitResult>,
}

/// A call of a tool.
pub(crate) struct Call<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: Map<String, Value>,
    /// How long it may take without a sign of progress.
    pub(crate) patience: Duration,
    /// How long it may take altogether, from one question to the user to the next.
    pub(crate) most: Duration,
    /// The same for every round.
    pub(crate) key: &'a str,
    /// The server's last questions with the user's answers, and how the call continues.
    pub(crate) answered: Option<(Continuation, Vec<(ElicitRequestParams, UserAnswer)>)>,
    /// What the connection belongs to: it is held until the server has been told of a cancelled call.
    pub(crate) keep: Arc<dyn Any + Send + Sync>,
}

/// What came of a call.
pub(crate) enum Called {
    /// Its result.
    Done(CallToolResult),
    /// The server asks the user something first.
    Asks(Vec<ElicitRequestParams>, Continuation),
}

/// How a call continues after a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Continuation {
    /// Revision 2026-07-28: the request is made again, with the answers under these keys.
    Again { keys: Vec<String>, state: Option<String> },
    /// Earlier revisions: the request waits for the answer, as long as this process runs.
    Waits,
}

/// What is at the other end of a connection.
pub(crate) enum OtherEnd {
    /// A process that llm-do has started.
    Process(ServerProcess),
    /// A server over HTTP.
    Remote(Box<Reached>),
}

/// A server's process while it is connected.
pub(crate) struct ServerProcess {
    printed: Arc<Printed>,
    /// How it broke the protocol, if it did.
    broken: Arc<OnceLock<String>>,
    /// Why the process has ended, once it has.
    ended: watch::Receiver<Option<Arc<str>>>,
    /// The process ends when this is dropped.
    _end: mpsc::Sender<()>,
}

/// Why a call has no result.
pub(crate) enum CallError {
    /// The server's answer to the request is an error.
    Answered(String),
    /// The server has not taken the request.
    Refused(String),
    /// There is no answer.
    Lost(String),
}

/// The client's side of a session. It offers a server questions to the user, and neither sampling nor roots.
struct Client {
    heard: Arc<Heard>,
    questions: mpsc::Sender<Asked>,
    /// [`Connection::telling`].
    telling: Arc<RwLock<()>>,
}

/// What a server says beside its answers.
struct Heard {
    /// Whether its tools have changed.
    changed: AtomicBool,
    /// How many calls are under way.
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

    /// Hands the question to a call that is under way. Outside of calls nobody would know what it is about.
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
    /// Negotiates a protocol with a process that was just started. `known` is what was negotiated with that server before.
    ///
    /// # Errors
    /// Why it can't be used.
    pub(crate) async fn with_process(started: Started, known: Option<Lifecycle>) -> Result<Self, String> {
        let Started { mut running, input, watching } = started;
        let (printed, broken) = (Arc::new(Printed::default()), Arc::new(OnceLock::new()));
        let Some(stdout) = running.stdout() else { return Err("its output can't be read".to_owned()) };
        if let Some(stderr) = running.stderr() {
            tokio::spawn(keep(stderr, Arc::clone(&printed)));
        }
        let transport = Lines::new(stdout, input, Arc::clone(&printed), Arc::clone(&broken));
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
            let _ = tell.send(Some(exit.to_string().into()));
            drop(watching);
        });
        let process = ServerProcess { printed, broken, ended, _end: end };
        Self::negotiate(transport, known, OtherEnd::Process(process)).await
    }

    /// Negotiates a protocol over a transport.
    ///
    /// # Errors
    /// Why the server can't be used.
    pub(crate) async fn negotiate<T, E, A>(
        transport: T,
        known: Option<Lifecycle>,
        other: OtherEnd,
    ) -> Result<Self, String>
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
            Err(error) => return Err(unopened(&error, &other).await),
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

    /// Ends the connection. A server over HTTP is told that its session is over.
    pub(crate) async fn close(&self) {
        // Calls that were cancelled a moment ago.
        let _ = timeout(CLOSING, self.telling.write()).await;
        let service = self.service.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut service) = service {
            let _ = service.close_with_timeout(CLOSING).await;
        }
    }

    /// Whether the server is reached over HTTP.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.other, OtherEnd::Remote(_))
    }

    /// How the server was begun with.
    pub(crate) fn lifecycle(&self) -> Lifecycle {
        self.lifecycle
    }

    /// Whether the server has said since this was asked last that its tools are no longer those that it listed.
    pub(crate) fn has_changed(&self) -> bool {
        self.heard.changed.swap(false, Ordering::AcqRel)
    }

    /// Whether it can't be used any more.
    pub(crate) fn is_gone(&self) -> bool {
        let ended = match &self.other {
            OtherEnd::Process(process) => process.is_gone(),
            OtherEnd::Remote(_) => false,
        };
        ended || self.peer.is_transport_closed()
    }

    /// What the server printed since this was asked last.
    pub(crate) fn printed(&self) -> Option<Arc<str>> {
        match &self.other {
            OtherEnd::Process(process) => process.printed.take(),
            OtherEnd::Remote(_) => None,
        }
    }

    /// What the server sent, without the user's tokens.
    async fn clean<T: Serialize + DeserializeOwned>(&self, sent: T) -> T {
        let OtherEnd::Remote(reached) = &self.other else { return sent };
        let Ok(value) = serde_json::to_value(&sent) else { return sent };
        serde_json::from_value(reached.clean(value).await).unwrap_or(sent)
    }

    fn parked(&self) -> MutexGuard<'_, HashMap<String, Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels a call that waits for the user.
    pub(crate) fn give_up(&self, key: &str) {
        drop(self.parked().remove(key));
    }

    /// Calls a tool, or continues a call after a question to the user. A dropped call is cancelled there.
    ///
    /// # Errors
    /// Why there is no result.
    pub(crate) async fn call(&self, mut call: Call<'_>) -> Result<Called, CallError> {
        let _counted = Counted::new(&self.heard);
        let params = CallToolRequestParams::new(call.tool.to_owned()).with_arguments(call.arguments.clone());
        let mut params = match call.answered.take() {
            None => params,
            Some((Continuation::Again { keys, state }, answers)) => {
                let answers = answers.iter().map(|(asked, answer)| elicit::response(asked, answer));
                with_state(params.with_input_responses(keys.into_iter().zip(answers).collect()), state)
            }
            Some((Continuation::Waits, answers)) => {
                let Some(parked) = self.parked().remove(call.key) else {
                    let reason =
                        "it waited for an answer of yours when the run was interrupted, and no longer does";
                    return Err(CallError::Lost(reason.to_owned()));
                };
                let mut parked = parked;
                parked.sent.pending.keep = Some(Arc::clone(&call.keep));
                if let Some((asked, answer)) = answers.first() {
                    let _ = parked.reply.send(elicit::result(asked, answer));
                }
                return self.wait(parked.sent, &call).await;
            }
        };
        for _ in 0..MOST_ROUNDS {
            let sent = self.send(params.clone(), &call).await?;
            match self.wait(sent, &call).await? {
                // It wants the request once more, later.
                Called::Asks(questions, Continuation::Again { state, .. }) if questions.is_empty() => {
                    params = with_state(params, state);
                    params.input_responses = None;
                    sleep(AGAIN).await;
                }
                called => return Ok(called),
            }
        }
        Err(CallError::Answered(format!("it asked for the same request {MOST_ROUNDS} times")))
    }

    async fn send(&self, params: CallToolRequestParams, call: &Call<'_>) -> Result<Sent, CallError> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        match self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await {
            Ok(handle) => {
                let pending = Pending {
                    peer: self.peer.clone(),
                    request: Some(handle.id.clone()),
                    telling: Arc::clone(&self.telling),
                    keep: Some(Arc::clone(&call.keep)),
                };
                Ok(Sent { answer: handle.rx, progress: handle.progress_token, pending })
            }
            Err(error) => Err(self.explain(&error).await.into()),
        }
    }

    /// Waits for the answer to a request, or for a question that comes before it.
    async fn wait(&self, mut sent: Sent, call: &Call<'_>) -> Result<Called, CallError> {
        let mut progress = self.heard.progress.subscribe();
        let (mut quiet, mut total) = (pin!(sleep(call.patience)), pin!(sleep(call.most)));
        let late = |after: Duration| {
            let after = after.as_secs_f64();
            CallError::Lost(format!("it did not answer within {after} s, and was told to stop"))
        };
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut sent.answer => break answer,
                Asked { asked, reply } = self.question() => {
                    // It is kept by the connection, which must not keep itself.
                    sent.pending.keep = None;
                    self.parked().insert(call.key.to_owned(), Parked { sent, reply });
                    return Ok(Called::Asks(vec![asked], Continuation::Waits));
                }
                sign = progress.recv() => {
                    // One that came too fast to be looked at may have been for this call.
                    if sign.map_or(true, |sign| sign == sent.progress) {
                        quiet.as_mut().reset(Instant::now() + call.patience);
                    }
                }
                () = &mut quiet => return Err(late(call.patience)),
                () = &mut total => return Err(late(call.most)),
            }
        };
        sent.pending.request = None;
        match answer.unwrap_or(Err(ServiceError::TransportClosed)) {
            Ok(ServerResult::CallToolResult(result)) => Ok(Called::Done(self.clean(result).await)),
            Ok(ServerResult::EmptyResult(_)) => Ok(Called::Done(CallToolResult::default())),
            Ok(ServerResult::InputRequiredResult(wanted)) => asks(wanted),
            Ok(_) => Err(CallError::Lost("its answer can't be read: it is no result of a tool".to_owned())),
            Err(ServiceError::McpError(error)) if error.code == UNREADABLE => {
                Err(CallError::Lost(error.message.into_owned()))
            }
            Err(ServiceError::McpError(error)) => {
                Err(CallError::Answered(self.clean(error.message.into_owned()).await))
            }
            Err(error) => Err(self.explain(&error).await.into()),
        }
    }

    /// The next question of the server.
    async fn question(&self) -> Asked {
        loop {
            match self.questions.lock().await.recv().await {
                // The server may have withdrawn it.
                Some(asked) if asked.reply.is_closed() => {}
                Some(asked) => return asked,
                None => std::future::pending().await,
            }
        }
    }

    /// Why a request has no answer.
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

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        if fault.refused { Self::Refused(fault.reason) } else { Self::Lost(fault.reason) }
    }
}

impl OtherEnd {
    /// Why a message could not be sent.
    async fn fault(&self, error: &DynamicTransportError) -> Fault {
        match self {
            Self::Process(process) => Fault { reason: process.gone().await, refused: false },
            Self::Remote(reached) => reached.shown(reached.fault(error)).await,
        }
    }

    /// Why the connection is gone.
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

    /// Why the connection is gone.
    async fn gone(&self) -> String {
        if let Some(broken) = self.broken.get() {
            return broken.clone();
        }
        // Its output closes a moment before the process ends.
        let mut ended = self.ended.clone();
        let exit = tokio::time::timeout(Duration::from_secs(2), ended.wait_for(Option::is_some)).await;
        let said = self.printed.cause().map(|line| format!(": {line}")).unwrap_or_default();
        match exit {
            Ok(Ok(exit)) => format!("its process has ended ({}){said}", exit.as_deref().unwrap_or("?")),
            _ => format!("it closed its output{said}"),
        }
    }
}

impl Drop for Connection {
    /// The server hears that calls which wait for the user are over, and only then that nothing more will be sent to it.
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

/// A call that is under way.
struct Counted<'a>(&'a Heard);

impl<'a> Counted<'a> {
    fn new(heard: &'a Heard) -> Self {
        heard.calls.fetch_add(1, Ordering::AcqRel);
        Self(heard)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

fn with_state(params: CallToolRequestParams, state: Option<String>) -> CallToolRequestParams {
    match state {
        Some(state) => params.with_request_state(state),
        None => params,
    }
}

/// What a server of revision 2026-07-28 wants to know before it continues.
fn asks(wanted: InputRequiredResult) -> Result<Called, CallError> {
    let (mut keys, mut questions) = (Vec::new(), Vec::new());
    for (key, request) in wanted.input_requests.unwrap_or_default() {
        match request {
            InputRequest::Elicitation(request) => {
                keys.push(key);
                questions.push(request.params);
            }
            _ => {
                let reason =
                    "it wants a model's answer or a list of folders, which llm-do does not offer to servers";
                return Err(CallError::Answered(reason.to_owned()));
            }
        }
    }
    Ok(Called::Asks(questions, Continuation::Again { keys, state: wanted.request_state }))
}

/// Hears of changes of the list of tools. Since revision 2026-07-28 a server tells only clients that ask to be told.
async fn listen(peer: Peer<RoleClient>, heard: Arc<Heard>) {
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let Ok(mut subscription) = peer.listen(filter).await else { return };
    while let Ok(Some(_)) = subscription.next().await {
        heard.changed.store(true, Ordering::Release);
    }
}

/// Cancels a request whose caller is no longer there. The run of the caller may end at the same time.
struct Pending {
    peer: Peer<RoleClient>,
    request: Option<RequestId>,
    telling: Arc<RwLock<()>>,
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let (peer, keep) = (self.peer.clone(), self.keep.take());
        let telling = Arc::clone(&self.telling).try_read_owned();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let reason = Some("the call was cancelled".to_owned());
                let _ = peer.notify_cancelled(CancelledNotificationParam::new(Some(request), reason)).await;
                drop((telling, keep));
            });
        }
    }
}

/// Why no protocol was negotiated.
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
