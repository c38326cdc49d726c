//! Tools with a list of domains: what they can reach, and the errors for everything else.

use super::fixture::{call, failure, has_python, holds, output, run, script, succeed};
use crate::scenario::Scenario;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

const TOOLS: &str = "\
import socket, subprocess, sys, urllib.request

def fetch(url: str) -> str:
    return urllib.request.urlopen(url, timeout=60).read().decode()

def fetch_or_not(url: str) -> str:
    try:
        return fetch(url)
    except OSError:
        return 'nothing'

def dial(host: str, port: int) -> str:
    socket.create_connection((host, port), timeout=10)
    return 'connected'

def resolve(name: str) -> str:
    return str(socket.getaddrinfo(name, 443))

def ask_a_name_server() -> str:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    return 'a socket'

def child_dials(port: int) -> str:
    code = f\"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=10)\"
    return 'no' if subprocess.run([sys.executable, '-c', code], env={}).returncode else 'connected'
";

/// A local server that answers every request with `hello`, and its number of connections.
fn server() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let came = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&came);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || greet(stream));
        }
    });
    (port, came)
}

fn greet(mut stream: TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().expect("a copy")).lines();
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
}

fn scenario(list: &str, calls: &[Value]) -> Scenario {
    let worker = format!(
        "---\nmodel: script:s.yaml\ntoolsets: [custom]\nsandbox: {{network_enabled: [{list}]}}\n---\nGo.\n"
    );
    Scenario::new().file("main.worker", &worker).file("tools.py", TOOLS).file("s.yaml", &script(calls))
}

fn fetch(url: &str) -> Value {
    json!({"tool": "fetch", "arguments": {"url": url}})
}

const ALL: [&str; 3] = [".", "--approval", "approve_all"];

#[test]
fn tools_reach_only_listed_and_granted_domains() {
    if !has_python() {
        return;
    }
    let ((port, came), (other, never)) = (server(), server());
    let calls = [
        fetch(&format!("http://127.0.0.1:{port}/")),
        fetch(&format!("http://127.0.0.1:{other}/")),
        fetch("http://granted.example/"),
        fetch("https://x.example.org/"),
        json!({"tool": "dial", "arguments": {"host": "127.0.0.1", "port": port}}),
        json!({"tool": "dial", "arguments": {"host": "1.1.1.1", "port": 443}}),
        json!({"tool": "dial", "arguments": {"host": "::1", "port": port}}),
        json!({"tool": "resolve", "arguments": {"name": "example.org"}}),
        call("ask_a_name_server"),
        json!({"tool": "child_dials", "arguments": {"port": other}}),
        fetch(&format!("http://127.0.0.1:{port}/again")),
    ];
    let scenario = scenario(&format!("\"127.0.0.1:{port}\", example.org"), &calls);
    let grants = [
        format!("network=127.0.0.1:{port}"),
        "network=granted.example".to_owned(),
        "network=example.org".to_owned(),
    ];
    let granted: Vec<&str> =
        ALL.into_iter().chain(grants.iter().flat_map(|grant| ["--grant", grant.as_str()])).collect();
    succeed(&scenario, &granted);
    assert_eq!(output(&scenario, "0/0.0"), "hello");
    let missing = |entry: &str| {
        [
            format!("`{entry}` is not on the list of this worker's `sandbox.network_enabled`"),
            format!("grant `network={entry}`"),
        ]
    };
    for (path, entry) in [
        ("0/1.0", format!("127.0.0.1:{other}")),
        ("0/2.0", "granted.example".to_owned()),
        ("0/3.0", "x.example.org".to_owned()),
    ] {
        let [reason, way] = missing(&entry);
        holds(&failure(&scenario, path), &[&reason, &way]);
    }
    for path in ["0/4.0", "0/5.0", "0/6.0", "0/7.0", "0/8.0"] {
        holds(&failure(&scenario, path), &["HTTPS_PROXY", "network_enabled: true"]);
    }
    assert_eq!(output(&scenario, "0/9.0"), "no");
    assert_eq!(output(&scenario, "0/10.0"), "hello");
    assert_eq!((came.load(Ordering::SeqCst), never.load(Ordering::SeqCst)), (2, 0));
}

#[test]
fn domain_list_needs_a_grant_and_a_network_grant_does_not_widen_it() {
    if !has_python() {
        return;
    }
    let ((port, _came), (other, never)) = (server(), server());
    let calls = [fetch(&format!("http://localhost:{port}/")), fetch(&format!("http://localhost:{other}/"))];
    let scenario = scenario(&format!("\"localhost:{port}\", \"*.example.org\""), &calls);
    let told = run(&scenario, &ALL);
    assert_eq!(told.code, Some(3), "{told}");
    holds(&told.stderr, &[&format!("--grant 'network=localhost:{port},*.example.org'")]);
    succeed(&scenario, &[&ALL[..], &["--grant", "network"]].concat());
    assert_eq!(output(&scenario, "0/0.0"), "hello");
    holds(&failure(&scenario, "0/1.0"), &[&format!("`localhost:{other}` is not on the list")]);
    assert_eq!(never.load(Ordering::SeqCst), 0);
}

#[test]
fn failure_names_only_refusals_of_its_own_call() {
    if !has_python() {
        return;
    }
    let calls = [
        json!({"tool": "fetch_or_not", "arguments": {"url": "http://first.example/"}}),
        fetch("http://second.example/"),
        fetch("not a URL"),
    ];
    let scenario = scenario("example.org", &calls);
    succeed(&scenario, &[&ALL[..], &["--grant", "network=example.org"]].concat());
    assert_eq!(output(&scenario, "0/0.0"), "nothing");
    let told = failure(&scenario, "0/1.0");
    holds(&told, &["second.example"]);
    assert!(!told.contains("first.example"), "{told}");
    let told = failure(&scenario, "0/2.0");
    assert!(!told.contains("Refused by the network"), "{told}");
}
