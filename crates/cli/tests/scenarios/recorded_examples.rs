//! Replays a recorded run of each example: `examples/recorded/NAME`. `UPDATE_EXPECT=1` records them again.

use crate::{
    python::has_python,
    scenario::{Scenario, lines},
};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The folder that a recorded run names as its project.
const NOWHERE: &str = "/recorded";
/// The start of a recorded run, in milliseconds since 1970.
const ONCE_MS: u64 = 1_767_225_600_000;
/// The ID of a recorded run.
const RUN: &str = "20260101-000000-0000";

/// The grants of the user of `minutes`.
pub(crate) const MINUTES_GRANTS: [&str; 2] = [
    "process=node servers/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js minutes",
    "process=servers/venv/bin/mcp-server-git --repository minutes",
];

pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().expect("the examples")
}

/// An example, and the arguments of its run.
struct Example {
    name: &'static str,
    /// The file or folder to run, in `examples/`.
    target: &'static str,
    /// The worker that starts, if not the project's entry.
    entry: Option<&'static str>,
    message: Option<&'static str>,
    /// A file of the example for stdin.
    stdin: Option<&'static str>,
    /// The grants of the user.
    grants: &'static [&'static str],
    /// The answers to its questions, one after the other.
    answers: &'static [&'static str],
}

impl Example {
    fn new(name: &'static str) -> Self {
        Self { name, target: name, entry: None, message: None, stdin: None, grants: &[], answers: &[] }
    }

    fn finished(self, message: &'static str) -> Self {
        Self { message: Some(message), ..self }
    }

    fn recorded(&self) -> PathBuf {
        examples().join("recorded").join(self.name)
    }

    /// A copy, since runs write into their projects.
    fn copied(&self) -> Scenario {
        let scenario = Scenario::new();
        copy(&examples().join(self.target), &scenario.project().join(self.target));
        scenario
    }

    fn is_same(&self) {
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            self.record();
        }
        let scenario = self.copied();
        self.stand_in(&scenario);
        let recorded = self.recorded();
        let from = recorded.to_string_lossy();
        let mut arguments = vec!["runs", "replay", &*from, "--against", self.target];
        arguments.extend(self.grants.iter().flat_map(|grant| ["--grant", grant]));
        let told = scenario.run(&arguments);
        assert_eq!(told.code, Some(0), "{told}");
        assert!(
            told.stdout.starts_with("the same as [RUN]: ") && !told.stdout.contains("as far as"),
            "{told}"
        );
        assert_eq!(scenario.runs().len(), 0);
        assert_portable(&recorded);
    }

    /// A replay only needs the names of the tools, for which stub packages are enough.
    fn stand_in(&self, scenario: &Scenario) {
        if self.name == "analysis" {
            fs::write(scenario.project().join("analysis/polars.py"), "").expect("a module");
        }
    }

    fn record(&self) {
        let scenario = self.copied();
        let script = scenario.home().join("model.yaml");
        fs::copy(examples().join("scripts").join(format!("{}.yaml", self.name)), &script)
            .expect("its script");
        match self.name {
            "analysis" => environment(&scenario.project().join(self.target)),
            "minutes" => install(&scenario.project().join(self.target)),
            _ => {}
        }
        let model = format!("script:{}", script.display());
        let mut arguments = vec![self.target, "--model", &model];
        if let Some(entry) = self.entry {
            arguments.extend(["--entry", entry]);
        }
        if let Some(message) = self.message {
            arguments.extend(["--message", message]);
        }
        if !self.answers.is_empty() {
            arguments.extend(["--approval", "defer"]);
        }
        arguments.extend(self.grants.iter().flat_map(|grant| ["--grant", grant]));
        let begin = || match self.stdin {
            Some(file) => {
                let text = fs::read_to_string(examples().join(file)).expect("its input");
                scenario.run_with_stdin(&arguments, &text)
            }
            None => scenario.run(&arguments),
        };
        let mut told = begin();
        // On a busy machine, a server may not be there in time. Its tools are known after some attempts.
        while told.stderr.contains("did not start within") {
            for runs in [
                scenario.project().join(self.target).join(".llm-do"),
                scenario.home().join("home/.llm-do/runs"),
            ] {
                let _ = fs::remove_dir_all(runs);
            }
            told = begin();
        }
        for answer in self.answers {
            told = scenario.run(&["runs", "resume", "last", self.target, "--answer", answer]);
        }
        assert_eq!(told.code, Some(0), "{told}");
        let runs = scenario.project().join(self.target).join(".llm-do/runs");
        let runs = if runs.is_dir() { runs } else { scenario.home().join("home/.llm-do/runs") };
        let run = fs::read_dir(runs).expect("a run").next().expect("a run").expect("a run").path();
        let to = self.recorded();
        let _ = fs::remove_dir_all(&to);
        fs::create_dir_all(&to).expect("a folder");
        let journal = fs::read_to_string(run.join("journal.jsonl")).expect("a journal");
        fs::write(to.join("journal.jsonl"), nowhere(&scenario, &run, &journal)).expect("a journal");
        if run.join("blobs").is_dir() {
            copy(&run.join("blobs"), &to.join("blobs"));
        }
    }
}

/// The journal without the data of the recording machine: paths, times, the interpreter, seals.
fn nowhere(scenario: &Scenario, run: &Path, journal: &str) -> String {
    let id = run.file_name().expect("an ID").to_string_lossy();
    let real = fs::canonicalize(scenario.home()).expect("the folder");
    let journal = journal.replace(&*real.to_string_lossy(), NOWHERE);
    let journal = journal.replace(&*scenario.home().to_string_lossy(), NOWHERE).replace(&*id, RUN);
    let mut records = lines(&journal);
    for (number, record) in records.iter_mut().enumerate() {
        let fields = record.as_object_mut().expect("a record");
        fields.remove("seal");
        fields.remove("runtimes");
        fields.insert("at_ms".into(), Value::from(ONCE_MS + number as u64));
    }
    records.iter().map(|record| format!("{record}\n")).collect()
}

/// Fails if a recorded run contains data of a machine or a person.
fn assert_portable(recorded: &Path) {
    let mut found = vec![recorded.join("journal.jsonl")];
    if let Ok(blobs) = fs::read_dir(recorded.join("blobs")) {
        found.extend(blobs.map(|blob| blob.expect("a file").path()));
    }
    let own = [std::env::var("USER"), std::env::var("HOME"), std::env::var("HOSTNAME")];
    let own = own.into_iter().flatten().filter(|word| word.len() > 3);
    let words: Vec<String> = ["/tmp", "/root", "/home", "/work", "/Users", "/usr/", "/var/", "\"seal\""]
        .map(str::to_owned)
        .into_iter()
        .chain(own)
        .collect();
    for file in found {
        let text = fs::read_to_string(&file).expect("text");
        for word in &words {
            assert!(!text.contains(word.as_str()), "{} holds {word}", file.display());
        }
        for path in text.match_indices("\"here\":\"").map(|(at, _)| &text[at + 8..]) {
            assert!(path.starts_with(NOWHERE), "{}", file.display());
        }
    }
}

/// Installs the environment that the example needs, from the network. Only for recording.
fn environment(project: &Path) {
    let venv = project.join(".venv");
    let made = Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(&venv).status().expect("Python");
    assert!(made.success());
    let install = ["-m", "pip", "install", "--quiet", "-r", "requirements.txt"];
    let pip = Command::new(venv.join("bin/python")).args(install).current_dir(project).status().expect("pip");
    assert!(pip.success());
}

/// Installs the servers that the example uses, from the network. Only for recording.
pub(crate) fn install(project: &Path) {
    let done = Command::new(project.join("install")).current_dir(project).status().expect("a shell");
    assert!(done.success());
}

pub(crate) fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::create_dir_all(to.parent().expect("a folder around it")).expect("a folder");
        fs::copy(from, to).expect("a copy");
        return;
    }
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        // Leftovers of a developer who tried the example.
        if ![".venv", ".llm-do", "__pycache__", "node_modules", "venv", ".git"]
            .iter()
            .any(|left| entry.file_name() == *left)
        {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    }
}

#[test]
fn greeter_replays() {
    Example { target: "greeter.worker", ..Example::new("greeter") }.finished("Ada").is_same();
}

#[test]
fn digest_replays() {
    Example::new("digest").is_same();
}

#[test]
fn extractor_replays() {
    Example { stdin: Some("extractor/input/invoice.txt"), ..Example::new("extractor") }.is_same();
}

#[test]
fn strikes_replays() {
    Example::new("strikes").finished("Turkey vulture").is_same();
}

#[test]
fn tickets_replay() {
    Example::new("tickets").finished("My card was charged twice.").is_same();
}

#[test]
fn notes_replays() {
    Example::new("notes").finished("How much is still to do?").is_same();
}

#[test]
fn calculator_replays() {
    if has_python() {
        Example::new("calculator").finished("What do 1000 become?").is_same();
    }
}

#[test]
fn orchestrator_replays() {
    if has_python() {
        Example::new("orchestrator").finished("Ferry or flight?").is_same();
    }
}

#[test]
fn analysis_replays() {
    if has_python() {
        Example::new("analysis").finished("Which station has the most rides?").is_same();
    }
}

#[test]
fn minutes_replay_without_their_servers() {
    Example { grants: &MINUTES_GRANTS, ..Example::new("minutes") }
        .finished("Who prints the catalogue?")
        .is_same();
}

#[test]
fn interview_replays() {
    let answers = &["0/0.0:message.1=\"Ghent, two days\"", "0/0.0:message.2=\"The altarpiece, and a walk\""];
    Example { answers, ..Example::new("interview") }.finished("A weekend away").is_same();
}

#[test]
fn helpdesk_replays() {
    Example::new("helpdesk").finished("Invoice 4711 lists ten bees, and we ordered five.").is_same();
}

#[test]
fn mail_assistant_replays() {
    if has_python() {
        let message = "Tell Grace that Tuesday at ten suits me, and sum up what else is new.";
        Example::new("mail-assistant/before").finished(message).is_same();
        Example::new("mail-assistant/after").finished(message).is_same();
    }
}

#[test]
fn triage_replays() {
    if has_python() {
        Example::new("triage").is_same();
    }
}

#[test]
fn feedback_replays() {
    let letter = Some("feedback/letters/01.txt");
    Example { entry: Some("classify"), stdin: letter, ..Example::new("feedback") }.is_same();
}

#[test]
fn bookshelf_replays() {
    if has_python() {
        Example::new("bookshelf").finished("Which books do I have?").is_same();
    }
}

#[test]
fn every_example_has_a_recorded_run() {
    let of = |folder: PathBuf| -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        let mut names: Vec<String> =
            entries.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let own = ["README", "recorded", "scripts"];
    let mut there: Vec<String> = of(examples());
    // The cases of a worker file and their recordings lie beside it.
    there.retain(|name| !own.contains(&name.as_str()) && !name.ends_with(".cases"));
    there.dedup();
    assert_eq!(of(examples().join("recorded")), there);
}

#[test]
fn changed_example_fails_its_replay() {
    let example = Example::new("digest");
    let scenario = example.copied();
    let summarizer = scenario.project().join("digest/workers/summarizer.worker");
    let text = fs::read_to_string(&summarizer).expect("a worker");
    fs::write(&summarizer, format!("{text}\nIn capitals.\n")).expect("a worker");
    let recorded = example.recorded();
    let told = scenario.run(&["runs", "replay", &recorded.to_string_lossy(), "--against", "digest"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert!(told.stdout.contains("\n+In capitals.\n"), "{told}");
}
