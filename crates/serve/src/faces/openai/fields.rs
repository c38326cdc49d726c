//! The fields of OpenAI's requests. A field whose effect a worker can't have is refused by its name, unless its value asks for no
//! effect.

use super::error::Wrong;
use serde_json::{Map, Value};

/// What becomes of a field.
#[derive(Clone, Copy)]
pub(super) enum Field {
    /// It has its effect.
    Used,
    /// It asks for nothing that a client would miss.
    Ignored,
    /// Only a value that asks for no effect is accepted. The reason says what to do.
    Refused { unless: fn(&Value) -> bool, why: &'static str },
}
use Field::{Ignored, Refused, Used};

const MODEL: &str = "the model and its settings are the worker's: leave the field out";
const TOOLS: &str = "the tools of a worker are its own: leave the field out";
const LIMIT: &str = "limits of the server and the worker hold: leave the field out";

const fn never(why: &'static str) -> Field {
    Refused { unless: |_| false, why }
}
const fn is_one(why: &'static str) -> Field {
    Refused { unless: |value| value.as_f64() == Some(1.0), why }
}
const fn is_zero(why: &'static str) -> Field {
    Refused { unless: |value| value.as_f64() == Some(0.0), why }
}
const fn is_false(why: &'static str) -> Field {
    Refused { unless: |value| *value == Value::Bool(false), why }
}
const fn is_empty(why: &'static str) -> Field {
    Refused {
        unless: |value| {
            value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
        },
        why,
    }
}

const CHOICE: Field = Refused { unless: |value| matches!(value.as_str(), Some("auto" | "none")), why: TOOLS };
const TIER: Field =
    Refused { unless: |value| matches!(value.as_str(), Some("auto" | "default")), why: MODEL };

/// Those of `POST /v1/chat/completions`.
pub(super) const CHAT: &[(&str, Field)] = &[
    ("model", Used),
    ("messages", Used),
    ("stream", Used),
    ("stream_options", Used),
    ("response_format", Used),
    ("metadata", Ignored),
    ("user", Ignored),
    ("safety_identifier", Ignored),
    ("prompt_cache_key", Ignored),
    ("prompt_cache_options", Ignored),
    ("prompt_cache_retention", Ignored),
    ("parallel_tool_calls", Ignored),
    ("store", is_false("completions are not stored for later requests: leave it out, or send false")),
    ("n", is_one("a request starts one run")),
    ("service_tier", TIER),
    ("tools", is_empty(TOOLS)),
    ("tool_choice", CHOICE),
    ("functions", is_empty(TOOLS)),
    ("function_call", CHOICE),
    ("web_search_options", never(TOOLS)),
    ("temperature", is_one(MODEL)),
    ("top_p", is_one(MODEL)),
    ("frequency_penalty", is_zero(MODEL)),
    ("presence_penalty", is_zero(MODEL)),
    ("logit_bias", is_empty(MODEL)),
    ("logprobs", is_false(MODEL)),
    ("top_logprobs", is_zero(MODEL)),
    ("seed", never(MODEL)),
    ("stop", is_empty(MODEL)),
    ("reasoning_effort", never(MODEL)),
    ("verbosity", never(MODEL)),
    ("prediction", never(MODEL)),
    ("moderation", never(MODEL)),
    (
        "modalities",
        Refused { unless: |value| *value == serde_json::json!(["text"]), why: "answers are text" },
    ),
    ("audio", never("answers are text")),
    ("max_tokens", never(LIMIT)),
    ("max_completion_tokens", never(LIMIT)),
];

/// Those of `POST /v1/responses`.
pub(super) const RESPONSES: &[(&str, Field)] = &[
    ("model", Used),
    ("input", Used),
    ("instructions", Used),
    ("previous_response_id", Used),
    ("background", Used),
    ("stream", Used),
    ("text", Used),
    ("metadata", Used),
    ("stream_options", Ignored),
    ("include", Ignored),
    ("store", Ignored),
    ("user", Ignored),
    ("safety_identifier", Ignored),
    ("prompt_cache_key", Ignored),
    ("prompt_cache_options", Ignored),
    ("prompt_cache_retention", Ignored),
    ("parallel_tool_calls", Ignored),
    ("service_tier", TIER),
    (
        "truncation",
        Refused { unless: |value| value == "disabled", why: "the worker keeps its context: leave it out" },
    ),
    ("tools", is_empty(TOOLS)),
    ("tool_choice", CHOICE),
    ("max_tool_calls", never(LIMIT)),
    ("max_output_tokens", never(LIMIT)),
    ("temperature", is_one(MODEL)),
    ("top_p", is_one(MODEL)),
    ("top_logprobs", is_zero(MODEL)),
    ("reasoning", is_empty(MODEL)),
    ("image", never(MODEL)),
    ("moderation", never(MODEL)),
    ("access_programs", never(MODEL)),
    ("prompt", never("there are no stored prompts: the worker has its instructions")),
    ("conversation", never("use previous_response_id")),
    ("context_management", never("the worker keeps its context: leave it out")),
    ("background_options", never("runs have no completion window: leave it out")),
];

/// Finds the first field that can't be taken. A field without a value counts as left out.
pub(super) fn check(given: &Map<String, Value>, known: &[(&str, Field)]) -> Result<(), Wrong> {
    for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        match known.iter().find(|(known, _)| known == name) {
            Some((_, Used | Ignored)) => {}
            Some((_, Refused { unless, .. })) if unless(value) => {}
            Some((_, Refused { why, .. })) => {
                return Err(Wrong::field(name, why).named("unsupported_parameter"));
            }
            None => {
                let shown: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
                return Err(Wrong::field(shown, "there is no such field").named("unknown_parameter"));
            }
        }
    }
    Ok(())
}

/// A field that is a truth value.
pub(super) fn flag(given: &Map<String, Value>, name: &str) -> Result<bool, Wrong> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(Wrong::field(name, "must be true or false")),
    }
}

/// A field that is a text.
pub(super) fn text<'a>(given: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, Wrong> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Wrong::field(name, "must be a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(fields: Value, known: &[(&str, Field)]) -> Option<String> {
        let Value::Object(fields) = fields else { panic!("an object") };
        check(&fields, known)
            .err()
            .map(|wrong| wrong.body()["error"]["param"].as_str().unwrap_or("").to_owned())
    }

    #[test]
    fn a_field_is_refused_by_its_name_unless_it_asks_for_nothing() {
        for (fields, refused) in [
            (json!({"n": 1, "temperature": 1.0, "stop": null, "tools": [], "user": "ada"}), None),
            (json!({"n": 2}), Some("n")),
            (json!({"temperature": 0.2}), Some("temperature")),
            (json!({"tools": [{"type": "function"}]}), Some("tools")),
            (json!({"store": true}), Some("store")),
            (json!({"store": false}), None),
            (json!({"seed": 7}), Some("seed")),
            (json!({"colour": "red"}), Some("colour")),
        ] {
            assert_eq!(wrong(fields.clone(), CHAT).as_deref(), refused, "{fields}");
        }
        assert_eq!(wrong(json!({"conversation": "c"}), RESPONSES).as_deref(), Some("conversation"));
    }

    #[test]
    fn the_page_lists_every_field() {
        let page = include_str!("../../../../../docs/reference/openai.md");
        for (heading, known) in
            [("### Fields of Chat Completions", CHAT), ("### Fields of Responses", RESPONSES)]
        {
            let (_, section) = page.split_once(heading).expect(heading);
            let section = section.split("\n#").next().unwrap_or_default();
            for (name, _) in known {
                assert!(section.contains(&format!("`{name}`")), "{heading}: {name}");
            }
        }
    }
}
