//! Arguments of the commands for libraries.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// A command for libraries, and their folders.
#[derive(Debug, Args)]
#[command(after_help = "\
llm-do looks for folders NAME@VERSION in each --lib, then in the folders of LLM_DO_LIBS (separated by \
colons), by default ~/.llm-do/libs.

Examples:
  llm-do lib install ./text-tools
  llm-do lib install 'git+https://example.org/team/workers.git@v1.2#text-tools'
  llm-do lib install                  install the project's dependencies, write llm-do.lock
  llm-do lib list
  llm-do lib info text-tools
  llm-do lib remove text-tools@1.0.0")]
pub(crate) struct LibArgs {
    /// A folder of libraries to search first, and to install into
    #[arg(long, value_name = "DIR", global = true, value_hint = clap::ValueHint::DirPath)]
    pub(crate) lib: Vec<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: LibCommand,
}

/// The worker to export, and the folder to write to.
#[derive(Debug, Args)]
pub(crate) struct LibExportArgs {
    /// The ID of the worker
    #[arg(long, value_name = "WORKER")]
    pub(crate) skill: String,
    /// The folder of skills in which the skill's folder is made
    #[arg(short = 'o', long = "to", value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) to: PathBuf,
    /// The project's directory [default: the project that contains the current directory]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) project: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LibCommand {
    /// Install a library or skills, or without SPEC the dependencies of the project
    #[command(after_help = "\
SPEC is a folder (./PATH) or a repository (git+URL[@REF][#SUBDIR]). REF is a branch, tag or commit. It has a \
library, a skill (SKILL.md), or several skills.

Without SPEC, llm-do installs the project's dependencies that are paths or repositories. Dependencies \
that are names must already be installed. llm-do.lock then pins all of them, with a hash of each file.

Examples:
  llm-do lib install ./text-tools
  llm-do lib install git+https://example.org/team/workers.git@v1.2
  llm-do lib install
  llm-do lib install --locked          in CI, or after a clone")]
    Install {
        /// The library or the skills: a folder or a repository
        spec: Option<String>,
        /// Replace an installed library that has the same version and different files
        #[arg(long)]
        force: bool,
        /// Install exactly the libraries that llm-do.lock pins; fail if one is not available
        #[arg(long, conflicts_with_all = ["spec", "force"])]
        locked: bool,
        /// The project's directory [default: the project that contains the current directory]
        #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
        project: Option<PathBuf>,
    },
    /// Write a worker as a skill for other agents
    #[command(after_help = "\
Writes DIR/NAME/SKILL.md: what the worker does, the command that calls it, and its parameters. The worker \
needs a description.

Examples:
  llm-do lib export --skill summarizer -o .claude/skills
  llm-do lib export --skill reports/summarizer --project my-project -o ~/.claude/skills")]
    Export(LibExportArgs),
    /// List the installed libraries
    #[command(after_help = "Examples:\n  llm-do lib list\n  llm-do lib list --json")]
    List,
    /// Delete an installed library
    #[command(after_help = "\
A library that is in use is deleted only with --force. It is in use if another installed library \
depends on it, or this project, or a project in which `llm-do lib install` was run.

Examples:
  llm-do lib remove text-tools
  llm-do lib remove text-tools@1.0.0 --force")]
    Remove {
        /// Name from `llm-do lib list`
        #[arg(value_name = "NAME[@VERSION]")]
        library: String,
        /// Delete it even if it is in use
        #[arg(long)]
        force: bool,
    },
    /// Show the contents and the users of an installed library, and whether it matches llm-do.lock
    #[command(
        after_help = "Examples:\n  llm-do lib info text-tools\n  llm-do lib info text-tools@1.0.0 --json"
    )]
    Info {
        /// Name from `llm-do lib list`
        #[arg(value_name = "NAME[@VERSION]")]
        library: String,
    },
}
