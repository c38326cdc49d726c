//! Requests and answers of every wire format, without a network.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod bodies;
mod conversations;
mod losses;
mod splits;

use llm_do_core::{
    call_path::CallPath,
    model::{Arguments, Delta, Message, MessageId, ModelRequest, ModelResponse, ModelSettings, Part, Role},
};
use llm_do_wire::{Dialect, Failure, Form, Reader, Wire};
use serde_json::Value;
use std::sync::Arc;

/// The wires with a model of each.
const WIRES: [(Wire, &str); 6] = [
    (Wire::OpenAi, "gpt-4o"),
    (Wire::Responses, "gpt-5-mini"),
    (Wire::Anthropic, "claude-sonnet-4-5"),
    (Wire::Gemini, "gemini-3-flash"),
    (Wire::Ollama, "qwen3"),
    (Wire::Bedrock, "anthropic.claude-sonnet-4-5-20250929-v1:0"),
];

fn form(wire: Wire) -> Form {
    let (_, model) = WIRES.iter().find(|(known, _)| *known == wire).unwrap();
    Form::new(wire, Dialect::Own, "p", model)
}

/// Makes a reader of an answer to a request that says hello.
fn reader(wire: Wire, stream: bool, media_type: &str) -> Reader {
    let parts = vec![Part::text("Hello.")];
    let request = ModelRequest {
        conversation: &CallPath::root(),
        run: "run",
        worker: "w",
        purpose: Default::default(),
        turn: 0,
        model: &"p:m".parse().unwrap(),
        system: &"".into(),
        messages: &[Arc::new(Message { id: MessageId(0), parent: None, role: Role::User, parts })],
        tools: &Arc::from([]),
        server_tools: &Arc::from([]),
        settings: &ModelSettings::default(),
        output: None,
    };
    form(wire).reader(&request, stream, media_type)
}

/// Reads a stream that arrives in these pieces. Returns its deltas, too.
fn read<'p>(
    wire: Wire,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> (Result<ModelResponse, Failure>, Vec<Delta>) {
    let mut reader = reader(wire, true, "");
    let mut told = Vec::new();
    for piece in pieces {
        reader.push(piece);
        told.extend(reader.deltas());
    }
    reader.end();
    told.extend(reader.deltas());
    (reader.response(), told)
}

fn read_all(wire: Wire, stream: &str) -> Result<ModelResponse, Failure> {
    read(wire, [stream.as_bytes()]).0
}

/// Reads an answer in one body.
fn read_body(wire: Wire, body: &Value) -> Result<ModelResponse, Failure> {
    let mut reader = reader(wire, false, "application/json");
    reader.push(body.to_string().as_bytes());
    reader.end();
    reader.response()
}

fn sse(events: &[Value]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

fn text(response: &ModelResponse) -> String {
    response.parts.iter().filter_map(Part::as_text).collect()
}

/// Returns the name and the arguments of each call.
fn calls(response: &ModelResponse) -> Vec<(String, Arguments)> {
    let calls = response.parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some((call.name.to_string(), call.arguments.clone())),
        _ => None,
    });
    calls.collect()
}

/// Makes a frame of Bedrock's stream.
fn frame(name: &str, payload: &Value) -> Vec<u8> {
    let (key, payload) = (":event-type", payload.to_string());
    let mut headers = vec![key.len() as u8];
    headers.extend_from_slice(key.as_bytes());
    headers.push(7);
    headers.extend_from_slice(&(name.len() as u16).to_be_bytes());
    headers.extend_from_slice(name.as_bytes());
    let length = (16 + headers.len() + payload.len()) as u32;
    let lengths = [length.to_be_bytes(), (headers.len() as u32).to_be_bytes(), [0; 4]].concat();
    [&lengths[..], &headers, payload.as_bytes(), &[0; 4]].concat()
}
