//! Arguments of `page`.

use super::ProgramArgs;
use clap::Args;
use llm_do::core::model::ModelName;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The page contains the web app, the engine and the program's definition files. It runs the program in the visitor's browser, with \
the visitor's key. It needs no server: any host of static files will do. It connects to its own site and to the providers of the \
program's models, and the browser blocks everything else.

Everything in the page is public. Read the list of files that this command prints.

Examples:
  llm-do page my-project -o site
  llm-do page my-project -o site --model openai:gpt-5-mini
  llm-do page my-project -o site --include data/prices.csv
  llm-do page my-project -o share --single         one file, share/index.html
  llm-do page --empty -o site                      a page for the visitors' own programs")]
pub(crate) struct PageArgs {
    /// Write the page into this folder, which is new, empty, or holds an older page of this command
    #[arg(short = 'o', long = "to", value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
    /// Write one HTML file, which contains everything
    #[arg(long)]
    pub(crate) single: bool,
    /// Use this model for all workers; visitors can choose another model of the same provider
    #[arg(long, value_name = "PROVIDER:MODEL")]
    pub(crate) model: Option<ModelName>,
    /// Add a file or a folder of the program, beside its definition files; may be repeated
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) include: Vec<String>,
    /// Let the page connect to this origin too, such as `http://127.0.0.1:8080`; may be repeated
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) connect: Vec<String>,
    /// Write a page without a program, in which visitors open their own
    #[arg(long, conflicts_with_all = ["target", "model", "include"])]
    pub(crate) empty: bool,
    // Last, because its heading would also apply to the options above it.
    #[command(flatten)]
    pub(crate) program: ProgramArgs,
}
