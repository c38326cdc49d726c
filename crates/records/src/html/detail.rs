//! A call in full.

use super::{
    calls::Rows,
    conversation,
    markup::Markup,
    value::{blob, json_block, preview, text_block, value},
};
use crate::{
    render::{caller, duration, moment, source, thousands},
    whole::{WholeCall, WholeRun},
};
use llm_do_core::{
    authority::Place,
    engine::{Failure, FailureKind, Principal},
    function::Risk,
    gate::Rule,
    journal::{Record, RecordKind},
    origin::Origins,
    question::{Answer, EXPIRED, FILES, Given, Input, Question},
    rule::DecidedBy,
};

/// Writes the content below a call's row.
pub(super) fn call(m: &mut Markup, run: &WholeRun, call: &WholeCall<'_>, rows: &Rows<'_>) {
    facts(m, run, call, rows);
    m.ours("<h3>Input</h3>");
    origins(m, &call.node.origins);
    value(m, &call.node.input);
    approvals(m, &call.records);
    conversation::section(m, run, call, rows);
    effect(m, &call.records);
    if let Some(output) = call.output {
        m.ours("<h3>Output</h3>");
        origins(m, &call.node.output_origins);
        value(m, output);
    }
    call.blobs.iter().for_each(|returned| blob(m, returned));
    if let Some(failed) = &call.node.failure {
        m.ours("<h3>Failure</h3>");
        origins(m, &call.node.output_origins);
        failure(m, failed);
    }
}

/// Writes the origin of a value that is not trusted.
fn origins(m: &mut Markup, origins: &Origins) {
    if !origins.is_trusted() {
        m.worded("p", "notice small", &origins.to_string());
    }
}

/// Writes the facts of a call on one line.
fn facts(m: &mut Markup, run: &WholeRun, call: &WholeCall<'_>, rows: &Rows<'_>) {
    let node = call.node;
    let after = node.started_ms.saturating_sub(run.tree().started_ms);
    let mut facts = vec![format!("{} +{}", node.path, duration(after)), source(&node.source)];
    // The worker that stands above it.
    let above = node.path.as_str().rsplit_once('/').and_then(|(above, _)| rows.call(&above.into()));
    if !matches!(&node.principal, Principal::Worker(id) if above.is_some_and(|above| above.function == *id)) {
        facts.push(format!("called by {}", caller(&node.principal)));
    }
    if let Some(model) = &node.model {
        facts.push(format!("model {model}"));
    }
    if node.waited_ms > 0 {
        facts.push(format!("waited {} for an answer", duration(node.waited_ms)));
    }
    if node.requests > 0 {
        let failed = match node.failed_requests {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        facts.push(format!("requests: {}{failed}", node.requests));
    }
    if let Some(usage) = node.usage {
        let parts = [
            (usage.input_tokens, "in"),
            (usage.cached_tokens, "of these cached"),
            (usage.output_tokens, "out"),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter_map(|(count, what)| Some(format!("{} {what}", thousands(count?))))
            .collect();
        if !parts.is_empty() {
            facts.push(format!("tokens, with calls below: {}", parts.join(", ")));
        }
        if let Some(cost) = usage.cost_usd {
            facts.push(format!("cost, with calls below: {cost}"));
        }
    }
    let usual = usual_permission(&call.records);
    facts.extend(usual.map(|by| format!("allowed by {by}")));
    for record in &call.records {
        if let RecordKind::ToolStarted { risk, idempotency_key, .. } = &record.body {
            // Calls that read are the most, and their key is that of their place.
            if *risk != Risk::Read {
                facts.push(format!("risk {risk}"));
            }
            if format!("{}:{}", run.tree().run, node.path) != **idempotency_key {
                facts.push(format!("as {idempotency_key}"));
            }
        }
    }
    m.with("p", &[], |m| m.text(&facts.join(" · ")));
}

/// Returns who allowed a call, if its approval needs no other remark.
fn usual_permission<'a>(records: &[&'a Record]) -> Option<&'a DecidedBy> {
    let mut said = records.iter().filter(|record| is_about_approval(record));
    match (said.next().map(|record| &record.body), said.next()) {
        (Some(RecordKind::Verdict { rule: Rule::PreApproved, by, reason: None }), None) => Some(by),
        _ => None,
    }
}

fn is_about_approval(record: &Record) -> bool {
    matches!(
        record.body,
        RecordKind::LinksFollowed { elsewhere: true, .. }
            | RecordKind::Rechecked { changed: Some(_) }
            | RecordKind::RuleStated { .. }
            | RecordKind::Checked { .. }
            | RecordKind::Verdict { .. }
            | RecordKind::Asked(_)
            | RecordKind::Answered(_)
            | RecordKind::Undone { .. }
            | RecordKind::Restored { .. }
    )
}

/// Writes the decisions of the gate and the operator, in order.
fn approvals(m: &mut Markup, records: &[&Record]) {
    let mut said = records.iter().filter(|record| is_about_approval(record)).peekable();
    if said.peek().is_none() || usual_permission(records).is_some() {
        return;
    }
    m.ours("<h3>Approval</h3><ul class=\"said\">");
    for record in said {
        m.with("li", &[], |m| match &record.body {
            RecordKind::LinksFollowed { places, .. } => {
                m.ours("links lead to ");
                let places: Vec<&str> = places.iter().map(Place::as_str).collect();
                m.with("code", &[], |m| m.text(&places.join(", ")));
            }
            RecordKind::Rechecked { changed } => {
                m.ours("<b class=\"notice\">asked again</b>: ");
                m.text(changed.as_deref().unwrap_or_default());
                m.ours(" after the approval");
            }
            RecordKind::RuleStated { rule, reason } => {
                m.text(&format!("the tool's author says {rule}"));
                because(m, reason.as_deref());
            }
            RecordKind::Checked { bounds, failure, .. } => {
                if let Some(failure) = failure {
                    m.worded("p", "bad", &failure.message);
                }
                if let Some(bounds) = bounds {
                    m.text(&format!("checked: {bounds}"));
                }
            }
            RecordKind::Verdict { rule, by, reason } => {
                m.ours(match rule {
                    Rule::PreApproved => "<b class=\"good\">allowed</b> by ",
                    Rule::Ask => "<b class=\"notice\">to be asked</b> by ",
                    Rule::Blocked => "<b class=\"bad\">refused</b> by ",
                });
                m.worded("span", "rule", &by.to_string());
                because(m, reason.as_deref());
            }
            RecordKind::Asked(question) => asked(m, question),
            RecordKind::Answered(given) => answered(m, given),
            RecordKind::Undone { files, others } => {
                files.iter().for_each(|file| m.worded("p", "notice", &file.to_string()));
                if !others.is_empty() {
                    m.worded("p", "notice", &format!("not undone: {}", others.join(", ")));
                }
            }
            RecordKind::Restored { files } => {
                files.iter().for_each(|file| m.worded("p", "notice", &file.to_string()));
            }
            _ => {}
        });
    }
    m.ours("</ul>");
}

fn asked(m: &mut Markup, question: &Question) {
    match question {
        Question::Approval(approval) => {
            m.ours("<b class=\"notice\">asked</b>, risk ");
            m.text(&approval.risk.to_string());
            m.ours(", because of ");
            m.worded("span", "rule", &approval.rule.to_string());
            m.ours(". Requested by: ");
            m.text(&approval.chain.join(" → "));
            if let Some(bounds) = &approval.calls {
                m.worded("p", "small", &format!("The code makes {bounds}"));
            }
            for (sentence, excerpt) in approval.steering.iter().flat_map(|steering| steering.said()) {
                m.class("p", "notice small", |m| m.text(&sentence));
                text_block(m, excerpt);
            }
            if let Some(change) = &approval.preview {
                preview(m, change);
            }
        }
        // The conversation shows what was said before.
        Question::Input(Input { conversation: Some(turn), .. }) => {
            m.ours("<b class=\"notice\">waited for the user</b>");
            if let Some(reason) = &turn.failure {
                failure(m, reason);
            }
        }
        Question::Input(input) => {
            m.ours("<b class=\"notice\">asked for input</b> by ");
            m.text(&input.chain.join(" → "));
            m.ours(": ");
            m.text(&input.prompt);
            input.changes.iter().for_each(|change| preview(m, change));
        }
        Question::Settlement(_) => {
            m.ours(
                "<b class=\"notice\">cut off</b> before it ended; the operator was asked whether it had taken effect",
            );
        }
    }
}

fn answered(m: &mut Markup, given: &Given) {
    let remembered = |m: &mut Markup, remember: bool| {
        if remember {
            m.ours(", for the rest of the session too");
        }
    };
    match &*given.via {
        _ if given.is_remembered() => m.ours("an earlier answer covers it: "),
        FILES => m.ours("the state of the files says: "),
        EXPIRED => m.ours("the expiry of the question: "),
        via => {
            m.text(&format!("{} answered ({via}): ", given.by));
        }
    }
    let answer = &given.answer;
    match answer {
        Answer::Approve { remember } => {
            m.ours("<b class=\"good\">approved</b>");
            remembered(m, *remember);
        }
        Answer::Allow { calls } => {
            m.ours("<b class=\"good\">approved</b>, and for the session ");
            m.text(calls);
        }
        Answer::Deny { reason, remember } => {
            m.ours("<b class=\"bad\">denied</b>");
            remembered(m, *remember);
            because(m, reason.as_deref());
        }
        Answer::Edit { input } => {
            m.ours("<b class=\"notice\">with other arguments</b>");
            value(m, input);
        }
        Answer::Give { value: words } => {
            m.ours("<b class=\"good\">gave</b>");
            value(m, words);
        }
        Answer::Decline { reason } => {
            m.ours("<b class=\"bad\">gave no answer</b>");
            because(m, reason.as_deref());
        }
        Answer::Stop => m.ours("<b class=\"notice\">stopped the answer</b>"),
        Answer::End => m.ours("<b class=\"notice\">ended the conversation</b>"),
        Answer::Attach { file, .. } => {
            m.ours("<b class=\"notice\">attached</b> ");
            m.text(file);
        }
        Answer::Detach { message } => {
            m.ours("<b class=\"notice\">took back</b>");
            m.text(&format!(" what joined the next message with message {message}"));
        }
        Answer::Keep { message } => {
            m.ours("<b class=\"notice\">kept</b>");
            m.text(&format!(" the result of the call of message {message}"));
        }
        Answer::Model { model } => {
            m.ours("<b class=\"notice\">chose the model</b> ");
            m.text(&model.to_string());
        }
        Answer::Run { worker, input } => {
            m.ours("<b class=\"notice\">called</b> ");
            m.text(worker);
            value(m, input);
        }
        Answer::Rule { rule, calls } => {
            m.ours("<b class=\"notice\">made the rule</b> ");
            m.text(&format!("{} {calls}", rule.verb()));
        }
        Answer::Forget { of } => {
            m.ours("<b class=\"notice\">took back</b>");
            m.text(&format!(" the answer to {of}"));
        }
        Answer::Undo { message } => {
            m.ours("<b class=\"notice\">went back</b>");
            m.text(&format!(" to before message {message}"));
        }
        Answer::Compact { keep } => {
            m.ours("<b class=\"notice\">compacted the conversation</b>");
            because(m, keep.as_deref());
        }
        Answer::UndoCompaction => m.ours("<b class=\"notice\">took the last compaction back</b>"),
        Answer::Again => m.ours("run it again"),
        Answer::Done { result } => {
            m.ours("it is done");
            value(m, result);
        }
        Answer::Abort => m.ours("<b class=\"bad\">end the run</b>"),
    }
    asked_for(m, given);
}

/// Writes the run that asked, and the question as it was shown.
fn asked_for(m: &mut Markup, given: &Given) {
    if let Some(requester) = &given.requester {
        m.worded("p", "dim small", &format!("requested by {requester}"));
    }
    if let Some(digest) = &given.digest {
        m.worded("p", "dim small", &format!("shown as {digest}"));
    }
    if let Some(at_ms) = given.expires_ms {
        m.worded("p", "dim small", &format!("to expire {}", moment(at_ms)));
    }
}

fn because(m: &mut Markup, reason: Option<&str>) {
    if let Some(reason) = reason {
        m.ours(": ");
        m.with("q", &[], |m| m.text(reason));
    }
}

/// Writes the recorded effects of a leaf's code.
fn effect(m: &mut Markup, records: &[&Record]) {
    for record in records {
        match &record.body {
            RecordKind::ToolEnded { log: Some(log), .. } => {
                m.ours("<h3>Log</h3>");
                text_block(m, log);
            }
            RecordKind::TimedOut { after_ms } if record.step.is_tool() => {
                m.worded("p", "bad", &format!("stopped after {}", duration(*after_ms)));
            }
            RecordKind::Cancelled => m.ours("<p class=\"bad\">given up when the run was ended</p>"),
            _ => {}
        }
    }
}

/// Writes the reason of a failure, and the partial answer if there is one.
pub(super) fn failure(m: &mut Markup, failure: &Failure) {
    m.class("div", "failure", |m| {
        m.worded("span", "kind", kind(failure.kind));
        m.with("pre", &[], |m| m.text(&failure.message));
    });
    if let Some(partial) = &failure.partial {
        m.ours("<h3>The incomplete answer</h3>");
        json_block(m, partial);
    }
}

fn kind(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Definition => "definition",
        FailureKind::InvalidInput => "invalid input",
        FailureKind::Authority => "authority",
        FailureKind::Blocked => "blocked",
        FailureKind::Denied => "denied",
        FailureKind::Tool => "tool",
        FailureKind::Timeout => "timeout",
        FailureKind::Limit => "limit",
        FailureKind::Model => "model",
        FailureKind::Refusal => "refusal",
        FailureKind::Stopped => "stopped",
        FailureKind::InvalidOutput => "invalid output",
        FailureKind::Postcondition => "postcondition",
    }
}
