//! Measures the time of an addition to the list of untrusted places, by the length of the list (`docs/performance.md`).
//!
//! ```console
//! $ cargo run --release -p llm-do-runs --example untrusted_list
//! ```
#![allow(clippy::print_stdout, reason = "it prints what it measures")]

use llm_do_core::{authority::Place, origin::UntrustedPlaces};
use llm_do_runs::{SealKey, UntrustedFile, UntrustedList};
use std::{error::Error, sync::Arc, time::Instant};

/// Additions that are measured at each length.
const MEASURED: u32 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let runs = dir.path().join(".llm-do/runs");
    let open = || Arc::new(UntrustedFile::beside(&runs, &SealKey::from([7; 32])));
    let file = open();
    let list = UntrustedList::read_from(&file)?;
    let place = |number: u32| Place::new(&format!("/data/out/{number}.txt"));
    let mut length = 0;
    for wanted in [0, 1_000, 20_000, 100_000] {
        let filling: Vec<Place> = (length..wanted).map(place).collect();
        list.add(&filling)?;
        let start = Instant::now();
        for number in wanted..wanted + MEASURED {
            list.add(&[place(number)])?;
        }
        let each = start.elapsed() / MEASURED;
        let start = Instant::now();
        UntrustedList::read_from(&open())?;
        println!(
            "{wanted:>7} places: {each:?} an addition; {:?} for the first reading of a process",
            start.elapsed()
        );
        length = wanted + MEASURED;
    }
    Ok(())
}
