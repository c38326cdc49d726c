//! Reads regular files up to a limit. A FIFO would block its reader and a device may never end, so neither is read.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// Reads a regular file of at most `limit` bytes. Follows links: for paths that the operator or llm-do chose.
///
/// # Errors
/// The file can't be opened, is not a regular file, or is larger.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, without_waiting());
    read(options.open(path)?, limit)
}

/// Returns the flags for opening: a FIFO must not wait for a writer, and a terminal must not become the controlling
/// one.
#[cfg(unix)]
pub(crate) fn without_waiting() -> i32 {
    use rustix::fs::OFlags;
    (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed()
}

pub(crate) fn read(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes"));
    if metadata.len() > limit {
        return Err(too_large());
    }
    let mut content = Vec::new();
    // It may grow meanwhile, and files in /proc report a size of zero.
    file.take(limit.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 > limit { Err(too_large()) } else { Ok(content) }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::read_below;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("file"), "four").unwrap();
        fs::write(dir.path().join("outside"), "secret").unwrap();
        symlink("/dev/zero", root.join("endless")).unwrap();
        symlink("file", root.join("inner")).unwrap();
        symlink("../outside", root.join("outer")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        for name in ["file", "inner"] {
            assert_eq!(read_regular(&root.join(name), 4).unwrap(), b"four");
            assert_eq!(read_below(&root, Path::new(name), 4).unwrap(), b"four");
        }
        assert_eq!(read_regular(&root.join("outer"), 9).unwrap(), b"secret");
        for name in ["fifo", "endless", "outer", "../outside", "none", "."] {
            assert!(read_below(&root, Path::new(name), 9).is_err(), "{name}");
        }
        for name in ["fifo", "endless", "none", "."] {
            assert!(read_regular(&root.join(name), 9).is_err(), "{name}");
        }
        assert_eq!(read_regular(&root.join("file"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
