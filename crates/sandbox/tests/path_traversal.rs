//! No path leads out of the mounts: not a written one, not a linked one, not one that is swapped meanwhile.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why it skips")]

mod program;

use llm_do_core::{
    authority::{Access, Mount, VirtualPath},
    vfs::FileSystem,
};
use program::{CANARY, Program};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Returns a call of every tool, with `path` in each of its path arguments.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("read_file", json!({"path": path})),
        ("write_file", json!({"path": path, "content": "written"})),
        ("edit_file", json!({"path": path, "old_text": "CANARY", "new_text": "edited"})),
        ("append_file", json!({"path": path, "content": "appended"})),
        ("list_files", json!({"path": path})),
        ("list_files", json!({"pattern": path})),
        ("search_files", json!({"path": path, "pattern": "CANARY|root:"})),
        ("file_info", json!({"path": path})),
        ("file_exists", json!({"path": path})),
        ("copy_file", json!({"source": path, "destination": "/copied"})),
        ("copy_file", json!({"source": "/notes/plan.md", "destination": path})),
        ("move_file", json!({"source": path, "destination": "/moved"})),
        ("move_file", json!({"source": "/notes/plan.md", "destination": path})),
        ("delete_file", json!({"path": path})),
    ]
}

/// Removes the files that calls made inside, so that each string meets the same small project.
fn sweep(p: &Program) {
    for entry in fs::read_dir(p.path("")).unwrap().map(|entry| entry.unwrap().path()) {
        if !["notes", "main.worker", ".env"].iter().any(|kept| entry == p.path(kept)) {
            let _ = fs::remove_file(&entry).or_else(|_| fs::remove_dir_all(&entry));
        }
    }
    if !p.path("notes/plan.md").is_file() {
        fs::create_dir_all(p.path("notes")).unwrap();
        fs::write(p.path("notes/plan.md"), "The plan\n").unwrap();
    }
}

/// Makes every call with `path`, and checks that nothing came from outside.
async fn nothing_comes_of(p: &Program, path: &str) {
    for (tool, input) in calls(path) {
        let said = p.said(tool, input.clone()).await;
        for secret in [CANARY, "root:x:0", "hunter2"] {
            assert!(!said.contains(secret), "{tool} {input} gave {said}");
        }
        let top = p.top.to_str().unwrap();
        assert!(path.contains(top) || !said.contains(top), "{tool} {input} names a real path: {said}");
        for entry in [p.path("copied"), p.path("moved")] {
            if let Ok(content) = fs::read_to_string(&entry) {
                assert!(!content.contains(CANARY), "{tool} {input} brought the canary in");
            }
            let _ = fs::remove_file(&entry).or_else(|_| fs::remove_dir_all(&entry));
        }
    }
    sweep(p);
}

fn corpus() -> Option<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/path-traversal.txt");
    match fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{}: {error}", file.display());
            println!("skipped: no corpus of paths beside the repository");
            None
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_string_of_the_corpus_reaches_anything_outside() {
    let Some(corpus) = corpus() else { return };
    let p = Program::new();
    let before = p.outside();
    let around: Vec<PathBuf> = fs::read_dir(&p.top).unwrap().map(|entry| entry.unwrap().path()).collect();
    let passwd = fs::read("/etc/passwd").unwrap();
    let mut strings = 0;
    for line in corpus.lines().filter(|line| !line.is_empty()) {
        strings += 1;
        for target in ["etc/passwd", "outside/canary.txt"] {
            nothing_comes_of(&p, &line.replace("{FILE}", target)).await;
        }
    }
    assert!(strings > 500, "the corpus has {strings} strings");
    assert_eq!(p.outside(), before);
    assert_eq!(fs::read_dir(&p.top).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>(), around);
    assert_eq!(fs::read("/etc/passwd").unwrap(), passwd);
    assert_eq!(p.text(".env"), "SECRET=hunter2\n");
    assert!(p.text("main.worker").contains("Protected"));
}

#[tokio::test]
async fn no_symbolic_link_reaches_anything_outside() {
    let p = Program::new();
    let outside = p.top.join("outside");
    fs::create_dir_all(p.path("deep/er")).unwrap();
    let links: Vec<(&str, PathBuf)> = vec![
        ("file", "../outside/canary.txt".into()),
        ("absolute", outside.join("canary.txt")),
        ("folder", "../outside".into()),
        ("absolute-folder", outside.clone()),
        ("up", "..".into()),
        ("root", "/".into()),
        ("chain1", "chain2".into()),
        ("chain2", "deep/er/chain3".into()),
        ("deep/er/chain3", "../../../outside/canary.txt".into()),
        ("winding", "deep/er/../../../outside/canary.txt".into()),
        ("there-and-back", "../project/../outside/canary.txt".into()),
        ("absolute-winding", p.top.join("project/../outside/canary.txt")),
        ("loop1", "loop2".into()),
        ("loop2", "loop1".into()),
        ("self", "self".into()),
        ("dangling-out", "../outside/new.txt".into()),
        ("dangling-out-deep", outside.join("new/deeper.txt")),
        ("proc", "/proc/self/root/etc/passwd".into()),
        ("dir-proc", "/proc/self/cwd".into()),
        ("env", ".env".into()),
        ("deep/env", "../.env".into()),
    ];
    let before = p.outside();
    for (link, target) in &links {
        symlink(target, p.path(link)).unwrap();
    }
    for (link, target) in &links {
        for below in
            ["", "/canary.txt", "/etc/passwd", "/outside/canary.txt", "/project/.env", "/new.txt", "/.env"]
        {
            // A link may be moved or deleted itself: it is put back for the next call.
            for (tool, input) in calls(&format!("{link}{below}")) {
                let said = p.said(tool, input.clone()).await;
                assert!(
                    !said.contains(CANARY) && !said.contains("hunter2") && !said.contains("root:x"),
                    "{tool} {input}: {said}"
                );
                assert_eq!(p.outside(), before, "{tool} {input} changed something outside");
                assert_eq!(p.text(".env"), "SECRET=hunter2\n", "{tool} {input}");
                let _ = fs::remove_file(p.path("moved"));
                if let Ok(copied) = fs::read_to_string(p.path("copied")) {
                    panic!("{tool} {input} copied {copied}");
                }
                if fs::symlink_metadata(p.path(link)).is_err() {
                    symlink(target, p.path(link)).unwrap();
                }
                if fs::symlink_metadata(p.path("notes/plan.md")).is_err() {
                    fs::write(p.path("notes/plan.md"), "The plan\n").unwrap();
                }
            }
        }
    }
    let listed = p.said("list_files", json!({})).await;
    assert!(!listed.contains("canary") && !listed.contains("passwd"), "{listed}");
    assert!(
        p.said("search_files", json!({"pattern": "CANARY|hunter2|root:x"}))
            .await
            .starts_with("No line matches")
    );
}

#[tokio::test]
async fn links_inside_are_followed_to_what_authority_allows() {
    let p = Program::new();
    fs::create_dir_all(p.path("a/b")).unwrap();
    fs::write(p.path("a/b/x.txt"), "x").unwrap();
    symlink("a/b/x.txt", p.path("link")).unwrap();
    symlink("../b/../b/./x.txt", p.path("a/b/winding")).unwrap();
    symlink(p.path("a/b"), p.path("absolute")).unwrap();
    symlink("a/new.txt", p.path("dangling")).unwrap();
    symlink("main.worker", p.path("worker")).unwrap();
    symlink("a/b", p.path("folder")).unwrap();
    for path in ["link", "a/b/winding", "absolute/x.txt", "folder/x.txt"] {
        assert_eq!(p.said("read_file", json!({"path": path})).await, "x", "{path}");
    }
    p.call("write_file", json!({"path": "/link", "content": "y"})).await.unwrap();
    assert_eq!(p.text("a/b/x.txt"), "y");
    assert!(fs::symlink_metadata(p.path("link")).unwrap().is_symlink(), "the link itself stays");
    p.call("append_file", json!({"path": "/dangling", "content": "made"})).await.unwrap();
    assert_eq!(p.text("a/new.txt"), "made");
    assert!(p.said("read_file", json!({"path": "/worker"})).await.contains("Protected"));
    for tool in ["write_file", "append_file"] {
        let said = p.said(tool, json!({"path": "/worker", "content": "x"})).await;
        assert!(said.contains("it defines the program"), "{said}");
    }
    assert!(p.text("main.worker").starts_with("---"));
    // Folders behind links are named, not entered; files behind links are files.
    let listed = p.said("list_files", json!({})).await;
    assert!(listed.contains("/folder  (a link or special file)") && !listed.contains("/folder/"), "{listed}");
    assert!(listed.contains("/link  (1 bytes)"), "{listed}");
    assert_eq!(
        p.said("list_files", json!({"path": "/folder", "pattern": "x*"})).await,
        "/folder/x.txt  (1 bytes)"
    );
    // Deleting and moving take the link, never what it points to.
    p.call("delete_file", json!({"path": "/folder"})).await.unwrap();
    p.call("move_file", json!({"source": "/link", "destination": "/link2"})).await.unwrap();
    assert_eq!(p.text("a/b/x.txt"), "y");
    assert!(fs::symlink_metadata(p.path("link2")).unwrap().is_symlink());
    // A link with the name of a new file is something that is there.
    symlink("nowhere", p.path("taken")).unwrap();
    let said = p.said("copy_file", json!({"source": "/a/new.txt", "destination": "/taken"})).await;
    assert!(said.contains("exists already"), "{said}");
}

#[tokio::test]
async fn a_link_does_not_walk_around_another_mounts_rules() {
    let p = Program::with(|project| {
        let mut texts =
            Mount::new(VirtualPath::parse("/texts").unwrap(), project.join("texts"), Access::Write);
        texts.suffixes = vec![".txt".into()];
        vec![
            Mount::new(VirtualPath::root(), project.clone(), Access::Write),
            Mount::new(VirtualPath::parse("/fixed").unwrap(), project.join("fixed"), Access::Read),
            texts,
        ]
    });
    fs::create_dir(p.path("fixed")).unwrap();
    fs::create_dir(p.path("texts")).unwrap();
    fs::write(p.path("fixed/x.txt"), "fixed").unwrap();
    fs::write(p.path("texts/key.pem"), "private").unwrap();
    symlink("fixed/x.txt", p.path("to-fixed")).unwrap();
    symlink("fixed", p.path("to-folder")).unwrap();
    symlink("key.pem", p.path("texts/key.txt")).unwrap();
    for path in ["/to-fixed", "/to-folder/x.txt", "/to-folder/new.txt"] {
        let said = p.said("write_file", json!({"path": path, "content": "x"})).await;
        assert!(said.contains("is in another mount: use that path"), "{said}");
    }
    assert_eq!(p.text("fixed/x.txt"), "fixed");
    assert!(
        p.said("read_file", json!({"path": "/texts/key.txt"})).await.contains("only files that end in .txt")
    );
    assert_eq!(
        p.said("list_files", json!({"path": "/texts"})).await,
        "/texts/key.txt  (a link or special file)"
    );
    let before = Program::snapshot(&p.path(""));
    let said = p.said("move_file", json!({"source": "/notes", "destination": "/texts/notes.txt"})).await;
    assert!(said.contains("it holds something that may not be moved"), "{said}");
    assert_eq!(Program::snapshot(&p.path("")), before);
}

#[tokio::test]
async fn a_mount_whose_root_became_a_link_is_closed() {
    let p = Program::with(|project| {
        vec![
            Mount::new(VirtualPath::root(), project.clone(), Access::Write),
            Mount::new(VirtualPath::parse("/data").unwrap(), project.join("a/data"), Access::Write),
            Mount::new(VirtualPath::parse("/one").unwrap(), project.join("one"), Access::Write),
        ]
    });
    let before = p.outside();
    symlink("../../outside", p.path("evil")).unwrap();
    for parent in ["a", "b"] {
        fs::create_dir(p.path(parent)).unwrap();
    }
    symlink("../../outside", p.path("a/data")).unwrap();
    symlink("../outside/canary.txt", p.path("one")).unwrap();
    for path in ["/data", "/data/canary.txt", "/data/new.txt", "/one"] {
        for (tool, input) in calls(path) {
            let said = p.said(tool, input.clone()).await;
            assert!(!said.contains(CANARY), "{tool} {input}: {said}");
        }
        assert_eq!(p.outside(), before);
    }
    let said = p.said("read_file", json!({"path": "/data/canary.txt"})).await;
    assert!(said.contains("a symbolic link that leaves the sandbox"), "{said}");
}

#[tokio::test]
async fn a_folder_that_holds_what_defines_the_program_is_not_moved() {
    let p = Program::new();
    fs::create_dir_all(p.path("sub/inner/.git")).unwrap();
    fs::create_dir_all(p.path("hidden/in")).unwrap();
    fs::write(p.path("hidden/in/.env.local"), "SECRET=hunter2").unwrap();
    fs::write(p.path("sub/inner/.git/HEAD"), "x").unwrap();
    for folder in ["/sub", "/sub/inner", "/hidden", "/workers"] {
        let said = p.said("move_file", json!({"source": folder, "destination": "/away"})).await;
        assert!(said.starts_with("error: "), "{folder}: {said}");
        assert!(!p.path("away").exists());
    }
    for name in [
        "workers",
        "Templates",
        "prompts",
        "tools.py",
        "x.worker",
        "PROJECT.yaml",
        ".git",
        ".env",
        ".llm-do",
        "a/.Env.x",
        ".llm-do-tmp-1",
    ] {
        for (tool, input) in [
            ("write_file", json!({"path": name, "content": "x"})),
            ("append_file", json!({"path": name, "content": "x"})),
            ("copy_file", json!({"source": "/notes/plan.md", "destination": name})),
            ("move_file", json!({"source": "/notes/plan.md", "destination": name})),
            ("move_file", json!({"source": "/notes", "destination": name})),
        ] {
            let said = p.said(tool, input.clone()).await;
            assert!(said.starts_with("error: "), "{tool} {input}: {said}");
        }
    }
    assert!(p.path("notes/plan.md").exists());
}

#[tokio::test]
async fn odd_names_are_files_or_errors_and_nothing_else() {
    let p = Program::new();
    let before = p.outside();
    let long = "n".repeat(255);
    let deep = vec!["d"; 2000].join("/");
    for name in [
        "trailing.",
        "trailing ",
        "...",
        "....",
        ". .",
        "~",
        "~root",
        "-rf",
        "%2e%2e",
        "a:b",
        "CON",
        "x\u{202e}txt",
        "ﬁle",
        "e\u{301}",
        "..;",
        "{a,b}",
        "*",
        &long,
    ] {
        p.call("write_file", json!({"path": name, "content": name}))
            .await
            .unwrap_or_else(|error| panic!("{name:?}: {error}"));
        assert_eq!(p.said("read_file", json!({"path": name})).await, name, "{name:?}");
        assert!(p.path(name).is_file(), "{name:?} lies where it is named");
    }
    for name in [
        "a\0b",
        "a\nb",
        "a\u{1b}[2Jb",
        "..",
        "a/../b",
        "a\\b",
        "..\\x",
        &"n".repeat(256),
        &"x/".repeat(3000),
        "",
        "/",
    ] {
        let said = p.said("write_file", json!({"path": name, "content": "x"})).await;
        assert!(said.starts_with("error: "), "{name:?}: {said}");
    }
    assert!(p.said("file_exists", json!({"path": deep})).await.contains("false"));
    // Names that no path can say are not listed, and don't break the listing.
    fs::write(p.path("back\\slash"), "").unwrap();
    fs::write(p.path("new\nline"), "").unwrap();
    let odd = <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(b"\xff\xfe".to_vec());
    fs::write(p.path("").join(odd), "").unwrap();
    let listed = p.said("list_files", json!({"pattern": "*"})).await;
    assert!(
        listed.contains("/trailing.") && !listed.contains("slash") && !listed.contains("line"),
        "{listed}"
    );
    assert_eq!(p.outside(), before);
}

#[tokio::test]
async fn what_is_no_regular_file_is_never_opened() {
    let p = Program::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        p.path("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(p.path("socket")).unwrap();
    symlink("fifo", p.path("to-fifo")).unwrap();
    for path in ["/fifo", "/socket", "/to-fifo"] {
        for (tool, input) in calls(path).into_iter().filter(|(tool, _)| {
            !matches!(
                *tool,
                "list_files" | "file_info" | "file_exists" | "search_files" | "delete_file" | "move_file"
            )
        }) {
            // Where one of these blocked, the test would never end.
            let said = p.said(tool, input.clone()).await;
            assert!(
                said.contains("a special file") || said.contains("exists already"),
                "{tool} {input}: {said}"
            );
        }
    }
    assert!(p.said("delete_file", json!({"path": "/fifo"})).await.contains("a special file"));
    let listed = p.said("list_files", json!({"pattern": "*f*o"})).await;
    assert_eq!(listed, "/fifo  (a link or special file)\n/to-fifo  (a link or special file)");
    assert!(p.said("search_files", json!({"pattern": "x"})).await.starts_with("No line"));
}

#[tokio::test]
async fn a_hard_link_is_not_written_through() {
    let p = Program::new();
    fs::hard_link(p.top.join("outside/canary.txt"), p.path("hard")).unwrap();
    let before = p.outside();
    p.call("write_file", json!({"path": "/hard", "content": "mine"})).await.unwrap();
    p.call("append_file", json!({"path": "/hard", "content": " too"})).await.unwrap();
    assert_eq!(p.text("hard"), "mine too");
    assert_eq!(p.outside(), before);
}

/// Two threads exchange a folder and a file for links to the outside as fast as they can, while every operation runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn swapping_a_path_for_a_link_gains_nothing() {
    let p = Arc::new(Program::new());
    let before = p.outside();
    fs::create_dir(p.path("swap")).unwrap();
    fs::write(p.path("swap/canary.txt"), "inside").unwrap();
    fs::write(p.path("file"), "inside").unwrap();
    symlink("../outside", p.path("link")).unwrap();
    symlink("../outside/canary.txt", p.path("file-link")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = {
        let (stop, a) = (Arc::clone(&stop), p.path(""));
        std::thread::spawn(move || {
            use rustix::fs::{CWD, RenameFlags, renameat_with};
            let mut swaps = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let exchange = |x: &str, y: &str| {
                    let _ = renameat_with(CWD, a.join(x), CWD, a.join(y), RenameFlags::EXCHANGE);
                };
                exchange("swap", "link");
                exchange("file", "file-link");
                swaps += 1;
                if swaps.is_multiple_of(64) {
                    std::thread::yield_now();
                }
            }
            swaps
        })
    };
    let (mut inside, mut refused) = (0, 0);
    for round in 0..3000 {
        let (tool, input) = match round % 10 {
            0 => ("read_file", json!({"path": "/swap/canary.txt"})),
            1 => ("write_file", json!({"path": "/swap/canary.txt", "content": "inside"})),
            2 => ("read_file", json!({"path": "/file"})),
            3 => ("write_file", json!({"path": "/file", "content": "inside"})),
            4 => ("append_file", json!({"path": "/swap/new", "content": "inside"})),
            5 => ("delete_file", json!({"path": "/swap/new"})),
            6 => ("move_file", json!({"source": "/swap/canary.txt", "destination": "/swap/canary.bak"})),
            7 => ("move_file", json!({"source": "/swap/canary.bak", "destination": "/swap/canary.txt"})),
            8 => ("list_files", json!({"path": "/swap"})),
            _ => ("search_files", json!({"path": "/swap", "pattern": "."})),
        };
        let said = p.said(tool, input.clone()).await;
        assert!(!said.contains(CANARY) && !said.contains("passwd"), "{tool} {input}: {said}");
        if said.starts_with("error: ") { refused += 1 } else { inside += 1 }
    }
    stop.store(true, Ordering::Relaxed);
    let swaps = swapper.join().unwrap();
    assert_eq!(p.outside(), before);
    // The test says something only if both were met often.
    assert!(
        swaps > 1000 && inside > 100 && refused > 100,
        "{swaps} swaps, {inside} inside, {refused} refused"
    );
    assert!(!Program::snapshot(&p.path("")).iter().any(|entry| entry.contains(CANARY)));
}

#[tokio::test]
async fn a_listing_of_a_huge_folder_holds_no_more_than_it_is_asked_for() {
    let p = Program::new();
    fs::create_dir(p.path("many")).unwrap();
    for n in 0..5000 {
        fs::write(p.path(&format!("many/{n:05}")), "").unwrap();
    }
    let at = p.authority.locate("/many", Access::Read).unwrap();
    let found = p.files.walk(&at, 3).await.unwrap();
    let names: Vec<&str> = found.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(names, ["/many/00000", "/many/00001", "/many/00002"]);
    let listed = p.said("list_files", json!({"path": "/many"})).await;
    assert!(listed.ends_with("[4000 more are not shown. Give a narrower `path` or `pattern`.]"));
}
