//! Spans of code in the files of a program's packages.

use crate::{
    code::CodeProblem,
    front_matter,
    package::Packages,
    source::Kind,
    span::{SourceFile, Span},
};
use llm_do_core::authority::Place;
use std::sync::Arc;

/// Returns the file of a module; for a folder, its `__init__.py`.
fn source(packages: &Packages, place: &Place) -> Arc<SourceFile> {
    let within = packages.iter().filter_map(|(_, package)| Some((package, place.rest(package.tree.root())?)));
    // With nested roots, use the innermost.
    let Some((package, path)) = within.min_by_key(|(_, path)| path.len()) else {
        return SourceFile::new(place.as_str(), "");
    };
    let tree = package.tree.as_ref();
    let path = match tree.kind(path) {
        Ok(Some(Kind::Folder)) if path.is_empty() => "__init__.py".to_owned(),
        Ok(Some(Kind::Folder)) => format!("{path}/__init__.py"),
        _ => path.to_owned(),
    };
    front_matter::read(tree, &path).unwrap_or_else(|_| front_matter::unread(tree, &path))
}

/// Returns a span in code: a line without surrounding blanks, one character, or the whole file.
pub(crate) fn span(packages: &Packages, place: &Place, line: Option<u32>, column: Option<u32>) -> Span {
    let file = source(packages, place);
    let (Some(line), false) = (line, file.text().is_empty()) else { return Span::whole(&file) };
    let line = line as usize;
    let start = Span::at(&file, line, 1).range().map_or(0, |range| range.start);
    let text = file.text()[start..].lines().next().unwrap_or_default().trim_end();
    if let Some(column) = column {
        // Python reports a column after the end of the line if something is missing.
        let last = text.chars().count().max(1);
        return Span::at(&file, line, (column as usize).min(last));
    }
    let start = start + text.len() - text.trim_start().len();
    Span::new(&file, start..start + text.trim_start().len())
}

/// Returns the place of a problem, if it is known.
pub(crate) fn of_problem(packages: &Packages, problem: &CodeProblem) -> Option<Span> {
    let file = problem.file.as_ref()?;
    Some(span(packages, file, problem.line, problem.column))
}
