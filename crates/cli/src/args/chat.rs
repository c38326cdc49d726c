//! Arguments of `chat`.

use super::RunArgs;
use clap::Args;

#[derive(Clone, Debug, Default, Args)]
#[command(after_help = "\
TARGET is that of `llm-do run`. A chat is one run: it has a journal, can be left and resumed, and `llm-do runs` shows it. \
Every line is a message. A line that begins with a slash is a command: /help shows them.

Examples:
  llm-do chat greeter.worker                      talk with a worker
  llm-do chat my-project \"What is in notes?\"     begin with a message
  llm-do chat --continue                          continue the chat that was used last here
  printf 'hello\\nand now?\\n' | llm-do chat greeter.worker")]
#[command(mut_arg("to", |arg| arg.hide(true)))]
#[command(mut_arg("operator", |arg| arg.hide(true)))]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,

    /// Continue a chat: the ID of its run, the beginning of that ID, or `last`
    #[arg(long, value_name = "RUN", conflicts_with = "continue", help_heading = "Chat")]
    pub(crate) resume: Option<String>,
    /// Continue the chat of this program that was used last
    #[arg(long = "continue", help_heading = "Chat")]
    pub(crate) r#continue: bool,
    /// Write labelled lines without moving the cursor, as for a screen reader
    #[arg(long, help_heading = "Chat")]
    pub(crate) plain: bool,
}
