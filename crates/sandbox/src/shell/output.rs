//! The output of a process. Only the part that is shown is kept in memory.

use std::collections::VecDeque;

/// Bytes kept of the beginning and of the end of each stream.
const KEPT: usize = 8 * 1024;

/// The beginning and the end of a stream.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// The number of bytes received.
    pub(crate) total: u64,
}

impl Printed {
    /// Takes the next output.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(KEPT - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(KEPT)..];
        self.tail.drain(..(self.tail.len() + rest.len()).saturating_sub(KEPT));
        self.tail.extend(rest);
    }

    /// Appends the output of another process, which follows.
    pub(crate) fn append(&mut self, other: Self) {
        let left_out = other.left_out();
        self.push(&other.head);
        self.push(&Vec::from(other.tail));
        self.total += left_out;
    }

    /// Returns the number of bytes not kept.
    pub(crate) fn left_out(&self) -> u64 {
        self.total - (self.head.len() + self.tail.len()) as u64
    }

    /// Returns the kept output as text, without sequences that only a terminal understands, with invalid UTF-8 replaced
    /// and a line with the number of missing bytes.
    pub(crate) fn text(mut self) -> String {
        let left_out = self.left_out();
        if left_out == 0 {
            self.head.extend(self.tail);
            return without_sequences(&String::from_utf8_lossy(&self.head));
        }
        // A character cut by us is not an error of the process.
        let head = &self.head[..self.head.len() - cut_at_end(&self.head)];
        let tail: Vec<u8> = self.tail.into_iter().collect();
        let begins = tail.iter().take(3).take_while(|byte| **byte & 0xC0 == 0x80).count();
        let missing = left_out + (self.head.len() - head.len() + begins) as u64;
        format!(
            "{}\n[{missing} bytes are left out here]\n{}",
            without_sequences(&String::from_utf8_lossy(head)),
            without_sequences(&String::from_utf8_lossy(&tail[begins..]))
        )
    }
}

/// Removes colours, movements of the cursor and titles of windows (ECMA-48) from a text: a model would read their
/// codes.
fn without_sequences(text: &str) -> String {
    const ESCAPE: char = '\x1b';
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(ESCAPE) {
        plain.push_str(before);
        let mut characters = after.chars();
        rest = match characters.next() {
            // Parameters, and a final byte.
            Some('[') => {
                let code = characters.as_str();
                let end = code.find(|c: char| !(' '..='?').contains(&c)).unwrap_or(code.len());
                let is_final = code[end..].starts_with(|c: char| ('@'..='~').contains(&c));
                &code[end + usize::from(is_final)..]
            }
            // A string that a bell or `ESC \` ends. One that does not end is a stray character.
            Some(']' | 'P' | '_' | '^' | 'X') => {
                let string = characters.as_str();
                match string.find(['\x07', ESCAPE]) {
                    Some(end) if string[end..].starts_with('\x07') => &string[end + 1..],
                    Some(end) if string[end..].starts_with("\x1b\\") => &string[end + 2..],
                    _ => string,
                }
            }
            Some(' '..='/') => {
                let code = characters.as_str();
                code.strip_prefix(|c: char| ('0'..='~').contains(&c)).unwrap_or(code)
            }
            Some('0'..='~') => characters.as_str(),
            _ => after,
        };
    }
    plain.push_str(rest);
    plain
}

/// Returns the number of bytes of an incomplete character at the end.
fn cut_at_end(bytes: &[u8]) -> usize {
    let back = bytes.iter().rev().take(4).position(|byte| byte & 0xC0 != 0x80);
    let Some(back) = back else { return 0 };
    let length = match bytes[bytes.len() - 1 - back] {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    };
    if length > back + 1 { back + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn printed(bytes: &[u8], at_once: usize) -> Printed {
        let mut printed = Printed::default();
        bytes.chunks(at_once.max(1)).for_each(|chunk| printed.push(chunk));
        printed
    }

    #[test]
    fn short_output_is_whole() {
        let all = vec![b'x'; 2 * KEPT];
        assert_eq!(printed(&all, 1000).text(), String::from_utf8(all).unwrap());
        assert_eq!(printed(b"a\xffb", 1).text(), "a\u{fffd}b");
        assert_eq!(printed(b"", 1).text(), "");
    }

    #[test]
    fn text_has_no_codes_of_a_terminal() {
        for (output, text) in [
            ("\x1b[1;31merror\x1b[0m: x", "error: x"),
            ("\x1b[38;2;1;2;3mé\x1b[K\x1b[2J", "é"),
            ("\x1b]0;a title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\", "ab"),
            ("\x1b(Bx\x1b=y\x1b7", "xy"),
            ("\x1b[31", ""),
            ("a\x1b", "a"),
            ("\x1b]no end", "no end"),
            ("array[1m] \\x1b[0m", "array[1m] \\x1b[0m"),
        ] {
            assert_eq!(printed(output.as_bytes(), 3).text(), text, "{output:?}");
        }
    }

    #[test]
    fn of_long_output_beginning_and_end_are_kept() {
        let all: String = (0..10_000).map(|n| format!("line {n}\n")).collect();
        let text = printed(all.as_bytes(), 4096).text();
        assert!(text.starts_with("line 0\n") && text.ends_with("line 9999\n"), "{text}");
        let missing = all.len() - 2 * KEPT;
        assert!(text.contains(&format!("\n[{missing} bytes are left out here]\n")), "{text}");
        // Characters are not cut.
        let text = printed("日本語".repeat(20_000).as_bytes(), 777).text();
        assert!(!text.contains('\u{fffd}'), "{text}");
    }

    proptest! {
        #[test]
        fn however_it_comes_the_same_is_kept(length in 0..5 * KEPT, a in 1..3 * KEPT, b in 1..100_usize) {
            let all: Vec<u8> = (0..length).map(|n| b'a' + u8::try_from(n * 7 % 26).unwrap()).collect();
            let (one, other) = (printed(&all, a), printed(&all, b));
            prop_assert!(one.head.len() <= KEPT && one.tail.len() <= KEPT);
            prop_assert_eq!(one.total, length as u64);
            prop_assert_eq!(one.text(), other.text());
        }
    }
}
