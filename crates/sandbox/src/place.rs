//! Names of real places.

use llm_do_core::authority::Place;
use std::{
    ffi::OsString,
    fs, io,
    path::{Component, Path, PathBuf},
};

/// Returns the place of a path of this machine: absolute, with every symbolic link in the part that exists resolved.
/// Components that do not exist yet are kept as written.
///
/// Everything that becomes a [`Place`] goes through here once, when the program is loaded. From then on the path is
/// expected to be free of links: a link that appears in it later is refused, because the operator did not put it
/// there.
///
/// # Errors
/// A path that is not UTF-8, `..` after a folder that does not exist, a dangling link, and any system error.
pub fn place_of(path: &Path) -> io::Result<Place> {
    let absolute = std::path::absolute(path)?;
    let mut existing: PathBuf = absolute.clone();
    let mut missing: Vec<OsString> = Vec::new();
    let mut real = loop {
        match fs::canonicalize(&existing) {
            Ok(real) => break real,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        if fs::symlink_metadata(&existing).is_ok_and(|found| found.is_symlink()) {
            return Err(invalid(format!("{} is a symbolic link that leads nowhere", existing.display())));
        }
        match existing.components().next_back() {
            Some(Component::Normal(name)) => missing.push(name.to_owned()),
            _ => {
                return Err(invalid(format!(
                    "{} has `..` after a folder that doesn't exist",
                    absolute.display()
                )));
            }
        }
        if !existing.pop() {
            return Err(invalid(format!("{} can't be resolved", absolute.display())));
        }
    };
    real.extend(missing.into_iter().rev());
    match real.to_str() {
        Some(text) => Ok(Place::new(text)),
        None => Err(invalid(format!("{} is not UTF-8", real.display()))),
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_above_are_resolved_and_missing_parts_kept() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(top.join("real")).unwrap();
        symlink("real", top.join("link")).unwrap();
        let place = place_of(&top.join("link/new/file.txt")).unwrap();
        assert_eq!(place.as_str(), top.join("real/new/file.txt").to_str().unwrap());
        let place = place_of(&top.join("link/../real")).unwrap();
        assert_eq!(place.as_str(), top.join("real").to_str().unwrap());
    }

    #[test]
    fn what_has_no_certain_place_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        symlink("nowhere", dir.path().join("dangling")).unwrap();
        assert!(place_of(&dir.path().join("dangling/x")).is_err());
        assert!(place_of(&dir.path().join("missing/../../x")).is_err());
        symlink("loop", dir.path().join("loop")).unwrap();
        assert!(place_of(&dir.path().join("loop")).is_err());
        let odd = <OsString as std::os::unix::ffi::OsStringExt>::from_vec(b"\xff".to_vec());
        assert!(place_of(&dir.path().join(odd)).is_err());
    }
}
