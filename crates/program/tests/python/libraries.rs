//! Python of libraries.

use crate::*;

fn utils(files: Files<'_>) -> (Arc<dyn SourceTree>, Contents) {
    let tree = tree_at("/libs/utils", files);
    let contents = Contents::of(tree.as_ref()).unwrap();
    (tree, contents)
}

fn with_libraries(libraries: &[(&str, Arc<dyn SourceTree>)]) -> LoadOptions {
    let libraries = libraries.iter().map(|(name, tree)| ((*name).to_owned(), Arc::clone(tree))).collect();
    LoadOptions { libraries: Arc::new(MemoryLibraries(libraries)), ..host() }
}

const UTILS: Files<'static> = &[
    ("lib.yaml", "name: utils\nversion: '1.0'\nexports: [helper]\ndependencies: [text]"),
    ("workers/helper.worker", PLAIN),
    ("workers/helper2/worker.worker", PLAIN),
    ("tools.py", PYTHON),
    ("tools/more.py", PYTHON),
    ("toolsets/own.py", PYTHON),
];

#[test]
fn libraries_give_their_tools() {
    let text = tree_at(
        "/libs/text",
        &[("lib.yaml", "name: text\nversion: '1.0'\nexports: []"), ("tools/join.py", PYTHON)],
    );
    let host = with_libraries(&[("utils", utils(UTILS).0), ("text", text)]);
    let files: Files<'_> = &[
        ("project.yaml", "dependencies: [text, utils]"),
        ("main.worker", "---\nallow_workers: ['utils:helper']\n---\nX"),
        ("tools.py", PYTHON),
    ];
    let program = load_with(files, Start::Entry(None), host).unwrap();
    assert_eq!(
        told(&program.entry().tools),
        [
            "the project: tools.py",
            "the library `text`: tools/join.py",
            "the library `utils`: tools.py tools/more.py"
        ]
    );
    // A library's worker has its library's tools and none of the program.
    let helper = worker(&program, "utils:helper");
    assert_eq!(
        told(&helper.tools),
        ["this library: tools.py tools/more.py toolsets/own.py", "the library `text`: tools/join.py"]
    );
    assert_eq!(helper.tools[0].package.source, FunctionSource::Library("utils".into()));
    assert_eq!(helper.tools[0].package.root, Place::new("/libs/utils"));
}

#[test]
fn code_of_a_pinned_library_is_what_was_pinned() {
    let (same, contents) = utils(UTILS);
    let mut lock = Lock::default();
    lock.insert(Pinned::new("utils", "1.0", contents));
    let lock = lock.to_text();
    let text = || tree_at("/libs/text", &[("lib.yaml", "name: text\nversion: '1.0'\nexports: []")]);
    let load = |tree: Arc<dyn SourceTree>, main: &str| {
        let files: Files<'_> =
            &[("project.yaml", "dependencies: [utils]"), ("main.worker", main), (LOCK_FILE, &lock)];
        load_with(files, Start::Entry(None), with_libraries(&[("utils", tree), ("text", text())]))
    };
    assert_eq!(load(same, PLAIN).unwrap().entry().tools.len(), 1);
    // A file that no definition names and no module is: Python may import it all the same.
    let mut changed: Vec<(&str, &str)> = UTILS.to_vec();
    changed.push(("tools/_hidden.py", "import os"));
    let found = load(utils(&changed).0, PLAIN).unwrap_err();
    assert_eq!(found.0.len(), 1, "{found}");
    assert_eq!(found.0[0].code, codes::LIBRARY_CHANGED);
    assert!(found.0[0].message.contains("`tools/_hidden.py` is new"), "{found}");
    // Files that an interpreter leaves behind are no part of it.
    let mut compiled: Vec<(&str, &str)> = UTILS.to_vec();
    compiled.push(("tools/__pycache__/more.cpython-312.pyc", "x"));
    load(utils(&compiled).0, PLAIN).unwrap();
}

#[test]
fn code_of_a_library_names_what_its_library_names() {
    let text = tree_at(
        "/libs/text",
        &[("lib.yaml", "name: text\nversion: '1.0'\nexports: [join]"), ("workers/join.worker", PLAIN)],
    );
    let host = with_libraries(&[("utils", utils(UTILS).0), ("text", text)]);
    let files: Files<'_> =
        &[("project.yaml", "dependencies: [utils]"), ("main.worker", PLAIN), ("workers/own.worker", PLAIN)];
    let program = load_with(files, Start::Entry(None), host).unwrap();
    let named =
        |source: FunctionSource, name: &str| program.named_by(&source, name).map(|it| it.id.to_string());
    let utils = || FunctionSource::Library("utils".into());
    assert_eq!(named(utils(), "helper").unwrap(), "utils:helper");
    assert_eq!(named(utils(), "helper2").unwrap(), "utils:helper2");
    assert_eq!(named(utils(), "text:join").unwrap(), "text:join");
    assert!(named(utils(), "own").is_err());
    assert_eq!(named(FunctionSource::Program, "utils:helper").unwrap(), "utils:helper");
    assert!(named(FunctionSource::Program, "utils:helper2").is_err());
    assert!(named(FunctionSource::Program, "text:join").is_err());
    assert!(named(FunctionSource::Library("none".into()), "x").is_err());
}

#[test]
fn what_is_shown_of_tools_is_where_they_come_from() {
    let files: Files<'_> = &[
        ("project.yaml", "dependencies: [utils]\nentry: run.py:start"),
        ("main.worker", PLAIN),
        ("run.py", "def start(input, ctx):\n    pass\n"),
        ("tools.py", PYTHON),
        ("workers/a/worker.worker", "---\nimports: {tools: ['pkg.mod:register']}\n---\nX"),
        ("workers/a/tools/one.py", PYTHON),
    ];
    let host = || LoadOptions { module_imports: true, ..with_libraries(&[("utils", utils(UTILS_ALONE).0)]) };
    let shared = [("the project", vec!["tools.py"]), ("the library `utils`", vec!["/libs/utils/tools.py"])];
    let is = |tools: &[ShownTools], expected: &[(&str, Vec<&str>)]| {
        let tools: Vec<(&str, Vec<&str>)> = tools
            .iter()
            .map(|tools| (&*tools.level, tools.modules.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(tools, expected);
    };
    let shown = load_with(files, Start::Entry(Some("a".into())), host()).unwrap().shown();
    let mut expected = vec![("the worker", vec!["pkg.mod:register", "workers/a/tools/one.py"])];
    expected.extend(shared.clone());
    is(&shown.tools, &expected);
    assert!(!shown.is_code && !shown.pure);
    let shown = load_with(files, Start::Entry(None), host()).unwrap().shown();
    is(&shown.tools, &shared);
    assert_eq!((&*shown.instructions, shown.is_code, shown.pure), ("run.py:start", true, false));
    assert_eq!(shown.to_json()["tools"][0], json!({"level": "the project", "modules": ["tools.py"]}));

    let source = Source { tree: tree_at("/p", files), start: Start::Entry(None), manifest: true, work: None };
    let listed = list_workers(&source, host()).unwrap();
    is(&listed.tools, &shared);
    assert_eq!(listed.entry.as_deref(), Some("run.py:start"));
    let none = LoadOptions { import_tools: false, ..host() };
    is(&list_workers(&source, none).unwrap().tools, &[]);
}

const UTILS_ALONE: Files<'static> =
    &[("lib.yaml", "name: utils\nversion: '1.0'\nexports: []"), ("tools.py", PYTHON)];
