//! Runs: scripted and over the wire, with questions, kills, full disks and foreign journals.

use crate::page::{NOW_MS, Page};
use llm_do_page::message::Effect;
use serde_json::{Value, json};

const PROJECT: &[(&str, &str)] = &[
    (
        "notes/project.yaml",
        "name: notes\nsandbox:\n  paths:\n    input: ./input\n    output: {root: ./output, mode: rw}\n",
    ),
    (
        "notes/main.worker",
        "---\ndescription: Keeps the minutes.\ntoolsets:\n  filesystem: {}\nallow_workers: [reader]\n---\nYou keep the minutes.\n",
    ),
    (
        "notes/workers/reader.worker",
        "---\ndescription: Finds the decision.\nparameters: {text: string}\nreturns: {decision: string}\n---\nFind the decision in: {{ text | upper }}\n",
    ),
    ("notes/input/meeting.txt", "We paint it blue. The key is hunter2hunter2."),
    (
        "notes/script.yaml",
        r#"answers:
- when: {worker: main, turn: 0}
  calls:
  - {tool: read_file, arguments: {path: /input/meeting.txt}}
- when: {worker: main, turn: 1}
  calls:
  - {tool: reader, arguments: {text: We paint it blue.}}
- when: {worker: reader}
  json: {decision: blue}
- when: {worker: main, turn: 2}
  calls:
  - {tool: write_file, arguments: {path: /output/minutes.md, content: "Blue.\n"}}
- when: {worker: main}
  text: Blue it is.
"#,
    ),
];

fn options() -> Value {
    json!({"model": "script:script.yaml", "keys": {"DOOR_KEY": "hunter2hunter2"}})
}

fn start(page: &mut Page) -> String {
    let body = json!({"program": "notes", "message": "What was decided?"});
    let (status, run) = page.ask("POST", "/v1/runs", Some(body));
    assert_eq!(status, 201, "{run}");
    run["run"].as_str().unwrap().to_owned()
}

fn show(page: &mut Page, run: &str) -> Value {
    page.ask("GET", &format!("/v1/runs/{run}"), None).1
}

/// Approves everything that waits, until nothing does. Returns the run.
fn finish(page: &mut Page, run: &str) -> Value {
    for _ in 0..20 {
        let view = show(page, run);
        let Some(question) = view["questions"].get(0) else { return view };
        let mut answer = json!({"answer": "approve", "digest": question["digest"]});
        (answer["call"], answer["step"]) = (question["call"].clone(), question["step"].clone());
        let (status, body) = page.ask("POST", &format!("/v1/runs/{run}/answers"), Some(answer));
        assert_eq!(status, 204, "{body}");
    }
    panic!("it asks for ever");
}

fn journal(page: &Page, run: &str) -> Vec<Value> {
    let text = page.text(&format!("notes/.llm-do/runs/{run}/journal.jsonl"));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn writes(page: &Page) -> usize {
    page.performed.iter().filter(|effect| matches!(effect, Effect::Write { .. })).count()
}

#[test]
fn a_run_asks_before_it_writes_and_its_records_come_first() {
    let mut page = Page::new(PROJECT, options());
    let run = start(&mut page);
    let view = show(&mut page, &run);
    assert_eq!(view["state"], "waiting", "{view}");
    assert_eq!(writes(&page), 0);
    assert_eq!(page.ask("GET", "/v1/questions", None).1["questions"][0]["run"], run.as_str());
    let view = finish(&mut page, &run);
    assert_eq!(
        (view["state"].as_str(), view["output"].as_str()),
        (Some("done"), Some("Blue it is.")),
        "{view}"
    );
    assert_eq!(page.text("notes/output/minutes.md"), "Blue.\n");

    // The intent of the write is in the journal before the write is performed.
    let write = page.performed.iter().position(|effect| matches!(effect, Effect::Write { .. })).unwrap();
    let recorded: String = page.performed[..write]
        .iter()
        .filter_map(|effect| match effect {
            Effect::Append { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let last = recorded.lines().last().unwrap();
    assert!(last.contains("tool_started") && last.contains("write_file"), "{last}");

    let records = journal(&page, &run);
    assert!(records.iter().enumerate().all(|(at, record)| record["seq"] == at && record["seal"].is_string()));
    let text = page.text(&format!("notes/.llm-do/runs/{run}/journal.jsonl"));
    assert!(text.contains("[secret DOOR_KEY]") && !text.contains("hunter2"));

    let (status, replayed) = page.ask("POST", &format!("/v1/runs/{run}/replay"), None);
    assert_eq!(
        (status, &replayed["divergence"], &replayed["whole"]),
        (200, &Value::Null, &true.into()),
        "{replayed}"
    );
    let (_, page_of_run) = page.ask("GET", &format!("/v1/runs/{run}/export"), None);
    assert!(page_of_run.as_str().unwrap().starts_with("<!doctype html>"));
    let (_, listed) = page.ask("GET", "/v1/runs?limit=5", None);
    assert_eq!(listed["runs"][0]["run"], run.as_str());
    assert_eq!(listed["runs"][0]["title"], "What was decided?");
}

#[test]
fn a_stream_follows_a_run_with_its_view() {
    let mut page = Page::new(PROJECT, options());
    let feed = page.send("GET", "/v1/events", None);
    let run = start(&mut page);
    let events = page.send("GET", &format!("/v1/runs/{run}/events?view=true"), None);
    page.settle();
    assert!(!page.ended.contains(&events), "it waits");
    finish(&mut page, &run);
    assert!(page.ended.contains(&events), "it ends with the run");
    let text = page.answers[&events].1.clone();
    let ids: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    let expected: Vec<String> = (0..journal(&page, &run).len()).map(|seq| seq.to_string()).collect();
    assert_eq!(ids, expected);
    assert!(text.contains("\"view\":{"));
    let notices = &page.answers[&feed].1;
    for wanted in ["\"state\":\"waiting\"", "\"state\":\"done\"", "event: questions\ndata: {\"count\":1}"] {
        assert!(notices.contains(wanted), "{wanted}: {notices}");
    }
    // Later readers get the same from the file.
    let (_, again) = page.ask("GET", &format!("/v1/runs/{run}/events"), None);
    assert_eq!(again.as_str().unwrap().matches("event: record").count(), ids.len());
}

#[test]
fn a_page_that_dies_at_any_effect_continues_and_repeats_none() {
    let mut whole = Page::new(PROJECT, options());
    let run = start(&mut whole);
    let first =
        whole.performed.iter().position(|effect| matches!(effect, Effect::Append { .. })).unwrap() + 1;
    let end = finish(&mut whole, &run)["output"].clone();
    let last = whole.performed.len();
    let mut continued = 0;
    for at in first..last {
        let mut page = Page::new(PROJECT, options());
        page.dies_before = Some(at);
        let body = json!({"program": "notes", "message": "What was decided?"});
        page.send("POST", "/v1/runs", Some(body));
        page.settle();
        for _ in 0..4 {
            if page.is_dead {
                break;
            }
            let view = show(&mut page, &run);
            if let Some(question) = view["questions"].get(0) {
                let mut answer = json!({"answer": "approve", "digest": question["digest"]});
                (answer["call"], answer["step"]) = (question["call"].clone(), question["step"].clone());
                page.ask("POST", &format!("/v1/runs/{run}/answers"), Some(answer));
            }
        }
        page.reload();
        page.now_ms += 1000;
        let view = show(&mut page, &run);
        if view["state"] == "cut_off" {
            let (status, body) = page.ask("POST", &format!("/v1/runs/{run}/continue"), None);
            assert_eq!(status, 202, "at {at}: {body}");
            continued += 1;
        }
        let view = settle_and_finish(&mut page, &run);
        assert_eq!(view["output"], end, "at {at}: {view}");
        assert!(writes(&page) <= 1, "at {at}: the file was written twice");
        assert_eq!(page.text("notes/output/minutes.md"), "Blue.\n", "at {at}");
        assert!(journal(&page, &run).iter().enumerate().all(|(seq, record)| record["seq"] == seq), "at {at}");
    }
    assert!(continued > 10, "only {continued} runs were cut off");
}

/// Answers everything that waits: an interrupted write is settled as what it was.
fn settle_and_finish(page: &mut Page, run: &str) -> Value {
    for _ in 0..20 {
        let view = show(page, run);
        let Some(question) = view["questions"].get(0) else { return view };
        let is_settlement = question["question"] == "settlement";
        let has_happened = page.files.contains_key("notes/output/minutes.md");
        let mut answer = match (is_settlement, has_happened) {
            (false, _) => json!({"answer": "approve"}),
            (true, true) => json!({"answer": "succeeded", "output": {"written": "/output/minutes.md"}}),
            (true, false) => json!({"answer": "retry"}),
        };
        answer["digest"] = question["digest"].clone();
        (answer["call"], answer["step"]) = (question["call"].clone(), question["step"].clone());
        let (status, body) = page.ask("POST", &format!("/v1/runs/{run}/answers"), Some(answer));
        assert_eq!(status, 204, "{question}: {body}");
    }
    panic!("it asks for ever");
}

#[test]
fn a_full_disk_stops_a_run_before_its_next_effect_and_loses_nothing() {
    let mut whole = Page::new(PROJECT, options());
    let run = start(&mut whole);
    finish(&mut whole, &run);
    let appends = whole.performed.iter().filter(|effect| matches!(effect, Effect::Append { .. })).count();
    for full in 0..appends {
        let mut page = Page::new(PROJECT, options());
        page.full_from = Some((full, "quota"));
        let body = json!({"program": "notes", "message": "What was decided?"});
        let (status, answer) = page.ask("POST", "/v1/runs", Some(body));
        if full == 0 {
            assert_eq!((status, &answer["code"]), (507, &"storage".into()), "{answer}");
            continue;
        }
        let view = show(&mut page, &run);
        if let Some(question) = view["questions"].get(0) {
            let mut answer = json!({"answer": "approve", "digest": question["digest"]});
            (answer["call"], answer["step"]) = (question["call"].clone(), question["step"].clone());
            page.ask("POST", &format!("/v1/runs/{run}/answers"), Some(answer));
        }
        let before = journal(&page, &run).len();
        let view = show(&mut page, &run);
        assert_eq!(view["state"], "cut_off", "after {full}: {view}");
        assert!(view["reason"].as_str().unwrap().contains("quota"), "{view}");
        // Room is there again.
        page.reload();
        let (status, body) = page.ask("POST", &format!("/v1/runs/{run}/continue"), None);
        assert!(status == 202 || view["state"] == "waiting", "after {full}: {body}");
        let view = settle_and_finish(&mut page, &run);
        assert_eq!(view["output"], "Blue it is.", "after {full}: {view}");
        assert!(journal(&page, &run).len() > before);
        assert!(writes(&page) <= 1, "after {full}: the file was written twice");
    }
}

#[test]
fn a_journal_that_a_program_brings_is_shown_and_not_continued() {
    let mut page = Page::new(PROJECT, options());
    let run = start(&mut page);
    let path = format!("notes/.llm-do/runs/{run}/journal.jsonl");
    let text = page.text(&path);
    // Somebody has approved the write in the file.
    let forged = text.replace("\"seal\":\"", "\"seal\":\"A");
    page.files.insert(path, forged.into_bytes());
    page.reload();
    assert_eq!(show(&mut page, &run)["outside"], true);
    let (status, body) = page.ask("POST", &format!("/v1/runs/{run}/continue"), None);
    assert_eq!(status, 409);
    assert!(body["detail"].as_str().unwrap().contains("not written in this browser"), "{body}");
    assert_eq!(writes(&page), 0);
}

#[test]
fn a_changed_program_does_not_continue_a_run() {
    let mut page = Page::new(PROJECT, options());
    let run = start(&mut page);
    page.files.insert("notes/main.worker".into(), b"---\ndescription: Other.\n---\nOther.\n".to_vec());
    page.reload();
    let (status, body) = page.ask("POST", &format!("/v1/runs/{run}/continue"), None);
    assert_eq!(status, 409, "{body}");
    assert!(body["detail"].as_str().unwrap().contains("has changed since the run began"), "{body}");
}

fn event(delta: &Value, finish: Option<&str>) -> String {
    let event = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    format!("data: {event}\n\n")
}

#[test]
fn a_model_over_the_wire_is_asked_with_the_key_and_streams_in_any_split() {
    let files = [("p/main.worker", "---\ndescription: Greets.\nmodel: openai:gpt-4o\n---\nGreet.\n")];
    let mut page = Page::new(&files, json!({"keys": {"OPENAI_API_KEY": "sk-0123456789"}}));
    let stream = event(&json!({"content": "Hel"}), None)
        + &event(&json!({"content": "lo."}), Some("stop"))
        + "data: [DONE]\n\n";
    let pieces: Vec<String> = stream.chars().map(String::from).collect();
    // The first request is refused for a moment: the engine waits and asks again.
    page.responses.push_back(Ok((503, vec!["{}".into()])));
    page.responses.push_back(Ok((200, pieces)));
    let (status, run) = page.ask("POST", "/v1/runs", Some(json!({"program": "p", "message": "Hi"})));
    assert_eq!(status, 201, "{run}");
    let run = run["run"].as_str().unwrap().to_owned();
    let view = show(&mut page, &run);
    assert_eq!(view["output"], "Hello.", "{view}");
    assert_eq!(page.sent.len(), 2);
    let (url, headers, body) = &page.sent[1];
    assert_eq!(url, "https://api.openai.com/v1/chat/completions");
    assert!(headers.contains(&("authorization".into(), "Bearer sk-0123456789".into())), "{headers:?}");
    assert!(body.contains("Greet."));
    assert!(page.performed.iter().any(|effect| matches!(effect, Effect::Wait { ms, .. } if *ms > 0)));
    assert!(!page.files.values().any(|content| String::from_utf8_lossy(content).contains("sk-0123456789")));
    // The record of the request precedes the request.
    let sent = page.performed.iter().position(|effect| matches!(effect, Effect::Send { .. })).unwrap();
    let before = page.performed[..sent].iter().rev().find_map(|effect| match effect {
        Effect::Append { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert!(before.unwrap().lines().last().unwrap().contains("model_requested"));
}

#[test]
fn a_model_in_the_page_has_an_address_of_the_page() {
    let files = [("p/main.worker", "---\ndescription: Greets.\n---\nGreet.\n")];
    let mut page = Page::new(&files, json!({"model": "page:qwen3-0.6b"}));
    page.responses.push_back(Ok((200, vec![event(&json!({"content": "Hello."}), Some("stop"))])));
    let (status, run) = page.ask("POST", "/v1/runs", Some(json!({"program": "p", "message": "Hi"})));
    assert_eq!(status, 201, "{run}");
    assert_eq!(page.sent[0].0, "page:/v1/chat/completions");
    assert!(page.sent[0].2.contains("qwen3-0.6b"));
}

#[test]
fn a_chat_takes_messages_also_after_a_reload() {
    let script = "answers:\n- when: {last: one}\n  text: First.\n- when: {last: two}\n  text: Second.\n";
    let files = [("p/main.worker", "---\ndescription: Talks.\n---\nTalk.\n"), ("p/s.yaml", script)];
    let mut page = Page::new(&files, json!({"model": "script:s.yaml"}));
    let body = json!({"program": "p", "message": "one", "chat": true});
    let (status, run) = page.ask("POST", "/v1/runs", Some(body));
    assert_eq!(status, 201, "{run}");
    let run = run["run"].as_str().unwrap().to_owned();
    assert_eq!(show(&mut page, &run)["state"], "waiting");
    page.reload();
    page.now_ms = NOW_MS + 60_000;
    let said = json!({"text": "two"});
    let (status, body) = page.ask("POST", &format!("/v1/runs/{run}/messages"), Some(said));
    assert_eq!((status, &body["delivered"]), (200, &true.into()), "{body}");
    let (_, events) = page.ask("GET", &format!("/v1/runs/{run}/export"), None);
    assert!(events.as_str().unwrap().contains("Second."));
    let (status, _) = page.ask("POST", &format!("/v1/runs/{run}/cancel"), None);
    assert_eq!(status, 202);
    assert_eq!(show(&mut page, &run)["state"], "cancelled");
}

#[test]
fn a_request_that_only_a_server_can_answer_says_so() {
    let mut page = Page::new(PROJECT, options());
    for path in ["/v1/triggers", "/v1/programs/notes/tests", "/v1/models"] {
        let (status, body) = page.ask("GET", path, None);
        assert_eq!((status, body["code"].as_str()), (501, Some("not_in_page")), "{path}: {body}");
    }
    assert_eq!(page.ask("GET", "/v1/nothing", None).0, 404);
    assert_eq!(page.ask("GET", "/v1/programs/..%2Fetc/files", None).0, 404);
}

#[test]
fn definitions_are_read_saved_and_explained() {
    let mut page = Page::new(PROJECT, options());
    let (_, files) = page.ask("GET", "/v1/programs/notes/files", None);
    let paths: Vec<&str> =
        files["files"].as_array().unwrap().iter().filter_map(|file| file["path"].as_str()).collect();
    assert_eq!(paths, ["main.worker", "project.yaml", "workers/reader.worker"]);
    let content = "/v1/programs/notes/files/content";
    let (_, file) = page.ask("GET", &format!("{content}?path=main.worker"), None);
    let text = file["text"].as_str().unwrap().replace("minutes", "protocol");
    let save = json!({"path": "main.worker", "text": text, "sha256": file["sha256"]});
    let (status, saved) = page.ask("PUT", content, Some(save.clone()));
    assert_eq!((status, &saved["diagnostics"]), (200, &json!([])), "{saved}");
    assert_eq!(page.ask("PUT", content, Some(save)).1["code"], "file_changed");
    let other = json!({"path": "input/meeting.txt", "text": "", "sha256": null});
    assert_eq!(page.ask("PUT", content, Some(other)).0, 403);
    let (_, prompt) =
        page.ask("POST", "/v1/programs/notes/prompt", Some(json!({"worker": "main", "message": "Hi"})));
    assert!(prompt["system"].as_str().unwrap().contains("protocol"), "{prompt}");
    let cursor = json!({"path": "main.worker", "position": {"line": 1, "character": 3}});
    let (_, hover) = page.ask("POST", "/v1/programs/notes/hover", Some(cursor));
    assert!(hover["hover"]["markdown"].is_string(), "{hover}");
    let (_, workers) = page.ask("GET", "/v1/workers", None);
    assert_eq!(workers["workers"][0]["worker"], "main");
}
