//! Attacks on runs that start by themselves.

use crate::{
    attempt::{
        Attempt, Escape, Group,
        Layer::Service,
        Outcome, Tried,
        Who::{Document, Process},
        must,
    },
    operator::{FRONT, write},
    service::{Answer, Server, failed},
    world::{World, eventually},
};
use llm_do::core::schema::sha256;
use serde_json::json;
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    os::unix::fs::symlink,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const SECRET: &str = "a secret of the sender";

pub(crate) fn group() -> Group {
    Group {
        title: "Runs that start by themselves",
        about: "Deliveries to the webhooks of a server, files in its folders, and links in its messages. The control is a signed delivery \
                in time, a plain file, or the link on its own page.",
        attempts: vec![
            Attempt::new(
                Process,
                Service,
                "a delivery without the secret: unsigned, signed with another secret, or the signature of another body",
                "HMAC-SHA256 over the body is compared in constant time before the body is parsed",
                forged,
            ),
            Attempt::new(
                Process,
                Service,
                "a delivery that was recorded and is sent again: later, with another time, or with another ID",
                "only signed parts decide what a delivery is; the key of its run is in the run's journal",
                replayed,
            ),
            Attempt::new(
                Document,
                Service,
                "a symbolic link in the folder of a trigger, to a secret outside",
                "links start no runs, and a link that takes the place of a file leads nowhere out of the folder",
                link,
            ),
            Attempt::new(
                Process,
                Service,
                "the link of a message about a question, used for other requests, by a foreign page, or twice",
                "the token of a link is none of the server's; it is bound to the digest of its question, and holds once",
                link_of_message,
            ),
        ],
    }
}

/// HMAC-SHA256 (RFC 2104).
fn hmac(key: &str, message: &str) -> String {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key.as_bytes());
    let padded = |with: u8, rest: &[u8]| [&block.map(|byte| byte ^ with)[..], rest].concat();
    let inner = sha256(&padded(0x36, message.as_bytes()));
    let inner: Vec<u8> =
        (0..64).step_by(2).map(|at| u8::from_str_radix(&inner[at..at + 2], 16).unwrap()).collect();
    sha256(&padded(0x5c, &inner))
}

fn prepare(world: &World) {
    world.put(
        "main.worker",
        "---\nmodel: script:script.json\nattachment_policy: {max_attachments: 1}\n---\nRead.\n",
    );
    world.script(&[("main", Vec::new())]);
    world.arm();
}

fn serve(world: &World, triggers: &str) -> Result<Server, Escape> {
    let path = world.top.join("home/.llm-do/serve.yaml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, triggers).unwrap();
    let mut command = world.command(&["serve", ".", "--listen", "127.0.0.1:0"]);
    command.env("HOOK_SECRET", SECRET);
    Server::of(command)
}

fn hook(signature: &str) -> String {
    format!(
        "triggers:\n  - {{name: hook, webhook: {{signature: {signature}, secret: {{env: HOOK_SECRET}}}}, message: Read.}}\n"
    )
}

fn deliver(server: &Server, headers: &str, body: &serde_json::Value) -> Result<Answer, Escape> {
    server.ask("POST", "/v1/triggers/hook", headers, body)
}

fn runs(world: &World) -> usize {
    let entries = fs::read_dir(world.project(".llm-do/runs")).into_iter().flatten();
    entries
        .filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().join("journal.jsonl").exists()))
        .count()
}

fn forged(world: &World) -> Tried {
    prepare(world);
    let server = serve(world, &hook("github"))?;
    let body = json!({"amount": 1});
    let good = hmac(SECRET, &body.to_string());
    let operator = server.with_token();
    for headers in [
        String::new(),
        operator,
        format!("X-Hub-Signature-256: sha256={}\r\n", hmac("another secret", &body.to_string())),
        format!("X-Hub-Signature-256: sha256={}\r\n", hmac(SECRET, "{}")),
        format!("X-Hub-Signature-256: {good}\r\n"),
        "X-Hub-Signature-256: sha256=\r\n".to_owned(),
    ] {
        let (status, text) = deliver(&server, &headers, &body)?;
        must(status == 403, format!("ESCAPE: {headers}: {text}"))?;
    }
    must(runs(world) == 0, "ESCAPE: a run has started")?;
    let (status, text) = deliver(&server, &format!("X-Hub-Signature-256: sha256={good}\r\n"), &body)?;
    must(status == 202, format!("the control: {text}"))?;
    Ok(Outcome::Refused)
}

fn replayed(world: &World) -> Tried {
    prepare(world);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let body = json!({"id": "evt_1"});
    let server = serve(world, &hook("stripe"))?;
    let signed = |time: u64| hmac(SECRET, &format!("{time}.{body}"));
    let stripe = |time: u64, signature: &str| {
        deliver(&server, &format!("Stripe-Signature: t={time},v1={signature}\r\n"), &body)
    };
    let (status, text) = stripe(now - 600, &signed(now - 600))?;
    must(status == 403, format!("ESCAPE: a late one: {text}"))?;
    let (status, text) = stripe(now, &signed(now - 600))?;
    must(status == 403, format!("ESCAPE: another time: {text}"))?;
    let (status, text) = stripe(now, &signed(now))?;
    must(status == 202, format!("the control: {text}"))?;
    let (status, text) = stripe(now, &signed(now))?;
    must(status == 200, format!("ESCAPE: the same again: {text}"))?;
    drop(server);
    let server = serve(world, &hook("github"))?;
    let github = |id: &str| {
        let signature = hmac(SECRET, &body.to_string());
        deliver(
            &server,
            &format!("X-Hub-Signature-256: sha256={signature}\r\nX-GitHub-Delivery: {id}\r\n"),
            &body,
        )
    };
    let (status, text) = github("1")?;
    must(status == 202, format!("the control: {text}"))?;
    let (status, text) = github("2")?;
    must(status == 200, format!("ESCAPE: another ID: {text}"))?;
    must(runs(world) == 2, "ESCAPE: a further run")?;
    Ok(Outcome::Refused)
}

fn link(world: &World) -> Tried {
    prepare(world);
    let inbox = world.project("inbox");
    fs::create_dir_all(&inbox).unwrap();
    let settings = format!(
        "triggers:\n  - {{name: inbox, folder: {{path: {}, settle_s: 0}}, message: Read.}}\n",
        inbox.display()
    );
    symlink(world.outside("canary.txt"), inbox.join("a.txt")).unwrap();
    symlink("../.env", inbox.join("b.txt")).unwrap();
    let server = serve(world, &settings)?;
    fs::write(inbox.join("c.txt"), "plain").unwrap();
    must(eventually(Duration::from_secs(60), || runs(world) == 1), "the control: no run of a plain file")?;
    // A file after it in the order of names, so that both links have been passed.
    fs::write(inbox.join("d.txt"), "plain").unwrap();
    must(eventually(Duration::from_secs(60), || runs(world) == 2), "the control: no run of a second file")?;
    drop(server);
    must(runs(world) == 2, "ESCAPE: a link has started a run")?;
    for entry in fs::read_dir(world.project(".llm-do/runs")).unwrap().flatten() {
        world.disclose(fs::read_to_string(entry.path().join("journal.jsonl")).unwrap_or_default());
    }
    Ok(Outcome::NotThere)
}

/// The body of one request to a service that somebody else runs.
fn message(listener: &TcpListener) -> Result<serde_json::Value, Escape> {
    let (stream, _) = listener.accept().map_err(failed)?;
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).map_err(failed)?;
        match line.to_ascii_lowercase().trim_end().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap_or(0),
            None if line.trim().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).map_err(failed)?;
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    reader.into_inner().write_all(answer).map_err(failed)?;
    serde_json::from_slice(&body).map_err(|error| Escape(error.to_string()))
}

fn link_of_message(world: &World) -> Tried {
    world.put("main.worker", FRONT);
    world.script(&[("main", vec![write("rw/new.txt", "x")])]);
    world.arm();
    let settings = "notify: {to: [{name: team, when: [waiting], webhook: {url: {env: HOOK_URL}, secret: {env: HOOK_SECRET}}}]}\n";
    let path = world.top.join("home/.llm-do/serve.yaml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, settings).unwrap();
    let hook = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let mut command = world.command(&["serve", ".", "--listen", "127.0.0.1:0"]);
    command.env("HOOK_SECRET", SECRET).env("HOOK_URL", format!("http://{}/", hook.local_addr().unwrap()));
    let server = Server::of(command)?;
    let operator = server.with_token();
    let (status, text) = server.ask("POST", "/v1/runs?wait=60", &operator, &json!({"message": "Write."}))?;
    must(status == 201, format!("the run starts: {text}"))?;
    let told = message(&hook)?;
    let run = told["run"].as_str().unwrap_or_default();
    let link = told["answer"].as_str().and_then(|link| link.split_once("/answer/")).map(|(_, token)| token);
    let token = link.ok_or(Escape(format!("no link: {told}")))?;
    let bearer = format!("Authorization: Bearer {token}\r\n");
    for (method, path) in [
        ("GET", "/v1/runs".to_owned()),
        ("GET", format!("/v1/runs/{run}")),
        ("GET", "/v1/questions".to_owned()),
        ("POST", "/v1/runs".to_owned()),
        ("POST", format!("/v1/runs/{run}/answers")),
        ("POST", "/v1/session".to_owned()),
    ] {
        let (status, text) = server.ask(method, &path, &bearer, &json!({"message": "Write."}))?;
        must(status == 401, format!("ESCAPE: {path}: {text}"))?;
    }
    // JSON that is a form, too: its middle is the field.
    let body = json!({"": "&answer=approve&"});
    let form = |link: &str, headers: &str| server.ask("POST", &format!("/answer/{link}"), headers, &body);
    let (status, text) = form(token, "Origin: https://evil.example\r\n")?;
    must(status == 403, format!("ESCAPE: a foreign page: {text}"))?;
    let (status, text) = form(&"0".repeat(64), "")?;
    must(status == 410, format!("ESCAPE: a made-up token: {text}"))?;
    must(world.text("rw/new.txt").is_empty(), "ESCAPE: the call was made")?;
    let (status, text) = form(token, "")?;
    must(status == 200, format!("the control: {text}"))?;
    must(eventually(Duration::from_secs(60), || world.text("rw/new.txt") == "x"), "the control: no call")?;
    let (status, text) = form(token, "")?;
    must(status == 410, format!("ESCAPE: twice: {text}"))?;
    Ok(Outcome::Refused)
}
