//! The execution of a leaf, and the meaning of its result.

use super::{Admitted, Call, Engine, LEAF_TIMEOUT, examine::list, overridden, timeout};
use crate::{
    driver::{CutOff, Step, StepEnd},
    foreseen::Foreseen,
    function::{
        FunctionMeta, LeafCall, OutputSchema, Round, ToolAnswers, ToolAsks, ToolError, ToolOutput, UserAnswer,
    },
    journal::RecordKind,
    origin::Origins,
    outcome::{End, Ending, Failure, FailureKind, Halt, Outcome, Stop, timed_out},
    question::{Settlement, ToolQuestion},
    risk::Risk,
    step_name::StepName,
};
use futures_util::future::{Either, select};
use serde_json::Value;
use std::sync::Arc;

impl Engine {
    pub(super) fn leaf_call<'a>(
        &'a self,
        call: &'a Call<'_>,
        admitted: &'a Admitted,
        key: &'a str,
    ) -> LeafCall<'a> {
        LeafCall {
            input: &admitted.input,
            places: &admitted.places,
            authority: call.frame.authority(),
            files: &*self.host.files,
            results: call.frame.results(&*self.host.driver),
            redact: &*self.host.redact,
            untrusted: self.host.driver.untrusted_places(),
            run: &self.host.run,
            idempotency_key: key,
        }
    }

    pub(super) async fn leaf(
        &self,
        call: &Call<'_>,
        leaf: &dyn crate::function::Leaf,
        admitted: &Admitted,
    ) -> Result<Outcome, Halt> {
        let meta = &call.function.meta;
        // The same for every attempt, now and after a resume: it is the path in this run's call tree.
        let key: Arc<str> = format!("{}:{}", self.host.run, call.path).into();
        let (mut cut_off, foreseen) = match self.before_leaf(call, leaf, admitted).await {
            Ok(before) => before,
            Err(stop) => return self.ended(call, Outcome::free(stop.end()?)),
        };
        Box::pin(self.list_written(call, admitted)).await?;
        // Of another risk, an attempt that failed may have had its effect.
        let retries = if meta.risk == Risk::Read { overridden(call, admitted, |o| o.retries) } else { None };
        let retries = retries.unwrap_or(0);
        let (mut attempt, mut asked) = (0, 0);
        let mut answers: Option<ToolAnswers> = None;
        loop {
            let before = std::mem::replace(&mut cut_off, CutOff::Again);
            let attempted = self.attempt(call, leaf, admitted, &key, (attempt, answers.as_ref()), before);
            match attempted.await? {
                // What the user has answered is not asked again, so that a call that has asked is not tried again.
                Attempted::Ended(outcome)
                    if attempt == retries || answers.is_some() || !matches!(outcome.end, End::Failed(_)) =>
                {
                    self.did(call, admitted, foreseen.as_ref(), &outcome.end).await;
                    return Ok(outcome);
                }
                Attempted::Ended(_) => attempt += 1,
                Attempted::Asks { questions, state } => {
                    attempt += 1;
                    let numbers = (asked, attempt);
                    asked += u32::try_from(questions.len()).unwrap_or(u32::MAX);
                    match self.between_rounds(call, admitted, numbers, &questions).await {
                        Ok((given, settled)) => {
                            let round = answers.map_or(0, |answers| answers.round + 1);
                            answers = Some(ToolAnswers { round, state, answers: given });
                            cut_off = settled;
                        }
                        Err(stop) => return self.ended(call, Outcome::free(stop.end()?)),
                    }
                }
            }
        }
    }

    /// Puts the questions of a leaf to the user, and settles the next round if it was interrupted. `first` is the
    /// number of the first question, `next` the number of that round.
    async fn between_rounds(
        &self,
        call: &Call<'_>,
        admitted: &Admitted,
        (first, next): (u32, u32),
        questions: &[ToolQuestion],
    ) -> Result<(Vec<UserAnswer>, CutOff), Stop> {
        let answers = self.put_all(call.frame, &call.path, first, questions).await?;
        let question = |risk| settlement(call, admitted, risk);
        let step = StepName::Tool(next);
        let settled = self.settle(call.frame, &call.path, &step, question, async || None).await?;
        Ok((answers, settled))
    }

    /// Makes one attempt at a leaf, or one round of it with these answers of the user. This is a step.
    async fn attempt(
        &self,
        call: &Call<'_>,
        leaf: &dyn crate::function::Leaf,
        admitted: &Admitted,
        key: &Arc<str>,
        (attempt, answers): (u32, Option<&ToolAnswers>),
        cut_off: CutOff,
    ) -> Result<Attempted, Halt> {
        let meta = &call.function.meta;
        let own = timeout(call, admitted).unwrap_or(LEAF_TIMEOUT);
        let _turn = call.frame.untimed(&*self.host.driver, leaf.turn()).await;
        if matches!(cut_off, CutOff::Again) && !self.host.driver.cancelled() {
            self.host.driver.unrecorded(leaf.ready()).await?;
        }
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
                    let running = leaf.round(self.leaf_call(call, admitted, key), answers);
                    let result = match select(running, self.host.driver.stopped()).await {
                        Either::Left((result, _)) => result,
                        Either::Right(((), running)) => {
                            drop(running);
                            let origins = self.failure_origins(call, admitted);
                            return stopped(meta, origins);
                        }
                    };
                    let failed = || self.failure_origins(call, admitted);
                    let mut mixed = false;
                    let (ending, origins, blobs, log) = match result {
                        Ok(Round::Asks(asks)) => return self.asks(asks, failed()),
                        Ok(Round::Done(ToolOutput { value, blobs, log, origins })) => {
                            mixed = origins.is_some() || self.reads_listed(call, admitted);
                            let of = |value: &Value, fits| {
                                let origins = self.leaf_origins(call, admitted, origins, value, fits);
                                // No type describes files, and no field holds them.
                                if blobs.is_empty() { origins } else { origins.and(failed()) }
                            };
                            match Returned::of(meta, Arc::new(self.host.redact.value(value))) {
                                Returned::Fits(value) => {
                                    let origins = of(&value, true);
                                    (Ending::Output(value), origins, blobs, log)
                                }
                                Returned::Noted(value, note) => {
                                    let log =
                                        log.map_or_else(|| Arc::clone(&note), |log| with_line(&log, &note));
                                    let origins = of(&value, false);
                                    (Ending::Output(value), origins, blobs, Some(log))
                                }
                                Returned::Invalid(failure) => {
                                    (Ending::Failure(failure), failed(), blobs, log)
                                }
                            }
                        }
                        Err(ToolError { message, log }) => {
                            let message = self.host.redact.text(&message).into_owned();
                            let failure = Failure::new(FailureKind::Tool, message);
                            (Ending::Failure(failure), failed(), Vec::new(), log)
                        }
                    };
                    let log = log.map(|log| self.host.redact.text(&log).into());
                    RecordKind::ToolEnded { ending, blobs, log, origins, mixed }
                }),
            })
            .await?;
        let ended = match stepped.end {
            StepEnd::Done(RecordKind::ToolAsked { questions, state, .. }) => {
                return Ok(Attempted::Asks { questions, state });
            }
            StepEnd::Done(RecordKind::ToolEnded {
                ending: Ending::Output(value),
                blobs,
                origins,
                mixed,
                ..
            }) => {
                let is_source = !mixed && meta.risk.only_reads();
                Outcome { blobs, origins, is_source, ..Outcome::free(End::Done(value)) }
            }
            StepEnd::Done(RecordKind::ToolEnded { ending: Ending::Failure(failure), origins, .. }) => {
                Outcome { origins, ..Outcome::free(End::Failed(failure)) }
            }
            StepEnd::Done(other) => return Err(Halt::unexpected(&call.path, &name, &other)),
            StepEnd::TimedOut => {
                let after_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
                Outcome::free(End::Failed(timed_out(&meta.name, after_ms)))
            }
        };
        Ok(Attempted::Ended(ended))
    }

    /// The record of questions to the user.
    fn asks(&self, asks: ToolAsks, origins: Origins) -> RecordKind {
        let ToolAsks { questions, state, log } = asks;
        let redacted = |ToolQuestion { prompt, schema }: ToolQuestion| ToolQuestion {
            prompt: self.host.redact.text(&prompt).into(),
            schema: schema.map(|schema| Arc::new(self.host.redact.value((*schema).clone()))),
        };
        let questions = questions.into_iter().map(redacted).collect();
        let log = log.map(|log| self.host.redact.text(&log).into());
        RecordKind::ToolAsked { questions, state: Arc::new(self.host.redact.value(state)), log, origins }
    }

    /// Determines the changes that the leaf will make, and keeps the content that they replace if the user could take
    /// the call back. Settles an interrupted attempt.
    pub(super) async fn before_leaf(
        &self,
        call: &Call<'_>,
        leaf: &dyn crate::function::Leaf,
        admitted: &Admitted,
    ) -> Result<(CutOff, Option<Foreseen>), Stop> {
        let meta = &call.function.meta;
        if meta.risk == Risk::Read {
            return Ok((CutOff::Again, None));
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
                        let foreseen = leaf.foresee(leaf_call()).await;
                        if let Some(foreseen) = &foreseen {
                            self.keep_contents(call, admitted, foreseen).await;
                        }
                        RecordKind::Foreseen { foreseen }
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
        let question = |risk| settlement(call, admitted, risk);
        let found = async || leaf.look_back(leaf_call(), foreseen.as_ref()?).await;
        let cut_off = self.settle(call.frame, &call.path, &StepName::Tool(0), question, found).await?;
        Ok((cut_off, foreseen))
    }
}

/// The result of an attempt at a leaf.
enum Attempted {
    /// The leaf has ended.
    Ended(Outcome),
    /// The leaf has questions to the user.
    Asks { questions: Vec<ToolQuestion>, state: Arc<Value> },
}

fn settlement(call: &Call<'_>, admitted: &Admitted, risk: Risk) -> Settlement {
    Settlement {
        chain: call.frame.chain(),
        function: Arc::clone(&call.function.meta.name),
        risk,
        input: Arc::clone(&admitted.input),
    }
}

/// The end of a leaf that the user stopped.
fn stopped(meta: &FunctionMeta, origins: Origins) -> RecordKind {
    let effect = match meta.risk {
        Risk::Read => "",
        _ => " It may have had a part of its effect.",
    };
    let message = format!("The user stopped `{}`.{effect}", meta.name);
    let ending = Ending::Failure(Failure::new(FailureKind::Stopped, message));
    RecordKind::ToolEnded { ending, blobs: Vec::new(), log: None, origins, mixed: false }
}

/// The result of a function that ran to its end.
pub(super) enum Returned {
    /// The value fits its schema, or there is none.
    Fits(Arc<Value>),
    /// The value doesn't fit a schema that only describes it.
    Noted(Arc<Value>, Arc<str>),
    /// The value breaks a declared schema.
    Invalid(Failure),
}

impl Returned {
    pub(super) fn of(meta: &FunctionMeta, value: Arc<Value>) -> Self {
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

pub(super) fn with_line(log: &str, line: &str) -> Arc<str> {
    let end = if log.ends_with('\n') { "" } else { "\n" };
    format!("{log}{end}{line}").into()
}
