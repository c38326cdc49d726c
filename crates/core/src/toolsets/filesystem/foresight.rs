//! Predicts the changes of a file tool, so that an interrupted run can check whether they happened
//! (`docs/reference/journal.md`).

use super::{
    Tool, argument,
    change::{self, edited},
    content::Content,
    hint::place,
    read::whole,
};
use crate::{
    authority::Located,
    foreseen::{FileChange, FileState, Foreseen, HASHED},
    function::LeafCall,
    question::Answer,
};
use serde_json::Value;
use std::sync::Arc;

/// The predicted changes of the call; `None` if it will fail anyway or they can't be predicted.
pub(super) async fn foresee(tool: Tool, call: LeafCall<'_>) -> Option<Foreseen> {
    let first = place(&call, 0).ok()?;
    let before = FileState::at(call.files, first).await?;
    let content = argument(call.input, "content");
    let (changes, result) = match tool {
        Tool::Write => {
            let after = FileState::of(content.as_bytes());
            (vec![change(first, before, after)], change::written(first, content))
        }
        Tool::Append => {
            let content = &*change::addition(&call, first).await;
            let after = match &before {
                FileState::Absent => FileState::of(content.as_bytes()),
                FileState::File(_) => {
                    let (mut bytes, _) = call.files.read(first, 0, HASHED).await.ok()?;
                    bytes.extend_from_slice(content.as_bytes());
                    FileState::of(&bytes)
                }
                FileState::Folder => return None,
            };
            (vec![change(first, before, after)], change::added(first, content))
        }
        Tool::Edit => {
            let Ok(Content::Text(text)) = whole(&call, first).await else { return None };
            let edited = edited(&call, &text).ok()?;
            (
                vec![change(first, before, FileState::of(edited.text.as_bytes()))],
                change::replaced(first, edited.line),
            )
        }
        Tool::Delete => (vec![change(first, before, FileState::Absent)], change::deleted(first)),
        Tool::Move => {
            let to = place(&call, 1).ok()?;
            let there = FileState::at(call.files, to).await?;
            let changes = vec![change(first, before.clone(), FileState::Absent), change(to, there, before)];
            (changes, change::moved(first, to))
        }
        Tool::Copy => {
            let to = place(&call, 1).ok()?;
            let there = FileState::at(call.files, to).await?;
            (vec![change(to, there, before)], change::copied(first, to))
        }
        Tool::Read | Tool::List | Tool::Search | Tool::Info | Tool::Exists => return None,
    };
    Some(Foreseen { changes, result: result.into() })
}

/// Compares the files with the prediction: they are in the state before the call, or after it; `None` if they are in
/// neither.
pub(super) async fn look_back(call: LeafCall<'_>, foreseen: &Foreseen) -> Option<Answer> {
    let (mut undone, mut done) = (true, true);
    for change in &foreseen.changes {
        let at = call.places.iter().find(|at| at.path.as_str() == &*change.path)?;
        let now = FileState::at(call.files, at).await?;
        undone &= now == change.before;
        done &= now == change.after;
    }
    match (done, undone) {
        // If both match, the call changes nothing.
        (true, _) => Some(Answer::Done { result: Arc::new(Value::String(foreseen.result.to_string())) }),
        (false, true) => Some(Answer::Again),
        (false, false) => None,
    }
}

fn change(at: &Located, before: FileState, after: FileState) -> FileChange {
    FileChange { path: at.path.as_str().into(), before, after }
}
