//! Runs on nodes, against a real Postgres: kills, freezes, restarts, answers, cancellation, programs.
//!
//! CI runs a part of each check; `scripts/prove cluster NAME` runs a check as a whole.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // in a test a panic is the report

mod effects;
mod postgres;
mod world;

use llm_do::{
    Recorded,
    core::{journal::RecordKind, step_name::StepName},
    replay,
    runs::{SealKey, is_own, read_journal},
};
use llm_do_cluster::{NodeEvent, copy_run, work};
use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};
use tokio::sync::watch;
use world::{NODE, World, kept, node_options, patiently};

/// True if a check runs as a whole.
fn is_whole() -> bool {
    std::env::var_os("LLM_DO_PROVE").is_some()
}

/// The process of a node. The test starts it with the variables of [`NODE`], in which a number of records at which it dies may be.
#[test]
#[ignore = "a part of the other tests"]
fn node_process() {
    let Ok(words) = std::env::var(NODE) else { return };
    let words: Vec<&str> = words.split('\n').collect();
    let (url, home, die_at) = (words[0], PathBuf::from(words[1]), words[2].parse::<i64>().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let options = node_options(&home, "dying", move |event| {
        if let NodeEvent::Wrote { records, .. } = event
            && *records >= die_at
        {
            // As `kill -9` would: nothing is cleaned up.
            std::process::abort();
        }
    });
    let (_stop, stopped) = watch::channel(false);
    let database = llm_do_cluster::Database::new(url).unwrap();
    runtime.block_on(work(database, options, stopped)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_on_a_node_writes_the_journal_of_a_local_run() {
    let Some(world) = World::start().await else { return };
    let local = world.local_run().await;
    let node = world.node("one");
    let run = world.spawn().await;
    world.finish(&run).await;
    let records = world.records(&run).await;
    assert_eq!(kept(&records), kept(&local), "each step has the same record");
    assert!(
        records.iter().enumerate().all(|(at, record)| record.seq == at as u64),
        "the numbers have no gap"
    );
    assert_eq!(world.effects().values().max(), Some(&1), "each effect happened once");
    // The copy is a local run: its seals are this user's, and a replay finds no difference.
    let key = SealKey::of(&world.home().join("home")).unwrap();
    let runs_dir = world.home().join("project/.llm-do/runs");
    let dir = copy_run(&world.dispatch, &run, &runs_dir, &key).await.unwrap();
    assert!(is_own(&dir, &key));
    assert_eq!(read_journal(&dir).unwrap().records.len(), records.len());
    let recorded = Recorded::open(&dir, &world.home().join("home")).unwrap();
    let settings = recorded.settings(world.settings(), None).unwrap();
    let report = replay(settings, &recorded).await.unwrap();
    assert!(report.divergence.is_none() && report.whole, "{:?}", report.divergence);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_killed_after_any_record_is_taken_over_and_no_recorded_step_runs_again() {
    let Some(world) = World::start().await else { return };
    let local = kept(&world.local_run().await);
    let count = i64::try_from(world.count_of_records().await).unwrap();
    let step = if is_whole() { 1 } else { 13 };
    for die_at in (1..count).step_by(step) {
        world.forget_effects();
        let run = world.spawn().await;
        let mut dying = world.process(die_at);
        patiently("the node dies", async || {
            world.answer_all(&run).await;
            dying.try_wait().unwrap().is_some()
        })
        .await;
        let (before, effects) = (world.records(&run).await, world.effects());
        let ended: Vec<String> = before.iter().filter_map(effect_that_ended).collect();
        let node = world.node("survivor");
        world.finish(&run).await;
        assert_eq!(kept(&world.records(&run).await), local, "killed after {die_at} records");
        for (name, times) in world.effects() {
            let was = effects.get(&name).copied().unwrap_or(0);
            if ended.contains(&name) {
                assert_eq!(times, was, "`{name}` was recorded, and ran again after {die_at} records");
            }
            assert!(times <= 2, "`{name}` ran {times} times: killed after {die_at} records");
        }
        node.stop().await;
    }
}

/// Returns the name of the effect whose end a record tells.
fn effect_that_ended(record: &llm_do::core::journal::Record) -> Option<String> {
    let RecordKind::ToolEnded { ending, .. } = &record.body else { return None };
    let text = serde_json::to_string(ending).unwrap();
    let (_, rest) = text.split_once("did ")?;
    Some(rest.chars().take_while(char::is_ascii_alphanumeric).collect())
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_frozen_for_longer_than_its_lease_writes_nothing_afterwards() {
    let Some(world) = World::start().await else { return };
    let local = kept(&world.local_run().await);
    for stop_at in if is_whole() { (2..52).collect::<Vec<_>>() } else { vec![6, 17] } {
        world.forget_effects();
        let run = world.spawn().await;
        let mut frozen = world.process(i64::MAX);
        patiently("the node works", async || {
            world.answer_all(&run).await;
            world.records(&run).await.len() >= stop_at
        })
        .await;
        let signal = |name: &str| {
            let sent = Command::new("kill").args([name, &frozen.id().to_string()]).status();
            assert!(sent.unwrap().success());
        };
        signal("-STOP");
        let node = world.node("survivor");
        world.finish(&run).await;
        let (records, effects) = (world.lines(&run).await, world.effects());
        signal("-CONT");
        // The process claims the next run: by then it has dealt with the one that it lost.
        node.stop().await;
        let next = world.spawn().await;
        world.finish(&next).await;
        assert_eq!(world.lines(&run).await, records, "frozen after {stop_at} records");
        assert_eq!(kept(&world.records(&run).await), local);
        assert!(effects.values().all(|times| *times <= 2));
        frozen.kill().unwrap();
        frozen.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_survive_restarts_of_the_database() {
    let Some(world) = World::start().await else { return };
    let local = kept(&world.local_run().await);
    let node = world.node("one");
    for restart in 0..if is_whole() { 10 } else { 2 } {
        world.forget_effects();
        let run = world.spawn().await;
        let at = 3 + 7 * restart;
        patiently("the node works", async || {
            world.answer_all(&run).await;
            world.records(&run).await.len() >= at
        })
        .await;
        world.server.down();
        world.server.up();
        world.finish(&run).await;
        assert_eq!(kept(&world.records(&run).await), local, "restarted after {at} records");
        assert!(world.effects().values().all(|times| *times <= 2));
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_run_ends_on_its_node_within_a_second() {
    let Some(world) = World::start_with("slow").await else { return };
    let node = world.node("one");
    for _ in 0..if is_whole() { 20 } else { 2 } {
        world.forget_effects();
        let run = world.spawn().await;
        patiently("the effect begins", async || !world.effects().is_empty()).await;
        let began = Instant::now();
        assert!(world.dispatch.cancel(&run, "operator").await.unwrap());
        patiently("the run ends", async || world.dispatch.find(&run).await.unwrap().has_ended()).await;
        eprintln!("cancelled within {:?}", began.elapsed());
        assert!(!is_whole() || began.elapsed() < Duration::from_secs(1));
        assert_eq!(world.dispatch.find(&run).await.unwrap().state, "interrupted");
        let records = world.records(&run).await;
        assert!(
            records.iter().any(|record| matches!(record.body, RecordKind::Cancelled)),
            "the cut-off is recorded"
        );
        assert!(matches!(records.last().unwrap().body, RecordKind::RunEnded { .. }));
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_result_is_a_value_of_its_own_and_is_there_after_a_takeover() {
    let Some(world) = World::start_with("large").await else { return };
    let run = world.spawn().await;
    let mut dying = world.process(4);
    patiently("the node dies", async || dying.try_wait().unwrap().is_some()).await;
    let node = world.node("survivor");
    world.finish(&run).await;
    node.stop().await;
    let key = SealKey::of(&world.home().join("home")).unwrap();
    let dir = copy_run(&world.dispatch, &run, &world.home().join("copies"), &key).await.unwrap();
    let large =
        fs::read_dir(dir.join("blobs")).unwrap().flatten().map(|entry| entry.metadata().unwrap().len()).max();
    assert_eq!(large, Some(world.large_bytes()));
    assert!(world.lines(&run).await.iter().all(|line| line.len() < 1 << 20), "no record holds it");
    assert_eq!(world.effects().values().max(), Some(&1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_keeps_the_program_that_it_was_spawned_with() {
    let Some(world) = World::start().await else { return };
    let local = kept(&world.local_run().await);
    let run = world.spawn().await;
    // The project changes, and then the node's own copy of the program, and a file is added there.
    let main = world.home().join("project/main.worker");
    let text = fs::read_to_string(&main).unwrap();
    fs::write(&main, text.replace("Lead.", "Mislead.")).unwrap();
    let mut dying = world.process(9);
    patiently("the node dies", async || dying.try_wait().unwrap().is_some()).await;
    let program = fs::read_dir(world.home().join("programs")).unwrap().flatten().next().unwrap().path();
    fs::write(program.join("main.worker"), "---\n---\nForged.\n").unwrap();
    fs::write(program.join("planted.worker"), "---\n---\nPlanted.\n").unwrap();
    let node = world.node("survivor");
    world.finish(&run).await;
    assert_eq!(kept(&world.records(&run).await), local);
    assert!(!program.join("planted.worker").exists());
    // A later run has the new program.
    let later = world.spawn().await;
    world.finish(&later).await;
    let text = world.lines(&later).await.join("\n");
    assert!(text.contains("Mislead."));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_wait_unloaded_and_outlive_every_node() {
    let Some(world) = World::start().await else { return };
    let node = world.node("one");
    let run = world.spawn().await;
    patiently("the run waits", async || world.dispatch.find(&run).await.unwrap().state == "suspended").await;
    node.stop().await;
    let waiting = world.waiting(&run).await;
    assert_eq!(waiting.len(), 1);
    assert!(matches!(waiting[0].id.step, StepName::Ask(0)));
    world.server.down();
    world.server.up();
    world.answer_all(&run).await;
    let node = world.node("two");
    world.finish(&run).await;
    let counts: BTreeMap<_, _> = world.effects();
    assert!(counts.values().all(|times| *times == 1), "{counts:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_open_a_program_says_why_and_gives_it_back() {
    let Some(world) = World::start().await else { return };
    let run = world.spawn().await;
    let script = world.home().join("script.yaml");
    let aside = world.home().join("aside.yaml");
    fs::rename(&script, &aside).unwrap();
    let node = world.node("one");
    patiently("the reason is known", async || world.dispatch.find(&run).await.unwrap().reason.is_some())
        .await;
    let reason = world.dispatch.find(&run).await.unwrap().reason.unwrap();
    assert!(reason.contains("script.yaml"), "{reason}");
    fs::rename(&aside, &script).unwrap();
    world.finish(&run).await;
    node.stop().await;
    assert!(world.dispatch.find(&run).await.unwrap().reason.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_node_takes_no_more_runs() {
    let Some(world) = World::start().await else { return };
    let node = world.node("one");
    patiently("the node is seen", async || !world.database.nodes().await.unwrap().is_empty()).await;
    assert_eq!(world.database.drain(Some("one")).await.unwrap(), 1);
    node.ended().await;
    let run = world.spawn().await;
    assert_eq!(world.dispatch.find(&run).await.unwrap().state, "queued");
    assert!(world.database.nodes().await.unwrap().is_empty());
}
