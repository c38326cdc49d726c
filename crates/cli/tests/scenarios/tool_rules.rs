//! Rules of a program's files: what they pre-approve, block, limit and retry.

use crate::scenario::Scenario;
use serde_json::Value;

/// A worker that makes these calls in one turn, headless.
fn calling(keys: &str, calls: &str) -> Scenario {
    let script = format!(
        "answers:\n  - when: {{worker: main, turn: 0}}\n    calls: [{calls}]\n  - when: {{worker: slow}}\n    delay_ms: 20000\n    text: late\n  - text: done\n"
    );
    Scenario::new()
        .file("main.worker", &format!("---\nmodel: script:s.yaml\n{keys}\n---\nWork.\n"))
        .file("s.yaml", &script)
        .file("a.txt", "a\n")
}

/// The tools that the model of the first conversation was shown.
fn offered(scenario: &Scenario) -> Vec<String> {
    let journal = scenario.journal();
    let started = journal
        .iter()
        .find(|record| record["kind"] == "conversation_started")
        .expect("a record of this kind");
    let names = started["tools"].as_array().expect("a record of this kind").iter();
    names.map(|tool| tool["name"].as_str().expect("a record of this kind").to_owned()).collect()
}

/// The steps of this kind in the journal.
fn steps(scenario: &Scenario, kind: &str) -> Vec<String> {
    let journal = scenario.journal();
    let of_kind = journal.iter().filter(|record| record["kind"] == kind);
    of_kind.map(|record| record["step"].as_str().expect("a record of this kind").to_owned()).collect()
}

const DELETE: &str = "{tool: delete_file, arguments: {path: a.txt}}";
const WRITE: &str = "{tool: write_file, arguments: {path: out/b.txt, content: b}}";

#[test]
fn sandbox_approval_holds_without_mounts() {
    let free = calling("toolsets: [filesystem]\ntool_rules: {delete_file: preApproved}", DELETE);
    free.run(&["."]);
    assert_eq!(free.read("a.txt"), None);

    let blocked = "toolsets: [filesystem]\ntool_rules: {delete_file: preApproved}\nsandbox: {approval: {delete: blocked}}";
    let scenario = calling(blocked, DELETE);
    scenario.run(&[".", "--approval", "approve_all"]);
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a\n"));

    let of_project = calling("toolsets: [filesystem]", DELETE)
        .file("project.yaml", "sandbox: {approval: {delete: blocked}}\n");
    of_project.run(&[".", "--approval", "approve_all"]);
    assert_eq!(of_project.read("a.txt").as_deref(), Some("a\n"));
}

#[test]
fn sandbox_approval_of_a_callee_tightens_its_callers_view() {
    let scenario = calling("toolsets: [filesystem]\nallow_workers: [child]", "{tool: child, arguments: {input: go}}")
        .file(
            "workers/child.worker",
            "---\nmodel: script:child.yaml\ntoolsets: [filesystem]\nsandbox: {approval: {delete: blocked, write: preApproved}}\n---\nWork.\n",
        )
        .file("child.yaml", &format!("answers:\n  - when: {{turn: 0}}\n    calls: [{DELETE}, {WRITE}]\n  - text: done\n"));
    scenario.run(&["."]);
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a\n"));
    assert_eq!(scenario.read("out/b.txt"), None, "a callee loosens nothing");
    scenario.run(&[".", "--approval", "approve_all"]);
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a\n"));
}

#[test]
fn a_projects_own_root_counts_as_declared() {
    let keys = "toolsets: [filesystem]\ntool_rules: {write_file: preApproved}";
    let hook = "{tool: write_file, arguments: {path: .github/workflows/a.yml, content: b}}";
    let scenario = calling(keys, &format!("{WRITE}, {hook}"));
    scenario.run(&["."]);
    assert_eq!(scenario.read("out/b.txt").as_deref(), Some("b"));
    assert_eq!(scenario.read(".github/workflows/a.yml"), None, "other programs execute it");
    scenario.run(&[".", "--allow", "write_file"]);
    assert_eq!(scenario.read(".github/workflows/a.yml").as_deref(), Some("b"));

    let lone = calling(keys, WRITE);
    let told = lone.run(&["main.worker", "--no-project"]).to_string();
    assert!(told.contains("W0811"), "{told}");
    assert_eq!(lone.read("out/b.txt"), None, "the current directory of a lone file");

    let home = calling(keys, WRITE);
    let folder = home.project().to_string_lossy().into_owned();
    let home = home.env("HOME", folder);
    let told = home.run(&["."]).to_string();
    assert!(told.contains("W0811"), "{told}");
    assert!(home.run(&["check", "."]).to_string().contains("W0811"));
    assert_eq!(home.read("out/b.txt"), None, "a project that is the home directory");
}

#[test]
fn a_tool_that_no_arguments_can_pass_is_not_offered() {
    let keys = "toolsets: {workers: {dynamic: true}, shell: {default: {approval_required: false}, approval: {default: blocked}}}";
    let scenario = calling(keys, "{tool: worker_call, arguments: {worker: x}}");
    scenario.run(&["."]);
    assert_eq!(offered(&scenario), Vec::<String>::new());
}

#[test]
fn a_timeout_holds_for_a_worker_that_is_called() {
    let slow = "---\nmodel: script:s.yaml\ndescription: Slow.\n---\nWork.\n";
    let keys = "allow_workers: [slow]\ntool_rules: {slow: {timeout: 200ms}}";
    let scenario = calling(keys, "{tool: slow, arguments: {input: go}}").file("workers/slow.worker", slow);
    let told = scenario.run(&["."]).to_string();
    assert!(told.contains("exit 0"), "{told}");
    assert!(scenario.journal().iter().any(|record| record["kind"] == "timed_out"), "{told}");

    let keys = "allow_workers: [sl*]\ntool_rules: {worker_call: {timeout: 200ms}}";
    let call = "{tool: worker_call, arguments: {worker: slow, input_data: go}}";
    let scenario = calling(keys, call).file("workers/slow.worker", slow);
    scenario.run(&[".", "--allow", "worker_call"]);
    assert!(scenario.journal().iter().any(|record| record["kind"] == "timed_out"));
}

#[test]
fn a_failed_read_is_tried_again_as_a_step_and_replayed() {
    let keys = "toolsets: [filesystem]\ntool_rules: {read_file: {retries: 2}}";
    let scenario = calling(
        keys,
        "{tool: read_file, arguments: {path: nothing.txt}}, {tool: read_file, arguments: {path: a.txt}}",
    );
    scenario.run(&["."]);
    let mut tried = steps(&scenario, "tool_started");
    tried.sort();
    assert_eq!(tried, ["tool", "tool", "tool.1", "tool.2"]);
    let run = scenario.runs()[0].file_name().unwrap().to_str().unwrap().to_owned();
    let told = scenario.run(&["runs", "replay", &run]).to_string();
    assert!(told.contains("exit 0"), "{told}");
}

#[test]
fn retries_of_a_tool_that_writes_are_an_error_at_check_and_run() {
    let scenario = calling("toolsets: [filesystem]\ntool_rules: {write_file: {retries: 1}}", WRITE);
    for arguments in [&["check", "."][..], &["."]] {
        let told = scenario.run(arguments).to_string();
        assert!(told.contains("exit 2") && told.contains("E0418"), "{told}");
    }
}

#[test]
fn the_journal_names_the_reason_of_a_question() {
    let hook = "{tool: write_file, arguments: {path: hooks/run, content: b}}";
    let scenario = calling("toolsets: [filesystem]\ntool_rules: {write_file: preApproved}", hook);
    scenario.run(&["."]);
    let journal = scenario.journal();
    let refused: Vec<&Value> =
        journal.iter().filter(|r| r["kind"] == "verdict" && r["rule"] == "blocked").collect();
    assert!(refused[0]["reason"].as_str().unwrap().contains("other programs execute"), "{refused:?}");
}
