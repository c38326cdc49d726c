//! The text of an answer in progress: only whole characters, and no text that may be the beginning of a marker.

/// Holds back the end of a text while it may still be the beginning of a marker or of a character.
#[derive(Debug)]
pub(crate) struct Flow {
    markers: Vec<String>,
    held: Vec<u8>,
}

/// The output of [`Flow::push`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Released {
    /// Text that will not change.
    pub(crate) text: String,
    /// The marker that was found: its number, and the bytes that followed it. The text before it is all released.
    pub(crate) hit: Option<(usize, Vec<u8>)>,
}

impl Flow {
    /// Makes a flow that searches for these markers; empty ones are never found.
    pub(crate) fn new(markers: Vec<String>) -> Self {
        Self { markers, held: Vec::new() }
    }

    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Released {
        self.held.extend_from_slice(bytes);
        let found = self
            .markers
            .iter()
            .enumerate()
            .filter(|(_, marker)| !marker.is_empty())
            .filter_map(|(index, marker)| position(&self.held, marker.as_bytes()).map(|at| (at, index)))
            .min();
        if let Some((at, index)) = found {
            let after = self.held.split_off(at + self.markers[index].len());
            self.held.truncate(at);
            return Released { text: self.finish(), hit: Some((index, after)) };
        }
        let longest = |marker: &String| {
            (1..marker.len())
                .rev()
                .find(|&length| self.held.ends_with(&marker.as_bytes()[..length]))
                .unwrap_or(0)
        };
        let keep = self.markers.iter().map(longest).max().unwrap_or(0);
        let mut certain = self.held.len() - keep;
        if let Err(error) = std::str::from_utf8(&self.held[..certain])
            && error.error_len().is_none()
        {
            certain = error.valid_up_to();
        }
        let rest = self.held.split_off(certain);
        let text = String::from_utf8_lossy(&self.held).into_owned();
        self.held = rest;
        Released { text, hit: None }
    }

    /// Returns all text that is still held back, at the end of the input.
    pub(crate) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}

fn position(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(markers: &[&str], pieces: &[&[u8]]) -> (Vec<String>, Option<(usize, Vec<u8>)>) {
        let mut flow = Flow::new(markers.iter().map(|&it| it.to_owned()).collect());
        let mut texts = Vec::new();
        for piece in pieces {
            let released = flow.push(piece);
            texts.push(released.text);
            if released.hit.is_some() {
                return (texts, released.hit);
            }
        }
        texts.push(flow.finish());
        (texts, None)
    }

    #[test]
    fn a_marker_is_met_across_pieces_and_never_shown() {
        let (texts, hit) = run(&["<end>"], &[b"a < b <e", b"nd", b"> rest"]);
        assert_eq!(texts, ["a < b ", "", ""]);
        assert_eq!(hit, Some((0, b" rest".to_vec())));
    }

    #[test]
    fn what_only_looked_like_a_marker_is_shown() {
        assert_eq!(run(&["<end>"], &[b"x<en", b"ough"]).0, ["x", "<enough", ""]);
        assert_eq!(run(&["<end>"], &[b"x<en"]).0, ["x", "<en"]);
    }

    #[test]
    fn the_first_marker_in_the_text_wins() {
        assert_eq!(run(&["two", "one"], &[b"one two"]).1, Some((1, b" two".to_vec())));
        assert_eq!(run(&[""], &[b"text"]).1, None);
    }

    #[test]
    fn characters_are_released_whole() {
        let text = "naïve 🦀";
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        let (texts, _) = run(&["\n\n"], &pieces);
        assert_eq!(texts.concat(), text);
        assert!(texts.iter().all(|piece| !piece.contains('\u{fffd}')));
        assert_eq!(run(&[], &[b"a\xffb"]).0.concat(), "a\u{fffd}b");
    }
}
