//! Running a worker: authority, tools, instructions, then the conversation until it ends.

mod asides;
mod attachments;
mod calls;
mod code;
mod context;
mod context_limit;
mod conversation;
mod ensures;
mod enter;
mod explain;
mod handed;
mod input;
mod inserts;
mod judges;
mod model_switch;
mod prepare;
mod prepared;
mod request;
mod server_tools;
mod sets;
mod talks;

pub use crate::content::media_type;
use crate::{
    account::Wanted,
    authority::Access,
    conversation::{Conversation, Next, PlannedCall, Said},
    definition::WorkerDefinition,
    engine::{Engine, Frame},
    estimate::Estimate,
    function::{
        Composite, CompositeCall, Concurrency, Effects, Function, FunctionMeta, Implementation, MainArgument,
        OutputSchema, Touch, tool_name,
    },
    gate::Policy,
    journal::RecordKind,
    ledger::{Budgets, reserve},
    model::{FinishReason, Message, Purpose, Usage},
    origin::{Origin, Origins, Trail, pointer},
    outcome::{End, Failure, FailureKind, Halt, Outcome, Stop},
    question::{Answer as UserAnswer, Given},
    risk::Risk,
    schema::sha256,
    send::BoxFuture,
    step_name::StepName,
};
pub(crate) use asides::attached;
pub(super) use enter::tools_again;
pub use explain::explain;
use model_switch::Unavailable;
use prepared::{Prepared, Shown};
use request::{Answered, Request, Unanswered};
use serde_json::{Map, Value};
use std::sync::Arc;

/// A worker as a function (`docs/reference/loop.md`). `reference` is its name at the caller.
pub fn function(
    definition: &Arc<WorkerDefinition>,
    reference: &str,
    wildcard: bool,
    policy: Option<Arc<Policy>>,
) -> Function {
    fixing(definition, reference, wildcard, policy, None)
}

/// A worker as a [`function`], with the arguments that the caller's definition fixes. Models are not shown these.
pub(crate) fn fixing(
    definition: &Arc<WorkerDefinition>,
    reference: &str,
    wildcard: bool,
    policy: Option<Arc<Policy>>,
    fixed: Option<&Arc<Map<String, Value>>>,
) -> Function {
    let signature = &definition.signature.schema;
    let description =
        definition.description.clone().unwrap_or_else(|| format!("The worker `{reference}`.").into());
    Function {
        meta: FunctionMeta {
            source: definition.source.clone(),
            name: Arc::clone(&definition.id),
            tool_name: tool_name(reference).into(),
            aliases: &["worker_call", "worker.call"],
            description,
            input: match fixed {
                Some(fixed) => Arc::new(signature.fixing(fixed)),
                None => Arc::clone(signature),
            },
            output: definition.returns.clone().map(OutputSchema::Declared),
            risk: Risk::Delegate,
            concurrency: Concurrency::Parallel,
            timeout: None,
            contained: false,
            results: crate::origin::ResultOrigin::Trusted,
            wildcard,
            policy,
        },
        body: Implementation::Composite(Arc::new(WorkerBody {
            definition: Arc::clone(definition),
            fixed: fixed.cloned(),
        })),
        rule: None,
    }
}

struct WorkerBody {
    definition: Arc<WorkerDefinition>,
    /// The arguments that its caller fixes.
    fixed: Option<Arc<Map<String, Value>>>,
}

impl Composite for WorkerBody {
    /// Identifies the definition: two callers may have generated different workers of one name.
    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(async { Some(sha256(self.definition.text.as_bytes()).into()) })
    }

    /// Completes `path` parameters: a missing one defaults to the manifest's mount of that name, if the caller holds it
    /// (`docs/reference/manifest.md` and `docs/reference/sandbox.md`). Parameters that the operator leaves out are
    /// bound before the run.
    fn complete(&self, engine: &Engine, frame: &Frame, input: &Value) -> Option<Value> {
        frame.worker()?;
        let given = input.as_object()?;
        let left_out = self.definition.signature.parameters.iter().filter_map(|parameter| {
            let (name, access) = (&*parameter.name, parameter.path?);
            let is_fixed = self.fixed.as_ref().is_some_and(|fixed| fixed.contains_key(name));
            if is_fixed || given.get(name).is_some_and(|value| !value.is_null()) {
                return None;
            }
            let mount = engine.host().definitions.mount(&self.definition, name)?;
            let path = frame.authority().path_to(&mount.place, access).filter(|_| mount.access >= access)?;
            Some((name.to_owned(), Value::String(path.to_string())))
        });
        let fixed = self.fixed.iter().flat_map(|fixed| fixed.iter());
        let fixed = fixed.filter(|(name, _)| !given.contains_key(*name));
        let fixed = fixed.map(|(name, value)| (name.clone(), value.clone()));
        let bound: Vec<(String, Value)> = left_out.chain(fixed).collect();
        (!bound.is_empty()).then(|| Value::Object(given.clone().into_iter().chain(bound).collect()))
    }

    /// Checks depth and cycles (`docs/reference/worker-files.md`).
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

    fn declared_origins(&self, input: &Value) -> Origins {
        let given = |name: &&Arc<str>| input.get(&***name).is_some_and(|value| !value.is_null());
        let declared = self.definition.untrusted.parameters.iter().filter(given);
        declared.fold(Origins::TRUSTED, |origins, name| origins.with(pointer(name), Origin::Untrusted))
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
            let begun = call.frame.trail();
            let mut trail = begun.clone();
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
            let (origins, said) = (trail.ends(&end), trail.said_since(begun));
            Ok(Outcome { origins, said, ..Outcome::of(end, usage) })
        })
    }
}

/// Enters the worker and runs its conversation to the end. `trail` is set to the contents that the conversation has
/// received.
async fn answer(
    worker: &Arc<WorkerDefinition>,
    call: &CompositeCall<'_>,
    usage: &mut Usage,
    trail: &mut Trail,
) -> Result<End, Stop> {
    if talks::needs_lease(worker, call) {
        Box::pin(conversation::lease(worker, call)).await?;
    }
    // Boxed: what is done before the first request needs much room, which the conversation would keep.
    let mut prepared = Box::pin(prepare::prepare(worker, call, trail)).await?;
    Box::pin(sets::read(call, &prepared.frame, usage)).await?;
    let answered = match prepared.setup.with_user {
        true => Box::pin(conversation::hold(worker, &mut prepared, call, usage, trail)).await,
        false => {
            let mut conversation = begin(&prepared);
            let mut estimate = Estimate::default();
            let mut talk = Talk::new(&mut prepared, call, usage, trail, &mut estimate);
            talk.answer(&mut conversation).await.map(|answer| match answer {
                Answer::Output(value) => value,
                Answer::Said(said) => Arc::new(Value::String(said.text.to_string())),
            })
        }
    };
    let end = answered.map(|value| prepared.translate_back(End::Done(value)));
    prepared.withdraw_partial(call, end.as_ref().ok());
    end
}

/// Creates the conversation of a worker that is ready for its first turn.
fn begin(prepared: &Prepared) -> Conversation {
    Conversation::new(Arc::clone(&prepared.setup), Arc::clone(&prepared.first))
        .after(prepared.frame.trail().clone())
}

/// The end of an answer.
enum Answer {
    /// The output of the worker's call.
    Output(Arc<Value>),
    /// Text for the user, who speaks next.
    Said(Said),
}

/// The state that the answers of one conversation need.
struct Talk<'a> {
    prepared: &'a mut Prepared,
    call: &'a CompositeCall<'a>,
    usage: &'a mut Usage,
    /// The contents that the conversation has received.
    trail: &'a mut Trail,
    /// The tokens that every request sends beside its messages.
    fixed: u64,
    /// The estimate of tokens, which contains the provider's last count.
    estimate: &'a mut Estimate,
}

impl<'a> Talk<'a> {
    fn new(
        prepared: &'a mut Prepared,
        call: &'a CompositeCall<'a>,
        usage: &'a mut Usage,
        trail: &'a mut Trail,
        estimate: &'a mut Estimate,
    ) -> Self {
        let counts = prepared.frame.ledger().is_some()
            || call.engine.host().spending.is_some()
            || prepared.context.is_some()
            || prepared.setup.with_user;
        let fixed = if counts { prepared.fixed_tokens() } else { 0 };
        Self { prepared, call, usage, trail, fixed, estimate }
    }

    /// Runs until the model has answered.
    async fn answer(&mut self, conversation: &mut Conversation) -> Result<Answer, Stop> {
        let call = self.call;
        let driver = &*call.engine.host().driver;
        let repair = |turn, message| {
            driver.record(call.path, StepName::Repair(turn), RecordKind::MessageAdded { message })
        };
        loop {
            if driver.cancelled() {
                return Err(Halt::Cancelled.into());
            }
            *self.trail = conversation.trail().clone();
            match conversation.next() {
                Next::Ask => {
                    // The answer before it was not the result.
                    self.prepared.withdraw_partial(call, None);
                    // Between two attempts at a turn the user has spoken anyway.
                    if self.prepared.setup.with_user
                        && conversation.next_attempt() == 0
                        && let Some(Given { answer: UserAnswer::Give { value }, .. }) =
                            driver.said_meanwhile(call.path, conversation.turn())?
                    {
                        conversation.said_meanwhile(&value);
                    }
                    // Boxed, as what follows below: a conversation that waits for one of them keeps no room for the others.
                    let (message, finish) = Box::pin(self.ask(conversation))
                        .await
                        .map_err(|stop| stop.with_partial(|| conversation.last_text()))?;
                    conversation.received_answer(&message);
                    if let Some(message) = conversation.answered(message, finish) {
                        repair(conversation.calling_turn(), message)?;
                    }
                }
                Next::Call(planned) => {
                    let turn = conversation.calling_turn();
                    let calls = planned.iter().filter(|planned| matches!(planned, PlannedCall::Make { .. }));
                    Box::pin(count(self.prepared, call, StepName::ReserveCalls(turn), calls.count()))
                        .await
                        .map_err(|stop| stop.with_partial(|| conversation.last_text()))?;
                    let made =
                        Box::pin(calls::make(self.prepared, call, turn, self.trail, &planned, self.usage))
                            .await?;
                    conversation.received(made.contents);
                    conversation.results(made.results, made.blobs);
                    if made.stopped {
                        if !self.prepared.setup.with_user {
                            return Err(conversation.stopped().into());
                        }
                        conversation.listen();
                    }
                }
                Next::Ensure(output) => {
                    let turn = conversation.calling_turn();
                    let judges = self.prepared.judges.len();
                    Box::pin(count(self.prepared, call, StepName::ReserveEnsures(turn), judges))
                        .await
                        .map_err(|stop| stop.with_partial(|| Some((*output).clone())))?;
                    let (said, contents) =
                        Box::pin(ensures::ask(self.prepared, call, turn, self.trail, &output, self.usage))
                            .await?;
                    conversation.received(contents);
                    if let Some(message) = conversation.ensured(&said) {
                        repair(turn, message)?;
                    }
                }
                Next::Listen(said) => {
                    self.prepared.withdraw_partial(call, None);
                    return Ok(Answer::Said(said));
                }
                Next::Done(done) => {
                    if done.truncated && call.frame.worker().is_some() {
                        let message = format!(
                            "the answer of `{}` was cut off at its `max_tokens`, so it is not whole",
                            self.prepared.setup.worker
                        );
                        let failure = Failure::new(FailureKind::Limit, message);
                        return Err(failure.with_partial(Some((*done.value).clone())).into());
                    }
                    if done.truncated {
                        let text = format!(
                            "the answer of `{}` was cut off at its `max_tokens`",
                            self.prepared.setup.worker
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

impl Talk<'_> {
    /// Makes one turn of the conversation, which is compacted first if it would not fit. If the provider reports that
    /// it does not fit, it is compacted once more. If the model is unavailable, the worker's next one stands in.
    async fn ask(&mut self, conversation: &mut Conversation) -> Result<(Arc<Message>, FinishReason), Stop> {
        self.fit(conversation).await?;
        // Answers that failed have made these.
        let earlier = conversation.next_attempt();
        let mut shortened = false;
        let mut unavailable = Unavailable::default();
        loop {
            let mut next = conversation.next_attempt();
            let sent = self.send(conversation, earlier, &mut next).await;
            conversation.attempted(next);
            match sent {
                Ok(answered) => return Ok(answered),
                Err(Unanswered::Stopped(stop)) => return Err(stop),
                Err(Unanswered::TooLong(failure)) => {
                    if shortened || !self.shorten(conversation).await? {
                        return Err(failure.into());
                    }
                    shortened = true;
                }
                Err(Unanswered::Unavailable(failure)) => {
                    Box::pin(unavailable.stand_in(self.prepared, self.call, failure)).await?;
                    shortened = false;
                    self.fit(conversation).await?;
                }
            }
        }
    }

    async fn send(
        &mut self,
        conversation: &Conversation,
        earlier_attempts: u32,
        next_attempt: &mut u32,
    ) -> Result<(Arc<Message>, FinishReason), Unanswered> {
        let estimated = self.estimated(conversation);
        let prepared = &*self.prepared;
        let request = Request {
            purpose: Purpose::Answer,
            number: conversation.turn(),
            conversation,
            system: &prepared.system,
            messages: conversation.messages(),
            sent: (conversation.head(), Arc::clone(conversation.digest())),
            tools: &prepared.tools,
            server_tools: &prepared.server_tools,
            output: prepared.native_output.as_ref(),
            settings: &prepared.settings,
            tokens: self.estimate.next(estimated),
            earlier_attempts,
        };
        let turn = conversation.turn();
        let Answered { message, finish, usage, shown } =
            request::send(prepared, self.call, &request, next_attempt).await?;
        self.prepared.shown = shown.map(|value| Shown { turn, value });
        self.estimate.answered(estimated, &usage);
        *self.usage = self.usage.plus(usage);
        Ok((message, finish))
    }
}

/// Counts calls in the budget before any of them is made.
async fn count(
    prepared: &Prepared,
    call: &CompositeCall<'_>,
    name: StepName,
    calls: usize,
) -> Result<(), Stop> {
    let Some(account) = prepared.frame.ledger().filter(|_| calls > 0) else { return Ok(()) };
    let wanted = Wanted { calls: u32::try_from(calls).unwrap_or(u32::MAX), ..Wanted::default() };
    let driver = &*call.engine.host().driver;
    reserve(Budgets::of_run(account), driver, call.path, name, wanted).await.map(drop)
}
