//! Finds calls that would be refused because of missing authority. See `docs/reference/sandbox.md`.

use super::scope::Scope;
use crate::{
    authorities::{Authorities, RefusedCall},
    diagnostics::{Diagnostic, codes},
};
use llm_do_core::source::FunctionSource;

pub(super) fn check(scope: &Scope<'_>, authorities: &Authorities<'_>, found: &mut Vec<Diagnostic>) {
    for RefusedCall { caller, callee, refusal } in &authorities.refused {
        let caller = &scope.workers[*caller];
        let (name, at) = &caller.calls[*callee];
        let refused = Diagnostic::error(codes::OUT_OF_BOUNDS, refusal.to_string())
            .at(&caller.callees[*at].1)
            .label(format!("called by `{}`", caller.definition.id));
        let refused = match &scope.workers[name].definition.source {
            FunctionSource::Library(library) => refused
                .note(format!(
                    "workers of the library `{library}` see their caller's files, and may read the library's own folder"
                ))
                .help("let the library take the folder as a parameter of type `path`, which its caller passes"),
            _ => refused.help("widen the callers' `restrict`, or remove the mount from the callee"),
        };
        found.push(match scope.workers[name].keys.entry("sandbox") {
            Some(sandbox) => refused.related("its mounts are declared here", &sandbox.key_span),
            None => refused,
        });
    }
}
