//! The makers of Bedrock's models, by the names of models.

use crate::{
    claude::{Claude, Thinking},
    effort::Effort,
};
use serde_json::{Value, json};

/// The company that has made a model, on which the settings depend that Converse does not unify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    Anthropic,
    Amazon,
    OpenAi,
    Other,
}

impl Maker {
    /// Returns the maker of a model: `MAKER.MODEL`, or `REGION.MAKER.MODEL` for an inference profile.
    pub(crate) fn of(model: &str) -> Self {
        let maker = |word: &str| match word {
            "anthropic" => Some(Self::Anthropic),
            "amazon" => Some(Self::Amazon),
            "openai" => Some(Self::OpenAi),
            _ => None,
        };
        model.split('.').take(2).find_map(maker).unwrap_or(Self::Other)
    }

    /// Returns the most tokens of an answer if the worker sets no limit. Most models need a number.
    pub(crate) fn most_tokens(self, model: &str) -> u32 {
        match self {
            Self::Anthropic => Claude::named(model).most_tokens(),
            Self::Amazon => 5000,
            // Tokens of reasoning count, too.
            Self::OpenAi => 16_384,
            Self::Other => 4096,
        }
    }

    /// Returns the model's own request fields for an effort. A model of Claude before 4.6 takes a budget for a word here,
    /// since Bedrock has its effort behind a beta header.
    pub(crate) fn reasoning(self, model: &str, effort: Effort) -> Option<Value> {
        Some(match self {
            Self::Anthropic => match Claude::named(model).reasoning(effort) {
                (Some(thinking), Some(word)) => {
                    json!({"thinking": thinking, "output_config": {"effort": word}})
                }
                (Some(thinking), None) => json!({"thinking": thinking}),
                (None, _) if effort == Effort::None => return None,
                (None, _) => json!({"thinking": Thinking::Enabled { budget_tokens: effort.tokens() }}),
            },
            Self::Amazon => {
                let level = json!({"type": "enabled", "maxReasoningEffort": nova_level(effort)?});
                json!({"inferenceConfig": {"reasoningConfig": level}})
            }
            Self::OpenAi => json!({"reasoning": {"effort": effort.word()?}}),
            Self::Other => return None,
        })
    }
}

/// Returns the level of Nova's reasoning. `None`: it does not reason.
pub(crate) fn nova_level(effort: Effort) -> Option<&'static str> {
    Some(match effort.tokens() {
        0 => return None,
        1..=1024 => "low",
        1025..=8000 => "medium",
        _ => "high",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maker_stands_first_or_after_a_region() {
        for (model, maker) in [
            ("anthropic.claude-sonnet-4-5-20250929-v1:0", Maker::Anthropic),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", Maker::Anthropic),
            ("apac.amazon.nova-lite-v1:0", Maker::Amazon),
            ("openai.gpt-5.4", Maker::OpenAi),
            ("meta.llama3-1-70b-instruct-v1:0", Maker::Other),
        ] {
            assert_eq!(Maker::of(model), maker, "{model}");
        }
    }
}
