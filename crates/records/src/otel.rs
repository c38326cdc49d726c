//! A run as an OpenTelemetry trace, in the JSON form of OTLP (the protocol's `ExportTraceServiceRequest`; 64-bit
//! numbers are strings and IDs hexadecimal there). Names follow the semantic conventions for generative AI (version
//! 1.41): a worker's call is `invoke_agent`, a request to its model `chat`, any other call `execute_tool`. Attributes
//! that the conventions have no name for begin with `llm_do.`.

use crate::{
    render::compacted,
    steps::{Step, StepKind},
    tree::{CallNode, CallState},
    whole::WholeRun,
};
use llm_do_core::{
    call_path::CallPath,
    journal::{Record, RecordKind},
    model::{Arguments, Message, ModelName, Part, Purpose, Role, Usage},
    question::{Answer, Question},
};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{collections::HashMap, sync::Arc};

/// The schema of the conventions that define the names.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.41.0";

/// Converts a run to one OTLP request. With `content` it includes messages, and arguments and results of tools;
/// without, only names, times, numbers, decisions and error messages.
pub fn otlp(run: &WholeRun, content: bool) -> Value {
    let version = run.records().iter().find_map(|record| match &record.body {
        RecordKind::RunStarted { version, .. } => Some(Arc::clone(version)),
        _ => None,
    });
    let version = version.as_deref().unwrap_or("unknown");
    let tree = run.tree();
    let resource = Attributes::default()
        .text("service.name", "llm-do")
        .text("service.version", version)
        .text("llm_do.run", &tree.run)
        .text("llm_do.target", &tree.target);
    json!({"resourceSpans": [{
        "resource": {"attributes": resource.0},
        "scopeSpans": [{
            "scope": {"name": "llm-do", "version": version},
            "schemaUrl": SCHEMA,
            "spans": Spans::new(run, content).all(),
        }],
    }]})
}

/// Returns the ID of a run's trace: the same for each export.
fn trace_id(run: &str) -> String {
    hexadecimal(&Sha256::digest(format!("llm-do run {run}"))[..16])
}

fn span_id(run: &str, path: &CallPath, step: &str) -> String {
    hexadecimal(&Sha256::digest(format!("llm-do span {run}\n{path}\n{step}"))[..8])
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Attributes of a span, an event or a resource.
#[derive(Default)]
struct Attributes(Vec<Value>);

impl Attributes {
    fn with(mut self, key: &str, value: Value) -> Self {
        self.0.push(json!({"key": key, "value": value}));
        self
    }
    fn text(self, key: &str, text: &str) -> Self {
        self.with(key, json!({"stringValue": text}))
    }
    fn texts(self, key: &str, texts: &[String]) -> Self {
        let values: Vec<Value> = texts.iter().map(|text| json!({"stringValue": text})).collect();
        self.with(key, json!({"arrayValue": {"values": values}}))
    }
    fn number(self, key: &str, number: impl Into<Option<u64>>) -> Self {
        match number.into() {
            Some(number) => self.with(key, json!({"intValue": number.to_string()})),
            None => self,
        }
    }
    fn model(self, model: &ModelName) -> Self {
        self.text("gen_ai.provider.name", provider(model)).text("gen_ai.request.model", model.model())
    }
    fn usage(self, usage: Usage) -> Self {
        self.number("gen_ai.usage.input_tokens", usage.input_tokens)
            .number("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens)
            .number("gen_ai.usage.output_tokens", usage.output_tokens)
    }
}

/// Returns the provider's name in the conventions, or its own name if they have none.
fn provider(model: &ModelName) -> &str {
    match model.provider() {
        "claude" => "anthropic",
        "openai_resp" | "openai-responses" => "openai",
        "gemini" | "google" => "gcp.gemini",
        "vertex" | "vertexai" => "gcp.vertex_ai",
        "bedrock" | "aws" => "aws.bedrock",
        "xai" | "grok" => "x_ai",
        "mistral" => "mistral_ai",
        own => own,
    }
}

/// Returns the name that a value has in JSON.
fn name_of(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

/// Returns the journal's word for an answer: `approve`, `deny`, ….
fn name_of_answer(answer: &Answer) -> String {
    let word = serde_json::to_value(answer).ok();
    word.and_then(|value| Some(value.get("answer")?.as_str()?.to_owned())).unwrap_or_default()
}

/// Converts milliseconds to `unixNano`.
fn nanoseconds(ms: u64) -> String {
    (u128::from(ms) * 1_000_000).min(u128::from(u64::MAX)).to_string()
}

struct Spans<'a> {
    run: &'a WholeRun,
    content: bool,
    trace: String,
    /// The provider's IDs of the calls that models made.
    ids: HashMap<CallPath, Arc<str>>,
    steps: HashMap<&'a CallPath, Vec<Step<'a>>>,
    /// The models that answered each call, each with the number of the record from which on it did.
    chosen: HashMap<&'a CallPath, Vec<(u64, &'a ModelName)>>,
}

impl<'a> Spans<'a> {
    fn new(run: &'a WholeRun, content: bool) -> Self {
        let (mut ids, mut steps) = (HashMap::new(), HashMap::<_, Vec<Step<'a>>>::new());
        for step in run.steps() {
            if let (
                RecordKind::ModelRequested { turn, .. },
                Some(RecordKind::ModelAnswered { message, .. }),
            ) = (&step.begin.body, step.end.map(|end| &end.body))
            {
                for (index, call) in message.calls().enumerate() {
                    ids.insert(step.begin.path.call(*turn, index), Arc::clone(&call.id));
                }
            }
            steps.entry(&step.begin.path).or_default().push(step);
        }
        let mut chosen = HashMap::<_, Vec<_>>::new();
        for record in run.records() {
            if let RecordKind::ConversationStarted { model, .. } | RecordKind::ModelChosen { model, .. } =
                &record.body
            {
                chosen.entry(&record.path).or_default().push((record.seq, model));
            }
        }
        Self { run, content, trace: trace_id(&run.tree().run), ids, steps, chosen }
    }

    /// Returns the calls in the order of the tree, each before its own steps.
    fn all(&self) -> Vec<Value> {
        let mut spans = Vec::new();
        let mut left: Vec<(Option<&CallNode>, &CallNode)> =
            self.run.tree().calls.iter().rev().map(|node| (None, node)).collect();
        while let Some((parent, node)) = left.pop() {
            spans.push(self.call(parent, node));
            let steps = self.steps.get(&node.path).into_iter().flatten();
            spans.extend(steps.filter_map(|step| self.step(node, step)));
            left.extend(node.calls.iter().rev().map(|call| (Some(node), call)));
        }
        spans
    }

    fn id(&self, path: &CallPath) -> String {
        span_id(&self.run.tree().run, path, "call")
    }

    fn call(&self, parent: Option<&CallNode>, node: &CallNode) -> Value {
        let whole = self.run.whole(node);
        let worker = node.model.is_some();
        let operation = if worker { "invoke_agent" } else { "execute_tool" };
        let mut attributes = Attributes::default()
            .text("gen_ai.operation.name", operation)
            .text("gen_ai.conversation.id", &self.run.tree().run)
            .text(if worker { "gen_ai.agent.name" } else { "gen_ai.tool.name" }, &node.function);
        if let Some(model) = &node.model {
            attributes = attributes.model(model);
        } else {
            attributes = attributes.text("gen_ai.tool.type", "function");
        }
        if let Some(id) = self.ids.get(&node.path) {
            attributes = attributes.text("gen_ai.tool.call.id", id);
        }
        attributes =
            attributes.text("llm_do.place", node.path.as_str()).text("llm_do.state", &name_of(node.state));
        if let Some(verdict) = &node.verdict {
            attributes = attributes
                .text("llm_do.verdict", &name_of(verdict.rule))
                .text("llm_do.verdict.by", &verdict.by.to_string());
        }
        let origins =
            [("llm_do.origin.arguments", &node.origins), ("llm_do.origin.result", &node.output_origins)];
        for (name, origins) in origins.into_iter().filter(|(_, origins)| !origins.is_trusted()) {
            attributes = attributes.text(name, &origins.greatest().to_string());
        }
        if self.content {
            attributes = attributes.text("gen_ai.tool.call.arguments", &node.input.to_string());
            if let Some(output) = whole.output {
                attributes = attributes.text("gen_ai.tool.call.result", &output.to_string());
            }
            let system = whole.records.iter().find_map(|record| match &record.body {
                RecordKind::ConversationStarted { system, .. } => Some(system),
                _ => None,
            });
            if let Some(system) = system {
                let instructions = json!([{"type": "text", "content": system}]);
                attributes = attributes.text("gen_ai.system_instructions", &instructions.to_string());
            }
        }
        let (failed, why) = match (node.state, &node.failure) {
            (CallState::Done | CallState::Open | CallState::Suspended, _) => (None, None),
            (_, Some(failure)) => (Some(name_of(failure.kind)), Some(failure.message.as_str())),
            (state, None) => (Some(name_of(state)), None),
        };
        self.span(Span {
            id: self.id(&node.path),
            parent: parent.map(|parent| self.id(&parent.path)),
            name: format!("{operation} {}", node.function),
            // Internal to this process.
            kind: 1,
            from_ms: node.started_ms,
            to_ms: node.ended_ms(),
            attributes,
            events: whole.records.iter().filter_map(|record| event(record)).collect(),
            failed,
            why,
        })
    }

    /// Requests to models and questions have spans; the time of a tool is that of its call.
    fn step(&self, node: &CallNode, step: &Step<'_>) -> Option<Value> {
        let end = step.end.map(|end| &end.body);
        let mut attributes = Attributes::default();
        let (mut failed, mut why) = (None, None);
        let (name, kind) = match (step.kind, &step.begin.body) {
            (StepKind::Model, RecordKind::ModelRequested { max_tokens, attempt, turn, .. }) => {
                let chosen = self.chosen.get(&node.path).map(Vec::as_slice).unwrap_or_default();
                let before = |&&(seq, _): &&(u64, _)| seq < step.begin.seq;
                let model = chosen.iter().rev().find(before).map(|(_, model)| *model)?;
                attributes = attributes
                    .text("gen_ai.operation.name", "chat")
                    .text("gen_ai.conversation.id", &self.run.tree().run)
                    .text("gen_ai.agent.name", &node.function)
                    .model(model)
                    .number("gen_ai.request.max_tokens", max_tokens.map(u64::from))
                    .number("llm_do.turn", u64::from(*turn))
                    .number("llm_do.attempt", u64::from(*attempt));
                if step.begin.step.request() == Some(Purpose::Summary) {
                    attributes = attributes.text("llm_do.purpose", "summary");
                }
                match end {
                    Some(RecordKind::ModelAnswered { message, finish, usage, .. }) => {
                        let finish = name_of(finish);
                        if self.content {
                            let said = said(message, &finish).to_string();
                            attributes = attributes.text("gen_ai.output.messages", &said);
                        }
                        attributes =
                            attributes.usage(*usage).texts("gen_ai.response.finish_reasons", &[finish]);
                    }
                    Some(RecordKind::ModelFailed { error, .. }) => {
                        (failed, why) = (Some(name_of(error.kind)), Some(error.message.as_str()));
                    }
                    Some(RecordKind::TimedOut { .. }) => failed = Some("timeout".to_owned()),
                    _ => failed = Some("cancelled".to_owned()),
                }
                // Usually a request to another machine.
                (format!("chat {}", model.model()), 3)
            }
            (StepKind::Question, RecordKind::Asked(question)) => {
                let name = match question {
                    Question::Approval(approval) => {
                        attributes = attributes
                            .text("llm_do.risk", &approval.risk.to_string())
                            .text("llm_do.rule", &approval.rule.to_string());
                        format!("approval {}", approval.function)
                    }
                    Question::Input(_) => format!("input {}", node.function),
                    Question::Settlement(settlement) => format!("settlement {}", settlement.function),
                };
                let answer = match end {
                    Some(RecordKind::Answered(given)) => {
                        attributes = attributes
                            .text("llm_do.answered.by", &given.by)
                            .text("llm_do.answered.via", &given.via);
                        if let Some(requester) = &given.requester {
                            attributes = attributes.text("llm_do.requested.by", &requester.by);
                        }
                        name_of_answer(&given.answer)
                    }
                    _ => "none".to_owned(),
                };
                attributes = attributes.text("llm_do.answer", &answer);
                (name, 1)
            }
            _ => return None,
        };
        Some(self.span(Span {
            id: span_id(
                &self.run.tree().run,
                step.path(),
                &format!("{} {}", step.begin.seq, step.begin.step),
            ),
            parent: Some(self.id(&node.path)),
            name,
            kind,
            from_ms: step.begun_ms,
            to_ms: step.ended_ms,
            attributes,
            events: Vec::new(),
            failed,
            why,
        }))
    }

    fn span(&self, span: Span<'_>) -> Value {
        let mut attributes = span.attributes;
        // 0: unset; 2: error.
        let mut status = json!({"code": 0});
        if let Some(failed) = span.failed {
            attributes = attributes.text("error.type", &failed);
            status = json!({"code": 2, "message": span.why.unwrap_or(&failed)});
        }
        let mut value = json!({
            "traceId": self.trace,
            "spanId": span.id,
            "name": span.name,
            "kind": span.kind,
            "startTimeUnixNano": nanoseconds(span.from_ms),
            "endTimeUnixNano": nanoseconds(span.to_ms),
            "attributes": attributes.0,
            "events": span.events,
            "status": status,
        });
        if let Some(parent) = span.parent {
            value["parentSpanId"] = parent.into();
        }
        value
    }
}

/// The parts of a span.
struct Span<'a> {
    id: String,
    parent: Option<String>,
    name: String,
    kind: u8,
    from_ms: u64,
    to_ms: u64,
    attributes: Attributes,
    events: Vec<Value>,
    /// The kind of its failure, if it failed.
    failed: Option<String>,
    why: Option<&'a str>,
}

/// Converts a record to an event within a call, if it is one.
fn event(record: &Record) -> Option<Value> {
    let (name, attributes) = match &record.body {
        RecordKind::Slept { ms } => ("llm_do.pause", Attributes::default().number("llm_do.pause.ms", *ms)),
        RecordKind::Compacted(compaction) => (
            "llm_do.compaction",
            Attributes::default()
                .number("llm_do.compaction.before", compaction.before)
                .number("llm_do.compaction.after", compaction.after)
                .text("llm_do.text", &compacted(compaction)),
        ),
        RecordKind::Limit { what } => ("llm_do.limit", Attributes::default().text("llm_do.text", what)),
        RecordKind::Note { text } => ("llm_do.note", Attributes::default().text("llm_do.text", text)),
        _ => return None,
    };
    Some(json!({"timeUnixNano": nanoseconds(record.at_ms), "name": name, "attributes": attributes.0}))
}

/// Returns an answer in the message format of the conventions.
fn said(message: &Message, finish: &str) -> Value {
    let part = |part: &Part| {
        Some(match part {
            Part::Text { .. } | Part::Attachment { .. } => {
                json!({"type": "text", "content": part.sent()})
            }
            Part::Reasoning { text } => json!({"type": "reasoning", "content": text}),
            Part::Call(call) => {
                let arguments = match &call.arguments {
                    Arguments::Json(arguments) => (**arguments).clone(),
                    Arguments::Invalid { text, .. } => Value::from(&**text),
                };
                json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
            }
            Part::Blob(_)
            | Part::Result(_)
            | Part::Opaque { .. }
            | Part::ServerUse(_)
            | Part::Cited { .. } => return None,
        })
    };
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let parts: Vec<Value> = message.parts.iter().filter_map(part).collect();
    json!([{"role": role, "parts": parts, "finish_reason": finish}])
}
