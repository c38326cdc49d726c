//! The tool `run_program`: the check of a program and its execution.

use super::{
    DESCRIBE, Settings,
    check::{Callee, LONGEST, check},
    finding::{Finding, message},
    language::Dialect,
    signature::{Detail, signatures},
    tree::Tree,
};
use crate::{
    discovery::{ExposedTool, OwnProcess, Parallel},
    host::START,
    pool::Room,
    python::Python,
    tool::{HostedTool, Takes},
    view::{PROGRAM_ROOT, Reach},
    wire::{FromHost, Module, ToHost},
};
use llm_do_core::{
    call_bounds::CallBounds,
    engine::{End, Engine, Failure, FailureKind, Frame, Halt, Outcome},
    function::{
        Checked, Composite, CompositeCall, Effects, Function, FunctionMeta, FunctionSource, Implementation,
        Risk,
    },
    price::Usd,
    rule::{DecidedBy, Rule},
    schema::{canonical, sha256},
    send::BoxFuture,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// Longest signatures with types in the tool's description, in characters. Of longer ones, the description has the names
/// of functions and parameters, and `describe_functions` returns the types of those that a program needs. It costs a tool
/// of its own and a request for each use, which is more than shorter signatures cost.
const LONGEST_SIGNATURES: usize = 6_000;

/// The time that a program may work between two calls.
const OWN_WORK: Duration = Duration::from_secs(30);

/// The tool of one worker.
pub(super) struct RunProgram {
    python: Arc<Python>,
    /// The processes of each language that programs may be written in, the default first.
    reaches: Vec<Reach>,
    settings: Arc<Settings>,
    meta: FunctionMeta,
}

impl RunProgram {
    pub(super) fn new(
        python: Arc<Python>,
        settings: Arc<Settings>,
        meta: FunctionMeta,
        run: &Arc<str>,
    ) -> Self {
        let reaches = settings.dialects.iter().map(|dialect| Reach::of_program(dialect.language, run));
        Self { python, reaches: reaches.collect(), settings, meta }
    }

    /// Starts a process while the model works, if the language is known.
    pub(super) fn warm(&self) {
        if let [only] = self.reaches.as_slice() {
            self.python.warm_alone(only);
        }
    }

    /// Returns the language that a call names, and its processes.
    fn language(&self, input: &Value) -> (&'static Dialect, &Reach) {
        let named = input.get("language").and_then(Value::as_str).and_then(Dialect::named);
        let dialect = named.unwrap_or(self.settings.dialects[0]);
        let reach = self.reaches.iter().find(|reach| reach.language == dialect.language);
        (dialect, reach.unwrap_or(&self.reaches[0]))
    }

    async fn checked(&self, engine: &Engine, frame: &Frame, input: &Value) -> Result<Checked, Failure> {
        let cannot =
            |reason: String| Failure::new(FailureKind::Tool, format!("The program was not run: {reason}"));
        if self.python.confiner().is_unconfined() {
            return Err(cannot(
                "programs that a model writes run only confined, and this machine confines no processes"
                    .to_owned(),
            ));
        }
        let code = input.get("code").and_then(Value::as_str).unwrap_or_default();
        let (dialect, reach) = self.language(input);
        let parsed = self.parse(reach, code).await.map_err(cannot)?;
        let invalid = |findings: &[Finding]| Failure::new(FailureKind::InvalidInput, message(findings));
        let tree = parsed.map_err(|finding| invalid(&[finding]))?;
        let mut functions: Vec<&Function> =
            frame.functions().iter().filter(|function| self.settings.may_call(function)).collect();
        functions.sort_by(|a, b| a.meta.tool_name.cmp(&b.meta.tool_name));
        let callees: Vec<Callee<'_>> = functions
            .iter()
            .map(|function| Callee { name: &function.meta.tool_name, input: function.meta.input.value() })
            .collect();
        let bounds = check(dialect, &tree, &callees, self.settings.max_calls, LONGEST)
            .map_err(|findings| invalid(&findings))?;
        let called: Vec<(&Function, u64)> = bounds
            .iter()
            .filter_map(|bound| {
                let function = functions.iter().find(|function| function.meta.tool_name == bound.name)?;
                Some((*function, bound.most))
            })
            .collect();
        let unasked = self.settings.pre_approved
            && called.iter().all(|(function, _)| engine.may_run_unasked(function, frame));
        Ok(Checked {
            bounds: Arc::new(CallBounds { cost: cost(engine, &called), callees: bounds }),
            approved_by: unasked.then(pre_approval),
        })
    }

    /// Parses a program in a process that sees nothing.
    async fn parse(&self, reach: &Reach, code: &str) -> Result<Result<Tree, Finding>, String> {
        let lease = self.python.lease(reach, Room::Own, Some(START)).await.map_err(|error| error.0)?;
        match lease.host.ask(&ToHost::Parse { text: code }).await {
            Ok(FromHost::Parsed { problem: Some(problem), .. }) => {
                // A text that is nested too deeply may have broken the parser.
                lease.discard("it has parsed a program with an error");
                let (line, column) = (problem.line, problem.column);
                Ok(Err(Finding { line, column, message: problem.message }))
            }
            Ok(FromHost::Parsed { nodes, problem: None }) => {
                lease.give_back();
                Tree::new(nodes).map(Ok).ok_or_else(|| "the parser sent no tree".to_owned())
            }
            Ok(FromHost::Error { error, .. }) => {
                lease.discard("it can't parse programs");
                Err(error.message)
            }
            Ok(_) => {
                lease.discard("it sent an unexpected answer");
                Err("the parser sent an unexpected answer".to_owned())
            }
            Err(error) => {
                lease.discard("it ended while it parsed a program");
                let message = format!("it can't be parsed: {}", error.0);
                Ok(Err(Finding { line: 1, column: 1, message }))
            }
        }
    }
}

/// The source of the permission for programs whose calls don't ask.
fn pre_approval() -> DecidedBy {
    DecidedBy::Toolset { why: "`pre_approved: callees`, since none of the program's calls asks".into() }
}

/// The greatest cost of these calls. `None` if a worker among them has no limit of its cost, or if code among them makes
/// calls of its own.
fn cost(engine: &Engine, called: &[(&Function, u64)]) -> Option<Usd> {
    let makes_calls = |function: &Function| {
        function.meta.risk != Risk::Delegate && matches!(function.body, Implementation::Composite(_))
    };
    if called.iter().any(|(function, _)| makes_calls(function)) {
        return None;
    }
    let mut sum = 0.0;
    for (function, most) in called.iter().filter(|(function, _)| function.meta.risk == Risk::Delegate) {
        let definitions = &engine.host().definitions;
        let worker = definitions.named_by(&FunctionSource::Program, &function.meta.name).ok()?;
        sum += worker.limits.max_cost_usd?.as_dollars() * *most as f64;
    }
    let asks_models = called.iter().any(|(function, _)| function.meta.risk == Risk::Delegate);
    asks_models.then(|| Usd::dollars(sum)).flatten()
}

impl Composite for RunProgram {
    fn identity(&self) -> BoxFuture<'_, Option<Arc<str>>> {
        let calls: Option<Vec<String>> =
            self.settings.calls.as_ref().map(|calls| calls.iter().map(ToString::to_string).collect());
        let mut of = vec![json!("program"), json!(calls), json!(self.settings.max_calls)];
        let names: Vec<&str> = self.settings.dialects.iter().map(|dialect| dialect.name).collect();
        if names != ["python"] {
            of.push(json!(names));
        }
        Box::pin(async move { Some(sha256(canonical(&Value::Array(of)).as_bytes()).into()) })
    }

    fn describe(&self, offered: &[Function]) -> Option<Arc<str>> {
        let heads: Vec<String> = self
            .settings
            .dialects
            .iter()
            .map(|dialect| dialect.description.replace("MODULES", &dialect.modules.join(", ")))
            .collect();
        let head = heads.join("\n\n");
        let most = self.settings.max_calls;
        Some(match self.settings.stubs(offered).as_str() {
            "" => format!("{head}\nThere is nothing to call: a program can only compute.").into(),
            stubs => {
                let types = match self.settings.describes(offered) {
                    true => format!(" `{DESCRIBE}` returns their types."),
                    false => String::new(),
                };
                format!("{head}\nA program makes at most {most} calls, of these functions.{types}{stubs}")
                    .into()
            }
        })
    }

    /// Returns the effects of a program without calls that ask.
    fn least(&self) -> Option<Effects> {
        let says = self.settings.pre_approved.then(|| (Rule::PreApproved, pre_approval()));
        Some(Effects { says, ..Effects::default() })
    }

    fn checks(&self) -> bool {
        true
    }

    fn check<'a>(
        &'a self,
        engine: &'a Engine,
        frame: &'a Frame,
        input: &'a Value,
    ) -> BoxFuture<'a, Result<Checked, Failure>> {
        Box::pin(self.checked(engine, frame, input))
    }

    fn knows_origins(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(async move {
            let code = call.input.get("code").and_then(Value::as_str).unwrap_or_default();
            let (dialect, reach) = self.language(call.input);
            let main: Arc<str> = "main".into();
            let program = HostedTool {
                python: Arc::clone(&self.python),
                reach: reach.clone(),
                module: Module {
                    key: dialect.file.to_owned(),
                    path: Some(dialect.file.to_owned()),
                    module: None,
                    attribute: None,
                    text: Some(code.to_owned()),
                    root: PROGRAM_ROOT.to_owned(),
                    names: Vec::new(),
                },
                tool: ExposedTool {
                    context: true,
                    plain: true,
                    parallel: Some(Parallel::Process(OwnProcess::Process)),
                    ..ExposedTool::named(&main)
                },
                meta: self.meta.clone(),
                takes: Takes::Program,
                work: OWN_WORK,
            };
            Composite::run(&program, call).await
        })
    }
}

impl Settings {
    /// Returns true if a program may call a function. It can't run programs.
    fn may_call(&self, function: &Function) -> bool {
        let meta = &function.meta;
        let names = [&*meta.name, &*meta.tool_name];
        !is_own(meta)
            && self.calls.as_ref().is_none_or(|calls| calls.iter().any(|one| one.names_one_of(&names)))
    }

    fn callees<'a>(&self, offered: &'a [Function]) -> Vec<&'a Function> {
        offered.iter().filter(|function| self.may_call(function)).collect()
    }

    /// Returns the signatures in the description of the tool, in the default language.
    fn stubs(&self, offered: &[Function]) -> String {
        let detail = if self.describes(offered) { Detail::Names } else { Detail::Types };
        signatures(self.dialects[0].language, &self.callees(offered), detail)
    }

    /// Returns true if the types are in the answers of `describe_functions` and not in the description.
    fn describes(&self, offered: &[Function]) -> bool {
        let typed = signatures(self.dialects[0].language, &self.callees(offered), Detail::Types);
        typed.chars().count() > LONGEST_SIGNATURES
    }
}

/// Returns true for the functions of this toolset.
fn is_own(meta: &FunctionMeta) -> bool {
    meta.source == FunctionSource::Toolset(super::NAME.into())
}

/// The tool `describe_functions` of one worker: the types of functions that programs may call.
pub(super) struct DescribeFunctions {
    pub(super) settings: Arc<Settings>,
}

impl Composite for DescribeFunctions {
    fn is_offered(&self, others: &[Function]) -> bool {
        self.settings.describes(others)
    }

    fn run<'a>(&'a self, call: CompositeCall<'a>) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(async move {
            let callees = self.settings.callees(call.frame.functions());
            let names = call.input.get("names").and_then(Value::as_array).into_iter().flatten();
            let mut wanted = Vec::new();
            for name in names.filter_map(Value::as_str) {
                match callees.iter().find(|function| *function.meta.tool_name == *name) {
                    Some(function) => wanted.push(*function),
                    None => {
                        let message = format!("there is no function `{name}` that a program may call");
                        let failure = Failure::new(FailureKind::InvalidInput, message);
                        return Ok(Outcome::free(End::Failed(failure)));
                    }
                }
            }
            let types = signatures(self.settings.dialects[0].language, &wanted, Detail::Types);
            Ok(Outcome::free(End::Done(Arc::new(types.trim_start().into()))))
        })
    }
}
