//! The programs of a workspace, each with its checker.

use crate::{Client, Host, documents::Documents};
use llm_do::{
    Settings,
    host::{
        Announce, Editing,
        program::{
            Cancel, Diagnostic, language::FileKind, manifest::LIBRARY, manifest::MANIFESTS,
            source::LARGEST_DEFINITION,
        },
        read_regular,
    },
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Folders that are never searched for programs.
const IGNORED: [&str; 7] = [".git", ".venv", "venv", "__pycache__", "node_modules", ".llm-do", "target"];
/// Limits of the search for programs.
const DEEPEST: usize = 6;
const MOST_ENTRIES: usize = 50_000;

/// A program, or a worker that belongs to none.
pub(crate) struct Program {
    /// The real path of its folder, or of the worker file.
    pub(crate) key: PathBuf,
    /// The real path of its folder.
    pub(crate) root: PathBuf,
    editing: Option<Editing>,
    /// The reason why it can't be opened.
    problem: Option<String>,
    /// The texts of the last check.
    texts: Option<BTreeMap<String, String>>,
    pub(crate) found: Vec<Diagnostic>,
}

/// All programs that were looked at.
pub(crate) struct Programs {
    host: Arc<dyn Host>,
    /// Hears what code is inspected.
    announce: Announce,
    pub(crate) trusted: bool,
    watches: bool,
    all: BTreeMap<PathBuf, Program>,
}

impl Programs {
    pub(crate) fn new(host: Arc<dyn Host>, client: &Client, announce: Announce) -> Self {
        Self { host, announce, trusted: client.trusted, watches: client.watches_files, all: BTreeMap::new() }
    }

    /// Returns the key of the program that a file belongs to: the nearest folder above it with a manifest, else with a
    /// `main.worker`, else the worker file itself.
    pub(crate) fn key(path: &Path, documents: &Documents) -> Option<PathBuf> {
        let kind = FileKind::of(path.to_str()?)?;
        let has = |folder: &Path, name: &str| {
            let file = folder.join(name);
            file.is_file() || documents.get(&file).is_some()
        };
        let folders = || path.ancestors().skip(1);
        let is_project = |folder: &&Path| MANIFESTS.iter().chain([&LIBRARY]).any(|name| has(folder, name));
        let found =
            folders().find(is_project).or_else(|| folders().find(|folder| has(folder, "main.worker")));
        match (found, kind) {
            (Some(folder), _) => Some(folder.to_owned()),
            (None, FileKind::Worker) => Some(path.to_owned()),
            (None, FileKind::YamlWorker) => is_worker(path, documents).then(|| path.to_owned()),
            (None, _) => None,
        }
    }

    /// Returns true if a file decides which programs there are.
    pub(crate) fn is_manifest(path: &Path) -> bool {
        let names = MANIFESTS.iter().copied().chain([LIBRARY, "main.worker"]);
        path.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| names.into_iter().any(|it| it == name))
    }

    /// Returns the programs in a folder of the workspace.
    pub(crate) fn in_folder(folder: &Path) -> Vec<PathBuf> {
        let (mut found, mut entries_left) = (Vec::new(), MOST_ENTRIES);
        let mut open = vec![(folder.to_owned(), 0)];
        while let Some((folder, depth)) = open.pop() {
            let names = MANIFESTS.iter().copied().chain([LIBRARY]);
            if names.chain(["main.worker"]).any(|name| folder.join(name).is_file()) {
                found.push(folder.clone());
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                entries_left = entries_left.saturating_sub(1);
                let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let name = entry.file_name();
                let is_ignored = name.to_str().is_none_or(|name| IGNORED.contains(&name));
                if is_folder && !is_ignored && depth < DEEPEST && entries_left > 0 {
                    open.push((entry.path(), depth + 1));
                }
            }
        }
        found
    }

    /// Returns the settings for a program.
    pub(crate) fn settings(&self, key: &Path) -> Result<Settings, String> {
        let folder = if key.is_dir() { key } else { key.parent().unwrap_or(key) };
        let mut settings = self.host.settings(folder)?;
        let target = key.to_str().ok_or("the path of the program is not UTF-8")?;
        settings.request.positionals = vec![target.to_owned()];
        Ok(settings)
    }

    /// Checks a program with the texts of open documents, if they differ from those of the last check or files have
    /// changed.
    pub(crate) fn check(&mut self, key: &Path, documents: &Documents) -> &Program {
        self.check_unless(key, documents, &Cancel::default()).0
    }

    /// [`Programs::check`], which `cancel` can end early. Returns false with the program then: its findings are old.
    pub(crate) fn check_unless(
        &mut self,
        key: &Path,
        documents: &Documents,
        cancel: &Cancel,
    ) -> (&Program, bool) {
        let root = if key.is_dir() { key.to_owned() } else { key.parent().unwrap_or(key).to_owned() };
        let opened = match self.all.get(key) {
            Some(program) if program.editing.is_some() || program.problem.is_some() => None,
            _ => Some(self.open(key)),
        };
        let program = self.all.entry(key.to_owned()).or_insert_with(|| Program {
            key: key.to_owned(),
            root,
            editing: None,
            problem: None,
            texts: None,
            found: Vec::new(),
        });
        if let Some(opened) = opened {
            program.texts = None;
            match opened {
                Ok(editing) => program.editing = Some(editing),
                Err(problem) => program.problem = Some(problem),
            }
        }
        let within = |path: &Path| Some(path.strip_prefix(&program.root).ok()?.to_str()?.to_owned());
        let texts: BTreeMap<String, String> = documents
            .iter()
            .filter_map(|(path, document)| Some((within(path)?, document.text.to_string())))
            .collect();
        if program.texts.as_ref() != Some(&texts) {
            if let Some(editing) = &mut program.editing {
                let Some(found) = editing.findings_unless(texts.clone(), cancel) else {
                    return (program, false);
                };
                program.found = found;
            }
            program.texts = Some(texts);
        }
        (program, true)
    }

    fn open(&self, key: &Path) -> Result<Editing, String> {
        let settings = self.settings(key)?;
        let opened = match self.trusted {
            true => Editing::open_announcing(&settings, Arc::clone(&self.announce)),
            false => Editing::without_code(&settings),
        };
        opened.map_err(|problem| problem.to_string())
    }

    /// Notes that files have changed on disk.
    pub(crate) fn changed(&mut self, paths: &[PathBuf]) {
        for (key, program) in &mut self.all {
            let mut is_elsewhere = false;
            for path in paths {
                let inside = path.strip_prefix(&program.root).ok().and_then(Path::to_str);
                match (&mut program.editing, inside) {
                    (Some(editing), Some(inside)) => {
                        editing.changed(inside);
                        program.texts = None;
                    }
                    _ => is_elsewhere = true,
                }
                // A program that could not be opened may be there now.
                if path == key || program.editing.as_ref().is_some_and(|editing| editing.symbols().is_none())
                {
                    program.editing = None;
                }
                program.problem = None;
            }
            if is_elsewhere {
                program.look_again();
            }
        }
    }

    /// Looks for changes on disk, if the client does not report them.
    pub(crate) fn look_again(&mut self) {
        if !self.watches {
            self.all.values_mut().for_each(Program::look_again);
        }
    }

    /// Makes all programs be opened again.
    pub(crate) fn forget(&mut self) {
        self.all.clear();
    }

    /// Makes one program be opened again, for example after a panic.
    pub(crate) fn close(&mut self, key: &Path) {
        self.all.remove(key);
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &PathBuf> {
        self.all.keys()
    }

    pub(crate) fn is_known(&self, key: &Path) -> bool {
        self.all.get(key).is_some_and(|program| program.texts.is_some())
    }
}

/// Returns true if a YAML file that belongs to no program looks like a worker.
fn is_worker(path: &Path, documents: &Documents) -> bool {
    let text = match documents.get(path) {
        Some(document) => Some(document.text.to_string()),
        None => read_regular(path, LARGEST_DEFINITION).ok().and_then(|bytes| String::from_utf8(bytes).ok()),
    };
    text.is_some_and(|text| text.lines().any(|line| line.starts_with("instructions:")))
}

impl Program {
    fn look_again(&mut self) {
        if let Some(editing) = &mut self.editing {
            editing.look_again();
            self.texts = None;
        }
    }

    pub(crate) fn editing(&self) -> Option<&Editing> {
        self.editing.as_ref()
    }

    /// Returns the reason why the program can't be opened.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns the path of a file of the program as its findings show it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// Returns the real path of a file that findings show.
    pub(crate) fn real(&self, shown: &str) -> PathBuf {
        self.root.join(shown)
    }
}
