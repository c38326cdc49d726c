//! The engine: one call (`docs/reference/loop.md` and `docs/reference/approvals.md`).
//!
//! Everything that happens in a run is [`Engine::call`]: a worker calling a tool, a worker calling a worker, code
//! calling back, the command line starting a run. The steps are the same for all of them, in one order, each with its
//! record: resolve, validate the input, authority, rule, memory, mode, ask, execute, validate the output.

mod explain;
mod frame;
mod offer;
mod touched;

pub use crate::outcome::{End, Failure, FailureKind, Halt, Outcome, Principal, Stop};
pub use explain::Explained;
pub use frame::{Frame, Link};

use crate::{
    authority::{Access, Located, Place, Refusal},
    call_path::CallPath,
    definition::{CallOverride, Definitions, ModelChoice},
    driver::{CutOff, Driver, Exchanged, Known, Step, StepEnd},
    event::Event,
    function::{
        CompositeCall, Effects, Function, FunctionMeta, Implementation, LeafCall, OutputSchema, ToolError,
        ToolOutput, Touch,
    },
    gate::{Gate, Query, Subject},
    journal::RecordKind,
    model::{Blob, Models},
    outcome::{Ending, timed_out},
    question::{
        Answer, Approval, FILES, Given, Input, Preview, Question, QuestionId, Reply, Settlement, Waiting,
    },
    redact::Redact,
    risk::Risk,
    rule::{DecidedBy, Mode, Rule},
    schema::{Schema, Violation, canonical},
    send::MaybeSync,
    source::FunctionSource,
    step_name::StepName,
    toolset::ToolsetRegistry,
    vfs::FileSystem,
};
use serde_json::Value;
use std::{borrow::Cow, sync::Arc, time::Duration};
use touched::{Touched, mount_rules, not_own};

/// Default time limit of a leaf (`docs/reference/loop.md`).
pub const LEAF_TIMEOUT: Duration = Duration::from_secs(120);

/// Time limit of a function's own approval code for one call. After a timeout the operator is asked.
const RULE_TIMEOUT: Duration = Duration::from_secs(10);

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
    /// The rules.
    pub gate: Arc<Gate>,
    /// Replaces secrets before a value reaches a model.
    pub redact: Arc<dyn Redact>,
}

/// The engine of one run.
pub struct Engine {
    host: RunContext,
}

/// One call, ready to be made.
pub struct Call<'a> {
    /// Its path in the call tree.
    pub path: CallPath,
    /// The called function.
    pub function: &'a Function,
    /// The arguments.
    pub input: Arc<Value>,
    /// The caller, and the caller's authority.
    pub frame: &'a Frame,
    /// Files that the operator gave to the top-level call; empty elsewhere.
    pub attachments: &'a [Blob],
    /// The operator makes this call to start the run, and has allowed it by that.
    pub starts_run: bool,
}

/// The results of the steps before execution.
struct Admitted {
    input: Arc<Value>,
    effects: Effects,
    places: Vec<Located>,
    /// The real places of the paths after links are followed. Rules and memory use these.
    real: Vec<Place>,
    subjects: Vec<Subject>,
    /// The answer of the function's own approval code.
    stated: Option<Rule>,
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
        driver.record(
            &call.path,
            StepName::Call,
            RecordKind::CallStarted {
                function: Arc::clone(&meta.name),
                source: meta.source.clone(),
                principal: call.frame.principal(),
                input: Arc::clone(&call.input),
            },
        )?;
        let admitted = match self.admit(&call).await {
            Ok(admitted) => admitted,
            Err(stop) => return self.ended(&call, Outcome::free(stop.end()?)),
        };
        match &call.function.body {
            Implementation::Leaf(leaf) => self.leaf(&call, leaf.as_ref(), &admitted).await,
            Implementation::Composite(composite) => {
                let timeout = timeout(&call, &admitted);
                let limited = match timeout {
                    Some(timeout) => Some(call.frame.limited(&meta.name, timeout, &call.path, driver).await),
                    None => None,
                };
                let outcome = composite
                    .run(CompositeCall {
                        engine: self,
                        frame: limited.as_ref().unwrap_or(call.frame),
                        path: &call.path,
                        input: &admitted.input,
                        places: &admitted.places,
                        attachments: call.attachments,
                        timeout,
                    })
                    .await?;
                if limited.is_some() {
                    driver.shared().ended(&call.path).await;
                }
                let outcome = match outcome.end {
                    End::Done(value) => {
                        let (end, note) = match Returned::of(meta, value) {
                            Returned::Fits(value) => (End::Done(value), None),
                            Returned::Noted(value, note) => (End::Done(value), Some(note)),
                            Returned::Invalid(failure) => (End::Failed(failure), None),
                        };
                        if let Some(text) = note {
                            driver.record(&call.path, StepName::Misfit, RecordKind::Note { text })?;
                        }
                        Outcome { end, ..outcome }
                    }
                    _ => outcome,
                };
                self.ended(&call, outcome)
            }
        }
    }

    fn ended(&self, call: &Call<'_>, outcome: Outcome) -> Result<Outcome, Halt> {
        let blobs = outcome.blobs.clone();
        let body = RecordKind::CallEnded { ending: outcome.end.to_ending(), usage: outcome.usage, blobs };
        self.host.driver.record(&call.path, StepName::End, body)?;
        Ok(outcome)
    }

    /// All steps before execution.
    async fn admit(&self, call: &Call<'_>) -> Result<Admitted, Stop> {
        let mut input = Arc::clone(&call.input);
        let mut edits = 0u32;
        let mut edited_by = None;
        loop {
            let admitted = self.examine(call, input, edits).await?;
            match self.judge(call, &admitted, edited_by.take()).await? {
                Judged::Run => return Ok(admitted),
                Judged::Edited { input: new, by } => {
                    input = new;
                    edits += 1;
                    edited_by = Some(by);
                }
            }
        }
    }

    /// The input of a call as the function receives it, completed and valid, and the places that it touches.
    ///
    /// # Errors
    /// The input is invalid, or the caller has no access to a place that it touches.
    pub(crate) async fn accept(&self, call: &Call<'_>) -> Result<(Arc<Value>, Vec<Located>), Stop> {
        let Admitted { input, places, .. } = self.examine(call, Arc::clone(&call.input), 0).await?;
        Ok((input, places))
    }

    /// The steps before the rules: completes and validates the arguments, and determines the places that they touch. This
    /// is the only way for arguments into a function.
    async fn examine(&self, call: &Call<'_>, mut input: Arc<Value>, edits: u32) -> Result<Admitted, Stop> {
        let meta = &call.function.meta;
        if let Implementation::Composite(composite) = &call.function.body
            && let Some(whole) = composite.complete(self, call.frame, &input)
        {
            input = Arc::new(whole);
        }
        // Rules, the operator and the function get the same arguments, defaults included.
        let filled = match meta.input.accept(&input) {
            Ok(Cow::Borrowed(_)) => None,
            Ok(Cow::Owned(filled)) => Some(filled),
            Err(wrong) => return Err(invalid_input(&meta.name, &wrong).into()),
        };
        input = filled.map_or(input, Arc::new);
        let effects = match &call.function.body {
            Implementation::Leaf(leaf) => leaf.effects(&input),
            Implementation::Composite(composite) => {
                composite.admit(self, call.frame)?;
                composite.effects(&input)
            }
        };
        let places = self
            .locate(call, &effects)
            .map_err(|refusal| Stop::failed(FailureKind::Authority, refusal.to_string()))?;
        let real = self.follow(call, &effects, &places, edits).await?;
        let subjects = subjects(&input, &effects, &places, &real);
        let stated = self.stated(call, &input, edits).await?;
        Ok(Admitted { input, effects, places, real, subjects, stated })
    }

    fn locate(&self, call: &Call<'_>, effects: &Effects) -> Result<Vec<Located>, Refusal> {
        let delegated = matches!(call.function.body, Implementation::Composite(_));
        effects
            .touches
            .iter()
            .map(|Touch { path, access, .. }| {
                call.frame.authority().locate(path, *access).map_err(|refusal| {
                    // The caller must hold a capability that it passes (`docs/reference/sandbox.md`). A leaf's own
                    // refusal has more detail.
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

    /// Resolves links in the paths: a rule for one folder does not apply to the target of a link in it. This is a
    /// step whenever the call touches paths, with or without links.
    async fn follow(
        &self,
        call: &Call<'_>,
        effects: &Effects,
        places: &[Located],
        edits: u32,
    ) -> Result<Vec<Place>, Halt> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let name = StepName::Links(edits);
        let run = Box::pin(async {
            let (mut real, mut elsewhere) = (Vec::with_capacity(places.len()), false);
            for (place, touch) in places.iter().zip(&effects.touches) {
                let named = place.place();
                // The operation itself refuses a path that can't be resolved.
                let rest = self.host.files.real(place, !touch.delete).await;
                let followed = rest.map_or_else(|_| named.clone(), |rest| place.base.join(&rest));
                elsewhere |= followed != named;
                real.push(followed);
            }
            RecordKind::LinksFollowed { places: real, elsewhere }
        });
        let step = Step {
            path: &call.path,
            name: name.clone(),
            intent: None,
            deadline: None,
            cut_off: CutOff::Again,
            run,
        };
        match self.host.driver.step(step).await?.end {
            StepEnd::Done(RecordKind::LinksFollowed { places, .. }) => Ok(places),
            StepEnd::Done(other) => Err(Halt::unexpected(&call.path, &name, &other)),
            StepEnd::TimedOut => Ok(places.iter().map(Located::place).collect()),
        }
    }

    /// Runs the function's own approval code, if it has any.
    async fn stated(&self, call: &Call<'_>, input: &Value, edits: u32) -> Result<Option<Rule>, Halt> {
        let Some(code) = &call.function.rule else { return Ok(None) };
        let name = StepName::Rule(edits);
        let stepped = self
            .host
            .driver
            .step(Step {
                path: &call.path,
                name: name.clone(),
                intent: None,
                deadline: Some(RULE_TIMEOUT),
                cut_off: CutOff::Again,
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

    /// Rule, mode, memory, ask. `edited_by` edited the arguments and thereby approves them.
    async fn judge(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        edited_by: Option<DecidedBy>,
    ) -> Result<Judged, Stop> {
        let meta = &call.function.meta;
        let verdict = self.weigh(call, admitted, Gate::decide);
        let record = |rule, by: DecidedBy, reason: Option<&str>| {
            let body = RecordKind::Verdict { rule, by, reason: reason.map(Into::into) };
            self.host.driver.record(&call.path, StepName::Verdict, body)
        };
        let run = |by| record(Rule::PreApproved, by, None).map(|()| Judged::Run).map_err(Stop::from);
        match verdict.rule {
            Rule::PreApproved => return run(verdict.decided_by),
            Rule::Blocked => {
                let message = format!(
                    "`{}` with these arguments is blocked ({}). Do it another way or say that you can't.",
                    meta.name, verdict.decided_by
                );
                record(Rule::Blocked, verdict.decided_by, None)?;
                return Err(Stop::failed(FailureKind::Blocked, message));
            }
            Rule::Ask if call.starts_run => return run(DecidedBy::Start),
            Rule::Ask if passes_on(call.function) => return run(DecidedBy::Delegation),
            Rule::Ask => {
                if let Some(by) = edited_by {
                    return run(by);
                }
            }
        }
        match self.host.gate.mode {
            Mode::ApproveAll => run(DecidedBy::Mode(Mode::ApproveAll)),
            Mode::AutoDeny => {
                let asks = verdict.decided_by.to_string();
                record(Rule::Blocked, DecidedBy::Mode(Mode::AutoDeny), Some(&asks))?;
                let message = format!(
                    "`{}` needs an approval that nobody can give in this run. Do it another way or say that you can't.",
                    meta.name
                );
                Err(Stop::failed(FailureKind::Denied, message))
            }
            // A deferring run has an operator that answers `Later` to undecided questions.
            Mode::Defer | Mode::Interactive => self.ask(call, admitted, verdict.decided_by, &record).await,
        }
    }

    /// Asks the operator about the call, or uses a remembered answer.
    async fn ask(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        rule: DecidedBy,
        record: &(impl Fn(Rule, DecidedBy, Option<&str>) -> Result<(), Halt> + MaybeSync),
    ) -> Result<Judged, Stop> {
        let key: Arc<str> = memory_key(call.function, admitted).into();
        // The preview is only for display. It reads files but decides nothing.
        let preview = match self.host.driver.shared().remembers(&key).await {
            true => None,
            false => self.preview(call, admitted).await,
        };
        let meta = &call.function.meta;
        let question = Question::Approval(Approval {
            chain: call.frame.chain(),
            function: Arc::clone(&meta.name),
            risk: meta.risk,
            input: Arc::clone(&admitted.input),
            preview,
            rule,
        });
        let known = Known::Remembered(key);
        let given = self.exchange(call.frame, &call.path, StepName::Ask, question, known).await?;
        let by = |given: &Given, edited| DecidedBy::Operator {
            by: Arc::clone(&given.by),
            via: Arc::clone(&given.via),
            edited,
        };
        let who = by(&given, false);
        match &given.answer {
            Answer::Approve { .. } => {
                record(Rule::PreApproved, who, None)?;
                Ok(Judged::Run)
            }
            Answer::Deny { reason, .. } => {
                record(Rule::Blocked, who, reason.as_deref())?;
                Err(Stop::failed(FailureKind::Denied, denied(&meta.name, reason.as_deref())))
            }
            Answer::Edit { input } => Ok(Judged::Edited { input: Arc::clone(input), by: by(&given, true) }),
            _ => Err(misfit(&call.path, &StepName::Ask).into()),
        }
    }

    /// Puts a question to the operator. The waiting time does not count as working time.
    async fn exchange(
        &self,
        frame: &Frame,
        path: &CallPath,
        step: StepName,
        question: Question,
        known: Known,
    ) -> Result<Given, Stop> {
        let driver = &self.host.driver;
        let id = QuestionId::new(path, &step);
        let Exchanged { reply, waited } = driver.exchange(path, step, question.clone(), known).await?;
        frame.waited(waited, &**driver).await;
        match reply {
            Reply::Given(given) => Ok(given),
            Reply::Later => Err(Stop::Suspended(vec![Waiting { id, question }])),
        }
    }

    /// Asks the user for text, or for a form with that schema, on behalf of the call at `path`. `number` counts the
    /// questions of the call. The answer fits the schema.
    ///
    /// # Errors
    /// A failure if the user gives no answer or an invalid one; suspension if there is no answer now.
    pub async fn input(
        &self,
        frame: &Frame,
        path: &CallPath,
        number: u32,
        prompt: &str,
        schema: Option<&Schema>,
    ) -> Result<Arc<Value>, Stop> {
        let prompt = self.host.redact.text(prompt).into();
        let shown = schema.map(|schema| Arc::clone(schema.value()));
        let question = Question::Input(Input { chain: frame.chain(), prompt, schema: shown });
        let step = StepName::Input(number);
        let given = self.exchange(frame, path, step.clone(), question, Known::Nothing).await?;
        match given.answer {
            Answer::Give { value } => match schema.map(|schema| schema.validate(&value)) {
                Some(Err(wrong)) => {
                    let message = format!("The user's answer does not fit the form:{}", list(&wrong));
                    Err(Stop::failed(FailureKind::InvalidInput, message))
                }
                _ => Ok(value),
            },
            Answer::Decline { reason } => {
                let why = reason.map_or_else(String::new, |reason| format!(": {reason}"));
                Err(Stop::failed(FailureKind::Denied, format!("The user gave no answer{why}")))
            }
            _ => Err(misfit(path, &step).into()),
        }
    }

    /// Settles an earlier attempt at the leaf at `path`, if one had started and not ended when the run was
    /// interrupted: from the state of the files (`found`), or else by asking the operator. Only the records determine
    /// whether there was such an attempt.
    pub(crate) async fn settle(
        &self,
        frame: &Frame,
        path: &CallPath,
        question: impl FnOnce(Risk) -> Settlement,
        found: impl AsyncFnOnce() -> Option<Answer>,
    ) -> Result<CutOff, Stop> {
        let Some(RecordKind::ToolStarted { risk, .. }) = self.host.driver.begun(path, &StepName::Tool(0))
        else {
            return Ok(CutOff::Again);
        };
        if risk == Risk::Read {
            return Ok(CutOff::Again);
        }
        let evidence = found().await.map(|answer| Known::Answer(Given::operator(answer, FILES)));
        let settlement = question(risk);
        let function = Arc::clone(&settlement.function);
        let question = Question::Settlement(settlement);
        let given =
            self.exchange(frame, path, StepName::Settle, question, evidence.unwrap_or_default()).await?;
        match given.answer {
            Answer::Again => Ok(CutOff::Again),
            Answer::Done { result } => Ok(CutOff::Done(RecordKind::ToolEnded {
                ending: Ending::Output(result),
                blobs: Vec::new(),
                log: None,
            })),
            Answer::Abort => Err(Halt::Aborted { path: path.clone(), function }.into()),
            _ => Err(misfit(path, &StepName::Settle).into()),
        }
    }

    /// Passes a call to the gate in the form that rules match.
    fn weigh<T>(&self, call: &Call<'_>, admitted: &Admitted, look: impl FnOnce(&Gate, &Query<'_>) -> T) -> T {
        let meta = &call.function.meta;
        let touched = admitted
            .places
            .iter()
            .zip(&admitted.real)
            .zip(&admitted.effects.touches)
            .map(|((place, real), touch)| Touched::new(place, real, touch));
        let touched: Vec<Touched> = touched.collect();
        let not_own = not_own(meta, &touched);
        let foreign = call.frame.is_foreign() || !self.is_own(meta);
        // A function's own `preApproved` applies only where the program's files may pre-approve.
        let function = || DecidedBy::Function { function: Arc::clone(&meta.name) };
        let stated = admitted.stated.map(|rule| (rule, function()));
        let of_itself = stated.into_iter().chain(admitted.effects.rules.iter().cloned());
        let may_loosen = not_own.is_none() && !foreign;
        let of_itself = of_itself.filter(|(rule, _)| *rule != Rule::PreApproved || may_loosen);
        let mounts: Vec<(Rule, DecidedBy)> = mount_rules(&touched).chain(of_itself).collect();
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
            not_own,
            foreign,
        };
        look(&self.host.gate, &query)
    }

    /// The preview of the call's changes for the operator.
    async fn preview(&self, call: &Call<'_>, admitted: &Admitted) -> Option<Preview> {
        let Implementation::Leaf(leaf) = &call.function.body else { return None };
        let Preview::Change { path, before, after } =
            leaf.preview(self.leaf_call(call, admitted, "")).await?;
        let clean = |text: Option<String>| text.map(|text| self.host.redact.text(&text).into_owned());
        Some(Preview::Change { path, before: clean(before), after: clean(after) })
    }

    fn leaf_call<'a>(&'a self, call: &'a Call<'_>, admitted: &'a Admitted, key: &'a str) -> LeafCall<'a> {
        LeafCall {
            input: &admitted.input,
            places: &admitted.places,
            authority: call.frame.authority(),
            files: &*self.host.files,
            results: call.frame.results(&*self.host.driver),
            run: &self.host.run,
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
        // The same for every attempt, now and after a resume: it is the path in this run's call tree.
        let key: Arc<str> = format!("{}:{}", self.host.run, call.path).into();
        let mut cut_off = match self.before_leaf(call, leaf, admitted).await {
            Ok(cut_off) => cut_off,
            Err(stop) => return self.ended(call, Outcome::free(stop.end()?)),
        };
        // Of another risk, an attempt that failed may have had its effect.
        let retries = if meta.risk == Risk::Read { overridden(call, admitted, |o| o.retries) } else { None };
        let retries = retries.unwrap_or(0);
        let mut attempt = 0;
        loop {
            let cut_off = std::mem::replace(&mut cut_off, CutOff::Again);
            let outcome = self.attempt(call, leaf, admitted, &key, attempt, cut_off).await?;
            if attempt == retries || !matches!(outcome.end, End::Failed(_)) {
                return Ok(outcome);
            }
            attempt += 1;
        }
    }

    /// One attempt of a leaf, which is a step.
    async fn attempt(
        &self,
        call: &Call<'_>,
        leaf: &dyn crate::function::Leaf,
        admitted: &Admitted,
        key: &Arc<str>,
        attempt: u32,
        cut_off: CutOff,
    ) -> Result<Outcome, Halt> {
        let meta = &call.function.meta;
        let own = timeout(call, admitted).unwrap_or(LEAF_TIMEOUT);
        let left = call.frame.remaining(&*self.host.driver).await;
        let deadline = left.map_or(own, |left| left.min(own));
        let name = StepName::Tool(attempt);
        let stepped = self
            .host
            .driver
            .step(Step {
                path: &call.path,
                name: name.clone(),
                intent: Some(RecordKind::ToolStarted {
                    function: Arc::clone(&meta.name),
                    risk: meta.risk,
                    idempotency_key: Arc::clone(key),
                }),
                deadline: Some(deadline),
                cut_off,
                run: Box::pin(async move {
                    let result = leaf.run(self.leaf_call(call, admitted, key)).await;
                    let (ending, blobs, log) = match result {
                        Ok(ToolOutput { value, blobs, log }) => {
                            match Returned::of(meta, Arc::new(self.host.redact.value(value))) {
                                Returned::Fits(value) => (Ending::Output(value), blobs, log),
                                Returned::Noted(value, note) => {
                                    let log =
                                        log.map_or_else(|| Arc::clone(&note), |log| with_line(&log, &note));
                                    (Ending::Output(value), blobs, Some(log))
                                }
                                Returned::Invalid(failure) => (Ending::Failure(failure), blobs, log),
                            }
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
            StepEnd::Done(other) => return Err(Halt::unexpected(&call.path, &name, &other)),
            StepEnd::TimedOut => {
                End::Failed(timed_out(&meta.name, u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX)))
            }
        };
        Ok(Outcome::free(end))
    }

    /// Determines the changes that the leaf will make, and settles an interrupted attempt.
    async fn before_leaf(
        &self,
        call: &Call<'_>,
        leaf: &dyn crate::function::Leaf,
        admitted: &Admitted,
    ) -> Result<CutOff, Stop> {
        let meta = &call.function.meta;
        if meta.risk == Risk::Read {
            return Ok(CutOff::Again);
        }
        let leaf_call = || self.leaf_call(call, admitted, "");
        let foreseen = match leaf.foresees() {
            false => None,
            true => {
                let step = Step {
                    path: &call.path,
                    name: StepName::Foresee,
                    intent: None,
                    deadline: Some(LEAF_TIMEOUT),
                    cut_off: CutOff::Again,
                    run: Box::pin(async {
                        RecordKind::Foreseen { foreseen: leaf.foresee(leaf_call()).await }
                    }),
                };
                match self.host.driver.step(step).await?.end {
                    StepEnd::Done(RecordKind::Foreseen { foreseen }) => foreseen,
                    StepEnd::Done(other) => {
                        return Err(Halt::unexpected(&call.path, &StepName::Foresee, &other).into());
                    }
                    StepEnd::TimedOut => None,
                }
            }
        };
        let question = |risk| Settlement {
            chain: call.frame.chain(),
            function: Arc::clone(&meta.name),
            risk,
            input: Arc::clone(&admitted.input),
        };
        let found = async || leaf.look_back(leaf_call(), foreseen.as_ref()?).await;
        self.settle(call.frame, &call.path, question, found).await
    }

    fn is_own(&self, meta: &FunctionMeta) -> bool {
        matches!(meta.source, FunctionSource::Toolset(_) | FunctionSource::Program)
    }

    /// Emits a provisional event, if anything listens.
    pub fn emit(&self, event: Event) {
        self.host.driver.emit(event);
    }
}

enum Judged {
    Run,
    Edited { input: Arc<Value>, by: DecidedBy },
}

/// A recorded answer that does not fit its question.
fn misfit(path: &CallPath, step: &StepName) -> Halt {
    let reason = "the recorded answer does not fit the question".to_owned();
    Halt::Diverged { path: path.clone(), step: step.clone(), reason }
}

/// The names that rules may use for a function that is called from there.
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

/// What the caller's rules state for the call.
fn overridden<T>(
    call: &Call<'_>,
    admitted: &Admitted,
    stated: impl Fn(&CallOverride) -> Option<T>,
) -> Option<T> {
    call.frame.overridden(&names(call.function, call.frame), &admitted.subjects, stated)
}

/// The call's own time limit.
fn timeout(call: &Call<'_>, admitted: &Admitted) -> Option<Duration> {
    overridden(call, admitted, |o| o.timeout).or(call.function.meta.timeout)
}

/// Whether it delegates without being a worker (`worker_call`). It makes one call, and the approval question is about
/// that call, so that the operator is not asked twice.
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

/// The key of a remembered answer: the function and its arguments, regardless of key order, with paths resolved to
/// real places (`docs/reference/approvals.md`).
fn memory_key(function: &Function, admitted: &Admitted) -> String {
    let mut input = (*admitted.input).clone();
    if let Value::Object(map) = &mut input {
        for (touch, real) in admitted.effects.touches.iter().zip(&admitted.real) {
            // One marked argument for each path, so that a content that looks like a path is not taken for one.
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

/// The result of a function that ran to its end.
enum Returned {
    /// It fits its schema, or there is none.
    Fits(Arc<Value>),
    /// It doesn't fit a schema that only describes it.
    Noted(Arc<Value>, Arc<str>),
    /// It breaks a declared schema.
    Invalid(Failure),
}

impl Returned {
    fn of(meta: &FunctionMeta, value: Arc<Value>) -> Self {
        let Some(output) = &meta.output else { return Self::Fits(value) };
        let Err(wrong) = output.schema().validate(&value) else { return Self::Fits(value) };
        let (name, wrong) = (&meta.name, list(&wrong));
        match output {
            OutputSchema::Derived(_) => {
                let note = format!("the result of `{name}` does not fit its return type:{wrong}");
                Self::Noted(value, note.into())
            }
            OutputSchema::Declared(_) => {
                let message = format!(
                    "`{name}` ran to its end, and its effects stay, but it returned something that doesn't fit its \
                     schema:{wrong}"
                );
                let failure = Failure::new(FailureKind::InvalidOutput, message);
                Self::Invalid(failure.with_partial(Some((*value).clone())))
            }
        }
    }
}

fn with_line(log: &str, line: &str) -> Arc<str> {
    let end = if log.ends_with('\n') { "" } else { "\n" };
    format!("{log}{end}{line}").into()
}
