//! Findings about a file whose text has changed behind a place.

use crate::{
    diagnostics::Diagnostic,
    span::{SourceFile, Span},
};
use std::sync::Arc;

/// Whether all places of a finding in a file lie before `end`, or are the file as a whole.
pub(super) fn stays(finding: &Diagnostic, file: &Arc<SourceFile>, end: usize) -> bool {
    let stays =
        |span: &Span| !Arc::ptr_eq(span.file(), file) || span.range().is_none_or(|range| range.end <= end);
    let edits = finding.fix.iter().flat_map(|fix| &fix.edits).map(|edit| &edit.span);
    let related = finding.related.iter().map(|related| &related.span);
    finding.span.iter().chain(related).chain(edits).all(stays)
}

/// Moves the places of a finding in a file to the same bytes of its new text.
pub(super) fn moved(finding: &mut Diagnostic, old: &Arc<SourceFile>, new: &Arc<SourceFile>) {
    let edits = finding.fix.iter_mut().flat_map(|fix| &mut fix.edits).map(|edit| &mut edit.span);
    let related = finding.related.iter_mut().map(|related| &mut related.span);
    for span in finding.span.iter_mut().chain(related).chain(edits) {
        if Arc::ptr_eq(span.file(), old) {
            *span = match span.range() {
                Some(range) => Span::new(new, range),
                None => Span::whole(new),
            };
        }
    }
}
