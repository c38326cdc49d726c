//! `llm-do mcp login`, `llm-do mcp logout`: the user's tokens for servers over HTTP (docs/guides/mcp.md).

use super::{inspect::find, list::load};
use crate::{
    args::{Format, LoginArgs, LogoutArgs, ProgramArgs, ProgramFlags},
    exit::{Complaint, Exit},
    opening::{NotReady, said, surrounded},
    program::{home, looked_at},
    render::Output,
    visible,
};
use llm_do_mcp::{Keyring, ServerFiles, SignIn, SignInOptions, sign_out};
use serde_json::json;
use std::{
    future::pending,
    io::{self, BufRead, IsTerminal},
    sync::Arc,
    thread,
};
use tokio::sync::oneshot;

/// Signs in at a server.
pub(super) fn login(args: &LoginArgs, output: &Output) -> Exit {
    signed_in(args, output).unwrap_or_else(|not_ready| said(not_ready, output))
}

/// Forgets the tokens for a server.
pub(super) fn logout(args: &LogoutArgs, output: &Output) -> Exit {
    signed_out(args, output).unwrap_or_else(|not_ready| said(not_ready, output))
}

/// Shows the address to open, and waits until the browser comes back.
fn signed_in(args: &LoginArgs, output: &Output) -> Result<Exit, NotReady> {
    let (url, auth) = server(&args.server, args.target.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let known = known();
    let options = SignInOptions {
        client_id: args.client_id.clone().or(auth.client_id),
        scopes: if args.scope.is_empty() { auth.scopes } else { args.scope.clone() },
    };
    let done = runtime.block_on(async {
        let sign_in = SignIn::begin(&known, &url, options).await?;
        output.line(&format!(
            "Open this address to sign in at {}:\n\n  {}\n",
            visible::text(sign_in.host()),
            visible::text(sign_in.address())
        ));
        if io::stdin().is_terminal() {
            output.note("if the browser is on another machine, paste the address that it is sent back to");
        }
        sign_in.finish(pasted()).await
    });
    // A read of stdin can't be taken back.
    runtime.shutdown_background();
    let failed = |reason: String| Complaint::failed(format!("cannot sign in at {url}: {reason}"));
    let in_keyring = done.map_err(failed)?;
    let place = if in_keyring { "your keyring" } else { "a file that only you can read" };
    match output.format {
        Format::Text => output.note(&format!("signed in at {url}; the tokens are in {place}")),
        _ => output.print_json(&json!({"server": url, "signed_in": true, "in_keyring": in_keyring})),
    }
    Ok(Exit::Done)
}

/// The address of a server that is named, or whose address is given, and what its program says about signing in there.
fn server(named: &str, target: Option<&str>) -> Result<(String, SignInOptions), NotReady> {
    if named.contains("://") {
        return Ok((named.to_owned(), SignInOptions::default()));
    }
    let program = ProgramArgs { target: target.map(str::to_owned), program: ProgramFlags::default() };
    let loaded = load(looked_at(&program), surrounded()?)?;
    let found = find(&loaded, named)?;
    let remote = found.remote.ok_or_else(|| {
        Complaint::wrong(format!("the MCP server `{named}` is a local process and has no sign-in"))
    })?;
    Ok((remote.url, remote.auth))
}

/// Finds the store of the user's tokens.
fn known() -> ServerFiles {
    let environment: llm_do::Environment = Arc::new(|name| std::env::var(name).ok());
    ServerFiles::of(&home()).with_keyring(Keyring::of(&environment))
}

/// The line that the user pastes into the terminal.
async fn pasted() -> String {
    if !io::stdin().is_terminal() {
        return pending().await;
    }
    let (tell, line) = oneshot::channel();
    thread::spawn(move || {
        let line = io::stdin().lock().lines().next();
        let _ = tell.send(line.and_then(Result::ok).unwrap_or_default());
    });
    line.await.unwrap_or_default()
}

fn signed_out(args: &LogoutArgs, output: &Output) -> Result<Exit, NotReady> {
    let (url, _) = server(&args.server, args.target.as_deref())?;
    let forgotten = sign_out(&known(), &url).map_err(Complaint::failed)?;
    if !forgotten {
        return Err(Complaint::wrong(format!("you are not signed in at {url}")).into());
    }
    match output.format {
        Format::Text => output.note(&format!("forgot the tokens for {url}")),
        _ => output.print_json(&json!({"server": url, "signed_in": false})),
    }
    Ok(Exit::Done)
}
