//! The flow of untrusted content: for each worker, the untrusted content that reaches its conversation, and the effects
//! that this content could steer. See `docs/guides/check.md`.
//!
//! Content moves along the calls (an input to the callee, an output to the caller) and through files that one worker
//! writes and another reads. An output whose type has no room for instructions stops it. Calls of Python code are not
//! followed, because it may compute the names of workers.

mod facts;
mod graph;
mod meeting;
mod places;
mod render;

pub use render::{text, to_json};

use super::scope::Scope;
use crate::{authorities::Authorities, diagnostics::Diagnostic, span::Span};
use llm_do_core::{function::Risk, schema::leaves_no_room};
use serde_json::Value;
use std::sync::Arc;

/// The flow of untrusted content in a program.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// The workers that untrusted content reaches, by name.
    pub workers: Vec<WorkerFlow>,
}

/// The untrusted content that reaches a worker.
#[derive(Clone, Debug)]
pub struct WorkerFlow {
    /// The name of the worker.
    pub worker: Arc<str>,
    /// The untrusted sources that reach it, the nearest first; at most eight.
    pub sources: Vec<Reach>,
    /// The effects of its own functions that untrusted content could steer.
    pub effects: Vec<Effect>,
    /// The places where a typed output would keep the content away; empty if there are no effects.
    pub cuts: Vec<Cut>,
}

/// A way from an untrusted source to a worker.
#[derive(Clone, Debug)]
pub struct Reach {
    /// The source.
    pub source: Source,
    /// The worker that gets it first.
    pub reader: Arc<str>,
    /// The caller that passes the source's files to that worker, if it does not see them itself.
    pub handed_by: Option<Arc<str>>,
    /// The steps after that worker, in order.
    pub steps: Vec<Step>,
}

/// A source of untrusted content.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// The kind of source.
    pub kind: SourceKind,
    /// The place that declares the source, or that gives the worker its toolset.
    pub span: Option<Span>,
}

/// A kind of source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    /// A parameter that is declared untrusted, of a worker.
    Parameter {
        /// The worker.
        worker: Arc<str>,
        /// The parameter.
        name: Arc<str>,
    },
    /// The attachments of a worker.
    Attachments {
        /// The worker.
        worker: Arc<str>,
    },
    /// A mount, by its virtual path.
    Mount(String),
    /// The results of a function.
    Function {
        /// The function.
        name: Arc<str>,
        /// The reason why its results are untrusted.
        why: Why,
    },
}

/// The reason why the results of a function are untrusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// The author declares the results untrusted.
    Declared,
    /// The process of the function has the network.
    Network,
    /// The tools are only known in a run.
    Unknown,
}

/// A step from one worker to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The worker that has the content.
    pub from: Arc<str>,
    /// The worker that gets it.
    pub to: Arc<str>,
    /// The way of the content.
    pub through: Through,
}

/// The way in which content moves from one worker to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through {
    /// An output, from a callee to its caller.
    Output,
    /// An input, from a caller to its callee.
    Input,
    /// A file that one worker writes and the other reads.
    Files,
}

/// A function whose effects untrusted content could steer.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The name of the function.
    pub function: Arc<str>,
    /// The risk of the function, if it is known before a run.
    pub risk: Option<Risk>,
    /// The place that gives the worker the function.
    pub span: Option<Span>,
}

/// A place where a type would keep untrusted content away from effects.
#[derive(Clone, Debug, PartialEq)]
pub enum Cut {
    /// The output of this worker, through which the content moves, has room for instructions.
    Output {
        /// The worker.
        worker: Arc<str>,
        /// The fields with room; empty if the output has no fields or no type.
        fields: Vec<String>,
        /// The place of its `returns`, or of its file.
        span: Span,
    },
    /// The worker reads the content itself. Another worker could read it and return a type.
    Apart {
        /// The worker.
        worker: Arc<str>,
    },
    /// The output belongs to a library, whose types are not trusted.
    Library {
        /// The worker.
        worker: Arc<str>,
    },
}

/// Computes the flow of a program. Warns if untrusted content, private files and a way out meet in one worker.
pub(super) fn check(scope: &Scope<'_>, authorities: &Authorities<'_>, found: &mut Vec<Diagnostic>) -> Flow {
    if !facts::any_source(scope, authorities) {
        return Flow::default();
    }
    let facts = facts::of_workers(scope, authorities);
    let arrivals = graph::Propagation::of(scope, &facts);
    let mut flow = Flow::default();
    for (number, (worker, facts)) in scope.workers.keys().zip(&facts).enumerate() {
        let sources = arrivals.at(number);
        if sources.is_empty() {
            continue;
        }
        let effects = facts.effects.clone();
        let cuts = if effects.is_empty() { Vec::new() } else { cuts(scope, worker, &sources) };
        flow.workers.push(WorkerFlow { worker: Arc::clone(worker), sources, effects, cuts });
    }
    meeting::check(&flow, scope, &facts, found);
    flow
}

/// Returns the places where types would keep the sources away from a worker, each once.
fn cuts(scope: &Scope<'_>, worker: &Arc<str>, sources: &[Reach]) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::new();
    for reach in sources {
        let output = reach.steps.iter().rev().find(|step| step.through == Through::Output);
        let cut = match output.and_then(|step| scope.workers.get(&step.from)) {
            None => Cut::Apart { worker: Arc::clone(reach.steps.first().map_or(worker, |step| &step.from)) },
            Some(callee) if callee.definition.source.is_foreign() => {
                Cut::Library { worker: Arc::clone(&callee.definition.id) }
            }
            Some(callee) => {
                let returns = callee.keys.entry("returns").or_else(|| callee.keys.entry("schema_out_ref"));
                Cut::Output {
                    worker: Arc::clone(&callee.definition.id),
                    fields: callee.definition.returns.as_ref().map(|s| roomy(s.value())).unwrap_or_default(),
                    span: returns.map_or_else(|| Span::whole(&callee.text), |entry| entry.key_span.clone()),
                }
            }
        };
        if !cuts.contains(&cut) {
            cuts.push(cut);
        }
    }
    cuts
}

/// Returns the fields of an object type that have room for instructions.
fn roomy(schema: &Value) -> Vec<String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
    let has_room = |property: &Value| {
        // References are relative to the whole schema.
        let mut alone = property.clone();
        if let (Some(keywords), Some(definitions)) = (alone.as_object_mut(), schema.get("$defs")) {
            keywords.entry("$defs").or_insert_with(|| definitions.clone());
        }
        !leaves_no_room(&alone)
    };
    properties.iter().filter(|(_, property)| has_room(property)).map(|(name, _)| name.clone()).collect()
}
