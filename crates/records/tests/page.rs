//! The page of a run without the web app, read and in a real browser. `LLM_DO_TEST_CHROMIUM` names a Chromium (`.ci/run`
//! installs one). The page with the app is tested in `web/test`.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test starts a browser")]

use llm_do_records::{Journal, WholeRun, page};
use serde_json::{Value, json};
use std::{collections::HashMap, env, fs, path::Path, process::Command};

const RUN: &str = "20261121-221530-4f2a";

/// Texts that could get out of a text, an attribute, a script or a style, and would then leave a mark on the page.
const ATTACK: &str = concat!(
    "</script></style></title></pre></details>--><script>document.documentElement.dataset.pwned=1</script>",
    "<img src=x onerror=document.documentElement.dataset.pwned=1>",
    "<svg onload=document.documentElement.dataset.pwned=1>",
    "\"><b onmouseover='x' autofocus onfocus=document.documentElement.dataset.pwned=1 tabindex=0>' `",
    "<a href=\"javascript:document.documentElement.dataset.pwned=1\">x</a>",
    "<meta http-equiv=refresh content=\"0;url=data:text/html,x\"><base href=//example.org>",
);

/// Makes a run of these records.
fn run_of(records: Vec<Value>) -> WholeRun {
    let lines: String = records
        .into_iter()
        .enumerate()
        .map(|(seq, mut record)| {
            record["seq"] = seq.into();
            record["at_ms"] = (1_795_299_330_000_u64 + 250 * seq as u64).into();
            format!("{record}\n")
        })
        .collect();
    let journal = Journal::parse(lines.as_bytes(), &HashMap::new()).unwrap();
    WholeRun::of(RUN, journal, false)
}

/// Makes a run in which this text stands in every place that a model, a document, a tool or an operator can fill.
fn full_of(text: &str) -> WholeRun {
    let call = |path: &str, function: &str| {
        json!({"path": path, "step": "call", "kind": "call_started", "function": function, "source": {"library": text},
               "principal": {"tool": {"tool": text, "worker": text}}, "input": {text: [text, 1], "path": text}})
    };
    run_of(vec![
        json!({"path": "0", "step": "run", "kind": "run_started", "format": 2, "run": RUN, "version": text,
               "target": text, "entry": text, "approval": "interactive", "date": "2026-11-21",
               "definitions": [{"worker": text, "file": text, "sha256": text, "text": text}],
               "runtimes": [{"name": text, "version": text, "path": text, "confinement": text}]}),
        call("0", text),
        json!({"path": "0", "step": "verdict", "kind": "verdict", "rule": "preApproved", "by": {"rule": {"origin": text}}}),
        json!({"path": "0", "step": "conversation", "kind": "conversation_started", "worker": text, "model": "script:a\"<b>",
               "system": text, "tools": [{"name": text, "description": text, "input": {"type": text}}],
               "can": {"native_schema": false, "tools": true},
               "output": {"title": text}, "final_tool": false, "can_read_on": false,
               "message": {"id": 0, "role": "user", "parts": [
                   {"part": "text", "text": text},
                   {"part": "blob", "name": text, "media_type": text, "data": "aGVsbG8="},
                   {"part": "blob", "name": text, "media_type": "image/svg+xml", "data": "PHN2Zy8+"},
                   {"part": "blob", "name": text, "media_type": "image/gif",
                    "data": "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"}]}}),
        json!({"path": "0", "step": "model.0.0", "kind": "model_requested", "turn": 0, "attempt": 0, "head": 0, "digest": "d"}),
        json!({"path": "0", "step": "model.0.0", "kind": "model_failed", "error": {"kind": "server", "message": text}}),
        json!({"path": "0", "step": "wait.0.0", "kind": "slept", "ms": 100}),
        json!({"path": "0", "step": "model.0.1", "kind": "model_requested", "turn": 0, "attempt": 1, "head": 0, "digest": "d"}),
        json!({"path": "0", "step": "model.0.1", "kind": "model_answered", "finish": "tool_calls",
               "usage": {"input_tokens": 1640, "cached_tokens": 512, "output_tokens": 80},
               "message": {"id": 1, "parent": 0, "role": "assistant", "parts": [
                   {"part": "reasoning", "text": text}, {"part": "text", "text": text},
                   {"part": "opaque", "provider": text, "value": text},
                   {"part": "call", "id": "a", "name": text, "arguments": {"json": {text: text}}},
                   {"part": "call", "id": "b", "name": text, "arguments": {"invalid": {"text": text, "reason": text}}}]}}),
        call("0/0.0", "write_file"),
        json!({"path": "0/0.0", "step": "links", "kind": "links_followed", "places": [text]}),
        json!({"path": "0/0.0", "step": "rule", "kind": "rule_stated", "rule": "ask", "reason": text}),
        json!({"path": "0/0.0", "step": "check", "kind": "checked", "bounds": {"callees": [{"name": text, "most": 2}]}}),
        json!({"path": "0/0.0", "step": "check.1", "kind": "checked", "failure": {"kind": "invalid_input", "message": text}}),
        json!({"path": "0/0.0", "step": "ask", "kind": "asked", "calls": {"callees": [{"name": text, "most": 2}]}, "question": "approval", "chain": [text], "function": text,
               "risk": "write", "input": {}, "rule": {"rule": {"origin": text}},
               "preview": {"preview": "change", "path": text, "before": format!("one\n{text}\nthree\n"), "after": "one\ntwo\nthree"}}),
        json!({"path": "0/0.0", "step": "ask", "kind": "answered", "answer": "deny", "reason": text, "by": text, "via": text}),
        json!({"path": "0/0.0", "step": "verdict", "kind": "verdict", "rule": "blocked", "by": {"operator": {"by": text, "via": text}}, "reason": text}),
        json!({"path": "0/0.0", "step": "end", "kind": "call_ended",
               "ending": {"failure": {"kind": "denied", "message": text, "partial": {text: text}}}}),
        // A place that no llm-do writes.
        call(&format!("0/{text}"), "doctored"),
        call("0/1.0", "run_it"),
        json!({"path": "0/1.0", "step": "tool", "kind": "tool_started", "function": text, "risk": "exec", "idempotency_key": text}),
        json!({"path": "0/1.0", "step": "tool", "kind": "tool_ended", "log": text, "ending": {"output": {text: [text]}},
               "blobs": [{"name": text, "media_type": "text/html", "data": "aGVsbG8="}]}),
        json!({"path": "0", "step": "repair.1", "kind": "message_added",
               "message": {"id": 3, "role": "user", "parts": [{"part": "text", "text": text}]}}),
        json!({"path": "0", "step": "note", "kind": "note", "text": text}),
        json!({"path": "0", "step": "limit", "kind": "limit", "what": text}),
        json!({"path": "0", "step": "end", "kind": "call_ended", "ending": {"output": {text: text}}}),
        json!({"path": "0", "step": "run", "kind": "run_ended", "status": "done", "ending": {"output": {text: text}}}),
    ])
}

/// Returns the elements of a page, without their contents.
fn tags(page: &str) -> Vec<&str> {
    page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()).collect()
}

#[test]
fn nothing_that_was_written_in_a_run_is_markup() {
    let attacked = page(&full_of(ATTACK), None);
    let harmless = page(&full_of("harmless"), None);
    assert_eq!(tags(&attacked), tags(&harmless));
    assert!(attacked.contains("&lt;svg onload=document.documentElement.dataset.pwned=1&gt;"));
    assert!(attacked.contains("default-src 'none'"));
}

#[test]
fn the_page_of_text_tells_everything() {
    let page = page(&full_of("needle"), None);
    assert!(page.matches("needle").count() >= 60, "{page}");
    assert!(page.contains("run_it") && page.contains("write_file"), "{page}");
}

#[test]
fn a_run_that_was_cut_off_and_a_deep_one_have_pages() {
    let started = json!({"path": "0", "step": "run", "kind": "run_started", "format": 2, "run": RUN, "version": "1",
                         "target": ".", "entry": "main", "approval": "defer", "date": "d", "definitions": []});
    let call = |path: &str| {
        json!({"path": path, "step": "call", "kind": "call_started", "function": "again", "source": "program",
               "principal": "operator", "input": {}})
    };
    assert!(page(&run_of(vec![started.clone()]), None).contains("cut off"));
    let mut records = vec![started];
    let mut path = "0".to_owned();
    for _ in 0..1000 {
        records.push(call(&path));
        path.push_str("/0.0");
    }
    // Each call is a row of the tree and has a part of its own.
    assert_eq!(page(&run_of(records), None).matches("again").count(), 2000);
    page(&run_of(Vec::new()), None);
}

/// Opens a page in a browser. Returns the document afterwards, and the browser's complaints.
fn open(chromium: &Path, page: &str) -> (String, Vec<String>) {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("run.html");
    fs::write(&file, page).unwrap();
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"])
        .args([
            "--disable-dev-shm-usage",
            "--enable-logging=stderr",
            "--virtual-time-budget=2000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", home.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let complaints = said.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    let document = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(document.contains("</html>"), "{chromium:?} shows no page: {said}");
    (document, complaints)
}

/// Returns the start tag of the document, on which an attack that works leaves its mark.
fn root(document: &str) -> &str {
    tags(document).into_iter().find(|tag| tag.starts_with("html")).unwrap()
}

#[test]
fn a_browser_runs_nothing_of_the_runs() {
    let Some(chromium) = env::var_os("LLM_DO_TEST_CHROMIUM") else {
        eprintln!("skipped: LLM_DO_TEST_CHROMIUM names no Chromium");
        return;
    };
    let chromium = Path::new(&chromium);
    let page = page(&full_of(ATTACK), None);
    let (document, complaints) = open(chromium, &page);
    assert_eq!(complaints, Vec::<String>::new());
    assert_eq!(root(&document), "html lang=\"en\"");

    // Each of the two walls holds without the other.
    let start = page.find("<meta http-equiv").unwrap();
    let end = start + page[start..].find('>').unwrap() + 1;
    let without_policy = format!("{}{}", &page[..start], &page[end..]);
    assert_eq!(root(&open(chromium, &without_policy).0), "html lang=\"en\"");
    let attack = ATTACK.replace("<meta http-equiv=refresh", "<i");
    let without_escapes = page.replace("</body>", &format!("{attack}</body>"));
    let (document, complaints) = open(chromium, &without_escapes);
    assert_eq!(root(&document), "html lang=\"en\"");
    assert!(!complaints.is_empty(), "what is held back is complained about");
    // And there is something to hold back.
    let bare = without_policy.replace("</body>", &format!("{attack}</body>"));
    assert!(root(&open(chromium, &bare).0).contains("data-pwned"));
}
