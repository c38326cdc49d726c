//! The commands of the README, run as they are written there.

use crate::{recorded_examples::copy, scenario::Scenario};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Commands that need files of the reader.
const OF_THE_READER: [&str; 3] = ["llm-do harden ", "llm-do lib install ", "llm-do migrate "];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of the README that are commands, without their comments.
fn commands() -> Vec<String> {
    let text = fs::read_to_string(root().join("README.md")).expect("the README");
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines =
        blocks.flat_map(str::lines).map(|line| line.split("  #").next().unwrap_or(line).trim().to_owned());
    let commands = lines.filter(|line| line.starts_with("llm-do ") || line.contains("| llm-do "));
    commands.filter(|line| !OF_THE_READER.iter().any(|theirs| line.starts_with(theirs))).collect()
}

/// The example that a command is about.
fn example(command: &str) -> Option<&str> {
    let (_, rest) = command.split_once("examples/")?;
    rest.split(['/', '.', ' ', '\'']).next()
}

#[test]
fn readme_commands_succeed_in_order() {
    let scenario = Scenario::new();
    copy(&root().join("examples"), &scenario.project().join("examples"));
    let binary = Path::new(env!("CARGO_BIN_EXE_llm-do")).parent().expect("its folder");
    let commands = commands();
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        // The example's script replaces the model of the reader.
        let words: Vec<&str> = command.split(' ').collect();
        let model = words.iter().position(|word| word.starts_with("anthropic:"));
        let said = match model {
            Some(at) => [&words[..at - 1], &words[at + 1..]].concat().join(" "),
            None => command.clone(),
        };
        let mut shell = Command::new("sh");
        shell.args(["-c", &said]).current_dir(scenario.project()).env_clear();
        shell
            .env("HOME", scenario.home().join("home"))
            .env("PATH", format!("{}:/usr/bin:/bin", binary.display()));
        if let Some(example) = example(&command) {
            shell.env("LLM_DO_MODEL", format!("script:examples/scripts/{example}.yaml"));
        }
        let told = scenario.finished(shell.output().expect("a shell"));
        let waits = command.contains("--approval defer");
        assert_eq!(told.code, Some(if waits { 5 } else { 0 }), "{command}\n{told}");
    }
}
