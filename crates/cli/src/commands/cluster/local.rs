//! Local copies of a cluster's runs, for the commands that read runs from their folders.

use super::{Opened, PREFIX, line, to_json};
use crate::{
    args::{DatabaseArgs, Format},
    exit::Complaint,
    program::home,
    render::Output,
};
use llm_do_cluster::{RunInfo, copy_program, copy_run};
use llm_do_runs::SealKey;
use serde_json::json;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A copy of a run beside a copy of its program, in a temporary folder.
pub(crate) struct LocalCopy {
    pub(crate) run: RunInfo,
    /// The run's folder, below that of the program.
    pub(crate) dir: PathBuf,
    _folder: TempDir,
}

impl LocalCopy {
    /// Copies the run with that name.
    pub(crate) fn of(run: &str, database: Option<&String>) -> Result<Self, Complaint> {
        let opened = Opened::new(&database_of(run, database)?)?;
        let dispatch = opened.dispatch(None)?;
        Self::fetch(&opened, &dispatch, run.strip_prefix(PREFIX).unwrap_or(run))
    }

    pub(crate) fn fetch(
        opened: &Opened,
        dispatch: &llm_do_cluster::Dispatch,
        run: &str,
    ) -> Result<Self, Complaint> {
        let failed = |error: std::io::Error| Complaint::failed(format!("cannot copy the run: {error}"));
        let run = opened.wait(dispatch.find(run))?;
        let folder = tempfile::Builder::new().prefix("llm-do-pg-").tempdir().map_err(failed)?;
        let key = SealKey::of(&home()).map_err(failed)?;
        let program = opened.wait(copy_program(dispatch, &run.bundle, folder.path()))?;
        let runs_dir = program.join(".llm-do").join("runs");
        let dir = opened.wait(copy_run(dispatch, &run.id, &runs_dir, &key))?;
        Ok(Self { run, dir, _folder: folder })
    }
}

/// Returns the database of a run on a cluster.
pub(super) fn database_of(run: &str, database: Option<&String>) -> Result<DatabaseArgs, Complaint> {
    let database = database.cloned().ok_or_else(|| {
        Complaint::wrong(format!("`{run}` is a run of a cluster, and no database is named"))
            .hint("name it with --database URL or in LLM_DO_DATABASE")
    })?;
    Ok(DatabaseArgs { database })
}

/// Lists the newest runs of a cluster.
pub(crate) fn list(database: &str, limit: usize, output: &Output) -> Result<(), Complaint> {
    let opened = Opened::new(&DatabaseArgs { database: database.to_owned() })?;
    let dispatch = opened.dispatch(None)?;
    let runs = opened.wait(dispatch.runs("", i32::try_from(limit).unwrap_or(i32::MAX)))?;
    if output.format != Format::Text {
        output.print_json(&json!({"runs": runs.iter().map(to_json).collect::<Vec<_>>()}));
    } else if runs.is_empty() {
        output.note(&format!("the tenant {} has no runs", dispatch.tenant()));
    } else {
        output.print(&runs.iter().map(line).collect::<String>());
    }
    Ok(())
}

/// Copies a run into a folder for local runs.
pub(crate) fn export_copy(
    run: &str,
    database: Option<&String>,
    to: &Path,
    output: &Output,
) -> Result<(), Complaint> {
    let opened = Opened::new(&database_of(run, database)?)?;
    let dispatch = opened.dispatch(None)?;
    let found = opened.wait(dispatch.find(run.strip_prefix(PREFIX).unwrap_or(run)))?;
    let key = SealKey::of(&home()).map_err(|error| Complaint::failed(error.to_string()))?;
    let dir = opened.wait(copy_run(&dispatch, &found.id, to, &key))?;
    output.note(&format!("{PREFIX}{} is in {}", found.id, dir.display()));
    Ok(())
}
