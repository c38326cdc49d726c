//! The ends of commands: by themselves, after a timeout, with too much output, or with leftovers.

use crate::{
    bench::{both_tiers, eventually, processes_with},
    worker::{MOUNTS, Worker},
};
use llm_do_core::gate::Rule;
use llm_do_sandbox::confine::Confinement;
use serde_json::json;
use std::time::{Duration, Instant};

both_tiers!(
    what_takes_too_long_ends_with_all_it_has_started,
    what_prints_for_ever_ends,
    how_it_ended_is_known_every_time,
    what_is_long_is_shown_with_its_beginning_and_end,
    what_runs_on_in_the_background_ends_with_the_command,
    a_call_that_is_given_up_ends_its_process,
);

/// Returns an argument that no other process of this machine has.
fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // `sleep` takes it for a number of seconds.
    format!("86{}.{:04}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn what_takes_too_long_ends_with_all_it_has_started(tier: Confinement) {
    let worker = Worker::new(tier);
    let mark = mark();
    let script = format!("sh -c 'echo begun; setsid sleep {mark} & sleep {mark}'");
    let result = worker.call(json!({"command": script, "timeout": 3})).await.unwrap();
    assert_eq!(result["ended"], "it ran for longer than 3 s and was ended");
    assert_eq!((&result["stdout"], result.get("exit_code")), (&json!("begun\n"), None));
    eventually("the end of all its processes", || processes_with(&mark).is_empty());
    // The toolset's own limit counts where the model asks for more.
    let short = json!({"default": {"approval_required": false}, "timeout": "300ms"});
    let worker = Worker::with(tier, MOUNTS, short);
    let result = worker.call(json!({"command": "sleep 600", "timeout": 500})).await.unwrap();
    assert_eq!(result["ended"], "it ran for longer than 0.3 s and was ended");
}

async fn what_prints_for_ever_ends(tier: Confinement) {
    let worker = Worker::new(tier);
    let result = worker.run("yes 'on and on'").await;
    assert_eq!(result["ended"], "it printed more than 64 MiB and was ended");
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.len() < 20_000 && stdout.starts_with("on and on\n"), "{}", stdout.len());
    assert!(result["left_out_bytes"].as_u64().unwrap() > 60 << 20);
}

/// The test waits for the end beside the output, repeatedly.
async fn how_it_ended_is_known_every_time(tier: Confinement) {
    let worker = Worker::new(tier);
    for _ in 0..25 {
        let result = worker.run("sh -c 'echo a; exec >&-; echo b >&2; exit 7'").await;
        assert_eq!(result, json!({"exit_code": 7, "stdout": "a\n", "stderr": "b\n"}));
    }
}

async fn what_is_long_is_shown_with_its_beginning_and_end(tier: Confinement) {
    let worker = Worker::new(tier);
    let result = worker.run("seq 100000").await;
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("1\n2\n") && stdout.ends_with("\n99999\n100000\n"));
    assert_eq!(result["exit_code"], 0);
    let left_out = result["left_out_bytes"].as_u64().unwrap();
    assert!(stdout.contains(&format!("\n[{left_out} bytes are left out here]\n")));
}

async fn what_runs_on_in_the_background_ends_with_the_command(tier: Confinement) {
    let worker = Worker::new(tier);
    let mark = mark();
    let begun = Instant::now();
    let said = worker.printed(&format!("sh -c 'setsid nohup sleep {mark} & echo done'")).await;
    assert_eq!(said, "done\n");
    assert!(begun.elapsed() < Duration::from_secs(60), "it was waited for");
    assert_eq!(processes_with(&mark), [0; 0], "its processes are gone when the call is");
}

async fn a_call_that_is_given_up_ends_its_process(tier: Confinement) {
    let worker = Worker::new(tier);
    let mark = mark();
    let call = worker.call(json!({"command": format!("sleep {mark}")}));
    let begun = async {
        while processes_with(&mark).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        ended = call => panic!("it has ended: {ended:?}"),
        () = begun => {}
    }
    eventually("the end of its process", || processes_with(&mark).is_empty());
}

/// Commands have only the rules as limits if the operator has granted to run without confinement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_confinement_commands_run_and_end_all_the_same() {
    let rules = json!({"rules": [
        {"pattern": "sh"},
        {"pattern": "cat", "approval_required": false, "sandbox_paths": ["/rw"]},
    ]});
    let worker = Worker::with(crate::bench::NONE, MOUNTS, rules);
    assert_eq!(worker.rule("cat theirs.txt"), Rule::Ask, "any word may be a path");
    assert_eq!(worker.rule("cat /rw/mine.txt"), Rule::PreApproved);
    let mark = mark();
    let result = worker.run(&format!("sh -c 'cat theirs.txt; setsid sleep {mark} & '")).await;
    assert_eq!((&result["exit_code"], &result["stdout"]), (&json!(0), &json!("to be read")));
    assert_eq!(processes_with(&mark), [0; 0]);
}
