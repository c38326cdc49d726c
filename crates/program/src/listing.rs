//! What `llm-do list` shows.

use crate::{
    diagnostics::{Diagnostic, Diagnostics, tidy},
    front_matter, keys,
    loading::Loading,
    package::Package,
    program::{Host, Source},
    resolve::Located,
    shape,
    yaml::{Data, Node},
};

/// A worker in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Its ID; of a library's worker `LIBRARY:ID`.
    pub id: String,
    /// Its file: relative to the root, whole for a library's.
    pub path: String,
    /// Its description.
    pub description: Option<String>,
    /// Its own model.
    pub model: Option<String>,
    /// What keeps its file from being read.
    pub problem: Option<String>,
}

/// All workers of a program with what their files say about them, sorted by ID, then the exports of each library that it
/// depends on. Works for programs that do not load: each problem is the one worker's.
///
/// # Errors
/// What is wrong with the manifest or the libraries.
pub fn list_workers(source: &Source, host: Host) -> Result<Vec<Listing>, Diagnostics> {
    let mut found = Vec::new();
    let Loading { packages, .. } = Loading::begin(source, host, &mut found);
    if found.iter().any(Diagnostic::is_error) {
        tidy(&mut found);
        return Err(Diagnostics(found));
    }
    let program = packages.program();
    let mut listed: Vec<Listing> =
        program.scan().into_iter().map(|located| listing(program, located)).collect();
    for library in program.dependencies.iter().map(|id| packages.get(*id)) {
        for (id, export) in library.exports() {
            listed.push(match library.layout.resolve(library.tree.as_ref(), export) {
                Ok(located) => listing(library, located),
                Err(error) => Listing {
                    id: library.global_id(&id).to_string(),
                    path: library.tree.shown(export),
                    description: None,
                    model: None,
                    problem: Some(error.to_string()),
                },
            });
        }
    }
    Ok(listed)
}

fn listing(package: &Package, located: Located) -> Listing {
    let document = front_matter::definition(package.tree.as_ref(), &located.path);
    let (keys, problem) = match document {
        Ok(document) => (Some(document.keys), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let keys = keys.filter(|keys| matches!(keys.data, Data::Map(_)));
    let keys = keys.map(|keys| shape::check(&keys, keys::WORKER, "", &mut Vec::new()));
    let text =
        |key: &str| keys.as_ref().and_then(|keys| keys.get(key)).and_then(Node::as_text).map(str::to_owned);
    Listing {
        description: text("description"),
        model: text("model"),
        id: package.global_id(&located.id).to_string(),
        path: package.tree.shown(&located.path),
        problem,
    }
}
