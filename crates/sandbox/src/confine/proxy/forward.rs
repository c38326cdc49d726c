//! Sends a request to a server, rebuilt by the proxy.

use super::{
    Answer, Stop, Task,
    echo::{Cleaned, clean},
    keys::Entry,
    request::{PLAIN, TLS, Target},
};
use hyper::{
    Request, Response, StatusCode, Uri, Version,
    body::Incoming,
    client::conn::http1,
    header::{
        ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName,
        HeaderValue, IF_RANGE, RANGE, TRAILER,
    },
    http::response,
};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

/// Headers of a single connection (RFC 9110 §7.6.1), and headers for proxies. They are not forwarded.
const OF_THE_CONNECTION: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Sends the request in plain HTTP, and returns the server's answer.
pub(super) async fn forward(
    request: Request<Incoming>,
    target: &Target,
    stream: TcpStream,
) -> Result<Response<Answer>, Stop> {
    let request = rewritten(request, target, PLAIN)?;
    let (head, body, _connection) = sent(request, target, stream).await?;
    Ok(Response::from_parts(head, Answer::Passed { body, _connection }))
}

/// Sends the request with the key over this verified connection, and returns the server's answer without the key. A
/// partial or a compressed answer could hold the key in a form that can't be found, so the request asks for neither.
pub(super) async fn with_key(
    request: Request<Incoming>,
    target: &Target,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    entry: &Entry,
) -> Result<Response<Answer>, Stop> {
    let mut request = rewritten(request, target, TLS)?;
    let headers = request.headers_mut();
    for name in [RANGE, IF_RANGE] {
        headers.remove(name);
    }
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    // In the place of all that the process has sent there.
    headers.insert(entry.header.clone(), entry.value.clone());
    let (mut head, body, _connection) = sent(request, target, stream).await?;
    let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !head.headers.get_all(CONTENT_ENCODING).iter().all(is_plain) {
        return Err(Stop::Unreachable(format!(
            "`{}` has sent a compressed answer unasked, in which its key could not be found and overwritten",
            target.host
        )));
    }
    clean(&mut head.headers, &entry.secret);
    head.headers.remove(TRAILER);
    let body = Box::new(Cleaned::new(body, &entry.secret));
    Ok(Response::from_parts(head, Answer::Cleaned { body, _connection }))
}

async fn sent(
    request: Request<Incoming>,
    target: &Target,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<(response::Parts, Incoming, Task), Stop> {
    let failed =
        |error: hyper::Error| Stop::Unreachable(format!("`{}` did not answer: {error}", target.host));
    let (mut server, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let connection = Task::spawn(async move { drop(connection.await) });
    let response = server.send_request(request).await.map_err(failed)?;
    let (mut head, body) = response.into_parts();
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Stop::Unreachable(format!("`{}` changed the protocol unasked", target.host)));
    }
    strip(&mut head.headers);
    head.version = Version::HTTP_11;
    Ok((head, body, connection))
}

/// Rebuilds the request for the server. Its length is that of the body that the proxy has read. `usual` is the port
/// that `Host` omits.
fn rewritten(request: Request<Incoming>, target: &Target, usual: u16) -> Result<Request<Incoming>, Stop> {
    let bad = || Stop::Unreachable("the request can't be rewritten".into());
    let (mut head, body) = request.into_parts();
    strip(&mut head.headers);
    head.headers.remove(CONTENT_LENGTH);
    // The proxy answered it when it read the body.
    head.headers.remove(EXPECT);
    let host = match target.port {
        port if port == usual => target.host.to_string(),
        port => format!("{}:{port}", target.host),
    };
    head.headers.insert(HOST, HeaderValue::try_from(host).map_err(|_| bad())?);
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    head.uri = Uri::try_from(path).map_err(|_| bad())?;
    head.version = Version::HTTP_11;
    Ok(Request::from_parts(head, body))
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // Naming these would make the server parse the message differently from the proxy.
        .filter(|name| *name != HOST && *name != CONTENT_LENGTH)
        .collect();
    for name in named.iter().map(HeaderName::as_str).chain(OF_THE_CONNECTION.iter().copied()) {
        headers.remove(name);
    }
}
