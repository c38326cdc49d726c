//! The places of tools, and the order in which they are searched.

use crate::*;

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

/// A tree that counts the lookups of each path.
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
