//! The exchange of a request and its answer, for every wire format. `llm-do-wire` has the formats.
//!
//! A dropped future closes its connection, so a request that is not needed any more ends at the server, too.

use crate::{failure::Whom, remote::Remote};
use llm_do_core::model::{DeltaSink, ModelError, ModelErrorKind, ModelRequest, ModelResponse};
use llm_do_wire::{Excerpt, Form, Method, Outgoing};
use reqwest::{
    Request, Response,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use std::{collections::BTreeMap, time::Duration};
use tokio::time::{Instant, timeout, timeout_at};

/// Returns the headers of every request to an endpoint: with its key, and with those that a program declares.
///
/// # Errors
///
/// A header can't be sent.
pub(crate) fn headers(
    form: &Form,
    key: Option<&str>,
    declared: &BTreeMap<String, String>,
    whom: &Whom,
) -> Result<HeaderMap, ModelError> {
    let own = form.headers(key);
    let own = own.iter().map(|(name, value)| (*name, value.as_str()));
    let declared = declared.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut headers = HeaderMap::new();
    for (name, value) in own.chain(declared) {
        let bad = |what: &str| {
            let what = format!("the header `{name}` has {what} that can't be sent");
            whom.error(ModelErrorKind::BadRequest, &what)
        };
        let known = HeaderName::try_from(name).map_err(|_| bad("a name"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| bad("a value"))?;
        value.set_sensitive(known != CONTENT_TYPE && known != ACCEPT);
        headers.insert(known, value);
    }
    Ok(headers)
}

impl Remote {
    /// Makes a request to the endpoint.
    ///
    /// # Errors
    ///
    /// A header can't be sent.
    pub(crate) fn outgoing(&self, sent: Outgoing) -> Result<Request, ModelError> {
        let Outgoing { method, path, query, headers, body } = sent;
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path()));
        if let Some((name, value)) = query {
            url.query_pairs_mut().append_pair(name, value);
        }
        let method = match method {
            Method::Get => reqwest::Method::GET,
            Method::Post => reqwest::Method::POST,
        };
        let mut request = Request::new(method, url);
        request.headers_mut().clone_from(&self.headers);
        for (name, value) in headers {
            // A request has one type, and every value of a list.
            let before = request.headers().get(name).filter(|_| name != CONTENT_TYPE.as_str());
            let joined = match before.and_then(|before| before.to_str().ok()) {
                Some(before) => format!("{before},{value}"),
                None => value,
            };
            let value = HeaderValue::from_str(&joined).map_err(|_| {
                let what = format!("the header `{name}` has a value that can't be sent");
                self.whom.error(ModelErrorKind::BadRequest, &what)
            })?;
            request.headers_mut().insert(name, value);
        }
        if !body.is_empty() {
            *request.body_mut() = Some(body.into());
        }
        Ok(request)
    }

    /// Sends a request. The response has a status of success.
    ///
    /// # Errors
    ///
    /// The request can't be sent, or the server refuses it.
    pub(crate) async fn send(&self, request: Request, patience: Duration) -> Result<Response, ModelError> {
        let sending = self.clients.get(self.needs)?.execute(request);
        let response = timeout(patience, sending).await.map_err(|_| self.whom.timeout())?;
        let response = response.map_err(|error| self.whom.http(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = Box::pin(self.excerpt(response)).await;
        Err(self.whom.status(status, &body, &headers))
    }

    /// Returns the beginning of the body of an error, as far as it arrives.
    async fn excerpt(&self, mut response: Response) -> String {
        let mut excerpt = Excerpt::default();
        let reading = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                if !excerpt.push(&chunk) {
                    break;
                }
            }
        };
        // A status without a reason is enough for an error.
        let _ = timeout(self.whom.idle * 5, reading).await;
        excerpt.text()
    }

    /// Asks the model. The response has a status of success.
    ///
    /// # Errors
    ///
    /// The request can't be sent, or the server refuses it.
    pub(crate) async fn ask(&self, request: &ModelRequest<'_>) -> Result<Response, ModelError> {
        let sent = self.form.request(request, self.stream);
        let sent = sent.map_err(|what| self.whom.error(ModelErrorKind::Unsupported, &what.0))?;
        // An answer in one piece is sent when it is ready as a whole.
        let patience = if self.stream { self.whom.idle } else { self.whom.idle * 5 };
        Box::pin(self.send(self.outgoing(sent)?, patience)).await
    }

    /// Reads an answer: a stream, which has no limit of its total time, or one body, which must be complete after five
    /// times the idle timeout.
    ///
    /// # Errors
    ///
    /// The answer is not complete.
    pub(crate) async fn read(
        &self,
        mut response: Response,
        request: &ModelRequest<'_>,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelResponse, ModelError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let mut reader = self.form.reader(request, self.stream, kind.unwrap_or_default());
        let deadline = Instant::now() + self.whom.idle * 5;
        let mut is_over = false;
        while !is_over && !reader.has_ended() {
            let until = if reader.is_streamed() { Instant::now() + self.whom.idle } else { deadline };
            match timeout_at(until, response.chunk()).await {
                Ok(Ok(Some(chunk))) => reader.push(&chunk),
                Ok(Ok(None)) => {
                    reader.end();
                    is_over = true;
                }
                // The bytes after an answer are not needed.
                Ok(Err(_)) | Err(_) if reader.is_whole() => break,
                Ok(Err(error)) => return Err(self.whom.http(&error)),
                Err(_) => return Err(self.whom.timeout()),
            }
            reader.deltas().for_each(|delta| deltas.delta(delta));
        }
        // The end of the transfer follows the end of the answer. A connection that has not read it yet when the response
        // is dropped is closed, and the next turn has to make a new one.
        tokio::task::yield_now().await;
        reader.response().map_err(|failure| self.whom.failed(failure))
    }
}
