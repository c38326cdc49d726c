//! Runs on this machine: the ports of a run on tokio and on the disk, and reading runs back.
//!
//! [`JournalWriter::create`] makes a run's folder, [`LocalDriver`] runs the engine's steps and records each.
//! [`read_journal`], [`read_tree`], [`list_runs`] and [`Follow`] read runs from their folders.
//! `docs/reference/journal.md` documents the format; `llm-do-records` holds everything that can be done with records
//! once they are read.

mod ambient;
mod blob;
mod clean;
mod files;
mod follow;
mod journal;
mod kept;
mod list;
mod read;
mod received;
mod run_id;
mod seal;
mod sealed_log;
mod serving;
mod untrusted_list;

pub use ambient::{LocalDriver, Machine};
pub use clean::{Cleaning, StoredRun, TUNINGS, remove_run, stored_runs};
pub use files::still_named;
pub use follow::{Follow, Part};
pub use journal::{CreateError, JOURNAL_FILE, JournalLog, JournalWriter, ReopenError, fork};
pub use list::{
    FindError, RunSummary, find_run, is_running, keeps_running, list_runs, newest_and_unfinished, read_ends,
    run_ids, summary_of, writer_of,
};
pub use llm_do_host::{Canceller, EventSink, Interjector, Said, Stopper, Switch, Written};
pub use read::{ReadError, began_here, is_own, read_journal, read_own_journal, read_run, read_tree};
pub use received::receive_journal;
pub use run_id::{NewRunId, is_run_id};
pub use seal::SealKey;
pub use sealed_log::{LogKind, ReadLog, SealedLog, log_ids, read_log};
pub use serving::{AlreadyServed, Serving};
pub use untrusted_list::{UNTRUSTED_FILE, UntrustedFile, UntrustedList, UntrustedListError};
