//! The content of a file: text, or a description of other data.

use std::fmt;

/// The content of a file.
pub(super) enum Content {
    /// UTF-8 without NUL.
    Text(String),
    /// Any other data, with its size in bytes.
    Binary(Kind, usize),
    /// A file that is too long to be read whole; a description.
    Long(String),
}

/// The type of a binary file, if its first bytes show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(&'static str);

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// First bytes of the formats that people keep beside their texts.
const MAGIC: &[(&[u8], &str)] = &[
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF87a", "GIF image"),
    (b"GIF89a", "GIF image"),
    (b"BM", "BMP image"),
    (b"II*\0", "TIFF image"),
    (b"MM\0*", "TIFF image"),
    (b"\0\0\x01\0", "icon"),
    (b"%PDF-", "PDF document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "older Office document"),
    (b"PK\x03\x04", "ZIP archive (also Office and OpenDocument files)"),
    (b"PK\x05\x06", "empty ZIP archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\0", "xz archive"),
    (b"\x28\xb5\x2f\xfd", "Zstandard archive"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"Rar!\x1a\x07", "RAR archive"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"PAR1", "Parquet table"),
    (b"ARROW1", "Arrow table"),
    (b"GGUF", "GGUF model weights"),
    (b"\x7fELF", "ELF program"),
    (b"MZ", "Windows program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"\0asm", "WebAssembly module"),
    (b"ID3", "MP3 audio"),
    (b"OggS", "Ogg audio or video"),
    (b"fLaC", "FLAC audio"),
    (b"\x1aE\xdf\xa3", "Matroska or WebM video"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
];

impl Content {
    /// Takes the whole content of a file.
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        if bytes.contains(&0) {
            return Self::Binary(kind_of(&bytes), bytes.len());
        }
        match String::from_utf8(bytes) {
            Ok(text) => Self::Text(text),
            Err(error) => Self::Binary(kind_of(error.as_bytes()), error.as_bytes().len()),
        }
    }
}

/// The type of a binary file by its beginning.
pub(super) fn kind_of(start: &[u8]) -> Kind {
    if let Some((_, name)) = MAGIC.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Kind(name);
    }
    match (start.get(..4), start.get(4..8), start.get(8..12)) {
        (Some(b"RIFF"), _, Some(b"WEBP")) => Kind("WebP image"),
        (Some(b"RIFF"), _, Some(b"WAVE")) => Kind("WAV audio"),
        (_, Some(b"ftyp"), _) => Kind("MP4 video or HEIF image"),
        _ if start.get(257..262) == Some(b"ustar") => Kind("tar archive"),
        _ if start.contains(&0) => Kind("binary data"),
        _ => Kind("text in an encoding other than UTF-8, or binary data"),
    }
}

/// A description of any file by its beginning, which may be cut within a character.
pub(super) fn describe_start(start: &[u8]) -> String {
    let whole = match std::str::from_utf8(start) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    match (whole && !start.contains(&0), start.is_empty()) {
        (_, true) => "empty".into(),
        (true, _) if start.starts_with(b"%PDF-") => kind_of(start).to_string(),
        (true, _) => "text".into(),
        (false, _) => kind_of(start).to_string(),
    }
}
