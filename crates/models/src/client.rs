//! HTTP clients, created on first use.
//!
//! A client with TLS reads the machine's certificates at creation. A run that uses only `http://` or no network must
//! not pay this cost or need certificates (`docs/guides/models.md`; 30 ms and 20 MB to the first request), so there is
//! one client per kind of endpoint, and each is built on first use.

use crate::transport::{Body, HttpRequest, HttpResponse, SendError, SendErrorKind, Transport, is_loopback};
use futures_util::FutureExt as _;
use llm_do_core::send::BoxFuture;
use llm_do_wire::Method;
use reqwest::{redirect, retry};
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt;
use std::{
    error::Error as _,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};
use tokio::time::timeout;
use url::Url;

/// Connect timeout.
const CONNECT: Duration = Duration::from_secs(15);
/// The time that a connection may take to end a transfer after the answer was complete. Later, it is closed.
const SETTLING: Duration = Duration::from_secs(1);

/// The clients of a process, shared by all its conversations.
#[derive(Default)]
pub(crate) struct Clients {
    made: [OnceLock<reqwest::Client>; 4],
}

/// The requirements of an endpoint on its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    tls: bool,
    /// Proxies from the environment apply, except to this machine, which a proxy can't reach.
    proxy: bool,
}

impl Needs {
    pub(crate) fn of(url: &Url) -> Self {
        Self { tls: url.scheme() == "https", proxy: !is_loopback(url) }
    }
}

impl Clients {
    /// Returns the client for such endpoints.
    ///
    /// # Errors
    ///
    /// The machine's certificates can't be read.
    fn get(&self, needs: Needs) -> Result<&reqwest::Client, SendError> {
        let slot = &self.made[usize::from(needs.tls) * 2 + usize::from(needs.proxy)];
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let client = build_http(needs)?;
        Ok(slot.get_or_init(|| client))
    }
}

impl Transport for Clients {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, SendError>> {
        let HttpRequest { method, url, headers, body, within } = request;
        Box::pin(async move {
            let client = self.get(Needs::of(&url))?;
            let method = match method {
                Method::Get => reqwest::Method::GET,
                Method::Post => reqwest::Method::POST,
            };
            let mut request = reqwest::Request::new(method, url);
            *request.headers_mut() = headers;
            *request.timeout_mut() = within;
            if !body.is_empty() {
                *request.body_mut() = Some(body.into());
            }
            let mut response = client.execute(request).await.map_err(|error| sent(&error))?;
            let headers = std::mem::take(response.headers_mut());
            Ok(HttpResponse { status: response.status(), headers, body: Box::new(Received(response)) })
        })
    }

    fn after(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// The body of a response.
struct Received(reqwest::Response);

impl Body for Received {
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, SendError>> {
        Box::pin(async move {
            let chunk = self.0.chunk().await.map_err(|error| sent(&error))?;
            Ok(chunk.map(Vec::from))
        })
    }

    fn settle(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // The end of the transfer follows the end of the answer, usually at once.
            tokio::task::yield_now().await;
            if let Some(Ok(None) | Err(_)) = self.0.chunk().now_or_never() {
                return;
            }
            tokio::spawn(async move {
                let end = async { while let Ok(Some(_)) = self.0.chunk().await {} };
                let _ = timeout(SETTLING, end).await;
            });
        })
    }
}

/// Converts an error of the client. Its outer causes repeat the address, which may contain a password.
fn sent(error: &reqwest::Error) -> SendError {
    let kind = if error.is_timeout() {
        SendErrorKind::Timeout
    } else if error.is_connect() {
        SendErrorKind::Connect
    } else if error.is_builder() {
        SendErrorKind::Request
    } else {
        SendErrorKind::Broken
    };
    let Some(mut cause) = error.source() else { return SendError { kind, cause: "no answer".into() } };
    while let Some(next) = cause.source() {
        cause = next;
    }
    SendError { kind, cause: cause.to_string() }
}

fn failed(error: &dyn std::fmt::Display) -> SendError {
    SendError { kind: SendErrorKind::Request, cause: format!("cannot prepare an HTTP client: {error}") }
}

fn build_http(needs: Needs) -> Result<reqwest::Client, SendError> {
    let tls = tls(needs.tls).map_err(|error| failed(&error))?;
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .pool_max_idle_per_host(256)
        .http2_keep_alive_interval(Duration::from_secs(20))
        .http2_keep_alive_timeout(Duration::from_secs(10))
        .http2_adaptive_window(true)
        // A redirect would send headers with keys to a host that is not configured.
        .redirect(redirect::Policy::none())
        .user_agent(concat!("llm-do/", env!("CARGO_PKG_VERSION")));
    if !needs.proxy {
        builder = builder.no_proxy();
    }
    if !needs.tls {
        // Only HTTP/2, which needs TLS here, has answers that ask for the same request again. Without a retry no copy of a
        // request is kept while it waits for its answer.
        builder = builder.retry(retry::never().max_retries_per_request(0));
    }
    builder.build().map_err(|error| failed(&error))
}

/// Makes the TLS configuration. With `trusted`, the machine's certificates verify connections. Without it, no
/// certificate is read or accepted: such a client only uses plain HTTP.
fn tls(trusted: bool) -> Result<ClientConfig, rustls::Error> {
    let provider: Arc<CryptoProvider> = rustls::crypto::ring::default_provider().into();
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = if trusted {
        builder.with_platform_verifier()?.with_no_client_auth()
    } else {
        builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(url: &str) -> Needs {
        Needs::of(&url.parse().unwrap())
    }

    #[test]
    fn loopback_is_never_reached_through_a_proxy() {
        for url in ["http://127.0.0.1:1/", "http://localhost/v1/", "http://[::1]:8080/", "https://127.9.9.9/"]
        {
            assert!(!needs(url).proxy, "{url}");
        }
        for url in ["https://api.openai.com/v1/", "http://192.168.1.5:8000/", "http://localhost.example/"] {
            assert!(needs(url).proxy, "{url}");
        }
    }

    #[test]
    fn a_plain_client_is_made_without_certificates_and_only_once() {
        let clients = Clients::default();
        let first: *const _ = clients.get(needs("http://127.0.0.1:1/")).unwrap();
        let second: *const _ = clients.get(needs("http://localhost:2/")).unwrap();
        assert_eq!(first, second);
        assert_eq!(clients.made.iter().filter(|slot| slot.get().is_some()).count(), 1);
        assert_eq!(tls(false).unwrap().alpn_protocols.len(), 2);
    }
}
