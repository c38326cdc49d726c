//! A program that is edited has the findings that it would have if it were checked for the first time.

#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod bad_programs;
mod stand_in;

use llm_do_core::{authority::Place, toolset::ToolsetRegistry};
use llm_do_program::{
    Cancel, Checker, Extent, LoadOptions, Source, Start, check,
    library::MemoryLibraries,
    source::{DiskTree, MemoryTree, OverlayTree},
};
use proptest::{prelude::*, test_runner::TestRunner};
use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

/// The number of sequences of edits that are tried on each program.
const CASES: u32 = 60;

type Texts = BTreeMap<String, String>;

/// A program with its checker.
struct Program {
    source: Source,
    host: LoadOptions,
    checker: Checker,
}

impl Program {
    fn new(source: Source, host: LoadOptions) -> Self {
        let checker = Checker::new(source.clone(), host.clone());
        Self { source, host, checker }
    }

    fn of(files: &[(&str, &str)]) -> Self {
        let tree = Arc::new(MemoryTree::new(Place::new("/p"), files.iter().copied()));
        let source = Source { tree, start: Start::Entry(None), manifest: true, work: None };
        let host = LoadOptions {
            toolsets: ToolsetRegistry::built_in(),
            providers: vec!["openai".into()],
            ..LoadOptions::default()
        };
        Self::new(source, host)
    }

    /// Checks the program with these texts. The findings must be those of a first check.
    fn check(&mut self, texts: &Texts, about: &str) -> Extent {
        let tree = Arc::new(OverlayTree::new(Arc::clone(&self.source.tree), texts.clone()));
        let whole = check(Source { tree, ..self.source.clone() }, self.host.clone());
        let (found, extent) = self.checker.check(texts.clone());
        assert_eq!(found, whole, "{about} ({extent:?}): {texts:#?}");
        extent
    }
}

fn one(path: &str, text: impl Into<String>) -> Texts {
    BTreeMap::from([(path.to_owned(), text.into())])
}

/// A check asks before each worker whether it must end. The number of questions shows how much it has done.
#[test]
fn cancelled_check_of_a_large_program_looks_at_few_more_workers() {
    let names: Vec<String> = (0..10_000).map(|number| format!("workers/w{number}.worker")).collect();
    let text = "---\nmodel: openai:gpt-5\nunknown: 1\n---\nHi {{ missing }}\n";
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), text)).collect();
    files.push(("project.yaml", "name: large\nexports: [w1]\n"));
    let mut program = Program::of(&files);
    let asked = Arc::new(AtomicUsize::new(0));
    let cancel_after = |most: usize| {
        asked.store(0, SeqCst);
        let asked = Arc::clone(&asked);
        Cancel::when(move || asked.fetch_add(1, SeqCst) >= most)
    };
    // While it reads, while it merges, and while it analyses.
    for most in [0, 1, 5_000, 15_000, 25_000] {
        let cancel = cancel_after(most);
        assert!(program.checker.check_unless(Texts::new(), &cancel).is_none(), "{most}");
        let more = asked.load(SeqCst) - most;
        assert!(more < 1_000, "after {most}, {more} more workers");
        assert!(program.checker.symbols().is_none());
    }
    let (found, extent) = program.checker.check_unless(Texts::new(), &cancel_after(usize::MAX)).unwrap();
    assert_eq!((found.len() >= 10_000, extent), (true, Extent::Everything));
    // An edit of a program that was read is short, and not cut.
    let edited = one("workers/w1.worker", text.replace("Hi", "Hello"));
    let (found_later, extent) = program.checker.check_unless(edited, &cancel_after(0)).unwrap();
    assert_eq!((found_later.len(), extent), (found.len(), Extent::Workers));
}

const PROGRAM: [(&str, &str); 8] = [
    ("project.yaml", "name: edited\nexports: [a]\n"),
    ("main.worker", "---\nmodel: openai:x\nallow_workers: [a, b]\n---\nYou delegate.\n"),
    (
        "workers/a.worker",
        "---\nmodel: openai:x\nparameters: {topic: string}\nallow_workers: [c]\n---\nWrite about {{ topic }}.\n",
    ),
    (
        "workers/b.worker",
        "---\nmodel: openai:x\nreturns: {sum: integer}\n---\n{% include \"head.j2\" %}Add.\n",
    ),
    ("workers/c.worker", "---\nmodel: openai:x\nschema_in_ref: c.json\n---\nCount.\n"),
    ("workers/c.json", "{\"type\": \"object\", \"properties\": {\"of\": {\"type\": \"string\"}}}"),
    ("templates/head.j2", "You are careful. "),
    ("templates/other.j2", "{{ whose }} "),
];

#[test]
fn an_edit_of_instructions_reads_one_worker() {
    let mut program = Program::of(&PROGRAM);
    assert_eq!(program.check(&Texts::new(), "at first"), Extent::Everything);
    assert_eq!(program.check(&Texts::new(), "again"), Extent::Nothing);
    let front = "---\nmodel: openai:x\nparameters: {topic: string}\nallow_workers: [c]\n---\n";
    for body in ["Write.\n", "Write {{ topic", "{% include \"other.j2\" %}", "{{ unknown }} {{ topic }}"] {
        let texts = one("workers/a.worker", format!("{front}{body}"));
        assert_eq!(program.check(&texts, body), Extent::Workers);
    }
    let none = one("workers/a.worker", front);
    assert_eq!(program.check(&none, "no instructions"), Extent::Workers);
    assert_eq!(program.check(&Texts::new(), "as before"), Extent::Workers);
}

#[test]
fn the_program_is_analysed_if_others_see_what_was_edited() {
    let mut program = Program::of(&PROGRAM);
    program.check(&Texts::new(), "at first");
    let front = "---\nmodel: openai:x\nparameters: {topic: string}\nallow_workers: [c]\n";
    for (text, extent) in [
        (format!("{front}description: It writes.\n---\nWrite about {{{{ topic }}}}.\n"), Extent::Workers),
        (format!("{front}limits: {{max_turns: 5}}\n---\nWrite {{{{ topic }}}}.\n"), Extent::Workers),
        (format!("{front}limits: {{max_turns: none}}\n---\nWrite {{{{ topic }}}}.\n"), Extent::Program),
        ("---\nmodel: openai:x\n---\nWrite.\n".to_owned(), Extent::Program),
        ("---\nmodel: openai:y\n---\nWrite.\n".to_owned(), Extent::Workers),
        ("---\nmodel: openai:x\nallow_workers: [a]\n---\nWrite.\n".to_owned(), Extent::Program),
        (
            "---\ndescription: It calls itself.\nmodel: openai:x\nallow_workers: [a]\n---\nWrite.\n"
                .to_owned(),
            Extent::Program, // The cycle is at another place.
        ),
        ("---\nmodel: openai:x\nallow_workers: [nowhere, c]\n---\nWrite.\n".to_owned(), Extent::Program),
        ("---\nmodel: [\n---\nWrite.\n".to_owned(), Extent::Program),
        (String::new(), Extent::Program), // The keys beside the error are lost too.
        ("---\nparameters: {topic: strnig}\nmodle: x\n---\nWrite {{ topic }}.\n".to_owned(), Extent::Program),
    ] {
        assert_eq!(program.check(&one("workers/a.worker", text.as_str()), &text), extent, "{text}");
    }
    assert_eq!(program.check(&Texts::new(), "as before"), Extent::Program);
}

#[test]
fn changes_on_disk_are_read_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    PROGRAM.iter().for_each(|(path, text)| put(path, text));
    let tree = Arc::new(DiskTree::open(folder.path()).unwrap());
    let source = Source { tree, start: Start::Entry(None), manifest: true, work: None };
    let host = LoadOptions { toolsets: ToolsetRegistry::built_in(), ..LoadOptions::default() };
    let mut program = Program::new(source, host);
    let mut look = |about: &str| {
        program.checker.look_again();
        program.check(&Texts::new(), about)
    };
    assert_eq!(look("at first"), Extent::Everything);
    assert_eq!(look("nothing has changed"), Extent::Nothing);
    put(
        "workers/a.worker",
        "---\nmodel: openai:x\nparameters: {topic: string}\nallow_workers: [c]\n---\nOn {{ x }}.\n",
    );
    assert_eq!(look("instructions"), Extent::Workers);
    put("templates/head.j2", "{{ nothing }}");
    assert_eq!(look("a template"), Extent::Everything);
    put("workers/new.worker", "---\nmodle: openai:x\n---\nNew.\n");
    assert_eq!(look("a new worker"), Extent::Everything);
    fs::remove_file(folder.path().join("workers/c.json")).unwrap();
    assert_eq!(look("a file that is gone"), Extent::Everything);
    put("project.yaml", "name: edited\nexports: [b]\n");
    assert_eq!(look("the manifest"), Extent::Everything);
    // A watcher of files names the paths.
    put(
        "workers/a.worker",
        "---\nmodel: openai:x\nparameters: {topic: string}\nallow_workers: [c]\n---\nOn {{ topic }}.\n",
    );
    program.checker.changed("workers/a.worker");
    assert_eq!(program.check(&Texts::new(), "reported"), Extent::Workers);
    // The text of an editor takes the place of the file.
    let texts = one("workers/a.worker", "---\nmodel: openai:x\n---\nHi.\n");
    program.check(&texts, "in an editor");
    put("workers/a.worker", "---\nmodel: openai:y\n---\nHi.\n");
    program.checker.changed("workers/a.worker");
    assert_eq!(program.check(&texts, "below an editor's text"), Extent::Nothing);
}

#[test]
fn what_is_not_only_a_worker_is_checked_as_a_whole() {
    let mut program = Program::of(&PROGRAM);
    program.check(&Texts::new(), "at first");
    let new = one("workers/d.worker", "---\nmodel: openai:x\n---\nHi.\n");
    assert_eq!(program.check(&new, "a new file"), Extent::Everything);
    assert_eq!(program.check(&Texts::new(), "it is gone"), Extent::Everything);
    assert_eq!(program.check(&one("project.yaml", "name: other\n"), "the manifest"), Extent::Everything);
    assert_eq!(program.check(&one("templates/head.j2", "{{ x }}"), "a template"), Extent::Everything);
    assert_eq!(program.check(&one("workers/c.json", "{"), "a schema"), Extent::Everything);
    let include = "---\nmodel: openai:x\n---\n{% include \"a.worker\" %}\n";
    let mut texts = one("workers/b.worker", include);
    program.check(&texts, "a worker as a template");
    texts.insert("workers/a.worker".into(), "---\nmodel: openai:x\n---\n{{ whose }}\n".into());
    assert_eq!(program.check(&texts, "an edit of that template"), Extent::Everything);
    assert_eq!(program.check(&one("../outside", "x"), "a file outside"), Extent::Everything);
    program.checker.forget();
    assert_eq!(program.check(&one("../outside", "x"), "after `forget`"), Extent::Everything);
}

/// Every kind of finding, in a program that is edited: in its instructions, in its keys, and back.
#[test]
fn edits_of_bad_programs_change_no_other_finding() {
    let mut alone = 0;
    for folder in bad_programs::cases() {
        let Some((source, host)) = bad_programs::program(&folder) else { continue };
        let mut files = Vec::new();
        workers(&folder, "", &mut files);
        let mut program = Program::new(source, host);
        for path in files {
            let Ok(text) = fs::read_to_string(folder.join(&path)) else { continue };
            let about = format!("{} in {}", path, folder.display());
            program.check(&Texts::new(), &about);
            for edit in [
                format!("{text}\nMore.\n"),
                format!("{text}\nMore {{{{ of_nothing }}}}.\n"),
                text.clone(),
                format!("{text} {{% if"),
                text.replacen("---\n", "---\ndescription: Other.\n", 1),
                text.replacen("---\n", "---\nmodle: [\n", 1),
            ] {
                let extent = program.check(&one(&path, edit), &about);
                alone += usize::from(extent == Extent::Workers);
            }
        }
    }
    assert!(alone > 200, "only {alone} edits concerned nothing but the worker");
}

/// Lists the worker files below a folder.
fn workers(root: &std::path::Path, below: &str, files: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(root.join(below)) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => workers(root, &path, files),
            Ok(kind) if kind.is_file() && name.ends_with(".worker") => files.push(path),
            _ => {}
        }
    }
}

/// Returns a strategy for a line of front matter.
fn key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(
        [
            "model: openai:x",
            "model: nobody:x",
            "compatible_models: [\"openai:*\"]",
            "allow_workers: [a]",
            "allow_workers: [b, d]",
            "allow_workers: [b, c, new]",
            "allow_workers: [main]",
            "allow_workers: [\"*\"]",
            "allow_workers: [kit:tell]",
            "imports: {workers: [kit:tell]}",
            "imports: {tools: [tools.py]}",
            "parameters: {topic: string}",
            "parameters: {topic: string, path: path}",
            "returns: {sum: integer}",
            "returns: {pass: boolean, reason: string}",
            "schema_in_ref: c.json",
            "schema_in_ref: a.worker",
            "toolsets: {filesystem: {}}",
            "toolsets: {filesystem: {approval: {tools: {write_file: pre_approved}}}}",
            "toolsets: {workers: {dynamic: true}}",
            "sandbox: {paths: {data: {root: ./data, mode: rw}}}",
            "sandbox: {restrict: [/data]}",
            "sandbox: {network_enabled: true}",
            "tool_rules: {read_file: ask}",
            "tool_rules: {web_search: ask}",
            "tool_rules: {d: ask, new: ask}",
            "tool_rules: [{tool: a, when: {topic: x}, then: ask}]",
            "server_side_tools: [web_search]",
            "limits: {max_turns: 5}",
            "limits: {max_turns: none}",
            "ensures: [a]",
            "description: x",
            "description: A longer text, so that everything behind it moves.",
            "modle: x",
            "mode: [",
        ]
        .as_slice(),
    )
}

/// Returns a strategy for a part of instructions.
fn word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(
        [
            "Write. ",
            "{{ topic }} ",
            "{{ nothing }} ",
            "{% include \"head.j2\" %} ",
            "{% include \"other.j2\" %} ",
            "{% include \"a.worker\" %} ",
            "{% include \"none.j2\" %} ",
            "{{ ",
            "\n",
        ]
        .as_slice(),
    )
}

/// A step of a user who edits files.
#[derive(Clone, Debug)]
enum Step {
    /// The file gets another text.
    Put(String),
    /// The edits of the file are undone.
    Back,
    /// Another key is added.
    Key(&'static str),
    /// More instructions are added.
    Word(&'static str),
}

fn steps() -> impl Strategy<Value = Vec<(&'static str, Vec<Step>)>> {
    let path = prop::sample::select(
        [
            "main.worker",
            "workers/a.worker",
            "workers/b.worker",
            "workers/c.worker",
            "workers/d.worker",
            "workers/new.worker",
        ]
        .as_slice(),
    );
    let text = (prop::collection::vec(key(), 0..4), prop::collection::vec(word(), 0..3))
        .prop_map(|(keys, words)| format!("---\n{}\n---\n{}", keys.join("\n"), words.concat()));
    let step = prop_oneof![
        2 => text.prop_map(Step::Put),
        2 => Just(Step::Back),
        3 => key().prop_map(Step::Key),
        1 => word().prop_map(Step::Word),
    ];
    prop::collection::vec((path, prop::collection::vec(step, 1..5)), 1..8)
}

/// Returns a program in which every analysis has findings after some edits: it has a library, cases, a stub and rules.
fn analysed() -> Program {
    let mut files = PROGRAM.to_vec();
    files[0] = (
        "project.yaml",
        "name: edited\nexports: [a]\ndependencies: [kit@1]\nbindings: {topic: 1}\ndelegation: {max_depth: 2}\n\
         sandbox: {network_enabled: true}\napproval: {tools: {d: ask, fs_*: ask}}\n",
    );
    files.extend([
        (
            "workers/d.worker",
            "---\nmodel: openai:x\nallow_workers: [a, b]\ntool_rules: {b: ask, c: ask}\n---\nDo it.\n",
        ),
        ("workers/A.worker", "---\nmodel: openai:x\n---\nIts name differs only in case.\n"),
        (
            "workers/a.cases.yaml",
            "cases:\n  - name: one\n    input: {topic: x}\n    given: {c: text, b: {sum: 1}}\n    \
             expect: {judge: b, calls: [c]}\n",
        ),
        ("workers/none.cases.yaml", "cases:\n  - {name: one, input: x}\n"),
        ("types.py", "# llm-do-stubs: python 00000000000000000000000000000000\n"),
    ]);
    let kit = MemoryTree::new(
        Place::new("/libs/kit@1"),
        [
            ("lib.yaml", "name: kit\nversion: \"1\"\nexports: [tell]\n"),
            ("workers/tell.worker", "---\ndescription: Tells.\n---\nTell {{ input }}.\n"),
        ],
    );
    let libraries = MemoryLibraries(BTreeMap::from([("kit@1".to_owned(), Arc::new(kit) as _)]));
    let mut program = Program::of(&files);
    let host = LoadOptions { libraries: Arc::new(libraries), ..program.host.clone() };
    program = Program::new(program.source, host);
    program
}

/// Edits of one file after another. Each time the findings have to be those of a first check.
fn edit(
    program: &mut Program,
    steps: Vec<(&'static str, Vec<Step>)>,
    extents: &RefCell<BTreeMap<String, usize>>,
) {
    let mut texts = Texts::new();
    program.check(&texts, "at first");
    for (path, steps) in steps {
        let saved = program.source.tree.read(path, 10_000).map(|text| String::from_utf8(text).unwrap());
        for step in steps {
            let text = texts.get(path).or(saved.as_ref().ok()).cloned().unwrap_or_default();
            match &step {
                Step::Put(text) => texts.insert(path.into(), text.clone()),
                Step::Back => texts.remove(path),
                Step::Key(key) => {
                    texts.insert(path.into(), text.replacen("---\n", &format!("---\n{key}\n"), 1))
                }
                Step::Word(word) => texts.insert(path.into(), text + word),
            };
            let extent = program.check(&texts, &format!("{path}: {step:?}"));
            *extents.borrow_mut().entry(format!("{extent:?}")).or_default() += 1;
        }
    }
}

#[test]
fn random_edits_find_what_a_first_check_finds() {
    let extents = RefCell::new(BTreeMap::new());
    for program in [|| Program::of(&PROGRAM), analysed] {
        let mut runner = TestRunner::new(ProptestConfig {
            cases: CASES,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let run = runner.run(&steps(), |steps| {
            edit(&mut program(), steps, &extents);
            Ok(())
        });
        run.unwrap_or_else(|failed| panic!("{failed}"));
    }
    // Every extent is among them, so that the first check is not the only one that is compared.
    let extents = extents.into_inner();
    let least = CASES as usize;
    assert!(
        ["Workers", "Program", "Everything"].iter().all(|it| extents.get(*it) > Some(&least)),
        "{extents:?}"
    );
}
