//! `/rules`.

use super::{Talk, candidate};
use crate::{
    chat::talk::decisions::{Decision, What},
    visible,
};
use llm_do::program::Diagnostic;
use llm_do_core::{
    gate::{Policy, RuleLine},
    question::Answer,
    rule::Rule,
    worker::WorkerDefinition,
};
use llm_do_terminal::{Candidate, fuzzy};

/// The rules that the user can make.
const RULES_OF_USER: [Rule; 3] = [Rule::PreApproved, Rule::Ask, Rule::Blocked];

/// Shows the rules, makes one, or takes one back.
pub(super) fn rules(talk: &mut Talk<'_>, text: &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    match (word, RULES_OF_USER.into_iter().find(|rule| rule.verb() == word)) {
        ("", _) => {
            let text = listed(talk);
            talk.face.page(&text);
        }
        ("forget", _) => forget(talk, rest.trim()),
        (_, Some(rule)) => make(talk, rule, rest.trim()),
        _ => talk.face.problem(&format!(
            "/rules takes `allow`, `ask` or `deny` with a rule, or `forget` with a number, not `{word}`"
        )),
    }
}

/// Returns the actions that match the typed word.
pub(super) fn complete(word: &str) -> Vec<Candidate> {
    let verbs = RULES_OF_USER.map(|rule| (rule.verb(), "make a rule"));
    let all = verbs.into_iter().chain([("forget", "take back what has that number")]);
    fuzzy::rank(word, all, |(verb, _)| verb).into_iter().map(|(verb, does)| candidate(verb, does)).collect()
}

/// Makes a rule, if there are calls that it can apply to.
fn make(talk: &mut Talk<'_>, rule: Rule, calls: &str) {
    if calls.is_empty() {
        let verb = rule.verb();
        talk.face
            .problem(&format!("/rules {verb} needs a rule, such as `/rules {verb} write_file(output/**)`"));
        return;
    }
    let line = match RuleLine::of_session(rule, calls) {
        Ok(line) => line,
        Err(error) => return talk.face.problem(&error.to_string()),
    };
    let found = talk.starter.check(&line);
    if let Some(error) = found.iter().find(|found| found.is_error()) {
        talk.face.problem(&in_words(error));
    } else if talk.give(Answer::Rule { rule, calls: calls.into() }) {
        found.iter().for_each(|warning| talk.face.note(&in_words(warning)));
    }
}

fn in_words(finding: &Diagnostic) -> String {
    let mut text = finding.message.clone();
    finding.help.iter().for_each(|help| text.push_str(&format!("\n  {help}")));
    text
}

/// Takes back the decision of that number.
fn forget(talk: &mut Talk<'_>, number: &str) {
    let wanted = number.parse::<usize>().ok();
    let found = talk.decisions.list().iter().find(|one| Some(one.number) == wanted);
    match found.map(|one| one.of.clone()) {
        Some(of) => {
            talk.give(Answer::Forget { of });
        }
        None => talk.face.problem(&format!(
            "nothing of this chat has the number `{number}`: /rules shows the numbers of what can be taken back. Rules of the \
             command line and of files hold as long as the chat"
        )),
    }
}

impl Talk<'_> {
    /// Shows that a rule was made, and which rules are stricter.
    pub(in crate::chat::talk) fn show_new_rule(&mut self, rule: Rule, calls: &str) {
        // A rule that can't be made is refused by the run.
        let Ok(line) = RuleLine::of_session(rule, calls) else { return };
        let stricter = self.starter.gate().stricter(self.decisions.rules(), &line);
        let stricter: Vec<String> = stricter
            .into_iter()
            .map(|other| {
                format!("{} is stricter, and decides about the calls that it applies to", other.written_at)
            })
            .collect();
        let shown = visible::line(&line.calls().to_string()).into_owned();
        self.face.note(&format!("from now on: {} {shown}", rule.verb()));
        stricter.iter().for_each(|text| self.face.note(&visible::line(text)));
        let withheld = self.current().map(|conversation| conversation.withheld.clone()).unwrap_or_default();
        let named = withheld.iter().filter(|tool| line.pattern.names_one_of(&[&tool.name]));
        for tool in named.filter(|_| rule != Rule::Blocked) {
            self.face.note(&format!(
                "{} is still not offered in this conversation, whose tools stay as they were at its beginning",
                tool.name
            ));
        }
    }
}

fn listed(talk: &Talk<'_>) -> String {
    let gate = talk.starter.gate();
    let mut text = format!("mode: {}", gate.mode.as_str());
    section(&mut text, "command line", gate.operator.iter().map(line));
    let worker = talk.current().and_then(|conversation| talk.known.worker(&conversation.worker).ok());
    let worker = worker.unwrap_or_else(|| std::sync::Arc::clone(talk.known.entry()));
    section(&mut text, &format!("tool_rules of {}", worker.id), of_worker(&worker).into_iter());
    section(&mut text, "project", policy(&gate.project).into_iter());
    section(&mut text, "your configuration", policy(&gate.user).into_iter());
    let numbered = |Decision { number, what, .. }: &Decision| match what {
        What::Rule(line) => (true, format!("{number}  {:<5}  {}", line.rule.verb(), line.calls())),
        What::Call(call) => (false, format!("{number}  {call}")),
    };
    let (made, remembered): (Vec<_>, Vec<_>) =
        talk.decisions.list().iter().map(numbered).partition(|(is_rule, _)| *is_rule);
    section(&mut text, "made in this chat", made.into_iter().map(|(_, line)| line));
    section(&mut text, "remembered in this chat", remembered.into_iter().map(|(_, line)| line));
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
    format!("{:<5}  {}  ({})", rule.rule.verb(), rule.calls(), rule.written_at)
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
