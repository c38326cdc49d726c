//! Older projects: the diff, the writing, the originals, and what is refused.

use crate::{session::Session, story::Story};
use insta::assert_snapshot;
use std::{fs, os::unix::fs::symlink, process::Command};

/// An older project: a program's manifest, a YAML worker with its prompt, an agent.
fn old() -> Story {
    Story::new()
        .file("program.yaml", "# The program.\nname: decks\ndelegation:\n  maxDepth: 2   # enough\n")
        .file(
            "main.agent",
            "---\nname: main\ntoolsets:\n  - filesystem_project\n  - evaluator   # the other one\n  - charts\n---\nEvaluate all decks.\n",
        )
        .file(
            "workers/evaluator.yaml",
            "name: evaluator\ndescription: Evaluates one deck.\ntool_rules:\n  sandbox.write: {allowed: true, approval_required: true}\n",
        )
        .file("prompts/evaluator.jinja2", "Evaluate {{ input }}.\n")
        .file("notes.txt", "kept\n")
}

fn listing(story: &Story) -> String {
    let out =
        Command::new("find").args([".", "-type", "f"]).current_dir(story.project()).output().expect("find");
    let mut lines: Vec<String> = String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn without_write_the_changes_are_shown_and_nothing_is_touched() {
    let story = old();
    let before = listing(&story);
    assert_snapshot!(story.run(&["migrate"]), @"");
    assert_eq!(listing(&story), before);
}

#[test]
fn writing_keeps_the_originals_and_the_result_is_right() {
    let story = old();
    let before = story.read("main.agent");
    assert_snapshot!(story.run(&["migrate", ".", "--write"]), @"");
    assert_snapshot!(listing(&story), @"");
    assert_eq!(story.read(".llm-do-migrated/main.agent"), before);
    let told = story.run(&["check", "."]);
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), "nothing is wrong\n"), "{told}");
    let told = story.run(&["migrate", "--write"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), ""), "{told}");
    assert!(told.stderr.ends_with("canonical already: nothing to migrate\n"), "{told}");
    assert!(!story.project().join(".llm-do-migrated-2").exists());
}

#[test]
fn a_second_writing_keeps_its_originals_apart() {
    let story = old();
    story.run(&["migrate", "--write"]);
    let story = story.file("workers/late.yaml", "name: late\ndescription: x\ninstructions: Hi\n");
    let told = story.run(&["migrate", "--write"]);
    assert!(told.stderr.contains(".llm-do-migrated-2"), "{told}");
    assert!(story.read(".llm-do-migrated-2/workers/late.yaml").is_some());
    assert!(story.read(".llm-do-migrated/main.agent").is_some());
}

#[test]
fn git_can_apply_the_diff() {
    let (shown, written) = (old(), old());
    let diff = shown.run(&["migrate"]).stdout;
    fs::write(shown.project().join("../the.diff"), diff).expect("a file");
    let git = |arguments: &[&str]| {
        let out = Command::new("git").args(arguments).current_dir(shown.project()).output().expect("git");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    git(&["apply", "--unsafe-paths", "../the.diff"]);
    written.run(&["migrate", "--write"]);
    fs::remove_dir_all(written.project().join(".llm-do-migrated")).expect("the originals");
    assert_eq!(listing(&shown), listing(&written));
    for path in ["main.worker", "project.yaml", "workers/evaluator.worker"] {
        assert_eq!(shown.read(path), written.read(path), "{path}");
    }
}

#[test]
fn a_registry_becomes_a_project_elsewhere() {
    let story = Story::new()
        .file("home/workers/greeter.worker", "---\nname: greeter\ndescription: Greets.\n---\nGreet.\n")
        .file("home/workers/sum.yaml", "name: sum\ndescription: Sums up.\ninstructions: Sum up.\n")
        .file("home/workers/deep/worker.worker", "---\n---\nDeep.\n")
        .file("home/workers/deep/data.txt", "d");
    let registry = "home/workers";
    let before = listing(&story);
    let told = story.run(&["migrate", registry, "--write"]);
    assert_snapshot!(told, @"");
    assert_eq!(listing(&story), before);
    assert_snapshot!(story.run(&["migrate", registry, "--into", "mine", "--write"]), @"");
    assert_snapshot!(listing(&story), @"");
    assert_eq!(story.run(&["check", "mine"]).stderr, "nothing is wrong\n");
    let told = story.run(&["migrate", registry, "--into", "mine", "--write"]);
    assert!(told.code == Some(2) && told.stderr.contains("is there already"), "{told}");
}

#[test]
fn links_lead_nowhere_outside() {
    let story = Story::new()
        .file("main.agent", "---\nname: main\ntoolsets: [helper]\n---\nHi\n")
        .file("helper.agent", "---\nname: helper\n---\nHelp\n")
        .file("../outside/secret.agent", "---\nname: secret\n---\nSecret\n");
    symlink("../outside", story.project().join("workers")).expect("a link");
    symlink("../outside/secret.agent", story.project().join("stolen.agent")).expect("a link");
    let told = story.run(&["migrate", "--write"]);
    assert_snapshot!(told, @"");
    let outside: Vec<_> = fs::read_dir(story.project().join("../outside")).expect("it").collect();
    assert_eq!(outside.len(), 1, "nothing was written there");
    assert!(story.project().join("stolen.agent").is_symlink());
    assert!(story.read("helper.agent").is_some());
}

#[test]
fn what_is_no_program_is_said() {
    let story = Story::new().file("readme.md", "hi");
    assert_snapshot!(story.run(&["migrate"]), @"");
    assert_eq!(story.run(&["migrate", "missing"]).code, Some(2));
    assert_eq!(story.run(&["migrate", "readme.md"]).code, Some(2));
}

#[test]
fn one_file_is_migrated_in_its_place() {
    let story =
        Story::new().file("lib/x.agent", "---\nname: x\nmaxContextTokens: ~\ntoolsets: []\n---\nHi\n");
    let told = story.run(&["migrate", "lib/x.agent", "--write"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert_snapshot!(story.read("lib/x.worker").expect("it"), @"");
    assert!(story.read("lib/.llm-do-migrated/x.agent").is_some());
}

#[test]
fn json_holds_the_plan() {
    let told = old().run(&["migrate", "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&told.stdout).expect("one object");
    assert_eq!((&plan["written"], &plan["originals"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!(plan["changes"][0]["from"], "main.agent");
    assert_eq!(plan["absorbed"][0]["file"], "prompts/evaluator.jinja2");
    assert_eq!(plan["notes"][0]["severity"], "warning");
}

#[test]
fn a_terminal_shows_colours_and_no_control_characters() {
    let story = Story::new().file("x.agent", "---\nname: x\ntoolsets: []\n---\nevil \u{1b}[2J text\n");
    let mut session = Session::start(story.command_on_terminal(&["migrate", "x.agent", "--color", "always"]));
    session.expect("evil \\x1b[2J text");
    session.expect("next:");
    assert_eq!(session.end().0, Some(0));
    let told = story.run(&["migrate", "x.agent", "--color", "always"]);
    assert!(told.stdout.contains("\u{1b}[32m+toolsets: {}\u{1b}[0m"), "{told}");
}
