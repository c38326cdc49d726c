//! Programs and their workers.

use super::{Body, Caller, RequestBody, Route, schema};
use crate::{
    error::ApiError,
    service::Service,
    views::{ProgramsView, Workers},
};
use axum::{Extension, Json, extract::State, http::Method, routing::on};

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/v1/programs",
        name: "listPrograms",
        summary: "The programs that the token may use",
        scope: Some(None),
        parameters: &[],
        body: RequestBody::None,
        responses: &[(200, "The programs.", Body::Json(schema::<ProgramsView>))],
        own_errors: &[],
        handler: |on_method| on(on_method, programs),
    },
    Route {
        method: Method::GET,
        path: "/v1/workers",
        name: "listWorkers",
        summary: "The workers that can be started, with the schemas of their inputs and outputs",
        scope: Some(None),
        parameters: &[],
        body: RequestBody::None,
        responses: &[(200, "The workers.", Body::Json(schema::<Workers>))],
        own_errors: &[],
        handler: |on_method| on(on_method, workers),
    },
];

async fn programs(
    State(service): State<Service>,
    Extension(token): Caller,
) -> Result<Json<ProgramsView>, ApiError> {
    Ok(Json(ProgramsView { programs: service.programs(&token).await? }))
}

async fn workers(State(service): State<Service>, Extension(token): Caller) -> Json<Workers> {
    Json(Workers { workers: service.workers(&token) })
}
