//! Authority laundered through other workers: what one may not do, another is asked to.

use crate::{
    attempt::{
        Attempt, Group,
        Layer::{self, Authority, Gate, Loader},
        Need, Outcome, Tried,
        Who::{Library, Model, Project},
        must,
    },
    binary::{Told, call},
    world::World,
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink};

const APPROVED: &[&str] = &[".", "--approval", "approve_all"];

/// Workers of the project: name and front matter.
fn workers(world: &World, workers: &[(&str, &str)]) {
    for (name, front) in workers {
        let path = if *name == "main" { "main.worker".to_owned() } else { format!("workers/{name}.worker") };
        world.put(&path, format!("---\nmodel: script:script.json\n{front}\n---\nGo.\n"));
    }
}

fn ask(worker: &str) -> Value {
    call(worker, json!({"input": "go"}))
}

/// The grandchild does something when `main` asks it, and not when a child asks that is held to less.
fn laundered(
    world: &World,
    child: &str,
    grandchild: &str,
    deed: &Value,
    arguments: &[&str],
    prepare: impl Fn(&World),
    done: impl Fn(&World, &Told) -> bool,
) -> Tried {
    let direct = World::new();
    for (world, calls) in [(&direct, "grandchild"), (world, "child")] {
        prepare(world);
        workers(
            world,
            &[
                ("main", "allow_workers: [child, grandchild]"),
                ("child", &format!("allow_workers: [grandchild]\n{child}")),
                ("grandchild", grandchild),
            ],
        );
        world.script(&[
            ("main", vec![ask(calls)]),
            ("child", vec![ask("grandchild")]),
            ("grandchild", vec![deed.clone()]),
        ]);
        let told = world.run(arguments);
        let was_done = done(world, &told);
        if calls == "grandchild" {
            must(was_done, format!("the control: asked directly it does nothing: {told:?}"))?;
        } else {
            must(!was_done, format!("ESCAPE: it was done for the child: {told:?}"))?;
            must(told.code == Some(0), format!("the run failed: {told:?}"))?;
        }
    }
    Ok(Outcome::Refused)
}

fn written(world: &World, _: &Told) -> bool {
    world.project("rw/laundered").exists()
}

const WRITES: &str = "toolsets: [filesystem]\nsandbox: {paths: {rw: {root: ./rw, mode: rw}}}";

fn write() -> Value {
    call("write_file", json!({"path": "/rw/laundered", "content": "x"}))
}

/// A library `foreign` with these files, on which the project depends.
fn library(world: &World, files: &[(&str, &str)]) {
    let put = |path: &str, text: &str| {
        let path = world.top.join("libs/foreign").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("lib.yaml", "name: foreign\nversion: \"1.0.0\"\nexports: [open]\n");
    put("workers/private.worker", "---\nmodel: script:script.json\ntoolsets: [filesystem]\n---\nPrivate.\n");
    for (path, text) in files {
        put(path, text);
    }
    world.put("project.yaml", "name: target\ndependencies: [foreign]\n");
}

/// Runs with the libraries of the world.
fn with_library(world: &World, arguments: &[&str]) -> Told {
    let libs = world.top.join("libs").display().to_string();
    let all: Vec<&str> = arguments.iter().copied().chain(["--lib", &libs]).collect();
    world.run(&all)
}

fn foreign(front: &str) -> String {
    format!("---\nmodel: script:script.json\n{front}\n---\nGo.\n")
}

fn row(
    who: crate::attempt::Who,
    layer: Layer,
    name: &'static str,
    mechanism: &'static str,
    attack: fn(&World) -> Tried,
) -> Attempt {
    Attempt::new(who, layer, name, mechanism, attack)
}

pub(crate) fn group() -> Group {
    Group {
        title: "Delegation",
        about: "Runs of the binary with scripted models, all calls approved where the table does not say otherwise. The control asks the same of the same \
                worker directly, which works.",
        attempts: vec![
            row(Model, Authority, "a child held to reading asks one that may write", "bounds only shrink", |world| {
                laundered(world, "sandbox: {readonly: true}", WRITES, &write(), APPROVED, |_| {}, written)
            }),
            row(Model, Authority, "a child restricted to one folder asks one that sees another", "bounds only shrink", |world| {
                laundered(
                    world,
                    "sandbox: {paths: {notes: ./notes}, restrict: [/notes]}",
                    "toolsets: [filesystem]\nsandbox: {paths: {ro: ./ro}}",
                    &call("read_file", json!({"path": "/ro/secret.txt"})),
                    APPROVED,
                    |world| drop(world.put("ro/secret.txt", &world.secret)),
                    |world, told| told.all().contains(&world.secret),
                )
            }),
            row(Model, Authority, "a child that asks itself, restricted, for its own wider mounts", "bounds hold for the worker itself", |world| {
                world.put("ro/secret.txt", &world.secret);
                workers(world, &[("main", "toolsets: [filesystem]\nsandbox: {paths: {ro: ./ro, notes: ./notes}, restrict: [/notes]}")]);
                world.script(&[("main", vec![call("read_file", json!({"path": "/ro/secret.txt"})), call("read_file", json!({"path": "/notes/../ro/secret.txt"}))])]);
                let told = world.run(APPROVED);
                told.refusal("0/0.0")?;
                told.refusal("0/1.0")?;
                Ok(Outcome::Refused)
            }),
            row(Model, Gate, "a caller's `blocked`, walked around by a child that is allowed", "blocks of callers reach down", |world| {
                // The control is the same without the block.
                for block in [false, true] {
                    let other = World::new();
                    let world = if block { world } else { &other };
                    let rules = if block { "tool_rules: {write_file: blocked}" } else { "description: x" };
                    workers(world, &[("main", &format!("allow_workers: [child]\n{rules}")), ("child", &format!("{WRITES}\ntool_rules: {{write_file: preApproved}}"))]);
                    world.script(&[("main", vec![ask("child")]), ("child", vec![write()])]);
                    let told = world.run(&[".", "--approval", "approve_all", "--allow", "write_file"]);
                    must(world.project("rw/laundered").exists() != block, format!("blocked {block}: {told:?}"))?;
                }
                Ok(Outcome::Refused)
            }),
            row(Model, Authority, "a child without network asks one whose tools have it", "bounds only shrink; seccomp", |world| {
                let tools = "import socket\ndef dial(port: int) -> str:\n    socket.create_connection(('127.0.0.1', port), timeout=5)\n    return 'connected'\n";
                let deed = |world: &World| call("dial", json!({"port": world.port()}));
                let other = World::new();
                for (world, calls) in [(&other, "grandchild"), (world, "child")] {
                    world.put("workers/grandchild/tools.py", tools);
                    workers(world, &[
                        ("main", "allow_workers: [child, grandchild]\nsandbox: {network_enabled: true}"),
                        ("child", "allow_workers: [grandchild]\nsandbox: {network_enabled: false}"),
                        ("grandchild/worker", "sandbox: {network_enabled: true}"),
                    ]);
                    world.script(&[("main", vec![ask(calls)]), ("child", vec![ask("grandchild")]), ("grandchild", vec![deed(world)])]);
                    let told = world.run(&[".", "--approval", "approve_all", "--grant", "network"]);
                    let connected = told.endings().iter().any(|(_, ending)| ending.as_ref().is_ok_and(|text| text == "connected"));
                    must(connected == (calls == "grandchild"), format!("{calls}: {told:?}"))?;
                }
                Ok(Outcome::Refused)
            })
            .needs(Need::Python)
            .needs(Need::Tiers)
            .tier("A"),
            row(Model, Gate, "calling in a circle", "a worker in the chain is refused", |world| {
                workers(world, &[("main", "allow_workers: [a]"), ("a", "allow_workers: [b]"), ("b", "allow_workers: [a]")]);
                world.script(&[("main", vec![ask("a")]), ("a", vec![ask("b")]), ("b", vec![ask("a")])]);
                let told = world.run(APPROVED);
                told.refusal("0/0.0/0.0/0.0").or_else(|_| told.refusal("0/0.0/0.0.0"))?;
                Ok(Outcome::Refused)
            }),
            row(Model, Gate, "calling itself without end", "`max_depth`", |world| {
                world.put("project.yaml", "name: target\ndelegation: {allow_recursion: true, max_depth: 4}\n");
                workers(world, &[("main", "allow_workers: [main]")]);
                world.script(&[("main", vec![ask("main")])]);
                let told = world.run(APPROVED);
                let calls = told.journal.iter().filter(|record| record["kind"] == "call_started").count();
                must(calls <= 6, format!("ESCAPE: {calls} calls"))?;
                Ok(Outcome::Bounded)
            }),
            row(
                Model,
                Gate,
                "children at once ask for more tokens than the caller has",
                "one ledger for the tree; a request reserves what it may use",
                |world| {
                    workers(world, &[
                        ("main", "allow_workers: [child]\nlimits: {max_tokens: 2000}\nmodel_settings: {max_tokens: 300}"),
                        ("child", "toolsets: [filesystem]\nlimits: {max_tokens: 100000}\nmodel_settings: {max_tokens: 300}"),
                    ]);
                    let usage = json!({"input_tokens": 100, "output_tokens": 300});
                    let ask: Vec<Value> = (0..6).map(|_| ask("child")).collect();
                    let look = |turn: u32| json!({"tool": "read_file", "arguments": {"path": format!("/notes/{turn}")}});
                    let mut answers = vec![json!({"when": {"worker": "main", "turn": 0}, "calls": ask, "usage": usage})];
                    answers.extend((0..5).map(|turn| json!({"when": {"worker": "child", "turn": turn}, "calls": [look(turn)], "usage": usage})));
                    answers.push(json!({"text": "done", "usage": {"input_tokens": 1, "output_tokens": 1}}));
                    world.answers(&json!({ "answers": answers }));
                    let told = world.run(APPROVED);
                    let answered = told.journal.iter().filter(|record| record["kind"] == "model_answered");
                    let tokens = |record: &Value, kind: &str| record["usage"][kind].as_u64().unwrap_or(0);
                    let used: u64 = answered.map(|record| tokens(record, "input_tokens") + tokens(record, "output_tokens")).sum();
                    must((800..=2400).contains(&used), format!("ESCAPE: {used} tokens of 2,000: {told:?}"))?;
                    Ok(Outcome::Bounded)
                },
            ),
            row(
                Model,
                Gate,
                "a caller's `max_tool_calls`, spent by its children",
                "one ledger for the tree: calls of a worker and all below it",
                |world| {
                    workers(world, &[
                        ("main", "allow_workers: [child]\nlimits: {max_tool_calls: 3}"),
                        ("child", &format!("{WRITES}\nlimits: {{max_tool_calls: 100}}")),
                    ]);
                    let writes = (0..10)
                        .map(|n| call("write_file", json!({"path": format!("/rw/n{n}"), "content": "x"})))
                        .collect();
                    world.script(&[("main", vec![ask("child")]), ("child", writes)]);
                    world.run(APPROVED);
                    let made = fs::read_dir(world.project("rw")).unwrap().flatten();
                    let made = made.filter(|entry| entry.file_name().to_string_lossy().starts_with('n')).count();
                    must(made == 2, format!("ESCAPE: {made} calls of the child, where one of three was its caller's"))?;
                    Ok(Outcome::Bounded)
                },
            ),
            row(Model, Gate, "a worker that is not on the allowlist, by every spelling", "the allowlist, exact names", |world| {
                workers(world, &[("main", "allow_workers: [\"help*\"]"), ("helper", "description: x"), ("other", WRITES)]);
                let names = ["other", "./workers/other", "workers/other", "other.worker", "helper/../other", "OTHER", "οther", "helper\u{200b}", "help*", "*", "../x", "/etc/passwd", "lib:other", "helper other"];
                let calls: Vec<Value> = names.iter().map(|name| call("worker_call", json!({"worker": name, "input_data": "x"}))).chain([call("other", json!({}))]).collect();
                world.script(&[("main", calls.into_iter().chain([call("worker_call", json!({"worker": "helper", "input_data": "x"}))]).collect()), ("other", vec![write()])]);
                let told = world.run(APPROVED);
                must(!world.project("rw/laundered").exists(), format!("ESCAPE: {told:?}"))?;
                for turn in 0..names.len() {
                    told.refusal(&format!("0/{turn}.0"))?;
                }
                must(told.ending(&format!("0/{}.0", names.len() + 1))?.is_ok(), "the control: the helper can't be called either")?;
                Ok(Outcome::Refused)
            }),
            row(Model, Authority, "handing over a folder that the caller does not hold", "path parameters are capabilities of the caller", |world| {
                world.put("ro/secret.txt", &world.secret);
                workers(world, &[
                    ("main", "allow_workers: [child]\nsandbox: {paths: {notes: ./notes}}"),
                    ("child", "parameters: {dir: path}\ntoolsets: [filesystem]\nsandbox: {read: [\"${dir}\"]}"),
                ]);
                let paths = ["/ro", "ro", "/notes/../ro", "../outside", "/", "/notes/plan.md/../../ro", "/dir"];
                let calls = paths.iter().map(|path| call("child", json!({"dir": path}))).chain([call("child", json!({"dir": "/notes"}))]).collect();
                world.script(&[("main", calls), ("child", vec![call("read_file", json!({"path": "/dir/secret.txt"})), call("list_files", json!({}))])]);
                let told = world.run(APPROVED);
                for turn in 0..paths.len() {
                    told.refusal(&format!("0/{turn}.0"))?;
                }
                must(told.ending(&format!("0/{}.0", paths.len()))?.is_ok(), "the control: nothing can be handed over")?;
                Ok(Outcome::Refused)
            }),
            row(Model, Authority, "handing over for writing what is held for reading", "path parameters are capabilities of the caller", |world| {
                workers(world, &[
                    ("main", "allow_workers: [child]\nsandbox: {paths: {ro: ./ro, rw: {root: ./rw, mode: rw}}}"),
                    ("child", "parameters: {dir: path}\ntoolsets: [filesystem]\nsandbox: {write: [\"${dir}\"]}"),
                ]);
                world.script(&[
                    ("main", vec![call("child", json!({"dir": "/ro"})), call("child", json!({"dir": "/rw"}))]),
                    ("child", vec![call("write_file", json!({"path": "/dir/laundered", "content": "x"}))]),
                ]);
                let told = world.run(APPROVED);
                told.refusal("0/0.0")?;
                must(!world.project("ro/laundered").exists(), "ESCAPE: written")?;
                must(world.project("rw/laundered").exists(), format!("the control: nothing was written: {told:?}"))?;
                Ok(Outcome::Refused)
            }),
            row(Model, Authority, "attaching what the caller does not see", "attachments are read in the caller's view", |world| {
                symlink(world.outside("canary.txt"), world.project("notes/link.txt")).unwrap();
                workers(world, &[("main", "allow_workers: [child]\ntoolsets: [filesystem]"), ("child", "description: x")]);
                let outside = world.outside("canary.txt").display().to_string();
                let paths = ["/.env", "../outside/canary.txt", &outside, "/notes/link.txt", "/.llm-do/journal", "file:///etc/passwd", "/proc/self/environ"];
                let attach = |path: &str| call("child", json!({"input": "x", "attachments": [path]}));
                world.script(&[("main", paths.iter().map(|path| attach(path)).chain([attach("/notes/plan.md")]).collect())]);
                let told = world.run(APPROVED);
                for turn in 0..paths.len() {
                    told.refusal(&format!("0/{turn}.0"))?;
                }
                must(told.ending(&format!("0/{}.0", paths.len()))?.is_ok(), format!("the control: nothing can be attached: {}", told.stderr))?;
                Ok(Outcome::Refused)
            }),
            row(Model, Authority, "attachments that are too many, too large, of a wrong kind", "`attachment_policy` of the callee", |world| {
                world.put("notes/big.md", "x".repeat(3000));
                world.put("notes/key.pem", &world.secret);
                workers(world, &[("main", "allow_workers: [child]"), ("child", "attachment_policy: {max_attachments: 1, max_total_bytes: 1000, allowed_suffixes: [.md]}")]);
                let attach = |paths: &[&str]| call("child", json!({"input": "x", "attachments": paths}));
                world.script(&[("main", vec![attach(&["/notes/plan.md", "/notes/plan.md"]), attach(&["/notes/big.md"]), attach(&["/notes/key.pem"])])]);
                let told = world.run(APPROVED);
                for turn in 0..3 {
                    told.refusal(&format!("0/{turn}.0"))?;
                }
                Ok(Outcome::Refused)
            }),
            row(Model, Layer::Templates, "instructions for a child with template syntax", "what a caller says is data", |world| {
                workers(world, &[("main", "allow_workers: [child]"), ("child", "description: x")]);
                let evil = "{{ file('.env') }}{% include '.env' %}{{ 7 * 191 }}";
                world.script(&[("main", vec![call("child", json!({"input": format!("{{% raw %}}{evil}{{% endraw %}}"), "instructions": format!("{{% raw %}}{evil}{{% endraw %}}")}))])]);
                let told = world.run(APPROVED);
                told.ended(0)?;
                must(!told.all().contains("1337"), "ESCAPE: it was rendered")?;
                must(told.all().contains("7 * 191"), "the control: it never arrived")?;
                Ok(Outcome::Literal)
            }),
            row(Library, Authority, "a library's worker declares a mount that its caller does not see", "foreign views stay within the caller's", |world| {
                world.put("ro/secret.txt", &world.secret);
                let real = world.project("ro").display().to_string();
                library(world, &[("workers/open.worker", &foreign(&format!("toolsets: [filesystem]\nsandbox: {{paths: {{x: \"{real}\"}}}}"))), ("data/own.txt", "own")]);
                workers(world, &[("main", "allow_workers: [\"foreign:open\"]\nsandbox: {paths: {notes: ./notes}}")]);
                world.script(&[("main", vec![ask("foreign__open")]), ("foreign:open", vec![call("read_file", json!({"path": "/x/secret.txt"}))]), ("open", vec![call("read_file", json!({"path": "/x/secret.txt"}))])]);
                let told = with_library(world, APPROVED);
                must(told.code != Some(0) || told.refusal("0/0.0").is_ok() || told.refusal("0/0.0/0.0").is_ok(), format!("ESCAPE: {told:?}"))?;
                Ok(Outcome::Refused)
            }),
            row(Library, Loader, "a library's worker names a worker of the program", "names resolve within the library and its dependencies", |world| {
                library(world, &[("workers/open.worker", &foreign("allow_workers: [writer]"))]);
                workers(world, &[("main", "allow_workers: [\"foreign:open\"]"), ("writer", WRITES)]);
                world.script(&[("main", vec![ask("foreign__open")]), ("foreign:open", vec![ask("writer")]), ("open", vec![ask("writer")]), ("writer", vec![write()])]);
                let told = with_library(world, APPROVED);
                told.ended(2)?;
                must(!world.project("rw/laundered").exists(), "ESCAPE: written")?;
                Ok(Outcome::Refused)
            }),
            row(Library, Loader, "a pattern of a library that would match the program's workers", "names resolve within the library and its dependencies", |world| {
                library(world, &[("workers/open.worker", &foreign("allow_workers: [\"*\"]"))]);
                workers(world, &[("main", "allow_workers: [\"foreign:open\"]"), ("writer", WRITES)]);
                let by_name = |name: &str| call("worker_call", json!({"worker": name, "input_data": "x"}));
                let calls = vec![by_name("writer"), by_name("./workers/writer"), by_name("main"), by_name("target:writer")];
                world.script(&[("main", vec![ask("foreign__open")]), ("foreign:open", calls.clone()), ("open", calls), ("writer", vec![write()])]);
                let told = with_library(world, APPROVED);
                let refused = told.endings().iter().filter(|(_, ending)| ending.is_err()).count();
                must(refused == 4 && !world.project("rw/laundered").exists(), format!("ESCAPE: {told:?}"))?;
                Ok(Outcome::Refused)
            }),
            row(Project, Loader, "a worker that a library does not export", "exports are all that can be named", |world| {
                library(world, &[("workers/open.worker", &foreign("description: x"))]);
                workers(world, &[("main", "allow_workers: [\"foreign:private\"]")]);
                with_library(world, APPROVED).ended(2)?;
                workers(world, &[("main", "allow_workers: [\"foreign:*\"]")]);
                world.rearm();
                let by_name = |name: &str| call("worker_call", json!({"worker": name, "input_data": "x"}));
                world.script(&[("main", vec![by_name("foreign:private"), by_name("foreign:workers/private"), by_name("foreign:./workers/private"), by_name("foreign:open")])]);
                let told = with_library(world, APPROVED);
                for turn in 0..3 {
                    told.refusal(&format!("0/{turn}.0"))?;
                }
                must(told.ending("0/3.0")?.is_ok(), format!("the control: no export can be called: {told:?}"))?;
                Ok(Outcome::Refused)
            }),
            row(Library, Gate, "a library approves its own writes", "a library's rules only tighten", |world| {
                let allowing = "toolsets: {filesystem: {approval: {default: preApproved}}}\ntool_rules: {write_file: preApproved, \"*\": preApproved}";
                library(world, &[("workers/open.worker", &foreign(allowing))]);
                workers(world, &[("main", "allow_workers: [\"foreign:open\"]\nsandbox: {paths: {rw: {root: ./rw, mode: rw}}}")]);
                world.script(&[("main", vec![ask("foreign__open")]), ("foreign:open", vec![write()]), ("open", vec![write()])]);
                let told = with_library(world, &[".", "--approval", "auto_deny"]);
                must(!world.project("rw/laundered").exists(), format!("ESCAPE: {told:?}"))?;
                let told = with_library(world, APPROVED);
                must(world.project("rw/laundered").exists(), format!("the control: nothing is written either way: {told:?}"))?;
                Ok(Outcome::Refused)
            }),
        ],
    }
}
