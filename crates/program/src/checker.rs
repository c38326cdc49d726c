//! The findings of a program while its files are edited. See `docs/guides/check.md`.
//!
//! The first check reads everything. A later check, for other texts of some worker files, reads these files and
//! computes the findings that depend on the changes; the others stay ([`Checked`]). All other changes lead to a check
//! of the whole program: new or missing files, and a worker file that is also read as something else, such as a
//! template.

mod edited;

use crate::{
    cancel::Cancel,
    check::checked::Checked,
    diagnostics::Diagnostic,
    language::Symbols,
    load_options::LoadOptions,
    loading::finish_knowing,
    older_forms::Cures,
    parallel::drop_in_background,
    source::{Kind, SourceTree, Stamp, plain},
    start::Source,
};
use edited::EditedTree;
use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

/// The part of a program that a check has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Nothing: no text has changed.
    Nothing,
    /// The edited workers, each by itself.
    Workers,
    /// The edited workers, and the program as a whole.
    Program,
    /// All files.
    Everything,
}

/// Checks a program several times with other texts of its files.
///
/// A checker assumes that the files that are not edited, the libraries and the code are unchanged. Call
/// [`Checker::changed`] with the paths that a watcher of files reports, or [`Checker::look_again`], which compares the
/// files with those that were read.
pub struct Checker {
    source: Source,
    host: LoadOptions,
    tree: Arc<EditedTree>,
    known: Option<LastCheck>,
    /// Files that have changed on disk since the last check.
    changed: BTreeSet<String>,
}

/// The state of a program after a check.
struct LastCheck {
    checked: Checked,
    cures: Cures,
    /// The texts of the editor, by plain path.
    texts: BTreeMap<String, String>,
    /// The files of libraries that were read, each with its state.
    libraries: Vec<(Arc<dyn SourceTree>, String, Option<Stamp>)>,
}

impl Checker {
    /// Creates a checker of a program, which has read nothing yet.
    pub fn new(source: Source, host: LoadOptions) -> Self {
        let tree = Arc::new(EditedTree::new(Arc::clone(&source.tree)));
        let source = Source { tree: Arc::clone(&tree) as Arc<dyn SourceTree>, ..source };
        Self { source, host, tree, known: None, changed: BTreeSet::new() }
    }

    /// Returns all findings of the program with these texts in place of its files, as [`check`](crate::check()) would
    /// return them, and the part that was read. Paths are relative to the program's root.
    pub fn check(&mut self, texts: BTreeMap<String, String>) -> (Vec<Diagnostic>, Extent) {
        self.check_unless(texts, &Cancel::default()).unwrap_or((Vec::new(), Extent::Nothing))
    }

    /// [`Checker::check`], which `cancel` can end early while it reads everything. Returns `None` then, and the next check
    /// reads everything.
    pub fn check_unless(
        &mut self,
        texts: BTreeMap<String, String>,
        cancel: &Cancel,
    ) -> Option<(Vec<Diagnostic>, Extent)> {
        let texts: BTreeMap<String, String> =
            texts.into_iter().filter_map(|(path, text)| Some((plain(&path).ok()?, text))).collect();
        let extent = self.update(texts, cancel)?;
        let LastCheck { checked, cures, .. } = self.known.as_mut()?;
        let mut found = checked.findings();
        // A migration reads every file, which says nothing about what the files are for.
        let older_forms = self.host.older_forms.as_deref();
        *cures = self.tree.uncounted(|| finish_knowing(&checked.source, older_forms, *cures, &mut found));
        Some((found, extent))
    }

    /// Tells that a file or folder of the program has changed on disk, is new or no longer exists. The next check reads
    /// it, and everything if it is not only a worker.
    pub fn changed(&mut self, path: &str) {
        if let Ok(path) = plain(path) {
            self.changed.insert(path);
        }
    }

    /// Finds the files and folders that have changed on disk since they were read.
    pub fn look_again(&mut self) {
        let Some(known) = &self.known else { return };
        if known.libraries.iter().any(|(tree, path, stamp)| tree.stamp(path) != *stamp) {
            return self.forget();
        }
        self.changed.extend(self.tree.changed());
    }

    /// Returns the symbols of the program as of the last check.
    pub fn symbols(&self) -> Option<Symbols<'_>> {
        self.known.as_ref().map(|known| Symbols::of(&known.checked))
    }

    /// Makes the next check read everything.
    pub fn forget(&mut self) {
        if let Some(known) = self.known.take() {
            drop_in_background(known);
        }
    }

    fn update(&mut self, texts: BTreeMap<String, String>, cancel: &Cancel) -> Option<Extent> {
        let Some(mut known) = self.known.take() else { return self.read_everything(texts, cancel) };
        let both = || known.texts.keys().chain(texts.keys().filter(|path| !known.texts.contains_key(*path)));
        let mut edited: Vec<String> =
            both().filter(|path| known.texts.get(*path) != texts.get(*path)).cloned().collect();
        // The text of an editor takes the place of the file, whatever is in it.
        let on_disk = mem::take(&mut self.changed).into_iter().filter(|path| !texts.contains_key(path));
        edited.extend(on_disk.filter(|path| known.texts.get(path) == texts.get(path)));
        if edited.is_empty() {
            self.known = Some(known);
            return Some(Extent::Nothing);
        }
        self.tree.put(&texts);
        if edited.iter().all(|path| self.is_only_a_worker(&known.checked, path)) {
            self.tree.forget(&edited);
            if let Some(change) = known.checked.edit(&edited) {
                let still_nothing = || {
                    let older_forms = self.host.older_forms.as_deref();
                    let unchanged = || {
                        older_forms.is_none_or(|older| older.changes_none_of(&known.checked.source, &edited))
                    };
                    known.cures == Cures::Nothing && self.tree.uncounted(unchanged)
                };
                if change.keys && !still_nothing() {
                    known.cures = Cures::Unasked;
                }
                self.known = Some(LastCheck { texts, ..known });
                return Some(if change.program { Extent::Program } else { Extent::Workers });
            }
        }
        drop_in_background(known);
        self.read_everything(texts, cancel)
    }

    fn read_everything(&mut self, texts: BTreeMap<String, String>, cancel: &Cancel) -> Option<Extent> {
        self.tree.put(&texts);
        self.tree.forget_all();
        self.changed.clear();
        let host = LoadOptions { cancel: cancel.clone(), ..self.host.clone() };
        let checked = Checked::read(self.source.clone(), host)?;
        for path in checked.code_files() {
            self.tree.watch(&path);
        }
        let libraries = checked.files_of_libraries();
        self.known = Some(LastCheck { checked, cures: Cures::Unasked, texts, libraries });
        Some(Extent::Everything)
    }

    /// Returns true if a file was a worker and nothing else when everything was read, and still exists. Without a
    /// manifest it returns false, because the texts of workers then determine the libraries.
    fn is_only_a_worker(&self, checked: &Checked, path: &str) -> bool {
        let program = checked.loading.packages.program();
        program.manifest.file.is_some()
            && checked.loading.has_loaded(path)
            && self.tree.reads(path) == 1
            && matches!(self.tree.kind(path), Ok(Some(Kind::File)))
    }
}
