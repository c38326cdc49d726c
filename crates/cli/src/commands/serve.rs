//! `llm-do serve`: programs over HTTP (docs/reference/http.md).

mod stdio;

use crate::{
    args::{Format, ServiceArgs, TokenScope},
    commands::run::say,
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    opening::{NotReady, said, settings},
    program::home,
    render::Output,
};
use llm_do::{Session, Settings};
use llm_do_serve::{Host, Http, Limits, NewToken, ProgramName, Served, Service, Tokens};
use std::{io, path::Path, sync::Arc, time::Duration};
use tokio::sync::watch;

/// Carries out the command.
pub(crate) fn run(args: &ServiceArgs, output: &Output) -> Result<Exit, Complaint> {
    if output.format != Format::Text {
        return Err(Complaint::wrong("--output is not available for serve: clients get JSON over HTTP"));
    }
    if let Some(name) = &args.new_token {
        return new_token(args, name, output);
    }
    if args.approval.operator.is_some() {
        return Err(Complaint::wrong("--operator is not available for serve: clients answer questions"));
    }
    if args.stdio {
        return stdio::run(args, output);
    }
    let failed = |error: io::Error| Complaint::failed(format!("cannot start: {error}"));
    let interrupts = Interrupts::listen(None).map_err(failed)?;
    let tokens = Tokens::read(&home()).map_err(|error| Complaint::wrong(error.to_string()))?;
    let new = NewToken::generate().map_err(failed)?;
    let mut programs = Vec::new();
    for target in targets(args) {
        let (name, target) = named(&target)?;
        match opened(args, target.as_deref(), output) {
            Ok(sessions) => {
                let target = target.unwrap_or_else(|| ".".into());
                let served = Served::new(name, target, sessions);
                programs.push(served.map_err(|error| Complaint::wrong(error.to_string()))?);
            }
            Err(not_ready) => return Ok(said(not_ready, output)),
        }
    }
    let names: Vec<String> = programs.iter().map(|program| program.name().to_string()).collect();
    let limits = Limits {
        runs: args.max_runs.get(),
        runs_of_token: args.max_runs_per_token.get(),
        grace: Duration::from_secs(args.grace),
    };
    let host = Arc::new(CommandLine { args: args.clone(), output: output.clone() });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    let (stop, mut stopped) = watch::channel(false);
    let came = stopped.clone();
    interrupts.on_first(move || {
        stop.send_replace(true);
    });
    let served = runtime.block_on(async {
        let service = Service::open(programs, tokens.with_operator(&new), limits, host).await;
        let service = service.map_err(|error| Complaint::wrong(error.to_string()))?;
        let wrong = |error: io::Error| Complaint::wrong(format!("--listen {}: {error}", args.listen));
        let http = Http::bind(service, args.listen).await.map_err(wrong)?;
        output.note(&format!("serving {} on {}", names.join(", "), http.url().map_err(wrong)?));
        // Without it there is no client, so that it is no mere note.
        output.line(&format!("token: {}", new.text()));
        let stopped = async move {
            // The sender lives as long as the process.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        http.serve(stopped).await.map_err(|error| Complaint::failed(error.to_string()))
    });
    // Threads that still read files are not waited for.
    runtime.shutdown_background();
    served.map(|()| if *came.borrow() { Exit::Interrupted } else { Exit::Done })
}

/// What the command line names, or the current directory.
fn targets(args: &ServiceArgs) -> Vec<String> {
    match args.targets.is_empty() {
        true => vec![String::new()],
        false => args.targets.clone(),
    }
}

/// A target with the name that is given for it. A path that exists may hold an equals sign.
fn named(text: &str) -> Result<(Option<ProgramName>, Option<String>), Complaint> {
    let whole = || (None, (!text.is_empty()).then(|| text.to_owned()));
    match text.split_once('=') {
        Some((name, target)) if !Path::new(text).exists() => {
            let name = name.parse().map_err(|error| Complaint::wrong(format!("{text}: {error}")))?;
            Ok((Some(name), Some(target.to_owned())))
        }
        _ => Ok(whole()),
    }
}

fn opened(args: &ServiceArgs, target: Option<&str>, output: &Output) -> Result<Vec<Session>, NotReady> {
    let sessions = Session::open_exported(settings(&args.run(target))?)?;
    if let Some(first) = sessions.first() {
        say(first, output);
    }
    Ok(sessions)
}

/// This command line, for a service.
struct CommandLine {
    args: ServiceArgs,
    output: Output,
}

impl Host for CommandLine {
    fn settings(&self, target: &str) -> Result<Settings, String> {
        settings(&self.args.run(Some(target))).map_err(|complaint| complaint.message)
    }

    fn log(&self, line: &str) {
        self.output.note(line);
    }
}

fn new_token(args: &ServiceArgs, name: &str, output: &Output) -> Result<Exit, Complaint> {
    let plain = |text: &str| text.parse::<ProgramName>().map_err(|error| Complaint::wrong(error.to_string()));
    plain(name).map_err(|_| {
        Complaint::wrong(format!("`{name}` can't be the name of a token: use letters, digits and -_."))
    })?;
    if args.scope.is_empty() {
        return Err(Complaint::wrong("a token without a scope would allow nothing")
            .hint("give one of --scope start, --scope read, --scope answer, or several"));
    }
    let token = NewToken::generate().map_err(|error| Complaint::failed(error.to_string()))?;
    let scopes: Vec<&str> = args.scope.iter().map(|scope| scope_name(*scope)).collect();
    let mut entry =
        format!("  - name: {name}\n    sha256: {}\n    scopes: [{}]\n", token.sha256(), scopes.join(", "));
    if args.read_all {
        entry.push_str("    read: all\n");
    }
    if !args.of.is_empty() {
        let of: Vec<String> =
            args.of.iter().map(|of| plain(of).map(|of| of.to_string())).collect::<Result<_, _>>()?;
        entry.push_str(&format!("    programs: [{}]\n", of.join(", ")));
    }
    output
        .note(&format!("add this entry to {}, and restart the server:", home().join("serve.yaml").display()));
    output.note(&format!("tokens:\n{}", entry.trim_end()));
    output.line(&format!("token: {}", token.text()));
    Ok(Exit::Done)
}

fn scope_name(scope: TokenScope) -> &'static str {
    match scope {
        TokenScope::Start => "start",
        TokenScope::Read => "read",
        TokenScope::Answer => "answer",
    }
}
