//! Libraries and imports: which workers a worker may name, and the definition of a library's worker.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    authority::{Network, Place},
    function::FunctionSource,
    template::{Origin, render},
    toolset::ToolsetRegistry,
    worker::Definitions,
};
use llm_do_program::{
    Diagnostics, LoadOptions, Program, Source, Start,
    diagnostics::codes,
    library::MemoryLibraries,
    source::{MemoryTree, SourceTree},
};
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc};

const PLAIN: &str = "---\n---\nDo it.\n";

type Files<'a> = &'a [(&'a str, &'a str)];

fn tree(root: &str, files: Files<'_>) -> Arc<MemoryTree> {
    Arc::new(MemoryTree::new(Place::new(root), files.iter().map(|(path, text)| (*path, *text))))
}

fn load(
    files: Files<'_>,
    start: Start,
    libraries: &[(&str, Files<'_>)],
) -> Result<Arc<Program>, Diagnostics> {
    let folders: BTreeMap<String, Arc<dyn SourceTree>> = libraries
        .iter()
        .map(|(folder, files)| {
            let tree: Arc<dyn SourceTree> = tree(&format!("/libs/{folder}"), files);
            ((*folder).to_owned(), tree)
        })
        .collect();
    let host = LoadOptions {
        toolsets: ToolsetRegistry::built_in(),
        libraries: Arc::new(MemoryLibraries(folders)),
        ..LoadOptions::default()
    };
    let manifest = !matches!(start, Start::File(_));
    let source = Source { tree: tree("/home/me/p", files), start, manifest, work: None };
    Program::load(source, host).map(|loaded| loaded.program)
}

fn utils() -> (&'static str, Files<'static>) {
    (
        "utils@2.1.0",
        &[
            (
                "lib.yaml",
                "name: utils\nversion: 2.1.0\nexports: [summarizer, workers/translator]\ndependencies: [text]",
            ),
            (
                "workers/summarizer.worker",
                "---\nallow_workers: [helper, text:join, '*']\n---\n{% include \"note.jinja\" %}",
            ),
            ("workers/translator/worker.worker", PLAIN),
            ("workers/helper.worker", PLAIN),
            ("templates/note.jinja", "Note of utils. {% include 'part.jinja' %}"),
            ("templates/part.jinja", "Part of utils."),
        ],
    )
}

fn text() -> (&'static str, Files<'static>) {
    ("text", &[("lib.yaml", "name: text\nversion: '1'\nexports: [join]"), ("workers/join.worker", PLAIN)])
}

#[test]
fn a_librarys_names_are_its_own() {
    let program = load(
        &[
            ("project.yaml", "dependencies: [utils]"),
            ("main.worker", "---\nallow_workers: ['utils:summarizer', translator, helper, 'utils:*']\n---\n{% include 'utils:note.jinja' %}"),
            ("workers/helper.worker", "---\ndescription: the program's\n---\nDo it."),
            ("templates/part.jinja", "Part of the program."),
        ],
        Start::Entry(None),
        &[utils(), text()],
    )
    .unwrap();
    let worker = |reference: &str| program.worker(program.entry(), reference).unwrap();

    let summarizer = worker("utils:summarizer");
    assert_eq!(&*summarizer.id, "utils:summarizer");
    assert_eq!(summarizer.source, FunctionSource::Library("utils".into()));
    // A bare name finds an export where the program has none of that name, and the program's own first.
    assert_eq!(&*worker("translator").id, "utils:translator");
    assert_eq!(worker("helper").description.as_deref(), Some("the program's"));
    // To the library the same name means its own worker, exported or not, and its own dependencies.
    let helper = program.worker(&summarizer, "helper").unwrap();
    assert_eq!((&*helper.id, helper.description.as_deref()), ("utils:helper", None));
    assert_eq!(&*program.worker(&summarizer, "text:join").unwrap().id, "text:join");
    // Neither reaches what is not meant for it.
    assert!(program.worker(&summarizer, "main").unwrap_err().message.contains("there is no worker `main`"));
    for (reference, code) in [("utils:helper", "does not export"), ("text:join", "not a dependency")] {
        let error = program.worker(program.entry(), reference).unwrap_err();
        assert!(error.message.contains(code), "{reference}: {error}");
    }
    // Patterns match the workers that their worker may name.
    assert_eq!(program.matching(program.entry(), "utils:*"), ["utils:summarizer", "utils:translator"]);
    assert_eq!(program.matching(&summarizer, "*"), ["helper", "summarizer", "translator"]);

    // A library's template includes files of the library, also where another package includes the template.
    for worker in [&summarizer, program.entry()] {
        let text = &worker.instructions;
        let rendered =
            render(&text.text, &Origin::file("x"), &json!({}), Arc::clone(&text.templates)).unwrap();
        assert_eq!(rendered.trim(), "Note of utils. Part of utils.");
    }
    // The mounts of a library need no grant.
    assert_eq!(program.missing_grants(&[], &Network::Off, &[]), []);
}

#[test]
fn a_library_that_says_its_own_name_means_itself() {
    let own: Files<'_> = &[
        ("lib.yaml", "name: own\nversion: '1'\nexports: [a]"),
        ("workers/a.worker", "---\nallow_workers: ['own:b', 'own:*']\n---\n{% include 'own:x.jinja' %}"),
        ("workers/b.worker", PLAIN),
        ("templates/x.jinja", "X"),
    ];
    let user: Files<'_> = &[
        ("project.yaml", "dependencies: [own]"),
        ("main.worker", "---\nallow_workers: ['own:a']\n---\nDo it."),
    ];
    let used = load(user, Start::Entry(None), &[("own", own)]).unwrap();
    // Its author runs it as a program.
    let alone = load(own, Start::Entry(Some("own:a".into())), &[]).unwrap();
    let a = used.worker(used.entry(), "own:a").unwrap();
    for (program, a, b) in [(&used, &a, "own:b"), (&alone, alone.entry(), "b")] {
        assert_eq!(&*program.worker(a, "own:b").unwrap().id, b);
        let names = program.matching(a, "own:*");
        assert_eq!(names, ["own:a", "own:b"]);
        let text = &a.instructions;
        let rendered =
            render(&text.text, &Origin::file("x"), &json!({}), Arc::clone(&text.templates)).unwrap();
        assert_eq!(rendered, "X");
    }
    // Others still reach only its exports.
    assert!(used.worker(used.entry(), "own:b").is_err());
}

#[test]
fn a_project_can_be_a_library() {
    let reports: Files<'_> = &[
        (
            "project.yaml",
            "name: reports\nversion: '1.0'\nexports: [main, writers/short]\nmodel: a:b\nworkers: {root: agents}\nlimits: {max_turns: 3}",
        ),
        ("main.worker", PLAIN),
        ("agents/writers/short.worker", "---\nlimits: {max_turns: 9}\n---\nDo it."),
    ];
    let program = load(
        &[
            ("project.yaml", "dependencies: [reports@1.0]\nmodel: c:d\nlimits: {max_repeats: 2}"),
            ("main.worker", "---\nallow_workers: ['reports:main', 'reports:writers/short']\n---\nDo it."),
        ],
        Start::Entry(None),
        &[("reports@1.0", reports), ("reports@2.0", &[("lib.yaml", "broken: [")])],
    )
    .unwrap();
    let short = program.worker(program.entry(), "reports:writers/short").unwrap();
    // Its own project's model and the tightest limits of all.
    assert_eq!(short.models.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:b"]);
    assert_eq!((short.limits.max_turns, short.limits.max_repeats), (Some(3), 2));
}

#[test]
fn imports_load_a_closure_without_a_project() {
    let files: Files<'_> = &[
        (
            "start.worker",
            "---\nimports: {workers: [reports/summary, ./shared/critic, 'utils:summarizer']}\nallow_workers: [reports/summary, shared/critic, 'utils:summarizer', 'reports/*']\n---\nDo it.",
        ),
        (
            "workers/reports/summary.worker",
            "---\nimports: {workers: [reports/summary, ./start]}\n---\nDo it.",
        ),
        ("shared/critic.yaml", "instructions: Judge.\nimports: {workers: [./start.worker]}"),
        ("workers/unrelated.worker", "---\nbroken: [\n---\n"),
    ];
    let start = || Start::File("start.worker".into());
    let program = load(files, start(), &[utils(), text()]).unwrap();
    let mut loaded: Vec<String> = program.loaded().iter().map(|worker| worker.id.to_string()).collect();
    loaded.sort();
    assert_eq!(
        loaded,
        ["reports/summary", "shared/critic", "start", "text:join", "utils:helper", "utils:summarizer"]
    );
    assert_eq!(&*program.worker(program.entry(), "shared/critic").unwrap().id, "shared/critic");
    // Importing is not being a dependency for everybody: another lone file that imports nothing knows no library.
    let files: Files<'_> = &[("start.worker", "---\nallow_workers: ['utils:summarizer']\n---\nDo it.")];
    let errors = load(files, start(), &[utils(), text()]).unwrap_err();
    assert_eq!(errors.0[0].code, codes::UNDECLARED_LIBRARY);
}

#[test]
fn a_thousand_workers_that_import_each_other_load_once_each() {
    let workers: Vec<(String, String)> = (0..1000)
        .map(|i| {
            // Its neighbours on both sides, so that each imports those that import it.
            let names: Vec<String> = (990..1011).map(|step| format!("w{}", (i + step) % 1000)).collect();
            let text = format!("---\nimports: {{workers: [{}]}}\n---\nDo it.", names.join(", "));
            (format!("workers/w{i}.worker"), text)
        })
        .collect();
    let mut files: Vec<(&str, &str)> =
        workers.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let main = "---\nimports: {workers: [w0]}\n---\nDo it.";
    files.push(("main.worker", main));
    let program = load(&files, Start::Entry(None), &[]).unwrap();
    assert_eq!(program.loaded().len(), 1001);
    assert_eq!(program.tree().opened(), 1001);
}

#[test]
fn every_layout_of_the_specification_loads() {
    // The guides grow a program from one file up to libraries.
    let lone: Files<'_> = &[("task.worker", PLAIN)];
    load(lone, Start::File("task.worker".into()), &[]).unwrap();
    let levels: [Files<'_>; 6] = [
        &[("main.worker", PLAIN)],
        &[("main.worker", PLAIN), ("tools.py", "def add(a: int, b: int) -> int:\n    return a + b\n")],
        &[
            ("main.worker", "---\nallow_workers: [helper_a, helper_b]\n---\nDo it."),
            ("workers/helper_a.worker", PLAIN),
            ("workers/helper_b.worker", PLAIN),
        ],
        &[("main.worker", "---\n---\n{% include 'shared.jinja' %}"), ("templates/shared.jinja", "Do it.")],
        &[
            ("main.worker", "---\nallow_workers: [specialist]\n---\nDo it."),
            ("tools/__init__.py", ""),
            ("workers/specialist/worker.worker", "---\n---\n{% include 'own.jinja' %}"),
            ("workers/specialist/templates/own.jinja", "Do it."),
            ("workers/specialist/tools.py", ""),
        ],
        &[
            ("main.worker", "---\nallow_workers: ['text:join']\n---\nDo it."),
            ("project.yaml", "dependencies: [text]"),
        ],
    ];
    for files in levels {
        load(files, Start::Entry(None), &[text()]).unwrap();
    }
}
