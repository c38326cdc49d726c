//! Paths: real places, and virtual paths as a worker sees them.

use super::Refusal;
use serde::{Deserialize, Serialize};
use std::{borrow::Borrow, fmt, sync::Arc};

/// A real place as the host names it: an absolute, normalised path with `/` between its parts, or what a toolset serves
/// ([`Place::served`]). The core never opens places; it only compares them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
pub struct Place(Arc<str>);

impl Place {
    /// Takes a path that the host has made absolute. `.`, `..`, doubled and trailing slashes are removed lexically.
    pub fn new(absolute: &str) -> Self {
        let mut parts: Vec<&str> = Vec::new();
        for part in absolute.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop();
                }
                part => parts.push(part),
            }
        }
        Self(format!("/{}", parts.join("/")).into())
    }

    /// The place that toolsets of the kind `kind` serve under `key`. It is not a file: it lies in no folder, and no
    /// path of the machine is equal to it. Neither part contains `/` or `:`.
    pub fn served(kind: &str, key: &str) -> Self {
        Self(format!("{kind}:{key}").into())
    }

    /// The toolset kind and key of a served place, or `None` for a file or folder.
    pub fn server(&self) -> Option<Served<'_>> {
        if self.0.starts_with('/') {
            return None;
        }
        let (kind, below) = self.0.split_once(':')?;
        let (key, rest) = below.split_once('/').unwrap_or((below, ""));
        Some(Served { kind, key, rest })
    }

    /// The path text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part of the path; empty for `/`.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or("")
    }

    /// The paths of the place and of all its ancestors, from the place outwards.
    pub(crate) fn upwards(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(self.as_str()), |path| match path.rsplit_once('/')? {
            ("", "") => None,
            ("", _) => Some("/"),
            (around, _) => Some(around),
        })
    }

    /// Returns true if the place is `other` or lies below it.
    pub fn is_within(&self, other: &Self) -> bool {
        self.rest(other).is_some()
    }

    /// The path from `base` to here (`""` if equal), or `None` if it doesn't lie within.
    pub fn rest(&self, base: &Self) -> Option<&str> {
        below(&self.0, &base.0)
    }

    /// The place `rest` below this one. `rest` is relative and normalised.
    #[must_use]
    pub fn join(&self, rest: &str) -> Self {
        Self(joined(&self.0, rest))
    }

    /// The ancestor of the place that is `steps` folders above it.
    #[must_use]
    pub(crate) fn above(&self, steps: usize) -> Self {
        self.upwards().nth(steps).map_or_else(|| Self("/".into()), |path| Self(path.into()))
    }
}

/// Lets a set of places be searched by path. Both are ordered and compared by the text.
impl Borrow<str> for Place {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// A place that a toolset serves, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served<'a> {
    /// The name of the kind of toolset.
    pub kind: &'a str,
    /// The key under which the toolset serves the place.
    pub key: &'a str,
    /// The path below the key; empty for the whole.
    pub rest: &'a str,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An absolute, normalised path in the file system that a worker sees. `notes/x`, `./notes/x` and `/notes/x` are one
/// path (`docs/reference/sandbox.md`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VirtualPath(Arc<str>);

/// Longest path and longest component, in bytes: the limits of Linux. Longer ones would be system errors.
const LONGEST_PATH: usize = 4096;
const LONGEST_PART: usize = 255;

impl VirtualPath {
    /// `/`.
    pub fn root() -> Self {
        Self("/".into())
    }

    /// Parses a path from a model or a file. `..` is refused rather than resolved: no legitimate path needs it, and
    /// an operator can read a path without it.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let bad = |reason| Err(Refusal::BadPath { path: shorten(text), reason });
        if text.len() > LONGEST_PATH {
            return bad("it is longer than 4096 bytes");
        }
        if text.contains('\\') {
            return bad("it has a backslash; parts are separated by `/`");
        }
        if text.chars().any(char::is_control) {
            return bad("it has a control character");
        }
        let mut whole = String::with_capacity(text.len() + 1);
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => return bad("`..` is not allowed; write the path from `/`"),
                part if part.len() > LONGEST_PART => return bad("a part of it is longer than 255 bytes"),
                part => {
                    whole.push('/');
                    whole.push_str(part);
                }
            }
        }
        if whole.is_empty() {
            whole.push('/');
        }
        Ok(Self(whole.into()))
    }

    /// The path text; starts with `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path from `base` to here (`""` if equal), or `None` if it doesn't lie below.
    pub fn rest(&self, base: &Self) -> Option<&str> {
        below(&self.0, &base.0)
    }

    /// The path `rest` below this one. `rest` is relative and normalised.
    #[must_use]
    pub fn join(&self, rest: &str) -> Self {
        Self(joined(&self.0, rest))
    }

    /// The last part of the path; empty for `/`.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or("")
    }
}

/// The rest of an absolute, normalised path below another, at a component boundary: `/a` contains `/a/b`, not `/ab`.
fn below<'a>(path: &'a str, base: &str) -> Option<&'a str> {
    if base == "/" {
        return path.strip_prefix('/');
    }
    let rest = path.strip_prefix(base)?;
    if rest.is_empty() { Some("") } else { rest.strip_prefix('/') }
}

/// An absolute, normalised path joined with a relative one.
fn joined(base: &Arc<str>, rest: &str) -> Arc<str> {
    match (rest, &**base) {
        ("", _) => Arc::clone(base),
        (rest, "/") => format!("/{rest}").into(),
        (rest, base) => format!("{base}/{rest}").into(),
    }
}

/// Shortens a path for an error, so that hostile input does not fill the screen or the context.
fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(120).flat_map(char::escape_debug).collect();
    if text.chars().count() > 120 {
        short.push('…');
    }
    short
}

impl fmt::Display for VirtualPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl TryFrom<String> for VirtualPath {
    type Error = Refusal;
    fn try_from(text: String) -> Result<Self, Refusal> {
        Self::parse(&text)
    }
}
impl From<VirtualPath> for String {
    fn from(path: VirtualPath) -> Self {
        path.0.to_string()
    }
}
