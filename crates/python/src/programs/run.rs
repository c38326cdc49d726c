//! The tool `run_program`: the check of a program and its execution.

use super::{
    Settings,
    check::{Callee, check},
    finding::{Finding, message},
    language::{DESCRIPTION, MODULES},
    signature::signatures,
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
    engine::{Engine, Failure, FailureKind, Frame, Halt, Outcome},
    function::{
        Checked, Composite, CompositeCall, Effects, Function, FunctionMeta, FunctionSource, Implementation,
        Risk,
    },
    price::Usd,
    rule::{DecidedBy, Rule},
    schema::{canonical, sha256},
    send::BoxFuture,
    worker::Language,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

/// The file that errors of a program name.
const FILE: &str = "/program/program.py";

/// The time that a program may work between two calls.
const OWN_WORK: Duration = Duration::from_secs(30);

/// The tool of one worker.
pub(super) struct RunProgram {
    python: Arc<Python>,
    reach: Reach,
    settings: Settings,
    meta: FunctionMeta,
}

impl RunProgram {
    pub(super) fn new(
        python: Arc<Python>,
        language: Language,
        settings: Settings,
        meta: FunctionMeta,
        run: &Arc<str>,
    ) -> Self {
        Self { python, reach: Reach::of_program(language, run), settings, meta }
    }

    /// Starts a process while the model works.
    pub(super) fn warm(&self) {
        self.python.warm_alone(&self.reach);
    }

    /// Returns true if a program may call a function. It can't run programs.
    fn may_call(&self, function: &Function) -> bool {
        let meta = &function.meta;
        let names = [&*meta.name, &*meta.tool_name];
        meta.source != self.meta.source
            && self
                .settings
                .calls
                .as_ref()
                .is_none_or(|calls| calls.iter().any(|one| one.names_one_of(&names)))
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
        let parsed = self.parse(code).await.map_err(cannot)?;
        let invalid = |findings: &[Finding]| Failure::new(FailureKind::InvalidInput, message(findings));
        let tree = parsed.map_err(|finding| invalid(&[finding]))?;
        let mut functions: Vec<&Function> =
            frame.functions().iter().filter(|function| self.may_call(function)).collect();
        functions.sort_by(|a, b| a.meta.tool_name.cmp(&b.meta.tool_name));
        let callees: Vec<Callee<'_>> = functions
            .iter()
            .map(|function| Callee { name: &function.meta.tool_name, input: function.meta.input.value() })
            .collect();
        let bounds =
            check(&tree, &callees, self.settings.max_calls).map_err(|findings| invalid(&findings))?;
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
    async fn parse(&self, code: &str) -> Result<Result<Tree, Finding>, String> {
        let lease = self.python.lease(&self.reach, Room::Own, Some(START)).await.map_err(|error| error.0)?;
        match lease.host.ask(&ToHost::Parse { text: code }).await {
            Ok(FromHost::Parsed { nodes, problem }) => {
                lease.give_back();
                match problem {
                    Some(problem) => {
                        let (line, column) = (problem.line, problem.column);
                        Ok(Err(Finding { line, column, message: problem.message }))
                    }
                    None => Tree::new(nodes).map(Ok).ok_or_else(|| "the parser sent no tree".to_owned()),
                }
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
        let of = json!(["program", calls, self.settings.max_calls]);
        Box::pin(async move { Some(sha256(canonical(&of).as_bytes()).into()) })
    }

    fn describe(&self, offered: &[Function]) -> Option<Arc<str>> {
        let callees: Vec<&Function> = offered.iter().filter(|function| self.may_call(function)).collect();
        let head = DESCRIPTION.replace("MODULES", &MODULES.join(", "));
        let most = self.settings.max_calls;
        Some(match callees.as_slice() {
            [] => format!("{head}\nThere is nothing to call: a program can only compute.").into(),
            callees => format!(
                "{head}\nA program makes at most {most} calls, of these functions:{}",
                signatures(callees)
            )
            .into(),
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
            let main: Arc<str> = "main".into();
            let program = HostedTool {
                python: Arc::clone(&self.python),
                reach: self.reach.clone(),
                module: Module {
                    key: FILE.to_owned(),
                    path: Some(FILE.to_owned()),
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
