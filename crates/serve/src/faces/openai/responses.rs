//! `/v1/responses`. A response is a round of a run: the first one starts it, and `previous_response_id` continues it.

mod continued;
mod id;
mod input;
mod items;

use super::{
    Caller,
    error::Wrong,
    fields::{self, IgnoredSettings, RESPONSES},
    format::Format,
    now, object, session_of,
    tools::{Choice, Face, Forced},
};
use crate::{
    error::{ApiError, Code},
    faces::{
        conversation::{Conversation, Prompt},
        round::{Hearing, Next, Piece, Round, Settled},
        speaking::followed_by,
        stream,
    },
    service::Service,
    token::Token,
    views::{RunView, StartRun, State as RunState},
};
use axum::{
    Extension, Json,
    body::Bytes,
    extract::{Path, RawQuery, State},
    response::{IntoResponse, Response},
};
use continued::go_on;
use id::ResponseId;
use input::Given;
use items::{Items, Writing};
use llm_do::{
    Session,
    core::{definition::WorkerMode, journal::Record},
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

pub(crate) async fn create(
    State(service): State<Service>,
    Extension(token): Caller,
    body: Bytes,
) -> Result<Response, Wrong> {
    let given = object(&body)?;
    let mut ignored = fields::check(&given, RESPONSES, &token)?;
    let (streams, background) = (fields::flag(&given, "stream")?, fields::flag(&given, "background")?);
    let model =
        fields::text(&given, "model")?.ok_or_else(|| Wrong::field("model", "it is missing"))?.to_owned();
    let session = session_of(&service, &token, &model)?;
    let format = format(&given, &session, &token, &mut ignored)?;
    let choice = Choice::of(&given, Face::Responses)?;
    let called = choice.as_ref().map(|choice| choice.name);
    let input = Given::read(given.get("input"), fields::text(&given, "instructions")?, called)?;
    let forced = choice.map(|choice| choice.from(&session, Face::Responses)).transpose()?;
    if background && forced.is_some() {
        let why = "not with a forced function: a response that is read later has no call of it";
        return Err(Wrong::field("background", why));
    }
    let previous = match fields::text(&given, "previous_response_id")? {
        Some(text) => Some(ResponseId::parse(text).ok_or_else(|| ResponseId::unknown(text))?),
        // Answers name their run.
        None => input.run().map(|run| ResponseId::first(Arc::clone(run))),
    };
    let (id, mut round) = match &previous {
        None => begin(&service, &token, &session, &model, input).await?,
        Some(previous) => go_on(&service, &token, &session, &model, previous, input).await?,
    };
    let head = Head {
        id,
        model,
        created: now(),
        previous: previous.map(|id| id.to_string()),
        background,
        format,
        forced,
        tools: given.get("tools").filter(|tools| !tools.is_null()).cloned().unwrap_or_else(|| json!([])),
        tool_choice: given.get("tool_choice").cloned().unwrap_or_else(|| "auto".into()),
        text: given.get("text").cloned(),
        instructions: given.get("instructions").cloned().unwrap_or_default(),
        metadata: given.get("metadata").cloned().unwrap_or_else(|| json!({})),
    };
    let items = Items::new(&head.id);
    if background {
        round.detach();
        if !streams {
            let response = head.response("in_progress", &items, None);
            // The run goes on without its client.
            drop(round);
            return Ok(ignored.told(Json(response).into_response()));
        }
    }
    let response = match streams {
        true => stream::response(round, Writing::new(head, items)),
        false => whole(head, items, round)
            .await
            .map_or_else(IntoResponse::into_response, |whole| Json(whole).into_response()),
    };
    Ok(ignored.told(response))
}

fn format(
    given: &Map<String, Value>,
    session: &Session,
    token: &Token,
    ignored: &mut IgnoredSettings,
) -> Result<Format, Wrong> {
    let Some(text) = given.get("text").filter(|text| !text.is_null()) else { return Ok(Format::Text) };
    let Some(fields) = text.as_object() else { return Err(Wrong::field("text", "must be an object")) };
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match &**name {
            "format" => {}
            "verbosity" if value == "medium" => {}
            "verbosity" => ignored.take("text.verbosity", token)?,
            name => return Err(Wrong::field(format!("text.{name}"), "there is no such field")),
        }
    }
    Format::of("text.format", fields.get("format"), session)
}

/// Starts a run for the first response.
async fn begin(
    service: &Service,
    token: &Arc<Token>,
    session: &Session,
    model: &str,
    input: Given,
) -> Result<(ResponseId, Round), Wrong> {
    let entry = session.entry();
    let conversation = Conversation::new(input.words).map_err(|why| Wrong::field("input", why))?;
    let Prompt { message, input, files } =
        conversation.prompt(session).map_err(|why| Wrong::field("input", why))?;
    let chat = entry.mode == WorkerMode::Chat && entry.code.is_none();
    let request = StartRun {
        program: model.split_once('/').map(|(program, _)| program.to_owned()),
        worker: Some(entry.id.to_string()),
        message,
        input,
        chat,
        ..StartRun::default()
    };
    let (live, reader) = service.start_followed(token, request, files).await?;
    let id = ResponseId::first(Arc::clone(&live.id));
    let hearing = Hearing::new(speaks(session, chat));
    Ok((id, Round::new(service, token, live, reader, hearing)))
}

/// Returns true if the text of the entry's model is its answer. A worker with `returns` has typed output, except in a
/// chat.
fn speaks(session: &Session, chat: bool) -> bool {
    chat || session.entry().returns.is_none()
}

/// The response in one piece.
async fn whole(head: Head, mut items: Items, mut round: Round) -> Result<Value, Wrong> {
    let settled = loop {
        match round.next().await? {
            Next::Piece(piece) if head.is_heard(&piece) => items.piece(piece),
            Next::Piece(_) => {}
            Next::Settled(settled) => break settled,
        }
    };
    items.call_forced(&head, &settled);
    items.ask(&settled.questions);
    Ok(head.response(head.status(&settled), &items, Some(&settled)))
}

/// The fields of a response beside its output.
struct Head {
    id: ResponseId,
    model: String,
    created: u64,
    previous: Option<String>,
    background: bool,
    format: Format,
    forced: Option<Forced>,
    tools: Value,
    tool_choice: Value,
    text: Option<Value>,
    instructions: Value,
    metadata: Value,
}

impl Head {
    fn status(&self, settled: &Settled) -> &'static str {
        match settled.run.state {
            RunState::Cancelled => "cancelled",
            RunState::Queued | RunState::Running => "in_progress",
            RunState::CutOff if settled.run.reason.is_none() => "in_progress",
            _ if self.failure(settled).is_some() => "failed",
            _ => "completed",
        }
    }

    /// Returns true if a piece is an output item. The text of a worker whose output is a call is not.
    fn is_heard(&self, piece: &Piece) -> bool {
        self.forced.is_none() || matches!(piece, Piece::Called(_))
    }

    /// Returns the arguments of the forced function, if there is one and the run has an output.
    fn arguments(&self, settled: &Settled) -> Option<Result<(&Forced, String), String>> {
        let (forced, output) = (self.forced.as_ref()?, settled.run.output.as_ref()?);
        Some(forced.arguments(output).map(|arguments| (forced, arguments)))
    }

    fn failure(&self, settled: &Settled) -> Option<String> {
        let misfit = || {
            let output = settled.run.output.as_ref()?;
            let fits = self.format.accepts(output);
            let why = fits.and_then(|()| self.arguments(settled).transpose()).err()?;
            Some(format!("the output does not fit the schema of the request: {why}"))
        };
        settled.failure().or_else(misfit)
    }

    fn response(&self, status: &str, items: &Items, settled: Option<&Settled>) -> Value {
        let failure = settled.filter(|_| status == "failed").and_then(|settled| self.failure(settled));
        let usage = settled.and_then(|settled| usage_of(settled.usage));
        json!({
            "id": self.id.to_string(),
            "object": "response",
            "created_at": self.created,
            "completed_at": (status == "completed").then(now),
            "status": status,
            "background": self.background,
            "error": failure.map(|message| json!({"code": "server_error", "message": message})),
            "incomplete_details": null,
            "instructions": self.instructions,
            "max_output_tokens": null,
            "max_tool_calls": null,
            "model": self.model,
            "output": items.list(),
            "parallel_tool_calls": true,
            "previous_response_id": self.previous,
            "prompt_cache_key": null,
            "reasoning": {"effort": null, "summary": null},
            "safety_identifier": null,
            "service_tier": "default",
            "store": true,
            "temperature": 1.0,
            "text": self.text.clone().unwrap_or_else(|| json!({"format": {"type": "text"}})),
            "tool_choice": self.tool_choice,
            "tools": self.tools,
            "top_logprobs": 0,
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": usage,
            "user": null,
            "metadata": self.metadata,
        })
    }
}

fn usage_of(usage: llm_do::core::model::Usage) -> Option<Value> {
    let (input, output) = (usage.input_tokens?, usage.output_tokens?);
    Some(json!({
        "input_tokens": input,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens.unwrap_or(0),
            "cache_write_tokens": usage.cache_write_tokens.unwrap_or(0),
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input.saturating_add(output),
    }))
}

/// Returns a response with the present output of its run. A round of a chat ends at the user's next message.
pub(crate) async fn retrieve(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(text): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Wrong> {
    if query.is_some_and(|query| query.split('&').any(|part| part.starts_with("stream=true"))) {
        let why = "a response can't be streamed again: GET /v1/runs/RUN/events has the events of its run";
        return Err(Wrong::field("stream", why));
    }
    let id = ResponseId::parse(&text).ok_or_else(|| ResponseId::unknown(&text))?;
    Ok(Json(look(&service, &token, id).await?))
}

pub(crate) async fn cancel(
    State(service): State<Service>,
    Extension(token): Caller,
    Path(text): Path<String>,
) -> Result<Json<Value>, Wrong> {
    let id = ResponseId::parse(&text).ok_or_else(|| ResponseId::unknown(&text))?;
    // What the token may not see is unknown to it.
    let view = view(&service, &token, &id).await?;
    if matches!(view.state, RunState::Queued | RunState::Running | RunState::Waiting) {
        let live = service.live(&token, &id.run);
        service.cancel(&token, &id.run)?.ended().await;
        if let Some(live) = live {
            live.ended().await;
        }
    }
    Ok(Json(look(&service, &token, id).await?))
}

async fn view(service: &Service, token: &Token, id: &ResponseId) -> Result<RunView, Wrong> {
    service.run(token, &id.run).await.map_err(|error| match error.code() {
        Code::NotFound => ResponseId::unknown(&id.to_string()),
        _ => ApiError::into(error),
    })
}

async fn look(service: &Service, token: &Token, id: ResponseId) -> Result<Value, Wrong> {
    let view = view(service, token, &id).await?;
    let records = service.records(token, &id.run).await?;
    let (before, round, is_newest) = id.of(&records);
    let session = service.session(token, &view.program, &view.worker);
    let speaks = session.map_or(true, |session| speaks(&session, view.chat));
    let mut hearing = Hearing::after(speaks, before);
    let mut items = Items::new(&id);
    for piece in round.iter().flat_map(|record| hearing.record(record)) {
        items.piece(piece);
    }
    let (created, model) = (created(round), format!("{}/{}", view.program, view.worker));
    let settled = Settled::of(view, &hearing);
    let head = Head {
        id,
        model,
        created,
        previous: None,
        background: false,
        format: Format::Text,
        forced: None,
        tools: json!([]),
        tool_choice: "auto".into(),
        text: None,
        instructions: Value::Null,
        metadata: json!({}),
    };
    if !is_newest {
        let settled = Settled {
            run: RunView { state: RunState::Done, failure: None, ..settled.run.clone() },
            turn: None,
            ..settled
        };
        return Ok(head.response("completed", &items, Some(&settled)));
    }
    if let Some(text) = settled.text() {
        hearing.rest(&text).into_iter().for_each(|piece| items.piece(piece));
    }
    items.ask(&settled.questions);
    Ok(head.response(head.status(&settled), &items, Some(&settled)))
}

/// Returns the start of a round, in seconds since 1970.
fn created(round: &[Record]) -> u64 {
    round.first().map_or_else(now, |record| record.at_ms / 1000)
}

impl ResponseId {
    /// Returns the records before the response, its own records, and true if no later round of its chat follows.
    fn of<'a>(&self, records: &'a [Record]) -> (&'a [Record], &'a [Record], bool) {
        let start = records.iter().position(|record| record.seq >= self.from).unwrap_or(records.len());
        let (before, rest) = records.split_at(start);
        match followed_by(rest) {
            Some(end) => (before, &rest[..end], false),
            None => (before, rest, true),
        }
    }
}
