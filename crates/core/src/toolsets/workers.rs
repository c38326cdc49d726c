//! Delegation: each allowed worker is a tool with its own signature (`docs/reference/worker-files.md`).

mod generated;

use crate::{
    call_spec::{CallSpec, Callee},
    definition::{ATTACHMENTS, INSTRUCTIONS, WorkerDefinition},
    function::{
        Composite, CompositeCall, Concurrency, Effects, Function, FunctionMeta, Implementation, MainArgument,
    },
    gate::Policy,
    journal::{RecordKind, UsedDefinition},
    outcome::{End, Failure, FailureKind, Halt, Outcome},
    risk::Risk,
    schema::Schema,
    send::BoxFuture,
    source::{FunctionId, FunctionSource},
    step_name::StepName,
    toolset::{ToolsetContext, ToolsetKind, ToolsetRegistry, ToolsetRuntime},
    worker::{self, caller},
};
use globset::GlobBuilder;
use serde_json::{Value, json};
use std::sync::Arc;

/// The toolset kind `workers`.
pub struct Workers;

/// The tools that offer delegation.
#[derive(Clone, Copy, PartialEq)]
enum Style {
    Tools,
    WorkerCall,
    Both,
}

impl ToolsetKind for Workers {
    fn name(&self) -> &'static str {
        "workers"
    }
    fn aliases(&self) -> &'static [&'static str] {
        &["delegation"]
    }
    fn old_keys(&self) -> &'static [(&'static str, &'static str)] {
        &[("allow_workers", "allowed_workers")]
    }
    fn tools_are_known(&self) -> bool {
        true
    }
    fn rule_names(&self) -> &'static [&'static str] {
        &["worker_call", "worker.call", "worker_create"]
    }
    fn has_main_argument(&self, _tool: &str) -> bool {
        true
    }
    fn risk(&self, tool: &str) -> Option<Risk> {
        Some(if tool == "worker_create" { Risk::Exec } else { Risk::Delegate })
    }
    fn implied_by(&self, worker: &WorkerDefinition) -> bool {
        !worker.allow_workers.is_empty()
    }
    fn delegates(&self) -> bool {
        true
    }
    fn may_ask(&self, worker: &WorkerDefinition, configuration: &Value, _: Option<&[String]>) -> bool {
        let dynamic = configuration.get("dynamic").and_then(Value::as_bool).unwrap_or(false);
        dynamic || worker.allow_workers.iter().any(|name| is_glob(name))
    }
    fn generated(
        &self,
        kinds: &ToolsetRegistry,
        run: &str,
        creator: &WorkerDefinition,
        name: &str,
        arguments: &Value,
    ) -> Result<Arc<WorkerDefinition>, String> {
        generated::definition(kinds, run, creator, arguments, name)
    }
    fn configuration(&self) -> Schema {
        Schema::of_keys(json!({
            "allowed_workers": {"type": "array", "items": {"anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "with": {"type": "object"}},
                    "required": ["name", "with"],
                    "additionalProperties": false,
                },
            ]}},
            "style": {"enum": ["tools", "worker_call", "both"]},
            "dynamic": {"type": "boolean"},
        }))
    }
}

impl ToolsetRuntime for Workers {
    fn build<'a>(
        &'a self,
        configuration: &'a Value,
        context: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        Box::pin(async { functions(configuration, context) })
    }
}

fn functions(configuration: &Value, context: &ToolsetContext<'_>) -> Result<Vec<Function>, String> {
    let style = match configuration.get("style").and_then(Value::as_str) {
        Some("worker_call") => Style::WorkerCall,
        Some("both") => Style::Both,
        _ => Style::Tools,
    };
    let (globs, exact): (Vec<&String>, Vec<&String>) =
        context.worker.allow_workers.iter().partition(|name| is_glob(name));
    let mut functions = Vec::new();
    if style != Style::WorkerCall {
        for &reference in &exact {
            let callee =
                context.definitions.worker(context.worker, reference).map_err(|error| error.to_string())?;
            let name = reference.trim_start_matches("./");
            let fixed = context.worker.fixed_for(&**context.definitions, &callee);
            functions.push(worker::fixing(&callee, name, false, context.policy.clone(), fixed));
        }
    }
    let dynamic = configuration.get("dynamic").and_then(Value::as_bool).unwrap_or(false);
    if style != Style::Tools || !globs.is_empty() || dynamic {
        // A delegation that only a wildcard allows is asked about. A generated worker was asked about at its
        // creation.
        let wildcard = exact.is_empty() && !globs.is_empty();
        functions.push(worker_call(context, &globs, wildcard, dynamic));
    }
    if dynamic {
        functions.push(generated::worker_create(context));
    }
    Ok(functions)
}

fn is_glob(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// Returns true if only a wildcard of the allowlist names the worker, false if an entry names it literally, and `None`
/// if the allowlist does not name it.
fn allowed(allow_workers: &[String], reference: &str) -> Option<bool> {
    if allow_workers.iter().any(|name| !is_glob(name) && name == reference) {
        return Some(false);
    }
    let matches = |glob: &String| {
        GlobBuilder::new(glob)
            .literal_separator(false)
            .build()
            .is_ok_and(|glob| glob.compile_matcher().is_match(reference))
    };
    allow_workers.iter().any(|name| is_glob(name) && matches(name)).then_some(true)
}

/// Maximum number of names in a description.
const LISTED: usize = 40;

fn worker_call(context: &ToolsetContext<'_>, globs: &[&String], wildcard: bool, dynamic: bool) -> Function {
    let mut names: Vec<String> =
        context.worker.allow_workers.iter().filter(|name| !is_glob(name)).cloned().collect();
    for glob in globs {
        names.extend(context.definitions.matching(context.worker, glob));
    }
    names.sort();
    names.dedup();
    names.retain(|name| **name != *context.worker.id);
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let mut listed = names.join(", ");
    if more > 0 {
        listed.push_str(&format!(", and {more} more"));
    }
    if dynamic {
        let and = if listed.is_empty() { "" } else { "; and " };
        listed.push_str(&format!("{and}those that you made with worker_create"));
    }
    Function {
        meta: FunctionMeta {
            source: FunctionSource::Toolset(Workers.name().into()),
            name: "worker_call".into(),
            tool_name: "worker_call".into(),
            aliases: &["worker.call"],
            description: format!("Calls another worker and returns its output. Workers: {listed}.").into(),
            input: Arc::new(Schema::built_in(json!({
                "type": "object",
                "properties": {
                    "worker": {"type": "string", "description": "Which worker."},
                    "input_data": {"description": "Its input: text, or an object with its parameters."},
                    INSTRUCTIONS: {"type": "string", "description": "Instructions beyond its own."},
                    ATTACHMENTS: {
                        "type": "array", "items": {"type": "string"},
                        "description": "Paths of files to give it.",
                    },
                },
                "required": ["worker"],
                "additionalProperties": false,
            }))),
            output: None,
            risk: Risk::Delegate,
            concurrency: Concurrency::Parallel,
            timeout: None,
            contained: false,
            results: crate::origin::ResultOrigin::Trusted,
            wildcard,
            policy: context.policy.clone(),
        },
        body: Implementation::Composite(Arc::new(WorkerCall {
            policy: context.policy.clone(),
            only_generated: context.worker.allow_workers.is_empty(),
        })),
        rule: None,
    }
}

fn worker_call_id() -> FunctionId {
    FunctionId { source: FunctionSource::Toolset(Workers.name().into()), name: "worker_call".into() }
}

/// Forwards a call to the worker that it names. The gate judges that call by all rules that apply to this one.
struct WorkerCall {
    policy: Option<Arc<Policy>>,
    /// True if the worker may only call workers that it makes.
    only_generated: bool,
}

impl Composite for WorkerCall {
    fn effects(&self, input: &Value) -> Effects {
        let worker = input.get("worker").and_then(Value::as_str).unwrap_or_default();
        Effects { main: MainArgument::Texts(vec![worker.to_owned()]), ..Effects::default() }
    }

    /// The effects of a call that makes a worker, since a worker must be made before it can be called. If that can't
    /// pass the gate, neither call is of use.
    fn least(&self) -> Option<Effects> {
        self.only_generated.then(generated::always_asks)
    }

    fn knows_origins(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(async move {
            let reference = call.input.get("worker").and_then(Value::as_str).unwrap_or_default();
            let Some(caller) = call.frame.worker() else {
                return refuse("worker_call works only for workers".to_owned());
            };
            let host = call.engine.host();
            let (callee, wildcard) = match caller::generated(call.engine, call.frame, reference).await {
                Some(callee) => (callee, false),
                None => {
                    let Some(wildcard) = allowed(&caller.allow_workers, reference) else {
                        let mut names = caller.allow_workers.clone();
                        if let Some(path) = call.frame.path() {
                            let made = host.driver.shared().generated(path).await;
                            names.extend(made.into_iter().map(|(name, _)| name.to_string()));
                        }
                        let list = names.join(", ");
                        return refuse(format!(
                            "`{reference}` is not among the workers you may call: {list}."
                        ));
                    };
                    match host.definitions.worker(caller, reference) {
                        Ok(callee) => (callee, wildcard),
                        Err(error) => return refuse(error.to_string()),
                    }
                }
            };
            host.driver.record(
                call.path,
                StepName::Definition,
                RecordKind::Definition(UsedDefinition::of(&callee)),
            )?;
            let input = match callee_input(&callee, call.input) {
                Ok(input) => input,
                Err(message) => return refuse(message),
            };
            let (definitions, policy) = (&*host.definitions, self.policy.clone());
            let function = worker::called_by(call.frame, definitions, &callee, reference, wildcard, policy);
            let callee = Callee::Delegate { reference: reference.into(), by: worker_call_id(), wildcard };
            let spec = CallSpec { path: call.path.keyed("worker"), callee, input: Arc::new(input) };
            caller::call(call.engine, call.frame, spec, Some(&function)).await
        })
    }
}

/// The error for a model that names an unknown worker.
fn refuse(message: String) -> Result<Outcome, Halt> {
    Ok(Outcome::free(End::Failed(Failure::new(FailureKind::Definition, message))))
}

/// Extracts the callee's own arguments from those of `worker_call`.
fn callee_input(callee: &worker::WorkerDefinition, input: &Value) -> Result<Value, String> {
    let mut arguments = callee
        .signature
        .arguments(input.get("input_data"))
        .map_err(|error| format!("`{}`: {error}.", callee.id))?;
    for key in [INSTRUCTIONS, ATTACHMENTS] {
        if let Some(value) = input.get(key) {
            arguments.insert(key.to_owned(), value.clone());
        }
    }
    Ok(Value::Object(arguments))
}
