//! Answers of providers, as bytes.
//!
//! Only the wire formats use this module: `crates/wire/tests/corpus.rs` runs the kept corpora.

use llm_do_core::{
    call_path::CallPath,
    model::{Delta, Message, MessageId, ModelRequest, ModelResponse, ModelSettings, Part, Role},
};
use llm_do_wire::{Dialect, Failure, Form, Wire};
use serde_json::Value;
use std::sync::Arc;

/// Takes the bytes of an answer.
pub fn run(wire: Wire, bytes: &[u8]) {
    let form = Form::new(wire, Dialect::Own, "p", "m");
    for stream in [true, false] {
        let whole = read(&form, stream, [bytes]);
        for cut in [1, bytes.len() / 3, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let (begin, end) = bytes.split_at(cut.min(bytes.len()));
            assert_eq!(read(&form, stream, [begin, end]), whole, "cut at {cut}");
        }
        assert_eq!(read(&form, stream, bytes.chunks(1)), whole, "byte by byte");
        if let (Ok(response), told) = whole {
            hold_deltas(&response, &told);
            hold_history(&form, response);
        }
    }
}

type Read = (Result<ModelResponse, Failure>, Vec<Delta>);

/// Reads the answer in these pieces, and its deltas. The deltas of a failed answer do not count.
fn read<'p>(form: &Form, stream: bool, pieces: impl IntoIterator<Item = &'p [u8]>) -> Read {
    ask(form, &[], |request| {
        let mut reader = form.reader(request, stream, "");
        let mut told: Vec<Delta> = Vec::new();
        let mut tell = |deltas: &mut dyn Iterator<Item = Delta>| {
            for delta in deltas {
                match (told.last_mut(), delta) {
                    (Some(Delta::Text { text }), Delta::Text { text: more })
                    | (Some(Delta::Reasoning { text }), Delta::Reasoning { text: more }) => {
                        text.push_str(&more);
                    }
                    (_, delta) => told.push(delta),
                }
            }
        };
        for piece in pieces {
            reader.push(piece);
            tell(&mut reader.deltas());
        }
        reader.end();
        tell(&mut reader.deltas());
        let response = reader.response();
        let told = if response.is_ok() { told } else { Vec::new() };
        (response, told)
    })
}

/// Asserts that every delta's text is in the answer.
fn hold_deltas(response: &ModelResponse, told: &[Delta]) {
    let said: String = response.parts.iter().filter_map(Part::as_text).collect();
    let told: usize =
        told.iter().map(|delta| if let Delta::Text { text } = delta { text.len() } else { 0 }).sum();
    assert!(told <= said.len(), "{told} bytes were told of {said:?}");
}

/// Asserts that the answer can go back to its provider, and that calls have unique IDs.
fn hold_history(form: &Form, response: ModelResponse) {
    let ids = response.parts.iter().filter_map(|part| match part {
        Part::Call(call) => Some(Arc::clone(&call.id)),
        _ => None,
    });
    let ids: Vec<Arc<str>> = ids.collect();
    for (at, id) in ids.iter().enumerate() {
        assert!(!ids[..at].contains(id), "{id} is one of two calls");
    }
    let message = Message { id: MessageId(0), parent: None, role: Role::Assistant, parts: response.parts };
    ask(form, &[Arc::new(message)], |request| {
        let sent = form.request(request, true).expect("an answer can be sent");
        serde_json::from_slice::<Value>(&sent.body).expect("a body is JSON");
    });
}

fn ask<T>(form: &Form, messages: &[Arc<Message>], with: impl FnOnce(&ModelRequest<'_>) -> T) -> T {
    with(&ModelRequest {
        conversation: &CallPath::root(),
        run: "run",
        worker: "w",
        purpose: Default::default(),
        turn: 0,
        model: &format!("p:{}", form.model()).parse().expect("a name"),
        system: &"".into(),
        messages,
        tools: &Arc::from([]),
        server_tools: &Arc::from([]),
        settings: &ModelSettings::default(),
        output: None,
    })
}
