//! Sending a trace to an OpenTelemetry collector: OTLP over HTTP, as JSON
//! (<https://opentelemetry.io/docs/specs/otlp/#otlphttp>).

use crate::exit::Complaint;
use reqwest::{
    Client, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use serde_json::Value;
use std::{env, net::IpAddr, sync::Arc, time::Duration};

/// The path at which collectors take traces, below their address.
const PATH: &str = "v1/traces";
/// Headers for the collector, as `NAME=VALUE,NAME=VALUE`, in the variable that OpenTelemetry's own exporters read.
const HEADERS: &str = crate::environment::OTEL_EXPORTER_OTLP_HEADERS.name;
/// The most spans in one request: collectors refuse requests that are too large.
const MOST_SPANS: usize = 4000;
/// The longest time for one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Sends a trace, in several requests if it is long. Returns the address.
pub(crate) fn send(address: &str, mut trace: Value) -> Result<Url, Complaint> {
    let url = endpoint(address)?;
    let headers = headers(&env::var(HEADERS).unwrap_or_default())?;
    // A password in the address is not repeated.
    let mut shown = url.clone();
    let _ = (shown.set_username(""), shown.set_password(None));
    let failed =
        |error: &dyn std::fmt::Display| Complaint::failed(format!("cannot send to {shown}: {error}"));
    let client = client(&url).map_err(|error| failed(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let spans = trace["resourceSpans"][0]["scopeSpans"][0]["spans"].take();
    let spans = spans.as_array().map(Vec::as_slice).unwrap_or_default();
    for part in spans.chunks(MOST_SPANS) {
        trace["resourceSpans"][0]["scopeSpans"][0]["spans"] = part.into();
        let request = client.post(url.clone()).headers(headers.clone());
        let request = request.header(CONTENT_TYPE, "application/json").body(trace.to_string());
        let answered = runtime.block_on(async {
            let response = request.send().await?;
            let status = response.status();
            Ok::<_, reqwest::Error>((status, response.text().await?))
        });
        let (status, text) = answered.map_err(|error| {
            // The outermost words say only that sending failed.
            let mut cause: &dyn std::error::Error = &error;
            while let Some(deeper) = cause.source() {
                cause = deeper;
            }
            failed(&cause).hint("is a collector listening there? `--otel FILE` writes the trace to a file")
        })?;
        if !status.is_success() {
            let said: String = text.trim().chars().take(300).collect();
            return Err(failed(&format!("{status} {said}")));
        }
        if let Some(refused) = refused(&text) {
            return Err(failed(&refused));
        }
    }
    Ok(shown)
}

/// Returns the reason if the collector took only a part of a request. It reports this in a successful answer.
fn refused(answer: &str) -> Option<String> {
    let answer: Value = serde_json::from_str(answer).ok()?;
    let partial = &answer["partialSuccess"];
    let count = &partial["rejectedSpans"];
    let count = count.as_u64().or_else(|| count.as_str()?.parse().ok()).filter(|count| *count > 0)?;
    let why = partial["errorMessage"].as_str().unwrap_or("without a reason");
    Some(format!("{count} spans were not taken: {why}"))
}

/// Returns the address with the path for traces, which is added if it is missing.
pub(crate) fn endpoint(address: &str) -> Result<Url, Complaint> {
    let wrong = |why: &dyn std::fmt::Display| {
        Complaint::wrong(format!("--otel {address}: {why}"))
            .hint("write an address such as http://127.0.0.1:4318")
    };
    let mut url: Url = address.parse().map_err(|error| wrong(&error))?;
    if !["http", "https"].contains(&url.scheme()) {
        return Err(wrong(&"a collector has an http:// or https:// address"));
    }
    if !url.path().trim_end_matches('/').ends_with(PATH) {
        let path = format!("{}/{PATH}", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(url)
}

fn headers(text: &str) -> Result<HeaderMap, Complaint> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let parsed = pair.split_once('=').and_then(|(name, value)| {
            let name: HeaderName = name.trim().parse().ok()?;
            let mut value = HeaderValue::from_bytes(&unescaped(value.trim())).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        // The wrong value may be a key, so it is not repeated.
        let (name, value) =
            parsed.ok_or_else(|| Complaint::wrong(format!("{HEADERS} is not NAME=VALUE,NAME=VALUE")))?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Decodes `%20` and the like.
fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = after.get(..2).filter(|_| first == b'%');
        let byte = escaped
            .and_then(|digits| str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        out.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    out
}

/// A client for that address, which follows no redirects.
pub(crate) fn client(url: &Url) -> Result<Client, Box<dyn std::error::Error>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    // Where there is no certificate to check, none is read and none would be accepted.
    let tls = if url.scheme() == "https" {
        tls.with_platform_verifier()?.with_no_client_auth()
    } else {
        tls.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
    };
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .timeout(TIMEOUT)
        // A redirect would carry the trace, and headers with keys, to a host that the operator did not name.
        .redirect(redirect::Policy::none())
        .user_agent(concat!("llm-do/", env!("CARGO_PKG_VERSION")));
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    if host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()) {
        builder = builder.no_proxy();
    }
    Ok(builder.build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gets_the_path_for_traces_once() {
        for (address, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            ("https://example.org/otlp", "https://example.org/otlp/v1/traces"),
            ("https://example.org/otlp/v1/traces?x=1", "https://example.org/otlp/v1/traces?x=1"),
        ] {
            assert_eq!(endpoint(address).map(String::from).as_deref(), Ok(url));
        }
        assert!(endpoint("http://").is_err());
    }

    #[test]
    fn headers_are_pairs_and_a_wrong_one_is_not_repeated() {
        let headers = headers("authorization=Basic%20abc==, x-team = blue").expect("two headers");
        assert_eq!(
            (&headers["authorization"], &headers["x-team"]),
            (&"Basic abc==".parse().expect("a value"), &"blue".parse().expect("a value"))
        );
        for wrong in ["secret", "a b=secret", "a=secret\nx"] {
            assert!(super::headers(wrong).is_err_and(|complaint| !complaint.message.contains("secret")));
        }
        assert_eq!(unescaped("a%2Cb%zz%4"), b"a,b%zz%4");
    }
}
