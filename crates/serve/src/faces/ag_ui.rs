//! AG-UI (<https://docs.ag-ui.com>, schema 1.0): a run as the protocol's events. A question is an interrupt, which a later request
//! resumes (`docs/reference/ag-ui.md`).

mod request;
mod writing;

use super::{
    answering::{Answering, Shown},
    conversation::Prompt,
    round::{Hearing, Round, is_of_client},
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
        client_tool::ClientTool,
        definition::WorkerMode,
        journal::{Record, RecordKind},
        question::{Answer, Question, QuestionId, Waiting},
    },
};
use request::{ClientResult, Request, Resume, SaidIn, Status};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use writing::{Writing, client_call_id};

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
        [] => match request.results()? {
            results if !results.is_empty() => take(&service, &token, &session, &program, results).await?,
            _ => match talk(&service, &token, &session, &program, &request).await? {
                Some(talk) => go_on(&service, &token, &session, talk, request).await?,
                None => (begin(&service, &token, &session, program, request).await?, 0),
            },
        },
        entries => resume(&service, &token, &session, &program, entries, request.results()?).await?,
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
    let client_tools = request.client_tools(session)?;
    let Prompt { message, input, files } = request.prompt(session)?;
    let worker = session.entry().id.to_string();
    let chat = is_chat(session);
    let start = StartRun {
        program: Some(program),
        worker: Some(worker),
        message,
        input,
        chat,
        client_tools,
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

/// Finds the chat with the worker's last message, if the chat waits for the user, has no later message and has the
/// client's tools. Otherwise the client has changed the conversation or its tools, or the chat is over, and the messages
/// start another run.
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
    let has_tools = client_tools(&records) == request.client_tools(session)?;
    Ok((is_newest && has_tools).then_some(Talk { view, turn, records }))
}

/// Returns the tools of the client that has started a run.
fn client_tools(records: &[Record]) -> Vec<ClientTool> {
    let invocation = records.iter().find_map(|record| match &record.body {
        RecordKind::RunStarted { invocation, .. } => invocation.as_deref(),
        _ => None,
    });
    let tools = invocation.and_then(|invocation| invocation.get("client_tools"));
    tools.and_then(|tools| Vec::deserialize(tools).ok()).unwrap_or_default()
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
    continued(service, token, session, view, &records, async |answering| {
        say(answering, turn, text, files).await
    })
    .await
}

/// Continues a run with what `give` gives to it. Returns the round, and the number of its first record.
async fn continued(
    service: &Service,
    token: &Arc<Token>,
    session: &Session,
    view: RunView,
    records: &[Record],
    give: impl AsyncFnOnce(&Answering<'_>) -> Result<(), ApiError>,
) -> Result<(Round, u64), ApiError> {
    let run = Arc::clone(&view.run);
    let next = records.last().map_or(0, |record| record.seq + 1);
    let hearing = Hearing::after(speaks(session, view.chat), records);
    let (mut live, mut reader) = service.follow(token, &run, next).await?;
    give(&Answering::new(service, token, view)).await?;
    if live.is_none() {
        // It was suspended, and continues with what was given.
        (live, reader) = service.follow(token, &run, next).await?;
    }
    let live = live.ok_or_else(|| ApiError::new(Code::Conflict, "the run is over"))?;
    Ok((Round::new(service, token, live, reader, hearing), next))
}

/// Finds a run of the worker, with its records.
async fn found(
    service: &Service,
    token: &Arc<Token>,
    session: &Session,
    program: &str,
    run: &Arc<str>,
) -> Result<(RunView, Vec<Record>), ApiError> {
    let view = service.run(token, run).await?;
    if *view.program != *program || view.worker != session.entry().id {
        return Err(ApiError::no_run(run));
    }
    let records = service.records(token, run).await?;
    Ok((view, records))
}

async fn resume(
    service: &Service,
    token: &Arc<Token>,
    session: &Session,
    program: &str,
    entries: &[Resume],
    results: Vec<ClientResult>,
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
    let (view, records) = found(service, token, session, program, &run).await?;
    let records = &records[..];
    continued(service, token, session, view, records, async |answering| {
        let mut answers = Vec::with_capacity(given.len());
        for (shown, entry) in given {
            let question = answering.question(&shown, records)?;
            let answer = answer(&question, entry)
                .map_err(|why| ApiError::new(Code::BadRequest, format!("resume: `{shown}`: {why}")))?;
            answers.push((question, answer));
        }
        // The request repeats the results of earlier ones.
        for result in results.into_iter().filter(|result| result.run == run) {
            let question = executed(records, &result)?;
            if answering.waiting.iter().any(|open| open.id == question.id) {
                answers.push((question, result.answer));
            }
        }
        answering.give_all(answers).await
    })
    .await
}

/// Gives a run the results of calls that its client has executed.
async fn take(
    service: &Service,
    token: &Arc<Token>,
    session: &Session,
    program: &str,
    results: Vec<ClientResult>,
) -> Result<(Round, u64), ApiError> {
    let Some(run) = results.first().map(|result| Arc::clone(&result.run)) else {
        return Err(ApiError::new(Code::BadRequest, "messages: there is no result"));
    };
    let (view, records) = found(service, token, session, program, &run).await?;
    let records = &records[..];
    continued(service, token, session, view, records, async |answering| {
        // The client of the run executes its calls. Another one may only do it as the operator.
        if !answering.is_own {
            answering.may_answer()?;
        }
        let mut answers = Vec::with_capacity(results.len());
        for result in results {
            answers.push((executed(records, &result)?, result.answer));
        }
        // A request repeats the results of earlier ones that answer the same message. One that has only these is late.
        let is_open =
            |(question, _): &(Waiting, Answer)| answering.waiting.iter().any(|open| open.id == question.id);
        if answers.iter().any(is_open) {
            answers.retain(is_open);
        }
        for (question, answer) in answers {
            answering.give(&question, answer).await?;
        }
        Ok(())
    })
    .await
}

/// Finds the wait of a call for a result of the client.
fn executed(records: &[Record], result: &ClientResult) -> Result<Waiting, ApiError> {
    let is_call = |record: &&Record| client_call_id(&result.run, &record.path) == result.call;
    let mut of_call = records.iter().filter(is_call);
    let started = of_call.find(
        |record| matches!(&record.body, RecordKind::CallStarted { source, .. } if is_of_client(source)),
    );
    let asked = started.and_then(|_| {
        of_call.find_map(|record| match &record.body {
            RecordKind::Asked(question @ Question::Input(_)) => {
                Some(Waiting { id: QuestionId::new(&record.path, &record.step), question: question.clone() })
            }
            _ => None,
        })
    });
    asked.ok_or_else(|| {
        let why = format!("messages: the run has asked its client for no call `{}`", result.call);
        ApiError::new(Code::NotFound, why)
    })
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
