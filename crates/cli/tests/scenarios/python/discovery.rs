//! The sources of Python tools, their precedence, and their approvals (docs/guides/python-tools.md,
//! docs/reference/approvals.md).

use super::fixture::{
    Running, WRITER, call, calling, failure, has_python, holds, offered, output, record, run, script, succeed,
};
use crate::scenario::Scenario;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// A function that returns its source.
fn says(name: &str, from: &str) -> String {
    format!("def {name}() -> str:\n    \"\"\"From the {from}.\"\"\"\n    return \"{from}\"\n\n")
}

const LIBRARY: &str = "name: kit\nversion: 1.0.0\nexports: []\n";
const USER: &str = "name: p\ndependencies: [kit]\n";

/// A program with tools from every source.
fn sources() -> Scenario {
    Scenario::new()
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\nallow_workers: [team/one]\ntoolsets: [custom, workers]\n---\nGo.\n",
        )
        .file("workers/team/one/worker.worker", "---\nmodel: script:one.yaml\ntoolsets: [custom]\n---\nGo.\n")
        .file("workers/team/one/tools.py", &says("a", "worker's file"))
        .file(
            "workers/team/one/tools/more.py",
            &(says("b", "worker's folder") + &says("c", "worker's folder")),
        )
        .file("tools.py", &["a", "b", "d"].map(|name| says(name, "project's file")).concat())
        .file("tools/x.py", &says("e", "project's folder"))
        .file("toolsets/y.py", &says("f", "toolsets"))
        .file("elsewhere/z.py", &says("g", "manifest's modules"))
        .file("libs/kit@1.0.0/lib.yaml", LIBRARY)
        .file("libs/kit@1.0.0/tools/k.py", &["a", "d", "e", "h"].map(|name| says(name, "library")).concat())
        .file("project.yaml", &format!("{USER}tools: {{modules: [tools.py, elsewhere/z.py]}}\n"))
        .file("s.yaml", &script(&[json!({"tool": "team__one", "arguments": {}})]))
        .file("one.yaml", &script(&["a", "b", "c", "d", "e", "f", "g", "h"].map(call)))
}

#[test]
fn nearest_source_of_a_tool_wins() {
    if !has_python() {
        return;
    }
    let scenario = sources();
    succeed(&scenario, &[".", "--lib", "libs", "--approval", "approve_all"]);
    let said: Vec<_> = (0..8).map(|turn| output(&scenario, &format!("0/0.0/{turn}.0"))).collect();
    assert_eq!(
        said,
        [
            "worker's file",
            "worker's folder",
            "worker's folder",
            "project's file",
            "project's folder",
            "toolsets",
            "manifest's modules",
            "library"
        ]
    );
    // Other workers have only the tools of the project.
    assert_eq!(offered(&scenario), ["a", "b", "d", "e", "f", "g", "h", "team__one"]);
}

#[test]
fn library_tools_need_an_approval_and_program_tools_do_not() {
    if !has_python() {
        return;
    }
    let scenario = sources().file("s.yaml", &script(&[call("d"), call("h")]));
    let told = succeed(&scenario, &[".", "--lib", "libs"]);
    assert_eq!(output(&scenario, "0/0.0"), "project's file");
    // A tool that is refused for all arguments is not offered.
    assert!(!offered(&scenario).contains(&"h".to_owned()), "{told}");
    succeed(&scenario, &[".", "--lib", "libs", "--allow", "h"]);
    assert_eq!(output(&scenario, "0/1.0"), "library");
    assert_eq!(record(&scenario, "0/1.0", "verdict")["by"]["rule"]["origin"], "--allow h");
    assert_eq!(record(&scenario, "0/1.0", "tool_started")["risk"], "exec");
    let told = run(&scenario, &[".", "--lib", "libs", "--approval", "defer"]);
    assert_eq!(told.code, Some(5), "{told}");
    holds(&told.stderr, &["main wants to call h"]);
}

#[test]
fn library_cannot_preapprove_its_own_tools() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import tool\n\n\
                 @tool(approval='preApproved')\ndef says_free() -> int:\n    return 1\n\n\
                 @tool(risk='read')\ndef says_harmless() -> int:\n    return 1\n\n\
                 @tool(approval=lambda: 'preApproved')\ndef decides() -> int:\n    return 1\n\n\
                 @tool(approval='preApproved', risk='read', parallel=True)\ndef says_both() -> int:\n    return 1\n\n\
                 @tool(approval='blocked')\ndef says_never() -> int:\n    return 1\n";
    let names = ["decides", "says_both", "says_free", "says_harmless"];
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [custom]\n---\nGo.\n")
        .file("project.yaml", USER)
        .file("libs/kit@1.0.0/lib.yaml", LIBRARY)
        .file("libs/kit@1.0.0/tools/k.py", tools)
        .file("s.yaml", &script(&names.map(call)));
    succeed(&scenario, &[".", "--lib", "libs"]);
    let journal = scenario.journal();
    let started = journal.iter().filter(|record| record["kind"] == "tool_started").count();
    assert_eq!((offered(&scenario), started), (Vec::new(), 0), "{journal:#?}");
    // The operator can allow them, except those that their author blocks.
    succeed(&scenario, &[".", "--lib", "libs", "--approval", "approve_all"]);
    assert_eq!(offered(&scenario), names);
    assert_eq!(record(&scenario, "0/3.0", "tool_started")["risk"], "exec");
}

#[test]
fn plain_module_exposes_its_typed_public_functions() {
    if !has_python() {
        return;
    }
    let tools = "from os.path import join\nfrom typing import Optional\nfrom side import helper\n\nclass Thing:\n    pass\n\n\
                 def shown(a: int) -> int:\n    return a\n\ndef _private(a: int) -> int:\n    return a\n\ndef untyped(a):\n    return a\n\n\
                 only_result = lambda: 1\n\ndef result() -> int:\n    return helper(1)\n";
    let scenario =
        calling(tools, &[call("result")]).file("side.py", "def helper(a: int) -> int:\n    return a + 1\n");
    succeed(&scenario, &["."]);
    assert_eq!(offered(&scenario), ["result", "shown"]);
    assert_eq!(output(&scenario, "0/0.0"), 2);
}

#[test]
fn package_exposes_the_names_in_all() {
    if !has_python() {
        return;
    }
    let scenario = calling("", &[json!({"tool": "double", "arguments": {"n": 4}})]);
    std::fs::remove_file(scenario.project().join("tools.py")).expect("a file");
    let scenario = scenario
        .file("tools/__init__.py", "from .inner import double, hidden\n\n__all__ = ['double']\n")
        .file(
            "tools/inner.py",
            "def double(n):\n    return 2 * n\n\ndef hidden(n: int) -> int:\n    return n\n",
        );
    succeed(&scenario, &["."]);
    assert_eq!(offered(&scenario), ["double"]);
    assert_eq!(output(&scenario, "0/0.0"), 8);
}

#[test]
fn register_receives_an_agent() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import ToolContext\n\ndef register(agent):\n    @agent.tool_plain\n    def add(a: int, b: int) -> int:\n        \
                 return a + b\n\n    @agent.tool(name='who')\n    def whoever(ctx) -> str:\n        return ctx.worker\n\n\
                 def not_registered(a: int) -> int:\n    return a\n";
    let scenario = calling(tools, &[json!({"tool": "add", "arguments": {"a": 1, "b": 2}}), call("who")]);
    succeed(&scenario, &["."]);
    assert_eq!(offered(&scenario), ["add", "who"]);
    assert_eq!((output(&scenario, "0/0.0"), output(&scenario, "0/1.0")), (json!(3), json!("main")));
}

#[test]
fn tool_decorator_accepts_every_option() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import tool\n\n\
                 @tool(name='renamed', description='Said here.')\ndef a(n: int) -> int:\n    \"\"\"Not this.\"\"\"\n    return n\n\n\
                 @tool(risk='destructive')\ndef wipes() -> int:\n    return 1\n\n\
                 @tool(risk='exec', approval='preApproved', parallel=True)\ndef free() -> int:\n    return 2\n\n\
                 @tool(approval='blocked')\ndef never() -> int:\n    return 3\n\n\
                 @tool(approval='ask')\ndef asks() -> int:\n    return 4\n\n\
                 @tool(approval=lambda n: 'ask' if n > 10 else 'preApproved')\ndef some(n: int) -> int:\n    return n\n\n\
                 @tool(schema={'type': 'object', 'properties': {'x': {'enum': [1, 2]}}, 'required': ['x'], 'additionalProperties': False})\n\
                 def given(x):\n    return x\n\n\
                 def not_marked(n: int) -> int:\n    return n\n";
    let calls = [
        json!({"tool": "renamed", "arguments": {"n": 1}}),
        call("free"),
        json!({"tool": "some", "arguments": {"n": 5}}),
        json!({"tool": "some", "arguments": {"n": 50}}),
        json!({"tool": "given", "arguments": {"x": 3}}),
        json!({"tool": "given", "arguments": {"x": 2}}),
    ];
    let scenario = calling(tools, &calls);
    succeed(&scenario, &["."]);
    assert_eq!(
        offered(&scenario),
        ["free", "given", "renamed", "some"],
        "what is refused anyway is left out"
    );
    let renamed = record(&scenario, "0", "conversation_started")["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .find(|tool| tool["name"] == "renamed")
        .expect("it is offered")
        .clone();
    assert_eq!(renamed["description"], "Said here.");
    assert_eq!(output(&scenario, "0/0.0"), 1);
    assert_eq!(record(&scenario, "0/1.0", "verdict")["by"]["rule"]["origin"], "@tool of `free`");
    assert_eq!(output(&scenario, "0/2.0"), 5);
    holds(&failure(&scenario, "0/3.0"), &["some"]);
    holds(&failure(&scenario, "0/4.0"), &["3 is not one of"]);
    assert_eq!(output(&scenario, "0/5.0"), 2);
    succeed(&scenario, &[".", "--approval", "approve_all"]);
    assert_eq!(offered(&scenario), ["asks", "free", "given", "renamed", "some", "wipes"]);
}

#[test]
fn module_of_the_manifests_entry_needs_no_tools_of_other_entries() {
    if !has_python() {
        return;
    }
    let scenario = Scenario::new()
        .file("project.yaml", "entry: tools.py:main\n")
        .file("tools.py", "def main(input, ctx):\n    return 'x'\n")
        .file("workers/h.worker", "---\nmodel: script:s.yaml\ntoolsets: [custom]\n---\nHi.\n")
        .file("s.yaml", "answers:\n  - text: done\n");
    succeed(&scenario, &[".", "--entry", "h"]);
    succeed(&scenario, &["."]);
}

#[test]
fn worker_with_a_model_needs_no_other_one() {
    if !has_python() {
        return;
    }
    let scenario = calling("def f() -> str:\n    return 'x'\n", &[call("f")]);
    let told = run(&scenario, &["."]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(!told.stderr.contains("using "), "{told}");
}

#[test]
fn approval_function_that_fails_lets_no_call_run() {
    if !has_python() {
        return;
    }
    let tools = "from pathlib import Path\n\nfrom llm_do import tool\n\n\
                 def never(args):\n    raise ValueError('no such set')\n\n\
                 @tool(approval=never)\ndef f() -> str:\n    return 'ran'\n";
    let scenario = calling(tools, &[call("f")]);
    succeed(&scenario, &[".", "--approval", "approve_all"]);
    let said = failure(&scenario, "0/0.0");
    assert!(said.to_string().contains("blocked"), "{said}");
    assert_eq!(record(&scenario, "0/0.0", "rule_stated")["reason"], "no such set");
}

#[test]
fn worker_and_operator_rules_apply_to_python_tools() {
    if !has_python() {
        return;
    }
    let tools = "def add(a: int, b: int) -> int:\n    return a + b\n\ndef sub(a: int, b: int) -> int:\n    return a - b\n";
    let add = json!({"tool": "add", "arguments": {"a": 1, "b": 2}});
    let sub = json!({"tool": "sub", "arguments": {"a": 1, "b": 2}});
    let scenario = calling(tools, &[add, sub]);
    for (front, arguments, left) in [
        ("toolsets: [custom]", &[][..], &["add", "sub"][..]),
        ("toolsets: {custom: {add: {}}}", &[], &["add"]),
        ("toolsets: {custom: {add: {pre_approved: false}, sub: {pre_approved: true}}}", &[], &["sub"]),
        ("toolsets: {custom: {approval: {default: ask, tools: {sub: preApproved}}}}", &[], &["sub"]),
        ("toolsets: {custom: {approval: {tools: {sub: blocked}}}}", &[], &["add"]),
        ("toolsets: [custom]\ntool_rules: {add: {allowed: false}}", &[], &["sub"]),
        ("toolsets: [custom]\ntool_rules: {add: ask}", &[], &["sub"]),
        ("toolsets: [custom]\ntool_rules: {add: ask}", &["--allow", "add"], &["add", "sub"]),
        ("toolsets: [custom]", &["--deny", "sub"], &["add"]),
        ("toolsets: [custom]", &["--ask", "sub"], &["add"]),
    ] {
        let scenario = scenario.with_front(front);
        succeed(scenario, &[&["."], arguments].concat());
        assert_eq!(offered(scenario), left, "{front} {arguments:?}");
    }
    let told = run(scenario.with_front("toolsets: {custom: {nothing: {}}}"), &["."]);
    assert_eq!(told.code, Some(2), "{told}");
    holds(&told.stderr, &["there is no Python tool `nothing`", "add, sub"]);
}

/// A change of a scenario's worker to another front matter.
trait Again {
    fn with_front(&self, front: &str) -> &Self;
}

impl Again for Scenario {
    fn with_front(&self, front: &str) -> &Self {
        let text = format!("---\nmodel: script:s.yaml\n{front}\n---\nGo.\n");
        std::fs::write(self.project().join("main.worker"), text).expect("a file");
        self
    }
}

#[test]
fn edited_module_is_reloaded_by_the_next_run() {
    if !has_python() {
        return;
    }
    let scenario = calling("from side import value\n\ndef f() -> int:\n    return value()\n", &[call("f")])
        .file("side.py", "def value():\n    return 1\n");
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), 1);
    let scenario = scenario.file("side.py", "def value():\n    return 2\n");
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), 2);
    let scenario = scenario
        .file("tools.py", "def f(n: int = 3) -> int:\n    return n\n\ndef g() -> int:\n    return 0\n");
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), 3);
    assert_eq!(offered(&scenario), ["f", "g"]);
}

#[test]
fn unchanged_program_without_tool_calls_imports_nothing() {
    if !has_python() {
        return;
    }
    // A marker file shows an import for a call; the variable shows an import for discovery.
    let tools = "import os\n\nif os.environ.get('LANG') == 'trap':\n    raise RuntimeError('imported again')\n\n\
                 for path in ['OUT']:\n    try:\n        open(path + '/marker', 'a').write('x')\n    except OSError:\n        pass\n\n\
                 def f() -> int:\n    return 1\n";
    let scenario = calling("", &[call("f")]).file("main.worker", WRITER);
    let out = scenario.project().canonicalize().expect("a folder").join("out");
    let mut scenario = scenario.file("tools.py", &tools.replace("OUT", &out.to_string_lossy()));
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), 1);
    assert_eq!(scenario.read("out/marker").as_deref(), Some("x"), "the module can write there");
    scenario = scenario.env("LANG", "trap").file("s.yaml", &script(&[]));
    succeed(&scenario, &["."]);
    assert_eq!(offered(&scenario), ["f"]);
    assert_eq!(scenario.read("out/marker").as_deref(), Some("x"));
    // An import would have been noticed.
    scenario = scenario.file("s.yaml", &script(&[call("f")]));
    succeed(&scenario, &["."]);
    holds(&failure(&scenario, "0/0.0"), &["imported again"]);
}

#[test]
fn no_import_tools_flag_imports_nothing() {
    if !has_python() {
        return;
    }
    let scenario = calling("raise RuntimeError('imported')\n", &[]);
    assert_eq!(run(&scenario, &["."]).code, Some(2));
    let scenario = scenario.file("main.worker", "---\nmodel: script:s.yaml\n---\nGo.\n");
    succeed(&scenario, &[".", "--no-import-tools"]);
    assert!(offered(&scenario).is_empty());
    let importing = "---\nmodel: script:s.yaml\nimports: {tools: [tools.py]}\ntoolsets: [custom]\n---\nGo.\n";
    let told = run(&scenario.file("main.worker", importing), &[".", "--no-import-tools"]);
    assert_eq!(told.code, Some(2), "{told}");
    holds(&told.stderr, &["`tools.py`", "--no-import-tools"]);
}

#[test]
fn duplicate_tool_names_at_one_level_are_an_error() {
    if !has_python() {
        return;
    }
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [custom]\n---\nGo.\n")
        .file("s.yaml", &script(&[]))
        .file("tools/a.py", &says("same", "first"))
        .file("tools/b.py", &says("same", "second"));
    let told = run(&scenario, &["."]);
    assert_eq!(told.code, Some(2), "{told}");
    holds(&told.stderr, &["`same`", "tools/a.py", "tools/b.py"]);
}

#[test]
fn python_tool_cannot_shadow_a_built_in_tool() {
    if !has_python() {
        return;
    }
    let scenario = calling(&says("read_file", "program"), &[])
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [custom, filesystem]\n---\nGo.\n");
    let told = run(&scenario, &["."]);
    assert_ne!(told.code, Some(0), "{told}");
    holds(&told.stderr, &["read_file"]);
}

#[test]
fn interpreter_is_configurable() {
    if !has_python() {
        return;
    }
    let scenario = calling("import sys\n\ndef f() -> str:\n    return sys.executable\n", &[call("f")])
        .env("LLM_DO_PYTHON", "/usr/bin/python3");
    succeed(&scenario, &["."]);
    assert_eq!(record(&scenario, "0", "run_started")["runtimes"][0]["path"], "/usr/bin/python3");
    let told = run(&scenario.env("LLM_DO_PYTHON", "/nowhere/python"), &["."]);
    assert_ne!(told.code, Some(0), "{told}");
    holds(&told.stderr, &["LLM_DO_PYTHON", "/nowhere/python"]);
}

/// An installation of Python in a folder of its own, as conda and tool caches make them, with a link that leads to the folder
/// by another name. Returns the interpreter by that name, and the folder.
fn installation(folder: &Path) -> (PathBuf, PathBuf) {
    let real = fs::canonicalize("/usr/bin/python3").expect("the system's Python");
    let version = real.file_name().expect("a name").to_string_lossy().into_owned();
    let prefix = folder.join("own/cpython-3.0.1");
    fs::create_dir_all(prefix.join("bin")).expect("a folder");
    fs::create_dir_all(prefix.join("lib")).expect("a folder");
    fs::copy(&real, prefix.join("bin").join(&version)).expect("a copy");
    symlink(&version, prefix.join("bin/python3")).expect("a link");
    symlink(Path::new("/usr/lib").join(&version), prefix.join("lib").join(&version)).expect("a link");
    symlink("cpython-3.0.1", folder.join("own/cpython-3.0")).expect("a link");
    (folder.join("own/cpython-3.0/bin/python3"), prefix)
}

/// An environment of that interpreter.
fn environment(at: &Path, python: &Path) -> PathBuf {
    fs::create_dir_all(at.join("bin")).expect("a folder");
    symlink(python, at.join("bin/python3")).expect("a link");
    symlink("python3", at.join("bin/python")).expect("a link");
    let home = python.parent().expect("a folder").display();
    fs::write(at.join("pyvenv.cfg"), format!("home = {home}\n")).expect("a file");
    at.join("bin/python")
}

#[test]
fn interpreter_outside_the_known_places_runs_tools() {
    if !has_python() {
        return;
    }
    let outside = tempfile::tempdir().expect("a folder");
    let folder = fs::canonicalize(outside.path()).expect("a folder");
    let (python, prefix) = installation(&folder);
    let tools = "import subprocess, sys\n\ndef f() -> list:\n    \
                 said = subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True, text=True)\n    \
                 return [sys.prefix, said.stdout.strip()]\n";
    let calls = [call("f")];

    // The operator names an environment, or the interpreter itself.
    let named = environment(&folder.join("env"), &python);
    let scenario = calling(tools, &calls).env("LLM_DO_PYTHON", &*named.to_string_lossy());
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), json!([folder.join("env"), "1"]));
    let scenario = calling(tools, &calls).env("LLM_DO_PYTHON", &*python.to_string_lossy());
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), json!([prefix, "1"]));

    // A project's environment asks once.
    let scenario = calling(tools, &calls);
    let own = scenario.project().join(".venv");
    environment(&own, &python);
    let told = run(&scenario, &["."]);
    assert_eq!(told.code, Some(3), "{told}");
    let grant = format!("{}:ro", prefix.display());
    holds(&told.stderr, &[&format!("--grant {grant}")]);
    assert_eq!(told.stderr.matches(":ro").count(), 1, "{told}");
    succeed(&scenario, &[".", "--grant", &grant]);
    assert_eq!(output(&scenario, "0/0.0"), json!([fs::canonicalize(own).expect("it"), "1"]));
}

#[test]
#[allow(clippy::print_stderr, reason = "a test that skips says so")]
fn same_tools_run_in_every_python_version() {
    if !has_python() {
        return;
    }
    let tools = "from __future__ import annotations\n\nimport sys\nfrom dataclasses import dataclass\nfrom typing import Dict, List, Optional\n\n\
                 @dataclass\nclass Item:\n    name: str\n    count: int = 1\n\n\
                 def total(items: List[Item], bonus: Optional[int] = None) -> Dict[str, int]:\n    \"\"\"Adds.\n\n    :param items: What.\n    \"\"\"\n    \
                 return {item.name: item.count + (bonus or 0) for item in items}\n\n\
                 async def version() -> str:\n    return '%d.%d' % sys.version_info[:2]\n";
    let items = json!({"tool": "total", "arguments": {"items": [{"name": "a"}, {"name": "b", "count": 4}], "bonus": 1}});
    let mut schemas = Vec::new();
    let mut versions = Vec::new();
    for python in pythons() {
        let scenario = calling(tools, &[items.clone(), call("version")])
            .env("LLM_DO_PYTHON", &*python.to_string_lossy());
        succeed(&scenario, &["."]);
        assert_eq!(output(&scenario, "0/0.0"), json!({"a": 2, "b": 5}), "{python:?}");
        versions.push(output(&scenario, "0/1.0"));
        schemas.push(record(&scenario, "0", "conversation_started")["tools"].clone());
    }
    eprintln!("tried {versions:?}");
    assert!(schemas.iter().all(|schema| *schema == schemas[0]), "{schemas:#?}");
}

/// The system's Python, and those of the developer's version manager.
fn pythons() -> Vec<std::path::PathBuf> {
    let mut found = vec!["/usr/bin/python3".into()];
    let Some(home) = std::env::var_os("HOME") else { return found };
    let versions = std::path::Path::new(&home).join(".pyenv/versions");
    let entries = std::fs::read_dir(versions).into_iter().flatten().flatten();
    let mut kept: Vec<_> = entries
        .filter(|entry| {
            ["3.9.", "3.10.", "3.12.", "3.13."]
                .iter()
                .any(|v| entry.file_name().to_string_lossy().starts_with(v))
        })
        .map(|entry| entry.path().join("bin/python3"))
        .filter(|python| python.exists())
        .collect();
    kept.sort();
    found.extend(kept);
    found
}

#[test]
fn concurrent_runs_discover_the_same_tools() {
    if !has_python() {
        return;
    }
    let scenario = calling("def f() -> int:\n    return 1\n", &[call("f")]);
    let running: Vec<_> = (0..4).map(|_| Running::start(&scenario, &["."])).collect();
    for run in running {
        let told = run.end(&scenario);
        assert_eq!((told.code, told.stdout.as_str()), (Some(0), "done\n"), "{told}");
    }
    assert_eq!(scenario.runs().len(), 4);
}

#[test]
fn unwritable_cache_is_tolerated() {
    if !has_python() {
        return;
    }
    // A file in the place of the folder: not even root can write there.
    let scenario = calling("def f() -> int:\n    return 1\n", &[call("f")]).file("../home/.llm-do/cache", "");
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), 1);
}

#[test]
fn relative_home_holds_the_host_of_python() {
    if !has_python() {
        return;
    }
    let scenario = calling(&says("a", "project"), &[call("a")]).env("LLM_DO_HOME", "own");
    let told = scenario.run(&[".", "--approval", "approve_all"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "done\n"), "{told}");
    assert_eq!(output(&scenario, "0/0.0"), "project");
}
