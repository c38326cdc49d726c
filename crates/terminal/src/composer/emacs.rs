//! The keys that Emacs, readline and most shells share. Insert mode of vi has them too.

use super::draft::{Draft, Way};
use crate::keys::{Code, Key};

/// The effect of a key on a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    /// The key has edited the draft or moved the caret.
    Something,
    /// The key leads out of the draft, into the history.
    Left(Way),
    /// The key starts a search of the history.
    Search,
    /// The key has no meaning here.
    Nothing,
}

/// Applies a key.
pub(super) fn key(draft: &mut Draft, key: Key) -> Did {
    if let Some(c) = key.typed() {
        draft.insert(c.encode_utf8(&mut [0; 4]));
        return Did::Something;
    }
    let caret = draft.caret();
    let modifiers = key.modifiers;
    match key.code {
        Code::Char(c) if modifiers.control => return control(draft, c),
        Code::Char(c) => return alt(draft, c),
        Code::Up => return over(draft, Way::Back),
        Code::Down => return over(draft, Way::Forward),
        Code::Left if modifiers.control || modifiers.alt => draft.go(draft.word(caret, Way::Back)),
        Code::Right if modifiers.control || modifiers.alt => draft.go(draft.word(caret, Way::Forward)),
        Code::Left => draft.go(draft.next(caret, Way::Back)),
        Code::Right => draft.go(draft.next(caret, Way::Forward)),
        Code::Home if modifiers.control => draft.go(0),
        Code::End if modifiers.control => draft.go(draft.text().len()),
        Code::Home => draft.go(draft.line_start(caret)),
        Code::End => draft.go(draft.line_end(caret)),
        Code::Backspace if modifiers.control || modifiers.alt => {
            draft.kill(draft.word(caret, Way::Back)..caret);
        }
        Code::Backspace => draft.replace(draft.next(caret, Way::Back)..caret, ""),
        Code::Delete => draft.replace(caret..draft.next(caret, Way::Forward), ""),
        _ => return Did::Nothing,
    }
    Did::Something
}

fn control(draft: &mut Draft, c: char) -> Did {
    let caret = draft.caret();
    match c {
        'a' => draft.go(draft.line_start(caret)),
        'e' => draft.go(draft.line_end(caret)),
        'b' => draft.go(draft.next(caret, Way::Back)),
        'f' => draft.go(draft.next(caret, Way::Forward)),
        'p' => return over(draft, Way::Back),
        'n' => return over(draft, Way::Forward),
        'd' => draft.replace(caret..draft.next(caret, Way::Forward), ""),
        'h' => draft.replace(draft.next(caret, Way::Back)..caret, ""),
        'j' => draft.insert("\n"),
        'k' => {
            let end = draft.line_end(caret);
            // At the end of a line, the line break.
            let end = if end == caret { draft.next(caret, Way::Forward) } else { end };
            draft.kill(caret..end);
        }
        'u' => draft.kill(draft.line_start(caret)..caret),
        'w' => draft.kill(spaced_word_start(draft.text(), caret)..caret),
        'y' => draft.yank(),
        't' => draft.transpose(),
        '_' | '/' => _ = draft.undo(),
        _ => return Did::Nothing,
    }
    Did::Something
}

fn alt(draft: &mut Draft, c: char) -> Did {
    let caret = draft.caret();
    match c {
        'b' => draft.go(draft.word(caret, Way::Back)),
        'f' => draft.go(draft.word(caret, Way::Forward)),
        'd' => draft.kill(caret..draft.word(caret, Way::Forward)),
        'y' => draft.yank_older(),
        '<' => draft.go(0),
        '>' => draft.go(draft.text().len()),
        't' => transpose_words(draft),
        'u' => recase(draft, str::to_uppercase),
        'l' => recase(draft, str::to_lowercase),
        'c' => recase(draft, capitalized),
        '_' => _ = draft.redo(),
        _ => return Did::Nothing,
    }
    Did::Something
}

fn over(draft: &mut Draft, way: Way) -> Did {
    match draft.line_over(draft.caret(), way) {
        Some(place) => {
            draft.go(place);
            Did::Something
        }
        None => Did::Left(way),
    }
}

/// Returns the start of the word before a place. Words are separated by spaces.
fn spaced_word_start(text: &str, from: usize) -> usize {
    let before = text[..from].trim_end();
    before.rfind(char::is_whitespace).map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8))
}

fn recase(draft: &mut Draft, change: impl Fn(&str) -> String) {
    let from = draft.caret();
    let to = draft.word(from, Way::Forward);
    let changed = change(&draft.text()[from..to]);
    draft.replace(from..to, &changed);
    draft.rest();
}

fn capitalized(text: &str) -> String {
    let mut first = true;
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if first && c.is_alphanumeric() {
            out.extend(c.to_uppercase());
            first = false;
        } else {
            out.extend(c.to_lowercase());
        }
    }
    out
}

/// Swaps the word before the caret with the one after it.
fn transpose_words(draft: &mut Draft) {
    let right_end = draft.word(draft.caret(), Way::Forward);
    let right = draft.word(right_end, Way::Back);
    let left = draft.word(right, Way::Back);
    let left_end = draft.word(left, Way::Forward);
    if left_end > right || right >= right_end {
        return;
    }
    let text = draft.text();
    let swapped = format!("{}{}{}", &text[right..right_end], &text[left_end..right], &text[left..left_end]);
    draft.replace(left..right_end, &swapped);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text, with `|` for the caret, after these keys.
    fn after(text: &str, keys: &[Key]) -> String {
        let at = text.find('|').unwrap_or(text.len());
        let mut draft = Draft::of(&text.replacen('|', "", 1));
        draft.go(at);
        for pressed in keys {
            key(&mut draft, *pressed);
        }
        let mut text = draft.text().to_owned();
        text.insert(draft.caret(), '|');
        text
    }

    #[test]
    fn keys_do_what_they_do_elsewhere() {
        let (c, m) = (Key::control, Key::alt);
        for (text, keys, expected) in [
            ("one two|", vec![c('a')], "|one two"),
            ("one two|", vec![m('b'), m('b')], "|one two"),
            ("|one, two", vec![m('f'), m('f')], "one, two|"),
            ("a b/c |d", vec![c('w')], "a |d"),
            ("one |two three", vec![m('d'), c('e'), c('y')], "one  threetwo|"),
            ("a|b\ncd", vec![c('k'), c('k')], "a|cd"),
            ("ab\nc|d", vec![c('u')], "ab\n|d"),
            ("ab|", vec![c('t')], "ba|"),
            ("one two|", vec![m('t')], "two one|"),
            ("|straße x", vec![m('u')], "STRASSE| x"),
            ("|wORD", vec![m('c')], "Word|"),
            ("x|", vec![c('w'), c('_')], "x|"),
            ("abc\nde|", vec![c('p')], "ab|c\nde"),
            ("|水e\u{301}", vec![c('f'), c('d')], "水|"),
            ("|", vec![c('t'), c('k'), c('y'), m('y'), c('_')], "|"),
        ] {
            assert_eq!(after(text, &keys), expected, "{text} {keys:?}");
        }
    }
}
