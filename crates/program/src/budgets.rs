//! The user's budgets over time, `budgets.yaml` in llm-do's home. See `docs/reference/budgets.md`.

use crate::{
    diagnostics::{Diagnostic, Diagnostics, codes},
    shape::{self, Key, Shape},
    span::SourceFile,
    yaml::{self, Data, Node},
};
use llm_do_core::price::Usd;
use std::path::{Path, PathBuf};

/// The keys of `budgets.yaml`.
pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "time_zone",
        Shape::Text,
        "the time zone in which days and months begin, such as `Europe/Berlin`; default: the machine's",
    ),
    Key::new("budgets", Shape::Map(&Shape::Record(BUDGET)), "the budgets, by name").required(),
];

const BUDGET: &[Key] = &[
    Key::new(
        "per",
        Shape::Choice(&["day", "month"], &[]),
        "`day` or `month`: the time after which the budget opens again",
    )
    .required(),
    Key::new(
        "program",
        Shape::Text,
        "the folder or file whose programs count, or `each`: every program has the budget for itself; default: all programs together",
    ),
    Key::new("max_cost_usd", Shape::Number(0.0, 1e6), "most US dollars that requests may cost"),
    Key::new("max_tokens", Shape::Count(0), "most tokens, sent and produced together"),
];

/// The value of `program` with which every program has the budget for itself.
const EACH: &str = "each";

/// The time after which a budget opens again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Period {
    /// A day of the operator's time zone.
    Day,
    /// A month of the operator's time zone.
    Month,
}

impl Period {
    /// The name of the period in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
        }
    }
}

/// The most that may be used in one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Cost.
    pub max_cost_usd: Option<Usd>,
    /// Tokens, sent and produced together.
    pub max_tokens: Option<u64>,
}

/// The programs that share a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Programs {
    /// All together.
    All,
    /// The programs in this folder, or the one in this file.
    Below(PathBuf),
    /// Each for itself.
    Each,
}

/// A budget over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeBudget {
    /// The name in the file.
    pub name: String,
    /// The time after which it opens again.
    pub period: Period,
    /// The programs that it counts.
    pub programs: Programs,
    /// The most in one period.
    pub amounts: Amounts,
}

/// The content of `budgets.yaml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeBudgets {
    /// The time zone in which days and months begin. Absent: the machine's.
    pub time_zone: Option<String>,
    /// The budgets, in the order of the file.
    pub budgets: Vec<TimeBudget>,
}

impl TimeBudgets {
    /// Reads the file's text; `path` names it in errors. `user` is the user's home, for paths that begin with `~/`.
    /// `is_time_zone` decides which names are those of time zones.
    ///
    /// # Errors
    /// All problems, in reading order.
    pub fn parse(
        path: &str,
        text: &str,
        user: Option<&Path>,
        is_time_zone: impl Fn(&str) -> bool,
    ) -> Result<Self, Diagnostics> {
        let file = SourceFile::new(path, text);
        let whole = yaml::parse(&file, text.len()).map_err(|error| Diagnostics(vec![*error]))?;
        let mut found = Vec::new();
        if !matches!(whole.data, Data::Map(_) | Data::Null) {
            found.push(shape::wrong_type(&whole, "budgets.yaml", "a map of keys"));
        }
        without_effect(&whole, "", &mut found);
        let keys = shape::check(&whole, KEYS, "", &mut found);
        let time_zone = keys.get("time_zone").and_then(|node| {
            let name = node.as_text()?;
            if !is_time_zone(name) {
                let message = format!("`{name}` is not a time zone of this machine");
                let zone = Diagnostic::error(codes::BAD_VALUE, message).at(&node.span);
                found.push(zone.help("write a name of the IANA time zone database, such as `Europe/Berlin`"));
            }
            Some(name.to_owned())
        });
        // The checks below are about values that fit.
        if !found.is_empty() {
            return Err(Diagnostics(found));
        }
        let entries = keys.get("budgets").map(Node::entries).unwrap_or_default().iter();
        let mut budgets = Vec::new();
        for entry in entries {
            budgets.extend(budget(&entry.key, &entry.value, user, &mut found));
        }
        match found.is_empty() {
            true => Ok(Self { time_zone, budgets }),
            false => Err(Diagnostics(found)),
        }
    }
}

/// Finds the keys without a value, and those of the user's own (`x-`). Other files may have them, but a limit that is not
/// written to its end would limit nothing.
fn without_effect(node: &Node, path: &str, found: &mut Vec<Diagnostic>) {
    for entry in node.entries() {
        let here = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
        if entry.key.starts_with("x-") {
            let message = format!("`{here}` would have no effect: budgets have no keys of your own");
            found.push(
                Diagnostic::error(codes::UNKNOWN_KEY, message).at(&entry.key_span).help("remove the key"),
            );
        } else if entry.value.data == Data::Null {
            let message = format!("`{here}` has no value, so it would limit nothing");
            let help = "write a value, or remove the key";
            found.push(Diagnostic::error(codes::BAD_VALUE, message).at(&entry.key_span).help(help));
        } else {
            without_effect(&entry.value, &here, found);
        }
    }
}

/// Reads one budget, whose shape is checked.
fn budget(name: &str, node: &Node, user: Option<&Path>, found: &mut Vec<Diagnostic>) -> Option<TimeBudget> {
    let mut wrong = |node: &Node, message: String, help: &str| {
        found.push(Diagnostic::error(codes::BAD_VALUE, message).at(&node.span).help(help));
    };
    let amounts = Amounts {
        max_cost_usd: node.get("max_cost_usd").and_then(Node::as_number).and_then(Usd::dollars),
        max_tokens: node.get("max_tokens").and_then(Node::as_count),
    };
    if amounts == Amounts::default() {
        let message = format!("the budget `{name}` limits nothing");
        wrong(node, message, "add `max_cost_usd` or `max_tokens`");
    }
    let programs = match node.get("program").and_then(|program| Some((program, program.as_text()?))) {
        None => Programs::All,
        Some((_, EACH)) => Programs::Each,
        Some((program, text)) => {
            let path = match (text.strip_prefix("~/"), user) {
                (Some(below), Some(user)) => user.join(below),
                _ => PathBuf::from(text),
            };
            if !path.is_absolute() {
                let message = format!("`{text}` is not an absolute path");
                wrong(program, message, "write a path that begins with `/` or `~/`, or `each`");
            }
            Programs::Below(path)
        }
    };
    let period = match node.get("per")?.as_text()? {
        "month" => Period::Month,
        _ => Period::Day,
    };
    Some(TimeBudget { name: name.to_owned(), period, programs, amounts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Span;

    fn parse(text: &str) -> Result<TimeBudgets, Diagnostics> {
        TimeBudgets::parse("budgets.yaml", text, Some(Path::new("/home/ann")), |name| name == "Europe/Berlin")
    }

    #[test]
    fn a_file_gives_its_budgets_in_order() {
        let text = "time_zone: Europe/Berlin\nbudgets:\n  all: {per: day, max_cost_usd: 5}\n  notes:\n    per: month\n    program: ~/notes\n    max_tokens: 1000\n  own: {per: day, program: each, max_cost_usd: 0.5, max_tokens: 7}\n";
        let TimeBudgets { time_zone, budgets } = parse(text).unwrap();
        assert_eq!(time_zone.as_deref(), Some("Europe/Berlin"));
        let [all, notes, own] = budgets.try_into().unwrap();
        assert_eq!((&*all.name, all.period, all.programs), ("all", Period::Day, Programs::All));
        assert_eq!(all.amounts, Amounts { max_cost_usd: Usd::dollars(5.0), max_tokens: None });
        assert_eq!(notes.programs, Programs::Below("/home/ann/notes".into()));
        assert_eq!((notes.period, notes.amounts.max_tokens), (Period::Month, Some(1000)));
        assert_eq!(own.programs, Programs::Each);
    }

    /// Every error says where it is.
    #[test]
    fn what_has_no_effect_is_an_error_with_its_place() {
        for (text, line) in [
            ("budget: {}\n", 1),
            ("budgets:\n  a: {per: week, max_tokens: 1}\n", 2),
            ("budgets:\n  a: {max_tokens: 1}\n", 2),
            ("budgets:\n  a: {per: day}\n", 2),
            ("budgets:\n  a: {per: day, max_cost_usd: -1}\n", 2),
            ("budgets:\n  a: {per: day, max_tokens: 1.5}\n", 2),
            ("budgets:\n  a: {per: day, max_tokens: 1, program: notes}\n", 2),
            ("budgets:\n  a: {per: day, max_tokens: 1, max_runs: 2}\n", 2),
            ("budgets:\n  a: {per: day, max_tokens: 1}\n  a: {per: day, max_tokens: 2}\n", 3),
            ("budgets: {}\ntime_zone: Mars/Olympus\n", 2),
            ("- a\n", 1),
            ("budgets:\n", 1),
            ("budgets:\n  daily:\n", 2),
            ("budgets:\n  x-daily: {per: day, max_tokens: 1}\n", 2),
            ("budgets:\n  a:\n    per: day\n    max_tokens: 1\n    max_cost_usd:\n", 5),
            ("budgets:\n  a:\n    per: day\n    max_tokens: 1\n    x-max_cost_usd: 1\n", 5),
            ("x-a: 1\nbudgets:\n  a: {per: day, max_tokens: 1}\n", 1),
            ("budgets:\n  a: {per: day, max_tokens: 1}\ntime_zone: ~\n", 3),
        ] {
            let Diagnostics(found) = parse(text).expect_err(text);
            let place = found[0].span.as_ref().and_then(Span::line_column);
            assert_eq!(place.map(|(line, _)| line), Some(line), "{text}: {found:?}");
        }
        // A value that is wrong is not said to be absent, too.
        let Diagnostics(found) = parse("budgets:\n  a: {per: day, max_cost_usd: -1}\n").unwrap_err();
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
