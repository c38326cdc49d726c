//! A live row as the cells of the terminal.

use super::Settings;
use crate::{
    style::{Columns, Line, row_cells},
    width::is_uncertain,
};
use anstyle::Style;
use std::{ops::Range, sync::Arc};

/// The text in place of a character that is wider than the row.
const TOO_WIDE: &str = "?";

/// A column of a row. The second column of a wide character is a cell without text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: Box<str>,
    pub(super) style: Style,
    pub(super) link: Option<Arc<str>>,
    /// True if terminals differ in the number of columns that the character takes.
    pub(super) uncertain: bool,
    columns: usize,
}

impl Cell {
    /// Returns the columns by which writing the cell moves the cursor: none for the second column of a wide character.
    pub(super) fn width(&self) -> usize {
        self.columns
    }
}

/// A row of the terminal, drawn or to be drawn, with one cell for each column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    cells: Vec<Cell>,
}

impl Row {
    /// Returns the beginning of a line, in at most `limit` columns.
    pub(super) fn new(line: &Line, limit: usize, settings: Settings) -> Self {
        let mut cells: Vec<Cell> = Vec::new();
        'line: for span in line.spans() {
            let link = span.shared_link();
            let cell = |text: &str, columns| Cell {
                text: text.into(),
                style: span.style(),
                link: link.clone(),
                uncertain: is_uncertain(text),
                columns,
            };
            for (text, columns) in row_cells(span.text(), settings.ambiguous) {
                let room = limit - cells.len();
                match columns {
                    Columns::Tab => {
                        let spaces = columns.columns(cells.len()).min(room);
                        cells.extend((0..spaces).map(|_| cell(" ", 1)));
                    }
                    Columns::Fixed(width) if width > limit => cells.push(cell(TOO_WIDE, 1)),
                    Columns::Fixed(width) if width > room => break 'line,
                    Columns::Fixed(width) => {
                        cells.push(cell(&text, width));
                        cells.extend((1..width).map(|_| cell("", 0)));
                    }
                }
                if cells.len() >= limit {
                    break 'line;
                }
            }
        }
        Self { cells }
    }

    /// Returns the cells.
    pub(super) fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Returns the columns that have to be written over `old`. Columns of `old` beyond the end of this row are not
    /// among them.
    pub(super) fn changes(&self, old: &Self) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let mut column = 0;
        while column < self.cells.len() {
            // From the beginning of a character to where both rows begin another.
            let start = column;
            column += 1;
            while self.is_inside(column) || old.is_inside(column) {
                column += 1;
            }
            let end = column.min(self.cells.len());
            let same = old.cells.get(start..column) == self.cells.get(start..column);
            if same {
                continue;
            }
            match runs.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => runs.push(start..end),
            }
        }
        runs
    }

    /// Returns true if a column is the second one of a wide character.
    fn is_inside(&self, column: usize) -> bool {
        self.cells.get(column).is_some_and(|cell| cell.columns == 0)
    }

    /// Returns the number of rows that this row takes on a terminal with this many columns. A terminal leaves out
    /// spaces at the end of a row.
    pub(super) fn rows(&self, columns: usize) -> usize {
        self.row_of(self.used(), columns) + 1
    }

    /// Returns the row, counted from zero, in which a terminal of this many columns puts a cursor that was in this
    /// column.
    ///
    /// Terminals agree if there is a character in that column and all characters are narrow. If the cursor is behind
    /// the last character of a full row, some terminals put it into the next row. Some don't count the column that
    /// stays free if a wide character does not fit. Of two possible rows this is the upper one: with the lower one,
    /// text above the live rows could be erased.
    pub(super) fn row_of_cursor(&self, column: usize, columns: usize) -> usize {
        self.row_of(column, columns).min(column / columns)
    }

    /// Returns the row of the character in a column, or of the last one.
    fn row_of(&self, column: usize, columns: usize) -> usize {
        let (mut row, mut taken) = (0, 0);
        for cell in self.cells[..self.used()].iter().take(column + 1) {
            // The second column of a character goes with the first, also where there is no room for it.
            if taken > 0 && cell.columns > 0 && taken + cell.columns > columns {
                row += 1;
                taken = 0;
            }
            taken += cell.columns;
        }
        row
    }

    /// Columns up to the last one that is not blank.
    fn used(&self) -> usize {
        self.cells.iter().rposition(|cell| &*cell.text != " ").map_or(0, |last| last + 1)
    }
}
