//! Users of an installed library.
//!
//! The file `library-projects` in llm-do's home lists the known projects, one root a line: `llm-do lib install` adds
//! those for which it writes a lock file. The list only says where to search. The project itself says whether it uses a
//! library.

use crate::{
    error::{Error, Message},
    root::folders,
};
use llm_do_program::{
    dependency::{Dependency, DependencyKind},
    library::{DiskLibraries, Libraries},
    lock::{LOCK_FILE, Lock},
    manifest::Manifest,
    source::{DiskTree, SourceTree},
};
use std::{
    collections::BTreeSet,
    fmt,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// The longest list that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// A user of a library.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct User {
    /// A project's folder, or a library's `NAME@VERSION`.
    pub who: String,
    /// The way in which the user depends on the library, such as "it names `NAME`".
    pub how: String,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.who, self.how)
    }
}

/// Adds a project that pins libraries to the list, so that its libraries are not removed by mistake.
pub(crate) fn remember(list: &Path, project: &Path) -> Result<(), Error> {
    let Some(text) = project.to_str().filter(|text| !text.contains(['\n', '\r'])) else { return Ok(()) };
    let known = read(list);
    if lines(&known).any(|line| line == text) {
        return Ok(());
    }
    // Who was killed, or had no room, may have left a line without its end.
    let end = if known.is_empty() || known.ends_with('\n') { "" } else { "\n" };
    let folder = list.parent().unwrap_or(Path::new("."));
    let append = || {
        fs::create_dir_all(folder)?;
        // One write of one line: two commands at once append two lines.
        File::options().create(true).append(true).open(list)?.write_all(format!("{end}{text}\n").as_bytes())
    };
    append().map_err(|error: io::Error| {
        Message::failed(format!("`{}` cannot be written: {error}", list.display())).into()
    })
}

/// Returns the known projects.
pub(crate) fn projects(list: &Path) -> BTreeSet<String> {
    lines(&read(list)).map(str::to_owned).collect()
}

fn read(list: &Path) -> String {
    let mut bytes = Vec::new();
    // An unreadable list counts as empty.
    let _ = File::open(list).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn lines(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| Path::new(line).is_absolute())
}

/// Returns the users of the library in `folder` (`NAME` or `NAME@VERSION`) of a root: other installed libraries, the
/// current project, and the known projects.
pub(crate) fn users(
    folder: &Path,
    name: &str,
    version: &str,
    roots: &[PathBuf],
    here: Option<&Path>,
    list: &Path,
) -> Vec<User> {
    let found = Wanted {
        folder: fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()),
        name,
        version,
        roots,
    };
    let mut users = BTreeSet::new();
    for root in roots {
        for other in folders(root).unwrap_or_default() {
            let path = root.join(&other);
            if fs::canonicalize(&path).is_ok_and(|path| path == found.folder) {
                continue;
            }
            let Ok(tree) = DiskTree::open(&path) else { continue };
            let Some(manifest) = Manifest::load_library(&tree, &mut Vec::new()) else { continue };
            users.extend(found.asked_for(&manifest.dependencies, &other));
        }
    }
    let known = projects(list);
    let known = known.iter().map(Path::new).chain(here);
    for project in known.collect::<BTreeSet<_>>() {
        let Ok(tree) = DiskTree::open(project) else { continue };
        users.extend(found.used_by(&tree, &project.display().to_string()));
    }
    users.into_iter().collect()
}

struct Wanted<'a> {
    folder: PathBuf,
    name: &'a str,
    version: &'a str,
    roots: &'a [PathBuf],
}

impl Wanted<'_> {
    fn used_by(&self, tree: &dyn SourceTree, who: &str) -> Option<User> {
        let lock = Lock::load(tree, &mut Vec::new());
        if let Some(pinned) = lock.as_ref().and_then(|lock| lock.get(self.name)) {
            let how = format!("{LOCK_FILE} pins {}", pinned.label());
            return (pinned.version == self.version).then(|| User { who: who.to_owned(), how });
        }
        let manifest = Manifest::load(tree, &mut Vec::new());
        self.asked_for(&manifest.dependencies, who)
    }

    /// Returns the user if one of these dependencies is found in this folder and no other.
    fn asked_for(&self, dependencies: &[Dependency], who: &str) -> Option<User> {
        dependencies.iter().find_map(|dependency| {
            let DependencyKind::Named { name, version } = &dependency.kind else { return None };
            if name != self.name {
                return None;
            }
            let libraries = DiskLibraries { roots: self.roots.to_vec() };
            let tree = libraries.find(name, version.as_deref()).ok()??;
            let same = Path::new(tree.root().as_str()) == self.folder;
            same.then(|| User { who: who.to_owned(), how: format!("it names `{}`", dependency.text) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_are_remembered_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = folder.path().join("home/library-projects");
        assert!(projects(&list).is_empty());
        for project in ["/a", "/b c", "/a", "/odd\nname"] {
            remember(&list, Path::new(project)).unwrap_or_else(|error| panic!("{error:?}"));
        }
        assert_eq!(fs::read_to_string(&list).expect("a list"), "/a\n/b c\n");
        fs::write(&list, b"relative\n/x\n\xff\n").expect("a file");
        assert_eq!(projects(&list), BTreeSet::from(["/x".to_owned()]));
        fs::write(&list, "/x\n/cut/o").expect("a file");
        remember(&list, Path::new("/y")).unwrap_or_else(|error| panic!("{error:?}"));
        assert!(projects(&list).is_superset(&["/x", "/y"].map(str::to_owned).into()));
    }
}
