//! The connection from the process, with a watch on its activity.

use std::{
    io::Result,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Wraps a stream, and records its activity.
pub(super) fn watched(stream: TcpStream) -> (Client, Movement) {
    let moved = Arc::new(AtomicBool::new(false));
    (Client { stream, moved: Arc::clone(&moved) }, Movement(moved))
}

pub(super) struct Client {
    stream: TcpStream,
    moved: Arc<AtomicBool>,
}

pub(super) struct Movement(Arc<AtomicBool>);

impl Movement {
    /// Returns after this time without activity, at the latest after twice this time.
    pub(super) async fn ends(&self, idle: Duration) {
        loop {
            tokio::time::sleep(idle).await;
            if !self.0.swap(false, Ordering::Relaxed) {
                return;
            }
        }
    }
}

impl Client {
    fn note<T>(&self, result: Poll<T>) -> Poll<T> {
        if result.is_ready() {
            self.moved.store(true, Ordering::Relaxed);
        }
        result
    }
}

impl AsyncRead for Client {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(context, into);
        self.note(result)
    }
}

impl AsyncWrite for Client {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
