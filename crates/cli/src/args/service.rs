//! Arguments of `serve`.

use super::{ApprovalFlags, BudgetFlags, ModelFlags, ProgramFlags, RunArgs};
use clap::{Args, ValueEnum};
use jiff::SignedDuration;
use llm_do::core::model::ModelName;
use llm_do_serve::Origin;
use std::{
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    path::PathBuf,
    time::Duration,
};

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Clients start runs of the workers that each project exports; without exports, it is its entry. They follow the events of runs \
and answer their questions. Each run has a journal of its own. A restarted server continues the runs that were not over.

Open the printed link for the web app. Other clients send `Authorization: Bearer TOKEN`. Your token is the content of \
--token-file, else the value of LLM_DO_SERVE_TOKEN, else a new one at each start. It allows everything except changing \
definitions, which --edit adds. Tokens of other clients are in serve.yaml in ~/.llm-do; `llm-do serve --new-token NAME` makes \
one.

Options apply to every program. A request can only tighten them: `llm-do docs http` describes the requests, and the \
server describes them at /openapi.json.

Examples:
  llm-do serve my-project
  llm-do serve notes=~/notes mail=~/mail --listen 127.0.0.1:8750 --budget 0.50usd
  llm-do serve --new-token ci --scope start --scope read --of notes
  llm-do serve my-project --stdio                  for a client library: `llm-do docs stdio`")]
#[command(mut_arg("operator", |arg| arg.hide(true)))]
pub(crate) struct ServiceArgs {
    /// Projects' directories or worker files; NAME=TARGET gives a program another name [default: the current directory]
    #[arg(value_name = "TARGET")]
    pub(crate) targets: Vec<String>,
    /// Listen on this address of the loopback interface, or on this port of 127.0.0.1; port 0 takes a free one
    #[arg(long, alias = "port", value_name = "[ADDRESS:]PORT", default_value = "127.0.0.1:8750", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Serve one program to the parent process over stdin and stdout, as JSON-RPC 2.0, instead of HTTP
    #[arg(long, conflicts_with_all = [
        "listen", "max_runs_per_token", "max_queue", "max_streams", "max_streams_per_token", "allow_origin", "title_model",
        "token_file", "edit", "new_token", "chats_expire",
    ])]
    pub(crate) stdio: bool,
    /// Most runs at once, those that wait for answers included
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(crate) max_runs: NonZeroUsize,
    /// Most runs at once that one token has started [default: all; half if serve.yaml has tokens]
    #[arg(long, value_name = "N")]
    pub(crate) max_runs_per_token: Option<NonZeroUsize>,
    /// Most runs that wait, in order, until others have ended; further ones are refused
    #[arg(long, value_name = "N", default_value = "0")]
    pub(crate) max_queue: usize,
    /// Most streams of events that are followed at once
    #[arg(long, value_name = "N", default_value = "2048")]
    pub(crate) max_streams: usize,
    /// Most streams of events that one token follows at once [default: all; half if serve.yaml has tokens]
    #[arg(long, value_name = "N")]
    pub(crate) max_streams_per_token: Option<usize>,
    /// How long a question waits for its answer, such as `30m` or `12h`: then the call is denied; default: without end
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) questions_expire: Option<Duration>,
    /// How long a chat waits for its next message before it ends, such as `12h`; `never`: without end
    #[arg(long, value_name = "DURATION", value_parser = expiry, default_value = "168h")]
    pub(crate) chats_expire: Expiry,
    /// How many seconds runs may take to end when the server ends; the next start continues the others
    #[arg(long, value_name = "SECONDS", default_value = "10")]
    pub(crate) grace: u64,
    /// Let pages of this origin call the server, such as `https://chat.example`; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) allow_origin: Vec<Origin>,
    /// Use this model for auxiliary requests of chat clients: titles, tags and follow-up questions
    #[arg(long, value_name = "PROVIDER:MODEL")]
    pub(crate) title_model: Option<ModelName>,
    /// How the log is written to stderr
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text", help_heading = "Observation")]
    pub(crate) log_format: LogFormat,
    /// Send the trace of each run that is over to this OpenTelemetry collector
    #[arg(long, value_name = "URL", value_hint = clap::ValueHint::Url, help_heading = "Observation")]
    pub(crate) otel: Option<String>,
    /// Include messages, arguments and results in the traces
    #[arg(long, requires = "otel", help_heading = "Observation")]
    pub(crate) otel_content: bool,
    /// A model that an answer to a chat may choose; may be repeated
    #[arg(long, value_name = "PROVIDER:MODEL")]
    pub(crate) chat_model: Vec<String>,
    /// A file with your token
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Tokens")]
    pub(crate) token_file: Option<PathBuf>,
    /// Let your token change the programs' definitions
    #[arg(long, help_heading = "Tokens")]
    pub(crate) edit: bool,
    /// Make a token for a client, print it with its entry for serve.yaml, and exit
    #[arg(long, value_name = "NAME", help_heading = "Tokens")]
    pub(crate) new_token: Option<String>,
    /// What the new token allows; may be repeated
    #[arg(long, value_enum, value_name = "SCOPE", requires = "new_token", help_heading = "Tokens")]
    pub(crate) scope: Vec<TokenScope>,
    /// A program that the new token is for; may be repeated [default: all]
    #[arg(long, value_name = "PROGRAM", requires = "new_token", help_heading = "Tokens")]
    pub(crate) of: Vec<String>,
    /// Let the new token read the runs of all clients, and not only its own
    #[arg(long, requires = "new_token", help_heading = "Tokens")]
    pub(crate) read_all: bool,
    #[command(flatten)]
    pub(crate) program: ProgramFlags,
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    #[command(flatten)]
    pub(crate) approval: ApprovalFlags,
    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
}

/// How the log of a service is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// A JSON object on each line
    Json,
}

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenScope {
    /// Start runs
    Start,
    /// Read runs
    Read,
    /// Answer the questions of runs
    Answer,
    /// Read and change the definitions of programs
    Edit,
}

/// An address, or a port of this machine.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port: u16| (Ipv4Addr::LOCALHOST, port).into());
    port.or_else(|_| text.parse()).map_err(|_| {
        "give a port, or an address with a port, such as 8750 or 127.0.0.1:8750; names are not looked up"
            .into()
    })
}

/// A time that is longer than nothing.
/// The time after which something expires, if it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiry(pub(crate) Option<Duration>);

fn expiry(text: &str) -> Result<Expiry, String> {
    match text {
        "never" => Ok(Expiry(None)),
        text => duration(text).map(|time| Expiry(Some(time))).map_err(|why| format!("{why}, or `never`")),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "give a time such as `90s`, `30m` or `12h`".to_owned();
    let parsed: SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(parsed).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

impl ServiceArgs {
    /// The options of its runs of that target.
    pub(crate) fn run(&self, target: Option<&str>) -> RunArgs {
        let Self { program, model, approval, budget, .. } = self.clone();
        RunArgs { first: target.map(str::to_owned), program, model, approval, budget, ..RunArgs::default() }
    }
}
