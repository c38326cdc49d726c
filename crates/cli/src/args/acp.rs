//! Arguments of `acp`.

use super::{ApprovalFlags, BudgetFlags, ModelFlags, ProgramFlags, RunArgs};
use clap::Args;

#[derive(Clone, Debug, Args)]
#[command(after_help = "\
An editor starts this command and talks with it; `llm-do docs editors` shows how to set editors up. Every session of the \
editor is a chat with the program's entry worker. Without TARGET, a session uses the program in its folder.

TARGET, --project and --lib are relative to the directory that llm-do is started in. Paths in other options are relative to \
the session's folder.

Examples:
  llm-do acp                                      the project that is open in the editor
  llm-do acp ~/workers/reviewer.worker            one worker, in whatever folder is open
  llm-do acp --model anthropic:claude-haiku-4-5 --allow 'write_file(output/**)'")]
#[command(mut_arg("operator", |arg| arg.hide(true)))]
pub(crate) struct AcpArgs {
    /// A project's directory or a worker file [default: the folder of each session]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) program: ProgramFlags,
    #[command(flatten)]
    pub(crate) model: ModelFlags,
    #[command(flatten)]
    pub(crate) approval: ApprovalFlags,
    #[command(flatten)]
    pub(crate) budget: BudgetFlags,
}

impl From<&AcpArgs> for RunArgs {
    fn from(acp: &AcpArgs) -> Self {
        let AcpArgs { target, program, model, approval, budget } = acp.clone();
        Self { first: target, program, model, approval, budget, ..Self::default() }
    }
}
