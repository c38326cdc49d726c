//! Effects and state: a call that had its effects does not look failed, and the calls of a turn run in order.

use super::fixture::{WORKER, call, calling, failure, has_python, holds, output, record, succeed, writing};
use crate::scenario::Scenario;
use serde_json::json;

#[test]
fn result_that_does_not_fit_its_annotation_is_handed_on_with_a_note() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import ToolContext\n\n\
                 def send(text: str) -> int:\n    open('out/sent.txt', 'a').write(text)\n    return 'sent'\n\n\
                 def post(ctx: ToolContext, text: str) -> int:\n    open('out/sent.txt', 'a').write(text)\n    return 'posted'\n";
    let scenario = writing(
        tools,
        &[
            json!({"tool": "send", "arguments": {"text": "a"}}),
            json!({"tool": "post", "arguments": {"text": "b"}}),
        ],
    );
    succeed(&scenario, &["."]);
    assert_eq!(scenario.read("out/sent.txt").as_deref(), Some("ab"));
    assert_eq!(output(&scenario, "0/0.0"), "sent");
    let log = record(&scenario, "0/0.0", "tool_ended")["log"].to_string();
    holds(&log, &["the result of `send` does not fit its return type"]);
    assert_eq!(output(&scenario, "0/1.0"), "posted");
    holds(&record(&scenario, "0/1.0", "note")["text"].to_string(), &["the result of `post` does not fit"]);
}

#[test]
fn result_without_a_json_form_is_handed_on_as_text() {
    if !has_python() {
        return;
    }
    let tools = "def measure() -> dict:\n    return {'value': float('nan'), 'unit': 'm'}\n\n\
                 def long() -> str:\n    return 'x' * 100_000_000\n\n\
                 def cyclic() -> list:\n    a = []\n    a.append({'a': a})\n    return a\n\n\
                 def lazy() -> list:\n    return (n for n in range(3))\n";
    let scenario = calling(tools, &[call("measure"), call("long"), call("lazy"), call("cyclic")]);
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), json!({"value": "nan", "unit": "m"}));
    holds(&record(&scenario, "0/0.0", "tool_ended")["log"].to_string(), &["['value'] is nan"]);
    holds(&output(&scenario, "0/1.0").to_string(), &["the limit is 16 MiB"]);
    // A generator has done nothing yet.
    holds(&failure(&scenario, "0/2.0"), &["list(…)"]);
    holds(&record(&scenario, "0/3.0", "tool_ended")["log"].to_string(), &["contains itself"]);
}

/// A scenario whose model makes all these calls in one turn.
fn in_one_turn(tools: &str, calls: &[&str]) -> Scenario {
    let calls: Vec<_> = calls.iter().map(|tool| call(tool)).collect();
    let answers = json!({"answers": [{"when": {"turn": 0}, "calls": calls}, {"text": "done"}]});
    Scenario::new().file("main.worker", WORKER).file("tools.py", tools).file("s.yaml", &answers.to_string())
}

#[test]
fn functions_of_one_turn_run_in_order_in_one_process() {
    if !has_python() {
        return;
    }
    let tools = "import os, time\nfrom llm_do import tool\n\nSESSION = None\n\n\
                 @tool\ndef login() -> int:\n    global SESSION\n    time.sleep(0.3)\n    SESSION = 'open'\n    return os.getpid()\n\n\
                 @tool(risk='read')\ndef post() -> int:\n    assert SESSION == 'open', 'log in first'\n    return os.getpid()\n\n\
                 @tool(parallel=False)\ndef count() -> int:\n    return os.getpid()\n";
    let scenario = in_one_turn(tools, &["login", "post", "count"]);
    succeed(&scenario, &["."]);
    let first = output(&scenario, "0/0.0");
    assert_eq!([output(&scenario, "0/0.1"), output(&scenario, "0/0.2")], [first.clone(), first]);
}

#[test]
fn functions_that_say_parallel_run_beside_each_other() {
    if !has_python() {
        return;
    }
    // Each waits until the other has begun.
    let tools = "import asyncio\nfrom llm_do import tool\n\nBEGUN = set()\n\n\
                 async def meet(me, other):\n    BEGUN.add(me)\n    while other not in BEGUN:\n        await asyncio.sleep(0.01)\n    return me\n\n\
                 @tool(parallel=True)\nasync def a() -> str:\n    return await meet('a', 'b')\n\n\
                 @tool(parallel=True)\nasync def b() -> str:\n    return await meet('b', 'a')\n";
    let scenario = in_one_turn(tools, &["a", "b"]);
    succeed(&scenario, &["."]);
    assert_eq!([output(&scenario, "0/0.0"), output(&scenario, "0/0.1")], [json!("a"), json!("b")]);
}

#[test]
fn companion_schema_describes_the_whole_input_of_a_function() {
    if !has_python() {
        return;
    }
    let tools = "def greet(args: dict) -> str:\n    return 'Hello, ' + args['name']\n\n\
                 greet_schema = {'type': 'object', 'properties': {'name': {'type': 'string'}}, 'required': ['name']}\n";
    let scenario = calling(
        tools,
        &[
            json!({"tool": "greet", "arguments": {"name": "Ada"}}),
            json!({"tool": "greet", "arguments": {"name": 3}}),
        ],
    );
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), "Hello, Ada");
    holds(&failure(&scenario, "0/1.0"), &["/name"]);
}

#[test]
fn functions_of_parallel_workers_take_one_process_in_turns() {
    if !has_python() {
        return;
    }
    let tools = "import os, time\n\nCOUNT = 0\n\n\
                 def count() -> list:\n    global COUNT\n    before = COUNT\n    time.sleep(0.2)\n    COUNT = before + 1\n    return [COUNT, os.getpid()]\n";
    let workers = ["a", "b", "c"];
    let calls: Vec<_> = workers.iter().map(|worker| json!({"tool": worker, "arguments": {}})).collect();
    let answers = json!({"answers": [
        {"when": {"worker": "main", "turn": 0}, "calls": calls},
        {"when": {"worker": "main"}, "text": "done"},
        {"when": {"turn": 0}, "calls": [call("count")]},
        {"text": "counted"},
    ]});
    let mut scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\nallow_workers: [a, b, c]\n---\nGo.\n")
        .file("tools.py", tools)
        .file("s.yaml", &answers.to_string());
    for worker in workers {
        scenario = scenario.file(&format!("workers/{worker}.worker"), WORKER);
    }
    succeed(&scenario, &["."]);
    let mut counted: Vec<_> = (0..3).map(|n| output(&scenario, &format!("0/0.{n}/0.0"))).collect();
    counted.sort_by_key(|value| value[0].as_i64());
    let process = &counted[0][1];
    assert_eq!(counted, [json!([1, process]), json!([2, process]), json!([3, process])]);
}

#[test]
fn time_limit_does_not_include_the_wait_for_a_turn() {
    if !has_python() {
        return;
    }
    let workers = ["a", "b", "c"];
    let calls: Vec<_> = workers.iter().map(|worker| json!({"tool": worker, "arguments": {}})).collect();
    let answers = json!({"answers": [
        {"when": {"worker": "main", "turn": 0}, "calls": calls},
        {"when": {"worker": "main"}, "text": "done"},
        {"when": {"turn": 0}, "calls": [call("slow")]},
        {"text": "slow"},
    ]});
    let worker =
        "---\nmodel: script:s.yaml\ntoolsets: [custom]\ntool_rules: {slow: {timeout: 2s}}\n---\nGo.\n";
    let mut scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\nallow_workers: [a, b, c]\n---\nGo.\n")
        .file("tools.py", "import time\n\ndef slow() -> int:\n    time.sleep(1.2)\n    return 1\n")
        .file("s.yaml", &answers.to_string());
    for name in workers {
        scenario = scenario.file(&format!("workers/{name}.worker"), worker);
    }
    succeed(&scenario, &["."]);
    for number in 0..3 {
        assert_eq!(output(&scenario, &format!("0/0.{number}/0.0")), 1);
    }
}

#[test]
fn function_that_a_waiting_function_leads_to_does_not_wait_for_it() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import ToolContext\n\n\
                 def leads(ctx: ToolContext) -> str:\n    return ctx.call('helper')\n\n\
                 def answers() -> str:\n    return 'answered'\n";
    let answers = json!({"answers": [
        {"when": {"worker": "main", "turn": 0}, "calls": [call("leads")]},
        {"when": {"worker": "helper", "turn": 0}, "calls": [call("answers")]},
        {"text": "{{ last }}"},
    ]});
    let scenario = Scenario::new()
        .file("main.worker", WORKER)
        .file("workers/helper.worker", WORKER)
        .file("tools.py", tools)
        .file("s.yaml", &answers.to_string());
    assert_eq!(succeed(&scenario, &["."]).stdout, "answered\n");
}

#[test]
fn state_of_a_package_is_shared_and_survives_a_resume() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import ToolContext, tool\n\n\
                 @tool(risk='read')\ndef note(ctx: ToolContext, word: str) -> int:\n    \
                 words = ctx.state.get('words', []) + [word]\n    ctx.state.set('words', words)\n    return len(words)\n\n\
                 @tool(risk='read', approval='ask')\nasync def recall(ctx: ToolContext) -> list:\n    return await ctx.state.get('words', [])\n";
    let note = |word: &str| json!({"tool": "note", "arguments": {"word": word}});
    let scenario = calling(tools, &[note("a"), note("b"), call("recall")]);
    let told = scenario.run(&[".", "--approval", "defer"]);
    assert_eq!(told.code, Some(5), "{told}");
    let told = scenario.run(&["runs", "resume", "last", "--approve", "0/2.0"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!([output(&scenario, "0/0.0"), output(&scenario, "0/1.0")], [json!(1), json!(2)]);
    assert_eq!(output(&scenario, "0/2.0"), json!(["a", "b"]));
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
}
