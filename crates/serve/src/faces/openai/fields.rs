//! The fields of OpenAI's requests. A field whose effect a worker can't have is refused by its name, unless its value asks for no
//! effect.

use super::error::Wrong;
use crate::token::{ModelSettings, Token};
use axum::{http::HeaderValue, response::Response};
use serde_json::{Map, Value};

/// The treatment of a field.
#[derive(Clone, Copy)]
pub(super) enum Field {
    /// The field has its effect.
    Used,
    /// The field is ignored, because it asks for nothing that a client would miss.
    Ignored,
    /// Only a value that asks for no effect is accepted. The reason says what to do.
    Refused { unless: fn(&Value) -> bool, why: &'static str },
    /// A setting that the worker fixes. It is refused as above, unless the token ignores such settings.
    Setting { unless: fn(&Value) -> bool },
}
use Field::{Ignored, Refused, Setting, Used};

/// The header that names the ignored settings of a request.
const IGNORED: &str = "llm-do-ignored";
/// The reason why a setting is refused.
const SETTING: &str =
    "the worker fixes its settings: leave the field out, or set `model_settings: ignore` in serve.yaml";

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
    Refused { unless: empty, why }
}

const CHOICE: Field = Refused { unless: |value| matches!(value.as_str(), Some("auto" | "none")), why: TOOLS };
const TIER: Field = Setting { unless: |value| matches!(value.as_str(), Some("auto" | "default")) };
const ONE: Field = Setting { unless: |value| value.as_f64() == Some(1.0) };
const ZERO: Field = Setting { unless: |value| value.as_f64() == Some(0.0) };
const EMPTY: Field = Setting { unless: empty };
const ANY: Field = Setting { unless: |_| false };

fn empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

/// The fields of `POST /v1/chat/completions`.
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
    ("tools", Used),
    ("tool_choice", Used),
    ("functions", is_empty(TOOLS)),
    ("function_call", CHOICE),
    ("web_search_options", never(TOOLS)),
    ("temperature", ONE),
    ("top_p", ONE),
    ("frequency_penalty", ZERO),
    ("presence_penalty", ZERO),
    ("logit_bias", EMPTY),
    ("logprobs", is_false(MODEL)),
    ("top_logprobs", is_zero(MODEL)),
    ("seed", ANY),
    ("stop", EMPTY),
    ("reasoning_effort", ANY),
    ("verbosity", ANY),
    ("prediction", never(MODEL)),
    ("moderation", never(MODEL)),
    (
        "modalities",
        Refused { unless: |value| *value == serde_json::json!(["text"]), why: "answers are text" },
    ),
    ("audio", never("answers are text")),
    ("max_tokens", ANY),
    ("max_completion_tokens", ANY),
];

/// The fields of `POST /v1/responses`.
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
    ("tools", Used),
    ("tool_choice", Used),
    ("max_tool_calls", never(LIMIT)),
    ("max_output_tokens", ANY),
    ("temperature", ONE),
    ("top_p", ONE),
    ("top_logprobs", is_zero(MODEL)),
    ("reasoning", EMPTY),
    ("image", never(MODEL)),
    ("moderation", never(MODEL)),
    ("access_programs", never(MODEL)),
    ("prompt", never("there are no stored prompts: the worker has its instructions")),
    ("conversation", never("use previous_response_id")),
    ("context_management", never("the worker keeps its context: leave it out")),
    ("background_options", never("runs have no completion window: leave it out")),
];

/// The settings of a request that have no effect, because its token ignores them.
#[derive(Debug, Default, PartialEq)]
pub(super) struct IgnoredSettings(Vec<&'static str>);

impl IgnoredSettings {
    /// Refuses the setting, or adds it to the list.
    pub(super) fn take(&mut self, name: &'static str, token: &Token) -> Result<(), Wrong> {
        match token.model_settings() {
            ModelSettings::Ignore => {
                self.0.push(name);
                Ok(())
            }
            ModelSettings::Refuse => Err(Wrong::field(name, SETTING).named("unsupported_parameter")),
        }
    }

    /// Names the ignored settings in a header of the response.
    pub(super) fn told(&self, mut response: Response) -> Response {
        let mut names = self.0.clone();
        names.sort_unstable();
        if !names.is_empty()
            && let Ok(names) = HeaderValue::try_from(names.join(", "))
        {
            response.headers_mut().insert(IGNORED, names);
        }
        response
    }
}

/// Refuses the first field that can't be used. A field without a value counts as left out.
pub(super) fn check(
    given: &Map<String, Value>,
    known: &[(&'static str, Field)],
    token: &Token,
) -> Result<IgnoredSettings, Wrong> {
    let mut ignored = IgnoredSettings::default();
    for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        let Some((name, field)) = known.iter().find(|(known, _)| known == name) else {
            let shown: String = name.chars().filter(|c| !c.is_control()).take(60).collect();
            return Err(Wrong::field(shown, "there is no such field").named("unknown_parameter"));
        };
        match field {
            Used | Ignored => {}
            Refused { unless, .. } | Setting { unless } if unless(value) => {}
            Refused { why, .. } => {
                return Err(Wrong::field(*name, why).named("unsupported_parameter"));
            }
            Setting { .. } => ignored.take(name, token)?,
        }
    }
    Ok(ignored)
}

/// Returns the value of a boolean field.
pub(super) fn flag(given: &Map<String, Value>, name: &str) -> Result<bool, Wrong> {
    match given.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(Wrong::field(name, "must be true or false")),
    }
}

/// Returns the value of a text field.
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

    fn checked(
        fields: Value,
        known: &[(&'static str, Field)],
        settings: ModelSettings,
    ) -> Result<IgnoredSettings, Wrong> {
        let Value::Object(fields) = fields else { panic!("an object") };
        check(&fields, known, &Token::of_owner().with_model_settings(settings))
    }

    fn wrong(fields: Value, known: &[(&'static str, Field)]) -> Option<String> {
        checked(fields, known, ModelSettings::Refuse)
            .err()
            .map(|wrong| wrong.body()["error"]["param"].as_str().unwrap_or("").to_owned())
    }

    #[test]
    fn a_field_is_refused_by_its_name_unless_it_asks_for_nothing() {
        for (fields, refused) in [
            (json!({"n": 1, "temperature": 1.0, "stop": null, "tools": [], "user": "ada"}), None),
            (json!({"n": 2}), Some("n")),
            (json!({"temperature": 0.2}), Some("temperature")),
            (json!({"max_tokens": 100}), Some("max_tokens")),
            (json!({"functions": [{"name": "f"}]}), Some("functions")),
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
    fn token_that_ignores_settings_is_told_which_and_other_fields_stay_errors() {
        let ignored = |fields: Value, known: &[(&'static str, Field)]| {
            checked(fields, known, ModelSettings::Ignore).map(|ignored| {
                let told = ignored.told(Response::default());
                told.headers()[IGNORED].to_str().expect("a text").to_owned()
            })
        };
        let sent = json!({"temperature": 0.2, "top_p": 1, "max_tokens": 10, "seed": null, "stop": ["a"]});
        assert_eq!(ignored(sent, CHAT).expect("taken"), "max_tokens, stop, temperature");
        let sent = json!({"max_output_tokens": 9, "reasoning": {"effort": "low"}});
        assert_eq!(ignored(sent, RESPONSES).expect("taken"), "max_output_tokens, reasoning");
        for other in [json!({"n": 2}), json!({"logprobs": true}), json!({"colour": 1})] {
            assert!(ignored(other.clone(), CHAT).is_err(), "{other}");
        }
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
