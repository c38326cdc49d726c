//! `llm-do lsp`: the language server (docs/reference/lsp.md).

use crate::{
    args::Format,
    exit::{Complaint, Exit},
    opening::surrounded,
    render::Output,
};
use llm_do::Settings;
use llm_do_lsp::{Ended, Host, serve};
use std::{path::Path, sync::Arc};

/// Runs the command.
pub(crate) fn run(output: &Output) -> Result<Exit, Complaint> {
    if output.format != Format::Text {
        return Err(Complaint::wrong("--output is not available for lsp: stdout carries the protocol"));
    }
    match serve(Arc::new(Editor)) {
        Ok(Ended::Properly) => Ok(Exit::Done),
        Ok(Ended::Abruptly) => Ok(Exit::Failed),
        Err(problem) => Err(Complaint::failed(problem)),
    }
}

/// The command line, as the host of a language server.
struct Editor;

impl Host for Editor {
    fn settings(&self, folder: &Path) -> Result<Settings, String> {
        let mut settings = surrounded().map_err(|complaint| complaint.message)?;
        settings.around.here = folder.to_owned();
        // The program is the one around the file, whatever the environment names.
        settings.around.project = None;
        Ok(settings)
    }
}
