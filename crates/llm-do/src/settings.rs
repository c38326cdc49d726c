//! Settings for opening a program.

pub use llm_do_host::{Client, IdempotencyKey, Input, InputPart, ReadPart, RunOptions};

use crate::grant::{Grantor, RememberedGrants};
use llm_do_core::{model::ModelName, toolset::ToolsetRegistry};
use llm_do_mcp::ClientServers;
use llm_do_models::Providers;
use llm_do_program::target::{Request, Surroundings};
use llm_do_sandbox::confine::Confiner;
use std::{path::PathBuf, sync::Arc};

/// A function that returns the value of an environment variable. It is injected, so that no code reads the process's
/// own environment directly.
pub type Environment = llm_do_python::Environment;

/// A function that adds kinds of models to the known ones. The confiner is for providers that run models in their own
/// processes.
pub type AddProviders = Box<dyn FnOnce(Providers, &Arc<Confiner>) -> Providers + Send>;

/// Settings for opening a program.
pub struct Settings {
    /// The program.
    pub request: Request,
    /// The surroundings in which the program was named.
    pub around: Surroundings,
    /// The environment.
    pub environment: Environment,
    /// Folder for runs of lone files, models and grants: `LLM_DO_HOME`, default `~/.llm-do`.
    pub home: PathBuf,
    /// The kinds of toolsets: [`ToolsetRegistry::built_in`] and more. Those that start processes are added here.
    pub toolsets: ToolsetRegistry,
    /// The MCP servers of the session's client, for workers that list `client`.
    pub client_servers: ClientServers,
    /// A function that registers providers beside those over HTTP. The confiner confines processes like those of the
    /// session.
    pub providers: AddProviders,
    /// The model that is used if nothing names one and none is detected.
    pub fallback_model: Option<ModelName>,
    /// The grantor, which decides about missing grants of a run.
    pub grantor: Arc<dyn Grantor>,
    /// Default options of runs.
    pub run: RunOptions,
}

impl Settings {
    /// Settings for one target, with this process's environment and no operator to ask: a call that needs an approval is refused.
    pub fn for_target(target: &str) -> Self {
        let user = std::env::home_dir();
        let home = std::env::var_os("LLM_DO_HOME")
            .map_or_else(|| user.clone().unwrap_or_default().join(".llm-do"), PathBuf::from);
        // Processes that are confined elsewhere get paths in it.
        let home = std::path::absolute(&home).unwrap_or(home);
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
            client_servers: ClientServers::default(),
            providers: Box::new(|providers, _| providers),
            fallback_model: None,
            run: RunOptions::default(),
        }
    }
}
