//! The SARIF output is valid by the schema of SARIF 2.1.0 that OASIS publishes.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod bad_programs;
mod stand_in;

use bad_programs::{cases, findings};
use llm_do_program::diagnostics::{Code, Diagnostic, codes, sarif::to_sarif};
use serde_json::Value;
use std::sync::LazyLock;

static SCHEMA: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
    // As published, the pattern of a language has a bracket too many, which not every regex library takes. We write none.
    let schema = include_str!("sarif/sarif-schema-2.1.0.json").replace("{2}]?$", "{2}$");
    let schema: Value = serde_json::from_str(&schema).unwrap();
    jsonschema::draft7::new(&schema).unwrap()
});

#[track_caller]
fn assert_valid(log: &Value) {
    let wrong: Vec<String> =
        SCHEMA.iter_errors(log).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{log:#}");
}

#[test]
fn every_bad_program_is_told_in_valid_sarif() {
    let mut fixes = 0;
    for folder in cases() {
        let found = findings(&folder);
        let log = to_sarif(&found, "0.1.0", Some("file:///program/"));
        assert_valid(&log);
        let results = log["runs"][0]["results"].as_array().unwrap();
        assert_eq!(results.len(), found.len());
        let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
        for (result, finding) in results.iter().zip(&found) {
            let rule = &rules[usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap()];
            assert_eq!((&rule["id"], &result["ruleId"]), (&result["ruleId"], &Value::from(finding.code.id)));
            assert!(
                rule["help"]["markdown"].as_str().unwrap().starts_with(&format!("# {}", finding.code.id))
            );
            if let Some(region) = result["locations"][0]["physicalLocation"].get("region") {
                let (line, column) = finding.span.as_ref().unwrap().line_column().unwrap();
                assert_eq!((&region["startLine"], &region["startColumn"]), (&line.into(), &column.into()));
            }
            assert_eq!(result.get("fixes").is_some(), finding.fix.is_some());
            fixes += usize::from(finding.fix.is_some());
        }
    }
    assert!(fixes > 3, "no fix is told");
}

#[test]
fn nothing_wrong_is_valid_too() {
    assert_valid(&to_sarif(&[], "0.1.0", None));
}

#[test]
fn every_rule_is_one() {
    let made = |code: &Code| match code.id.starts_with('W') {
        true => Diagnostic::warning(*code, code.title),
        false => Diagnostic::error(*code, code.title),
    };
    let found: Vec<_> = codes::ALL.iter().map(made).collect();
    assert_valid(&to_sarif(&found, "0.1.0", None));
}

#[test]
fn the_schema_is_not_empty_words() {
    let mut log = to_sarif(&[], "0.1.0", None);
    log["runs"][0]["columnKind"] = "bytes".into();
    assert!(!SCHEMA.is_valid(&log));
}
