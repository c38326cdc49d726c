//! The findings of a program while its files are edited. See `docs/guides/check.md`.
//!
//! The first check reads everything. A later one, for other texts of some worker files, keeps what it can:
//!
//! - Where only instructions are other ones, these workers are read, merged and their instructions checked again. No other
//!   analysis looks at instructions, so that all other findings stay, at their places in the new texts.
//! - Where keys of worker files are other ones, these workers are read and merged again, the others are kept, and every
//!   analysis runs.
//! - Everything else is checked as a whole: files that are new or gone, and a worker file that is also read as something
//!   else, such as a template.

mod edited;
mod moving;

use crate::{
    check::{Pass, pass, prompts},
    diagnostics::Diagnostic,
    front_matter,
    load_options::LoadOptions,
    loading::{Kept, Loading, Merged, finish_knowing},
    migrate::Cures,
    parallel::drop_in_background,
    resolve::PackageId,
    source::{Kind, SourceTree, plain},
    span::SourceFile,
    start::Source,
};
use edited::EditedTree;
use moving::{moved, stays};
use std::{collections::BTreeMap, ops::Range, sync::Arc};

/// How much of a program a check looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Nothing: no text is another one.
    Nothing,
    /// The instructions of the workers that were edited.
    Instructions,
    /// The workers that were edited, and every analysis of the program.
    Workers,
    /// All files.
    Everything,
}

/// Checks a program several times with other texts of its files.
///
/// It relies on everything else to stay as it was when it last read everything: the files that are not edited, the libraries
/// and the code. [`Checker::forget`] is for when that may have changed.
pub struct Checker {
    source: Source,
    host: LoadOptions,
    tree: Arc<EditedTree>,
    known: Option<Known>,
}

/// What is known of a program.
struct Known {
    source: Source,
    loading: Loading,
    /// The findings of the manifest and the libraries.
    begun: Vec<Diagnostic>,
    pass: Pass,
    cures: Cures,
    /// The texts of the editor, by plain path.
    texts: BTreeMap<String, String>,
}

impl Checker {
    /// A checker of a program. It reads nothing yet.
    pub fn new(source: Source, host: LoadOptions) -> Self {
        let tree = Arc::new(EditedTree::new(Arc::clone(&source.tree)));
        let source = Source { tree: Arc::clone(&tree) as Arc<dyn SourceTree>, ..source };
        Self { source, host, tree, known: None }
    }

    /// All findings of the program with these texts in the place of its files, as [`check`](crate::check()) would give them,
    /// and how much was looked at. Paths are relative to the program's root.
    pub fn check(&mut self, texts: BTreeMap<String, String>) -> (Vec<Diagnostic>, Extent) {
        let texts: BTreeMap<String, String> =
            texts.into_iter().filter_map(|(path, text)| Some((plain(&path).ok()?, text))).collect();
        let extent = self.update(texts);
        let mut found = Vec::new();
        if let Some(known) = &mut self.known {
            found.clone_from(&known.pass.found);
            // A migration reads every file, which says nothing about what the files are for.
            known.cures = self.tree.uncounted(|| finish_knowing(&known.source, known.cures, &mut found));
        }
        (found, extent)
    }

    /// Reads everything the next time.
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
        known.texts = texts;
        if !edited.iter().all(|path| self.is_only_a_worker(&known, path)) {
            let texts = std::mem::take(&mut known.texts);
            drop_in_background(known);
            return self.read_everything(texts);
        }
        self.tree.forget(&edited);
        let extent = match known.edit_instructions(&edited) {
            Some(()) => Extent::Instructions,
            None => {
                self.tree.forget(&edited);
                known.cures = Cures::Unasked;
                known.loading.begin_again(&edited);
                known.pass = pass(&known.source, &mut known.loading, known.begun.clone());
                Extent::Workers
            }
        };
        self.known = Some(known);
        extent
    }

    fn read_everything(&mut self, texts: BTreeMap<String, String>) -> Extent {
        self.tree.put(&texts);
        self.tree.forget_all();
        let source = self.source.clone().listed();
        let mut begun = Vec::new();
        let mut loading = Loading::begin(&source, self.host.clone(), &mut begun);
        loading.kept = Some(Kept::default());
        let pass = pass(&source, &mut loading, begun.clone());
        self.known = Some(Known { source, loading, begun, pass, cures: Cures::Unasked, texts });
        Extent::Everything
    }

    /// Whether a file was a worker and nothing else when everything was read, and is still there. Without a manifest, the
    /// texts of workers tell which libraries there are.
    fn is_only_a_worker(&self, known: &Known, path: &str) -> bool {
        let program = known.loading.packages.program();
        program.manifest.file.is_some()
            && known.loading.has_loaded(path)
            && self.tree.reads(path) == 1
            && matches!(self.tree.kind(path), Ok(Some(Kind::File)))
    }
}

/// A worker whose instructions were edited.
struct Edit {
    /// Its place among the workers that were loaded.
    loaded: usize,
    /// Its place among all workers by name.
    worker: usize,
    old: Arc<SourceFile>,
    new: Arc<SourceFile>,
    merged: Arc<Merged>,
    prompts: Vec<Diagnostic>,
}

impl Known {
    /// Takes in files of which only the instructions are other ones. `None` if that is not so; then nothing has changed.
    fn edit_instructions(&mut self, edited: &[String]) -> Option<()> {
        let mut edits = Vec::with_capacity(edited.len());
        for path in edited {
            edits.push(self.edit(path)?);
        }
        for Edit { loaded, worker, old, new, merged, prompts } in edits {
            let kept = self.loading.kept.as_mut()?;
            let own = kept.loaded[loaded].1.clone();
            let by = put(&mut self.pass.found, &own, merged.found.clone());
            kept.loaded[loaded].1 = own.start..by.moved(own.end);
            kept.loaded[loaded + 1..].iter_mut().for_each(|(_, range)| by.shift(range));
            self.pass.prompts.iter_mut().for_each(|range| by.shift(range));
            let own = self.pass.prompts[worker].clone();
            let by = put(&mut self.pass.found, &own, prompts);
            self.pass.prompts[worker] = own.start..by.moved(own.end);
            self.pass.prompts[worker + 1..].iter_mut().for_each(|range| by.shift(range));
            for finding in &mut self.pass.found {
                moved(finding, &old, &new);
            }
            kept.keep(&merged);
            if let Some(effective) = &merged.effective {
                self.loading.workers.insert(Arc::clone(&effective.definition.id), Arc::clone(effective));
            }
            kept.loaded[loaded].0 = merged;
        }
        Some(())
    }

    /// What becomes of a file of which only the instructions are other ones.
    fn edit(&self, path: &str) -> Option<Edit> {
        let own =
            |merged: &Merged| merged.located.package == PackageId::PROGRAM && merged.located.path == path;
        let kept = self.loading.kept.as_ref()?;
        let loaded = kept.loaded.iter().position(|(merged, _)| own(merged))?;
        let (before, at) = &kept.loaded[loaded];
        let was = before.effective.as_ref()?;
        let name = &was.definition.id;
        // Of two files with one ID, only the first is the worker.
        if !Arc::ptr_eq(self.loading.workers.get(name)?, was) {
            return None;
        }
        let worker = self.loading.workers.range::<Arc<str>, _>(..name).count();
        let tree = self.loading.packages.program().tree.as_ref();
        let document = front_matter::definition(tree, path).ok()?;
        let old = Arc::clone(was.keys.span.file());
        let begin = document.body.as_ref()?.range.start;
        let keys = document.file.text().get(..begin)?;
        let body = |file: &SourceFile| file.text().get(begin..).map(|text| text.trim().is_empty());
        // Whether there are instructions decides where they are read from.
        if old.text().get(..begin) != Some(keys) || body(&old) != body(&document.file) {
            return None;
        }
        let merged = self.loading.merge(before.located.clone(), &document);
        let is = merged.effective.as_ref()?;
        if is.mistakes != was.mistakes || is.definition.code.is_some() || was.definition.code.is_some() {
            return None;
        }
        let prompts = prompts::of_worker(&self.loading.host.toolsets, is);
        let of_prompts = self.pass.prompts.get(worker)?;
        let others =
            self.pass.found.iter().enumerate().filter(|(i, _)| !at.contains(i) && !of_prompts.contains(i));
        if others.into_iter().any(|(_, finding)| !stays(finding, &old, begin)) {
            return None;
        }
        Some(Edit { loaded, worker, old, new: document.file, merged: Arc::new(merged), prompts })
    }
}

/// By how much the findings after a place have moved.
#[derive(Clone, Copy)]
struct Shift {
    removed: usize,
    added: usize,
}

impl Shift {
    fn moved(self, at: usize) -> usize {
        at - self.removed + self.added
    }

    fn shift(self, range: &mut Range<usize>) {
        *range = self.moved(range.start)..self.moved(range.end);
    }
}

/// Puts findings into the place of others.
fn put(found: &mut Vec<Diagnostic>, at: &Range<usize>, new: Vec<Diagnostic>) -> Shift {
    let shift = Shift { removed: at.len(), added: new.len() };
    found.splice(at.clone(), new);
    shift
}
