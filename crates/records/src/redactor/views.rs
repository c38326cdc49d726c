//! Decoded views of a text, with the positions of their bytes in the original.

use std::{borrow::Cow, ops::Range};

/// The most times that escapes are resolved: JSON in a string of JSON, in a string of a record.
const DEEPEST: usize = 5;

/// A text after decoding.
pub(super) struct View<'t> {
    bytes: Cow<'t, [u8]>,
    /// The position of each byte in the original, and the end; empty for the original itself.
    origins: Vec<usize>,
    tracked: bool,
    compact: bool,
}

/// Returns the original, and each text that differs after resolving JSON escapes, decoding percent-encoding, or
/// removing white space.
///
/// Only `tracked` views keep the positions in the original.
pub(super) fn views(text: &[u8], tracked: bool) -> Vec<View<'_>> {
    let mut views = vec![View { bytes: Cow::Borrowed(text), origins: Vec::new(), tracked, compact: false }];
    for deeper in 0..DEEPEST {
        match unescaped(&views[deeper]) {
            Some(view) => views.push(view),
            None => break,
        }
    }
    let decoded: Vec<View<'_>> = views.iter().filter_map(percent_decoded).collect();
    views.extend(decoded);
    let compact: Vec<View<'_>> = views.iter().filter_map(compact).collect();
    views.extend(compact);
    views
}

impl View<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns true if white space is removed.
    pub(super) fn is_compact(&self) -> bool {
        self.compact
    }

    /// Returns the range of the original that became this range.
    pub(super) fn original(&self, range: Range<usize>) -> Range<usize> {
        if self.origins.is_empty() {
            return range;
        }
        self.origins[range.start]..self.origins[range.end]
    }

    fn origin(&self, at: usize) -> usize {
        if self.origins.is_empty() { at } else { self.origins[at] }
    }
}

/// Builds a view of a view.
struct Building<'v, 't> {
    of: &'v View<'t>,
    bytes: Vec<u8>,
    origins: Vec<usize>,
}

impl<'v, 't> Building<'v, 't> {
    fn new(of: &'v View<'t>) -> Self {
        let room = of.bytes.len();
        let origins = Vec::with_capacity(if of.tracked { room + 1 } else { 0 });
        Self { of, bytes: Vec::with_capacity(room), origins }
    }

    /// Appends bytes that are at `at` in the view that is decoded.
    fn push(&mut self, at: usize, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if self.of.tracked {
            let origin = self.of.origin(at);
            self.origins.extend(bytes.iter().map(|_| origin));
        }
    }

    fn finish(mut self, compact: bool) -> View<'static> {
        let tracked = self.of.tracked;
        if tracked {
            self.origins.push(self.of.origin(self.of.bytes.len()));
        }
        View { bytes: Cow::Owned(self.bytes), origins: self.origins, tracked, compact }
    }
}

/// Resolves the escapes of JSON, and leaves anything else as it is. `None`: there are no escapes.
fn unescaped<'t>(view: &View<'t>) -> Option<View<'t>> {
    let bytes = &*view.bytes;
    let first = bytes.iter().position(|byte| *byte == b'\\')?;
    let mut built = Building::new(view);
    let (mut at, mut changed) = (0, false);
    while at < bytes.len() {
        let next = (at >= first && bytes[at] == b'\\').then(|| escape(&bytes[at..])).flatten();
        let (taken, c) = match next {
            Some((taken, c)) => (taken, Some(c)),
            None => (1, None),
        };
        match c {
            Some(c) => {
                built.push(at, c.encode_utf8(&mut [0; 4]).as_bytes());
                changed = true;
            }
            None => built.push(at, &bytes[at..=at]),
        }
        at += taken;
    }
    changed.then(|| built.finish(false))
}

/// Parses the escape at the beginning: its length, and the character.
fn escape(bytes: &[u8]) -> Option<(usize, char)> {
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let c = match bytes.get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = unit(0)?;
            if let Some(c) = char::from_u32(first) {
                return Some((6, c));
            }
            // A surrogate pair.
            let second = unit(6).filter(|second| (0xdc00..0xe000).contains(second))?;
            let c = 0x10000 + ((first.checked_sub(0xd800)?) << 10) + (second - 0xdc00);
            return char::from_u32(c).map(|c| (12, c));
        }
        _ => return None,
    };
    Some((2, c))
}

/// Decodes percent-encoding. `None`: there is none.
fn percent_decoded<'t>(view: &View<'t>) -> Option<View<'t>> {
    let bytes = &*view.bytes;
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let byte = |at: usize| {
        let value = (bytes[at] == b'%').then(|| Some((digit(at + 1)? << 4) | digit(at + 2)?)).flatten()?;
        u8::try_from(value).ok()
    };
    let first = bytes.iter().position(|byte| *byte == b'%')?;
    (first..bytes.len()).find_map(byte)?;
    let mut built = Building::new(view);
    let mut at = 0;
    while at < bytes.len() {
        match byte(at) {
            Some(decoded) => {
                built.push(at, &[decoded]);
                at += 3;
            }
            None => {
                built.push(at, &bytes[at..=at]);
                at += 1;
            }
        }
    }
    Some(built.finish(false))
}

/// Removes white space. `None`: there is no line break.
fn compact<'t>(view: &View<'t>) -> Option<View<'t>> {
    if !view.bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return None;
    }
    let mut built = Building::new(view);
    for (at, byte) in view.bytes.iter().enumerate() {
        if !byte.is_ascii_whitespace() {
            built.push(at, &[*byte]);
        }
    }
    Some(built.finish(true))
}
