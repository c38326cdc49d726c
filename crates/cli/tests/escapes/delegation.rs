//! Laundering authority: a worker asks another one to do what it may not do itself.

use crate::{
    attempt::{
        Attempt, Group,
        Layer::{self, Authority, Gate, Loader},
        Need, Outcome, Tried,
        Who::{Library, Model, Project},
        must,
    },
    binary::{RunReport, call},
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

/// The same where only a pattern of the allowlist names the worker.
fn ask_by_pattern(worker: &str) -> Value {
    call("worker_call", json!({"worker": worker, "input_data": "go"}))
}

/// The grandchild does something when `main` asks it directly, and not when a restricted child asks.
fn laundered(
    world: &World,
    child: &str,
    grandchild: &str,
    deed: &Value,
    arguments: &[&str],
    prepare: impl Fn(&World),
    done: impl Fn(&World, &RunReport) -> bool,
) -> Tried {
    let direct = World::new();
    for (world, calls) in [(&direct, "grandchild"), (world, "child")] {
        prepare(world);
        workers(
            world,
            &[
                ("main", "allow_workers: [child, grandchild]"),
                // By a pattern: what an exact reference makes impossible is refused before the run.
                ("child", &format!("allow_workers: ['grand*']\n{child}")),
                ("grandchild", grandchild),
            ],
        );
        world.script(&[
            ("main", vec![ask(calls)]),
            ("child", vec![ask_by_pattern("grandchild")]),
            ("grandchild", vec![deed.clone()]),
        ]);
        let report = world.run(arguments);
        let was_done = done(world, &report);
        if calls == "grandchild" {
            must(was_done, format!("the control: asked directly it does nothing: {report:?}"))?;
        } else {
            must(!was_done, format!("ESCAPE: it was done for the child: {report:?}"))?;
            must(report.code == Some(0), format!("the run failed: {report:?}"))?;
        }
    }
    Ok(Outcome::Refused)
}

fn written(world: &World, _: &RunReport) -> bool {
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
fn with_library(world: &World, arguments: &[&str]) -> RunReport {
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
        about: "Runs of the binary with scripted models. All calls are approved unless the row says \
                otherwise. The control makes the same call of the same worker directly, which works.",
        attempts: vec![
            row(Model, Authority, "a read-only child asks a worker that may write", "bounds can only narrow", |world| {
                laundered(world, "sandbox: {readonly: true}", WRITES, &write(), APPROVED, |_| {}, written)
            }),
            row(Model, Authority, "a child restricted to one folder asks a worker that sees another", "bounds can only narrow", |world| {
                laundered(
                    world,
                    "sandbox: {paths: {notes: ./notes}, restrict: [/notes]}",
                    "toolsets: [filesystem]\nsandbox: {paths: {ro: ./ro}}",
                    &call("read_file", json!({"path": "/ro/secret.txt"})),
                    APPROVED,
                    |world| drop(world.put("ro/secret.txt", &world.secret)),
                    |world, report| report.all().contains(&world.secret),
                )
            }),
            row(Model, Authority, "a restricted worker uses its own wider mounts", "bounds also apply to the worker's own mounts", |world| {
                world.put("ro/secret.txt", &world.secret);
                workers(world, &[("main", "toolsets: [filesystem]\nsandbox: {paths: {ro: ./ro, notes: ./notes}, restrict: [/notes]}")]);
                world.script(&[("main", vec![call("read_file", json!({"path": "/ro/secret.txt"})), call("read_file", json!({"path": "/notes/../ro/secret.txt"}))])]);
                let report = world.run(APPROVED);
                report.refusal("0/0.0")?;
                report.refusal("0/1.0")?;
                Ok(Outcome::Refused)
            }),
            row(Model, Gate, "bypassing a caller's `blocked` through a child that allows the call", "`blocked` rules apply to all workers below", |world| {
                // The control is the same run without the block.
                for block in [false, true] {
                    let other = World::new();
                    let world = if block { world } else { &other };
                    let rules = if block { "tool_rules: {write_file: blocked}" } else { "description: x" };
                    workers(world, &[("main", &format!("allow_workers: [child]\n{rules}")), ("child", &format!("{WRITES}\ntool_rules: {{write_file: preApproved}}"))]);
                    world.script(&[("main", vec![ask("child")]), ("child", vec![write()])]);
                    let report = world.run(&[".", "--approval", "approve_all", "--allow", "write_file"]);
                    must(world.project("rw/laundered").exists() != block, format!("blocked {block}: {report:?}"))?;
                }
                Ok(Outcome::Refused)
            }),
            row(Model, Authority, "a child without network asks a worker whose tools have it", "bounds can only narrow; seccomp", |world| {
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
                    let report = world.run(&[".", "--approval", "approve_all", "--grant", "network"]);
                    let connected = report.endings().iter().any(|(_, ending)| ending.as_ref().is_ok_and(|text| text == "connected"));
                    must(connected == (calls == "grandchild"), format!("{calls}: {report:?}"))?;
                }
                Ok(Outcome::Refused)
            })
            .needs(Need::Python)
            .needs(Need::Tiers)
            .tier("A"),
            row(Model, Gate, "a fixed argument, by another spelling of the callee's name and by a pattern", "what is fixed for a callee is fixed whatever names it", |world| {
                world.put("workers/child.worker", "---\nmodel: script:script.json\nparameters: {text: string, style: string}\n---\nStyle {{ style }}.\n");
                let evil = json!({"text": "t", "style": "evil"});
                let by_pattern = |worker: &str| call("worker_call", json!({"worker": worker, "input_data": evil}));
                for (allowed, calls) in [
                    ("[./workers/child, {name: child, with: {style: strict}}]", vec![call("child", evil.clone()), call("workers__child", evil.clone())]),
                    ("[{name: child, with: {style: strict}}, './workers/*']", vec![by_pattern("workers/child"), by_pattern("./workers/child"), by_pattern("child")]),
                ] {
                    world.put("main.worker", format!("---\nmodel: script:script.json\nallow_workers: {allowed}\n---\nGo.\n"));
                    let count = calls.len();
                    world.script(&[("main", calls), ("child", vec![])]);
                    world.rearm();
                    let report = world.run(APPROVED);
                    report.ended(0)?;
                    for turn in 0..count {
                        report.refusal(&format!("0/{turn}.0"))?;
                    }
                }
                Ok(Outcome::Refused)
            }),
            row(Model, Gate, "calling in a cycle", "a worker that is already in the chain is refused", |world| {
                workers(world, &[("main", "allow_workers: [a]"), ("a", "allow_workers: [b]"), ("b", "allow_workers: [a]")]);
                world.script(&[("main", vec![ask("a")]), ("a", vec![ask("b")]), ("b", vec![ask("a")])]);
                let report = world.run(APPROVED);
                report.ended(2)?;
                must(report.all().contains("E0801"), report.all())?;
                // A cycle through a pattern is only known in the run.
                workers(world, &[("b", "allow_workers: ['a*']")]);
                world.script(&[("main", vec![ask("a")]), ("a", vec![ask("b")]), ("b", vec![ask_by_pattern("a")])]);
                let report = world.run(APPROVED);
                let began = |worker: &str| {
                    let began = |r: &&Value| r["kind"] == "conversation_started" && r["worker"] == worker;
                    report.journal.iter().filter(began).count()
                };
                must((began("a"), began("b")) == (1, 1), report.all())?;
                Ok(Outcome::Refused)
            }),
            row(Model, Gate, "infinite recursion", "`max_depth`", |world| {
                world.put("project.yaml", "name: target\ndelegation: {allow_recursion: true, max_depth: 4}\n");
                workers(world, &[("main", "allow_workers: [main]")]);
                world.script(&[("main", vec![ask("main")])]);
                let report = world.run(APPROVED);
                let calls = report.journal.iter().filter(|record| record["kind"] == "call_started").count();
                must(calls <= 6, format!("ESCAPE: {calls} calls"))?;
                Ok(Outcome::Bounded)
            }),
            row(
                Model,
                Gate,
                "concurrent children request more tokens than the caller has left",
                "one ledger for the tree; each request reserves its maximum",
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
                    let report = world.run(APPROVED);
                    let answered = report.journal.iter().filter(|record| record["kind"] == "model_answered");
                    let tokens = |record: &Value, kind: &str| record["usage"][kind].as_u64().unwrap_or(0);
                    let used: u64 = answered.map(|record| tokens(record, "input_tokens") + tokens(record, "output_tokens")).sum();
                    must((800..=2400).contains(&used), format!("ESCAPE: {used} tokens of 2,000: {report:?}"))?;
                    Ok(Outcome::Bounded)
                },
            ),
            row(
                Model,
                Gate,
                "exceeding a caller's `max_tool_calls` in its children",
                "one ledger for the tree, which counts the calls of all workers below",
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
            row(Model, Gate, "a worker that is not on the allowlist, in every spelling", "the allowlist holds exact names", |world| {
                workers(world, &[("main", "allow_workers: [\"help*\"]"), ("helper", "description: x"), ("other", WRITES)]);
                let names = ["other", "./workers/other", "workers/other", "other.worker", "helper/../other", "OTHER", "οther", "helper\u{200b}", "help*", "*", "../x", "/etc/passwd", "lib:other", "helper other"];
                let calls: Vec<Value> = names.iter().map(|name| call("worker_call", json!({"worker": name, "input_data": "x"}))).chain([call("other", json!({}))]).collect();
                world.script(&[("main", calls.into_iter().chain([call("worker_call", json!({"worker": "helper", "input_data": "x"}))]).collect()), ("other", vec![write()])]);
                let report = world.run(APPROVED);
                must(!world.project("rw/laundered").exists(), format!("ESCAPE: {report:?}"))?;
                for turn in 0..names.len() {
                    report.refusal(&format!("0/{turn}.0"))?;
                }
                must(report.ending(&format!("0/{}.0", names.len() + 1))?.is_ok(), "the control: the helper can't be called either")?;
                Ok(Outcome::Refused)
            }),
            row(Model, Authority, "passing a folder that the caller does not have", "path parameters are capabilities of the caller", |world| {
                world.put("ro/secret.txt", &world.secret);
                workers(world, &[
                    ("main", "allow_workers: [child]\nsandbox: {paths: {notes: ./notes}}"),
                    ("child", "parameters: {dir: path}\ntoolsets: [filesystem]\nsandbox: {read: [\"${dir}\"]}"),
                ]);
                let paths = ["/ro", "ro", "/notes/../ro", "../outside", "/", "/notes/plan.md/../../ro", "/dir"];
                let calls = paths.iter().map(|path| call("child", json!({"dir": path}))).chain([call("child", json!({"dir": "/notes"}))]).collect();
                world.script(&[("main", calls), ("child", vec![call("read_file", json!({"path": "/dir/secret.txt"})), call("list_files", json!({}))])]);
                let report = world.run(APPROVED);
                for turn in 0..paths.len() {
                    report.refusal(&format!("0/{turn}.0"))?;
                }
                must(report.ending(&format!("0/{}.0", paths.len()))?.is_ok(), "the control: nothing can be handed over")?;
                Ok(Outcome::Refused)
            }),
            row(Model, Authority, "passing a read-only folder for writing", "path parameters are capabilities of the caller", |world| {
                workers(world, &[
                    ("main", "allow_workers: [child]\nsandbox: {paths: {ro: ./ro, rw: {root: ./rw, mode: rw}}}"),
                    ("child", "parameters: {dir: path}\ntoolsets: [filesystem]\nsandbox: {write: [\"${dir}\"]}"),
                ]);
                world.script(&[
                    ("main", vec![call("child", json!({"dir": "/ro"})), call("child", json!({"dir": "/rw"}))]),
                    ("child", vec![call("write_file", json!({"path": "/dir/laundered", "content": "x"}))]),
                ]);
                let report = world.run(APPROVED);
                report.refusal("0/0.0")?;
                must(!world.project("ro/laundered").exists(), "ESCAPE: written")?;
                must(world.project("rw/laundered").exists(), format!("the control: nothing was written: {report:?}"))?;
                Ok(Outcome::Refused)
            }),
            row(Model, Authority, "attaching files that the caller does not see", "attachments are read in the caller's view", |world| {
                symlink(world.outside("canary.txt"), world.project("notes/link.txt")).unwrap();
                workers(world, &[("main", "allow_workers: [child]\ntoolsets: [filesystem]"), ("child", "description: x")]);
                let outside = world.outside("canary.txt").display().to_string();
                let paths = ["/.env", "../outside/canary.txt", &outside, "/notes/link.txt", "/.llm-do/journal", "file:///etc/passwd", "/proc/self/environ"];
                let attach = |path: &str| call("child", json!({"input": "x", "attachments": [path]}));
                world.script(&[("main", paths.iter().map(|path| attach(path)).chain([attach("/notes/plan.md")]).collect())]);
                let report = world.run(APPROVED);
                for turn in 0..paths.len() {
                    report.refusal(&format!("0/{turn}.0"))?;
                }
                must(report.ending(&format!("0/{}.0", paths.len()))?.is_ok(), format!("the control: nothing can be attached: {}", report.stderr))?;
                Ok(Outcome::Refused)
            }),
            row(Model, Authority, "too many, too large and disallowed attachments", "`attachment_policy` of the callee", |world| {
                world.put("notes/big.md", "x".repeat(3000));
                world.put("notes/key.pem", &world.secret);
                workers(world, &[("main", "allow_workers: [child]"), ("child", "attachment_policy: {max_attachments: 1, max_total_bytes: 1000, allowed_suffixes: [.md]}")]);
                let attach = |paths: &[&str]| call("child", json!({"input": "x", "attachments": paths}));
                world.script(&[("main", vec![attach(&["/notes/plan.md", "/notes/plan.md"]), attach(&["/notes/big.md"]), attach(&["/notes/key.pem"])])]);
                let report = world.run(APPROVED);
                for turn in 0..3 {
                    report.refusal(&format!("0/{turn}.0"))?;
                }
                Ok(Outcome::Refused)
            }),
            row(Model, Layer::Templates, "template syntax in instructions for a child", "values from a caller are data", |world| {
                workers(world, &[("main", "allow_workers: [child]"), ("child", "description: x")]);
                let evil = "{{ file('.env') }}{% include '.env' %}{{ 7 * 191 }}";
                world.script(&[("main", vec![call("child", json!({"input": format!("{{% raw %}}{evil}{{% endraw %}}"), "instructions": format!("{{% raw %}}{evil}{{% endraw %}}")}))])]);
                let report = world.run(APPROVED);
                report.ended(0)?;
                must(!report.all().contains("1337"), "ESCAPE: it was rendered")?;
                must(report.all().contains("7 * 191"), "the control: it never arrived")?;
                Ok(Outcome::Literal)
            }),
            row(Library, Authority, "a library's worker declares a mount that its caller does not see", "the view of a library's worker stays within the caller's", |world| {
                world.put("ro/secret.txt", &world.secret);
                let real = world.project("ro").display().to_string();
                library(world, &[("workers/open.worker", &foreign(&format!("toolsets: [filesystem]\nsandbox: {{paths: {{x: \"{real}\"}}}}"))), ("data/own.txt", "own")]);
                workers(world, &[("main", "allow_workers: [\"foreign:open\"]\nsandbox: {paths: {notes: ./notes}}")]);
                world.script(&[("main", vec![ask("foreign__open")]), ("foreign:open", vec![call("read_file", json!({"path": "/x/secret.txt"}))]), ("open", vec![call("read_file", json!({"path": "/x/secret.txt"}))])]);
                let report = with_library(world, APPROVED);
                must(report.code != Some(0) || report.refusal("0/0.0").is_ok() || report.refusal("0/0.0/0.0").is_ok(), format!("ESCAPE: {report:?}"))?;
                Ok(Outcome::Refused)
            }),
            row(Library, Loader, "a library's worker names a worker of the program", "names resolve within the library and its dependencies", |world| {
                library(world, &[("workers/open.worker", &foreign("allow_workers: [writer]"))]);
                workers(world, &[("main", "allow_workers: [\"foreign:open\"]"), ("writer", WRITES)]);
                world.script(&[("main", vec![ask("foreign__open")]), ("foreign:open", vec![ask("writer")]), ("open", vec![ask("writer")]), ("writer", vec![write()])]);
                let report = with_library(world, APPROVED);
                report.ended(2)?;
                must(!world.project("rw/laundered").exists(), "ESCAPE: written")?;
                Ok(Outcome::Refused)
            }),
            row(Library, Loader, "a library's pattern that would match workers of the program", "names resolve within the library and its dependencies", |world| {
                library(world, &[("workers/open.worker", &foreign("allow_workers: [\"*\"]"))]);
                workers(world, &[("main", "allow_workers: [\"foreign:open\"]"), ("writer", WRITES)]);
                let by_name = |name: &str| call("worker_call", json!({"worker": name, "input_data": "x"}));
                let calls = vec![by_name("writer"), by_name("./workers/writer"), by_name("main"), by_name("target:writer")];
                world.script(&[("main", vec![ask("foreign__open")]), ("foreign:open", calls.clone()), ("open", calls), ("writer", vec![write()])]);
                let report = with_library(world, APPROVED);
                let refused = report.endings().iter().filter(|(_, ending)| ending.is_err()).count();
                must(refused == 4 && !world.project("rw/laundered").exists(), format!("ESCAPE: {report:?}"))?;
                Ok(Outcome::Refused)
            }),
            row(Project, Loader, "a worker that a library does not export", "only exports can be named", |world| {
                library(world, &[("workers/open.worker", &foreign("description: x"))]);
                workers(world, &[("main", "allow_workers: [\"foreign:private\"]")]);
                with_library(world, APPROVED).ended(2)?;
                workers(world, &[("main", "allow_workers: [\"foreign:*\"]")]);
                world.rearm();
                let by_name = |name: &str| call("worker_call", json!({"worker": name, "input_data": "x"}));
                world.script(&[("main", vec![by_name("foreign:private"), by_name("foreign:workers/private"), by_name("foreign:./workers/private"), by_name("foreign:open")])]);
                let report = with_library(world, APPROVED);
                for turn in 0..3 {
                    report.refusal(&format!("0/{turn}.0"))?;
                }
                must(report.ending("0/3.0")?.is_ok(), format!("the control: no export can be called: {report:?}"))?;
                Ok(Outcome::Refused)
            }),
            row(Library, Gate, "a library approves its own writes", "a library's rules only tighten", |world| {
                let allowing = "toolsets: {filesystem: {approval: {default: preApproved}}}\ntool_rules: {write_file: preApproved, \"*\": preApproved}";
                library(world, &[("workers/open.worker", &foreign(allowing))]);
                workers(world, &[("main", "allow_workers: [\"foreign:open\"]\nsandbox: {paths: {rw: {root: ./rw, mode: rw}}}")]);
                world.script(&[("main", vec![ask("foreign__open")]), ("foreign:open", vec![write()]), ("open", vec![write()])]);
                let report = with_library(world, &[".", "--approval", "auto_deny"]);
                must(!world.project("rw/laundered").exists(), format!("ESCAPE: {report:?}"))?;
                let report = with_library(world, APPROVED);
                must(world.project("rw/laundered").exists(), format!("the control: nothing is written either way: {report:?}"))?;
                Ok(Outcome::Refused)
            }),
        ],
    }
}
