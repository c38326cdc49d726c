//! `llm-do runs export`: exports a run for other people and programs.

use super::{collector, program};
use crate::{
    args::ExportArgs,
    commands::cases,
    exit::{Complaint, Exit},
    past_runs::folder,
    render::Output,
    whole_file,
};
use llm_do_records::{otlp, page};
use llm_do_runs::read_run;
use std::path::Path;

/// Writes the run in the requested format.
pub(super) fn export(export: &ExportArgs, project: Option<&Path>, output: &Output) -> Result<(), Complaint> {
    if export.form.cases.is_some() {
        return cases::export(export, project, output);
    }
    if export.form.program {
        return program::export(export, project, output);
    }
    let (run, target) = match export.runs.as_slice() {
        [run] => (run, None),
        [run, target] => (run, Some(target.as_str())),
        _ => {
            return Err(Complaint::wrong("one run is exported at a time").hint("several can be with --cases"));
        }
    };
    let dir = folder(run, target, project)?;
    let run = read_run(&dir).map_err(|error| Complaint::wrong(error.to_string()))?;
    match export.form.otel.as_deref() {
        None => deliver(&page(&run, llm_do_serve::export_template()), export.to.as_deref(), output),
        Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
            let sent = collector::send(url, otlp(&run, export.content))?;
            output.note(&format!("sent to {sent}"));
            Ok(())
        }
        Some(file) => deliver(&format!("{}\n", otlp(&run, export.content)), Some(Path::new(file)), output),
    }
}

/// Writes a text to the named file, or to stdout.
fn deliver(text: &str, to: Option<&Path>, output: &Output) -> Result<(), Complaint> {
    match to.filter(|path| path.as_os_str() != "-") {
        None => output.print(text),
        Some(path) => {
            whole_file::write(path, text.as_bytes())
                .map_err(|error| Complaint { exit: Exit::Failed, ..Complaint::unwritten(path, &error) })?;
            output.note(&format!("written to {}", path.display()));
        }
    }
    Ok(())
}
