//! Rule, memory, mode and question: the decision whether an admitted call may run.

use super::{
    Admitted, Call, Engine,
    exchange::{Answered, misfit},
    names,
    touched::{Touched, mount_rules, not_own},
};
use crate::{
    driver::Known,
    function::{Function, FunctionMeta, Implementation},
    gate::{Facts, Gate, Query, SessionRules, Subject},
    journal::RecordKind,
    outcome::{FailureKind, Halt, Stop},
    question::{Answer, Approval, Arguments, Given, MemoryKeys, Preview, Question, QuestionId},
    risk::Risk,
    rule::{DecidedBy, Mode, Rule},
    schema::{canonical, sha256},
    send::MaybeSync,
    source::FunctionSource,
    step_name::StepName,
};
use serde_json::{Value, json};
use std::sync::Arc;

impl Engine {
    /// Decides about a call by rule, mode, memory and, if needed, a question.
    pub(super) async fn judge(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        round: u32,
        before: Before,
    ) -> Result<Judged, Stop> {
        let meta = &call.function.meta;
        let verdict = self.wary(call, admitted, self.weigh(call, admitted, Gate::decide));
        let verdict = self.blocked_handing(call, admitted).unwrap_or(verdict);
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
            Rule::Ask if call.by_operator => return run(DecidedBy::Start),
            Rule::Ask if passes_on(call.function) => return run(DecidedBy::Delegation),
            Rule::Ask => {}
        }
        let asks = match before {
            Before::Nothing => verdict.decided_by,
            // Editing the arguments approves them.
            Before::Edited(by) => return run(by),
            Before::Changed(what) => DecidedBy::Changed { what, rule: Box::new(verdict.decided_by) },
        };
        match self.host.gate.mode {
            Mode::ApproveAll => run(DecidedBy::Mode(Mode::ApproveAll)),
            Mode::AutoDeny => {
                record(Rule::Blocked, DecidedBy::Mode(Mode::AutoDeny), Some(&asks.to_string()))?;
                let message = format!(
                    "`{}` was not called: it needs an approval, and this run has no operator to ask. Do it another way, or say that you can't.",
                    meta.name
                );
                Err(Stop::failed(FailureKind::Denied, message))
            }
            // A deferring run has an operator that answers `Later` to undecided questions.
            Mode::Defer | Mode::Interactive => self.ask(call, admitted, round, asks, &record).await,
        }
    }

    /// Asks the operator about the call, or uses a remembered answer.
    pub(super) async fn ask(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        round: u32,
        rule: DecidedBy,
        record: &(impl Fn(Rule, DecidedBy, Option<&str>) -> Result<(), Halt> + MaybeSync),
    ) -> Result<Judged, Stop> {
        let (keys, rules) = self.memory(call, admitted).await;
        let mut remembered = false;
        for key in keys.all() {
            remembered |= self.host.driver.shared().remembers(key).await;
        }
        let preview = if remembered { None } else { self.preview(call, admitted).await };
        let meta = &call.function.meta;
        let question = Question::Approval(Approval {
            chain: call.frame.chain(),
            function: Arc::clone(&meta.name),
            risk: meta.risk,
            input: Arc::clone(&admitted.input),
            preview: preview.map(Box::new),
            calls: admitted.bounds.clone(),
            rule,
            steering: self.steering(call, admitted),
            rules,
            expires_ms: None,
            arguments: Arguments(Some(Arc::clone(&meta.input))),
        });
        let known = Known::Remembered(keys);
        let step = StepName::Ask(round);
        let Answered { given, asked } =
            self.exchange(call.frame, &call.path, step.clone(), question, known).await?;
        let by = |given: &Given, edited| DecidedBy::Operator {
            by: Arc::clone(&given.by),
            via: Arc::clone(&given.via),
            edited,
        };
        let who = by(&given, false);
        match &given.answer {
            Answer::Approve { .. } | Answer::Allow { .. } => {
                // A remembered answer covers the call whatever the files hold by now: it showed no preview of them.
                let asked = asked.filter(|_| !given.is_remembered());
                match self.recheck(call, admitted, round, asked.as_ref()).await? {
                    Some(what) => Ok(Judged::Changed(what)),
                    None => {
                        record(Rule::PreApproved, who, None)?;
                        Ok(Judged::Run)
                    }
                }
            }
            Answer::Deny { reason, .. } => {
                record(Rule::Blocked, who, reason.as_deref())?;
                Err(Stop::failed(FailureKind::Denied, denied(&meta.name, reason.as_deref())))
            }
            Answer::Stop => Err(stopped(&meta.name)),
            Answer::Edit { input } => Ok(Judged::Edited { input: Arc::clone(input), by: by(&given, true) }),
            _ => Err(misfit(&call.path, &step).into()),
        }
    }

    /// Passes a call to the gate in the form that rules match.
    pub(crate) fn weigh<T>(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        look: impl FnOnce(&Gate, &Query<'_>) -> T,
    ) -> T {
        self.weigh_with(call, admitted, call.frame.session_rules(), look)
    }

    /// Passes a call to the gate with these rules of conversations.
    fn weigh_with<T>(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        session: &SessionRules,
        look: impl FnOnce(&Gate, &Query<'_>) -> T,
    ) -> T {
        let meta = &call.function.meta;
        let touched: Vec<Touched<'_>> = admitted.touched().collect();
        let not_own = not_own(meta, &touched);
        let foreign = call.frame.is_foreign() || !self.is_own(meta);
        // A function's own `preApproved` applies only where the program's files may pre-approve.
        let function = || DecidedBy::Function { function: Arc::clone(&meta.name) };
        let stated = admitted.stated.map(|rule| (rule, function()));
        let of_itself = stated.into_iter().chain(admitted.effects.rules.iter().cloned());
        let covers_grants = call.function.rule.as_ref().is_some_and(|code| code.covers_grants());
        let may_loosen = (not_own.is_none() || covers_grants) && !foreign;
        let of_itself = of_itself.filter(|(rule, _)| *rule != Rule::PreApproved || may_loosen);
        let narrowed = self.narrowed(call, admitted);
        let mounts: Vec<(Rule, DecidedBy)> = mount_rules(&touched).chain(of_itself).chain(narrowed).collect();
        let callers = call.frame.rules_above();
        let query = Query {
            names: &names(call.function, call.frame),
            risk: meta.risk,
            wildcard: meta.wildcard,
            subjects: admitted.subjects.as_deref(),
            facts: Facts {
                arguments: &admitted.input,
                words: Some(call.frame.trail()),
                sets: call.frame.sets(),
            },
            session,
            worker: call.frame.rules(),
            callers: &callers,
            toolset: meta.policy.as_deref(),
            of_toolset: admitted.effects.says.as_ref(),
            mounts: &mounts,
            vouched: may_loosen && stated_by_origins(call.function, admitted),
            not_own,
            foreign,
            borrowed_name: self.has_borrowed_name(meta),
        };
        look(&self.host.gate, &query)
    }

    /// Returns true if a function has the name of a built-in tool but is another function. If its toolset declares the
    /// name itself, the name is not borrowed.
    pub(super) fn has_borrowed_name(&self, meta: &FunctionMeta) -> bool {
        let names = [&*meta.name, &*meta.tool_name];
        let owns = match &meta.source {
            FunctionSource::Toolset(name) => self.host.toolsets.get(name).is_some_and(|kind| {
                kind.tools().iter().chain(kind.rule_names()).any(|own| names.contains(own))
            }),
            _ => false,
        };
        !owns && self.host.toolsets.reserving(&names, |_| true).is_some()
    }

    /// The keys under which an answer about the call may be remembered, and the rules that are offered to the operator.
    ///
    /// A rule of the session reaches as far as the same rule of the command line, but never a call that untrusted words
    /// could steer (`docs/reference/approvals.md`).
    async fn memory(&self, call: &Call<'_>, admitted: &Admitted) -> (MemoryKeys, Vec<Arc<str>>) {
        let identity = identity(call).await;
        let mut keys = MemoryKeys { call: memory_key(&identity, admitted).into(), ..MemoryKeys::default() };
        let mut offered = Vec::new();
        if !admitted.origins.is_trusted() {
            return (keys, offered);
        }
        let made_at = QuestionId::new(&call.path, &StepName::Ask(0));
        for Candidate { calls, is_offered } in candidates(call, admitted) {
            let rules = call.frame.session_rules().with(made_at.clone(), Rule::PreApproved, &calls);
            let lets_run = rules.is_ok_and(|rules| {
                self.weigh_with(call, admitted, &rules, Gate::decide).rule == Rule::PreApproved
            });
            if !lets_run || self.host.redact.text(&calls) != calls {
                continue;
            }
            let calls: Arc<str> = calls.into();
            let key = sha256(canonical(&json!({"rule": calls, "call": identity})).as_bytes());
            keys.rules.insert(Arc::clone(&calls), key.into());
            if is_offered {
                offered.push(calls);
            }
        }
        (keys, offered)
    }

    /// The preview of the call's changes for the operator.
    pub(super) async fn preview(&self, call: &Call<'_>, admitted: &Admitted) -> Option<Preview> {
        let Implementation::Leaf(leaf) = &call.function.body else { return None };
        let Preview::Change { path, before, after } =
            leaf.preview(self.leaf_call(call, admitted, "")).await?;
        let clean = |text: Option<String>| text.map(|text| self.host.redact.text(&text).into_owned());
        Some(Preview::Change { path, before: clean(before), after: clean(after) })
    }
}

/// Returns true if approval code that knew the origins of the arguments pre-approves the call.
fn stated_by_origins(function: &Function, admitted: &Admitted) -> bool {
    admitted.stated == Some(Rule::PreApproved)
        && function.rule.as_ref().is_some_and(|code| code.takes_origins())
}

pub(super) enum Judged {
    Run,
    Edited {
        input: Arc<Value>,
        by: DecidedBy,
    },
    /// The call was approved, but this changed since the operator was asked.
    Changed(Arc<str>),
}

/// The operator's answer in the round before.
pub(super) enum Before {
    /// No answer was given.
    Nothing,
    /// The operator gave new arguments, which are thereby approved.
    Edited(DecidedBy),
    /// The operator approved, but this changed since the question.
    Changed(Arc<str>),
}

/// Returns true if the function delegates without being a worker (`worker_call`). It makes one call, and the approval
/// question is about that call, so that the operator is not asked twice.
pub(super) fn passes_on(function: &Function) -> bool {
    function.meta.risk == Risk::Delegate && matches!(function.meta.source, FunctionSource::Toolset(_))
}

/// A rule that covers a call.
struct Candidate {
    calls: String,
    /// True if the rule is offered for this call. The other candidates are rules for ancestor folders, which may have
    /// been offered for another call.
    is_offered: bool,
}

/// The rules that could cover a call: this tool in the folder of the path, and in its ancestors; this tool.
fn candidates(call: &Call<'_>, admitted: &Admitted) -> Vec<Candidate> {
    /// Characters with a meaning in patterns.
    const META: [char; 11] = ['*', '?', '[', ']', '{', '}', '\\', '!', '(', ')', '"'];
    let name = &call.function.meta.name;
    let is_plain = |text: &str| !text.contains(META) && !text.contains(char::is_whitespace);
    if !is_plain(name) {
        return Vec::new();
    }
    let path = admitted.subjects.iter().flatten().find_map(|subject| match subject {
        Subject::Path(path) => Some(path.as_str()),
        Subject::Text(_) => None,
    });
    let mut folder = path.and_then(|path| path.rsplit_once('/')).map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    while !folder.is_empty() {
        if is_plain(folder) {
            found.push(Candidate { calls: format!("{name}({folder}/**)"), is_offered: found.is_empty() });
        }
        folder = folder.rsplit_once('/').map_or("", |(above, _)| above);
    }
    found.push(Candidate { calls: name.to_string(), is_offered: true });
    found
}

/// All data that the effect of a call depends on, without its arguments: its code and its caller's authority.
async fn identity(call: &Call<'_>) -> Value {
    let (meta, authority) = (&call.function.meta, call.frame.authority());
    json!({
        "source": meta.source,
        "name": meta.name,
        "code": call.function.body.identity().await,
        "risk": meta.risk,
        // The working folder of a command follows from the view.
        "view": authority.view(),
        "bounds": authority.bounds(),
    })
}

/// The key of a remembered answer: all data that the effect of a call depends on (`docs/reference/approvals.md`). The
/// order of the arguments has no effect, and paths count by their real places.
fn memory_key(identity: &Value, admitted: &Admitted) -> String {
    let mut input = (*admitted.input).clone();
    if let Value::Object(map) = &mut input {
        for (touch, real) in admitted.effects.touches.iter().zip(&admitted.real) {
            // One marked argument for each path, so that a content that looks like a path is not taken for one.
            if let Some(value) = map.values_mut().find(|value| value.as_str() == Some(&touch.path)) {
                *value = Value::String(format!("\0{real}"));
            }
        }
    }
    // The same words from elsewhere are another question.
    let key = json!({"call": identity, "input": input, "origins": admitted.origins});
    sha256(canonical(&key).as_bytes())
}

/// The end of a call that waited for the operator when the user stopped the answer.
fn stopped(name: &str) -> Stop {
    Stop::failed(
        FailureKind::Stopped,
        format!("The user stopped the answer before `{name}` was approved. It was not called."),
    )
}

pub(super) fn denied(name: &str, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("The operator refused `{name}`: {reason}"),
        None => format!("The operator refused `{name}`. Do it another way or say that you can't."),
    }
}
