//! Prices of models: the table in `prices.json`, and the user's overrides.
//!
//! `scripts/prices` writes the table from the package `genai-prices`, which reads the providers' own pages. A model
//! whose price depends on the time of the day is not in it: no price is better than a wrong one.

use crate::known::KnownProvider;
use jiff::{Timestamp, tz::TimeZone};
use llm_do_core::{
    model::{ModelName, Terms, provider_name},
    price::{Above, Price, Usd},
};
use serde::Deserialize;
use std::time::SystemTime;

/// The table, with one model a line, sorted by name.
const TABLE: &str = include_str!("../prices.json");

/// The prices of a line of the table, from a day on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rates {
    /// The day, as `2027-01-01`; absent for the prices that hold already.
    #[serde(default)]
    from: String,
    input: Usd,
    cached_input: Option<Usd>,
    cache_write: Option<Usd>,
    output: Usd,
    server_use: Option<Usd>,
    above: Option<Above>,
}

/// A line of the table.
#[derive(Clone, Debug, Deserialize)]
struct PriceRow {
    input: Usd,
    cached_input: Option<Usd>,
    cache_write: Option<Usd>,
    output: Usd,
    server_use: Option<Usd>,
    above: Option<Above>,
    max_output: Option<u32>,
    context: Option<u64>,
    /// Prices that the provider has announced, in the order of their days.
    #[serde(default)]
    later: Vec<Rates>,
}

impl PriceRow {
    /// Returns the terms on a day, as `2027-01-01`.
    fn on(&self, day: impl FnOnce() -> String) -> Terms {
        let mut price = Price {
            input: self.input,
            cached_input: self.cached_input,
            cache_write: self.cache_write,
            output: self.output,
            server_use: self.server_use,
            above: self.above,
        };
        if !self.later.is_empty() {
            let day = day();
            if let Some(rates) = self.later.iter().rev().find(|rates| rates.from <= day) {
                price = Price {
                    input: rates.input,
                    cached_input: rates.cached_input,
                    cache_write: rates.cache_write,
                    output: rates.output,
                    server_use: rates.server_use,
                    above: rates.above,
                };
            }
        }
        Terms { price: Some(price), max_output: self.max_output, context: self.context }
    }
}

/// Returns the text of the entry for a name. The table is searched and not parsed: a run needs one line of a thousand.
fn entry(name: &str) -> Option<&'static str> {
    let start = format!("\n    {}: {{", serde_json::Value::from(name));
    let rest = &TABLE[TABLE.find(&start)? + start.len() - 1..];
    rest.lines().next().map(|line| line.trim_end_matches(','))
}

fn line(name: &str) -> Option<PriceRow> {
    serde_json::from_str(entry(name)?).ok()
}

/// Returns the day in UTC.
fn day_of(now: SystemTime) -> String {
    Timestamp::try_from(now).unwrap_or_default().to_zoned(TimeZone::UTC).date().to_string()
}

/// Returns the table's entry for a model. Dated snapshots (`-20251001`, `-2026-04-14`) and `-latest` have the price of
/// their model, and both interfaces of a provider have the same price.
pub(crate) fn listed(name: &ModelName, now: SystemTime) -> Terms {
    let provider = KnownProvider::named(name.provider()).map_or(name.provider(), |known| match known.name {
        "openai_resp" => "openai",
        name => name,
    });
    let exact = |model: &str| line(&format!("{provider}:{model}"));
    let found = exact(name.model()).or_else(|| exact(undated(name.model()))).or_else(|| exact("*"));
    found.map_or_else(Terms::default, |line| line.on(|| day_of(now)))
}

/// The list of prices that is built into this program.
#[derive(Clone, Debug)]
pub struct PriceList {
    /// The package from which the figures come, with its version.
    pub package: String,
    /// The day on which they were taken, as `2026-11-27`.
    pub read: String,
    /// The models by name, in alphabetical order. `local:*` stands for all models of that provider.
    pub models: Vec<(String, Terms)>,
}

impl PriceList {
    /// Reads the built-in list. Prices that change on a day that a provider has announced are those of today.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn built_in() -> Self {
        #[derive(Deserialize)]
        struct From {
            package: String,
            read: String,
        }
        #[derive(Deserialize)]
        struct File {
            from: From,
            models: std::collections::BTreeMap<String, PriceRow>,
        }
        let File { from, models } = serde_json::from_str(TABLE).expect("a test has read the table");
        let day = day_of(SystemTime::now());
        let models = models.into_iter().map(|(name, line)| (name, line.on(|| day.clone()))).collect();
        Self { package: from.package, read: from.read, models }
    }
}

/// Returns the name without the date of a snapshot.
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

/// Returns true if a key of the user's `prices` names a model: exactly, or by its beginning (`openai:gpt-5*`).
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
        Some(listed(&name.parse().unwrap(), SystemTime::now()).price?.input.as_dollars())
    }

    #[test]
    fn every_price_can_be_found_has_a_source_and_is_plausible() {
        let file: Value = serde_json::from_str(TABLE).unwrap();
        let list = PriceList::built_in();
        assert!(list.models.len() > 300 && list.package.contains("==") && list.read.starts_with("20"));
        for (name, terms) in &list.models {
            let (provider, _) = name.split_once(':').unwrap();
            assert!(provider == "local" || file["sources"][provider].is_array(), "{name}");
            assert!(KnownProvider::named(provider).is_some() || provider == "local", "{name}");
            assert_eq!(
                line(name).unwrap().on(|| day_of(SystemTime::now())),
                *terms,
                "{name} is found in the text"
            );
            let price = terms.price.unwrap();
            assert!(price.cached_input.is_none_or(|cached| cached <= price.input), "{name}");
            assert!(price.above.is_none_or(|above| above.tokens > 0), "{name}");
        }
        let mut names: Vec<&String> = list.models.iter().map(|(name, _)| name).collect();
        names.dedup();
        assert_eq!(names.len(), list.models.len());
    }

    #[test]
    fn an_announced_price_holds_from_its_day_on() {
        let line: PriceRow = serde_json::from_str(
            r#"{"input": 1, "output": 2, "context": 9, "later": [{"from": "2027-01-01", "input": 3, "output": 4}]}"#,
        )
        .unwrap();
        let input = |day: &str| line.on(|| day.into()).price.unwrap().input.as_dollars();
        assert_eq!([input("2026-12-31"), input("2027-01-01"), input("2028-05-05")], [1.0, 3.0, 3.0]);
        assert_eq!(line.on(|| "2027-01-01".into()).context, Some(9));
    }

    #[test]
    fn usual_models_of_all_providers_are_listed() {
        for name in [
            "openai:gpt-4o-mini",
            "openai:gpt-5-mini",
            "anthropic:claude-haiku-4-5",
            "gemini:gemini-2.5-flash",
            "gemini:gemini-2.5-pro",
            "xai:grok-4",
            "mistral:mistral-large-latest",
            "groq:llama-3.3-70b-versatile",
            "openrouter:anthropic/claude-haiku-4.5",
            "cohere:command-r-plus",
        ] {
            assert!(input(name).is_some(), "{name}");
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
            "openrouter:anthropic/claude-haiku-9",
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
