//! The copy of a program's folder that a case runs on.

use llm_do_program::cases::{CaseFiles, beside_file, is_portable};
use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Names that a copy leaves out: caches and data of earlier runs.
const LEFT_OUT: [&str; 2] = [".llm-do", "__pycache__"];
/// The folder of the project's own history, which a copy leaves out too. A repository in a folder of the project may be
/// data of its workers.
const HISTORY: &str = ".git";
/// The largest number of files of a copy.
const MOST_FILES: u64 = 200_000;
/// The largest size of a copy, in bytes.
const MOST_BYTES: u64 = 4 << 30;
/// The greatest depth of a folder in a copy.
const DEEPEST: usize = 64;

/// The reason why a case has no copy to run on.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A file can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The folder is larger than anything that should be copied for each case.
    #[error("{} is too large to be copied for each case: more than {what}", path.display())]
    TooLarge {
        /// The folder.
        path: PathBuf,
        /// The limit that the folder exceeds.
        what: &'static str,
    },
    /// The suite was interrupted while files were copied.
    #[error("interrupted")]
    Interrupted,
    /// A file of a case would lie outside of the copy.
    #[error("`{0}` is not a path below the root of the copy, or leads through a symbolic link")]
    Outside(String),
}

/// A copy. Dropping this value removes it.
pub(crate) struct Workspace {
    dir: TempDir,
    root: PathBuf,
}

/// The files and bytes that may still be copied.
struct Left<'a> {
    files: u64,
    bytes: u64,
    /// Files and folders that are not copied.
    left_out: &'a [PathBuf],
    is_cut: &'a dyn Fn() -> bool,
}

impl<'a> Left<'a> {
    fn all(left_out: &'a [PathBuf], is_cut: &'a dyn Fn() -> bool) -> Self {
        Self { files: MOST_FILES, bytes: MOST_BYTES, left_out, is_cut }
    }
}

impl Workspace {
    /// Copies a project, without the files and folders of `left_out`. Calls `is_cut` before each file: if it returns
    /// true, the copy stops with [`CopyError::Interrupted`].
    pub(crate) fn of_project(
        project: &Path,
        left_out: &[PathBuf],
        is_cut: &dyn Fn() -> bool,
    ) -> Result<Self, CopyError> {
        let workspace = Self::named(project.file_name().unwrap_or(OsStr::new("project")))?;
        copy(project, &workspace.root, 0, &mut Left::all(left_out, is_cut)).map_err(|error| match error {
            CopyError::TooLarge { what, .. } => CopyError::TooLarge { path: project.to_owned(), what },
            other => other,
        })?;
        Ok(workspace)
    }

    /// Makes an empty folder, for a worker file without a project.
    pub(crate) fn empty() -> Result<Self, CopyError> {
        Self::named(OsStr::new("files"))
    }

    fn named(name: &OsStr) -> Result<Self, CopyError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| CopyError::Io { path, source }
        };
        let dir =
            tempfile::Builder::new().prefix("llm-do-case-").tempdir().map_err(io(&std::env::temp_dir()))?;
        // As the program knows it: the folder of temporary files may be a link.
        let real = fs::canonicalize(dir.path()).map_err(io(dir.path()))?;
        let root = real.join(name);
        fs::create_dir(&root).map_err(io(&root))?;
        Ok(Self { dir, root })
    }

    /// Returns the root of the copy.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Removes the place of the copy, which differs from run to run, from a text.
    pub(crate) fn without_places(&self, text: String) -> String {
        text.replace(&format!("{}/", self.root.display()), "")
    }

    /// Returns the folder around the root. No path that a worker sees contains it.
    pub(crate) fn around(&self) -> &Path {
        self.dir.path()
    }

    /// Adds the files of a case. `from` is the root of the program, and `file` the file of cases in it.
    pub(crate) fn add(
        &self,
        from: &Path,
        file: &str,
        files: &CaseFiles,
        is_cut: &dyn Fn() -> bool,
    ) -> Result<(), CopyError> {
        match files {
            CaseFiles::None => Ok(()),
            CaseFiles::Inline(files) => files.iter().try_for_each(|file| {
                let to = self.below(&file.path)?;
                let io = |source| CopyError::Io { path: to.clone(), source };
                // A link of the copy must not lead the text elsewhere, nor a folder be made there.
                let mut folder = self.root.clone();
                for part in Path::new(&file.path).parent().unwrap_or(Path::new("")) {
                    folder.push(part);
                    make_folder(&folder)?;
                }
                make_way(&to)?;
                fs::write(&to, &file.text).map_err(io)
            }),
            CaseFiles::Folder(folder, _) => {
                if !is_portable(folder) {
                    return Err(CopyError::Outside(folder.clone()));
                }
                let path = from.join(beside_file(file, folder));
                // A link of the program must not lead to files that are not its own.
                let io = |source| CopyError::Io { path: path.clone(), source };
                let (real, root) =
                    (fs::canonicalize(&path).map_err(io)?, fs::canonicalize(from).map_err(io)?);
                if !real.starts_with(root) {
                    return Err(CopyError::Outside(folder.clone()));
                }
                copy(&path, &self.root, 0, &mut Left::all(&[], is_cut))
            }
        }
    }

    fn below(&self, path: &str) -> Result<PathBuf, CopyError> {
        match is_portable(path) {
            true => Ok(self.root.join(path)),
            false => Err(CopyError::Outside(path.to_owned())),
        }
    }

    /// Returns the text of a file of the copy, or `None` if there is no such file. It does not follow a link that leads
    /// out of the copy.
    pub(crate) fn read(&self, path: &str, most: u64) -> Result<Option<String>, CopyError> {
        let file = self.below(path)?;
        let io = |source| CopyError::Io { path: file.clone(), source };
        let real = match fs::canonicalize(&file) {
            Ok(real) => real,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(io(error)),
        };
        if !real.starts_with(&self.root) {
            return Err(CopyError::Outside(path.to_owned()));
        }
        let metadata = fs::metadata(&real).map_err(io)?;
        if !metadata.is_file() {
            return Err(io(io::Error::other("it is not a regular file")));
        }
        if metadata.len() > most {
            return Err(io(io::Error::other(format!("it has more than {most} bytes"))));
        }
        fs::read_to_string(&real).map(Some).map_err(io)
    }
}

/// Makes a folder of the copy. An existing folder stays; a link does not count as one.
fn make_folder(path: &Path) -> Result<(), CopyError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => Err(CopyError::Outside(path.display().to_string())),
        Ok(found) if found.is_dir() => Ok(()),
        _ => fs::create_dir(path).map_err(|source| CopyError::Io { path: path.to_owned(), source }),
    }
}

/// Removes a file of the copy, which may be read-only, so that another one can be made at its path. A link stays.
fn make_way(path: &Path) -> Result<(), CopyError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => Err(CopyError::Outside(path.display().to_string())),
        Ok(found) if found.is_file() => {
            fs::remove_file(path).map_err(|source| CopyError::Io { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

fn copy(from: &Path, to: &Path, depth: usize, left: &mut Left<'_>) -> Result<(), CopyError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| CopyError::Io { path, source }
    };
    let too_large = |what| CopyError::TooLarge { path: from.to_owned(), what };
    if depth > DEEPEST {
        return Err(too_large("64 folders deep"));
    }
    make_folder(to)?;
    for entry in fs::read_dir(from).map_err(io(from))? {
        let entry = entry.map_err(io(from))?;
        let name = entry.file_name();
        let is_history = depth == 0 && name == HISTORY;
        if is_history || LEFT_OUT.iter().any(|left_out| name == *left_out) || is_recording(&name) {
            continue;
        }
        if (left.is_cut)() {
            return Err(CopyError::Interrupted);
        }
        left.files = left.files.checked_sub(1).ok_or_else(|| too_large("200,000 files"))?;
        let (source, target) = (entry.path(), to.join(&name));
        if left.left_out.contains(&source) {
            continue;
        }
        let kind = entry.file_type().map_err(io(&source))?;
        if kind.is_dir() {
            copy(&source, &target, depth + 1, left)?;
        } else if kind.is_symlink() {
            let leads = fs::read_link(&source).map_err(io(&source))?;
            std::os::unix::fs::symlink(leads, &target).map_err(io(&target))?;
        } else if kind.is_file() {
            let bytes = entry.metadata().map_err(io(&source))?.len();
            left.bytes = left.bytes.checked_sub(bytes).ok_or_else(|| too_large("4 GiB"))?;
            make_way(&target)?;
            fs::copy(&source, &target).map_err(io(&source))?;
        }
        // Sockets, devices and FIFOs are nothing that a copy could have.
    }
    Ok(())
}

/// Returns true if the name is that of a folder of recordings, which no worker may read.
fn is_recording(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.ends_with(".recorded"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_program::{
        cases::InlineFile,
        span::{SourceFile, Span},
    };

    #[test]
    fn a_copy_keeps_to_itself() {
        let project = TempDir::new().expect("a folder");
        fs::create_dir_all(project.path().join(".git/objects")).expect("folders");
        fs::create_dir_all(project.path().join("input")).expect("a folder");
        fs::create_dir_all(project.path().join("notes/.git/objects")).expect("folders");
        fs::write(project.path().join("input/a.txt"), "a").expect("a file");
        std::os::unix::fs::symlink("/etc", project.path().join("link")).expect("a link");
        let cut = || true;
        assert!(matches!(Workspace::of_project(project.path(), &[], &cut), Err(CopyError::Interrupted)));
        let whole = || false;
        let left_out = [project.path().join("report.xml")];
        fs::write(&left_out[0], "x").expect("a file");
        let copy = Workspace::of_project(project.path(), &left_out, &whole).expect("a copy");
        assert!(!copy.root().join("report.xml").exists());
        assert!(!copy.root().join(".git").exists());
        assert!(copy.root().join("notes/.git/objects").is_dir());
        assert_eq!(copy.read("input/a.txt", 10).expect("a text").as_deref(), Some("a"));
        assert_eq!(copy.read("input/b.txt", 10).expect("no error"), None);
        assert!(matches!(copy.read("link/hostname", 1000), Err(CopyError::Outside(_)) | Ok(None)));
        assert!(matches!(copy.read("../x", 10), Err(CopyError::Outside(_))));
        let inline = |path: &str| {
            let span = Span::whole(&SourceFile::new("x.cases.yaml", ""));
            CaseFiles::Inline(vec![InlineFile { path: path.to_owned(), span, text: "x".to_owned() }])
        };
        for path in ["../x", "/x", "link/x", "a/../../x", "link"] {
            assert!(copy.add(project.path(), "x.cases.yaml", &inline(path), &whole).is_err(), "{path}");
        }
        copy.add(project.path(), "x.cases.yaml", &inline("output/new.txt"), &whole).expect("a file");
        assert_eq!(copy.read("output/new.txt", 10).expect("a text").as_deref(), Some("x"));
        // A file for reading only can be replaced, and a folder can't.
        let mut for_reading = fs::metadata(copy.root().join("output/new.txt")).expect("a file").permissions();
        for_reading.set_readonly(true);
        fs::set_permissions(copy.root().join("output/new.txt"), for_reading).expect("permissions");
        copy.add(project.path(), "x.cases.yaml", &inline("output/new.txt"), &whole).expect("a file");
        assert!(copy.add(project.path(), "x.cases.yaml", &inline("output"), &whole).is_err());
        // What the copy changes, the project keeps.
        copy.add(project.path(), "x.cases.yaml", &inline("input/a.txt"), &whole).expect("a file");
        assert_eq!(fs::read_to_string(project.path().join("input/a.txt")).expect("a text"), "a");
    }

    #[test]
    fn a_folder_of_a_case_is_not_copied_through_links() {
        let (project, outside) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
        let (root, whole) = (project.path(), || false);
        fs::write(outside.path().join("mine.txt"), "mine").expect("a file");
        std::os::unix::fs::symlink(outside.path(), root.join("folder")).expect("a link");
        std::os::unix::fs::symlink(outside.path().join("mine.txt"), root.join("file")).expect("a link");
        for (fixture, path) in [("one", "file"), ("two", "folder/new.txt")] {
            let file = root.join(fixture).join(path);
            fs::create_dir_all(file.parent().expect("a folder")).expect("folders");
            fs::write(file, "changed").expect("a file");
            let copy = Workspace::of_project(root, &[], &whole).expect("a copy");
            let files = CaseFiles::Folder(fixture.into(), Span::whole(&SourceFile::new("x.cases.yaml", "")));
            let added = copy.add(root, "x.cases.yaml", &files, &whole);
            assert!(matches!(added, Err(CopyError::Outside(_))), "{fixture}: {added:?}");
        }
        assert_eq!(fs::read_to_string(outside.path().join("mine.txt")).expect("a text"), "mine");
        assert!(!outside.path().join("new.txt").exists());
    }
}
