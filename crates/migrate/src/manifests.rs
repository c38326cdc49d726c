//! Older manifests: `program.yaml`, `workshop.yaml`, golem-forge's, `project.json`; they become `project.yaml`.

use crate::{
    Findings, Form, Weight,
    draft::{Draft, Role},
    get_mut, golem,
    inventory::Inventory,
    keys, made, made_entry, made_text, map_at,
    names::Names,
    place::Layout,
    take, toolsets, wrapper,
};
use llm_do_program::{
    keys::{MANIFEST, WORKER},
    manifest_names::{MANIFESTS, OLDER, is_project_json},
    shape::snake_case,
    source::SourceTree,
    yaml::{Data, Entry, Node},
};
use std::collections::BTreeSet;

/// The name of the new manifest.
pub(super) const NEW: &str = MANIFESTS[0];

/// Returns the form of an older manifest, by its name.
fn form(name: &str) -> Form {
    match name.split('.').next() {
        Some("workshop") => Form::Workshop,
        Some("program") => Form::Program,
        Some("golem-forge") => Form::GolemForge,
        _ if name.ends_with(".json") => Form::ProjectJson,
        _ => Form::Keys,
    }
}

/// Finds the manifest of a tree.
pub(super) fn find(tree: &dyn SourceTree, inventory: &Inventory, findings: &mut Findings) -> Option<Draft> {
    let mut there: Vec<(&str, Option<Form>)> =
        MANIFESTS.into_iter().filter(|name| inventory.has(name)).map(|name| (name, None)).collect();
    there.extend(OLDER.into_iter().filter(|name| inventory.has(name)).map(|name| (name, Some(form(name)))));
    let mut found: Option<Draft> = None;
    for (name, form) in there {
        let mut quiet = Findings::default();
        let json = name.ends_with(".json");
        let Some(mut draft) = wrapper::read(tree, name, if json { &mut quiet } else { findings }) else {
            continue;
        };
        if json && !is_project_json(&draft.keys) {
            continue;
        }
        if let Some(first) = &found {
            let message = format!("is left as it is: {} is the manifest", first.path);
            findings.note(Weight::Lost, Some(name), None, message);
            continue;
        }
        findings.forms.extend(form);
        draft.role = Role::Manifest;
        if form.is_some() {
            NEW.clone_into(&mut draft.to);
        }
        found = Some(draft);
    }
    found
}

/// Makes a manifest's keys canonical.
pub(super) fn manifest(draft: &mut Draft, names: &Names, layout: &Layout, findings: &mut Findings) {
    if draft.path.ends_with(".json") {
        json(draft, findings);
    }
    version(draft);
    sandbox_shell(draft, findings);
    root_worker(draft, findings);
    keys::models(draft, findings);
    toolsets::convert(draft, names, findings);
    keys::canonical_keys(draft, MANIFEST, findings);
    for key in ["entry", "exports"] {
        if let Some(node) = get_mut(&mut draft.keys, key) {
            names.rewrite(node);
        }
    }
    worker_paths(draft, layout);
}

/// Converts `version`, which was always the project's own.
fn version(draft: &mut Draft) {
    if let Some(node) = get_mut(&mut draft.keys, "version")
        && let Data::Number(number) = &node.data
        && (!number.is_u64() || number.as_u64() != Some(1))
    {
        node.data = Data::Text(node.span.text().to_owned());
    }
}

/// Converts `sandbox.shell: [npm, python]`, the commands that may run.
fn sandbox_shell(draft: &mut Draft, findings: &mut Findings) {
    let Some(shell) = get_mut(&mut draft.keys, "sandbox").and_then(|sandbox| take(sandbox, "shell")) else {
        return;
    };
    findings.forms.insert(Form::Keys);
    let rules: Vec<Node> = shell
        .value
        .texts()
        .map(|(command, _)| made(Data::Map(vec![made_entry("pattern", made_text(command))])))
        .collect();
    if let Some(Data::Map(entries)) = map_at(&mut draft.keys, "toolsets").map(|toolsets| &mut toolsets.data)
        && !entries.iter().any(|entry| entry.key == "shell")
    {
        let rules = made_entry("rules", made(Data::List(rules)));
        entries.push(made_entry("shell", made(Data::Map(vec![rules]))));
    }
}

/// Moves the keys of a worker from a workshop's manifest to `main.worker`: a workshop is its own root worker.
fn root_worker(draft: &mut Draft, findings: &mut Findings) {
    let known = |table: &[llm_do_program::shape::Key], entry: &Entry| {
        let snake = snake_case(&entry.key);
        table.iter().any(|key| key.name == snake || key.aliases.contains(&entry.key.as_str()))
    };
    let mut part = Vec::new();
    if let Some(body) = draft.new_body.as_deref().filter(|body| !body.trim().is_empty()) {
        part.push(made_entry("instructions", made_text(body)));
    }
    let Data::Map(entries) = &mut draft.keys.data else { return };
    entries.retain(|entry| {
        let list = entry.key == "workers" && matches!(entry.value.data, Data::List(_));
        if list {
            part.push(made_entry("allow_workers", entry.value.clone()));
        } else if known(WORKER, entry) && !known(MANIFEST, entry) {
            part.push(made_entry(snake_case(&entry.key), entry.value.clone()));
        } else {
            return true;
        }
        false
    });
    if !part.is_empty() {
        findings.forms.insert(Form::Workshop);
    }
    draft.root_worker = part;
}

/// Removes the roots that are searched anyway from `worker_paths`.
fn worker_paths(draft: &mut Draft, layout: &Layout) {
    let Some(Node { data: Data::List(items), .. }) = get_mut(&mut draft.keys, "worker_paths") else { return };
    if !items.iter().any(|item| item.as_text().is_some_and(|path| path.trim_matches(['.', '/']) == "workers"))
    {
        return;
    }
    let hidden = |path: &str| path.trim_start_matches("./").trim_end_matches('/') == golem::HIDDEN_ROOT;
    if !items.iter().any(|item| item.as_text().is_some_and(hidden)) {
        return;
    }
    items.retain(|item| {
        let path = item.as_text().unwrap_or_default();
        !hidden(path) && path.trim_start_matches("./").trim_end_matches('/') != layout.workers_root
    });
    if items.is_empty() {
        take(&mut draft.keys, "worker_paths");
    }
}

/// Converts the keys of `project.json`.
fn json(draft: &mut Draft, findings: &mut Findings) {
    let old = draft.before().clone();
    let mut keys = Vec::new();
    let mut left = Vec::new();
    for entry in old.entries() {
        match entry.key.as_str() {
            // Files are found by their path.
            "version" | "agent_files" | "worker_files" => {}
            "python_files" if entry.value.texts().all(|(path, _)| is_found(path)) => {}
            "entry" => {
                for part in entry.value.entries() {
                    match part.key.as_str() {
                        "agent" | "worker" => keys.push(made_entry("entry", part.value.clone())),
                        "function" => {
                            keys.push(made_entry("entry", part.value.clone()));
                            let message = "the entry is a Python function: it takes `(input, ctx)` now";
                            findings.lost(draft, &part.value.span, message);
                        }
                        "args" | "input" if !part.value.entries().is_empty() => {
                            keys.push(made_entry("bindings", part.value.clone()));
                        }
                        "args" | "input" => {}
                        other => left.push((format!("entry.{other}"), part.clone())),
                    }
                }
            }
            "runtime" => {
                for part in entry.value.entries() {
                    let text = part.value.as_text();
                    let one = |key: &str, value: Node| made(Data::Map(vec![made_entry(key, value)]));
                    match (part.key.as_str(), text) {
                        ("max_depth", _) => {
                            keys.push(made_entry("delegation", one("max_depth", part.value.clone())));
                        }
                        ("approval_mode", Some("prompt" | "approve_all" | "reject_all")) => {
                            let mode = match text {
                                Some("approve_all") => "approve_all",
                                Some("reject_all") => "auto_deny",
                                _ => "interactive",
                            };
                            keys.push(made_entry("approval", one("mode", made_text(mode))));
                        }
                        (other, _) => left.push((format!("runtime.{other}"), part.clone())),
                    }
                }
            }
            other => left.push((other.to_owned(), entry.clone())),
        }
    }
    draft.rewrite_with(made(Data::Map(keys)));
    for (key, entry) in left {
        draft.put_aside(&key, entry.value, &entry.key_span, findings);
    }
}

/// Returns true if Python code of that path is found without being named.
fn is_found(path: &str) -> bool {
    let path = path.trim_start_matches("./");
    path == "tools.py" || path.starts_with("tools/") || path.starts_with("toolsets/")
}

/// Gives write access to the mounts of an older manifest that stated no mode and that workers write to by name (`write:
/// ["${NAME}"]`): a mount without a mode is read-only now.
pub(super) fn grant_writes(drafts: &mut [Draft], findings: &mut Findings) {
    let workers = drafts.iter().filter(|draft| draft.role == Role::Worker);
    let written: BTreeSet<String> = workers
        .flat_map(|draft| draft.keys.get("sandbox").and_then(|sandbox| sandbox.get("write")))
        .flat_map(Node::texts)
        .filter_map(|(text, _)| Some(text.strip_prefix("${")?.strip_suffix('}')?.trim().to_owned()))
        .collect();
    let older =
        |draft: &&mut Draft| draft.role == Role::Manifest && (draft.was_wrapped || draft.to != draft.path);
    let Some(draft) = drafts.iter_mut().find(older) else { return };
    let paths = get_mut(&mut draft.keys, "sandbox").and_then(|sandbox| get_mut(sandbox, "paths"));
    let Some(Node { data: Data::Map(mounts), .. }) = paths else { return };
    let mut granted = Vec::new();
    for mount in
        mounts.iter_mut().filter(|mount| written.contains(&mount.key) && mount.value.get("mode").is_none())
    {
        if let Data::Text(root) = &mount.value.data {
            mount.value = made(Data::Map(vec![made_entry("root", made_text(root.as_str()))]));
        }
        if let Data::Map(entries) = &mut mount.value.data {
            entries.push(made_entry("mode", made_text("rw")));
            granted.push((mount.key.clone(), mount.key_span.clone()));
        }
    }
    for (name, span) in granted {
        let message = format!("the mount `{name}` is `rw` now, because a worker writes to it");
        findings.info(draft, &span, message);
    }
}
