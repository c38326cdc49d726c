//! The places that any command may access.

use crate::{
    bench::{CANARY, both_tiers},
    worker::{MOUNTS, Worker},
};
use llm_do_core::{authority::Access, gate::Rule};
use llm_do_sandbox::confine::Confinement;
use serde_json::json;

both_tiers!(
    what_is_outside_is_neither_read_nor_written,
    the_network_is_off,
    a_rules_places_hold_the_process,
    a_rule_without_places_gives_nothing,
);

async fn what_is_outside_is_neither_read_nor_written(tier: Confinement) {
    let worker = Worker::new(tier);
    let outside = worker.bench.path("outside/canary.txt");
    let result = worker.run(&format!("cat {}", outside.display())).await;
    assert_ne!(result["exit_code"], 0, "{result}");
    assert!(!result.to_string().contains(CANARY), "{result}");
    let hint = result["hint"].as_str().expect("a hint");
    assert!(hint.contains("sandbox.paths") && hint.contains(&*outside.to_string_lossy()), "{result}");
    for command in [
        format!("cp /ro/theirs.txt {}", outside.display()),
        "touch /ro/new.txt".to_owned(),
        "rm -f theirs.txt".to_owned(),
        "ln -sf /rw/mine.txt theirs.txt".to_owned(),
    ] {
        let result = worker.run(&command).await;
        assert_ne!(result["exit_code"], 0, "{command}: {result}");
        assert!(
            result["hint"].as_str().is_some_and(|hint| hint.contains("sandbox.paths")),
            "{command}: {result}"
        );
    }
    assert_eq!(worker.bench.read("outside/canary.txt"), CANARY);
    assert_eq!(worker.bench.read("project/ro/theirs.txt"), "to be read");
    // A link that a command makes leads nowhere either.
    worker.printed(&format!("ln -s {} /rw/link", outside.display())).await;
    let result = worker.run("cat /rw/link").await;
    assert!(result["exit_code"] != 0 && !result.to_string().contains(CANARY), "{result}");
}

async fn the_network_is_off(tier: Confinement) {
    let worker = Worker::new(tier);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected'");
    let result = worker.run(&connect).await;
    assert_ne!(result["exit_code"], 0, "{result}");
    assert_eq!(result["stdout"], "", "{result}");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "somebody has connected");
    let open = std::process::Command::new("bash")
        .args(["-c", &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")])
        .status()
        .unwrap();
    assert!(open.success(), "the attempt itself must be one that works");
}

async fn a_rules_places_hold_the_process(tier: Confinement) {
    let rules = json!({"rules": [
        {"pattern": "cat", "approval_required": false, "sandbox_paths": ["/ro/inner"]},
    ]});
    let worker = Worker::with(tier, MOUNTS, rules);
    std::fs::write(worker.bench.path("project/ro/inner/x.txt"), "inner").unwrap();
    assert_eq!(worker.rule("cat inner/x.txt"), Rule::PreApproved);
    assert_eq!(worker.printed("cat inner/x.txt /ro/inner/x.txt").await, "innerinner");
    // A word that isn't written as a path is no reason to ask; the kernel refuses.
    assert_eq!(worker.rule("cat theirs.txt"), Rule::PreApproved);
    let result = worker.run("cat theirs.txt").await;
    assert_ne!(result["exit_code"], 0, "{result}");
    // A link that leads out asks, and the approval covers the link as it is.
    assert_eq!(worker.rule("cat /ro/theirs.txt"), Rule::Ask);
    assert_eq!(worker.printed("cat /ro/theirs.txt").await, "to be read");
    let found = worker.run("cat bare inner/x.txt /rw/mine.txt").await;
    assert_eq!((&found["stdout"], &found["exit_code"]), (&json!("innerto be changed"), &json!(1)), "{found}");
}

async fn a_rule_without_places_gives_nothing(tier: Confinement) {
    let rules = json!({"rules": [{"pattern": "ls", "approval_required": false, "sandbox_paths": []}]});
    let worker = Worker::with(tier, &[("/", "project/rw", Access::Write)], rules);
    let result = worker.run("ls").await;
    assert!(!result.to_string().contains("mine.txt"), "{result}");
}
