//! Resuming a run of this machine that was suspended or interrupted. [`llm_do_host::Past`] has what holds for every host.

use crate::{
    invocation,
    open_questions::now_ms,
    run::Report,
    settings::{RunOptions, Settings},
};
pub use llm_do_host::Decisions;
use llm_do_host::Past;
use llm_do_records::{History, Redactor};
use llm_do_runs::{
    JournalWriter, ReadError, ReopenError, SealKey, keeps_running, read_own_journal, writer_of,
};
use llm_do_sandbox::place_of;
use std::{
    ops::Deref,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The reason why a run can't be resumed.
pub type ResumeError = llm_do_host::ResumeError<ReadError, ReopenError>;

/// A run to be continued, read from its journal.
#[derive(Debug)]
pub struct PastRun {
    dir: PathBuf,
    key: SealKey,
    past: Past,
}

impl Deref for PastRun {
    type Target = Past;

    fn deref(&self) -> &Self::Target {
        &self.past
    }
}

impl PastRun {
    /// Reads a run that was suspended, interrupted or cut off. Its recorded permissions are trusted, so it must have
    /// been written by the llm-do whose folder (`~/.llm-do`) is `home`: a project from elsewhere may bring runs along.
    ///
    /// # Errors
    /// The run is active in another process, can't be read, was written by another user, or does not say how it was
    /// started.
    pub fn open(dir: &Path, home: &Path) -> Result<Self, ResumeError> {
        // Its questions and unfinished calls are those of the other process.
        if keeps_running(dir) {
            return Err(ResumeError::Reopen(ReopenError::Running { holder: writer_of(dir) }));
        }
        let key = SealKey::read(home).map_err(|error| ResumeError::Key(error.to_string()))?;
        let past = Past::of(read_own_journal(dir, &key).map_err(ResumeError::Read)?.records)?;
        Ok(Self { dir: dir.to_owned(), key, past })
    }

    /// Returns the folder of the run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the settings with which the run was started; `base` provides those that depend on this machine and the
    /// current time.
    ///
    /// # Errors
    /// The rules or grants of the run can't be read any more.
    pub fn settings(&self, base: Settings) -> Result<Settings, ResumeError> {
        let settings = invocation::settings(self.invocation(), base, &self.dir)?;
        Ok(Settings { run: self.resumed(settings.run), ..settings })
    }

    /// Returns the options with which the run was started, for an open session of its program; `base` provides those
    /// that are not recorded.
    ///
    /// # Errors
    /// The rules or grants of the run can't be read any more.
    pub fn options(&self, base: RunOptions) -> Result<RunOptions, ResumeError> {
        self.past.options(base, &place_of)
    }

    /// Returns the end of the run from its records, or `None` if the run can be continued.
    pub fn report(&self) -> Option<Report> {
        Some(Report::of(self.end()?, &self.dir))
    }

    /// Checks that the run can continue with these decisions.
    ///
    /// # Errors
    /// A decision is about a question that is not open, or the run has ended.
    pub fn admits(&self, decisions: &Decisions) -> Result<(), ResumeError> {
        decisions.admitted_by(self.records(), now_ms())
    }

    /// Opens the journal for further records, and returns its contents.
    pub(crate) fn reopen(
        &self,
        decisions: &Decisions,
        redactor: Arc<Redactor>,
    ) -> Result<(JournalWriter, History), ResumeError> {
        let opened = JournalWriter::reopen(&self.dir, redactor, &self.key);
        let (journal, records) = opened.map_err(ResumeError::Reopen)?;
        // Read again under the lock: another process may have resumed the run in between.
        decisions.admitted_by::<ReadError, ReopenError>(&records, now_ms())?;
        Ok((journal, History::of(records)))
    }

    /// Copies the run into a new one. Returns the folder of the copy.
    pub(crate) fn fork(&self, redactor: Arc<Redactor>) -> Result<PathBuf, ResumeError> {
        llm_do_runs::fork(&self.dir, redactor, &self.key).map_err(ResumeError::Reopen)
    }
}
