//! The cookie of a page in a browser, and the header that goes with it (`browser_sessions.rs`).
//!
//! Browsers send cookies to every port of a host. The port is therefore in the name: servers on one machine don't sign each
//! other's pages out.

use axum::http::{HeaderMap, header};

/// The header with the page's secret of a session.
pub(crate) const PAGE_SECRET: &str = "llm-do-session";

/// The port that the server listens on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port(pub(crate) u16);

fn name(Port(port): Port) -> String {
    format!("llm-do-session-{port}")
}

/// The value of `Set-Cookie` with that secret. The cookie ends with the browser's session.
pub(crate) fn set(port: Port, secret: &str) -> String {
    format!("{}={secret}; HttpOnly; SameSite=Strict; Path=/", name(port))
}

/// The value of `Set-Cookie` that removes the cookie.
pub(crate) fn clear(port: Port) -> String {
    format!("{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0", name(port))
}

/// The secret in a request's cookies.
pub(crate) fn secret(port: Port, headers: &HeaderMap) -> Option<&str> {
    let name = name(port);
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, secret)| secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_secret_is_found_among_other_cookies_and_only_under_its_port() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; llm-do-session-1=one"));
        headers.append(header::COOKIE, HeaderValue::from_static("llm-do-session-2=two=2"));
        assert_eq!(secret(Port(1), &headers), Some("one"));
        assert_eq!(secret(Port(2), &headers), Some("two=2"));
        assert_eq!(secret(Port(3), &headers), None);
    }
}
