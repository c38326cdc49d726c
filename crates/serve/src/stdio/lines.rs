//! Lines of bytes over a pair of streams.

use std::{
    io::{self, Write},
    thread,
};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt},
    sync::{mpsc, oneshot},
};

/// Longest line, in bytes.
const LONGEST_LINE: usize = 16 << 20;
/// Most lines that wait to be written. If so many wait, the senders wait too: then events are dropped, but no line is.
const WAITING_LINES: usize = 64;

/// A line of the client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    /// The line was too long and was skipped.
    TooLong,
}

/// Reads the next line that is not empty. Returns `None` at the end of the stream. A line that the end cuts off is
/// dropped.
pub(super) async fn next(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Line>> {
    loop {
        let mut line = Vec::new();
        let limit = u64::try_from(LONGEST_LINE + 1).unwrap_or(u64::MAX);
        (&mut *reader).take(limit).read_until(b'\n', &mut line).await?;
        if line.last() == Some(&b'\n') {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return Ok(Some(Line::Whole(line)));
        }
        if line.len() <= LONGEST_LINE {
            return Ok(None);
        }
        return Ok(skip(reader).await?.then_some(Line::TooLong));
    }
}

/// Reads to the end of the line. Returns true if the line has an end.
async fn skip(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<bool> {
    loop {
        let available = reader.fill_buf().await?;
        let (used, end) = match available.iter().position(|&byte| byte == b'\n') {
            Some(at) => (at + 1, Some(true)),
            None => (available.len(), available.is_empty().then_some(false)),
        };
        reader.consume(used);
        if let Some(end) = end {
            return Ok(end);
        }
    }
}

/// The sender of lines to the client.
#[derive(Clone)]
pub(super) struct LineSender(mpsc::Sender<Vec<u8>>);

impl LineSender {
    /// Creates the sender and a thread that writes the lines to the stream, so that a client that does not read blocks
    /// nothing else. After the client has closed the stream, further lines are dropped. The receiver reports that all lines
    /// are written and no more can come, or that the client has closed the stream.
    ///
    /// # Errors
    /// The thread can't be started.
    pub(super) fn to(mut writer: impl Write + Send + 'static) -> io::Result<(Self, oneshot::Receiver<()>)> {
        let (writing, written) = oneshot::channel::<()>();
        let (sender, mut receiver) = mpsc::channel::<Vec<u8>>(WAITING_LINES);
        thread::Builder::new().name("lines".into()).spawn(move || {
            // Dropped at the end of the thread.
            let _writing = writing;
            while let Some(line) = receiver.blocking_recv() {
                let mut written = writer.write_all(&line);
                while let (Ok(()), Ok(line)) = (&written, receiver.try_recv()) {
                    written = writer.write_all(&line);
                }
                if written.and_then(|()| writer.flush()).is_err() {
                    return;
                }
            }
        })?;
        Ok((Self(sender), written))
    }

    /// Sends a line, as soon as the client has read enough of the earlier lines. Returns true if the client is still
    /// connected.
    pub(super) async fn send(&self, line: Vec<u8>) -> bool {
        self.0.send(line).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::iter::repeat_n;
    use tokio::io::BufReader;

    #[tokio::test]
    async fn lines_are_read_whole_and_too_long_ones_are_skipped() {
        let mut text = b"one\n\n \r\n".to_vec();
        text.extend(repeat_n(b'x', LONGEST_LINE + 5));
        text.extend(b"\ntwo\ncut off");
        let mut reader = BufReader::new(&text[..]);
        let mut lines = Vec::new();
        while let Some(line) = next(&mut reader).await.expect("bytes") {
            lines.push(line);
        }
        assert_eq!(lines, [Line::Whole(b"one\n".into()), Line::TooLong, Line::Whole(b"two\n".into())]);
    }
}
