//! Functions that share a process: above those that wait for their own calls, beside others in threads.

use super::fixture::{WORKER, call, calling, ending, failure, has_python, holds, output, script, succeed};
use crate::scenario::Scenario;
use serde_json::{Value, json};

/// A program whose `main` makes these calls at once, with further workers that all make one call and then say its result.
fn workers(tools: &str, calls: &[Value], workers: &[(&str, &str)]) -> Scenario {
    let mut answers = vec![
        json!({"when": {"worker": "main", "turn": 0}, "calls": calls}),
        json!({"when": {"worker": "main"}, "text": "done"}),
    ];
    let names: Vec<&str> = workers.iter().map(|(name, _)| *name).collect();
    let mut scenario = Scenario::new()
        .file(
            "main.worker",
            &format!(
                "---\nmodel: script:s.yaml\ntoolsets: [custom]\nallow_workers: [{}]\n---\nGo.\n",
                names.join(", ")
            ),
        )
        .file("tools.py", tools);
    for (name, tool) in workers {
        answers.push(json!({"when": {"worker": name, "turn": 0}, "calls": [call(tool)]}));
        answers.push(json!({"when": {"worker": name}, "text": "{{ last }}"}));
        scenario = scenario.file(&format!("workers/{name}.worker"), WORKER);
    }
    scenario.file("s.yaml", &json!({ "answers": answers }).to_string())
}

#[test]
fn state_of_a_module_is_one_above_functions_that_wait() {
    if !has_python() {
        return;
    }
    let tools = "ME = __import__('os').urandom(8).hex()\nimport os\nfrom llm_do import ToolContext\n\nSTEPS = []\n\n\
                 def a(ctx: ToolContext) -> list:\n    STEPS.append('a')\n    ctx.call('one')\n    STEPS.append('a again')\n    return STEPS + [ME]\n\n\
                 def b(ctx: ToolContext) -> str:\n    STEPS.append('b')\n    ctx.call('two')\n    STEPS.append('b again')\n    return ME\n\n\
                 def c(ctx: ToolContext) -> str:\n    STEPS.append('c')\n    ctx.call('d')\n    STEPS.append('c again')\n    return ME\n\n\
                 async def d() -> str:\n    STEPS.append('d')\n    return ME\n";
    let scenario = workers(tools, &[call("a")], &[("one", "b"), ("two", "c")]);
    succeed(&scenario, &["."]);
    let steps = output(&scenario, "0/0.0");
    let process = steps[7].clone();
    assert_eq!(steps, json!(["a", "b", "c", "d", "c again", "b again", "a again", process]));
}

#[test]
fn another_worker_changes_the_state_while_a_function_waits() {
    if !has_python() {
        return;
    }
    let tools = "ME = __import__('os').urandom(8).hex()\nimport os\nfrom llm_do import ToolContext\n\nSTATE = {}\n\n\
                 def wait(ctx: ToolContext) -> list:\n    before = dict(STATE)\n    while not STATE:\n        ctx.call('nothing')\n    return [before, STATE, ME]\n\n\
                 def change() -> str:\n    STATE['changed'] = True\n    return ME\n\n\
                 def nothing() -> None:\n    pass\n";
    let calls = [call("waiting"), call("changing")];
    let scenario = workers(tools, &calls, &[("waiting", "wait"), ("changing", "change")]);
    succeed(&scenario, &["."]);
    let process = output(&scenario, "0/0.1/0.0");
    let seen = output(&scenario, "0/0.0/0.0");
    assert_eq!([&seen[1], &seen[2]], [&json!({"changed": true}), &process]);
}

#[test]
fn a_thousand_calls_keep_one_state() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import ToolContext\n\nCOUNT = 0\n\n\
                 def count() -> int:\n    global COUNT\n    COUNT += 1\n    return COUNT\n\n\
                 def many(ctx: ToolContext) -> list:\n    \
                 one = [ctx.call('count') for _ in range(500)]\n    \
                 all = ctx.call_all([('count', {})] * 500)\n    return [one == list(range(1, 501)), sorted(all) == list(range(501, 1001)), COUNT]\n";
    let scenario = calling(tools, &[call("many")]);
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), json!([true, true, 1000]));
}

#[test]
fn time_limit_does_not_include_the_wait_to_go_on() {
    if !has_python() {
        return;
    }
    let tools = "import time\nfrom llm_do import ToolContext\n\n\
                 def limited(ctx: ToolContext) -> str:\n    ctx.call('quick')\n    return 'went on'\n\n\
                 def quick() -> None:\n    time.sleep(0.3)\n\n\
                 def slow() -> None:\n    time.sleep(3)\n";
    let limited =
        "---\nmodel: script:s.yaml\ntoolsets: [custom]\ntool_rules: {limited: {timeout: 2s}}\n---\nGo.\n";
    let calls = [call("first"), call("second")];
    let scenario = workers(tools, &calls, &[("first", "limited"), ("second", "slow")])
        .file("workers/first.worker", limited);
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0/0.0"), "went on");
}

#[test]
fn parallel_functions_run_in_threads_of_one_process() {
    if !has_python() {
        return;
    }
    let tools = "ME = __import__('os').urandom(8).hex()\nimport os, threading\nfrom llm_do import ToolContext, tool\n\nMEETING = threading.Barrier(2, timeout=60)\n\n\
                 @tool(parallel=True)\ndef meet(ctx: ToolContext, n: int) -> list:\n    MEETING.wait()\n    print('in', n)\n    return [ctx.call('echo', n=n), ME]\n\n\
                 @tool\ndef echo(n: int) -> int:\n    return n\n";
    let meet = |n: i64| json!({"tool": "meet", "arguments": {"n": n}});
    let answers = json!({"answers": [{"when": {"turn": 0}, "calls": [meet(1), meet(2)]}, {"text": "done"}]});
    let scenario = calling(tools, &[]).file("s.yaml", &answers.to_string());
    succeed(&scenario, &["."]);
    let process = output(&scenario, "0/0.0")[1].clone();
    for n in [1, 2] {
        let path = format!("0/0.{}", n - 1);
        assert_eq!(output(&scenario, &path), json!([n, process]));
        let said = super::fixture::record(&scenario, &path, "note")["text"].to_string();
        holds(&said, &[&format!("in {n}")]);
    }
}

#[test]
fn functions_in_processes_of_their_own_share_no_state() {
    if !has_python() {
        return;
    }
    let tools = "ME = __import__('os').urandom(8).hex()\nimport os\nfrom llm_do import tool\n\n\
                 @tool(parallel='process')\ndef own() -> str:\n    return ME\n\n\
                 @tool\ndef home() -> str:\n    return ME\n";
    let scenario = calling(tools, &[call("home"), call("own"), call("home")]);
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), output(&scenario, "0/2.0"));
    assert_ne!(output(&scenario, "0/0.0"), output(&scenario, "0/1.0"));
}

#[test]
fn check_and_run_refuse_an_unknown_kind_of_parallel() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import tool\n\n@tool(parallel='threads')\ndef f() -> int:\n    return 1\n";
    let scenario = calling(tools, &[call("f")]);
    for command in [&["check", "."][..], &["."]] {
        let told = scenario.run(command);
        assert_ne!(told.code, Some(0), "{told}");
        let said = format!("{}{}", told.stdout, told.stderr);
        holds(&said, &["`parallel` must be True, False or \"process\", not 'threads'"]);
    }
}

#[test]
fn thread_that_does_not_stop_ends_only_its_own_call() {
    if !has_python() {
        return;
    }
    let tools = "ME = __import__('os').urandom(8).hex()\nimport os, time\nfrom llm_do import ToolContext, tool\n\n\
                 @tool(parallel=True)\ndef stuck() -> None:\n    time.sleep(100_000)\n\n\
                 @tool\ndef leads(ctx: ToolContext) -> list:\n    try:\n        ctx.call('stuck')\n    except Exception as error:\n        time.sleep(2)\n        return [str(error), ME]\n\n\
                 @tool\ndef next() -> str:\n    return ME\n";
    let worker =
        "---\nmodel: script:s.yaml\ntoolsets: [custom]\ntool_rules: {stuck: {timeout: 300ms}}\n---\nGo.\n";
    let scenario = calling(tools, &[call("leads"), call("next")]).file("main.worker", worker);
    succeed(&scenario, &["."]);
    let seen = output(&scenario, "0/0.0");
    holds(&seen[0].to_string(), &["stuck"]);
    // The next call gets another process, because the thread is still there.
    assert_ne!(seen[1], output(&scenario, "0/1.0"));
}

#[test]
fn killed_process_fails_all_its_calls_and_is_replaced() {
    if !has_python() {
        return;
    }
    let tools = "ME = __import__('os').urandom(8).hex()\nimport os\nfrom llm_do import ToolContext\n\n\
                 def outer(ctx: ToolContext) -> str:\n    return ctx.call('inner')\n\n\
                 def inner() -> str:\n    os._exit(3)\n\n\
                 def next() -> str:\n    return 'works'\n";
    let scenario = calling(tools, &[call("outer"), call("next")]);
    succeed(&scenario, &["."]);
    holds(
        &failure(&scenario, "0/0.0"),
        &["`outer` failed because the process that it shared with other calls has ended", "exit code 3"],
    );
    assert_eq!(output(&scenario, "0/1.0"), "works");
}

#[test]
fn function_that_does_not_stop_is_named_to_those_below_it() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import ToolContext\n\n\
                 def outer(ctx: ToolContext) -> str:\n    return ctx.call('helper')\n\n\
                 def endless() -> None:\n    while True:\n        try:\n            while True:\n                pass\n        except BaseException:\n            pass\n\n\
                 def next() -> str:\n    return 'works'\n";
    let helper = "---\nmodel: script:helper.yaml\ntoolsets: [custom]\ntool_rules: {endless: {timeout: 300ms}}\n---\nGo.\n";
    let scenario = calling(tools, &[call("outer"), call("next")])
        .file("workers/helper.worker", helper)
        .file("helper.yaml", &script(&[call("endless")]));
    succeed(&scenario, &["."]);
    let said = ending(&scenario, "0/0.0").to_string();
    holds(&said, &["`endless` in it was given up and did not stop"]);
    assert_eq!(output(&scenario, "0/1.0"), "works");
}
