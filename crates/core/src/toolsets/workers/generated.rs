//! Workers that a worker generates during the run (`docs/reference/worker-files.md`): `worker_create`.
//!
//! A generated worker never has more authority than its creator. It has its creator's view; its tools are a subset of
//! its creator's tools with the same configuration; it calls no workers; its rules only tighten; and only the call
//! that created it can call it.

use super::refuse;
use crate::{
    definition::{Instructions, Sandbox, Signature, Untrusted, WorkerDefinition, WorkerMode},
    driver::{CutOff, Step, StepEnd},
    function::{
        Composite, CompositeCall, Concurrency, Effects, Function, FunctionMeta, Implementation, MainArgument,
    },
    journal::{RecordKind, UsedDefinition},
    outcome::{End, Halt, Outcome},
    risk::Risk,
    rule::{DecidedBy, Rule},
    schema::{Schema, canonical, sha256},
    send::BoxFuture,
    source::FunctionSource,
    step_name::StepName,
    template::NoTemplates,
    toolset::{ToolsetContext, ToolsetKind, ToolsetRegistry},
    worker::caller,
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, sync::Arc};

/// Maximum characters of generated instructions.
const LONGEST: usize = 100_000;

/// The tool that generates workers.
pub(super) fn worker_create(context: &ToolsetContext<'_>) -> Function {
    let inheritable = inheritable(context.kinds, context.worker);
    let creator = &context.worker.id;
    let identity = sha256(canonical(&json!([creator, inheritable])).as_bytes()).into();
    let toolsets: Vec<&str> = inheritable.iter().map(|(name, _)| &**name).collect();
    let mut properties = json!({
        "name": {
            "type": "string", "pattern": "^[a-z][a-z0-9_-]{0,63}$",
            "description": "Its name, for worker_call: lower case letters, digits, `-` and `_`.",
        },
        "instructions": {
            "type": "string", "minLength": 1, "maxLength": LONGEST,
            "description": "Its instructions. `{{ input }}` stands for what it is called with.",
        },
        "description": {"type": "string", "description": "What it does, in a sentence."},
        "returns": {"type": "object", "description": "JSON Schema of its answer, if that is not text."},
    });
    if !toolsets.is_empty() {
        properties["toolsets"] = json!({
            "type": "array", "items": {"enum": toolsets}, "uniqueItems": true,
            "description": "Which of your own toolsets it gets; none if left out.",
        });
    }
    let input = json!({
        "type": "object",
        "properties": properties,
        "required": ["name", "instructions"],
        "additionalProperties": false,
    });
    Function {
        meta: FunctionMeta {
            source: FunctionSource::Toolset(super::Workers.name().into()),
            name: "worker_create".into(),
            tool_name: "worker_create".into(),
            aliases: &[],
            description: "Makes a worker that you can call with worker_call until you are done. It may do at most what you may do.".into(),
            input: Arc::new(Schema::built_in(input)),
            output: None,
            risk: Risk::Exec,
            concurrency: Concurrency::ByRisk,
            timeout: None,
            contained: false,
            results: crate::origin::ResultOrigin::Trusted,
            wildcard: false,
            policy: context.policy.clone(),
        },
        body: Implementation::Composite(Arc::new(WorkerCreate { identity })),
        rule: None,
    }
}

/// The toolsets that a worker can pass on, with their configurations.
fn inheritable(kinds: &ToolsetRegistry, creator: &WorkerDefinition) -> Vec<(Arc<str>, Arc<Value>)> {
    let mut toolsets = kinds.of(creator);
    toolsets.retain(|(name, _)| kinds.get(name).is_none_or(|kind| kind.inheritable()));
    toolsets
}

struct WorkerCreate {
    /// Hash of everything that its workers may get: the creator, and its toolsets with their configurations.
    identity: Arc<str>,
}

/// The effects of a call of this tool, which always asks: the instructions of a new worker have not been reviewed yet,
/// so no rule for this tool avoids the question.
pub(super) fn always_asks() -> Effects {
    let why = DecidedBy::Toolset { why: "a new worker is always asked about".into() };
    Effects { rules: vec![(Rule::Ask, why)], ..Effects::default() }
}

impl Composite for WorkerCreate {
    fn effects(&self, input: &Value) -> Effects {
        let name = input.get("name").and_then(Value::as_str).unwrap_or_default();
        Effects { main: MainArgument::Texts(vec![name.to_owned()]), ..always_asks() }
    }

    fn least(&self) -> Option<Effects> {
        Some(always_asks())
    }

    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(async { Some(Arc::clone(&self.identity)) })
    }

    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(async move {
            let host = call.engine.host();
            let Some(creator) = call.frame.worker() else {
                return refuse("worker_create works only for workers".to_owned());
            };
            let name = call.input.get("name").and_then(Value::as_str).unwrap_or_default();
            if caller::delegate(call.engine, call.frame, name).await.is_ok() {
                return refuse(format!("there is a worker `{name}` already; choose another name"));
            }
            let worker = match definition(&host.toolsets, &host.run, creator, call.input, name) {
                Ok(worker) => worker,
                Err(reason) => return refuse(reason),
            };
            let text = host.redact.text(&worker.text).into_owned();
            host.driver.record(
                call.path,
                StepName::Definition,
                RecordKind::Definition(UsedDefinition {
                    sha256: sha256(text.as_bytes()),
                    text: text.as_str().into(),
                    ..UsedDefinition::of(&worker)
                }),
            )?;
            let step = Step {
                path: call.path,
                name: StepName::Kept,
                intent: None,
                deadline: None,
                cut_off: CutOff::Again,
                run: Box::pin(async {
                    // The journal has it too, so a failure to save it elsewhere is not an error.
                    let text = match host.files.keep(&worker.instructions.file, &text).await {
                        Ok(Some(place)) => format!("kept as {place}"),
                        Ok(None) => "kept in the journal only".to_owned(),
                        Err(reason) => format!("kept in the journal only: {reason}"),
                    };
                    RecordKind::Note { text: text.into() }
                }),
            };
            match host.driver.step(step).await?.end {
                StepEnd::Done(RecordKind::Note { .. }) | StepEnd::TimedOut => {}
                StepEnd::Done(other) => return Err(Halt::unexpected(call.path, &StepName::Kept, &other)),
            }
            if let Some(path) = call.frame.path() {
                host.driver.shared().generate(path, name.into(), Arc::clone(call.input)).await;
            }
            let output = json!({"worker": name, "call": "worker_call"});
            Ok(Outcome::free(End::Done(Arc::new(output))))
        })
    }
}

/// Builds the definition of a worker from the arguments, or returns the problem for the model.
pub(super) fn definition(
    kinds: &ToolsetRegistry,
    run: &str,
    creator: &WorkerDefinition,
    input: &Value,
    name: &str,
) -> Result<Arc<WorkerDefinition>, String> {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let instructions = text("instructions").unwrap_or_default();
    let returns = input.get("returns").map(|schema| Schema::new(schema.clone())).transpose();
    let returns = returns.map_err(|error| format!("`returns` is not a usable JSON Schema: {error}"))?;
    let wanted = input.get("toolsets").and_then(Value::as_array).into_iter().flatten();
    let wanted: Vec<&str> = wanted.filter_map(Value::as_str).collect();
    let mut toolsets = inheritable(kinds, creator);
    toolsets.retain(|(name, _)| wanted.contains(&&**name));
    let runs_code = toolsets.iter().any(|(name, _)| kinds.get(name).is_some_and(|kind| kind.runs_code()));
    let front = front_matter(name, text("description"), &toolsets, returns.as_ref());
    let lines = front.lines().count();
    Ok(Arc::new(WorkerDefinition {
        id: name.into(),
        source: FunctionSource::Generated,
        root: creator.root.clone(),
        description: text("description").map(Into::into),
        instructions: Instructions {
            text: instructions.into(),
            file: format!("generated/{run}/{name}.worker").into(),
            line_offset: u32::try_from(lines).unwrap_or(u32::MAX),
            // Its author is a model, so its text may not read files of the program.
            templates: Arc::new(NoTemplates),
        },
        models: creator.models.clone(),
        compatible_models: creator.compatible_models.clone(),
        settings: creator.settings.clone(),
        inherited: creator.inherited.clone(),
        mode: WorkerMode::Single,
        interactive: false,
        locked: creator.locked,
        signature: Signature::undeclared(creator.attachments.max_attachments > 0),
        returns: returns.map(Arc::new),
        ensures: Arc::new([]),
        returned_paths: Vec::new(),
        toolsets,
        pins: Arc::clone(&creator.pins),
        server_tools: Arc::new([]),
        tools: if runs_code { Arc::clone(&creator.tools) } else { Arc::new([]) },
        code: None,
        code_sha256: creator.code_sha256.clone().filter(|_| runs_code),
        allow_workers: Vec::new(),
        fixed: BTreeMap::new(),
        rules: Arc::clone(&creator.rules),
        overrides: creator.overrides.clone(),
        sandbox: Sandbox::default(),
        attachments: creator.attachments.clone(),
        untrusted: Untrusted { attachments: creator.untrusted.attachments, ..Untrusted::default() },
        allow_empty_input: true,
        limits: creator.limits.clone(),
        text: format!("{front}{instructions}").into(),
    }))
}

/// The front matter of an equivalent worker file. JSON is valid YAML.
fn front_matter(
    name: &str,
    description: Option<&str>,
    toolsets: &[(Arc<str>, Arc<Value>)],
    returns: Option<&Schema>,
) -> String {
    let toolsets: Map<String, Value> =
        toolsets.iter().map(|(name, own)| (name.to_string(), (**own).clone())).collect();
    let mut front = format!("---\nname: {name}\n");
    if let Some(description) = description {
        front.push_str(&format!("description: {}\n", Value::from(description)));
    }
    if !toolsets.is_empty() {
        front.push_str(&format!("toolsets: {}\n", Value::Object(toolsets)));
    }
    if let Some(schema) = returns {
        front.push_str(&format!("returns: {}\n", schema.value()));
    }
    front.push_str("---\n");
    front
}
