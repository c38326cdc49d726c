//! Listing folders.

use super::{argument_or, hint::explain};
use crate::{
    authority::{Access, Located, Place, VirtualPath},
    function::{LeafCall, ToolError, ToolOutput},
    origin::Origins,
    vfs::{Entry, EntryKind, FsError},
};
use globset::GlobBuilder;
use std::fmt::Write;

/// Maximum number of entries shown.
const SHOWN: usize = 1000;
/// Maximum number of entries visited, which limits memory and time for a huge folder.
pub(super) const LOOKED_AT: usize = 20_000;

/// The tree below a path.
pub(super) struct Tree {
    /// The entries, mount by mount.
    pub(super) entries: Vec<Entry>,
    /// True if there are more entries.
    pub(super) cut: bool,
    /// Mounts that a toolset serves and can't list now, with the reason. Each reason may contain words of others.
    pub(super) missing: Vec<String>,
}

impl Tree {
    /// Adds a line for each mount that can't be listed. `untrusted` gets the numbers of these lines.
    pub(super) fn add_missing(&self, text: &mut String, untrusted: &mut Vec<u32>) {
        for missing in &self.missing {
            untrusted.push(u32::try_from(text.lines().count() + 1).unwrap_or(u32::MAX));
            // Writing to a String can't fail.
            let _ = writeln!(text, "{missing}");
        }
    }
}

/// Walks the located subtrees of a call. A version control folder is left out unless `named` says that the call names
/// it, because its thousands of objects would hide the files.
pub(super) async fn walk(call: &LeafCall<'_>, path: &VirtualPath, named: &str) -> Result<Tree, ToolError> {
    let mut tree = Tree { entries: Vec::new(), cut: false, missing: Vec::new() };
    let with_git = path.as_str().contains("/.git") || named.contains(".git");
    for at in call.places {
        if at.path == *path {
            refuse_missing(call, at).await?;
        } else {
            tree.entries.extend(mount_point(call, at).await);
        }
        let found = match call.files.walk(at, LOOKED_AT).await {
            Ok(found) => found,
            // A server that does not answer takes no files down, unless the call is about it.
            Err(error) if at.path != *path && at.place().server().is_some() => {
                let reason: String = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
                tree.missing.push(format!("[{} can't be listed: {reason}]", at.path));
                continue;
            }
            Err(error) => return Err(explain(call, error).await),
        };
        tree.cut |= found.len() >= LOOKED_AT;
        tree.entries.extend(found.into_iter().filter(|entry| with_git || !in_git(&entry.path)));
    }
    Ok(tree)
}

fn in_git(path: &VirtualPath) -> bool {
    path.as_str().split('/').any(|part| part == ".git")
}

/// A mount's own folder may be missing and then counts as empty (`docs/reference/sandbox.md`). Any other missing path
/// is an error with a hint.
async fn refuse_missing(call: &LeafCall<'_>, at: &Located) -> Result<(), ToolError> {
    if at.path == at.mount.at || at.rest.is_empty() {
        return Ok(());
    }
    match call.files.stat(at).await {
        Ok(None) => Err(explain(call, FsError::NotFound(at.path.clone())).await),
        Ok(Some(_)) => Ok(()),
        Err(error) => Err(explain(call, error).await),
    }
}

/// The root of a subtree below the listed folder, as an entry. A mount of a single file lists that file.
async fn mount_point(call: &LeafCall<'_>, at: &Located) -> Option<Entry> {
    match call.files.stat(at).await {
        Ok(Some(entry)) if entry.kind != EntryKind::Directory => None,
        _ => Some(Entry {
            path: at.path.clone(),
            kind: EntryKind::Directory,
            size: Some(0),
            modified_ms: None,
        }),
    }
}

pub(super) async fn list(call: &LeafCall<'_>) -> Result<ToolOutput, ToolError> {
    let path = VirtualPath::parse(argument_or(call.input, "path", "."))
        .map_err(|refusal| ToolError::new(refusal.to_string()))?;
    let pattern = argument_or(call.input, "pattern", "**/*");
    let glob = GlobBuilder::new(pattern.strip_prefix("./").unwrap_or(pattern).trim_start_matches('/'))
        .literal_separator(true)
        .build()
        .map_err(|error| {
            ToolError::new(format!(
                "`{pattern}` is not a glob: {}. Write for example `**/*.md`, `src/*` or `*.{{txt,md}}`.",
                error.kind()
            ))
        })?
        .compile_matcher();
    let tree = walk(call, &path, pattern).await?;
    let matching: Vec<&Entry> = tree
        .entries
        .iter()
        .filter(|entry| match entry.path.rest(&path) {
            Some("") => glob.is_match(entry.path.name()),
            Some(rest) => glob.is_match(rest),
            None => false,
        })
        .collect();
    let mut text = String::new();
    let rows = Rows::of(call, call.places).await;
    let mut untrusted = Vec::new();
    for (row, entry) in (1..).zip(matching.iter().take(SHOWN)) {
        if rows.is_untrusted(&entry.path) {
            untrusted.push(row);
        }
        // Writing to a String can't fail.
        let _ = match entry.kind {
            EntryKind::File => match entry.size {
                Some(size) => writeln!(text, "{}  ({size} bytes)", entry.path),
                None => writeln!(text, "{}", entry.path),
            },
            EntryKind::Directory => writeln!(text, "{}/", entry.path),
            EntryKind::Other => writeln!(text, "{}  (a link or special file)", entry.path),
        };
    }
    if matching.len() > SHOWN {
        let left = matching.len() - SHOWN;
        let _ = writeln!(text, "[{left} more are not shown. Give a narrower `path` or `pattern`.]");
    }
    if tree.cut {
        let _ =
            writeln!(text, "[Only the first {LOOKED_AT} entries were looked at. Give a narrower `path`.]");
    }
    tree.add_missing(&mut text, &mut untrusted);
    if text.is_empty() {
        text = match tree.entries.is_empty() {
            true => format!("`{path}` is empty."),
            false => format!("Nothing in `{path}` matches `{pattern}`; `**/*` lists everything."),
        };
    }
    Ok(ToolOutput { origins: Some(Origins::lines(untrusted)), ..ToolOutput::text(text.trim_end()) })
}

/// The origins of the rows of a listing or search: each row has the origin of the file that it names.
pub(super) struct Rows<'a> {
    call: &'a LeafCall<'a>,
    /// The listed trees, each with its real place after links are followed.
    trees: Vec<(VirtualPath, Place)>,
    /// True if any row can be untrusted.
    any: bool,
}

impl<'a> Rows<'a> {
    /// The rows of a listing of these trees.
    pub(super) async fn of(call: &'a LeafCall<'a>, listed: &[Located]) -> Self {
        let mut trees = Vec::with_capacity(listed.len());
        for tree in listed {
            trees.push((tree.path.clone(), real(call, tree).await));
        }
        let touches = |tree: &Located| call.untrusted.touch(&tree.place());
        let any = call.authority.sees_untrusted()
            || listed.iter().any(touches)
            || trees.iter().any(|(_, real)| call.untrusted.touch(real));
        Self { call, trees, any }
    }

    /// Returns true if others named the file at that path, or a folder that it is in. The program itself names the root
    /// of a mount.
    pub(super) fn is_untrusted(&self, path: &VirtualPath) -> bool {
        if !self.any {
            return false;
        }
        match self.call.authority.locate(path.as_str(), Access::Read) {
            Ok(at) if at.path == at.mount.at => false,
            Ok(at) => {
                let around = self.trees.iter().filter_map(|(tree, real)| Some((path.rest(tree)?, real)));
                let innermost = around.min_by_key(|(rest, _)| rest.len());
                self.are_of_others(&at, &at.place())
                    || innermost.is_some_and(|(rest, real)| self.are_of_others(&at, &real.join(rest)))
            }
            Err(_) => true,
        }
    }

    /// Returns true if others wrote the content of the file at that path: it may be a link to an untrusted file.
    pub(super) async fn has_untrusted_content(&self, file: &Located) -> bool {
        self.any && (self.is_untrusted(&file.path) || self.are_of_others(file, &real(self.call, file).await))
    }

    fn are_of_others(&self, at: &Located, place: &Place) -> bool {
        at.is_untrusted(place) || self.call.untrusted.hold(place)
    }
}

/// The real place of a path after links are followed.
async fn real(call: &LeafCall<'_>, at: &Located) -> Place {
    call.files.real(at, true).await.map_or_else(|_| at.place(), |rest| at.base.join(&rest))
}
