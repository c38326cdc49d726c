//! Workers that a model makes during the run, for what it may not do itself.

use crate::{
    attempt::{
        Attempt, Group,
        Layer::{self, Authority, Files, Gate, Loader},
        Outcome, Tried,
        Who::Model,
        must,
    },
    binary::{Told, call},
    world::World,
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink};

const APPROVED: &[&str] = &[".", "--approval", "approve_all"];

/// `main`, which may make workers.
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

/// `main` makes `evil` with file tools and calls it: it does this.
fn deed(world: &World, front: &str, deed: Value, arguments: &[&str]) -> Told {
    creator(world, front);
    let made = create("evil", &json!({"toolsets": ["filesystem"]}));
    world.script(&[("main", vec![made, ask("evil")]), ("evil", vec![deed])]);
    run(world, arguments)
}

/// Runs the binary with a folder for temporary files of its own.
fn run(world: &World, arguments: &[&str]) -> Told {
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
        about: "Runs of the binary with scripted models whose worker may make workers (`dynamic: true`), all calls approved where the table does not \
                say otherwise. The control is what the made worker may do.",
        attempts: vec![
            row(
                Authority,
                "a made worker reads what its creator does not see",
                "generated views are the creator's",
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
                    let told = run(world, APPROVED);
                    for turn in 0..paths.len() {
                        told.refusal(&format!("0/1.0/worker/{turn}.0"))?;
                    }
                    let told = deed(&World::new(), front, read("/notes/plan.md"), APPROVED);
                    must(
                        told.ending("0/1.0/worker/0.0")?.is_ok(),
                        format!("the control: it reads nothing: {told:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Authority,
                "a made worker writes for a creator that may only read",
                "bounds only shrink",
                |world| {
                    let mounts = "paths: {rw: {root: ./rw, mode: rw}}";
                    let told = deed(
                        world,
                        &format!("sandbox: {{{mounts}, readonly: true}}"),
                        write("/rw/laundered"),
                        APPROVED,
                    );
                    must(!world.project("rw/laundered").exists(), format!("ESCAPE: {told:?}"))?;
                    let other = World::new();
                    let told =
                        deed(&other, &format!("sandbox: {{{mounts}}}"), write("/rw/laundered"), APPROVED);
                    must(
                        other.project("rw/laundered").exists(),
                        format!("the control: nothing is written: {told:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Loader,
                "a made worker with toolsets that its creator lacks, or wider ones",
                "its creator's toolsets as these are configured",
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
                    let told = run(world, APPROVED);
                    for turn in 0..wanted.len() {
                        told.refusal(&format!("0/{turn}.0"))?;
                    }
                    must(!world.project("rw/laundered").exists(), format!("ESCAPE: {told:?}"))?;
                    must(
                        told.ending("0/6.0/worker/1.0")?.is_ok(),
                        format!("the control: it reads nothing: {told:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Gate,
                "a made worker does what is blocked for its creator",
                "blocks of callers reach down",
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
                "a worker made without asking, by rules that allow all",
                "a new worker is always asked about",
                |world| {
                    let allowing = "toolsets: {workers: {dynamic: true, approval: {default: preApproved}}, filesystem: {}}\ntool_rules: {worker_create: preApproved, \"*\": preApproved}";
                    creator(world, allowing);
                    world.put(
                        "project.yaml",
                        "approval: {default: preApproved, tools: {worker_create: preApproved}}\n",
                    );
                    world.script(&[("main", vec![create("evil", &json!({})), ask("evil")])]);
                    let told = run(world, &[".", "--approval", "auto_deny", "--allow", "worker_create"]);
                    told.refusal("0/0.0")?;
                    told.refusal("0/1.0")?;
                    world.rearm();
                    let told = run(world, APPROVED);
                    must(
                        told.ending("0/1.0")?.is_ok(),
                        format!("the control: it can't be made at all: {told:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Gate,
                "what is pre-approved for its creator, done by a made worker without asking",
                "a generated worker's rules only tighten",
                |world| {
                    // The creator is asked about; what it makes is made with the operator's approval, which a run that asks nobody lacks.
                    let front = "toolsets: {workers: {dynamic: true}, filesystem: {approval: {default: preApproved}}}\ntool_rules: {write_file: preApproved}\nsandbox: {paths: {rw: {root: ./rw, mode: rw}}}";
                    creator(world, front);
                    let made = create("evil", &json!({"toolsets": ["filesystem"]}));
                    world.script(&[
                        ("main", vec![made, ask("evil"), write("/rw/own")]),
                        ("evil", vec![write("/rw/laundered")]),
                    ]);
                    let told = run(world, &[".", "--approval", "defer"]);
                    told.ended(5)?;
                    world.rearm();
                    let resume = |place: &str| run(world, &["runs", "resume", "last", "--approve", place]);
                    let told = resume("0/0.0");
                    must(
                        told.code == Some(5) && !world.project("rw/laundered").exists(),
                        format!("ESCAPE: it was not asked about: {told:?}"),
                    )?;
                    let told = resume("0/1.0/worker/0.0");
                    told.ended(0)?;
                    must(
                        world.project("rw/laundered").exists() && world.project("rw/own").exists(),
                        format!("the control: nothing is written: {told:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Loader,
                "a made worker that takes the place of another",
                "names that are taken are refused",
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
                    let told = run(world, APPROVED);
                    for turn in 0..names.len() {
                        told.refusal(&format!("0/{turn}.0"))?;
                    }
                    must(told.ending("0/3.0")?.is_ok(), format!("the control: no name is free: {told:?}"))?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Files,
                "a name that leads out of the folder where made workers are kept",
                "names are letters, digits, `-` and `_`",
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
                    let told = run(world, APPROVED);
                    for turn in 0..names.len() {
                        told.refusal(&format!("0/{turn}.0"))?;
                    }
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Files,
                "a link where made workers are kept, to a folder outside",
                "no link is followed there; the run goes on without the copy",
                |world| {
                    let temporary = world.top.join("temporary");
                    fs::create_dir(&temporary).unwrap();
                    creator(world, "description: x");
                    world.script(&[("main", vec![create("evil", &json!({}))])]);
                    symlink(world.outside(""), temporary.join("llm-do")).unwrap();
                    let told = run(world, APPROVED);
                    must(told.ending("0/0.0")?.is_ok(), format!("it was not made: {told:?}"))?;
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
                "instructions of a made worker that read files of the program",
                "no template of the program is within its reach",
                |world| {
                    world.put("templates/secret.jinja", &world.secret);
                    creator(world, "description: x");
                    let evil = [
                        "{% include 'secret.jinja' %}",
                        "{{ file('.env') }}",
                        "{% import 'secret.jinja' as s %}{{ s }}",
                        "{% extends '../.env' %}",
                    ];
                    // The script is a template itself.
                    let make = |(n, text): (usize, &&str)| {
                        let name = format!("w{n}");
                        let text = format!("{{% raw %}}{text}{{% endraw %}}");
                        [create(&name, &json!({"instructions": text})), ask(&name)]
                    };
                    world.script(&[("main", evil.iter().enumerate().flat_map(make).collect())]);
                    let told = run(world, APPROVED);
                    for turn in 0..evil.len() {
                        told.refusal(&format!("0/{}.0", turn * 2 + 1))?;
                    }
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Gate,
                "a made worker called by another that holds more than its creator",
                "only the call that made it can call it",
                |world| {
                    creator(world, "allow_workers: [child]");
                    world.put("workers/child.worker", "---\nmodel: script:script.json\ntoolsets: {workers: {dynamic: true}}\nsandbox: {paths: {notes: ./notes}}\n---\nGo.\n");
                    let made = create("evil", &json!({}));
                    world.script(&[
                        ("main", vec![call("child", json!({"input": "x"})), ask("evil")]),
                        ("child", vec![made, ask("evil")]),
                    ]);
                    let told = run(world, APPROVED);
                    told.refusal("0/1.0")?;
                    must(
                        told.ending("0/0.0/1.0")?.is_ok(),
                        format!("the control: its creator can't call it: {told:?}"),
                    )?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                Files,
                "a worker file that a model writes into the program, and calls",
                "what defines the program is protected",
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
                    let told = run(world, APPROVED);
                    for turn in 0..places.len() + 3 {
                        told.refusal(&format!("0/{turn}.0"))?;
                    }
                    Ok(Outcome::Refused)
                },
            ),
        ],
    }
}
