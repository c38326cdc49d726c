//! Other interfaces to the same runs. Each is a translation over [`Service`], behind the same checks as its own interface.

mod ag_ui;
mod answering;
mod asking;
mod conversation;
pub(crate) mod mcp;
mod openai;
mod round;
mod stream;

use crate::{error::ApiError, service::Service, token::Scope};
use axum::{
    Router,
    extract::Request,
    http::Method,
    middleware::Next,
    response::Response,
    routing::{any, get, post},
};

/// Paths of OpenAI's interfaces, as their clients put them behind the base address `/v1`.
const COMPLETIONS: &str = "/v1/chat/completions";
const MODELS: &str = "/v1/models";
const MODEL: &str = "/v1/models/{*model}";
const RESPONSES: &str = "/v1/responses";
const RESPONSE: &str = "/v1/responses/{response}";
const CANCEL_RESPONSE: &str = "/v1/responses/{response}/cancel";

/// The path of AG-UI. The ID of a worker may have several parts.
const AG_UI: &str = "/v1/ag-ui/{program}/{*worker}";

/// The Model Context Protocol, for the only program or for one of several.
const MCP: &str = "/mcp";
const MCP_OF: &str = "/mcp/{program}";

/// Adds the routes of the other interfaces.
pub(crate) fn mount(router: Router<Service>) -> Router<Service> {
    router
        .route(MODELS, get(openai::list))
        .route(MODEL, get(openai::show))
        .route(COMPLETIONS, post(openai::complete))
        .route(RESPONSES, post(openai::create))
        .route(RESPONSE, get(openai::retrieve))
        .route(CANCEL_RESPONSE, post(openai::cancel))
        .route(AG_UI, post(ag_ui::run))
        .route(MCP, any(mcp::only))
        .route(MCP_OF, any(mcp::named))
}

/// What a request to them needs beside a token.
pub(crate) fn scope_of(method: &Method, path: &str) -> Option<Scope> {
    match path {
        COMPLETIONS | RESPONSES | CANCEL_RESPONSE | AG_UI | MCP | MCP_OF => Some(Scope::Start),
        RESPONSE if *method == Method::GET => Some(Scope::Read),
        _ => None,
    }
}

/// Gives the errors of the checks before a request the form of the interface that it is for.
pub(crate) async fn with_their_errors(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_openai = [COMPLETIONS, MODELS, RESPONSES]
        .iter()
        .any(|own| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    let response = next.run(request).await;
    match response.extensions().get::<ApiError>() {
        Some(error) if is_openai => {
            let mut reshaped = openai::reshaped(error);
            // What the outer checks add to every response.
            for (name, value) in response.headers() {
                reshaped.headers_mut().entry(name).or_insert_with(|| value.clone());
            }
            reshaped
        }
        _ => response,
    }
}
