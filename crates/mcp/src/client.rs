//! The HTTP client of a server. It sends the user's token with each request, and renews the token if the server refuses
//! it.

use crate::{oauth::Tokens, transport::unreadable, unreadable::Outline};
use futures_util::StreamExt;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::{
    model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::{
        common::client_side_sse::BoxedSseResponse,
        streamable_http_client::{
            StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
            StreamableHttpResponseLimits,
        },
    },
};
use std::{collections::HashMap, sync::Arc};

/// The reason for which a request failed.
pub(crate) type HttpError = StreamableHttpError<reqwest::Error>;

type Headers = HashMap<HeaderName, HeaderValue>;

/// A client for one server.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// The user's tokens. Absent for a server whose configured headers identify the user.
    tokens: Option<Tokens>,
}

impl Client {
    pub(crate) fn new(http: reqwest::Client, tokens: Option<Tokens>) -> Self {
        Self { http, tokens }
    }

    /// Returns the token to send.
    async fn token(&self) -> Result<Option<String>, HttpError> {
        match &self.tokens {
            Some(tokens) => Ok(tokens.token().await?),
            None => Ok(None),
        }
    }

    /// Returns another token for a second attempt, if the server has refused the one that was sent.
    async fn another(&self, refused: bool, sent: Option<String>) -> Result<Option<String>, HttpError> {
        match (&self.tokens, sent) {
            (Some(tokens), Some(sent)) if refused => Ok(Some(tokens.renewed(&sent).await?)),
            _ => Ok(None),
        }
    }
}

/// Returns true if the server asks for a token.
fn is_refused<T>(answer: &Result<T, HttpError>) -> bool {
    matches!(answer, Err(HttpError::AuthRequired(_)))
}

/// Returns the events of the answer to a request. An event that should be a message and can't be read becomes an error:
/// the library would skip it, and the request would wait for another one.
fn readable(events: BoxedSseResponse, request: RequestId) -> BoxedSseResponse {
    let mended = events.map(move |event| {
        let mut event = event?;
        let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
        let Some(data) = event.data.as_ref().filter(|data| is_message && !data.trim().is_empty()) else {
            return Ok(event);
        };
        if let Err(error) = serde_json::from_str::<ServerJsonRpcMessage>(data) {
            let outline = Outline::of(data.as_bytes());
            let message = outline.is_answer().then(|| unreadable(request.clone(), &error.to_string()));
            if let Some(Ok(message)) = message.map(|message| serde_json::to_string(&message)) {
                event.data = Some(message);
            }
        }
        Ok(event)
    });
    mended.boxed()
}

impl StreamableHttpClient for Client {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, token, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let post = |token| {
            let (uri, message, session) = (Arc::clone(&uri), message.clone(), session.clone());
            self.http.post_message_with_response_limits(uri, message, session, token, headers.clone(), limits)
        };
        let token = self.token().await?;
        let answer = post(token.clone()).await;
        let answer = match self.another(is_refused(&answer), token).await? {
            Some(token) => post(Some(token)).await,
            None => answer,
        };
        Ok(match (answer?, &message) {
            (StreamableHttpPostResponse::Sse(events, session), JsonRpcMessage::Request(request)) => {
                StreamableHttpPostResponse::Sse(readable(events, request.id.clone()), session)
            }
            (answer, _) => answer,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpError> {
        let delete =
            |token| self.http.delete_session(Arc::clone(&uri), Arc::clone(&session), token, headers.clone());
        let token = self.token().await?;
        let answer = delete(token.clone()).await;
        match self.another(is_refused(&answer), token).await? {
            Some(token) => delete(Some(token)).await,
            None => answer,
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<BoxedSseResponse, HttpError> {
        let largest = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, largest).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _token: Option<String>,
        headers: Headers,
        largest: usize,
    ) -> Result<BoxedSseResponse, HttpError> {
        let get = |token| {
            let (uri, session, last_event) = (Arc::clone(&uri), session.clone(), last_event.clone());
            let headers = headers.clone();
            self.http.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, largest)
        };
        let token = self.token().await?;
        let answer = get(token.clone()).await;
        match self.another(is_refused(&answer), token).await? {
            Some(token) => get(Some(token)).await,
            None => answer,
        }
    }
}
