//! The servers of a session's client, such as an editor: the operator has set them up there, so that they need no
//! grant.
//!
//! Only workers that list `client` get their tools. A server is `client-NAME` in rules and records, a name that no
//! program can give to a server of its own. Its process is confined like any other, and it can't write anywhere but
//! where its worker can.

use crate::{
    configuration::{At, Server},
    known::{Agreed, Change, Definition, name_of, sorted},
    scripts,
};
use llm_do_core::authority::{Authority, Place, variable_refused};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// The prefix of the names of these servers.
const PREFIX: &str = "client-";

/// Most characters of such a name.
const LONGEST_NAME: usize = 32;

/// The servers of a session's client.
#[derive(Clone, Debug, Default)]
pub struct ClientServers {
    servers: BTreeMap<String, Server>,
    variables: Vec<(String, String)>,
    /// Credentials in headers, without the scheme: `TOKEN` of `Bearer TOKEN`.
    headers: Vec<(String, String)>,
}

/// A server of a session's client.
#[derive(Clone, Debug)]
pub enum ClientServer {
    /// A process that talks over its standard input and output.
    Process {
        /// The program: an absolute path, or a name that is looked up in `PATH`.
        command: PathBuf,
        /// The arguments of the program.
        args: Vec<String>,
        /// Variables that are added to the environment that every process has.
        env: Vec<(String, String)>,
    },
    /// An address for streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
        /// Headers of each request.
        headers: Vec<(String, String)>,
    },
}

/// A server of the client can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the MCP server `{name}` can't be used: {reason}")]
pub struct BadClientServer {
    name: String,
    reason: String,
}

impl ClientServers {
    /// Adds a server.
    ///
    /// # Errors
    /// The server has no usable name or the name of another one, its program is a relative path, or it sets a variable
    /// or a header that can't be set.
    pub fn add(&mut self, name: &str, server: ClientServer) -> Result<(), BadClientServer> {
        let bad = |reason: String| BadClientServer { name: name.to_owned(), reason };
        let key = key(name);
        if key == PREFIX {
            return Err(bad("its name has no letters or digits".to_owned()));
        }
        if self.servers.contains_key(&key) {
            return Err(bad(format!("another one has the name `{key}` too")));
        }
        match &server {
            ClientServer::Process { env, .. } => self.variables.extend(env.iter().cloned()),
            ClientServer::Http { headers, .. } => {
                let token = |value: &String| value.rsplit(' ').next().unwrap_or_default().to_owned();
                self.headers.extend(headers.iter().map(|(name, value)| (name.clone(), token(value))));
            }
        }
        let definition = definition(server).map_err(bad)?;
        let server: Server = serde_json::from_value(definition).map_err(|error| bad(error.to_string()))?;
        if let At::Remote(remote) = &server.at
            && let Some(problem) = remote.problems().into_iter().next()
        {
            return Err(bad(problem.reason));
        }
        self.servers.insert(key, server);
        Ok(())
    }

    /// Returns true if there are no servers.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Returns the values that must reach no record, with the names of their headers and variables: those of all
    /// headers, and those of variables with the name of a secret.
    pub fn secrets(&self, is_secret: impl Fn(&str) -> bool) -> impl Iterator<Item = (String, String)> {
        let variables = self.variables.iter().filter(move |(name, _)| is_secret(name));
        self.headers.iter().chain(variables).cloned()
    }

    pub(crate) fn servers(&self) -> &BTreeMap<String, Server> {
        &self.servers
    }
}

/// Returns the name of a server in rules and records.
fn key(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = name.chars().map(plain).collect();
    let name: String = name.trim_matches('-').chars().take(LONGEST_NAME - PREFIX.len()).collect();
    format!("{PREFIX}{}", name.trim_end_matches('-'))
}

/// Returns true if a server of this name is one of the client's.
pub(crate) fn is_of_client(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Returns the server in the form of a toolset's configuration.
fn definition(server: ClientServer) -> Result<Value, String> {
    // In a configuration it would stand for a variable of llm-do's own environment.
    let plain = |what: &str, values: Vec<(String, String)>| -> Result<Map<String, Value>, String> {
        let with_variable = values.iter().find(|(_, value)| value.contains("${"));
        if let Some((name, _)) = with_variable {
            return Err(format!("the {what} {name} holds `${{`: variables are the client's to fill in"));
        }
        Ok(values.into_iter().map(|(name, value)| (name, value.into())).collect())
    };
    match server {
        ClientServer::Process { command, args, env } => {
            let command = command.to_str().ok_or("its program is not UTF-8")?;
            // A file of the program would be executed as if the user had chosen it.
            if command.contains('/') && !Path::new(command).is_absolute() {
                return Err(format!("`{command}` is a relative path: name the program by an absolute one"));
            }
            let refused = env.iter().find_map(|(name, _)| Some((name, variable_refused(name)?)));
            if let Some((name, reason)) = refused {
                return Err(format!("it sets {name}: {reason}"));
            }
            Ok(json!({"command": command, "args": args, "env": plain("variable", env)?}))
        }
        ClientServer::Http { url, headers } => Ok(json!({"url": url, "headers": plain("header", headers)?})),
    }
}

/// Returns the authority with which such a server is started or reached: that of its worker, and a grant for the
/// server, because the operator has set it up in the client.
pub(crate) fn granted(server: &Server, workers: &Authority) -> Authority {
    let workers = workers.clone();
    match &server.at {
        At::Process(command) => workers.with_processes([command.command_line().into()]),
        At::Remote(remote) => match remote.network() {
            Some(network) => workers.with_servers(network),
            None => workers,
        },
    }
}

/// Returns the places that the server's process can read beside the view of its worker: its program with the packages
/// around it, and absolute paths among its arguments. A place that holds llm-do's own folder, or lies in it, is left
/// out.
pub(crate) fn readable(server: &Server, root: &Place, known: &Path) -> Vec<PathBuf> {
    let Some(command) = server.command() else { return Vec::new() };
    let executed = scripts::of(command, root, &[]);
    let own = executed.files.into_iter().chain(executed.importing);
    let own = own.map(|place| PathBuf::from(place.as_str()));
    let environment = Path::new(&command.command).ancestors().nth(2).map(Path::to_owned);
    let environment = environment.filter(|folder| folder.join("pyvenv.cfg").is_file());
    let named = command.args.iter().map(PathBuf::from).filter(|path| path.is_absolute());
    let all = own.chain(environment).chain(named).filter(|path| path.is_absolute());
    let private = known.parent().unwrap_or(known);
    all.filter(|path| {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        !private.starts_with(&real) && !real.starts_with(private)
    })
    .collect()
}

/// The tools that the servers of clients listed first in each run. Later lists must have the same definitions.
#[derive(Default)]
pub(crate) struct SessionPins(Mutex<HashMap<Arc<str>, PinsOfRun>>);

/// Definitions by the name of the server, and of the tool.
type PinsOfRun = HashMap<String, BTreeMap<String, Agreed>>;

impl SessionPins {
    /// Sorts the tools of a server into those that are as it listed them first, and changes.
    pub(crate) fn sort(
        &self,
        run: &Arc<str>,
        server: &str,
        tools: Vec<Definition>,
    ) -> (Vec<Definition>, Vec<Change>) {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_run = runs.entry(Arc::clone(run)).or_default();
        let agreed = of_run.entry(server.to_owned()).or_insert_with(|| {
            tools.iter().map(|tool| (name_of(tool).to_owned(), Agreed::to(tool.clone()))).collect()
        });
        sorted(agreed, &tools)
    }

    /// Forgets the tools of a run that has ended.
    pub(crate) fn end(&self, run: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(command: &str, env: &[(&str, &str)]) -> ClientServer {
        let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ClientServer::Process { command: command.into(), args: vec!["a".to_owned()], env }
    }

    #[test]
    fn names_are_plain_and_differ_from_those_of_the_program() {
        let mut servers = ClientServers::default();
        for name in ["My Files (work)", "fs", "a-very-long-name-of-a-server-in-an-editor"] {
            servers.add(name, process("/bin/x", &[])).unwrap();
        }
        let names: Vec<&String> = servers.servers().keys().collect();
        assert_eq!(names, ["client-My-Files--work", "client-a-very-long-name-of-a-ser", "client-fs"]);
        for same in ["fs", "fs!"] {
            assert!(servers.add(same, process("/bin/y", &[])).is_err(), "{same}");
        }
        assert!(servers.add("¿?", process("/bin/x", &[])).is_err());
    }

    #[test]
    fn what_would_escape_the_word_of_the_operator_is_refused() {
        let mut servers = ClientServers::default();
        for (server, says) in [
            (process("bin/server", &[]), "relative path"),
            (process("../server", &[]), "relative path"),
            (process("/bin/x", &[("TOKEN", "${OPENAI_API_KEY}")]), "holds `${`"),
            (process("/bin/x", &[("LD_PRELOAD", "/tmp/x.so")]), "LD_PRELOAD"),
            (
                ClientServer::Http {
                    url: "http://example.org/mcp".to_owned(),
                    headers: vec![("Authorization".to_owned(), "Bearer x".to_owned())],
                },
                "https",
            ),
            (ClientServer::Http { url: "file:///etc/passwd".to_owned(), headers: Vec::new() }, "http"),
        ] {
            let error = servers.add("s", server).unwrap_err().to_string();
            assert!(error.contains(says), "{says}: {error}");
        }
        assert!(servers.is_empty());
    }

    #[test]
    fn secrets_are_known_by_value() {
        let mut servers = ClientServers::default();
        servers.add("a", process("/bin/x", &[("API_KEY", "secret-one"), ("LEVEL", "debug")])).unwrap();
        let headers = vec![("Authorization".to_owned(), "Bearer secret-two".to_owned())];
        servers.add("b", ClientServer::Http { url: "https://example.org/mcp".to_owned(), headers }).unwrap();
        let secrets = servers.secrets(|name| name.ends_with("KEY")).map(|(_, value)| value);
        assert_eq!(secrets.collect::<Vec<_>>(), ["secret-two", "secret-one"]);
    }

    #[test]
    fn tools_are_those_of_the_first_list_of_a_run() {
        let tool = |name: &str, text: &str| json!({"name": name, "description": text, "inputSchema": {}});
        let pins = SessionPins::default();
        let (run, other): (Arc<str>, Arc<str>) = ("one".into(), "two".into());
        assert_eq!(pins.sort(&run, "s", vec![tool("a", "reads")]).0.len(), 1);
        let (same, changes) = pins.sort(&run, "s", vec![tool("a", "obey"), tool("b", "new")]);
        assert_eq!((same.len(), changes.len()), (0, 2));
        assert_eq!(pins.sort(&other, "s", vec![tool("a", "obey")]).0.len(), 1);
        pins.end("one");
        assert_eq!(pins.sort(&run, "s", vec![tool("a", "obey")]).0.len(), 1);
    }

    #[test]
    fn llm_dos_own_folder_is_never_readable() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let own = home.join(".llm-do/mcp");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::create_dir_all(home.join("notes")).unwrap();
        let args = [home.clone(), own.join("credentials"), home.join("notes")];
        let args = args.map(|path| path.to_str().unwrap().to_owned()).to_vec();
        let mut servers = ClientServers::default();
        servers.add("s", ClientServer::Process { command: "server".into(), args, env: Vec::new() }).unwrap();
        let places = readable(&servers.servers()["client-s"], &Place::new("/p"), &own);
        assert_eq!(places, [home.join("notes")]);
    }
}
