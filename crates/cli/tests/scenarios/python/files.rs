//! The files that tools open: the working directory, and the data of their modules.

use super::fixture::{
    WORKER, WRITER, call, calling, failure, has_python, holds, output, run, script, succeed, writing,
};
use crate::scenario::Scenario;
use std::fs;

#[test]
fn relative_paths_mean_what_the_model_means() {
    if !has_python() {
        return;
    }
    let tools = "import os\n\n\
                 def copies() -> str:\n    with open('input/a.txt') as file:\n        text = file.read()\n    \
                 with open('output/b.txt', 'w') as file:\n        file.write(text.upper())\n    return text\n\n\
                 def lists() -> list:\n    return sorted(os.listdir())\n\n\
                 def loses() -> str:\n    with open('b.txt', 'w') as file:\n        file.write('x')\n    return 'written'\n";
    let mounts = "sandbox:\n  paths:\n    input: ./in\n    output: {root: ./out, mode: rw}\n";
    let scenario = calling(tools, &[call("copies"), call("lists"), call("loses")])
        .file("main.worker", &WORKER.replace("---\nGo", &format!("{mounts}---\nGo")))
        .file("in/a.txt", "hello");
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), "hello");
    assert_eq!(scenario.read("out/b.txt").as_deref(), Some("HELLO"));
    assert_eq!(output(&scenario, "0/1.0"), serde_json::json!(["input", "output"]));
    // A file beside the mounts would be lost with the process.
    holds(&failure(&scenario, "0/2.0"), &["PermissionError", "b.txt"]);
}

#[test]
fn one_mount_at_the_root_is_the_working_directory() {
    if !has_python() {
        return;
    }
    let tools = "def reads() -> str:\n    return open('data/a.txt').read()\n";
    let scenario = calling(tools, &[call("reads")]).file("data/a.txt", "hello");
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), "hello");
}

const RATES: &str = "import json, pathlib\n\n\
                     RATES = json.loads((pathlib.Path(__file__).parent / 'rates.json').read_text())\n\n\
                     def rate(name: str = 'a') -> int:\n    return RATES[name]\n";

#[test]
fn tools_folder_is_readable_to_its_own_code() {
    if !has_python() {
        return;
    }
    let looks =
        "def looks() -> list:\n    import os\n    return sorted(os.listdir(os.path.dirname(__file__)))\n";
    let scenario = Scenario::new()
        .file("main.worker", WRITER)
        .file("s.yaml", &script(&[call("rate"), call("looks")]))
        .file("tools/rates.json", r#"{"a": 3}"#)
        .file("tools/.env", "SECRET=1")
        .file("tools/money.py", &format!("{RATES}\n{looks}"));
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), 3);
    assert_eq!(output(&scenario, "0/1.0"), serde_json::json!(["money.py", "rates.json"]));
}

#[test]
fn manifest_names_further_data() {
    if !has_python() {
        return;
    }
    let scenario = calling(RATES, &[call("rate")]).file("rates.json", r#"{"a": 4}"#);
    let told = run(&scenario, &["."]);
    assert_eq!(told.code, Some(2), "{told}");
    holds(&told.stderr, &["rates.json", "tools: {data: [rates.json]}", "FileNotFoundError"]);

    let scenario = scenario.file("project.yaml", "tools: {data: [rates.json]}\n");
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), 4);
    let scenario = scenario.file("project.yaml", "tools: {data: [rate.json, .env]}\n");
    let told = scenario.run(&["."]);
    assert_eq!(told.code, Some(2), "{told}");
    holds(&told.stderr, &["`rate.json` does not exist", "`.env` is invisible", "sandbox.env"]);
}

#[test]
fn description_follows_every_file_that_it_depends_on() {
    if !has_python() {
        return;
    }
    let tools = "import json, pathlib\nfrom enum import Enum\n\n\
                 NAMES = json.loads((pathlib.Path(__file__).parent / 'names.json').read_text())\n\
                 Name = Enum('Name', {name: name for name in NAMES})\n\n\
                 def greet(name: Name) -> str:\n    return name.value\n";
    let scenario = Scenario::new()
        .file("main.worker", WORKER)
        .file("s.yaml", r#"{"answers": [{"text": "done"}]}"#)
        .file("tools/greetings.py", tools)
        .file("tools/names.json", r#"["Ada"]"#);
    succeed(&scenario, &["."]);
    let schema = |scenario: &Scenario| {
        let started = super::fixture::record(scenario, "0", "conversation_started");
        started["tools"][0]["input"].to_string()
    };
    assert!(schema(&scenario).contains("Ada"));
    let scenario = scenario.file("tools/names.json", r#"["Grace"]"#);
    succeed(&scenario, &["."]);
    assert!(schema(&scenario).contains("Grace"), "{}", schema(&scenario));
}

#[test]
fn schema_of_a_class_is_cached_by_all_that_decides_it() {
    if !has_python() {
        return;
    }
    let scenario = Scenario::new()
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\nschema_in_ref: models.py:Order\ntoolsets: []\n---\n{{ item }}\n",
        )
        .file("s.yaml", "answers:\n  - text: done\n")
        .file("models.py", "from dataclasses import dataclass\nfrom helper import Item\n\n@dataclass\nclass Order:\n    item: Item\n")
        .file("helper.py", "from typing import Literal\nItem = Literal['pear']\n");
    assert_eq!(scenario.run(&[".", "--input", r#"{"item": "pear"}"#]).code, Some(0));
    let cached = || {
        let folder = scenario.home().join("home/.llm-do/cache/python/tools");
        fs::read_dir(folder).map_or(0, Iterator::count)
    };
    assert_eq!(cached(), 1);
    assert_eq!(scenario.run(&[".", "--input", r#"{"item": "pear"}"#]).code, Some(0));
    assert_eq!(cached(), 1);

    // A changed helper module changes the schema, and so does a new one that is found before it.
    let scenario = scenario.file("helper.py", "from typing import Literal\nItem = Literal['plum']\n");
    assert_eq!(scenario.run(&[".", "--input", r#"{"item": "pear"}"#]).code, Some(2));
    assert_eq!(scenario.run(&[".", "--input", r#"{"item": "plum"}"#]).code, Some(0));
    let scenario = scenario.file("helper/__init__.py", "from typing import Literal\nItem = Literal['fig']\n");
    assert_eq!(scenario.run(&[".", "--input", r#"{"item": "plum"}"#]).code, Some(2));
    assert_eq!(scenario.run(&[".", "--input", r#"{"item": "fig"}"#]).code, Some(0));
}

#[test]
fn written_output_is_kept_where_a_mount_is_writable() {
    if !has_python() {
        return;
    }
    let tools = "def f() -> None:\n    open('out/a.txt', 'w').write('kept')\n";
    let scenario = writing(tools, &[call("f")]);
    succeed(&scenario, &["."]);
    assert_eq!(scenario.read("out/a.txt").as_deref(), Some("kept"));
}
