//! Sessions of pages in a browser.

use super::{Body, Caller, RequestBody, Route, schema};
use crate::{
    browser_sessions::IDLE,
    cookie,
    error::ApiError,
    http::from_own_page,
    service::Service,
    views::{SessionView, SignedIn},
};
use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::on,
};
use std::time::Instant;

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/v1/session",
        name: "getSession",
        summary: "Show the scopes and programs of the token",
        scope: Some(None),
        parameters: &[],
        body: RequestBody::None,
        responses: &[(200, "The token's name and scopes.", Body::Json(schema::<SessionView>))],
        own_errors: &[],
        handler: |on_method| on(on_method, show),
    },
    Route {
        method: Method::POST,
        path: "/v1/session",
        name: "signIn",
        summary: "Begin a session of a page of the server",
        scope: Some(None),
        parameters: &[],
        body: RequestBody::None,
        responses: &[(201, "The session has begun, and its cookie is set.", Body::Json(schema::<SignedIn>))],
        own_errors: &[],
        handler: |on_method| on(on_method, sign_in),
    },
    Route {
        method: Method::DELETE,
        path: "/v1/session",
        name: "signOut",
        summary: "End the session of the cookie",
        scope: Some(None),
        parameters: &[],
        body: RequestBody::None,
        responses: &[(204, "The session has ended, and its cookie is gone.", Body::None)],
        own_errors: &[],
        handler: |on_method| on(on_method, sign_out),
    },
];

async fn show(State(service): State<Service>, Extension(token): Caller) -> Json<SessionView> {
    Json(service.session_view(&token))
}

async fn sign_in(
    State(service): State<Service>,
    Extension(token): Caller,
    Extension(port): Extension<cookie::Port>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    from_own_page(port, &headers)?;
    let new = service.browsers().begin(&token, Instant::now()).map_err(ApiError::internal)?;
    let view = SignedIn { secret: new.page, idle_s: IDLE.as_secs() };
    Ok(with_cookie((StatusCode::CREATED, Json(view)).into_response(), &cookie::set(port, &new.cookie)))
}

async fn sign_out(
    State(service): State<Service>,
    Extension(port): Extension<cookie::Port>,
    headers: HeaderMap,
) -> Response {
    if let Some(secret) = cookie::secret(port, &headers) {
        service.browsers().end(secret, Instant::now());
    }
    with_cookie(StatusCode::NO_CONTENT.into_response(), &cookie::clear(port))
}

fn with_cookie(mut response: Response, cookie: &str) -> Response {
    // It has only characters that a header may have.
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
