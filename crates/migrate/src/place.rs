//! The target paths of files.

use crate::{
    Findings, Form, Weight, agents,
    draft::{Draft, Role, form_of, is_yaml, with_extension},
    golem,
    inventory::Inventory,
    registry,
};
use llm_do_program::{resolve, source::plain, yaml::Node};
use std::collections::{BTreeMap, BTreeSet};

/// The layout of an old tree, and the new one.
#[derive(Debug)]
pub(super) struct Layout {
    /// The workers root, old and new.
    pub(super) workers_root: String,
    /// Further folders with workers.
    pub(super) worker_paths: Vec<String>,
    pub(super) prompts_root: String,
    /// True if the tree is a folder of workers and nothing else.
    pub(super) flat: bool,
    /// True if the tree is a registry that is found by its path, such as `~/.llm-do/workers`.
    pub(super) is_registry: bool,
}

impl Layout {
    pub(super) fn of(inventory: &Inventory, drafts: &[Draft], root: &str) -> Self {
        let manifest = drafts.iter().find(|draft| draft.role == Role::Manifest);
        let folder = |key: &str, default: &str| {
            let given = manifest.and_then(|m| m.keys.get(key)?.get("root")?.as_text());
            given.and_then(|path| plain(path).ok()).unwrap_or_else(|| default.to_owned())
        };
        let paths = manifest.and_then(|m| m.keys.get("worker_paths").or_else(|| m.keys.get("workerPaths")));
        let workers_root = folder("workers", "workers");
        let worker_paths = paths
            .into_iter()
            .flat_map(Node::texts)
            .filter_map(|(path, _)| plain(path).ok())
            .filter(|path| *path != workers_root && *path != golem::HIDDEN_ROOT && !path.is_empty())
            .collect();
        let flat = registry::is_flat(inventory);
        Self {
            worker_paths,
            prompts_root: folder("prompts", "prompts"),
            workers_root,
            flat,
            is_registry: flat && root.rsplit('/').next() == Some("workers"),
        }
    }

    /// Returns the new layout in the form of the resolver.
    pub(super) fn resolver(&self) -> resolve::Layout {
        let mut roots = vec![self.workers_root.clone()];
        roots.extend(self.worker_paths.iter().cloned());
        resolve::Layout { roots }
    }

    /// Returns the name by which a worker's file was called in the old layout.
    pub(super) fn old_id(&self, path: &str) -> String {
        let stem = with_extension(path);
        let stem = stem.strip_suffix(".worker").unwrap_or(&stem);
        let stem = stem.strip_suffix("/worker").unwrap_or(stem);
        let roots = [&self.workers_root, golem::HIDDEN_ROOT].into_iter();
        let mut roots = roots.chain(self.worker_paths.iter().map(String::as_str));
        let below = roots.find_map(|root| stem.strip_prefix(root)?.strip_prefix('/'));
        below.unwrap_or(stem).to_owned()
    }

    /// Returns the target of a worker. `called` contains the bare names that workers use for each other.
    fn place(&self, draft: &Draft, called: &BTreeSet<String>, has_main: bool) -> String {
        let path = draft.path.as_str();
        let root = &self.workers_root;
        let in_root = path.strip_prefix(root.as_str()).is_some_and(|rest| rest.starts_with('/'));
        // A folder's worker is `worker.worker`; what is called `worker` at the top is not.
        let renamed = with_extension(path);
        if in_root
            || self
                .worker_paths
                .iter()
                .any(|p| path.strip_prefix(p.as_str()).is_some_and(|r| r.starts_with('/')))
        {
            return renamed;
        }
        if let Some(rest) = renamed.strip_prefix(golem::HIDDEN_ROOT).and_then(|rest| rest.strip_prefix('/')) {
            return format!("{root}/{rest}");
        }
        let at_top = !path.contains('/');
        if at_top && (draft.stem() == "main" || (path == golem::ENTRY && !has_main)) {
            return "main.worker".into();
        }
        let agent = path.ends_with(agents::EXTENSION);
        if self.flat && !agent {
            return format!("{root}/{renamed}");
        }
        if let Some((folder, "worker.worker")) = renamed.split_once('/')
            && called.contains(folder)
        {
            return format!("{root}/{renamed}");
        }
        let name =
            draft.keys.get("name").and_then(Node::as_text).filter(|name| is_id(name) && *name != "main");
        if agent && draft.keys.get("name").and_then(Node::as_text) == Some("main") && !has_main {
            return "main.worker".into();
        }
        let by_name = called.contains(draft.stem()) || name.is_some_and(|name| called.contains(name));
        if agent || (at_top && by_name) {
            return format!("{root}/{}.worker", name.unwrap_or(draft.stem()));
        }
        renamed
    }
}

/// Returns true if a name can be an ID: parts of letters, digits, `_`, `-` and `.`, none of them hidden.
fn is_id(name: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    name.len() <= 100 && name.split('/').all(part) && resolve::without_extension(name).is_none()
}

/// Sets the target of each draft. A draft whose target is taken is left unchanged.
pub(super) fn place(
    drafts: &mut Vec<Draft>,
    inventory: &Inventory,
    layout: &Layout,
    findings: &mut Findings,
) {
    let called: BTreeSet<String> = drafts.iter().flat_map(|draft| called_by(&draft.keys)).collect();
    let has_main = inventory.files.iter().any(|path| {
        path.strip_prefix("main.").is_some_and(|e| ["worker", "agent", "yaml", "yml"].contains(&e))
    });
    for draft in drafts.iter_mut().filter(|draft| draft.role == Role::Worker) {
        draft.to = layout.place(draft, &called, has_main);
    }
    // Files that stay come first, so that no other file takes their place.
    drafts.sort_by_cached_key(|draft| {
        (draft.role != Role::Manifest, draft.to != draft.path, draft.path.clone())
    });
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    drafts.retain(|draft| {
        let key = draft.to.to_lowercase();
        let other = places.get(&key).cloned().or_else(|| {
            let itself = key == draft.path.to_lowercase();
            let above = parents(&draft.to).find(|parent| inventory.is_closed(parent)).map(str::to_owned);
            above.or_else(|| (!itself && inventory.is_taken(&draft.to)).then(|| draft.to.clone()))
        });
        if let Some(other) = other {
            let message =
                format!("is left as it is: it would become {}, but {other} is in the way", draft.to);
            findings.note(Weight::Lost, Some(&draft.path), None, message);
            return false;
        }
        places.insert(key, draft.path.clone());
        true
    });
    for draft in drafts.iter() {
        tell_forms(draft, layout, findings);
    }
}

fn tell_forms(draft: &Draft, layout: &Layout, findings: &mut Findings) {
    if draft.role == Role::Manifest {
        return;
    }
    findings.forms.extend(form_of(&draft.path));
    let moved = draft.to != draft.path;
    if draft.path == golem::ENTRY && moved || draft.path.starts_with(golem::HIDDEN_ROOT) {
        findings.forms.insert(Form::GolemForge);
    } else if moved && layout.flat {
        findings.forms.insert(Form::FlatRegistry);
    } else if moved && !is_yaml(&draft.path) && !draft.path.ends_with(agents::EXTENSION) {
        findings.forms.insert(Form::FlatWorkers);
    }
}

/// Keeps the path of a single file; the file is left unchanged if its target would differ.
pub(super) fn stay(drafts: &mut Vec<Draft>, path: &str, inventory: &Inventory, findings: &mut Findings) {
    for draft in drafts.iter_mut().filter(|draft| draft.role == Role::Worker) {
        draft.to = if draft.path == path { with_extension(path) } else { draft.path.clone() };
    }
    drafts.retain(|draft| {
        let free = draft.path != path || draft.to == path || !inventory.is_taken(&draft.to);
        if free && draft.path == path {
            findings.forms.extend(form_of(path).filter(|_| draft.role == Role::Worker));
        }
        if !free {
            let message = format!("is left as it is: it would become {0}, but {0} is in the way", draft.to);
            findings.note(Weight::Lost, Some(path), None, message);
        }
        free
    });
}

fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Returns the bare names in a worker's allowlists and toolsets, and in an old manifest's lists.
fn called_by(keys: &Node) -> Vec<String> {
    let listed = |node: Option<&Node>| -> Vec<String> {
        node.into_iter().flat_map(Node::texts).map(|(text, _)| text.to_owned()).collect()
    };
    let mut names = listed(keys.get("allow_workers"));
    names.extend(listed(keys.get("allowWorkers")));
    let entry = keys.get("entry");
    names.extend(
        ["agent", "worker"].into_iter().flat_map(|key| listed(entry.and_then(|entry| entry.get(key)))),
    );
    for file in ["agent_files", "worker_files"].into_iter().flat_map(|key| listed(keys.get(key))) {
        names.extend(with_extension(&file).strip_suffix(".worker").map(str::to_owned));
    }
    let toolsets = keys.get("toolsets");
    names.extend(listed(toolsets));
    for entry in toolsets.map(Node::entries).unwrap_or_default() {
        names.push(entry.key.clone());
        if entry.key == "delegation" || entry.key == "workers" {
            names.extend(entry.value.entries().iter().flat_map(|e| {
                let mut names = listed(Some(&e.value));
                names.push(e.key.clone());
                names
            }));
        }
    }
    names.retain(|name| !name.contains('/'));
    names
}

/// Returns the files that move together with a worker in the same folder: from, to.
pub(super) fn companions(
    drafts: &[Draft],
    inventory: &Inventory,
    layout: &Layout,
    findings: &mut Findings,
) -> Vec<(String, String)> {
    let mut folders: BTreeMap<String, String> = BTreeMap::new();
    if drafts.iter().any(|draft| draft.path.starts_with(golem::HIDDEN_ROOT) && draft.to != draft.path) {
        folders.insert(golem::HIDDEN_ROOT.to_owned(), layout.workers_root.clone());
    }
    for draft in drafts.iter().filter(|draft| draft.to != draft.path) {
        if let (Some((from, "worker.worker")), Some((to, _))) =
            (with_extension(&draft.path).rsplit_once('/'), draft.to.rsplit_once('/'))
            && from != to
        {
            folders.insert(from.to_owned(), to.to_owned());
        }
    }
    let places: BTreeSet<String> = drafts.iter().map(|draft| draft.to.to_lowercase()).collect();
    let mut seen: BTreeSet<&str> = drafts.iter().map(|draft| draft.path.as_str()).collect();
    let mut moves = Vec::new();
    for (from, to) in &folders {
        for path in inventory.below(from) {
            if !seen.insert(path) {
                continue;
            }
            let place = format!("{to}{}", &path[from.len()..]);
            let closed = parents(&place).any(|parent| inventory.is_closed(parent));
            if closed || inventory.is_taken(&place) || places.contains(&place.to_lowercase()) {
                findings.note(
                    Weight::Lost,
                    Some(path),
                    None,
                    format!("stays where it is: {place} already exists"),
                );
                continue;
            }
            moves.push((path.to_owned(), place));
        }
    }
    moves
}
