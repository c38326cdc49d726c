//! Calls that code makes while it works for a worker (SPEC §8.5): through the same engine, on the tool's behalf.

use super::{Call, End, Engine, Failure, FailureKind, Frame, Halt, Outcome};
use crate::{
    call_path::CallPath,
    driver::{CutOff, Step, StepEnd},
    function::{Function, FunctionMeta, FunctionSource, Risk, tool_name},
    journal::{Ending, RecordKind, UsedDefinition},
    ledger::{Wanted, reserve},
    schema::{canonical, sha256},
    send::BoxFuture,
    toolsets::workers::arguments,
    worker::{self, WorkerDefinition},
};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Most calls that may stand above one: code that calls itself without end is stopped here, since only workers count for
/// the depth of delegation.
const MOST_NESTED: usize = 64;

/// The calls that one execution of a function of code makes. Each has a key made of what is called, the arguments, and
/// how often that was called before, so that threads may interleave and a resumed run finds its records (SPEC §12).
pub struct CodeCalls<'a> {
    engine: &'a Engine,
    frame: Frame,
    path: &'a CallPath,
    package: FunctionSource,
    made: Mutex<HashMap<String, u32>>,
}

/// One call that code is about to make.
pub struct CodeCall {
    path: CallPath,
    function: Function,
    definition: Option<Arc<WorkerDefinition>>,
    input: Arc<Value>,
}

impl<'a> CodeCalls<'a> {
    /// For the execution of `function` at `path`, called from `frame`.
    pub fn new(engine: &'a Engine, frame: &Frame, path: &'a CallPath, function: &FunctionMeta) -> Self {
        let package = match &function.source {
            FunctionSource::Toolset(_) => FunctionSource::Program,
            source => source.clone(),
        };
        Self { engine, frame: frame.on_behalf(function), path, package, made: Mutex::default() }
    }

    /// A key for something that code does, told from what it did before under the same name.
    pub fn key(&self, name: &str) -> String {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let count = made.entry(name.to_owned()).or_default();
        let key = format!("{name}.{count}");
        *count += 1;
        key
    }

    /// Finds what code names: a tool of the worker that it works for, or a worker by the rules of its own package. Code
    /// of a library can't use the tools of whoever calls it: its author doesn't know them, nor they its author.
    ///
    /// # Errors
    /// Nothing of that name, or arguments that can't be its own: for the code to hear.
    pub fn find(&self, name: &str, input: Value, only_tools: bool) -> Result<CodeCall, Failure> {
        let refuse = |kind, message: String| Err(Failure::new(kind, message));
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
        let is_tool = |f: &&&Function| only_tools || f.meta.risk != Risk::Delegate;
        let is_named = |f: &&&Function| *f.meta.name == *name || *f.meta.tool_name == *name;
        let (function, definition, input) = match own.iter().filter(is_tool).find(is_named) {
            Some(function) => {
                let input = if input.is_null() { Value::Object(Default::default()) } else { input };
                ((**function).clone(), None, input)
            }
            None if only_tools => {
                let names: Vec<&str> = own.iter().map(|f| &*f.meta.name).collect();
                let message = format!("there is no tool `{name}`; there are: {}", names.join(", "));
                return refuse(FailureKind::Definition, message);
            }
            None => match self.engine.host().definitions.named_by(&self.package, name) {
                Ok(callee) => {
                    let input = match arguments(&callee, Some(&input)) {
                        Ok(arguments) => Value::Object(arguments),
                        Err(reason) => return refuse(FailureKind::InvalidInput, reason),
                    };
                    (worker::function(&callee, name, false, None), Some(callee), input)
                }
                Err(error) => {
                    let names: Vec<&str> = own.iter().map(|f| &*f.meta.name).collect();
                    let message = format!("{error}\nTools are: {}", names.join(", "));
                    return refuse(FailureKind::Definition, message);
                }
            },
        };
        let hash = sha256(canonical(&input).as_bytes());
        // The names of workers have slashes, which part the places of a path.
        let key = self.key(&format!("{}#{}", tool_name(name), &hash[..12]));
        Ok(CodeCall { path: self.path.keyed(&key), function, definition, input: Arc::new(input) })
    }

    /// Makes the call.
    ///
    /// # Errors
    /// Only what ends the run.
    pub async fn make(&self, call: CodeCall) -> Result<Outcome, Halt> {
        if let Some(account) = self.frame.ledger() {
            let driver = &*self.engine.host().driver;
            let wanted = Wanted { calls: 1, ..Wanted::default() };
            if let Err(failure) = reserve(account, driver, &call.path, "calls".into(), wanted).await? {
                return Ok(Outcome::free(End::Failed(failure)));
            }
        }
        if let Some(callee) = &call.definition {
            let used = UsedDefinition {
                worker: Arc::clone(&callee.id),
                file: Arc::clone(&callee.instructions.file),
                sha256: sha256(callee.text.as_bytes()),
                text: Arc::clone(&callee.text),
            };
            self.engine.host().driver.record(
                &call.path,
                "definition".into(),
                RecordKind::Definition(used),
            )?;
        }
        self.engine
            .call(Call {
                path: call.path.clone(),
                function: &call.function,
                input: call.input,
                frame: &self.frame,
                attachments: &[],
            })
            .await
    }

    /// An effect of the code's own, as a step under a name: done once, also when the run is resumed (SPEC §8.5). It is
    /// part of what the operator allowed with the call, and has its risk. `run` is not polled if its record exists.
    ///
    /// # Errors
    /// Only what ends the run.
    pub async fn step(
        &self,
        function: &FunctionMeta,
        name: &str,
        run: BoxFuture<'_, Result<Value, String>>,
    ) -> Result<Result<Arc<Value>, Failure>, Halt> {
        let host = self.engine.host();
        let path = self.path.keyed(&self.key(&format!("step-{}", tool_name(name))));
        let name: Arc<str> = name.into();
        host.driver.record(
            &path,
            "call".into(),
            RecordKind::CallStarted {
                function: Arc::clone(&name),
                source: function.source.clone(),
                principal: self.frame.principal(),
                input: Arc::new(Value::Null),
            },
        )?;
        let stepped = host
            .driver
            .step(Step {
                path: &path,
                name: "tool".into(),
                intent: Some(RecordKind::ToolStarted {
                    function: name,
                    risk: function.risk,
                    idempotency_key: format!("{}:{path}", host.run).into(),
                    foreseen: None,
                }),
                deadline: None,
                cut_off: CutOff::Unknown,
                run: Box::pin(async move {
                    let ending = match run.await {
                        Ok(value) => Ending::Output(Arc::new(host.redact.value(value))),
                        Err(message) => {
                            let message = host.redact.text(&message).into_owned();
                            Ending::Failure(Failure::new(FailureKind::Tool, message))
                        }
                    };
                    RecordKind::ToolEnded { ending, blobs: Vec::new(), log: None }
                }),
            })
            .await?;
        match stepped.end {
            StepEnd::Done(RecordKind::ToolEnded { ending: Ending::Output(value), .. }) => Ok(Ok(value)),
            StepEnd::Done(RecordKind::ToolEnded { ending: Ending::Failure(failure), .. }) => Ok(Err(failure)),
            StepEnd::Done(other) => Err(Halt::unexpected(&path, "tool", &other)),
            StepEnd::TimedOut => Err(Halt::unexpected(&path, "tool", &RecordKind::Cancelled)),
        }
    }

    /// Puts what the code printed into the journal.
    ///
    /// # Errors
    /// The journal can't be written.
    pub fn print(&self, text: &str) -> Result<(), Halt> {
        let text = self.engine.host().redact.text(text).into_owned();
        let name = self.key("log");
        self.engine.host().driver.record(self.path, name.into(), RecordKind::Note { text: text.into() })
    }
}
