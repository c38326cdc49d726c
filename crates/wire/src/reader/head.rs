//! The beginning that the events of a stream have in common.

use super::{completions::Event, loose};

/// The members before the choices, which are the same in each event of a stream and which nothing needs: the ID of the
/// answer, the name of the model. They are read once, since they are the larger part of an event.
#[derive(Debug, Default)]
pub(super) struct Head {
    state: HeadState,
    /// An event without them.
    rest: String,
}

#[derive(Debug, Default)]
enum HeadState {
    #[default]
    Unknown,
    /// The text up to the choices.
    Known(String),
    /// The first event has no such members.
    Without,
}

impl Head {
    /// Learns the beginning from the first event.
    pub(super) fn learn(&mut self, event: &str) {
        if matches!(self.state, HeadState::Unknown) {
            self.state =
                beginning(event).map_or(HeadState::Without, |head| HeadState::Known(head.to_owned()));
        }
    }

    /// Returns the event without its beginning, if it begins like the first one. The result has the same meaning, and
    /// is JSON if the event is.
    pub(super) fn removed(&mut self, event: &str) -> Option<&str> {
        let HeadState::Known(head) = &self.state else { return None };
        let rest = event.strip_prefix(head.as_str())?;
        self.rest.clear();
        self.rest.push('{');
        self.rest.push_str(rest);
        Some(&self.rest)
    }
}

/// Returns the text before the choices, if it consists of whole members that nothing needs.
fn beginning(event: &str) -> Option<&str> {
    let (head, _) = event.split_once("\"choices\":")?;
    let members = head.trim_end().strip_suffix(',')?;
    let alone = format!("{members}}}");
    // If the choices are those of a member, the text is no JSON.
    loose::from_text::<Event<'_>>(&alone).is_ok_and(|event| event.is_empty()).then_some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removed<'h>(head: &'h mut Head, first: &str, event: &str) -> Option<&'h str> {
        head.learn(first);
        head.removed(event)
    }

    #[test]
    fn the_members_before_the_choices_are_removed_while_they_repeat() {
        let first = r#"{"id":"a\"choices\":","n":{"x":[1]}, "choices":[1],"usage":null}"#;
        let mut head = Head::default();
        assert_eq!(removed(&mut head, first, first), Some(r#"{"choices":[1],"usage":null}"#));
        let next = first.replace("[1],", "[2],");
        assert_eq!(removed(&mut head, &next, &next), Some(r#"{"choices":[2],"usage":null}"#));
        let other = first.replace("\"id\"", "\"di\"");
        assert_eq!(removed(&mut head, &other, &other), None, "only the first event is learnt from");
        assert_eq!(removed(&mut head, &other, r#"{"id":"a\"#), None);
        assert_eq!(
            removed(&mut head, &other, &first[..first.len() - 1]),
            Some(r#"{"choices":[1],"usage":null"#)
        );
    }

    #[test]
    fn a_beginning_that_is_needed_stays() {
        for first in [
            r#"{"choices":[]}"#,
            r#"{"id":1}"#,
            r#"{"error":"no","choices":[]}"#,
            r#"{"usage":{"prompt_tokens":1},"choices":[]}"#,
            r#"{"x_groq":{"usage":{}},"id":1,"choices":[]}"#,
            r#"{"id":1,"inner":{"n":2,"choices":[]},"choices":[]}"#,
            r#"[{"id":1,"choices":[]}]"#,
        ] {
            assert_eq!(removed(&mut Head::default(), first, first), None, "{first}");
        }
    }
}
