//! `llm-do prices`: prices of models, and the user's own figures among them.

use crate::scenario::Scenario;
use serde_json::Value;

#[test]
fn prices_of_usual_models_are_listed_with_their_date() {
    let told = Scenario::new().run(&["prices", "list", "openai:gpt-4o-mini"]);
    assert_eq!(told.code, Some(0), "{told}");
    let row = told.stdout.lines().find(|line| line.starts_with("openai:gpt-4o-mini ")).unwrap_or_default();
    assert_eq!(
        row.split_whitespace().skip(1).collect::<Vec<_>>(),
        ["0.15", "0.075", "0.6", "128000"],
        "{told}"
    );
    assert!(told.stderr.contains("genai-prices=="), "{told}");
}

#[test]
fn own_prices_come_first_and_take_precedence() {
    let config =
        "prices:\n  'openai:gpt-4o*': {input: 1, output: 2, above: {tokens: 1000, input: 3, output: 4}}\n";
    let scenario = Scenario::new().home_file("config.yaml", config);
    let told = scenario.run(&["prices", "list", "--json", "openai:gpt-4o"]);
    let list: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(list["yours"]["openai:gpt-4o*"]["above"]["output"], 4.0, "{told}");
    assert_eq!(list["models"]["openai:gpt-4o"]["input"], 2.5, "{told}");
    let told = scenario.run(&["prices", "list", "openai:gpt-4o"]);
    assert!(told.stdout.lines().nth(1).is_some_and(|line| line.ends_with("yours")), "{told}");
}

#[test]
fn an_unknown_name_is_an_error_that_says_how_to_add_a_price() {
    let told = Scenario::new().run(&["prices", "list", "gpt"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(
        told.stderr.contains("no model begins with `gpt`") && told.stderr.contains("provider:model"),
        "{told}"
    );
}
