//! Attachments: files that a caller gives with a call (`docs/reference/worker-files.md`). Text, images and PDF become
//! content for the model.

use crate::{
    content::{fault, media_type},
    definition::ATTACHMENTS,
    model::{Blob, Capabilities, Part},
    outcome::{Failure, FailureKind},
};
use serde_json::Value;
use std::sync::Arc;

/// The paths in a call's `attachments`.
pub(super) fn paths(input: &Value) -> impl Iterator<Item = &str> {
    input.get(ATTACHMENTS).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The message part for a file, or the reason why the model can't receive it.
pub(super) fn part(name: &str, bytes: &[u8], can: Capabilities) -> Result<Part, Failure> {
    let refuse =
        |why: &str| Failure::new(FailureKind::InvalidInput, format!("the attachment `{name}` {why}"));
    match media_type(bytes) {
        Some("text/plain") => {
            let text = String::from_utf8_lossy(bytes);
            Ok(Part::Attachment { name: name.into(), text: text.into() })
        }
        Some(media_type) => {
            if !can.sees.reads(media_type) {
                return Err(refuse(&format!("is {media_type}, which this worker's model can't read")));
            }
            if let Some(why) = fault(bytes) {
                return Err(refuse(&format!("is {media_type} that can't be read: {why}")));
            }
            Ok(Part::Blob(Blob { name: name.into(), media_type: media_type.into(), data: Arc::from(bytes) }))
        }
        None => Err(refuse("is neither text nor an image or PDF that models read")),
    }
}
