//! `llm-do mcp inspect`: what a server offers, and what the operator has agreed to.

use super::list::load;
use crate::{
    args::{Format, InspectArgs, ProgramArgs},
    exit::{Complaint, Exit},
    opening::{Asked, NotReady, asking, grants, said, surrounded},
    program::looked_at,
    render::Output,
    visible,
};
use llm_do::{
    InspectedTool, Inspection, Loaded, Server, ToolState,
    program::{
        diagnostics::nearest,
        lock::{LOCK_FILE, Lock},
        source::DiskTree,
    },
};
use serde_json::Value;
use std::{collections::BTreeMap, path::Path};

/// Carries out the command: exit code 1 if tools are withheld.
pub(crate) fn run(args: &InspectArgs, output: &Output) -> Exit {
    inspected(args, output).unwrap_or_else(|not_ready| said(not_ready, output))
}

fn inspected(args: &InspectArgs, output: &Output) -> Result<Exit, NotReady> {
    let grants = grants(&args.grant)?;
    let program = ProgramArgs { target: args.target.clone(), program: args.program.clone() };
    let settings = asking(surrounded()?, &Asked::open(None)?, output);
    let loaded = load(looked_at(&program), settings)?;
    let server = find(&loaded, &args.name)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let inspection = runtime.block_on(loaded.inspect(&server, &grants, args.accept))?;
    let pinned = match (&inspection.library, args.accept) {
        (Some(library), true) => {
            let root = Path::new(loaded.program().root().as_str());
            pin(root, library, &inspection.own_name, &inspection.offers.hashes)?
        }
        _ => false,
    };
    let withheld = |tool: &InspectedTool| matches!(tool.state, ToolState::New | ToolState::Changed { .. });
    let withheld = inspection.offers.tools.iter().filter(|tool| withheld(tool)).count();
    if output.format == Format::Text {
        output.print(&shown(&inspection, output));
    } else {
        let mut report = serde_json::to_value(&inspection).unwrap_or_default();
        report["accepted"] = args.accept.into();
        output.print_json(&report);
    }
    match (args.accept, pinned) {
        (true, true) => output.note(&format!("you agreed to these tools, and {LOCK_FILE} pins them")),
        (true, false) => output.note("you agreed to these tools for this program"),
        (false, _) if withheld > 0 => {
            output.note(&format!("withheld until you agree: `llm-do mcp inspect {} --accept`", args.name));
        }
        (false, _) => {}
    }
    Ok(if withheld > 0 && !args.accept { Exit::Failed } else { Exit::Done })
}

/// The server of that name.
pub(super) fn find(loaded: &Loaded, name: &str) -> Result<Server, NotReady> {
    let mut servers = loaded.servers()?;
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    match names.iter().filter(|known| *known == name).count() {
        1 => servers.retain(|server| server.name == name),
        0 => {
            let mut complaint = Complaint::wrong(format!("this program has no MCP server `{name}`"));
            if let Some(near) = nearest(name, names.iter().map(String::as_str)).first() {
                complaint = complaint.hint(format!("did you mean `{near}`?"));
            }
            return Err(complaint.hint("`llm-do mcp list` lists its servers").into());
        }
        _ => {
            return Err(Complaint::wrong(format!("several workers define different servers `{name}`"))
                .hint("declare the server once, under `mcp_servers` of the manifest, and list it in the workers")
                .into());
        }
    }
    servers.pop().ok_or_else(|| Complaint::wrong(format!("this program has no MCP server `{name}`")).into())
}

/// Pins the tools of a library's server. Returns whether the lock file has the library.
fn pin(
    root: &Path,
    library: &str,
    server: &str,
    tools: &BTreeMap<String, String>,
) -> Result<bool, Complaint> {
    let failed = |reason: String| Complaint::failed(format!("{LOCK_FILE} cannot be changed: {reason}"));
    let tree = DiskTree::open(root).map_err(|error| failed(error.to_string()))?;
    let mut found = Vec::new();
    let Some(mut lock) = Lock::load(&tree, &mut found) else { return Ok(false) };
    if !lock.pin_tools(library, server, tools.clone()) {
        return Ok(false);
    }
    llm_do_packages::write_durably(&root.join(LOCK_FILE), &lock.to_text())
        .map_err(|error| failed(error.to_string()))?;
    Ok(true)
}

fn shown(inspection: &Inspection, output: &Output) -> String {
    let paint = output.out;
    let offers = &inspection.offers;
    let mut text = format!(
        "{}  {}\n",
        paint.bold(visible::line(&inspection.server.name)),
        visible::line(&offers.command)
    );
    for tool in &offers.tools {
        let state = match &tool.state {
            ToolState::Unknown | ToolState::Accepted => String::new(),
            ToolState::New => format!("  {}", paint.yellow("new, withheld")),
            ToolState::Changed { .. } => format!("  {}", paint.yellow("changed, withheld")),
            ToolState::Unusable { .. } => format!("  {}", paint.red("unusable")),
        };
        text.push_str(&format!(
            "\n{}({})  {}{state}\n",
            paint.cyan(visible::line(&tool.name)),
            visible::line(&arguments(&tool.input)),
            tool.risk,
        ));
        for line in tool.description.lines() {
            text.push_str(&format!("  {}\n", visible::line(line)));
        }
        match &tool.state {
            ToolState::Changed { changes } => {
                text.extend(changes.iter().map(|change| format!("  ~ {}\n", visible::line(change))));
            }
            ToolState::Unusable { reason } => text.push_str(&format!("  {}\n", visible::line(reason))),
            ToolState::Unknown | ToolState::Accepted | ToolState::New => {}
        }
    }
    for name in &offers.gone {
        text.push_str(&format!("\n{}  {}\n", visible::line(name), paint.yellow("no longer listed")));
    }
    text
}

/// The names and types of a tool's arguments: `path: string, depth: integer?`.
fn arguments(schema: &Value) -> String {
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|required| required.iter().any(|known| known == name))
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    let shown = properties.map(|(name, property)| {
        let kind = property["type"].as_str().unwrap_or("any");
        format!("{name}: {kind}{}", if required(name) { "" } else { "?" })
    });
    shown.collect::<Vec<_>>().join(", ")
}
