//! Declarations of untrusted content, and what `check --flow` says about it (docs/guides/check.md,
//! docs/reference/worker-files.md).

use crate::{python::has_python, scenario::Scenario};
use insta::assert_snapshot;
use serde_json::{Value, json};

#[test]
fn clean_texts_and_dates_are_checked_and_models_are_not_shown_the_keyword() {
    let worker = "---\nmodel: script:s.yaml\nparameters: {text: {type: string, untrusted: true}}\n\
                  returns: {note: {type: string, clean: true, maxLength: 40}, day: {type: string, format: date}}\n---\nExtract.\n";
    let scenario = Scenario::new().file("x.worker", worker).file(
        "s.yaml",
        "answers:\n  - {when: {turn: 0}, json: {note: \"one\\ntwo\", day: 2026-03-31}}\n  \
         - {when: {turn: 1}, json: {note: one, day: soon}}\n  - json: {note: one two, day: \"2026-03-31\"}\n",
    );
    let told = scenario.run(&["x.worker", "A mail"]);
    assert_eq!(told.stdout, "{\"note\":\"one two\",\"day\":\"2026-03-31\"}\n", "{told}");
    let journal = scenario.journal_of_home();
    let text = Value::from(journal.clone()).to_string();
    assert!(text.contains("is not one line of visible text"), "{text}");
    assert!(text.contains("is not a date such as"), "{text}");
    let request = scenario.run(&["show", "x.worker", "--prompt", "--param", "text=x", "--json"]).stdout;
    assert!(request.contains("maxLength") && !request.contains("\"clean\""), "{request}");
}

const TOOLS: &str = "\
from typing import Annotated, TypedDict
from llm_do import Field, tool


class Mail(TypedDict):
    number: int
    body: Annotated[str, Field(untrusted=True)]


@tool(risk=\"read\")
def mails() -> list[Mail]:
    \"\"\"The mails.\"\"\"
    return []


@tool(risk=\"read\")
def clock() -> str:
    \"\"\"The time.\"\"\"
    return \"now\"


@tool(risk=\"network\")
def send(to: str, text: str) -> None:
    \"\"\"Sends a mail.\"\"\"
";

fn assistant(returns: &str) -> Scenario {
    Scenario::new()
        .file("project.yaml", "model: script:s.yaml\nsandbox: {paths: {notes: ./notes}}\n")
        .file("notes/a.txt", "Private.")
        .file(
            "main.worker",
            "---\nallow_workers: [reader]\ntoolsets: {filesystem: {}, custom: {tools: [send]}}\n---\nHelp.\n",
        )
        .file(
            "workers/reader.worker",
            &format!("---\ntoolsets: {{custom: {{tools: [mails, clock]}}}}\n{returns}---\nRead.\n"),
        )
        .file("tools.py", TOOLS)
}

#[test]
fn check_shows_what_untrusted_content_could_steer() {
    if !has_python() {
        return;
    }
    let untyped = assistant("returns: {summary: string}\n");
    assert_snapshot!(untyped.run(&["check", "--flow"]), @r#"
    exit 0
    --- stdout
    warning[W0812]: in `main`, untrusted content, private files and a way out meet
      --> tools.py:22:1
       |
    22 | @tool(risk="network")
       | ^^^^^^^^^^^^^^^^^^^^^ `send` is a way out
       |
      ::: tools.py:10:1
       |
    10 | @tool(risk="read")
       | ------------------ a result of `mails` can say what to do
       |
      ::: project.yaml:2:19
       |
     2 | sandbox: {paths: {notes: ./notes}}
       |                   ----- `/notes` can be read
       |
       = help: read the untrusted content in a worker of its own, with `returns` that leave no room for instructions
       = help: `llm-do check --flow` shows the ways of the content

    main
      untrusted content that reaches it:
        a result of `mails` (tools.py:10)
          `reader` can call it (declared untrusted); `main` gets the output of `reader`
      effects that it could steer:
        `send` (network) (tools.py:22)
      to keep the content away:
        give `reader` a `returns` without room for instructions: `summary` leaves some (workers/reader.worker:3)

    reader
      untrusted content that reaches it:
        a result of `mails` (tools.py:10)
          `reader` can call it (declared untrusted)
      effects that it could steer: none

    --- stderr
    found 1 warning
    "#);
    let told = untyped.run(&["check", "--flow", "--json"]);
    let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(report.pointer("/diagnostics/0/code"), Some(&json!("W0812")), "{told}");
    assert_eq!(report.pointer("/flow/workers/0/worker"), Some(&json!("main")), "{told}");
    assert_eq!(report.pointer("/flow/workers/0/effects/0/function"), Some(&json!("send")), "{told}");

    let typed = assistant("returns: {unread: integer, kinds: '[offer, question]'}\n");
    assert_snapshot!(typed.run(&["check", "--flow"]), @r#"
    exit 0
    --- stdout
    reader
      untrusted content that reaches it:
        a result of `mails` (tools.py:10)
          `reader` can call it (declared untrusted)
      effects that it could steer: none

    --- stderr
    nothing is wrong
    "#);
    assert_snapshot!(typed.run(&["check", "--flow", "--output", "sarif"]), @r#"
    exit 2
    --- stderr
    error: `--flow` is available as text and as JSON, not as SARIF
    "#);
}

#[test]
fn a_field_that_a_result_cannot_have_is_an_error() {
    if !has_python() {
        return;
    }
    let tools = TOOLS.replacen("risk=\"read\"", "risk=\"read\", untrusted=[\"text\"]", 1);
    let scenario = assistant("").file("tools.py", &tools);
    assert_snapshot!(scenario.run(&["check"]), @r#"
    exit 2
    --- stdout
    error[E0707]: `mails` cannot be a tool: `untrusted` names the field `text`, but the fields of its result are number, body
      --> tools.py:10:1
       |
    10 | @tool(risk="read", untrusted=["text"])
       | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = help: change the function, or start its name with `_` so that it is not exposed

    --- stderr
    found 1 error
    note: `llm-do check --explain E0707` says more about an error
    "#);
}
