//! Functions as entries.

use crate::*;

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
