//! `sandbox.keys`: the keys that are added to requests of a worker's code.

use super::Merged;
use crate::{
    diagnostics::{Diagnostic, codes},
    span::Span,
    yaml::{Entry, Node},
};
use llm_do_core::{
    authority::{Domain, Host, Network, is_token, key_header_refused, variable_refused},
    worker::RequestKey,
};
use std::sync::Arc;

/// The port of a host whose entry names no port.
const TLS: u16 = 443;

/// Reads the entries of `keys`. Each belongs to one host of the sandbox's list of domains.
pub(super) fn read(keys: &Node, merged: &Merged, found: &mut Vec<Diagnostic>) -> Vec<(RequestKey, Span)> {
    let mut read: Vec<(RequestKey, Span)> = Vec::new();
    for entry in keys.entries() {
        match one(entry, merged) {
            Ok(key) if read.iter().any(|(known, _)| place(&known.domain) == place(&key.domain)) => {
                found.push(
                    Diagnostic::error(codes::BAD_VALUE, format!("`{}` has two keys", entry.key))
                        .at(&entry.key_span)
                        .help("a host gets one key: remove one of the entries"),
                );
            }
            Ok(key) => read.push((key, entry.key_span.clone())),
            Err(diagnostic) => found.push(*diagnostic),
        }
    }
    read
}

/// Returns the host and port of an entry, which names one host.
fn place(domain: &Domain) -> Option<(Host, u16)> {
    let (host, port) = Host::with_port(&domain.to_string()).ok()?;
    Some((host, port.unwrap_or(TLS)))
}

fn one(entry: &Entry, merged: &Merged) -> Result<RequestKey, Box<Diagnostic>> {
    let host = &entry.key;
    let wrong = |span: &Span, message: String, help: &str| {
        Box::new(Diagnostic::error(codes::BAD_VALUE, message).at(span).help(help))
    };
    let domain = Domain::parse(host).map_err(|error| {
        Box::new(Diagnostic::error(codes::BAD_VALUE, error.to_string()).at(&entry.key_span))
    })?;
    let Some((name, port)) = place(&domain) else {
        let message = format!("a key belongs to one host, and `{host}` stands for many");
        return Err(wrong(&entry.key_span, message, "write the name of the host that takes the key"));
    };
    if port == 80 {
        let message = format!("`{host}` is for plain HTTP, and a key is only sent over TLS");
        return Err(wrong(&entry.key_span, message, "leave the port out, or name one for TLS"));
    }
    let listed = match &merged.narrowing.network {
        Some(Network::Domains(list)) => list.iter().any(|listed| listed.admits(&name, port)),
        Some(Network::On | Network::Off) | None => false,
    };
    if !listed {
        let message = format!("there is a key for `{host}`, which `sandbox.network_enabled` does not list");
        let help = format!("add it to the list of domains: `network_enabled: [{host}]`");
        return Err(wrong(&entry.key_span, message, &help));
    }
    let text = |name: &str| entry.value.get(name).and_then(|node| Some((node.as_text()?, &node.span)));
    let missing = |name: &str| {
        let message = format!("the key for `{host}` has no `{name}`");
        wrong(
            &entry.key_span,
            message,
            "write, for example, `{header: Authorization, scheme: Bearer, env: API_KEY}`",
        )
    };
    let (header, header_span) = text("header").ok_or_else(|| missing("header"))?;
    if let Some(reason) = key_header_refused(header) {
        let message = format!("the header `{header}` can't carry a key: {reason}");
        return Err(wrong(
            header_span,
            message,
            "name the header of the service, such as `Authorization` or `X-Api-Key`",
        ));
    }
    let (variable, span) = text("env").ok_or_else(|| missing("env"))?;
    if let Some(reason) = variable_refused(variable) {
        let message = format!("`{variable}` can't hold a key: {reason}");
        return Err(wrong(span, message, "name a variable such as `WEATHER_API_KEY`"));
    }
    if merged.env.iter().any(|(given, _)| **given == *variable) {
        let message = format!("`{variable}` is in `sandbox.env` too, so the key would enter the process");
        return Err(wrong(
            span,
            message,
            "remove it from `sandbox.env`: the code needs no key to send requests",
        ));
    }
    let scheme = text("scheme");
    if let Some((scheme, span)) = scheme.filter(|(scheme, _)| !is_token(scheme)) {
        let message = format!("`{scheme}` can't stand before a key");
        return Err(wrong(span, message, "write one word, such as `Bearer`"));
    }
    let scheme = scheme.map(|(scheme, _)| scheme.into());
    Ok(RequestKey { domain, header: header.into(), scheme, variable: Arc::from(variable) })
}
