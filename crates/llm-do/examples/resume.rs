//! A run that waits for an approval, and is continued later by another process.
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use llm_do::{Error, Mode, Options, Program, operator::Question};
use std::{fs, path::Path};

const WORKER: &str = "---
toolsets: {filesystem: {}}
---
Write the report.
";

const SCRIPT: &str = "
answers:
  - when: {turn: 0}
    calls: [{tool: write_file, arguments: {path: report.md, content: All is well.}}]
  - text: The report is written.
";

/// Opens the program, as each process would. The journals are kept where all of them find them.
fn open(folder: &Path) -> Result<Program, llm_do::Problem> {
    Program::builder(folder)
        .journals(folder.join("journals"))
        .options(Options::new().mode(Mode::Defer))
        .script(SCRIPT)
        .open()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("main.worker"), WORKER)?;

    // With `Mode::Defer` a call that needs an approval suspends the run. Nothing is kept but its journal.
    let suspended = match open(folder.path())?.entry()?.call("Write it.").await {
        Err(Error::Suspended(suspended)) => suspended,
        other => return Err(format!("{other:?}").into()),
    };
    for waiting in &suspended.waiting {
        if let Question::Approval(call) = &waiting.question {
            println!("{}: {} {}", waiting.id, call.function, call.input);
        }
    }

    // Later: the steps before the question are not repeated.
    let writer = open(folder.path())?.entry()?.returns::<String>()?;
    let output = writer.resume(&*suspended.run).approve(&suspended.waiting[0].id).await?;
    println!("{output} {}", fs::read_to_string(folder.path().join("report.md"))?);

    // A question is answered once.
    if let Err(error) = writer.resume(&*suspended.run).approve(&suspended.waiting[0].id).await {
        println!("{error}");
    }
    Ok(())
}
