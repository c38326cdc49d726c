//! What a change of files will have done: so that a run which was cut off in the middle can tell (SPEC §12).

use super::{
    Tool, argument,
    change::{self, edited},
    content::Content,
    hint::place,
    read::whole,
};
use crate::{
    authority::Located,
    driver::CutOff,
    function::{FileChange, FileState, Foreseen, LeafCall},
    journal::{Ending, RecordKind},
    schema::sha256,
    vfs::EntryKind,
};
use serde_json::Value;
use std::sync::Arc;

/// Larger files are not hashed: the operator is asked instead, in the rare case.
const HASHED: u64 = 4 * 1024 * 1024;

/// What the call will have changed; `None` where it will fail anyway, or where that can't be told.
pub(super) async fn foresee(tool: Tool, call: LeafCall<'_>) -> Option<Foreseen> {
    let first = place(&call, 0).ok()?;
    let before = state(&call, first).await?;
    let content = argument(call.input, "content");
    let (changes, result) = match tool {
        Tool::Write => {
            let after = hash(content.as_bytes());
            (vec![change(first, before, after)], change::written(first, content))
        }
        Tool::Append => {
            let after = match &before {
                FileState::Absent => hash(content.as_bytes()),
                FileState::File(_) => {
                    let (mut bytes, _) = call.files.read(first, 0, HASHED).await.ok()?;
                    bytes.extend_from_slice(content.as_bytes());
                    hash(&bytes)
                }
                FileState::Folder => return None,
            };
            (vec![change(first, before, after)], change::added(first, content))
        }
        Tool::Edit => {
            let Ok(Content::Text(text)) = whole(&call, first).await else { return None };
            let edited = edited(&call, &text).ok()?;
            (vec![change(first, before, hash(edited.text.as_bytes()))], change::replaced(first, edited.line))
        }
        Tool::Delete => (vec![change(first, before, FileState::Absent)], change::deleted(first)),
        Tool::Move => {
            let to = place(&call, 1).ok()?;
            let there = state(&call, to).await?;
            let changes = vec![change(first, before.clone(), FileState::Absent), change(to, there, before)];
            (changes, change::moved(first, to))
        }
        Tool::Copy => {
            let to = place(&call, 1).ok()?;
            let there = state(&call, to).await?;
            (vec![change(to, there, before)], change::copied(first, to))
        }
        Tool::Read | Tool::List | Tool::Search | Tool::Info | Tool::Exists => return None,
    };
    Some(Foreseen { changes, result: result.into() })
}

/// Whether the files are as they were, or as they were to be.
pub(super) async fn look_back(call: LeafCall<'_>, foreseen: &Foreseen) -> CutOff {
    let (mut undone, mut done) = (true, true);
    for change in &foreseen.changes {
        let at = call.places.iter().find(|at| at.path.as_str() == &*change.path);
        let Some(at) = at else { return CutOff::Unknown };
        let Some(now) = state(&call, at).await else { return CutOff::Unknown };
        undone &= now == change.before;
        done &= now == change.after;
    }
    match (done, undone) {
        // Where both are so, nothing was to change.
        (true, _) => CutOff::Done(RecordKind::ToolEnded {
            ending: Ending::Output(Arc::new(Value::String(foreseen.result.to_string()))),
            blobs: Vec::new(),
            log: None,
        }),
        (false, true) => CutOff::Undone,
        (false, false) => CutOff::Unknown,
    }
}

fn change(at: &Located, before: FileState, after: FileState) -> FileChange {
    FileChange { path: at.path.as_str().into(), before, after }
}

fn hash(bytes: &[u8]) -> FileState {
    FileState::File(sha256(bytes).into())
}

async fn state(call: &LeafCall<'_>, at: &Located) -> Option<FileState> {
    match call.files.stat(at).await.ok()? {
        None => Some(FileState::Absent),
        Some(entry) => match entry.kind {
            EntryKind::Directory => Some(FileState::Folder),
            EntryKind::File if entry.size <= HASHED => {
                let (bytes, size) = call.files.read(at, 0, HASHED).await.ok()?;
                (size <= HASHED).then(|| hash(&bytes))
            }
            EntryKind::File | EntryKind::Other => None,
        },
    }
}
