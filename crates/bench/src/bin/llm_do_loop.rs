//! The whole machine over the transcript of the other loops: worker file, gate, schema validation, streaming, and a
//! journal on the disk for every run.

use std::path::Path;
use std::sync::Arc;

use llm_do::Session;
use llm_do::core::engine::End;
use llm_do_bench::{Failure, Meter, Options, machine, options, print};
use serde_json::json;

/// The allocator of the program `llm-do`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Model turns of a worker that declares no limit.
const USUAL_TURNS: usize = 50;

fn main() -> Result<(), Failure> {
    let options = options()?;
    let place = match &options.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let most = options.turns + 1;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let meter = Meter::start();
    let runs_dir = runtime.block_on(async {
        // A limit that is stated is counted for all that a call makes: only where the usual one is too low.
        let limits = if most > USUAL_TURNS { json!({ "max_turns": most }) } else { json!({}) };
        let session = Arc::new(machine::session(place.path(), &options.url, &limits, options.stream)?);
        let loops: Vec<_> = (0..options.concurrency)
            .map(|_| tokio::spawn(run(Arc::clone(&session), options.clone())))
            .collect();
        for each in loops {
            each.await??;
        }
        Ok::<_, Failure>(session.runs_dir().to_owned())
    })?;
    let mut figures = meter.stop("llm_do_loop", &options);
    let turns = options.concurrency * options.repeat * most;
    figures["journal_bytes_per_turn"] = json!((bytes_below(&runs_dir)? as f64 / turns as f64).round());
    if options.dir.is_some() {
        // The caller that named the folder clears it: creating files is slow right after thousands were removed.
        let _ = place.keep();
    }
    print(&figures)
}

async fn run(session: Arc<Session>, options: Options) -> Result<(), Failure> {
    let input = machine::input();
    for _ in 0..options.repeat {
        let report = session.start(&input, None, None)?.finish().await;
        let turns = report.counts.requests as usize;
        match report.end {
            End::Done(_) if report.halt.is_none() && turns == options.turns + 1 => {}
            end => return Err(format!("after {turns} turns: {end:?}, {:?}", report.halt).into()),
        }
    }
    Ok(())
}

fn bytes_below(dir: &Path) -> Result<u64, Failure> {
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(sum)
}
