//! Folders that only their owner may enter, whatever the umask.

use std::{fs, io, path::Path};

/// Makes a folder, and those above it, that only its owner may enter. Existing folders are not changed.
///
/// # Errors
/// One of them can't be made.
pub fn private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn folders_are_their_owners() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("home/cache");
        private_dir(&inner).unwrap();
        private_dir(&inner).unwrap();
        for path in [inner.parent().unwrap(), &inner] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
        }
    }
}
