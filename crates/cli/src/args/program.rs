//! Arguments of the commands that inspect, create or convert a program.

use super::{InputFlags, ModelFlags};
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser},
};
use llm_do::program::init::TEMPLATES;
use std::path::PathBuf;

/// A program, and how to load it.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  llm-do list                      the program in the current directory
  llm-do list my-project --json")]
pub(crate) struct ProgramArgs {
    /// A project's directory or a worker file [default: the current directory]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) program: ProgramFlags,
}

/// Arguments of `check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArgs {
    /// Apply the safe fixes, then check again
    #[arg(long)]
    pub(crate) fix: bool,
    /// Show which untrusted content reaches which worker, and which effects it could steer
    #[arg(long)]
    pub(crate) flow: bool,
    /// Explain a diagnostic code; without a code, list all codes
    #[arg(long, value_name = "CODE", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["fix", "flow", "target"])]
    pub(crate) explain: Option<String>,
    // Last, because its heading would also apply to the options below it.
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
}

/// Arguments of `show`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
WORKER is a worker file, a project's directory (for its entry), or the ID of a worker of the project in the current \
directory.

The output names the file and line of each value. With --prompt, it is instead the first request that a run with this \
input would send to the model: rendered instructions, message and tools. Nothing is sent.

Examples:
  llm-do show summarizer
  llm-do show ./my-project --json
  llm-do show utils:summarizer --project my-project
  llm-do show greeter.worker --prompt \"Say hello to Ada\"")]
pub(crate) struct ShowArgs {
    /// The worker [default: the entry of the project]
    pub(crate) worker: Option<String>,
    /// The message, with --prompt
    #[arg(value_name = "MESSAGE", requires = "prompt")]
    pub(crate) second: Option<String>,
    /// Show the first request to the model
    #[arg(long)]
    pub(crate) prompt: bool,
    #[command(flatten)]
    pub(crate) input: InputFlags,
    #[command(flatten)]
    pub(crate) program: ProgramFlags,
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    /// Grant a capability, as for `llm-do run`
    #[arg(long, value_name = "CAPABILITY", help_heading = "Approval")]
    pub(crate) grant: Vec<String>,
}

/// Options for loading a program.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Program")]
pub(crate) struct ProgramFlags {
    /// Start with this worker instead of the project's entry
    #[arg(long, value_name = "ID")]
    pub(crate) entry: Option<String>,
    /// The project's directory
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath, conflicts_with = "no_project")]
    pub(crate) project: Option<PathBuf>,
    /// Load TARGET without the project that contains it
    #[arg(long)]
    pub(crate) no_project: bool,
    /// A folder of libraries to search before those of LLM_DO_LIBS
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) lib: Vec<PathBuf>,
    /// Do not load Python tools; workers that import some are errors
    #[arg(long)]
    pub(crate) no_import_tools: bool,
    /// Let workers import tools from installed Python modules
    #[arg(long, conflicts_with = "no_import_tools")]
    pub(crate) allow_module_imports: bool,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
NAME may be a path that ends in the name. A dot creates the project in the current directory, which must be empty. \
Existing files are never overwritten.

Examples:
  llm-do init my-project
  llm-do init reports/digest --template pipeline
  llm-do init . --template research-agent
  llm-do init --list-templates")]
pub(crate) struct InitArgs {
    /// The project's name: lowercase letters, digits and hyphens
    #[arg(required_unless_present = "list_templates", value_hint = clap::ValueHint::DirPath)]
    pub(crate) name: Option<String>,
    /// The template
    #[arg(long, value_name = "TEMPLATE", default_value = TEMPLATES[0].name, value_parser = template_names())]
    pub(crate) template: String,
    /// List the templates
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
Without --write, llm-do prints the changes as a diff and changes nothing. With --write, it keeps the originals in the \
folder .llm-do-migrated. `llm-do docs migrating` shows each older format before and after.

Examples:
  llm-do migrate                                       preview the changes in the current directory
  llm-do migrate my-project --write                    apply the changes
  llm-do migrate ~/.llm-do/workers --into my-workers --write
  llm-do migrate evaluator.agent --write               one file")]
pub(crate) struct MigrateArgs {
    /// A folder or a worker file [default: the current directory]
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) path: Option<PathBuf>,
    /// Apply the changes
    #[arg(long)]
    pub(crate) write: bool,
    /// Create the project in this new folder and leave PATH unchanged
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) into: Option<PathBuf>,
}
