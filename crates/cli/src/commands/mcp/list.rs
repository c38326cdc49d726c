//! `llm-do mcp list`: the MCP servers that a program uses.

use crate::{
    args::{Format, ProgramArgs},
    exit::Exit,
    opening::{NotReady, said, surrounded},
    program::looked_at,
    render::Output,
    visible,
};
use llm_do::{Effects, Loaded, Located, Server, Settings, program::target::Request};
use serde_json::json;

/// Carries out the command.
pub(crate) fn run(program: &ProgramArgs, output: &Output) -> Exit {
    listed(program, output).unwrap_or_else(|not_ready| said(not_ready, output))
}

fn listed(program: &ProgramArgs, output: &Output) -> Result<Exit, NotReady> {
    let servers = load(looked_at(program), surrounded()?)?.servers()?;
    if output.format != Format::Text {
        output.print_json(&json!({ "servers": servers }));
        return Ok(Exit::Done);
    }
    if servers.is_empty() {
        output.note("this program has no MCP servers; `llm-do mcp add` declares one");
    }
    for server in &servers {
        output.print(&about(server, output));
    }
    Ok(Exit::Done)
}

/// Loads a program whose servers are looked at.
pub(super) fn load(request: Request, settings: Settings) -> Result<Loaded, NotReady> {
    let settings = Settings { request, ..settings };
    let options = settings.run.clone();
    Ok(Located::find(settings)?.load(Effects::Allowed, &options)?)
}

fn about(server: &Server, output: &Output) -> String {
    let paint = output.out;
    let used_by = match server.workers.as_slice() {
        [] => "no worker lists it".to_owned(),
        workers => format!("used by {}", workers.join(", ")),
    };
    let granted = match server.granted {
        true => paint.green("granted").to_string(),
        false => paint.dim("not granted").to_string(),
    };
    let agreed = match &server.accepted {
        None => "its tools are not known yet".to_owned(),
        Some(tools) => {
            let noun = if tools.len() == 1 { "tool" } else { "tools" };
            let how = if server.pinned { "pinned in llm-do.lock" } else { "accepted" };
            format!("{} {noun} {how}", tools.len())
        }
    };
    format!(
        "{}  {}\n  {granted}; {agreed}; {}\n",
        paint.bold(visible::line(&server.name)),
        visible::line(&server.command),
        visible::line(&used_by),
    )
}
