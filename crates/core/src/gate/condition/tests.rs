use super::*;
use crate::gate::{Calls, FileSet};
use proptest::prelude::*;
use serde_json::json;

static NO_SETS: ToolSets = ToolSets::none();

fn conditions(text: &str) -> Conditions {
    let read = |set: &FileSet| match &*set.file {
        "contacts.json" => set.values(r#"{"people": [{"iban": "DE1"}, {"iban": "DE2"}]}"#),
        other => Err(format!("there is no file `{other}`")),
    };
    Calls::parse(&format!("t where {text}"), &read).unwrap().conditions
}

fn hold(text: &str, arguments: &Value, rule: Rule) -> bool {
    conditions(text).hold(Facts { arguments, words: None, sets: &NO_SETS }, rule)
}

/// Returns whether an approval with that condition applies, and whether a block does.
fn both(text: &str, arguments: &Value) -> (bool, bool) {
    (hold(text, arguments, Rule::PreApproved), hold(text, arguments, Rule::Blocked))
}

const HOLDS: (bool, bool) = (true, true);
const FAILS: (bool, bool) = (false, false);
/// The result for a test that can't be decided: it never lets a call pass.
const UNDECIDED: (bool, bool) = (false, true);

#[test]
fn a_test_holds_fails_or_can_not_be_decided() {
    let call = json!({
        "amount": 500, "to": "DE1", "url": "https://a.example.org:8443/x?y", "note": "hi\nthere", "none": null,
        "flag": true, "list": ["a", "b"], "deep": {"x": [1]},
    });
    for (test, expected) in [
        ("amount <= 500", HOLDS),
        ("amount <= 499.9", FAILS),
        ("amount >= 500.0", HOLDS),
        ("amount = 500.0", HOLDS),
        ("amount = \"500\"", UNDECIDED),
        ("to <= 5", UNDECIDED),
        ("missing <= 5", UNDECIDED),
        ("none = x", UNDECIDED),
        ("none = null", HOLDS),
        ("to in @contacts.json#/people/*/iban", HOLDS),
        ("to in [\"DE3\"]", FAILS),
        ("to in [3]", UNDECIDED),
        ("to in @gone.json", UNDECIDED),
        ("to in {\"tool\": \"payees\"}", UNDECIDED),
        ("list in [\"a\"]", UNDECIDED),
        ("to matches DE", FAILS),
        ("to matches DE.", HOLDS),
        ("to matches D|DE1", HOLDS),
        ("note matches hi", FAILS),
        ("note matches .*", FAILS),
        ("amount matches .*", UNDECIDED),
        ("to from input", UNDECIDED),
        ("to present", HOLDS),
        ("none present", FAILS),
        ("none absent", HOLDS),
        ("missing absent", HOLDS),
        ("deep.y.z absent", HOLDS),
        ("amount.x absent", UNDECIDED),
        ("deep.x[0] = 1", HOLDS),
        ("deep = {\"x\": [1.0]}", HOLDS),
        ("url host a.example.org", HOLDS),
        ("url host *.example.org", HOLDS),
        ("url host a.example.org:8443", HOLDS),
        ("url host a.example.org:443", FAILS),
        ("url host example.org", FAILS),
        ("to host example.org", UNDECIDED),
    ] {
        assert_eq!(both(test, &call), expected, "{test}");
    }
}

#[test]
fn a_url_that_parsers_read_differently_can_not_be_decided() {
    for url in [
        "https://good.org\\@evil.org/",
        "https://good.org@evil.org/",
        "https://good.org%2fevil.org/",
        " https://good.org",
        "https:good.org",
        "https:///good.org",
        "https://good.org.",
        "https://góod.org",
        "//good.org",
        "good.org",
        "https://go\tod.org",
        "https://0x7f.1/",
    ] {
        assert_eq!(both("u host good.org", &json!({"u": url})), UNDECIDED, "{url}");
    }
    assert_eq!(both("u host good.org", &json!({"u": "HTTPS://GOOD.org?@evil.org"})), HOLDS);
    assert_eq!(both("u host good.org", &json!({"u": "https://evil.org/https://good.org"})), FAILS);
}

#[test]
fn every_element_must_pass_to_approve_and_one_is_enough_to_block() {
    let test = "to[*] matches .*@corp\\.com";
    for (to, expected) in [
        (json!(["a@corp.com", "b@corp.com"]), HOLDS),
        (json!(["a@corp.com", "b@evil.com"]), (false, true)),
        (json!(["b@evil.com"]), FAILS),
        (json!([]), FAILS),
        (json!(["a@corp.com", 7]), UNDECIDED),
        (json!("a@corp.com"), UNDECIDED),
        (json!(null), UNDECIDED),
    ] {
        assert_eq!(both(test, &json!({"to": to})), expected, "{to}");
    }
}

#[test]
fn a_failure_names_the_test_and_the_value() {
    let call = json!({"amount": 900, "to": "X".repeat(200), "list": []});
    let why = |text: &str| {
        let facts = Facts { arguments: &call, words: None, sets: &NO_SETS };
        conditions(text).failure(facts, Rule::PreApproved).unwrap()
    };
    assert_eq!(why("amount >= 1 and amount <= 500"), "`amount <= 500` does not hold for 900");
    assert!(why("to = x").contains("XXX…"));
    assert_eq!(why("list[*] = 1"), "`list[*] = 1` does not hold: the list is empty");
    assert_eq!(why("gone = 1"), "`gone = 1` can't be decided: `gone` is missing");
    assert_eq!(why("to in @gone.json"), "`to in @gone.json` can't be decided: there is no file `gone.json`");
}

struct Says(bool);

impl Provenance for Says {
    fn holds(&self, _: From, _: &Value) -> bool {
        self.0
    }

    fn names_host(&self, _: From, host: &str) -> bool {
        self.0 && host == "example.org"
    }
}

#[test]
fn provenance_decides_about_single_values() {
    for (says, expected) in [(true, HOLDS), (false, FAILS)] {
        let call = json!({"x": "word"});
        let facts = Facts { arguments: &call, words: Some(&Says(says)), sets: &NO_SETS };
        let conditions = conditions("x from input");
        assert_eq!((conditions.hold(facts, Rule::PreApproved), conditions.hold(facts, Rule::Ask)), expected);
    }
    let call = json!({"x": ["word"]});
    let facts = Facts { arguments: &call, words: Some(&Says(true)), sets: &NO_SETS };
    assert!(!conditions("x from input").hold(facts, Rule::PreApproved));
}

#[test]
fn a_value_contains_nothing_of_a_set() {
    let test = "body without [\"AB-123 456\",77,\"x1\"]";
    for (body, expected) in [
        (json!("all is well"), HOLDS),
        (json!("it is AB-123 456."), FAILS),
        (json!("it is ab123456, as you know"), FAILS),
        (json!("A B 1 2 3 4 5 6"), FAILS),
        (json!("room 77"), FAILS),
        (json!("room 770"), HOLDS),
        (json!(77.0), FAILS),
        (json!("code: X1"), FAILS),
        (json!("x12"), HOLDS),
        (json!({"parts": ["fine", {"AB123456": 1}]}), FAILS),
        (json!(["fine", "AB-123 456"]), FAILS),
        (json!(null), UNDECIDED),
    ] {
        assert_eq!(both(test, &json!({"body": body})), expected, "{body}");
    }
    assert_eq!(both("body without @gone.json", &json!({"body": "x"})), UNDECIDED);
}

#[test]
fn a_value_is_none_of_a_set() {
    let test = "to not in [\"a\",\"b\"]";
    for (to, expected) in
        [(json!("c"), HOLDS), (json!("a"), FAILS), (json!(1), UNDECIDED), (json!(["a"]), UNDECIDED)]
    {
        assert_eq!(both(test, &json!({"to": to})), expected, "{to}");
    }
}

#[test]
fn the_host_of_an_address_is_one_that_the_input_names() {
    for (url, expected) in [
        ("https://example.org/a?b", HOLDS),
        ("https://EXAMPLE.org", HOLDS),
        ("https://evil.org/example.org", FAILS),
        ("https://example.org@evil.org/", UNDECIDED),
        ("example.org", UNDECIDED),
    ] {
        let call = json!({"url": url});
        let facts = Facts { arguments: &call, words: Some(&Says(true)), sets: &NO_SETS };
        let conditions = conditions("url host in origins(input)");
        let found = (conditions.hold(facts, Rule::PreApproved), conditions.hold(facts, Rule::Ask));
        assert_eq!(found, expected, "{url}");
        assert!(conditions.name_values());
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..600i64).prop_map(Value::from),
        prop::sample::select(vec![0.5, 500.0, -1.25]).prop_map(Value::from),
        prop::sample::select(vec!["DE1", "DE3", "a@corp.com", "evil@x.org", "", "https://a.example.org/"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[ab]", inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_arguments() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", any_value(), 0..4)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

fn any_test() -> impl Strategy<Value = String> {
    let path = prop::sample::select(vec!["a", "b", "a[*]", "a.b", "b[0]", "a[*].a", "c"]);
    let check = prop::sample::select(vec![
        "= 500",
        "= DE1",
        "<= 500",
        ">= 0.5",
        "in [\"DE1\", 7]",
        "in @contacts.json#/people/*/iban",
        "in @gone.json",
        "matches .*@corp\\.com",
        "host *.example.org",
        "from input",
        "present",
        "absent",
        "= {\"a\": 1}",
    ]);
    (path, check).prop_map(|(path, check)| format!("{path} {check}"))
}

fn joined(tests: &[String]) -> String {
    tests.join(" and ")
}

proptest! {
    #[test]
    fn a_further_test_never_allows_and_never_blocks_more(
        tests in prop::collection::vec(any_test(), 1..4), more in any_test(), call in any_arguments(),
    ) {
        let (fewer, all) = (joined(&tests), format!("{} and {more}", joined(&tests)));
        for rule in [Rule::PreApproved, Rule::Ask, Rule::Blocked] {
            prop_assert!(!hold(&all, &call, rule) || hold(&fewer, &call, rule));
        }
    }

    /// Tests that only an undecided test makes a difference between the directions of a rule with one value for each
    /// test.
    #[test]
    fn what_allows_would_block_too(tests in prop::collection::vec(any_test(), 1..4), call in any_arguments()) {
        let text = joined(&tests);
        prop_assert!(!hold(&text, &call, Rule::PreApproved) || hold(&text, &call, Rule::Blocked));
    }

    #[test]
    fn only_the_named_argument_counts(test in any_test(), call in any_arguments(), other in any_value()) {
        let named = conditions(&test).tests()[0].path.argument().to_owned();
        let mut changed = call.clone();
        if let Value::Object(map) = &mut changed {
            for name in ["a", "b", "c", "d"].into_iter().filter(|name| *name != named) {
                map.insert(name.to_owned(), other.clone());
            }
        }
        prop_assert_eq!(both(&test, &call), both(&test, &changed));
    }

    #[test]
    fn the_order_of_keys_has_no_meaning(test in any_test(), call in any_arguments()) {
        fn reversed(value: &Value) -> Value {
            match value {
                Value::Object(map) => {
                    Value::Object(map.iter().rev().map(|(key, value)| (key.clone(), reversed(value))).collect())
                }
                Value::Array(items) => items.iter().map(reversed).collect(),
                other => other.clone(),
            }
        }
        prop_assert_eq!(both(&test, &call), both(&test, &reversed(&call)));
    }

    #[test]
    fn a_rule_is_written_as_it_was_read(tests in prop::collection::vec(any_test(), 1..4)) {
        let once = conditions(&joined(&tests));
        let again = conditions(&once.to_string());
        prop_assert_eq!(once, again);
    }
}
