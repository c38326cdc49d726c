//! The server itself: its health, its interface's description, its metrics, and the files of its app.

use super::{Body, Caller, RequestBody, Route, schema};
use crate::{app, error::ApiError, openapi::document, service::Service, token::Scope, views::Health};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::on,
};
use serde_json::Value;

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/",
        name: "app",
        summary: "The web app",
        scope: None,
        parameters: &[],
        body: RequestBody::None,
        responses: &[(200, "A page.", Body::Text("text/html"))],
        own_errors: &[],
        handler: |on_method| on(on_method, index),
    },
    Route {
        method: Method::GET,
        path: "/assets/{name}",
        name: "appFile",
        summary: "A file of the web app",
        scope: None,
        parameters: &[super::Parameter {
            name: "name",
            place: "path",
            description: "The file's name.",
            schema: || serde_json::json!({"type": "string"}),
            required: true,
        }],
        body: RequestBody::None,
        responses: &[(200, "The file.", Body::Bytes), (304, "The file that the client has.", Body::None)],
        own_errors: &[(404, "There is no such file.")],
        handler: |on_method| on(on_method, asset),
    },
    Route {
        method: Method::GET,
        path: "/health",
        name: "health",
        summary: "Whether the server works",
        scope: None,
        parameters: &[],
        body: RequestBody::None,
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
        body: RequestBody::None,
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
        body: RequestBody::None,
        responses: &[(200, "In the format OpenMetrics.", Body::Text("application/openmetrics-text"))],
        own_errors: &[],
        handler: |on_method| on(on_method, metrics),
    },
];

async fn index(headers: HeaderMap) -> Response {
    app::index(&headers)
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    app::asset(&name, &headers)
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

async fn metrics(State(service): State<Service>, Extension(token): Caller) -> Result<Response, ApiError> {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], service.metrics_text(&token).await?).into_response())
}
