//! The command `runs`: one call, the timeline, a run that is still running, cleaning and export.

use crate::scenario::{Scenario, lines, page_shows};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    os::unix::net::UnixListener,
    process::Stdio,
    thread::{self, JoinHandle},
};

/// A run that writes a file and ends.
fn writer() -> Scenario {
    Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nWrite.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: a}}]\n  - text: written\n",
        )
}

#[test]
fn runs_show_prints_one_call_and_the_timeline() {
    let scenario = writer();
    assert_eq!(scenario.run(&[".", "--approval", "approve_all"]).code, Some(0));
    let told = scenario.run(&["runs", "show", "--call", "0/0.0"]);
    assert!(
        told.stdout.contains("0/0.0  write_file  done") && told.stdout.contains("content: \"a\""),
        "{told}"
    );
    let told = scenario.run(&["runs", "show", "last", "--call", "0", "--json"]);
    let call: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!((&call["output"], &call["records"][0]["kind"]), (&json!("written"), &json!("call_started")));
    assert_snapshot!(scenario.run(&["runs", "show", "last", "--call", "0/7.0"]), @"
    exit 2
    --- stderr
    error: no call at `0/7.0` in run [RUN]
    hint: `llm-do runs show RUN --timeline` shows the place of each call
    ");
    let told = scenario.run(&["runs", "show", "last", "--timeline"]);
    assert!(told.code == Some(0) && told.stdout.contains("0/0.0    write_file"), "{told}");
    let told = scenario.run(&["runs", "show", "last", "--timeline", "--json"]);
    let timeline: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(timeline["rows"][1]["spans"][0]["kind"], "tool");
    assert_eq!(scenario.run(&["runs", "show", "--timeline", "--follow"]).code, Some(2));
}

#[test]
fn runs_show_follows_a_running_run() {
    let scenario = writer();
    let path = scenario.home().join("operator.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let channel = format!("unix:{}", path.display());
    let mut run = scenario.command(&[".", "--operator", &channel]);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut operator = BufReader::new(listener.accept().expect("the run").0);
    let mut hears = |line: &mut String| operator.read_line(line).expect("a line");
    let mut asked = String::new();
    hears(&mut asked);
    asked.clear();
    hears(&mut asked);
    assert!(asked.contains("\"ask\""), "{asked}");

    let mut follow = scenario.command(&["runs", "show", "--follow"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut shown =
        BufReader::new(follow.stdout.take().expect("a pipe")).lines().map(|line| line.expect("text"));
    // The run waits for its answer, so this output comes while it is running.
    let waits = shown.by_ref().find(|line| line.contains("waits for approval")).expect("the question");
    assert!(waits.contains("? write_file at 0/0.0"), "{waits}");
    let told = scenario.run(&["runs", "export", "--html"]);
    assert!(page_shows(&told.stdout, "waits for approval at 0/0.0"), "{told}");

    operator
        .get_mut()
        .write_all(b"{\"call\": \"0/0.0\", \"step\": \"ask\", \"answer\": \"approve\"}\n")
        .expect("it listens");
    let rest: Vec<String> = shown.collect();
    assert!(rest[0].contains("write_file approved"), "{rest:?}");
    assert!(rest.last().is_some_and(|line| line.ends_with("  done")), "{rest:?}");
    assert_eq!(follow.wait().expect("it ends").code(), Some(0));
    assert_eq!(run.wait_with_output().expect("it ends").status.code(), Some(0));
}

#[test]
fn following_a_truncated_journal_reports_the_cut() {
    let scenario = writer();
    assert_eq!(scenario.run(&[".", "--approval", "approve_all"]).code, Some(0));
    let told = scenario.run(&["runs", "show", "--follow", "--output", "stream-json"]);
    let events = lines(&told.stdout);
    assert_eq!(events.len(), scenario.journal().len());
    assert_eq!(events.last().expect("an event")["record"]["kind"], "run_ended");
    let told = scenario.run(&["runs", "show", "--follow", "--json"]);
    let tree: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(tree["state"], "done");

    let path = scenario.runs().remove(0).join("journal.jsonl");
    let text = fs::read_to_string(&path).expect("a journal");
    fs::write(&path, &text[..text.len() - 20]).expect("a file");
    let told = scenario.run(&["runs", "show", "--follow"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(told.stdout.ends_with("cut off: no process writes the journal any more\n"), "{told}");
}

#[test]
fn damaged_run_is_listed_and_passed_over() {
    let scenario = writer();
    for _ in 0..2 {
        assert_eq!(scenario.run(&[".", "--approval", "approve_all"]).code, Some(0));
    }
    let runs = scenario.runs();
    let journal = runs[1].join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("a journal");
    let (_, rest) = text.split_once('\n').expect("two lines");
    for damaged in [format!("damaged\n{rest}"), format!("{text}damaged\n")] {
        fs::write(&journal, damaged).expect("a file");
        let told = scenario.run(&["runs", "list"]);
        assert!(told.stdout.starts_with("[RUN]                    damaged\n[RUN]"), "{told}");
        let told = scenario.run(&["runs", "show", "last", "--json"]);
        let tree: Value = serde_json::from_str(&told.stdout).expect("JSON");
        assert_eq!(told.code, Some(0), "{told}");
        assert_eq!(tree["state"], "done");
        let told = scenario.run(&["runs", "clean", "--keep", "1", "--dry-run"]);
        assert!(told.stderr.contains("nothing to remove: 2 runs"), "{told}");
    }
    assert!(scenario.run(&["runs", "clean", "--keep", "0"]).stdout.contains("damaged"));
}

#[test]
fn runs_clean_keeps_suspended_runs() {
    let scenario = writer();
    for approval in ["approve_all", "approve_all", "defer"] {
        scenario.run(&[".", "--approval", approval]);
    }
    let told = scenario.run(&["runs", "clean", ".", "--keep", "0", "--dry-run"]);
    assert_eq!(scenario.runs().len(), 3);
    assert_eq!(told.stdout.matches("[RUN]  done  ").count(), 2, "{told}");
    assert!(
        told.stderr.contains("note: would remove 2 runs and free ")
            && told.stderr.ends_with(" kB, 1 run left\n"),
        "{told}"
    );
    let told = scenario.run(&["runs", "clean", ".", "--keep", "0", "--json"]);
    let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(report["removed"].as_array().map(Vec::len), Some(2), "{report}");
    assert!(report["freed_bytes"].as_u64().is_some_and(|bytes| bytes > 500), "{report}");
    assert_eq!(scenario.runs().len(), 1);
    assert_snapshot!(scenario.run(&["runs", "clean", ".", "--older-than", "0s", "--keep", "1"]), @"
    exit 0
    --- stderr
    note: nothing to remove: 1 run in [DIR]/project/.llm-do/runs
    ");
    let told = scenario.run(&["runs", "clean", "."]);
    assert!(told.code == Some(2) && told.stderr.contains("--older-than"), "{told}");
    assert_eq!(scenario.run(&["runs", "clean", ".", "--keep", "0", "--suspended"]).code, Some(0));
    assert!(scenario.runs().is_empty());

    // A project from elsewhere may contain a link.
    let other = scenario.home().join("other/runs");
    fs::create_dir_all(other.join("20240101-000000-aaaa")).expect("folders");
    fs::remove_dir_all(scenario.project().join(".llm-do")).expect("a folder");
    std::os::unix::fs::symlink(scenario.home().join("other"), scenario.project().join(".llm-do"))
        .expect("a link");
    assert_snapshot!(scenario.run(&["runs", "clean", "--keep", "0"]), @"
    exit 1
    --- stderr
    error: cannot clean ./.llm-do/runs: `.llm-do` is a symbolic link, and llm-do does not follow it
    ");
    assert!(other.join("20240101-000000-aaaa").exists());
}

/// A collector for one request: answers it, and returns its head and body.
fn collect(
    listener: TcpListener,
    status: &'static str,
    answer: &'static str,
) -> JoinHandle<(String, String)> {
    thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().expect("a sender").0);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).expect("a line") > 0, "{head}");
        }
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.expect("a length")];
        stream.read_exact(&mut body).expect("a body");
        let length = answer.len();
        let response =
            format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}");
        stream.get_mut().write_all(response.as_bytes()).expect("a reader");
        (head, String::from_utf8(body).expect("text"))
    })
}

#[test]
fn runs_export_writes_a_trace_to_a_file_or_a_collector() {
    let scenario = writer()
        .env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue%20sky")
        .env("HTTP_PROXY", "http://127.0.0.1:9");
    assert_eq!(scenario.run(&[".", "--approval", "approve_all"]).code, Some(0));
    let export = |to: &str| scenario.run(&["runs", "export", "last", ".", "--otel", to]);
    let told = export("-");
    let shown: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(shown["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"], "invoke_agent main");
    assert_eq!(told.stderr, "");
    assert_eq!(export("trace.json").code, Some(0));
    let written = scenario.read("trace.json").expect("a file");
    assert_eq!(scenario.steady(&written), told.stdout);

    let listen = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        (listener, address)
    };
    let (listener, address) = listen();
    let collector = collect(listener, "200 OK", "{\"partialSuccess\":{}}");
    let sent = export(&address.replace("//", "//ada:secret@"));
    assert_eq!((sent.code, sent.stderr), (Some(0), format!("note: sent to {address}/v1/traces\n")));
    let (head, body) = collector.join().expect("it came");
    assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
    for header in ["content-type: application/json\r\n", "x-team: blue sky\r\n"] {
        assert!(head.contains(header), "{head}");
    }
    assert_eq!(body, written.trim_end());

    for (status, answer, says) in [
        (
            "200 OK",
            "{\"partialSuccess\":{\"rejectedSpans\":\"2\",\"errorMessage\":\"too old\"}}",
            "2 spans were not taken: too old",
        ),
        ("400 Bad Request", "what is this", "400 Bad Request what is this"),
        ("307 Temporary Redirect", "", "307"),
    ] {
        let (listener, address) = listen();
        let collector = collect(listener, status, answer);
        let told = export(&address);
        assert!(told.code == Some(1) && told.stderr.contains(says), "{told}");
        collector.join().expect("it came");
    }
    let (listener, address) = listen();
    drop(listener);
    let told = export(&address);
    assert!(told.code == Some(1) && told.stderr.contains("hint: is a collector listening there?"), "{told}");
    assert_eq!(scenario.run(&["runs", "export", "--otel", "-", "--html"]).code, Some(2));
}

#[test]
fn runs_of_another_folder_are_found_by_project_and_environment() {
    let scenario = writer();
    assert_eq!(scenario.run(&[".", "--approval", "approve_all"]).code, Some(0));
    let elsewhere = tempfile::tempdir().expect("a folder");
    let project = scenario.project();
    let project = project.to_str().expect("UTF-8");
    let from = |arguments: &[&str], env: Option<&str>| {
        let mut command = scenario.command(arguments);
        command.current_dir(elsewhere.path());
        if let Some(project) = env {
            command.env("LLM_DO_PROJECT", project);
        }
        scenario.finished(command.output().expect("it ends"))
    };
    assert!(from(&["runs", "list"], None).stderr.contains("no runs in"));
    for told in [
        from(&["runs", "list", "--project", project], None),
        from(&["runs", "--project", project, "list"], None),
        from(&["runs", "list"], Some(project)),
    ] {
        assert!(told.code == Some(0) && told.stdout.contains("done"), "{told}");
    }
    for arguments in
        [&["runs", "show"][..], &["runs", "replay"], &["runs", "export", "--html", "-o", "run.html"]]
    {
        let with_project = [arguments, &["--project", project]].concat();
        assert_eq!(from(&with_project, None).code, Some(0), "{arguments:?}");
        assert_eq!(from(arguments, Some(project)).code, Some(0), "{arguments:?}");
        assert_eq!(from(arguments, None).code, Some(2), "{arguments:?}");
    }
    let twice = scenario.run(&["runs", "list", ".", "--project", "."]);
    assert_snapshot!(twice, @"
    exit 2
    --- stderr
    error: the project is named twice: `.` and --project .
    hint: leave one of them out
    ");
}

#[test]
fn runs_list_shows_local_time() {
    let scenario = writer().env("TZ", "Asia/Kathmandu");
    assert_eq!(scenario.run(&[".", "--approval", "approve_all"]).code, Some(0));
    let run = scenario.run(&["runs", "list", "--json"]);
    let run: Value = serde_json::from_str(&run.stdout).expect("JSON");
    let started = run["runs"][0]["started_ms"].as_i64().expect("a time");
    // Nepal is 5:45 ahead of UTC, the whole year.
    let minutes = (started / 60_000 + 5 * 60 + 45) % (24 * 60);
    let expected = format!("{:02}:{:02}", minutes / 60, minutes % 60);
    let told = scenario.run(&["runs", "list"]);
    assert!(told.stdout.contains(&expected), "{expected}: {told}");
}

#[test]
fn mistaken_arguments_of_runs_are_explained() {
    let scenario = writer();
    for _ in 0..8 {
        scenario.run(&[".", "--approval", "defer"]);
    }
    let told = scenario.run(&["runs", "show", "2"]);
    assert!(told.code == Some(2) && told.stderr.contains("`2` fits 8 runs: "), "{told}");
    assert!(told.stderr.contains(", …; type more of one"), "{told}");
    let told = scenario.run(&["runs", "export", "last", "--otel", "ftp://x/y"]);
    assert!(
        told.code == Some(2) && told.stderr.contains("a collector has an http:// or https:// address"),
        "{told}"
    );
    assert_snapshot!(scenario.run(&["runs", "resume", "last", "--answer", "0/0.0:ask=\"approve\""]), @r#"
    exit 2
    --- stderr
    error: `--answer 0/0.0:ask="approve"` is no answer to an approval
    hint: an approval takes {"answer": "approve"}, {"answer": "deny"} or {"answer": "edit", "input": …}
    "#);
    let told = scenario.run(&[".", "--set", "temperature=hot"]);
    assert!(
        told.code == Some(2) && told.stderr.contains("--set: temperature is a number, not `hot`"),
        "{told}"
    );
    let told = scenario.run(&[".", "--set", "max_tokens=-1"]);
    assert!(told.stderr.contains("--set: max_tokens is a whole number, at least 0, not `-1`"), "{told}");
    let told = scenario.run(&[".", "--set", "temprature=1"]);
    assert!(
        told.stderr.contains("--set: there is no `temprature`; a model has temperature, top_p"),
        "{told}"
    );
}
