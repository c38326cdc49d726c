//! The call tree of a run, as people and programs see it.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod fixture;

use fixture::{JournalInMemory, RUN};
use llm_do_core::{
    engine::{Failure, FailureKind, Principal},
    function::{FunctionSource, Risk},
    gate::Rule,
    journal::{Ending, RecordKind, RunStatus},
    model::{Capabilities, FinishReason, Message, MessageId, ModelError, ModelErrorKind, Part, Role, Usage},
    price::Usd,
    question::{Answer, Approval, Given, Question},
    rule::DecidedBy,
};
use llm_do_records::{CallState, Line, RunTree, Tone, render};
use serde_json::{Value, json};
use std::{ops::Deref, sync::Arc};

struct Sample(JournalInMemory);

impl Deref for Sample {
    type Target = JournalInMemory;
    fn deref(&self) -> &JournalInMemory {
        &self.0
    }
}

impl Sample {
    fn new() -> Self {
        Self(JournalInMemory::new())
    }
    fn call(&self, path: &str, function: &str, input: Value) {
        self.add(
            path,
            "call",
            RecordKind::CallStarted {
                function: function.into(),
                source: FunctionSource::Program,
                principal: Principal::Operator,
                input: Arc::new(input),
                origins: Default::default(),
            },
        );
    }
    fn verdict(&self, path: &str, rule: Rule, by: DecidedBy, reason: Option<&str>) {
        self.add(path, "verdict", RecordKind::Verdict { rule, by, reason: reason.map(Into::into) });
    }
    fn leaf(&self, path: &str, ms: u64, ending: Ending) {
        self.tool_started(path);
        self.pass(ms);
        self.add(
            path,
            "tool",
            RecordKind::ToolEnded {
                ending,
                blobs: Vec::new(),
                log: None,
                origins: Default::default(),
                mixed: false,
            },
        );
    }
    fn tool_started(&self, path: &str) {
        let body =
            RecordKind::ToolStarted { function: "f".into(), risk: Risk::Read, idempotency_key: path.into() };
        self.add(path, "tool", body);
    }
    fn worker(&self, path: &str) {
        self.add(
            path,
            "conversation",
            RecordKind::ConversationStarted {
                worker: "w".into(),
                model: "script:x".parse().unwrap(),
                system: "".into(),
                tools: Arc::new([]),
                withheld: Vec::new(),
                server_tools: Arc::new([]),
                output: None,
                ensures: None,
                with_user: false,
                listens: false,
                final_tool: false,
                can_read_on: false,
                max_context_tokens: None,
                can: Capabilities { native_schema: true, tools: true, sees: Default::default() },
                message: message(Role::User),
                origin: Default::default(),
            },
        );
    }
    fn turn(&self, path: &str, turn: u32, ms: u64, usage: Usage) {
        let step = format!("model.{turn}.0");
        let head = MessageId(0);
        self.add(
            path,
            &step,
            RecordKind::ModelRequested { turn, attempt: 0, head, digest: "d".into(), max_tokens: None },
        );
        self.pass(ms);
        let message = message(Role::Assistant);
        self.add(
            path,
            &step,
            RecordKind::ModelAnswered {
                message,
                finish: FinishReason::Stop,
                usage,
                unknown_finish: None,
                unoffered: Vec::new(),
            },
        );
    }
    fn end(&self, path: &str, usage: Usage) {
        self.add(
            path,
            "end",
            RecordKind::CallEnded {
                ending: output(),
                usage,
                blobs: Vec::new(),
                origins: Default::default(),
                said: Box::default(),
            },
        );
    }
    fn tree(&self, running: bool) -> RunTree {
        RunTree::of(RUN, &self.journal(), running)
    }
}

fn written(origin: &str) -> DecidedBy {
    DecidedBy::rule(&origin.into())
}

fn operator() -> DecidedBy {
    DecidedBy::Operator { by: "operator".into(), via: "terminal".into(), edited: false }
}

fn message(role: Role) -> Arc<Message> {
    Arc::new(Message { id: MessageId(0), parent: None, role, parts: vec![Part::text("hello")] })
}

fn output() -> Ending {
    Ending::Output(Arc::new(json!("done")))
}

fn used(input: u64, output: u64) -> Usage {
    Usage { input_tokens: Some(input), output_tokens: Some(output), ..Usage::default() }
}

#[test]
fn what_is_known_of_the_cost_stands_beside_the_tokens() {
    let cost = |dollars: f64| Usage { cost_usd: Usd::dollars(dollars), ..used(640, 80) };
    let scenario = Sample::new();
    scenario.begin();
    scenario.call("0", "main", json!({}));
    scenario.worker("0");
    scenario.turn("0", 0, 1000, cost(0.0021));
    scenario.call("0/0.0", "free", json!({}));
    scenario.worker("0/0.0");
    scenario.turn("0/0.0", 0, 1000, used(1, 1));
    scenario.end("0/0.0", used(1, 1));
    scenario.end("0", cost(0.0021));
    scenario.add(
        "0",
        "run",
        RecordKind::RunEnded { status: RunStatus::Done, ending: output(), usage: cost(0.0021) },
    );
    let tree = scenario.tree(false);
    assert_eq!(
        text(&tree, None),
        "\
20261121-221530-4f2a  done  main  2.0s  641 in / 81 out tokens
main     2.0s  0.0021 USD, 640/80 tokens
└─ free  1.0s                 1/1 tokens
"
    );
}

fn text(tree: &RunTree, width: Option<usize>) -> String {
    render(tree, width).iter().map(|line| format!("{line}\n")).collect()
}

/// Makes a whole run with a child, an approval, a refusal and a failure.
fn report() -> Sample {
    let scenario = Sample::new();
    scenario.begin();
    scenario.call("0", "main", json!({ "input": "report" }));
    scenario.verdict("0", Rule::PreApproved, DecidedBy::Default(Risk::Delegate), None);
    scenario.worker("0");
    scenario.turn("0", 0, 400, used(1000, 100));
    scenario.call("0/0.0", "read_file", json!({ "path": "input/a.txt" }));
    scenario.verdict("0/0.0", Rule::PreApproved, DecidedBy::Default(Risk::Read), None);
    scenario.leaf("0/0.0", 2, output());
    scenario.call("0/0.1", "summarizer", json!({ "text": "x" }));
    scenario.verdict("0/0.1", Rule::PreApproved, DecidedBy::Default(Risk::Delegate), None);
    scenario.worker("0/0.1");
    scenario.turn("0/0.1", 0, 1100, used(640, 80));
    scenario.call("0/0.1/0.0", "delete_file", json!({ "path": "input/a.txt" }));
    scenario.verdict("0/0.1/0.0", Rule::Blocked, written("main.worker:12"), Some("never delete"));
    let refused = Failure::new(FailureKind::Blocked, "blocked");
    scenario.add(
        "0/0.1/0.0",
        "end",
        RecordKind::CallEnded {
            ending: Ending::Failure(refused),
            usage: Usage::default(),
            blobs: Vec::new(),
            origins: Default::default(),
            said: Box::default(),
        },
    );
    scenario.end("0/0.1", used(640, 80));
    scenario.call("0/1.0", "write_file", json!({ "path": "output/report.md", "content": "…" }));
    let ask = Question::Approval(Approval {
        chain: vec!["main".into()],
        function: "write_file".into(),
        risk: Risk::Write,
        input: Arc::new(json!({})),
        preview: None,
        rule: DecidedBy::Default(Risk::Write),
        calls: None,
        steering: None,
        rules: Vec::new(),
        expires_ms: None,
        arguments: Default::default(),
    });
    scenario.add("0/1.0", "ask", RecordKind::Asked(ask));
    scenario.pass(12_000);
    scenario.add(
        "0/1.0",
        "ask",
        RecordKind::Answered(Given::operator(Answer::Approve { remember: false }, "terminal")),
    );
    scenario.verdict("0/1.0", Rule::PreApproved, operator(), None);
    scenario.leaf("0/1.0", 1, output());
    scenario.call("0/1.1", "search_files", json!({ "pattern": "(", "path": "." }));
    scenario.verdict("0/1.1", Rule::PreApproved, DecidedBy::Default(Risk::Read), None);
    let failure = Failure::new(FailureKind::Tool, "`(` is not a pattern\nmore");
    scenario.leaf("0/1.1", 0, Ending::Failure(failure));
    scenario.end("0", used(1640, 180));
    scenario.add(
        "0",
        "run",
        RecordKind::RunEnded { status: RunStatus::Done, ending: output(), usage: used(1640, 180) },
    );
    scenario
}

#[test]
fn the_tree_shows_time_tokens_and_verdicts() {
    let tree = report().tree(false);
    assert_eq!(text(&tree, None), "\
20261121-221530-4f2a  done  main  13.5s  1,640 in / 180 out tokens
main report                     13.5s  1,640/180 tokens
├─ read_file input/a.txt          2ms                    allowed: default for risk `read`
├─ summarizer x                  1.1s     640/80 tokens
│  └─ delete_file input/a.txt     0ms                    refused: main.worker:12 (never delete)
├─ write_file output/report.md    1ms                    approved by operator, waited 12.0s
└─ search_files .                 0ms                    failed: `(` is not a pattern, allowed: default for risk `read`
");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    use unicode_width::UnicodeWidthStr;
    let scenario = report();
    scenario.call("0/2.0", "größe_日本語", json!({ "path": "日本語/".repeat(40) }));
    let tree = scenario.tree(false);
    for width in [60, 80, 100, 140, 400] {
        for line in text(&tree, Some(width)).lines().skip(1) {
            assert!(line.width() <= width, "{width}: {line}");
        }
    }
    assert_eq!(text(&report().tree(false), Some(80)).lines().nth(2).unwrap().width(), 80);
}

#[test]
fn what_has_not_ended_is_shown_so_far() {
    let scenario = Sample::new();
    scenario.begin();
    scenario.call("0", "main", json!({}));
    scenario.worker("0");
    scenario.turn("0", 0, 1000, used(5, 5));
    scenario.call("0/0.0", "fetch", json!({}));
    scenario.tool_started("0/0.0");
    scenario.pass(3000);
    scenario.add("0/0.0", "tool", RecordKind::TimedOut { after_ms: 3000 });
    scenario.call("0/0.1", "copy_file", json!({ "source": "a", "destination": "b" }));
    scenario.tool_started("0/0.1");
    scenario.add("0/0.1", "tool", RecordKind::Cancelled);
    scenario.call("0/0.2", "main2", json!({}));
    let tree = scenario.tree(true);
    assert_eq!(
        text(&tree, None),
        "\
20261121-221530-4f2a  running  main  4.0s  5 in / 5 out tokens
main                4.0s  5/5 tokens  not ended
├─ fetch            3.0s              timed out
├─ copy_file a → b   0ms              cancelled
└─ main2             0ms              not ended
"
    );
    assert!(text(&scenario.tree(false), None).contains("  cut off  "));
    let states: Vec<CallState> = tree.calls[0].calls.iter().map(|call| call.state).collect();
    assert_eq!(states, [CallState::TimedOut, CallState::Cancelled, CallState::Open]);
}

#[test]
fn open_questions_and_retries_are_said() {
    let scenario = Sample::new();
    scenario.begin();
    scenario.call("0", "main", json!({}));
    scenario.worker("0");
    let head = MessageId(0);
    let digest = Arc::from("d");
    scenario.add(
        "0",
        "model.0.0",
        RecordKind::ModelRequested { turn: 0, attempt: 0, head, digest, max_tokens: None },
    );
    let error = ModelError::new(ModelErrorKind::Server, "503");
    scenario.add("0", "model.0.0", RecordKind::ModelFailed { error, retries: None });
    scenario.turn("0", 0, 0, used(1, 1));
    scenario.call("0/0.0", "write_file", json!({ "path": "a" }));
    let ask = Question::Approval(Approval {
        chain: vec!["main".into()],
        function: "write_file".into(),
        risk: Risk::Write,
        input: Arc::new(json!({})),
        preview: None,
        rule: written("project.yaml:3"),
        calls: None,
        steering: None,
        rules: Vec::new(),
        expires_ms: None,
        arguments: Default::default(),
    });
    scenario.add("0/0.0", "ask", RecordKind::Asked(ask));
    scenario.add(
        "0",
        "end",
        RecordKind::CallEnded {
            ending: Ending::Suspended,
            usage: used(1, 1),
            blobs: Vec::new(),
            origins: Default::default(),
            said: Box::default(),
        },
    );
    let lines = text(&scenario.tree(false), None);
    let lines: Vec<&str> = lines.lines().collect();
    assert!(lines[1].ends_with("suspended, 1 of 2 requests failed"), "{lines:?}");
    assert!(lines[2].ends_with("waits for approval at 0/0.0: project.yaml:3"), "{lines:?}");
}

#[test]
fn nothing_from_a_model_moves_the_cursor() {
    let scenario = Sample::new();
    scenario.begin();
    scenario.call("0", "main\u{1b}[2J", json!({ "path": "a\u{1b}]0;title\u{7}b\r\u{202e}c\nd" }));
    scenario.add("0", "note", RecordKind::Note { text: "no\u{9b}te".into() });
    let text = text(&scenario.tree(false), None);
    assert!(text.lines().all(|line| !line.chars().any(|c| c.is_control() || c == '\u{202e}')), "{text:?}");
    assert!(text.contains("main\\u{1b}[2J") && text.contains("\\u{202e}c d"), "{text:?}");
}

#[test]
fn tones_tell_what_went_wrong() {
    let lines = render(&report().tree(false), None);
    let tone_of = |part: &str| {
        let piece =
            |Line(pieces): &Line| pieces.iter().find(|(_, text)| text.contains(part)).map(|(tone, _)| *tone);
        lines.iter().find_map(piece).unwrap()
    };
    assert_eq!(tone_of("done"), Tone::Good);
    assert_eq!(tone_of("refused"), Tone::Bad);
    assert_eq!(tone_of("approved by operator"), Tone::Notice);
    assert_eq!(tone_of("failed"), Tone::Bad);
}

#[test]
fn programs_get_the_same_tree_as_json() {
    let json = serde_json::to_value(report().tree(false)).unwrap();
    assert_eq!(json["state"], "done");
    assert_eq!(json["calls"][0]["calls"][2]["waited_ms"], 12_000);
    assert_eq!(
        json["calls"][0]["calls"][1]["calls"][0]["verdict"]["by"],
        json!({"rule": {"origin": "main.worker:12"}})
    );
    assert_eq!(json["calls"][0]["calls"][3]["failure"]["kind"], "tool");
}

#[test]
fn a_doctored_journal_is_shown_all_the_same() {
    let scenario = Sample::new();
    let mut path = "0".to_owned();
    for _ in 0..3000 {
        scenario.call(&path, "again", json!({}));
        path.push_str("/0.0");
    }
    let tree = scenario.tree(false);
    assert_eq!(render(&tree, Some(80)).len(), 3001);

    let mut journal = scenario.0.journal();
    for (record, at_ms) in journal.records.iter_mut().zip([9, 5, 0].into_iter().cycle()) {
        record.at_ms = at_ms;
    }
    assert_eq!(RunTree::of("backwards", &journal, false).took_ms, 0);
}
