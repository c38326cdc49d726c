//! `llm-do runs export`: a run in a form for others to look at.

use super::find;
use crate::{args::ExportArgs, exit::Complaint, render::Output};
use llm_do_runs::{WholeRun, page};
use std::{fs, path::PathBuf};

/// Writes the run in the form that is asked for.
pub(crate) fn export(folders: &[PathBuf], export: &ExportArgs, output: &Output) -> Result<(), Complaint> {
    let dir = find(folders, &export.run)?;
    let run = WholeRun::read(&dir).map_err(|error| Complaint::failed(error.to_string()))?;
    deliver(&page(&run), export, output)
}

/// To the file that is named, or to stdout.
fn deliver(text: &str, export: &ExportArgs, output: &Output) -> Result<(), Complaint> {
    match export.to.as_deref().filter(|path| path.as_os_str() != "-") {
        None => output.print(text),
        Some(path) => {
            fs::write(path, text)
                .map_err(|error| Complaint::failed(format!("cannot write {}: {error}", path.display())))?;
            output.note(&format!("written to {}", path.display()));
        }
    }
    Ok(())
}
