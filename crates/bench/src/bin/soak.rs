//! Makes many runs at once for minutes: `soak --url URL --seconds S [--turns K] [--concurrency N] --dir DIR`. Prints
//! the results as one line of JSON, and fails if a run or a count is wrong. The caller judges the memory.

use std::time::Duration;

use llm_do_bench::soak::{Plan, soak};
use llm_do_bench::{Failure, options, print};

fn main() -> Result<(), Failure> {
    let options = options()?;
    let place = match &options.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let plan = Plan {
        url: options.url,
        turns: options.turns as u64,
        concurrency: options.concurrency,
        lasts: Duration::from_secs(options.seconds),
        patience: Duration::from_secs(600),
        dir: place.path().to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(soak(&plan))?;
    print(&outcome.figures())?;
    if outcome.wrong.is_empty() {
        return Ok(());
    }
    let kept = place.keep();
    Err(format!(
        "{} things are wrong; what is left of their runs is in {}",
        outcome.wrong.len(),
        kept.display()
    )
    .into())
}
