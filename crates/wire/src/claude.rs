//! The generations of Claude, by the names of models. Anthropic documents their parameters in its pages on
//! [extended](https://docs.claude.com/en/docs/build-with-claude/extended-thinking) and
//! [adaptive](https://docs.claude.com/en/docs/build-with-claude/adaptive-thinking) thinking and on
//! [effort](https://docs.claude.com/en/docs/build-with-claude/effort).

use crate::effort::Effort;
use serde::Serialize;

/// The thinking of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(crate) enum Thinking {
    Disabled,
    Enabled {
        budget_tokens: u32,
    },
    /// The model decides. A budget beside this is refused.
    Adaptive {
        /// The display of thinking. Without it the newest models do not send their thinking.
        display: &'static str,
    },
}

/// A model of Claude, as far as its name describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claude {
    family: Family,
    /// The version; `(0, 0)` if the name has none.
    version: (u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Opus,
    Sonnet,
    Haiku,
    /// Fable and Mythos, which always think.
    Thinker,
    /// A model from before the families came first in names (`claude-3-5-haiku`), or another provider's.
    Other,
}

impl Claude {
    /// Returns the model of that name. Gateways put the provider before it.
    pub(crate) fn named(model: &str) -> Self {
        let own = model.find("claude-").map_or("", |at| &model[at + "claude-".len()..]);
        let mut words = own.split(['-', '.', '@']);
        let family = match words.next() {
            Some("opus") => Family::Opus,
            Some("sonnet") => Family::Sonnet,
            Some("haiku") => Family::Haiku,
            _ if model.contains("fable") || model.contains("mythos") => Family::Thinker,
            _ => return Self { family: Family::Other, version: version(&mut own.split(['-', '.', '@'])) },
        };
        Self { family, version: version(&mut words) }
    }

    fn since(self, opus: (u32, u32), sonnet: (u32, u32)) -> bool {
        match self.family {
            Family::Opus => self.version >= opus,
            Family::Sonnet => self.version >= sonnet,
            Family::Haiku => self.version >= (5, 0),
            Family::Thinker => true,
            Family::Other => false,
        }
    }

    /// Returns true if the model takes `output_config.effort`.
    pub(crate) fn has_effort(self) -> bool {
        self.since((4, 5), (4, 6))
    }

    /// Returns true if the model decides itself how much it thinks, and takes the effort `max`.
    pub(crate) fn is_adaptive(self) -> bool {
        self.since((4, 6), (4, 6))
    }

    /// Returns true if the model takes the effort `xhigh`.
    pub(crate) fn has_xhigh(self) -> bool {
        self.since((4, 7), (5, 0))
    }

    /// Returns true if the model takes a budget of tokens for its thinking, `temperature` and `top_p`. Later ones answer a
    /// request with any of them with an error
    /// ([migration](https://platform.claude.com/docs/en/about-claude/models/migration-guide)).
    pub(crate) fn takes_budgets_and_sampling(self) -> bool {
        !self.has_xhigh()
    }

    /// Returns true if no request disables the model's thinking.
    fn always_thinks(self) -> bool {
        self.family == Family::Thinker || self.since((5, 5), (5, 5))
    }

    /// Returns the thinking and the effort of a request.
    pub(crate) fn reasoning(self, effort: Effort) -> (Option<Thinking>, Option<&'static str>) {
        // The effort `low` is the least of a model that always thinks.
        let effort = if effort == Effort::None && self.always_thinks() { Effort::Low } else { effort };
        if effort == Effort::None {
            // For other models no thinking is the default.
            return (self.thinks_by_default().then_some(Thinking::Disabled), None);
        }
        let has_budget = matches!(effort, Effort::Budget(_));
        let word = match effort {
            _ if !self.has_effort() => None,
            Effort::Minimal => Some("low"),
            Effort::XHigh if !self.has_xhigh() => Some("high"),
            Effort::Max if !self.is_adaptive() => Some("high"),
            effort => effort.word(),
        };
        let thinking = if self.is_adaptive() && !(has_budget && self.takes_budgets_and_sampling()) {
            Some(Thinking::Adaptive { display: "summarized" })
        } else if !self.has_effort() || has_budget {
            Some(Thinking::Enabled { budget_tokens: effort.tokens() })
        } else {
            None
        };
        (thinking, word)
    }

    /// Returns true if the model thinks unless a request disables it.
    fn thinks_by_default(self) -> bool {
        self.since((5, 0), (5, 0)) && !self.always_thinks()
    }

    /// Returns the most tokens of an answer. A request must set a limit.
    pub(crate) fn most_tokens(self) -> u32 {
        match (self.family, self.version) {
            (Family::Opus, version) if version >= (4, 8) => 128_000,
            (Family::Opus, version) if version >= (4, 5) => 64_000,
            (Family::Opus, version) if version >= (4, 0) => 32_000,
            (Family::Haiku, version) if version >= (5, 0) => 128_000,
            (Family::Thinker, _) => 128_000,
            (Family::Other, (3, 5)) => 8192,
            (Family::Opus | Family::Other, (3, 0)) => 4096,
            _ => 64_000,
        }
    }
}

/// Returns the version in the next words. A longer number is a date.
fn version<'n>(words: &mut impl Iterator<Item = &'n str>) -> (u32, u32) {
    let mut number = || {
        let word = words.next().filter(|word| word.len() <= 2)?;
        word.parse().ok()
    };
    let Some(major) = number() else { return (0, 0) };
    (major, number().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_generation() {
        for (name, family, version) in [
            ("claude-opus-4-6", Family::Opus, (4, 6)),
            ("claude-opus-4-20250514", Family::Opus, (4, 0)),
            ("claude-sonnet-4-5-20250929", Family::Sonnet, (4, 5)),
            ("claude-sonnet-4-5@20250929", Family::Sonnet, (4, 5)),
            ("anthropic/claude-sonnet-4.5", Family::Sonnet, (4, 5)),
            ("us.anthropic.claude-haiku-4-5-20251001-v1:0", Family::Haiku, (4, 5)),
            ("claude-3-5-haiku-20241022", Family::Other, (3, 5)),
            ("claude-3-opus-20240229", Family::Other, (3, 0)),
            ("claude-fable-1", Family::Thinker, (1, 0)),
            ("MiniMax-M2", Family::Other, (0, 0)),
        ] {
            assert_eq!(Claude::named(name), Claude { family, version }, "{name}");
        }
    }

    #[test]
    fn a_budget_goes_to_models_that_take_one() {
        let adaptive = Some(Thinking::Adaptive { display: "summarized" });
        let enabled = |budget_tokens| Some(Thinking::Enabled { budget_tokens });
        for (name, effort, expected) in [
            ("claude-sonnet-4-5", Effort::Budget(2000), (enabled(2000), None)),
            ("claude-opus-4-5", Effort::Budget(2000), (enabled(2000), None)),
            ("claude-opus-4-6", Effort::Budget(2000), (enabled(2000), None)),
            ("claude-opus-4-5", Effort::High, (None, Some("high"))),
            ("claude-opus-4-6", Effort::Max, (adaptive, Some("max"))),
            ("claude-opus-4-8", Effort::XHigh, (adaptive, Some("xhigh"))),
            ("claude-opus-5", Effort::None, (Some(Thinking::Disabled), None)),
            ("claude-opus-5-5", Effort::None, (adaptive, Some("low"))),
            ("claude-mythos-1", Effort::None, (adaptive, Some("low"))),
        ] {
            assert_eq!(Claude::named(name).reasoning(effort), expected, "{name} {effort:?}");
        }
        let takers = ["claude-sonnet-4-5", "claude-opus-4-5", "claude-opus-4-6", "claude-sonnet-4-6"];
        assert!(takers.iter().all(|name| Claude::named(name).takes_budgets_and_sampling()));
        let others = ["claude-opus-4-7", "claude-sonnet-5", "claude-haiku-5", "claude-fable-1"];
        assert!(!others.iter().any(|name| Claude::named(name).takes_budgets_and_sampling()));
    }

    #[test]
    fn generations_take_what_anthropic_documents() {
        let told = |name: &str| {
            let it = Claude::named(name);
            (it.has_effort(), it.is_adaptive(), it.has_xhigh(), it.thinks_by_default(), it.most_tokens())
        };
        for (name, expected) in [
            ("claude-opus-4-1-20250805", (false, false, false, false, 32_000)),
            ("claude-opus-4-5", (true, false, false, false, 64_000)),
            ("claude-opus-4-6", (true, true, false, false, 64_000)),
            ("claude-opus-4-8", (true, true, true, false, 128_000)),
            ("claude-opus-5", (true, true, true, true, 128_000)),
            ("claude-sonnet-4-5", (false, false, false, false, 64_000)),
            ("claude-sonnet-4-6", (true, true, false, false, 64_000)),
            ("claude-sonnet-5", (true, true, true, true, 64_000)),
            ("claude-haiku-4-5", (false, false, false, false, 64_000)),
            ("claude-mythos-1", (true, true, true, false, 128_000)),
            ("claude-3-5-haiku-20241022", (false, false, false, false, 8192)),
            ("claude-3-opus-20240229", (false, false, false, false, 4096)),
            ("claude-3-7-sonnet-20250219", (false, false, false, false, 64_000)),
            ("other", (false, false, false, false, 64_000)),
        ] {
            assert_eq!(told(name), expected, "{name}");
        }
    }
}
