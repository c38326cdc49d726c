//! The command line as typed. [`crate::meant`] interprets its values.

mod acp;
mod ask;
mod chat;
#[cfg(feature = "cluster")]
mod cluster;
mod deferred;
mod libraries;
mod looking;
mod map;
mod mcp;
mod page;
mod program;
mod run;
mod runs;
mod service;
mod skill;
mod stubs;
mod test;
mod tune;

use crate::paint::ColourChoice;
use clap::{
    Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
    builder::styling,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::{ffi::OsString, path::PathBuf};

pub(crate) use acp::AcpArgs;
pub(crate) use ask::AskArgs;
pub(crate) use chat::ChatArgs;
#[cfg(feature = "cluster")]
pub(crate) use cluster::{ClusterCommand, DatabaseArgs, MakeTenantArgs, StatusArgs, TenantArgs, WorkArgs};
pub(crate) use deferred::Deferred;
pub(crate) use libraries::{LibArgs, LibCommand, LibExportArgs};
pub(crate) use looking::{CleanArgs, ExportArgs, ShowRunArgs};
pub(crate) use map::MapArgs;
pub(crate) use mcp::{AddArgs, InspectArgs, InstallArgs, LoginArgs, LogoutArgs, McpCommand, ServeArgs};
pub(crate) use page::PageArgs;
pub(crate) use program::{CheckArgs, InitArgs, MigrateArgs, ProgramArgs, ProgramFlags, ShowArgs};
pub(crate) use run::{
    ApprovalFlags, ApprovalMode, BudgetFlags, ExplainArgs, GateCommand, GrantsCommand, InputFlags,
    ModelFlags, RunArgs,
};
pub(crate) use runs::{CompareBy, HardenArgs, ReplayArgs, ResumeArgs, RunsArgs, RunsCommand};
pub(crate) use service::{LogFormat, ServiceArgs, TokenScope};
pub(crate) use skill::{SkillCommand, SkillInstallArgs};
pub(crate) use stubs::StubsArgs;
pub(crate) use test::TestArgs;
pub(crate) use tune::TuneArgs;

const STYLES: styling::Styles = styling::Styles::styled()
    .header(styling::AnsiColor::Green.on_default().bold())
    .usage(styling::AnsiColor::Green.on_default().bold())
    .literal(styling::AnsiColor::Cyan.on_default().bold())
    .placeholder(styling::AnsiColor::Cyan.on_default());

/// Runs programs made of workers (prompts with a signature) and tools (code with the same signature). One gate approves
/// their calls, and one journal records them.
#[derive(Debug, Parser)]
#[command(
    name = "llm-do",
    version,
    styles = STYLES,
    override_usage = "llm-do [OPTIONS] [TARGET] [MESSAGE]\n       llm-do [OPTIONS] COMMAND",
    after_help = "\
`llm-do TARGET` is short for `llm-do run TARGET`. Write `./NAME` for a target with the name of a command. \
`llm-do run --help` shows the options of a run.

Examples:
  llm-do greeter.worker \"Say hello to Ada\"        run one worker file
  llm-do my-project --param topic=bees            run a project's entry worker
  llm-do list my-project                          show its workers
  llm-do models pull smollm2-135m-instruct        download a model that needs no key
  llm-do ask \"What is a monad?\"                  one prompt, one answer, no file
  llm-do runs show last                           show the last run

Exit codes: 0 success; 1 the run failed; 2 error in the command line, a file or the input; 3 a grant is missing or the \
entry was refused; 4 a limit ended the run; 5 the run waits for an approval; 130 interrupted."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of all commands.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// Format of the output on stdout
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, global = true, help_heading = "Output")]
    pub(crate) output: Format,
    /// Short for `--output json`
    #[arg(long, global = true, conflicts_with = "output", help_heading = "Output")]
    pub(crate) json: bool,
    /// Show only errors and questions
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Show more: arguments and tokens, and each call if stderr is not a terminal
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    pub(crate) verbose: u8,
    /// When to use colours
    #[arg(
        long = "color",
        alias = "colour",
        value_enum,
        value_name = "WHEN",
        default_value_t,
        global = true,
        help_heading = "Output"
    )]
    pub(crate) colour: ColourChoice,
}

impl Global {
    /// The format that either flag names.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output }
    }
}

/// The format of stdout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The result as text
    #[default]
    Text,
    /// One JSON object at the end
    Json,
    /// One JSON event per line, as it happens
    StreamJson,
    /// SARIF 2.1.0, for code hosts and editors (only for `check`)
    Sarif,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a worker or a project
    Run(Deferred<RunArgs>),
    /// Ask a model one thing, without a worker file
    Ask(Deferred<AskArgs>),
    /// Run a worker for each row of a table, or for each file of a folder
    Map(Deferred<MapArgs>),
    /// Talk with a worker
    Chat(Deferred<ChatArgs>),
    /// Be the agent of an editor, over the Agent Client Protocol on stdin and stdout
    Acp(Deferred<AcpArgs>),
    /// Be the language server of an editor, on stdin and stdout
    #[command(after_help = "\
An editor starts this command when a worker file is open; `llm-do docs language-server` shows how to set editors up. It starts no \
process of a project before the editor says that the workspace is trusted.

Examples:
  llm-do lsp")]
    Lsp {
        /// Talk on stdin and stdout, which is the only way; many editors pass this flag to every server
        #[arg(long)]
        stdio: bool,
    },
    /// List the workers of a program
    List(Deferred<ProgramArgs>),
    /// Find mistakes in a program without running it
    #[command(after_help = "\
Examples:
  llm-do check my-project          exit code 2 if it has errors
  llm-do check greeter.worker
  llm-do check --fix               apply the safe fixes
  llm-do check --explain E0201     explain a code
  llm-do check --output sarif > findings.sarif")]
    Check(Deferred<CheckArgs>),
    /// Show a worker merged with its project's settings, or its first request to the model
    Show(Deferred<ShowArgs>),
    /// Install and manage libraries
    Lib(LibArgs),
    /// Create a project
    Init(Deferred<InitArgs>),
    /// Convert an older layout, or older worker files, into a project
    Migrate(Deferred<MigrateArgs>),
    /// Download and manage local models
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Manage the MCP servers of a program, and serve programs to MCP clients
    #[command(subcommand)]
    Mcp(McpCommand),
    /// Serve programs over HTTP: start runs, follow them, answer their questions
    Serve(Deferred<ServiceArgs>),
    /// Run programs on many machines over Postgres
    #[cfg(feature = "cluster")]
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Write types of a program's workers for Python, TypeScript or Rust
    Stubs(Deferred<StubsArgs>),
    /// Write a page that runs a program in the browser
    Page(Deferred<PageArgs>),
    /// Show, resume, replay, export and remove runs
    Runs(RunsArgs),
    /// Test a Python function as a replacement for a worker, against the worker's recorded calls
    Harden(Deferred<HardenArgs>),
    /// Run the cases of a program: inputs of its workers, with what must hold of each call
    Test(Deferred<TestArgs>),
    /// Improve the instructions of a worker by its cases, and say if that is a gain
    Tune(Deferred<TuneArgs>),
    /// Explain the gate's decisions
    #[command(subcommand)]
    Gate(GateCommand),
    /// List and revoke the grants of programs
    #[command(subcommand)]
    Grants(GrantsCommand),
    /// Store, list and remove the keys of providers
    #[command(subcommand)]
    Keys(KeysCommand),
    /// List the prices and the context windows of models
    #[command(subcommand)]
    Prices(PricesCommand),
    /// Show the budgets over time, their use, and when they open again
    #[command(after_help = "\
Budgets of a day or a month stand in budgets.yaml in llm-do's home, those of tokens in serve.yaml:
`llm-do docs budgets`.

Examples:
  llm-do budgets
  llm-do budgets --json")]
    Budgets,
    /// Read the guides and the reference, which are part of the program
    #[command(after_help = "\
Examples:
  llm-do docs                      list the pages
  llm-do docs chat
  llm-do docs reference/mcp        a guide has the same name
  llm-do docs E0201                a finding of `check`")]
    Docs {
        /// Name of a page, or a code of `check` [default: list the pages]
        page: Option<String>,
    },
    /// Teach a coding agent to write, check, test and run workers
    #[command(subcommand)]
    Skill(SkillCommand),
    /// Report on this machine: confinement, Python, providers, models
    #[command(after_help = "\
Examples:
  llm-do doctor                    for the program in the current directory
  llm-do doctor my-project --output json")]
    Doctor {
        /// Directory of the program whose Python interpreter is reported [default: the current directory]
        target: Option<PathBuf>,
    },
    /// Print a JSON Schema, for editors and other programs
    #[command(after_help = "\
Examples:
  llm-do schema worker > worker.schema.json
  llm-do schema project > project.schema.json
  llm-do schema lib > lib.schema.json
  llm-do schema cases > cases.schema.json
  llm-do schema events > events.schema.json
  llm-do schema serve > serve.schema.json
  llm-do schema budgets > budgets.schema.json")]
    Schema {
        /// The described format
        what: SchemaOf,
    },
    /// Print a shell completion script
    #[command(after_help = "\
Examples:
  llm-do completions bash > ~/.local/share/bash-completion/completions/llm-do
  llm-do completions zsh > ~/.zfunc/_llm-do
  llm-do completions fish > ~/.config/fish/completions/llm-do.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print what could be the last of these words, for the completion scripts
    #[command(hide = true, after_help = "Examples:\n  llm-do complete -- llm-do runs show ''")]
    Complete {
        /// The words of the command line up to the cursor, with the name of the program
        #[arg(value_name = "WORD", last = true)]
        words: Vec<String>,
    },
    /// Write the man pages, for packages of llm-do
    #[command(
        hide = true,
        after_help = "\
Examples:
  llm-do man target/man
  man -l target/man/llm-do-run.1"
    )]
    Man {
        /// Directory for the pages; created if it does not exist
        #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        dir: PathBuf,
    },
}

/// The format that a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// A worker: the front matter of a .worker file, or a YAML worker
    Worker,
    /// A manifest: project.yaml or llm-do.yaml
    Project,
    /// A library's lib.yaml
    Lib,
    /// A file of cases: NAME.cases.yaml
    Cases,
    /// A line of `--output stream-json`
    Events,
    /// The operator's settings of a server: serve.yaml
    Serve,
    /// The operator's budgets over time: budgets.yaml
    Budgets,
}

#[derive(Debug, Subcommand)]
#[command(after_help = "\
The keys are in a file in LLM_DO_HOME that only you can read. A key in the environment takes precedence over a stored one.

Examples:
  llm-do keys set anthropic
  llm-do keys list
  llm-do keys remove anthropic")]
pub(crate) enum KeysCommand {
    /// Store the key of a provider, which is typed unseen or read from standard input
    #[command(after_help = "\
Examples:
  llm-do keys set anthropic
  pass show openai | llm-do keys set openai
  llm-do keys set GATEWAY_KEY          for a manifest's provider with `api_key_env: GATEWAY_KEY`")]
    Set {
        /// A known provider, one of config.yaml, or the variable that a manifest's `api_key_env` names
        provider: String,
    },
    /// List the keys and where they are, without showing them
    #[command(after_help = "Examples:\n  llm-do keys list\n  llm-do keys list --json")]
    List,
    /// Remove a stored key
    #[command(after_help = "Examples:\n  llm-do keys remove anthropic")]
    Remove {
        /// As for `llm-do keys set`
        provider: String,
    },
}

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  llm-do prices list\n  llm-do prices list openai:gpt-5")]
pub(crate) enum PricesCommand {
    /// List the prices and the context windows of models, your own first
    #[command(after_help = "\
Prices of your own stand under `prices` in config.yaml, and take precedence.

Examples:
  llm-do prices list
  llm-do prices list openai:gpt-5          the models whose names begin with this
  llm-do prices list --json anthropic:")]
    List {
        /// Beginning of the models' names, which have the form provider:model
        start: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  llm-do models suggest
  llm-do models list
  llm-do models pull smollm2-135m-instruct
  llm-do models pull hf:Qwen/Qwen3-4B-GGUF
  llm-do greeter.worker hello --model local:smollm2-135m-instruct
  llm-do models remove smollm2-135m-instruct")]
pub(crate) enum ModelsCommand {
    /// List the available and the downloaded models
    #[command(after_help = "Examples:\n  llm-do models list\n  llm-do models list --json")]
    List,
    /// Name the local model that fits the memory of this machine
    #[command(after_help = "Examples:\n  llm-do models suggest\n  llm-do models suggest --json")]
    Suggest,
    /// Download the weights of a model
    #[command(after_help = "\
An interrupted download continues where it stopped. The file is installed only if its SHA-256 hash matches.

For a model of the Hugging Face hub, QUANT is a quantisation such as Q4_K_M, and FILE a file in the repository. Without \
either, the usual quantisation that fits the memory of this machine is chosen.

Examples:
  llm-do models pull smollm2-135m-instruct
  llm-do models pull hf:Qwen/Qwen3-4B-GGUF
  llm-do models pull hf:Qwen/Qwen3-4B-GGUF:Q8_0")]
    Pull {
        /// Name from `llm-do models list`, or hf:OWNER/REPO[:FILE|QUANT] [default: the smallest model]
        name: Option<String>,
    },
    /// Delete the weights of a model
    #[command(after_help = "Examples:\n  llm-do models remove smollm2-135m-instruct")]
    Remove {
        /// Name from `llm-do models list`
        name: String,
    },
}

/// Parses the words of the command line. Mistakes, `--help` and `--version` return clap's error, which the caller prints.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let (words, colour) = with_run(words.into_iter().collect())?;
    if let Some(run) = run_alone(&words) {
        return Ok(run);
    }
    let command = Cli::command().color(match colour {
        ColourChoice::Auto => clap::ColorChoice::Auto,
        ColourChoice::Always => clap::ColorChoice::Always,
        ColourChoice::Never => clap::ColorChoice::Never,
    });
    let matches = command.try_get_matches_from(&words).map_err(|mistake| with_quotes(mistake, &words))?;
    Cli::from_arg_matches(&matches)
}

/// Says that a message of several words needs quotes, where its second word is one too many.
fn with_quotes(mut mistake: clap::Error, words: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(word)) = mistake.get(ContextKind::InvalidArg) else { return mistake };
    let texts: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    let is_message = mistake.kind() == ErrorKind::UnknownArgument && !word.starts_with('-');
    let run = texts.iter().position(|word| ["run", "chat"].contains(word));
    let at = texts.iter().position(|other| other == word);
    if let (true, Some(run), Some(at)) = (is_message, run, at)
        && at > run + 2
    {
        let target = &texts[at - 2];
        let message: Vec<&str> =
            texts[at - 1..].iter().copied().take_while(|word| !word.starts_with('-')).collect();
        let tip =
            format!("a message of several words needs quotes: llm-do {target} \"{}\"", message.join(" "));
        mistake.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    mistake
}

/// Parses a `run` by the part of the grammar that concerns it. To define the other commands takes a good part of the time in
/// which llm-do starts. What this part does not take (mistakes, other commands, requests for help) is for the whole grammar,
/// which has all the words for it.
fn run_alone(words: &[OsString]) -> Option<Cli> {
    let run = RunArgs::augment_args(clap::Command::new("run")).disable_help_flag(true);
    let part = Global::augment_args(clap::Command::new("llm-do")).subcommand(run);
    let part = part.disable_help_flag(true).disable_help_subcommand(true).disable_version_flag(true);
    let matches = part.try_get_matches_from(words).ok()?;
    let run = RunArgs::from_arg_matches(matches.subcommand_matches("run")?).ok()?;
    let global = Global::from_arg_matches(&matches).ok()?;
    Some(Cli { global, command: Command::Run(Deferred::new(run)) })
}

/// Commands that later versions have. Their names are never taken for targets, so that no command line changes its meaning.
const PLANNED: &[&str] = &[
    #[cfg(not(feature = "cluster"))]
    "cluster",
];

fn not_yet(name: &str) -> clap::Error {
    let message = format!(
        "this version of llm-do has no command `{name}` yet\n\n\
         For a worker or a folder with this name, write the path: llm-do ./{name}\n\
         For the commands that there are: llm-do --help\n"
    );
    Cli::command().error(clap::error::ErrorKind::InvalidSubcommand, message)
}

/// Inserts the `run` that `llm-do TARGET` omits, if the first word after the general flags is not a command. Working on
/// the words keeps one grammar. Also reads `--color`, which help and error messages need before parsing.
fn with_run(mut words: Vec<OsString>) -> Result<(Vec<OsString>, ColourChoice), clap::Error> {
    let colour_of = |word: Option<&OsString>| {
        word.and_then(|word| word.to_str()).and_then(|word| ColourChoice::from_str(word, true).ok())
    };
    let mut colour = ColourChoice::Auto;
    for (i, word) in words.iter().enumerate() {
        let word = word.to_string_lossy();
        if word == "--" {
            break;
        } else if word == "--color" || word == "--colour" {
            colour = colour_of(words.get(i + 1)).unwrap_or(colour);
        } else if let Some(value) = word.strip_prefix("--color=").or(word.strip_prefix("--colour=")) {
            colour = ColourChoice::from_str(value, true).unwrap_or(colour);
        }
    }
    let mut at = 1;
    while let Some(word) = words.get(at).and_then(|word| word.to_str()) {
        match word {
            "--output" | "--color" | "--colour" => at += 2,
            "--json" | "--quiet" | "--verbose" => at += 1,
            _ if word.starts_with("--output=")
                || word.starts_with("--color=")
                || word.starts_with("--colour=") =>
            {
                at += 1;
            }
            _ if word.len() > 1
                && word.strip_prefix('-').is_some_and(|flags| flags.chars().all(|c| "qv".contains(c))) =>
            {
                at += 1;
            }
            _ => break,
        }
    }
    let known = words.get(at).and_then(|word| word.to_str()).is_some_and(|word| {
        matches!(word, "help" | "-h" | "--help" | "-V" | "--version") || Command::has_subcommand(word)
    });
    if let Some(planned) = words.get(at).and_then(|word| PLANNED.iter().find(|planned| word == **planned)) {
        return Err(not_yet(planned));
    }
    if !known {
        words.insert(at.min(words.len()), "run".into());
    }
    Ok((words, colour))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Cli {
        parse(line.split_whitespace().map(Into::into)).unwrap_or_else(|error| panic!("{error}"))
    }

    fn words(run: &RunArgs) -> Vec<&str> {
        [&run.first, &run.second].into_iter().flatten().map(String::as_str).collect()
    }

    #[test]
    fn the_grammar_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_name_of_a_command_is_known() {
        for command in Cli::command().get_subcommands() {
            assert!(Command::has_subcommand(command.get_name()));
            // `has_subcommand` does not know them.
            assert_eq!(command.get_all_aliases().count(), 0, "{}", command.get_name());
        }
    }

    #[test]
    fn run_is_parsed_alike_by_its_part_and_by_the_whole_grammar() {
        for line in [
            "llm-do run",
            "llm-do run x.worker hi --json -vv --model a:b --param n=1 --param m=2 --budget 1usd",
            "llm-do -q --color never run --approve all x -- --model",
            "llm-do run --output=stream-json x.worker list",
        ] {
            let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
            let whole = Cli::command().try_get_matches_from(&words).map(|it| Cli::from_arg_matches(&it));
            match (run_alone(&words), whole) {
                (Some(part), Ok(Ok(whole))) => {
                    assert_eq!(format!("{part:?}"), format!("{whole:?}"), "{line}");
                }
                (part, whole) => assert!(part.is_none() && whole.is_err(), "{line}: {part:?} {whole:?}"),
            }
        }
        for line in
            ["llm-do run --help", "llm-do run -h", "llm-do run --no-such", "llm-do list", "llm-do --version"]
        {
            assert!(run_alone(&line.split(' ').map(Into::into).collect::<Vec<_>>()).is_none(), "{line}");
        }
    }

    #[test]
    fn a_target_alone_is_run() {
        for line in [
            "llm-do greeter.worker hi",
            "llm-do -q --output json greeter.worker hi",
            "llm-do run greeter.worker hi",
        ] {
            match parsed(line).command {
                Command::Run(run) => assert_eq!(words(&run), ["greeter.worker", "hi"], "{line}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        assert!(matches!(parsed("llm-do").command, Command::Run(run) if words(&run).is_empty()));
        assert!(matches!(parsed("llm-do --model a:b x").command, Command::Run(run) if words(&run) == ["x"]));
    }

    #[test]
    fn command_names_win_and_a_path_escapes_them() {
        assert!(matches!(parsed("llm-do list").command, Command::List(_)));
        assert!(matches!(parsed("llm-do -v list").command, Command::List(_)));
        assert!(matches!(parsed("llm-do ./list").command, Command::Run(run) if words(&run) == ["./list"]));
        assert!(
            matches!(parsed("llm-do x.worker list").command, Command::Run(run) if words(&run) == ["x.worker", "list"])
        );
    }

    #[test]
    fn name_of_a_planned_command_is_no_target() {
        for name in PLANNED {
            assert!(
                Cli::command().find_subcommand(name).is_none(),
                "{name} is there: remove it from the list"
            );
            let error = parse(["llm-do", "-q", name].map(Into::into)).expect_err("it is not there yet");
            assert!(error.to_string().contains(&format!("no command `{name}` yet")), "{error}");
        }
        assert!(matches!(parsed("llm-do ./chat").command, Command::Run(run) if words(&run) == ["./chat"]));
        assert!(matches!(parsed("llm-do run chat").command, Command::Run(run) if words(&run) == ["chat"]));
    }

    #[test]
    fn general_flags_stand_anywhere() {
        let cli = parsed("llm-do x.worker --json -vv");
        assert_eq!((cli.global.format(), cli.global.verbose), (Format::Json, 2));
        assert!(parse(["llm-do", "x", "--json", "--output", "text"].map(Into::into)).is_err());
    }

    #[test]
    fn help_knows_the_commands_of_every_command() {
        let mut root = Cli::command();
        root.build();
        let names = |command: &clap::Command| -> Vec<String> {
            command
                .get_subcommands()
                .map(|sub| sub.get_name().to_owned())
                .filter(|name| name != "help")
                .collect()
        };
        let help = root.find_subcommand("help").expect("clap adds it");
        for command in root.get_subcommands().filter(|command| command.get_name() != "help") {
            let described = help.find_subcommand(command.get_name()).map(names).unwrap_or_default();
            assert_eq!(described, names(command), "{}", command.get_name());
        }
    }

    #[test]
    fn every_command_has_examples() {
        fn look(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
                let path = format!("{path} {}", sub.get_name());
                let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(help.contains("Examples:"), "{path}");
                look(sub, &path);
            }
        }
        let mut root = Cli::command();
        root.build();
        look(&root, "llm-do");
    }
}
