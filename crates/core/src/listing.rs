//! Tools that an external program lists, such as a server.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc};

/// What something outside the program says about the tools of a worker. It is recorded, so that a resume and a replay make
/// the same tools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Listing {
    /// The tools, in the kind's own format.
    pub tools: Value,
    /// What the operator should know about them: a server that does not answer, a tool that has changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Arc<str>>,
}

/// The listings of a worker's toolsets, by the name of the kind.
pub type Listings = BTreeMap<Arc<str>, Arc<Listing>>;
