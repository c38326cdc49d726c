//! Many calls at once, a call that fails among them, and a run that is cancelled from elsewhere.
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use llm_do::Program;
use std::{error::Error, fs, time::Duration};

const SCRIPT: &str = "
answers:
  - when: {last: '13'}
    error: {kind: bad_request, message: thirteen is unlucky}
  - when: {last: forever}
    delay_ms: 3600000
    text: never
  - text: '{{ input | int * 2 }}'
    delay_ms: 10
";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("main.worker"), "---\n---\nDouble the number.\n")?;
    let program = Program::builder(folder.path()).script(SCRIPT).temporary_journals().open()?;
    let doubler = program.entry()?.returns::<String>()?;

    // At most eight runs at a time, each with its own journal. The results have the order of the inputs.
    let results = doubler.call_all((0..20).map(|number| number.to_string()), 8).await;
    let outputs = results.iter().flatten().cloned();
    println!("{}", outputs.collect::<Vec<_>>().join(" "));
    for error in results.iter().filter_map(|result| result.as_ref().err()) {
        println!("failed: {}", error.to_string().split(" (run").next().unwrap_or_default());
    }

    // A run in a task of its own, which another task ends.
    let running = doubler.call("forever").start()?;
    let canceller = running.canceller();
    let task = tokio::spawn(running);
    tokio::time::sleep(Duration::from_millis(20)).await;
    canceller.cancel();
    match task.await? {
        Err(llm_do::Error::Cancelled(ended)) => println!("cancelled: {}", ended.message),
        other => println!("{other:?}"),
    }
    Ok(())
}
