//! Untrusted text in rows of the terminal, each behind a bar, so that it can't be taken for llm-do's own words.
//!
//! A terminal continues a long line in its first column, where llm-do's own questions begin. Therefore lines are cut
//! into rows by display width, and every row begins with a bar.

use crate::visible;
use anstyle::{AnsiColor, Effects, Style};
use llm_do_terminal::Line;
use std::{borrow::Cow, fmt::Write as _, ops::RangeInclusive};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// The bar before the first row of a line.
const FIRST: &str = "  │ ";
/// The bar before its further rows.
const FURTHER: &str = "  ┆ ";
/// Columns of either bar.
const BAR: usize = 4;
/// The least number of columns. A narrower terminal is treated as this wide.
const NARROWEST: usize = 24;
/// The longest run of spaces that is printed. A longer one is counted.
const MOST_SPACES: usize = 24;
/// The most empty lines in sequence that are printed. Further ones are counted.
const MOST_EMPTY: usize = 3;
/// The most code points of one character, such as accents on a letter. Those of a longer one are escaped.
const MOST_MARKS: usize = 8;
/// Regional indicators. Terminals may show a single one in two columns.
const REGIONAL: RangeInclusive<char> = '\u{1f1e6}'..='\u{1f1ff}';

/// The style of a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Dim,
    Bold,
    Name,
    Added,
    Removed,
    Notice,
}

impl Tone {
    fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Dim => Style::new().effects(Effects::DIMMED),
            Self::Bold => Style::new().effects(Effects::BOLD),
            Self::Name => AnsiColor::Cyan.on_default(),
            Self::Added => AnsiColor::Green.on_default(),
            Self::Removed => AnsiColor::Red.on_default(),
            Self::Notice => AnsiColor::Yellow.on_default(),
        }
    }
}

/// A piece of a line. Control characters and hidden ones are escaped when it is shown.
pub(crate) type Piece<'a> = (Tone, &'a str);

/// Puts the pieces on one line, however wide it is.
pub(crate) fn unwrapped(pieces: &[Piece<'_>]) -> Line {
    let mut line = Line::new();
    for (tone, text) in pieces {
        line.push(&tamed(&expanded(text)), tone.style());
    }
    line
}

/// Returns a rule across a terminal.
pub(crate) fn rule(columns: usize) -> Line {
    Line::styled(&"─".repeat((columns.max(NARROWEST) - 1).min(72)), Tone::Dim.style())
}

/// Rows of a terminal.
pub(crate) struct Rows {
    columns: usize,
    rows: Vec<Line>,
    /// Number of empty lines in sequence before this point of a content.
    empty: usize,
}

impl Rows {
    /// Returns no rows yet, for a terminal with that many columns.
    pub(crate) fn new(columns: usize) -> Self {
        Self { columns: columns.max(NARROWEST), rows: Vec::new(), empty: 0 }
    }

    /// Adds a heading. It begins in the first column with llm-do's own words or a name, and its further rows are behind
    /// the bar.
    pub(crate) fn heading(&mut self, pieces: &[Piece<'_>]) {
        self.put("", FURTHER, pieces, Breaks::AtWords);
    }

    /// Adds a line behind the bar.
    pub(crate) fn line(&mut self, pieces: &[Piece<'_>]) {
        self.end_content();
        self.put(FIRST, FURTHER, pieces, Breaks::AtWords);
    }

    /// Adds the lines of a longer text, behind the bar and further indented than [`Rows::line`].
    pub(crate) fn content(&mut self, text: &str) {
        let text = text.strip_suffix('\n').unwrap_or(text);
        for line in text.split('\n') {
            self.content_line("  ", Tone::Plain, line);
        }
        self.end_content();
    }

    /// Adds a line of a longer text, behind the bar and `lead`. Empty lines in sequence are counted.
    pub(crate) fn content_line(&mut self, lead: &str, tone: Tone, line: &str) {
        if line.trim().is_empty() {
            self.empty += 1;
            if self.empty > MOST_EMPTY {
                return;
            }
        } else {
            self.end_content();
        }
        self.put(&format!("{FIRST}{lead}"), &format!("{FURTHER}{lead}"), &[(tone, line)], Breaks::Anywhere);
    }

    fn end_content(&mut self) {
        let more = std::mem::take(&mut self.empty).saturating_sub(MOST_EMPTY);
        if more > 0 {
            self.put(
                FIRST,
                FURTHER,
                &[(Tone::Notice, &format!("… {more} more empty lines"))],
                Breaks::AtWords,
            );
        }
    }

    /// Returns the rows.
    pub(crate) fn finish(mut self) -> Vec<Line> {
        self.end_content();
        self.rows
    }

    fn put(&mut self, first: &str, further: &str, pieces: &[Piece<'_>], breaks: Breaks) {
        // One column stays free: where the last one is taken, terminals differ in what they do next.
        let most = self.columns - 1;
        let mut used = width(first);
        let mut row = Line::plain(first);
        for (tone, text) in pieces {
            let text = counted(&tamed(&expanded(text))).into_owned();
            let mut run = String::new();
            for character in text.graphemes(true) {
                let wide = width(character);
                if used + wide > most && used > BAR.max(width(further)) {
                    let word = match breaks {
                        Breaks::AtWords => last_word(&mut run, character, (most - width(further)) / 2),
                        Breaks::Anywhere => String::new(),
                    };
                    row.push(&std::mem::replace(&mut run, word), tone.style());
                    self.rows.push(std::mem::replace(&mut row, Line::plain(further)));
                    used = width(further) + width(&run);
                }
                run.push_str(character);
                used += wide;
            }
            row.push(&run, tone.style());
        }
        self.rows.push(row);
    }
}

/// The places at which a line may be continued in another row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breaks {
    /// A space near the end of the row. It is not shown. Without one, any character.
    AtWords,
    /// Any character, because each one of a content matters.
    Anywhere,
}

/// Takes the word at the end of a row that moves to the next row, because the next character does not fit. Empty: that
/// character begins a word, or there is no space near the end.
fn last_word(row: &mut String, next: &str, most: usize) -> String {
    if next == " " {
        return String::new();
    }
    let Some(space) = row.rfind(' ').filter(|space| !row[..*space].trim_end().is_empty()) else {
        return String::new();
    };
    if row[space..].contains('\u{1b}') || width(&row[space + 1..]) > most {
        return String::new();
    }
    let word = row.split_off(space + 1);
    row.pop();
    word
}

/// Wraps a line with llm-do's own colours for a terminal with that many columns. Further rows and lines are behind the
/// bar, because a terminal would continue them in its first column.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    let most = columns.max(NARROWEST) - 1;
    let mut out = String::with_capacity(text.len() + 16);
    for (number, line) in text.strip_suffix('\n').unwrap_or(text).split('\n').enumerate() {
        let mut used = 0;
        if number > 0 {
            out.push('\n');
            out.push_str(FURTHER);
            used = BAR;
        }
        let mut rest = line;
        while !rest.is_empty() {
            if let Some(taken) = visible::colour(rest) {
                out.push_str(&rest[..taken]);
                rest = &rest[taken..];
                continue;
            }
            let next = rest.char_indices().skip(1).find(|(_, c)| *c == '\u{1b}');
            let until = next.map_or(rest.len(), |(at, _)| at);
            let shown = tamed(&expanded(&rest[..until])).into_owned();
            let mut run = String::new();
            for character in shown.graphemes(true) {
                let wide = width(character);
                if used + wide > most && used > BAR {
                    let word = last_word(&mut run, character, (most - BAR) / 2);
                    out.push_str(&std::mem::replace(&mut run, word));
                    out.push('\n');
                    out.push_str(FURTHER);
                    used = BAR + width(&run);
                }
                run.push_str(character);
                used += wide;
            }
            out.push_str(&run);
            rest = &rest[until..];
        }
    }
    out
}

/// Returns the columns that a terminal may need for a text: the larger number if terminals differ.
fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    let bar = |c: char| matches!(c, '│' | '┆');
    if text.chars().any(bar) && text.chars().all(|c| c.is_ascii() || bar(c)) {
        // The bars themselves: every row begins with one, however wide it is.
        return text.chars().count();
    }
    let regional = text.chars().filter(|c| REGIONAL.contains(c)).count();
    text.width().max(text.width_cjk()).max(1) + regional
}

/// Replaces a tab by four spaces, wherever it is, and escapes all characters that are not visible.
fn expanded(text: &str) -> Cow<'_, str> {
    if text.contains('\t') {
        let spread = text.replace('\t', "→   ");
        Cow::Owned(visible::line(&spread).into_owned())
    } else {
        visible::line(text)
    }
}

/// Escapes the marks of overloaded characters, because they would cover the rows above and below.
fn tamed(text: &str) -> Cow<'_, str> {
    let overloaded = |character: &str| character.chars().count() > MOST_MARKS;
    if text.is_ascii() || !text.graphemes(true).any(overloaded) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for character in text.graphemes(true) {
        if overloaded(character) {
            // Writing to a `String` does not fail.
            character.chars().for_each(|c| _ = write!(out, "\\u{{{:x}}}", u32::from(c)));
        } else {
            out.push_str(character);
        }
    }
    Cow::Owned(out)
}

/// Replaces long runs of spaces by their number.
fn counted(text: &str) -> Cow<'_, str> {
    if !text.contains(&" ".repeat(MOST_SPACES + 1)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(' ') {
        out.push_str(&rest[..start]);
        let run = rest[start..].bytes().take_while(|byte| *byte == b' ').count();
        if run > MOST_SPACES {
            // Writing to a `String` does not fail.
            let _ = write!(out, "[{run} spaces]");
        } else {
            out.push_str(&rest[start..start + run]);
        }
        rest = &rest[start + run..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paint::Paint;
    use proptest::prelude::*;

    fn content(text: &str, columns: usize) -> String {
        let mut rows = Rows::new(columns);
        rows.content(text);
        Paint::NEVER.lines(&rows.finish())
    }

    #[test]
    fn a_line_continues_behind_the_bar() {
        let fake = format!("{}main wants to call read_file", " ".repeat(70));
        let shown = content(&format!("one\n{}{fake}", "x".repeat(10)), 24);
        let rows =
            ["  │   one", "  │   xxxxxxxxxx[70 spa", "  ┆   ces]main wants to", "  ┆    call read_file"];
        assert_eq!(shown.lines().collect::<Vec<_>>(), rows);
    }

    #[test]
    fn a_painted_line_continues_behind_the_bar() {
        let line = format!("\u{1b}[32m✓\u{1b}[0m call \u{1b}[2m{}\u{1b}[0m done\nmain wants", "x".repeat(20));
        let shown = wrapped(&line, 24);
        let rows = [
            "\u{1b}[32m✓\u{1b}[0m call \u{1b}[2mxxxxxxxxxxxxxxxx",
            "  ┆ xxxx\u{1b}[0m done",
            "  ┆ main wants",
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), rows);
        assert_eq!(wrapped("\u{1b}]0;owned", 24), "\\x1b]0;owned");
    }

    #[test]
    fn empty_lines_are_counted() {
        assert_eq!(content("a\n\n\n\n \n\nb\n", 40).matches('\n').count(), 6);
        assert!(content("a\n\n\n\n \n\nb\n", 40).contains("… 2 more empty lines"));
    }

    #[test]
    fn overloaded_characters_and_tabs_take_the_room_that_they_are_given() {
        let overloaded = format!("e{}", "\u{301}".repeat(9));
        assert!(
            content(&overloaded, 60).contains(r"e\u{301}")
                || content(&overloaded, 60).contains(r"\u{65}\u{301}")
        );
        assert_eq!(content("\tx", 40), "  │   →   x\n");
    }

    proptest! {
        /// Whatever the text and the width: each row begins with the bar and fits, so that nothing reaches the first
        /// column, where our own question begins.
        #[test]
        fn every_row_begins_with_the_bar_and_fits(
            text in "([a-z ─│┆\\[\\]\t\n\u{1b}\u{9b}\u{301}\u{3000}水é🙂\u{1f1e9}\u{200d}\u{202e}]|.){0,200}",
            columns in 0usize..120,
        ) {
            for row in content(&text, columns).lines() {
                prop_assert!(row.starts_with(FIRST) || row.starts_with(FURTHER), "{row:?}");
                prop_assert!(!row.chars().any(char::is_control), "{row:?}");
                let inside = &row[FIRST.len()..];
                prop_assert!(BAR + inside.width() < columns.max(NARROWEST), "{row:?}");
            }
        }

        #[test]
        fn a_heading_leaves_the_first_column_after_its_first_row(text in ".{0,200}", columns in 0usize..120) {
            let mut rows = Rows::new(columns);
            rows.heading(&[(Tone::Name, &text), (Tone::Plain, " wants to call x")]);
            prop_assert!(rows.finish().iter().skip(1).all(|row| row.text().starts_with(FURTHER)));
        }
    }
}
