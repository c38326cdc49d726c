//! `POST /v1/chat/completions`. The client keeps the conversation, so each request is a separate run.

use super::{
    Caller, content,
    error::Wrong,
    fields::{self, CHAT},
    format::Format,
    now, object, session_of,
    title::Task,
    tools::{Choice, EarlierCalls, Face, Forced, chat_call},
};
use crate::{
    error::{ApiError, Code},
    faces::{
        asking::Link,
        conversation::{Conversation, Prompt, Speaker, Words},
        round::{Hearing, Next, Piece, Round, Settled},
        stream::{self, Writer},
    },
    service::Service,
    views::StartRun,
};
use axum::{
    Extension, Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response, Sse, sse::Event},
};
use futures_util::stream::iter;
use llm_do::core::{
    model::Usage,
    outcome::{Failure, FailureKind},
};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, convert::Infallible};

pub(crate) async fn complete(
    State(service): State<Service>,
    Extension(token): Caller,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Wrong> {
    let given = object(&body)?;
    let model =
        fields::text(&given, "model")?.ok_or_else(|| Wrong::field("model", "it is missing"))?.to_owned();
    let choice = Choice::of(&given, Face::Chat);
    let forced = choice.as_ref().ok().and_then(Option::as_ref).map(|choice| choice.name);
    let conversation = conversation(given.get("messages"), forced)?;
    let streams = fields::flag(&given, "stream")?;
    let session = session_of(&service, &token, &model)?;
    // Clients send these with settings of their own, which no program gets to see.
    if conversation.before() == 0
        && let Some(task) = Task::of(conversation.last())
    {
        let (text, usage) = task.answer(&service).await;
        return Ok(short(streams, &model, &text, usage));
    }
    let ignored = fields::check(&given, CHAT, &token)?;
    let include_usage = stream_options(&given, streams)?;
    let format = Format::of("response_format", given.get("response_format"), &session)?;
    let forced = choice?.map(|choice| choice.from(&session, Face::Chat)).transpose()?;
    let Prompt { message, input, files } =
        conversation.prompt(&session).map_err(|why| Wrong::field("messages", why))?;
    let entry = session.entry();
    let request = StartRun {
        program: model.split_once('/').map(|(program, _)| program.to_owned()),
        worker: Some(entry.id.to_string()),
        message,
        input,
        ..StartRun::default()
    };
    let (live, reader) = service.start_followed(&token, request, files).await?;
    let hearing = Hearing::new(entry.returns.is_none());
    let round = Round::new(&service, &token, live, reader, hearing);
    let completion = Completion {
        id: format!("chatcmpl-{}", round.run().id),
        model,
        created: now(),
        include_usage,
        format,
        forced,
        link: Link::of(&headers, &round.run().id),
        turn: None,
    };
    let response = match streams {
        true => stream::response(round, completion),
        false => completion
            .whole(round)
            .await
            .map_or_else(IntoResponse::into_response, |whole| Json(whole).into_response()),
    };
    Ok(ignored.told(response))
}

/// Reads the messages. The only calls in them are calls of the forced function.
fn conversation(messages: Option<&Value>, forced: Option<&str>) -> Result<Conversation, Wrong> {
    let Some(Value::Array(messages)) = messages else {
        return Err(Wrong::field("messages", "must be an array"));
    };
    let mut calls = EarlierCalls::of(forced);
    let mut words = Vec::with_capacity(messages.len());
    for (number, message) in messages.iter().enumerate() {
        let place = format!("messages[{number}]");
        let Some(fields) = message.as_object() else { return Err(Wrong::field(place, "must be an object")) };
        let speaker = match fields.get("role").and_then(Value::as_str) {
            Some("system" | "developer") => Speaker::Application,
            Some("user") => Speaker::User,
            Some("assistant") => Speaker::Worker,
            Some("tool") => {
                calls.result(&place, fields.get("tool_call_id"))?;
                Speaker::Client
            }
            _ => {
                return Err(Wrong::field(
                    format!("{place}.role"),
                    "must be system, developer, user, assistant or tool",
                ));
            }
        };
        let content = content::read(&place, fields.get("content"), speaker == Speaker::User)?;
        let mut text = content.text;
        if fields.get("function_call").is_some_and(|call| !call.is_null()) {
            let place = format!("{place}.function_call");
            return Err(Wrong::field(place, "the tools of a worker are its own"));
        }
        let calls_at = format!("{place}.tool_calls");
        let made = match fields.get("tool_calls") {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(made)) => made,
            Some(_) => return Err(Wrong::field(calls_at, "must be an array")),
        };
        for call in made {
            let arguments = calls.call(&calls_at, call.get("id"), &call["function"])?;
            text = if text.is_empty() { arguments.to_owned() } else { format!("{text}\n{arguments}") };
        }
        words.push(Words { speaker, text, files: content.files });
    }
    Conversation::new(words).map_err(|why| Wrong::field("messages", why))
}

/// Returns true if a stream ends with the usage.
fn stream_options(given: &Map<String, Value>, streams: bool) -> Result<bool, Wrong> {
    match given.get("stream_options") {
        None | Some(Value::Null) => Ok(false),
        Some(_) if !streams => Err(Wrong::field("stream_options", "only with `stream`")),
        Some(Value::Object(options)) => fields::flag(options, "include_usage"),
        Some(_) => Err(Wrong::field("stream_options", "must be an object")),
    }
}

/// A completion in progress.
struct Completion {
    id: String,
    model: String,
    created: u64,
    include_usage: bool,
    format: Format,
    forced: Option<Forced>,
    link: Link,
    /// The turn whose text was sent last.
    turn: Option<u32>,
}

/// The end of a completion.
enum End {
    /// A call that carries the output.
    Call(Value),
    /// Further text, which may be empty.
    Text {
        more: Option<String>,
        finish: &'static str,
    },
    Refused(String),
    Failed(Wrong),
}

impl Completion {
    fn end_of(&self, settled: &Settled) -> End {
        if !settled.questions.is_empty() {
            return End::Text { more: Some(self.link.asking(&settled.questions)), finish: "stop" };
        }
        if let Some(output) = &settled.run.output {
            let run = &settled.run.run;
            let call = self.format.accepts(output).and_then(|()| match &self.forced {
                Some(forced) => Ok(Some(chat_call(run, forced.name(), &forced.arguments(output)?))),
                None => Ok(None),
            });
            match call {
                Ok(Some(call)) => return End::Call(call),
                Ok(None) => {}
                Err(why) => {
                    let message =
                        format!("the output of run {run} does not fit the schema of the request: {why}");
                    return End::Failed(Wrong::failed(message, "output_misfit"));
                }
            }
        }
        match (&settled.run.failure, settled.failure()) {
            (Some(Failure { kind: FailureKind::Refusal, message, .. }), _) => End::Refused(message.clone()),
            (Some(Failure { kind: FailureKind::Limit, .. }), _) if self.turn.is_some() => {
                End::Text { more: None, finish: "length" }
            }
            (_, Some(message)) => {
                End::Failed(Wrong::failed(format!("run {}: {message}", settled.run.run), "run_failed"))
            }
            (_, None) => End::Text { more: None, finish: "stop" },
        }
    }

    /// The completion in one piece.
    async fn whole(mut self, mut round: Round) -> Result<Value, Wrong> {
        let mut turns = BTreeMap::<u32, String>::new();
        let settled = loop {
            match round.next().await? {
                // The call has the output.
                Next::Piece(Piece::Text { .. }) if self.forced.is_some() => {}
                Next::Piece(Piece::Text { turn, text }) => {
                    self.turn = Some(turn.turn);
                    turns.entry(turn.turn).or_default().push_str(&text);
                }
                Next::Piece(Piece::Void { turn }) => drop(turns.remove(&turn.turn)),
                Next::Piece(_) => {}
                Next::Settled(settled) => break settled,
            }
        };
        let mut texts: Vec<String> = turns.into_values().collect();
        let (finish, refusal) = match self.end_of(&settled) {
            End::Call(call) => {
                let message =
                    json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": [call]});
                return Ok(self.completion(message, "tool_calls", settled.usage));
            }
            End::Text { more, finish } => {
                texts.extend(more);
                (finish, None)
            }
            End::Refused(why) => ("stop", Some(why)),
            End::Failed(wrong) => return Err(wrong),
        };
        let content = (refusal.is_none()).then(|| texts.join("\n\n"));
        let message = json!({"role": "assistant", "content": content, "refusal": refusal});
        Ok(self.completion(message, finish, settled.usage))
    }

    fn completion(&self, message: Value, finish: &str, usage: Usage) -> Value {
        let mut completion = json!({
            "id": self.id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "choices": [{"index": 0, "message": message, "logprobs": null, "finish_reason": finish}],
        });
        if let Some(usage) = usage_of(usage) {
            completion["usage"] = usage;
        }
        completion
    }

    fn chunk(&self, delta: Value, finish: Option<&str>) -> Event {
        let choices = json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        self.chunk_of(choices, None)
    }

    fn chunk_of(&self, choices: Value, usage: Option<Value>) -> Event {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "choices": choices,
        });
        if self.include_usage {
            chunk["usage"] = usage.unwrap_or_default();
        }
        Event::default().data(chunk.to_string())
    }

    fn text(&mut self, turn: u32, text: &str) -> Event {
        // Texts between calls of tools are paragraphs of one message.
        let begins = self.turn.is_some_and(|before| before != turn);
        self.turn = Some(turn);
        let text = if begins { format!("\n\n{text}") } else { text.to_owned() };
        self.chunk(json!({"content": text}), None)
    }
}

impl Writer for Completion {
    fn begin(&mut self) -> Vec<Event> {
        let content = if self.forced.is_some() { Value::Null } else { "".into() };
        vec![self.chunk(json!({"role": "assistant", "content": content, "refusal": null}), None)]
    }

    fn piece(&mut self, piece: Piece) -> Vec<Event> {
        match piece {
            Piece::Text { .. } if self.forced.is_some() => Vec::new(),
            Piece::Text { turn, text } => vec![self.text(turn.turn, &text)],
            // What was sent stays: the text of the next attempt is a paragraph of its own.
            Piece::Void { .. } => vec![self.chunk(json!({"content": "\n\n"}), None)],
            // The interface has no place for a value that grows.
            Piece::Said { .. } | Piece::Called(_) | Piece::Grown(_) | Piece::Withdrawn => Vec::new(),
        }
    }

    fn end(&mut self, settled: Settled) -> Vec<Event> {
        let (mut events, finish) = match self.end_of(&settled) {
            End::Call(mut call) => {
                call["index"] = 0.into();
                (vec![self.chunk(json!({"tool_calls": [call]}), None)], "tool_calls")
            }
            End::Text { more, finish } => {
                let more = more.map(|more| self.text(u32::MAX, &more));
                (more.into_iter().collect::<Vec<_>>(), finish)
            }
            End::Refused(why) => (vec![self.chunk(json!({"refusal": why}), None)], "stop"),
            End::Failed(wrong) => return vec![Event::default().data(wrong.body().to_string())],
        };
        events.push(self.chunk(json!({}), Some(finish)));
        if self.include_usage {
            events.push(self.chunk_of(json!([]), usage_of(settled.usage)));
        }
        events.push(Event::default().data("[DONE]"));
        events
    }

    fn broken(&mut self, error: &ApiError) -> Vec<Event> {
        vec![Event::default().data(Wrong::from(error.clone()).body().to_string())]
    }
}

/// The usage, if the provider has counted it.
fn usage_of(usage: Usage) -> Option<Value> {
    let (input, output) = (usage.input_tokens?, usage.output_tokens?);
    Some(json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input.saturating_add(output),
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens.unwrap_or(0)},
    }))
}

/// A completion that no run has made.
fn short(streams: bool, model: &str, text: &str, usage: Usage) -> Response {
    let completion = Completion {
        id: "chatcmpl-title".into(),
        model: model.to_owned(),
        created: now(),
        include_usage: false,
        format: Format::Text,
        forced: None,
        link: Link::none(),
        turn: None,
    };
    if !streams {
        let message = json!({"role": "assistant", "content": text, "refusal": null});
        return Json(completion.completion(message, "stop", usage)).into_response();
    }
    let events = [
        completion.chunk(json!({"role": "assistant", "content": text}), None),
        completion.chunk(json!({}), Some("stop")),
        Event::default().data("[DONE]"),
    ];
    Sse::new(iter(events.map(Ok::<_, Infallible>))).into_response()
}

impl Wrong {
    /// Creates the error of a run that has failed. Clients do not retry on its status: another run would repeat all
    /// effects.
    fn failed(message: String, name: &'static str) -> Self {
        Self::new(Code::Program, message).named(name).with_status(StatusCode::FAILED_DEPENDENCY)
    }
}
