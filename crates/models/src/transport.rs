//! The port to the network and to time. On this machine it is an HTTP client and tokio; a web page has its own.

use http::{HeaderMap, StatusCode};
use llm_do_core::send::{BoxFuture, MaybeSend};
use llm_do_wire::Method;
use std::{
    future::ready,
    net::IpAddr,
    time::{Duration, SystemTime},
};
use url::Url;

/// A request to a server.
#[derive(Debug)]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// The address.
    pub url: Url,
    /// All headers that the request needs.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Vec<u8>,
    /// The time within which the response must be complete, if there is such a limit.
    pub within: Option<Duration>,
}

/// The response to a request, whose body follows in pieces.
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Box<dyn Body>,
}

/// The body of a response. A dropped body closes its connection, unless the transfer is complete.
pub trait Body: MaybeSend {
    /// Returns the next piece, or `None` after the last one.
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, SendError>>;

    /// Lets the transport see the end of the transfer, so that it keeps the connection for the next request. The caller does
    /// not wait for an end that is late.
    fn settle(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(ready(()))
    }
}

/// The kind of a request's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendErrorKind {
    /// A time limit of the transport has passed.
    Timeout,
    /// No connection was made.
    Connect,
    /// The request can't be sent as it is.
    Request,
    /// The connection broke, or the server violates HTTP.
    Broken,
}

/// A request or response that failed without a status of the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct SendError {
    /// The kind of the failure.
    pub kind: SendErrorKind,
    /// The reason. It may quote the address and the headers.
    pub cause: String,
}

/// Sends requests, and waits. Redirects are not followed: they would send headers with keys to a host that is not
/// configured. A dropped future ends the request.
pub trait Transport: Send + Sync {
    /// Sends a request, and returns the response as soon as its head is there.
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, SendError>>;

    /// Completes after that much time.
    fn after(&self, time: Duration) -> BoxFuture<'static, ()>;

    /// The current time.
    fn now(&self) -> SystemTime;
}

/// Returns true if the address is on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        None => false,
    }
}
