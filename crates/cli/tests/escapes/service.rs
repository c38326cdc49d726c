//! Attacks by pages and clients of the service over HTTP.

use crate::{
    attempt::{
        Attempt, Escape, Group,
        Layer::Service,
        Outcome, Tried,
        Who::{Document, Process},
        must,
    },
    operator::{FRONT, write},
    world::World,
};
use serde_json::{Value, json};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::symlink,
    process::{Child, Command, Stdio},
    thread,
};

/// A worker that is handed a file, which it reads.
const READER: &str = "---\nparameters: {document: path}\nsandbox: {paths: {rw: {root: ./rw, mode: rw}}}\ntoolsets: {filesystem: {tools: [read_file]}}\n---\nRead.\n";

pub(crate) fn failed(error: io::Error) -> Escape {
    Escape(format!("the attack can't be made: {error}"))
}

/// A server, with the token of its operator.
pub(crate) struct Server {
    child: Child,
    address: String,
    token: String,
}

/// A status and a body.
pub(crate) type Answer = (u16, String);

impl Server {
    pub(crate) fn start(world: &World, options: &[&str]) -> Result<Self, Escape> {
        let all = [&["serve", ".", "--listen", "127.0.0.1:0"], options].concat();
        Self::of(world.command(&all))
    }

    /// The server that a command becomes.
    pub(crate) fn of(mut command: Command) -> Result<Self, Escape> {
        let mut child = command.stderr(Stdio::piped()).spawn().map_err(failed)?;
        let mut lines = BufReader::new(child.stderr.take().ok_or(Escape("no pipe".into()))?).lines();
        let mut said = String::new();
        let link = loop {
            let line = lines.next().ok_or_else(|| Escape(format!("the server did not start: {said}")))?;
            let line = line.map_err(failed)?;
            if let Some((_, link)) = line.split_once("open http://") {
                break link.to_owned();
            }
            said = said + &line + "\n";
        };
        thread::spawn(move || lines.for_each(drop));
        let (address, token) = link.split_once("/#token=").ok_or(Escape(format!("no token: {link}")))?;
        Ok(Self { child, address: address.to_owned(), token: token.to_owned() })
    }

    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &str,
        body: &Value,
    ) -> Result<Answer, Escape> {
        let mut stream = TcpStream::connect(&self.address).map_err(failed)?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let host =
            if headers.contains("Host:") { String::new() } else { format!("Host: {}\r\n", self.address) };
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{host}{headers}Content-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let _ = stream.write_all(format!("{head}{body}").as_bytes());
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).map_err(failed)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok((status.ok_or(Escape(format!("no answer: {text:?}")))?, text))
    }

    pub(crate) fn with_token(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.token)
    }

    /// Signs in as a page of the server with that token. Returns the cookie as a browser sends it, and the page's header.
    fn sign_in(&self, token: &str) -> Result<(String, String), Escape> {
        let headers = format!("Authorization: Bearer {token}\r\nOrigin: http://{}\r\n", self.address);
        let (status, text) = self.ask("POST", "/v1/session", &headers, &Value::Null)?;
        must(status == 201, format!("the page signs in: {text}"))?;
        let between = |before: &str, after: char| {
            text.split_once(before).and_then(|(_, rest)| rest.split_once(after)).map(|(found, _)| found)
        };
        let parts = between("set-cookie: ", ';').zip(between("\"secret\":\"", '"'));
        let (cookie, secret) = parts.ok_or(Escape(format!("no session: {text}")))?;
        Ok((format!("Cookie: {cookie}\r\n"), format!("Llm-Do-Session: {secret}\r\n")))
    }

    /// Returns headers of a session, as a page sends them with its requests.
    fn with_session(&self) -> Result<String, Escape> {
        self.sign_in(&self.token).map(|(cookie, secret)| cookie + &secret)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn prepare(world: &World) {
    world.put("main.worker", FRONT);
    world.put("workers/reader.worker", READER);
    world.put(
        "project.yaml",
        "name: desk\nversion: 1.0.0\nexports: [main, reader]\nmodel: script:script.json\n",
    );
    world.script(&[("main", vec![write("rw/new.txt", "x")])]);
    world.arm();
}

pub(crate) fn group() -> Group {
    Group {
        title: "Pages and clients of the service",
        about: "Requests to a server with the token of its operator. The control makes the same request as the server's own page, or \
                for a file that the worker sees.",
        attempts: vec![
            Attempt::new(
                Document,
                Service,
                "a page of another site, or of another port, starting a run with the session of a browser",
                "a request with the cookie needs the server's own `Origin`, and `Sec-Fetch-Site` must not say otherwise",
                foreign_page,
            ),
            Attempt::new(
                Document,
                Service,
                "a page whose name leads to this machine (DNS rebinding), with the session of a browser",
                "requests for another host than the server's own address are refused before anything else",
                rebinding,
            ),
            Attempt::new(
                Process,
                Service,
                "another port of this machine that received the browser's cookie, using it for requests of its own",
                "the cookie is a session and no token, and is useless without the secret that the page keeps in its origin",
                stolen_cookie,
            ),
            Attempt::new(
                Process,
                Service,
                "another port that sets the cookie of its own session, to sign the page in as somebody else",
                "the page's secret and the cookie must be of one session",
                foreign_session,
            ),
            Attempt::new(
                Document,
                Service,
                "a page of another origin that signs in with a token of its own",
                "signing in needs the server's own `Origin`",
                foreign_sign_in,
            ),
            Attempt::new(
                Process,
                Service,
                "a client whose token is for one program, reading the counts of another program",
                "`/metrics` has only what the token may see",
                foreign_counts,
            ),
            Attempt::new(
                Process,
                Service,
                "a client that takes all runs, all sessions of MCP and all room for uploads",
                "each token has quotas, by default half of what there is",
                everything_taken,
            ),
            Attempt::new(
                Process,
                Service,
                "a client that hands a worker a file outside of its view, by a parameter or as an attachment",
                "a client's input names only what the worker sees, and uploads",
                outside_the_view,
            ),
            Attempt::new(
                Process,
                Service,
                "a client with `edit` that writes outside of the program, into `.git` in any case, or through a link",
                "only definition files inside the program are written, and links are not followed",
                planted,
            ),
        ],
    }
}

fn foreign_page(world: &World) -> Tried {
    prepare(world);
    let server = Server::start(world, &[])?;
    let start = json!({"message": "Write."});
    let own = format!("Origin: http://{}\r\n", server.address);
    for headers in [
        String::new(),
        "Origin: https://evil.example\r\n".into(),
        "Origin: http://127.0.0.1:1\r\n".into(),
        "Origin: null\r\n".into(),
        format!("{own}Sec-Fetch-Site: same-site\r\n"),
        format!("{own}Sec-Fetch-Site: cross-site\r\n"),
    ] {
        let (status, text) = server.ask("POST", "/v1/runs", &(server.with_session()? + &headers), &start)?;
        must(status == 403, format!("{headers}: {text}"))?;
    }
    let (status, text) = server.ask("POST", "/v1/runs", &(server.with_session()? + &own), &start)?;
    must(status == 201, format!("the control: the server's own page may: {text}"))?;
    Ok(Outcome::Refused)
}

fn rebinding(world: &World) -> Tried {
    prepare(world);
    let server = Server::start(world, &[])?;
    let session = server.with_session()?;
    for host in ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example"] {
        for path in ["/", "/health", "/v1/session", "/v1/runs"] {
            let headers = format!("Host: {host}\r\n{session}");
            let (status, text) = server.ask("GET", path, &headers, &Value::Null)?;
            must(status == 403, format!("{host}{path}: {text}"))?;
        }
    }
    let (status, text) = server.ask("GET", "/v1/session", &session, &Value::Null)?;
    must(status == 200, format!("the control: {text}"))?;
    Ok(Outcome::Refused)
}

/// The text of a further token, which `serve.yaml` has.
const OTHER: &str = "other-0123456789abcdef";

/// The place of the server's configuration, in the folder of a world.
const CONFIGURATION: &str = "home/.llm-do/serve.yaml";

fn configure(world: &World, text: &str) {
    let path = world.top.join(CONFIGURATION);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn other_token(world: &World, more: &str) {
    let hash = llm_do::core::schema::sha256(OTHER.as_bytes());
    let file = format!("tokens:\n  - {{name: other, sha256: {hash}, scopes: [start, read]{more}}}\n");
    configure(world, &file);
}

fn stolen_cookie(world: &World) -> Tried {
    prepare(world);
    let server = Server::start(world, &[])?;
    let (cookie, secret) = server.sign_in(&server.token)?;
    let own = format!("Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", server.address);
    let start = json!({"message": "Write."});
    let value = cookie.trim_end().split_once('=').map(|(_, value)| value.to_owned()).unwrap_or_default();
    for guess in [
        String::new(),
        "Llm-Do-Session: \r\n".into(),
        format!("Llm-Do-Session: {value}\r\n"),
        format!("Authorization: Bearer {value}\r\n"),
    ] {
        let headers = format!("{cookie}{own}{guess}");
        let (status, text) = server.ask("POST", "/v1/runs", &headers, &start)?;
        must(status == 401, format!("{guess}: {text}"))?;
        let (status, text) = server.ask("GET", "/v1/runs", &headers, &Value::Null)?;
        must(status == 401, format!("{guess}: {text}"))?;
    }
    must(!cookie.contains(&server.token), "the cookie has the token")?;
    let (status, text) = server.ask("POST", "/v1/runs", &format!("{cookie}{own}{secret}"), &start)?;
    must(status == 201, format!("the control: the page with its secret: {text}"))?;
    Ok(Outcome::Refused)
}

fn foreign_session(world: &World) -> Tried {
    other_token(world, "");
    prepare(world);
    let server = Server::start(world, &[])?;
    let (_, secret) = server.sign_in(&server.token)?;
    let (foreign, of_foreign) = server.sign_in(OTHER)?;
    let own = format!("Origin: http://{}\r\n", server.address);
    let start = json!({"message": "Write."});
    let (status, text) = server.ask("POST", "/v1/runs", &format!("{foreign}{own}{secret}"), &start)?;
    must(status == 401, format!("the page starts a run as somebody else: {text}"))?;
    let (status, text) = server.ask("POST", "/v1/runs", &format!("{foreign}{own}{of_foreign}"), &start)?;
    must(status == 201, format!("the control: the session with its own secret: {text}"))?;
    Ok(Outcome::Refused)
}

fn foreign_sign_in(world: &World) -> Tried {
    prepare(world);
    let server = Server::start(world, &[])?;
    for origin in
        ["", "Origin: https://evil.example\r\n", "Origin: http://127.0.0.1:1\r\n", "Origin: null\r\n"]
    {
        let headers = server.with_token() + origin;
        let (status, text) = server.ask("POST", "/v1/session", &headers, &Value::Null)?;
        let signed_in = text.to_ascii_lowercase().contains("set-cookie");
        must(status == 403 && !signed_in, format!("{origin}: {text}"))?;
    }
    server.sign_in(&server.token)?;
    Ok(Outcome::Refused)
}

fn foreign_counts(world: &World) -> Tried {
    world.put("mail/secret-worker.worker", "---\nmodel: script:mail/s.yaml\n---\nHi.\n");
    world.put("mail/s.yaml", "answers:\n  - text: Hello!\n");
    other_token(world, ", read: all, programs: [desk]");
    prepare(world);
    let server = Server::start(world, &["mail=mail/secret-worker.worker"])?;
    let run = json!({"program": "mail", "message": "Hi."});
    let (status, text) = server.ask("POST", "/v1/runs?wait=20", &server.with_token(), &run)?;
    must(status == 201, format!("a run of another program: {text}"))?;
    let of_other = format!("Authorization: Bearer {OTHER}\r\n");
    let (status, text) = server.ask("GET", "/metrics", &of_other, &Value::Null)?;
    must(status == 200, format!("the control: the token reads metrics: {text}"))?;
    must(!text.contains("mail") && !text.contains("secret-worker"), format!("another program: {text}"))?;
    let (_, text) = server.ask("GET", "/metrics", &server.with_token(), &Value::Null)?;
    must(text.contains("program=\"mail\""), format!("the control: the operator sees it: {text}"))?;
    Ok(Outcome::Refused)
}

fn everything_taken(world: &World) -> Tried {
    other_token(world, "");
    let tokens = std::fs::read_to_string(world.top.join(CONFIGURATION)).map_err(failed)?;
    configure(world, &format!("{tokens}quotas: {{all: {{upload_files: 4, mcp_sessions: 4}}}}\n"));
    world.put("workers/slow.worker", "---\nmodel: script:slow.yaml\n---\nThink.\n");
    world.put("slow.yaml", "answers:\n  - text: late\n    delay_ms: 600000\n");
    prepare(world);
    world.put(
        "project.yaml",
        "name: desk\nversion: 1.0.0\nexports: [main, reader, slow]\nmodel: script:script.json\n",
    );
    let server = Server::start(world, &["--max-runs", "4"])?;
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}});
    let slow = json!({"worker": "slow", "message": "a"});
    let greedy = format!("Authorization: Bearer {OTHER}\r\n");
    for (path, headers, body, good) in [
        ("/v1/runs", "", &slow, 201),
        ("/v1/uploads?name=a.txt", "", &json!("text"), 201),
        ("/mcp", "Accept: application/json, text/event-stream\r\n", &begin, 200),
    ] {
        let statuses: Vec<u16> = (0..6)
            .map(|_| server.ask("POST", path, &format!("{greedy}{headers}"), body).map(|(status, _)| status))
            .collect::<Result<_, _>>()?;
        must(statuses == [good, good, 429, 429, 429, 429], format!("{path}: {statuses:?}"))?;
        let (status, text) = server.ask("POST", path, &(server.with_token() + headers), body)?;
        must(status == good, format!("the control: another token still may: {path}: {text}"))?;
    }
    Ok(Outcome::Refused)
}

fn outside_the_view(world: &World) -> Tried {
    world.put("rw/seen.txt", "seen");
    let secret = world.outside("secret.txt");
    std::fs::write(&secret, &world.secret).map_err(failed)?;
    symlink(&secret, world.project("rw/link.txt")).map_err(failed)?;
    prepare(world);
    let server = Server::start(world, &[])?;
    for path in [
        &*secret.to_string_lossy(),
        "../outside/secret.txt",
        "/rw/../../outside/secret.txt",
        "/rw/link.txt",
        "/.env",
    ] {
        for body in [
            json!({"worker": "reader", "input": {"document": path}}),
            json!({"worker": "main", "message": "Look.", "attachments": [path]}),
        ] {
            let (status, text) = server.ask("POST", "/v1/runs?wait=20", &server.with_token(), &body)?;
            must(status == 422 && !text.contains(&world.secret), format!("{path}: {text}"))?;
        }
    }
    let body = json!({"worker": "reader", "input": {"document": "/rw/seen.txt"}});
    let (status, text) = server.ask("POST", "/v1/runs", &server.with_token(), &body)?;
    must(status == 201, format!("the control: a file that the worker sees: {text}"))?;
    Ok(Outcome::Refused)
}

fn planted(world: &World) -> Tried {
    symlink(world.outside(""), world.project("away")).map_err(failed)?;
    prepare(world);
    let server = Server::start(world, &["--edit"])?;
    let put = |path: &str| {
        let body = json!({"path": path, "text": "---\n---\nPlanted.\n", "sha256": null});
        server.ask("PUT", "/v1/programs/desk/files/content", &server.with_token(), &body)
    };
    for path in [
        "../outside/planted.worker",
        "away/planted.worker",
        "/tmp/planted.worker",
        ".git/hooks/planted.worker",
        ".GIT/planted.worker",
        ".Env.worker",
        ".llm-do/planted.worker",
        ".github/planted.worker",
        "hooks/planted.worker",
        "planted.sh",
    ] {
        let (status, text) = put(path)?;
        must([400, 403].contains(&status), format!("{path}: {text}"))?;
    }
    must(!world.outside("planted.worker").exists(), "a file lies outside")?;
    let (status, text) = put("planted.worker")?;
    must(status == 200, format!("the control: a worker of the program: {text}"))?;
    Ok(Outcome::Refused)
}
