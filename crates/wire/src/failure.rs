//! The reasons why there is no answer.

use serde_json::Value;

/// The reason why the bytes of a server are no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// The server reports an error, with this body.
    #[error("the server reports an error")]
    Reported(Value),
    /// The answer violates the interface.
    #[error("the answer is garbled: {0}")]
    Garbled(String),
    /// The answer, or one event of it, exceeds a limit.
    #[error("the answer is longer than an answer may be")]
    TooLong,
    /// The bytes have ended before the answer was complete.
    #[error("the answer ended before it was complete")]
    Cut,
    /// The server has ended the answer because of a failure, with this word.
    #[error("the server ended the answer with the reason `{0}`")]
    Broken(String),
    /// The body is JSON, and no answer of the interface.
    #[error("the body is no answer of this interface")]
    Foreign,
    /// The body is neither JSON nor a stream of events. It has this media type.
    #[error("the body is `{0}`, not JSON")]
    NotJson(String),
}
