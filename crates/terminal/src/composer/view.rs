//! The draft as live rows.

use super::Composer;
use crate::{
    screen::{Caret, Live, Size},
    style::Line,
    width::{Ambiguous, cells},
};
use anstyle::{AnsiColor, Effects, Style};
use unicode_segmentation::UnicodeSegmentation as _;

/// Before the first row of the draft, and before the others.
const PROMPT: &str = "> ";
const FURTHER: &str = "  ";
/// A narrower terminal has no room for a prompt.
const NARROW: usize = 8;
const DIM: Style = Style::new().effects(Effects::DIMMED);
const SELECTED: Style = Style::new().effects(Effects::INVERT);
const PROMPTED: Style = AnsiColor::Cyan.on_default().effects(Effects::BOLD);

impl Composer {
    /// The composer as live rows: what can be completed, and below it the draft around the caret, in at most so many rows.
    pub fn view(&self, size: Size, ambiguous: Ambiguous, most: usize) -> Live {
        let columns = size.live_columns();
        let mut rows = Vec::new();
        if let Some(menu) = &self.menu {
            let room = most.saturating_sub(1).min(size.rows().saturating_sub(1));
            for (candidate, selected) in menu.shown().take(room) {
                let mut row = Line::styled(&candidate.text, if selected { SELECTED } else { Style::new() });
                if !candidate.note.is_empty() {
                    row.push("  ", Style::new());
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

/// A text with a caret as rows behind a prompt. Of a long text, the rows around the caret are shown.
pub(crate) fn draft_rows(
    text: &str,
    caret: usize,
    prompt: Line,
    further: &str,
    columns: usize,
    ambiguous: Ambiguous,
    most: usize,
) -> Live {
    let indent = ambiguous.width(further);
    let mut rows = vec![prompt];
    let mut column = rows[0].width(ambiguous);
    if column >= columns {
        rows = vec![Line::new()];
        column = 0;
    }
    let mut place = Caret::default();
    let open = |rows: &mut Vec<Line>| {
        rows.push(Line::plain(further));
        indent
    };
    for (at, grapheme) in text.grapheme_indices(true) {
        if matches!(grapheme, "\n" | "\r\n") {
            if at == caret {
                place = Caret { row: rows.len() - 1, column };
            }
            column = open(&mut rows);
            continue;
        }
        let shown = if grapheme == "\t" { "    ".into() } else { llm_do_visible::words(grapheme) };
        let width: usize = cells(&shown, ambiguous).map(|(_, width)| width).sum();
        if column + width > columns && column > indent {
            column = open(&mut rows);
        }
        if at == caret {
            place = Caret { row: rows.len() - 1, column };
        }
        if let Some(row) = rows.last_mut() {
            row.push(&shown, Style::new());
        }
        column += width;
    }
    if caret >= text.len() {
        if column >= columns && column > indent {
            column = open(&mut rows);
        }
        place = Caret { row: rows.len() - 1, column };
    }
    // The end, unless the caret stands above it.
    let first = rows.len().saturating_sub(most).min(place.row);
    let shown = rows.drain(first..).take(most).collect();
    Live { rows: shown, caret: Some(Caret { row: place.row - first, ..place }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, caret: usize, columns: usize, most: usize) -> (Vec<String>, Caret) {
        let live = draft_rows(text, caret, Line::plain(PROMPT), FURTHER, columns, Ambiguous::Narrow, most);
        let rows = live.rows.iter().map(|row| row.text().into_owned()).collect();
        (rows, live.caret.expect("a draft has a caret"))
    }

    #[test]
    fn the_caret_stands_where_the_next_character_goes() {
        let at = |row, column| Caret { row, column };
        assert_eq!(shown("", 0, 10, 5), (vec!["> ".into()], at(0, 2)));
        assert_eq!(shown("水e\u{301}x", 3, 10, 5), (vec!["> 水e\u{301}x".into()], at(0, 4)));
        assert_eq!(shown("ab\ncd", 3, 10, 5), (vec!["> ab".into(), "  cd".into()], at(1, 2)));
        assert_eq!(shown("abcd", 4, 6, 5), (vec!["> abcd".into(), "  ".into()], at(1, 2)));
        assert_eq!(shown("abc水", 6, 6, 5), (vec!["> abc".into(), "  水".into()], at(1, 4)));
        assert_eq!(shown("a\x1b[2J", 1, 20, 5), (vec!["> a\\x1b[2J".into()], at(0, 3)));
    }

    #[test]
    fn of_a_long_draft_the_rows_around_the_caret_are_shown() {
        assert_eq!(shown("a\nb\nc\nd", 7, 10, 2).0, ["  c", "  d"]);
        assert_eq!(shown("a\nb\nc\nd", 0, 10, 2).0, ["> a", "  b"]);
    }
}
