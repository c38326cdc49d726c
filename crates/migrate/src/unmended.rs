//! Notes about parts that a migration leaves unchanged although they no longer work.

use crate::{
    Findings, Scope, Weight,
    draft::{Draft, Role},
    inventory::Inventory,
};
use llm_do_program::{
    keys::{MANIFEST, WORKER},
    resolve::is_glob,
    shape,
    yaml::Node,
};

/// Tools that only some workers have now.
const CALLS: [&str; 2] = ["worker_call", "worker_create"];
/// Extensions of scripts that Node does not run as modules with types.
const SCRIPTS: [&str; 2] = ["tsx", "cjs"];

/// Adds notes about the parts that the user has to change by hand.
pub(super) fn tell(drafts: &[Draft], inventory: &Inventory, scope: &Scope, findings: &mut Findings) {
    // Nothing is told about files that are canonical already.
    if findings.forms.is_empty() {
        return;
    }
    let manifest = drafts.iter().find(|draft| draft.role == Role::Manifest);
    let wanted = |draft: &&Draft| match scope {
        Scope::Folder => true,
        Scope::File(path) => draft.path == *path,
    };
    for draft in drafts.iter().filter(wanted) {
        refused_keys(draft, findings);
        if draft.role == Role::Worker {
            prompt(draft, manifest, findings);
        }
    }
    if *scope == Scope::Folder {
        for path in inventory.files.iter().filter(|path| is_script(path)) {
            let message = "is no module of tools here: make it a `.ts` or `.mjs` file";
            findings.note(Weight::Lost, Some(path), None, message);
        }
    }
}

/// Adds notes about keys that loading still refuses.
fn refused_keys(draft: &Draft, findings: &mut Findings) {
    let table = match draft.role {
        Role::Worker => WORKER,
        Role::Manifest => MANIFEST,
    };
    let mut found = Vec::new();
    shape::check(&draft.keys, table, "", &mut found);
    for refused in found.iter().filter(|finding| finding.is_error()) {
        let line = refused
            .span
            .as_ref()
            .filter(|span| **span.file().path() == *draft.path)
            .and_then(|span| draft.line(span));
        let message = format!("still does not load: {}", refused.message);
        findings.note(Weight::Lost, Some(&draft.path), line, message);
    }
}

/// Adds notes about a prompt that teaches the model a tool that the worker does not have.
fn prompt(draft: &Draft, manifest: Option<&Draft>, findings: &mut Findings) {
    let Some(body) = &draft.new_body else { return };
    let delegation = |draft: &Draft| draft.keys.get("toolsets").and_then(|t| t.get("workers")).cloned();
    let layers = [delegation(draft), manifest.and_then(delegation)];
    let lists = [draft.keys.get("allow_workers").cloned()]
        .into_iter()
        .chain(layers.iter().map(|layer| layer.as_ref().and_then(|l| l.get("allowed_workers")).cloned()));
    let set = |key: &str| layers.iter().flatten().find_map(|layer| layer.get(key));
    let dynamic = set("dynamic").and_then(Node::as_flag) == Some(true);
    let by_style = set("style").and_then(Node::as_text).is_some_and(|style| style != "tools");
    let by_glob = lists.flatten().any(|list| list.texts().any(|(name, _)| is_glob(name)));
    let missing = CALLS.into_iter().filter(|tool| match *tool {
        "worker_call" => !(by_style || by_glob || dynamic),
        _ => !dynamic,
    });
    for tool in missing.filter(|tool| names(body, tool)) {
        let way_out = match tool {
            "worker_call" => {
                "each callee is a tool under its own name: change the prompt, or set `style: both` under `toolsets.workers`"
            }
            _ => "change the prompt, or set `dynamic: true` under `toolsets.workers`",
        };
        let message =
            format!("the prompt mentions `{tool}`, a tool that the worker does not have: {way_out}");
        findings.note(Weight::Lost, Some(&draft.path), None, message);
    }
}

/// Returns true if a text has a word.
fn names(text: &str, word: &str) -> bool {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|part| part == word)
}

/// Returns true if a file is at a place of tools, and Node does not run its kind as a module.
fn is_script(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    let of_tools = stem == "tools" || folder.split('/').any(|part| part == "tools" || part == "toolsets");
    of_tools && SCRIPTS.contains(&extension)
}
