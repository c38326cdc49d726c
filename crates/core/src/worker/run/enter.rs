//! The start of a worker's call, the same for every caller: the operator, a worker, code, a preview, an explanation.

use super::{handed::Handed, input::Input, talks::holds_conversation};
use crate::{
    authority::{Access, Authority, Located, Mount, VirtualPath},
    call_path::CallPath,
    definition::{CallOverride, WorkerDefinition, attachments_root},
    driver::{CutOff, Step, StepEnd},
    engine::{Engine, Frame},
    function::{CompositeCall, Function, Implementation},
    gate::Pattern,
    journal::RecordKind,
    listing::Listings,
    origin::{Content, ContentKind, Origins, Trail},
    outcome::{Failure, FailureKind, Halt, Stop},
    risk::Risk,
    step_name::StepName,
    toolset::{Configuration, ToolsetContext, ToolsetKind, ToolsetRegistry},
};
use serde_json::Value;
use std::sync::Arc;

/// A worker that has been entered: its authority, and its input.
pub(super) struct Entered {
    pub(super) frame: Frame,
    pub(super) handed: Vec<Handed>,
    pub(super) attached: Vec<Located>,
    pub(super) input: Input,
}

/// Binds the paths that the caller passes, and narrows its authority. The worker's functions are made next ([`tools`]).
///
/// # Errors
/// The caller can't pass one of the paths.
pub(super) async fn enter(worker: &Arc<WorkerDefinition>, call: &CompositeCall<'_>) -> Result<Entered, Stop> {
    let (handed, attached) = hand_over(worker, call);
    let authority = narrow(worker, call, &handed, &attached)?;
    let authority = show(worker, call.engine, authority);
    let budget = match holds_conversation(worker, call) {
        true => worker.limits.of_conversation(),
        false => worker.limits.budget(),
    };
    let frame = call.frame.enter(worker, authority, call.path, budget, &*call.engine.host().driver).await;
    let received = received(worker, call, &frame, &handed, &attached);
    let frame = frame.after(received);
    let input = Input::new(worker, call.input, &handed);
    Ok(Entered { frame, handed, attached, input })
}

/// Pairs the places that the engine located with their parameters and attachments, in the order of the worker's
/// effects.
fn hand_over(worker: &WorkerDefinition, call: &CompositeCall<'_>) -> (Vec<Handed>, Vec<Located>) {
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

/// The trail of contents that the worker receives with its call, in addition to the arguments: attachments that others
/// write.
fn received(
    worker: &WorkerDefinition,
    call: &CompositeCall<'_>,
    entered: &Frame,
    handed: &[Handed],
    attached: &[Located],
) -> Trail {
    let mut trail = call.frame.trail().clone();
    // Places are in the order of the worker's effects: parameters first.
    let is_untrusted = |at: usize| call.untrusted.contains(&at);
    let names: Vec<&str> = attached.iter().map(|place| place.path.name()).collect();
    let files = call.attachments.iter().map(|given| &*given.file.name).chain(names).collect::<Vec<_>>();
    let from_others = worker.untrusted.attachments && !files.is_empty()
        || (handed.len()..handed.len() + attached.len()).any(is_untrusted)
        || attached.iter().any(|file| entered.authority().is_untrusted(&file.place()));
    if from_others {
        trail.push(Content {
            kind: ContentKind::Attachments,
            call: call.path.clone(),
            function: Arc::clone(&worker.id),
            value: Arc::new(files.into()),
            origins: Origins::untrusted(),
            source: None,
        });
    }
    trail
}

fn narrow(
    worker: &WorkerDefinition,
    call: &CompositeCall<'_>,
    handed: &[Handed],
    attached: &[Located],
) -> Result<Authority, Stop> {
    let mut narrowing = worker.own_narrowing();
    for Handed { name, place, .. } in handed {
        let at = VirtualPath::root().join(name);
        let of_others = worker.untrusted.paths.contains(name);
        let mounts = call.frame.authority().view().handing(place, &at);
        narrowing.handed.extend(
            mounts.into_iter().map(|mount| Mount { untrusted: mount.untrusted || of_others, ..mount }),
        );
    }
    let mut names: Vec<&str> = Vec::new();
    for place in attached {
        // Two attachments of one name: the first is mounted, both are shown to the model.
        let name = place.path.name();
        if !names.contains(&name) {
            names.push(name);
            narrowing.handed.push(Mount {
                untrusted: place.mount.untrusted || worker.untrusted.attachments,
                ..Mount::new(attachments_root().join(name), place.place(), Access::Read)
            });
        }
    }
    call.frame
        .authority()
        .narrow(&worker.id, &narrowing)
        .map_err(|refusal| Stop::failed(FailureKind::Authority, refusal.to_string()))
}

/// Adds the mounts that a worker's toolsets show to the worker's authority.
fn show(worker: &Arc<WorkerDefinition>, engine: &Engine, authority: Authority) -> Authority {
    let host = engine.host();
    let context = ToolsetContext {
        run: &host.run,
        worker,
        authority: &authority,
        definitions: &host.definitions,
        kinds: &host.toolsets,
        client_tools: &host.client_tools,
        policy: None,
        listing: None,
    };
    let mounts = host.toolsets.mounts(worker, Some(&context));
    match mounts.is_empty() {
        true => authority,
        false => authority.showing(mounts, worker.sandbox.narrowing.approvals),
    }
}

/// Asks external servers for a worker's tools, for each of its toolsets that depends on them. Each answer is a step.
/// The functions are made from the answers next ([`tools`]).
///
/// # Errors
/// The run ends, or the time of the call is over.
pub(super) async fn list(
    engine: &Engine,
    worker: &Arc<WorkerDefinition>,
    frame: &Frame,
    path: &CallPath,
) -> Result<(), Stop> {
    let host = engine.host();
    let mut listings = Listings::new();
    for (name, configuration) in host.toolsets.of(worker) {
        let Some(kind) = host.toolsets.get(&name).filter(|kind| kind.lists()) else { continue };
        // A configuration that is wrong is an error where the tools are made.
        let Ok(configuration) = Configuration::parse(&configuration, &name) else { continue };
        let toolset: Arc<str> = kind.name().into();
        let step = StepName::List(Arc::clone(&toolset));
        let stepped = host
            .driver
            .step(Step {
                path,
                name: step.clone(),
                intent: None,
                deadline: frame.remaining(&*host.driver).await,
                cut_off: CutOff::Again,
                run: Box::pin(async {
                    let context = ToolsetContext {
                        run: &host.run,
                        worker,
                        authority: frame.authority(),
                        definitions: &host.definitions,
                        kinds: &host.toolsets,
                        client_tools: &host.client_tools,
                        policy: None,
                        listing: None,
                    };
                    let stand_in = host.stand_ins.as_ref().and_then(|it| it.listing(path, kind.name()));
                    let listing = match stand_in {
                        Some(listing) => listing,
                        None => match host.toolsets.runtime(kind.name()) {
                            Ok(runtime) => Arc::new(runtime.list(&configuration.own, &context).await),
                            // The error is said where the tools are made.
                            Err(_) => Arc::default(),
                        },
                    };
                    RecordKind::ToolsListed { toolset: Arc::clone(&toolset), listing }
                }),
            })
            .await?;
        let listing = match stepped.end {
            StepEnd::Done(RecordKind::ToolsListed { listing, .. }) => listing,
            StepEnd::Done(other) => return Err(Halt::unexpected(path, &step, &other).into()),
            StepEnd::TimedOut => {
                let message = format!("`{}` ran out of time before its tools were known", worker.id);
                return Err(Stop::failed(FailureKind::Timeout, message));
            }
        };
        if !listing.notices.is_empty() {
            let text = listing.notices.join("\n").into();
            host.driver.record(path, StepName::Listed(Arc::clone(&toolset)), RecordKind::Note { text })?;
        }
        listings.insert(toolset, listing);
    }
    frame.keep_listings(listings);
    Ok(())
}

/// Makes the functions of a worker's toolsets, whether a model is shown them or not, and offers them to the calls of its
/// frame. An error is a failure of the worker's call, so the step that calls this records it.
///
/// # Errors
/// A toolset can't be made.
pub(super) async fn tools(
    engine: &Engine,
    worker: &Arc<WorkerDefinition>,
    frame: &Frame,
) -> Result<Vec<Function>, Failure> {
    let made = make_tools(engine, worker, frame).await;
    let functions = made.map_err(|reason| Failure::new(FailureKind::Definition, reason))?;
    frame.offer(&functions);
    Ok(functions)
}

/// Makes the functions again that this or another execution has made in an earlier step.
///
/// # Errors
/// The run was cancelled, or the toolsets have changed.
pub(crate) async fn tools_again(
    engine: &Engine,
    worker: &Arc<WorkerDefinition>,
    frame: &Frame,
    path: &CallPath,
    step: StepName,
) -> Result<Vec<Function>, Halt> {
    let mut made = Ok(Vec::new());
    let work = async { made = tools(engine, worker, frame).await };
    engine.host().driver.unrecorded(Box::pin(work)).await?;
    made.map_err(|failure| Halt::Diverged { path: path.clone(), step, reason: failure.message })
}

async fn make_tools(
    engine: &Engine,
    worker: &Arc<WorkerDefinition>,
    frame: &Frame,
) -> Result<Vec<Function>, String> {
    let host = engine.host();
    let configured = host.toolsets.of(worker);
    let mut functions: Vec<Function> = Vec::new();
    for (name, configuration) in &configured {
        let kind = host.toolsets.runtime(name).map_err(|reason| format!("`{}`: {reason}", worker.id))?;
        let written_at = format!("{}: toolsets.{name}.approval", worker.id);
        let configuration = Configuration::parse(configuration, &written_at)
            .map_err(|reason| format!("toolset `{name}` of `{}`: {reason}", worker.id))?;
        let context = ToolsetContext {
            run: &host.run,
            worker,
            authority: frame.authority(),
            definitions: &host.definitions,
            kinds: &host.toolsets,
            client_tools: &host.client_tools,
            policy: configuration.policy.clone(),
            listing: frame.listings().get(kind.name()).map(|listing| &**listing),
        };
        let made = kind
            .build(&configuration.own, &context)
            .await
            .map_err(|reason| format!("toolset `{name}` of `{}`: {reason}", worker.id))?;
        retried(worker, &made)?;
        reserved(worker, &**kind, &made, &host.toolsets)?;
        // What is missing because something outside could not be asked is said in a notice.
        let incomplete =
            context.listing.is_some_and(|listing| !listing.notices.is_empty()) || kind.is_of_client();
        let offers = |wanted: &str, f: &Function| match kind.lists() {
            true => Pattern::parse(wanted)
                .is_ok_and(|pattern| pattern.names_one_of(&[&f.meta.name, &f.meta.tool_name])),
            false => *f.meta.name == *wanted || *f.meta.tool_name == *wanted,
        };
        for wanted in configuration.tools.iter().flatten().filter(|_| !incomplete) {
            if !made.iter().any(|f| offers(wanted, f)) {
                let known: Vec<&str> = made.iter().map(|f| &*f.meta.name).collect();
                return Err(format!(
                    "toolset `{name}` of `{}` has no tool `{wanted}`; there are: {}",
                    worker.id,
                    known.join(", ")
                ));
            }
        }
        functions.extend(made.into_iter().filter(|f| {
            configuration.tools.as_ref().is_none_or(|names| names.iter().any(|name| offers(name, f)))
        }));
    }
    Ok(functions)
}

/// Checks that no function has the name of a built-in tool: a rule for `shell` refers only to the tool of llm-do,
/// whether the worker has that tool or not. A worker of the program without file tools may have functions with their
/// names; those of a library may not, because rules of the program for file tools would apply to them. A toolset that
/// declares the name itself is part of the host, which may replace a tool by another.
fn reserved(
    worker: &WorkerDefinition,
    kind: &dyn ToolsetKind,
    functions: &[Function],
    kinds: &ToolsetRegistry,
) -> Result<(), String> {
    let configured = kinds.of(worker);
    // Whether the worker's configuration offers one of the names.
    let has = |owner: &dyn ToolsetKind, names: &[&str]| {
        configured.iter().any(|(name, own)| {
            let offered =
                || Configuration::parse(own, name).ok().and_then(|configuration| configuration.tools);
            kinds.get(name).is_some_and(|kind| kind.name() == owner.name())
                && offered().is_none_or(|offered| offered.iter().any(|tool| names.contains(&tool.as_str())))
        })
    };
    for Function { meta, .. } in functions {
        let names = [&*meta.name, &*meta.tool_name];
        if names.iter().any(|name| kind.tools().contains(name)) {
            continue;
        }
        let counts = |owner: &dyn ToolsetKind| {
            owner.name() != kind.name()
                && (owner.reserves_everywhere()
                    || worker.source.is_foreign()
                    || meta.source.is_foreign()
                    || has(owner, &names))
        };
        if let Some(owner) = kinds.reserving(&names, counts) {
            return Err(format!(
                "`{}` has a function `{}`, which is the name of a tool of `{}`: rename the function",
                worker.id,
                meta.name,
                owner.name()
            ));
        }
    }
    Ok(())
}

/// Checks the rules of a worker that ask for retries. After a failed attempt only a leaf that reads may run again:
/// another leaf may have had its effect.
fn retried(worker: &WorkerDefinition, functions: &[Function]) -> Result<(), String> {
    for Function { meta, body, .. } in functions {
        let why = match body {
            Implementation::Leaf(_) if meta.risk == Risk::Read => continue,
            Implementation::Leaf(_) => format!("it has the risk `{}`", meta.risk),
            Implementation::Composite(_) => "it makes calls of its own".to_owned(),
        };
        let named = |rule: &&CallOverride| rule.pattern.names_one_of(&[&meta.name, &meta.tool_name]);
        let asks = |rule: &&CallOverride| rule.retries.is_some_and(|retries| retries > 0);
        if let Some(rule) = worker.overrides.iter().filter(asks).find(named) {
            return Err(format!(
                "`tool_rules` of `{}`: `retries` of `{}` can't apply to `{}`: {why}",
                worker.id, rule.pattern, meta.name
            ));
        }
    }
    Ok(())
}
