//! Settings for opening a program, and options of a single run.

use crate::grant::{Grant, Grantor, RememberedGrants};
use llm_do_core::{
    attachment::Attachment,
    client_tool::ClientTool,
    gate::{Mode, RuleLine},
    ledger::Budget,
    model::{ModelName, ModelSettings},
    question::Requester,
    toolset::ToolsetRegistry,
    worker::GivenLimits,
};
use llm_do_mcp::ClientServers;
use llm_do_models::Providers;
use llm_do_program::target::{Request, Surroundings};
use llm_do_sandbox::confine::Confiner;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{path::PathBuf, sync::Arc, time::Duration};

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

/// A client of a service, which started a run in the place of the operator. The run's journal records it, so that the
/// service knows its runs again after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// The name of the client.
    pub name: Arc<str>,
    /// The program's name in the service. For a server of the Model Context Protocol it is `mcp:` with the program's root, so that
    /// a service over HTTP does not take the run for one of its own.
    pub program: Arc<str>,
    /// The key of the request that started the run: a second request with it starts no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
}

/// The client's identification of a request, so that it can safely repeat the request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IdempotencyKey {
    /// The client's name for the request.
    pub key: Arc<str>,
    /// The SHA-256 hash of the request's content, in hexadecimal digits.
    pub request: Arc<str>,
}

/// Options of a single run, as opposed to those of the process.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The model that replaces the one of every worker that is not locked.
    pub model: Option<ModelName>,
    /// Sampling settings that replace those of every worker that is not locked.
    pub set: ModelSettings,
    /// Limits that replace those of every worker that is not locked.
    pub limits: GivenLimits,
    /// The effect of `ask`. Absent: as the user's configuration says, else interactive. The program's manifest can only tighten it.
    pub mode: Option<Mode>,
    /// True if an operator can be asked.
    pub can_ask: bool,
    /// The mode in place of `interactive` where no operator can be asked: `auto_deny`. A resumed run that was once interactive waits
    /// for its operator instead. See `docs/reference/approvals.md`.
    pub unattended: Mode,
    /// The operator's rules.
    pub rules: Vec<RuleLine>,
    /// Grants beyond the program's own folder.
    pub grants: Vec<Grant>,
    /// The budget of the run.
    pub budget: Budget,
    /// The program whose budgets over time count the run, if it is another than the one that is opened: the case of a test
    /// runs a copy of its program.
    pub budgets_of: Option<PathBuf>,
    /// True if the entry holds a conversation with the operator.
    pub chat: bool,
    /// True if somebody other than the operator writes the inputs, for example a client of a server: they are then
    /// untrusted (`docs/reference/origins.md`).
    pub untrusted_input: bool,
    /// The client of a service that starts the run, if the operator does not.
    pub client: Option<Client>,
    /// The tools that this client declares and executes itself.
    pub client_tools: Vec<ClientTool>,
    /// The requester of the run, and the channel of the request, as its journal records them.
    pub requester: Requester,
    /// Time that a question of the run waits for its answer. After this time, a call is denied and an input declined.
    pub questions_expire: Option<Duration>,
    /// The folder that must contain the paths of an input whose author may not hand over other files: the case of a
    /// test has a copy of the program. Absent: the operator's own words hand over the files that they name.
    pub paths_below: Option<PathBuf>,
}

impl Default for RunOptions {
    /// Returns options without overrides and without an operator to ask: a call that needs an approval is refused.
    fn default() -> Self {
        Self {
            model: None,
            set: ModelSettings::default(),
            limits: GivenLimits::default(),
            mode: None,
            can_ask: false,
            unattended: Mode::AutoDeny,
            rules: Vec::new(),
            grants: Vec::new(),
            budget: Budget::default(),
            budgets_of: None,
            chat: false,
            untrusted_input: false,
            client: None,
            client_tools: Vec::new(),
            requester: Requester::operator("library"),
            questions_expire: None,
            paths_below: None,
        }
    }
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

/// The input of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Input {
    /// A plain message.
    pub message: Option<String>,
    /// The whole input as JSON.
    pub json: Option<Value>,
    /// Parameters as text, by name.
    pub parameters: Vec<(String, String)>,
    /// Files to attach.
    pub attachments: Vec<PathBuf>,
    /// Files to attach whose content the caller already has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contents: Vec<Attachment>,
    /// Files that the host hands over: those that a service has taken from the client who starts the run, and those of a folder
    /// of inputs. Parts that the operator did not write may name them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handed: Vec<PathBuf>,
    /// The parts that were read from a file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<ReadPart>,
}

/// A part of an input that was read from a file: the operator did not write its words. A path in it names only places
/// that the entry may see, and grants nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadPart {
    /// The part.
    pub part: InputPart,
    /// True if others wrote the file ([`Session::is_of_others`](crate::Session::is_of_others)).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
}

/// A part of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputPart {
    /// [`Input::message`].
    Message,
    /// [`Input::json`].
    Json,
    /// A parameter of [`Input::parameters`].
    Parameter(String),
}
