//! Servers over streamable HTTP: how they are reached, and their errors.

use crate::{
    address::{Address, chain, cut},
    client::{Client, HttpError},
    environment::filled,
    oauth::{Tokens, explained, hidden},
    remote::Remote,
    starter::Starter,
};
use llm_do_core::authority::Authority;
use llm_do_sandbox::shell::words;
use reqwest::{
    StatusCode, Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
    redirect::{Action, Attempt, Policy},
};
use rmcp::transport::{
    AuthError, StreamableHttpClientTransport, WWWAuthenticateParams,
    common::client_side_sse::ExponentialBackoff, streamable_http_client::StreamableHttpClientTransportConfig,
};
use serde_json::Value;
use std::{cell::RefCell, error::Error, sync::Arc, time::Duration};

/// Largest answer, and largest event of a stream, in bytes.
const LARGEST_MESSAGE: usize = 32 << 20;

/// Most attempts to resume a stream that broke, and the longest pause before one.
const RECONNECTIONS: usize = 5;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Most redirects of one request, within the server's own origin.
const REDIRECTIONS: usize = 5;

/// Follows redirects that keep the method and stay with the server: frameworks redirect `/mcp` to `/mcp/`. Any other
/// redirect would send headers and arguments to a host that was not granted.
fn within_origin(attempt: Attempt<'_>) -> Action {
    let origin = attempt.previous().first().map(Url::origin);
    let keeps = matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    if attempt.previous().len() > REDIRECTIONS {
        return attempt.error("it redirects without an end");
    }
    if keeps && origin.as_ref() == Some(&attempt.url().origin()) {
        return attempt.follow();
    }
    let to = attempt.url().clone();
    attempt.error(format!(
        "it redirects to {to}, which is not followed. If that is the server, write its address as `url`"
    ))
}

/// A server that may be reached, with all that is needed for it.
pub(crate) struct Launch {
    remote: Remote,
    address: Address,
    /// The authority of the worker.
    workers: Arc<Authority>,
}

impl Launch {
    /// Checks the address and the grants.
    ///
    /// # Errors
    /// The server can't be used.
    pub(crate) fn prepare(remote: Remote, workers: Arc<Authority>) -> Result<Self, String> {
        let address = remote.address()?;
        // Workers that are found only during the run were not asked about when it began.
        if !workers.bounds().allows_servers(&address.network()) {
            let domain = address.domain();
            return Err(format!(
                "the server {domain} was not granted when the run began: add `--grant network={domain}`"
            ));
        }
        Ok(Self { remote, address, workers })
    }

    /// Makes the transport of the messages.
    ///
    /// # Errors
    /// A header whose variable is missing, or certificates that can't be read.
    pub(crate) fn transport(
        &self,
        starter: &Starter,
    ) -> Result<(StreamableHttpClientTransport<Client>, Reached), String> {
        let environment = &starter.environment;
        let granted = |name: &str| self.workers.bounds().allows_variable(name);
        let secrets = RefCell::new(Vec::new());
        let lookup = |name: &str| {
            let value = environment(name);
            secrets.borrow_mut().extend(value.clone().filter(|value| !value.is_empty()));
            value
        };
        let filled = filled("headers", &self.remote.headers, granted, lookup)?;
        let mut headers = HeaderMap::new();
        for (name, value) in filled {
            let unusable =
                || format!("`headers`: {name}, or its value, has characters that a header can't have");
            let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable())?;
            let mut value = HeaderValue::from_str(value.trim()).map_err(|_| unusable())?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
        let tokens = match headers.contains_key(AUTHORIZATION) || !self.address.is_private() {
            true => None,
            false => Some(Tokens::of(&starter.known, &self.address)),
        };
        let mut backoff = ExponentialBackoff::default();
        backoff.max_times = Some(RECONNECTIONS);
        backoff.max_delay = Some(LONGEST_PAUSE);
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.address.as_str());
        config.retry_config = Arc::new(backoff);
        config.max_sse_event_size = LARGEST_MESSAGE;
        config.max_json_response_size = LARGEST_MESSAGE;
        let http = self.address.client(headers, Policy::custom(within_origin))?;
        let transport = StreamableHttpClientTransport::with_client(Client::new(http, tokens.clone()), config);
        Ok((transport, Reached { address: self.address.clone(), tokens, secrets: secrets.into_inner() }))
    }
}

/// A server that is reached over HTTP, while it is connected.
pub(crate) struct Reached {
    address: Address,
    tokens: Option<Tokens>,
    /// The values of variables that the server gets in headers.
    secrets: Vec<String>,
}

impl Reached {
    /// Removes the user's tokens from a message of the server.
    pub(crate) async fn clean(&self, value: Value) -> Value {
        match &self.tokens {
            Some(tokens) => tokens.hide(value).await,
            None => value,
        }
    }

    /// Explains an error of the transport. A part that it quotes of the server may be long, and may contain what the
    /// server was sent.
    pub(crate) fn fault(&self, error: &(dyn Error + 'static)) -> Fault {
        fault(error, &self.address).unwrap_or_else(|| Fault { reason: chain(error), refused: false })
    }

    /// Removes the secrets, and cuts the text to one short line. A part of a secret would not be recognised later.
    pub(crate) async fn shown(&self, fault: Fault) -> Fault {
        let mut secrets = self.secrets.clone();
        if let Some(tokens) = &self.tokens {
            secrets.extend(tokens.secrets().await);
        }
        Fault { reason: cut(&hidden(fault.reason, &secrets)), ..fault }
    }
}

/// The reason for which a request has no answer.
pub(crate) struct Fault {
    /// The reason, for people and models.
    pub(crate) reason: String,
    /// True if the server has certainly not carried out the request.
    pub(crate) refused: bool,
}

/// Explains an error of the transport. `None`: the error is not one of HTTP.
fn fault(error: &(dyn Error + 'static), address: &Address) -> Option<Fault> {
    let mut cause = error;
    let http = loop {
        match cause.downcast_ref::<HttpError>() {
            Some(http) => break http,
            None => cause = cause.source()?,
        }
    };
    let refused = |reason: String| Some(Fault { reason, refused: true });
    let lost = |reason: String| Some(Fault { reason, refused: false });
    match http {
        HttpError::AuthRequired(error) => refused(unknown(address, &error.www_authenticate_header)),
        HttpError::Auth(AuthError::AuthorizationRequired) => refused(unknown(address, "")),
        HttpError::Auth(error) => refused(format!("your sign-in can't be used: {}", explained(error))),
        HttpError::InsufficientScope(error) => {
            let sign_in = error.required_scope.as_deref().map(|scopes| sign_in(address, scopes));
            let again =
                sign_in.map(|command| format!(". Sign in again with `{command}`")).unwrap_or_default();
            refused(format!("your credentials don't allow that (HTTP 403){again}"))
        }
        HttpError::SessionExpired => refused("it has ended the session (HTTP 404)".to_owned()),
        HttpError::HttpStatus(status) => {
            let after = status.retry_after.as_ref();
            let after = after.map(|after| format!(". It says when to retry: {after}")).unwrap_or_default();
            match status.status {
                429 => refused(format!("it was asked too often (HTTP 429){after}")),
                code => lost(format!("it answered with HTTP {code}{after}")),
            }
        }
        HttpError::UnexpectedContentType(Some(content_type)) => {
            lost(format!("its answer is of the type {content_type}, which is not of this protocol"))
        }
        HttpError::UnexpectedContentType(None) => lost("its answer has no content type".to_owned()),
        HttpError::ResponseBodyTooLarge { max_size } => {
            lost(format!("its answer is longer than {} MiB", max_size >> 20))
        }
        HttpError::UnexpectedServerResponse(said) => {
            lost(format!("its answer is not of this protocol: {said}"))
        }
        HttpError::Client(error) => {
            let reason = reason(error);
            if error.is_connect() || error.is_redirect() || error.is_builder() {
                refused(reason)
            } else {
                lost(reason)
            }
        }
        other => lost(other.to_string()),
    }
}

/// Returns the message for a server that wants a sign-in. Its challenge may name the scopes that it wants.
fn unknown(address: &Address, challenge: &str) -> String {
    let base = Url::parse(address.as_str()).ok();
    let scopes =
        base.and_then(|base| WWWAuthenticateParams::parse(challenge, &base).scope).unwrap_or_default();
    let command = sign_in(address, &scopes);
    format!("it wants to know who asks (HTTP 401). Sign in with `{command}`, or set `headers`")
}

/// Returns the command that signs in with these scopes.
fn sign_in(address: &Address, scopes: &str) -> String {
    let scopes = scopes.split_whitespace().map(|scope| format!(" --scope {}", words::quoted(scope)));
    format!("llm-do mcp login {}{}", words::quoted(address.as_str()), scopes.collect::<String>())
}

/// Returns the reason for which a request failed, without its address.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    match error {
        _ if error.is_connect() => format!("cannot connect: {cause}"),
        _ if error.is_timeout() => "no answer in time".to_owned(),
        _ => cause.to_string(),
    }
}
