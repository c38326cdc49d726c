//! Answers of a host that has received a key, without the key.

use hyper::{
    HeaderMap,
    body::{Body, Bytes, Frame, Incoming, SizeHint},
    header::HeaderValue,
};
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// The byte that replaces each byte of the key.
const STAR: u8 = b'*';

/// A stream of bytes in which a secret is overwritten, across the borders of its pieces.
#[derive(Debug)]
pub(super) struct Scanner {
    secret: Box<[u8]>,
    /// The end of the received bytes, as far as the secret may begin in it.
    held: Vec<u8>,
}

impl Scanner {
    pub(super) fn new(secret: &[u8]) -> Self {
        Self { secret: secret.into(), held: Vec::new() }
    }

    /// Returns the bytes that can be passed on after this piece has come.
    fn pass(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(piece);
        overwrite(&mut bytes, &self.secret);
        let longest = self.secret.len().saturating_sub(1).min(bytes.len());
        let held = (1..=longest).rev().find(|length| bytes.ends_with(&self.secret[..*length])).unwrap_or(0);
        self.held = bytes.split_off(bytes.len() - held);
        bytes
    }

    /// Returns the bytes that were held back, at the end of the stream.
    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// Overwrites each occurrence of a secret with the same number of bytes, so that lengths stay valid.
fn overwrite(bytes: &mut [u8], secret: &[u8]) {
    if secret.is_empty() {
        return;
    }
    let mut from = 0;
    while let Some(at) = bytes[from..].windows(secret.len()).position(|window| window == secret) {
        bytes[from + at..from + at + secret.len()].fill(STAR);
        from += at + secret.len();
    }
}

/// Overwrites a secret in the values of headers.
pub(super) fn clean(headers: &mut HeaderMap, secret: &[u8]) {
    for value in headers.values_mut() {
        let mut bytes = value.as_bytes().to_vec();
        overwrite(&mut bytes, secret);
        // Stars can stand in every value.
        if let Ok(clean) = HeaderValue::from_bytes(&bytes) {
            *value = clean;
        }
    }
}

/// A body in which a secret is overwritten. Trailers are left out.
pub(super) struct Cleaned {
    body: Incoming,
    scanner: Scanner,
    has_ended: bool,
}

impl Cleaned {
    pub(super) fn new(body: Incoming, secret: &[u8]) -> Self {
        Self { body, scanner: Scanner::new(secret), has_ended: false }
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        while !self.has_ended {
            let frame = match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => frame,
                // What is held was not passed on: the answer is incomplete anyway.
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error))),
                Poll::Ready(None) => {
                    self.has_ended = true;
                    break;
                }
            };
            let Ok(data) = frame.into_data() else { continue };
            let bytes = self.scanner.pass(&data);
            if !bytes.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
            }
        }
        let rest = self.scanner.rest();
        Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest.into()))))
    }

    pub(super) fn is_end_stream(&self) -> bool {
        (self.has_ended || self.body.is_end_stream()) && self.scanner.held.is_empty()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let held = self.scanner.held.len() as u64;
        let below = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(below.lower() + held);
        if let Some(upper) = below.upper() {
            hint.set_upper(upper + held);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"sk-abab-abc";

    fn passed(text: &[u8], piece: usize) -> Vec<u8> {
        let mut scanner = Scanner::new(SECRET);
        let mut out = Vec::new();
        for piece in text.chunks(piece) {
            out.extend(scanner.pass(piece));
        }
        out.extend(scanner.rest());
        out
    }

    #[test]
    fn a_key_does_not_come_back_however_it_is_cut() {
        let text =
            [b"{\"key\": \"".as_slice(), SECRET, b"\", sk-abab sk-abab-ab", SECRET, SECRET, b"sk-"].concat();
        let expected: Vec<u8> =
            String::from_utf8(text.clone()).expect("text").replace("sk-abab-abc", "***********").into_bytes();
        for piece in 1..=text.len() {
            assert_eq!(passed(&text, piece), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_key_does_not_come_back_in_a_header() {
        let mut headers = HeaderMap::new();
        headers.insert("x-echo", HeaderValue::from_static("Bearer sk-abab-abc;"));
        clean(&mut headers, SECRET);
        assert_eq!(headers["x-echo"], "Bearer ***********;");
    }
}
