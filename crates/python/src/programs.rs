//! The toolset kind `programs`: code that a model writes, with its tool `run_program` (`docs/guides/programs.md`).
//!
//! A program runs as any other code that makes calls ([`crate::tool`]): same hosts, keys, gate and budgets. Beyond that, it
//! is checked before any rule decides (`check`), its process sees no files and no network, and each program has a process
//! of its own, which ends with it.

mod bounds;
mod check;
mod finding;
mod language;
mod run;
mod signature;
mod tree;

use crate::python::Python;
use language::Dialect;
use llm_do_core::{
    function::{Concurrency, Function, FunctionMeta, FunctionSource, Implementation, OutputSchema, Risk},
    gate::Pattern,
    origin::ResultOrigin,
    schema::Schema,
    send::BoxFuture,
    toolset::{ConfigurationProblem, ToolsetContext, ToolsetKind, ToolsetRuntime},
    worker::{Language, WorkerDefinition},
};
use run::{DescribeFunctions, RunProgram};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Name of the kind.
const NAME: &str = "programs";

/// Name of its tool.
const RUN_PROGRAM: &str = "run_program";

/// Name of the tool that returns types, which is offered where they are too long for a description.
const DESCRIBE: &str = "describe_functions";

/// The greatest number of calls of a program, if the configuration has none.
const MOST_CALLS: u64 = 200;

/// Longest program, in characters.
const LONGEST: usize = 64 << 10;

/// Programs that models write.
pub struct Programs {
    python: Option<Arc<Python>>,
}

/// The configuration of the kind.
struct Settings {
    /// The languages of programs, the default first.
    dialects: Vec<&'static Dialect>,
    /// The functions that programs may call; without patterns, all functions of the worker.
    calls: Option<Vec<Pattern>>,
    /// The greatest number of calls of one program.
    max_calls: u64,
    /// True if programs run without asking whose callees run without asking.
    pre_approved: bool,
}

impl Programs {
    /// Creates the kind, with the interpreters that run programs.
    pub fn new(python: Arc<Python>) -> Self {
        Self { python: Some(python) }
    }

    /// Creates the kind alone, for programs that are only read. It can't build tools.
    pub fn unbound() -> Self {
        Self { python: None }
    }
}

impl ToolsetKind for Programs {
    fn name(&self) -> &'static str {
        NAME
    }

    fn tools(&self) -> &'static [&'static str] {
        &[RUN_PROGRAM, DESCRIBE]
    }

    /// Returns false: a function of a program without the toolset may have this name.
    fn reserves_everywhere(&self) -> bool {
        false
    }

    fn risk(&self, tool: &str) -> Option<Risk> {
        Some(if tool == DESCRIBE { Risk::Read } else { Risk::Exec })
    }

    fn input(&self, tool: &str) -> Option<Schema> {
        match tool {
            RUN_PROGRAM => Some(input(&[])),
            DESCRIBE => Some(described()),
            _ => None,
        }
    }

    fn problems(&self, _worker: &WorkerDefinition, configuration: &Value) -> Vec<ConfigurationProblem> {
        let mut problems = Vec::new();
        for (at, pattern) in patterns(configuration).enumerate() {
            if let Err(error) = Pattern::parse(pattern) {
                problems.push(ConfigurationProblem {
                    pointer: format!("/calls/{at}"),
                    reason: error.to_string(),
                });
            }
        }
        if let Some(returns) = configuration.get("returns")
            && let Err(error) = Schema::new(returns.clone())
        {
            problems.push(ConfigurationProblem {
                pointer: "/returns".to_owned(),
                reason: format!("it is not a JSON Schema: {error}"),
            });
        }
        problems
    }

    fn configuration(&self) -> Schema {
        Schema::of_keys(json!({
            "language": {
                "anyOf": [
                    {"enum": ["python", "typescript"]},
                    {"type": "array", "items": {"enum": ["python", "typescript"]}, "minItems": 1, "uniqueItems": true},
                ],
            },
            "calls": {"type": "array", "items": {"type": "string"}, "minItems": 1},
            "max_calls": {"type": "integer", "minimum": 1, "maximum": 10000},
            "timeout": {"type": "number", "exclusiveMinimum": 0},
            "pre_approved": {"const": "callees"},
            "returns": {"type": "object"},
        }))
    }
}

impl ToolsetRuntime for Programs {
    fn build<'a>(
        &'a self,
        configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        Box::pin(async move {
            let python = self.python.as_ref().ok_or("this host does not run programs")?;
            let calls = patterns(configuration).map(Pattern::parse).collect::<Result<Vec<_>, _>>();
            let calls = calls.map_err(|error| error.to_string())?;
            let settings = Settings {
                dialects: dialects(configuration),
                calls: configuration.get("calls").map(|_| calls),
                max_calls: configuration.get("max_calls").and_then(Value::as_u64).unwrap_or(MOST_CALLS),
                pre_approved: configuration.get("pre_approved").is_some(),
            };
            let output = match configuration.get("returns") {
                Some(schema) => {
                    let schema =
                        Schema::new(schema.clone()).map_err(|error| format!("`returns`: {error}"))?;
                    Some(OutputSchema::Declared(Arc::new(schema)))
                }
                None => None,
            };
            let settings = Arc::new(settings);
            let timeout = configuration.get("timeout").and_then(Value::as_f64);
            let meta = FunctionMeta {
                source: FunctionSource::Toolset(NAME.into()),
                name: RUN_PROGRAM.into(),
                tool_name: RUN_PROGRAM.into(),
                aliases: &[],
                description: settings.dialects[0].description.into(),
                input: Arc::new(input(&settings.dialects)),
                output,
                risk: Risk::Exec,
                concurrency: Concurrency::ByRisk,
                timeout: timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
                // Its process sees no files and no network, and each of its calls passes the gate.
                contained: true,
                results: ResultOrigin::Trusted,
                wildcard: false,
                policy: context.policy.clone(),
            };
            let describe = FunctionMeta {
                name: DESCRIBE.into(),
                tool_name: DESCRIBE.into(),
                description: "Returns the types of functions that a program may call.".into(),
                input: Arc::new(described()),
                output: None,
                risk: Risk::Read,
                timeout: None,
                ..meta.clone()
            };
            let run = RunProgram::new(Arc::clone(python), Arc::clone(&settings), meta.clone(), context.run);
            run.warm();
            let function = |meta, body| Function { meta, body: Implementation::Composite(body), rule: None };
            Ok(vec![
                function(meta, Arc::new(run)),
                function(describe, Arc::new(DescribeFunctions { settings })),
            ])
        })
    }
}

/// Returns the patterns of the functions that programs may call.
fn patterns(configuration: &Value) -> impl Iterator<Item = &str> {
    configuration.get("calls").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the languages of programs, the default first.
fn dialects(configuration: &Value) -> Vec<&'static Dialect> {
    let named: Vec<&str> = match configuration.get("language") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(name)) => vec![name],
        _ => Vec::new(),
    };
    let dialects: Vec<_> = named.into_iter().filter_map(Dialect::named).collect();
    if dialects.is_empty() { vec![Dialect::of(Language::Python)] } else { dialects }
}

fn described() -> Schema {
    Schema::built_in(json!({
        "type": "object",
        "properties": {
            "names": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": "The functions."},
        },
        "required": ["names"],
        "additionalProperties": false,
    }))
}

/// Returns the schema of a call. It names a language where there are several.
fn input(dialects: &[&Dialect]) -> Schema {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "code": {"type": "string", "maxLength": LONGEST, "description": "The program. It defines `main(input, ctx)`."},
            "input": {"description": "The value that `main` gets as `input`. JSON."},
            "why": {"type": "string", "description": "What the program does, in one sentence, for the user who approves it."},
        },
        "required": ["code", "why"],
        "additionalProperties": false,
    });
    if let [first, _, ..] = dialects {
        let names: Vec<&str> = dialects.iter().map(|dialect| dialect.name).collect();
        schema["properties"]["language"] =
            json!({"enum": names, "default": first.name, "description": "The language of the program."});
    }
    Schema::built_in(schema)
}
