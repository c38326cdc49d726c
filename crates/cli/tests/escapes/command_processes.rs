//! Commands of a model as processes: their access to files, how they end, and the gate in whole runs.

use crate::{
    attempt::{
        Attempt, Escape, Group,
        Layer::{Commands, Gate, Launcher},
        Need, Outcome, Tried,
        Who::{Model, Process, Project},
        must,
    },
    binary::{RunReport, call},
    command_words::{Commander, NotRun},
    probe::{A, B},
    project_code,
    world::World,
};
use llm_do::confine::Confinement;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt, process};

const FREE: Confinement = Confinement::Unconfined;

/// A configuration that allows every command.
fn all() -> Value {
    json!({"default": {"approval_required": false}})
}

/// Approved commands, in both tiers and, as the control, unconfined.
fn approved(
    name: &'static str,
    mechanism: &'static str,
    prepare: fn(&World),
    commands: &'static [&'static str],
) -> Attempt {
    let attack = move |world: &World| {
        for command in commands {
            let control = World::new();
            prepare(&control);
            let did = run(&control, FREE, command)?;
            must(
                control.check_oracles().is_err(),
                format!("the control: `{command}` does nothing bad: {did}"),
            )?;
        }
        prepare(world);
        for tier in [A, B] {
            for command in commands {
                run(world, tier, command)?;
                world.check_files()?;
            }
        }
        Ok(Outcome::Refused)
    };
    Attempt::new(Process, Launcher, name, mechanism, attack).tier("A, B").needs(Need::Tiers)
}

/// Runs one command in the project's folder `rw`. Its exit code does not matter.
fn run(world: &World, tier: Confinement, command: &str) -> Result<Value, Escape> {
    let command = command.replace("{port}", &world.port().to_string());
    Ok(Commander::new(world, tier, &all()).approved(&json!({"command": command}))?)
}

/// Returns an attempt with a command that does not end by itself, in each tier.
fn ended(
    name: &'static str,
    mechanism: &'static str,
    outcome: Outcome,
    input: fn() -> Value,
    expected: fn(&Value) -> bool,
) -> Attempt {
    let attack = move |world: &World| {
        for tier in [A, B] {
            let configuration = json!({"default": {"approval_required": false}, "timeout": "2s"});
            let result = Commander::new(world, tier, &configuration).approved(&input())?;
            must(expected(&result), format!("{tier:?}: {result}"))?;
            world.check_oracles()?;
        }
        Ok(outcome.clone())
    };
    Attempt::new(Process, Launcher, name, mechanism, attack).tier("A, B").needs(Need::Tiers)
}

pub(crate) fn group() -> Group {
    let mut attempts = vec![
        approved(
            "arguments that lead outside: `..` and a link",
            "A: mount namespace; B: Landlock",
            with_program,
            &[
                "cat ../../outside/canary.txt",
                "cat way/canary.txt",
                "cp mine.txt ../../outside/new",
                "rm way/canary.txt",
            ],
        ),
        approved(
            "a script that the operator approved",
            "A: mount namespace; B: Landlock",
            with_program,
            &[
                "sh -c 'cat < ../../outside/canary.txt'",
                "sh -c 'echo x > ../../outside/new'",
                "find . -maxdepth 0 -exec touch ../../outside/new ';'",
            ],
        ),
        approved(
            "a program that the worker has written and the operator approved",
            "A: mount namespace; B: Landlock",
            with_program,
            &["./evil.sh"],
        ),
        approved(
            "a git repository that the worker has configured (`core.fsmonitor`)",
            "A: mount namespace; B: Landlock",
            with_git,
            &["git status"],
        )
        .needs(Need::Git),
        approved(
            "a socket (`/dev/tcp`)",
            "seccomp",
            with_program,
            &["bash -c 'echo x > /dev/tcp/127.0.0.1/{port}'"],
        ),
        ended(
            "a background process in its own session",
            "A: process namespace; B: the supervisor kills what is left",
            Outcome::Ended,
            || json!({"command": "sh -c 'setsid nohup sleep 1000 >/dev/null 2>&1 & echo left'"}),
            |result| result["stdout"] == "left\n",
        ),
        ended(
            "a process that ignores all signals but `SIGKILL`, with a timeout chosen by the model",
            "the timeout of the toolset",
            Outcome::Bounded,
            || json!({"command": "sh -c 'trap \"\" TERM INT HUP XCPU; while :; do sleep 1; done'", "timeout": 1e9}),
            |result| result["ended"] == "it ran for longer than 2 s and was ended",
        ),
        ended(
            "endless output",
            "a limit on the size of the output",
            Outcome::Bounded,
            || json!({"command": "sh -c 'yes; :'"}),
            |result| {
                result.get("ended").is_some()
                    && result["stdout"].as_str().is_some_and(|out| out.len() < 20_000)
            },
        ),
        hidden(),
        places(),
        Attempt::new(
            Model,
            Commands,
            "an option value outside the `sandbox_paths` of a rule",
            "all words of the command are checked",
            option_value,
        ),
    ];
    attempts.extend([
        Attempt::new(
            Model,
            Gate,
            "a denied command with other quotes and spaces",
            "rules match the normal form",
            denied,
        )
        .tier("A")
        .needs(Need::Tiers),
        Attempt::new(
            Model,
            Gate,
            "a dangerous argument under a rule that allows its program",
            "without a terminal, approvals are denied",
            dangerous,
        )
        .tier("A")
        .needs(Need::Tiers),
        Attempt::new(
            Project,
            Launcher,
            "reading variables of the operator (`GIT_*`, `LD_PRELOAD`, `PAGER`, keys)",
            "the environment is an allowlist",
            environment,
        )
        .tier("A")
        .needs(Need::Tiers),
    ]);
    Group {
        title: "Commands as processes",
        about: "The operator has approved the commands. The control runs the same command unconfined, where \
                it reaches its target outside. No process may be left.",
        attempts,
    }
}

fn executable(world: &World, path: &str, text: &str) {
    fs::set_permissions(world.put(path, text), fs::Permissions::from_mode(0o755)).unwrap();
}

fn with_program(world: &World) {
    executable(world, "rw/evil.sh", "#!/bin/sh\n: > ../../outside/new\n");
    std::os::unix::fs::symlink("../../outside", world.project("rw/way")).unwrap();
}

fn with_git(world: &World) {
    let git = |arguments: &[&str]| {
        let done =
            process::Command::new("git").args(arguments).current_dir(world.project("rw")).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&["config", "core.fsmonitor", "./evil.sh"]);
    executable(world, "rw/evil.sh", "#!/bin/sh\n: > ../../outside/new\n");
}

/// The whole project is mounted, with its hidden and protected files.
fn hidden() -> Attempt {
    const READ: &[&str] = &["cat .env", "sh -c 'cat < .llm-do/journal'", "grep -r canary- ."];
    const WRITTEN: &[&str] =
        &["cp notes/plan.md main.worker", "sh -c 'echo x >> .git/config'", "rm -rf .git"];
    let attack = |world: &World| {
        for command in READ.iter().chain(WRITTEN) {
            for tier in [FREE, A, B] {
                let own = World::new();
                let world = if tier == FREE { &own } else { world };
                let commander = Commander::with(world, world.whole(), tier, &all());
                let result = commander.approved(&json!({"command": command}))?;
                let out = world.check_files();
                if tier == FREE {
                    must(out.is_err(), format!("the control: `{command}` does nothing bad: {result}"))?;
                } else {
                    out?;
                }
            }
        }
        Ok(Outcome::Refused)
    };
    Attempt::new(
        Process,
        Launcher,
        "hidden and protected files of a mount",
        "A: mount namespace; B: Landlock",
        attack,
    )
    .tier("A, B")
    .needs(Need::Tiers)
}

/// A script inside the `sandbox_paths` of its rule that reads a path outside them.
fn places() -> Attempt {
    let attack = |world: &World| {
        let mine = world.project("rw/mine.txt");
        world.put("ro/look.sh", format!("cat '{}'\n", mine.display()));
        for tier in [A, B] {
            for places in [json!(["/ro"]), json!(["/"])] {
                let rule =
                    json!({"pattern": "sh /ro/look.sh", "approval_required": false, "sandbox_paths": places});
                let commander = Commander::new(world, tier, &json!({"rules": [rule]}));
                let result = match commander.run_without_approval("sh /ro/look.sh") {
                    Ok(result) => result,
                    Err(NotRun::Asked(why) | NotRun::Refused(why)) => {
                        return Err(Escape(format!("{places}: {why}")));
                    }
                };
                let got_there = result["stdout"] == "to be changed";
                let control = places == json!(["/"]);
                must(got_there == control, format!("{tier:?}, with {places}: {result}"))?;
            }
        }
        Ok(Outcome::Refused)
    };
    Attempt::new(
        Process,
        Launcher,
        "a path outside the `sandbox_paths` of a rule, not named by any argument",
        "a narrowed view of the process",
        attack,
    )
    .tier("A, B")
    .needs(Need::Tiers)
}

fn option_value(world: &World) -> Tried {
    let rule = json!({"pattern": "grep", "approval_required": false, "sandbox_paths": ["/ro"]});
    let commander = Commander::new(world, A, &json!({"rules": [rule]}));
    let control = commander.run_without_approval("grep -c read /ro/theirs.txt");
    must(
        matches!(control, Ok(ref result) if result["stdout"] == "1\n"),
        "the control: it does not run inside",
    )?;
    for command in [
        "grep --file=/mine.txt read /ro/theirs.txt",
        "grep -f/mine.txt read /ro/theirs.txt",
        "grep -f ./mine.txt read /ro/theirs.txt",
        "grep --exclude-from='/ro/../mine.txt' read /ro/theirs.txt",
        "grep \"\" /r'o'/../../project/.env",
    ] {
        match commander.run_without_approval(command) {
            Err(NotRun::Asked(why)) if why.contains("outside of its `sandbox_paths`") => {}
            Err(NotRun::Asked(why) | NotRun::Refused(why)) => {
                return Err(Escape(format!("{command}: {why}")));
            }
            Ok(result) => return Err(Escape(format!("ESCAPE: {command}: {result}"))),
        }
    }
    Ok(Outcome::Asks)
}

/// A project whose model runs these commands one after another.
fn project(world: &World, shell: &str, commands: &[&str]) {
    let worker = format!(
        "---\nmodel: script:script.json\ntoolsets: {{shell: {shell}}}\nsandbox: {{paths: {{rw: {{root: ./rw, mode: rw}}}}}}\n---\nGo.\n"
    );
    world.put("main.worker", worker);
    let calls = commands.iter().map(|command| call("shell", json!({"command": command}))).collect();
    world.script(&[("main", calls)]);
}

const DEFAULT: &str = "{default: {approval_required: false}}";

fn output(report: &RunReport, path: &str) -> Result<Value, Escape> {
    let text = report.ending(path)??;
    serde_json::from_str(&text).map_err(|error| Escape(format!("{error}: {text}")))
}

fn denied(world: &World) -> Tried {
    const COMMANDS: &[&str] =
        &["touch new", "t''ouch new", "\"touch\"  new", "t\\ouch\tnew", "tou\\\nch new", "  touch '' new"];
    project(world, DEFAULT, COMMANDS);
    let report = world.run(&[".", "--deny", "shell(touch *)"]);
    report.ended(0)?;
    for (turn, command) in COMMANDS.iter().enumerate() {
        let why = report.refusal(&format!("0/{turn}.0"))?;
        must(why.contains("blocked"), format!("{command:?}: {why}"))?;
    }
    must(!world.project("rw/new").exists(), "ESCAPE: the file was made")?;
    world.run(&["."]).ended(0)?;
    must(world.project("rw/new").exists(), "the control: without the rule no file is made")?;
    Ok(Outcome::Refused)
}

fn dangerous(world: &World) -> Tried {
    const RULES: &str =
        "{rules: [{pattern: find, approval_required: false}, {pattern: git, approval_required: false}]}";
    const COMMANDS: &[&str] = &[
        "find . -name mine.txt -delete",
        "find . -maxdepth 0 -'exec' rm mine.txt ';'",
        "git -c alias.x='!rm mine.txt' x",
    ];
    project(world, RULES, COMMANDS);
    let report = world.run(&["."]);
    report.ended(0)?;
    for turn in 0..COMMANDS.len() {
        let why = report.refusal(&format!("0/{turn}.0"))?;
        must(why.contains("needs an approval"), why)?;
    }
    must(world.project("rw/mine.txt").exists(), "ESCAPE: the file is gone")?;
    world.run(&[".", "--approval", "approve_all"]).ended(0)?;
    must(!world.project("rw/mine.txt").exists(), "the control: approved, it removes no file")?;
    Ok(Outcome::Refused)
}

fn environment(world: &World) -> Tried {
    // The dynamic loader of llm-do itself obeys `LD_PRELOAD` and `LD_AUDIT`, and reports values that it can't load.
    let loaded = |name: &str| ["LD_PRELOAD", "LD_AUDIT"].contains(&name);
    let names = [
        project_code::GIT,
        project_code::LOADER,
        project_code::PROGRAMS,
        project_code::SOCKETS,
        project_code::KEYS,
    ]
    .concat();
    project(world, DEFAULT, &["printenv", "cat /proc/self/environ"]);
    let mut command = world.command(&["."]);
    let value = |name: &str| if loaded(name) { "libm.so.6" } else { world.secret.as_str() };
    command.envs(names.iter().map(|name| (name, value(name))));
    let report = world.run_command(command);
    report.ended(0)?;
    for path in ["0/0.0", "0/1.0"] {
        let output = output(&report, path)?;
        let printed = output["stdout"].as_str().unwrap_or_default();
        must(printed.contains("PATH="), format!("the control: nothing is printed: {output}"))?;
        let given = names
            .iter()
            .find(|name| printed.split(['\n', '\0']).any(|line| line.starts_with(&format!("{name}="))));
        must(given.is_none(), format!("ESCAPE: {given:?} is given: {output}"))?;
    }
    Ok(Outcome::NotThere)
}
