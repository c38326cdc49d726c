//! `/run`, `/NAME` and `/keep`: the user calls a worker of the program.

use super::{Arguments, Command, Talk, candidate};
use crate::chat::{known::Known, words};
use llm_do::program::signature::{Given, input_value, show, validate_input};
use llm_do_core::{
    question::Answer,
    worker::{Parameter, Signature, WorkerDefinition},
};
use llm_do_terminal::{Candidate, fuzzy};
use serde_json::Value;
use std::sync::Arc;

pub(super) const RUN: Command = Command {
    name: "/run",
    alias: None,
    arguments: Arguments::Some { shown: "WORKER [ARGUMENTS]", complete },
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
    does: "let the result of your last call of a worker join your next message",
    more: "/detach takes it back.",
    run: |talk, _| {
        let ran = talk.current().and_then(|conversation| conversation.transcript.last_result());
        match ran {
            None => talk.face.problem("there is no result to keep: /run WORKER makes one"),
            Some(message) => {
                talk.aside(Answer::Keep { message });
            }
        }
    },
};

/// Calls the worker of that name, if the arguments fit.
pub(super) fn run(talk: &mut Talk<'_>, name: &str, arguments: &str) {
    let given = talk.known.worker(name).and_then(|worker| input(&worker, arguments));
    match given {
        Ok(input) => {
            if talk.aside(Answer::Run { worker: name.into(), input: Arc::new(input) }) {
                talk.working();
            }
        }
        Err(why) => talk.face.problem(&format!("{why}\n  nothing was run")),
    }
}

/// The parameter that an argument without a name fills: the only one, or the only one that must be given.
fn the_input(signature: &Signature) -> Option<&Parameter> {
    let mut required = signature.parameters.iter().filter(|parameter| parameter.required);
    match (&signature.parameters[..], required.next(), required.next()) {
        ([only], ..) => Some(only),
        (_, only, None) => only,
        _ => None,
    }
}

/// The input that arguments make.
fn input(worker: &WorkerDefinition, arguments: &str) -> Result<Value, String> {
    let signature = &worker.signature;
    let is_name = |name: &str| match signature.declared {
        true => signature.parameters.iter().any(|parameter| *parameter.name == *name),
        false => !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_'),
    };
    let (mut parameters, mut unnamed) = (Vec::new(), Vec::new());
    for word in words::split(arguments)? {
        match word.split_once('=').filter(|(name, _)| is_name(name)) {
            Some((name, value)) => parameters.push((name.to_owned(), value.to_owned())),
            None => unnamed.push(word),
        }
    }
    let mut message = (!unnamed.is_empty()).then(|| unnamed.join(" "));
    if signature.message.is_none()
        && let Some(only) = the_input(signature)
        && let Some(value) = message.take()
    {
        parameters.push((only.name.to_string(), value));
    }
    if let (None, Some(text)) = (&signature.message, &message) {
        let shown = show(&worker.id, signature);
        return Err(format!("`{text}` needs a name, as in NAME=VALUE\n  signature: {shown}"));
    }
    let given = Given { message: message.as_deref(), json: None, parameters: &parameters };
    let value = input_value(&worker.id, signature, given).map_err(|error| error.to_string())?;
    validate_input(&worker.id, signature, &value).map_err(|error| error.to_string())?;
    Ok(value)
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

/// What a worker does, in a line.
pub(super) fn about(worker: &WorkerDefinition) -> &str {
    worker
        .description
        .as_deref()
        .and_then(|text| text.trim().lines().next())
        .unwrap_or("a worker of the program")
}

/// The names of parameters, or the values that one may have.
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
