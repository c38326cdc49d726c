//! The skill for coding agents: its installation, and that following it literally works.

use crate::scenario::Scenario;
use std::{path::Path, process::Command};

#[test]
fn the_skill_is_written_once_and_replaced_on_request() {
    let scenario = Scenario::new();
    let told = scenario.run(&["skill", "install"]);
    assert_eq!(told.code, Some(0), "{told}");
    let skill = scenario.read(".agents/skills/llm-do/SKILL.md").expect("the skill");
    assert!(skill.starts_with("---\nname: llm-do\n"), "{skill}");
    assert!(scenario.read(".agents/skills/llm-do/references/errors.md").is_some());
    assert!(scenario.read(".agents/skills/llm-do/evals/follow.py").is_none(), "its test is no part of it");

    let told = scenario.run(&["skill", "install", "--output", "json"]);
    assert!(told.code == Some(0) && told.stdout.contains("is up to date"), "{told}");

    let scenario = scenario.file(".agents/skills/llm-do/SKILL.md", "my own\n");
    let told = scenario.run(&["skill", "install"]);
    assert!(told.code == Some(2) && told.stderr.contains("--replace"), "{told}");
    assert_eq!(
        scenario.read(".agents/skills/llm-do/SKILL.md").as_deref(),
        Some("my own\n"),
        "nothing is lost"
    );
    let told = scenario.run(&["skill", "install", "--replace"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(scenario.read(".agents/skills/llm-do/SKILL.md"), Some(skill));
}

#[test]
fn the_skill_can_be_followed_literally() {
    let program = Path::new(env!("CARGO_BIN_EXE_llm-do"));
    let follow = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../skills/llm-do/evals/follow.py");
    let path = std::env::var("PATH").expect("a PATH");
    let path = format!("{}:{path}", program.parent().expect("a folder").display());
    let told = Command::new("python3").arg(follow).env("PATH", path).output().expect("Python");
    let said = format!("{}{}", String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success(), "{said}");
}
