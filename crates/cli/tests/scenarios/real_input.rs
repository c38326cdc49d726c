//! Input that models, servers and users really send (docs/reference/loop.md): answers with reasoning around them, calls
//! that share a number, words for broken answers, made-up names, integers of more than 64 bits, files that are not
//! images.

use crate::{
    python::fixture::has_python,
    scenario::{Scenario, script},
    wire_formats::{Way, project},
};
use llm_do_testserver::{Finish, Reply, Script, TestServer};
use serde_json::{Value, json};

const WORKER: &str = "---\nmodel: script:s.yaml\nreturns: RETURNS\n---\nGo.\n";

/// Runs a worker with these `returns`, whose model gives these answers.
fn answered(returns: &str, answers: &[&str]) -> (Scenario, crate::scenario::Finished) {
    let answers: Vec<Value> = answers.iter().map(|text| json!({ "text": text, "times": 1 })).collect();
    let scenario = Scenario::new()
        .file("main.worker", &WORKER.replace("RETURNS", returns))
        .file("s.yaml", &script(&answers));
    let told = scenario.run(&[".", "--json"]);
    (scenario, told)
}

fn output(told: &crate::scenario::Finished) -> Value {
    let report: Value = serde_json::from_str(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    report["output"].clone()
}

#[test]
fn only_a_value_that_stands_by_itself_is_an_answer() {
    let named = "{type: object, properties: {name: {type: string}}, required: [name]}";
    let kind = "{kind: [invoice, other]}";
    for (returns, answer, again) in [
        ("array<string>", r#"{"rejected":["x"],"accepted":["a","b"]}"#, json!(["b"])),
        ("array<string>", r#"["a", "b", "c"#, json!(["b"])),
        ("array<string>", r#"{rejected: ["x"], accepted: ["a"]}"#, json!(["b"])),
        ("object", r#"{"items": [{"a": 1}, {"b": 2}, {"c""#, json!({"b": 2})),
        (named, r#"{"error": {"name": "RateLimit", "code": 7}}"#, json!({"name": "n"})),
        (
            kind,
            r#"For example {"kind":"invoice"} would be wrong here. {"kind":"other"}"#,
            json!({"kind": "other"}),
        ),
        (kind, "{\"kind\":\"invoice\"}\n{\"kind\":\"other\"}\n", json!({"kind": "other"})),
        (kind, r#"{"kind":"invoice","kind":"other"}"#, json!({"kind": "other"})),
        (kind, r#"<think>{"kind":"invoice"}"#, json!({"kind": "other"})),
        ("integer", "18446744073709551616", json!(3)),
        ("integer", "1.0000000000000000001", json!(3)),
        ("integer", "1e23", json!(3)),
        ("{n: integer}", r#"{"n": -9223372036854775809}"#, json!({"n": 3})),
    ] {
        let (scenario, told) = answered(returns, &[answer, &again.to_string()]);
        assert_eq!(told.code, Some(0), "{returns} {answer}: {told}");
        assert_eq!(output(&told), again, "{returns} {answer}");
        let asked = scenario.journal().iter().filter(|record| record["kind"] == "message_added").count();
        assert_eq!(asked, 1, "{returns} {answer} goes back");
    }
    for (returns, answer, expected) in [
        (
            kind,
            "<think>maybe {\"kind\":\"invoice\"}? No, a letter.</think>{\"kind\":\"other\"}",
            json!({"kind": "other"}),
        ),
        (
            kind,
            "maybe {\"kind\":\"invoice\"}?</think>\n```json\n{\"kind\":\"other\"}\n```",
            json!({"kind": "other"}),
        ),
        (kind, "As {name} says: {\"kind\":\"other\"}", json!({"kind": "other"})),
        ("string", "<think>{\"a\": 1}</think>Dear {name},", json!("Dear {name},")),
        ("integer", "9007199254740993", json!(9_007_199_254_740_993_i64)),
        ("integer", "18446744073709551615", json!(u64::MAX)),
    ] {
        let (_, told) = answered(returns, &[answer]);
        assert_eq!((told.code, output(&told)), (Some(0), expected), "{returns} {answer}: {told}");
    }
    let (scenario, _) = answered(kind, &["Well:\n{\"kind\": other}", r#"{"kind": "other"}"#]);
    let sent = serde_json::to_string(&scenario.journal()).expect("JSON");
    assert!(sent.contains("expected value at line 2 column 10"), "the place is told: {sent}");
}

/// A value may be whole although the answer is not.
#[test]
fn an_answer_at_its_limit_goes_back() {
    for way in [Way::OpenAi, Way::Anthropic] {
        let whole = Reply::text(r#"{"kind": "invoice"}"#).finish(Finish::Length);
        let server = TestServer::start(Script::turns([whole, Reply::text(r#"{"kind": "other"}"#)]));
        let scenario =
            project(&server, way).file("main.worker", "---\nreturns: {kind: [invoice, other]}\n---\nGo.\n");
        let told = scenario.run(&[".", "go", "--json"]);
        assert_eq!((told.code, output(&told)), (Some(0), json!({"kind": "other"})), "{way:?} {told}");
    }
}

#[test]
fn a_caller_hears_that_an_answer_was_cut_off() {
    let server = TestServer::start(Script::turns([
        Reply::tool("child", json!({"input": "go"})),
        Reply::text("Half a sen").finish(Finish::Length),
        Reply::text("I see."),
    ]));
    let scenario = project(&server, Way::OpenAi)
        .file("main.worker", "---\nallow_workers: [child]\n---\nGo.\n")
        .file("workers/child.worker", "---\ndescription: A child.\n---\nSay it.\n");
    let told = scenario.run(&[".", "go"]);
    assert_eq!((told.code, &*told.stdout), (Some(0), "I see.\n"), "{told}");
    let sent = server.requests()[2].body.to_string();
    assert!(sent.contains("was cut off at its `max_tokens`") && sent.contains("Half a sen"), "{sent}");
}

/// The bytes of a stream of chat completions with these choices.
fn stream(choices: &[Value]) -> Reply {
    let events = choices.iter().map(|choice| format!("data: {}\n\n", json!({"choices": [choice]})));
    let body: String = events.chain(["data: [DONE]\n\n".to_owned()]).collect();
    Reply::status(200).body(body).content_type("text/event-stream")
}

#[test]
fn calls_that_share_an_index_are_all_made() {
    let piece = |call: Value| json!({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null});
    let call = |id: &str, path: &str| {
        let arguments = json!({ "path": path }).to_string();
        piece(json!({"index": 0, "id": id, "function": {"name": "read_file", "arguments": arguments}}))
    };
    let ends = json!({"index": 0, "delta": {}, "finish_reason": "tool_calls"});
    let both = stream(&[call("c1", "a.txt"), call("c2", "b.txt"), ends]);
    let server = TestServer::start(Script::turns([both, Reply::text("read")]));
    let scenario = project(&server, Way::OpenAi)
        .file("main.worker", "---\ntoolsets: [filesystem]\n---\nRead.\n")
        .file("a.txt", "one")
        .file("b.txt", "two");
    let told = scenario.run(&[".", "go"]);
    assert_eq!((told.code, &*told.stdout), (Some(0), "read\n"), "{told}");
    server.assert_valid();
    let sent = server.requests()[1].body["messages"].to_string();
    assert!(sent.contains("one") && sent.contains("two"), "{sent}");
}

#[test]
fn a_broken_answer_is_asked_for_again_and_a_filtered_one_is_a_refusal() {
    let half = |word: &str| {
        stream(&[
            json!({"index": 0, "delta": {"role": "assistant", "content": "Half a sen"}, "finish_reason": null}),
            json!({"index": 0, "delta": {}, "finish_reason": word}),
        ])
    };
    for word in ["insufficient_system_resource", "error", "network_error", "abort"] {
        let server = TestServer::start(Script::turns([half(word), Reply::text("OK")]));
        let scenario = project(&server, Way::OpenAi).file("main.worker", "---\n---\nGo.\n");
        let told = scenario.run(&[".", "go"]);
        assert_eq!((told.code, &*told.stdout), (Some(0), "OK\n"), "{word}: {told}");
    }
    let server = TestServer::start(Script::turns([half("sensitive")]));
    let told = project(&server, Way::OpenAi).file("main.worker", "---\n---\nGo.\n").run(&[".", "go"]);
    assert!(told.code != Some(0) && told.stderr.contains("the model declined"), "{told}");
    let server = TestServer::start(Script::turns([half("bored")]));
    let told = project(&server, Way::OpenAi).file("main.worker", "---\n---\nGo.\n").run(&[".", "go"]);
    assert!(told.code == Some(0) && told.stderr.contains("reason `bored`"), "{told}");
}

#[test]
fn a_made_up_tool_is_shown_and_spoils_no_request() {
    let long = "p".repeat(65);
    for way in [Way::OpenAi, Way::Anthropic, Way::OpenAiWhole, Way::AnthropicWhole] {
        for name in ["functions.ping", "ping<|channel|>commentary", "", &long, "пинг"] {
            let replies =
                [Reply::tool(name, json!({})), Reply::tool(name, json!({"a": 1})), Reply::text("done")];
            let server = TestServer::start(Script::turns(replies));
            let scenario = project(&server, way)
                .file("main.worker", "---\ntoolsets: [filesystem]\n---\nGo.\n")
                .file("a.txt", "one");
            let told = scenario.run(&[".", "go"]);
            assert_eq!((told.code, &*told.stdout), (Some(0), "done\n"), "{way:?} {name}: {told}");
            server.assert_valid();
            let sent = server.requests()[1].body.to_string();
            assert!(sent.contains("There is no tool"), "{sent}");
            assert!(told.stderr.contains("2 calls of tools that were not offered"), "{told}");
            let answered = &scenario.journal().into_iter().find(|record| record["kind"] == "model_answered");
            assert_eq!(answered.as_ref().expect("an answer")["unoffered"], json!([name]));
        }
    }
    let server =
        TestServer::start(Script::turns([Reply::tool("functions.ping", json!({})), Reply::text("done")]));
    let scenario = project(&server, Way::OpenAi).file("main.worker", "---\n---\nGo.\n");
    scenario.run(&[".", "go"]);
    let tree = scenario.run(&["runs", "show", "last"]);
    assert!(tree.stdout.contains("called `functions.ping`, which was not offered"), "{tree}");
    let call = scenario.run(&["runs", "show", "last", "--call", "0"]);
    assert!(call.stdout.contains("`functions.ping` was not offered"), "{call}");
    let page = scenario.run(&["runs", "export", "last", "--html", "-o", "page.html"]);
    assert_eq!(page.code, Some(0), "{page}");
    assert!(scenario.read("page.html").expect("a page").contains("was not offered: the model heard"));
}

/// `größe` as Anthropic gets it.
const SIZE: &str = "gr__e_d353a267";

#[test]
fn a_parameter_that_anthropic_refuses_keeps_its_name_here() {
    for way in [Way::Anthropic, Way::AnthropicWhole] {
        let server =
            TestServer::start(Script::turns([Reply::tool("final_result", json!({SIZE: 3, "plain": 4}))]));
        let scenario = project(&server, way)
            .file("main.worker", "---\nreturns: {größe: integer, plain: integer}\n---\nGo.\n");
        let told = scenario.run(&[".", "go", "--json"]);
        assert_eq!((told.code, output(&told)), (Some(0), json!({"größe": 3, "plain": 4})), "{way:?} {told}");
        server.assert_valid();
    }
}

#[test]
fn integers_are_exact_or_refused_wherever_they_enter() {
    let scenario = |number: &str| {
        Scenario::new()
            .file("main.worker", "---\nmodel: script:s.yaml\nparameters: {n: integer}\n---\nIt is {{ n }}.\n")
            .file("s.yaml", "answers: [{text: ok}]\n")
            .file("rows.jsonl", &format!("{{\"n\": {number}}}\n"))
    };
    for (number, is_kept) in [
        ("9007199254740993", true),
        ("18446744073709551616", false),
        ("-9223372036854775809", false),
        ("123456789012345678901234", false),
        ("12345678901234567890.0", false),
        ("1.0000000000000000001", false),
        ("1e400", false),
    ] {
        let (input, parameter) = (format!("{{\"n\": {number}}}"), format!("n={number}"));
        let map = ["map", "main.worker", "rows.jsonl", "-o", "out.jsonl", "--max-cost", "unlimited"];
        for words in [&[".", "--input", &input][..], &[".", "--param", &parameter], &map] {
            let scenario = scenario(number);
            let told = scenario.run(words);
            if is_kept {
                assert_eq!(told.code, Some(0), "{number}: {told}");
                if words[0] == "map" {
                    assert!(
                        scenario.read("out.jsonl").is_some_and(|text| text.lines().count() == 1),
                        "{told}"
                    );
                    continue;
                }
                let journal = serde_json::to_string(&scenario.journal()).expect("JSON");
                assert!(journal.contains(&format!("It is {number}.")), "{journal}");
                continue;
            }
            assert_ne!(told.code, Some(0), "{number}: {told}");
            let failures = scenario.read("out.jsonl.failures.jsonl");
            let whole = format!("{told} {}", failures.unwrap_or_default());
            let reasons = ["64 bits", "exactly", "out of range", "not a value of type"];
            assert!(reasons.iter().any(|reason| whole.contains(reason)), "{words:?}: {whole}");
        }
    }
}

#[test]
fn integers_of_models_and_of_python_are_exact_or_refused() {
    if !has_python() {
        return;
    }
    let tools =
        "def echo(n: int) -> str:\n    return f'<{n}>'\n\n\ndef big(n: str) -> list:\n    return [int(n)]\n";
    for (number, is_kept) in [
        ("9007199254740993", true),
        ("18446744073709551616", false),
        ("-9223372036854775809", false),
        ("123456789012345678901234", false),
    ] {
        let server = TestServer::start(Script::turns([
            Reply::raw_tool("echo", &format!("{{\"n\": {number}}}")),
            Reply::tool("big", json!({ "n": number })),
            Reply::text("done"),
        ]));
        let scenario = project(&server, Way::OpenAi)
            .file("main.worker", "---\ntoolsets: [custom]\n---\nGo.\n")
            .file("tools.py", tools);
        let told = scenario.run(&[".", "go", "--allow", "echo", "--allow", "big"]);
        assert_eq!(told.code, Some(0), "{told}");
        let requests = server.requests();
        let result = |turn: usize| {
            let messages = requests[turn].body["messages"].as_array().expect("messages").clone();
            messages.last().expect("a result")["content"].as_str().unwrap_or_default().to_owned()
        };
        if is_kept {
            assert_eq!((result(1), result(2)), (format!("<{number}>"), format!("[{number}]")));
        } else {
            assert!(result(1).contains("64 bits") && result(1).contains(number), "{}", result(1));
            assert_eq!(result(2), format!("[\"{number}\"]"), "the digits are a text");
        }
    }
}

#[test]
fn an_image_that_is_none_is_not_sent() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import Image\n\n\ndef empty() -> Image:\n    return Image(b'', media_type='image/png', name='empty.png')\n\n\n\
                 def page() -> Image:\n    return Image(b'<!DOCTYPE html><p>Sorry', media_type='image/png', name='page.png')\n";
    for tool in ["empty", "page"] {
        let server = TestServer::start(Script::turns([Reply::tool(tool, json!({})), Reply::text("I see.")]));
        let scenario = project(&server, Way::Anthropic)
            .file("main.worker", "---\ntoolsets: [custom]\n---\nGo.\n")
            .file("tools.py", tools);
        let told = scenario.run(&[".", "go", "--allow", tool]);
        assert_eq!((told.code, &*told.stdout), (Some(0), "I see.\n"), "{tool}: {told}");
        server.assert_valid();
        let sent = server.requests()[1].body["messages"].to_string();
        assert!(!sent.contains("base64"), "{sent}");
        assert!(
            sent.contains("no bytes") || sent.contains("its content is text: <!DOCTYPE html>"),
            "{tool}: {sent}"
        );
    }
}

#[test]
fn the_wait_in_a_body_is_kept() {
    let body = json!({"error": {"code": 429, "message": "Quota", "status": "RESOURCE_EXHAUSTED", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.07s"}
    ]}});
    let refused = Reply::status(429).body(body.to_string());
    let server = TestServer::start(Script::turns([refused, Reply::text("OK")]));
    let scenario = project(&server, Way::OpenAi).file("main.worker", "---\n---\nGo.\n");
    let told = scenario.run(&[".", "go"]);
    assert_eq!((told.code, &*told.stdout), (Some(0), "OK\n"), "{told}");
    let slept: Vec<Value> = scenario
        .journal()
        .into_iter()
        .filter(|record| record["kind"] == "slept")
        .map(|it| it["ms"].clone())
        .collect();
    assert_eq!(slept, [json!(70)]);
    let refused = Reply::status(429).header("retry-after", "7200");
    let server = TestServer::start(Script::turns([refused]));
    let told = project(&server, Way::OpenAi).file("main.worker", "---\n---\nGo.\n").run(&[".", "go"]);
    assert!(told.stderr.contains("asks to wait 2 h 0 min"), "{told}");
}

#[test]
fn a_page_at_a_wrong_address_is_named_after_one_request() {
    let page = Reply::status(200).body("<!DOCTYPE html>\n<html></html>\n").content_type("text/html");
    let server = TestServer::start(Script::turns([page]));
    let told = project(&server, Way::OpenAi).file("main.worker", "---\n---\nGo.\n").run(&[".", "go"]);
    assert!(told.code != Some(0) && told.stderr.contains("is the base address right?"), "{told}");
    assert_eq!(server.request_count(), 1);
}

/// A limit of something else leaves an answer as long as it is without one.
#[test]
fn only_a_limit_of_tokens_or_money_bounds_an_answer() {
    for (limits, bounded) in
        [("{max_turns: 5}", false), ("{timeout: 60s}", false), ("{max_tokens: 100000}", true)]
    {
        let server = TestServer::start(Script::turns([Reply::text("OK")]));
        let worker = format!("---\nlimits: {limits}\n---\nGo.\n");
        let told = project(&server, Way::OpenAi).file("main.worker", &worker).run(&[".", "go"]);
        assert_eq!(told.code, Some(0), "{told}");
        assert_eq!(server.requests()[0].body.get("max_tokens").is_some(), bounded, "{limits}");
    }
}
