//! Attempts to escape, each with a way to notice that it succeeded: the table in `docs/security.md`.
//!
//! Every attempt has a [`World`] of its own: a project beside a folder that nothing may reach. After the attempt nothing
//! outside may have changed, not even a time; the secret that lies there may not have come out, no socket may have been
//! called, and no process may be left. Where that is harmless, the same attack is made without the layer too and must succeed
//! there: a probe that never works proves nothing.
//!
//! `UPDATE_EXPECT=1` writes the table. `ATTEMPTS=word` tries those alone whose group or name contains the word.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may panic and say why it skips"
)]

mod attempt;
mod binary;
mod code;
mod commands;
mod delegation;
mod domains;
mod generated;
mod kernel;
mod links;
mod loading;
mod machine;
mod operator;
mod paths;
mod probe;
mod processes;
mod races;
mod runs;
#[allow(dead_code, reason = "the scenarios use the rest")]
#[path = "../scenarios/session.rs"]
mod session;
mod shell;
mod table;
mod templates;
mod world;

use attempt::{Attempt, Group};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How many are tried at once: most of them wait for a process most of the time.
const AT_ONCE: usize = 6;

/// The fewest that the table may hold.
const LEAST: usize = 150;

/// In the order of the table, and in which they are tried: what takes long is not at the end, where one would wait for it alone.
fn groups() -> Vec<Group> {
    vec![
        paths::group(),
        links::group(),
        races::group(),
        machine::group(),
        processes::others(),
        kernel::group(),
        processes::sockets(),
        processes::limits(),
        domains::group(),
        shell::group(),
        commands::group(),
        code::group(),
        delegation::group(),
        generated::group(),
        operator::approvals(),
        operator::terminal(),
        loading::group(),
        templates::group(),
        code::journal(),
        runs::group(),
    ]
}

#[test]
fn no_attempt_escapes() {
    let groups = groups();
    let wanted = std::env::var("ATTEMPTS").ok();
    let chosen = |group: &Group, attempt: &Attempt| {
        wanted.as_ref().is_none_or(|word| group.title.contains(word) || attempt.name.contains(word))
    };
    let all: Vec<(&Group, &Attempt)> =
        groups.iter().flat_map(|group| group.attempts.iter().map(move |attempt| (group, attempt))).collect();
    let tried: Vec<_> = all.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((index, (group, attempt))) = {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    all.get(index).map(|found| (index, *found))
                } {
                    if chosen(group, attempt) {
                        let start = Instant::now();
                        let result = attempt.make();
                        if wanted.is_some() || start.elapsed() > Duration::from_secs(5) {
                            println!("{:>8.2?}  {}: {result:?}", start.elapsed(), attempt.name);
                        }
                        *tried[index].lock().unwrap() = Some(result);
                    }
                }
            });
        }
    });
    let results: Vec<_> = tried.into_iter().map(|result| result.into_inner().unwrap()).collect();
    let mut wrong = Vec::new();
    for ((group, attempt), result) in all.iter().zip(&results) {
        if let Some(Err(escape)) = result {
            wrong.push(format!("{} / {}: {escape}", group.title, attempt.name));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} attempts went wrong:\n\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n\n")
    );
    if wanted.is_none() {
        let results: Vec<_> = results.into_iter().map(|result| result.unwrap().unwrap()).collect();
        table::compare(&groups, &results);
    }
}

#[test]
fn every_attempt_is_another() {
    let groups = groups();
    let mut names: Vec<&str> =
        groups.iter().flat_map(|group| group.attempts.iter().map(|attempt| attempt.name)).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "two attempts have one name");
    assert!(all >= LEAST, "there are {all} attempts");
}
