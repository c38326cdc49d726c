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
    /// Folders and files relative to the root that hold definitions, lower case: `workers`, `prompts`, `tools.py`, …
    defining: Vec<String>,
}

/// Prefix of the temporary files that a file system writes before it renames them into place. They are never visible.
pub const TEMPORARY_PREFIX: &str = ".llm-do-tmp-";
/// Names that are protected in every folder.
const PROTECTED_NAMES: &[&str] =
    &[".git", "lib.yaml", "llm-do.lock", "project.yaml", "llm-do.yaml", ".llm-doignore"];
const PROTECTED_SUFFIXES: &[&str] = &[".worker"];
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
        let mut all: Vec<String> = CONVENTIONAL.iter().map(|&s| s.to_owned()).collect();
        for path in defining {
            let path = fold(path.trim_start_matches("./").trim_matches('/'));
            if !path.is_empty() && !all.contains(&path) {
                all.push(path);
            }
        }
        Self { root, defining: all }
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

    /// Whether a folder may contain something that defines the program by its place.
    pub fn tells_below(&self, folder: &Place) -> bool {
        let Some(rest) = folder.rest(&self.root) else { return self.root.is_within(folder) };
        let rest = fold(rest);
        let below =
            |path: &String| rest.is_empty() || path.strip_prefix(&rest).is_some_and(|p| p.starts_with('/'));
        self.defining.iter().any(below)
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
            if PROTECTED_NAMES.contains(&part.as_str())
                || PROTECTED_SUFFIXES.iter().any(|s| part.ends_with(s))
            {
                class = Class::Protected;
            }
        }
        if class == Class::Open
            && let Some(rest) = place.rest(&self.root)
        {
            let rest = fold(rest);
            let mounted = mount.rest(&self.root).map(fold);
            let holds = |path: &str, folder: &str| {
                path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            let defining = self.defining.iter().any(|folder| {
                holds(&rest, folder) && !mounted.as_deref().is_some_and(|mounted| holds(mounted, folder))
            });
            if defining {
                class = Class::Protected;
            }
        }
        class
    }
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
                "lib.yaml.", "tools.py", "é", "x ", "inner", "deep",
            ]),
            mounted in prop::sample::select(vec!["/p", "/p/tools", "/p/workers/inner", "/"]),
        ) {
            let protection = Protection::new(Place::new("/p"), ["workers/inner".to_owned(), "a/deep".to_owned()]);
            let folder = Place::new("/p").join(&folders.join("/"));
            let mount = Place::new(mounted);
            prop_assume!(folder.is_within(&mount));
            if Protection::is_ordinary(name) && !protection.tells_below(&folder) {
                prop_assert_eq!(protection.class(&folder.join(name), &mount), protection.class(&folder, &mount));
            }
        }
    }
}
