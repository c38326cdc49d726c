//! Everything that can be read from the records of a run, without disk, threads or a clock: the same in a terminal, in
//! a browser and on a durable engine.
//!
//! [`Journal::parse`] reads the bytes of a journal (`docs/reference/journal.md`). [`RunView`] folds records into the
//! state of the run, for all displays. [`RunTree`], [`Timeline`] and [`WholeRun`] show what happened, [`page`] and
//! [`otlp`] export it. [`History`] finds the recorded steps of a run that is resumed, [`ReplayDriver`] runs a program
//! over its record, [`RecordedAnswers`] is a model that gives recorded answers. [`write_line`] writes a record, and
//! [`Redactor`] keeps secrets out of it.

mod answers;
mod blob;
mod cases;
pub mod diff;
mod harden;
mod history;
mod html;
mod journal;
mod line;
mod no_files;
mod otel;
mod recording;
mod redactor;
mod render;
mod replay;
mod run_state;
mod seal;
mod sections;
mod sent;
mod steps;
mod timeline;
mod tree;
mod view;
mod whole;

pub use answers::RecordedAnswers;
pub use blob::{BlobError, BlobSource, INLINE_BYTES, StoreBlob};
pub use cases::{Case, CaseList};
pub use harden::{Compare, Hardened, Tried, Verdict};
pub use history::{Found, History, same_intent};
pub use html::page;
pub use journal::{Journal, LineError};
pub use line::{Problem, RecordRef, as_recorded, parse_line, write_line};
pub use no_files::NoFiles;
pub use otel::otlp;
pub use recording::{BadRecording, RecordedModels, Recording};
pub use redactor::{Redactor, SHORTEST_SECRET, Stream, is_secret_name};
pub use render::{
    Following, Line, Tone, compacted, duration, moment, render, render_call, render_timeline, size, thousands,
};
pub use replay::{Compared, Difference, Divergence, ReplayDriver, ReplayReport};
pub use run_state::{OpenRun, RunState};
pub use seal::{Chain, Sealer};
pub use sections::{Section, sections};
pub use sent::messages_sent;
pub use steps::{Step, StepKind, steps};
pub use timeline::{Timeline, TimelineGap, TimelineRow, TimelineSpan};
pub use tree::{CallNode, CallState, Decision, RunTree, WaitsFor};
pub use view::{
    Activity, CallChange, CallStanding, CallView, ConversationView, CostChange, Item, ItemChange, ItemKind,
    Latest, NoteTone, Retry, RetryChange, RunChanges, RunEnd, RunStart, RunView, Spent, SpentChange,
};
pub use whole::{WholeCall, WholeRun};
