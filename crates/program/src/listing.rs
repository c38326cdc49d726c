//! The output of `llm-do list`.

use crate::{
    context::Context,
    diagnostics::{Diagnostic, Diagnostics, tidy},
    front_matter, keys,
    load_options::LoadOptions,
    loading::Loading,
    manifest::{self, Manifest},
    resolve::{PackageId, WorkerFile},
    shape,
    show::ShownTools,
    start::{Source, Start},
    tool_reference,
    yaml::{Data, Node},
};

/// The workers and tools of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The workers of the program.
    pub workers: Vec<Listing>,
    /// The Python modules whose tools all its workers have, nearest first. The modules are not loaded.
    pub tools: Vec<ShownTools>,
    /// The Python function in the manifest's `entry`, if any: `tools.py:main`.
    pub entry: Option<String>,
}

/// A worker in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The ID of the worker; `LIBRARY:ID` for a library's worker.
    pub id: String,
    /// The file of the worker: relative to the root, absolute for a library.
    pub path: String,
    /// The description of the worker.
    pub description: Option<String>,
    /// The worker's own models, as they are written.
    pub models: Vec<String>,
    /// The reason why its file can't be read, or the problem with its model.
    pub problem: Option<String>,
}

/// Lists all workers of a program with their descriptions, sorted by ID, then the exports of each library that it
/// depends on, and its Python modules. It also works for programs that do not load: each problem belongs to one worker.
///
/// # Errors
/// Problems of the manifest or the libraries.
pub fn list_workers(source: &Source, host: LoadOptions) -> Result<Listed, Diagnostics> {
    let mut found = Vec::new();
    let loading = Loading::begin(source, host, &mut found);
    if found.iter().any(Diagnostic::is_error) {
        tidy(&mut found);
        return Err(Diagnostics(found));
    }
    let packages = &loading.packages;
    let context = loading.context(PackageId::PROGRAM);
    let program = packages.program();
    let mut workers: Vec<Listing> =
        program.scan().into_iter().map(|located| listing(&context, located)).collect();
    // A file that runs alone may lie anywhere.
    if let Start::File(file) = &source.start
        && !workers.iter().any(|worker| worker.path == *file)
    {
        workers.push(listing(&context, program.layout.identify(file)));
        workers.sort_by(|a, b| a.id.cmp(&b.id));
    }
    for id in &program.dependencies {
        let (library, context) = (packages.get(*id), loading.context(*id));
        for (id, export) in library.exports() {
            workers.push(match library.layout.resolve(library.tree.as_ref(), export) {
                Ok(located) => listing(&context, located),
                Err(error) => Listing {
                    id: library.global_id(&id).to_string(),
                    path: library.tree.shown(export),
                    description: None,
                    models: Vec::new(),
                    problem: Some(error.to_string()),
                },
            });
        }
    }
    let named = program.manifest.entry.as_ref().and_then(Node::as_text);
    let is_python = |entry: &&str| tool_reference::function(packages, entry, context.policy()).is_some();
    Ok(Listed {
        workers,
        tools: ShownTools::of(&context.common_tools()),
        entry: named.filter(is_python).map(str::to_owned),
    })
}

/// Lists the workers that the manifest of a program exports, under the manifest's names. Reads only the manifest, and
/// does not report its problems: loading the program does.
pub fn exports(source: &Source) -> Vec<String> {
    let tree = source.tree.as_ref();
    let manifest = match source.manifest {
        true if manifest::is_library(tree) => {
            Manifest::load_library_partly(tree, &mut Vec::new()).unwrap_or_default()
        }
        true => Manifest::load(tree, &mut Vec::new()),
        false => Manifest::default(),
    };
    manifest.exports.into_iter().map(|(reference, _)| reference).collect()
}

fn listing(context: &Context<'_>, located: WorkerFile) -> Listing {
    let package = context.package;
    let document = front_matter::definition(package.tree.as_ref(), &located.path).whole();
    let (keys, problem) = match document {
        Ok(document) => (Some(document.keys), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let keys = keys.filter(|keys| matches!(keys.data, Data::Map(_)));
    let keys = keys.map(|keys| shape::check(&keys, keys::WORKER, "", &mut Vec::new()));
    let text =
        |key: &str| keys.as_ref().and_then(|keys| keys.get(key)).and_then(Node::as_text).map(str::to_owned);
    let mut found = Vec::new();
    let model = keys.as_ref().and_then(|keys| keys.get("model"));
    if let Some(model) = model {
        context.model_names(model, &mut found);
    }
    Listing {
        description: text("description"),
        models: model.into_iter().flat_map(Node::texts).map(|(name, _)| name.to_owned()).collect(),
        id: package.global_id(&located.id).to_string(),
        path: package.tree.shown(&located.path),
        problem: problem.or_else(|| found.first().map(ToString::to_string)),
    }
}
