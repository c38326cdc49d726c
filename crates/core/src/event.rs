//! Events for displays and other programs: a record, or provisional data that a later record confirms or discards
//! (`docs/reference/journal.md`). Events are never the source of truth.

use crate::{call_path::CallPath, journal::Record, model::Delta, partial::Growth};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Something has been recorded.
    Record {
        /// The record, as in the journal but with long values in place.
        record: Arc<Record>,
    },
    /// Part of an answer in progress.
    Delta {
        /// The call whose worker is answering.
        path: CallPath,
        /// Turn of its conversation.
        turn: u32,
        /// The piece.
        #[serde(flatten)]
        delta: Delta,
    },
    /// The typed answer in progress has grown. The first growth of a turn begins a new value.
    Partial {
        /// The call whose worker is answering.
        path: CallPath,
        /// Turn of its conversation.
        turn: u32,
        /// The steps of the growth, in order.
        growth: Vec<Growth>,
    },
    /// Discards the partial value of this call: the answer is invalid and is asked for again, is not the result after
    /// all, or never ended.
    DiscardPartial {
        /// The call.
        path: CallPath,
        /// The turn that the value belongs to.
        turn: u32,
    },
    /// Discards the deltas and the partial value of this turn: the request failed and may be repeated.
    Discard {
        /// The call.
        path: CallPath,
        /// The turn.
        turn: u32,
    },
}

/// The JSON Schema (2020-12) of one event, generated from the types.
#[cfg(feature = "schemas")]
pub fn json_schema() -> serde_json::Value {
    use schemars::{generate::SchemaSettings, transform::transform_subschemas};

    /// Rustdoc links to other types work only in this crate's documentation.
    fn without_links(schema: &mut schemars::Schema) {
        if let Some(serde_json::Value::String(text)) = schema.get_mut("description") {
            *text = text.replace("[`", "`").replace("`]", "`");
        }
        transform_subschemas(&mut without_links, schema);
    }
    let generator =
        SchemaSettings::draft2020_12().for_serialize().with_transform(without_links).into_generator();
    let mut schema = generator.into_root_schema_for::<Event>();
    schema.insert("$id".into(), "urn:llm-do:schema:events".into());
    schema.insert("title".into(), "One line of `llm-do --output stream-json`.".into());
    schema.to_value()
}

#[cfg(all(test, feature = "schemas"))]
mod tests {
    use super::*;
    use crate::schema::Schema;
    use serde_json::json;

    #[test]
    fn the_schema_takes_events_and_nothing_else() {
        let schema = Schema::new(json_schema()).unwrap();
        let slept =
            json!({"seq": 14, "at_ms": 1, "path": "0", "step": "wait.1.0", "kind": "slept", "ms": 2000});
        let event = |record: &serde_json::Value| json!({"event": "record", "record": record});
        assert_eq!(schema.validate(&event(&slept)), Ok(()));
        for (field, value) in
            [("kind", json!("dreamt")), ("ms", json!("2 s")), ("seq", json!(-1)), ("path", json!(null))]
        {
            let mut wrong = slept.clone();
            wrong[field] = value;
            assert!(schema.validate(&event(&wrong)).is_err(), "{field}");
        }
        for field in ["kind", "ms", "step"] {
            let mut lacking = slept.clone();
            lacking.as_object_mut().unwrap().remove(field);
            assert!(schema.validate(&event(&lacking)).is_err(), "{field}");
        }
        // Fields are only ever added.
        assert!(schema.validate(&json!({"event": "discard", "path": "0", "turn": 0, "more": 1})).is_ok());
        assert!(
            schema.validate(&json!({"event": "delta", "path": "0", "turn": 0, "delta": "text"})).is_err()
        );
        assert!(!schema.value().to_string().contains("[`"));
    }
}
