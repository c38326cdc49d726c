//! References, dependencies, template names and versions: short texts that name files.

use super::findings::hold;
use llm_do_core::{authority::Place, template::confine};
use llm_do_program::{
    dependency::{DependencyKind, check_name, check_version, compare_versions},
    resolve::Layout,
    source::{Kind, MemoryTree, SourceTree, plain},
};
use std::cmp::Ordering;

/// Files that always exist, for any input.
const FILES: [&str; 9] = [
    "main.worker",
    "workers/a.worker",
    "workers/a/worker.worker",
    "workers/complex/worker.worker",
    "workers/reports/summary.yaml",
    "more/a.worker",
    "more/b.yml",
    "helpers/x.worker",
    "top.worker",
];

/// Most lines of one input that are read.
const MOST: usize = 12;

/// Takes each line as a reference, a dependency, a version and a template's name; and as a file that may be referred
/// to.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines: Vec<&str> = text.split('\n').take(MOST).collect();
    let tree = MemoryTree::new(Place::new("/p"), FILES.iter().chain(&lines).map(|path| (*path, "x")));
    for line in &lines {
        for roots in [&["workers"][..], &["workers", "more"], &[""], &["", "more"], &["src/agents", "src"]] {
            let layout = Layout { roots: roots.iter().map(|&root| root.to_owned()).collect() };
            hold_resolution(&layout, &tree, line);
        }
        hold_dependency(line);
        hold_template_name(line);
        if let Ok(path) = plain(line) {
            assert_confined(&path);
            assert_eq!(plain(&path).ok().as_ref(), Some(&path));
        }
    }
    for a in &lines {
        assert_eq!(compare_versions(a, a), Ordering::Equal);
        for b in &lines {
            let order = compare_versions(a, b);
            assert_eq!(order, compare_versions(b, a).reverse(), "{a:?} and {b:?}");
            for c in lines.iter().filter(|c| compare_versions(b, c) == order) {
                assert_eq!(compare_versions(a, c), order, "{a:?}, {b:?} and {c:?}");
            }
        }
    }
}

/// Asserts that a path has only parts that lead further in.
fn assert_confined(path: &str) {
    assert!(!path.starts_with('/') && !path.contains('\\'), "{path:?}");
    assert!(!path.chars().any(char::is_control), "{path:?}");
    assert!(path.is_empty() || path.split('/').all(|part| !matches!(part, "" | "." | "..")), "{path:?}");
}

fn hold_resolution(layout: &Layout, tree: &MemoryTree, reference: &str) {
    let id = layout.id_of(reference);
    if let Some(id) = &id {
        assert_confined(id);
        assert!(!id.is_empty(), "{reference:?} names nothing");
    }
    match layout.resolve(tree, reference) {
        Ok(located) => {
            assert_confined(&located.path);
            assert_eq!(tree.kind(&located.path), Ok(Some(Kind::File)), "{reference:?}");
            assert_eq!(layout.identify(&located.path), located, "{reference:?}");
            let id = id.expect("what is resolved has an ID");
            if said_by_name(layout, &id) {
                assert_eq!(id, located.id, "{reference:?} with {:?}", layout.roots);
            }
        }
        Err(error) => hold(&[*error]),
    }
}

/// Returns true if the reference alone determines an ID. It does not if one root lies in another, or for a name that
/// ends in `worker` (`a/worker` may be the folder `a`): these need the files.
fn said_by_name(layout: &Layout, id: &str) -> bool {
    let nested = layout.roots.len() > 1 && layout.roots[0] != "workers";
    !nested && id.rsplit('/').next() != Some("worker")
}

fn hold_dependency(text: &str) {
    match DependencyKind::parse(text) {
        Ok(DependencyKind::Named { name, version }) => {
            assert!(check_name(&name).is_ok());
            assert_confined(&name);
            assert!(!name.contains('/') && !name.is_empty());
            let written = match version {
                Some(version) => {
                    assert!(check_version(&version).is_ok());
                    assert_confined(&version);
                    format!("{name}@{version}")
                }
                None => name,
            };
            assert_eq!(written, text);
        }
        Ok(DependencyKind::Path(path)) => assert_eq!(path, text),
        Ok(DependencyKind::Git { url, reference, subdir }) => {
            // Each becomes a word on git's command line.
            for word in [Some(&url), reference.as_ref()].into_iter().flatten() {
                assert!(!word.is_empty() && !word.starts_with('-'), "{text:?}");
                assert!(!word.chars().any(char::is_control), "{text:?}");
            }
            if let Some(subdir) = subdir {
                assert_confined(&subdir);
            }
        }
        Err(why) => assert!(!why.chars().any(char::is_control), "{why:?}"),
    }
}

fn hold_template_name(text: &str) {
    match confine(text) {
        Ok(name) => {
            assert_confined(name.path());
            assert!(!name.path().is_empty());
            assert!(
                name.library().is_none_or(|library| !library.is_empty() && !library.contains(['/', ':']))
            );
            assert_eq!(confine(&name.to_string()).ok().as_ref(), Some(&name));
        }
        Err(refusal) => assert!(!refusal.to_string().chars().any(char::is_control), "{refusal:?}"),
    }
}
