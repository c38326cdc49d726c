//! Code that misbehaves when it is called: the call fails with a reason, the run goes on, and nothing is left behind.

use super::tale::{call, calling, ending, failure, has_python, holds, output, record, succeed, writing};
use crate::story::Story;
use serde_json::{Value, json};

/// A tool that works, and must work after whatever another did.
const ADD: &str = "\n\ndef add(a: int, b: int) -> int:\n    return a + b\n";

/// Has the function `f` called, and another one after it.
fn goes_on_after(tools: &str) -> Story {
    goes_on(calling(&format!("{tools}{ADD}"), &[call("f"), sum()]))
}

fn sum() -> Value {
    json!({"tool": "add", "arguments": {"a": 2, "b": 3}})
}

fn goes_on(story: Story) -> Story {
    let told = succeed(&story, &["."]);
    assert_eq!(told.stdout, "done\n", "{told}");
    assert_eq!(output(&story, "0/1.0"), 5, "the next call works");
    story
}

/// What `f` printed, as the journal has it.
fn log(story: &Story) -> String {
    record(story, "0/0.0", "tool_ended")["log"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn an_exception_is_told_with_the_frames_of_the_program_alone() {
    if !has_python() {
        return;
    }
    let story = goes_on_after(
        "import json\n\ndef f() -> int:\n    return inner()\n\ndef inner():\n    return json.loads('{')\n",
    );
    let told = failure(&story, "0/0.0");
    holds(&told, &["JSONDecodeError: Expecting property name", "tools.py:4 in f", "tools.py:7 in inner"]);
    assert!(!told.contains("json/") && !told.contains("host.py"), "{told}");
}

#[test]
fn wrong_arguments_cost_no_execution() {
    if !has_python() {
        return;
    }
    let tools = format!("def f(n: int) -> int:\n    return n\n{ADD}");
    let story = goes_on(calling(&tools, &[json!({"tool": "f", "arguments": {"n": "many"}}), sum()]));
    holds(&failure(&story, "0/0.0"), &["/n", "integer"]);
    assert!(!story.journal().iter().any(|r| r["path"] == "0/0.0" && r["kind"] == "tool_started"));
}

#[test]
fn a_crash_of_the_process_is_that_calls_failure() {
    if !has_python() {
        return;
    }
    let story = goes_on_after("import ctypes\n\ndef f() -> int:\n    ctypes.string_at(0)\n    return 1\n");
    holds(&failure(&story, "0/0.0"), &["`f` ended the process that it ran in", "accessed memory"]);
}

#[test]
fn an_exit_past_python_says_with_what() {
    if !has_python() {
        return;
    }
    let story = goes_on_after("import os\n\ndef f() -> int:\n    os._exit(3)\n");
    holds(&failure(&story, "0/0.0"), &["`f` ended the process that it ran in", "3"]);
}

#[test]
fn sys_exit_is_an_error_and_no_exit() {
    if !has_python() {
        return;
    }
    let story = goes_on_after("import sys\n\ndef f() -> int:\n    sys.exit(4)\n");
    holds(&failure(&story, "0/0.0"), &["sys.exit(4)"]);
}

#[test]
fn input_finds_nobody() {
    if !has_python() {
        return;
    }
    let story = goes_on_after("def f() -> str:\n    return input('Your name? ')\n");
    holds(&failure(&story, "0/0.0"), &["EOFError"]);
    assert_eq!(log(&story).trim(), "Your name?");
}

#[test]
fn children_that_are_forked_are_ended_with_the_run() {
    if !has_python() {
        return;
    }
    let story = goes_on_after(
        "import os, signal, time\n\ndef f() -> int:\n    for _ in range(3):\n        pid = os.fork()\n        if pid == 0:\n            \
         os.setsid()\n            if os.fork() == 0:\n                for n in range(1, 65):\n                    try:\n                        \
         signal.signal(n, signal.SIG_IGN)\n                    except (OSError, ValueError):\n                        pass\n            \
         while True:\n                time.sleep(1)\n    return 7\n",
    );
    assert_eq!(output(&story, "0/0.0"), 7);
}

#[test]
fn a_forked_child_that_returns_answers_nobody() {
    if !has_python() {
        return;
    }
    // The child comes back from the function as if it were the one that was called.
    let story = goes_on_after(
        "import os\n\ndef f() -> str:\n    pid = os.fork()\n    if pid == 0:\n        return 'child'\n    os.waitpid(pid, 0)\n    \
         return 'parent'\n",
    );
    assert_eq!(output(&story, "0/0.0"), "parent");
}

#[test]
fn threads_that_go_on_hold_nobody_up() {
    if !has_python() {
        return;
    }
    let story = goes_on_after(
        "import threading, time\n\ndef f() -> int:\n    def forever():\n        while True:\n            time.sleep(0.01)\n    for _ in \
         range(5):\n        threading.Thread(target=forever).start()\n    return 7\n",
    );
    assert_eq!(output(&story, "0/0.0"), 7);
}

#[test]
fn leaked_descriptors_are_that_processes_affair() {
    if !has_python() {
        return;
    }
    let story = goes_on_after(
        "import os\n\nkept = []\n\ndef f() -> str:\n    try:\n        while True:\n            kept.append(os.open('/dev/null', \
         os.O_RDONLY))\n    except OSError as error:\n        return f'{error.errno} {len(kept) < 100000}'\n",
    );
    assert_eq!(output(&story, "0/0.0"), "24 True");
}

#[test]
fn what_json_cannot_hold_is_refused_with_its_place() {
    if !has_python() {
        return;
    }
    let story = goes_on_after("def f() -> dict:\n    return {'rows': [1.0, float('nan')]}\n");
    holds(&failure(&story, "0/0.0"), &["nan", "rows"]);
    let story = goes_on_after("def f():\n    return object()\nf.__annotations__ = {'return': object}\n");
    let told = failure(&story, "0/0.0");
    assert!(told.contains("object"), "{told}");
}

#[test]
fn a_generator_that_never_ends_is_no_result() {
    if !has_python() {
        return;
    }
    let story =
        goes_on_after("import itertools\n\ndef f() -> list:\n    return (n for n in itertools.count())\n");
    let told = failure(&story, "0/0.0");
    assert!(told.contains("generator") && !told.contains("MemoryError"), "{told}");
}

#[test]
fn a_result_of_a_hundred_megabytes_is_refused() {
    if !has_python() {
        return;
    }
    let story = goes_on_after("def f() -> str:\n    return 'x' * 100_000_000\n");
    holds(&failure(&story, "0/0.0"), &["more than 16 MiB", "return less of it"]);
}

#[test]
fn a_value_within_itself_is_refused() {
    if !has_python() {
        return;
    }
    let story = goes_on_after("def f() -> list:\n    a = []\n    a.append({'a': a})\n    return a\n");
    let told = failure(&story, "0/0.0");
    assert!(told.contains("itself"), "{told}");
}

#[test]
fn an_exception_that_cannot_be_shown_is_still_one() {
    if !has_python() {
        return;
    }
    let story = goes_on_after(
        "class Odd(Exception):\n    def __str__(self):\n        raise RuntimeError('no')\n    __repr__ = __str__\n\n\
         def f() -> int:\n    raise Odd()\n",
    );
    holds(&failure(&story, "0/0.0"), &["Odd"]);
}

#[test]
fn a_loop_that_blocks_signals_is_ended_at_its_limit() {
    if !has_python() {
        return;
    }
    let tools = format!(
        "import signal\n\ndef f() -> int:\n    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n    while True:\n        \
         try:\n            while True:\n                pass\n        except BaseException:\n            pass\n{ADD}"
    );
    let worker = "---\nmodel: script:s.yaml\ntoolsets: [custom]\ntool_rules: {f: {timeout: 1s}}\n---\nGo.\n";
    let story = goes_on(calling(&tools, &[call("f"), sum()]).file("main.worker", worker));
    let ended = ending(&story, "0/0.0");
    assert_eq!(ended["timed_out"], 1000, "{ended:#}");
}

#[test]
fn a_loop_in_c_is_ended_at_its_limit() {
    if !has_python() {
        return;
    }
    let tools = format!("def f() -> int:\n    return sum(range(10**15))\n{ADD}");
    let worker = "---\nmodel: script:s.yaml\ntoolsets: [custom]\ntool_rules: {f: {timeout: 1s}}\n---\nGo.\n";
    let story = goes_on(calling(&tools, &[call("f"), sum()]).file("main.worker", worker));
    let ended = ending(&story, "0/0.0");
    assert_eq!(ended["timed_out"], 1000, "{ended:#}");
}

#[test]
fn closed_streams_hurt_nobody() {
    if !has_python() {
        return;
    }
    let story = goes_on_after(
        "import os, sys\n\ndef f() -> int:\n    sys.stdout.close()\n    os.close(0)\n    os.close(1)\n    os.close(2)\n    \
         print('to nobody')\n    return 7\n",
    );
    assert_eq!(output(&story, "0/0.0"), 7);
}

#[test]
fn every_descriptor_may_be_closed() {
    if !has_python() {
        return;
    }
    let story = goes_on_after("import os\n\ndef f() -> int:\n    os.closerange(0, 4096)\n    return 7\n");
    holds(&failure(&story, "0/0.0"), &["`f` ended the process that it ran in"]);
}

#[test]
fn prints_of_any_kind_go_to_the_journal() {
    if !has_python() {
        return;
    }
    let story = goes_on_after(
        "import os, subprocess, sys\n\ndef f() -> int:\n    print('one')\n    print('two', file=sys.stderr)\n    os.write(1, b'three\\n')\n    \
         subprocess.run(['/bin/echo', 'four'], check=True)\n    return 7\n",
    );
    assert_eq!(output(&story, "0/0.0"), 7);
    let log = log(&story);
    holds(&log, &["one\n", "two\n"]);
}

#[test]
fn a_flood_of_prints_is_cut() {
    if !has_python() {
        return;
    }
    let story = goes_on_after(
        "def f() -> int:\n    for _ in range(20_000):\n        print('x' * 200)\n    return 7\n",
    );
    assert_eq!(output(&story, "0/0.0"), 7);
}

#[test]
fn who_calls_back_after_its_call_has_ended_is_not_heard() {
    if !has_python() {
        return;
    }
    // The two functions meet in files, since they may run in two processes.
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
    let story = goes_on(writing(&format!("{tools}{ADD}"), &[call("f"), sum(), call("g")]));
    let said = output(&story, "0/2.0");
    assert!(said.as_str().is_some_and(|said| said.starts_with("RuntimeError: the call has ended")), "{said}");
    let calls =
        story.journal().iter().filter(|r| r["kind"] == "call_started" && r["function"] == "add").count();
    assert_eq!(calls, 1, "only the model's");
}

#[test]
fn the_model_is_asked_again_in_the_authors_words() {
    if !has_python() {
        return;
    }
    let story = goes_on_after(
        "from llm_do import ModelRetry\n\ndef f() -> int:\n    raise ModelRetry('Give a city, and not a country.')\n",
    );
    assert_eq!(failure(&story, "0/0.0"), "Give a city, and not a country.");
}
