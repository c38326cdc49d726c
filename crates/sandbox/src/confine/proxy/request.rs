//! Decides by a request's head whether the request is allowed.

use super::Denial;
use hyper::{
    Method, Request, Uri,
    header::{CONTENT_LENGTH, HOST, HeaderMap, TRANSFER_ENCODING},
};
use llm_do_core::authority::{Domain, Host};

/// The receiver of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: Host,
    pub(super) port: u16,
}

pub(super) const PLAIN: u16 = 80;
pub(super) const TLS: u16 = 443;

/// Returns the target of a request that the list allows. Refuses a head that different programs could read differently.
pub(super) fn judge<B>(request: &Request<B>, list: &[Domain]) -> Result<Target, Denial> {
    let (uri, headers) = (request.uri(), request.headers());
    let target = if request.method() == Method::CONNECT { tunnel(uri, headers) } else { plain(uri, headers) };
    let target = target.map_err(Denial::Malformed)?;
    if list.iter().any(|entry| entry.admits(&target.host, target.port)) {
        Ok(target)
    } else {
        Err(Denial::NotListed { host: target.host, port: target.port })
    }
}

fn tunnel(uri: &Uri, headers: &HeaderMap) -> Result<Target, &'static str> {
    let (None, None, Some(authority)) = (uri.scheme(), uri.path_and_query(), uri.authority()) else {
        return Err("CONNECT names a host and a port, as in `example.org:443`");
    };
    let target = match Host::with_port(authority.as_str()) {
        Ok((_, None)) => return Err("CONNECT needs a port, as in `example.org:443`"),
        Ok((_, Some(PLAIN))) => return Err("port 80 is for plain HTTP: send the whole URL"),
        Ok((host, Some(port))) => Target { host, port },
        Err(error) => return Err(error.reason),
    };
    if headers.contains_key(CONTENT_LENGTH) || headers.contains_key(TRANSFER_ENCODING) {
        return Err("CONNECT has no body");
    }
    agrees(headers, &target, target.port)?;
    Ok(target)
}

fn plain(uri: &Uri, headers: &HeaderMap) -> Result<Target, &'static str> {
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err("this is a proxy: it takes CONNECT and whole URLs");
    };
    if scheme != "http" {
        return Err("only `http` URLs can be asked for so; use CONNECT");
    }
    let target = match Host::with_port(authority.as_str()) {
        Ok((_, Some(TLS))) => return Err("port 443 is for TLS: use CONNECT"),
        Ok((host, port)) => Target { host, port: port.unwrap_or(PLAIN) },
        Err(error) => return Err(error.reason),
    };
    // Both are here only if the length came first. In the other order the parser has dropped the length, and the request
    // to the server is rebuilt without it.
    if headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING) {
        return Err("it has two lengths");
    }
    agrees(headers, &target, PLAIN)?;
    Ok(target)
}

/// Judges a request inside a connection to a host with a key: the request must be for this host, and for no other host
/// in any reading.
///
/// # Errors
/// The problem in its head.
pub(super) fn judge_inside<B>(request: &Request<B>, target: &Target) -> Result<(), &'static str> {
    let (uri, headers) = (request.uri(), request.headers());
    match *request.method() {
        Method::CONNECT => return Err("a connection to a host with a key holds no further CONNECT"),
        Method::TRACE => return Err("TRACE would send the key back"),
        _ => {}
    }
    if let Some(authority) = uri.authority() {
        if uri.scheme_str() != Some("https") {
            return Err("only `https` URLs can be asked for in a TLS connection");
        }
        match Host::with_port(authority.as_str()) {
            Ok((host, port)) if host == target.host && port.unwrap_or(TLS) == target.port => {}
            _ => return Err("its URL names another host than the connection"),
        }
    }
    if headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING) {
        return Err("it has two lengths");
    }
    agrees(headers, target, TLS)
}

/// Checks that `Host` names the same target, or is absent.
fn agrees(headers: &HeaderMap, target: &Target, default: u16) -> Result<(), &'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    let Some(host) = hosts.next() else { return Ok(()) };
    let named = host.to_str().ok().and_then(|host| Host::with_port(host).ok());
    match named {
        Some((host, port)) if host == target.host && port.unwrap_or(default) == target.port => {}
        _ => return Err("its `Host` header names another host than its first line"),
    }
    if hosts.next().is_some() { Err("it has two `Host` headers") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(method: &str, uri: &str, headers: &[(&str, &str)], list: &[&str]) -> Result<Target, Denial> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let list: Vec<Domain> = list.iter().map(|entry| Domain::parse(entry).unwrap()).collect();
        judge(&request.body(()).unwrap(), &list)
    }

    const LIST: &[&str] = &["example.org", "*.example.net", "localhost:8080", "127.0.0.1:8080", "[::1]:8080"];

    #[test]
    fn what_is_listed_passes() {
        for (method, uri, host) in [
            ("CONNECT", "example.org:443", "example.org:443"),
            ("CONNECT", "Example.ORG:443", "example.org"),
            ("CONNECT", "a.example.net:443", "a.example.net:443"),
            ("CONNECT", "localhost:8080", "localhost:8080"),
            ("CONNECT", "[::1]:8080", "[::1]:8080"),
            ("GET", "http://example.org/a?b", "example.org"),
            ("GET", "http://example.org:80/", "EXAMPLE.org"),
            ("GET", "http://example.org", "example.org:80"),
            ("POST", "http://localhost:8080/", "localhost:8080"),
            ("GET", "http://127.0.0.1:8080/", "127.0.0.1:8080"),
        ] {
            let target = judged(method, uri, &[("host", host)], LIST);
            assert!(target.is_ok(), "{method} {uri}: {target:?}");
            assert_eq!(judged(method, uri, &[], LIST), target);
        }
    }

    #[test]
    fn what_is_not_listed_is_named() {
        for (method, uri, missing) in [
            ("CONNECT", "evil.net:443", "evil.net"),
            ("CONNECT", "www.example.org:443", "www.example.org"),
            ("CONNECT", "example.net:443", "example.net"),
            ("CONNECT", "example.org.evil.net:443", "example.org.evil.net"),
            ("CONNECT", "example.org:8443", "example.org:8443"),
            ("CONNECT", "example.org:22", "example.org:22"),
            ("CONNECT", "localhost:443", "localhost"),
            ("CONNECT", "localhost:8081", "localhost:8081"),
            ("CONNECT", "127.0.0.2:8080", "127.0.0.2:8080"),
            ("CONNECT", "[::ffff:127.0.0.2]:8080", "127.0.0.2:8080"),
            ("CONNECT", "1.2.3.4:443", "1.2.3.4"),
            ("GET", "http://169.254.169.254/latest", "169.254.169.254"),
            ("GET", "http://example.org:8080/", "example.org:8080"),
            ("GET", "http://[::1]/", "[::1]"),
        ] {
            let denial = judged(method, uri, &[], LIST).unwrap_err();
            assert!(matches!(denial, Denial::NotListed { .. }), "{uri}: {denial}");
            assert_eq!(denial.missing().as_deref(), Some(missing));
            assert_eq!(
                denial.to_string(),
                format!("`{missing}` is not on the list of this worker's `sandbox.network_enabled`")
            );
        }
    }

    #[test]
    fn a_request_inside_a_connection_names_no_other_host() {
        let (host, port) = Host::with_port("example.org:8443").unwrap();
        let target = Target { host, port: port.unwrap() };
        let judged = |method: &str, uri: &str, headers: &[(&str, &str)]| {
            let mut request = Request::builder().method(method).uri(uri);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            judge_inside(&request.body(()).unwrap(), &target)
        };
        for (method, uri, headers) in [
            ("GET", "/a", &[("host", "example.org:8443")][..]),
            ("GET", "/a", &[]),
            ("POST", "https://example.org:8443/a", &[("host", "EXAMPLE.org:8443")]),
            ("OPTIONS", "*", &[("host", "example.org:8443")]),
        ] {
            assert_eq!(judged(method, uri, headers), Ok(()), "{method} {uri} {headers:?}");
        }
        for (method, uri, headers) in [
            ("GET", "/a", &[("host", "evil.net")][..]),
            ("GET", "/a", &[("host", "example.org")]),
            ("GET", "/a", &[("host", "example.org:8443"), ("host", "evil.net")]),
            ("GET", "https://evil.net/", &[("host", "example.org:8443")]),
            ("GET", "http://example.org:8443/", &[]),
            ("GET", "https://example.org:8443@evil.net/", &[]),
            ("CONNECT", "example.org:8443", &[]),
            ("TRACE", "/", &[]),
            ("POST", "/", &[("content-length", "5"), ("transfer-encoding", "chunked")]),
        ] {
            assert!(judged(method, uri, headers).is_err(), "{method} {uri} {headers:?}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        type Case<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
        let cases: &[Case<'_>] = &[
            ("CONNECT", "example.org", &[]),
            ("CONNECT", "example.org:80", &[]),
            ("CONNECT", "example.org:443", &[("host", "evil.net")]),
            ("CONNECT", "example.org:443", &[("host", "example.org:8443")]),
            ("CONNECT", "example.org:443", &[("content-length", "5")]),
            ("CONNECT", "example.org:443", &[("transfer-encoding", "chunked")]),
            ("CONNECT", "evil.net@example.org:443", &[]),
            ("CONNECT", "example.org@evil.net:443", &[]),
            ("CONNECT", "example.org.:443", &[]),
            ("CONNECT", "2130706433:8080", &[]),
            ("CONNECT", "0x7f.1:8080", &[]),
            ("CONNECT", "http://example.org/", &[]),
            ("GET", "/", &[("host", "example.org")]),
            ("OPTIONS", "*", &[]),
            ("GET", "https://example.org/", &[]),
            ("GET", "ftp://example.org/", &[]),
            ("GET", "http://example.org:443/", &[]),
            ("GET", "http://user:secret@example.org/", &[]),
            ("GET", "http://example.org@evil.net/", &[]),
            ("GET", "http://example.org./", &[]),
            ("GET", "http://example.org/", &[("host", "evil.net")]),
            ("GET", "http://example.org/", &[("host", "example.org:8080")]),
            ("GET", "http://example.org/", &[("host", "user@example.org")]),
            ("GET", "http://example.org/", &[("host", "")]),
            ("GET", "http://example.org/", &[("host", "example.org"), ("host", "evil.net")]),
            ("GET", "http://example.org/", &[("host", "example.org"), ("host", "example.org")]),
            ("POST", "http://example.org/", &[("content-length", "5"), ("transfer-encoding", "chunked")]),
        ];
        for (method, uri, headers) in cases {
            let denial = judged(method, uri, headers, LIST);
            assert!(matches!(denial, Err(Denial::Malformed(_))), "{method} {uri} {headers:?}: {denial:?}");
        }
    }
}
