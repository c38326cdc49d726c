//! Runs on a cluster: `llm-do cluster`, `llm-do run --cluster` and `pg:` runs, with the program itself as the node.

#[path = "../../../cluster/tests/cluster/postgres.rs"]
#[allow(dead_code, reason = "the tests of the cluster use the rest")]
mod postgres;

use crate::scenario::Scenario;
use postgres::Postgres;
use std::{
    fs,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

/// A node that ends with the test.
struct Node(Child);

impl Node {
    fn start(scenario: &Scenario, name: &str) -> Self {
        let programs = scenario.home().join("programs").display().to_string();
        let words = ["cluster", "work", "--name", name, "--programs", &programs, "--lease", "3"];
        let mut command = scenario.command(&words);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a node starts"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn writing(server: &Postgres) -> Scenario {
    Scenario::new()
        .file("project.yaml", "name: writing\n")
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\nparameters: {out: path}\ntoolsets: {filesystem: {}}\nsandbox: {write: [\"${out}\"]}\n---\nWrite.\n",
        )
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: /out/a.txt, content: shared}}]\n  - text: written\n",
        )
        .env("LLM_DO_DATABASE", server.url("owner"))
}

#[test]
fn a_run_on_a_cluster_waits_for_its_approval_and_is_read_like_a_local_one() {
    let Some(server) = Postgres::start() else { return };
    let scenario = writing(&server);
    let url = server.url("owner");
    let missing = scenario.run(&["cluster", "status"]);
    assert_eq!(missing.code, Some(2), "{missing}");
    assert!(missing.stderr.contains("llm-do cluster init"), "{missing}");
    for _ in 0..2 {
        let made = scenario.run(&["cluster", "init"]);
        assert_eq!(made.code, Some(0), "{made}");
    }
    let shared = tempfile::tempdir().expect("a shared folder");
    let folder = shared.path().display().to_string();
    let (out, grant) = (format!("out={folder}"), format!("{folder}:rw"));
    let run = ["run", ".", "--param", &out, "--grant", &grant, "--cluster", &url];
    let node = Node::start(&scenario, "one");
    let asked = scenario.run(&run);
    assert_eq!(asked.code, Some(5), "{asked}");
    assert!(asked.stderr.contains("write_file"), "{asked}");
    assert!(asked.stderr.contains("runs resume pg:"), "{asked}");
    assert!(scenario.runs().is_empty(), "nothing of it is recorded here");
    assert!(!shared.path().join("a.txt").exists());
    // The node is killed while the run waits, and another one continues it.
    drop(node);
    let _other = Node::start(&scenario, "two");
    let done = scenario.run(&["runs", "resume", "pg:last", "--approve", "0/0.0"]);
    assert_eq!((done.code, done.stdout.trim()), (Some(0), "written"), "{done}");
    assert_eq!(fs::read_to_string(shared.path().join("a.txt")).ok().as_deref(), Some("shared"));
    let again = scenario.run(&["runs", "resume", "pg:last"]);
    assert_eq!((again.code, again.stdout.trim()), (Some(0), "written"), "{again}");
    let twice = scenario.run(&["runs", "resume", "pg:last", "--deny", "0/0.0"]);
    assert_eq!(twice.code, Some(2), "{twice}");
    let listed = scenario.run(&["runs", "list", "--database", &url]);
    assert!(listed.stdout.contains("done"), "{listed}");
    let shown = scenario.run(&["runs", "show", "pg:last"]);
    assert!(shown.stdout.contains("write_file"), "{shown}");
    let replayed = scenario.run(&["runs", "replay", "pg:last"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
    let copied = scenario.run(&["runs", "export", "pg:last", "--local", ".llm-do/runs"]);
    assert_eq!(copied.code, Some(0), "{copied}");
    let local = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(local.code, Some(0), "{local}");
    let status = scenario.run(&["cluster", "status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).expect("JSON");
    assert_eq!(status["tenants"][0]["runs"][0]["state"], "done");
}

#[test]
fn a_program_that_writes_to_its_own_folder_is_refused_before_anything_starts() {
    let Some(server) = Postgres::start() else { return };
    let scenario = Scenario::new()
        .file("project.yaml", "name: own\nsandbox: {paths: {notes: {root: notes, mode: rw}}}\n")
        .file("notes/a.txt", "a")
        .file("main.worker", "---\nmodel: script:s.yaml\n---\nWrite.\n")
        .file("s.yaml", "answers:\n  - text: x\n")
        .file("lone.worker", "---\nmodel: script:s.yaml\n---\nHello.\n")
        .env("LLM_DO_DATABASE", server.url("owner"));
    assert_eq!(scenario.run(&["cluster", "init"]).code, Some(0));
    let refused = scenario.run(&["run", ".", "go", "--cluster", &server.url("owner")]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("`main` writes to") && refused.stderr.contains("notes"), "{refused}");
    let lone = scenario.run(&["run", "lone.worker", "go", "--no-project", "--cluster", &server.url("owner")]);
    assert_eq!(lone.code, Some(2), "{lone}");
    let nowhere = scenario.run(&["cluster", "status", "--database", "postgres://owner@%2Fnowhere/x"]);
    assert_eq!(nowhere.code, Some(1), "{nowhere}");
    assert!(nowhere.stderr.contains("cannot be reached"), "{nowhere}");
    let wrong = scenario.run(&["cluster", "status", "--database", "mysql://x"]);
    assert_eq!(wrong.code, Some(2), "{wrong}");
    assert!(scenario.run(&["runs", "list", "--database", &server.url("owner")]).stdout.is_empty());
}

#[test]
fn a_cancelled_run_ends_and_its_follower_hears_of_it() {
    let Some(server) = Postgres::start() else { return };
    let scenario = writing(&server);
    assert_eq!(scenario.run(&["cluster", "init"]).code, Some(0));
    let shared = tempfile::tempdir().expect("a shared folder");
    let (out, grant) =
        (format!("out={}", shared.path().display()), format!("{}:rw", shared.path().display()));
    let url = server.url("owner");
    let mut follower = scenario.command(&["run", ".", "--param", &out, "--grant", &grant, "--cluster", &url]);
    let mut follower = follower.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    let began = Instant::now();
    while scenario.run(&["cluster", "cancel", "last"]).code != Some(0) {
        assert!(began.elapsed() < Duration::from_secs(60), "the run was not spawned");
    }
    // No node has begun it.
    assert_eq!(follower.wait().expect("it ends").code(), Some(1));
    assert_eq!(scenario.run(&["cluster", "cancel", "last"]).code, Some(2));
}
