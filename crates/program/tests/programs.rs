//! Whole programs, loaded from memory and from disk.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    authority::{Access, Domain, Extent, Network, Place},
    gate::{Mode, Rule},
    template::{Origin, render},
    toolset::ToolsetRegistry,
    worker::{Definitions, WorkerDefinition},
};
use llm_do_program::{
    BindError, Diagnostics, LoadOptions, Loaded, Program, Source, Start,
    diagnostics::codes,
    list_workers,
    mounts::Wanted,
    signature::{Given, input_value, validate_input},
    source::{DiskTree, MemoryTree, SourceTree},
};
use serde_json::json;
use std::{fmt::Write, sync::Arc};

const PLAIN: &str = "---\n---\nDo it.\n";

fn tree(files: &[(&str, &str)]) -> Arc<MemoryTree> {
    Arc::new(MemoryTree::new(Place::new("/home/me/p"), files.iter().map(|(path, text)| (*path, *text))))
}

fn load_from(tree: Arc<dyn SourceTree>, start: Start) -> Result<Loaded, Diagnostics> {
    let host = LoadOptions { toolsets: ToolsetRegistry::built_in(), ..LoadOptions::default() };
    Program::load(Source { tree, start, manifest: true, work: None }, host)
}

fn load(files: &[(&str, &str)]) -> Arc<Program> {
    load_from(tree(files), Start::Entry(None)).unwrap().program
}

fn worker(program: &Program, reference: &str) -> Arc<WorkerDefinition> {
    program.worker(program.entry(), reference).unwrap()
}

#[test]
fn a_workers_list_of_callees_replaces_the_projects() {
    let callees = |worker: &str| {
        let program = load(&[
            ("project.yaml", "toolsets: {workers: {allowed_workers: [a, b], style: both}}"),
            ("main.worker", &format!("---\n{worker}\n---\nDo it.")),
            ("workers/a.worker", "---\nallow_workers: []\n---\nDo it."),
            ("workers/b.worker", "---\nallow_workers: []\n---\nDo it."),
            ("workers/c.worker", "---\nallow_workers: []\n---\nDo it."),
        ]);
        program.entry().allow_workers.join(" ")
    };
    assert_eq!(callees("description: has the project's"), "a b");
    assert_eq!(callees("toolsets: [workers]"), "a b");
    assert_eq!(callees("allow_workers: [c]"), "c");
    assert_eq!(callees("allow_workers: []"), "");
    assert_eq!(callees("toolsets: {delegation: {allow_workers: [c]}}"), "c");
    // One list within one file.
    assert_eq!(callees("allow_workers: [c]\ntoolsets: {workers: {allowedWorkers: [a]}}"), "c a");
}

#[test]
fn a_worker_inherits_from_its_project() {
    let program = load(&[
        (
            "project.yaml",
            "name: demo\nmodel: openai:gpt-5\n\
             sandbox: {paths: {input: ./input, output: {root: ./output, mode: rw}}, readonly: false}\n\
             toolsets: {filesystem: {tools: [read_file, list_files], approval: {tools: {read_file: blocked}}}}\n\
             approval: {mode: auto_deny, default: ask, tools: {'write_file(output/**)': preApproved}}\n\
             limits: {max_turns: 10, timeout: 5m}\ndelegation: {max_depth: 2}\n",
        ),
        (
            "main.worker",
            "---\ndescription: Starts.\nallow_workers: [deep/a]\nmodel_settings: {temperature: 0.5, stop: END}\n\
             toolsets: {filesystem: {approval: {tools: {read_file: preApproved}}}}\n\
             tool_rules: {'write_file(*)': {allowed: false}, read_file: {timeout: 3s}}\n\
             limits: {max_turns: 50, timeout: 90s}\n---\nHi {{ input }}\n",
        ),
        (
            "workers/deep/a.worker",
            "---\nname: deep/a\nmodel: anthropic:claude\nsandbox: {paths: {scratch: s}}\n---\nA\n",
        ),
    ]);
    assert_eq!(program.project_name(), "demo");
    assert_eq!(program.models()[0].as_str(), "openai:gpt-5");
    assert_eq!(program.mode(), Some(Mode::AutoDeny));
    assert_eq!(program.delegation().max_depth, 2);
    assert_eq!(program.approval().lines[0].rule, Rule::PreApproved);

    let main = program.entry();
    assert_eq!((&*main.id, main.models.is_empty()), ("main", true));
    assert_eq!((main.limits.max_turns, main.limits.timeout_ms), (Some(10), Some(90_000)));
    assert_eq!(main.settings.stop, ["END"]);
    assert_eq!((main.rules[0].rule, &*main.rules[0].written_at), (Rule::Blocked, "main.worker:6"));
    assert_eq!(main.overrides[0].timeout.unwrap().as_secs(), 3);
    let toolsets: Vec<(&str, String)> =
        main.toolsets.iter().map(|(name, c)| (&**name, c.to_string())).collect();
    let files = r#"{"tools":["read_file","list_files"],"approval":{"tools":{"read_file":"blocked"}}}"#;
    assert_eq!(toolsets, [("filesystem", files.to_owned()), ("workers", "{}".to_owned())]);
    assert_eq!(main.instructions.line_offset, 8);
    assert_eq!(&*main.instructions.text, "Hi {{ input }}\n");

    let a = worker(&program, "deep/a");
    assert_eq!(a.models[0].as_str(), "anthropic:claude");
    let mounts: Vec<&str> = a.sandbox.narrowing.mounts.iter().map(|m| m.at.as_str()).collect();
    assert_eq!(mounts, ["/input", "/output", "/scratch"]);
    assert!(Arc::ptr_eq(&a, &worker(&program, "./workers/deep/a.worker")), "one file, one definition");
}

#[test]
fn a_run_opens_only_its_closure_however_large_the_project() {
    let opened = |workers: usize| {
        let mut files = vec![
            ("main.worker".to_owned(), "---\nallow_workers: [w1, 'x*']\n---\nHi\n".to_owned()),
            ("project.yaml".to_owned(), "delegation: {allow_recursion: true}\n".to_owned()),
        ];
        for i in 0..workers {
            files.push((
                format!("workers/w{i}.worker"),
                format!("---\nallow_workers: [w{}]\n---\nHi\n", (i + 1) % 5),
            ));
        }
        let tree = Arc::new(MemoryTree::new(Place::new("/p"), files));
        let loaded = load_from(tree.clone(), Start::Entry(None)).unwrap();
        assert_eq!(loaded.program.loaded().len(), 6);
        tree.opened()
    };
    assert_eq!(opened(10), 7, "the manifest, main, and five workers that call each other in a circle");
    assert_eq!(opened(10_000), opened(10));
}

#[test]
fn globs_are_loaded_when_they_are_called() {
    let tree = tree(&[
        ("main.worker", "---\nallow_workers: ['reports/*']\n---\nHi\n"),
        ("workers/reports/a.worker", PLAIN),
        ("workers/reports/b.worker", "---\nmodle: x\n---\nHi\n"),
        ("workers/other.worker", PLAIN),
    ]);
    let program = load_from(tree.clone(), Start::Entry(None)).unwrap().program;
    assert_eq!(tree.opened(), 1);
    assert_eq!(program.matching(program.entry(), "reports/*"), ["reports/a", "reports/b"]);
    assert_eq!(tree.opened(), 1, "names come from the file system, not from files");
    assert_eq!(&*worker(&program, "reports/a").id, "reports/a");
    let wrong = program.worker(program.entry(), "reports/b").unwrap_err().message;
    assert_eq!(wrong, "workers/reports/b.worker:2:1: unknown key `modle` (did you mean `model`?)");
    let missing = program.worker(program.entry(), "report/a").unwrap_err().message;
    assert!(missing.contains("did you mean `reports/a`?"), "{missing}");
}

#[test]
fn workers_may_call_each_other_in_circles() {
    let mut files: Vec<(String, String)> = (0..1_000)
        .map(|i| {
            let all: Vec<String> = (0..10).map(|j| format!("w{}", (i * 7 + j * 13) % 1_000)).collect();
            (format!("workers/w{i}.worker"), format!("---\nallow_workers: [{}]\n---\nHi\n", all.join(", ")))
        })
        .collect();
    files.push(("project.yaml".into(), "delegation: {allow_recursion: true}\n".into()));
    let tree = Arc::new(MemoryTree::new(Place::new("/p"), files));
    let program = load_from(tree, Start::Entry(Some("w0".into()))).unwrap().program;
    assert_eq!(program.loaded().len(), 1_000);
}

#[test]
fn the_starting_authority_is_the_tree_and_what_was_granted() {
    let program = load(&[(
        "main.worker",
        "---\nparameters: {dir: path, out: path}\nsandbox: {write: '${out}'}\n---\nHi\n",
    )]);
    let data = Extent { place: Place::new("/data"), access: Access::Read };
    let authority = program.authority(std::slice::from_ref(&data), Network::Off, &[]);
    assert!(authority.locate("/notes.txt", Access::Write).is_ok());
    assert!(authority.locate("/main.worker", Access::Read).is_ok());
    assert!(authority.locate("/main.worker", Access::Write).is_err());
    assert!(authority.locate("/.env", Access::Read).is_err());
    assert!(authority.bounds().covering(&Place::new("/data/x"), Access::Read).is_some());
    assert!(authority.bounds().covering(&Place::new("/data/x"), Access::Write).is_none());
    assert!(authority.bounds().covering(&Place::new("/home/me/other"), Access::Read).is_none());
}

#[test]
fn a_lone_file_works_on_the_current_directory() {
    let tree = tree(&[("x.worker", "---\n---\nHi\n"), ("prompts/a.md", "")]);
    let host = LoadOptions { toolsets: ToolsetRegistry::built_in(), ..LoadOptions::default() };
    let work = Place::new("/home/me");
    let source =
        Source { tree, start: Start::File("x.worker".into()), manifest: false, work: Some(work.clone()) };
    let program = Program::load(source, host).unwrap().program;
    assert_eq!(&*program.entry().id, "x");
    let authority = program.authority(&[], Network::Off, &[]);
    assert_eq!(authority.locate("/a.txt", Access::Write).unwrap().place(), work.join("a.txt"));
    assert!(authority.locate("/p/x.worker", Access::Write).is_err());
    assert!(authority.locate("/p/prompts/a.md", Access::Write).is_err());
}

#[test]
fn client_of_a_program_around_the_home_directory_has_no_view() {
    let home = Place::new("/home/me");
    for (work, sees) in [("/home/me", false), ("/home", false), ("/", false), ("/home/me/desk", true)] {
        let tree = tree(&[("x.worker", "---\n---\nHi\n")]);
        let host = LoadOptions {
            toolsets: ToolsetRegistry::built_in(),
            homes: vec![home.clone()],
            ..LoadOptions::default()
        };
        let work = Some(Place::new(work));
        let source = Source { tree, start: Start::File("x.worker".into()), manifest: false, work };
        let program = Program::load(source, host).unwrap().program;
        let of_client = program.authority_of_client(&[], Network::Off, &[]);
        assert_eq!(of_client.locate("/a.txt", Access::Read).is_ok(), sees, "{:?}", program.root());
        let of_operator = program.authority(&[], Network::Off, &[]);
        assert!(of_operator.locate("/a.txt", Access::Read).is_ok());
    }
}

#[test]
fn parameter_that_a_mount_binds_keeps_the_rules_of_the_mount() {
    let program = load(&[
        (
            "project.yaml",
            "sandbox: {paths: {notes: {root: ./notes, suffixes: [.md], max_file_bytes: 5, read_approval: blocked}}}\n",
        ),
        ("main.worker", "---\nparameters: {notes: path?}\n---\nHi\n"),
        ("notes/c.md", "x"),
    ]);
    let bound = program.bind(&mut json!({}), &Place::new("/home/me/p"), &[], &[]).unwrap();
    let authority = program.authority(&[], Network::Off, &bound);
    let at = authority.locate("/notes/c.md", Access::Read).unwrap();
    assert_eq!((at.mount.max_file_bytes, at.mount.approvals.read), (Some(5), Some(Rule::Blocked)));
    assert_eq!(at.mount.suffixes, [".md"]);
}

#[test]
fn paths_are_bound_by_the_operator_then_by_the_manifest() {
    let program = load(&[
        (
            "project.yaml",
            "sandbox: {paths: {out: {root: ./result, mode: rw}, notes: ./notes}}\nbindings: {data: ./input, n: 3, far: /srv/far}\n",
        ),
        (
            "main.worker",
            "---\nparameters: {dir: path, data: path, out: path, notes: path?, far: path?, n: integer}\n\
             sandbox: {write: ['${out}']}\n---\nHi\n",
        ),
        ("input/a.txt", "x"),
        ("elsewhere/b.txt", "x"),
        ("notes/c.txt", "x"),
    ]);
    let here = Place::new("/home/me/p/elsewhere");
    let signature = &program.entry().signature;
    let parameters = [("dir".to_owned(), "../elsewhere".to_owned())];
    let given =
        || input_value("main", signature, Given { parameters: &parameters, ..Given::default() }).unwrap();

    let Err(BindError::Input(refused)) = program.bind(&mut given(), &here, &[], &[]) else { panic!() };
    assert!(refused.message.contains("/srv/far"), "{refused}");
    let mut input = given();
    input["far"] = json!("b.txt");
    let bound = program.bind(&mut input, &here, &[], &[]).unwrap();
    validate_input("main", signature, &input).unwrap();
    assert_eq!(
        input,
        json!({"dir": "/dir", "far": "/far", "data": "/data", "out": "/out", "notes": "/notes", "n": 3})
    );
    let places: Vec<(&str, &str, Access)> =
        bound.iter().map(|b| (&*b.parameter, b.place.as_str(), b.access)).collect();
    assert_eq!(
        places,
        [
            ("dir", "/home/me/p/elsewhere", Access::Read),
            ("data", "/home/me/p/input", Access::Read),
            ("out", "/home/me/p/result", Access::Write),
            ("notes", "/home/me/p/notes", Access::Read),
            ("far", "/home/me/p/elsewhere/b.txt", Access::Read),
        ]
    );
    let authority = program.authority(&[], Network::Off, &bound);
    assert_eq!(
        authority.locate("/out/r.md", Access::Write).unwrap().place(),
        Place::new("/home/me/p/result/r.md")
    );
    assert!(authority.locate("/dir/b.txt", Access::Write).is_err());

    let missing = [("dir".to_owned(), "nowhere".to_owned())];
    let mut input =
        input_value("main", signature, Given { parameters: &missing, ..Given::default() }).unwrap();
    let Err(BindError::Input(refused)) = program.bind(&mut input, &here, &[], &[]) else { panic!() };
    assert!(refused.message.contains("does not exist"));
}

#[test]
fn prompts_and_templates_are_found() {
    let program = load(&[
        (
            "main.worker",
            "---\nallow_workers: [a]\n---\n{% include 'head.jinja' %}: {{ file('notes/x.md') }}{{ input }}\n",
        ),
        ("templates/head.jinja", "Head"),
        ("prompts/head.jinja", "not this"),
        ("prompts/notes/x.md", "{{ raw }} "),
        ("workers/a.yaml", "description: has its prompt elsewhere\n"),
        ("prompts/a.j2", "Prompt of {{ input }}"),
        ("workers/templates/own.jinja", "own"),
        ("workers/b.yml", "instructions: |\n  {% include 'own.jinja' %}\n"),
    ]);
    let text = |worker: &WorkerDefinition| {
        let origin = Origin {
            file: worker.instructions.file.to_string(),
            line: worker.instructions.line_offset as usize + 1,
        };
        let source = Arc::clone(&worker.instructions.templates);
        render(&worker.instructions.text, &origin, &json!({"input": "x"}), source)
            .map(std::borrow::Cow::into_owned)
    };
    assert_eq!(text(program.entry()).unwrap(), "Head: {{ raw }} x");
    assert_eq!(text(&worker(&program, "a")).unwrap(), "Prompt of x");
    assert_eq!(&*worker(&program, "a").instructions.file, "prompts/a.j2");
    assert_eq!(text(&worker(&program, "b")).unwrap().trim(), "own");
}

#[test]
fn mounts_outside_the_program_need_a_grant() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("p");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::create_dir_all(outer.path().join("data")).unwrap();
    std::fs::write(
        root.join("main.worker"),
        "---\nsandbox: {paths: {data: {root: ../data, mode: rw}, own: ./own}, network_enabled: [x.org]}\n---\nHi\n",
    )
    .unwrap();
    let program = load_from(Arc::new(DiskTree::open(&root).unwrap()), Start::Entry(None)).unwrap().program;
    let data = Place::new(outer.path().canonicalize().unwrap().join("data").to_str().unwrap());
    let wanted: Vec<Wanted> = program.required_grants().into_iter().map(|grant| grant.what).collect();
    assert_eq!(
        wanted,
        [
            Wanted::Place { place: data.clone(), access: Access::Write },
            Wanted::Network(Network::domains(Domain::parse("x.org"))),
        ]
    );
    let read = Extent { place: data.clone(), access: Access::Read };
    assert_eq!(program.missing_grants(&[read], &Network::On, &[]).len(), 1);
    let write = Extent { place: data.clone(), access: Access::Write };
    assert_eq!(program.missing_grants(&[write], &Network::On, &[]), []);
}

#[cfg(unix)]
#[test]
fn links_out_of_the_root_are_refused_everywhere() {
    use std::os::unix::fs::symlink;
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path().join("p");
    std::fs::create_dir_all(root.join("workers")).unwrap();
    std::fs::create_dir_all(root.join("schemas")).unwrap();
    std::fs::write(outer.path().join("evil.worker"), PLAIN).unwrap();
    std::fs::write(outer.path().join("s.json"), "{\"type\": \"object\"}").unwrap();
    symlink("../../evil.worker", root.join("workers/a.worker")).unwrap();
    symlink("../../s.json", root.join("schemas/s.json")).unwrap();
    symlink("../..", root.join("workers/up")).unwrap();
    std::fs::write(
        root.join("main.worker"),
        "---\nallow_workers: [a, up/evil]\nschema_in_ref: s.json\n---\nHi\n",
    )
    .unwrap();
    let tree = Arc::new(DiskTree::open(&root).unwrap());
    let found = load_from(tree.clone(), Start::Entry(None)).unwrap_err().0;
    let escapes = found.iter().filter(|d| d.code == codes::ESCAPES_ROOT).count();
    assert_eq!((escapes, found.iter().filter(|d| d.is_error()).count()), (3, 3), "{found:#?}");
    symlink("../evil.worker", root.join("project.yaml")).unwrap();
    let found = load_from(tree, Start::Entry(None)).unwrap_err().0;
    assert!(found.iter().any(|d| d.code == codes::ESCAPES_ROOT && d.message.contains("project.yaml")));
}

#[test]
fn a_large_front_matter_is_refused_unread() {
    let mut large = String::from("---\n");
    while large.len() < 10 << 20 {
        writeln!(large, "x-{}: 1", large.len()).unwrap();
    }
    large.push_str("---\nHi\n");
    let tree = tree(&[("main.worker", &large)]);
    let found = load_from(tree.clone(), Start::Entry(None)).unwrap_err().0;
    assert_eq!(found[0].code, codes::TOO_LARGE);
    assert_eq!(tree.opened(), 0);
}

#[test]
fn a_listing_works_where_loading_does_not() {
    let tree = tree(&[
        ("main.worker", "---\ndescription: Starts.\nmodel: a:b\n---\nHi\n"),
        ("workers/bad.worker", "---\nx\n"),
        ("workers/sub/b.yaml", "description: B\n"),
    ]);
    let source = Source { tree, start: Start::Entry(None), manifest: true, work: None };
    let listed = list_workers(&source, LoadOptions::default()).unwrap().workers;
    let ids: Vec<&str> = listed.iter().map(|l| l.id.as_str()).collect();
    assert_eq!(ids, ["bad", "main", "sub/b"]);
    assert!(listed[0].problem.as_ref().unwrap().contains("is not closed"));
    assert_eq!(listed[1].description.as_deref(), Some("Starts."));
    assert_eq!(listed[1].models, ["a:b"]);
}

#[test]
fn outputs_that_are_paths_are_known() {
    let returned = |returns: &str| {
        let text = format!("---\nreturns: {returns}\n---\nHi\n");
        load(&[("main.worker", &text)]).entry().returned_paths.clone()
    };
    assert_eq!(returned("path"), [""]);
    assert_eq!(returned("{report: path, score: number, draft: path?}"), ["report", "draft"]);
    assert_eq!(returned("{type: object, properties: {a: {type: string}}}"), Vec::<String>::new());
}

#[test]
fn what_is_shown_of_a_sandbox_is_what_holds() {
    let program = load(&[
        ("project.yaml", "sandbox: {readonly: true, network_enabled: [a.org]}"),
        ("main.worker", "---\nsandbox: {readonly: false, network_enabled: true}\n---\nHi\n"),
    ]);
    let shown = program.shown();
    let setting = |key: &str| shown.settings.iter().find(|s| s.path == ["sandbox", key]).unwrap();
    assert_eq!(
        (&setting("readonly").value, setting("readonly").from.as_deref()),
        (&json!(true), Some("project.yaml:1"))
    );
    assert_eq!(setting("network_enabled").value, json!(["a.org"]));
}
