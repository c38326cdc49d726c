//! The recorded chats of `docs/sessions/`: each test holds one, and compares it with its page. `UPDATE_EXPECT=1` writes the
//! pages.

use crate::scenario::{Scenario, journal_in, script};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(120);
/// Time without output after which a command of the chat counts as done.
const QUIET: Duration = Duration::from_millis(400);

/// A page of `docs/sessions/`.
pub(crate) struct Page {
    name: &'static str,
    text: String,
}

impl Page {
    /// Returns a page for a chat over a pipe.
    fn new(name: &'static str, title: &str, about: &str) -> Self {
        Self::with(
            name,
            title,
            about,
            "A test records this session with `llm-do chat` over a pipe. Lines that begin with `>` are typed.",
        )
    }

    /// Returns a page for a chat in the window of an emulator.
    pub(crate) fn of_window(name: &'static str, title: &str, about: &str) -> Self {
        Self::with(
            name,
            title,
            about,
            "A test records this session with `llm-do chat` in a terminal emulator. Each block is the screen, unless the text above it \
             names something else.",
        )
    }

    fn with(name: &'static str, title: &str, about: &str, origin: &str) -> Self {
        let script = "The model's answers come from a [script](../guides/models.md#scriptfile).";
        Self { name, text: format!("# {title}\n\n{about}\n\n{origin} {script}\n") }
    }

    pub(crate) fn paragraph(&mut self, text: &str) {
        self.text.push_str(&format!("\n{text}\n"));
    }

    fn console(&mut self, scenario: &Scenario, text: &str) {
        let text = without_times(&scenario.steady(text));
        self.text.push_str(&format!("\n```console\n{}\n```\n", text.trim_end()));
    }

    /// Adds the screen of a window, with `…` for times in seconds and for the tokens in the status row.
    pub(crate) fn screen(&mut self, rows: &str) {
        const MODEL: &str = " · script:s.json";
        let word = |word: &str| match is_time(word.trim_end()) {
            true => format!("…{}", &word[word.trim_end().len()..]),
            false => word.to_owned(),
        };
        let row = |row: &str| match row.split_once(MODEL) {
            // The blanks behind the seconds depend on their number.
            Some((before, _)) => {
                let before: Vec<&str> = before.split_whitespace().collect();
                format!("{}{MODEL} · …", before.join(" "))
            }
            None => row.to_owned(),
        };
        let rows: String = rows.split_inclusive(char::is_whitespace).map(word).collect();
        let rows: Vec<String> = rows.lines().map(row).collect();
        self.text.push_str(&format!("\n```text\n{}\n```\n", rows.join("\n")));
    }

    /// Compares the page, or writes it.
    pub(crate) fn finish(self) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sessions").join(self.name);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, &self.text).expect("a page");
        }
        let page = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(self.text, page, "{} differs; UPDATE_EXPECT=1 writes it", self.name);
    }
}

/// Returns the text with `…` in place of the times of calls.
fn without_times(text: &str) -> String {
    let line = |line: &str| match line.rsplit_once("  ") {
        Some((before, last)) if is_time(last) => format!("{before}  …"),
        _ => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns true for `3s` and `12ms`.
fn is_time(word: &str) -> bool {
    let digits = word.trim_end_matches("ms").trim_end_matches('s');
    digits.len() < word.len() && !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// A chat over a pipe, line by line.
struct Talk<'a> {
    scenario: &'a Scenario,
    child: Child,
    stdin: ChildStdin,
    output: Receiver<Vec<u8>>,
    text: String,
}

impl<'a> Talk<'a> {
    fn start(scenario: &'a Scenario, arguments: &[&str]) -> Self {
        let mut command = scenario.command(arguments);
        let (mut reading, writing) = std::io::pipe().expect("a pipe");
        command.stdin(Stdio::piped()).stderr(writing.try_clone().expect("a handle")).stdout(writing);
        let mut child = command.spawn().expect("the binary starts");
        // The reader sees the end only when no handle is left, and the command has one.
        drop(command);
        let (send, output) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reading.read(&mut buffer) {
                if send.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take().expect("a pipe");
        let text = format!("$ llm-do {}\n", arguments.join(" "));
        let mut talk = Self { scenario, child, stdin, output, text };
        // It says first what chat it is.
        talk.settle(|text, _| text.contains("note: chat "));
        talk
    }

    fn journal(&self) -> Vec<Value> {
        journal_in(&self.scenario.project().join(".llm-do/runs"))
    }

    /// Types a line and waits until the chat waits for the next.
    fn say(&mut self, line: &str) {
        let answers =
            |journal: &[Value]| journal.iter().filter(|record| record["kind"] == "answered").count();
        let before = self.journal();
        let is_command = line.starts_with('/') && !["/undo", "/retry"].contains(&line);
        self.text.push_str(&format!("> {line}\n"));
        writeln!(self.stdin, "{line}").expect("it reads");
        self.settle(|_, journal| {
            let heard = is_command || before.is_empty() || answers(journal) > answers(&before);
            heard && is_waiting(journal)
        });
    }

    fn settle(&mut self, ready: impl Fn(&str, &[Value]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.output.recv_timeout(QUIET) {
                Ok(bytes) => self.text.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if ready(&self.text, &self.journal()) => return,
                Err(RecvTimeoutError::Timeout) => assert!(Instant::now() < deadline, "{}", self.text),
            }
        }
    }

    /// Ends the input, and waits for the end.
    fn leave(mut self) -> String {
        drop(self.stdin);
        while let Ok(bytes) = self.output.recv_timeout(PATIENCE) {
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
        self.child.wait().expect("it ends");
        self.text
    }

    fn kill(mut self) -> String {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it ends");
        self.text.push_str("[killed]\n");
        self.text
    }
}

/// Returns true if the last question has no answer yet.
fn is_waiting(journal: &[Value]) -> bool {
    let last = journal.iter().rfind(|record| record["kind"] == "asked");
    last.is_some_and(|asked| {
        !journal.iter().any(|record| {
            record["kind"] == "answered" && record["path"] == asked["path"] && record["step"] == asked["step"]
        })
    })
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({"tool": tool, "arguments": arguments})
}

/// A project whose worker gives these answers, one after the other.
fn project(answers: &[Value]) -> Scenario {
    let numbered = answers.iter().enumerate().map(|(turn, answer)| {
        let mut answer = answer.clone();
        answer["when"] = json!({ "turn": turn });
        answer
    });
    let answers: Vec<Value> = numbered.collect();
    Scenario::new()
        .file("project.yaml", "name: trip\nsandbox: {paths: {notes: {root: ./notes, mode: rw}}}\n")
        .file(
            "main.worker",
            "---\nmodel: script:s.json\ntoolsets: {filesystem: {}, shell: {rules: [{pattern: date}]}}\n---\nWork.\n",
        )
        .file("s.json", &script(&answers))
        .file("notes/plan.md", "# Plan\n\n- Saturday: the museum\n- Sunday: the market\n")
}

#[test]
fn a_message_is_taken_back_with_its_files() {
    let edit = call(
        "edit_file",
        json!({"path": "/notes/plan.md", "old_text": "the museum", "new_text": "the harbour"}),
    );
    let write = call("write_file", json!({"path": "/notes/packing.md", "content": "- an umbrella\n"}));
    let scenario = project(&[
        json!({"calls": [edit, write, call("shell", json!({"command": "date"}))]}),
        json!({"text": "The harbour it is. I have also written a packing list."}),
        json!({"text": "I leave the plan as it is."}),
    ]);
    let mut page = Page::new(
        "chat-undo.md",
        "A chat: taking a message back",
        "The user takes a message back and has its files restored. A command ran as well: it is named, because nothing can undo it.",
    );
    let mut talk = Talk::start(&scenario, &["chat", ".", "--approval", "approve_all"]);
    talk.say("Let us see the harbour on Saturday.");
    talk.say("/undo");
    talk.say("restore");
    talk.say("Never mind, I keep the museum.");
    let text = talk.leave();
    page.console(&scenario, &text);
    assert!(scenario.read("notes/plan.md").is_some_and(|plan| plan.contains("the museum")));
    assert_eq!(scenario.read("notes/packing.md"), None);
    page.finish();
}

#[test]
fn the_interview_is_played_killed_and_resumed() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let read = |path: &str| fs::read_to_string(examples.join(path)).expect("an example");
    let scenario = Scenario::new()
        .file("project.yaml", &read("interview/project.yaml"))
        .file("main.worker", &read("interview/main.worker"))
        .file("workers/interview.worker", &read("interview/workers/interview.worker"))
        .file("script.yaml", &read("scripts/interview.yaml"));
    let mut page = Page::new(
        "chat-interview.md",
        "A chat: an interview in the middle of a run",
        "The planner of [`examples/interview`](../../examples/interview) calls a worker that talks to the user. The process is killed \
         in the middle of the interview, and the chat continues in another one.",
    );
    let mut talk = Talk::start(&scenario, &["chat", ".", "--model", "script:script.yaml"]);
    talk.say("Plan a weekend for me.");
    talk.say("Ghent, two days.");
    let killed = talk.kill();
    page.console(&scenario, &killed);
    page.paragraph("The interview waits for the same answer as before:");
    let mut talk = Talk::start(&scenario, &["chat", "--continue"]);
    talk.say("The altarpiece, and a walk along the canals.");
    let text = talk.leave();
    assert!(text.contains("Two days in Ghent"), "{text}");
    page.console(&scenario, &text);
    page.finish();
}

#[test]
fn hostile_text_and_text_of_all_scripts() {
    let scenario = project(&[
        json!({"text": "a\u{1b}[2J b\u{1b}]0;title\u{7} c\u{9b}31m d\u{202e}e\u{200b}f\rg"}),
        json!({"text": "水と火 · 👩‍👩‍👧 👍🏽 · e\u{301}a\u{308} · שלום עולם · مرحبا"}),
    ]);
    let mut page = Page::new(
        "chat-hostile-text.md",
        "A chat: hostile text",
        "Control characters, characters that turn the direction of writing and invisible characters are shown by their numbers. \
         Text of all scripts passes as it is.",
    );
    let mut talk = Talk::start(&scenario, &["chat", "."]);
    talk.say("Say something that moves my cursor.");
    talk.say("And now something friendly.");
    let text = talk.leave();
    page.console(&scenario, &text);
    page.finish();
}

#[test]
fn a_second_client_and_a_full_disk() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let long = || json!({"text": "A long answer. ".repeat(200)});
    let scenario = project(&[json!({"text": "Hello."}), json!({"text": "Yes."}), long(), long(), long()]);
    let mut page = Page::new(
        "chat-faults.md",
        "A chat: a second client and a full disk",
        "A chat belongs to one process at a time. While the first one holds it, the second is refused.",
    );
    let mut talk = Talk::start(&scenario, &["chat", "."]);
    talk.say("Hello?");
    let second = scenario.run(&["chat", "--continue"]);
    let process = talk.child.id().to_string();
    talk.say("Are you still there?");
    let first = talk.leave();
    page.console(&scenario, &first);
    let second = format!("$ llm-do chat --continue\n{}", second.stderr);
    page.console(&scenario, &second.replace(&process, "[PROCESS]"));
    page.paragraph(
        "The disk is full: the chat ends with an error. With space on the disk it continues from its last complete record.",
    );
    let arguments = ["chat", "--continue"];
    let mut command = scenario.command(&arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // SAFETY: between fork and exec only this system call is made.
    unsafe {
        command.pre_exec(|| {
            setrlimit(Resource::Fsize, Rlimit { current: Some(9_000), maximum: None })?;
            Ok(())
        });
    }
    let mut child = command.spawn().expect("the binary starts");
    let _ = child.stdin.take().expect("a pipe").write_all(b"Tell me a story.\nAnother.\nAnother.\n");
    let full = scenario.finished(child.wait_with_output().expect("it ends"));
    assert_eq!(full.code, Some(1), "{full}");
    page.console(&scenario, &format!("$ llm-do chat --continue\n{}", full.stderr));
    let again = scenario.run_with_stdin(&arguments, "");
    assert_eq!(again.code, Some(0), "{again}");
    page.console(&scenario, &format!("$ llm-do chat --continue\n{}", again.stderr));
    page.finish();
}
