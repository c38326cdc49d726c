//! The preparation of a worker's first turn: its authority, its tools, its instructions, its first message.

use super::{
    attachments,
    context_limit::{ContextLimit, most_tokens},
    enter::{Entered, enter, list, tools, tools_again},
    input::{Input, Placed},
    inserts::{self, Texts},
    judges::judges,
    model_switch::{self, Chain, settings},
    prepared::{AskedModel, Prepared},
    server_tools,
    talks::{holds_conversation, is_chat},
};
use crate::{
    authority::{Located, Place},
    conversation::{Conversation, Ensures, FINISH_TOOL, OutputContract, Setup},
    definition::{INPUT, WorkerDefinition},
    driver::{CutOff, Step, StepEnd},
    engine::{Engine, Frame},
    function::{CompositeCall, Function, Implementation},
    gate::WithheldTool,
    journal::RecordKind,
    model::{Capabilities, ModelName, Part, ToolSpec},
    origin::{self, Origins, Trail},
    outcome::{End, Failure, FailureKind, Halt, Stop},
    price::Usd,
    step_name::StepName,
};
use serde_json::{Map, Value};
use std::{borrow::Cow, sync::Arc};

/// Enters a worker and begins its conversation. If it does not begin, `trail` gets the words of others that the failure
/// repeats.
pub(super) async fn prepare(
    worker: &Arc<WorkerDefinition>,
    call: &CompositeCall<'_>,
    trail: &mut Trail,
) -> Result<Box<Prepared>, Stop> {
    let host = call.engine.host();
    let chain = model_switch::open(host.model.chain(worker)?, &*host.models);
    let Chain { names: models, first: mut model, can } =
        chain.map_err(|error| Stop::failed(FailureKind::Model, error.message))?;
    let mut model_name = models[0].clone();
    let mut settings = settings(worker, &model_name, host);
    if let Some(refused) = model.refused_settings(&settings).first() {
        return Err(Stop::failed(FailureKind::Definition, format!("`{}`: {refused}", worker.id)));
    }
    server_tools::check(worker, &worker.server_tools, &*model)?;
    let Entered { frame, handed, attached, input } = enter(worker, call).await?;
    let mut terms = model_switch::terms(host, &model_name, &frame);
    if let Some((whose, limit)) = model_switch::cost_limit(host, &model_name, &frame) {
        let uses = !worker.server_tools.is_empty();
        if terms.price.is_none_or(|price| uses && price.server_use.is_none()) {
            return Err(without_price(worker, &model_name, &whose, limit).into());
        }
    }
    let granted = server_tools::granted(worker, call, &frame).await?;
    server_tools::check(worker, &granted, &*model)?;
    let with_user = holds_conversation(worker, call);
    let output = contract(worker, can, with_user);
    list(call.engine, worker, &frame, call.path).await?;
    let texts = Texts::new(worker, host, variables(worker, call, &input, &attached), input.differing(worker));
    inserts::fetch(worker, call, &frame, &texts, trail).await?;
    let native_output = worker
        .returns
        .as_ref()
        .filter(|_| can.native_schema && !with_user)
        .map(|schema| Arc::clone(schema.shown()));
    let mut made = None;
    let deadline = frame.remaining(&*host.driver).await;
    let stepped = host
        .driver
        .step(Step {
            path: call.path,
            name: StepName::Conversation,
            intent: None,
            deadline,
            cut_off: CutOff::Again,
            run: Box::pin(async {
                let begun: Result<_, Unbegun> = async {
                    let functions = tools(call.engine, worker, &frame).await?;
                    let (functions, mut withheld) = offered(call.engine, worker, &frame, functions)?;
                    withheld.extend(server_tools::refused(worker, &granted));
                    server_tools::distinct(worker, &functions)?;
                    finish_is_free(worker, &functions, &output)?;
                    let beginning = begin(worker, call, &frame, &input, &attached, &texts, can).await?;
                    Ok((beginning, functions, withheld))
                }
                .await;
                match begun {
                    Err(Unbegun { failure, origins }) => RecordKind::CallEnded {
                        ending: End::Failed(failure).to_ending(),
                        usage: Default::default(),
                        blobs: Vec::new(),
                        origins,
                        said: Box::default(),
                    },
                    Ok((Beginning { mut system, parts, listens, origin }, functions, withheld)) => {
                        let in_text = !with_user && !can.native_schema && !output.uses_final_tool();
                        if worker.returns.is_some() && in_text {
                            if !system.is_empty() {
                                system.push_str("\n\n");
                            }
                            system.push_str("Answer with JSON that fits this schema, and nothing else: ");
                            system.push_str(
                                &worker.returns.iter().map(|s| s.shown().to_string()).collect::<String>(),
                            );
                        }
                        let specs = specs(&functions, &output);
                        let can_read_on = host.toolsets.reads_results(&functions);
                        made = Some(functions);
                        RecordKind::ConversationStarted {
                            worker: Arc::clone(&worker.id),
                            model: model_name.clone(),
                            system: system.into(),
                            tools: specs,
                            withheld,
                            server_tools: granted.into(),
                            output: worker.returns.as_ref().map(|schema| Arc::clone(schema.value())),
                            final_tool: output.uses_final_tool(),
                            with_user,
                            listens,
                            ensures: (!worker.ensures.is_empty()).then(|| Ensures {
                                input: Arc::new(input.whole.clone()),
                                all: Arc::clone(&worker.ensures),
                            }),
                            can_read_on,
                            max_context_tokens: most_tokens(worker, &terms, &*model),
                            can,
                            message: Conversation::first_message(parts),
                            origin,
                        }
                    }
                }
            }),
        })
        .await?;
    let (started, system, specs, server_tools, ensures, can_read_on, context, first, listens, origin) =
        match stepped.end {
            StepEnd::Done(RecordKind::ConversationStarted {
                model,
                system,
                tools,
                server_tools,
                ensures,
                can_read_on,
                max_context_tokens,
                message,
                listens,
                origin,
                ..
            }) => (
                model,
                system,
                tools,
                server_tools,
                ensures,
                can_read_on,
                max_context_tokens,
                message,
                listens,
                origin,
            ),
            StepEnd::Done(RecordKind::CallEnded {
                ending: crate::outcome::Ending::Failure(failure),
                origins,
                ..
            }) => {
                *trail = trail.clone().begun(origins.greatest(), call.path, &worker.id);
                return Err(failure.into());
            }
            StepEnd::Done(other) => {
                return Err(Halt::unexpected(call.path, &StepName::Conversation, &other).into());
            }
            StepEnd::TimedOut => {
                let message = format!("`{}` ran out of time before its first turn", worker.id);
                return Err(Stop::failed(FailureKind::Timeout, message));
            }
        };
    // Another of the worker's models has begun: a key is there that was not, or is not there any more.
    if started != model_name && models.contains(&started) {
        let opened = host.models.open(&started);
        model = opened.map_err(|error| Stop::failed(FailureKind::Model, error.message))?;
        settings = model_switch::settings(worker, &started, host);
        terms = model_switch::terms(host, &started, &frame);
        model_name = started;
    }
    let frame = frame.after(frame.trail().clone().begun(origin, call.path, &worker.id));
    let functions = match made {
        Some(functions) => functions,
        None => tools_again(call.engine, worker, &frame, call.path, StepName::Conversation).await?,
    };
    // The model may call the tools of the record, in its order, also on a resume.
    let mut offered = Vec::with_capacity(specs.len());
    for spec in specs.iter().filter(|spec| Some(&*spec.name) != output.final_tool_name()) {
        let Some(function) = functions.iter().find(|f| f.meta.tool_name == spec.name) else {
            return Err(Halt::Diverged {
                path: call.path.clone(),
                step: StepName::Conversation,
                reason: format!("the tool `{}` no longer exists", spec.name),
            }
            .into());
        };
        offered.push(function.clone());
    }
    let judges = judges(worker, &offered).map_err(|reason| Stop::failed(FailureKind::Definition, reason))?;
    let setup = Arc::new(Setup {
        call: call.path.clone(),
        worker: Arc::clone(&worker.id),
        limits: worker.limits.clone(),
        output: output.ensuring(ensures),
        sees: can.sees,
        tools: offered.iter().map(|f| Arc::clone(&f.meta.tool_name)).collect(),
        server_tools: !server_tools.is_empty(),
        with_user,
        user: frame.user(),
        listens,
    });
    Ok(Box::new(Prepared {
        frame,
        functions: offered,
        judges,
        tools: specs,
        server_tools,
        setup,
        system,
        first,
        model: AskedModel::new(model, call),
        model_name,
        models,
        switches: 0,
        worker: Arc::clone(worker),
        settings,
        native_output,
        shown: None,
        can_read_on,
        terms,
        context: ContextLimit::of(worker, context),
        handed,
        returned_paths: worker.returned_paths.clone(),
    }))
}

/// The failure if the cost is limited and can't be counted.
fn without_price(worker: &WorkerDefinition, model: &ModelName, whose: &str, limit: Usd) -> Failure {
    let (of, uses) = match worker.server_tools.is_empty() {
        true => ("this model", ""),
        false => ("this model and its server-side tools", ", server_use: 0.01"),
    };
    let message = format!(
        "`{}` can't ask `{model}`: {whose} may cost {limit}, and the price of {of} is not known. Give it in \
         your config.yaml (`llm-do doctor` names its folder, as home), in dollars for a million tokens{}: \
         `prices: {{\"{model}\": {{input: 1.25, output: 10{uses}}}}}`",
        worker.id,
        if uses.is_empty() { "" } else { " and for one use" },
    );
    Failure::new(FailureKind::Definition, message)
}

/// Splits the functions into those that could pass the gate, which a model is shown, and the others, with the reason;
/// sorted by name so that the prompt's prefix never changes (`docs/reference/loop.md`).
fn offered(
    engine: &Engine,
    worker: &WorkerDefinition,
    frame: &Frame,
    mut functions: Vec<Function>,
) -> Result<(Vec<Function>, Vec<WithheldTool>), Failure> {
    let mut withheld = Vec::new();
    functions.retain(|function| match engine.withheld(function, frame) {
        None => true,
        Some(why) => {
            let name = Arc::clone(&function.meta.tool_name);
            withheld.push(WithheldTool { name, why: why.to_string().into() });
            false
        }
    });
    withheld.sort_by(|a, b| a.name.cmp(&b.name));
    functions.sort_by(|a, b| a.meta.tool_name.cmp(&b.meta.tool_name));
    for pair in functions.windows(2) {
        if pair[0].meta.tool_name == pair[1].meta.tool_name {
            let message = format!(
                "`{}` has two functions that a model would see as `{}`: `{}` and `{}`",
                worker.id, pair[0].meta.tool_name, pair[0].meta.name, pair[1].meta.name
            );
            return Err(Failure::new(FailureKind::Definition, message));
        }
    }
    let shown: Vec<bool> = functions
        .iter()
        .map(|function| match &function.body {
            Implementation::Composite(composite) => composite.is_offered(&functions),
            Implementation::Leaf(_) => true,
        })
        .collect();
    let mut shown = shown.into_iter();
    functions.retain(|_| shown.next().unwrap_or(true));
    let descriptions: Vec<Option<Arc<str>>> = functions
        .iter()
        .map(|function| match &function.body {
            Implementation::Composite(composite) => composite.describe(&functions),
            Implementation::Leaf(_) => None,
        })
        .collect();
    for (function, description) in functions.iter_mut().zip(descriptions) {
        if let Some(description) = description {
            function.meta.description = description;
        }
    }
    Ok((functions, withheld))
}

fn specs(functions: &[Function], output: &OutputContract) -> Arc<[ToolSpec]> {
    let shown = functions.iter().map(|f| ToolSpec {
        name: Arc::clone(&f.meta.tool_name),
        description: Arc::clone(&f.meta.description),
        input: Arc::clone(f.meta.input.shown()),
    });
    let last = output.final_tool_name().zip(output.final_tool_input()).map(|(name, input)| ToolSpec {
        name: name.into(),
        description: match name {
            FINISH_TOOL => {
                "Ends the conversation with the user and gives its result. Call it alone, once, when you have all \
                 you need. Until then the user reads what you write."
            }
            _ => "Gives the final result and ends the task. Call it alone, once, when you are done.",
        }
        .into(),
        input,
    });
    shown.chain(last).collect()
}

/// The contract of the worker's answers.
fn contract(worker: &WorkerDefinition, can: Capabilities, with_user: bool) -> OutputContract {
    let schema = worker.returns.clone();
    match with_user {
        // The entry of a chat without a declared output has no result: the user ends it.
        true => {
            let finishes = can.tools && (worker.interactive || schema.is_some());
            OutputContract::of_conversation(schema, finishes)
        }
        false => OutputContract::new(schema, !can.native_schema && can.tools),
    }
}

/// Checks that none of the functions has the name of the tool that ends a conversation.
fn finish_is_free(
    worker: &WorkerDefinition,
    functions: &[Function],
    output: &OutputContract,
) -> Result<(), Failure> {
    let taken = |f: &&Function| Some(&*f.meta.tool_name) == output.final_tool_name();
    let Some(function) = functions.iter().find(taken) else { return Ok(()) };
    let message = format!(
        "`{}` has a function `{}`, which is the name of the tool that gives its result: rename the function",
        worker.id, function.meta.name
    );
    Err(Failure::new(FailureKind::Definition, message))
}

/// The reason why a conversation does not begin.
struct Unbegun {
    failure: Failure,
    /// The origins of the failure's words.
    origins: Origins,
}

impl From<Failure> for Unbegun {
    fn from(failure: Failure) -> Self {
        Self { failure, origins: Origins::TRUSTED }
    }
}

/// The start of a conversation.
struct Beginning {
    system: String,
    parts: Vec<Part>,
    /// True if the user speaks first.
    listens: bool,
    origin: origin::Origin,
}

/// The variables of the instructions.
fn variables(
    worker: &WorkerDefinition,
    call: &CompositeCall<'_>,
    input: &Input,
    attached: &[Located],
) -> Map<String, Value> {
    let mut variables = input.variables(worker, call.engine.host());
    let has_files = !attached.is_empty() || !call.attachments.is_empty();
    if input.is_left_out(worker) && !has_files && is_chat(call) {
        // What the user says first is not known yet, so instructions can't depend on it.
        variables.shift_remove(INPUT);
    }
    variables
}

/// Reads the attachments and renders the instructions: the part of the preparation that looks at files.
async fn begin(
    worker: &WorkerDefinition,
    call: &CompositeCall<'_>,
    frame: &Frame,
    input: &Input,
    attached: &[Located],
    texts: &Texts,
    can: Capabilities,
) -> Result<Beginning, Unbegun> {
    let host = call.engine.host();
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut left = worker.attachments.max_total_bytes;
    for place in attached {
        let limit = left.saturating_add(1);
        let (bytes, size) = host.files.read(place, 0, limit).await.map_err(|error| {
            let failure = Failure::new(FailureKind::InvalidInput, format!("attachment: {error}"));
            // What serves the place may have chosen the words.
            let origins = if place.mount.untrusted { Origins::untrusted() } else { Origins::TRUSTED };
            Unbegun { failure, origins }
        })?;
        left = left.saturating_sub(size);
        files.push((place.path.name().to_owned(), bytes));
        if size >= limit {
            break; // The policy check below refuses it with the right words.
        }
    }
    let given = call.attachments.iter().map(|given| (given.file.name.to_string(), given.file.data.to_vec()));
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
    let left_out = input.is_left_out(worker) && files.is_empty();
    let listens = left_out && is_chat(call);
    if left_out && !listens && !worker.allow_empty_input {
        return Err(refuse(format!("`{}` needs an input or an attachment", worker.id)).into());
    }

    let rendered = texts.render(worker).map_err(|reason| Failure::new(FailureKind::Definition, reason))?;
    // The user's own words stay the first message of a conversation, as it is shown and undone.
    let Placed { system, moved, input: given } = match holds_conversation(worker, call) {
        true => input.beside(rendered.text),
        false => input.placed(worker, rendered),
    };
    let listed = host.driver.untrusted_places();
    let of_others = |place: &Place| listed.hold(place) || frame.authority().is_untrusted(place);
    let mut frames = [call.frame, frame].into_iter();
    let attached_of_others = frames
        .any(|frame| call.attachments.iter().any(|given| given.is_of_others(frame.authority(), listed)));
    let origin = match attached_of_others || texts.has_inserts() || texts.places().iter().any(of_others) {
        true => origin::Origin::Untrusted,
        false => frame.trail().origin(),
    };

    // The caller's extra instructions go into the message, so that the system text stays the same for every call and
    // keeps its place in the provider's cache (`docs/reference/loop.md`).
    let mut parts: Vec<Part> = Vec::with_capacity(files.len() + 2);
    parts.extend(moved.map(Part::text));
    if let Some(extra) = &input.instructions {
        parts.push(Part::text(format!("Additional instructions for this task: {extra}")));
    }
    parts.extend(given.map(Part::text));
    for (name, bytes) in &files {
        parts.push(attachments::part(name, bytes, can)?);
    }
    if parts.is_empty() && !listens {
        // Providers refuse a conversation without a first message.
        parts.push(Part::text("Begin."));
    }
    // The record is what was sent, so secrets are removed before both (`docs/reference/journal.md`).
    for part in &mut parts {
        if let Part::Text { text } | Part::Attachment { text, .. } = part
            && let Cow::Owned(clean) = host.redact.text(text)
        {
            *text = clean.into();
        }
    }
    Ok(Beginning { system: host.redact.text(system.trim_end()).into_owned(), parts, listens, origin })
}
