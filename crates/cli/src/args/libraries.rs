//! Arguments of the commands for libraries.

use clap::{Args, Subcommand};
use std::path::PathBuf;

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
