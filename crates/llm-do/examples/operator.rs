//! An operator in code: it approves some calls, refuses others with a reason, and edits one.
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use llm_do::{
    Options, Program,
    operator::{Answer, Question, answer_with},
    serde_json::json,
};
use std::{error::Error, fs, sync::Arc};

const WORKER: &str = "---
toolsets: {filesystem: {}}
---
Write the notes.
";

const SCRIPT: &str = "
answers:
  - when: {turn: 0}
    calls:
      - {tool: write_file, arguments: {path: notes.md, content: draft}}
      - {tool: write_file, arguments: {path: plan.md, content: 'no plan'}}
      - {tool: delete_file, arguments: {path: notes.md}}
  - text: '{{ last }}'
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("main.worker"), WORKER)?;

    let operator = answer_with(|waiting| async move {
        let Question::Approval(call) = &waiting.question else { return None };
        println!("{} {} (risk {})", call.function, call.input, call.risk);
        Some(match (&*call.function, call.input["path"].as_str()) {
            ("write_file", Some("plan.md")) => {
                Answer::Edit { input: Arc::new(json!({"path": "plan.md", "content": "a better plan"})) }
            }
            ("write_file", _) => Answer::Approve { remember: false },
            _ => Answer::Deny { reason: Some("nothing is deleted here".into()), remember: false },
        })
    });
    let program = Program::builder(folder.path())
        .options(Options::new().operator(operator))
        .script(SCRIPT)
        .temporary_journals()
        .open()?;
    println!("{}", program.entry()?.returns::<String>()?.call("Write the notes.").await?);
    for file in ["notes.md", "plan.md"] {
        println!("{file}: {}", fs::read_to_string(folder.path().join(file))?);
    }
    Ok(())
}
