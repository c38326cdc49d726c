//! `/run` and `/NAME`: the user calls a worker of the program.

use super::{Talk, candidate};
use crate::chat::known::Known;
use llm_do::typed_input;
use llm_do_core::{question::Answer, worker::WorkerDefinition};
use llm_do_terminal::{Candidate, fuzzy};
use serde_json::Value;
use std::sync::Arc;

/// Calls the worker of that name, if the arguments fit.
pub(super) fn run(talk: &mut Talk<'_>, name: &str, arguments: &str) {
    let given = talk.known.worker(name).and_then(|worker| {
        let input = typed_input(&worker, arguments)?;
        talk.starter.check_paths(&worker, &input)?;
        Ok(input)
    });
    match given {
        Ok(input) => {
            talk.give(Answer::Run { worker: name.into(), input: Arc::new(input) });
        }
        Err(why) => talk.face.problem(&format!("{why}\n  nothing was run")),
    }
}

/// Returns the workers that match the typed word, or the parameters of the worker before it.
pub(super) fn complete(known: &Known, before: &str, word: &str) -> Vec<Candidate> {
    match before.split_whitespace().next() {
        None => fuzzy::rank(word, known.workers(), |worker| &worker.id)
            .into_iter()
            .map(|worker| candidate(&worker.id, about(worker)))
            .collect(),
        Some(name) => known.worker(name).map(|worker| parameters(&worker, word)).unwrap_or_default(),
    }
}

/// Returns the description of a worker, in one line.
pub(super) fn about(worker: &WorkerDefinition) -> &str {
    worker
        .description
        .as_deref()
        .and_then(|text| text.trim().lines().next())
        .unwrap_or("a worker of the program")
}

/// Returns the names of parameters, or the possible values of one.
pub(super) fn parameters(worker: &WorkerDefinition, word: &str) -> Vec<Candidate> {
    let signature = &worker.signature;
    let Some((name, typed)) = word.split_once('=') else {
        let fitting = fuzzy::rank(word, &signature.parameters, |parameter| &parameter.name);
        let candidates = fitting.into_iter().map(|parameter| Candidate {
            text: format!("{}=", parameter.name),
            note: parameter.shown_type.clone(),
        });
        return candidates.collect();
    };
    let schema = signature.schema.value().get("properties").and_then(|all| all.get(name));
    let values: Vec<String> = match schema.map(|schema| (schema.get("enum"), schema.get("type"))) {
        Some((Some(Value::Array(values)), _)) => values.iter().map(llm_do_core::results::show).collect(),
        Some((_, Some(kind))) if kind == "boolean" => vec!["true".to_owned(), "false".to_owned()],
        _ => Vec::new(),
    };
    let fitting = fuzzy::rank(typed, values, |value| value);
    fitting
        .into_iter()
        .map(|value| Candidate { text: format!("{name}={value}"), note: String::new() })
        .collect()
}
