//! Running a worker: authority, tools, instructions, then the conversation until it ends.

mod attachments;
mod calls;
mod code;
mod conversation;
mod ensures;
mod enter;
mod explain;
mod input;
mod prepare;
mod server_tools;
mod sets;

use super::retry::wait_before_retry;
use crate::{
    account::Wanted,
    authority::Access,
    call_path::CallPath,
    conversation::{Conversation, Next, PlannedCall, Said},
    definition::WorkerDefinition,
    driver::{CutOff, Step, StepEnd},
    engine::{Engine, Frame},
    estimate::{Estimate, estimate_text},
    event::Event,
    function::{
        Composite, CompositeCall, Concurrency, Effects, Function, FunctionMeta, Implementation, MainArgument,
        OutputSchema, Touch, tool_name,
    },
    gate::Policy,
    journal::RecordKind,
    ledger::reserve,
    model::{Delta, DeltaSink, FinishReason, Model, ModelRequest, ModelResponse, Part, Usage},
    origin::Trail,
    outcome::{End, Failure, FailureKind, Halt, Outcome, Stop},
    risk::Risk,
    schema::sha256,
    send::BoxFuture,
    step_name::{Attempt, StepName},
};
pub use attachments::media_type;
pub(super) use enter::tools_again;
pub use explain::explain;
use futures_util::future::{Either, select};
use prepare::Prepared;
use serde_json::Value;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A worker as a function (`docs/reference/loop.md`). `reference` is its name at the caller.
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
            output: definition.returns.clone().map(OutputSchema::Declared),
            risk: Risk::Delegate,
            concurrency: Concurrency::Parallel,
            timeout: None,
            contained: false,
            results: crate::origin::ResultOrigin::Trusted,
            wildcard,
            policy,
        },
        body: Implementation::Composite(Arc::new(WorkerBody { definition: Arc::clone(definition) })),
        rule: None,
    }
}

struct WorkerBody {
    definition: Arc<WorkerDefinition>,
}

impl Composite for WorkerBody {
    /// Two callers may have generated different workers of one name.
    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(async { Some(sha256(self.definition.text.as_bytes()).into()) })
    }

    /// A missing `path` parameter defaults to the manifest's mount of that name, if the caller holds it
    /// (`docs/reference/manifest.md` and `docs/reference/sandbox.md`). Parameters that the operator leaves out are
    /// bound before the run.
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

    /// Depth and cycles (`docs/reference/worker-files.md`).
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

    /// The paths that the caller passes and must hold (`docs/reference/sandbox.md`).
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
            main: MainArgument::Texts(vec![self.definition.id.to_string()]),
            ..Effects::default()
        }
    }

    fn knows_origins(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(async move {
            let mut usage = Usage::default();
            if self.definition.code.is_some() {
                return Box::pin(code::run(&self.definition, &call)).await;
            }
            let mut trail = call.frame.trail().clone();
            let end = match Box::pin(answer(&self.definition, &call, &mut usage, &mut trail)).await {
                Ok(end) => end,
                Err(stop) => stop.end()?,
            };
            if let End::Failed(failure) = &end
                && failure.kind == FailureKind::Limit
            {
                let what = RecordKind::Limit { what: failure.message.as_str().into() };
                call.engine.host().driver.record(call.path, StepName::Limit, what)?;
            }
            call.engine.host().driver.shared().ended(call.path).await;
            let origins = trail.ends(&end);
            Ok(Outcome { origins, ..Outcome::of(end, usage) })
        })
    }
}

/// Enters the worker and runs its conversation to the end. `trail` becomes what the conversation has received.
async fn answer(
    worker: &Arc<WorkerDefinition>,
    call: &CompositeCall<'_>,
    usage: &mut Usage,
    trail: &mut Trail,
) -> Result<End, Stop> {
    if conversation::needs_lease(worker, call) {
        conversation::lease(worker, call).await?;
    }
    // Boxed: what is done before the first request needs much room, which the conversation would keep.
    let mut prepared = Box::pin(prepare::prepare(worker, call)).await?;
    Box::pin(sets::read(call, &prepared.frame, usage)).await?;
    let _forget =
        Forget { model: Arc::clone(&prepared.model), run: &call.engine.host().run, path: call.path };
    let value = match prepared.setup.with_user {
        true => Box::pin(conversation::hold(&mut prepared, call, usage, trail)).await?,
        false => {
            let mut conversation = begin(&prepared);
            let mut estimate = Estimate::default();
            let mut talk = Talk::new(&prepared, call, usage, trail, &mut estimate);
            match talk.answer(&mut conversation).await? {
                Answer::Output(value) => value,
                Answer::Said(said) => Arc::new(Value::String(said.text.to_string())),
            }
        }
    };
    Ok(prepared.translate_back(End::Done(value)))
}

/// The conversation of a worker that is ready for its first turn.
fn begin(prepared: &Prepared) -> Conversation {
    Conversation::new(prepared.setup.clone(), Arc::clone(&prepared.first))
        .after(prepared.frame.trail().clone())
}

/// Notifies the model of the end of a conversation in every case.
struct Forget<'a> {
    model: Arc<dyn Model>,
    run: &'a str,
    path: &'a CallPath,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.model.forget(self.run, self.path);
    }
}

/// The end of an answer.
enum Answer {
    /// The output of the worker's call.
    Output(Arc<Value>),
    /// Text for the user, who speaks next.
    Said(Said),
}

/// What the answers of one conversation need.
struct Talk<'a> {
    prepared: &'a Prepared,
    call: &'a CompositeCall<'a>,
    usage: &'a mut Usage,
    /// What the conversation has received.
    trail: &'a mut Trail,
    /// The tokens that every request sends beside its messages.
    fixed: u64,
    /// Knows how many tokens the provider counted last.
    estimate: &'a mut Estimate,
}

impl<'a> Talk<'a> {
    fn new(
        prepared: &'a Prepared,
        call: &'a CompositeCall<'a>,
        usage: &'a mut Usage,
        trail: &'a mut Trail,
        estimate: &'a mut Estimate,
    ) -> Self {
        let fixed = prepared.frame.ledger().map_or(0, |_| prepared.fixed_tokens());
        Self { prepared, call, usage, trail, fixed, estimate }
    }

    /// Goes on until the model has answered.
    async fn answer(&mut self, conversation: &mut Conversation) -> Result<Answer, Stop> {
        let Self { prepared, call, usage, trail, fixed, estimate } = self;
        let driver = &*call.engine.host().driver;
        let repair = |turn, message| {
            driver.record(call.path, StepName::Repair(turn), RecordKind::MessageAdded { message })
        };
        loop {
            if driver.cancelled() {
                return Err(Halt::Cancelled.into());
            }
            **trail = conversation.trail().clone();
            match conversation.next() {
                Next::Ask => {
                    let (message, finish) = ask(prepared, call, conversation, *fixed, estimate, usage)
                        .await
                        .map_err(|stop| stop.with_partial(|| conversation.last_text()))?;
                    conversation.received_answer(call.path, &message);
                    if let Some(message) = conversation.answered(message, finish) {
                        repair(conversation.calling_turn(), message)?;
                    }
                }
                Next::Call(planned) => {
                    let turn = conversation.calling_turn();
                    let calls = planned.iter().filter(|planned| matches!(planned, PlannedCall::Make { .. }));
                    count(prepared, call, StepName::ReserveCalls(turn), calls.count())
                        .await
                        .map_err(|stop| stop.with_partial(|| conversation.last_text()))?;
                    let made = calls::make(prepared, call, turn, trail, &planned, usage).await?;
                    conversation.received(made.contents);
                    conversation.results(made.results, made.blobs);
                    if made.stopped {
                        if !prepared.setup.with_user {
                            return Err(conversation.stopped().into());
                        }
                        conversation.listen();
                    }
                }
                Next::Ensure(output) => {
                    let turn = conversation.calling_turn();
                    count(prepared, call, StepName::ReserveEnsures(turn), prepared.judges.len())
                        .await
                        .map_err(|stop| stop.with_partial(|| Some((*output).clone())))?;
                    let (said, contents) = ensures::ask(prepared, call, turn, trail, &output, usage).await?;
                    conversation.received(contents);
                    if let Some(message) = conversation.ensured(&said) {
                        repair(turn, message)?;
                    }
                }
                Next::Listen(said) => return Ok(Answer::Said(said)),
                Next::Done(done) => {
                    if done.truncated {
                        let text = format!(
                            "the answer of `{}` was cut off at its `max_tokens`",
                            prepared.setup.worker
                        );
                        let note = RecordKind::Note { text: text.into() };
                        driver.record(call.path, StepName::Truncated, note)?;
                    }
                    return Ok(Answer::Output(done.value));
                }
                Next::Failed(failure) => return Err(failure.into()),
            }
        }
    }
}

type Answered = (Arc<crate::model::Message>, crate::model::FinishReason);

/// Counts calls before any of them is made.
async fn count(
    prepared: &Prepared,
    call: &CompositeCall<'_>,
    name: StepName,
    calls: usize,
) -> Result<(), Stop> {
    let Some(account) = prepared.frame.ledger().filter(|_| calls > 0) else { return Ok(()) };
    let wanted = Wanted { calls: u32::try_from(calls).unwrap_or(u32::MAX), ..Wanted::default() };
    let driver = &*call.engine.host().driver;
    reserve(account, driver, call.path, name, wanted).await.map(drop)
}

/// Maximum tokens of one answer under a budget, if neither the worker nor the model has a known maximum. Every
/// provider accepts it.
const UNSTATED: u32 = 4096;

/// One turn: sends requests until one is answered, or retries, time or budget are used up.
async fn ask(
    prepared: &Prepared,
    call: &CompositeCall<'_>,
    conversation: &Conversation,
    fixed: u64,
    estimate: &mut Estimate,
    usage: &mut Usage,
) -> Result<Answered, Stop> {
    let host = call.engine.host();
    let driver = &*host.driver;
    let frame = &prepared.frame;
    let turn = conversation.turn();
    let limits = &prepared.setup.limits;
    let estimated = fixed.saturating_add(conversation.tokens());
    for attempt in 0.. {
        let of = Attempt { turn, attempt };
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
            let made = reserve(account, driver, call.path, StepName::Reserve(of), wanted).await?;
            settings.max_tokens = made.output_tokens();
            reservation = Some(made);
        }
        let sink =
            Sink { engine: call.engine, path: call.path, turn, said: stoppable(call).then(Mutex::default) };
        let request = ModelRequest {
            conversation: call.path,
            run: &host.run,
            worker: &prepared.setup.worker,
            turn,
            model: &prepared.model_name,
            system: &prepared.system,
            messages: conversation.messages(),
            tools: &prepared.tools,
            server_tools: &prepared.server_tools,
            settings: &settings,
            output: prepared.native_output.as_ref(),
        };
        let asked = AtomicBool::new(false);
        let deadline = frame.remaining(driver).await;
        let stepped = driver
            .step(Step {
                path: call.path,
                name: StepName::Model(of),
                intent: Some(RecordKind::ModelRequested {
                    turn,
                    attempt,
                    head: conversation.head(),
                    digest: Arc::clone(conversation.digest()),
                    max_tokens: settings.max_tokens,
                }),
                deadline,
                cut_off: CutOff::Again,
                run: Box::pin(async {
                    asked.store(true, Ordering::Relaxed);
                    let responded = match sink.said {
                        None => prepared.model.respond(request, &sink).await,
                        Some(_) => {
                            let responding = prepared.model.respond(request, &sink);
                            match select(responding, driver.stopped()).await {
                                Either::Left((responded, _)) => responded,
                                Either::Right(((), responding)) => {
                                    drop(responding);
                                    Ok(sink.cut_off(estimated))
                                }
                            }
                        }
                    };
                    match responded {
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
            reservation.settle(driver, end, asked.into_inner()).await;
        }
        let error = match stepped.end {
            StepEnd::Done(RecordKind::ModelAnswered { message, finish, usage: used }) => {
                estimate.answered(estimated, &used);
                *usage = usage.plus(used);
                return Ok((message, finish));
            }
            StepEnd::Done(RecordKind::ModelFailed { error }) => error,
            StepEnd::Done(other) => {
                return Err(Halt::unexpected(call.path, &StepName::Model(of), &other).into());
            }
            StepEnd::TimedOut => {
                let message = format!(
                    "`{}` ran out of its working time while it waited for its model",
                    prepared.setup.worker
                );
                return Err(Stop::failed(FailureKind::Timeout, message));
            }
        };
        if driver.listens() {
            driver.emit(Event::Discard { path: call.path.clone(), turn });
        }
        let random = if error.is_transient() && error.retry_after().is_none() {
            driver.random(call.path, StepName::Jitter(of))?
        } else {
            0
        };
        let Some(wait) = wait_before_retry(&error, attempt, limits.request_retries, random) else {
            let tries =
                if attempt == 0 { String::new() } else { format!(" (after {} attempts)", attempt + 1) };
            return Err(Stop::failed(FailureKind::Model, format!("{}{tries}", error.message)));
        };
        pause(call, frame, of, wait).await?;
    }
    unreachable!("attempts end by an answer or by `request_retries`")
}

/// Waits before a retry. The time does not count as working time.
async fn pause(call: &CompositeCall<'_>, frame: &Frame, of: Attempt, wait: Duration) -> Result<(), Halt> {
    let driver = &*call.engine.host().driver;
    driver.sleep(call.path, StepName::Wait(of), wait).await?;
    frame.waited(wait, driver).await;
    Ok(())
}

/// Whether a person may stop an answer in this run: somebody takes part in it.
fn stoppable(call: &CompositeCall<'_>) -> bool {
    call.engine.host().chat || call.engine.host().attended
}

/// Emits deltas as events of their call.
struct Sink<'a> {
    engine: &'a Engine,
    path: &'a CallPath,
    turn: u32,
    /// The text that has arrived, if the answer can be stopped.
    said: Option<Mutex<String>>,
}

impl Sink<'_> {
    /// What has arrived of an answer that was stopped. The provider does not tell what it cost, so its tokens are
    /// estimated, `input` as those of the request.
    fn cut_off(&self, input: u64) -> ModelResponse {
        let said = self.said.as_ref().map(|said| said.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let text = said.unwrap_or_default();
        let usage = Usage {
            input_tokens: Some(input),
            output_tokens: Some(estimate_text(text.len())),
            ..Usage::default()
        };
        ModelResponse { parts: vec![Part::text(text)], finish: FinishReason::Stopped, usage }
    }
}

impl DeltaSink for Sink<'_> {
    fn delta(&self, delta: Delta) {
        if let (Some(said), Delta::Text { text }) = (&self.said, &delta) {
            said.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        }
        if self.engine.host().driver.listens() {
            self.engine.emit(Event::Delta { path: self.path.clone(), turn: self.turn, delta });
        }
    }
}
