//! `llm-do stubs`: types that stay valid code whatever workers and schemas are called.
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use crate::{python_client::clients, scenario::Scenario};
use std::{fs, path::Path, process::Command};

const NAMES: [&str; 6] = ["class", "close", "__proto__", "1st", "odd-name", "a/b"];

/// Objects that contain themselves: directly, through each other, through a list, and as a whole.
const RECURSIVE: &str = r##"---
returns:
  type: object
  properties:
    node: {$ref: "#/$defs/node"}
    left: {$ref: "#/$defs/left"}
    json: {$ref: "#/$defs/json"}
    again: {$ref: "#"}
  required: [node]
  $defs:
    node:
      type: object
      properties: {value: {type: integer}, children: {type: array, items: {$ref: "#/$defs/node"}}}
      required: [value, children]
    left: {type: object, properties: {right: {$ref: "#/$defs/right"}}}
    right: {type: object, properties: {left: {$ref: "#/$defs/left"}, by: {type: object, additionalProperties: {$ref: "#/$defs/right"}}}}
    json: {anyOf: [{type: string}, {type: array, items: {$ref: "#/$defs/json"}}]}
---
X
"##;

/// Workers with names and keys that mean something else elsewhere.
fn odd() -> Scenario {
    let tree = "---\nreturns:\n  type: object\n  properties:\n    kind: {enum: [a, b c, self]}\n    \"fn\": {type: [string, 'null'], description: 'A \"text\" */ here'}\n    items: {type: array, items: {type: object, properties: {a-b: {type: integer}, a_b: {type: integer}}, required: [a-b]}}\n    any: {}\n  required: [kind]\n---\nX\n";
    let scenario = Scenario::new()
        .file("main.worker", "---\nparameters: {text: string, style: string?}\n---\nWrite {{ text }}.\n")
        .file("workers/tree.worker", tree);
    let scenario = scenario.file("workers/recursive.worker", RECURSIVE);
    NAMES.iter().fold(scenario, |scenario, name| {
        let keys = "---\nparameters: {self: string, 'od d\"k*/ey': number?, 'ключ': boolean?}\n---\nX\n";
        scenario.file(&format!("workers/{name}.worker"), keys)
    })
}

#[test]
fn stubs_have_each_worker_and_the_same_hash_in_each_language() {
    let scenario = odd();
    let hashes: Vec<String> = ["python", "typescript", "rust"]
        .iter()
        .map(|language| {
            let written = scenario.run(&["stubs", &format!("--{language}")]);
            assert_eq!(written.code, Some(0), "{written}");
            for name in ["MainInput", "TreeOutput", "ClassInput"] {
                assert!(written.stdout.contains(name), "{name}: {written}");
            }
            let header = written.stdout.lines().next().expect("a header").to_owned();
            let (_, hash) = header.split_once(&format!("llm-do-stubs: {language} ")).expect("a header");
            hash.to_owned()
        })
        .collect();
    assert!(hashes.iter().all(|hash| *hash == hashes[0] && hash.len() == 32), "{hashes:?}");
    assert_eq!(scenario.run(&["stubs"]).code, Some(2));
    assert_eq!(scenario.run(&["stubs", "--python", "--json"]).code, Some(2));
}

#[test]
fn stubs_of_recursive_schemas_end_and_name_themselves() {
    let scenario = odd();
    let stubs = |language: &str| {
        let written = scenario.run(&["stubs", language]);
        assert_eq!(written.code, Some(0), "{written}");
        written.stdout
    };
    let (python, typescript, rust) = (stubs("--python"), stubs("--typescript"), stubs("--rust"));
    for text in [&python, &typescript, &rust] {
        for name in ["RecursiveOutput", "Node", "Left", "Right"] {
            assert!(text.contains(name), "{name}: {text}");
        }
    }
    assert!(python.contains("\"children\": \"List[Node]\""), "{python}");
    assert!(python.contains("left: Left") && python.contains("Dict[str, Right]"), "{python}");
    // What Rust can't hold in itself is in a list or a box. The whole schema is one type.
    assert!(rust.contains("Vec<Node>") && rust.contains("Option<Box<RecursiveOutput>>"), "{rust}");
    assert!([&python, &typescript, &rust].iter().all(|text| !text.contains("RecursiveOutput2")), "{python}");
    if Path::new("/usr/bin/python3").exists() {
        let module = scenario.project().join("desk_types.py");
        fs::write(&module, &python).expect("written");
        let mut run = scenario.command_of(Path::new("/usr/bin/python3"));
        run.args(["-B", "-c", "import desk_types, typing; print(typing.get_type_hints(desk_types.Node))"]);
        run.env("PYTHONPATH", Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python"));
        let ran = run.output().expect("Python starts");
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(
            ran.status.success() && said.contains("children"),
            "{said}{}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
}

#[test]
fn check_tells_which_stubs_are_out_of_date() {
    let scenario = odd();
    for arguments in [["--python", "-o", "types.py"], ["--typescript", "-o", "workers/desk.d.ts"]] {
        let written = scenario.run(&[&["stubs"][..], &arguments].concat());
        assert_eq!((written.code, written.stdout.as_str()), (Some(0), ""), "{written}");
    }
    let fresh = scenario.run(&["check"]);
    assert!(!fresh.stderr.contains("W0814") && !fresh.stdout.contains("W0814"), "{fresh}");
    let scenario = scenario.file("main.worker", "---\nparameters: {text: integer}\n---\nWrite {{ text }}.\n");
    let stale = scenario.run(&["check"]);
    let said = format!("{}{}", stale.stdout, stale.stderr);
    assert_eq!(said.matches("W0814").count(), 2, "{stale}");
    assert!(said.contains("llm-do stubs --typescript -o workers/desk.d.ts"), "{stale}");
}

/// Each example and the odd one, with mypy, pyright and tsc as strict as they are.
#[test]
fn type_checkers_find_nothing_in_stubs() {
    let Some(clients) = clients() else {
        eprintln!("skipped: LLM_DO_TEST_CLIENTS names no folder with clients");
        return;
    };
    let scenario = odd();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository");
    let out = scenario.home().join("types");
    fs::create_dir(&out).expect("a folder");
    let examples = fs::read_dir(root.join("examples")).expect("the examples");
    let examples = examples.map(|entry| entry.expect("an entry").path());
    let is_program = |path: &std::path::PathBuf| {
        path.join("main.worker").exists()
            || path.join("project.yaml").exists()
            || path.extension().is_some_and(|extension| extension == "worker")
    };
    let mut programs: Vec<_> = examples.filter(is_program).collect();
    programs.push(root.join("examples/mail-assistant/after"));
    assert!(programs.len() > 8, "the examples are gone");
    programs.push(scenario.project());
    for program in &programs {
        let name = program.file_stem().expect("a name").to_string_lossy().replace('-', "_");
        for (language, ending) in [("--python", "py"), ("--typescript", "d.ts")] {
            let file = out.join(format!("{name}.{ending}"));
            let target = program.to_string_lossy();
            let written = scenario.run(&["stubs", &target, language, "-o", &file.to_string_lossy()]);
            assert_eq!(written.code, Some(0), "{target}: {written}");
        }
    }
    // What callers write against a stub, right and wrong.
    let uses = "from llm_do import load\nimport project\n\nwith load('.', stubs=project.Project) as p:\n    text: str = p.main(text='x', style=None)\n    tree: project.TreeOutput = p.tree('x')\n    b: str = p['a/b']({'self': 'x'})\n";
    fs::write(out.join("uses.py"), uses).expect("a file");
    let config = format!("{{\"strict\": [\".\"], \"extraPaths\": [{:?}]}}", root.join("python"));
    fs::write(out.join("pyrightconfig.json"), config).expect("a file");
    let types = root.join("clients/typescript/src/index.ts");
    let config = format!(
        "{{\"compilerOptions\": {{\"strict\": true, \"noEmit\": true, \"module\": \"nodenext\", \"target\": \"es2022\", \"lib\": [\"es2022\", \"esnext.disposable\"], \"types\": [\"node\"], \"paths\": {{\"llm-do\": [{types:?}]}}}}, \"include\": [\"*.d.ts\"]}}"
    );
    fs::write(out.join("tsconfig.json"), config).expect("a file");
    std::os::unix::fs::symlink(clients.join("node_modules"), out.join("node_modules")).expect("a link");
    let clean = |mut command: Command| {
        let run = command.current_dir(&out).output().expect("it starts");
        let said = [&run.stdout[..], &run.stderr].concat();
        assert!(run.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
    };
    let mut mypy = scenario.command_of(&clients.join("venv/bin/mypy"));
    mypy.args(["--strict", "."]).env("MYPYPATH", root.join("python"));
    clean(mypy);
    clean(scenario.command_of(&clients.join("venv/bin/pyright")));
    clean(scenario.command_of(&clients.join("node_modules/.bin/tsc")));
    let wrong = uses.replace("text='x', style=None", "txt='x'");
    fs::write(out.join("uses.py"), wrong).expect("a file");
    let mut mypy = scenario.command_of(&clients.join("venv/bin/mypy"));
    mypy.args(["--strict", "uses.py"]).env("MYPYPATH", root.join("python")).current_dir(&out);
    assert!(!mypy.output().expect("it starts").status.success(), "a wrong call is found");
}
