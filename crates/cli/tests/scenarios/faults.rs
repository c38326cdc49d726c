//! Faults around a run: the output, the journal, and the effect of a resume. They make the table in
//! `docs/faults.md`; `UPDATE_EXPECT=1` writes it.

use crate::{
    scenario::{Finished, Scenario},
    terminal_session::Session,
    wire_formats::{Way, project},
};
use llm_do_testserver::{Reply, Script, TestServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

const BEGIN: &str = "<!-- faults:begin -->\n";
const END: &str = "<!-- faults:end -->\n";

/// A fault, and the code that causes it.
struct Fault {
    name: &'static str,
    meet: fn() -> Met,
}

/// The effect of a fault.
struct Met {
    sees: String,
    holds: String,
    resume: String,
}

/// A worker that writes a file, and meets the fault in its second request.
fn writer(server: &TestServer, way: Way) -> Scenario {
    project(server, way).file(
        "main.worker",
        "---\ntoolsets: [filesystem]\nlimits: {request_retries: 2, timeout: 60s}\n---\nWrite.\n",
    )
}

const RUN: &[&str] = &[".", "go", "--approval", "approve_all"];

fn script(faults: impl IntoIterator<Item = Reply>) -> Script {
    let first = Reply::tool("write_file", json!({"path": "a.txt", "content": "a"}));
    Script::turns([first].into_iter().chain(faults).chain([Reply::text("done")]))
}

/// The exit code and the first message.
fn seen(told: &Finished) -> String {
    let said = told.stderr.lines().find(|line| !line.starts_with("hint:")).unwrap_or_default();
    let said = steady(said);
    let code = told.code.map_or_else(|| "none".to_owned(), |code| code.to_string());
    let parts: Vec<&str> =
        [told.stdout.trim_end(), &said].into_iter().filter(|part| !part.is_empty()).collect();
    [format!("exit {code}"), parts.join("; ")]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(": ")
}

/// The text without ports and times.
fn steady(said: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in said.split(' ') {
        words.push(match words.last() {
            Some(&"after") => "[TIME];",
            _ if word.starts_with("127.0.0.1:") => "127.0.0.1:[PORT]",
            _ => word,
        });
    }
    words.join(" ")
}

fn journal(scenario: &Scenario) -> Vec<Value> {
    let Some(dir) = scenario.runs().pop() else { return Vec::new() };
    let text = fs::read_to_string(dir.join("journal.jsonl")).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("a record")).collect()
}

/// The kinds of the records after the file was written.
fn held(scenario: &Scenario) -> String {
    let journal = journal(scenario);
    let kinds: Vec<&str> = journal.iter().map(|record| record["kind"].as_str().expect("a kind")).collect();
    let Some(written) = kinds.iter().position(|kind| *kind == "tool_ended") else {
        return format!("`{}`", kinds.join("` `"));
    };
    match kinds[written + 1..].join("` `") {
        none if none.is_empty() => "nothing further".into(),
        kinds => format!("`{kinds}`"),
    }
}

/// The effect of `runs resume`. The file must have been written once.
fn resumed(scenario: &Scenario) -> String {
    let told = scenario.run(&["runs", "resume"]);
    let journal = journal(scenario);
    let written = journal.iter().filter(|record| record["kind"] == "tool_ended").count();
    assert_eq!((written, scenario.read("a.txt").as_deref()), (1, Some("a")), "{told}");
    for (number, record) in journal.iter().enumerate() {
        assert_eq!(record["seq"], number);
    }
    seen(&told)
}

fn met(scenario: &Scenario, told: &Finished) -> Met {
    let (sees, holds) = (seen(told), held(scenario));
    Met { sees, holds, resume: resumed(scenario) }
}

/// The same fault in both wire formats, which must have the same effect.
fn on_the_wire(faults: fn() -> Vec<Reply>) -> Met {
    let (one, other) = (over(Way::OpenAi, faults), over(Way::Anthropic, faults));
    assert_eq!((&one.holds, &one.resume), (&other.holds, &other.resume), "{} {}", one.sees, other.sees);
    one
}

/// A fault in one wire format.
fn over(way: Way, faults: fn() -> Vec<Reply>) -> Met {
    let server = TestServer::start(script(faults()));
    let scenario = writer(&server, way);
    let told = scenario.run(RUN);
    met(&scenario, &told)
}

/// A run whose model never answers, and which is sent a signal.
fn signalled(signal: Signal) -> Met {
    let server = TestServer::start(script([Reply::hang()]));
    let scenario = writer(&server, Way::OpenAi);
    let mut command = scenario.command(RUN);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    server.wait_for_requests(2);
    kill_process(Pid::from_raw(child.id().cast_signed()).expect("a process"), signal).expect("it is there");
    let told = scenario.finished(child.wait_with_output().expect("it ends"));
    met(&scenario, &told)
}

/// A run that waits at a prompt while its terminal is closed.
fn terminal_closed() -> Met {
    let server = TestServer::start(script([]));
    let scenario = writer(&server, Way::OpenAi);
    let mut session = Session::start(scenario.command_on_terminal(&[".", "go"]));
    session.expect_prompt();
    // Either the hangup or the end of the terminal comes first; neither is an answer.
    let code = session.close();
    assert!(matches!(code, Some(5 | 130)), "{code:?}");
    let kinds = held(&scenario);
    assert!(kinds.contains("`asked`") && !kinds.contains("`answered`"), "{kinds}");
    let told = scenario.run(&["runs", "resume", "last", "--approve", "all"]);
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"), "{told}");
    Met {
        sees: "nothing; exit 130, or 5 if the question notices first".into(),
        holds: "`asked`, and no answer".into(),
        resume: format!("{} (with `--approve all`)", seen(&told)),
    }
}

/// A full disk: the files of the run cannot grow beyond a number of bytes.
fn disk_full() -> Met {
    let server = TestServer::start(script([]));
    let scenario = writer(&server, Way::OpenAi);
    let whole = writer(&server, Way::OpenAi);
    // Larger than the largest stored value, which would meet the limit first.
    let message = "go ".repeat(1200);
    let run = [".", &message, "--approval", "approve_all"];
    assert_eq!(whole.run(&run).code, Some(0));
    let text = fs::read_to_string(whole.runs().remove(0).join("journal.jsonl")).expect("a journal");
    let written = text.find("\"tool_ended\"").expect("the file is written");
    // Room for lengths that differ between runs, and for no further record.
    let bytes = written + text[written..].find('\n').expect("a line") + 40;
    drop(server);
    let server = TestServer::start(script([]));
    let scenario = scenario.env("OPENAI_BASE_URL", format!("{}/v1", server.url()));
    let limited = scenario.command(&run);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("exec prlimit --fsize={bytes} -- \"$@\""), "sh"]);
    shell.arg(limited.get_program()).args(limited.get_args()).current_dir(scenario.project()).env_clear();
    shell.envs(limited.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let told = scenario.finished(shell.stdin(Stdio::null()).output().expect("sh starts"));
    met(&scenario, &told)
}

/// A project in which no journal can be created.
fn no_folder() -> Met {
    let server = TestServer::start(script([]));
    let scenario = writer(&server, Way::OpenAi).file(".llm-do", "in the way");
    let told = scenario.run(RUN);
    assert_eq!(server.request_count(), 0, "nothing is sent that can't be recorded");
    Met { sees: seen(&told), holds: "there is none".into(), resume: seen(&scenario.run(&["runs", "resume"])) }
}

/// Puts a byte order mark before the data of a stream's first event.
fn mark(chunks: &mut [Vec<u8>]) {
    let first = String::from_utf8_lossy(&chunks[0]);
    let data = first.find("data:").expect("a stream begins with an event");
    chunks[0] = format!("\u{feff}{}", &first[data..]).into_bytes();
}

const FAULTS: &[Fault] = &[
    Fault {
        name: "429 with `Retry-After: 1`",
        meet: || on_the_wire(|| vec![Reply::rate_limited(Some(Duration::from_secs(1)))]),
    },
    Fault { name: "429 without it", meet: || on_the_wire(|| vec![Reply::rate_limited(None)]) },
    Fault {
        name: "429 again and again",
        meet: || on_the_wire(|| (0..3).map(|_| Reply::rate_limited(Some(Duration::ZERO))).collect()),
    },
    Fault { name: "500", meet: || on_the_wire(|| vec![Reply::status(500)]) },
    Fault { name: "529 (overloaded)", meet: || on_the_wire(|| vec![Reply::status(529)]) },
    Fault { name: "401", meet: || on_the_wire(|| vec![Reply::status(401)]) },
    Fault {
        name: "the connection closes without an answer",
        meet: || on_the_wire(|| vec![Reply::hang_up()]),
    },
    Fault {
        name: "a stream is cut",
        meet: || on_the_wire(|| vec![Reply::text("an answer that never comes to its end").cut_after(2)]),
    },
    Fault {
        name: "a stream ends in good order before the answer does",
        meet: || on_the_wire(|| vec![Reply::text("an answer that never comes to its end").end_after(2)]),
    },
    Fault {
        name: "an event that is no JSON",
        meet: || {
            on_the_wire(|| vec![Reply::text("an answer that never comes to its end").malformed_after(2)])
        },
    },
    Fault {
        name: "a byte order mark before the first event of a stream",
        meet: || {
            over(Way::Anthropic, || {
                vec![Reply::text("an answer behind a mark").edit_chunks(|chunks| mark(chunks))]
            })
        },
    },
    Fault {
        name: "invalid UTF-8 in a stream",
        meet: || {
            on_the_wire(|| {
                vec![
                    Reply::text("an answer that goes wrong")
                        .bytes_after(2, b"data: {\"x\": \"\xff\xfe\"}\n\n"),
                ]
            })
        },
    },
    Fault {
        name: "the wrong content type",
        meet: || on_the_wire(|| vec![Reply::text("hello").content_type("text/html")]),
    },
    Fault {
        name: "an error event in a stream",
        meet: || on_the_wire(|| vec![Reply::text("an answer that fails").error_after(2, "overloaded_error")]),
    },
    Fault {
        name: "a tool call whose arguments are cut off",
        meet: || on_the_wire(|| vec![Reply::raw_tool("list_files", "{\"path\": \"/no")]),
    },
    Fault {
        name: "bytes torn in odd places",
        meet: || on_the_wire(|| vec![Reply::text("größe, torn in pieces").torn(3)]),
    },
    Fault {
        name: "silence before an answer, longer than the worker may take",
        meet: || {
            let server = TestServer::start(script([Reply::hang()]));
            let scenario = writer(&server, Way::OpenAi)
                .file("main.worker", "---\ntoolsets: [filesystem]\nlimits: {timeout: 2s}\n---\nWrite.\n");
            let told = scenario.run(RUN);
            met(&scenario, &told)
        },
    },
    Fault {
        name: "silence in the middle of a stream, longer than the worker may take",
        meet: || {
            let server = TestServer::start(script([Reply::text("an answer that stops").hang_after(2)]));
            let scenario = writer(&server, Way::OpenAi)
                .file("main.worker", "---\ntoolsets: [filesystem]\nlimits: {timeout: 2s}\n---\nWrite.\n");
            let told = scenario.run(RUN);
            met(&scenario, &told)
        },
    },
    Fault { name: "Ctrl-C", meet: || signalled(Signal::INT) },
    Fault { name: "SIGTERM", meet: || signalled(Signal::TERM) },
    Fault { name: "SIGHUP", meet: || signalled(Signal::HUP) },
    Fault { name: "SIGKILL", meet: || signalled(Signal::KILL) },
    Fault { name: "the terminal is closed at a question", meet: terminal_closed },
    Fault { name: "the disk is full while the run is recorded", meet: disk_full },
    Fault { name: "the runs' folder can't be made", meet: no_folder },
];

#[test]
fn faults_are_handled_as_documented() {
    let results: Vec<Mutex<Option<Met>>> = FAULTS.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(fault) = FAULTS.get(index) else { return };
                    *results[index].lock().expect("nobody panicked") = Some((fault.meet)());
                }
            });
        }
    });
    let mut table = String::from(
        "| fault | the user sees | the journal holds, after the first tool | `runs resume` |\n|---|---|---|---|\n",
    );
    for (fault, met) in FAULTS.iter().zip(results) {
        let met = met.into_inner().expect("nobody panicked").expect("it was met");
        let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
        let row = [fault.name, &met.sees, &met.holds, &met.resume].map(cell).join(" | ");
        writeln!(table, "| {row} |").expect("a string takes all");
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/faults.md");
    let text = fs::read_to_string(&page).expect("the page is there");
    let (before, rest) = text.split_once(BEGIN).expect("the marker of the beginning");
    let (told, after) = rest.split_once(END).expect("the marker of the end");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&page, format!("{before}{BEGIN}{table}{END}{after}")).expect("it can be written");
        return;
    }
    let other = table.lines().zip(told.lines().chain(std::iter::repeat(""))).find(|(a, b)| a != b);
    assert!(
        table == told,
        "docs/faults.md does not hold what came of it; UPDATE_EXPECT=1 writes it. First: {other:#?}"
    );
}
