//! Text that others wrote, made safe to look at: nothing in it can move the cursor, hide, or reorder what is shown.

use std::{borrow::Cow, fmt::Write as _};

/// Characters that a screen does not show, or that change the order in which others are shown.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text with each hidden character as an escape (`\x1b`, `\u{202e}`); newlines and tabs stay.
pub fn text(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_hidden(c) && c != '\n' && c != '\t')
}

/// The text on one line: newlines and tabs are escaped too.
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, is_hidden)
}

/// The text of a model's answer for a screen. Emoji and scripts that need joiners are left whole: only what could move
/// the cursor or reorder text is escaped.
pub fn prose(text: &str) -> Cow<'_, str> {
    escape(text, |c| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    })
}

fn escape(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(&hidden) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 8);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        match c {
            c if !hidden(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Writing to a `String` does not fail.
            c if u32::from(c) < 0x100 => _ = write!(out, "\\x{:02x}", u32::from(c)),
            c => _ = write!(out, "\\u{{{:x}}}", u32::from(c)),
        }
    }
    Cow::Owned(out)
}

/// The beginning of a text, at most `max` characters, with `…` where more follows.
pub fn start(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max) {
        None => Cow::Borrowed(text),
        Some((cut, _)) => Cow::Owned(format!("{}…", &text[..cut])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_can_move_the_cursor_or_hide() {
        assert_eq!(text("a\x1b[2Jb\rc"), "a\\x1b[2Jb\\rc");
        assert_eq!(text("rm \u{202e}txt.\u{200b}exe"), "rm \\u{202e}txt.\\u{200b}exe");
        assert_eq!(text("\u{9b}31m"), "\\x9b31m");
        assert_eq!(text("two\n\tlines"), "two\n\tlines");
        assert_eq!(line("two\nlines"), "two\\nlines");
        assert_eq!(text("tag \u{e0041}"), "tag \\u{e0041}");
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for ordinary in ["größe 水 🙂", "père", ""] {
            assert!(matches!(text(ordinary), Cow::Borrowed(same) if same == ordinary));
        }
        assert_eq!(prose("👩\u{200d}🔬 ❤\u{fe0f}"), "👩\u{200d}🔬 ❤\u{fe0f}");
        assert_eq!(prose("a\x1b]0;title\x07"), "a\\x1b]0;title\\x07");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(start("äöü", 2), "äö…");
        assert_eq!(start("äöü", 3), "äöü");
    }
}
