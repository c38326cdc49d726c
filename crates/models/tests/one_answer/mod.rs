//! A server that answers requests with given bytes.

use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    thread::JoinHandle,
};

/// The request that was answered: its path and its JSON.
pub(crate) type Answered = (String, Value);

/// Answers one request after another, each with a content type and a body. Each of the body's pieces is sent as a chunk
/// of its own, as soon as the iterator gives it.
pub(crate) fn serve<P: IntoIterator<Item = Vec<u8>>>(
    answers: impl IntoIterator<Item = (&'static str, P)> + Send + 'static,
) -> (String, JoinHandle<Vec<Answered>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = move |(content_type, pieces): (&'static str, P)| {
        let (stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut reader = BufReader::new(stream);
        let mut first = String::new();
        reader.read_line(&mut first).unwrap();
        let path = first.split(' ').nth(1).unwrap().to_owned();
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut request = vec![0; length];
        reader.read_exact(&mut request).unwrap();
        let mut stream = reader.into_inner();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
        );
        // A client that has its answer may leave before the last bytes.
        let mut send = |bytes: &[u8]| stream.write_all(bytes).is_ok();
        if send(head.as_bytes()) {
            for piece in pieces {
                let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), &piece, b"\r\n"].concat();
                if !piece.is_empty() && !send(&chunk) {
                    break;
                }
            }
            send(b"0\r\n\r\n");
        }
        (path, serde_json::from_slice(&request).unwrap())
    };
    let served = std::thread::spawn(move || answers.into_iter().map(answer).collect());
    (url, served)
}
