//! Arguments of the commands that look at a program, make one or change one.

use super::{InputFlags, ModelFlags};
use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser},
};
use llm_do::program::init::TEMPLATES;
use std::path::PathBuf;

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
