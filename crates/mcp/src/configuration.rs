//! The toolset's configuration: the servers, and how each is started or reached.

use crate::{
    environment::{filled, variables},
    package::{INTEGRITY, Installed, PACKAGE, Package, Packages},
    remote::Remote,
};
use llm_do_core::{
    authority::{Access, Extent, Place, variable_refused},
    function::FunctionSource,
    schema::{Schema, canonical, sha256},
    toolset::{ConfigurationProblem, Requirement},
    worker::WorkerDefinition,
};
use llm_do_sandbox::{place_of, shell::words};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

/// The name in a worker's list for all servers of the session's client.
pub(crate) const CLIENT: &str = "client";

/// Default of the seconds that a call may take without a sign of progress.
const TIMEOUT: f64 = 120.0;
/// Default of the seconds that a call may take in total, whatever progress the server reports.
const TOTAL_TIMEOUT: f64 = 600.0;

/// The configuration `toolsets.mcp`, as written in the file.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Configuration {
    /// The servers by name.
    #[serde(default)]
    pub(crate) servers: BTreeMap<String, Server>,
    /// The servers whose resources the worker sees below `/mcp`.
    #[serde(default)]
    pub(crate) resources: WithResources,
    /// True if the worker lists `client`: it has the servers of the session's client, too.
    #[serde(skip)]
    pub(crate) client: bool,
}

/// The value of `resources` in the configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum WithResources {
    /// All servers, or none.
    All(bool),
    /// The servers of these names.
    Of(Vec<String>),
}

impl Default for WithResources {
    fn default() -> Self {
        Self::All(false)
    }
}

/// A server, and the time limits of its calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Server {
    /// The process or the address.
    #[serde(flatten)]
    pub(crate) at: At,
    /// Seconds without progress after which a call fails.
    #[serde(default = "timeout")]
    pub(crate) timeout: f64,
    /// Seconds after which a call fails in any case.
    #[serde(default = "total_timeout")]
    pub(crate) total_timeout: f64,
}

/// The process or the address of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum At {
    /// A process that llm-do starts.
    Process(Command),
    /// An address that llm-do sends requests to.
    Remote(Remote),
}

/// A server that is a process and talks over its standard input and output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Command {
    /// The program: a name, a path relative to the program's root, or the name of a program of `package`.
    pub(crate) command: String,
    /// The installed package that holds the program.
    #[serde(default)]
    pub(crate) package: Option<Package>,
    /// The hash of the package's archive.
    #[serde(default)]
    pub(crate) integrity: Option<String>,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// Variables that are added to the environment that every process has. `${NAME}` in a value is replaced by a
    /// variable of llm-do's own environment.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Places that it sees beyond the view of its worker: `PATH`, `PATH:ro`, `PATH:rw`, relative to the program's root.
    #[serde(default)]
    pub(crate) paths: Vec<String>,
}

fn timeout() -> f64 {
    TIMEOUT
}

fn total_timeout() -> f64 {
    TOTAL_TIMEOUT
}

impl Configuration {
    /// Reads a configuration that fits [`schema`].
    ///
    /// # Errors
    /// The value does not fit the schema.
    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        let mut value = value.clone();
        let servers = value.get_mut("servers").and_then(Value::as_object_mut);
        let client = servers.is_some_and(|servers| servers.remove(CLIENT).is_some());
        let read: Self = serde_json::from_value(value).map_err(|error| error.to_string())?;
        Ok(Self { client, ..read })
    }

    /// Returns the servers whose resources the worker sees.
    pub(crate) fn with_resources(&self) -> impl Iterator<Item = (&String, &Server)> {
        self.servers.iter().filter(|(name, _)| match &self.resources {
            WithResources::All(all) => *all,
            WithResources::Of(names) => names.contains(name),
        })
    }

    /// Returns the problems of `resources`: names of servers that the worker does not have.
    pub(crate) fn problems(&self) -> Vec<ConfigurationProblem> {
        let WithResources::Of(names) = &self.resources else { return Vec::new() };
        let unknown = names.iter().enumerate().filter(|(_, name)| !self.servers.contains_key(*name));
        let problem = |(at, name): (usize, &String)| {
            let has: Vec<&str> = self.servers.keys().map(String::as_str).collect();
            ConfigurationProblem {
                pointer: format!("/resources/{at}"),
                reason: format!("`resources` names the server `{name}`; the worker has: {}", has.join(", ")),
            }
        };
        unknown.map(problem).collect()
    }
}

impl Server {
    /// Makes the placeholder for a server of a session's client that the client has not passed on. No worker's file can
    /// describe it.
    pub(crate) fn absent() -> Self {
        Self { at: At::Process(Command::default()), timeout: timeout(), total_timeout: total_timeout() }
    }

    /// Returns true if the server is [`Server::absent`].
    pub(crate) fn is_absent(&self) -> bool {
        self.command().is_some_and(|command| command.command.is_empty())
    }

    /// Returns the command line or the address, for people.
    pub(crate) fn address(&self) -> String {
        match &self.at {
            At::Process(command) => command.command_line(),
            At::Remote(remote) => remote.url.clone(),
        }
    }

    /// Returns the command, if the server is a process.
    pub(crate) fn command(&self) -> Option<&Command> {
        match &self.at {
            At::Process(command) => Some(command),
            At::Remote(_) => None,
        }
    }

    /// Returns a key that is equal for servers that are started or reached in the same way.
    pub(crate) fn key(&self) -> String {
        match &self.at {
            At::Process(command) => command.key(),
            At::Remote(remote) => remote.key(),
        }
    }

    /// Returns the problems of a worker's server that no grant of the operator solves.
    pub(crate) fn problems(&self, worker: &WorkerDefinition) -> Vec<ConfigurationProblem> {
        match &self.at {
            At::Process(command) => command.problems(worker),
            At::Remote(remote) => remote.problems(),
        }
    }

    /// Returns the grants that the server needs from the operator.
    pub(crate) fn requires(&self, root: &Place) -> Vec<Requirement> {
        match &self.at {
            At::Process(command) => command.requires(root),
            At::Remote(remote) => remote.requires(),
        }
    }

    /// Returns the time that a call may take without a sign of progress.
    pub(crate) fn patience(&self) -> Duration {
        Duration::try_from_secs_f64(self.timeout).unwrap_or(Duration::MAX)
    }

    /// Returns the time that a call may take in total.
    pub(crate) fn most(&self) -> Duration {
        Duration::try_from_secs_f64(self.total_timeout).unwrap_or(Duration::MAX)
    }
}

impl Command {
    /// Returns the installed package that holds a server's program. `None` for a server without a package.
    ///
    /// # Errors
    /// The package is not installed, or the server can't be started from it.
    pub(crate) fn installed(&self, packages: &Packages) -> Result<Option<Installed>, String> {
        let Some(package) = &self.package else { return Ok(None) };
        let installed =
            packages.find(package).map_err(|error| format!("what is installed can't be read: {error}"))?;
        let Some(installed) = installed else {
            let integrity =
                self.integrity.as_ref().map(|hash| format!(" --integrity {hash}")).unwrap_or_default();
            return Err(format!(
                "the package {package} is not installed on this machine: run `llm-do mcp install {package}{integrity}`"
            ));
        };
        if let Some(integrity) = self.integrity.as_ref().filter(|stated| **stated != installed.integrity) {
            return Err(format!(
                "the package {package} is installed with another content: its archive has {}, and `integrity` says \
                 {integrity}",
                installed.integrity
            ));
        }
        match installed.programs.contains(&self.command) {
            true => Ok(Some(installed)),
            false => Err(format!(
                "the package {package} has no program `{}`; it has {}",
                self.command,
                installed.programs.join(", ")
            )),
        }
    }

    /// Returns the command line in one spelling, as the operator grants it.
    pub(crate) fn command_line(&self) -> String {
        let package = self.package.as_ref().map(ToString::to_string);
        let words = package.iter().chain([&self.command]).chain(&self.args);
        words.map(|word| words::quoted(word)).collect::<Vec<_>>().join(" ")
    }

    /// Returns a key that is equal for commands that start the same server in the same way.
    fn key(&self) -> String {
        sha256(canonical(&json!([self.package, self.command, self.args, self.env, self.paths])).as_bytes())
    }

    /// Returns the places of `paths`, each with its error if it does not exist.
    fn places<'a>(&'a self, root: &'a Place) -> impl Iterator<Item = Result<Extent, String>> + 'a {
        self.paths.iter().map(|written| {
            let (path, access) = match written.rsplit_once(':') {
                Some((path, "ro")) => (path, Access::Read),
                Some((path, "rw")) => (path, Access::Write),
                _ => (written.as_str(), Access::Read),
            };
            let wrong = |reason: String| format!("`paths`: {path}: {reason}");
            let place =
                place_of(&Path::new(root.as_str()).join(path)).map_err(|error| wrong(error.to_string()))?;
            if !Path::new(place.as_str()).exists() {
                return Err(wrong("it does not exist".to_owned()));
            }
            Ok(Extent { place, access })
        })
    }

    /// Returns the places of `paths`.
    ///
    /// # Errors
    /// A place does not exist.
    pub(crate) fn extents(&self, root: &Place) -> Result<Vec<Extent>, String> {
        self.places(root).collect()
    }

    /// Returns the problems of a worker's server that no grant of the operator solves.
    pub(crate) fn problems(&self, worker: &WorkerDefinition) -> Vec<ConfigurationProblem> {
        let problem = |pointer: String, reason: String| ConfigurationProblem { pointer, reason };
        let variables = self.env.keys().filter_map(|variable| {
            let reason = variable_refused(variable)?;
            Some(problem(format!("/env/{variable}"), format!("`env` can't set {variable}: {reason}")))
        });
        let paths = self.places(&worker.root).enumerate().filter_map(|(at, place)| {
            let reason = match place {
                Err(reason) => reason,
                // A library gets nothing that its caller does not see.
                Ok(_) if matches!(worker.source, FunctionSource::Library(_)) => {
                    "a library's server can't have `paths`: it sees the files of its worker, and can read the library's folder"
                        .to_owned()
                }
                Ok(_) => return None,
            };
            Some(problem(format!("/paths/{at}"), reason))
        });
        // The operator would read the grant of another program as that of a package.
        let disguised = self.package.is_none() && self.command.parse::<Package>().is_ok();
        let disguised = disguised.then(|| {
            let reason = "write a package under `package`, and the name of its program under `command`";
            problem("/command".to_owned(), reason.to_owned())
        });
        variables.chain(paths).chain(disguised).collect()
    }

    /// Returns the grants that the server needs from the operator.
    fn requires(&self, root: &Place) -> Vec<Requirement> {
        let mut all = vec![Requirement::Process(self.command_line().into())];
        all.extend(variables(self.env.values()));
        let outside = self.places(root).flatten().filter(|extent| !extent.place.is_within(root));
        all.extend(outside.map(Requirement::Place));
        all
    }

    /// Returns the variables that are added to the environment that every process has. `granted` returns true for
    /// variables of llm-do's environment that the server may see, and `lookup` returns their values.
    ///
    /// # Errors
    /// A variable that is not granted or not set.
    pub(crate) fn environment(
        &self,
        granted: impl Fn(&str) -> bool,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<(String, String)>, String> {
        filled("env", &self.env, granted, lookup)
    }
}

/// Returns the schema of the configuration.
pub(crate) fn schema() -> Schema {
    let seconds = json!({"type": "number", "minimum": 0.001, "maximum": 86_400});
    let text = json!({"type": "string", "minLength": 1});
    Schema::built_in(json!({
        "type": "object",
        "properties": {
            "servers": {
                "type": "object",
                "propertyNames": {"pattern": "^[A-Za-z][A-Za-z0-9-]{0,31}$"},
                "additionalProperties": {
                    "type": "object",
                    "if": {"required": ["url"]},
                    "then": {
                        "properties": {
                            "url": {"type": "string", "pattern": "^https?://"},
                            "headers": {
                                "type": "object",
                                "propertyNames": {"pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"},
                                "additionalProperties": {"type": "string"},
                            },
                            "auth": {
                                "type": "object",
                                "properties": {"client_id": text, "scopes": {"type": "array", "items": text}},
                                "additionalProperties": false,
                            },
                            "timeout": seconds,
                            "total_timeout": seconds,
                        },
                        "additionalProperties": false,
                    },
                    "else": {
                        "properties": {
                            "command": text,
                            "package": {"type": "string", "pattern": PACKAGE},
                            "integrity": {"type": "string", "pattern": INTEGRITY},
                            "args": {"type": "array", "items": {"type": "string"}},
                            "env": {
                                "type": "object",
                                "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
                                "additionalProperties": {"type": "string"},
                            },
                            "paths": {"type": "array", "items": text},
                            "timeout": seconds,
                            "total_timeout": seconds,
                        },
                        "required": ["command"],
                        "dependentRequired": {"integrity": ["package"]},
                        "additionalProperties": false,
                    },
                },
            },
            "resources": {
                "oneOf": [{"type": "boolean"}, {"type": "array", "items": text, "uniqueItems": true}],
            },
        },
        "required": ["servers"],
        "additionalProperties": false,
    }))
}

/// Names as rules and records see them: `fs:read_file`.
pub(crate) fn qualified(server: &str, tool: &str) -> Arc<str> {
    format!("{server}:{tool}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(value: Value) -> Server {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_command_line_has_one_spelling() {
        let server = server(json!({"command": "npx", "args": ["-y", "a b", "it's"]}));
        assert_eq!(server.address(), r"npx -y 'a b' 'it'\''s'");
    }

    #[test]
    fn a_program_is_not_granted_under_the_name_of_a_package() {
        // `check` and `run` refuse the second one (mcp_packages.rs).
        let packaged = server(json!({"package": "npm:@a/b@1.0.0", "command": "b", "args": ["notes"]}));
        assert_eq!(packaged.address(), "npm:@a/b@1.0.0 b notes");
        let disguised = server(json!({"command": "npm:@a/b@1.0.0", "args": ["b", "notes"]}));
        assert_eq!(disguised.address(), packaged.address());
    }

    #[test]
    fn variables_in_values_need_a_grant() {
        let server = server(json!({"command": "x", "env": {"TOKEN": "Bearer ${A_KEY}!", "PLAIN": "a$b"}}));
        let requires = server.requires(&Place::new("/p"));
        assert_eq!(requires, [Requirement::Process("x".into()), Requirement::Variable("A_KEY".into())]);
        let lookup = |name: &str| (name == "A_KEY").then(|| "secret-value".to_owned());
        let At::Process(command) = &server.at else { panic!("it is a process") };
        let given = command.environment(|name| name == "A_KEY", lookup).unwrap();
        let given: Vec<_> = given.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(given, [("PLAIN", "a$b"), ("TOKEN", "Bearer secret-value!")]);
        assert!(command.environment(|_| false, lookup).unwrap_err().contains("--grant env=A_KEY"));
        assert!(command.environment(|_| true, |_| None).unwrap_err().contains("not set"));
    }

    #[test]
    fn a_server_needs_a_grant_for_places_outside_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        std::fs::create_dir_all(root.join("data")).unwrap();
        let root = place_of(&root).unwrap();
        let of = |path: &str| server(json!({"command": "x", "paths": [path]})).requires(&root);
        assert_eq!(of("data:rw").len(), 1);
        assert!(matches!(&of("..:rw")[1], Requirement::Place(Extent { access: Access::Write, .. })));
    }
}
