//! Requests to models, sent by the page.

use crate::{
    bridge::{Bridge, Got, Pending},
    host::IN_PAGE,
    message::{Effect, EffectError, ErrorKind},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use llm_do_core::send::BoxFuture;
use llm_do_host::Ambient as _;
use llm_do_models::{Body, HttpRequest, HttpResponse, SendError, SendErrorKind, Transport};
use llm_do_wire::Method;
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

/// Sends requests through the host.
pub(crate) struct PageTransport {
    pub(crate) bridge: Bridge,
    /// The run whose records must be written before its requests leave.
    pub(crate) run: Option<Arc<str>>,
}

impl Transport for PageTransport {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, SendError>> {
        let HttpRequest { method, url, mut headers, body, within: _ } = request;
        // Anthropic answers requests of pages only with it.
        if headers.contains_key("anthropic-version") {
            let name = HeaderName::from_static("anthropic-dangerous-direct-browser-access");
            headers.insert(name, HeaderValue::from_static("true"));
        }
        let (bridge, run) = (self.bridge.clone(), self.run.clone());
        Box::pin(async move {
            let method = match method {
                Method::Get => "GET",
                Method::Post => "POST",
            };
            let headers = headers.iter().map(|(name, value)| {
                (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            });
            let headers = headers.collect();
            let body = String::from_utf8(body)
                .map_err(|error| SendError { kind: SendErrorKind::Request, cause: error.to_string() })?;
            let mut sent = bridge.start(|id| Effect::Send {
                id,
                run,
                method: method.into(),
                url: match url.as_str().strip_prefix(IN_PAGE) {
                    Some(path) => format!("page:/{path}"),
                    None => url.into(),
                },
                headers,
                body: Some(body).filter(|body| !body.is_empty()),
            });
            match sent.next().await {
                Got::Head { status, headers } => {
                    let headers: HeaderMap = headers
                        .iter()
                        .filter_map(|(name, value)| Some((name.parse().ok()?, value.parse().ok()?)))
                        .collect::<Vec<(HeaderName, HeaderValue)>>()
                        .into_iter()
                        .collect();
                    let status = StatusCode::from_u16(status).map_err(|error| broken(&error))?;
                    Ok(HttpResponse { status, headers, body: Box::new(PageBody { sent, over: false }) })
                }
                Got::Failed(error) => Err(failed(&error)),
                Got::Done(_) | Got::Piece(_) | Got::End => Err(broken(&"the response has no head")),
            }
        })
    }

    fn after(&self, time: Duration) -> BoxFuture<'static, ()> {
        self.bridge.after(time)
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.bridge.now_ms())
    }
}

struct PageBody {
    sent: Pending,
    over: bool,
}

impl Body for PageBody {
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Vec<u8>>, SendError>> {
        Box::pin(async move {
            if self.over {
                return Ok(None);
            }
            match self.sent.next().await {
                Got::Piece(bytes) => Ok(Some(bytes)),
                Got::End | Got::Done(_) => {
                    self.over = true;
                    Ok(None)
                }
                Got::Failed(error) => {
                    self.over = true;
                    Err(failed(&error))
                }
                Got::Head { .. } => Err(broken(&"the response has two heads")),
            }
        })
    }
}

fn broken(why: &dyn std::fmt::Display) -> SendError {
    SendError { kind: SendErrorKind::Broken, cause: why.to_string() }
}

fn failed(error: &EffectError) -> SendError {
    let kind = match error.kind {
        ErrorKind::Denied => SendErrorKind::Request,
        _ => SendErrorKind::Connect,
    };
    SendError { kind, cause: error.message.clone() }
}
