//! Testing a program that calls workers: a script answers in place of the model, and the journal shows what was sent.
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use llm_do::{
    Error, Program, ProgramBuilder, event::RecordKind, host::runs::read_journal, schemars::JsonSchema,
};
use serde::Deserialize;
use std::{fs, path::Path};

const WORKER: &str = "---
parameters: {mail: string}
returns: {team: [billing, support], urgent: boolean}
---
Which team answers this mail?

{{ mail }}
";

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Triage {
    team: String,
    urgent: bool,
}

/// The function under test. The program opens it with a real model, and the test with a script.
async fn triage(program: &Program, mail: &str) -> Result<Triage, Error> {
    let worker = program.entry()?.returns::<Triage>()?;
    worker.call(llm_do::serde_json::json!({ "mail": mail })).await
}

fn in_test(folder: &Path, script: &str) -> ProgramBuilder {
    Program::builder(folder).home(folder.join("home")).temporary_journals().script(script)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("main.worker"), WORKER)?;

    // An entry answers only requests that its conditions fit, so that it also tests what is sent.
    let script = "
answers:
  - when: {worker: main, last: refund}
    json: {team: billing, urgent: true}
";
    let program = in_test(folder.path(), script).open()?;
    let expected = Triage { team: "billing".into(), urgent: true };
    assert_eq!(triage(&program, "I want a refund at once!").await?, expected);
    println!("a refund goes to billing");

    // What no entry answers is an error that says so.
    match triage(&program, "Hello").await {
        Err(Error::Failed(ended)) => println!("{}", ended.message.split(". ").next().unwrap_or_default()),
        other => return Err(format!("{other:?}").into()),
    }

    // A model that never gives a valid answer.
    let program = in_test(folder.path(), "answers: [{json: {team: sales}}]").open()?;
    let running = program.entry()?.call(llm_do::serde_json::json!({"mail": "Hi"})).start()?;
    let journal = running.journal().to_owned();
    match running.await {
        Err(Error::InvalidOutput(ended)) => println!("invalid: {}", ended.partial.unwrap_or_default()),
        other => return Err(format!("{other:?}").into()),
    }
    let records = read_journal(&journal)?.records;
    let requests = records.iter().filter(|record| matches!(record.body, RecordKind::ModelRequested { .. }));
    println!("asked {} times", requests.count());

    // Findings of `llm-do check`, as a test of the program's files.
    println!("{} findings", in_test(folder.path(), script).check()?.len());
    Ok(())
}
