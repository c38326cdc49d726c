//! The steps before the rules: a call's arguments, the places that they touch, and its own approval code.

use super::{Admitted, CHECK_TIMEOUT, Call, Engine, RULE_TIMEOUT};
use crate::{
    authority::{Access, Located, Place, Refusal},
    driver::{CutOff, Step, StepEnd},
    function::{Checked, Effects, Implementation, MainArgument, RuleCall, Touch},
    gate::Subject,
    journal::RecordKind,
    origin::Origins,
    outcome::{Failure, FailureKind, Halt, Stop},
    rule::{Mode, Rule},
    schema::Violation,
    step_name::StepName,
};
use serde_json::Value;
use std::{borrow::Cow, sync::Arc};

impl Engine {
    /// The input of a call in the form that the function receives, completed and valid, and the places that it touches.
    ///
    /// # Errors
    /// The input is invalid, or the caller has no access to a place that it touches.
    pub(crate) async fn accept(&self, call: &Call<'_>) -> Result<(Arc<Value>, Vec<Located>), Stop> {
        let Admitted { input, places, .. } =
            self.examine(call, Arc::clone(&call.input), Origins::TRUSTED, 0).await?;
        Ok((input, places))
    }

    /// The steps before the rules: completes and validates the arguments, and determines the places that they touch. This
    /// is the only way for arguments into a function.
    pub(super) async fn examine(
        &self,
        call: &Call<'_>,
        mut input: Arc<Value>,
        origins: Origins,
        round: u32,
    ) -> Result<Admitted, Stop> {
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
        let mut effects = match &call.function.body {
            Implementation::Leaf(leaf) => leaf.effects(&input),
            Implementation::Composite(composite) => {
                composite.admit(self, call.frame)?;
                composite.effects(&input)
            }
        };
        let checked = self.checked(call, &input, round).await?;
        if let Some(by) = checked.as_ref().and_then(|checked| checked.approved_by.clone()) {
            effects.says = Some((Rule::PreApproved, by));
        }
        let mut places = self
            .locate(call, &effects)
            .map_err(|refusal| Stop::failed(FailureKind::Authority, refusal.to_string()))?;
        let Followed { real, untrusted, process_reads_untrusted } =
            self.follow(call, &effects, &places, round).await?;
        for ((place, touch), real) in places.iter_mut().zip(&effects.touches).zip(&real) {
            place.decided(real, !touch.delete);
        }
        let subjects = subjects(&effects, &places, &real);
        let stated = self.stated(call, &input, &origins, round).await?;
        Ok(Admitted {
            input,
            effects,
            places,
            real,
            subjects,
            bounds: checked.map(|checked| checked.bounds),
            stated,
            origins,
            untrusted,
            process_reads_untrusted,
        })
    }

    pub(super) fn locate(&self, call: &Call<'_>, effects: &Effects) -> Result<Vec<Located>, Refusal> {
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
                        let why = refusal.to_string().trim_end_matches('.').to_owned();
                        Refusal::NotHeld { path: path.clone(), mode, why }
                    } else {
                        refusal
                    }
                })
            })
            .collect()
    }

    /// Resolves links in the paths: a rule for one folder does not apply to the target of a link in it. This is a
    /// step whenever the call touches paths, with or without links. It also looks up which places are untrusted, and for
    /// a process that makes calls whether it can read any.
    pub(super) async fn follow(
        &self,
        call: &Call<'_>,
        effects: &Effects,
        places: &[Located],
        round: u32,
    ) -> Result<Followed, Halt> {
        // The result of a leaf is a step, which looks for itself.
        let orchestrates = effects.process && matches!(call.function.body, Implementation::Composite(_));
        if places.is_empty() && !orchestrates {
            return Ok(Followed::default());
        }
        let name = StepName::Links(round);
        let run = Box::pin(async {
            let (mut real, mut elsewhere) = (Vec::with_capacity(places.len()), false);
            let (listed, mut untrusted) = (self.host.driver.untrusted_places(), Vec::new());
            for (at, (place, touch)) in places.iter().zip(&effects.touches).enumerate() {
                let named = place.place();
                let followed = self.real(place, touch).await;
                elsewhere |= followed != named;
                if place.is_untrusted(&followed) || listed.hold(&followed) || listed.hold(&named) {
                    untrusted.push(at);
                }
                real.push(followed);
            }
            let reads_untrusted = orchestrates && self.can_read_untrusted(call.frame.authority());
            RecordKind::LinksFollowed { places: real, elsewhere, untrusted, reads_untrusted }
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
            StepEnd::Done(RecordKind::LinksFollowed { places, untrusted, reads_untrusted, .. }) => {
                Ok(Followed { real: places, untrusted, process_reads_untrusted: reads_untrusted })
            }
            StepEnd::Done(other) => Err(Halt::unexpected(&call.path, &name, &other)),
            StepEnd::TimedOut => Ok(Followed {
                real: places.iter().map(Located::place).collect(),
                untrusted: (0..places.len()).collect(),
                process_reads_untrusted: orchestrates,
            }),
        }
    }

    /// The real place of a path that a call touches, after links are followed.
    pub(crate) async fn real(&self, place: &Located, touch: &Touch) -> Place {
        let rest = self.host.files.real(place, !touch.delete).await;
        // The operation itself refuses a path that can't be resolved.
        rest.map_or_else(|_| place.place(), |rest| place.base.join(&rest))
    }

    /// Lets a function check its arguments, if it does so.
    ///
    /// # Errors
    /// The check has findings, which are for the caller.
    async fn checked(&self, call: &Call<'_>, input: &Value, round: u32) -> Result<Option<Checked>, Stop> {
        let Implementation::Composite(composite) = &call.function.body else { return Ok(None) };
        if !composite.checks() {
            return Ok(None);
        }
        let name = StepName::Check(round);
        let step = Step {
            path: &call.path,
            name: name.clone(),
            intent: None,
            deadline: Some(CHECK_TIMEOUT),
            cut_off: CutOff::Again,
            run: Box::pin(async {
                match composite.check(self, call.frame, input).await {
                    Ok(Checked { bounds, approved_by }) => {
                        RecordKind::Checked { bounds: Some(bounds), approved_by, failure: None }
                    }
                    Err(failure) => {
                        let message = self.host.redact.text(&failure.message).into_owned();
                        let failure = Some(Failure { message, ..failure });
                        RecordKind::Checked { bounds: None, approved_by: None, failure }
                    }
                }
            }),
        };
        match self.host.driver.step(step).await?.end {
            StepEnd::Done(RecordKind::Checked { failure: Some(failure), .. }) => Err(failure.into()),
            StepEnd::Done(RecordKind::Checked { bounds: Some(bounds), approved_by, .. }) => {
                Ok(Some(Checked { bounds, approved_by }))
            }
            StepEnd::Done(other) => Err(Halt::unexpected(&call.path, &name, &other).into()),
            StepEnd::TimedOut => {
                let message = format!(
                    "the arguments of `{}` could not be checked in {} s. It was not run.",
                    call.function.meta.name,
                    CHECK_TIMEOUT.as_secs()
                );
                Err(Stop::failed(FailureKind::Timeout, message))
            }
        }
    }

    /// Runs the function's own approval code, if it has any.
    pub(super) async fn stated(
        &self,
        call: &Call<'_>,
        input: &Value,
        origins: &Origins,
        round: u32,
    ) -> Result<Option<Rule>, Halt> {
        let Some(code) = &call.function.rule else { return Ok(None) };
        // Code that fails has not decided. Where nobody is asked, nothing else would stop the call.
        let undecided = match self.host.gate.mode {
            Mode::ApproveAll => Rule::Blocked,
            _ => Rule::Ask,
        };
        let name = StepName::Rule(round);
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
                    let origins = origins.by_argument(input);
                    let call = RuleCall {
                        arguments: input,
                        run_input: call.frame.run_input(),
                        caller: call.frame.worker().map(|worker| &*worker.id),
                        origins: &origins,
                    };
                    match code.rule(call).await {
                        Ok(rule) => RecordKind::RuleStated { rule, reason: None },
                        Err(reason) => {
                            let reason = self.host.redact.text(&reason).into();
                            RecordKind::RuleStated { rule: undecided, reason: Some(reason) }
                        }
                    }
                }),
            })
            .await?;
        match stepped.end {
            StepEnd::Done(RecordKind::RuleStated { rule, .. }) => Ok(Some(rule)),
            StepEnd::Done(other) => Err(Halt::unexpected(&call.path, &name, &other)),
            StepEnd::TimedOut => Ok(Some(undecided)),
        }
    }
}

/// The real places of a call's paths, without links.
#[derive(Default)]
pub(super) struct Followed {
    real: Vec<Place>,
    /// The positions of the places whose content is untrusted.
    untrusted: Vec<usize>,
    /// True if the process of a composite can read an untrusted place.
    process_reads_untrusted: bool,
}

/// A call's main argument in the form that patterns match.
pub(crate) fn subjects(effects: &Effects, places: &[Located], real: &[Place]) -> Option<Vec<Subject>> {
    match &effects.main {
        MainArgument::None => None,
        MainArgument::Texts(texts) => Some(texts.iter().cloned().map(Subject::Text).collect()),
        MainArgument::Paths => {
            let paths = places.iter().zip(real).map(|(place, real)| Subject::Path(place.rule_path(real)));
            Some(paths.collect())
        }
    }
}

pub(super) fn list(wrong: &[Violation]) -> String {
    wrong.iter().map(|violation| format!("\n- {violation}")).collect()
}

pub(super) fn invalid_input(name: &str, wrong: &[Violation]) -> Failure {
    let message = format!("The arguments of `{name}` don't fit its schema:{}", list(wrong));
    Failure::new(FailureKind::InvalidInput, message)
}
