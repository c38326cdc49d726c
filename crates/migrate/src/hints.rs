//! Findings of a program that a migration would fix.

use crate::{Change, Content, Plan, Scope, Weight, plan};
use llm_do_program::{
    Source, Start,
    diagnostics::{Code, Diagnostic, codes},
    manifest::MANIFESTS,
    older_forms::{Cures, OlderForms},
    source::{LARGEST_DEFINITION, MemoryTree, SourceTree},
    span::Span,
};
use std::collections::BTreeSet;

/// Findings about missing files. In an older layout, the file may have another path.
const MISSING: [Code; 4] =
    [codes::WORKER_NOT_FOUND, codes::ENTRY_MISSING, codes::NO_ENTRY, codes::TOOL_MODULE_NOT_FOUND];

/// Values that a migration may rewrite without making them valid.
const KEPT: [Code; 2] = [codes::BAD_VALUE, codes::NOT_SUPPORTED];

/// The converter, as the front end asks it.
pub struct Migration;

impl OlderForms for Migration {
    fn add_hints(&self, source: &Source, found: &mut [Diagnostic]) -> Cures {
        add_hints(source, found)
    }

    fn changes_none_of(&self, source: &Source, paths: &[String]) -> bool {
        paths.iter().all(|path| alone(source.tree.as_ref(), path).is_none_or(|plan| plan.changes.is_empty()))
    }
}

/// Adds the command to those errors that `llm-do migrate` cures.
fn add_hints(source: &Source, found: &mut [Diagnostic]) -> Cures {
    let open = |finding: &&mut Diagnostic| {
        let says_so = finding.help.iter().any(|help| help.contains("llm-do migrate"));
        finding.is_error() && finding.fix.is_none() && !says_so && !KEPT.contains(&finding.code)
    };
    let mut open = found.iter_mut().filter(open).peekable();
    if open.peek().is_none() {
        return Cures::Unasked;
    }
    let Some((plan, command)) = migration(source).filter(|(plan, _)| !plan.changes.is_empty()) else {
        return Cures::Nothing;
    };
    for finding in open {
        if cures(&plan, source.tree.as_ref(), finding) {
            finding.help.push(format!("this is an older form, which `{command}` converts"));
        }
    }
    Cures::Something
}

/// Returns the changes of a migration, and its command. A file without a project is migrated alone, because its folder
/// may contain anything.
fn migration(source: &Source) -> Option<(Plan, String)> {
    let tree = source.tree.as_ref();
    match &source.start {
        Start::File(path) if !source.manifest => {
            let name = path.rsplit('/').next().unwrap_or(path);
            Some((alone(tree, path)?, format!("llm-do migrate {name}")))
        }
        _ => Some((plan(tree, &Scope::Folder).ok()?, "llm-do migrate".to_owned())),
    }
}

/// Returns the changes of a file that is migrated alone.
fn alone(tree: &dyn SourceTree, path: &str) -> Option<Plan> {
    let text = tree.read(path, LARGEST_DEFINITION).ok()?;
    plan(&MemoryTree::new(tree.root().clone(), [(path, text)]), &Scope::File(path.to_owned())).ok()
}

fn cures(plan: &Plan, tree: &dyn SourceTree, finding: &Diagnostic) -> bool {
    if MISSING.contains(&finding.code) {
        return plan.changes.iter().any(|change| supplies(change, finding));
    }
    let Some(span) = &finding.span else { return false };
    let rewritten = plan.changes.iter().any(|change| {
        let of_file = change.from.as_ref().is_some_and(|from| *tree.shown(from) == **span.file().path());
        match &change.content {
            Content::Text { after, .. } => of_file && !has_line(after, span),
            Content::Moved => false,
        }
    });
    rewritten && !is_lost(plan, tree, finding)
}

/// Returns true if a change creates the file that the finding reports as missing.
fn supplies(change: &Change, finding: &Diagnostic) -> bool {
    let stem = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        name.split_once('.').map_or(name, |(stem, _)| stem).to_owned()
    };
    let moves = change.from.as_ref() != Some(&change.to);
    let missed = finding.span.as_ref().map(|span| stem(span.text().trim_matches(['"', '\''])));
    // A folder of worker files without an entry is no older layout: a migration would only move them.
    let begins = || stem(&change.to) == "main" || MANIFESTS.contains(&change.to.as_str());
    moves && missed.map_or_else(begins, |missed| missed == stem(&change.to))
}

/// Returns true if a text has the line of a span, at any indentation.
fn has_line(text: &str, span: &Span) -> bool {
    let Some((line, _)) = span.line_column() else { return true };
    let Some(wanted) = span.file().text().lines().nth(line - 1) else { return true };
    let lines: BTreeSet<&str> = text.lines().map(str::trim).collect();
    lines.contains(wanted.trim())
}

/// Returns true if a note of the plan reports that the finding's line can't be converted.
fn is_lost(plan: &Plan, tree: &dyn SourceTree, finding: &Diagnostic) -> bool {
    let Some(span) = &finding.span else { return false };
    let line = span.line_column().map(|(line, _)| line);
    plan.notes.iter().any(|note| {
        let of_file = note.file.as_ref().is_some_and(|file| *tree.shown(file) == **span.file().path());
        note.weight == Weight::Lost && of_file && note.line == line
    })
}
