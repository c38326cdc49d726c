//! The flow of untrusted content in small programs.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod stand_in;

use llm_do_core::authority::Place;
use llm_do_program::{
    LoadOptions, Report, Source, Start, check_whole,
    flow::{self, Flow},
    source::MemoryTree,
};
use serde_json::json;
use stand_in::Reader;
use std::sync::Arc;

fn flow_of(files: &[(&str, &str)]) -> Flow {
    let tree = MemoryTree::new(Place::new("/p"), files.iter().copied());
    let source = Source { tree: Arc::new(tree), start: Start::Entry(None), manifest: true, work: None };
    let code = Arc::new(Reader::of("/p", files.iter().copied()));
    let host = LoadOptions { toolsets: stand_in::registry(), code: Some(code), ..LoadOptions::default() };
    let Report { found, flow, .. } = check_whole(source, host);
    let errors: Vec<_> = found.iter().filter(|finding| finding.is_error()).collect();
    assert!(errors.is_empty(), "{errors:?}");
    flow
}

const TOOLS: (&str, &str) = ("tools.py", "@tool(risk=\"network\")\ndef send(to: str) -> None:\n    pass\n");
const MAILS: (&str, &str) = ("mails/1.txt", "Hello");
const NOTES: (&str, &str) = ("notes/1.txt", "x");
const MAIN: (&str, &str) =
    ("main.worker", "---\nallow_workers: [reader]\nsandbox: {paths: {notes: ./notes}}\n---\nX\n");

/// Returns a worker that reads mails and has no Python functions.
fn reader(returns: &str) -> String {
    format!(
        "---\nsandbox: {{paths: {{mails: {{root: ./mails, untrusted: true}}}}}}\n\
         toolsets: {{filesystem: {{tools: [read_file]}}, custom: {{tools: []}}}}\n{returns}---\nX\n"
    )
}

fn names(flow: &Flow) -> Vec<&str> {
    flow.workers.iter().map(|worker| &*worker.worker).collect()
}

#[test]
fn without_untrusted_content_there_is_nothing() {
    let main = "---\ntoolsets: [filesystem]\n---\nX\n";
    let files =
        [("project.yaml", "sandbox: {paths: {notes: ./notes}}\n"), ("main.worker", main), TOOLS, NOTES];
    assert!(flow_of(&files).workers.is_empty());
}

#[test]
fn an_output_with_room_carries_content_to_the_caller() {
    let untyped = reader("returns: {summary: string, n: integer}\n");
    let files = [MAIN, ("workers/reader.worker", untyped.as_str()), TOOLS, MAILS, NOTES];
    let flow = flow_of(&files);
    assert_eq!(
        flow::text(&flow),
        "\
main
  untrusted content that reaches it:
    a file in `/mails` (workers/reader.worker:2)
      `reader` can read it; `main` gets the output of `reader`
  effects that it could steer:
    `send` (network) (tools.py:2)
  to keep the content away:
    give `reader` a `returns` without room for instructions: `summary` leaves some (workers/reader.worker:4)

reader
  untrusted content that reaches it:
    a file in `/mails` (workers/reader.worker:2)
      `reader` can read it
  effects that it could steer: none
"
    );
    let json = flow::to_json(&flow);
    assert_eq!(
        json.pointer("/workers/0/sources/0/steps/0"),
        Some(&json!({"from": "reader", "to": "main", "through": "output"}))
    );
    assert_eq!(
        json.pointer("/workers/0/cuts/0"),
        Some(&json!({
            "kind": "output",
            "worker": "reader",
            "fields": ["summary"],
            "place": {"file": "workers/reader.worker", "line": 4, "column": 1},
        }))
    );

    let typed = reader("returns: {summary: {type: string, clean: true, maxLength: 80}, n: integer}\n");
    let files = [MAIN, ("workers/reader.worker", typed.as_str()), TOOLS, MAILS, NOTES];
    assert_eq!(names(&flow_of(&files)), ["reader"]);
}

#[test]
fn callees_get_what_their_caller_has_read() {
    let main = reader("allow_workers: [sender]\n");
    let sender = "---\nsandbox: {paths: {notes: ./notes}}\n---\nX\n";
    let files = [("main.worker", main.as_str()), ("workers/sender.worker", sender), TOOLS, MAILS, NOTES];
    let flow = flow_of(&files);
    assert_eq!(names(&flow), ["main", "sender"]);
    let shown = flow::text(&flow);
    assert!(shown.contains("`main` can read it; `sender` gets its input from `main`"), "{shown}");
    assert!(shown.contains("move the reading out of `main`"), "{shown}");
}

#[test]
fn files_carry_content_between_workers() {
    let main = "---\nallow_workers: [reader, later]\nsandbox: {paths: {notes: ./notes}}\n---\nX\n";
    let copier = "---\nsandbox:\n  paths:\n    mails: {root: ./mails, untrusted: true}\n    out: {root: ./shared, mode: rw}\n\
                  toolsets: {filesystem: {}, custom: {tools: []}}\nreturns: boolean\n---\nX\n";
    let later =
        "---\nsandbox: {paths: {in: ./shared/new}}\ntoolsets: [filesystem]\nreturns: boolean\n---\nX\n";
    let files = [
        ("main.worker", main),
        ("workers/reader.worker", copier),
        ("workers/later.worker", later),
        TOOLS,
        MAILS,
        NOTES,
        ("shared/new/1.txt", "x"),
    ];
    let flow = flow_of(&files);
    assert_eq!(names(&flow), ["later", "reader"]);
    let shown = flow::text(&flow);
    assert!(shown.contains("`reader` can read it; `later` can read what `reader` writes"), "{shown}");
}

#[test]
fn files_that_a_caller_hands_over_are_sources_of_the_callee() {
    let main = "---\nallow_workers: [filer]\nsandbox: {paths: {mails: {root: ./mails, untrusted: true}}}\ntoolsets: {custom: {tools: []}}\n---\nX\n";
    let filer = "---\nparameters: {mail: path}\nsandbox: {read: ['${mail}']}\ntoolsets: [filesystem]\nreturns: boolean\n---\nX\n";
    let files = [("main.worker", main), ("workers/filer.worker", filer), TOOLS, MAILS];
    let flow = flow_of(&files);
    assert_eq!(names(&flow), ["filer"]);
    assert!(flow::text(&flow).contains("`main` can hand it to `filer`"));
}

#[test]
fn a_folder_that_contains_untrusted_files_is_a_source_too() {
    let main = "---\nallow_workers: [reader]\nsandbox: {paths: {all: .}}\ntoolsets: [filesystem]\n---\nX\n";
    let typed = reader("returns: integer\n");
    let files = [("main.worker", main), ("workers/reader.worker", typed.as_str()), MAILS, NOTES];
    let shown = flow::text(&flow_of(&files));
    assert!(shown.contains("a file in `/all` (main.worker:3)\n      `main` can read it"), "{shown}");
}

#[test]
fn declarations_are_sources() {
    let main = "---\nparameters:\n  page: {type: string, untrusted: true}\nattachment_policy: {untrusted: true}\n---\n{{ page }}\n";
    let tools = "@tool(untrusted=True)\ndef fetch(url: str) -> str:\n    pass\n";
    let shown = flow::text(&flow_of(&[("main.worker", main), ("tools.py", tools)]));
    for line in [
        "the parameter `page` (main.worker:3)",
        "an attachment (main.worker:4)",
        "a result of `fetch` (tools.py:2)",
        "`main` can call it (declared untrusted)",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn the_work_grows_with_the_program() {
    // Each worker may call every other: 360,000 calls.
    let one =
        "---\nparameters: {page: {type: string, untrusted: true}}\nallow_workers: ['*']\n---\n{{ page }}\n";
    let files: Vec<(String, &str)> = (0..600).map(|i| (format!("workers/w{i}.worker"), one)).collect();
    let mut files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    files.push(("main.worker", one));
    let flow = flow_of(&files);
    assert_eq!(flow.workers.len(), 601);
    assert!(flow.workers.iter().all(|worker| worker.sources.len() == 8));
}
