//! Each example of this package runs offline and prints what its page says.
#![allow(clippy::unwrap_used)] // in a test a panic is the report

use std::{collections::BTreeSet, fs, path::Path, process::Command};

/// Each example with what it prints.
const EXAMPLES: [(&str, &str); 10] = [
    (
        "budget",
        "It is under the third stone. (760 tokens, cost unknown)
the run used all of its budget of 2 model turns (440 tokens)
",
    ),
    (
        "operator",
        r#"write_file {"path":"notes.md","content":"draft"} (risk write)
write_file {"path":"plan.md","content":"no plan"} (risk write)
delete_file {"path":"notes.md"} (risk destructive)
Wrote 5 bytes to `/notes.md`.
Wrote 13 bytes to `/plan.md`.
The operator refused `delete_file`: nothing is deleted here
notes.md: draft
plan.md: a better plan
"#,
    ),
    (
        "parallel",
        "0 2 4 6 8 10 12 14 16 18 20 22 24 28 30 32 34 36 38
failed: script:given: thirteen is unlucky
cancelled: interrupted
",
    ),
    (
        "resume",
        r#"0/0.0:ask: write_file {"path":"report.md","content":"All is well."}
The report is written. All is well.
`0/0.0:ask` is already decided, by operator (program)
"#,
    ),
    (
        "streaming",
        "Streams |carry wa|ter to t|he sea.
28 tokens
the run of `main` starts
the run ends: Done
",
    ),
    (
        "testing",
        r#"a refund goes to billing
script:given: no entry answers worker `main`, turn 0, whose last message is "Hello"
invalid: "{\"team\":\"sales\"}"
asked 3 times
0 findings
"#,
    ),
    (
        "tool",
        r#"The tools said: {"cents":3870}
there is no product `B-9`: the only one is A-1
ordered
orders: 1
1290
"#,
    ),
    (
        "toolset_kind",
        "true
false
E0201: unknown key `hollidays` in `toolsets.calendar`
",
    ),
    (
        "typed_extraction",
        "invoice 17: 614.5 for Paper and Ink
the outputs of `main` don't fit the type `typed_extraction::Order`: the output has no `customer`
",
    ),
    (
        "web_service",
        r#"HTTP/1.1 200 OK
{"summary":"A short text.","words":3}
HTTP/1.1 422 Unprocessable Entity
"#,
    ),
];

/// Examples of the package that no page shows.
const NO_PAGES: [&str; 1] = ["call_supervisor"];

#[test]
fn examples_print_what_they_promise() {
    let home = tempfile::tempdir().unwrap();
    // Cargo puts the examples beside the folder of the test binary.
    let tests = std::env::current_exe().unwrap();
    let folder = tests.parent().unwrap().with_file_name("examples");
    let running = EXAMPLES.map(|(name, expected)| {
        let mut command = Command::new(folder.join(name));
        command.env_clear().env("LLM_DO_HOME", home.path().join(name)).current_dir(home.path());
        let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
        (
            name,
            expected,
            child.unwrap_or_else(|error| {
                panic!("{name}: {error}; `cargo build -p llm-do --examples` makes it")
            }),
        )
    });
    for (name, expected, child) in running {
        let output = child.wait_with_output().unwrap();
        let (stdout, stderr) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success() && stderr.is_empty(), "{name}: {}\n{stdout}{stderr}", output.status);
        assert_eq!(stdout, expected, "{name}");
    }
}

#[test]
fn each_example_is_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found: BTreeSet<String> =
        files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let run = EXAMPLES.iter().map(|(name, _)| *name).chain(NO_PAGES).map(str::to_owned).collect();
    assert_eq!(found, run);
}
