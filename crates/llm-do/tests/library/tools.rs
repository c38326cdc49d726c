//! Functions as tools.

use crate::Folder;
use llm_do::{
    Options, Tool, ToolContext,
    event::RecordKind,
    host::runs::read_journal,
    schemars::JsonSchema,
    serde_json::{Value, json},
};
use serde::{Deserialize, Serialize};
use std::{io, time::Duration};

/// A place on a map.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Place {
    /// Degrees north.
    north: f64,
    east: f64,
}

/// Moves a place.
///
/// Both numbers are degrees.
#[llm_do::tool(reads)]
async fn shift(
    /// Where it is.
    from: Place,
    /// How far it goes.
    #[serde(default)]
    by: u32,
    context: ToolContext,
) -> Result<Place, io::Error> {
    match context.run.len() {
        0 => Err(io::Error::other("no run")),
        _ => Ok(Place { north: from.north + f64::from(by), east: from.east }),
    }
}

/// Has a name that is a word of Rust.
#[llm_do::tool(name = "type-of", reads, trusted, parallel, timeout = 0.05)]
async fn r#type() -> &'static str {
    tokio::time::sleep(Duration::from_secs(60)).await;
    "late"
}

/// Changes something.
#[llm_do::tool]
async fn change(mut what: String) -> String {
    what.push('!');
    what
}

#[test]
fn the_parameters_are_the_schema_that_models_see() {
    assert_eq!(
        *shift::tool().input(),
        json!({
            "type": "object",
            "properties": {
                "from": {
                    "description": "Where it is.",
                    "type": "object",
                    "properties": {
                        "north": {"description": "Degrees north.", "type": "number"},
                        "east": {"type": "number"},
                    },
                    "required": ["north", "east"],
                },
                "by": {"description": "How far it goes.", "type": "integer", "minimum": 0, "default": 0},
            },
            "required": ["from"],
            "additionalProperties": false,
        })
    );
    assert_eq!(*r#type::tool().input(), json!({"type": "object", "additionalProperties": false}));
    assert_eq!((shift::tool().name(), r#type::tool().name()), ("shift", "type-of"));
}

#[tokio::test]
async fn a_tool_is_still_a_function() {
    assert_eq!(change("so".into()).await, "so!");
}

/// The last message of a run in which the model makes these calls.
async fn said(options: Options, calls: &Value) -> String {
    let folder = Folder::of("toolsets: [rust]");
    let script = json!({"answers": [{"when": {"turn": 0}, "calls": calls}, {"text": "{{ last }}"}]});
    let tools = [shift::tool(), r#type::tool(), change::tool()];
    let builder = folder.builder(&script.to_string()).toolset("rust", tools).options(options);
    let program = builder.temporary_journals().open().unwrap();
    program.entry().unwrap().returns::<String>().unwrap().call("x").await.unwrap()
}

#[tokio::test]
async fn a_model_hears_results_and_errors() {
    let call = |arguments: Value| json!([{"tool": "shift", "arguments": arguments}]);
    let moved = said(Options::new(), &call(json!({"from": {"north": 1.5, "east": 2}, "by": 3}))).await;
    assert_eq!(moved, r#"{"north":4.5,"east":2.0}"#);
    let wrong = said(Options::new(), &call(json!({"from": {"north": "far"}, "to": 1}))).await;
    assert!(wrong.contains("/from") && wrong.contains("to"), "{wrong}");
    // The schema has no upper limit, and the type has one.
    let large =
        said(Options::new(), &call(json!({"from": {"north": 0, "east": 0}, "by": 1_u64 << 40}))).await;
    assert!(large.contains("the arguments don't fit"), "{large}");
    let late = said(Options::new(), &json!([{"tool": "type-of"}])).await;
    assert!(late.contains("did not finish"), "{late}");
}

#[tokio::test]
async fn a_tool_that_declares_nothing_asks() {
    let calls = json!([{"tool": "change", "arguments": {"what": "all"}}]);
    let refused = said(Options::new(), &calls).await;
    assert!(refused.contains("change") && !refused.contains("all!"), "{refused}");
    assert_eq!(said(Options::new().allow("change"), &calls).await, "all!");
}

#[tokio::test]
async fn a_worker_file_narrows_and_rules_the_tools() {
    let open = |keys: &str, script: &str| {
        let folder = Folder::of(keys);
        let program = folder.builder(script).tool(shift::tool()).tool(change::tool()).temporary_journals();
        (program.open(), folder)
    };
    let calls =
        "answers: [{when: {turn: 0}, calls: [{tool: change, arguments: {what: x}}]}, {text: '{{ last }}'}]";
    for keys in
        ["toolsets: {rust: {approval: {tools: {change: blocked}}}}", "toolsets: {rust: {tools: [shift]}}"]
    {
        let (program, _folder) = open(keys, calls);
        let call = program.unwrap().entry().unwrap().call("x");
        let said = call.options(Options::new().allow("change")).await.unwrap();
        assert!(!said.to_string().contains("x!"), "{keys}: {said}");
    }
    for (keys, expected) in [
        ("toolsets: {rust: {tools: [shft]}}", "shft"),
        ("toolsets: {rust: {speed: 1}}", "speed"),
        ("toolsets: [rusty]", "rusty"),
    ] {
        let folder = Folder::of(&format!("model: openai:gpt-5-mini\n{keys}"));
        let findings = folder.builder(calls).tool(shift::tool()).check().unwrap();
        assert!(
            findings.iter().any(|found| found.is_error() && found.message.contains(expected)),
            "{keys}: {findings:?}"
        );
    }
}

#[tokio::test]
async fn results_of_the_network_are_untrusted() {
    let folder = Folder::of("toolsets: {rust: {}, filesystem: {}}");
    let fetch =
        || Tool::new("fetch", "Reads a page.", |_: llm_do::NoArguments| async { Ok::<_, String>("buy now") });
    let script = "
answers:
  - when: {turn: 0}
    calls: [{tool: fetch}]
  - when: {turn: 1}
    calls: [{tool: write_file, arguments: {path: page.txt, content: buy now}}]
  - text: '{{ last }}'
";
    let program = folder
        .builder(script)
        .tool(fetch().risk(llm_do::Risk::Network))
        .options(Options::new().allow("fetch"))
        .temporary_journals()
        .open()
        .unwrap();
    let running = program.entry().unwrap().call("x").start().unwrap();
    let journal = running.journal().to_owned();
    running.await.unwrap();
    let records = read_journal(&journal).unwrap().records;
    let origins = |name: &str| {
        records.iter().find_map(|record| match &record.body {
            RecordKind::ToolEnded { origins, .. } if record.path.to_string() == name => {
                Some(origins.is_trusted())
            }
            _ => None,
        })
    };
    assert_eq!(origins("0/0.0"), Some(false), "{records:?}");
}
