//! The draft as live rows.

use super::Composer;
use crate::{
    screen::{Caret, Live, Size},
    style::Line,
    width::{Ambiguous, cells},
};
use anstyle::{AnsiColor, Effects, Style};
use std::{borrow::Cow, ops::Range};
use unicode_segmentation::UnicodeSegmentation as _;

/// Prompt before the first row of the draft. The other rows are indented by as much.
const PROMPT: &str = "> ";
const FURTHER: &str = "  ";
/// Columns of the narrowest terminal with room for a prompt.
const NARROW: usize = 8;
/// Columns of a candidate, behind which its note begins.
const WIDEST: usize = 24;
const DIM: Style = Style::new().effects(Effects::DIMMED);
const SELECTED: Style = Style::new().effects(Effects::INVERT);
const PROMPTED: Style = AnsiColor::Cyan.on_default().effects(Effects::BOLD);

impl Composer {
    /// Returns the composer as live rows: the candidates, and below them the draft around the caret, in at most `most`
    /// rows.
    pub fn view(&self, size: Size, ambiguous: Ambiguous, most: usize) -> Live {
        let columns = size.live_columns();
        let mut rows = Vec::new();
        if let Some(menu) = &self.menu {
            let room = most.saturating_sub(1).min(size.rows().saturating_sub(1));
            let names =
                menu.shown().take(room).map(|(candidate, _)| ambiguous.width(candidate.text.trim_end()));
            let widest = names.max().unwrap_or(0).min(WIDEST);
            for (candidate, selected) in menu.shown().take(room) {
                // The mark, for terminals without styles.
                let (mark, style) = if selected { ("* ", SELECTED) } else { ("  ", Style::new()) };
                let name = candidate.text.trim_end();
                let mut row = Line::plain(mark).with(name, style);
                if !candidate.note.is_empty() {
                    let gap = widest.saturating_sub(ambiguous.width(name)) + 2;
                    row.push(&" ".repeat(gap), Style::new());
                    row.push(&candidate.note, DIM);
                }
                rows.push(row);
            }
        }
        let (prompt, further) = match &self.search {
            _ if columns < NARROW => (Line::new(), ""),
            Some(search) => (Line::styled(&format!("search {}: ", search.wanted), DIM), FURTHER),
            None if self.vi_is_normal() => (Line::styled("| ", PROMPTED), FURTHER),
            None => (Line::styled(PROMPT, PROMPTED), FURTHER),
        };
        let left = most.saturating_sub(rows.len()).max(1);
        let draft =
            draft_rows(self.draft.text(), self.draft.caret(), prompt, further, columns, ambiguous, left);
        let above = rows.len();
        rows.extend(draft.rows);
        let caret = draft.caret.map(|caret| Caret { row: caret.row + above, ..caret });
        Live { rows, caret }
    }
}

/// Returns a text with a caret as rows behind a prompt. Of a long text, the rows around the caret are shown.
pub(crate) fn draft_rows(
    text: &str,
    caret: usize,
    prompt: Line,
    further: &str,
    columns: usize,
    ambiguous: Ambiguous,
    most: usize,
) -> Live {
    let prompt = if prompt.width(ambiguous) < columns { prompt } else { Line::new() };
    let layout =
        Layout::new(text, caret, prompt.width(ambiguous), ambiguous.width(further), columns, ambiguous);
    // The end, unless the caret stands above it.
    let first = layout.rows.len().saturating_sub(most).min(layout.caret.row);
    let rows = layout.rows.iter().enumerate().skip(first).take(most);
    let rows = rows
        .map(|(number, row)| {
            let mut line = if number == 0 { prompt.clone() } else { Line::plain(further) };
            for grapheme in text[row.clone()].graphemes(true) {
                line.push(&shown(grapheme), Style::new());
            }
            line
        })
        .collect();
    Live { rows, caret: Some(Caret { row: layout.caret.row - first, ..layout.caret }) }
}

/// Division of a text into rows. Only rows that are shown become lines.
struct Layout {
    /// The bytes of each row, without line breaks.
    rows: Vec<Range<usize>>,
    caret: Caret,
}

impl Layout {
    fn new(
        text: &str,
        caret: usize,
        prompt: usize,
        indent: usize,
        columns: usize,
        ambiguous: Ambiguous,
    ) -> Self {
        let mut rows = Vec::new();
        let mut place = Caret::default();
        let (mut start, mut column) = (0, prompt);
        for (at, grapheme) in text.grapheme_indices(true) {
            let is_break = matches!(grapheme, "\n" | "\r\n");
            let width = match grapheme.as_bytes() {
                _ if is_break => 0,
                // Nearly all text is, and a draft may be large.
                [b' '..=b'~'] => 1,
                _ => cells(&shown(grapheme), ambiguous).map(|(_, width)| width).sum(),
            };
            if column + width > columns && at > start {
                rows.push(start..at);
                (start, column) = (at, indent);
            }
            if at == caret {
                place = Caret { row: rows.len(), column };
            }
            column += width;
            if is_break {
                rows.push(start..at);
                (start, column) = (at + grapheme.len(), indent);
            }
        }
        if caret >= text.len() {
            // Behind a full row the caret stands in the next one.
            if column >= columns && text.len() > start {
                rows.push(start..text.len());
                (start, column) = (text.len(), indent);
            }
            place = Caret { row: rows.len(), column };
        }
        rows.push(start..text.len());
        Self { rows, caret: place }
    }
}

/// Returns a grapheme of a draft in its shown form.
fn shown(grapheme: &str) -> Cow<'_, str> {
    if grapheme == "\t" { Cow::Borrowed("    ") } else { llm_do_visible::words(grapheme) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, caret: usize, columns: usize, most: usize) -> (Vec<String>, Caret) {
        let live = draft_rows(text, caret, Line::plain(PROMPT), FURTHER, columns, Ambiguous::Narrow, most);
        (
            live.rows.iter().map(|row| row.text().into_owned()).collect(),
            live.caret.expect("a draft has a caret"),
        )
    }

    #[test]
    fn the_caret_stands_where_the_next_character_goes() {
        let at = |row, column| Caret { row, column };
        assert_eq!(rows("", 0, 10, 5), (vec!["> ".into()], at(0, 2)));
        assert_eq!(rows("水e\u{301}x", 3, 10, 5), (vec!["> 水e\u{301}x".into()], at(0, 4)));
        assert_eq!(rows("ab\ncd", 3, 10, 5), (vec!["> ab".into(), "  cd".into()], at(1, 2)));
        assert_eq!(rows("abcd", 4, 6, 5), (vec!["> abcd".into(), "  ".into()], at(1, 2)));
        assert_eq!(rows("abc水", 6, 6, 5), (vec!["> abc".into(), "  水".into()], at(1, 4)));
        assert_eq!(rows("a\x1b[2J", 1, 20, 5), (vec!["> a\\x1b[2J".into()], at(0, 3)));
    }

    #[test]
    fn of_a_long_draft_the_rows_around_the_caret_are_shown() {
        assert_eq!(rows("a\nb\nc\nd", 7, 10, 2).0, ["  c", "  d"]);
        assert_eq!(rows("a\nb\nc\nd", 0, 10, 2).0, ["> a", "  b"]);
    }
}
