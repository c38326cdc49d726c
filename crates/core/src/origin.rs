//! Origins of values (`docs/reference/origins.md`).
//!
//! Content can attack an agent: a page says *send this there*, and a model does. Therefore each value of a run has an
//! [`Origin`], and the gate asks about an effect that untrusted words could steer.

mod marks;
mod places;
mod scalars;
mod steering;
mod trail;
mod typed;
mod words;

pub use marks::{Mark, Origins};
pub(crate) use marks::{echoed, pointer};
pub use places::{UntrustedPlaces, UntrustedSet};
pub use steering::{Held, Steering, Untrusted};
pub use trail::{Content, ContentKind, Trail};
pub(crate) use typed::cleaned;
pub(crate) use words::contains;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{fmt, sync::Arc};

/// The origin of a value. Ordered by suspicion: the origin of what is made of several values is the greatest of theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The operator wrote it, or the program's own text, files and tools.
    #[default]
    Trusted,
    /// An untrusted value that came through a type without room for instructions, such as a number or an enumeration.
    Typed,
    /// Somebody else wrote it: a page, a mail, a server.
    Untrusted,
}

impl Origin {
    /// Returns true if the origin is trusted.
    pub fn is_trusted(&self) -> bool {
        *self == Self::Trusted
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Trusted => "trusted",
            Self::Typed => "typed",
            Self::Untrusted => "untrusted",
        })
    }
}

/// The origin that a function states for its results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ResultOrigin {
    /// Results are the program's own.
    #[default]
    Trusted,
    /// Results are the user's answers.
    User,
    /// Results contain words of others.
    Untrusted,
    /// Results contain words of others, and others also wrote their schema: no type makes them
    /// [`typed`](Origin::Typed).
    Foreign,
    /// Only these top-level fields of a result contain words of others. For a result that is a list, the fields of its
    /// elements. An empty list is the author's statement that the results are the program's own, whatever its process
    /// reads.
    Fields(Arc<[Arc<str>]>),
}

/// The words that a condition compares an argument with: `from: input`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// The operator's words in this run: input, chat messages, answers.
    Input,
    /// Whole JSON scalars of the trusted content of the run.
    Trusted,
    /// Both of `input` and `trusted`.
    Known,
    /// Results of calls whose source (an address, a file, a message) the operator's input names.
    Source,
}

impl fmt::Display for From {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Trusted => "trusted",
            Self::Known => "known",
            Self::Source => "source(input)",
        })
    }
}

/// Answers whether a value occurs in words of a given origin. The engine answers from the records of the run.
pub trait Provenance {
    /// Returns true if `value` comes from `words`. False for a value that is not a scalar.
    fn holds(&self, words: From, value: &Value) -> bool;

    /// Returns true if `words` name that host, in an address or by itself.
    fn names_host(&self, words: From, host: &str) -> bool;
}
