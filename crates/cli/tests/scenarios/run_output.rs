//! Runs with a scripted model: stdout, stderr, the journal and exit codes (docs/reference/commands.md).

use crate::scenario::{Scenario, lines, page_shows};
use insta::assert_snapshot;
use std::{fs::File, process::Stdio};

const GREETER: &str = "---\nmodel: script:script.yaml\n---\nGreet whoever is named.\n";

fn greeter() -> Scenario {
    Scenario::new().file("greeter.worker", GREETER).file(
        "script.yaml",
        "answers:\n  - text: \"Hello, {{ last }}!\"\n    usage: {input_tokens: 12, output_tokens: 4}\n",
    )
}

#[test]
fn stdout_holds_only_the_result() {
    let told = greeter().run(&["greeter.worker", "Ada"]);
    assert_eq!(told.stdout, "Hello, Ada!\n");
    assert_snapshot!(told, @"
    exit 0
    --- stdout
    Hello, Ada!
    ");
}

#[test]
fn message_can_come_from_stdin() {
    let told = greeter().run_with_stdin(&["greeter.worker"], "Grace\n");
    assert_snapshot!(told, @"
    exit 0
    --- stdout
    Hello, Grace!
    ");
}

#[test]
fn piped_text_beside_a_message_follows_it() {
    let scenario = Scenario::new()
        .file(
            "w.worker",
            "---\nmodel: script:s.yaml\nparameters: {text: string, n: integer?}\n---\nSum up.\n",
        )
        .file("s.yaml", "answers:\n  - text: done\n");
    let input = |arguments: &[&str], stdin: &str| {
        let told = scenario.run_with_stdin(&[&["w.worker"], arguments].concat(), stdin);
        assert_eq!(told.code, Some(0), "{arguments:?}: {told}");
        (scenario.journal_of_home()[1]["input"]["text"].as_str().expect("a text").to_owned(), told)
    };
    for message in [&["summarise"][..], &["-m", "summarise"]] {
        let (text, told) = input(message, "one\ntwo\n");
        assert_eq!(text, "summarise\n\none\ntwo");
        assert!(told.stderr.contains("the text on standard input (7 bytes) follows the message"), "{told}");
        assert_eq!(input(message, "").0, "summarise");
    }
    for message in [&["-"][..], &["-m", "-"], &["--", "-"]] {
        assert_eq!(input(message, "one\ntwo\n").0, "one\ntwo");
    }
    assert_eq!(scenario.run(&["w.worker", "-"]).code, Some(2), "there is nothing");
    let told = scenario.run_with_stdin(&["w.worker", "--input", "{\"text\": \"x\"}"], "one\n");
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("--attach FILE"), "{told}");
}

#[test]
fn input_can_be_json_a_file_stdin_or_parameters() {
    let scenario = Scenario::new()
        .file("x.worker", "---\nmodel: script:s.yaml\nparameters: {n: integer, name: string}\n---\nHi {{ name }} {{ n }}.\n")
        .file("s.yaml", "answers:\n  - text: ok\n")
        .file("in.json", "{\"n\": 2, \"name\": \"Ada\"}");
    let hi = "Hi Ada 2.";
    for arguments in [
        &["--input", "{\"n\": 2, \"name\": \"Ada\"}"][..],
        &["--input", "@in.json"],
        &["--input", "-"],
        &["--param", "n=2", "--param", "name=Ada"],
        &["--param", "n=2", "-m", "Ada"],
    ] {
        let piped = if arguments.contains(&"-") { "{\"n\": 2, \"name\": \"Ada\"}" } else { "" };
        let told = scenario.run_with_stdin(&[&["x.worker"], arguments].concat(), piped);
        assert_eq!(told.code, Some(0), "{arguments:?} {told}");
        let journal = scenario.journal_of_home();
        let sent =
            journal.iter().find(|record| record["kind"] == "conversation_started").expect("a conversation");
        assert_eq!(sent["message"]["parts"][0]["text"], hi, "{arguments:?} {sent}");
    }
    let told = scenario.run(&["x.worker", "--param", "n=two", "--param", "name=Ada"]);
    assert_eq!(told.code, Some(2), "{told}");
}

#[test]
fn quiet_prints_only_the_result_and_errors() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nWrite.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {last: fail}\n    error: {status: 400, message: no}\n  - text: ok\n",
        );
    let told = scenario.run(&["-q", ".", "go"]);
    assert_eq!((told.stdout.as_str(), told.stderr.as_str()), ("ok\n", ""));
    let told = scenario.run(&["-q", ".", "fail"]);
    assert!(told.code == Some(1) && told.stderr.contains("error: "), "{told}");
}

#[test]
fn json_output_is_one_report() {
    let told = greeter().run(&["greeter.worker", "Ada", "--json"]);
    let mut report: serde_json::Value = serde_json::from_str(&told.stdout).expect("one object");
    report["took_ms"] = 0.into();
    assert_snapshot!(format!("{report:#}"), @r#"
    {
      "run": "[RUN]",
      "status": "done",
      "output": "Hello, Ada!",
      "error": null,
      "usage": {
        "input_tokens": 12,
        "output_tokens": 4
      },
      "took_ms": 0,
      "requests": 1,
      "tools": 0,
      "refused": 0,
      "unoffered": 0,
      "limits": 0,
      "notes": []
    }
    "#);
    assert_eq!(told.code, Some(0));
}

#[test]
fn json_output_counts_calls_that_were_not_offered() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nWrite.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: a}}]\n  - text: done\n",
        );
    let told = scenario.run(&[".", "--approval", "auto_deny", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&told.stdout).expect("one object");
    assert_eq!((&report["status"], &report["refused"]), (&"done".into(), &0.into()), "{report}");
    assert_eq!(report["unoffered"], 1, "{report}");
}

#[test]
fn a_model_that_repeats_an_unknown_call_is_stopped() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\n---\nWork.\n")
        .file("s.yaml", "answers: [{calls: [{tool: nosuch}]}]\n");
    let told = scenario.run(&[".", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&told.stdout).expect("one object");
    assert_eq!((told.code, &report["requests"]), (Some(4), &8.into()), "{told}");
    assert!(
        told.stderr.contains("the model called `nosuch` over and over with the same arguments"),
        "{told}"
    );
}

#[test]
fn stream_json_holds_every_record() {
    let scenario = greeter();
    let told = scenario.run(&["greeter.worker", "Ada", "--output", "stream-json"]);
    let events = lines(&told.stdout);
    assert_eq!(events[0]["record"]["kind"], "run_started");
    assert_eq!(events.last().expect("an event")["record"]["kind"], "run_ended");
    assert!(
        events.iter().any(|event| event["event"] == "delta" && event["delta"] == "text"),
        "{}",
        told.stdout
    );
    assert_eq!(told.stderr, "");
}

#[test]
fn typed_output_is_compact_json_in_a_pipe() {
    let scenario = Scenario::new()
        .file("x.worker", "---\nmodel: script:s.yaml\nreturns: {name: string, age: integer}\n---\nExtract.\n")
        .file("s.yaml", "answers:\n  - json: {name: Ada, age: 36}\n");
    assert_snapshot!(scenario.run(&["x.worker", "Ada is 36"]), @r#"
    exit 0
    --- stdout
    {"name":"Ada","age":36}
    "#);
}

#[test]
fn failed_run_prints_the_reason_and_a_hint() {
    let scenario = Scenario::new()
        .file("x.worker", "---\nmodel: script:s.yaml\n---\nAnswer.\n")
        .file("s.yaml", "answers:\n  - error: {status: 401, message: the key is wrong}\n");
    assert_snapshot!(scenario.run(&["x.worker", "hi"]), @"
    exit 1
    --- stderr
    error: script:s.yaml: the key is wrong
    hint: `llm-do runs show [RUN]` shows what it did
    ");
}

#[test]
fn without_a_terminal_approvals_are_refused_and_counted() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nWrite.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls:\n      - {tool: write_file, arguments: {path: a.txt, content: a}}\n      \
             - {tool: write_file, arguments: {path: out/b.txt, content: b}}\n  - text: could not\n",
        );
    assert_snapshot!(scenario.run(&[".", "--allow", "write_file(out/**)"]), @"
    exit 0
    --- stdout
    could not

    --- stderr
    note: no terminal to ask on: calls that need an approval are refused (`--allow RULE` lets some run, `--approval defer` stops the run until they are decided)
    warning: 1 call was refused
    ");
    assert_eq!(scenario.read("a.txt"), None);
    assert_eq!(scenario.read("out/b.txt").as_deref(), Some("b"));
}

#[test]
fn program_that_needs_more_than_its_folder_needs_a_grant() {
    let scenario = Scenario::new()
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\nsandbox: {paths: {etc: /etc}}\ntoolsets: [filesystem]\n---\nRead.\n",
        )
        .file("s.yaml", "answers:\n  - text: done\n");
    assert_snapshot!(scenario.run(&["."]), @"
    exit 3
    --- stderr
    error: the program asks for more than its own folder:
      to read /etc (asked for at main.worker:3)
    hint: if you trust it with that, run it again with --grant /etc:ro
    ");
    assert_eq!(scenario.run(&[".", "--grant", "/etc:ro"]).code, Some(0));
}

#[test]
fn deferred_call_suspends_the_run() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nWrite.\n")
        .file("s.yaml", "answers:\n  - calls: [{tool: write_file, arguments: {path: a.txt, content: a}}]\n");
    assert_snapshot!(scenario.run(&[".", "--approval", "defer"]), @r#"
    exit 5
    --- stderr
    suspended: the run waits for 1 approval:
      0/0.0  main wants to call write_file {"path":"a.txt","content":"a"}
    hint: decide with `llm-do runs resume [RUN] --approve 0/0.0` or `--deny 0/0.0`
    "#);
    assert_eq!(scenario.read("a.txt"), None);
}

#[test]
fn limit_exits_with_4_and_refused_entry_with_3() {
    let scenario = Scenario::new()
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\nlimits: {max_turns: 2}\n---\nList.\n",
        )
        .file("s.yaml", "answers:\n  - calls: [{tool: list_files}]\n");
    assert_snapshot!(scenario.run(&["."]), @"
    exit 4
    --- stderr
    note: no terminal to ask on: calls that need an approval are refused (`--allow RULE` lets some run, `--approval defer` stops the run until they are decided)
    error: `main` used all of its 2 model turns without finishing
    hint: `llm-do runs show [RUN]` shows what it did
    ");
    assert_eq!(scenario.run(&[".", "--deny", "main"]).code, Some(3));
}

#[test]
fn missing_model_error_names_the_environment_variables() {
    let scenario = Scenario::new().file("x.worker", "---\n---\nHi.\n");
    let told = scenario.run(&["x.worker", "hello"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("_API_KEY"), "{told}");
}

#[test]
fn closed_stdout_ends_the_run_quietly() {
    let scenario = greeter();
    let mut command = scenario.command(&["greeter.worker", "Ada", "--output", "stream-json"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    drop(child.stdout.take());
    let told = scenario.finished(child.wait_with_output().expect("it ends"));
    assert_eq!(told.stderr, "", "{told}");
}

#[test]
fn json_output_reports_errors() {
    let scenario = greeter().file("bad.worker", "---\nmodle: x\n---\nHi.\n");
    let told = scenario.run(&["bad.worker", "x", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&told.stdout).expect("one object");
    assert_eq!((told.code, &report["status"]), (Some(2), &"not_started".into()));
    assert_eq!(report["diagnostics"][0]["code"], "E0201");
    let told = scenario.run(&["greeter.worker", "x", "--param", "y", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&told.stdout).expect("one object");
    assert!(report["error"]["message"].as_str().is_some_and(|message| message.contains("--param")), "{told}");
}

#[test]
fn invalid_command_line_exits_with_2() {
    let scenario = greeter();
    assert_snapshot!(scenario.run(&["greeter.worker", "Ada", "--modle", "a:b"]), @"
    exit 2
    --- stderr
    error: unexpected argument '--modle' found

      tip: a similar argument exists: '--model'

    Usage: llm-do run --model <MODEL> <TARGET> <MESSAGE>

    For more information, try '--help'.
    ");
    assert_snapshot!(scenario.run(&["greeter.worker", "Ada", "--param", "x"]), @"
    exit 2
    --- stderr
    error: --param x: a name and a value belong here
    hint: write --param NAME=VALUE
    ");
    assert_snapshot!(scenario.run(&["greeter.worker", "Ada", "-m", "Grace"]), @"
    exit 2
    --- stderr
    error: the message is given twice: `Ada` and --message
    hint: leave one of them out
    ");
    assert_snapshot!(scenario.run(&["nowhere.worker"]), @"
    exit 2
    --- stderr
    error[E0307]: `nowhere.worker` does not exist
    ");
}

#[test]
fn invalid_file_is_shown_with_its_location() {
    let scenario = greeter().file("bad.worker", "---\nmodle: script:script.yaml\n---\nHi.\n");
    assert_snapshot!(scenario.run(&["bad.worker", "x"]), @"
    exit 2
    --- stderr
    error[E0201]: unknown key `modle`
     --> bad.worker:2:1
      |
    2 | modle: script:script.yaml
      | ^^^^^
      |
      = help: did you mean `model`?
    ");
    assert_snapshot!(scenario.run(&["check", "bad.worker"]), @"
    exit 2
    --- stdout
    error[E0201]: unknown key `modle`
     --> bad.worker:2:1
      |
    2 | modle: script:script.yaml
      | ^^^^^
      |
      = help: did you mean `model`?

    --- stderr
    found 1 error
    note: `llm-do check --explain E0201` says more about an error
    ");
    assert!(scenario.runs().is_empty());
}

#[test]
fn finished_run_is_listed_and_shown() {
    let scenario = greeter();
    scenario.run(&["greeter.worker", "Ada"]);
    let list = scenario.run(&["runs", "list", "greeter.worker", "--json"]);
    assert_eq!(list.code, Some(0), "{list}");
    let list: serde_json::Value = serde_json::from_str(&list.stdout).expect("JSON");
    assert_eq!(list["runs"][0]["state"], "done");
    let shown = scenario.run(&["runs", "show", "last", "greeter.worker"]);
    assert_eq!(shown.code, Some(0), "{shown}");
    assert!(shown.stdout.contains("greeter"), "{shown}");
    let none = scenario.run(&["runs", "show", "20200101-000000-0000", "greeter.worker"]);
    assert_eq!(none.code, Some(2), "{none}");
}

#[test]
fn run_is_exported_as_html() {
    let scenario = greeter();
    scenario.run(&["greeter.worker", "Ada <3"]);
    let told = scenario.run(&["runs", "export", "last", "greeter.worker", "--html"]);
    assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{told}");
    assert!(
        told.stdout.starts_with("<!doctype html>") && page_shows(&told.stdout, "Hello, Ada &lt;3!"),
        "{told}"
    );
    let told = scenario.run(&["runs", "export", "last", "greeter.worker", "--html", "-o", "run.html"]);
    assert_snapshot!(told, @"
    exit 0
    --- stderr
    note: written to run.html
    ");
    assert!(scenario.read("run.html").is_some_and(|page| page.trim_end().ends_with("</html>")));
    assert_snapshot!(scenario.run(&["runs", "export", "last", "greeter.worker", "--html", "-o", "none/run.html"]), @"
    exit 1
    --- stderr
    error: cannot write none/run.html: the folder `none` does not exist
    ");
    assert_eq!(
        scenario.run(&["runs", "export", "last", "greeter.worker"]).code,
        Some(2),
        "a form is missing"
    );
}

#[test]
fn help_and_version_need_no_project() {
    let scenario = Scenario::new();
    for arguments in [
        &["--version"][..],
        &["--help"],
        &["run", "--help"],
        &["models", "pull", "-h"],
        &["completions", "bash"],
    ] {
        let told = scenario.run(arguments);
        assert_eq!(told.code, Some(0), "{told}");
        assert_eq!(told.stderr, "");
    }
}

#[test]
fn mistyped_command_gets_a_suggestion() {
    let told = Scenario::new().run(&["modles", "list"]);
    assert_eq!(told.code, Some(2));
    assert!(told.stderr.contains("help: did you mean the command `llm-do models`?"), "{told}");
}

#[test]
fn run_says_that_overrides_do_not_reach_a_locked_worker() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\nlocked: true\n---\nGreet.\n")
        .file("s.yaml", "answers: [{text: hello}]\n");
    let note = |arguments: &[&str]| scenario.run(arguments).stderr;
    assert!(!note(&[".", "hi"]).contains("locked"));
    let told = scenario.run(&[".", "hi", "--model", "script:other.yaml", "--set", "temperature=1"]);
    assert_snapshot!(told, @"
    exit 0
    --- stdout
    hello

    --- stderr
    note: --model and --set do not apply to `main`, which is locked
    ");
    assert!(note(&[".", "hi", "--set", "temperature=1"]).contains("--set does not apply to `main`"));
}

#[test]
fn missing_terminal_is_mentioned_only_where_a_call_may_ask() {
    const TOOLS: &str = "from llm_do import tool\n\n@tool\ndef look() -> str:\n    return 'seen'\n\n\
                         @tool(risk='network')\ndef send() -> str:\n    return 'sent'\n";
    let mentioned = |front: &str, call: &str| {
        let scenario = Scenario::new()
            .file("project.yaml", "model: script:s.yaml\n")
            .file("main.worker", &format!("---\n{front}\n---\nWork.\n"))
            .file("workers/helper.worker", "---\n---\nHelp.\n")
            .file(if front.contains("custom") { "tools.py" } else { "notes.txt" }, TOOLS)
            .file(
                "s.yaml",
                &format!(
                    "answers:\n  - when: {{worker: main, turn: 0}}\n    calls: [{{tool: {call}}}]\n  - text: done\n"
                ),
            );
        let told = scenario.run(&["."]);
        assert_eq!(told.code, Some(0), "{told}");
        told.stderr.matches("no terminal to ask on").count()
    };
    assert_eq!(mentioned("allow_workers: [helper]", "helper, arguments: {input: x}"), 0);
    assert_eq!(mentioned("toolsets: {filesystem: {tools: [list_files]}}", "list_files"), 0);
    assert_eq!(mentioned("toolsets: {filesystem: {}}", "list_files"), 1, "files can't be written");
    assert_eq!(mentioned("toolsets: [custom]", "look"), 1, "`send` is not offered");
}

#[test]
fn attachment_for_code_is_an_error() {
    let scenario = Scenario::new()
        .file("project.yaml", "entry: flow.py:main\n")
        .file("flow.py", "def main(input, ctx):\n    return 'done'\n")
        .file("a.txt", "text");
    let told = scenario.run(&[".", "--attach", "a.txt"]);
    assert!(
        told.code == Some(2) && told.stderr.contains("is Python code, and attachments are for models"),
        "{told}"
    );
}

#[test]
fn registry_lies_in_the_folder_of_llm_do() {
    let scenario =
        Scenario::new().file("own/workers/greet.worker", "---\nmodel: script:s.yaml\n---\nGreet.\n");
    let scenario = scenario.file("s.yaml", "answers: [{text: hello}]\n").env("LLM_DO_HOME", "own");
    let told = scenario.run(&["greet", "hi"]);
    assert!(told.code == Some(0) && told.stdout == "hello\n", "{told}");
}

#[test]
fn name_of_a_command_is_no_target() {
    let scenario = Scenario::new().file("cluster/main.worker", "---\nmodel: script:s.yaml\n---\nTalk.\n");
    let scenario = scenario.file("s.yaml", "answers: [{text: hello}]\n");
    let told = scenario.run(&["cluster", "hi"]);
    assert!(told.code == Some(2) && told.stdout.is_empty(), "{told}");
    let told = scenario.run(&["./cluster", "hi"]);
    assert!(told.code == Some(0) && told.stdout == "hello\n", "{told}");
}

#[test]
fn a_folder_without_workers_shows_the_first_steps() {
    let scenario = Scenario::new().file("notes.txt", "Nothing to run.\n");
    assert_snapshot!(scenario.run(&[]), @"
    exit 2
    --- stderr
    llm-do runs programs made of LLM workers: files with instructions that call each other like functions.
    There is no worker in this folder.

      llm-do init my-project        create a project, with a first worker to change
      llm-do init --list-templates  the kinds of projects that it can create
      llm-do FILE.worker MESSAGE    run a worker file
      llm-do FOLDER MESSAGE         run the project in a folder
      llm-do doctor                 what this machine has: models, keys, Python, confinement
      llm-do --help                 all commands
    ");
    let told = scenario.run(&["."]);
    assert!(told.stderr.contains("E0306") && told.stderr.contains("llm-do init NAME"), "{told}");
    // A file that could be run is named.
    let told = greeter().run(&[]);
    assert!(told.stderr.contains("`llm-do greeter.worker`"), "{told}");
}

#[test]
fn text_file_and_library_as_targets_get_a_hint() {
    let scenario = Scenario::new()
        .file("notes.txt", "text")
        .file("lib1/lib.yaml", "name: lib1\nversion: '1.0'\ndescription: x\nexports: [a]\n")
        .file("lib1/workers/a.worker", "---\n---\nHi.\n")
        .file("p/project.yaml", "dependencies: [lib1]\nmodel: script:s.yaml\n")
        .file("p/main.worker", "---\nallow_workers: ['lib1:a']\n---\nGo.\n");
    let told = scenario.run(&["notes.txt", "hi"]);
    assert!(told.stderr.contains("`notes.txt` is neither a worker file nor a folder"), "{told}");
    assert!(told.stderr.contains("attach `notes.txt`"), "{told}");
    let told = scenario.run(&["check", "p", "--lib", "lib1"]);
    assert!(told.stdout.contains("is a library itself: name the folder that contains it"), "{told}");
    assert_eq!(told.code, Some(2), "{told}");
    assert_eq!(scenario.run(&["check", "p", "--lib", "."]).code, Some(0));
}

/// `/dev/full` is a disk without room.
#[test]
fn a_result_that_can_not_be_written_is_an_error() {
    let scenario = greeter();
    assert_eq!(scenario.run(&["greeter.worker", "Ada"]).code, Some(0));
    for arguments in [
        &["greeter.worker", "Ada"][..],
        &["greeter.worker", "Ada", "--json"],
        &["greeter.worker", "Ada", "--output", "stream-json"],
        &["runs", "show", "last", "greeter.worker"],
        &["runs", "export", "last", "greeter.worker", "--html"],
        &["schema", "worker"],
        &["completions", "bash"],
        &["doctor"],
        &["--help"],
        &["--version"],
    ] {
        let mut command = scenario.command(arguments);
        command.stdout(File::options().write(true).open("/dev/full").expect("a device"));
        let told = scenario.finished(command.stderr(Stdio::piped()).output().expect("it starts"));
        assert_eq!(told.code, Some(1), "{arguments:?}: {told}");
        assert!(told.stderr.contains("stdout: No space left on device"), "{arguments:?}: {told}");
    }
    let to_full = scenario.run(&["greeter.worker", "Ada", "-o", "/dev/full"]);
    assert_eq!(to_full.code, Some(1), "{to_full}");
    assert_snapshot!(to_full.stderr, @"
    error: cannot write the result to /dev/full: No space left on device (os error 28)
    hint: what the run did is done; `llm-do runs resume last -o FILE` writes its result again
    ");
}

#[test]
fn the_result_can_go_to_a_file() {
    let scenario = greeter().file("out.txt", "before");
    let told = scenario.run(&["greeter.worker", "Ada", "-o", "out.txt"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), ""), "{told}");
    assert_eq!(scenario.read("out.txt").as_deref(), Some("Hello, Ada!\n"));
    let json = scenario.run(&["greeter.worker", "Ada", "--json", "-o", "out.json"]);
    assert!(
        json.code == Some(0) && scenario.read("out.json").expect("a file").contains("Hello, Ada!"),
        "{json}"
    );
    // What is wrong is said before a model is asked, and a run without a result leaves the file as it is.
    for file in ["no/such/folder/out.txt", "."] {
        let told = scenario.run(&["greeter.worker", "Ada", "-o", file]);
        assert_eq!((told.code, told.stdout.as_str()), (Some(2), ""), "{told}");
        assert!(told.stderr.contains(&format!("cannot write {file}")), "{told}");
    }
    let scenario = scenario.file("script.yaml", "answers:\n  - error: {status: 400, message: closed}\n");
    assert_eq!(scenario.run(&["greeter.worker", "Ada", "-o", "out.txt"]).code, Some(1));
    assert_eq!(scenario.read("out.txt").as_deref(), Some("Hello, Ada!\n"));
    let chat = scenario.run(&["chat", "greeter.worker", "-o", "out.txt"]);
    assert!(chat.code == Some(2) && chat.stderr.contains("a chat has no single result"), "{chat}");
}
