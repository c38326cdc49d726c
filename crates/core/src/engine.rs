//! The engine: one call (`docs/reference/loop.md` and `docs/reference/approvals.md`).
//!
//! Everything that happens in a run is [`Engine::call`]: a worker calling a tool, a worker calling a worker, code
//! calling back, the command line starting a run. The steps are the same for all of them, in one order, each with its
//! record: resolve, validate the input, authority, rule, memory, mode, ask, execute, validate the output.

mod examine;
mod exchange;
mod explain;
mod frame;
mod judge;
mod leaf;
mod narrowed;
mod offer;
mod origins;
mod recheck;
mod touched;
mod undo;

pub use crate::outcome::{End, Failure, FailureKind, Halt, Outcome, Principal, Stop};
pub(crate) use examine::subjects;
pub use explain::Explained;
pub use frame::{Frame, Link};

use crate::{
    attachment::Attachment,
    authority::{Located, Place},
    call_bounds::CallBounds,
    call_path::CallPath,
    client_tool::ClientTool,
    definition::{CallOverride, Definitions, ModelChoice},
    driver::Driver,
    event::Event,
    function::{Composite, CompositeCall, Effects, Function, FunctionMeta, Implementation, StandIns},
    gate::{Gate, Subject},
    journal::RecordKind,
    model::Models,
    origin::Origins,
    redact::Redact,
    risk::Risk,
    rule::Rule,
    source::FunctionSource,
    spending::Spending,
    step_name::StepName,
    toolset::ToolsetRegistry,
    vfs::FileSystem,
};
use judge::{Before, Judged};
use leaf::Returned;
use origins::unmade;
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// Default time limit of a leaf (`docs/reference/loop.md`).
pub const LEAF_TIMEOUT: Duration = Duration::from_secs(120);

/// Time limit of a function's own approval code for one call. After a timeout the operator is asked.
const RULE_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of a function's own check of its arguments.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// Greatest number of times that the operator is asked about one call while the files that it touches keep changing.
const MOST_ROUNDS: u32 = 8;

/// The dependencies that the host of a run injects.
#[derive(Clone)]
pub struct RunContext {
    /// ID of the run.
    pub run: Arc<str>,
    /// `run.date` of templates, `YYYY-MM-DD`, in UTC.
    pub date: Arc<str>,
    /// The source of everything non-deterministic.
    pub driver: Arc<dyn Driver>,
    /// The models.
    pub models: Arc<dyn Models>,
    /// The choice of models.
    pub model: ModelChoice,
    /// `--set`: sampling settings that replace those of workers that are not locked.
    pub settings_override: crate::model::ModelSettings,
    /// The files.
    pub files: Arc<dyn FileSystem>,
    /// The program.
    pub definitions: Arc<dyn Definitions>,
    /// The kinds of toolsets.
    pub toolsets: Arc<ToolsetRegistry>,
    /// The tools that the client of the run declares, for workers with a toolset of the client's tools.
    pub client_tools: Arc<[ClientTool]>,
    /// The rules.
    pub gate: Arc<Gate>,
    /// True if the entry holds a conversation with the operator.
    pub chat: bool,
    /// True if the user, or a program in the user's place, can be asked, now or when the run is resumed.
    pub attended: bool,
    /// Replaces secrets before a value reaches a model.
    pub redact: Arc<dyn Redact>,
    /// True if a client of a service has started the run in the place of the operator. Paths in a call that the client
    /// makes are then looked up in the called worker's own view.
    pub for_client: bool,
    /// Stand-ins for functions, in a test.
    pub stand_ins: Option<Arc<dyn StandIns>>,
    /// The budgets over time that count the requests of the run, if there are any.
    pub spending: Option<Arc<dyn Spending>>,
}

/// The engine of one run.
pub struct Engine {
    host: RunContext,
}

/// A call, ready to be made.
pub struct Call<'a> {
    /// The place in the call tree.
    pub path: CallPath,
    /// The called function.
    pub function: &'a Function,
    /// The arguments.
    pub input: Arc<Value>,
    /// The caller, and the caller's authority.
    pub frame: &'a Frame,
    /// Files that the operator gave to the top-level call; empty elsewhere.
    pub attachments: &'a [Attachment],
    /// True if the operator makes this call, to start the run or in the middle of a conversation, and has thereby
    /// allowed it.
    pub by_operator: bool,
}

/// The results of the steps before execution.
pub(crate) struct Admitted {
    pub(crate) input: Arc<Value>,
    pub(crate) effects: Effects,
    pub(crate) places: Vec<Located>,
    /// The real places of the paths after links are followed. Rules and memory use these.
    pub(crate) real: Vec<Place>,
    /// The main argument in the form that patterns match; `None` if the function has none.
    pub(crate) subjects: Option<Vec<Subject>>,
    /// The calls that code in the arguments can make, if the function checks its arguments.
    pub(crate) bounds: Option<Arc<CallBounds>>,
    /// The answer of the function's own approval code.
    pub(crate) stated: Option<Rule>,
    /// The origins of the input.
    pub(crate) origins: Origins,
    /// The positions of the touched places whose content is untrusted.
    pub(crate) untrusted: Vec<usize>,
    /// True if the process of a composite can read an untrusted place.
    pub(crate) process_reads_untrusted: bool,
}

impl Engine {
    /// An engine for one run.
    pub fn new(host: RunContext) -> Self {
        Self { host }
    }

    /// The host's dependencies.
    pub fn host(&self) -> &RunContext {
        &self.host
    }

    /// Makes a call. The outcome holds the result for the caller, including failures. `Err` means that the run itself
    /// can't continue.
    pub async fn call(&self, call: Call<'_>) -> Result<Outcome, Halt> {
        let driver = &*self.host.driver;
        if driver.cancelled() {
            return Err(Halt::Cancelled);
        }
        let meta = &call.function.meta;
        let origins = self.argument_origins(&call);
        driver.record(
            &call.path,
            StepName::Call,
            RecordKind::CallStarted {
                function: Arc::clone(&meta.name),
                source: meta.source.clone(),
                principal: call.frame.principal(),
                input: Arc::clone(&call.input),
                origins: origins.clone(),
            },
        )?;
        // Boxed, like the execution: a call waits for the operator here, or for its models there, and keeps no room for the other.
        let admitted = match Box::pin(self.admit(&call, &origins)).await {
            Ok(admitted) => admitted,
            Err(stop) => {
                return self.ended(&call, unmade(stop.end()?, &origins));
            }
        };
        // The operator's own calls are what a test is about.
        let stand_ins = self.host.stand_ins.as_ref().filter(|_| !call.by_operator);
        if let Some(stand_in) = stand_ins.and_then(|stand_ins| stand_ins.stand_in(meta)) {
            return Box::pin(self.leaf(&call, stand_in.as_ref(), &admitted)).await;
        }
        match &call.function.body {
            Implementation::Leaf(leaf) => Box::pin(self.leaf(&call, leaf.as_ref(), &admitted)).await,
            Implementation::Composite(composite) => {
                Box::pin(self.composite(&call, composite.as_ref(), &admitted)).await
            }
        }
    }

    async fn composite(
        &self,
        call: &Call<'_>,
        composite: &dyn Composite,
        admitted: &Admitted,
    ) -> Result<Outcome, Halt> {
        let (driver, meta) = (&*self.host.driver, &call.function.meta);
        let timeout = timeout(call, admitted);
        let limited = match timeout {
            Some(timeout) => {
                Some(Box::pin(call.frame.limited(&meta.name, timeout, &call.path, driver)).await)
            }
            None => None,
        };
        let frame = limited.as_ref().unwrap_or(call.frame);
        let frame = frame.after(self.trail_into(call, &admitted.input, &admitted.origins));
        Box::pin(self.list_written(call, admitted)).await?;
        let outcome = composite
            .run(CompositeCall {
                engine: self,
                frame: &frame,
                path: &call.path,
                input: &admitted.input,
                origins: &admitted.origins,
                places: &admitted.places,
                untrusted: &admitted.untrusted,
                attachments: call.attachments,
                timeout,
                bounds: admitted.bounds.as_ref(),
            })
            .await?;
        if limited.is_some() {
            driver.shared().ended(&call.path).await;
        }
        // What a worker does, its calls do.
        if !matches!(meta.risk, Risk::Delegate) {
            Box::pin(self.did(call, admitted, None, &outcome.end)).await;
        }
        let (outcome, fits) = match outcome.end {
            End::Done(value) => {
                let (end, note, fits) = match Returned::of(meta, value) {
                    Returned::Fits(value) => (End::Done(value), None, true),
                    Returned::Noted(value, note) => (End::Done(value), Some(note), false),
                    Returned::Invalid(failure) => (End::Failed(failure), None, false),
                };
                if let Some(text) = note {
                    driver.record(&call.path, StepName::Misfit, RecordKind::Note { text })?;
                }
                (Outcome { end, ..outcome }, fits)
            }
            _ => (outcome, false),
        };
        let outcome = self.composite_origins(call, admitted, outcome, fits);
        self.ended(call, outcome)
    }

    fn ended(&self, call: &Call<'_>, outcome: Outcome) -> Result<Outcome, Halt> {
        let blobs = outcome.blobs.clone();
        let (ending, usage, origins) = (outcome.end.to_ending(), outcome.usage, outcome.origins.clone());
        // The entry has no caller.
        let said = if call.path == CallPath::root() { Box::default() } else { outcome.said.clone() };
        let body = RecordKind::CallEnded { ending, usage, blobs, origins, said };
        self.host.driver.record(&call.path, StepName::End, body)?;
        Ok(outcome)
    }

    /// Takes all steps before execution.
    async fn admit(&self, call: &Call<'_>, origins: &Origins) -> Result<Admitted, Stop> {
        let mut input = Arc::clone(&call.input);
        let mut origins = origins.clone();
        let mut before = Before::Nothing;
        for round in 0..MOST_ROUNDS {
            let admitted = self.examine(call, Arc::clone(&input), origins.clone(), round).await?;
            before = match self.judge(call, &admitted, round, before).await? {
                Judged::Run => return Ok(admitted),
                Judged::Edited { input: new, by } => {
                    origins = admitted.origins.edited(&admitted.input, &new);
                    input = new;
                    Before::Edited(by)
                }
                Judged::Changed(what) => Before::Changed(what),
            };
        }
        let message = format!(
            "What `{}` would touch kept changing while the operator was asked about it. Make the call again later.",
            call.function.meta.name
        );
        Err(Stop::failed(FailureKind::Denied, message))
    }

    fn is_own(&self, meta: &FunctionMeta) -> bool {
        matches!(meta.source, FunctionSource::Toolset(_) | FunctionSource::Program)
    }

    /// Emits a provisional event, if anything listens.
    pub fn emit(&self, event: Event) {
        self.host.driver.emit(event);
    }
}

/// The names that rules may use for a function that is called from that frame.
fn names<'a>(function: &'a Function, frame: &Frame) -> Vec<&'a str> {
    let meta = &function.meta;
    let mut names: Vec<&str> = vec![&meta.name];
    if meta.tool_name != meta.name {
        names.push(&meta.tool_name);
    }
    if frame.worker().is_some() {
        // These are names of delegation. An operator who starts a run does not delegate.
        names.extend(meta.aliases);
    }
    names
}

/// The value that the caller's rules state for the call.
fn overridden<T>(
    call: &Call<'_>,
    admitted: &Admitted,
    stated: impl Fn(&CallOverride) -> Option<T>,
) -> Option<T> {
    call.frame.overridden(&names(call.function, call.frame), admitted.subjects.as_deref(), stated)
}

/// The call's own time limit.
fn timeout(call: &Call<'_>, admitted: &Admitted) -> Option<Duration> {
    overridden(call, admitted, |o| o.timeout).or(call.function.meta.timeout)
}
