//! The engine: one call (SPEC §8.1, §9.1).
//!
//! Everything that happens in a run is [`Engine::call`]: a worker calling a tool, a worker calling a worker, code
//! calling back, the command line starting a run. The steps are the same for all of them, in one order, each with its
//! record: resolve, validate the input, authority, rule, memory, mode, ask, execute, validate the output.

mod by_code;
mod explain;
mod frame;
mod outcome;

pub use by_code::{CodeCall, CodeCalls};
pub use explain::Explained;
pub use frame::{Frame, Link};
pub use outcome::{End, Failure, FailureKind, Halt, Outcome, Principal};

use crate::{
    authority::{Access, Located, Place, Refusal},
    call_path::CallPath,
    driver::{CutOff, Driver, Step, StepEnd, StepName},
    event::Event,
    function::{
        CompositeCall, Effects, Foreseen, Function, FunctionMeta, FunctionSource, Implementation, LeafCall,
        Preview, Risk, ToolError, ToolOutput, Touch,
    },
    gate::{Gate, Mode, Query, Rule, Subject},
    journal::{Ending, RecordKind, timed_out},
    model::{Blob, Models},
    operator::{Answer, Answered, Ask, Recall},
    redact::Redact,
    schema::{Violation, canonical},
    toolset::ToolsetRegistry,
    vfs::FileSystem,
    worker::{Definitions, ModelChoice},
};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How long a leaf may work where nothing says otherwise (SPEC §8.1).
pub const LEAF_TIMEOUT: Duration = Duration::from_secs(120);

/// How long the code of a function's author may think about one call; then the operator is asked.
const RULE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the host of a run injects.
#[derive(Clone)]
pub struct RunContext {
    /// ID of the run.
    pub run: Arc<str>,
    /// `run.date` of templates, `YYYY-MM-DD`, in UTC.
    pub date: Arc<str>,
    /// Everything non-deterministic.
    pub driver: Arc<dyn Driver>,
    /// The models.
    pub models: Arc<dyn Models>,
    /// Which models they are.
    pub model: ModelChoice,
    /// `--set`: sampling settings that replace those of workers that are not locked.
    pub settings_override: crate::model::ModelSettings,
    /// The files.
    pub files: Arc<dyn FileSystem>,
    /// The program.
    pub definitions: Arc<dyn Definitions>,
    /// The kinds of toolsets.
    pub toolsets: Arc<ToolsetRegistry>,
    /// The rules.
    pub gate: Arc<Gate>,
    /// Replaces secrets before a value reaches a model.
    pub redact: Arc<dyn Redact>,
}

/// One run's machine.
pub struct Engine {
    host: RunContext,
    /// Remembered answers (SPEC §9.4), shared by every worker of the run and gone with it.
    memory: Mutex<HashMap<String, Remembered>>,
}

#[derive(Clone, Debug)]
enum Remembered {
    Approved,
    Denied(Option<String>),
}

/// One call, ready to be made.
pub struct Call<'a> {
    /// Its place in the tree.
    pub path: CallPath,
    /// What is called.
    pub function: &'a Function,
    /// With which arguments.
    pub input: Arc<Value>,
    /// By whom, and what the caller may touch.
    pub frame: &'a Frame,
    /// Files that the operator gave to the top-level call; empty elsewhere.
    pub attachments: &'a [Blob],
}

/// What the steps before execution have found out.
struct Admitted {
    input: Arc<Value>,
    effects: Effects,
    places: Vec<Located>,
    /// Where the paths lead when links are followed: what rules and memory go by.
    real: Vec<Place>,
    subjects: Vec<Subject>,
    /// What the code of the function's author says.
    stated: Option<Rule>,
}

impl Engine {
    /// A machine for one run.
    pub fn new(host: RunContext) -> Self {
        Self { host, memory: Mutex::default() }
    }

    /// What the host injected.
    pub fn host(&self) -> &RunContext {
        &self.host
    }

    /// Makes a call. What the caller should hear, failures included, is in the outcome; `Err` means that the run
    /// itself can't go on.
    pub async fn call(&self, call: Call<'_>) -> Result<Outcome, Halt> {
        let driver = &*self.host.driver;
        if driver.cancelled() {
            return Err(Halt::Cancelled);
        }
        let meta = &call.function.meta;
        driver.record(
            &call.path,
            "call".into(),
            RecordKind::CallStarted {
                function: Arc::clone(&meta.name),
                source: meta.source.clone(),
                principal: call.frame.principal(),
                input: Arc::clone(&call.input),
            },
        )?;
        let admitted = match self.admit(&call).await? {
            Ok(admitted) => admitted,
            Err(end) => return self.ended(&call, Outcome::free(end)),
        };
        match &call.function.body {
            Implementation::Leaf(leaf) => self.leaf(&call, leaf.as_ref(), &admitted).await,
            Implementation::Composite(composite) => {
                let outcome = composite
                    .run(CompositeCall {
                        engine: self,
                        frame: call.frame,
                        path: &call.path,
                        input: &admitted.input,
                        places: &admitted.places,
                        attachments: call.attachments,
                    })
                    .await?;
                let outcome = match (&outcome.end, &meta.output) {
                    (End::Done(value), Some(schema)) => match schema.validate(value) {
                        Ok(()) => outcome,
                        Err(wrong) => Outcome { end: invalid_output(&meta.name, &wrong), ..outcome },
                    },
                    _ => outcome,
                };
                self.ended(&call, outcome)
            }
        }
    }

    fn ended(&self, call: &Call<'_>, outcome: Outcome) -> Result<Outcome, Halt> {
        let blobs = outcome.blobs.clone();
        let body = RecordKind::CallEnded { ending: outcome.end.to_ending(), usage: outcome.usage, blobs };
        self.host.driver.record(&call.path, "end".into(), body)?;
        Ok(outcome)
    }

    /// Everything before execution. The inner `Err` is what the caller is told.
    async fn admit(&self, call: &Call<'_>) -> Result<Result<Admitted, End>, Halt> {
        let mut input = Arc::clone(&call.input);
        let mut edits = 0u32;
        loop {
            let admitted = match self.examine(call, input, edits).await? {
                Ok(admitted) => admitted,
                Err(failure) => return Ok(Err(End::Failed(failure))),
            };
            match self.judge(call, &admitted, edits > 0).await? {
                Judged::Run => return Ok(Ok(admitted)),
                Judged::Refuse(end) => return Ok(Err(end)),
                Judged::Edited(new) => {
                    input = new;
                    edits += 1;
                }
            }
        }
    }

    /// Everything before the rules: completes and validates the arguments, and finds out what they touch.
    async fn examine(
        &self,
        call: &Call<'_>,
        mut input: Arc<Value>,
        edits: u32,
    ) -> Result<Result<Admitted, Failure>, Halt> {
        let meta = &call.function.meta;
        if let Implementation::Composite(composite) = &call.function.body
            && let Some(whole) = composite.complete(self, call.frame, &input)
        {
            input = Arc::new(whole);
        }
        if let Err(wrong) = meta.input.validate(&input) {
            return Ok(Err(invalid_input(&meta.name, &wrong)));
        }
        let effects = match &call.function.body {
            Implementation::Leaf(leaf) => leaf.effects(&input),
            Implementation::Composite(composite) => {
                if let Err(failure) = composite.admit(self, call.frame) {
                    return Ok(Err(failure));
                }
                composite.effects(&input)
            }
        };
        let places = match self.locate(call, &effects) {
            Ok(places) => places,
            Err(refusal) => return Ok(Err(Failure::new(FailureKind::Authority, refusal.to_string()))),
        };
        let real = self.follow(call, &effects, &places, edits).await?;
        let subjects = subjects(&input, &effects, &places, &real);
        let stated = self.stated(call, &input, edits).await?;
        Ok(Ok(Admitted { input, effects, places, real, subjects, stated }))
    }

    fn locate(&self, call: &Call<'_>, effects: &Effects) -> Result<Vec<Located>, Refusal> {
        let delegated = matches!(call.function.body, Implementation::Composite(_));
        effects
            .touches
            .iter()
            .map(|Touch { path, access, .. }| {
                call.frame.authority().locate(path, *access).map_err(|refusal| {
                    // A capability that is handed over must be held (SPEC §6.4); a leaf's refusal says more.
                    if delegated {
                        let mode = if *access == Access::Write { "writing" } else { "reading" };
                        Refusal::NotHeld { path: path.clone(), mode }
                    } else {
                        refusal
                    }
                })
            })
            .collect()
    }

    /// Where paths lead when links are followed: a rule for one folder is not one for what a link in it leads to (SPEC §9.3).
    /// Recorded where it differs from what is written, which it seldom does.
    async fn follow(
        &self,
        call: &Call<'_>,
        effects: &Effects,
        places: &[Located],
        edits: u32,
    ) -> Result<Vec<Place>, Halt> {
        let named: Vec<Place> = places.iter().map(Located::place).collect();
        if named.is_empty() {
            return Ok(named);
        }
        let driver = &*self.host.driver;
        let name: StepName = if edits == 0 { "links".into() } else { format!("links.{edits}").into() };
        let mut real = named.clone();
        if !driver.recorded(&call.path, &name) {
            if ["verdict", "ask"].iter().any(|step| driver.recorded(&call.path, step)) {
                return Ok(named);
            }
            let look = async {
                for ((place, touch), real) in places.iter().zip(&effects.touches).zip(&mut real) {
                    // What can't be followed is refused by the operation itself.
                    if let Ok(rest) = self.host.files.real(place, !touch.delete).await {
                        *real = place.base.join(&rest);
                    }
                }
            };
            driver.unrecorded(Box::pin(look)).await?;
            if real == named {
                return Ok(named);
            }
        }
        let run = Box::pin(async { RecordKind::LinksFollowed { places: real } });
        let step = Step {
            path: &call.path,
            name: name.clone(),
            intent: None,
            deadline: None,
            cut_off: CutOff::Unknown,
            run,
        };
        match driver.step(step).await?.end {
            StepEnd::Done(RecordKind::LinksFollowed { places }) => Ok(places),
            StepEnd::Done(other) => Err(Halt::unexpected(&call.path, &name, &other)),
            StepEnd::TimedOut => Ok(named),
        }
    }

    /// Asks the code of the function's author, if it has any to ask.
    async fn stated(&self, call: &Call<'_>, input: &Value, edits: u32) -> Result<Option<Rule>, Halt> {
        let Some(code) = &call.function.rule else { return Ok(None) };
        let name: StepName = if edits == 0 { "rule".into() } else { format!("rule.{edits}").into() };
        let stepped = self
            .host
            .driver
            .step(Step {
                path: &call.path,
                name: name.clone(),
                intent: None,
                deadline: Some(RULE_TIMEOUT),
                cut_off: CutOff::Unknown,
                run: Box::pin(async {
                    match code.rule(input).await {
                        Ok(rule) => RecordKind::RuleStated { rule, reason: None },
                        Err(reason) => {
                            let reason = self.host.redact.text(&reason).into();
                            RecordKind::RuleStated { rule: Rule::Ask, reason: Some(reason) }
                        }
                    }
                }),
            })
            .await?;
        match stepped.end {
            StepEnd::Done(RecordKind::RuleStated { rule, .. }) => Ok(Some(rule)),
            StepEnd::Done(other) => Err(Halt::unexpected(&call.path, &name, &other)),
            StepEnd::TimedOut => Ok(Some(Rule::Ask)),
        }
    }

    /// Rule, memory, mode, ask.
    async fn judge(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        approved_by_edit: bool,
    ) -> Result<Judged, Halt> {
        let meta = &call.function.meta;
        let verdict = self.weigh(call, admitted, Gate::decide);
        let record = |rule, by: &str, reason: Option<&str>| {
            let body = RecordKind::Verdict { rule, by: by.into(), reason: reason.map(Into::into) };
            self.host.driver.record(&call.path, "verdict".into(), body)
        };
        let refuse = |kind, message: String| Judged::Refuse(End::Failed(Failure::new(kind, message)));
        match verdict.rule {
            Rule::PreApproved => {
                record(Rule::PreApproved, &verdict.decided_by, None)?;
                return Ok(Judged::Run);
            }
            Rule::Blocked => {
                record(Rule::Blocked, &verdict.decided_by, None)?;
                let message = format!(
                    "`{}` with these arguments is blocked ({}). Do it another way or say that you can't.",
                    meta.name, verdict.decided_by
                );
                return Ok(refuse(FailureKind::Blocked, message));
            }
            Rule::Ask if call.frame.worker().is_none() && meta.risk == Risk::Delegate => {
                record(Rule::PreApproved, "operator, who starts the run", None)?;
                return Ok(Judged::Run);
            }
            Rule::Ask if passes_on(call.function) => {
                record(Rule::PreApproved, "the delegation that it makes is asked about", None)?;
                return Ok(Judged::Run);
            }
            Rule::Ask if approved_by_edit => {
                record(Rule::PreApproved, "operator, with edited arguments", None)?;
                return Ok(Judged::Run);
            }
            Rule::Ask => {}
        }
        let key = memory_key(call.function, admitted);
        match self.remembered(&key) {
            Some(Remembered::Approved) => {
                record(Rule::PreApproved, REMEMBERED, None)?;
                return Ok(Judged::Run);
            }
            Some(Remembered::Denied(reason)) => {
                record(Rule::Blocked, REMEMBERED, reason.as_deref())?;
                return Ok(refuse(FailureKind::Denied, denied(&meta.name, reason.as_deref())));
            }
            None => {}
        }
        match self.host.gate.mode {
            Mode::ApproveAll => {
                record(Rule::PreApproved, "mode approve_all", None)?;
                Ok(Judged::Run)
            }
            Mode::AutoDeny => {
                record(Rule::Blocked, "mode auto_deny", Some(&verdict.decided_by))?;
                let message = format!(
                    "`{}` needs an approval that nobody can give in this run. Do it another way or say that you can't.",
                    meta.name
                );
                Ok(refuse(FailureKind::Denied, message))
            }
            // Who defers has an operator that answers `Later` to what nobody decided yet.
            Mode::Defer | Mode::Interactive => {
                let ask = self.question(call, admitted, verdict.decided_by).await;
                let memory = Memory { engine: self, key: &key };
                let answered = self.host.driver.ask(&call.path, "ask".into(), ask.clone(), &memory).await?;
                let Answered { answer, recalled, waited } = answered;
                call.frame.waited(waited, self.host.driver.now_ms());
                let by = if recalled { REMEMBERED } else { "operator" };
                match answer {
                    Answer::Approve { remember } => {
                        if remember {
                            self.remember(key, Remembered::Approved);
                        }
                        record(Rule::PreApproved, by, None)?;
                        Ok(Judged::Run)
                    }
                    Answer::Deny { reason, remember } => {
                        record(Rule::Blocked, by, reason.as_deref())?;
                        let message = denied(&meta.name, reason.as_deref());
                        if remember {
                            self.remember(key, Remembered::Denied(reason));
                        }
                        Ok(refuse(FailureKind::Denied, message))
                    }
                    Answer::Edit { input } => Ok(Judged::Edited(input)),
                    Answer::Later => Ok(Judged::Refuse(End::Suspended(vec![ask]))),
                }
            }
        }
    }

    /// Shows the gate a call as rules see it.
    fn weigh<T>(&self, call: &Call<'_>, admitted: &Admitted, look: impl FnOnce(&Gate, &Query<'_>) -> T) -> T {
        let meta = &call.function.meta;
        let own_effects = own_effects(meta, &admitted.places);
        let foreign = call.frame.is_foreign() || !self.is_own(meta);
        // What a function says of itself loosens only what files of the program may loosen at all.
        let stated = admitted.stated.map(|rule| (rule, format!("the approval function of `{}`", meta.name)));
        let of_itself = stated.into_iter().chain(admitted.effects.rules.iter().cloned());
        let of_itself = of_itself.filter(|(rule, _)| *rule != Rule::PreApproved || (own_effects && !foreign));
        let mounts: Vec<(Rule, String)> = admitted
            .places
            .iter()
            .zip(&admitted.effects.touches)
            .filter_map(|(place, touch)| mount_rule(place, touch))
            .chain(of_itself)
            .collect();
        let callers = call.frame.rules_above();
        let query = Query {
            names: &names(call.function, call.frame),
            risk: meta.risk,
            wildcard: meta.wildcard,
            subjects: &admitted.subjects,
            worker: call.frame.rules(),
            callers: &callers,
            toolset: meta.policy.as_deref(),
            of_toolset: admitted.effects.says.as_ref(),
            mounts: &mounts,
            own_effects,
            foreign,
        };
        look(&self.host.gate, &query)
    }

    async fn question(&self, call: &Call<'_>, admitted: &Admitted, rule: String) -> Ask {
        let meta = &call.function.meta;
        let preview = match &call.function.body {
            Implementation::Leaf(leaf) => leaf.preview(self.leaf_call(call, admitted, "")).await,
            Implementation::Composite(_) => None,
        };
        let clean = |text: Option<String>| text.map(|text| self.host.redact.text(&text).into_owned());
        let preview = preview.map(|Preview::Change { path, before, after }| Preview::Change {
            path,
            before: clean(before),
            after: clean(after),
        });
        Ask {
            call: call.path.clone(),
            chain: call.frame.chain(),
            function: Arc::clone(&meta.name),
            risk: meta.risk,
            input: Arc::clone(&admitted.input),
            preview,
            rule,
        }
    }

    fn leaf_call<'a>(&'a self, call: &'a Call<'_>, admitted: &'a Admitted, key: &'a str) -> LeafCall<'a> {
        LeafCall {
            input: &admitted.input,
            places: &admitted.places,
            authority: call.frame.authority(),
            files: &*self.host.files,
            results: call.frame.results(),
            idempotency_key: key,
        }
    }

    async fn leaf(
        &self,
        call: &Call<'_>,
        leaf: &dyn crate::function::Leaf,
        admitted: &Admitted,
    ) -> Result<Outcome, Halt> {
        let meta = &call.function.meta;
        let now = self.host.driver.now_ms();
        let own =
            call.frame.timeout_of(&names(call.function, call.frame), &admitted.subjects).or(meta.timeout);
        let own = own.unwrap_or(LEAF_TIMEOUT);
        let deadline = call.frame.remaining(now).map_or(own, |left| left.min(own));
        // The same for every attempt, now and after a resume: the place in the tree of this run.
        let key: Arc<str> = format!("{}:{}", self.host.run, call.path).into();
        let step_key = Arc::clone(&key);
        let (cut_off, foreseen) = self.before_leaf(call, leaf, admitted).await;
        let stepped = self
            .host
            .driver
            .step(Step {
                path: &call.path,
                name: "tool".into(),
                intent: Some(RecordKind::ToolStarted {
                    function: Arc::clone(&meta.name),
                    risk: meta.risk,
                    idempotency_key: key,
                    foreseen,
                }),
                deadline: Some(deadline),
                cut_off,
                run: Box::pin(async move {
                    let result = leaf.run(self.leaf_call(call, admitted, &step_key)).await;
                    let (ending, blobs, log) = match result {
                        Ok(ToolOutput { value, blobs, log }) => {
                            let value = self.host.redact.value(value);
                            let ending = match meta.output.as_ref().map(|schema| schema.validate(&value)) {
                                Some(Err(wrong)) => invalid_output(&meta.name, &wrong).to_ending(),
                                _ => Ending::Output(Arc::new(value)),
                            };
                            (ending, blobs, log)
                        }
                        Err(ToolError { message, log }) => {
                            let message = self.host.redact.text(&message).into_owned();
                            (Ending::Failure(Failure::new(FailureKind::Tool, message)), Vec::new(), log)
                        }
                    };
                    let log = log.map(|log| self.host.redact.text(&log).into());
                    RecordKind::ToolEnded { ending, blobs, log }
                }),
            })
            .await?;
        let end = match stepped.end {
            StepEnd::Done(RecordKind::ToolEnded { ending: Ending::Output(value), blobs, .. }) => {
                return Ok(Outcome { blobs, ..Outcome::free(End::Done(value)) });
            }
            StepEnd::Done(RecordKind::ToolEnded { ending: Ending::Failure(failure), .. }) => {
                End::Failed(failure)
            }
            StepEnd::Done(other) => return Err(Halt::unexpected(&call.path, "tool", &other)),
            StepEnd::TimedOut => {
                End::Failed(timed_out(&meta.name, u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)))
            }
        };
        Ok(Outcome::free(end))
    }

    /// What became of an attempt that was cut off, or else what a new one will do.
    async fn before_leaf(
        &self,
        call: &Call<'_>,
        leaf: &dyn crate::function::Leaf,
        admitted: &Admitted,
    ) -> (CutOff, Option<Foreseen>) {
        let driver = &self.host.driver;
        if call.function.meta.risk == Risk::Read {
            return (CutOff::Unknown, None);
        }
        let leaf_call = || self.leaf_call(call, admitted, "");
        match driver.begun(&call.path, "tool") {
            Some(RecordKind::ToolStarted { foreseen: Some(foreseen), .. }) => {
                (leaf.look_back(leaf_call(), &foreseen).await, None)
            }
            Some(_) => (CutOff::Unknown, None),
            None if driver.recorded(&call.path, "tool") => (CutOff::Unknown, None),
            None => (CutOff::Unknown, leaf.foresee(leaf_call()).await),
        }
    }

    fn is_own(&self, meta: &FunctionMeta) -> bool {
        matches!(meta.source, FunctionSource::Toolset(_) | FunctionSource::Program)
    }

    /// Whether a tool could pass the gate with any arguments; if not, a model need not see it (SPEC §9.2).
    pub fn could_pass(&self, function: &Function, frame: &Frame) -> bool {
        let meta = &function.meta;
        let mounts: Vec<(Rule, String)> = frame
            .authority()
            .view()
            .mounts()
            .iter()
            .filter_map(|m| match meta.risk {
                Risk::Write => m.approvals.write.map(|rule| (rule, String::new())),
                Risk::Destructive => {
                    m.approvals.delete.or(m.approvals.write).map(|rule| (rule, String::new()))
                }
                _ => None,
            })
            .collect();
        let declared =
            frame.authority().view().mounts().iter().any(|m| m.declared && m.access == Access::Write);
        self.host.gate.could_pass(&Query {
            names: &names(function, frame),
            risk: meta.risk,
            wildcard: meta.wildcard,
            subjects: &[],
            worker: frame.rules(),
            callers: &frame.rules_above(),
            toolset: meta.policy.as_deref(),
            of_toolset: None,
            mounts: &mounts,
            own_effects: match meta.risk {
                Risk::Write | Risk::Destructive if !meta.contained => declared,
                _ => own_effects(meta, &[]),
            },
            foreign: frame.is_foreign() || !self.is_own(meta),
        })
    }

    /// Shows a screen something provisional, if one looks.
    pub fn emit(&self, event: Event) {
        self.host.driver.emit(event);
    }

    fn remembered(&self, key: &str) -> Option<Remembered> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn remember(&self, key: String, what: Remembered) {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).insert(key, what);
    }
}

/// What the run remembers of one question.
struct Memory<'a> {
    engine: &'a Engine,
    key: &'a str,
}

impl Recall for Memory<'_> {
    fn recall(&self) -> Option<Answer> {
        self.engine.remembered(self.key).map(|remembered| match remembered {
            Remembered::Approved => Answer::Approve { remember: true },
            Remembered::Denied(reason) => Answer::Deny { reason, remember: true },
        })
    }
}

/// Who decided where an earlier answer did.
const REMEMBERED: &str = "operator, remembered";

enum Judged {
    Run,
    Refuse(End),
    Edited(Arc<Value>),
}

/// The names that rules may use for a function that is called from there.
fn names<'a>(function: &'a Function, frame: &Frame) -> Vec<&'a str> {
    let meta = &function.meta;
    let mut names: Vec<&str> = vec![&meta.name];
    if meta.tool_name != meta.name {
        names.push(&meta.tool_name);
    }
    if frame.worker().is_some() {
        // They are names of delegation: the operator who starts a run delegates nothing.
        names.extend(meta.aliases);
    }
    names
}

/// Whether it delegates without being a worker (`worker_call`): it makes one call, and that one is asked about, so that
/// nobody is asked twice.
fn passes_on(function: &Function) -> bool {
    function.meta.risk == Risk::Delegate && matches!(function.meta.source, FunctionSource::Toolset(_))
}

/// A call's arguments as rules match them.
fn subjects(input: &Value, effects: &Effects, places: &[Located], real: &[Place]) -> Vec<Subject> {
    if !effects.subjects.is_empty() {
        effects.subjects.clone()
    } else if places.is_empty() {
        vec![Subject::Text(canonical(input))]
    } else {
        places.iter().zip(real).map(|(place, real)| Subject::Path(place.rule_path(real))).collect()
    }
}

fn mount_rule(place: &Located, touch: &Touch) -> Option<(Rule, String)> {
    let approvals = &place.mount.approvals;
    let rule = match (touch.access, touch.delete) {
        (Access::Read, _) => approvals.read,
        (Access::Write, false) => approvals.write,
        (Access::Write, true) => approvals.delete.or(approvals.write),
    };
    rule.map(|rule| (rule, format!("mount `{}`", place.mount.at)))
}

/// Whether the program's own files may pre-approve a call of this risk with these places (SPEC §9.3): reading and
/// allowlisted delegation need no approval anyway; writing only inside mounts that the program declares, and code that is
/// confined to them; the network and other processes never.
fn own_effects(meta: &FunctionMeta, places: &[Located]) -> bool {
    match meta.risk {
        Risk::Read | Risk::Delegate => true,
        Risk::Write | Risk::Destructive => {
            meta.contained || (!places.is_empty() && places.iter().all(|place| place.mount.declared))
        }
        Risk::Exec => meta.contained,
        Risk::Network => false,
    }
}

/// Same function, same arguments, key order apart and paths resolved to the real place (SPEC §9.4).
fn memory_key(function: &Function, admitted: &Admitted) -> String {
    let mut input = (*admitted.input).clone();
    if let Value::Object(map) = &mut input {
        for (touch, real) in admitted.effects.touches.iter().zip(&admitted.real) {
            // One argument for each path, marked: a content that reads like a path must stay a content.
            if let Some(value) = map.values_mut().find(|value| value.as_str() == Some(&touch.path)) {
                *value = Value::String(format!("\0{real}"));
            }
        }
    }
    format!("{:?}\0{}\0{}", function.meta.source, function.meta.name, canonical(&input))
}

fn denied(name: &str, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("The operator refused `{name}`: {reason}"),
        None => format!("The operator refused `{name}`. Do it another way or say that you can't."),
    }
}

fn list(wrong: &[Violation]) -> String {
    wrong.iter().map(|violation| format!("\n- {violation}")).collect()
}

fn invalid_input(name: &str, wrong: &[Violation]) -> Failure {
    let message = format!("The arguments of `{name}` don't fit its schema:{}", list(wrong));
    Failure::new(FailureKind::InvalidInput, message)
}

fn invalid_output(name: &str, wrong: &[Violation]) -> End {
    let message = format!("`{name}` returned something that doesn't fit its schema:{}", list(wrong));
    End::Failed(Failure::new(FailureKind::InvalidOutput, message))
}
