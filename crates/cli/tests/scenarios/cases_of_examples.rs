//! Runs the cases of each example from recordings. `UPDATE_EXPECT=1` records them again, with the scripts in
//! `examples/scripts` in the place of models.

use crate::{
    python::has_python,
    recorded_examples::{MINUTES_GRANTS, copy, examples, install},
    scenario::Scenario,
};
use std::{fs, path::Path};

fn holds(target: &str, script: &str) {
    let scenario = Scenario::new();
    copy(&examples().join(target), &scenario.project().join(target));
    if let Some(worker) = target.strip_suffix(".worker") {
        for beside in [format!("{worker}.cases.yaml"), format!("{worker}.recorded")] {
            let from = examples().join(&beside);
            if from.exists() {
                copy(&from, &scenario.project().join(&beside));
            }
        }
    }
    if target == "analysis" {
        // Its tools are given results, and only their names and types are needed.
        fs::write(scenario.project().join("analysis/polars.py"), "").expect("a module");
    }
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let model = format!("script:{}", examples().join("scripts").join(script).display());
        let mut words = vec!["test", target, "--update", "--model", &model];
        if target == "minutes" {
            // Its tools are stubs, but what the servers list must be known.
            install(&scenario.project().join(target));
            words.extend(MINUTES_GRANTS.iter().flat_map(|grant| ["--grant", grant]));
        }
        let told = scenario.run(&words);
        assert_eq!(told.code, Some(0), "{told}");
        take(&scenario.project(), &examples());
    }
    let told = scenario.run(&["test", target, "--recorded"]);
    assert_eq!(told.code, Some(0), "{told}");
    let again = scenario.run(&["test", target, "--recorded"]);
    assert_eq!(told.stdout, again.stdout);
}

/// Copies folders of recordings to where they come from.
fn take(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_owned();
        if !path.is_dir() || name == ".llm-do" {
            continue;
        }
        if name.to_string_lossy().ends_with(".recorded") {
            let _ = fs::remove_dir_all(to.join(&name));
            copy(&path, &to.join(&name));
        } else {
            take(&path, &to.join(&name));
        }
    }
}

#[test]
fn cases_of_the_greeter_hold() {
    holds("greeter.worker", "greeter.yaml");
}

#[test]
fn cases_of_the_digest_hold() {
    holds("digest", "digest.yaml");
}

#[test]
fn cases_of_the_extractor_hold() {
    holds("extractor", "extractor.yaml");
}

#[test]
fn cases_of_the_notes_hold() {
    holds("notes", "notes.yaml");
}

#[test]
fn cases_of_the_helpdesk_hold() {
    holds("helpdesk", "helpdesk.yaml");
}

#[test]
fn cases_of_the_strikes_hold() {
    holds("strikes", "strikes.yaml");
}

#[test]
fn cases_of_the_minutes_hold_without_their_servers() {
    holds("minutes", "minutes.yaml");
}

#[test]
fn cases_of_the_interview_hold() {
    holds("interview", "interview.yaml");
}

#[test]
fn cases_of_examples_with_python_hold() {
    if !has_python() {
        return;
    }
    holds("calculator", "calculator.yaml");
    holds("orchestrator", "orchestrator.yaml");
    holds("analysis", "analysis.yaml");
    holds("triage", "triage.yaml");
    holds("feedback", "feedback.yaml");
    holds("bookshelf", "bookshelf.yaml");
    holds("mail-assistant/before", "mail-assistant/before.yaml");
    holds("mail-assistant/after", "mail-assistant/after.yaml");
}
