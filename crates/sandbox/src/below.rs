//! Files below a folder whose links are not trusted.

use crate::{new_file::NewFile, regular::without_waiting};
use cap_std::{
    ambient_authority,
    fs::{Dir, OpenOptions},
};
use std::{
    fs,
    io::{self, Write},
    path::{Component, Path, PathBuf},
};

/// Writes a whole file at a relative path below a folder, and makes the folders on the way. Links are followed as long
/// as they stay below the folder. A reader in another process sees the file as it was or as it is now.
///
/// # Errors
/// A link leads out of the folder or nowhere, something other than a regular file has the name, or the disk says no.
pub fn write_below(folder: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    // What follows holds by itself; this says what is wrong.
    check_below(folder, path)?;
    let root = Dir::open_ambient_dir(folder, ambient_authority())?;
    let (parent, name) = split(path)?;
    if !parent.as_os_str().is_empty() {
        root.create_dir_all(&parent).map_err(explained)?;
    }
    let real = real(&root, path).map_err(explained)?;
    let (parent, _) = split(&real)?;
    let parent = if parent.as_os_str().is_empty() { root } else { root.open_dir(parent)? };
    let name = real.file_name().unwrap_or(name.as_os_str());
    let permissions = match parent.symlink_metadata(name) {
        Ok(found) if found.is_file() => Some(found.permissions()),
        Ok(_) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut new = NewFile::begin(&parent)?;
    new.write_all(bytes)?;
    if let Some(permissions) = permissions {
        new.file().set_permissions(permissions)?;
    }
    new.replace(name)
}

/// Writes a whole file at any path, and makes the folders on the way. Follows links. If the path is not a regular file,
/// such as a device, writes the bytes directly to it.
///
/// The file can't be written.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let real = match fs::canonicalize(path) {
        Ok(real) if !real.is_file() => return fs::write(real, bytes),
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(path)?,
        Err(error) => return Err(error),
    };
    match (real.parent(), real.file_name()) {
        (Some(folder), Some(name)) => write_below(folder, Path::new(name), bytes),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not the name of a file")),
    }
}

/// Makes a folder at a relative path below a folder, with those on the way. No link leads out of the folder above.
/// Returns the real path.
///
/// # Errors
/// A link leads out of the folder or nowhere, something else has the name, or the disk says no.
pub fn make_folder_below(folder: &Path, path: &Path) -> io::Result<PathBuf> {
    check_below(folder, path)?;
    let real = fs::canonicalize(folder)?;
    if path.as_os_str().is_empty() {
        return Ok(real);
    }
    let root = Dir::open_ambient_dir(folder, ambient_authority())?;
    root.create_dir_all(path).map_err(explained)?;
    Ok(real.join(root.canonicalize(path).map_err(explained)?))
}

/// Fails if a link leads a relative path out of a folder. The path need not exist.
///
/// # Errors
/// A link leads out of the folder or nowhere, or a folder on the way can't be read.
pub fn check_below(folder: &Path, path: &Path) -> io::Result<()> {
    let root = Dir::open_ambient_dir(folder, ambient_authority())?;
    for part in path.ancestors().filter(|part| !part.as_os_str().is_empty()) {
        match root.metadata(part) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(explained(error)),
            Err(_) if root.symlink_metadata(part).is_ok() => return Err(dangling(part)),
            Err(_) => {}
        }
    }
    Ok(())
}

/// Returns the path without links.
fn real(root: &Dir, path: &Path) -> io::Result<PathBuf> {
    match root.canonicalize(path) {
        Ok(real) => Ok(real),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Err(_) if root.symlink_metadata(path).is_ok() => Err(dangling(path)),
        Err(_) => {
            let (parent, name) = split(path)?;
            let parent = if parent.as_os_str().is_empty() { parent } else { root.canonicalize(parent)? };
            Ok(parent.join(name))
        }
    }
}

/// Returns an error with a message for people. The library reports a path that leaves the folder without an error
/// number of the system.
fn explained(error: io::Error) -> io::Error {
    match error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() {
        true => io::Error::new(error.kind(), "a symbolic link leads out of the folder"),
        false => error,
    }
}

fn dangling(path: &Path) -> io::Error {
    io::Error::other(format!("`{}` is a symbolic link that leads nowhere", path.display()))
}

/// Splits a relative path into its folder and its name.
fn split(path: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if is_below => Ok((parent.to_owned(), PathBuf::from(name))),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a path below the folder")),
    }
}

/// Reads a regular file of at most `limit` bytes at a relative path below a folder. No link on the way leads out of it.
///
/// The errors of [`read_regular`](crate::read_regular), and a path that leaves the folder.
pub fn read_below(folder: &Path, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let folder = Dir::open_ambient_dir(folder, ambient_authority())?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    cap_std::fs::OpenOptionsExt::custom_flags(&mut options, without_waiting());
    crate::regular::read(folder.open_with(path, &options).map_err(explained)?.into_std(), limit)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn no_link_leads_a_file_that_is_written_out_of_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        for folder in [&root, &outside, &root.join("inner")] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(outside.join("mine"), "mine").unwrap();
        for (target, name) in [
            ("../outside", "folder"),
            ("../outside/mine", "file"),
            ("../outside/new", "nowhere"),
            ("inner", "own"),
            ("inner/a", "own-file"),
        ] {
            symlink(target, root.join(name)).unwrap();
        }
        let write = |path: &str, text: &str| write_below(&root, Path::new(path), text.as_bytes());
        for path in [
            "folder/x",
            "folder/sub/x",
            "file",
            "nowhere",
            "../outside/x",
            "/x",
            "inner/../../outside/x",
            "",
            "inner",
        ] {
            assert!(write(path, "theirs").is_err(), "{path}");
        }
        for path in ["folder/x", "folder/sub/x", "file", "nowhere", "../outside/x"] {
            assert!(check_below(&root, Path::new(path)).is_err(), "{path}");
        }
        for path in ["folder", "folder/sub", "nowhere/sub", "../outside/sub", "inner/../../outside/sub"] {
            assert!(make_folder_below(&root, Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(outside.join("mine")).unwrap(), "mine");
        write("inner/a", "one").unwrap();
        fs::set_permissions(root.join("inner/a"), fs::Permissions::from_mode(0o640)).unwrap();
        write("own-file", "two").unwrap();
        write("own/deep/er/b", "three").unwrap();
        assert_eq!(fs::read_to_string(root.join("inner/a")).unwrap(), "two");
        assert_eq!(fs::metadata(root.join("inner/a")).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(root.join("own-file")).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(root.join("inner/deep/er/b")).unwrap(), "three");
        assert_eq!(fs::read_dir(root.join("inner")).unwrap().count(), 2, "nothing temporary is left");
        write_whole(&dir.path().join("a/b/c"), b"four").unwrap();
        symlink("a/b/c", dir.path().join("to-c")).unwrap();
        write_whole(&dir.path().join("to-c"), b"five").unwrap();
        write_whole(Path::new("/dev/null"), b"nothing").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("a/b/c")).unwrap(), "five");
        let made = make_folder_below(&root, Path::new("own/folders/of/mine")).unwrap();
        assert_eq!(made, fs::canonicalize(&root).unwrap().join("inner/folders/of/mine"));
        assert!(made.is_dir());
        for path in ["inner/a", "own/deep", "own-file", "own/not/yet", "new"] {
            assert!(check_below(&root, Path::new(path)).is_ok(), "{path}");
        }
    }
}
