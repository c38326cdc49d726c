//! The cookie that carries a token, for pages in a browser.
//!
//! Browsers send cookies to every port of a host. The port is therefore in the name: servers on one machine don't sign each
//! other's pages out.

use axum::http::{HeaderMap, header};

/// The port that the server listens on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port(pub(crate) u16);

fn name(Port(port): Port) -> String {
    format!("llm-do-token-{port}")
}

/// `Set-Cookie` with that token, which ends with the browser's session.
pub(crate) fn set(port: Port, token: &str) -> String {
    format!("{}={token}; HttpOnly; SameSite=Strict; Path=/", name(port))
}

/// `Set-Cookie` without it.
pub(crate) fn clear(port: Port) -> String {
    format!("{}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0", name(port))
}

/// The token in a request's cookies.
pub(crate) fn token(port: Port, headers: &HeaderMap) -> Option<&str> {
    let name = name(port);
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, token)| token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_token_is_found_among_other_cookies_and_only_under_its_port() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=b; llm-do-token-1=one"));
        headers.append(header::COOKIE, HeaderValue::from_static("llm-do-token-2=two=2"));
        assert_eq!(token(Port(1), &headers), Some("one"));
        assert_eq!(token(Port(2), &headers), Some("two=2"));
        assert_eq!(token(Port(3), &headers), None);
    }
}
