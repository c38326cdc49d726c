//! A call in full, the timeline, and the lines of a run that is followed.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

mod fixture;

use fixture::{JournalInMemory, RUN};
use llm_do_core::{
    engine::{Failure, FailureKind, Principal},
    function::{FunctionSource, Preview, Risk},
    gate::Rule,
    journal::{Ending, RecordKind, RunStatus},
    model::{Capabilities, FinishReason, Message, MessageId, Part, Role, Usage},
    question::{Answer, Approval, Given, Question},
    rule::DecidedBy,
};
use llm_do_records::{Following, Line, StepKind, Timeline, WholeRun, render_call, render_timeline};
use serde_json::json;
use std::{ops::Deref, sync::Arc};
use unicode_width::UnicodeWidthStr;

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
    fn call(&self, path: &str, function: &str) {
        let body = RecordKind::CallStarted {
            function: function.into(),
            source: FunctionSource::Program,
            principal: Principal::Operator,
            input: Arc::new(json!({"path": "a\u{1b}[2J.md", "text": "one\ntwo"})),
            origins: Default::default(),
        };
        self.add(path, "call", body);
    }
    fn converses(&self, path: &str) {
        let body = RecordKind::ConversationStarted {
            worker: "main".into(),
            model: "script:x".parse().unwrap(),
            system: "Be brief.\u{202e}".into(),
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
            message: message(0, Role::User, "Hello."),
            origin: Default::default(),
        };
        self.add(path, "conversation", body);
    }
    fn asks_model(&self, path: &str, turn: u32) {
        let (step, head) = (format!("model.{turn}.0"), MessageId(0));
        let body =
            RecordKind::ModelRequested { turn, attempt: 0, head, digest: "d".into(), max_tokens: None };
        self.add(path, &step, body);
    }
    fn model_answers(&self, path: &str, turn: u32) {
        let usage = Usage { input_tokens: Some(64), output_tokens: Some(8), ..Usage::default() };
        let message = message(1, Role::Assistant, "Good day.");
        self.add(
            path,
            &format!("model.{turn}.0"),
            RecordKind::ModelAnswered {
                message,
                finish: FinishReason::Stop,
                usage,
                unknown_finish: None,
                unoffered: Vec::new(),
            },
        );
    }
    fn asks_operator(&self, path: &str) {
        let body = RecordKind::Asked(Question::Approval(Approval {
            chain: vec!["main".into()],
            function: "write_file".into(),
            risk: Risk::Write,
            input: Arc::new(json!({})),
            preview: Some(Box::new(Preview::Change {
                path: "/a.md".into(),
                before: Some("old\n".into()),
                after: Some("new\n".into()),
            })),
            rule: DecidedBy::rule(&"main.worker:3".into()),
            calls: None,
            steering: None,
            rules: Vec::new(),
            expires_ms: None,
            arguments: Default::default(),
        }));
        self.add(path, "ask", body);
    }
    fn tool_starts(&self, path: &str) {
        let body =
            RecordKind::ToolStarted { function: "f".into(), risk: Risk::Write, idempotency_key: path.into() };
        self.add(path, "tool", body);
    }
    fn tool_ends(&self, path: &str, ending: Ending, log: Option<&str>) {
        self.add(
            path,
            "tool",
            RecordKind::ToolEnded {
                ending,
                blobs: Vec::new(),
                log: log.map(Into::into),
                origins: Default::default(),
                mixed: false,
            },
        );
    }
    fn ends(&self) {
        self.add(
            "0",
            "end",
            RecordKind::CallEnded {
                ending: done(),
                usage: Usage::default(),
                blobs: Vec::new(),
                origins: Default::default(),
                said: Box::default(),
            },
        );
        let body = RecordKind::RunEnded { status: RunStatus::Done, ending: done(), usage: Usage::default() };
        self.add("0", "run", body);
    }
    fn whole(&self) -> WholeRun {
        WholeRun::of(RUN, self.journal(), false)
    }
}

fn done() -> Ending {
    Ending::Output(Arc::new(json!("done")))
}

fn message(id: u32, role: Role, text: &str) -> Arc<Message> {
    Arc::new(Message { id: MessageId(id), parent: None, role, parts: vec![Part::text(text)] })
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| format!("{}\n", line.to_string().trim_end())).collect()
}

/// Makes two calls side by side, one of which waits for an answer.
fn parallel() -> Sample {
    let scenario = Sample::new();
    scenario.begin();
    scenario.call("0", "main");
    scenario.converses("0");
    scenario.asks_model("0", 0);
    scenario.pass(1000);
    scenario.model_answers("0", 0);
    scenario.call("0/0.0", "write_file");
    scenario.asks_operator("0/0.0");
    scenario.call("0/0.1", "fetch");
    scenario.tool_starts("0/0.1");
    scenario.pass(2000);
    scenario.tool_ends("0/0.1", Ending::Failure(Failure::new(FailureKind::Tool, "no answer\nmore")), None);
    scenario.add(
        "0/0.0",
        "ask",
        RecordKind::Answered(Given::operator(Answer::Approve { remember: false }, "terminal")),
    );
    let by = DecidedBy::Operator { by: "operator".into(), via: "terminal".into(), edited: false };
    scenario.add("0/0.0", "verdict", RecordKind::Verdict { rule: Rule::PreApproved, by, reason: None });
    scenario.tool_starts("0/0.0");
    scenario.pass(1000);
    scenario.tool_ends("0/0.0", done(), Some("wrote\u{7} it\n"));
    scenario.ends();
    scenario
}

#[test]
fn calls_side_by_side_have_bars_side_by_side() {
    let scenario = parallel();
    let run = scenario.whole();
    let timeline = Timeline::of(&run);
    let lines = text(&render_timeline(run.tree(), &timeline, Some(72)));
    let (_, lines) = lines.split_once('\n').unwrap();
    let expected = [
        "                            1.0s      2.0s       3.0s      4.0s",
        "0      main          ███████████───────────────────────────────     4.0s",
        "0/0.0    write_file             ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▆▆▆▆▆▆▆▆▆▆     3.0s",
        "0/0.1    fetch                  ▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆               2.0s",
        "█ model  ▆ tool  ▒ waiting for an answer",
    ];
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
    for width in [1, 40, 60, 80, 200] {
        for line in render_timeline(run.tree(), &timeline, Some(width)).iter().skip(1) {
            assert!(line.to_string().width() <= width.max(58), "{width}: {line}");
        }
    }
    let row = &timeline.rows[1];
    assert_eq!((row.from_ms, row.to_ms, row.depth), (1000, 4000, 1));
    let spans: Vec<_> = row.spans.iter().map(|span| (span.kind, span.from_ms, span.to_ms)).collect();
    assert_eq!(spans, [(StepKind::Question, 1000, 3000), (StepKind::Tool, 3000, 4000)]);
}

#[test]
fn a_step_that_was_cut_off_took_no_time_while_nobody_was_at_work() {
    let scenario = Sample::new();
    scenario.begin();
    scenario.call("0", "main");
    scenario.tool_starts("0");
    scenario.pass(300);
    scenario.add("0", "note", RecordKind::Note { text: "still at work".into() });
    scenario.pass(60_000);
    scenario.add("0", "run", RecordKind::RunResumed { version: "0.1.0".into(), idle_ms: 60_000 });
    scenario.tool_starts("0");
    scenario.pass(200);
    scenario.tool_ends("0", done(), None);
    let spans: Vec<_> =
        Timeline::of(&scenario.whole()).rows[0].spans.iter().map(|span| (span.from_ms, span.to_ms)).collect();
    assert_eq!(spans, [(0, 300), (60_300, 60_500)]);
}

#[test]
fn marks_are_round_and_few() {
    for took_ms in [0, 1, 9, 250, 4000, 61_000, 3_600_000, 1_000_000_000, u64::MAX / 4, u64::MAX] {
        let marks = Timeline { started_ms: 0, took_ms, gaps: Vec::new(), rows: Vec::new() }.marks(6);
        assert!(marks.len() <= 6 && marks.iter().all(|at| *at <= took_ms), "{took_ms}: {marks:?}");
    }
    let marks = |took_ms| Timeline { started_ms: 0, took_ms, gaps: Vec::new(), rows: Vec::new() }.marks(6);
    assert_eq!(marks(4000), [1000, 2000, 3000, 4000]);
    assert_eq!(marks(250_000), [60_000, 120_000, 180_000, 240_000]);
}

#[test]
fn a_call_in_full_tells_what_was_sent_said_and_decided() {
    let scenario = parallel();
    let run = scenario.whole();
    let root = text(&render_call(&run, &run.call(&"0".into()).unwrap()));
    for part in [
        "0  main  done",
        "  script:x, 1 request\n",
        "│ Be brief.\\u{202e}",
        "│ Hello.",
        "the model  64/8 tokens",
        "│ Good day.",
    ] {
        assert!(root.contains(part), "{part}: {root}");
    }
    let write = text(&render_call(&run, &run.call(&"0/0.0".into()).unwrap()));
    for part in [
        "took 1.0s, waited 2.0s for an answer",
        "path: \"a\\u001b[2J.md\"",
        "  │ one\n  │ two",
        "main asked, risk write, because of main.worker:3",
        "  -old\n  +new",
        "the operator (terminal) approved",
        "allowed by operator",
        "│ wrote\\u{7} it",
        "output\n  │ done",
    ] {
        assert!(write.contains(part), "{part}: {write}");
    }
    assert!(!write.contains("conversation"), "{write}");
    assert!(run.call(&"0/9.9".into()).is_none());
    let json = serde_json::to_value(run.call(&"0/0.0".into()).unwrap()).unwrap();
    assert_eq!((&json["function"], &json["output"]), (&json!("write_file"), &json!("done")));
    let kinds: Vec<&str> =
        json["records"].as_array().unwrap().iter().map(|record| record["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["call_started", "asked", "answered", "verdict", "tool_started", "tool_ended"]);
    let root = serde_json::to_value(run.call(&"0".into()).unwrap()).unwrap();
    assert!(root["records"].as_array().unwrap().iter().all(|record| record["kind"] != "run_ended"));
}

#[test]
fn what_comes_is_told_line_by_line() {
    let scenario = parallel();
    let mut following = Following::default();
    let records = scenario.0.journal().records;
    let lines: Vec<Line> = records.iter().filter_map(|record| following.line(record)).collect();
    assert_eq!(
        text(&lines),
        "   +0ms  run of main
   +0ms  ▸ main a\\u{1b}[2J.md
  +1.0s    ▸ write_file a\\u{1b}[2J.md
  +1.0s    ? write_file at 0/0.0 waits for approval: main.worker:3
  +1.0s    ▸ fetch a\\u{1b}[2J.md
  +3.0s    ✗ fetch 2.0s  no answer
  +3.0s    write_file approved
  +4.0s    ✓ write_file 1.0s
  +4.0s  ✓ main 4.0s
  +4.0s  done
"
    );
}
