//! HTTP clients, created on first use.
//!
//! A client with TLS reads the machine's certificates at creation. A run that uses only `http://` or no network must
//! not pay this cost or need certificates (`docs/guides/models.md`; 30 ms and 20 MB to the first request), so there is
//! one client per kind of endpoint, and each is built on first use.

use llm_do_core::model::{ModelError, ModelErrorKind};
use reqwest::{Url, redirect, retry};
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt;
use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

/// Connect timeout.
const CONNECT: Duration = Duration::from_secs(15);

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

/// Returns true if the address is on this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        None => false,
    }
}

impl Clients {
    /// Returns the client for such endpoints.
    ///
    /// # Errors
    ///
    /// The machine's certificates can't be read.
    pub(crate) fn get(&self, needs: Needs) -> Result<&reqwest::Client, ModelError> {
        let slot = &self.made[usize::from(needs.tls) * 2 + usize::from(needs.proxy)];
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let client = build_http(needs)?;
        Ok(slot.get_or_init(|| client))
    }
}

fn failed(error: &dyn std::fmt::Display) -> ModelError {
    ModelError::new(ModelErrorKind::Network, format!("cannot prepare an HTTP client: {error}"))
}

fn build_http(needs: Needs) -> Result<reqwest::Client, ModelError> {
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
