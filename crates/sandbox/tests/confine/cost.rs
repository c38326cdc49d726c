//! What confinement costs. Run by hand: `cargo test -p llm-do-sandbox --test confine cost -- --ignored --nocapture`.

use crate::bench::{A, B, Bench, NONE, process, supervise};
use llm_do_core::authority::Access;
use llm_do_sandbox::confine::{Confinement, ProcessView, Tier};
use std::{
    fs,
    time::{Duration, Instant},
};

const ROUNDS: usize = 101;

/// The middle, and the least: on a busy machine that is nearer to what it costs.
fn middle_and_least(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[times.len() / 2], times[0])
}

#[tokio::test]
#[ignore = "measures, and asserts nothing"]
async fn cost_of_a_start() {
    supervise();
    let bench = Bench::new();
    let mut plain = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        tokio::process::Command::new("/bin/true").spawn().unwrap().wait().await.unwrap();
        plain.push(started.elapsed());
    }
    println!("plain: {:?}", middle_and_least(plain));
    let start = async |confinement: Confinement, view: &ProcessView| {
        let (mut starts, mut wholes) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let started = Instant::now();
            let mut running = process(view.clone(), confinement, "/bin/true").start().await.unwrap();
            starts.push(started.elapsed());
            running.wait().await;
            wholes.push(started.elapsed());
        }
        (middle_and_least(starts), middle_and_least(wholes))
    };
    for (name, confinement) in [("unconfined", NONE), ("B", B), ("A", A)] {
        let (started, whole) = start(confinement, &bench.view(confinement)).await;
        println!("{name}: executed after {started:?}; ended after {whole:?}");
    }
}

#[test]
#[ignore = "measures, and asserts nothing"]
fn cost_of_a_view() {
    let bench = Bench::new();
    for folder in 0..100 {
        let folder = bench.path("project/rw").join(folder.to_string());
        fs::create_dir(&folder).unwrap();
        for file in 0..100 {
            fs::write(folder.join(format!("{file}.txt")), "").unwrap();
        }
    }
    let authority = bench.authority(&[("/", "project", Access::Write)]);
    let times = (0..11).map(|_| {
        let started = Instant::now();
        ProcessView::of(&authority, Tier::Namespaces).unwrap();
        started.elapsed()
    });
    println!("a view of ten thousand files: {:?}", middle_and_least(times.collect()));
}
