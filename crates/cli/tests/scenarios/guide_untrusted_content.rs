//! The commands of `docs/guides/untrusted-content.md`, run as they are written there. `UPDATE_EXPECT=1` writes their output.

use crate::{python::has_python, recorded_examples::copy, scenario::Scenario};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command line of the guide in a copy of the repository's examples, and gives what it prints to both streams.
fn printed(scenario: &Scenario, command: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_llm-do")).parent().expect("its folder");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{{ {command}\n}} 2>&1")]).current_dir(scenario.project()).env_clear();
    shell.env("HOME", scenario.home().join("home")).env("TZ", "UTC");
    shell.env("PATH", format!("{}:/usr/bin:/bin", binary.display()));
    String::from_utf8(shell.output().expect("a shell").stdout).expect("text")
}

/// The text without what differs between two runs: run IDs, dates, durations and the blanks that align them.
fn steady(text: &str) -> String {
    let is_duration = |word: &str| {
        let number = word.trim_end_matches("ms").trim_end_matches('s');
        number.len() < word.len() && number.parse::<f64>().is_ok()
    };
    let words = |line: &str| {
        let words = line.split_whitespace().map(|word| if is_duration(word) { "[TIME]" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    text.trim().lines().map(words).collect::<Vec<_>>().join("\n")
}

#[test]
fn guide_commands_print_what_the_guide_says() {
    if !has_python() {
        return;
    }
    let page = root().join("docs/guides/untrusted-content.md");
    let text = fs::read_to_string(&page).expect("the guide");
    let scenario = Scenario::new();
    copy(&root().join("examples"), &scenario.project().join("examples"));
    let mut written = String::new();
    let mut count = 0;
    let mut blocks = text.split("```console\n$ ");
    written.push_str(blocks.next().unwrap_or_default());
    for block in blocks {
        let (session, rest) = block.split_once("```").expect("a block ends");
        let (command, expected) = session.split_once('\n').expect("a command ends its line");
        let actual = printed(&scenario, command);
        if std::env::var_os("UPDATE_EXPECT").is_none() {
            assert_eq!(steady(&scenario.steady(expected)), steady(&scenario.steady(&actual)), "$ {command}");
        }
        let end = if actual.is_empty() || actual.ends_with('\n') { "" } else { "\n" };
        written.push_str(&format!("```console\n$ {command}\n{actual}{end}```{rest}"));
        count += 1;
    }
    assert!(count >= 8, "the guide has lost its commands: {count}");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&page, written).expect("the guide");
    }
}
