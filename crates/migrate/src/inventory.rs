//! The files of a tree that is to be migrated.

use crate::{Findings, KEPT, Weight, golem};
use llm_do_program::{
    manifest_names::makes_project,
    older_forms::WAITING,
    source::{Kind, SourceTree},
};
use std::collections::BTreeSet;

/// Folders that contain no definitions of a program.
const IGNORED: [&str; 5] = [".git", ".venv", "__pycache__", "node_modules", ".llm-do"];
/// Depth and number of entries at which the walk stops.
const DEEPEST: usize = 32;
const MOST: usize = 100_000;

/// All regular files of a tree, and the names that are in use.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// Regular files, sorted.
    pub(super) files: Vec<String>,
    /// All names in use: files, folders, links; in lower case, because some file systems ignore case.
    taken: BTreeSet<String>,
    /// Names of entries that are not folders: files, links, devices.
    closed: BTreeSet<String>,
}

impl Inventory {
    pub(super) fn read(tree: &dyn SourceTree, findings: &mut Findings) -> Self {
        let mut inventory = Self::default();
        let mut budget = MOST;
        inventory.walk(tree, "", 0, &mut budget, findings);
        if budget == 0 {
            let message = format!("there are more than {MOST} files and folders: the rest was not looked at");
            findings.note(Weight::Lost, None, None, message);
        }
        inventory.files.sort();
        inventory
    }

    fn walk(
        &mut self,
        tree: &dyn SourceTree,
        folder: &str,
        depth: usize,
        budget: &mut usize,
        findings: &mut Findings,
    ) {
        let entries = match tree.list(folder) {
            Ok(entries) => entries,
            Err(error) => {
                findings.note(Weight::Lost, Some(folder), None, format!("cannot be searched: {error}"));
                return;
            }
        };
        // Files below a workers root belong to this project, whatever their name.
        let rooted = golem::is_rooted(&format!("{folder}/"));
        if depth > 0 && !rooted && entries.iter().any(|(name, _)| makes_project(name)) {
            findings.note(Weight::Info, Some(folder), None, "is a separate project: migrate it separately");
            return;
        }
        for (name, kind) in entries {
            if *budget == 0 {
                return;
            }
            *budget -= 1;
            if IGNORED.contains(&name.as_str()) || name.starts_with(KEPT) || name.starts_with(WAITING) {
                continue;
            }
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            self.taken.insert(path.to_lowercase());
            match kind {
                Kind::Folder if depth < DEEPEST => self.walk(tree, &path, depth + 1, budget, findings),
                Kind::Folder => {
                    findings.note(Weight::Lost, Some(&path), None, "is nested too deeply to be searched");
                }
                Kind::File => {
                    self.closed.insert(path.to_lowercase());
                    self.files.push(path);
                }
                Kind::Special => {
                    self.closed.insert(path.to_lowercase());
                    let message = "is a symbolic link or a device, and is left alone";
                    findings.note(Weight::Lost, Some(&path), None, message);
                }
            }
        }
    }

    /// Returns true if the path is that of a regular file.
    pub(super) fn has(&self, path: &str) -> bool {
        self.files.binary_search_by(|file| file.as_str().cmp(path)).is_ok()
    }

    /// Returns true if any entry has that name, ignoring case.
    pub(super) fn is_taken(&self, path: &str) -> bool {
        self.taken.contains(&path.to_lowercase())
    }

    /// Returns true if an entry of that name is not a folder.
    pub(super) fn is_closed(&self, path: &str) -> bool {
        self.closed.contains(&path.to_lowercase())
    }

    /// Returns the files below a folder.
    pub(super) fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        self.files
            .iter()
            .map(String::as_str)
            .filter(move |file| file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/')))
    }
}
