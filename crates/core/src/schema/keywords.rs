//! Keywords that llm-do adds to JSON Schema, or checks where JSON Schema only describes
//! (`docs/reference/origins.md`).
//!
//! - `clean: true` on a string: one line of visible text.
//! - `untrusted: true` on a parameter: others wrote its values. It checks nothing.
//! - `format`: `date`, `time`, `date-time` and `uuid` are checked. The others stay descriptions.

use super::subschemas;
use jsonschema::{Keyword, ValidationError, ValidationOptions};
use regex::Regex;
use serde_json::Value;
use std::sync::{Arc, LazyLock};

/// The keyword for strings of one line of visible text.
pub const CLEAN: &str = "clean";
/// The keyword for parameters whose values others wrote.
pub const UNTRUSTED: &str = "untrusted";

/// Options for validators that know these keywords.
pub(super) fn options() -> ValidationOptions<'static> {
    jsonschema::draft202012::options()
        .with_keyword(CLEAN, |_, value, _| {
            let check = (value == &Value::Bool(true)).then_some(Check {
                pattern: &CLEAN_TEXT,
                wanted: "one line of visible text, without control, invisible or direction characters",
            });
            Ok(Box::new(Text(check)))
        })
        .with_keyword("format", |_, value, _| Ok(Box::new(Text(value.as_str().and_then(format)))))
}

/// Returns true if values are checked against this format.
pub(super) fn is_asserted(format_name: &str) -> bool {
    format(format_name).is_some()
}

/// A pattern that strings must match, and a description of it.
#[derive(Clone, Copy)]
struct Check {
    pattern: &'static LazyLock<Regex>,
    wanted: &'static str,
}

/// A text without characters that break lines, are invisible, or reorder others. The only white space is the space.
static CLEAN_TEXT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x)^[^
            \x00-\x1F \x7F-\x9F \x{2800} \x{FFF9}-\x{FFFC}
            \p{Default_Ignorable_Code_Point} \p{Bidi_Control} \p{Noncharacter_Code_Point}
            [\p{White_Space}--[\x20]]
        ]*$",
    )
    .expect("a constant pattern")
});

/// Returns true if a character may occur in [clean](CLEAN) text.
pub(super) fn is_visible(c: char) -> bool {
    CLEAN_TEXT.is_match(c.encode_utf8(&mut [0; 4]))
}

const DATE: &str = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])";
const TIME: &str =
    "([01][0-9]|2[0-3]):[0-5][0-9](:([0-5][0-9]|60)([.,][0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})?";

// Wider than RFC 3339: without seconds or offset, and with a space in the middle, as Python's `datetime` writes them.
static DATE_TEXT: LazyLock<Regex> = LazyLock::new(|| whole(DATE));
static TIME_TEXT: LazyLock<Regex> = LazyLock::new(|| whole(TIME));
static DATE_TIME_TEXT: LazyLock<Regex> = LazyLock::new(|| whole(&format!("{DATE}([Tt ]{TIME})?")));
static UUID_TEXT: LazyLock<Regex> =
    LazyLock::new(|| whole("[0-9A-Fa-f]{8}(-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}"));

fn whole(pattern: &str) -> Regex {
    Regex::new(&format!("^(?:{pattern})$")).expect("a constant pattern")
}

fn format(name: &str) -> Option<Check> {
    let (pattern, wanted) = match name {
        "date" => (&DATE_TEXT, "a date such as 2026-03-31"),
        "time" => (&TIME_TEXT, "a time such as 14:30:00"),
        "date-time" => (&DATE_TIME_TEXT, "a date and time such as 2026-03-31T14:30:00Z"),
        "uuid" => (&UUID_TEXT, "a UUID such as 6f1c1c1e-8f0b-4c39-9d43-0a3c7c1a2b4d"),
        _ => return None,
    };
    Some(Check { pattern, wanted })
}

/// A check of strings. Other values pass, as with the keywords of JSON Schema.
struct Text(Option<Check>);

impl<'i> Keyword<'i> for Text {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        match self.0 {
            Some(check) if !self.is_valid(instance) => {
                Err(ValidationError::custom(format!("{instance} is not {}", check.wanted)))
            }
            _ => Ok(()),
        }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        match (self.0, instance.as_str()) {
            (Some(check), Some(text)) => check.pattern.is_match(text),
            _ => true,
        }
    }
}

/// Returns a schema without the keywords that only llm-do knows, as models and other programs see it.
pub fn without_own(schema: &Arc<Value>) -> Arc<Value> {
    if !mentions_own(schema) {
        return Arc::clone(schema);
    }
    let mut without = (**schema).clone();
    for pointer in subschemas(schema) {
        if let Some(keywords) = without.pointer_mut(&pointer).and_then(Value::as_object_mut) {
            keywords.shift_remove(CLEAN);
            keywords.shift_remove(UNTRUSTED);
        }
    }
    Arc::new(without)
}

fn mentions_own(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            map.contains_key(CLEAN) || map.contains_key(UNTRUSTED) || map.values().any(mentions_own)
        }
        Value::Array(items) => items.iter().any(mentions_own),
        _ => false,
    }
}

/// A use of one of these keywords that would have no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{keyword}` at `{pointer}` {problem}")]
pub struct Misuse {
    /// The keyword.
    pub keyword: &'static str,
    /// The schema that has it, as a JSON Pointer from the root.
    pub pointer: String,
    /// The problem, as the end of a sentence.
    pub problem: &'static str,
}

/// The first use of llm-do's own keywords that would have no effect. `is_parameter` returns true if the schema at a
/// pointer is a parameter, where `untrusted` may be.
pub fn misuse(schema: &Value, is_parameter: impl Fn(&str) -> bool) -> Option<Misuse> {
    if !mentions_own(schema) {
        return None;
    }
    subschemas(schema).into_iter().find_map(|pointer| {
        let keywords = schema.pointer(&pointer)?.as_object()?;
        let clean = keywords.get(CLEAN).and_then(|value| match value {
            Value::Bool(false) => None,
            Value::Bool(true) if !takes_strings(keywords.get("type")) => {
                Some("is for strings, so it needs `type: string`")
            }
            Value::Bool(true) if !keywords.get("maxLength").is_some_and(Value::is_number) => {
                Some("needs a `maxLength` beside it: a long text has room for instructions")
            }
            Value::Bool(true) => None,
            _ => Some("is neither true nor false"),
        });
        let untrusted = keywords.get(UNTRUSTED).and_then(|value| match value {
            Value::Bool(_) if is_parameter(&pointer) => None,
            Value::Bool(_) => Some("has no effect here: it is for the parameters of a worker"),
            _ => Some("is neither true nor false"),
        });
        let (keyword, problem) =
            clean.map(|problem| (CLEAN, problem)).or(untrusted.map(|problem| (UNTRUSTED, problem)))?;
        Some(Misuse { keyword, pointer, problem })
    })
}

fn takes_strings(kind: Option<&Value>) -> bool {
    match kind {
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        Some(kind) => kind == "string",
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fits(schema: &Value, text: &str) -> bool {
        options().build(schema).unwrap().is_valid(&json!(text))
    }

    #[test]
    fn formats_hold_nothing_else() {
        for (format, good, bad) in [
            (
                "date",
                vec!["2026-03-31"],
                vec!["2026-13-01", "2026-03-31 send it", "31.3.2026", "2026-03-31\n"],
            ),
            ("time", vec!["14:30", "14:30:00.5Z", "00:00:00+02:00"], vec!["25:00", "14:30 pay", "14:30\n"]),
            (
                "date-time",
                vec!["2026-03-31T14:30:00Z", "2026-03-31 14:30", "2026-03-31"],
                vec!["today", "2026-03-31T14:30:00Zx", "2026-03-31T"],
            ),
            (
                "uuid",
                vec!["6f1c1c1e-8f0b-4c39-9d43-0a3c7c1a2b4d", "6f1c1c1e8f0b4c399d430a3c7c1a2b4d"],
                vec!["6f1c1c1e", "pay"],
            ),
        ] {
            let schema = json!({"type": "string", "format": format});
            for text in good {
                assert!(fits(&schema, text), "{format}: {text}");
            }
            for text in bad {
                assert!(!fits(&schema, text), "{format}: {text:?}");
            }
            assert!(fits(&json!({"items": schema}), "anything"), "{format}");
        }
        // An address is only described, as before.
        assert!(fits(&json!({"format": "email"}), "none"));
    }

    #[test]
    fn clean_text_is_one_line_of_visible_characters() {
        let schema = json!({"type": "string", "clean": true, "maxLength": 40});
        for text in ["", "Grüße, 水 & co. (1/2)", "a b"] {
            assert!(fits(&schema, text), "{text}");
        }
        for bad in [
            '\n',
            '\r',
            '\t',
            '\u{0}',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{9b}',
            '\u{a0}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{180e}',
            '\u{200b}',
            '\u{200d}',
            '\u{202e}',
            '\u{2028}',
            '\u{2029}',
            '\u{2066}',
            '\u{2800}',
            '\u{3000}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{fff9}',
            '\u{ffff}',
            '\u{e0041}',
        ] {
            assert!(!fits(&schema, &format!("a{bad}b")), "{}", bad.escape_unicode());
        }
        assert!(fits(&json!({"clean": false}), "a\nb"));
        let error = options().build(&schema).unwrap();
        let error = error.iter_errors(&json!("a\nb")).next().map(|error| error.to_string());
        assert!(error.unwrap().contains("is not one line of visible text"));
    }

    #[test]
    fn own_keywords_are_not_shown() {
        let schema = Arc::new(json!({
            "type": "object",
            "properties": {
                "clean": {"type": "string", "clean": true, "maxLength": 9, "untrusted": true},
                "untrusted": {"const": {"clean": true}},
            },
        }));
        assert_eq!(
            *without_own(&schema),
            json!({
                "type": "object",
                "properties": {
                    "clean": {"type": "string", "maxLength": 9},
                    "untrusted": {"const": {"clean": true}},
                },
            })
        );
        let plain = Arc::new(json!({"type": "string"}));
        assert!(Arc::ptr_eq(&without_own(&plain), &plain));
    }

    #[test]
    fn a_keyword_without_effect_is_found() {
        let problem = |schema: Value| {
            misuse(&schema, |at| at == "/properties/a").map(|misuse| (misuse.keyword, misuse.pointer))
        };
        let with = |property: Value| json!({"properties": {"a": property}});
        let at = "/properties/a".to_owned();
        assert_eq!(problem(with(json!({"type": "string", "clean": true}))), Some((CLEAN, at.clone())));
        assert_eq!(problem(with(json!({"clean": true, "maxLength": 9}))), Some((CLEAN, at.clone())));
        assert_eq!(problem(with(json!({"clean": "yes"}))), Some((CLEAN, at.clone())));
        assert_eq!(problem(with(json!({"untrusted": 1}))), Some((UNTRUSTED, at)));
        assert_eq!(problem(with(json!({"untrusted": true}))), None);
        assert_eq!(problem(with(json!({"type": "string", "clean": true, "maxLength": 9}))), None);
        let inner = with(json!({"items": {"untrusted": true}}));
        assert_eq!(problem(inner), Some((UNTRUSTED, "/properties/a/items".into())));
    }
}
