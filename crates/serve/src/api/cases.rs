//! The results of `llm-do test`.

use super::{Body, Caller, PROGRAM, Parameter, RequestBody, Route, schema};
use crate::{
    error::ApiError,
    service::{Service, TestView, Tests},
    token::Scope,
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::Method,
    routing::on,
};
use serde_json::json;

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/v1/programs/{program}/tests",
        name: "listTests",
        summary: "The commands `llm-do test` of a project, newest first, for tokens that read the operator's runs",
        scope: Some(Some(Scope::Read)),
        parameters: &[PROGRAM],
        body: RequestBody::None,
        responses: &[(200, "The commands.", Body::Json(schema::<Tests>))],
        own_errors: &[],
        handler: |on_method| on(on_method, list),
    },
    Route {
        method: Method::GET,
        path: "/v1/programs/{program}/tests/{test}",
        name: "getTest",
        summary: "Show the results of the cases of a command `llm-do test`, also while it runs",
        scope: Some(Some(Scope::Read)),
        parameters: &[
            PROGRAM,
            Parameter {
                name: "test",
                place: "path",
                description: "The ID of a command.",
                schema: || json!({"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{6}-[0-9a-f]{4}$"}),
                required: true,
            },
        ],
        body: RequestBody::None,
        responses: &[(200, "The results.", Body::Json(schema::<TestView>))],
        own_errors: &[],
        handler: |on_method| on(on_method, show),
    },
];

async fn list(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(program): Path<String>,
) -> Result<Json<Tests>, ApiError> {
    Ok(Json(service.tests(&token, &program).await?))
}

async fn show(
    State(service): State<Service>,
    Extension(token): Caller,
    Path((program, test)): Path<(String, String)>,
) -> Result<Json<TestView>, ApiError> {
    Ok(Json(service.test(&token, &program, test).await?))
}
