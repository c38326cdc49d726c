//! A call in full, as lines of text.

use super::{
    Line, Tone, caller, compacted, duration, ending, moment, not_offered, shown, source, thousands, tokens,
};
use crate::{
    diff::{NO_NEWLINE, Side, hunks},
    tree::CallState,
    whole::{WholeCall, WholeRun},
};
use llm_do_core::{
    authority::Place,
    function::Preview,
    gate::{Rule, WithheldTool},
    journal::{Record, RecordKind},
    launch::unknown_finish_note,
    model::{Arguments, Blob, Message, Part, Purpose, Role, Usage},
    origin::Origins,
    question::{Answer, EXPIRED, FILES, Given, Input, OPERATOR, Question, STOPPED},
    server_tool::{ServerTool, Source},
    step_name::StepName,
};
use serde_json::Value;

/// Renders a call in full: all its records, as text.
pub fn render_call(run: &WholeRun, call: &WholeCall<'_>) -> Vec<Line> {
    let mut page = Text { began_ms: run.tree().started_ms, lines: Vec::new() };
    page.facts(call);
    page.heading("input");
    page.origins(&call.node.origins);
    page.value(&call.node.input);
    page.records("approval", call, Text::decision);
    let worker = call.node.model.is_some();
    page.records(if worker { "conversation" } else { "noted" }, call, Text::said);
    page.records("tool", call, Text::effect);
    if let Some(output) = call.output {
        page.heading("output");
        page.origins(&call.node.output_origins);
        page.value(output);
    }
    call.blobs.iter().for_each(|blob| page.blob(blob));
    if let Some(failure) = &call.node.failure {
        page.heading("failure");
        page.origins(&call.node.output_origins);
        page.block(Tone::Bad, &failure.message);
        if let Some(partial) = &failure.partial {
            page.line(Tone::Dim, "the incomplete answer:");
            page.value(partial);
        }
    }
    page.lines
}

/// Lines being written. Text of models and tools passes through [`shown`].
struct Text {
    began_ms: u64,
    lines: Vec<Line>,
}

impl Text {
    /// Adds a line of our words and of foreign text.
    fn line(&mut self, tone: Tone, text: &str) {
        self.lines.push(Line(vec![(Tone::Plain, "  ".to_owned()), (tone, shown(text))]));
    }

    fn heading(&mut self, name: &str) {
        self.lines.push(Line::default());
        self.lines.push(Line(vec![(Tone::Strong, name.to_owned())]));
    }

    /// Adds a text with its own lines.
    fn block(&mut self, tone: Tone, text: &str) {
        for line in text.lines() {
            self.lines.push(Line(vec![(Tone::Dim, "  │ ".to_owned()), (tone, shown(line))]));
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                for (name, field) in fields {
                    let text = match field {
                        Value::String(text) if text.contains('\n') => text.clone(),
                        Value::Object(_) | Value::Array(_) if field.to_string().len() > 80 => {
                            format!("{field:#}")
                        }
                        other => {
                            self.line(Tone::Plain, &format!("{name}: {other}"));
                            continue;
                        }
                    };
                    self.line(Tone::Plain, &format!("{name}:"));
                    self.block(Tone::Plain, &text);
                }
            }
            Value::String(text) if !text.is_empty() => self.block(Tone::Plain, text),
            other => self.block(Tone::Plain, &format!("{other:#}")),
        }
    }

    /// Adds the origin of a value that is not trusted.
    fn origins(&mut self, origins: &Origins) {
        if !origins.is_trusted() {
            self.line(Tone::Notice, &origins.to_string());
        }
    }

    fn blob(&mut self, blob: &Blob) {
        let about =
            format!("file {}, {}, {} bytes", blob.name, blob.media_type, thousands(blob.data.len() as u64));
        self.line(Tone::Dim, &about);
    }

    fn facts(&mut self, call: &WholeCall<'_>) {
        let node = call.node;
        let (tone, state) = ending(node).unwrap_or_else(|| match node.state {
            CallState::Done => (Tone::Good, "done".to_owned()),
            // What the call waits for is said below, with its rule.
            _ => (Tone::Notice, "waits for approval".to_owned()),
        });
        self.lines.push(Line(vec![
            (Tone::Dim, format!("{}  ", shown(node.path.as_str()))),
            (Tone::Strong, shown(&node.function)),
            (tone, format!("  {state}")),
        ]));
        let (source, caller) = (source(&node.source), caller(&node.principal));
        self.line(Tone::Dim, &format!("of {source}, called by {caller}"));
        let after = duration(node.started_ms.saturating_sub(self.began_ms));
        let mut times =
            format!("began {} (+{after}), took {}", moment(node.started_ms), duration(node.took_ms));
        if node.waited_ms > 0 {
            times.push_str(&format!(", waited {} for an answer", duration(node.waited_ms)));
        }
        self.line(Tone::Dim, &times);
        if let Some(model) = &node.model {
            let requests = if node.requests == 1 { "request" } else { "requests" };
            let mut asked = format!("{model}, {} {requests}", node.requests);
            if node.failed_requests > 0 {
                asked.push_str(&format!(", {} failed", node.failed_requests));
            }
            if let Some(usage) = node.usage.filter(|usage| *usage != Usage::default()) {
                asked.push_str(&format!(", {} with the calls below", tokens(usage)));
            }
            self.line(Tone::Dim, &asked);
        }
    }

    /// Adds the lines that `tell` writes for the records, below a heading if there are any.
    fn records(&mut self, heading: &str, call: &WholeCall<'_>, tell: fn(&mut Self, &Record)) {
        let before = self.lines.len();
        self.heading(heading);
        let without = self.lines.len();
        call.records.iter().for_each(|record| tell(self, record));
        if self.lines.len() == without {
            self.lines.truncate(before);
        }
    }

    fn decision(&mut self, record: &Record) {
        let because = |reason: Option<&str>| reason.map(|reason| format!(": {reason}")).unwrap_or_default();
        match &record.body {
            RecordKind::LinksFollowed { places, elsewhere: true, .. } => {
                let places: Vec<&str> = places.iter().map(Place::as_str).collect();
                self.line(Tone::Dim, &format!("links lead to {}", places.join(", ")));
            }
            RecordKind::Rechecked { changed: Some(what) } => {
                self.line(Tone::Notice, &format!("asked again: {what} after the approval"));
            }
            RecordKind::RuleStated { rule, reason } => {
                self.line(Tone::Dim, &format!("the tool's author says {rule}{}", because(reason.as_deref())));
            }
            RecordKind::Checked { failure: Some(failure), .. } => {
                self.line(Tone::Bad, &failure.message);
            }
            RecordKind::Checked { bounds: Some(bounds), .. } => {
                self.line(Tone::Dim, &format!("checked: {bounds}"));
            }
            RecordKind::Verdict { rule, by, reason } => {
                let (tone, word) = match rule {
                    Rule::PreApproved => (Tone::Good, "allowed"),
                    Rule::Ask => (Tone::Notice, "to be asked"),
                    Rule::Blocked => (Tone::Bad, "refused"),
                };
                self.line(tone, &format!("{word} by {by}{}", because(reason.as_deref())));
            }
            RecordKind::Asked(question) => self.question(question),
            RecordKind::Answered(given) => self.answer(given),
            RecordKind::Undone { files, others } => {
                files.iter().for_each(|file| self.line(Tone::Notice, &file.to_string()));
                if !others.is_empty() {
                    self.line(Tone::Notice, &format!("not undone: {}", others.join(", ")));
                }
            }
            RecordKind::Restored { files } => {
                files.iter().for_each(|file| self.line(Tone::Notice, &file.to_string()));
            }
            _ => {}
        }
    }

    fn question(&mut self, question: &Question) {
        match question {
            Question::Approval(approval) => {
                let (chain, risk) = (approval.chain.join(" → "), approval.risk);
                let text = format!("{chain} asked, risk {risk}, because of {}", approval.rule);
                self.line(Tone::Notice, &text);
                for (sentence, excerpt) in approval.steering.iter().flat_map(|steering| steering.said()) {
                    self.line(Tone::Notice, &sentence);
                    self.block(Tone::Dim, excerpt);
                }
                if let Some(bounds) = &approval.calls {
                    self.line(Tone::Notice, &format!("the code makes {bounds}"));
                }
                if let Some(Preview::Change { path, before, after }) = approval.preview.as_deref() {
                    self.diff(path, before.as_deref(), after.as_deref());
                }
            }
            // The answers show what was said before.
            Question::Input(Input { conversation: Some(turn), .. }) => {
                if let Some(failure) = &turn.failure {
                    self.line(Tone::Bad, &format!("no answer: {}", failure.message));
                }
            }
            Question::Input(input) => {
                let chain = input.chain.join(" → ");
                self.line(Tone::Notice, &format!("{chain} asked for input: {}", input.prompt));
                for Preview::Change { path, before, after } in &input.changes {
                    self.diff(path, before.as_deref(), after.as_deref());
                }
            }
            Question::Settlement(_) => {
                self.line(
                    Tone::Notice,
                    "cut off before it ended; the operator was asked whether it had taken effect",
                );
            }
        }
    }

    fn answer(&mut self, given: &Given) {
        let because =
            |reason: &Option<String>| reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let who = match &*given.via {
            _ if given.is_remembered() => "an earlier answer".to_owned(),
            FILES => "the state of the files".to_owned(),
            STOPPED => "the user".to_owned(),
            EXPIRED => "the expiry of the question".to_owned(),
            via if *given.by == *OPERATOR => format!("the operator ({via})"),
            via => format!("{} ({via})", given.by),
        };
        match &given.answer {
            Answer::Approve { .. } => self.line(Tone::Good, &format!("{who} approved")),
            Answer::Allow { calls } => {
                self.line(Tone::Good, &format!("{who} approved, and for the session {calls}"));
            }
            Answer::Deny { reason, .. } => {
                self.line(Tone::Bad, &format!("{who} denied{}", because(reason)));
            }
            Answer::Edit { input } => {
                self.line(Tone::Notice, &format!("{who} approved other arguments"));
                self.value(input);
            }
            Answer::Give { value } => {
                self.line(Tone::Good, &format!("{who} answered"));
                self.value(value);
            }
            Answer::Decline { reason } => {
                self.line(Tone::Bad, &format!("{who} gave no answer{}", because(reason)));
            }
            Answer::Stop => self.line(Tone::Notice, &format!("{who} stopped the answer")),
            Answer::End => self.line(Tone::Notice, &format!("{who} ended the conversation")),
            Answer::Attach { file, .. } => {
                self.line(Tone::Notice, &format!("{who} attached {}", shown(file)));
            }
            Answer::Detach { message } => {
                self.line(Tone::Notice, &format!("{who} took back what message {message} added"));
            }
            Answer::Keep { message } => {
                self.line(Tone::Notice, &format!("{who} kept the result of message {message}"));
            }
            Answer::Model { model } => {
                self.line(Tone::Notice, &format!("{who} chose {}", shown(&model.to_string())));
            }
            Answer::Run { worker, input } => {
                self.line(Tone::Notice, &format!("{who} called {}", shown(worker)));
                self.value(input);
            }
            Answer::Rule { rule, calls } => {
                self.line(Tone::Notice, &format!("{who} made the rule {} {}", rule.verb(), shown(calls)));
            }
            Answer::Forget { of } => {
                self.line(Tone::Notice, &format!("{who} took back the answer to {}", shown(&of.to_string())));
            }
            Answer::Undo { message } => {
                self.line(Tone::Notice, &format!("{who} went back to before message {message}"));
            }
            Answer::Compact { keep } => {
                let keep = keep.as_ref().map(|keep| format!(", keeping: {keep}")).unwrap_or_default();
                self.line(Tone::Notice, &format!("{who} compacted the conversation{keep}"));
            }
            Answer::UndoCompaction => {
                self.line(Tone::Notice, &format!("{who} took the last compaction back"));
            }
            Answer::Again => self.line(Tone::Notice, &format!("{who} let it run again")),
            Answer::Done { .. } => self.line(Tone::Notice, &format!("{who} counts it as done")),
            Answer::Abort => self.line(Tone::Bad, &format!("{who} ended the run")),
        }
        self.asked_for(given);
    }

    /// Adds the run that asked, and the question as it was shown.
    fn asked_for(&mut self, given: &Given) {
        let requester = given.requester.as_ref().map(|requester| format!("requested by {requester}"));
        let digest = given.digest.as_ref().map(|digest| format!("shown as {digest}"));
        let expiry = given.expires_ms.map(|at_ms| format!("to expire {}", moment(at_ms)));
        let parts: Vec<String> = [requester, digest, expiry].into_iter().flatten().collect();
        if !parts.is_empty() {
            self.line(Tone::Dim, &parts.join(", "));
        }
    }

    fn diff(&mut self, path: &str, before: Option<&str>, after: Option<&str>) {
        self.line(Tone::Strong, &format!("--- {}", before.map_or("(new file)", |_| path)));
        self.line(Tone::Strong, &format!("+++ {}", after.map_or("(removed)", |_| path)));
        for hunk in hunks(before.unwrap_or_default(), after.unwrap_or_default(), None) {
            self.line(Tone::Dim, &hunk.header);
            for line in hunk.lines {
                let (tone, sign) = match line.side {
                    Side::Before => (Tone::Bad, '-'),
                    Side::After => (Tone::Good, '+'),
                    Side::Both => (Tone::Plain, ' '),
                };
                self.line(tone, &format!("{sign}{}", line.text.trim_end_matches('\r')));
                if !line.ended {
                    self.line(Tone::Dim, NO_NEWLINE);
                }
            }
        }
    }

    /// Adds a line with a time.
    fn at(&mut self, record: &Record, tone: Tone, text: &str) {
        let after = duration(record.at_ms.saturating_sub(self.began_ms));
        self.lines.push(Line(vec![(Tone::Dim, format!("  +{after}  ")), (tone, shown(text))]));
    }

    fn said(&mut self, record: &Record) {
        match &record.body {
            RecordKind::ConversationStarted { system, tools, withheld, server_tools, message, .. } => {
                if !system.is_empty() {
                    self.at(record, Tone::Strong, "instructions");
                    self.block(Tone::Plain, system);
                }
                if !tools.is_empty() {
                    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
                    self.at(record, Tone::Dim, &format!("tools: {}", names.join(", ")));
                }
                for WithheldTool { name, why } in withheld {
                    self.at(record, Tone::Dim, &format!("not offered: {name} ({why})"));
                }
                if !server_tools.is_empty() {
                    let names: Vec<&str> = server_tools.iter().map(ServerTool::name).collect();
                    self.at(record, Tone::Dim, &format!("tools of the provider: {}", names.join(", ")));
                }
                if !message.parts.is_empty() {
                    self.message(record, message, "");
                }
            }
            RecordKind::MessageAdded { message } => self.message(record, message, ""),
            RecordKind::ModelAnswered { message, usage, unoffered, unknown_finish, .. } => {
                let used = tokens(*usage);
                let used = if used.is_empty() { used } else { format!("  {used}") };
                let what = if record.step.request() == Some(Purpose::Summary) { ", a summary" } else { "" };
                self.message(record, message, &format!("{what}{used}"));
                for name in unoffered {
                    self.line(Tone::Bad, &not_offered(name));
                }
                if let Some(word) = unknown_finish {
                    self.line(Tone::Notice, &unknown_finish_note(word));
                }
            }
            RecordKind::ModelChosen { model, .. } => {
                self.at(record, Tone::Notice, &format!("{model} answers from here on"));
            }
            RecordKind::ModelNotChosen { reason } => {
                self.at(record, Tone::Bad, &format!("the model stays: {reason}"));
            }
            RecordKind::Compacted(compaction) => {
                self.at(record, Tone::Notice, &compacted(compaction));
            }
            RecordKind::ModelFailed { error, .. } => {
                self.at(record, Tone::Bad, &format!("the request failed: {}", error.message));
            }
            RecordKind::TimedOut { after_ms } if !record.step.is_tool() => {
                let what = if matches!(record.step, StepName::Work(_)) { "next call" } else { "answer" };
                self.at(record, Tone::Bad, &format!("no {what} within {}", duration(*after_ms)));
            }
            RecordKind::Slept { ms } => self.at(record, Tone::Dim, &format!("waited {}", duration(*ms))),
            RecordKind::Limit { what } => self.at(record, Tone::Bad, what),
            RecordKind::Note { text } => self.at(record, Tone::Notice, text),
            _ => {}
        }
    }

    fn message(&mut self, record: &Record, message: &Message, used: &str) {
        let who = match message.role {
            Role::User => "to the model",
            Role::Assistant => "the model",
            Role::Tool => "results",
        };
        self.at(record, Tone::Strong, &format!("{who}{used}"));
        for part in &message.parts {
            match part {
                Part::Text { text } => self.block(Tone::Plain, text),
                Part::Attachment { name, text } => {
                    self.line(Tone::Dim, &format!("[{name}]"));
                    self.block(Tone::Plain, text);
                }
                Part::Reasoning { text } => self.block(Tone::Dim, text),
                Part::Blob(blob) => self.blob(blob),
                Part::Call(call) => match &call.arguments {
                    Arguments::Json(arguments) => {
                        self.line(Tone::Notice, &format!("→ {} {arguments}", call.name));
                    }
                    Arguments::Invalid { text, reason } => {
                        self.line(Tone::Bad, &format!("→ {}, not JSON ({reason}): {text}", call.name));
                    }
                },
                Part::Result(result) => self.block(Tone::Plain, &result.content),
                Part::ServerUse(used) => {
                    let tone = if used.error.is_some() { Tone::Bad } else { Tone::Notice };
                    self.line(tone, &format!("→ the provider ran {used}"));
                    self.sources(&used.sources);
                }
                Part::Cited { sources } => {
                    self.line(Tone::Dim, "cited:");
                    self.sources(sources);
                }
                Part::Opaque { .. } => {}
            }
        }
    }

    fn sources(&mut self, sources: &[Source]) {
        for source in sources {
            self.line(Tone::Dim, &format!("  {source}"));
        }
    }

    fn effect(&mut self, record: &Record) {
        match &record.body {
            RecordKind::ToolStarted { risk, .. } => {
                self.at(record, Tone::Dim, &format!("started, risk {risk}"));
            }
            RecordKind::ToolAsked { .. } => self.at(record, Tone::Dim, "asks the user"),
            RecordKind::ToolEnded { log, .. } => {
                self.at(record, Tone::Dim, "ended");
                if let Some(log) = log {
                    self.line(Tone::Dim, "log:");
                    self.block(Tone::Plain, log);
                }
            }
            RecordKind::TimedOut { after_ms } if record.step.is_tool() => {
                self.at(record, Tone::Bad, &format!("stopped after {}", duration(*after_ms)));
            }
            RecordKind::Cancelled => self.at(record, Tone::Bad, "given up when the run was ended"),
            _ => {}
        }
    }
}
