//! Addresses of servers: which can be used, and the HTTP client for each.

use llm_do_core::authority::{Domain, Network};
use reqwest::{Url, header::HeaderMap, redirect::Policy};
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt;
use std::{error::Error, net::IpAddr, sync::Arc, time::Duration};

/// Most time for a connection to be set up. The call limits the time for an answer.
const CONNECT: Duration = Duration::from_secs(15);

/// Most characters of an answer that an error shows.
const MOST_SHOWN: usize = 300;

/// An address that was parsed and checked.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    url: Url,
    domain: Domain,
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// The address can't be used; the text gives the reason.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let bad = |reason: &dyn std::fmt::Display| format!("`url`: {reason}");
        let url = Url::parse(text).map_err(|error| bad(&error))?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err(bad(&"only `http` and `https` addresses can be used"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad(&"it holds a user name or a password. Use `headers` with a variable instead"));
        }
        if url.fragment().is_some() {
            return Err(bad(&"it has a fragment, which no server receives. Leave `#…` out"));
        }
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        let domain = Domain::parse(&host).map_err(|error| bad(&error))?;
        Ok(Self { url, domain })
    }

    /// Returns the address in one spelling.
    pub(crate) fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Returns the host, without the port.
    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Returns the host, with the port if that is not the usual one.
    pub(crate) fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Returns the network that requests to the address use.
    pub(crate) fn network(&self) -> Network {
        Network::domains([self.domain.clone()])
    }

    /// Returns true if only the server can read what is sent: by HTTPS, or on this machine.
    pub(crate) fn is_private(&self) -> bool {
        self.url.scheme() == "https" || self.is_loopback()
    }

    /// Returns true if the address is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        match self.url.host_str() {
            Some("localhost") => true,
            Some(host) => {
                let host = host.trim_start_matches('[').trim_end_matches(']');
                host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            None => false,
        }
    }

    /// Makes an HTTP client for the address. `headers` are sent with each request.
    ///
    /// # Errors
    /// The machine's certificates can't be read.
    pub(crate) fn client(&self, headers: HeaderMap, redirects: Policy) -> Result<reqwest::Client, String> {
        let failed = |error: &dyn std::fmt::Display| format!("cannot prepare an HTTP client: {error}");
        let tls = tls(self.url.scheme() == "https").map_err(|error| failed(&error))?;
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .https_only(self.url.scheme() == "https")
            .connect_timeout(CONNECT)
            .redirect(redirects)
            .default_headers(headers)
            .user_agent(concat!("llm-do/", env!("CARGO_PKG_VERSION")));
        if self.is_loopback() {
            // A proxy can't reach this machine.
            builder = builder.no_proxy();
        }
        builder.build().map_err(|error| failed(&error))
    }
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

/// Returns an error with its causes, in one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}

/// Returns a text of the server in one short line.
pub(crate) fn cut(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MOST_SHOWN) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
