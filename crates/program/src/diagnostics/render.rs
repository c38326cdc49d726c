//! Findings as text: the source line, a caret, and suggestions.

use super::{Diagnostic, Severity};
use crate::{span::Span, visible};
use annotate_snippets::{
    AnnotationKind, Group, Level, Origin, Patch, Renderer, Snippet, renderer::DecorStyle,
};
use std::ops::Range;

/// The choice of terminal colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Never,
    /// ANSI escapes.
    Always,
}

/// The longest source line that is shown. Of a longer line, only the place is shown.
const LONGEST_LINE: usize = 2_000;

/// Formats all findings as text, separated by empty lines, ending with a newline. Source text and file names are
/// untrusted: characters that a screen does not show, or that move its cursor, are escaped.
pub fn render(diagnostics: &[Diagnostic], colour: Colour) -> String {
    let renderer = match colour {
        Colour::Never => Renderer::plain(),
        Colour::Always => Renderer::styled(),
    }
    .decor_style(DecorStyle::Ascii);
    let mut out = String::new();
    for (i, diagnostic) in diagnostics.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let groups: Vec<Group<'_>> =
            std::iter::once(group(diagnostic)).chain(suggestion(diagnostic)).collect();
        let text = renderer.render(&groups);
        for line in text.lines() {
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
    out
}

fn group(diagnostic: &Diagnostic) -> Group<'_> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = level
        .primary_title(shown(&diagnostic.message))
        .id(diagnostic.code.id)
        .elements(Vec::<annotate_snippets::Message<'_>>::new());
    if let Some(span) = &diagnostic.span {
        group = place(group, span, diagnostic.label.as_deref(), AnnotationKind::Primary);
    }
    for related in &diagnostic.related {
        group = place(group, &related.span, Some(&related.message), AnnotationKind::Context);
    }
    for note in &diagnostic.notes {
        group = group.element(Level::NOTE.message(shown(note)));
    }
    for help in &diagnostic.help {
        group = group.element(Level::HELP.message(shown(help)));
    }
    group
}

/// Formats the fix as removed and added lines.
fn suggestion(diagnostic: &Diagnostic) -> Option<Group<'_>> {
    let fix = diagnostic.fix.as_ref()?;
    let group =
        Level::HELP.secondary_title(shown(&fix.title)).elements(Vec::<annotate_snippets::Message<'_>>::new());
    let (first, last) = (fix.edits.first()?.span.range()?, fix.edits.last()?.span.range()?);
    let file = fix.file()?;
    let text = file.text();
    let start = text[..first.start].rfind('\n').map_or(0, |newline| newline + 1);
    let start = if text[start..].starts_with('\u{feff}') { start + '\u{feff}'.len_utf8() } else { start };
    let end = text[last.end..].find('\n').map_or(text.len(), |newline| last.end + newline);
    if end - start > LONGEST_LINE || first.start < start {
        return Some(group.element(Origin::path(shown(file.path()))));
    }
    let (line, _) = fix.edits[0].span.line_column()?;
    let excerpt = Excerpt { text, range: start..end };
    let patches = fix
        .edits
        .iter()
        .filter_map(|edit| Some(Patch::new(excerpt.columns(&edit.span.range()?), shown(&edit.text))));
    let patches: Vec<Patch<'_>> = patches.collect();
    let snippet = Snippet::source(excerpt.shown()).line_start(line).path(shown(file.path())).patches(patches);
    Some(group.element(snippet))
}

fn place<'a>(group: Group<'a>, span: &'a Span, label: Option<&str>, kind: AnnotationKind) -> Group<'a> {
    let path = shown(span.file().path());
    let label = label.map(shown);
    let Some(range) = span.range() else {
        let group = group.element(Origin::path(path));
        return match label {
            Some(label) => group.element(Level::NOTE.message(label)),
            None => group,
        };
    };
    let (line, column) = span.line_column().unwrap_or((1, 1));
    // Pass only the affected lines, so that excerpts of large files are cheap.
    let text = span.file().text();
    let start = text[..range.start].rfind('\n').map_or(0, |newline| newline + 1);
    let start = if text[start..].starts_with('\u{feff}') { start + '\u{feff}'.len_utf8() } else { start };
    // For a span over several lines, show its first line.
    let line_end = text[range.start..].find('\n').map_or(text.len(), |newline| range.start + newline);
    let line_end = if text[..line_end].ends_with('\r') { line_end - 1 } else { line_end };
    if line_end - start > LONGEST_LINE {
        return group.element(Origin::path(path).line(line).char_column(column));
    }
    let excerpt = Excerpt { text, range: start..line_end };
    let mut annotation = kind.span(excerpt.columns(&range));
    if let Some(label) = label {
        annotation = annotation.label(label);
    }
    let snippet = Snippet::source(excerpt.shown()).line_start(line).annotation(annotation);
    // The renderer counts the columns that it shows: those of a tab, or of the escape for a hidden character.
    // A span may begin with the byte order mark, which is not shown.
    let before = text.get(start..range.start).unwrap_or_default();
    match before.contains('\t') || excerpt.columns(&range).start != before.len() {
        true => group.element(Origin::path(path).line(line).char_column(column)).element(snippet),
        false => group.element(snippet.path(path)),
    }
}

/// Escapes untrusted text for display.
fn shown(text: &str) -> String {
    // A tab has no width of its own in an excerpt, and lines of either form end in the same way.
    visible::text(&text.replace("\r\n", "\n")).replace('\t', "    ")
}

/// Lines of a file. They are escaped, so that columns are those of the escaped text.
struct Excerpt<'a> {
    text: &'a str,
    range: Range<usize>,
}

impl Excerpt<'_> {
    fn shown(&self) -> String {
        shown(&self.text[self.range.clone()])
    }

    /// Returns the place of a range of the file, as far as it lies in the excerpt.
    fn columns(&self, range: &Range<usize>) -> Range<usize> {
        let column = |at: usize| shown(&self.text[self.range.start..self.inside(at)]).len();
        column(range.start)..column(range.end.max(range.start))
    }

    fn inside(&self, at: usize) -> usize {
        at.clamp(self.range.start, self.range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diagnostics::{Fix, codes},
        span::SourceFile,
    };

    #[test]
    fn the_name_of_a_file_moves_no_cursor() {
        let file = SourceFile::new("evil\u{1b}]0;x\u{7}\u{202e}.worker", "a: 1\nb: 2\n");
        for span in [Span::whole(&file), Span::new(&file, 0..1)] {
            let mut diagnostic = Diagnostic::error(codes::UNKNOWN_KEY, "there is no such key");
            diagnostic.span = Some(span);
            let text = render(&[diagnostic], Colour::Never);
            assert!(text.contains("evil") && text.contains(".worker"), "{text:?}");
            assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{text:?}");
        }
    }

    #[test]
    fn hidden_characters_of_a_source_line_are_escaped_and_the_caret_stays() {
        let line = "\ta: \u{9b}2J\u{200b}\u{202e}bad \u{e0041}# \r";
        let file = SourceFile::new("x.worker", format!("---\n{line}\n---\n"));
        let at = file.text().find("bad").unwrap();
        let mut diagnostic = Diagnostic::error(codes::UNKNOWN_KEY, "no \u{9b}1m").label("\u{200f}here");
        diagnostic.span = Some(Span::new(&file, at..at + 3));
        diagnostic.notes = vec!["\u{85}".into()];
        diagnostic.help = vec!["\u{2066}".into()];
        diagnostic.fix = Fix::rewrite("write \u{9b}", &Span::new(&file, at..at + 3), "\u{9b}good");
        for colour in [Colour::Never, Colour::Always] {
            let text = render(std::slice::from_ref(&diagnostic), colour);
            let hidden = |c: char| {
                c != '\n' && c != '\u{1b}' && !visible::line(c.encode_utf8(&mut [0; 4])).starts_with(c)
            };
            assert!(!text.contains(hidden), "{text:?}");
        }
        let text = render(&[diagnostic], Colour::Never);
        let lines: Vec<&str> = text.lines().collect();
        let quoted = lines.iter().position(|line| line.contains("bad")).unwrap();
        assert_eq!(lines[quoted].find("bad"), lines[quoted + 1].find("^^^"), "{text}");
        // The place is that of the file, where a tab and each hidden character are one column.
        assert!(lines.iter().any(|line| line.trim() == "--> x.worker:2:10"), "{text}");
    }
}
