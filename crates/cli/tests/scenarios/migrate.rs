//! Migration of older projects: the diff, the written files, the kept originals, and errors.

use crate::{scenario::Scenario, terminal_session::Session};
use insta::assert_snapshot;
use std::{fs, os::unix::fs::symlink, process::Command};

/// An older project: a program's manifest, a YAML worker with its prompt, an agent.
fn old() -> Scenario {
    Scenario::new()
        .file("program.yaml", "# The program.\nname: decks\ndelegation:\n  maxDepth: 2   # enough\n")
        .file(
            "main.agent",
            "---\nname: main\ntoolsets:\n  - filesystem_project\n  - evaluator   # the other one\n  - charts\n---\nEvaluate all decks.\n",
        )
        .file(
            "workers/evaluator.yaml",
            "name: evaluator\ndescription: Evaluates one deck.\ntool_rules:\n  sandbox.write: {allowed: true, approval_required: true}\n",
        )
        .file("prompts/evaluator.jinja2", "Evaluate {{ input }}.\n")
        .file("notes.txt", "kept\n")
}

fn listing(scenario: &Scenario) -> String {
    let out = Command::new("find")
        .args([".", "-type", "f"])
        .current_dir(scenario.project())
        .output()
        .expect("find");
    let mut lines: Vec<String> = String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn migrate_without_write_shows_a_diff_and_changes_nothing() {
    let scenario = old();
    let before = listing(&scenario);
    assert_snapshot!(scenario.run(&["migrate"]), @"
    exit 0
    --- stdout
    diff --git a/main.agent b/main.worker
    rename from main.agent
    rename to main.worker
    --- a/main.agent
    +++ b/main.worker
    @@ -1,8 +1,10 @@
     ---
     name: main
     toolsets:
    -  - filesystem_project
    -  - evaluator   # the other one
    -  - charts
    +  filesystem: {}
    +  workers:
    +    allowed_workers: [evaluator]
    +x-not-carried-over:
    +  toolsets.charts: {}
     ---
     Evaluate all decks.
    diff --git a/program.yaml b/project.yaml
    rename from program.yaml
    rename to project.yaml
    --- a/program.yaml
    +++ b/project.yaml
    @@ -1,4 +1,4 @@
     # The program.
     name: decks
     delegation:
    -  maxDepth: 2   # enough
    +  max_depth: 2   # enough
    diff --git a/workers/evaluator.yaml b/workers/evaluator.worker
    rename from workers/evaluator.yaml
    rename to workers/evaluator.worker
    --- a/workers/evaluator.yaml
    +++ b/workers/evaluator.worker
    @@ -1,4 +1,10 @@
    +---
     name: evaluator
     description: Evaluates one deck.
    -tool_rules:
    -  sandbox.write: {allowed: true, approval_required: true}
    +sandbox:
    +  approval:
    +    write: ask
    +toolsets:
    +  filesystem: {}
    +---
    +Evaluate {{ input }}.
    diff --git a/prompts/evaluator.jinja2 b/prompts/evaluator.jinja2
    deleted file mode 100644
    --- a/prompts/evaluator.jinja2
    +++ /dev/null
    @@ -1 +0,0 @@
    -Evaluate {{ input }}.

    --- stderr
    warning: main.agent:6: the toolset `charts` can't be carried over, and is kept under `x-not-carried-over`: if it is Python code, put its functions into tools.py and name them under `custom`
    note: main.agent:5: a comment was not kept: # the other one
    note: workers/evaluator.yaml:1: now has the toolset `filesystem`: a sandbox used to include its tools
    found workers in YAML files, program.yaml, .agent files, older toolsets, older keys
    1 thing needs a look: see the warnings above
    3 files would be written; nothing has been
    next: llm-do migrate --write
    ");
    assert_eq!(listing(&scenario), before);
}

#[test]
fn migrate_write_keeps_the_originals() {
    let scenario = old();
    let before = scenario.read("main.agent");
    assert_snapshot!(scenario.run(&["migrate", ".", "--write"]), @"
    exit 0
    --- stderr
    warning: main.agent:6: the toolset `charts` can't be carried over, and is kept under `x-not-carried-over`: if it is Python code, put its functions into tools.py and name them under `custom`
    note: main.agent:5: a comment was not kept: # the other one
    note: workers/evaluator.yaml:1: now has the toolset `filesystem`: a sandbox used to include its tools
    found workers in YAML files, program.yaml, .agent files, older toolsets, older keys
    1 thing needs a look: see the warnings above
    wrote 3 files; the originals are in .llm-do-migrated
    next: llm-do check .
    ");
    assert_snapshot!(listing(&scenario), @"
    ./.llm-do-migrated/main.agent
    ./.llm-do-migrated/program.yaml
    ./.llm-do-migrated/prompts/evaluator.jinja2
    ./.llm-do-migrated/workers/evaluator.yaml
    ./main.worker
    ./notes.txt
    ./project.yaml
    ./workers/evaluator.worker
    ");
    assert_eq!(scenario.read(".llm-do-migrated/main.agent"), before);
    // The tools of `charts` are gone, so that the project is not reported as correct.
    let told = scenario.run(&["check", "."]);
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), "found 1 warning\n"), "{told}");
    assert!(told.stdout.contains("W0503"), "{told}");
    let told = scenario.run(&["migrate", "--write"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), ""), "{told}");
    assert!(told.stderr.ends_with("canonical already: nothing to migrate\n"), "{told}");
    assert!(!scenario.project().join(".llm-do-migrated-2").exists());
}

#[test]
fn second_migration_keeps_its_originals_separately() {
    let scenario = old();
    scenario.run(&["migrate", "--write"]);
    let scenario = scenario.file("workers/late.yaml", "name: late\ndescription: x\ninstructions: Hi\n");
    let told = scenario.run(&["migrate", "--write"]);
    assert!(told.stderr.contains(".llm-do-migrated-2"), "{told}");
    assert!(scenario.read(".llm-do-migrated-2/workers/late.yaml").is_some());
    assert!(scenario.read(".llm-do-migrated/main.agent").is_some());
}

#[test]
fn git_applies_the_diff() {
    let (shown, written) = (old(), old());
    let diff = shown.run(&["migrate"]).stdout;
    fs::write(shown.project().join("../the.diff"), diff).expect("a file");
    let git = |arguments: &[&str]| {
        let out = Command::new("git").args(arguments).current_dir(shown.project()).output().expect("git");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    };
    git(&["apply", "--unsafe-paths", "../the.diff"]);
    written.run(&["migrate", "--write"]);
    fs::remove_dir_all(written.project().join(".llm-do-migrated")).expect("the originals");
    assert_eq!(listing(&shown), listing(&written));
    for path in ["main.worker", "project.yaml", "workers/evaluator.worker"] {
        assert_eq!(shown.read(path), written.read(path), "{path}");
    }
}

#[test]
fn registry_is_migrated_to_another_folder() {
    let scenario = Scenario::new()
        .file("home/workers/greeter.worker", "---\nname: greeter\ndescription: Greets.\n---\nGreet.\n")
        .file("home/workers/sum.yaml", "name: sum\ndescription: Sums up.\ninstructions: Sum up.\n")
        .file("home/workers/deep/worker.worker", "---\n---\nDeep.\n")
        .file("home/workers/deep/data.txt", "d");
    let registry = "home/workers";
    let before = listing(&scenario);
    let told = scenario.run(&["migrate", registry, "--write"]);
    assert_snapshot!(told, @"
    exit 2
    --- stderr
    error: `home/workers` is a registry, in which runs find workers by name: it stays, and the project is made elsewhere
    hint: llm-do migrate home/workers --into my-workers --write
    ");
    assert_eq!(listing(&scenario), before);
    assert_snapshot!(scenario.run(&["migrate", registry, "--into", "mine", "--write"]), @"
    exit 0
    --- stderr
    note: main.worker: is new: a project needs an entry, and this one hands requests on; `--entry NAME` starts another
    found a flat registry, workers in YAML files
    wrote 5 files in mine; home/workers is as it was
    next: llm-do check mine
    ");
    assert_snapshot!(listing(&scenario), @"
    ./home/workers/deep/data.txt
    ./home/workers/deep/worker.worker
    ./home/workers/greeter.worker
    ./home/workers/sum.yaml
    ./mine/main.worker
    ./mine/workers/deep/data.txt
    ./mine/workers/deep/worker.worker
    ./mine/workers/greeter.worker
    ./mine/workers/sum.worker
    ");
    assert!(scenario.run(&["check", "mine"]).stderr.starts_with("nothing is wrong\n"));
    let told = scenario.run(&["migrate", registry, "--into", "mine", "--write"]);
    assert!(told.code == Some(2) && told.stderr.contains("already exists"), "{told}");
}

#[test]
fn links_to_outside_are_not_followed() {
    let scenario = Scenario::new()
        .file("main.agent", "---\nname: main\ntoolsets: [helper]\n---\nHi\n")
        .file("helper.agent", "---\nname: helper\n---\nHelp\n")
        .file("../outside/secret.agent", "---\nname: secret\n---\nSecret\n");
    symlink("../outside", scenario.project().join("workers")).expect("a link");
    symlink("../outside/secret.agent", scenario.project().join("stolen.agent")).expect("a link");
    let told = scenario.run(&["migrate", "--write"]);
    assert_snapshot!(told, @"
    exit 0
    --- stderr
    warning: helper.agent: is left as it is: it would become workers/helper.worker, but workers is in the way
    warning: main.agent:3: the toolset `helper` can't be carried over, and is kept under `x-not-carried-over`: if it is Python code, put its functions into tools.py and name them under `custom`
    warning: stolen.agent: is a symbolic link or a device, and is left alone
    warning: workers: is a symbolic link or a device, and is left alone
    found .agent files, older toolsets
    4 things need a look: see the warnings above
    wrote 1 file; the originals are in .llm-do-migrated
    next: llm-do check .
    ");
    let outside: Vec<_> = fs::read_dir(scenario.project().join("../outside")).expect("it").collect();
    assert_eq!(outside.len(), 1, "nothing was written there");
    assert!(scenario.project().join("stolen.agent").is_symlink());
    assert!(scenario.read("helper.agent").is_some());
}

#[test]
fn folder_without_a_program_is_an_error() {
    let scenario = Scenario::new().file("readme.md", "hi");
    assert_snapshot!(scenario.run(&["migrate"]), @"
    exit 2
    --- stderr
    error: `.`: nothing here looks like workers or a project, old or new
    hint: workers are files that end in .worker, .agent or .yaml; manifests are project.yaml, program.yaml, workshop.yaml or golem-forge.config.yaml
    ");
    assert_eq!(scenario.run(&["migrate", "missing"]).code, Some(2));
    assert_eq!(scenario.run(&["migrate", "readme.md"]).code, Some(2));
}

#[test]
fn single_file_is_migrated_in_place() {
    let scenario =
        Scenario::new().file("lib/x.agent", "---\nname: x\nmaxContextTokens: ~\ntoolsets: []\n---\nHi\n");
    let told = scenario.run(&["migrate", "lib/x.agent", "--write"]);
    assert_snapshot!(told, @"
    exit 0
    --- stderr
    found .agent files, older toolsets, older keys
    wrote 1 file; the originals are in lib/.llm-do-migrated
    next: llm-do check lib/x.worker
    ");
    assert_snapshot!(scenario.read("lib/x.worker").expect("it"), @"
    ---
    name: x
    max_context_tokens: ~
    toolsets: {}
    ---
    Hi
    ");
    assert!(scenario.read("lib/.llm-do-migrated/x.agent").is_some());
}

#[test]
fn json_output_contains_the_plan() {
    let told = old().run(&["migrate", "--json"]);
    let plan: serde_json::Value = serde_json::from_str(&told.stdout).expect("one object");
    assert_eq!((&plan["written"], &plan["originals"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!(plan["changes"][0]["from"], "main.agent");
    assert_eq!(plan["absorbed"][0]["file"], "prompts/evaluator.jinja2");
    assert_eq!(plan["notes"][0]["severity"], "warning");
}

#[test]
fn terminal_diff_has_colours_and_no_control_characters() {
    let scenario = Scenario::new().file("x.agent", "---\nname: x\ntoolsets: []\n---\nevil \u{1b}[2J text\n");
    let mut session =
        Session::start(scenario.command_on_terminal(&["migrate", "x.agent", "--color", "always"]));
    session.expect("evil \\x1b[2J text");
    session.expect("next:");
    assert_eq!(session.end().0, Some(0));
    let told = scenario.run(&["migrate", "x.agent", "--color", "always"]);
    assert!(told.stdout.contains("\u{1b}[32m+toolsets: {}\u{1b}[0m"), "{told}");
}

#[test]
fn older_manifest_is_refused_until_it_is_migrated() {
    for (name, text) in [
        ("golem-forge.config.yaml", "sandbox: {readonly: true, shell: [npm]}\n"),
        ("program.yaml", "limits: {maxTurns: 1}\ndelegation: {concurrency: 3}\n"),
        ("program.yml", "limits: {maxTurns: 1}\n"),
        ("workshop.yaml", "workshop: {sandbox: {readonly: true}}\n"),
        ("project.json", "{\"entry\": {}, \"runtime\": {\"max_depth\": 1}}\n"),
    ] {
        let scenario = Scenario::new()
            .file(name, text)
            .file("main.worker", "---\nmodel: script:s.yaml\n---\nGo.\n")
            .file("s.yaml", "answers: [{text: done}]\n")
            .file("workers/a.worker", "---\nmodel: script:s.yaml\n---\nGo.\n");
        for arguments in [&["run", "."][..], &["check", "."], &["run", "workers/a.worker"], &["run", name]] {
            let told = scenario.run(arguments);
            assert_eq!(told.code, Some(2), "{told}");
            assert!(told.to_string().contains(&format!("`{name}` is an older manifest")), "{told}");
            assert!(told.to_string().contains("llm-do migrate"), "{told}");
        }
        assert_eq!(scenario.run(&["migrate", "--write"]).code, Some(0));
        assert_eq!(scenario.run(&["run", "."]).code, Some(0));
    }
    // Another program's file of this name.
    let scenario = Scenario::new()
        .file("program.yaml", "name: Conference\ntalks: []\n")
        .file("main.worker", "---\nmodel: script:s.yaml\n---\nGo.\n")
        .file("s.yaml", "answers: [{text: done}]\n");
    assert_eq!(scenario.run(&["."]).code, Some(0));
}

#[test]
fn older_manifest_whose_keys_mean_the_same_is_read() {
    for (name, text) in [
        ("golem-forge.config.yaml", "model: script:s.yaml\nsandbox: {root: files, readonly: true}\n"),
        (
            "program.yaml",
            "model: script:s.yaml\nsandbox: {root: files, readonly: true}\nlimits: {maxTurns: 3}\n",
        ),
        (
            "workshop.yaml",
            "model: script:s.yaml\nsandbox: {root: files}\napproval: {tools: {write_file: blocked}}\n",
        ),
    ] {
        let scenario = Scenario::new()
            .file(name, text)
            .file("files/a.txt", "kept")
            .file("main.worker", "---\ntoolsets: {filesystem: {}}\n---\nWrite.\n")
            .file(
                "s.yaml",
                "answers:\n- when: {turn: 0}\n  calls: [{tool: write_file, arguments: {path: a.txt, content: x}}]\n- text: done\n",
            );
        let told = scenario.run(&["check", "."]);
        assert_eq!(told.code, Some(0), "{told}");
        let told = scenario.run(&[".", "Go.", "--approval", "approve_all"]);
        assert_eq!((told.code, told.stdout.trim()), (Some(0), "done"), "{told}");
        assert_eq!(scenario.read("files/a.txt").as_deref(), Some("kept"), "{name} restricts the run");
    }
    let refused = Scenario::new()
        .file("golem-forge.config.yaml", "model: script:s.yaml\nsandbox: {shell: [npm]}\n")
        .file("main.worker", "Go.\n")
        .run(&["check", "."]);
    assert!(refused.stdout.contains("unknown key `shell` in `sandbox`"), "{refused}");
    assert!(refused.stdout.contains("golem-forge.config.yaml:2:11"), "{refused}");
}

#[test]
fn refusals_that_migrate_cures_name_it() {
    let scenario = Scenario::new()
        .file(
            "main.worker",
            "---\ntoolsets:\n  filesystem_rw: {}\n  delegation: {math: {}, stile: both}\n  charts: {}\nmodle: x\n---\nCall worker_call.\n",
        );
    let told = scenario.run(&["check", "."]);
    let cured = |told: &str| told.matches("this is an older form, which `llm-do migrate` converts").count();
    assert_eq!((told.code, cured(&told.stdout)), (Some(2), 3), "{told}");
    assert!(told.stdout.contains("unknown key `math` in `toolsets.delegation`"), "{told}");
    for uncured in ["unknown toolset `charts`", "unknown key `modle`"] {
        let finding = told.stdout.split("\n\n").find(|finding| finding.contains(uncured));
        assert_eq!(finding.map(cured), Some(0), "{told}");
    }
    let told = scenario.run(&["migrate", "--write"]);
    assert!(told.stderr.contains("main.worker: the prompt mentions `worker_call`"), "{told}");
    let told = scenario.run(&["check", "."]);
    assert!(told.stdout.contains("W0503"), "{told}");
}

#[test]
fn older_approvals_of_file_tools_hold() {
    let worker = |more: &str| {
        format!("---\nmodel: script:s.yaml\nsandbox: {{paths: {{out: {{root: ./out, mode: rw{more}}}}}}}\n")
    };
    let script = "answers:\n  - {when: {turn: 0}, calls: [{tool: write_file, arguments: {path: /out/a, content: x}}]}\n  - {text: done}\n";
    let refused = |head: String, toolset: &str| {
        let scenario = Scenario::new()
            .file("main.worker", &format!("{head}toolsets: {{filesystem: {{{toolset}}}}}\n---\nGo.\n"))
            .file("out/.keep", "")
            .file("s.yaml", script);
        let told = scenario.run(&["."]);
        assert_eq!(told.code, Some(0), "{told}");
        scenario.read("out/a").is_none()
    };
    assert!(refused(worker(""), ""));
    assert!(!refused(worker(""), "write_approval: false"));
    assert!(refused(worker(""), "write_approval: true, approval: {default: preApproved}"));
    assert!(!refused(worker(", write_approval: false"), ""));
    assert!(refused(worker(", write_approval: true"), "approval: {default: preApproved}"));
}

#[test]
fn a_folder_that_does_not_exist_is_said_to_be_missing() {
    let told = Scenario::new().run(&["migrate", "old-project"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("`old-project` can't be opened: it does not exist"), "{told}");
}
