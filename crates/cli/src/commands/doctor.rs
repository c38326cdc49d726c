//! `llm-do doctor`: requirements of runs that this machine fulfils or lacks.

use crate::{
    args::{Format, ProgramArgs, ProgramFlags},
    exit::Complaint,
    opening::local_model,
    program::{home, looked_at, quoted, reading_host, surroundings},
    render::Output,
    visible,
};
use llm_do::{
    BudgetsOverTime, Environment, Problem, PythonFor, StoredKeys,
    confine::{self, Tier},
    core::{authority::Place, model::ModelName, worker::Language},
    models::{KeySource, Providers},
    place_of,
    program::{LoadOptions, UserConfig, list_workers, target},
    user_config,
};

use serde_json::{Value, json};
use std::{borrow::Cow, path::Path, sync::Arc};

/// The result of one check.
struct Finding {
    what: &'static str,
    /// The purpose of the checked thing, such as "for tools in Python".
    why: &'static str,
    /// The thing that was found, or the error.
    found: String,
    state: Presence,
}

/// The state of the checked thing.
enum Presence {
    Ok,
    /// The thing is missing, and this command or step installs it. `None`: nothing on this machine can.
    Missing(Option<Cow<'static, str>>),
}

impl Finding {
    fn new(
        what: &'static str,
        why: &'static str,
        result: Result<String, String>,
        command: impl Into<Cow<'static, str>>,
    ) -> Self {
        let state = if result.is_ok() { Presence::Ok } else { Presence::Missing(Some(command.into())) };
        Self { what, why, found: result.unwrap_or_else(|reason| reason), state }
    }

    fn works(&self) -> bool {
        matches!(self.state, Presence::Ok)
    }

    fn to_json(&self) -> Value {
        let (state, command) = match &self.state {
            Presence::Ok => ("ok", None),
            Presence::Missing(command) => ("missing", command.as_deref()),
        };
        let Self { what, why, found, .. } = self;
        json!({"what": what, "works": self.works(), "state": state, "found": found, "why": why, "command": command})
    }
}

/// Runs the command. It reports missing things, which are no error: not every program needs them.
pub(crate) fn run(target: Option<&Path>, output: &Output) -> Result<(), Complaint> {
    let folder = target.unwrap_or(Path::new("."));
    if !folder.exists() {
        return Err(Complaint::wrong(format!("there is no file or folder `{}`", folder.display())));
    }
    let project =
        place_of(folder).map_err(|error| Complaint::wrong(format!("`{}`: {error}", folder.display())))?;
    let environment: Environment = Arc::new(|name| std::env::var(name).ok());
    let mut findings = confinement();
    findings.extend([Language::Python, Language::Script].map(|of| interpreter(of, &project, &environment)));
    findings.extend(program(folder));
    let config = user_config(&home()).map_err(|problem| problem.to_string());
    findings.extend(models(&environment, config.as_ref().ok()));
    findings.push(own_folder(&home()));
    findings.extend(own_config(config));
    findings.extend(own_budgets(&home()));
    findings.extend(programs(&environment));
    if output.format == Format::Text {
        findings.iter().for_each(|finding| show(finding, output));
    } else {
        let all: Vec<Value> = findings.iter().map(Finding::to_json).collect();
        let tier = confine::probe().tier;
        output.print_json(&json!({"version": env!("CARGO_PKG_VERSION"), "tier": tier, "findings": all}));
    }
    Ok(())
}

fn show(finding: &Finding, output: &Output) {
    let mark = if finding.works() { output.out.green("ok     ") } else { output.out.yellow("missing") };
    output.print(&format!("{mark}  {:<12}  {}\n", finding.what, visible::line(&finding.found)));
    if let Presence::Missing(command) = &finding.state {
        output.print(&format!("         {:<12}  needed {}\n", "", finding.why));
        if let Some(command) = command {
            output.print(&format!("         {:<12}  {}\n", "", output.out.bold(format!("$ {command}"))));
        }
    }
}

/// Checks the tier of confinement, and its layers (docs/reference/sandbox.md).
fn confinement() -> Vec<Finding> {
    let probe = confine::probe();
    let found = match probe.tier {
        Some(Tier::Namespaces) => "tier A: processes run in namespaces of their own".to_owned(),
        Some(Tier::Landlock) => {
            "tier B: processes run under Landlock; a mount with something to hide is not \
                                 given to them"
                .to_owned()
        }
        Some(Tier::Seatbelt) => {
            "tier S, unverified: processes run in macOS's own sandbox; a mount with something to hide is not given to them"
                .to_owned()
        }
        None => "none: tools that are processes need `--grant unconfined`".to_owned(),
    };
    let whole = Finding {
        what: "confinement",
        why: "for Python tools, shell commands and MCP servers without `--grant unconfined`",
        found,
        state: if probe.tier.is_some() {
            Presence::Ok
        } else {
            Presence::Missing(brings("namespaces").map(Into::into))
        },
    };
    let layers = probe.layers.iter().map(|layer| Finding {
        what: layer.name,
        why: match layer.name {
            "namespaces" => "for tier A, in which a process sees only its mounts",
            "landlock" => "for tier B, where there are no namespaces",
            "seccomp" => "to refuse dangerous system calls to confined processes",
            "cgroup" => "to limit the memory of all processes of a tool together",
            _ => "to confine processes",
        },
        found: layer.found.clone(),
        state: if layer.works { Presence::Ok } else { Presence::Missing(brings(layer.name).map(Into::into)) },
    });
    std::iter::once(whole).chain(layers).collect()
}

/// Returns the command that turns on a layer of confinement, if the system has it turned off.
fn brings(layer: &str) -> Option<&'static str> {
    let off = |setting: &str, value: &str| {
        std::fs::read_to_string(setting).is_ok_and(|found| found.trim() == value)
    };
    match layer {
        "namespaces" if off("/proc/sys/kernel/unprivileged_userns_clone", "0") => {
            Some("sudo sysctl -w kernel.unprivileged_userns_clone=1")
        }
        "namespaces" if off("/proc/sys/user/max_user_namespaces", "0") => {
            Some("sudo sysctl -w user.max_user_namespaces=10000")
        }
        "namespaces" if off("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") => {
            Some("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
        }
        "cgroup" => Some("systemd-run --user --scope -p Delegate=yes llm-do TARGET"),
        // Landlock and filters are built into a kernel, or they are not.
        _ => None,
    }
}

/// Checks the interpreter of tools in a language, as a run of the project would choose it.
fn interpreter(language: Language, project: &Place, environment: &Environment) -> Finding {
    let hosts = PythonFor { project, home: &home(), environment, confiner: Arc::default(), only_looks: true }
        .python();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let found = runtime
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(hosts.interpreter(language)).map_err(|error| error.to_string()));
    let (what, why, command) = match language {
        Language::Python => ("python", "for tools in Python", install("python3")),
        // The packages of distributions are often too old.
        Language::Script => (
            "node",
            "for tools in TypeScript and JavaScript",
            "export LLM_DO_NODE=/path/to/node   # 22.18 or newer, from https://nodejs.org".to_owned(),
        ),
    };
    Finding::new(what, why, found.map(|found| found.to_string()), command)
}

/// Checks that the project in that folder can be read, if there is one.
fn program(folder: &Path) -> Option<Finding> {
    if !folder.join("project.yaml").is_file() {
        return None;
    }
    let target = folder.to_string_lossy().into_owned();
    let command = format!("llm-do check {}", quoted(&target));
    let request = looked_at(&ProgramArgs { target: Some(target), program: ProgramFlags::default() });
    let around = surroundings().ok()?;
    let read = target::find(&request, &around).and_then(|found| {
        let root = found.source.tree.root().to_string();
        let host = LoadOptions { code: None, ..reading_host(&request, &around, &found).unwrap_or_default() };
        list_workers(&found.source, host).map(|_| root)
    });
    let found = read.map_err(|found| found.to_string());
    Some(Finding::new("program", "to run the workers of this project", found, command))
}

/// Returns the model of workers that name none, as a run without a program's own default chooses it.
fn default_of(
    environment: &Environment,
    config: Option<&UserConfig>,
    providers: &Providers,
) -> Result<String, String> {
    if let Some(name) = environment("LLM_DO_MODEL").filter(|name| !name.trim().is_empty()) {
        let name = name.parse::<ModelName>().map_err(|error| format!("LLM_DO_MODEL: {error}"))?;
        return Ok(format!("{name}, since LLM_DO_MODEL is set"));
    }
    if let Some(name) = config.and_then(|config| config.models.first()) {
        return Ok(format!("{name}, since config.yaml names it"));
    }
    match providers.default_model() {
        Some(chosen) => Ok(format!("{}, since {}", chosen.name, chosen.because)),
        None => match local_model() {
            Some(name) => Ok(format!("{name}, since no provider has a key")),
            None => Err("none, unless a program names one".to_owned()),
        },
    }
}

fn models(environment: &Environment, config: Option<&UserConfig>) -> Vec<Finding> {
    let lookup = Arc::clone(environment);
    let stored = StoredKeys::read(&home());
    let broken = stored.as_ref().err().map(ToString::to_string);
    let stored = stored.unwrap_or_default();
    let providers = Providers::new(move |name| lookup(name)).stored_keys(stored.pairs());
    let shown = providers.with_keys().into_iter().map(|(name, variable, source)| match source {
        KeySource::Environment => format!("{name} ({variable} in the environment)"),
        KeySource::Stored => format!("{name} (stored by `llm-do keys`)"),
    });
    let keys: Vec<String> = shown.collect();
    let keys = match (broken, keys.is_empty()) {
        (Some(reason), _) => Err(reason),
        (None, true) => Err("no provider has a key, neither in the environment nor stored".to_owned()),
        (None, false) => Ok(keys.join(", ")),
    };
    let default = default_of(environment, config, &providers);
    let key = "llm-do keys set anthropic   # or openai, gemini, ...; or export ANTHROPIC_API_KEY=...";
    let mut findings = vec![
        Finding::new("providers", "for hosted models", keys, key),
        Finding::new("default", "for workers that name no model", default, default_model()),
    ];
    findings.extend(local_models());
    findings
}

/// Checks the folder of the user's own data: grants, installed packages, local models, runs of lone workers.
fn own_folder(home: &Path) -> Finding {
    // A report makes no folder: the nearest one that is there must let llm-do write. A file fails as a folder.
    let nearest = home.ancestors().find(|folder| folder.exists());
    let probe = || tempfile::tempfile_in(nearest.unwrap_or(home)).map(drop);
    let result =
        probe().map(|()| home.display().to_string()).map_err(|error| format!("{}: {error}", home.display()));
    Finding::new(
        "home",
        "for runs, grants, packages and local models",
        result,
        "export LLM_DO_HOME=/path/that/you/may/write",
    )
}

/// Checks the user's configuration, if there is one.
fn own_config(read: Result<UserConfig, String>) -> Option<Finding> {
    let path = home().join("config.yaml");
    if read.is_ok() && !path.exists() {
        return None;
    }
    let path = path.display().to_string();
    let command = format!("$EDITOR {}", quoted(&path));
    Some(Finding::new("config", "for your own models, limits and rules", read.map(|_| path), command))
}

/// Checks the user's budgets over time, if there are any.
fn own_budgets(home: &Path) -> Option<Finding> {
    let path = home.join("budgets.yaml");
    let read = BudgetsOverTime::read(home, std::env::home_dir().as_deref());
    let read = read.map_err(|problem| match &problem {
        Problem::Program(found) => found.to_string(),
        _ => problem.to_string(),
    });
    if read.is_ok() && !path.exists() {
        return None;
    }
    let path = path.display().to_string();
    let command = format!("$EDITOR {}", quoted(&path));
    let result = read.and_then(|budgets| match budgets.warnings() {
        warnings if warnings.is_empty() => Ok(path),
        warnings => Err(warnings.join("; ")),
    });
    Some(Finding::new("budgets", "for your budgets of a day or a month", result, command))
}

/// Checks the programs that some features start. They are searched on the `PATH`, as the features do.
fn programs(environment: &Environment) -> Vec<Finding> {
    let path = environment("PATH").unwrap_or_default();
    let wanted = [
        ("git", "to install libraries from git repositories", install("git")),
        ("npm", "to install MCP servers of npm (`llm-do mcp install npm:...`)", install("npm")),
        ("uv", "for the packages of Python tools that a project declares", "pipx install uv".to_owned()),
    ];
    let find =
        |name: &str| std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    let found = wanted.into_iter().map(|(name, why, command)| {
        let result = match find(name) {
            Some(file) => Ok(file.display().to_string()),
            None => Err("not on the PATH".to_owned()),
        };
        Finding::new(name, why, result, command)
    });
    found.collect()
}

/// Returns the command of this system's package manager that installs a package.
fn install(package: &str) -> String {
    let here = |file: &str| Path::new(file).exists();
    let managers = [
        ("/usr/bin/apt-get", "sudo apt-get install"),
        ("/usr/bin/dnf", "sudo dnf install"),
        ("/usr/bin/pacman", "sudo pacman -S"),
        ("/sbin/apk", "sudo apk add"),
    ];
    let manager = managers.iter().find(|(program, _)| here(program));
    format!("{} {package}", manager.map_or("brew install", |(_, command)| command))
}

/// Returns the command or advice that sets a default model.
fn default_model() -> &'static str {
    if cfg!(feature = "local") {
        "llm-do models pull   # needs no key; or set a provider's key"
    } else {
        "export LLM_DO_MODEL=PROVIDER:MODEL   # or set a provider's key"
    }
}

/// Checks for installed local models.
#[cfg(feature = "local")]
fn local_models() -> Option<Finding> {
    let store = crate::opening::store();
    let names: Vec<String> =
        store.list().ok()?.into_iter().map(|model| format!("local:{}", model.name)).collect();
    let found = match names.is_empty() {
        true => Err(format!("none in {}", store.dir().display())),
        false => Ok(names.join(", ")),
    };
    Some(Finding::new("local", LOCAL, found, "llm-do models pull"))
}

#[cfg(not(feature = "local"))]
fn local_models() -> Option<Finding> {
    let found = Err("this build runs no local models".to_owned());
    Some(Finding::new("local", LOCAL, found, crate::program::WITH_LOCAL_MODELS))
}

/// The purpose of a local model.
const LOCAL: &str = "for models that run inside llm-do, without a key";
