//! Clients over HTTP, on the loopback interface.

use crate::{
    api::{router, scope_of},
    cookie::{self, Port},
    cors::{self, Origin, Origins},
    error::{ApiError, Code},
    faces::{self, mcp::Endpoint},
    meter::Share,
    service::Service,
    token::Token,
};
use axum::{
    Extension, Router,
    body::{Body, HttpBody},
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, Method, header},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};

/// Largest body of a request, in bytes.
const LARGEST_BODY: usize = 16 << 20;
/// The time within which the head of a request must arrive.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Most connections at once. Further ones wait.
const MOST_CONNECTIONS: usize = 4096;
/// Most connections at once of a server of tools.
const MOST_OF_TOOLS: usize = 128;
/// Largest buffer of a connection, in bytes: for a head, or for an answer that the client does not read.
const LARGEST_BUFFER: usize = 64 << 10;
/// The delay after the system had no connection to give, for example because too many files are open.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// The time within which a body must arrive.
pub(crate) const BODY_WITHIN: Duration = Duration::from_secs(30);
/// The time that open connections have to end after the runs have ended.
const END_WITHIN: Duration = Duration::from_secs(5);

/// A service over HTTP.
pub struct Http {
    service: Service,
    listener: TcpListener,
    origins: Origins,
    /// True if the server has only the tools for clients of the Model Context Protocol.
    only_tools: bool,
}

/// The names by which browsers and clients may call the server.
#[derive(Clone)]
struct Guard {
    service: Service,
    hosts: Arc<[String; 3]>,
    port: Port,
    origins: Origins,
}

impl Guard {
    /// Returns true if the origin is that of the server's own pages.
    fn is_own(&self, origin: &HeaderValue) -> bool {
        let host = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
        host.is_some_and(|host| self.hosts.iter().any(|own| own == host))
    }
}

impl Http {
    /// Listens on that address. Clients that connect wait until the service is there. A server listens before it opens its
    /// service, which continues the runs of an earlier process: without a socket these would be cut off at once.
    ///
    /// # Errors
    /// The address is not one of the loopback interface, or it can't be listened on.
    pub async fn listen(address: SocketAddr) -> io::Result<TcpListener> {
        if !address.ip().is_loopback() {
            let message = format!("{} is not an address of the loopback interface", address.ip());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        TcpListener::bind(address).await
    }

    /// A server of that service on a socket of [`Http::listen`].
    pub fn new(service: Service, listener: TcpListener) -> Self {
        Self { service, listener, origins: Origins::default(), only_tools: false }
    }

    /// The same server with only the tools for clients of the Model Context Protocol.
    pub(crate) fn of_tools(self) -> Self {
        Self { only_tools: true, ..self }
    }

    /// Lets pages of these origins call the server.
    #[must_use]
    pub fn allowing(self, origins: Vec<Origin>) -> Self {
        Self { origins: Origins(origins.into()), ..self }
    }

    /// The address of the server.
    ///
    /// # Errors
    /// The socket has none.
    pub fn url(&self) -> io::Result<String> {
        Ok(format!("http://{}", self.listener.local_addr()?))
    }

    /// Serves clients until `stop` ends. Then the runs end in order: those that wait for answers are suspended, the others
    /// may end within the grace period. The next start of the service continues what is left.
    ///
    /// # Errors
    /// The socket has no address.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> io::Result<()> {
        let Self { service, listener, origins, only_tools } = self;
        let port = Port(listener.local_addr()?.port());
        service.set_notifiers(&format!("http://{}", listener.local_addr()?));
        let mcp = Arc::new(Endpoint::new(&service.server_name()));
        let (routes, most) = match only_tools {
            true => (faces::tools_router(), MOST_OF_TOOLS),
            false => (router(), MOST_CONNECTIONS),
        };
        let app = app(routes, service.clone(), port, origins).layer(Extension(Arc::clone(&mcp)));
        let (closing, closed) = watch::channel(false);
        let mut serving = tokio::spawn(accept(listener, app, most, closed));
        tokio::select! {
            () = stop => {}
            ended = &mut serving => return ended.map_err(io::Error::other),
        }
        service.end().await;
        mcp.end();
        closing.send_replace(true);
        // Those that are left are cut off.
        let _ = timeout(END_WITHIN, serving).await;
        Ok(())
    }
}

/// Serves connections until `closed` is true, and then waits until the open ones have ended.
async fn accept(listener: TcpListener, app: Router, most: usize, closed: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(most));
    let mut connections = JoinSet::new();
    let mut ending = closed.clone();
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { break };
        while connections.try_join_next().is_some() {}
        tokio::select! {
            () = closes(&mut ending) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let (app, closed) = (app.clone(), closed.clone());
                    connections.spawn(async move {
                        connection(stream, app, closed).await;
                        drop(place);
                    });
                }
                // Too many open files, for example: later there may be fewer.
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            },
        }
    }
    while connections.join_next().await.is_some() {}
}

async fn closes(closed: &mut watch::Receiver<bool>) {
    // The sender lives until the connections have ended.
    let _ = closed.wait_for(|closed| *closed).await;
}

async fn connection(stream: TcpStream, app: Router, mut closed: watch::Receiver<bool>) {
    let _ = stream.set_nodelay(true);
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(LARGEST_BUFFER)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app));
    let mut serving = pin!(serving);
    tokio::select! {
        // A client that has gone is no error of the server.
        _ = serving.as_mut() => return,
        () = closes(&mut closed) => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}

/// The routes behind the checks of every request.
fn app(routes: Router<Service>, service: Service, port: Port, origins: Origins) -> Router {
    let guard =
        Guard { service: service.clone(), hosts: Arc::new(hosts(port)), port, origins: origins.clone() };
    routes
        .route_layer(from_fn_with_state(service.clone(), with_its_body))
        .route_layer(from_fn_with_state(guard.clone(), authorised))
        .layer(Extension(port))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(from_fn_with_state(guard, admitted))
        .layer(from_fn(faces::with_their_errors))
        .layer(from_fn_with_state(origins, cors::shared))
        .with_state(service)
}

/// Checks each request, whatever its address: its host must be this server, and its page, if any, must be of an allowed
/// origin.
async fn admitted(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let mut response = match check(&guard, &request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    guard.service.metrics().request(response.status().as_u16());
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn check(guard: &Guard, request: &Request) -> Result<(), ApiError> {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !guard.hosts.iter().any(|own| own.eq_ignore_ascii_case(host)) {
        return Err(ApiError::new(Code::Forbidden, "the request is for another host"));
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let allowed = origin.to_str().is_ok_and(|origin| guard.origins.allow(origin));
        if !guard.is_own(origin) && !allowed {
            return Err(ApiError::new(Code::Forbidden, "the request comes from a page of another origin"));
        }
    }
    Ok(())
}

/// Reads the body of a request that is authorised, whole, in time and within the quota of its token. The body counts until the
/// request has its response.
async fn with_its_body(State(service): State<Service>, request: Request, next: Next) -> Response {
    match whole(&service, request).await {
        Ok((request, share)) => {
            let response = next.run(request).await;
            drop(share);
            response
        }
        Err(error) => error.into_response(),
    }
}

async fn whole(service: &Service, request: Request) -> Result<(Request, Option<Share>), ApiError> {
    // What needs no token has no body that is read.
    let Some(token) = request.extensions().get::<Arc<Token>>().cloned() else { return Ok((request, None)) };
    let (head, body) = request.into_parts();
    if body.is_end_stream() {
        return Ok((Request::from_parts(head, body), None));
    }
    match timeout(BODY_WITHIN, read(service, token.name(), body, LARGEST_BODY as u64)).await {
        Ok(Ok((bytes, share))) => Ok((Request::from_parts(head, Body::from(bytes)), Some(share))),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(ApiError::new(Code::TooSlow, "the body did not arrive within 30 s")),
    }
}

/// Reads a body of at most `most` bytes, which count for the client named `by`.
pub(crate) async fn read(
    service: &Service,
    by: &Arc<str>,
    body: Body,
    most: u64,
) -> Result<(Vec<u8>, Share), ApiError> {
    let too_large = || {
        let detail =
            format!("the body can't be read, or is larger than {} MiB", most as f64 / f64::from(1 << 20));
        ApiError::new(Code::TooLarge, detail)
    };
    // A length that the client states counts before its body comes.
    let stated = body.size_hint().lower();
    if stated > most {
        return Err(too_large());
    }
    let mut share = service.quotas().body(by, stated)?;
    service.quotas().admit_memory(stated)?;
    let mut bytes = Vec::new();
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        // Copied: a piece of one byte may keep the whole buffer of its connection.
        let piece = piece.map_err(|_| too_large())?;
        if (bytes.len() + piece.len()) as u64 > most {
            return Err(too_large());
        }
        share.grow(piece.len() as u64)?;
        bytes.extend_from_slice(&piece);
    }
    Ok((bytes, share))
}

/// Passes a request on if its token has the scope that the route needs, or if the route needs no token.
async fn authorised(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let Some(needed) = scope_of(request.method(), path.as_deref().unwrap_or_default()) else {
        return next.run(request).await;
    };
    let token = match token_of(&guard, &request) {
        Ok(token) => token,
        Err(error) => return error.into_response(),
    };
    if let Some(scope) = needed.filter(|scope| !token.has(*scope)) {
        return ApiError::without_scope(scope).into_response();
    }
    request.extensions_mut().insert(token);
    next.run(request).await
}

/// The token in the header of a request, or that of the session whose cookie the request has.
fn token_of(guard: &Guard, request: &Request) -> Result<Arc<Token>, ApiError> {
    let headers = request.headers();
    let found = if headers.contains_key(header::AUTHORIZATION) {
        bearer(headers).and_then(|text| guard.service.token(text))
    } else if let Some(cookie) = cookie::secret(guard.port, headers) {
        of_own_page(guard, request)?;
        let page = headers.get(cookie::PAGE_SECRET).and_then(|secret| secret.to_str().ok());
        let session = page.and_then(|page| guard.service.browsers().find(cookie, page, Instant::now()));
        return session.ok_or_else(|| {
            let detail = "the session has ended, or the request lacks its page's secret in the header Llm-Do-Session: sign in again";
            ApiError::new(Code::Unauthorized, detail)
        });
    } else {
        None
    };
    found.ok_or_else(|| {
        ApiError::new(Code::Unauthorized, "send a token of this server: Authorization: Bearer TOKEN")
    })
}

/// The text of the token in the header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, text) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(text)
}

/// Lets a request through that a page of the server itself makes, which browsers say in a header that pages can't change.
pub(crate) fn from_own_page(port: Port, headers: &HeaderMap) -> Result<(), ApiError> {
    let own = |origin: &HeaderValue| hosts(port).iter().any(|host| *origin == format!("http://{host}"));
    match headers.get(header::ORIGIN).is_some_and(own) {
        true => Ok(()),
        false => Err(ApiError::new(
            Code::Forbidden,
            "signing in is for pages of the server, whose Origin is its own: other clients send their token with each request",
        )),
    }
}

/// The hosts by which clients may call the server.
fn hosts(Port(port): Port) -> [String; 3] {
    ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("{host}:{port}"))
}

/// Browsers send cookies whoever asks. Whether a page of the server asks is in headers that pages can't change: `Origin` and
/// `Sec-Fetch-Site`.
fn of_own_page(guard: &Guard, request: &Request) -> Result<(), ApiError> {
    let headers = request.headers();
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let own_site = site.is_none_or(|site| [&b"same-origin"[..], b"none"].contains(&site));
    let own_page = match headers.get(header::ORIGIN) {
        // Origins that the operator has allowed were let through before: their pages bring a token themselves.
        Some(origin) => guard.is_own(origin),
        None => reads,
    };
    if own_site && own_page {
        return Ok(());
    }
    Err(ApiError::new(
        Code::Forbidden,
        "a request with the cookie must come from a page of the server: send an Origin, or the token in the header",
    ))
}
