//! Violations of `anyOf` and `oneOf`, with the reason for each alternative.

use jsonschema::{ValidationError, error::ValidationErrorKind};
use std::fmt::Write as _;

/// Greatest number of alternatives whose reasons are listed.
const MOST: usize = 6;
/// Greatest number of reasons for one alternative.
const MOST_REASONS: usize = 2;
/// Deepest nesting of alternatives whose reasons are listed.
const DEEPEST: u32 = 2;

/// The reason of a violation in words.
pub(super) fn reason(error: &ValidationError<'_>) -> String {
    reason_in(error, 0)
}

fn reason_in(error: &ValidationError<'_>, depth: u32) -> String {
    let alternatives = match error.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
            if depth < DEEPEST =>
        {
            context
        }
        _ => return error.to_string(),
    };
    let outer = error.instance_path().to_string();
    let mut text = format!("it fits none of {} alternatives", alternatives.len());
    for (number, wrong) in alternatives.iter().take(MOST).enumerate() {
        let reasons: Vec<String> = wrong
            .iter()
            .take(MOST_REASONS)
            .map(|inner| {
                let place = inner.instance_path().to_string();
                match place.strip_prefix(&*outer).filter(|below| !below.is_empty()) {
                    Some(below) => format!("{below}: {}", reason_in(inner, depth + 1)),
                    None => reason_in(inner, depth + 1),
                }
            })
            .collect();
        let before = if number == 0 { " (" } else { "; " };
        // Writing to a `String` does not fail.
        let _ = write!(text, "{before}{}: {}", number + 1, reasons.join(", "));
    }
    if alternatives.len() > MOST {
        text.push_str("; …");
    }
    text.push(')');
    text
}

#[cfg(test)]
mod tests {
    use crate::schema::Schema;
    use serde_json::json;

    fn reasons(schema: serde_json::Value, value: serde_json::Value) -> Vec<String> {
        let wrong = Schema::new(schema).unwrap().validate(&value).unwrap_err();
        wrong.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_failed_choice_says_why_for_each_alternative() {
        let contact = json!({
            "type": "object",
            "properties": {"who": {"oneOf": [
                {"$ref": "#/$defs/mail"},
                {"type": "object", "required": ["phone"], "properties": {"phone": {"type": "integer"}}},
            ]}},
            "$defs": {"mail": {"type": "object", "required": ["mail"], "properties": {"mail": {"type": "string"}}}},
        });
        assert_eq!(
            reasons(contact.clone(), json!({"who": {"phone": "12"}})),
            [
                "/who: it fits none of 2 alternatives (1: \"mail\" is a required property; 2: /phone: \"12\" is not of type \
              \"integer\")"
            ]
        );
        assert_eq!(
            reasons(json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), json!(3)),
            [r#"it fits none of 2 alternatives (1: 3 is not of type "string"; 2: 3 is not of type "null")"#]
        );
    }

    #[test]
    fn nested_and_numerous_alternatives_end() {
        let mut schema = json!({"type": "string"});
        for _ in 0..8 {
            schema = json!({ "anyOf": [schema, {"type": "null"}] });
        }
        let found = reasons(schema, json!(3)).concat();
        assert!(found.len() < 1000 && found.contains("anyOf"), "{found}");
        let many: Vec<_> = (0..40).map(|n| json!({ "const": n })).collect();
        let found = reasons(json!({ "anyOf": many }), json!("x")).concat();
        assert!(found.starts_with("it fits none of 40 alternatives") && found.ends_with("; …)"), "{found}");
    }
}
