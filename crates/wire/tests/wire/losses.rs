//! Answers that a client library lost, failed on, or misinterpreted.

use crate::{WIRES, Wire, calls, frame, read, read_all, read_body, reader, sse, text};
use llm_do_core::model::{Arguments, FinishReason, Part};
use llm_do_wire::{Failure, MOST_BYTES, MOST_OF_EVENT};
use serde_json::{Value, json};

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn call(index: u64, arguments: &str) -> Value {
    json!({"tool_calls": [{"index": index, "id": "c1", "function": {"name": "f", "arguments": arguments}}]})
}

#[test]
fn a_line_end_in_two_pieces_is_one() {
    let stream =
        format!("data: {}\r\n\r\ndata: {}\r\n\r\n", delta(json!({"content": "Hi."})), finish("stop"));
    for at in (1..stream.len()).filter(|at| stream.as_bytes()[at - 1] == b'\r') {
        let (one, other) = stream.as_bytes().split_at(at);
        assert_eq!(text(&read(Wire::OpenAi, [one, other]).0.unwrap()), "Hi.");
    }
}

#[test]
fn the_number_of_a_call_reserves_nothing() {
    for index in [u64::from(u32::MAX), u64::MAX] {
        let response =
            read_all(Wire::OpenAi, &sse(&[delta(call(index, "{}")), finish("tool_calls")])).unwrap();
        assert_eq!(calls(&response).len(), 1);
    }
}

#[test]
fn an_answer_without_an_end_fails_at_its_limit() {
    let said = "x".repeat(1 << 20);
    let event = sse(&[delta(json!({ "content": said }))]);
    let mut reader = reader(Wire::OpenAi, true, "text/event-stream");
    for _ in 0..MOST_BYTES / event.len() {
        reader.push(event.as_bytes());
        reader.deltas().for_each(drop);
    }
    assert_eq!(reader.failure(), None, "an answer of nearly the limit is read");
    (0..2).for_each(|_| reader.push(event.as_bytes()));
    assert_eq!(reader.failure(), Some(&Failure::TooLong));
    assert!(reader.has_ended(), "nothing more is read");

    let calls: String = (0..10_002).map(|index| sse(&[delta(call(index, "{}"))])).collect();
    assert_eq!(read_all(Wire::OpenAi, &calls).unwrap_err(), Failure::TooLong);
}

#[test]
fn a_body_without_an_end_fails_at_its_limit() {
    for (wire, _) in WIRES {
        let mut reader = reader(wire, false, "application/json");
        let piece = vec![b' '; 1 << 20];
        (0..=MOST_BYTES / piece.len()).for_each(|_| reader.push(&piece));
        assert_eq!(reader.failure(), Some(&Failure::TooLong), "{wire:?}");
    }
}

#[test]
fn an_event_without_an_end_fails_at_its_limit() {
    let piece = vec![b'x'; 1 << 20];
    let mut endless = frame("messageStart", &json!({}));
    endless[..4].copy_from_slice(&u32::MAX.to_be_bytes());
    for (wire, _) in WIRES {
        let begin = match wire {
            Wire::Ollama => b"{\"message\":".to_vec(),
            Wire::Bedrock => endless.clone(),
            _ => b"data: ".to_vec(),
        };
        let mut reader = reader(wire, true, "");
        reader.push(&begin);
        let pushed = (0..80).take_while(|_| {
            reader.push(&piece);
            reader.failure().is_none()
        });
        let pushed = pushed.count() * piece.len();
        assert!(pushed <= MOST_OF_EVENT, "{wire:?}: {pushed} bytes");
        assert_eq!(reader.failure(), Some(&Failure::TooLong), "{wire:?}");
    }
}

#[test]
fn a_finish_reason_ends_an_answer_without_done() {
    let response = read_all(Wire::OpenAi, &sse(&[delta(json!({"content": "Hi."})), finish("stop")])).unwrap();
    assert_eq!((text(&response).as_str(), response.finish), ("Hi.", FinishReason::Stop));
}

#[test]
fn a_refusal_of_responses_is_one_streamed_or_not() {
    let refusal = json!({"type": "response.refusal.delta", "delta": "I can't."});
    let done = json!({"type": "response.completed", "response": {"status": "completed", "output": []}});
    let streamed = read_all(Wire::Responses, &sse(&[refusal, done])).unwrap();
    let item = json!({"type": "message", "content": [{"type": "refusal", "refusal": "I can't."}]});
    let whole = read_body(Wire::Responses, &json!({"status": "completed", "output": [item]})).unwrap();
    for response in [streamed, whole] {
        assert_eq!((text(&response).as_str(), response.finish), ("I can't.", FinishReason::Refusal));
    }
}

#[test]
fn an_event_that_is_no_json_is_never_passed_over() {
    for (wire, _) in WIRES {
        let stream = match wire {
            Wire::Ollama => "{\"message\": {}}\n{\"message\": \n".to_owned(),
            Wire::Bedrock => continue,
            _ => "data: {\"type\": \"resp\n\ndata: [DONE]\n\n".to_owned(),
        };
        assert!(matches!(read_all(wire, &stream), Err(Failure::Garbled(_))), "{wire:?}");
    }
}

#[test]
fn a_filtered_answer_of_responses_is_not_one_that_is_too_long() {
    for (reason, finish) in
        [("content_filter", FinishReason::Refusal), ("max_output_tokens", FinishReason::Length)]
    {
        let response =
            json!({"status": "incomplete", "output": [], "incomplete_details": {"reason": reason}});
        let event = json!({"type": "response.incomplete", "response": response});
        assert_eq!(read_all(Wire::Responses, &sse(&[event])).unwrap().finish, finish, "{reason}");
        assert_eq!(read_body(Wire::Responses, &response).unwrap().finish, finish, "{reason}");
    }
}

#[test]
fn arguments_that_are_no_json_are_kept_as_text() {
    let item = json!({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\":"});
    let response = read_body(Wire::Responses, &json!({"status": "completed", "output": [item]})).unwrap();
    let [(_, Arguments::Invalid { text, .. })] = &calls(&response)[..] else { panic!("{response:?}") };
    assert_eq!(&**text, "{\"a\":");
}

#[test]
fn blocks_and_deltas_of_unknown_kinds_do_not_fail_an_answer() {
    let block = |index: u32, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: u32, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let result = json!({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []});
    let citation = json!({"type": "web_search_result_location", "url": "https://a.example/", "title": "A"});
    let events = [
        json!({"type": "message_start", "message": {}}),
        json!({"type": "surprise"}),
        block(0, result.clone()),
        block(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "citations_delta", "citation": citation})),
        delta(1, json!({"type": "surprise_delta", "surprise": 1})),
        delta(1, json!({"type": "text_delta", "text": "Found."})),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        json!({"type": "message_stop"}),
    ];
    let response = read_all(Wire::Anthropic, &sse(&events)).unwrap();
    assert_eq!(text(&response), "Found.");
    let opaque = |part: &Part| match part {
        Part::Opaque { value, .. } => Some(value.clone()),
        _ => None,
    };
    let opaque: Vec<Value> = response.parts.iter().filter_map(opaque).collect();
    assert_eq!(opaque, [json!({ "block": result }), json!({"citations": [citation]})]);
}

#[test]
fn a_byte_order_mark_loses_no_event() {
    let streams = [
        (Wire::OpenAi, sse(&[delta(json!({"role": "assistant", "content": "Hi."})), finish("stop")])),
        (Wire::Responses, {
            let said = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "Hi."});
            sse(&[said, json!({"type": "response.completed", "response": {"output": []}})])
        }),
        (Wire::Anthropic, {
            let said = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi."}});
            sse(&[said, json!({"type": "message_stop"})])
        }),
        (
            Wire::Gemini,
            sse(&[
                json!({"candidates": [{"content": {"parts": [{"text": "Hi."}]}, "finishReason": "STOP"}]}),
            ]),
        ),
        (Wire::Ollama, json!({"message": {"content": "Hi."}, "done": true}).to_string()),
    ];
    for (wire, stream) in streams {
        let stream = format!("\u{feff}{stream}");
        for cut in 0..12 {
            let (one, other) = stream.as_bytes().split_at(cut);
            assert_eq!(text(&read(wire, [one, other]).0.unwrap()), "Hi.", "{wire:?} {cut}");
        }
    }
}

#[test]
fn what_follows_a_finish_reason_of_gemini_is_a_part_of_the_answer() {
    let piece = |parts: Value| json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]});
    let code = json!([{"executableCode": {"language": "PYTHON", "code": "print(2)"}}]);
    let stream =
        sse(&[piece(json!([{"text": "Let me see. "}])), piece(code), piece(json!([{"text": "Two."}]))]);
    let response = read_all(Wire::Gemini, &stream).unwrap();
    assert_eq!((text(&response).as_str(), response.finish), ("Let me see. Two.", FinishReason::Stop));
}

#[test]
fn an_error_event_and_a_call_beside_the_finish_reason_are_read() {
    let error = json!({"error": {"code": 502, "message": "upstream"}});
    let failed = read_all(Wire::OpenAi, &sse(&[delta(json!({"content": "Half"})), error.clone()]));
    assert_eq!(failed.unwrap_err(), Failure::Reported(error["error"].clone()));
    let last = json!({"choices": [{"index": 0, "delta": call(0, "{}"), "finish_reason": "tool_calls"}]});
    assert_eq!(calls(&read_all(Wire::OpenAi, &sse(&[last])).unwrap()).len(), 1);
    let error = json!({"error": "model failed"});
    let failed = read_all(Wire::Ollama, &format!("{error}\n"));
    assert_eq!(failed.unwrap_err(), Failure::Reported(error));
}

#[test]
fn an_exception_of_bedrock_is_an_error_with_its_kind() {
    for (name, kind) in
        [("throttlingException", "rate_limit_error"), ("modelStreamErrorException", "server_error")]
    {
        let stream = frame(name, &json!({"message": "Slow down."}));
        let Err(Failure::Reported(body)) = read(Wire::Bedrock, [&*stream]).0 else { panic!("{name}") };
        assert_eq!((&body["type"], &body["message"]), (&json!(kind), &json!("Slow down.")));
    }
}

#[test]
fn what_is_no_answer_of_the_interface_is_told_apart_from_a_cut_one() {
    for (wire, _) in WIRES {
        for stream in [true, false] {
            let read = |media_type: &str, bytes: &[u8]| {
                let mut reader = reader(wire, stream, media_type);
                reader.push(bytes);
                reader.end();
                reader.response().unwrap_err()
            };
            assert_eq!(read("application/json", b"{\"status\": \"ok\"}"), Failure::Foreign, "{wire:?}");
            if wire != Wire::Bedrock {
                let page = read("text/html", b"\xef\xbb\xbf\n<html>");
                assert_eq!(page, Failure::NotJson("text/html".into()), "{wire:?}");
            }
            assert!(matches!(read("application/json", b"{"), Failure::Garbled(_)), "{wire:?}");
        }
        assert_eq!(read_all(wire, "").unwrap_err(), Failure::Cut, "{wire:?}");
    }
}
