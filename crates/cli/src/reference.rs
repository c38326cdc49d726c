//! Generates docs/reference/commands.md and docs/reference/environment.md from the definitions in [`crate::args`] and
//! [`crate::environment`]. The tests compare the files with the definitions; `UPDATE_EXPECT=1` writes the files.

use crate::{
    args::Cli,
    commands::man::{Part, parts, visible},
    environment::SECTIONS,
};
use clap::{Arg, Command, CommandFactory};
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

const COMMANDS: &str = "\
# Commands

Every command with its arguments and options. `llm-do COMMAND --help` prints the same text, and `llm-do man DIR` writes it as
man pages. This page is generated from the definition of the command line.

Commands also take the [output options](#llm-do) of `llm-do`, before or after the command's name.
";

const ENVIRONMENT: &str = "\
# Environment variables

llm-do uses these environment variables. This page is generated from the list in the program. llm-do also replaces the values
of variables with names that indicate a secret; [Secrets](journal.md#secrets) has the rule.
";

/// Returns the page with all commands.
fn commands() -> String {
    let mut root = Cli::command();
    root.build();
    let mut page = COMMANDS.to_owned();
    command(&mut page, &root, None);
    page
}

/// Writes one command, then its subcommands. Options of `parent` that also apply to this command are not repeated.
fn command(page: &mut String, command: &Command, parent: Option<&Command>) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let level = name.split(' ').count().max(2);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let about = about.trim_end_matches('.').replace('\n', " ");
    write!(page, "\n{} {name}\n\n{}.\n", "#".repeat(level), escaped(&about)).expect("a string");
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<&str> = usage.trim_start_matches("Usage:").lines().map(str::trim).collect();
    write!(page, "\n```text\n{}\n```\n", usage.join("\n")).expect("a string");
    for part in parts(&command.get_after_help().map(ToString::to_string).unwrap_or_default()) {
        match part {
            Part::Prose(lines) => write!(page, "\n{}\n", escaped(&lines.join("\n"))),
            Part::Examples(lines) => write!(page, "\nExamples:\n\n```text\n{}\n```\n", lines.join("\n")),
        }
        .expect("a string");
    }

    let inherited = |argument: &&Arg| {
        parent.is_some_and(|parent| {
            parent.get_arguments().any(|above| {
                above.get_id() == argument.get_id() && (above.is_global_set() || above.get_id() == "help")
            })
        })
    };
    let (above, own): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(|argument| !argument.is_hide_set()).partition(inherited);
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) =
        own.into_iter().partition(|argument| argument.is_positional());
    let mut groups = vec![("Arguments", positional)];
    for option in options {
        let heading = option.get_help_heading().unwrap_or("Options");
        match groups.iter_mut().find(|(found, _)| *found == heading) {
            Some((_, group)) => group.push(option),
            None => groups.push((heading, vec![option])),
        }
    }
    for (heading, group) in groups.iter().filter(|(_, group)| !group.is_empty()) {
        write!(page, "\n**{heading}**\n\n").expect("a string");
        for argument in group {
            page.push_str(&entry(argument));
        }
    }
    if let Some(parent) = parent.and_then(Command::get_bin_name).filter(|parent| parent.contains(' '))
        && above.iter().any(|argument| argument.get_help_heading().is_none() && argument.get_id() != "help")
    {
        write!(page, "\nThe options of [`{parent}`](#{}) also apply.\n", parent.replace(' ', "-"))
            .expect("a string");
    }
    for (i, sub) in visible(command).enumerate() {
        if i == 0 {
            page.push_str("\n**Commands**\n\n");
        }
        let (name, about) = (sub.get_bin_name().unwrap_or_default(), sub.get_about().unwrap_or_default());
        writeln!(page, "- [`{name}`](#{}): {}", name.replace(' ', "-"), escaped(&about.to_string()))
            .expect("a string");
    }
    for sub in visible(command) {
        self::command(page, sub, Some(command));
    }
}

/// Returns the list item of an argument.
fn entry(argument: &Arg) -> String {
    let mut item = "- ".to_owned();
    if let (Some(short), Some(_)) = (argument.get_short(), argument.get_long()) {
        write!(item, "`-{short}`, ").expect("a string");
    }
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    write!(item, "`{argument}`: {}", escaped(&help)).expect("a string");
    if argument.get_action().takes_values() {
        let defaults: Vec<String> = argument
            .get_default_values()
            .iter()
            .map(|value| format!("`{}`", value.to_string_lossy()))
            .collect();
        if !defaults.is_empty() {
            write!(item, " [default: {}]", defaults.join(", ")).expect("a string");
        }
    }
    if argument.get_long().is_some() && matches!(argument.get_action(), clap::ArgAction::Append) {
        item.push_str(" (repeatable)");
    }
    item.push('\n');
    if argument.get_action().takes_values() {
        for value in argument.get_possible_values().iter().filter(|value| !value.is_hide_set()) {
            let help = value.get_help().map(|help| format!(": {}", escaped(&help.to_string())));
            writeln!(item, "  - `{}`{}", value.get_name(), help.unwrap_or_default()).expect("a string");
        }
    }
    item
}

/// Returns the text with Markdown's special characters escaped outside code spans.
fn escaped(text: &str) -> String {
    text.split('`')
        .enumerate()
        .map(|(i, part)| match i % 2 {
            0 => part.replace('*', "\\*").replace('<', "\\<"),
            _ => part.to_owned(),
        })
        .collect::<Vec<_>>()
        .join("`")
}

/// Returns the page with all environment variables.
fn environment() -> String {
    let mut page = ENVIRONMENT.to_owned();
    for section in SECTIONS {
        write!(page, "\n## {}\n\n| variable | meaning |\n|---|---|\n", section.heading).expect("a string");
        for variable in section.variables {
            let names: Vec<String> = variable.name.split(", ").map(|name| format!("`{name}`")).collect();
            writeln!(page, "| {} | {} |", names.join(", "), variable.about).expect("a string");
        }
        if !section.see.is_empty() {
            write!(page, "\n{}\n", section.see).expect("a string");
        }
    }
    page
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
fn assert_page(name: &str, expected: &str) {
    let path = root().join("docs/reference").join(name);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        return fs::write(path, expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let differs = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert!(
        found == expected,
        "docs/reference/{name} differs from the definitions; UPDATE_EXPECT=1 writes it. First: {differs:#?}"
    );
}

#[test]
#[cfg_attr(not(feature = "cluster"), ignore = "the page has all commands")]
fn commands_page_matches_the_command_line() {
    assert_page("commands.md", &commands());
}

#[test]
fn environment_page_matches_the_list() {
    assert_page("environment.md", &environment());
}

#[test]
fn every_variable_that_the_sources_read_is_listed() {
    let listed: Vec<&str> = SECTIONS
        .iter()
        .flat_map(|section| section.variables)
        .flat_map(|variable| variable.name.split(", "))
        .collect();
    // Variables of tests.
    let others = ["UPDATE_EXPECT", "CI"];
    let mut sources = Vec::new();
    for package in fs::read_dir(root().join("crates")).unwrap() {
        let package = package.unwrap();
        // These packages are not part of the product.
        if !["bench", "testserver"].iter().any(|tool| package.file_name() == *tool) {
            files(&package.path().join("src"), &mut sources);
        }
    }
    let mut read = 0;
    for path in sources {
        let text = fs::read_to_string(&path).unwrap();
        for start in ["env::var(\"", "env::var_os(\"", "environment(\"", " env(\"", "\"LLM_DO_"] {
            for (at, _) in text.match_indices(start) {
                let literal = &text[at + start.find('"').unwrap_or_default() + 1..];
                let name = literal.split('"').next().unwrap_or_default();
                let is_name = name.len() > 1
                    && name.chars().all(|c| c.is_ascii_uppercase() || "_0123456789".contains(c));
                let of_tests = name.starts_with("LLM_DO_TEST") || others.contains(&name);
                if is_name && !name.ends_with('_') && !of_tests {
                    read += 1;
                    assert!(listed.contains(&name), "{}: {name} is not in environment.rs", path.display());
                }
            }
        }
    }
    assert!(read > 10, "the search for variables finds only {read}");
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}
