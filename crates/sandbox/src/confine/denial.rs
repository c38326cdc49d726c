//! The requests that a proxy has refused, for explaining to a model or a person why a tool failed.

use llm_do_core::authority::Host;
use std::{
    collections::VecDeque,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A request that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Denial {
    /// No entry of the list matches.
    NotListed {
        /// The requested host.
        host: Host,
        /// The port.
        port: u16,
    },
    /// The name is on the list, but resolves to this machine or a local network.
    Local {
        /// The name.
        host: Host,
        /// The address that it resolves to.
        address: IpAddr,
        /// The port.
        port: u16,
    },
    /// The TLS handshake in a connection to that host names another host or none, or the bytes are not TLS.
    OtherServer {
        /// The requested host.
        host: Host,
        /// The host that the handshake names.
        named: Option<String>,
    },
    /// The request is ambiguous, or not valid for a proxy.
    Malformed(&'static str),
}

impl Denial {
    /// Returns the entry for `sandbox.network_enabled` that would have allowed the request, or `None` if none would.
    pub fn missing(&self) -> Option<String> {
        let entry = |host: &Host, port: &u16| match port {
            80 | 443 => host.to_string(),
            port => format!("{host}:{port}"),
        };
        match self {
            Self::NotListed { host, port } => Some(entry(host, port)),
            Self::Local { address, port, .. } => Some(entry(&Host::Address(*address), port)),
            Self::OtherServer { .. } | Self::Malformed(_) => None,
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LIST: &str = "is not on the list of this worker's `sandbox.network_enabled`";
        let missing = self.missing().unwrap_or_default();
        match self {
            Self::NotListed { .. } => write!(f, "`{missing}` {LIST}"),
            Self::Local { host, .. } => {
                write!(
                    f,
                    "`{host}` is at `{missing}`, an address of this machine or a local network, which {LIST}"
                )
            }
            Self::OtherServer { host, named: Some(named) } => {
                write!(f, "a TLS connection to `{host}` asked for `{named}`: both names must be the same")
            }
            Self::OtherServer { host, named: None } => {
                write!(
                    f,
                    "a connection to `{host}` was no TLS that names that host, which is all that port 443 is for"
                )
            }
            Self::Malformed(reason) => write!(f, "the proxy can't carry this request out: {reason}"),
        }
    }
}

/// Maximum number of denials kept.
const KEPT: usize = 32;

/// The latest denials of one process. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Denials(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    count: u64,
    latest: VecDeque<Denial>,
}

impl Denials {
    /// Returns the number of denials so far.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Returns the denials since that count, without duplicates, oldest first. Only the latest are kept.
    pub fn since(&self, count: u64) -> Vec<Denial> {
        let log = self.lock();
        let new =
            usize::try_from(log.count.saturating_sub(count)).unwrap_or(usize::MAX).min(log.latest.len());
        let mut each: Vec<Denial> = Vec::new();
        for denial in log.latest.range(log.latest.len() - new..) {
            if !each.contains(denial) {
                each.push(denial.clone());
            }
        }
        each
    }

    pub(super) fn note(&self, denial: Denial) {
        let mut log = self.lock();
        log.count += 1;
        log.latest.push_back(denial);
        if log.latest.len() > KEPT {
            log.latest.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_denials_are_known_each_once() {
        let denials = Denials::default();
        let denial = |number: u16| {
            let (host, _) = Host::with_port(&format!("h{number}.example")).unwrap();
            Denial::NotListed { host, port: 443 }
        };
        denials.note(denial(0));
        let before = denials.count();
        assert_eq!(denials.since(before), []);
        for number in [1, 2, 1] {
            denials.note(denial(number));
        }
        assert_eq!(denials.since(before), [denial(1), denial(2)]);
        assert_eq!(denials.since(0).len(), 3);
        for number in 0..1000 {
            denials.note(denial(number));
        }
        assert_eq!(denials.since(before).len(), KEPT);
        assert_eq!(denials.since(0).last(), Some(&denial(999)));
        assert_eq!(denials.since(u64::MAX), []);
    }
}
