//! The inspection of a server: the tools that it offers now, compared with those that the operator has agreed to.

use crate::{
    configuration::{At, Configuration, Server, qualified},
    known::{Agreement, Change, Definition, ServerFiles, hash, name_of},
    listing::{self, Listed},
    remote::SignInOptions,
    toolset::Mcp,
};
use llm_do_core::{
    authority::{Network, Place},
    function::Risk,
    toolset::ToolsetContext,
    worker::WorkerDefinition,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A server of a worker, as its configuration describes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Described {
    /// The name of the server.
    pub name: String,
    /// The command line, as the operator grants it.
    pub command: String,
    /// The names of the tools that the operator has agreed to; absent without an agreement.
    pub accepted: Option<Vec<String>>,
    /// True if the lock file holds the agreement.
    pub pinned: bool,
    /// The address and sign-in options of a server over HTTP.
    #[serde(skip)]
    pub remote: Option<RemoteServer>,
}

/// A server over HTTP, as its configuration describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteServer {
    /// The address of the server.
    pub url: String,
    /// The network that it needs. `None` for an address that can't be used.
    pub network: Option<Network>,
    /// The program's options for signing in there.
    pub auth: SignInOptions,
}

/// The tools that a server offers now.
#[derive(Clone, Debug, Serialize)]
pub struct Inspected {
    /// The command line of the server.
    pub command: String,
    /// The tools, in the server's order.
    pub tools: Vec<InspectedTool>,
    /// Names of tools that the operator agreed to and that it no longer lists.
    pub gone: Vec<String>,
    /// The SHA-256 of each tool that can be offered, by its name at the server.
    pub hashes: BTreeMap<String, String>,
}

/// A tool as its server lists it now.
#[derive(Clone, Debug, Serialize)]
pub struct InspectedTool {
    /// The name in rules: `files:read`.
    pub name: String,
    /// The name for models: `files__read`.
    pub tool_name: String,
    /// The description, cut as for a model.
    pub description: String,
    /// The risk that its annotations state.
    pub risk: Risk,
    /// The schema of its arguments.
    pub input: Value,
    /// The schema of its structured results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    /// The comparison with the operator's agreement.
    #[serde(flatten)]
    pub state: ToolState,
}

/// The comparison of a tool with the operator's agreement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ToolState {
    /// No agreement exists yet: the next run accepts the tool.
    Unknown,
    /// The tool is as agreed.
    Accepted,
    /// The tool is withheld: the agreement has no tool of that name.
    New,
    /// The tool is withheld: the agreement has another definition.
    Changed {
        /// The differences, a line for each field.
        changes: Vec<String>,
    },
    /// The tool can't be offered.
    Unusable {
        /// The reason.
        reason: String,
    },
}

impl Mcp {
    /// Returns the servers of a worker's configuration, in the program with that root.
    pub fn describe(&self, configuration: &Value, worker: &WorkerDefinition, root: &Place) -> Vec<Described> {
        let servers = Configuration::read(configuration).unwrap_or_default().servers;
        let described = servers.into_iter().map(|(name, server)| {
            let agreement = Agreement::new(root, &name, &server, worker);
            let agreed = self.known().and_then(|known| known.agreed(&agreement).ok().flatten());
            Described {
                command: server.address(),
                accepted: agreed.map(|agreed| agreed.into_keys().collect()),
                pinned: worker.pins.contains_key(&name),
                remote: match &server.at {
                    At::Process(_) => None,
                    At::Remote(remote) => Some(RemoteServer {
                        url: remote.url.clone(),
                        network: remote.network(),
                        auth: remote.auth.clone(),
                    }),
                },
                name,
            }
        });
        described.collect()
    }

    /// Starts the server of that name, asks for its tools, and ends it. With `accept`, the operator agrees to the tools
    /// as they are.
    ///
    /// # Errors
    /// The server can't be asked, or the agreement can't be kept.
    pub async fn inspect(
        &self,
        name: &str,
        configuration: &Value,
        context: &ToolsetContext<'_>,
        accept: bool,
    ) -> Result<Inspected, String> {
        let servers = Configuration::read(configuration)?.servers;
        let server = servers.get(name).ok_or_else(|| format!("there is no server `{name}`"))?;
        let known = self.known().ok_or_else(|| "nothing starts servers here".to_owned())?;
        let tools = self.tools_of(name, server, context).await?;
        let root = context.authority.protection().root();
        let agreement = Agreement::new(root, name, server, context.worker);
        look(name, server, &tools, known, &agreement, accept).map_err(|error| error.to_string())
    }
}

fn look(
    name: &str,
    server: &Server,
    tools: &[Definition],
    known: &ServerFiles,
    agreement: &Agreement,
    accept: bool,
) -> std::io::Result<Inspected> {
    let usable: Vec<Definition> = tools.iter().filter(|tool| listing::check(tool).is_ok()).cloned().collect();
    let compared = known.compare(agreement, &usable)?;
    let names = listing::tool_names(&Listed::from([(name.to_owned(), tools.to_vec())]));
    let state = |tool: &Definition| {
        if let Err(reason) = listing::check(tool) {
            return ToolState::Unusable { reason };
        }
        let Some((_, changes)) = &compared else { return ToolState::Unknown };
        match changes.iter().find(|change| change.tool == name_of(tool)) {
            None => ToolState::Accepted,
            Some(change) if change.is_new() => ToolState::New,
            Some(change) => ToolState::Changed { changes: Change::lines(change) },
        }
    };
    let shown = tools.iter().map(|tool| {
        let qualified = qualified(name, name_of(tool));
        InspectedTool {
            tool_name: names.get(&qualified).unwrap_or(&qualified).to_string(),
            description: listing::written(tool).unwrap_or_default(),
            risk: listing::risk(tool),
            input: tool.get("inputSchema").cloned().unwrap_or_else(|| json!({})),
            output: tool.get("outputSchema").cloned(),
            state: state(tool),
            name: qualified.to_string(),
        }
    });
    let listed: BTreeSet<&str> = tools.iter().map(name_of).collect();
    let agreed = known.agreed(agreement)?.unwrap_or_default();
    let inspected = Inspected {
        command: server.address(),
        tools: shown.collect(),
        gone: agreed.into_keys().filter(|tool| !listed.contains(tool.as_str())).collect(),
        hashes: usable.iter().map(|tool| (name_of(tool).to_owned(), hash(tool))).collect(),
    };
    if accept {
        known.accept(agreement, &usable)?;
    }
    Ok(inspected)
}
