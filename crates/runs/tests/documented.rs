//! Compares `docs/reference/journal.md` with the code: its examples are records, and no kind is missing.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    call_path::CallPath,
    event::Event,
    journal::{Ending, FORMAT, Record, RecordKind},
    model::Part,
};
use llm_do_host::RunLog as _;
use llm_do_runs::JournalWriter;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use std::{fs, sync::Arc};

const DOCUMENT: &str = include_str!("../../../docs/reference/journal.md");

/// Returns the lines of the first JSON block after a heading.
fn examples(heading: &str) -> Vec<&'static str> {
    let section = section(heading);
    let block = section.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
    block.unwrap_or_else(|| panic!("no example under `{heading}`")).lines().collect()
}

/// Returns the text between a heading and the next.
fn section(heading: &str) -> &'static str {
    let start = DOCUMENT.find(&format!("{heading}\n")).unwrap_or_else(|| panic!("no heading `{heading}`"));
    let section = &DOCUMENT[start + heading.len()..];
    &section[..section.find("\n#").unwrap_or(section.len())]
}

/// Returns the names that serde has for the variants of an enum with that tag.
fn variants<T: DeserializeOwned>(tag: &str) -> Vec<String> {
    let error = serde_json::from_value::<T>(json!({ tag: "?" })).err().unwrap().to_string();
    let (_, list) = error.split_once("expected one of ").unwrap();
    list.split(", ").map(|name| name.trim_matches('`').to_owned()).collect()
}

/// Asserts that the code would write the example: reading and writing it again changes nothing.
fn assert_current<T: DeserializeOwned + Serialize>(line: &str) {
    let read: T = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(serde_json::to_string(&read).unwrap(), line);
}

#[test]
fn every_kind_of_record_is_documented_with_its_fields() {
    let kinds = variants::<RecordKind>("kind");
    assert!(kinds.len() > 20, "{kinds:?}");
    for (seq, kind) in kinds.iter().enumerate() {
        let heading = format!("### `{kind}`");
        let [line] = examples(&heading)[..] else { panic!("{kind}: more than one example") };
        assert_current::<Record>(line);
        let fields: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&fields["kind"], &fields["seq"]), (&json!(kind), &json!(seq)));
        for field in fields.as_object().unwrap().keys() {
            if !["seq", "at_ms", "path", "step", "kind"].contains(&field.as_str()) {
                assert!(
                    section(&heading).contains(&format!("| `{field}` |")),
                    "{kind}: `{field}` is not explained"
                );
            }
        }
    }
    assert_eq!(DOCUMENT.matches("\n### `").count(), kinds.len(), "a documented kind does not exist");
    assert!(section("## Compatibility").contains(&format!("format {FORMAT}")));
}

#[test]
fn every_part_and_event_is_documented() {
    let parts = examples("### Messages");
    parts.iter().for_each(|line| assert_current::<Part>(line));
    for part in variants::<Part>("part") {
        assert!(parts.iter().any(|line| line.contains(&format!("\"part\":\"{part}\""))), "{part}");
    }
    let events = examples("## Events");
    events.iter().for_each(|line| assert_current::<Event>(line));
    for event in variants::<Event>("event") {
        assert!(events.iter().any(|line| line.contains(&format!("\"event\":\"{event}\""))), "{event}");
        assert!(section("## Events").contains(&format!("| `{event}` |")), "{event}");
    }
}

#[test]
fn long_values_are_stored_as_documented() {
    let home = tempfile::tempdir().unwrap();
    let journal = JournalWriter::create(&home.path().join("runs"), Arc::default(), None).unwrap();
    let long = "x".repeat(5000);
    let body = RecordKind::ToolEnded {
        ending: Ending::Output(Arc::new(json!(long))),
        blobs: Vec::new(),
        log: None,
        origins: Default::default(),
        mixed: false,
    };
    journal.append(&CallPath::root(), &"tool".into(), body, None).unwrap();
    let line = fs::read_to_string(journal.dir().join("journal.jsonl")).unwrap();
    let record: Value = serde_json::from_str(&line).unwrap();
    let documented: Value = serde_json::from_str(examples("## Long values")[0]).unwrap();
    assert_eq!(record["ending"]["output"], documented);
    let hash = documented["$blob"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    assert_eq!(fs::read_to_string(journal.dir().join("blobs").join(hash)).unwrap(), long);
}
