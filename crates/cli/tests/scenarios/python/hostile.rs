//! A hostile `tools.py`, confined: it reads nothing, changes nothing and leaves nothing behind.

use super::fixture::{calling, failure, has_python, holds, output, succeed};
use crate::scenario::Scenario;
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
fn project(calls: &[Value]) -> Scenario {
    let scenario = calling("", calls)
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
    let real = real(&scenario, "");
    symlink(real.join("private/key.txt"), real.join("data/link")).expect("a link");
    let source = include_str!("hostile.py");
    let source = source.replace("\"OUT/", &format!("\"{}/out/", real.display()));
    let source = source.replace("f\"OUT/", &format!("f\"{}/out/", real.display()));
    scenario.file("tools.py", &source.replace("\"DATA/", &format!("\"{}/data/", real.display())))
}

/// The real path of something in the project.
fn real(scenario: &Scenario, path: &str) -> PathBuf {
    scenario.project().canonicalize().expect("a folder").join(path)
}

/// Calls one tool with these arguments, and returns its output.
fn got(scenario: Scenario, tool: &str, arguments: Value) -> (Scenario, Value) {
    let scenario =
        scenario.file("s.yaml", &super::fixture::script(&[json!({"tool": tool, "arguments": arguments})]));
    succeed(&scenario, &["."]);
    let got = output(&scenario, "0/0.0");
    (scenario, got)
}

fn got_nothing(scenario: Scenario, tool: &str, arguments: Value) -> Scenario {
    let (scenario, got) = got(scenario, tool, arguments);
    assert_eq!(got, json!([]), "{tool}");
    scenario
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
    let scenario = project(&[]);
    // An earlier run, so that there is a journal with the secret.
    let told = scenario.run(&[".", SECRET]);
    assert_eq!(told.code, Some(0), "{told}");
    let journal = scenario.runs()[0].join("journal.jsonl").canonicalize().expect("a journal");
    assert!(fs::read_to_string(&journal).is_ok_and(|text| text.contains("[secret")), "secrets are redacted");
    fs::write(&journal, SECRET).expect("a file");
    let home = scenario.home().canonicalize().expect("a folder").join("home");
    let mut paths: Vec<PathBuf> =
        ["private/key.txt", ".env", "data/.env", "data/link", "out/../private/key.txt", ".llm-do/runs"]
            .map(|path| real(&scenario, path))
            .to_vec();
    paths.extend([journal, home.join(".ssh/id_rsa"), home, "/etc/shadow".into(), "/root".into()]);
    let scenario = got_nothing(scenario, "reads", json!({ "paths": paths }));
    fs::remove_dir_all(scenario.project().join(".llm-do")).expect("a folder");
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
    let scenario = project(&[]);
    let home = scenario.home().canonicalize().expect("a folder").join("home/.ssh/id_rsa");
    let targets = [
        real(&scenario, "private/key.txt"),
        real(&scenario, ".env"),
        real(&scenario, "tools.py"),
        real(&scenario, "data/seen.txt").with_file_name(".env"),
        home,
    ];
    let scenario = got_nothing(scenario, "reads_through_links", json!({ "targets": targets }));
    assert!(scenario.read("tools.py").is_some() && scenario.read("private/key.txt").is_some());
}

#[test]
fn links_left_behind_do_not_lead_file_tools_outside() {
    if !has_python() {
        return;
    }
    let scenario = project(&[]);
    let targets =
        [real(&scenario, "private/key.txt"), real(&scenario, "main.worker"), real(&scenario, "private")];
    let read = |path: &str| json!({"tool": "read_file", "arguments": {"path": path}});
    let write = |path: &str| json!({"tool": "write_file", "arguments": {"path": path, "content": "changed"}});
    let calls = [
        json!({"tool": "leaves_links", "arguments": {"targets": targets}}),
        read("/out/trap0"),
        read("/out/trap2/key.txt"),
        write("/out/trap1"),
        write("/out/trap2/new.txt"),
    ];
    let scenario = scenario.file("s.yaml", &super::fixture::script(&calls));
    succeed(&scenario, &[".", "--approval", "approve_all"]);
    assert_eq!(output(&scenario, "0/0.0"), 3);
    for turn in 1..=2 {
        let told = failure(&scenario, &format!("0/{turn}.0"));
        assert!(!told.contains(SECRET), "{told}");
    }
    assert!(scenario.read("main.worker").is_some_and(|text| text.contains("toolsets")));
    assert_eq!(scenario.read("private/new.txt"), None);
}

#[test]
fn sockets_cannot_be_opened() {
    if !has_python() {
        return;
    }
    let scenario = project(&[]);
    let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = tcp.local_addr().expect("an address").port();
    let udp = UdpSocket::bind(("127.0.0.1", port)).expect("a port");
    let named = UnixListener::bind(real(&scenario, "out/socket")).expect("a socket");
    let name = SocketAddr::from_abstract_name(format!("llm-do-test-{port}")).expect("a name");
    let by_name = UnixListener::bind_addr(&name).expect("a socket");
    got_nothing(scenario, "connects", json!({ "port": port }));
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
    let scenario = project(&[]);
    let before: Vec<_> = ["tools.py", "main.worker", "project.yaml", "data/seen.txt", ".git/config", ".env"]
        .map(|path| (path, scenario.read(path)))
        .to_vec();
    let home = scenario.home().canonicalize().expect("a folder").join("home");
    let mut paths: Vec<PathBuf> = before.iter().map(|(path, _)| real(&scenario, path)).collect();
    let new = ["private/new", "new", "workers/new.worker", ".llm-do/new", "data/new", "out/../new"];
    paths.extend(new.map(|path| real(&scenario, path)));
    paths.extend([home.join("new"), home.join(".bashrc")]);
    // It may write below /tmp, which only it can see; so only the files outside are checked.
    let (scenario, _) = got(scenario, "writes", json!({ "paths": paths }));
    for (path, text) in before {
        assert_eq!(scenario.read(path), text, "{path}");
    }
    assert!(new.iter().all(|path| scenario.read(path).is_none()));
    assert!(!home.join("new").exists() && !home.join(".bashrc").exists());
    got_nothing(
        scenario,
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
    let scenario = project(&[]);
    let calls = [json!({"tool": "kills", "arguments": {}}), json!({"tool": "control", "arguments": {}})];
    let scenario = scenario.file("s.yaml", &super::fixture::script(&calls));
    let told = succeed(&scenario, &["."]);
    assert_eq!(told.stdout, "done\n");
    assert_eq!(output(&scenario, "0/1.0").as_array().map(Vec::len), Some(4), "the next call works");
}

#[test]
fn temporary_files_are_bounded() {
    if !has_python() {
        return;
    }
    let (_, megabytes) = got(project(&[]), "fills_memory_disk", json!({}));
    assert!(megabytes.as_u64().is_some_and(|megabytes| (1..=600).contains(&megabytes)), "{megabytes}");
    let (scenario, told) = got(project(&[]), "huge_file", json!({}));
    assert_eq!(told, "EFBIG");
    assert!(fs::metadata(scenario.project().join("out/huge")).is_ok_and(|meta| meta.len() == 0));
}

#[test]
fn forks_are_bounded() {
    if !has_python() {
        return;
    }
    let calls = [json!({"tool": "forks", "arguments": {}}), json!({"tool": "kills", "arguments": {}})];
    let scenario = project(&[]);
    let scenario = scenario.file("s.yaml", &super::fixture::script(&calls));
    succeed(&scenario, &["."]);
    let count = output(&scenario, "0/0.0");
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
    let scenario = project(&[]);
    let scenario = scenario.file("s.yaml", &super::fixture::script(&calls));
    // Even where the operator allows the forged call.
    succeed(&scenario, &[".", "--allow", "write_file"]);
    assert_eq!(scenario.read("out/forged.txt"), None);
    assert!(
        !scenario.journal().iter().any(|record| record["function"] == "write_file"),
        "no such call was made"
    );
    holds(&failure(&scenario, "0/1.0"), &["`babbles` ended the process that it ran in"]);
    assert_eq!(output(&scenario, "0/2.0").as_array().map(Vec::len), Some(4), "the next call works");
}

#[test]
fn refused_access_names_the_key_that_allows_it() {
    if !has_python() {
        return;
    }
    let scenario = project(&[]);
    let calls = [
        json!({"tool": "opens_outside", "arguments": {"path": real(&scenario, "data/new.txt")}}),
        json!({"tool": "dials", "arguments": {"port": 9}}),
    ];
    let scenario = scenario.file("s.yaml", &super::fixture::script(&calls));
    succeed(&scenario, &["."]);
    holds(&failure(&scenario, "0/0.0"), &["data/new.txt", "sandbox.paths", "mode: rw"]);
    holds(&failure(&scenario, "0/1.0"), &["sandbox.network_enabled", "grant `network`"]);
}

#[test]
fn hidden_file_error_names_the_key_that_shows_it() {
    if !has_python() {
        return;
    }
    let scenario = project(&[]);
    let call = json!({"tool": "opens_to_read", "arguments": {"path": real(&scenario, "private/key.txt")}});
    let scenario = scenario.file("s.yaml", &super::fixture::script(&[call]));
    succeed(&scenario, &["."]);
    holds(&failure(&scenario, "0/0.0"), &["private/key.txt", "sandbox.paths"]);
}
