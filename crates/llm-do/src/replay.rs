//! Replaying a recorded run: the program runs again without effects, and its behaviour is compared with the record. See
//! `docs/guides/replay.md`.

use crate::{
    grant::Grant, invocation, loaded::stored_keys, located::Located, problem::Problem, resume::ResumeError,
    settings::Settings,
};
use llm_do_host::{Effects, Past};
use llm_do_program::target::Request;
use llm_do_records::{Redactor, ReplayReport};
use llm_do_runs::{SealKey, read_journal, read_own_journal};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The record of a run by an unknown author. Its contents are not trusted, and it causes no effects.
#[derive(Clone, Debug)]
pub struct Recorded {
    dir: PathBuf,
    past: Past,
    /// True if each record is sealed with this user's key.
    own: bool,
}

impl Recorded {
    /// Reads the run in that folder. `home` is `~/.llm-do`.
    ///
    /// # Errors
    /// The run can't be read, or doesn't record how it was started.
    pub fn open(dir: &Path, home: &Path) -> Result<Self, ResumeError> {
        let sealed = SealKey::read(home).ok().and_then(|key| read_own_journal(dir, &key).ok());
        let own = sealed.is_some();
        let journal = match sealed {
            Some(journal) => journal,
            None => read_journal(dir).map_err(ResumeError::Read)?,
        };
        Ok(Self { dir: dir.to_owned(), past: Past::of(journal.records)?, own })
    }

    /// Returns the folder of the run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the ID of the run.
    pub fn run(&self) -> &Arc<str> {
        self.past.run()
    }

    /// Returns the settings for a replay, with the program at its recorded place, or `against` another. `base` provides
    /// those that depend on this machine and the current time, and the grants that the operator gives now. Grants of
    /// the record count only if the record is this user's own, and none of them lets code run unconfined.
    ///
    /// # Errors
    /// The rules or grants of the record can't be read any more.
    pub fn settings(&self, base: Settings, against: Option<&Path>) -> Result<Settings, ResumeError> {
        let (here, given) = (base.around.here.clone(), base.run.grants.clone());
        let mut settings = invocation::settings(self.past.invocation(), base, &self.dir)?;
        let grants = &mut settings.run.grants;
        if !self.own {
            grants.clear();
        }
        grants.extend(given);
        grants.retain(|grant| !matches!(grant, Grant::Unconfined));
        if let Some(against) = against {
            let target = here.join(against).to_string_lossy().into_owned();
            // Beside a message, if an empty one, a word is never the message.
            let positionals = vec![target, String::new()];
            settings.request = Request { positionals, project: None, ..settings.request };
            settings.around.here = here;
        }
        Ok(Settings { run: self.past.replayed(settings.run), ..settings })
    }
}

/// Replays the record with the program of the settings, without a model, an operator, a file or a network. The only
/// processes are those that report what Python modules expose, and those of Python code that makes calls. They may
/// change nothing.
///
/// # Errors
/// The program can't be loaded, or can't run for a reason outside of its own behaviour.
pub async fn replay(settings: Settings, recorded: &Recorded) -> Result<ReplayReport, Problem> {
    let stored = stored_keys(&settings.home)?;
    let redactor = Redactor::for_environment(std::env::vars_os(), stored.pairs());
    let options = settings.run.clone();
    let loaded = Located::find(settings)?.load(Effects::Denied, &options)?;
    loaded.replay(&recorded.past, options, Arc::new(redactor)).await
}
