//! Skills whose files are part of a program: installed whole, and replaced only on request.

use crate::transaction::Staged;
use llm_do_sandbox::write_below;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The result of installing a skill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Installed {
    /// The skill was not there before.
    Written,
    /// The skill was there with these files.
    UpToDate,
    /// The files differed and were replaced.
    Replaced,
    /// The files differ. They stay, because `replace` was not given.
    Differs,
}

/// Writes the files of a skill, as paths and texts, into the folder `name` of a folder of skills.
///
/// # Errors
/// The folder can't be written, or is no folder.
pub fn install(files: &[(&str, &str)], skills: &Path, name: &str, replace: bool) -> io::Result<Installed> {
    let target = skills.join(name);
    match fs::symlink_metadata(&target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(files, skills, &target)?;
            return Ok(Installed::Written);
        }
        Err(error) => return Err(error),
        Ok(found) if !found.is_dir() => return Err(io::Error::other("it is not a folder")),
        Ok(_) => {}
    }
    let same =
        |(path, text): &(&str, &str)| fs::read(target.join(path)).is_ok_and(|found| found == text.as_bytes());
    if files.iter().all(same) {
        Ok(Installed::UpToDate)
    } else if replace {
        overwrite(files, &target)?;
        Ok(Installed::Replaced)
    } else {
        Ok(Installed::Differs)
    }
}

/// Creates the folder with all files at once.
fn create(files: &[(&str, &str)], skills: &Path, target: &Path) -> io::Result<()> {
    fs::create_dir_all(skills)?;
    let staged = Staged::beside(skills)?;
    for (path, text) in files {
        staged.write(path, text.as_bytes())?;
    }
    staged.become_folder(target)
}

/// Writes each file of the skill whole. Other files of the folder stay.
fn overwrite(files: &[(&str, &str)], target: &Path) -> io::Result<()> {
    let folders: Vec<PathBuf> =
        files.iter().filter_map(|(path, _)| Some(target.join(path).parent()?.to_owned())).collect();
    for folder in folders {
        match fs::symlink_metadata(&folder) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(io::Error::other(format!("`{}` is not a folder", folder.display()))),
            Err(_) => fs::create_dir(&folder)?,
        }
    }
    files.iter().try_for_each(|(path, text)| write_below(target, Path::new(path), text.as_bytes()))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const FILES: &[(&str, &str)] = &[("SKILL.md", "Do it.\n"), ("references/errors.md", "None.\n")];

    #[test]
    fn a_skill_is_written_once_and_replaced_on_request() {
        let dir = tempfile::tempdir().expect("a folder");
        let skills = dir.path().join("deep/skills");
        let install = |replace| install(FILES, &skills, "mine", replace).expect("it is installed");
        assert_eq!(install(false), Installed::Written);
        assert_eq!(install(true), Installed::UpToDate);
        let file = skills.join("mine/SKILL.md");
        fs::write(&file, "my own\n").expect("written");
        fs::write(skills.join("mine/notes.md"), "mine\n").expect("written");
        assert_eq!(install(false), Installed::Differs);
        assert_eq!(fs::read_to_string(&file).expect("a file"), "my own\n", "nothing is lost");
        assert_eq!(install(true), Installed::Replaced);
        assert_eq!(fs::read_to_string(&file).expect("a file"), "Do it.\n");
        assert!(skills.join("mine/notes.md").exists());
    }

    #[test]
    fn a_link_or_a_file_in_the_place_of_the_skill_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let skills = dir.path().join("skills");
        for folder in [&skills, &dir.path().join("elsewhere")] {
            fs::create_dir(folder).expect("a folder");
        }
        let refused = || install(FILES, &skills, "mine", true).expect_err("refused").to_string();
        fs::write(skills.join("mine"), "a file\n").expect("written");
        assert!(refused().contains("not a folder"));
        fs::remove_file(skills.join("mine")).expect("removed");
        std::os::unix::fs::symlink("../elsewhere", skills.join("mine")).expect("linked");
        assert!(refused().contains("not a folder"));
        fs::remove_file(skills.join("mine")).expect("removed");
        fs::create_dir(skills.join("mine")).expect("a folder");
        std::os::unix::fs::symlink("../../elsewhere", skills.join("mine/references")).expect("linked");
        assert!(refused().contains("not a folder"));
        fs::remove_file(skills.join("mine/references")).expect("removed");
        std::os::unix::fs::symlink("../../elsewhere/x", skills.join("mine/SKILL.md")).expect("linked");
        fs::write(dir.path().join("elsewhere/x"), "theirs").expect("written");
        refused();
        assert_eq!(fs::read_to_string(dir.path().join("elsewhere/x")).expect("a file"), "theirs");
    }
}
