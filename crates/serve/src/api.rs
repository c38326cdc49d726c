//! The routes: one table for the router and for the description of the interface.

mod cases;
mod chats;
mod costs;
mod definitions;
mod files;
mod language;
mod maps;
mod notify;
mod playing;
mod programs;
mod runs;
mod server;
mod session;
mod triggers;

use crate::{
    error::{ApiError, Code},
    faces,
    service::Service,
    token::{Scope, Token},
};
use axum::{
    Extension, Json, Router,
    body::{Body as Bodies, Bytes},
    extract::{FromRequest, Query, Request},
    http::{Method, StatusCode, header},
    response::{IntoResponse, Response, Sse, sse, sse::KeepAlive},
    routing::{MethodFilter, MethodRouter},
};
use futures_util::{Stream, StreamExt, stream};
use llm_do::core::json::exact;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::{convert::Infallible, sync::Arc, task::Poll, time::Duration};

/// Interval at which a stream without events sends a keep-alive.
const ALIVE: Duration = Duration::from_secs(15);

/// Size from which a piece of a stream of events takes no further event.
const LARGEST_PIECE: usize = 64 << 10;

/// A function that generates a schema.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// The body of a request.
pub(crate) enum RequestBody {
    None,
    Json(SchemaOf),
    /// Any bytes.
    Bytes,
}

impl RequestBody {
    pub(crate) fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }
}

/// The body of a response.
pub(crate) enum Body {
    None,
    Json(SchemaOf),
    Text(&'static str),
    Bytes,
}

/// A parameter in a path, a query or a header.
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) place: &'static str,
    pub(crate) description: &'static str,
    pub(crate) schema: fn() -> Value,
    pub(crate) required: bool,
}

/// A route of the interface.
pub(crate) struct Route {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    /// The route's `operationId` in the OpenAPI document.
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    /// The scope that a token needs. `None`: no token is needed. `Some(None)`: any token is accepted.
    pub(crate) scope: Option<Option<Scope>>,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) body: RequestBody,
    pub(crate) responses: &'static [(u16, &'static str, Body)],
    /// The errors that only this route has.
    pub(crate) own_errors: &'static [(u16, &'static str)],
    handler: fn(MethodFilter) -> MethodRouter<Service>,
}

impl Route {
    /// Returns the errors that the route can answer with.
    pub(crate) fn errors(&self) -> Vec<(u16, &'static str)> {
        let mut errors =
            vec![(400, "The request is wrong."), (403, "The token, the host or the origin is not allowed.")];
        if self.scope.is_some() {
            errors.push((401, "There is no token, or no such token."));
        }
        if self.path.contains("{program}") {
            errors.push((404, "There is no such program that the token may use."));
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
    required: true,
};
const PROGRAM: Parameter = Parameter {
    name: "program",
    place: "path",
    description: "The name of a program.",
    schema: || json!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"}),
    required: true,
};

/// All routes, grouped by subject.
const GROUPS: &[&[Route]] = &[
    server::ROUTES,
    session::ROUTES,
    programs::ROUTES,
    runs::ROUTES,
    chats::ROUTES,
    costs::ROUTES,
    files::ROUTES,
    definitions::ROUTES,
    language::ROUTES,
    triggers::ROUTES,
    notify::ROUTES,
    cases::ROUTES,
    maps::ROUTES,
    playing::ROUTES,
];

/// All routes.
pub(crate) fn routes() -> impl Iterator<Item = &'static Route> {
    GROUPS.iter().copied().flatten()
}

/// Returns the router of all routes. Tokens are checked before a request reaches it.
pub(crate) fn router() -> Router<Service> {
    let routed = routes().fold(Router::new(), |router, route| {
        let on_method = MethodFilter::try_from(route.method.clone()).unwrap_or(MethodFilter::GET);
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

/// Returns the scope that a request needs, by its path in the router.
pub(crate) fn scope_of(method: &Method, path: &str) -> Option<Option<Scope>> {
    // The router answers HEAD as it answers GET.
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let found = routes().find(|route| route.path == path && route.method == *method);
    // What no route knows needs a token, so that nobody without one learns what there is.
    found.map_or_else(|| Some(faces::scope_of(method, path)), |route| route.scope)
}

type Caller = Extension<Arc<Token>>;

/// A JSON body whose errors are problem details.
struct Given<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Given<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = match Bytes::from_request(Request::from_parts(parts.clone(), body), state).await {
            Ok(bytes) => bytes,
            Err(error) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                return Err(ApiError::new(Code::TooLarge, "the body is too large"));
            }
            Err(error) => return Err(ApiError::new(Code::BadRequest, error.body_text())),
        };
        let again = Request::from_parts(parts, bytes.clone().into());
        let Json(value) = Json::<T>::from_request(again, state)
            .await
            .map_err(|error| ApiError::new(Code::BadRequest, error.body_text()))?;
        // The input in it is read without a change, or not at all.
        exact(&String::from_utf8_lossy(&bytes))
            .map_err(|error| ApiError::new(Code::BadRequest, error.to_string()))?;
        Ok(Self(value))
    }
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

/// A header's text.
fn text_of(headers: &header::HeaderMap, name: &str) -> Result<Option<String>, ApiError> {
    let text = headers.get(name).map(|value| value.to_str().map(str::to_owned));
    text.transpose().map_err(|_| ApiError::new(Code::BadRequest, format!("{name}: only ASCII characters")))
}

/// Returns a stream of events that sends a keep-alive at intervals. Events that are there at once are sent at once.
fn events(stream: impl Stream<Item = sse::Event> + Send + 'static) -> Response {
    let stream = stream.map(Ok::<_, Infallible>);
    let response = Sse::new(stream).keep_alive(KeepAlive::new().interval(ALIVE)).into_response();
    response.map(|body| Bodies::from_stream(gathered(body.into_data_stream())))
}

/// The same bytes in fewer pieces: those that are there when a piece is asked for are one piece.
fn gathered<E>(pieces: impl Stream<Item = Result<Bytes, E>> + Unpin) -> impl Stream<Item = Result<Bytes, E>> {
    let mut pieces = pieces.fuse();
    let mut failed = None;
    stream::poll_fn(move |context| {
        if let Some(error) = failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let mut gathered = Vec::new();
        while gathered.len() < LARGEST_PIECE {
            match pieces.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(piece))) => gathered.extend_from_slice(&piece),
                Poll::Ready(Some(Err(error))) => {
                    failed = Some(error);
                    break;
                }
                Poll::Ready(None) => break,
                Poll::Pending if gathered.is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        if !gathered.is_empty() {
            return Poll::Ready(Some(Ok(gathered.into())));
        }
        Poll::Ready(failed.take().map(Err))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_that_are_there_are_sent_at_once_and_none_is_lost() {
        let piece = |text: &'static str| Ok::<_, &str>(Bytes::from_static(text.as_bytes()));
        let large: &'static str = Box::leak("x".repeat(LARGEST_PIECE).into_boxed_str());
        let mut waits = false;
        let rest = stream::iter([piece("c"), piece(large), piece("d"), Err("gone"), piece("e")]);
        let pieces = stream::iter([piece("a"), piece("b")]).chain(
            stream::poll_fn(move |context| {
                waits = !waits;
                context.waker().wake_by_ref();
                if waits { Poll::Pending } else { Poll::Ready(None) }
            })
            .chain(rest),
        );
        let sent: Vec<Result<usize, &str>> =
            gathered(pieces).map(|piece| piece.map(|piece| piece.len())).collect().await;
        assert_eq!(sent, [Ok(2), Ok(1 + LARGEST_PIECE), Ok(1), Err("gone"), Ok(1)]);
    }
}
