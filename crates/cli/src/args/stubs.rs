//! Arguments of `stubs`.

use super::ProgramArgs;
use clap::{ArgGroup, Args};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
#[command(
    group = ArgGroup::new("language").required(true),
    after_help = "\
The types describe the input and the output of each worker. The file begins with a hash of the workers' signatures: `llm-do check` \
and the clients notice when it is out of date.

Examples:
  llm-do stubs my-project --python -o my_project.py
  llm-do stubs my-project --typescript -o src/my-project.d.ts
  llm-do stubs my-project --rust -o src/workers.rs"
)]
pub(crate) struct StubsArgs {
    /// Write a Python module
    #[arg(long, group = "language")]
    pub(crate) python: bool,
    /// Write a TypeScript declaration file
    #[arg(long, group = "language")]
    pub(crate) typescript: bool,
    /// Write a Rust module with types of serde
    #[arg(long, group = "language")]
    pub(crate) rust: bool,
    /// Write to this file [default: stdout]
    #[arg(short = 'o', long = "to", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
    // Last, because its heading would also apply to the options above it.
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
}
