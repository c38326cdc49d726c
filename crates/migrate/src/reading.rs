//! Reads the definitions of a tree, and decides which files are workers or manifests, whatever their form.

use crate::{
    Findings, Weight, agents,
    draft::{Draft, Role, is_yaml},
    golem,
    inventory::Inventory,
    manifests, prompts, registry, wrapper,
};
use llm_do_program::{manifest_names, resolve::is_cases, source::SourceTree};

/// Reads all definitions of a tree, old and new.
pub(super) fn read_all(tree: &dyn SourceTree, inventory: &Inventory, findings: &mut Findings) -> Vec<Draft> {
    let mut drafts = Vec::new();
    if let Some(manifest) = manifests::find(tree, inventory, findings) {
        drafts.push(manifest);
    }
    let flat = registry::is_flat(inventory);
    for path in &inventory.files {
        let sure = path.ends_with(".worker") || path.ends_with(agents::EXTENSION);
        let perhaps = !sure
            && is_yaml(path)
            && !is_cases(path)
            && (golem::is_rooted(path) || !path.contains('/') || is_folder_form(path, flat));
        if !(sure || perhaps)
            || manifest_names::is_named_so(path)
            || drafts.first().is_some_and(|first: &Draft| first.path == *path)
        {
            continue;
        }
        let mut quiet = Findings::default();
        let Some(mut draft) = wrapper::read(tree, path, if sure { &mut *findings } else { &mut quiet })
        else {
            if golem::is_rooted(path) {
                findings.notes.append(&mut quiet.notes);
            }
            continue;
        };
        if draft.role == Role::Manifest {
            // A workshop's sketch under another name.
            match drafts.first().map(|first| first.role) {
                Some(Role::Manifest) => findings.note(
                    Weight::Lost,
                    Some(path),
                    None,
                    "is a second manifest, and is left as it is",
                ),
                _ => {
                    manifests::NEW.clone_into(&mut draft.to);
                    drafts.insert(0, draft);
                }
            }
        } else if sure || prompts::is_worker(&draft, inventory, flat) {
            drafts.push(draft);
        }
        findings.forms.append(&mut quiet.forms);
    }
    drafts
}

/// Returns true for `NAME/worker.yaml` in a registry.
fn is_folder_form(path: &str, flat: bool) -> bool {
    flat && (path.ends_with("/worker.yaml") || path.ends_with("/worker.yml"))
}
