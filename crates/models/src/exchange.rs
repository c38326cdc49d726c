//! The exchange of a request and its answer, for every wire format. `llm-do-wire` has the formats.
//!
//! A dropped future closes its connection, so a request that is not needed any more ends at the server, too.

use crate::{
    failure::Whom,
    remote::Remote,
    transport::{HttpRequest, HttpResponse},
};
use futures_util::future::{Either, select};
use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{ACCEPT, CONTENT_TYPE},
};
use llm_do_core::model::{DeltaSink, ModelError, ModelErrorKind, ModelRequest, ModelResponse};
use llm_do_wire::{Excerpt, Form, Outgoing};
use std::{collections::BTreeMap, pin::pin, time::Duration};

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
    pub(crate) fn outgoing(&self, sent: Outgoing) -> Result<HttpRequest, ModelError> {
        let Outgoing { method, path, query, headers: added, body } = sent;
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path()));
        if let Some((name, value)) = query {
            url.query_pairs_mut().append_pair(name, value);
        }
        let mut headers = self.headers.clone();
        for (name, value) in added {
            // A request has one type, and every value of a list.
            let before = headers.get(name).filter(|_| name != CONTENT_TYPE.as_str());
            let joined = match before.and_then(|before| before.to_str().ok()) {
                Some(before) => format!("{before},{value}"),
                None => value,
            };
            let value = HeaderValue::from_str(&joined).map_err(|_| {
                let what = format!("the header `{name}` has a value that can't be sent");
                self.whom.error(ModelErrorKind::BadRequest, &what)
            })?;
            headers.insert(name, value);
        }
        Ok(HttpRequest { method, url, headers, body, within: None })
    }

    /// Sends a request. The response has a status of success.
    ///
    /// # Errors
    ///
    /// The request can't be sent, or the server refuses it.
    pub(crate) async fn send(
        &self,
        request: HttpRequest,
        patience: Duration,
    ) -> Result<HttpResponse, ModelError> {
        let response = match select(self.transport.send(request), self.transport.after(patience)).await {
            Either::Left((response, _)) => response.map_err(|error| self.whom.http(&error))?,
            Either::Right(_) => return Err(self.whom.timeout()),
        };
        if response.status.is_success() {
            return Ok(response);
        }
        let HttpResponse { status, headers, .. } = &response;
        let (status, headers) = (*status, headers.clone());
        let body = Box::pin(self.excerpt(response)).await;
        Err(self.whom.status(status, &body, &headers, self.transport.now()))
    }

    /// Returns the beginning of the body of an error, as far as it arrives.
    async fn excerpt(&self, mut response: HttpResponse) -> String {
        let mut excerpt = Excerpt::default();
        let reading = async {
            while let Ok(Some(chunk)) = response.body.chunk().await {
                if !excerpt.push(&chunk) {
                    break;
                }
            }
        };
        // A status without a reason is enough for an error.
        select(pin!(reading), self.transport.after(self.whom.idle * 5)).await;
        excerpt.text()
    }

    /// Asks the model. The response has a status of success.
    ///
    /// # Errors
    ///
    /// The request can't be sent, or the server refuses it.
    pub(crate) async fn ask(&self, request: &ModelRequest<'_>) -> Result<HttpResponse, ModelError> {
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
        mut response: HttpResponse,
        request: &ModelRequest<'_>,
        deltas: &dyn DeltaSink,
    ) -> Result<ModelResponse, ModelError> {
        let kind = response.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let mut reader = self.form.reader(request, self.stream, kind.unwrap_or_default());
        let mut deadline = self.transport.after(self.whom.idle * 5);
        let mut is_over = false;
        while !is_over && !reader.has_ended() {
            let chunk = response.body.chunk();
            let chunk = if reader.is_streamed() {
                select(chunk, &mut self.transport.after(self.whom.idle)).await.left()
            } else {
                select(chunk, &mut deadline).await.left()
            };
            match chunk {
                Some(Ok(Some(chunk))) => reader.push(&chunk),
                Some(Ok(None)) => {
                    reader.end();
                    is_over = true;
                }
                // The bytes after an answer are not needed.
                Some(Err(_)) | None if reader.is_whole() => break,
                Some(Err(error)) => return Err(self.whom.http(&error)),
                None => return Err(self.whom.timeout()),
            }
            reader.deltas().for_each(|delta| deltas.delta(delta));
        }
        response.body.settle().await;
        reader.response().map_err(|failure| self.whom.failed(failure))
    }
}

/// The value of the first of two futures, if it was ready first.
trait Left<T> {
    fn left(self) -> Option<T>;
}

impl<A, B, T, U> Left<T> for Either<(T, B), (U, A)> {
    fn left(self) -> Option<T> {
        match self {
            Self::Left((value, _)) => Some(value),
            Self::Right(_) => None,
        }
    }
}
