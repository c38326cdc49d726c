//! Hints about what to try next: the second half of every error for a model.

use super::list::Rows;
use crate::{
    authority::{Access, Located, Refusal, VirtualPath},
    function::{LeafCall, ToolError},
    vfs::{EntryKind, FsError},
};

/// Maximum number of names compared with the missing one.
const LOOKED_AT: usize = 500;

/// A failed file operation in the form that the model sees.
pub(super) async fn explain(call: &LeafCall<'_>, error: FsError) -> ToolError {
    let next = match &error {
        FsError::NotFound(path) => match nearest(call, path).await {
            Some(near) => format!("Did you mean `{near}`?"),
            None => "Use list_files to see what there is.".into(),
        },
        FsError::WrongKind { is: "a folder", .. } => "Use list_files for what is in it.".into(),
        FsError::WrongKind { .. } => "Use another path.".into(),
        FsError::Exists(_) => "Choose another name, or delete what is there first.".into(),
        FsError::TooLarge { .. } => "Work with smaller parts.".into(),
        FsError::NotEmpty(_) => "Delete what it holds first.".into(),
        FsError::Refused(Refusal::ReadOnly { .. }) => "Write to another path.".into(),
        FsError::Refused(_) | FsError::Io { .. } => String::new(),
    };
    let message = error.to_string();
    let message = message.trim_end();
    if next.is_empty() {
        return ToolError::new(message);
    }
    let stop = if message.ends_with(['.', '!', '?']) { "" } else { "." };
    ToolError::new(format!("{message}{stop} {next}"))
}

/// The path of an existing file most like a missing one: one of the same name elsewhere, or one that differs by a
/// typo.
async fn nearest(call: &LeafCall<'_>, missing: &VirtualPath) -> Option<VirtualPath> {
    let parent = missing.as_str().rsplit_once('/').map_or("/", |(parent, _)| parent);
    let mut best: Option<(f64, VirtualPath)> = None;
    // Starts at the expected folder, or at the top if that folder is missing too.
    for folder in [parent, "/"] {
        let trees = call.authority.locate_tree(folder).unwrap_or_default();
        let rows = Rows::of(call, &trees).await;
        // An error about a file of the program does not repeat names that others chose: it would be trusted.
        let may_name = |path: &VirtualPath| rows.is_untrusted(missing) || !rows.is_untrusted(path);
        for tree in trees.iter().filter(|tree| is_free(tree)) {
            let found = call.files.walk(tree, LOOKED_AT).await.unwrap_or_default();
            for entry in found.into_iter().filter(|entry| may_name(&entry.path)) {
                let likeness = if entry.path.name().eq_ignore_ascii_case(missing.name()) {
                    0.95
                } else {
                    strsim::jaro_winkler(entry.path.name(), missing.name())
                };
                if entry.kind != EntryKind::Other && likeness > best.as_ref().map_or(0.88, |(best, _)| *best)
                {
                    best = Some((likeness, entry.path));
                }
            }
        }
        if best.is_some() || folder == "/" {
            break;
        }
    }
    best.map(|(_, path)| path)
}

/// Returns true if a place may be read without asking. A hint must not reveal files that were not approved.
pub(super) fn is_free(at: &Located) -> bool {
    at.mount.approvals.read.is_none_or(|rule| rule == crate::rule::Rule::PreApproved)
}

/// The place of a path found by a search, within the subtree being read.
pub(super) fn found(call: &LeafCall<'_>, path: &VirtualPath) -> Result<Located, ToolError> {
    call.authority.locate(path.as_str(), Access::Read).map_err(|refusal| ToolError::new(refusal.to_string()))
}

/// The located place of the touch with that index. The engine locates every touch before it runs a leaf.
pub(super) fn place<'a>(call: &LeafCall<'a>, index: usize) -> Result<&'a Located, ToolError> {
    call.places.get(index).ok_or_else(|| ToolError::new("the path was not located; say the path again"))
}
