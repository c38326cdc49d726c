//! The options of a session: worker, model and approval mode. They can be chosen until the chat begins, because a chat keeps
//! its worker, its tools and its mode.

use agent_client_protocol::v1::schema::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigOptionValue, SessionConfigSelectOption,
};
use llm_do::{Problem, RunOptions, Session, core::rule::Mode};
use std::sync::Arc;

/// The value of an option that was not chosen.
const DEFAULT: &str = "default";
const WORKER: &str = "worker";
const MODEL: &str = "model";
const APPROVAL: &str = "approval";

const MODES: &[(&str, Mode, &str)] = &[
    ("interactive", Mode::Interactive, "Ask in the editor"),
    ("auto_deny", Mode::AutoDeny, "Refuse what would be asked about"),
    ("approve_all", Mode::ApproveAll, "Run everything without asking"),
];

/// A program with the options chosen so far.
pub(crate) struct Options {
    /// The program as it was opened.
    base: Session,
    session: Session,
    worker: Arc<str>,
    workers: Vec<Arc<str>>,
    models: Vec<String>,
}

/// A choice that can't be made.
pub(crate) enum NotChosen {
    /// The option does not exist, or does not have the value.
    Unknown(String),
    /// The program can't be opened with it.
    Problem(Problem),
}

impl From<Problem> for NotChosen {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

impl Options {
    pub(crate) fn of(base: Session) -> Self {
        let loaded = base.program().loaded();
        let mut workers: Vec<Arc<str>> = loaded
            .iter()
            .filter(|worker| worker.code.is_none())
            .map(|worker| Arc::clone(&worker.id))
            .collect();
        workers.sort();
        let entry = base.entry();
        let mut models: Vec<String> = base.options().model.iter().map(ToString::to_string).collect();
        // A pattern names no model.
        let named = entry
            .compatible_models
            .iter()
            .filter(|name| name.contains(':') && !name.contains(['*', '?', '[']));
        models.extend(named.cloned());
        models.dedup();
        let worker = Arc::clone(&entry.id);
        Self { session: base.clone(), base, worker, workers, models }
    }

    /// Returns the program with the chosen options.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the options that the client shows. An option without an alternative is left out.
    pub(crate) fn shown(&self) -> Vec<SessionConfigOption> {
        let RunOptions { model, mode, .. } = self.session.options();
        let value = |value: &str, name: &str| SessionConfigSelectOption::new(value.to_owned(), name);
        let mut shown = Vec::new();
        if self.workers.len() > 1 {
            let workers: Vec<_> = self.workers.iter().map(|worker| value(worker, worker)).collect();
            shown.push(
                SessionConfigOption::select(WORKER, "Worker", self.worker.to_string(), workers)
                    .description("The worker that you talk with".to_owned()),
            );
        }
        if !self.models.is_empty() {
            let mut models = vec![value(DEFAULT, "As the program says")];
            models.extend(self.models.iter().map(|model| value(model, model)));
            let current = model.as_ref().map_or_else(|| DEFAULT.to_owned(), ToString::to_string);
            shown.push(
                SessionConfigOption::select(MODEL, "Model", current, models)
                    .category(SessionConfigOptionCategory::Model),
            );
        }
        let mut modes = vec![value(DEFAULT, "As configured")];
        modes.extend(MODES.iter().map(|(id, _, name)| value(id, name)));
        let current = MODES.iter().find(|(_, each, _)| Some(*each) == *mode).map_or(DEFAULT, |(id, ..)| id);
        shown.push(
            SessionConfigOption::select(APPROVAL, "Approval", current, modes)
                .description("What happens to calls that need an approval".to_owned())
                .category(SessionConfigOptionCategory::Mode),
        );
        shown
    }

    /// Chooses a value.
    ///
    /// # Errors
    /// The option or the value does not exist, or the program can't be opened with it.
    pub(crate) fn choose(&mut self, option: &str, value: &SessionConfigOptionValue) -> Result<(), NotChosen> {
        let Some(value) = value.as_value_id().map(|value| &*value.0) else {
            return Err(NotChosen::Unknown(format!("`{option}` takes the ID of a value")));
        };
        let unknown = || NotChosen::Unknown(format!("`{option}` has no value `{value}`"));
        let mut options = self.session.options().clone();
        match option {
            WORKER => {
                let worker = self.workers.iter().find(|worker| ***worker == *value).ok_or_else(unknown)?;
                self.session = self.base.worker(worker)?.with_options(options)?;
                self.worker = Arc::clone(worker);
                return Ok(());
            }
            MODEL if value == DEFAULT => options.model = None,
            MODEL if self.models.iter().any(|model| model == value) => {
                options.model = Some(value.parse().map_err(|_| unknown())?);
            }
            APPROVAL if value == DEFAULT => options.mode = None,
            APPROVAL => {
                let (_, mode, _) = MODES.iter().find(|(id, ..)| *id == value).ok_or_else(unknown)?;
                options.mode = Some(*mode);
            }
            MODEL => return Err(unknown()),
            _ => return Err(NotChosen::Unknown(format!("there is no option `{option}`"))),
        }
        self.session = self.session.with_options(options)?;
        Ok(())
    }
}
