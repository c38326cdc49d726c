//! Findings about a program, each with a code, a place and a suggestion. [`render`] makes text for people, [`json`] and
//! [`sarif`] for programs. The code that finds a problem contains its message; [`codes`] has only a title for each
//! code.

pub mod codes;
pub mod fix;
pub mod json;
pub mod render;
pub mod sarif;

pub use codes::Code;
pub use fix::{Edit, Fix};

use crate::span::{SourceFile, Span};
use std::{fmt, sync::Arc};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The program loads.
    Warning,
    /// The program does not load.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A related place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// The relation of the place to the finding.
    pub message: String,
    /// The place.
    pub span: Span,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind of finding. Stable.
    pub code: Code,
    /// The severity of the finding.
    pub severity: Severity,
    /// The problem, in one sentence.
    pub message: String,
    /// The place of the finding; `None` for a command line, whose words are in the message.
    pub span: Option<Span>,
    /// The text under the caret.
    pub label: Option<String>,
    /// More facts, such as the paths tried.
    pub notes: Vec<String>,
    /// Related places.
    pub related: Vec<Related>,
    /// Hints for the user.
    pub help: Vec<String>,
    /// Similar existing names, most similar first.
    pub nearest: Vec<String>,
    /// A change that certainly fixes the finding; never a guess.
    pub fix: Option<Fix>,
}

impl Diagnostic {
    /// Creates an error. Its code begins with `E`.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        debug_assert!(code.id.starts_with('E'), "{} is the code of a warning", code.id);
        Self::new(Severity::Error, code, message.into())
    }

    /// Creates a warning. Its code begins with `W`.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        debug_assert!(code.id.starts_with('W'), "{} is the code of an error", code.id);
        Self::new(Severity::Warning, code, message.into())
    }

    fn new(severity: Severity, code: Code, message: String) -> Self {
        Self {
            code,
            severity,
            message,
            span: None,
            label: None,
            notes: Vec::new(),
            related: Vec::new(),
            help: Vec::new(),
            nearest: Vec::new(),
            fix: None,
        }
    }

    /// Sets the place.
    #[must_use]
    pub fn at(mut self, span: &Span) -> Self {
        self.span = Some(span.clone());
        self
    }

    /// Sets the place, if there is one and none is set.
    #[must_use]
    pub fn or_at(mut self, span: Option<&Span>) -> Self {
        if self.span.is_none() {
            self.span = span.cloned();
        }
        self
    }

    /// Sets the text under the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds a related place.
    #[must_use]
    pub fn related(mut self, message: impl Into<String>, span: &Span) -> Self {
        self.related.push(Related { message: message.into(), span: span.clone() });
        self
    }

    /// Adds a suggestion.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Adds a "did you mean", if some of `candidates` are similar to `wanted`.
    #[must_use]
    pub fn did_you_mean<'a>(mut self, wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Self {
        self.nearest = nearest(wanted, candidates);
        match self.nearest.as_slice() {
            [] => {}
            [one] => self.help.push(format!("did you mean `{one}`?")),
            many => {
                let names: Vec<String> = many.iter().map(|name| format!("`{name}`")).collect();
                self.help.push(format!("did you mean one of {}?", names.join(", ")));
            }
        }
        self
    }

    /// Sets a change that certainly fixes the finding, if there is one.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<Option<Fix>>) -> Self {
        self.fix = fix.into();
        self
    }

    /// Returns true if one of its places lies in this text of a file.
    pub(crate) fn is_about(&self, file: &Arc<SourceFile>) -> bool {
        let edits = self.fix.iter().flat_map(|fix| &fix.edits).map(|edit| &edit.span);
        let related = self.related.iter().map(|related| &related.span);
        self.span.iter().chain(related).chain(edits).any(|span| Arc::ptr_eq(span.file(), file))
    }

    /// Returns true if the program can't load because of it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    /// Formats the finding as one line, for a model or a log: `main.worker:3:1: unknown key `modle` (did you mean
    /// `model`?)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(span) = &self.span {
            match span.line_column() {
                Some((line, column)) => write!(f, "{}:{line}:{column}: ", span.file().path())?,
                None => write!(f, "{}: ", span.file().path())?,
            }
        }
        f.write_str(&self.message)?;
        let rest: Vec<&str> = self.notes.iter().chain(&self.help).map(String::as_str).collect();
        if !rest.is_empty() {
            write!(f, " ({})", rest.join("; "))?;
        }
        Ok(())
    }
}

/// The errors that prevent a program from loading, and any warnings. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl From<Diagnostic> for Diagnostics {
    fn from(one: Diagnostic) -> Self {
        Self(vec![one])
    }
}

impl From<Box<Diagnostic>> for Diagnostics {
    fn from(one: Box<Diagnostic>) -> Self {
        Self(vec![*one])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.0.iter().filter(|d| d.is_error()).enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Sorts findings in reading order (file, place, code) and removes duplicates.
pub fn tidy(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by_cached_key(|d| {
        let place = d.span.as_ref();
        (
            place.map(|s| s.file().path().to_string()),
            place.and_then(Span::range).map(|range| range.start),
            d.code.id,
            d.message.clone(),
        )
    });
    diagnostics.dedup();
}

/// Returns the names among `candidates` that are similar to `wanted`, most similar first, at most three.
pub fn nearest<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    // The cost is quadratic in the length, so limit it for hostile names.
    if wanted.len() > LONGEST_COMPARED {
        return Vec::new();
    }
    let wanted = wanted.to_lowercase();
    let last = |text: &str| text.rsplit('/').next().unwrap_or(text).to_owned();
    let mut found: Vec<(f64, &str)> = candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= LONGEST_COMPARED)
        .filter_map(|candidate| {
            let lower = candidate.to_lowercase();
            // Compare the last parts too: `summarizer` is similar to `reports/summarizer`.
            let score = likeness(&wanted, &lower).max(likeness(&last(&wanted), &last(&lower)) - 0.01);
            (score > 0.75).then_some((score, candidate))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    found.dedup_by(|a, b| a.1 == b.1);
    // Keep others only if they are nearly as similar as the best.
    let best = found.first().map_or(0.0, |(score, _)| *score);
    found.retain(|(score, _)| best - score < 0.05);
    found.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

const LONGEST_COMPARED: usize = 200;

/// Returns the similarity of two names, from 0 to 1. Swapped letters count as one mistake, less than a missing letter.
fn likeness(a: &str, b: &str) -> f64 {
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    let same_letters = if letters(a) == letters(b) { 0.1 } else { 0.0 };
    let edits = strsim::normalized_damerau_levenshtein(a, b);
    (edits.midpoint(strsim::jaro_winkler(a, b)) + same_letters).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_not() {
        let keys = ["model", "mode", "model_settings", "description"];
        assert_eq!(nearest("modle", keys), ["model"]);
        assert_eq!(nearest("descripton", keys), ["description"]);
        assert!(nearest("zzz", keys).is_empty());
        assert_eq!(nearest("summariser", ["reports/summarizer", "evaluator"]), ["reports/summarizer"]);
    }
}
