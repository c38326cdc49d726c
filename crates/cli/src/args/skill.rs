//! Arguments of `skill`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Commands of `skill`.
#[derive(Clone, Debug, Subcommand)]
#[command(after_help = "Examples:\n  llm-do skill install\n  llm-do skill install --to .claude/skills")]
pub(crate) enum SkillCommand {
    /// Write the skill `llm-do` into a folder of skills
    Install(SkillInstallArgs),
}

/// Arguments of `skill install`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A skill is a folder with a file SKILL.md (Agent Skills format), which coding agents read when a task needs it.

Examples:
  llm-do skill install                        for the agents that read .agents/skills
  llm-do skill install --to .claude/skills
  llm-do skill install --to ~/.claude/skills --replace")]
pub(crate) struct SkillInstallArgs {
    /// Folder of skills; the skill becomes its folder `llm-do`
    #[arg(long, value_name = "DIR", default_value = ".agents/skills", value_hint = clap::ValueHint::DirPath)]
    pub(crate) to: PathBuf,
    /// Replace the files of a skill `llm-do` that is there and differs
    #[arg(long)]
    pub(crate) replace: bool,
}
