//! Clients over HTTP, on the loopback interface.

use crate::{
    api::{router, scope_of},
    cors::{self, Origin, Origins},
    error::{ApiError, Code},
    faces,
    service::Service,
    token::Token,
};
use axum::{
    Router,
    body::{Body, HttpBody, to_bytes},
    extract::{DefaultBodyLimit, MatchedPath, Request, State},
    http::{HeaderValue, header},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse, Response},
};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::watch, time::timeout};

/// Largest body of a request, in bytes.
const LARGEST_BODY: usize = 16 << 20;
/// How long a body may take to arrive.
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// How long open connections may take to end after the runs have ended.
const END_WITHIN: Duration = Duration::from_secs(5);

/// A service over HTTP.
pub struct Http {
    service: Service,
    listener: TcpListener,
    origins: Origins,
}

/// The names by which browsers and clients may call the server.
#[derive(Clone)]
struct Guard {
    service: Service,
    hosts: Arc<[String; 3]>,
    origins: Origins,
}

impl Http {
    /// Listens on that address.
    ///
    /// # Errors
    /// The address is not one of the loopback interface, or it can't be listened on.
    pub async fn bind(service: Service, address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            let message = format!("{} is not an address of the loopback interface", address.ip());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(Self { service, listener: TcpListener::bind(address).await?, origins: Origins::default() })
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
        let Self { service, listener, origins } = self;
        let port = listener.local_addr()?.port();
        let hosts = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("{host}:{port}"));
        let app = app(service.clone(), hosts, origins);
        let (closing, mut closed) = watch::channel(false);
        let serving = axum::serve(listener, app).with_graceful_shutdown(async move {
            // The sender lives until the connections have ended.
            let _ = closed.wait_for(|closed| *closed).await;
        });
        let mut serving = tokio::spawn(serving.into_future());
        tokio::select! {
            () = stop => {}
            ended = &mut serving => return ended.map_err(io::Error::other)?,
        }
        service.end().await;
        closing.send_replace(true);
        // Those that are left are cut off.
        let _ = timeout(END_WITHIN, serving).await;
        Ok(())
    }
}

/// The routes behind the checks of every request.
fn app(service: Service, hosts: [String; 3], origins: Origins) -> Router {
    let guard = Guard { service: service.clone(), hosts: Arc::new(hosts), origins: origins.clone() };
    router()
        .route_layer(from_fn(with_its_body))
        .route_layer(from_fn_with_state(guard.clone(), authorised))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(from_fn_with_state(guard, admitted))
        .layer(from_fn(faces::with_their_errors))
        .layer(from_fn_with_state(origins, cors::shared))
        .with_state(service)
}

/// What holds for every request, whatever its address: the host is this server, and a page of another origin does not ask.
async fn admitted(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let mut response = match check(&guard, &request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    guard.service.metrics().request(response.status().as_u16());
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
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
        let origin = origin.to_str().unwrap_or_default();
        let own =
            origin.strip_prefix("http://").is_some_and(|origin| guard.hosts.iter().any(|own| own == origin));
        if !own && !guard.origins.allow(origin) {
            return Err(ApiError::new(Code::Forbidden, "the request comes from a page of another origin"));
        }
    }
    Ok(())
}

/// Reads the body of a request that is authorised, whole and in time.
async fn with_its_body(request: Request, next: Next) -> Response {
    match whole(request).await {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

async fn whole(request: Request) -> Result<Request, ApiError> {
    let too_large = || ApiError::new(Code::TooLarge, "the body can't be read, or is larger than 16 MiB");
    let (head, body) = request.into_parts();
    // A length that the client states counts before its body comes.
    if body.size_hint().lower() > LARGEST_BODY as u64 {
        return Err(too_large());
    }
    match timeout(BODY_WITHIN, to_bytes(body, LARGEST_BODY)).await {
        Ok(Ok(body)) => Ok(Request::from_parts(head, Body::from(body))),
        Ok(Err(_)) => Err(too_large()),
        Err(_) => Err(ApiError::new(Code::TooSlow, "the body did not arrive within 30 s")),
    }
}

/// Lets through what has a token with the scope that its route needs.
async fn authorised(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let Some(needed) = scope_of(request.method(), path.as_deref().unwrap_or_default()) else {
        return next.run(request).await;
    };
    let Some(token) = token_of(&guard.service, &request) else {
        let how = "send a token of this server: Authorization: Bearer TOKEN";
        return ApiError::new(Code::Unauthorized, how).into_response();
    };
    if let Some(scope) = needed.filter(|scope| !token.has(*scope)) {
        return ApiError::without_scope(scope).into_response();
    }
    request.extensions_mut().insert(token);
    next.run(request).await
}

fn token_of(service: &Service, request: &Request) -> Option<Arc<Token>> {
    let given = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, text) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| service.token(text)).flatten()
}
