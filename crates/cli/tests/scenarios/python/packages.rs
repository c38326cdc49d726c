//! Classes as schemas, and packages that a program asks for.

use super::fixture::{call, has_python, holds, output, run, script, succeed};
use crate::scenario::Scenario;
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt};

/// A worker whose types are Python classes.
const TYPED: &str = "---\nmodel: script:s.yaml\nschema_in_ref: models.py:Query\nschema_out_ref: models.py:Answer\n---\n\
                     Answer {{ text }}.\n";

const MODELS: &str = "from dataclasses import dataclass\n\n@dataclass\nclass Query:\n    text: str\n\n@dataclass\nclass Answer:\n    \
                      words: int\n    sure: bool = False\n";

#[test]
fn python_classes_define_a_workers_types() {
    if !has_python() {
        return;
    }
    let answers = |answer: serde_json::Value| json!({"answers": [{"json": answer}]}).to_string();
    let scenario = Scenario::new().file("main.worker", TYPED).file("models.py", MODELS);
    let scenario = scenario.file("s.yaml", &answers(json!({"words": 2})));
    assert_eq!(succeed(&scenario, &[".", "--param", "text=two words"]).stdout, "{\"words\":2}\n");

    let told = run(&scenario, &[".", "--param", "txt=two words"]);
    assert_eq!(told.code, Some(2), "{told}");
    holds(&told.stderr, &["txt"]);

    let scenario = scenario.file("s.yaml", &answers(json!({"words": "two"})));
    let told = run(&scenario, &[".", "--param", "text=two words"]);
    assert_eq!(told.code, Some(1), "{told}");
    holds(&told.stderr, &["/words"]);

    // `show` and `check` see the same types.
    holds(&succeed(&scenario, &["show", "."]).stdout, &["main(text: string)"]);
    holds(&succeed(&scenario, &["check", "."]).stderr, &["nothing is wrong"]);
}

/// A replacement for `uv`: makes an environment without pip, and installs one module for every file of requirements. It
/// runs confined, so it notes its arguments in the environment.
const UV: &str = "#!/bin/sh\n\
    for last; do :; done\n\
    case \"$1\" in\n\
    venv) /usr/bin/python3 -m venv --without-pip \"$last\" && echo \"$@\" > \"$last/uv.log\" ;;\n\
    pip) for site in \"$UV_PROJECT_ENVIRONMENT\"/lib/python3*/site-packages; do echo 'VALUE = 7' > \"$site/wanted.py\"; done\n\
    cat \"$last\" > \"$UV_PROJECT_ENVIRONMENT/requirements\"\n\
    echo \"$@\" >> \"$UV_PROJECT_ENVIRONMENT/uv.log\" ;;\n\
    esac\n";

const ASKING: &str = "# /// script\n# dependencies = [\"wanted\"]\n# ///\nimport wanted\n\ndef value() -> int:\n    \
                      return wanted.VALUE\n";

#[test]
fn packages_of_a_script_header_are_installed_with_a_grant() {
    if !has_python() {
        return;
    }
    let scenario = Scenario::new()
        .file("main.worker", super::fixture::WORKER)
        .file("tools.py", ASKING)
        .file("s.yaml", &script(&[call("value")]))
        .file("../bin/uv", UV);
    let uv = scenario.project().join("../bin/uv");
    fs::set_permissions(&uv, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", scenario.project().join("../bin").display());
    let scenario = scenario.env("PATH", path);
    let made = |name: &str| {
        let environments = fs::read_dir(scenario.home().join("home/.llm-do/cache/python/environments"));
        let files =
            environments.into_iter().flatten().flatten().map(|entry| entry.path().join("venv").join(name));
        files.filter_map(|file| fs::read_to_string(file).ok()).collect::<String>()
    };
    let asked = || made("uv.log");

    let told = run(&scenario, &["."]);
    assert_eq!(told.code, Some(3), "{told}");
    holds(&told.stderr, &["packages", "tools.py", "--grant process=uv"]);
    assert_eq!(asked(), "", "nothing was fetched unasked");

    succeed(&scenario, &[".", "--grant", "process=uv"]);
    assert_eq!(output(&scenario, "0/0.0"), 7);
    holds(&asked(), &["venv ", "--no-config", "pip install --no-build ", "--no-python-downloads"]);
    // It sees what names packages, and no code.
    holds(&made("requirements"), &["# dependencies = [\"wanted\"]"]);
    assert!(!made("requirements").contains("def value"), "{}", made("requirements"));

    // An existing environment needs neither the grant nor `uv`.
    let before = asked();
    succeed(&scenario, &["."]);
    assert_eq!(asked(), before);

    // Another header needs another environment.
    let scenario = scenario.file("tools.py", &ASKING.replace("\"wanted\"", "\"wanted>1\""));
    assert_eq!(run(&scenario, &["."]).code, Some(3));
}

#[test]
fn missing_uv_is_reported_before_the_run() {
    if !has_python() {
        return;
    }
    let scenario = Scenario::new()
        .file("main.worker", super::fixture::WORKER)
        .file("tools.py", ASKING)
        .file("s.yaml", &script(&[call("value")]));
    let told = run(&scenario, &[".", "--grant", "process=uv"]);
    assert_eq!(told.code, Some(2), "{told}");
    holds(&told.stderr, &["`uv` is not installed", ".venv"]);
    assert!(scenario.runs().is_empty());
}
