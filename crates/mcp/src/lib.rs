//! MCP servers as tools (`docs/guides/mcp.md`).
//!
//! A server is a foreign program, and everything that it says is written by others. llm-do starts it through the
//! launcher of [`llm_do_sandbox::confine`], confined to the view of the worker that uses it, or reaches it over HTTP.
//! The client library speaks the protocol and nothing else: it neither starts the process nor ends it.
//!
//! | module | responsibility |
//! |---|---|
//! | `configuration` | the toolset's configuration: the servers, and how each is started or reached |
//! | `remote` | the configuration of a server over HTTP |
//! | `launch` | the launch of a server: starting its process or reaching its address |
//! | `process` | starts a server as a confined process |
//! | `transport` | messages over its standard input and output, one a line |
//! | `address` | addresses of servers: which can be used, and the HTTP client for each |
//! | `http` | a server over streamable HTTP: how it is reached, and its errors |
//! | `client` | the HTTP client, with the user's token |
//! | `oauth` | the tokens, and how they are renewed |
//! | `keyring` | the keyring of the user's session, which keeps them where there is one |
//! | `sign_in` | signing in, which gets the tokens |
//! | `connection` | a server that runs: the negotiated protocol, its tools, the end of the connection |
//! | `elicit` | questions of a server to the user |
//! | `environment` | variables of llm-do's environment, and values that contain them |
//! | `starter` | the resources of this process with which servers are started |
//! | `pool` | the connections of each run: one for equal servers with equal views |
//! | `listing` | the tools of servers as data, as they are recorded |
//! | `scripts` | the files of a program that a server executes |
//! | `client_servers` | the servers of a session's client |
//! | `inspect` | the inspection of a server: its tools, compared with those that the operator agreed to |
//! | `package` | packages of npm and PyPI that hold servers, and their folders |
//! | `install` | installs them |
//! | `registry_tools` | `npm` and `pip`: how they run, and the sources of packages that they report |
//! | `known` | tools that servers have listed before, and the ones that the operator accepted |
//! | `store` | files of JSON in the user's folder |
//! | `foreseen` | the tools of servers that are known before a run |
//! | `prompts` | the prompts of servers as texts for templates |
//! | `resources` | the resources of servers as files below `/mcp` |
//! | `result` | results of calls as outputs |
//! | `tool` | a tool of a server as a function |
//! | `toolset` | the toolset kind `mcp` |
//! | `unreadable` | messages that can't be read, and the requests that they answer |

mod address;
mod client;
mod client_servers;
mod configuration;
mod connection;
mod elicit;
mod environment;
mod foreseen;
mod http;
mod inspect;
mod install;
mod keyring;
mod known;
mod launch;
mod listing;
mod oauth;
mod package;
mod pool;
mod process;
mod prompts;
mod registry_tools;
mod remote;
mod resources;
mod result;
mod scripts;
mod sign_in;
mod starter;
mod store;
mod tool;
mod toolset;
mod transport;
mod unreadable;

pub use client_servers::{BadClientServer, ClientServer, ClientServers};
pub use environment::Environment;
pub use inspect::{Described, Inspected, InspectedTool, RemoteServer, ToolState};
pub use install::{Installer, Wanted};
pub use keyring::Keyring;
pub use known::ServerFiles;
pub use package::{BadPackage, Installed, Package, Packages, Registry};
pub use registry_tools::Source;
pub use remote::SignInOptions;
pub use sign_in::{SignIn, sign_out};
pub use toolset::{Host, Mcp};
