//! Redaction of a text that arrives in pieces.

use super::{
    Redactor,
    views::{View, views},
};

/// Bytes of the original for each byte of a form at most: `\u00e9` within JSON within JSON.
const SPREAD: usize = 16;

/// A text that arrives in pieces. A secret may begin in one piece and end in another, so the end of each piece is held
/// back while it may be the beginning of a secret.
#[derive(Debug, Default)]
pub struct Stream {
    held: String,
}

impl Stream {
    /// Takes the next piece, and returns the text that no later piece can change.
    pub fn push(&mut self, redactor: &Redactor, piece: &str) -> String {
        self.held.push_str(piece);
        let ready = redactor.closed(&self.held);
        let rest = self.held.split_off(ready);
        let ready = std::mem::replace(&mut self.held, rest);
        redactor.redact(&ready).into_owned()
    }

    /// Returns the rest, after the last piece.
    pub fn finish(self, redactor: &Redactor) -> String {
        redactor.redact(&self.held).into_owned()
    }
}

impl Redactor {
    /// Returns the end of the part of a text that later pieces can't change: no secret begins in it and ends after it.
    fn closed(&self, text: &str) -> usize {
        let Some(found) = &self.found else { return text.len() };
        let from = text.len().saturating_sub(found.longest.saturating_mul(SPREAD));
        let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        let tail = &text[from..];
        // The last characters may be the beginning of an escape or of an encoded character.
        let escapes = tail.match_indices(['\\', '%']).map(|(at, _)| at);
        let escapes: Vec<usize> = escapes.filter(|at| tail.len() - at < SPREAD).collect();
        let ends = escapes.iter().copied().chain([tail.len()]);
        let open = ends.filter_map(|end| {
            let views = views(&tail.as_bytes()[..end], true);
            views.iter().filter_map(|view| self.open(view)).min()
        });
        let mut end = open.chain(escapes.first().copied()).min().map_or(text.len(), |at| from + at);
        // A secret that is complete is replaced as a whole.
        for whole in found.all(text) {
            if whole.range.contains(&end) && whole.range.start < end {
                end = whole.range.end;
            }
        }
        (0..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
    }

    /// Returns the first place of the text from which the rest of a view is the beginning of a form.
    fn open(&self, view: &View<'_>) -> Option<usize> {
        let found = self.found.as_ref()?;
        let bytes = view.bytes();
        let first = bytes.len().saturating_sub(found.longest.saturating_sub(1));
        let begins = |at: &usize| {
            let rest = &bytes[*at..];
            let form = |form: &super::Form| {
                let form = form.text.as_bytes();
                form.len() > rest.len() && form.starts_with(rest)
            };
            found.forms.iter().any(form)
        };
        (first..bytes.len()).find(begins).map(|at| view.original(at..bytes.len()).start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    /// Redacts the text in pieces, cut at each of these lengths in turn.
    fn streamed(redactor: &Redactor, text: &str, lengths: &[usize]) -> String {
        let (mut stream, mut out) = (Stream::default(), String::new());
        let mut chars = text.chars().peekable();
        for length in lengths.iter().cycle() {
            if chars.peek().is_none() {
                break;
            }
            out.push_str(&stream.push(redactor, &chars.by_ref().take(*length).collect::<String>()));
        }
        out + &stream.finish(redactor)
    }

    #[test]
    fn a_secret_in_pieces_is_replaced() {
        let secrets = [("KEY", "sk-live-sk-live-é1"), ("LONGER", "sk-live-sk-live-é1-and-more")];
        let redactor = Redactor::new(secrets.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let secret = secrets[0].1;
        let texts = [
            format!("it is {secret}, and {secret}{secret}"),
            format!("{{\"a\": \"{}\"}}", secret.replace('é', "\\u00e9")),
            format!("Basic {}", STANDARD.encode(format!("user:{secret} x"))),
            format!("{}!", secrets[1].1),
        ];
        for text in &texts {
            let whole = redactor.redact(text).into_owned();
            for lengths in [&[1][..], &[2], &[3, 1], &[5], &[7, 2], &[100]] {
                assert_eq!(streamed(&redactor, text, lengths), whole, "{lengths:?}");
            }
        }
    }

    #[test]
    fn other_text_is_not_held_back() {
        let redactor = Redactor::new([("KEY".to_owned(), "sk-live-1234".to_owned())]);
        let mut stream = Stream::default();
        assert_eq!(stream.push(&redactor, "a plain text, s"), "a plain text, ");
        assert_eq!(stream.push(&redactor, "o"), "so");
        assert_eq!(stream.push(&redactor, " sk-li"), " ");
        assert_eq!(stream.finish(&redactor), "sk-li");
    }
}
