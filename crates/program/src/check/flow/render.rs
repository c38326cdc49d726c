//! A flow as text and as JSON. See `docs/guides/check.md`.

use super::{Cut, Effect, Flow, Reach, SourceKind, Step, Through, Why, WorkerFlow, meeting::described};
use crate::span::Span;
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Formats the flow for people. Names in it are those of the program's files.
pub fn text(flow: &Flow) -> String {
    let mut out = String::new();
    for worker in &flow.workers {
        // Writing to a `String` does not fail.
        let _ = write_worker(worker, &mut out);
    }
    out
}

fn write_worker(worker: &WorkerFlow, out: &mut String) -> std::fmt::Result {
    if !out.is_empty() {
        out.push('\n');
    }
    writeln!(out, "{}", worker.worker)?;
    writeln!(out, "  untrusted content that reaches it:")?;
    for reach in &worker.sources {
        writeln!(out, "    {}{}", described(&reach.source.kind), place(reach.source.span.as_ref()))?;
        writeln!(out, "      {}", way(reach))?;
    }
    if worker.effects.is_empty() {
        return writeln!(out, "  effects that it could steer: none");
    }
    writeln!(out, "  effects that it could steer:")?;
    for Effect { function, risk, span } in &worker.effects {
        let risk = risk.map_or_else(|| "unknown risk".to_owned(), |risk| risk.to_string());
        writeln!(out, "    `{function}` ({risk}){}", place(span.as_ref()))?;
    }
    writeln!(out, "  to keep the content away:")?;
    for cut in &worker.cuts {
        writeln!(out, "    {}", advice(cut))?;
    }
    Ok(())
}

/// Describes the way from a source to a worker, as one sentence.
fn way(reach: &Reach) -> String {
    let Reach { source, reader, handed_by, steps } = reach;
    let mut way = match (&source.kind, handed_by) {
        (_, Some(caller)) => format!("`{caller}` can hand it to `{reader}`"),
        (SourceKind::Parameter { .. } | SourceKind::Attachments { .. }, None) => {
            format!("`{reader}` takes it")
        }
        (SourceKind::Mount(_), None) => format!("`{reader}` can read it"),
        (SourceKind::Function { why, .. }, None) => {
            let why = match why {
                Why::Declared => "declared untrusted",
                Why::Network => "its process has the network",
                Why::Unknown => "its tools are known only in a run",
            };
            format!("`{reader}` can call it ({why})")
        }
    };
    for Step { from, to, through } in steps {
        way.push_str(&match through {
            Through::Output => format!("; `{to}` gets the output of `{from}`"),
            Through::Input => format!("; `{to}` gets its input from `{from}`"),
            Through::Files => format!("; `{to}` can read what `{from}` writes"),
        });
    }
    way
}

fn advice(cut: &Cut) -> String {
    match cut {
        Cut::Output { worker, fields, span } => {
            let room = match fields.as_slice() {
                [] => String::new(),
                [one] => format!(": `{one}` leaves some"),
                several => format!(": `{}` leave some", several.join("`, `")),
            };
            format!("give `{worker}` a `returns` without room for instructions{room}{}", place(Some(span)))
        }
        Cut::Apart { worker } => format!(
            "move the reading out of `{worker}`, to a worker whose `returns` leave no room for instructions"
        ),
        Cut::Library { worker } => format!(
            "call `{worker}` from a worker of the program whose `returns` leave no room for instructions: the types of \
             libraries are not relied on"
        ),
    }
}

fn place(span: Option<&Span>) -> String {
    span.map(|span| format!(" ({})", span.origin())).unwrap_or_default()
}

/// Converts the flow to `{"workers": [...]}`. Fields are only ever added.
pub fn to_json(flow: &Flow) -> Value {
    let workers = flow.workers.iter().map(|worker| {
        json!({
            "worker": worker.worker,
            "sources": worker.sources.iter().map(reach_json).collect::<Vec<_>>(),
            "effects": worker.effects.iter().map(effect_json).collect::<Vec<_>>(),
            "cuts": worker.cuts.iter().map(cut_json).collect::<Vec<_>>(),
        })
    });
    json!({ "workers": workers.collect::<Vec<_>>() })
}

fn reach_json(reach: &Reach) -> Value {
    let (kind, name, why) = match &reach.source.kind {
        SourceKind::Parameter { name, .. } => ("parameter", Some(&**name), None),
        SourceKind::Attachments { .. } => ("attachments", None, None),
        SourceKind::Mount(at) => ("mount", Some(at.as_str()), None),
        SourceKind::Function { name, why } => ("function", Some(&**name), Some(why)),
    };
    let why = why.map(|why| match why {
        Why::Declared => "declared",
        Why::Network => "network",
        Why::Unknown => "unknown",
    });
    let steps = reach.steps.iter().map(|step| {
        let through = match step.through {
            Through::Output => "output",
            Through::Input => "input",
            Through::Files => "files",
        };
        json!({ "from": step.from, "to": step.to, "through": through })
    });
    json!({
        "kind": kind,
        "name": name,
        "why": why,
        "reader": reach.reader,
        "handed_by": reach.handed_by,
        "steps": steps.collect::<Vec<_>>(),
        "place": place_json(reach.source.span.as_ref()),
    })
}

fn effect_json(effect: &Effect) -> Value {
    json!({
        "function": effect.function,
        "risk": effect.risk,
        "place": place_json(effect.span.as_ref()),
    })
}

fn cut_json(cut: &Cut) -> Value {
    match cut {
        Cut::Output { worker, fields, span } => {
            json!({ "kind": "output", "worker": worker, "fields": fields, "place": place_json(Some(span)) })
        }
        Cut::Apart { worker } => json!({ "kind": "apart", "worker": worker }),
        Cut::Library { worker } => json!({ "kind": "library", "worker": worker }),
    }
}

fn place_json(span: Option<&Span>) -> Value {
    let Some(span) = span else { return Value::Null };
    let position = span.line_column();
    json!({
        "file": span.file().path(),
        "line": position.map(|(line, _)| line),
        "column": position.map(|(_, column)| column),
    })
}
