//! Old trees, each with its expected result in a file next to it. `UPDATE_EXPECT=1` rewrites those files.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

#[path = "../../program/tests/stand_in/mod.rs"]
mod stand_in;

use llm_do_core::authority::Place;
use llm_do_migrate::{Change, Content, Plan, Scope, plan};
use llm_do_program::{
    LoadOptions, Source, Start, check,
    source::{DiskTree, LARGEST_DEFINITION, MemoryTree},
};
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

type Files = BTreeMap<String, Vec<u8>>;

fn cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/migrate");
    let mut cases: Vec<PathBuf> =
        fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).filter(|path| path.is_dir()).collect();
    cases.sort();
    assert!(cases.len() >= 9, "the cases are gone");
    cases
}

fn read(folder: &Path) -> Files {
    fn walk(root: &Path, folder: &Path, files: &mut Files) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, files);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    let mut files = Files::new();
    walk(folder, folder, &mut files);
    files
}

fn tree(files: &Files) -> MemoryTree {
    MemoryTree::new(Place::new("/home/me/p"), files.iter().map(|(path, bytes)| (path, bytes.clone())))
}

/// Returns the files after a plan was applied.
fn carried_out(files: &Files, plan: &Plan) -> Files {
    let mut out = files.clone();
    for from in plan.changes.iter().filter_map(|change| change.from.as_ref()) {
        out.remove(from).unwrap();
    }
    for absorbed in &plan.absorbed {
        out.remove(&absorbed.path).unwrap();
    }
    for Change { from, to, content } in &plan.changes {
        let bytes = match content {
            Content::Text { before, after } => {
                if let Some(from) = from {
                    assert_eq!(files[from], before.as_bytes());
                }
                after.clone().into_bytes()
            }
            Content::Moved => files[from.as_ref().unwrap()].clone(),
        };
        assert!(out.insert(to.clone(), bytes).is_none(), "{to} is overwritten");
    }
    for kept in &plan.kept {
        assert_eq!(out[kept], files[kept]);
    }
    out
}

fn told(plan: &Plan) -> String {
    let mut out = String::new();
    for form in &plan.forms {
        writeln!(out, "form: {form}").unwrap();
    }
    for Change { from, to, content } in &plan.changes {
        let from = from.as_deref().unwrap_or("nothing");
        writeln!(out, "=== {from} -> {to}").unwrap();
        if let Content::Text { after, .. } = content {
            out.push_str(after);
        }
    }
    for absorbed in &plan.absorbed {
        writeln!(out, "=== {} went into {}", absorbed.path, absorbed.into).unwrap();
    }
    if !plan.notes.is_empty() {
        out.push_str("=== notes\n");
    }
    for note in &plan.notes {
        writeln!(out, "{:?}: {note}", note.weight).unwrap();
    }
    out
}

/// Returns the errors of a tree and all of its workers.
fn wrong(files: &Files) -> Vec<String> {
    let host = LoadOptions { toolsets: stand_in::registry(), ..LoadOptions::default() };
    let source =
        Source { tree: Arc::new(tree(files)), start: Start::Entry(None), manifest: true, work: None };
    let found = check(source, host);
    found.iter().filter(|found| found.is_error()).map(ToString::to_string).collect()
}

#[test]
fn every_old_tree_becomes_what_is_expected() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut failures = Vec::new();
    for case in cases() {
        let plan = plan(&DiskTree::open(&case).unwrap(), &Scope::Folder).unwrap();
        let said = told(&plan);
        let file = case.with_extension("expected");
        if update {
            fs::write(&file, &said).unwrap();
            continue;
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if said != expected {
            failures.push(format!("== {}\n-- expected:\n{expected}\n-- said:\n{said}", case.display()));
        }
    }
    assert!(failures.is_empty(), "{}\nUPDATE_EXPECT=1 rewrites the expectations", failures.join("\n"));
}

#[test]
fn what_comes_out_loads_and_is_not_migrated_again() {
    for case in cases() {
        let files = read(&case);
        let first = plan(&tree(&files), &Scope::Folder).unwrap();
        let out = carried_out(&files, &first);
        // A file that is not text cannot be converted.
        let wrong: Vec<String> =
            wrong(&out).into_iter().filter(|message| !message.contains("latin.worker")).collect();
        if case.ends_with("hostile") {
            // Only the author can fix references outside the root, or two files with one name.
            let its_own = ["is outside the program's root", "ambiguous", "no worker", "both define"];
            assert!(
                wrong.iter().all(|message| its_own.iter().any(|own| message.contains(own))),
                "{wrong:#?}"
            );
        } else {
            assert_eq!(wrong, Vec::<String>::new(), "{}", case.display());
        }
        let second = plan(&tree(&out), &Scope::Folder).unwrap();
        assert!(second.is_empty(), "{}\n{}", case.display(), told(&second));
        assert_eq!(second.forms, []);
    }
}

#[test]
fn a_canonical_project_stays_as_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for project in ["tests/migrate/canonical", "../../examples/digest", "../../examples/extractor"] {
        let plan = plan(&DiskTree::open(&root.join(project)).unwrap(), &Scope::Folder).unwrap();
        assert!(plan.is_empty() && plan.notes.is_empty(), "{project}\n{}", told(&plan));
    }
}

#[test]
fn a_registry_that_runs_find_by_name_is_told_from_a_folder_of_workers() {
    let files = [("a.worker", "---\n---\nHi\n"), ("b.yaml", "name: b\ninstructions: Hi\n")];
    let at = |root: &str| plan(&MemoryTree::new(Place::new(root), files), &Scope::Folder).unwrap();
    assert!(at("/home/me/.llm-do/workers").is_registry);
    assert!(!at("/home/me/things").is_registry);
    assert_eq!(at("/home/me/things").changes, at("/home/me/.llm-do/workers").changes);
}

#[test]
fn one_file_is_migrated_where_it_stands() {
    let files = read(&cases().into_iter().find(|case| case.ends_with("agents")).unwrap());
    let plan = plan(&tree(&files), &Scope::File("analyze.agent".into())).unwrap();
    let places: Vec<(&str, &str)> =
        plan.changes.iter().map(|change| (change.from.as_deref().unwrap(), change.to.as_str())).collect();
    assert_eq!(places, [("analyze.agent", "analyze.worker")]);
    let mut taken = files.clone();
    taken.insert("analyze.worker".into(), b"---\n---\nHi\n".to_vec());
    let refused = llm_do_migrate::plan(&tree(&taken), &Scope::File("analyze.agent".into())).unwrap();
    assert!(
        refused.is_empty() && refused.notes[0].message.contains("analyze.worker is in the way"),
        "{}",
        told(&refused)
    );
    let out = carried_out(&files, &plan);
    assert!(String::from_utf8_lossy(&out["analyze.worker"]).contains("gemini:gemini-*"));
    assert_eq!(out.len(), files.len());
}

#[test]
fn what_is_no_program_is_not_recognised() {
    for files in [
        vec![],
        vec![
            ("readme.md", "hi"),
            ("data.yaml", "name: x\ncolour: blue\n"),
            ("project.json", "{\"name\": \"x\"}"),
        ],
    ] {
        let tree = MemoryTree::new(Place::new("/p"), files);
        assert!(plan(&tree, &Scope::Folder).unwrap_err().notes.is_empty());
    }
    let broken = MemoryTree::new(Place::new("/p"), [("a.worker", "no front matter")]);
    assert_eq!(plan(&broken, &Scope::Folder).unwrap_err().notes.len(), 1);
}

#[test]
fn a_file_that_is_too_large_is_left_alone() {
    let large = format!("---\nname: a\n---\n{}", "x".repeat(LARGEST_DEFINITION as usize));
    let tree = MemoryTree::new(
        Place::new("/p"),
        [("a.agent", large.as_str()), ("main.agent", "---\nname: main\n---\nHi\n")],
    );
    let plan = plan(&tree, &Scope::Folder).unwrap();
    assert_eq!(plan.changes.len(), 1, "{}", told(&plan));
    assert!(plan.notes[0].message.contains("bytes"), "{}", told(&plan));
    assert!(plan.kept.contains(&"a.agent".to_owned()));
}

/// Returns the text that one file of a tree becomes.
fn text_of(files: &[(&str, &str)], to: &str) -> String {
    let files: Files =
        files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
    let plan = plan(&tree(&files), &Scope::Folder).unwrap();
    String::from_utf8(carried_out(&files, &plan).remove(to).unwrap()).unwrap()
}

#[test]
fn older_rules_never_loosen_what_is_newer() {
    let text = text_of(
        &[(
            "main.worker",
            "---\ntoolsets:\n  filesystem: {read_approval: true, write_approval: false}\n---\nHi\n",
        )],
        "main.worker",
    );
    assert!(text.contains("write_file: preApproved") && text.contains("read_file: ask"), "{text}");
    assert!(!text.contains("delete_file") && !text.contains("default"), "{text}");
    let text = text_of(
        &[(
            "main.worker",
            "---\ntool_rules: {sandbox.write: {allowed: true, approval_required: false}}\n---\nHi\n",
        )],
        "main.worker",
    );
    assert!(text.contains("write: preApproved\n    delete: ask"), "{text}");
}

#[test]
fn delegation_has_many_forms() {
    let helpers = [("workers/a.worker", "---\n---\nA\n"), ("workers/b.worker", "---\n---\nB\n")];
    for (old, new) in [
        ("delegation: [a, b]", "workers:\n    allowed_workers: [a, b]\n"),
        ("delegation: {allowWorkers: a}", "workers: {allowed_workers: [a]}\n"),
        (
            "delegation: {a: {}, b: {approval_required: true}, worker_call: {}}",
            "workers:\n    allowed_workers: [a, b]\n    style: both\n    approval:\n      tools:\n        b: ask\n",
        ),
        ("delegation: {a: ~, limit: 3}", "workers: {allowed_workers: [a], limit: 3}\n"),
    ] {
        let main = format!("---\ntoolsets:\n  {old}\n---\nHi\n");
        let mut files = helpers.to_vec();
        files.push(("main.worker", &main));
        assert_eq!(text_of(&files, "main.worker"), format!("---\ntoolsets:\n  {new}---\nHi\n"), "{old}");
    }
}

#[test]
fn what_was_left_over_before_stays() {
    let text = text_of(
        &[("main.worker", "---\ncolour: red\nx-not-carried-over: {colour: blue}\n---\nHi\n")],
        "main.worker",
    );
    assert!(text.contains("colour: blue") && text.contains("colour-2: red"), "{text}");
    let text =
        text_of(&[("main.worker", "---\ncolour: red\nx-not-carried-over: mine\n---\nHi\n")], "main.worker");
    assert!(
        text.contains("x-not-carried-over: mine") && text.contains("x-not-carried-over-2:\n  colour: red"),
        "{text}"
    );
}

#[test]
fn a_manifest_of_which_nothing_is_left_is_a_manifest() {
    let files = [
        ("golem-forge.config.yaml", "workerPaths: [workers, .workers]"),
        ("main.worker", "---\n---\nHi\n"),
        (".workers/a.worker", "---\n---\nA\n"),
    ];
    assert_eq!(text_of(&files, "project.yaml"), "# All as by default.\n");
}

#[test]
fn a_library_needs_no_entry() {
    let files = [("lib.yaml", "name: l\n"), ("workers/a.yaml", "name: a\ninstructions: A\n")];
    let plan = plan(&MemoryTree::new(Place::new("/p"), files), &Scope::Folder).unwrap();
    assert_eq!(plan.changes.len(), 1, "{}", told(&plan));
}

#[test]
fn a_project_json_names_its_files_and_its_entry() {
    let json = |entry: &str| {
        format!("{{\"version\": 1, \"runtime\": {{}}, \"entry\": {entry}, \"worker_files\": [\"a.worker\"]}}")
    };
    let worker = ("a.worker", "---\nname: a\n---\nA\n");
    let manifest = json("{\"worker\": \"a\", \"input\": {\"input\": \"Go\"}}");
    let text = text_of(&[("project.json", &manifest), worker], "project.yaml");
    assert_eq!(text, "entry: a\nbindings:\n  input: Go\n");
    text_of(&[("project.json", &manifest), worker], "workers/a.worker");
    let manifest = json("{\"function\": \"tools.py:main\"}");
    assert_eq!(text_of(&[("project.json", &manifest), worker], "project.yaml"), "entry: tools.py:main\n");
}

#[test]
fn shell_rules_become_a_toolset() {
    let worker = "name: a\ndescription: x\nshell_rules:\n  - pattern: wc   # counts\n    approval_required: false\n    allowed: true\n  \
        - {pattern: rm, allowed: false}\nshell_default:\n  allowed: false\n  approval_required: true\ninstructions: Hi\n";
    let plan =
        plan(&MemoryTree::new(Place::new("/p"), [("workers/a.yaml", worker)]), &Scope::Folder).unwrap();
    let text = told(&plan);
    assert!(
        text.contains(
            "toolsets:\n  shell:\n    rules:\n      - pattern: wc\n        approval_required: false\n"
        ),
        "{text}"
    );
    assert!(text.contains("shell_rules.rm"), "{text}");
    assert!(!text.contains("shell_default"), "{text}");
}

/// Returns the guide's examples: by section the files before, and the files that must exist after.
fn examples() -> Vec<(String, Files, Files)> {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/migrating.md"))
            .unwrap();
    let mut sections: Vec<(String, Files, Files)> = Vec::new();
    let mut open: Option<(bool, String, String)> = None;
    for line in page.lines() {
        match (&mut open, line) {
            (None, line) if line.starts_with("## ") => {
                sections.push((line.to_owned(), Files::new(), Files::new()));
            }
            (None, line) if line.starts_with("```") => {
                let words: Vec<&str> = line.split(' ').collect();
                let (before, path) = match words.as_slice() {
                    [_, "before", path] => (true, *path),
                    [_, "after", path] => (false, *path),
                    _ => (true, ""),
                };
                open = Some((before, path.to_owned(), String::new()));
            }
            (Some(_), "```") => {
                let (before, path, text) = open.take().unwrap();
                // What stands before the first section is for the test that follows the guide.
                if let Some(section) = sections.last_mut().filter(|_| !path.is_empty()) {
                    let files = if before { &mut section.1 } else { &mut section.2 };
                    files.insert(path, text.into_bytes());
                }
            }
            (Some((_, _, text)), line) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    sections.retain(|(_, before, _)| !before.is_empty());
    sections
}

#[test]
fn the_guide_shows_what_happens() {
    let examples = examples();
    assert!(examples.len() >= 8, "the guide has lost its examples");
    for (title, before, after) in examples {
        let plan = plan(&tree(&before), &Scope::Folder).unwrap();
        let out = carried_out(&before, &plan);
        for (path, wanted) in &after {
            let there =
                String::from_utf8_lossy(out.get(path).unwrap_or_else(|| panic!("{title}: no {path}")));
            assert_eq!(there, String::from_utf8_lossy(wanted), "{title}: {path}");
        }
        assert_eq!(wrong(&out), Vec::<String>::new(), "{title}");
    }
}

fn yaml() -> impl Strategy<Value = String> {
    let keys = prop_oneof![
        "name|description|model|toolsets|allowWorkers|tool_rules|sandbox|sandboxes|entry|instructions|worker|_approval_config",
        "[a-zA-Z_]{1,8}",
    ];
    let values = prop_oneof![
        "[a-z]{0,6}",
        "\\[(filesystem|x|delegation)?\\]",
        "\\{(filesystem|delegation|a): (\\{\\}|~|\\{pre_approved: true\\}|\\[b\\])\\}",
        "true|false|~|3|\"x # y\"|> # c",
        "\\PC{0,10}",
    ];
    let line = (0..3_usize, keys, values, "( # [a-z]{1,3})?");
    prop::collection::vec(line, 0..8).prop_map(|lines| {
        lines.into_iter().fold(String::new(), |mut text, (depth, key, value, comment)| {
            writeln!(text, "{:1$}{key}: {value}{comment}", "", depth * 2).unwrap();
            text
        })
    })
}

proptest! {
    /// A plan for any files overwrites no file and keeps every file somewhere, and a second plan is empty.
    #[test]
    fn a_second_migration_has_nothing_to_do(a in yaml(), b in yaml(), c in yaml(), manifest in yaml()) {
        let files: Files = [
            ("workers/a.yaml", a),
            ("b.agent", format!("---\n{b}---\nHi\n")),
            (".workers/a.worker", format!("---\n{c}---\nHo\n")),
            ("main.worker", "---\nallow_workers: [a, b]\n---\nMain\n".into()),
            ("program.yaml", manifest),
            ("prompts/a.txt", "Do a.\n".into()),
        ].into_iter().map(|(path, text)| (path.to_owned(), text.into_bytes())).collect();
        let first = plan(&tree(&files), &Scope::Folder).unwrap();
        let out = carried_out(&files, &first);
        let second = plan(&tree(&out), &Scope::Folder).unwrap();
        prop_assert!(second.is_empty(), "{}\n--- then\n{}", told(&first), told(&second));
    }
}
