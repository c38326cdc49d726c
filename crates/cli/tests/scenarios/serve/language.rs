//! The language of definition files over HTTP: completion, hover, definitions, findings with their fixes.

use super::{
    client::{Response, Server, TOKEN_OF_CI, ci_token},
    desk,
};
use serde_json::{Value, json};

const WORKER: &str = "workers/greeter.worker";

/// A request about the text at `¦`, which is not saved.
fn at(server: &Server, route: &str, path: &str, marked: &str) -> Response {
    let before = marked.split('¦').next().expect("a text");
    let position = json!({
        "line": before.matches('\n').count(),
        "character": before.rsplit('\n').next().expect("a line").encode_utf16().count(),
    });
    let files = json!({path: marked.replace('¦', "")});
    let body = json!({"path": path, "position": position, "files": files});
    server.post(&format!("/v1/programs/desk/{route}"), &body).send()
}

fn labels(response: &Response) -> Vec<&str> {
    let all = response.body["candidates"].as_array().unwrap_or_else(|| panic!("{response:?}"));
    all.iter().map(|one| one["label"].as_str().expect("a label")).collect()
}

#[test]
fn completion_hover_and_definitions_are_those_of_the_unsaved_text() {
    let scenario = desk();
    let server = Server::start(&scenario, &["--edit"]);
    let saved = scenario.read(WORKER);

    let found = at(&server, "completion", WORKER, "---\ndescription: 😀\nallow_w¦: [sorter]\n---\nHi.\n");
    let all = found.body["candidates"].as_array().unwrap_or_else(|| panic!("{found:?}"));
    let key = all.iter().find(|one| one["label"] == "allow_workers").expect("the key");
    assert_eq!((&key["kind"], &key["insert"]), (&json!("key"), &json!("allow_workers")));
    let text = "---\ndescription: 😀 😀\nallow_workers: [so¦]\n---\nHi.\n";
    let found = at(&server, "completion", WORKER, text);
    let sorter = found.body["candidates"].as_array().expect("candidates");
    let sorter = sorter.iter().find(|one| one["label"] == "sorter").expect("the worker");
    let place = |character: u32| json!({"line": 2, "character": character});
    assert_eq!(sorter["replace"], json!({"start": place(16), "end": place(18)}), "{sorter}");
    let text = "---\nparameters: {nick: string}\n---\n😀 {{ ni¦ }}\n";
    assert!(labels(&at(&server, "completion", WORKER, text)).contains(&"nick"), "the unsaved parameter");

    let text = "---\ndescription: 😀\nallow_workers: [sor¦ter]\n---\nHi.\n";
    let hover = at(&server, "hover", WORKER, text);
    assert_eq!(hover.body["hover"]["range"], json!({"start": place(16), "end": place(22)}), "{hover:?}");
    assert!(hover.body["hover"]["markdown"].to_string().contains("sorter(mail: string)"), "{hover:?}");
    let places = at(&server, "definition", WORKER, text);
    let start = json!({"line": 0, "character": 0});
    let start = json!({"start": start, "end": start});
    assert_eq!(
        places.body["places"],
        json!([{"path": "workers/sorter.worker", "range": start}]),
        "{places:?}"
    );
    let text = "---\nparameters: {nick: string}\n---\n😀😀 {{ ni¦ck }}\n";
    let places = at(&server, "definition", WORKER, text);
    let range = &places.body["places"][0]["range"];
    assert_eq!(range["start"], json!({"line": 1, "character": 13}), "{places:?}");
    assert_eq!(at(&server, "definition", WORKER, "---\n---\nNo¦thing.\n").body, json!({"places": []}));
    assert_eq!(at(&server, "hover", WORKER, "---\n---\nNo¦thing.\n").body, json!({}));

    // A file that does not exist yet, and one that is saved.
    let found = at(&server, "completion", "workers/new.worker", "---\nmod¦\n---\n");
    assert!(labels(&found).contains(&"model"), "{found:?}");
    let saved_text = json!({"path": WORKER, "position": {"line": 1, "character": 3}});
    let hover = server.post("/v1/programs/desk/hover", &saved_text).send();
    assert!(hover.body["hover"]["markdown"].to_string().contains("description"), "{hover:?}");
    assert_eq!(scenario.read(WORKER), saved);
}

#[test]
fn findings_and_their_fixes_have_ranges_of_editors() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let text = "---\ndescription: 😀\nsandbox: {paths: {\"😀\": ./in}, readonly: yes}\nmodle: x\n---\nHi.\n";
    let found = server.post("/v1/programs/desk/check", &json!({"files": {WORKER: text}})).send().body;
    let all = found["diagnostics"].as_array().expect("findings");
    let key = all.iter().find(|one| one["message"].to_string().contains("modle")).expect("a finding");
    let at = |line: u32, character: u32| json!({"line": line, "character": character});
    assert_eq!(key["range"], json!({"start": at(3, 0), "end": at(3, 5)}), "{key}");
    let edits = all.iter().filter_map(|one| one["fix"]["edits"].as_array()).flatten();
    let edits: Vec<&Value> = edits.collect();
    assert!(!edits.is_empty(), "{found}");
    for edit in edits {
        let index = |of: &str| edit[of].as_u64().and_then(|at| usize::try_from(at).ok()).expect("an offset");
        let utf16 = |offset: usize| {
            let before = &text[..offset];
            let line = u32::try_from(before.matches('\n').count()).expect("a line");
            let column = before.rsplit('\n').next().expect("a line").encode_utf16().count();
            at(line, u32::try_from(column).expect("a column"))
        };
        let range = json!({"start": utf16(index("start")), "end": utf16(index("end"))});
        assert_eq!(edit["range"], range, "{edit}");
    }
}

#[test]
fn the_language_needs_the_scope_a_definition_and_a_position() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", ""));
    let server = Server::start(&scenario, &["--edit"]);
    for route in ["completion", "hover", "definition"] {
        let ask = |path: &str, line: u32, character: u32, files: Value| {
            let position = json!({"line": line, "character": character});
            let body = json!({"path": path, "position": position, "files": files});
            server.post(&format!("/v1/programs/desk/{route}"), &body)
        };
        let refused = ask(WORKER, 0, 0, json!({})).token(TOKEN_OF_CI).send();
        assert_eq!((refused.status, &refused.body["code"]), (403, &json!("forbidden")), "{refused:?}");
        // The overlay of a file that is no definition opens no way to it.
        for path in [".env", ".git/config", "s.yaml"] {
            let refused = ask(path, 0, 0, json!({path: "x"})).send();
            assert_eq!(refused.status, 403, "{path}: {refused:?}");
        }
        for path in ["../x.worker", "workers/../.env", "/etc/passwd", ""] {
            assert_eq!(ask(path, 0, 0, json!({})).send().status, 400, "{path}");
        }
        assert_eq!(ask("workers/none.worker", 0, 0, json!({})).send().status, 404);
        for (line, character) in [(99, 0), (1, 14)] {
            let text = json!({WORKER: "---\ndescription: 😀\n---\n"});
            let refused = ask(WORKER, line, character, text).send();
            assert_eq!(refused.status, 400, "{line}:{character}: {refused:?}");
        }
        let unknown = json!({"path": WORKER, "position": {"line": 0, "character": 0}, "offset": 1});
        let refused = server.post(&format!("/v1/programs/desk/{route}"), &unknown).send();
        assert_eq!(refused.status, 400, "{refused:?}");
        let large = json!({WORKER: "x".repeat((1 << 20) + 1)});
        assert_eq!(ask(WORKER, 0, 0, large).send().status, 413, "more than a definition has");
        let body = ask(WORKER, 0, 0, json!({})).header("Content-Length", "99999999999").send();
        assert_eq!(body.status, 413, "{body:?}");
    }
}
