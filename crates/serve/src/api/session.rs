//! Signing in with a cookie, for pages in a browser.

use super::{Body, Caller, RequestBody, Route, schema, text_of};
use crate::{
    cookie,
    error::{ApiError, Code},
    service::Service,
    token::is_token,
    views::SessionView,
};
use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::on,
};

pub(super) const ROUTES: &[Route] = &[
    Route {
        method: Method::GET,
        path: "/v1/session",
        name: "getSession",
        summary: "What the token allows",
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
        summary: "Keep the token of the Authorization header in a cookie",
        scope: Some(None),
        parameters: &[],
        body: RequestBody::None,
        responses: &[(204, "The cookie is set.", Body::None)],
        own_errors: &[],
        handler: |on_method| on(on_method, sign_in),
    },
    Route {
        method: Method::DELETE,
        path: "/v1/session",
        name: "signOut",
        summary: "Forget the cookie",
        scope: Some(None),
        parameters: &[],
        body: RequestBody::None,
        responses: &[(204, "The cookie is gone.", Body::None)],
        own_errors: &[],
        handler: |on_method| on(on_method, sign_out),
    },
];

async fn show(State(service): State<Service>, Extension(token): Caller) -> Json<SessionView> {
    Json(service.session_view(&token))
}

async fn sign_in(Extension(port): Extension<cookie::Port>, headers: HeaderMap) -> Result<Response, ApiError> {
    let given = text_of(&headers, "authorization")?;
    let token = given.as_deref().and_then(|given| given.split_once(' ')).map(|(_, token)| token.trim());
    let token = token.filter(|token| is_token(token)).ok_or_else(|| {
        ApiError::new(Code::BadRequest, "send the token in the header: Authorization: Bearer TOKEN")
    })?;
    Ok(with_cookie(&cookie::set(port, token)))
}

async fn sign_out(Extension(port): Extension<cookie::Port>) -> Response {
    with_cookie(&cookie::clear(port))
}

fn with_cookie(cookie: &str) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    // A token has only characters that a header may have.
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}
