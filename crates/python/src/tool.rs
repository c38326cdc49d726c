//! A function of code as a function of the engine.

use crate::{
    call::{InFlight, Seat},
    discovery::{ExposedTool, Sharing},
    explain,
    host::{Death, Event, START},
    pool::Room,
    python::Python,
    view::Given,
    view::Reach,
    waits::Waits,
    wire::{Answer, CodeError, Context, Module, Op, ToHost},
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use llm_do_core::{
    authority::Access,
    code_calls::{CodeCall, CodeCalls},
    engine::{End, Failure, FailureKind, Halt, Outcome, Stop},
    function::{
        Composite, CompositeCall, Effects, FunctionMeta, Leaf, LeafCall, MainArgument, ToolError, ToolOutput,
        Touch, Turn,
    },
    gate::Mode,
    model::{Blob, Usage},
    question::Waiting,
    schema::{Schema, canonical, sha256},
    send::BoxFuture,
};
use serde_json::{Value, json};
use std::{collections::HashMap, future::ready, sync::Arc, time::Duration};
use tokio::sync::oneshot;

/// The time that a function may work between two calls. A leaf has the same limit.
pub(crate) const OWN_WORK: Duration = llm_do_core::engine::LEAF_TIMEOUT;

/// A function of a module, for a worker.
pub(crate) struct HostedTool {
    pub(crate) python: Arc<Python>,
    pub(crate) reach: Reach,
    pub(crate) module: Module,
    pub(crate) tool: ExposedTool,
    /// The description of the function in the engine. Its calls are made on behalf of its worker.
    pub(crate) meta: FunctionMeta,
    /// The way in which its arguments are passed.
    pub(crate) takes: Takes,
    /// The time that it may work between two calls.
    pub(crate) work: Duration,
}

/// The way in which the arguments of a call become the arguments of the function.
pub(crate) enum Takes {
    /// The function takes the arguments unchanged. The engine has validated them.
    Arguments,
    /// The call has one argument `input`, the input of the program. The function takes it as `input`, or takes its
    /// fields.
    Input(Arc<Schema>),
    /// The call has the text of a program and its input, which `main` takes. The process ends with the call.
    Program,
}

impl HostedTool {
    fn arguments<'a>(&self, input: &'a Value) -> Result<std::borrow::Cow<'a, Value>, String> {
        use std::borrow::Cow;
        let schema = match &self.takes {
            Takes::Arguments => return Ok(Cow::Borrowed(input)),
            Takes::Program => return Ok(Cow::Owned(json!({"input": input.get("input")}))),
            Takes::Input(schema) => schema,
        };
        let given = input.get("input").cloned().unwrap_or(Value::Null);
        let declared = schema.value().get("properties").and_then(Value::as_object);
        let takes_input = declared.is_some_and(|properties| properties.contains_key("input"));
        let arguments = match given {
            given if takes_input => json!({"input": given}),
            Value::Null => json!({}),
            Value::Object(fields) => Value::Object(fields),
            other => match declared.map(|properties| properties.keys().collect::<Vec<_>>()).as_deref() {
                Some([only]) => json!({ only.as_str(): other }),
                _ => json!({ "input": other }),
            },
        };
        match schema.validate(&arguments) {
            Ok(()) => Ok(Cow::Owned(arguments)),
            Err(wrong) => {
                let list: String = wrong.iter().map(|violation| format!("\n- {violation}")).collect();
                Err(format!("the input does not fit the parameters of `{}`:{list}", self.tool.function))
            }
        }
    }

    /// Returns the paths among the arguments. A type does not declare whether the function reads or writes; its process
    /// can do only what the mount allows.
    fn effects(&self, input: &Value) -> Effects {
        let paths = self.tool.paths.iter().filter_map(|name| input.get(&**name)?.as_str());
        let touches = paths.map(|path| Touch { path: path.to_owned(), access: Access::Read, delete: false });
        let main = if self.tool.paths.is_empty() { MainArgument::None } else { MainArgument::Paths };
        Effects { touches: touches.collect(), main, process: true, ..Effects::default() }
    }

    /// Computes a hash of its module's code and of the places that the process may reach. Reads the code again, which
    /// nothing may change during a run.
    async fn identity(&self) -> Option<Arc<str>> {
        let (reach, interpreter) =
            (self.reach.clone(), self.python.interpreter(self.reach.language).await.ok()?);
        let code = tokio::task::spawn_blocking(move || reach.fingerprint(&interpreter)).await.ok().flatten();
        let Module { key, root, path, module, attribute, .. } = &self.module;
        let of = json!([self.reach.key, root, key, path, module, attribute, self.tool.function, code]);
        Some(sha256(canonical(&of).as_bytes()).into())
    }

    fn context(&self, run: &str, worker: &str, key: &str, mode: Mode, given: &Given) -> Context {
        Context {
            run: run.to_owned(),
            worker: worker.to_owned(),
            key: key.to_owned(),
            mode,
            mounts: given.mounts.clone(),
        }
    }

    /// Returns true if the code is a program that a model wrote.
    fn is_program(&self) -> bool {
        matches!(self.takes, Takes::Program)
    }

    /// Returns the seat of a call that has a process for itself. A program leaves nothing for the next one.
    fn alone(&self) -> Seat {
        if self.is_program() { Seat::Once } else { Seat::Alone }
    }

    /// Begins the call in its seat, in a process that may take as long as `limit` to start.
    async fn begin(
        &self,
        arguments: &Value,
        context: &Context,
        seat: Seat,
        limit: Option<Duration>,
    ) -> Result<InFlight, ToolError> {
        let room = if matches!(seat, Seat::Alone | Seat::Once) { Room::Own } else { Room::Home };
        let thread = matches!(seat, Seat::Beside) && !self.tool.is_async;
        let lease = self.python.lease(&self.reach, room, limit).await?;
        let needs_context = self.tool.context
            || !self.tool.plain
            || !self.tool.paths.is_empty()
            || !self.tool.returns_scalar();
        Ok(InFlight::begin(lease, seat, &self.tool.name, |id| ToHost::Call {
            id,
            module: &self.module,
            function: &self.tool.function,
            args: arguments,
            plain: self.tool.plain,
            thread,
            ctx: needs_context.then_some(context),
        }))
    }

    /// Formats a failure of the code for its caller.
    fn explain(&self, error: &CodeError, flight: &mut InFlight) -> String {
        let Some(interpreter) = self.python.known_interpreter(self.reach.language) else {
            return error.message.clone();
        };
        let given = self.python.given(&self.reach);
        let mut text = explain::failure(error, &self.reach.package.root, &interpreter, given.as_deref().ok());
        text.push_str(&explain::network(error, &self.reach.network(), &flight.ongoing().denials()));
        text
    }

    /// Returns the next act of code that makes calls. A call that can't be made is answered here: the code may make
    /// another. That it waits is one where that question was asked last.
    async fn next(
        &self,
        flight: &mut InFlight,
        calls: &CodeCalls<'_>,
        steps: &mut Steps,
        idle: Option<u64>,
    ) -> Next {
        loop {
            let (cb, name, input, only_tools) = match flight.next().await {
                Event::Callback { cb, op: Op::Step { .. } | Op::StateGet { .. } | Op::StateSet { .. } }
                    if self.is_program() =>
                {
                    let message = "a program of a model has neither steps nor state: use variables";
                    fail(flight, cb, &Failure::new(FailureKind::Definition, message));
                    continue;
                }
                Event::Callback { cb, op: Op::Step { name } } => return Next::Step { cb, name },
                Event::Callback { cb, op: Op::StateGet { name } } => {
                    return Next::State { cb, name, value: None };
                }
                Event::Callback { cb, op: Op::StateSet { name, value } } => {
                    return Next::State { cb, name, value: Some(value) };
                }
                // A program calls what its model is shown.
                Event::Callback { cb, op: Op::Call { name, input } } => (cb, name, input, self.is_program()),
                Event::Callback { cb, op: Op::CallTool { name, input } } => (cb, name, input, true),
                Event::StepEnd { cb, value, error } => {
                    let result = match error {
                        None => Ok(value),
                        Some(error) => Err(self.explain(&error, flight)),
                    };
                    if let Some(step) = steps.remove(&cb) {
                        let _ = step.send(result);
                    }
                    continue;
                }
                Event::Log(_) => continue,
                Event::Idle(number) if Some(number) == idle => return Next::Idle,
                Event::Idle(_) => continue,
                Event::Result(value, blobs) => return Next::Done { value, blobs },
                Event::Failed(error) => return Next::Failed(error),
                Event::Died(death) => return Next::Died(death),
            };
            match calls.find(&name, input, only_tools) {
                Ok(call) => return Next::Call { cb, call },
                Err(failure) => fail(flight, cb, &failure),
            }
        }
    }

    /// Formats the message about a time limit. It depends on the limit alone: a resume must fail with the same words.
    fn out_of_time(&self, limit: Duration, is_of_call: bool) -> String {
        let name = &self.tool.name;
        let seconds = limit.as_secs_f64();
        if self.is_program() {
            // A limit of its own is one of the whole program.
            let of = if is_of_call { "in all (`timeout`)" } else { "between two calls" };
            return format!(
                "The program was stopped: it did not make its next call or return in time. It may work for {seconds} s \
                 {of}, or less where the time limit of its worker ends before that."
            );
        }
        format!(
            "`{name}` was stopped: it did not make its next call or return in time. It may work for {seconds} s between \
             two calls, or less where its own time limit or that of its worker ends before that. Do less work between calls, or move \
             long work into a tool without a ToolContext."
        )
    }

    fn died(&self, Death { reason, alone }: &Death) -> String {
        let name = if self.is_program() { "the program" } else { &self.tool.name };
        match alone {
            true => format!("`{name}` ended the process that it ran in: {reason}"),
            false => format!(
                "`{name}` failed because the process that it shared with other calls has ended: {reason}"
            ),
        }
    }
}

impl Leaf for HostedTool {
    fn effects(&self, input: &Value) -> Effects {
        self.effects(input)
    }

    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(self.identity())
    }

    fn turn(&self) -> BoxFuture<'_, Turn> {
        Box::pin(async move {
            match self.tool.sharing() {
                Sharing::InTurn => {
                    let turns = self.python.turns(&self.reach);
                    Turn(Some(Box::new(turns.grant(self.tool.is_async).await)))
                }
                Sharing::Beside | Sharing::Own => Turn(None),
            }
        })
    }

    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // Of a process of its own each call has another.
            if !matches!(self.tool.sharing(), Sharing::Own) {
                self.python.ready(&self.reach).await;
            }
        })
    }

    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments = self.arguments(call.input).map_err(ToolError::new)?;
            let given = self.python.given(&self.reach)?;
            // A function without a context does not see the mode.
            let context = self.context(call.run, "", call.idempotency_key, Mode::default(), &given);
            let seat = match self.tool.sharing() {
                Sharing::InTurn => match self.python.turns(&self.reach).take_granted() {
                    Some(turn) => Seat::Turn(Arc::new(turn)),
                    None => return Err(ToolError::new("its turn was not waited for")),
                },
                Sharing::Beside => Seat::Beside,
                Sharing::Own => self.alone(),
            };
            let mut flight = self.begin(&arguments, &context, seat, Some(START)).await?;
            let result = loop {
                match flight.next().await {
                    Event::Result(value, blobs) => break Ok((value, blobs)),
                    Event::Failed(error) => break Err(self.explain(&error, &mut flight)),
                    Event::Died(death) => break Err(self.died(&death)),
                    Event::Callback { cb, .. } => {
                        let message = "only a function that takes a ToolContext makes calls";
                        flight.ongoing().reply(cb, Answer::Error { kind: "definition".into(), message });
                    }
                    Event::StepEnd { .. } | Event::Log(_) | Event::Idle(_) => {}
                }
            };
            let log = flight.take_log();
            match result {
                Ok((value, blobs)) => Ok(ToolOutput { value, blobs, log, origins: None }),
                Err(message) => Err(ToolError { message, log }),
            }
        })
    }
}

/// A call or a step of the code that has ended.
enum Answered {
    Call { cb: u64, outcome: Result<Outcome, Halt> },
    Step { cb: u64, result: Result<Arc<Value>, Stop> },
}

/// The next act of code that makes calls.
enum Next {
    Call {
        cb: u64,
        call: CodeCall,
    },
    Step {
        cb: u64,
        name: String,
    },
    /// Reads a value of the package's state, or sets it.
    State {
        cb: u64,
        name: String,
        value: Option<Value>,
    },
    Done {
        value: Value,
        blobs: Vec<Blob>,
    },
    Failed(CodeError),
    Died(Death),
    /// The code waits for answers. Only [`Orchestration::until_idle`] asks for this.
    Idle,
}

impl Composite for HostedTool {
    fn effects(&self, input: &Value) -> Effects {
        self.effects(input)
    }

    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        Box::pin(self.identity())
    }

    fn knows_origins(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(async move {
            let failed = |kind, message: String| Outcome::free(End::Failed(Failure::new(kind, message)));
            let arguments = match self.arguments(call.input) {
                Ok(arguments) => arguments,
                Err(message) => return Ok(failed(FailureKind::InvalidInput, message)),
            };
            let given = match self.python.given(&self.reach) {
                Ok(given) => given,
                Err(error) => return Ok(failed(FailureKind::Tool, error.0)),
            };
            let run = &call.engine.host().run;
            let worker = call.frame.worker().map_or("", |worker| &worker.id);
            let context = self.context(
                run,
                worker,
                &format!("{run}:{}", call.path),
                call.engine.host().gate.mode,
                &given,
            );
            let calls = CodeCalls::new(call.engine, call.frame, call.path, &self.meta);
            let calls = calls.within(call.bounds.cloned());
            // The deadlines of its frame hold a limit of its own. The default bounds only the work between two calls.
            let limit = call.timeout.unwrap_or(self.work);
            // The limit does not include the wait for its turn.
            let seat = match self.tool.sharing() {
                Sharing::InTurn => {
                    let turns = self.python.turns(&self.reach);
                    let driver = &*call.engine.host().driver;
                    let turn = call.frame.untimed(driver, turns.begin(self.tool.is_async)).await;
                    Seat::Turn(Arc::new(turn))
                }
                Sharing::Beside => Seat::Beside,
                Sharing::Own => self.alone(),
            };
            let turn = match &seat {
                Seat::Turn(turn) => Some(Arc::clone(turn)),
                Seat::Beside | Seat::Alone | Seat::Once => None,
            };
            let begun = calls.work(limit, Box::pin(self.begin(&arguments, &context, seat, None))).await?;
            let flight = match begun {
                Some(Ok(flight)) => flight,
                Some(Err(error)) => return Ok(failed(FailureKind::Tool, error.message)),
                None => {
                    return Ok(failed(FailureKind::Timeout, self.out_of_time(limit, call.timeout.is_some())));
                }
            };
            let mut orchestration = Orchestration {
                tool: self,
                call: &call,
                calls: &calls,
                limit,
                waits: Arc::new(Waits::new(turn)),
                flight,
                usage: Usage::default(),
                blobs: Vec::new(),
            };
            let end = orchestration.run().await;
            let usage = orchestration.usage;
            if let Some(log) = orchestration.flight.take_log() {
                calls.print(&log)?;
            }
            let blobs = std::mem::take(&mut orchestration.blobs);
            Ok(calls.outcome(end?, usage, blobs))
        })
    }
}

/// A running function that makes calls.
struct Orchestration<'a, 'c> {
    tool: &'a HostedTool,
    call: &'a CompositeCall<'c>,
    calls: &'a CodeCalls<'c>,
    /// The time that the code may work between two calls.
    limit: Duration,
    waits: Arc<Waits>,
    flight: InFlight,
    usage: Usage,
    blobs: Vec<Blob>,
}

/// The receivers of the values of running steps, by callback.
type Steps = HashMap<u64, oneshot::Sender<Result<Value, String>>>;

impl<'a> Orchestration<'a, '_> {
    /// Serves the code until it ends. No clock and no timer decides here: `CodeCalls::work` records whether the code
    /// was in time (`docs/reference/journal.md`), and each call and step has deadlines of its own. A cancelled run ends
    /// each of these waits.
    async fn run(&mut self) -> Result<End, Halt> {
        let mut working: FuturesUnordered<BoxFuture<'a, Answered>> = FuturesUnordered::new();
        let mut steps = Steps::new();
        let mut waiting: Vec<Waiting> = Vec::new();
        // Calls of a program that runs again which have no record, while others have and are not made yet.
        let mut ahead: Vec<(u64, CodeCall)> = Vec::new();
        loop {
            if ahead.first().is_some_and(|(_, call)| !self.calls.is_ahead(call)) {
                for (cb, call) in std::mem::take(&mut ahead) {
                    working.push(self.make(cb, call));
                }
            }
            let next = if let (true, Some((_, first))) = (working.is_empty(), ahead.first()) {
                match self.until_idle(&mut steps).await? {
                    None | Some(Next::Idle) => return Err(self.calls.diverged(first)),
                    // Such a step is there in each execution, as below.
                    Some(next) => self.calls.work(self.limit, Box::pin(ready(next))).await?,
                }
            } else if working.is_empty() {
                if !waiting.is_empty() {
                    return Ok(End::Suspended(waiting));
                }
                let code = self.tool.next(&mut self.flight, self.calls, &mut steps, None);
                self.calls.work(self.limit, Box::pin(code)).await?
            } else {
                let next = tokio::select! {
                    biased;
                    Some(answered) = working.next() => {
                        match self.answer(answered, &mut waiting)? {
                            Some(end) => return Ok(end),
                            None => continue,
                        }
                    }
                    next = self.tool.next(&mut self.flight, self.calls, &mut steps, None) => next,
                };
                // The time in which calls are under way has no limit of its own. The step is there in each execution,
                // because in another one these calls may have ended before.
                self.calls.work(self.limit, Box::pin(ready(next))).await?
            };
            let Some(next) = next else {
                let message = self.tool.out_of_time(self.limit, self.call.timeout.is_some());
                return Ok(End::Failed(Failure::new(FailureKind::Timeout, message)));
            };
            let calls = self.calls;
            match next {
                Next::Call { cb, call } if self.tool.is_program() && calls.is_ahead(&call) => {
                    ahead.push((cb, call));
                }
                Next::Call { cb, call } => working.push(self.make(cb, call)),
                Next::Idle => {}
                Next::Step { cb, name } => working.push(self.step(cb, name, &mut steps)),
                Next::State { cb, name, value } => working.push(self.state(cb, name, value)),
                Next::Done { value, blobs } => {
                    self.blobs = blobs;
                    return Ok(End::Done(Arc::new(self.call.engine.host().redact.value(value))));
                }
                Next::Failed(error) => {
                    let message = self.tool.explain(&error, &mut self.flight);
                    let message = self.call.engine.host().redact.text(&message).into_owned();
                    return Ok(End::Failed(Failure::new(FailureKind::Tool, message)));
                }
                Next::Died(death) => {
                    return Ok(End::Failed(Failure::new(FailureKind::Tool, self.tool.died(&death))));
                }
            }
        }
    }

    /// Makes a call.
    fn make(&self, cb: u64, call: CodeCall) -> BoxFuture<'a, Answered> {
        self.waits.begin();
        let (calls, waits, function) = (self.calls, Arc::clone(&self.waits), self.call);
        Box::pin(async move {
            let outcome = calls.make(call).await;
            waits.end(function).await;
            Answered::Call { cb, outcome }
        })
    }

    /// Returns the next act of the code, or `None` if it neither acts nor waits within the limit.
    async fn until_idle(&mut self, steps: &mut Steps) -> Result<Option<Next>, Halt> {
        let number = self.flight.ongoing().ask_idle();
        let mut found = None;
        let next = async {
            let next = self.tool.next(&mut self.flight, self.calls, steps, Some(number));
            found = tokio::time::timeout(self.limit, next).await.ok();
        };
        self.call.engine.host().driver.unrecorded(Box::pin(next)).await?;
        Ok(found)
    }

    /// Begins a step of the code: asks the code to run it, unless its record exists.
    fn step(&mut self, cb: u64, name: String, steps: &mut Steps) -> BoxFuture<'a, Answered> {
        let (sender, ended) = oneshot::channel();
        steps.insert(cb, sender);
        let (calls, meta, go) = (self.calls, &self.tool.meta, self.flight.ongoing().replier());
        Box::pin(async move {
            let run = Box::pin(async move {
                go.reply(cb, Answer::Go(true));
                ended.await.unwrap_or_else(|_| Err("the step was not finished".to_owned()))
            });
            Answered::Step { cb, result: calls.step(meta, &name, run).await }
        })
    }

    /// Reads or sets a value of the package's state.
    fn state(&self, cb: u64, name: String, value: Option<Value>) -> BoxFuture<'a, Answered> {
        let (calls, meta) = (self.calls, &self.tool.meta);
        Box::pin(async move {
            let result = match value {
                Some(value) => calls.set_state(meta, &name, value).await,
                None => calls.state(meta, &name).await,
            };
            Answered::Step { cb, result }
        })
    }

    /// Gives the code the answer to a call or a step, or ends the function if the code can't continue.
    fn answer(&mut self, answered: Answered, waiting: &mut Vec<Waiting>) -> Result<Option<End>, Halt> {
        match answered {
            Answered::Step { cb, result } => match result {
                Ok(value) => self.flight.ongoing().reply(cb, Answer::Value(&value)),
                // The code still runs the step, and hears nothing before its end.
                Err(Stop::Failed(failure)) if failure.kind == FailureKind::Timeout => {
                    return Ok(Some(End::Failed(failure)));
                }
                Err(Stop::Failed(failure)) => fail(&mut self.flight, cb, &failure),
                Err(Stop::Suspended(asks)) => waiting.extend(asks),
                Err(Stop::Halt(halt)) => return Err(halt),
            },
            Answered::Call { cb, outcome } => {
                let Outcome { end, usage, .. } = outcome?;
                self.usage = self.usage.plus(usage);
                match end {
                    End::Done(value) => self.flight.ongoing().reply(cb, Answer::Value(&value)),
                    End::Failed(failure) => fail(&mut self.flight, cb, &failure),
                    // The answer is not known before the operator has decided.
                    End::Suspended(asks) => waiting.extend(asks),
                }
            }
        }
        Ok(None)
    }
}

fn fail(flight: &mut InFlight, cb: u64, failure: &Failure) {
    let kind = serde_json::to_value(failure.kind).ok();
    let kind = kind.as_ref().and_then(Value::as_str).unwrap_or("tool").to_owned();
    flight.ongoing().reply(cb, Answer::Error { kind, message: &failure.message });
}

#[cfg(test)]
mod tests;
