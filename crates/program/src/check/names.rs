//! Names that would be confused: by file systems that ignore case, or by a model.

use super::Whole;
use crate::{
    diagnostics::{Diagnostic, codes},
    front_matter,
    resolve::Located,
    span::Span,
};
use llm_do_core::function::tool_name;
use std::collections::BTreeMap;

pub(super) fn check(whole: &Whole<'_>, found: &mut Vec<Diagnostic>) {
    case(whole, found);
    for effective in whole.workers.values() {
        // Each name that the model sees, with what gets it and where that is said.
        let mut names: BTreeMap<String, (String, Option<&Span>)> = BTreeMap::new();
        for kind in effective.toolsets.keys().filter_map(|name| whole.host.toolsets.get(name)) {
            for tool in kind.tools() {
                names.insert((*tool).to_owned(), (format!("the tool of `{}`", kind.name()), None));
            }
        }
        for (_, at) in &effective.calls {
            let (reference, span) = &effective.callees[*at];
            let name = tool_name(reference.trim_start_matches("./"));
            let this = (format!("the worker `{reference}`"), Some(span));
            let Some((other, place)) = names.insert(name.clone(), this) else { continue };
            let clash = Diagnostic::error(
                codes::NAME_CLASH,
                format!("`{reference}` and {other} would both be called `{name}` by the model"),
            )
            .at(span)
            .help("rename the worker, or take one of the two from it");
            found.push(match place {
                Some(place) => clash.related("the other one", place),
                None => clash,
            });
        }
    }
}

/// Workers whose IDs differ only in case: on many systems that is one file.
fn case(whole: &Whole<'_>, found: &mut Vec<Diagnostic>) {
    let mut folded: BTreeMap<String, &Located> = BTreeMap::new();
    for located in whole.scanned {
        let Some(other) = folded.insert(located.id.to_lowercase(), located) else { continue };
        if other.id != located.id {
            let tree = whole.packages.program().tree.as_ref();
            found.push(
                Diagnostic::error(
                    codes::CASE_CLASH,
                    format!("the workers `{}` and `{}` differ only in case", other.id, located.id),
                )
                .at(&Span::whole(&front_matter::unread(tree, &located.path)))
                .note(format!("the other one is {}", other.path))
                .help("rename one of them: on some systems they are one file"),
            );
        }
    }
}
