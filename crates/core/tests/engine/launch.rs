//! The records that a launch writes around the call, and its notifications.

use crate::world::{Ready, World, block_on, calls, text, tool, worker_with_tools};
use llm_do_core::{
    engine::{End, FailureKind, Halt},
    function::{Function, Risk},
    gate::{Mode, Rule},
    journal::{Ending, Record, RecordKind, RunStatus},
    launch::{Counts, Launch, RunRecords, RunStart},
    ledger::Budget,
    schema::Schema,
    send::BoxFuture,
    toolset::{ToolsetContext, ToolsetKind, ToolsetRuntime},
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A kind without tools that keeps the runs whose end it was notified of.
#[derive(Default)]
struct Witness(Mutex<Vec<String>>);

impl ToolsetKind for Witness {
    fn name(&self) -> &'static str {
        "witness"
    }
    fn configuration(&self) -> Schema {
        Schema::built_in(json!({"type": "object"}))
    }
}

impl ToolsetRuntime for Witness {
    fn build<'a>(
        &'a self,
        _: &'a Value,
        _: &'a ToolsetContext<'a>,
    ) -> BoxFuture<'a, Result<Vec<Function>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn ended<'a>(&'a self, run: &'a Arc<str>) -> BoxFuture<'a, Vec<String>> {
        self.0.lock().unwrap().push(run.to_string());
        Box::pin(async { vec!["something was left behind".to_owned()] })
    }
}

fn witnessed(launch: &mut Launch) -> Arc<Witness> {
    let witness = Arc::new(Witness::default());
    let mut toolsets = (*launch.context.toolsets).clone();
    toolsets.register(witness.clone());
    launch.context.toolsets = Arc::new(toolsets);
    witness
}

fn world() -> World {
    let say = tool("say", Risk::Write, |_| Ok(json!("said")));
    World::new().tool(say).worker(worker_with_tools("main"), vec![calls([("say", json!({}))]), text("done")])
}

fn new_run() -> RunRecords {
    RunRecords::New(RunStart { version: "1.2.3".into(), target: "here".into(), ..RunStart::default() })
}

fn kinds(records: &[Record]) -> Vec<Value> {
    records.iter().map(|record| serde_json::to_value(&record.body).unwrap()["kind"].clone()).collect()
}

#[test]
fn a_new_run_has_a_start_record_and_an_end_record() {
    let Ready { mut launch, driver, .. } = world().ready(json!({"input": "go"}));
    launch.records = new_run();
    let witness = witnessed(&mut launch);
    let report = block_on(launch.run());
    assert_eq!((report.status, report.halt), (RunStatus::Done, None));
    assert_eq!(report.end, End::Done(Arc::new(json!("done"))));
    let records = driver.records();
    let RecordKind::RunStarted { run, version, target, entry, approval, date, .. } = &records[0].body else {
        panic!("the first record is {:?}", records[0]);
    };
    assert_eq!((&**run, &**version, &**target, &**entry), ("run", "1.2.3", "here", "main"));
    assert_eq!((*approval, &**date), (Mode::ApproveAll, "2030-01-02"));
    let RecordKind::RunEnded { status, ending, .. } = &records.last().unwrap().body else {
        panic!("the last record is {:?}", records.last());
    };
    assert_eq!((*status, ending), (RunStatus::Done, &Ending::Output(Arc::new(json!("done")))));
    assert_eq!(*witness.0.lock().unwrap(), ["run"]);
}

#[test]
fn a_resumed_run_gets_an_end_record_and_a_replay_none() {
    for (records, started, ended) in [(RunRecords::Resumed, 0, 1), (RunRecords::None, 0, 0)] {
        let Ready { mut launch, driver, .. } = world().ready(json!({"input": "go"}));
        launch.records = records;
        let witness = witnessed(&mut launch);
        block_on(launch.run());
        let kinds = kinds(&driver.records());
        let count = |kind: &str| kinds.iter().filter(|known| *known == kind).count();
        assert_eq!((count("run_started"), count("run_ended")), (started, ended));
        assert_eq!(*witness.0.lock().unwrap(), ["run"]);
    }
}

#[test]
fn a_run_that_stops_early_is_ended_and_can_be_resumed() {
    let Ready { mut launch, driver, .. } = world().ready(json!({"input": "go"}));
    launch.records = new_run();
    let witness = witnessed(&mut launch);
    let full = Halt::Journal("no space left".into());
    let report = block_on(launch.run_within(|_| async { Err(Halt::Journal("no space left".into())) }));
    assert_eq!((report.status, report.halt), (RunStatus::Failed, Some(full)));
    assert_eq!(*witness.0.lock().unwrap(), ["run"]);
    let records = driver.records();
    let Some(RecordKind::RunEnded { status, .. }) = records.last().map(|record| &record.body) else {
        panic!("{records:?}");
    };
    assert_eq!(*status, RunStatus::Interrupted);
}

#[test]
fn a_budget_holds_for_the_run_and_its_rest_is_reported() {
    let Ready { mut launch, .. } = world().ready(json!({"input": "go"}));
    launch.budget = Budget { max_turns: Some(1), ..Budget::default() };
    let report = block_on(launch.run());
    assert_eq!(report.status, RunStatus::Limit);
    assert_eq!(report.left.and_then(|left| left.turns), Some(0));
}

#[test]
fn a_preview_gives_the_first_request_and_sends_nothing() {
    let Ready { mut launch, driver, stage, .. } = world().ready(json!({"input": "go"}));
    let witness = witnessed(&mut launch);
    let sent = block_on(launch.preview()).unwrap();
    let RecordKind::ConversationStarted { system, tools, .. } = sent else { panic!("{sent:?}") };
    assert_eq!(&*system, "You are main.");
    assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), ["say"]);
    assert!(stage.seen.lock().unwrap().is_empty());
    assert!(driver.records().is_empty());
    assert_eq!(*witness.0.lock().unwrap(), ["run"]);
}

#[test]
fn an_explanation_names_the_verdict_and_runs_nothing() {
    let Ready { mut launch, driver, .. } = world().ready(json!({"input": "go"}));
    let witness = witnessed(&mut launch);
    let explained = block_on(launch.explain("say", &json!({}))).unwrap();
    assert_eq!(explained.verdict.map(|verdict| verdict.rule), Some(Rule::Ask));
    assert!(driver.records().is_empty());
    assert_eq!(*witness.0.lock().unwrap(), ["run"]);
    let Ready { launch, .. } = world().ready(json!({"input": "go"}));
    let failure = block_on(launch.explain("shout", &json!({}))).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Definition);
    assert!(failure.message.contains("`main` has no tool `shout`"), "{}", failure.message);
}

#[test]
fn counts_of_records_are_those_of_the_run() {
    let Ready { launch, driver, .. } = world().ready(json!({"input": "go"}));
    block_on(launch.run());
    let records = driver.records();
    let counts = Counts::of(records.iter().map(|record| &record.body));
    assert_eq!((counts.sent, counts.requests, counts.tools, counts.refused), (2, 2, 1, 0));
}
