//! A server of fixed answers that counts its requests: for benchmarks and soaks.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use http_body_util::{BodyExt, Either, Full, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::faults::{Fault, Faults};
use crate::fixed::Fixed;
use crate::net;
use crate::script::Reply;

/// Serves a few fixed turns at little cost of its own.
///
/// `GET /stats` returns the number of requests that were taken and that a limit has refused, their bytes, the time of
/// the first (nanoseconds since 1970), and the number of answers with each fault. It resets the counts to zero.
pub struct FixedServer {
    fixed: Fixed,
    delay: Duration,
    faults: Faults,
    requests: AtomicU64,
    bytes: AtomicU64,
    first: AtomicU64,
    limit: Option<Mutex<Bucket>>,
    refused: AtomicU64,
    failed: [AtomicU64; Fault::ALL.len()],
}

/// The requests that may come now: a token each.
struct Bucket {
    per_second: f64,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn takes(&mut self, now: Instant) -> bool {
        let filled = self.tokens + (now - self.at).as_secs_f64() * self.per_second;
        (self.tokens, self.at) = (filled.min(self.per_second), now);
        let takes = self.tokens >= 1.0;
        self.tokens -= f64::from(u8::from(takes));
        takes
    }
}

fn lock(bucket: &Mutex<Bucket>) -> MutexGuard<'_, Bucket> {
    bucket.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The connection must be closed.
#[derive(Debug)]
struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("closed on purpose")
    }
}

impl Error for Closed {}

impl FixedServer {
    /// Makes a server with the answers of [`Fixed::new`].
    pub fn new(replies: &[Reply]) -> Self {
        Self {
            fixed: Fixed::new(replies),
            delay: Duration::ZERO,
            faults: Faults::default(),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            first: AtomicU64::new(0),
            limit: None,
            refused: AtomicU64::new(0),
            failed: Default::default(),
        }
    }

    /// Sets a time to wait before each answer.
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Makes some answers fail.
    pub fn faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    /// Limits the requests a second, with a burst of one second's requests, and refuses the others with a wait of a
    /// second.
    pub fn limit(self, per_second: f64) -> Self {
        let bucket = Bucket { per_second, tokens: per_second, at: Instant::now() };
        Self { limit: Some(Mutex::new(bucket)), ..self }
    }

    /// Serves until dropped.
    pub async fn serve(self, listener: TcpListener) {
        let server = Arc::new(self);
        net::accept(listener, || {
            let server = Arc::clone(&server);
            move |request| Arc::clone(&server).answer(request)
        })
        .await;
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<impl Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>>, Closed> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        let whole = |bytes| Either::Left(Full::<Bytes>::new(bytes));
        if path == "/stats" {
            return Ok(Response::new(whole(self.stats().to_string().into())));
        }
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        if self.limit.as_ref().is_some_and(|bucket| !lock(bucket).takes(Instant::now())) {
            self.refused.fetch_add(1, Relaxed);
            let text =
                Bytes::from_static(br#"{"error":{"message":"too many requests","type":"rate_limit_error"}}"#);
            let mut response = Response::new(whole(text));
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return Ok(response);
        }
        let number = self.requests.fetch_add(1, Relaxed);
        if number == 0 {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.first.store(now.as_nanos() as u64, Relaxed);
        }
        self.bytes.fetch_add(body.len() as u64, Relaxed);
        let fault = self.faults.of(number);
        if let Some(fault) = fault {
            self.failed[fault as usize].fetch_add(1, Relaxed);
        }
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        let (content_type, answer) =
            self.fixed.answer(path, &body).unwrap_or(("text/plain", Bytes::from_static(b"no such endpoint")));
        let mut response = Response::new(match fault {
            None => whole(answer),
            Some(Fault::HangUp) => return Err(Closed),
            Some(fault @ Fault::Cut) => {
                let begun = stream::iter([Ok(Frame::data(fault.spoiled(&answer)))]);
                // What is written at once with the end of the connection would be lost with it.
                let cut = stream::once(async {
                    tokio::task::yield_now().await;
                    Err(Closed)
                });
                Either::Right(StreamBody::new(begun.chain(cut)))
            }
            Some(fault @ Fault::Malformed) => whole(fault.spoiled(&answer)),
            Some(_) => whole(Bytes::from_static(br#"{"error":{"message":"a fault of the soak"}}"#)),
        });
        let mut content_type = content_type;
        if let Some((status, retry_after)) = fault.and_then(Fault::status) {
            *response.status_mut() = StatusCode::from_u16(status).expect("a fault's status is one");
            content_type = "application/json";
            if let Some(wait) = retry_after {
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(wait));
            }
        }
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        Ok(response)
    }

    fn stats(&self) -> Value {
        let failed: BTreeMap<&str, u64> = Fault::ALL
            .iter()
            .map(|fault| (fault.name(), self.failed[*fault as usize].swap(0, Relaxed)))
            .collect();
        json!({
            "requests": self.requests.swap(0, Relaxed),
            "refused": self.refused.swap(0, Relaxed),
            "bytes": self.bytes.swap(0, Relaxed),
            "first_unix_ns": self.first.swap(0, Relaxed),
            "faults": failed,
        })
    }
}
