//! Files that are written completely or not at all: if the disk is full, the earlier file stays.

use cap_std::{
    ambient_authority,
    fs::{Dir, Permissions},
};
use llm_do::{NewFile, check_named};
use rustix::fs::Access;
use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

/// A file that is being written. [`WholeFile::keep`] puts it into its place. If it is dropped before, it leaves
/// nothing.
pub(crate) struct WholeFile(To);

enum To {
    /// A new file in the same folder, and the name that it gets.
    New(NewFile, OsString),
    /// A device or a pipe, which can't be replaced.
    There(File),
}

impl WholeFile {
    /// Begins the file. If the path is a link, the target of the link is written, unless it is outside of the link's
    /// project.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        check_named(path)?;
        let real = match fs::canonicalize(path) {
            Ok(real) => real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error),
        };
        let mut permissions = None;
        let there = match fs::metadata(&real) {
            Ok(found) if found.is_file() => {
                permissions = Some(Permissions::from_std(found.permissions()));
                // What may not be written is not replaced either.
                File::options().append(true).open(&real)?;
                None
            }
            Ok(_) => Some(File::options().write(true).open(&real)?),
            Err(_) => None,
        };
        if let Some(file) = there {
            return Ok(Self(To::There(file)));
        }
        let folder = real.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = real.file_name().ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?;
        let mut new = NewFile::begin(&Dir::open_ambient_dir(folder, ambient_authority())?)?;
        if let Some(permissions) = permissions {
            new.file().set_permissions(permissions)?;
        }
        Ok(Self(To::New(new, name)))
    }

    /// Puts the file in its place.
    pub(crate) fn keep(self) -> io::Result<()> {
        match self.0 {
            To::New(new, name) => new.replace(name),
            To::There(mut file) => file.flush(),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            To::New(new, _) => new.write(bytes),
            To::There(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            To::New(new, _) => new.flush(),
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
    use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

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
