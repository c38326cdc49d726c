//! A project, a folder of installed libraries, and a host that remembers what it was asked to show.

use llm_do_core::toolset::ToolsetRegistry;
use llm_do_packages::{Error, Host, Installation, PackageManager, Placed};
use llm_do_program::Diagnostic;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Mutex,
};
use tempfile::TempDir;

/// The text of a worker.
pub(crate) const WORKER: &str = "---\n---\nHi.\n";

/// Returns the text of a `lib.yaml` that exports the worker `a`.
pub(crate) fn lib(name: &str, version: &str, more: &str) -> String {
    format!("name: {name}\nversion: {version}\nexports: [a]\n{more}")
}

/// Folders of a user.
pub(crate) struct World {
    dir: TempDir,
    pub(crate) shown: Shown,
}

/// A host that shows nothing.
#[derive(Default)]
pub(crate) struct Shown {
    lines: Mutex<Vec<String>>,
}

impl Shown {
    fn add(&self, line: String) {
        self.lines.lock().expect("no other test has it").push(line);
    }

    /// Returns the lines that were shown, and forgets them.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().expect("no other test has it"))
    }
}

impl Host for Shown {
    fn toolsets(&self) -> ToolsetRegistry {
        ToolsetRegistry::built_in()
    }

    fn make_folder(&self, path: &Path) -> io::Result<PathBuf> {
        fs::create_dir_all(path)?;
        fs::canonicalize(path)
    }

    fn note(&self, text: &str) {
        self.add(text.to_owned());
    }

    fn warn(&self, found: &[Diagnostic]) {
        found.iter().for_each(|one| self.add(format!("{}[{}] {}", one.severity, one.code, one.message)));
    }

    fn fetching(&self, url: &str) {
        self.add(format!("fetching {url}"));
    }

    fn fetched(&self) {}
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join("project")).expect("a folder");
        Self { dir, shown: Shown::default() }
    }

    /// A project with the library `utils` in a folder.
    pub(crate) fn utils() -> Self {
        let world = Self::new();
        world.library("utils", "utils", "1.2.0", "description: Text tools\n");
        world
    }

    /// The folder around the project.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.dir().join("project")
    }

    /// The folder of installed libraries.
    pub(crate) fn libs(&self) -> PathBuf {
        self.dir().join("home/libs")
    }

    /// Writes a file of the project.
    pub(crate) fn file(&self, path: &str, text: &str) -> &Self {
        let path = self.project().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file");
        self
    }

    /// Adds a library in a folder of the project.
    pub(crate) fn library(&self, folder: &str, name: &str, version: &str, more: &str) -> &Self {
        self.file(&format!("{folder}/lib.yaml"), &lib(name, version, more))
            .file(&format!("{folder}/workers/a.worker"), WORKER)
    }

    /// The package manager in the project.
    pub(crate) fn manager(&self) -> PackageManager<'_> {
        self.manager_in(&self.project())
    }

    /// The package manager in another folder.
    pub(crate) fn manager_in(&self, folder: &Path) -> PackageManager<'_> {
        let is_project = folder.join("project.yaml").exists();
        PackageManager {
            here: folder.to_owned(),
            roots: vec![self.libs()],
            project: is_project.then(|| fs::canonicalize(folder).expect("a folder")),
            projects: self.dir().join("home/library-projects"),
            host: &self.shown,
        }
    }

    pub(crate) fn install(&self, spec: &str) -> Installation {
        self.manager().install(spec, false).unwrap_or_else(|error| panic!("{spec}: {error}"))
    }

    pub(crate) fn install_dependencies(&self) -> Installation {
        self.manager().install_dependencies(false, false).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn lock(&self) -> Option<String> {
        fs::read_to_string(self.project().join("llm-do.lock")).ok()
    }

    /// The entries of the folder of installed libraries, except its lock.
    pub(crate) fn installed(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.libs()) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
        names.retain(|name| name != ".lock");
        names.sort();
        names
    }
}

/// Returns the change that an installation made to its first library.
pub(crate) fn placed(installation: &Installation) -> Placed {
    installation.outcomes[0].placed
}

/// Returns the changes of the lock file.
pub(crate) fn changes(installation: &Installation) -> Vec<String> {
    let changes = installation.pinning.iter().flat_map(|pinning| &pinning.changes);
    changes.map(ToString::to_string).collect()
}

/// Checks that a command fails with a text, in its message, its hints or its findings.
pub(crate) fn refused<T>(outcome: Result<T, Error>, with: &str) {
    let Err(error) = outcome else { panic!("it was not refused: `{with}`") };
    let told = match error {
        Error::Message(message) => format!("{}\n{}", message.text, message.hints.join("\n")),
        Error::Found(found) => {
            let lines = found.iter().map(|one| {
                let place = one.span.as_ref().map(llm_do_program::span::Span::origin).unwrap_or_default();
                format!("{} {} {place}\n{}\n{}", one.code, one.message, one.notes.join("\n"), helps(one))
            });
            lines.collect()
        }
    };
    assert!(told.contains(with), "`{with}` is missing: {told}");
}

fn helps(one: &Diagnostic) -> String {
    one.help.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
