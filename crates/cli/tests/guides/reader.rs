//! A reader who follows a page word for word, in a fresh folder with a fresh home.

use crate::{
    answers,
    commands::Command,
    page::{Block, Content, Mark},
    shown::{Words, fits},
    terminal_session::Session,
};
use llm_do_testserver::TestServer;
use std::{
    fmt::Write as _,
    fs,
    net::TcpListener,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{self, Child, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A timeout that no command exceeds on any machine, in seconds.
const PATIENCE: u64 = 300;
/// The port that the pages use. Each reader has another one.
const PORT: &str = "8750";

pub(crate) struct Reader {
    folder: TempDir,
    model: Option<TestServer>,
    port: String,
    /// The words that `…` replaces in the pages.
    words: Words,
    servers: Vec<Child>,
    /// The script of the examples.
    script: Option<String>,
}

/// A block that could not be followed.
pub(crate) struct Failure {
    pub(crate) line: usize,
    pub(crate) text: String,
    /// The output of the command, if only this differs.
    pub(crate) printed: Option<(Command, Vec<String>)>,
}

impl Reader {
    /// A reader of the page with this name. The repository's examples are in the folder if the page uses them.
    pub(crate) fn new(name: &str, page: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        fs::create_dir_all(folder.path().join("home")).expect("a folder");
        fs::create_dir_all(folder.path().join("folder")).expect("a folder");
        fs::write(folder.path().join("state"), "").expect("a file");
        let port =
            TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").port();
        let reader = Self {
            folder,
            model: answers::server(name),
            port: port.to_string(),
            words: Words::new(),
            servers: Vec::new(),
            script: None,
        };
        if page.contains("examples/") {
            copy(&root().join("examples"), &reader.place().join("examples"));
        }
        reader
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("folder")
    }

    /// The directory in which the next command runs.
    fn current(&self) -> PathBuf {
        let state = fs::read_to_string(self.folder.path().join("state")).expect("a file");
        let here = state.lines().last().and_then(|line| line.strip_prefix("cd "));
        here.map_or_else(|| self.place(), |here| PathBuf::from(here.trim_matches('\'')))
    }

    /// Writes the file of a block, or runs its commands.
    pub(crate) fn follow(&mut self, block: &Block) -> Result<(), Failure> {
        let failed = |text: String| Failure { line: block.line, text, printed: None };
        match &block.content {
            Content::File { path, text } => {
                let path = self.current().join(path);
                fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
                fs::write(path, text).map_err(|error| failed(error.to_string()))
            }
            Content::Commands(commands) => {
                for (n, command) in commands.iter().enumerate() {
                    let is_last = n + 1 == commands.len();
                    let expected = match block.mark {
                        Mark::Exit(code) if is_last => code,
                        _ => command.code.unwrap_or(0),
                    };
                    let (code, printed, whole) = match &block.mark {
                        Mark::Background if is_last => (Some(expected), self.begin(command), false),
                        Mark::Terminal(steps) if is_last => {
                            let (code, printed) = self.type_on_terminal(command, steps);
                            (code, printed, false)
                        }
                        _ => {
                            let (code, printed) = self.run(command);
                            (code, printed, true)
                        }
                    };
                    if code != Some(expected) {
                        let text = format!(
                            "$ {}\nexit {code:?}, not {expected}\n{}",
                            command.text,
                            printed.join("\n")
                        );
                        return Err(failed(text));
                    }
                    if command.shown.is_empty() {
                        continue;
                    }
                    let Some(words) = fits(&command.shown, &printed, whole) else {
                        let mut text = format!("$ {}\n", command.text);
                        let _ = write!(
                            text,
                            "--- shown\n{}\n--- printed\n{}",
                            command.shown.join("\n"),
                            printed.join("\n")
                        );
                        return Err(Failure {
                            line: block.line,
                            text,
                            printed: Some((command.clone(), printed)),
                        });
                    };
                    self.words.extend(words);
                }
                Ok(())
            }
        }
    }

    /// The command with the values of this reader.
    fn said(&mut self, command: &Command) -> String {
        let mut text = command.text.replace(PORT, &self.port);
        for (word, value) in &self.words {
            text = text.replace(word, value);
        }
        if text.starts_with("llm-do serve ") && !text.contains("--listen") && !text.contains("--new-token") {
            let _ = write!(text, " --listen 127.0.0.1:{}", self.port);
        }
        self.script = example(&text).map(|name| format!("script:examples/scripts/{name}.yaml"));
        text
    }

    fn shell(&self, text: &str) -> process::Command {
        let state = self.folder.path().join("state");
        let state = state.display();
        let mut shell = process::Command::new("sh");
        // The model depends on the example of each command.
        let script = format!(
            ". {state}\n{text}\ncode=$?\nunset LLM_DO_MODEL\nexport -p > {state}\necho \"cd '$PWD'\" >> {state}\nexit $code\n"
        );
        shell.args(["-c", &script]).current_dir(self.place()).env_clear().stdin(Stdio::null());
        let binary = Path::new(env!("CARGO_BIN_EXE_llm-do")).parent().expect("its folder");
        shell.env("PATH", format!("{}:/usr/bin:/bin", binary.display()));
        shell.env("HOME", self.folder.path().join("home")).env("TZ", "UTC").env("LANG", "C.UTF-8");
        // Services of this machine must not affect a test.
        shell.env("OLLAMA_HOST", "127.0.0.1:9");
        if let Some(model) = &self.model {
            shell.env("ANTHROPIC_API_KEY", "sk-reader").env("ANTHROPIC_BASE_URL", model.url());
            shell.env("OPENAI_API_KEY", "sk-reader").env("OPENAI_BASE_URL", format!("{}/v1", model.url()));
        }
        if let Some(script) = self.script.as_ref().filter(|script| self.place().join(&script[7..]).exists()) {
            shell.env("LLM_DO_MODEL", script);
        }
        shell
    }

    fn run(&mut self, command: &Command) -> (Option<i32>, Vec<String>) {
        let said = self.said(command);
        let log = self.folder.path().join("log");
        let file = fs::File::create(&log).expect("a file");
        let mut shell = self.shell(&said);
        shell.stdout(file.try_clone().expect("a handle")).stderr(file);
        // A group of its own, so that a hung command ends with all its processes.
        let mut child = shell.process_group(0).spawn().expect("a shell");
        let deadline = Instant::now() + Duration::from_secs(PATIENCE);
        let code = loop {
            if let Some(status) = child.try_wait().expect("a process") {
                break status.code();
            }
            if Instant::now() > deadline {
                end(&mut child);
                break None;
            }
            thread::sleep(Duration::from_millis(5));
        };
        (code, self.lines(&fs::read_to_string(log).unwrap_or_default()))
    }

    /// Starts a server, and waits until it has printed the output of the page, or has ended.
    fn begin(&mut self, command: &Command) -> Vec<String> {
        let said = self.said(command);
        // Another server takes the port of the one before.
        self.servers.iter_mut().for_each(end);
        let log = self.folder.path().join(format!("server-{}", self.servers.len()));
        let file = fs::File::create(&log).expect("a file");
        let mut shell = self.shell(&said);
        shell.stdout(file.try_clone().expect("a handle")).stderr(file);
        let mut child = shell.process_group(0).spawn().expect("a shell");
        let deadline = Instant::now() + Duration::from_secs(PATIENCE);
        loop {
            let ended = child.try_wait().expect("a process").is_some();
            let printed = self.lines(&fs::read_to_string(&log).unwrap_or_default());
            if ended || fits(&command.shown, &printed, false).is_some() || Instant::now() > deadline {
                self.servers.push(child);
                return printed;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn type_on_terminal(
        &mut self,
        command: &Command,
        steps: &[(String, String)],
    ) -> (Option<i32>, Vec<String>) {
        let said = self.said(command);
        let mut session = Session::start_in(self.shell(&said), 40, 120);
        for (text, keys) in steps {
            session.expect(text);
            session.type_keys(keys);
        }
        let (code, shown) = session.end();
        (code, self.lines(&shown))
    }

    /// The lines of an output, with the port and the folders of the pages.
    fn lines(&self, text: &str) -> Vec<String> {
        let real = fs::canonicalize(self.place()).expect("the folder").display().to_string();
        let home = self.folder.path().join("home").display().to_string();
        let text = text.replace(&real, "/home/ada").replace(&home, "/home/ada").replace(&self.port, PORT);
        let is_choice = |line: &&str| !(line.starts_with("note: using ") && line.contains(", because "));
        let mut lines: Vec<String> = text.lines().filter(is_choice).map(str::to_owned).collect();
        while lines.last().is_some_and(|line| line.trim().is_empty()) {
            lines.pop();
        }
        lines
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.servers.iter_mut().for_each(end);
    }
}

/// Ends a process with its group.
fn end(child: &mut Child) {
    if let Some(group) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
}

/// The example whose script answers in the place of the reader's model, unless the command names a model.
fn example(command: &str) -> Option<&str> {
    let (_, rest) = command.split_once("examples/")?;
    (!command.contains("--model")).then(|| rest.split(['/', '.', ' ', '\'', '"']).next()).flatten()
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        fs::copy(from, to).expect("a copy");
        return;
    }
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        // Leftovers of a developer who tried the example.
        let left = [".venv", ".llm-do", "__pycache__", "node_modules", "venv", ".git"];
        if !left.iter().any(|left| entry.file_name() == *left) {
            copy(&entry.path(), &to.join(entry.file_name()));
        }
    }
}
