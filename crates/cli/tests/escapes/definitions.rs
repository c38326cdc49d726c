//! Attacks on the files that define a program, and files that are planted for other programs or for a later run.

use crate::{
    attempt::{
        Attempt, Group,
        Layer::{Files, Launcher, Loader},
        Need, Outcome, Tried,
        Who::{Model, Process, Project},
        must,
    },
    binary::call,
    world::World,
};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink};

const APPROVED: &[&str] = &[".", "--approval", "approve_all"];

pub(crate) fn group() -> Group {
    Group {
        title: "Files that define the program, and planted files",
        about: "Runs of the binary, in which all calls are approved. What a process must not create and the kernel can't \
                prevent is looked for when the process has ended, and shown to the operator. The control writes a file \
                beside the protected one.",
        attempts: vec![
            Attempt::new(
                Model,
                Files,
                "rewriting each file that was loaded, wherever it lies",
                "every file that loading read is protected",
                |world| rewritten_by_model(world, LOADED),
            ),
            Attempt::new(
                Model,
                Files,
                "creating files that would be loaded later",
                "every place that loading looks at is protected",
                |world| rewritten_by_model(world, LOADED_LATER),
            ),
            Attempt::new(
                Model,
                Files,
                "rewriting what a worker refers to that only a pattern allows",
                "all workers that a run may call are read before the first file is touched",
                referred_to,
            ),
            Attempt::new(
                Model,
                Loader,
                "writing a worker and calling it by a pattern",
                "all workers that a run may call are read before the first file is touched",
                written_worker,
            ),
            Attempt::new(
                Model,
                Files,
                "rewriting a file that decides about the run: a script of answers, the set of a rule",
                "such files are protected wherever they are",
                deciding_files,
            ),
            Attempt::new(
                Process,
                Launcher,
                "making files that define the program where there were none, by a command",
                "mounts are scanned when the process has ended, and such files are renamed",
                made_by_command,
            )
            .needs(Need::Tiers)
            .tier("A"),
            Attempt::new(
                Process,
                Launcher,
                "making a worker, a template and a module while a Python tool runs",
                "the program has the files that it had when it was loaded; before its code starts again, others are renamed",
                made_by_tool,
            )
            .needs(Need::Tiers)
            .needs(Need::Python)
            .tier("A"),
            Attempt::new(
                Process,
                Launcher,
                "rewriting each file that was loaded, by a command",
                "such files are mounted read-only",
                rewritten_by_command,
            )
            .needs(Need::Tiers)
            .tier("A"),
            Attempt::new(
                Model,
                Files,
                "writing into a bare repository, or building one",
                "`HEAD`, `objects` and `refs` make a folder protected",
                bare_repository,
            ),
            Attempt::new(
                Process,
                Launcher,
                "writing files that editors and build services execute",
                "such files are mounted read-only",
                executed,
            )
            .needs(Need::Tiers)
            .tier("A"),
            Attempt::new(
                Process,
                Launcher,
                "planting a `.git`, a worker and other special names, by a command",
                "mounts are scanned when the process has ended",
                planted_by_command,
            )
            .needs(Need::Tiers)
            .tier("A"),
            Attempt::new(
                Process,
                Launcher,
                "moving a folder with a `.git` file away and creating another, by a Python tool",
                "mounts are scanned when the process has ended; files are compared by inode",
                planted_by_tool,
            )
            .needs(Need::Tiers)
            .needs(Need::Python)
            .tier("A"),
            Attempt::new(
                Project,
                Loader,
                "a list of unfinished moves in a cloned project (`.llm-do/moves.json`)",
                "the list is sealed with the user's key",
                moves,
            ),
        ],
    }
}

/// A project whose definitions lie in unusual places.
fn project(world: &World) {
    for (path, text) in [
        (
            "main.worker",
            "---\nmodel: script:script.json\nschema_out_ref: ./shapes/answer.json\ntoolsets: {filesystem: {}, custom: {}, \
             delegation: {allow_workers: [./helpers/second]}, shell: {default: {approval_required: false}}}\n\
             sandbox: {root: .}\n---\n{% include 'parts/rules.txt' %}\n",
        ),
        ("parts/rules.txt", "Be kind."),
        ("shapes/answer.json", "{\"type\": \"string\"}"),
        ("helpers/second.yaml", "name: helpers/second\nmodel: script:script.json\ninstructions: Go.\n"),
        ("tools.py", "import helper\nimport package.part\n\ndef ok() -> str:\n    return helper.text\n"),
        ("helper.py", "text = 'ok'\n"),
        ("package/__init__.py", ""),
        ("package/part.py", ""),
        (".venv/pyvenv.cfg", "home = /usr/bin\n"),
        ("deep/site/x.pth", ""),
        ("helpers/second.cases.yaml", "cases: []\n"),
        ("helpers/second.recorded/a.jsonl", ""),
        ("uv.toml", ""),
    ] {
        world.put(path, text);
    }
    let _ = fs::remove_file(world.project(".venv/pyvenv.cfg"));
}

const LOADED: &[&str] = &[
    "parts/rules.txt",
    "shapes/answer.json",
    "helpers/second.yaml",
    "helpers/second.cases.yaml",
    "helpers/second.recorded/a.jsonl",
    "tools.py",
    "helper.py",
    "HELPER.PY",
    "package/__init__.py",
    "package/part.py",
    "deep/site/x.pth",
    "uv.toml",
];
const LOADED_LATER: &[&str] = &[
    "sub/golem-forge.config.yaml",
    "sub/program.yaml",
    "sub/workshop.yaml",
    "helpers/tools.py",
    "helpers/tools/new.py",
    "helpers/templates/new.jinja",
    "new.py",
    "requests/__init__.py",
    "fast.cpython-312-x86_64-linux-gnu.so",
    "new.pth",
    "deep/new.cases.yaml",
    ".venv/lib/python3/site-packages/new.py",
    "sub/pyvenv.cfg",
    "pyproject.toml",
    ".hg/hgrc",
];
/// Ordinary files beside them.
const ORDINARY: &[&str] =
    &["parts/notes.txt", "deep/new.py", "deep/package/__init__.py", "helpers/notes.yaml"];

fn rewritten_by_model(world: &World, paths: &[&str]) -> Tried {
    project(world);
    let write = |path: &&str| call("write_file", json!({"path": path, "content": "planted"}));
    let calls: Vec<Value> = paths.iter().chain(ORDINARY).map(write).collect();
    world.script(&[("main", calls)]);
    let before: Vec<String> = paths.iter().map(|path| world.text(path)).collect();
    let report = world.run(APPROVED);
    report.ended(0)?;
    for (turn, (path, before)) in paths.iter().zip(before).enumerate() {
        let why = report.refusal(&format!("0/{turn}.0"))?;
        must(world.text(path) == before, format!("ESCAPE: {path} was written: {why}"))?;
        must(why.contains("read-only"), format!("{path}: {why}"))?;
    }
    for path in ORDINARY {
        must(world.text(path) == "planted", format!("the control: {path} is not written: {report:?}"))?;
    }
    Ok(Outcome::Refused)
}

/// Makes workers that only patterns allow, and the files outside the folder of workers that they refer to.
fn by_patterns(world: &World) {
    for (path, text) in [
        (
            "main.worker",
            "---\nmodel: script:script.json\ntoolsets: {filesystem: {}}\nallow_workers: ['jobs/*', './helpers/*']\n\
             sandbox: {root: .}\n---\nGo.\n",
        ),
        (
            "workers/jobs/report.worker",
            "---\nmodel: script:script.json\nschema_out_ref: ./answer.json\n---\nGo.\n",
        ),
        ("workers/jobs/answer.json", "{\"$ref\": \"../../shapes/real.json\"}"),
        ("shapes/real.json", "{\"type\": \"string\", \"maxLength\": 10}"),
        (
            "helpers/third.worker",
            "---\nmodel: script:script.json\n---\n{% include 'rules.txt' %}{% include 'more.txt' ignore missing %}\n",
        ),
        ("helpers/rules.txt", "Be kind."),
    ] {
        world.put(path, text);
    }
}

fn delegate(worker: &str) -> Value {
    call("worker_call", json!({"worker": worker, "input_data": "go"}))
}

fn referred_to(world: &World) -> Tried {
    by_patterns(world);
    let write = |path: &str| call("write_file", json!({"path": path, "content": "planted"}));
    let paths = ["shapes/real.json", "helpers/rules.txt", "helpers/more.txt", "helpers/templates/rules.txt"];
    let calls = paths.iter().chain(&["helpers/notes.txt"]).map(|path| write(path));
    let calls = calls.chain([delegate("./helpers/third")]).collect();
    world.script(&[("main", calls)]);
    let before = paths.map(|path| world.text(path));
    let report = world.run(APPROVED);
    report.ended(0)?;
    for (turn, (path, before)) in paths.iter().zip(before).enumerate() {
        let why = report.refusal(&format!("0/{turn}.0"))?;
        must(world.text(path) == before, format!("ESCAPE: {path} was written: {why}"))?;
        must(why.contains("read-only"), format!("{path}: {why}"))?;
    }
    must(world.text("helpers/notes.txt") == "planted", format!("the control: {report:?}"))?;
    must(report.ending("0/5.0")??.contains("done"), format!("the control: {report:?}"))?;
    Ok(Outcome::Refused)
}

fn written_worker(world: &World) -> Tried {
    by_patterns(world);
    world.put(
        "main.worker",
        "---\nmodel: script:script.json\ntoolsets: {filesystem: {}}\nallow_workers: ['*']\nsandbox: {root: .}\n---\nGo.\n",
    );
    let evil = "model: script:script.json\ninstructions: Go.\n";
    let write = call("write_file", json!({"path": "notes/evil.yaml", "content": evil}));
    world.script(&[("main", vec![write, delegate("./notes/evil"), delegate("./helpers/third")])]);
    let report = world.run(APPROVED);
    report.ended(0)?;
    must(world.text("notes/evil.yaml") == evil, format!("the control: it is not written: {report:?}"))?;
    let why = report.refusal("0/1.0")?;
    must(why.contains("this run has no worker `notes/evil`"), why.clone())?;
    must(report.ending("0/2.0")??.contains("done"), format!("the control: {report:?}"))?;
    Ok(Outcome::Refused)
}

fn deciding_files(world: &World) -> Tried {
    world.put(
        "main.worker",
        "---\nmodel: script:answers/script.json\ntoolsets: {filesystem: {}}\nsandbox: {root: .}\n---\nGo.\n",
    );
    world.put("answers/people.json", "[\"a@corp.example\"]");
    symlink("people.json", world.project("answers/linked.json")).unwrap();
    let home = world.top.join("home/.llm-do");
    fs::create_dir_all(&home).unwrap();
    fs::write(
        home.join("config.yaml"),
        format!(
            "approval: {{rules: [{{tool: write_file, when: {{args.content: {{in: \"@{}\"}}}}, then: preApproved}}]}}\n",
            world.project("answers/users.json").display()
        ),
    )
    .unwrap();
    world.put("answers/users.json", "[\"b@corp.example\"]");
    let write = |path: &str| call("write_file", json!({"path": path, "content": "[\"evil@example.org\"]"}));
    let paths = ["answers/script.json", "answers/people.json", "answers/linked.json", "answers/users.json"];
    world.script(&[("main", paths.iter().chain(&["answers/other.json"]).map(|path| write(path)).collect())]);
    fs::rename(world.project("script.json"), world.project("answers/script.json")).unwrap();
    let before = paths.map(|path| world.text(path));
    let rule = "write_file where content in @answers/linked.json";
    let report = world.run(&[".", "--approval", "approve_all", "--allow", rule]);
    report.ended(0)?;
    for (turn, (path, before)) in paths.iter().zip(before).enumerate() {
        let why = report.refusal(&format!("0/{turn}.0"))?;
        must(world.text(path) == before, format!("ESCAPE: {path} was written: {why}"))?;
    }
    must(world.text("answers/other.json").contains("evil"), format!("the control: {report:?}"))?;
    Ok(Outcome::Refused)
}

/// Files that the program would read from there if they existed: a worker that a pattern allows, templates, tools, a
/// manifest.
const MADE: &[&str] =
    &["workers/evil.worker", "templates/rules.txt", "tools.py", "evil.worker", "project.yaml"];

fn made_by_command(world: &World) -> Tried {
    world.put("rules.txt", "Be kind.");
    world.put(
        "main.worker",
        "---\nmodel: script:script.json\ntoolsets: {shell: {default: {approval_required: false}}}\n\
         allow_workers: ['*']\nsandbox: {root: .}\n---\n{% include 'rules.txt' %}\n",
    );
    let worker = "printf -- '---\\nmodel: script:script.json\\n---\\nEvil.\\n' >";
    let command = format!(
        "mkdir workers templates; echo Evil > templates/rules.txt; echo x > tools.py; echo 'name: x' > project.yaml; \
         {worker} workers/evil.worker; {worker} evil.worker; echo x > ordinary.txt; printf 'model: script:script.json\\ninstructions: Evil.\\n' > notes.yaml"
    );
    let command = call("shell", json!({"command": format!("sh -c \"{command}\"")}));
    world.script(&[("main", vec![command, delegate("evil"), delegate("./evil"), delegate("./notes")])]);
    let report = world.run(APPROVED);
    report.ended(0)?;
    must(world.project("ordinary.txt").exists(), format!("the control: {report:?}"))?;
    for path in MADE {
        must(!world.project(path).exists(), format!("ESCAPE: {path} is there: {report:?}"))?;
    }
    for path in ["workers", "templates", "tools.py", "evil.worker", "project.yaml"] {
        let shown = format!("`{}` appeared", world.project(path).display());
        must(report.stderr.contains(&shown), format!("ESCAPE: {path} is not shown: {report:?}"))?;
        must(
            world.project(&format!("{path}.set-aside")).exists(),
            format!("{path} is not renamed: {report:?}"),
        )?;
    }
    for path in ["0/1.0", "0/2.0", "0/3.0"] {
        report.refusal(path)?;
    }
    // Nor has it an effect on the next run.
    world.script(&[("main", vec![delegate("evil")])]);
    let next = world.run(APPROVED);
    next.ended(0)?;
    next.refusal("0/0.0")?;
    must(next.all().contains("Be kind") && !next.all().contains("Evil"), format!("ESCAPE: {next:?}"))?;
    Ok(Outcome::Refused)
}

fn made_by_tool(world: &World) -> Tried {
    world.put("helpers/rules.txt", "Be kind.");
    world.put(
        "main.worker",
        "---\nmodel: script:script.json\ntoolsets: [custom]\nallow_workers: ['*']\nsandbox: {paths: {all: {root: ., mode: rw}}}\n---\nGo.\n",
    );
    world.put(
        "workers/second.worker",
        "---\nmodel: script:script.json\ntoolsets: [custom]\nsandbox: {paths: {ro: {root: ./ro}}}\n---\n{% include 'rules.txt' %}\n",
    );
    world.put("prompts/rules.txt", "Be kind.");
    world.put(
        "tools.py",
        "import os\n\ntry:\n    import surely_absent\nexcept ImportError:\n    surely_absent = None\n\n\
         def plant(root: str) -> str:\n    os.chdir(root)\n    os.mkdir('templates')\n    open('templates/rules.txt', 'w').write('Evil')\n    \
         open('evil.worker', 'w').write('---\\nmodel: script:script.json\\n---\\nEvil.\\n')\n    \
         open('surely_absent.py', 'w').write('x = 1')\n    return 'planted'\n\n\
         def imported() -> str:\n    return 'ESCAPED' if surely_absent else 'absent'\n",
    );
    let root = world.project("").display().to_string();
    world.script(&[
        ("main", vec![call("plant", json!({"root": root})), delegate("./evil"), delegate("second")]),
        ("second", vec![call("imported", json!({}))]),
    ]);
    let report = world.run(APPROVED);
    report.ended(0)?;
    must(report.ending("0/0.0")?? == "planted", format!("the control: {report:?}"))?;
    report.refusal("0/1.0")?;
    let imported = report.journal.iter().find(|record| record["function"] == "imported");
    let path = imported.and_then(|record| record["path"].as_str()).unwrap_or_default();
    must(report.ending(path)?? == "absent", format!("ESCAPE: the module is imported: {report:?}"))?;
    let system = report.journal.iter().filter(|record| record["kind"] == "conversation_started");
    must(system.clone().count() == 2, format!("the control: {report:?}"))?;
    must(!system.map(Value::to_string).any(|it| it.contains("Evil")), format!("ESCAPE: {report:?}"))?;
    for path in ["templates", "evil.worker", "surely_absent.py"] {
        must(
            world.project(&format!("{path}.set-aside")).exists(),
            format!("ESCAPE: {path} is left: {report:?}"),
        )?;
    }
    Ok(Outcome::Refused)
}

fn rewritten_by_command(world: &World) -> Tried {
    project(world);
    let paths = || LOADED.iter().filter(|path| **path != "HELPER.PY");
    let append = |path: &&str| call("shell", json!({"command": format!("sh -c 'echo planted >> {path}'")}));
    let replace = |path: &&str| call("shell", json!({"command": format!("mv -f rw/mine.txt {path}")}));
    let calls: Vec<Value> =
        paths().chain(&["parts/notes.txt"]).map(append).chain(paths().map(replace)).collect();
    world.script(&[("main", calls)]);
    let before: Vec<String> = paths().map(|path| world.text(path)).collect();
    let report = world.run(APPROVED);
    report.ended(0)?;
    for (path, before) in paths().zip(before) {
        must(world.text(path) == before, format!("ESCAPE: {path} was written: {report:?}"))?;
    }
    must(world.text("parts/notes.txt") == "planted\n", format!("the control: {report:?}"))?;
    Ok(Outcome::Refused)
}

fn bare_repository(world: &World) -> Tried {
    for file in ["HEAD", "config", "objects/x", "refs/x", "hooks/x"] {
        world.put(&format!(".bare/{file}"), "theirs");
        world.put(&format!("ordinary/{file}"), "theirs");
    }
    fs::remove_file(world.project("ordinary/HEAD")).unwrap();
    world.put("linked/HEAD", "ref: refs/heads/x");
    let whole = world.whole();
    let write = |path: &str| world.tool(&whole, "write_file", &json!({"path": path, "content": "planted"}));
    let paths = [".bare/config", ".bare/hooks/new", "ordinary/HEAD", "ordinary/head", "linked/commondir"];
    for path in paths {
        must(write(path).is_err(), format!("ESCAPE: {path} was written"))?;
    }
    let moved =
        world.tool(&whole, "move", &json!({"source": "ordinary/config", "destination": "ordinary/HEAD"}));
    must(moved.is_err(), "ESCAPE: a file was moved to HEAD")?;
    must(world.text(".bare/config") == "theirs", "ESCAPE: its settings have changed")?;
    let control = [write("ordinary/config"), write("HEAD"), write("linked/config")];
    must(control.iter().all(Result::is_ok), format!("the control: {control:?}"))?;
    // A file tool can't complete it, whichever part is the last one.
    must(write("objects/x").is_ok() && write("refs/x").is_err(), "ESCAPE: the project became a repository")?;
    Ok(Outcome::Refused)
}

fn commands(world: &World, sandbox: &str, commands: &[&str]) {
    world.put(
        "main.worker",
        format!(
            "---\nmodel: script:script.json\ntoolsets: {{shell: {{default: {{approval_required: false}}}}}}\n\
             sandbox: {sandbox}\n---\nGo.\n"
        ),
    );
    let calls = commands.iter().map(|command| call("shell", json!({"command": command}))).collect();
    world.script(&[("main", calls)]);
}

const RW: &str = "{paths: {rw: {root: ./rw, mode: rw}}}";

fn executed(world: &World) -> Tried {
    let files = [".vscode/tasks.json", ".github/workflows/a.yml", ".husky/pre-commit", ".idea/x.xml"];
    for file in files {
        world.put(&format!("rw/{file}"), "theirs");
    }
    commands(
        world,
        RW,
        &[
            "sh -c 'for f in .vscode/tasks.json .vscode/new .github/workflows/a.yml .husky/pre-commit .idea/x.xml; do \
             echo planted > $f; done'",
            "sh -c 'echo planted > mine.txt'",
        ],
    );
    let report = world.run(APPROVED);
    report.ended(0)?;
    for file in files {
        must(world.text(&format!("rw/{file}")) == "theirs", format!("ESCAPE: {file}: {report:?}"))?;
    }
    must(!world.project("rw/.vscode/new").exists(), "ESCAPE: a new task of the editor")?;
    must(world.text("rw/mine.txt") == "planted\n", format!("the control: {report:?}"))?;
    Ok(Outcome::Refused)
}

fn planted_by_command(world: &World) -> Tried {
    let names = [".git", "new.worker", ".hg", ".vscode", "bare", "link.worker", ".envrc"];
    commands(
        world,
        RW,
        &[
            "sh -c 'mkdir -p .git/hooks .hg .vscode bare/objects bare/refs; echo x > .git/config; echo x > new.worker; echo x > bare/HEAD; ln -s mine.txt link.worker; echo x > .envrc'",
            "sh -c 'echo x > ordinary.txt'",
        ],
    );
    let report = world.run(APPROVED);
    report.ended(0)?;
    let first = report.ending("0/0.0")??;
    for name in names {
        let shown = format!("`{}` appeared", world.project("rw").join(name).display());
        must(report.stderr.contains(&shown), format!("ESCAPE: {name} is not shown: {report:?}"))?;
        must(first.contains(&shown), format!("{name} is not in the result: {first}"))?;
    }
    must(!report.all().contains("ordinary.txt` appeared"), "the control: every file is shown")?;
    let second = report.ending("0/1.0")??;
    must(!second.contains("planted"), format!("the control: it is shown again: {second}"))?;
    // A later run knows it.
    world.script(&[("main", vec![call("shell", json!({"command": "true"}))])]);
    let report = world.run(APPROVED);
    must(!report.stderr.contains("appeared"), format!("the control: nothing new: {report:?}"))?;
    Ok(Outcome::Shown)
}

fn planted_by_tool(world: &World) -> Tried {
    world.put("rw/sub/.git", "gitdir: ../../.git/modules/sub\n");
    world.put(
        "tools.py",
        "import os\n\ndef plant() -> str:\n    os.rename('rw/sub', 'rw/away')\n    os.makedirs('rw/sub/.git')\n    open('rw/sub/.git/config', 'w').write('[core]')\n    return 'planted'\n",
    );
    world.put(
        "main.worker",
        format!("---\nmodel: script:script.json\ntoolsets: [custom]\nsandbox: {RW}\n---\nGo.\n"),
    );
    world.script(&[("main", vec![call("plant", json!({}))])]);
    let report = world.run(APPROVED);
    report.ended(0)?;
    must(
        report.ending("0/0.0")?? == "planted",
        format!("it is refused now; change the outcome: {report:?}"),
    )?;
    for (path, what) in [("sub/.git", "was replaced"), ("away/.git", "appeared")] {
        let shown = format!("`{}` {what}", world.project("rw").join(path).display());
        must(report.stderr.contains(&shown), format!("ESCAPE: {path} is not shown: {report:?}"))?;
        must(report.journal.iter().any(|record| record.to_string().contains(what)), "it is not recorded")?;
    }
    Ok(Outcome::Shown)
}

fn moves(world: &World) -> Tried {
    world.put("payload", "#!/bin/sh\n");
    world.put("old.worker", "---\nname: old\n---\nGo.\n");
    let list = json!([["payload", ".git/hooks/pre-commit"]]);
    for text in [list.to_string(), json!({"moves": list}).to_string()] {
        world.put(".llm-do/moves.json", text);
        for arguments in [&["migrate", ".", "--write"][..], &["init", "."]] {
            let report = world.run(arguments);
            must(report.code == Some(1), format!("ESCAPE: {arguments:?}: {report:?}"))?;
            must(report.stderr.contains("was not written by your llm-do"), format!("{report:?}"))?;
        }
        must(world.project("payload").exists(), "ESCAPE: it was moved")?;
    }
    // A link in the place of the list.
    fs::remove_file(world.project(".llm-do/moves.json")).unwrap();
    symlink(world.outside("canary.txt"), world.project(".llm-do/moves.json")).unwrap();
    must(world.run(&["migrate", ".", "--write"]).code == Some(1), "ESCAPE: a link was read")?;
    fs::remove_file(world.project(".llm-do/moves.json")).unwrap();
    let control = world.run(&["migrate", ".", "--write"]);
    must(control.code != Some(1), format!("the control: {control:?}"))?;
    Ok(Outcome::Refused)
}
