//! Packages: the program and the libraries that it depends on. Each has its own namespace. See
//! `docs/guides/libraries.md`.

mod graph;

pub(crate) use graph::Packages;

use crate::{
    contents::Difference,
    diagnostics::{Diagnostic, codes},
    library::shown,
    load_options::LoadOptions,
    lock::Pinned,
    manifest::{LIBRARY, Manifest},
    resolve::{Layout, PackageId, WorkerFile},
    scan,
    skills::ReadFolders,
    source::SourceTree,
    span::Span,
    tool_folders::ToolFolders,
    toolsets::{self, Declared, Toolsets},
};
use llm_do_core::{
    authority::{Place, Protection},
    function::FunctionSource,
    worker::{CodePackage, ToolPins},
};
use std::sync::{Arc, OnceLock};

/// A root of definitions. References of its workers are resolved in it, and its manifest holds the settings that they
/// inherit.
pub(crate) struct Package {
    /// The library's name; `None` for the program.
    pub(crate) library: Option<Arc<str>>,
    /// The files of the package. Those of a pinned library are checked against the lock file.
    pub(crate) tree: Arc<dyn SourceTree>,
    /// The files of the package, without that check.
    installed: Arc<dyn SourceTree>,
    /// The entry of the package in the lock file.
    pinned: Option<Arc<Pinned>>,
    /// Differences from the lock file, computed on first use.
    changes: OnceLock<Vec<Diagnostic>>,
    pub(crate) manifest: Manifest,
    /// The definitions of its manifest that toolsets may name.
    pub(crate) declared: Declared,
    pub(crate) toolsets: Toolsets,
    pub(crate) layout: Layout,
    pub(crate) protection: Arc<Protection>,
    /// Places that need no grant.
    pub(crate) own: Vec<Place>,
    /// The package of its code.
    pub(crate) code: Arc<CodePackage>,
    /// The tools in its folders that have been searched.
    pub(crate) tool_folders: ToolFolders,
    /// The folders of skills that have been read.
    pub(crate) skill_folders: ReadFolders,
    /// The libraries that its workers may refer to, in order.
    pub(crate) dependencies: Vec<PackageId>,
    /// The first package that required it, for messages, with the place of the requirement.
    requirer: (String, Option<Span>),
}

impl Package {
    /// Creates the package of the program.
    pub(crate) fn program(
        tree: Arc<dyn SourceTree>,
        manifest: Manifest,
        work: Option<&Place>,
        host: &LoadOptions,
        found: &mut Vec<Diagnostic>,
    ) -> Self {
        let root = tree.root().clone();
        let protection = protection(&root, work, manifest.defining());
        let own = std::iter::once(root).chain(work.cloned()).collect();
        let requirer = ("the program".to_owned(), None);
        Self { own, ..Self::new(None, tree, manifest, protection, requirer, host, found) }
    }

    fn new(
        library: Option<Arc<str>>,
        tree: Arc<dyn SourceTree>,
        manifest: Manifest,
        protection: Protection,
        requirer: (String, Option<Span>),
        host: &LoadOptions,
        found: &mut Vec<Diagnostic>,
    ) -> Self {
        let declared = toolsets::declared(|key| manifest.definitions(key), &host.toolsets, found);
        let toolsets = match &manifest.toolsets {
            Some(node) => toolsets::read(node, &host.toolsets, &declared, found),
            None => Toolsets::new(),
        };
        let source = match &library {
            Some(library) => FunctionSource::Library(Arc::clone(library)),
            None => FunctionSource::Program,
        };
        Self {
            library,
            own: vec![tree.root().clone()],
            code: Arc::new(CodePackage {
                source,
                root: tree.root().clone(),
                data: tool_data(tree.as_ref(), &manifest, found),
            }),
            tool_folders: ToolFolders::default(),
            skill_folders: ReadFolders::default(),
            pinned: None,
            changes: OnceLock::new(),
            declared,
            toolsets,
            layout: Layout::of(&manifest),
            installed: Arc::clone(&tree),
            tree,
            manifest,
            protection: Arc::new(protection),
            dependencies: Vec::new(),
            requirer,
        }
    }

    /// Returns the tools of servers that the lock file pins for the package.
    pub(crate) fn tool_pins(&self) -> Arc<ToolPins> {
        self.pinned.as_ref().map(|pinned| Arc::clone(&pinned.tools)).unwrap_or_default()
    }

    /// Returns true if the lock file pins the package.
    pub(crate) fn is_pinned(&self) -> bool {
        self.pinned.is_some()
    }

    /// Returns true if it is a library rather than a project: it has exports but no entry.
    pub(crate) fn is_library(&self) -> bool {
        self.manifest.file.as_ref().is_some_and(|file| file.path().rsplit('/').next() == Some(LIBRARY))
    }

    /// Returns the differences between the whole library and the lock file, computed once. Code of the library reads
    /// its files without the checks of this crate. Empty if the library is not pinned.
    pub(crate) fn changes(&self) -> &[Diagnostic] {
        self.changes.get_or_init(|| {
            let Some(pinned) = &self.pinned else { return Vec::new() };
            let changed = |message: String| {
                Diagnostic::error(codes::LIBRARY_CHANGED, message)
                    .or_at(self.requirer.1.as_ref())
                    .help("if you made the change, run `llm-do lib install` to pin the current files")
            };
            match pinned.compare(self.installed.as_ref()) {
                Err(error) => vec![changed(format!("the library `{}`: {error}", pinned.label()))],
                Ok(differences) => differences
                    .iter()
                    .map(|Difference { path, change }| {
                        changed(format!(
                            "the library `{}` differs from `llm-do.lock`: `{path}` is {change}",
                            pinned.label()
                        ))
                    })
                    .collect(),
            }
        })
    }

    /// Returns the name by which its own workers may refer to it. A program has such a name if it can be used as a
    /// library too.
    pub(crate) fn own_name(&self) -> Option<&str> {
        let manifest = &self.manifest;
        let usable = manifest.version.is_some() && !manifest.exports.is_empty();
        let of_program = manifest.name.as_deref().filter(|_| self.is_library() || usable);
        self.library.as_deref().or(of_program)
    }

    /// Returns the name in messages: `utils@2.1.0`.
    fn shown(&self) -> String {
        match &self.library {
            Some(name) => shown(name, self.manifest.version.as_deref()),
            None => "the program".to_owned(),
        }
    }

    /// Returns the name of one of its workers, unique in the program.
    pub(crate) fn global_id(&self, id: &str) -> Arc<str> {
        match &self.library {
            Some(library) => format!("{library}:{id}").into(),
            None => id.into(),
        }
    }

    /// Returns the IDs of its exports, with the references in the manifest.
    pub(crate) fn exports(&self) -> impl Iterator<Item = (String, &str)> {
        self.manifest.exports.iter().filter_map(|(text, _)| Some((self.layout.id_of(text)?, text.as_str())))
    }

    /// Scans for all its workers, sorted by ID.
    pub(crate) fn scan(&self) -> Vec<WorkerFile> {
        scan::workers(self.tree.as_ref(), &self.manifest, &self.layout)
    }
}

/// Returns the places that `tools.data` names. Each must exist and be visible.
fn tool_data(tree: &dyn SourceTree, manifest: &Manifest, found: &mut Vec<Diagnostic>) -> Vec<Place> {
    let mut places = Vec::new();
    for (path, span) in &manifest.tools.data {
        let wrong = |message: String| Diagnostic::error(codes::BAD_VALUE, message).at(span);
        if path.split('/').any(Protection::is_invisible) {
            found.push(
                wrong(format!("`{path}` is invisible to tools"))
                    .help("for a secret, give the tools a variable with `sandbox.env`"),
            );
            continue;
        }
        match tree.kind(path) {
            Ok(Some(_)) => places.push(tree.root().join(path)),
            Ok(None) => found.push(
                wrong(format!("the tools' data `{path}` does not exist"))
                    .help("name a file or folder relative to the root, or remove the entry"),
            ),
            Err(error) => found.push(wrong(format!("the tools' data `{path}` cannot be read: {error}"))),
        }
    }
    places
}

/// Returns the protection of a program in `root`, whose files `defining` names relative to it.
pub(crate) fn protection(
    root: &Place,
    work: Option<&Place>,
    defining: impl IntoIterator<Item = String>,
) -> Protection {
    // Rules use paths relative to the folder that a single file works on. Its own definitions stay protected there.
    let Some(work) = work else { return Protection::new(root.clone(), defining) };
    match root.rest(work) {
        None => Protection::new(work.clone(), []),
        Some("") => Protection::new(work.clone(), defining),
        Some(prefix) => {
            Protection::new(work.clone(), defining.into_iter().map(|path| format!("{prefix}/{path}")))
        }
    }
}
