//! A hostile `tools.py`, confined: it reads nothing, changes nothing and leaves nothing behind.

use super::fixture::{calling, failure, has_python, holds, output, succeed};
use crate::scenario::Story;
use serde_json::{Value, json};
use std::{
    fs,
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt,
        unix::{
            fs::symlink,
            net::{SocketAddr, UnixListener},
        },
    },
    path::PathBuf,
};

/// A secret that no tool may read. `hostile.py` does not contain it in this form.
const SECRET: &str = "plainly-secret-7781";

/// A project with `/out` for writing and `/data` for reading, secrets around them, and a sequence of calls.
fn project(calls: &[Value]) -> Story {
    let story = calling("", calls)
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\ntoolsets: [custom, filesystem]\n\
             sandbox: {paths: {out: {root: ./out, mode: rw}, data: ./data}}\n---\nGo.\n",
        )
        .file("data/seen.txt", SECRET)
        .file("data/.env", SECRET)
        .file("private/key.txt", SECRET)
        .file("out/.keep", "")
        .file(".env", SECRET)
        .file(".git/config", "[core]\n")
        .file("project.yaml", "name: target\n")
        .file("../home/.ssh/id_rsa", SECRET)
        .file(&format!("../home/{SECRET}"), "")
        .env("OPENAI_API_KEY", SECRET)
        .env("LD_PRELOAD_HINT", SECRET)
        .env("AWS_SESSION", SECRET);
    let real = real(&story, "");
    symlink(real.join("private/key.txt"), real.join("data/link")).expect("a link");
    let source = include_str!("hostile.py");
    let source = source.replace("\"OUT/", &format!("\"{}/out/", real.display()));
    let source = source.replace("f\"OUT/", &format!("f\"{}/out/", real.display()));
    story.file("tools.py", &source.replace("\"DATA/", &format!("\"{}/data/", real.display())))
}

/// The real path of something in the project.
fn real(story: &Story, path: &str) -> PathBuf {
    story.project().canonicalize().expect("a folder").join(path)
}

/// Calls one tool with these arguments, and returns its output.
fn got(story: Story, tool: &str, arguments: Value) -> (Story, Value) {
    let story =
        story.file("s.yaml", &super::fixture::script(&[json!({"tool": tool, "arguments": arguments})]));
    succeed(&story, &["."]);
    let got = output(&story, "0/0.0");
    (story, got)
}

fn got_nothing(story: Story, tool: &str, arguments: Value) -> Story {
    let (story, got) = got(story, tool, arguments);
    assert_eq!(got, json!([]), "{tool}");
    story
}

#[test]
fn allowed_operations_work() {
    if !has_python() {
        return;
    }
    let (_, got) = got(project(&[]), "control", json!({}));
    assert_eq!(got, json!(["socketpair", "own mount", "data", "own code"]));
}

#[test]
fn hidden_files_cannot_be_read() {
    if !has_python() {
        return;
    }
    let story = project(&[]);
    // An earlier run, so that there is a journal with the secret.
    let told = story.run(&[".", SECRET]);
    assert_eq!(told.code, Some(0), "{told}");
    let journal = story.runs()[0].join("journal.jsonl").canonicalize().expect("a journal");
    assert!(fs::read_to_string(&journal).is_ok_and(|text| text.contains("[secret")), "secrets are redacted");
    fs::write(&journal, SECRET).expect("a file");
    let home = story.home().canonicalize().expect("a folder").join("home");
    let mut paths: Vec<PathBuf> =
        ["private/key.txt", ".env", "data/.env", "data/link", "out/../private/key.txt", ".llm-do/runs"]
            .map(|path| real(&story, path))
            .to_vec();
    paths.extend([journal, home.join(".ssh/id_rsa"), home, "/etc/shadow".into(), "/root".into()]);
    let story = got_nothing(story, "reads", json!({ "paths": paths }));
    fs::remove_dir_all(story.project().join(".llm-do")).expect("a folder");
}

#[test]
fn other_processes_and_keys_are_invisible() {
    if !has_python() {
        return;
    }
    got_nothing(project(&[]), "reads_processes", json!({}));
}

#[test]
fn links_to_hidden_files_cannot_be_followed() {
    if !has_python() {
        return;
    }
    let story = project(&[]);
    let home = story.home().canonicalize().expect("a folder").join("home/.ssh/id_rsa");
    let targets = [
        real(&story, "private/key.txt"),
        real(&story, ".env"),
        real(&story, "tools.py"),
        real(&story, "data/seen.txt").with_file_name(".env"),
        home,
    ];
    let story = got_nothing(story, "reads_through_links", json!({ "targets": targets }));
    assert!(story.read("tools.py").is_some() && story.read("private/key.txt").is_some());
}

#[test]
fn links_left_behind_do_not_lead_file_tools_outside() {
    if !has_python() {
        return;
    }
    let story = project(&[]);
    let targets = [real(&story, "private/key.txt"), real(&story, "main.worker"), real(&story, "private")];
    let read = |path: &str| json!({"tool": "read_file", "arguments": {"path": path}});
    let write = |path: &str| json!({"tool": "write_file", "arguments": {"path": path, "content": "changed"}});
    let calls = [
        json!({"tool": "leaves_links", "arguments": {"targets": targets}}),
        read("/out/trap0"),
        read("/out/trap2/key.txt"),
        write("/out/trap1"),
        write("/out/trap2/new.txt"),
    ];
    let story = story.file("s.yaml", &super::fixture::script(&calls));
    succeed(&story, &[".", "--approval", "approve_all"]);
    assert_eq!(output(&story, "0/0.0"), 3);
    for turn in 1..=2 {
        let told = failure(&story, &format!("0/{turn}.0"));
        assert!(!told.contains(SECRET), "{told}");
    }
    assert!(story.read("main.worker").is_some_and(|text| text.contains("toolsets")));
    assert_eq!(story.read("private/new.txt"), None);
}

#[test]
fn sockets_cannot_be_opened() {
    if !has_python() {
        return;
    }
    let story = project(&[]);
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = tcp.local_addr().expect("an address").port();
    let udp = UdpSocket::bind(("127.0.0.1", port)).expect("a port");
    let named = UnixListener::bind(real(&story, "out/socket")).expect("a socket");
    let name = SocketAddr::from_abstract_name(format!("llm-do-test-{port}")).expect("a name");
    let by_name = UnixListener::bind_addr(&name).expect("a socket");
    got_nothing(story, "connects", json!({ "port": port }));
    tcp.set_nonblocking(true).expect("a socket");
    udp.set_nonblocking(true).expect("a socket");
    named.set_nonblocking(true).expect("a socket");
    by_name.set_nonblocking(true).expect("a socket");
    assert!(tcp.accept().is_err() && named.accept().is_err() && by_name.accept().is_err());
    assert!(udp.recv(&mut [0]).is_err(), "nothing has arrived");
}

#[test]
fn files_outside_writable_mounts_cannot_be_written() {
    if !has_python() {
        return;
    }
    let story = project(&[]);
    let before: Vec<_> = ["tools.py", "main.worker", "project.yaml", "data/seen.txt", ".git/config", ".env"]
        .map(|path| (path, story.read(path)))
        .to_vec();
    let home = story.home().canonicalize().expect("a folder").join("home");
    let mut paths: Vec<PathBuf> = before.iter().map(|(path, _)| real(&story, path)).collect();
    let new = ["private/new", "new", "workers/new.worker", ".llm-do/new", "data/new", "out/../new"];
    paths.extend(new.map(|path| real(&story, path)));
    paths.extend([home.join("new"), home.join(".bashrc")]);
    // It may write below /tmp, which only it can see; so only the files outside are checked.
    let (story, _) = got(story, "writes", json!({ "paths": paths }));
    for (path, text) in before {
        assert_eq!(story.read(path), text, "{path}");
    }
    assert!(new.iter().all(|path| story.read(path).is_none()));
    assert!(!home.join("new").exists() && !home.join(".bashrc").exists());
    got_nothing(
        story,
        "writes",
        json!({"paths": ["/etc/new", "/usr/new", "/usr/bin/env", "/root/new", "/new", "/proc/new"]}),
    );
}

#[test]
fn privileged_system_calls_fail() {
    if !has_python() {
        return;
    }
    got_nothing(project(&[]), "system_calls", json!({}));
}

#[test]
fn other_processes_cannot_be_killed() {
    if !has_python() {
        return;
    }
    let story = project(&[]);
    let calls = [json!({"tool": "kills", "arguments": {}}), json!({"tool": "control", "arguments": {}})];
    let story = story.file("s.yaml", &super::fixture::script(&calls));
    let told = succeed(&story, &["."]);
    assert_eq!(told.stdout, "done\n");
    assert_eq!(output(&story, "0/1.0").as_array().map(Vec::len), Some(4), "the next call works");
}

#[test]
fn temporary_files_are_bounded() {
    if !has_python() {
        return;
    }
    let (_, megabytes) = got(project(&[]), "fills_memory_disk", json!({}));
    assert!(megabytes.as_u64().is_some_and(|megabytes| (1..=600).contains(&megabytes)), "{megabytes}");
    let (story, told) = got(project(&[]), "huge_file", json!({}));
    assert_eq!(told, "EFBIG");
    assert!(fs::metadata(story.project().join("out/huge")).is_ok_and(|meta| meta.len() == 0));
}

#[test]
fn forks_are_bounded() {
    if !has_python() {
        return;
    }
    let calls = [json!({"tool": "forks", "arguments": {}}), json!({"tool": "kills", "arguments": {}})];
    let story = project(&[]);
    let story = story.file("s.yaml", &super::fixture::script(&calls));
    succeed(&story, &["."]);
    let count = output(&story, "0/0.0");
    assert!(count.as_u64().is_some_and(|count| (1..=1000).contains(&count)), "{count}");
}

#[test]
fn forged_host_messages_have_no_effect() {
    if !has_python() {
        return;
    }
    let calls = [
        json!({"tool": "forges", "arguments": {"path": "/out/forged.txt"}}),
        json!({"tool": "babbles", "arguments": {}}),
        json!({"tool": "control", "arguments": {}}),
    ];
    let story = project(&[]);
    let story = story.file("s.yaml", &super::fixture::script(&calls));
    // Even where the operator allows the forged call.
    succeed(&story, &[".", "--allow", "write_file"]);
    assert_eq!(story.read("out/forged.txt"), None);
    assert!(
        !story.journal().iter().any(|record| record["function"] == "write_file"),
        "no such call was made"
    );
    holds(&failure(&story, "0/1.0"), &["`babbles` ended the process that it ran in"]);
    assert_eq!(output(&story, "0/2.0").as_array().map(Vec::len), Some(4), "the next call works");
}

#[test]
fn refused_access_names_the_key_that_allows_it() {
    if !has_python() {
        return;
    }
    let story = project(&[]);
    let calls = [
        json!({"tool": "opens_outside", "arguments": {"path": real(&story, "data/new.txt")}}),
        json!({"tool": "dials", "arguments": {"port": 9}}),
    ];
    let story = story.file("s.yaml", &super::fixture::script(&calls));
    succeed(&story, &["."]);
    holds(&failure(&story, "0/0.0"), &["data/new.txt", "sandbox.paths", "mode: rw"]);
    holds(&failure(&story, "0/1.0"), &["sandbox.network_enabled", "--grant network"]);
}

#[test]
fn hidden_file_error_names_the_key_that_shows_it() {
    if !has_python() {
        return;
    }
    let story = project(&[]);
    let call = json!({"tool": "opens_to_read", "arguments": {"path": real(&story, "private/key.txt")}});
    let story = story.file("s.yaml", &super::fixture::script(&[call]));
    succeed(&story, &["."]);
    holds(&failure(&story, "0/0.0"), &["private/key.txt", "sandbox.paths"]);
}
