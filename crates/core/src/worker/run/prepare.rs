//! What happens before a worker's first turn: its authority, its tools, its instructions, its first message.

use super::{
    Handed, attachments,
    ensures::{self, Judging},
    is_foreign,
};
use crate::{
    authority::{Access, Approvals, Authority, Located, Mount, VirtualPath},
    conversation::{Conversation, Ensures, FINAL_TOOL, OutputContract, Setup},
    driver::{CutOff, Step, StepEnd},
    engine::{End, Engine, Failure, FailureKind, Frame, Halt},
    function::{CompositeCall, Function},
    journal::RecordKind,
    ledger::estimate_text,
    model::{Blob, Capabilities, Message, Model, ModelName, ModelSettings, Part, Terms, ToolSpec},
    price::Usd,
    template::{self, Origin},
    toolset::{Configuration, ToolsetContext},
    worker::{ATTACHMENTS, CODE, INSTRUCTIONS, WorkerDefinition, attachments_root},
};
use serde_json::{Map, Value, json};
use std::{borrow::Cow, sync::Arc};

/// A worker ready for its first turn.
pub(super) struct Prepared {
    pub(super) frame: Frame,
    pub(super) functions: Vec<Function>,
    /// The tools of `ensures`, in order.
    pub(super) judges: Vec<Judging>,
    pub(super) tools: Arc<[ToolSpec]>,
    pub(super) setup: Setup,
    pub(super) system: Arc<str>,
    pub(super) first: Arc<Message>,
    pub(super) model: Arc<dyn Model>,
    pub(super) model_name: ModelName,
    pub(super) settings: ModelSettings,
    pub(super) native_output: Option<Arc<Value>>,
    pub(super) can_read_on: bool,
    pub(super) terms: Terms,
    handed: Vec<Handed>,
    returned_paths: Vec<String>,
}

/// The inner `Err` is what the caller is told.
pub(super) async fn prepare(
    worker: &Arc<WorkerDefinition>,
    call: &CompositeCall<'_>,
) -> Result<Result<Box<Prepared>, Failure>, Halt> {
    let host = call.engine.host();
    let model_name = match host.model.of(worker) {
        Ok(name) => name,
        Err(failure) => return Ok(Err(failure)),
    };
    let model = match host.models.open(&model_name) {
        Ok(model) => model,
        Err(error) => return Ok(Err(Failure::new(FailureKind::Model, error.message))),
    };
    let can = model.capabilities();
    let settings = settings(worker, host);
    if let Some(refused) = model.refused_settings(&settings).first() {
        return Ok(Err(Failure::new(FailureKind::Definition, format!("`{}`: {refused}", worker.id))));
    }
    let (handed, attached) = hand_over(worker, call);
    let authority = match narrow(worker, call, &handed, &attached) {
        Ok(authority) => authority,
        Err(failure) => return Ok(Err(failure)),
    };
    let frame = call.frame.enter(worker, authority, call.path, &*host.driver);
    let terms = host.models.terms(&model_name);
    if let Some((whose, limit)) = frame.ledger().and_then(|account| account.cost_limit())
        && terms.price.is_none()
    {
        return Ok(Err(without_price(worker, &model_name, &whose, limit)));
    }
    let functions = match tools(call.engine, worker, &frame).await? {
        Ok(functions) => functions,
        Err(reason) => return Ok(Err(Failure::new(FailureKind::Definition, reason))),
    };
    frame.offer(&functions);
    let functions = match offered(call.engine, worker, &frame, functions) {
        Ok(functions) => functions,
        Err(reason) => return Ok(Err(Failure::new(FailureKind::Definition, reason))),
    };
    let output = OutputContract::new(worker.returns.clone(), !can.native_schema && can.tools);
    let native_output =
        worker.returns.as_ref().filter(|_| can.native_schema).map(|schema| Arc::clone(schema.value()));
    let can_read_on = functions.iter().any(|f| &*f.meta.tool_name == "read_file");

    let input = Input::new(worker, call.input, &handed);
    let stepped = host
        .driver
        .step(Step {
            path: call.path,
            name: "conversation".into(),
            intent: None,
            deadline: frame.remaining(host.driver.now_ms()),
            cut_off: CutOff::Unknown,
            run: Box::pin(async {
                match begin(worker, call, &input, &attached, can).await {
                    Err(failure) => RecordKind::CallEnded {
                        ending: End::Failed(failure).to_ending(),
                        usage: Default::default(),
                        blobs: Vec::new(),
                    },
                    Ok((mut system, parts)) => {
                        if worker.returns.is_some() && !can.native_schema && !output.uses_final_tool() {
                            system.push_str("\n\nAnswer with JSON that fits this schema, and nothing else: ");
                            system.push_str(
                                &worker.returns.iter().map(|s| s.value().to_string()).collect::<String>(),
                            );
                        }
                        RecordKind::ConversationStarted {
                            worker: Arc::clone(&worker.id),
                            model: model_name.clone(),
                            system: system.into(),
                            tools: specs(&functions, &output),
                            output: worker.returns.as_ref().map(|schema| Arc::clone(schema.value())),
                            final_tool: output.uses_final_tool(),
                            ensures: (!worker.ensures.is_empty()).then(|| Ensures {
                                input: Arc::new(input.whole.clone()),
                                all: Arc::clone(&worker.ensures),
                            }),
                            can_read_on,
                            sees: can.sees,
                            message: Conversation::first_message(parts),
                        }
                    }
                }
            }),
        })
        .await?;
    let (system, tools, ensures, first) = match stepped.end {
        StepEnd::Done(RecordKind::ConversationStarted { system, tools, ensures, message, .. }) => {
            (system, tools, ensures, message)
        }
        StepEnd::Done(RecordKind::CallEnded { ending: crate::journal::Ending::Failure(failure), .. }) => {
            return Ok(Err(failure));
        }
        StepEnd::Done(other) => return Err(Halt::unexpected(call.path, "conversation", &other)),
        StepEnd::TimedOut => {
            let message = format!("`{}` ran out of time before its first turn", worker.id);
            return Ok(Err(Failure::new(FailureKind::Timeout, message)));
        }
    };
    // What the record offers is what the model may call, in its order: on a resume too.
    let mut offered = Vec::with_capacity(tools.len());
    for spec in tools.iter().filter(|spec| &*spec.name != FINAL_TOOL) {
        let Some(function) = functions.iter().find(|f| f.meta.tool_name == spec.name) else {
            return Err(Halt::Diverged {
                path: call.path.clone(),
                step: "conversation".into(),
                reason: format!("the tool `{}` no longer exists", spec.name),
            });
        };
        offered.push(function.clone());
    }
    let judges = match ensures::judges(worker, &offered) {
        Ok(judges) => judges,
        Err(reason) => return Ok(Err(Failure::new(FailureKind::Definition, reason))),
    };
    let setup = Setup {
        worker: Arc::clone(&worker.id),
        limits: worker.limits.clone(),
        output: output.ensuring(ensures),
        sees: can.sees,
        tools: offered.iter().map(|f| Arc::clone(&f.meta.tool_name)).collect(),
    };
    Ok(Ok(Box::new(Prepared {
        frame,
        functions: offered,
        judges,
        tools,
        setup,
        system,
        first,
        model,
        model_name,
        settings,
        native_output,
        can_read_on,
        terms,
        handed,
        returned_paths: worker.returned_paths.clone(),
    })))
}

/// The cost is limited and can't be counted.
fn without_price(worker: &WorkerDefinition, model: &ModelName, whose: &str, limit: Usd) -> Failure {
    let message = format!(
        "`{}` can't ask `{model}`: {whose} may cost {limit}, and the price of this model is not known. Give it in \
         ~/.llm-do/config.yaml, in dollars for a million tokens: `prices: {{\"{model}\": {{input: 1.25, output: 10}}}}`",
        worker.id
    );
    Failure::new(FailureKind::Definition, message)
}

fn settings(worker: &WorkerDefinition, host: &crate::engine::RunContext) -> ModelSettings {
    let mut settings = worker.settings.clone();
    if !worker.locked {
        let over = &host.settings_override;
        settings.temperature = over.temperature.or(settings.temperature);
        settings.top_p = over.top_p.or(settings.top_p);
        settings.max_tokens = over.max_tokens.or(settings.max_tokens);
        settings.seed = over.seed.or(settings.seed);
        if !over.stop.is_empty() {
            settings.stop.clone_from(&over.stop);
        }
        settings.reasoning_effort = over.reasoning_effort.clone().or(settings.reasoning_effort);
    }
    settings
}

/// Pairs the places that the engine located with the parameters and attachments they stand for: the order is that of
/// the worker's effects.
pub(super) fn hand_over(worker: &WorkerDefinition, call: &CompositeCall<'_>) -> (Vec<Handed>, Vec<Located>) {
    let mut places = call.places.iter();
    let mut handed = Vec::new();
    for parameter in worker.signature.parameters.iter().filter(|p| p.path.is_some()) {
        if let Some(path) = call.input.get(&*parameter.name).and_then(Value::as_str)
            && let Some(place) = places.next()
        {
            handed.push(Handed {
                name: Arc::clone(&parameter.name),
                callers: path.to_owned(),
                place: place.clone(),
            });
        }
    }
    (handed, places.cloned().collect())
}

pub(super) fn narrow(
    worker: &WorkerDefinition,
    call: &CompositeCall<'_>,
    handed: &[Handed],
    attached: &[Located],
) -> Result<Authority, Failure> {
    let mut narrowing = worker.sandbox.narrowing.clone();
    narrowing.foreign |= is_foreign(&worker.source);
    for Handed { name, place, .. } in handed {
        let at = VirtualPath::root().join(name);
        // What the caller sees over a part of it comes along: its rules hold there under the new name too.
        for over in call.frame.authority().view().mounts() {
            if let Some(rest) = over.at.rest(&place.path).filter(|rest| !rest.is_empty()) {
                let access = over.access.min(place.access);
                narrowing.handed.push(Mount { at: at.join(rest), access, ..over.clone() });
            }
        }
        narrowing.handed.push(Mount {
            at,
            place: place.place(),
            access: place.access,
            ..place.mount.clone()
        });
    }
    let mut names: Vec<&str> = Vec::new();
    for place in attached {
        // Two attachments of one name: the first is mounted, both are shown to the model.
        let name = place.path.name();
        if !names.contains(&name) {
            names.push(name);
            narrowing.handed.push(Mount {
                approvals: Approvals::default(),
                ..Mount::new(attachments_root().join(name), place.place(), Access::Read)
            });
        }
    }
    call.frame
        .authority()
        .narrow(&worker.id, &narrowing)
        .map_err(|refusal| Failure::new(FailureKind::Authority, refusal.to_string()))
}

/// The functions of a worker's toolsets. The outer `Err` is the end of the run while they are made.
pub(super) async fn tools(
    engine: &Engine,
    worker: &Arc<WorkerDefinition>,
    frame: &Frame,
) -> Result<Result<Vec<Function>, String>, Halt> {
    let mut made = Ok(Vec::new());
    let work = async { made = make_tools(engine, worker, frame).await };
    engine.host().driver.unrecorded(Box::pin(work)).await?;
    Ok(made)
}

async fn make_tools(
    engine: &Engine,
    worker: &Arc<WorkerDefinition>,
    frame: &Frame,
) -> Result<Vec<Function>, String> {
    let host = engine.host();
    let mut configured: Vec<(Arc<str>, Arc<Value>)> = worker.toolsets.clone();
    if !worker.allow_workers.is_empty() && !configured.iter().any(|(name, _)| &**name == "workers") {
        configured.push(("workers".into(), Arc::new(json!({}))));
    }
    // Code that is there is offered without being asked for; a host that runs none offers none.
    let has_code = !worker.tools.is_empty() && host.toolsets.get(CODE).is_some();
    if has_code && !configured.iter().any(|(name, _)| &**name == CODE) {
        configured.push((CODE.into(), Arc::new(json!({}))));
    }
    let mut functions: Vec<Function> = Vec::new();
    for (name, configuration) in &configured {
        let kind = host.toolsets.get(name).ok_or_else(|| {
            let known: Vec<&str> = host.toolsets.names().collect();
            format!(
                "`{}` names the toolset `{name}`, which does not exist; there are: {}",
                worker.id,
                known.join(", ")
            )
        })?;
        let origin = format!("{}: toolsets.{name}.approval", worker.id);
        let configuration = Configuration::parse(configuration, &origin)
            .map_err(|reason| format!("toolset `{name}` of `{}`: {reason}", worker.id))?;
        let context = ToolsetContext {
            run: &host.run,
            worker,
            authority: frame.authority(),
            definitions: &host.definitions,
            policy: configuration.policy.clone(),
        };
        let made = kind
            .build(&configuration.own, &context)
            .await
            .map_err(|reason| format!("toolset `{name}` of `{}`: {reason}", worker.id))?;
        for wanted in configuration.tools.iter().flatten() {
            if !made.iter().any(|f| *f.meta.name == **wanted || *f.meta.tool_name == **wanted) {
                let known: Vec<&str> = made.iter().map(|f| &*f.meta.name).collect();
                return Err(format!(
                    "toolset `{name}` of `{}` has no tool `{wanted}`; there are: {}",
                    worker.id,
                    known.join(", ")
                ));
            }
        }
        functions.extend(made.into_iter().filter(|f| {
            configuration
                .tools
                .as_ref()
                .is_none_or(|names| names.iter().any(|n| **n == *f.meta.name || **n == *f.meta.tool_name))
        }));
    }
    Ok(functions)
}

/// Those that could pass the gate, which is what a model is shown; sorted by name so that the prompt's prefix never changes
/// (SPEC §10.2).
fn offered(
    engine: &Engine,
    worker: &WorkerDefinition,
    frame: &Frame,
    mut functions: Vec<Function>,
) -> Result<Vec<Function>, String> {
    functions.retain(|function| engine.could_pass(function, frame));
    functions.sort_by(|a, b| a.meta.tool_name.cmp(&b.meta.tool_name));
    for pair in functions.windows(2) {
        if pair[0].meta.tool_name == pair[1].meta.tool_name {
            return Err(format!(
                "`{}` has two functions that a model would see as `{}`: `{}` and `{}`",
                worker.id, pair[0].meta.tool_name, pair[0].meta.name, pair[1].meta.name
            ));
        }
    }
    Ok(functions)
}

fn specs(functions: &[Function], output: &OutputContract) -> Arc<[ToolSpec]> {
    let shown = functions.iter().map(|f| ToolSpec {
        name: Arc::clone(&f.meta.tool_name),
        description: Arc::clone(&f.meta.description),
        input: Arc::clone(f.meta.input.value()),
    });
    let last = output.final_tool_input().map(|input| ToolSpec {
        name: FINAL_TOOL.into(),
        description: "Gives the final result and ends the task. Call it alone, once, when you are done."
            .into(),
        input,
    });
    shown.chain(last).collect()
}

/// A call's input, taken apart: what templates and the first message are made of.
struct Input {
    /// The declared parameters, or whatever was given, by name.
    values: Map<String, Value>,
    /// `input` of templates.
    whole: Value,
    /// What the caller adds to the instructions.
    instructions: Option<String>,
    /// The plain message, if that is all there is.
    message: Option<String>,
}

impl Input {
    fn new(worker: &WorkerDefinition, input: &Value, handed: &[Handed]) -> Self {
        let mut values = input.as_object().cloned().unwrap_or_default();
        let instructions = match values.shift_remove(INSTRUCTIONS) {
            Some(Value::String(text)) if !text.trim().is_empty() => Some(text),
            _ => None,
        };
        values.shift_remove(ATTACHMENTS);
        for Handed { name, .. } in handed {
            // The callee sees what it was handed as a mount of that name.
            values.insert(name.to_string(), Value::String(format!("/{name}")));
        }
        let whole = if worker.signature.declared {
            Value::Object(values.clone())
        } else {
            match values.get("input") {
                Some(input) => input.clone(),
                None if values.is_empty() => Value::Null,
                None => Value::Object(values.clone()),
            }
        };
        if !worker.signature.declared
            && let Value::Object(inner) = &whole
        {
            for (key, value) in inner {
                values.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        let message = match (&whole, &worker.signature.message) {
            (Value::String(text), _) => Some(text.clone()),
            (Value::Object(map), Some(name)) if map.len() == 1 => {
                map.get(&**name).and_then(Value::as_str).map(str::to_owned)
            }
            _ => None,
        };
        Self { values, whole, instructions, message }
    }

    fn is_empty(&self) -> bool {
        match &self.whole {
            Value::Null => true,
            Value::String(text) => text.trim().is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        }
    }
}

/// Reads the attachments and renders the instructions: the part of the preparation that looks at files.
async fn begin(
    worker: &WorkerDefinition,
    call: &CompositeCall<'_>,
    input: &Input,
    attached: &[Located],
    can: Capabilities,
) -> Result<(String, Vec<Part>), Failure> {
    let host = call.engine.host();
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut left = worker.attachments.max_total_bytes;
    for place in attached {
        let limit = left.saturating_add(1);
        let (bytes, size) = host
            .files
            .read(place, 0, limit)
            .await
            .map_err(|error| Failure::new(FailureKind::InvalidInput, format!("attachment: {error}")))?;
        left = left.saturating_sub(size);
        files.push((place.path.name().to_owned(), bytes));
        if size >= limit {
            break; // The policy check below refuses it with the right words.
        }
    }
    let given = call.attachments.iter().map(|Blob { name, data, .. }| (name.to_string(), data.to_vec()));
    files.splice(0..0, given);
    let sizes: Vec<(&str, u64)> =
        files.iter().map(|(name, bytes)| (name.as_str(), bytes.len() as u64)).collect();
    let refuse = |reason| Failure::new(FailureKind::InvalidInput, reason);
    if !sizes.is_empty() {
        if let Some(caller) = call.frame.worker() {
            caller.attachments.admits(&format!("the caller `{}`", caller.id), &sizes).map_err(refuse)?;
        }
        worker.attachments.admits(&format!("`{}`", worker.id), &sizes).map_err(refuse)?;
    }
    if input.is_empty() && files.is_empty() && !worker.allow_empty_input {
        return Err(refuse(format!("`{}` needs an input or an attachment", worker.id)));
    }

    let mut variables = input.values.clone();
    for parameter in &worker.signature.parameters {
        // Undefined variables are errors, but an optional parameter that was left out is defined: it is null.
        variables.entry(parameter.name.to_string()).or_insert(Value::Null);
    }
    variables.insert("input".into(), input.whole.clone());
    variables.insert(
        "worker".into(),
        json!({"id": worker.id, "name": worker.id, "description": worker.description}),
    );
    variables.insert("project".into(), json!({"name": host.definitions.project_name()}));
    variables.insert("run".into(), json!({"date": host.date}));
    let instructions = &worker.instructions;
    let origin = Origin { file: instructions.file.to_string(), line: instructions.line_offset as usize + 1 };
    let system = template::render(
        &instructions.text,
        &origin,
        &Value::Object(variables),
        Arc::clone(&instructions.templates),
    )
    .map_err(|error| Failure::new(FailureKind::Definition, error.to_string()))?;

    // The caller's extra instructions go into the message, so that the system text stays the same for every call and
    // keeps its place in the provider's cache (SPEC §10.2).
    let mut parts: Vec<Part> = Vec::new();
    if let Some(extra) = &input.instructions {
        parts.push(Part::text(format!("Additional instructions for this task: {extra}")));
    }
    if let Some(text) = input.message.as_ref().filter(|text| !text.trim().is_empty()) {
        parts.push(Part::text(text.as_str()));
    } else if !input.is_empty() {
        parts.push(Part::text(serde_json::to_string_pretty(&input.whole).unwrap_or_default()));
    }
    for (name, bytes) in &files {
        parts.push(attachments::part(name, bytes, can)?);
    }
    if parts.is_empty() {
        // Providers refuse a conversation without a first message.
        parts.push(Part::text("Begin."));
    }
    // What is recorded is what was sent, so the secrets in it go before either (SPEC §12).
    for part in &mut parts {
        if let Part::Text { text } = part
            && let Cow::Owned(clean) = host.redact.text(text)
        {
            *text = clean.into();
        }
    }
    Ok((host.redact.text(system.trim_end()).into_owned(), parts))
}

impl Prepared {
    /// Tokens of what every request sends beside its messages, as estimated. Not looked at where nothing is counted.
    pub(super) fn fixed_tokens(&self) -> u64 {
        let tools = self
            .tools
            .iter()
            .map(|tool| tool.name.len() + tool.description.len() + tool.input.to_string().len());
        let output = self.native_output.as_ref().map_or(0, |schema| schema.to_string().len());
        estimate_text(self.system.len() + tools.sum::<usize>() + output)
    }

    /// Paths in the output, as the caller knows them (SPEC §6.4).
    pub(super) fn translate_back(&self, end: End) -> End {
        translate_back(&self.returned_paths, &self.handed, end)
    }
}

/// Paths in an output, as the caller knows them: those below what it handed over.
pub(super) fn translate_back(returned_paths: &[String], handed: &[Handed], end: End) -> End {
    let End::Done(value) = &end else { return end };
    if returned_paths.is_empty() || handed.is_empty() {
        return end;
    }
    let mut value = (**value).clone();
    for name in returned_paths {
        let place = if name.is_empty() { Some(&mut value) } else { value.get_mut(name) };
        if let Some(Value::String(path)) = place
            && let Some(back) = handed.iter().find_map(|handed| {
                let rest = path.trim_start_matches('/').strip_prefix(&*handed.name)?;
                (rest.is_empty() || rest.starts_with('/'))
                    .then(|| format!("{}{rest}", handed.callers.trim_end_matches('/')))
            })
        {
            *path = back;
        }
    }
    End::Done(Arc::new(value))
}
