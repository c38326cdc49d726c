//! The page of a run, as text and in a real browser. `LLM_DO_TEST_CHROMIUM` names a Chromium (`.ci/run` installs one).
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
    let page = page(&full_of(ATTACK));
    let of = |name: &str| tags(&page).iter().filter(|tag| tag.split(' ').next() == Some(name)).count();
    assert_eq!((of("script"), of("style"), of("base"), of("meta")), (1, 1, 0, 5));
    assert_eq!(of("img"), 1, "the one image of a kind that runs no code");
    for tag in tags(&page) {
        let names: String = tag.split('"').step_by(2).collect();
        assert!(!names.contains(" on") && !names.contains(" autofocus") && !names.contains('\''), "{tag}");
        let link = tag.split("href=\"").nth(1);
        assert!(link.is_none_or(|link| link.starts_with("#call-")), "{tag}");
        let source = tag.split("src=\"").nth(1);
        assert!(source.is_none_or(|source| source.starts_with("data:image/gif;base64,")), "{tag}");
    }
    // The same elements as with a text that does no harm.
    let harmless = self::page(&full_of(&"harm/less ".repeat(10)));
    let names = |page: &str| -> Vec<String> {
        tags(page).iter().map(|tag| tag.split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&page), names(&harmless));
}

#[test]
fn the_page_tells_everything_and_needs_nothing() {
    let page = page(&full_of("needle"));
    for (what, times) in [("needle", 60), ("<details class=\"call", 4), ("class=\"added\"", 1), ("1,640", 2)]
    {
        assert!(page.matches(what).count() >= times, "{what}: {}", page.matches(what).count());
    }
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("url("), "no other file");
    let (policy, _) = page.split_once("<style>").unwrap();
    assert!(policy.contains("default-src &#39;none&#39;") && !policy.contains("unsafe"), "{policy}");
    assert!(page.contains("<div class=\"tools\" hidden>"), "what needs the script is not there without it");
    // The calls that a call made stand below it, one step further in.
    let rows: Vec<&str> =
        tags(&page).into_iter().filter(|tag| tag.starts_with("details class=\"call")).collect();
    assert!(rows[0].contains(" d0 done") && rows[1].contains(" d1 ended-badly"), "{rows:?}");
    assert!(page.contains("<a href=\"#call-1\">"), "the model's words lead to the call");
}

#[test]
fn a_run_that_was_cut_off_and_a_deep_one_have_pages() {
    let started = json!({"path": "0", "step": "run", "kind": "run_started", "format": 2, "run": RUN, "version": "1",
                         "target": ".", "entry": "main", "approval": "defer", "date": "d", "definitions": []});
    let call = |path: &str| {
        json!({"path": path, "step": "call", "kind": "call_started", "function": "again", "source": "program",
               "principal": "operator", "input": {}})
    };
    let run = run_of(vec![started.clone()]);
    assert!(page(&run).contains("The run was cut off."));
    let mut records = vec![started];
    let mut path = "0".to_owned();
    for _ in 0..1000 {
        records.push(call(&path));
        path.push_str("/0.0");
    }
    let run = run_of(records);
    assert_eq!(page(&run).matches("<details class=\"call").count(), 1000);
    let run = run_of(Vec::new());
    page(&run);
}

/// Makes a run of a hundred workers with a hundred calls each, as `read_file` is usually called.
fn run_of_many_calls() -> WholeRun {
    let start = |path: &str, function: &str, source: Value, principal: Value, input: Value| {
        json!({"path": path, "step": "call", "kind": "call_started", "function": function, "source": source,
               "principal": principal, "input": input})
    };
    let verdict = |path: &str, by: Value| json!({"path": path, "step": "verdict", "kind": "verdict", "rule": "preApproved", "by": by});
    let began = |path: &str, worker: &str| {
        json!({"path": path, "step": "conversation", "kind": "conversation_started", "worker": worker, "model": "openai:gpt-x",
               "system": "You read the files that you are asked for.", "tools": [], "can": {"native_schema": true, "tools": true},
               "final_tool": false, "can_read_on": false,
               "message": {"id": 0, "role": "user", "parts": [{"part": "text", "text": "Read all files in input/."}]}})
    };
    let asks = |path: &str, turn: u32, id: u32, tool: &str, input: Value| {
        [
            json!({"path": path, "step": format!("model.{turn}.0"), "kind": "model_requested", "turn": turn, "attempt": 0,
                   "head": id - 1, "digest": "d"}),
            json!({"path": path, "step": format!("model.{turn}.0"), "kind": "model_answered", "finish": "tool_calls",
                   "usage": {"input_tokens": 1640, "cached_tokens": 512, "output_tokens": 80},
                   "message": {"id": id, "parent": id - 1, "role": "assistant", "parts": [
                       {"part": "call", "id": "a", "name": tool, "arguments": {"json": input}}]}}),
        ]
    };
    let ends = |path: &str| json!({"path": path, "step": "end", "kind": "call_ended", "ending": {"output": "All of it is read."}});
    let program = || json!("program");
    let mut records = vec![
        json!({"path": "0", "step": "run", "kind": "run_started", "format": 2, "run": RUN, "version": "0.1.0", "target": ".",
               "entry": "main", "approval": "interactive", "date": "2026-11-21", "definitions": []}),
        start("0", "main", program(), json!("operator"), json!({"input": "Read everything."})),
        verdict("0", json!("start")),
        began("0", "main"),
    ];
    for worker in 0..100 {
        let input = json!({"input": format!("Read the files of input/{worker}/.")});
        records.extend(asks("0", worker, 2 * worker + 1, "reader", input.clone()));
        let path = format!("0/{worker}.0");
        records.push(start(&path, "reader", program(), json!({"worker": "main"}), input));
        records.push(verdict(&path, json!("delegation")));
        records.push(began(&path, "reader"));
        for call in 0..99 {
            let input = json!({"path": format!("input/{worker}/chapter-{call:02}.md")});
            records.extend(asks(&path, call, 2 * call + 1, "read_file", input.clone()));
            let path = format!("{path}/{call}.0");
            let source = json!({"toolset": "filesystem"});
            records.extend([
                start(&path, "read_file", source, json!({"worker": "reader"}), input),
                json!({"path": path, "step": "links", "kind": "links_followed", "places": [format!("/home/me/project/{path}")]}),
                verdict(&path, json!({"rule": {"origin": "the toolset filesystem"}})),
                json!({"path": path, "step": "tool", "kind": "tool_started", "function": "read_file", "risk": "read",
                       "idempotency_key": format!("{RUN}:{path}")}),
                json!({"path": path, "step": "tool", "kind": "tool_ended", "ending": {"output":
                       "Line one of the file, with some words in it.\nLine two of the file, with some more words in it.\n"}}),
                json!({"path": path, "step": "end", "kind": "call_ended", "ending": {"output":
                       "Line one of the file, with some words in it.\nLine two of the file, with some more words in it.\n"}}),
            ]);
        }
        records.push(ends(&path));
    }
    records.push(ends("0"));
    records.push(json!({"path": "0", "step": "run", "kind": "run_ended", "status": "done", "ending": {"output": "All of it is read."}}));
    run_of(records)
}

#[test]
fn a_page_of_ten_thousand_calls_has_less_than_five_megabytes() {
    let run = run_of_many_calls();
    let page = page(&run);
    if let Some(file) = env::var_os("LLM_DO_TEST_PAGE") {
        fs::write(file, &page).unwrap();
    }
    assert_eq!(page.matches("<details class=\"call").count(), 10_001);
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
}

/// Opens a page in a browser. Returns the document afterwards, and the browser's complaints.
fn open(chromium: &Path, page: &str, fragment: &str) -> (String, Vec<String>) {
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
        .arg(format!("file://{}{fragment}", file.display()))
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
fn a_browser_shows_tree_and_timeline_and_runs_nothing_of_the_runs() {
    let Some(chromium) = env::var_os("LLM_DO_TEST_CHROMIUM") else {
        eprintln!("skipped: LLM_DO_TEST_CHROMIUM names no Chromium");
        return;
    };
    let chromium = Path::new(&chromium);
    let page = page(&full_of(ATTACK));
    let (document, complaints) = open(chromium, &page, "#call-1");
    assert_eq!(complaints, Vec::<String>::new());
    assert_eq!(root(&document), "html lang=\"en\"");
    let tags = tags(&document);
    let rows: Vec<&&str> = tags.iter().filter(|tag| tag.starts_with("details class=\"call")).collect();
    assert_eq!(rows.len(), 4, "{rows:?}");
    let open_rows: Vec<&&&str> = rows.iter().filter(|row| row.contains(" open=\"\"")).collect();
    assert!(open_rows.len() == 1 && open_rows[0].contains("call-1"), "the page's own script ran: {rows:?}");
    for shape in
        ["rect class=\"model\"", "rect class=\"tool\"", "rect class=\"question\"", "rect class=\"pause\""]
    {
        assert!(tags.iter().any(|tag| tag.starts_with(shape)), "{shape}");
    }
    assert!(document.contains("<div class=\"tools\"><input"), "what needs the script is there with it");

    // The page's buttons and its filter, pressed by a script that only a page without its policy lets in.
    let driver = "<script>document.querySelector('[data-do=open]').click();const filter=document.querySelector('.tools input');\
                  filter.value='RUN_IT';filter.dispatchEvent(new Event('input'))</script></body>";
    let start = page.find("<meta http-equiv").unwrap();
    let end = start + page[start..].find('>').unwrap() + 1;
    let without_policy = format!("{}{}", &page[..start], &page[end..]);
    let (document, _) = open(chromium, &without_policy.replace("</body>", driver), "");
    let rows: Vec<&str> =
        self::tags(&document).into_iter().filter(|tag| tag.starts_with("details class=\"call")).collect();
    assert!(rows.iter().all(|row| row.contains(" open=\"\"")), "{rows:?}");
    assert_eq!(rows.iter().filter(|row| !row.contains(" hidden=\"\"")).count(), 1, "{rows:?}");

    // Each of the two walls holds without the other.
    assert_eq!(root(&open(chromium, &without_policy, "").0), "html lang=\"en\"");
    let attack = ATTACK.replace("<meta http-equiv=refresh", "<i");
    let without_escapes = page.replace("<footer>", &format!("<footer>{attack}"));
    let (document, complaints) = open(chromium, &without_escapes, "");
    assert_eq!(root(&document), "html lang=\"en\"");
    assert!(!complaints.is_empty(), "what is held back is complained about");
    // And there is something to hold back.
    let bare = without_policy.replace("<footer>", &format!("<footer>{attack}"));
    assert!(root(&open(chromium, &bare, "").0).contains("data-pwned"));
}
