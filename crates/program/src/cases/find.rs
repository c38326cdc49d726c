//! Finds files of cases, and the workers that they belong to.

use crate::{
    resolve::{Layout, without_extension},
    scan::{DEEPEST, IGNORED},
    source::{Kind, SourceTree, join},
};

/// The end of the names of files of cases in YAML.
pub const CASES_YAML: &str = ".cases.yaml";
/// The end of the names of files of cases in lines of JSON.
pub const CASES_JSONL: &str = ".cases.jsonl";
/// The folder of tests, in which the path of a file is the ID of its worker.
const TESTS: &str = "tests/";
/// The largest number of entries that are visited.
const MOST: usize = 500_000;

/// Returns true if a path is that of a file of cases.
pub fn is_cases_file(path: &str) -> bool {
    stem(path).is_some()
}

/// Returns the path without the ending of files of cases: `workers/price` for `workers/price.cases.yaml`.
fn stem(path: &str) -> Option<&str> {
    let stem = path.strip_suffix(CASES_YAML).or_else(|| path.strip_suffix(CASES_JSONL))?;
    stem.rsplit('/').next().is_some_and(|name| !name.is_empty()).then_some(stem)
}

/// Returns the folder of a file's recordings: `workers/price.recorded`.
pub fn recorded_folder(path: &str) -> String {
    format!("{}.recorded", stem(path).unwrap_or(path))
}

/// Lists the files of cases of a program, sorted by path.
pub fn files(tree: &dyn SourceTree) -> Vec<String> {
    let (mut found, mut budget) = (Vec::new(), MOST);
    walk(tree, "", 0, &mut budget, &mut found);
    found.sort();
    found
}

fn walk(tree: &dyn SourceTree, folder: &str, depth: usize, budget: &mut usize, found: &mut Vec<String>) {
    let Ok(entries) = tree.list(folder) else { return };
    for (name, kind) in entries {
        if *budget == 0 {
            return;
        }
        *budget -= 1;
        match kind {
            Kind::Folder if depth < DEEPEST && !IGNORED.contains(&name.as_str()) => {
                walk(tree, &join(folder, &name), depth + 1, budget, found);
            }
            Kind::File if is_cases_file(&name) => found.push(join(folder, &name)),
            _ => {}
        }
    }
}

/// Returns the possible IDs of the worker of a file of cases, in order of precedence: the path below `tests/`, the
/// worker beside the file, and the worker of the file's name. The first worker that exists is the one.
pub fn worker_candidates(layout: &Layout, path: &str) -> Vec<String> {
    let stem = stem(path).unwrap_or(path);
    let name = stem.rsplit('/').next().unwrap_or(stem);
    let below_tests = stem.strip_prefix(TESTS).map(str::to_owned);
    let beside = layout.identify(&format!("{stem}.worker")).id;
    let mut ids: Vec<String> = below_tests.into_iter().chain([beside, name.to_owned()]).collect();
    let mut seen = Vec::new();
    ids.retain(|id| {
        let new = !seen.contains(id);
        seen.push(id.clone());
        new
    });
    ids
}

/// Lists the files of cases of a single worker file.
pub fn of_worker_file(tree: &dyn SourceTree, worker: &str) -> Vec<String> {
    let stem = without_extension(worker).unwrap_or(worker);
    let name = stem.rsplit('/').next().unwrap_or(stem);
    let mut paths = Vec::new();
    for ending in [CASES_YAML, CASES_JSONL] {
        paths.extend([format!("{stem}{ending}"), format!("{TESTS}{name}{ending}")]);
    }
    paths.retain(|path| matches!(tree.kind(path), Ok(Some(Kind::File))));
    paths.sort();
    paths
}

/// Converts a path that is relative to the folder of a file of cases to one from the root.
pub fn beside_file(file: &str, path: &str) -> String {
    let path = path.trim_start_matches("./").trim_end_matches('/');
    match file.rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{path}"),
        None => path.to_owned(),
    }
}

/// Returns true if a path is relative and stays below its base, on any system.
pub fn is_portable(path: &str) -> bool {
    let fits = |part: &str| !part.is_empty() && part != ".." && !part.contains(['\\', ':', '\0']);
    !path.is_empty() && path.trim_end_matches('/').split('/').all(fits)
}
