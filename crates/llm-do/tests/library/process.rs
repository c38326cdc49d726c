//! The library leaves the process alone: no state, no output, no signal handler, no end.

use crate::Folder;
use llm_do::{Options, Tool};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Calls that only the process itself may make.
const FORBIDDEN: [&str; 12] = [
    "process::exit",
    "process::abort",
    "println!",
    "eprintln!",
    " print!",
    "set_var(",
    "remove_var(",
    "set_current_dir",
    "set_hook",
    "signal_hook",
    "sigaction",
    "static mut",
];

/// The places in the crates that make up the library where such a word has another meaning.
///
/// The supervisor of a confined process is a process of its own, which [`llm_do::host::confine::install`] turns into.
const ELSEWHERE: [&str; 1] = ["sandbox/src/confine/"];

/// State that lives as long as the process. Each is computed once, from what can't change while the process lives.
const STATICS: [(&str, &str); 4] = [
    ("sandbox/src/confine.rs", "BINARY"),
    ("sandbox/src/confine/probe.rs", "PROBE"),
    ("core/src/gate/session.rs", "NONE"),
    ("core/src/engine/frame.rs", "NONE"),
];

fn sources(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|ending| ending == "rs") && !path.ends_with("tests.rs") {
            out.push(path);
        }
    }
}

#[test]
fn the_source_does_nothing_that_belongs_to_the_process() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let mut files = Vec::new();
    for name in
        ["core", "llm-do", "macros", "mcp", "models", "program", "python", "records", "runs", "sandbox"]
    {
        sources(&crates.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 300, "the sources are gone");
    let mut found = Vec::new();
    for file in files {
        let shown = file.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for line in code.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
            let forbidden = FORBIDDEN.iter().find(|word| line.contains(*word));
            if let Some(word) = forbidden.filter(|_| !ELSEWHERE.iter().any(|place| shown.starts_with(place)))
            {
                found.push(format!("{shown}: `{word}`"));
            }
            // A `LazyLock` of a constant, and one thread's own, are no state that calls share.
            let shares = ["OnceLock", "Mutex", "RwLock", "Atomic"].iter().any(|kind| line.contains(kind));
            let name = line.split("static ").nth(1).and_then(|rest| rest.split(':').next());
            let known = |name: &str| STATICS.contains(&(&*shown, name));
            if let Some(name) = name.filter(|name| shares && line.contains(": ") && !known(name)) {
                found.push(format!("{shown}: the static `{name}`"));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

/// The signals that this process handles.
fn handled() -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    Some(line.trim().to_owned())
}

#[tokio::test]
async fn a_run_changes_nothing_about_signals_folder_or_environment() {
    let folder = Folder::of("toolsets: {filesystem: {}, rust: {}}");
    let look = || (handled(), std::env::current_dir().unwrap(), std::env::vars_os().count());
    let before = look();
    let script = "
answers:
  - when: {turn: 0}
    calls: [{tool: write_file, arguments: {path: a.txt, content: a}}, {tool: look}]
  - text: done
";
    let look_in_run =
        Tool::new("look", "Looks.", |_: llm_do::NoArguments| async { Ok::<_, String>(handled()) });
    let options = Options::new().allow("write_file").allow("look");
    let program =
        folder.builder(script).tool(look_in_run).options(options).temporary_journals().open().unwrap();
    let mut events = program.entry().unwrap().call("x").stream().unwrap();
    while events.next().await.is_some() {
        assert_eq!(look(), before);
    }
    assert_eq!(events.result().await.unwrap().output, "done");
}

#[tokio::test]
async fn programs_of_one_process_know_nothing_of_each_other() {
    let (one, two) = (Folder::of("toolsets: [rust]"), Folder::of("toolsets: [rust]"));
    let script = "answers: [{when: {turn: 0}, calls: [{tool: who}]}, {text: '{{ last }}'}]";
    let open = |folder: &Folder, name: &'static str, options: Options| {
        let who =
            Tool::new("who", "Who.", move |_: llm_do::NoArguments| async move { Ok::<_, String>(name) });
        folder.builder(script).tool(who).options(options).temporary_journals().open().unwrap()
    };
    let allowed = open(&one, "one", Options::new().allow("who"));
    let refused = open(&two, "two", Options::new());
    let (first, second) = (allowed.entry().unwrap(), refused.entry().unwrap());
    let (first, second) = tokio::join!(first.call("x"), second.call("x").into_future());
    assert_eq!(first.unwrap(), "one");
    assert!(!second.unwrap().as_str().unwrap().contains("two"));
}
