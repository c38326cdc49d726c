//! Any number of clients over streamable HTTP, on the loopback interface.

use crate::{exact, server::Server};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, combinators::BoxBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Body as _, Bytes, Incoming},
    header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use llm_do::core::schema::sha256;
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use std::{convert::Infallible, fmt, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::timeout,
};

/// The path of the endpoint.
const PATH: &str = "/mcp";
/// Largest body of a request, in bytes.
const LARGEST_BODY: usize = 16 << 20;
const TOO_LARGE: &str = "the body is larger than 16 MiB";
/// How long the head of a request, and its body, may take to arrive.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
const BODY_WITHIN: Duration = Duration::from_secs(30);
/// Most connections at once. Further ones wait.
const MOST_CONNECTIONS: usize = 128;
/// How long open connections may take to end after the runs have ended.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Least length of a token, in characters.
const SHORTEST_TOKEN: usize = 16;

type Body = BoxBody<Bytes, Infallible>;
type Service = StreamableHttpService<Server, LocalSessionManager>;

/// What clients must send to be served: `Authorization: Bearer TOKEN`.
#[derive(Clone)]
pub struct Token(Arc<str>);

/// The system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("cannot make a token: {0}")]
pub struct NoToken(String);

/// A text that is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token has at least 16 characters: letters, digits and -._~+/=")]
pub struct BadToken;

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn generate() -> Result<Self, NoToken> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| NoToken(error.to_string()))?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()))
    }

    /// One that the operator has chosen.
    ///
    /// # Errors
    /// It is too short, or no client could send it.
    pub fn parse(text: &str) -> Result<Self, BadToken> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-._~+/=".contains(c);
        match text.len() >= SHORTEST_TOKEN && text.chars().all(fits) {
            true => Ok(Self(text.into())),
            false => Err(BadToken),
        }
    }

    /// Its text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether a request has it. Hashes are compared, so that the time of the comparison says nothing about the token.
    fn is_in(&self, request: &Request<Incoming>) -> bool {
        let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        given.is_some_and(|(scheme, given)| {
            scheme.eq_ignore_ascii_case("bearer")
                && sha256(given.trim().as_bytes()) == sha256(self.0.as_bytes())
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// A server over streamable HTTP.
pub struct Http {
    server: Server,
    listener: TcpListener,
    token: Token,
}

impl Http {
    /// Listens on that address.
    ///
    /// # Errors
    /// The address is not one of the loopback interface, or it can't be listened on.
    pub async fn bind(server: Server, address: SocketAddr, token: Token) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            let message = format!("{} is not an address of the loopback interface", address.ip());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(Self { server, listener: TcpListener::bind(address).await?, token })
    }

    /// The address of the endpoint.
    ///
    /// # Errors
    /// The socket has none.
    pub fn url(&self) -> io::Result<String> {
        Ok(format!("http://{}{PATH}", self.listener.local_addr()?))
    }

    /// Serves clients until `stop` ends. Then the runs end in order: see [`Server::end`].
    ///
    /// # Errors
    /// The socket has no address.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> io::Result<()> {
        let Self { server, listener, token } = self;
        let port = listener.local_addr()?.port();
        let hosts = ["localhost", "127.0.0.1", "[::1]"].map(|host| format!("{host}:{port}"));
        let origins = hosts.each_ref().map(|host| format!("http://{host}"));
        let mut config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(hosts)
            .with_allowed_origins(origins)
            .enforce_origin_validation();
        config.max_request_body_bytes = LARGEST_BODY;
        let ending = config.cancellation_token.clone();
        let handler = server.clone();
        let service = StreamableHttpService::new(
            move || Ok(handler.clone()),
            Arc::new(LocalSessionManager::default()),
            config,
        );
        let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                accepted = accept(&listener, &room) => accepted,
            };
            while connections.try_join_next().is_some() {}
            match accepted {
                Ok((stream, permit)) => {
                    connections.spawn(connection(stream, permit, service.clone(), token.clone()));
                }
                // Mostly too many open files: others may end.
                Err(error) => {
                    server.log(&format!("cannot accept a connection: {error}"));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        server.end().await;
        ending.cancel();
        let all = async { while connections.join_next().await.is_some() {} };
        // Those that are left are cut off.
        let _ = timeout(END_WITHIN, all).await;
        Ok(())
    }
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

async fn connection(stream: TcpStream, _room: OwnedSemaphorePermit, service: Service, token: Token) {
    let answer = service_fn(|request| {
        let (service, token) = (service.clone(), token.clone());
        async move { Ok::<_, Infallible>(answer(request, &service, &token).await) }
    });
    // The client's faults are the client's: there is nothing to do about a broken connection.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

async fn answer(request: Request<Incoming>, service: &Service, token: &Token) -> Response<Body> {
    if request.uri().path() != PATH {
        return refusal(StatusCode::NOT_FOUND, "the endpoint is /mcp");
    }
    if !token.is_in(&request) {
        let mut response =
            refusal(StatusCode::UNAUTHORIZED, "send the server's token: Authorization: Bearer TOKEN");
        response.headers_mut().insert(WWW_AUTHENTICATE, "Bearer".parse().expect("a header's value"));
        return response;
    }
    let (head, body) = request.into_parts();
    if body.size_hint().lower() > LARGEST_BODY as u64 {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE);
    }
    let body = match timeout(BODY_WITHIN, Limited::new(body, LARGEST_BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, TOO_LARGE);
        }
        Ok(Err(_)) => return refusal(StatusCode::BAD_REQUEST, "the body can't be read"),
        Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 30 s"),
    };
    if let Some(answer) = exact::refusal(&body) {
        let mut response = Response::new(Full::new(Bytes::from(answer)).boxed());
        response.headers_mut().insert(CONTENT_TYPE, "application/json".parse().expect("a header's value"));
        return response;
    }
    service.handle(Request::from_parts(head, Full::new(body))).await
}

fn refusal(status: StatusCode, message: &'static str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from_static(message.as_bytes())).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, "text/plain".parse().expect("a header's value"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_can_be_sent_and_is_not_short() {
        for wrong in ["", "short", "sixteen characters long", "0123456789abcdef\n"] {
            assert_eq!(Token::parse(wrong).err(), Some(BadToken), "{wrong:?}");
        }
        let token = Token::generate().expect("random numbers");
        assert_eq!(Token::parse(token.text()).expect("a token").text(), token.text());
        assert_ne!(token.text(), Token::generate().expect("random numbers").text());
        assert!(!format!("{token:?}").contains(token.text()));
    }
}
