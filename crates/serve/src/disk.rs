//! The disk that the runs of tokens and programs use.

use crate::meter::Amounts;
use std::{
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The time for which sizes are remembered. Runs that grow faster are noticed later.
const FRESH: Duration = Duration::from_secs(60);

/// The sizes of the folders of runs.
#[derive(Default)]
pub(crate) struct Disk(Mutex<Option<(Instant, OnDisk)>>);

/// Bytes of the folders of runs, by the token that started the run and by program.
#[derive(Clone, Debug, Default)]
pub(crate) struct OnDisk {
    pub(crate) tokens: Amounts,
    pub(crate) programs: Amounts,
}

impl Disk {
    /// Returns the sizes, which `measure` reads if the known ones are old. Concurrent callers wait: they would read the
    /// same.
    pub(crate) fn used(&self, measure: impl FnOnce() -> OnDisk) -> OnDisk {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, used)) = &*known
            && at.elapsed() < FRESH
        {
            return used.clone();
        }
        let used = measure();
        *known = Some((Instant::now(), used.clone()));
        used
    }
}

/// The bytes of the files in a folder. Links are not followed.
pub(crate) fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) if found.is_file() => found.len(),
        _ => 0,
    });
    sizes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_that_of_the_files_and_not_of_what_links_lead_to() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("blobs")).expect("a folder");
        fs::write(folder.path().join("journal"), [0; 100]).expect("a file");
        fs::write(folder.path().join("blobs/a"), [0; 23]).expect("a file");
        #[cfg(unix)]
        std::os::unix::fs::symlink("/", folder.path().join("link")).expect("a link");
        assert_eq!(size(folder.path()), 123);
    }

    #[test]
    fn sizes_are_measured_once_while_they_are_fresh() {
        let disk = Disk::default();
        let measured = |bytes| {
            let mut used = OnDisk::default();
            used.tokens.add(&"ann".into(), bytes);
            used
        };
        assert_eq!(disk.used(|| measured(1)).tokens.all, 1);
        assert_eq!(disk.used(|| measured(2)).tokens.all, 1);
    }
}
