//! Workers that a model creates during the run to do what it may not do itself.

use crate::{
    attempt::{
        Attempt, Group,
        Layer::{self, Authority, Files, Gate, Loader},
        Outcome, Tried,
        Who::Model,
        must,
    },
    binary::{RunReport, call},
    world::World,
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink};

const APPROVED: &[&str] = &[".", "--approval", "approve_all"];

/// `main`, which may create workers.
fn creator(world: &World, front: &str) {
    let front = if front.contains("toolsets:") {
        front.to_owned()
    } else {
        format!("toolsets: {{workers: {{dynamic: true}}, filesystem: {{}}}}\n{front}")
    };
    world.put("main.worker", format!("---\nmodel: script:script.json\n{front}\n---\nGo.\n"));
}

fn create(name: &str, more: &Value) -> Value {
    let mut arguments = json!({"name": name, "instructions": "Go."});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call("worker_create", arguments)
}

fn ask(worker: &str) -> Value {
    call("worker_call", json!({"worker": worker, "input_data": "go"}))
}

/// `main` creates `evil` with file tools and calls it; `evil` makes this call.
fn deed(world: &World, front: &str, deed: Value, arguments: &[&str]) -> RunReport {
    creator(world, front);
    let made = create("evil", &json!({"toolsets": ["filesystem"]}));
    world.script(&[("main", vec![made, ask("evil")]), ("evil", vec![deed])]);
    run(world, arguments)
}

/// Runs the binary with a private folder for temporary files.
fn run(world: &World, arguments: &[&str]) -> RunReport {
    let temporary = world.top.join("temporary");
    fs::create_dir_all(&temporary).unwrap();
    let mut command = world.command(arguments);
    command.env("TMPDIR", &temporary);
    world.run_command(command)
}

fn write(path: &str) -> Value {
    call("write_file", json!({"path": path, "content": "x"}))
}

fn row(layer: Layer, name: &'static str, mechanism: &'static str, attack: fn(&World) -> Tried) -> Attempt {
    Attempt::new(Model, layer, name, mechanism, attack)
}

pub(crate) fn group() -> Group {
    Group {
        title: "Generated workers",
        about: "Runs of the binary with scripted models, whose worker may create workers (`dynamic: true`). \
                All calls are approved unless the row says otherwise. The control makes a call that the \
                generated worker is allowed to make.",
        attempts: vec![
            row(
                Authority,
                "a generated worker reads files that its creator does not see",
                "a generated worker has its creator's view",
                |world| {
                    world.put("ro/secret.txt", &world.secret);
                    let read = |path: &str| call("read_file", json!({"path": path}));
                    let front = "sandbox: {paths: {notes: ./notes}}";
                    creator(world, front);
                    let real = world.project("ro/secret.txt").display().to_string();
                    let paths = ["/ro/secret.txt", "/notes/../ro/secret.txt", &real];
                    world.script(&[
                        ("main", vec![create("evil", &json!({"toolsets": ["filesystem"]})), ask("evil")]),
                        ("evil", paths.iter().map(|path| read(path)).collect()),
                    ]);
                    let report = run(world, APPROVED);
                    for turn in 0..paths.len() {
                        report.refusal(&format!("0/1.0/worker/{turn}.0"))?;
                    }
                    let report = deed(&World::new(), front, read("/notes/plan.md"), APPROVED);
                    must(
                        report.ending("0/1.0/worker/0.0")?.is_ok(),
                        format!("the control: it reads nothing: {report:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Authority,
                "a generated worker writes for a read-only creator",
                "bounds can only narrow",
                |world| {
                    let mounts = "paths: {rw: {root: ./rw, mode: rw}}";
                    let report = deed(
                        world,
                        &format!("sandbox: {{{mounts}, readonly: true}}"),
                        write("/rw/laundered"),
                        APPROVED,
                    );
                    must(!world.project("rw/laundered").exists(), format!("ESCAPE: {report:?}"))?;
                    let other = World::new();
                    let report =
                        deed(&other, &format!("sandbox: {{{mounts}}}"), write("/rw/laundered"), APPROVED);
                    must(
                        other.project("rw/laundered").exists(),
                        format!("the control: nothing is written: {report:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Loader,
                "a generated worker with toolsets that its creator lacks, or with wider ones",
                "only its creator's toolsets, with the same configuration",
                |world| {
                    creator(
                        world,
                        "toolsets: {workers: {dynamic: true}, filesystem: {tools: [read_file]}}\nsandbox: {paths: {rw: {root: ./rw, mode: rw}}}",
                    );
                    let wanted = [
                        json!(["shell"]),
                        json!(["custom"]),
                        json!(["workers"]),
                        json!({"filesystem": {}}),
                        json!(["filesystem", "filesystem"]),
                    ];
                    let mut calls: Vec<Value> = wanted
                        .iter()
                        .map(|toolsets| create("evil", &json!({"toolsets": toolsets})))
                        .collect();
                    calls.extend([create("plain", &json!({"toolsets": ["filesystem"]})), ask("plain")]);
                    world.script(&[
                        ("main", calls),
                        (
                            "plain",
                            vec![write("/rw/laundered"), call("read_file", json!({"path": "/rw/mine.txt"}))],
                        ),
                    ]);
                    let report = run(world, APPROVED);
                    for turn in 0..wanted.len() {
                        report.refusal(&format!("0/{turn}.0"))?;
                    }
                    must(!world.project("rw/laundered").exists(), format!("ESCAPE: {report:?}"))?;
                    must(
                        report.ending("0/6.0/worker/1.0")?.is_ok(),
                        format!("the control: it reads nothing: {report:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Gate,
                "a generated worker makes a call that is blocked for its creator",
                "`blocked` rules apply to all workers below",
                |world| {
                    let front = "sandbox: {paths: {rw: {root: ./rw, mode: rw}}}";
                    deed(
                        world,
                        &format!("{front}\ntool_rules: {{write_file: blocked}}"),
                        write("/rw/laundered"),
                        APPROVED,
                    );
                    must(!world.project("rw/laundered").exists(), "ESCAPE: written")?;
                    let other = World::new();
                    deed(&other, front, write("/rw/laundered"), APPROVED);
                    must(other.project("rw/laundered").exists(), "the control: nothing is written")?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Gate,
                "creating a worker without an approval, by rules that allow everything",
                "creating a worker always needs an approval",
                |world| {
                    let allowing = "toolsets: {workers: {dynamic: true, approval: {default: preApproved}}, filesystem: {}}\ntool_rules: {worker_create: preApproved, \"*\": preApproved}";
                    creator(world, allowing);
                    world.put(
                        "project.yaml",
                        "approval: {default: preApproved, tools: {worker_create: preApproved}}\n",
                    );
                    world.script(&[("main", vec![create("evil", &json!({})), ask("evil")])]);
                    let report = run(world, &[".", "--approval", "auto_deny", "--allow", "worker_create"]);
                    // No arguments could pass, so the tools are not even offered.
                    for call in ["0/0.0", "0/1.0"] {
                        must(report.ending(call).is_err(), "ESCAPE: it was called")?;
                    }
                    world.rearm();
                    let report = run(world, APPROVED);
                    must(
                        report.ending("0/1.0")?.is_ok(),
                        format!("the control: it can't be made at all: {report:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Gate,
                "a generated worker makes a call that is pre-approved for its creator",
                "rules of a generated worker only tighten",
                |world| {
                    // Creating the worker needs an approval, so that the run is suspended and resumed.
                    let front = "toolsets: {workers: {dynamic: true}, filesystem: {approval: {default: preApproved}}}\ntool_rules: {write_file: preApproved}\nsandbox: {paths: {rw: {root: ./rw, mode: rw}}}";
                    creator(world, front);
                    let made = create("evil", &json!({"toolsets": ["filesystem"]}));
                    world.script(&[
                        ("main", vec![made, ask("evil"), write("/rw/own")]),
                        ("evil", vec![write("/rw/laundered")]),
                    ]);
                    let report = run(world, &[".", "--approval", "defer"]);
                    report.ended(5)?;
                    world.rearm();
                    let resume = |place: &str| run(world, &["runs", "resume", "last", "--approve", place]);
                    let report = resume("0/0.0");
                    must(
                        report.code == Some(5) && !world.project("rw/laundered").exists(),
                        format!("ESCAPE: it was not asked about: {report:?}"),
                    )?;
                    let report = resume("0/1.0/worker/0.0");
                    report.ended(0)?;
                    must(
                        world.project("rw/laundered").exists() && world.project("rw/own").exists(),
                        format!("the control: nothing is written: {report:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Loader,
                "a generated worker with the name of another worker",
                "taken names are refused",
                |world| {
                    creator(world, "allow_workers: [helper, \"ask*\"]");
                    world.put("workers/helper.worker", "---\nmodel: script:script.json\n---\nHelp.\n");
                    world.put("workers/asker.worker", "---\nmodel: script:script.json\n---\nAsk.\n");
                    let names = ["main", "helper", "asker"];
                    world.script(&[(
                        "main",
                        names
                            .iter()
                            .map(|name| create(name, &json!({})))
                            .chain([create("other", &json!({}))])
                            .collect(),
                    )]);
                    let report = run(world, APPROVED);
                    for turn in 0..names.len() {
                        report.refusal(&format!("0/{turn}.0"))?;
                    }
                    must(
                        report.ending("0/3.0")?.is_ok(),
                        format!("the control: no name is free: {report:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Files,
                "a name that leads out of the folder of generated workers",
                "names consist of lower-case letters, digits, `-` and `_`",
                |world| {
                    creator(world, "description: x");
                    let names = [
                        "../../../../outside/x",
                        "a/b",
                        "..",
                        ".",
                        "/etc/x",
                        "x\\y",
                        "x\u{0}",
                        "évil",
                        "A",
                        "a.worker",
                        "",
                    ];
                    world.script(&[("main", names.iter().map(|name| create(name, &json!({}))).collect())]);
                    let report = run(world, APPROVED);
                    for turn in 0..names.len() {
                        report.refusal(&format!("0/{turn}.0"))?;
                    }
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Files,
                "a link to outside in the place of the folder of generated workers",
                "links are not followed; the run continues without a copy",
                |world| {
                    let temporary = world.top.join("temporary");
                    fs::create_dir(&temporary).unwrap();
                    creator(world, "description: x");
                    world.script(&[("main", vec![create("evil", &json!({}))])]);
                    symlink(world.outside(""), temporary.join("llm-do")).unwrap();
                    let report = run(world, APPROVED);
                    must(report.ending("0/0.0")?.is_ok(), format!("it was not made: {report:?}"))?;
                    must(!world.outside("generated").exists(), "ESCAPE: it was written through the link")?;
                    fs::remove_file(temporary.join("llm-do")).unwrap();
                    world.rearm();
                    run(world, APPROVED);
                    must(
                        temporary.join("llm-do/generated").is_dir(),
                        "the control: nothing is kept either way",
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Layer::Templates,
                "instructions of a generated worker that include files of the program",
                "a generated worker cannot load templates of the program",
                |world| {
                    world.put("templates/secret.jinja", &world.secret);
                    creator(world, "description: x");
                    let evil = [
                        "{% include 'secret.jinja' %}",
                        "{{ file('.env') }}",
                        "{% import 'secret.jinja' as s %}{{ s }}",
                        "{% extends '../.env' %}",
                    ];
                    // The script itself is a template.
                    let make = |(n, text): (usize, &&str)| {
                        let name = format!("w{n}");
                        let text = format!("{{% raw %}}{text}{{% endraw %}}");
                        [create(&name, &json!({"instructions": text})), ask(&name)]
                    };
                    world.script(&[("main", evil.iter().enumerate().flat_map(make).collect())]);
                    let report = run(world, APPROVED);
                    for turn in 0..evil.len() {
                        report.refusal(&format!("0/{}.0", turn * 2 + 1))?;
                    }
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Gate,
                "a generated worker called by a worker with wider authority than its creator",
                "only the call that created it can call it",
                |world| {
                    creator(world, "allow_workers: [child]");
                    world.put("workers/child.worker", "---\nmodel: script:script.json\ntoolsets: {workers: {dynamic: true}}\nsandbox: {paths: {notes: ./notes}}\n---\nGo.\n");
                    let made = create("evil", &json!({}));
                    world.script(&[
                        ("main", vec![call("child", json!({"input": "x"})), ask("evil")]),
                        ("child", vec![made, ask("evil")]),
                    ]);
                    let report = run(world, APPROVED);
                    report.refusal("0/1.0")?;
                    must(
                        report.ending("0/0.0/1.0")?.is_ok(),
                        format!("the control: its creator can't call it: {report:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Files,
                "a model writes a worker file into the program and calls it",
                "files that define the program are protected",
                |world| {
                    creator(world, "allow_workers: [\"*\"]\nsandbox: {paths: {all: {root: ., mode: rw}}}");
                    let text = "---\nmodel: script:script.json\n---\nGo.\n";
                    let places = [
                        "/all/workers/evil.worker",
                        "/all/evil.worker",
                        "/all/workers/evil/worker.worker",
                        "/all/workers/evil.yaml",
                        "/all/project.yaml",
                    ];
                    let write = |path: &&str| call("write_file", json!({"path": path, "content": text}));
                    let calls = places
                        .iter()
                        .map(write)
                        .chain([ask("evil"), ask("./evil"), ask("workers/evil")])
                        .collect();
                    world.script(&[("main", calls)]);
                    let report = run(world, APPROVED);
                    for turn in 0..places.len() + 3 {
                        report.refusal(&format!("0/{turn}.0"))?;
                    }
                    Ok(Outcome::Refused)
                },
            ),
        ],
    }
}
