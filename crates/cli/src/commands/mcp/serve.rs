//! `llm-do mcp serve`: the workers of a program as tools.

use crate::{
    args::{Format, RunArgs, ServeArgs},
    commands::run::say,
    environment::LLM_DO_MCP_TOKEN,
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    opening::{NotReady, said, settings},
    program::{findings, only_target},
    render::Output,
};
use llm_do::Session;
use llm_do_mcp_server::{BadToken, Http, ServeError, Server, Token, serve_stdio};
use std::{
    collections::BTreeSet,
    env, fs, io,
    net::SocketAddr,
    path::Path,
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
    let log = {
        let output = output.clone();
        Arc::new(move |line: &str| output.note(line))
    };
    let server = match Server::new(&sessions, log) {
        Ok(server) => server,
        Err(ServeError::Problem(problem)) => return Ok(said((*problem).into(), output)),
        Err(error) => return Err(Complaint::wrong(error.to_string())),
    };
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
            Some(address) => http(server, address, args.token_file.as_deref(), &stopped, output).await,
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

fn opened(args: &ServeArgs) -> Result<Vec<Session>, NotReady> {
    let mut words = only_target(args.target.as_deref()).into_iter();
    let run = RunArgs {
        first: words.next(),
        second: words.next(),
        program: args.program.clone(),
        model: args.model.clone(),
        approval: args.approval.clone(),
        budget: args.budget.clone(),
        ..RunArgs::default()
    };
    Ok(Session::open_exported(settings(&run)?)?)
}

async fn stdio(server: Server, stopped: &Stop, output: &Output) -> Result<(), Complaint> {
    output.note(&format!("serving {} on stdin and stdout", names(&server)));
    let served = serve_stdio(server, tokio::io::stdin(), tokio::io::stdout(), stopped.notify.notified());
    served.await.map_err(|error| Complaint::failed(error.to_string()))
}

async fn http(
    server: Server,
    address: SocketAddr,
    token_file: Option<&Path>,
    stopped: &Stop,
    output: &Output,
) -> Result<(), Complaint> {
    let (token, is_new) = token(token_file)?;
    let names = names(&server);
    let wrong = |error: io::Error| Complaint::wrong(format!("--http {address}: {error}"));
    let http = Http::bind(server, address, token.clone()).await.map_err(wrong)?;
    let url = http.url().map_err(wrong)?;
    output.note(&format!("serving {names} on {url}"));
    if is_new {
        // Without it there is no client, so that it is no mere note.
        output.line(&format!("token: {}", token.text()));
    }
    http.serve(stopped.notify.notified()).await.map_err(|error| Complaint::failed(error.to_string()))
}

fn names(server: &Server) -> String {
    server.tools().collect::<Vec<_>>().join(", ")
}

/// The token of clients, and whether it is a new one.
fn token(file: Option<&Path>) -> Result<(Token, bool), Complaint> {
    let (text, from) = match (file, env::var(LLM_DO_MCP_TOKEN.name)) {
        (Some(file), _) => {
            let read = fs::read_to_string(file);
            let text =
                read.map_err(|error| Complaint::wrong(format!("--token-file {}: {error}", file.display())))?;
            (text, format!("--token-file {}", file.display()))
        }
        (None, Ok(text)) => (text, LLM_DO_MCP_TOKEN.name.to_owned()),
        (None, Err(_)) => {
            let token = Token::generate().map_err(|error| Complaint::failed(error.to_string()))?;
            return Ok((token, true));
        }
    };
    let token = Token::parse(text.trim());
    token.map(|token| (token, false)).map_err(|error: BadToken| Complaint::wrong(format!("{from}: {error}")))
}
