//! Attacks on the confinement of a run. Each can tell whether it succeeded; the results make the table in
//! `docs/security.md`.
//!
//! Every attempt has a [`World`](world::World) of its own: a project beside a folder that must stay out of reach. After
//! the attempt nothing outside may have changed, not even a time stamp; the secret outside must not have leaked, no
//! socket may have been contacted, and no process may be left. Where it is harmless, a control makes the same attack
//! without the layer under test and must succeed: a probe that never works proves nothing.
//!
//! Each group of attempts is one test, which holds its section of the page to the results. `UPDATE_EXPECT=1` writes the
//! section. `ATTEMPTS=word` makes only the attempts whose name contains the word, and compares nothing.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may panic and say why it skips"
)]

mod approval_scope;
mod attempt;
mod binary;
mod budgets;
mod chats;
mod client_authority;
mod client_tools;
mod command_processes;
mod command_words;
mod declared_commands;
mod definitions;
mod delegation;
mod domain_lists;
#[allow(dead_code, reason = "the scenarios use the rest")]
#[path = "../scenarios/editor.rs"]
mod editor;
mod editors;
mod foreign_runs;
mod generated_workers;
mod injected_words;
mod journal;
mod kernel;
mod links;
mod loading;
mod mcp_clients;
mod mcp_servers;
mod named_words;
mod node_hosts;
mod operator;
mod paths;
mod probe;
mod process_files;
mod process_limits;
mod processes;
mod programs;
mod project_code;
mod python_environments;
mod races;
#[allow(dead_code, reason = "the scenarios use the rest")]
#[path = "../scenarios/remote_server.rs"]
mod remote_server;
mod remote_servers;
mod request_keys;
mod rule_arguments;
mod server_contents;
mod service;
mod skills;
mod table;
mod tables;
mod templates;
mod terminal;
#[allow(dead_code, reason = "the scenarios use the rest")]
#[path = "../scenarios/terminal_session.rs"]
mod terminal_session;
#[path = "../../../inference/tests/tiny_model/mod.rs"]
mod tiny_model;
mod triggers;
mod weights;
mod world;

use attempt::{Attempt, Group};
use std::{
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Number of attempts of a group that run at once. A test runner starts as many groups as there are processors, but
/// most attempts wait for a process most of the time.
const AT_ONCE: usize = 3;

/// The minimum number of attempts.
const MINIMUM: usize = 150;

/// The longest time of an attempt that is not reported.
const SLOW: Duration = Duration::from_secs(5);

/// Makes one test of each group, and `groups()`, which lists them in the order of the page.
macro_rules! groups {
    ($($test:ident: $group:path,)*) => {
        fn groups() -> Vec<Group> {
            vec![$($group()),*]
        }

        $(
            #[test]
            fn $test() {
                attack(&$group());
            }
        )*
    };
}

groups! {
    paths: paths::group,
    links: links::group,
    races: races::group,
    process_files: process_files::group,
    other_processes: processes::others,
    kernel: kernel::group,
    sockets: processes::sockets,
    process_limits: process_limits::group,
    domain_lists: domain_lists::group,
    request_keys: request_keys::group,
    command_words: command_words::group,
    command_processes: command_processes::group,
    declared_commands: declared_commands::group,
    project_code: project_code::group,
    python_environments: python_environments::group,
    node_hosts: node_hosts::group,
    delegation: delegation::group,
    generated_workers: generated_workers::group,
    programs: programs::group,
    injected_words: injected_words::group,
    named_words: named_words::group,
    tables: tables::group,
    rule_arguments: rule_arguments::group,
    approvals: operator::approvals,
    definitions: definitions::group,
    approval_scope: approval_scope::group,
    terminal: terminal::group,
    loading: loading::group,
    weights: weights::group,
    skills: skills::group,
    budgets: budgets::group,
    templates: templates::group,
    journal: journal::group,
    foreign_runs: foreign_runs::group,
    chats: chats::group,
    mcp_servers: mcp_servers::group,
    server_contents: server_contents::group,
    mcp_clients: mcp_clients::group,
    service: service::group,
    client_authority: client_authority::group,
    client_tools: client_tools::group,
    triggers: triggers::group,
    editors: editors::group,
    remote_servers: remote_servers::group,
}

/// Makes the attempts of a group. Fails if any of them escapes or if the page says something else.
fn attack(group: &Group) {
    let wanted = std::env::var("ATTEMPTS").ok();
    let chosen = |attempt: &&Attempt| wanted.as_ref().is_none_or(|word| attempt.name.contains(word));
    let attempts: Vec<&Attempt> = group.attempts.iter().filter(chosen).collect();
    let results: Vec<_> = attempts.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((attempt, result)) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    attempts.get(index).zip(results.get(index))
                } {
                    let start = Instant::now();
                    let made = result.get_or_init(|| attempt.make());
                    if wanted.is_some() || start.elapsed() > SLOW {
                        println!("{:>8.2?}  {}: {made:?}", start.elapsed(), attempt.name);
                    }
                }
            });
        }
    });
    let (mut outcomes, mut escapes) = (Vec::new(), Vec::new());
    for (attempt, result) in attempts.iter().zip(results) {
        match result.into_inner().expect("every attempt was made") {
            Ok(outcome) => outcomes.push(outcome),
            Err(escape) => escapes.push(format!("{}: {escape}", attempt.name)),
        }
    }
    assert!(
        escapes.is_empty(),
        "{} of {} attempts went wrong:\n\n{}",
        escapes.len(),
        attempts.len(),
        escapes.join("\n\n")
    );
    if wanted.is_none() {
        table::compare_section(group, &outcomes);
    }
}

/// The attacks of confined processes, made by a Node in the place of a Python, in both tiers.
#[test]
fn probes_of_processes_hold_under_node() {
    let needs = [attempt::Need::Node, attempt::Need::Python, attempt::Need::Tiers];
    if let Some(why) = needs.iter().find_map(|need| need.missing()) {
        println!("skipped: {why}");
        return;
    }
    let node = world::node().expect("it is there");
    let lists =
        [process_files::probes(), processes::other_probes(), processes::socket_probes(), kernel::probes()];
    let probes: Vec<_> = lists.into_iter().flatten().map(|probe| probe.under_node(&node)).collect();
    assert!(probes.len() > 80, "there are only {} probes", probes.len());
    let next = AtomicUsize::new(0);
    let wrong = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(probe) = probes.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let world = world::World::new();
                    if let Err(escape) = probe.run(&world).and_then(|_| world.check_oracles()) {
                        wrong.lock().expect("no panic").push(format!("{}: {escape}", probe.name()));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{} of {} went wrong:\n\n{}", wrong.len(), probes.len(), wrong.join("\n\n"));
}

#[test]
fn attempts_have_distinct_names() {
    let groups = groups();
    let mut names: Vec<&str> =
        groups.iter().flat_map(|group| group.attempts.iter().map(|attempt| attempt.name)).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "two attempts have the same name");
    assert!(all >= MINIMUM, "there are only {all} attempts");
}

/// Makes no attempt: each section is compared by its group's test.
#[test]
fn page_lists_every_group_and_counts_the_attempts() {
    table::compare_outline();
}
