//! What a session needs to know, and the input of one run.

use crate::grant::{Grant, Grantor, RememberedGrants};
use llm_do_core::{
    gate::{Mode, RuleLine},
    ledger::Budget,
    model::{ModelName, ModelSettings},
    toolset::ToolsetRegistry,
};
use llm_do_models::Providers;
use llm_do_program::target::{Request, Surroundings};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{path::PathBuf, sync::Arc};

/// What the environment says about a variable. Injected, so that nothing reads the process's own by the way.
pub type Environment = llm_do_python::Environment;

/// What a session needs to know.
pub struct Settings {
    /// What to run.
    pub request: Request,
    /// Where the command was given.
    pub around: Surroundings,
    /// The environment.
    pub environment: Environment,
    /// Folder for runs of lone files, models, grants: `LLM_DO_HOME`, default `~/.llm-do`.
    pub home: PathBuf,
    /// The kinds of toolsets; [`ToolsetRegistry::built_in`] and more.
    pub toolsets: ToolsetRegistry,
    /// Providers beside those over HTTP: each adds itself.
    pub providers: Box<dyn FnOnce(Providers) -> Providers + Send>,
    /// Used where nothing names a model and none is detected.
    pub fallback_model: Option<ModelName>,
    /// `--model`.
    pub model: Option<ModelName>,
    /// `--set`.
    pub set: ModelSettings,
    /// `--approval`; interactive if it is not given.
    pub mode: Option<Mode>,
    /// Whether somebody can be asked.
    pub can_ask: bool,
    /// What `interactive` means where nobody can be asked: `auto_deny` (SPEC §9.2). A run that was begun where somebody could
    /// waits for them again.
    pub unattended: Mode,
    /// `--deny`, `--ask`, `--allow`.
    pub rules: Vec<RuleLine>,
    /// `--grant`.
    pub grants: Vec<Grant>,
    /// `--budget`.
    pub budget: Budget,
    /// Who is asked for what `grants` lacks.
    pub grantor: Arc<dyn Grantor>,
}

impl Settings {
    /// Settings for one target, with this process's environment and nobody to ask: what needs an approval is refused.
    pub fn for_target(target: &str) -> Self {
        let user = std::env::home_dir();
        let home = std::env::var_os("LLM_DO_HOME")
            .map_or_else(|| user.clone().unwrap_or_default().join(".llm-do"), PathBuf::from);
        Self {
            request: Request { positionals: vec![target.to_owned()], ..Request::default() },
            around: Surroundings {
                here: std::env::current_dir().unwrap_or_default(),
                home: user,
                ..Surroundings::default()
            },
            environment: Arc::new(|name| std::env::var(name).ok()),
            grantor: Arc::new(RememberedGrants::of(&home)),
            home,
            toolsets: ToolsetRegistry::built_in(),
            providers: Box::new(|providers| providers),
            fallback_model: None,
            model: None,
            set: ModelSettings::default(),
            mode: None,
            can_ask: false,
            unattended: Mode::AutoDeny,
            rules: Vec::new(),
            grants: Vec::new(),
            budget: Budget::default(),
        }
    }
}

/// The input of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Input {
    /// A plain message.
    pub message: Option<String>,
    /// `--input`.
    pub json: Option<Value>,
    /// `--param`.
    pub parameters: Vec<(String, String)>,
    /// `--attach`.
    pub attachments: Vec<PathBuf>,
}
