//! `/run`, `/NAME` and `/keep`: the user calls a worker of the program.

use super::{Arguments, Command, Talk, candidate};
use crate::chat::known::Known;
use llm_do::{last_run, typed_input};
use llm_do_core::{question::Answer, worker::WorkerDefinition};
use llm_do_terminal::{Candidate, fuzzy};
use serde_json::Value;
use std::sync::Arc;

pub(super) const RUN: Command = Command {
    name: "/run",
    alias: None,
    arguments: Arguments::Some { shown: "WORKER [ARGUMENTS]", complete },
    of_chat: false,
    does: "call a worker of the program; also /WORKER [ARGUMENTS]",
    more: "Arguments are NAME=VALUE, with quotes as in a shell; a worker with one input takes it without its name.\n\
           The call is yours: it is not asked about. Its result is shown to you. /keep lets it join your next message.",
    run: |talk, text| {
        let (name, arguments) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match name {
            "" => talk.face.problem("/run needs the name of a worker"),
            name => run(talk, name, arguments),
        }
    },
};

pub(super) const KEEP: Command = Command {
    name: "/keep",
    alias: None,
    arguments: Arguments::None,
    of_chat: false,
    does: "let the result of your last call of a worker join your next message",
    more: "/detach takes it back.",
    run: |talk, _| match talk.held().and_then(last_run) {
        None => talk.face.problem("there is no result to keep: /run WORKER makes one"),
        Some(message) => {
            talk.aside(Answer::Keep { message });
        }
    },
};

/// Calls the worker of that name, if the arguments fit.
pub(super) fn run(talk: &mut Talk<'_>, name: &str, arguments: &str) {
    let given = talk.known.worker(name).and_then(|worker| {
        let input = typed_input(&worker, arguments)?;
        talk.starter.check_paths(&worker, &input)?;
        Ok(input)
    });
    match given {
        Ok(input) => {
            if talk.aside(Answer::Run { worker: name.into(), input: Arc::new(input) }) {
                talk.working();
            }
        }
        Err(why) => talk.face.problem(&format!("{why}\n  nothing was run")),
    }
}

fn complete(known: &Known, before: &str, word: &str) -> Vec<Candidate> {
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
