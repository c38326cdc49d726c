//! `tools/call` requests: the run that a request starts or continues, and the questions of that run.

use super::{
    caller::{Asking, Caller, Operator, VIA},
    form,
    outcome::{Outcome, error, with_refusals},
    progress::reporting,
    sealed::{self, Fingerprint, Round},
    tasks,
};
use crate::{
    error::{ApiError, Code},
    live::{Attached, LiveRun},
    owner::Owner,
    service::{Answered, Continued},
    views::{RunView, StartRun, State},
};
use llm_do::{
    Session,
    core::{
        journal::RecordKind,
        question::{Answer, Waiting},
    },
    program::visible,
    records::RunView as Activities,
};
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolResponse, ElicitResult, ErrorCode, InputRequest, InputRequiredResult, InputResponses,
        JsonObject, Request,
    },
    service::RequestContext,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// The number of times that a question is asked if each filled form is wrong.
const MOST_ATTEMPTS: usize = 3;
/// The time after which a run is suspended that waits for an answer, if no request waits for the run and only its client can
/// answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(15 * 60);
/// The reason of a refusal if the client can't ask its user.
const CANNOT_ASK: &str = "the client that called can't ask its user";
/// The reason of a refusal after too many wrong forms.
const NOT_ANSWERED: &str = "the client did not answer the question";

/// A `tools/call` request.
pub(super) struct Call<'a> {
    caller: &'a Caller,
    session: &'a Session,
    context: &'a RequestContext<RoleServer>,
    arguments: Value,
    fingerprint: Fingerprint,
    asking: Asking,
    /// True if the client understands tasks.
    tasks: bool,
    operator: Operator,
}

impl<'a> Call<'a> {
    pub(super) fn new(
        caller: &'a Caller,
        session: &'a Session,
        context: &'a RequestContext<RoleServer>,
        arguments: JsonObject,
    ) -> Self {
        let arguments = Value::Object(arguments);
        Self {
            fingerprint: Fingerprint::of(&caller.program, &session.entry().id, &arguments),
            arguments,
            asking: caller.asking(context),
            tasks: caller.understands_tasks(context),
            operator: caller.operator(context, session),
            caller,
            session,
            context,
        }
    }

    /// Starts a run, or finds the run of an earlier call with the same key, and answers with its result.
    pub(super) async fn begun(&self, key: Option<String>) -> Result<CallToolResponse, ErrorData> {
        let Caller { service, token, program } = self.caller;
        let start = StartRun {
            program: Some(program.clone()),
            worker: Some(self.session.entry().id.to_string()),
            input: Some(self.arguments.clone()),
            ..StartRun::default()
        };
        if key.is_none() {
            return match service.start_awaited(token, start).await {
                Ok((live, attached, progress)) => self.awaited(&live, attached, progress).await,
                Err(error) => Ok(self.refused(&error)),
            };
        }
        match service.start(token, start, key).await {
            Ok((run, _)) => self.found(&run).await,
            Err(error) => Ok(self.refused(&error)),
        }
    }

    /// Gives the answers to the questions of a round, and answers with the result of the run.
    pub(super) async fn continued(
        &self,
        state: &str,
        responses: Option<&InputResponses>,
    ) -> Result<CallToolResponse, ErrorData> {
        let round = sealed::open(self.session, state, &self.fingerprint).ok_or_else(|| {
            let forged = "requestState is not one that this server gave for this call";
            ErrorData::invalid_params(forged, None)
        })?;
        match self.answered(&round, responses).await {
            Ok(()) => self.found(&round.run).await,
            Err(error) => Ok(self.refused(&error)),
        }
    }

    /// Gives the answers among the client's responses, for the questions of the round that are still open. A question
    /// whose response is wrong stays open. A run that was suspended with its questions is continued.
    async fn answered(&self, round: &Round, responses: Option<&InputResponses>) -> Result<(), ApiError> {
        let Caller { service, token, .. } = self.caller;
        self.caller.may_answer()?;
        let view = service.run(token, &round.run).await?;
        if view.worker != self.session.entry().id || *view.program != *self.caller.program {
            return Err(ApiError::no_run(&round.run));
        }
        let questions: Vec<&Waiting> = view.questions.iter().map(|question| &question.waiting).collect();
        let mut answers = Vec::new();
        for (id, response) in responses.into_iter().flatten() {
            let asked =
                questions.iter().find(|waiting| waiting.id.to_string() == *id && round.asked(waiting));
            let Some(waiting) = asked else { continue };
            let filled = serde_json::from_value::<ElicitResult>(response.clone());
            match filled.map_err(|error| error.to_string()).and_then(|filled| form::answer(waiting, &filled))
            {
                Ok(answer) => answers.push(self.answer_to(waiting, answer)),
                Err(why) => self.log_wrong(&round.run, waiting, &why),
            }
        }
        let waits = matches!(view.state, State::Waiting | State::CutOff);
        if waits && service.live(token, &round.run).is_none() {
            match service.continue_with(token, &round.run, answers.clone()).await? {
                Continued::Now(_) => return Ok(()),
                Continued::Before(_) => {}
            }
        }
        for answer in answers {
            self.give(&round.run, answer).await;
        }
        Ok(())
    }

    /// Answers with the result of a run, which may have ended already.
    async fn found(&self, run: &Arc<str>) -> Result<CallToolResponse, ErrorData> {
        let Caller { service, token, .. } = self.caller;
        match service.live(token, run) {
            Some(live) => {
                let (attached, progress) = (live.attach(), live.progress());
                self.awaited(&live, attached, progress).await
            }
            None => self.outcome(run).await,
        }
    }

    /// Waits for the result of a run, and reports its progress meanwhile.
    async fn awaited(
        &self,
        live: &Arc<LiveRun>,
        attached: Attached,
        progress: watch::Receiver<Activities>,
    ) -> Result<CallToolResponse, ErrorData> {
        let token = self.context.meta.get_progress_token();
        let following = reporting(progress, token, &self.context.peer, self.follow(live, attached));
        tokio::select! {
            biased;
            // Dropped before its end, the request cancels the run.
            () = self.context.ct.cancelled() => {
                self.caller.service.log(&format!("run {}: the client has cancelled the call", live.id));
                Err(ErrorData::new(ErrorCode::INTERNAL_ERROR, "the call was cancelled", None))
            }
            response = following => response,
        }
    }

    /// Waits for the end of a run, and has its questions answered.
    async fn follow(&self, live: &Arc<LiveRun>, attached: Attached) -> Result<CallToolResponse, ErrorData> {
        let resumes = matches!(self.operator, Operator::Resumes { .. });
        let mut attempts = 0;
        loop {
            let Some(waiting) = asked(live).await else { return self.outcome(&live.id).await };
            let Some(first) = waiting.first() else { continue };
            match self.asking {
                Asking::No if !resumes => break,
                // It is suspended, and the operator of the server answers.
                Asking::No if self.tasks => live.questions().close(),
                Asking::No => {
                    for waiting in &waiting {
                        self.refuse(live, waiting, CANNOT_ASK).await;
                    }
                }
                Asking::Rounds => {
                    let response = self.round(&live.id, &waiting)?;
                    match resumes {
                        true => attached.leave_for(ANSWER_WITHIN),
                        false => attached.leave(),
                    }
                    return Ok(response);
                }
                Asking::Request => {
                    attempts = if self.ask(live, first).await { 0 } else { attempts + 1 };
                    match attempts >= MOST_ATTEMPTS {
                        false => {}
                        true if resumes => {
                            self.refuse(live, first, NOT_ANSWERED).await;
                            attempts = 0;
                        }
                        true => break,
                    }
                }
            }
        }
        // The operator of the service answers.
        attached.leave();
        self.outcome(&live.id).await
    }

    /// Asks the client's user one question. Returns true if it is answered or withdrawn.
    async fn ask(&self, live: &LiveRun, waiting: &Waiting) -> bool {
        let filled = tokio::select! {
            filled = self.context.peer.create_elicitation(form::form(&live.id, waiting)) => filled,
            () = withdrawn(live, waiting) => return true,
        };
        let answer = match filled {
            Ok(filled) => form::answer(waiting, &filled),
            Err(error) => Err(error.to_string()),
        };
        match answer {
            Ok(answer) => self.give(&live.id, self.answer_to(waiting, answer)).await,
            Err(why) => {
                self.log_wrong(&live.id, waiting, &why);
                return false;
            }
        }
        true
    }

    /// Gives an answer. If another request has answered the question meanwhile, the first answer counts.
    async fn give(&self, run: &str, answer: Answered) {
        let question = answer.question.clone();
        let Caller { service, token, .. } = self.caller;
        if let Err(error) = service.give(token, run, answer).await
            && error.code() != Code::AlreadyDecided
        {
            service.log(&format!("run {run}: question {question}: {}", visible::line(error.detail())));
        }
    }

    async fn refuse(&self, live: &LiveRun, waiting: &Waiting, why: &str) {
        self.give(&live.id, self.answer_to(waiting, waiting.question.refusal(Some(why)))).await;
    }

    fn answer_to(&self, waiting: &Waiting, answer: Answer) -> Answered {
        Answered {
            question: waiting.id.clone(),
            digest: waiting.digest(),
            given: self.caller.given(answer, self.context),
        }
    }

    fn log_wrong(&self, run: &str, waiting: &Waiting, why: &str) {
        self.caller.service.log(&format!("run {run}: question {}: {}", waiting.id, visible::line(why)));
    }

    /// Returns a result that asks the client to repeat the call with the answers.
    fn round(&self, run: &Arc<str>, waiting: &[Waiting]) -> Result<CallToolResponse, ErrorData> {
        let state = sealed::seal(self.session, &Round::new(run, waiting), &self.fingerprint);
        let state = state.ok_or_else(|| {
            let why = "llm-do's folder can't be written, so that no question can be asked";
            ErrorData::internal_error(why, None)
        })?;
        let requests = waiting.iter().map(|waiting| {
            let form = Request::new(form::form(run, waiting));
            (waiting.id.to_string(), InputRequest::Elicitation(form))
        });
        Ok(InputRequiredResult::new(Some(requests.collect()), Some(state)).into())
    }

    /// Answers with the present state of a run.
    async fn outcome(&self, run: &Arc<str>) -> Result<CallToolResponse, ErrorData> {
        let Caller { service, token, .. } = self.caller;
        let view = match service.run(token, run).await {
            Ok(view) => view,
            Err(error) => return Ok(self.refused(&error)),
        };
        match Outcome::of(&view, self.session, &self.operator) {
            Outcome::Working(message) if self.tasks => {
                Ok(CallToolResponse::Task(tasks::created(&view, message)))
            }
            outcome => Ok(with_refusals(outcome.result(run), self.refusals(&view).await).into()),
        }
    }

    /// Counts the questions of a run that were refused because a client can't ask its user.
    async fn refusals(&self, view: &RunView) -> usize {
        let Caller { service, token, .. } = self.caller;
        if self.asking != Asking::No || !matches!(service.owner(), Owner::Tools(_)) {
            return 0;
        }
        let records = service.records(token, &view.run).await.unwrap_or_default();
        let refused = records.iter().filter(|record| match &record.body {
            RecordKind::Answered(given) => {
                let reason = match &given.answer {
                    Answer::Deny { reason, .. } | Answer::Decline { reason } => reason.as_deref(),
                    _ => None,
                };
                given.via.starts_with(VIA) && reason == Some(CANNOT_ASK)
            }
            _ => false,
        });
        refused.count()
    }

    /// Returns the result of a call that has started or continued no run.
    fn refused(&self, why: &ApiError) -> CallToolResponse {
        let text = match why.code() {
            Code::KeyReused => {
                "The idempotency key was used for another call. Use a new key for each different call.".into()
            }
            _ => why.detail().to_owned(),
        };
        let tool = &self.session.entry().id;
        self.caller.service.log(&format!("{tool}: {}", visible::line(&text)));
        error(text).into()
    }
}

/// Waits until a run asks something, and returns its questions. Returns `None` if the run has ended.
async fn asked(live: &LiveRun) -> Option<Vec<Waiting>> {
    let mut questions = live.questions().subscribe();
    loop {
        questions.borrow_and_update();
        let waiting = live.questions().waiting();
        if !waiting.is_empty() {
            return Some(waiting);
        }
        tokio::select! {
            () = live.ended() => return None,
            // The sender lives as long as the run.
            _ = questions.changed() => {}
        }
    }
}

/// Waits until a question is no longer open.
async fn withdrawn(live: &LiveRun, question: &Waiting) {
    let mut questions = live.questions().subscribe();
    while live.questions().waiting().iter().any(|waiting| waiting.id == question.id) {
        // The sender lives as long as the run.
        let _ = questions.changed().await;
    }
}
