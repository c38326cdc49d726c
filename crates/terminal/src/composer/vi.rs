//! Normal mode of vi: motions, operators, and the commands that return to insert mode.

mod repeat;
mod words;

use super::{
    draft::{Draft, Way},
    emacs::{self, Did},
};
use crate::keys::{Code, Key};
use repeat::Recorder;
use std::ops::Range;
use words::{
    at_line_end, at_space, find, first_word, nth_line, object, opposite, swap_case, word_back, word_end,
    word_start,
};

/// The state of vi's keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Vi {
    normal: bool,
    count: Option<usize>,
    /// An operator that waits for its motion, and the count before it.
    operator: Option<(char, usize)>,
    /// A command that waits for a character.
    awaiting: Option<char>,
    /// The last search in a line: the command and the character.
    found: Option<(char, char)>,
    /// True if the text that was killed or copied last consists of whole lines.
    lines: bool,
    /// The change that `.` repeats.
    recorder: Recorder,
}

/// The largest count. More repetitions change nothing.
const MOST: usize = 10_000;

/// The target of a motion, and how an operator applies to it.
struct Motion {
    to: usize,
    /// True if an operator also takes the character at the end.
    inclusive: bool,
}

impl Vi {
    /// Returns true in normal mode.
    pub(super) fn is_normal(&self) -> bool {
        self.normal
    }

    /// Returns to insert mode, with nothing pending.
    pub(super) fn reset(&mut self) {
        let recorder = std::mem::take(&mut self.recorder).between_drafts();
        *self = Self { lines: self.lines, found: self.found, recorder, ..Self::default() };
    }

    /// Applies a key.
    pub(super) fn key(&mut self, draft: &mut Draft, key: Key) -> Did {
        match (self.normal, key.code, key.typed()) {
            (false, Code::Escape, _) => {
                self.recorder.left_insert_mode(draft);
                self.end_insert(draft);
                Did::Something
            }
            (false, ..) => emacs::key(draft, key),
            (true, _, Some('.')) if !self.awaits_more() => self.repeat(draft),
            (true, ..) => {
                if !self.awaits_more() && self.count.is_none() {
                    self.recorder.begin(draft);
                }
                self.recorder.key(key);
                let did = self.normal_key(draft, key);
                if !self.normal {
                    self.recorder.entered_insert_mode(draft);
                } else if !self.awaits_more() && self.count.is_none() {
                    self.recorder.end(draft);
                }
                did
            }
        }
    }

    /// Returns true if a command is not complete yet.
    fn awaits_more(&self) -> bool {
        self.operator.is_some() || self.awaiting.is_some()
    }

    /// Goes from insert mode to normal mode.
    fn end_insert(&mut self, draft: &mut Draft) {
        self.normal = true;
        let caret = draft.caret();
        if caret > draft.line_start(caret) {
            draft.go(draft.next(caret, Way::Back));
        }
    }

    fn normal_key(&mut self, draft: &mut Draft, key: Key) -> Did {
        let Some(c) = key.typed() else {
            let pending = self.operator.is_some() || self.awaiting.is_some() || self.count.is_some();
            self.cancel();
            return match key.code {
                Code::Escape if pending => Did::Something,
                Code::Escape => Did::Nothing,
                Code::Char('r') if key.modifiers.control => {
                    self.recorder.forget();
                    draft.redo();
                    Did::Something
                }
                Code::Backspace => {
                    draft.go(draft.next(draft.caret(), Way::Back));
                    Did::Something
                }
                _ => emacs::key(draft, key),
            };
        };
        if let Some(command) = self.awaiting.take() {
            self.argument(draft, command, c);
        } else if c.is_ascii_digit() && (c != '0' || self.count.is_some()) {
            let digit = c.to_digit(10).map_or(0, |digit| digit as usize);
            self.count = Some((self.count.unwrap_or(0) * 10 + digit).min(MOST));
            return Did::Something;
        } else if matches!(c, 'f' | 'F' | 't' | 'T' | 'g')
            || (c == 'r' && self.operator.is_none())
            || (matches!(c, 'i' | 'a') && self.operator.is_some())
        {
            self.awaiting = Some(c);
            return Did::Something;
        } else if let Some((operator, times)) = self.operator {
            let count = times * self.count.unwrap_or(1);
            if c == operator {
                self.operate_lines(draft, operator, count);
            } else if operator == 'c' && matches!(c, 'w' | 'W') {
                // As vi: changing a word leaves the spaces behind it.
                let end = if at_space(draft) {
                    c
                } else if c == 'w' {
                    'e'
                } else {
                    'E'
                };
                self.operate_motion(draft, operator, end, count);
            } else {
                self.operate_motion(draft, operator, c, count);
            }
        } else {
            return self.command(draft, c);
        }
        if self.awaiting.is_none() {
            self.cancel();
        }
        Did::Something
    }

    fn cancel(&mut self) {
        (self.count, self.operator, self.awaiting) = (None, None, None);
    }

    /// Executes a command that is complete with its character, without an operator before it.
    fn command(&mut self, draft: &mut Draft, c: char) -> Did {
        let given = self.count.take();
        let count = given.unwrap_or(1);
        let caret = draft.caret();
        match c {
            'd' | 'c' | 'y' => self.operator = Some((c, count)),
            'i' => self.normal = false,
            'a' => self
                .insert_at(draft, if at_line_end(draft) { caret } else { draft.next(caret, Way::Forward) }),
            'I' => self.insert_at(draft, first_word(draft, caret)),
            'A' => self.insert_at(draft, draft.line_end(caret)),
            'o' => {
                self.insert_at(draft, draft.line_end(caret));
                draft.insert("\n");
            }
            'O' => {
                let start = draft.line_start(caret);
                draft.replace(start..start, "\n");
                self.insert_at(draft, start);
            }
            'x' | 's' => {
                let end = self.right(draft, caret, count);
                self.cut(draft, caret..end, false);
                self.normal = c == 'x';
            }
            'X' => {
                let start = draft.line_start(caret);
                let from = (0..count).fold(caret, |at, _| draft.next(at, Way::Back).max(start));
                self.cut(draft, from..caret, false);
            }
            'D' | 'C' => {
                self.cut(draft, caret..draft.line_end(caret), false);
                self.normal = c == 'D';
            }
            'S' => self.operate_lines(draft, 'c', count),
            'Y' => self.operate_lines(draft, 'y', count),
            'p' | 'P' => self.put(draft, c == 'p', count),
            'u' => {
                self.recorder.forget();
                for _ in 0..count.min(100) {
                    draft.undo();
                }
            }
            '~' => {
                let end = self.right(draft, caret, count);
                let swapped: String = draft.text()[caret..end].chars().flat_map(swap_case).collect();
                draft.replace(caret..end, &swapped);
            }
            'J' => {
                let end = draft.line_end(caret);
                if end < draft.text().len() {
                    let rest = &draft.text()[end + 1..];
                    let spaces = rest.len() - rest.trim_start_matches([' ', '\t']).len();
                    draft.replace(end..end + 1 + spaces, " ");
                    draft.go(end);
                }
            }
            'j' | 'k' => {
                let way = if c == 'j' { Way::Forward } else { Way::Back };
                let place = (0..count).try_fold(caret, |at, _| draft.line_over(at, way));
                match place {
                    Some(place) => draft.go(place),
                    None => return Did::Left(way),
                }
            }
            '/' => return Did::Search,
            'G' => draft.go(given.map_or(draft.text().len(), |line| nth_line(draft.text(), line))),
            _ => match self.motion(draft, c, count) {
                Some(motion) => draft.go(motion.to),
                None => return Did::Nothing,
            },
        }
        if self.normal {
            self.stay_in_line(draft);
        }
        Did::Something
    }

    /// Completes a command with its character.
    fn argument(&mut self, draft: &mut Draft, command: char, c: char) {
        let count = self.count.unwrap_or(1);
        let caret = draft.caret();
        match (command, self.operator) {
            ('r', _) => {
                let end = self.right(draft, caret, count);
                if end > caret {
                    let times = draft.text()[caret..end].chars().count();
                    draft.replace(caret..end, &c.to_string().repeat(times));
                    draft.go(draft.next(draft.caret(), Way::Back));
                }
            }
            ('g', None) if c == 'g' => draft.go(0),
            ('g', Some((operator, _))) if c == 'g' => {
                self.operate(draft, operator, 0..draft.line_end(caret), true);
            }
            ('i' | 'a', Some((operator, _))) => {
                if let Some(range) = object(draft, command == 'a', c) {
                    self.operate(draft, operator, range, false);
                }
            }
            ('f' | 'F' | 't' | 'T', operator) => {
                self.found = Some((command, c));
                if let Some(place) = find(draft, command, c, count) {
                    match operator {
                        None => draft.go(place),
                        Some((operator, _)) => {
                            let inclusive = matches!(command, 'f' | 't');
                            self.operate_to(draft, operator, &Motion { to: place, inclusive });
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn motion(&self, draft: &Draft, c: char, count: usize) -> Option<Motion> {
        let caret = draft.caret();
        let again = |step: &dyn Fn(usize) -> usize| (0..count).fold(caret, |at, _| step(at));
        let exclusive = |to| Some(Motion { to, inclusive: false });
        match c {
            'h' => exclusive(again(&|at| draft.next(at, Way::Back).max(draft.line_start(caret)))),
            'l' | ' ' => exclusive(self.right(draft, caret, count)),
            'w' | 'W' => exclusive(again(&|at| word_start(draft.text(), at, c == 'W'))),
            'b' | 'B' => exclusive(again(&|at| word_back(draft.text(), at, c == 'B'))),
            'e' | 'E' => {
                Some(Motion { to: again(&|at| word_end(draft.text(), at, c == 'E')), inclusive: true })
            }
            '0' => exclusive(draft.line_start(caret)),
            '^' => exclusive(first_word(draft, caret)),
            '$' => exclusive(draft.line_end(caret)),
            'G' => exclusive(draft.text().len()),
            ';' | ',' => {
                let (command, wanted) = self.found?;
                let command = if c == ';' { command } else { opposite(command) };
                let to = find(draft, command, wanted, count)?;
                Some(Motion { to, inclusive: matches!(command, 'f' | 't') })
            }
            _ => None,
        }
    }

    fn operate_motion(&mut self, draft: &mut Draft, operator: char, motion: char, count: usize) {
        if matches!(motion, 'j' | 'k') {
            let way = if motion == 'j' { Way::Forward } else { Way::Back };
            let caret = draft.caret();
            if let Some(to) = (0..count).try_fold(caret, |at, _| draft.line_over(at, way)) {
                let (from, to) = (draft.line_start(caret.min(to)), draft.line_end(caret.max(to)));
                self.operate(draft, operator, from..to, true);
            }
        } else if let Some(motion) = self.motion(draft, motion, count) {
            self.operate_to(draft, operator, &motion);
        }
    }

    fn operate_to(&mut self, draft: &mut Draft, operator: char, motion: &Motion) {
        let caret = draft.caret();
        let (from, to) = (caret.min(motion.to), caret.max(motion.to));
        let to = if motion.inclusive && motion.to >= caret { draft.next(to, Way::Forward) } else { to };
        self.operate(draft, operator, from..to, false);
    }

    fn operate_lines(&mut self, draft: &mut Draft, operator: char, count: usize) {
        let from = draft.line_start(draft.caret());
        let last = (1..count).fold(from, |at, _| draft.line_over(at, Way::Forward).unwrap_or(at));
        self.operate(draft, operator, from..draft.line_end(last), true);
    }

    fn operate(&mut self, draft: &mut Draft, operator: char, range: Range<usize>, lines: bool) {
        match operator {
            'y' => {
                draft.keep(draft.text()[range.clone()].to_owned());
                self.lines = lines;
                draft.go(range.start);
            }
            'c' => {
                self.cut(draft, range, lines);
                self.normal = false;
            }
            _ if lines => {
                draft.keep(draft.text()[range.clone()].to_owned());
                self.lines = true;
                // With one of the line breaks around them.
                let (start, end) = (range.start, range.end);
                let whole =
                    if end < draft.text().len() { start..end + 1 } else { start.saturating_sub(1)..end };
                draft.replace(whole, "");
                let caret = draft.caret();
                draft.go(first_word(draft, caret));
            }
            _ => self.cut(draft, range, false),
        }
        if self.normal {
            self.stay_in_line(draft);
        }
    }

    /// Removes a range and keeps it for `p`.
    fn cut(&mut self, draft: &mut Draft, range: Range<usize>, lines: bool) {
        if range.is_empty() {
            return;
        }
        self.lines = lines;
        draft.rest();
        draft.kill(range);
        draft.rest();
    }

    fn put(&self, draft: &mut Draft, after: bool, count: usize) {
        let Some(text) = draft.killed().map(str::to_owned) else { return };
        let caret = draft.caret();
        let times = count.min(100);
        if self.lines {
            let (place, text) = if after {
                (draft.line_end(caret), format!("\n{text}").repeat(times))
            } else {
                (draft.line_start(caret), format!("{text}\n").repeat(times))
            };
            draft.replace(place..place, &text);
            draft.go(if after { place + 1 } else { place });
        } else {
            let place = if after && !at_line_end(draft) { draft.next(caret, Way::Forward) } else { caret };
            draft.replace(place..place, &text.repeat(times));
            draft.go(draft.next(draft.caret(), Way::Back));
        }
    }

    fn insert_at(&mut self, draft: &mut Draft, place: usize) {
        draft.go(place);
        self.normal = false;
    }

    /// Returns the place `count` characters to the right, within the line.
    fn right(&self, draft: &Draft, from: usize, count: usize) -> usize {
        let end = draft.line_end(from);
        (0..count).fold(from, |at, _| if at < end { draft.next(at, Way::Forward).min(end) } else { at })
    }

    /// Keeps the caret on a character: in normal mode it is never behind the last one of its line.
    fn stay_in_line(&self, draft: &mut Draft) {
        let caret = draft.caret();
        if caret == draft.line_end(caret) && caret > draft.line_start(caret) {
            draft.go(draft.next(caret, Way::Back));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns the text, with `|` for the caret, after these keys in normal mode. `\x1b` is Escape.
    fn after(text: &str, keys: &str) -> String {
        let at = text.find('|').unwrap_or(text.len());
        let mut draft = Draft::of(&text.replacen('|', "", 1));
        let mut vi = Vi::default();
        vi.key(&mut draft, Key::plain(Code::Escape));
        draft.go(at);
        for c in keys.chars() {
            let key = if c == '\x1b' { Key::plain(Code::Escape) } else { Key::char(c) };
            vi.key(&mut draft, key);
        }
        let mut text = draft.text().to_owned();
        text.insert(draft.caret(), '|');
        text
    }

    #[test]
    fn commands_do_what_they_do_in_vi() {
        for (text, keys, expected) in [
            ("|one two three", "dw", "|two three"),
            ("|one two three", "2dw", "|three"),
            ("|one two three", "d2w", "|three"),
            ("|one two", "cwx\x1b", "|x two"),
            ("|one two", "dwp", "tone| wo"),
            ("a\n|b\nc", "dd", "a\n|c"),
            ("a\n|b", "ddP", "|b\na"),
            ("|a\nb", "yyjp", "a\nb\n|a"),
            ("one |two", "D", "one| "),
            ("|abc", "xxu", "|bc"),
            ("|abc", "$", "ab|c"),
            ("abc| d", "0", "|abc d"),
            ("|a,b c", "w", "a|,b c"),
            ("|a,b c", "W", "a,b |c"),
            ("one two|", "b", "one |two"),
            ("|one two", "e", "on|e two"),
            ("|one two", "de", "| two"),
            ("|a.b.c", "f.;", "a.b|.c"),
            ("|a.b.c", "dt.", "|.b.c"),
            ("say \"|hi there\"", "ci\"x\x1b", "say \"|x\""),
            ("f(a, |b)", "di(", "f(|)"),
            ("one tw|o three", "daw", "one |three"),
            ("|abc", "rx", "|xbc"),
            ("|aBc", "3~", "Ab|C"),
            ("|b", "Aa\x1b", "b|a"),
            ("|b", "Ia\x1b", "|ab"),
            ("|b", "oa\x1b", "b\n|a"),
            ("|b", "Oa\x1b", "|a\nb"),
            ("|a\n  b", "J", "a| b"),
            ("a\nb\n|c", "gg", "|a\nb\nc"),
            ("|a\nb", "dG", "|"),
            ("|one two three", "dw.", "|three"),
            ("|a b c d e", "dw2.", "|d e"),
            ("|a b c d e f", "2dw.", "|e f"),
            ("|abcdef", "3x.u", "|def"),
            ("|one two", "cwx\x1bw.", "x |x"),
            ("|b", "Aa\x1b..", "baa|a"),
            ("|a\nb", "ox\x1bj.", "a\nx\nb\n|x"),
            ("|abc", "ru.l.", "u|uc"),
            ("|a.b.c.d", "dt.x.", "|.c.d"),
            ("|a b", "yw.", "|a b"),
            ("|a b c", "dwu.", "|b c"),
            ("|a", ".", "|a"),
            ("|", "dwxpuyyddcc", "|"),
        ] {
            assert_eq!(after(text, keys), expected, "{text} {keys:?}");
        }
    }

    proptest! {
        #[test]
        fn no_keys_break_a_draft(
            text in "[a-z .\"()\n水e\u{301}🙂\u{200d}]{0,20}",
            keys in "[hjklwbeWBE0$^fFtTrgGdcyxXsSDCYpPu~JiaoOIA;,./123 ()\"\x1b水\u{301}]{0,40}",
        ) {
            let shown = after(&text, &keys);
            prop_assert!(shown.contains('|'));
        }
    }
}
