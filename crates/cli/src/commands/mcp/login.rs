//! `llm-do mcp login`, `llm-do mcp logout`: the user's tokens for servers over HTTP (docs/guides/mcp.md).

use crate::{
    args::{Format, LoginArgs, LogoutArgs},
    exit::{Complaint, Exit},
    program::home,
    render::Output,
    visible,
};
use llm_do_mcp::{Known, SignIn, SignInOptions, sign_out};
use serde_json::json;
use std::{
    future::pending,
    io::{self, BufRead, IsTerminal},
    thread,
};
use tokio::sync::oneshot;

/// Signs in: shows the address to open, and waits until the browser comes back.
pub(super) fn login(args: &LoginArgs, output: &Output) -> Result<Exit, Complaint> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let known = Known::of(&home());
    let options = SignInOptions { client_id: args.client_id.clone(), scopes: args.scope.clone() };
    let signed_in = runtime.block_on(async {
        let sign_in = SignIn::begin(&known, &args.url, options).await?;
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
    let failed = |reason: String| Complaint::failed(format!("cannot sign in at {}: {reason}", args.url));
    signed_in.map_err(failed)?;
    match output.format {
        Format::Text => output.note(&format!("signed in at {}", args.url)),
        _ => output.print_json(&json!({"server": args.url, "signed_in": true})),
    }
    Ok(Exit::Done)
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

/// Forgets the tokens for a server.
pub(super) fn logout(args: &LogoutArgs, output: &Output) -> Result<Exit, Complaint> {
    let forgotten = sign_out(&Known::of(&home()), &args.url).map_err(Complaint::failed)?;
    if !forgotten {
        return Err(Complaint::wrong(format!("you are not signed in at {}", args.url)));
    }
    match output.format {
        Format::Text => output.note(&format!("forgot the tokens for {}", args.url)),
        _ => output.print_json(&json!({"server": args.url, "signed_in": false})),
    }
    Ok(Exit::Done)
}
