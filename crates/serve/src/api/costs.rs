//! The costs of runs.

use super::{Asked, Body, Caller, Parameter, RequestBody, Route, schema};
use crate::{
    error::ApiError,
    service::{CostsOfRuns, Service, Span},
    token::Scope,
};
use axum::{Extension, Json, extract::State, http::Method, routing::on};
use serde::Deserialize;
use serde_json::json;

pub(super) const ROUTES: &[Route] = &[Route {
    method: Method::GET,
    path: "/v1/costs",
    name: "sumCosts",
    summary: "The costs of runs by worker, model, day and client, and the dearest runs",
    scope: Some(Some(Scope::Read)),
    parameters: &[
        Parameter {
            name: "program",
            place: "query",
            description: "Only runs of this program.",
            schema: || json!({"type": "string"}),
            required: false,
        },
        Parameter {
            name: "since_ms",
            place: "query",
            description: "Only runs that began at this time or later, in milliseconds since 1970.",
            schema: || json!({"type": "integer", "minimum": 0}),
            required: false,
        },
    ],
    body: RequestBody::None,
    responses: &[(
        200,
        "The costs. A journal is read once: `more` says that this answer lacks some that are still to be read.",
        Body::Json(schema::<CostsOfRuns>),
    )],
    own_errors: &[],
    handler: |on_method| on(on_method, sum),
}];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    program: Option<String>,
    since_ms: Option<u64>,
}

async fn sum(
    State(service): State<Service>,
    Extension(token): Caller,
    Asked(query): Asked<Query>,
) -> Result<Json<CostsOfRuns>, ApiError> {
    let span = Span { program: query.program, since_ms: query.since_ms.unwrap_or(0) };
    Ok(Json(service.costs(&token, span).await?))
}
