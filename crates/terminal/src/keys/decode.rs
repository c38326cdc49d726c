//! Decoder of a terminal's bytes to keys: the sequences of xterm, of its `modifyOtherKeys`, and of kitty's keyboard
//! protocol (<https://invisible-island.net/xterm/ctlseqs/ctlseqs.html>,
//! <https://sw.kovidgoyal.net/kitty/keyboard-protocol/>).

use super::{Code, Input, Key, Modifiers};

const ESCAPE: u8 = 0x1b;
const PASTE_END: &[u8] = b"\x1b[201~";
/// The most bytes of a control sequence. Longer ones are not taken as sequences.
const LONGEST: usize = 64;

/// A decoder of bytes to input. Sequences may be cut anywhere between two calls of [`Decoder::feed`].
#[derive(Debug, Default)]
pub struct Decoder {
    /// The beginning of a sequence or of a character.
    pending: Vec<u8>,
    state: Decoding,
}

#[derive(Debug, Default)]
enum Decoding {
    #[default]
    Ground,
    /// The text of a paste, between its marks.
    Paste(Vec<u8>),
    /// Inside an answer of the terminal to a question that we did not ask. It is skipped up to its end.
    Skipping,
}

/// The result of decoding the beginning of some bytes.
enum Step {
    /// The bytes are incomplete.
    Incomplete,
    /// Number of bytes, and their meaning.
    Taken(usize, Option<Input>),
    /// Number of bytes that begin a paste.
    Paste(usize),
    /// Number of bytes that begin a string to skip.
    Skip(usize),
}

impl Decoder {
    /// Returns a decoder between two keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes bytes and appends the input.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<Input>) {
        self.pending.extend_from_slice(bytes);
        let mut at = 0;
        loop {
            match &mut self.state {
                Decoding::Ground => match step(&self.pending[at..]) {
                    Step::Incomplete => break,
                    Step::Taken(count, input) => {
                        at += count;
                        out.extend(input);
                    }
                    Step::Paste(count) => {
                        at += count;
                        self.state = Decoding::Paste(Vec::new());
                    }
                    Step::Skip(count) => {
                        at += count;
                        self.state = Decoding::Skipping;
                    }
                },
                Decoding::Paste(text) => {
                    // The mark may have been cut: look at its length before what is new.
                    let from = text.len().saturating_sub(PASTE_END.len());
                    text.extend_from_slice(&self.pending[at..]);
                    at = self.pending.len();
                    let Some(end) = find(&text[from..], PASTE_END).map(|end| from + end) else { break };
                    let rest = text.split_off(end);
                    out.push(Input::Paste(pasted(text)));
                    self.pending = rest[PASTE_END.len()..].to_vec();
                    at = 0;
                    self.state = Decoding::Ground;
                }
                Decoding::Skipping => {
                    let rest = &self.pending[at..];
                    // BEL, or ESC \ of which the backslash may follow later.
                    let end = rest.iter().position(|byte| matches!(*byte, 0x07 | ESCAPE | 0x18 | 0x1a));
                    let Some(end) = end else {
                        at = self.pending.len();
                        break;
                    };
                    match (rest[end], rest.get(end + 1)) {
                        (ESCAPE, None) => {
                            at += end;
                            break;
                        }
                        (ESCAPE, Some(b'\\')) => at += end + 2,
                        (ESCAPE, Some(_)) => at += end,
                        _ => at += end + 1,
                    }
                    self.state = Decoding::Ground;
                }
            }
        }
        self.pending.drain(..at);
    }

    /// Returns true if a key may be pending that only a pause can complete: Escape, or Alt with a bracket. The caller
    /// waits briefly for more bytes and then calls [`Decoder::flush`].
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty() && matches!(self.state, Decoding::Ground)
    }

    /// Completes the pending key, because no more bytes follow.
    pub fn flush(&mut self, out: &mut Vec<Input>) {
        if !self.is_pending() {
            return;
        }
        match std::mem::take(&mut self.pending).as_slice() {
            [ESCAPE] => out.push(Input::Key(Key::plain(Code::Escape))),
            [ESCAPE, c] if c.is_ascii_graphic() => out.push(Input::Key(Key::alt(char::from(*c)))),
            // A sequence or a character that was cut off.
            _ => {}
        }
    }
}

/// Returns pasted text, with line breaks of all kinds as `\n` and invalid bytes replaced.
fn pasted(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace("\r\n", "\n").replace('\r', "\n")
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn step(bytes: &[u8]) -> Step {
    match bytes {
        [] | [ESCAPE] => Step::Incomplete,
        [ESCAPE, ESCAPE, ..] => Step::Taken(1, Some(Input::Key(Key::plain(Code::Escape)))),
        [ESCAPE, b'[', rest @ ..] => control_sequence(rest),
        [ESCAPE, b'O', rest @ ..] => match rest {
            [] => Step::Incomplete,
            [last, ..] => Step::Taken(3, cursor_key(*last, Modifiers::default()).map(Input::Key)),
        },
        [ESCAPE, b']' | b'P' | b'_' | b'^' | b'X', rest @ ..] => match rest {
            [] => Step::Incomplete,
            _ => Step::Skip(2),
        },
        [ESCAPE, rest @ ..] => match character(rest) {
            None => Step::Incomplete,
            Some((count, key)) => Step::Taken(
                1 + count,
                key.map(|key| {
                    let modifiers = Modifiers { alt: true, ..key.modifiers };
                    Input::Key(Key { modifiers, ..key })
                }),
            ),
        },
        _ => match character(bytes) {
            None => Step::Incomplete,
            Some((count, key)) => Step::Taken(count, key.map(Input::Key)),
        },
    }
}

/// Decodes a key that is sent as a character. `None`: the rest of the character is missing.
fn character(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let first = *bytes.first()?;
    if first < 0x80 {
        return Some((1, Some(ascii(first))));
    }
    let length = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Some((1, None)),
    };
    let available = &bytes[..length.min(bytes.len())];
    match std::str::from_utf8(available) {
        Ok(text) => Some((length, text.chars().next().map(Key::char))),
        Err(error) if error.error_len().is_none() => None,
        Err(error) => Some((error.valid_up_to() + error.error_len().unwrap_or(1), None)),
    }
}

fn ascii(byte: u8) -> Key {
    match byte {
        b'\r' => Key::plain(Code::Enter),
        b'\t' => Key::plain(Code::Tab),
        0x7f => Key::plain(Code::Backspace),
        0x00 => Key::control(' '),
        0x1b => Key::plain(Code::Escape),
        0x01..=0x1a => Key::control(char::from(byte - 1 + b'a')),
        0x1c..=0x1f => Key::control(char::from(byte + 0x40)),
        _ => Key::char(char::from(byte)),
    }
}

/// Decodes the bytes after `ESC [`.
fn control_sequence(rest: &[u8]) -> Step {
    // The console of Linux sends `ESC [ [ A` to `ESC [ [ E` for the first function keys.
    if let [b'[', more @ ..] = rest {
        return match more {
            [] => Step::Incomplete,
            [c @ b'A'..=b'E', ..] => {
                Step::Taken(4, Some(Input::Key(Key::plain(Code::Function(c - b'A' + 1)))))
            }
            _ => Step::Taken(3, None),
        };
    }
    let Some(end) = rest.iter().take(LONGEST).position(|byte| !matches!(byte, 0x20..=0x3f)) else {
        return if rest.len() < LONGEST { Step::Incomplete } else { Step::Taken(2 + LONGEST, None) };
    };
    let last = rest[end];
    if !matches!(last, 0x40..=0x7e) {
        // Cut off by something else, which is read next.
        return Step::Taken(2 + end, None);
    }
    let taken = 2 + end + 1;
    let Ok(text) = std::str::from_utf8(&rest[..end]) else { return Step::Taken(taken, None) };
    if text == "200" && last == b'~' {
        return Step::Paste(taken);
    }
    Step::Taken(taken, sequence(text, last))
}

fn sequence(text: &str, last: u8) -> Option<Input> {
    if let Some(flags) = text.strip_prefix('?') {
        return (last == b'u' && flags.parse::<u8>().is_ok()).then_some(Input::KeyboardProtocol);
    }
    let mut fields = text.split(';');
    let mut number = || -> (Option<u32>, Option<u32>) {
        let mut parts = fields.next().unwrap_or_default().split(':');
        let mut part = || parts.next().and_then(|part| part.parse().ok());
        (part(), part())
    };
    let (first, _) = number();
    let (held, event) = number();
    let (third, _) = number();
    // Released: kitty sends it only where asked, which nothing here does.
    if event == Some(3) {
        return None;
    }
    let modifiers = modifiers(held.unwrap_or(1));
    let key = match last {
        b'I' if text.is_empty() => return Some(Input::Focus(true)),
        b'O' if text.is_empty() => return Some(Input::Focus(false)),
        b'Z' => Key { code: Code::Tab, modifiers: Modifiers { shift: true, ..modifiers } },
        b'u' => code_point(first?, modifiers)?,
        b'~' if first == Some(27) => code_point(third?, modifiers)?,
        b'~' => Key { code: numbered(first?)?, modifiers },
        // Another first number makes it an answer of the terminal, such as the place of the cursor.
        _ if first.is_none_or(|first| first == 1) => cursor_key(last, modifiers)?,
        _ => return None,
    };
    Some(Input::Key(key))
}

/// Decodes modifiers: Shift, Alt and Control as bits, plus one.
fn modifiers(held: u32) -> Modifiers {
    let bits = held.saturating_sub(1);
    Modifiers { shift: bits & 1 != 0, alt: bits & 2 != 0, control: bits & 4 != 0 }
}

fn cursor_key(last: u8, modifiers: Modifiers) -> Option<Key> {
    let code = match last {
        b'A' => Code::Up,
        b'B' => Code::Down,
        b'C' => Code::Right,
        b'D' => Code::Left,
        b'H' => Code::Home,
        b'F' => Code::End,
        b'M' => Code::Enter,
        b'P'..=b'S' => Code::Function(last - b'P' + 1),
        _ => return None,
    };
    Some(Key { code, modifiers })
}

fn numbered(number: u32) -> Option<Code> {
    let function =
        |first: u32, base: u8| u8::try_from(number - first).ok().map(|offset| Code::Function(base + offset));
    match number {
        1 | 7 => Some(Code::Home),
        2 => Some(Code::Insert),
        3 => Some(Code::Delete),
        4 | 8 => Some(Code::End),
        5 => Some(Code::PageUp),
        6 => Some(Code::PageDown),
        11..=15 => function(11, 1),
        17..=21 => function(17, 6),
        23..=24 => function(23, 11),
        _ => None,
    }
}

/// Decodes a key that is sent as its character's number. Keys of the number pad have numbers of private use.
fn code_point(number: u32, modifiers: Modifiers) -> Option<Key> {
    let code = match number {
        9 => Code::Tab,
        13 | 57414 => Code::Enter,
        27 => Code::Escape,
        127 => Code::Backspace,
        57399..=57408 => Code::Char(char::from_digit(number - 57399, 10)?),
        57409 => Code::Char('.'),
        57410 => Code::Char('/'),
        57411 => Code::Char('*'),
        57412 => Code::Char('-'),
        57413 => Code::Char('+'),
        57417 => Code::Left,
        57418 => Code::Right,
        57419 => Code::Up,
        57420 => Code::Down,
        57421 => Code::PageUp,
        57422 => Code::PageDown,
        57423 => Code::Home,
        57424 => Code::End,
        57425 => Code::Insert,
        57426 => Code::Delete,
        0..=31 | 0xe000..=0xf8ff => return None,
        _ => Code::Char(char::from_u32(number)?),
    };
    let modifiers = match code {
        // A capital letter says by itself that shift was held.
        Code::Char(c) if modifiers.shift && !modifiers.control => {
            let upper = c.to_uppercase().next().unwrap_or(c);
            return Some(Key { code: Code::Char(upper), modifiers: Modifiers { shift: false, ..modifiers } });
        }
        Code::Char(c) if modifiers.control => {
            return Some(Key { code: Code::Char(c.to_ascii_lowercase()), modifiers });
        }
        _ => modifiers,
    };
    Some(Key { code, modifiers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(bytes: &[u8]) -> Vec<Input> {
        let mut decoder = Decoder::new();
        let mut out = Vec::new();
        decoder.feed(bytes, &mut out);
        decoder.flush(&mut out);
        out
    }

    fn key(bytes: &[u8]) -> Key {
        match decoded(bytes).as_slice() {
            [Input::Key(key)] => *key,
            other => panic!("{bytes:?} is no single key: {other:?}"),
        }
    }

    #[test]
    fn keys_of_different_terminals_are_the_same() {
        let shift_enter =
            Key { code: Code::Enter, modifiers: Modifiers { shift: true, ..Modifiers::default() } };
        for (bytes, expected) in [
            (&b"\r"[..], Key::plain(Code::Enter)),
            (b"\n", Key::control('j')),
            (b"\x1b[13;2u", shift_enter),
            (b"\x1b[27;2;13~", shift_enter),
            (b"\x1b[A", Key::plain(Code::Up)),
            (b"\x1bOA", Key::plain(Code::Up)),
            (
                b"\x1b[1;5C",
                Key { code: Code::Right, modifiers: Modifiers { control: true, ..Modifiers::default() } },
            ),
            (b"\x1bb", Key::alt('b')),
            (b"\x1b", Key::plain(Code::Escape)),
            (b"\x1b[", Key::alt('[')),
            (b"\x1b[99;5u", Key::control('c')),
            (b"\x1b[97;2u", Key::char('A')),
            (b"\x03", Key::control('c')),
            (b"\x7f", Key::plain(Code::Backspace)),
            (b"\x1b[3~", Key::plain(Code::Delete)),
            ("水".as_bytes(), Key::char('水')),
            ("\x1bö".as_bytes(), Key::alt('ö')),
            (b"\x1f", Key::control('_')),
            (b"\x1b[57399u", Key::char('0')),
        ] {
            assert_eq!(key(bytes), expected, "{bytes:?}");
        }
        assert_eq!(
            decoded(b"\x1b[I\x1b[O\x1b[?1u"),
            [Input::Focus(true), Input::Focus(false), Input::KeyboardProtocol]
        );
    }

    #[test]
    fn answers_of_the_terminal_are_no_keys() {
        assert_eq!(
            decoded(b"\x1b[?62;c\x1b[24;80R\x1b]11;rgb:0/0/0\x1b\\\x1bP1$r0m\x1b\\x"),
            [Input::Key(Key::char('x'))]
        );
    }

    #[test]
    fn a_paste_is_text_whatever_it_holds() {
        let text = "a\r\nb\rc\x1b[A\x03";
        let mut bytes = b"\x1b[200~".to_vec();
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(b"\x1b[201~x");
        let expected = [Input::Paste("a\nb\nc\x1b[A\x03".into()), Input::Key(Key::char('x'))];
        assert_eq!(decoded(&bytes), expected);
    }

    proptest! {
        /// Bytes that arrive in any pieces mean the same.
        #[test]
        fn pieces_do_not_matter(
            bytes in prop::collection::vec(
                prop_oneof![
                    Just(b"\x1b[200~".to_vec()), Just(b"\x1b[201~".to_vec()), Just(b"\x1b[1;5A".to_vec()),
                    Just("é水🙂".as_bytes().to_vec()), Just(b"\x1b]0;x\x1b\\".to_vec()), Just(b"\x1bOP".to_vec()),
                    prop::collection::vec(any::<u8>(), 0..6),
                ], 0..12,
            ),
            cuts in prop::collection::vec(1usize..9, 0..40),
        ) {
            let bytes = bytes.concat();
            let mut decoder = Decoder::new();
            let mut pieces = Vec::new();
            let mut rest = bytes.as_slice();
            for cut in cuts {
                let (piece, more) = rest.split_at(cut.min(rest.len()));
                decoder.feed(piece, &mut pieces);
                rest = more;
            }
            decoder.feed(rest, &mut pieces);
            decoder.flush(&mut pieces);
            prop_assert_eq!(pieces, decoded(&bytes));
        }
    }
}
