//! The command line as typed. What it means is worked out in [`crate::meant`].

mod looking;

use crate::{operator::Channel, paint::ColourChoice};
use clap::{
    Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser, styling},
};
use llm_do::program::init::TEMPLATES;
use std::{ffi::OsString, path::PathBuf};

pub(crate) use looking::{CleanArgs, ExportArgs, ShowRunArgs};

const STYLES: styling::Styles = styling::Styles::styled()
    .header(styling::AnsiColor::Green.on_default().bold())
    .usage(styling::AnsiColor::Green.on_default().bold())
    .literal(styling::AnsiColor::Cyan.on_default().bold())
    .placeholder(styling::AnsiColor::Cyan.on_default());

/// Runs programs made of workers (prompts with a signature) and tools (code with the same signature), in one call tree,
/// under one gate, over one journal.
#[derive(Debug, Parser)]
#[command(
    name = "llm-do",
    version,
    styles = STYLES,
    override_usage = "llm-do [OPTIONS] [TARGET] [MESSAGE]\n       llm-do [OPTIONS] COMMAND",
    after_help = "\
`llm-do TARGET` is short for `llm-do run TARGET`; a target that is spelled like a command is written `./NAME`.
`llm-do run --help` shows the options of a run.

Examples:
  llm-do greeter.worker \"Say hello to Ada\"        run one worker file
  llm-do my-project --param topic=bees            run a project's entry worker
  llm-do list my-project                          show its workers
  llm-do models pull smollm2-135m-instruct        fetch the model that needs no key
  llm-do runs show last                           show what the last run did

Exit codes: 0 done, 1 the run failed, 2 the command, a file or the input is wrong, 3 a grant is missing or the entry
was refused, 4 a limit ended it, 5 waiting for an approval, 130 interrupted."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// Form of what goes to stdout
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, global = true, help_heading = "Output")]
    pub(crate) output: Format,
    /// Short for `--output json`
    #[arg(long, global = true, conflicts_with = "output", help_heading = "Output")]
    pub(crate) json: bool,
    /// Show errors and questions only
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Output")]
    pub(crate) quiet: bool,
    /// Show more: each call where stderr is no terminal, arguments and tokens
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
    /// The form asked for, by either flag.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output }
    }
}

/// What stdout carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// The result as text
    #[default]
    Text,
    /// One JSON object at the end
    Json,
    /// One event a line as it happens
    StreamJson,
    /// SARIF 2.1.0, for code hosts and editors (`check` only)
    Sarif,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a worker or a project
    Run(Box<RunArgs>),
    /// Show the workers of a project
    List(ProgramArgs),
    /// Load a program and report what is wrong with it, without running it
    #[command(after_help = "\
Examples:
  llm-do check my-project          exit code 2 if it can't be loaded
  llm-do check greeter.worker
  llm-do check --fix               mend what can be mended for certain
  llm-do check --explain E0201     what a code means
  llm-do check --output sarif > findings.sarif")]
    Check(CheckArgs),
    /// Show a worker as it is after the merge with its project, or what its model would be sent
    Show(Box<ShowArgs>),
    /// Install and manage libraries
    Lib(LibArgs),
    /// Make a new project
    Init(InitArgs),
    /// Turn an older layout, or older worker files, into a project
    Migrate(MigrateArgs),
    /// Fetch and manage local models
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Look at past runs
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Try a Python function in the place of a worker, against what the worker did
    Harden(HardenArgs),
    /// Ask the gate what it would decide, and why
    #[command(subcommand)]
    Gate(GateCommand),
    /// See and take back what programs were granted
    #[command(subcommand)]
    Grants(GrantsCommand),
    /// Say what this machine has: confinement, Python, providers, models
    #[command(after_help = "\
Examples:
  llm-do doctor                    for the program in the current directory
  llm-do doctor my-project --output json")]
    Doctor {
        /// Folder of the program whose interpreter is looked for [default: the current directory]
        target: Option<PathBuf>,
    },
    /// Print a published JSON Schema, for editors and other programs
    #[command(after_help = "\
Examples:
  llm-do schema worker > worker.schema.json
  llm-do schema project > project.schema.json
  llm-do schema lib > lib.schema.json
  llm-do schema events > events.schema.json")]
    Schema {
        /// Of what
        what: SchemaOf,
    },
    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  llm-do completions bash > ~/.local/share/bash-completion/completions/llm-do
  llm-do completions zsh > ~/.zfunc/_llm-do
  llm-do completions fish > ~/.config/fish/completions/llm-do.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// What a schema describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// The keys of a worker: front matter, or a YAML worker
    Worker,
    /// The manifest, project.yaml or llm-do.yaml
    Project,
    /// A library's lib.yaml
    Lib,
    /// One line of --output stream-json
    Events,
}

#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "\
TARGET is a worker file (ends in .worker, .yaml or .yml), a directory with a project, or a name to be found on
LLM_DO_PATH. With one word, --project or LLM_DO_PROJECT makes it the message; without any, the current directory is run.

A RULE names a tool, or a tool and its arguments: write_file, 'write_file(output/**)', 'shell(git diff*)'.

Examples:
  llm-do greeter.worker \"Say hello to Ada\"
  llm-do my-project -m \"Summarise the notes\" --allow 'write_file(output/**)'
  llm-do extract.worker --input @invoice.json --json
  git diff | llm-do review.worker --model anthropic:claude-haiku-4-5
  llm-do my-project --param input_dir=./data --approval auto_deny
  llm-do my-project --budget 0.50usd --budget 10m")]
pub(crate) struct RunArgs {
    /// What to run; without it, the current directory
    #[arg(value_name = "TARGET")]
    pub(crate) first: Option<String>,
    /// What to tell it
    #[arg(value_name = "MESSAGE")]
    pub(crate) second: Option<String>,
    #[command(flatten)]
    pub(crate) input: InputFlags,

    #[command(flatten)]
    pub(crate) program: ProgramFlags,
    #[command(flatten)]
    pub(crate) model: ModelFlags,

    #[command(flatten)]
    pub(crate) approval: ApprovalFlags,

    #[command(flatten)]
    pub(crate) budget: BudgetFlags,

    /// Show the program's workers instead of running it (`llm-do list`)
    #[arg(long, conflicts_with = "check", help_heading = "Instead of running")]
    pub(crate) list_workers: bool,
    /// Report what is wrong with the program instead of running it (`llm-do check`)
    #[arg(long, help_heading = "Instead of running")]
    pub(crate) check: bool,
}

/// Who decides about calls, and what the program gets.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Approval")]
pub(crate) struct ApprovalFlags {
    /// What happens to calls that need an approval
    #[arg(long = "approval", value_enum, value_name = "MODE")]
    pub(crate) mode: Option<ApprovalMode>,
    /// Run calls that match without asking
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<String>,
    /// Ask about calls that match
    #[arg(long, value_name = "RULE")]
    pub(crate) ask: Vec<String>,
    /// Refuse calls that match
    #[arg(long, value_name = "RULE")]
    pub(crate) deny: Vec<String>,
    /// Let another program answer: unix:PATH, fd:N or fd:READ,WRITE
    #[arg(long, value_name = "CHANNEL")]
    pub(crate) operator: Option<Channel>,
    /// Allow what lies beyond the project: PATH:ro, PATH:rw, network, network=DOMAIN,DOMAIN, endpoint=HOST,VARIABLE, process=uv, unconfined
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) grant: Vec<String>,
}

/// `--approval`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ApprovalMode {
    /// Ask on the terminal
    Interactive,
    /// Run them all
    ApproveAll,
    /// Refuse them all
    AutoDeny,
    /// Stop, and list what waits for an approval
    Defer,
}

/// Which program is meant.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  llm-do list                      the project in the current directory
  llm-do list my-project --json")]
pub(crate) struct ProgramArgs {
    /// A project's directory or a worker file; without it, the current directory
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) program: ProgramFlags,
}

/// A program to be checked.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
    /// Make the changes that mend a finding for certain, and check again
    #[arg(long)]
    pub(crate) fix: bool,
    /// Show what a code means; without a code, list them all
    #[arg(long, value_name = "CODE", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["fix", "target"])]
    pub(crate) explain: Option<String>,
}

/// What a worker is given.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputFlags {
    /// The message, spelled out
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// The input: JSON, @FILE with JSON, or - for stdin
    #[arg(id = "input", long = "input", value_name = "JSON|@FILE|-", allow_hyphen_values = true)]
    pub(crate) json: Option<String>,
    /// One parameter of the entry; JSON where its type is not a string
    #[arg(long = "param", value_name = "NAME=VALUE")]
    pub(crate) params: Vec<String>,
    /// A file that the model is given with the message
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) attach: Vec<PathBuf>,
}

/// Which model, and how it is set.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Program")]
pub(crate) struct ModelFlags {
    /// The model, PROVIDER:MODEL
    #[arg(id = "model", long = "model", value_name = "MODEL")]
    pub(crate) name: Option<String>,
    /// Override a setting of the model, such as temperature=0.2
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// What the whole run may use.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Budget")]
pub(crate) struct BudgetFlags {
    /// Most that the whole run may use: 0.50usd, 200000tokens, 30turns, 100calls, 10m; several together
    #[arg(long, value_name = "AMOUNT", value_delimiter = ',')]
    pub(crate) budget: Vec<String>,
}

/// What `llm-do show` shows.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
WORKER is a worker file, a project's directory (its entry is shown), or the ID of a worker of the project here.

Each value stands with the file and line it comes from. With --prompt, what a run with this input would send to the
model first is shown instead: instructions as rendered, message, tools. Nothing is sent.

Examples:
  llm-do show summarizer
  llm-do show ./my-project --json
  llm-do show utils:summarizer --project my-project
  llm-do show greeter.worker --prompt \"Say hello to Ada\"")]
pub(crate) struct ShowArgs {
    /// The worker; without it, the entry of the project here
    pub(crate) worker: Option<String>,
    /// What to tell it, with --prompt
    #[arg(value_name = "MESSAGE", requires = "prompt")]
    pub(crate) second: Option<String>,
    /// Show what the model would be sent
    #[arg(long)]
    pub(crate) prompt: bool,
    #[command(flatten)]
    pub(crate) input: InputFlags,
    #[command(flatten)]
    pub(crate) program: ProgramFlags,
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    /// Allow what lies beyond the project, as in a run
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) grant: Vec<String>,
}

/// How a program is found and loaded.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Program")]
pub(crate) struct ProgramFlags {
    /// The worker to start with, instead of the project's entry
    #[arg(long, value_name = "ID")]
    pub(crate) entry: Option<String>,
    /// The project's root
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with = "no_project")]
    pub(crate) project: Option<PathBuf>,
    /// Take TARGET as a file of its own, whatever project is around it
    #[arg(long)]
    pub(crate) no_project: bool,
    /// A further folder of libraries, searched before those of LLM_DO_LIBS
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) lib: Vec<PathBuf>,
    /// Load no Python tools: workers that import some are refused
    #[arg(long)]
    pub(crate) no_import_tools: bool,
    /// Let workers import tools from installed Python modules
    #[arg(long, conflicts_with = "no_import_tools")]
    pub(crate) allow_module_imports: bool,
}

/// What is done with libraries, and where they lie.
#[derive(Debug, Args)]
#[command(after_help = "\
Libraries lie in folders NAME@VERSION below --lib, then LLM_DO_LIBS (separated by colons), by
default ~/.llm-do/libs.

Examples:
  llm-do lib install ./text-tools
  llm-do lib install 'git+https://example.org/team/workers.git@v1.2#text-tools'
  llm-do lib install                  what the project here depends on; writes llm-do.lock
  llm-do lib list
  llm-do lib info text-tools
  llm-do lib remove text-tools@1.0.0")]
pub(crate) struct LibArgs {
    /// A further folder of libraries, looked in first; libraries are installed there
    #[arg(long, value_name = "DIR", global = true, value_hint = clap::ValueHint::DirPath)]
    pub(crate) lib: Vec<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: LibCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LibCommand {
    /// Install a library, or without SPEC what the project here depends on
    #[command(after_help = "\
SPEC is a folder (./PATH) or a repository (git+URL[@REF][#SUBDIR]). REF is a branch, tag or commit.

Without SPEC, paths and repositories among the project's dependencies are installed; names must be
installed already. llm-do.lock then pins all of them with the hash of each file.

Examples:
  llm-do lib install ./text-tools
  llm-do lib install git+https://example.org/team/workers.git@v1.2
  llm-do lib install
  llm-do lib install --locked          in CI, or after a clone: exactly what llm-do.lock pins")]
    Install {
        /// What to install
        spec: Option<String>,
        /// Replace a library that is installed with the same version and other files
        #[arg(long)]
        force: bool,
        /// Install what llm-do.lock pins and nothing else; fail if that is no longer to be had
        #[arg(long, conflicts_with_all = ["spec", "force"])]
        locked: bool,
        /// The project's root; without it, the project around the current directory
        #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        project: Option<PathBuf>,
    },
    /// Show the libraries that are installed
    #[command(after_help = "Examples:\n  llm-do lib list\n  llm-do lib list --json")]
    List,
    /// Delete an installed library that nobody uses
    #[command(after_help = "\
A library is in use if another installed library, the project here, or a project in which
`llm-do lib install` was run asks for it.

Examples:
  llm-do lib remove text-tools
  llm-do lib remove text-tools@1.0.0 --force")]
    Remove {
        /// Its name in `llm-do lib list`
        #[arg(value_name = "NAME[@VERSION]")]
        library: String,
        /// Delete it even if it is in use
        #[arg(long)]
        force: bool,
    },
    /// Show what an installed library holds, who uses it, and whether it is what llm-do.lock pins
    #[command(
        after_help = "Examples:\n  llm-do lib info text-tools\n  llm-do lib info text-tools@1.0.0 --json"
    )]
    Info {
        /// Its name in `llm-do lib list`
        #[arg(value_name = "NAME[@VERSION]")]
        library: String,
    },
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
NAME may be a path whose last part is the name. A dot makes a project of the current folder, which must be empty.
Nothing that is there is ever overwritten.

Examples:
  llm-do init my-project
  llm-do init reports/digest --template pipeline
  llm-do init . --template research-agent
  llm-do init --list-templates")]
pub(crate) struct InitArgs {
    /// The project's name: small letters, digits and hyphens
    #[arg(required_unless_present = "list_templates", value_hint = clap::ValueHint::DirPath)]
    pub(crate) name: Option<String>,
    /// What to begin with
    #[arg(long, value_name = "TEMPLATE", default_value = TEMPLATES[0].name, value_parser = template_names())]
    pub(crate) template: String,
    /// Show the templates there are
    #[arg(long)]
    pub(crate) list_templates: bool,
}

fn template_names() -> PossibleValuesParser {
    TEMPLATES
        .iter()
        .map(|template| PossibleValue::new(template.name).help(template.about))
        .collect::<Vec<_>>()
        .into()
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without --write nothing is changed: the changes go to stdout as a diff. With it the originals are kept, in a folder
.llm-do-migrated. docs/migrating.md shows each older form before and after.

Examples:
  llm-do migrate                                       show what would change in the current folder
  llm-do migrate my-project --write                    change it, keep the originals
  llm-do migrate ~/.llm-do/workers --into my-workers --write
  llm-do migrate evaluator.agent --write               one file")]
pub(crate) struct MigrateArgs {
    /// A folder or a worker file; without it, the current folder
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) path: Option<PathBuf>,
    /// Do it
    #[arg(long)]
    pub(crate) write: bool,
    /// Make the project in this folder, which must not exist, and leave PATH as it is
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) into: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  llm-do models list
  llm-do models pull smollm2-135m-instruct
  llm-do greeter.worker hello --model local:smollm2-135m-instruct
  llm-do models remove smollm2-135m-instruct")]
pub(crate) enum ModelsCommand {
    /// Show the models that can be fetched and those that are here
    #[command(after_help = "Examples:\n  llm-do models list\n  llm-do models list --json")]
    List,
    /// Download a model's weights, once
    #[command(after_help = "\
An interrupted download goes on where it stopped. The file is put in place only when its SHA-256 is right.

Examples:
  llm-do models pull smollm2-135m-instruct")]
    Pull {
        /// Its name in `llm-do models list`; without it, the smallest
        name: Option<String>,
    },
    /// Delete a model's weights
    #[command(after_help = "Examples:\n  llm-do models remove smollm2-135m-instruct")]
    Remove {
        /// Its name in `llm-do models list`
        name: String,
    },
}

/// What a resumed run is told.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Which run
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// The project's directory or a worker file; without it, the current directory
    pub(crate) target: Option<String>,
    /// Approve a call that waits, or `all`
    #[arg(long, value_name = "CALL", help_heading = "Decisions")]
    pub(crate) approve: Vec<String>,
    /// Deny a call that waits; the model is told the reason
    #[arg(long, value_name = "CALL[=REASON]", help_heading = "Decisions")]
    pub(crate) deny: Vec<String>,
    /// Run a tool again that had begun and not ended
    #[arg(long, value_name = "CALL", help_heading = "Decisions")]
    pub(crate) again: Vec<String>,
    /// Let another program answer: unix:PATH, fd:N or fd:READ,WRITE
    #[arg(long, value_name = "CHANNEL", help_heading = "Decisions")]
    pub(crate) operator: Option<Channel>,
    /// Count a tool that had begun and not ended as done, with this result
    #[arg(long, value_name = "CALL=JSON", help_heading = "Decisions")]
    pub(crate) result: Vec<String>,
}

/// What takes a worker's place, and what it is tried against.
#[derive(Debug, Args)]
#[command(after_help = "\
The function runs in the confinement of any Python tool, and beyond that it can change nothing and has neither network nor
models. What it raises NotImplementedError for is left to the worker. Exit code 1 if a case fails.

Examples:
  llm-do harden summarizer --with tools.py:summarizer
  llm-do harden pricing --with pricing.py:price --tolerance 1e-6
  llm-do harden pricing --with pricing.py:price --cases tests/pricing --compare schema")]
pub(crate) struct HardenArgs {
    /// The worker, by its ID
    pub(crate) worker: String,
    /// The project's directory; without it, the current directory
    pub(crate) target: Option<String>,
    /// The function
    #[arg(long = "with", value_name = "FILE.py:FUNCTION")]
    pub(crate) function: String,
    /// A file with cases, or the folder that `runs export --cases` has written; without it, all runs of the project
    #[arg(long, value_name = "DIR|FILE", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) cases: Option<PathBuf>,
    /// When an output counts as the recorded one [default: exact, or tolerance where one is given]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) compare: Option<CompareBy>,
    /// How much numbers may differ, of the larger one, or of 1 where both are smaller [default: 1e-6]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) tolerance: Option<f64>,
    /// Grant what the program asks for beyond its own folder, as in a run
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) grant: Vec<String>,
}

/// `--compare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompareBy {
    /// It is equal
    Exact,
    /// It fits what the worker returns
    Schema,
    /// It is equal, but for numbers that differ by little
    Tolerance,
}

/// Which run is replayed, over what.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Which run: as in `llm-do runs show`, or its folder
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// Where the run is looked for: a project's directory or a worker file; without it, the current directory
    pub(crate) target: Option<String>,
    /// A program in place of the one that was recorded: a project's directory or a worker file
    #[arg(long, value_name = "WORKER_DIR", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) against: Option<PathBuf>,
    /// Grant what the program asks for beyond its own folder, as in a run
    #[arg(long, value_name = "CAPABILITY")]
    pub(crate) grant: Vec<String>,
}

#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  llm-do gate explain write_file '{\"path\": \"out/a.md\", \"content\": \"\"}'"
)]
pub(crate) enum GateCommand {
    /// Say which rule decides about a call, and what the others say
    #[command(after_help = "\
Nothing is sent, asked or run.

Examples:
  llm-do gate explain write_file '{\"path\": \"out/a.md\", \"content\": \"\"}'
  llm-do gate explain shell '{\"command\": \"git push\"}' --in my-project --entry release
  llm-do gate explain delete_file '{\"path\": \"a.txt\"}' --deny 'delete_file(*.txt)'")]
    Explain(Box<ExplainArgs>),
}

/// A call that is to be explained.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The tool, as the model sees it
    pub(crate) tool: String,
    /// Its arguments as JSON, or @FILE
    #[arg(default_value = "{}")]
    pub(crate) arguments: String,
    /// The project's directory or a worker file [default: the current directory]
    #[arg(long = "in", value_name = "TARGET")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) input: InputFlags,
    #[command(flatten)]
    pub(crate) program: ProgramFlags,
    #[command(flatten)]
    pub(crate) approval: ApprovalFlags,
}

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:\n  llm-do grants list\n  llm-do grants revoke my-project")]
pub(crate) enum GrantsCommand {
    /// List what was granted, and to which program
    #[command(after_help = "Examples:\n  llm-do grants list\n  llm-do grants list --json")]
    List,
    /// Take back what a program was granted
    #[command(after_help = "\
Examples:
  llm-do grants revoke my-project
  llm-do grants revoke /home/me/gone       a program that is no longer there
  llm-do grants revoke --all")]
    Revoke {
        /// The project's directory or a worker file [default: the current directory]
        target: Option<String>,
        /// Everything that any program was granted
        #[arg(long, conflicts_with = "target")]
        all: bool,
    },
}

#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  llm-do runs list
  llm-do runs show last
  llm-do runs show 20260102-1504 --json
  llm-do runs export last --html -o run.html")]
pub(crate) enum RunsCommand {
    /// List the newest runs of a project
    #[command(after_help = "Examples:\n  llm-do runs list\n  llm-do runs list my-project -n 50 --json")]
    List {
        /// The project's directory or a worker file; without it, the current directory
        target: Option<String>,
        /// How many at most
        #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Go on with a run that waits for an approval, was interrupted or was cut off
    #[command(after_help = "\
What the run did before is not done again. RUN is as in `llm-do runs show`; CALL is a place in its call tree, as
`llm-do runs show` and a suspended run tell it.

Examples:
  llm-do runs resume last                            after a kill or Ctrl-C
  llm-do runs resume last --approve 0/2.0            a call that waited for approval
  llm-do runs resume last --deny 0/2.0=\"not today\"
  llm-do runs resume last --again 0/3.1              a tool that was cut off in its middle runs again
  llm-do runs resume last --result 0/3.1='\"sent\"'    or counts as done, with this result")]
    Resume(ResumeArgs),
    /// Run a program again over the record of a run, without doing anything, and show where it first does something else
    #[command(after_help = "\
Nothing is sent, asked, written or run: answers of models and results of tools come from the record, and what the program
would send is compared with what was sent. Exit code 1 if something differs. RUN is as in `llm-do runs show`, or the
folder of a run.

Examples:
  llm-do runs replay last                                 after a change of prompts or code
  llm-do runs replay last --against ../other-version
  llm-do runs replay tests/recorded --against . --json    in CI, with a run that is kept")]
    Replay(ReplayArgs),
    /// Show what a run did: its call tree with times, tokens and approvals
    Show(ShowRunArgs),
    /// Write a run in a form for others: a page, a trace, or the cases of a worker
    Export(ExportArgs),
    /// Remove old runs
    Clean(CleanArgs),
}

/// Reads the words of the command line. A mistake, `--help` and `--version` come back as clap's error, to be printed.
pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let command = Cli::command();
    let (words, colour) = with_run(&command, words.into_iter().collect());
    let command = command.color(match colour {
        ColourChoice::Auto => clap::ColorChoice::Auto,
        ColourChoice::Always => clap::ColorChoice::Always,
        ColourChoice::Never => clap::ColorChoice::Never,
    });
    Cli::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// Puts in the `run` that `llm-do TARGET` leaves out: wherever the first word that is no general flag names no command.
/// Done on the words, so that there is one grammar and not two; the colour is read here because help and mistakes need
/// it too.
fn with_run(command: &clap::Command, mut words: Vec<OsString>) -> (Vec<OsString>, ColourChoice) {
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
        matches!(word, "help" | "-h" | "--help" | "-V" | "--version")
            || command.find_subcommand(word).is_some()
    });
    if !known {
        words.insert(at.min(words.len()), "run".into());
    }
    (words, colour)
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
    fn general_flags_stand_anywhere() {
        let cli = parsed("llm-do x.worker --json -vv");
        assert_eq!((cli.global.format(), cli.global.verbose), (Format::Json, 2));
        assert!(parse(["llm-do", "x", "--json", "--output", "text"].map(Into::into)).is_err());
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
        look(&Cli::command(), "llm-do");
    }
}
