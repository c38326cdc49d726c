//! `llm-do schema`, and the check of the events of all scenarios against it.

use crate::scenario::Scenario;
use llm_do_core::schema::Schema;
use serde_json::{Value, json};
use std::{process::Command, sync::LazyLock};

/// The schema of events, as the binary prints it.
static EVENTS: LazyLock<Schema> = LazyLock::new(|| {
    let out = Command::new(env!("CARGO_BIN_EXE_llm-do"))
        .args(["schema", "events"])
        .output()
        .expect("the binary starts");
    Schema::new(serde_json::from_slice(&out.stdout).expect("JSON")).expect("a schema")
});

/// Fails if this is not a valid event.
#[track_caller]
pub(crate) fn assert_event(event: &Value) {
    if let Err(wrong) = EVENTS.validate(event) {
        panic!("not an event by `llm-do schema events`: {wrong:?}\n{event:#}");
    }
}

#[test]
fn schemas_accept_valid_and_reject_invalid_files() {
    let scenario = Scenario::new();
    let schema = |what: &str| {
        let told = scenario.run(&["schema", what]);
        assert_eq!((told.code, told.stderr.as_str()), (Some(0), ""), "{told}");
        let value: Value = serde_json::from_str(&told.stdout).expect("JSON");
        assert_eq!(value["$schema"], "https://json-schema.org/draft/2020-12/schema");
        Schema::new(value).expect("a schema")
    };
    let worker = schema("worker");
    assert!(
        worker
            .validate(&json!({"model": "a:b", "allowWorkers": ["x"], "toolsets": {"filesystem": {}}}))
            .is_ok()
    );
    assert!(worker.validate(&json!({"modle": "a:b"})).is_err());
    let project = schema("project");
    assert!(project.validate(&json!({"version": 1, "delegation": {"maxDepth": 2}, "x-mine": [1]})).is_ok());
    assert!(project.validate(&json!({"delegation": {"max_dept": 2}})).is_err());
    let lib = schema("lib");
    assert!(lib.validate(&json!({"name": "a", "version": "1.0", "exports": ["b"]})).is_ok());
    assert!(lib.validate(&json!({"version": "1.0"})).is_err());
    schema("events");
    let serve = schema("serve");
    let trigger = |more: Value| {
        let mut trigger = json!({"name": "t", "message": "Go."});
        trigger.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"triggers": [trigger]})
    };
    assert!(serve.validate(&trigger(json!({"cron": {"at": "0 3 * * *"}}))).is_ok());
    assert!(
        serve.validate(&trigger(json!({"cron": {"at": "0 3 * * *"}, "folder": {"path": "/in"}}))).is_err()
    );
}

#[test]
fn unknown_schema_name_is_an_error() {
    let told = Scenario::new().run(&["schema", "wrokers"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("possible values: worker, project, lib, cases, events, serve"), "{told}");
}
