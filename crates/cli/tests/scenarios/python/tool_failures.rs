//! Tools that fail: the call fails with a reason, the run continues, and no process is left.

use super::fixture::{call, calling, ending, failure, has_python, holds, output, record, succeed, writing};
use crate::scenario::Scenario;
use serde_json::{Value, json};

/// A tool that works, and must still work after the failure of another.
const ADD: &str = "\n\ndef add(a: int, b: int) -> int:\n    return a + b\n";

/// Calls the function `f`, and then `add`.
fn continues_after(tools: &str) -> Scenario {
    continues(calling(&format!("{tools}{ADD}"), &[call("f"), sum()]))
}

fn sum() -> Value {
    json!({"tool": "add", "arguments": {"a": 2, "b": 3}})
}

fn continues(scenario: Scenario) -> Scenario {
    let told = succeed(&scenario, &["."]);
    assert_eq!(told.stdout, "done\n", "{told}");
    assert_eq!(output(&scenario, "0/1.0"), 5, "the next call works");
    scenario
}

/// The output of `f` in the journal.
fn log(scenario: &Scenario) -> String {
    record(scenario, "0/0.0", "tool_ended")["log"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn exception_shows_only_frames_of_the_program() {
    if !has_python() {
        return;
    }
    let scenario = continues_after(
        "import json\n\ndef f() -> int:\n    return inner()\n\ndef inner():\n    return json.loads('{')\n",
    );
    let told = failure(&scenario, "0/0.0");
    holds(&told, &["JSONDecodeError: Expecting property name", "tools.py:4 in f", "tools.py:7 in inner"]);
    assert!(!told.contains("json/") && !told.contains("host.py"), "{told}");
}

#[test]
fn invalid_arguments_are_rejected_before_execution() {
    if !has_python() {
        return;
    }
    let tools = format!("def f(n: int) -> int:\n    return n\n{ADD}");
    let scenario = continues(calling(&tools, &[json!({"tool": "f", "arguments": {"n": "many"}}), sum()]));
    holds(&failure(&scenario, "0/0.0"), &["/n", "integer"]);
    assert!(!scenario.journal().iter().any(|r| r["path"] == "0/0.0" && r["kind"] == "tool_started"));
}

#[test]
fn process_crash_fails_only_its_call() {
    if !has_python() {
        return;
    }
    let scenario =
        continues_after("import ctypes\n\ndef f() -> int:\n    ctypes.string_at(0)\n    return 1\n");
    holds(&failure(&scenario, "0/0.0"), &["`f` ended the process that it ran in", "accessed memory"]);
}

#[test]
fn os_exit_reports_its_code() {
    if !has_python() {
        return;
    }
    let scenario = continues_after("import os\n\ndef f() -> int:\n    os._exit(3)\n");
    holds(&failure(&scenario, "0/0.0"), &["`f` ended the process that it ran in", "3"]);
}

#[test]
fn sys_exit_is_an_error() {
    if !has_python() {
        return;
    }
    let scenario = continues_after("import sys\n\ndef f() -> int:\n    sys.exit(4)\n");
    holds(&failure(&scenario, "0/0.0"), &["sys.exit(4)"]);
}

#[test]
fn input_gets_end_of_file() {
    if !has_python() {
        return;
    }
    let scenario = continues_after("def f() -> str:\n    return input('Your name? ')\n");
    holds(&failure(&scenario, "0/0.0"), &["EOFError"]);
    assert_eq!(log(&scenario).trim(), "Your name?");
}

#[test]
fn forked_children_are_killed_with_the_run() {
    if !has_python() {
        return;
    }
    let scenario = continues_after(
        "import os, signal, time\n\ndef f() -> int:\n    for _ in range(3):\n        pid = os.fork()\n        if pid == 0:\n            \
         os.setsid()\n            if os.fork() == 0:\n                for n in range(1, 65):\n                    try:\n                        \
         signal.signal(n, signal.SIG_IGN)\n                    except (OSError, ValueError):\n                        pass\n            \
         while True:\n                time.sleep(1)\n    return 7\n",
    );
    assert_eq!(output(&scenario, "0/0.0"), 7);
}

#[test]
fn forked_child_cannot_return_a_result() {
    if !has_python() {
        return;
    }
    // The child returns from the function as if it were the host.
    let scenario = continues_after(
        "import os\n\ndef f() -> str:\n    pid = os.fork()\n    if pid == 0:\n        return 'child'\n    os.waitpid(pid, 0)\n    \
         return 'parent'\n",
    );
    assert_eq!(output(&scenario, "0/0.0"), "parent");
}

#[test]
fn running_threads_do_not_block_the_run() {
    if !has_python() {
        return;
    }
    let scenario = continues_after(
        "import threading, time\n\ndef f() -> int:\n    def forever():\n        while True:\n            time.sleep(0.01)\n    for _ in \
         range(5):\n        threading.Thread(target=forever).start()\n    return 7\n",
    );
    assert_eq!(output(&scenario, "0/0.0"), 7);
}

#[test]
fn leaked_descriptors_do_not_affect_other_calls() {
    if !has_python() {
        return;
    }
    let scenario = continues_after(
        "import os\n\nkept = []\n\ndef f() -> str:\n    try:\n        while True:\n            kept.append(os.open('/dev/null', \
         os.O_RDONLY))\n    except OSError as error:\n        return f'{error.errno} {len(kept) < 100000}'\n",
    );
    assert_eq!(output(&scenario, "0/0.0"), "24 True");
}

#[test]
fn infinite_generator_is_rejected() {
    if !has_python() {
        return;
    }
    let scenario =
        continues_after("import itertools\n\ndef f() -> list:\n    return (n for n in itertools.count())\n");
    let told = failure(&scenario, "0/0.0");
    assert!(told.contains("generator") && !told.contains("MemoryError"), "{told}");
}

#[test]
fn exception_without_a_string_form_is_reported() {
    if !has_python() {
        return;
    }
    let scenario = continues_after(
        "class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError('no')\n    __repr__ = __str__\n\n\
         def f() -> int:\n    raise Odd()\n",
    );
    holds(&failure(&scenario, "0/0.0"), &["Odd"]);
}

#[test]
fn loop_that_blocks_signals_is_killed_at_its_timeout() {
    if !has_python() {
        return;
    }
    let tools = format!(
        "import signal\n\ndef f() -> int:\n    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n    while True:\n        \
         try:\n            while True:\n                pass\n        except BaseException:\n            pass\n{ADD}"
    );
    let worker = "---\nmodel: script:s.yaml\ntoolsets: [custom]\ntool_rules: {f: {timeout: 1s}}\n---\nGo.\n";
    let scenario = continues(calling(&tools, &[call("f"), sum()]).file("main.worker", worker));
    let ended = ending(&scenario, "0/0.0");
    assert_eq!(ended["timed_out"], 1000, "{ended:#}");
}

#[test]
fn loop_in_c_is_killed_at_its_timeout() {
    if !has_python() {
        return;
    }
    let tools = format!("def f() -> int:\n    return sum(range(10**15))\n{ADD}");
    let worker = "---\nmodel: script:s.yaml\ntoolsets: [custom]\ntool_rules: {f: {timeout: 1s}}\n---\nGo.\n";
    let scenario = continues(calling(&tools, &[call("f"), sum()]).file("main.worker", worker));
    let ended = ending(&scenario, "0/0.0");
    assert_eq!(ended["timed_out"], 1000, "{ended:#}");
}

#[test]
fn closed_standard_streams_are_tolerated() {
    if !has_python() {
        return;
    }
    let scenario = continues_after(
        "import os, sys\n\ndef f() -> int:\n    sys.stdout.close()\n    os.close(0)\n    os.close(1)\n    os.close(2)\n    \
         print('to nobody')\n    return 7\n",
    );
    assert_eq!(output(&scenario, "0/0.0"), 7);
}

#[test]
fn closing_every_descriptor_fails_only_the_call() {
    if !has_python() {
        return;
    }
    let scenario =
        continues_after("import os\n\ndef f() -> int:\n    os.closerange(0, 4096)\n    return 7\n");
    holds(&failure(&scenario, "0/0.0"), &["`f` ended the process that it ran in"]);
}

#[test]
fn printed_output_is_recorded_in_the_journal() {
    if !has_python() {
        return;
    }
    let scenario = continues_after(
        "import os, subprocess, sys\n\ndef f() -> int:\n    print('one')\n    print('two', file=sys.stderr)\n    os.write(1, b'three\\n')\n    \
         subprocess.run(['/bin/echo', 'four'], check=True)\n    return 7\n",
    );
    assert_eq!(output(&scenario, "0/0.0"), 7);
    let log = log(&scenario);
    holds(&log, &["one\n", "two\n"]);
}

#[test]
fn flood_of_output_is_truncated() {
    if !has_python() {
        return;
    }
    let scenario = continues_after(
        "def f() -> int:\n    for _ in range(20_000):\n        print('x' * 200)\n    return 7\n",
    );
    assert_eq!(output(&scenario, "0/0.0"), 7);
}

#[test]
fn callback_after_the_call_ended_is_rejected() {
    if !has_python() {
        return;
    }
    // The functions synchronise with files, because they may run in two processes.
    let tools = r#"
import threading, time
from llm_do import ToolContext

def until(path):
    for _ in range(6000):
        if path.exists():
            return
        time.sleep(0.01)

def f(ctx: ToolContext) -> int:
    out = ctx.sandbox.path("/out")
    def late():
        until(out / "go")
        try:
            said = f"heard {ctx.call('add', {'a': 1, 'b': 1})}"
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        (out / "draft").write_text(said)
        (out / "draft").rename(out / "said")
    threading.Thread(target=late).start()
    return 7

def g(ctx: ToolContext) -> str:
    out = ctx.sandbox.path("/out")
    (out / "go").touch()
    until(out / "said")
    return (out / "said").read_text()
"#;
    let scenario = continues(writing(&format!("{tools}{ADD}"), &[call("f"), sum(), call("g")]));
    let said = output(&scenario, "0/2.0");
    assert!(said.as_str().is_some_and(|said| said.starts_with("RuntimeError: the call has ended")), "{said}");
    let calls =
        scenario.journal().iter().filter(|r| r["kind"] == "call_started" && r["function"] == "add").count();
    assert_eq!(calls, 1, "only the model's");
}

#[test]
fn model_retry_message_reaches_the_model() {
    if !has_python() {
        return;
    }
    let scenario = continues_after(
        "from llm_do import ModelRetry\n\ndef f() -> int:\n    raise ModelRetry('Give a city, and not a country.')\n",
    );
    assert_eq!(failure(&scenario, "0/0.0"), "Give a city, and not a country.");
}
