//! Files and folders that only their owner may read, and waiting for their locks.

use std::{
    fs::{self, OpenOptions},
    io,
    path::Path,
    thread,
    time::Duration,
};

/// Makes a folder, and those above it, that only its owner may enter.
pub(crate) fn private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Opens a regular file for reading. Anything else is refused, such as a pipe, on which opening or reading may block
/// for ever: a run's folder may have come with a project from anywhere.
pub(crate) fn open_regular(path: &Path) -> io::Result<fs::File> {
    if fs::metadata(path)?.is_file() {
        fs::File::open(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

/// Sets the options so that only the owner may read a file that they create.
pub(crate) fn private_file(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Fails if an open file has been removed: data written to it is lost when the process ends.
///
/// # Errors
/// The file has no name any more, or its metadata can't be read.
pub fn still_named(file: &fs::File) -> io::Result<()> {
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) == 0 {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the file was removed while it was being written",
        ));
    }
    #[cfg(not(unix))]
    let _ = file;
    Ok(())
}

/// Returns the process that holds the lock of a file, where the system reports it.
pub(crate) fn holder(path: &Path) -> Option<u32> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt as _;
        let file = fs::metadata(path).ok()?.ino().to_string();
        // `1: FLOCK  ADVISORY  WRITE 4711 08:01:1048577 0 EOF` (proc_locks(5)). The device's number differs from that of
        // stat(2) on some file systems, so only the file's is compared.
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let of_file = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, "FLOCK", _, "WRITE", process, place, ..] = fields[..] else { return None };
            (place.rsplit(':').next() == Some(&file)).then(|| process.parse().ok())?
        };
        locks.lines().find_map(of_file)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = path;
        None
    }
}

/// Returns true if a condition becomes true within a tenth of a second.
pub(crate) fn soon(so: impl Fn() -> bool) -> bool {
    const PAUSE: Duration = Duration::from_millis(5);
    so() || (0..20).any(|_| {
        thread::sleep(PAUSE);
        so()
    })
}
