//! What the starting process and its supervisor tell each other.

use super::Limits;
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

/// Everything that the supervisor needs to know. It comes by a socket, never by arguments or environment, which others
/// can read.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) task: Task,
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    #[serde(with = "path")]
    pub(super) cwd: PathBuf,
    pub(super) places: Vec<Given>,
    pub(super) holes: Vec<Hole>,
    pub(super) network: Reach,
    pub(super) limits: Limits,
    /// Whether a descriptor came along that the program gets as its number 3.
    pub(super) channel: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Task {
    /// Starts the program in tier A.
    Namespaces,
    /// Starts the program in tier B.
    Landlock,
    /// Starts the program without confinement.
    Unconfined,
    /// Tries whether tier A can be made here.
    TryNamespaces,
}

/// Whom the program can speak to over a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reach {
    /// Nobody.
    Nothing,
    /// The proxy, in a network that has nothing else.
    Proxy,
    /// Everybody.
    Everything,
}

/// A real place that the program may touch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Given {
    #[serde(with = "path")]
    pub(super) place: PathBuf,
    pub(super) write: bool,
}

/// A name inside a given place for which something else holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Hole {
    #[serde(with = "path")]
    pub(super) place: PathBuf,
    pub(super) kind: HoleKind,
    /// What was found there, so that nothing else is taken for it later.
    pub(super) device: u64,
    pub(super) inode: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum HoleKind {
    /// It is not there.
    Hidden,
    /// It may be read only.
    ReadOnly,
}

/// Why a confined process could not be started: which layer refused, where, and what it said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fault {
    pub(super) layer: String,
    pub(super) path: Option<String>,
    pub(super) reason: String,
}

impl Fault {
    pub(super) fn new(layer: &str, reason: impl fmt::Display) -> Self {
        Self { layer: layer.into(), path: None, reason: reason.to_string() }
    }

    pub(super) fn at(mut self, path: &Path) -> Self {
        self.path = Some(path.display().to_string());
        self
    }
}

/// What the supervisor says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// The socket at which the program will find its proxy comes along.
    Listening,
    /// The program is executed.
    Started,
    /// It is not, and never was.
    Failed(Fault),
    /// The program ended by itself, with this code or by this signal.
    Ended { code: Option<i32>, signal: Option<i32> },
    /// The supervisor ended it, because there were too many processes.
    TooMany,
}

/// Asks for an interrupt. The end of the stream asks for the end of everything.
pub(super) const INTERRUPT: u8 = b'i';

/// Name of the supervisor in lists of processes, by which the binary knows that it was started as one.
pub(super) const SUPERVISOR: &str = "llm-do-confine: supervisor";

/// The largest plan that is taken, in bytes.
pub(super) const LARGEST_PLAN: usize = 256 << 20;

/// A frame: the length of what follows as four bytes, then JSON.
pub(super) fn frame<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, value).expect("plans and reports are plain data");
    let length = u32::try_from(bytes.len() - 4).expect("no plan has 4 GiB");
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Paths as text where they are, as bytes where they are not.
mod path {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::{
        ffi::OsString,
        os::unix::ffi::{OsStrExt, OsStringExt},
        path::{Path, PathBuf},
    };

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => to.serialize_str(text),
            None => Written::Bytes(path.as_os_str().as_bytes().to_vec()).serialize(to),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
        Ok(match Written::deserialize(from)? {
            Written::Text(text) => text.into(),
            Written::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}
