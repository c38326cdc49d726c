//! The workers that a worker may call. See `docs/reference/worker-files.md`.

use crate::{
    diagnostics::{Diagnostic, codes},
    resolve::is_glob,
    span::Span,
    yaml::{Data, Node},
};

/// An item of an allowlist.
pub(super) struct Callee {
    pub(super) reference: String,
    pub(super) span: Span,
    /// The arguments that the item fixes.
    pub(super) with: Option<Node>,
}

/// Reads the references and patterns of lists of workers, each once.
pub(super) fn allowlist(lists: [Option<&Node>; 2], found: &mut Vec<Diagnostic>) -> Vec<Callee> {
    let mut callees: Vec<Callee> = Vec::new();
    let items = lists.into_iter().flatten().flat_map(|list| match &list.data {
        Data::List(items) => items.as_slice(),
        _ => std::slice::from_ref(list),
    });
    for item in items {
        let (name, with) = match item.as_text() {
            Some(_) => (Some(item), None),
            None => (item.get("name"), item.get("with")),
        };
        let Some((name, text)) = name.and_then(|name| Some((name, name.as_text()?))) else { continue };
        let span = &name.span;
        if is_glob(text)
            && let Err(error) = globset::Glob::new(text)
        {
            found.push(
                Diagnostic::error(
                    codes::BAD_GLOB,
                    format!("`{text}` is not a glob pattern: {}", error.kind()),
                )
                .at(span),
            );
            continue;
        }
        if is_glob(text) && with.is_some() {
            found.push(
                Diagnostic::error(
                    codes::BAD_VALUE,
                    format!("`with` is for one worker, and `{text}` is a pattern"),
                )
                .at(span)
                .help("name the worker"),
            );
            continue;
        }
        match callees.iter().find(|known| known.reference == text) {
            None => {
                callees.push(Callee { reference: text.to_owned(), span: span.clone(), with: with.cloned() });
            }
            Some(Callee { with: None, .. }) if with.is_none() => {}
            Some(known) => found.push(
                Diagnostic::error(
                    codes::CONFLICT,
                    format!("`{text}` is listed twice, and `with` holds for all calls of it"),
                )
                .at(span)
                .related("it is listed here too", &known.span)
                .help("keep one of them"),
            ),
        }
    }
    callees
}
