//! Attacks by clients of the service that name more than the worker sees, or allow more than the operator did.

use crate::{
    attempt::{
        Attempt, Escape, Group,
        Layer::{Authority, Gate, Journal, Service},
        Outcome, Tried,
        Who::{Process, Project},
        holds, must,
    },
    operator::write,
    service::{Answer, Server, failed},
    world::{World, eventually},
};
use serde_json::{Value, json};
use std::{fs, path::Path, time::Duration};

/// The project of a desk: `reader` is handed a file to read, `writer` a file to write. Both see `ro`, and of it only texts.
fn desk(world: &World, mount: &str) {
    let paths = format!("{{desk: {{root: ./ro, mode: ro, suffixes: [.txt], max_file_bytes: 100{mount}}}}}");
    let worker = |parameters: &str, sandbox: &str| {
        format!(
            "---\nparameters: {{{parameters}}}\nmodel: script:script.json\nsandbox: {{paths: {paths}{sandbox}}}\ntoolsets: {{filesystem: {{tools: [read_file]}}}}\n---\nWork.\n"
        )
    };
    world.put("workers/reader.worker", worker("document: path", ", read: [\"${document}\"]"));
    world.put("workers/writer.worker", worker("report: path", ", write: [\"${report}\"]"));
    world.put("workers/looker.worker", worker("input: string", ""));
    world.put("main.worker", "---\nmodel: script:script.json\n---\nWork.\n");
    world.put("project.yaml", "name: desk\nversion: 1.0.0\nexports: [looker, reader, writer]\n");
    world.put("private.txt", &world.secret);
    world.put("ro/private.key", &world.secret);
    world.put("ro/large.txt", format!("{}{}", world.secret, "x".repeat(200)));
    world.put("ro/seen.txt", "seen");
    world.script(&[("looker", vec![]), ("reader", vec![]), ("writer", vec![])]);
    world.rearm();
}

fn start(server: &Server, body: &Value) -> Result<Answer, Escape> {
    server.ask("POST", "/v1/runs?wait=20", &server.with_token(), body)
}

fn get(server: &Server, path: &str) -> Result<Answer, Escape> {
    server.ask("GET", path, &server.with_token(), &Value::Null)
}

/// The value of a JSON body.
fn body(text: &str) -> Result<Value, Escape> {
    let json = text.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    let json = json.find('{').map_or("", |begin| &json[begin..]);
    let json = json.rfind('}').map_or("", |end| &json[..=end]);
    serde_json::from_str(json).map_err(|error| Escape(format!("no JSON ({error}): {text}")))
}

/// The ID of a run that was started.
fn run_of((status, text): &Answer) -> Result<String, Escape> {
    must(*status == 201, format!("the control: it starts: {text}"))?;
    let run = body(text)?["run"].as_str().map(str::to_owned);
    run.ok_or_else(|| Escape(format!("no run: {text}")))
}

/// The answer has no content of a file that the client may not read.
fn no_content(world: &World, name: &str, (status, text): &Answer) -> Result<(), Escape> {
    must(*status >= 400 && !text.contains(&world.secret), format!("ESCAPE: {name}: {text}"))
}

pub(crate) fn group() -> Group {
    Group {
        title: "Authority of clients",
        about: "A client with the token of the operator names files, calls workers in a chat, and repeats requests. It reaches \
                what the worker that it starts sees, under the rules of that worker and of the operator. Each control does the \
                same inside these limits.",
        attempts: vec![
            Attempt::new(
                Process,
                Authority,
                "a client that names a file of the program's folder that the worker does not see",
                "a client's paths are located in the worker's own view, with its mounts, modes, suffixes and sizes",
                beyond_the_mounts,
            ),
            Attempt::new(
                Process,
                Authority,
                "a client of a lone worker that is served from the home directory, or from a folder above it",
                "a run of a client has no view without declared mounts that holds the home directory",
                served_home,
            ),
            Attempt::new(
                Process,
                Gate,
                "a client that reads a file which a rule of the operator, a mount or the worker does not let the worker read",
                "a client's read is judged as the worker's `read_file`; what asks or is blocked is refused",
                past_the_gate,
            ),
            Attempt::new(
                Process,
                Service,
                "an answer to a chat that runs an unexported worker, adds instructions, or allows everything",
                "an answer runs exported workers with declared parameters, and its rules only tighten",
                more_in_a_chat,
            ),
            Attempt::new(
                Process,
                Authority,
                "an answer to a chat that hands an exported worker a file which that worker does not see",
                "the paths of a client's call are located in the view of the called worker",
                handed_in_a_chat,
            ),
            Attempt::new(
                Project,
                Journal,
                "a run of a cloned project that claims to be the answer to a client's idempotency key",
                "runs that this user's key has not sealed belong to no client, are not listed and not continued",
                forged_answer,
            ),
            Attempt::new(
                Project,
                Journal,
                "a forged end in a run of the client",
                "a client hears nothing from a journal with a record that this user's key has not sealed",
                forged_end,
            ),
        ],
    }
}

fn beyond_the_mounts(world: &World) -> Tried {
    desk(world, "");
    let server = Server::start(world, &[])?;
    let run = run_of(&start(&server, &json!({"worker": "looker", "message": "Look."}))?)?;
    let content = |path: &str| get(&server, &format!("/v1/runs/{run}/files/content?path={path}"));
    let hidden = [
        "/private.txt",
        "/ro/seen.txt",
        "/main.worker",
        "/desk/private.key",
        "/desk/large.txt",
        "/rw/mine.txt",
    ];
    for path in hidden {
        no_content(world, path, &content(path)?)?;
        let attached = json!({"worker": "looker", "message": "Look.", "attachments": [path]});
        no_content(world, path, &start(&server, &attached)?)?;
        if path != "/desk/large.txt" {
            let handed = json!({"worker": "reader", "input": {"document": path}});
            no_content(world, path, &start(&server, &handed)?)?;
        }
    }
    for path in ["/desk/new.txt", "/desk/seen.txt", "/rw/mine.txt", "/rw/new.txt", "/project.yaml"] {
        let (status, text) = start(&server, &json!({"worker": "writer", "input": {"report": path}}))?;
        must(status == 422, format!("ESCAPE: {path} is handed over for writing: {text}"))?;
    }
    let (status, text) = get(&server, &format!("/v1/runs/{run}/files"))?;
    let names = body(&text)?["entries"].clone();
    must(status == 200 && names == json!([{"name": "desk", "kind": "folder"}]), format!("listed: {text}"))?;
    let (status, text) = content("/desk/seen.txt")?;
    must(status == 200 && text.ends_with("seen"), format!("the control: a file of the mount: {text}"))?;
    let handed = json!({"worker": "reader", "input": {"document": "/desk/seen.txt"}});
    run_of(&start(&server, &handed)?)?;
    Ok(Outcome::NotThere)
}

fn served_home(world: &World) -> Tried {
    let desk = world.top.join("desk");
    let home = desk.join("home");
    for folder in [home.join(".ssh"), home.join("work")] {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(home.join(".ssh/id_rsa"), &world.secret).map_err(failed)?;
    let reads = |path: &str| crate::binary::call("read_file", json!({"path": path}));
    let served = |folder: &Path, reads: Value| {
        let worker = "---\nmodel: script:script.json\ntoolsets: {filesystem: {tools: [read_file, list_files]}}\n---\nRead.\n";
        fs::write(folder.join("lone.worker"), worker).map_err(failed)?;
        world.script(&[("lone", vec![reads])]);
        fs::copy(world.project("script.json"), folder.join("script.json")).map_err(failed)?;
        let mut command = world.command(&["serve", "lone.worker", "--listen", "127.0.0.1:0"]);
        command.current_dir(folder).env("HOME", &home);
        Server::of(command)
    };
    for (folder, key) in [(&home, ".ssh/id_rsa"), (&desk, "home/.ssh/id_rsa")] {
        let server = served(folder, reads(key))?;
        let run = run_of(&start(&server, &json!({"message": "Read."}))?)?;
        for path in [format!("/{key}"), "/lone.worker".to_owned()] {
            let content = get(&server, &format!("/v1/runs/{run}/files/content?path={path}"))?;
            no_content(world, &path, &content)?;
            let attached = json!({"message": "Look.", "attachments": [path]});
            let (status, text) = start(&server, &attached)?;
            must(status == 422, format!("ESCAPE: {path} is attached: {text}"))?;
        }
        let (_, events) = get(&server, &format!("/v1/runs/{run}/events"))?;
        must(!events.contains(&world.secret), format!("ESCAPE: the worker read it: {events}"))?;
        holds(&events, &["does not exist here"])?;
    }
    let server = served(&home.join("work"), reads("lone.worker"))?;
    let run = run_of(&start(&server, &json!({"message": "Read."}))?)?;
    let (status, text) = get(&server, &format!("/v1/runs/{run}/files/content?path=/lone.worker"))?;
    must(status == 200, format!("the control: a file beside a lone worker elsewhere: {text}"))?;
    Ok(Outcome::NotThere)
}

fn past_the_gate(world: &World) -> Tried {
    let refused = |server: &Server, path: &str| -> Result<(), Escape> {
        let run = run_of(&start(server, &json!({"worker": "looker", "message": "Look."}))?)?;
        let content = get(server, &format!("/v1/runs/{run}/files/content?path={path}"))?;
        no_content(world, path, &content)?;
        holds(&content.1, &["can't be read by a client"])?;
        let attached = json!({"worker": "looker", "message": "Look.", "attachments": [path]});
        no_content(world, path, &start(server, &attached)?)
    };
    for (mount, options, hands) in [
        ("", &["--deny", "read_file(ro/se*)"][..], false),
        ("", &["--ask", "read_file(ro/se*)"], true),
        (", read_approval: blocked", &[], false),
        (", read_approval: ask", &[], true),
    ] {
        desk(world, mount);
        world.put("ro/secret.txt", &world.secret);
        let server = Server::start(world, options)?;
        refused(&server, "/desk/secret.txt")?;
        let handed = start(&server, &json!({"worker": "reader", "input": {"document": "/desk/secret.txt"}}))?;
        let run = run_of(&handed)?;
        let (_, view) = get(&server, &format!("/v1/runs/{run}"))?;
        let is_refused = body(&view)?["state"] == "refused";
        must(is_refused != hands, format!("ESCAPE: with {options:?} and `{mount}`, a parameter: {view}"))?;
        if mount.is_empty() {
            let (status, text) = get(&server, &format!("/v1/runs/{run}/files?path=/desk"))?;
            must(status == 200, format!("the control: a folder that no rule is about: {text}"))?;
        } else {
            let listed = get(&server, &format!("/v1/runs/{run}/files?path=/desk"))?;
            must(listed.0 == 403, format!("ESCAPE: the names in a mount that asks: {}", listed.1))?;
        }
    }
    // A read that is handed over asks the operator in the run.
    desk(world, ", read_approval: ask");
    world.script(&[("reader", vec![crate::binary::call("read_file", json!({"path": "/document"}))])]);
    let server = Server::start(world, &[])?;
    let handed = start(&server, &json!({"worker": "reader", "input": {"document": "/desk/seen.txt"}}))?;
    let state = body(&handed.1)?;
    must(state["state"] == "waiting", format!("ESCAPE: it was read without a question: {}", handed.1))?;
    Ok(Outcome::Refused)
}

/// A chat of `looker` that waits for an answer: its run, and the fields of an answer.
fn chat(server: &Server) -> Result<(String, Value), Escape> {
    let run = run_of(&start(server, &json!({"worker": "looker", "message": "Hi.", "chat": true}))?)?;
    let question = question(server, &run)?;
    Ok((run, question))
}

fn question(server: &Server, run: &str) -> Result<Value, Escape> {
    let mut found = Value::Null;
    let waits = eventually(Duration::from_secs(20), || {
        let view = get(server, &format!("/v1/runs/{run}")).and_then(|(_, text)| body(&text));
        found = view.map(|view| view["questions"][0].clone()).unwrap_or_default();
        found["conversation"].is_object()
    });
    must(waits, format!("the control: the chat waits: {found}"))?;
    Ok(json!({"call": found["call"], "step": found["step"], "digest": found["digest"]}))
}

fn answer(server: &Server, run: &str, question: &Value, answer: &Value) -> Result<Answer, Escape> {
    let mut body = question.clone();
    for (name, value) in answer.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    server.ask("POST", &format!("/v1/runs/{run}/answers"), &server.with_token(), &body)
}

fn more_in_a_chat(world: &World) -> Tried {
    desk(world, "");
    world.put(
        "workers/hidden.worker",
        "---\nmodel: script:script.json\ntoolsets: {filesystem: {tools: [write_file]}}\n---\nWrite.\n",
    );
    world.script(&[("looker", vec![]), ("hidden", vec![write("rw/new.txt", "x")])]);
    let server = Server::start(world, &[])?;
    let (run, question) = chat(&server)?;
    for (given, status) in [
        (json!({"answer": "run", "worker": "hidden", "input": {}}), 404),
        (json!({"answer": "run", "worker": "./workers/hidden", "input": {}}), 404),
        (json!({"answer": "run", "worker": "main", "input": {}}), 404),
        (json!({"answer": "run", "worker": "looker", "input": {"input": "x", "instructions": "Obey."}}), 422),
        (json!({"answer": "run", "worker": "looker", "input": {"input": "x", "attachments": ["/a"]}}), 422),
        (json!({"answer": "rule", "rule": "preApproved", "calls": "*"}), 403),
        (json!({"answer": "rule", "rule": "preApproved", "calls": "write_file"}), 403),
        (json!({"answer": "forget", "of": {"call": "0", "step": "message.1"}}), 403),
    ] {
        let (got, text) = answer(&server, &run, &question, &given)?;
        must(got == status, format!("ESCAPE: {given}: {text}"))?;
    }
    must(!world.project("rw/new.txt").exists(), "ESCAPE: it was written")?;
    let tightens = json!({"answer": "rule", "rule": "blocked", "calls": "write_file"});
    let (status, text) = answer(&server, &run, &question, &tightens)?;
    must(status == 204, format!("the control: a rule that tightens: {text}"))?;
    Ok(Outcome::Refused)
}

fn handed_in_a_chat(world: &World) -> Tried {
    desk(world, "");
    let read = crate::binary::call("read_file", json!({"path": "/document"}));
    world.script(&[("looker", vec![]), ("reader", vec![read])]);
    let server = Server::start(world, &[])?;
    let (run, _) = chat(&server)?;
    let outside = world.outside("canary.txt").display().to_string();
    for path in ["/private.txt", "/desk/private.key", "/main.worker", "/ro/private.key", &outside] {
        let question = question(&server, &run)?;
        let given = json!({"answer": "run", "worker": "reader", "input": {"document": path}});
        let (status, text) = answer(&server, &run, &question, &given)?;
        must(status == 204, format!("the control: the worker is exported: {text}"))?;
    }
    question(&server, &run)?;
    let given = json!({"answer": "run", "worker": "reader", "input": {"document": "/desk/seen.txt"}});
    answer(&server, &run, &question(&server, &run)?, &given)?;
    question(&server, &run)?;
    let journal = fs::read_to_string(world.project(".llm-do/runs").join(&run).join("journal.jsonl"));
    let journal = journal.map_err(failed)?;
    must(!journal.contains(&world.secret), format!("ESCAPE: it was read: {journal}"))?;
    must(journal.contains("caller does not hold"), format!("it was not refused: {journal}"))?;
    must(journal.contains("\"seen\""), format!("the control: a file that `reader` sees is read: {journal}"))?;
    Ok(Outcome::Refused)
}

/// A server of another user over the same project.
fn server_of_others(world: &World) -> Result<Server, Escape> {
    let mut command = world.command(&["serve", ".", "--listen", "127.0.0.1:0"]);
    command.env("LLM_DO_HOME", world.top.join("theirs"));
    Server::of(command)
}

fn keyed(server: &Server, key: &str) -> Result<Answer, Escape> {
    let headers = format!("{}Idempotency-Key: {key}\r\n", server.with_token());
    let body = json!({"worker": "looker", "message": "Look."});
    server.ask("POST", "/v1/runs?wait=20", &headers, &body)
}

fn forged_answer(world: &World) -> Tried {
    desk(world, "");
    let theirs = server_of_others(world)?;
    let forged = run_of(&keyed(&theirs, "monthly")?)?;
    let (waiting, _) = chat(&theirs)?;
    drop(theirs);
    let again = server_of_others(world)?;
    let repeated = keyed(&again, "monthly")?;
    must(repeated.0 == 200, format!("the control: their own key finds their run: {}", repeated.1))?;
    drop(again);
    let server = Server::start(world, &[])?;
    let (_, listed) = get(&server, "/v1/runs")?;
    for run in [&forged, &waiting] {
        must(!listed.contains(run.as_str()), format!("ESCAPE: it is listed: {listed}"))?;
        for path in ["", "/events", "/files", "/export"] {
            let (status, text) = get(&server, &format!("/v1/runs/{run}{path}"))?;
            must(status == 404, format!("ESCAPE: {run}{path}: {text}"))?;
        }
    }
    let own = run_of(&keyed(&server, "monthly")?)?;
    must(own != forged, "ESCAPE: the forged run answers the key")?;
    Ok(Outcome::NotThere)
}

fn forged_end(world: &World) -> Tried {
    desk(world, "");
    let server = Server::start(world, &[])?;
    let run = run_of(&keyed(&server, "monthly")?)?;
    let ended = eventually(Duration::from_secs(20), || {
        get(&server, &format!("/v1/runs/{run}"))
            .is_ok_and(|(_, text)| text.contains("\"done\"") && text.contains("\"output\""))
    });
    must(ended, "the control: a client reads its own run")?;
    drop(server);
    let journal = world.project(".llm-do/runs").join(&run).join("journal.jsonl");
    let text = fs::read_to_string(&journal).map_err(failed)?;
    let last = text.lines().last().unwrap_or_default().to_owned();
    let forged = last.replacen("\"output\":\"", "\"output\":\"forged ", 1);
    must(forged != last, format!("the attack changes nothing: {last}"))?;
    fs::write(&journal, text.replace(&last, &forged)).map_err(failed)?;
    let server = Server::start(world, &[])?;
    for path in ["", "/events", "/export"] {
        let (status, text) = get(&server, &format!("/v1/runs/{run}{path}"))?;
        must(status == 404 && !text.contains("forged "), format!("ESCAPE: {path}: {text}"))?;
    }
    let (_, text) = keyed(&server, "monthly")?;
    must(!text.contains("forged "), format!("ESCAPE: the forged output answers the key: {text}"))?;
    Ok(Outcome::NotThere)
}
