//! Values that depend on the current state: workers, runs, models, cases, parameters and columns.

use super::Candidate;
use crate::{
    args::{ProgramArgs, ProgramFlags},
    past_runs,
    program::{looked_at, reading_host, surroundings},
};
use llm_do::{
    Environment, StoredKeys,
    models::{KeySource, Providers},
    program::{Listing, LoadOptions, Program, Start, cases, list_workers, target},
};
use llm_do_map::column_names;
use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The most runs that are offered, the newest.
const MOST_RUNS: usize = 40;

/// The kind of an argument's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A worker file, or another file or folder.
    Target,
    /// A worker of the project.
    Worker,
    /// A recorded run.
    Run,
    /// A model that is available for answers.
    Model,
    /// A model of `llm-do models`.
    Local,
    /// A case of the program.
    Case,
    /// A parameter with a value.
    Parameter,
    /// A parameter with a column of the input.
    ParameterColumn,
    /// A column of the input.
    Column,
}

impl Kind {
    /// Determines the kind from the command and the name that its help gives the argument.
    pub(super) fn of(command: &[&str], name: &str) -> Option<Self> {
        match (command, name) {
            (["models", "pull" | "remove"], "NAME") => Some(Self::Local),
            (["test"], "NAME") => Some(Self::Case),
            (["map" | "tune"], "WORKER") | (_, "TARGET") => Some(Self::Target),
            (_, "WORKER" | "ID") => Some(Self::Worker),
            (_, "RUN" | "RUNS" | "RUN [TARGET]") => Some(Self::Run),
            (_, "MODEL" | "PROVIDER:MODEL") => Some(Self::Model),
            (["map" | "run"], "NAME=VALUE") => Some(Self::Parameter),
            (["map"], "PARAMETER=COLUMN") => Some(Self::ParameterColumn),
            (["map"], "COLUMN") => Some(Self::Column),
            _ => None,
        }
    }
}

/// The words of the command line that name a program and its input.
#[derive(Debug, Default)]
pub(super) struct Words {
    pub(super) positionals: Vec<String>,
    /// Number of words before the target: the commands of `runs` name a run first.
    pub(super) before_target: usize,
    project: Option<String>,
    entry: Option<String>,
}

impl Words {
    /// Notes the value of an option.
    pub(super) fn set(&mut self, option: &str, value: &str) {
        match option {
            "project" => self.project = Some(value.to_owned()),
            "entry" => self.entry = Some(value.to_owned()),
            _ => {}
        }
    }

    /// Returns the program that the words name, and its load options.
    fn program(&self) -> Option<(target::Target, LoadOptions)> {
        self.found(self.positionals.first().filter(|_| self.project.is_none()).cloned(), self.entry.clone())
    }

    /// Returns the project that the words name, or the current one, with its load options.
    fn project(&self) -> Option<(target::Target, LoadOptions)> {
        let target = self.positionals.get(self.before_target).filter(|_| self.project.is_none());
        target.and_then(|target| self.found(Some(target.clone()), None)).or_else(|| self.found(None, None))
    }

    /// Returns the target and its load options. No Python is started for it.
    fn found(&self, target: Option<String>, entry: Option<String>) -> Option<(target::Target, LoadOptions)> {
        let project = self.project.as_ref().map(PathBuf::from);
        let program = ProgramFlags { project, entry, no_import_tools: true, ..ProgramFlags::default() };
        let request = looked_at(&ProgramArgs { target, program });
        let around = surroundings().ok()?;
        let target = target::find(&request, &around).ok()?;
        let host = reading_host(&request, &around, &target).ok()?;
        Some((target, LoadOptions { code: None, ..host }))
    }
}

/// Returns the candidates of a kind, of which `current` is typed. Unreadable files give no candidates, because a press
/// of the key must print no errors.
pub(super) fn values(kind: Kind, words: &Words, current: &str) -> Vec<Candidate> {
    let project = words.project.as_deref();
    match kind {
        Kind::Target => worker_files(words),
        Kind::Worker => workers(words)
            .into_iter()
            .map(|worker| Candidate::new(worker.id, first_line(worker.description)))
            .collect(),
        Kind::Run => recorded(project),
        Kind::Model => models(words),
        Kind::Local => local(),
        Kind::Case => cases(words),
        Kind::Parameter => parameters(words),
        Kind::ParameterColumn => match current.split_once('=') {
            None => parameters(words),
            Some((parameter, _)) => columns(words)
                .into_iter()
                .map(|column| Candidate::new(format!("{parameter}={column}"), "a column"))
                .collect(),
        },
        Kind::Column => columns(words).into_iter().map(|column| Candidate::new(column, "")).collect(),
    }
}

fn first_line(text: Option<String>) -> String {
    text.unwrap_or_default().trim().lines().next().unwrap_or_default().to_owned()
}

/// Returns the workers of the project.
fn workers(words: &Words) -> Vec<Listing> {
    let Some((target, host)) = words.project() else { return Vec::new() };
    list_workers(&target.source, host).map(|listed| listed.workers).unwrap_or_default()
}

/// Returns the worker files of the current project, with paths relative to the current directory.
fn worker_files(words: &Words) -> Vec<Candidate> {
    let Some((target, host)) = words.project().filter(|_| words.project.is_none()) else { return Vec::new() };
    let is_here = env::current_dir().is_ok_and(|here| Path::new(target.source.tree.root().as_str()) == here);
    let listed = list_workers(&target.source, host).ok().filter(|_| is_here);
    let workers = listed.map(|listed| listed.workers).unwrap_or_default();
    workers
        .into_iter()
        // Those of libraries lie elsewhere.
        .filter(|worker| Path::new(&worker.path).is_relative())
        .map(|worker| Candidate::new(worker.path, first_line(worker.description)))
        .collect()
}

/// Returns the cases of the program.
fn cases(words: &Words) -> Vec<Candidate> {
    let Some((target::Target { source, .. }, _)) = words.program() else { return Vec::new() };
    let tree = source.tree.as_ref();
    let paths = match &source.start {
        Start::File(file) => cases::of_worker_file(tree, file),
        Start::Entry(_) => cases::files(tree),
    };
    let mut found = BTreeMap::new();
    for path in paths {
        let file = cases::read(tree, &path, &mut Vec::new());
        for case in file.into_iter().flat_map(|file| file.cases) {
            found.entry(case.name.to_string()).or_insert_with(|| path.clone());
        }
    }
    found.into_iter().map(|(name, path)| Candidate::new(name, path)).collect()
}

/// Returns the parameters of the program's entry, each in the form before its value.
fn parameters(words: &Words) -> Vec<Candidate> {
    let loaded = words.program().and_then(|(target, host)| Program::load(target.source, host).ok());
    let Some(loaded) = loaded else { return Vec::new() };
    let parameters = &loaded.program.entry().signature.parameters;
    parameters.iter().map(|it| Candidate::new(format!("{}=", it.name), &*it.shown_type)).collect()
}

/// Returns the columns of a map's input.
fn columns(words: &Words) -> Vec<String> {
    let [_, input, ..] = &words.positionals[..] else { return Vec::new() };
    column_names(Path::new(input)).unwrap_or_default()
}

/// Returns the newest runs, and `last`.
fn recorded(project: Option<&str>) -> Vec<Candidate> {
    let folders = past_runs::folders(None, project.map(Path::new)).unwrap_or_default();
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
fn models(words: &Words) -> Vec<Candidate> {
    let mut named: BTreeSet<(String, String)> = workers(words)
        .into_iter()
        .flat_map(|worker| {
            let about = format!("of the worker {}", worker.id);
            worker.models.into_iter().map(move |model| (model, about.clone()))
        })
        .collect();
    let mut seen = BTreeSet::new();
    named.retain(|(model, _)| seen.insert(model.clone()));
    let environment: Environment = Arc::new(|name| env::var(name).ok());
    let stored = StoredKeys::read(&crate::program::home()).unwrap_or_default();
    let providers = Providers::new(move |name| environment(name)).stored_keys(stored.pairs());
    let of_provider = providers.with_keys().into_iter().map(|(name, variable, source)| match source {
        KeySource::Environment => (format!("{name}:"), format!("{variable} is set")),
        KeySource::Stored => (format!("{name}:"), "a key is stored".to_owned()),
    });
    let installed = installed().into_iter().map(|(name, size)| (format!("local:{name}"), size));
    named
        .into_iter()
        .chain(installed)
        .chain(of_provider)
        .map(|(model, about)| Candidate::new(model, about))
        .collect()
}

/// Returns the installed local models, with their sizes.
#[cfg(feature = "local")]
fn installed() -> Vec<(String, String)> {
    use crate::commands::models::megabytes;
    let models = crate::opening::store().list().unwrap_or_default();
    models
        .into_iter()
        .map(|model| (model.name, format!("{}, on this machine", megabytes(model.size))))
        .collect()
}

#[cfg(not(feature = "local"))]
fn installed() -> Vec<(String, String)> {
    Vec::new()
}

/// Returns the models of the catalogue, and the other installed ones.
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
