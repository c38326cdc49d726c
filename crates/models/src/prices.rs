//! Prices of models: the table in `prices.json`, and the user's overrides.
//!
//! The table holds list prices with their date and source. A model whose price depends on the length of its prompt,
//! or on the day, is not in it: no price is better than a wrong one.

use crate::known::Known;
use llm_do_core::{
    model::{ModelName, Terms, provider_name},
    price::{Price, Usd},
};
use serde::Deserialize;
use std::{collections::BTreeMap, sync::LazyLock};

/// One line of the table, or of the user's `prices`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line(Terms);

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            #[serde(default)]
            #[allow(dead_code, reason = "for people who look at the table")]
            read: String,
            input: Usd,
            cached_input: Option<Usd>,
            cache_write: Option<Usd>,
            output: Usd,
            server_use: Option<Usd>,
            max_output: Option<u32>,
            context: Option<u64>,
        }
        let Written { input, cached_input, cache_write, output, server_use, max_output, context, .. } =
            Written::deserialize(input)?;
        let price = Some(Price { input, cached_input, cache_write, output, server_use });
        Ok(Self(Terms { price, max_output, context }))
    }
}

static TABLE: LazyLock<BTreeMap<String, Line>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct File {
        models: BTreeMap<String, Line>,
    }
    let file: File = serde_json::from_str(include_str!("../prices.json")).expect("a test has read the table");
    file.models
});

/// The table's entry for a model. Dated snapshots (`-20251001`, `-2026-04-14`) and `-latest` have the price of their
/// model, and both interfaces of a provider have the same price.
pub(crate) fn listed(name: &ModelName) -> Terms {
    let provider = Known::named(name.provider()).map_or(name.provider(), |known| match known.name {
        "openai_resp" => "openai",
        name => name,
    });
    let exact = |model: &str| TABLE.get(&format!("{provider}:{model}"));
    let found = exact(name.model()).or_else(|| exact(undated(name.model()))).or_else(|| exact("*"));
    found.map_or_else(Terms::default, |line| line.0)
}

/// The name without the date of a snapshot.
fn undated(model: &str) -> &str {
    let rest = model.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    let date = &model[rest.len()..];
    let digits = date.bytes().filter(u8::is_ascii_digit).count();
    match model.strip_suffix("-latest") {
        Some(model) => model,
        // `claude-haiku-4-5-20251001`: the version's own digits stay.
        None if digits >= 8 => {
            let day = date.rfind("-20").unwrap_or(0);
            &model[..rest.len() + day]
        }
        None => model,
    }
}

/// Whether a key of the user's `prices` names a model: exactly, or by its beginning (`openai:gpt-5*`).
pub(crate) fn names(key: &str, name: &ModelName) -> bool {
    let canonical = |text: &str| match text.split_once(':') {
        Some((provider, model)) => format!("{}:{model}", provider_name(provider)),
        None => text.to_owned(),
    };
    let name = canonical(name.as_str());
    match key.strip_suffix('*') {
        Some(beginning) => name.starts_with(&canonical(beginning)),
        None => canonical(key) == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn input(name: &str) -> Option<f64> {
        Some(listed(&name.parse().unwrap()).price?.input.as_dollars())
    }

    #[test]
    fn every_price_has_a_day_and_a_source() {
        let file: Value = serde_json::from_str(include_str!("../prices.json")).unwrap();
        let is_day = |day: &str| day.len() == 10 && day.starts_with("20") && day.as_bytes()[7] == b'-';
        for (name, line) in file["models"].as_object().unwrap() {
            let (provider, _) = name.split_once(':').unwrap();
            assert!(line["read"].as_str().is_some_and(is_day), "{name}");
            assert!(file["sources"][provider].is_array(), "{name}");
        }
        for Line(Terms { price, .. }) in TABLE.values() {
            let price = price.unwrap();
            assert!(price.cached_input.is_none_or(|cached| cached <= price.input));
            assert!(price.cache_write.is_none_or(|write| write >= price.input));
            assert!(price.output >= price.input);
        }
    }

    #[test]
    fn snapshots_and_other_interfaces_cost_the_same_and_others_are_unknown() {
        assert_eq!(input("anthropic:claude-haiku-4-5"), Some(1.0));
        assert_eq!(input("claude:claude-haiku-4-5-20251001"), Some(1.0));
        assert_eq!(input("openai_resp:gpt-5-mini-2025-08-07"), Some(0.25));
        assert_eq!(input("local:smollm2-135m-instruct"), Some(0.0));
        for unknown in [
            "openai:gpt-9",
            "openrouter:anthropic/claude-haiku-4-5",
            "anthropic:claude-haiku-4-5-fast",
            "script:a.yaml",
        ] {
            assert_eq!(input(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_date_is_told_from_a_version() {
        for (model, expected) in [
            ("gpt-5.4-mini-2026-03-17", "gpt-5.4-mini"),
            ("claude-opus-4-5-20251101", "claude-opus-4-5"),
            ("claude-opus-4-5", "claude-opus-4-5"),
            ("gemini-2.5-flash-latest", "gemini-2.5-flash"),
            ("20251101", ""),
        ] {
            assert_eq!(undated(model), expected);
        }
    }

    #[test]
    fn a_key_names_a_model_or_a_beginning() {
        let name: ModelName = "openai:gpt-5-mini".parse().unwrap();
        assert!(names("openai:gpt-5-mini", &name) && names("openai:gpt-5*", &name));
        assert!(!names("openai:gpt-5", &name) && !names("gpt-5*", &name));
        assert!(names("google:gemini-3*", &"gemini:gemini-3-flash".parse().unwrap()));
    }
}
