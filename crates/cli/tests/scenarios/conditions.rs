//! Rules with conditions on arguments, in files and on the command line (`docs/reference/approvals.md`).

use crate::{python::fixture::has_python, scenario::Scenario};
use insta::assert_snapshot;
use serde_json::{Value, json};

const TOOLS: &str = "from llm_do import tool\n\n\
    @tool(risk='write')\ndef send_money(amount: float, recipient: str) -> str:\n    return f'sent {amount}'\n\n\
    @tool(risk='read')\ndef list_payees() -> list:\n    return [{'iban': 'DE1'}, {'iban': 'DE3'}]\n";

/// A worker with these rules that sends the amounts to the recipients, one call in each turn.
fn sending(rules: &str, calls: &[(f64, &str)]) -> Scenario {
    let send = |(amount, recipient): &(f64, &str)| json!({"tool": "send_money", "arguments": {"amount": amount, "recipient": recipient}});
    let answers =
        calls.iter().enumerate().map(|(turn, call)| json!({"when": {"turn": turn}, "calls": [send(call)]}));
    let answers: Vec<Value> = answers.chain([json!({"text": "done"})]).collect();
    Scenario::new()
        .file("main.worker", &format!("---\nmodel: script:s.yaml\ntoolsets: [custom]\n{rules}\n---\nPay.\n"))
        .file("tools.py", TOOLS)
        .file("contacts.json", r#"[{"name": "Ann", "iban": "DE1"}, {"name": "Bob", "iban": "DE2"}]"#)
        .file("s.yaml", &json!({ "answers": answers }).to_string())
}

/// Returns true for each call that ran.
fn sent(scenario: &Scenario, calls: usize) -> Vec<bool> {
    let journal = scenario.journal();
    let ran = |turn: usize| {
        let path = format!("0/{turn}.0");
        journal.iter().any(|record| record["path"] == *path && record["kind"] == "tool_ended")
    };
    (0..calls).map(ran).collect()
}

const CALLS: [(f64, &str); 4] = [(500.0, "DE1"), (500.5, "DE1"), (5.0, "DE3"), (5.0, "DE2")];
const SMALL_TO_CONTACTS: &str = "\n- tool: send_money\n  when: {args.amount: {max: 500}, args.recipient: {in: '@contacts.json#/*/iban'}}\n  \
     then: preApproved\n  match: [{amount: 1, recipient: DE1}]\n  not_match: [{amount: 501, recipient: DE1}, {amount: 1}]";

#[test]
fn conditions_hold_in_a_worker_a_manifest_and_on_the_command_line() {
    if !has_python() {
        return;
    }
    let expected = [true, false, false, true];
    // The project's own mounts hold what the tool may write, so that a file may pre-approve it.
    let worker = sending(&format!("tool_rules:{SMALL_TO_CONTACTS}"), &CALLS);
    worker.run(&["."]);
    assert_eq!(sent(&worker, 4), expected);
    let rules = SMALL_TO_CONTACTS.replace('\n', "\n  ");
    let manifest = sending("", &CALLS).file("project.yaml", &format!("approval:\n  rules:{rules}\n"));
    manifest.run(&["."]);
    assert_eq!(sent(&manifest, 4), expected);
    let operator = sending("", &CALLS);
    operator.run(&[".", "--allow", "send_money where amount <= 500 and recipient in @contacts.json#/*/iban"]);
    assert_eq!(sent(&operator, 4), expected);
    let denied = sending("tool_rules: {send_money: preApproved}", &CALLS);
    denied.run(&[
        ".",
        "--deny",
        "send_money where recipient = DE3",
        "--ask",
        "send_money where amount >= 500.5",
    ]);
    assert_eq!(sent(&denied, 4), expected);
}

#[test]
fn a_set_from_a_tool_is_read_before_the_first_request() {
    if !has_python() {
        return;
    }
    let scenario = sending("", &CALLS);
    scenario.run(&[
        ".",
        "--allow",
        "send_money where recipient in {\"tool\": \"list_payees\", \"at\": \"/*/iban\"}",
    ]);
    assert_eq!(sent(&scenario, 4), [true, true, true, false]);
    let journal = scenario.journal();
    let at = |wanted: &dyn Fn(&Value) -> bool| journal.iter().position(wanted).expect("such a record");
    assert!(at(&|record| record["path"] == "0/set.0") < at(&|record| record["kind"] == "model_requested"));
}

#[test]
fn a_resumed_run_keeps_the_values_of_a_set() {
    if !has_python() {
        return;
    }
    let scenario = sending("", &[(900.0, "DE1"), (5.0, "DE2"), (5.0, "DE9")]);
    let allow = "send_money where amount <= 500 and recipient in @contacts.json#/*/iban";
    scenario.run(&[".", "--approval", "defer", "--allow", allow]);
    let scenario = scenario.file("contacts.json", r#"[{"iban": "DE9"}]"#);
    scenario.run(&["runs", "resume", "last", "--approve", "0/0.0"]);
    assert_eq!(sent(&scenario, 3), [true, true, false]);
}

#[test]
fn an_explanation_says_why_the_other_rules_do_not_decide() {
    if !has_python() {
        return;
    }
    let scenario = sending(
        &format!(
            "tool_rules:{SMALL_TO_CONTACTS}\n- {{tool: send_money, when: {{args.recipient: {{equals: DE9}}}}, then: blocked}}"
        ),
        &[],
    );
    assert_snapshot!(scenario.run(&["gate", "explain", "send_money", r#"{"amount": 900, "recipient": "DE1"}"#]), @r#"
    exit 0
    --- stdout
    ask          send_money by main
      decided by  default for risk `write`
      in this run it is refused: there is no operator to ask
      command line  -
      worker        -
        not preApproved send_money where amount <= 500 and recipient in @contacts.json#/*/iban  main.worker:5
            `amount <= 500` does not hold for 900
        not blocked send_money where recipient = "DE9"  main.worker:10
            `recipient = "DE9"` does not hold for "DE1"
      toolset       -
      project       -
      user          -
      callers       -
      mount         -
      default       ask          default for risk `write`
    "#);
    assert_snapshot!(scenario.run(&["gate", "explain", "send_money", r#"{"amount": 9, "recipient": "DE1"}"#]), @r#"
    exit 0
    --- stdout
    preApproved  send_money by main
      decided by  main.worker:5
      command line  -
      worker        preApproved  main.worker:5
        not blocked send_money where recipient = "DE9"  main.worker:10
            `recipient = "DE9"` does not hold for "DE1"
      toolset       -
      project       -
      user          -
      callers       -
      mount         -
      default       ask          default for risk `write`
    "#);
}

#[test]
fn what_a_rule_can_not_mean_is_refused_before_the_run() {
    if !has_python() {
        return;
    }
    let scenario = sending("", &[]);
    assert_snapshot!(scenario.run(&[".", "--allow", r#"send_money(*"recipient":"DE1"*)"#]), @r#"
    exit 2
    --- stderr
    error[E0422]: `--allow send_money(*"recipient":"DE1"*)`: `send_money` has no main argument that `(*"recipient":"DE1"*)` could match
     |
     = note: a pattern matches the one main argument of a tool, such as a path, a command or a worker
     = help: write a condition: `send_money where recipient = "DE1"`
    "#);
    assert_snapshot!(scenario.run(&[".", "--allow", "send_money where recipent = DE1"]), @"
    exit 2
    --- stderr
    error[E0421]: `--allow send_money where recipent = DE1`: `send_money`: the tool has no argument `recipent`
     |
     = note: the test can never hold as intended
     = help: did you mean `recipient`?
    ");
    assert_snapshot!(scenario.run(&[".", "--allow", "send_money where recipient in @gone.json"]), @"
    exit 2
    --- stderr
    error: --allow send_money where recipient in @gone.json: the set @gone.json cannot be read: `gone.json`: No such file or directory (os error 2)
    hint: files of sets are JSON, and relative to the current directory
    ");
    assert_snapshot!(scenario.run(&[".", "--deny", "send_money where amount < 5"]), @"
    exit 2
    --- stderr
    error: --deny: `send_money where amount < 5`: `<` is not an operator: write `=`, `<=`, `>=`, `in`, `not in`, `without`, `matches`, `host`, `from`, `present` or `absent`
    ");
}

#[test]
fn an_approval_function_sees_the_runs_input_and_the_caller_and_counts_headless() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import tool\n\n\
        def known(args, input, caller, origins):\n    \
            good = args['recipient'] in input['input'] and caller == 'main' and origins['recipient'] == 'trusted'\n    \
            return 'preApproved' if good else 'ask'\n\n\
        @tool(risk='network', approval=known)\ndef send_money(amount: float, recipient: str) -> str:\n    return 'sent'\n";
    let calls = [(5.0, "DE1"), (5.0, "DE2")];
    let keys = "sandbox: {network_enabled: true}";
    let scenario = sending(keys, &calls).file("tools.py", tools);
    scenario.run(&[".", "pay DE1 please", "--grant", "network"]);
    assert_eq!(sent(&scenario, 2), [true, false]);
}
