//! The screen: a transcript that scrolls away and is never touched again, and below it a few live rows.
//!
//! Transcript lines are written whole and left to the terminal to wrap, so that they can be copied, searched and reflowed
//! as the terminal does it. Only the live rows are ever redrawn. The screen knows where they begin by counting from the
//! cursor, so three things must hold: a live row never fills the width, every live row begins with a line break of its
//! own, and after a resize the rows are counted as the terminal counts them now ([`Reflow`]).

mod cells;
mod pen;

use crate::{
    osc::{Notice, Sequence},
    style::Line,
    width::Ambiguous,
};
use cells::Row;
use pen::Pen;
use std::io::{self, Write};

/// Number of bytes that are collected before a write.
const PIECE: usize = 32 * 1024;

const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";
const HIDE: &str = "\x1b[?25l";
const SHOW: &str = "\x1b[?25h";
const ERASE_BELOW: &str = "\x1b[J";
const ERASE_RIGHT: &str = "\x1b[K";

/// Columns and rows of a terminal, at least one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    columns: usize,
    rows: usize,
}

impl Size {
    /// Returns a size. Zero counts as one.
    pub fn new(columns: usize, rows: usize) -> Self {
        Self { columns: columns.max(1), rows: rows.max(1) }
    }
    /// Returns the number of columns.
    pub fn columns(self) -> usize {
        self.columns
    }
    /// Returns the number of rows.
    pub fn rows(self) -> usize {
        self.rows
    }
    /// Returns the most columns that a live row takes. The last column stays free, because terminals differ in their
    /// behaviour after a character in it.
    pub fn live_columns(self) -> usize {
        (self.columns - 1).max(1)
    }
}

/// The behaviour of a terminal for the rows on it when its width changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reflow {
    /// The terminal wraps long rows again, as most terminals do.
    #[default]
    Wraps,
    /// The terminal cuts rows off: xterm, the console of Linux.
    Cuts,
}

/// Settings that do not change while a terminal is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Write colours and other styles.
    pub colour: bool,
    /// Write links (OSC 8).
    pub links: bool,
    /// The behaviour for rows on a resize.
    pub reflow: Reflow,
    /// Columns of ambiguous characters.
    pub ambiguous: Ambiguous,
    /// The sequence that notifies the user.
    pub notice: Notice,
}

/// The live rows, from the top, and the caret in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// The rows. A row wider than [`Size::live_columns`] is cut.
    pub rows: Vec<Line>,
    /// Position of the hardware cursor. Without a caret it is hidden.
    pub caret: Option<Caret>,
}

/// A place in the live rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caret {
    /// Row, counted from the first live row.
    pub row: usize,
    /// Column, counted from zero.
    pub column: usize,
}

/// A transcript with live rows below it, on a terminal of which the size is known.
#[derive(Debug)]
pub struct Screen<W> {
    out: W,
    buffer: Vec<u8>,
    size: Size,
    settings: Settings,
    /// The live rows that the caller wants.
    live: Live,
    /// The rows on the terminal.
    drawn: Vec<Row>,
    /// The hardware cursor, counted from the first row that is drawn.
    at: Caret,
    /// True if the terminal shows the cursor.
    cursor_shown: bool,
    /// True if something else uses the terminal, after [`Screen::leave`].
    left: bool,
}

impl<W: Write> Screen<W> {
    /// Returns a screen on a terminal whose cursor is in the first column of an empty row. Writes nothing yet.
    pub fn new(out: W, size: Size, settings: Settings) -> Self {
        Self {
            out,
            buffer: Vec::new(),
            size,
            settings,
            live: Live::default(),
            drawn: Vec::new(),
            at: Caret::default(),
            cursor_shown: true,
            left: false,
        }
    }

    /// Returns the size that the screen draws for.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Returns the settings.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Writes lines to the end of the transcript. The live rows move below them.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn append(&mut self, lines: &[Line]) -> io::Result<()> {
        let live = self.live.clone();
        self.update(lines, live)
    }

    /// Draws the live rows. Only cells that differ are written.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn live(&mut self, rows: Vec<Line>, caret: Option<Caret>) -> io::Result<()> {
        self.update(&[], Live { rows, caret })
    }

    /// Writes lines to the end of the transcript and draws live rows, in one step that a reader sees as one.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn update(&mut self, lines: &[Line], live: Live) -> io::Result<()> {
        self.live = live;
        if self.left {
            for line in lines {
                self.line(line)?;
            }
            return self.flush();
        }
        let (rows, caret) = self.layout();
        if lines.is_empty() && rows == self.drawn && self.is_at(caret) {
            return Ok(());
        }
        self.begin();
        if !lines.is_empty() {
            self.erase(self.at.row);
            for line in lines {
                self.line(line)?;
            }
        }
        self.draw(rows, caret);
        self.flush()
    }

    /// Informs the screen that the terminal has another size now. Erases the live rows, however the terminal has
    /// rearranged them, and draws them again. The transcript is left to the terminal.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn resize(&mut self, size: Size) -> io::Result<()> {
        if size == self.size {
            return Ok(());
        }
        let above = self.rows_above(size.columns);
        let fits = self.drawn_rows(size.columns) <= size.rows.min(self.size.rows);
        self.size = size;
        if self.left || (self.drawn.is_empty() && self.live.rows.is_empty()) {
            return Ok(());
        }
        self.begin();
        self.erase(above);
        if !fits {
            // The first live row may have left the screen, where it can't be erased. If it wraps into the row that the cursor
            // is in now, a line that is written there would join it.
            self.text("\r\n");
        }
        let (rows, caret) = self.layout();
        self.draw(rows, caret);
        self.flush()
    }

    /// Removes the live rows, so that another program can use the terminal. The cursor is in the first column below the
    /// transcript. Lines that are appended before [`Screen::enter`] are written without live rows.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn leave(&mut self) -> io::Result<()> {
        if self.left {
            return Ok(());
        }
        self.left = true;
        self.begin();
        self.erase(self.at.row);
        self.show_cursor(true);
        self.text(END);
        self.flush()
    }

    /// Draws the live rows again after [`Screen::leave`]. The cursor must be in the first column of an empty row.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn enter(&mut self) -> io::Result<()> {
        self.left = false;
        let (rows, caret) = self.layout();
        self.begin();
        self.draw(rows, caret);
        self.flush()
    }

    /// Writes the live rows again, wherever other programs have left the cursor. Their text stays above.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn redraw(&mut self) -> io::Result<()> {
        self.drawn.clear();
        self.at = Caret::default();
        self.cursor_shown = true;
        self.buffer.extend_from_slice(b"\r");
        self.enter()
    }

    /// Writes a control sequence that shows nothing and moves nothing, such as a title ([`Sequence::title`]).
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn control(&mut self, sequence: &Sequence) -> io::Result<()> {
        self.text(sequence.as_str());
        self.flush()
    }

    /// Returns the writer.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// Returns the wanted rows that fit: the last ones, unless the caret is above them.
    fn layout(&self) -> (Vec<Row>, Option<Caret>) {
        let limit = self.size.live_columns();
        let total = self.live.rows.len();
        let caret = self.live.caret.filter(|caret| caret.row < total);
        let last = total.saturating_sub(self.size.rows);
        let first = caret.map_or(last, |caret| last.min(caret.row));
        let end = total.min(first + self.size.rows);
        let rows =
            self.live.rows[first..end].iter().map(|line| Row::new(line, limit, self.settings)).collect();
        let caret = caret.map(|caret| Caret { row: caret.row - first, column: caret.column.min(limit) });
        // In a terminal of one column the caret can't stand behind a character.
        (rows, caret.map(|caret| Caret { column: caret.column.min(self.size.columns - 1), ..caret }))
    }

    fn is_at(&self, caret: Option<Caret>) -> bool {
        match caret {
            Some(caret) => self.cursor_shown && self.at == caret,
            None => !self.cursor_shown || self.drawn.is_empty(),
        }
    }

    /// Rows from the first live row down to the cursor on a terminal that now has this many columns.
    fn rows_above(&self, columns: usize) -> usize {
        if self.settings.reflow == Reflow::Cuts {
            return self.at.row;
        }
        let above: usize = self.drawn.iter().take(self.at.row).map(|row| row.rows(columns)).sum();
        let within = self.drawn.get(self.at.row).map_or(0, |row| row.row_of_cursor(self.at.column, columns));
        above + within
    }

    /// Rows that the live rows take on a terminal that now has this many columns.
    fn drawn_rows(&self, columns: usize) -> usize {
        match self.settings.reflow {
            Reflow::Cuts => self.drawn.len(),
            Reflow::Wraps => self.drawn.iter().map(|row| row.rows(columns)).sum(),
        }
    }

    fn begin(&mut self) {
        self.text(BEGIN);
        self.show_cursor(false);
    }

    fn show_cursor(&mut self, shown: bool) {
        if shown != self.cursor_shown {
            self.text(if shown { SHOW } else { HIDE });
            self.cursor_shown = shown;
        }
    }

    /// Goes up to the first live row and erases from there.
    fn erase(&mut self, above: usize) {
        if above > 0 {
            self.text(&format!("\x1b[{above}A"));
        }
        self.text("\r");
        if !self.drawn.is_empty() {
            self.text(ERASE_BELOW);
        }
        self.drawn.clear();
        self.at = Caret::default();
    }

    /// Writes a line of the transcript, the cursor being in the first column.
    fn line(&mut self, line: &Line) -> io::Result<()> {
        let mut pen = Pen::new(self.settings);
        for span in line.spans() {
            pen.set(&mut self.buffer, span.style(), span.link());
            // In pieces, so that a long line does not need its size a second time.
            for piece in span.text().as_bytes().chunks(PIECE) {
                self.buffer.extend_from_slice(piece);
                if self.buffer.len() >= PIECE {
                    self.out.write_all(&self.buffer)?;
                    self.buffer.clear();
                }
            }
        }
        pen.end(&mut self.buffer);
        self.text("\r\n");
        Ok(())
    }

    /// Makes the drawn rows the wanted ones, and puts the cursor on the caret.
    fn draw(&mut self, rows: Vec<Row>, caret: Option<Caret>) {
        let mut pen = Pen::new(self.settings);
        let common = rows.len().min(self.drawn.len());
        for (number, row) in rows.iter().enumerate() {
            let old = if number < common { std::mem::take(&mut self.drawn[number]) } else { Row::default() };
            if number >= common && number > 0 {
                self.open_row(number);
            }
            for run in row.changes(&old) {
                self.go(number, run.start);
                for cell in &row.cells()[run.clone()] {
                    pen.set(&mut self.buffer, cell.style, cell.link.as_deref());
                    self.buffer.extend_from_slice(cell.text.as_bytes());
                    self.at.column += cell.width();
                    if cell.uncertain {
                        // Terminals differ in its width.
                        self.buffer.extend_from_slice(format!("\x1b[{}G", self.at.column + 1).as_bytes());
                    }
                }
            }
            if row.cells().len() < old.cells().len() {
                pen.end(&mut self.buffer);
                self.go(number, row.cells().len());
                self.text(ERASE_RIGHT);
            }
        }
        pen.end(&mut self.buffer);
        if self.drawn.len() > rows.len() {
            self.go(rows.len(), 0);
            self.text(ERASE_BELOW);
        }
        self.drawn = rows;
        match caret {
            Some(caret) => {
                self.go(caret.row, caret.column);
                self.show_cursor(true);
            }
            // Where nothing is drawn the cursor belongs to the transcript.
            None if self.drawn.is_empty() => {
                self.go(0, 0);
                self.show_cursor(true);
            }
            None => {}
        }
        self.text(END);
    }

    /// Begins a row below the last one, scrolling where the terminal ends.
    fn open_row(&mut self, number: usize) {
        self.go(number - 1, self.at.column);
        self.text("\r\n");
        self.at = Caret { row: number, column: 0 };
    }

    fn go(&mut self, row: usize, column: usize) {
        let to = match row.cmp(&self.at.row) {
            std::cmp::Ordering::Less => format!("\x1b[{}A", self.at.row - row),
            std::cmp::Ordering::Greater => format!("\x1b[{}B", row - self.at.row),
            std::cmp::Ordering::Equal => String::new(),
        };
        self.text(&to);
        if column == 0 && self.at.column != 0 {
            self.text("\r");
        } else if column != self.at.column {
            self.text(&format!("\x1b[{}G", column + 1));
        }
        self.at = Caret { row, column };
    }

    fn text(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.buffer).and_then(|()| self.out.flush());
        self.buffer.clear();
        written
    }
}
