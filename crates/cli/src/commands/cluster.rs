//! `llm-do cluster`, and runs on a cluster (`docs/guides/cluster.md`).

mod follow;
mod local;
mod node;

pub(crate) use follow::{resume, run};
pub(crate) use local::{LocalCopy, export_copy, list};

use crate::{
    args::{ClusterCommand, DatabaseArgs, Format, MakeTenantArgs, StatusArgs, TenantArgs},
    exit::{Complaint, Exit},
    render::Output,
    visible,
};
use llm_do_cluster::{ClusterError, Database, Dispatch, RunInfo};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The beginning of the name of a run on a cluster.
pub(crate) const PREFIX: &str = "pg:";

/// Runs a subcommand.
pub(crate) fn command(command: &ClusterCommand, output: &Output) -> Result<Exit, Complaint> {
    match command {
        ClusterCommand::Init(args) => init(args, output)?,
        ClusterCommand::Migrate(args) => migrate(args, output)?,
        ClusterCommand::Work(args) => return node::work(args, output),
        ClusterCommand::Status(args) => status(args, output)?,
        ClusterCommand::Drain { node, database } => drain(node.as_deref(), database, output)?,
        ClusterCommand::Cancel { run, tenant } => cancel(run, tenant, output)?,
        ClusterCommand::Tenant(args) => tenant(args, output)?,
        ClusterCommand::Clean { older_than, database } => {
            let opened = Opened::new(database)?;
            let [runs, programs, files] = opened.wait(opened.database.clean(*older_than))?;
            if output.format == Format::Text {
                output.note(&format!("removed {runs} runs, {programs} programs and {files} files"));
            } else {
                output.print_json(&json!({"runs": runs, "programs": programs, "files": files}));
            }
        }
    }
    Ok(Exit::Done)
}

/// A database, and the runtime of its connections.
pub(crate) struct Opened {
    pub(crate) database: Arc<Database>,
    pub(crate) runtime: Runtime,
}

impl Opened {
    pub(crate) fn new(args: &DatabaseArgs) -> Result<Self, Complaint> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
        Ok(Self { database: Database::new(&args.database).map_err(failed)?, runtime })
    }

    pub(crate) fn wait<T>(
        &self,
        future: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, Complaint> {
        self.runtime.block_on(future).map_err(failed)
    }

    /// Returns the runs of a tenant.
    pub(crate) fn dispatch(&self, tenant: Option<&str>) -> Result<Dispatch, Complaint> {
        self.wait(self.database.tenant(tenant))
    }
}

/// Returns the message for an error of a cluster.
pub(crate) fn failed(error: ClusterError) -> Complaint {
    let text = error.to_string();
    match error {
        ClusterError::Url(_) | ClusterError::Missing(_) | ClusterError::NotPortable(_) => Complaint::wrong(text),
        ClusterError::NoCluster => Complaint::wrong(text).hint(
            "`llm-do cluster init` installs one; `llm-do cluster tenant NAME --member ROLE` lets a role use a tenant",
        ),
        ClusterError::OtherSchema { found, known } if found < known => {
            Complaint::wrong(text).hint("`llm-do cluster migrate` brings it to this version")
        }
        ClusterError::OtherSchema { .. } => Complaint::wrong(text).hint("use a newer llm-do"),
        _ => Complaint::failed(text),
    }
}

fn init(args: &DatabaseArgs, output: &Output) -> Result<(), Complaint> {
    let opened = Opened::new(args)?;
    opened.wait(opened.database.init())?;
    output.note("the database is ready; `llm-do cluster work` starts a node");
    Ok(())
}

/// Version 1 is the first, so there is nothing to bring forward: an older schema does not exist, and a newer one is refused.
fn migrate(args: &DatabaseArgs, output: &Output) -> Result<(), Complaint> {
    let opened = Opened::new(args)?;
    opened.wait(opened.database.check())?;
    output.note("the schema has the version of this program");
    Ok(())
}

fn status(args: &StatusArgs, output: &Output) -> Result<(), Complaint> {
    let opened = Opened::new(&args.database)?;
    let mut tenants = Vec::new();
    for dispatch in opened.wait(opened.database.tenants())? {
        let runs = opened.wait(dispatch.runs("", args.limit))?;
        tenants.push((dispatch, runs));
    }
    // Only the owner sees nodes and members.
    let nodes = opened.wait(opened.database.nodes()).unwrap_or_default();
    let all = opened.wait(opened.database.all_tenants()).unwrap_or_default();
    if output.format != Format::Text {
        let nodes: Vec<Value> = nodes
            .iter()
            .map(|node| {
                json!({
                    "name": node.name, "version": node.version, "running": node.running, "draining": node.draining,
                    "seen_seconds_ago": node.seen.as_secs(),
                })
            })
            .collect();
        let tenants: Vec<Value> = tenants
            .iter()
            .map(|(dispatch, runs)| {
                let known = all.iter().find(|known| known.name == dispatch.tenant());
                json!({
                    "name": dispatch.tenant(),
                    "max_running": known.and_then(|known| known.max_running),
                    "roles": known.map(|known| &known.roles),
                    "open": known.map(|known| known.open),
                    "runs": runs.iter().map(to_json).collect::<Vec<_>>(),
                })
            })
            .collect();
        output.print_json(&json!({"nodes": nodes, "tenants": tenants}));
        return Ok(());
    }
    let mut text = String::new();
    for node in &nodes {
        let state = if node.draining { "draining" } else { "working" };
        let (name, version) = (visible::line(&node.name), visible::line(&node.version));
        let seen = node.seen.as_secs();
        text +=
            &format!("node {name}  {state}  {} runs  llm-do {version}  seen {seen} s ago\n", node.running);
    }
    for (dispatch, runs) in &tenants {
        let known = all.iter().find(|known| known.name == dispatch.tenant());
        let limit = known.and_then(|known| known.max_running).map(|most| format!(", at most {most} at once"));
        let open = known.map(|known| format!("  {} open{}", known.open, limit.unwrap_or_default()));
        text += &format!("tenant {}{}\n", dispatch.tenant(), open.unwrap_or_default());
        text.extend(runs.iter().map(line));
    }
    output.print(&text);
    Ok(())
}

/// Returns a run as a line of a list.
pub(crate) fn line(run: &RunInfo) -> String {
    let node = run.node.as_deref().map(|node| format!("  on {}", visible::line(node))).unwrap_or_default();
    let reason =
        run.reason.as_deref().map(|reason| format!("  {}", visible::line(reason))).unwrap_or_default();
    format!("{PREFIX}{}  {:<11}  {:>6} records{node}{reason}\n", run.id, run.state, run.records)
}

/// Returns a run as JSON.
pub(crate) fn to_json(run: &RunInfo) -> Value {
    json!({
        "run": format!("{PREFIX}{}", run.id), "state": run.state, "records": run.records, "node": run.node,
        "program": run.bundle, "reason": run.reason,
    })
}

fn drain(node: Option<&str>, database: &DatabaseArgs, output: &Output) -> Result<(), Complaint> {
    let opened = Opened::new(database)?;
    let count = opened.wait(opened.database.drain(node))?;
    match (count, node) {
        (0, Some(node)) => Err(Complaint::wrong(format!("the cluster has no node `{node}`"))),
        _ => {
            output.note(&format!("{count} nodes take no more runs"));
            Ok(())
        }
    }
}

fn cancel(run: &str, tenant: &TenantArgs, output: &Output) -> Result<(), Complaint> {
    let opened = Opened::new(&tenant.database)?;
    let dispatch = opened.dispatch(tenant.tenant.as_deref())?;
    let found = opened.wait(dispatch.find(run.strip_prefix(PREFIX).unwrap_or(run)))?;
    if opened.wait(dispatch.cancel(&found.id, "operator"))? {
        output.note(&format!("{PREFIX}{} ends", found.id));
        return Ok(());
    }
    Err(Complaint::wrong(format!("{PREFIX}{} has ended already", found.id)))
}

fn tenant(args: &MakeTenantArgs, output: &Output) -> Result<(), Complaint> {
    let opened = Opened::new(&args.database)?;
    opened.wait(opened.database.check())?;
    opened.wait(opened.database.make_tenant(&args.name, args.max_running))?;
    for role in &args.member {
        opened.wait(opened.database.add_member(&args.name, role))?;
    }
    output.note(&format!("the tenant {} is ready", args.name));
    Ok(())
}
