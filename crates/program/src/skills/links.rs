//! The files that the text of a skill links to.

use crate::{
    diagnostics::{Diagnostic, codes},
    fence::Lines,
    source::{SourceTree, join, plain},
    span::{SourceFile, Span},
};
use std::{ops::Range, sync::Arc};

/// Reports links to files that the skill does not have.
pub(super) fn check(
    tree: &dyn SourceTree,
    folder: &str,
    file: &Arc<SourceFile>,
    body: Range<usize>,
    found: &mut Vec<Diagnostic>,
) {
    for range in links(&file.text()[body.clone()]) {
        let span = Span::new(file, body.start + range.start..body.start + range.end);
        let Some(path) = path(span.text()) else { continue };
        let message = match plain(&path) {
            Err(_) => format!("the link `{path}` leads out of the skill's folder"),
            Ok(inside) => match tree.kind(&join(folder, &inside)) {
                Ok(Some(_)) => continue,
                Ok(None) => format!("the skill has no file `{path}`"),
                Err(error) => format!("`{path}` cannot be read: {error}"),
            },
        };
        found.push(
            Diagnostic::warning(codes::SKILL_LINK, message)
                .at(&span)
                .help("add the file to the skill's folder, or correct the link"),
        );
    }
}

/// Returns the path that a link's target names, if it names a file beside the text.
fn path(target: &str) -> Option<String> {
    let target = target.trim();
    let target = match target.strip_prefix('<') {
        Some(rest) => rest.split('>').next()?,
        None => target.split_whitespace().next()?,
    };
    let path = target.split(['#', '?']).next()?;
    let scheme = path.split(['/', '#']).next().is_some_and(|first| first.contains(':'));
    // A skill has no root, and text between braces is to be filled in.
    let elsewhere = scheme || path.starts_with('/') || path.contains(['{', '$', '*']);
    (!path.is_empty() && !elsewhere).then(|| path.replace("%20", " "))
}

/// Returns the targets of the links in a Markdown text, outside of code.
fn links(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for line in Lines::of(text) {
        let start = text[line.clone()].trim_start();
        let marker = ["```", "~~~"].into_iter().find(|marker| start.starts_with(marker));
        match (fence, marker) {
            (Some(open), Some(marker)) if open == marker => fence = None,
            (None, Some(marker)) => fence = Some(marker),
            (None, None) => of_line(&text[line.clone()], line.start, &mut found),
            _ => {}
        }
    }
    found
}

fn of_line(line: &str, start: usize, found: &mut Vec<Range<usize>>) {
    let mut code = false;
    let mut rest = 0;
    while let Some(at) = line[rest..].find(['`', ']']).map(|at| rest + at) {
        rest = at + 1;
        if line[at..].starts_with('`') {
            code = !code && line[rest..].contains('`');
        } else if !code && line[rest..].starts_with('(') {
            let Some(end) = line[rest..].find(')').map(|end| rest + end) else { continue };
            found.push(start + rest + 1..start + end);
            rest = end + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_outside_of_code_are_links() {
        let text = "See [a](references/a.md) and `[b](b.md)`, ![c](<assets/c d.png> \"C\").\n\n```sh\n[d](d.md)\n```\n\
                    [e](https://x.org/e) [f](#f) [g](g.md#part) [open](\n";
        let paths: Vec<String> = links(text).into_iter().filter_map(|range| path(&text[range])).collect();
        assert_eq!(paths, ["references/a.md", "assets/c d.png", "g.md"]);
        assert_eq!(path("mailto:a@b.c"), None);
        assert_eq!(path("/etc/passwd"), None);
        assert_eq!(path("../x.md").as_deref(), Some("../x.md"));
    }
}
