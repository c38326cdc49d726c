//! The toolset kind `mcp`.

use crate::{
    client_servers::{ClientServers, is_of_client},
    configuration::{At, CLIENT, Configuration, Server, qualified, schema},
    environment::Environment,
    foreseen,
    known::{Agreement, Change, Definition, ServerFiles, name_of},
    listing::{self, Listed},
    pool::Pool,
    prompts,
    resources::{self, Resources},
    scripts,
    starter::Starter,
    tool::{McpTool, WorkersServer},
};
use llm_do_core::{
    authority::{Access, Mount, Origin, Place, VirtualPath},
    definition::WorkerDefinition,
    function::{
        Concurrency, Function, FunctionMeta, FunctionSource, Implementation, OutputSchema, Risk, tool_name,
    },
    listing::Listing,
    origin::ResultOrigin,
    schema::{Schema, canonical, sha256},
    send::BoxFuture,
    template::Insert,
    toolset::{
        ConfigurationProblem, Declarations, Executed, ForeseenTools, Requirement, ToolsetContext,
        ToolsetKind, ToolsetRuntime,
    },
    vfs::FileSystem,
};
use llm_do_sandbox::confine::Confiner;
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::task::JoinSet;

/// The name of the kind.
const NAME: &str = "mcp";

/// Most time that the first request of a conversation waits for servers whose tools are not known.
const WAIT: Duration = Duration::from_secs(5);

/// Time that is added to the longest time of a call, so that the server is sent the cancellation before the call is
/// given up.
const GRACE: Duration = Duration::from_secs(5);

/// MCP servers as tools.
#[derive(Default)]
pub struct Mcp {
    host: Option<Host>,
    /// The known facts about servers, also where no server runs.
    known: Option<ServerFiles>,
    pool: Arc<Pool>,
    resources: Resources,
    client: ClientServers,
}

/// All that servers need to run.
#[derive(Clone)]
pub struct Host {
    /// Looks up variables of the environment.
    pub environment: Environment,
    /// Confines their processes.
    pub confiner: Arc<Confiner>,
    /// The facts about servers from earlier runs.
    pub known: ServerFiles,
}

impl Mcp {
    /// Makes the kind, with a host that runs its servers.
    pub fn new(host: Host) -> Self {
        Self { known: Some(host.known.clone()), host: Some(host), ..Self::default() }
    }

    /// Adds the servers of a session's client, for workers that list `client`.
    #[must_use]
    pub fn with_client(self, client: ClientServers) -> Self {
        Self { client, ..self }
    }

    /// Returns true if a worker lists the servers of the session's client.
    pub fn lists_client(&self, worker: &WorkerDefinition) -> bool {
        let configurations = worker.toolsets.iter().filter(|(name, _)| **name == *NAME);
        configurations.filter_map(|(_, value)| Configuration::read(value).ok()).any(|own| own.client)
    }

    /// Returns the servers of a worker with that configuration.
    fn servers(&self, configuration: Configuration) -> BTreeMap<String, Server> {
        let mut servers = configuration.servers;
        if configuration.client {
            servers.extend(self.client.servers().clone());
        }
        servers
    }

    /// Makes the kind for programs that are only read: it starts no servers.
    pub fn reading(known: ServerFiles) -> Self {
        Self { known: Some(known), ..Self::default() }
    }

    /// Makes the kind alone, for replays and where no facts about servers are known: it starts no servers.
    pub fn unbound() -> Self {
        Self::default()
    }

    /// Returns the facts about servers from earlier runs.
    pub(crate) fn known(&self) -> Option<&ServerFiles> {
        self.known.as_ref()
    }

    /// Returns the tools that a server lists now. The server is started for that, and ended.
    ///
    /// # Errors
    /// The server does not list its tools.
    pub(crate) async fn tools_of(
        &self,
        name: &str,
        server: &Server,
        context: &ToolsetContext<'_>,
    ) -> Result<Vec<Definition>, String> {
        let server = self.server(name, server, context);
        let mut starting = self.pool.start(context.run, server.launch().await?, server.starter()?);
        let tools = starting.live().await.map(|live| live.tools().to_vec());
        self.ending(context.run);
        self.ended(context.run).await;
        tools.map_err(|reason| reason.to_string())
    }

    fn server(&self, name: &str, server: &Server, context: &ToolsetContext<'_>) -> WorkersServer {
        let starter = self.host.as_ref().map(|host| Starter {
            confiner: Arc::clone(&host.confiner),
            environment: Arc::clone(&host.environment),
            known: host.known.clone(),
        });
        let (worker, run) = (Arc::clone(context.worker), Arc::clone(context.run));
        let (authority, pool) = (Arc::new(context.authority.clone()), Arc::clone(&self.pool));
        WorkersServer::new(name.to_owned(), server.clone(), worker, run, authority, starter, pool)
    }
}

impl Mcp {
    /// Returns the mounts of the resources of the configured servers. In a run, the servers are served from then on.
    fn mounts_of(
        &self,
        worker: &WorkerDefinition,
        configuration: &Value,
        context: Option<&ToolsetContext<'_>>,
    ) -> Vec<Mount> {
        let configuration = Configuration::read(configuration).unwrap_or_default();
        let mounts = configuration.with_resources().map(|(name, server)| {
            // Equal for the same server with the same view, so that calls of one worker share it, and after a resume.
            let run = context.map(|context| &**context.run);
            let may = context.map(|context| (context.authority.view(), context.authority.bounds()));
            let of = json!([worker.source, worker.id, name, server.key(), run, may]);
            let key = format!("{name}-{}", &sha256(canonical(&of).as_bytes())[..16]);
            if let Some(context) = context {
                self.resources.serve(&key, || self.server(name, server, context));
            }
            let at = VirtualPath::root().join(resources::FOLDER).join(name);
            Mount {
                origin: Origin::Declared,
                untrusted: true,
                ..Mount::new(at, Place::served(NAME, &key), Access::Read)
            }
        });
        mounts.collect()
    }
}

impl ToolsetKind for Mcp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn starts_processes(&self, worker: &WorkerDefinition) -> bool {
        let configurations = worker.toolsets.iter().filter(|(name, _)| **name == *NAME);
        let servers = configurations.filter_map(|(_, value)| Configuration::read(value).ok());
        servers.flat_map(|all| self.servers(all)).any(|(_, server)| matches!(server.at, At::Process(_)))
    }

    fn configuration(&self) -> Schema {
        schema()
    }

    fn declarations(&self) -> Option<Declarations> {
        let (manifest_key, property, noun) = ("mcp_servers", "servers", "MCP server");
        Some(Declarations { manifest_key, property, noun, reserved: Some(CLIENT) })
    }

    fn problems(&self, worker: &WorkerDefinition, configuration: &Value) -> Vec<ConfigurationProblem> {
        let configuration = Configuration::read(configuration).unwrap_or_default();
        // The user has given the servers of the client to the program, and not to its libraries.
        let foreign = configuration.client && matches!(worker.source, FunctionSource::Library(_));
        let foreign = foreign.then(|| ConfigurationProblem {
            pointer: "/servers".to_owned(),
            reason: format!("a library's worker can't have `{CLIENT}`, the servers of the session's client"),
        });
        let packages = self.known.as_ref().map(ServerFiles::packages);
        let packages = packages.as_ref();
        let problems = configuration.servers.iter().flat_map(|(name, server)| {
            let missing = server.command().and_then(|command| command.installed(packages?).err());
            let missing =
                missing.map(|reason| ConfigurationProblem { pointer: "/package".to_owned(), reason });
            server.problems(worker).into_iter().chain(missing).map(move |problem| ConfigurationProblem {
                pointer: format!("/servers/{name}{}", problem.pointer),
                reason: format!("the server `{name}`: {}", problem.reason),
            })
        });
        problems.chain(configuration.problems()).chain(foreign).collect()
    }

    fn requires(&self, worker: &WorkerDefinition, configuration: &Value) -> Vec<Requirement> {
        let servers = Configuration::read(configuration).unwrap_or_default().servers;
        servers.values().flat_map(|server| server.requires(&worker.root)).collect()
    }

    fn foreseen(&self, worker: &WorkerDefinition, configuration: &Value, root: &Place) -> ForeseenTools {
        let configuration = Configuration::read(configuration).unwrap_or_default();
        foreseen::tools(&configuration, worker, root, self.known.as_ref())
    }

    fn executes(&self, worker: &WorkerDefinition, configuration: &Value, folders: &[Place]) -> Executed {
        let servers = Configuration::read(configuration).unwrap_or_default().servers;
        let commands = servers.values().filter_map(Server::command);
        let all = commands.map(|command| scripts::of(command, &worker.root, folders));
        all.fold(Executed::default(), Executed::and)
    }

    fn lists(&self) -> bool {
        true
    }

    fn has_mounts(&self) -> bool {
        true
    }

    fn mounts(&self, worker: &WorkerDefinition, configuration: &Value) -> Vec<Mount> {
        self.mounts_of(worker, configuration, None)
    }

    fn inserts(&self) -> bool {
        true
    }

    fn check_insert(&self, configuration: &Value, name: &str) -> Result<(), String> {
        let (server, _) = prompts::parts(name)?;
        let servers = Configuration::read(configuration).unwrap_or_default().servers;
        match servers.contains_key(server) {
            true => Ok(()),
            false => Err(unknown_server(server, &servers)),
        }
    }
}

impl ToolsetRuntime for Mcp {
    fn mounts_in(
        &self,
        worker: &WorkerDefinition,
        configuration: &Value,
        context: &ToolsetContext<'_>,
    ) -> Vec<Mount> {
        self.mounts_of(worker, configuration, Some(context))
    }

    fn list<'a>(
        &'a self,
        configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Listing> {
        Box::pin(async move {
            let servers = self.servers(Configuration::read(configuration).unwrap_or_default());
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
            let servers = self.servers(Configuration::read(configuration)?);
            let listed: Listed = match context.listing {
                Some(listing) => serde_json::from_value(listing.tools.clone())
                    .map_err(|error| format!("the record of its tools can't be read: {error}"))?,
                None => Listed::new(),
            };
            let names = listing::tool_names(&listed);
            let mut functions = Vec::new();
            for (name, tools) in &listed {
                // The record of another definition of the worker may have other servers.
                let server = match servers.get(name) {
                    Some(server) => self.server(name, server, context),
                    // The conversation began with its tools.
                    None if is_of_client(name) => self.server(name, &Server::absent(), context),
                    None => continue,
                };
                let server = Arc::new(server);
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

    fn served(&self) -> Option<&dyn FileSystem> {
        Some(&self.resources)
    }

    fn insert<'a>(
        &'a self,
        configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
        insert: &'a Insert,
    ) -> BoxFuture<'a, Result<Arc<str>, String>> {
        Box::pin(async move {
            let (name, prompt) = prompts::parts(&insert.name)?;
            let servers = Configuration::read(configuration)?.servers;
            let server = servers.get(name).ok_or_else(|| unknown_server(name, &servers))?;
            prompts::text(&self.server(name, server, context), prompt, &insert.arguments).await
        })
    }

    fn ending(&self, run: &str) {
        self.resources.end(run);
        self.pool.end(run);
    }

    fn ended<'a>(&'a self, run: &'a Arc<str>) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            self.pool.ended(run).await;
            match &self.host {
                Some(host) => host.confiner.watch().end(run).await,
                None => Vec::new(),
            }
        })
    }
}

fn unknown_server(name: &str, servers: &BTreeMap<String, Server>) -> String {
    let has: Vec<&str> = servers.keys().map(String::as_str).collect();
    format!("the worker has no MCP server `{name}`; it has: {}", has.join(", "))
}

/// Returns the tools of a server that can be offered, and notices about the others.
///
/// # Errors
/// The server has no tools that can be used.
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
                    "it did not start within {} s. It is still starting, and the next conversation may have it",
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
            Err(reason) if name.is_empty() => notices.push(format!("a tool is left out: {reason}")),
            Err(reason) => notices.push(format!("the tool `{name}` is left out: {reason}")),
            Ok(()) if usable.iter().any(|other| name_of(other) == name) => {
                notices.push(format!("it lists the tool `{name}` twice; the first one counts"));
            }
            Ok(()) => usable.push(tool),
        }
    }
    if is_of_client(&server.name) {
        let (tools, changes) = server.pool.pins.sort(&server.run, &server.name, usable);
        notices.extend(changes.iter().map(changed_since));
        return Ok((tools, notices));
    }
    let root = server.authority.protection().root().clone();
    let known = starter.known.clone();
    let agreement = Agreement::new(&root, &server.name, &server.server, &server.worker);
    let accepted = tokio::task::spawn_blocking(move || known.accepted(&agreement, usable)).await;
    let accepted = accepted.map_err(|error| left_out(error.to_string()))?;
    let (tools, changes) = accepted.map_err(|error| {
        left_out(format!("what you accepted of its tools can't be read or kept: {error}"))
    })?;
    notices.extend(changes.iter().map(|change| withheld(change, &server.full_name())));
    Ok((tools, notices))
}

async fn last_list(starter: &Starter, server: &Server) -> Option<Vec<Definition>> {
    let (known, server) = (starter.known.clone(), server.clone());
    let last = tokio::task::spawn_blocking(move || known.last_list(&server)).await.ok()??;
    Some(last.tools)
}

fn changed_since(change: &Change) -> String {
    format!(
        "the tool `{}` is not the one that it had when the session began, and is withheld: {}",
        change.tool,
        change.lines().join("; "),
    )
}

fn withheld(change: &Change, server: &str) -> String {
    format!(
        "the tool `{}` is not the one that you accepted, and is withheld: {}. If you agree, run \
         `llm-do mcp inspect {server} --accept`",
        change.tool,
        change.lines().join("; "),
    )
}

/// Returns the risk of a tool. The arguments of a server over HTTP leave the machine, even if it only reads. Data that
/// a server of the client reads belongs to the user, and not to the program.
fn risk(server: &WorkersServer, tool: &Definition) -> Risk {
    let leaves = matches!(server.server.at, At::Remote(_)) || is_of_client(&server.name);
    match listing::risk(tool) {
        Risk::Read if leaves => Risk::Network,
        risk => risk,
    }
}

/// Returns true if the effects of a server's tools stay within the mounts of the worker.
fn is_contained(server: &WorkersServer) -> bool {
    match &server.server.at {
        _ if is_of_client(&server.name) => false,
        At::Process(command) => server.authority.bounds().network().is_off() && command.paths.is_empty(),
        At::Remote(_) => false,
    }
}

fn function(
    server: &Arc<WorkersServer>,
    tool: &Definition,
    context: &ToolsetContext<'_>,
) -> Result<Function, String> {
    let name = qualified(&server.name, name_of(tool));
    let wrong = |reason: String| format!("the tool `{name}`: {reason}");
    let output = listing::output(tool).map_err(wrong)?;
    let risk = risk(server, tool);
    let allowed = context.policy.as_ref().is_some_and(|policy| policy.default.is_some());
    let meta = FunctionMeta {
        source: FunctionSource::Toolset(NAME.into()),
        tool_name: tool_name(&name).into(),
        aliases: &[],
        description: listing::description(&server.name, tool),
        input: Arc::new(listing::input(tool).map_err(wrong)?),
        output: output.map(Arc::new).map(OutputSchema::Declared),
        risk,
        concurrency: Concurrency::ByRisk,
        timeout: Some(server.server.most().saturating_add(GRACE)),
        contained: is_contained(server),
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
