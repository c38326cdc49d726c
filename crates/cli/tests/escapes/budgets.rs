//! Budgets over time: they are the operator's, and no program reads, changes or avoids them.

use crate::{
    attempt::{
        Attempt, Group,
        Layer::{Authority, Launcher, Loader},
        Need, Outcome, Tried,
        Who::{Model, Process, Project},
        holds, must,
    },
    binary::{RunReport, call},
    world::World,
};
use serde_json::json;
use std::{fs, path::PathBuf};

pub(crate) fn group() -> Group {
    Group {
        title: "Budgets over time",
        about: "llm-do's home lies inside the project, as a careless operator may place it, and a budget of a day leaves one \
                request. The control changes an ordinary file beside it, or runs without the budget. Oracles: the files of \
                the budgets, and the exit code of the next run.",
        attempts: vec![
            Attempt::new(
                Model,
                Authority,
                "raising a budget, and resetting its use, with file tools",
                "llm-do's home is protected, wherever it is",
                by_tools,
            ),
            Attempt::new(
                Process,
                Launcher,
                "the same from a command of the shell toolset",
                "A: llm-do's home is read-only in the view of a process; B: the mount is not given to it",
                |world| {
                    by_command(world)?;
                    let other = World::new();
                    other.forbid_namespaces();
                    let outcome = by_command(&other);
                    other.check_oracles()?;
                    outcome
                },
            )
            .tier("A, B")
            .needs(Need::Tiers),
            Attempt::new(
                Model,
                Authority,
                "making the files of llm-do's home that decide about the next run, where none exists yet",
                "llm-do's home is protected, with and without budgets",
                making_files,
            ),
            Attempt::new(
                Project,
                Loader,
                "budgets of its own in a project, and limits beyond the operator's",
                "budgets come from llm-do's home alone; a project can only tighten its own limits",
                of_project,
            ),
        ],
    }
}

const BUDGETS: &str = "budgets: {daily: {per: day, max_tokens: 1200}}\n";

/// Places llm-do's home in the project, with that budget.
fn home(world: &World) -> PathBuf {
    world.put("own/config.yaml", "prices:\n  'script:*': {input: 1, output: 10, max_output: 400}\n");
    world.put("own/budgets.yaml", BUDGETS);
    world.project("own")
}

fn run(world: &World, arguments: &[&str]) -> RunReport {
    let mut command = world.command(arguments);
    command.env("LLM_DO_HOME", world.project("own"));
    world.run_command(command)
}

/// Uses up the budget, so that the book exists.
fn use_up(world: &World) -> Tried {
    world.put("main.worker", "---\nmodel: script:script.json\n---\nGo.\n");
    world.rearm();
    world.answers(
        &json!({"answers": [{"text": "done", "usage": {"input_tokens": 900, "output_tokens": 300}}]}),
    );
    run(world, &["."]).ended(0)?;
    let report = run(world, &["."]);
    report.ended(4)?;
    holds(&report.stderr, &["the budget `daily` leaves too little"])?;
    Ok(Outcome::Refused)
}

/// The state of the budget: the file, and the next run.
fn stands(world: &World) -> Tried {
    must(world.text("own/budgets.yaml") == BUDGETS, "ESCAPE: the budget was changed")?;
    world.put("main.worker", "---\nmodel: script:script.json\n---\nGo.\n");
    world.rearm();
    let report = run(world, &["."]);
    must(report.code == Some(4), format!("ESCAPE: the budget is open: {report:?}"))?;
    Ok(Outcome::Refused)
}

/// A worker whose model costs nothing, and so gets by without the budget.
const FREE: &[&str] = &["run", ".", "", "--model", "script:free.json", "--approval", "approve_all"];

fn attacker(
    world: &World,
    toolsets: &str,
    calls: &[serde_json::Value],
) -> Result<RunReport, crate::attempt::Escape> {
    world.put(
        "main.worker",
        format!("---\nmodel: script:script.json\ntoolsets: {{{toolsets}}}\nsandbox: {{root: .}}\n---\nGo.\n"),
    );
    world.rearm();
    world.put("own/config.yaml", "");
    world.script(&[("main", calls.to_vec())]);
    fs::rename(world.project("script.json"), world.project("free.json")).expect("it is there");
    let report = run(world, FREE);
    report.ended(0)?;
    world.put("own/config.yaml", "prices:\n  'script:*': {input: 1, output: 10, max_output: 400}\n");
    world.answers(&json!({"answers": [{"text": "done"}]}));
    Ok(report)
}

fn by_tools(world: &World) -> Tried {
    home(world);
    use_up(world)?;
    let write = |path: &str| call("write_file", json!({"path": path, "content": "budgets: {}\n"}));
    let delete = |path: &str| call("delete_file", json!({"path": path}));
    let calls = [
        write("own/budgets.yaml"),
        delete("own/budgets.yaml"),
        write("own/spending/book.json"),
        delete("own/spending/book.json"),
        write("ordinary.txt"),
    ];
    let report = attacker(world, "filesystem: {}", &calls)?;
    for turn in 0..4 {
        report.refusal(&format!("0/{turn}.0"))?;
    }
    must(world.text("ordinary.txt").contains("budgets"), format!("the control: {report:?}"))?;
    stands(world)
}

/// Files in llm-do's home that decide about the next run.
const DECIDING: &[&str] = &["budgets.yaml", "serve.yaml", "config.yaml", "grants.yaml", "libs/a/lib.yaml"];

fn making_files(world: &World) -> Tried {
    world.put("own/notes.txt", "of the user\n");
    world.put(
        "main.worker",
        "---\nmodel: script:script.json\ntoolsets: {filesystem: {}, shell: {default: {approval_required: false}}}\n\
         sandbox: {root: .}\n---\nGo.\n",
    );
    world.rearm();
    let write = |path: &str| call("write_file", json!({"path": path, "content": "a: 1\n"}));
    let mut calls: Vec<_> = DECIDING.iter().map(|file| write(&format!("own/{file}"))).collect();
    let command = "for file in budgets serve config grants; do echo a > own/$file.yaml; done; mkdir -p own/libs/a; \
                   echo a > own/libs/a/lib.yaml; mv own aside; true";
    calls.push(call("shell", json!({"command": format!("sh -c \"{command}\"")})));
    calls.push(write("ordinary.txt"));
    world.script(&[("main", calls)]);
    let report = run(world, &["run", ".", "", "--approval", "approve_all"]);
    report.ended(0)?;
    for turn in 0..DECIDING.len() {
        report.refusal(&format!("0/{turn}.0"))?;
    }
    for file in DECIDING {
        must(
            !world.project(&format!("own/{file}")).exists(),
            format!("ESCAPE: {file} was made: {report:?}"),
        )?;
    }
    must(!world.project("aside").exists(), format!("ESCAPE: the home is moved: {report:?}"))?;
    must(world.text("ordinary.txt") == "a: 1\n", format!("the control: {report:?}"))?;
    Ok(Outcome::Refused)
}

fn by_command(world: &World) -> Tried {
    home(world);
    use_up(world)?;
    let command = "echo 'budgets: {}' > own/budgets.yaml; rm -rf own/spending; mv own aside; \
                   echo 'budgets: {}' > own/spending/book.json; echo x > ordinary.txt";
    let command = call("shell", json!({"command": format!("sh -c \"{command}\"")}));
    let report = attacker(world, "shell: {default: {approval_required: false}}", &[command])?;
    // Tier B can't protect a part of a mount, and gives the process none of it.
    let is_given = !world.has_no_namespaces();
    must(world.project("ordinary.txt").exists() == is_given, format!("the control: {report:?}"))?;
    must(!world.project("aside").exists(), format!("ESCAPE: the home is moved: {report:?}"))?;
    stands(world)
}

fn of_project(world: &World) -> Tried {
    home(world);
    let loose = "budgets: {daily: {per: day, max_tokens: 99999999}}\n";
    for file in ["budgets.yaml", ".llm-do/budgets.yaml", "workers/budgets.yaml"] {
        world.put(file, loose);
    }
    world.put("project.yaml", "name: daily\nlimits: {max_tokens: 99999999}\n");
    use_up(world)?;
    world.put("project.yaml", "name: other\nbudgets: {}\n");
    let report = run(world, &["."]);
    report.ended(2)?;
    holds(&report.stderr, &["unknown key `budgets`"])?;
    world.put("project.yaml", "name: other\n");
    stands(world)
}
