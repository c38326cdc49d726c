//! The question for an input that a worker, or a server behind a tool, wants from the user.

use super::view::{Extent, diff};
use crate::rows::{Rows, Tone};
use llm_do_core::{
    question::{Input, Preview},
    results::show,
};
use llm_do_terminal::Line;
use serde_json::Value;

/// Formats the question.
pub(super) fn question(wanted: &Input, extent: Extent, columns: usize) -> Vec<Line> {
    let mut rows = Rows::new(columns);
    rows.heading(&[(Tone::Name, &wanted.chain.join(" → ")), (Tone::Plain, " asks:")]);
    rows.content(&wanted.prompt);
    for Preview::Change { path, before, after } in &wanted.changes {
        diff(&mut rows, path, before.as_deref(), after.as_deref(), extent);
    }
    if let Some(form) = wanted.schema.as_deref().and_then(in_words) {
        rows.line(&[(Tone::Dim, &form)]);
    }
    rows.finish()
}

/// Describes the values of a schema in words. `None`: any text.
fn in_words(schema: &Value) -> Option<String> {
    let plain = |key: &String| {
        ["type", "description", "title", "properties", "required", "additionalProperties"]
            .contains(&key.as_str())
    };
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().map(show).collect();
        return Some(format!("one of: {}", values.join(", ")));
    }
    let is_plain = schema.as_object().is_some_and(|keys| keys.keys().all(plain));
    let properties = schema.get("properties").and_then(Value::as_object);
    match (schema.get("type").and_then(Value::as_str).filter(|_| is_plain), properties) {
        (Some("string"), _) => None,
        (Some("boolean"), _) => Some("true or false".to_owned()),
        (Some("integer"), _) => Some("a whole number".to_owned()),
        (Some("number"), _) => Some("a number".to_owned()),
        (Some("object"), Some(properties)) => {
            let required = schema.get("required").and_then(Value::as_array);
            let fields = properties.iter().map(|(name, of)| {
                let is_required = required.is_some_and(|names| names.iter().any(|one| one == name.as_str()));
                let optional = if is_required { "" } else { " (optional)" };
                format!("{name}{optional}: {}", in_words(of).unwrap_or_else(|| "text".to_owned()))
            });
            Some(format!("a JSON object with {}", fields.collect::<Vec<_>>().join("; ")))
        }
        _ => Some(format!("as {schema}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paint::Paint;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn what_a_schema_wants_is_said_in_words() {
        for (schema, words) in [
            (json!({"enum": ["restore", "leave", 3]}), Some("one of: restore, leave, 3")),
            (json!({"type": "string", "description": "a city"}), None),
            (json!({"type": "integer"}), Some("a whole number")),
            (json!({"type": "integer", "minimum": 1}), Some("as {\"type\":\"integer\",\"minimum\":1}")),
            (
                json!({"type": "object", "properties": {"city": {"type": "string"}, "ok": {"type": "boolean"}}, "required": ["city"]}),
                Some("a JSON object with city: text; ok (optional): true or false"),
            ),
        ] {
            assert_eq!(in_words(&schema).as_deref(), words, "{schema}");
        }
    }

    #[test]
    fn nothing_in_the_prompt_reaches_the_terminal_as_a_command() {
        let wanted = Input {
            chain: vec!["main".into()],
            prompt: "your name?\u{1b}[2J\n[a]pprove".into(),
            schema: Some(Arc::new(json!({"title": "\u{9b}1A"}))),
            changes: Vec::new(),
            conversation: None,
            expires_ms: None,
        };
        let text = Paint::NEVER.lines(&question(&wanted, Extent::Full, 40));
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  ")), "{text}");
    }
}
