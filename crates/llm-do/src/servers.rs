//! The MCP servers of a program, and their tools (`docs/reference/mcp.md`).

use crate::{
    grant::{Grant, RememberedGrants, parse_grant},
    loaded::Loaded,
    missing,
    problem::Problem,
};
use llm_do_core::{
    function::FunctionSource,
    toolset::{Configuration, ToolsetContext, ToolsetKind},
    worker::{Definitions, WorkerDefinition},
};
use llm_do_host::{Host as _, grants as granted_by};
use llm_do_mcp::{Inspected, RemoteServer};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// An MCP server of a program.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    /// The name of the server; `LIBRARY:NAME` for a server of a library.
    pub name: String,
    /// The command line of the server, as the operator grants it.
    pub command: String,
    /// IDs of the workers that have its tools; empty if only the manifest names it.
    pub workers: Vec<String>,
    /// True if a remembered grant of this program allows the server's process, or the network that it needs.
    pub granted: bool,
    /// The names of the tools that the operator has agreed to; absent without an agreement.
    pub accepted: Option<Vec<String>>,
    /// True if the lock file pins the tools.
    pub pinned: bool,
    /// The configuration of the server, if it is one over HTTP.
    #[serde(skip)]
    pub remote: Option<RemoteServer>,
    /// A worker whose only toolset has only this server.
    #[serde(skip)]
    worker: Arc<WorkerDefinition>,
    /// The name of the server in that worker's configuration.
    #[serde(skip)]
    own_name: String,
}

/// A server with the tools that it lists now.
#[derive(Clone, Debug, Serialize)]
pub struct Inspection {
    /// The server.
    pub server: Server,
    /// The library that defines it.
    pub library: Option<String>,
    /// The name of the server in that library, or in the program.
    pub own_name: String,
    /// The tools that the server lists.
    #[serde(flatten)]
    pub offers: Inspected,
}

impl Loaded {
    /// Returns the MCP servers of the program: those that its manifest declares, those of all its workers, and those of
    /// the workers of libraries that are loaded. Sorted by name. Nothing is started.
    ///
    /// # Errors
    /// The remembered grants can't be read.
    pub fn servers(&self) -> Result<Vec<Server>, Problem> {
        let remembered = RememberedGrants::of(self.host().home()).list()?;
        let mine = remembered.iter().filter(|granted| granted.program == *self.identity().as_str());
        let granted: Vec<&String> = mine.flat_map(|granted| &granted.capabilities).collect();
        let mut servers: Vec<Server> = Vec::new();
        let kind = self.host().mcp.name();
        for file in self.program().workers() {
            // A worker with errors has no servers that could be used.
            let _ = self.program().named_by(&FunctionSource::Program, &file.id);
        }
        for worker in self.program().loaded() {
            if let Some((_, whole)) = worker.toolsets.iter().find(|(name, _)| **name == *kind) {
                let own = Configuration::parse(whole, kind).unwrap_or_default().own;
                self.add(&mut servers, &worker, &own, true, &granted);
            }
        }
        if let Some(declared) = self.program().declared(kind) {
            self.add(&mut servers, self.program().entry(), &json!({ "servers": declared }), false, &granted);
        }
        servers.sort_by(|a, b| (&a.name, &a.command).cmp(&(&b.name, &b.command)));
        Ok(servers)
    }

    fn add(
        &self,
        servers: &mut Vec<Server>,
        worker: &Arc<WorkerDefinition>,
        configuration: &Value,
        is_used: bool,
        granted: &[&String],
    ) {
        let mcp = &self.host().mcp;
        let root = self.program().protection().root();
        for described in mcp.describe(configuration, worker, root) {
            let name = match &worker.source {
                FunctionSource::Library(library) => format!("{library}:{}", described.name),
                _ => described.name.clone(),
            };
            let used_by = is_used.then(|| worker.id.to_string());
            let own = configuration["servers"][&described.name].clone();
            let same = |known: &&mut Server| known.name == name && known.configuration() == own;
            if let Some(known) = servers.iter_mut().find(same) {
                known.workers.extend(used_by);
                continue;
            }
            let grant = Grant::Process(described.command.as_str().into()).to_string();
            let is_granted = match &described.remote {
                None => granted.iter().any(|capability| **capability == grant),
                Some(RemoteServer { network, .. }) => {
                    let grants: Vec<Grant> =
                        granted.iter().filter_map(|capability| parse_grant(capability).ok()).collect();
                    network.as_ref().is_some_and(|network| granted_by::network(&grants).covers(network))
                }
            };
            let toolsets = vec![(mcp.name().into(), Arc::new(json!({"servers": {&described.name: own}})))];
            servers.push(Server {
                name,
                workers: used_by.into_iter().collect(),
                granted: is_granted,
                accepted: described.accepted,
                pinned: described.pinned,
                remote: described.remote,
                command: described.command,
                worker: Arc::new(WorkerDefinition { toolsets, ..(**worker).clone() }),
                own_name: described.name,
            });
        }
    }

    /// Starts a server, asks for its tools, and ends it. It sees the files that a worker with its tools sees. With
    /// `accept`, the operator agrees to the tools as they are.
    ///
    /// # Errors
    /// A grant is missing, or the server can't be asked.
    pub async fn inspect(
        &self,
        server: &Server,
        grants: &[Grant],
        accept: bool,
    ) -> Result<Inspection, Problem> {
        let machinery = &**self.host();
        let failed = |reason: String| Problem::Server { server: server.name.clone(), reason };
        let workers = [Arc::clone(&server.worker)];
        let mut grants = grants.to_vec();
        machinery.apply(&grants)?;
        let mut missing = granted_by::toolsets(&workers, &machinery.toolsets, &grants);
        missing.extend(missing::confinement(&workers, &machinery.toolsets, &machinery.confiner, &grants));
        if !missing.is_empty() {
            grants.extend(granted_by::obtain(machinery, self.identity(), missing)?);
            machinery.apply(&grants)?;
        }
        granted_by::check_variables(&workers, &machinery.toolsets, machinery)?;
        let worker = &server.worker;
        let mut narrowing = worker.sandbox.narrowing.clone();
        narrowing.foreign |= matches!(worker.source, FunctionSource::Library(_));
        let authority = self
            .program()
            .authority(&granted_by::places(&grants), granted_by::network(&grants), &[])
            .with_variables(granted_by::variables(&grants))
            .with_processes(granted_by::processes(&grants))
            .narrow(&worker.id, &narrowing)
            .map_err(|refusal| failed(refusal.to_string()))?;
        let definitions: Arc<dyn Definitions> = Arc::clone(self.program()) as _;
        let context = ToolsetContext {
            run: &"inspect".into(),
            worker,
            authority: &authority,
            definitions: &definitions,
            kinds: &machinery.toolsets,
            policy: None,
            client_tools: &[],
            listing: None,
        };
        let configuration = json!({"servers": {&server.own_name: server.configuration()}});
        let offers = machinery.mcp.inspect(&server.own_name, &configuration, &context, accept).await;
        let library = match &worker.source {
            FunctionSource::Library(library) => Some(library.to_string()),
            _ => None,
        };
        Ok(Inspection {
            server: server.clone(),
            library,
            own_name: server.own_name.clone(),
            offers: offers.map_err(failed)?,
        })
    }
}

impl Server {
    /// Returns the definition of the server.
    fn configuration(&self) -> Value {
        let whole = self.worker.toolsets.first().map(|(_, whole)| Arc::clone(whole)).unwrap_or_default();
        whole["servers"][&self.own_name].clone()
    }
}
