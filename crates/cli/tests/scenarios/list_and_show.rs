//! `list` and `show`, and files that run without their project.

use crate::scenario::Scenario;
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::process::Command;

const SCRIPT: &str = "answers: [{text: Done.}]\n";

/// A project with workers in folders, a library, and settings at every layer.
fn project() -> Scenario {
    Scenario::new()
        .file(
            "project.yaml",
            "name: demo\nmodel: anthropic:claude-haiku-4-5\ndependencies: [utils]\nlimits: {max_turns: 10, timeout: 5m}\n\
             sandbox: {paths: {notes: ./notes}}\n",
        )
        .file(
            "main.worker",
            "---\ndescription: Starts.\nparameters: {topic: string}\nallow_workers: [reports/short, 'utils:judge']\n\
             toolsets: {filesystem: {tools: [read_file]}}\nlimits: {max_turns: 30}\n---\nWrite about {{ topic }}.\n",
        )
        .file("workers/reports/short.worker", "---\ndescription: Is brief.\nmodel: openai:gpt-5\n---\nBe brief.\n")
        .file("workers/reports/long.worker", "---\ntoolsets: {filesystem: {}}\n---\nBe long.\n")
        .file("workers/broken.worker", "---\nmode: [\n---\nX\n")
        .file("notes/a.txt", "a")
        .file("libs/utils/lib.yaml", "name: utils\nversion: 1.0.0\nexports: [judge]\n")
        .file("libs/utils/workers/judge.worker", "---\ndescription: Judges.\n---\nJudge.\n")
}

#[test]
fn list_names_an_unknown_provider() {
    let scenario = Scenario::new()
        .file("main.worker", "---\ndescription: Starts.\nmodel: opneai:gpt-5\n---\nX\n")
        .file("workers/ours.worker", "---\ndescription: Asks.\nmodel: ours:gpt-5\n---\nX\n")
        .file("project.yaml", "providers: {ours: {base_url: \"http://127.0.0.1:9/v1\", api: openai}}\n");
    let listed = scenario.run(&["list"]);
    assert!(listed.stdout.contains("main  main.worker:3:8: unknown provider `opneai`"), "{listed}");
    assert!(listed.stdout.contains("ours  Asks."), "{listed}");
    let listed: Value = serde_json::from_str(&scenario.run(&["list", "--json"]).stdout).expect("JSON");
    assert!(listed["workers"][0]["problem"].as_str().expect("a problem").contains("unknown provider"));
}

#[test]
fn list_names_a_file_that_runs_alone() {
    let scenario = Scenario::new().file("alone/hello.worker", "---\ndescription: Greets.\n---\nHi.\n");
    assert_snapshot!(scenario.run(&["list", "alone/hello.worker"]), @"
    exit 0
    --- stdout
    hello  Greets.
    ");
    assert!(scenario.run(&["list", "alone"]).stderr.contains("there are no workers here"));
}

#[test]
fn list_prints_the_program_as_a_tree() {
    let scenario = project();
    assert_snapshot!(scenario.run(&["list", "--lib", "libs"]), @r#"
    exit 0
    --- stdout
    broken     workers/broken.worker:2:7: invalid YAML: unclosed bracket '['
    main       Starts.
    reports/
    ├── long   workers/reports/long.worker
    └── short  Is brief.  openai:gpt-5
    utils:
    └── judge  Judges.
    "#);
    let listed = scenario.run(&["list", "--lib", "libs", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(listed["workers"][4]["id"], "utils:judge");
    assert_eq!(listed["workers"][2]["model"], Value::Null);
}

#[test]
fn show_prints_the_source_of_each_value() {
    let scenario = project();
    assert_snapshot!(scenario.run(&["show", "--lib", "libs"]), @r#"
    exit 0
    --- stdout
    main(topic: string)
    main.worker

    name: main                                   # default
    description: Starts.                         # main.worker:2
    model: anthropic:claude-haiku-4-5            # project.yaml:2
    mode: single                                 # default
    parameters: {topic: string}                  # main.worker:3
    toolsets:
      filesystem:
        tools: [read_file]                       # main.worker:5
      workers: {}                                # main.worker:4
    allow_workers: [reports/short, utils:judge]  # main.worker:4
    sandbox:
      paths:
        notes: {root: ./notes, mode: ro}         # project.yaml:5
    allow_empty_input: true                      # default
    interaction: none                            # default
    limits:
      max_turns: 10                              # project.yaml:4
      timeout: "5m"                              # project.yaml:4
      max_repeats: 5                             # default
      request_retries: 4                         # default
      output_retries: 2                          # default
    locked: false                                # default

    instructions at main.worker:8
    "#);
    // The output is YAML that can serve as front matter.
    assert_snapshot!(scenario.run(&["show", "reports/short", "--lib", "libs"]), @r#"
    exit 0
    --- stdout
    reports/short(input: any?)
    workers/reports/short.worker

    name: reports/short                   # default
    description: Is brief.                # workers/reports/short.worker:2
    model: openai:gpt-5                   # workers/reports/short.worker:3
    mode: single                          # default
    sandbox:
      paths:
        notes: {root: ./notes, mode: ro}  # project.yaml:5
    allow_empty_input: true               # default
    interaction: none                     # default
    limits:
      max_turns: 10                       # project.yaml:4
      timeout: "5m"                       # project.yaml:4
      max_repeats: 5                      # default
      request_retries: 4                  # default
      output_retries: 2                   # default
    locked: false                         # default

    instructions at workers/reports/short.worker:5
    "#);
    let shown = scenario.run(&["show", "utils:judge", "--lib", "libs", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_eq!((&shown["id"], &shown["pure"]), (&json!("utils:judge"), &json!(true)));
    assert_snapshot!(scenario.run(&["show", "nobody", "--lib", "libs"]), @r#"
    exit 2
    --- stderr
    error[E0305]: the entry `nobody` does not exist
     |
     = note: tried workers/nobody.worker, workers/nobody/worker.worker, workers/nobody.yaml, workers/nobody.yml
     = help: available workers: broken, main, reports/long, reports/short, utils:judge
    "#);
}

#[test]
fn show_prompt_prints_the_request_without_sending_it() {
    let scenario = project().file("script.yaml", SCRIPT);
    let shown =
        scenario.run(&["show", ".", "bees", "--lib", "libs", "--prompt", "--model", "script:script.yaml"]);
    assert_snapshot!(shown, @r#"
    exit 0
    --- stdout
    == model
    script:script.yaml

    == message
    Write about bees.

    == tools (3)
    read_file  Read a text file. A long file comes in pages: the end of a page says with which `offset` to read on. Binary files are described instead of shown.
      {"type":"object","properties":{"path":{"type":"string","minLength":1,"description":"Path of the file, for example `/notes/plan.md`"},"offset":{"type":"integer","minimum":0,"default":0,"description":"Characters to skip from the beginning"},"max_chars":{"type":"integer","minimum":1,"default":20000,"description":"Most characters to return"}},"required":["path"],"additionalProperties":false}
    reports__short  Is brief.
      {"type":"object","properties":{"input":{"description":"What to work on: text, or any JSON."},"instructions":{"type":"string","description":"Instructions beyond its own."},"attachments":{"type":"array","items":{"type":"string"},"description":"Paths of files to give it."}},"additionalProperties":false}
    utils__judge  Judges.
      {"type":"object","properties":{"input":{"description":"What to work on: text, or any JSON."},"instructions":{"type":"string","description":"Instructions beyond its own."},"attachments":{"type":"array","items":{"type":"string"},"description":"Paths of files to give it."}},"additionalProperties":false}
    "#);
    assert!(!scenario.project().join(".llm-do").exists(), "nothing ran");
    // No API key is needed.
    let shown =
        scenario.run(&["show", "main", "--prompt", "--param", "topic=bees", "--lib", "libs", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap_or_else(|_| panic!("{shown}"));
    assert_eq!(
        (&shown["model"], &shown["instructions"], &shown["message"][0]["text"]),
        (&json!("anthropic:claude-haiku-4-5"), &json!(""), &json!("Write about bees."))
    );
    assert_eq!(shown["tools"].as_array().map(Vec::len), Some(3));
}

#[test]
fn standalone_file_with_imports_runs_from_any_folder() {
    let scenario = Scenario::new()
        .file(
            "workers/start.worker",
            "---\nimports: {workers: [reports/short]}\nallow_workers: [reports/short]\n---\nStart.\n",
        )
        .file("workers/reports/short.worker", "---\n---\nBe brief.\n")
        // The surrounding project does not load.
        .file("project.yaml", "nonsense: [\n")
        .file(
            "script.yaml",
            "answers:\n\
             - {when: {worker: start, turn: 0}, calls: [{tool: reports__short, arguments: {input: hi}}]}\n\
             - {when: {worker: reports/short}, text: Brief.}\n\
             - {when: {worker: start, turn: 1}, text: All done.}\n",
        );
    let project = scenario.project();
    let file = project.join("workers/start.worker");
    let script = format!("script:{}", project.join("script.yaml").display());
    let words = [file.to_str().expect("UTF-8"), "go", "--no-project", "--model", &script];
    let here = scenario.run(&words);
    let mut elsewhere: Command = scenario.command(&words);
    let elsewhere =
        scenario.finished(elsewhere.current_dir(std::env::temp_dir()).output().expect("it starts"));
    assert_eq!((here.code, here.stdout.as_str()), (Some(0), "All done.\n"), "{here}");
    assert_eq!((elsewhere.code, elsewhere.stdout), (here.code, here.stdout), "{}", elsewhere.stderr);
    // With its project, the error is in the project.
    assert_eq!(scenario.run(&[file.to_str().expect("UTF-8"), "go"]).code, Some(2));
}

#[test]
fn show_prompt_needs_no_model() {
    let scenario =
        Scenario::new().file("main.worker", "---\nreturns: {mood: string}\n---\nGreet {{ input }}.\n");
    let told = scenario.run(&["show", "--prompt", "main", "Ada"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(told.stdout.contains("none chosen") && told.stdout.contains("Greet Ada."), "{told}");
    let told = scenario.run(&["show", "--prompt", "main", "Ada", "--json"]);
    let request: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert!(request["model"].is_null() && request["message"][0]["text"] == "Greet Ada.", "{told}");
}

/// Writes the user's configuration.
fn configured(scenario: Scenario, config: &str) -> Scenario {
    let home = scenario.home().join("home/.llm-do");
    std::fs::create_dir_all(&home).expect("a folder");
    std::fs::write(home.join("config.yaml"), config).expect("a file");
    scenario
}

#[test]
fn list_and_show_read_the_users_configuration_as_run_does() {
    let worker = "---\nmodel: mine:m\n---\nHi.\n";
    let plain = Scenario::new().file("main.worker", worker);
    for command in ["show", "check"] {
        let told = plain.run(&[command, "."]);
        assert!(format!("{}{}", told.stdout, told.stderr).contains("unknown provider `mine`"), "{told}");
    }
    let config = "limits: {max_turns: 7, timeout: 90s}\nproviders: {mine: {base_url: 'http://127.0.0.1:9/v1', api: openai}}\n";
    let scenario = configured(plain, config);
    let shown = scenario.run(&["show", "."]);
    assert_eq!(shown.code, Some(0), "{shown}");
    for line in ["max_turns: 7", "timeout: \"90000ms\"", "# the user's configuration"] {
        assert!(shown.stdout.contains(line), "`{line}` is missing: {shown}");
    }
    assert_eq!(scenario.run(&["list", "."]).code, Some(0));
    let wrong = configured(scenario, "limts: {}\n");
    for command in ["show", "list", "check"] {
        let told = wrong.run(&[command, "."]);
        assert_eq!(told.code, Some(2), "{command}: {told}");
        assert!(format!("{}{}", told.stdout, told.stderr).contains("unknown key `limts`"), "{told}");
    }
}

#[test]
fn show_says_that_overrides_do_not_reach_a_locked_worker() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\nlocked: true\n---\nHi.\n")
        .file("s.yaml", SCRIPT);
    let shown = scenario.run(&["show", "."]).stdout;
    assert!(shown.contains("locked: `--model` and `--set` do not apply to it"), "{shown}");
    let prompt = scenario.run(&["show", "--prompt", "--model", "openai:gpt-5", "."]);
    assert!(prompt.stderr.contains("--model does not apply to `main`, which is locked"), "{prompt}");
}
