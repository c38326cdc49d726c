//! Tables: columns side by side, or, if these are wider than the terminal, one line for each cell.

use crate::line::{self, Span};
use anstyle::Style;
use pulldown_cmark::Alignment;

/// Columns between two cells.
const GAP: usize = 2;

/// A table whose cells are being collected.
pub(crate) struct Table {
    alignments: Vec<Alignment>,
    /// The head and the rows after it.
    rows: Vec<Vec<Vec<Span>>>,
    row: Vec<Vec<Span>>,
}

impl Table {
    /// Makes a table without rows. One alignment for each column.
    pub(crate) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new(), row: Vec::new() }
    }

    /// Adds the next cell of the row, safe to print.
    pub(crate) fn push_cell(&mut self, mut cell: Vec<Span>) {
        line::trim_end(&mut cell);
        self.row.push(cell);
    }

    /// Completes the row.
    pub(crate) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    /// Returns the lines, for that many columns of a terminal.
    pub(crate) fn lines(self, room: usize) -> Vec<Vec<Span>> {
        let mut widths = vec![1; self.alignments.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = line::width(cell).max(*width);
            }
        }
        let total = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        if total <= room { self.grid(&widths) } else { self.records() }
    }

    fn grid(&self, widths: &[usize]) -> Vec<Vec<Span>> {
        let mut lines = Vec::with_capacity(self.rows.len() + 1);
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = Vec::new();
            for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
                let free = width - line::width(cell);
                let before = match self.alignments[column] {
                    Alignment::Right => free,
                    Alignment::Center => free / 2,
                    Alignment::Left | Alignment::None => 0,
                };
                let gap = if column == 0 { 0 } else { GAP };
                spaces(&mut line, gap + before);
                line.extend(cell.iter().cloned());
                spaces(&mut line, free - before);
            }
            lines.push(line);
            if number == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                let text = rules.join(&" ".repeat(GAP));
                lines.push(vec![Span { text, style: Style::new().dimmed(), link: None }]);
            }
        }
        lines
    }

    /// Returns `name: value` for each cell, with a blank line after each row. Empty cells are left out.
    fn records(&self) -> Vec<Vec<Span>> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let mut lines = Vec::new();
        // Without rows, the names alone.
        for name in head.iter().filter(|_| rows.is_empty()) {
            lines.push(name.clone());
        }
        for (number, row) in rows.iter().enumerate() {
            if number > 0 {
                lines.push(Vec::new());
            }
            for (name, cell) in head.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
                let mut line = name.clone();
                if !line.is_empty() {
                    line::append(&mut line, ": ", Style::new().bold(), None);
                }
                line.extend(cell.iter().cloned());
                lines.push(line);
            }
        }
        lines
    }
}

fn spaces(line: &mut Vec<Span>, count: usize) {
    line::append(line, &" ".repeat(count), Style::new(), None);
}
