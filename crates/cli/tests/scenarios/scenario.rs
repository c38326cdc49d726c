//! A scenario: a temporary folder with a project and a home, and the binary in a clean environment.

use crate::schema;
use rustix::process::setsid;
use std::{
    fs,
    io::Write,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

/// A project in a temporary folder.
pub(crate) struct Scenario {
    dir: TempDir,
    env: Vec<(String, String)>,
}

/// The output and the exit code of a command.
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Scenario {
    /// An empty project.
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().expect("a temporary folder");
        for folder in ["project", "home"] {
            fs::create_dir(dir.path().join(folder)).expect("a folder");
        }
        Self { dir, env: Vec::new() }
    }

    /// Adds a file to the project.
    pub(crate) fn file(self, path: &str, text: &str) -> Self {
        let path = self.project().join(path);
        fs::create_dir_all(path.parent().expect("a folder around it")).expect("folders");
        fs::write(path, text).expect("a file");
        self
    }

    /// Adds a file of the user, in `~/.llm-do`.
    pub(crate) fn home_file(self, path: &str, text: &str) -> Self {
        let file = self.home().join("home/.llm-do").join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(file, text).expect("a file");
        self
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// The project's folder, in which commands run.
    pub(crate) fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// The content of a file of the project.
    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.project().join(path)).ok()
    }

    /// The binary with these arguments, in the project, with a clean environment and without the developer's terminal.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command_on_terminal(arguments);
        // SAFETY: between fork and exec only this system call is made.
        unsafe { command.pre_exec(|| setsid().map(|_| ()).map_err(Into::into)) };
        command
    }

    /// The same, for a [`Session`](crate::terminal_session::Session) to give it a terminal.
    pub(crate) fn command_on_terminal(&self, arguments: &[&str]) -> Command {
        let mut command = self.command_of(Path::new(env!("CARGO_BIN_EXE_llm-do")));
        command.args(arguments);
        command
    }

    /// Another program, in the same environment.
    pub(crate) fn command_of(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.project()).env_clear().stdin(Stdio::null());
        command.env("HOME", self.dir.path().join("home")).env("PATH", "/usr/bin:/bin").env("TZ", "UTC");
        // Services of this machine must not affect a test.
        command.env("OLLAMA_HOST", "127.0.0.1:9");
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Finished {
        self.finished(self.command(arguments).output().expect("the binary starts"))
    }

    /// The same with this on stdin.
    pub(crate) fn run_with_stdin(&self, arguments: &[&str], stdin: &str) -> Finished {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        // A program that does not read its stdin closes the pipe.
        let _ = child.stdin.take().expect("a pipe").write_all(stdin.as_bytes());
        self.finished(child.wait_with_output().expect("it ends"))
    }

    /// The output of a process, with the parts that differ between two runs replaced.
    pub(crate) fn finished(&self, output: Output) -> Finished {
        for line in output.stdout.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"{\"event\":"))
        {
            schema::assert_event(&serde_json::from_slice(line).expect("JSON"));
        }
        Finished {
            code: output.status.code(),
            stdout: self.steady(&String::from_utf8_lossy(&output.stdout)),
            stderr: self.steady(&String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// The text without paths, run IDs and times.
    pub(crate) fn steady(&self, text: &str) -> String {
        let real = fs::canonicalize(self.dir.path()).expect("the folder is there");
        let text = text.replace(&*real.to_string_lossy(), "[DIR]");
        let text = text.replace(&*self.dir.path().to_string_lossy(), "[DIR]");
        let mut out = String::new();
        for piece in text.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || c == '-')) {
            let word = piece.trim_end_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
            out.push_str(if is_run_id(word) { "[RUN]" } else { word });
            out.push_str(&piece[word.len()..]);
        }
        out
    }

    /// The folders of the project's runs, oldest first.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        runs(&self.project().join(".llm-do/runs"))
    }

    /// The records of the newest run of the project.
    pub(crate) fn journal(&self) -> Vec<serde_json::Value> {
        journal(&self.project().join(".llm-do/runs"))
    }

    /// The records of the newest run of a standalone file.
    pub(crate) fn journal_of_home(&self) -> Vec<serde_json::Value> {
        journal(&self.home().join("home/.llm-do/runs"))
    }

    /// The temporary folder, which contains the user's home.
    pub(crate) fn home(&self) -> &Path {
        self.dir.path()
    }
}

fn runs(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    // The logs of `test`, `map` and `tune` stand beside the runs.
    let beside = ["tests", "maps", "tune"];
    let is_run = |path: &PathBuf| path.is_dir() && !beside.iter().any(|name| path.ends_with(name));
    let mut runs: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).filter(is_run).collect();
    // By time: two runs of one second have no order by name.
    runs.sort_by_key(|run| fs::metadata(run.join("journal.jsonl")).and_then(|meta| meta.modified()).ok());
    runs
}

fn journal(folder: &Path) -> Vec<serde_json::Value> {
    let runs = runs(folder);
    let newest = runs.last().expect("a run");
    lines(&fs::read_to_string(newest.join("journal.jsonl")).expect("a journal"))
}

/// The whole records of the newest run in a folder, which may be running or killed; none if there is no run.
pub(crate) fn journal_in(folder: &Path) -> Vec<serde_json::Value> {
    let Some(newest) = runs(folder).pop() else { return Vec::new() };
    let text = fs::read_to_string(newest.join("journal.jsonl")).unwrap_or_default();
    lines(text.rfind('\n').map_or("", |end| &text[..end]))
}

/// A file for `script:` with these answers. YAML takes some control characters only by their numbers.
pub(crate) fn script(answers: &[serde_json::Value]) -> String {
    let text = serde_json::json!({ "answers": answers }).to_string();
    let by_number = |c: char| match u32::from(c) {
        number @ 0x7f..=0x9f => format!("\\u{number:04x}"),
        _ => c.to_string(),
    };
    text.chars().map(by_number).collect()
}

/// JSON lines.
pub(crate) fn lines(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

fn is_run_id(word: &str) -> bool {
    let parts: Vec<&str> = word.split('-').collect();
    parts.len() == 3
        && [8, 6, 4].iter().zip(&parts).all(|(len, part)| part.len() == *len)
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl Drop for Scenario {
    /// Checks every record of every scenario against `llm-do schema events`.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for folder in [self.project(), self.dir.path().join("home")] {
            for run in runs(&folder.join(".llm-do/runs")) {
                let Ok(text) = fs::read_to_string(run.join("journal.jsonl")) else { continue };
                // A killed run may leave a partial line.
                for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                    let mut record =
                        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
                    put_back(&mut record, &run.join("blobs"));
                    schema::assert_event(&serde_json::json!({"event": "record", "record": record}));
                }
            }
        }
    }
}

/// Restores stored values in a record.
fn put_back(value: &mut serde_json::Value, blobs: &Path) {
    use serde_json::Value;
    if let Some(hash) =
        value.get("$blob").and_then(Value::as_str).and_then(|hash| hash.strip_prefix("sha256:"))
    {
        let text = fs::read_to_string(blobs.join(hash)).expect("a long value");
        let is_json = value.get("json") == Some(&Value::Bool(true));
        *value = if is_json { serde_json::from_str(&text).expect("JSON") } else { Value::String(text) };
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| put_back(item, blobs)),
        Value::Object(map) => map.values_mut().for_each(|item| put_back(item, blobs)),
        _ => {}
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.code {
            Some(code) => writeln!(f, "exit {code}")?,
            None => writeln!(f, "killed")?,
        }
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                writeln!(f, "--- {name}\n{text}")?;
            }
        }
        Ok(())
    }
}

/// Returns true if the page of a run shows these words. A page made with the web app holds the run's records,
/// compressed; the app's own tests (`web/test/e2e/export.test.ts`) look at it in a browser.
pub(crate) fn page_shows(page: &str, words: &str) -> bool {
    match page.contains("id=\"llm-do-run\"") {
        true => page.contains("gzip+base64"),
        false => page.contains(words),
    }
}
