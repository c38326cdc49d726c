//! The transport: one message a line.

use crate::backlog::Backlog;
use agent_client_protocol::Lines;
use futures_util::{Sink, Stream, sink, stream};
use std::{io, sync::Arc};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

/// The longest accepted line, in bytes. Images come as Base64.
const LONGEST_LINE: u64 = 64 << 20;

/// Returns the transport over a pair of streams. The backlog is informed of each written line.
pub(crate) fn over(
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    backlog: Arc<Backlog>,
) -> Lines<
    impl Sink<String, Error = io::Error> + Send + 'static,
    impl Stream<Item = io::Result<String>> + Send + 'static,
> {
    let incoming = stream::unfold(Some(BufReader::new(reader)), async |reader| {
        let mut reader = reader?;
        match line(&mut reader).await {
            Ok(None) => None,
            Ok(Some(line)) => Some((Ok(line), Some(reader))),
            Err(error) => Some((Err(error), None)),
        }
    });
    let outgoing = sink::unfold((writer, backlog), async |(mut writer, backlog), mut line: String| {
        line.push('\n');
        writer.write_all(line.as_bytes()).await?;
        writer.flush().await?;
        backlog.wrote(&line);
        Ok((writer, backlog))
    });
    Lines::new(outgoing, incoming)
}

/// Returns the next line that is not empty, or `None` at the end.
async fn line(reader: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> io::Result<Option<String>> {
    loop {
        let mut line = Vec::new();
        let read = (&mut *reader).take(LONGEST_LINE).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Ok(None);
        }
        if line.last() != Some(&b'\n') && read as u64 == LONGEST_LINE {
            return Err(io::Error::other(format!("a line has more than {LONGEST_LINE} bytes")));
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            // What is no UTF-8 is no JSON either, and is answered as such.
            return Ok(Some(String::from_utf8_lossy(text).into_owned()));
        }
    }
}
