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

#[derive(Debug, Subcommand)]
pub(crate) enum LibCommand {
    /// Install a library, or without SPEC the dependencies of the project
    #[command(after_help = "\
SPEC is a folder (./PATH) or a repository (git+URL[@REF][#SUBDIR]). REF is a branch, tag or commit.

Without SPEC, llm-do installs the project's dependencies that are paths or repositories. Dependencies \
that are names must already be installed. llm-do.lock then pins all of them, with a hash of each file.

Examples:
  llm-do lib install ./text-tools
  llm-do lib install git+https://example.org/team/workers.git@v1.2
  llm-do lib install
  llm-do lib install --locked          in CI, or after a clone")]
    Install {
        /// The library: a folder or a repository
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
