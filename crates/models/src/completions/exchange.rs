//! One request and its answer.

use super::Endpoint;
use crate::{
    reader::{MOST_BYTES, Reader},
    remote::{Remote, cache_key},
    response::Answer,
};
use llm_do_core::model::{DeltaSink, ModelError, ModelErrorKind, ModelRequest};
use reqwest::{Method, Request, Response, header::CONTENT_TYPE};
use sse_core::{MessageEvent, SseDecoder, SseEvent};
use std::{mem, num::NonZeroUsize, time::Duration};
use tokio::time::timeout;

/// The name that the decoder gives to an event without one.
pub(crate) const UNNAMED: &str = "message";

/// The end of the last event, which a server may leave out.
const END: &[u8] = b"\n\n";

/// The most bytes of an error that are read.
const MOST_OF_ERROR: usize = 64 << 10;

/// Checks that a stream is UTF-8. The decoder would replace other bytes, and change what the model said.
#[derive(Default)]
struct Text {
    /// A character whose last bytes are still missing.
    begun: Vec<u8>,
}

impl Text {
    /// Whether the stream is still text with these bytes.
    fn admits(&mut self, bytes: &[u8]) -> bool {
        let joined;
        let bytes = match self.begun.is_empty() {
            true => bytes,
            false => {
                joined = [&self.begun, bytes].concat();
                &joined
            }
        };
        self.begun = match str::from_utf8(bytes) {
            Ok(_) => Vec::new(),
            Err(error) if error.error_len().is_none() => bytes[error.valid_up_to()..].to_vec(),
            Err(_) => return false,
        };
        true
    }
}

/// The events of a whole stream.
pub(crate) fn events(text: &str) -> Vec<MessageEvent> {
    let mut decoder = SseDecoder::with_limit(NonZeroUsize::new(MOST_BYTES).unwrap_or(NonZeroUsize::MAX));
    let mut found = Vec::new();
    for mut bytes in [text.as_bytes(), END] {
        while let Some(Ok(event)) = decoder.next(&mut bytes) {
            found.extend(match event {
                SseEvent::Message(event) => Some(event),
                SseEvent::Retry(_) => None,
            });
        }
    }
    found
}

/// A body of which the beginning may have been read.
struct Incoming {
    begun: Vec<u8>,
    response: Response,
}

impl Incoming {
    fn of(response: Response) -> Self {
        Self { begun: Vec::new(), response }
    }

    async fn chunk(&mut self) -> reqwest::Result<Option<Vec<u8>>> {
        if !self.begun.is_empty() {
            return Ok(Some(mem::take(&mut self.begun)));
        }
        Ok(self.response.chunk().await?.map(Vec::from))
    }
}

impl Remote {
    /// The first byte of a body that is no white space and no byte order mark, or 0.
    async fn first_byte(&self, body: &mut Incoming) -> Result<u8, ModelError> {
        let mut begun = Vec::new();
        loop {
            let text = begun.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&begun);
            let first = text.iter().copied().find(|byte| !byte.is_ascii_whitespace());
            let is_mark = [b"\xef".as_slice(), b"\xef\xbb"].contains(&&*begun);
            if let Some(first) = first.filter(|_| !is_mark) {
                body.begun = begun;
                return Ok(first);
            }
            match timeout(self.patience(), body.response.chunk()).await {
                Ok(Ok(Some(chunk))) if begun.len() < MOST_OF_ERROR => begun.extend_from_slice(&chunk),
                Ok(Ok(_)) => {
                    body.begun = begun;
                    return Ok(0);
                }
                Ok(Err(error)) => return Err(self.whom.http(&error)),
                Err(_) => return Err(self.whom.timeout()),
            }
        }
    }

    /// Asks at this endpoint, and reads the answer.
    ///
    /// # Errors
    ///
    /// The request can't be sent, the server refuses it, or there is no whole answer.
    pub(crate) async fn complete(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest<'_>,
        deltas: &dyn DeltaSink,
    ) -> Result<Answer, ModelError> {
        // Thousands of runs may wait. To ask takes more room than to wait, and to read is not yet due then.
        let response = Box::pin(self.send_completion(endpoint, request)).await?;
        Box::pin(self.read_completion(response, self.blank(request), deltas)).await
    }

    async fn read_completion(
        &self,
        response: Response,
        blank: Answer,
        deltas: &dyn DeltaSink,
    ) -> Result<Answer, ModelError> {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        let mut reader = Reader::of_whole_events(self.form.wire, self.form.iden.adapter_kind);
        // Some servers can't stream, and say so by the type of what they send, or by its first character.
        let mut response = Incoming::of(response);
        let first = match kind.starts_with("application/json") {
            true => b'{',
            false => self.first_byte(&mut response).await?,
        };
        match first {
            b'{' | b'[' => {
                let body = self.read_body(response, MOST_BYTES).await?;
                reader.body(serde_json::from_slice(&body).map_err(|error| self.whom.garbled(&error))?);
            }
            b'<' => return Err(self.whom.not_json(&kind)),
            _ if self.stream => self.read_events(response, &mut reader, &blank, deltas).await?,
            _ => return Err(self.whom.not_json(&kind)),
        }
        match reader.failure() {
            Some(failure) => Err(self.failed(failure)),
            None => Ok(reader.answer(blank)),
        }
    }

    /// Sends the request. The response has a status of success.
    async fn send_completion(
        &self,
        endpoint: &Endpoint,
        request: &ModelRequest<'_>,
    ) -> Result<Response, ModelError> {
        let mut asking = Request::new(Method::POST, endpoint.url.clone());
        asking.headers_mut().clone_from(&endpoint.headers);
        *asking.body_mut() = Some(self.completion_body(request)?.into());
        let sending = self.clients.http(self.needs)?.execute(asking);
        let response = timeout(self.patience(), sending).await.map_err(|_| self.whom.timeout())?;
        let response = response.map_err(|error| self.whom.http(&error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let body = Box::pin(self.read_body(Incoming::of(response), MOST_OF_ERROR)).await.unwrap_or_default();
        Err(self.whom.status(status, &String::from_utf8_lossy(&body), &headers))
    }

    fn completion_body(&self, request: &ModelRequest<'_>) -> Result<Vec<u8>, ModelError> {
        let body = super::Body::new(&self.form, request)
            .map_err(|what| self.whom.error(ModelErrorKind::Unsupported, &what.0))?
            .with_cache_key(self.caches_by_key().then(|| cache_key(request)))
            .with_stream(self.stream);
        serde_json::to_vec(&body)
            .map_err(|error| self.whom.error(ModelErrorKind::BadRequest, &error.to_string()))
    }

    /// Reads events until the answer is whole and nothing follows.
    async fn read_events(
        &self,
        mut response: Incoming,
        reader: &mut Reader,
        blank: &Answer,
        deltas: &dyn DeltaSink,
    ) -> Result<(), ModelError> {
        let mut events = SseDecoder::with_limit(NonZeroUsize::new(MOST_BYTES).unwrap_or(NonZeroUsize::MAX));
        let (mut text, mut is_over) = (Text::default(), false);
        while !is_over && !reader.has_ended() {
            let chunk = match timeout(self.whom.idle, response.chunk()).await {
                Ok(Ok(chunk)) => chunk,
                // The bytes after an answer are not needed.
                Ok(Err(_)) | Err(_) if reader.is_whole() => break,
                Ok(Err(error)) => return Err(self.whom.http(&error)),
                Err(_) => return Err(self.whom.timeout()),
            };
            is_over = chunk.is_none();
            let mut bytes = chunk.as_deref().unwrap_or(END);
            if !text.admits(bytes) {
                return Err(self.whom.garbled(&"it is not UTF-8"));
            }
            while let Some(event) = events.next(&mut bytes) {
                match event {
                    Ok(SseEvent::Message(event)) => {
                        reader.event((event.event != UNNAMED).then_some(&event.event), &event.data);
                    }
                    Ok(SseEvent::Retry(_)) => {}
                    Err(_) => return Err(self.too_long()),
                }
            }
            self.tell(reader, &blank.mapping, deltas);
            if let Some(failure) = reader.failure() {
                return Err(self.failed(failure));
            }
        }
        if !reader.is_whole() {
            return Err(self.whom.cut());
        }
        // The end of the transfer follows the end of the answer. A connection that has not read it yet when the response
        // is dropped is closed, and the next turn has to make a new one.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Reads a body of at most so many bytes, which has to be there after five times the idle timeout.
    async fn read_body(&self, mut response: Incoming, most: usize) -> Result<Vec<u8>, ModelError> {
        let reading = async {
            let mut body = Vec::new();
            loop {
                match response.chunk().await.map_err(|error| self.whom.http(&error))? {
                    Some(chunk) if body.len() + chunk.len() > most => return Err(self.too_long()),
                    Some(chunk) => body.extend_from_slice(&chunk),
                    None => return Ok(body),
                }
            }
        };
        timeout(self.whom.idle * 5, reading).await.map_err(|_| self.whom.timeout())?
    }

    /// How long a server may send nothing. What comes in one piece is sent when it is ready as a whole.
    fn patience(&self) -> Duration {
        if self.stream { self.whom.idle } else { self.whom.idle * 5 }
    }
}
