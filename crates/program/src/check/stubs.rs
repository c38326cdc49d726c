//! Types for other languages that were written for other signatures.

use super::scope::Scope;
use crate::{
    diagnostics::{Diagnostic, codes},
    resolve::PackageId,
    signatures::Signatures,
    stubs::stale,
};

pub(super) fn check(scope: &Scope<'_>, found: &mut Vec<Diagnostic>) {
    // Without all workers there is no hash to compare with.
    if !scope.complete {
        return;
    }
    let hash = || {
        let own = scope.workers.values().filter(|worker| worker.located.package == PackageId::PROGRAM);
        Signatures::of_definitions(own.map(|worker| &*worker.definition)).hash()
    };
    for stub in stale(scope.packages.program().tree.as_ref(), hash) {
        found.push(
            Diagnostic::warning(
                codes::STALE_STUBS,
                format!("the workers have other signatures than these types of {}", stub.language.name()),
            )
            .at(&stub.span)
            .help(format!(
                "write them again: `llm-do stubs --{} -o {}`",
                stub.language.name(),
                stub.path
            )),
        );
    }
}
