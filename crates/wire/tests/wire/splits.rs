//! The same answer, wherever its bytes are cut.

use crate::{Wire, calls, frame, read, text};
use llm_do_core::model::{Arguments, Delta, FinishReason, Part};
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;

/// Returns a stream of each wire that thinks, says ` Grüße, 世界 🌍.`, and calls `f` with `{"path": "ä b"}`.
fn streams() -> [(Wire, Vec<u8>); 6] {
    let bedrock = [
        frame("messageStart", &json!({"role": "assistant"})),
        frame(
            "contentBlockDelta",
            &json!({"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "Hm."}}}),
        ),
        frame(
            "contentBlockDelta",
            &json!({"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "sig"}}}),
        ),
        frame("contentBlockStop", &json!({"contentBlockIndex": 0})),
        frame("contentBlockDelta", &json!({"contentBlockIndex": 1, "delta": {"text": " Grüße, 世"}})),
        frame("contentBlockDelta", &json!({"contentBlockIndex": 1, "delta": {"text": "界 🌍."}})),
        frame(
            "contentBlockStart",
            &json!({"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "c1", "name": "f"}}}),
        ),
        frame(
            "contentBlockDelta",
            &json!({"contentBlockIndex": 2, "delta": {"toolUse": {"input": "{\"path\": "}}}),
        ),
        frame(
            "contentBlockDelta",
            &json!({"contentBlockIndex": 2, "delta": {"toolUse": {"input": "\"ä b\"}"}}}),
        ),
        frame("messageStop", &json!({"stopReason": "tool_use"})),
        frame("metadata", &json!({"usage": {"inputTokens": 9, "outputTokens": 4, "totalTokens": 13}})),
    ];
    [
        (Wire::OpenAi, include_bytes!("streams/openai.txt").to_vec()),
        (Wire::Responses, include_bytes!("streams/responses.txt").to_vec()),
        (Wire::Anthropic, include_bytes!("streams/anthropic.txt").to_vec()),
        (Wire::Gemini, include_bytes!("streams/gemini.txt").to_vec()),
        (Wire::Ollama, include_bytes!("streams/ollama.txt").to_vec()),
        (Wire::Bedrock, bedrock.concat()),
    ]
}

/// Deltas of the same kind in one, since a cut may part them.
fn joined(deltas: Vec<Delta>) -> Vec<Delta> {
    let mut joined: Vec<Delta> = Vec::new();
    for delta in deltas {
        match (joined.last_mut(), delta) {
            (Some(Delta::Text { text }), Delta::Text { text: more })
            | (Some(Delta::Reasoning { text }), Delta::Reasoning { text: more })
            | (Some(Delta::Arguments { text, .. }), Delta::Arguments { text: more, .. }) => {
                text.push_str(&more);
            }
            (_, delta) => joined.push(delta),
        }
    }
    joined
}

#[test]
fn a_recorded_stream_is_an_answer() {
    for (wire, stream) in streams() {
        let (response, told) = read(wire, [&*stream]);
        let response = response.unwrap();
        assert_eq!(text(&response), " Grüße, 世界 🌍.", "{wire:?}");
        let [(name, arguments)] = &calls(&response)[..] else { panic!("{wire:?}: {response:?}") };
        assert_eq!(name, "f");
        assert_eq!(*arguments, Arguments::Json(Arc::new(json!({"path": "ä b"}))), "{wire:?}");
        assert_eq!(response.finish, FinishReason::ToolCalls, "{wire:?}");
        let usage = (response.usage.input_tokens, response.usage.output_tokens);
        assert_eq!(usage, (Some(9), Some(4)), "{wire:?}");
        assert!(
            matches!(&response.parts[0], Part::Reasoning { text } if &**text == "Hm."),
            "{wire:?}: {response:?}"
        );
        let told: Vec<Delta> = joined(told);
        let said = |text: &str| Delta::Text { text: text.into() };
        let thought = Delta::Reasoning { text: "Hm.".into() };
        let [before @ .., Delta::Arguments { call: 0, text: arguments }] = &*told else { panic!("{told:?}") };
        assert_eq!(before, [thought, said(" Grüße, 世界 🌍."), Delta::Call { name: "f".into() }], "{wire:?}");
        let arguments: serde_json::Value = serde_json::from_str(arguments).unwrap();
        assert_eq!(arguments, json!({"path": "ä b"}), "{wire:?}");
    }
}

#[test]
fn a_cut_at_any_byte_changes_nothing() {
    for (wire, stream) in streams() {
        let whole = read(wire, [&*stream]);
        let whole = (whole.0.unwrap(), joined(whole.1));
        for cut in 0..=stream.len() {
            let (response, told) = read(wire, [&stream[..cut], &stream[cut..]]);
            assert_eq!((response.as_ref(), joined(told)), (Ok(&whole.0), whole.1.clone()), "{wire:?} {cut}");
        }
        let (response, told) = read(wire, stream.chunks(1));
        assert_eq!((response, joined(told)), (Ok(whole.0), whole.1), "{wire:?}, byte by byte");
    }
}

#[test]
fn line_ends_comments_and_a_mark_change_nothing() {
    for (wire, stream) in streams().into_iter().filter(|(wire, _)| *wire != Wire::Bedrock) {
        let whole = read(wire, [&*stream]).0.unwrap();
        let text = String::from_utf8(stream).unwrap();
        let mut ways = vec![format!("\u{feff}{text}"), text.replace('\n', "\r\n")];
        if wire != Wire::Ollama {
            ways.push(text.replace('\n', "\r"));
            ways.push(format!(": keepalive\n\n{}", text.replace("\n\n", "\n\n:\n\n: x\n\n")));
        }
        for way in ways {
            for cut in (0..way.len()).step_by(7) {
                let response = read(wire, [&way.as_bytes()[..cut], &way.as_bytes()[cut..]]).0;
                assert_eq!(response.as_ref(), Ok(&whole), "{wire:?} cut at {cut}");
            }
        }
    }
}

#[test]
fn a_stream_that_ends_early_is_no_answer() {
    for (wire, stream) in streams() {
        let whole = read(wire, [&*stream]).0.unwrap();
        for end in 0..stream.len() {
            if let Ok(response) = read(wire, [&stream[..end]]).0 {
                assert_eq!(response.parts, whole.parts, "{wire:?}, {end} bytes");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer_or_a_failure(
        which in 0_usize..6,
        at in any::<prop::sample::Index>(),
        bytes in prop::collection::vec(any::<u8>(), 0..12),
        length in 0_usize..20,
    ) {
        let (wire, mut stream) = streams()[which].clone();
        let at = at.index(stream.len());
        let end = (at + length).min(stream.len());
        stream.splice(at..end, bytes);
        let _ = read(wire, [&*stream]);
    }
}
