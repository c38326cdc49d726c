//! The HTML page of a recorded run.

use crate::files::RunFiles;
use llm_do_records::{WholeRun, page, render};
use serde::{Deserialize, Serialize};

/// A request to render a run.
#[derive(Deserialize)]
pub(crate) struct PageRequest {
    /// ID of the run.
    run: String,
    /// The files of the run.
    files: RunFiles,
}

/// The renderings.
#[derive(Serialize)]
pub(crate) struct Pages {
    /// The HTML page.
    html: String,
    /// The tree of calls, line by line.
    tree: Vec<String>,
}

impl PageRequest {
    pub(crate) fn report(self) -> Result<Pages, String> {
        let run = WholeRun::of(&self.run, self.files.read()?, false);
        let tree = render(run.tree(), None).iter().map(ToString::to_string).collect();
        Ok(Pages { html: page(&run, None), tree })
    }
}
