//! Calls that code makes on behalf of a worker (`docs/guides/python-tools.md`). They go through the same engine, on the
//! tool's behalf.

use crate::{
    account::Wanted,
    call_bounds::CallBounds,
    call_path::CallPath,
    call_spec::{CallSpec, Callee},
    definition::WorkerDefinition,
    driver::{CutOff, Step, StepEnd},
    engine::{Engine, Frame},
    function::{Function, FunctionMeta, tool_name},
    journal::{RecordKind, UsedDefinition},
    ledger::{Budgets, reserve},
    model::{Blob, Usage},
    origin::{Content, ContentKind, Origins, Trail},
    outcome::Ending,
    outcome::{End, Failure, FailureKind, Halt, Outcome, Stop},
    question::Settlement,
    risk::Risk,
    schema::{canonical, sha256},
    send::{BoxFuture, MaybeSend},
    source::FunctionSource,
    step_name::StepName,
    worker,
};
use serde_json::Value;
use std::{
    collections::HashMap,
    future::ready,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

/// Describes the tools that code can call, in an error about a name that is none of them.
fn named(own: &[&Function]) -> String {
    match own.iter().map(|function| &*function.meta.name).collect::<Vec<_>>().as_slice() {
        [] => "there are none: a tool needs its toolset under `toolsets`".to_owned(),
        names => format!("there are: {}. Another one needs its toolset under `toolsets`", names.join(", ")),
    }
}

/// Maximum nesting of calls by code. Infinite recursion of code stops here, since only workers count for the depth of
/// delegation.
const MOST_NESTED: usize = 64;

/// Maximum number of steps and calls of one execution of a function of code. Each of them writes records, and code may
/// make them in an endless loop.
const MOST_EFFECTS: u32 = 20_000;
/// Maximum size of the results of its steps, all together, in bytes of JSON.
const MOST_BYTES: u64 = 64 << 20;
/// Maximum size of one value of the state of a package, in bytes of JSON.
const MOST_STATE_BYTES: u64 = 1 << 20;

/// The calls that one execution of a function of code makes. The key of each consists of the function, the arguments
/// and an occurrence count, so that threads may interleave and a resumed run finds its records
/// (`docs/reference/journal.md`).
pub struct CodeCalls<'a> {
    engine: &'a Engine,
    frame: Frame,
    path: &'a CallPath,
    package: FunctionSource,
    made: Mutex<HashMap<String, u32>>,
    /// The calls that the code may make. Without bounds it may call everything that its worker may.
    bounds: Option<Arc<CallBounds>>,
    /// The contents that the code has received: its arguments and the results of its calls.
    trail: Mutex<Trail>,
    /// Number of times that the engine has waited for the code.
    worked: AtomicU32,
    /// Number of steps and calls up to now.
    effects: AtomicU32,
    /// Size of the results of its steps so far.
    bytes: AtomicU64,
}

/// The result of a step, from its record.
struct Kept {
    path: CallPath,
    value: Arc<Value>,
    origins: Origins,
    /// The time of the record.
    at_ms: u64,
}

/// A call that code is about to make.
pub struct CodeCall {
    spec: CallSpec,
    function: Function,
    definition: Option<Arc<WorkerDefinition>>,
}

impl<'a> CodeCalls<'a> {
    /// Creates the calls for the execution of `function` at `path`, called from `frame`.
    pub fn new(engine: &'a Engine, frame: &Frame, path: &'a CallPath, function: &FunctionMeta) -> Self {
        let package = match &function.source {
            FunctionSource::Toolset(_) => FunctionSource::Program,
            source => source.clone(),
        };
        Self {
            engine,
            frame: frame.on_behalf(function.id()),
            path,
            package,
            made: Mutex::default(),
            bounds: None,
            trail: Mutex::new(frame.trail().clone()),
            worked: AtomicU32::new(0),
            effects: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Limits the calls to these bounds, whatever the code does.
    #[must_use]
    pub fn within(self, bounds: Option<Arc<CallBounds>>) -> Self {
        Self { bounds, ..self }
    }

    /// Counts a call of a function, if the calls have bounds.
    fn bounded(&self, function: &FunctionMeta) -> Result<(), Failure> {
        let Some(bounds) = &self.bounds else { return Ok(()) };
        let (name, most) = (&function.tool_name, bounds.most(&function.tool_name));
        let message = match most {
            0 => format!(
                "`{name}` was not called: the program was checked and approved for other calls ({bounds})"
            ),
            _ if u64::from(self.count(&format!("bound {name}"))) < most => return Ok(()),
            _ => format!(
                "`{name}` was not called again: the program was checked and approved for at most {most} calls of it"
            ),
        };
        Err(Failure::new(FailureKind::Limit, message))
    }

    /// Counts a step or a call.
    fn effect(&self, name: &str) -> Result<(), Failure> {
        if self.effects.fetch_add(1, Ordering::Relaxed) < MOST_EFFECTS {
            return Ok(());
        }
        let message = format!(
            "`{name}` was not run: one call of a function makes {MOST_EFFECTS} steps and calls at most. Do more in one \
             step, or divide the work between several calls"
        );
        Err(Failure::new(FailureKind::Limit, message))
    }

    /// The end of a step with this result, which may be too large.
    fn ending(&self, name: &str, value: Value) -> Ending {
        if self.bytes.load(Ordering::Relaxed).saturating_add(size(&value)) <= MOST_BYTES {
            return Ending::Output(Arc::new(value));
        }
        let message = format!(
            "the step `{name}` ran, but its result is not kept: the results of all steps of one call are {} MiB at most. \
             Return less from steps, such as the path of a file",
            MOST_BYTES >> 20
        );
        Ending::Failure(Failure::new(FailureKind::Limit, message))
    }

    /// A key for an effect of code, distinct from earlier effects of the same name.
    fn key(&self, name: &str) -> String {
        format!("{name}.{}", self.count(name))
    }

    /// Returns the number of earlier effects of that name, and counts this one.
    fn count(&self, name: &str) -> u32 {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let count = made.entry(name.to_owned()).or_default();
        let before = *count;
        *count += 1;
        before
    }

    /// Resolves a name that code calls: a tool of the worker that it runs for, or a worker by the rules of its own
    /// package. Library code can't use its caller's tools: neither author knows the other.
    ///
    /// # Errors
    /// The name does not resolve, or the arguments don't fit. The code receives the error.
    pub fn find(&self, name: &str, input: Value, only_tools: bool) -> Result<CodeCall, Failure> {
        let refuse = |kind, message: String| Err(Failure::new(kind, message));
        self.effect(name)?;
        if self.path.depth() >= MOST_NESTED {
            let message =
                format!("`{name}` would be the {MOST_NESTED}th call within a call; that is too deep");
            return refuse(FailureKind::Limit, message);
        }
        let own: Vec<&Function> = match self.package {
            FunctionSource::Library(_) => {
                self.frame.functions().iter().filter(|f| f.meta.source == self.package).collect()
            }
            _ => self.frame.functions().iter().collect(),
        };
        let definitions = &*self.engine.host().definitions;
        let is_tool = |f: &&&Function| only_tools || f.meta.risk != Risk::Delegate;
        let is_named = |f: &&&Function| *f.meta.name == *name || *f.meta.tool_name == *name;
        let (function, definition, callee, input) = match own.iter().filter(is_tool).find(is_named) {
            Some(function) => {
                let input = if input.is_null() { Value::Object(Default::default()) } else { input };
                ((**function).clone(), None, Callee::Function(function.meta.id()), input)
            }
            None if only_tools => {
                let message = format!("there is no tool `{name}`; {}", named(&own));
                return refuse(FailureKind::Definition, message);
            }
            None => match definitions.named_by(&self.package, name) {
                Ok(callee) => {
                    let input = match callee.signature.arguments(Some(&input)) {
                        Ok(arguments) => Value::Object(arguments),
                        Err(error) => {
                            return refuse(FailureKind::InvalidInput, format!("`{name}`: {error}."));
                        }
                    };
                    let function = worker::called_by(&self.frame, definitions, &callee, name, false, None);
                    let named = Callee::Named { package: self.package.clone(), reference: name.into() };
                    (function, Some(callee), named, input)
                }
                Err(error) => {
                    let message = format!("{error}\nAs for tools, {}", named(&own));
                    return refuse(FailureKind::Definition, message);
                }
            },
        };
        self.bounded(&function.meta)?;
        let hash = sha256(canonical(&input).as_bytes());
        // Worker names contain slashes, which separate the components of a path.
        let key = self.key(&format!("{}#{}", tool_name(name), &hash[..12]));
        let spec = CallSpec { path: self.path.keyed(&key), callee, input: Arc::new(input) };
        Ok(CodeCall { spec, function, definition })
    }

    /// Returns true if a call has no record, while a call that the code made before the run was resumed is still to be
    /// made again. Code that takes another path than before must not have a further effect.
    pub fn is_ahead(&self, call: &CodeCall) -> bool {
        let driver = &*self.engine.host().driver;
        driver.recorded_origins(&call.spec.path).is_none() && driver.left_out(self.path).is_some()
    }

    /// The error for code that waits for calls which are ahead ([`CodeCalls::is_ahead`]), and which has no other way to
    /// continue.
    pub fn diverged(&self, ahead: &CodeCall) -> Halt {
        let left_out = self.engine.host().driver.left_out(self.path);
        let left_out = left_out.map_or_else(String::new, |path| format!(" at {path}"));
        let reason = format!(
            "the call{left_out} was recorded, and the program, which runs again, calls `{}` instead of it: it took another \
             path. That call was not made. Programs must not depend on the time, on random numbers or on the order of a set",
            ahead.function.meta.name
        );
        Halt::Diverged { path: self.path.clone(), step: StepName::Call, reason }
    }

    /// Makes the call.
    ///
    /// # Errors
    /// Only errors that end the run.
    pub async fn make(&self, call: CodeCall) -> Result<Outcome, Halt> {
        if let Some(account) = self.frame.ledger() {
            let driver = &*self.engine.host().driver;
            let wanted = Wanted { calls: 1, ..Wanted::default() };
            let budgets = Budgets::of_run(account);
            if let Err(stop) = reserve(budgets, driver, &call.spec.path, StepName::ReserveCall, wanted).await
            {
                return Ok(Outcome::free(stop.end()?));
            }
        }
        if let Some(callee) = &call.definition {
            let used = RecordKind::Definition(UsedDefinition::of(callee));
            self.engine.host().driver.record(&call.spec.path, "definition".into(), used)?;
        }
        let (path, input) = (call.spec.path.clone(), Arc::clone(&call.spec.input));
        let frame = self.frame.after(self.trail());
        let outcome = worker::caller::call(self.engine, &frame, call.spec, Some(&call.function)).await?;
        for said in Content::said(&path, &call.function.meta.name, &outcome.said) {
            self.receive(said)?;
        }
        if let Some(content) = Content::of_outcome(path, &call.function.meta, &outcome, &input) {
            self.receive(content.shortened())?;
        }
        Ok(outcome)
    }

    fn trail(&self) -> Trail {
        self.trail.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a content. From the first untrusted content on, everything that the code writes may repeat it.
    fn receive(&self, content: Content) -> Result<(), Halt> {
        let becomes_tainted = content.origins.is_untrusted() && !self.trail().is_tainted();
        if becomes_tainted {
            self.engine.list_writable(self.frame.authority())?;
        }
        self.trail.lock().unwrap_or_else(PoisonError::into_inner).push(content);
        Ok(())
    }

    /// The outcome of the code's execution. The contents that it received determine the origins of its result.
    pub fn outcome(&self, end: End, usage: Usage, blobs: Vec<Blob>) -> Outcome {
        let trail = self.trail();
        let (origins, said) = (trail.ends(&end), trail.said_since(self.frame.trail()));
        Outcome { blobs, origins, said, ..Outcome::of(end, usage) }
    }

    /// Waits for the code's next call or its end. `limit` and the deadlines of its callers apply; `None` if one of
    /// them expired first.
    ///
    /// This is a step, `work.0`, `work.1` and so on, because a time limit is a decision. A live run measures the time
    /// and records whether it sufficed. A resumed run reads that from the record and waits for as long as the code
    /// takes, so that a slower machine gives the same result. Each execution must wait in the same order: once for
    /// each call that the code makes, and once for its end.
    ///
    /// # Errors
    /// Only errors that end the run.
    pub async fn work<T: MaybeSend>(
        &self,
        limit: Duration,
        mut code: BoxFuture<'_, T>,
    ) -> Result<Option<T>, Halt> {
        let driver = &*self.engine.host().driver;
        let name = StepName::Work(self.worked.fetch_add(1, Ordering::Relaxed));
        let left = self.frame.remaining(driver).await;
        let mut result = None;
        let stepped = driver
            .step(Step {
                path: self.path,
                name: name.clone(),
                intent: None,
                deadline: Some(left.map_or(limit, |left| left.min(limit))),
                cut_off: CutOff::Again,
                run: Box::pin(async {
                    result = Some((&mut code).await);
                    RecordKind::Worked
                }),
            })
            .await?;
        match stepped.end {
            StepEnd::TimedOut => return Ok(None),
            StepEnd::Done(RecordKind::Worked) => {}
            StepEnd::Done(other) => return Err(Halt::unexpected(self.path, &name, &other)),
        }
        if result.is_none() {
            driver.unrecorded(Box::pin(async { result = Some(code.await) })).await?;
        }
        Ok(result)
    }

    /// Runs an effect of the code as a named step: only once, also if the run is resumed
    /// (`docs/guides/python-tools.md`). The approval of the call covers the step, and the step has the call's risk.
    /// `run` is not polled if its record exists. The deadlines of its callers apply, with a failure of the kind
    /// [`FailureKind::Timeout`].
    ///
    /// # Errors
    /// The effect failed, the step was interrupted and waits for the operator, or the run can't continue.
    pub async fn step(
        &self,
        function: &FunctionMeta,
        name: &str,
        run: BoxFuture<'_, Result<Value, String>>,
    ) -> Result<Arc<Value>, Stop> {
        let run = Box::pin(async move { run.await.map(|value| (value, Origins::TRUSTED)) });
        Ok(self.keyed(function, name, run).await?.value)
    }

    /// Reads a value that the functions of the code's package share in this run, as a step; null if there is none. A
    /// value that follows from untrusted content makes the code's own words untrusted.
    ///
    /// # Errors
    /// The errors of [`CodeCalls::step`].
    pub async fn state(&self, function: &FunctionMeta, name: &str) -> Result<Arc<Value>, Stop> {
        let shared = self.engine.host().driver.shared();
        let step = format!("state get {name}");
        let run = async {
            let found = shared.state(&self.package, name).await;
            let (value, origins) = found.unwrap_or((Arc::new(Value::Null), Origins::TRUSTED));
            Ok((Value::clone(&value), origins))
        };
        let Kept { path, value, origins, .. } =
            self.keyed(&repeatable(function), &step, Box::pin(run)).await?;
        let kind = ContentKind::Result;
        let content = Content {
            kind,
            call: path,
            function: step.into(),
            value: Arc::clone(&value),
            origins,
            source: None,
        };
        self.receive(content.shortened())?;
        Ok(value)
    }

    /// Sets a value that the functions of the code's package share in this run, as a step. The value that is recorded
    /// last counts.
    ///
    /// # Errors
    /// The value is too large, and the errors of [`CodeCalls::step`].
    pub async fn set_state(
        &self,
        function: &FunctionMeta,
        name: &str,
        value: Value,
    ) -> Result<Arc<Value>, Stop> {
        let bytes = size(&value);
        if bytes > MOST_STATE_BYTES {
            let message = format!(
                "`{name}` was not set: a value of the state has {MOST_STATE_BYTES} bytes of JSON at most, and this one has \
                 {bytes}. Keep large values in a file and its path in the state"
            );
            return Err(Failure::new(FailureKind::Limit, message).into());
        }
        let run = Box::pin(ready(Ok((value, Origins::TRUSTED))));
        let step = format!("state set {name}");
        let Kept { value, at_ms, .. } = self.keyed(&repeatable(function), &step, run).await?;
        let origins = self.trail().emits(&value);
        let shared = self.engine.host().driver.shared();
        shared.set_state(&self.package, name, Arc::clone(&value), origins, at_ms).await;
        Ok(value)
    }

    /// Runs an effect of the code as a step with a key.
    async fn keyed(
        &self,
        function: &FunctionMeta,
        name: &str,
        run: BoxFuture<'_, Result<(Value, Origins), String>>,
    ) -> Result<Kept, Stop> {
        self.effect(name)?;
        let host = self.engine.host();
        let path = self.path.keyed(&self.key(&format!("step-{}", tool_name(name))));
        let step = name;
        let name: Arc<str> = name.into();
        host.driver.record(
            &path,
            StepName::Call,
            RecordKind::CallStarted {
                function: Arc::clone(&name),
                source: function.source.clone(),
                principal: self.frame.principal(),
                input: Arc::new(Value::Null),
                origins: Default::default(),
            },
        )?;
        let question = |risk| Settlement {
            chain: self.frame.chain(),
            function: Arc::clone(&name),
            risk,
            input: Arc::new(Value::Null),
        };
        let cut_off =
            self.engine.settle(&self.frame, &path, &StepName::Tool(0), question, async || None).await?;
        let deadline = self.frame.remaining(&*host.driver).await;
        let stepped = host
            .driver
            .step(Step {
                path: &path,
                name: StepName::Tool(0),
                intent: Some(RecordKind::ToolStarted {
                    function: Arc::clone(&name),
                    risk: function.risk,
                    idempotency_key: format!("{}:{path}", host.run).into(),
                }),
                deadline,
                cut_off,
                run: Box::pin(async move {
                    let (ending, origins) = match run.await {
                        Ok((value, origins)) => (self.ending(step, host.redact.value(value)), origins),
                        Err(message) => {
                            let message = host.redact.text(&message).into_owned();
                            let failure = Failure::new(FailureKind::Tool, message);
                            (Ending::Failure(failure), Origins::TRUSTED)
                        }
                    };
                    RecordKind::ToolEnded { ending, blobs: Vec::new(), log: None, origins, mixed: false }
                }),
            })
            .await?;
        match stepped.end {
            StepEnd::Done(RecordKind::ToolEnded { ending: Ending::Output(value), origins, .. }) => {
                self.bytes.fetch_add(size(&value), Ordering::Relaxed);
                Ok(Kept { path, value, origins, at_ms: stepped.at_ms })
            }
            StepEnd::Done(RecordKind::ToolEnded { ending: Ending::Failure(failure), .. }) => {
                Err(failure.into())
            }
            StepEnd::Done(other) => Err(Halt::unexpected(&path, &StepName::Tool(0), &other).into()),
            StepEnd::TimedOut => {
                let message = format!("the step `{step}` did not end within the time left to its worker");
                Err(Stop::failed(FailureKind::Timeout, message))
            }
        }
    }

    /// Writes the code's printed output to the journal.
    ///
    /// # Errors
    /// The journal can't be written.
    pub fn print(&self, text: &str) -> Result<(), Halt> {
        let text = self.engine.host().redact.text(text).into_owned();
        let number = self.count("log");
        self.engine.host().driver.record(
            self.path,
            StepName::Log(number),
            RecordKind::Note { text: text.into() },
        )
    }
}

/// The function as a step that can be run again, whatever the function itself does.
fn repeatable(function: &FunctionMeta) -> FunctionMeta {
    FunctionMeta { risk: Risk::Read, ..function.clone() }
}

/// Size of a value as JSON.
fn size(value: &Value) -> u64 {
    canonical(value).len() as u64
}
