//! The recorded invocation of a run on this machine: its program may have moved with its runs.

use crate::settings::Settings;
use llm_do_host::{BadInvocation, Invocation};
use llm_do_program::target::{self, Request, Surroundings};
use llm_do_sandbox::place_of;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the settings of a recorded invocation; `base` provides those that depend on this machine and the current
/// time. The program is the project that keeps the journal, even if the journal names another place: a project may be
/// moved or copied with its runs.
///
/// # Errors
/// A rule or grant can't be read.
pub(crate) fn settings(
    invocation: &Invocation,
    base: Settings,
    run_dir: &Path,
) -> Result<Settings, BadInvocation> {
    let run = invocation.options(base.run, &place_of)?;
    let (mut around, mut request) = (base.around, invocation.request.clone());
    around.here.clone_from(&invocation.here);
    if let Some(project) = project_of(run_dir, &base.home)
        && let Some(moved) = moved(&request, &around, &project)
    {
        (request, around.here) = moved;
    }
    Ok(Settings { request, around, run, ..base })
}

/// Returns the project that keeps the run in that folder: the folder is `PROJECT/.llm-do/runs/RUN`. Runs of lone files
/// are kept in the user's folder, `home`.
fn project_of(run_dir: &Path, home: &Path) -> Option<PathBuf> {
    let dir = fs::canonicalize(run_dir).ok()?;
    if fs::canonicalize(home).is_ok_and(|home| dir.starts_with(home)) {
        return None;
    }
    let root = dir.ancestors().nth(3)?;
    dir.starts_with(root.join(".llm-do/runs")).then(|| root.to_owned())
}

/// Returns a request for the program in `project`, with a current directory, in place of a request for a program that
/// was moved from there or copied. `None`: the request refers to that project, a lone file, or a file that is not in
/// the project.
fn moved(request: &Request, around: &Surroundings, project: &Path) -> Option<(Request, PathBuf)> {
    let root = |request: &Request, here: &Path| {
        let around = Surroundings { here: here.to_owned(), ..around.clone() };
        let found = target::find(request, &around).ok()?;
        let root = fs::canonicalize(found.source.tree.root().as_str()).ok()?;
        Some((root, found.source.work.is_some()))
    };
    let before = match root(request, &around.here) {
        Some((_, true)) => return None,
        Some((root, false)) if root == project => return None,
        found => found.map(|(root, _)| root),
    };
    let inside = |path: &Path| {
        let path = fs::canonicalize(path).ok()?;
        Some(project.join(path.strip_prefix(before.as_deref()?).ok()?))
    };
    let here = match around.here.exists() {
        true => inside(&around.here).unwrap_or_else(|| around.here.clone()),
        false => project.to_owned(),
    };
    let mut candidates =
        vec![Request { project: request.project.as_ref().map(|_| project.to_owned()), ..request.clone() }];
    let named = request.positionals.first().map(|target| around.here.join(target));
    let file = named.as_ref().and_then(|path| inside(path).or_else(|| ending_in(project, path)));
    for path in file.into_iter().chain([project.to_owned()]) {
        // Beside a message, if an empty one, a word is never the message.
        let positionals = vec![path.to_string_lossy().into_owned(), String::new()];
        candidates.push(Request { positionals, project: None, ..request.clone() });
    }
    let fits = |request: &Request| root(request, &here).is_some_and(|(root, lone)| !lone && root == project);
    let found = candidates.into_iter().find(fits)?;
    Some((found, here))
}

/// Returns the file of a project whose path has the longest end in common with the path of a missing file.
fn ending_in(project: &Path, gone: &Path) -> Option<PathBuf> {
    let names: Vec<_> = gone.iter().collect();
    let ends = (1..names.len()).map(|start| project.join(names[start..].iter().collect::<PathBuf>()));
    ends.into_iter().find(|path| path.is_file())
}
