//! Changes to a folder that are made completely or not at all, even if the process is killed.
//!
//! New files are written first to a place where nothing reads them. Then everything is moved. The list of moves is
//! written before, as [`MOVES`]: while that file exists nothing in the folder loads, and [`settle`] continues where a
//! killed process stopped. A move that fails undoes those before it.
//!
//! A folder from elsewhere may contain such a list. The list is therefore sealed with the user's key for its folder,
//! and [`settle`] makes no move of another list.

use llm_do_core::authority::Protection;
use llm_do_program::older_forms::{MOVES, WAITING};
use llm_do_runs::SealKey;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs::{self, File, TryLockError},
    io::{self, Read},
    path::{Component, Path, PathBuf},
};
use tempfile::TempDir;

/// llm-do's own folder in a project, which neither tools nor their processes see.
const OWN: &str = ".llm-do";
/// The longest list of moves that is read, in bytes.
const LONGEST: u64 = 64 << 20;

/// Files in a temporary folder, on the file system to which they will be moved.
pub struct Staged {
    /// A lock that distinguishes the folder from those of killed processes.
    _used: File,
    waiting: TempDir,
    _around: Option<Around>,
}

/// A folder that is removed if it is empty at the end.
struct Around(PathBuf);

impl Drop for Around {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

impl Staged {
    /// Returns a place for files that will become a folder beside it, in `folder`.
    pub fn beside(folder: &Path) -> io::Result<Self> {
        sweep(folder);
        Self::waiting_in(folder, None)
    }

    /// Returns a place for files that will be moved into `folder`, after [`settle`].
    pub fn inside(folder: &Path) -> io::Result<Self> {
        let own = folder.join(OWN);
        match fs::create_dir(&own) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ if !fs::symlink_metadata(&own)?.is_dir() => return Err(no_folder(&own)),
            _ => {}
        }
        Self::waiting_in(&own, Some(Around(own.clone())))
    }

    fn waiting_in(folder: &Path, around: Option<Around>) -> io::Result<Self> {
        let waiting = tempfile::Builder::new().prefix(WAITING).tempdir_in(folder)?;
        let used = File::open(waiting.path())?;
        used.lock()?;
        // A folder inside, because a temporary folder is closed to other users, and a project is not.
        fs::create_dir(waiting.path().join("new"))?;
        Ok(Self { _used: used, waiting, _around: around })
    }

    /// Returns the folder of the files.
    pub fn path(&self) -> PathBuf {
        self.waiting.path().join("new")
    }

    /// Writes one file; `path` has `/` between its parts and stays inside.
    pub fn write(&self, path: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let place = self.place(path)?;
        fs::write(&place, bytes)?;
        Ok(place)
    }

    /// Copies one file, with its permissions.
    pub fn copy(&self, from: &Path, path: &str) -> io::Result<()> {
        fs::copy(from, self.place(path)?).map(drop)
    }

    /// Moves the whole folder to a path that does not exist, or is an empty folder.
    pub fn become_folder(self, target: &Path) -> io::Result<()> {
        // Onto a file, or a folder that holds something, the system refuses to rename a folder.
        fs::rename(self.path(), target)
    }

    fn place(&self, path: &str) -> io::Result<PathBuf> {
        let place = self.path().join(below(path)?);
        if let Some(folder) = place.parent() {
            fs::create_dir_all(folder)?;
        }
        Ok(place)
    }
}

/// A list of moves within a folder, in order.
pub struct Moves {
    root: PathBuf,
    key: SealKey,
    list: Vec<Move>,
}

/// A move from one path to another, both relative to the folder.
pub type Move = (String, String);

impl Moves {
    /// Returns an empty list. `home` is the user's folder (`~/.llm-do`), which has the key of the seal.
    pub fn new(root: &Path, home: &Path) -> io::Result<Self> {
        Ok(Self { root: fs::canonicalize(root)?, key: SealKey::of(home)?, list: Vec::new() })
    }

    /// Returns the purpose in the seal of this folder's list.
    fn purpose(root: &Path) -> String {
        format!("moves in {}", root.display())
    }

    /// Adds a move of a file or folder to a path that will be free at that point. Both paths have `/` between their
    /// parts.
    pub fn add(&mut self, from: &str, to: &str) {
        self.list.push((from.to_owned(), to.to_owned()));
    }

    /// Adds a move of a staged file.
    pub fn add_staged(&mut self, staged: &Staged, path: &str) {
        let waiting = staged.waiting.path().file_name().unwrap_or_default().to_string_lossy();
        self.add(&format!("{OWN}/{waiting}/new/{path}"), path);
    }

    /// Makes all moves, or none.
    pub fn make(&self, staged: &Staged) -> io::Result<()> {
        for path in self.list.iter().flat_map(|(from, to)| [from, to]) {
            below(path)?;
        }
        let written = staged.waiting.path().join("moves");
        let object = serde_json::to_vec(&json!({"moves": self.list}))?;
        fs::write(&written, self.key.seal(&Self::purpose(&self.root), object))?;
        let list = File::open(&written)?;
        list.sync_all()?;
        // The lock tells other processes that this one is still at work.
        list.lock()?;
        let noted = self.root.join(MOVES);
        rename_new(&written, &noted)?;
        let mut undo = Undo::default();
        let made = self.list.iter().try_for_each(|(from, to)| undo.put(&self.root, from, to));
        if made.is_ok() {
            undo.done.clear();
            self.remove_empty_folders();
        }
        drop(undo);
        // If it stays, `settle` finds nothing to do.
        let _ = fs::remove_file(noted);
        made
    }

    /// Makes the moves that are not made yet, and returns them.
    fn finish(self) -> io::Result<Vec<Move>> {
        let mut made = Vec::new();
        for (from, to) in &self.list {
            let mut undo = Undo::default();
            let is_there = |path: &Path| fs::symlink_metadata(self.root.join(path)).is_ok();
            let outcome = match (is_there(below(from)?), is_there(below(to)?)) {
                (true, false) => {
                    made.push((from.clone(), to.clone()));
                    undo.put(&self.root, from, to)
                }
                // What waits would go with its folder.
                (true, true) if from.starts_with(OWN) => Err(io::Error::other(format!("{to} is in the way"))),
                // It is done, and a later move has filled the place again.
                _ => Ok(()),
            };
            // Finished moves stay: the next attempt continues after them.
            undo.done.clear();
            outcome?;
        }
        self.remove_empty_folders();
        Ok(made)
    }

    /// Removes folders that have become empty.
    fn remove_empty_folders(&self) {
        let gone = self.list.iter().map(|(from, _)| from.as_str()).filter(|from| !from.starts_with(OWN));
        let folders: BTreeSet<&str> =
            gone.flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at])).collect();
        // The deeper ones first. One that still holds something refuses.
        for folder in folders.into_iter().rev() {
            let _ = fs::remove_dir(self.root.join(folder));
        }
    }
}

/// Returns true if a killed process left an incomplete list of moves.
pub fn is_unsettled(folder: &Path) -> bool {
    fs::symlink_metadata(folder.join(MOVES)).is_ok()
}

/// Completes the moves that a killed process left in a folder, and removes files that were only staged. Returns the
/// moves that it made. `home` is the user's folder (`~/.llm-do`).
///
/// # Errors
/// The list was not sealed for this folder by this user's llm-do, another process is at work, or a move is not
/// possible.
pub fn settle(folder: &Path, home: &Path) -> io::Result<Vec<Move>> {
    let own = folder.join(OWN);
    if !fs::symlink_metadata(&own).is_ok_and(|found| found.is_dir()) {
        return Ok(Vec::new());
    }
    let noted = folder.join(MOVES);
    let mut made = Vec::new();
    if is_unsettled(folder) {
        // A folder from elsewhere may contain a pipe, whose reader would wait without end.
        if !fs::symlink_metadata(&noted)?.is_file() {
            return Err(io::Error::other(format!("{MOVES} is not a file")));
        }
        let list = File::open(&noted)?;
        match list.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::other("another command is changing the folder now"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut text = Vec::new();
        (&list).take(LONGEST).read_to_end(&mut text)?;
        let root = fs::canonicalize(folder)?;
        let foreign = || {
            io::Error::other(format!(
                "{MOVES} was not written by your llm-do for this folder, and nothing is moved. If you don't know where it \
                 comes from, look at it and remove it"
            ))
        };
        let key = match SealKey::read(home) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(foreign()),
            key => key?,
        };
        if !key.has_sealed(&Moves::purpose(&root), &text) {
            return Err(foreign());
        }
        let list = serde_json::from_slice(&text)
            .and_then(|mut object: Value| serde_json::from_value(object["moves"].take()))
            .map_err(|error| io::Error::other(format!("{MOVES} is not a list of moves: {error}")))?;
        made = Moves { root, key, list }.finish()?;
        fs::remove_file(&noted)?;
    }
    sweep(&own);
    drop(Around(own));
    Ok(made)
}

/// Removes the staged files of ended processes from a folder.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let left = entry.file_name().to_string_lossy().starts_with(WAITING)
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if left && File::open(entry.path()).is_ok_and(|waiting| waiting.try_lock().is_ok()) {
            // A folder that can't be removed does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Completed moves, in order. They are undone when dropped, unless they are forgotten first.
#[derive(Default)]
struct Undo {
    done: Vec<Done>,
}

enum Done {
    Moved { from: PathBuf, to: PathBuf },
    Made(PathBuf),
}

impl Undo {
    /// Moves a file or folder to a free path, and makes the folders in between.
    fn put(&mut self, root: &Path, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (below(from)?, below(to)?);
        let mut folder = root.to_owned();
        for part in from.parent().unwrap_or(Path::new("")).components() {
            folder.push(part);
            if !fs::symlink_metadata(&folder)?.is_dir() {
                return Err(no_folder(&folder));
            }
        }
        let mut folder = root.to_owned();
        for part in to.parent().unwrap_or(Path::new("")).components() {
            folder.push(part);
            match fs::symlink_metadata(&folder) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(no_folder(&folder)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir(&folder)?;
                    self.done.push(Done::Made(folder.clone()));
                }
                Err(error) => return Err(error),
            }
        }
        let (from, to) = (root.join(from), root.join(to));
        rename_new(&from, &to)?;
        self.done.push(Done::Moved { from, to });
        Ok(())
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        for step in self.done.drain(..).rev() {
            // There is nothing better to do with a step that can't be taken back.
            let _ = match step {
                Done::Moved { from, to } => rename_new(&to, &from),
                Done::Made(folder) => fs::remove_dir(folder),
            };
        }
    }
}

fn no_folder(path: &Path) -> io::Error {
    io::Error::other(format!("{} is not a folder", path.display()))
}

/// Renames to a free path.
fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::{
        fs::{CWD, RenameFlags, renameat_with},
        io::Errno,
    };
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that does not know how: looked at first.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => match fs::symlink_metadata(to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::rename(from, to),
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) => Err(error),
        },
        done => Ok(done?),
    }
}

/// Checks that a path stays in the folder and outside of version control, whose settings and hooks name programs that
/// it runs.
fn below(path: &str) -> io::Result<&Path> {
    let path = Path::new(path);
    let down = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !down || path.file_name().is_none() {
        return Err(io::Error::other(format!("{} is outside the folder", path.display())));
    }
    if path.iter().any(|part| Protection::is_version_control(&part.to_string_lossy())) {
        return Err(io::Error::other(format!("{} belongs to version control", path.display())));
    }
    Ok(path)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir_all(outer.path().join("elsewhere")).unwrap();
        fs::create_dir(&root).unwrap();
        for name in ["a", "b"] {
            fs::write(root.join(name), name).unwrap();
        }
        std::os::unix::fs::symlink("../elsewhere", root.join("link")).unwrap();
        (outer, root)
    }

    fn home(outer: &tempfile::TempDir) -> PathBuf {
        outer.path().join("home")
    }

    fn moves(outer: &tempfile::TempDir, root: &Path) -> Moves {
        Moves::new(root, &home(outer)).unwrap()
    }

    /// Writes the list of moves in the form in which this user's llm-do leaves it.
    fn leave(outer: &tempfile::TempDir, root: &Path, list: &[(&str, &str)]) {
        let Moves { root: real, key, .. } = moves(outer, root);
        let object = serde_json::to_vec(&json!({"moves": list})).unwrap();
        fs::write(root.join(MOVES), key.seal(&Moves::purpose(&real), object)).unwrap();
    }

    fn names(root: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(root).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_pipe_in_the_place_of_the_list_is_not_waited_for() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let (outer, root) = folder();
        fs::create_dir(root.join(OWN)).unwrap();
        mknodat(CWD, root.join(MOVES), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(is_unsettled(&root));
        assert!(settle(&root, &home(&outer)).unwrap_err().to_string().contains("is not a file"));
    }

    #[test]
    fn a_move_that_fails_undoes_those_before_it() {
        let (outer, root) = folder();
        let mut moves = moves(&outer, &root);
        moves.add("a", "deep/er/a");
        moves.add("b", "deep/er/a");
        let staged = Staged::inside(&root).unwrap();
        assert!(moves.make(&staged).is_err(), "nothing is overwritten");
        drop(staged);
        assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "a");
        assert_eq!(names(&root), ["a", "b", "link"]);
    }

    #[test]
    fn nothing_is_put_or_taken_outside() {
        let (outer, root) = folder();
        fs::write(outer.path().join("elsewhere/x"), "x").unwrap();
        let staged = Staged::inside(&root).unwrap();
        for path in ["../a", "/a", "x/../../a", "link/x", "", ".git/hooks/x", "deep/.GIT/x", ".hg/hgrc"] {
            for (from, to) in [("a", path), (path, "new")] {
                let mut moves = moves(&outer, &root);
                moves.add(from, to);
                assert!(moves.make(&staged).is_err(), "{from} to {to}");
            }
            if path != "link/x" {
                assert!(staged.write(path, b"x").is_err(), "{path}");
            }
        }
        assert_eq!(names(&outer.path().join("elsewhere")), ["x"]);
        assert!(!is_unsettled(&root));
    }

    #[test]
    fn a_list_that_a_stranger_left_moves_nothing() {
        let (outer, root) = folder();
        fs::create_dir(root.join(OWN)).unwrap();
        let refused = || settle(&root, &home(&outer)).unwrap_err().to_string();
        for text in [&br#"[["a","c"]]"#[..], br#"{"moves":[["a","c"]]}"#, b"{}", b""] {
            fs::write(root.join(MOVES), text).unwrap();
            assert!(refused().contains("was not written by your llm-do"), "{}", refused());
        }
        // The user's own list, but of another folder.
        let other = outer.path().join("other");
        fs::create_dir_all(other.join(OWN)).unwrap();
        leave(&outer, &other, &[("a", "c")]);
        fs::copy(other.join(MOVES), root.join(MOVES)).unwrap();
        assert!(refused().contains("for this folder"), "{}", refused());
        assert_eq!(names(&root), [OWN, "a", "b", "link"]);
    }

    #[test]
    fn a_sealed_list_stays_in_the_folder_and_outside_of_version_control() {
        let (outer, root) = folder();
        fs::write(outer.path().join("elsewhere/x"), "x").unwrap();
        fs::create_dir(root.join(OWN)).unwrap();
        let moves =
            [("link/x", "x"), ("../elsewhere/x", "x"), ("a", "link/a"), ("a", "../a"), ("a", ".git/a")];
        for (from, to) in moves {
            leave(&outer, &root, &[(from, to)]);
            assert!(settle(&root, &home(&outer)).is_err(), "{from} to {to}");
        }
        assert_eq!(names(&root), [OWN, "a", "b", "link"]);
        assert_eq!(names(&outer.path().join("elsewhere")), ["x"]);
    }

    #[test]
    fn what_is_in_use_is_not_cleared_away() {
        let (outer, root) = folder();
        let staged = Staged::inside(&root).unwrap();
        let left = root.join(OWN).join(format!("{WAITING}left"));
        fs::create_dir(&left).unwrap();
        assert_eq!(settle(&root, &home(&outer)).unwrap(), []);
        assert!(staged.path().exists() && !left.exists());
        drop(staged);
        assert_eq!(names(&root), ["a", "b", "link"]);
    }

    #[test]
    fn what_is_in_the_way_is_said_and_nothing_is_lost() {
        let (outer, root) = folder();
        let waiting = format!("{OWN}/{WAITING}x/new");
        fs::create_dir_all(root.join(&waiting)).unwrap();
        fs::write(root.join(&waiting).join("a"), "new").unwrap();
        leave(&outer, &root, &[("a", "kept/a"), (&format!("{waiting}/a"), "a")]);
        fs::create_dir(root.join("kept")).unwrap();
        fs::rename(root.join("a"), root.join("kept/a")).unwrap();
        fs::write(root.join("a"), "mine").unwrap();
        assert!(settle(&root, &home(&outer)).unwrap_err().to_string().contains("a is in the way"));
        fs::rename(root.join("a"), root.join("mine")).unwrap();
        assert_eq!(settle(&root, &home(&outer)).unwrap(), [(format!("{waiting}/a"), "a".to_owned())]);
        assert_eq!(fs::read_to_string(root.join("a")).unwrap(), "new");
        assert_eq!(fs::read_to_string(root.join("kept/a")).unwrap(), "a");
        assert_eq!(names(&root), ["a", "b", "kept", "link", "mine"]);
    }
}
