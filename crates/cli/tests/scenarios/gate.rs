//! `llm-do gate explain`: which rule decides, and why.

use crate::story::Story;
use insta::assert_snapshot;

fn story() -> Story {
    Story::new()
        .file("project.yaml", "approval: {default: ask, tools: {delete_file: blocked}}\nsandbox: {paths: {out: {root: out, mode: rw}, in: in}}\n")
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\ntool_rules:\n  'write_file(out/**)': preApproved\n  'write_file(out/*.sh)': blocked\n---\nWrite.\n",
        )
        .file("in/a.txt", "a")
        .file("s.yaml", "answers: [{text: done}]\n")
}

#[test]
fn it_says_which_rule_decides_and_what_the_others_say() {
    let story = story();
    let explain = |tool: &str, arguments: &str, more: &[&str]| {
        let arguments = [&["gate", "explain", tool, arguments], more].concat();
        story.run(&arguments)
    };
    assert_snapshot!(explain("write_file", r#"{"path": "out/a.md", "content": "x"}"#, &[]), @"");
    assert_snapshot!(explain("write_file", r#"{"path": "out/a.sh", "content": "x"}"#, &[]), @"");
    assert_snapshot!(explain("write_file", r#"{"path": "out/a.md", "content": "x"}"#, &["--ask", "write_file"]), @"");
    assert_snapshot!(explain("delete_file", r#"{"path": "out/a.md"}"#, &[]), @"");
    assert_snapshot!(explain("write_file", r#"{"path": "in/a.txt", "content": "x"}"#, &[]), @"");
    assert_snapshot!(explain("write_file", "{}", &[]), @"");
    assert_snapshot!(explain("send", "{}", &[]), @"");
    assert_eq!(story.read("out/a.md"), None);
    assert!(!story.project().join(".llm-do").exists(), "nothing is written");
}

#[test]
fn programs_are_told_as_json() {
    let told = story().run(&["gate", "explain", "read_file", r#"{"path": "in/a.txt"}"#, "--json"]);
    let explained: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(explained["verdict"]["rule"], "ask");
    assert_eq!(explained["arguments"], serde_json::json!(["in/a.txt"]));
}
