//! Old and new names of workers.

use crate::{
    Findings,
    draft::{Draft, Role},
    place::Layout,
};
use llm_do_program::{
    source::plain,
    yaml::{Data, Node},
};
use std::collections::BTreeMap;

/// Old names of workers and their new references.
#[derive(Debug)]
pub(super) struct Names {
    by_old: BTreeMap<String, New>,
    layout: llm_do_program::resolve::Layout,
}

/// The new name of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
struct New {
    /// The ID of the worker, or `./path` outside the workers roots.
    reference: String,
    /// True if the file has a new path.
    moved: bool,
    /// True if the old name was not the ID.
    renamed: bool,
}

impl Names {
    pub(super) fn of(drafts: &[Draft], layout: &Layout) -> Self {
        let mut names = Self { by_old: BTreeMap::new(), layout: layout.resolver() };
        let workers: Vec<&Draft> = drafts.iter().filter(|draft| draft.role == Role::Worker).collect();
        let new = |draft: &Draft, renamed: bool| New {
            reference: names.layout_reference(&draft.to),
            moved: draft.to != draft.path,
            renamed,
        };
        let mut by_old = BTreeMap::new();
        for draft in &workers {
            by_old.insert(layout.old_id(&draft.path), new(draft, false));
            by_old.insert(draft.path.clone(), new(draft, false));
            let stem = crate::draft::with_extension(&draft.path);
            by_old.insert(stem.trim_end_matches(".worker").to_owned(), new(draft, false));
        }
        // A name that two claim, or that is another's ID, says nothing.
        let mut claims: BTreeMap<&str, Vec<&Draft>> = BTreeMap::new();
        for draft in &workers {
            if let Some(name) = draft.keys.get("name").and_then(Node::as_text) {
                claims.entry(name).or_default().push(draft);
            }
        }
        for (name, claimants) in claims {
            if let [one] = claimants.as_slice() {
                by_old.entry(name.to_owned()).or_insert_with(|| new(one, true));
            }
        }
        names.by_old = by_old;
        names
    }

    fn layout_reference(&self, to: &str) -> String {
        let located = self.layout.identify(to);
        if located.rooted || to == "main.worker" { located.id } else { format!("./{}", located.id) }
    }

    /// Returns the ID of a worker's new file, if it has to be its `name`.
    pub(super) fn id(&self, to: &str) -> Option<String> {
        let located = self.layout.identify(to);
        located.rooted.then_some(located.id)
    }

    /// Returns the reference of the worker with a bare name.
    pub(super) fn worker(&self, name: &str) -> Option<String> {
        self.by_old.get(name).map(|new| new.reference.clone())
    }

    /// Returns the new reference, if it changes.
    pub(super) fn rewritten(&self, reference: &str) -> Option<String> {
        let path = plain(reference).ok()?;
        let new = self.by_old.get(&path)?;
        let same = reference == new.reference || (!new.moved && !new.renamed);
        (!same).then(|| new.reference.clone())
    }

    /// Rewrites a reference, or a list of them.
    pub(super) fn rewrite(&self, node: &mut Node) {
        match &mut node.data {
            Data::Text(text) => {
                if let Some(new) = self.rewritten(text) {
                    *text = new;
                }
            }
            Data::List(items) => items.iter_mut().for_each(|item| self.rewrite(item)),
            _ => {}
        }
    }

    /// Makes `name` equal to the ID, under a workers root.
    pub(super) fn settle_name(&self, draft: &mut Draft, findings: &mut Findings) {
        let Some(id) = self.id(&draft.to) else { return };
        let Some(entry) = draft.keys.entry("name").cloned() else { return };
        let Some(name) = entry.value.as_text().map(str::to_owned).filter(|name| *name != id) else { return };
        findings.info(draft, &entry.value.span, format!("`{name}` is now named `{id}`, after its file"));
        if let Some(value) = crate::get_mut(&mut draft.keys, "name") {
            value.data = Data::Text(id);
        }
    }
}
