//! Rule, memory, mode and question: whether an admitted call may run.

use super::{
    Admitted, Call, Engine,
    exchange::misfit,
    names,
    touched::{Touched, mount_rules, not_own},
};
use crate::{
    driver::Known,
    function::{Function, Implementation},
    gate::{Facts, Gate, Query},
    journal::RecordKind,
    outcome::{FailureKind, Halt, Stop},
    question::{Answer, Approval, Given, Preview, Question},
    risk::Risk,
    rule::{DecidedBy, Mode, Rule},
    schema::canonical,
    send::MaybeSync,
    source::FunctionSource,
    step_name::StepName,
};
use serde_json::Value;
use std::sync::Arc;

impl Engine {
    /// Rule, mode, memory, ask. `edited_by` edited the arguments and thereby approves them.
    pub(super) async fn judge(
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
    pub(super) async fn ask(
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

    /// Passes a call to the gate in the form that rules match.
    pub(super) fn weigh<T>(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        look: impl FnOnce(&Gate, &Query<'_>) -> T,
    ) -> T {
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
        let covers_grants = call.function.rule.as_ref().is_some_and(|code| code.covers_grants());
        let may_loosen = (not_own.is_none() || covers_grants) && !foreign;
        let of_itself = of_itself.filter(|(rule, _)| *rule != Rule::PreApproved || may_loosen);
        let mounts: Vec<(Rule, DecidedBy)> = mount_rules(&touched).chain(of_itself).collect();
        let callers = call.frame.rules_above();
        let query = Query {
            names: &names(call.function, call.frame),
            risk: meta.risk,
            wildcard: meta.wildcard,
            subjects: admitted.subjects.as_deref(),
            facts: Facts { arguments: &admitted.input, words: None, sets: call.frame.sets() },
            worker: call.frame.rules(),
            callers: &callers,
            toolset: meta.policy.as_deref(),
            of_toolset: admitted.effects.says.as_ref(),
            mounts: &mounts,
            vouched: may_loosen && stated_by_origins(call.function, admitted),
            not_own,
            foreign,
        };
        look(&self.host.gate, &query)
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

/// Whether approval code that knew the origins of the arguments pre-approves the call.
fn stated_by_origins(function: &Function, admitted: &Admitted) -> bool {
    admitted.stated == Some(Rule::PreApproved)
        && function.rule.as_ref().is_some_and(|code| code.takes_origins())
}

pub(super) enum Judged {
    Run,
    Edited { input: Arc<Value>, by: DecidedBy },
}

/// Whether it delegates without being a worker (`worker_call`). It makes one call, and the approval question is about
/// that call, so that the operator is not asked twice.
pub(super) fn passes_on(function: &Function) -> bool {
    function.meta.risk == Risk::Delegate && matches!(function.meta.source, FunctionSource::Toolset(_))
}

/// The key of a remembered answer: the function and its arguments, regardless of key order, with paths resolved to
/// real places (`docs/reference/approvals.md`).
pub(super) fn memory_key(function: &Function, admitted: &Admitted) -> String {
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

pub(super) fn denied(name: &str, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("The operator refused `{name}`: {reason}"),
        None => format!("The operator refused `{name}`. Do it another way or say that you can't."),
    }
}
