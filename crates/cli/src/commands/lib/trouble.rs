//! Errors of commands about libraries.

use crate::{
    args::Format,
    exit::{Complaint, Exit},
    program::findings,
    render::Output,
};
use llm_do::program::{Diagnostic, diagnostics::json::to_json};

/// A sentence, or findings in files.
#[derive(Debug)]
pub(crate) enum Trouble {
    Said(Box<Complaint>),
    Found(Vec<Diagnostic>),
}

impl From<Complaint> for Trouble {
    fn from(complaint: Complaint) -> Self {
        Self::Said(Box::new(complaint))
    }
}

impl From<Diagnostic> for Trouble {
    fn from(one: Diagnostic) -> Self {
        Self::Found(vec![one])
    }
}

impl Trouble {
    /// Adds the place of the error.
    pub(crate) fn during(self, what: &str) -> Self {
        match self {
            Self::Said(mut complaint) => {
                complaint.message = format!("{what}: {}", complaint.message);
                Self::Said(complaint)
            }
            Self::Found(mut found) => {
                for one in found.iter_mut().filter(|one| one.is_error()) {
                    one.notes.push(what.to_owned());
                }
                Self::Found(found)
            }
        }
    }

    /// Shows findings. A sentence is returned to the caller, which shows it.
    pub(crate) fn show(self, output: &Output) -> Result<Exit, Complaint> {
        match self {
            Self::Said(complaint) => Err(*complaint),
            Self::Found(found) => {
                output.screen.line(&findings(&found, output.err));
                if output.format != Format::Text {
                    output.print_json(&to_json(&found));
                }
                Ok(Exit::Wrong)
            }
        }
    }
}
