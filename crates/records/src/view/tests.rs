//! The fold over recorded journals and over journals that a test makes.

#![allow(clippy::disallowed_methods, reason = "the test reads recorded journals")]

use super::*;
use crate::{blob::BlobSource, journal::Journal};
use llm_do_core::price::Usd;
use serde_json::{Map, Value, json};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The long values beside a journal.
struct Beside<'a>(&'a Path);

impl BlobSource for Beside<'_> {
    fn read(&self, hash: &str, _: u64) -> io::Result<Vec<u8>> {
        fs::read(self.0.with_file_name("blobs").join(hash))
    }
}

fn journals_in(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            journals_in(&path, found);
        } else if path.file_name().is_some_and(|name| name == "journal.jsonl") {
            found.push(path);
        }
    }
}

/// Returns the records of each example, by its name.
fn recorded() -> Vec<(String, Vec<Record>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/recorded");
    let mut found = Vec::new();
    journals_in(&folder, &mut found);
    found.sort();
    assert!(found.len() > 10, "{found:?}");
    let read = |path: &PathBuf| {
        let journal = Journal::parse(&fs::read(path).unwrap(), &Beside(path)).unwrap();
        let name = path.parent().unwrap().strip_prefix(&folder).unwrap();
        (name.to_string_lossy().replace('/', "-"), journal.records)
    };
    found.iter().map(read).collect()
}

/// Records, from what matters of each.
fn records(given: &[Value]) -> Vec<Record> {
    let record = |(seq, fields): (usize, &Value)| {
        let mut record = json!({"seq": seq, "at_ms": 1000 + seq, "path": "0", "step": "x"});
        record.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(record).unwrap()
    };
    given.iter().enumerate().map(record).collect()
}

fn call(path: &str, function: &str) -> Value {
    json!({"kind": "call_started", "path": path, "step": "call", "function": function, "source": {"toolset": "t"},
        "principal": "operator", "input": {"a": 1}})
}

fn conversation(path: &str, worker: &str) -> Value {
    json!({"kind": "conversation_started", "path": path, "step": "conversation", "worker": worker, "model": "script:x",
        "system": "", "tools": [], "with_user": true, "can": {"native_schema": false, "tools": true},
        "message": {"id": 0, "role": "user", "parts": [{"part": "text", "text": "hi"}]}})
}

fn requested(path: &str, turn: u32, attempt: u32) -> Value {
    json!({"kind": "model_requested", "path": path, "step": format!("model.{turn}.{attempt}"), "turn": turn,
        "attempt": attempt, "head": 0, "digest": "d"})
}

fn said(path: &str, turn: u32, id: u32, usage: Value) -> Value {
    json!({"kind": "model_answered", "path": path, "step": format!("model.{turn}.0"), "finish": "stop", "usage": usage,
        "message": {"id": id, "role": "assistant", "parts": [{"part": "text", "text": "a"}]}})
}

fn asked(path: &str) -> Value {
    json!({"kind": "asked", "path": path, "step": "ask", "question": "approval", "chain": ["main"],
        "function": "write_file", "risk": "write", "input": {"a": 1}, "rule": "start"})
}

fn answered(path: &str, step: &str, answer: Value) -> Value {
    let mut record = json!({"kind": "answered", "path": path, "step": step, "by": "ada", "via": "http"});
    record.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
    record
}

fn turn(number: u32) -> Value {
    json!({"kind": "asked", "path": "0", "step": format!("message.{number}"), "question": "input", "chain": ["main"],
        "prompt": "", "conversation": {"number": number, "context": {"tokens": 40}}})
}

fn did(number: u32, answer: Value) -> Value {
    answered("0", &format!("message.{number}"), answer)
}

fn leaf_ended(path: &str, ending: Value) -> Value {
    json!({"kind": "tool_ended", "path": path, "step": "tool", "ending": ending})
}

fn leaf_started(path: &str, step: &str) -> Value {
    json!({"kind": "tool_started", "path": path, "step": step, "function": "write_file", "risk": "write",
        "idempotency_key": "k"})
}

fn call_ended(path: &str, ending: Value) -> Value {
    json!({"kind": "call_ended", "path": path, "step": "end", "ending": ending, "usage": {}})
}

fn run_ended(status: &str, ending: Value) -> Value {
    json!({"kind": "run_ended", "step": "run", "status": status, "ending": ending, "usage": {}})
}

fn resumed() -> Value {
    json!({"kind": "run_resumed", "step": "run", "version": "0", "idle_ms": 5})
}

fn chat() -> Vec<Value> {
    vec![
        json!({"kind": "run_started", "step": "run", "format": 2, "run": "r", "version": "0", "target": ".",
            "entry": "main", "chat": true, "approval": "interactive", "date": "2026-11-27", "definitions": []}),
        call("0", "main"),
        conversation("0", "main"),
        requested("0", 0, 0),
    ]
}

/// Returns a chat in which messages are undone, files attached, results kept, and compactions taken back.
fn long_chat() -> Vec<Value> {
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    let compacted = |to: u32| {
        json!({"kind": "compacted", "path": "0", "step": format!("compact.{to}"), "before": 9, "after": 3,
            "summary": {"id": 90 + to, "to": to, "text": "older"}})
    };
    let mut given = chat();
    given.extend([
        said("0", 0, 1, usage.clone()),
        turn(1),
        did(1, json!({"answer": "attach", "file": "a.txt"})),
        json!({"kind": "attached", "path": "0", "step": "attach.1", "bytes": 3,
            "part": {"part": "attachment", "name": "a.txt", "text": "abc"}}),
        turn(2),
        did(2, json!({"answer": "run", "worker": "helper", "input": {}})),
        call("0/run.2", "helper"),
        call_ended("0/run.2", json!({"output": "found"})),
        turn(3),
        did(3, json!({"answer": "keep", "message": 2})),
        turn(4),
        did(4, json!({"answer": "give", "value": "second"})),
        requested("0", 1, 0),
        compacted(1),
        answered("0", "now.1", json!({"answer": "give", "value": "quick"})),
        said("0", 1, 5, usage),
        compacted(5),
        turn(5),
        did(5, json!({"answer": "rule", "rule": "blocked", "calls": "shell"})),
        turn(6),
        did(6, json!({"answer": "undo", "message": 4})),
        json!({"kind": "undone", "path": "0", "step": "undone.6", "files": [], "others": ["shell"]}),
        turn(7),
        did(7, json!({"answer": "forget", "of": {"call": "0", "step": "message.5"}})),
        turn(8),
        did(8, json!({"answer": "undo_compaction"})),
        turn(9),
        did(9, json!({"answer": "detach", "message": 1})),
        turn(10),
    ]);
    given
}

/// A reader in another process, which has the changes and no records.
#[derive(Default)]
struct Applied {
    calls: Map<String, Value>,
    items: HashMap<String, Vec<Value>>,
    costs: HashMap<(String, String), Value>,
    end: Value,
}

impl Applied {
    fn apply(&mut self, changes: &RunChanges<'_>) {
        let changes = serde_json::to_value(changes).unwrap();
        if let Some(end) = changes.get("end") {
            self.end = end.clone();
        }
        for (path, call) in changes.get("calls").and_then(Value::as_object).into_iter().flatten() {
            self.calls.insert(path.clone(), call.clone());
        }
        for change in changes.get("items").and_then(Value::as_array).into_iter().flatten() {
            let items = self.items.entry(change["call"].as_str().unwrap().to_owned()).or_default();
            let index = change["index"].as_u64().unwrap() as usize;
            assert!(index <= items.len(), "an item comes after those before it");
            match items.get_mut(index) {
                Some(item) => *item = change["item"].clone(),
                None => items.push(change["item"].clone()),
            }
        }
        for change in changes.get("costs").and_then(Value::as_array).into_iter().flatten() {
            let key = ["worker", "model"].map(|name| change[name].as_str().unwrap().to_owned());
            let [worker, model] = key;
            self.costs.insert((worker, model), change["spent"].clone());
        }
    }

    fn is(&self, view: &RunView) {
        let calls: Map<String, Value> = view
            .calls()
            .map(|call| (call.path.to_string(), serde_json::to_value(CallChange::from(call)).unwrap()))
            .collect();
        assert_eq!(self.calls, calls);
        for (path, held) in view.conversations() {
            let items: Vec<Value> =
                held.items().iter().map(|item| serde_json::to_value(item).unwrap()).collect();
            assert_eq!(self.items.get(path.as_str()).cloned().unwrap_or_default(), items, "{path}");
        }
        for (worker, model, spent) in view.costs() {
            let spent = serde_json::to_value(SpentChange::from(spent)).unwrap();
            assert_eq!(self.costs[&(worker.to_owned(), model.to_owned())], spent);
        }
        assert_eq!(self.costs.len(), view.costs().len());
        assert_eq!(self.end, json!(view.end_of_run().map(|end| end.status)));
    }
}

/// Holds after each record: the changes make the view of the whole, and both kinds of view agree on calls under way.
fn holds_for_each_prefix(records: &[Record]) {
    let (mut noting, mut following) = (RunView::with_changes(), RunView::of_calls_under_way());
    let mut applied = Applied::default();
    for (number, record) in records.iter().enumerate() {
        noting.fold(record.into());
        following.fold(record.into());
        applied.apply(&noting.changes());
        let whole = RunView::of(&records[..=number]);
        applied.is(&whole);
        assert_eq!(noting.tree("r", true), whole.tree("r", true));
        let under_way = |view: &RunView| {
            let shown = view.under_way().map(|call| {
                let CallView { path, function, input, state, activity, .. } = call.clone();
                (
                    path,
                    function,
                    input,
                    state,
                    activity,
                    call.worked_ms(record.at_ms),
                    call.took_ms(record.at_ms),
                )
            });
            shown.collect::<Vec<_>>()
        };
        assert_eq!(under_way(&following), under_way(&whole), "after {record:?}");
        assert!(following.questions().eq(whole.questions()));
        assert_eq!(following.activities(), whole.activities());
        let of_root = whole.call(&CallPath::root()).map(|root| root.spent).unwrap_or_default();
        let in_costs: u64 = whole.costs().map(|(_, _, spent)| spent.requests).sum();
        assert_eq!((of_root.requests, of_root.usage), (in_costs, whole.usage()));
    }
}

/// A failure of the attempt, whose request may be repeated twice.
fn request_failed(attempt: u32, retry_after_ms: Option<u64>) -> Value {
    let mut error = json!({"kind": "rate_limited", "message": "slow down"});
    if let Some(ms) = retry_after_ms {
        error["retry_after_ms"] = ms.into();
    }
    json!({"kind": "model_failed", "step": format!("model.0.{attempt}"), "error": error, "retries": 2})
}

#[test]
fn the_next_attempt_at_a_request_is_known_until_it_begins_or_none_follows() {
    let given = records(&[
        call("0", "main"),
        conversation("0", "main"),
        requested("0", 0, 0),
        request_failed(0, Some(7000)),
        requested("0", 0, 1),
        request_failed(1, None),
        json!({"kind": "random", "step": "jitter.0.1", "value": 1023}),
        requested("0", 0, 2),
        request_failed(2, None),
    ]);
    let mut view = RunView::with_changes();
    let mut seen = Vec::new();
    for record in &given {
        view.fold(record.into());
        let call =
            view.call(&CallPath::root()).map(|call| serde_json::to_value(CallChange::from(call)).unwrap());
        seen.push(call.unwrap_or_default()["retry"].clone());
    }
    let first = json!({"attempt": 1, "of": 2, "at_ms": 8003, "why": "slow down"});
    let unknown = json!({"attempt": 2, "of": 2, "why": "slow down"});
    // The second wait is between half a second and a whole one.
    let known = json!({"attempt": 2, "of": 2, "at_ms": 2005, "why": "slow down"});
    let none = Value::Null;
    assert_eq!(seen[3..], [first, none.clone(), unknown, known, none.clone(), none]);
    // Only the last failure stays in the conversation.
    let notes = view.conversation(&CallPath::root()).unwrap().items().iter();
    assert_eq!(notes.filter(|item| matches!(item.kind, ItemKind::Note { .. })).count(), 1);
}

#[test]
fn views_agree_after_each_record_of_the_examples() {
    for (_, records) in recorded() {
        holds_for_each_prefix(&records);
        let view = RunView::of(&records);
        assert!(view.end_of_run().is_some_and(|end| end.status != RunStatus::Suspended));
        assert_eq!((view.under_way().count(), view.questions().count()), (0, 0));
        let mut following = RunView::of_calls_under_way();
        records.iter().for_each(|record| following.fold(record.into()));
        assert!(
            following.calls.len() <= 2,
            "calls that have ended are forgotten: {:?}",
            following.calls.keys()
        );
    }
}

#[test]
fn views_agree_after_each_record_of_a_chat() {
    holds_for_each_prefix(&records(&long_chat()));
}

#[test]
fn undone_message_takes_with_it_what_followed() {
    let view = RunView::of(&records(&long_chat()));
    let held = view.conversation(&CallPath::root()).unwrap();
    let kinds: Vec<(String, bool)> = held
        .items()
        .iter()
        .map(|item| {
            let json = serde_json::to_value(item).unwrap();
            (json["kind"].as_str().unwrap().to_owned(), item.undone)
        })
        .collect();
    let expected = [
        ("user", false),
        ("assistant", false),
        ("attached", false),
        ("run", false),
        ("user", true),
        // It shortens only what came before the message.
        ("compacted", false),
        ("interjection", true),
        ("assistant", true),
        ("compacted", true),
        ("rule", false),
        ("undo", false),
    ];
    assert_eq!(kinds, expected.map(|(kind, undone)| (kind.to_owned(), undone)));
    // What joined the message joins the next one.
    assert_eq!(held.joining(), [3]);
    let flags = |index: usize| serde_json::to_value(&held.items()[index]).unwrap();
    assert_eq!((&flags(2)["detached"], &flags(3)["kept"]), (&json!(true), &json!(true)));
    assert_eq!((&flags(5)["taken_back"], &flags(9)["forgotten"]), (&json!(true), &json!(true)));
    let given = records(&long_chat());
    let undone: Vec<u64> =
        (0..given.len() as u64).filter(|seq| view.is_undone(&CallPath::root(), *seq)).collect();
    assert_eq!(undone, (15..24).collect::<Vec<_>>(), "from the message to the answer that takes it back");
    assert!(view.is_undone(&"0/run.2".into(), 20) && !view.is_undone(&"0/run.2".into(), 10));
    assert_eq!(
        view.questions().map(|(id, kind)| (id.step.to_string(), kind)).collect::<Vec<_>>(),
        [("message.10".to_owned(), WaitsFor::Message)]
    );
}

#[test]
fn tokens_and_costs_add_up_the_tree() {
    let usage = json!({"input_tokens": 100, "output_tokens": 10, "cost_usd": 0.25});
    let mut given = chat();
    given.extend([
        said("0", 0, 1, usage.clone()),
        call("0/0.0", "child"),
        conversation("0/0.0", "child"),
        said("0/0.0", 0, 1, usage),
        said("0/0.0", 1, 3, json!({})),
    ]);
    let view = RunView::of(&records(&given));
    let spent = view.call(&CallPath::root()).unwrap().spent;
    assert_eq!(
        (spent.requests, spent.usage.input_tokens, spent.unpriced, spent.uncounted),
        (3, Some(200), 1, 1)
    );
    assert_eq!(spent.cost, Usd::dollars(0.5).unwrap());
    assert_eq!(view.call(&"0/0.0".into()).unwrap().spent.requests, 2);
    let by: Vec<(&str, u64)> = view.costs().map(|(worker, _, spent)| (worker, spent.requests)).collect();
    assert_eq!(by, [("child", 2), ("main", 1)]);
}

#[test]
fn question_waits_in_its_call_and_those_above_until_it_is_answered_or_withdrawn() {
    let mut given = chat();
    given.extend([call("0/0.0", "write_file"), asked("0/0.0")]);
    let view = RunView::of(&records(&given));
    let leaf = view.call(&"0/0.0".into()).unwrap();
    assert_eq!(
        (leaf.standing(), leaf.activity),
        (CallStanding::Waiting, Activity::Waiting(WaitsFor::Approval))
    );
    assert_eq!(view.call(&CallPath::root()).unwrap().open_questions, 1);
    assert_eq!(view.call(&CallPath::root()).unwrap().worked_ms(9_999), 4, "waiting is no work");
    holds_for_each_prefix(&records(&given));

    let mut edited = given.clone();
    for value in [2, 3] {
        edited.push(answered("0/0.0", "ask", json!({"answer": "edit", "input": {"a": value}})));
    }
    let view = RunView::of(&records(&edited));
    let leaf = view.call(&"0/0.0".into()).unwrap();
    assert_eq!((&*leaf.input, leaf.given.as_deref()), (&json!({"a": 3}), Some(&json!({"a": 1}))));
    assert_eq!((view.questions().count(), view.call(&CallPath::root()).unwrap().open_questions), (0, 0));

    // The call that asks is stopped with the one above it.
    given.push(call_ended("0", json!({"failure": {"kind": "stopped", "message": "stopped"}})));
    let view = RunView::of(&records(&given));
    assert_eq!(view.questions().count(), 0);
    holds_for_each_prefix(&records(&given));
}

#[test]
fn leaf_that_failed_is_under_way_again_with_its_next_attempt() {
    let failed = json!({"failure": {"kind": "tool", "message": "busy"}});
    let mut given = chat();
    given.extend([
        call("0/0.0", "write_file"),
        leaf_started("0/0.0", "tool"),
        leaf_ended("0/0.0", failed),
        json!({"kind": "slept", "path": "0/0.0", "step": "x", "ms": 1}),
        leaf_started("0/0.0", "tool.1"),
    ]);
    let mut following = RunView::of_calls_under_way();
    records(&given).iter().for_each(|record| following.fold(record.into()));
    let leaf = following.call_under_way(&"0/0.0".into()).unwrap();
    assert_eq!((leaf.activity, leaf.failure.is_none()), (Activity::Repeating { attempt: 1 }, true));
    given.extend([leaf_ended("0/0.0", json!({"output": 1})), requested("0", 1, 0)]);
    holds_for_each_prefix(&records(&given));
    records(&given)[9..].iter().for_each(|record| following.fold(record.into()));
    assert!(following.call(&"0/0.0".into()).is_none());
}

#[test]
fn resumed_run_has_no_end_and_its_suspended_calls_are_at_work() {
    let mut given = chat();
    given.extend([
        call("0/0.0", "write_file"),
        asked("0/0.0"),
        call_ended("0/0.0", json!("suspended")),
        call_ended("0", json!("suspended")),
        run_ended("suspended", json!("suspended")),
    ]);
    let view = RunView::of(&records(&given));
    assert_eq!(view.tree("r", false).waits_for, Some(WaitsFor::Approval));
    assert_eq!(view.under_way().map(CallView::standing).collect::<Vec<_>>(), [CallStanding::Suspended; 2]);
    given.push(resumed());
    let view = RunView::of(&records(&given));
    assert_eq!(view.tree("r", true).state.as_str(), "running");
    let standing: Vec<_> = view.under_way().map(CallView::standing).collect();
    assert_eq!(standing, [CallStanding::Running, CallStanding::Waiting]);
    given.extend([
        call("0/0.1", "read_file"),
        asked("0/0.1"),
        answered("0/0.0", "ask", json!({"answer": "approve"})),
        json!({"kind": "cancelled", "path": "0/0.0", "step": "tool"}),
        run_ended("interrupted", json!({"failure": {"kind": "tool", "message": "interrupted"}})),
    ]);
    let interrupted = RunView::of(&records(&given));
    let waiting =
        |view: &RunView| view.under_way().map(|call| CallChange::from(call).waiting).collect::<Vec<_>>();
    assert_eq!(waiting(&interrupted), [0; 3]);
    let standing: Vec<_> = interrupted.under_way().map(CallView::standing).collect();
    assert_eq!(standing, [CallStanding::Cancelled; 3]);
    given.push(resumed());
    holds_for_each_prefix(&records(&given));
    let again = RunView::of(&records(&given));
    let standing: Vec<_> = again.under_way().map(CallView::standing).collect();
    assert_eq!(standing, [CallStanding::Running, CallStanding::Running, CallStanding::Waiting]);
    assert_eq!(waiting(&again), [1, 0, 1], "the question was not answered");
}

#[test]
fn calls_of_a_hostile_journal_that_begin_twice_or_end_unbegun_do_no_harm() {
    let mut given = chat();
    given.extend([
        leaf_ended("0/5.5", json!({"output": 1})),
        call("0/0.0", "a"),
        call("0/0.0/0.0", "b"),
        call("0/0.0", "c"),
        call("0/9.9/0.0", "of no caller"),
        call_ended("0/9.9/0.0", json!({"output": 1})),
        call_ended("0/9.9/0.0", json!({"output": 1})),
    ]);
    holds_for_each_prefix(&records(&given));
    let tree = RunView::of(&records(&given)).tree("r", false);
    assert_eq!(tree.calls.len(), 2);
    assert_eq!(tree.calls[0].calls[0].calls.len(), 1);
}

/// The changes that the tests of the web app apply. `UPDATE_EXPECT=1` writes them.
#[test]
fn web_app_is_tested_with_the_changes_that_the_view_makes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/test/unit/views");
    let mut asking = chat();
    asking.extend([call("0/0.0", "write_file"), asked("0/0.0")]);
    let edit = answered("0/0.0", "ask", json!({"answer": "edit", "input": {"a": 2}}));
    let again = answered("0/0.0", "ask.1", json!({"answer": "edit", "input": {"a": 3}}));
    asking.extend([edit, again, leaf_started("0/0.0", "tool"), leaf_ended("0/0.0", json!({"output": 1}))]);
    let mut given = vec![("chat".to_owned(), records(&long_chat())), ("asking".to_owned(), records(&asking))];
    let examples = ["digest", "interview", "orchestrator"];
    given.extend(recorded().into_iter().filter(|(name, _)| examples.contains(&name.as_str())));
    for (name, records) in given {
        let mut view = RunView::with_changes();
        let mut text = String::new();
        for record in &records {
            view.fold(record.into());
            let line = json!({"record": record, "view": view.changes()});
            text.push_str(&format!("{line}\n"));
        }
        let file = folder.join(format!("{name}.jsonl"));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&file, &text).unwrap();
        }
        let known = fs::read_to_string(&file).unwrap_or_default();
        assert!(known == text, "{} differs: run the test again with UPDATE_EXPECT=1", file.display());
    }
}
