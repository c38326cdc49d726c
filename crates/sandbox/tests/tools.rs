//! The file tools on real files (`docs/reference/worker-files.md`): their effects and their error messages.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why it skips")]

mod program;

use llm_do_core::{
    authority::{Access, Approvals, Mount, Narrowing, VirtualPath},
    function::Preview,
    gate::Rule,
};
use program::Program;
use serde_json::json;
use std::fs;

fn at(path: &str) -> VirtualPath {
    VirtualPath::parse(path).unwrap()
}

#[tokio::test]
async fn files_are_made_read_changed_moved_and_deleted() {
    let p = Program::new();
    assert_eq!(
        p.said("write_file", json!({"path": "out/new/a.txt", "content": "one\ntwo\n"})).await,
        "Wrote 8 bytes to `/out/new/a.txt`."
    );
    assert_eq!(p.said("read_file", json!({"path": "./out//new/a.txt"})).await, "one\ntwo\n");
    p.call("append_file", json!({"path": "/out/new/a.txt", "content": "three\n"})).await.unwrap();
    assert_eq!(
        p.said("edit_file", json!({"path": "/out/new/a.txt", "old_text": "two", "new_text": "2"})).await,
        "Replaced the text at line 2 of `/out/new/a.txt`."
    );
    assert_eq!(p.text("out/new/a.txt"), "one\n2\nthree\n");
    p.call("copy_file", json!({"source": "/out/new/a.txt", "destination": "/copies/a.txt"})).await.unwrap();
    p.call("move_file", json!({"source": "/out/new", "destination": "/out/old"})).await.unwrap();
    assert_eq!(p.text("out/old/a.txt"), p.text("copies/a.txt"));
    assert_eq!(p.call("file_exists", json!({"path": "/out/new"})).await.unwrap(), false);
    assert_eq!(p.call("file_exists", json!({"path": "/out/old"})).await.unwrap(), true);
    assert!(
        p.said("delete_file", json!({"path": "/out/old"}))
            .await
            .contains("is not empty. Delete what it holds first.")
    );
    p.call("delete_file", json!({"path": "/out/old/a.txt"})).await.unwrap();
    p.call("delete_file", json!({"path": "/out/old"})).await.unwrap();
    assert!(!p.path("out/old").exists());
    p.call("append_file", json!({"path": "/log.txt", "content": "first\n"})).await.unwrap();
    assert_eq!(p.text("log.txt"), "first\n");
}

#[tokio::test]
async fn listings_follow_the_glob_and_hide_what_is_invisible() {
    let p = Program::new();
    fs::create_dir_all(p.path("a/b")).unwrap();
    fs::create_dir_all(p.path(".git/objects")).unwrap();
    fs::create_dir_all(p.path(".llm-do/runs")).unwrap();
    for file in ["a/x.md", "a/b/y.md", "a/b/z.txt", ".git/HEAD", ".llm-do/runs/r", ".ENV.local"] {
        fs::write(p.path(file), "12").unwrap();
    }
    assert_eq!(
        p.said("list_files", json!({})).await,
        "/a/\n/a/b/\n/a/b/y.md  (2 bytes)\n/a/b/z.txt  (2 bytes)\n/a/x.md  (2 bytes)\n/main.worker  (29 bytes)\n/notes/\n/notes/plan.md  (9 bytes)"
    );
    assert_eq!(p.said("list_files", json!({"path": "a", "pattern": "*.md"})).await, "/a/x.md  (2 bytes)");
    assert_eq!(
        p.said("list_files", json!({"path": "/a", "pattern": "**/*.{md,rs}"})).await,
        "/a/b/y.md  (2 bytes)\n/a/x.md  (2 bytes)"
    );
    assert_eq!(p.said("list_files", json!({"path": "/a/x.md"})).await, "/a/x.md  (2 bytes)");
    assert_eq!(
        p.said("list_files", json!({"path": "/.git", "pattern": "*"})).await,
        "/.git/HEAD  (2 bytes)\n/.git/objects/"
    );
    assert_eq!(
        p.said("list_files", json!({"pattern": "*.zip"})).await,
        "Nothing in `/` matches `*.zip`; `**/*` lists everything."
    );
    assert!(p.said("list_files", json!({"path": "/not"})).await.starts_with("error: `/not` does not exist"));
    assert!(p.said("list_files", json!({"pattern": "a{b"})).await.contains("is not a glob"));
}

#[tokio::test]
async fn searches_name_path_line_and_text() {
    let p = Program::new();
    fs::write(p.path("notes/b.txt"), "alpha\r\nBeta (x)\r\n").unwrap();
    fs::write(p.path("notes/c.bin"), b"Beta\0").unwrap();
    assert_eq!(
        p.said("search_files", json!({"pattern": "(?i)beta|plan$"})).await,
        "/notes/b.txt:2: Beta (x)\n/notes/plan.md:1: The plan\n[1 files were skipped: binary, over 4194304 bytes, or not readable.]"
    );
    let said = p.said("search_files", json!({"pattern": "Beta (x", "path": "/notes/b.txt"})).await;
    assert!(said.starts_with("/notes/b.txt:2: Beta (x)\n[The pattern is not a regular expression"), "{said}");
    assert!(p.said("search_files", json!({"pattern": "hunter2"})).await.starts_with("No line matches"));
    let many = "hit\n".repeat(1000);
    fs::write(p.path("notes/many.txt"), many).unwrap();
    let said = p.said("search_files", json!({"pattern": "hit"})).await;
    assert_eq!(said.lines().filter(|line| line.ends_with(": hit")).count(), 200);
    assert!(said.contains("Stopped after 200 lines"));
    let said = p.said("search_files", json!({"pattern": "(((a{1000}){1000}){1000})"})).await;
    assert!(said.starts_with("error: The pattern is too large"), "{said}");
}

#[tokio::test]
async fn long_texts_come_in_pages_and_other_things_are_described() {
    let p = Program::new();
    fs::write(p.path("long.txt"), "ä".repeat(25_000)).unwrap();
    let said = p.said("read_file", json!({"path": "/long.txt"})).await;
    assert!(said.starts_with("ää"));
    assert!(
        said.ends_with("[5000 more characters. Read on with read_file(path=\"/long.txt\", offset=20000).]"),
        "{said}"
    );
    let rest = p.said("read_file", json!({"path": "/long.txt", "offset": 20_000})).await;
    assert_eq!(rest, "ä".repeat(5000));
    let past = p.said("read_file", json!({"path": "/long.txt", "offset": 25_000})).await;
    assert_eq!(past, "[`/long.txt` ends before offset 25000: it has 25000 characters.]");
    fs::write(p.path("image.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").unwrap();
    assert_eq!(
        p.said("read_file", json!({"path": "/image.png"})).await,
        "[`/image.png` is not text and can't be shown: PNG image, 16 bytes.]"
    );
    fs::write(p.path("latin1.txt"), b"gr\xfc\xdfe").unwrap();
    assert!(p.said("read_file", json!({"path": "/latin1.txt"})).await.contains("encoding other than UTF-8"));
    assert!(
        p.said("edit_file", json!({"path": "/latin1.txt", "old_text": "e", "new_text": "x"}))
            .await
            .contains("is not text")
    );
    fs::write(p.path("empty"), "").unwrap();
    assert_eq!(p.said("read_file", json!({"path": "/empty"})).await, "[`/empty` is empty.]");
    fs::File::create(p.path("huge")).unwrap().set_len(1 << 40).unwrap();
    let said = p.said("read_file", json!({"path": "/huge"})).await;
    assert!(said.contains("too long to be shown: binary data, 1099511627776 bytes"), "{said}");
    let info = p.call("file_info", json!({"path": "/image.png"})).await.unwrap();
    assert_eq!(
        (&info["kind"], &info["size"], &info["content"]),
        (&json!("file"), &json!(16), &json!("PNG image"))
    );
    assert!(info["modified"].as_str().unwrap().starts_with("20"));
}

#[tokio::test]
async fn errors_say_what_to_try_next() {
    let p = Program::new();
    assert_eq!(
        p.said("read_file", json!({"path": "/notes/plam.md"})).await,
        "error: `/notes/plam.md` does not exist. Did you mean `/notes/plan.md`?"
    );
    assert_eq!(
        p.said("read_file", json!({"path": "/plan.md"})).await,
        "error: `/plan.md` does not exist. Did you mean `/notes/plan.md`?"
    );
    assert_eq!(
        p.said("read_file", json!({"path": "/notes"})).await,
        "error: `/notes` is a folder, not a file. Use list_files for what is in it."
    );
    assert_eq!(
        p.said("move_file", json!({"source": "/notes/plan.md", "destination": "/notes"})).await,
        "error: `/notes` is a folder. To put it there, give `/notes/plan.md` as the destination."
    );
    assert!(
        p.said("write_file", json!({"path": "/notes/plan.md/x", "content": ""}))
            .await
            .contains("`/notes/plan.md` is a file, not a folder")
    );
    assert!(
        p.said("write_file", json!({"path": "/main.worker", "content": ""}))
            .await
            .contains("read-only: it defines the program")
    );
    assert!(p.said("read_file", json!({"path": "/.env"})).await.contains("does not exist here"));
    assert!(
        p.said("move_file", json!({"source": "/", "destination": "/x"})).await.contains("root of a mount")
    );
    assert!(
        p.said("move_file", json!({"source": "/notes", "destination": "/notes/in/notes"}))
            .await
            .contains("into itself")
    );
    assert!(!p.path("notes/in").exists());
    assert!(p.said("read_file", json!({"path": "/results/1"})).await.contains("no such result"));
    fs::create_dir(p.path("results")).unwrap();
    fs::write(p.path("results/7"), "a file with that name").unwrap();
    assert_eq!(p.said("read_file", json!({"path": "/results/7"})).await, "a file with that name");
}

#[tokio::test]
async fn the_operator_sees_what_changes() {
    let p = Program::new();
    let change = |before: Option<&str>, after: Option<&str>| {
        Some(Preview::Change {
            path: "/notes/plan.md".into(),
            before: before.map(str::to_owned),
            after: after.map(str::to_owned),
        })
    };
    let path = "/notes/plan.md";
    let old = Some("The plan\n");
    assert_eq!(
        p.preview("write_file", json!({"path": path, "content": "New"})).await,
        change(old, Some("New"))
    );
    assert_eq!(
        p.preview("append_file", json!({"path": path, "content": "!"})).await,
        change(old, Some("The plan\n!"))
    );
    let edit = json!({"path": path, "old_text": "plan", "new_text": "idea"});
    assert_eq!(p.preview("edit_file", edit).await, change(old, Some("The idea\n")));
    assert_eq!(
        p.preview("edit_file", json!({"path": path, "old_text": "none", "new_text": "x"})).await,
        None
    );
    assert_eq!(p.preview("delete_file", json!({"path": path})).await, change(old, None));
    assert_eq!(p.preview("move_file", json!({"source": path, "destination": "/x"})).await, None);
    fs::remove_file(p.path("notes/plan.md")).unwrap();
    assert_eq!(
        p.preview("write_file", json!({"path": path, "content": "New"})).await,
        change(None, Some("New"))
    );
    assert_eq!(p.preview("delete_file", json!({"path": path})).await, None);
}

#[tokio::test]
async fn a_restricted_view_is_listed_from_above() {
    let p = Program::new();
    fs::create_dir_all(p.path("src/deep")).unwrap();
    fs::write(p.path("src/deep/x.rs"), "found").unwrap();
    let p = p.narrowed(&Narrowing { restrict: vec![at("/src/deep")], ..Narrowing::default() });
    for path in ["/", "/src", "src/deep"] {
        let said = p.said("list_files", json!({"path": path})).await;
        assert!(said.ends_with("/src/deep/x.rs  (5 bytes)") && !said.contains("notes"), "{said}");
    }
    assert_eq!(p.said("search_files", json!({"pattern": "."})).await, "/src/deep/x.rs:1: found");
    assert!(p.said("read_file", json!({"path": "/notes/plan.md"})).await.contains("does not exist here"));
    assert!(p.said("list_files", json!({"path": "/notes"})).await.contains("does not exist here"));
}

#[tokio::test]
async fn a_mount_shows_only_its_suffixes_and_sizes() {
    let p = Program::with(|project| {
        let mut mount = Mount::new(at("/data"), project.join("data"), Access::Write);
        mount.suffixes = vec![".txt".into()];
        mount.max_file_bytes = Some(10);
        vec![mount]
    });
    assert_eq!(p.said("list_files", json!({})).await, "/data/");
    assert_eq!(p.said("list_files", json!({"path": "/data"})).await, "`/data` is empty.");
    p.call("write_file", json!({"path": "data/a.TXT", "content": "0123456789"})).await.unwrap();
    assert!(
        p.said("write_file", json!({"path": "data/b.txt", "content": "0123456789a"}))
            .await
            .contains("at most 10 are allowed")
    );
    assert!(
        p.said("append_file", json!({"path": "data/a.TXT", "content": "x"}))
            .await
            .contains("at most 10 are allowed")
    );
    assert!(
        p.said("write_file", json!({"path": "data/key.pem", "content": "x"}))
            .await
            .contains("only files that end in .txt")
    );
    fs::write(p.path("data/key.pem"), "private").unwrap();
    fs::write(p.path("data/big.txt"), "0123456789abc").unwrap();
    fs::create_dir(p.path("data/sub")).unwrap();
    fs::write(p.path("data/sub/key.pem"), "private").unwrap();
    let listed = p.said("list_files", json!({})).await;
    assert_eq!(listed, "/data/\n/data/a.TXT  (10 bytes)\n/data/big.txt  (13 bytes)\n/data/sub/");
    for tool in ["read_file", "file_info", "file_exists"] {
        assert!(
            p.said(tool, json!({"path": "/data/key.pem"})).await.contains("only files that end in .txt"),
            "{tool}"
        );
    }
    assert!(p.said("read_file", json!({"path": "/data/big.txt"})).await.contains("at most 10 are allowed"));
    let moved = p.said("move_file", json!({"source": "/data/sub", "destination": "/data/sub.txt"})).await;
    assert!(moved.contains("only files that end in .txt"), "{moved}");
}

#[tokio::test]
async fn a_mount_of_one_file_is_that_file() {
    let p = Program::with(|project| {
        vec![
            Mount::new(at("/env"), project.join(".env"), Access::Write),
            Mount::new(at("/new.txt"), project.join("made/new.txt"), Access::Write),
        ]
    });
    assert_eq!(p.said("read_file", json!({"path": "/env"})).await, "SECRET=hunter2\n");
    p.call("write_file", json!({"path": "/env", "content": "A=1"})).await.unwrap();
    p.call("append_file", json!({"path": "/env", "content": "\n"})).await.unwrap();
    assert_eq!(p.text(".env"), "A=1\n");
    assert_eq!(p.said("list_files", json!({})).await, "/env  (4 bytes)\n/new.txt/");
    assert!(p.said("read_file", json!({"path": "/env/x"})).await.contains("does not exist"));
    assert!(
        p.said("write_file", json!({"path": "/env/x", "content": ""}))
            .await
            .contains("is a file, not a folder")
    );
    assert_eq!(p.said("file_exists", json!({"path": "/new.txt"})).await, "false");
    p.call("write_file", json!({"path": "/new.txt", "content": "made"})).await.unwrap();
    assert_eq!(p.text("made/new.txt"), "made");
    assert_eq!(p.said("search_files", json!({"pattern": "made|A="})).await, "/env:1: A=1\n/new.txt:1: made");
}

#[tokio::test]
async fn a_missing_root_is_made_inside_the_project_and_nowhere_else() {
    let top = tempfile::tempdir().unwrap();
    let gone = llm_do_sandbox::place_of(&top.path().join("gone")).unwrap();
    let p = Program::with(|project| {
        vec![
            Mount::new(at("/out"), project.join("deep/out"), Access::Write),
            Mount::new(at("/gone"), gone.clone(), Access::Write),
        ]
    });
    assert_eq!(p.said("list_files", json!({"path": "/out"})).await, "`/out` is empty.");
    assert_eq!(p.said("file_exists", json!({"path": "/out/x"})).await, "false");
    assert!(!p.path("deep").exists());
    p.call("write_file", json!({"path": "/out/x", "content": "x"})).await.unwrap();
    assert_eq!(p.text("deep/out/x"), "x");
    assert!(
        p.said("write_file", json!({"path": "/gone/x", "content": "x"})).await.contains("does not exist")
    );
    assert!(!top.path().join("gone").exists());
}

#[tokio::test]
async fn where_nothing_can_be_written_no_tool_that_writes_is_offered() {
    use llm_do_core::toolsets::filesystem::Filesystem;
    let p = Program::with(|project| vec![Mount::new(at("/p"), project.clone(), Access::Read)]);
    let names: Vec<String> =
        Filesystem::made_for(&p.authority, None).iter().map(|f| f.meta.name.to_string()).collect();
    assert_eq!(names, ["read_file", "list_files", "search_files", "file_info", "file_exists"]);
    let p = Program::new().narrowed(&Narrowing { readonly: true, ..Narrowing::default() });
    assert_eq!(Filesystem::made_for(&p.authority, None).len(), 5);
}

#[tokio::test]
async fn a_mount_that_is_never_read_is_left_out_of_listings() {
    let p = Program::with(|project| {
        let mut secret = Mount::new(at("/secret"), project.join("secret"), Access::Read);
        secret.approvals = Approvals { read: Some(Rule::Blocked), ..Approvals::default() };
        vec![secret, Mount::new(at("/notes"), project.join("notes"), Access::Read)]
    });
    fs::create_dir(p.path("secret")).unwrap();
    fs::write(p.path("secret/plan.md"), "hidden").unwrap();
    assert_eq!(p.said("list_files", json!({})).await, "/notes/\n/notes/plan.md  (9 bytes)");
    assert_eq!(p.said("search_files", json!({"pattern": "hidden|plan"})).await, "/notes/plan.md:1: The plan");
    let hint = p.said("read_file", json!({"path": "/notes/plam.md"})).await;
    assert!(hint.ends_with("Did you mean `/notes/plan.md`?"), "{hint}");
}

#[tokio::test]
async fn a_mount_inside_another_is_seen_and_its_rules_hold() {
    let p = Program::with(|project| {
        vec![
            Mount::new(VirtualPath::root(), project.clone(), Access::Write),
            Mount::new(at("/notes"), project.join("elsewhere"), Access::Read),
        ]
    });
    fs::create_dir(p.path("elsewhere")).unwrap();
    fs::write(p.path("elsewhere/x.md"), "x").unwrap();
    assert_eq!(
        p.said("list_files", json!({"pattern": "**/*.md"})).await,
        "/elsewhere/x.md  (1 bytes)\n/notes/x.md  (1 bytes)"
    );
    assert!(p.said("write_file", json!({"path": "/notes/x.md", "content": ""})).await.contains("read-only"));
    let moved = p.said("move_file", json!({"source": "/notes", "destination": "/n"})).await;
    assert!(moved.contains("read-only"), "{moved}");
}

#[tokio::test]
async fn modes_of_files_are_kept_and_read_only_files_left_alone() {
    use std::os::unix::fs::PermissionsExt;
    let p = Program::new();
    let mode = |path: &str| fs::metadata(p.path(path)).unwrap().permissions().mode() & 0o7777;
    fs::write(p.path("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(p.path("run.sh"), fs::Permissions::from_mode(0o4750)).unwrap();
    p.call("append_file", json!({"path": "/run.sh", "content": "true\n"})).await.unwrap();
    assert_eq!(mode("run.sh"), 0o750);
    p.call("edit_file", json!({"path": "/run.sh", "old_text": "true", "new_text": "false"})).await.unwrap();
    assert_eq!(mode("run.sh"), 0o750);
    fs::set_permissions(p.path("notes/plan.md"), fs::Permissions::from_mode(0o444)).unwrap();
    assert!(
        p.said("write_file", json!({"path": "/notes/plan.md", "content": ""})).await.contains("read-only")
    );
    assert_eq!(p.text("notes/plan.md"), "The plan\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_at_the_same_time_are_all_kept() {
    let p = std::sync::Arc::new(Program::new());
    let appends: Vec<_> = (0..40)
        .map(|n| {
            let p = std::sync::Arc::clone(&p);
            tokio::spawn(async move {
                p.call("append_file", json!({"path": "/log", "content": format!("{n}\n")})).await
            })
        })
        .collect();
    for append in appends {
        append.await.unwrap().unwrap();
    }
    assert_eq!(p.text("log").lines().count(), 40);
    assert_eq!(p.said("list_files", json!({"pattern": "*"})).await.matches("tmp").count(), 0);
}
