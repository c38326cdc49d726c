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
        let link = loop {
            let line = lines.next().ok_or(Escape("the server did not start".into()))?.map_err(failed)?;
            if let Some((_, link)) = line.split_once("open http://") {
                break link.to_owned();
            }
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

    /// As a browser sends the cookie.
    fn with_cookie(&self) -> String {
        let port = self.address.rsplit(':').next().unwrap_or_default();
        format!("Cookie: llm-do-token-{port}={}\r\n", self.token)
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
                "a page of another site, or of another port, starting a run with the cookie of a browser",
                "a request with the cookie needs the server's own `Origin`, and `Sec-Fetch-Site` must not say otherwise",
                foreign_page,
            ),
            Attempt::new(
                Document,
                Service,
                "a page whose name leads to this machine (DNS rebinding), with the cookie of a browser",
                "requests for another host than the server's own address are refused before anything else",
                rebinding,
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
        let (status, text) = server.ask("POST", "/v1/runs", &(server.with_cookie() + &headers), &start)?;
        must(status == 403, format!("{headers}: {text}"))?;
    }
    let (status, text) = server.ask("POST", "/v1/runs", &(server.with_cookie() + &own), &start)?;
    must(status == 201, format!("the control: the server's own page may: {text}"))?;
    Ok(Outcome::Refused)
}

fn rebinding(world: &World) -> Tried {
    prepare(world);
    let server = Server::start(world, &[])?;
    for host in ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example"] {
        for path in ["/", "/health", "/v1/session", "/v1/runs"] {
            let headers = format!("Host: {host}\r\n{}", server.with_cookie());
            let (status, text) = server.ask("GET", path, &headers, &Value::Null)?;
            must(status == 403, format!("{host}{path}: {text}"))?;
        }
    }
    let (status, text) = server.ask("GET", "/v1/session", &server.with_cookie(), &Value::Null)?;
    must(status == 200, format!("the control: {text}"))?;
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
