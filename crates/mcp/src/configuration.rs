//! The toolset's configuration: which servers, and how each is started.

use llm_do_core::{
    authority::{Access, Extent, Place, variable_refused},
    schema::{Schema, canonical, sha256},
    toolset::Requirement,
};
use llm_do_sandbox::{place_of, shell::words};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

/// How long a call may take without a sign of progress.
const TIMEOUT: f64 = 120.0;
/// How long a call may take altogether, whatever progress the server reports.
const TOTAL_TIMEOUT: f64 = 600.0;

/// `toolsets.mcp` as written in the file.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Configuration {
    /// By name.
    #[serde(default)]
    pub(crate) servers: BTreeMap<String, Server>,
}

/// A server that is a process and talks over its standard input and output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Server {
    /// The program: a name, or a path relative to the program's root.
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// Its environment beyond the one that every process has. `${NAME}` in a value stands for a variable of llm-do's own
    /// environment.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Places that it sees beyond the view of its worker: `PATH`, `PATH:ro`, `PATH:rw`, relative to the program's root.
    #[serde(default)]
    pub(crate) paths: Vec<String>,
    /// Seconds without progress after which a call fails.
    #[serde(default = "timeout")]
    pub(crate) timeout: f64,
    /// Seconds after which a call fails in any case.
    #[serde(default = "total_timeout")]
    pub(crate) total_timeout: f64,
}

fn timeout() -> f64 {
    TIMEOUT
}

fn total_timeout() -> f64 {
    TOTAL_TIMEOUT
}

impl Configuration {
    /// Reads one that fits [`schema`].
    ///
    /// # Errors
    /// Never for such a one.
    pub(crate) fn read(value: &Value) -> Result<Self, String> {
        serde_json::from_value(value.clone()).map_err(|error| error.to_string())
    }
}

impl Server {
    /// The command line in one spelling, as the operator grants it.
    pub(crate) fn command_line(&self) -> String {
        let words = std::iter::once(&self.command).chain(&self.args);
        words.map(|word| words::quoted(word)).collect::<Vec<_>>().join(" ")
    }

    /// Equal for servers that are started in the same way.
    pub(crate) fn key(&self) -> String {
        sha256(canonical(&json!([self.command, self.args, self.env, self.paths])).as_bytes())
    }

    /// The places of `paths`.
    ///
    /// # Errors
    /// One that does not exist.
    pub(crate) fn extents(&self, root: &Place) -> Result<Vec<Extent>, String> {
        let extents = self.paths.iter().map(|written| {
            let (path, access) = match written.rsplit_once(':') {
                Some((path, "ro")) => (path, Access::Read),
                Some((path, "rw")) => (path, Access::Write),
                _ => (written.as_str(), Access::Read),
            };
            let place = place_of(&Path::new(root.as_str()).join(path))
                .map_err(|error| format!("`paths`: {path}: {error}"))?;
            Ok(Extent { place, access })
        });
        extents.collect()
    }

    /// What the operator must grant for it.
    ///
    /// # Errors
    /// A place that does not exist.
    pub(crate) fn requires(&self, root: &Place) -> Result<Vec<Requirement>, String> {
        for name in self.env.keys() {
            if let Some(reason) = variable_refused(name) {
                return Err(format!("`env` can't set {name}: {reason}"));
            }
        }
        let mut all = vec![Requirement::Process(self.command_line().into())];
        let variables = self.env.values().flat_map(|value| parts(value)).filter_map(|part| match part {
            Part::Variable(name) => Some(Requirement::Variable(name.into())),
            Part::Text(_) => None,
        });
        all.extend(variables);
        let outside = self.extents(root)?.into_iter().filter(|extent| !extent.place.is_within(root));
        all.extend(outside.map(Requirement::Place));
        Ok(all)
    }

    /// Its environment beyond the one that every process has. `granted` says which variables of llm-do's environment it may
    /// see, `lookup` their values.
    ///
    /// # Errors
    /// A variable that is not granted or not set.
    pub(crate) fn environment(
        &self,
        granted: impl Fn(&str) -> bool,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<(String, String)>, String> {
        let value = |text: &String| -> Result<String, String> {
            let parts = parts(text).into_iter().map(|part| match part {
                Part::Text(text) => Ok(text.to_owned()),
                Part::Variable(name) if !granted(name) => Err(format!(
                    "`env` needs the variable {name}, which is not granted: add `--grant env={name}`"
                )),
                Part::Variable(name) => {
                    lookup(name).ok_or_else(|| format!("`env` needs the variable {name}, which is not set"))
                }
            });
            parts.collect()
        };
        self.env.iter().map(|(name, text)| Ok((name.clone(), value(text)?))).collect()
    }

    /// How long a call may take without a sign of progress.
    pub(crate) fn patience(&self) -> Duration {
        Duration::try_from_secs_f64(self.timeout).unwrap_or(Duration::MAX)
    }

    /// How long a call may take altogether.
    pub(crate) fn most(&self) -> Duration {
        Duration::try_from_secs_f64(self.total_timeout).unwrap_or(Duration::MAX)
    }
}

/// A part of a value of `env`.
#[derive(Debug, PartialEq)]
enum Part<'a> {
    Text(&'a str),
    Variable(&'a str),
}

fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { break };
        parts.extend((!before.is_empty()).then_some(Part::Text(before)));
        parts.push(Part::Variable(name));
        rest = after;
    }
    parts.extend((!rest.is_empty()).then_some(Part::Text(rest)));
    parts
}

/// The schema of the configuration.
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
                    "properties": {
                        "command": text,
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
                    "additionalProperties": false,
                },
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
        assert_eq!(server.command_line(), r"npx -y 'a b' 'it'\''s'");
    }

    #[test]
    fn variables_in_values_need_a_grant() {
        let server = server(json!({"command": "x", "env": {"TOKEN": "Bearer ${A_KEY}!", "PLAIN": "a$b"}}));
        let requires = server.requires(&Place::new("/p")).unwrap();
        assert_eq!(requires, [Requirement::Process("x".into()), Requirement::Variable("A_KEY".into())]);
        let lookup = |name: &str| (name == "A_KEY").then(|| "secret-value".to_owned());
        let given = server.environment(|name| name == "A_KEY", lookup).unwrap();
        let given: Vec<_> = given.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(given, [("PLAIN", "a$b"), ("TOKEN", "Bearer secret-value!")]);
        assert!(server.environment(|_| false, lookup).unwrap_err().contains("--grant env=A_KEY"));
        assert!(server.environment(|_| true, |_| None).unwrap_err().contains("not set"));
    }

    #[test]
    fn a_server_needs_a_grant_for_places_outside_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("project");
        std::fs::create_dir_all(root.join("data")).unwrap();
        let root = place_of(&root).unwrap();
        let of = |path: &str| server(json!({"command": "x", "paths": [path]})).requires(&root).unwrap();
        assert_eq!(of("data:rw").len(), 1);
        assert!(matches!(&of("..:rw")[1], Requirement::Place(Extent { access: Access::Write, .. })));
    }
}
