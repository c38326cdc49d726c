//! Packages of npm and PyPI that hold servers: what `npx` and `uvx` would fetch, and `llm-do mcp install`.

use super::add::{manifest, project};
use crate::{
    args::{Format, InstallArgs},
    exit::{Complaint, Exit},
    opening::grants,
    program::{home, quoted},
    render::Output,
    rows::{Rows, Tone},
    terminal::Terminal,
    visible,
};
use llm_do::{
    Grant,
    confine::Confiner,
    core::authority::Network,
    granted_network,
    program::{keys::MCP_SERVERS, yaml},
};
use llm_do_mcp::{Installed, Installer, Package, Registry, ServerFiles, Wanted};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// A command line that would fetch a package each time.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    wanted: Wanted,
    /// The program, if the command line names one.
    program: Option<String>,
    args: Vec<String>,
}

/// The programs that fetch a package, with their first arguments, and the registry that they fetch it from.
const FETCHING: &[(&[&str], Registry)] = &[
    (&["npx"], Registry::Npm),
    (&["bunx"], Registry::Npm),
    (&["pnpx"], Registry::Npm),
    (&["npm", "exec"], Registry::Npm),
    (&["pnpm", "dlx"], Registry::Npm),
    (&["uvx"], Registry::Pypi),
    (&["uv", "tool", "run"], Registry::Pypi),
    (&["pipx", "run"], Registry::Pypi),
];

impl Fetched {
    /// Reads the command line of a server. `None` if it fetches nothing.
    ///
    /// # Errors
    /// It fetches something that can't be installed.
    pub(super) fn read(words: &[String]) -> Result<Option<Self>, String> {
        let begins =
            |first: &[&str]| words.len() >= first.len() && first.iter().zip(words).all(|(a, b)| a == b);
        let Some((first, registry)) = FETCHING.iter().find(|(first, _)| begins(first)) else {
            return Ok(None);
        };
        let fetcher = first.join(" ");
        let mut rest = words[first.len()..].iter();
        let mut package: Option<String> = None;
        let program = loop {
            let word = rest.next().ok_or_else(|| format!("`{fetcher}` names no package"))?;
            let (option, value) = match word.split_once('=') {
                Some((option, value)) if word.starts_with("--") => (option, Some(value.to_owned())),
                _ => (word.as_str(), None),
            };
            match (registry, option) {
                (_, "--") => {}
                (Registry::Npm, "-y" | "--yes") => {}
                (Registry::Npm, "-p" | "--package") | (Registry::Pypi, "--from" | "--spec")
                    if package.is_none() =>
                {
                    let value = value.or_else(|| rest.next().cloned());
                    package = Some(value.ok_or_else(|| format!("`{fetcher} {option}` names no package"))?);
                }
                _ if option.starts_with('-') => {
                    return Err(format!("`{fetcher} {option}` has no meaning for an installed package"));
                }
                _ => break word.clone(),
            }
        };
        let (package, program) = match package {
            Some(package) => (package, Some(program)),
            None => (program, None),
        };
        let wanted = Wanted::parse(*registry, &package)?;
        Ok(Some(Self { wanted, program, args: rest.cloned().collect() }))
    }

    /// The keys of the definition that take the place of `command` and `args`.
    fn definition(&self, installed: &Installed) -> Result<Map<String, Value>, String> {
        let program = match &self.program {
            Some(program) if !installed.programs.contains(program) => {
                return Err(format!(
                    "{} has no program `{program}`; it has {}",
                    installed.package,
                    installed.programs.join(", ")
                ));
            }
            Some(program) => program.clone(),
            None => self.wanted.main_program(installed)?,
        };
        let mut keys = Map::new();
        keys.insert("package".into(), installed.package.to_string().into());
        keys.insert("integrity".into(), installed.integrity.clone().into());
        keys.insert("command".into(), program.into());
        if !self.args.is_empty() {
            keys.insert("args".into(), self.args.clone().into());
        }
        Ok(keys)
    }
}

/// Installs the packages of these servers, and returns their definitions.
pub(super) fn installed(
    fetched: &[&Fetched],
    given: &[String],
    output: &Output,
) -> Result<Vec<Map<String, Value>>, Complaint> {
    let wanted: Vec<_> = fetched.iter().map(|fetched| (fetched.wanted.clone(), None)).collect();
    let installed = install(&wanted, given, output)?;
    let definitions =
        fetched.iter().zip(&installed).map(|(fetched, installed)| fetched.definition(installed));
    definitions.collect::<Result<_, _>>().map_err(Complaint::wrong)
}

/// Installs packages: `llm-do mcp install`.
pub(super) fn run(args: &InstallArgs, output: &Output) -> Result<Exit, Complaint> {
    let wanted = match &args.package {
        Some(package) => {
            let package: Package = package
                .parse()
                .map_err(|error: llm_do_mcp::BadPackage| Complaint::wrong(error.to_string()))?;
            vec![(package, args.integrity.clone())]
        }
        None => of_manifest(args)?,
    };
    let wanted: Vec<_> = wanted.into_iter().map(|(package, hash)| (Wanted::from(package), hash)).collect();
    let installed = install(&wanted, &args.grant, output)?;
    if output.format != Format::Text {
        output.print_json(&json!({ "installed": installed.iter().map(|installed| json!({
            "package": installed.package, "integrity": installed.integrity, "programs": installed.programs,
        })).collect::<Vec<_>>() }));
    }
    for installed in installed.iter().filter(|_| output.format == Format::Text) {
        let line = format!("{}  {}", installed.package, installed.integrity);
        output.print(&format!("{} {}\n", output.out.green("installed"), visible::line(&line)));
    }
    Ok(Exit::Done)
}

/// The packages that the manifest names, each with the hash that it states.
fn of_manifest(args: &InstallArgs) -> Result<Vec<(Package, Option<String>)>, Complaint> {
    let root = project(args.project.as_deref())?;
    let (path, file) = manifest(&root)?;
    let unreadable =
        |reason: &str| Complaint::wrong(format!("{path}: {reason}")).hint("`llm-do check` shows where");
    let node = yaml::parse(&file, file.text().len()).map_err(|found| unreadable(&found.message))?;
    let servers = node.get(MCP_SERVERS).map(yaml::Node::to_json).unwrap_or_default();
    let mut wanted = BTreeMap::new();
    for server in servers.as_object().into_iter().flat_map(Map::values) {
        let Some(package) = server["package"].as_str() else { continue };
        let parsed =
            package.parse().map_err(|error: llm_do_mcp::BadPackage| unreadable(&error.to_string()))?;
        let integrity = server["integrity"].as_str().map(str::to_owned);
        wanted.insert(package.to_owned(), (parsed, integrity));
    }
    if wanted.is_empty() {
        return Err(Complaint::wrong(format!("{path} names no package of a server"))
            .hint("name one: `llm-do mcp install npm:NAME@VERSION`"));
    }
    Ok(wanted.into_values().collect())
}

/// Installs these packages, each with the hash that its archive must have, after the operator has allowed the network.
fn install(
    wanted: &[(Wanted, Option<String>)],
    given: &[String],
    output: &Output,
) -> Result<Vec<Installed>, Complaint> {
    let grants = grants(given)?;
    let confiner = Confiner::default();
    if grants.contains(&Grant::Unconfined) {
        confiner.allow_unconfined();
    }
    let confinement = confiner.confinement().map_err(|error| Complaint::failed(error.to_string()))?;
    let environment: llm_do::Environment = Arc::new(|name| std::env::var(name).ok());
    let installer =
        Installer { packages: ServerFiles::of(&home()).packages(), environment: &environment, confinement };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Complaint::failed(format!("cannot start: {error}")))?;
    let mut installed = Vec::new();
    for (wanted, integrity) in wanted {
        let failed = |reason: String| {
            Complaint::failed(format!("`{wanted}` is not installed: {reason}")).hint("nothing of it is left")
        };
        let present = installer.present(wanted, integrity.as_deref()).map_err(failed)?;
        if let Some(present) = present {
            installed.push(present);
            continue;
        }
        let source = runtime.block_on(installer.source(wanted)).map_err(Complaint::wrong)?;
        let network = allowed(wanted, &installer.network(&source), &grants, output)?;
        output.note(&format!("installing {wanted}"));
        let done = runtime.block_on(installer.install(wanted, integrity.as_deref(), &source, &network));
        installed.push(done.map_err(failed)?);
    }
    Ok(installed)
}

/// The network that the operator grants for an installation: by a flag, or on the terminal for this once.
fn allowed(
    wanted: &Wanted,
    needed: &Network,
    grants: &[Grant],
    output: &Output,
) -> Result<Network, Complaint> {
    let granted = granted_network(grants);
    if granted.covers(needed) {
        return Ok(granted);
    }
    let grant = Grant::Network(needed.clone());
    let flag = quoted(&grant.to_string());
    if let Some(terminal) = Terminal::open() {
        let (name, paint, domains, flag) = (wanted.to_string(), output.err, needed.clone(), flag.clone());
        let question = move |columns| {
            let mut rows = Rows::new(columns);
            rows.heading(&[
                (Tone::Name, &name),
                (Tone::Plain, " is fetched from the network and installed:"),
            ]);
            rows.line(&[(
                Tone::Bold,
                &match &domains {
                    Network::Domains(domains) => {
                        let hosts: Vec<String> = domains.iter().map(ToString::to_string).collect();
                        format!("to use the network: {}", hosts.join(", "))
                    }
                    _ => "to use the network".to_owned(),
                },
            )]);
            rows.line(&[(Tone::Dim, &format!("  --grant {flag}"))]);
            rows.heading(&[(Tone::Plain, "Grant it?")]);
            paint.lines(&rows.finish())
        };
        if terminal.choose(question, &[('y', "yes, this once"), ('n', "no")], paint) == Some('y') {
            return Ok(needed.clone());
        }
    }
    let refused = Complaint::wrong(format!("installing {wanted} needs the network, which is not granted"));
    Err(Complaint { exit: Exit::Refused, ..refused }.hint(format!("add `--grant {flag}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A package, the program in it, and the arguments of that program.
    type Read = (String, Option<String>, Vec<String>);

    fn read(line: &str) -> Result<Option<Read>, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let fetched = Fetched::read(&words)?;
        Ok(fetched.map(|fetched| (fetched.wanted.to_string(), fetched.program, fetched.args)))
    }

    #[test]
    fn command_lines_that_fetch_a_package_are_understood() {
        let of = |line| read(line).expect("a package").expect("it fetches");
        let is = |package: &str, program: Option<&str>, args: &[&str]| {
            let args = args.iter().map(|word| (*word).to_owned()).collect();
            (package.to_owned(), program.map(str::to_owned), args)
        };
        assert_eq!(of("npx -y @a/server notes -v"), is("@a/server", None, &["notes", "-v"]));
        assert_eq!(of("npx --package=@a/server@1.0.0 run x"), is("@a/server 1.0.0", Some("run"), &["x"]));
        assert_eq!(of("npm exec -y -- server@2 --flag"), is("server 2", None, &["--flag"]));
        assert_eq!(
            of("uvx mcp-server-git@latest --repository ."),
            is("mcp-server-git", None, &["--repository", "."])
        );
        assert_eq!(
            of("uv tool run --from mcp[cli]==1.2 mcp run"),
            is("mcp[cli] ==1.2", Some("mcp"), &["run"])
        );
        assert_eq!(read("node server.js").expect("a command"), None);
        assert_eq!(read("uv run server.py").expect("a command"), None);
        for wrong in [
            "npx",
            "npx -y",
            "uvx --with x y",
            "npx ./folder",
            "uvx --from git+https://a.example/x y",
            "npx -c x",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
