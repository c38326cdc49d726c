//! The portable packages use neither files, processes, sockets, threads, clocks nor a runtime of the operating system.
//! Clippy's lists (`clippy.toml`) name functions one by one; this test refuses the modules as a whole.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]
#![allow(clippy::disallowed_methods, reason = "the test reads sources")]

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The packages that no platform is needed for. The front end is portable, too, but has a tree on disk for those that
/// have one; `.ci/wasm` compiles all of them.
const PORTABLE: &[&str] = &["core", "host", "records", "wire"];

/// The modules of the standard library that stand for a platform. Addresses are plain data, so `net` is not among them.
const REFUSED: &[&str] = &["fs", "process", "thread", "env", "os"];
/// The types that open sockets.
const SOCKETS: &[&str] = &["TcpStream", "TcpListener", "UdpSocket", "ToSocketAddrs"];
/// The packages that stand for a platform.
const RUNTIMES: &[&str] = &["tokio", "async_std", "smol", "mio", "hyper", "reqwest", "rustix", "libc"];

/// Returns the part of a file that is compiled into the package, without comments.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the names directly below `std` that a file uses, and the packages.
fn used(text: &str) -> Vec<String> {
    let code = code(text);
    let mut found = Vec::new();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for (at, _) in code.match_indices("std::") {
        let before = code[..at].strip_suffix("::").unwrap_or(&code[..at]);
        if before.ends_with(is_name) {
            continue;
        }
        let rest = code[at + "std::".len()..].trim_start();
        let Some(group) = rest.strip_prefix('{') else {
            found.push(rest.split(|c: char| !is_name(c)).next().unwrap_or_default().to_owned());
            continue;
        };
        let mut depth = 1;
        let mut name = String::new();
        for c in group.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            let is_end = depth == 0 || (depth == 1 && c == ',');
            if is_end {
                found.push(name.split(|c: char| !is_name(c)).next().unwrap_or_default().to_owned());
                name.clear();
            } else if !(name.is_empty() && c.is_whitespace()) {
                name.push(c);
            }
            if depth == 0 {
                break;
            }
        }
    }
    found.retain(|name| REFUSED.contains(&name.as_str()));
    let packages = RUNTIMES.iter().filter(|package| {
        code.match_indices(&format!("{package}::")).any(|(at, _)| !code[..at].ends_with(is_name))
    });
    let words = || code.split(|c: char| !is_name(c));
    let sockets = SOCKETS.iter().filter(|socket| words().any(|word| word == **socket));
    found.extend(packages.chain(sockets).map(ToString::to_string));
    found
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_test {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
            found.push(path);
        }
    }
}

#[test]
fn portable_packages_use_no_platform() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    PORTABLE.iter().for_each(|package| sources(&crates.join(package).join("src"), &mut files));
    assert!(files.len() > 200, "{}", files.len());
    let wrong: Vec<String> = files
        .iter()
        .filter_map(|file| {
            let used = used(&fs::read_to_string(file).unwrap());
            (!used.is_empty()).then(|| format!("{}: {}", file.display(), used.join(", ")))
        })
        .collect();
    assert!(wrong.is_empty(), "these are ports (docs/architecture.md):\n{}", wrong.join("\n"));
}

#[test]
fn every_way_to_name_a_platform_is_found() {
    for text in [
        "use std::fs;",
        "use std::{collections::{BTreeMap, HashMap}, fs, io};",
        "use std::{\n    fs::File,\n};",
        "fn f() { std::process::exit(1) }",
        "use std::{io, net::TcpStream as Stream};",
        "fn f() { ::std::thread::yield_now() }",
        "use tokio::sync::Mutex;",
    ] {
        assert_eq!(used(text).len(), 1, "{text}");
    }
    for text in [
        "use std::{collections::{fs, BTreeMap}, io};",
        "// std::fs\nuse std::io;",
        "use std::io;\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}",
        "fn f() { my_std::fs::read() }",
        "use my_tokio::x;",
    ] {
        assert_eq!(used(text), Vec::<String>::new(), "{text}");
    }
}
