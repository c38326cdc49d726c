//! Paths that the operator names for files that llm-do writes.
//!
//! A project may come from anywhere and contain links, so a path in a project must lead to a place in that project: `cases/x`
//! of a cloned repository must not be a file of the home folder.

use llm_do_program::manifest::{LIBRARY, MANIFESTS};
use llm_do_sandbox::{check_below, make_folder_below, write_below, write_whole};
use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

/// Writes a whole file at a path that the operator names, and makes the folders on the way.
///
/// # Errors
/// The file can't be written, or a link of a project leads out of it.
pub fn write_named(path: &Path, bytes: &[u8]) -> io::Result<()> {
    check_named(path)?;
    // Of projects within each other, the outermost one has the first link.
    match projects_around(path)?.pop() {
        Some((root, below)) => write_below(&root, &below, bytes),
        None => write_whole(path, bytes),
    }
}

/// Makes a folder at a path that the operator names, with those on the way. Returns its real path.
///
/// # Errors
/// It can't be made, or a link of a project leads out of it.
pub fn make_named_folder(path: &Path) -> io::Result<PathBuf> {
    check_named(path)?;
    match projects_around(path)?.pop() {
        Some((root, below)) => make_folder_below(&root, &below),
        None => {
            fs::create_dir_all(path)?;
            fs::canonicalize(path)
        }
    }
}

/// Fails if a link of a project leads a path that the operator names out of the project. The path need not exist.
///
/// # Errors
/// A link leads out of the project or nowhere, or a folder on the way can't be read.
pub fn check_named(path: &Path) -> io::Result<()> {
    projects_around(path)?.iter().try_for_each(|(root, below)| {
        check_below(root, below).map_err(|error| {
            io::Error::new(error.kind(), format!("in the project {}: {error}", root.display()))
        })
    })
}

/// Returns the projects around a path by the names in it, the innermost first, each with the rest of the path.
fn projects_around(path: &Path) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let mut whole = PathBuf::new();
    for part in std::path::absolute(path)?.components() {
        match part {
            Component::ParentDir => _ = whole.pop(),
            part => whole.push(part),
        }
    }
    let is_project = |folder: &Path| {
        let mut marks = MANIFESTS.iter().copied().chain([LIBRARY, ".git"]);
        marks.any(|name| folder.join(name).symlink_metadata().is_ok())
    };
    let around = whole.ancestors().skip(1).filter(|folder| is_project(folder));
    Ok(around
        .filter_map(|folder| Some((folder.to_owned(), whole.strip_prefix(folder).ok()?.to_owned())))
        .collect())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_a_link_of_a_project_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (project, home) = (dir.path().join("home/project"), dir.path().join("home"));
        for folder in ["home/project/sub", "home/other"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        for file in ["project/project.yaml", "project/sub/project.yaml", "other/project.yaml", "other/kept"] {
            fs::write(home.join(file), "name: x\n").unwrap();
        }
        symlink("../other", project.join("out")).unwrap();
        symlink("../../other/kept", project.join("sub/file")).unwrap();
        symlink("other", home.join("mine")).unwrap();
        for path in ["project/out/x", "project/out/kept", "project/sub/file", "project/sub/../out/x"] {
            assert!(write_named(&home.join(path), b"theirs").is_err(), "{path}");
            assert!(check_named(&home.join(path)).is_err(), "{path}");
            assert!(make_named_folder(&home.join(path)).is_err(), "{path}");
        }
        assert_eq!(fs::read_dir(home.join("other")).unwrap().count(), 2);
        for path in ["project/new/x", "project/sub/x", "mine/x", "y"] {
            check_named(&home.join(path)).unwrap();
            write_named(&home.join(path), b"x").unwrap();
            assert_eq!(fs::read(home.join(path)).unwrap(), b"x", "{path}");
        }
        for path in ["project/folder/of/mine", "mine/folder"] {
            assert!(make_named_folder(&home.join(path)).unwrap().is_dir(), "{path}");
        }
    }
}
