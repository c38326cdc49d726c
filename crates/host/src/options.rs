//! Options of a single run.

use crate::grant::Grant;
use llm_do_core::{
    client_tool::ClientTool,
    gate::{Mode, RuleLine},
    ledger::Budget,
    model::{ModelName, ModelSettings},
    question::Requester,
    worker::GivenLimits,
};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, sync::Arc, time::Duration};

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
    /// True if the program is a copy that nothing else uses, as on a node of a cluster: its folder can only be read.
    pub program_is_copy: bool,
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
            program_is_copy: false,
            paths_below: None,
        }
    }
}
