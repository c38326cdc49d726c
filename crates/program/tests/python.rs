//! The sources of a worker's Python tools, nearest first: its imports and its folder, then its package, then each
//! library that its package depends on. See `docs/guides/python-tools.md`.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod stand_in;

use llm_do_core::{
    authority::{Access, Network, Place},
    function::FunctionSource,
    toolset::ToolsetRegistry,
    worker::{CodeEntry, CodeModule, CodePackage, Definitions, ToolLevel, WorkerDefinition},
};
use llm_do_program::{
    Diagnostics, LoadOptions, Program, ShownTools, Source, Start, check,
    code::{CodeProblem, CodeReader, ModuleTools},
    contents::Contents,
    diagnostics::{Code, codes},
    library::MemoryLibraries,
    list_workers,
    lock::{LOCK_FILE, Lock, Pinned},
    source::{DiskTree, Kind, MemoryTree, RealPlace, SourceError, SourceTree},
};
use serde_json::{Value, json};
use stand_in::Reader;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

type Files<'a> = &'a [(&'a str, &'a str)];

const PLAIN: &str = "---\n---\nDo it.\n";
const PYTHON: &str = "def greet(name: str) -> str:\n    return name\n";

fn host() -> LoadOptions {
    LoadOptions { toolsets: stand_in::registry(), ..LoadOptions::default() }
}

fn tree_at(root: &str, files: Files<'_>) -> Arc<dyn SourceTree> {
    Arc::new(MemoryTree::new(Place::new(root), files.iter().copied()))
}

fn load_with(files: Files<'_>, start: Start, host: LoadOptions) -> Result<Arc<Program>, Diagnostics> {
    let source = Source { tree: tree_at("/p", files), start, manifest: true, work: None };
    Program::load(source, host).map(|loaded| loaded.program)
}

fn load(files: Files<'_>) -> Arc<Program> {
    load_with(files, Start::Entry(None), host()).unwrap()
}

fn codes_of(files: Files<'_>, host: LoadOptions) -> Vec<Code> {
    let found = load_with(files, Start::Entry(None), host).unwrap_err();
    found.0.iter().map(|finding| finding.code).collect()
}

fn worker(program: &Program, reference: &str) -> Arc<WorkerDefinition> {
    program.worker(program.entry(), reference).unwrap()
}

/// Levels as `name: module module`, modules relative to the root of their package.
fn told(levels: &[ToolLevel]) -> Vec<String> {
    levels
        .iter()
        .map(|level| {
            let modules: Vec<String> = level
                .modules
                .iter()
                .map(|module| match &module.module {
                    CodeModule::File(place) => place.rest(&level.package.root).unwrap().to_owned(),
                    CodeModule::Installed { module, function } => format!("{module}:{function}"),
                })
                .collect();
            format!("{}: {}", level.name, modules.join(" "))
        })
        .collect()
}

#[test]
fn levels_are_nearest_first() {
    let program = load(&[
        ("main.worker", "---\nallow_workers: [specialist, plain, importer]\n---\nDo it."),
        ("tools.py", PYTHON),
        ("tools/b.py", PYTHON),
        ("tools/a.py", PYTHON),
        ("tools/_hidden.py", PYTHON),
        ("tools/notes.txt", ""),
        ("tools/deep/c.py", PYTHON),
        ("toolsets/__init__.py", PYTHON),
        ("toolsets/part.py", PYTHON),
        ("workers/plain.worker", PLAIN),
        ("workers/specialist/worker.worker", PLAIN),
        ("workers/specialist/tools.py", PYTHON),
        ("workers/specialist/tools/__init__.py", PYTHON),
        (
            "workers/importer.worker",
            "---\nimports: {tools: [./tools/a, more, toolsets/__init__.py]}\n---\nDo it.",
        ),
        ("more.py", PYTHON),
    ]);
    let project = "the project: tools.py tools/a.py tools/b.py toolsets";
    assert_eq!(told(&program.entry().tools), [project]);
    assert_eq!(told(&worker(&program, "plain").tools), [project]);
    assert_eq!(
        told(&worker(&program, "specialist").tools),
        ["the worker: workers/specialist/tools.py workers/specialist/tools", project]
    );
    // An imported function is the worker's own, and is offered once.
    assert_eq!(
        told(&worker(&program, "importer").tools),
        ["the worker: tools/a.py more.py toolsets", "the project: tools.py tools/b.py"]
    );
    assert_eq!(program.entry().tools[0].package.source, FunctionSource::Program);
    assert_eq!(program.entry().tools[0].package.root, Place::new("/p"));
    // A folder of workers may have tools of its own, without being one worker's.
    let program = load(&[
        ("main.worker", "---\nallow_workers: [a, b]\n---\nDo it."),
        ("workers/a.worker", PLAIN),
        ("workers/b.worker", PLAIN),
        ("workers/tools.py", PYTHON),
    ]);
    assert_eq!(told(&program.entry().tools), Vec::<String>::new());
    assert_eq!(told(&worker(&program, "a").tools), ["the worker: workers/tools.py"]);
    assert!(Arc::ptr_eq(&worker(&program, "a").tools, &worker(&program, "b").tools));
}

#[test]
fn a_manifest_says_where_tools_lie() {
    let files: Files<'_> = &[
        ("project.yaml", "tools: {roots: [code], modules: [helpers/extra.py]}"),
        ("main.worker", PLAIN),
        ("tools.py", PYTHON),
        ("code/one.py", PYTHON),
        ("helpers/extra.py", PYTHON),
    ];
    assert_eq!(told(&load(files).entry().tools), ["the project: code/one.py helpers/extra.py"]);
    let files: Files<'_> = &[("project.yaml", "tools: {modules: [absent.py]}"), ("main.worker", PLAIN)];
    assert_eq!(codes_of(files, host()), [codes::TOOL_MODULE_NOT_FOUND]);
}

#[test]
fn a_module_can_be_the_only_one() {
    let program = load(&[
        (
            "main.worker",
            "---\ntoolsets: {custom: {module: more, tools: [greet], greet: {pre_approved: true}, wave: {approvalRequired: true}}}\n---\nX",
        ),
        ("tools.py", PYTHON),
        ("more.py", PYTHON),
    ]);
    let levels = &program.entry().tools;
    assert_eq!(told(levels), ["the worker: more.py"]);
    assert_eq!(levels[0].modules[0].names, ["greet".into()]);
    // A rule about one tool is not a rule about the whole toolset.
    let (_, configuration) = &program.entry().toolsets[0];
    assert_eq!(
        **configuration,
        json!({
            "module": "more", "tools": ["greet"],
            "greet": {"pre_approved": true}, "wave": {"approval_required": true},
        })
    );
    let both = "---\nimports: {tools: [tools.py]}\ntoolsets: {custom: {module: tools.py}}\n---\nX";
    assert_eq!(codes_of(&[("main.worker", both), ("tools.py", PYTHON)], host()), [codes::CONFLICT]);
    let twice = "---\ntoolsets: {custom: {greet: {preApproved: true, approval_required: true}}}\n---\nX";
    assert_eq!(codes_of(&[("main.worker", twice), ("tools.py", PYTHON)], host()), [codes::CONFLICT]);
    let whole = "---\ntoolsets: {custom: {pre_approved: true}}\n---\nX";
    let program = load(&[("main.worker", whole), ("tools.py", PYTHON)]);
    assert_eq!(*program.entry().toolsets[0].1, json!({"approval": {"default": "preApproved"}}));
}

#[test]
fn installed_modules_are_named_only_where_that_is_allowed() {
    let files: Files<'_> = &[("main.worker", "---\nimports: {tools: ['pkg.mod:register']}\n---\nX")];
    assert_eq!(codes_of(files, host()), [codes::TOOL_IMPORT_DISALLOWED]);
    let allowed = LoadOptions { module_imports: true, ..host() };
    let program = load_with(files, Start::Entry(None), allowed).unwrap();
    assert_eq!(told(&program.entry().tools), ["the worker: pkg.mod:register"]);
    let broken: Files<'_> = &[("main.worker", "---\nimports: {tools: ['pkg mod:register']}\n---\nX")];
    assert_eq!(codes_of(broken, host()), [codes::BAD_TOOL_REFERENCE]);
}

#[test]
fn without_python_nothing_is_looked_for() {
    let none = || LoadOptions { import_tools: false, ..host() };
    let at = |keys: &str| format!("---\n{keys}\n---\nX");
    for keys in [
        "imports: {tools: [tools.py]}",
        "toolsets: {custom: {module: tools.py}}",
        "toolsets: {custom: {tools: [greet]}}",
        "toolsets: {custom: {greet: {pre_approved: true}}}",
        "toolsets: {custom: {approval: {default: ask}}}",
        "toolsets: [custom]",
    ] {
        let files = [("main.worker", &*at(keys)), ("tools.py", PYTHON)];
        assert_eq!(codes_of(&files, none()), [codes::TOOL_IMPORT_DISALLOWED], "{keys}");
    }
    let entry: Files<'_> = &[("project.yaml", "entry: tools.py:main"), ("tools.py", PYTHON)];
    assert_eq!(codes_of(entry, none()), [codes::TOOL_IMPORT_DISALLOWED]);
    // One that names none itself runs, and inherits no configuration of what it has not.
    let files: Files<'_> = &[
        ("project.yaml", "toolsets: {custom: {tools: [greet]}, filesystem: {}}"),
        ("main.worker", PLAIN),
        ("tools.py", PYTHON),
    ];
    let program = load_with(files, Start::Entry(None), none()).unwrap();
    let names: Vec<&str> = program.entry().toolsets.iter().map(|(name, _)| &**name).collect();
    assert_eq!((told(&program.entry().tools), names), (vec![], vec!["filesystem"]));

    // A host that runs none has no such toolset, and does not look for files.
    let bare = || LoadOptions { toolsets: ToolsetRegistry::built_in(), ..LoadOptions::default() };
    let files: Files<'_> = &[("main.worker", PLAIN), ("tools.py", PYTHON)];
    assert!(load_with(files, Start::Entry(None), bare()).unwrap().entry().tools.is_empty());
    let files: Files<'_> =
        &[("main.worker", "---\nimports: {tools: [tools.py]}\n---\nX"), ("tools.py", PYTHON)];
    assert_eq!(codes_of(files, bare()), [codes::NOT_SUPPORTED]);
    let files: Files<'_> = &[("main.worker", "---\ntoolsets: [custom]\n---\nX")];
    assert_eq!(codes_of(files, bare()), [codes::UNKNOWN_TOOLSET]);
    assert_eq!(codes_of(entry, bare()), [codes::NOT_SUPPORTED]);
}

/// Counts the looks at paths of tools.
struct Counting {
    tree: MemoryTree,
    looks: std::sync::Mutex<BTreeMap<String, u32>>,
}

impl SourceTree for Counting {
    fn root(&self) -> &Place {
        self.tree.root()
    }
    fn kind(&self, path: &str) -> Result<Option<Kind>, SourceError> {
        *self.looks.lock().unwrap().entry(path.to_owned()).or_default() += 1;
        self.tree.kind(path)
    }
    fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, SourceError> {
        self.tree.read(path, limit)
    }
    fn list(&self, path: &str) -> Result<Vec<(String, Kind)>, SourceError> {
        self.tree.list(path)
    }
    fn locate(&self, path: &str) -> Result<RealPlace, SourceError> {
        self.tree.locate(path)
    }
    fn opened(&self) -> u64 {
        self.tree.opened()
    }
}

#[test]
fn a_folder_is_looked_at_once_however_many_workers_lie_in_it() {
    let mut files = vec![("tools.py".to_owned(), PYTHON.to_owned())];
    let names: Vec<String> = (0..500).map(|i| format!("w{i}")).collect();
    files.push(("main.worker".into(), format!("---\nallow_workers: [{}]\n---\nX", names.join(", "))));
    files.extend(names.iter().map(|name| (format!("workers/{name}.worker"), PLAIN.to_owned())));
    let looks = |host: LoadOptions| {
        let tree = MemoryTree::new(Place::new("/p"), files.clone());
        let tree = Arc::new(Counting { tree, looks: Default::default() });
        let source = Source { tree: tree.clone(), start: Start::Entry(None), manifest: true, work: None };
        let program = Program::load(source, host).unwrap().program;
        assert_eq!(program.loaded().len(), 501);
        let looks = tree.looks.lock().unwrap();
        let of_tools = looks.iter().filter(|(path, _)| path.contains("tools"));
        of_tools.map(|(path, count)| (path.clone(), *count)).collect::<BTreeMap<_, _>>()
    };
    let most = looks(host());
    assert_eq!(most["tools.py"], 1);
    // Several threads may meet a folder at the same moment.
    let threads = u32::try_from(std::thread::available_parallelism().unwrap().get()).unwrap();
    assert!(most["workers/tools.py"] <= threads, "{most:?}");
    assert!(
        looks(LoadOptions { toolsets: ToolsetRegistry::built_in(), ..LoadOptions::default() }).is_empty()
    );
}

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
fn a_function_can_be_the_entry() {
    let files: Files<'_> = &[
        (
            "project.yaml",
            "name: p\nentry: src/run.py:main\ntoolsets: {filesystem: {}}\nlimits: {max_depth: 2}\n\
             sandbox: {paths: {out: {root: ./out, mode: rw}}}\n",
        ),
        ("src/run.py", "def main(input, ctx):\n    pass\n"),
        ("src/tools.py", PYTHON),
        ("tools.py", PYTHON),
        ("workers/a.worker", PLAIN),
    ];
    let program = load(files);
    let entry = program.entry();
    let code = entry.code.as_ref().unwrap();
    assert_eq!((&*entry.id, &*code.function), ("main", "main"));
    assert_eq!(code.module, CodeModule::File(Place::new("/p/src/run.py")));
    assert_eq!((&entry.source, &code.package.source), (&FunctionSource::Program, &FunctionSource::Program));
    assert_eq!(entry.signature.message.as_deref(), Some("input"));
    assert!(
        !entry.signature.declared && entry.instructions.text.is_empty() && entry.allow_workers.is_empty()
    );
    assert_eq!((entry.limits.max_depth, &*entry.toolsets[0].0), (Some(2), "filesystem"));
    assert_eq!(entry.sandbox.narrowing.mounts[0].at.as_str(), "/out");
    assert_eq!(told(&entry.tools), ["the project: tools.py"]);
    assert!(entry.text.starts_with("def main"));
    // Code names workers as the workers of its package do.
    assert_eq!(&*program.named_by(&FunctionSource::Program, "a").unwrap().id, "a");
    let error = program.named_by(&FunctionSource::Program, "b").unwrap_err().message;
    assert!(error.contains("there is no worker `b`"), "{error}");
    // The program may not write the file that starts it, wherever it lies.
    let authority = program.authority(&[], Network::Off, &[]);
    assert!(authority.locate("/src/run.py", Access::Read).is_ok());
    assert!(authority.locate("/src/run.py", Access::Write).is_err());
    // Nor is a module that its code could import.
    assert!(authority.locate("/src/other.py", Access::Write).is_err());
    assert!(authority.locate("/src/other/new.py", Access::Write).is_ok());
    assert!(program.shown().to_yaml().contains("filesystem"));

    let by_flag = load_with(files, Start::Entry(Some("tools.py:greet".into())), host()).unwrap();
    assert_eq!(&*by_flag.entry().id, "greet");
}

#[test]
fn an_entry_of_python_that_is_none_is_told() {
    let with = |entry: &str, host: LoadOptions| {
        let manifest = format!("entry: {entry}");
        codes_of(&[("project.yaml", &manifest), ("tools.py", PYTHON), ("t.py/x", "")], host)
    };
    assert_eq!(with("absent.py:main", host()), [codes::ENTRY_MISSING]);
    assert_eq!(with("t.py:main", host()), [codes::ENTRY_MISSING]);
    assert_eq!(with("../tools.py:main", host()), [codes::ESCAPES_ROOT]);
    assert_eq!(with("'tools.py:'", host()), [codes::BAD_TOOL_REFERENCE]);
    assert_eq!(with("'tools.py:a b'", host()), [codes::BAD_TOOL_REFERENCE]);
    assert_eq!(with("pkg.mod:main", host()), [codes::TOOL_IMPORT_DISALLOWED]);
    assert_eq!(with("pkg:main", host()), [codes::UNDECLARED_LIBRARY]);
    let allowed = || LoadOptions { module_imports: true, ..host() };
    let files: Files<'_> = &[("project.yaml", "entry: pkg.mod:main")];
    let program = load_with(files, Start::Entry(None), allowed()).unwrap();
    let installed = CodeModule::Installed { module: "pkg.mod".into(), function: "main".into() };
    assert_eq!(program.entry().code.as_ref().unwrap().module, installed);
}

#[test]
fn a_worker_and_the_entry_cannot_share_a_name() {
    let program =
        load(&[("project.yaml", "entry: tools.py:main"), ("tools.py", PYTHON), ("main.worker", PLAIN)]);
    let error = program.named_by(&FunctionSource::Program, "main").unwrap_err().message;
    assert!(error.contains("both define the worker `main`"), "{error}");
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

#[cfg(unix)]
#[test]
fn links_out_of_the_root_are_no_tools() {
    use std::{fs, os::unix::fs::symlink};
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("p");
    fs::write(outer.path().join("evil.py"), PYTHON).unwrap();
    let load = |plant: &dyn Fn()| {
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("workers/x")).unwrap();
        fs::create_dir_all(root.join("tools")).unwrap();
        fs::write(root.join("main.worker"), "---\nallow_workers: [x]\n---\nX").unwrap();
        fs::write(root.join("workers/x/worker.worker"), PLAIN).unwrap();
        plant();
        let tree = Arc::new(DiskTree::open(&root).unwrap());
        let source = Source { tree, start: Start::Entry(None), manifest: true, work: None };
        Program::load(source, host()).map(|loaded| loaded.program)
    };
    for place in ["tools.py", "tools/a.py", "tools/__init__.py", "workers/x/tools.py"] {
        let found = load(&|| symlink(outer.path().join("evil.py"), root.join(place)).unwrap()).unwrap_err();
        assert!(found.0.iter().any(|finding| finding.code == codes::ESCAPES_ROOT), "{place}: {found}");
    }
    let found = load(&|| symlink(outer.path(), root.join("toolsets")).unwrap()).unwrap_err();
    assert_eq!(found.0[0].code, codes::ESCAPES_ROOT);
    // One that stays inside is a file like any other.
    let program = load(&|| {
        fs::write(root.join("real.py"), PYTHON).unwrap();
        symlink("../real.py", root.join("tools/a.py")).unwrap();
    })
    .unwrap();
    assert_eq!(told(&program.entry().tools), ["the project: tools/a.py"]);
}

/// Counts how often somebody looks.
struct Looks {
    reader: Reader,
    tools: AtomicU32,
    schemas: AtomicU32,
}

impl CodeReader for Looks {
    fn tools(&self, level: &ToolLevel) -> Vec<ModuleTools> {
        self.tools.fetch_add(1, Ordering::Relaxed);
        self.reader.tools(level)
    }
    fn sha256(&self, levels: &[ToolLevel], _: Option<&CodeEntry>) -> Arc<str> {
        format!("{} levels", levels.len()).into()
    }

    fn schema(&self, package: &CodePackage, module: &CodeModule, class: &str) -> Result<Value, CodeProblem> {
        self.schemas.fetch_add(1, Ordering::Relaxed);
        self.reader.schema(package, module, class)
    }
}

#[test]
fn a_load_looks_into_python_for_schemas_alone_and_check_once_at_each_level() {
    let mut files = vec![
        (
            "main.worker".to_owned(),
            "---\nschema_in_ref: shapes.py:Order\nschema_out_ref: answer.py:Answer\n---\n{{ text }}"
                .to_owned(),
        ),
        ("shapes.py".to_owned(), "class Order(BaseModel):\n    text: str\n    count: int\n".to_owned()),
        ("schemas/answer.py".to_owned(), "class Answer(TypedDict):\n    text: str\n".to_owned()),
        ("tools.py".to_owned(), PYTHON.to_owned()),
    ];
    files.extend((0..200).map(|i| (format!("workers/w{i}.worker"), PLAIN.to_owned())));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let reader = Reader::of("/p", files.iter().copied());
    let looks = Arc::new(Looks { reader, tools: AtomicU32::default(), schemas: AtomicU32::default() });
    let host = LoadOptions { code: Some(looks.clone()), ..host() };
    let program = load_with(&files, Start::Entry(None), host.clone()).unwrap();
    let schema = program.entry().signature.schema.value();
    assert_eq!(schema["properties"]["count"], json!({"type": "integer"}));
    assert_eq!(program.entry().signature.message.as_deref(), Some("text"));
    assert_eq!(program.entry().returns.as_ref().unwrap().value()["required"], json!(["text"]));
    let seen = || (looks.tools.load(Ordering::Relaxed), looks.schemas.load(Ordering::Relaxed));
    assert_eq!(seen(), (0, 2));
    let source =
        Source { tree: tree_at("/p", &files), start: Start::Entry(None), manifest: true, work: None };
    assert_eq!(check(source, host), []);
    assert_eq!(seen(), (1, 4));
}

#[test]
fn classes_of_python_need_python_and_modules_a_word() {
    let files: Files<'_> = &[
        ("main.worker", "---\nschema_in_ref: shapes.py:Order\n---\nX"),
        ("shapes.py", "class Order(BaseModel):\n    text: str\n"),
    ];
    let code = || Some(Arc::new(Reader::of("/p", files.iter().copied())) as _);
    // Without anything that looks into it, without the toolset, without leave.
    assert_eq!(codes_of(files, host()), [codes::NOT_SUPPORTED]);
    let bare = LoadOptions { toolsets: ToolsetRegistry::built_in(), code: code(), ..LoadOptions::default() };
    assert_eq!(codes_of(files, bare), [codes::NOT_SUPPORTED]);
    let none = LoadOptions { import_tools: false, code: code(), ..host() };
    assert_eq!(codes_of(files, none), [codes::TOOL_IMPORT_DISALLOWED]);
    let module: Files<'_> = &[("main.worker", "---\nschema_in_ref: shapes.Order\n---\nX")];
    assert_eq!(codes_of(module, LoadOptions { code: code(), ..host() }), [codes::TOOL_IMPORT_DISALLOWED]);
    // Where it is allowed, it is asked for: this one is not installed.
    let allowed = LoadOptions { code: code(), module_imports: true, ..host() };
    assert_eq!(codes_of(module, allowed), [codes::PYTHON_FAILED]);
}

#[test]
fn capabilities_are_used_by_code() {
    let said = |files: Files<'_>| {
        let host = LoadOptions { code: Some(Arc::new(Reader::of("/p", files.iter().copied()))), ..host() };
        let source =
            Source { tree: tree_at("/p", files), start: Start::Entry(None), manifest: true, work: None };
        check(source, host).iter().map(|finding| finding.code.id).collect::<Vec<_>>()
    };
    let worker = "---\nsandbox: {paths: {out: {root: ./out, mode: rw}}, network_enabled: true}\n---\nX";
    assert_eq!(said(&[("main.worker", worker)]), ["W0806", "W0806"]);
    assert_eq!(said(&[("main.worker", worker), ("tools.py", PYTHON)]), [""; 0]);
    // The toolset alone is nothing that could use them.
    let alone = worker.replace("sandbox", "toolsets: [custom]\nsandbox");
    assert_eq!(said(&[("main.worker", &alone)]), ["W0806", "W0806"]);
    let manifest = "entry: run.py:main\nsandbox: {network_enabled: true}";
    let entry: Files<'_> = &[("project.yaml", manifest), ("run.py", "def main(input, ctx):\n    pass\n")];
    assert_eq!(said(entry), [""; 0]);
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
