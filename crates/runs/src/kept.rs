//! Contents of files from before calls changed them, so that the user can restore them: `before/HEX` in a run's folder.
//!
//! The contents are not records: nothing redacts, exports or shows them. They are removed with the run's folder.

use crate::blob::BlobDir;
use llm_do_core::schema::sha256;
use llm_do_records::BlobSource as _;
use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The most bytes that one run keeps.
const MOST_BYTES: u64 = 64 << 20;

/// The contents that one run keeps.
pub(crate) struct Kept {
    dir: Mutex<KeptDir>,
    most: u64,
}

struct KeptDir {
    files: BlobDir,
    /// True if the contents of an earlier execution are counted.
    measured: bool,
}

impl Kept {
    /// Makes the store of the run in that folder. The first stored content creates its folder.
    pub(crate) fn of_run(dir: impl Into<Arc<Path>>) -> Self {
        let files = BlobDir::named(dir.into(), "before");
        Self { dir: Mutex::new(KeptDir { files, measured: false }), most: MOST_BYTES }
    }

    fn dir(&self) -> MutexGuard<'_, KeptDir> {
        self.dir.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a content under its SHA-256. Returns false if the run keeps too much already, or if the content can't be
    /// written.
    pub(crate) fn store(&self, hash: &str, content: &[u8]) -> bool {
        let mut dir = self.dir();
        // Not before the first content: most runs store none.
        if !dir.measured {
            dir.files.measure();
            dir.measured = true;
        }
        dir.files.bytes() + content.len() as u64 <= self.most && dir.files.store(hash, content).is_ok()
    }

    /// Returns the content with that SHA-256; `None` if it was not stored or has been changed.
    pub(crate) fn read(&self, hash: &str) -> Option<Vec<u8>> {
        let content = self.dir().files.read(hash, self.most).ok()?;
        (sha256(&content) == hash).then_some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn contents_are_kept_for_their_owner_up_to_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept { most: 10, ..Kept::of_run(dir.path()) };
        let hash = sha256(b"before");
        assert!(kept.store(&hash, b"before"));
        assert_eq!(kept.read(&hash).as_deref(), Some(&b"before"[..]));
        assert!(!kept.store(&sha256(b"too much"), b"too much"));
        let file = dir.path().join("before").join(&hash);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        fs::write(&file, "forged").unwrap();
        assert_eq!(kept.read(&hash), None);
    }

    #[cfg(unix)]
    #[test]
    fn nothing_is_written_where_a_link_leads() {
        use std::os::unix::fs::symlink;
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (hash, before) = (sha256(b"content"), dir.path().join("before"));
        symlink(outside.path(), &before).unwrap();
        assert!(!Kept::of_run(dir.path()).store(&hash, b"content"));
        fs::remove_file(&before).unwrap();
        fs::create_dir(&before).unwrap();
        symlink(outside.path().join("file"), before.join(format!("{hash}.part"))).unwrap();
        let kept = Kept::of_run(dir.path());
        assert!(kept.store(&hash, b"content"));
        assert_eq!(kept.read(&hash).as_deref(), Some(&b"content"[..]));
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
