//! Writes the files that a run leaves on the disk, and nothing else. Each run gets a folder with a locked journal. Each
//! time that llm-do would pass records to the kernel, this loop makes one write of about the same size. A program that
//! keeps a journal for each run can't be cheaper.

use std::{fs, fs::OpenOptions, io::Write, path::Path};

use llm_do_bench::{Failure, Meter, Options, options, print};

/// Bytes of a run's records before its first request, about as many as those of `llm_do_loop`.
const BEGINNING: usize = 2200;
/// Bytes of a tool turn's records, before the tool runs and before the next request.
const TURN: [usize; 2] = [1100, 660];
/// Bytes of the last answer with the end of its call, and of the end of the run.
const END: [usize; 2] = [480, 210];

fn main() -> Result<(), Failure> {
    let options = options()?;
    let place = match &options.dir {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    // Where llm-do has them, that is two folders below the project.
    let runs = place.path().join(".llm-do/runs");
    fs::create_dir_all(&runs)?;
    let meter = Meter::start();
    for number in 0..options.concurrency * options.repeat {
        run(&runs.join(format!("20261121-221530-{number:04x}")), &options)?;
    }
    let figures = meter.stop("files_loop", &options);
    if options.dir.is_some() {
        // The caller that named the folder clears it.
        let _ = place.keep();
    }
    print(&figures)
}

fn run(dir: &Path, options: &Options) -> Result<(), Failure> {
    fs::create_dir(dir)?;
    let mut journal = OpenOptions::new().append(true).create_new(true).open(dir.join("journal.jsonl"))?;
    journal.try_lock()?;
    let turns = (0..options.turns).flat_map(|_| TURN);
    for bytes in [BEGINNING].into_iter().chain(turns).chain(END) {
        journal.write_all(&vec![b'x'; bytes])?;
    }
    Ok(())
}
