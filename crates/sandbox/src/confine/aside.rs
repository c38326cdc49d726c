//! Files that a process has made and that would define the program: they are renamed, so that neither this run nor the
//! next one reads them (`docs/reference/sandbox.md`).

use super::plan::Given;
use cap_std::{ambient_authority, fs::Dir};
use llm_do_core::authority::{Place, Protection};
use std::{
    io,
    path::{Path, PathBuf},
};

/// The suffix of a renamed file. No program reads names that end in it.
const SUFFIX: &str = ".set-aside";
/// The number of names that are tried.
const TRIES: usize = 1000;

/// Renames a planted file or folder in one of the given places, if the program would read it from there. Returns its
/// new place, or `None` if it is not a part of the program or can't be renamed.
pub(super) fn set_aside(planted: &Path, given: &[Given], protection: &Protection) -> Option<PathBuf> {
    if !protection.defines(&Place::new(&planted.to_string_lossy())) {
        return None;
    }
    let holders = given.iter().filter(|given| given.write && planted.starts_with(&given.place));
    let holder = &holders.max_by_key(|given| given.place.as_os_str().len())?.place;
    let name = rename(holder, planted.strip_prefix(holder).ok()?).ok()?;
    Some(planted.with_file_name(name))
}

/// Renames the entry at a path in a folder, without leaving the folder. Returns its new name.
fn rename(folder: &Path, inside: &Path) -> io::Result<PathBuf> {
    let name = inside.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = Dir::open_ambient_dir(folder, ambient_authority())?;
    let parent = match inside.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => folder.open_dir(parent)?,
        _ => folder,
    };
    for number in 0..TRIES {
        let mut aside = name.to_owned();
        if number > 0 {
            aside.push(format!(".{number}"));
        }
        aside.push(SUFFIX);
        match parent.symlink_metadata(&aside) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                parent.rename(name, &parent, &aside)?;
                return Ok(aside.into());
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn a_name_is_free_and_a_link_is_not_followed() {
        let world = tempfile::tempdir().unwrap();
        let (folder, outside) = (world.path().join("folder"), world.path().join("outside"));
        fs::create_dir_all(folder.join("sub")).unwrap();
        fs::create_dir(&outside).unwrap();
        for name in ["sub/x.worker", "sub/x.worker.set-aside"] {
            fs::write(folder.join(name), name).unwrap();
        }
        fs::write(outside.join("x.worker"), "theirs").unwrap();
        let name = rename(&folder, Path::new("sub/x.worker")).unwrap();
        assert_eq!(name, Path::new("x.worker.1.set-aside"));
        assert!(!folder.join("sub/x.worker").exists());
        symlink(&outside, folder.join("link")).unwrap();
        assert!(rename(&folder, Path::new("link/x.worker")).is_err());
        assert!(outside.join("x.worker").exists());
    }
}
