//! The input of a run.

use llm_do_core::attachment::Attachment;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;

/// The input of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Input {
    /// A plain message.
    pub message: Option<String>,
    /// The whole input as JSON.
    pub json: Option<Value>,
    /// Parameters as text, by name.
    pub parameters: Vec<(String, String)>,
    /// Files to attach.
    pub attachments: Vec<PathBuf>,
    /// Files to attach whose content the caller already has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contents: Vec<Attachment>,
    /// Files that the host hands over: those that a service has taken from the client who starts the run, and those of a folder
    /// of inputs. Parts that the operator did not write may name them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handed: Vec<PathBuf>,
    /// The parts that were read from a file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<ReadPart>,
}

/// A part of an input that was read from a file: the operator did not write its words. A path in it names only places
/// that the entry may see, and grants nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadPart {
    /// The part.
    pub part: InputPart,
    /// True if others wrote the file .
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
}

/// A part of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InputPart {
    /// [`Input::message`].
    Message,
    /// [`Input::json`].
    Json,
    /// A parameter of [`Input::parameters`].
    Parameter(String),
}
