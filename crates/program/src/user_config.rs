//! The user's configuration, `config.yaml` in llm-do's home. See `docs/guides/models.md`.

use crate::{
    diagnostics::{Diagnostic, Diagnostics, codes},
    keys, limits,
    manifest::{self, Provider},
    shape::{self, Key, Shape},
    span::SourceFile,
    yaml::{self, Node},
};
use globset::Glob;
use llm_do_core::{
    gate::{Mode, Policy, ReadSet},
    model::{ModelName, Terms},
    price::{Above, Price, Usd},
    worker::GivenLimits,
};
use std::collections::BTreeMap;

const KEYS: &[Key] = &[
    Key::new(
        "model",
        Shape::Texts,
        "the model where neither worker nor project names one, or a list as in a worker",
    ),
    Key::new(
        "fallback",
        Shape::Texts,
        "models that stand in, in this order, where those of a worker are unavailable",
    ),
    Key::new("limits", Shape::Record(keys::LIMITS), "limits of all workers of all programs"),
    Key::new("providers", Shape::Map(&Shape::Record(keys::PROVIDER)), "model providers for all programs"),
    Key::new(
        "approval",
        Shape::Record(keys::PROJECT_APPROVAL),
        "rules for calls that no program has a rule for",
    ),
    Key::new("secrets", Shape::Texts, "environment variables whose values are secret: names or globs"),
    Key::new(
        "prices",
        Shape::Map(&Shape::Record(PRICE)),
        "what models cost, by `provider:model` or its beginning and `*`",
    ),
];

const PRICE: &[Key] = &[
    Key::new("input", DOLLARS, "US dollars for a million tokens that are sent").required(),
    Key::new("cached_input", DOLLARS, "of these, read from the provider's cache; as `input` if absent"),
    Key::new("cache_write", DOLLARS, "of these, written to the provider's cache; as `input` if absent"),
    Key::new("output", DOLLARS, "US dollars for a million tokens that are produced").required(),
    Key::new("server_use", DOLLARS, "US dollars for one use of a tool that the provider runs"),
    Key::new("above", Shape::Record(ABOVE), "the prices of a request that sends more tokens than `tokens`"),
    Key::new("max_output", Shape::Count(1), "most tokens of one answer"),
    Key::new("context", Shape::Count(1), "most tokens of one request"),
];

const ABOVE: &[Key] = &[
    Key::new("tokens", Shape::Count(1), "the prices hold for requests that send more tokens").required(),
    Key::new("input", DOLLARS, "as `input` of a shorter request").required(),
    Key::new("cached_input", DOLLARS, "as `cached_input` of a shorter request"),
    Key::new("cache_write", DOLLARS, "as `cache_write` of a shorter request"),
    Key::new("output", DOLLARS, "as `output` of a shorter request").required(),
];

const DOLLARS: Shape = Shape::Number(0.0, 1e6);

/// The user's settings for all programs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserConfig {
    /// The models that are used if neither a worker, nor the environment, nor a project names one.
    pub models: Vec<ModelName>,
    /// The models that stand in for those of every worker.
    pub fallback: Vec<ModelName>,
    /// Limits of all workers.
    pub limits: GivenLimits,
    /// Providers. A provider of the same name in a manifest takes precedence.
    pub providers: BTreeMap<String, Provider>,
    /// The mode that is used if the command line gives none.
    pub mode: Option<Mode>,
    /// The rules of `approval`.
    pub approval: Policy,
    /// Environment variables whose values are secret: names, or globs of names.
    pub secrets: Vec<String>,
    /// Prices of models by `provider:model`, or a prefix and `*`, in the order of the file.
    pub prices: Vec<(String, Terms)>,
}

impl UserConfig {
    /// Reads the file's text; `path` names it in errors. `read` reads the files that sets of its rules name.
    ///
    /// # Errors
    /// All problems, in reading order.
    pub fn parse(path: &str, text: &str, read: ReadSet<'_>) -> Result<Self, Diagnostics> {
        let file = SourceFile::new(path, text);
        let whole = yaml::parse(&file, text.len()).map_err(|error| Diagnostics(vec![*error]))?;
        let mut found = Vec::new();
        if !matches!(whole.data, yaml::Data::Map(_) | yaml::Data::Null) {
            found.push(shape::wrong_type(&whole, "config.yaml", "a map of keys"));
        }
        let keys = shape::check(&whole, KEYS, "", &mut found);
        let mut models = |key: &str| -> Vec<ModelName> {
            let nodes = keys.get(key).map(Node::each).unwrap_or_default().iter();
            let parsed = nodes.filter_map(|node| {
                let parsed = node.as_text()?.parse();
                parsed
                    .map_err(|error: llm_do_core::model::BadModelName| {
                        found.push(Diagnostic::error(codes::BAD_VALUE, error.to_string()).at(&node.span));
                    })
                    .ok()
            });
            parsed.collect()
        };
        let (models, fallback) = (models("model"), models("fallback"));
        let mut secrets = Vec::new();
        for (name, span) in keys.get("secrets").into_iter().flat_map(Node::texts) {
            match Glob::new(name) {
                Ok(_) => secrets.push(name.to_owned()),
                Err(error) => {
                    let message = format!("`{name}` is not a glob: {}", error.kind());
                    found.push(Diagnostic::error(codes::BAD_GLOB, message).at(span));
                }
            }
        }
        let limits = keys.get("limits").map(limits::given).unwrap_or_default();
        let providers = keys.get("providers").map(Node::entries).unwrap_or_default().iter();
        let providers = providers
            .filter_map(|entry| Some((entry.key.clone(), manifest::provider(entry, &mut found)?)))
            .collect();
        let (mode, approval, _) = match keys.get("approval") {
            Some(node) => manifest::project_approval(node, read, &mut found),
            None => Default::default(),
        };
        let prices = keys.get("prices").map(Node::entries).unwrap_or_default().iter();
        let prices = prices.filter_map(|entry| Some((entry.key.clone(), terms(&entry.value)?))).collect();
        match found.is_empty() {
            true => Ok(Self { models, fallback, limits, providers, mode, approval, secrets, prices }),
            false => Err(Diagnostics(found)),
        }
    }
}

/// Reads an entry of `prices`, whose shape is checked.
fn terms(node: &Node) -> Option<Terms> {
    let dollars = |node: &Node, key: &str| Usd::dollars(node.get(key)?.as_number()?);
    let above = |node: &Node| {
        Some(Above {
            tokens: node.get("tokens")?.as_count()?,
            input: dollars(node, "input")?,
            cached_input: dollars(node, "cached_input"),
            cache_write: dollars(node, "cache_write"),
            output: dollars(node, "output")?,
        })
    };
    let price = Price {
        input: dollars(node, "input")?,
        cached_input: dollars(node, "cached_input"),
        cache_write: dollars(node, "cache_write"),
        output: dollars(node, "output")?,
        server_use: dollars(node, "server_use"),
        above: node.get("above").and_then(above),
    };
    let max_output =
        node.get("max_output").and_then(Node::as_count).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let context = node.get("context").and_then(Node::as_count);
    Some(Terms { price: Some(price), max_output, context })
}

#[cfg(test)]
mod tests {
    use super::*;
    use llm_do_core::gate::FileSet;
    use serde_json::Value;

    /// Finds no file of a set, and returns an error.
    fn none(set: &FileSet) -> Result<Vec<Value>, String> {
        Err(format!("there is no file `{}`", set.file))
    }

    #[test]
    fn names_a_model_or_nothing() {
        let config = UserConfig::parse("config.yaml", "model: openai:gpt-5-mini\n", &none).unwrap();
        assert_eq!(config.models[0].as_str(), "openai:gpt-5-mini");
        assert_eq!(UserConfig::parse("config.yaml", "", &none), Ok(UserConfig::default()));
    }

    #[test]
    fn gives_prices_in_the_order_of_the_file() {
        let text = "prices:\n  'openai:gpt-9': {input: 1.5, output: 6, cached_input: 0.15, max_output: 9000, above: {tokens: 1000, input: 3, output: 12}}\n  'openai:*': {input: 2, output: 8}\n";
        let prices = UserConfig::parse("config.yaml", text, &none).unwrap().prices;
        let keys: Vec<&str> = prices.iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, ["openai:gpt-9", "openai:*"]);
        let first = prices[0].1;
        assert_eq!(first.max_output, Some(9000));
        assert_eq!(first.price.unwrap().cached_input, Usd::dollars(0.15));
        let above = first.price.unwrap().above.unwrap();
        assert_eq!((above.tokens, above.output), (1000, Usd::dollars(12.0).unwrap()));
    }

    #[test]
    fn what_has_no_effect_is_an_error() {
        for text in [
            "prices: {a: {input: 1}}\n",
            "prices: {a: {input: -1, output: 1}}\n",
            "prices: {a: 1}\n",
            "prices: {a: {input: 1, output: 1, above: {tokens: 1000, input: 2}}}\n",
            "modle: a:b\n",
            "providers: {local: {base_url: 'https://gateway.example.org'}}\n",
            "model: nothing\n",
            "- a\n",
            "model: [a]\n",
        ] {
            assert!(UserConfig::parse("config.yaml", text, &none).is_err(), "{text}");
        }
    }
}
