//! The tools of registries, `npm` and `pip`: how they run confined, and the sources of packages that they report.
//!
//! No address of a registry is written here. The system's tools have their own, and the user may have configured
//! others.

use crate::{environment::Environment, package::Registry};
use llm_do_core::authority::{Domain, Network};
use llm_do_sandbox::confine::{Confinement, Limits, Process, ProcessView, env_allowlist};
use reqwest::Url;
use serde::Deserialize;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Most time for a run of one of the tools.
const PATIENCE: Duration = Duration::from_secs(1_800);

/// Most bytes that are kept of what a tool prints.
const MOST_PRINTED: u64 = 64 << 10;

/// The operator's variables that the tools get: how servers are verified.
const TRUST: &[&str] =
    &["NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"];

/// The operator's variables that the tools get without a list of hosts: how the network is reached.
const PROXIES: &[&str] = &[
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// The operator's variables that name registries, or the files that do.
const REGISTRIES: &[&str] = &[
    "npm_config_registry",
    "NPM_CONFIG_REGISTRY",
    "npm_config_globalconfig",
    "NPM_CONFIG_GLOBALCONFIG",
    "PIP_CONFIG_FILE",
    "PIP_EXTRA_INDEX_URL",
    "PIP_INDEX_URL",
];

/// The variable that names npm's configuration file of the user, in both spellings.
const NPM_USER_CONFIG: [&str; 2] = ["npm_config_userconfig", "NPM_CONFIG_USERCONFIG"];

/// The configuration files of the system, which are readable for everybody.
const SYSTEM_CONFIG: [&str; 3] = ["/etc/npmrc", "/etc/pip.conf", "/etc/xdg/pip"];

/// Prints the addresses of the package indices that pip would use for the user with this home folder, and the host of
/// the files of its own index.
const INDICES: &str = r#"
import json, os, sys
os.environ["HOME"] = sys.argv[1]
from pip._internal.commands import create_command
from pip._internal.models.index import PyPI
options, _ = create_command("install").parser.parse_args([])
own = options.index_url.rstrip("/") == PyPI.simple_url.rstrip("/")
print(json.dumps({
    "index": options.index_url,
    "extra": options.extra_index_urls,
    "files": PyPI.file_storage_domain if own else None,
}))
"#;

/// The output of [`INDICES`].
#[derive(Deserialize)]
struct Indices {
    index: String,
    extra: Vec<String>,
    files: Option<String>,
}

/// The source of a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The hosts. `None`: the tool does not name them.
    hosts: Option<Vec<Domain>>,
    /// Arguments and variables of the environment that give the tool the same source when it installs.
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
}

impl Source {
    /// Returns the network that an installation from this source needs.
    pub(crate) fn network(&self) -> Network {
        self.hosts.clone().map_or(Network::On, Network::domains)
    }
}

/// Runs the tools of registries.
pub(crate) struct Tools<'a> {
    /// The operator's environment.
    pub(crate) environment: &'a Environment,
    pub(crate) confinement: Confinement,
    /// The folder that the tools may write.
    pub(crate) folder: &'a Path,
}

impl Tools<'_> {
    /// Returns the source from which the registry's tool gets the package of that name.
    ///
    /// # Errors
    /// The tool does not run, or names an address that can't be used.
    pub(crate) async fn source(&self, registry: Registry, name: &str) -> Result<Source, String> {
        match registry {
            Registry::Npm => self.npm_source(name).await,
            Registry::Pypi => self.pip_source().await,
        }
    }

    async fn npm_source(&self, name: &str) -> Result<Source, String> {
        let scope = name.split_once('/').map(|(scope, _)| format!("{scope}:registry"));
        let mut args: Vec<OsString> = ["config", "get", "registry"].map(OsString::from).to_vec();
        args.extend(scope.as_ref().map(OsString::from));
        let said = self.run(Path::new("npm"), args, self.configuration(), &Network::Off).await?;
        let (mut source, mut hosts) = (Source::default(), Vec::new());
        // With two keys each line begins with its own.
        for line in said.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let of_scope = scope.as_ref().and_then(|key| line.strip_prefix(key.as_str())?.strip_prefix('='));
            let address = of_scope.unwrap_or_else(|| line.strip_prefix("registry=").unwrap_or(line));
            match (of_scope, &scope) {
                (Some("undefined"), _) => continue,
                (Some(_), Some(key)) => source.args.push(format!("--{key}={address}").into()),
                _ => source.env.push(("npm_config_registry".into(), address.into())),
            }
            hosts.push(host("npm", address)?);
        }
        source.hosts = Some(hosts);
        Ok(source)
    }

    async fn pip_source(&self) -> Result<Source, String> {
        let home = (self.environment)("HOME").unwrap_or_default();
        let args: Vec<OsString> = ["-c", INDICES, &home].map(OsString::from).to_vec();
        let ask = |python: PathBuf| {
            let args = args.clone();
            async move { self.run(&python, args, self.configuration(), &Network::Off).await }
        };
        // Some systems have pip only for virtual environments.
        let said = match ask("python3".into()).await {
            Ok(said) => Ok(said),
            Err(_) => {
                let environment = tempfile::tempdir_in(self.folder)
                    .map_err(|error| format!("{}: {error}", self.folder.display()))?;
                self.virtual_environment(environment.path()).await?;
                ask(environment.path().join("bin/python3")).await
            }
        };
        // A pip with other insides installs all the same, with a grant for the whole network.
        let Some(indices) = said.ok().and_then(|said| serde_json::from_str::<Indices>(&said).ok()) else {
            let given = ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"].into_iter();
            let env = given.filter_map(|name| Some((name.into(), (self.environment)(name)?.into())));
            return Ok(Source { env: env.collect(), ..Source::default() });
        };
        let addresses = [&indices.index].into_iter().chain(&indices.extra);
        let mut hosts = addresses.map(|address| host("pip", address)).collect::<Result<Vec<_>, _>>()?;
        if let Some(files) = &indices.files {
            hosts.push(Domain::parse(files).map_err(|error| error.to_string())?);
        }
        let extra = (!indices.extra.is_empty())
            .then(|| ("PIP_EXTRA_INDEX_URL".into(), indices.extra.join(" ").into()));
        let index = ("PIP_INDEX_URL".into(), indices.index.into());
        Ok(Source { hosts: Some(hosts), env: [index].into_iter().chain(extra).collect(), args: Vec::new() })
    }

    /// Makes a virtual environment with the system's Python.
    pub(crate) async fn virtual_environment(&self, folder: &Path) -> Result<(), String> {
        let args = ["-m".into(), "venv".into(), folder.as_os_str().to_owned()].to_vec();
        let made = self.run(Path::new("python3"), args, Given::default(), &Network::Off).await;
        made.map(drop)
            .map_err(|error| format!("{error}. The `python3` of the system needs the module `venv`"))
    }

    /// Returns the variables and files with which the tools read their configuration: that of the system and that of
    /// the user.
    fn configuration(&self) -> Given {
        let lookup = |name: &str| (self.environment)(name).filter(|value| !value.is_empty());
        let mut given = Given::default();
        given.add(lookup, REGISTRIES);
        given.readable.extend(SYSTEM_CONFIG.map(PathBuf::from));
        let files = ["npm_config_globalconfig", "NPM_CONFIG_GLOBALCONFIG", "PIP_CONFIG_FILE"];
        given.readable.extend(files.into_iter().filter_map(lookup).map(PathBuf::from));
        let Some(home) = lookup("HOME").map(PathBuf::from) else { return given };
        // The tools have another home folder.
        let user =
            NPM_USER_CONFIG.into_iter().find_map(lookup).map_or_else(|| home.join(".npmrc"), PathBuf::from);
        given.env.push((NPM_USER_CONFIG[0].into(), user.clone().into()));
        let config = lookup("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
        given.env.push(("XDG_CONFIG_HOME".into(), config.clone().into()));
        let of_pip = [home.join(".pip"), home.join("Library/Application Support/pip"), config.join("pip")];
        given.readable.extend([user].into_iter().chain(of_pip));
        given
    }

    /// Runs a tool in the folder. Returns the text that it printed.
    ///
    /// # Errors
    /// The tool can't be started, takes too long, or fails.
    pub(crate) async fn run(
        &self,
        program: &Path,
        args: Vec<OsString>,
        mut given: Given,
        network: &Network,
    ) -> Result<String, String> {
        let lookup = |name: &str| (self.environment)(name);
        given.env.extend(env_allowlist(lookup).into_iter().map(|(name, value)| (name.into(), value.into())));
        given.add(lookup, TRUST);
        if *network == Network::On {
            given.add(lookup, PROXIES);
        }
        given.env.push(("npm_config_cache".into(), self.folder.join(".cache").into()));
        given.readable.extend(TRUST.iter().filter_map(|name| lookup(name)).map(PathBuf::from));
        let view = ProcessView::empty().with_readable(given.readable).with_writable([self.folder.to_owned()]);
        let process = Process {
            args,
            env: given.env,
            cwd: Some(self.folder.to_owned()),
            network: network.clone(),
            limits: Limits { open_files: 16_384, ..Limits::default() },
            ..Process::new(program, view, self.confinement)
        };
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut running =
            process.start().await.map_err(|error| format!("`{name}` can't be started: {error}"))?;
        let (stdout, stderr) = (running.stdout(), running.stderr());
        let printed =
            tokio::time::timeout(PATIENCE, async { tokio::join!(printed(stdout), printed(stderr)) });
        let Ok((out, err)) = printed.await else {
            running.kill();
            return Err(format!("`{name}` was not ready after {} minutes", PATIENCE.as_secs() / 60));
        };
        let exit = running.wait().await;
        let _ = fs::remove_dir_all(self.folder.join(".cache"));
        match exit.code {
            Some(0) => Ok(out),
            _ => Err(format!("`{name}` failed ({exit}): {}", last_lines(&err, &out))),
        }
    }
}

/// Variables and files of the operator that a tool gets.
#[derive(Default)]
pub(crate) struct Given {
    env: Vec<(OsString, OsString)>,
    readable: Vec<PathBuf>,
}

impl Given {
    /// Makes a value with these variables and no files.
    pub(crate) fn variables(env: &[(OsString, OsString)]) -> Self {
        Self { env: env.to_vec(), readable: Vec::new() }
    }

    /// Adds those of the operator's variables with these names that are set.
    fn add(&mut self, lookup: impl Fn(&str) -> Option<String>, names: &[&str]) {
        self.env.extend(names.iter().filter_map(|name| Some(((*name).into(), lookup(name)?.into()))));
    }
}

/// Returns the host of the address of a registry, with the port if it is written.
///
/// # Errors
/// The address has no host.
fn host(tool: &str, address: &str) -> Result<Domain, String> {
    let host =
        Url::parse(address).ok().filter(|url| ["http", "https"].contains(&url.scheme())).and_then(|url| {
            let host = url.host_str()?.to_owned();
            Some(url.port().map_or(host.clone(), |port| format!("{host}:{port}")))
        });
    let domain = host.and_then(|host| Domain::parse(&host).ok());
    domain
        .ok_or_else(|| format!("the configuration of {tool} names no registry that can be reached over HTTP"))
}

/// Returns the end of what a failed tool printed.
fn last_lines(err: &str, out: &str) -> String {
    const LINES: usize = 12;
    let text = if err.trim().is_empty() { out } else { err };
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

/// Reads what a process prints, and keeps the beginning.
async fn printed(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut kept = Vec::new();
    if let Some(mut pipe) = pipe {
        // A pipe that breaks has nothing more to say.
        let _ = (&mut pipe).take(MOST_PRINTED).read_to_end(&mut kept).await;
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&kept).into_owned()
}
