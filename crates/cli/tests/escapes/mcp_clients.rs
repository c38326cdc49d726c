//! Attacks by clients of the MCP server: on its door, and on the questions of a run.

use crate::{
    attempt::{
        Attempt, Escape, Group,
        Layer::{Authority, Gate, McpServer},
        Outcome, Tried,
        Who::{Document, Process},
        must,
    },
    binary::call,
    operator::{FRONT, write},
    world::World,
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

/// The name of the only question.
const QUESTION: &str = "0/0.0:ask";

fn failed(error: io::Error) -> Escape {
    Escape(format!("the attack can't be made: {error}"))
}

/// A project whose worker writes a file, which asks.
fn prepare(world: &World) {
    world.put("main.worker", FRONT);
    world.script(&[("main", vec![write("rw/new.txt", "x")])]);
    world.arm();
}

fn wrote(world: &World) -> bool {
    world.project("rw/new.txt").exists()
}

/// A server over stdio, with a client of revision 2026-07-28.
struct Client {
    child: Child,
    stdin: ChildStdin,
    lines: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    fn start(world: &World) -> Result<Self, Escape> {
        prepare(world);
        Self::connected(world)
    }

    /// A client of a server of the project as it is.
    fn connected(world: &World) -> Result<Self, Escape> {
        let mut command = world.command(&["mcp", "serve", "."]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(Escape("the server has no pipes".to_owned()));
        };
        Ok(Self { child, stdin, lines: BufReader::new(stdout), next: 0 })
    }

    /// Calls the worker, with the further fields of a repeated call.
    fn call(&mut self, input: &str, further: &Value) -> Result<Value, Escape> {
        let mut params = json!({"name": "main", "arguments": {"input": input}});
        for (name, value) in further.as_object().into_iter().flatten() {
            params[name] = value.clone();
        }
        self.ask("tools/call", params, &json!({"elicitation": {"form": {}}}))
    }

    /// Sends a request of a client with these capabilities.
    fn ask(&mut self, method: &str, mut params: Value, capabilities: &Value) -> Result<Value, Escape> {
        self.next += 1;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "attacker", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        let request = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        writeln!(self.stdin, "{request}").map_err(failed)?;
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).map_err(failed)?;
            let message: Value =
                serde_json::from_str(&line).map_err(|error| Escape(format!("{error}: {line:?}")))?;
            if message["id"] == self.next {
                return Ok(message);
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn approves(state: &str) -> Value {
    json!({
        "requestState": state,
        "inputResponses": {QUESTION: {"action": "accept", "content": {"decision": "approve"}}},
    })
}

/// The state of the question that the call asks.
fn state_of(asked: &Value) -> Result<String, Escape> {
    let state = asked["result"]["requestState"].as_str();
    state.map(str::to_owned).ok_or_else(|| Escape(format!("the control: it asks: {asked}")))
}

/// An approval with that state does not count, and one with the right state does.
fn forged(world: &World, forge: impl Fn(&mut Client, &str) -> Result<Value, Escape>) -> Tried {
    let mut client = Client::start(world)?;
    let state = state_of(&client.call("one", &json!({}))?)?;
    let answer = forge(&mut client, &state)?;
    must(!wrote(world), format!("ESCAPE: it was written: {answer}"))?;
    must(answer["error"]["code"] == -32602, format!("ESCAPE: not refused: {answer}"))?;
    client.call("one", &approves(&state))?;
    must(wrote(world), "the control: with its own state it is written")?;
    Ok(Outcome::Refused)
}

/// Sends a call over HTTP with these headers in the place of the right ones, and returns the status.
fn knocks(world: &World, changed: &[(&str, &str)]) -> Result<u16, Escape> {
    let mut command = world.command(&["mcp", "serve", ".", "--allow", "write_file", "--http", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let status = child.stderr.take().map(|stderr| sent(BufReader::new(stderr), changed));
    let _ = child.kill();
    let _ = child.wait();
    status.unwrap_or_else(|| Err(Escape("the server has no pipe".to_owned())))
}

fn sent(mut log: impl BufRead, changed: &[(&str, &str)]) -> Result<u16, Escape> {
    let mut after = |what: &str| loop {
        let mut line = String::new();
        if log.read_line(&mut line).map_err(failed)? == 0 {
            return Err(Escape(format!("the server does not say `{what}`")));
        }
        if let Some((_, rest)) = line.trim().split_once(what) {
            return Ok(rest.to_owned());
        }
    };
    let address = after("http://")?.trim_end_matches("/mcp").to_owned();
    let authorization = format!("Bearer {}", after("token: ")?);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "attacker", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "main", "arguments": {"input": "go"}, "_meta": meta});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
    let length = body.len().to_string();
    let mut headers = vec![
        ("Host", address.as_str()),
        ("Authorization", &authorization),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "main"),
        ("Content-Length", &length),
        ("Connection", "close"),
    ];
    for header in changed {
        headers.retain(|(name, _)| *name != header.0);
        headers.push(*header);
    }
    let head: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut stream = TcpStream::connect(&address).map_err(failed)?;
    stream.write_all(format!("POST /mcp HTTP/1.1\r\n{head}\r\n{body}").as_bytes()).map_err(failed)?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(failed)?;
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.ok_or_else(|| Escape(format!("no status: {text}")))
}

/// Each of these headers keeps the call out. With the right ones the worker runs.
fn refused(world: &World, status: u16, wrong: &[(&str, &str)]) -> Tried {
    prepare(world);
    for header in wrong {
        let got = knocks(world, &[*header])?;
        must(got == status && !wrote(world), format!("ESCAPE: {header:?}: status {got}"))?;
    }
    let got = knocks(world, &[])?;
    must(got == 200 && wrote(world), format!("the control: with the right headers it runs: status {got}"))?;
    Ok(Outcome::Refused)
}

pub(crate) fn group() -> Group {
    Group {
        title: "Clients of the MCP server",
        about: "A client, or a stranger, wants a worker to write a file. Over HTTP the control is the same call with the \
                right headers; for answers, the same approval with the state that the server gave for this call.",
        attempts: vec![
            Attempt::new(
                Process,
                McpServer,
                "a program of this machine that does not know the token",
                "a request needs the token, compared in full",
                |world| {
                    refused(
                        world,
                        401,
                        &[("Authorization", ""), ("Authorization", "Bearer 0000000000000000")],
                    )
                },
            ),
            Attempt::new(
                Document,
                McpServer,
                "a page in a browser that knows the token",
                "`Origin` must be the server's own",
                |world| refused(world, 403, &[("Origin", "https://evil.example"), ("Origin", "null")]),
            ),
            Attempt::new(
                Document,
                McpServer,
                "a host name of a stranger that leads to the loopback interface",
                "`Host` must be a name of the loopback interface with the port",
                |world| refused(world, 403, &[("Host", "evil.example"), ("Host", "127.0.0.1:1")]),
            ),
            Attempt::new(
                Process,
                McpServer,
                "the ID of a run of the operator as that of a task",
                "a task is a run whose sealed journal says that a client of this server started it",
                |world| {
                    let mut client = Client::start(world)?;
                    let own = world.command(&[".", "-m", "secret", "--approval", "defer"]).output();
                    own.map_err(failed)?;
                    let runs = fs::read_dir(world.project(".llm-do/runs")).map_err(failed)?;
                    let own = runs.flatten().map(|run| run.file_name().to_string_lossy().into_owned()).next();
                    let own =
                        own.ok_or_else(|| Escape("the control: the operator's run waits".to_owned()))?;
                    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
                    for method in ["tasks/get", "tasks/cancel"] {
                        for id in [own.clone(), format!("./{own}"), format!("../runs/{own}")] {
                            let answer = client.ask(method, json!({"taskId": id}), &tasks)?;
                            let refused = answer["error"]["code"] == -32602;
                            must(refused, format!("ESCAPE: {method} {id}: {answer}"))?;
                        }
                    }
                    let call = json!({"name": "main", "arguments": {"input": "one"}});
                    let task = client.ask("tools/call", call, &tasks)?;
                    let id = json!({"taskId": task["result"]["taskId"]});
                    let seen = client.ask("tasks/get", id, &tasks)?;
                    must(seen["result"]["status"] == "working", format!("the control: {seen}"))?;
                    Ok(Outcome::Refused)
                },
            ),
            Attempt::new(
                Process,
                Authority,
                "a client of the MCP server that hands a worker a file which the worker does not see",
                "a client's paths are located in the worker's own view, with its mounts, modes, suffixes and sizes",
                |world| {
                    world.put(
                        "main.worker",
                        "---\nparameters: {document: path}\nmodel: script:script.json\nsandbox: {paths: {desk: {root: ./ro, mode: ro, suffixes: [.txt]}}}\ntoolsets: {filesystem: {tools: [read_file]}}\n---\nRead.\n",
                    );
                    world.put("private.txt", &world.secret);
                    world.put("ro/private.key", &world.secret);
                    world.script(&[("main", vec![call("read_file", json!({"path": "/document"}))])]);
                    world.arm();
                    let mut client = Client::connected(world)?;
                    let mut hand = |path: &str| {
                        let call = json!({"name": "main", "arguments": {"document": path}});
                        client.ask("tools/call", call, &json!({}))
                    };
                    let outside = world.outside("canary.txt").display().to_string();
                    let private = world.project("private.txt").display().to_string();
                    let hidden =
                        ["private.txt", "/private.txt", "ro/private.key", "/desk/private.key", "main.worker"];
                    for path in hidden.into_iter().chain([&*outside, &private]) {
                        let answer = hand(path)?;
                        must(answer["result"]["isError"] == true, format!("ESCAPE: {path}: {answer}"))?;
                    }
                    let journal = json!(world.journal()).to_string();
                    must(!journal.contains(&world.secret), format!("ESCAPE: it was read: {journal}"))?;
                    let seen = hand("/desk/theirs.txt")?;
                    must(
                        seen["result"]["isError"] != true,
                        format!("the control: it is handed over: {seen}"),
                    )?;
                    must(
                        json!(world.journal()).to_string().contains("to be read"),
                        "the control: it is read",
                    )?;
                    Ok(Outcome::NotThere)
                },
            ),
            Attempt::new(
                Process,
                Gate,
                "an approval with a state that the client has changed",
                "the state is sealed with the user's key",
                |world| {
                    forged(world, |client, state| {
                        let (front, back) = state.split_at(state.len() - 10);
                        let other = if back.starts_with('A') { 'B' } else { 'A' };
                        client.call("one", &approves(&format!("{front}{other}{}", &back[1..])))
                    })
                },
            ),
            Attempt::new(
                Process,
                Gate,
                "an approval with the state of a call with other arguments",
                "the state is bound to the tool and its arguments",
                |world| forged(world, |client, state| client.call("two", &approves(state))),
            ),
            Attempt::new(
                Process,
                Gate,
                "an approval before the question",
                "answers count only for questions that were asked in that round",
                |world| {
                    let mut client = Client::start(world)?;
                    let answers = json!({"inputResponses": approves("")["inputResponses"]});
                    let answer = client.call("one", &answers)?;
                    must(!wrote(world), format!("ESCAPE: it was written: {answer}"))?;
                    let state = state_of(&answer)?;
                    client.call("one", &approves(&state))?;
                    must(wrote(world), "the control: after the question it is written")?;
                    Ok(Outcome::AskedAgain)
                },
            ),
        ],
    }
}
