//! Detection of an answer that repeats itself without end (`docs/reference/loop.md`).
//!
//! A text repeats itself if its end is periodic for long enough. Tables, lists of values and code repeat short pieces,
//! so a short unit must occur much more often than one with the length of a sentence. The check depends on the text
//! alone.

/// Size of the end of the text that is checked, in bytes.
const WINDOW: usize = 16 << 10;
/// Number of bytes after which the end is checked again: few at the beginning, more in a long text, where a check then
/// costs little.
const STEP: usize = 256;
const LONGEST_STEP: usize = 4 << 10;
/// Number of letters and digits from which a unit has the length of a sentence.
const SENTENCE: usize = 24;

/// The number of consecutive occurrences of a unit that counts as a repetition.
#[derive(Clone, Copy, Debug)]
struct Often {
    sentence: usize,
    short: usize,
}

/// The limits for a free text.
const FREE: Often = Often { sentence: 16, short: 200 };
/// The limits for an answer of a declared type, which may contain long lists of equal values.
const TYPED: Often = Often { sentence: 64, short: 1600 };

/// The detector, which follows a text as it arrives.
#[derive(Debug)]
pub(crate) struct Repetition {
    often: Often,
    /// The end of the text.
    end: Vec<u8>,
    /// Number of bytes up to now, and the number at the last check.
    bytes: usize,
    looked: usize,
    found: bool,
}

impl Repetition {
    /// Creates a detector for a new answer. `typed` is true if the answer has a declared type.
    pub(crate) fn new(typed: bool) -> Self {
        Self { often: if typed { TYPED } else { FREE }, end: Vec::new(), bytes: 0, looked: 0, found: false }
    }

    /// Takes the next piece. Returns true if the text now repeats itself.
    pub(crate) fn push(&mut self, text: &str) -> bool {
        for piece in text.as_bytes().chunks(STEP) {
            self.end.extend_from_slice(piece);
            self.bytes += piece.len();
            let step = (self.bytes / 8).clamp(STEP, LONGEST_STEP);
            if self.bytes - self.looked >= step && !self.found {
                self.looked = self.bytes;
                let extra = self.end.len().saturating_sub(WINDOW);
                self.end.drain(..extra);
                self.found = self.is_periodic();
            }
        }
        self.found
    }

    /// Returns true if a whole text repeats itself anywhere.
    pub(crate) fn is_in(text: &str, typed: bool) -> bool {
        let mut repetition = Self::new(typed);
        repetition.push(text) || (!text.is_empty() && repetition.is_periodic())
    }

    fn is_periodic(&self) -> bool {
        let backwards: Vec<u8> = self.end.iter().rev().copied().collect();
        // A rule of dashes, or a drawing.
        if backwards.iter().take(STEP).all(|byte| *byte == backwards[0]) {
            return false;
        }
        let equal = equal_from(&backwards);
        let least = self.often.sentence.min(self.often.short);
        // The shortest units, with the bytes that they fill. Several of them in a row are no unit of their own.
        let mut units: Vec<(usize, usize)> = Vec::new();
        for period in 1..=backwards.len() / least {
            // As far back as the text is the same as one period later.
            let filled = period + equal[period];
            let times = filled / period;
            if times < least || units.iter().any(|(unit, by)| period % unit == 0 && *by >= filled) {
                continue;
            }
            units.push((period, filled));
            let is_said = |byte: &&u8| byte.is_ascii_alphanumeric() || !byte.is_ascii();
            let often = match backwards[..period].iter().filter(is_said).count() {
                SENTENCE.. => self.often.sentence,
                // Borders of tables and white space may be long.
                0 => 10 * self.often.short,
                _ => self.often.short,
            };
            if times >= often {
                return true;
            }
        }
        false
    }
}

/// Computes, for each place, the number of bytes from there on that are the same as at the beginning (the Z function),
/// in linear time.
fn equal_from(text: &[u8]) -> Vec<usize> {
    let mut equal = vec![0; text.len()];
    let (mut left, mut right) = (0, 0);
    for at in 1..text.len() {
        let mut length = if at < right { equal[at - left].min(right - at) } else { 0 };
        while at + length < text.len() && text[length] == text[at + length] {
            length += 1;
        }
        equal[at] = length;
        if at + length > right {
            (left, right) = (at, at + length);
        }
    }
    equal
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "- The meeting notes say that the budget is approved.\n";

    #[test]
    fn the_same_line_again_and_again_is_found_however_it_arrives() {
        let intro = "Here are the notes:\n\n";
        let long = format!("{intro}{}", LINE.repeat(57));
        assert!(Repetition::is_in(&long, false));
        let mut by_letter = Repetition::new(false);
        let found = long.char_indices().find(|(_, c)| by_letter.push(&c.to_string())).map(|(at, _)| at);
        assert!(found.is_some_and(|at| at < intro.len() + 26 * LINE.len()), "{found:?}");
        // Nothing that comes later undoes it.
        assert!(Repetition::is_in(&format!("{long}and so on, with another end"), false));
        // Several lines in turn, with blank lines between them, and no lines at all.
        let turns = format!("{LINE}\n- Ada asks for a summary of the figures.\n\n");
        assert!(Repetition::is_in(&turns.repeat(20), false));
        assert!(Repetition::is_in(&"and then the extractor invents another line ".repeat(20), false));
        assert!(Repetition::is_in(&"the ".repeat(300), false));
        assert!(Repetition::is_in(&"日本語の文章を何度も繰り返します。".repeat(20), false));
    }

    #[test]
    fn legitimate_repetition_is_not_found() {
        let row = |n: usize| format!("| {n} | not relevant | 0.00 |\n");
        let table: String = (0..500).map(row).collect();
        let braces: String = (0..40).rev().map(|depth| format!("{}}}\n", " ".repeat(depth))).collect();
        let labels = "not relevant\n".repeat(100);
        for text in [
            &table,
            &braces,
            &labels,
            &"0,0,0,0,0,0\n".repeat(100),
            &"    DEFAULT_VALUE,\n".repeat(60),
            &format!("{}\n", "-".repeat(15_000)),
            &LINE.repeat(12),
            &(0..200).map(|n| format!("{n}. {LINE}")).collect::<String>(),
        ] {
            assert!(!Repetition::is_in(text, false), "{text}");
        }
        let typed = format!("[{}]", "{\"label\": \"not relevant for this customer\"}, ".repeat(50));
        assert!(!Repetition::is_in(&typed, true) && Repetition::is_in(&typed, false));
        assert!(Repetition::is_in(&LINE.repeat(100), true));
    }

    #[test]
    fn a_long_text_is_checked_in_linear_time() {
        let text: String =
            (0..200_000).map(|n: u64| format!("{} ", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        assert!(!Repetition::is_in(&text, false));
    }
}
