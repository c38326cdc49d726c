//! A folder of installed libraries: `NAME@VERSION/` each, which are added and removed as a whole.
//!
//! A command that changes a root holds its lock file, so that no two commands change it at the same time. Files that a
//! killed command left have names that no other command reads, and the next change removes them.

use crate::{Host, error::Message};
use crate::{
    error::Error,
    package::{Package, sync},
};
use cap_std::{ambient_authority, fs::Dir};
use llm_do_program::{
    contents::{Contents, Difference},
    source::DiskTree,
};
use llm_do_sandbox::NewFile;
use std::{
    fs::{self, File, TryLockError},
    io::{self, Write as _},
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Prefix of the folders in which libraries are installed or removed.
const SCRATCH: &str = ".installing-";
const LOCK: &str = ".lock";

/// A root that this process alone may change.
pub(crate) struct Root {
    folder: PathBuf,
    /// Held until it is dropped, or the process ends.
    _lock: File,
}

/// The result of adding a library to a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placed {
    /// The library was not installed before.
    Installed,
    /// The library was installed already, with the same files.
    Already,
    /// The library was installed with other files.
    Replaced,
}

impl Root {
    /// Opens a root for changes, and creates it if it does not exist. Waits for another command that changes it.
    pub(crate) fn open(folder: &Path, host: &dyn Host) -> Result<Self, Error> {
        let wrong = |error: io::Error| {
            Message::failed(format!("the libraries' folder `{}` cannot be opened: {error}", folder.display()))
        };
        let folder = host.make_folder(folder).map_err(wrong)?;
        let mut options = File::options();
        let lock = options.create(true).truncate(false).write(true).open(folder.join(LOCK)).map_err(wrong)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                host.note(&format!("another command changes {}; waiting for it", folder.display()));
                lock.lock().map_err(wrong)?;
            }
            Err(TryLockError::Error(error)) => return Err(wrong(error).into()),
        }
        let root = Self { folder, _lock: lock };
        root.sweep();
        Ok(root)
    }

    /// Returns the folder of the root.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates an empty folder in the root, which is removed when it is dropped.
    pub(crate) fn scratch(&self) -> Result<TempDir, Error> {
        tempfile::Builder::new().prefix(SCRATCH).tempdir_in(&self.folder).map_err(|error| self.failed(&error))
    }

    /// Checks that a library can be added. Returns true if it is installed already with the same files. A library of
    /// the same name and version with other files is an error, unless `force`.
    pub(crate) fn check(&self, package: &Package, force: bool) -> Result<bool, Error> {
        let label = package.label();
        let target = self.folder.join(&label);
        for other in folders(&self.folder).map_err(|error| self.failed(&error))? {
            if other != label && other.to_lowercase() == label.to_lowercase() {
                return Err(Message::wrong(format!(
                    "`{label}` and `{other}`, which is installed in {}, are one folder on systems that ignore case",
                    self.folder.display()
                ))
                .hint(format!("remove the other first: `llm-do lib remove {other}`"))
                .into());
            }
        }
        let Ok(metadata) = fs::symlink_metadata(&target) else { return Ok(false) };
        let differences = if metadata.is_dir() { compare(&target, package) } else { None };
        match differences.as_deref() {
            Some([]) => Ok(true),
            _ if force => Ok(false),
            differences => Err(other_files(&label, &target, differences).into()),
        }
    }

    /// Adds a library, if [`Root::check`] allows it.
    pub(crate) fn put(&self, package: &Package, force: bool) -> Result<Placed, Error> {
        if self.check(package, force)? {
            return Ok(Placed::Already);
        }
        let target = self.folder.join(package.label());
        let there = fs::symlink_metadata(&target).is_ok();
        let scratch = self.scratch()?;
        let whole = scratch.path().join("library");
        let written = fs::create_dir(&whole).and_then(|()| package.write(&whole));
        written.map_err(|error| self.failed(&error))?;
        match there {
            false => fs::rename(&whole, &target),
            true => swap(&whole, &target, &scratch.path().join("old")),
        }
        .and_then(|()| sync(&self.folder))
        .map_err(|error| self.failed(&error))?;
        Ok(if there { Placed::Replaced } else { Placed::Installed })
    }

    /// Removes a library in one step. Of a symbolic link, only the link is removed.
    pub(crate) fn take(&self, folder: &str) -> Result<(), Error> {
        let target = self.folder.join(folder);
        let failed = |error: io::Error| self.failed(&error);
        if fs::symlink_metadata(&target).map_err(failed)?.is_symlink() {
            return fs::remove_file(&target).map_err(failed);
        }
        let scratch = self.scratch()?;
        fs::rename(&target, scratch.path().join("gone")).and_then(|()| sync(&self.folder)).map_err(failed)?;
        Ok(())
    }

    /// Removes the leftovers of killed commands. With the lock held, none of them is in use.
    fn sweep(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(SCRATCH) {
                // A leftover that can't be removed does no harm.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }

    fn failed(&self, error: &io::Error) -> Error {
        Message::failed(format!(
            "the libraries' folder `{}` cannot be changed: {error}",
            self.folder.display()
        ))
        .into()
    }
}

/// Removes the leftovers of killed commands, if there are any: a half removed library is in no list of libraries.
pub(crate) fn clear(root: &Path, host: &dyn Host) {
    let mut entries = fs::read_dir(root).into_iter().flatten().flatten();
    if entries.any(|entry| entry.file_name().to_string_lossy().starts_with(SCRATCH)) {
        // To open a root clears it. One that can't be opened keeps them, which does no harm.
        let _ = Root::open(root, host);
    }
}

/// Names of the libraries' folders in a root, sorted; none if there is no root.
pub(crate) fn folders(root: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        // Followed: a link to a folder elsewhere is a library that its author works on.
        if let Ok(name) = entry.file_name().into_string()
            && !name.starts_with('.')
            && entry.path().is_dir()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Replaces a file's text in one step, and waits until it is on the disk.
///
/// # Errors
/// The file can't be written.
pub fn write_durably(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut new = NewFile::begin(&Dir::open_ambient_dir(folder, ambient_authority())?)?;
    new.write_all(text.as_bytes())?;
    new.file().sync_all()?;
    new.replace(name)?;
    sync(folder)
}

/// Returns the differences between an installed folder and a library, or `None` if they can't be compared.
fn compare(folder: &Path, package: &Package) -> Option<Vec<Difference>> {
    let tree = DiskTree::open(folder).ok()?;
    Some(Contents::of(&tree).ok()?.compare(&package.contents))
}

fn other_files(label: &str, target: &Path, differences: Option<&[Difference]>) -> Message {
    let mut message = format!("`{label}` is installed already, in {}, with other files", target.display());
    for difference in differences.unwrap_or_default().iter().take(10) {
        message.push_str(&format!("\n  {difference}"));
    }
    if let Some(more) = differences.and_then(|all| all.len().checked_sub(10)).filter(|more| *more > 0) {
        message.push_str(&format!("\n  and {more} more"));
    }
    Message::wrong(message)
        .hint("a library that changes gets another `version`")
        .hint("to replace the installed files: --force")
}

/// Puts a folder in the place of another, which is moved to `old` or to the place of the new one. If the system
/// supports it, one of the two exists at each moment.
fn swap(new: &Path, target: &Path, old: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        if renameat_with(CWD, new, CWD, target, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
    }
    fs::rename(target, old)?;
    fs::rename(new, target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{package::File as PackageFile, tests::Silent};

    fn package(text: &str) -> Package {
        let lib = "name: utils\nversion: 1.0.0\nexports: [a]\n";
        let file = |path: &str, text: &str| PackageFile {
            path: path.into(),
            bytes: text.into(),
            executable: path == "run.sh",
        };
        let files =
            vec![file("lib.yaml", lib), file("workers/a.worker", text), file("run.sh", "#!/bin/sh\n")];
        Package::check(files, None, "utils", &Silent).unwrap_or_else(|_| panic!("a sound library"))
    }

    fn done<T>(outcome: Result<T, Error>) -> T {
        outcome.unwrap_or_else(|error| panic!("{error:?}"))
    }

    #[test]
    fn a_library_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = done(Root::open(&folder.path().join("libs"), &Silent));
        assert_eq!(done(root.put(&package("---\n---\nHi\n"), false)), Placed::Installed);
        assert_eq!(done(root.put(&package("---\n---\nHi\n"), false)), Placed::Already);
        assert!(root.put(&package("---\n---\nHo\n"), false).is_err());
        assert_eq!(done(root.put(&package("---\n---\nHo\n"), true)), Placed::Replaced);
        let worker = root.folder().join("utils@1.0.0/workers/a.worker");
        assert_eq!(fs::read_to_string(&worker).expect("a worker"), "---\n---\nHo\n");
        assert_eq!(folders(root.folder()).expect("a root"), ["utils@1.0.0"]);
        let left: Vec<_> =
            fs::read_dir(root.folder()).expect("a root").flatten().map(|e| e.file_name()).collect();
        assert_eq!(left.len(), 2, "the library and the lock: {left:?}");
        done(root.take("utils@1.0.0"));
        assert!(folders(root.folder()).expect("a root").is_empty());
    }

    #[test]
    fn what_a_killed_command_left_is_swept() {
        let folder = tempfile::tempdir().expect("a folder");
        let half = folder.path().join(".installing-x/library/workers");
        fs::create_dir_all(&half).expect("folders");
        assert!(folders(folder.path()).expect("a root").is_empty());
        done(Root::open(folder.path(), &Silent));
        assert!(!half.exists());
    }

    #[cfg(unix)]
    #[test]
    fn modes_are_those_of_files_and_programs() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let root = done(Root::open(folder.path(), &Silent));
        done(root.put(&package("---\n---\nHi\n"), false));
        let mode = |path: &str| {
            let path = root.folder().join("utils@1.0.0").join(path);
            fs::metadata(path).expect("a file").permissions().mode() & 0o7111
        };
        assert_eq!((mode("lib.yaml"), mode("run.sh")), (0, 0o111));
    }
}
