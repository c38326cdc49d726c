//! Workers that a worker makes during the run (SPEC §8.3): `worker_create`.
//!
//! A generated worker never holds more than its creator. It sees what that sees, its tools are some of its creator's as
//! these are configured, it calls no workers, its rules only tighten, and nobody but the call that made it can call it.

use super::refuse;
use crate::{
    driver::{CutOff, Step, StepEnd},
    engine::{End, Halt, Outcome},
    function::{
        Composite, CompositeCall, Effects, Function, FunctionMeta, FunctionSource, Implementation, Risk,
    },
    gate::{Rule, Subject},
    journal::{RecordKind, UsedDefinition},
    schema::{Schema, sha256},
    send::BoxFuture,
    template::NoTemplates,
    toolset::ToolsetContext,
    worker::{CODE, Instructions, Sandbox, Signature, WorkerDefinition},
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Most characters of generated instructions.
const LONGEST: usize = 100_000;

/// The tool that makes workers.
pub(super) fn worker_create(context: &ToolsetContext<'_>) -> Function {
    let toolsets = toolsets(context.worker);
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
            source: FunctionSource::Toolset("workers".into()),
            name: "worker_create".into(),
            tool_name: "worker_create".into(),
            aliases: &[],
            description: "Makes a worker that you can call with worker_call until you are done. It may do at most what you may do.".into(),
            input: Arc::new(Schema::built_in(input)),
            output: None,
            risk: Risk::Exec,
            parallel: false,
            timeout: None,
            contained: false,
            wildcard: false,
            policy: context.policy.clone(),
        },
        body: Implementation::Composite(Arc::new(WorkerCreate)),
        rule: None,
    }
}

/// The toolsets that a worker can hand on: its own, but for delegation.
fn toolsets(creator: &WorkerDefinition) -> Vec<&str> {
    let mut names: Vec<&str> = creator.toolsets.iter().map(|(name, _)| &**name).collect();
    if !creator.tools.is_empty() && !names.contains(&CODE) {
        names.push(CODE);
    }
    names.retain(|name| *name != "workers");
    names
}

struct WorkerCreate;

impl Composite for WorkerCreate {
    fn effects(&self, input: &Value) -> Effects {
        let name = input.get("name").and_then(Value::as_str).unwrap_or_default();
        Effects {
            subjects: vec![Subject::Text(name.to_owned())],
            // Nobody has read its instructions yet, whatever rules say of this tool.
            rules: vec![(Rule::Ask, "a new worker is always asked about".to_owned())],
            ..Effects::default()
        }
    }

    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(async move {
            let host = call.engine.host();
            let Some(creator) = call.frame.worker() else {
                return refuse("worker_create works only for workers".to_owned());
            };
            let name = call.input.get("name").and_then(Value::as_str).unwrap_or_default();
            if call.frame.generated(name).is_some() || host.definitions.worker(creator, name).is_ok() {
                return refuse(format!("there is a worker `{name}` already; choose another name"));
            }
            let below = format!("generated/{}/{name}.worker", host.run);
            let worker = match definition(creator, call.input, name, &below) {
                Ok(worker) => worker,
                Err(reason) => return refuse(reason),
            };
            let text = host.redact.text(&worker.text).into_owned();
            host.driver.record(
                call.path,
                "definition".into(),
                RecordKind::Definition(UsedDefinition {
                    worker: Arc::clone(&worker.id),
                    file: Arc::clone(&worker.instructions.file),
                    sha256: sha256(text.as_bytes()),
                    text: text.as_str().into(),
                }),
            )?;
            let step = Step {
                path: call.path,
                name: "kept".into(),
                intent: None,
                deadline: None,
                cut_off: CutOff::Unknown,
                run: Box::pin(async {
                    // The journal has it too: that it can't be kept elsewhere is no reason to fail.
                    let text = match host.files.keep(&below, &text).await {
                        Ok(Some(place)) => format!("kept as {place}"),
                        Ok(None) => "kept in the journal only".to_owned(),
                        Err(reason) => format!("kept in the journal only: {reason}"),
                    };
                    RecordKind::Note { text: text.into() }
                }),
            };
            match host.driver.step(step).await?.end {
                StepEnd::Done(RecordKind::Note { .. }) | StepEnd::TimedOut => {}
                StepEnd::Done(other) => return Err(Halt::unexpected(call.path, "kept", &other)),
            }
            call.frame.generate(worker);
            let output = json!({"worker": name, "call": "worker_call"});
            Ok(Outcome::free(End::Done(Arc::new(output))))
        })
    }
}

/// The definition of a worker out of the arguments, or what is wrong with them, for the model.
fn definition(
    creator: &WorkerDefinition,
    input: &Value,
    name: &str,
    file: &str,
) -> Result<Arc<WorkerDefinition>, String> {
    let text = |key: &str| input.get(key).and_then(Value::as_str);
    let instructions = text("instructions").unwrap_or_default();
    let returns = input.get("returns").map(|schema| Schema::new(schema.clone())).transpose();
    let returns = returns.map_err(|error| format!("`returns` is no usable JSON Schema: {error}"))?;
    let wanted = input.get("toolsets").and_then(Value::as_array).into_iter().flatten();
    let wanted: Vec<&str> = wanted.filter_map(Value::as_str).collect();
    let has = |toolset: &str| wanted.contains(&toolset);
    let mut toolsets: Vec<(Arc<str>, Arc<Value>)> =
        creator.toolsets.iter().filter(|(name, _)| has(name) && **name != *"workers").cloned().collect();
    if has(CODE) && !toolsets.iter().any(|(name, _)| **name == *CODE) {
        toolsets.push((CODE.into(), Arc::new(json!({}))));
    }
    let front = front_matter(name, text("description"), &toolsets, returns.as_ref());
    let lines = front.lines().count();
    Ok(Arc::new(WorkerDefinition {
        id: name.into(),
        source: FunctionSource::Generated,
        description: text("description").map(Into::into),
        instructions: Instructions {
            text: instructions.into(),
            file: file.into(),
            line_offset: u32::try_from(lines).unwrap_or(u32::MAX),
            // Its author is a model: no file of the program is read by what it writes.
            templates: Arc::new(NoTemplates),
        },
        model: creator.model.clone(),
        compatible_models: creator.compatible_models.clone(),
        settings: creator.settings.clone(),
        locked: creator.locked,
        signature: Signature::undeclared(creator.attachments.max_attachments > 0),
        returns: returns.map(Arc::new),
        ensures: Arc::new([]),
        returned_paths: Vec::new(),
        toolsets,
        tools: if has(CODE) { Arc::clone(&creator.tools) } else { Arc::new([]) },
        code: None,
        allow_workers: Vec::new(),
        rules: Arc::clone(&creator.rules),
        overrides: creator.overrides.clone(),
        sandbox: Sandbox::default(),
        attachments: creator.attachments.clone(),
        allow_empty_input: true,
        limits: creator.limits.clone(),
        text: format!("{front}{instructions}").into(),
    }))
}

/// The front matter of a worker file that says the same. JSON is YAML.
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
