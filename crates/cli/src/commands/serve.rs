//! `llm-do serve`: programs over HTTP (docs/reference/http.md).

mod messages;
mod stdio;
mod traces;

use crate::{
    args::{Format, LogFormat, ServiceArgs, TokenScope},
    commands::run::say,
    environment::LLM_DO_SERVE_TOKEN,
    exit::{Complaint, Exit},
    interrupt::Interrupts,
    opening::{NotReady, said, settings},
    program::home,
    render::Output,
    visible,
};
use jiff::Timestamp;
use llm_do::{
    Session, Settings,
    core::{model::ModelName, question::Requester, send::BoxFuture},
};
use llm_do_serve::{Host, Http, Limits, LogEntry, NewToken, Outgoing, ProgramName, Served, Service, Tokens};
use serde_json::{Value, json};
use std::{
    env, fs, io,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::sync::watch;
use traces::Traces;

/// Runs the command.
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
    let (own, is_new) = own_token(args)?;
    let chat_models = chat_models(args)?;
    let traces = args.otel.as_deref().map(|url| Traces::to(url, args.otel_content, output)).transpose()?;
    let (mut programs, mut titles) = (Vec::new(), None);
    for target in targets(args) {
        let (name, target) = named(&target)?;
        match opened(args, target.as_deref(), output) {
            Ok(sessions) => {
                if let (None, Some(name), Some(first)) = (&titles, &args.title_model, sessions.first()) {
                    let model = first.model(name);
                    let wrong = |error| Complaint::wrong(format!("--title-model {name}: {error}"));
                    titles = Some((name.clone(), model.map_err(wrong)?));
                }
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
        runs_of_token: args.max_runs_per_token.map(NonZeroUsize::get),
        queue: args.max_queue,
        streams: args.max_streams,
        streams_of_token: args.max_streams_per_token,
        grace: Duration::from_secs(args.grace),
        chats_expire: args.chats_expire.0,
    };
    let host = Arc::new(CommandLine {
        args: args.clone(),
        output: output.clone(),
        chat_models,
        traces: traces.clone(),
    });
    let log = Arc::clone(&host);
    allow_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    let (stop, mut stopped) = watch::channel(false);
    let came = stopped.clone();
    interrupts.on_first(move || {
        stop.send_replace(true);
    });
    let served = runtime.block_on(async {
        let tokens = if args.edit { tokens.with_editing_operator(&own) } else { tokens.with_operator(&own) };
        let wrong = |error: io::Error| Complaint::wrong(format!("--listen {}: {error}", args.listen));
        let listener = Http::listen(args.listen).await.map_err(wrong)?;
        let service = Service::open(programs, tokens, limits, host).await;
        let service = service.map_err(|error| Complaint::wrong(error.to_string()))?;
        if let Some((name, model)) = titles {
            service.answer_titles_with(name, model);
        }
        let http = Http::new(service, listener).allowing(args.allow_origin.clone());
        let url = http.url().map_err(wrong)?;
        log.serving(&names, &url, is_new.then_some(&own));
        let stopped = async move {
            // The sender lives as long as the process.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        http.serve(stopped).await.map_err(|error| Complaint::failed(error.to_string()))
    });
    // Threads that still read files are not waited for.
    runtime.shutdown_background();
    if let Some(traces) = traces {
        traces.finish();
    }
    served.map(|()| if *came.borrow() { Exit::Interrupted } else { Exit::Done })
}

/// Raises the limit of open files as far as the system allows: each run has a journal, and each client a connection. Processes
/// that the server starts get limits of their own.
#[cfg(unix)]
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it can't be raised, fewer runs and clients fit.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

#[cfg(not(unix))]
fn allow_open_files() {}

/// Returns the targets on the command line, or the current directory.
fn targets(args: &ServiceArgs) -> Vec<String> {
    match args.targets.is_empty() {
        true => vec![String::new()],
        false => args.targets.clone(),
    }
}

/// Splits a target with a given name. A path that exists may contain an equals sign.
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

/// Returns the settings of a target's runs. Requests add the client.
fn settings_of(args: &ServiceArgs, target: Option<&str>) -> Result<Settings, Complaint> {
    let mut settings = settings(&args.run(target))?;
    settings.run.requester = Requester::operator("stdio");
    settings.run.questions_expire = args.questions_expire;
    Ok(settings)
}

fn opened(args: &ServiceArgs, target: Option<&str>, output: &Output) -> Result<Vec<Session>, NotReady> {
    let sessions = Session::open_exported(settings_of(args, target)?)?;
    if let Some(first) = sessions.first() {
        say(first, output);
    }
    Ok(sessions)
}

/// Returns the operator's own token, and true if it is new.
fn own_token(args: &ServiceArgs) -> Result<(NewToken, bool), Complaint> {
    let (text, from) = match (&args.token_file, env::var(LLM_DO_SERVE_TOKEN.name)) {
        (Some(file), _) => {
            let from = format!("--token-file {}", file.display());
            let read = fs::read_to_string(file);
            (read.map_err(|error| Complaint::wrong(format!("{from}: {error}")))?, from)
        }
        (None, Ok(text)) if !text.is_empty() => (text, LLM_DO_SERVE_TOKEN.name.to_owned()),
        (None, _) => {
            let new = NewToken::generate();
            let failed = |error: io::Error| Complaint::failed(format!("cannot make a token: {error}"));
            return new.map(|token| (token, true)).map_err(failed);
        }
    };
    let token = NewToken::given(text.trim());
    token.map(|token| (token, false)).map_err(|error| Complaint::wrong(format!("{from}: {error}")))
}

fn chat_models(args: &ServiceArgs) -> Result<Vec<ModelName>, Complaint> {
    let parse = |name: &String| {
        name.parse().map_err(|error| Complaint::wrong(format!("--chat-model {name}: {error}")))
    };
    args.chat_model.iter().map(parse).collect()
}

/// The command line, as the host of a service.
struct CommandLine {
    args: ServiceArgs,
    output: Output,
    chat_models: Vec<ModelName>,
    traces: Option<Arc<Traces>>,
}

impl CommandLine {
    /// Shows the address of the server, and how to sign in if the operator does not know the token.
    fn serving(&self, programs: &[String], url: &str, token: Option<&NewToken>) {
        // A token that the operator chose is in no log.
        let link = token.map_or_else(|| format!("{url}/"), |token| format!("{url}/#token={}", token.text()));
        if self.args.log_format == LogFormat::Json {
            self.line(json!({"event": "serving", "programs": programs, "url": url, "open": link}));
            return;
        }
        self.output.note(&format!("serving {} on {url}", programs.join(", ")));
        // Without them there is no client, so that they are no mere notes.
        if let Some(token) = token {
            self.output.line(&format!("token: {}", token.text()));
        }
        self.output.line(&format!("open {link}"));
    }

    /// Writes a line of the log in JSON, with the time.
    fn line(&self, mut entry: Value) {
        entry["at"] = Timestamp::now().to_string().into();
        // JSON escapes control characters; what else could hide something in a terminal is escaped as everywhere.
        self.output.screen.line(&visible::text(&entry.to_string()));
    }
}

impl Host for CommandLine {
    fn settings(&self, target: &str) -> Result<Settings, String> {
        settings_of(&self.args, Some(target)).map_err(|complaint| complaint.message)
    }

    fn log(&self, line: &str) {
        match self.args.log_format {
            LogFormat::Text => self.output.note(line),
            LogFormat::Json => self.line(json!({"event": "note", "text": line})),
        }
    }

    fn log_entry(&self, entry: &LogEntry) {
        if self.args.log_format == LogFormat::Text {
            self.output.note(&entry.to_string());
            return;
        }
        let mut line = json!({"event": entry.event, "text": entry.text});
        let parts = [
            ("run", entry.run.as_deref()),
            ("program", entry.program.as_deref()),
            ("worker", entry.worker.as_deref()),
            ("by", entry.by.as_deref()),
            ("state", entry.state),
        ];
        for (name, part) in parts {
            if let Some(part) = part {
                line[name] = part.into();
            }
        }
        self.line(line);
    }

    fn run_ended(&self, run_dir: &Path) {
        if let Some(traces) = &self.traces {
            traces.ended(run_dir);
        }
    }

    fn post(&self, message: Outgoing) -> BoxFuture<'static, Result<u16, String>> {
        Box::pin(messages::post(message))
    }

    fn home(&self) -> PathBuf {
        home()
    }

    fn chat_models(&self) -> Vec<ModelName> {
        self.chat_models.clone()
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
        TokenScope::Edit => "edit",
    }
}
