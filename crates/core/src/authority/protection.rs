//! Protected names: the files that define a program are readable but not writable; its records and secrets are
//! invisible (`docs/reference/sandbox.md`).

use super::Place;
use serde::{Deserialize, Serialize};

/// How a place is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Not protected.
    Open,
    /// Readable, not writable.
    Protected,
    /// Appears not to exist.
    Invisible,
}

/// The places that define the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    /// Root of the program.
    root: Place,
    /// Absolute paths of the files and folders that hold definitions, folded: `/p/workers`, `/p/tools.py`, …
    defining: Vec<String>,
    /// Absolute paths of the folders from which the program's Python code imports modules, folded.
    importing: Vec<String>,
}

/// Prefix of the temporary files that a file system writes before it renames them into place. They are never visible.
pub const TEMPORARY_PREFIX: &str = ".llm-do-tmp-";
/// Folders of version control, whose settings name programs that it runs. They are protected in every folder.
const VERSION_CONTROL: &[&str] = &[".git", ".hg", ".svn", ".jj", ".bzr"];
/// Further names that are protected in every folder. Lower case.
const PROTECTED_NAMES: &[&str] = &[
    ".venv",
    "pyvenv.cfg",
    "lib.yaml",
    "llm-do.lock",
    "project.yaml",
    "llm-do.yaml",
    ".llm-doignore",
    "cases.jsonl",
];
/// The same for ends of names: workers, files that Python reads when it starts, cases and their recordings.
const PROTECTED_SUFFIXES: &[&str] = &[".worker", ".pth", ".cases.yaml", ".recorded"];
/// Ends of the names of files that Python imports.
const IMPORTED_SUFFIXES: &[&str] = &[".py", ".pyc", ".so", ".pyd"];
/// The file that makes a folder a package.
const PACKAGE_FILE: &str = "__init__.py";
/// Files beside the program's Python code that decide its interpreter and packages.
const ENVIRONMENT_FILES: &[&str] = &["pyproject.toml", "uv.lock", "uv.toml", ".python-version"];
/// Files and folders that other programs execute: build services, editors, hooks of version control, shells. Lower case.
const EXECUTED_NAMES: &[&str] = &[
    ".github",
    ".gitlab-ci.yml",
    ".circleci",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".husky",
    ".githooks",
    ".pre-commit-config.yaml",
    ".envrc",
];
/// The folder at the program's root with the same meaning.
const HOOKS: &str = "hooks";
/// Folders and files that define any program, in addition to those in its manifest.
const CONVENTIONAL: &[&str] = &["prompts", "templates", "schemas", "tools", "toolsets", "tools.py"];

impl Protection {
    /// `defining` adds what the manifest names: the workers root, prompts, templates, tool roots and modules, each
    /// relative to the root.
    pub fn new(root: Place, defining: impl IntoIterator<Item = String>) -> Self {
        let relative = CONVENTIONAL.iter().map(|&path| path.to_owned()).chain(defining);
        let relative = relative.map(|path| path.trim_start_matches("./").trim_matches('/').to_owned());
        let places: Vec<Place> =
            relative.filter(|path| !path.is_empty()).map(|path| root.join(&path)).collect();
        Self { root, defining: Vec::new(), importing: Vec::new() }.with_defining(places)
    }

    /// The same with further files and folders that hold definitions. A place that contains the root is left out:
    /// otherwise nothing could be written.
    #[must_use]
    pub fn with_defining(mut self, places: impl IntoIterator<Item = Place>) -> Self {
        let root = fold(self.root.as_str());
        let places = places.into_iter().map(|place| fold(place.as_str()));
        self.defining.extend(places.filter(|place| !holds(&root, place)));
        innermost_removed(&mut self.defining);
        self
    }

    /// The same with folders from which the program's Python code imports modules: the modules and packages directly
    /// in them are protected, also those that do not exist yet.
    #[must_use]
    pub fn with_importing(mut self, folders: impl IntoIterator<Item = Place>) -> Self {
        self.importing.extend(folders.into_iter().map(|folder| fold(folder.as_str())));
        self.importing.sort();
        self.importing.dedup();
        self
    }

    /// Root of the program.
    pub fn root(&self) -> &Place {
        &self.root
    }

    /// A place as people read it: relative to the project's root where it lies inside, absolute elsewhere.
    pub fn relative(&self, place: &Place) -> String {
        match place.rest(&self.root) {
            Some("") => ".".into(),
            Some(rest) => rest.into(),
            None => place.to_string(),
        }
    }

    /// Whether other programs execute what is at a place: a change there can run code outside the sandbox.
    pub fn is_executed(&self, place: &Place) -> bool {
        let inside = place.rest(&self.root).map(fold);
        let below = |name: &str, of: &str| of.split('/').next() == Some(name);
        inside.as_deref().is_some_and(|inside| below(HOOKS, inside))
            || inside
                .unwrap_or_else(|| fold(place.as_str()))
                .split('/')
                .any(|part| EXECUTED_NAMES.contains(&part))
    }

    /// Whether the name alone decides nothing: the entry has the class of its folder, unless
    /// [`Protection::tells_below`] is true for that folder. A fast path for walks over many names.
    pub fn is_ordinary(name: &str) -> bool {
        let is = |known: &&str| known.eq_ignore_ascii_case(name);
        let ends = |suffix: &&str| {
            name.len().checked_sub(suffix.len()).is_some_and(|at| name[at..].eq_ignore_ascii_case(suffix))
        };
        name.is_ascii()
            && !name.starts_with('.')
            && !name.ends_with(['.', ' '])
            && !PROTECTED_NAMES.iter().any(is)
            && !PROTECTED_SUFFIXES.iter().any(ends)
    }

    /// Whether everything of that name is invisible, wherever it is.
    pub fn is_invisible(name: &str) -> bool {
        let name = fold(name);
        name == ".llm-do" || name.starts_with(".env") || name.starts_with(TEMPORARY_PREFIX)
    }

    /// Whether a name is that of a folder or file of version control, whose settings name programs that it runs.
    pub fn is_version_control(name: &str) -> bool {
        VERSION_CONTROL.contains(&fold(name).as_str())
    }

    /// Whether a folder may contain something that defines the program by its place.
    pub fn tells_below(&self, folder: &Place) -> bool {
        if folder.rest(&self.root).is_none() && self.root.is_within(folder) {
            return true;
        }
        let folder = fold(folder.as_str());
        let below = |path: &String| *path != folder && holds(path, &folder);
        self.defining.iter().any(below)
            || self.importing.iter().any(|importing| {
                holds(importing, &folder)
                    || folder.rsplit_once('/').is_some_and(|(above, _)| above == importing)
            })
    }

    /// How `place` is protected when it is reached through a mount of `mount`. A mount lifts the protection of the
    /// place that it names: a mount of `templates` may be written if it is `rw`, and names inside it are still judged
    /// by themselves. Names are compared case-folded, because some file systems do that.
    pub fn class(&self, place: &Place, mount: &Place) -> Class {
        let Some(below) = place.rest(mount) else { return Class::Invisible };
        let mut class = Class::Open;
        for part in below.split('/').filter(|part| !part.is_empty()) {
            if Self::is_invisible(part) {
                return Class::Invisible;
            }
            let part = fold(part);
            if VERSION_CONTROL.contains(&part.as_str())
                || PROTECTED_NAMES.contains(&part.as_str())
                || PROTECTED_SUFFIXES.iter().any(|s| part.ends_with(s))
            {
                class = Class::Protected;
            }
        }
        if class == Class::Open && !below.is_empty() {
            let (place, mount) = (fold(place.as_str()), fold(mount.as_str()));
            let defining = self.defining.iter().any(|path| holds(&place, path) && !holds(&mount, path));
            if defining || self.is_imported(&place, &mount) {
                class = Class::Protected;
            }
        }
        class
    }

    /// Whether a folded path is that of a module or package that the program's Python code could import, or decides
    /// which interpreter runs that code.
    fn is_imported(&self, place: &str, mount: &str) -> bool {
        self.importing.iter().any(|folder| {
            let Some(rest) = place.strip_prefix(folder.as_str()).and_then(|rest| rest.strip_prefix('/'))
            else {
                return false;
            };
            match rest.split_once('/') {
                None => {
                    IMPORTED_SUFFIXES.iter().any(|suffix| rest.ends_with(suffix))
                        || ENVIRONMENT_FILES.contains(&rest)
                }
                // A mount of the package's own folder lifts its protection.
                Some((package, PACKAGE_FILE)) => !holds(mount, &format!("{folder}/{package}")),
                Some(_) => false,
            }
        })
    }
}

/// Whether a folded path is a folder or something in it.
fn holds(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || folder == "/")
}

/// Removes the paths that lie within another one, and sorts the others.
fn innermost_removed(paths: &mut Vec<String>) {
    // Each path comes after those that contain it, but not directly: `a`, `a-b`, `a/c`.
    paths.sort_by(|a, b| a.split('/').cmp(b.split('/')));
    paths.dedup_by(|next, kept| holds(next, kept));
}

/// A name as case-insensitive file systems compare it. To them `ſ` equals `s`, which upper-casing maps and
/// lower-casing does not. Some also ignore trailing dots and spaces, and zero-width characters.
fn fold(path: &str) -> String {
    let folded: String = path
        .chars()
        .filter(|c| !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect();
    let parts: Vec<&str> = folded.split('/').map(|part| part.trim_end_matches(['.', ' '])).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class(protection: &Protection, path: &str, mount: &str) -> Class {
        protection.class(&Place::new(path), &Place::new(mount))
    }

    #[test]
    fn what_python_code_could_import_is_protected_before_it_exists() {
        let protection = Protection::new(Place::new("/p"), []).with_importing([Place::new("/p/sub")]);
        for path in ["/p/sub/a.py", "/p/sub/A.PY", "/p/sub/a.so", "/p/sub/new/__init__.py", "/p/sub/uv.lock"]
        {
            assert_eq!(class(&protection, path, "/p"), Class::Protected, "{path}");
        }
        for path in ["/p/a.py", "/p/sub/new/a.py", "/p/sub/a/b/__init__.py", "/p/sub/a.txt", "/p/sub"] {
            assert_eq!(class(&protection, path, "/p"), Class::Open, "{path}");
        }
        assert_eq!(
            class(&protection, "/p/sub/new/__init__.py", "/p/sub/new"),
            Class::Open,
            "mounted by name"
        );
        assert_eq!(
            class(&protection, "/p/sub/a.py", "/p/sub"),
            Class::Protected,
            "its folder is no name of it"
        );
    }

    #[test]
    fn definitions_are_protected_wherever_they_lie() {
        let places = ["/p/data/x.yaml", "/lib", "/", "/p", "/p/data"].map(Place::new);
        let protection = Protection::new(Place::new("/p"), []).with_defining(places);
        for (path, mount) in
            [("/p/data/x.yaml", "/p"), ("/p/data/new", "/p"), ("/lib/x", "/"), ("/Lib/x", "/lib2/..")]
        {
            assert_eq!(class(&protection, path, mount), Class::Protected, "{path}");
        }
        assert_eq!(class(&protection, "/p/data/x.yaml", "/p/data"), Class::Open, "mounted by name");
        assert_eq!(class(&protection, "/p/database", "/p"), Class::Open);
        for name in
            [".venv/bin/python", "a/b.pth", "pyvenv.cfg", "x.cases.yaml", "x.recorded/a.jsonl", ".hg/hgrc"]
        {
            assert_eq!(class(&protection, &format!("/p/deep/{name}"), "/p"), Class::Protected, "{name}");
        }
    }

    proptest! {
        /// The invariant of walks: they do not check the path of a name that decides nothing.
        #[test]
        fn an_ordinary_name_is_what_its_folder_is(
            folders in prop::collection::vec(
                prop::sample::select(vec!["a", "tools", "TOOLS", "sub", ".git", ".env", "workers", "x.worker", "ſ", "b "]),
                0..4,
            ),
            name in prop::sample::select(vec![
                "notes.txt", "tools", "Workers", ".git", ".GIT", ".envrc", "a.WORKER", ".worker", "lib.yaml", "LIB.YAML",
                "lib.yaml.", "tools.py", "é", "x ", "inner", "deep", "x", "helper.py", "__init__.py", "x.PTH", "uv.lock",
            ]),
            root in prop::sample::select(vec!["/p", "/other"]),
            mounted in prop::sample::select(vec!["/p", "/p/tools", "/p/workers/inner", "/", "/other"]),
        ) {
            let protection = Protection::new(Place::new("/p"), ["workers/inner".to_owned(), "a/deep".to_owned()])
                .with_defining([Place::new("/other/sub/x")])
                .with_importing([Place::new("/p"), Place::new("/p/a/sub")]);
            let folder = Place::new(root).join(&folders.join("/"));
            let mount = Place::new(mounted);
            prop_assume!(folder.is_within(&mount));
            if Protection::is_ordinary(name) && !protection.tells_below(&folder) {
                prop_assert_eq!(protection.class(&folder.join(name), &mount), protection.class(&folder, &mount));
            }
        }
    }
}
