//! Keys of hosts, which confined processes use and never see.

use llm_do_core::authority::Domain;
use std::fmt;

/// A key that the proxy adds to the requests to one host. The process never gets it.
#[derive(Clone)]
pub struct HostKey {
    /// The host, and the port if it is another than 443.
    pub domain: Domain,
    /// The header that carries the key.
    pub header: String,
    /// The word before the key, such as `Bearer`.
    pub scheme: Option<String>,
    /// The key.
    pub key: String,
}

/// Formats a key without its secret.
impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostKey")
            .field("domain", &self.domain)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}
