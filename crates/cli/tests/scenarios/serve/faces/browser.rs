//! A web chat that knows nothing of this server, in a real browser: its page is of an origin that the operator has named.

use super::{
    desk,
    official_clients::{clients, file, heard},
};
use crate::serve::client::Server;
use serde_json::json;
use std::{
    env, fs,
    io::{self, BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
    thread,
};

/// Serves the page and its script. Returns its origin.
fn page(script: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let origin = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let script = script.clone();
            // A browser that closes a connection early needs nothing from it.
            thread::spawn(move || drop(answer(client, &script)));
        }
    });
    origin
}

fn answer(mut client: TcpStream, script: &std::path::Path) -> io::Result<()> {
    let mut lines = BufReader::new(client.try_clone()?).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let (kind, body) = match first.split(' ').nth(1) {
        Some("/") => ("text/html", fs::read(file("page.html"))?),
        Some("/deepChat.bundle.js") => ("text/javascript", fs::read(script)?),
        _ => {
            return client
                .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes())?;
    client.write_all(&body)
}

#[test]
fn web_chat_of_a_named_origin_talks_to_workers_and_pages_of_others_do_not() {
    let Some(clients) = clients() else { return };
    let modules = clients.join("node_modules");
    let scenario = desk();
    let origin = page(modules.join("deep-chat/dist/deepChat.bundle.js"));
    let server = Server::start(&scenario, &["--allow-origin", &origin]);
    let chromium = env::var_os("LLM_DO_TEST_CHROMIUM").unwrap_or_else(|| "/usr/bin/chromium".into());
    let mut command = Command::new("node");
    command.arg(file("browser.mjs")).arg(&modules).arg(chromium);
    command.args([&format!("{origin}/"), &server.address, &server.token]);
    let heard = heard(&mut command);
    assert!(heard["read"].as_str().is_some_and(|text| text.contains("The note says: buy milk.")), "{heard}");
    assert!(heard["asked"].as_str().is_some_and(|text| text.contains("write_file")), "{heard}");
    let run = scenario.runs().into_iter().next_back().expect("a run");
    let run = run.file_name().and_then(|name| name.to_str()).expect("an ID").to_owned();
    assert_eq!(heard["links"], json!([format!("http://{}/#/runs/{run}", server.address)]), "{heard}");
    assert_eq!(heard["foreign"], "TypeError", "a page of another origin gets nothing: {heard}");

    let view = server.get(&format!("/v1/runs/{run}")).send().body;
    let question = &view["questions"][0];
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    assert_eq!(server.post(&format!("/v1/runs/{run}/answers"), &answer).send().status, 204);
    server.until(&run, |view| view["output"] == "Written.");
    assert_eq!(scenario.read("out/note.txt").as_deref(), Some("noted\n"));
}

#[test]
fn only_the_named_origin_may_call() {
    let scenario = desk();
    let named = "https://chat.example";
    let server = Server::start(&scenario, &["--allow-origin", named]);
    let preflight = |origin: &str| {
        server
            .ask("OPTIONS", "/v1/chat/completions", String::new())
            .without_token()
            .header("Origin", origin)
            .header("Access-Control-Request-Method", "POST")
            .header("Access-Control-Request-Headers", "authorization,content-type")
            .send()
    };
    let allowed = preflight(named);
    assert_eq!(
        (allowed.status, allowed.header("access-control-allow-origin")),
        (204, Some(named)),
        "{allowed:?}"
    );
    assert_eq!(allowed.header("access-control-allow-headers"), Some("authorization,content-type"));
    assert_eq!(allowed.header("access-control-allow-credentials"), None);
    for other in ["https://chat.example.evil", "http://chat.example", "null"] {
        let refused = preflight(other);
        assert_eq!(
            (refused.status, refused.header("access-control-allow-origin")),
            (403, None),
            "{other}: {refused:?}"
        );
    }
    let models = server.get("/v1/models").header("Origin", named).send();
    assert_eq!((models.status, models.header("access-control-allow-origin")), (200, Some(named)));
    let stranger = server.get("/v1/models").header("Origin", named).without_token().send();
    assert_eq!(stranger.status, 401, "an origin is no token: {stranger:?}");
    for wrong in ["*", "null", "https://chat.example/", "chat.example"] {
        let told = scenario.run(&["serve", ".", "--allow-origin", wrong]);
        assert_eq!(told.code, Some(2), "{wrong}: {told}");
    }
}
