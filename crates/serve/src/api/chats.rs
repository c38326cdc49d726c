//! Chats: sending messages, and stopping the answer under way.

use super::{Body, Caller, Given, RUN, RequestBody, Route, schema};
use crate::{
    error::ApiError,
    service::Service,
    token::Scope,
    views::{MessageSent, SendMessage},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{Method, StatusCode},
    routing::on,
};

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::POST,
        path: "/v1/runs/{run}/messages",
        name: "sendMessage",
        summary: "Say something in a chat",
        scope: Some(Some(Scope::Start)),
        parameters: &[RUN],
        body: RequestBody::Json(schema::<SendMessage>),
        responses: &[(202, "The conversation gets it.", Body::Json(schema::<MessageSent>))],
        own_errors: &[(409, "The run is no chat, or too many messages wait.")],
        handler: |on_method| on(on_method, message),
    },
    Route {
        method: Method::POST,
        path: "/v1/runs/{run}/stop",
        name: "stopAnswer",
        summary: "Stop the answer under way of a chat",
        scope: Some(Some(Scope::Start)),
        parameters: &[RUN],
        body: RequestBody::None,
        responses: &[(202, "The answer ends, and the chat waits for the next message.", Body::None)],
        own_errors: &[(409, "The run is no chat, or no answer is under way.")],
        handler: |on_method| on(on_method, stop),
    },
];

async fn message(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
    Given(given): Given<SendMessage>,
) -> Result<(StatusCode, Json<MessageSent>), ApiError> {
    Ok((StatusCode::ACCEPTED, Json(service.message(&token, &run, given).await?)))
}

async fn stop(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(run): Path<String>,
) -> Result<StatusCode, ApiError> {
    service.stop(&token, &run)?;
    Ok(StatusCode::ACCEPTED)
}
