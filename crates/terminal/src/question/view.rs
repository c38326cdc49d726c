//! A question as live rows: its text behind a bar, so that none of it can be taken for the composer or for its keys.

use super::{
    Asking, Field, FieldKind, Kind,
    entry::{Stage, Value, options_of},
};
use crate::{
    composer::draft_rows,
    screen::{Caret, Live},
    style::Line,
    width::Ambiguous,
};
use anstyle::{AnsiColor, Effects, Style};

/// The bar before the first row of a line. The other rows have another bar.
const FIRST: &str = "│ ";
const FURTHER: &str = "┆ ";
const BAR: usize = 2;
/// The most rows of an entry that are shown at once.
const ENTRY: usize = 5;

const PLAIN: Style = Style::new();
const DIM: Style = Style::new().effects(Effects::DIMMED);
const SELECTED: Style = Style::new().effects(Effects::INVERT);
const NOTICE: Style = AnsiColor::Yellow.on_default();
const KEY: Style = Style::new().effects(Effects::BOLD);

impl Asking {
    /// Returns the question in at most `most` rows, and the caret if it has the focus. The row that says how to answer
    /// always stays visible.
    pub(crate) fn view(&self, columns: usize, ambiguous: Ambiguous, most: usize) -> Live {
        let mut answer = self.answer_rows(columns, ambiguous);
        // In a small window, what is asked goes before keys that do not answer yet.
        if !self.is_focused() && answer.rows.len() * 2 > most {
            answer = Live { rows: vec![Line::styled(&format!("({})", self.hint()), DIM)], caret: None };
        }
        if let Some(problem) = &self.problem {
            let rows = behind_bar(&Line::styled(problem, NOTICE), columns, ambiguous);
            shift(&mut answer, rows);
        }
        let mut text: Vec<Line> =
            self.question.text.iter().flat_map(|line| behind_bar(line, columns, ambiguous)).collect();
        let room = most.saturating_sub(answer.rows.len());
        if text.len() > room {
            let left = text.len() + 1 - room.max(1);
            text.truncate(room.saturating_sub(1));
            if room > 0 {
                text.push(Line::styled(&format!("{FURTHER}… {left} more rows"), NOTICE));
            }
        }
        shift(&mut answer, text);
        answer
    }

    fn answer_rows(&self, columns: usize, ambiguous: Ambiguous) -> Live {
        let hint = self.hint();
        let entry = |label: &str, draft: &crate::composer::Draft| {
            let label = Line::styled(&format!("{label}: "), KEY);
            // What is edited may be text of others: its further rows stand behind the bar as well.
            draft_rows(draft.text(), draft.caret(), label, FURTHER, columns, ambiguous, ENTRY)
        };
        let mut live = match (&self.stage, &self.question.kind) {
            (Stage::Key, Kind::Keys(choices)) => {
                let (key, label) = if self.is_focused() { (KEY, PLAIN) } else { (DIM, DIM) };
                let choices = choices.iter().map(|choice| {
                    Line::styled(&format!("[{}]", choice.key), key).with(&format!(" {}", choice.label), label)
                });
                let hint = Line::styled(&format!("({hint})"), DIM);
                let rows = rows_of(choices.chain([hint]), columns, ambiguous);
                let caret = Caret { row: rows.len() - 1, column: rows[rows.len() - 1].width(ambiguous) };
                return Live { rows, caret: self.is_focused().then_some(caret) };
            }
            (Stage::KeyText(key, draft), Kind::Keys(choices)) => {
                let choice = choices.iter().find(|choice| choice.key == *key);
                let label = choice.and_then(|choice| choice.text.as_ref()).map(|text| text.label.as_str());
                entry(label.unwrap_or("text"), draft)
            }
            (Stage::KeyPick(key, selected), kind) => {
                pick_rows(options_of(kind, *key), *selected, columns, ambiguous)
            }
            (Stage::Text(draft), _) => entry("answer", draft),
            (Stage::Pick(selected), Kind::Pick(options)) => pick_rows(options, *selected, columns, ambiguous),
            (Stage::Form(values, at), Kind::Form(fields)) => {
                form_rows(fields, values, *at, columns, ambiguous)
            }
            _ => Live::default(),
        };
        live.rows.push(Line::styled(&format!("({hint})"), DIM));
        if !self.is_focused() {
            live.caret = None;
        }
        live
    }
}

/// Puts short texts side by side, as many as fit into a row.
fn rows_of(texts: impl Iterator<Item = Line>, columns: usize, ambiguous: Ambiguous) -> Vec<Line> {
    const GAP: &str = "  ";
    let mut rows: Vec<Line> = Vec::new();
    for text in texts {
        match rows.last_mut() {
            Some(row) if row.width(ambiguous) + GAP.len() + text.width(ambiguous) <= columns => {
                row.push(GAP, PLAIN);
                row.extend(text);
            }
            _ => rows.extend(text.wrapped(columns, ambiguous)),
        }
    }
    rows
}

/// Puts rows above the live rows.
fn shift(live: &mut Live, mut above: Vec<Line>) {
    let count = above.len();
    above.append(&mut live.rows);
    live.rows = above;
    live.caret = live.caret.map(|caret| Caret { row: caret.row + count, ..caret });
}

fn behind_bar(line: &Line, columns: usize, ambiguous: Ambiguous) -> Vec<Line> {
    let rows = line.wrapped(columns.saturating_sub(BAR), ambiguous);
    rows.into_iter()
        .enumerate()
        .map(|(number, row)| {
            let mut barred = Line::styled(if number == 0 { FIRST } else { FURTHER }, DIM);
            barred.extend(row);
            barred
        })
        .collect()
}

/// Returns rows with the options around the selected one, which is wrapped so that all of it can be read. The others
/// are cut if they are too wide.
fn pick_rows(options: &[String], selected: usize, columns: usize, ambiguous: Ambiguous) -> Live {
    let first = (selected + 1).saturating_sub(ENTRY);
    let mut rows = Vec::new();
    for (number, option) in options.iter().enumerate().skip(first).take(ENTRY) {
        let (mark, style) = if number == selected { ("* ", SELECTED) } else { ("  ", PLAIN) };
        let row = Line::plain(mark).with(&format!("{} {option}", number + 1), style);
        match number == selected {
            true => rows.extend(row.wrapped(columns, ambiguous)),
            false => rows.push(row),
        }
    }
    Live { rows, caret: Some(Caret { row: selected - first, column: 0 }) }
}

fn form_rows(fields: &[Field], values: &[Value], at: usize, columns: usize, ambiguous: Ambiguous) -> Live {
    let mut live = Live::default();
    let first = (at + 1).saturating_sub(ENTRY);
    for (number, (field, value)) in fields.iter().zip(values).enumerate().skip(first).take(ENTRY) {
        let star = if field.required { "*" } else { "" };
        let label = Line::styled(&format!("{}{star}: ", field.name), if number == at { KEY } else { DIM });
        let top = live.rows.len();
        let (mut rows, caret) = match (value, &field.kind) {
            (Value::Text(draft), _) => {
                let rows = if number == at { 2 } else { 1 };
                let entry = draft_rows(draft.text(), draft.caret(), label, "  ", columns, ambiguous, rows);
                (entry.rows, entry.caret)
            }
            (Value::Pick(selected), FieldKind::Pick(options)) => {
                let mut row = label;
                let column = row.width(ambiguous).min(columns);
                for (option, name) in options.iter().enumerate() {
                    if Some(option) == *selected {
                        row.push(&format!("[{name}] "), SELECTED);
                    } else {
                        row.push(&format!(" {name}  "), PLAIN);
                    }
                }
                (row.wrapped(columns, ambiguous), Some(Caret { row: 0, column }))
            }
            (Value::Pick(_), FieldKind::Text) => (vec![label], None),
        };
        if number == at && !field.note.is_empty() {
            rows.push(Line::styled(&format!("  {}", field.note), DIM));
        }
        if number == at {
            live.caret = caret.map(|caret| Caret { row: caret.row + top, ..caret });
        }
        live.rows.append(&mut rows);
    }
    live
}
