//! Attacks on the data that a chat keeps between two processes: copies of files for `/undo`, stored values, and the
//! history.

use crate::{
    attempt::{
        Group,
        Layer::{Files, Journal, Terminal},
        Outcome, Tried,
        Who::{Document, Project},
        holds, must,
    },
    binary::{RunReport, call},
    operator::{FRONT, row},
    terminal_session::Session,
    world::World,
};
use llm_do_core::schema::sha256;
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::PathBuf,
    process::Command,
};

const HISTORY: &str = ".llm-do/chat-history.jsonl";

/// The worker makes these calls, one for each message.
fn worker(world: &World, calls: &[Value]) {
    world.put("main.worker", FRONT);
    let mut answers = Vec::new();
    for (number, call) in calls.iter().enumerate() {
        answers.push(json!({"when": {"turn": 2 * number}, "calls": [call]}));
        answers.push(json!({"when": {"turn": 2 * number + 1}, "text": format!("done {number}")}));
    }
    answers.push(json!({"text": "more"}));
    world.answers(&json!({ "answers": answers }));
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    call("edit_file", json!({"path": path, "old_text": old, "new_text": new}))
}

/// A chat over a pipe.
fn say(world: &World, arguments: &[&str], lines: &str) -> RunReport {
    let typed = world.top.join("typed");
    fs::write(&typed, lines).unwrap();
    let mut command = world.command(arguments);
    command.stdin(File::open(typed).unwrap());
    world.run_command(command)
}

fn begin(world: &World) -> Result<PathBuf, crate::attempt::Escape> {
    say(world, &["chat", ".", "--approval", "approve_all"], "go\n").ended(0)?;
    let runs = fs::read_dir(world.project(".llm-do/runs")).unwrap().flatten();
    Ok(runs.map(|entry| entry.path()).find(|path| path.is_dir()).unwrap())
}

fn go_on(world: &World, lines: &str) -> RunReport {
    say(world, &["chat", "--continue"], lines)
}

/// Returns the output of a chat on a terminal. The keys are typed when it waits for the first message.
fn shown(world: &World, keys: impl FnOnce(&mut Session)) -> Result<String, crate::attempt::Escape> {
    world.arm();
    let mut session = Session::start(world.command_on_terminal(&["chat", "."]));
    session.expect("/help");
    keys(&mut session);
    session.type_keys("\u{3}\u{4}");
    let (code, shown) = session.end();
    world.disclose(&shown);
    must(code == Some(0), format!("exit {code:?}: {shown}"))?;
    Ok(shown)
}

/// A message is sent, and the newest entry of the history is put into the composer.
fn say_and_look_back(session: &mut Session) {
    session.type_keys("hello\r");
    session.expect("more");
    session.type_keys("\u{1b}[A\u{1b}[A\u{1b}[A");
    session.settle();
}

/// Before the second change of a file something is put into the run's folder. No copy may lead out of it.
fn second_change(prepare: impl Fn(&World, &PathBuf)) -> Tried {
    let world = &World::new();
    worker(world, &[edit("rw/mine.txt", "to be", "was"), edit("rw/mine.txt", "was", "is")]);
    let run = begin(world)?;
    must(world.text("rw/mine.txt") == "was changed", "the control: nothing was changed")?;
    prepare(world, &run);
    go_on(world, "again\n").ended(0)?;
    must(world.text("rw/mine.txt") == "is changed", "the chat does not go on")?;
    world.check_files()?;
    Ok(Outcome::Refused)
}

pub(crate) fn group() -> Group {
    Group {
        title: "Chats",
        about: "Chats that are left and resumed. In between, the copies of files for `/undo`, the stored values and the history are \
                replaced by links and by contents of others.",
        attempts: vec![
            row(
                Project,
                Journal,
                "a copy for `/undo` replaced by a link to a file outside",
                "a copy counts only with the recorded hash",
                |world| {
                    worker(world, &[edit("rw/mine.txt", "to be", "was")]);
                    let run = begin(world)?;
                    let copy = fs::read_dir(run.join("before")).unwrap().flatten().next().unwrap().path();
                    fs::rename(&copy, world.top.join("copy")).unwrap();
                    symlink(world.outside("canary.txt"), &copy).unwrap();
                    let report = go_on(world, "/undo\n");
                    report.ended(0)?;
                    holds(&report.stderr, &["its earlier content was not kept"])?;
                    must(world.text("rw/mine.txt") == "was changed", format!("ESCAPE: {report:?}"))?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Journal,
                "the folder of copies replaced by a link to outside, before the next change",
                "the folder must not be a link",
                |_| {
                    second_change(|world, run| {
                        fs::remove_dir_all(run.join("before")).unwrap();
                        symlink(world.outside(""), run.join("before")).unwrap();
                    })
                },
            ),
            row(
                Project,
                Journal,
                "a link to outside under the name of an unfinished copy",
                "links are not followed where a copy is written",
                |_| {
                    second_change(|world, run| {
                        let unfinished = format!("before/{}.part", sha256(b"was changed"));
                        symlink(world.outside("canary.txt"), run.join(unfinished)).unwrap();
                    })
                },
            ),
            row(
                Project,
                Journal,
                "the folder of stored values replaced by a link to outside, before the next long answer",
                "the folder must not be a link",
                |world| {
                    world.put("main.worker", FRONT);
                    world.answers(&json!({"answers": [
                        {"when": {"turn": 0}, "text": "short"}, {"text": "long ".repeat(2000)},
                    ]}));
                    let run = begin(world)?;
                    // The values that are there can still be read.
                    fs::rename(run.join("blobs"), world.outside("blobs")).unwrap();
                    symlink(world.outside("blobs"), run.join("blobs")).unwrap();
                    world.rearm();
                    let report = go_on(world, "again\n");
                    must(report.code == Some(1), format!("the chat goes on: {report:?}"))?;
                    holds(&report.stderr, &["the journal cannot be written"])?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Files,
                "restoring a file in a folder that was swapped for a link to outside",
                "restoring looks for the recorded place, without following links",
                |world| {
                    world.put("rw/inner/a.txt", "to be changed");
                    fs::write(world.outside("a.txt"), "was changed").unwrap();
                    worker(world, &[edit("rw/inner/a.txt", "to be", "was")]);
                    begin(world)?;
                    fs::rename(world.project("rw/inner"), world.project("rw/aside")).unwrap();
                    symlink(world.outside(""), world.project("rw/inner")).unwrap();
                    let report = go_on(world, "/undo\nrestore\n");
                    must(!report.stderr.contains("was restored"), format!("ESCAPE: {report:?}"))?;
                    world.check_files()?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Files,
                "a link to a file outside that the user attaches (`@notes.txt`)",
                "attachments are read through the program's files",
                |world| {
                    symlink(world.outside("canary.txt"), world.project("notes.txt")).unwrap();
                    world.put("main.worker", FRONT);
                    world.answers(&json!({"answers": [{"text": "{{ last }}"}]}));
                    say(world, &["chat", "."], "hello\nlook at @notes.txt\n/attach notes.txt\nand now?\n")
                        .ended(0)?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Terminal,
                "the history as a link to a file outside",
                "the history is opened without following links",
                |world| {
                    worker(world, &[]);
                    symlink(world.outside("canary.txt"), world.project(HISTORY)).unwrap();
                    let shown = shown(world, say_and_look_back)?;
                    must(!shown.contains(&world.secret), format!("ESCAPE: {shown}"))?;
                    world.check_files()?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Terminal,
                "a history with lines of someone else",
                "each line is sealed with the user's key",
                |world| {
                    worker(world, &[]);
                    let seal = "0".repeat(64);
                    world.put(HISTORY, format!("{{\"text\":\"/exit evil\"}}\n{{\"text\":\"rm evil\",\"seal\":\"{seal}\"}}\nevil\n"));
                    let shown = shown(world, say_and_look_back)?;
                    must(!shown.contains("evil"), format!("ESCAPE: {shown}"))?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Project,
                Terminal,
                "a FIFO, an endless device or a file of a terabyte in the place of the history",
                "only a regular file is read, and at most 4 MiB of it",
                |world| {
                    worker(world, &[]);
                    let history = world.project(HISTORY);
                    let fifo = Command::new("/usr/bin/mkfifo").arg(&history).status().unwrap();
                    must(fifo.success(), "the control: there is no FIFO")?;
                    shown(world, say_and_look_back)?;
                    fs::remove_file(&history).unwrap();
                    symlink("/dev/zero", &history).unwrap();
                    shown(world, say_and_look_back)?;
                    fs::remove_file(&history).unwrap();
                    File::create(&history).unwrap().set_len(1 << 40).unwrap();
                    shown(world, say_and_look_back)?;
                    Ok(Outcome::Bounded)
                },
            ),
            row(
                Document,
                Terminal,
                "control characters and reordering in a paste that comes back from the history",
                "control characters are shown escaped",
                |world| {
                    worker(world, &[]);
                    let hostile = "a\u{1b}]0;owned\u{7}\u{9b}2J\u{202e}evil\u{200b}\u{8}";
                    let shown = shown(world, |session| {
                        session.type_keys(&format!("\u{1b}[200~{hostile}\u{1b}[201~"));
                        session.settle();
                        session.type_keys("\r");
                        session.expect("more");
                        session.type_keys("\u{1b}[A");
                        session.settle();
                    })?;
                    crate::terminal::plain(&shown)?;
                    must(shown.contains("owned\\x07"), format!("it is not shown: {shown}"))?;
                    Ok(Outcome::Shown)
                },
            ),
        ],
    }
}
