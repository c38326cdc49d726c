//! A request to a worker's model: its reservation, its retries, and its end.

use super::{model_switch, prepared::Prepared};
use crate::{
    account::Wanted,
    call_path::CallPath,
    conversation::{Conversation, summary_message},
    driver::{CutOff, Step, StepEnd},
    engine::{Engine, Frame},
    estimate::estimate_text,
    event::Event,
    function::CompositeCall,
    journal::RecordKind,
    ledger::{Budgets, reserve},
    model::{
        Delta, DeltaSink, FinishReason, Message, MessageId, ModelError, ModelErrorKind, ModelRequest,
        ModelResponse, ModelSettings, Part, Purpose, ToolSpec, Usage,
    },
    outcome::{Failure, FailureKind, Halt, Stop},
    partial::{Change, Tracker},
    repetition::Repetition,
    send::BoxFuture,
    server_tool::ServerTool,
    step_name::{Attempt, RequestStep, StepName},
    worker::retry::{too_long_to_wait, wait_before_retry},
};
use futures_util::future::{Either, select};
use serde_json::Value;
use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

/// Maximum tokens of one answer under a budget of tokens or money, if neither the worker nor the model has a known maximum.
/// Every provider accepts it.
const UNSTATED: u32 = 4096;

/// A request for a turn of a conversation, or for a summary of it.
pub(super) struct Request<'a> {
    /// The purpose of the request.
    pub(super) purpose: Purpose,
    /// The turn, or the number of the compaction.
    pub(super) number: u32,
    /// The conversation.
    pub(super) conversation: &'a Conversation,
    /// The instructions.
    pub(super) system: &'a Arc<str>,
    /// The messages that are sent.
    pub(super) messages: &'a [Arc<Message>],
    /// The last message that is sent, and the hash over all messages.
    pub(super) sent: (MessageId, Arc<str>),
    pub(super) tools: &'a Arc<[ToolSpec]>,
    pub(super) server_tools: &'a Arc<[ServerTool]>,
    pub(super) output: Option<&'a Arc<Value>>,
    pub(super) settings: &'a ModelSettings,
    /// Expected tokens of the request.
    pub(super) tokens: u64,
    /// Number of attempts at the same turn by answers to earlier messages of the user.
    pub(super) earlier_attempts: u32,
}

/// The answer to a request.
pub(super) struct Answered {
    pub(super) message: Arc<Message>,
    pub(super) finish: FinishReason,
    pub(super) usage: Usage,
    /// The partial value that was shown while it arrived.
    pub(super) shown: Option<Value>,
}

/// The reason why a request has no answer.
pub(super) enum Unanswered {
    /// The provider reports that the request is longer than the model's window.
    TooLong(Failure),
    /// The model can't be reached, or is refused to the user's key. Another may answer.
    Unavailable(Failure),
    /// Any other reason.
    Stopped(Stop),
}

impl From<Stop> for Unanswered {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

impl From<Halt> for Unanswered {
    fn from(halt: Halt) -> Self {
        Self::Stopped(halt.into())
    }
}

/// Sends a request until it is answered, or retries, time or budget are used up. `next_attempt` is the number of the
/// first attempt, and is set to the number after the last one: earlier attempts at the same turn had another content.
pub(super) async fn send(
    prepared: &Prepared,
    call: &CompositeCall<'_>,
    request: &Request<'_>,
    next_attempt: &mut u32,
) -> Result<Answered, Unanswered> {
    let driver = &*call.engine.host().driver;
    let &Request { purpose, number: turn, tokens, earlier_attempts, .. } = request;
    let first = *next_attempt;
    for attempt in first.. {
        *next_attempt = attempt + 1;
        let tried = attempt - first;
        let of = Attempt { turn, attempt };
        let name = |step| StepName::of_request(purpose, of, step);
        let mut settings = request.settings.clone();
        let mut reservation = None;
        let account = prepared.frame.ledger();
        let spending = model_switch::spending(prepared, call.engine.host());
        if account.is_some() || spending.is_some() {
            let by_default =
                prepared.model.default_output().into_iter().chain(prepared.terms.max_output).min();
            let output = settings.max_tokens.or(by_default).unwrap_or(UNSTATED);
            let begins = purpose == Purpose::Answer && attempt == earlier_attempts;
            let wanted = Wanted {
                turns: u32::from(begins),
                request: Some((tokens, output.into())),
                price: prepared.terms.price,
                ..Wanted::default()
            };
            let run = &*call.engine.host().run;
            let budgets = Budgets { account, spending: spending.map(|spending| (spending, run)) };
            let made =
                Box::pin(reserve(budgets, driver, call.path, name(RequestStep::Reserve), wanted)).await?;
            // Limits of turns, calls and time leave an answer as long as it is without them.
            let is_bounded = spending.is_some() || account.is_some_and(|account| account.bounds_answers());
            if settings.max_tokens.is_some() || is_bounded {
                settings.max_tokens = made.output_tokens();
            }
            reservation = Some(made);
        }
        let shown = purpose == Purpose::Answer;
        let contract = &prepared.setup.output;
        let tracker = shown.then(|| Tracker::new(contract, prepared.setup.with_user)).flatten();
        let sink = Sink {
            engine: call.engine,
            path: call.path,
            turn,
            shown,
            partial: tracker.map(Mutex::new),
            said: stoppable(call).then(Mutex::default),
            repetition: is_checked(prepared).then(|| Mutex::new(Repetition::new(is_typed(prepared)))),
            repeats: AtomicBool::new(false),
        };
        let (head, digest) = request.sent.clone();
        let sent = ModelRequest {
            conversation: call.path,
            run: &call.engine.host().run,
            worker: &prepared.setup.worker,
            purpose,
            turn,
            model: &prepared.model_name,
            system: request.system,
            messages: request.messages,
            tools: request.tools,
            server_tools: request.server_tools,
            settings: &settings,
            output: request.output,
        };
        let asked = AtomicBool::new(false);
        let deadline = prepared.frame.remaining(driver).await;
        let stepped = driver
            .step(Step {
                path: call.path,
                name: name(RequestStep::Model),
                intent: Some(RecordKind::ModelRequested {
                    turn,
                    attempt,
                    head,
                    digest,
                    max_tokens: settings.max_tokens,
                }),
                deadline,
                cut_off: CutOff::Again,
                run: Box::pin(async {
                    asked.store(true, Ordering::Relaxed);
                    if let (Some(reservation), Some(spending)) = (&reservation, spending)
                        && let continues = prepared.model.continues(sent)
                        && let Err(what) = reservation.renew(spending, prepared.terms.price, continues).await
                    {
                        return RecordKind::NotReserved { what: what.into() };
                    }
                    let responding = prepared.model.respond(sent, &sink);
                    let responding = Box::pin(sink.unless_it_repeats(responding));
                    let responded = match sink.said {
                        None => responding.await,
                        Some(_) => match select(responding, driver.stopped()).await {
                            Either::Left((responded, _)) => responded,
                            Either::Right(((), responding)) => {
                                drop(responding);
                                Ok(sink.cut_off(tokens))
                            }
                        },
                    };
                    let whole = |response: &ModelResponse| {
                        is_checked(prepared)
                            && response.parts.iter().any(|part| {
                                part.as_text().is_some_and(|text| Repetition::is_in(text, is_typed(prepared)))
                            })
                    };
                    let responded = match responded {
                        Ok(response) if response.finish != FinishReason::Stopped && whole(&response) => {
                            Err(repeats())
                        }
                        responded => responded,
                    };
                    match responded {
                        Ok(response) => {
                            let message = match purpose {
                                Purpose::Answer => request.conversation.answer_message(&response),
                                Purpose::Summary => summary_message(&response),
                            };
                            RecordKind::ModelAnswered {
                                unoffered: request.conversation.unoffered(&message),
                                message,
                                finish: response.finish,
                                usage: response.usage.priced(prepared.terms.price.as_ref()),
                                unknown_finish: response.unknown_finish,
                            }
                        }
                        Err(mut error) => {
                            error.message = call.engine.host().redact.text(&error.message).into_owned();
                            let retries = Some(prepared.setup.limits.request_retries);
                            RecordKind::ModelFailed { error, retries }
                        }
                    }
                }),
            })
            .await;
        let shown = sink
            .partial
            .and_then(|partial| partial.into_inner().unwrap_or_else(PoisonError::into_inner).into_value());
        // A failure discards the deltas, too, below.
        let is_cut = !matches!(&stepped, Ok(stepped) if matches!(stepped.end, StepEnd::Done(_)));
        if shown.is_some() && is_cut {
            driver.emit(Event::DiscardPartial { path: call.path.clone(), turn });
        }
        let stepped = stepped?;
        let asked = asked.into_inner();
        if !asked {
            prepared.model.answered_before(sent);
        }
        if let Some(reservation) = reservation {
            let end = match &stepped.end {
                StepEnd::Done(end) => end,
                StepEnd::TimedOut => &RecordKind::TimedOut { after_ms: 0 },
            };
            Box::pin(reservation.settle(driver, end, asked)).await;
        }
        let error = match stepped.end {
            StepEnd::Done(RecordKind::ModelAnswered { message, finish, usage, .. }) => {
                return Ok(Answered { message, finish, usage, shown });
            }
            StepEnd::Done(RecordKind::ModelFailed { error, .. }) => error,
            StepEnd::Done(RecordKind::NotReserved { what }) => {
                return Err(Stop::failed(FailureKind::Limit, &*what).into());
            }
            StepEnd::Done(other) => {
                return Err(Halt::unexpected(call.path, &name(RequestStep::Model), &other).into());
            }
            StepEnd::TimedOut => {
                let message = format!(
                    "`{}` ran out of its working time while it waited for its model",
                    prepared.setup.worker
                );
                return Err(Stop::failed(FailureKind::Timeout, message).into());
            }
        };
        if driver.listens() && purpose == Purpose::Answer {
            driver.emit(Event::Discard { path: call.path.clone(), turn });
        }
        let random = if error.is_transient() && error.retry_after().is_none() {
            driver.random(call.path, name(RequestStep::Jitter))?
        } else {
            0
        };
        let Some(wait) = wait_before_retry(&error, tried, prepared.setup.limits.request_retries, random)
        else {
            let tries = if tried == 0 { String::new() } else { format!(" (after {} attempts)", tried + 1) };
            let asked = too_long_to_wait(&error).map(|asked| format!("; {asked}")).unwrap_or_default();
            let failure = Failure::new(FailureKind::Model, format!("{}{tries}{asked}", error.message));
            return Err(match error.kind {
                ModelErrorKind::ContextExceeded => Unanswered::TooLong(failure),
                _ if error.is_unavailable() => Unanswered::Unavailable(failure),
                _ => Unanswered::Stopped(failure.into()),
            });
        };
        Box::pin(pause(call, &prepared.frame, name(RequestStep::Wait), wait)).await?;
    }
    unreachable!("attempts end by an answer or by `request_retries`")
}

/// Waits before a retry. The time does not count as working time.
async fn pause(call: &CompositeCall<'_>, frame: &Frame, name: StepName, wait: Duration) -> Result<(), Halt> {
    let driver = &*call.engine.host().driver;
    driver.sleep(call.path, name, wait).await?;
    frame.waited(wait, driver).await;
    Ok(())
}

/// Returns true if a person may stop an answer in this run, because a person takes part in it.
fn stoppable(call: &CompositeCall<'_>) -> bool {
    call.engine.host().chat || call.engine.host().attended
}

/// Emits deltas as events of their call.
struct Sink<'a> {
    engine: &'a Engine,
    path: &'a CallPath,
    turn: u32,
    /// True if the pieces are shown. Those of a summary are not.
    shown: bool,
    /// The partial value of a typed answer.
    partial: Option<Mutex<Tracker>>,
    /// The text that has arrived, if the answer can be stopped.
    said: Option<Mutex<String>>,
    /// The detector of an answer that repeats itself, and its result.
    repetition: Option<Mutex<Repetition>>,
    repeats: AtomicBool,
}

/// The provider whose answers are written by a person.
const SCRIPT: &str = "script";

/// Returns true if an answer may fail because it repeats itself. An answer that a person wrote may repeat itself.
fn is_checked(prepared: &Prepared) -> bool {
    prepared.model_name.provider() != SCRIPT
}

/// Returns true if the answer has a declared type.
fn is_typed(prepared: &Prepared) -> bool {
    prepared.setup.output.schema().is_some()
}

/// The failure of an answer that repeats itself without end.
fn repeats() -> ModelError {
    let message = "the model repeats itself: its answer says the same again and again, and was ended. Another model, or \
                   another wording of the instructions, may help";
    ModelError::new(ModelErrorKind::Repetition, message)
}

impl Sink<'_> {
    /// The response, or a failure as soon as the answer repeats itself without end. Pieces arrive while the response is
    /// polled.
    async fn unless_it_repeats(
        &self,
        responding: BoxFuture<'_, Result<ModelResponse, ModelError>>,
    ) -> Result<ModelResponse, ModelError> {
        let repeating = poll_fn(|_| match self.repeats.load(Ordering::Relaxed) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        match select(responding, repeating).await {
            Either::Left((responded, _)) => responded,
            // Dropped, the request is ended.
            Either::Right(((), _)) => Err(repeats()),
        }
    }

    /// The part of a stopped answer that has arrived. The provider does not report its cost, so its tokens are
    /// estimated; `input` is the estimate for the request.
    fn cut_off(&self, input: u64) -> ModelResponse {
        let said = self.said.as_ref().map(|said| said.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let text = said.unwrap_or_default();
        let usage = Usage {
            input_tokens: Some(input),
            output_tokens: Some(estimate_text(text.len())),
            ..Usage::default()
        };
        ModelResponse {
            parts: vec![Part::text(text)],
            finish: FinishReason::Stopped,
            usage,
            unknown_finish: None,
        }
    }
}

impl DeltaSink for Sink<'_> {
    fn delta(&self, delta: Delta) {
        if let (Delta::Text { text }, Some(repetition)) = (&delta, &self.repetition)
            && repetition.lock().unwrap_or_else(PoisonError::into_inner).push(text)
        {
            self.repeats.store(true, Ordering::Relaxed);
        }
        if let (Some(said), Delta::Text { text }) = (&self.said, &delta) {
            said.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        }
        if !self.shown {
            return;
        }
        if !self.engine.host().driver.listens() {
            if let Some(partial) = &self.partial {
                partial.lock().unwrap_or_else(PoisonError::into_inner).miss(&delta);
            }
            return;
        }
        let change = self.partial.as_ref().map_or(Change::None, |partial| {
            partial.lock().unwrap_or_else(PoisonError::into_inner).take(&delta)
        });
        let (path, turn) = (self.path.clone(), self.turn);
        if !matches!(delta, Delta::Arguments { .. }) {
            self.engine.emit(Event::Delta { path: path.clone(), turn, delta });
        }
        match change {
            Change::None => {}
            Change::Grown(growth) => self.engine.emit(Event::Partial { path, turn, growth }),
            Change::Withdrawn => self.engine.emit(Event::DiscardPartial { path, turn }),
        }
    }
}
