//! The messages between the module and its host (`docs/reference/page-engine.md`).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{collections::BTreeMap, sync::Arc};

/// The number of an effect.
pub type EffectId = u64;
/// The number of a request of the app.
pub type RequestId = u64;

/// A message to the engine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Milliseconds since 1970.
    pub now_ms: u64,
    /// The date where the user is.
    pub today: Arc<str>,
    /// The inputs, in order.
    pub inputs: Vec<Input>,
}

/// An input of the host.
#[derive(Debug, Deserialize)]
#[serde(tag = "input", rename_all = "snake_case")]
pub enum Input {
    /// The beginning.
    Start {
        /// Random bytes.
        entropy: Bytes,
        /// The key of this browser that seals journals.
        seal_key: Bytes,
    },
    /// The options of later runs.
    Options(Options),
    /// A request of the app.
    Request(AppRequest),
    /// The app does not want the rest of an answer.
    Close {
        /// The request.
        id: RequestId,
    },
    /// An effect has succeeded.
    Done(Done),
    /// An effect has failed.
    Failed {
        /// The effect.
        id: EffectId,
        /// The error.
        error: EffectError,
    },
    /// The response to a request has begun.
    Head {
        /// The effect.
        id: EffectId,
        /// The status.
        status: u16,
        /// The headers.
        headers: Vec<(String, String)>,
    },
    /// Bytes of a body.
    Piece {
        /// The effect.
        id: EffectId,
        /// The bytes.
        base64: Bytes,
    },
    /// The end of a body.
    End {
        /// The effect.
        id: EffectId,
    },
    /// Files of a program were changed by something else.
    Changed {
        /// The program.
        program: String,
    },
}

/// A request of the app.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppRequest {
    /// The number of the request.
    pub id: RequestId,
    /// The method.
    pub method: String,
    /// The path with the query.
    pub path: String,
    /// The headers, with names in lower case.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body, if it is text.
    #[serde(default)]
    pub body: Option<String>,
    /// The body, if it is not.
    #[serde(default)]
    pub base64: Option<Bytes>,
}

/// The options that the visitor has chosen.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// The keys of providers, by their variables.
    pub keys: BTreeMap<String, String>,
    /// Other variables.
    pub variables: BTreeMap<String, String>,
    /// The model of all workers.
    pub model: Option<String>,
    /// The model of workers that name none.
    pub default_model: Option<String>,
    /// The mode.
    pub approval: Option<llm_do_core::gate::Mode>,
    /// Rules of calls that run without a question.
    pub allow: Vec<String>,
    /// Rules of calls that ask.
    pub ask: Vec<String>,
    /// Rules of calls that are refused.
    pub deny: Vec<String>,
    /// Limits of each run.
    pub budget: Vec<String>,
    /// Grants.
    pub grants: Vec<String>,
}

/// The result of an effect.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    /// The effect.
    pub id: EffectId,
    /// The bytes that were read.
    #[serde(default)]
    pub base64: Option<Bytes>,
    /// The size of the file.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// The kind of what is at a path.
    #[serde(default)]
    pub kind: Option<FileKind>,
    /// The time of the file's last change, in milliseconds since 1970.
    #[serde(default)]
    pub modified_ms: Option<u64>,
    /// The entries of a folder.
    #[serde(default)]
    pub entries: Vec<FileEntry>,
    /// True if there are more entries.
    #[serde(default)]
    pub cut: bool,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A file.
    File,
    /// A folder.
    Folder,
}

/// An entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// The path from the folder.
    pub path: String,
    /// The kind.
    pub kind: FileKind,
    /// The size of a file.
    #[serde(default)]
    pub bytes: u64,
    /// The time of the last change, in milliseconds since 1970.
    #[serde(default)]
    pub modified_ms: Option<u64>,
}

/// The kind of an effect's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The file or folder does not exist.
    Missing,
    /// The file or folder exists already.
    Exists,
    /// A folder in place of a file, or the reverse.
    WrongKind,
    /// The folder is not empty.
    NotEmpty,
    /// No room is left.
    Quota,
    /// The permission is missing or was revoked.
    Denied,
    /// Another tab has the lock.
    Held,
    /// The request could not be sent, or the connection broke.
    Network,
    /// The effect was aborted.
    Aborted,
    /// Another reason.
    Other,
}

/// The failure of an effect.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EffectError {
    /// The kind.
    pub kind: ErrorKind,
    /// The reason, for people.
    pub message: String,
}

/// The effects of a step.
#[derive(Debug, Serialize, Deserialize)]
pub struct Effects {
    /// The effects, in order.
    pub effects: Vec<Effect>,
}

/// An effect on the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Adds to a journal.
    Append {
        /// The number of the effect.
        id: EffectId,
        /// The run.
        run: Arc<str>,
        /// The file.
        path: String,
        /// Whole lines.
        text: String,
    },
    /// Creates or replaces a file that belongs to a journal.
    Store {
        /// The number of the effect.
        id: EffectId,
        /// The run.
        run: Arc<str>,
        /// The file.
        path: String,
        /// The content.
        base64: Bytes,
    },
    /// Reads a file.
    Read {
        /// The number of the effect.
        id: EffectId,
        /// The file.
        path: String,
        /// The first byte.
        from: u64,
        /// The most bytes.
        most: u64,
    },
    /// Looks at a path.
    Stat {
        /// The number of the effect.
        id: EffectId,
        /// The path.
        path: String,
    },
    /// Lists a folder.
    List {
        /// The number of the effect.
        id: EffectId,
        /// The folder.
        path: String,
        /// True if everything below is listed.
        deep: bool,
        /// The most entries.
        most: u64,
    },
    /// Creates or replaces a file.
    Write {
        /// The number of the effect.
        id: EffectId,
        /// The run that it depends on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<Arc<str>>,
        /// The file.
        path: String,
        /// The content.
        base64: Bytes,
        /// True if it fails where there is one.
        new: bool,
    },
    /// Creates a folder.
    Folder {
        /// The number of the effect.
        id: EffectId,
        /// The run that it depends on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<Arc<str>>,
        /// The folder.
        path: String,
    },
    /// Moves a file or folder.
    Move {
        /// The number of the effect.
        id: EffectId,
        /// The run that it depends on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<Arc<str>>,
        /// The present path.
        path: String,
        /// The new path.
        to: String,
    },
    /// Removes a file or folder.
    Remove {
        /// The number of the effect.
        id: EffectId,
        /// The run that it depends on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<Arc<str>>,
        /// The path.
        path: String,
        /// True if everything below is removed.
        deep: bool,
    },
    /// Takes a lock.
    Lock {
        /// The number of the effect.
        id: EffectId,
        /// The lock.
        name: String,
    },
    /// Gives a lock back.
    Unlock {
        /// The lock.
        name: String,
    },
    /// Sends a request.
    Send {
        /// The number of the effect.
        id: EffectId,
        /// The run that it depends on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<Arc<str>>,
        /// The method.
        method: String,
        /// The address.
        url: String,
        /// The headers.
        headers: Vec<(String, String)>,
        /// The body.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
    },
    /// Waits.
    Wait {
        /// The number of the effect.
        id: EffectId,
        /// The time.
        ms: u64,
    },
    /// Ends a request or a wait.
    Abort {
        /// The number of the effect that ends.
        id: EffectId,
    },
    /// Answers a request of the app.
    Respond {
        /// The request.
        request: RequestId,
        /// The run that the answer depends on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<Arc<str>>,
        /// The status.
        status: u16,
        /// The headers.
        headers: Vec<(String, String)>,
        /// The body, if it is text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The body, if it is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base64: Option<Bytes>,
        /// True if pieces follow.
        stream: bool,
    },
    /// Adds to an answer.
    Piece {
        /// The request.
        request: RequestId,
        /// The run that the piece depends on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<Arc<str>>,
        /// Whole events.
        text: String,
    },
    /// Ends an answer.
    End {
        /// The request.
        request: RequestId,
    },
}

/// Bytes, as Base64 in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(given: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(given)?;
        STANDARD.decode(text.as_bytes()).map(Self).map_err(D::Error::custom)
    }
}
