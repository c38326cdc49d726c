//! Runs on this machine: the driver on tokio, the journal on disk, and reading runs back.
//!
//! [`JournalWriter::create`] makes a run's folder, [`LocalDriver::new`] runs the engine's steps and records each,
//! [`read_journal`], [`list_runs`] and [`RunTree`] tell afterwards what happened. `docs/journal.md` documents the format.

mod answers;
mod blob;
mod clean;
mod diff;
mod driver;
mod follow;
mod history;
mod html;
mod journal;
mod list;
mod otel;
mod read;
mod redactor;
mod render;
mod replay;
mod run_id;
mod seal;
mod sent;
mod steps;
mod timeline;
mod tree;
mod whole;

pub use answers::RecordedAnswers;
pub use blob::{BlobError, INLINE_BYTES};
pub use clean::{Cleaning, StoredRun, remove_run, stored_runs};
pub use driver::{Canceller, EventSink, LocalDriver};
pub use follow::Follow;
pub use history::{History, Settle};
pub use html::page;
pub use journal::{CreateError, JOURNAL_FILE, JournalWriter, RecordRef, ReopenError, Written};
pub use list::{FindError, Open, RunState, RunSummary, find_run, list_runs};
pub use otel::otlp;
pub use read::{Journal, Problem, ReadError, read_journal, read_own_journal};
pub use redactor::{Redactor, SHORTEST_SECRET, is_secret_name};
pub use render::{Following, Line, Tone, duration, render, render_call, render_timeline, size, thousands};
pub use replay::{Compared, Difference, Divergence, ReplayDriver};
pub use run_id::is_run_id;
pub use seal::SealKey;
pub use sent::messages_sent;
pub use steps::{Step, StepKind, steps};
pub use timeline::{Timeline, TimelineGap, TimelineRow, TimelineSpan};
pub use tree::{CallNode, CallState, Decision, RunTree};
pub use whole::{WholeCall, WholeRun};
