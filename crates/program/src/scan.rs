//! Lists the workers of a program, for `list`, `check` and similar names in errors. A run never scans. See
//! `docs/reference/resolution.md`.

use crate::{
    manifest::Manifest,
    resolve::{Layout, WorkerFile, without_extension},
    source::{Kind, SourceTree},
};
use globset::{Glob, GlobSet, GlobSetBuilder};
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Folders that are never searched.
pub(crate) const IGNORED: [&str; 5] = [".git", ".venv", "__pycache__", "node_modules", ".llm-do"];
/// Limits on the depth and number of entries of a scan.
pub const DEEPEST: usize = 32;
const MOST: usize = 500_000;
/// The largest number of entries in a scan of all folders, in which a project may have any number of other files.
const MOST_EVERYWHERE: usize = 50_000;
/// The largest ignore file that is read, in bytes.
const LARGEST_IGNORE_FILE: u64 = 64 * 1024;

/// Lists all workers of a program, sorted by ID. Unreadable folders are skipped.
pub fn workers(tree: &dyn SourceTree, manifest: &Manifest, layout: &Layout) -> Vec<WorkerFile> {
    let rules = Rules::read(tree, manifest);
    let mut found = Vec::new();
    if matches!(tree.kind("main.worker"), Ok(Some(Kind::File))) {
        found.push(layout.identify("main.worker"));
    }
    let mut budget = MOST;
    for root in &layout.roots {
        walk(tree, layout, &rules, root, 0, &mut budget, &mut found);
    }
    found.sort();
    found.dedup();
    found
}

/// Lists the `.worker` files in all folders down to a depth, also those that the manifest leaves out: a path can name
/// each of them.
pub fn everywhere(tree: &dyn SourceTree, layout: &Layout, deepest: usize) -> Vec<WorkerFile> {
    let (mut budget, mut found) = (MOST_EVERYWHERE, Vec::new());
    walk(tree, layout, &Rules::none(), "", DEEPEST - deepest.min(DEEPEST), &mut budget, &mut found);
    found.retain(|file| file.path.ends_with(".worker"));
    found
}

fn walk(
    tree: &dyn SourceTree,
    layout: &Layout,
    rules: &Rules,
    folder: &str,
    depth: usize,
    budget: &mut usize,
    found: &mut Vec<WorkerFile>,
) {
    if depth > DEEPEST {
        return;
    }
    let Ok(entries) = tree.list(folder) else { return };
    for (name, kind) in entries {
        if *budget == 0 {
            return;
        }
        *budget -= 1;
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        match kind {
            Kind::Folder if !IGNORED.contains(&name.as_str()) && !rules.ignores(&path, true) => {
                walk(tree, layout, rules, &path, depth + 1, budget, found);
            }
            Kind::File if without_extension(&name).is_some() && !rules.ignores(&path, false) => {
                found.push(layout.identify(&path));
            }
            _ => {}
        }
    }
}

/// The rules by which a scan leaves out files.
struct Rules {
    ignore: Gitignore,
    include: GlobSet,
    exclude: GlobSet,
    folders: Vec<String>,
}

impl Rules {
    /// Returns rules that leave out nothing.
    fn none() -> Self {
        let (include, exclude) = (GlobSet::empty(), GlobSet::empty());
        Self { ignore: Gitignore::empty(), include, exclude, folders: Vec::new() }
    }

    fn read(tree: &dyn SourceTree, manifest: &Manifest) -> Self {
        let mut ignore = GitignoreBuilder::new("");
        if let Ok(bytes) = tree.read(".llm-doignore", LARGEST_IGNORE_FILE) {
            for line in String::from_utf8_lossy(&bytes).lines() {
                // As in git, an invalid pattern ignores nothing.
                let _ = ignore.add_line(None, line);
            }
        }
        let mut folders = vec![manifest.workers_root.clone()];
        folders.extend(manifest.worker_paths.iter().cloned());
        Self {
            ignore: ignore.build().unwrap_or_else(|_| Gitignore::empty()),
            include: set(&manifest.include),
            exclude: set(&manifest.exclude),
            folders,
        }
    }

    fn ignores(&self, path: &str, folder: bool) -> bool {
        if self.ignore.matched(path, folder).is_ignore() {
            return true;
        }
        // Globs of the manifest are relative to the workers root; globs relative to the project's root also work.
        let below = self.folders.iter().find_map(|root| path.strip_prefix(root.as_str())?.strip_prefix('/'));
        let matches = |set: &GlobSet| set.is_match(path) || below.is_some_and(|path| set.is_match(path));
        if matches(&self.exclude) {
            return true;
        }
        !folder && !self.include.is_empty() && !matches(&self.include)
    }
}

fn set(globs: &[String]) -> GlobSet {
    let mut builder = GlobSetBuilder::new();
    for glob in globs.iter().filter_map(|glob| Glob::new(glob).ok()) {
        builder.add(glob);
    }
    builder.build().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemoryTree;
    use llm_do_core::authority::Place;

    #[test]
    fn worker_files_are_found_everywhere() {
        let files =
            ["main.worker", "workers/a.worker", "workers/b.yaml", "x/y/c.worker", ".venv/d.worker", "e.yaml"];
        let files = files.iter().map(|path| (*path, "")).chain([(".llm-doignore", "*.worker")]);
        let tree = MemoryTree::new(Place::new("/p"), files);
        let layout = Layout::of(&Manifest::default());
        let paths = |deepest| -> Vec<String> {
            everywhere(&tree, &layout, deepest).into_iter().map(|file| file.path).collect()
        };
        assert_eq!(paths(DEEPEST), ["main.worker", "workers/a.worker", "x/y/c.worker"]);
        assert_eq!(paths(0), ["main.worker"]);
    }

    #[test]
    fn ignored_files_are_not_listed() {
        let tree = MemoryTree::new(
            Place::new("/p"),
            [
                (".llm-doignore", "*.draft.worker\n/workers/old/\n"),
                ("main.worker", ""),
                ("workers/a.worker", ""),
                ("workers/b.draft.worker", ""),
                ("workers/old/c.worker", ""),
                ("workers/drafts/d.worker", ""),
                ("workers/node_modules/e.worker", ""),
                ("workers/x/worker.worker", ""),
                ("workers/x/notes.txt", ""),
                ("more/f.yml", ""),
                ("elsewhere/g.worker", ""),
            ],
        );
        let manifest = Manifest {
            exclude: vec!["**/drafts/**".into()],
            worker_paths: vec!["more".into()],
            ..Manifest::default()
        };
        let layout = Layout { roots: vec!["workers".into(), "more".into()] };
        let ids: Vec<String> = workers(&tree, &manifest, &layout).into_iter().map(|w| w.id).collect();
        assert_eq!(ids, ["a", "f", "main", "x"]);
        let manifest = Manifest { include: vec!["x/*.worker".into()], ..Manifest::default() };
        let layout = Layout { roots: vec!["workers".into()] };
        let ids: Vec<String> = workers(&tree, &manifest, &layout).into_iter().map(|w| w.id).collect();
        assert_eq!(ids, ["main", "x"]);
    }
}
