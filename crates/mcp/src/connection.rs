//! A server that runs: the negotiated protocol, its tools, calls, its end.

use crate::{
    process::Started,
    transport::{Lines, Printed, keep},
};
use rmcp::{
    ClientHandler, ClientLifecycleMode, Peer, RoleClient, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam,
        ClientCapabilities, ClientConfig, ClientRequest, Implementation, PaginatedRequestParams,
        ProtocolVersion, RequestId, ServerResult, Tool,
    },
    service::{
        ClientInitializeError, NotificationContext, PeerRequestOptions, RunningService,
        serve_client_with_lifecycle,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::{mpsc, watch};

/// Most tools of one server. A list that never ends would fill any memory and any model's context.
const MOST_TOOLS: usize = 512;

/// How long a server may take to end by itself after its standard input is closed.
const ENDING: Duration = Duration::from_secs(1);

/// How long the end of a killed process is waited for.
const KILLED: Duration = Duration::from_secs(5);

/// The way to begin with a server, which is remembered with its tools: trying it out again would cost a server that does not
/// answer unknown requests ten seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Lifecycle {
    /// Revision 2026-07-28 and later: each request says who asks.
    Discover,
    /// Earlier revisions: a session that begins with `initialize`.
    Initialize,
}

/// A server with which a protocol was negotiated.
pub(crate) struct Connection {
    service: RunningService<RoleClient, Client>,
    lifecycle: Lifecycle,
    changed: Arc<AtomicBool>,
    printed: Arc<Printed>,
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
    /// There is no answer.
    Lost(String),
}

/// The client's side of a session. It offers a server nothing: no sampling, no roots, no elicitation.
struct Client {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("llm-do", env!("CARGO_PKG_VERSION")),
        )
        .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Release);
    }
}

impl Connection {
    /// Negotiates a protocol with a process that was just started. `known` is what was negotiated with that server before.
    ///
    /// # Errors
    /// Why it can't be used.
    pub(crate) async fn open(started: Started, known: Option<Lifecycle>) -> Result<Self, String> {
        let Started { mut running, input, watching } = started;
        let (printed, broken) = (Arc::new(Printed::default()), Arc::new(OnceLock::new()));
        let changed = Arc::new(AtomicBool::new(false));
        let Some(stdout) = running.stdout() else { return Err("its output can't be read".to_owned()) };
        if let Some(stderr) = running.stderr() {
            tokio::spawn(keep(stderr, Arc::clone(&printed)));
        }
        let transport = Lines::new(stdout, input, Arc::clone(&printed), Arc::clone(&broken));
        let (end, mut told) = mpsc::channel::<()>(1);
        let (tell, mut ended) = watch::channel(None);
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
        let client = Client { changed: Arc::clone(&changed) };
        let service = match serve_client_with_lifecycle(client, transport, lifecycle).await {
            Ok(service) => service,
            Err(error) => return Err(unopened(&error, &broken, &mut ended, &printed).await),
        };
        let version = service.peer().peer_info().map(|info| info.protocol_version.clone());
        let lifecycle = match version {
            Some(version) if !version.has_initialize() => Lifecycle::Discover,
            _ => Lifecycle::Initialize,
        };
        Ok(Self { service, lifecycle, changed, printed, broken, ended, _end: end })
    }

    /// How the server was begun with.
    pub(crate) fn lifecycle(&self) -> Lifecycle {
        self.lifecycle
    }

    /// Whether the server has said since this was asked last that its tools are no longer those that it listed.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed.swap(false, Ordering::AcqRel)
    }

    /// Whether it can't be used any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.ended.borrow().is_some()
            || self.broken.get().is_some()
            || self.service.peer().is_transport_closed()
    }

    /// What the server printed since this was asked last.
    pub(crate) fn printed(&self) -> Option<Arc<str>> {
        self.printed.take()
    }

    /// Its tools: what all pages of its list hold.
    ///
    /// # Errors
    /// Why there is no list.
    pub(crate) async fn list(&self) -> Result<Vec<Tool>, String> {
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = self
                .service
                .peer()
                .list_tools(Some(PaginatedRequestParams::default().with_cursor(cursor.clone())))
                .await;
            let page = match page {
                Ok(page) => page,
                Err(error) => return Err(self.explain(&error).await),
            };
            tools.extend(page.tools);
            if tools.len() > MOST_TOOLS {
                return Err(format!("it lists more than {MOST_TOOLS} tools"));
            }
            match page.next_cursor {
                // An empty page that leads to another one would never end.
                Some(next) if cursor.as_ref() != Some(&next) && !tools.is_empty() => cursor = Some(next),
                _ => return Ok(tools),
            }
        }
    }

    /// Calls a tool. `patience` is how long it may take without a sign of progress, `most` how long altogether. A dropped
    /// call is cancelled there.
    ///
    /// # Errors
    /// Why there is no result.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        patience: Duration,
        most: Duration,
    ) -> Result<CallToolResult, CallError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::with_timeout(patience)
            .reset_timeout_on_progress()
            .with_max_total_timeout(most);
        let handle = match self.service.peer().send_cancellable_request(request, options).await {
            Ok(handle) => handle,
            Err(error) => return Err(CallError::Lost(self.explain(&error).await)),
        };
        let mut pending = Pending { peer: self.service.peer(), request: Some(handle.id.clone()) };
        let answer = handle.await_response().await;
        pending.request = None;
        match answer {
            Ok(ServerResult::CallToolResult(result)) => Ok(result),
            Ok(ServerResult::EmptyResult(_)) => Ok(CallToolResult::default()),
            Ok(ServerResult::InputRequiredResult(_)) => Err(CallError::Answered(
                "it wants to ask the user something, which llm-do does not offer to servers".to_owned(),
            )),
            Ok(_) => Err(CallError::Answered("its answer is no result of a tool".to_owned())),
            Err(ServiceError::McpError(error)) => Err(CallError::Answered(error.message.into_owned())),
            Err(error) => Err(CallError::Lost(self.explain(&error).await)),
        }
    }

    /// Why a request has no answer.
    async fn explain(&self, error: &ServiceError) -> String {
        match error {
            ServiceError::McpError(error) => format!("it answered with an error: {}", error.message),
            ServiceError::Timeout { timeout } => {
                format!("it did not answer within {} s, and was told to stop", timeout.as_secs_f64())
            }
            ServiceError::TransportClosed
            | ServiceError::TransportSend(_)
            | ServiceError::Cancelled { .. } => {
                gone(&self.broken, &mut self.ended.clone(), &self.printed).await
            }
            other => other.to_string(),
        }
    }
}

/// Cancels a request whose caller is no longer there.
struct Pending<'a> {
    peer: &'a Peer<RoleClient>,
    request: Option<RequestId>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let peer = self.peer.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let reason = Some("the call was cancelled".to_owned());
                let _ = peer.notify_cancelled(CancelledNotificationParam::new(Some(request), reason)).await;
            });
        }
    }
}

/// Why no protocol was negotiated.
async fn unopened(
    error: &ClientInitializeError,
    broken: &OnceLock<String>,
    ended: &mut watch::Receiver<Option<Arc<str>>>,
    printed: &Printed,
) -> String {
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused to begin: {}", error.message)
        }
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
            Box::pin(unopened(fallback, broken, ended, printed)).await
        }
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. } => {
            gone(broken, ended, printed).await
        }
        other => format!("it does not speak a known revision of the protocol: {other}"),
    }
}

/// Why the connection is gone.
async fn gone(
    broken: &OnceLock<String>,
    ended: &mut watch::Receiver<Option<Arc<str>>>,
    printed: &Printed,
) -> String {
    if let Some(broken) = broken.get() {
        return broken.clone();
    }
    // Its output closes a moment before the process ends.
    let exit = tokio::time::timeout(Duration::from_secs(2), ended.wait_for(Option::is_some)).await;
    let said = printed.last_line().map(|line| format!(": {line}")).unwrap_or_default();
    match exit {
        Ok(Ok(exit)) => format!("its process has ended ({}){said}", exit.as_deref().unwrap_or("?")),
        _ => format!("it closed its output{said}"),
    }
}
