//! The history of one call is the part of the run's history that the call and those below it need.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]
#![allow(clippy::disallowed_methods, reason = "the test reads recorded journals")]

mod fixture;

use fixture::JournalInMemory;
use llm_do_core::{
    call_path::CallPath,
    journal::{Record, RecordKind},
    step_name::StepName,
};
use llm_do_records::{Found, History, Journal};
use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

/// Returns all that the history says about a step.
fn said(history: &History, path: &CallPath, step: &StepName) -> String {
    let found = match history.find(path, step) {
        Found::Nothing => "nothing".to_owned(),
        Found::Begun(body, at_ms) => format!("{body:?} {at_ms}"),
        Found::Ended { body, began_ms, at_ms } => format!("{body:?} {began_ms} {at_ms}"),
    };
    let (begun, drawn) = (history.begun(path, step), history.drawn(path, step));
    format!("{found} {begun:?} {drawn:?}")
}

/// Returns all that the history says about a call.
fn said_of_call(history: &History, path: &CallPath) -> String {
    let open: Vec<_> =
        history.waiting().into_iter().filter(|waiting| waiting.id.call.is_within(path)).collect();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {open:?}",
        history.reserved_below(path, 0),
        history.reserved_below(path, 1),
        history.recorded_origins(path),
        history.queued(path),
        history.is_over(path),
        history.has_conversation(path),
    )
}

fn check(records: &[Record]) -> usize {
    let calls: BTreeSet<&CallPath> = records.iter().map(|record| &record.path).collect();
    let mut steps = 0;
    for call in calls {
        let (whole, part) = (History::of(records.to_vec()), History::of_call(call, records.to_vec()));
        assert_eq!((whole.began_ms, whole.idle_ms), (part.began_ms, part.idle_ms));
        for record in records.iter().filter(|record| record.path.is_within(call)) {
            let (path, step) = (&record.path, &record.step);
            assert_eq!(said(&whole, path, step), said(&part, path, step), "{path} {step} from {call}");
            assert_eq!(said_of_call(&whole, path), said_of_call(&part, path), "{path} from {call}");
            steps += 1;
        }
    }
    steps
}

#[test]
fn the_history_of_a_call_says_what_that_of_the_run_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/recorded");
    let mut steps = 0;
    for run in ["orchestrator", "digest", "extractor", "feedback"] {
        let text = std::fs::read(folder.join(run).join("journal.jsonl")).unwrap();
        steps += check(&Journal::parse(&text, &HashMap::<String, Vec<u8>>::new()).unwrap().records);
    }
    assert!(steps > 100, "{steps}");
}

/// A run that was resumed: the time for which it was idle is in the records of the run, not in those of the call.
#[test]
fn the_time_for_which_a_run_was_idle_counts_for_its_calls_too() {
    let journal = JournalInMemory::new();
    journal.begin();
    journal.pass(10);
    journal.add("0", "random.0", RecordKind::Random { value: 3 });
    journal.pass(5000);
    journal.add("0", "run", RecordKind::RunResumed { version: "0.1.0".into(), idle_ms: 5000 });
    journal.pass(10);
    journal.add("0/1.0", "random.0", RecordKind::Random { value: 4 });
    journal.add("0/1.1", "random.0", RecordKind::Random { value: 5 });
    let records = journal.journal().records;
    assert_eq!(check(&records), 7);
    let call = CallPath::from("0/1.0");
    let part = History::of_call(&call, records);
    assert_eq!(part.drawn(&call, &"random.0".into()), Some(4));
    assert_eq!(part.now_ms() - part.began_ms, 20);
    assert_eq!(part.drawn(&CallPath::from("0/1.1"), &"random.0".into()), None);
}
