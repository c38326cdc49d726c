//! The filtering proxy: the only endpoint that a process with a list of domains can reach
//! (`docs/reference/sandbox.md`, tier A).
//!
//! Such a process has its own network namespace. It contains only one listening socket, which the supervisor has
//! created and passed to us. Every connection there comes from that process or its descendants, and all traffic
//! passes through this proxy: `CONNECT` for TLS, absolute URLs for plain HTTP. The proxy resolves names and compares
//! them with the list in the form of [`Host`](llm_do_core::authority::Host). It connects to exactly the address that
//! it checked. An address of this machine or of a local network must itself be on the list, whatever name resolves to
//! it. Port 443 is for TLS whose handshake names the requested host (there is nothing to compare for an address),
//! port 80 is for plain HTTP, and any other port carries any protocol.
//!
//! A host with a key (`sandbox.keys`) is not tunnelled: `keys` and `intercept` read each request inside TLS, and add
//! the key.
//!
//! Limitations: the proxy reads nothing inside the TLS of other hosts. A server that answers for other hosts too can be
//! asked for them inside a connection to an allowed one (domain fronting, encrypted server names), and an allowed host
//! may forward the data that it receives. With `*.example.org` the looked-up names can leak data to that domain's name
//! servers. The proxy ignores the environment's proxy variables and connects directly.

mod address;
mod client;
mod echo;
mod forward;
mod intercept;
pub(super) mod keys;
mod request;
mod tunnel;

use super::{Denial, Denials};

use echo::Cleaned;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Body, Bytes, Frame, Incoming, SizeHint},
    ext::ReasonPhrase,
    header::{CONNECTION, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use intercept::Interception;
use keys::Keys;
use llm_do_core::authority::Domain;
use std::{
    convert::Infallible,
    ffi::OsString,
    net::TcpListener as StdListener,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};
use tunnel::Tunnel;

/// The proxy's port. Nothing else is in that network, so the port is always free.
pub(super) const PORT: u16 = 3128;

/// Returns the variables by which programs find their proxy.
pub(super) fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    let proxy = format!("http://127.0.0.1:{PORT}");
    [("HTTP_PROXY", &*proxy), ("HTTPS_PROXY", &*proxy), ("ALL_PROXY", &*proxy), ("NO_PROXY", "")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .flat_map(|(name, value)| [(name.to_lowercase(), value.clone()), (name, value)])
        .map(|(name, value)| (name.into(), value.into()))
}

/// The proxy's limits for one process.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The largest number of connections at once; further ones wait.
    connections: usize,
    /// Time limit for a request's head, and for the pause between two requests.
    head: Duration,
    /// A connection without a byte in either direction ends after this time, at the latest after twice this time.
    idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        // Models and other slow services may take minutes until the first byte of an answer.
        Self { connections: 128, head: Duration::from_secs(30), idle: Duration::from_secs(15 * 60) }
    }
}

/// The largest size of a request's head, in bytes.
const LONGEST_HEAD: usize = 64 * 1024;

/// A running proxy for one process. It ends, with all of its connections, when this is dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    _task: Task,
    denials: Denials,
}

impl Proxy {
    /// Serves the connections of `listener`. Needs a tokio runtime.
    pub(super) fn start(
        listener: StdListener,
        list: Vec<Domain>,
        keys: Option<Keys>,
    ) -> std::io::Result<Self> {
        Self::within(Limits::default(), listener, list, keys)
    }

    fn within(
        limits: Limits,
        listener: StdListener,
        list: Vec<Domain>,
        keys: Option<Keys>,
    ) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let denials = Denials::default();
        let gate = Arc::new(Gate { list, keys, limits, denials: denials.clone() });
        Ok(Self { _task: Task::spawn(accept(listener, gate)), denials })
    }

    /// Returns the denials of the proxy.
    pub(super) fn denials(&self) -> &Denials {
        &self.denials
    }
}

/// A task that ends with its owner.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Task {
    fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The state that all connections of a process share.
struct Gate {
    list: Vec<Domain>,
    keys: Option<Keys>,
    limits: Limits,
    denials: Denials,
}

async fn accept(listener: TcpListener, gate: Arc<Gate>) {
    // Dropping this ends its connections.
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= gate.limits.connections {
            connections.join_next().await;
        }
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(serve(stream, Arc::clone(&gate)))),
                // No descriptor is free now, or the client has already closed the connection.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// The bytes after a `CONNECT`.
enum Carried {
    /// The bytes go to the host unchanged.
    Tunnel(Tunnel),
    /// The bytes are requests that get a key.
    Interception(Interception),
}

/// Serves one connection to its end.
async fn serve(stream: TcpStream, gate: Arc<Gate>) {
    let (client, movement) = client::watched(stream);
    let tunnel = Arc::new(Mutex::new(None));
    let service = service_fn(|request| {
        let (gate, tunnel) = (Arc::clone(&gate), Arc::clone(&tunnel));
        async move { Ok::<_, Infallible>(answer(&gate, request, &tunnel).await) }
    });
    let requests = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(gate.limits.head)
        .max_header_size(LONGEST_HEAD)
        .serve_connection(TokioIo::new(client), service)
        .with_upgrades();
    let work = async {
        // The client has received the error.
        let _ = requests.await;
        let begun = tunnel.lock().unwrap_or_else(PoisonError::into_inner).take();
        match begun {
            Some(Carried::Tunnel(tunnel)) => tunnel.run(&gate.denials).await,
            Some(Carried::Interception(interception)) => interception.run(&gate).await,
            None => {}
        }
    };
    tokio::select! {
        () = work => {}
        () = movement.ends(gate.limits.idle) => {}
    }
}

/// The reason why a request is not forwarded.
enum Stop {
    /// The request is not allowed.
    Denied(Denial),
    /// The request can't be forwarded now.
    Unreachable(String),
}

async fn answer(
    gate: &Gate,
    mut request: Request<Incoming>,
    carried: &Mutex<Option<Carried>>,
) -> Response<Answer> {
    let carried_out = async {
        let target = request::judge(&request, &gate.list).map_err(Stop::Denied)?;
        let begin = |begun| *carried.lock().unwrap_or_else(PoisonError::into_inner) = Some(begun);
        if request.method() == Method::CONNECT
            && let Some(keys) = &gate.keys
            && let Some(entry) = keys.find(&target.host, target.port)
        {
            let config = keys.server(&target.host).map_err(|error| Stop::Unreachable(error.to_string()))?;
            let client = hyper::upgrade::on(&mut request);
            begin(Carried::Interception(Interception::new(client, target, Arc::clone(entry), config)));
            return Ok(Response::new(Answer::Text(None)));
        }
        let stream = address::connect(&target, &gate.list).await?;
        if request.method() == Method::CONNECT {
            let client = hyper::upgrade::on(&mut request);
            begin(Carried::Tunnel(Tunnel::new(client, stream, target)));
            return Ok(Response::new(Answer::Text(None)));
        }
        forward::forward(request, &target, stream).await
    };
    answered(gate, carried_out.await)
}

/// Returns the answer to a request, or an answer with the reason why it failed.
fn answered(gate: &Gate, carried_out: Result<Response<Answer>, Stop>) -> Response<Answer> {
    match carried_out {
        Ok(response) => response,
        Err(Stop::Denied(denial)) => {
            let status = match denial {
                Denial::Malformed(_) => StatusCode::BAD_REQUEST,
                _ => StatusCode::FORBIDDEN,
            };
            let text = denial.to_string();
            gate.denials.note(denial);
            said(status, text)
        }
        Err(Stop::Unreachable(reason)) => said(StatusCode::BAD_GATEWAY, reason),
    }
}

/// Returns the proxy's own answer, after which the connection ends. Its text is in the first line too, because many
/// clients show nothing else of an answer to `CONNECT`.
fn said(status: StatusCode, text: String) -> Response<Answer> {
    let reason = ReasonPhrase::try_from(text.clone());
    let mut response = Response::new(Answer::Text(Some(format!("{text}\n").into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    if let Ok(reason) = reason {
        response.extensions_mut().insert(reason);
    }
    response
}

/// The body of an answer.
enum Answer {
    /// The proxy's own text.
    Text(Option<Bytes>),
    /// The server's, with the task that drives the connection to it.
    Passed { body: Incoming, _connection: Task },
    /// The server's body if its host has received a key. The key is overwritten.
    Cleaned { body: Box<Cleaned>, _connection: Task },
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Passed { body, .. } => Pin::new(body).poll_frame(context),
            Self::Cleaned { body, .. } => body.poll_next(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_none(),
            Self::Passed { body, .. } => body.is_end_stream(),
            Self::Cleaned { body, .. } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            Self::Passed { body, .. } => body.size_hint(),
            Self::Cleaned { body, .. } => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests;
