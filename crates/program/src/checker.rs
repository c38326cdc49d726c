//! The findings of a program while its files are edited. See `docs/guides/check.md`.
//!
//! The first check reads everything. A later check, for other texts of some worker files, reads these files and
//! computes the findings that depend on the changes; the others stay ([`Checked`]). All other changes lead to a check
//! of the whole program: new or missing files, and a worker file that is also read as something else, such as a
//! template.

mod edited;

use crate::{
    check::checked::Checked,
    diagnostics::Diagnostic,
    load_options::LoadOptions,
    loading::finish_knowing,
    migrate::Cures,
    parallel::drop_in_background,
    source::{Kind, SourceTree, plain},
    start::Source,
};
use edited::EditedTree;
use std::{collections::BTreeMap, sync::Arc};

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
/// A checker assumes that everything else is unchanged since it last read everything: the files that are not edited, the
/// libraries and the code. Call [`Checker::forget`] when that may have changed.
pub struct Checker {
    source: Source,
    host: LoadOptions,
    tree: Arc<EditedTree>,
    known: Option<Known>,
}

/// The state of a program after a check.
struct Known {
    checked: Checked,
    cures: Cures,
    /// The texts of the editor, by plain path.
    texts: BTreeMap<String, String>,
}

impl Checker {
    /// Creates a checker of a program, which has read nothing yet.
    pub fn new(source: Source, host: LoadOptions) -> Self {
        let tree = Arc::new(EditedTree::new(Arc::clone(&source.tree)));
        let source = Source { tree: Arc::clone(&tree) as Arc<dyn SourceTree>, ..source };
        Self { source, host, tree, known: None }
    }

    /// Returns all findings of the program with these texts in place of its files, as [`check`](crate::check()) would
    /// return them, and the part that was read. Paths are relative to the program's root.
    pub fn check(&mut self, texts: BTreeMap<String, String>) -> (Vec<Diagnostic>, Extent) {
        let texts: BTreeMap<String, String> =
            texts.into_iter().filter_map(|(path, text)| Some((plain(&path).ok()?, text))).collect();
        let extent = self.update(texts);
        let Some(Known { checked, cures, .. }) = &mut self.known else { return (Vec::new(), extent) };
        let mut found = checked.findings();
        // A migration reads every file, which says nothing about what the files are for.
        *cures = self.tree.uncounted(|| finish_knowing(&checked.source, *cures, &mut found));
        (found, extent)
    }

    /// Makes the next check read everything.
    pub fn forget(&mut self) {
        if let Some(known) = self.known.take() {
            drop_in_background(known);
        }
    }

    fn update(&mut self, texts: BTreeMap<String, String>) -> Extent {
        let Some(mut known) = self.known.take() else { return self.read_everything(texts) };
        let both = || known.texts.keys().chain(texts.keys().filter(|path| !known.texts.contains_key(*path)));
        let edited: Vec<String> =
            both().filter(|path| known.texts.get(*path) != texts.get(*path)).cloned().collect();
        if edited.is_empty() {
            self.known = Some(known);
            return Extent::Nothing;
        }
        self.tree.put(&texts);
        if edited.iter().all(|path| self.is_only_a_worker(&known.checked, path)) {
            self.tree.forget(&edited);
            if let Some(change) = known.checked.edit(&edited) {
                if change.keys {
                    known.cures = Cures::Unasked;
                }
                self.known = Some(Known { texts, ..known });
                return if change.program { Extent::Program } else { Extent::Workers };
            }
        }
        drop_in_background(known);
        self.read_everything(texts)
    }

    fn read_everything(&mut self, texts: BTreeMap<String, String>) -> Extent {
        self.tree.put(&texts);
        self.tree.forget_all();
        let checked = Checked::read(self.source.clone(), self.host.clone());
        self.known = Some(Known { checked, cures: Cures::Unasked, texts });
        Extent::Everything
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
