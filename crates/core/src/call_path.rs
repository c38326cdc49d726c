//! Places in the call tree: the keys under which everything is recorded.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// A place in the call tree, for example `0/3.1/0.0`: the root call, its turn 3's call 1, that one's turn 0's call 0.
///
/// Keys come from the position in the tree and never from completion order, so that parallel calls can be resumed,
/// replayed, or run on another machine (`docs/architecture.md`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CallPath(Arc<str>);

impl CallPath {
    /// The top-level call of the run.
    pub fn root() -> Self {
        Self("0".into())
    }
    /// The call that a worker's turn made, by its index in that turn.
    pub fn call(&self, turn: u32, index: usize) -> Self {
        Self(format!("{}/{turn}.{index}", self.0).into())
    }
    /// The call of an `ensures` tool with the output of a worker's turn, by the tool's index among them.
    pub fn judge(&self, turn: u32, index: usize) -> Self {
        Self(format!("{}/ensures.{turn}.{index}", self.0).into())
    }
    /// The judgement of a tool that a worker's provider runs, by the tool's index in `server_side_tools`.
    pub fn server_tool(&self, index: usize) -> Self {
        Self(format!("{}/server.{index}", self.0).into())
    }
    /// The call of a tool that returns a set of a rule, by its index among them.
    pub fn set(&self, index: usize) -> Self {
        Self(format!("{}/set.{index}", self.0).into())
    }
    /// Returns true if the user makes that call ([`CallPath::by_user`]).
    pub fn is_by_user(&self) -> bool {
        self.0.rsplit('/').next().is_some_and(|key| key.starts_with("run."))
    }
    /// Returns true if the user has made that call with the message of that number.
    pub fn is_message_of_user(&self, number: u32) -> bool {
        self.parent().is_some_and(|parent| *self == parent.by_user(number))
    }
    /// The call of a worker that the user makes in a conversation, by the number of the user's message.
    pub fn by_user(&self, number: u32) -> Self {
        Self(format!("{}/run.{number}", self.0).into())
    }
    /// A call made by code rather than by a model's turn. `key` distinguishes it from its siblings (function,
    /// canonical arguments, occurrence; `docs/reference/journal.md`).
    pub fn keyed(&self, key: &str) -> Self {
        Self(format!("{}/{key}", self.0).into())
    }
    /// A place as a person types it, read from a journal. The call need not exist.
    pub fn typed(text: &str) -> Self {
        Self(text.into())
    }
    /// The path of its caller.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.into()))
    }
    /// Returns true if the path is that of the other call or below it.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.strip_prefix(&*other.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
    /// The turn of the worker's conversation at `other` that made this call, which lies below it. `None` if no turn
    /// did.
    pub fn turn_below(&self, other: &Self) -> Option<u32> {
        let rest = self.0.strip_prefix(&*other.0)?.strip_prefix('/')?;
        let key = rest.split('/').next()?;
        let key = key.strip_prefix("ensures.").unwrap_or(key);
        key.split_once('.')?.0.parse().ok()
    }
    /// Number of calls above it.
    pub fn depth(&self) -> usize {
        self.0.matches('/').count()
    }
    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for CallPath {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for CallPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
