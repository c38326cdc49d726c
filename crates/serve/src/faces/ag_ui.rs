//! AG-UI (<https://docs.ag-ui.com>, schema 1.0): a run as the protocol's events. A question is an interrupt, which a later request
//! resumes (`docs/reference/ag-ui.md`).

mod request;
mod writing;

use super::{
    answering::{Answering, Shown},
    conversation::Prompt,
    round::{Hearing, Round},
    stream,
};
use crate::{
    error::{ApiError, Code},
    service::Service,
    token::Token,
    views::StartRun,
};
use axum::{
    Extension,
    body::Bytes,
    extract::{Path, State},
    response::Response,
};
use llm_do::{
    Session,
    core::question::{Answer, Question, Waiting},
};
use request::{Request, Resume, Status};
use serde_json::Value;
use std::sync::Arc;
use writing::Writing;

type Caller = Extension<Arc<Token>>;

pub(super) async fn run(
    State(service): State<Service>,
    Extension(token): Caller,
    Path((program, worker)): Path<(String, String)>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let session = service.session(&token, &program, &worker)?;
    let request = Request::read(&body)?;
    let (thread, run) = (request.thread_id.clone(), request.run_id.clone());
    let round = match request.resume() {
        [] => begin(&service, &token, &session, program, request).await?,
        entries => resume(&service, &token, &session, &program, entries).await?,
    };
    let writing = Writing::new(thread, run, Arc::clone(&round.run().id));
    Ok(stream::response(round, writing))
}

async fn begin(
    service: &Service,
    token: &Arc<Token>,
    session: &Session,
    program: String,
    request: Request,
) -> Result<Round, ApiError> {
    let wrong = |why: String| ApiError::new(Code::BadRequest, why);
    let Prompt { message, input, files } = request.conversation()?.prompt(session).map_err(wrong)?;
    let worker = session.entry().id.to_string();
    let start =
        StartRun { program: Some(program), worker: Some(worker), message, input, ..StartRun::default() };
    let (live, reader) = service.start_followed(token, start, files).await?;
    Ok(Round::new(service, token, live, reader, Hearing::new(session.entry().returns.is_none())))
}

async fn resume(
    service: &Service,
    token: &Arc<Token>,
    session: &Session,
    program: &str,
    entries: &[Resume],
) -> Result<Round, ApiError> {
    let mut given = Vec::with_capacity(entries.len());
    for entry in entries {
        let shown: Shown = entry.interrupt_id.parse().map_err(|()| {
            ApiError::new(
                Code::NotFound,
                "resume: there is no such interrupt: its `id` is in the event RUN_FINISHED",
            )
        })?;
        given.push((shown, entry));
    }
    let Some((first, _)) = given.first() else {
        return Err(ApiError::new(Code::BadRequest, "resume: there is no answer"));
    };
    let run = Arc::clone(&first.run);
    let view = service.run(token, &run).await?;
    if *view.program != *program || view.worker != session.entry().id {
        return Err(ApiError::no_run(&run));
    }
    let records = service.records(token, &run).await?;
    let next = records.last().map_or(0, |record| record.seq + 1);
    let hearing = Hearing::after(session.entry().returns.is_none(), &records);
    let (mut live, mut reader) = service.follow(token, &run, next).await?;
    let answering = Answering::new(service, token, view);
    let mut answers = Vec::with_capacity(given.len());
    for (shown, entry) in given {
        let question = answering.question(&shown, &records)?;
        let answer = answer(&question, entry)
            .map_err(|why| ApiError::new(Code::BadRequest, format!("resume: `{shown}`: {why}")))?;
        answers.push((question, answer));
    }
    answering.give_all(answers).await?;
    if live.is_none() {
        // It was suspended, and continues with the answers.
        (live, reader) = service.follow(token, &run, next).await?;
    }
    let live = live.ok_or_else(|| ApiError::new(Code::Conflict, "the run is over"))?;
    Ok(Round::new(service, token, live, reader, hearing))
}

/// The answer of an entry of `resume`.
fn answer(question: &Waiting, entry: &Resume) -> Result<Answer, String> {
    let payload = entry.payload.clone().unwrap_or_default();
    let reason = payload.get("reason").and_then(Value::as_str).map(str::to_owned);
    Ok(match (&question.question, &entry.status) {
        (Question::Approval(_), Status::Cancelled) => Answer::Deny { reason, remember: false },
        (Question::Input(_), Status::Cancelled) => Answer::Decline { reason },
        (Question::Settlement(_), Status::Cancelled) => Answer::Abort,
        (Question::Approval(_), Status::Resolved) => {
            let approved = payload.as_bool().or_else(|| payload.get("approved").and_then(Value::as_bool));
            match (approved, payload.get("arguments")) {
                (Some(true), None | Some(Value::Null)) => Answer::Approve { remember: false },
                (Some(true), Some(input)) => Answer::Edit { input: Arc::new(input.clone()) },
                (Some(false), _) => Answer::Deny { reason, remember: false },
                (None, _) => return Err("the payload must have `approved`: true or false".into()),
            }
        }
        (Question::Settlement(_), Status::Resolved) => {
            match (payload.get("again").and_then(Value::as_bool), payload.get("result")) {
                (Some(true), None) => Answer::Again,
                (Some(false), None) => Answer::Abort,
                (None | Some(false), Some(result)) => Answer::Done { result: Arc::new(result.clone()) },
                _ => {
                    let why = "the payload must have `again`, true or false, or the `result` of a call that took effect";
                    return Err(why.into());
                }
            }
        }
        (Question::Input(input), Status::Resolved) => {
            input.accept(&payload).map_err(|why| why.to_string())?;
            Answer::Give { value: Arc::new(payload) }
        }
    })
}
