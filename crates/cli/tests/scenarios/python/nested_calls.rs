//! Nested calls: workers call functions, and functions call workers and tools, with one gate, depth limit and journal.

use super::fixture::{
    call, calling, ending, failure, has_python, holds, output, record, run, script, succeed, writing,
};
use crate::scenario::Scenario;
use serde_json::json;

/// Workers `w1` to `w5`; each calls the next one through Python.
const DOWN: &str = "from llm_do import CallError, ToolContext\n\n\
                    def down(ctx: ToolContext, n: int) -> str:\n    \"\"\"Calls the n-th worker.\"\"\"\n    \
                    try:\n        return f\"down {n} -> {ctx.call(f'w{n}', input=f'level {n}')}\"\n    \
                    except CallError as error:\n        return f'down {n} refused ({error.kind}): {error}'\n";

fn chain(length: usize, more: &str) -> Scenario {
    let mut scenario = calling(DOWN, &[json!({"tool": "down", "arguments": {"n": 1}})])
        .file("main.worker", &format!("---\nmodel: script:s.yaml\ntoolsets: [custom]\n{more}---\nGo.\n"));
    let answers = json!({"answers": [
        {"when": {"turn": 0, "worker": "main"}, "calls": [{"tool": "down", "arguments": {"n": 1}}]},
        {"when": {"turn": 1}, "text": "{{ worker }}({{ last }})"},
    ]});
    let mut answers = answers["answers"].as_array().expect("a list").clone();
    for n in 1..=length {
        let text = format!("---\nmodel: script:s.yaml\ntoolsets: [custom]\n{more}---\nGo on.\n");
        scenario = scenario.file(&format!("workers/w{n}.worker"), &text);
        let worker = format!("w{n}");
        answers.push(if n == length {
            json!({"when": {"worker": worker}, "text": "bottom"})
        } else {
            json!({"when": {"turn": 0, "worker": worker}, "calls": [{"tool": "down", "arguments": {"n": n + 1}}]})
        });
    }
    scenario.file("s.yaml", &json!({ "answers": answers }).to_string())
}

#[test]
fn workers_and_functions_nest_five_levels() {
    if !has_python() {
        return;
    }
    let scenario = chain(5, "");
    let told = succeed(&scenario, &["."]);
    assert_eq!(
        told.stdout,
        "main(down 1 -> w1(down 2 -> w2(down 3 -> w3(down 4 -> w4(down 5 -> bottom)))))\n"
    );
    // Each call is one level below the function that made it, with that function as its principal.
    let journal = scenario.journal();
    let deepest =
        journal.iter().find(|r| r["kind"] == "call_started" && r["function"] == "w5").expect("a call");
    assert_eq!(deepest["principal"], json!({"tool": {"tool": "down", "worker": "w4"}}));
    assert_eq!(deepest["path"].as_str().expect("a path").matches("/w").count(), 5, "{deepest:#}");
}

#[test]
fn depth_limit_is_a_catchable_error() {
    if !has_python() {
        return;
    }
    let scenario = chain(6, "");
    let told = succeed(&scenario, &["."]);
    holds(&told.stdout, &["down 6 refused (limit)", "depth 6"]);
    assert!(
        !scenario.journal().iter().any(|r| r["kind"] == "conversation_started" && r["worker"] == "w6"),
        "it never began"
    );
    let scenario = chain(3, "limits: {max_depth: 2}\n");
    holds(&succeed(&scenario, &["."]).stdout, &["down 3 refused (limit)"]);
}

#[test]
fn recursion_through_python_is_refused() {
    if !has_python() {
        return;
    }
    let scenario = chain(2, "");
    let answers = json!({"answers": [
        {"when": {"worker": "main", "turn": 0}, "calls": [{"tool": "down", "arguments": {"n": 1}}]},
        {"when": {"worker": "w1", "turn": 0}, "calls": [{"tool": "back", "arguments": {}}]},
        {"text": "{{ worker }}({{ last }})"},
    ]});
    let tools = format!(
        "{DOWN}\n\ndef back(ctx: ToolContext) -> str:\n    try:\n        return ctx.call('main')\n    except CallError as error:\n        \
         return f'refused: {{error}}'\n"
    );
    let scenario = scenario.file("s.yaml", &answers.to_string()).file("tools.py", &tools);
    holds(&succeed(&scenario, &["."]).stdout, &["refused: ", "main"]);
    assert_eq!(scenario.journal().iter().filter(|r| r["kind"] == "conversation_started").count(), 2);
}

#[test]
fn tool_calls_itself_ten_levels_deep() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import ToolContext\n\n\
                 def f(ctx: ToolContext, n: int) -> int:\n    return n if n == 0 else ctx.call_tool('f', n=n - 1) + n\n";
    let scenario = calling(tools, &[json!({"tool": "f", "arguments": {"n": 10}})]);
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), 55);
}

#[test]
fn infinite_recursion_is_stopped() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import ToolContext\n\ndef f(ctx: ToolContext, n: int) -> int:\n    return ctx.call('f', n=n + 1)\n";
    let scenario = calling(tools, &[json!({"tool": "f", "arguments": {"n": 0}})]);
    succeed(&scenario, &["."]);
    holds(&failure(&scenario, "0/0.0"), &["too deep"]);
}

#[test]
fn refused_nested_call_is_a_catchable_error() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import CallError, ToolContext\n\n\
                 def f(ctx: ToolContext) -> list:\n    said = []\n    for path in ['free.txt', 'secret.txt']:\n        try:\n            \
                 said.append(ctx.call('write_file', path=path, content='x'))\n        except CallError as error:\n            \
                 said.append([error.kind, str(error)])\n    return said\n\n\
                 def g(ctx: ToolContext) -> str:\n    return ctx.call('write_file', path='secret.txt', content='x')\n";
    let scenario = calling(tools, &[call("f"), call("g")])
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [custom, filesystem]\n---\nGo.\n");
    let told =
        succeed(&scenario, &[".", "--allow", "write_file(free.txt)", "--deny", "write_file(secret.txt)"]);
    holds(&told.stderr, &["2 calls were refused"]);
    let said = output(&scenario, "0/0.0");
    assert_eq!(said[1][0], "blocked", "{said:#}");
    // An error that is not caught is the failure of the function.
    holds(&failure(&scenario, "0/1.0"), &["write_file"]);
    assert_eq!(scenario.read("free.txt").as_deref(), Some("x"));
    assert_eq!(scenario.read("secret.txt"), None);
}

#[test]
fn nested_call_that_needs_an_approval_suspends_the_run() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import ToolContext\n\n\
                 def f(ctx: ToolContext) -> str:\n    return ctx.call('write_file', path='a.txt', content='x')\n";
    let scenario = calling(tools, &[call("f")])
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [custom, filesystem]\n---\nGo.\n");
    let told = run(&scenario, &[".", "--approval", "defer"]);
    assert_eq!(told.code, Some(5), "{told}");
    holds(&told.stderr, &["waits for 1 approval", "write_file", "0/0.0/write_file#"]);
    assert_eq!(scenario.read("a.txt"), None);
    assert_eq!(scenario.journal().last().expect("a record")["status"], "suspended");
}

#[test]
fn call_all_returns_results_in_order() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import CallError, ToolContext\n\n\
                 def f(ctx: ToolContext) -> list:\n    \
                 given = ctx.call_all([('echo', {'input': 'a'}), ('nobody', {}), ('echo', {'input': 'b'})], return_exceptions=True)\n    \
                 return [type(one).__name__ if isinstance(one, CallError) else one for one in given]\n\n\
                 async def g(ctx: ToolContext) -> list:\n    return await ctx.call_all([('echo', {'input': str(n)}) for n in range(8)])\n";
    let scenario = calling(tools, &[call("f"), call("g")])
        .file("workers/echo.worker", "---\nmodel: script:echo.yaml\n---\nEcho.\n")
        .file(
            "echo.yaml",
            "answers:\n  - when: {last: a}\n    text: A\n    delay_ms: 30\n  - text: \"{{ last }}\"\n",
        );
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), json!(["A", "CallError", "b"]));
    assert_eq!(output(&scenario, "0/1.0"), json!(["0", "1", "2", "3", "4", "5", "6", "7"]));
}

#[test]
fn parallel_tools_of_one_turn_run_concurrently() {
    if !has_python() {
        return;
    }
    // Each call waits for the other, so that they end only together.
    let tools = "import asyncio, time\nfrom pathlib import Path\nfrom llm_do import tool\n\n\
                 @tool(parallel=True)\ndef meet(out: Path, me: str, other: str) -> bool:\n    (out / me).touch()\n    \
                 for _ in range(6000):\n        if (out / other).exists():\n            return True\n        time.sleep(0.01)\n    return False\n\n\
                 @tool(parallel=True)\nasync def join(out: Path, me: str, other: str) -> bool:\n    (out / me).touch()\n    \
                 for _ in range(6000):\n        if (out / other).exists():\n            return True\n        await asyncio.sleep(0.01)\n    return False\n";
    let pair = |tool: &str, a: &str, b: &str| json!({"tool": tool, "arguments": {"out": "/out", "me": a, "other": b}});
    let answers = json!({"answers": [
        {"when": {"turn": 0}, "calls": [pair("meet", "a", "b"), pair("meet", "b", "a")]},
        {"when": {"turn": 1}, "calls": [pair("join", "c", "d"), pair("join", "d", "c")]},
        {"text": "done"},
    ]});
    let scenario = writing(tools, &[]).file("s.yaml", &answers.to_string());
    succeed(&scenario, &["."]);
    for place in ["0/0.0", "0/0.1", "0/1.0", "0/1.1"] {
        assert_eq!(output(&scenario, place), true, "{place}");
    }
}

#[test]
fn threads_of_a_function_can_call_concurrently() {
    if !has_python() {
        return;
    }
    let tools = "from concurrent.futures import ThreadPoolExecutor\nfrom llm_do import ToolContext\n\n\
                 def add(a: int, b: int) -> int:\n    return a + b\n\n\
                 def f(ctx: ToolContext) -> list:\n    with ThreadPoolExecutor(8) as pool:\n        \
                 return list(pool.map(lambda n: ctx.call('add', a=n, b=n), range(24)))\n";
    let scenario = calling(tools, &[call("f")]);
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), json!((0..24).map(|n| 2 * n).collect::<Vec<_>>()));
}

#[test]
fn step_is_recorded_under_its_name() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import ToolContext\n\n\
                 def f(ctx: ToolContext) -> list:\n    def broken():\n        raise ValueError('no')\n    \
                 said = [ctx.step('number', lambda: 4), ctx.step('number', lambda: 5)]\n    \
                 try:\n        ctx.step('broken', broken)\n    except ValueError as error:\n        said.append(str(error))\n    return said\n";
    let scenario = calling(tools, &[call("f")]);
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), json!([4, 5, "no"]));
    let steps: Vec<String> = scenario
        .journal()
        .iter()
        .filter(|r| r["kind"] == "tool_ended")
        .map(|r| r["path"].as_str().expect("a path").to_owned())
        .collect();
    assert_eq!(steps, ["0/0.0/step-number.0", "0/0.0/step-number.1", "0/0.0/step-broken.0"]);
}

#[test]
fn context_describes_the_call() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import ToolContext\n\n\
                 def f(ctx: ToolContext) -> dict:\n    ctx.log('noted', 1)\n    return {'worker': ctx.worker, 'run': ctx.run_id, \
                 'key': ctx.idempotency_key, 'cancelled': ctx.cancelled, \
                 'out': ctx.sandbox.virtual(ctx.sandbox.path('/out/a.txt'))}\n";
    let scenario = writing(tools, &[call("f")]);
    succeed(&scenario, &["."]);
    let said = output(&scenario, "0/0.0");
    let id = record(&scenario, "0", "run_started")["run"].as_str().expect("an ID").to_owned();
    let expected = json!({"worker": "main", "run": id, "key": format!("{id}:0/0.0"),                           "cancelled": false, "out": "/out/a.txt"});
    assert_eq!(said, expected);
    assert!(
        scenario.journal().iter().any(|r| r["kind"] == "note" && r["text"] == "noted 1\n"),
        "the journal has it"
    );
}

#[test]
fn program_can_be_python_only() {
    if !has_python() {
        return;
    }
    let scenario = Scenario::new().file("project.yaml", "entry: flow.py:main\n").file(
        "flow.py",
        "from llm_do import ToolContext\n\ndef main(input: dict, ctx: ToolContext) -> dict:\n    \
             return {'sum': sum(input['numbers']), 'by': ctx.worker}\n",
    );
    let told = succeed(&scenario, &[".", "--input", "{\"numbers\": [1, 2, 3]}"]);
    let said: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(said["sum"], 6);
}

#[test]
fn library_cannot_call_tools_of_its_caller() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import CallError, ToolContext\n\n\
                 def sneak(ctx: ToolContext) -> str:\n    try:\n        return ctx.call('write_file', path='a.txt', content='x')\n    \
                 except CallError as error:\n        return f'refused: {error.kind}'\n";
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [custom, filesystem]\n---\nGo.\n")
        .file("project.yaml", "name: p\ndependencies: [kit]\n")
        .file("libs/kit@1.0.0/lib.yaml", "name: kit\nversion: 1.0.0\nexports: []\n")
        .file("libs/kit@1.0.0/tools/sneaky.py", tools)
        .file("s.yaml", &script(&[call("sneak")]));
    succeed(&scenario, &[".", "--lib", "libs", "--approval", "approve_all"]);
    let ended = ending(&scenario, "0/0.0");
    assert_eq!(ended["output"], "refused: definition", "{ended:#}");
    assert_eq!(scenario.read("a.txt"), None);
}

#[test]
fn call_of_a_tool_without_its_toolset_names_the_toolsets() {
    if !has_python() {
        return;
    }
    let scenario = Scenario::new().file("project.yaml", "entry: flow.py:main\n").file(
        "flow.py",
        "def main(input, ctx):\n    return ctx.call('write_file', path='a.txt', content='x')\n",
    );
    let told = scenario.run(&[".", "x"]);
    assert!(told.stderr.contains("there are none: a tool needs its toolset under `toolsets`"), "{told}");
    let scenario =
        scenario.file("project.yaml", "entry: flow.py:main\ntoolsets: {filesystem: {tools: [read_file]}}\n");
    let told = scenario.run(&[".", "x"]);
    assert!(told.stderr.contains("there are: read_file. Another one needs its toolset"), "{told}");
}

#[test]
fn context_has_the_effective_approval_mode() {
    if !has_python() {
        return;
    }
    let tools =
        "from llm_do import ToolContext\n\ndef f(ctx: ToolContext) -> str:\n    return ctx.approvals.mode\n";
    let scenario = calling(tools, &[call("f")]);
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), record(&scenario, "0", "run_started")["approval"]);
}

#[test]
fn a_timeout_of_a_rule_holds_for_a_function_that_makes_calls() {
    if !has_python() {
        return;
    }
    let code = "import time\nfrom llm_do import ToolContext\n\n\
                def sleepy(ctx: ToolContext) -> str:\n    \"\"\"Sleeps.\"\"\"\n    time.sleep(60)\n    return 'late'\n";
    let rules = "tool_rules: {sleepy: {timeout: 1500ms}}";
    let scenario = calling(code, &[json!({"tool": "sleepy"})])
        .file("main.worker", &format!("---\nmodel: script:s.yaml\ntoolsets: [custom]\n{rules}\n---\nGo.\n"));
    run(&scenario, &["."]);
    let journal = scenario.journal();
    let ended = journal
        .iter()
        .find(|record| record["path"] == "0/0.0" && record["kind"] == "call_ended")
        .expect("the call has ended");
    assert_eq!(ended["ending"]["failure"]["kind"], "timeout", "{ended:#}");
}
