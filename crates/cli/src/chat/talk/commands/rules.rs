//! `/rules`.

use super::{Arguments, Command, Talk};
use crate::visible;
use llm_do_core::{
    gate::{Policy, RuleLine},
    rule::Rule,
    worker::WorkerDefinition,
};

pub(super) const RULES: Command = Command {
    name: "/rules",
    alias: None,
    arguments: Arguments::None,
    does: "show the rules of this chat with their places, and the answers that are remembered",
    more: "Rules are made with --allow, --ask and --deny, and in the files that /rules names.\n\
           `llm-do gate explain` says which of them decides a call.",
    run: |talk, _| {
        let text = rules(talk);
        talk.face.page(&text);
    },
};

fn rules(talk: &Talk<'_>) -> String {
    let gate = talk.starter.gate();
    let mut text = format!("mode: {}", gate.mode.as_str());
    section(&mut text, "command line", gate.operator.iter().map(line));
    let worker = talk.current().and_then(|conversation| talk.known.worker(&conversation.worker).ok());
    let worker = worker.unwrap_or_else(|| std::sync::Arc::clone(talk.known.entry()));
    section(&mut text, &format!("tool_rules of {}", worker.id), of_worker(&worker).into_iter());
    section(&mut text, "project", policy(&gate.project).into_iter());
    section(&mut text, "your configuration", policy(&gate.user).into_iter());
    section(&mut text, "remembered in this chat", talk.remembered.iter().cloned());
    text
}

fn section(text: &mut String, heading: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        text.push_str(&format!("\n\n{heading}:"));
        lines.for_each(|line| text.push_str(&format!("\n  {}", visible::line(&line))));
    }
}

fn line(rule: &RuleLine) -> String {
    let says = match rule.rule {
        Rule::PreApproved => "allow",
        Rule::Ask => "ask",
        Rule::Blocked => "deny",
    };
    format!("{says:<5}  {}  ({})", rule.calls(), rule.written_at)
}

fn of_worker(worker: &WorkerDefinition) -> Vec<String> {
    worker.rules.iter().map(line).collect()
}

fn policy(policy: &Policy) -> Vec<String> {
    let lines = policy.lines.iter().map(line);
    let risks =
        policy.risks.iter().map(|(risk, rule)| format!("{rule}  risk {risk}  ({})", policy.written_at));
    let default = policy.default.map(|rule| format!("{rule}  everything else  ({})", policy.written_at));
    lines.chain(risks).chain(default).collect()
}
