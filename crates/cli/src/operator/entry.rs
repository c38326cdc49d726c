//! One line of text, typed at a prompt.

use crate::{
    rows::Rows,
    terminal::{Terminal, Typed},
};
use std::sync::atomic::AtomicBool;

/// How an entry ended.
pub(super) enum Entered {
    /// With this line.
    Line(String),
    /// By Escape, or because the terminal is closed.
    Left,
    /// The question is no longer open.
    Cancelled,
}

/// Reads a line, starting with `text`: Backspace, Ctrl-U and Ctrl-W delete, Enter ends. The terminal gives keys. `question`
/// is what is above the line, for a terminal whose width changes.
pub(super) fn read(
    terminal: &Terminal,
    cancelled: &AtomicBool,
    question: &dyn Fn(usize) -> String,
    label: &str,
    text: &str,
) -> Entered {
    let mut line = text.to_owned();
    let mut above = 0;
    loop {
        draw(terminal, label, &line, &mut above);
        let typed = match terminal.next(cancelled) {
            Typed::Text(typed) => typed,
            Typed::Resized => {
                terminal.redraw(question);
                above = 0;
                continue;
            }
            Typed::Other | Typed::End => {
                terminal.show("\n");
                return Entered::Left;
            }
            Typed::Cancelled => return Entered::Cancelled,
        };
        for c in typed.chars() {
            match c {
                '\n' | '\r' => {
                    draw(terminal, label, &line, &mut above);
                    terminal.show("\n");
                    return Entered::Line(line);
                }
                '\u{7f}' | '\u{8}' => _ = line.pop(),
                '\u{15}' => line.clear(),
                '\u{17}' => {
                    let kept = line.trim_end().rfind(char::is_whitespace).map_or(0, |space| space + 1);
                    line.truncate(kept);
                }
                c if c.is_control() => {}
                c => line.push(c),
            }
        }
    }
}

/// Draws the line over itself. `above` counts its rows above the cursor.
fn draw(terminal: &Terminal, label: &str, line: &str, above: &mut usize) {
    let back = if *above > 0 { format!("\x1b[{above}A") } else { String::new() };
    terminal.draw(|columns| {
        let (text, rows) = Rows::entry(label, line, columns);
        *above = rows - 1;
        format!("{back}\r\x1b[J{text}")
    });
}
