//! Protected names: the files that define a program are readable but not writable; its records and secrets are
//! invisible (`docs/reference/sandbox.md`).

use super::Place;
use crate::send::{MaybeSend, MaybeSync};
use serde::{Deserialize, Serialize, Serializer};
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// The protection of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The place is not protected.
    Open,
    /// The place is readable, not writable.
    Protected,
    /// The place appears not to exist.
    Invisible,
}

/// The places that define the program, and the places that its workers declare untrusted. They are the same for all its
/// workers, whatever each of them mounts.
#[derive(Clone, Deserialize)]
#[serde(from = "KnownPlaces")]
pub struct Protection {
    known: KnownPlaces,
    /// Places that are read from a source when the first place is judged.
    further: Option<Arc<Further>>,
}

/// The places that are known already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownPlaces {
    /// Root of the program.
    root: Place,
    /// Absolute paths of the files and folders that hold definitions, folded: `/p/workers`, `/p/tools.py`, …
    defining: Vec<String>,
    /// Absolute paths of the folders from which the program's Python code imports modules, folded.
    importing: Vec<String>,
    /// The mounts that any worker declares untrusted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    untrusted: Vec<Place>,
}

/// The places that `source` reads, once.
struct Further {
    source: Arc<dyn FurtherProtection>,
    found: OnceLock<Protection>,
}

/// The source of protected places by workers that a run may call and that are not loaded yet.
pub trait FurtherProtection: MaybeSend + MaybeSync {
    /// Reads the places.
    fn read(&self) -> Protection;
}

/// Prefix of the temporary files that a file system writes before it renames them into place. They are never visible.
pub const TEMPORARY_PREFIX: &str = ".llm-do-tmp-";
/// Prefix of the file of stored keys, and of the files beside it. They are never visible.
const KEYS_PREFIX: &str = ".llm-do-keys";
/// Folders of version control, whose settings name programs that it runs. They are protected in every folder.
const VERSION_CONTROL: &[&str] = &[".git", ".hg", ".svn", ".jj", ".bzr"];
/// Names of manifests that a program is read from. The first three belong to today's layout and to libraries, the
/// others to predecessors. They are protected in every folder: if a run wrote one, its folder would become a program.
/// Lower case.
pub const MANIFESTS: &[&str] =
    &["project.yaml", "llm-do.yaml", "lib.yaml", "golem-forge.config.yaml", "program.yaml", "workshop.yaml"];
/// Further names that are protected in every folder. Lower case.
const PROTECTED_NAMES: &[&str] = &[".venv", "pyvenv.cfg", "llm-do.lock", ".llm-doignore"];
/// Ends of names that are protected in every folder: workers, files that Python reads when it starts, cases and their
/// recordings. Lower case.
const PROTECTED_SUFFIXES: &[&str] = &[".worker", ".pth", ".cases.yaml", ".cases.jsonl", ".recorded"];
/// Ends of the names of files that Python and Node import.
const IMPORTED_SUFFIXES: &[&str] =
    &[".py", ".pyc", ".so", ".pyd", ".ts", ".mts", ".cts", ".js", ".mjs", ".cjs", ".node"];
/// The file that makes a folder a package.
const PACKAGE_FILE: &str = "__init__.py";
/// Files beside the program's Python code that determine its interpreter and packages.
const ENVIRONMENT_FILES: &[&str] = &[
    "pyproject.toml",
    "uv.lock",
    "uv.toml",
    ".python-version",
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "yarn.lock",
];
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
/// A folder at the program's root whose content other programs execute, like [`EXECUTED_NAMES`].
const HOOKS: &str = "hooks";
/// Folders and files that define any program, in addition to those in its manifest.
const CONVENTIONAL: &[&str] = &[
    "prompts",
    "templates",
    "schemas",
    "tools",
    "toolsets",
    "tools.py",
    "tools.ts",
    "tools.mts",
    "tools.js",
    "tools.mjs",
    "node_modules",
];

impl Protection {
    /// Creates the protection of the program at `root`. `defining` adds the paths in the manifest: the workers root,
    /// prompts, templates, tool roots and modules, each relative to the root.
    pub fn new(root: Place, defining: impl IntoIterator<Item = String>) -> Self {
        let relative = CONVENTIONAL.iter().map(|&path| path.to_owned()).chain(defining);
        let relative = relative.map(|path| path.trim_start_matches("./").trim_matches('/').to_owned());
        let places: Vec<Place> =
            relative.filter(|path| !path.is_empty()).map(|path| root.join(&path)).collect();
        let known = KnownPlaces { root, defining: Vec::new(), importing: Vec::new(), untrusted: Vec::new() };
        Self { known, further: None }.with_defining(places)
    }

    /// Adds files and folders that hold definitions. A place that contains the root is left out: otherwise nothing
    /// could be written.
    #[must_use]
    pub fn with_defining(mut self, places: impl IntoIterator<Item = Place>) -> Self {
        let root = fold(self.known.root.as_str());
        let places = places.into_iter().map(|place| fold(place.as_str()));
        let before = self.known.defining.len();
        self.known.defining.extend(places.filter(|place| !holds(&root, place)));
        if self.known.defining.len() > before {
            innermost_removed(&mut self.known.defining);
        }
        self
    }

    /// Adds folders from which the program's Python code imports modules. The modules and packages directly in them are
    /// protected, including those that do not exist yet.
    #[must_use]
    pub fn with_importing(mut self, folders: impl IntoIterator<Item = Place>) -> Self {
        let importing = &mut self.known.importing;
        importing.extend(folders.into_iter().map(|folder| fold(folder.as_str())));
        importing.sort();
        importing.dedup();
        self
    }

    /// Adds places that are untrusted for every worker, because one of the workers declares it.
    #[must_use]
    pub fn with_untrusted(mut self, places: impl IntoIterator<Item = Place>) -> Self {
        let untrusted = &mut self.known.untrusted;
        untrusted.extend(places);
        untrusted.sort();
        untrusted.dedup();
        self
    }

    /// Adds the places that `source` reads. The source is read once, before the first place is judged and thus before
    /// anything can be written. A run that touches no file then does not read a large program.
    #[must_use]
    pub fn with_further(self, source: Arc<dyn FurtherProtection>) -> Self {
        Self { further: Some(Arc::new(Further { source, found: OnceLock::new() })), ..self }
    }

    /// All known places, after the source was read.
    fn all(&self) -> impl Iterator<Item = &KnownPlaces> {
        let further =
            self.further.as_deref().map(|further| &further.found.get_or_init(|| further.source.read()).known);
        std::iter::once(&self.known).chain(further)
    }

    /// Root of the program.
    pub fn root(&self) -> &Place {
        &self.known.root
    }

    /// A place in the form that people read: relative to the project's root if it lies inside, absolute elsewhere.
    pub fn relative(&self, place: &Place) -> String {
        match place.rest(self.root()) {
            Some("") => ".".into(),
            Some(rest) => rest.into(),
            None => place.to_string(),
        }
    }

    /// Returns true if other programs execute the content of a place: a change there can run code outside the sandbox.
    pub fn is_executed(&self, place: &Place) -> bool {
        let inside = place.rest(self.root()).map(fold);
        let below = |name: &str, of: &str| of.split('/').next() == Some(name);
        inside.as_deref().is_some_and(|inside| below(HOOKS, inside))
            || inside
                .unwrap_or_else(|| fold(place.as_str()))
                .split('/')
                .any(|part| EXECUTED_NAMES.contains(&part))
    }

    /// Returns true if the name alone has no effect on the class: the entry has the class of its folder, unless
    /// [`Protection::tells_below`] is true for that folder. A fast path for walks over many names.
    pub fn is_ordinary(name: &str) -> bool {
        let is = |known: &&str| known.eq_ignore_ascii_case(name);
        let ends = |suffix: &&str| {
            name.len().checked_sub(suffix.len()).is_some_and(|at| name[at..].eq_ignore_ascii_case(suffix))
        };
        name.is_ascii()
            && !name.starts_with('.')
            && !name.ends_with(['.', ' '])
            && !PROTECTED_NAMES.iter().chain(MANIFESTS).any(is)
            && !PROTECTED_SUFFIXES.iter().any(ends)
    }

    /// Returns true if everything of that name is invisible, in any folder.
    pub fn is_invisible(name: &str) -> bool {
        let name = fold(name);
        let secret = [".env", TEMPORARY_PREFIX, KEYS_PREFIX];
        name == ".llm-do" || secret.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Returns true if the name is that of a folder or file of version control, whose settings name programs that it
    /// runs.
    pub fn is_version_control(name: &str) -> bool {
        VERSION_CONTROL.contains(&fold(name).as_str())
    }

    /// Returns true if a folder may contain a place that defines the program.
    pub fn tells_below(&self, folder: &Place) -> bool {
        if folder.rest(self.root()).is_none() && self.root().is_within(folder) {
            return true;
        }
        let folder = fold(folder.as_str());
        self.all().any(|known| known.tells_below(&folder))
    }

    /// Returns true if any worker of the program declares the content of a place untrusted.
    pub fn is_untrusted(&self, place: &Place) -> bool {
        self.all().any(|known| known.untrusted.iter().any(|untrusted| place.is_within(untrusted)))
    }

    /// The places that any worker declares untrusted.
    pub fn untrusted(&self) -> impl Iterator<Item = &Place> {
        self.all().flat_map(|known| &known.untrusted)
    }

    /// Returns true if llm-do reads the content of a place as a part of this program: a definition, its code or its
    /// environment. Places that are protected for the sake of other programs don't count.
    pub fn defines(&self, place: &Place) -> bool {
        let Some(inside) = place.rest(self.root()) else { return false };
        !inside.split('/').any(Self::is_version_control) && self.class(place, self.root()) == Class::Protected
    }

    /// The protection of `place` when it is reached through a mount of `mount`. A mount lifts the protection of the
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
                || PROTECTED_NAMES.iter().chain(MANIFESTS).any(|name| *name == part)
                || PROTECTED_SUFFIXES.iter().any(|s| part.ends_with(s))
            {
                class = Class::Protected;
            }
        }
        if class == Class::Open && !below.is_empty() {
            let (place, mount) = (fold(place.as_str()), fold(mount.as_str()));
            if self.all().any(|known| known.is_defining(&place, &mount) || known.is_imported(&place, &mount))
            {
                class = Class::Protected;
            }
        }
        class
    }
}

impl KnownPlaces {
    /// Returns true if a folded path may contain a place that defines the program.
    fn tells_below(&self, folder: &str) -> bool {
        self.defining.iter().any(|path| *path != folder && holds(path, folder))
            || self.importing.iter().any(|importing| {
                holds(importing, folder)
                    || folder.rsplit_once('/').is_some_and(|(above, _)| above == importing)
            })
    }

    /// Returns true if a folded path, reached through a mount, is that of a definition.
    fn is_defining(&self, place: &str, mount: &str) -> bool {
        self.defining.iter().any(|path| holds(place, path) && !holds(mount, path))
    }

    /// Returns true if a folded path is that of a module or package that the program's Python code could import, or
    /// that of a file that determines the interpreter of that code.
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

impl From<KnownPlaces> for Protection {
    fn from(known: KnownPlaces) -> Self {
        Self { known, further: None }
    }
}

impl PartialEq for Protection {
    /// Compares the places that are known already. Reads nothing.
    fn eq(&self, other: &Self) -> bool {
        self.known == other.known
    }
}

impl Eq for Protection {}

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.known.fmt(f)
    }
}

impl Serialize for Protection {
    /// Serialises all places, because another process can't read the source later.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut all = self.clone();
        for known in self.all().skip(1) {
            all.known.defining.extend(known.defining.iter().cloned());
            all.known.importing.extend(known.importing.iter().cloned());
            all.known.untrusted.extend(known.untrusted.iter().cloned());
        }
        innermost_removed(&mut all.known.defining);
        all.known.serialize(serializer)
    }
}

/// Returns true if a folded path is a folder or lies in it.
fn holds(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || folder == "/")
}

/// Removes the paths that lie within another one, and sorts the others.
fn innermost_removed(paths: &mut Vec<String>) {
    // The separator comes before every character of a name, so that each folder stands directly before all that is in
    // it: `a`, `a/c`, `a-b`.
    let in_order =
        |path: &String| -> Vec<u8> { path.bytes().map(|byte| if byte == b'/' { 0 } else { byte }).collect() };
    paths.sort_by_cached_key(in_order);
    paths.dedup_by(|next, kept| holds(next, kept));
}

/// A name as case-insensitive file systems compare it. To them `ſ` equals `s`, which upper-casing maps and
/// lower-casing does not. Some also ignore trailing dots and spaces, and zero-width characters.
fn fold(path: &str) -> String {
    let folded = if path.is_ascii() { path.to_ascii_lowercase() } else { fold_characters(path) };
    let ends_of_parts = folded.as_bytes().windows(2).filter(|pair| pair[1] == b'/').map(|pair| pair[0]);
    if !ends_of_parts.chain(folded.bytes().last()).any(|end| matches!(end, b'.' | b' ')) {
        return folded;
    }
    let parts: Vec<&str> = folded.split('/').map(|part| part.trim_end_matches(['.', ' '])).collect();
    parts.join("/")
}

fn fold_characters(path: &str) -> String {
    path.chars()
        .filter(|c| !matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

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

    #[test]
    fn what_is_found_out_later_is_read_once_and_written_down() {
        #[derive(Default)]
        struct Later(AtomicUsize);
        impl FurtherProtection for Later {
            fn read(&self) -> Protection {
                self.0.fetch_add(1, Ordering::Relaxed);
                Protection::new(Place::new("/p"), [])
                    .with_defining([Place::new("/p/shapes/a.json")])
                    .with_importing([Place::new("/p/sub")])
                    .with_untrusted([Place::new("/p/mail")])
            }
        }
        let later = Arc::new(Later::default());
        let protection = Protection::new(Place::new("/p"), []).with_further(Arc::clone(&later) as _);
        assert_eq!(later.0.load(Ordering::Relaxed), 0);
        assert_eq!(class(&protection, "/p/.env", "/p"), Class::Invisible);
        let opened = protection.clone().with_defining([Place::new("/p/script.json")]);
        for path in ["/p/shapes/a.json", "/p/sub/x.py", "/p/script.json"] {
            assert_eq!(class(&opened, path, "/p"), Class::Protected, "{path}");
        }
        assert_eq!(class(&protection, "/p/script.json", "/p"), Class::Open);
        assert!(
            opened.is_untrusted(&Place::new("/p/mail/1")) && !opened.is_untrusted(&Place::new("/p/mailbox"))
        );
        assert!(protection.tells_below(&Place::new("/p/shapes")));
        assert_eq!(later.0.load(Ordering::Relaxed), 1);
        let written = serde_json::to_string(&opened).unwrap();
        let read: Protection = serde_json::from_str(&written).unwrap();
        assert_eq!(class(&read, "/p/shapes/a.json", "/p"), Class::Protected);
        assert!(read.is_untrusted(&Place::new("/p/mail")));
    }

    proptest! {
        #[test]
        fn plain_paths_are_folded_as_all_are(path in "[aA./ ſ~-]{0,12}") {
            let parts = fold_characters(&path);
            let parts: Vec<&str> = parts.split('/').map(|part| part.trim_end_matches(['.', ' '])).collect();
            prop_assert_eq!(fold(&path), parts.join("/"));
        }

        /// Tests the invariant of walks, which do not check the path of a name that has no effect on the class.
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
