//! The places of a draft that vi's motions and text objects name.

use super::super::draft::{Draft, Way};
use std::ops::Range;

/// Returns true if the caret is behind the last character of its line.
pub(super) fn at_line_end(draft: &Draft) -> bool {
    draft.caret() == draft.line_end(draft.caret())
}

pub(super) fn at_space(draft: &Draft) -> bool {
    draft.text()[draft.caret()..].starts_with(char::is_whitespace)
}

pub(super) fn first_word(draft: &Draft, from: usize) -> usize {
    let start = draft.line_start(from);
    let line = &draft.text()[start..draft.line_end(from)];
    start + line.len() - line.trim_start().len()
}

pub(super) fn nth_line(text: &str, line: usize) -> usize {
    match line.checked_sub(2) {
        None => 0,
        Some(breaks) => text.match_indices('\n').nth(breaks).map_or(text.len(), |(at, _)| at + 1),
    }
}

pub(super) fn swap_case(c: char) -> Vec<char> {
    if c.is_lowercase() { c.to_uppercase().collect() } else { c.to_lowercase().collect() }
}

pub(super) fn opposite(command: char) -> char {
    if command.is_lowercase() { command.to_ascii_uppercase() } else { command.to_ascii_lowercase() }
}

/// Returns the place of a character in the line: on it, or with `t` and `T` beside it.
pub(super) fn find(draft: &Draft, command: char, wanted: char, count: usize) -> Option<usize> {
    let caret = draft.caret();
    let text = draft.text();
    if command.is_lowercase() {
        let from = draft.next(caret, Way::Forward);
        let line = &text[from..draft.line_end(caret).max(from)];
        let (at, _) = line.match_indices(wanted).nth(count.checked_sub(1)?)?;
        let place = from + at;
        Some(if command == 't' { draft.next(place, Way::Back) } else { place })
    } else {
        let start = draft.line_start(caret);
        let (at, _) = text[start..caret].rmatch_indices(wanted).nth(count.checked_sub(1)?)?;
        let place = start + at;
        Some(if command == 'T' { draft.next(place, Way::Forward) } else { place })
    }
}

/// The kind of word that a character belongs to.
#[derive(PartialEq, Eq)]
enum Class {
    Space,
    Word,
    Sign,
}

fn class(c: char, big: bool) -> Class {
    match c {
        c if c.is_whitespace() => Class::Space,
        c if big || c.is_alphanumeric() || c == '_' => Class::Word,
        // Marks and joiners belong to what they stand on.
        '\u{300}'..='\u{36f}' | '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' => Class::Word,
        _ => Class::Sign,
    }
}

pub(super) fn word_start(text: &str, from: usize, big: bool) -> usize {
    let mut chars = text[from..].char_indices();
    let Some((_, first)) = chars.next() else { return from };
    let mut before = class(first, big);
    for (at, c) in chars {
        let now = class(c, big);
        if now != Class::Space && now != before {
            return from + at;
        }
        before = now;
    }
    text.len()
}

pub(super) fn word_back(text: &str, from: usize, big: bool) -> usize {
    let before = text[..from].trim_end();
    let Some(last) = before.chars().next_back() else { return 0 };
    let of = class(last, big);
    before.char_indices().rev().take_while(|(_, c)| class(*c, big) == of).last().map_or(0, |(at, _)| at)
}

pub(super) fn word_end(text: &str, from: usize, big: bool) -> usize {
    let Some(first) = text[from..].chars().next() else { return from };
    let mut chars = text[from + first.len_utf8()..]
        .char_indices()
        .map(|(at, c)| (from + first.len_utf8() + at, c))
        .skip_while(|(_, c)| c.is_whitespace())
        .peekable();
    let mut end = from;
    while let Some((at, c)) = chars.next() {
        end = at;
        if chars.peek().is_none_or(|(_, next)| class(*next, big) != class(c, big)) {
            break;
        }
    }
    end
}

/// Returns a text object around the caret: a word, or the text between quotes or brackets.
pub(super) fn object(draft: &Draft, around: bool, c: char) -> Option<Range<usize>> {
    let (text, caret) = (draft.text(), draft.caret());
    let (start, end) = (draft.line_start(caret), draft.line_end(caret));
    match c {
        'w' | 'W' => {
            let here = class(text[caret..end].chars().next()?, c == 'W');
            let same = |other: char| class(other, c == 'W') == here;
            let from = text[start..caret]
                .char_indices()
                .rev()
                .take_while(|(_, c)| same(*c))
                .last()
                .map_or(caret, |(at, _)| start + at);
            let to = text[caret..end].find(|c| !same(c)).map_or(end, |at| caret + at);
            let spaces = text[to..end].len() - text[to..end].trim_start().len();
            Some(from..if around { to + spaces } else { to })
        }
        '"' | '\'' | '`' => {
            let places: Vec<usize> = text[start..end].match_indices(c).map(|(at, _)| start + at).collect();
            let pair = places.chunks_exact(2).find(|pair| pair[1] >= caret)?;
            Some(if around { pair[0]..pair[1] + 1 } else { pair[0] + 1..pair[1] })
        }
        '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' => {
            let (open, close) = match c {
                '(' | ')' => ('(', ')'),
                '[' | ']' => ('[', ']'),
                '{' | '}' => ('{', '}'),
                _ => ('<', '>'),
            };
            let from = match text[caret..].starts_with(open) {
                true => caret,
                false => enclosing(text[..caret].char_indices().rev(), open, close)?,
            };
            let inner = from + open.len_utf8();
            let to = enclosing(text[inner..].char_indices().map(|(at, c)| (inner + at, c)), close, open)?;
            Some(if around { from..to + close.len_utf8() } else { inner..to })
        }
        _ => None,
    }
}

/// Returns the place of the first `wanted` that no `other` before it opens.
fn enclosing(chars: impl Iterator<Item = (usize, char)>, wanted: char, other: char) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in chars {
        if c == other {
            depth += 1;
        } else if c == wanted {
            match depth.checked_sub(1) {
                None => return Some(at),
                Some(less) => depth = less,
            }
        }
    }
    None
}
