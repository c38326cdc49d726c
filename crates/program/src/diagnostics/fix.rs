//! Changes that certainly fix a finding.

use crate::span::{SourceFile, Span};
use std::sync::Arc;

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// The action of the fix, as an imperative: `remove the second one`.
    pub title: String,
    /// The edits of the fix, all in one file, in order and without overlap. Either all are applied or none.
    pub edits: Vec<Edit>,
}

/// A range of a file and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The range to replace.
    pub span: Span,
    /// The new text.
    pub text: String,
}

impl Fix {
    /// Creates a fix that replaces one range.
    pub fn replace(title: impl Into<String>, span: &Span, text: impl Into<String>) -> Option<Self> {
        span.range()?;
        Some(Self { title: title.into(), edits: vec![Edit { span: span.clone(), text: text.into() }] })
    }

    /// Creates a fix that replaces a plain value. Returns `None` for an alias (`*name`) or a tagged value.
    pub fn rewrite(title: impl Into<String>, value: &Span, text: impl Into<String>) -> Option<Self> {
        let written = value.text();
        let plain = !written.is_empty() && !written.starts_with(['*', '&', '!', '|', '>']);
        plain.then(|| Self::replace(title, value, text))?
    }

    /// Returns the file that the fix changes.
    pub fn file(&self) -> Option<&Arc<SourceFile>> {
        self.edits.first().map(|edit| edit.span.file())
    }

    /// Returns the text with the edits applied, or `None` if they overlap or are outside the text.
    pub fn apply(&self, text: &str) -> Option<String> {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for edit in &self.edits {
            let range = edit.span.range()?;
            out.push_str(text.get(at..range.start)?);
            text.get(range.clone())?;
            out.push_str(&edit.text);
            at = range.end;
        }
        out.push_str(text.get(at..)?);
        Some(out)
    }
}

/// Merges several changes of one file. Returns the changes that overlap an earlier one separately.
pub fn merge<'a>(fixes: impl IntoIterator<Item = &'a Fix>) -> (Fix, Vec<&'a Fix>) {
    let mut edits: Vec<Edit> = Vec::new();
    let mut skipped = Vec::new();
    let apart = |a: &Edit, b: &Edit| match (a.span.range(), b.span.range()) {
        // The order of two insertions at one place would be undefined.
        (Some(a), Some(b)) => (a.end <= b.start || b.end <= a.start) && a.start != b.start,
        _ => false,
    };
    for fix in fixes {
        if fix.edits.iter().all(|edit| edits.iter().all(|taken| apart(edit, taken))) {
            edits.extend(fix.edits.iter().cloned());
        } else {
            skipped.push(fix);
        }
    }
    edits.sort_by_key(|edit| edit.span.range().map_or(0, |range| range.start));
    (Fix { title: String::new(), edits }, skipped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    #[test]
    fn changes_in_each_other_are_not_made_together() {
        let file = SourceFile::new("x", "0123456789");
        let fix =
            |range: Range<usize>, text: &str| Fix::replace("x", &Span::new(&file, range), text).unwrap();
        let (a, b, c, d) = (fix(4..6, "x"), fix(0..2, ""), fix(5..7, "y"), fix(6..6, "+"));
        let (merged, skipped) = merge([&a, &b, &c, &d]);
        assert_eq!(merged.apply(file.text()).unwrap(), "23x+6789");
        assert_eq!(skipped, [&c]);
    }
}
