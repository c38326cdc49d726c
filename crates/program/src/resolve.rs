//! Resolution of a reference to a file. See `docs/reference/resolution.md`. It checks candidates one by one and never
//! scans.

use crate::{
    diagnostics::{Diagnostic, codes},
    front_matter,
    manifest::Manifest,
    source::{Kind, SourceTree, plain},
};

/// The folders that contain the workers of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The workers root, then each of `worker_paths`; relative to the program's root.
    pub roots: Vec<String>,
}

/// The identity of a package: the program, or one of its libraries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackageId(pub(crate) usize);

impl PackageId {
    /// The program itself.
    pub const PROGRAM: Self = Self(0);
}

/// A worker's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerFile {
    /// The package that it belongs to.
    pub package: PackageId,
    /// The worker's ID in its package.
    pub id: String,
    /// The worker's file, relative to the root.
    pub path: String,
    /// True if the file is below a workers root, so that `name` must equal the ID.
    pub rooted: bool,
}

/// Extensions of worker files.
pub const EXTENSIONS: [&str; 3] = ["worker", "yaml", "yml"];

/// Returns true if an allowlist's item is a pattern rather than a name.
pub fn is_glob(reference: &str) -> bool {
    reference.contains(['*', '?', '['])
}

/// The end of the names of files with test cases, which are never workers.
const CASES: &str = ".cases.yaml";

/// Returns true if a path is that of a file with test cases.
pub fn is_cases(path: &str) -> bool {
    path.ends_with(CASES)
}

/// Returns the file name without a worker's extension, if it has one.
pub fn without_extension(path: &str) -> Option<&str> {
    if is_cases(path) {
        return None;
    }
    let (stem, extension) = path.rsplit_once('.')?;
    // Otherwise a file `..yaml` or `...yaml` would be a worker named `.` or `..`.
    let named = !matches!(stem.rsplit('/').next(), None | Some("" | "." | ".."));
    (EXTENSIONS.contains(&extension) && named).then_some(stem)
}

impl Layout {
    /// Returns the layout that a manifest declares.
    pub fn of(manifest: &Manifest) -> Self {
        let mut roots = vec![manifest.workers_root.clone()];
        roots.extend(manifest.worker_paths.iter().filter(|path| **path != manifest.workers_root).cloned());
        Self { roots }
    }

    /// Returns true if a reference is a plain name that a library could export, and not a path.
    pub fn is_bare(reference: &str) -> bool {
        // Normalized as for the lookup: `a.worker/` is the path `a.worker`.
        let path = plain(reference);
        !reference.starts_with("./") && without_extension(path.as_deref().unwrap_or(reference)).is_none()
    }

    /// Returns true if a reference is a path from the package's root rather than a name below a workers root
    /// (`docs/reference/resolution.md`).
    fn is_path(&self, reference: &str, path: &str) -> bool {
        let workers_root = self.roots.first().filter(|root| !root.is_empty());
        !Self::is_bare(reference)
            || workers_root
                .is_some_and(|root| path.strip_prefix(root.as_str()).is_some_and(|r| r.starts_with('/')))
    }

    /// Returns the ID of the worker that a reference would name, whether or not the worker exists, or `None` if it is
    /// not a valid name.
    pub fn id_of(&self, reference: &str) -> Option<String> {
        let path = plain(reference).ok().filter(|path| !path.is_empty() && !path.contains(':'))?;
        if !self.is_path(reference, &path) {
            return Some(path);
        }
        let path = if without_extension(&path).is_some() { path } else { format!("{path}.worker") };
        Some(self.identify(&path).id)
    }

    /// Returns the worker that a file defines.
    pub fn identify(&self, path: &str) -> WorkerFile {
        let stem = without_extension(path).unwrap_or(path);
        let below = self.roots.iter().find_map(|root| {
            if root.is_empty() { Some(stem) } else { stem.strip_prefix(root.as_str())?.strip_prefix('/') }
        });
        let id = below.unwrap_or(stem);
        // The worker of a folder has the name of the folder.
        let id = match id.strip_suffix("/worker") {
            Some(folder) if path.ends_with("/worker.worker") => folder,
            _ => id,
        };
        let rooted = below.is_some() && path != "main.worker";
        WorkerFile { package: PackageId::PROGRAM, id: id.to_owned(), path: path.to_owned(), rooted }
    }

    /// Returns the worker that a reference names.
    ///
    /// # Errors
    /// Not found (with the paths tried), ambiguous, not a reference, or outside the root. The error has no span,
    /// because only the caller knows the place of the reference. The caller also adds similar names, because they
    /// require a scan.
    pub fn resolve(&self, tree: &dyn SourceTree, reference: &str) -> Result<WorkerFile, Box<Diagnostic>> {
        let bad = |why: &str| {
            let shown: String = reference.chars().take(100).flat_map(char::escape_debug).collect();
            Box::new(Diagnostic::error(
                codes::BAD_REFERENCE,
                format!("`{shown}` is not a worker reference: {why}"),
            ))
        };
        if reference.trim().is_empty() {
            return Err(bad("it is empty"));
        }
        if reference.len() > 500 || reference.chars().any(char::is_control) {
            return Err(bad("it is too long or has control characters"));
        }
        if reference.contains(':') {
            return Err(bad("only the name of a library may be before a colon"));
        }
        let path = plain(reference).map_err(|_| {
            Diagnostic::error(codes::ESCAPES_ROOT, format!("`{reference}` is outside the program's root"))
                .help("workers are named by ID, or by `./path` from the program's root; `..` and absolute paths are not allowed")
        })?;
        if path.is_empty() {
            return Err(bad("it names a folder"));
        }
        let from_root = self.is_path(reference, &path);
        let mut tried = Vec::new();
        if from_root {
            if let Some(found) = one_of(tree, reference, candidates("", &path), &mut tried)? {
                return Ok(self.identify(&found));
            }
        } else {
            for (i, root) in self.roots.iter().enumerate() {
                let mut here = candidates(root, &path);
                if i == 0 && path == "main" && !here.iter().any(|candidate| candidate == "main.worker") {
                    here.insert(0, "main.worker".into());
                }
                if let Some(found) = one_of(tree, reference, here, &mut tried)? {
                    return Ok(self.identify(&found));
                }
            }
        }
        let mut error =
            Diagnostic::error(codes::WORKER_NOT_FOUND, format!("there is no worker `{reference}`"));
        error.notes.push(format!("tried {}", tried.join(", ")));
        Err(error.into())
    }
}

/// Returns the files that a name may refer to below a root.
fn candidates(root: &str, name: &str) -> Vec<String> {
    let base = if root.is_empty() { name.to_owned() } else { format!("{root}/{name}") };
    if without_extension(name).is_some() {
        return vec![base];
    }
    let mut candidates = vec![
        format!("{base}.worker"),
        format!("{base}/worker.worker"),
        format!("{base}.yaml"),
        format!("{base}.yml"),
    ];
    candidates.retain(|candidate| !is_cases(candidate));
    candidates
}

/// Returns the only candidate that exists.
fn one_of(
    tree: &dyn SourceTree,
    reference: &str,
    candidates: Vec<String>,
    tried: &mut Vec<String>,
) -> Result<Option<String>, Box<Diagnostic>> {
    let mut there = Vec::new();
    for candidate in candidates {
        match tree.kind(&candidate) {
            Ok(Some(Kind::File | Kind::Special)) => there.push(candidate),
            Ok(Some(Kind::Folder) | None) => tried.push(candidate),
            Err(error) => {
                return Err(front_matter::unreadable(&front_matter::unread(tree, &candidate), &error).into());
            }
        }
    }
    if there.len() < 2 {
        return Ok(there.pop());
    }
    let names: Vec<String> = there.iter().map(|path| format!("`{path}`")).collect();
    Err(Diagnostic::error(
        codes::AMBIGUOUS,
        format!("`{reference}` is ambiguous: it may be {}", names.join(" or ")),
    )
    .help("rename or remove one of them")
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemoryTree;
    use llm_do_core::authority::Place;

    fn tree(files: &[&str]) -> MemoryTree {
        MemoryTree::new(Place::new("/p"), files.iter().map(|path| (*path, "x")))
    }

    fn layout() -> Layout {
        Layout { roots: vec!["workers".into(), "more".into()] }
    }

    #[test]
    fn names_are_looked_up_in_order() {
        let tree = tree(&[
            "main.worker",
            "workers/a.worker",
            "workers/complex/worker.worker",
            "workers/reports/s.yaml",
            "more/b.yml",
            "more/a.worker",
            "helpers/x.worker",
            "top.worker",
        ]);
        for (reference, path, id, rooted) in [
            ("main", "main.worker", "main", false),
            ("a", "workers/a.worker", "a", true),
            ("complex", "workers/complex/worker.worker", "complex", true),
            ("reports/s", "workers/reports/s.yaml", "reports/s", true),
            ("b", "more/b.yml", "b", true),
            ("workers/a", "workers/a.worker", "a", true),
            ("workers/a.worker", "workers/a.worker", "a", true),
            ("./workers/complex", "workers/complex/worker.worker", "complex", true),
            ("./helpers/x", "helpers/x.worker", "helpers/x", false),
            ("helpers/x.worker", "helpers/x.worker", "helpers/x", false),
            ("top.worker", "top.worker", "top", false),
            ("./more/a.worker", "more/a.worker", "a", true),
        ] {
            let located = layout().resolve(&tree, reference).unwrap();
            let expected =
                WorkerFile { package: PackageId::PROGRAM, id: id.into(), path: path.into(), rooted };
            assert_eq!(located, expected, "{reference}");
        }
    }

    #[test]
    fn what_cannot_be_resolved_is_told_apart() {
        let tree =
            tree(&["workers/a.worker", "workers/a/worker.worker", "workers/main.worker", "main.worker"]);
        let code = |reference: &str| layout().resolve(&tree, reference).unwrap_err().code;
        assert_eq!(code("a"), codes::AMBIGUOUS);
        assert_eq!(code("main"), codes::AMBIGUOUS);
        assert_eq!(code("nobody"), codes::WORKER_NOT_FOUND);
        assert_eq!(code("./a"), codes::WORKER_NOT_FOUND);
        assert_eq!(code(""), codes::BAD_REFERENCE);
        assert_eq!(code("./"), codes::BAD_REFERENCE);
        assert_eq!(code("lib:x"), codes::BAD_REFERENCE);
        for reference in ["../x", "./../x", "/etc/x.worker", "a/../../x", "a\\b"] {
            assert_eq!(code(reference), codes::ESCAPES_ROOT, "{reference}");
        }
    }

    #[test]
    fn a_reference_has_its_id_before_anything_is_opened() {
        for (reference, id) in [
            ("a", "a"),
            ("main", "main"),
            ("reports/s", "reports/s"),
            ("workers/a", "a"),
            ("./workers/reports/s.yaml", "reports/s"),
            ("workers/x/worker.worker", "x"),
            ("./helpers/x", "helpers/x"),
            ("./main", "main"),
            ("more/a.worker/.", "a"),
            ("helpers/x.worker/", "helpers/x"),
        ] {
            assert_eq!(layout().id_of(reference).as_deref(), Some(id), "{reference}");
        }
        assert_eq!(layout().id_of("../a"), None);
        for path in [".worker", "a/.yaml", "..yaml", "a/...worker"] {
            assert_eq!(without_extension(path), None, "{path} would be a worker without a name");
        }
    }

    #[test]
    fn a_file_with_cases_is_no_worker() {
        let tree = tree(&["workers/a.cases.yaml", "workers/b.cases.worker", "workers/cases.yaml"]);
        for reference in ["a.cases", "workers/a.cases.yaml", "./workers/a.cases.yaml"] {
            assert_eq!(layout().resolve(&tree, reference).unwrap_err().code, codes::WORKER_NOT_FOUND);
        }
        assert_eq!(layout().resolve(&tree, "b.cases").unwrap().path, "workers/b.cases.worker");
        assert_eq!(layout().resolve(&tree, "cases").unwrap().path, "workers/cases.yaml");
    }

    #[test]
    fn a_folder_is_no_worker() {
        let tree = tree(&["workers/a.worker/readme.txt", "workers/a.yaml"]);
        assert_eq!(layout().resolve(&tree, "a").unwrap().path, "workers/a.yaml");
    }
}
