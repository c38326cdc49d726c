//! Owners of functions.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where a function comes from. Source and name are the function's identity; the name that a model sees is only a
/// label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FunctionSource {
    /// A toolset that is part of llm-do, or registered by the embedding program.
    Toolset(Arc<str>),
    /// A worker of the program.
    Program,
    /// A worker or tool of this library.
    Library(Arc<str>),
    /// A worker made during the run.
    Generated,
}

impl FunctionSource {
    /// Returns true if the function's author is not the program's author. Rules and views treat libraries and generated
    /// workers separately.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Library(_) | Self::Generated)
    }
}

/// The identity of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FunctionId {
    /// The owner of the function.
    pub source: FunctionSource,
    /// The function's name in its source; a worker's ID.
    pub name: Arc<str>,
}
