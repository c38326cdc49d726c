//! Shell completions, by the shells themselves.

use crate::scenario::{Scenario, script};
use serde_json::json;
use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
};

const CASES: &str = "\
cases:
- name: short-text
  input: {text: a}
  expect: {output: a}
- name: long
  input: {text: b}
  expect: {output: b}
";

/// A project with two workers, of which one has run and one has cases, and with input for a map.
fn project() -> Scenario {
    let scenario = Scenario::new()
        .file("project.yaml", "description: A sample.\n")
        .file("main.worker", "---\ndescription: The entry.\nmodel: script:s.yaml\n---\nGo.\n")
        .file(
            "workers/summarizer.worker",
            "---\ndescription: \"Shortens: a text.\"\nparameters: {text: string, most: integer?}\n---\nShorten {{ text }}.\n",
        )
        .file("workers/summarizer.cases.yaml", CASES)
        .file("main.cases.yaml", "cases:\n- name: short-run\n  expect: {output: x}\n- {}\n")
        .file("reviews.csv", "\u{feff}review,the stars\na,5\n")
        .file("reviews.jsonl", "{\"body\": \"a\"}\n")
        .file("s.yaml", &script(&[json!({"text": "done"})]));
    let told = scenario.run(&["run", ".", "hi"]);
    assert_eq!(told.code, Some(0), "{told}");
    scenario
}

/// The lines that a shell prints for a script, with the program on its `PATH`. `None`: the shell is not installed. In CI it must be.
fn shell(scenario: &Scenario, program: &str, arguments: &[&str]) -> Option<Vec<String>> {
    let installed = ["/usr/bin", "/bin", "/usr/local/bin"].map(|folder| Path::new(folder).join(program));
    let Some(installed) = installed.into_iter().find(|path| path.is_file()) else {
        assert!(env::var_os("LLM_DO_TEST_SHELLS").is_none(), "{program} is not installed");
        return None;
    };
    let binary = Path::new(env!("CARGO_BIN_EXE_llm-do")).parent().expect("its folder");
    let mut command: Command = scenario.command_of(&installed);
    command.args(arguments).env("PATH", format!("{}:/usr/bin:/bin", binary.display())).stdin(Stdio::null());
    let output = command.output().expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text.lines().map(str::to_owned).collect())
}

/// The words that bash offers at the end of a line.
fn bash(scenario: &Scenario, line: &str) -> Vec<String> {
    let steps = "eval \"$(llm-do completions bash)\"; COMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'; COMP_LINE=$1; \
                 COMP_POINT=${#1}; _llm_do; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let found = shell(scenario, "bash", &["--norc", "-c", steps, "bash", line]).expect("bash");
    found.into_iter().filter(|line| !line.is_empty()).collect()
}

#[test]
fn bash_completes_workers_runs_models_and_cases() {
    let scenario = project();
    assert_eq!(bash(&scenario, "llm-do show summ"), ["summarizer"]);
    assert_eq!(bash(&scenario, "llm-do runs export last --cases s"), ["summarizer"]);
    let run = scenario.runs()[0].file_name().expect("a name").to_string_lossy().into_owned();
    assert_eq!(bash(&scenario, "llm-do runs show 2"), std::slice::from_ref(&run));
    assert_eq!(bash(&scenario, "llm-do runs show "), ["last".to_owned(), run]);
    // bash replaces what follows the colon.
    assert_eq!(bash(&scenario, "llm-do run --model scr"), ["script:s.yaml"]);
    assert_eq!(bash(&scenario, "llm-do run --model script:s"), ["s.yaml"]);
    assert_eq!(bash(&scenario, "llm-do check --output=sa"), ["sarif"]);
    assert_eq!(bash(&scenario, "llm-do runs resu"), ["resume"]);
}

#[test]
fn bash_reads_words_as_the_shell_does() {
    let scenario = project()
        .file("my dir/project.yaml", "description: Another.\n")
        .file("my dir/workers/other.worker", "---\n---\nGo.\n");
    for typed in [r"my\ dir", "'my dir'", "\"my dir\"", r#"my" "dir"#] {
        assert_eq!(
            bash(&scenario, &format!("llm-do list --project {typed} --entry ot")),
            ["other"],
            "{typed}"
        );
        assert_eq!(bash(&scenario, &format!("llm-do list {typed} --entry ot")), ["other"], "{typed}");
    }
    for typed in [r"my\ d", "'my d", "\"my d"] {
        assert_eq!(bash(&scenario, &format!("llm-do runs --project {typed}")), ["my dir"], "{typed}");
    }
    // Nothing of the line is run.
    bash(&scenario, "llm-do list \"$(touch ran)\" `touch ran` --entry s");
    assert!(!scenario.project().join("ran").exists());
}

#[test]
fn workers_are_those_of_the_target_that_is_typed() {
    let scenario = project()
        .file("digest/project.yaml", "description: Another.\n")
        .file("digest/workers/other.worker", "---\n---\nGo.\n");
    for line in [
        "run digest --entry ot",
        "chat digest --entry ot",
        "list digest --entry ot",
        "runs export last digest --cases ot",
    ] {
        assert_eq!(bash(&scenario, &format!("llm-do {line}")), ["other"], "{line}");
    }
}

#[test]
fn targets_are_worker_files_and_other_files() {
    let scenario = project();
    for command in ["list", "run", "test", "map"] {
        // bash finds it as a file, too, and shows it once.
        let found = bash(&scenario, &format!("llm-do {command} workers/summarizer.w"));
        assert!(found.iter().all(|it| it == "workers/summarizer.worker"), "{command}: {found:?}");
        let found = bash(&scenario, &format!("llm-do {command} "));
        let has = |name: &str| found.iter().any(|it| it == name);
        assert!(
            has("main.worker") && has("workers/summarizer.worker") && has("s.yaml"),
            "{command}: {found:?}"
        );
        // A name of a worker is no target.
        assert!(!has("summarizer"), "{command}: {found:?}");
    }
    assert_eq!(bash(&scenario, "llm-do map --entry s"), ["summarizer"]);
}

#[test]
fn bash_completes_cases_parameters_and_columns() {
    let scenario = project();
    assert_eq!(bash(&scenario, "llm-do test --case s"), ["short-run", "short-text"]);
    assert_eq!(bash(&scenario, "llm-do test . --case lo"), ["long"]);
    // Of a worker file only its own.
    assert_eq!(bash(&scenario, "llm-do test workers/summarizer.worker --case sh"), ["short-text"]);
    let map = "llm-do map workers/summarizer.worker reviews.csv -o o.jsonl";
    assert_eq!(bash(&scenario, &format!("{map} --set-column ")), ["text=", "most="]);
    // bash replaces what follows the equals sign, and a word with a space is quoted.
    assert_eq!(bash(&scenario, &format!("{map} --set-column text=")), ["review", r"the\ stars"]);
    assert_eq!(bash(&scenario, &format!("{map} --ignore-column r")), ["review"]);
    assert_eq!(bash(&scenario, &format!("{map} --param m")), ["most="]);
    let lines = map.replace(".csv", ".jsonl");
    assert_eq!(bash(&scenario, &format!("{lines} --set-column=text=b")), ["body"]);
    assert_eq!(bash(&scenario, "llm-do map . workers --entry summarizer --set-column text=n"), ["name"]);
    assert_eq!(bash(&scenario, "llm-do run . --entry summarizer --param te"), ["text="]);
}

#[test]
fn completion_is_silent_where_a_program_is_broken() {
    let scenario = Scenario::new().file("project.yaml", "model: [\n").file("main.worker", "---\n: :\n");
    for line in ["show ", "runs show ", "run --model ", "--no-such-flag ", ""] {
        let mut words = vec!["complete", "--", "llm-do"];
        words.extend(line.split(' '));
        let told = scenario.run(&words);
        assert!(told.code == Some(0) && told.stderr.is_empty(), "{line}: {told}");
    }
}

#[test]
fn a_name_cannot_forge_a_candidate_or_a_command() {
    let scenario = Scenario::new()
        .file("main.worker", "---\ndescription: \"a\\nforged\\tb\"\nmodel: script:s.yaml\n---\nGo.\n")
        .file("a;touch x.cases.yaml", "cases: []\n");
    let told = scenario.run(&["complete", "--", "llm-do", "show", ""]);
    assert!(told.stdout.lines().all(|line| !line.starts_with("forged")), "{told}");
    let found = bash(&scenario, "llm-do list a");
    assert!(scenario.read("x").is_none() && !found.is_empty(), "{found:?}");
}

#[test]
fn fish_completes_with_descriptions() {
    let scenario = project();
    let complete = |line: &str| {
        let steps = format!("llm-do completions fish | source; complete -C '{line}'");
        shell(&scenario, "fish", &["--no-config", "-c", &steps])
    };
    let Some(found) = complete("llm-do show summ") else { return };
    assert_eq!(found, ["summarizer\tShortens: a text."]);
    assert_eq!(complete("llm-do run --model script:").expect("fish"), ["script:s.yaml\tof the worker main"]);
    let cases = complete("llm-do test --case short-t").expect("fish");
    assert_eq!(cases, ["short-text\tworkers/summarizer.cases.yaml"]);
    let map = "llm-do map workers/summarizer.worker reviews.csv --set-column";
    assert_eq!(complete(&format!("{map} m")).expect("fish"), ["most=\tinteger?"]);
    fs::create_dir(scenario.project().join("my dir")).expect("a folder");
    assert_eq!(complete(r"llm-do run my\\ d").expect("fish"), ["my dir/"]);
    assert_eq!(complete(&format!("{map} text=r")).expect("fish"), ["text=review\ta column"]);
}

#[test]
fn zsh_completes_with_descriptions() {
    let scenario = project();
    let complete = |line: &str| {
        // The functions of the completion system, which needs a terminal, print what they are given.
        let steps = "compdef() { : }; _files() { print FILES }; _describe() { print -rl -- \"${(@P)3}\"; (( $# > 3 )) && print -r -- \"$4\"; true }; \
                     eval \"$(llm-do completions zsh)\"; words=(\"${(@s: :)1}\"); CURRENT=$#words; _llm-do";
        shell(&scenario, "zsh", &["-f", "-c", steps, "zsh", line])
    };
    let Some(found) = complete("llm-do show summ") else { return };
    assert_eq!(found, ["summarizer:Shortens: a text."]);
    let model = complete("llm-do run --model scr").expect("zsh");
    assert_eq!(model, [r"script\:s.yaml:of the worker main"]);
    assert!(complete("llm-do list s").expect("zsh").contains(&"FILES".to_owned()));
    let cases = complete("llm-do test --case short-t").expect("zsh");
    assert_eq!(cases, ["short-text:workers/summarizer.cases.yaml"]);
    let map = "llm-do map workers/summarizer.worker reviews.csv --set-column";
    assert_eq!(complete(&format!("{map} m")).expect("zsh"), ["most=:integer?", "-S"]);
    assert_eq!(complete(&format!("{map} text=r")).expect("zsh"), ["text=review:a column"]);
}
