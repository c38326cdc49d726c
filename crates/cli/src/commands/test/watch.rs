//! Waiting for a change in a program's folder.

use std::{
    fs,
    path::Path,
    thread::sleep,
    time::{Duration, SystemTime},
};

/// How often the files are looked at.
const EVERY: Duration = Duration::from_millis(500);
/// The deepest folder that is looked into.
const DEEPEST: usize = 32;
/// Folders whose files no run reads, or that runs write.
const IGNORED: [&str; 5] = [".git", ".llm-do", "__pycache__", "node_modules", ".venv"];

/// Returns when a file has been changed, added or removed.
pub(super) fn until_change(root: &Path) {
    let before = state(root);
    while state(root) == before {
        sleep(EVERY);
    }
}

/// How many files there are, how many bytes they have, and when the last of them was changed.
fn state(root: &Path) -> (u64, u64, Option<SystemTime>) {
    let mut state = (0, 0, None);
    look(root, 0, &mut state);
    state
}

fn look(folder: &Path, depth: usize, state: &mut (u64, u64, Option<SystemTime>)) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if IGNORED.contains(&&*name) || name.ends_with(".recorded") {
            continue;
        }
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth < DEEPEST {
            look(&entry.path(), depth + 1, state);
        } else if let Ok(metadata) = entry.metadata() {
            state.0 += 1;
            state.1 += metadata.len();
            state.2 = state.2.max(metadata.modified().ok());
        }
    }
}
