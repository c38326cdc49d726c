//! Messages over a server's standard input and output: JSON, one message a line.

use crate::unreadable::{Outline, Waiting};
use llm_do_core::json;
use rmcp::{
    RoleClient,
    model::{ClientNotification, ErrorCode, ErrorData, JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    net::unix::pipe,
};

/// The code of an error that replaces an answer that can't be read.
pub(crate) const UNREADABLE: ErrorCode = ErrorCode::PARSE_ERROR;

/// Largest message of a server, in bytes.
const LARGEST_MESSAGE: usize = 32 << 20;

/// Most bytes that are kept of what a server printed between two calls.
const MOST_PRINTED: usize = 16 << 10;

/// Output of a server that is no message: its standard error, and stray lines of its standard output. The newest part
/// is kept, until it is taken.
#[derive(Debug, Default)]
pub(crate) struct Printed(Mutex<String>);

impl Printed {
    fn lock(&self) -> MutexGuard<'_, String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line.
    pub(crate) fn push(&self, line: &[u8]) {
        let mut text = self.lock();
        text.push_str(String::from_utf8_lossy(line).trim_end());
        text.push('\n');
        if text.len() > MOST_PRINTED {
            let from = text.len() - MOST_PRINTED;
            let from = (from..).find(|at| text.is_char_boundary(*at)).unwrap_or_default();
            text.drain(..from);
        }
    }

    /// Takes the output that came since the last call, if any.
    pub(crate) fn take(&self) -> Option<Arc<str>> {
        let text = std::mem::take(&mut *self.lock());
        (!text.is_empty()).then(|| text.trim_end().into())
    }

    /// Returns the line that most likely gives the reason for which a process has ended: the last one that mentions an
    /// error, as some runtimes write their version after it, otherwise the last one.
    pub(crate) fn cause(&self) -> Option<String> {
        let text = self.lock();
        let mut lines = text.lines().rev().filter(|line| !line.trim().is_empty());
        let is_error = |line: &&str| {
            !line.starts_with(char::is_whitespace) && line.to_ascii_lowercase().contains("error")
        };
        lines.clone().find(is_error).or_else(|| lines.next()).map(str::to_owned)
    }
}

/// The lines of a server.
pub(crate) struct LineReader<R> {
    read: BufReader<R>,
    /// The beginning of the line that is being read. It outlives a cancelled [`Transport::receive`].
    line: Vec<u8>,
    /// Messages that were read and not yet handed out.
    read_ahead: VecDeque<RxJsonRpcMessage<RoleClient>>,
    waiting: Waiting,
    /// The standard input of the server. `None` when the transport is closed.
    write: Arc<tokio::sync::Mutex<Option<pipe::Sender>>>,
    printed: Arc<Printed>,
    /// The reason for which reading has stopped, if the server broke the protocol.
    broken: Arc<OnceLock<String>>,
}

impl<R: AsyncRead> LineReader<R> {
    /// Makes the transport. A server that breaks the protocol is described in `broken`.
    pub(crate) fn new(
        read: R,
        write: pipe::Sender,
        printed: Arc<Printed>,
        broken: Arc<OnceLock<String>>,
    ) -> Self {
        let write = Arc::new(tokio::sync::Mutex::new(Some(write)));
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            read_ahead: VecDeque::new(),
            waiting: Waiting::default(),
            write,
            printed,
            broken,
        }
    }

    /// Handles a line: a message, an answer that can't be read, or something that is no message.
    fn take_in(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let read = match inexact(line) {
            Some(reason) => Err(reason),
            None => serde_json::from_slice(line).map_err(|error| error.to_string()),
        };
        match read {
            Ok(message) => {
                let message = self.matched(message);
                self.read_ahead.push_back(message);
            }
            Err(reason) => {
                let outline = Outline::of(line);
                if !outline.is_answer() {
                    self.printed.push(&line[..line.len().min(MOST_PRINTED)]);
                }
                for request in self.waiting.answered(outline) {
                    self.read_ahead.push_back(unreadable(request, &reason));
                }
            }
        }
        for request in self.waiting.without_answer() {
            let reason = "it sent one that does not say to which request, and no other request waits";
            self.read_ahead.push_back(unreadable(request, reason));
        }
    }

    /// Returns the message with its identifier written as in the request that it answers.
    fn matched(&mut self, mut message: RxJsonRpcMessage<RoleClient>) -> RxJsonRpcMessage<RoleClient> {
        let id = match &mut message {
            JsonRpcMessage::Response(response) => Some(&mut response.id),
            JsonRpcMessage::Error(error) => error.id.as_mut(),
            _ => None,
        };
        if let Some(id) = id
            && let Some(request) = self.waiting.named(id)
        {
            self.waiting.ended(&request);
            *id = request;
        }
        message
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleClient> for LineReader<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let write = Arc::clone(&self.write);
        match &item {
            JsonRpcMessage::Request(request) => self.waiting.sent(request.id.clone()),
            JsonRpcMessage::Notification(told) => {
                if let ClientNotification::CancelledNotification(cancelled) = &told.notification
                    && let Some(request) = &cancelled.params.request_id
                {
                    self.waiting.ended(request);
                }
            }
            _ => {}
        }
        async move {
            let mut line = serde_json::to_vec(&item)?;
            line.push(b'\n');
            let mut write = write.lock().await;
            let write = write.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            write.write_all(&line).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.read_ahead.pop_front() {
                return Some(message);
            }
            let available = self.read.fill_buf().await.ok().filter(|available| !available.is_empty())?;
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            if self.line.len() + taken > LARGEST_MESSAGE {
                let _ =
                    self.broken.set(format!("it sent a message of more than {} MiB", LARGEST_MESSAGE >> 20));
                return None;
            }
            self.line.extend_from_slice(&available[..taken]);
            self.read.consume(taken);
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                self.take_in(&line);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        drop(self.write.lock().await.take());
        Ok(())
    }
}

/// Makes an error in place of an answer that can't be read, so that its request does not wait for another one.
pub(crate) fn unreadable(request: RequestId, reason: &str) -> RxJsonRpcMessage<RoleClient> {
    let error = ErrorData::new(UNREADABLE, format!("its answer can't be read: {reason}"), None);
    RxJsonRpcMessage::<RoleClient>::error(error, Some(request))
}

/// Keeps the text that a server prints on its standard error.
pub(crate) async fn keep(read: impl AsyncRead + Unpin, printed: Arc<Printed>) {
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        let Ok(available) = read.fill_buf().await else { return };
        if available.is_empty() {
            if !line.is_empty() {
                printed.push(&line);
            }
            return;
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(available.len(), |end| end + 1);
        line.extend_from_slice(&available[..taken]);
        read.consume(taken);
        if end.is_some() || line.len() > MOST_PRINTED {
            printed.push(&std::mem::take(&mut line));
        }
    }
}

/// Returns the reason for which a line is no answer, if the numbers of the answer would change when they are read.
fn inexact(line: &[u8]) -> Option<String> {
    let error = json::exact(str::from_utf8(line).ok()?).err()?;
    Outline::of(line).is_answer().then(|| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_with_a_number_that_would_change_is_an_error() {
        let answer = |number: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[],"structuredContent":{{"n":{number}}}}}}}"#
            )
        };
        let text = inexact(answer("18446744073709551616").as_bytes()).expect("an error");
        assert!(text.contains("64 bits") && text.contains("18446744073709551616"), "{text}");
        assert!(inexact(answer("18446744073709551615").as_bytes()).is_none());
        assert!(inexact(b"a line of a log: 18446744073709551616").is_none(), "it answers nothing");
    }
}
