//! Commands with declared arguments (`toolsets.shell.commands`), whose arguments become code or options.

use crate::{
    attempt::{Attempt, Group, Layer::Commands, Need, Outcome, Tried, Who::Model, must},
    binary::call,
    world::World,
};
use serde_json::{Value, json};

/// A worker with these commands, all of which its project allows, and one of which is called with these arguments.
fn program(world: &World, commands: &str, calls: &[(&str, Value)]) {
    let names: Vec<String> = calls.iter().map(|(name, _)| format!("{name}: preApproved")).collect();
    world.put("project.yaml", format!("approval:\n  tools: {{{}}}\n", names.join(", ")));
    world.put(
        "main.worker",
        format!(
            "---\nmodel: script:script.json\nsandbox: {{paths: {{rw: {{root: ./rw, mode: rw}}}}}}\n\
             toolsets:\n  shell:\n    commands:\n{commands}---\nGo.\n"
        ),
    );
    world.script(&[("main", calls.iter().map(|(name, arguments)| call(name, arguments.clone())).collect())]);
    world.rearm();
}

/// None of the calls may make the file, and each must ask. The control: approved, each makes it.
fn none_runs(world: &World, commands: &str, calls: &[(&str, Value)]) -> Tried {
    program(world, commands, calls);
    let report = world.run(&["."]);
    report.ended(0)?;
    for turn in 0..calls.len() {
        let why = report.refusal(&format!("0/{turn}.0"))?;
        must(why.contains("approval"), why)?;
    }
    must(!world.project("rw/new").exists(), "ESCAPE: the file was made")?;
    for (name, arguments) in calls {
        program(world, commands, &[(name, arguments.clone())]);
        world.run(&[".", "--approval", "approve_all"]).ended(0)?;
        let made = std::fs::remove_file(world.project("rw/new")).is_ok();
        must(made, format!("the control: approved, `{name}` makes no file"))?;
    }
    Ok(Outcome::Asks)
}

fn row(name: &'static str, mechanism: &'static str, attack: fn(&World) -> Tried) -> Attempt {
    Attempt::new(Model, Commands, name, mechanism, attack).needs(Need::Tiers)
}

pub(crate) fn group() -> Group {
    Group {
        title: "Declared commands",
        about: "Runs of the binary without an operator, with `toolsets.shell.commands` that the project allows. The \
                arguments make a file. The control makes the same calls approved, where they can be.",
        attempts: vec![
            row(
                "code on the standard input of an interpreter (`sh`, `bash -s`, `python3 -`, `perl`)",
                "what a program runs from its standard input counts like code among its arguments",
                |world| {
                    const COMMANDS: &str = "      \
                        a: {run: [sh], stdin: '{text}', args: {text: string}}\n      \
                        b: {run: [bash, -s, x], stdin: 'cd . && {text}', args: {text: string}}\n      \
                        c: {run: [bash, '-'], stdin: '{text}', args: {text: string}}\n      \
                        e: {run: [perl, -w], stdin: '{text}', args: {text: string}}\n";
                    let text = || json!({"text": ": > new"});
                    let perl = json!({"text": "open(F, '>', 'new');"});
                    none_runs(world, COMMANDS, &[("a", text()), ("b", text()), ("c", text()), ("e", perl)])
                },
            ),
            row(
                "code that an earlier program of a pipe passes on to an interpreter",
                "what arguments reach through a pipe counts like standard input",
                |world| {
                    world.put("rw/code.txt", ": > new\n");
                    const COMMANDS: &str = "      \
                        a: {pipe: [[echo, '{text}'], [sh]], args: {text: string}}\n      \
                        b: {pipe: [[cat, '{path}'], [cat], [bash, -e]], args: {path: path}}\n      \
                        c: {pipe: [[cat], [sh]], stdin: '{text}', args: {text: string}}\n";
                    let text = || json!({"text": ": > new"});
                    none_runs(
                        world,
                        COMMANDS,
                        &[("a", text()), ("b", json!({"path": "/rw/code.txt"})), ("c", text())],
                    )
                },
            ),
            row(
                "an option behind an argument that is empty, within one word",
                "a word begins with a dash only if its author or a choice says so",
                |world| {
                    // `sort --output=new` would be a known danger; `touch --reference` and `truncate -s` are none.
                    const COMMANDS: &str = "      \
                        a: {run: [truncate, '{kind}{name}', new], args: {kind: ['', x], name: string}}\n      \
                        b: {run: [truncate, '{kind}{name}', new], args: {kind: string, name: string}}\n      \
                        c: {run: [truncate, '{kind}{name}', new], args: {kind: [a, ''], name: string}}\n";
                    let size = |name: &str| json!({"kind": "", "name": name});
                    let calls = [("a", size("-s0")), ("b", size("--size=0")), ("c", size("--size=0"))];
                    program(world, COMMANDS, &calls);
                    let report = world.run(&[".", "--approval", "approve_all"]);
                    report.ended(0)?;
                    for turn in 0..calls.len() {
                        let why = report.refusal(&format!("0/{turn}.0"))?;
                        must(why.contains("take it for an option"), why)?;
                    }
                    must(!world.project("rw/new").exists(), "ESCAPE: the file was made")?;
                    Ok(Outcome::Refused)
                },
            ),
            row(
                "an argument that is the name of an option (`-{letter}`, `--{name}`)",
                "a text can't be the name of an option: its author lists the choices",
                |world| {
                    for (word, value) in [("-{x}", "s0"), ("--{x}", "size=0"), ("-{x}{y}", "s")] {
                        let second = if word.contains("{y}") { ", y: integer" } else { "" };
                        let command = format!(
                            "      a: {{run: [truncate, '{word}', new], args: {{x: string{second}}}}}\n"
                        );
                        let arguments = match second {
                            "" => json!({"x": value}),
                            _ => json!({"x": value, "y": 0}),
                        };
                        program(world, &command, &[("a", arguments)]);
                        let report = world.run(&[".", "--approval", "approve_all"]);
                        must(
                            !world.project("rw/new").exists(),
                            format!("ESCAPE: {word}: the file was made"),
                        )?;
                        report.ended(2)?;
                        must(report.stderr.contains("name of an option"), report.stderr.clone())?;
                    }
                    let command = "      a: {run: [truncate, '-{x}', new], args: {x: [s0, s1]}}\n";
                    program(world, command, &[("a", json!({"x": "s0"}))]);
                    world.run(&["."]).ended(0)?;
                    must(world.project("rw/new").exists(), "the control: a choice makes the file")?;
                    Ok(Outcome::Refused)
                },
            ),
        ],
    }
}
