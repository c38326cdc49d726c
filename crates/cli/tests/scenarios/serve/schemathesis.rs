//! Generated requests after the OpenAPI document: every answer is one that the document describes.

use super::{client::Server, desk};
use std::{env, process::Command};

#[test]
fn generated_requests_get_the_answers_of_the_document() {
    let Some(program) = env::var_os("LLM_DO_TEST_SCHEMATHESIS") else {
        println!("skipped: LLM_DO_TEST_SCHEMATHESIS names no schemathesis");
        return;
    };
    let scenario = desk();
    let server = Server::start(&scenario, &["--edit"]);
    let told = Command::new(program)
        .arg("run")
        .arg(format!("http://{}/openapi.json", server.address))
        .args(["--header", &format!("Authorization: Bearer {}", server.token)])
        .args([
            "--phases",
            "coverage,fuzzing",
            "--max-examples",
            "5",
            "--seed",
            "1",
            "--request-timeout",
            "30",
        ])
        // Streams end with their runs, or not at all.
        .args(["--exclude-path-regex", "/events$", "--warnings", "off", "--no-color"])
        // A schema can't say everything that a request must be: for example that a rule is one, or that a path is of a definition.
        .args(["--exclude-checks", "positive_data_acceptance"])
        .current_dir(scenario.project())
        .output()
        .expect("schemathesis starts");
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(told.status.success(), "{text}\n{}", String::from_utf8_lossy(&told.stderr));
    assert!(text.contains("generated"), "{text}");
    assert_eq!(server.get("/health").send().status, 200);
}
