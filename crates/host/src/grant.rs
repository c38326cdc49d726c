//! Grants: permissions of the operator beyond the program's own tree. See `docs/reference/sandbox.md`.

use llm_do_core::{
    authority::{Access, Domain, Extent, Network, Place, variable_refused},
    toolset::Requirement,
};
use llm_do_program::mounts::Wanted;
use std::{fmt, io, path::Path, sync::Arc};

/// A capability. Its text form is the one that [`Grant::parse`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grant {
    /// `PATH:ro`, `PATH:rw`: a place outside the program.
    Place(Extent),
    /// `network`, `network=DOMAIN`.
    Network(Network),
    /// `endpoint=HOST` or `endpoint=HOST,VARIABLE`: a manifest may send requests to that host (with its port, if it has
    /// one), with the key that the variable holds.
    Endpoint {
        /// `host` or `host:port`.
        host: String,
        /// Name of the variable whose key is sent.
        variable: Option<String>,
    },
    /// `process=COMMAND`: the program may run the server with exactly this command line, in a confined process.
    Process(Arc<str>),
    /// `env=NAME`: the program's Python functions and servers may get that environment variable.
    Variable(Arc<str>),
    /// `process=uv`: `uv` may fetch the packages that the program's Python tools ask for.
    Uv,
    /// `weights=PATH`: the program may run the model in that file, in a confined process.
    Weights(Place),
    /// `unconfined`: processes may run where the kernel can't confine them.
    Unconfined,
}

/// A grant that a program needs for something outside its folder, and does not have. As text it completes "the program
/// asks": `to read /data`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingGrant {
    /// The grant.
    pub grant: Grant,
    /// The part of the program that needs it.
    pub needed_by: NeededBy,
    /// The place that asks for it: a worker file with its line, a provider of the manifest.
    pub asked_at: String,
}

/// The part of a program that needs a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededBy {
    /// The program's own workers, tools and manifest.
    Program,
    /// The Python interpreter of the program's environment.
    Interpreter,
    /// A server that a toolset of the program starts.
    Server,
}

impl NeededBy {
    /// Returns the phrase for the code that gets the grant.
    fn code(self) -> &'static str {
        match self {
            Self::Program | Self::Interpreter => "its Python functions",
            Self::Server => "its servers",
        }
    }
}

impl fmt::Display for MissingGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.grant {
            Grant::Place(Extent { place, access: Access::Read }) => write!(f, "to read {place}"),
            Grant::Place(Extent { place, access: Access::Write }) => write!(f, "to write {place}"),
            Grant::Network(Network::Domains(domains)) => {
                let domains: Vec<String> = domains.iter().map(ToString::to_string).collect();
                let what = match self.needed_by {
                    NeededBy::Server => "to exchange data with the server",
                    NeededBy::Program | NeededBy::Interpreter => "to use the network:",
                };
                write!(f, "{what} {}", domains.join(", "))
            }
            Grant::Network(_) => f.write_str("to use the network"),
            Grant::Endpoint { host, variable: None } => write!(f, "to send requests to {host}"),
            Grant::Endpoint { host, variable: Some(variable) } => {
                write!(f, "to send requests to {host}, with the key in {variable}")
            }
            Grant::Process(command) => write!(f, "to run the server `{command}`, in a confined process"),
            Grant::Variable(name) => {
                write!(f, "to give {} the environment variable {name}", self.needed_by.code())
            }
            Grant::Uv => f.write_str("to fetch the packages of its Python tools from the network, with `uv`"),
            Grant::Weights(place) => {
                write!(f, "to run the model in the file {place}, in a confined process")
            }
            Grant::Unconfined => f.write_str(
                "to run processes with all of your own rights, since this system can't confine them",
            ),
        }?;
        match self.needed_by {
            NeededBy::Program | NeededBy::Server => Ok(()),
            NeededBy::Interpreter => f.write_str(", which the Python of its environment needs"),
        }
    }
}

/// A grant that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a grant: {reason}")]
pub struct BadGrant {
    /// The text as given.
    pub text: String,
    /// A description of the error.
    pub reason: String,
}

impl Grant {
    /// Parses a grant. `real` finds the place that a path leads to.
    ///
    /// # Errors
    /// The text is not a grant, or `real` refuses a path.
    pub fn parse(text: &str, real: &dyn Fn(&Path) -> io::Result<Place>) -> Result<Self, BadGrant> {
        let bad = |reason: String| BadGrant { text: text.to_owned(), reason };
        if text == "network" {
            return Ok(Self::Network(Network::On));
        }
        if let Some(domain) = text.strip_prefix("network=") {
            let domains = domain.split(',').map(Domain::parse).collect::<Result<Vec<_>, _>>();
            let domains = domains.map_err(|error| bad(error.to_string()))?;
            return Ok(Self::Network(Network::domains(domains)));
        }
        if let Some(endpoint) = text.strip_prefix("endpoint=") {
            let (host, variable) = match endpoint.split_once(',') {
                Some((host, variable)) => (host, Some(variable.to_owned())),
                None => (endpoint, None),
            };
            return Ok(Self::Endpoint { host: host.to_owned(), variable });
        }
        if let Some(name) = text.strip_prefix("env=") {
            return match variable_refused(name) {
                Some(reason) => Err(bad(reason.to_owned())),
                None => Ok(Self::Variable(name.into())),
            };
        }
        if text == "unconfined" {
            return Ok(Self::Unconfined);
        }
        if let Some(path) = text.strip_prefix("weights=") {
            let place = real(Path::new(path)).map_err(|error| bad(error.to_string()))?;
            return Ok(Self::Weights(place));
        }
        if let Some(command) = text.strip_prefix("process=") {
            return match command {
                "uv" => Ok(Self::Uv),
                "" => Err(bad("the command is missing".into())),
                command => Ok(Self::Process(command.into())),
            };
        }
        let (path, access) = match text.rsplit_once(':') {
            Some((path, "ro")) => (path, Access::Read),
            Some((path, "rw")) => (path, Access::Write),
            _ => {
                return Err(bad(
                    "write PATH:ro, PATH:rw, network, network=DOMAIN[,DOMAIN], endpoint=HOST,VARIABLE, env=NAME, process=COMMAND, \
                     weights=PATH or unconfined"
                        .into(),
                ));
            }
        };
        let place = real(Path::new(path)).map_err(|error| bad(error.to_string()))?;
        Ok(Self::Place(Extent { place, access }))
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(Extent { place, access: Access::Read }) => write!(f, "{place}:ro"),
            Self::Place(Extent { place, access: Access::Write }) => write!(f, "{place}:rw"),
            Self::Network(Network::Domains(domains)) => {
                let domains: Vec<String> = domains.iter().map(ToString::to_string).collect();
                write!(f, "network={}", domains.join(","))
            }
            Self::Network(_) => f.write_str("network"),
            Self::Endpoint { host, variable: Some(variable) } => write!(f, "endpoint={host},{variable}"),
            Self::Endpoint { host, variable: None } => write!(f, "endpoint={host}"),
            Self::Process(command) => write!(f, "process={command}"),
            Self::Variable(name) => write!(f, "env={name}"),
            Self::Uv => f.write_str("process=uv"),
            Self::Weights(place) => write!(f, "weights={place}"),
            Self::Unconfined => f.write_str("unconfined"),
        }
    }
}

impl From<Requirement> for Grant {
    fn from(requirement: Requirement) -> Self {
        match requirement {
            Requirement::Process(command) => Self::Process(command),
            Requirement::Variable(name) => Self::Variable(name),
            Requirement::Place(extent) => Self::Place(extent),
            Requirement::Network(network) => Self::Network(network),
        }
    }
}

impl From<&Wanted> for Grant {
    fn from(wanted: &Wanted) -> Self {
        match wanted {
            Wanted::Place { place, access } => Self::Place(Extent { place: place.clone(), access: *access }),
            Wanted::Network(network) => Self::Network(network.clone()),
            Wanted::Variable(name) => Self::Variable(Arc::clone(name)),
        }
    }
}

/// Returns the places among the grants.
pub fn places(grants: &[Grant]) -> Vec<Extent> {
    grants
        .iter()
        .filter_map(|grant| match grant {
            Grant::Place(extent) => Some(extent.clone()),
            _ => None,
        })
        .collect()
}

/// Returns true if the grants allow `needed`.
pub(crate) fn covers(grants: &[Grant], needed: &Grant) -> bool {
    match needed {
        Grant::Place(wanted) => places(grants)
            .iter()
            .any(|held| wanted.place.is_within(&held.place) && held.access >= wanted.access),
        Grant::Network(wanted) => network(grants).covers(wanted),
        other => grants.contains(other),
    }
}

/// Returns the command lines of servers that the grants allow.
pub fn processes(grants: &[Grant]) -> Vec<Arc<str>> {
    let commands = grants.iter().filter_map(|grant| match grant {
        Grant::Process(command) => Some(Arc::clone(command)),
        _ => None,
    });
    commands.collect()
}

/// Returns the environment variables that the grants allow.
pub fn variables(grants: &[Grant]) -> Vec<Arc<str>> {
    let names = grants.iter().filter_map(|grant| match grant {
        Grant::Variable(name) => Some(Arc::clone(name)),
        _ => None,
    });
    names.collect()
}

/// Returns the network that the grants allow.
pub fn network(grants: &[Grant]) -> Network {
    let mut domains = Vec::new();
    for grant in grants {
        match grant {
            Grant::Network(Network::On) => return Network::On,
            Grant::Network(Network::Domains(more)) => domains.extend(more.iter().cloned()),
            _ => {}
        }
    }
    Network::domains(domains)
}

/// Returns true if a manifest may send requests to that host with the key in that variable. Without a key, this machine
/// needs no grant.
pub(crate) fn covers_endpoint(grants: &[Grant], host: &str, variable: Option<&str>) -> bool {
    let loopback =
        matches!(host.rsplit_once(':').map_or(host, |(name, _)| name), "localhost" | "127.0.0.1" | "[::1]");
    (loopback && variable.is_none())
        || grants.iter().any(|grant| {
            matches!(grant, Grant::Endpoint { host: h, variable: v } if h == host && v.as_deref() == variable)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Grant, BadGrant> {
        Grant::parse(text, &|path| Ok(Place::new(&path.to_string_lossy())))
    }

    #[test]
    fn grants_say_what_they_allow() {
        assert_eq!(
            parse("network=a.example"),
            Ok(Grant::Network(Network::domains(Domain::parse("a.example"))))
        );
        for text in [
            "/:ro",
            "/:rw",
            "network",
            "network=a.example,b.example",
            "endpoint=h:80,K",
            "endpoint=h",
            "env=A_KEY",
            "process=uv",
            "process=python3 server.py 'a b'",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        let grants = ["network=b.example", "network=*.a.example", "network=A.example"];
        let grants: Vec<Grant> = grants.into_iter().map(|grant| parse(grant).unwrap()).collect();
        let wanted =
            Network::domains(["x.a.example", "b.example", "c.example"].map(|d| Domain::parse(d).unwrap()));
        let left = Network::domains(["b.example", "x.a.example"].map(|d| Domain::parse(d).unwrap()));
        assert_eq!(network(&grants).narrow(&wanted), left);
        assert!(parse("network=https://a.example").unwrap_err().reason.contains("without a scheme"));
        for name in ["PATH", "LD_PRELOAD", "PYTHONPATH", "GIT_SSH", "https_proxy", "A B", ""] {
            assert!(parse(&format!("env={name}")).is_err(), "{name}");
        }
        assert!(parse("/etc").unwrap_err().reason.contains("PATH:ro"));
        assert!(matches!(parse("/:ro"), Ok(Grant::Place(Extent { access: Access::Read, .. }))));
    }

    #[test]
    fn a_key_never_goes_to_a_host_that_was_not_granted_with_it() {
        let grants = [parse("endpoint=models.example,A_KEY").unwrap()];
        assert!(covers_endpoint(&grants, "models.example", Some("A_KEY")));
        assert!(!covers_endpoint(&grants, "models.example", Some("B_KEY")));
        assert!(!covers_endpoint(&grants, "other.example", Some("A_KEY")));
        assert!(covers_endpoint(&[], "127.0.0.1:8080", None));
        assert!(!covers_endpoint(&[], "127.0.0.1:8080", Some("A_KEY")));
        assert!(!covers_endpoint(&[], "127.0.0.1.evil.example", None));
    }
}
