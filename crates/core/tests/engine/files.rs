//! Files that travel with calls: `path` parameters as capabilities (`docs/reference/sandbox.md`) and attachments
//! (`docs/reference/worker-files.md`).

use crate::world::{Script, World, calls, mount, place, rule, text, worker};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use llm_do_core::{
    attachment::Attachment,
    authority::{Access, Mount},
    engine::FailureKind,
    gate::{Mode, Rule},
    journal::RecordKind,
    model::{Blob, Part},
    question::Answer,
    schema::Schema,
    worker::{Parameter, WorkerDefinition},
};
use serde_json::{Value, json};
use std::sync::Arc;

fn with_files(id: &str) -> WorkerDefinition {
    let mut worker = worker(id);
    worker.toolsets = vec![("filesystem".into(), Arc::new(json!({})))];
    worker
}

/// A worker with a parameter `dir: path`.
fn with_path(id: &str, access: Access) -> WorkerDefinition {
    let mut worker = with_files(id);
    worker.signature.declared = true;
    worker.signature.message = None;
    worker.signature.schema = Arc::new(
        Schema::new(
            json!({"type": "object", "properties": {"dir": {"type": "string"}}, "required": ["dir"]}),
        )
        .unwrap(),
    );
    worker.signature.parameters =
        vec![Parameter { name: "dir".into(), shown_type: "path".into(), required: true, path: Some(access) }];
    // It declares mounts, none of them: it sees what it is handed and nothing else.
    worker.sandbox.narrowing.declared = true;
    worker
}

/// `main` passes `path` to `child`, whose model gives these answers.
fn handing(main: WorkerDefinition, access: Access, path: &str, child: Script) -> World {
    leaving_out(main, access, json!({"dir": path}), child)
}

/// `main` calls `child` with these arguments.
fn leaving_out(mut main: WorkerDefinition, access: Access, arguments: Value, child: Script) -> World {
    main.allow_workers = vec!["child".into()];
    World::new()
        .file("notes/a.txt", "alpha")
        .file("secret/b.txt", "beta")
        .worker(with_path("child", access), child)
        .worker(main, vec![calls([("child", arguments)]), text("done")])
}

#[test]
fn a_path_is_handed_over_as_a_mount_of_the_parameters_name() {
    let child = vec![calls([("read_file", json!({"path": "/dir/a.txt"}))]), text("read")];
    for written in ["notes", "/notes", "./notes/"] {
        let ran = handing(worker("main"), Access::Read, written, child.clone()).run(json!({}));
        assert_eq!(ran.results_of("child"), [("alpha".to_owned(), false)], "{written}");
        assert!(ran.first("child").messages[0].text().contains(r#""dir": "/dir""#));
    }
}

#[test]
fn a_callee_sees_nothing_but_what_it_was_handed() {
    for path in ["/secret/b.txt", "/notes/a.txt", "/dir/../secret/b.txt", "/b.txt"] {
        let child = vec![calls([("read_file", json!({"path": path}))]), text("no")];
        let ran = handing(worker("main"), Access::Read, "notes", child).run(json!({}));
        assert!(ran.results_of("child")[0].1, "{path}: {:?}", ran.results_of("child"));
    }
}

#[test]
fn what_is_handed_over_for_reading_is_not_written() {
    let child = vec![calls([("write_file", json!({"path": "/dir/a.txt", "content": "x"}))]), text("no")];
    let ran = handing(worker("main"), Access::Read, "notes", child).run(json!({}));
    assert!(ran.results_of("child")[0].1);
    assert_eq!(ran.read("notes/a.txt").as_deref(), Some("alpha"));

    let child = vec![calls([("write_file", json!({"path": "/dir/a.txt", "content": "x"}))]), text("yes")];
    let ran = handing(worker("main"), Access::Write, "notes", child).run(json!({}));
    assert_eq!(ran.read("notes/a.txt").as_deref(), Some("x"));
}

#[test]
fn a_path_that_the_caller_does_not_hold_is_refused_before_anyone_is_asked() {
    let reader = || {
        let mut main = worker("main");
        main.sandbox.narrowing.declared = true;
        main.sandbox.narrowing.mounts = vec![mount("/notes", "notes", Access::Read)];
        main
    };
    for (path, access, mode, why) in [
        ("/notes", Access::Write, "writing", "`/notes` is read-only"),
        ("/secret", Access::Read, "reading", "`/secret` does not exist here. Visible: /notes"),
        ("../secret", Access::Read, "reading", "`../secret` is not a usable path"),
    ] {
        let mut world = handing(reader(), access, path, vec![]).asking([]);
        world.gate.operator = vec![rule("child", Rule::Ask)];
        let error = world.run(json!({})).error();
        assert!(error.starts_with(&format!("caller does not hold {path} for {mode}: {why}")), "{error}");
        assert!(error.ends_with(". Pass a path that you can use yourself"), "{error}");
    }
}

#[test]
fn a_mount_over_what_is_handed_over_comes_with_it() {
    let mut main = worker("main");
    main.sandbox.narrowing.declared = true;
    let mut inner = mount("/notes/out", "notes/out", Access::Write);
    inner.approvals.write = Some(Rule::Blocked);
    main.sandbox.narrowing.mounts = vec![mount("/notes", "notes", Access::Write), inner];
    let child = vec![calls([("write_file", json!({"path": "/dir/out/x.txt", "content": "x"}))]), text("no")];
    let ran = handing(main, Access::Write, "/notes", child).run(json!({}));
    let (told, is_error) = &ran.results_of("child")[0];
    assert!(*is_error && told.contains("is blocked"), "a child is held by its caller's rules: {told}");
    assert_eq!(ran.read("notes/out/x.txt"), None);
}

#[test]
fn a_path_that_is_left_out_is_the_manifests_mount_of_that_name() {
    let child = vec![calls([("read_file", json!({"path": "/dir/a.txt"}))]), text("read")];
    for arguments in [json!({}), json!({"dir": null})] {
        let mut world = leaving_out(worker("main"), Access::Read, arguments, child.clone());
        world.mounts.insert("dir", mount("/dir", "notes", Access::Read));
        let ran = world.run(json!({}));
        assert_eq!(ran.results_of("child"), [("alpha".to_owned(), false)]);
        // As if the caller had handed it over: what is recorded is what it left out.
        let called = ran.records.iter().find_map(|record| match &record.body {
            RecordKind::CallStarted { input, .. } if record.path.as_str() == "0/0.0" => {
                Some(Arc::clone(input))
            }
            _ => None,
        });
        assert!(called.unwrap().get("dir").is_none_or(Value::is_null));
    }
    // What the caller gives goes before.
    let mut world = leaving_out(worker("main"), Access::Read, json!({"dir": "notes"}), child);
    world.mounts.insert("dir", mount("/dir", "secret", Access::Read));
    assert_eq!(world.run(json!({})).results_of("child"), [("alpha".to_owned(), false)]);
}

#[test]
fn a_mount_that_the_caller_does_not_hold_leaves_the_parameter_missing() {
    let missing = |main: WorkerDefinition, wanted: Access, mounted: Option<Access>| {
        let mut world = leaving_out(main, wanted, json!({}), vec![]);
        world.mounts.extend(mounted.map(|access| ("dir", mount("/dir", "notes", access))));
        let error = world.run(json!({})).error();
        assert!(error.contains("don't fit its schema") && error.contains("dir"), "{error}");
    };
    missing(worker("main"), Access::Read, None);
    missing(worker("main"), Access::Write, Some(Access::Read));
    // The caller sees another folder, or this one for reading only.
    let narrowed = |mounts: Vec<Mount>| {
        let mut main = worker("main");
        main.sandbox.narrowing.declared = true;
        main.sandbox.narrowing.mounts = mounts;
        main
    };
    missing(narrowed(vec![mount("/other", "secret", Access::Write)]), Access::Read, Some(Access::Write));
    missing(narrowed(vec![mount("/n", "notes", Access::Read)]), Access::Write, Some(Access::Write));
    // Another mount lies over it.
    let over = vec![mount("/", "", Access::Write), mount("/notes", "secret", Access::Write)];
    missing(narrowed(over), Access::Read, Some(Access::Write));
}

#[test]
fn a_returned_path_is_told_as_the_caller_knows_it() {
    let returned = |value: Value, paths: &[&str], schema: Value| {
        let mut child = with_path("child", Access::Read);
        child.returns = Some(Arc::new(Schema::new(schema).unwrap()));
        child.returned_paths = paths.iter().map(|&path| path.to_owned()).collect();
        let mut main = worker("main");
        main.allow_workers = vec!["child".into()];
        let mut world = World::new()
            .file("notes/a.txt", "alpha")
            .worker(child, vec![text(&value.to_string())])
            .worker(main, vec![calls([("child", json!({"dir": "notes/"}))]), text("done")]);
        world.capabilities.native_schema = true;
        world.run(json!({})).results()[0].0.clone()
    };
    let string = || json!({"type": "string"});
    assert_eq!(returned(json!("/dir/a.txt"), &[""], string()), "notes/a.txt");
    assert_eq!(returned(json!("dir"), &[""], string()), "notes");
    assert_eq!(
        returned(json!("/directory/a.txt"), &[""], string()),
        "/directory/a.txt",
        "only whole names are meant"
    );
    assert_eq!(
        returned(json!("/dir/a.txt"), &[], string()),
        "/dir/a.txt",
        "only declared paths are translated"
    );
    let object = json!({"type": "object"});
    assert_eq!(
        returned(json!({"file": "/dir/a.txt", "text": "/dir/a.txt"}), &["file"], object),
        r#"{"file":"notes/a.txt","text":"/dir/a.txt"}"#
    );
}

/// `main` attaches files to a call of `child`.
/// The smallest PNG.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn attaching(paths: &[&str], adjust: impl FnOnce(&mut WorkerDefinition, &mut WorkerDefinition)) -> World {
    let (mut main, mut child) = (worker("main"), with_files("child"));
    main.allow_workers = vec!["child".into()];
    child.sandbox.narrowing.declared = true;
    adjust(&mut main, &mut child);
    let world = World::new()
        .file("notes/a.txt", "alpha")
        .file("notes/b.md", "beta")
        .file("notes/binary.bin", "\u{0}\u{1}")
        .file("notes/paper.pdf", "%PDF-1.7 …")
        .worker(child, vec![calls([("read_file", json!({"path": "/attachments/a.txt"}))]), text("ok")])
        .worker(
            main,
            vec![calls([("child", json!({"input": "Look.", "attachments": paths}))]), text("done")],
        );
    world.files.put(&place("notes/dot.png"), STANDARD.decode(PIXEL).unwrap());
    world
}

#[test]
fn attachments_are_content_for_the_model_and_files_for_its_tools() {
    let ran = attaching(&["notes/a.txt", "/notes/dot.png"], |_, _| {}).run(json!({}));
    let parts = &ran.first("child").messages[0].parts;
    assert_eq!(parts[0].as_text(), Some("Look."));
    assert_eq!(parts[1], Part::Attachment { name: "a.txt".into(), text: "alpha".into() });
    assert_eq!(parts[1].sent().as_deref(), Some("<attachment name=\"a.txt\">\nalpha\n</attachment>"));
    assert!(
        matches!(&parts[2], Part::Blob(Blob { name, media_type, .. }) if &**name == "dot.png" && &**media_type == "image/png")
    );
    assert_eq!(ran.results_of("child"), [("alpha".to_owned(), false)]);
}

#[test]
fn attachments_must_pass_the_callers_and_the_callees_policy() {
    let refused = |paths: &[&str], adjust: fn(&mut WorkerDefinition, &mut WorkerDefinition)| {
        attaching(paths, adjust).run(json!({})).error()
    };
    assert_eq!(
        refused(&["notes/a.txt", "notes/b.md"], |main, _| main.attachments.max_attachments = 1),
        "the caller `main` takes at most 1 attachments, not 2"
    );
    assert_eq!(
        refused(&["notes/a.txt", "notes/b.md"], |_, child| child.attachments.max_attachments = 1),
        "`child` takes at most 1 attachments, not 2"
    );
    assert!(
        refused(&["notes/a.txt"], |_, child| child.attachments.max_total_bytes = 3)
            .contains("at most 3 bytes"),
        "five bytes are more than three"
    );
    assert!(
        refused(&["notes/b.md"], |main, _| main.attachments.denied_suffixes = vec![".md".into()])
            .contains("b.md")
    );
    assert!(
        refused(&["notes/b.md"], |_, child| child.attachments.allowed_suffixes = vec![".txt".into()])
            .contains("b.md")
    );
}

#[test]
fn attachments_that_cannot_be_given_are_refused_in_words() {
    let refused = |path: &str| attaching(&[path], |_, _| {}).run(json!({})).error();
    assert_eq!(
        refused("notes/binary.bin"),
        "the attachment `binary.bin` is neither text nor an image or PDF that models read"
    );
    assert_eq!(
        refused("notes/paper.pdf"),
        "the attachment `paper.pdf` is application/pdf, which this worker's model can't read"
    );
    assert!(refused("notes/none.txt").contains("does not exist"));
    assert!(refused("notes").contains("is a folder"));
    assert!(
        refused(".env").starts_with("caller does not hold .env for reading: `/.env` does not exist here.")
    );
}

#[test]
fn attachments_may_be_as_large_as_the_policy_allows_and_no_larger() {
    let of = |bytes: u64| {
        attaching(&["notes/a.txt", "notes/b.md"], |_, child| child.attachments.max_total_bytes = bytes)
            .run(json!({}))
            .results()[0]
            .1
    };
    assert!(!of(9), "five and four bytes");
    assert!(of(8));
}

#[test]
fn the_operators_attachments_are_under_the_entrys_policy() {
    let blob =
        || Blob { name: "a.txt".into(), media_type: "text/plain".into(), data: Arc::from(&b"alpha"[..]) };
    let mut world = World::new().worker(worker("main"), vec![text("ok")]);
    world.attachments = vec![blob().into()];
    let ran = world.run(json!({}));
    assert!(ran.first("main").messages[0].text().contains("alpha"));

    let mut main = worker("main");
    main.attachments.max_attachments = 0;
    let mut world = World::new().worker(main, vec![]);
    world.attachments = vec![blob().into()];
    assert_eq!(world.run(json!({})).failure().kind, FailureKind::InvalidInput);
}

#[test]
fn an_attachment_of_others_taints_from_the_first_message() {
    for foreign in [false, true] {
        let file =
            Blob { name: "page.txt".into(), media_type: "text/plain".into(), data: Arc::from(&b"obey"[..]) };
        let mut world = World::new().worker(worker("main"), vec![text("ok")]);
        world.attachments = vec![Attachment { foreign, ..file.into() }];
        assert_eq!(world.run(json!({})).outcome.origins.is_untrusted(), foreign);
    }
}

#[test]
fn the_operator_sees_what_a_write_would_change() {
    let write = calls([("write_file", json!({"path": "notes/a.txt", "content": "omega"}))]);
    let ran = World::new()
        .file("notes/a.txt", "alpha")
        .worker(with_files("main"), vec![write, text("done")])
        .asking([Answer::Approve { remember: false }])
        .run(json!({}));
    let preview = serde_json::to_value(&ran.asks[0].preview).unwrap();
    assert_eq!((&preview["before"], &preview["after"]), (&json!("alpha"), &json!("omega")));
}

#[test]
fn without_anything_to_write_to_no_tool_that_writes_is_offered() {
    let mut main = with_files("main");
    main.sandbox.narrowing.readonly = true;
    let mut world = World::new().worker(main, vec![text("ok")]);
    world.gate.mode = Mode::ApproveAll;
    let ran = world.run(json!({}));
    assert!(ran.first("main").tools.iter().all(|name| !name.contains("write") && !name.contains("delete")));
    assert!(ran.first("main").tools.contains(&"read_file".to_owned()));
}
