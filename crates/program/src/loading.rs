//! From a source to a program: the manifest, the entry, and the closure of what allowlists name exactly.

use crate::{
    diagnostics::{Diagnostic, codes, nearest},
    effective::{Context, Effective, is_glob},
    manifest::{MANIFESTS, Manifest},
    program::{Host, Source, Start},
    resolve::{Layout, Located},
    scan,
    signature::show,
    source::SourceTree,
    span::{SourceFile, Span},
    toolsets::{self, Toolsets},
};
use llm_do_core::{
    authority::{Place, Protection},
    model::ModelName,
    worker::WorkerDefinition,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// A program before its entry is known.
pub(crate) struct Parts {
    pub(crate) tree: Arc<dyn SourceTree>,
    pub(crate) host: Host,
    pub(crate) manifest: Manifest,
    pub(crate) project_toolsets: Toolsets,
    pub(crate) layout: Layout,
    pub(crate) protection: Arc<Protection>,
    pub(crate) own: Vec<Place>,
    pub(crate) model: Option<ModelName>,
}

impl Parts {
    pub(crate) fn read(source: &Source, host: Host, found: &mut Vec<Diagnostic>) -> Self {
        let tree = Arc::clone(&source.tree);
        let manifest =
            if source.manifest { Manifest::load(tree.as_ref(), found) } else { Manifest::default() };
        let project_toolsets = match &manifest.toolsets {
            Some(node) => toolsets::read(node, &host.toolsets, found),
            None => Toolsets::new(),
        };
        let layout = layout(&manifest);
        let root = tree.root().clone();
        let protection = match &source.work {
            // Rules name places from the folder that a lone file works on; its own definitions stay protected there.
            Some(work) => {
                let prefix = root.rest(work).unwrap_or_default();
                let below =
                    |path: &String| if prefix.is_empty() { path.clone() } else { format!("{prefix}/{path}") };
                let defining: Vec<String> = manifest.defining().iter().map(below).collect();
                Protection::new(work.clone(), if root.is_within(work) { defining } else { Vec::new() })
            }
            None => Protection::new(root.clone(), manifest.defining()),
        };
        let mut own = vec![root];
        own.extend(source.work.clone());
        let mut parts = Self {
            tree,
            host,
            manifest,
            project_toolsets,
            layout,
            protection: Arc::new(protection),
            own,
            model: None,
        };
        let model = parts.manifest.model.as_ref().and_then(|node| parts.context().model_name(node, found));
        parts.model = model;
        parts
    }

    fn context(&self) -> Context<'_> {
        Context {
            tree: &self.tree,
            manifest: &self.manifest,
            project_toolsets: &self.project_toolsets,
            host: &self.host,
            protection: &self.protection,
            own: &self.own,
        }
    }

    /// The entry's file, and where it is named.
    pub(crate) fn entry(
        &self,
        start: &Start,
        found: &mut Vec<Diagnostic>,
    ) -> Option<(Located, Option<Span>)> {
        let (reference, place) = match (start, &self.manifest.entry) {
            (Start::File(path), _) => return Some((self.layout.identify(path), None)),
            (Start::Entry(Some(reference)), _) => (reference.clone(), None),
            (Start::Entry(None), Some(entry)) => {
                let text = entry.as_text().unwrap_or_default();
                if text.contains(".py:") {
                    found.push(
                        Diagnostic::error(codes::NOT_SUPPORTED, "a Python entry is not supported yet")
                            .at(&entry.span),
                    );
                    return None;
                }
                (text.to_owned(), Some(entry.span.clone()))
            }
            (Start::Entry(None), None) => ("main".to_owned(), None),
        };
        match self.layout.resolve(self.tree.as_ref(), &reference) {
            Ok(located) => Some((located, place)),
            Err(error) if error.code == codes::WORKER_NOT_FOUND => {
                let implied = *start == Start::Entry(None) && place.is_none();
                let missing = if implied {
                    let mut looked = format!("no `entry` in {} or {}", MANIFESTS[0], MANIFESTS[1]);
                    if let Some(file) = &self.manifest.file {
                        looked = format!("no `entry` in {}", file.path());
                    }
                    let mut none =
                        Diagnostic::error(codes::NO_ENTRY, "this folder has no worker to start with")
                            .note(looked)
                            .help("write a `main.worker`, or name another worker with `--entry`");
                    none.notes.extend(error.notes);
                    none
                } else {
                    let mut missing = Diagnostic::error(
                        codes::ENTRY_MISSING,
                        format!("the entry `{reference}` does not exist"),
                    );
                    missing.notes = error.notes;
                    missing
                };
                let all = scan::workers(self.tree.as_ref(), &self.manifest, &self.layout);
                let ids: Vec<&str> = all.iter().map(|worker| worker.id.as_str()).collect();
                let missing =
                    if implied { with_names(missing, &ids) } else { with_nearest(missing, &reference, ids) };
                found.push(missing.or_at(place.as_ref()));
                None
            }
            Err(error) => {
                found.push(error.or_at(place.as_ref()));
                None
            }
        }
    }

    /// Loads a worker and all that allowlists name exactly, each file once; cycles are fine.
    pub(crate) fn closure(
        &self,
        entry: Located,
        place: Option<&Span>,
        loaded: &mut BTreeMap<String, Arc<Effective>>,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Arc<WorkerDefinition>> {
        let context = self.context();
        let mut scanned: Option<Vec<Located>> = None;
        let mut waiting = VecDeque::from([(entry.clone(), place.cloned())]);
        let mut seen = BTreeSet::from([entry.path.clone()]);
        let mut ids: BTreeMap<String, String> = BTreeMap::new();
        while let Some((located, named)) = waiting.pop_front() {
            if let Some(other) = ids.insert(located.id.clone(), located.path.clone()) {
                found.push(same_id(&other, &located, named.as_ref()));
            }
            let reading = context.worker(&located, found);
            for (reference, span) in reading.callees.iter().filter(|(reference, _)| !is_glob(reference)) {
                match self.layout.resolve(self.tree.as_ref(), reference) {
                    Ok(callee) => {
                        if seen.insert(callee.path.clone()) {
                            waiting.push_back((callee, Some(span.clone())));
                        }
                    }
                    Err(error) => {
                        let all = scanned.get_or_insert_with(|| {
                            scan::workers(self.tree.as_ref(), &self.manifest, &self.layout)
                        });
                        let ids = all.iter().map(|worker| worker.id.as_str());
                        let error = *error;
                        let error = match error.span {
                            Some(_) => error.related("it is named here", span),
                            None => error.at(span),
                        };
                        found.push(with_nearest(error, reference, ids));
                    }
                }
            }
            if let Some(effective) = reading.effective {
                loaded.insert(located.path, Arc::new(effective));
            }
        }
        loaded.get(&entry.path).map(|effective| Arc::clone(&effective.definition))
    }

    /// `bindings` of the manifest are values for the entry's parameters: each must have one.
    pub(crate) fn check_bindings(&self, entry: &WorkerDefinition, found: &mut Vec<Diagnostic>) {
        for (name, node) in &self.manifest.bindings {
            let signature = &entry.signature;
            let known = signature.parameters.iter().any(|p| *p.name == **name);
            if !known && (signature.declared || name != "input") {
                let names: Vec<&str> = signature.parameters.iter().map(|p| &*p.name).collect();
                found.push(
                    Diagnostic::error(
                        codes::UNKNOWN_KEY,
                        format!("the entry `{}` has no parameter `{name}`", entry.id),
                    )
                    .at(&node.span)
                    .did_you_mean(name, names)
                    .note(format!("its signature: {}", show(&entry.id, signature))),
                );
            }
        }
    }
}

pub(crate) fn layout(manifest: &Manifest) -> Layout {
    let mut roots = vec![manifest.workers_root.clone()];
    roots.extend(manifest.worker_paths.iter().filter(|path| **path != manifest.workers_root).cloned());
    Layout { roots }
}

/// Two files with one ID in one program would be told apart by nobody.
pub(crate) fn same_id(other: &str, located: &Located, named: Option<&Span>) -> Diagnostic {
    Diagnostic::error(
        codes::SAME_ID,
        format!("`{other}` and `{}` both define the worker `{}`", located.path, located.id),
    )
    .or_at(named)
    .or_at(Some(&Span::whole(&SourceFile::new(located.path.as_str(), ""))))
    .help("rename one of them")
}

pub(crate) fn with_nearest<'a>(
    error: Diagnostic,
    reference: &str,
    ids: impl IntoIterator<Item = &'a str>,
) -> Diagnostic {
    if ![codes::WORKER_NOT_FOUND, codes::ENTRY_MISSING].contains(&error.code) {
        return error;
    }
    let ids: Vec<&str> = ids.into_iter().collect();
    let wanted = reference.trim_start_matches("./");
    if nearest(wanted, ids.iter().copied()).is_empty() {
        return with_names(error, &ids);
    }
    error.did_you_mean(wanted, ids)
}

/// The names there are, if they are few.
fn with_names(error: Diagnostic, ids: &[&str]) -> Diagnostic {
    match ids {
        [] => error,
        few if few.len() <= 12 => error.help(format!("workers are {}", few.join(", "))),
        many => error.help(format!("`llm-do list` shows the {} workers there are", many.len())),
    }
}
