//! The entry of the new project.

use crate::{
    Findings, Weight,
    draft::{Draft, Role},
    inventory::Inventory,
    made, made_entry, made_text, manifests,
    place::Layout,
};
use llm_do_program::yaml::{Data, Entry, Node};
use std::collections::BTreeSet;

/// The default instructions of a root worker.
const DISPATCH: &str = "\
Hand the request to the worker that fits it best, with all that it needs to know, and give back what it answers.
If none fits, say what you can do instead.

{{ input }}
";
const ABOUT: &str = "Hands a request to the worker that fits it.";

/// Ensures that there is an entry: the marked one, `main`, the only worker without a caller, or a new `main.worker`
/// that delegates requests.
pub(super) fn settle(
    drafts: &mut Vec<Draft>,
    inventory: &Inventory,
    layout: &Layout,
    findings: &mut Findings,
) {
    let at = drafts.iter().position(|draft| draft.role == Role::Manifest);
    let root_worker = at.map(|at| std::mem::take(&mut drafts[at].root_worker)).unwrap_or_default();
    let ids: Vec<(String, bool)> = drafts
        .iter()
        .filter(|draft| draft.role == Role::Worker)
        .map(|draft| {
            let located = layout.resolver().identify(&draft.to);
            let bare = located.rooted || draft.to == "main.worker";
            (if bare { located.id } else { format!("./{}", located.id) }, draft.is_entry)
        })
        .collect();
    // The manifest itself may be a workshop's sketch in main.worker.
    let makes_room = at.is_some_and(|at| drafts[at].path == "main.worker");
    let taken = inventory.is_taken("main.worker") && !makes_room;
    let has_main = ids.iter().any(|(id, _)| id == "main") || taken;
    let named = at.is_some_and(|at| drafts[at].keys.get("entry").is_some());
    if !root_worker.is_empty() {
        if has_main {
            let at = at.expect("a root worker's keys come from a manifest");
            for entry in root_worker {
                let message = format!("`{}` belongs in main.worker, which already exists", entry.key);
                findings.lost(&drafts[at], &entry.value.span, message);
                drafts[at].leave_over(&entry.key, entry.value);
            }
        } else {
            drafts.push(root(root_worker));
            findings.note(Weight::Info, Some("main.worker"), None, "is new: it is the workshop's own worker");
            return;
        }
    }
    // A library has no entry, and what is canonical is complete.
    if findings.forms.is_empty() || inventory.has("lib.yaml") {
        return;
    }
    let marked: Vec<&String> = ids.iter().filter(|(_, entry)| *entry).map(|(id, _)| id).collect();
    let only = match (marked.as_slice(), ids.as_slice()) {
        _ if named => return,
        ([one], _) => Some((*one).clone()),
        _ if has_main => return,
        (_, []) => return,
        (_, [(one, _)]) => Some(one.clone()),
        _ => only_root(drafts, &ids),
    };
    match only {
        Some(id) if id == "main" => {}
        Some(id) => {
            let entry = made_entry("entry", made_text(id));
            match at {
                Some(at) => {
                    if let Some(entries) = crate::entries_mut(&mut drafts[at].keys) {
                        entries.push(entry);
                    }
                }
                None if inventory.is_taken(manifests::NEW) => {
                    let message =
                        format!("there is a {} that can't be used: name the entry in it", manifests::NEW);
                    findings.note(Weight::Lost, None, None, message);
                }
                None => drafts.push(Draft::new(manifests::NEW, Role::Manifest, vec![entry], None)),
            }
        }
        None => {
            let callees = ids.iter().map(|(id, _)| made_text(id)).collect();
            let entries = vec![
                made_entry("description", made_text(ABOUT)),
                made_entry("allow_workers", made(Data::List(callees))),
            ];
            drafts.push(Draft::new("main.worker", Role::Worker, entries, Some(DISPATCH.into())));
            let message = "is new: a project needs an entry, and this one hands requests on; `--entry NAME` starts another";
            findings.note(Weight::Info, Some("main.worker"), None, message);
        }
    }
}

/// Creates the workshop's own worker.
fn root(mut entries: Vec<Entry>) -> Draft {
    let at = entries.iter().position(|entry| entry.key == "instructions");
    let body = at.and_then(|at| entries.remove(at).value.as_text().map(str::to_owned));
    if body.is_none() && !entries.iter().any(|entry| entry.key == "description") {
        entries.insert(0, made_entry("description", made_text(ABOUT)));
    }
    Draft::new("main.worker", Role::Worker, entries, Some(body.unwrap_or_else(|| DISPATCH.into())))
}

/// Returns the only worker that no other worker calls, if there is exactly one and it calls others.
fn only_root(drafts: &[Draft], ids: &[(String, bool)]) -> Option<String> {
    let callees = |draft: &Draft| -> Vec<String> {
        let lists = [
            draft.keys.get("allow_workers"),
            draft.keys.get("toolsets").and_then(|t| t.get("workers")?.get("allowed_workers")),
        ];
        lists.into_iter().flatten().flat_map(Node::texts).map(|(text, _)| text.to_owned()).collect()
    };
    let called: BTreeSet<String> = drafts.iter().flat_map(callees).collect();
    let mut roots = ids.iter().map(|(id, _)| id).filter(|id| !called.contains(*id));
    match (roots.next(), roots.next()) {
        (Some(one), None) => Some(one.clone()),
        _ => None,
    }
}
