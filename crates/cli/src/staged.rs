//! Changes to a folder that are made all or not at all.
//!
//! New files are written beside the place first. Then everything is moved, and a move that fails undoes those before it.

use llm_do::program::migrate::WAITING;
use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};
use tempfile::TempDir;

/// Files that wait in a temporary folder on the file system where they will be.
pub(crate) struct Staged {
    waiting: TempDir,
}

/// What is done to a folder, in order; taken back when dropped before [`Moves::keep`].
pub(crate) struct Moves {
    root: PathBuf,
    done: Vec<Done>,
}

enum Done {
    Moved { from: PathBuf, to: PathBuf },
    Made(PathBuf),
}

impl Staged {
    /// A place to write to, in that folder.
    pub(crate) fn beside(folder: &Path) -> io::Result<Self> {
        let waiting = tempfile::Builder::new().prefix(WAITING).tempdir_in(folder)?;
        // Made anew inside, because a temporary folder is closed to others, and a project is not.
        fs::create_dir(waiting.path().join("new"))?;
        Ok(Self { waiting })
    }

    /// The folder of what waits.
    pub(crate) fn path(&self) -> PathBuf {
        self.waiting.path().join("new")
    }

    /// Writes one file; `path` has `/` between its parts and stays inside.
    pub(crate) fn write(&self, path: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let place = self.place(path)?;
        fs::write(&place, bytes)?;
        Ok(place)
    }

    /// Copies one file, with its permissions.
    pub(crate) fn copy(&self, from: &Path, path: &str) -> io::Result<()> {
        fs::copy(from, self.place(path)?).map(drop)
    }

    /// Puts the whole folder to a place where nothing is, or an empty folder.
    pub(crate) fn become_folder(self, target: &Path) -> io::Result<()> {
        // Onto a file, or a folder that holds something, the system refuses to rename a folder.
        fs::rename(self.path(), target)
    }

    fn place(&self, path: &str) -> io::Result<PathBuf> {
        let place = self.path().join(inside(path)?);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(place)
    }
}

impl Moves {
    /// Nothing yet.
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), done: Vec::new() }
    }

    /// Moves a file or folder to a path below the root where nothing is; makes the folders in between.
    pub(crate) fn put(&mut self, from: &Path, path: &str) -> io::Result<()> {
        let path = inside(path)?;
        let mut folder = self.root.clone();
        for part in path.parent().unwrap_or(Path::new("")).components() {
            folder.push(part);
            match fs::symlink_metadata(&folder) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(io::Error::other(format!("{} is no folder", folder.display()))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir(&folder)?;
                    self.done.push(Done::Made(folder.clone()));
                }
                Err(error) => return Err(error),
            }
        }
        let to = self.root.join(path);
        rename_new(from, &to)?;
        self.done.push(Done::Moved { from: from.to_owned(), to });
        Ok(())
    }

    /// All is done.
    pub(crate) fn keep(mut self) {
        self.done.clear();
    }
}

impl Drop for Moves {
    fn drop(&mut self) {
        for step in self.done.drain(..).rev() {
            // There is nothing better to do with a step that can't be taken back.
            let _ = match step {
                Done::Moved { from, to } => rename_new(&to, &from),
                Done::Made(folder) => fs::remove_dir(folder),
            };
        }
    }
}

/// Renames to where nothing is.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::{
        fs::{CWD, RenameFlags, renameat_with},
        io::Errno,
    };
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that does not know how: looked at first.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match fs::symlink_metadata(to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(from, to),
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) => Err(error),
        },
        done => Ok(done?),
    }
}

/// A path that goes only down.
fn inside(path: &str) -> io::Result<&Path> {
    let path = Path::new(path);
    let down = path.components().all(|part| matches!(part, Component::Normal(_)));
    if down && path.file_name().is_some() {
        Ok(path)
    } else {
        Err(io::Error::other(format!("{} leads elsewhere", path.display())))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]
mod tests {
    use super::*;

    #[test]
    fn a_move_that_fails_undoes_those_before_it() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str| root.path().join(name);
        fs::write(file("a"), "a").unwrap();
        fs::write(file("b"), "b").unwrap();
        let mut moves = Moves::new(root.path());
        moves.put(&file("a"), "deep/er/a").unwrap();
        assert!(moves.put(&file("b"), "deep/er/a").is_err(), "nothing is overwritten");
        assert_eq!(fs::read_to_string(file("deep/er/a")).unwrap(), "a");
        drop(moves);
        assert_eq!(fs::read_to_string(file("a")).unwrap(), "a");
        assert!(!file("deep").exists());
    }

    #[test]
    fn nothing_is_put_outside() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir_all(outer.path().join("elsewhere")).unwrap();
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "a").unwrap();
        std::os::unix::fs::symlink("../elsewhere", root.join("link")).unwrap();
        let staged = Staged::beside(&root).unwrap();
        for path in ["../a", "/a", "x/../../a", "link/a", ""] {
            assert!(Moves::new(&root).put(&root.join("a"), path).is_err(), "{path}");
            if path != "link/a" {
                assert!(staged.write(path, b"x").is_err(), "{path}");
            }
        }
        assert_eq!(fs::read_dir(outer.path().join("elsewhere")).unwrap().count(), 0);
    }
}
