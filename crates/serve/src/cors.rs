//! Pages of other origins that the operator has named (<https://fetch.spec.whatwg.org/#http-cors-protocol>). Without one, no page of
//! another origin can call the server.

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::Response,
};
use std::{str::FromStr, sync::Arc};

/// The origin of pages that may call the server: a scheme and a host, and a port where it is not the scheme's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(Arc<str>);

/// A text that is no origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an origin is http://HOST, https://HOST or one of these with :PORT, without a path")]
pub struct BadOrigin;

impl FromStr for Origin {
    type Err = BadOrigin;

    fn from_str(text: &str) -> Result<Self, BadOrigin> {
        let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")).ok_or(BadOrigin)?;
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:[]".contains(c);
        match !rest.is_empty() && rest.chars().all(fits) {
            true => Ok(Self(text.into())),
            false => Err(BadOrigin),
        }
    }
}

/// The origins that the operator has named.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origins(pub(crate) Arc<[Origin]>);

impl Origins {
    /// Returns true if pages of that origin may call the server.
    pub(crate) fn allow(&self, origin: &str) -> bool {
        self.0.iter().any(|allowed| *allowed.0 == *origin)
    }

    fn named<'a>(&self, headers: &'a HeaderMap) -> Option<&'a HeaderValue> {
        headers.get(header::ORIGIN).filter(|origin| origin.to_str().is_ok_and(|origin| self.allow(origin)))
    }
}

/// Answers the question whether a page may send a request, and lets the page read the response.
pub(crate) async fn shared(State(origins): State<Origins>, request: Request, next: Next) -> Response {
    if origins.0.is_empty() {
        return next.run(request).await;
    }
    let Some(origin) = origins.named(request.headers()).cloned() else {
        return vary(next.run(request).await);
    };
    let asks = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = match asks {
        true => preflight(request.headers()),
        false => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let exposed =
        "location, retry-after, mcp-session-id, mcp-protocol-version, x-should-retry, llm-do-ignored";
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(exposed));
    vary(response)
}

/// The answer before a request. It says nothing about what there is, and cookies are never allowed.
fn preflight(asked: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let mut insert =
        |name: HeaderName, value: &'static str| headers.insert(name, HeaderValue::from_static(value));
    insert(header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE");
    insert(header::ACCESS_CONTROL_MAX_AGE, "600");
    if let Some(wanted) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        // Clients send headers of their own beside the token. None of them means anything more here than from another client.
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    response
}

fn vary(mut response: Response) -> Response {
    response.headers_mut().append(header::VARY, HeaderValue::from_static("origin"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_no_path_and_no_wildcard() {
        for good in ["http://127.0.0.1:8080", "https://chat.example", "http://[::1]:3000"] {
            assert!(good.parse::<Origin>().is_ok(), "{good}");
        }
        for bad in [
            "*",
            "null",
            "http://",
            "chat.example",
            "https://chat.example/",
            "https://*.example",
            "https://a b",
            "HTTPS://A",
        ] {
            assert_eq!(bad.parse::<Origin>(), Err(BadOrigin), "{bad}");
        }
    }
}
