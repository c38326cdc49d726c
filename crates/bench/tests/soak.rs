//! A short soak, like the one that `bench/soak` runs for minutes.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::path::Path;
use std::time::Duration;

use llm_do_bench::audit::audit;
use llm_do_bench::soak::{Outcome, Plan, soak};
use llm_do_bench::{FINAL, machine};
use llm_do_testserver::{Faults, FixedServer, Reply, net};
use serde_json::json;

const TURNS: u64 = 4;

/// The transcript's server, on the test's own runtime.
fn serve(faults: u16) -> String {
    let call = |turn| Reply::tool("read_file", json!({"path": format!("input/{turn}.txt")}));
    let replies: Vec<Reply> = (0..TURNS).map(call).chain([Reply::text(FINAL)]).collect();
    let listener = net::listen().unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(FixedServer::new(&replies).faults(Faults::per_mille(faults)).serve(listener));
    url
}

async fn short(faults: u16, concurrency: usize, dir: &Path) -> Outcome {
    let plan = Plan {
        url: serve(faults),
        turns: TURNS,
        concurrency,
        lasts: Duration::from_secs(2),
        patience: Duration::from_secs(300),
        dir: dir.to_owned(),
    };
    soak(&plan).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_faulty_answers_no_run_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = short(200, 100, dir.path()).await;
    assert_eq!(outcome.wrong, Vec::<String>::new(), "{:#}", outcome.figures());
    // Some were done and some failed; of the ways to fail the server had each.
    assert!(outcome.ended >= 100 && outcome.audited.done > 0 && outcome.audited.done < outcome.ended);
    let faults = outcome.served["faults"].as_object().unwrap();
    assert!(faults.values().all(|times| times.as_u64().unwrap() > 0), "{faults:?}");
}

#[tokio::test]
async fn without_faults_every_run_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = short(0, 3, dir.path()).await;
    assert_eq!(outcome.wrong, Vec::<String>::new());
    assert_eq!(outcome.audited.done, outcome.ended);
    assert_eq!(outcome.audited.answered, outcome.ended * (TURNS + 1));
}

#[tokio::test]
async fn a_journal_that_lacks_anything_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let session = machine::session(dir.path(), &serve(0), &json!({"request_retries": 0}), true).unwrap();
    let report = session.start(&machine::input(), None, None).unwrap().finish().await;
    let key = llm_do::runs::SealKey::read(&dir.path().join("home")).unwrap();
    audit(&report, &key, TURNS).unwrap();
    audit(&report, &key, TURNS + 1).unwrap_err();
    let mut miscounted = report.clone();
    miscounted.counts.sent += 1;
    audit(&miscounted, &key, TURNS).unwrap_err();
    let file = report.dir.join("journal.jsonl");
    let whole = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    for left_out in 0..lines.len() {
        let rest: String =
            lines.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, line)| *line).collect();
        std::fs::write(&file, rest).unwrap();
        audit(&report, &key, TURNS).unwrap_err();
    }
    std::fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    audit(&report, &key, TURNS).unwrap_err();
}
