//! Other interfaces to the same runs. Each one translates to calls of [`Service`], behind the checks that llm-do's own
//! interface has.

mod ag_ui;
mod answering;
mod asking;
mod conversation;
pub(crate) mod mcp;
mod openai;
mod round;
mod speaking;
mod stream;

use crate::{
    error::{ApiError, Code},
    service::Service,
    token::Scope,
};
use axum::{
    Router,
    extract::Request,
    http::Method,
    middleware::Next,
    response::Response,
    routing::{MethodFilter, MethodRouter, on},
};

/// Paths of OpenAI's interfaces, as their clients put them behind the base address `/v1`.
const COMPLETIONS: &str = "/v1/chat/completions";
const MODELS: &str = "/v1/models";
const RESPONSES: &str = "/v1/responses";
const RESPONSE: &str = "/v1/responses/{response}";

/// The Model Context Protocol, for the only program or for one of several.
const MCP: &str = "/mcp";
const MCP_OF: &str = "/mcp/{program}";

/// The format of the requests and answers of a route.
#[derive(Clone, Copy)]
pub(crate) enum Format {
    Completions,
    Responses,
    Models,
    AgUi,
    Mcp,
}

impl Format {
    /// Returns the name of the format.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Completions => "OpenAI's Chat Completions",
            Self::Responses => "OpenAI's Responses",
            Self::Models => "OpenAI's Models",
            Self::AgUi => "AG-UI",
            Self::Mcp => "the Model Context Protocol",
        }
    }

    /// Returns the address of the format's specification.
    pub(crate) fn url(self) -> &'static str {
        match self {
            Self::Completions => "https://platform.openai.com/docs/api-reference/chat",
            Self::Responses => "https://platform.openai.com/docs/api-reference/responses",
            Self::Models => "https://platform.openai.com/docs/api-reference/models",
            Self::AgUi => "https://docs.ag-ui.com/introduction",
            Self::Mcp => "https://modelcontextprotocol.io/specification",
        }
    }
}

/// A route of another interface.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// The route's `operationId` in the OpenAPI document.
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) format: Format,
    /// The scope that a token needs. `None`: any token is accepted.
    pub(crate) scope: Option<Scope>,
    handler: fn(MethodFilter) -> MethodRouter<Service>,
}

/// The routes of the other interfaces.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: MODELS,
        name: "openai_models",
        summary: "The workers, as models.",
        format: Format::Models,
        scope: None,
        handler: |methods| on(methods, openai::list),
    },
    Route {
        method: Method::GET,
        path: "/v1/models/{*model}",
        name: "openai_model",
        summary: "A worker, as a model.",
        format: Format::Models,
        scope: None,
        handler: |methods| on(methods, openai::show),
    },
    Route {
        method: Method::POST,
        path: COMPLETIONS,
        name: "openai_complete",
        summary: "An answer of a worker.",
        format: Format::Completions,
        scope: Some(Scope::Start),
        handler: |methods| on(methods, openai::complete),
    },
    Route {
        method: Method::POST,
        path: RESPONSES,
        name: "openai_respond",
        summary: "An answer of a worker, with its calls and questions.",
        format: Format::Responses,
        scope: Some(Scope::Start),
        handler: |methods| on(methods, openai::create),
    },
    Route {
        method: Method::GET,
        path: RESPONSE,
        name: "openai_response",
        summary: "An answer that was asked for before.",
        format: Format::Responses,
        scope: Some(Scope::Read),
        handler: |methods| on(methods, openai::retrieve),
    },
    Route {
        method: Method::POST,
        path: "/v1/responses/{response}/cancel",
        name: "openai_cancel",
        summary: "Ends an answer that is made in the background.",
        format: Format::Responses,
        scope: Some(Scope::Start),
        handler: |methods| on(methods, openai::cancel),
    },
    Route {
        method: Method::POST,
        // The ID of a worker may have several parts.
        path: "/v1/ag-ui/{program}/{*worker}",
        name: "ag_ui_run",
        summary: "Runs a worker, as an agent.",
        format: Format::AgUi,
        scope: Some(Scope::Start),
        handler: |methods| on(methods, ag_ui::run),
    },
    Route {
        method: Method::GET,
        path: MCP,
        name: "mcp_listen",
        summary: "The messages of the server, as a stream.",
        format: Format::Mcp,
        scope: Some(Scope::Start),
        handler: |methods| on(methods, mcp::only),
    },
    Route {
        method: Method::POST,
        path: MCP,
        name: "mcp_send",
        summary: "A message of the client.",
        format: Format::Mcp,
        scope: Some(Scope::Start),
        handler: |methods| on(methods, mcp::only),
    },
    Route {
        method: Method::DELETE,
        path: MCP,
        name: "mcp_end",
        summary: "Ends a session.",
        format: Format::Mcp,
        scope: Some(Scope::Start),
        handler: |methods| on(methods, mcp::only),
    },
    Route {
        method: Method::GET,
        path: MCP_OF,
        name: "mcp_program_listen",
        summary: "The messages of the server, as a stream.",
        format: Format::Mcp,
        scope: Some(Scope::Start),
        handler: |methods| on(methods, mcp::named),
    },
    Route {
        method: Method::POST,
        path: MCP_OF,
        name: "mcp_program_send",
        summary: "A message of the client.",
        format: Format::Mcp,
        scope: Some(Scope::Start),
        handler: |methods| on(methods, mcp::named),
    },
    Route {
        method: Method::DELETE,
        path: MCP_OF,
        name: "mcp_program_end",
        summary: "Ends a session.",
        format: Format::Mcp,
        scope: Some(Scope::Start),
        handler: |methods| on(methods, mcp::named),
    },
];

/// Adds the routes of the other interfaces.
pub(crate) fn mount(router: Router<Service>) -> Router<Service> {
    ROUTES.iter().fold(router, |router, route| {
        let methods = MethodFilter::try_from(route.method.clone()).unwrap_or(MethodFilter::GET);
        router.route(route.path, (route.handler)(methods))
    })
}

/// The routes of the Model Context Protocol alone, for the only program.
pub(crate) fn tools_router() -> Router<Service> {
    let routes = ROUTES.iter().filter(|route| route.path == MCP);
    let router = routes.fold(Router::new(), |router, route| {
        let methods = MethodFilter::try_from(route.method.clone()).unwrap_or(MethodFilter::GET);
        router.route(route.path, (route.handler)(methods))
    });
    router
        .fallback(|| async { ApiError::new(Code::NotFound, "the endpoint is /mcp") })
        .method_not_allowed_fallback(|| async {
            ApiError::new(Code::MethodNotAllowed, "the address does not take this method")
        })
}

/// Returns the scope that a request to one of these routes needs in addition to a token.
pub(crate) fn scope_of(method: &Method, path: &str) -> Option<Scope> {
    ROUTES.iter().find(|route| route.path == path && route.method == *method)?.scope
}

/// Converts the errors of the checks before a request to the form of the interface that the request is for.
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
