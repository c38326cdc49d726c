//! A run writes, shows and sends to its model no secret.

use crate::scenario::Scenario;
use std::{fs, path::Path};

/// A secret because of its variable's name.
const KEY: &str = "sk-acme-5ecret/\"quoted\"\\value";
/// A secret because the operator lists its variable.
const LISTED: &str = "plain but listed 7781";

fn scenario() -> Scenario {
    let scenario = Scenario::new()
        .file("project.yaml", "sandbox: {paths: {data: {root: data, mode: rw}}}\n")
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\nparameters: {topic: string}\ntoolsets: [filesystem]\nallow_workers: [child]\n---\n\
             About {{ topic }}: {{ file('prompts/notes.txt') }}\n",
        )
        .file("workers/child.worker", "---\nmodel: script:s.yaml\n---\nYou answer.\n")
        .file("prompts/notes.txt", &format!("key {KEY}, code {LISTED}\n"))
        .file("data/leak.txt", &format!("{KEY}\n{LISTED}\nc2stYWNtZS01ZWNyZXQvInF1b3RlZCJcdmFsdWU=\n"))
        .file(
            "tools.py",
            "import base64, os, sys\n\n\
             def leak(path: str) -> dict:\n    \"\"\"Tells everything it can find.\"\"\"\n    text = open('/data/leak.txt').read()\n    print(text, dict(os.environ))\n    print(text, file=sys.stderr)\n    return {text.splitlines()[0]: [text, dict(os.environ), base64.b64encode(text.encode()).decode()]}\n\n\
             def fail(path: str) -> str:\n    \"\"\"Fails with it.\"\"\"\n    raise ValueError(open('/data/leak.txt').read())\n",
        )
        .file(
            "s.yaml",
            &format!(
                "answers:\n  - when: {{worker: child}}\n    text: {0}\n  - when: {{turn: 0}}\n    calls:\n      - {{tool: read_file, arguments: {{path: data/leak.txt}}}}\n      - {{tool: leak, arguments: {{path: x}}}}\n      - {{tool: fail, arguments: {{path: x}}}}\n      - {{tool: child, arguments: {{input: {0}}}}}\n      - {{tool: write_file, arguments: {{path: data/{1}, content: {0}}}}}\n      - {{tool: no_such_tool, arguments: {{x: {0}}}}}\n  - text: {0}\n",
                serde_json::to_string(&format!("{KEY} and {LISTED}")).expect("as arranged"),
                LISTED.replace(' ', "_"),
            ),
        )
        .env("ACME_API_KEY", KEY)
        .env("HOUSE_CODE", LISTED);
    let config = scenario.home().join("home/.llm-do");
    fs::create_dir_all(&config).expect("as arranged");
    fs::write(config.join("config.yaml"), "secrets: [HOUSE_*]\n").expect("as arranged");
    scenario
}

/// All files below a folder.
fn walk(folder: &Path, look: &mut dyn FnMut(&Path, &[u8])) {
    for entry in fs::read_dir(folder).expect("as arranged") {
        let path = entry.expect("as arranged").path();
        if path.is_dir() {
            walk(&path, look);
        } else if path.is_file() {
            look(&path, &fs::read(&path).expect("as arranged"));
        }
    }
}

/// The encodings in which the secrets could be read.
fn forms() -> Vec<String> {
    let escaped = serde_json::to_string(KEY).expect("as arranged");
    let twice = serde_json::to_string(&escaped).expect("as arranged");
    vec![
        KEY.into(),
        escaped.trim_matches('"').into(),
        twice[3..twice.len() - 3].into(),
        LISTED.into(),
        "c2stYWNtZS01ZWNyZXQvInF1b3RlZCJcdmFsdWU".into(),
    ]
}

fn assert_clean(what: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for form in forms() {
        assert!(!text.contains(&form), "`{form}` stands in {what}");
    }
}

#[test]
fn run_leaves_no_secret_behind() {
    for format in ["text", "json", "stream-json"] {
        let scenario = scenario();
        let param = format!("topic={KEY}");
        let arguments = [".", "--param", &param, "--approval", "approve_all", "-vv", "--output", format];
        let told = scenario.run(&arguments);
        assert_eq!(told.code, Some(0), "{told}");
        assert_clean("stdout", told.stdout.as_bytes());
        assert_clean("stderr", told.stderr.as_bytes());
        assert!(told.stdout.contains("[secret ACME_API_KEY]"), "{told}");
        // The journal holds the request to the model.
        let journal = serde_json::to_string(&scenario.journal()).expect("as arranged");
        assert!(journal.contains("[secret HOUSE_CODE]") && journal.contains("conversation_started"));
        let mut looked_at = 0;
        // Only the program's own files, and the file that a tool was asked to write, contain the secrets.
        let theirs = ["leak.txt", "notes.txt", "s.yaml", "plain_but_listed_7781"];
        walk(scenario.home(), &mut |path, bytes| {
            if !theirs.iter().any(|name| path.ends_with(name)) {
                looked_at += 1;
                assert_clean(&path.display().to_string(), bytes);
            }
        });
        assert!(looked_at > 5, "{looked_at} files");
        for arguments in [&["runs", "show", "--json"][..], &["runs", "show"], &["runs", "list"]] {
            let told = scenario.run(arguments);
            assert_clean("runs", format!("{}{}", told.stdout, told.stderr).as_bytes());
        }
    }
}

#[test]
fn error_messages_contain_no_secret() {
    let scenario = scenario();
    // Invalid JSON in the input, and a secret in a rule.
    let wrong = format!("{{{KEY}");
    let told = scenario.run(&[".", "--input", &wrong]);
    assert_eq!(told.code, Some(2), "{told}");
    let deny = format!("write_file({LISTED})");
    let told = scenario.run(&[
        ".",
        "--param",
        "topic=x",
        "--approval",
        "defer",
        "--deny",
        &deny,
        "--output",
        "json",
    ]);
    assert_clean("stderr", told.stderr.as_bytes());
    assert_clean("stdout", told.stdout.as_bytes());
}
