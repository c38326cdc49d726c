//! The content of files that models read: its media type, and whether it is whole.
//!
//! Tools and servers label content, and the labels are sometimes wrong. Providers refuse a request with an invalid
//! image, and with it the rest of the conversation, so labels are ignored here.

use crate::model::Blob;
use std::sync::Arc;

/// Number of characters that are quoted of a text with a wrong label.
const QUOTED: usize = 200;

/// The form in which a model can be sent a file.
#[derive(Debug, PartialEq)]
pub(crate) enum Readable {
    /// The file has this media type.
    As(Arc<str>),
    /// The file can't be sent, for this reason.
    Not(String),
}

/// Media type of a file by its first bytes; UTF-8 text is `text/plain`; `None` for anything else.
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

/// The reason why a file that begins like an image is not valid: it is cut off, or empty.
pub fn fault(bytes: &[u8]) -> Option<&'static str> {
    let is_whole = match media_type(bytes)? {
        "image/png" => is_png(bytes),
        "image/jpeg" => is_jpeg(bytes),
        "image/gif" => bytes.len() > 13 && bytes[6..10] != [0; 4],
        "image/webp" => {
            let size = bytes.get(4..8).and_then(|size| size.try_into().ok()).map_or(0, u32::from_le_bytes);
            size > 12 && bytes.len() as u64 >= u64::from(size) + 8
        }
        _ => true,
    };
    (!is_whole).then_some("it is cut off or damaged")
}

/// A signature, a header with a size, data, and an end.
fn is_png(bytes: &[u8]) -> bool {
    let mut rest = match bytes.strip_prefix(b"\x89PNG\r\n\x1a\n") {
        Some(rest) => rest,
        None => return false,
    };
    let (mut has_size, mut has_data) = (false, false);
    while let Some((head, body)) = rest.split_at_checked(8) {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some((data, after)) = body.split_at_checked(length) else { return false };
        match &head[4..8] {
            b"IHDR" => has_size = length == 13 && data[..4] != [0; 4] && data[4..8] != [0; 4],
            b"IDAT" => has_data |= length > 0,
            b"IEND" => return has_size && has_data,
            _ => {}
        }
        let Some((_, after)) = after.split_at_checked(4) else { return false };
        rest = after;
    }
    false
}

/// A frame with a size, and data after it.
fn is_jpeg(bytes: &[u8]) -> bool {
    let mut at = 2;
    let mut has_size = false;
    while let Some([0xff, marker]) = bytes.get(at..at + 2) {
        match marker {
            // Fill bytes, and markers without a length.
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            0xda => return has_size && bytes.len() > at + 4,
            marker => {
                let Some(&[high, low]) = bytes.get(at + 2..at + 4) else { return false };
                if matches!(marker, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf) {
                    has_size = bytes.get(at + 7..at + 9).is_some_and(|width| width != [0, 0]);
                }
                at += 2 + usize::from(u16::from_be_bytes([high, low])).max(2);
            }
        }
    }
    false
}

/// Returns the form in which a file of a tool can be sent.
pub(crate) fn readable(blob: &Blob) -> Readable {
    let Blob { media_type: label, data, .. } = blob;
    let is_labelled = label.starts_with("image/") || &**label == "application/pdf";
    match media_type(data) {
        _ if data.is_empty() => Readable::Not(format!("labelled {label}, and empty: it has no bytes")),
        Some(kind) if kind != "text/plain" => match fault(data) {
            Some(why) => Readable::Not(format!("{kind} that can't be read: {why}")),
            None => Readable::As(kind.into()),
        },
        Some(_) if is_labelled => {
            let text = String::from_utf8_lossy(data);
            let start: String = text.chars().take(QUOTED).collect();
            let more = if start.len() < text.len() { "…" } else { "" };
            Readable::Not(format!("labelled {label}, but its content is text: {start}{more}"))
        }
        None if is_labelled => {
            Readable::Not(format!("labelled {label}, but its content is none that models read"))
        }
        Some(_) | None => Readable::As(Arc::clone(label)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    const PIXEL: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    fn blob(media_type: &str, data: &[u8]) -> Blob {
        Blob { name: "a".into(), media_type: media_type.into(), data: data.into() }
    }

    #[test]
    fn content_counts_and_not_its_label() {
        let png = STANDARD.decode(PIXEL).unwrap();
        assert_eq!(readable(&blob("image/jpeg", &png)), Readable::As("image/png".into()));
        assert_eq!(readable(&blob("application/octet-stream", &png)), Readable::As("image/png".into()));
        assert_eq!(readable(&blob("audio/wav", b"\0\xff")), Readable::As("audio/wav".into()));
        assert_eq!(readable(&blob("text/csv", b"a,b")), Readable::As("text/csv".into()));
        for (label, data, said) in [
            ("image/png", b"".as_slice(), "no bytes"),
            ("application/pdf", b"", "no bytes"),
            ("image/png", b"<!DOCTYPE html><html>", "is text: <!DOCTYPE html>"),
            ("image/svg+xml", b"<svg/>", "is text: <svg/>"),
            ("image/png", b"\0\0\0", "none that models read"),
            ("image/bmp", b"BM\0\0", "none that models read"),
            ("image/png", b"\x89PNG\r\n\x1a\n", "cut off"),
        ] {
            match readable(&blob(label, data)) {
                Readable::Not(why) => assert!(why.contains(said), "{label}: {why}"),
                other => panic!("{label}: {other:?}"),
            }
        }
    }

    #[test]
    fn an_image_that_is_cut_off_is_found() {
        let png = STANDARD.decode(PIXEL).unwrap();
        assert_eq!(fault(&png), None);
        for end in 4..png.len() - 8 {
            assert!(fault(&png[..end]).is_some(), "{end}");
        }
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0\xff\xda\0\x02data";
        assert_eq!(fault(jpeg), None);
        assert!(fault(&jpeg[..20]).is_some() && fault(&jpeg[..4]).is_some());
        assert!(fault(b"GIF89a").is_some() && fault(b"RIFF\xff\0\0\0WEBPVP8 ").is_some());
        assert_eq!(fault(b"any text"), None);
    }
}
