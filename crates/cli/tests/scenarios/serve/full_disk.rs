//! A disk that is full in the middle of runs.
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use super::{client::Server, desk, whole};
use crate::scenario::Scenario;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A disk of 16 MiB that only its servers see. It exists as long as this value.
struct SmallDisk {
    keeper: Child,
    place: PathBuf,
}

/// A script that makes the disk in the given folder, and keeps it until its standard input ends.
const KEEPER: &str =
    r#"mount -t tmpfs -o size=16m,mode=700 tmpfs "$1" && mkdir "$1/home" && echo made && cat"#;

impl SmallDisk {
    /// Makes the disk in that folder. `None`: the system gives no disk to a process without rights.
    fn at(place: &Path) -> Option<Self> {
        let keeper = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", KEEPER, "sh"])
            .arg(place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let made = keeper.ok().and_then(|mut keeper| {
            let mut line = String::new();
            BufReader::new(keeper.stdout.take()?).read_line(&mut line).ok()?;
            (line == "made\n").then(|| Self { keeper, place: place.to_owned() })
        });
        if made.is_none() {
            eprintln!("skipped: `unshare` can not mount a tmpfs for a process without rights");
        }
        made
    }

    /// A server of the project, with its records and its home on the disk.
    fn serve(&self, scenario: &Scenario) -> Server {
        let mut command = scenario.command_of(Path::new("nsenter"));
        command.args(["--preserve-credentials", "--user", "--mount"]);
        command.arg(format!("--target={}", self.keeper.id()));
        command.arg(format!("--wd={}", scenario.project().display()));
        command.args([env!("CARGO_BIN_EXE_llm-do"), "serve", ".", "--listen", "127.0.0.1:0"]);
        command.env("LLM_DO_HOME", self.place.join("home"));
        Server::of(command, None)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// A file that fills the disk of a server.
struct Filler(PathBuf);

impl Filler {
    fn fill(server: &Server, disk: &Path) -> Self {
        let seen =
            Path::new(&format!("/proc/{}/root", server.id())).join(disk.strip_prefix("/").expect("a path"));
        let path = seen.join("filler");
        let mut file = File::create(&path).expect("a file on the disk of the server");
        for size in [1 << 20, 1 << 12, 1] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
        Self(path)
    }

    fn remove(self) {
        fs::remove_file(self.0).expect("removed");
    }
}

/// Approves the write of a run. All runs write the same file, which must not exist yet, because each has shown it as
/// new.
fn approve(server: &Server, note: &Path, run: &str, question: &Value) -> u16 {
    let _ = fs::remove_file(note);
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    server.post(&format!("/v1/runs/{run}/answers"), &answer).send().status
}

#[test]
fn runs_that_can_not_be_written_say_so_and_others_are_unharmed() {
    let scenario = desk().file(".llm-do/kept", "");
    let note = scenario.project().join("out/note.txt");
    let Some(disk) = SmallDisk::at(&scenario.project().join(".llm-do")) else { return };
    let server = disk.serve(&scenario);
    let count = if whole() { 300 } else { 6 };
    let begun: Vec<(String, Value)> = (0..count)
        .map(|_| {
            let body = json!({"worker": "writer", "message": "Write."});
            let started = server.post("/v1/runs?wait=60", &body).send().body;
            assert_eq!(started["state"], "waiting", "{started}");
            (started["run"].as_str().expect("an ID").to_owned(), started["questions"][0].clone())
        })
        .collect();
    let (hit, spared) = begun.split_at(count / 2);

    let filler = Filler::fill(&server, &disk.place);
    for (run, question) in hit {
        // Taken: that it can't be written shows later.
        assert_eq!(approve(&server, &note, run, question), 204);
        let view = server.until(run, |view| view["state"] != "waiting" && view["state"] != "running");
        assert_eq!(view["state"], "cut_off", "{view}");
        let reason = view["reason"].as_str().unwrap_or_default();
        assert!(
            reason.contains("the journal cannot be written") && reason.contains("No space left"),
            "{view}"
        );
    }
    let cut_off = server.get("/v1/runs?state=cut_off&limit=200").send().body;
    assert_eq!(cut_off["runs"].as_array().expect("runs").len(), hit.len().min(200), "{cut_off}");
    assert!(
        cut_off["runs"][0]["reason"].as_str().is_some_and(|why| why.contains("No space left")),
        "{cut_off}"
    );
    server.logged("No space left");
    let refused = server.post("/v1/runs", &json!({"input": {"name": "Ada"}})).send();
    assert_eq!((refused.status, &refused.body["code"]), (507, &json!("storage")), "{refused:?}");
    let refused = server.ask("POST", "/v1/uploads?name=a.txt", "x".repeat(1 << 20)).send();
    assert_eq!((refused.status, &refused.body["code"]), (507, &json!("storage")), "{refused:?}");
    assert_eq!(server.get("/health").send().status, 200);
    let waiting = server.get("/v1/questions").send().body;
    assert_eq!(waiting["questions"].as_array().expect("questions").len(), spared.len(), "{waiting}");

    filler.remove();
    for (run, question) in spared {
        assert_eq!(approve(&server, &note, run, question), 204);
        let done = server.get(&format!("/v1/runs/{run}?wait=60")).send().body;
        assert_eq!(done["output"], "written", "{done}");
    }
    let again = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send();
    assert_eq!(again.body["state"], "done", "{again:?}");
    assert_eq!(server.stop(), Some(130));

    // The next server continues the runs. It asks the questions again whose answers could not be recorded.
    let server = disk.serve(&scenario);
    for (run, asked) in hit {
        let view = server.until(run, |view| view["state"] == "waiting" || view["state"] == "done");
        assert_eq!(view["reason"], Value::Null, "{view}");
        let mut done = view;
        // The call is asked about again as often as another run has written the same file meanwhile.
        for _ in 0..5 {
            if done["state"] == "waiting" {
                assert_eq!(done["questions"][0]["call"], asked["call"], "{done}");
                assert_eq!(approve(&server, &note, run, &done["questions"][0]), 204, "{done}");
            }
            done = server.get(&format!("/v1/runs/{run}?wait=60")).send().body;
        }
        assert_eq!((&done["state"], &done["output"]), (&json!("done"), &json!("written")), "{done}");
    }
    assert_eq!(server.stop(), Some(130));
}
