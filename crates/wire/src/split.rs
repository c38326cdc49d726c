//! Splits the bytes of a streamed answer into events, however they are cut.

use crate::MOST_OF_EVENT;
use sse_core::{SseDecoder, SseEvent};
use std::{mem, num::NonZeroUsize};

/// The byte order mark, with which a stream may begin.
pub(crate) const MARK: &[u8] = b"\xef\xbb\xbf";

/// The name that the decoder gives to an event without one.
const UNNAMED: &str = "message";

/// The end of the last event, which a server may leave out.
const END: &[u8] = b"\n\n";

/// The reason why bytes are no events.
#[derive(Debug, PartialEq)]
pub(crate) enum Unsplittable {
    /// An event is longer than one may be.
    TooLong,
    NoText,
    /// The bytes violate the format, for this reason.
    Garbled(&'static str),
}

/// Splits one answer.
#[derive(Debug)]
pub(crate) enum Splitter {
    Events(Box<Events>),
    JsonLines(JsonLines),
    Frames(Frames),
}

impl Splitter {
    pub(crate) fn events() -> Self {
        Self::Events(Box::default())
    }

    /// Takes bytes, and gives the name and the data of each event that they complete.
    ///
    /// # Errors
    ///
    /// The bytes are no events.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        each: &mut dyn FnMut(Option<&str>, &str),
    ) -> Result<(), Unsplittable> {
        match self {
            Self::Events(events) => events.push(bytes, each),
            Self::JsonLines(lines) => lines.push(bytes, each),
            Self::Frames(frames) => frames.push(bytes, each),
        }
    }

    /// Gives the last event, if its end is missing.
    ///
    /// # Errors
    ///
    /// The last bytes are no event.
    pub(crate) fn end(&mut self, each: &mut dyn FnMut(Option<&str>, &str)) -> Result<(), Unsplittable> {
        match self {
            Self::Events(events) => events.push(END, each),
            Self::JsonLines(lines) => lines.push(b"\n", each),
            Self::Frames(_) => Ok(()),
        }
    }
}

/// Server-sent events ([standard](https://html.spec.whatwg.org/multipage/server-sent-events.html)).
#[derive(Debug)]
pub(crate) struct Events {
    decoder: SseDecoder,
    /// A character whose last bytes are still missing. The decoder would replace bytes that are no text, and change
    /// what the model said.
    begun: Vec<u8>,
}

impl Default for Events {
    fn default() -> Self {
        let most = NonZeroUsize::new(MOST_OF_EVENT).unwrap_or(NonZeroUsize::MAX);
        Self { decoder: SseDecoder::with_limit(most), begun: Vec::new() }
    }
}

impl Events {
    fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(Option<&str>, &str)) -> Result<(), Unsplittable> {
        let length = self.text_of(bytes);
        let mut text = &bytes[..length];
        while let Some(event) = self.decoder.next(&mut text) {
            match event {
                Ok(SseEvent::Message(event)) => {
                    each((event.event != UNNAMED).then_some(&event.event), &event.data);
                }
                Ok(SseEvent::Retry(_)) => {}
                Err(_) => return Err(Unsplittable::TooLong),
            }
        }
        if length < bytes.len() { Err(Unsplittable::NoText) } else { Ok(()) }
    }

    /// Returns the number of these bytes up to which the stream is UTF-8. The bytes may end in the middle of a
    /// character.
    fn text_of(&mut self, bytes: &[u8]) -> usize {
        let before = self.begun.len();
        let joined;
        let all = match before {
            0 => bytes,
            _ => {
                joined = [&self.begun, bytes].concat();
                &joined
            }
        };
        match str::from_utf8(all) {
            Ok(_) => self.begun.clear(),
            Err(error) if error.error_len().is_none() => self.begun = all[error.valid_up_to()..].to_vec(),
            Err(error) => return error.valid_up_to().saturating_sub(before),
        }
        bytes.len()
    }
}

/// Lines of JSON, as Ollama sends them.
#[derive(Debug, Default)]
pub(crate) struct JsonLines {
    line: Vec<u8>,
    /// The first line is over, so no byte order mark can follow.
    has_begun: bool,
}

impl JsonLines {
    fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(Option<&str>, &str)) -> Result<(), Unsplittable> {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.extend(&rest[..end])?;
            rest = &rest[end + 1..];
            let line = mem::take(&mut self.line);
            let line = match mem::replace(&mut self.has_begun, true) {
                true => &*line,
                false => line.strip_prefix(MARK).unwrap_or(&line),
            };
            let text = str::from_utf8(line).map_err(|_| Unsplittable::NoText)?.trim();
            if !text.is_empty() {
                each(None, text);
            }
        }
        self.extend(rest)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), Unsplittable> {
        if self.line.len() + bytes.len() > MOST_OF_EVENT {
            return Err(Unsplittable::TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }
}

/// Frames of `application/vnd.amazon.eventstream` ([format](https://smithy.io/2.0/aws/amazon-eventstream.html)). Their
/// checksums are not compared: the connection has its own.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    begun: Vec<u8>,
}

/// The lengths of a frame and of its headers, and a checksum of both.
const PRELUDE: usize = 12;
/// The checksum at the end of a frame.
const CHECKSUM: usize = 4;

impl Frames {
    fn push(&mut self, bytes: &[u8], each: &mut dyn FnMut(Option<&str>, &str)) -> Result<(), Unsplittable> {
        self.begun.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(frame) = whole(&self.begun[at..])? {
            let (name, payload) = event(frame).ok_or(Unsplittable::Garbled("a frame has bad headers"))?;
            let payload = str::from_utf8(payload).map_err(|_| Unsplittable::NoText)?;
            each(name, payload);
            at += frame.len();
        }
        self.begun.drain(..at);
        Ok(())
    }
}

fn number(bytes: &[u8]) -> Option<usize> {
    let bytes: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(bytes)).ok()
}

/// Returns the first frame, if all of it is there.
fn whole(bytes: &[u8]) -> Result<Option<&[u8]>, Unsplittable> {
    let Some(length) = number(bytes) else { return Ok(None) };
    if length > MOST_OF_EVENT {
        return Err(Unsplittable::TooLong);
    }
    if length < PRELUDE + CHECKSUM {
        return Err(Unsplittable::Garbled("a frame is too short"));
    }
    Ok(bytes.get(..length))
}

/// Returns the name and the payload of a frame. `None`: its headers are malformed.
fn event(frame: &[u8]) -> Option<(Option<&str>, &[u8])> {
    let headers = number(&frame[4..])?;
    let rest = frame.get(PRELUDE..frame.len() - CHECKSUM)?;
    let (mut headers, payload) = rest.split_at_checked(headers)?;
    let mut name = None;
    while !headers.is_empty() {
        let (key, value) = header(&mut headers)?;
        // An exception has the second header in place of the first.
        if matches!(key, b":event-type" | b":exception-type") {
            name = value.and_then(|value| str::from_utf8(value).ok());
        }
    }
    Some((name, payload))
}

/// Parses a header: its name, and its value if that is text.
fn header<'f>(headers: &mut &'f [u8]) -> Option<(&'f [u8], Option<&'f [u8]>)> {
    let mut take = |length: usize| {
        let (taken, rest) = headers.split_at_checked(length)?;
        *headers = rest;
        Some(taken)
    };
    let length = take(1)?[0];
    let name = take(usize::from(length))?;
    let kind = take(1)?[0];
    let length = match kind {
        0 | 1 => 0,
        2 => 1,
        3 => 2,
        4 => 4,
        5 | 8 => 8,
        6 | 7 => {
            let length = take(2)?;
            usize::from(u16::from_be_bytes([length[0], length[1]]))
        }
        9 => 16,
        _ => return None,
    };
    let value = take(length)?;
    Some((name, (kind == 7).then_some(value)))
}

/// Makes a frame as Bedrock sends it, for tests.
#[cfg(test)]
pub(crate) fn frame(key: &str, name: &str, payload: &str) -> Vec<u8> {
    let mut headers = vec![u8::try_from(key.len()).expect("a short name")];
    headers.extend_from_slice(key.as_bytes());
    headers.push(7);
    headers.extend_from_slice(&u16::try_from(name.len()).expect("a short name").to_be_bytes());
    headers.extend_from_slice(name.as_bytes());
    let length = PRELUDE + headers.len() + payload.len() + CHECKSUM;
    let number = |length: usize| u32::try_from(length).expect("a short frame").to_be_bytes();
    [&number(length)[..], &number(headers.len()), &[0; 4], &headers, payload.as_bytes(), &[0; 4]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told = Vec<(Option<String>, String)>;
    /// A splitter, and bytes of two events.
    type Kind = (fn() -> Splitter, Vec<u8>);

    fn split(mut splitter: Splitter, pieces: &[&[u8]]) -> Result<Told, Unsplittable> {
        let mut told = Vec::new();
        let mut each = |name: Option<&str>, data: &str| told.push((name.map(str::to_owned), data.to_owned()));
        for piece in pieces {
            splitter.push(piece, &mut each)?;
        }
        splitter.end(&mut each)?;
        Ok(told)
    }

    fn kinds() -> [Kind; 3] {
        let mut frames = frame(":event-type", "messageStart", "{\"role\":\"assistant\"}");
        frames.extend(frame(":exception-type", "throttlingException", "{\"message\":\"ä\"}"));
        [
            (Splitter::events, "\u{feff}event: a\r\ndata: ä\r\ndata: b\r\n\r\n: x\r\n\r\ndata:c".into()),
            (|| Splitter::JsonLines(JsonLines::default()), "\u{feff}{\"a\":\"ä\"}\r\n\n{\"b\":1}".into()),
            (|| Splitter::Frames(Frames::default()), frames),
        ]
    }

    #[test]
    fn events_do_not_depend_on_cuts() {
        for (splitter, bytes) in kinds() {
            let whole = split(splitter(), &[&bytes]);
            assert_eq!(whole.as_ref().map(Vec::len), Ok(2), "{whole:?}");
            for cut in 0..bytes.len() {
                assert_eq!(split(splitter(), &[&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
            }
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(split(splitter(), &single), whole);
        }
    }

    #[test]
    fn an_event_without_an_end_is_refused_at_its_limit() {
        let piece = vec![b'x'; 1 << 20];
        let mut begin = frame(":event-type", "a", "");
        begin[..4].copy_from_slice(&u32::MAX.to_be_bytes());
        for (mut splitter, begin) in [
            (Splitter::events(), b"data: ".to_vec()),
            (Splitter::JsonLines(JsonLines::default()), b"{".to_vec()),
            (Splitter::Frames(Frames::default()), begin),
        ] {
            let mut pieces = std::iter::once(&begin).chain(std::iter::repeat_n(&piece, 17));
            let refused = pieces.find_map(|piece| splitter.push(piece, &mut |_, _| {}).err());
            assert_eq!(refused, Some(Unsplittable::TooLong));
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        for (splitter, _) in &kinds()[..2] {
            for bad in [&b"\xff"[..], b"\xc3 ", b"\xf0\x9f\x8c "] {
                let stream = [b"data: a", bad, b"\n\n"].concat();
                for cut in 0..stream.len() {
                    let refused = split(splitter(), &[&stream[..cut], &stream[cut..]]);
                    assert_eq!(refused, Err(Unsplittable::NoText), "{bad:?} {cut}");
                }
            }
        }
    }

    #[test]
    fn a_frame_with_impossible_lengths_is_refused() {
        let good = frame(":event-type", "a", "{}");
        for at in 0..good.len() {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bad = good.clone();
                bad[at] = byte;
                // The lengths may also ask for more bytes, which do not come.
                let _ = split(Splitter::Frames(Frames::default()), &[&bad]);
            }
        }
        let mut short = good;
        short[3] = 15;
        assert_eq!(
            split(Splitter::Frames(Frames::default()), &[&short]),
            Err(Unsplittable::Garbled("a frame is too short"))
        );
    }
}
