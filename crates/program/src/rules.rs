//! Rules in files: `tool_rules` of a worker, `approval` of a manifest and of the user's configuration
//! (`docs/reference/approvals.md`).

use crate::{
    diagnostics::{Diagnostic, codes},
    manifest,
    shape::rule_of,
    source::{SourceTree, plain},
    span::Span,
    yaml::{Data, Entry, Node},
};
use llm_do_core::{
    gate::{
        ArgumentPath, Calls, Check, Conditions, Facts, FileSet, ReadSet, Rule, RuleLine, Set, Subject, Test,
        ToolSets, WholeMatch, host_of, set_of, words_of,
    },
    toolset::ToolsetKind,
    toolsets::filesystem::Filesystem,
};
use serde_json::Value;

/// The largest file that a set is read from, in bytes.
const MOST_SET_BYTES: u64 = 4 << 20;

/// A rule of a file.
#[derive(Clone, Debug)]
pub(crate) struct FileRule {
    /// The calls that it applies to.
    pub(crate) calls: Calls,
    /// The decision of the rule, or `None` if it only has a time limit or retries.
    pub(crate) rule: Option<Rule>,
    /// The place of the tool's name.
    pub(crate) span: Span,
    /// The place of each test, in order.
    pub(crate) tests: Vec<Span>,
    /// True if the rule is an item of a list, which can have conditions.
    pub(crate) is_item: bool,
}

/// A rule as written: an entry of a map or an item of a list.
pub(crate) struct Written<'a> {
    /// `TOOL` or `TOOL(PATTERN)`.
    pub(crate) text: &'a str,
    pub(crate) span: &'a Span,
    /// The map of its keys, or the rule alone.
    pub(crate) value: &'a Node,
    pub(crate) is_item: bool,
}

/// Returns the rules of a map by tool, or of a list.
pub(crate) fn written(node: Option<&Node>) -> Vec<Written<'_>> {
    let of_map = node.map(Node::entries).unwrap_or_default().iter().map(|entry| Written {
        text: &entry.key,
        span: &entry.key_span,
        value: &entry.value,
        is_item: false,
    });
    let of_list = node.map(Node::items).unwrap_or_default().iter().filter_map(|item| {
        let tool = item.get("tool")?;
        Some(Written { text: tool.as_text()?, span: &tool.span, value: item, is_item: true })
    });
    of_map.chain(of_list).collect()
}

impl Written<'_> {
    /// Returns the decision of the rule about the calls to which it applies.
    pub(crate) fn rule(&self) -> Option<Rule> {
        let flag = |key: &str| self.value.get(key).and_then(Node::as_flag);
        if self.is_item {
            return self.value.get("then").and_then(rule_of);
        }
        match (rule_of(self.value), flag("allowed"), flag("approval_required"), flag("pre_approved")) {
            (Some(rule), ..) => Some(rule),
            (_, Some(false), ..) => Some(Rule::Blocked),
            (_, _, Some(true), _) | (_, _, None, Some(false)) => Some(Rule::Ask),
            (_, _, Some(false), _) | (_, _, None, Some(true)) => Some(Rule::PreApproved),
            _ => None,
        }
    }

    /// Reads the rule with its conditions and examples. Adds mistakes to `found`.
    pub(crate) fn read(&self, read: ReadSet<'_>, found: &mut Vec<Diagnostic>) -> Option<FileRule> {
        let pattern = manifest::pattern(self.text, self.span, found)?;
        let (mut tests, mut spans, mut whole) = (Vec::new(), Vec::new(), true);
        for entry in self.value.get("when").map(Node::entries).unwrap_or_default() {
            match condition(entry, read, found) {
                Some(of_argument) => {
                    spans.extend(of_argument.iter().map(|_| entry.key_span.to(&entry.value.span)));
                    tests.extend(of_argument);
                }
                None => whole = false,
            }
        }
        let calls = Calls { pattern, conditions: Conditions::new(tests) };
        let rule = self.rule();
        let read = FileRule { calls, rule, span: self.span.clone(), tests: spans, is_item: self.is_item };
        // A rule that lacks a condition would apply to more calls than its author means.
        let read = whole.then_some(read)?;
        examples(&read, self.value, found);
        Some(read)
    }
}

impl FileRule {
    /// Returns the rule in the form of the gate, if it decides about approval.
    pub(crate) fn line(&self) -> Option<RuleLine> {
        let line = RuleLine::new(self.calls.pattern.clone(), self.rule?, self.span.origin());
        Some(line.when(self.calls.conditions.clone()))
    }
}

/// Reads the tests of one argument: `args.amount: {max: 500}`.
fn condition(entry: &Entry, read: ReadSet<'_>, found: &mut Vec<Diagnostic>) -> Option<Vec<Test>> {
    let mut wrong = |message: String, span: &Span| {
        found.push(
            Diagnostic::error(codes::BAD_RULE_CONDITION, message)
                .at(span)
                .help("write `args.ARGUMENT: {TEST: VALUE}`, for example `args.amount: {max: 500}`"),
        );
    };
    let key = entry.key.as_str();
    let Some(path) =
        key.strip_prefix("args.").or_else(|| key.strip_prefix("args").filter(|rest| rest.starts_with('[')))
    else {
        wrong(format!("`{key}` does not begin with `args.`"), &entry.key_span);
        return None;
    };
    let path = match path.parse::<ArgumentPath>() {
        Ok(path) => path,
        Err(error) => {
            wrong(error.to_string(), &entry.key_span);
            return None;
        }
    };
    let given = entry.value.entries();
    if given.is_empty() {
        wrong(format!("`{key}` has no test"), &entry.key_span);
        return None;
    }
    let mut tests = Vec::new();
    let mut whole = true;
    for test in given {
        match check(&test.key, &test.value, read) {
            Ok(check) => {
                let test_of = Test { path: path.clone(), check };
                if let Some(set) = test_of.set()
                    && let Some(FileSet { file, .. }) = set.file()
                    && let Err(reason) = set.values(&ToolSets::none())
                {
                    found.push(
                        Diagnostic::error(
                            codes::UNREADABLE_SET,
                            format!("this set cannot be read: {reason}"),
                        )
                        .at(&test.value.span)
                        .note("a test of a set that cannot be read never lets a call pass")
                        .help(format!(
                            "make `{file}` a JSON file with these values, relative to the program's root"
                        )),
                    );
                    whole = false;
                }
                tests.push(test_of);
            }
            Err(reason) => {
                found.push(Diagnostic::error(codes::BAD_RULE_CONDITION, reason).at(&test.value.span));
                whole = false;
            }
        }
    }
    whole.then_some(tests)
}

fn check(key: &str, value: &Node, read: ReadSet<'_>) -> Result<Check, String> {
    let text = || value.as_text().unwrap_or_default();
    let number = || match &value.data {
        Data::Number(number) => Ok(number.clone()),
        _ => Err(format!("`{key}` compares numbers")),
    };
    match key {
        "equals" => Ok(Check::Equals(value.to_json())),
        "max" => number().map(Check::AtMost),
        "min" => number().map(Check::AtLeast),
        "in" => set_of(&value.to_json(), read).map(Check::In),
        "not_in" => set_of(&value.to_json(), read).map(Check::NotIn),
        "without" => set_of(&value.to_json(), read).map(Check::Without),
        "matches" => WholeMatch::new(text()).map(Check::Matches),
        "host" => host_of(text()),
        "from" => words_of(text()).map(Check::From),
        // The shape of the file allows no other key.
        _ if (key == "present") == (value.as_flag() == Some(true)) => Ok(Check::Present),
        _ => Ok(Check::Absent),
    }
}

/// Checks the examples of a rule. A rule that matches the wrong calls does not protect anything.
fn examples(rule: &FileRule, keys: &Node, found: &mut Vec<Diagnostic>) {
    for (key, expected) in [("match", true), ("not_match", false)] {
        let Some(node) = keys.get(key) else { continue };
        let lone = [node.clone()];
        let items = if matches!(node.data, Data::List(_)) { node.items() } else { &lone };
        for example in items {
            let (fits, shown) = match &example.data {
                Data::Text(text) => (matches_text(rule, text), text.clone()),
                Data::Map(_) => {
                    let arguments = example.to_json();
                    (matches_arguments(rule, &arguments), arguments.to_string())
                }
                _ => {
                    found.push(
                        Diagnostic::error(
                            codes::RULE_EXAMPLE,
                            format!("`{key}` takes texts and maps of arguments, not {}", example.kind()),
                        )
                        .at(&example.span),
                    );
                    continue;
                }
            };
            if fits != expected {
                let not = if expected { "does not match" } else { "matches" };
                let finding =
                    Diagnostic::error(codes::RULE_EXAMPLE, format!("`{}` {not} `{shown}`", rule.calls))
                        .at(&example.span);
                found.push(match &example.data {
                    Data::Text(_) => finding
                        .note(
                            "in paths, `*` does not match `/` and `**` does; elsewhere, `*` matches any text",
                        )
                        .help("change the pattern, or the example"),
                    _ => finding.help("change the conditions, or the example"),
                });
            }
        }
    }
}

/// Returns true if a rule matches an example of its main argument, or of a tool's name if it has no pattern.
fn matches_text(rule: &FileRule, example: &str) -> bool {
    let pattern = &rule.calls.pattern;
    let of_files = Filesystem.tools().iter().any(|tool| pattern.names_one_of(&[tool]));
    match (pattern.has_arguments(), of_files) {
        (false, _) => pattern.names_one_of(&[example]),
        (true, true) => pattern.fits_arguments(&Subject::Path(example.trim_start_matches('/').to_owned())),
        (true, false) => pattern.fits_arguments(&Subject::Text(example.to_owned())),
    }
}

/// Returns true if a rule would apply to these arguments, by its conditions. Facts that are only known in a run are
/// ignored: the origins of words, and sets from tools.
fn matches_arguments(rule: &FileRule, arguments: &Value) -> bool {
    let known = |test: &&Test| match &test.check {
        Check::From(_) | Check::HostOf(_) => false,
        _ => test.set().is_none_or(Set::is_known),
    };
    let tests = rule.calls.conditions.tests().iter().filter(known).cloned().collect();
    let facts = Facts { arguments, words: None, sets: &ToolSets::none() };
    Conditions::new(tests).hold(facts, rule.rule.unwrap_or(Rule::PreApproved))
}

/// Reads a set from a file of the program that names it.
///
/// # Errors
/// The reason why it can't be read.
pub(crate) fn read_set(tree: &dyn SourceTree, set: &FileSet) -> Result<Vec<Value>, String> {
    set.values(&read_set_file(tree, &set.file)?)
}

/// Reads the file of a set from the program that names it.
///
/// # Errors
/// The reason why it can't be read.
pub(crate) fn read_set_file(tree: &dyn SourceTree, path: &str) -> Result<String, String> {
    let wrong = |reason: String| format!("`{path}`: {reason}");
    let plain = plain(path).map_err(|error| wrong(error.to_string()))?;
    let bytes = tree.read(&plain, MOST_SET_BYTES).map_err(|error| wrong(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8 text".into()))
}

/// A guess at the test that the author meant by a pattern over the text of all arguments: `*"recipient":"*@corp.com"*`.
#[derive(Debug, PartialEq)]
pub(crate) struct GuessedTest {
    argument: String,
    /// True if the value is a regular expression.
    matches: bool,
    value: String,
}

impl GuessedTest {
    /// Returns the tests for a pattern. `input` is the schema of the tool's input.
    pub(crate) fn all(pattern: &str, input: Option<&Value>) -> Vec<Self> {
        let tests: Vec<Self> =
            quoted_pairs(pattern).iter().map(|(key, value)| Self::new(key, value)).collect();
        if !tests.is_empty() {
            return tests;
        }
        let first = input.and_then(|input| input.get("properties")?.as_object()?.keys().next());
        vec![Self::new(first.map_or("ARGUMENT", String::as_str), pattern)]
    }

    fn new(argument: &str, glob: &str) -> Self {
        let matches = glob.contains(['*', '?']);
        let mut value = String::new();
        for c in glob.chars() {
            match c {
                '*' if matches => value.push_str(".*"),
                '?' if matches => value.push('.'),
                c if matches && !(c.is_alphanumeric() || matches!(c, '@' | '_' | '-' | ' ' | '/')) => {
                    value.extend(['\\', c]);
                }
                c => value.push(c),
            }
        }
        Self { argument: argument.to_owned(), matches, value }
    }

    /// Formats the test for the command line.
    pub(crate) fn as_text(&self) -> String {
        let operator = if self.matches { "matches" } else { "=" };
        format!("{} {operator} {}", self.argument, Value::from(self.value.as_str()))
    }

    /// Formats the test for `when`.
    pub(crate) fn as_yaml(&self) -> String {
        let key = if self.matches { "matches" } else { "equals" };
        format!("args.{}: {{{key}: {}}}", self.argument, Value::from(self.value.as_str()))
    }
}

/// Returns the pairs `"key":"value"` in a text.
fn quoted_pairs(text: &str) -> Vec<(&str, &str)> {
    let mut pairs = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('"') {
        let Some((key, after)) = after.split_once('"') else { break };
        rest = after;
        let Some(value) = after.trim_start().strip_prefix(':') else { continue };
        let Some(value) = value.trim_start().strip_prefix('"') else { continue };
        let Some((value, after)) = value.split_once('"') else { break };
        pairs.push((key, value));
        rest = after;
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pattern_over_all_arguments_becomes_a_condition() {
        let texts = |pattern: &str, input: Option<&Value>| -> Vec<String> {
            GuessedTest::all(pattern, input).iter().map(GuessedTest::as_text).collect()
        };
        assert_eq!(texts(r#"*"recipient":"*@corp.com"*"#, None), [r#"recipient matches ".*@corp\\.com""#]);
        assert_eq!(texts(r#"{"a":"x","b":"y*"}"#, None), [r#"a = "x""#, r#"b matches "y.*""#]);
        let input = json!({"properties": {"to": {}, "body": {}}});
        assert_eq!(texts("*@corp.com", Some(&input)), [r#"to matches ".*@corp\\.com""#]);
        assert_eq!(texts("x", None), [r#"ARGUMENT = "x""#]);
        let yaml: Vec<String> = GuessedTest::all("x.y", None).iter().map(GuessedTest::as_yaml).collect();
        assert_eq!(yaml, [r#"args.ARGUMENT: {equals: "x.y"}"#]);
    }
}
