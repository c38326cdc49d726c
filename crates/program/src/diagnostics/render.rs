//! Findings as text: the source line, a caret, and suggestions.

use super::{Diagnostic, Severity};
use crate::span::Span;
use annotate_snippets::{
    AnnotationKind, Group, Level, Origin, Patch, Renderer, Snippet, normalize_untrusted_str,
    renderer::DecorStyle,
};

/// Whether terminal colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Never,
    /// ANSI escapes.
    Always,
}

/// Longest source line that is shown. Of a longer line, only the place is shown.
const LONGEST_LINE: usize = 2_000;

/// All findings as text, separated by empty lines, ending with a newline. Source text and file names are untrusted:
/// control characters are made visible.
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
        .primary_title(normalize_untrusted_str(&diagnostic.message))
        .id(diagnostic.code.id)
        .elements(Vec::<annotate_snippets::Message<'_>>::new());
    if let Some(span) = &diagnostic.span {
        group = place(group, span, diagnostic.label.as_deref(), AnnotationKind::Primary);
    }
    for related in &diagnostic.related {
        group = place(group, &related.span, Some(&related.message), AnnotationKind::Context);
    }
    for note in &diagnostic.notes {
        group = group.element(Level::NOTE.message(normalize_untrusted_str(note)));
    }
    for help in &diagnostic.help {
        group = group.element(Level::HELP.message(normalize_untrusted_str(help)));
    }
    group
}

/// The fix, as removed and added lines.
fn suggestion(diagnostic: &Diagnostic) -> Option<Group<'_>> {
    let fix = diagnostic.fix.as_ref()?;
    let group = Level::HELP
        .secondary_title(normalize_untrusted_str(&fix.title))
        .elements(Vec::<annotate_snippets::Message<'_>>::new());
    let (first, last) = (fix.edits.first()?.span.range()?, fix.edits.last()?.span.range()?);
    let file = fix.file()?;
    let text = file.text();
    let start = text[..first.start].rfind('\n').map_or(0, |newline| newline + 1);
    let start = if text[start..].starts_with('\u{feff}') { start + '\u{feff}'.len_utf8() } else { start };
    let end = text[last.end..].find('\n').map_or(text.len(), |newline| last.end + newline);
    if end - start > LONGEST_LINE || first.start < start {
        return Some(group.element(Origin::path(normalize_untrusted_str(file.path()))));
    }
    let (line, _) = fix.edits[0].span.line_column()?;
    let patches = fix.edits.iter().filter_map(|edit| {
        let range = edit.span.range()?;
        Some(Patch::new(range.start - start..range.end - start, edit.text.as_str()))
    });
    let snippet = Snippet::source(&text[start..end])
        .line_start(line)
        .path(normalize_untrusted_str(file.path()))
        .patches(patches);
    Some(group.element(snippet))
}

fn place<'a>(group: Group<'a>, span: &'a Span, label: Option<&str>, kind: AnnotationKind) -> Group<'a> {
    let path = normalize_untrusted_str(span.file().path());
    let label = label.map(normalize_untrusted_str);
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
    if line_end - start > LONGEST_LINE {
        return group.element(Origin::path(path).line(line).char_column(column));
    }
    let end = range.end.min(line_end).max(range.start);
    let mut annotation = kind.span(range.start.max(start) - start..end.max(start) - start);
    if let Some(label) = label {
        annotation = annotation.label(label);
    }
    group.element(Snippet::source(&text[start..line_end]).line_start(line).path(path).annotation(annotation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{diagnostics::codes, span::SourceFile};

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
}
