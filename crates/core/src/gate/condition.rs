//! Conditions of rules: tests of single, typed arguments (`docs/reference/approvals.md`).

use super::{
    argument_path::{ArgumentPath, Found},
    number::{compare, equal, is_scalar, same_type},
    set::{self, Set, ToolSets},
};
use crate::{
    authority::{Domain, Host},
    origin::{From, Provenance, contains},
    rule::Rule,
};
use regex::Regex;
use serde_json::{Number, Value};
use std::{cmp::Ordering, fmt, sync::Arc};

/// The conditions of a rule. All of them must hold; a rule without any applies to every call of its tool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    tests: Arc<[Test]>,
}

/// A test of one argument.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// The tested value, or values.
    pub path: ArgumentPath,
    /// The condition on the value.
    pub check: Check,
}

/// A condition on a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Check {
    /// `=`: the value is this value. Numbers are equal by value.
    Equals(Value),
    /// `<=`: the value is a number, at most this.
    AtMost(Number),
    /// `>=`: the value is a number, at least this.
    AtLeast(Number),
    /// `in`: the value is one of these values.
    In(Set),
    /// `not in`: the value is none of these values.
    NotIn(Set),
    /// `without`: no part of the value is one of these values, whatever its type.
    Without(Set),
    /// `matches`: the value is a text, and the pattern matches the whole of it.
    Matches(WholeMatch),
    /// `host`: the value is a URL whose host the entry matches.
    Host(HostEntry),
    /// `host in origins(…)`: the value is a URL whose host is named by words of this origin.
    HostOf(From),
    /// `from`: the value occurs in words of this origin.
    From(From),
    /// `present`: the value exists and is not null.
    Present,
    /// `absent`: the value is missing or null.
    Absent,
}

/// A regular expression that must match a whole text.
#[derive(Clone, Debug)]
pub struct WholeMatch {
    written: Arc<str>,
    regex: Regex,
}

/// An entry of a list of domains, in the notation of `network_enabled`: `example.org`, `*.example.org`.
#[derive(Clone, Debug, PartialEq)]
pub struct HostEntry {
    domain: Domain,
}

/// The facts that conditions test: the arguments of a call, and the run's knowledge about values.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// The arguments, complete and valid.
    pub arguments: &'a Value,
    /// The source of answers about the origins of words. Without it a `from` test can't be decided.
    pub words: Option<&'a dyn Provenance>,
    /// The sets that tools returned.
    pub sets: &'a ToolSets,
}

/// The result of a test for one value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Holds,
    Fails,
    /// The test can't be decided, with the reason: the value is missing or of another type, or a set can't be read.
    Undecided(Arc<str>),
}

impl fmt::Debug for Facts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Facts").field("arguments", self.arguments).finish_non_exhaustive()
    }
}

impl Conditions {
    /// Creates conditions from tests.
    pub fn new(tests: Vec<Test>) -> Self {
        Self { tests: tests.into() }
    }

    /// The tests in the order written.
    pub fn tests(&self) -> &[Test] {
        &self.tests
    }

    /// Returns true if there are no tests.
    pub fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// The sets that the tests name.
    pub fn sets(&self) -> impl Iterator<Item = &Set> {
        self.tests.iter().filter_map(Test::set)
    }

    /// Returns true if any test checks an argument by `from`, `in`, `equals` or by the host of the operator's own
    /// addresses: the author of the rule then states the good values, wherever they come from. `not in` and `without`
    /// only state the bad ones.
    pub fn name_values(&self) -> bool {
        let names = |check: &Check| {
            matches!(check, Check::From(_) | Check::HostOf(_) | Check::In(_) | Check::Equals(_))
        };
        self.tests.iter().any(|test| names(&test.check))
    }

    /// Returns true if the conditions hold, for a rule with this effect. A test that can't be decided never lets a call
    /// pass: it does not hold for `preApproved`, and it holds for `ask` and `blocked`.
    pub fn hold(&self, facts: Facts<'_>, rule: Rule) -> bool {
        self.tests.iter().all(|test| test.holds(facts, rule))
    }

    /// The reason why the conditions don't hold; `None` if they do.
    pub fn failure(&self, facts: Facts<'_>, rule: Rule) -> Option<String> {
        self.tests.iter().find_map(|test| test.failure(facts, rule))
    }
}

impl Test {
    /// The set that the test names, if it names one.
    pub fn set(&self) -> Option<&Set> {
        match &self.check {
            Check::In(set) | Check::NotIn(set) | Check::Without(set) => Some(set),
            _ => None,
        }
    }

    /// Returns true if the test holds, for a rule with this effect. With `[*]`, all of at least one element must pass
    /// for `preApproved`, and any element for `ask` and `blocked`.
    pub fn holds(&self, facts: Facts<'_>, rule: Rule) -> bool {
        let found = self.path.select(facts.arguments);
        match rule {
            Rule::PreApproved => {
                !found.is_empty() && found.iter().all(|found| self.outcome(*found, facts) == Outcome::Holds)
            }
            Rule::Ask | Rule::Blocked => {
                found.iter().any(|found| self.outcome(*found, facts) != Outcome::Fails)
            }
        }
    }

    fn failure(&self, facts: Facts<'_>, rule: Rule) -> Option<String> {
        if self.holds(facts, rule) {
            return None;
        }
        let found = self.path.select(facts.arguments);
        let bad = found.iter().find_map(|found| match (self.outcome(*found, facts), found) {
            (Outcome::Holds, _) => None,
            (Outcome::Undecided(why), _) => Some(format!("`{self}` can't be decided: {why}")),
            (Outcome::Fails, Found::Value(value)) => {
                Some(format!("`{self}` does not hold for {}", shortened(value)))
            }
            (Outcome::Fails, _) => Some(format!("`{self}` does not hold: `{}` is missing", self.path)),
        });
        Some(bad.unwrap_or_else(|| format!("`{self}` does not hold: the list is empty")))
    }

    fn outcome(&self, found: Found<'_>, facts: Facts<'_>) -> Outcome {
        let there = match found {
            Found::OtherType => {
                return Outcome::Undecided(
                    format!("`{}` leads into a value of another type", self.path).into(),
                );
            }
            Found::Missing | Found::Value(Value::Null) => None,
            Found::Value(value) => Some(value),
        };
        let value = match (&self.check, there) {
            (Check::Present, there) => return Outcome::of(there.is_some()),
            (Check::Absent, there) => return Outcome::of(there.is_none()),
            (Check::Equals(Value::Null), None) => return Outcome::of(matches!(found, Found::Value(_))),
            (_, None) => return Outcome::Undecided(format!("`{}` is missing", self.path).into()),
            (_, Some(value)) => value,
        };
        self.check.outcome(value, facts)
    }
}

impl Outcome {
    fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Fails }
    }

    fn other_type(expected: &str, value: &Value) -> Self {
        Self::Undecided(format!("{} is not {expected}", shortened(value)).into())
    }
}

impl Check {
    fn outcome(&self, value: &Value, facts: Facts<'_>) -> Outcome {
        match self {
            Self::Equals(expected) if same_type(expected, value) => Outcome::of(equal(expected, value)),
            Self::Equals(expected) => Outcome::other_type(&format!("of the type of {expected}"), value),
            Self::AtMost(most) => bounded(value, most, Ordering::Greater),
            Self::AtLeast(least) => bounded(value, least, Ordering::Less),
            Self::In(set) if is_scalar(value) => match set.values(facts.sets) {
                Ok(values) => match set::holds(values, value) {
                    Some(holds) => Outcome::of(holds),
                    None => Outcome::other_type("of the type of the set's values", value),
                },
                Err(reason) => Outcome::Undecided(reason),
            },
            Self::NotIn(set) if is_scalar(value) => match set.values(facts.sets) {
                Ok(values) => match set::holds(values, value) {
                    Some(holds) => Outcome::of(!holds),
                    None => Outcome::other_type("of the type of the set's values", value),
                },
                Err(reason) => Outcome::Undecided(reason),
            },
            Self::In(_) | Self::NotIn(_) => Outcome::other_type("a text, a number, true or false", value),
            Self::Without(set) => match set.values(facts.sets) {
                Ok(values) => Outcome::of(!values.iter().any(|part| contains(value, part))),
                Err(reason) => Outcome::Undecided(reason),
            },
            Self::Matches(pattern) => match value.as_str() {
                Some(text) => Outcome::of(pattern.matches(text)),
                None => Outcome::other_type("a text", value),
            },
            Self::Host(entry) => match value.as_str().and_then(host) {
                Some((host, port)) => Outcome::of(entry.matches(&host, port)),
                None => Outcome::other_type("an absolute URL with a plain host", value),
            },
            Self::HostOf(words) => match (value.as_str().and_then(host), facts.words) {
                (Some((host, _)), Some(provenance)) => {
                    Outcome::of(provenance.names_host(*words, &host.to_string()))
                }
                (None, _) => Outcome::other_type("an absolute URL with a plain host", value),
                (_, None) => Outcome::Undecided("the origin of words is known only in a run".into()),
            },
            Self::From(words) => match facts.words {
                Some(provenance) if is_scalar(value) => Outcome::of(provenance.holds(*words, value)),
                Some(_) => Outcome::other_type("a text, a number, true or false", value),
                None => Outcome::Undecided("the origin of words is known only in a run".into()),
            },
            // Decided by whether there is a value.
            Self::Present => Outcome::Holds,
            Self::Absent => Outcome::Fails,
        }
    }
}

/// Tests that a number is not on the `wrong` side of a bound.
fn bounded(value: &Value, bound: &Number, wrong: Ordering) -> Outcome {
    match value {
        Value::Number(number) => match compare(number, bound) {
            Some(ordering) => Outcome::of(ordering != wrong),
            None => Outcome::other_type("a number that can be compared", value),
        },
        _ => Outcome::other_type("a number", value),
    }
}

/// The host of a URL, and its port. Parsers disagree about URLs with blanks, backslashes, user names and escapes in the
/// host, so such URLs are rejected.
fn host(url: &str) -> Option<(Host, Option<u16>)> {
    if url.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
        return None;
    }
    let (scheme, rest) = url.split_once("://")?;
    let mut letters = scheme.chars();
    let named = letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if !named || authority.contains(['@', '%']) {
        return None;
    }
    let (host, port) = Host::with_port(authority).ok()?;
    let default = match scheme.to_ascii_lowercase().as_str() {
        "http" | "ws" => Some(80),
        "https" | "wss" => Some(443),
        _ => None,
    };
    Some((host, port.or(default)))
}

impl HostEntry {
    /// Parses `HOST` or `*.HOST`, each with or without `:PORT`.
    ///
    /// # Errors
    /// The text is not such an entry.
    pub fn new(text: &str) -> Result<Self, String> {
        Domain::parse(text).map(|domain| Self { domain }).map_err(|error| error.to_string())
    }

    fn matches(&self, host: &Host, port: Option<u16>) -> bool {
        self.domain.names(host) && self.domain.port().is_none_or(|own| Some(own) == port)
    }
}

impl WholeMatch {
    /// Compiles a regular expression.
    ///
    /// # Errors
    /// The pattern is not valid.
    pub fn new(pattern: &str) -> Result<Self, String> {
        // First by itself, so that a bracket too many does not end the group around it.
        let anchored = Regex::new(pattern).and_then(|_| Regex::new(&format!("\\A(?:{pattern})\\z")));
        match anchored {
            Ok(regex) => Ok(Self { written: pattern.into(), regex }),
            Err(error) => {
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                Err(format!("`{pattern}` is not a regular expression: {reason}"))
            }
        }
    }

    fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl PartialEq for WholeMatch {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

/// A value in the form that messages show.
fn shortened(value: &Value) -> String {
    const MOST: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, test) in self.tests.iter().enumerate() {
            let and = if at == 0 { "" } else { " and " };
            write!(f, "{and}{test}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.check)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equals(value) => write!(f, "= {value}"),
            Self::AtMost(most) => write!(f, "<= {most}"),
            Self::AtLeast(least) => write!(f, ">= {least}"),
            Self::In(set) => write!(f, "in {set}"),
            Self::NotIn(set) => write!(f, "not in {set}"),
            Self::Without(set) => write!(f, "without {set}"),
            Self::Matches(pattern) => write!(f, "matches {}", Value::from(&*pattern.written)),
            Self::Host(entry) => write!(f, "host {}", entry.domain),
            Self::HostOf(words) => write!(f, "host in origins({words})"),
            Self::From(words) => write!(f, "from {words}"),
            Self::Present => f.write_str("present"),
            Self::Absent => f.write_str("absent"),
        }
    }
}

#[cfg(test)]
mod tests;
