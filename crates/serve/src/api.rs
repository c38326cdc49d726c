//! The routes: one table for the router and for the description of the interface.

use crate::{
    error::{ApiError, Code},
    faces,
    openapi::document,
    service::{LARGEST_PAGE, Service},
    token::{Scope, Token},
    views::{GiveAnswer, Health, MessageSent, Questions, RunView, Runs, SendMessage, StartRun, Workers},
};
use axum::{
    Extension, Json, Router,
    extract::{FromRequest, Path, Query, Request, State, rejection::JsonRejection},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response, Sse, sse::KeepAlive},
    routing::{MethodFilter, MethodRouter, on},
};
use llm_do::runs::is_run_id;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// The header by which a client makes a request safe to repeat.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Longest wait for the end of a run that one request can ask for, in seconds.
const LONGEST_WAIT: u32 = 300;
const PAGE: usize = 50;
/// How often a stream without events says that it is still there.
const ALIVE: Duration = Duration::from_secs(15);

/// A way to ask for a schema.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The body of a response.
pub(crate) enum Body {
    None,
    Json(SchemaOf),
    Text(&'static str),
}

/// A parameter in a path, a query or a header.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) place: &'static str,
    pub(crate) description: &'static str,
    pub(crate) schema: fn() -> Value,
}

/// A route of the interface.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// What programs call it by.
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    /// `None`: without a token. `Some(None)`: with any token.
    pub(crate) scope: Option<Option<Scope>>,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) body: Option<SchemaOf>,
    pub(crate) responses: &'static [(u16, &'static str, Body)],
    /// The errors that only this route has.
    pub(crate) own_errors: &'static [(u16, &'static str)],
    handler: fn(MethodFilter) -> MethodRouter<Service>,
}

impl Route {
    /// The errors that it can answer with.
    pub(crate) fn errors(&self) -> Vec<(u16, &'static str)> {
        let mut errors =
            vec![(400, "The request is wrong."), (403, "The token, the host or the origin is not allowed.")];
        if self.scope.is_some() {
            errors.push((401, "There is no token, or no such token."));
        }
        if self.path.contains("{run}") {
            errors.push((404, "There is no such run that the token may see."));
        }
        if self.body.is_some() {
            errors.push((408, "The body did not arrive in time."));
            errors.push((413, "The body is too large."));
        }
        errors.extend(self.own_errors);
        errors
    }
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const RUN: Parameter = Parameter {
    name: "run",
    place: "path",
    description: "The ID of a run.",
    schema: || json!({"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{6}-[0-9a-f]{4}$"}),
};
const WAIT: Parameter = Parameter {
    name: "wait",
    place: "query",
    description: "Answer when the run is over or asks something, or after so many seconds.",
    schema: || json!({"type": "integer", "minimum": 0, "maximum": LONGEST_WAIT}),
};

/// All routes.
pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/health",
        name: "health",
        summary: "Whether the server works",
        scope: None,
        parameters: &[],
        body: None,
        responses: &[(200, "It does.", Body::Json(schema::<Health>))],
        own_errors: &[(503, "It shuts down.")],
        handler: |on_method| on(on_method, health),
    },
    Route {
        method: Method::GET,
        path: "/openapi.json",
        name: "openapi",
        summary: "This description",
        scope: None,
        parameters: &[],
        body: None,
        responses: &[(200, "An OpenAPI 3.1 document.", Body::Text("application/json"))],
        own_errors: &[],
        handler: |on_method| on(on_method, openapi),
    },
    Route {
        method: Method::GET,
        path: "/metrics",
        name: "metrics",
        summary: "Counts for Prometheus",
        scope: Some(Some(Scope::Read)),
        parameters: &[],
        body: None,
        responses: &[(200, "In the format OpenMetrics.", Body::Text("application/openmetrics-text"))],
        own_errors: &[],
        handler: |on_method| on(on_method, metrics),
    },
    Route {
        method: Method::GET,
        path: "/v1/workers",
        name: "listWorkers",
        summary: "The workers that can be started, with the schemas of their inputs and outputs",
        scope: Some(None),
        parameters: &[],
        body: None,
        responses: &[(200, "The workers.", Body::Json(schema::<Workers>))],
        own_errors: &[],
        handler: |on_method| on(on_method, workers),
    },
    Route {
        method: Method::POST,
        path: "/v1/runs",
        name: "startRun",
        summary: "Start a run",
        scope: Some(Some(Scope::Start)),
        parameters: &[
            Parameter {
                name: "Idempotency-Key",
                place: "header",
                description: "A repeated request with the same key finds the run that the first one has started.",
                schema: || json!({"type": "string", "minLength": 1, "maxLength": 256}),
            },
            WAIT,
        ],
        body: Some(schema::<StartRun>),
        responses: &[
            (
                200,
                "The run that an earlier request with this key has started.",
                Body::Json(schema::<RunView>),
            ),
            (201, "The run. `Location` is its address.", Body::Json(schema::<RunView>)),
        ],
        own_errors: &[
            (404, "There is no such program or worker."),
            (409, "The key was used for another request."),
            (422, "The input does not fit the worker."),
            (429, "Too many runs are under way."),
            (500, "The program can't be run as it is."),
            (503, "The server shuts down."),
        ],
        handler: |on_method| on(on_method, start),
    },
    Route {
        method: Method::GET,
        path: "/v1/runs",
        name: "listRuns",
        summary: "The runs that the token may see, newest first",
        scope: Some(Some(Scope::Read)),
        parameters: &[
            Parameter {
                name: "before",
                place: "query",
                description: "Only runs that began before the run with this ID.",
                schema: || json!({"type": "string"}),
            },
            Parameter {
                name: "limit",
                place: "query",
                description: "The most that are listed. Default: 50.",
                schema: || json!({"type": "integer", "minimum": 1, "maximum": LARGEST_PAGE}),
            },
        ],
        body: None,
        responses: &[(200, "Runs, without their outputs.", Body::Json(schema::<Runs>))],
        own_errors: &[],
        handler: |on_method| on(on_method, list),
    },
    Route {
        method: Method::GET,
        path: "/v1/runs/{run}",
        name: "getRun",
        summary: "One run, with its output once it has one",
        scope: Some(Some(Scope::Read)),
        parameters: &[RUN, WAIT],
        body: None,
        responses: &[(200, "The run.", Body::Json(schema::<RunView>))],
        own_errors: &[],
        handler: |on_method| on(on_method, show),
    },
    Route {
        method: Method::GET,
        path: "/v1/runs/{run}/events",
        name: "followRun",
        summary: "The events of a run, as Server-Sent Events",
        scope: Some(Some(Scope::Read)),
        parameters: &[
            RUN,
            Parameter {
                name: "Last-Event-ID",
                place: "header",
                description: "Only events after the record with this number.",
                schema: || json!({"type": "integer", "minimum": 0}),
            },
        ],
        body: None,
        responses: &[(
            200,
            "Events until the run ends. `data` is an `Event`; `id` is the number of the record, and absent for deltas, \
             which a slow reader may miss.",
            Body::Text("text/event-stream"),
        )],
        own_errors: &[],
        handler: |on_method| on(on_method, events),
    },
    Route {
        method: Method::POST,
        path: "/v1/runs/{run}/answers",
        name: "answer",
        summary: "Answer a question of a run",
        scope: Some(Some(Scope::Answer)),
        parameters: &[RUN],
        body: Some(schema::<GiveAnswer>),
        responses: &[(204, "The run has the answer.", Body::None)],
        own_errors: &[
            (409, "The question has an answer, or is not the one that the digest names."),
            (429, "Too many runs are under way to continue this one."),
        ],
        handler: |on_method| on(on_method, answer),
    },
    Route {
        method: Method::POST,
        path: "/v1/runs/{run}/messages",
        name: "sendMessage",
        summary: "Say something in a chat",
        scope: Some(Some(Scope::Start)),
        parameters: &[RUN],
        body: Some(schema::<SendMessage>),
        responses: &[(202, "The conversation gets it.", Body::Json(schema::<MessageSent>))],
        own_errors: &[(409, "The run is no chat, or too many messages wait.")],
        handler: |on_method| on(on_method, message),
    },
    Route {
        method: Method::POST,
        path: "/v1/runs/{run}/cancel",
        name: "cancelRun",
        summary: "End a run",
        scope: Some(Some(Scope::Start)),
        parameters: &[RUN],
        body: None,
        responses: &[(202, "The run ends.", Body::None)],
        own_errors: &[(409, "The run is not under way.")],
        handler: |on_method| on(on_method, cancel),
    },
    Route {
        method: Method::GET,
        path: "/v1/questions",
        name: "listQuestions",
        summary: "The questions that wait, over all runs that the token may see",
        scope: Some(Some(Scope::Read)),
        parameters: &[],
        body: None,
        responses: &[(200, "The questions.", Body::Json(schema::<Questions>))],
        own_errors: &[],
        handler: |on_method| on(on_method, questions),
    },
];

/// The router of all routes. Their tokens are checked before.
pub(crate) fn router() -> Router<Service> {
    let routed = ROUTES.iter().fold(Router::new(), |router, route| {
        let on_method = if route.method == Method::POST { MethodFilter::POST } else { MethodFilter::GET };
        router.route(route.path, (route.handler)(on_method))
    });
    faces::mount(routed)
        .fallback(|| async {
            ApiError::new(Code::NotFound, "there is no such address: /openapi.json describes all")
        })
        .method_not_allowed_fallback(|| async {
            ApiError::new(Code::MethodNotAllowed, "the address does not take this method")
        })
}

/// What a request needs, by its path as the router knows it.
pub(crate) fn scope_of(method: &Method, path: &str) -> Option<Option<Scope>> {
    let found = ROUTES.iter().find(|route| route.path == path && route.method == *method);
    // What no route knows needs a token, so that nobody without one learns what there is.
    found.map_or_else(|| Some(faces::scope_of(method, path)), |route| route.scope)
}

type Caller = Extension<Arc<Token>>;

/// A JSON body whose errors are problem details.
struct Given<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Given<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(JsonRejection::BytesRejection(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                Err(ApiError::new(Code::TooLarge, "the body is too large"))
            }
            Err(error) => Err(ApiError::new(Code::BadRequest, error.body_text())),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Waiting {
    wait: Option<u32>,
}

impl Waiting {
    fn time(&self) -> Result<Option<Duration>, ApiError> {
        match self.wait {
            Some(seconds) if seconds > LONGEST_WAIT => {
                Err(ApiError::new(Code::BadRequest, format!("wait: at most {LONGEST_WAIT} seconds")))
            }
            wait => Ok(wait.map(|seconds| Duration::from_secs(seconds.into()))),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    before: Option<String>,
    limit: Option<usize>,
}

/// A query whose errors are problem details.
struct Asked<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> axum::extract::FromRequestParts<S> for Asked<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut axum::http::request::Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query
            .map(|Query(query)| Self(query))
            .map_err(|error| ApiError::new(Code::BadRequest, error.body_text()))
    }
}

async fn health(State(service): State<Service>) -> Response {
    let health = |status| Json(Health { status, version: env!("CARGO_PKG_VERSION") });
    match service.is_ending() {
        false => health("ok").into_response(),
        true => (StatusCode::SERVICE_UNAVAILABLE, health("ending")).into_response(),
    }
}

async fn openapi() -> Json<Value> {
    Json(document())
}

async fn metrics(State(service): State<Service>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], service.metrics().text(&service.states())).into_response()
}

async fn workers(State(service): State<Service>, Extension(token): Caller) -> Json<Workers> {
    Json(Workers { workers: service.workers(&token) })
}

async fn start(
    State(service): State<Service>,
    Extension(token): Caller,
    Asked(waiting): Asked<Waiting>,
    headers: HeaderMap,
    Given(request): Given<StartRun>,
) -> Result<Response, ApiError> {
    let wait = waiting.time()?;
    let key = text_of(&headers, IDEMPOTENCY_KEY)?;
    let (run, is_new) = service.start(&token, request, key).await?;
    if let Some(within) = wait {
        service.settle(&run, within).await;
    }
    // Who starts a run sees it, whatever else the token allows.
    let view = service.run(&token, &run).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = (status, Json(view)).into_response();
    // The ID of a run is hexadecimal digits and hyphens.
    if let Ok(address) = HeaderValue::from_str(&format!("/v1/runs/{run}")) {
        response.headers_mut().insert(header::LOCATION, address);
    }
    Ok(response)
}

async fn list(
    State(service): State<Service>,
    Extension(token): Caller,
    Asked(page): Asked<Page>,
) -> Result<Json<Runs>, ApiError> {
    let limit = page.limit.unwrap_or(PAGE);
    if !(1..=LARGEST_PAGE).contains(&limit) {
        return Err(ApiError::new(Code::BadRequest, format!("limit: a number from 1 to {LARGEST_PAGE}")));
    }
    if page.before.as_deref().is_some_and(|before| !is_run_id(before)) {
        return Err(ApiError::new(Code::BadRequest, "before: the ID of a run"));
    }
    let runs = service.runs(&token, page.before, limit).await?;
    let next = runs.last().filter(|_| runs.len() == limit).map(|run| Arc::clone(&run.run));
    Ok(Json(Runs { runs, next }))
}

async fn show(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
    Asked(waiting): Asked<Waiting>,
) -> Result<Json<RunView>, ApiError> {
    // Before the wait: what the token may not see has no end to wait for.
    let view = service.run(&token, &run).await?;
    match waiting.time()? {
        None => Ok(Json(view)),
        Some(within) => {
            service.settle(&run, within).await;
            Ok(Json(service.run(&token, &run).await?))
        }
    }
}

async fn events(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let after = text_of(&headers, "last-event-id")?.map(|text| text.parse::<u64>());
    let after = after
        .transpose()
        .map_err(|_| ApiError::new(Code::BadRequest, "Last-Event-ID is not the number of a record"))?;
    let stream = service.events(&token, &run, after).await?;
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(ALIVE)).into_response())
}

async fn answer(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
    Given(given): Given<GiveAnswer>,
) -> Result<StatusCode, ApiError> {
    service.answer(&token, &run, given).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn message(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
    Given(SendMessage { text }): Given<SendMessage>,
) -> Result<(StatusCode, Json<MessageSent>), ApiError> {
    Ok((StatusCode::ACCEPTED, Json(service.message(&token, &run, text)?)))
}

async fn cancel(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
) -> Result<StatusCode, ApiError> {
    service.cancel(&token, &run)?;
    Ok(StatusCode::ACCEPTED)
}

async fn questions(State(service): State<Service>, Extension(token): Caller) -> Json<Questions> {
    Json(Questions { questions: service.questions(&token) })
}

fn text_of(headers: &HeaderMap, name: &str) -> Result<Option<String>, ApiError> {
    let text = headers.get(name).map(|value| value.to_str().map(str::to_owned));
    text.transpose().map_err(|_| ApiError::new(Code::BadRequest, format!("{name}: only ASCII characters")))
}
