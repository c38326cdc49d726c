//! Grants for access outside the program's folder: asked, remembered, changed and revoked.

use crate::{scenario::Scenario, terminal_session::Session};
use insta::assert_snapshot;

const WORKER: &str =
    "---\nmodel: script:s.yaml\nsandbox: {paths: {etc: /etc}}\ntoolsets: [filesystem]\n---\nRead.\n";

fn scenario() -> Scenario {
    Scenario::new().file("main.worker", WORKER).file("s.yaml", "answers:\n  - text: done\n")
}

/// Answers the question with one key.
fn answer(scenario: &Scenario, key: &str) -> Option<i32> {
    let mut session = Session::start(scenario.command_on_terminal(&["."]));
    session.expect("asks for more than its own folder");
    session.expect("to read /etc");
    session.expect("--grant /etc:ro");
    session.expect("[n] no");
    session.wait_for_keys();
    session.type_keys(key);
    session.end().0
}

#[test]
fn one_time_grant_is_asked_again() {
    let scenario = scenario();
    assert_eq!(answer(&scenario, "n"), Some(3));
    assert_eq!(answer(&scenario, "y"), Some(0));
    assert_eq!(answer(&scenario, "y"), Some(0));
    assert_snapshot!(scenario.run(&["grants", "list"]), @"
    exit 0
    --- stderr
    note: nothing is granted to any program
    ");
}

#[test]
fn remembered_grant_covers_only_the_same_request() {
    let scenario = scenario();
    assert_eq!(answer(&scenario, "r"), Some(0));
    assert_eq!(scenario.run(&["."]).code, Some(0));
    let listed = scenario.run(&["grants", "list"]).stdout;
    assert!(listed.contains("/etc:ro") && listed.lines().count() == 1, "{listed}");

    // Neither more nor less than the granted set is covered by the grant.
    let more = scenario.file("main.worker", &WORKER.replace("etc: /etc", "etc: /etc, usr: /usr"));
    assert_eq!(more.run(&["."]).code, Some(3));
    let written = more.file("main.worker", &WORKER.replace("etc: /etc", "etc: {root: /etc, mode: rw}"));
    assert_eq!(written.run(&["."]).code, Some(3));
    let network = written
        .file("main.worker", &WORKER.replace("sandbox: {", "sandbox: {network_enabled: [a.example], "));
    assert_snapshot!(network.run(&["."]), @"
    exit 3
    --- stderr
    error: the program asks for more than its own folder:
      to read /etc (asked for at main.worker:3)
      to use the network: a.example (asked for at main.worker:3)
    hint: if you trust it with that, run it again with --grant /etc:ro --grant network=a.example
    ");
    let same = network.file("main.worker", WORKER);
    assert_eq!(same.run(&["."]).code, Some(0));

    assert_eq!(same.run(&["grants", "revoke", "."]).code, Some(0));
    assert_eq!(same.run(&["."]).code, Some(3));
    assert_snapshot!(same.run(&["grants", "revoke"]), @"
    exit 2
    --- stderr
    error: nothing is granted to [DIR]/project
    hint: `llm-do grants list` lists the grants of each program
    ");
}

#[test]
fn copy_of_a_program_needs_its_own_grant() {
    let scenario = scenario();
    assert_eq!(answer(&scenario, "r"), Some(0));
    let copy = scenario.file("copy/main.worker", WORKER).file("copy/s.yaml", "answers:\n  - text: done\n");
    let copy = copy.file("copy/project.yaml", "name: copy\n");
    assert_eq!(copy.run(&["copy"]).code, Some(3));
    assert_eq!(copy.run(&["."]).code, Some(0));
    assert_eq!(copy.run(&["grants", "revoke", "--all"]).code, Some(0));
    assert_eq!(copy.run(&["."]).code, Some(3));
}

#[test]
fn binding_outside_needs_a_grant_like_a_mount() {
    let scenario = Scenario::new()
        .file("project.yaml", "bindings: {notes: /etc}\n")
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\nparameters: {notes: path}\ntoolsets: [filesystem]\n---\nRead {{ notes }}.\n",
        )
        .file("s.yaml", "answers:\n  - text: done\n");
    assert_snapshot!(scenario.run(&["."]), @"
    exit 3
    --- stderr
    error: the program asks for more than its own folder:
      to read /etc (asked for at project.yaml:1)
    hint: if you trust it with that, run it again with --grant /etc:ro
    ");
    assert_eq!(scenario.run(&[".", "--grant", "/etc:ro"]).code, Some(0));
    // A binding of the operator needs no grant.
    assert_eq!(scenario.run(&[".", "--param", "notes=."]).code, Some(0));
    let mut session = Session::start(scenario.command_on_terminal(&["."]));
    session.expect("to read /etc");
    session.expect("[n] no");
    session.wait_for_keys();
    session.type_keys("r");
    assert_eq!(session.end().0, Some(0));
    assert_eq!(scenario.run(&["."]).code, Some(0));
}

#[test]
fn damaged_grants_file_stops_programs_that_need_a_grant() {
    let scenario = scenario();
    std::fs::create_dir_all(scenario.home().join("home/.llm-do")).unwrap();
    std::fs::write(scenario.home().join("home/.llm-do/grants.yaml"), "grants: yes\n").unwrap();
    let told = scenario.run(&["."]);
    assert_eq!(told.code, Some(2));
    assert!(told.stderr.contains("grants.yaml") && told.stderr.contains("mend the file"), "{}", told.stderr);
    assert_eq!(scenario.run(&[".", "--grant", "/etc:ro"]).code, Some(0));
}
