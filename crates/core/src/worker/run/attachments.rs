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
        None => Err(refuse(&unreadable(bytes))),
    }
}

/// The reason why models can't read a file, as the end of a sentence.
fn unreadable(bytes: &[u8]) -> String {
    let convert =
        |encoding: &str| format!("convert it to UTF-8, for example with `iconv -f {encoding} -t UTF-8`");
    let is_binary = |byte: &u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => format!("is text in UTF-16; {}", convert("UTF-16")),
        bytes if bytes.iter().any(is_binary) => {
            "is neither text nor an image or PDF that models read".to_owned()
        }
        bytes => {
            let valid = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), str::len);
            let line = bytes[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
            format!("is text in another encoding than UTF-8 (line {line}); {}", convert("LATIN1"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_another_encoding_says_what_to_do() {
        for (bytes, says) in [
            (&b"one\nGr\xfc\xdfe\n"[..], "another encoding than UTF-8 (line 2); convert it"),
            (b"\xff\xfeG\0r\0", "`iconv -f UTF-16 -t UTF-8`"),
            (b"PK\x03\x04\0\xff", "is neither text nor an image"),
        ] {
            assert!(unreadable(bytes).contains(says), "{}", unreadable(bytes));
        }
    }
}
