//! Files that the operator gives with a message (`docs/reference/worker-files.md`).

use crate::{
    authority::{Authority, Place},
    model::Blob,
    origin::UntrustedPlaces,
};
use serde::{Deserialize, Serialize};

/// A file that the operator gives with a message, with its content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Attachment {
    /// Its name and content.
    #[serde(flatten)]
    pub file: Blob,
    /// Where the file lies, if it is one of this machine: the place that names it, and the one that its links lead to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Place>,
    /// Whether others wrote it whatever the program says, such as the text of a page.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub foreign: bool,
}

impl Attachment {
    /// Returns true if others wrote the content of the file: its source says so, or its place is untrusted.
    pub(crate) fn is_of_others(&self, authority: &Authority, listed: &dyn UntrustedPlaces) -> bool {
        self.foreign || self.places.iter().any(|place| authority.is_untrusted(place) || listed.hold(place))
    }
}

/// An attachment without a file on disk.
impl From<Blob> for Attachment {
    fn from(file: Blob) -> Self {
        Self { file, places: Vec::new(), foreign: false }
    }
}
