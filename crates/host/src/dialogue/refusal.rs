//! The reasons why an input has no effect, and the news of a dialogue, in the words that all faces show.

use std::sync::Arc;

/// The reason why an input of the user has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The run works.
    #[error("this needs your turn: wait for it, or stop the answer with Ctrl-C")]
    NotYourTurn,
    /// A question waits for an answer in words.
    #[error("a question waits for its answer first")]
    QuestionFirst,
    /// The chat has not begun.
    #[error("the chat has not begun: say something first")]
    NotBegun,
    /// The chat was left.
    #[error("the chat was left: say something first, which continues it")]
    Left,
    /// The run has ended for good.
    #[error("the chat has ended")]
    Over,
    /// The user has sent no message that can be taken back.
    #[error("there is nothing to take back")]
    NothingToTakeBack,
    /// The user has called no worker.
    #[error("there is no result to keep: /WORKER makes one")]
    NothingToKeep,
    /// The chat has no messages.
    #[error("there is nothing to compact yet")]
    NothingToCompact,
    /// No file or result joins the next message, or none of that name.
    #[error("{}", nothing_joins(.0.as_deref()))]
    NothingJoins(Option<String>),
    /// The run does not work.
    #[error("nothing is being done; Ctrl-D or /exit leaves the chat")]
    NothingToStop,
    /// No conversation in the middle of a run waits, and no question.
    #[error("/done ends a conversation in the middle of a run, and none waits for you")]
    NoConversation,
    /// The conversation that waits is not the chat.
    #[error("/model is for the chat itself: /done ends this conversation first")]
    ModelOfChat,
}

fn nothing_joins(name: Option<&str>) -> String {
    match name {
        None => "nothing joins your next message".to_owned(),
        Some(name) => format!("no {name} joins your next message; /attach shows what does"),
    }
}

/// A fact that the user learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The file joins the first message.
    Joins(Arc<str>),
    /// The file does not join the first message any more.
    JoinsNoMore(Arc<str>),
    /// The message goes to the answer under way.
    SaidWithNext,
    /// The last message was taken back.
    TakenBack,
    /// The files stay as they are, because the user stopped the question about them.
    FilesStay,
    /// A new chat begins with the next message.
    Begins,
}

impl std::fmt::Display for News {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Joins(file) => write!(f, "{file} joins your next message; /detach takes it back"),
            Self::JoinsNoMore(file) => write!(f, "{file} does not join your next message any more"),
            Self::SaidWithNext => f.write_str("it is said with the next request of this answer"),
            Self::TakenBack => f.write_str("your last message and what followed it are taken back"),
            Self::FilesStay => f.write_str("the files stay as they are: /undo took back the messages alone"),
            Self::Begins => f.write_str("a new chat begins with your next message"),
        }
    }
}
