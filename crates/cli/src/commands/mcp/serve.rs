//! `llm-do mcp serve`: the workers of a program as tools.

use crate::{
    args::{Format, RunArgs, ServeArgs},
    commands::run::say,
    environment::LLM_DO_MCP_TOKEN,
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    opening::{NotReady, said, settings},
    program::{findings, home, only_target},
    render::Output,
};
use llm_do::{Session, Settings};
use llm_do_serve::{Host, Http, McpServer, NewToken};
use std::{
    collections::BTreeSet,
    env, fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Notify;

/// Serves until the client has gone, or a signal ends the server.
pub(super) fn run(args: &ServeArgs, output: &Output) -> Result<Exit, Complaint> {
    if output.format != Format::Text {
        return Err(Complaint::wrong("`llm-do mcp serve` has no result: stdout carries the protocol")
            .hint("leave out --json and --output"));
    }
    if args.approval.operator.is_some() {
        return Err(Complaint::wrong("--operator is not available here: the client is asked")
            .hint("to answer yourself, use --approval defer and `llm-do runs resume`"));
    }
    let interrupts = Interrupts::listen(None)
        .map_err(|error| Complaint::failed(format!("cannot listen to signals: {error}")))?;
    let sessions = match opened(args) {
        Ok(sessions) => sessions,
        Err(not_ready) => return Ok(said(not_ready, output)),
    };
    // Workers of one program mostly have the same warnings.
    let mut said_before = BTreeSet::new();
    for session in &sessions {
        if said_before.insert(findings(session.warnings(), output.err)) {
            say(session, output);
        }
    }
    let (token, is_new) = match args.http {
        None => (None, false),
        Some(_) => token(args.token_file.as_deref()).map(|(token, is_new)| (Some(token), is_new))?,
    };
    let target = args.target.clone().unwrap_or_else(|| ".".into());
    let host = Arc::new(CommandLine { args: args.clone(), output: output.clone() });
    let server = McpServer::new(target, sessions, token.as_ref(), host)
        .map_err(|error| Complaint::wrong(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let stopped = Arc::new(Stop::default());
    interrupts.on_first({
        let stopped = Arc::clone(&stopped);
        move || stopped.stop()
    });
    let served = runtime.block_on(async {
        match args.http {
            None => stdio(server, &stopped, output).await,
            Some(address) => {
                let new = token.as_ref().filter(|_| is_new);
                http(server, address, new, &stopped, output).await
            }
        }
    });
    // A read of stdin can't be taken back.
    runtime.shutdown_background();
    served.map(|()| if stopped.came() { Exit::Interrupted } else { Exit::Done })
}

/// A signal that ends the server.
#[derive(Default)]
struct Stop {
    came: AtomicBool,
    notify: Notify,
}

impl Stop {
    fn stop(&self) {
        self.came.store(true, Ordering::SeqCst);
        self.notify.notify_one();
    }

    fn came(&self) -> bool {
        self.came.load(Ordering::SeqCst)
    }
}

/// The command line, as the host of the service behind the tools.
struct CommandLine {
    args: ServeArgs,
    output: Output,
}

impl Host for CommandLine {
    fn settings(&self, _target: &str) -> Result<Settings, String> {
        settings_of(&self.args).map_err(|complaint| complaint.message)
    }

    fn log(&self, line: &str) {
        self.output.note(line);
    }

    fn home(&self) -> PathBuf {
        home()
    }
}

fn settings_of(args: &ServeArgs) -> Result<Settings, Complaint> {
    let mut words = only_target(args.target.as_deref()).into_iter();
    settings(&RunArgs {
        first: words.next(),
        second: words.next(),
        program: args.program.clone(),
        model: args.model.clone(),
        approval: args.approval.clone(),
        budget: args.budget.clone(),
        ..RunArgs::default()
    })
}

fn opened(args: &ServeArgs) -> Result<Vec<Session>, NotReady> {
    Ok(Session::open_exported(settings_of(args)?)?)
}

async fn stdio(server: McpServer, stopped: &Stop, output: &Output) -> Result<(), Complaint> {
    output.note(&format!("serving {} on stdin and stdout", server.tools().join(", ")));
    let served = server.serve_stdio(tokio::io::stdin(), tokio::io::stdout(), stopped.notify.notified());
    served.await.map_err(|error| Complaint::failed(error.to_string()))
}

async fn http(
    server: McpServer,
    address: SocketAddr,
    new_token: Option<&NewToken>,
    stopped: &Stop,
    output: &Output,
) -> Result<(), Complaint> {
    let names = server.tools().join(", ");
    let wrong = |error: io::Error| Complaint::wrong(format!("--http {address}: {error}"));
    let http = server.http(Http::listen(address).await.map_err(wrong)?);
    let url = http.url().map_err(wrong)?;
    output.note(&format!("serving {names} on {url}/mcp"));
    if let Some(token) = new_token {
        // Without it there is no client, so that it is no mere note.
        output.line(&format!("token: {}", token.text()));
    }
    http.serve(stopped.notify.notified()).await.map_err(|error| Complaint::failed(error.to_string()))
}

/// The token of clients, and whether it is a new one.
fn token(file: Option<&Path>) -> Result<(NewToken, bool), Complaint> {
    let (text, from) = match (file, env::var(LLM_DO_MCP_TOKEN.name)) {
        (Some(file), _) => {
            let read = fs::read_to_string(file);
            let text =
                read.map_err(|error| Complaint::wrong(format!("--token-file {}: {error}", file.display())))?;
            (text, format!("--token-file {}", file.display()))
        }
        (None, Ok(text)) => (text, LLM_DO_MCP_TOKEN.name.to_owned()),
        (None, Err(_)) => {
            let failed = |error: io::Error| Complaint::failed(format!("cannot make a token: {error}"));
            return NewToken::generate().map(|token| (token, true)).map_err(failed);
        }
    };
    let token = NewToken::given(text.trim());
    token.map(|token| (token, false)).map_err(|error| Complaint::wrong(format!("{from}: {error}")))
}
