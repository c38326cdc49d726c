//! The user's own configuration, `config.yaml` in llm-do's home (SPEC §3, precedence).

use crate::{
    diagnostics::{Diagnostic, Diagnostics, codes},
    shape::{self, Key, Shape},
    span::SourceFile,
    yaml::{self, Node},
};
use globset::Glob;
use llm_do_core::model::ModelName;

const KEYS: &[Key] = &[
    Key::new("model", Shape::Text, "the model where neither worker nor project names one"),
    Key::new("secrets", Shape::Texts, "environment variables whose values are secret: names or globs"),
];

/// What a user sets for all programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserConfig {
    /// The model where neither a worker, nor the environment, nor a project names one.
    pub model: Option<ModelName>,
    /// Environment variables whose values are secret, whatever they are called: names, or globs of names.
    pub secrets: Vec<String>,
}

impl UserConfig {
    /// Reads the file's text; `path` names it in errors.
    ///
    /// # Errors
    /// Everything that is wrong with it, in reading order.
    pub fn parse(path: &str, text: &str) -> Result<Self, Diagnostics> {
        let file = SourceFile::new(path, text);
        let whole = yaml::parse(&file, text.len()).map_err(|error| Diagnostics(vec![*error]))?;
        let mut found = Vec::new();
        if !matches!(whole.data, yaml::Data::Map(_) | yaml::Data::Null) {
            found.push(shape::wrong_type(&whole, "config.yaml", "a map of keys"));
        }
        let keys = shape::check(&whole, KEYS, "", &mut found);
        let model = keys.get("model").and_then(|node| {
            let parsed = node.as_text()?.parse();
            parsed
                .map_err(|error: llm_do_core::model::BadModelName| {
                    found.push(Diagnostic::error(codes::BAD_VALUE, error.to_string()).at(&node.span));
                })
                .ok()
        });
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
        if found.is_empty() { Ok(Self { model, secrets }) } else { Err(Diagnostics(found)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_a_model_or_nothing() {
        let config = UserConfig::parse("config.yaml", "model: openai:gpt-5-mini\n").unwrap();
        assert_eq!(config.model.unwrap().as_str(), "openai:gpt-5-mini");
        assert_eq!(UserConfig::parse("config.yaml", ""), Ok(UserConfig::default()));
    }

    #[test]
    fn what_has_no_effect_is_an_error() {
        for text in ["modle: a:b\n", "model: nothing\n", "- a\n", "model: [a]\n"] {
            assert!(UserConfig::parse("config.yaml", text).is_err(), "{text}");
        }
    }
}
