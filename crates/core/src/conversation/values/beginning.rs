//! Finds the beginning of the value in an answer that arrives in pieces.

use super::{ELEMENTS, JSON_TAGS, MARKS, closing, opening};

/// Most bytes of a mark that opens or closes reasoning, and of the line that opens a fence.
const LONGEST_MARK: usize = 256;

/// The part of an answer before its value.
///
/// Only a value that no prose precedes is found: reasoning between marks, and one fence, may stand before it. Prose may
/// contain values that are not the answer, which only the whole answer shows.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// The text that is not yet decided.
    text: String,
    within: Within,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    /// Neither reasoning nor a fence.
    Open,
    /// Reasoning, with the number of the mark that closes it.
    Reasoning(usize),
    Fence,
}

/// A decision about an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The next piece may decide.
    Not,
    /// The value begins with this text.
    Value(String),
    /// Prose stands before any value.
    Prose,
}

impl Beginning {
    pub(crate) fn new() -> Self {
        Self { text: String::new(), within: Within::Open }
    }

    /// Takes the next piece of the answer.
    pub(crate) fn push(&mut self, piece: &str) -> Begun {
        self.text.push_str(piece);
        loop {
            if let Within::Reasoning(with) = self.within {
                match closing(&self.text, Some(with)) {
                    Some((_, after)) => {
                        self.text.drain(..after);
                        self.within = Within::Open;
                    }
                    None => {
                        let kept = self.text.len().saturating_sub(LONGEST_MARK);
                        let kept = (kept..=self.text.len()).find(|at| self.text.is_char_boundary(*at));
                        self.text.drain(..kept.unwrap_or_default());
                        return Begun::Not;
                    }
                }
            }
            let blank = |c: char| c.is_whitespace() || c == '\u{feff}';
            let before = self.text.len() - self.text.trim_start_matches(blank).len();
            self.text.drain(..before);
            let text = &*self.text;
            if let Some(open) = opening(text).filter(|_| self.within == Within::Open) {
                self.within = Within::Reasoning(open.with);
                self.text.drain(..open.after);
                continue;
            }
            match text.chars().next() {
                None => return Begun::Not,
                _ if may_open(text) => return Begun::Not,
                Some('{' | '[') => return Begun::Value(std::mem::take(&mut self.text)),
                Some(mark @ ('`' | '~')) if self.within == Within::Open => match after_fence(text, mark) {
                    Ok(Some(after)) => {
                        self.text.drain(..after);
                        self.within = Within::Fence;
                    }
                    Ok(None) => return Begun::Not,
                    Err(Prose) => return Begun::Prose,
                },
                Some(_) => return Begun::Prose,
            }
        }
    }
}

struct Prose;

/// The place after the marks and the tag of the fence that the text begins with. `None` if it is not known yet.
fn after_fence(text: &str, mark: char) -> Result<Option<usize>, Prose> {
    let marks = text.len() - text.trim_start_matches(mark).len();
    let behind = &text[marks..];
    let Some(end) = behind.find(['\n', '{', '[']) else {
        return if text.len() < LONGEST_MARK { Ok(None) } else { Err(Prose) };
    };
    let tag = behind[..end].trim();
    let is_json = JSON_TAGS.iter().any(|json| json.eq_ignore_ascii_case(tag));
    if marks >= 3 && is_json { Ok(Some(marks + end)) } else { Err(Prose) }
}

/// Returns true if the text may become a mark that opens reasoning.
fn may_open(text: &str) -> bool {
    if text.len() > LONGEST_MARK {
        return false;
    }
    let begins = |mark: &str| mark.len() > text.len() && mark.starts_with(text);
    let element = text.strip_prefix('<').is_some_and(|inside| {
        ELEMENTS.iter().any(|name| match inside.get(..name.len()) {
            // The tag may have attributes.
            Some(head) => head.eq_ignore_ascii_case(name) && !inside.contains('>'),
            None => name.get(..inside.len()).is_some_and(|head| head.eq_ignore_ascii_case(inside)),
        })
    });
    element || MARKS.iter().any(|(open, _)| begins(open))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(pieces: &[&str]) -> Begun {
        let mut beginning = Beginning::new();
        let mut rest = pieces.iter();
        while let Some(piece) = rest.next() {
            match beginning.push(piece) {
                Begun::Not => {}
                Begun::Value(text) => {
                    return Begun::Value(text + &rest.copied().collect::<String>());
                }
                Begun::Prose => return Begun::Prose,
            }
        }
        Begun::Not
    }

    #[test]
    fn the_value_begins_in_the_same_place_however_its_text_is_cut() {
        for (text, begins) in [
            ("{\"a\": 1}", Some("{\"a\": 1}")),
            ("\u{feff}\n [1]", Some("[1]")),
            ("[\"T\"]", Some("[\"T\"]")),
            ("<think>maybe {\"a\": 2}</think>\n{\"a\": 1}", Some("{\"a\": 1}")),
            ("<Thinking depth=\"3\">{\"a\": 2}</THINKING >{\"a\": 1}", Some("{\"a\": 1}")),
            ("[THINK]{\"a\": 2}[/THINK][1]", Some("[1]")),
            ("◁think▷{\"a\": 2}◁/think▷{\"a\": 1}", Some("{\"a\": 1}")),
            ("```json\n{\"a\": 1}\n```", Some("{\"a\": 1}\n```")),
            ("~~~~\n[1]\n~~~~", Some("[1]\n~~~~")),
            ("```{\"a\": 1}```", Some("{\"a\": 1}```")),
            ("```python\n{\"a\": 1}\n```", None),
            ("So: {\"a\": 1}", None),
            ("<answer>{\"a\": 1}</answer>", None),
            ("<thinker>{\"a\": 1}", None),
            ("`{\"a\": 1}`", None),
            ("\"a\"", None),
        ] {
            let expected = begins.map_or(Begun::Prose, |text| Begun::Value(text.to_owned()));
            let characters: Vec<&str> = text.split_inclusive(|_| true).collect();
            assert_eq!(begun(&characters), expected, "{text}");
            for cut in text.char_indices().map(|(at, _)| at) {
                assert_eq!(begun(&[&text[..cut], &text[cut..]]), expected, "{text} at {cut}");
            }
        }
        assert_eq!(begun(&["<think>{\"a\": 1}"]), Begun::Not);
        let long = "<think>".to_owned() + &"x".repeat(100_000);
        let mut beginning = Beginning::new();
        assert_eq!(beginning.push(&long), Begun::Not);
        assert!(beginning.text.len() <= LONGEST_MARK, "no reasoning is kept");
    }
}
