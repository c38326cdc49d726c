//! Budgets of a single call, and the data that is available when one is spent.
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use llm_do::{Error, Options, Program};
use std::fs;

const WORKER: &str = "---
toolsets: [rust]
---
Find the treasure.
";

const SCRIPT: &str = "
answers:
  - when: {turn: 2}
    text: It is under the third stone.
    usage: {input_tokens: 300, output_tokens: 20}
  - text: I look under stone {{ turn + 1 }}.
    calls: [{tool: dig, arguments: {stone: '{{ turn }}'}}]
    usage: {input_tokens: 200, output_tokens: 20}
";

/// Digs under a stone.
#[llm_do::tool(reads)]
async fn dig(stone: String) -> String {
    format!("there is nothing under stone {stone}")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("main.worker"), WORKER)?;
    let program = Program::builder(folder.path())
        .tool(dig::tool())
        .options(Options::new().budget("10turns"))
        .script(SCRIPT)
        .temporary_journals()
        .open()?;
    let seeker = program.entry()?.returns::<String>()?;

    let completed = seeker.call("Where is it?").result().await?;
    let cost = completed.cost.map_or("unknown".to_owned(), |cost| format!("{} USD", cost.as_dollars()));
    println!("{} ({} tokens, cost {cost})", completed.output, completed.usage.total());

    // Of two limits of one kind the tighter applies.
    let poor = Options::new().budget("2turns");
    match seeker.call("Where is it?").options(poor).await {
        Err(Error::LimitReached(ended)) => {
            println!("{} ({} tokens)", ended.message, ended.usage.total());
        }
        other => println!("{other:?}"),
    }
    Ok(())
}
