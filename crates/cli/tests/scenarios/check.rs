//! `llm-do check`: its output formats, its codes and its fixes (docs/guides/check.md).

use crate::scenario::Scenario;
use insta::assert_snapshot;
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

const MENDABLE: &str = "\
---
# Keep this.
description: 2026
locked: yes
allow_workers: [helper]
allowWorkers: [helper]
parameters: {text: str}
---
Ask about {{ text }}.
";

fn mendable() -> Scenario {
    Scenario::new()
        .file("main.worker", MENDABLE)
        .file("workers/helper.worker", "---\nmode: single\ndescription: Helps.\nmode: single\n---\nHelp.\n")
}

#[test]
fn certain_fixes_are_applied_only_with_fix() {
    let scenario = mendable();
    assert_snapshot!(scenario.run(&["check"]), @r#"
    exit 2
    --- stdout
    error[E0202]: `description` must be text, not a whole number
     --> main.worker:3:14
      |
    3 | description: 2026
      |              ^^^^ expected text
      |
    help: put it in quotes
      |
    3 - description: 2026
    3 + description: "2026"
      |

    error[E0202]: `locked` must be true or false, not text
     --> main.worker:4:9
      |
    4 | locked: yes
      |         ^^^ expected true or false
      |
      = note: YAML 1.2 knows `true` and `false` only
    help: write `true`
      |
    4 - locked: yes
    4 + locked: true
      |

    error[E0108]: `allow_workers` is given twice, once as `allowWorkers`
     --> main.worker:6:1
      |
    6 | allowWorkers: [helper]
      | ^^^^^^^^^^^^
      |
     ::: main.worker:5:1
      |
    5 | allow_workers: [helper]
      | ------------- it is given here too
      |
    help: remove `allowWorkers`, which has the same value
      |
    6 - allowWorkers: [helper]
      |

    error[E0403]: `str` is not a type, in `parameters.text`
     --> main.worker:7:20
      |
    7 | parameters: {text: str}
      |                    ^^^
      |
    help: write `string`
      |
    7 | parameters: {text: string}
      |                       +++

    error[E0108]: `mode` is given twice in one map
     --> workers/helper.worker:4:1
      |
    4 | mode: single
      | ^^^^
      |
     ::: workers/helper.worker:2:1
      |
    2 | mode: single
      | ---- it is given here too
      |
    help: remove the second one, which has the same value
      |
    4 - mode: single
      |

    --- stderr
    found 5 errors
    note: 5 findings can be fixed by `llm-do check --fix`
    note: `llm-do check --explain E0202` says more about an error
    "#);
    assert_eq!(scenario.read("main.worker").as_deref(), Some(MENDABLE));
    assert_snapshot!(scenario.run(&["check", "--fix"]), @"
    exit 0
    --- stderr
    fixed main.worker:3:14: put it in quotes
    fixed main.worker:4:9: write `true`
    fixed main.worker:6:1: remove `allowWorkers`, which has the same value
    fixed main.worker:7:20: write `string`
    fixed workers/helper.worker:4:1: remove the second one, which has the same value
    nothing is wrong
    note: `helper`, `main` are pure: they touch nothing
    ");
    assert_snapshot!(scenario.read("main.worker").expect("a file"), @r#"
    ---
    # Keep this.
    description: "2026"
    locked: true
    allow_workers: [helper]
    parameters: {text: string}
    ---
    Ask about {{ text }}.
    "#);
    assert_eq!(
        scenario.read("workers/helper.worker").as_deref(),
        Some("---\nmode: single\ndescription: Helps.\n---\nHelp.\n")
    );
    let again = scenario.run(&["check", "--fix"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""), "{again}");
}

#[test]
fn uncertain_fixes_are_never_applied() {
    let bad = "---\nmodle: a:b\nmode: sinlge\n---\nHi.\n";
    let scenario = Scenario::new().file("main.worker", bad);
    let told = scenario.run(&["check", "--fix"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stdout.contains("did you mean `model`?"), "{told}");
    assert!(told.stderr.contains("there is nothing that can be fixed for certain"), "{told}");
    assert_eq!(scenario.read("main.worker").as_deref(), Some(bad));
}

#[test]
fn remaining_findings_are_reported_after_a_fix() {
    let scenario = Scenario::new().file("main.worker", "---\nlocked: yes\nmodle: a:b\n---\nHi.\n");
    assert_snapshot!(scenario.run(&["check", "--fix"]), @"
    exit 2
    --- stdout
    error[E0201]: unknown key `modle`
     --> main.worker:3:1
      |
    3 | modle: a:b
      | ^^^^^
      |
      = help: did you mean `model`?

    --- stderr
    fixed main.worker:2:9: write `true`
    found 1 error
    note: `llm-do check --explain E0201` says more about an error
    ");
    let scenario = Scenario::new().file("main.worker", "---\nlocked: yes\nmodle: a:b\n---\nHi.\n");
    let told = scenario.run(&["check", "--fix", "--json"]);
    let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(report["fixed"][0]["place"], "main.worker:2:9");
    assert_eq!(report["not_fixed"], serde_json::json!([]));
    assert_eq!(report["diagnostics"].as_array().map(Vec::len), Some(1));
    assert_eq!(told.code, Some(2), "{told}");
}

#[test]
fn fix_keeps_permissions_and_does_not_follow_links() {
    let scenario = Scenario::new().file("main.worker", "---\nlocked: yes\nallow_workers: [a]\n---\nHi.\n");
    let linked = "---\nlocked: no\n---\nHi.\n";
    let scenario = scenario.file("shared/a.worker", linked).file("workers/.keep", "");
    symlink("../shared/a.worker", scenario.project().join("workers/a.worker")).expect("a link");
    let main = scenario.project().join("main.worker");
    fs::set_permissions(&main, fs::Permissions::from_mode(0o600)).expect("permissions");
    let told = scenario.run(&["check", "--fix"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("workers/a.worker is left as it is: it is a symbolic link"), "{told}");
    assert!(scenario.read("main.worker").expect("a file").contains("locked: true"), "{told}");
    assert_eq!(fs::metadata(&main).expect("metadata").permissions().mode() & 0o777, 0o600);
    assert_eq!(scenario.read("shared/a.worker").as_deref(), Some(linked));
}

#[test]
fn fix_of_a_missing_target_is_an_error() {
    for target in ["nowhere.worker", "-", "/dev/null"] {
        let told = Scenario::new().run(&["check", "--fix", target]);
        assert_eq!(told.code, Some(2), "{told}");
        assert!(told.stdout.contains("error[E0307]"), "{told}");
    }
}

#[test]
fn sarif_and_json_have_the_same_findings() {
    let scenario = mendable();
    let told = scenario.run(&["check", "--output", "sarif"]);
    assert_eq!((told.code, told.stderr.as_str()), (Some(2), ""), "{told}");
    let log: Value = serde_json::from_str(&told.stdout).expect("JSON");
    let run = &log["runs"][0];
    assert_eq!((&log["version"], &run["columnKind"]), (&"2.1.0".into(), &"unicodeCodePoints".into()));
    assert_eq!(run["originalUriBaseIds"]["PROGRAM"]["uri"], "file://[DIR]/project/");
    let result = &run["results"][0];
    assert_eq!(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "main.worker");
    assert_eq!(
        result["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"]["text"],
        "\"2026\""
    );
    let codes = |list: &Value, key: &str| -> Vec<String> {
        list.as_array()
            .into_iter()
            .flatten()
            .map(|one| one[key].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    let json: Value = serde_json::from_str(&scenario.run(&["check", "--json"]).stdout).expect("JSON");
    assert_eq!(codes(&run["results"], "ruleId"), codes(&json["diagnostics"], "code"));
    // Without a program there is no root, but there is a log.
    let none = scenario.run(&["check", "nowhere.worker", "--output", "sarif"]);
    let log: Value = serde_json::from_str(&none.stdout).expect("JSON");
    assert_eq!((none.code, &log["runs"][0]["results"][0]["ruleId"]), (Some(2), &"E0307".into()));
}

#[test]
fn sarif_is_only_available_for_check() {
    let scenario = mendable();
    assert_snapshot!(scenario.run(&["list", "--output", "sarif"]), @"
    exit 2
    --- stderr
    error: --output sarif is a form of findings, and this command has none
    hint: use it with `llm-do check`
    ");
    let told = scenario.run(&["run", "--check", "--output", "sarif"]);
    assert!(told.stdout.starts_with("{\"$schema\""), "{told}");
}

#[test]
fn every_diagnostic_code_has_an_explanation() {
    let scenario = Scenario::new();
    assert_snapshot!(scenario.run(&["check", "--explain", "e0206"]), @"
    exit 0
    --- stdout
    # E0206: two manifests

    `project.yaml` and `llm-do.yaml` are two names for the manifest. If both exist, it is unclear which of them applies.

    ## Example

    `project.yaml`:

    ```yaml
    name: one
    ```

    `llm-do.yaml`:

    ```yaml
    name: two
    ```

    `main.worker`:

    ```yaml
    ---
    ---
    Greet.
    ```

    llm-do reports:

    ```text
    error[E0206]: the project has both `project.yaml` and `llm-do.yaml`
    --> project.yaml
     = help: keep one of them: they are two names for the manifest
    ```

    ## What to do

    Move what you need into one of the files and remove the other.
    ");
    let list = scenario.run(&["check", "--explain"]);
    assert_eq!(list.code, Some(0), "{list}");
    let codes: Vec<&str> = list.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(codes.len() > 50 && codes.contains(&"W0502"), "{list}");
    for code in codes {
        let told = scenario.run(&["check", "--explain", code]);
        assert!(told.code == Some(0) && told.stdout.starts_with(&format!("# {code}: ")), "{told}");
    }
    let one: Value =
        serde_json::from_str(&scenario.run(&["check", "--explain", "W0502", "--json"]).stdout).expect("JSON");
    assert_eq!(
        (&one["code"], one["page"].as_str().is_some_and(|page| page.contains("## Example"))),
        (&"W0502".into(), true)
    );
}

#[test]
fn unknown_code_error_lists_similar_codes() {
    let scenario = Scenario::new();
    assert_snapshot!(scenario.run(&["check", "--explain", "E020"]), @"
    exit 2
    --- stderr
    error: there is no code `E020`
    hint: did you mean E0201 (unknown key) or E0202 (a value has the wrong type) or E0203 (a value is not valid here)?
    ");
    assert_snapshot!(scenario.run(&["check", "--explain", "nonsense"]), @"
    exit 2
    --- stderr
    error: there is no code `nonsense`
    hint: `llm-do check --explain` lists all codes
    ");
    assert_eq!(scenario.run(&["check", "--explain", "E0201", "--fix"]).code, Some(2));
}

#[test]
fn documentation_shows_the_actual_output() {
    let page = include_str!("../../../../docs/guides/check.md");
    let block = |fence: &str| -> &str {
        let (_, rest) = page.split_once(fence).expect("an example");
        rest.split_once("\n```").expect("its end").0
    };
    let scenario = Scenario::new()
        .file("main.worker", "---\n# Keep this.\ndescription: \"2026\"\nlocked: yes\n---\nGreet.\n");
    let text = scenario.run(&["check"]);
    assert_eq!(text.stdout.trim_end(), block("```text\n"), "{text}");
    let shown: Value = serde_json::from_str(block("```json\n")).expect("JSON");
    let said: Value = serde_json::from_str(&scenario.run(&["check", "--json"]).stdout).expect("JSON");
    assert_eq!(said, shown);
}

/// A project with two workers that have Python tools of their own, and a rule for each tool.
fn ruled(rules: &str) -> Scenario {
    Scenario::new()
        .file("project.yaml", &format!("model: script:s.yaml\napproval: {{tools: {{{rules}}}}}\n"))
        .file("main.worker", "---\ntoolsets: [filesystem]\n---\nHi.\n")
        .file("workers/mail/worker.worker", "---\n---\nSend.\n")
        .file("workers/mail/tools.py", "def send_mail(text: str) -> str:\n    return text\n")
        .file("s.yaml", "answers:\n  - text: done\n")
}

#[test]
fn a_rule_of_the_manifest_must_name_a_tool_of_the_program() {
    let scenario = ruled("send_mail: blocked, 'write_file(out/**)': preApproved");
    // The entry never calls `mail`, so that only the whole program knows `send_mail`.
    for arguments in [&["check"][..], &[".", "Hi"], &["workers/mail/worker.worker", "Hi"]] {
        let told = scenario.run(arguments);
        assert_eq!(told.code, Some(0), "{told}");
        assert!(!told.stdout.contains("W0713") && !told.stderr.contains("W0713"), "{told}");
    }
    let scenario = ruled("send_maill: blocked");
    for arguments in [&["check"][..], &[".", "Hi"], &["check", "workers/mail/worker.worker"]] {
        let told = scenario.run(arguments);
        assert_eq!(told.code, Some(2), "{told}");
        let text = format!("{}{}", told.stdout, told.stderr);
        assert!(text.contains("error[E0710]: `approval.tools` names `send_maill`"), "{told}");
        assert!(text.contains("did you mean `send_mail`?"), "{told}");
    }
    assert!(scenario.runs().is_empty());
}

#[test]
fn rules_of_the_command_line_must_name_a_tool_of_the_run() {
    let scenario = ruled("read_file: ask");
    assert_snapshot!(scenario.run(&[".", "Hi", "--deny", "wirte_file(out/**)"]), @"
    exit 2
    --- stderr
    error[E0710]: `--deny wirte_file(out/**)` names `wirte_file`, but there is no such tool
     |
     = help: did you mean `write_file`?
    ");
    for flag in ["--allow", "--ask"] {
        let told = scenario.run(&[".", "Hi", flag, "send_mail"]);
        assert_eq!(told.code, Some(2), "the entry cannot reach it: {told}");
    }
    assert_snapshot!(scenario.run(&[".", "Hi", "--deny", "fs__*", "--allow", "write_*", "--ask", "shell"]), @"
    exit 0
    --- stdout
    done

    --- stderr
    warning[W0713]: `--deny fs__*` names `fs__*`, which matches no tool
     |
     = help: correct the pattern, or remove the rule
    note: no terminal to ask on: calls that need an approval are refused (`--allow RULE` lets some run, `--approval defer` stops the run until they are decided)
    ");
    let told = scenario.run(&["workers/mail/worker.worker", "Hi", "--deny", "send_mail"]);
    assert_eq!(told.code, Some(0), "{told}");
}

#[test]
fn a_run_refuses_what_check_calls_an_error() {
    for (worker, code) in [
        ("---\nmodel: script:s.yaml\nparameters: {text: string}\n---\n{{ txet }}\n", "E0413"),
        ("---\nmodel: script:s.yaml\n---\n{% include 'gone.jinja' %}\n", "E0414"),
        ("---\nmodel: script:s.yaml\nallow_workers: [main]\n---\nHi.\n", "E0801"),
        ("---\nmodel: script:s.yaml\ntool_rules: {raed_file: ask}\n---\nHi.\n", "E0710"),
        (
            "---\nmodel: script:s.yaml\ntoolsets: {filesystem: {approval: {tools: {shell: ask}}}}\n---\nHi.\n",
            "E0710",
        ),
    ] {
        let scenario =
            Scenario::new().file("main.worker", worker).file("s.yaml", "answers:\n  - text: done\n");
        let checked = scenario.run(&["check"]);
        let ran = scenario.run(&[".", "Hi"]);
        assert_eq!((checked.code, ran.code), (Some(2), Some(2)), "{checked}{ran}");
        assert!(checked.stdout.contains(code) && ran.stderr.contains(code), "{checked}{ran}");
        assert!(scenario.runs().is_empty());
    }
}

#[test]
fn hidden_characters_of_a_file_do_not_reach_the_terminal() {
    let scenario = Scenario::new().file("main.worker", "---\nx\u{202e}: 1 # \u{9b}2J \u{200b}\n---\nHi.\n");
    let told = scenario.run(&["check"]);
    assert!(told.stdout.contains("# \\x9b2J \\u{200b}"), "{told}");
    assert!(!told.stdout.contains(['\u{9b}', '\u{200b}', '\u{202e}']), "{told}");
}

#[test]
fn program_without_an_entry_is_checked_through_its_exports() {
    let sorter = "---\ndescription: Sorts.\nparameters: {mail: string}\n---\nSort: {{ mail }}\n";
    let scenario = Scenario::new()
        .file(
            "project.yaml",
            "name: desk\nversion: 1.0.0\nexports: [summarizer, sorter]\nmodel: script:s.yaml\n",
        )
        .file("workers/summarizer.worker", "---\nparameters: {text: string}\n---\nSummarise: {{ text }}\n")
        .file("workers/sorter.worker", sorter)
        .file("s.yaml", "answers:\n  - text: short\n");
    assert_snapshot!(scenario.run(&["check"]), @r"
    exit 0
    --- stderr
    nothing is wrong
    note: `sorter`, `summarizer` are pure: they touch nothing
    ");
    let stubs = scenario.run(&["stubs", "--python"]);
    assert_eq!(stubs.code, Some(0), "{stubs}");
    assert!(stubs.stdout.contains("SummarizerInput") && stubs.stdout.contains("SorterInput"), "{stubs}");
    // A run needs one of them.
    assert_snapshot!(scenario.run(&[".", "hello"]), @r"
    exit 2
    --- stderr
    error[E0306]: this folder has no entry
     |
     = note: no `entry` in project.yaml
     = note: tried main.worker, workers/main.worker, workers/main/worker.worker, workers/main.yaml, workers/main.yml
     = help: add a `main.worker`, or select an exported worker with `--entry`
     = help: available workers: summarizer, sorter
    ");
    let ran = scenario.run(&[".", "hello", "--entry", "summarizer"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "short\n"), "{ran}");
    // A worker that can't be served is no stub, and no program without findings.
    let scenario = scenario.file("workers/sorter.worker", &sorter.replace("string", "strnig"));
    for command in [&["check"][..], &["stubs", "--python"], &["serve", "--port", "0"]] {
        let told = scenario.run(command);
        assert_eq!(told.code, Some(2), "{told}");
        assert!(told.to_string().contains("strnig"), "{told}");
    }
    // A manifest that names an entry needs it.
    let scenario =
        scenario.file("project.yaml", "exports: [summarizer]\nentry: start\nmodel: script:s.yaml\n");
    let told = scenario.run(&["check"]);
    assert!(told.code == Some(2) && told.stdout.contains("the entry `start` does not exist"), "{told}");
}
