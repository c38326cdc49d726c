//! The input and the output of commands.

use crate::{
    bench::{Bench, both_tiers},
    worker::{MOUNTS, SECRET, Worker},
};
use llm_do_core::{authority::Access, function::MainArgument, gate::Rule};
use llm_do_sandbox::confine::Confinement;
use serde_json::json;
use std::fs;

both_tiers!(
    a_program_gets_its_words_and_nothing_else,
    paths_of_the_worker_are_those_of_the_command,
    wildcards_are_files_that_the_worker_sees,
    expanded_words_are_judged_again,
    both_streams_and_the_exit_code_come_back,
    what_is_not_there_is_told,
);

async fn a_program_gets_its_words_and_nothing_else(tier: Confinement) {
    let worker = Worker::new(tier);
    let said = worker.printed(r#"printf '%s|' a 'b c' "d\$" e\ f '' '*' '$HOME;x'"#).await;
    assert_eq!(said, "a|b c|d$|e f||*|$HOME;x|");
    // Standard input is empty, and does not wait.
    assert_eq!(worker.printed("cat").await, "");
    let env = worker.printed("env").await;
    let names: Vec<&str> =
        env.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    for name in &names {
        let ours = ["PATH", "TERM", "HOME", "TMPDIR", "TZ", "PWD"].contains(name);
        assert!(ours || name.starts_with("LC_") || name.starts_with("LANG"), "{name} is given: {env}");
    }
    assert!(
        names.contains(&"TZ") && env.contains(SECRET),
        "the stand-in for the environment is asked: {env}"
    );
}

async fn paths_of_the_worker_are_those_of_the_command(tier: Confinement) {
    let worker = Worker::new(tier);
    // The first mount, where there is none at `/`.
    assert_eq!(worker.printed("cat theirs.txt").await, "to be read");
    assert_eq!(worker.printed("cat /ro/theirs.txt /rw/mine.txt").await, "to be readto be changed");
    worker.printed("cp /ro/theirs.txt /rw/new.txt").await;
    assert_eq!(worker.bench.read("project/rw/new.txt"), "to be read");
    worker.printed("dd status=none if=/rw/mine.txt of=/rw/inner/copy.txt").await;
    assert_eq!(worker.bench.read("project/rw/inner/copy.txt"), "to be changed");
    worker.printed("sort --output=/rw/sorted.txt /ro/theirs.txt").await;
    assert_eq!(worker.bench.read("project/rw/sorted.txt"), "to be read\n");
}

async fn wildcards_are_files_that_the_worker_sees(tier: Confinement) {
    let worker = Worker::with(
        tier,
        &[("/", "project/ro", Access::Read), ("/rw", "project/rw", Access::Write)],
        free(),
    );
    let ro = |name: &str| worker.bench.path(&format!("project/ro/{name}"));
    for name in ["b.md", "a.md", "c.txt", "-n", ".hidden.md", "with space.md", "inner/x.md"] {
        fs::write(ro(name), "").unwrap();
    }
    fs::create_dir(ro("inner/deep")).unwrap();
    std::os::unix::fs::symlink(worker.bench.path("outside"), ro("way-out")).unwrap();
    let echo = async |words: &str| worker.printed(&format!("printf '%s\\n' {words}")).await;
    assert_eq!(echo("*.md").await, "a.md\nb.md\nwith space.md\n");
    assert_eq!(echo("[bc].*").await, "b.md\nc.txt\n");
    assert_eq!(echo("./?.md '*.md'").await, "./a.md\n./b.md\n*.md\n");
    assert_eq!(echo("-*").await, "./-n\n");
    assert_eq!(echo("i*/*").await, "inner/deep\ninner/x.md\n");
    assert_eq!(echo("inner/*/").await, "inner/deep/\n");
    assert_eq!(echo(".h*").await, ".hidden.md\n");
    // Absolute ones are the worker's, and the process gets their real names.
    let real = format!("{}\n", worker.bench.path("project/rw/mine.txt").display());
    assert_eq!(echo("/rw/*.txt").await, real);
    assert_eq!(echo("/r?/mine*").await, real);
    for nothing in ["*.nothing", "way-out/*", "*/canary.txt", "/etc/*", "../*", "/proc/*"] {
        let said = worker.error(&format!("ls {nothing}")).await;
        assert!(said.contains("nothing fits") || said.contains(".."), "{nothing}: {said}");
    }
    let said = worker.error("l* x").await;
    assert!(said.contains("named by a wildcard"), "{said}");
}

async fn expanded_words_are_judged_again(tier: Confinement) {
    let rules = json!({"rules": [{"pattern": "sed", "approval_required": false}]});
    let worker = Worker::with(tier, MOUNTS, rules);
    // The name of a file is a script that runs a program.
    fs::write(worker.bench.path("project/ro/1e id"), "").unwrap();
    assert_eq!(worker.rule("sed -n ? theirs.txt"), Rule::Ask, "a wildcard for a script is no plain script");
    let worker =
        Worker::with(tier, MOUNTS, json!({"rules": [{"pattern": "tar", "approval_required": false}]}));
    fs::write(worker.bench.path("project/ro/xI"), "").unwrap();
    assert_eq!(worker.rule("tar ?[I] a"), Rule::PreApproved);
    let said = worker.error("tar ?[I] a").await;
    assert!(said.contains("Write the names themselves") && said.contains("tar xI"), "{said}");
    // Nor was somebody asked about that who was asked about the wildcard.
    let worker = Worker::with(tier, MOUNTS, json!({"rules": [{"pattern": "tar"}]}));
    fs::write(worker.bench.path("project/ro/xI"), "").unwrap();
    assert_eq!(worker.rule("tar ?[I] a"), Rule::Ask);
    assert!(worker.error("tar ?[I] a").await.contains("Write the names themselves"));
}

async fn both_streams_and_the_exit_code_come_back(tier: Confinement) {
    let worker = Worker::new(tier);
    let result = worker.run("sh -c 'echo out; echo err >&2; exit 3'").await;
    assert_eq!(result, json!({"exit_code": 3, "stdout": "out\n", "stderr": "err\n"}));
    let result = worker.run("sh -c 'kill -TERM $$'").await;
    assert_eq!(result, json!({"ended": "signal 15 ended it", "stdout": "", "stderr": ""}));
    let result = worker.run("printf 'a\\377b'").await;
    assert_eq!(result["stdout"], "a\u{fffd}b");
}

async fn what_is_not_there_is_told(tier: Confinement) {
    let worker = Worker::new(tier);
    let said = worker.error("no-such-program x").await;
    assert!(said.contains("no program `no-such-program`"), "{said}");
    let said = worker.error("cd /rw").await;
    assert!(said.contains("a word of a shell"), "{said}");
    let said = worker.error("./not-there").await;
    assert!(said.contains("`./not-there` can't be run"), "{said}");
}

fn free() -> serde_json::Value {
    json!({"default": {"approval_required": false}})
}

#[test]
fn what_rules_match_is_the_normal_form() {
    let worker = Worker::new(crate::bench::A);
    for (command, normal) in [
        ("git   'diff' --stat", "git diff --stat"),
        ("g''it \"push\"", "git push"),
        ("'git push'", "'git push'"),
        ("rm a\\ b *.txt", "rm 'a b' *.txt"),
    ] {
        assert_eq!(worker.effects(command).main, MainArgument::Texts(vec![normal.to_owned()]));
    }
    // A command that can't run is blocked with the reason, without asking.
    for command in ["ls | wc", "A=1 env", "'' x", "ls >x", "[ab]x y"] {
        let effects = worker.effects(command);
        assert_eq!(worker.judged(command).0, Rule::Blocked, "{command}");
        assert_eq!(effects.main, MainArgument::Texts(vec![command.to_owned()]));
    }
    drop(Bench::new());
}

#[test]
fn a_rule_against_a_program_speaks_of_its_path_too() {
    let worker = Worker::new(crate::bench::B);
    let main = |command: &str| worker.effects(command).main;
    let texts = |texts: &[&str]| MainArgument::Texts(texts.iter().map(|text| (*text).to_owned()).collect());
    assert_eq!(main("/bin/rm 'a b'"), texts(&["/bin/rm 'a b'", "rm 'a b'"]));
    assert_eq!(main("rm x/y"), texts(&["rm x/y"]));
}
