//! A client that `openapi-python-client` generates from `/openapi.json`.
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use super::{client::Server, desk};
use crate::python_client::clients;
use std::process::Command;

const CALL: &str = r#"
import json, sys
from llm_do_serve_client import AuthenticatedClient
from llm_do_serve_client.api.default import list_questions, list_workers, start_run, upload
from llm_do_serve_client.models import Run, StartRun

address, token = sys.argv[1:]
with AuthenticatedClient(base_url=address, token=token) as client:
    names = [worker.worker for worker in list_workers.sync(client=client).workers]
    assert "greeter" in names, names
    run = start_run.sync(client=client, wait=60, body=StartRun.from_dict({"worker": "greeter", "input": {"name": "Ada"}}))
    assert isinstance(run, Run) and run.output == "Hello!", run
    problem = start_run.sync(client=client, body=StartRun.from_dict({"worker": "nothing", "message": "Go."}))
    assert problem.status == 404, problem
    waiting = start_run.sync(client=client, wait=60, body=StartRun.from_dict({"worker": "writer", "message": "Write."}))
    assert waiting.state == "waiting", waiting
    (question,) = list_questions.sync(client=client).questions
    assert question.to_dict()["run"] == waiting.run, question
print("called")
"#;

/// Uses the environment `venv` in the folder that `LLM_DO_TEST_CLIENTS` names.
#[test]
fn generated_python_client_makes_calls() {
    let Some(clients) = clients() else {
        eprintln!("skipped: LLM_DO_TEST_CLIENTS names no folder with clients");
        return;
    };
    let bin = clients.join("venv/bin");
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let document = server.get("/openapi.json").send().body;
    let file = scenario.project().join("openapi.json");
    std::fs::write(&file, document.to_string()).expect("written");
    let generated = Command::new(bin.join("openapi-python-client"))
        .args(["generate", "--meta", "none", "--output-path", "llm_do_serve_client", "--path"])
        .arg(&file)
        .current_dir(scenario.project())
        .output()
        .expect("openapi-python-client starts");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&generated.stdout),
        String::from_utf8_lossy(&generated.stderr)
    );
    assert!(generated.status.success(), "{said}");
    for wrong in ["Unable to", "duplicate", "will not be generated", "removal of"] {
        assert!(!said.contains(wrong), "{said}");
    }
    let called = Command::new(bin.join("python"))
        .args(["-c", CALL, &format!("http://{}", server.address), &server.token])
        .current_dir(scenario.project())
        .output()
        .expect("Python starts");
    let said =
        [called.stdout, called.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(called.status.success() && said.contains("called"), "{said}");
}
