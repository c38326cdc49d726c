//! The text of an answer while it is made, and the events of a run.
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use llm_do::{
    Program,
    event::{Event, RecordKind},
};
use std::{error::Error, fs};

const SCRIPT: &str = "
answers:
  - text: Streams carry water to the sea.
    stream: {chars: 8, pause_ms: 5}
    usage: {input_tokens: 20, output_tokens: 8}
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("main.worker"), "---\n---\nAnswer in one sentence.\n")?;
    let program = Program::builder(folder.path()).script(SCRIPT).temporary_journals().open()?;
    let worker = program.entry()?;

    // The pieces of the answer. The run advances while they are read.
    let mut events = worker.call("What do streams do?").stream()?;
    let mut pieces = Vec::new();
    while let Some(piece) = events.next_text().await {
        pieces.push(piece);
    }
    println!("{}", pieces.join("|"));
    let completed = events.result().await?;
    println!("{} tokens", completed.usage.total());

    // Everything else that happens is a record.
    let mut events = worker.call("And rivers?").stream()?;
    while let Some(event) = events.next().await {
        let Event::Record { record } = event else { continue };
        match &record.body {
            RecordKind::RunStarted { entry, .. } => println!("the run of `{entry}` starts"),
            RecordKind::RunEnded { status, .. } => println!("the run ends: {status:?}"),
            _ => {}
        }
    }
    Ok(())
}
