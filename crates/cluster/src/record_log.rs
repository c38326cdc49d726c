//! The log of a run on a node: whole lines go to the database in one fenced transaction.

use crate::{
    dispatch::{Claim, Dispatch, NamedBlob},
    error::ClusterError,
    lease::Lease,
};
use llm_do_runs::JournalLog;
use std::{
    collections::HashSet,
    fs,
    io::{self, ErrorKind},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tokio::runtime::Handle;

/// The folders below a run's own folder whose files belong to the run: long values, and contents from before changes.
pub(crate) const BLOB_FOLDERS: [&str; 2] = ["blobs", "before"];
/// The time between two attempts to write while the database can't be reached.
const AGAIN: Duration = Duration::from_millis(50);

/// The log of one claimed run.
pub(crate) struct RecordLog {
    pub(crate) dispatch: Dispatch,
    pub(crate) claim: Claim,
    pub(crate) lease: Arc<Lease>,
    /// The number of the next record.
    pub(crate) next: i64,
    /// The folder in which the journal stores long values.
    pub(crate) dir: PathBuf,
    /// The files of that folder that the database has.
    pub(crate) stored: HashSet<String>,
    /// Hears of each write: the number of records that the database has.
    pub(crate) wrote: Box<dyn Fn(i64) + Send>,
}

impl JournalLog for RecordLog {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        let text = std::str::from_utf8(lines).map_err(io::Error::other)?;
        let lines: Vec<&str> = text.lines().collect();
        let blobs = self.new_blobs()?;
        // The thread waits: the step that follows may have an effect. Other tasks of the thread move to another one.
        tokio::task::block_in_place(|| Handle::current().block_on(self.append(&lines, &blobs)))?;
        self.next += i64::try_from(lines.len()).unwrap_or(i64::MAX);
        self.stored.extend(blobs.into_iter().map(|blob| blob.name));
        (self.wrote)(self.next);
        Ok(())
    }
}

impl RecordLog {
    async fn append(&self, lines: &[&str], blobs: &[NamedBlob]) -> io::Result<()> {
        // While the database restarts, the run waits as long as its lease holds.
        loop {
            if !self.lease.holds() {
                return Err(lost());
            }
            match self.dispatch.append(&self.claim, self.next, lines, blobs).await {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    self.lease.lose();
                    return Err(lost());
                }
                Err(error) if is_worth_another(&error) => tokio::time::sleep(AGAIN).await,
                Err(error) => return Err(io::Error::other(error.to_string())),
            }
        }
    }

    /// Reads the values that the journal has stored since the last write.
    fn new_blobs(&self) -> io::Result<Vec<NamedBlob>> {
        let mut found = Vec::new();
        for folder in BLOB_FOLDERS {
            let entries = match fs::read_dir(self.dir.join(folder)) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let file = entry?.file_name().into_string().unwrap_or_default();
                let name = format!("{folder}/{file}");
                // Unfinished files have names with a dot.
                if !file.contains('.') && !self.stored.contains(&name) {
                    let content = fs::read(self.dir.join(&name))?;
                    found.push(NamedBlob { name, content });
                }
            }
        }
        Ok(found)
    }
}

/// Returns true if the same records may be written a moment later. A full disk of the database is not waited for.
fn is_worth_another(error: &ClusterError) -> bool {
    error.is_temporary() && !matches!(error, ClusterError::Refused { code, .. } if code == "53100")
}

fn lost() -> io::Error {
    io::Error::other("the lease of the run was lost: another node continues it")
}
