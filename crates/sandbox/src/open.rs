//! Opens folders and files without following symbolic links.

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt};
use cap_std::{
    ambient_authority,
    fs::{Dir, File, OpenOptions},
};
use std::{io, path::Path};

/// Opens the folder at an absolute path, of which no component may be a symbolic link.
///
/// Places are resolved when the program is loaded (`place_of`); a link in one appeared later, for example because a
/// worker moved a harmless-looking link over the root of another mount.
pub(crate) fn folder_at(place: &str) -> io::Result<Dir> {
    #[cfg(target_os = "linux")]
    {
        use rustix::{
            fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
            io::Errno,
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat2(CWD, place, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Ok(opened) => return Ok(Dir::from_std_file(opened.into())),
            // Older kernels, and system call filters that don't know the call. A concurrent rename makes it return
            // `EAGAIN`.
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    folder_part_by_part(place)
}

fn folder_part_by_part(place: &str) -> io::Result<Dir> {
    let mut dir = Dir::open_ambient_dir("/", ambient_authority())?;
    for part in parts(place) {
        dir = dir.open_dir_nofollow(part)?;
    }
    Ok(dir)
}

/// Opens the innermost folder on the way to a place that exists, and returns it with the names that are missing below
/// it.
pub(crate) fn nearest_folder(place: &str) -> io::Result<(Dir, Vec<String>)> {
    let mut dir = Dir::open_ambient_dir("/", ambient_authority())?;
    let mut left = parts(place);
    while let Some(part) = left.next() {
        dir = match dir.open_dir_nofollow(part) {
            Ok(inner) => inner,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((dir, std::iter::once(part).chain(left).map(str::to_owned).collect()));
            }
            Err(error) => return Err(error),
        };
    }
    Ok((dir, Vec::new()))
}

fn parts(place: &str) -> impl Iterator<Item = &str> {
    place.split('/').filter(|part| !part.is_empty())
}

/// Opens a folder in a folder, and creates it if it is missing.
pub(crate) fn make_folder(parent: &Dir, name: &str) -> io::Result<Dir> {
    match parent.open_dir_nofollow(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match parent.create_dir(name) {
        // Another process created it in between, which is fine.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => parent.open_dir_nofollow(name),
    }
}

/// Opens a regular file of a folder for reading; `None` if it is anything else. Never blocks on a FIFO or a device.
pub(crate) fn file(parent: &Dir, name: &str) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let opened = parent.open_with(Path::new(name), &options)?;
    Ok(opened.metadata()?.is_file().then_some(opened))
}

/// Creates a file that must not exist yet.
pub(crate) fn new_file(parent: &Dir, name: &str) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).follow(FollowSymlinks::No);
    parent.open_with(Path::new(name), &options)
}

/// Gives a file the permission bits of another, except set-user-ID and set-group-ID.
#[cfg(unix)]
pub(crate) fn keep_mode(file: &File, of: &cap_std::fs::Metadata) -> io::Result<()> {
    use cap_std::fs::PermissionsExt;
    let mode = rustix::fs::Mode::from_raw_mode((of.permissions().mode() & 0o777) as rustix::fs::RawMode);
    Ok(rustix::fs::fchmod(file, mode)?)
}

/// Gives a file the permissions of another.
#[cfg(not(unix))]
pub(crate) fn keep_mode(file: &File, of: &cap_std::fs::Metadata) -> io::Result<()> {
    file.set_permissions(of.permissions())
}

/// Renames an entry, and refuses to replace an existing one.
pub(crate) fn rename_new(from: &Dir, name: &Path, to: &Dir, new: &Path, is_folder: bool) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    {
        use rustix::{
            fs::{RenameFlags, renameat_with},
            io::Errno,
        };
        match renameat_with(from, name, to, new, RenameFlags::NOREPLACE) {
            // File systems without the flag.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            done => return Ok(done?),
        }
    }
    rename_new_by_steps(from, name, to, new, is_folder)
}

/// Renames an entry in steps: linking and creating a folder fail if the name exists, which claims the name atomically.
fn rename_new_by_steps(from: &Dir, name: &Path, to: &Dir, new: &Path, is_folder: bool) -> io::Result<()> {
    if is_folder {
        to.create_dir(new)?;
        // A folder replaces an empty one, and only an empty one.
        return from.rename(name, to, new).inspect_err(|_| {
            let _ = to.remove_dir(new);
        });
    }
    from.hard_link(name, to, new)?;
    from.remove_file(name)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn no_part_of_a_place_may_be_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(top.join("real/sub")).unwrap();
        symlink("real", top.join("link")).unwrap();
        let nearest = |place: &str| nearest_folder(place).map(|(dir, _)| dir);
        for opener in [folder_at, folder_part_by_part, nearest] {
            assert!(opener(top.join("real/sub").to_str().unwrap()).is_ok());
            assert!(opener(top.join("link").to_str().unwrap()).is_err());
            assert!(opener(top.join("link/sub").to_str().unwrap()).is_err());
        }
        let (_, missing) = nearest_folder(top.join("real/sub/a/b").to_str().unwrap()).unwrap();
        assert_eq!(missing, ["a", "b"]);
        assert_eq!(
            folder_at(top.join("missing").to_str().unwrap()).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    #[test]
    fn a_move_without_the_system_call_does_not_replace_either() {
        let dir = tempfile::tempdir().unwrap();
        let top = folder_at(fs::canonicalize(dir.path()).unwrap().to_str().unwrap()).unwrap();
        fs::write(dir.path().join("a"), "a").unwrap();
        fs::write(dir.path().join("b"), "b").unwrap();
        fs::create_dir_all(dir.path().join("d/inner")).unwrap();
        for step in [rename_new, rename_new_by_steps] {
            assert!(step(&top, "a".as_ref(), &top, "b".as_ref(), false).is_err());
            assert!(step(&top, "a".as_ref(), &top, "d".as_ref(), false).is_err());
            assert!(step(&top, "d".as_ref(), &top, "b".as_ref(), true).is_err());
            step(&top, "a".as_ref(), &top, "c".as_ref(), false).unwrap();
            step(&top, "c".as_ref(), &top, "a".as_ref(), false).unwrap();
            step(&top, "d".as_ref(), &top, "e".as_ref(), true).unwrap();
            step(&top, "e".as_ref(), &top, "d".as_ref(), true).unwrap();
        }
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "a");
        assert_eq!(fs::read_to_string(dir.path().join("b")).unwrap(), "b");
        assert!(dir.path().join("d/inner").is_dir());
    }
}
