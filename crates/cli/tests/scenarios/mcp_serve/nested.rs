//! A worker that calls a worker through its own server, which calls a third one through another server.
//!
//! Each server is a confined process of the worker above it. A confined process can't confine others, so the middle one is
//! granted `unconfined`: what it starts stays within the confinement that it has itself. `LLM_DO_HOME` names a folder that
//! outlives the processes, so that each of the three runs keeps its journal.

use crate::{
    operator_channel,
    scenario::{Scenario, journal_in},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
    process::Child,
    thread,
    time::{Duration, Instant},
};

/// The revisions of the protocol between the programs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Revision {
    /// 2025-11-25: a question is a request of the server within the call.
    Older,
    /// 2026-07-28: a call ends with its questions, and is made again with the answers.
    Rounds,
}

const BOTH: [Revision; 2] = [Revision::Rounds, Revision::Older];

/// Three workers, of which the last writes a file.
struct Three {
    scenario: Scenario,
    /// The command line of the top's server, as the operator grants it.
    middle: String,
}

impl Three {
    /// The arguments after `bottom` are those of the last server.
    fn new(bottom: &str) -> Self {
        let scenario = Scenario::new();
        // Whole paths make the processes of this test findable.
        let home = |name: &str| scenario.project().join("state").join(name).display().to_string();
        let bottom = format!("env LLM_DO_HOME={} ./llm-do mcp serve bottom.worker{bottom}", home("bottom"));
        let middle = format!("env LLM_DO_HOME={} ./llm-do mcp serve middle.worker", home("middle"));
        let options = ["--allow", "inner:bottom", "--grant", "unconfined", "--grant"];
        let of_middle = [middle.split(' ').collect(), options.to_vec(), vec![]].concat();
        let granted = format!("process={bottom}");
        let of_middle: Vec<&str> = of_middle.into_iter().chain([granted.as_str()]).collect();
        let middle = format!("{middle} {} 'process={bottom}'", options.join(" "));
        let of_bottom: Vec<&str> = bottom.split(' ').collect();
        let calls = |server: &str, says: &str| {
            format!(
                "answers:\n  - when: {{turn: 0}}\n    calls: [{{tool: {server}, arguments: {{input: go}}}}]\n  - text: {says}\n"
            )
        };
        let client = |worker: &str, command: &[&str]| {
            let server = json!({"command": command[0], "args": command[1..], "paths": [".:rw"]});
            let toolsets = json!({"mcp": {"servers": {"inner": server}}});
            format!("---\nmodel: script:{worker}.yaml\ntoolsets: {toolsets}\n---\nCall the next one.\n")
        };
        let top_worker = client("top", &of_middle);
        let middle_worker = client("middle", &of_bottom);
        let scenario = scenario
            .file("top.worker", &top_worker)
            .file("middle.worker", &middle_worker)
            .file("bottom.worker", "---\nmodel: script:bottom.yaml\ntoolsets: [filesystem]\n---\nWrite.\n")
            .file("top.yaml", &calls("inner__middle", "the top is done"))
            .file("middle.yaml", &calls("inner__bottom", "the middle is done"))
            .file(
                "bottom.yaml",
                "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: deep}}]\n  - text: the bottom is done\n",
            );
        let (binary, here) = (Path::new(env!("CARGO_BIN_EXE_llm-do")), scenario.project().join("llm-do"));
        if fs::hard_link(binary, &here).is_err() {
            fs::copy(binary, &here).expect("a copy of the binary");
        }
        Self { scenario, middle }
    }

    fn arguments(&self) -> Vec<String> {
        let grant = format!("process={}", self.middle);
        ["top.worker", "-m", "go", "--allow", "inner:middle", "--grant", &grant].map(str::to_owned).to_vec()
    }

    /// Starts the top and waits for its first question.
    fn ask(&self) -> (Child, operator_channel::Client, Value) {
        let arguments = self.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.ask_with(&arguments)
    }

    /// The same with another command.
    fn ask_with(&self, arguments: &[&str]) -> (Child, operator_channel::Client, Value) {
        let path = self.scenario.home().join("operator.sock");
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        let channel = format!("unix:{}", path.display());
        let child = operator_channel::start(&self.scenario, &channel, arguments);
        let mut operator = operator_channel::Client::of(listener.accept().expect("the top connects").0);
        let asked = operator.hears();
        (child, operator, asked)
    }

    /// Lets it run once unattended, so that each client has listed its server's tools, and has the clients speak that
    /// revision from then on.
    fn speaking(self, revision: Revision) -> Self {
        let arguments = self.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let told = self.scenario.run(&arguments);
        assert_eq!((told.code, told.stdout.as_str()), (Some(0), "the top is done\n"), "{told}");
        if revision == Revision::Older {
            for home in &self.homes()[..2] {
                let lists = fs::read_dir(home.join("mcp/lists")).expect("the lists of tools");
                for list in lists.map(|entry| entry.expect("an entry").path()) {
                    let text = fs::read_to_string(&list).expect("a list");
                    let older = text.replace(r#""lifecycle":"discover""#, r#""lifecycle":"initialize""#);
                    assert_ne!(text, older, "the servers speak the newest revision");
                    fs::write(list, older).expect("a list");
                }
            }
        }
        self
    }

    /// The folders `~/.llm-do` of the top, the middle and the bottom.
    fn homes(&self) -> [PathBuf; 3] {
        let state = self.scenario.project().join("state");
        [self.scenario.home().join("home/.llm-do"), state.join("middle"), state.join("bottom")]
    }

    /// The newest journals of the top, the middle and the bottom.
    fn journals(&self) -> [Vec<Value>; 3] {
        self.homes().map(|home| journal_in(&home.join("runs")))
    }

    /// Returns true if a process of this test is left.
    fn runs(&self) -> bool {
        let mark = self.scenario.project().display().to_string();
        fs::read_dir("/proc").expect("procfs").flatten().any(|entry| {
            ["cmdline", "environ"].iter().any(|file| {
                let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
                String::from_utf8_lossy(&bytes).contains(&mark)
            })
        })
    }
}

fn of_kind<'a>(journal: &'a [Value], kind: &str) -> Vec<&'a Value> {
    journal.iter().filter(|record| record["kind"] == kind).collect()
}

#[test]
fn approval_three_servers_deep_is_asked_at_the_top_and_recorded_by_all_three() {
    for revision in BOTH {
        for (decision, written) in [("approve", Some("deep")), ("deny", None)] {
            let three = Three::new("").speaking(revision);
            assert_eq!(three.scenario.read("a.txt"), None, "an unattended run writes nothing");
            let (child, mut operator, asked) = three.ask();
            let prompt = asked["prompt"].as_str().expect("a text");
            for part in
                ["The MCP server `inner` asks", "bottom wants to call write_file (risk: write)", "+deep"]
            {
                assert!(prompt.contains(part), "{revision:?}: {part}: {prompt}");
            }
            assert_eq!(three.scenario.read("a.txt"), None);
            operator.says(&json!({
                "call": asked["call"], "step": asked["step"], "by": "ada",
                "answer": "give", "value": {"decision": decision},
            }));
            assert_eq!(operator.hears()["type"], "accepted");
            let told = three.scenario.finished(child.wait_with_output().expect("it ends"));
            assert_eq!((told.code, told.stdout.as_str()), (Some(0), "the top is done\n"), "{told}");
            assert_eq!(three.scenario.read("a.txt").as_deref(), written, "{revision:?}");
            let journals = three.journals();
            let answers = journals.each_ref().map(|journal| match of_kind(journal, "answered")[..] {
                [answer] => (answer["answer"].clone(), answer["by"].clone(), answer["via"].clone()),
                _ => panic!("{revision:?}: not one answer: {journal:#?}"),
            });
            let (given, by) = (json!("give"), json!("operator"));
            let client = json!("MCP client llm-do");
            assert_eq!(answers[0], (given.clone(), json!("ada"), json!("operator protocol")));
            assert_eq!(answers[1], (given, by.clone(), client.clone()));
            assert_eq!(answers[2], (json!(decision), by, client));
            for journal in &journals {
                assert_eq!(journal.last().expect("an end")["status"], "done", "{revision:?}");
            }
            let ended = of_kind(&journals[0], "tool_ended");
            assert_eq!(ended[0]["origins"][0]["origin"], "untrusted", "{:?}", ended[0]);
        }
    }
}

#[test]
fn interrupt_at_the_top_ends_all_three_and_is_no_denial() {
    for revision in BOTH {
        let three = Three::new("").speaking(revision);
        let (child, operator, _) = three.ask();
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("an ID");
        kill_process(pid, Signal::INT).expect("it runs");
        let told = three.scenario.finished(child.wait_with_output().expect("it ends"));
        drop(operator);
        assert_eq!(told.code, Some(130), "{revision:?}: {told}");
        let start = Instant::now();
        while three.runs() {
            assert!(start.elapsed() < Duration::from_secs(20), "{revision:?}: a process is left behind");
            thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(three.scenario.read("a.txt"), None, "{revision:?}");
        for (journal, name) in three.journals().iter().zip(["top", "middle", "bottom"]) {
            assert!(of_kind(journal, "answered").is_empty(), "{revision:?}: {name}: {journal:#?}");
            let end = journal.last().expect("records");
            let status = end["status"].as_str().unwrap_or_else(|| panic!("{revision:?}: {name}: {end}"));
            assert!(["interrupted", "suspended"].contains(&status), "{revision:?}: {name}: {end}");
        }
    }
}

#[test]
fn interrupted_approval_is_asked_again_when_the_top_is_resumed() {
    let three = Three::new("").speaking(Revision::Rounds);
    let (child, operator, first) = three.ask();
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("an ID");
    kill_process(pid, Signal::INT).expect("it runs");
    child.wait_with_output().expect("it ends");
    drop(operator);
    let (child, mut operator, again) = three.ask_with(&["runs", "resume"]);
    assert_eq!(first["prompt"], again["prompt"]);
    operator.says(&json!({
        "call": again["call"], "step": again["step"], "answer": "give", "value": {"decision": "approve"},
    }));
    let told = three.scenario.finished(child.wait_with_output().expect("it ends"));
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "the top is done\n"), "{told}");
    assert_eq!(three.scenario.read("a.txt").as_deref(), Some("deep"));
    for (journal, name) in three.journals().iter().zip(["top", "middle", "bottom"]) {
        assert_eq!(of_kind(journal, "answered").len(), 1, "{name}");
        assert_eq!(of_kind(journal, "run_resumed").len(), 1, "{name}");
        assert_eq!(journal.last().expect("an end")["status"], "done", "{name}");
    }
}

#[test]
fn servers_own_operator_can_allow_what_the_bottom_does() {
    let three = Three::new(" --allow write_file").speaking(Revision::Rounds);
    assert_eq!(three.scenario.read("a.txt").as_deref(), Some("deep"));
}
