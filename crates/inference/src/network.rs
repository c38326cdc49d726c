//! HTTP for downloads.

use reqwest::{Client, RequestBuilder};
use std::time::Duration;

/// Makes a client for that address, for each pull and not earlier: certificates are read only then.
pub(crate) fn client(url: &str) -> Result<Client, reqwest::Error> {
    // A provider that another part of the process has installed already is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(concat!("llm-do/", env!("CARGO_PKG_VERSION")))
        .https_only(url.starts_with("https:"))
        .connect_timeout(Duration::from_secs(15))
        .read_timeout(Duration::from_secs(30))
        .build()
}

/// Makes a request. The client removes the token if it is redirected to another host.
pub(crate) fn get(client: &Client, url: &str, token: Option<&str>) -> RequestBuilder {
    let request = client.get(url);
    match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

/// Returns the reason for which a request failed, without its address: messages name the source instead.
pub(crate) fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    match error {
        _ if error.is_connect() => format!("cannot connect: {cause}"),
        _ if error.is_timeout() => "no answer in time".to_owned(),
        _ => cause.to_string(),
    }
}

/// Returns an error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
