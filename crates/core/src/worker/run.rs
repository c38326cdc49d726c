//! Running a worker: authority, tools, instructions, then the conversation until it ends.

mod attachments;
mod calls;
mod code;
mod ensures;
mod explain;
mod prepare;

use super::{WorkerDefinition, retry::wait_before_retry};
use crate::{
    authority::{Access, Located},
    call_path::CallPath,
    conversation::{Conversation, Next, PlannedCall},
    driver::{CutOff, Step, StepEnd},
    engine::{End, Engine, Failure, FailureKind, Frame, Halt, Outcome},
    event::Event,
    function::{
        Composite, CompositeCall, Effects, Function, FunctionMeta, FunctionSource, Implementation, Risk,
        Touch, tool_name,
    },
    gate::{Policy, Subject},
    journal::RecordKind,
    ledger::{Estimate, Wanted, reserve},
    model::{Delta, DeltaSink, Model, ModelName, ModelRequest, Usage},
    send::BoxFuture,
};
pub use attachments::media_type;
pub(crate) use calls::{show, show_failure};
pub use explain::explain;
use prepare::Prepared;
use serde_json::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A worker as a function (SPEC §8.1). `reference` is the name under which its caller knows it.
pub fn function(
    definition: &Arc<WorkerDefinition>,
    reference: &str,
    wildcard: bool,
    policy: Option<Arc<Policy>>,
) -> Function {
    let description =
        definition.description.clone().unwrap_or_else(|| format!("The worker `{reference}`.").into());
    Function {
        meta: FunctionMeta {
            source: definition.source.clone(),
            name: Arc::clone(&definition.id),
            tool_name: tool_name(reference).into(),
            aliases: &["worker_call", "worker.call"],
            description,
            input: Arc::clone(&definition.signature.schema),
            output: definition.returns.clone(),
            risk: Risk::Delegate,
            parallel: true,
            timeout: None,
            contained: false,
            wildcard,
            policy,
        },
        body: Implementation::Composite(Arc::new(WorkerBody { definition: Arc::clone(definition) })),
        rule: None,
    }
}

/// Which model a worker runs with, as far as the host decides it (SPEC §3, precedence).
#[derive(Clone, Debug, Default)]
pub struct ModelChoice {
    /// `--model`: replaces what workers that are not locked name.
    pub forced: Option<ModelName>,
    /// For workers that name none: environment, project, user or detection, in that order.
    pub default: Option<ModelName>,
}

impl ModelChoice {
    /// The model of a worker, or why there is none that it runs with.
    pub fn of(&self, worker: &WorkerDefinition) -> Result<ModelName, Failure> {
        let forced = self.forced.as_ref().filter(|_| !worker.locked);
        let name = forced.or(worker.model.as_ref()).or(self.default.as_ref()).cloned().ok_or_else(|| {
            Failure::new(
                FailureKind::Definition,
                format!("no model for `{}`: name one in the worker, the project, or with --model", worker.id),
            )
        })?;
        let fits = |glob: &String| {
            globset::Glob::new(glob).is_ok_and(|glob| glob.compile_matcher().is_match(name.as_str()))
        };
        if !worker.compatible_models.is_empty() && !worker.compatible_models.iter().any(fits) {
            let message = format!(
                "`{}` does not run with `{name}`; its compatible_models are: {}",
                worker.id,
                worker.compatible_models.join(", ")
            );
            return Err(Failure::new(FailureKind::Definition, message));
        }
        Ok(name)
    }
}

struct WorkerBody {
    definition: Arc<WorkerDefinition>,
}

impl Composite for WorkerBody {
    /// A `path` parameter that is left out is the manifest's mount of that name, if the caller holds it (SPEC §2.2,
    /// §6.4). What the operator leaves out is bound before the run.
    fn complete(&self, engine: &Engine, frame: &Frame, input: &Value) -> Option<Value> {
        frame.worker()?;
        let given = input.as_object()?;
        let left_out = self.definition.signature.parameters.iter().filter_map(|parameter| {
            let (name, access) = (&*parameter.name, parameter.path?);
            if given.get(name).is_some_and(|value| !value.is_null()) {
                return None;
            }
            let mount = engine.host().definitions.mount(&self.definition, name)?;
            let path = frame.authority().path_to(&mount.place, access).filter(|_| mount.access >= access)?;
            Some((name.to_owned(), Value::String(path.to_string())))
        });
        let bound: Vec<(String, Value)> = left_out.collect();
        (!bound.is_empty()).then(|| Value::Object(given.clone().into_iter().chain(bound).collect()))
    }

    /// Depth and cycles (SPEC §8.3).
    fn admit(&self, engine: &Engine, frame: &Frame) -> Result<(), Failure> {
        let id = &self.definition.id;
        let delegation = engine.host().definitions.delegation();
        let limit = frame.depth_limit().map_or(delegation.max_depth, |max| max.min(delegation.max_depth));
        if frame.depth() > limit {
            let message = format!(
                "`{id}` would stand at depth {} of the call tree; at most {limit} is allowed. Do the work without it.",
                frame.depth()
            );
            return Err(Failure::new(FailureKind::Limit, message));
        }
        let chain = frame.chain();
        if !delegation.allow_recursion && chain.contains(id) {
            let chain: Vec<&str> = chain.iter().map(|id| &**id).chain([&**id]).collect();
            let message = format!("`{id}` is already at work in this chain of calls: {}.", chain.join(" → "));
            return Err(Failure::new(FailureKind::Limit, message));
        }
        Ok(())
    }

    /// The paths that the caller hands over: it must hold them (SPEC §6.4).
    fn effects(&self, input: &Value) -> Effects {
        let parameters = self.definition.signature.parameters.iter().filter_map(|parameter| {
            let path = input.get(&*parameter.name)?.as_str()?.to_owned();
            Some(Touch { path, access: parameter.path?, delete: false })
        });
        let attachments = attachments::paths(input).map(|path| Touch {
            path: path.to_owned(),
            access: Access::Read,
            delete: false,
        });
        Effects {
            touches: parameters.chain(attachments).collect(),
            subjects: vec![Subject::Text(self.definition.id.to_string())],
            ..Effects::default()
        }
    }

    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(async move {
            let mut usage = Usage::default();
            if let Some(code) = &self.definition.code {
                return Box::pin(code::run(&self.definition, code, &call)).await;
            }
            let end = match prepare::prepare(&self.definition, &call).await? {
                Err(failure) => End::Failed(failure),
                Ok(prepared) => {
                    let end = converse(&prepared, &call, &mut usage).await?;
                    prepared.translate_back(end)
                }
            };
            if let End::Failed(failure) = &end
                && failure.kind == FailureKind::Limit
            {
                let what = RecordKind::Limit { what: failure.message.as_str().into() };
                call.engine.host().driver.record(call.path, "limit".into(), what)?;
            }
            Ok(Outcome::of(end, usage))
        })
    }
}

/// Tells the model that a conversation is over, however it ends.
struct Forget<'a> {
    model: &'a dyn Model,
    run: &'a str,
    path: &'a CallPath,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.model.forget(self.run, self.path);
    }
}

async fn converse(prepared: &Prepared, call: &CompositeCall<'_>, usage: &mut Usage) -> Result<End, Halt> {
    let driver = &*call.engine.host().driver;
    let _forget = Forget { model: &*prepared.model, run: &call.engine.host().run, path: call.path };
    let mut conversation = Conversation::new(prepared.setup.clone(), Arc::clone(&prepared.first));
    let fixed = prepared.frame.ledger().map_or(0, |_| prepared.fixed_tokens());
    let mut estimate = Estimate::default();
    loop {
        if driver.cancelled() {
            return Err(Halt::Cancelled);
        }
        match conversation.next() {
            Next::Ask => match ask(prepared, call, &conversation, fixed, &mut estimate, usage).await? {
                Err(failure) => return Ok(End::Failed(failure.with_partial(conversation.last_text()))),
                Ok((message, finish)) => {
                    if let Some(repair) = conversation.answered(message, finish) {
                        let name = format!("repair.{}", conversation.calling_turn());
                        driver.record(
                            call.path,
                            name.into(),
                            RecordKind::MessageAdded { message: repair },
                        )?;
                    }
                }
            },
            Next::Call(planned) => {
                let calls = planned.iter().filter(|planned| matches!(planned, PlannedCall::Make { .. }));
                let name = format!("reserve.{}.calls", conversation.calling_turn());
                if let Err(failure) = count(prepared, call, name, calls.count()).await? {
                    return Ok(End::Failed(failure.with_partial(conversation.last_text())));
                }
                match calls::make(prepared, call, conversation.calling_turn(), &planned, usage).await? {
                    Ok((results, blobs)) => conversation.results(results, blobs),
                    Err(waiting) => return Ok(End::Suspended(waiting)),
                }
            }
            Next::Ensure(output) => {
                let turn = conversation.calling_turn();
                let name = format!("reserve.{turn}.ensures");
                if let Err(failure) = count(prepared, call, name, prepared.judges.len()).await? {
                    return Ok(End::Failed(failure.with_partial(Some((*output).clone()))));
                }
                match ensures::ask(prepared, call, turn, &output, usage).await? {
                    Ok(said) => {
                        if let Some(repair) = conversation.ensured(&said) {
                            let name = format!("repair.{turn}");
                            driver.record(
                                call.path,
                                name.into(),
                                RecordKind::MessageAdded { message: repair },
                            )?;
                        }
                    }
                    Err(waiting) => return Ok(End::Suspended(waiting)),
                }
            }
            Next::Done(done) => {
                if done.truncated {
                    let text =
                        format!("the answer of `{}` was cut off at its `max_tokens`", prepared.setup.worker);
                    driver.record(call.path, "truncated".into(), RecordKind::Note { text: text.into() })?;
                }
                return Ok(End::Done(done.value));
            }
            Next::Failed(failure) => return Ok(End::Failed(failure)),
        }
    }
}

type Answered = (Arc<crate::model::Message>, crate::model::FinishReason);

/// Counts calls before any of them is made.
async fn count(
    prepared: &Prepared,
    call: &CompositeCall<'_>,
    name: String,
    calls: usize,
) -> Result<Result<(), Failure>, Halt> {
    let Some(account) = prepared.frame.ledger().filter(|_| calls > 0) else { return Ok(Ok(())) };
    let wanted = Wanted { calls: u32::try_from(calls).unwrap_or(u32::MAX), ..Wanted::default() };
    let driver = &*call.engine.host().driver;
    Ok(reserve(account, driver, call.path, name.into(), wanted).await?.map(drop))
}

/// Most tokens of one answer under a budget, where neither the worker names a maximum nor the model's own is known:
/// every provider takes it.
const UNSTATED: u32 = 4096;

/// One turn: requests until one is answered, retries are used up, or time or budget is.
async fn ask(
    prepared: &Prepared,
    call: &CompositeCall<'_>,
    conversation: &Conversation,
    fixed: u64,
    estimate: &mut Estimate,
    usage: &mut Usage,
) -> Result<Result<Answered, Failure>, Halt> {
    let host = call.engine.host();
    let driver = &*host.driver;
    let frame = &prepared.frame;
    let turn = conversation.turn();
    let limits = &prepared.setup.limits;
    let estimated = fixed.saturating_add(conversation.tokens());
    for attempt in 0.. {
        let mut settings = prepared.settings.clone();
        let mut reservation = None;
        if let Some(account) = frame.ledger() {
            let output = settings.max_tokens.or(prepared.terms.max_output).unwrap_or(UNSTATED);
            let wanted = Wanted {
                turns: u32::from(attempt == 0),
                request: Some((estimate.next(estimated), output.into())),
                price: prepared.terms.price,
                ..Wanted::default()
            };
            let name = format!("reserve.{turn}.{attempt}").into();
            match reserve(account, driver, call.path, name, wanted).await? {
                Ok(made) => {
                    settings.max_tokens = made.output_tokens();
                    reservation = Some(made);
                }
                Err(failure) => return Ok(Err(failure)),
            }
        }
        let sink = Sink { engine: call.engine, path: call.path, turn };
        let request = ModelRequest {
            conversation: call.path,
            run: &host.run,
            worker: &prepared.setup.worker,
            turn,
            model: &prepared.model_name,
            system: &prepared.system,
            messages: conversation.messages(),
            tools: &prepared.tools,
            settings: &settings,
            output: prepared.native_output.as_ref(),
        };
        let asked = AtomicBool::new(false);
        let stepped = driver
            .step(Step {
                path: call.path,
                name: format!("model.{turn}.{attempt}").into(),
                intent: Some(RecordKind::ModelRequested {
                    turn,
                    attempt,
                    head: conversation.head(),
                    digest: Arc::clone(conversation.digest()),
                    max_tokens: settings.max_tokens,
                }),
                deadline: frame.remaining(driver.now_ms()),
                cut_off: CutOff::Unknown,
                run: Box::pin(async {
                    asked.store(true, Ordering::Relaxed);
                    match prepared.model.respond(request, &sink).await {
                        Ok(response) => RecordKind::ModelAnswered {
                            message: conversation.answer_message(&response),
                            finish: response.finish,
                            usage: response.usage.priced(prepared.terms.price.as_ref()),
                        },
                        Err(mut error) => {
                            error.message = host.redact.text(&error.message).into_owned();
                            RecordKind::ModelFailed { error }
                        }
                    }
                }),
            })
            .await?;
        if let Some(reservation) = reservation {
            let end = match &stepped.end {
                StepEnd::Done(end) => end,
                StepEnd::TimedOut => &RecordKind::TimedOut { after_ms: 0 },
            };
            reservation.settle(end, asked.into_inner());
        }
        let error = match stepped.end {
            StepEnd::Done(RecordKind::ModelAnswered { message, finish, usage: used }) => {
                estimate.answered(estimated, &used);
                *usage = usage.plus(used);
                return Ok(Ok((message, finish)));
            }
            StepEnd::Done(RecordKind::ModelFailed { error }) => error,
            StepEnd::Done(other) => return Err(Halt::unexpected(call.path, "model", &other)),
            StepEnd::TimedOut => {
                let message = format!(
                    "`{}` ran out of its working time while it waited for its model",
                    prepared.setup.worker
                );
                return Ok(Err(Failure::new(FailureKind::Timeout, message)));
            }
        };
        if driver.listens() {
            driver.emit(Event::Discard { path: call.path.clone(), turn });
        }
        let random = if error.is_transient() && error.retry_after().is_none() {
            driver.random(call.path, format!("jitter.{turn}.{attempt}").into())?
        } else {
            0
        };
        let Some(wait) = wait_before_retry(&error, attempt, limits.request_retries, random) else {
            let tries =
                if attempt == 0 { String::new() } else { format!(" (after {} attempts)", attempt + 1) };
            return Ok(Err(Failure::new(FailureKind::Model, format!("{}{tries}", error.message))));
        };
        pause(call, frame, turn, attempt, wait).await?;
    }
    unreachable!("attempts end by an answer or by `request_retries`")
}

/// Waits before a retry; the time does not count as work.
async fn pause(
    call: &CompositeCall<'_>,
    frame: &Frame,
    turn: u32,
    attempt: u32,
    wait: Duration,
) -> Result<(), Halt> {
    let driver = &*call.engine.host().driver;
    driver.sleep(call.path, format!("wait.{turn}.{attempt}").into(), wait).await?;
    frame.waited(wait, driver.now_ms());
    Ok(())
}

/// Shows deltas as events of their call.
struct Sink<'a> {
    engine: &'a Engine,
    path: &'a CallPath,
    turn: u32,
}

impl DeltaSink for Sink<'_> {
    fn delta(&self, delta: Delta) {
        if self.engine.host().driver.listens() {
            self.engine.emit(Event::Delta { path: self.path.clone(), turn: self.turn, delta });
        }
    }
}

/// A mount that hands a caller's path to a callee.
pub(super) struct Handed {
    /// The parameter, and the mount's name.
    pub(super) name: Arc<str>,
    /// The path as the caller wrote it.
    pub(super) callers: String,
    /// What it is.
    pub(super) place: Located,
}

/// Whose function it is, for rules that treat libraries apart.
pub(super) fn is_foreign(source: &FunctionSource) -> bool {
    matches!(source, FunctionSource::Library(_) | FunctionSource::Generated)
}
