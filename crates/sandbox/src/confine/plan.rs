//! The messages between the starting process and its supervisor.

use super::Limits;
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
};

/// The supervisor's instructions. They are sent over a socket, never by arguments or environment, which others can
/// read.
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
    /// Links that the program sees beside its places, in tier A.
    pub(super) links: Vec<Link>,
    pub(super) network: Reach,
    pub(super) limits: Limits,
    /// The place at which the program gets the descriptor that comes with the message, if there is one.
    pub(super) channel: Option<ChannelAt>,
    /// The certificates that the program trusts instead of the system's, as PEM: a file of its temporary folder.
    pub(super) authorities: Option<String>,
}

/// The place of a program's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ChannelAt {
    /// Number 3.
    Third,
    /// Standard input.
    Input,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Task {
    /// Starts the program in tier A.
    Namespaces,
    /// Starts the program in tier B.
    Landlock,
    /// Starts the program without confinement.
    Unconfined,
    /// Tests whether tier A works here.
    TryNamespaces,
}

/// The program's network reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reach {
    /// No network.
    Nothing,
    /// The proxy, in a network that has nothing else.
    Proxy,
    /// All networks of the machine.
    Everything,
}

/// A real place that the program may touch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Given {
    #[serde(with = "path")]
    pub(super) place: PathBuf,
    pub(super) write: bool,
}

/// A name inside a given place that has other rights.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Hole {
    #[serde(with = "path")]
    pub(super) place: PathBuf,
    pub(super) kind: HoleKind,
    /// The identity of the file found there, so that no other is mistaken for it later.
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// A symbolic link outside the given places that leads to one of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Link {
    #[serde(with = "path")]
    pub(super) at: PathBuf,
    #[serde(with = "path")]
    pub(super) leads_to: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum HoleKind {
    /// The name is invisible.
    Hidden,
    /// The name is read-only.
    ReadOnly,
}

/// The reason why a confined process could not be started: the layer that refused, the place and the error.
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

/// A report of the supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Report {
    /// The message includes the socket at which the program will find its proxy.
    Listening,
    /// The program is executed.
    Started,
    /// The program could not be executed.
    Failed(Fault),
    /// The program ended by itself, with this code or by this signal.
    Ended { code: Option<i32>, signal: Option<i32> },
    /// The supervisor ended it, because there were too many processes.
    TooMany,
}

/// Requests an interrupt. The end of the stream requests the end of everything.
pub(super) const INTERRUPT: u8 = b'i';

/// The supervisor's name in process lists. The binary recognises by it that it was started as a supervisor.
pub(super) const SUPERVISOR: &str = "llm-do-confine: supervisor";

/// Maximum size of a plan, in bytes.
pub(super) const LARGEST_PLAN: usize = 256 << 20;

/// Encodes a frame: the length of the JSON text as four bytes, then the text.
pub(super) fn frame<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, value).expect("plans and reports are plain data");
    let length = u32::try_from(bytes.len() - 4).expect("no plan has 4 GiB");
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// Paths as text if they are UTF-8, otherwise as bytes.
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
