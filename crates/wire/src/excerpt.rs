//! The body of an error.

use crate::MOST_OF_ERROR;

/// Collects the beginning of the body of an error, at most [`MOST_OF_ERROR`] bytes.
#[derive(Debug, Default)]
pub struct Excerpt(Vec<u8>);

impl Excerpt {
    /// Takes bytes. Returns false once no more are needed.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let room = MOST_OF_ERROR - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
        bytes.len() < room
    }

    /// Returns the text, with replacement characters in place of bytes that are no text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_of_an_error_is_cut_at_its_limit() {
        let mut excerpt = Excerpt::default();
        let piece = vec![b'x'; 40_000];
        assert!(excerpt.push(&piece), "there is room");
        assert!(!excerpt.push(&piece), "the limit is reached");
        assert!(!excerpt.push(&piece));
        assert_eq!(excerpt.text().len(), MOST_OF_ERROR);
    }
}
