//! Walks a folder's tree without recursion, without following links, and without holding all of it.

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, Metadata};
use std::{collections::BinaryHeap, io};

/// Maximum number of open folders. Outer ones are opened again on the way back, so that deep trees don't exhaust
/// descriptors.
const KEPT_OPEN: usize = 32;

/// An entry below the walked folder.
pub(crate) struct Below {
    /// The path of the entry, relative to the walked folder.
    pub(crate) rest: String,
    /// The metadata of the entry.
    pub(crate) found: Metadata,
}

/// A walk: each folder before its content, with the names of each folder sorted.
pub(crate) struct Tree<F> {
    top: Dir,
    levels: Vec<Level>,
    /// A function that returns true if an entry is wanted, given its path and whether it is a folder. An unwanted
    /// folder is not entered.
    wanted: F,
    /// Maximum number of entries, so that only that many names of a huge folder are kept.
    limit: usize,
}

struct Level {
    /// The open folder, or `None` while too many are open.
    dir: Option<Dir>,
    rest: String,
    /// The names that are left, the last name first.
    names: Vec<String>,
}

impl<F: FnMut(&str, bool) -> bool> Tree<F> {
    /// Starts a walk of `top`.
    pub(crate) fn new(top: Dir, limit: usize, wanted: F) -> io::Result<Self> {
        let mut tree = Self { top, levels: Vec::new(), wanted, limit };
        let dir = tree.top.try_clone()?;
        tree.enter(dir, String::new())?;
        Ok(tree)
    }

    /// Returns the next entry, or `None` at the end. Entries that vanish during the walk are skipped; folders that may
    /// not be listed count as empty.
    pub(crate) fn next(&mut self) -> io::Result<Option<Below>> {
        while self.limit > 0 {
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            let Some(name) = level.names.pop() else {
                self.levels.pop();
                continue;
            };
            let rest = join(&level.rest, &name);
            if level.dir.is_none() {
                match reopen(&self.top, &level.rest) {
                    Ok(dir) => level.dir = Some(dir),
                    Err(_) => {
                        self.levels.pop();
                        continue;
                    }
                }
            }
            let Some(dir) = &level.dir else { continue };
            let Ok(found) = dir.symlink_metadata(&name) else { continue };
            let inner = if found.is_dir() { dir.open_dir_nofollow(&name).ok() } else { None };
            if let Some(inner) = inner {
                // A folder that can't be listed is still shown.
                let _ = self.enter(inner, rest.clone());
            }
            self.limit -= 1;
            return Ok(Some(Below { rest, found }));
        }
        Ok(None)
    }

    fn enter(&mut self, dir: Dir, rest: String) -> io::Result<()> {
        // Of a folder with a million names only the first are kept that can still be asked for.
        let mut first: BinaryHeap<String> = BinaryHeap::new();
        for entry in dir.entries()? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if !(self.wanted)(&join(&rest, &name), is_folder) {
                continue;
            }
            first.push(name);
            if first.len() > self.limit {
                first.pop();
            }
        }
        let mut names = first.into_sorted_vec();
        names.reverse();
        self.levels.push(Level { dir: Some(dir), rest, names });
        if let Some(above) = self.levels.len().checked_sub(KEPT_OPEN + 1) {
            self.levels[above].dir = None;
        }
        Ok(())
    }
}

fn reopen(top: &Dir, rest: &str) -> io::Result<Dir> {
    rest.split('/')
        .filter(|part| !part.is_empty())
        .try_fold(top.try_clone()?, |dir, part| dir.open_dir_nofollow(part))
}

/// Returns the path of `name` below `rest`.
pub(crate) fn join(rest: &str, name: &str) -> String {
    match (rest, name) {
        ("", name) => name.to_owned(),
        (rest, "") => rest.to_owned(),
        (rest, name) => format!("{rest}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cap_std::ambient_authority;
    use std::fs;

    fn rests(top: &std::path::Path, limit: usize) -> Vec<String> {
        let dir = Dir::open_ambient_dir(top, ambient_authority()).unwrap();
        let mut tree = Tree::new(dir, limit, |_: &str, _| true).unwrap();
        std::iter::from_fn(|| tree.next().unwrap()).map(|below| below.rest).collect()
    }

    #[test]
    fn the_first_names_come_first_however_few_are_wanted() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a/2", "a/1", "c/x/y", "a.txt"] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let all = rests(dir.path(), 100);
        assert_eq!(all, ["a", "a/1", "a/2", "a.txt", "b", "c", "c/x", "c/x/y"]);
        for limit in 0..all.len() {
            assert_eq!(rests(dir.path(), limit), all[..limit]);
        }
    }

    #[test]
    fn a_tree_deeper_than_the_open_folders_is_walked_whole() {
        let dir = tempfile::tempdir().unwrap();
        let mut path = dir.path().to_owned();
        for _ in 0..KEPT_OPEN * 3 {
            path.push("d");
            fs::create_dir(&path).unwrap();
            fs::write(path.join("z"), "").unwrap();
        }
        let all = rests(dir.path(), 10_000);
        assert_eq!(all.iter().filter(|rest| rest.ends_with('z')).count(), KEPT_OPEN * 3);
        assert_eq!(all.last().unwrap(), "d/z");
    }
}
