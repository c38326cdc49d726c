//! Values that are here and now: workers, runs, models and cases.

use super::Candidate;
use crate::{
    args::{ProgramArgs, ProgramFlags},
    commands::runs,
    program::{looked_at, reading_host, surroundings},
};
use llm_do::{
    Environment,
    models::Providers,
    program::{Listing, list_workers, target},
};
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Most runs that are offered, the newest.
const MOST_RUNS: usize = 40;

/// Most files of cases that are looked for.
const MOST_CASES: usize = 1000;

/// What an argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A worker of the project, or a file.
    Target,
    /// A worker of the project.
    Worker,
    /// A recorded run.
    Run,
    /// A model that could answer.
    Model,
    /// A model of `llm-do models`.
    Local,
    /// A worker that has cases.
    Cases,
}

impl Kind {
    /// By the command and the name that its help gives the argument.
    pub(super) fn of(command: &[&str], name: &str) -> Option<Self> {
        match (command, name) {
            (["models", "pull" | "remove"], "NAME") => Some(Self::Local),
            // Files `NAME.cases.yaml` stand beside a worker (`llm-do test`).
            (["test"], "TARGET" | "WORKER" | "CASES") | (_, "CASES") => Some(Self::Cases),
            (_, "TARGET") => Some(Self::Target),
            (_, "WORKER" | "ID") => Some(Self::Worker),
            (_, "RUN" | "RUNS" | "RUN [TARGET]") => Some(Self::Run),
            (_, "MODEL" | "PROVIDER:MODEL") => Some(Self::Model),
            _ => None,
        }
    }
}

/// The candidates of a kind, for the project here or the one that is named. What cannot be read offers none: a press of
/// the key prints no errors.
pub(super) fn values(kind: Kind, project: Option<&str>) -> Vec<Candidate> {
    match kind {
        Kind::Target | Kind::Worker => workers(project)
            .into_iter()
            .map(|worker| Candidate::new(worker.id, first_line(worker.description)))
            .collect(),
        Kind::Run => recorded(project),
        Kind::Model => models(project),
        Kind::Local => local(),
        Kind::Cases => cases(Path::new(project.unwrap_or("."))),
    }
}

fn first_line(text: Option<String>) -> String {
    text.unwrap_or_default().trim().lines().next().unwrap_or_default().to_owned()
}

/// The workers of the project. No Python is started for it.
fn workers(project: Option<&str>) -> Vec<Listing> {
    let flags = ProgramFlags {
        project: project.map(PathBuf::from),
        no_import_tools: true,
        ..ProgramFlags::default()
    };
    let request = looked_at(&ProgramArgs { target: None, program: flags });
    let Ok(around) = surroundings() else { return Vec::new() };
    let Ok(target) = target::find(&request, &around) else { return Vec::new() };
    let Ok(host) = reading_host(&request, &around, &target) else { return Vec::new() };
    list_workers(&target.source, host).map(|listed| listed.workers).unwrap_or_default()
}

/// The newest runs, and `last`.
fn recorded(project: Option<&str>) -> Vec<Candidate> {
    let folders = runs::folders(None, project.map(Path::new)).unwrap_or_default();
    let mut found: Vec<_> = folders
        .iter()
        .filter_map(|folder| llm_do::runs::list_runs(folder, MOST_RUNS).ok())
        .flatten()
        .collect();
    found.sort_by(|a, b| b.run.cmp(&a.run));
    found.truncate(MOST_RUNS);
    let last = found.first().map(|_| Candidate::new("last", "the newest run"));
    let about = |run: &llm_do::runs::RunSummary| format!("{} {}", run.state.as_str(), run.target);
    last.into_iter().chain(found.iter().map(|run| Candidate::new(run.run.clone(), about(run)))).collect()
}

/// Models that workers of the project name, those on this machine, and the providers that have a key.
fn models(project: Option<&str>) -> Vec<Candidate> {
    let mut named: BTreeSet<(String, String)> = workers(project)
        .into_iter()
        .filter_map(|worker| Some((worker.model?, format!("of the worker {}", worker.id))))
        .collect();
    let mut seen = BTreeSet::new();
    named.retain(|(model, _)| seen.insert(model.clone()));
    let environment: Environment = Arc::new(|name| env::var(name).ok());
    let providers = Providers::new(move |name| environment(name));
    let of_provider = providers
        .with_keys()
        .into_iter()
        .map(|(name, variable)| (format!("{name}:"), format!("{variable} is set")));
    let installed = installed().into_iter().map(|(name, size)| (format!("local:{name}"), size));
    named
        .into_iter()
        .chain(installed)
        .chain(of_provider)
        .map(|(model, about)| Candidate::new(model, about))
        .collect()
}

/// Local models that are here, with their sizes.
#[cfg(feature = "local")]
fn installed() -> Vec<(String, String)> {
    let models = crate::opening::store().list().unwrap_or_default();
    models
        .into_iter()
        .map(|model| (model.name, format!("{} MB, on this machine", model.size / 1_000_000)))
        .collect()
}

#[cfg(not(feature = "local"))]
fn installed() -> Vec<(String, String)> {
    Vec::new()
}

/// The models of the catalogue, and the others that are here.
fn local() -> Vec<Candidate> {
    #[cfg(feature = "local")]
    let catalogue =
        llm_do_inference::CATALOGUE.iter().map(|entry| (entry.name.to_owned(), entry.description.to_owned()));
    #[cfg(not(feature = "local"))]
    let catalogue = std::iter::empty();
    let mut seen = BTreeSet::new();
    catalogue
        .chain(installed())
        .filter(|(name, _)| seen.insert(name.clone()))
        .map(|(name, about)| Candidate::new(name, about))
        .collect()
}

/// The workers that have files of cases, below the folder. Folders that begin with a dot and links are passed over.
fn cases(folder: &Path) -> Vec<Candidate> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![(folder.to_owned(), 0)];
    let mut left = MOST_CASES;
    while let Some((folder, depth)) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            left -= 1;
            if left == 0 {
                return found.into_iter().map(|name| Candidate::new(name, "has cases")).collect();
            }
            let Ok(name) = entry.file_name().into_string() else { continue };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < 4 && !name.starts_with('.') => {
                    waiting.push((entry.path(), depth + 1));
                }
                Ok(kind) if kind.is_file() => {
                    found.extend(name.strip_suffix(".cases.yaml").map(str::to_owned));
                }
                _ => {}
            }
        }
    }
    found.into_iter().map(|name| Candidate::new(name, "has cases")).collect()
}
