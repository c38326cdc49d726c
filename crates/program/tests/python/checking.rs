//! The cases in which a check reads Python, and those in which it does not.

use crate::*;

/// A reader that counts its calls.
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
