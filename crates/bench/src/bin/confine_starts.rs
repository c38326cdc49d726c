//! Measures the cost of starting a confined process and of building its view. Prints JSON on stdout, in milliseconds.
//!
//! `confine_starts [--starts N] [--views N]`: starts `/bin/true` N times in each tier, and in the system's own way, and
//! makes N views of a folder with ten thousand files.

use llm_do::{
    confine::{self, Confinement, Process, ProcessView, Tier},
    core::authority::{
        Access, Authority, Bounds, Domain, Extent, Mount, Network, Origin, Place, Protection, View,
        VirtualPath,
    },
};
use llm_do_bench::{Failure, print};
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::process::Command;

const PROGRAM: &str = "/bin/true";

fn main() -> Result<(), Failure> {
    confine::install();
    let (mut starts, mut views) = (100, 10);
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let number = arguments.next().ok_or("a flag without its number")?.parse()?;
        match flag.as_str() {
            "--starts" => starts = number,
            "--views" => views = number,
            other => return Err(format!("no flag `{other}`").into()),
        }
    }
    let place = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut figures = runtime.block_on(measure_starts(starts))?;
    figures.insert("view_of_10000_files".into(), measure_views(place.path(), views)?);
    print(&figures.into())
}

async fn measure_starts(count: usize) -> Result<Map<String, Value>, Failure> {
    let mut ended = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        Command::new(PROGRAM).status().await?;
        ended.push(millis(began.elapsed()));
    }
    let mut figures = Map::new();
    figures.insert("plain".into(), json!({ "ended": ended }));
    let domains = Network::domains([Domain::parse("example.org")?]);
    for (name, confinement, network) in [
        ("unconfined", Confinement::Unconfined, &Network::Off),
        ("B", Confinement::Tier(Tier::Landlock), &Network::Off),
        ("A", Confinement::Tier(Tier::Namespaces), &Network::Off),
        ("A, with a list of domains", Confinement::Tier(Tier::Namespaces), &domains),
    ] {
        if matches!(confinement, Confinement::Tier(tier) if !confine::probe().has(tier)) {
            continue;
        }
        let (mut executed, mut ended) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let process = Process {
                network: network.clone(),
                ..Process::new(PROGRAM, ProcessView::empty(), confinement)
            };
            let began = Instant::now();
            let mut running = process.start().await?;
            executed.push(millis(began.elapsed()));
            let exit = running.wait().await;
            ended.push(millis(began.elapsed()));
            if exit.code != Some(0) {
                return Err(format!("{PROGRAM} ended with {exit:?}").into());
            }
        }
        figures.insert(name.into(), json!({ "executed": executed, "ended": ended }));
    }
    Ok(figures)
}

fn measure_views(place: &Path, count: usize) -> Result<Value, Failure> {
    let root = llm_do::place_of(place)?;
    for folder in 0..100 {
        let folder = place.join(folder.to_string());
        fs::create_dir(&folder)?;
        for file in 0..100 {
            fs::write(folder.join(format!("{file}.txt")), "")?;
        }
    }
    let authority = whole(root);
    let mut times = Vec::new();
    for _ in 0..count {
        let began = Instant::now();
        ProcessView::of(&authority, Tier::Namespaces)?;
        times.push(millis(began.elapsed()));
    }
    Ok(times.into())
}

/// Authority over all of a place.
fn whole(root: Place) -> Authority {
    let mut mount = Mount::new(VirtualPath::root(), root.clone(), Access::Write);
    mount.origin = Origin::Declared;
    let bounds = Bounds::new(vec![Extent { place: root.clone(), access: Access::Write }], Network::Off);
    Authority::new(bounds, View::new(vec![mount]), Arc::new(Protection::new(root, [])))
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}
