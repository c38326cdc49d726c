//! The notation of rules on the command line:
//!
//! ```text
//! RULE := TOOL ["(" PATTERN ")"] ["where" TEST {"and" TEST}]
//! TEST := PATH ("=" | "<=" | ">=" | "in" | "not in" | "without" | "matches" | "host" | "host in" | "from" | "present" |
//!         "absent") [VALUE]
//! ```
//!
//! VALUE is JSON, a bare word, after `in`, `not in` and `without` `@FILE#POINTER`, or after `host in` `origins(WORDS)`.

use super::{
    condition::{Check, Conditions, HostEntry, Test, WholeMatch},
    pattern::{BadPattern, Pattern},
    set::{ReadSet, Set, ToolSet},
};
use crate::origin::From;
use serde_json::{Number, Value};
use std::fmt;

/// The calls that a rule applies to: the calls of a tool whose main argument fits a pattern and whose arguments fit
/// conditions.
#[derive(Clone, Debug, PartialEq)]
pub struct Calls {
    /// The tool, and its main argument.
    pub pattern: Pattern,
    /// The conditions.
    pub conditions: Conditions,
}

/// A rule that doesn't parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// The tool or the pattern is not valid.
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    /// A condition is not valid.
    #[error("`{rule}`: {reason}")]
    Condition {
        /// The rule as written.
        rule: String,
        /// The error in the condition.
        reason: String,
    },
}

const WHERE: &str = "where";
const AND: &str = "and";

/// The operators in the form that a message lists them.
const OPERATORS: &str =
    "`=`, `<=`, `>=`, `in`, `not in`, `without`, `matches`, `host`, `from`, `present` or `absent`";

impl Calls {
    /// Parses a rule. `read` reads the files that its sets name.
    ///
    /// # Errors
    /// The text does not parse. A file that can't be read is not an error here: see [`Set::values`].
    pub fn parse(text: &str, read: ReadSet<'_>) -> Result<Self, BadRule> {
        let text = text.trim();
        let (pattern, conditions) = match split(text) {
            Some((pattern, conditions)) => (pattern, Some(conditions)),
            None => (text, None),
        };
        let pattern = Pattern::parse(pattern)?;
        let tests = conditions.map(|text| Words { rest: text }.tests(read)).transpose();
        let tests = tests.map_err(|reason| BadRule::Condition { rule: text.to_owned(), reason })?;
        Ok(Self { pattern, conditions: Conditions::new(tests.unwrap_or_default()) })
    }
}

impl std::convert::From<Pattern> for Calls {
    fn from(pattern: Pattern) -> Self {
        Self { pattern, conditions: Conditions::default() }
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.conditions.is_empty() {
            true => write!(f, "{}", self.pattern),
            false => write!(f, "{} where {}", self.pattern, self.conditions),
        }
    }
}

/// The parts before and after `where`, if the rule has one. Inside the pattern's own parentheses `where` is a word like
/// others.
fn split(text: &str) -> Option<(&str, &str)> {
    let head = text.find([' ', '\t', '\n', '(']).filter(|end| text[*end..].starts_with('(')).unwrap_or(0);
    let mut from = head;
    loop {
        let at = from + text[from..].find(WHERE)?;
        let (before, after) = (&text[..at], &text[at + WHERE.len()..]);
        let apart = before.ends_with(char::is_whitespace)
            && (after.is_empty() || after.starts_with(char::is_whitespace));
        let outside = head == 0 || before.trim_end().ends_with(')');
        if apart && outside {
            return Some((before.trim_end(), after));
        }
        from = at + WHERE.len();
    }
}

/// The rest of a text that is read from left to right.
struct Words<'t> {
    rest: &'t str,
}

impl<'t> Words<'t> {
    fn tests(mut self, read: ReadSet<'_>) -> Result<Vec<Test>, String> {
        let mut tests = Vec::new();
        loop {
            tests.push(self.test(read)?);
            self.skip();
            if self.rest.is_empty() {
                return Ok(tests);
            }
            match self.bare() {
                AND => {}
                "or" => return Err("conditions have no `or`: write two rules".into()),
                other => {
                    return Err(format!("`and` or the end of the rule must follow a test, not `{other}`"));
                }
            }
        }
    }

    fn test(&mut self, read: ReadSet<'_>) -> Result<Test, String> {
        let path = self.path()?;
        let path = path.parse().map_err(|error: super::argument_path::BadPath| error.to_string())?;
        let operator = self.operator();
        let check = match operator {
            "=" => Check::Equals(self.value(operator)?),
            "<=" => Check::AtMost(self.number(operator)?),
            ">=" => Check::AtLeast(self.number(operator)?),
            "in" => Check::In(self.set(operator, read)?),
            "not" => match self.bare() {
                "in" => Check::NotIn(self.set("not in", read)?),
                _ => return Err("`not` is followed by `in`: write `not in`".into()),
            },
            "without" => Check::Without(self.set(operator, read)?),
            "matches" => Check::Matches(WholeMatch::new(&self.text(operator)?)?),
            "host" => self.host(operator)?,
            "from" => Check::From(words(&self.text(operator)?)?),
            "present" => Check::Present,
            "absent" => Check::Absent,
            "" => return Err(format!("`{path}` is followed by nothing: write {OPERATORS}")),
            other => return Err(format!("`{other}` is not an operator: write {OPERATORS}")),
        };
        Ok(Test { path, check })
    }

    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, end: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    /// Reads a path: up to a blank or an operator outside of its quotes.
    fn path(&mut self) -> Result<&'t str, String> {
        self.skip();
        let (mut quoted, mut escaped) = (false, false);
        let end = self.rest.char_indices().find(|(_, c)| {
            if quoted {
                quoted = escaped || *c != '"';
                escaped = *c == '\\' && !escaped;
                return false;
            }
            quoted = *c == '"';
            c.is_whitespace() || matches!(c, '=' | '<' | '>')
        });
        match self.take(end.map_or(self.rest.len(), |(at, _)| at)) {
            "" => Err("a test is missing: write `ARGUMENT OPERATOR VALUE`".into()),
            path => Ok(path),
        }
    }

    fn operator(&mut self) -> &'t str {
        self.skip();
        match ["<=", ">=", "="].into_iter().find(|operator| self.rest.starts_with(operator)) {
            Some(operator) => self.take(operator.len()),
            None => self.bare(),
        }
    }

    /// Reads the characters up to the next blank.
    fn bare(&mut self) -> &'t str {
        self.skip();
        self.take(self.rest.find(char::is_whitespace).unwrap_or(self.rest.len()))
    }

    /// Reads JSON, if the next text is JSON up to a blank or the end.
    fn json(&mut self) -> Option<Value> {
        self.skip();
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<Value>();
        let value = values.next()?.ok()?;
        let end = values.byte_offset();
        let apart = self.rest[end..].chars().next().is_none_or(char::is_whitespace);
        apart.then(|| {
            self.take(end);
            value
        })
    }

    fn value(&mut self, operator: &str) -> Result<Value, String> {
        if let Some(value) = self.json() {
            return Ok(value);
        }
        match self.bare() {
            "" | AND => Err(format!("a value is missing behind `{operator}`")),
            word if word.starts_with(['"', '{', '[']) => {
                Err(format!("`{word}` is the beginning of JSON that is not valid"))
            }
            word => Ok(word.into()),
        }
    }

    fn number(&mut self, operator: &str) -> Result<Number, String> {
        match self.value(operator)? {
            Value::Number(number) => Ok(number),
            other => Err(format!("`{operator}` compares numbers, and {other} is not a number")),
        }
    }

    /// Reads a text: in JSON quotes, or a bare word, which may look like JSON.
    fn text(&mut self, operator: &str) -> Result<String, String> {
        self.skip();
        if self.rest.starts_with('"') {
            return match self.json() {
                Some(Value::String(text)) => Ok(text),
                _ => Err(format!("the text behind `{operator}` does not end with a quote and a blank")),
            };
        }
        match self.bare() {
            "" | AND => Err(format!("a text is missing behind `{operator}`")),
            word => Ok(word.to_owned()),
        }
    }

    fn set(&mut self, operator: &str, read: ReadSet<'_>) -> Result<Set, String> {
        let value = self.value(operator)?;
        set(&value, read)
    }

    /// Reads the value of `host`: an entry of a list of domains, or `in origins(WORDS)`.
    fn host(&mut self, operator: &str) -> Result<Check, String> {
        let text = self.text(operator)?;
        if text != "in" {
            return host(&text);
        }
        host(&self.text("host in")?)
    }
}

/// The set that a value of a rule describes: a list, `@FILE#POINTER`, or `{"tool": NAME}`.
///
/// # Errors
/// The value does not describe a set.
pub fn set(value: &Value, read: ReadSet<'_>) -> Result<Set, String> {
    match value {
        Value::Array(values) => Set::listed(values.clone()),
        Value::String(text) => match text.strip_prefix('@') {
            Some(reference) => Set::of_file(reference, read),
            None => Err(not_a_set(value)),
        },
        Value::Object(map) => {
            if let Some(other) = map.keys().find(|key| !["tool", "at"].contains(&key.as_str())) {
                return Err(format!("a set from a tool takes `tool` and `at`, not `{other}`"));
            }
            let set: ToolSet = serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
            Ok(Set::Tool(set))
        }
        _ => Err(not_a_set(value)),
    }
}

fn not_a_set(value: &Value) -> String {
    format!(
        "{value} is not a set: write a list such as `[\"a\", \"b\"]`, `@FILE#POINTER`, or `{{\"tool\": NAME}}`"
    )
}

/// Parses the value of `host`: an entry of a list of domains, or `origins(WORDS)`.
///
/// # Errors
/// The text is neither.
pub fn host(text: &str) -> Result<Check, String> {
    let Some(inside) = text.strip_prefix("origins(").and_then(|rest| rest.strip_suffix(')')) else {
        return HostEntry::new(text).map(Check::Host);
    };
    match words(inside.trim())? {
        From::Source => Err("`origins` takes `input`, `trusted` or `known`".into()),
        words => Ok(Check::HostOf(words)),
    }
}

/// Parses the value of `from`.
///
/// # Errors
/// The text is not one of the known words.
pub fn words(text: &str) -> Result<From, String> {
    match text {
        "input" => Ok(From::Input),
        "trusted" => Ok(From::Trusted),
        "known" => Ok(From::Known),
        "source(input)" => Ok(From::Source),
        other => Err(format!("`from` takes `input`, `trusted`, `known` or `source(input)`, not `{other}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Calls, BadRule> {
        Calls::parse(text, &|set| set.values(r#"[{"iban": "X"}]"#))
    }

    fn shown(text: &str) -> String {
        parse(text).unwrap().to_string()
    }

    #[test]
    fn rules_are_written_as_they_were_read() {
        for text in [
            "send_money",
            "write_file(output/**)",
            "shell(git log where x)",
            "send_money where amount <= 500 and recipient in @contacts.json#/*/iban",
            "send_money where amount >= -1.5 and to[*].mail matches \".*@corp\\\\.com\"",
            "fetch where url host *.example.org",
            "fetch where url host in origins(input) and n not in [1,2]",
            "send where body without @secrets.json#/*/number and to from source(input)",
            "t where [\"odd key\"] = {\"a\":[1]} and x present and y absent",
            "t where x from input and y in [\"a\",\"b\"] and z in {\"tool\":\"list_payees\",\"at\":\"/*/iban\"}",
            "write_file(a b/**) where content matches \"x\"",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn words_need_no_quotes_and_operators_no_blanks() {
        assert_eq!(shown("t  where  a=b  and c<=1 and d>=2"), "t where a = \"b\" and c <= 1 and d >= 2");
        assert_eq!(shown("t where day = 2026-01-31"), "t where day = \"2026-01-31\"");
        assert_eq!(shown("t where n = 1"), "t where n = 1");
        assert_eq!(shown("t where n = \"1\""), "t where n = \"1\"");
        assert_eq!(shown("t where id matches [A-Z]{2}[0-9]+"), "t where id matches \"[A-Z]{2}[0-9]+\"");
        assert_eq!(
            shown("shell(git*) where command matches (a|b)"),
            "shell(git*) where command matches \"(a|b)\""
        );
        assert_eq!(shown("t where a = somewhere"), "t where a = \"somewhere\"");
    }

    #[test]
    fn what_does_not_parse_says_what_to_write() {
        for (text, reason) in [
            ("t where", "a test is missing"),
            ("t where a", "is followed by nothing"),
            ("t where a ~ b", "`~` is not an operator"),
            ("t where a =", "a value is missing behind `=`"),
            ("t where a = and b = c", "a value is missing behind `=`"),
            ("t where a <= x", "compares numbers"),
            ("t where a = b or c = d", "write two rules"),
            ("t where a = b c", "must follow a test, not `c`"),
            ("t where a in b", "is not a set"),
            ("t where a in []", "without values"),
            ("t where a in [[1]]", "a set holds texts"),
            ("t where a in {\"tool\": \"x\", \"too\": 1}", "not `too`"),
            ("t where a in {\"tol\": \"x\"}", "not `tol`"),
            ("t where a matches (", "not a regular expression"),
            ("t where a matches a)|(b", "not a regular expression"),
            ("t where a matches \"x", "does not end"),
            ("t where a host http://x", "not a domain"),
            ("t where a from mail", "not `mail`"),
            ("t where a from source(mail)", "or `source(input)`"),
            ("t where a not b", "write `not in`"),
            ("t where a without b", "is not a set"),
            ("t where a host in origins(source(input))", "`origins` takes"),
            ("t where a host in origins(mail)", "not `mail`"),
            ("t where [0] = 1", "begins with the name"),
            ("t where a = {\"x\": 1", "JSON that is not valid"),
            ("t u", "a tool's name has no blanks"),
            ("t(x", "a `)` is missing"),
            ("where a = b", "a tool's name has no blanks"),
        ] {
            let found = parse(text).unwrap_err().to_string();
            assert!(found.contains(reason), "{text}: {found}");
        }
    }
}
