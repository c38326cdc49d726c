//! Journals that a project brings: their claims about permissions are not trusted.

use crate::{
    attempt::{
        Attempt, Group,
        Layer::Journal,
        Outcome, Tried,
        Who::{Model, Project},
        holds, must,
    },
    binary::{RunReport, call},
    editor::Editor,
    operator::FRONT,
    world::World,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const RESUME: &[&str] = &["runs", "resume", "last", "--approve", "all"];

fn row(name: &'static str, mechanism: &'static str, attack: fn(&World) -> Tried) -> Attempt {
    Attempt::new(Project, Journal, name, mechanism, attack)
}

/// A program that writes a file.
fn writer(world: &World) {
    world.put("main.worker", "---\nmodel: script:script.json\ntoolsets: [filesystem]\n---\nWrite.\n");
    world.script(&[("main", vec![call("write_file", json!({"path": "rw/new.txt", "content": "x"}))])]);
}

/// The folders of the project's runs, oldest first.
fn runs(world: &World) -> Vec<PathBuf> {
    let found = fs::read_dir(world.project(".llm-do/runs")).expect("there are runs");
    let mut found: Vec<PathBuf> = found.flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// A run of the operator that waits for an approval.
fn waiting(world: &World) -> Result<PathBuf, crate::attempt::Escape> {
    writer(world);
    world.run(&[".", "--approval", "defer"]).ended(5)?;
    Ok(runs(world).pop().expect("a run"))
}

fn change(run: &Path, change: impl FnOnce(String) -> String) {
    let journal = run.join("journal.jsonl");
    let before = fs::read_to_string(&journal).expect("a journal");
    let after = change(before.clone());
    assert_ne!(before, after, "the attack changes nothing");
    fs::write(journal, after).expect("it can be written");
}

/// The rules and grants that a run was started with were given for another manifest.
fn other_manifest(world: &World) -> Tried {
    const BEFORE: &str = "name: office\n";
    const AFTER: &str = "name: office\ntoolsets: {shell: {commands: {evil: {run: [touch, rw/new.txt]}}}}\n";
    for before in [None, Some(BEFORE)] {
        for path in [".llm-do", "rw/new.txt", "project.yaml"] {
            let path = world.project(path);
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
        before.map(|text| world.put("project.yaml", text));
        writer(world);
        world.rearm();
        world.run(&[".", "--approval", "defer", "--ask", "write_file", "--allow", "e*"]).ended(5)?;
        world.put("project.yaml", AFTER);
        world.rearm();
        let report = world.run(RESUME);
        report.ended(2)?;
        holds(&report.stderr, &["project.yaml"])?;
        must(!world.project("rw/new.txt").exists(), format!("ESCAPE: it continued: {report:?}"))?;
    }
    Ok(Outcome::Refused)
}

/// The run did not resume, and nothing was written.
fn refused(world: &World, report: &RunReport) -> Tried {
    report.ended(2)?;
    holds(&report.stderr, &["was not written by your llm-do"])?;
    must(!world.project("rw/new.txt").exists(), format!("ESCAPE: it was written: {report:?}"))?;
    Ok(Outcome::Refused)
}

pub(crate) fn group() -> Group {
    Group {
        title: "Foreign and changed journals",
        about: "A journal in `.llm-do/runs` claims what the operator allowed. Resuming it must not grant \
                that. Each run would continue if it were the operator's own and unchanged; the first row \
                includes that control.",
        attempts: vec![
            row(
                "a manifest that was changed, or came, while a run waits that `--allow` was given for",
                "a run continues with the manifest that it began with",
                other_manifest,
            ),
            row(
                "a run started by another user that allows everything",
                "each record is sealed with the user's key",
                |world| {
                    writer(world);
                    let theirs = |arguments: &[&str]| {
                        let mut command = world.command(arguments);
                        command.env("LLM_DO_HOME", world.top.join("theirs"));
                        world.run_command(command)
                    };
                    theirs(&[".", "--approval", "defer", "--grant", "unconfined", "--grant", "network"])
                        .ended(5)?;
                    // First without a key of the operator, then with one.
                    let report = world.run(RESUME);
                    report.ended(2)?;
                    holds(&report.stderr, &["no journal is known to be your own"])?;
                    let other = World::new();
                    writer(&other);
                    other.run(&[".", "--approval", "defer"]).ended(5)?;
                    fs::create_dir_all(world.top.join("home/.llm-do")).expect("a folder");
                    fs::copy(
                        other.top.join("home/.llm-do/journal.key"),
                        world.top.join("home/.llm-do/journal.key"),
                    )
                    .expect("a key");
                    let outcome = refused(world, &world.run(RESUME))?;
                    theirs(RESUME).ended(0)?;
                    must(world.project("rw/new.txt").exists(), "the control: their own does not continue")?;
                    Ok(outcome)
                },
            ),
            row("a changed mode in the operator's own run", "the seal covers the line", |world| {
                let run = waiting(world)?;
                change(&run, |text| text.replace("\"defer\"", "\"approve_all\""));
                refused(world, &world.run(&["runs", "resume"]))
            }),
            row("an added grant in the operator's own run", "the seal covers the line", |world| {
                let run = waiting(world)?;
                change(&run, |text| text.replace("\"grants\":[]", "\"grants\":[\"/:rw\"]"));
                refused(world, &world.run(RESUME))
            }),
            row("removed seals", "records without a seal are not trusted", |world| {
                let run = waiting(world)?;
                change(&run, |text| {
                    let bare =
                        |line: &str| format!("{}}}\n", line.split(",\"seal\"").next().expect("a part"));
                    text.lines().map(bare).collect()
                });
                refused(world, &world.run(RESUME))
            }),
            row("an added approval with the seal of the last record", "the seal covers the line", |world| {
                let run = waiting(world)?;
                change(&run, |text| {
                    let last = text.lines().last().expect("a record");
                    let seal = last.split("\"seal\":").nth(1).expect("a seal");
                    let seq = text.lines().count();
                    let answered = format!(
                        "{{\"seq\":{seq},\"at_ms\":1,\"path\":\"0/0.0\",\"step\":\"ask\",\"kind\":\"answered\",\"answer\":\"approved\",\"seal\":{seal}\n"
                    );
                    text + &answered
                });
                let report = world.run(&["runs", "resume"]);
                must(report.code != Some(0), format!("ESCAPE: {report:?}"))?;
                must(!world.project("rw/new.txt").exists(), "ESCAPE: it was written")?;
                Ok(Outcome::Refused)
            }),
            row(
                "an approval copied from another run of the operator",
                "each seal covers the previous records and the run ID",
                |world| {
                    waiting(world)?;
                    world.run(RESUME).ended(0)?;
                    let approved =
                        fs::read_to_string(runs(world)[0].join("journal.jsonl")).expect("a journal");
                    fs::remove_file(world.project("rw/new.txt")).expect("it was written");
                    world.run(&[".", "--approval", "defer"]).ended(5)?;
                    let run = runs(world).pop().expect("a run");
                    must(runs(world).len() == 2, "there are two runs")?;
                    change(&run, |text| {
                        let more =
                            approved.lines().skip(text.lines().count()).map(|line| format!("{line}\n"));
                        text + &more.take(3).collect::<String>()
                    });
                    refused(world, &world.run(&["runs", "resume"]))
                },
            ),
            row("a run of the operator under another ID", "the first seal covers the run ID", |world| {
                let run = waiting(world)?;
                let copy = run.with_file_name("29991231-235959-ffff");
                fs::create_dir(&copy).expect("a folder");
                fs::copy(run.join("journal.jsonl"), copy.join("journal.jsonl")).expect("a copy");
                refused(world, &world.run(RESUME))
            }),
            row("a replaced stored value", "the name of a stored value is its hash", |world| {
                let run = waiting(world)?;
                let stored = fs::read_dir(run.join("blobs")).expect("stored values").flatten();
                for value in stored {
                    fs::write(value.path(), "[]").expect("it can be written");
                }
                let report = world.run(RESUME);
                report.ended(1)?;
                holds(&report.stderr, &["has been changed or cut short"])?;
                must(!world.project("rw/new.txt").exists(), "ESCAPE: it was written")?;
                Ok(Outcome::Refused)
            }),
            row("a denial that was cut off", "calls without a recorded answer are asked again", |world| {
                let run = waiting(world)?;
                let records =
                    fs::read_to_string(run.join("journal.jsonl")).expect("a journal").lines().count();
                world.run(&["runs", "resume", "last", "--deny", "0/0.0"]).ended(0)?;
                change(&run, |text| text.lines().take(records).map(|line| format!("{line}\n")).collect());
                world.run(&["runs", "resume"]).ended(5)?;
                must(!world.project("rw/new.txt").exists(), "ESCAPE: it was written")?;
                Ok(Outcome::AskedAgain)
            }),
            row(
                "a chat of another user that stands for the operator's last chat",
                "lists of chats to continue hold what the user's key has sealed; `runs list` marks the others",
                |world| {
                    world.put("main.worker", FRONT);
                    world.script(&[("main", vec![])]);
                    let chat = |command: Command| {
                        let mut editor = Editor::start(command);
                        let session = editor.session(&world.project(""));
                        editor.say(&session, "hello");
                        editor.leave();
                        session
                    };
                    let mut theirs = world.command(&["acp"]);
                    theirs.env("LLM_DO_HOME", world.top.join("theirs"));
                    let forged = chat(theirs);
                    let listed = |own: usize| {
                        let mut editor = Editor::start(world.command(&["acp"]));
                        let listed = editor.ask("session/list", json!({"cwd": world.project("")}));
                        let sessions = listed["result"]["sessions"].as_array().map(Vec::len);
                        must(sessions == Some(own), format!("ESCAPE: {own} of {listed}"))
                    };
                    listed(0)?;
                    let last = world.run(&["chat", "--continue"]);
                    last.ended(2)?;
                    holds(&last.stderr, &["no chat in"])?;
                    let text = world.run(&["runs", "list"]);
                    holds(&text.stdout, &[&forged, "not written by your llm-do"])?;
                    let own = chat(world.command(&["acp"]));
                    listed(1)?;
                    let runs = world.run(&["runs", "list", "--json"]);
                    let runs: Value = serde_json::from_str(&runs.stdout).unwrap_or_default();
                    let foreign = |id: &str| {
                        let all = runs["runs"].as_array().into_iter().flatten();
                        all.filter(|run| run["run"] == id).any(|run| run["foreign"] == true)
                    };
                    must(foreign(&forged) && !foreign(&own), format!("ESCAPE: in the list: {runs}"))?;
                    Ok(Outcome::NotThere)
                },
            ),
            Attempt::new(
                Model,
                Journal,
                "reading the key of the seals through a granted mount of the home",
                "`.llm-do` is never in a view",
                |world| {
                    waiting(world)?;
                    let home = world.top.join("home");
                    world.put("project.yaml", "name: t\nsandbox: {paths: {home: ../home}}\n");
                    let read = |path: &str| call("read_file", json!({"path": path}));
                    fs::write(home.join("plain.txt"), "in sight").expect("it can be written");
                    world.script(&[(
                        "main",
                        vec![read("/home/.llm-do/journal.key"), read("/home/plain.txt")],
                    )]);
                    let report = world.run(&[".", "--grant", &format!("{}:ro", home.display())]);
                    report.ended(0)?;
                    must(report.ending("0/1.0")?.is_ok(), format!("the control: {report:?}"))?;
                    report.refusal("0/0.0")?;
                    let key = fs::read_to_string(home.join(".llm-do/journal.key")).expect("a key");
                    must(!report.all().contains(key.trim()), format!("ESCAPE: {report:?}"))?;
                    Ok(Outcome::NotThere)
                },
            ),
        ],
    }
}
