//! OpenAI's interfaces over plain HTTP: requests that no client of OpenAI would send.

use super::desk;
use crate::serve::client::{Server, TOKEN_OF_CI, ci_token};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const CHAT: &str = "/v1/chat/completions";

fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

#[test]
fn errors_have_the_form_of_openai_and_name_the_field() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let hello = user("Hello");
    for (body, status, param) in [
        (json!({"messages": hello}), 400, "model"),
        (json!({"model": "desk/nobody", "messages": hello}), 404, "model"),
        (json!({"model": "../desk/echo", "messages": hello}), 404, "model"),
        (json!({"model": "echo", "messages": hello}), 404, "model"),
        (json!({"model": 7, "messages": hello}), 400, "model"),
        (json!({"model": "desk/echo"}), 400, "messages"),
        (json!({"model": "desk/echo", "messages": []}), 400, "messages"),
        (
            json!({"model": "desk/echo", "messages": [{"role": "assistant", "content": "Hi"}]}),
            400,
            "messages",
        ),
        (
            json!({"model": "desk/echo", "messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]}),
            400,
            "messages",
        ),
        (
            json!({"model": "desk/echo", "messages": [{"role": "tool", "content": "4", "tool_call_id": "c"}]}),
            400,
            "messages[0]",
        ),
        (
            json!({"model": "desk/echo", "messages": [{"role": "king", "content": "a"}]}),
            400,
            "messages[0].role",
        ),
        (
            json!({"model": "desk/echo", "messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}, {"role": "user", "content": "a"}]}),
            400,
            "messages[0].tool_calls",
        ),
        (
            json!({"model": "desk/echo", "messages": [{"role": "user", "content": [{"type": "hologram"}]}]}),
            400,
            "messages[0].content[0]",
        ),
        (json!({"model": "desk/echo", "messages": hello, "n": 2}), 400, "n"),
        (json!({"model": "desk/echo", "messages": hello, "temperature": 0.1}), 400, "temperature"),
        (
            json!({"model": "desk/echo", "messages": hello, "tools": [{"type": "function", "function": {"name": "f"}}]}),
            400,
            "tools",
        ),
        (json!({"model": "desk/echo", "messages": hello, "colour": 1}), 400, "colour"),
        (json!({"model": "desk/echo", "messages": hello, "stream_options": {}}), 400, "stream_options"),
        (
            json!({"model": "desk/echo", "messages": hello, "response_format": {"type": "json_object"}}),
            400,
            "response_format",
        ),
        (
            json!({"model": "desk/sorter", "messages": hello, "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object", "properties": {"urgent": {"type": "string"}}}}}}),
            400,
            "response_format",
        ),
    ] {
        let refused = server.post(CHAT, &body).send();
        assert_eq!(refused.status, status, "{body}: {refused:?}");
        assert_eq!(refused.body["error"]["param"], param, "{body}: {refused:?}");
        assert!(refused.body["error"]["message"].is_string(), "{body}: {refused:?}");
    }
    for (body, status, param) in [
        (json!({"model": "desk/echo"}), 400, "input"),
        (json!({"model": "desk/echo", "input": 7}), 400, "input"),
        (json!({"model": "desk/echo", "input": "a", "conversation": "c"}), 400, "conversation"),
        (
            json!({"model": "desk/echo", "input": [{"type": "function_call_output", "call_id": "c", "output": "4"}]}),
            400,
            "input[0]",
        ),
        (
            json!({"model": "desk/echo", "input": "a", "previous_response_id": "resp_x"}),
            404,
            "previous_response_id",
        ),
        (
            json!({"model": "desk/echo", "input": "a", "previous_response_id": "resp_20261121-221530-4f2a"}),
            404,
            "previous_response_id",
        ),
        (
            json!({"model": "desk/echo", "input": [{"type": "mcp_approval_response", "approval_request_id": "mcpr_20261121-221530-4f2a_00", "approve": true}]}),
            404,
            "previous_response_id",
        ),
        (
            json!({"model": "desk/echo", "input": [{"type": "mcp_approval_response", "approval_request_id": "x", "approve": true}]}),
            400,
            "input[0].approval_request_id",
        ),
        (
            json!({"model": "desk/echo", "input": "a", "text": {"format": {"type": "json_object"}}}),
            400,
            "text.format",
        ),
    ] {
        let refused = server.post("/v1/responses", &body).send();
        assert_eq!(
            (refused.status, &refused.body["error"]["param"]),
            (status, &json!(param)),
            "{body}: {refused:?}"
        );
    }
    for wrong in ["{\"model\":", "[]", "7"] {
        let refused = server.ask("POST", CHAT, wrong.into()).send();
        assert_eq!(
            (refused.status, &refused.body["error"]["type"]),
            (400, &json!("invalid_request_error")),
            "{wrong}"
        );
    }
    assert_eq!(scenario.runs().len(), 0, "none of them starts a run");
}

#[test]
fn checks_of_every_request_hold_for_these_as_well() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[read]", ""));
    let server = Server::start(&scenario, &[]);
    let body = json!({"model": "desk/echo", "messages": user("Hello")});
    let stranger = server.post(CHAT, &body).without_token().send();
    assert_eq!(
        (stranger.status, &stranger.body["error"]["type"]),
        (401, &json!("authentication_error")),
        "{stranger:?}"
    );
    assert_eq!(stranger.header("content-type"), Some("application/json"));
    let reader = server.post(CHAT, &body).token(TOKEN_OF_CI).send();
    assert_eq!(
        (reader.status, &reader.body["error"]["type"]),
        (403, &json!("permission_error")),
        "{reader:?}"
    );
    for (name, value) in [("Host", "evil.example"), ("Origin", "https://evil.example")] {
        let refused = server.post(CHAT, &body).header(name, value).send();
        assert_eq!(
            (refused.status, &refused.body["error"]["code"]),
            (403, &json!("forbidden")),
            "{refused:?}"
        );
    }
    let large = server.post(CHAT, &body).header("Content-Length", "99999999999").send();
    assert_eq!((large.status, &large.body["error"]["code"]), (413, &json!("too_large")), "{large:?}");
    for (method, path) in [("GET", CHAT), ("DELETE", "/v1/responses/resp_x")] {
        let refused = server.ask(method, path, String::new()).send();
        assert_eq!(
            (refused.status, refused.body["error"]["message"].is_string()),
            (405, true),
            "{refused:?}"
        );
    }
    assert_eq!(scenario.runs().len(), 0);
}

#[test]
fn whole_conversation_is_the_input_of_one_run() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi."}]},
        {"role": "user", "content": "Who are you?"},
    ]);
    let said = server
        .post(CHAT, &json!({"model": "desk/echo", "messages": messages, "user": "ada", "store": false}))
        .send();
    assert_eq!(said.status, 200, "{said:?}");
    let text = said.body["choices"][0]["message"]["content"].as_str().expect("text");
    let order = ["<application>\nBe brief.", "<user>\nHello", "<assistant>\nHi.", "<user>\nWho are you?"];
    let places: Vec<usize> =
        order.iter().map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"))).collect();
    assert!(places.is_sorted(), "{text}");
    let alone = server.post(CHAT, &json!({"model": "desk/echo", "messages": user("Hello")})).send();
    assert_eq!(alone.body["choices"][0]["message"]["content"], "Hello");
    assert_eq!(scenario.runs().len(), 2);
}

#[test]
fn failed_run_is_an_error_that_clients_do_not_repeat() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let body = json!({"model": "desk/failing", "messages": user("Hello")});
    let failed = server.post(CHAT, &body).send();
    assert_eq!((failed.status, &failed.body["error"]["code"]), (424, &json!("run_failed")), "{failed:?}");
    assert!(failed.text.contains("no such luck"), "{failed:?}");
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let failed = server.post(CHAT, &streamed).send();
    assert!(failed.text.contains("\"run_failed\"") && !failed.text.contains("[DONE]"), "{failed:?}");
    let response = server.post("/v1/responses", &json!({"model": "desk/failing", "input": "Hello"})).send();
    assert_eq!((response.status, &response.body["status"]), (200, &json!("failed")), "{response:?}");
}

#[test]
fn titles_and_tags_start_no_program() {
    let scenario = desk().file("title.yaml", "answers:\n  - text: A title of the model\n");
    let ask = |server: &Server| {
        let task = "### Task:\nGenerate a concise, 3-5 word title.\n### Output:\nJSON format: { \"title\": \"…\" }\n### Chat History:\n<chat_history>\nUSER: Where is the milk?\n</chat_history>";
        let body =
            json!({"model": "desk/echo", "messages": user(task), "max_tokens": 1000, "temperature": 0.1});
        let said = server.post(CHAT, &body).send();
        assert_eq!(said.status, 200, "{said:?}");
        said.body["choices"][0]["message"]["content"].as_str().expect("text").to_owned()
    };
    let server = Server::start(&scenario, &[]);
    assert_eq!(ask(&server), "{\"title\":\"Where is the milk?\"}");
    drop(server);
    let server = Server::start(&scenario, &["--title-model", "script:title.yaml"]);
    assert_eq!(ask(&server), "A title of the model");
    assert_eq!(scenario.runs().len(), 0);
    let wrong = scenario.run(&["serve", ".", "--title-model", "nobody:nothing"]);
    assert_eq!(wrong.code, Some(2), "{wrong}");
    assert!(wrong.stderr.contains("--title-model"), "{wrong}");
}

#[test]
fn client_that_goes_away_ends_its_run() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    for stream in [false, true] {
        let body = json!({"model": "desk/slow", "messages": user("Think."), "stream": stream});
        let connection = server.post(CHAT, &body).connect();
        let run = until(|| {
            let runs = server.get("/v1/runs?limit=1").send().body;
            (runs["runs"][0]["state"] == "running").then(|| runs["runs"][0]["run"].clone())
        });
        drop(connection);
        let run = run.as_str().expect("an ID").to_owned();
        server.until(&run, |view| view["state"] == "cancelled");
    }
}

fn until<T>(found: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "it never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn question_in_words_is_answered_by_a_message() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let begin = || {
        let asked =
            server.post("/v1/responses", &json!({"model": "desk/asker", "input": "Paint."})).send().body;
        let request = asked["output"].as_array().and_then(|items| items.last()).cloned().expect("an item");
        assert_eq!(
            (&request["type"], &request["name"]),
            (&json!("mcp_approval_request"), &json!("ask_user")),
            "{asked}"
        );
        assert!(request["arguments"].as_str().is_some_and(|of| of.contains("Which colour?")), "{asked}");
        (asked["id"].clone(), request["id"].clone())
    };
    let (id, _) = begin();
    let wrong = server
        .post("/v1/responses", &json!({"model": "desk/asker", "input": "green", "previous_response_id": id}))
        .send();
    assert_eq!(wrong.status, 400, "{wrong:?}");
    let done = server
        .post("/v1/responses", &json!({"model": "desk/asker", "input": "red", "previous_response_id": id}))
        .send()
        .body;
    assert!(done["output"].to_string().contains("Painted: red"), "{done}");
    let over = server
        .post(
            "/v1/responses",
            &json!({"model": "desk/asker", "input": "blue", "previous_response_id": done["id"]}),
        )
        .send();
    assert_eq!(over.status, 409, "{over:?}");
    let (_, request) = begin();
    let answer = |reason: Value| json!({"model": "desk/asker", "input": [{"type": "mcp_approval_response", "approval_request_id": request, "approve": true, "reason": reason}]});
    assert_eq!(server.post("/v1/responses", &answer(Value::Null)).send().status, 400);
    let done = server.post("/v1/responses", &answer(json!("blue"))).send().body;
    assert!(done["output"].to_string().contains("Painted: blue"), "{done}");
}

#[test]
fn token_answers_with_that_scope_and_continues_only_what_it_sees() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", ""));
    let server = Server::start(&scenario, &[]);
    let of_ci = |body: &Value| server.post("/v1/responses", body).token(TOKEN_OF_CI).send();
    let asked = of_ci(&json!({"model": "desk/writer", "input": "Write."})).body;
    let request = asked["output"].as_array().and_then(|items| items.last()).cloned().expect("an item");
    let approve = json!({"model": "desk/writer", "input": [{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": true}]});
    let refused = of_ci(&approve);
    assert_eq!(
        (refused.status, &refused.body["error"]["type"]),
        (403, &json!("permission_error")),
        "{refused:?}"
    );
    assert_eq!(scenario.read("out/note.txt"), None);
    let done = server.post("/v1/responses", &approve).send();
    assert_eq!(done.status, 200, "the operator may: {done:?}");
    assert_eq!(scenario.read("out/note.txt").as_deref(), Some("noted\n"));

    let chat = server.post("/v1/responses", &json!({"model": "desk/talker", "input": "Hello."})).send().body;
    let more = json!({"model": "desk/talker", "input": "More.", "previous_response_id": chat["id"]});
    let foreign = of_ci(&more);
    assert_eq!(
        (foreign.status, &foreign.body["error"]["code"]),
        (404, &json!("previous_response_not_found")),
        "{foreign:?}"
    );
    let looked = server
        .get(&format!("/v1/responses/{}", chat["id"].as_str().expect("an ID")))
        .token(TOKEN_OF_CI)
        .send();
    assert_eq!(looked.status, 404, "{looked:?}");
    let other = server
        .post(
            "/v1/responses",
            &json!({"model": "desk/echo", "input": "More.", "previous_response_id": chat["id"]}),
        )
        .send();
    assert_eq!((other.status, &other.body["error"]["param"]), (400, &json!("model")), "{other:?}");
}

#[test]
fn response_that_waits_survives_a_restart() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let asked = server.post("/v1/responses", &json!({"model": "desk/writer", "input": "Write."})).send().body;
    let request = asked["output"].as_array().and_then(|items| items.last()).cloned().expect("an item");
    assert_eq!(server.stop(), Some(130));
    let server = Server::start(&scenario, &[]);
    let path = format!("/v1/responses/{}", asked["id"].as_str().expect("an ID"));
    until(|| (server.get(&path).send().body["output"] == asked["output"]).then_some(()));
    let approve = json!({"model": "desk/writer", "previous_response_id": asked["id"], "input": [{"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": true}]});
    let done = server.post("/v1/responses", &approve).send();
    assert!(done.body["output"].to_string().contains("Written."), "{done:?}");
}

#[test]
fn forced_function_is_called_with_the_output_if_its_schema_fits() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let schema = |kind: &str| json!({"type": "object", "properties": {"urgent": {"type": kind}}, "required": ["urgent"]});
    let chat = |worker: &str, kind: &str, more: Value| {
        let function = json!({"name": "sorted", "parameters": schema(kind)});
        let mut body = json!({
            "model": format!("desk/{worker}"), "messages": user("Help!"), "tool_choice": "required",
            "tools": [{"type": "function", "function": function}],
        });
        body.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        server.post(CHAT, &body).send()
    };
    let said = chat("sorter", "boolean", json!({}));
    let choice = &said.body["choices"][0];
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(
        (&choice["finish_reason"], &call["function"]["name"]),
        (&json!("tool_calls"), &json!("sorted")),
        "{said:?}"
    );
    assert_eq!(
        (&choice["message"]["content"], &call["function"]["arguments"]),
        (&Value::Null, &json!("{\"urgent\":true}"))
    );
    let streamed = chat("sorter", "boolean", json!({"stream": true}));
    assert!(
        streamed.text.contains("\"arguments\":\"{\\\"urgent\\\":true}\"") && streamed.text.contains("[DONE]"),
        "{streamed:?}"
    );
    // The client's own check has failed: it asks once more.
    let again = json!([
        {"role": "user", "content": "Help!"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "Look again."},
    ]);
    assert_eq!(chat("sorter", "boolean", json!({"messages": again})).status, 200);
    let runs = scenario.runs().len();
    let stranger =
        json!([{"role": "tool", "tool_call_id": "call_x", "content": "4"}, {"role": "user", "content": "a"}]);
    for (worker, kind, more, param, says) in [
        (
            "sorter",
            "string",
            json!({}),
            "tools[0].function.parameters",
            "`urgent` can be of the type boolean",
        ),
        ("echo", "boolean", json!({}), "tools[0].function.parameters", "declares no `returns`"),
        ("sorter", "boolean", json!({"messages": stranger}), "messages[0]", "of no other"),
        ("sorter", "boolean", json!({"tool_choice": "auto"}), "tools", "force one function"),
    ] {
        let refused = chat(worker, kind, more);
        let error = &refused.body["error"];
        assert_eq!((refused.status, &error["param"]), (400, &json!(param)), "{refused:?}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(says)), "{refused:?}");
    }
    assert_eq!(scenario.runs().len(), runs, "none of them starts a run");

    let tools = json!([{"type": "function", "name": "sorted", "parameters": schema("boolean")}, {"type": "mcp", "server_label": "llm-do"}]);
    let choice = json!({"type": "function", "name": "sorted"});
    let mut body = json!({"model": "desk/sorter", "input": "Help!", "tools": tools, "tool_choice": choice});
    let response = server.post("/v1/responses", &body).send().body;
    let [item] = &response["output"].as_array().expect("items")[..] else { panic!("{response}") };
    assert_eq!(
        (&item["type"], &item["arguments"]),
        (&json!("function_call"), &json!("{\"urgent\":true}")),
        "{response}"
    );
    assert_eq!((&response["tools"], &response["tool_choice"]), (&tools, &choice));
    body["background"] = true.into();
    let refused = server.post("/v1/responses", &body).send();
    assert_eq!((refused.status, &refused.body["error"]["param"]), (400, &json!("background")), "{refused:?}");
}

#[test]
fn settings_are_ignored_for_the_tokens_that_say_so_and_named_in_a_header() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", "    model_settings: ignore\n"));
    let server = Server::start(&scenario, &[]);
    let body = json!({"model": "desk/echo", "messages": user("Hello"), "temperature": 0.1, "max_tokens": 7, "top_p": 1});
    let said = server.post(CHAT, &body).token(TOKEN_OF_CI).send();
    assert_eq!(
        (said.status, said.header("llm-do-ignored")),
        (200, Some("max_tokens, temperature")),
        "{said:?}"
    );
    let refused = server.post(CHAT, &body).send();
    assert_eq!(
        (refused.status, &refused.body["error"]["param"]),
        (400, &json!("temperature")),
        "the operator's token refuses: {refused:?}"
    );
    assert_eq!(refused.header("llm-do-ignored"), None);
    let body =
        json!({"model": "desk/echo", "input": "Hello", "text": {"verbosity": "low"}, "max_output_tokens": 7});
    let said = server.post("/v1/responses", &body).token(TOKEN_OF_CI).send();
    assert_eq!(
        (said.status, said.header("llm-do-ignored")),
        (200, Some("max_output_tokens, text.verbosity")),
        "{said:?}"
    );
    let failing = json!({"model": "desk/failing", "messages": user("Hello"), "seed": 1});
    let failed = server.post(CHAT, &failing).token(TOKEN_OF_CI).send();
    assert_eq!((failed.status, failed.header("llm-do-ignored")), (424, Some("seed")), "{failed:?}");
}

#[test]
fn whole_conversation_may_come_with_an_approval_and_earlier_answers_are_history() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let mut input = vec![json!({"role": "user", "content": "Write."})];
    let tools = json!([{"type": "mcp", "server_label": "llm-do", "require_approval": "always"}]);
    let ask = |input: &[Value]| {
        let body = json!({"model": "desk/two", "instructions": "Be brief.", "input": input, "tools": tools});
        let response = server.post("/v1/responses", &body).send();
        assert_eq!(response.status, 200, "{response:?}");
        response.body
    };
    for _ in 0..2 {
        let asked = ask(&input);
        let items = asked["output"].as_array().expect("items").clone();
        let request = items.last().expect("an item")["id"].clone();
        input.extend(items);
        input.push(json!({"type": "mcp_approval_response", "approval_request_id": request, "approve": true}));
    }
    let done = ask(&input);
    assert!(done["output"].to_string().contains("Both written."), "{done}");
    assert_eq!(scenario.runs().len(), 1);
    let mut late = input.clone();
    late.push(json!({"role": "user", "content": "And then?"}));
    let body = json!({"model": "desk/two", "input": late, "tools": tools});
    let refused = server.post("/v1/responses", &body).send();
    assert_eq!((refused.status, &refused.body["error"]["param"]), (400, &json!("input")), "{refused:?}");
}
