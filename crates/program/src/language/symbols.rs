//! The symbols of a checked program: workers, tools, toolsets, models, libraries.

use super::FileKind;
use crate::{
    check::checked::Checked,
    effective::Effective,
    manifest::Manifest,
    package::Packages,
    resolve::{PackageId, WorkerFile},
    show::Shown,
    signature::show,
    source::{Kind, SourceTree, folder_of},
    span::{SourceFile, Span},
    templates::Templates,
    yaml::Node,
};
use llm_do_core::{
    authority::Place,
    template::{TemplateSource, TemplateText, confine},
    toolset::ToolsetRegistry,
    worker::WorkerDefinition,
};
use std::{collections::BTreeSet, sync::Arc};

/// The symbols of a program as of its last check.
#[derive(Clone, Copy)]
pub struct Symbols<'a> {
    checked: &'a Checked,
}

/// A worker of a program, also one with errors.
#[derive(Clone, Copy)]
pub struct Worker<'a> {
    pub(super) effective: &'a Effective,
}

impl<'a> Worker<'a> {
    /// Returns the name of the worker in the whole program.
    pub fn name(&self) -> &'a Arc<str> {
        &self.effective.definition.id
    }

    /// Returns the file with the worker's keys.
    pub fn file(&self) -> &'a Arc<SourceFile> {
        self.effective.keys.span.file()
    }

    /// Returns the keys of the worker in canonical form.
    pub fn keys(&self) -> &'a Node {
        &self.effective.keys
    }

    /// Returns the signature: `name(parameter: type)`.
    pub fn signature(&self) -> String {
        show(&self.effective.definition.id, &self.effective.definition.signature)
    }

    /// Returns the merged definition.
    pub fn definition(&self) -> &'a WorkerDefinition {
        &self.effective.definition
    }

    /// Returns the workers that it names exactly, with the places of their names.
    pub fn calls(&self) -> impl Iterator<Item = (&'a Arc<str>, &'a Span)> {
        let effective = self.effective;
        effective.calls.iter().map(|(name, at)| (name, &effective.callees[*at].1))
    }
}

impl<'a> Symbols<'a> {
    pub(crate) fn of(checked: &'a Checked) -> Self {
        Self { checked }
    }

    pub(super) fn packages(&self) -> &'a Packages {
        &self.checked.loading.packages
    }

    pub(super) fn checked(&self) -> &'a Checked {
        self.checked
    }

    /// Returns the root of the program.
    pub fn root(&self) -> &'a Place {
        self.tree().root()
    }

    pub(super) fn tree(&self) -> &'a dyn SourceTree {
        self.packages().program().tree.as_ref()
    }

    /// Returns the kind of a place in the program, if it is there.
    pub(super) fn kind_of(&self, place: &Place) -> Option<Kind> {
        self.tree().kind(place.rest(self.root())?).ok()?
    }

    /// Returns the manifest, or the defaults.
    pub fn manifest(&self) -> &'a Manifest {
        &self.packages().program().manifest
    }

    /// Returns the kinds of toolsets.
    pub fn toolsets(&self) -> &'a ToolsetRegistry {
        &self.checked.loading.host.toolsets
    }

    /// Returns all workers, by name.
    pub fn workers(&self) -> impl Iterator<Item = Worker<'a>> {
        self.checked.loading.workers.values().map(|effective| Worker { effective })
    }

    /// Returns the worker of a name.
    pub fn worker(&self, name: &str) -> Option<Worker<'a>> {
        self.checked.loading.workers.get(name).map(|effective| Worker { effective })
    }

    /// Returns the worker of a file, by its path as it is shown.
    pub fn worker_of(&self, path: &str) -> Option<Worker<'a>> {
        let id = self.packages().program().layout.identify(path).id;
        let is_of = |worker: &Worker<'a>| &**worker.file().path() == path;
        self.worker(&id).filter(is_of).or_else(|| self.workers().find(is_of))
    }

    /// Returns the number of cases of a worker.
    pub fn cases(&self, worker: Worker<'_>) -> usize {
        let layout = &self.packages().program().layout;
        let of = |path: &str| {
            let candidates = crate::cases::worker_candidates(layout, path);
            candidates.iter().find_map(|candidate| self.worker(candidate))
        };
        let files = self.checked.files.cases.iter();
        files
            .filter(|file| of(&file.path).is_some_and(|it| it.name() == worker.name()))
            .map(|file| file.cases.len())
            .sum()
    }

    /// Returns the names by which workers of the program may refer to others, sorted.
    pub fn worker_names(&self) -> Vec<String> {
        let program = |worker: &Worker<'_>| worker.effective.located.package == PackageId::PROGRAM;
        let mut names: BTreeSet<String> =
            self.workers().filter(program).map(|worker| worker.effective.located.id.clone()).collect();
        for (_, library) in self.packages().iter().skip(1) {
            names.extend(library.exports().map(|(id, _)| library.global_id(&id).to_string()));
        }
        names.into_iter().collect()
    }

    /// Returns the file that a reference of a package names.
    pub(super) fn resolve(&self, from: PackageId, reference: &str) -> Option<WorkerFile> {
        self.packages().resolve(from, reference).ok()
    }

    /// Returns the worker that a reference names.
    pub fn named_worker(&self, from: PackageId, reference: &str) -> Option<Worker<'a>> {
        let file = self.resolve(from, reference)?;
        self.worker(&self.checked.loading.name_of(&file))
    }

    /// Returns the package of a file.
    pub(super) fn package_of(&self, path: &str) -> PackageId {
        self.worker_of(path).map_or(PackageId::PROGRAM, |worker| worker.effective.located.package)
    }

    /// Returns the worker with all of its values, each with its place.
    pub fn shown(&self, worker: Worker<'_>) -> Shown {
        let loading = &self.checked.loading;
        Shown::of(worker.effective, &loading.packages, &loading.workers, &loading.host.toolsets)
    }

    /// Returns the models that the program names, its profiles, and the providers with a colon, sorted.
    pub fn models(&self) -> Vec<String> {
        let manifest = self.manifest();
        let mut models: BTreeSet<String> = manifest.models.keys().cloned().collect();
        // A model may be a list of a first choice and others.
        let of_profiles = manifest.models.values().map(|profile| &profile.model);
        let of_workers = self.workers().filter_map(|worker| worker.keys().get("model"));
        let named = of_profiles.chain(&manifest.model).chain(of_workers).flat_map(Node::texts);
        models.extend(named.map(|(model, _)| model.to_owned()));
        let providers = self.checked.loading.host.providers.iter().chain(manifest.providers.keys());
        models.extend(providers.map(|provider| format!("{provider}:")));
        models.into_iter().collect()
    }

    /// Returns the names of the libraries that are installed or depended on, sorted.
    pub fn libraries(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.checked.loading.host.libraries.names().into_iter().collect();
        names.extend(
            self.packages().iter().filter_map(|(_, package)| package.library.as_deref()).map(str::to_owned),
        );
        names.into_iter().collect()
    }

    /// Returns the tools that rules of a worker may name, with their descriptions. Python tools are among them if the
    /// program's code was inspected.
    pub fn tools(&self, worker: Option<Worker<'_>>) -> Vec<(String, String)> {
        let kinds = self.toolsets().kinds();
        let built_in = kinds.flat_map(|kind| {
            let of = format!("a tool of the toolset `{}`", kind.name());
            kind.tools().iter().map(move |name| ((*name).to_owned(), of.clone())).collect::<Vec<_>>()
        });
        let mut tools: Vec<(String, String)> = built_in.collect();
        let python = worker.and_then(|worker| self.checked.exposed.tools(worker.effective));
        tools.extend(
            python
                .into_iter()
                .flatten()
                .map(|(name, tool)| (name.clone(), tool.code.description.to_string())),
        );
        tools.sort();
        tools.dedup_by(|a, b| a.0 == b.0);
        tools
    }

    /// Returns the text of a file of the program.
    pub fn text(&self, path: &str) -> Option<String> {
        String::from_utf8(self.tree().read(path, crate::source::LARGEST_DEFINITION).ok()?).ok()
    }

    /// Returns the names of templates that the instructions in a file may include, sorted.
    pub fn template_names(&self, path: &str) -> Vec<String> {
        let folder = folder_of(path);
        let manifest = self.manifest();
        let own = crate::source::join(folder, "templates");
        let mut names = BTreeSet::new();
        for root in [own.as_str(), folder, &manifest.templates_root, &manifest.prompts_root] {
            let entries = self.tree().list(root).unwrap_or_default();
            let files =
                entries.into_iter().filter(|(name, kind)| *kind == Kind::File && !name.starts_with('.'));
            names.extend(
                files.map(|(name, _)| name).filter(|name| FileKind::of(name) == Some(FileKind::Template)),
            );
        }
        names.into_iter().collect()
    }

    /// Returns the template or file that a text in a file names.
    pub fn template(&self, path: &str, name: &str) -> Option<TemplateText> {
        let package = self.packages().get(self.package_of(path));
        Templates::of(self.packages(), package, folder_of(path)).template(&confine(name).ok()?).ok()?
    }
}
