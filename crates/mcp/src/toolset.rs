//! The toolset kind `mcp`.

use crate::{
    configuration::{Configuration, Server, qualified, schema},
    known::{Change, Definition, Known, name_of},
    listing::{self, Listed},
    pool::{Pool, Starter},
    process::Environment,
    tool::{McpTool, WorkersServer},
};
use llm_do_core::{
    authority::{Network, Place},
    definition::WorkerDefinition,
    function::{
        Concurrency, Function, FunctionMeta, FunctionSource, Implementation, OutputSchema, Risk, tool_name,
    },
    listing::Listing,
    origin::ResultOrigin,
    schema::Schema,
    send::BoxFuture,
    toolset::{Requirement, ToolsetContext, ToolsetKind},
};
use llm_do_sandbox::confine::Confiner;
use serde_json::{Value, json};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::task::JoinSet;

/// Name of the kind.
const NAME: &str = "mcp";

/// How long the first request of a conversation waits for servers whose tools are not known.
const WAIT: Duration = Duration::from_secs(5);

/// Added to the longest time of a call, so that the server is told to stop before the call is given up.
const GRACE: Duration = Duration::from_secs(5);

/// MCP servers as tools.
#[derive(Default)]
pub struct Mcp {
    host: Option<Host>,
    pool: Arc<Pool>,
}

/// What servers need to run.
#[derive(Clone)]
pub struct Host {
    /// Looks up variables of the environment.
    pub environment: Environment,
    /// Confines their processes.
    pub confiner: Arc<Confiner>,
    /// What is known about servers from earlier runs.
    pub known: Known,
}

impl Mcp {
    /// The kind, with what runs its servers.
    pub fn new(host: Host) -> Self {
        Self { host: Some(host), pool: Arc::default() }
    }

    /// The kind alone, for programs that are only read and for replays: it starts nothing.
    pub fn unbound() -> Self {
        Self::default()
    }

    fn server(&self, name: &str, server: &Server, context: &ToolsetContext<'_>) -> WorkersServer {
        let starter = self.host.as_ref().map(|host| Starter {
            confiner: Arc::clone(&host.confiner),
            environment: Arc::clone(&host.environment),
            known: host.known.clone(),
        });
        let (run, authority) = (Arc::clone(context.run), Arc::new(context.authority.clone()));
        WorkersServer::new(name.to_owned(), server.clone(), run, authority, starter, Arc::clone(&self.pool))
    }
}

impl ToolsetKind for Mcp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn starts_processes(&self, worker: &WorkerDefinition) -> bool {
        worker.toolsets.iter().any(|(name, _)| **name == *NAME)
    }

    fn configuration(&self) -> Schema {
        schema()
    }

    fn requires(
        &self,
        _worker: &WorkerDefinition,
        configuration: &Value,
        root: &Place,
    ) -> Result<Vec<Requirement>, String> {
        let servers = Configuration::read(configuration)?.servers;
        let mut all = Vec::new();
        for (name, server) in servers {
            all.extend(server.requires(root).map_err(|reason| format!("server `{name}`: {reason}"))?);
        }
        Ok(all)
    }

    fn lists(&self) -> bool {
        true
    }

    fn list<'a>(
        &'a self,
        configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Listing> {
        Box::pin(async move {
            let servers = Configuration::read(configuration).unwrap_or_default().servers;
            let mut asked = JoinSet::new();
            for (name, server) in &servers {
                let server = self.server(name, server, context);
                asked.spawn(async move {
                    let listed = of_server(&server).await;
                    (server.name, listed)
                });
            }
            let mut all = asked.join_all().await;
            all.sort_by(|(a, _), (b, _)| a.cmp(b));
            let (mut listed, mut notices) = (Listed::new(), Vec::new());
            for (name, of) in all {
                let told = |notice: String| format!("MCP server `{name}`: {notice}").into();
                match of {
                    Ok((tools, more)) => {
                        notices.extend(more.into_iter().map(told));
                        listed.insert(name, tools);
                    }
                    Err(reason) => notices.push(told(reason)),
                }
            }
            Listing { tools: json!(listed), notices }
        })
    }

    fn build<'a>(
        &'a self,
        configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        Box::pin(async move {
            let servers = Configuration::read(configuration)?.servers;
            let listed: Listed = match context.listing {
                Some(listing) => serde_json::from_value(listing.tools.clone())
                    .map_err(|error| format!("the record of its tools can't be read: {error}"))?,
                None => Listed::new(),
            };
            let names = listing::tool_names(&listed);
            let mut functions = Vec::new();
            for (name, tools) in &listed {
                // The record of another definition of the worker may have other servers.
                let Some(server) = servers.get(name) else { continue };
                let server = Arc::new(self.server(name, server, context));
                for tool in tools {
                    let mut function = function(&server, tool, context)?;
                    if let Some(seen) = names.get(&function.meta.name) {
                        function.meta.tool_name = Arc::clone(seen);
                    }
                    functions.push(function);
                }
            }
            Ok(functions)
        })
    }

    fn ending(&self, run: &str) {
        self.pool.end(run);
    }

    fn ended<'a>(&'a self, run: &'a Arc<str>) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            match &self.host {
                Some(host) => host.confiner.watch().end(run).await,
                None => Vec::new(),
            }
        })
    }
}

/// The tools of a server that can be offered, and notices about the others.
///
/// # Errors
/// Why there are none.
async fn of_server(server: &WorkersServer) -> Result<(Vec<Definition>, Vec<String>), String> {
    let left_out = |reason: String| format!("left out of this conversation: {reason}");
    let launch = server.launch().await.map_err(left_out)?;
    let starter = server.starter().map_err(left_out)?;
    let mut starting = server.pool.start(&server.run, launch, starter);
    let mut notices = Vec::new();
    let last = match starting.now() {
        Some(_) => None,
        None => last_list(starter, &server.server).await,
    };
    let tools: Vec<Definition> = match last {
        Some(last) => last,
        None => {
            let live = tokio::time::timeout(WAIT, starting.live()).await.map_err(|_| {
                left_out(format!(
                    "it did not start within {} s. It goes on starting, and the next conversation may have it",
                    WAIT.as_secs()
                ))
            })?;
            let live = live.map_err(|reason| left_out(reason.to_string()))?;
            match tokio::time::timeout(WAIT, live.refresh()).await {
                Ok(Ok(true)) => notices.push("its list of tools has changed".to_owned()),
                Ok(Ok(false)) => {}
                Ok(Err(reason)) => return Err(left_out(reason)),
                Err(_) => return Err(left_out("it did not list its tools in time".to_owned())),
            }
            live.tools().to_vec()
        }
    };
    let mut usable: Vec<Definition> = Vec::new();
    for tool in tools {
        let name = name_of(&tool).to_owned();
        match listing::check(&tool) {
            Err(reason) => notices.push(format!("the tool `{name}` is left out: {reason}")),
            Ok(()) if usable.iter().any(|other| name_of(other) == name) => {
                notices.push(format!("it lists the tool `{name}` twice; the first one counts"));
            }
            Ok(()) => usable.push(tool),
        }
    }
    let root = server.authority.protection().root().clone();
    let (known, name, of) = (starter.known.clone(), server.name.clone(), server.server.clone());
    let accepted = tokio::task::spawn_blocking(move || known.accepted(&root, &name, &of, usable)).await;
    let accepted = accepted.map_err(|error| left_out(error.to_string()))?;
    let (tools, changes) = accepted.map_err(|error| {
        left_out(format!("what you accepted of its tools can't be read or kept: {error}"))
    })?;
    let file = starter.known.acceptance(server.authority.protection().root(), &server.name, &server.server);
    notices.extend(changes.iter().map(|change| withheld(change, &file)));
    Ok((tools, notices))
}

async fn last_list(starter: &Starter, server: &Server) -> Option<Vec<Definition>> {
    let (known, server) = (starter.known.clone(), server.clone());
    let last = tokio::task::spawn_blocking(move || known.last_list(&server)).await.ok()??;
    Some(last.tools)
}

fn withheld(change: &Change, accepted: &Path) -> String {
    format!(
        "the tool `{}` is not the one that you accepted, and is withheld: {}. If you agree, remove {}; the next run \
         accepts the tools as they are then",
        change.tool,
        change.lines().join("; "),
        accepted.display()
    )
}

fn function(
    server: &Arc<WorkersServer>,
    tool: &Definition,
    context: &ToolsetContext<'_>,
) -> Result<Function, String> {
    let name = qualified(&server.name, name_of(tool));
    let wrong = |reason: String| format!("the tool `{name}`: {reason}");
    let output = listing::output(tool).map_err(wrong)?;
    let risk = listing::risk(tool);
    let allowed = context.policy.as_ref().is_some_and(|policy| policy.default.is_some());
    let meta = FunctionMeta {
        source: FunctionSource::Toolset(NAME.into()),
        tool_name: tool_name(&name).into(),
        aliases: &[],
        description: listing::description(tool),
        input: Arc::new(listing::input(tool).map_err(wrong)?),
        output: output.map(Arc::new).map(OutputSchema::Declared),
        risk,
        concurrency: Concurrency::ByRisk,
        timeout: Some(server.server.most().saturating_add(GRACE)),
        contained: *server.authority.bounds().network() == Network::Off && server.server.paths.is_empty(),
        results: ResultOrigin::Foreign,
        wildcard: false,
        policy: context.policy.clone(),
        name: Arc::clone(&name),
    };
    let body = McpTool {
        server: Arc::clone(server),
        name,
        definition: tool.clone(),
        has_output: meta.output.is_some(),
        asks: risk == Risk::Read && !allowed,
    };
    Ok(Function { meta, body: Implementation::Leaf(Arc::new(body)), rule: None })
}
