//! What `llm-do list` shows.

use crate::{
    diagnostics::{Diagnostic, Diagnostics, tidy},
    front_matter, keys,
    manifest::Manifest,
    resolve::{Layout, Located},
    scan, shape,
    source::SourceTree,
    yaml::{Data, Node},
};

/// A worker in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Its ID.
    pub id: String,
    /// Its file, relative to the root.
    pub path: String,
    /// Its description.
    pub description: Option<String>,
    /// Its own model.
    pub model: Option<String>,
    /// What keeps its file from being read.
    pub problem: Option<String>,
}

/// All workers of a project with what their files say about them, sorted by ID. Works for programs that do not load:
/// each problem is the one worker's.
///
/// # Errors
/// What is wrong with the manifest.
pub fn list_workers(tree: &dyn SourceTree) -> Result<Vec<Listing>, Diagnostics> {
    let mut found = Vec::new();
    let manifest = Manifest::load(tree, &mut found);
    if found.iter().any(Diagnostic::is_error) {
        tidy(&mut found);
        return Err(Diagnostics(found));
    }
    let listed = scan::workers(tree, &manifest, &Layout::of(&manifest));
    Ok(listed.into_iter().map(|located| listing(tree, located)).collect())
}

fn listing(tree: &dyn SourceTree, located: Located) -> Listing {
    let document = front_matter::definition(tree, &located.path);
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
        id: located.id,
        path: located.path,
        problem,
    }
}
