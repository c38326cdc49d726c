//! The entries of a list of domains (`network_enabled` in `docs/reference/sandbox.md`), and the hosts that they are
//! matched against.
//!
//! An entry is `example.org` (that host alone), `*.example.org` (every host below it, but not itself), or an address,
//! which no name ever matches. An entry with `:PORT` allows that port alone; one without allows ports 80 and 443.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// A host: a name in its ASCII form, lower case and without a trailing dot, or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A name.
    Name(String),
    /// An address. An IPv4-mapped IPv6 address is stored as IPv4.
    Address(IpAddr),
}

/// An entry of a list of domains.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Domain {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Hosts {
    One(Host),
    /// Every name that ends in this after a dot.
    Below(String),
}

/// A host, with or without a port, that does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a domain: {reason}")]
pub struct BadDomain {
    /// The text as given.
    pub text: String,
    /// The error in the text, and the correct form.
    pub reason: &'static str,
}

const NO_HOST: &str = "write a host such as `example.org`, without a scheme and without a path";

/// Longest name and longest label, in bytes (RFC 1035 §2.3.4).
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

impl Host {
    /// Parses `host` or `host:port`; an IPv6 address is in brackets. Each host has one notation apart from case: no
    /// trailing dot, no address as a single number, no user name before it.
    ///
    /// # Errors
    /// The text is not a valid host.
    pub fn with_port(text: &str) -> Result<(Self, Option<u16>), BadDomain> {
        let bad = |reason| BadDomain { text: text.to_owned(), reason };
        let (host, port) = split(text).map_err(bad)?;
        Ok((Self::read(host).map_err(bad)?, port))
    }

    fn read(text: &str) -> Result<Self, &'static str> {
        if let Some(address) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let address: Ipv6Addr =
                address.parse().map_err(|_| "the text in brackets is not an IPv6 address")?;
            return Ok(Self::Address(address.to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        let name = name(text)?;
        // Resolvers parse such names as addresses in older notations: octal, hexadecimal, with fewer parts.
        let last = name.rsplit('.').next().unwrap_or_default();
        let number = last.strip_prefix("0x").unwrap_or(last);
        if last.bytes().all(|byte| byte.is_ascii_digit())
            || (number.len() < last.len() && number.bytes().all(|byte| byte.is_ascii_hexdigit()))
        {
            return Err("an address is written as four decimal numbers, or as IPv6 in brackets");
        }
        Ok(Self::Name(name))
    }
}

/// The host and the port of `host:port`.
fn split(text: &str) -> Result<(&str, Option<u16>), &'static str> {
    if text.contains(['/', '@']) {
        return Err(NO_HOST);
    }
    let end = if text.starts_with('[') {
        text.find(']').ok_or("a bracket is not closed")? + 1
    } else {
        text.find(':').unwrap_or(text.len())
    };
    let (host, rest) = text.split_at(end);
    if rest.is_empty() {
        return Ok((host, None));
    }
    let port = rest.strip_prefix(':').filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    match port.and_then(|port| port.parse().ok()) {
        Some(port) if port > 0 => Ok((host, Some(port))),
        _ => Err("behind the host may stand a port, as in `example.org:8080`, and nothing else"),
    }
}

fn name(text: &str) -> Result<String, &'static str> {
    if !text.is_ascii() {
        return Err("write a name with other letters than ASCII in its ASCII form, `xn--…`");
    }
    if text.ends_with('.') {
        return Err("leave the dot at its end out");
    }
    let fits = |label: &str| {
        (1..=LONGEST_LABEL).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if text.len() > LONGEST_NAME || !text.split('.').all(fits) {
        return Err(NO_HOST);
    }
    Ok(text.to_ascii_lowercase())
}

impl Domain {
    /// Parses an entry.
    ///
    /// # Errors
    /// The text is not a valid entry. A text that would match nothing, or not what its author intends, is an error too.
    pub fn parse(text: &str) -> Result<Self, BadDomain> {
        let bad = |reason| BadDomain { text: text.to_owned(), reason };
        let (host, port) = split(text).map_err(bad)?;
        let hosts = match host.strip_prefix("*.") {
            Some(parent) => match Host::read(parent).map_err(bad)? {
                Host::Name(parent) => Hosts::Below(parent),
                Host::Address(_) => return Err(bad("addresses have no parts that could be left open")),
            },
            None if host == "*" => return Err(bad("all of the network is `true` in the place of the list")),
            None => Hosts::One(Host::read(host).map_err(bad)?),
        };
        Ok(Self { hosts, port })
    }

    /// Returns true if the entry allows that port of that host.
    pub fn admits(&self, host: &Host, port: u16) -> bool {
        self.names(host) && self.port.map_or_else(|| USUAL.contains(&port), |only| only == port)
    }

    /// Returns true if the entry names that host, on any port.
    pub fn names(&self, host: &Host) -> bool {
        match (&self.hosts, host) {
            (Hosts::One(one), host) => one == host,
            (Hosts::Below(parent), Host::Name(name)) => is_below(name, parent),
            (Hosts::Below(_), Host::Address(_)) => false,
        }
    }

    /// The port that the entry names, if it names one.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The intersection of both, which is an entry too.
    pub(super) fn meet(&self, other: &Self) -> Option<Self> {
        let port = match (self.port, other.port) {
            (None, port) | (port, None) => port.filter(|port| !USUAL.contains(port)).map_or(Ok(port), Err),
            (Some(a), Some(b)) if a == b => Ok(Some(a)),
            (Some(a), Some(_)) => Err(a),
        };
        let hosts = match (&self.hosts, &other.hosts) {
            (a, b) if a == b => a,
            (Hosts::Below(parent), one @ Hosts::One(Host::Name(name)))
            | (one @ Hosts::One(Host::Name(name)), Hosts::Below(parent))
                if is_below(name, parent) =>
            {
                one
            }
            (Hosts::Below(a), b @ Hosts::Below(name)) if is_below(name, a) => b,
            (a @ Hosts::Below(name), Hosts::Below(b)) if is_below(name, b) => a,
            _ => return None,
        };
        Some(Self { hosts: hosts.clone(), port: port.ok()? })
    }

    /// Returns true if `other` allows everything that this entry allows.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.meet(other).as_ref() == Some(self)
    }
}

/// The ports of an entry without a port.
const USUAL: [u16; 2] = [80, 443];

fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hosts {
            Hosts::One(host) => write!(f, "{host}")?,
            Hosts::Below(parent) => write!(f, "*.{parent}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl From<Domain> for String {
    fn from(domain: Domain) -> Self {
        domain.to_string()
    }
}

impl TryFrom<String> for Domain {
    type Error = BadDomain;

    fn try_from(text: String) -> Result<Self, BadDomain> {
        Self::parse(&text)
    }
}

#[cfg(test)]
pub(in crate::authority) mod tests;
