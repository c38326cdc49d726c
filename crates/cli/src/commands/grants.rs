//! `llm-do grants`: lists and revokes the grants of programs (docs/reference/sandbox.md).

use crate::{
    args::Format,
    exit::Complaint,
    program::{home, only_target, quoted, surroundings},
    render::Output,
    visible,
};
use llm_do::{
    BadGrantsFile, RememberedGrant, RememberedGrants,
    program::target::{self, Request},
};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Lists all grants.
pub(crate) fn list(output: &Output) -> Result<(), Complaint> {
    let remembered = RememberedGrants::of(&home());
    let granted = remembered.list().map_err(unreadable)?;
    if output.format != Format::Text {
        output.print_json(&json!({"file": remembered.file(), "grants": granted}));
        return Ok(());
    }
    if granted.is_empty() {
        output.note("nothing is granted to any program");
    }
    for grant in &granted {
        output.print(&line(grant, output));
    }
    Ok(())
}

/// Revokes the grants of a program, or of all programs.
pub(crate) fn revoke(target: Option<&str>, all: bool, output: &Output) -> Result<(), Complaint> {
    let program = match target {
        _ if all => None,
        Some(target) => Some(identity(target)?),
        None => Some(identity(".")?),
    };
    let chosen =
        |granted: &RememberedGrant| program.as_ref().is_none_or(|program| granted.program == *program);
    let revoked = RememberedGrants::of(&home()).revoke(chosen).map_err(unreadable)?;
    if output.format != Format::Text {
        output.print_json(&json!({"revoked": revoked}));
        return Ok(());
    }
    match (&program, revoked.is_empty()) {
        (Some(program), true) => {
            return Err(Complaint::wrong(format!("nothing is granted to {}", program.display()))
                .hint("`llm-do grants list` lists the grants of each program"));
        }
        (None, true) => output.note("nothing was granted to any program"),
        _ => {}
    }
    for grant in &revoked {
        output.print(&format!("revoked  {}", line(grant, output)));
    }
    Ok(())
}

fn line(grant: &RememberedGrant, output: &Output) -> String {
    let capabilities: Vec<String> = grant.capabilities.iter().map(|capability| quoted(capability)).collect();
    let program = grant.program.display().to_string();
    let day = grant.granted_at.strftime("%Y-%m-%d");
    format!(
        "{}  {}  {}\n",
        output.out.dim(day),
        output.out.cyan(visible::line(&program)),
        visible::line(&capabilities.join(" "))
    )
}

/// Returns the identity of the program for grants. A program that no longer exists is identified by its path.
fn identity(target: &str) -> Result<PathBuf, Complaint> {
    if !Path::new(target).exists() && Path::new(target).is_absolute() {
        return Ok(target.into());
    }
    let request = Request { positionals: only_target(Some(target)), ..Request::default() };
    let around =
        surroundings().map_err(|error| Complaint::wrong(format!("no current directory: {error}")))?;
    let found = target::find(&request, &around).map_err(|found| Complaint::wrong(found.to_string()))?;
    Ok(found.source.identity().as_str().into())
}

fn unreadable(error: BadGrantsFile) -> Complaint {
    Complaint::failed(format!("cannot read the remembered grants: {error}"))
        .hint("mend the file, or remove it: then every program asks again")
}
