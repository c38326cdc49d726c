//! Plain HTTP: one request to one server, rebuilt by the proxy.

use super::{Answer, Stop, Task, request::Target};
use hyper::{
    Request, Response, StatusCode, Uri, Version,
    body::Incoming,
    client::conn::http1,
    header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

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

/// Sends the request and returns the server's answer.
pub(super) async fn forward(
    request: Request<Incoming>,
    target: &Target,
    stream: TcpStream,
) -> Result<Response<Answer>, Stop> {
    let failed =
        |error: hyper::Error| Stop::Unreachable(format!("`{}` did not answer: {error}", target.host));
    let (mut server, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let connection = Task::spawn(async move { drop(connection.await) });
    let response = server.send_request(rewritten(request, target)?).await.map_err(failed)?;
    let (mut head, body) = response.into_parts();
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Stop::Unreachable(format!("`{}` changed the protocol unasked", target.host)));
    }
    strip(&mut head.headers);
    head.version = Version::HTTP_11;
    Ok(Response::from_parts(head, Answer::Passed { body, _connection: connection }))
}

/// The request as the server gets it. Its length is that of the body that the proxy has read.
fn rewritten(request: Request<Incoming>, target: &Target) -> Result<Request<Incoming>, Stop> {
    let bad = || Stop::Unreachable("the request can't be rewritten".into());
    let (mut head, body) = request.into_parts();
    strip(&mut head.headers);
    head.headers.remove(CONTENT_LENGTH);
    // The proxy answered it when it read the body.
    head.headers.remove(EXPECT);
    let host = match target.port {
        80 => target.host.to_string(),
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
