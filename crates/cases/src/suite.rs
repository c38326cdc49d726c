//! The cases of a program.

use llm_do::{Editing, Located, Problem, Settings};
use llm_do_program::{
    Diagnostic, Diagnostics, Start,
    cases::{self, Case, is_cases_file, worker_candidates},
    manifest::Manifest,
    resolve::Layout,
    scan,
    source::SourceTree,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The cases of a program, in the order of their files.
#[derive(Debug)]
pub struct Suite {
    /// The root of the program.
    pub(crate) root: PathBuf,
    /// The worker file that is the program, if the program is not a project.
    pub(crate) lone: Option<PathBuf>,
    /// The name of the Python function that the manifest starts with.
    function: Option<String>,
    /// Each case.
    pub cases: Vec<SuiteCase>,
}

/// A case, with its file and its worker.
#[derive(Clone, Debug)]
pub struct SuiteCase {
    /// The file of cases, relative to the program's root.
    pub file: Arc<str>,
    /// The worker's ID.
    pub worker: Arc<str>,
    /// The case.
    pub case: Arc<Case>,
}

/// The reason why a program has no cases to run.
#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    /// The program can't be read.
    #[error(transparent)]
    Problem(#[from] Problem),
    /// The program has no cases.
    #[error("there are no cases in {}", .0.display())]
    None(PathBuf),
}

impl Suite {
    /// Reads the cases of the program that the settings name. `make` makes the same settings each time.
    ///
    /// # Errors
    /// A case is wrong, the program can't be found, or there are no cases.
    pub fn open(make: &dyn Fn() -> Settings) -> Result<Self, SuiteError> {
        let settings = make();
        let located = Located::find(make())?;
        let source = located.source();
        let tree = source.tree.as_ref();
        let root = PathBuf::from(tree.root().as_str());
        let mut found: Vec<Diagnostic> = Editing::open(&settings)?.findings(BTreeMap::new());
        let of_cases = |finding: &Diagnostic| {
            finding.span.as_ref().is_some_and(|span| is_cases_file(span.file().path()))
        };
        found.retain(|finding| finding.is_error() && of_cases(finding));
        if !found.is_empty() {
            return Err(Problem::Program(Diagnostics(found)).into());
        }
        let (start, is_lone) = (&source.start, source.work.is_some());
        let mut suite_cases = Vec::new();
        let manifest = Manifest::load(tree, &mut Vec::new());
        let function = entry_function(&manifest);
        for (path, worker) in files(tree, start, &manifest, function.as_deref()) {
            let mut problems = Vec::new();
            let Some(file) = cases::read(tree, &path, &mut problems) else { continue };
            if problems.iter().any(Diagnostic::is_error) {
                return Err(Problem::Program(Diagnostics(problems)).into());
            }
            let (path, worker): (Arc<str>, Arc<str>) = (path.into(), worker.into());
            suite_cases.extend(file.cases.into_iter().map(|case| SuiteCase {
                file: Arc::clone(&path),
                worker: Arc::clone(&worker),
                case: Arc::new(case),
            }));
        }
        if suite_cases.is_empty() {
            return Err(SuiteError::None(root));
        }
        let lone = match start {
            Start::File(file) if is_lone => Some(root.join(file)),
            _ => None,
        };
        Ok(Self { root, lone, function, cases: suite_cases })
    }

    /// Returns the entry for a run of that worker, or `None` if the worker is the program's own entry.
    pub(crate) fn entry(&self, worker: &str) -> Option<String> {
        let is_own = self.lone.is_some() || self.function.as_deref() == Some(worker);
        (!is_own).then(|| worker.to_owned())
    }

    /// Returns true if the program is a project, and no lone worker file.
    pub fn is_project(&self) -> bool {
        self.lone.is_none()
    }

    /// Returns the root of the program.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the program whose budgets over time count the runs: its root, or the file of a lone worker.
    pub fn counted(&self) -> &Path {
        self.lone.as_ref().unwrap_or(&self.root)
    }
}

/// Lists each file of cases with its worker. `check` has reported the files without one.
fn files(
    tree: &dyn SourceTree,
    start: &Start,
    manifest: &Manifest,
    function: Option<&str>,
) -> Vec<(String, String)> {
    let layout = Layout::of(manifest);
    if let Start::File(file) = start {
        let id = layout.identify(file).id;
        let of_file = cases::of_worker_file(tree, file);
        return of_file.into_iter().map(|path| (path, id.clone())).collect();
    }
    let workers: Vec<String> =
        scan::workers(tree, manifest, &layout).into_iter().map(|found| found.id).collect();
    let of = |path: String| {
        let mut candidates = worker_candidates(&layout, &path).into_iter();
        let id = candidates.find(|id| workers.contains(id) || function == Some(id))?;
        Some((path, id))
    };
    cases::files(tree).into_iter().filter_map(of).collect()
}

/// Returns the name of the Python function that is the program's entry. Callers know the entry by this name. An entry
/// of a library has a name of this form too, but `check` has refused cases for it.
fn entry_function(manifest: &Manifest) -> Option<String> {
    let (_, name) = manifest.entry.as_ref()?.as_text()?.rsplit_once(':')?;
    Some(name.to_owned())
}
