//! Arguments that a worker fixes for its callees (`with`): they must be parameters of the callee, and fit them.

use super::scope::Scope;
use crate::{
    diagnostics::{Diagnostic, codes},
    effective::Effective,
    yaml::{Entry, Node},
};
use llm_do_core::{schema::Schema, worker::WorkerDefinition};
use serde_json::{Value, json};

/// Checks the fixed arguments of all workers.
pub(super) fn check(scope: &Scope<'_>, found: &mut Vec<Diagnostic>) {
    scope.each(found, |effective, found| {
        for (reference, with) in &effective.with {
            let called = |(_, at): &&(std::sync::Arc<str>, usize)| effective.callees[*at].0 == *reference;
            let callee = effective.calls.iter().find(called).and_then(|(name, _)| scope.workers.get(name));
            // A worker that does not exist or can't be read is an error of its own.
            if let Some(callee) = callee.filter(|it| !it.mistakes.concern(&["parameters", "schema_in_ref"])) {
                of_callee(callee, with, found);
            }
        }
    });
}

fn of_callee(callee: &Effective, with: &Node, found: &mut Vec<Diagnostic>) {
    let callee = &callee.definition;
    let schema = callee.signature.schema.value();
    let known: Vec<&str> = match schema.get("properties").and_then(Value::as_object) {
        Some(properties) => properties.keys().map(String::as_str).collect(),
        None => Vec::new(),
    };
    for Entry { key, key_span, value } in with.entries() {
        if !known.contains(&key.as_str()) {
            found.push(
                Diagnostic::error(
                    codes::UNSATISFIABLE_CALL,
                    format!("`{}` has no parameter `{key}` that `with` could fix", callee.id),
                )
                .at(key_span)
                .did_you_mean(key, known.iter().copied()),
            );
        } else if let Some(reasons) = refused(callee, key, value) {
            found.push(
                Diagnostic::error(
                    codes::UNSATISFIABLE_CALL,
                    format!("`{}` does not accept this value for `{key}`: {reasons}", callee.id),
                )
                .at(&value.span),
            );
        }
    }
}

/// Returns the reason why a parameter of a worker does not accept a value.
pub(super) fn refused(worker: &WorkerDefinition, name: &str, value: &Node) -> Option<String> {
    let mut schema = worker.signature.schema.value().as_ref().clone();
    if let Value::Object(schema) = &mut schema {
        schema.shift_remove("required");
    }
    let violations = Schema::new(schema).ok()?.validate(&json!({ name: value.to_json() })).err()?;
    Some(violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}
