//! `llm-do cluster work`: a node.

use super::{Opened, failed};
use crate::{
    args::{Format, LogFormat, WorkArgs},
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    opening::surrounded,
    render::Output,
    visible,
};
use llm_do_cluster::{NodeEvent, NodeOptions, work as execute};
use serde_json::json;
use std::{env, fs, path::PathBuf, time::Duration};
use tokio::sync::watch;

/// Runs the command until the node is drained or interrupted.
pub(super) fn work(args: &WorkArgs, output: &Output) -> Result<Exit, Complaint> {
    if output.format != Format::Text {
        return Err(Complaint::wrong("--output is not available for cluster work: --log-format json is"));
    }
    let interrupts =
        Interrupts::listen(None).map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let programs = programs(args)?;
    let opened = Opened::new(&args.database)?;
    let (stop, stopped) = watch::channel(false);
    interrupts.on_first(move || {
        stop.send_replace(true);
    });
    let came = stopped.clone();
    let (log, json) = (output.clone(), args.log_format == LogFormat::Json);
    let options = NodeOptions {
        name: args.name.clone().unwrap_or_else(own_name),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        lease: args.lease,
        most: args.max_runs.get(),
        programs,
        grace: Duration::from_secs(args.grace),
        settings: Box::new(|| surrounded().map_err(|complaint| complaint.message)),
        log: Box::new(move |event| note(event, json, &log)),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let done = runtime.block_on(execute(opened.database, options, stopped));
    // Steps that were cut off are not waited for.
    runtime.shutdown_background();
    done.map_err(failed)?;
    Ok(if *came.borrow() { Exit::Interrupted } else { Exit::Done })
}

/// Returns the folder of the programs, which belongs to this user alone.
fn programs(args: &WorkArgs) -> Result<PathBuf, Complaint> {
    let cache = || {
        let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = named.or_else(|| env::home_dir().map(|home| home.join(".cache")))?;
        Some(cache.join("llm-do").join("programs"))
    };
    let folder = args.programs.clone().or_else(cache).ok_or_else(|| {
        Complaint::wrong("there is no home directory for the programs of runs")
            .hint("name a folder with --programs")
    })?;
    let unmade = |error| Complaint::failed(format!("cannot make {}: {error}", folder.display()));
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(&folder).map_err(unmade)?;
    fs::canonicalize(&folder).map_err(unmade)
}

fn own_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}-{}", std::process::id())
}

/// Writes a line about an event to stderr.
fn note(event: &NodeEvent<'_>, json: bool, output: &Output) {
    if json {
        let value = match event {
            NodeEvent::Ready { node, tenants } => json!({"event": "ready", "node": node, "tenants": tenants}),
            NodeEvent::Claimed { run, tenant } => json!({"event": "claimed", "run": run, "tenant": tenant}),
            NodeEvent::Wrote { .. } => return,
            NodeEvent::Left { run, status, reason } => {
                json!({"event": "left", "run": run, "status": status, "reason": reason})
            }
            NodeEvent::Unreachable { reason } => json!({"event": "unreachable", "reason": reason}),
            NodeEvent::Reachable => json!({"event": "reachable"}),
            NodeEvent::Draining { running } => json!({"event": "draining", "running": running}),
        };
        output.screen.line(&value.to_string());
        return;
    }
    output.note(&match event {
        NodeEvent::Ready { node, tenants } => format!("{node} takes the runs of {tenants} tenants"),
        NodeEvent::Claimed { run, tenant } => format!("{run} of {tenant} is running"),
        NodeEvent::Wrote { .. } => return,
        NodeEvent::Left { run, status, reason } => {
            let reason = reason.map(|reason| format!(": {}", visible::line(reason))).unwrap_or_default();
            format!("{run} is {status}{reason}")
        }
        NodeEvent::Unreachable { reason } => visible::line(reason).into_owned(),
        NodeEvent::Reachable => "the database can be reached again".to_owned(),
        NodeEvent::Draining { running } => format!("takes no more runs; {running} are running"),
    });
}
