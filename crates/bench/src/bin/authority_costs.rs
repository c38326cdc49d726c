//! Measures the cost of authority in the two most frequent checks: reading a file through the file system port,
//! compared with reading it directly, and the gate's decision among many rules. Prints one JSON object;
//! `bench/authority` runs this program.

use futures_util::FutureExt;
use llm_do::core::{
    authority::{Access, Authority, Bounds, Extent, Mount, Network, Protection, View, VirtualPath},
    function::Risk,
    gate::{Facts, Gate, Pattern, Policy, Query, Rule, RuleLine, SessionRules, Subject, ToolSets},
    vfs::FileSystem,
};
use llm_do_bench::{Failure, print};
use llm_do_sandbox::NativeFileSystem;
use serde_json::{Value, json};
use std::{
    fs,
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

const FILE_BYTES: usize = 64 * 1024;
const READS: u32 = 2000;
const RULES: usize = 1000;
const DECISIONS: u32 = 2000;
const ROUNDS: usize = 15;

fn main() -> Result<(), Failure> {
    let (plain, port) = reading()?;
    let report = json!({
        "file_bytes": FILE_BYTES,
        "rules": RULES,
        "std_read_us": plain,
        "port_read_us": port,
        "decision_us": deciding()?,
    });
    print(&report)?;
    Ok(())
}

/// Microseconds of each of `count` executions, the median of several rounds.
fn each(count: u32, mut run: impl FnMut()) -> f64 {
    let rounds = (0..ROUNDS).map(|_| {
        let start = Instant::now();
        (0..count).for_each(|_| run());
        start.elapsed()
    });
    let mut rounds: Vec<Duration> = rounds.collect();
    rounds.sort_unstable();
    rounds[ROUNDS / 2].as_secs_f64() * 1e6 / f64::from(count)
}

/// A warm file, read by the standard library and through the port, one after the other on this thread.
fn reading() -> Result<(f64, f64), Failure> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("file.txt");
    fs::write(&path, "x".repeat(FILE_BYTES))?;
    let root = llm_do::place_of(dir.path())?;
    let bounds = Bounds::new(vec![Extent { place: root.clone(), access: Access::Write }], Network::Off);
    let view = View::new(vec![Mount::new(VirtualPath::root(), root.clone(), Access::Write)]);
    let authority = Authority::new(bounds, view, Arc::new(Protection::new(root.clone(), [])));
    let files = NativeFileSystem::new();
    let plain = each(READS, || drop(black_box(fs::read(&path))));
    let located = authority.locate("/file.txt", Access::Read)?;
    let port = each(READS, || {
        drop(black_box(files.read(&located, 0, FILE_BYTES as u64 + 1).now_or_never()));
    });
    Ok((plain, port))
}

/// Measures a decision about a call that none of the many rules matches, so that all of them are checked.
fn deciding() -> Result<f64, Failure> {
    let rules = (0..RULES).map(|number| {
        let pattern = match number % 4 {
            0 => format!("tool_{number}"),
            1 => format!("write_file(output/{number}/**)"),
            2 => format!("shell(git {number}*)"),
            _ => format!("fs__{number}_*"),
        };
        let rule = if number % 2 == 0 { Rule::Ask } else { Rule::PreApproved };
        Ok(RuleLine::new(Pattern::parse(&pattern)?, rule, pattern))
    });
    let lines = rules.collect::<Result<Vec<_>, llm_do::core::gate::BadPattern>>()?;
    let gate = Gate { project: Policy { lines, ..Policy::default() }, ..Gate::default() };
    let subjects = [Subject::Path("notes/2026/report.md".into())];
    let sets = ToolSets::none();
    let query = Query {
        names: &["write_file"],
        risk: Risk::Write,
        wildcard: false,
        subjects: Some(&subjects),
        facts: Facts { arguments: &Value::Null, words: None, sets: &sets },
        session: SessionRules::none(),
        worker: &[],
        callers: &[],
        toolset: None,
        of_toolset: None,
        mounts: &[],
        vouched: false,
        not_own: None,
        foreign: false,
        borrowed_name: false,
    };
    Ok(each(DECISIONS, || drop(black_box(gate.decide(black_box(&query))))))
}
