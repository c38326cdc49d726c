//! Finds types for other languages that were generated from other signatures.

use super::scope::Scope;
use crate::{
    diagnostics::{Diagnostic, codes},
    resolve::PackageId,
    signatures::Signatures,
    stubs::Stub,
};

pub(super) fn check(scope: &Scope<'_>, stubs: &[Stub], found: &mut Vec<Diagnostic>) {
    // Without all workers there is no hash to compare with. That of a large program takes time.
    if !scope.complete || stubs.is_empty() {
        return;
    }
    let own = scope.workers.values().filter(|worker| worker.located.package == PackageId::PROGRAM);
    let hash = Signatures::of_definitions(own.map(|worker| &*worker.definition)).hash();
    for stub in stubs.iter().filter(|stub| stub.hash.text() != hash) {
        found.push(
            Diagnostic::warning(
                codes::STALE_STUBS,
                format!("the workers have other signatures than these types of {}", stub.language.name()),
            )
            .at(&stub.hash)
            .help(format!(
                "write them again: `llm-do stubs --{} -o {}`",
                stub.language.name(),
                stub.path
            )),
        );
    }
}
