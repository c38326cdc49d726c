//! The Model Context Protocol (`docs/reference/mcp-server.md`): each worker of a program is a tool, and each call is a
//! run of the service. Clients connect over streamable HTTP, or a single client over a pair of streams.

mod call;
mod caller;
mod exact;
mod form;
mod outcome;
mod progress;
mod sealed;
mod stdio;
mod tasks;
mod tool;
mod tools;

pub(crate) use stdio::serve as serve_client;
pub(crate) use tool::name as tool_name;

use crate::{
    error::{ApiError, Code},
    meter::Share,
    service::Service,
    token::Token,
};
use axum::{
    Extension,
    body::{Body, to_bytes},
    extract::{Path, Request, State},
    http::{Method, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use caller::Caller;
use exact::refusal;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tools::Tools;

/// The header of a session.
const SESSION: &str = "mcp-session-id";

/// The endpoint, with the sessions of clients of earlier revisions of the protocol.
pub(crate) struct Endpoint {
    service: StreamableHttpService<Tools, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    ending: StreamableHttpServerConfig,
    /// The token of each session. Another token must not use it.
    owners: Mutex<HashMap<String, Owned>>,
}

/// A session of a token, with its part of the quota.
struct Owned {
    token: Arc<str>,
    _share: Share,
}

impl Endpoint {
    /// Creates the endpoint of a server with that name.
    pub(crate) fn new(name: &str) -> Self {
        let mut config = StreamableHttpServerConfig::default();
        // The service has checked the host, the origin and the size of the body.
        config.max_request_body_bytes = usize::MAX;
        let sessions = Arc::new(LocalSessionManager::default());
        let tools = Tools::of_requests(name);
        let service =
            StreamableHttpService::new(move || Ok(tools.clone()), Arc::clone(&sessions), config.clone());
        Self { service, sessions, ending: config, owners: Mutex::default() }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, Owned>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes room for another session of the token. If there is none, sessions that have ended by themselves are
    /// forgotten first.
    async fn room(&self, service: &Service, token: &Token) -> Result<Share, ApiError> {
        let meter = &service.quotas().mcp_sessions;
        if let Ok(share) = meter.take(token.name(), 1) {
            return Ok(share);
        }
        {
            let open = self.sessions.sessions.read().await;
            self.owners().retain(|session, _| open.contains_key(&**session));
        }
        meter.take(token.name(), 1)
    }

    /// Ends all sessions.
    pub(crate) fn end(&self) {
        self.ending.cancellation_token.cancel();
    }

    async fn handle(
        &self,
        service: Service,
        token: Arc<Token>,
        program: String,
        mut request: Request,
    ) -> Response {
        let of = |headers: &axum::http::HeaderMap| {
            headers.get(SESSION).and_then(|session| session.to_str().ok()).map(str::to_owned)
        };
        let session = of(request.headers());
        let share = match &session {
            Some(session) => {
                if self.owners().get(session).is_none_or(|owned| owned.token != *token.name()) {
                    return ApiError::new(Code::NotFound, "there is no such session: initialize again")
                        .into_response();
                }
                None
            }
            // A request without a session may begin one.
            None => match self.room(&service, &token).await {
                Ok(share) => Some(share),
                Err(error) => return error.into_response(),
            },
        };
        let ends = *request.method() == Method::DELETE;
        let name = Arc::clone(token.name());
        request.extensions_mut().insert(Caller { service, token, program });
        let (head, body) = request.into_parts();
        let Ok(body) = to_bytes(body, usize::MAX).await else {
            return ApiError::new(Code::TooLarge, "the body can't be read, or is too large").into_response();
        };
        if let Some(answer) = refusal(&body) {
            return ([(CONTENT_TYPE, "application/json")], answer).into_response();
        }
        let request = Request::from_parts(head, Body::from(body));
        let response = self.service.handle(request).await.into_response();
        if let (true, Some(session)) = (ends, &session) {
            self.owners().remove(session);
        }
        if let (Some(share), Some(session)) = (share, of(response.headers())) {
            self.owners().insert(session, Owned { token: name, _share: share });
        }
        response
    }
}

/// Handles `/mcp` of a server with one program.
pub(super) async fn only(
    State(service): State<Service>,
    Extension(token): Extension<Arc<Token>>,
    Extension(endpoint): Extension<Arc<Endpoint>>,
    request: Request,
) -> Result<Response, ApiError> {
    let Some(program) = service.only_program(&token) else {
        let why = "the server has several programs: use /mcp/PROGRAM";
        return Err(ApiError::new(Code::NotFound, why));
    };
    Ok(endpoint.handle(service, token, program, request).await)
}

/// Handles `/mcp/PROGRAM`.
pub(super) async fn named(
    State(service): State<Service>,
    Extension(token): Extension<Arc<Token>>,
    Extension(endpoint): Extension<Arc<Endpoint>>,
    Path(program): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    service.sessions(&token, &program)?;
    Ok(endpoint.handle(service, token, program, request).await)
}
