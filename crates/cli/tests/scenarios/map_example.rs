//! The example of `llm-do map` on a public table, and inputs of other forms.

use crate::{
    recorded_examples::examples,
    scenario::{Scenario, lines},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs};

#[test]
fn the_public_table_is_sorted_without_a_model() {
    let scenario = Scenario::new();
    // The map notes in the project's folder where it has written, so this is a copy.
    let target = scenario.home().join("strikes");
    crate::recorded_examples::copy(&examples().join("strikes"), &target);
    let table = target.join("strikes.csv");
    let script = format!("script:{}", examples().join("scripts/strikes.yaml").display());
    let (target, table) = (target.display().to_string(), table.display().to_string());
    let words =
        ["map", &target, &table, "-o", "strikes.jsonl", "--model", &script, "--max-cost", "unlimited"];
    let told =
        scenario.run(&[&words[..], &["--ignore-column", "date", "--ignore-column", "airport"]].concat());
    assert_eq!(told.code, Some(0), "{told}");
    let rows = lines(&scenario.read("strikes.jsonl").unwrap());
    let reports = fs::read_to_string(&table).unwrap();
    assert_eq!(rows.len(), reports.lines().count() - 1);
    let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
    for (row, report) in rows.iter().zip(reports.lines().skip(1)) {
        let output = &row["output"];
        *groups.entry(output["group"].as_str().expect("a group")).or_default() += 1;
        if report.ends_with(",substantial") {
            assert_eq!(output["severity"], "serious", "{report}");
        }
        if report.contains("Turkey vulture") && report.ends_with(",none") {
            assert_eq!(output["group"], "raptor", "{report}");
        }
    }
    assert!(groups.len() >= 6 && groups["unknown"] > groups["raptor"], "{groups:?}");
}

/// Runs a map over a table of that name and content. Returns the exit code, stderr and the inputs of the rows.
fn mapped(name: &str, content: &[u8]) -> (Option<i32>, String, Vec<Value>) {
    let worker =
        "---\nmodel: script:s.yaml\nparameters: {text: string, n: integer?, flag: boolean?}\n---\nX\n";
    let scenario = Scenario::new().file("w.worker", worker).file("s.yaml", "answers: [{text: done}]\n");
    fs::write(scenario.project().join(name), content).expect("the table");
    let told = scenario.run(&["map", "w.worker", name, "-o", "out.jsonl", "--max-cost", "unlimited"]);
    // The inputs of the runs, as their records have them.
    let journal = scenario.read("out.jsonl.map/journal-000000.jsonl").unwrap_or_default();
    let records = lines(&journal);
    let called = records.into_iter().filter(|line| line["record"]["kind"] == "call_started");
    (told.code, told.stderr, called.map(|line| line["record"]["input"].clone()).collect())
}

#[test]
fn texts_become_values_by_the_schema_alone() {
    let (code, told, inputs) =
        mapped("in.tsv", b"text\tn\tflag\r\n007\t12\ttrue\r\n\t\t\r\ntrue\t1.5\t\r\nx\t3\tTRUE\r\n");
    assert_eq!(code, Some(1), "{told}");
    assert_eq!(inputs, [json!({"text": "007", "n": 12, "flag": true}), json!({"text": ""})]);
    assert!(
        told.contains("in.tsv:4 (row 3): `n=1.5`") && told.contains("in.tsv:5 (row 4): `flag=TRUE`"),
        "{told}"
    );
}

#[test]
fn lines_of_json_keep_their_types_and_broken_ones_fail_alone() {
    let text = b"\xef\xbb\xbf{\"text\": \"a\", \"n\": 1}\n\n\"only a text\"\n{\"text\": 5}\n{\"text\": \"cut off\n[1]\n";
    let (code, told, inputs) = mapped("in.jsonl", text);
    assert_eq!(code, Some(1), "{told}");
    assert_eq!(inputs, [json!({"text": "a", "n": 1}), json!({"text": "only a text"})]);
    for place in ["in.jsonl:4 (row 3)", "in.jsonl:5 (row 4)", "in.jsonl:6 (row 5)"] {
        assert!(told.contains(place), "{told}");
    }
}

#[test]
fn what_is_no_text_is_named() {
    let utf16: Vec<u8> = "\u{feff}text\na\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let (code, told, _) = mapped("in.csv", &utf16);
    assert!(code == Some(2) && told.contains("UTF-16") && told.contains("iconv"), "{told}");
    let (code, told, inputs) = mapped("in.csv", b"text\nfine\n\xff\xfe\xfd\n");
    assert!(code == Some(1) && told.contains("in.csv:3 (row 2): it is not UTF-8 text"), "{told}");
    assert_eq!(inputs, [json!({"text": "fine"})]);
    let (code, told, _) = mapped("in.csv", b"");
    assert!(code == Some(2) && told.contains("in.csv:1:"), "{told}");
    let (code, told, inputs) = mapped("in.csv", b"text\n");
    assert!(code == Some(0) && told.contains("0 rows") && inputs.is_empty(), "{told}");
}
