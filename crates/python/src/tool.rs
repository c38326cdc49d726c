//! A Python function as a function of the engine.

use crate::{
    call::InFlight,
    discovery::ExposedTool,
    explain,
    host::Event,
    python::{Given, Python},
    view::Reach,
    wire::{Answer, Context, Module, Op, ToHost, Trouble},
};
use futures_util::stream::{FuturesUnordered, StreamExt};
use llm_do_core::{
    authority::Access,
    engine::{CodeCalls, End, Failure, FailureKind, Halt, Outcome},
    function::{
        Composite, CompositeCall, Effects, FunctionMeta, Leaf, LeafCall, RuleCode, ToolError, ToolOutput,
        Touch,
    },
    gate::{Mode, Rule},
    model::{Blob, Usage},
    operator::Ask,
    schema::Schema,
    send::BoxFuture,
};
use serde_json::{Value, json};
use std::{collections::HashMap, sync::Arc, time::Duration};
use tokio::{sync::oneshot, time::Instant};

/// How long a function that orchestrates may work without making a call, where no rule says otherwise: what a leaf has.
const OWN_WORK: Duration = llm_do_core::engine::LEAF_TIMEOUT;

/// How often a function that waits looks whether its run was ended.
const LOOK: Duration = Duration::from_millis(50);

/// One function of a module, for one worker.
pub(crate) struct PythonTool {
    pub(crate) python: Arc<Python>,
    pub(crate) reach: Reach,
    pub(crate) module: Module,
    pub(crate) tool: ExposedTool,
    /// What it is to the engine, for what it calls on its worker's behalf.
    pub(crate) meta: FunctionMeta,
    /// How its arguments come.
    pub(crate) takes: Takes,
}

/// How the arguments of a call become those of the function.
pub(crate) enum Takes {
    /// As they are: they have passed its schema.
    Arguments,
    /// They stand under `input`, and are a program's input: the function takes it as `input`, or its fields.
    Input(Arc<Schema>),
}

impl PythonTool {
    fn arguments<'a>(&self, input: &'a Value) -> Result<std::borrow::Cow<'a, Value>, String> {
        use std::borrow::Cow;
        let Takes::Input(schema) = &self.takes else { return Ok(Cow::Borrowed(input)) };
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
                Err(format!("the input doesn't fit `{}`:{list}", self.tool.function))
            }
        }
    }

    /// The paths among its arguments. Whether it reads or writes there its type does not say; its process can only do
    /// what the mount allows.
    fn effects(&self, input: &Value) -> Effects {
        let paths = self.tool.paths.iter().filter_map(|name| input.get(&**name)?.as_str());
        let touches = paths.map(|path| Touch { path: path.to_owned(), access: Access::Read, delete: false });
        Effects { touches: touches.collect(), ..Effects::default() }
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

    async fn begin(&self, arguments: &Value, context: &Context) -> Result<InFlight, ToolError> {
        let lease = self.python.lease(&self.reach, self.tool.is_async).await?;
        let needs_context = self.tool.context
            || !self.tool.plain
            || !self.tool.paths.is_empty()
            || !self.tool.returns_scalar();
        Ok(InFlight::begin(lease, |id| ToHost::Call {
            id,
            module: &self.module,
            function: &self.tool.function,
            args: arguments,
            plain: self.tool.plain,
            ctx: needs_context.then_some(context),
        }))
    }

    /// What the caller is told of a failure.
    async fn explain(&self, trouble: &Trouble, flight: &mut InFlight) -> String {
        match self.python.interpreter().await {
            Ok(interpreter) => {
                let given = self.python.given(&self.reach);
                let mut text =
                    explain::failure(trouble, &self.reach.package.root, &interpreter, given.as_deref().ok());
                text.push_str(&explain::network(trouble, &self.reach.network(), &flight.ongoing().denials()));
                text
            }
            Err(_) => trouble.message.clone(),
        }
    }

    fn died(&self, reason: &str) -> String {
        format!("`{}` ended the process that it ran in: {reason}", self.tool.name)
    }
}

impl Leaf for PythonTool {
    fn effects(&self, input: &Value) -> Effects {
        self.effects(input)
    }

    fn run<'a>(&'a self, call: LeafCall<'a>) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let arguments = self.arguments(call.input).map_err(ToolError::new)?;
            let given = self.python.given(&self.reach)?;
            let (run, _) = call.idempotency_key.split_once(':').unwrap_or_default();
            // What takes no context is told no mode.
            let context = self.context(run, "", call.idempotency_key, Mode::default(), &given);
            let mut flight = self.begin(&arguments, &context).await?;
            let result = loop {
                match flight.next().await {
                    Event::Result(value, blobs) => break Ok((value, blobs)),
                    Event::Failed(trouble) => break Err(self.explain(&trouble, &mut flight).await),
                    Event::Died(reason) => break Err(self.died(&reason)),
                    Event::Callback { cb, .. } => {
                        let message = "only a function that takes a ToolContext makes calls";
                        flight.ongoing().reply(cb, Answer::Error { kind: "definition".into(), message });
                    }
                    Event::StepEnd { .. } | Event::Log(_) => {}
                }
            };
            let log = flight.take_log();
            match result {
                Ok((value, blobs)) => Ok(ToolOutput { value, blobs, log }),
                Err(message) => Err(ToolError { message, log }),
            }
        })
    }
}

/// An `approval` function of a tool's author.
pub(crate) struct PythonRule {
    pub(crate) python: Arc<Python>,
    pub(crate) reach: Reach,
    pub(crate) module: Module,
    pub(crate) function: Arc<str>,
}

impl RuleCode for PythonRule {
    fn rule<'a>(&'a self, input: &'a Value) -> BoxFuture<'a, Result<Rule, String>> {
        Box::pin(async move {
            let lease = self.python.lease(&self.reach, false).await.map_err(|error| error.0)?;
            let (module, function) = (&self.module, &*self.function);
            let mut flight =
                InFlight::begin(lease, |id| ToHost::Approval { id, module, function, args: input });
            loop {
                match flight.next().await {
                    Event::Result(rule, _) => {
                        return serde_json::from_value(rule).map_err(|error| error.to_string());
                    }
                    Event::Failed(trouble) => return Err(trouble.message),
                    Event::Died(reason) => return Err(reason.to_string()),
                    Event::Callback { .. } | Event::StepEnd { .. } | Event::Log(_) => {}
                }
            }
        })
    }
}

/// A callback at work.
enum Answered {
    /// A call has ended.
    Call { cb: u64, outcome: Result<Outcome, Halt> },
    /// A step has ended.
    Step { cb: u64, result: Result<Result<Arc<Value>, Failure>, Halt> },
}

impl Composite for PythonTool {
    fn effects(&self, input: &Value) -> Effects {
        self.effects(input)
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
            let flight = match self.begin(&arguments, &context).await {
                Ok(flight) => flight,
                Err(error) => return Ok(failed(FailureKind::Tool, error.message)),
            };
            let calls = CodeCalls::new(call.engine, call.frame, call.path, &self.meta);
            let mut orchestration = Orchestration {
                tool: self,
                call: &call,
                calls: &calls,
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
            Ok(Outcome { end: end?, usage, blobs })
        })
    }
}

/// A function at work that makes calls.
struct Orchestration<'a, 'c> {
    tool: &'a PythonTool,
    call: &'a CompositeCall<'c>,
    calls: &'a CodeCalls<'c>,
    flight: InFlight,
    usage: Usage,
    blobs: Vec<Blob>,
}

impl<'a> Orchestration<'a, '_> {
    async fn run(&mut self) -> Result<End, Halt> {
        let driver = &self.call.engine.host().driver;
        let own = self.tool.meta.timeout.unwrap_or(OWN_WORK);
        let mut working: FuturesUnordered<BoxFuture<'a, Answered>> = FuturesUnordered::new();
        let mut steps: HashMap<u64, oneshot::Sender<Result<Value, String>>> = HashMap::new();
        let mut waiting: Vec<Ask> = Vec::new();
        let mut last = Instant::now();
        loop {
            if !waiting.is_empty() && working.is_empty() {
                return Ok(End::Suspended(waiting));
            }
            tokio::select! {
                biased;
                Some(answered) = working.next() => {
                    last = Instant::now();
                    self.answer(answered, &mut waiting)?;
                }
                event = self.flight.next() => match event {
                    Event::Result(value, blobs) => {
                        self.blobs = blobs;
                        return Ok(End::Done(Arc::new(self.call.engine.host().redact.value(value))));
                    }
                    Event::Failed(trouble) => {
                        let message = self.tool.explain(&trouble, &mut self.flight).await;
                        let message = self.call.engine.host().redact.text(&message).into_owned();
                        return Ok(End::Failed(Failure::new(FailureKind::Tool, message)));
                    }
                    Event::Died(reason) => {
                        return Ok(End::Failed(Failure::new(FailureKind::Tool, self.tool.died(&reason))));
                    }
                    Event::Callback { cb, op } => {
                        if let Some(future) = self.called_back(cb, op, &mut steps) {
                            working.push(future);
                        }
                    }
                    Event::StepEnd { cb, value, error } => {
                        let result = match error {
                            None => Ok(value),
                            Some(trouble) => Err(self.tool.explain(&trouble, &mut self.flight).await),
                        };
                        if let Some(step) = steps.remove(&cb) {
                            let _ = step.send(result);
                        }
                    }
                    Event::Log(_) => {}
                },
                () = tokio::time::sleep(LOOK) => {}
            }
            if driver.cancelled() {
                return Err(Halt::Cancelled);
            }
            if let Some(message) = self.out_of_time(!working.is_empty(), last, own) {
                return Ok(End::Failed(Failure::new(FailureKind::Timeout, message)));
            }
        }
    }

    /// Its worker's deadline, which waits for people don't count for; and its own time between calls.
    fn out_of_time(&self, calling: bool, last: Instant, own: Duration) -> Option<String> {
        let name = &self.tool.tool.name;
        let now = self.call.engine.host().driver.now_ms();
        if self.call.frame.remaining(now).is_some_and(|left| left.is_zero()) {
            return Some(format!("`{name}` ran out of its worker's working time and was stopped."));
        }
        (!calling && last.elapsed() > own).then(|| {
            format!("`{name}` did nothing but work of its own for {} s and was stopped.", own.as_secs())
        })
    }

    /// Begins what code asks for. `None` if that is answered already.
    fn called_back(
        &mut self,
        cb: u64,
        op: Op,
        steps: &mut HashMap<u64, oneshot::Sender<Result<Value, String>>>,
    ) -> Option<BoxFuture<'a, Answered>> {
        let calls = self.calls;
        let (name, input, only_tools) = match op {
            Op::Call { name, input } => (name, input, false),
            Op::CallTool { name, input } => (name, input, true),
            Op::Step { name } => {
                let (sender, ended) = oneshot::channel();
                steps.insert(cb, sender);
                let go = self.flight.ongoing().replier();
                let meta = &self.tool.meta;
                return Some(Box::pin(async move {
                    let run = Box::pin(async move {
                        go.reply(cb, Answer::Go(true));
                        ended.await.unwrap_or_else(|_| Err("the step was not finished".to_owned()))
                    });
                    Answered::Step { cb, result: calls.step(meta, &name, run).await }
                }));
            }
        };
        match calls.find(&name, input, only_tools) {
            Ok(found) => {
                Some(Box::pin(async move { Answered::Call { cb, outcome: calls.make(found).await } }))
            }
            Err(failure) => {
                self.fail(cb, &failure);
                None
            }
        }
    }

    fn answer(&mut self, answered: Answered, waiting: &mut Vec<Ask>) -> Result<(), Halt> {
        match answered {
            Answered::Step { cb, result } => match result? {
                Ok(value) => self.flight.ongoing().reply(cb, Answer::Value(&value)),
                Err(failure) => self.fail(cb, &failure),
            },
            Answered::Call { cb, outcome } => {
                let Outcome { end, usage, .. } = outcome?;
                self.usage = self.usage.plus(usage);
                match end {
                    End::Done(value) => self.flight.ongoing().reply(cb, Answer::Value(&value)),
                    End::Failed(failure) => self.fail(cb, &failure),
                    // What it would hear is not known before the operator has answered.
                    End::Suspended(asks) => waiting.extend(asks),
                }
            }
        }
        Ok(())
    }

    fn fail(&mut self, cb: u64, failure: &Failure) {
        let kind = serde_json::to_value(failure.kind).ok();
        let kind = kind.as_ref().and_then(Value::as_str).unwrap_or("tool").to_owned();
        self.flight.ongoing().reply(cb, Answer::Error { kind, message: &failure.message });
    }
}
