//! Runs of the binary in a world, with a scripted model that serves the attacker.

use crate::{
    attempt::Escape,
    world::{TIMEOUT, World, eventually},
};
use rustix::process::setsid;
use serde_json::{Value, json};
use std::{
    fs,
    io::Read,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::atomic::Ordering,
    thread::spawn,
};

/// The output and the journal of a run.
pub(crate) struct RunReport {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// The records of the newest run.
    pub(crate) journal: Vec<Value>,
}

impl std::fmt::Debug for RunReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {:?}, stdout {:?}, stderr {}", self.code, self.stdout, self.stderr)?;
        self.endings().iter().try_for_each(|(path, ending)| write!(f, "\n{path}: {ending:?}"))
    }
}

impl RunReport {
    /// The path of each call that ended, in order, with its result or failure as text.
    pub(crate) fn endings(&self) -> Vec<(String, Result<String, String>)> {
        let ended = |record: &&Value| {
            ["tool_ended", "call_ended"].contains(&record["kind"].as_str().unwrap_or_default())
        };
        let ending = |record: &Value| {
            let (ending, path) = (&record["ending"], record["path"].as_str().unwrap_or_default().to_owned());
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let result = match ending.get("output") {
                Some(output) => Ok(text(output)),
                None => Err(text(&ending["failure"]["message"])),
            };
            (path, result)
        };
        self.journal.iter().filter(ended).map(ending).collect()
    }

    /// The result or failure of the call at this path.
    pub(crate) fn ending(&self, path: &str) -> Result<Result<String, String>, Escape> {
        let found = self.endings().into_iter().find(|(at, _)| at == path);
        found
            .map(|(_, ending)| ending)
            .ok_or_else(|| Escape(format!("no call at {path} has ended: {self:#?}")))
    }

    /// The failure of the call at this path. A call that succeeded is an escape.
    pub(crate) fn refusal(&self, path: &str) -> Result<String, Escape> {
        match self.ending(path)? {
            Err(failure) => Ok(failure),
            Ok(output) => Err(Escape(format!("ESCAPE: {path} was done: {output}; {}", self.stderr))),
        }
    }

    /// Fails if the run ended with another exit code.
    pub(crate) fn ended(&self, code: i32) -> Result<(), Escape> {
        if self.code == Some(code) { Ok(()) } else { Err(Escape(format!("not exit {code}: {self:#?}"))) }
    }

    /// Everything that was printed and recorded.
    pub(crate) fn all(&self) -> String {
        let journal: Vec<String> = self.journal.iter().map(Value::to_string).collect();
        format!("{}\n{}\n{}", self.stdout, self.stderr, journal.join("\n"))
    }
}

impl World {
    /// The binary in the project, with a clean environment and without a terminal.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command_on_terminal(arguments);
        // SAFETY: between fork and exec only this system call is made.
        unsafe { command.pre_exec(|| setsid().map(|_| ()).map_err(Into::into)) };
        command
    }

    /// The same, for a caller that provides a terminal.
    pub(crate) fn command_on_terminal(&self, arguments: &[&str]) -> Command {
        self.launched.store(true, Ordering::Relaxed);
        const BINARY: &str = env!("CARGO_BIN_EXE_llm-do");
        let mut command = match self.has_no_namespaces() {
            true => {
                const FORBID: &str = "echo 0 > /proc/sys/user/max_user_namespaces; exec \"$0\" \"$@\"";
                let mut command = Command::new("/usr/bin/unshare");
                command.args(["-Ur", "sh", "-c", FORBID, BINARY]);
                command
            }
            false => Command::new(BINARY),
        };
        command.args(arguments).current_dir(self.project("")).env_clear().stdin(Stdio::null());
        command.env("HOME", self.top.join("home")).env("PATH", "/usr/bin:/bin").env("TZ", "UTC");
        command.env("OLLAMA_HOST", "127.0.0.1:9");
        command
    }

    /// Runs the binary to its end. The attacker learns its output and its journal.
    pub(crate) fn run(&self, arguments: &[&str]) -> RunReport {
        self.run_command(self.command(arguments))
    }

    pub(crate) fn run_command(&self, mut command: Command) -> RunReport {
        self.arm();
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let (stdout, stderr) = (drained(child.stdout.take()), drained(child.stderr.take()));
        let code = ended(&mut child);
        let [stdout, stderr] = [stdout, stderr].map(|text| text.join().expect("a reader"));
        let report = RunReport { code, stdout, stderr, journal: self.journal() };
        self.disclose(report.all());
        report
    }

    /// The records of the newest run of the project. The attacker learns the stored values too.
    pub(crate) fn journal(&self) -> Vec<Value> {
        let Ok(entries) = fs::read_dir(self.project(".llm-do/runs")) else { return Vec::new() };
        let newest = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.join("journal.jsonl").exists())
            .max();
        let Some(run) = newest else { return Vec::new() };
        let blobs = fs::read_dir(run.join("blobs")).into_iter().flatten().flatten();
        for blob in blobs {
            self.disclose(fs::read_to_string(blob.path()).unwrap_or_default());
        }
        let text = fs::read_to_string(run.join("journal.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Writes a script: the calls of each worker's model, one in each turn, and then the answer `done`.
    pub(crate) fn script(&self, workers: &[(&str, Vec<Value>)]) {
        let mut answers = Vec::new();
        for (worker, calls) in workers {
            for (turn, call) in calls.iter().enumerate() {
                answers.push(json!({"when": {"worker": worker, "turn": turn}, "calls": [call]}));
            }
        }
        answers.push(json!({"text": "done"}));
        self.answers(&json!({ "answers": answers }));
    }

    /// Writes a script. The file is read as YAML, in which some characters of JSON must be escaped.
    pub(crate) fn answers(&self, script: &Value) {
        let mut text = String::new();
        for c in script.to_string().chars() {
            if c.is_ascii() && !c.is_ascii_control() {
                text.push(c);
            } else {
                text.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
            }
        }
        self.put("script.json", text);
    }
}

/// A call of a scripted model.
pub(crate) fn call(tool: &str, arguments: Value) -> Value {
    json!({"tool": tool, "arguments": arguments})
}

fn drained(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    let mut pipe = pipe.expect("a pipe");
    spawn(move || {
        let mut all = Vec::new();
        let _ = pipe.read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    })
}

fn ended(child: &mut Child) -> Option<i32> {
    let mut status = None;
    let ended = eventually(TIMEOUT, || {
        status = child.try_wait().expect("a child");
        status.is_some()
    });
    if !ended {
        let _ = child.kill();
        panic!("the run did not end");
    }
    status.and_then(|status| status.code())
}
