//! Waiting for a change in a program's folder.

use crate::args::TestArgs;
use llm_do::{Canceller, Located};
use std::{
    collections::hash_map::DefaultHasher,
    fs::{self, Metadata},
    hash::{Hash as _, Hasher as _},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

/// Time between two checks of the files.
const EVERY: Duration = Duration::from_millis(250);
/// The deepest folder that is searched, and the same for a worker file without a project, which may be in a large
/// folder.
const DEEPEST: usize = 32;
const DEEPEST_OF_FILE: usize = 1;
/// Folders with files that no run reads, or that runs write.
const IGNORED: [&str; 5] = [".git", ".llm-do", "__pycache__", "node_modules", ".venv"];

/// The files of a program.
pub(super) struct Watched {
    root: PathBuf,
    deepest: usize,
    /// Files that the tests themselves write.
    written: Vec<PathBuf>,
    /// The files that stdout and stderr are, by device and number.
    streams: Vec<(u64, u64)>,
}

/// The state of the files at one moment, as far as it matters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(u64);

impl Watched {
    pub(super) fn of(located: &Located, args: &TestArgs) -> Self {
        let source = located.source();
        let root = PathBuf::from(source.tree.root().as_str());
        let written = [&args.junit, &args.summary, &args.html].into_iter().flatten();
        let streams = [fs::metadata("/dev/stdout"), fs::metadata("/dev/stderr")];
        Self {
            deepest: if source.work.is_some() { DEEPEST_OF_FILE } else { DEEPEST },
            // As the folder's entries are named.
            written: written.filter_map(|path| real(path).ok()).collect(),
            streams: streams.into_iter().flatten().map(|file| (file.dev(), file.ino())).collect(),
            root,
        }
    }

    pub(super) fn state(&self) -> Fingerprint {
        let mut sum = 0;
        self.look(&self.root, 0, &mut sum);
        Fingerprint(sum)
    }

    /// Returns when the files have changed and then stayed the same for a moment, because an editor saves in several
    /// steps. Also returns if the tests are ended.
    pub(super) fn until_change(&self, before: Fingerprint, canceller: &Canceller) {
        let mut last = before;
        while !canceller.is_cancelled() {
            sleep(EVERY);
            let now = self.state();
            if now == last && now != before {
                return;
            }
            last = now;
        }
    }

    /// Adds a number for each file. The order in which a folder lists them does not matter.
    fn look(&self, folder: &Path, depth: usize, sum: &mut u64) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            let of_editor = name.ends_with('~') || name.ends_with(".swp") || name.starts_with(".#");
            if IGNORED.contains(&&*name) || name.ends_with(".recorded") || of_editor {
                continue;
            }
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if depth < self.deepest && !self.written.contains(&path) {
                    self.look(&path, depth + 1, sum);
                }
            } else if let Ok(metadata) = entry.metadata()
                && !self.is_written(&path, &metadata)
            {
                let mut hasher = DefaultHasher::new();
                (path, metadata.len(), metadata.ino(), metadata.modified().ok()).hash(&mut hasher);
                *sum = sum.wrapping_add(hasher.finish());
            }
        }
    }

    fn is_written(&self, path: &PathBuf, metadata: &Metadata) -> bool {
        self.written.contains(path) || self.streams.contains(&(metadata.dev(), metadata.ino()))
    }
}

/// Returns the path of a file that may not exist yet, in its real folder.
fn real(path: &Path) -> io::Result<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(fs::canonicalize(folder)?.join(path.file_name().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_state_changes_with_what_runs_read_and_with_nothing_else() {
        let folder = TempDir::new().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("main.worker", "Go.");
        write("log", "");
        let log = fs::metadata(root.join("log")).unwrap();
        let mut watched = Watched {
            root: root.clone(),
            deepest: DEEPEST,
            written: vec![root.join("report.xml"), root.join("pages")],
            streams: vec![(log.dev(), log.ino())],
        };
        let mut before = watched.state();
        for name in [
            "report.xml",
            "pages/a.html",
            "main.recorded/a.1.jsonl",
            ".git/index",
            ".main.worker.swp",
            "log",
            "main.worker~",
        ] {
            write(name, "more");
            assert!(watched.state() == before, "{name}");
        }
        let mut is_other = |watched: &Watched, what: &str| {
            let now = watched.state();
            assert!(now != before, "{what}");
            before = now;
        };
        write("tools.py", "");
        is_other(&watched, "a new file");
        fs::rename(root.join("tools.py"), root.join("t.py")).unwrap();
        is_other(&watched, "another name");
        fs::remove_file(root.join("t.py")).unwrap();
        is_other(&watched, "a file less");
        // An older file of the same size in its place, as a version control system puts it there.
        write("other", "No.");
        fs::File::open(root.join("other")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        is_other(&watched, "another new file");
        fs::rename(root.join("other"), root.join("main.worker")).unwrap();
        is_other(&watched, "an older file");
        write("deep/in/here.txt", "");
        is_other(&watched, "a file in a folder");
        watched.deepest = DEEPEST_OF_FILE;
        let before = watched.state();
        write("deep/in/there.txt", "");
        assert!(watched.state() == before, "a lone file may lie in a large folder");
    }
}
