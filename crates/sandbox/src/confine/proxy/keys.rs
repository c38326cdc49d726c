//! Keys that the proxy adds to requests, so that they never enter the process (`docs/reference/sandbox.md`).
//!
//! A host with a key is not tunnelled: the proxy ends the process's TLS with a certificate of an authority that exists
//! for this process alone, judges each request, adds the key, and sends it over TLS of its own to the host, whose
//! certificate it verifies as every client does. The authority's key never leaves our memory.

use crate::confine::HostKey;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hyper::header::{HeaderName, HeaderValue};
use llm_do_core::authority::{Domain, Host, key_header_refused};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ClientConfig, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use rustls_platform_verifier::BuilderVerifierExt;
use std::{fmt, io, sync::Arc};

/// The keys for a process, and the authority that it trusts.
pub(in crate::confine) struct Keys {
    entries: Vec<Arc<Entry>>,
    issuer: Issuer<'static, KeyPair>,
    /// The certificate of the authority, as PEM.
    certificate: String,
    upstream: Arc<ClientConfig>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|entry| entry.domain.to_string())).finish()
    }
}

/// A key, and the requests that get it.
pub(super) struct Entry {
    domain: Domain,
    pub(super) header: HeaderName,
    pub(super) value: HeaderValue,
    /// The key alone, which must not come back in an answer.
    pub(super) secret: Box<[u8]>,
}

impl Keys {
    /// Takes the keys, and makes an authority for them.
    ///
    /// # Errors
    /// A key is not valid in a header, or the system has no certificates to verify hosts with.
    pub(in crate::confine) fn new(keys: &[HostKey]) -> io::Result<Self> {
        let provider = Arc::new(default_provider());
        let upstream = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(BuilderVerifierExt::with_platform_verifier)
            .map_err(io::Error::other)?
            .with_no_client_auth();
        Self::over(keys, upstream)
    }

    /// Creates the same with that client configuration for the hosts.
    pub(super) fn over(keys: &[HostKey], mut upstream: ClientConfig) -> io::Result<Self> {
        let entries: Vec<Arc<Entry>> = keys.iter().map(entry).collect::<io::Result<_>>()?;
        upstream.alpn_protocols = vec![b"http/1.1".to_vec()];
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "llm-do, for one process");
        let certificate = pem(params.self_signed(&key).map_err(io::Error::other)?.der());
        let issuer = Issuer::new(params, key);
        Ok(Self { entries, issuer, certificate, upstream: Arc::new(upstream) })
    }

    /// Returns the certificate of the authority, as PEM.
    pub(in crate::confine) fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the key for requests to that host and port.
    pub(super) fn find(&self, host: &Host, port: u16) -> Option<&Arc<Entry>> {
        self.entries.iter().find(|entry| entry.domain.admits(host, port))
    }

    /// Returns the TLS configuration for connections from the proxy to the host of a key.
    pub(super) fn upstream(&self) -> &Arc<ClientConfig> {
        &self.upstream
    }

    /// Creates the TLS configuration with which the proxy answers the process in the place of that host.
    pub(super) fn server(&self, host: &Host) -> io::Result<ServerConfig> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let name = match host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        };
        let mut params = CertificateParams::new(vec![name]).map_err(io::Error::other)?;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer).map_err(io::Error::other)?;
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .map_err(io::Error::other)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn entry(key: &HostKey) -> io::Result<Arc<Entry>> {
    let HostKey { domain, header: name, scheme, key } = key;
    let wrong = |reason: &str| io::Error::other(format!("the key for `{domain}`: {reason}"));
    if let Some(reason) = key_header_refused(name) {
        return Err(wrong(reason));
    }
    let header: HeaderName = name.parse().map_err(|_| wrong("it is no name of a header"))?;
    let key = key.trim();
    let text = match scheme {
        Some(scheme) => format!("{scheme} {key}"),
        None => key.to_owned(),
    };
    let mut value = HeaderValue::try_from(text)
        .map_err(|_| wrong("its value has characters that can't stand in a header"))?;
    value.set_sensitive(true);
    Ok(Arc::new(Entry { domain: domain.clone(), header, value, secret: key.as_bytes().into() }))
}

/// Formats a certificate as PEM (RFC 7468).
fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut lines = vec!["-----BEGIN CERTIFICATE-----"];
    let mut rest = text.as_str();
    while !rest.is_empty() {
        // Base64 is ASCII.
        let (line, more) = rest.split_at(rest.len().min(64));
        lines.push(line);
        rest = more;
    }
    lines.push("-----END CERTIFICATE-----\n");
    lines.join("\n")
}
