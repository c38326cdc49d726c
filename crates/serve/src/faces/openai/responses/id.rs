//! The IDs of responses and of their items.

use crate::{
    error::Code,
    faces::{answering::Shown, openai::error::Wrong},
};
use llm_do::runs::is_run_id;
use std::{fmt, sync::Arc};

/// The ID of a response: `resp_RUN` for the one that started the run, `resp_RUN_N` for one that begins with record N.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResponseId {
    pub(super) run: Arc<str>,
    /// The number of the response's first record.
    pub(super) from: u64,
}

impl ResponseId {
    pub(super) fn first(run: Arc<str>) -> Self {
        Self { run, from: 0 }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("resp_")?;
        let (run, from) = match rest.split_once('_') {
            None => (rest, 0),
            Some((run, from)) => (run, from.parse().ok()?),
        };
        is_run_id(run).then(|| Self { run: run.into(), from })
    }

    pub(super) fn unknown(text: &str) -> Wrong {
        let shown: String = text.chars().filter(|c| !c.is_control()).take(60).collect();
        Wrong::new(Code::NotFound, format!("there is no response `{shown}`"))
            .at("previous_response_id")
            .named("previous_response_not_found")
    }
}

impl fmt::Display for ResponseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            0 => write!(f, "resp_{}", self.run),
            from => write!(f, "resp_{}_{from}", self.run),
        }
    }
}

/// The beginning of the ID of an approval request. The question follows.
const REQUEST: &str = "mcpr_";

/// The ID of the approval request for a question.
pub(super) fn request_id(shown: &Shown) -> String {
    format!("{REQUEST}{shown}")
}

/// Reads the question from the ID of its approval request.
pub(super) fn requested(text: &str) -> Option<Shown> {
    text.strip_prefix(REQUEST)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_was_written_and_others_are_none() {
        for text in ["resp_20261121-221530-4f2a", "resp_20261121-221530-4f2a_17"] {
            assert_eq!(ResponseId::parse(text).map(|id| id.to_string()).as_deref(), Some(text));
        }
        let request = "mcpr_20261121-221530-4f2a_0123456789abcdef";
        assert_eq!(requested(request).map(|shown| request_id(&shown)).as_deref(), Some(request));
        for wrong in [
            "",
            "resp_",
            "resp_../../etc",
            "resp_20261121-221530-4f2a_x",
            "mcpr_20261121-221530-4f2a",
            "mcpr_a_b",
        ] {
            assert_eq!(ResponseId::parse(wrong), None, "{wrong}");
            assert_eq!(requested(wrong), None, "{wrong}");
        }
    }
}
