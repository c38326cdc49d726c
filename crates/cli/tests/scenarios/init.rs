//! New projects: their files, the output of `init`, and that each project runs.

use crate::scenario::Scenario;
use insta::assert_snapshot;
use std::fs;

const NO_WRITING: &[&str] = &["--approval", "auto_deny"];

#[test]
fn init_prints_the_project_and_the_next_command() {
    let scenario = Scenario::new();
    assert_snapshot!(scenario.run(&["init", "my-notes"]), @r#"
    exit 0
    --- stderr
    made my-notes/
      AGENTS.md
      main.worker
      input/
      output/
    needs: a model that calls tools: a hosted one, or a local one of at least 4 billion parameters
    next: llm-do my-notes "What is in my files?"
    "#);
    assert_snapshot!(scenario.run(&["init", "my-texts", "--template", "pipeline"]), @"
    exit 0
    --- stderr
    made my-texts/
      AGENTS.md
      main.worker
      project.yaml
      input/
        lighthouse.txt
      output/
      workers/
        stage_1.worker
        stage_2.worker
        stage_3.worker
    needs: a model that calls tools: a hosted one, or a local one of at least 4 billion parameters
    next: llm-do my-texts
    ");
    assert_snapshot!(scenario.run(&["init", "list", "--template", "research-agent"]), @r#"
    exit 0
    --- stderr
    made list/
      AGENTS.md
      main.worker
      project.yaml
      output/
      sources/
        2024-survey.txt
        angler-letter.txt
        council-minutes.txt
      templates/
        rules.jinja
      workers/
        critic.worker
        reader.worker
    needs: a model that calls tools: a hosted one, or a local one of at least 4 billion parameters
    next: llm-do ./list "Why has the river become warmer?"
    "#);
    let others: Vec<String> = fs::read_dir(scenario.project())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert!(others.is_empty(), "nothing temporary is left: {others:?}");
}

#[test]
fn templates_pass_check_without_findings() {
    let scenario = Scenario::new();
    for template in ["minimal", "pipeline", "research-agent"] {
        assert_eq!(scenario.run(&["-q", "init", template, "--template", template]).to_string(), "exit 0\n");
        let told = scenario.run(&["check", template]);
        assert_eq!((told.code, told.stdout.as_str()), (Some(0), ""), "{told}");
        assert!(told.stderr.starts_with("nothing is wrong\n"), "{told}");
    }
}

#[test]
fn minimal_template_reads_and_writes() {
    let scenario = Scenario::new().file(
        "script.yaml",
        "answers:\n  - when: {turn: 0}\n    calls: [{tool: list_files, arguments: {path: /input}}]\n  \
         - when: {turn: 1}\n    calls: [{tool: read_file, arguments: {path: /input/a.txt}}]\n  \
         - when: {turn: 2}\n    calls: [{tool: write_file, arguments: {path: /output/b.txt, content: found}}]\n  \
         - text: It says bees; see /output/b.txt.\n",
    );
    scenario.run(&["init", "notes"]);
    let scenario = scenario.file("notes/input/a.txt", "bees\n");
    let told =
        scenario.run(&[&["notes", "What is there?", "--model", "script:script.yaml"], NO_WRITING].concat());
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "It says bees; see /output/b.txt.\n"), "{told}");
    assert_eq!(scenario.read("notes/output/b.txt").as_deref(), Some("found"));
}

#[test]
fn pipeline_template_runs_all_stages() {
    let facts = "[\"The lens was ground in 1881.\", \"The stairs have 139 steps.\"]";
    let scenario = Scenario::new().file(
        "script.yaml",
        &format!(
            "answers:\n  - when: {{worker: main, turn: 0}}\n    calls: [{{tool: list_files, arguments: {{path: /input}}}}]\n  \
             - when: {{worker: main, turn: 1}}\n    calls: [{{tool: read_file, arguments: {{path: /input/lighthouse.txt}}}}]\n  \
             - when: {{worker: main, turn: 2, last: Skarvik}}\n    calls: [{{tool: stage_1, arguments: {{text: '{{{{ last }}}}'}}}}]\n  \
             - when: {{worker: main, turn: 3, last: '1881'}}\n    calls: [{{tool: stage_2, arguments: {{facts: {facts}}}}}]\n  \
             - when: {{worker: main, turn: 4}}\n    calls: [{{tool: stage_3, arguments: {{facts: {facts}, draft: Ground in 1880.}}}}]\n  \
             - when: {{worker: main, turn: 5}}\n    calls: [{{tool: write_file, arguments: {{path: /output/lighthouse.md, content: \"# The Lens\\nGround in 1881.\\n\"}}}}]\n  \
             - when: {{worker: main, turn: 6}}\n    text: 'lighthouse.md: 1 correction'\n  \
             - when: {{worker: stage_1}}\n    json: {{facts: {facts}}}\n  \
             - when: {{worker: stage_2}}\n    json: {{title: The Lens, draft: Ground in 1880.}}\n  \
             - when: {{worker: stage_3}}\n    json: {{article: Ground in 1881., corrections: ['1880 to 1881']}}\n"
        ),
    );
    scenario.run(&["init", "texts", "--template", "pipeline"]);
    let told = scenario.run(&[&["texts", "--model", "script:script.yaml"], NO_WRITING].concat());
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "lighthouse.md: 1 correction\n"), "{told}");
    assert_eq!(scenario.read("texts/output/lighthouse.md").as_deref(), Some("# The Lens\nGround in 1881.\n"));
}

#[test]
fn researcher_template_delegates_and_returns_its_schema() {
    let scenario = Scenario::new().file(
        "script.yaml",
        "answers:\n  - when: {worker: main, turn: 0}\n    calls: [{tool: search_files, arguments: {pattern: temperature, path: /sources}}]\n  \
         - when: {worker: main, turn: 1}\n    calls:\n      \
         - {tool: reader, arguments: {question: Why?, document: /sources/2024-survey.txt}}\n      \
         - {tool: reader, arguments: {question: Why?, document: /sources/council-minutes.txt}}\n  \
         - when: {worker: main, turn: 2}\n    calls: [{tool: critic, arguments: {question: Why?, answer: The alders were felled., findings: [felled in 2017]}}]\n  \
         - when: {worker: main, turn: 3}\n    calls: [{tool: write_file, arguments: {path: /output/report.md, content: The alders were felled.}}]\n  \
         - when: {worker: main, turn: 4}\n    json: {answer: The alders were felled., confidence: medium, sources: [2024-survey.txt], open_questions: [], report: /output/report.md}\n  \
         - when: {worker: reader, turn: 0}\n    calls: [{tool: read_file, arguments: {path: /document}}]\n  \
         - when: {worker: reader, last: felled}\n    json: {relevant: true, findings: [{claim: The trees are gone., quote: the alders were felled in 2017}]}\n  \
         - when: {worker: reader, last: council}\n    json: {relevant: false, findings: []}\n  \
         - when: {worker: critic}\n    json: {supported: true, objections: []}\n",
    );
    scenario.run(&["init", "river", "--template", "research-agent"]);
    let told = scenario.run(
        &[&["river", "Why has it become warmer?", "--model", "script:script.yaml", "--json"], NO_WRITING]
            .concat(),
    );
    let report: serde_json::Value = serde_json::from_str(&told.stdout).expect("one object");
    assert_eq!((told.code, &report["output"]["confidence"]), (Some(0), &"medium".into()), "{told}");
    assert_eq!(report["refused"], 0, "{report:#}");
    assert_eq!(scenario.read("river/output/report.md").as_deref(), Some("The alders were felled."));
}

#[test]
fn invalid_project_name_gets_a_suggestion() {
    let scenario = Scenario::new();
    assert_snapshot!(scenario.run(&["init", "My Project"]), @"
    exit 2
    --- stderr
    error: `My Project` is not a project's name: it has small letters, digits and single hyphens, starts with a letter, and is at most 64 characters long
    hint: llm-do init my-project
    ");
    assert_snapshot!(scenario.run(&["init", "deep/My_Project"]), @"
    exit 2
    --- stderr
    error: `My_Project` is not a project's name: it has small letters, digits and single hyphens, starts with a letter, and is at most 64 characters long
    hint: llm-do init deep/my-project
    ");
    assert_snapshot!(scenario.run(&["init", "größe"]), @"
    exit 2
    --- stderr
    error: `größe` is not a project's name: it has small letters, digits and single hyphens, starts with a letter, and is at most 64 characters long
    hint: for example: llm-do init my-project
    ");
    assert_snapshot!(scenario.run(&["init", "missing/project"]), @"
    exit 2
    --- stderr
    error: there is no folder `missing`
    hint: mkdir -p missing
    ");
    for name in ["..", "/", "a/..", "", "-x", "a\u{1b}[2J"] {
        let told = scenario.run(&["init", "--", name]);
        assert_eq!(told.code, Some(2), "{name}: {told}");
        assert!(!told.stderr.contains('\u{1b}'), "{told}");
    }
    assert_eq!(fs::read_dir(scenario.project()).expect("the folder").count(), 0);
}

#[test]
fn init_overwrites_no_file() {
    let scenario = Scenario::new().file("full/a.txt", "a").file("file", "f");
    fs::create_dir(scenario.project().join("empty")).expect("a folder");
    std::os::unix::fs::symlink("nowhere", scenario.project().join("link")).expect("a link");
    assert_snapshot!(scenario.run(&["init", "full"]), @"
    exit 2
    --- stderr
    error: `full` already exists: a folder that holds a.txt
    hint: nothing is overwritten: take another name, or make it of the empty folder that you are in: llm-do init .
    ");
    for name in ["file", "empty", "link"] {
        let told = scenario.run(&["init", name]);
        assert!(told.code == Some(2) && told.stderr.contains("already exists"), "{told}");
    }
    assert_snapshot!(scenario.run(&["init", "."]), @"
    exit 2
    --- stderr
    error: the current folder is not empty: it holds empty, file, full and 1 more
    hint: llm-do init overwrites nothing: make the project in a new folder, llm-do init NAME
    ");
    assert_eq!(scenario.read("full/a.txt").as_deref(), Some("a"));
}

#[test]
fn dot_initialises_the_current_folder() {
    let scenario = Scenario::new();
    fs::create_dir(scenario.project().join(".git")).expect("a folder");
    assert_snapshot!(scenario.run(&["init", ".", "--template", "pipeline"]), @"
    exit 0
    --- stderr
    made ./
      main.worker
      project.yaml
      input/
        lighthouse.txt
      output/
      workers/
        stage_1.worker
        stage_2.worker
        stage_3.worker
    needs: a model that calls tools: a hosted one, or a local one of at least 4 billion parameters
    next: llm-do .
    ");
    assert!(scenario.read("project.yaml").expect("a manifest").contains("\nname: project\n"));
    assert_eq!(scenario.run(&["check"]).code, Some(0));
    assert_eq!(scenario.run(&["init", "."]).code, Some(2));
}

#[test]
fn init_lists_templates() {
    let scenario = Scenario::new();
    assert_snapshot!(scenario.run(&["init", "--list-templates"]), @"
    exit 0
    --- stdout
    minimal         one worker with a folder to read and a folder to write
    pipeline        an orchestrator that passes each text through three typed stages
    research-agent  a researcher that has documents read and its answer checked by other workers
    typescript      a worker with tools in TypeScript
    ");
    let told = scenario.run(&["init", "--list-templates", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(list["templates"][1]["name"], "pipeline");
    let told = scenario.run(&["init", "x", "--template", "pipelin"]);
    assert!(told.code == Some(2) && told.stderr.contains("pipeline"), "{told}");
    let told = scenario.run(&["init", "made", "--json"]);
    let made: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(made["files"], serde_json::json!(["input/.gitkeep", "main.worker", "output/.gitkeep"]));
}
