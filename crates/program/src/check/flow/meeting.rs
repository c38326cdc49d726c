//! Workers in which untrusted content, private files and a way out meet: the untrusted content could make the worker
//! send the files away.

use super::{Effect, Flow, Reach, SourceKind, facts::Facts};
use crate::{
    check::scope::Scope,
    diagnostics::{Diagnostic, codes},
    span::Span,
};
use llm_do_core::function::Risk;
use std::collections::BTreeMap;

/// Warns once for each combination of the three places.
pub(super) fn check(flow: &Flow, scope: &Scope<'_>, facts: &[Facts], found: &mut Vec<Diagnostic>) {
    let mut meetings: BTreeMap<[[String; 3]; 2], (Diagnostic, usize)> = BTreeMap::new();
    let mut flows = flow.workers.iter().peekable();
    for ((name, effective), facts) in scope.workers.iter().zip(facts) {
        let Some(worker) = flows.next_if(|flow| flow.worker == *name) else { continue };
        // A function that is both a source and a way out is the last choice: another source says more.
        let is_function = |reach: &&Reach| matches!(reach.source.kind, SourceKind::Function { .. });
        let reach = worker.sources.iter().min_by_key(is_function);
        let out = worker.effects.iter().find(|effect| leads_out(effect));
        let (Some((mount, private)), Some(out), Some(reach)) = (&facts.private, out, reach) else {
            continue;
        };
        let whole = Span::whole(&effective.text);
        let source = &reach.source;
        let spans =
            [source.span.as_ref(), private.as_ref(), out.span.as_ref()].map(|span| span.unwrap_or(&whole));
        let named = [described(&source.kind), mount.clone(), out.function.to_string()];
        let places = spans.map(|span| span.origin().to_string());
        let meeting = [named, places];
        if let Some((_, others)) = meetings.get_mut(&meeting) {
            *others += 1;
            continue;
        }
        let [from, files, way] = spans;
        let warning = Diagnostic::warning(
            codes::MEETING,
            format!("in `{name}`, untrusted content, private files and a way out meet"),
        )
        .at(way)
        .label(format!("`{}` is a way out", out.function))
        .related(format!("{} can say what to do", described(&source.kind)), from)
        .related(format!("`{mount}` can be read"), files)
        .help("read the untrusted content in a worker of its own, with `returns` that leave no room for instructions")
        .help("`llm-do check --flow` shows the ways of the content");
        meetings.insert(meeting, (warning, 0));
    }
    for (warning, others) in meetings.into_values() {
        found.push(match others {
            0 => warning,
            1 => warning.note("the same three places meet in another worker"),
            others => warning.note(format!("the same three places meet in {others} other workers")),
        });
    }
}

/// Returns true if a function can send data away, or run a program that can.
fn leads_out(effect: &Effect) -> bool {
    matches!(effect.risk, None | Some(Risk::Network | Risk::Exec))
}

/// Describes a source as a part of a sentence.
pub(super) fn described(kind: &SourceKind) -> String {
    match kind {
        SourceKind::Parameter { name, .. } => format!("the parameter `{name}`"),
        SourceKind::Attachments { .. } => "an attachment".to_owned(),
        SourceKind::Mount(at) => format!("a file in `{at}`"),
        SourceKind::Function { name, .. } => format!("a result of `{name}`"),
    }
}
