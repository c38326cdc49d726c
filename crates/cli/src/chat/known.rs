//! Data about the program that the commands of a chat use: its workers and its files.

use super::words;
use crate::{
    past_runs::{about, local_time},
    visible,
};
use llm_do::{Session, program::Program};
use llm_do_core::{
    source::FunctionSource,
    worker::{Definitions as _, WorkerDefinition},
};
use llm_do_runs::{RunSummary, SealKey, began_here, find_run, list_runs};
use std::{
    collections::VecDeque,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

/// The most files of the program that are offered for completion.
const MOST_FILES: usize = 5_000;
/// The most runs that are searched for chats.
const MOST_RUNS: usize = 200;
/// The deepest folder below the program's that is searched.
const DEEPEST: usize = 12;
/// Time for which a list of the files is used.
const FRESH: Duration = Duration::from_secs(5);

/// Data that is read when it is first needed, so that a chat starts without it.
pub(super) struct Known {
    program: Arc<Program>,
    root: PathBuf,
    providers: Vec<String>,
    runs_dir: PathBuf,
    /// The folder of the user, whose key distinguishes own runs from those that a project brings.
    home: PathBuf,
    workers: OnceLock<Vec<Arc<WorkerDefinition>>>,
    files: Mutex<Option<(Instant, Arc<[String]>)>>,
}

impl Known {
    /// Returns the data about the program of a session.
    pub(super) fn of(session: &Session) -> Self {
        let program = Arc::clone(session.program());
        let root = PathBuf::from(program.root().as_str());
        Self {
            program,
            root,
            providers: session.providers(),
            runs_dir: session.runs_dir().to_owned(),
            home: session.home().to_owned(),
            workers: OnceLock::new(),
            files: Mutex::default(),
        }
    }

    /// Returns the exported workers of the program, sorted by name; all of its workers if it exports none. A worker
    /// whose definition is wrong is left out.
    pub(super) fn workers(&self) -> &[Arc<WorkerDefinition>] {
        self.workers.get_or_init(|| {
            let exports = &self.program.manifest().exports;
            let names: Vec<&str> = match exports.is_empty() {
                true => self.program.workers().iter().map(|worker| worker.id.as_str()).collect(),
                false => exports.iter().map(|(name, _)| name.as_str()).collect(),
            };
            let mut workers: Vec<_> = names.into_iter().filter_map(|name| self.worker(name).ok()).collect();
            workers.sort_by(|a, b| a.id.cmp(&b.id));
            workers.dedup_by(|a, b| a.id == b.id);
            workers
        })
    }

    /// Returns the entry, which is the worker of the chat.
    pub(super) fn entry(&self) -> &Arc<WorkerDefinition> {
        self.program.entry()
    }

    /// Returns the downloaded local models, each as the name of a model, `local:NAME`.
    pub(super) fn local_models(&self) -> Vec<String> {
        #[cfg(feature = "local")]
        {
            // A folder that can't be read holds no model that could be used.
            let models = crate::opening::store().list().unwrap_or_default();
            models.into_iter().map(|model| format!("local:{}", model.name)).collect()
        }
        #[cfg(not(feature = "local"))]
        Vec::new()
    }

    /// Returns the names of the providers, sorted.
    pub(super) fn providers(&self) -> &[String] {
        &self.providers
    }

    /// Returns the exported worker of that name.
    pub(super) fn exported(&self, name: &str) -> Option<&Arc<WorkerDefinition>> {
        self.workers().iter().find(|worker| *worker.id == *name)
    }

    /// Returns any worker of the program, by a name that the program's own workers could use.
    ///
    /// # Errors
    /// The worker does not exist, or its definition is wrong.
    pub(super) fn worker(&self, name: &str) -> Result<Arc<WorkerDefinition>, String> {
        self.program.named_by(&FunctionSource::Program, name).map_err(|error| error.to_string())
    }

    /// Returns the user's own chats with the entry, the newest first: the ID of the run, and its time and first
    /// message.
    pub(super) fn chats(&self) -> Vec<(String, String)> {
        let runs = list_runs(&self.runs_dir, MOST_RUNS).unwrap_or_default().into_iter();
        let key = SealKey::read(&self.home).ok();
        let is_own =
            |run: &RunSummary| key.as_ref().is_some_and(|key| began_here(&self.runs_dir.join(&run.run), key));
        let chats = runs.filter(|run| run.chat && run.entry == *self.program.entry().id && is_own(run));
        let about = |run: &RunSummary| {
            let began = run.started_ms.and_then(local_time).unwrap_or_default();
            format!("{began}  {}", about(run))
        };
        chats.map(|run| (run.run.clone(), about(&run))).collect()
    }

    /// Returns the folder of a chat with the entry, by the ID of its run or the end of it.
    ///
    /// # Errors
    /// The chat does not exist; the message suggests what to do instead.
    pub(super) fn chat(&self, run: &str) -> Result<PathBuf, String> {
        let dir = find_run(&self.runs_dir, run).map_err(|error| error.to_string())?;
        let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let runs = list_runs(&self.runs_dir, usize::MAX).unwrap_or_default();
        let entry = &self.program.entry().id;
        match runs.into_iter().find(|run| run.run == id) {
            Some(run) if run.chat && run.entry == **entry => Ok(dir),
            Some(run) if run.chat => Err(format!(
                "run {id} is a chat with {}, and this chat is with {entry}\n  leave this one, then `llm-do chat --resume {id}` \
                 continues it",
                visible::line(&run.entry)
            )),
            _ => Err(format!("run {id} is no chat\n  `llm-do runs resume {id}` continues it")),
        }
    }

    /// Returns true if that path, relative to the program's folder, is a file.
    pub(super) fn is_file(&self, path: &str) -> bool {
        !path.is_empty() && self.root.join(path.trim_start_matches('/')).is_file()
    }

    /// Returns the files that a message names, relative to the program's folder.
    pub(super) fn mentioned(&self, message: &str) -> Vec<String> {
        words::mentioned(message).into_iter().filter(|file| self.is_file(file)).collect()
    }

    /// Returns the files of the program's folder, relative to it, without hidden ones.
    pub(super) fn files(&self) -> Arc<[String]> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        match &*files {
            Some((read, files)) if read.elapsed() < FRESH => Arc::clone(files),
            _ => {
                let found: Arc<[String]> = self.find().into();
                *files = Some((Instant::now(), Arc::clone(&found)));
                found
            }
        }
    }

    fn find(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = VecDeque::from([(self.root.clone(), String::new(), 0)]);
        while let Some((folder, prefix, depth)) = folders.pop_front() {
            // A folder that can't be read has nothing to offer.
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let Ok(name) = entry.file_name().into_string() else { continue };
                let Ok(kind) = entry.file_type() else { continue };
                if name.starts_with('.') {
                    continue;
                }
                let path = format!("{prefix}{name}");
                if kind.is_dir() && depth < DEEPEST {
                    folders.push_back((entry.path(), format!("{path}/"), depth + 1));
                } else if kind.is_file() {
                    found.push(path);
                }
            }
            if found.len() >= MOST_FILES {
                break;
            }
        }
        found.truncate(MOST_FILES);
        found.sort();
        found
    }
}
