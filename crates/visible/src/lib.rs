//! Text that others wrote, made safe to look at: nothing in it can move the cursor, hide, or reorder what is shown.

use std::{borrow::Cow, fmt::Write as _};

/// Characters that a screen does not show, shows as nothing but space, or shows as what a font makes of them, and those that
/// change the order in which others are shown. The space itself is none of them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        // Spaces of other widths, and the line and paragraph separators.
        || (c.is_whitespace() && c != ' ')
        || matches!(c,
            '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            // Blank letters: of Braille, of Hangul, of Khitan, of hieroglyphs, a note without a head.
            | '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{16fe4}' | '\u{13430}'..='\u{1345f}' | '\u{1d159}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
            // Private use, where any picture may be, and code points that are no characters.
            | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}' | '\u{fdd0}'..='\u{fdef}')
        || u32::from(c) & 0xfffe == 0xfffe
}

/// The text with each hidden character as an escape (`\x1b`, `\u{202e}`); newlines and tabs stay.
pub fn text(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_hidden(c) && c != '\n' && c != '\t')
}

/// The text on one line: newlines and tabs are escaped too.
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, is_hidden)
}

/// The text of a model's answer for a screen. Emoji and scripts that need joiners are left whole, and so are spaces of other
/// widths: only characters that could move the cursor, reorder text, or are not seen at all are escaped.
pub fn prose(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| is_harmful(c) || is_joiner(c) || is_selector(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    for c in text.chars() {
        let hidden = if is_joiner(c) {
            // Emoji, Indic scripts and Persian join characters with them. Among ASCII they only hide.
            before.is_ascii() || is_joiner(before)
        } else if is_selector(c) {
            // One for each character. Several in sequence can spell out a hidden text.
            is_selector(before) || is_joiner(before) || (before.is_ascii() && !is_keycap(before))
        } else {
            is_harmful(c)
        };
        if hidden {
            push_escape(&mut out, c);
        } else {
            out.push(c);
        }
        before = c;
    }
    Cow::Owned(out)
}

/// Whether a character does harm in an answer. Private use and blank Braille are left: fonts for terminals and pictures of
/// dots use them.
fn is_harmful(c: char) -> bool {
    let left = c.is_whitespace()
        || is_joiner(c)
        || is_selector(c)
        || matches!(c, '\u{2800}' | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}');
    (c.is_control() && c != '\n' && c != '\t') || reorders(c) || (is_hidden(c) && !left)
}

/// Zero-width joiner and non-joiner.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Selects how the character before it is drawn.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{e0100}'..='\u{e01ef}')
}

/// Whether a character of ASCII is the first of an emoji such as a keycap.
fn is_keycap(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '#' | '*')
}

/// The text of a person or a model on one line, in any language: as [`prose`], and line breaks are escaped.
pub fn words(text: &str) -> Cow<'_, str> {
    match prose(text) {
        Cow::Borrowed(text) => escape(text, |c| c == '\n'),
        Cow::Owned(text) => Cow::Owned(escape(&text, |c| c == '\n').into_owned()),
    }
}

fn escape(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(&hidden) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 8);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        if hidden(c) {
            push_escape(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

fn push_escape(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        // Writing to a `String` does not fail.
        c if u32::from(c) < 0x100 => _ = write!(out, "\\x{:02x}", u32::from(c)),
        c => _ = write!(out, "\\u{{{:x}}}", u32::from(c)),
    }
}

/// Output that a terminal shows: our own colours stay, and nothing else in it can move the cursor, hide or reorder text. What
/// others wrote in it is made visible before, by [`text`] or [`line()`]; this is for what was not.
pub fn output(text: &str) -> Cow<'_, str> {
    let moves = |c: char| c.is_control() && c != '\n' && c != '\t' || reorders(c);
    if !text.contains(moves) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(at) = rest.find(moves) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match colour(rest) {
            Some(taken) => {
                out.push_str(&rest[..taken]);
                taken
            }
            None => {
                let taken = rest.chars().next().map_or(rest.len(), char::len_utf8);
                out.push_str(&escape(&rest[..taken], moves));
                taken
            }
        };
        rest = &rest[taken..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// The length of a sequence that sets a colour, boldness and the like, at the beginning of a text.
pub fn colour(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let codes = &codes[..codes.find('m')?];
    let plain =
        |code: &str| matches!(code.parse(), Ok(0..=4 | 22..=24 | 30..=37 | 39 | 90..=97)) || code.is_empty();
    codes.split(';').all(plain).then(|| 2 + codes.len() + 1)
}

/// Whether a character changes the order in which others are shown.
fn reorders(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// JSON for a terminal. Within its strings each hidden character is an escape of JSON, so that it stays the same JSON.
pub fn json(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c == '\u{7f}' || (!c.is_ascii() && is_hidden(c));
    let Some(first) = text.find(hidden) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 8);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        if hidden(c) {
            // Writing to a `String` does not fail.
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(out, "\\u{unit:04x}"));
        } else {
            out.push(c);
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
        for blank in [
            '\u{85}',
            '\u{a0}',
            '\u{2003}',
            '\u{2028}',
            '\u{2800}',
            '\u{3000}',
            '\u{e000}',
            '\u{1d159}',
            '\u{ffff}',
        ] {
            let shown = line(blank.encode_utf8(&mut [0; 4])).into_owned();
            assert!(shown.is_ascii() && shown.len() > 3, "{blank:?}: {shown}");
        }
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for ordinary in ["größe 水 🙂", "père", ""] {
            assert!(matches!(text(ordinary), Cow::Borrowed(same) if same == ordinary));
        }
        assert_eq!(prose("👩\u{200d}🔬 ❤\u{fe0f}"), "👩\u{200d}🔬 ❤\u{fe0f}");
        for ordinary in
            ["❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3}", "می\u{200c}خواهم", "10\u{a0}%", "葛\u{e0100}"]
        {
            assert_eq!(prose(ordinary), ordinary);
        }
    }

    #[test]
    fn an_answer_hides_nothing() {
        for (written, shown) in [
            ("a\x1b]0;title\x07", "a\\x1b]0;title\\x07"),
            ("a\rb\u{2028}c\u{202e}d", "a\\rb\\u{2028}c\\u{202e}d"),
            ("pay\u{200b}pal", "pay\\u{200b}pal"),
            ("pay\u{200d}pal", "pay\\u{200d}pal"),
            ("x\u{e0041}\u{e0042}", "x\\u{e0041}\\u{e0042}"),
            ("🙂\u{fe01}\u{fe02}", "🙂\u{fe01}\\u{fe02}"),
            ("a\u{fe0f}", "a\\u{fe0f}"),
        ] {
            assert_eq!(prose(written), shown);
        }
    }

    #[test]
    fn words_keep_what_writing_needs() {
        for written in [
            "👩\u{200d}🔬 ❤\u{fe0f}\u{200d}🔥 1\u{fe0f}\u{20e3}",
            "می\u{200c}خواهم",
            "a\tb\u{a0}c",
            "全角\u{3000}空白",
        ] {
            assert_eq!(words(written), written);
        }
        assert_eq!(words("a\u{200d}b\u{fe0f}"), "a\\u{200d}b\\u{fe0f}");
        assert_eq!(words("é\u{200d}\u{200d}\u{200b}"), "é\u{200d}\\u{200d}\\u{200b}");
        assert_eq!(words("x\u{202e}y\n\x1b[2J\u{e0041}"), "x\\u{202e}y\\n\\x1b[2J\\u{e0041}");
    }

    #[test]
    fn of_sequences_only_colours_are_output() {
        assert_eq!(output("\x1b[1m\x1b[31mred\x1b[0m\n"), "\x1b[1m\x1b[31mred\x1b[0m\n");
        for (sequence, shown) in [
            ("\x1b[2J", "\\x1b[2J"),
            ("\x1b[8mx", "\\x1b[8mx"),
            ("\x1b]0;t\x07", "\\x1b]0;t\\x07"),
            ("\u{9b}31m", "\\x9b31m"),
            ("a\rb\u{202e}c", "a\\rb\\u{202e}c"),
        ] {
            assert_eq!(output(sequence), shown);
        }
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({"a\u{9b}": ["\u{202e}\u{e0041} é🙂"]});
        let shown = json(&value.to_string()).into_owned();
        assert!(!shown.chars().any(is_hidden), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(start("äöü", 2), "äö…");
        assert_eq!(start("äöü", 3), "äöü");
    }
}
