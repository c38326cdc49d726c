//! Files that are written whole or not at all: a disk that fills leaves the file that was there.

use llm_do::check_named;
use rustix::fs::Access;
use std::{
    fs::{self, File, Permissions},
    io::{self, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use tempfile::{Builder, NamedTempFile};

/// Permissions of a new file, as far as the process's mask allows.
const NEW: u32 = 0o666;

/// A file that is being written. It takes its place with [`WholeFile::keep`]; dropped before, it leaves nothing.
pub(crate) struct WholeFile {
    path: PathBuf,
    to: To,
}

enum To {
    /// A new file in the same folder.
    New(NamedTempFile),
    /// A device or a pipe, which can't be replaced.
    There(File),
}

impl WholeFile {
    /// Begins the file. Of a link the file is meant that it leads to, unless the link leads out of a project.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        check_named(path)?;
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error),
        };
        let mut permissions = Permissions::from_mode(NEW);
        let there = match fs::metadata(&real) {
            Ok(found) if found.is_file() => {
                permissions = found.permissions();
                // What may not be written is not replaced either.
                File::options().append(true).open(&real)?;
                None
            }
            Ok(_) => Some(File::options().write(true).open(&real)?),
            Err(_) => None,
        };
        let to = match there {
            Some(file) => To::There(file),
            None => {
                let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty());
                let mut new = Builder::new();
                let folder = folder.unwrap_or(Path::new("."));
                // Asked for first, because an error of the temporary file has its name, which says nothing to the user.
                rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?;
                To::New(new.permissions(permissions).tempfile_in(folder)?)
            }
        };
        Ok(Self { path: real, to })
    }

    /// Puts the file in its place.
    pub(crate) fn keep(self) -> io::Result<()> {
        match self.to {
            To::New(new) => new.persist(&self.path).map(drop).map_err(|error| error.error),
            To::There(mut file) => file.flush(),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::New(new) => new.write(bytes),
            To::There(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::New(new) => new.flush(),
            To::There(file) => file.flush(),
        }
    }
}

/// Writes a whole file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(bytes)?;
    file.keep()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_stays_until_the_new_file_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a"), folder.path().join("b"));
        write(&file, b"one").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut begun = WholeFile::create(&link).unwrap();
        begun.write_all(b"two").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"one");
        drop(begun);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        write(&link, b"three").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"three");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(write(folder.path(), b"x").is_err());
        assert!(write(&folder.path().join("no/a"), b"x").is_err());
        write(Path::new("/dev/null"), b"x").unwrap();
    }
}
