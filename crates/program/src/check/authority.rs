//! Finds calls that would be refused because of missing authority. See `docs/reference/sandbox.md`.

use super::scope::Scope;
use crate::{
    authorities::{Authorities, RefusedCall},
    diagnostics::{Diagnostic, codes},
    rules::FileRule,
    source::plain,
};
use llm_do_core::source::FunctionSource;
use llm_do_core::{
    authority::{Access, Authority, Mount, Origin, Place},
    gate::{FileSet, Set},
};

pub(super) fn check(scope: &Scope<'_>, authorities: &Authorities<'_>, found: &mut Vec<Diagnostic>) {
    sets(scope, authorities, found);
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

/// Finds files of sets in folders that a worker may write: it could then choose the values that a rule allows. The file
/// itself is protected, but the folders above it are not.
fn sets(scope: &Scope<'_>, authorities: &Authorities<'_>, found: &mut Vec<Diagnostic>) {
    let program = scope.packages.program();
    let own = scope.workers.values().filter(|worker| worker.definition.source == program.code.source);
    let rules: Vec<&FileRule> =
        own.flat_map(|worker| &worker.rules).chain(&program.manifest.approval_rules).collect();
    for rule in rules {
        for (test, span) in rule.calls.conditions.tests().iter().zip(&rule.tests) {
            let Some(FileSet { file, .. }) = test.set().and_then(Set::file) else { continue };
            let Ok(path) = plain(file) else { continue };
            let place = program.tree.root().join(&path);
            let writer = authorities
                .of
                .iter()
                .find(|(_, all)| all.iter().any(|authority| may_write(authority, &place)));
            if let Some((worker, _)) = writer {
                found.push(
                    Diagnostic::error(
                        codes::WRITABLE_SET,
                        format!(
                            "`{worker}` may write in the folder of `{file}`, from which this set is read"
                        ),
                    )
                    .at(span)
                    .note("a worker that writes the file chooses the values that the rule allows")
                    .help("move the file out of the folders that workers may write"),
                );
            }
        }
    }
}

/// Returns true if a file lies in a mount that the program declares for writing.
fn may_write(authority: &Authority, place: &Place) -> bool {
    let declared = |mount: &&Mount| mount.access == Access::Write && mount.origin == Origin::Declared;
    authority.view().mounts().iter().filter(declared).any(|mount| place.is_within(&mount.place))
}
