//! The keys of a worker file that have errors. `check` analyses the worker nevertheless, so that one call reports
//! everything, but draws no conclusions from these keys.

use crate::{diagnostics::Diagnostic, front_matter::Document, shape::snake_case, span::Span};
use std::{collections::BTreeSet, sync::Arc};

/// The top-level keys of a worker file with errors, in canonical form.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Mistakes {
    keys: BTreeSet<String>,
    /// True if the file has a syntax error: any key may be missing.
    any: bool,
}

impl Mistakes {
    /// Returns the keys to which these findings refer: those that contain a place of an error, and those that an
    /// unknown key probably means.
    pub(super) fn of(document: &Document, found: &[Diagnostic]) -> Self {
        let keys = &document.keys;
        let mut mistaken = BTreeSet::new();
        for error in found.iter().filter(|finding| finding.is_error()) {
            let places = || error.span.iter().chain(error.related.iter().map(|related| &related.span));
            for entry in keys.entries() {
                if places().any(|place| contains(&entry.key_span.to(&entry.value.span), place)) {
                    mistaken.insert(snake_case(&entry.key));
                }
                if places().any(|place| *place == entry.key_span) {
                    mistaken.extend(error.nearest.iter().cloned());
                }
            }
        }
        Self { keys: mistaken, any: document.is_partial }
    }

    /// Returns true if one of these keys has an error, or may be missing because of one.
    pub(crate) fn concern(&self, keys: &[&str]) -> bool {
        self.any || keys.iter().any(|key| self.keys.contains(*key))
    }
}

/// Returns true if a place begins in a span.
fn contains(whole: &Span, place: &Span) -> bool {
    let (Some(whole_range), Some(range)) = (whole.range(), place.range()) else { return false };
    Arc::ptr_eq(whole.file(), place.file())
        && range.start >= whole_range.start
        && range.start < whole_range.end
}
