//! The prompts of workers, before they are sent.

use super::{Body, Caller, Given, PROGRAM, RequestBody, Route, schema};
use crate::{
    error::ApiError,
    service::{RenderPrompt, RenderedPrompt, Service},
    token::Scope,
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::Method,
    routing::on,
};

pub(super) const ROUTES: &[Route] = &[Route {
    method: Method::POST,
    path: "/v1/programs/{program}/prompt",
    name: "renderPrompt",
    summary: "Show the first request of a worker to its model, also as texts that are not saved define it, and send nothing",
    scope: Some(Some(Scope::Start)),
    parameters: &[PROGRAM],
    body: RequestBody::Json(schema::<RenderPrompt>),
    responses: &[(200, "The first request.", Body::Json(schema::<RenderedPrompt>))],
    own_errors: &[
        (409, "The worker has no prompt, or the program does not load."),
        (422, "The input does not fit the worker."),
        (500, "A run would fail before its first request."),
    ],
    handler: |on_method| on(on_method, render),
}];

async fn render(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(program): Path<String>,
    Given(given): Given<RenderPrompt>,
) -> Result<Json<RenderedPrompt>, ApiError> {
    Ok(Json(service.rendered(&token, &program, given).await?))
}
