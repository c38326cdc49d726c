//! New files that get their name when they are complete.
//!
//! A process can be killed at any moment, and must leave no part of a file behind. If the system supports it
//! (`O_TMPFILE`), a new file has no name until it is complete. To replace another file, it has a temporary name between
//! two system calls. On other systems it has one from its beginning: [`TEMPORARY_PREFIX`] with random digits. Such a
//! file is locked while it is in use. A file without a lock was left by a killed process. The next process that makes a
//! file in the folder removes it.

use crate::open::{file, new_file, rename_new};
use cap_fs_ext::MetadataExt as _;
use cap_std::{
    ambient_authority,
    fs::{Dir, File},
};
use llm_do_core::authority::TEMPORARY_PREFIX;
use std::{
    cell::RefCell,
    collections::{BTreeSet, hash_map::RandomState},
    ffi::OsStr,
    hash::{BuildHasher as _, Hasher as _},
    io::{self, Write},
    path::Path,
};

/// A file that is being written. [`NewFile::replace`] or [`NewFile::put`] gives it its name. If it is dropped before,
/// it leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    folder: Dir,
    file: File,
    /// The temporary name of the file, if it has one.
    temporary: Option<String>,
}

impl NewFile {
    /// Begins a file in that folder, with the permissions of a new file.
    ///
    /// # Errors
    /// No file can be created in the folder.
    pub fn begin(folder: &Dir) -> io::Result<Self> {
        sweep(folder);
        let folder = folder.try_clone()?;
        if let Some(file) = unnamed(&folder)? {
            return Ok(Self { folder, file, temporary: None });
        }
        loop {
            let temporary = temporary_name();
            match new_file(&folder, &temporary) {
                Ok(file) => {
                    lock(&file);
                    // Before the lock, another process may have taken it for one that was left.
                    if folder.symlink_metadata(&temporary).is_ok() {
                        return Ok(Self { folder, file, temporary: Some(temporary) });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the open file, for writing its content.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its name, and replaces a file that has the name. A link is replaced, and its target stays.
    ///
    /// # Errors
    /// The name is that of a folder, or no file can be created in the folder.
    pub fn replace(mut self, name: impl AsRef<Path>) -> io::Result<()> {
        let name = name.as_ref();
        if self.temporary.is_none() {
            match link(&self.file, &self.folder, name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.name_temporarily()?,
                linked => return linked,
            }
        }
        if let Some(temporary) = &self.temporary {
            self.folder.rename(temporary, &self.folder, name)?;
        }
        self.temporary = None;
        Ok(())
    }

    /// Gives the file its name, which must be free.
    ///
    /// # Errors
    /// The name is in use, or no file can be created in the folder.
    pub fn put(mut self, name: impl AsRef<Path>) -> io::Result<()> {
        let name = name.as_ref();
        match &self.temporary {
            None => link(&self.file, &self.folder, name)?,
            Some(temporary) => rename_new(&self.folder, temporary.as_ref(), &self.folder, name, false)?,
        }
        self.temporary = None;
        Ok(())
    }

    fn name_temporarily(&mut self) -> io::Result<()> {
        lock(&self.file);
        loop {
            let temporary = temporary_name();
            match link(&self.file, &self.folder, temporary.as_ref()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => {
                    linked?;
                    self.temporary = Some(temporary);
                    return Ok(());
                }
            }
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // The next process that makes a file in the folder removes it, too.
            let _ = self.folder.remove_file(temporary);
        }
    }
}

/// Replaces a file that only its owner may read, and makes its folder.
///
/// # Errors
/// The folder can't be made, or no file can be created in it.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (new, name) = private(path, bytes)?;
    new.replace(name)
}

/// Makes a file that only its owner may read, and its folder. Returns false if the name is in use.
///
/// # Errors
/// The folder can't be made, or no file can be created in it.
pub fn put_private(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let (new, name) = private(path, bytes)?;
    match new.put(name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        put => put.map(|()| true),
    }
}

fn private<'a>(path: &'a Path, bytes: &[u8]) -> io::Result<(NewFile, &'a OsStr)> {
    let name = path.file_name();
    let name =
        name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it is not the name of a file"))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    crate::private_dir(folder)?;
    let mut new = NewFile::begin(&Dir::open_ambient_dir(folder, ambient_authority())?)?;
    #[cfg(unix)]
    rustix::fs::fchmod(&new.file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    new.write_all(bytes)?;
    Ok((new, name))
}

fn temporary_name() -> String {
    format!("{TEMPORARY_PREFIX}{:016x}", RandomState::new().build_hasher().finish())
}

/// Opens a file without a name. Returns `None` if the system or the file system does not support such files, or can't
/// name one later.
#[cfg(target_os = "linux")]
fn unnamed(folder: &Dir) -> io::Result<Option<File>> {
    use rustix::{
        fs::{Mode, OFlags, openat},
        io::Errno,
    };
    use std::sync::LazyLock;
    static CAN_BE_NAMED: LazyLock<bool> = LazyLock::new(|| Path::new("/proc/self/fd").is_dir());
    if !*CAN_BE_NAMED {
        return Ok(None);
    }
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match openat(folder, ".", flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => Ok(Some(File::from_std(file.into()))),
        Err(Errno::NOTSUP | Errno::ISDIR | Errno::NOENT | Errno::INVAL | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "where there are such files, they may fail")]
fn unnamed(_: &Dir) -> io::Result<Option<File>> {
    Ok(None)
}

/// Names a file that has no name, unless something has that name.
#[cfg(target_os = "linux")]
fn link(file: &File, folder: &Dir, name: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    use std::os::fd::AsRawFd as _;
    // As open(2) describes it for `O_TMPFILE`.
    let by_number = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, by_number, folder, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn link(_: &File, _: &Dir, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Marks a file as in use. On a file system without locks, no file is treated as a leftover.
fn lock(file: &File) {
    #[cfg(unix)]
    let _ = rustix::fs::flock(file, rustix::fs::FlockOperation::LockExclusive);
    #[cfg(not(unix))]
    let _ = file;
}

/// Removes what killed processes have left in a folder, once in this thread: a large folder takes a while to list.
fn sweep(folder: &Dir) {
    /// The largest number of folders that are remembered. After that many, they are listed again.
    const MOST: usize = 10_000;
    thread_local! {
        static SWEPT: RefCell<BTreeSet<(u64, u64)>> = const { RefCell::new(BTreeSet::new()) };
    }
    let Ok(found) = folder.dir_metadata() else { return };
    let is_new = SWEPT.with_borrow_mut(|swept| {
        if swept.len() >= MOST {
            swept.clear();
        }
        swept.insert((found.dev(), found.ino()))
    });
    if is_new {
        remove_leftovers(folder);
    }
}

fn remove_leftovers(folder: &Dir) {
    for entry in folder.entries().into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with(TEMPORARY_PREFIX)) else { continue };
        if entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Ok(Some(left)) = file(folder, name)
            && is_unused(&left)
        {
            // One that can't be removed does no harm.
            let _ = folder.remove_file(name);
        }
    }
}

#[cfg(unix)]
fn is_unused(file: &File) -> bool {
    rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
}

#[cfg(not(unix))]
fn is_unused(_: &File) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    fn folder() -> (tempfile::TempDir, Dir) {
        let outer = tempfile::tempdir().expect("it is there");
        let folder = Dir::open_ambient_dir(outer.path(), ambient_authority()).expect("it is there");
        (outer, folder)
    }

    fn names(outer: &tempfile::TempDir) -> Vec<String> {
        let entries = fs::read_dir(outer.path()).expect("it is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("it is there").file_name().into_string().expect("it is there"))
            .collect();
        names.sort();
        names
    }

    /// Gives the same file a temporary name from its beginning, as on file systems that support nothing else.
    fn named(mut new: NewFile) -> NewFile {
        if new.temporary.is_none() {
            new.name_temporarily().expect("it is there");
        }
        new
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        for with_name in [false, true] {
            let (outer, folder) = folder();
            let begin = |text: &str| {
                let new = NewFile::begin(&folder).expect("it is there");
                let mut new = if with_name { named(new) } else { new };
                new.write_all(text.as_bytes()).expect("it is there");
                new
            };
            let read = |name: &str| fs::read_to_string(outer.path().join(name)).expect("it is there");
            drop(begin("never"));
            assert_eq!(names(&outer), [""; 0]);
            begin("one").put("a").expect("it is there");
            assert_eq!(begin("two").put("a").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(read("a"), "one");
            begin("three").replace("a").expect("it is there");
            begin("four").replace("b").expect("it is there");
            assert_eq!((read("a"), read("b")), ("three".into(), "four".into()));
            symlink("a", outer.path().join("link")).expect("it is there");
            begin("five").replace("link").expect("it is there");
            assert_eq!((read("a"), read("link")), ("three".into(), "five".into()));
            fs::create_dir(outer.path().join("folder")).expect("it is there");
            assert!(begin("x").replace("folder").is_err());
            assert_eq!(names(&outer), ["a", "b", "folder", "link"]);
        }
    }

    #[test]
    fn only_leftovers_of_ended_processes_are_removed() {
        let (outer, folder) = folder();
        let in_use = named(NewFile::begin(&folder).expect("it is there"));
        let left = format!("{TEMPORARY_PREFIX}left");
        for name in [left.as_str(), "mine", ".tmp-mine"] {
            fs::write(outer.path().join(name), "x").expect("it is there");
        }
        let link = format!("{TEMPORARY_PREFIX}link");
        symlink("mine", outer.path().join(&link)).expect("it is there");
        remove_leftovers(&folder);
        let temporary = in_use.temporary.clone().expect("it is there");
        let mut expected = vec![temporary, link, "mine".into(), ".tmp-mine".into()];
        expected.sort();
        assert_eq!(names(&outer), expected);
    }

    #[test]
    fn a_private_file_is_its_owners() {
        let (outer, _) = folder();
        let path = outer.path().join("new/secret");
        write_private(&path, b"one").expect("it is there");
        assert!(!put_private(&path, b"two").expect("it is there"));
        write_private(&path, b"three").expect("it is there");
        assert_eq!(fs::read(&path).expect("it is there"), b"three");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().expect("it is there")).expect("it is there").count(), 1);
    }
}
