//! Runs against a loopback server that speaks the providers' wire formats and rejects any history that a provider
//! would reject.

use crate::{
    scenario::{Finished, Scenario},
    terminal_session::Session,
};
use llm_do_testserver::{Finish, Gate, Reply, Script, TestServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const SECRET: &str = "sk-test-0123456789abcdef";

/// A wire format, streamed or in whole answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    OpenAi,
    Anthropic,
    OpenAiWhole,
    AnthropicWhole,
}

const WAYS: [Way; 4] = [Way::OpenAi, Way::Anthropic, Way::OpenAiWhole, Way::AnthropicWhole];

/// A project whose workers use this server in this format. Worker files name no model.
pub(crate) fn project(server: &TestServer, way: Way) -> Scenario {
    let scenario = Scenario::new();
    let base = format!("{}/v1", server.url());
    match way {
        Way::OpenAi => scenario
            .env("OPENAI_BASE_URL", base)
            .env("OPENAI_API_KEY", SECRET)
            .env("LLM_DO_MODEL", "openai:test-model"),
        Way::Anthropic => scenario
            .env("ANTHROPIC_BASE_URL", server.url())
            .env("ANTHROPIC_API_KEY", SECRET)
            .env("LLM_DO_MODEL", "anthropic:test-model"),
        Way::OpenAiWhole | Way::AnthropicWhole => {
            let api = if matches!(way, Way::OpenAiWhole) { "openai" } else { "anthropic" };
            let provider =
                format!("providers:\n  loop: {{base_url: \"{base}\", api: {api}, stream: false}}\n");
            scenario.file("project.yaml", &format!("model: loop:test-model\n{provider}"))
        }
    }
}

/// Runs the project with a fresh server of this script, in every format.
fn every_way(
    script: impl Fn() -> Script,
    set: impl Fn(Scenario) -> Scenario,
    check: impl Fn(Way, &Scenario, &Finished, &TestServer),
) {
    for way in WAYS {
        let server = TestServer::start(script());
        let scenario = set(project(&server, way));
        let told = scenario.run(&[".", "go"]);
        check(way, &scenario, &told, &server);
    }
}

fn ended(scenario: &Scenario) -> Value {
    scenario.journal().pop().expect("a record")
}

#[test]
fn fifty_turns_of_tool_calls_succeed() {
    let turns = || {
        let calls = (0..50).map(|i| Reply::tool("read_file", json!({"path": "notes.txt", "offset": i})));
        Script::turns(calls.chain([Reply::text("all read")]))
    };
    let set = |scenario: Scenario| {
        scenario
            .file("main.worker", "---\ntoolsets: [filesystem]\nlimits: {max_turns: 60}\n---\nRead.\n")
            .file("notes.txt", &"The notes. ".repeat(20))
    };
    every_way(turns, set, |way, scenario, told, server| {
        server.assert_valid();
        assert_eq!((told.code, told.stdout.as_str()), (Some(0), "all read\n"), "{way:?} {told}");
        assert_eq!(server.request_count(), 51);
        let journal = scenario.journal();
        assert_eq!(journal.iter().filter(|record| record["kind"] == "tool_ended").count(), 50);
    });
}

/// A provider's cache needs this: the constant parts come first and in the same order, without time stamps.
#[test]
fn identical_runs_send_identical_first_requests() {
    for way in WAYS {
        let sent = [(); 2].map(|()| {
            let server = TestServer::start(Script::turns([Reply::text("done")]));
            let scenario = project(&server, way)
                .file(
                    "main.worker",
                    "---\nallow_workers: [zoe, ada]\ntoolsets: {shell: {}, filesystem: {}}\n---\nDo it.\n",
                )
                .file("workers/ada.worker", "---\ndescription: one\n---\nOne.\n")
                .file("workers/zoe.worker", "---\ndescription: two\n---\nTwo.\n");
            let told = scenario.run(&[".", "go", "--budget", "900000tokens"]);
            assert_eq!(told.code, Some(0), "{way:?} {told}");
            let mut body = server.requests().remove(0).body.clone();
            // The cache key routes a request; it is not part of its content.
            body.as_object_mut().expect("an object").shift_remove("prompt_cache_key");
            body.to_string()
        });
        assert_eq!(sent[0], sent[1], "{way:?}");
        let at =
            |tool: &str| sent[0].find(&format!("\"{tool}\"")).unwrap_or_else(|| panic!("{way:?}: no {tool}"));
        assert!(at("ada") < at("read_file") && at("read_file") < at("zoe"), "{way:?}: tools are sorted");
    }
}

#[test]
fn twenty_children_run_concurrently() {
    for way in WAYS {
        let gate = Gate::new();
        let calls = (0..20).map(|i| ("child", json!({"input": format!("part {i}")})));
        let script = Script::turns([Reply::tools(calls), Reply::text("joined")])
            .when("CHILD", (0..20).map(|i| Reply::text(format!("did {i}")).held_by(&gate)));
        let server = TestServer::start(script);
        let scenario = project(&server, way)
            .file("main.worker", "---\nallow_workers: [child]\n---\nDelegate.\n")
            .file("workers/child.worker", "---\ndescription: does a part\n---\nYou are CHILD.\n");
        let child = spawn(scenario.command(&[".", "go"]));
        // All of them send their request before any is answered: none waits for another.
        server.wait_for_requests(21);
        gate.open();
        let told = scenario.finished(child.wait_with_output().expect("it ends"));
        server.assert_valid();
        assert_eq!((told.code, told.stdout.as_str()), (Some(0), "joined\n"), "{way:?} {told}");
        let last = &server.requests()[21];
        let results: Vec<_> = last.messages().iter().flat_map(|message| &message.tool_results).collect();
        assert_eq!(results.len(), 20, "{way:?}");
    }
}

#[test]
fn denied_delegation_is_returned_as_a_tool_result() {
    let turns =
        || Script::turns([Reply::tool("child", json!({"input": "x"})), Reply::text("went on without")]);
    for way in WAYS {
        let server = TestServer::start(turns());
        let scenario = project(&server, way)
            .file("main.worker", "---\nallow_workers: [child]\n---\nDelegate.\n")
            .file("workers/child.worker", "---\ndescription: does a part\n---\nYou are CHILD.\n");
        let told = scenario.run(&[".", "go", "--deny", "worker_call(child)"]);
        server.assert_valid();
        assert_eq!((told.code, told.stdout.as_str()), (Some(0), "went on without\n"), "{way:?} {told}");
        assert!(told.stderr.contains("1 call was refused"), "{told}");
        assert_eq!(server.request_count(), 2);
    }
}

#[test]
fn rate_limited_request_waits_for_retry_after() {
    let turns = || Script::turns([Reply::rate_limited(Some(Duration::from_secs(1))), Reply::text("now")]);
    every_way(turns, plain, |way, scenario, told, server| {
        server.assert_valid();
        assert_eq!((told.code, told.stdout.as_str()), (Some(0), "now\n"), "{way:?} {told}");
        let at: Vec<_> = server.requests().iter().map(|seen| seen.at).collect();
        assert!(at[1] - at[0] >= Duration::from_secs(1), "{way:?}");
        assert!(scenario.journal().iter().any(|record| record["kind"] == "slept"));
    });
}

#[test]
fn truncated_stream_is_retried() {
    let turns = || {
        Script::turns([
            Reply::text("this is an answer that never comes to its end").cut_after(1),
            Reply::text("whole"),
        ])
    };
    every_way(turns, plain, |way, _, told, server| {
        server.assert_valid();
        assert_eq!((told.code, told.stdout.as_str()), (Some(0), "whole\n"), "{way:?} {told}");
        assert_eq!(server.request_count(), 2);
    });
}

#[test]
fn terminal_marks_a_discarded_partial_answer() {
    let script = Script::turns([
        Reply::text("this is an answer that never comes to its end").cut_after(4),
        Reply::text("the whole answer"),
    ]);
    let server = TestServer::start(script);
    let scenario = plain(project(&server, Way::Anthropic));
    let mut session = Session::start(scenario.command_on_terminal(&[".", "go"]));
    session.expect("this");
    session.expect("the text above does not count");
    session.expect("the whole answer");
    let (code, shown) = session.end();
    assert_eq!(code, Some(0), "{shown}");
    // Streamed, and not printed again at the end.
    assert_eq!(shown.matches("the whole answer").count(), 1, "{shown}");
}

#[test]
fn unknown_tool_error_lists_available_tools() {
    let turns = || Script::turns([Reply::tool("raed_file", json!({})), Reply::text("oh")]);
    every_way(turns, reader, |way, _, told, server| {
        server.assert_valid();
        assert_eq!(told.code, Some(0), "{way:?} {told}");
        let seen = &server.requests()[1];
        let result =
            seen.messages().iter().flat_map(|message| &message.tool_results).next().expect("a result");
        assert!(result.text.contains("read_file"), "{way:?} {}", result.text);
    });
}

#[test]
fn malformed_tool_arguments_leave_a_valid_history() {
    let turns = || Script::turns([Reply::raw_tool("read_file", "{\"path\": "), Reply::text("oh")]);
    every_way(turns, reader, |way, _, told, server| {
        server.assert_valid();
        assert_eq!(told.code, Some(0), "{way:?} {told}");
    });
}

#[test]
fn empty_answer_and_refusal_fail_the_run_with_a_reason() {
    let empty = || Script::new().rule(|_| Some(Reply::empty()));
    every_way(empty, plain, |way, scenario, told, server| {
        server.assert_valid();
        assert_eq!((told.code, told.stdout.as_str()), (Some(1), ""), "{way:?} {told}");
        assert_eq!(ended(scenario)["status"], "failed");
    });
    let refusal = || Script::turns([Reply::refusal("I will not.").finish(Finish::Filtered)]);
    every_way(refusal, plain, |way, scenario, told, server| {
        server.assert_valid();
        assert_eq!((told.code, told.stdout.as_str()), (Some(1), ""), "{way:?} {told}");
        assert_eq!(ended(scenario)["ending"]["failure"]["kind"], "refusal", "{way:?}");
    });
}

#[test]
fn api_keys_are_neither_printed_nor_recorded() {
    for way in [Way::OpenAi, Way::Anthropic] {
        let server = TestServer::start(Script::turns([Reply::text(format!("your key is {SECRET}"))]));
        let scenario = plain(project(&server, way));
        let told = scenario.run(&[".", "go", "--output", "stream-json"]);
        assert_eq!(told.code, Some(0), "{told}");
        assert!(!told.stdout.contains(SECRET) && !told.stderr.contains(SECRET), "{way:?} {told}");
        let journal: String = scenario.journal().iter().map(Value::to_string).collect();
        assert!(!journal.contains(SECRET), "{way:?}");
    }
}

#[test]
fn ctrl_c_during_a_request_aborts_it_and_closes_the_journal() {
    for way in WAYS {
        let server = TestServer::start(Script::turns([Reply::hang()]));
        let scenario = plain(project(&server, way));
        let child = spawn(scenario.command(&[".", "go"]));
        server.wait_for_requests(1);
        interrupt(child.id());
        let told = scenario.finished(child.wait_with_output().expect("it ends"));
        assert_eq!((told.code, told.stdout.as_str()), (Some(130), ""), "{way:?} {told}");
        assert!(told.stderr.contains("interrupted"), "{told}");
        assert_eq!(ended(&scenario)["status"], "interrupted");
        server.wait_for_abandoned(1);
    }
}

#[test]
fn the_limit_of_processor_time_interrupts_a_run_with_a_message() {
    let server = TestServer::start(Script::turns([Reply::hang()]));
    let scenario = plain(project(&server, Way::OpenAi));
    let child = spawn(scenario.command(&[".", "go"]));
    server.wait_for_requests(1);
    // The kernel sends it each second; here it comes at once.
    for _ in 0..3 {
        signal(child.id(), Signal::XCPU);
    }
    let told = scenario.finished(child.wait_with_output().expect("it ends"));
    assert_eq!(told.code, Some(130), "{told}");
    assert!(told.stderr.contains("the limit of processor time (`ulimit -t`) is reached"), "{told}");
    assert!(told.stderr.contains("runs resume"), "{told}");
    assert_eq!(ended(&scenario)["status"], "interrupted");
}

#[test]
fn an_answer_without_end_fails_after_64_mib() {
    let (url, sent) = serve_without_end();
    let scenario = Scenario::new()
        .env("OPENAI_BASE_URL", url)
        .env("OPENAI_API_KEY", SECRET)
        .env("LLM_DO_MODEL", "openai:test-model")
        .file("main.worker", "---\nlimits: {request_retries: 0}\n---\nAnswer.\n");
    let told = scenario.run(&[".", "go"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(1), ""), "{told}");
    assert!(told.stderr.contains("longer than an answer may be"), "{told}");
    let mib = sent.load(Ordering::Relaxed) >> 20;
    // The contents of system buffers come on top.
    assert!((64..96).contains(&mib), "{mib} MiB were sent");
}

#[test]
fn ctrl_c_during_a_stream_leaves_stdout_empty() {
    let server =
        TestServer::start(Script::turns([Reply::text("half an answer, and then nothing").hang_after(2)]));
    let scenario = plain(project(&server, Way::OpenAi));
    let child = spawn(scenario.command(&[".", "go"]));
    server.wait_for_requests(1);
    std::thread::sleep(Duration::from_millis(100));
    interrupt(child.id());
    let told = scenario.finished(child.wait_with_output().expect("it ends"));
    assert_eq!((told.code, told.stdout.as_str()), (Some(130), ""), "{told}");
}

#[test]
fn ctrl_c_during_a_delegated_call_stops_the_whole_tree() {
    let script = Script::turns([Reply::tool("child", json!({"input": "x"}))]).when("CHILD", [Reply::hang()]);
    let server = TestServer::start(script);
    let scenario = project(&server, Way::Anthropic)
        .file("main.worker", "---\nallow_workers: [child]\n---\nDelegate.\n")
        .file("workers/child.worker", "---\ndescription: does a part\n---\nYou are CHILD.\n");
    let child = spawn(scenario.command(&[".", "go"]));
    server.wait_for_requests(2);
    interrupt(child.id());
    let told = scenario.finished(child.wait_with_output().expect("it ends"));
    assert_eq!(told.code, Some(130), "{told}");
    assert_eq!(ended(&scenario)["status"], "interrupted");
}

#[test]
fn second_ctrl_c_exits_immediately() {
    // Its stdout is not read, so that it cannot end by itself.
    let long: String = (0..100_000).map(|number| format!("{number} ")).collect();
    let server = TestServer::start(Script::turns([Reply::text(long)]));
    let scenario = plain(project(&server, Way::OpenAiWhole));
    let mut child = spawn(scenario.command(&[".", "go", "--output", "stream-json"]));
    server.wait_for_requests(1);
    // The pipe holds a part of the answer and is full: the process is stuck.
    let stdout = child.stdout.take().expect("a pipe");
    while rustix::io::ioctl_fionread(&stdout).expect("a pipe") < 32 << 10 {
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(child.id());
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().expect("a process").is_none(), "it was to be stuck");
    // Two signals are merged if the process did not run in between: on a very slow machine it takes a third.
    let status = loop {
        interrupt(child.id());
        std::thread::sleep(Duration::from_millis(100));
        if let Some(status) = child.try_wait().expect("a process") {
            break status;
        }
    };
    assert_eq!(status.code(), Some(130));
    drop(stdout);
}

fn plain(scenario: Scenario) -> Scenario {
    scenario.file("main.worker", "---\nlimits: {request_retries: 2}\n---\nAnswer.\n")
}

fn reader(scenario: Scenario) -> Scenario {
    scenario.file("main.worker", "---\ntoolsets: [filesystem]\n---\nRead.\n")
}

fn spawn(mut command: Command) -> std::process::Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts")
}

fn interrupt(id: u32) {
    signal(id, Signal::INT);
}

fn signal(id: u32, signal: Signal) {
    let id = Pid::from_raw(id.cast_signed()).expect("a process");
    kill_process(id, signal).expect("it is there");
}

/// A server that answers one request with events until its client goes, and the number of bytes that it has sent.
fn serve_without_end() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    std::thread::spawn(move || {
        let mut client = BufReader::new(listener.accept().expect("a client").0);
        read_request(&mut client);
        let mut client = client.into_inner();
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let said = "x".repeat(1 << 16);
        let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{said}\"}}}}]}}\n\n");
        let mut written = client.write_all(head);
        while written.is_ok() {
            written = client.write_all(event.as_bytes());
            counter.fetch_add(event.len(), Ordering::Relaxed);
        }
    });
    (url, sent)
}

/// Reads one request, which an answer must not precede.
fn read_request(reader: &mut BufReader<TcpStream>) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).expect("a line") > 0, "{head}");
    }
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.expect("a length")];
    reader.read_exact(&mut body).expect("a body");
}

/// A server that answers one request with this event stream.
fn serve_stream(stream: &'static str) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let served = std::thread::spawn(move || {
        let mut reader = BufReader::new(listener.accept().expect("a client").0);
        read_request(&mut reader);
        let length = stream.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{stream}"
        );
        reader.get_mut().write_all(answer.as_bytes()).expect("a reader");
    });
    (url, served)
}

fn told_by_stream(api: &str, stream: &'static str) -> Finished {
    let (url, served) = serve_stream(stream);
    let scenario = Scenario::new()
        .file(
            "project.yaml",
            &format!("model: gw:m\nproviders:\n  gw: {{base_url: \"{url}\", api: {api}}}\n"),
        )
        .file("main.worker", "---\nlimits: {request_retries: 0}\n---\nAnswer.\n");
    let told = scenario.run(&[".", "go"]);
    served.join().expect("it was asked");
    told
}

/// Gateways send comments to keep a connection open.
#[test]
fn a_comment_in_a_stream_of_responses_is_no_event() {
    let told = told_by_stream(
        "openai_resp",
        ": keepalive\n\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"m\"}}\n\n\
         data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hello.\"}\n\n: keepalive\n\n\
         data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"model\":\"m\",\"status\":\"completed\"}}\n\n",
    );
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "Hello.\n"), "{told}");
}

#[test]
fn a_refusal_in_a_stream_of_responses_is_a_refusal() {
    let told = told_by_stream(
        "openai_resp",
        "data: {\"type\":\"response.refusal.delta\",\"delta\":\"I can't.\"}\n\n\
         data: {\"type\":\"response.completed\",\"response\":{\"id\":\"r\",\"model\":\"m\",\"status\":\"completed\"}}\n\n",
    );
    assert_eq!(told.code, Some(1), "{told}");
    assert!(told.stderr.contains("the model declined to answer: I can't."), "{told}");
}

#[test]
fn a_call_with_a_huge_number_does_not_end_the_process() {
    let told = told_by_stream(
        "openai",
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hello.\",\"tool_calls\":[{\"index\":4294967295,\"function\":{\"arguments\":\"\"}}]}}]}\n\n\
         data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    );
    assert!(told.code.is_some_and(|code| code < 128), "{told}");
}
