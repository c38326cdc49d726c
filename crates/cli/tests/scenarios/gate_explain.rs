//! `llm-do gate explain`: the rule that decides a call, and why.

use crate::scenario::Scenario;
use insta::assert_snapshot;

fn scenario() -> Scenario {
    Scenario::new()
        .file("project.yaml", "approval: {default: ask, tools: {delete_file: blocked}}\nsandbox: {paths: {out: {root: out, mode: rw}, in: in}}\n")
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\ntool_rules:\n  'write_file(out/**)': preApproved\n  'write_file(out/*.sh)': blocked\n---\nWrite.\n",
        )
        .file("in/a.txt", "a")
        .file("s.yaml", "answers: [{text: done}]\n")
}

#[test]
fn explanation_names_the_deciding_rule_and_the_others() {
    let scenario = scenario();
    let explain = |tool: &str, arguments: &str, more: &[&str]| {
        let arguments = [&["gate", "explain", tool, arguments], more].concat();
        scenario.run(&arguments)
    };
    assert_snapshot!(explain("write_file", r#"{"path": "out/a.md", "content": "x"}"#, &[]), @"
    exit 0
    --- stdout
    preApproved  write_file by main
      decided by  main.worker:5
      matched as  out/a.md
      command line  -
      worker        preApproved  main.worker:5
        not blocked write_file(out/*.sh)  main.worker:6
            `out/*.sh` does not match `out/a.md`
      toolset       -
      project       ask          project.yaml:1: default
      user          -
      callers       -
      mount         -
      default       ask          default for risk `write`
    ");
    assert_snapshot!(explain("write_file", r#"{"path": "out/a.sh", "content": "x"}"#, &[]), @"
    exit 0
    --- stdout
    blocked      write_file by main
      decided by  main.worker:6
      matched as  out/a.sh
      command line  -
      worker        blocked      main.worker:6
        not preApproved write_file(out/**)  main.worker:5
            another rule of this source comes before it
      toolset       -
      project       ask          project.yaml:1: default
      user          -
      callers       -
      mount         -
      default       ask          default for risk `write`
    ");
    assert_snapshot!(explain("write_file", r#"{"path": "out/a.md", "content": "x"}"#, &["--ask", "write_file"]), @"
    exit 0
    --- stdout
    ask          write_file by main
      decided by  --ask write_file
      in this run it is refused: there is no operator to ask
      matched as  out/a.md
      command line  ask          --ask write_file
      worker        preApproved  main.worker:5
        not blocked write_file(out/*.sh)  main.worker:6
            `out/*.sh` does not match `out/a.md`
      toolset       -
      project       ask          project.yaml:1: default
      user          -
      callers       -
      mount         -
      default       ask          default for risk `write`
    The model is not shown this tool: no arguments could pass.
    ");
    assert_snapshot!(explain("delete_file", r#"{"path": "out/a.md"}"#, &[]), @"
    exit 0
    --- stdout
    blocked      delete_file by main
      decided by  project.yaml:1
      matched as  out/a.md
      command line  -
      worker        -
      toolset       -
      project       blocked      project.yaml:1
      user          -
      callers       -
      mount         -
      default       ask          default for risk `destructive`
    The model is not shown this tool: no arguments could pass.
    ");
    assert_snapshot!(explain("write_file", r#"{"path": "in/a.txt", "content": "x"}"#, &[]), @"
    exit 0
    --- stdout
    refused  write_file by main
      `/in/a.txt` is read-only: the mount `/in` is `ro`
    ");
    assert_snapshot!(explain("write_file", "{}", &[]), @r#"
    exit 0
    --- stdout
    refused  write_file by main
      The arguments of `write_file` don't fit its schema:
    - "path" is a required property
    - "content" is a required property
    "#);
    assert_snapshot!(explain("send", "{}", &[]), @"
    exit 2
    --- stderr
    error: `main` has no tool `send`; it has: read_file, write_file, edit_file, append_file, list_files, search_files, delete_file, move_file, copy_file, file_info, file_exists
    ");
    assert_eq!(scenario.read("out/a.md"), None);
    assert!(!scenario.project().join(".llm-do").exists(), "nothing is written");
}

#[test]
fn explanation_is_available_as_json() {
    let told = scenario().run(&["gate", "explain", "read_file", r#"{"path": "in/a.txt"}"#, "--json"]);
    let explained: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(explained["verdict"]["rule"], "ask");
    assert_eq!(explained["arguments"], serde_json::json!(["in/a.txt"]));
}

#[test]
fn explanation_needs_no_model() {
    let scenario = Scenario::new().file("main.worker", "---\ntoolsets: [filesystem]\n---\nRead.\n");
    let told = scenario.run(&["gate", "explain", "read_file", r#"{"path": "a.txt"}"#]);
    assert!(told.stdout.starts_with("preApproved  read_file by main\n"), "{told}");
}
