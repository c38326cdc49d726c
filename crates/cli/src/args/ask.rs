//! Arguments of `ask`.

use super::{BudgetFlags, InputFlags, ModelFlags};
use clap::Args;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The answer comes from a worker without tools. Text on standard input follows the prompt, or is the prompt. The run is recorded \
as those of other workers: `llm-do runs show last` shows it.

Examples:
  llm-do ask \"What is the capital of Iceland?\"
  llm-do ask -m anthropic:claude-haiku-4-5 \"Explain this error\" < build.log
  git diff | llm-do ask \"Write a commit message\" -o message.txt")]
pub(crate) struct AskArgs {
    /// The prompt; several words are joined with spaces [default: standard input]
    pub(crate) prompt: Vec<String>,
    #[command(flatten)]
    pub(crate) model: AskModelFlags,
    /// A file to send with the prompt
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) attach: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
    /// Write the answer to a file in place of stdout
    #[arg(short = 'o', long = "to", value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Output")]
    pub(crate) to: Option<PathBuf>,
}

/// The model and its settings. A prompt is an argument, so `-m` is free for the model.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct AskModelFlags {
    /// The model, as PROVIDER:MODEL
    #[arg(id = "model", short = 'm', long = "model", value_name = "MODEL")]
    name: Option<String>,
    /// Override a model setting or a limit, such as temperature=0.2
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl AskArgs {
    /// The input beside the prompt.
    pub(crate) fn attachments(&self) -> InputFlags {
        InputFlags { attach: self.attach.clone(), ..InputFlags::default() }
    }
}

impl From<AskModelFlags> for ModelFlags {
    fn from(AskModelFlags { name, set }: AskModelFlags) -> Self {
        Self { name, set }
    }
}
