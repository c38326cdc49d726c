//! Rules as the command line takes them, and their evaluation.

use super::parts;
use llm_do_core::gate::{Calls, Facts, Rule, ToolSets};
use serde_json::{Value, json};

/// Reads a rule, writes it, reads it again, and compares both with the arguments of a call.
pub fn run(bytes: &[u8]) {
    let [rule, arguments] = parts(bytes).map(|text| text.and_then(|text| std::str::from_utf8(text).ok()));
    let Some(rule) = rule else { return };
    let calls = match parse(rule.trim_end_matches('\n')) {
        Ok(calls) => calls,
        Err(message) => {
            assert!(!message.is_empty());
            return;
        }
    };
    let written = calls.to_string();
    let again = parse(&written).unwrap_or_else(|message| panic!("{written:?} was written: {message}"));
    assert_eq!(calls, again, "{written:?} is not the same rule");
    let arguments =
        arguments.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| json!({"a": "x"}));
    let holds = |calls: &Calls, rule| calls.conditions.hold(facts(&arguments), rule);
    for rule in [Rule::PreApproved, Rule::Ask, Rule::Blocked] {
        assert_eq!(holds(&calls, rule), holds(&again, rule));
        assert_eq!(calls.conditions.failure(facts(&arguments), rule).is_none(), holds(&calls, rule));
    }
    assert!(
        !holds(&calls, Rule::PreApproved) || holds(&calls, Rule::Blocked),
        "{written:?} allows what it would not block"
    );
    // A comparison with any schema ends.
    for test in calls.conditions.tests() {
        let _ = test.fits(&arguments);
    }
}

fn parse(text: &str) -> Result<Calls, String> {
    Calls::parse(text, &|set| set.values(r#"["x", 1, true]"#)).map_err(|error| error.to_string())
}

fn facts(arguments: &Value) -> Facts<'_> {
    static SETS: ToolSets = ToolSets::none();
    Facts { arguments, words: None, sets: &SETS }
}
