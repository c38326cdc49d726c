//! Packages of npm and PyPI that hold servers (docs/guides/mcp.md), from a registry on a loopback port. `npm` and `pip` are
//! those of the system; `LLM_DO_TEST_MCP` says that they are there.

use crate::{
    mcp_serve::real_clients::tools,
    python::fixture::assert_no_process_is_left,
    remote_server::{Answer, RemoteServer, status},
    scenario::{Finished, Scenario},
};
use llm_do_core::schema::sha256;
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command};

/// A server in JavaScript, with the tool `echo`.
const SERVER: &str = r#"#!/usr/bin/env node
const tool = {name: 'echo', description: 'Returns the text.', inputSchema: {type: 'object', properties: {text: {type: 'string'}}}};
require('readline').createInterface({input: process.stdin}).on('line', line => {
  const {id, method, params} = JSON.parse(line);
  if (id === undefined) return;
  const results = {
    'initialize': () => ({protocolVersion: params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: 'x', version: '1'}}),
    'tools/list': () => ({tools: [tool]}),
    'tools/call': () => ({content: [{type: 'text', text: `${process.argv[2]} ${params.arguments.text}`}]}),
  };
  const answer = results[method] ? {result: results[method]()} : {error: {code: -32601, message: 'no such method'}};
  console.log(JSON.stringify({jsonrpc: '2.0', id, ...answer}));
});
"#;

/// A server in Python, as a module with the function `main`.
const IMPLEMENTATION: &str = include_str!("mcp/server.py");
const MODULE: &str =
    "import runpy\n\ndef main():\n    runpy.run_module('notes_implementation', run_name='__main__')\n";

fn ran(command: &mut Command) -> String {
    let output = command.output().expect("the tool starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A registry of npm with the package `@desk/notes`, whose install script would leave a file. Returns the hash of its
/// archive, too.
fn npm() -> (RemoteServer, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = json!({
        "name": "@desk/notes", "version": "1.2.3", "bin": {"notes-server": "server.js"},
        "scripts": {"postinstall": "touch was-run"},
    });
    fs::write(folder.path().join("package.json"), manifest.to_string()).expect("a file");
    fs::write(folder.path().join("server.js"), SERVER).expect("a file");
    let packed = ran(Command::new("npm").args(["pack", "--json"]).current_dir(folder.path()));
    let packed: Value = serde_json::from_str(&packed).expect("JSON");
    let (integrity, name) = (packed[0]["integrity"].clone(), packed[0]["filename"].as_str().expect("a name"));
    let archive = fs::read(folder.path().join(name)).expect("the archive");
    let hash = integrity.as_str().expect("a hash").to_owned();
    let server = RemoteServer::new(move |asked| {
        let host = asked.head.split("host: ").nth(1).and_then(|rest| rest.lines().next()).unwrap_or_default();
        let mut version = manifest.clone();
        version["dist"] = json!({"tarball": format!("http://{host}/notes.tgz"), "integrity": integrity});
        version["hasInstallScript"] = true.into();
        Some(match &*asked.path {
            "/@desk%2fnotes" | "/@desk%2Fnotes" | "/@desk/notes" => {
                let about = json!({
                    "name": "@desk/notes", "dist-tags": {"latest": "1.2.3"}, "versions": {"1.2.3": version},
                });
                Answer::Reply(200, "Content-Type: application/json\r\n".into(), about.to_string().into())
            }
            "/notes.tgz" => {
                Answer::Reply(200, "Content-Type: application/octet-stream\r\n".into(), archive.clone())
            }
            _ => status(404, ""),
        })
    });
    (server, hash)
}

/// An index of Python packages with `desk-notes`.
fn pypi() -> RemoteServer {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk_notes-2.0.1-py3-none-any.whl");
    let info = "desk_notes-2.0.1.dist-info";
    let files = json!({
        "desk_notes.py": MODULE,
        "notes_implementation.py": IMPLEMENTATION,
        format!("{info}/METADATA"): "Metadata-Version: 2.1\nName: desk-notes\nVersion: 2.0.1\n",
        format!("{info}/WHEEL"): "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        format!("{info}/entry_points.txt"): "[console_scripts]\nnotes-server = desk_notes:main\n",
        format!("{info}/RECORD"): "",
    });
    let zip = "import json, sys, zipfile\nwith zipfile.ZipFile(sys.argv[1], 'w') as wheel:\n    for name, text in json.loads(sys.argv[2]).items():\n        wheel.writestr(name, text)\n";
    ran(Command::new("/usr/bin/python3").args(["-c", zip]).arg(&path).arg(files.to_string()));
    let archive = fs::read(&path).expect("the archive");
    let hash = sha256(&archive);
    RemoteServer::new(move |asked| {
        let name = "desk_notes-2.0.1-py3-none-any.whl";
        let page =
            format!("<!DOCTYPE html><html><body><a href=\"/{name}#sha256={hash}\">{name}</a></body></html>");
        Some(match &*asked.path {
            "/simple/desk-notes/" => Answer::Reply(200, "Content-Type: text/html\r\n".into(), page.into()),
            path if path.ends_with(".whl") => {
                Answer::Reply(200, "Content-Type: application/octet-stream\r\n".into(), archive.clone())
            }
            _ => status(404, ""),
        })
    })
}

/// A project whose worker lists the server `notes` and calls `echo`.
fn unconfigured() -> Scenario {
    let call =
        json!({"when": {"turn": 0}, "calls": [{"tool": "notes__echo", "arguments": {"text": "hello"}}]});
    Scenario::new()
        .file("project.yaml", "name: desk\n")
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: {mcp: [notes]}\n---\nGo.\n")
        .file("s.yaml", &json!({"answers": [call, {"text": "done"}]}).to_string())
}

/// The same, where variables of the environment name the registry.
fn project(registry: &RemoteServer) -> Scenario {
    let address = address(registry);
    unconfigured().env("npm_config_registry", &*address).env("PIP_INDEX_URL", format!("{address}/simple/"))
}

fn address(registry: &RemoteServer) -> String {
    format!("http://127.0.0.1:{}", registry.port)
}

/// Writes a file into the home folder of the user.
fn configure(scenario: &Scenario, path: &str, text: &str) {
    let file = scenario.home().join("home").join(path);
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    fs::write(file, text).expect("a file");
}

fn network(registry: &RemoteServer) -> String {
    format!("network=127.0.0.1:{}", registry.port)
}

fn outputs(scenario: &Scenario) -> Vec<Value> {
    let journal = scenario.journal();
    let ended = journal.iter().filter(|record| record["kind"] == "tool_ended");
    ended.map(|record| record["ending"]["output"].clone()).collect()
}

/// Returns the names in the folder of installed packages.
fn installed(scenario: &Scenario) -> Vec<String> {
    let folder = scenario.home().join("home/.llm-do/mcp/packages");
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    names.filter(|name| name != "lock").collect()
}

fn holds(folder: &Path, name: &str) -> bool {
    fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        entry.file_name() == name
            || (entry.file_type().is_ok_and(|kind| kind.is_dir()) && holds(&entry.path(), name))
    })
}

fn done(finished: Finished) -> Finished {
    assert_eq!(finished.code, Some(0), "{finished}");
    finished
}

#[test]
fn a_package_of_npm_is_installed_once_and_started_without_a_network() {
    if tools().is_none() {
        return;
    }
    let (registry, hash) = npm();
    let scenario = project(&registry);
    let add = ["mcp", "add", "notes", "--", "npx", "-y", "@desk/notes", "You said"];
    let refused = scenario.run(&add);
    assert_eq!(refused.code, Some(3), "{refused}");
    assert!(refused.stderr.contains(&format!("--grant {}", network(&registry))), "{refused}");
    assert!(registry.asked().is_empty(), "nothing is asked for without a grant");

    let grant = network(&registry);
    let added = done(scenario.run(&[&add[..3], &["--grant", &grant], &add[3..]].concat()));
    let command = "process=npm:@desk/notes@1.2.3 notes-server 'You said'";
    assert!(added.stderr.contains("npm:@desk/notes@1.2.3 notes-server"), "{added}");
    let manifest = scenario.read("project.yaml").expect("the manifest");
    let package = json!({
        "package": "npm:@desk/notes@1.2.3", "integrity": hash, "command": "notes-server", "args": ["You said"],
    });
    for value in ["npm:@desk/notes@1.2.3", &hash, "notes-server"] {
        assert!(manifest.contains(value), "{package}: {manifest}");
    }
    let packages = scenario.home().join("home/.llm-do/mcp/packages");
    assert!(!holds(&packages, "was-run"), "no script of a package runs");
    assert!(holds(&packages, "server.js"));
    let asked = registry.asked().len();

    done(scenario.run(&["check"]));
    let inspected = done(scenario.run(&["mcp", "inspect", "notes", "--grant", command]));
    assert!(inspected.stdout.contains("notes:echo"), "{inspected}");
    done(scenario.run(&[".", "--grant", command, "--allow", "notes:*"]));
    assert_eq!(outputs(&scenario), ["You said hello"]);
    assert_no_process_is_left(&scenario);
    assert_eq!(registry.asked().len(), asked, "a run asks no registry");

    // What is installed is left as it is.
    done(scenario.run(&["mcp", "install"]));
    assert_eq!(registry.asked().len(), asked);
}

#[test]
fn another_machine_installs_the_packages_of_a_project_with_one_command() {
    if tools().is_none() {
        return;
    }
    let (registry, hash) = npm();
    let manifest = |hash: &str| {
        format!(
            "mcp_servers:\n  notes: {{package: \"npm:@desk/notes@1.2.3\", integrity: {hash}, command: notes-server, args: [Hm]}}\n"
        )
    };
    let scenario = project(&registry).file("project.yaml", &manifest(&hash));
    let command = "process=npm:@desk/notes@1.2.3 notes-server Hm";
    let run = [".", "--grant", command, "--allow", "notes:*"];
    for arguments in [&["check"][..], &run] {
        let told = scenario.run(arguments);
        assert_eq!(told.code, Some(2), "{told}");
        let says = format!("{told}");
        assert!(says.contains("llm-do mcp install npm:@desk/notes@1.2.3 --integrity sha512-"), "{says}");
    }
    let install = ["mcp", "install", "--grant", &network(&registry)];
    done(scenario.run(&install));
    done(scenario.run(&["check"]));
    done(scenario.run(&run));
    assert_eq!(outputs(&scenario), ["Hm hello"]);

    // An archive with another content is not installed, and one that is installed is not used.
    let other = "sha512-AAAA";
    let scenario = scenario.file("project.yaml", &manifest(other));
    let told = scenario.run(&["check"]);
    assert!(told.code == Some(2) && format!("{told}").contains("another content"), "{told}");
    let fresh = project(&registry).file("project.yaml", &manifest(other));
    let told = fresh.run(&install);
    assert_eq!(told.code, Some(1), "{told}");
    assert!(told.stderr.contains(other) && told.stderr.contains(&hash), "{told}");
    assert_eq!(installed(&fresh), Vec::<String>::new());

    let missing = fresh.run(&["mcp", "install", "npm:@desk/other@1.0.0", "--grant", &network(&registry)]);
    assert_eq!(missing.code, Some(1), "{missing}");
    assert!(missing.stderr.contains("404"), "{missing}");
    assert_eq!(installed(&fresh), Vec::<String>::new());
    assert_eq!(fresh.read("project.yaml"), Some(manifest(other)));
}

#[test]
fn a_package_of_pypi_is_installed_and_started() {
    if tools().is_none() {
        return;
    }
    let registry = pypi();
    let theirs =
        json!({"mcpServers": {"notes": {"command": "uvx", "args": ["desk-notes", "described-not"]}}});
    let scenario = project(&registry).file("mcp.json", &theirs.to_string());
    let added = done(scenario.run(&["mcp", "add", "--from", "mcp.json", "--grant", &network(&registry)]));
    let command = "process=pypi:desk-notes@2.0.1 notes-server described-not";
    assert!(added.stderr.contains(&format!("--grant '{command}'")), "{added}");
    assert!(scenario.read("project.yaml").is_some_and(|manifest| manifest.contains("sha256:")), "{added}");
    done(scenario.run(&["check"]));
    done(scenario.run(&["mcp", "inspect", "notes", "--grant", command]));
    done(scenario.run(&[".", "--grant", command, "--allow", "notes:*"]));
    assert_eq!(outputs(&scenario), ["hello"]);
    assert_no_process_is_left(&scenario);
}

#[test]
fn the_users_configuration_of_npm_and_pip_names_the_registries() {
    if tools().is_none() {
        return;
    }
    let ((npm, _), pypi, scoped) = (npm(), pypi(), RemoteServer::new(|_| Some(status(404, ""))));
    let add = |scenario: &Scenario, name: &str, words: &[&str], registries: &[&RemoteServer]| {
        let add = ["mcp", "add", name];
        let mut ports: Vec<u16> = registries.iter().map(|registry| registry.port).collect();
        ports.sort_unstable();
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let grant = &format!("network={}", hosts.join(","));
        let refused = scenario.run(&[&add[..], &["--"], words].concat());
        assert_eq!(refused.code, Some(3), "{refused}");
        assert!(refused.stderr.contains(&format!("--grant {grant}")), "{refused}");
        scenario.run(&[&add[..], &["--grant", grant, "--"], words].concat())
    };
    let scenario = unconfigured();
    configure(&scenario, ".npmrc", &format!("registry={}/\n", address(&npm)));
    configure(
        &scenario,
        ".config/pip/pip.conf",
        &format!("[global]\nindex-url = {}/simple\n", address(&pypi)),
    );
    done(add(&scenario, "notes", &["npx", "@desk/notes", "You said"], &[&npm]));
    done(add(&scenario, "more", &["uvx", "desk-notes"], &[&pypi]));

    // A scope has a registry of its own. What a project's file says does not count.
    let scenario = unconfigured().file(".npmrc", "registry=http://attacker.example/\n");
    let of_scope = format!("registry={}/\n@desk:registry={}/\n", address(&scoped), address(&npm));
    configure(&scenario, ".npmrc", &of_scope);
    done(add(&scenario, "notes", &["npx", "@desk/notes", "You said"], &[&scoped, &npm]));
    assert_eq!(scoped.asked().len(), 0, "the package is in the registry of its scope");

    let scenario = unconfigured();
    configure(&scenario, ".npmrc", "registry=file:///etc\n");
    let refused = scenario.run(&["mcp", "add", "notes", "--", "npx", "@desk/notes"]);
    assert_eq!(refused.code, Some(2), "{refused}");
    assert!(refused.stderr.contains("npm names no registry"), "{refused}");
}

#[test]
fn without_a_configuration_the_tools_name_their_own_registries() {
    if tools().is_none() {
        return;
    }
    let scenario = unconfigured();
    let hosts = |program: &str, arguments: &[&str]| -> Vec<String> {
        let said = ran(scenario.command_of(Path::new(program)).args(arguments));
        said.split_whitespace().map(|word| word.split('/').nth(2).unwrap_or(word).to_owned()).collect()
    };
    let pip = "from pip._internal.models.index import PyPI; print(PyPI.simple_url, PyPI.file_storage_domain)";
    for (words, hosts) in [
        (["npx", "@desk/notes"], hosts("/usr/bin/npm", &["config", "get", "registry"])),
        (["uvx", "desk-notes"], hosts("/usr/bin/python3", &["-c", pip])),
    ] {
        let refused = scenario.run(&[&["mcp", "add", "notes", "--"][..], &words].concat());
        assert_eq!(refused.code, Some(3), "{refused}");
        assert!(refused.stderr.contains("--grant network="), "{refused}");
        for host in hosts {
            assert!(refused.stderr.contains(&host), "{host}: {refused}");
        }
    }
}

#[test]
fn a_server_without_its_package_is_refused() {
    let of = |server: Value| {
        let worker = json!({"model": "script:s.yaml", "toolsets": {"mcp": {"servers": {"notes": server}}}});
        Scenario::new()
            .file("main.worker", &format!("---\n{worker}\n---\nGo.\n"))
            .file("npm:notes@1.0.0", "#!/bin/sh\n")
            .file("s.yaml", "answers: [{text: done}]\n")
    };
    for (server, says) in [
        (json!({"package": "npm:notes@1.0.0", "command": "notes"}), "llm-do mcp install npm:notes@1.0.0"),
        // Its command line would be that of the package.
        (json!({"command": "npm:notes@1.0.0", "args": ["notes"]}), "under `package`"),
        (json!({"package": "npm:notes@latest", "command": "notes"}), "package"),
        (json!({"integrity": "sha512-AAAA", "command": "notes"}), "integrity"),
    ] {
        let scenario = of(server.clone());
        for arguments in [&["check"][..], &[".", "--grant", "process=npm:notes@1.0.0 notes"]] {
            let told = scenario.run(arguments);
            assert_eq!(told.code, Some(2), "{server}: {told}");
            assert!(format!("{told}").contains(says), "{says}: {told}");
        }
    }
    let fetched = Scenario::new().file("project.yaml", "name: a\n");
    let told = fetched.run(&["mcp", "add", "notes", "--", "npx", "--registry", "http://a.example", "notes"]);
    assert!(told.code == Some(2) && told.stderr.contains("--registry"), "{told}");
}
