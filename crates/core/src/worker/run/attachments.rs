//! Attachments: files that a caller gives with a call (`docs/reference/worker-files.md`). Text, images and PDF become
//! content for the model.

use crate::{
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

/// Media type of an attachment by its first bytes; UTF-8 text is `text/plain`; `None` is anything else.
pub fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        [b'%', b'P', b'D', b'F', b'-', ..] => Some("application/pdf"),
        bytes if !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok() => Some("text/plain"),
        _ => None,
    }
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
            Ok(Part::Blob(Blob { name: name.into(), media_type: media_type.into(), data: Arc::from(bytes) }))
        }
        None => Err(refuse("is neither text nor an image or PDF that models read")),
    }
}
