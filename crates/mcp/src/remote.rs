//! The configuration of a server over HTTP: its address and its headers.

use crate::{address::Address, environment::variables};
use llm_do_core::{
    authority::Network,
    schema::{canonical, sha256},
    toolset::{ConfigurationProblem, Requirement},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;

/// Headers that belong to HTTP or to the protocol. A program can't set them.
const RESERVED: [&str; 10] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
];

/// Options for signing in at a server, from the user or the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SignInOptions {
    /// The client ID of llm-do at that server, for servers that don't register clients themselves.
    pub client_id: Option<String>,
    /// The scopes to ask for. Empty: those that the server asks for.
    pub scopes: Vec<String>,
}

/// A server that is reached over HTTP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Remote {
    /// The endpoint: one address for all requests.
    pub(crate) url: String,
    /// Headers of each request. `${NAME}` in a value is replaced by a variable of llm-do's own environment.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// The program's options for signing in there.
    #[serde(default)]
    pub(crate) auth: SignInOptions,
}

impl Remote {
    /// Returns a key that is equal for servers that are reached in the same way. The values of variables are no part of
    /// it.
    pub(crate) fn key(&self) -> String {
        sha256(canonical(&json!([self.url, self.headers])).as_bytes())
    }

    /// Returns the problem that no grant of the operator solves: an address or a header that can't be used.
    pub(crate) fn problems(&self) -> Vec<ConfigurationProblem> {
        let reason = self.address().err();
        reason.map(|reason| ConfigurationProblem { pointer: "/url".to_owned(), reason }).into_iter().collect()
    }

    /// Returns the network that the server needs. `None` for an address that can't be used.
    pub(crate) fn network(&self) -> Option<Network> {
        self.address().ok().map(|address| address.network())
    }

    /// Returns the grants that the server needs from the operator.
    pub(crate) fn requires(&self) -> Vec<Requirement> {
        let network = self.network().map(Requirement::Network);
        network.into_iter().chain(variables(self.headers.values())).collect()
    }

    /// Returns the address of the server.
    ///
    /// # Errors
    /// The address or one of the headers can't be used.
    pub(crate) fn address(&self) -> Result<Address, String> {
        let address = Address::parse(&self.url)?;
        for name in self.headers.keys() {
            let lower = name.to_ascii_lowercase();
            if RESERVED.contains(&&*lower) || lower.starts_with("mcp-") {
                return Err(format!("`headers` can't set {name}: HTTP and the protocol use it themselves"));
            }
        }
        if !self.headers.is_empty() && !address.is_private() {
            return Err(
                "`headers` need an `https` address: over `http` anyone on the way could read them".into()
            );
        }
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::authority::Domain;

    fn requires(url: &str, headers: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let remote = Remote { url: url.to_owned(), headers, auth: SignInOptions::default() };
        if let Some(problem) = remote.problems().into_iter().next() {
            return Err(problem.reason);
        }
        Ok(remote.requires().iter().map(|requirement| format!("{requirement:?}")).collect())
    }

    #[test]
    fn a_server_needs_its_host_and_the_variables_of_its_headers() {
        let all = requires("https://mcp.example/x", &[("Authorization", "Bearer ${A_KEY}")]).unwrap();
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].contains("mcp.example") && all[1].contains("A_KEY"), "{all:?}");
        for (url, network) in [
            ("http://127.0.0.1:8080/mcp", "127.0.0.1:8080"),
            ("https://[::1]:8443/", "[::1]:8443"),
            ("https://MCP.example:443/", "mcp.example"),
            ("http://0x7f.1:81/", "127.0.0.1:81"),
        ] {
            let network = Network::domains([Domain::parse(network).unwrap()]);
            assert_eq!(Address::parse(url).unwrap().network(), network, "{url}");
        }
    }

    #[test]
    fn an_address_that_hides_or_leaks_something_is_refused() {
        let refused = |url: &str, headers: &[(&str, &str)]| requires(url, headers).unwrap_err();
        assert!(refused("https://me:secret@mcp.example/", &[]).contains("password"));
        assert!(refused("https://mcp.example/#part", &[]).contains("fragment"));
        assert!(refused("ftp://mcp.example/", &[]).contains("http"));
        assert!(refused("https://mcp.example./", &[]).contains("dot"));
        assert!(refused("http://mcp.example/", &[("X-Key", "${A_KEY}")]).contains("https"));
        assert!(requires("http://127.0.0.1:1/", &[("X-Key", "${A_KEY}")]).is_ok());
        for name in ["Host", "Mcp-Session-Id", "MCP-Anything", "content-length"] {
            assert!(refused("https://mcp.example/", &[(name, "x")]).contains(name), "{name}");
        }
    }
}
