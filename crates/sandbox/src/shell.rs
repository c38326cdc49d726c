//! The toolset kind `shell` (`docs/guides/shell.md`): programs of the machine as one tool, `shell(command, timeout)`.
//!
//! No shell is involved. This module splits a command into words ([`words`]), checks it against the worker's rules
//! and a table of dangerous arguments, expands its wildcards to files that the worker sees, and runs it as one
//! confined process.

mod commands;
mod dangerous;
mod expand;
mod output;
mod paths;
mod program;
mod rules;
mod run;
mod runner;
mod scripts;
mod tool;
pub mod words;

pub use runner::Environment;

use crate::confine::{Confinement, Confiner, env_allowlist, working_directory};
use commands::{Command, CommandTool};
use llm_do_core::{
    authority::{Authority, Network},
    engine::LEAF_TIMEOUT,
    function::{Concurrency, Function, FunctionMeta, FunctionSource, Implementation, OutputSchema, Risk},
    gate::Policy,
    journal::Runtime,
    origin::ResultOrigin,
    schema::{Schema, canonical, sha256},
    send::BoxFuture,
    toolset::{ConfigurationProblem, ConfiguredTool, ToolsetContext, ToolsetKind, ToolsetRuntime},
    worker::WorkerDefinition,
};
use rules::Rules;
use runner::Runner;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tool::ShellTool;

/// Programs of the machine.
#[derive(Default)]
pub struct Shell {
    host: Option<Bound>,
}

/// The context for running programs.
struct Bound {
    environment: Environment,
    confiner: Arc<Confiner>,
}

impl Shell {
    /// Creates the kind, with the environment's variables and the confiner of its processes.
    pub fn new(environment: Environment, confiner: Arc<Confiner>) -> Self {
        Self { host: Some(Bound { environment, confiner }) }
    }

    /// Creates the kind alone, for reading programs that will not be run: building its tool is an error.
    pub fn unbound() -> Self {
        Self::default()
    }
}

impl ToolsetKind for Shell {
    fn name(&self) -> &'static str {
        "shell"
    }

    fn tools(&self) -> &'static [&'static str] {
        &["shell"]
    }

    fn risk(&self, _tool: &str) -> Option<Risk> {
        Some(Risk::Exec)
    }

    fn input(&self, _tool: &str) -> Option<Schema> {
        Some(Schema::built_in(input(LEAF_TIMEOUT)))
    }

    fn has_main_argument(&self, _tool: &str) -> bool {
        true
    }

    fn starts_processes(&self, worker: &WorkerDefinition) -> bool {
        worker.toolsets.iter().any(|(name, _)| **name == *self.name())
    }

    fn configured(&self, configuration: &Value) -> Vec<ConfiguredTool> {
        let commands = commands::read(configuration).unwrap_or_default();
        commands.iter().map(Command::known).collect()
    }

    fn problems(&self, _worker: &WorkerDefinition, configuration: &Value) -> Vec<ConfigurationProblem> {
        commands::read(configuration).err().unwrap_or_default()
    }

    fn configuration(&self) -> Schema {
        let duration = json!({
            "anyOf": [
                {"type": "number", "minimum": 0.001, "maximum": 1_000_000_000},
                {"type": "string", "pattern": r"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*(ms|s|m|h)\s*$"},
            ],
        });
        let asks = json!({"type": "boolean", "default": true});
        Schema::of_keys(json!({
            "rules": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        // Characters that a command can't contain unquoted, and that no pattern needs.
                        "pattern": {"type": "string", "minLength": 1, "pattern": "^[^|&;<>`\\n]*$"},
                        "approval_required": asks,
                        "sandbox_paths": {"type": "array", "items": {"type": "string", "minLength": 1}},
                    },
                    "required": ["pattern"],
                    "additionalProperties": false,
                },
            },
            "default": {
                "type": "object",
                "properties": {"approval_required": asks},
                "additionalProperties": false,
            },
            "commands": commands::schema(&duration),
            "timeout": duration,
        }))
    }
}

impl ToolsetRuntime for Shell {
    fn runtimes<'a>(&'a self, _: &'a [Arc<WorkerDefinition>]) -> BoxFuture<'a, Vec<Runtime>> {
        let runtime = self.host.as_ref().and_then(|host| {
            let variables = env_allowlist(|name| (host.environment)(name));
            let path = variables.into_iter().find_map(|(name, path)| (name == "PATH").then_some(path));
            Some(Runtime {
                name: self.name().into(),
                version: env!("CARGO_PKG_VERSION").into(),
                path: path.unwrap_or_default().into(),
                confinement: host.confiner.name()?.into(),
            })
        });
        Box::pin(async { runtime.into_iter().collect() })
    }

    fn build<'a>(
        &'a self,
        configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        let made = self.made_for(configuration, context.authority, context.policy.as_ref());
        let commands = self.commands_for(configuration, context.authority, context.policy.as_ref());
        Box::pin(async { Ok(made?.into_iter().chain(commands?).collect()) })
    }

    fn ended<'a>(&'a self, run: &'a Arc<str>) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            match &self.host {
                Some(host) => host.confiner.watch().end(run).await,
                None => Vec::new(),
            }
        })
    }
}

impl Shell {
    /// Makes the tool for a worker with that authority, under the toolset's `approval`. Returns `None` if no command
    /// could ever pass.
    ///
    /// # Errors
    /// An invalid pattern or path in the configuration.
    pub fn made_for(
        &self,
        configuration: &Value,
        authority: &Authority,
        policy: Option<&Arc<Policy>>,
    ) -> Result<Option<Function>, String> {
        let host = self.host.as_ref().ok_or("nothing runs programs here")?;
        let written = serde_json::from_value(configuration.clone()).map_err(|error| error.to_string())?;
        let rules = Rules::new(written)?;
        if rules.allow_nothing() {
            return Ok(None);
        }
        let timeout = configuration.get("timeout").and_then(duration).unwrap_or(LEAF_TIMEOUT);
        let meta = FunctionMeta {
            description: description(&rules, &working_directory(authority).to_string()).into(),
            input: Arc::new(Schema::built_in(input(timeout))),
            ..host.meta(self.name().into(), authority, timeout, policy)
        };
        let tool = ShellTool {
            runner: host.runner(authority),
            rules,
            timeout,
            identity: sha256(canonical(configuration).as_bytes()).into(),
        };
        Ok(Some(Function { meta, body: Implementation::Leaf(Arc::new(tool)), rule: None }))
    }

    /// Makes the tools of the commands that a configuration declares.
    ///
    /// # Errors
    /// A command that can't work.
    fn commands_for(
        &self,
        configuration: &Value,
        authority: &Authority,
        policy: Option<&Arc<Policy>>,
    ) -> Result<Vec<Function>, String> {
        let host = self.host.as_ref().ok_or("nothing runs programs here")?;
        let commands = commands::read(configuration).map_err(|problems| {
            problems.iter().map(|problem| problem.reason.as_str()).collect::<Vec<_>>().join("; ")
        })?;
        let folder = working_directory(authority).to_string();
        let all = configuration.get("timeout").and_then(duration).unwrap_or(LEAF_TIMEOUT);
        let identity: Arc<str> = sha256(canonical(configuration).as_bytes()).into();
        let functions = commands.into_iter().map(|command| {
            let timeout = command.timeout.unwrap_or(all);
            let meta = FunctionMeta {
                description: command.description(&folder).into(),
                input: Arc::new(Schema::built_in(command.input())),
                ..host.meta(Arc::clone(&command.name), authority, timeout, policy)
            };
            let tool = CommandTool {
                runner: host.runner(authority),
                command,
                timeout,
                identity: Arc::clone(&identity),
            };
            Function { meta, body: Implementation::Leaf(Arc::new(tool)), rule: None }
        });
        Ok(functions.collect())
    }
}

impl Bound {
    fn runner(&self, authority: &Authority) -> Runner {
        Runner {
            authority: Arc::new(authority.clone()),
            environment: Arc::clone(&self.environment),
            confinement: self.confiner.confinement().map_err(|error| error.to_string()),
            confiner: Arc::clone(&self.confiner),
        }
    }

    /// Returns the description that all of its functions have in common.
    fn meta(
        &self,
        name: Arc<str>,
        authority: &Authority,
        timeout: Duration,
        policy: Option<&Arc<Policy>>,
    ) -> FunctionMeta {
        let confinement = self.confiner.confinement().map_err(|error| error.to_string());
        let held =
            *authority.bounds().network() == Network::Off && confinement != Ok(Confinement::Unconfined);
        FunctionMeta {
            source: FunctionSource::Toolset(Shell::default().name().into()),
            tool_name: Arc::clone(&name),
            name,
            aliases: &[],
            description: "".into(),
            input: Arc::new(Schema::built_in(json!({}))),
            output: Some(OutputSchema::Declared(Arc::new(Schema::built_in(runner::output())))),
            risk: Risk::Exec,
            concurrency: Concurrency::ByRisk,
            // Its output is reported if it is ended here, and lost if its call is abandoned.
            timeout: Some(timeout + 2 * run::ENDING),
            contained: held,
            results: if authority.reaches_untrusted() || confinement == Ok(Confinement::Unconfined) {
                ResultOrigin::Untrusted
            } else {
                ResultOrigin::Trusted
            },
            wildcard: false,
            policy: policy.cloned(),
        }
    }
}

fn description(rules: &Rules, folder: &str) -> String {
    let others = if rules.allows_others() { " Others may be refused." } else { " Nothing else runs." };
    let allowed = match rules.allowed().as_str() {
        "" => String::new(),
        allowed => format!(" Allowed, each with further arguments: {allowed}.{others}"),
    };
    format!(
        "Run one program and wait for its end. The command is a program and its arguments, quoted as for a shell; `*`, `?` \
         and `[...]` stand for files. There is no shell: no pipes, redirections, variables, `;` or `&&`. Call it once for \
         each program. Commands run in `{folder}`, and absolute paths are the same as those of the file tools. Standard \
         input is empty.{allowed}"
    )
}

fn input(timeout: Duration) -> Value {
    let most = timeout.as_secs_f64();
    json!({
        "type": "object",
        "properties": {
            "command": {
                "type": "string",
                "minLength": 1,
                "description": "The program and its arguments, for example `grep -n TODO notes/plan.md`",
            },
            "timeout": {
                "type": "number",
                "exclusiveMinimum": 0,
                "description": format!("Seconds after which it is ended; {most} at most and if it is left out"),
            },
        },
        "required": ["command"],
        "additionalProperties": false,
    })
}

/// Parses seconds, or a number with a unit, already validated by the schema.
fn duration(value: &Value) -> Option<Duration> {
    if let Some(seconds) = value.as_f64() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let text = value.as_str()?.trim();
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim_end();
    let seconds = match text[number.len()..].trim() {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration(&json!(1.5)), Some(Duration::from_millis(1500)));
        assert_eq!(duration(&json!("500ms")), Some(Duration::from_millis(500)));
        assert_eq!(duration(&json!(" 2 m ")), Some(Duration::from_secs(120)));
        assert_eq!(duration(&json!("2 days")), None);
    }

    #[test]
    fn the_description_says_what_runs() {
        let rules = |written: Value| Rules::new(serde_json::from_value(written).unwrap()).unwrap();
        let told = description(&rules(json!({"rules": [{"pattern": "ls"}]})), "/notes");
        assert!(
            told.contains("run in `/notes`") && told.ends_with("arguments: `ls`. Nothing else runs."),
            "{told}"
        );
        let told = description(&rules(json!({"rules": [{"pattern": "ls"}], "default": {}})), "/");
        assert!(told.ends_with("`ls`. Others may be refused."), "{told}");
    }
}
