//! AG-UI (<https://docs.ag-ui.com>, schema 1.0): a run as the protocol's events. A question is an interrupt, which a later request
//! resumes (`docs/reference/ag-ui.md`).

mod request;
mod writing;

use super::{
    answering::{Answering, Shown},
    conversation::Prompt,
    round::{Hearing, Round},
    speaking::{followed_by, say},
    stream,
};
use crate::{
    error::{ApiError, Code},
    live::is_turn,
    service::Service,
    token::Token,
    views::{RunView, StartRun},
};
use axum::{
    Extension,
    body::Bytes,
    extract::{Path, State},
    response::Response,
};
use llm_do::{
    Session,
    core::{
        definition::WorkerMode,
        journal::Record,
        question::{Answer, Question, Waiting},
    },
};
use request::{Request, Resume, SaidIn, Status};
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
    let (round, from) = match request.resume() {
        [] => match talk(&service, &token, &session, &program, &request).await? {
            Some(talk) => go_on(&service, &token, &session, talk, request).await?,
            None => (begin(&service, &token, &session, program, request).await?, 0),
        },
        entries => resume(&service, &token, &session, &program, entries).await?,
    };
    let said_in = SaidIn { run: Arc::clone(&round.run().id), from };
    Ok(stream::response(round, Writing::new(thread, run, said_in)))
}

async fn begin(
    service: &Service,
    token: &Arc<Token>,
    session: &Session,
    program: String,
    request: Request,
) -> Result<Round, ApiError> {
    let Prompt { message, input, files } = request.prompt(session)?;
    let worker = session.entry().id.to_string();
    let chat = is_chat(session);
    let start = StartRun {
        program: Some(program),
        worker: Some(worker),
        message,
        input,
        chat,
        ..StartRun::default()
    };
    let (live, reader) = service.start_followed(token, start, files).await?;
    Ok(Round::new(service, token, live, reader, Hearing::new(speaks(session, chat))))
}

fn is_chat(session: &Session) -> bool {
    let entry = session.entry();
    entry.mode == WorkerMode::Chat && entry.code.is_none()
}

/// Returns true if the text of the entry's model is its answer. A worker with `returns` has typed output, except in a
/// chat.
fn speaks(session: &Session, chat: bool) -> bool {
    chat || session.entry().returns.is_none()
}

/// A chat that waits for its next message.
struct Talk {
    view: RunView,
    turn: Waiting,
    records: Vec<Record>,
}

/// Finds the chat with the worker's last message, if the chat waits for the user and has no later message. Otherwise
/// the client has changed the conversation or the chat is over, and the messages start another run.
async fn talk(
    service: &Service,
    token: &Arc<Token>,
    session: &Session,
    program: &str,
    request: &Request,
) -> Result<Option<Talk>, ApiError> {
    let Some(said) = request.said_last().filter(|_| is_chat(session)) else { return Ok(None) };
    let view = match service.run(token, &said.run).await {
        Err(error) if error.code() == Code::NotFound => return Ok(None),
        view => view?,
    };
    if !view.chat || *view.program != *program || view.worker != session.entry().id {
        return Ok(None);
    }
    let turns = view.questions.iter().map(|question| &question.waiting);
    let Some(turn) = turns.into_iter().find(|waiting| is_turn(waiting)).cloned() else { return Ok(None) };
    let records = service.records(token, &said.run).await?;
    let since = records.iter().position(|record| record.seq >= said.from);
    let is_newest = since.is_some_and(|at| followed_by(&records[at..]).is_none());
    Ok(is_newest.then_some(Talk { view, turn, records }))
}

/// Gives the next message to a chat.
async fn go_on(
    service: &Service,
    token: &Arc<Token>,
    session: &Session,
    talk: Talk,
    request: Request,
) -> Result<(Round, u64), ApiError> {
    let Talk { view, turn, records } = talk;
    let (text, files) = request.next_message(session)?;
    let run = Arc::clone(&view.run);
    let next = records.last().map_or(0, |record| record.seq + 1);
    let hearing = Hearing::after(true, &records);
    let (mut live, mut reader) = service.follow(token, &run, next).await?;
    say(&Answering::new(service, token, view), turn, text, files).await?;
    if live.is_none() {
        // It was suspended, and continues with the message.
        (live, reader) = service.follow(token, &run, next).await?;
    }
    let live = live.ok_or_else(|| ApiError::new(Code::Conflict, "the run is over"))?;
    Ok((Round::new(service, token, live, reader, hearing), next))
}

async fn resume(
    service: &Service,
    token: &Arc<Token>,
    session: &Session,
    program: &str,
    entries: &[Resume],
) -> Result<(Round, u64), ApiError> {
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
    let hearing = Hearing::after(speaks(session, view.chat), &records);
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
    Ok((Round::new(service, token, live, reader, hearing), next))
}

/// Reads the answer in an entry of `resume`.
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
