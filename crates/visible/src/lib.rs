//! Escapes text that others wrote for display: nothing in it can then move the cursor, hide, or reorder other text.

mod look;

use look::Look;
use std::{borrow::Cow, fmt::Write as _};

/// Escapes each hidden character of the text (`\x1b`, `\u{202e}`); newlines and tabs stay.
pub fn text(text: &str) -> Cow<'_, str> {
    rewrite(text, Look::at_names(), |c| c == '\n' || c == '\t', push_escape)
}

/// Escapes the text for one line: newlines and tabs are escaped too.
pub fn line(text: &str) -> Cow<'_, str> {
    rewrite(text, Look::at_names(), |_| false, push_escape)
}

/// Escapes the text of a model's answer for a screen. Emoji and scripts that need joiners stay whole, and so do spaces
/// of other widths: only characters that could move the cursor, reorder text, or are invisible are escaped.
pub fn prose(text: &str) -> Cow<'_, str> {
    rewrite(text, Look::at_prose(), |c| c == '\n' || c == '\t', push_escape)
}

/// Escapes the text of a person or a model for one line, in any language: like [`prose`], and line breaks are escaped.
pub fn words(text: &str) -> Cow<'_, str> {
    rewrite(text, Look::at_prose(), |c| c == '\t', push_escape)
}

/// Replaces the characters that [`words`] escapes by a replacement character (`U+FFFD`), for places in which a
/// backslash has a meaning.
pub fn replaced(text: &str) -> Cow<'_, str> {
    rewrite(text, Look::at_prose(), |_| false, |out, _| out.push(char::REPLACEMENT_CHARACTER))
}

/// Rewrites the characters that `look` finds hidden, except those that `stays` names.
fn rewrite(
    text: &str,
    mut look: Look,
    stays: impl Fn(char) -> bool,
    push: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let mut out: Option<String> = None;
    for (at, c) in text.char_indices() {
        if look.hides(c) && !stays(c) {
            push(out.get_or_insert_with(|| text[..at].to_owned()), c);
        } else if let Some(out) = &mut out {
            out.push(c);
        }
    }
    out.map_or(Cow::Borrowed(text), Cow::Owned)
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

/// Escapes output for a terminal: our own colours stay, and nothing else in it can move the cursor, hide or reorder
/// text. [`text`] and [`line()`] escape the text of others earlier; this function is for text that they did not
/// process.
pub fn output(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t')) {
        return Cow::Borrowed(text);
    }
    let mut look = Look::at_prose();
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let taken = match colour(rest) {
            Some(taken) => {
                out.push_str(&rest[..taken]);
                taken
            }
            None => {
                match look.hides(c) && c != '\n' && c != '\t' {
                    true => push_escape(&mut out, c),
                    false => out.push(c),
                }
                c.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    Cow::Owned(out)
}

/// The length of a sequence at the beginning of a text that sets a colour, boldness and the like.
pub fn colour(text: &str) -> Option<usize> {
    let codes = text.strip_prefix("\u{1b}[")?;
    let codes = &codes[..codes.find('m')?];
    let plain =
        |code: &str| matches!(code.parse(), Ok(0..=4 | 22..=24 | 30..=37 | 39 | 90..=97)) || code.is_empty();
    codes.split(';').all(plain).then(|| 2 + codes.len() + 1)
}

/// Escapes JSON for a terminal. Within its strings each hidden character becomes an escape of JSON, so that the value
/// stays the same.
pub fn json(text: &str) -> Cow<'_, str> {
    let stays = |c: char| c.is_ascii() && c != '\u{7f}';
    rewrite(text, Look::at_names(), stays, |out, c| {
        // Writing to a `String` does not fail.
        c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| _ = write!(out, "\\u{unit:04x}"));
    })
}

/// The beginning of a text, at most `max` characters, with `…` if more follows.
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
        assert_eq!(words("é\u{200d}\u{200d}\u{200b}"), "é\\u{200d}\\u{200d}\\u{200b}");
        assert_eq!(words("x\u{202e}y\n\x1b[2J\u{e0041}"), "x\\u{202e}y\\n\\x1b[2J\\u{e0041}");
    }

    #[test]
    fn marks_that_draw_nothing_are_seen_only_after_letters_of_their_script() {
        // Joiners of Tifinagh and Brahmi, a stacker of Khmer, a virama twice, and fillers of Hangul and Khitan.
        for hidden in [
            "pay\u{2d7f}pal",
            "水\u{1107f}",
            "a\u{17d2}",
            "क\u{94d}\u{94d}",
            "a\u{115f}",
            "a\u{16fe4}",
            "a\u{13441}",
            "a\u{1d17a}",
            "a\u{e0020}",
            "a\u{378}",
            "a\u{13437}",
        ] {
            for shown in [line(hidden), text(hidden), words(hidden), output(hidden), json(hidden)] {
                assert!(shown.contains("\\u"), "{hidden:?}: {shown}");
            }
            assert!(replaced(hidden).contains('\u{fffd}'), "{hidden:?}");
        }
        // Prose may continue a text that ended with the letter.
        assert_eq!((line("\u{2d7f}"), words("\u{2d7f}")), ("\\u{2d7f}".into(), "\u{2d7f}".into()));
        // The same marks where they belong, and signs of Arabic that are no letters.
        for seen in [
            "ⴰ\u{2d7f}ⴱ",
            "\u{11066}\u{1107f}\u{11067}",
            "ក\u{17d2}ខ",
            "क\u{94d}ष, क\u{93c}\u{94d}त",
            "\u{25cc}\u{94d}",
            "العربية \u{600}١٢ \u{6dd}١",
            "한글 \u{1100}\u{1161}",
        ] {
            assert_eq!(line(seen), seen);
            assert_eq!(words(seen), seen);
            assert_eq!(output(seen), seen);
        }
        for seen in ["র\u{200d}\u{9cd}য", "ක\u{dca}\u{200d}ර", "👍🏽\u{200d}", "\u{1f0b0}"] {
            assert_eq!(words(seen), seen);
        }
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
        assert_eq!(line(&shown), shown);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(start("äöü", 2), "äö…");
        assert_eq!(start("äöü", 3), "äöü");
    }
}
