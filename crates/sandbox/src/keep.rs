//! Saves texts for people in a folder that other users of the machine may have modified.

use cap_std::{
    ambient_authority,
    fs::{Dir, DirBuilder, OpenOptions},
};
use std::{
    io::{self, ErrorKind, Write},
    path::Path,
};

/// Saves `text` as `llm-do/{below}` in a folder for temporary files, with private folders and a private file of this
/// user. Returns the path.
///
/// # Errors
/// The obstacle, with the path: another user's `llm-do`, a link in its place, or a system error.
pub(crate) fn keep(temporary: &Path, below: &str, text: &str) -> Result<String, String> {
    let whole = temporary.join("llm-do").join(below);
    let failed = |error: io::Error| format!("{}: {error}", whole.display());
    let mut folder = Dir::open_ambient_dir(temporary, ambient_authority()).map_err(failed)?;
    let (folders, name) = below.rsplit_once('/').unwrap_or(("", below));
    for part in std::iter::once("llm-do").chain(folders.split('/').filter(|part| !part.is_empty())) {
        folder = own_folder(&folder, part).map_err(failed)?;
    }
    write_new(&folder, name, text).map_err(failed)?;
    Ok(whole.display().to_string())
}

/// Opens the folder of that name, and creates it if it is missing. Never follows a link and never uses another user's
/// folder.
fn own_folder(within: &Dir, name: &str) -> io::Result<Dir> {
    use cap_fs_ext::DirExt;
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    cap_std::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match within.create_dir_with(name, &builder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let folder = within.open_dir_nofollow(name)?;
    #[cfg(unix)]
    if cap_std::fs::MetadataExt::uid(&folder.dir_metadata()?) != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(ErrorKind::PermissionDenied, format!("`{name}` is another user's")));
    }
    Ok(folder)
}

/// Writes the whole text or nothing. A resumed run writes the same text again.
fn write_new(folder: &Dir, name: &str, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    cap_std::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = || {
        match folder.remove_file(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        folder.open_with(name, &options)?.write_all(text.as_bytes())
    };
    written().inspect_err(|_| {
        // A partial worker file could look complete.
        let _ = folder.remove_file(name);
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use super::*;
    use std::fs;

    #[test]
    fn a_text_is_kept_for_this_user_alone_and_can_be_kept_again() {
        let temporary = tempfile::tempdir().unwrap();
        for text in ["a longer first text", "second"] {
            let place = keep(temporary.path(), "generated/run/x.worker", text).unwrap();
            assert_eq!(place, temporary.path().join("llm-do/generated/run/x.worker").display().to_string());
            assert_eq!(fs::read_to_string(&place).unwrap(), text);
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |below: &str| fs::metadata(temporary.path().join(below)).unwrap().permissions().mode();
            assert_eq!(mode("llm-do/generated/run/x.worker") & 0o777, 0o600);
            assert_eq!(mode("llm-do/generated") & 0o777, 0o700);
        }
    }

    #[cfg(unix)]
    #[test]
    fn no_link_is_followed_wherever_it_stands() {
        let (temporary, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link =
            |at: &str| std::os::unix::fs::symlink(elsewhere.path(), temporary.path().join(at)).unwrap();
        link("llm-do");
        keep(temporary.path(), "generated/run/x.worker", "x").unwrap_err();
        fs::remove_file(temporary.path().join("llm-do")).unwrap();
        fs::create_dir_all(temporary.path().join("llm-do/generated")).unwrap();
        link("llm-do/generated/run");
        keep(temporary.path(), "generated/run/x.worker", "x").unwrap_err();
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
        // A link at the file's own path is replaced; its target is unchanged.
        let theirs = elsewhere.path().join("theirs");
        fs::write(&theirs, "theirs").unwrap();
        fs::create_dir_all(temporary.path().join("llm-do/generated/other")).unwrap();
        std::os::unix::fs::symlink(&theirs, temporary.path().join("llm-do/generated/other/x.worker"))
            .unwrap();
        keep(temporary.path(), "generated/other/x.worker", "x").unwrap();
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    }
}
