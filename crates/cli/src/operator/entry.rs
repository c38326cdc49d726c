//! One line of text, typed at a prompt.

use crate::{
    terminal::{Terminal, Typed},
    visible,
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

/// Reads a line, starting with `text`: Backspace, Ctrl-U and Ctrl-W delete, Enter ends. The terminal gives keys.
pub(super) fn read(terminal: &Terminal, cancelled: &AtomicBool, label: &str, text: &str) -> Entered {
    let mut line = text.to_owned();
    loop {
        // From the start of the prompt's first row to the end of the screen, so that a long line is drawn over itself.
        terminal.show(&format!("\r\x1b[J  {label}{}", visible::line(&line)));
        let typed = match terminal.next(cancelled) {
            Typed::Text(typed) => typed,
            Typed::Other | Typed::End => {
                terminal.show("\n");
                return Entered::Left;
            }
            Typed::Cancelled => return Entered::Cancelled,
        };
        let width = 2 + label.chars().count() + visible::line(&line).chars().count();
        let rows = width.saturating_sub(1) / terminal.columns();
        if rows > 0 {
            terminal.show(&format!("\x1b[{rows}A"));
        }
        for c in typed.chars() {
            match c {
                '\n' | '\r' => {
                    terminal.show(&format!("\r\x1b[J  {label}{}\n", visible::line(&line)));
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
