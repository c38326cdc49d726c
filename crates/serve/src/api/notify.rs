//! Answers from messages: the page of a link, and the buttons of Slack.

use super::{Body, Parameter, RequestBody, Route};
use crate::{
    error::{ApiError, Code},
    http::{BODY_WITHIN, read},
    service::Service,
};
use axum::{
    body,
    extract::{Path, State},
    http::{HeaderMap, Method, StatusCode},
    response::{IntoResponse, Response},
    routing::on,
};
use serde_json::json;
use tokio::time::timeout;

/// Largest body, in bytes.
const LARGEST_BODY: u64 = 256 << 10;
/// The name for which the bodies of strangers count.
const STRANGERS: &str = "notify";

const LINK: Parameter = Parameter {
    name: "link",
    place: "path",
    description: "The token of a link.",
    schema: || json!({"type": "string"}),
    required: true,
};

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/answer/{link}",
        name: "showQuestion",
        summary: "The question of a link, as a page",
        scope: None,
        parameters: &[LINK],
        body: RequestBody::None,
        responses: &[
            (200, "A page.", Body::Text("text/html")),
            (410, "The link holds no more.", Body::Text("text/html")),
        ],
        own_errors: &[],
        handler: |on_method| on(on_method, show),
    },
    Route {
        method: Method::POST,
        path: "/answer/{link}",
        name: "answerByLink",
        summary: "Answer the question of a link",
        // The link is what authorises it.
        scope: None,
        parameters: &[LINK],
        body: RequestBody::Bytes,
        responses: &[
            (200, "The answer was taken.", Body::Text("text/html")),
            (400, "The question does not take this answer.", Body::Text("text/html")),
            (410, "The link holds no more.", Body::Text("text/html")),
        ],
        own_errors: &[(409, "The question has an answer."), (507, "The server can't write its files.")],
        handler: |on_method| on(on_method, answer),
    },
    Route {
        method: Method::POST,
        path: "/v1/notify/slack",
        name: "answerBySlack",
        summary: "Take what Slack sends when somebody presses a button",
        // The signature is what authorises it.
        scope: None,
        parameters: &[],
        body: RequestBody::Bytes,
        responses: &[(200, "The answer was taken.", Body::None)],
        own_errors: &[(409, "The question has an answer."), (410, "The button was used or has expired.")],
        handler: |on_method| on(on_method, slack),
    },
];

async fn show(State(service): State<Service>, Path(link): Path<String>) -> Response {
    service.link_page(&link)
}

async fn answer(
    State(service): State<Service>,
    Path(link): Path<String>,
    body: body::Body,
) -> Result<Response, ApiError> {
    let bytes = whole(&service, body).await?;
    Ok(service.link_answer(&link, &bytes).await)
}

async fn slack(
    State(service): State<Service>,
    headers: HeaderMap,
    body: body::Body,
) -> Result<Response, ApiError> {
    let bytes = whole(&service, body).await?;
    service.slack_answer(&headers, &bytes).await?;
    Ok(StatusCode::OK.into_response())
}

async fn whole(service: &Service, body: body::Body) -> Result<Vec<u8>, ApiError> {
    let reading = timeout(BODY_WITHIN, read(service, &STRANGERS.into(), body, LARGEST_BODY)).await;
    let too_slow = |_| ApiError::new(Code::TooSlow, "the body did not arrive within 30 s");
    Ok(reading.map_err(too_slow)??.0)
}
