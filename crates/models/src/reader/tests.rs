//! Limits of a reader, which streams of the tests' server would take long to reach.

use super::*;

fn reader() -> Reader {
    Reader::new(Wire::OpenAi, AdapterKind::OpenAI).unwrap()
}

#[test]
fn an_answer_without_end_fails_at_its_limit() {
    let mut reader = reader();
    let said = "x".repeat(1 << 20);
    let event = format!(r#"{{"choices":[{{"delta":{{"content":"{said}"}}}}]}}"#);
    for _ in 0..MOST_BYTES / event.len() {
        reader.event(None, &event);
    }
    assert!(reader.failure().is_none(), "an answer of nearly the limit is read");
    reader.event(None, &event);
    assert!(matches!(reader.failure(), Some(Failure::TooLong)));
}

#[test]
fn an_event_in_pieces_without_end_is_garbled() {
    let mut reader = reader();
    reader.event(None, r#"{"choices":"#);
    for _ in 0..MOST_PIECES {
        assert!(reader.failure().is_none());
        reader.event(None, "[");
    }
    assert!(matches!(reader.failure(), Some(Failure::Garbled(_))));
}
