//! Triggers: what starts runs by itself, and deliveries for webhooks.

use super::{Body, Caller, Parameter, RequestBody, Route, schema};
use crate::{
    error::{ApiError, Code},
    http::{BODY_WITHIN, read},
    service::{Delivered, Service, TriggerViews},
    token::Scope,
};
use axum::{
    Extension, Json, body,
    extract::{Path, State},
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse, Response},
    routing::on,
};
use serde_json::json;
use tokio::time::timeout;

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/v1/triggers",
        name: "listTriggers",
        summary: "List what starts runs by itself",
        scope: Some(Some(Scope::Read)),
        parameters: &[],
        body: RequestBody::None,
        responses: &[(200, "The triggers whose runs the token may see.", Body::Json(schema::<TriggerViews>))],
        own_errors: &[],
        handler: |on_method| on(on_method, list),
    },
    Route {
        method: Method::POST,
        path: "/v1/triggers/{trigger}",
        name: "deliverEvent",
        summary: "Deliver an event to a webhook",
        // The signature is what authorises it.
        scope: None,
        parameters: &[Parameter {
            name: "trigger",
            place: "path",
            description: "The name of a trigger of kind `webhook`.",
            schema: || json!({"type": "string"}),
            required: true,
        }],
        body: RequestBody::Bytes,
        responses: &[
            (
                200,
                "An earlier delivery has started the run, or earlier runs are under way.",
                Body::Json(schema::<Delivered>),
            ),
            (202, "The run has started.", Body::Json(schema::<Delivered>)),
        ],
        own_errors: &[
            (409, "The program does not load."),
            (422, "The event does not fit the worker's parameters."),
            (429, "Too many runs wait."),
            (507, "The server can't write its files."),
        ],
        handler: |on_method| on(on_method, deliver),
    },
];

async fn list(State(service): State<Service>, Extension(token): Caller) -> Json<TriggerViews> {
    Json(TriggerViews { triggers: service.trigger_views(&token).await })
}

async fn deliver(
    State(service): State<Service>,
    Path(trigger): Path<String>,
    headers: HeaderMap,
    body: body::Body,
) -> Result<Response, ApiError> {
    let (by, most) = service.largest_delivery(&trigger)?;
    let reading = timeout(BODY_WITHIN, read(&service, by, body, most)).await;
    let too_slow = |_| ApiError::new(Code::TooSlow, "the body did not arrive within 30 s");
    let (bytes, _share) = reading.map_err(too_slow)??;
    let delivered = service.deliver(&trigger, &headers, bytes).await?;
    let status = if delivered.new { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(delivered)).into_response())
}
