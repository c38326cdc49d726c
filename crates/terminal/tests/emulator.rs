//! Contents of the terminal, in an emulator that wraps rows again when its width changes.

mod shown;

use llm_do_terminal::{Caret, Line, Live, Reflow, Settings};
use proptest::prelude::*;
use shown::Shown;

/// The beginning of live rows, which distinguishes them from the transcript.
const MARK: char = '~';

fn live(rows: &[String], caret: Option<Caret>) -> Live {
    Live { rows: rows.iter().map(|row| Line::plain(row)).collect(), caret }
}

fn source(lines: usize) -> Vec<String> {
    (0..lines)
        .map(|number| format!("line {number:03} {}", "abcdefghij ".repeat(number % 9)).trim_end().to_owned())
        .collect()
}

#[test]
fn lines_that_stream_while_the_width_changes_are_there_once_in_order() {
    let mut shown = Shown::new(40, 10);
    let source = source(500);
    let caret = Some(Caret { row: 1, column: 2 });
    for (number, line) in source.iter().enumerate() {
        let columns = [40, 120, 60][number / 40 % 3];
        shown.resize(columns, 10);
        let status = format!("{MARK} {} {}", number, "status ".repeat(9));
        let rows = [format!("{MARK} tail {number}"), format!("{MARK} draft"), status];
        shown.update(&[Line::plain(line)], live(&rows, caret));
    }
    shown.resize(40, 10);
    shown.update(&[], Live::default());
    assert_eq!(shown.text(), source);
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let mut shown = Shown::new(40, 10);
    let rows = [format!("{MARK} draft"), format!("{MARK} status")];
    let state = live(&rows, Some(Caret { row: 0, column: 3 }));
    shown.update(&[Line::plain("hello")], state.clone());
    let before = shown.written();
    for _ in 0..100 {
        shown.update(&[], state.clone());
        shown.resize(40, 10);
    }
    assert_eq!(shown.written(), before);
}

#[test]
fn a_status_tick_takes_at_most_a_hundred_bytes() {
    let mut shown = Shown::new(120, 30);
    let caret = Some(Caret { row: 0, column: 7 });
    let rows = |tick: usize| {
        let spinner = ['⠋', '⠙', '⠹', '⠸'][tick % 4];
        [
            format!("{MARK} draft"),
            format!(
                "{MARK} {spinner} main is thinking {}s · 12.{}k tokens · Ctrl-C stops",
                tick / 10,
                tick % 10
            ),
        ]
    };
    shown.update(&[], live(&rows(0), caret));
    for tick in 1..50 {
        let before = shown.written();
        shown.update(&[], live(&rows(tick), caret));
        let bytes = shown.written() - before;
        assert!(bytes <= 100, "{bytes} bytes");
        assert_eq!(shown.cursor(), Some((7, 0)));
    }
}

#[test]
fn long_lines_and_many_lines_take_work_for_what_is_new_only() {
    let mut shown = Shown::counting(80, 24);
    let rows = [format!("{MARK} draft")];
    let state = live(&rows, Some(Caret { row: 0, column: 3 }));
    shown.update(&[Line::plain(&"x".repeat(10_000_000))], state.clone());
    let before = shown.written();
    for number in 0..100_000 {
        shown.update(&[Line::plain(&format!("line {number}"))], state.clone());
    }
    let bytes = (shown.written() - before) / 100_000;
    assert!(bytes < 100, "{bytes} bytes for a line");
}

#[test]
fn text_of_all_scripts_stays_whole_in_the_transcript() {
    let mut shown = Shown::new(20, 6);
    let lines = ["水水水水水水水水水水水水", "e\u{301}a\u{308}o", "שלום עולם", "مرحبا بالعالم", "naïve 🙂 x"];
    for line in lines {
        shown.update(
            &[Line::plain(line)],
            live(&[format!("{MARK} 水 draft")], Some(Caret { row: 0, column: 5 })),
        );
        shown.resize(11, 6);
        shown.resize(20, 6);
    }
    shown.update(&[], Live::default());
    // The emulator has no cell for a mark of its own, and keeps the blank cell where a wide character did not fit.
    let plain = |text: &str| text.replace(['\u{301}', '\u{308}', ' '], "");
    let expected: Vec<String> = lines.iter().map(|line| plain(line)).collect();
    assert_eq!(shown.text().iter().map(|line| plain(line)).collect::<Vec<_>>(), expected);
}

#[test]
fn foreign_text_moves_nothing() {
    let mut shown = Shown::new(40, 6);
    let hostile = "a\x1b[2J\x1b[H\x1b]0;title\x07\u{9b}2J\rb\u{8}\u{202e}c";
    shown.update(&[Line::plain("first")], Live::default());
    shown.update(&[Line::plain(hostile)], live(&[format!("{MARK}{hostile}")], None));
    shown.update(&[], Live::default());
    let escaped = "a\\x1b[2J\\x1b[H\\x1b]0;title\\x07\\x9b2J\\rb\\x08\\u{202e}c";
    assert_eq!(shown.text(), ["first", escaped]);
}

#[test]
fn a_terminal_of_one_cell_works() {
    let mut shown = Shown::new(1, 1);
    let rows = [format!("{MARK}水"), format!("{MARK}b")];
    for (columns, lines) in [(1, 1), (2, 1), (1, 3), (5, 5), (1, 1)] {
        shown.resize(columns, lines);
        shown.update(&[Line::plain("ab")], live(&rows, Some(Caret { row: 1, column: 9 })));
    }
    shown.resize(30, 30);
    shown.update(&[], Live::default());
    let transcript: Vec<String> =
        shown.text().into_iter().filter(|line| !line.is_empty() && !line.starts_with(MARK)).collect();
    assert_eq!(transcript, ["ab"; 5]);
}

#[test]
fn a_wide_character_in_a_window_of_one_column_erases_nothing() {
    let mut shown = Shown::new(6, 8);
    shown.update(&[Line::plain("text")], live(&[format!("{MARK}ß水水")], Some(Caret { row: 0, column: 3 })));
    shown.resize(1, 4);
    shown.resize(60, 8);
    shown.update(&[], Live::default());
    assert_eq!(shown.text()[0], "text");
}

#[test]
fn of_live_rows_higher_than_the_screen_the_end_is_shown() {
    let mut shown = Shown::new(20, 4);
    let rows: Vec<String> = (0..9).map(|number| format!("{MARK}{number}")).collect();
    shown.update(&[Line::plain("text")], live(&rows, Some(Caret { row: 8, column: 2 })));
    assert_eq!(shown.screen(), ["~5", "~6", "~7", "~8"]);
    shown.update(&[], live(&rows, Some(Caret { row: 2, column: 1 })));
    assert_eq!(shown.screen(), ["~2", "~3", "~4", "~5"]);
    assert_eq!(shown.cursor(), Some((1, 0)));
}

#[test]
fn another_program_gets_the_terminal_without_live_rows() {
    let mut shown = Shown::new(20, 6);
    let state = live(&[format!("{MARK} draft")], Some(Caret { row: 0, column: 2 }));
    shown.update(&[Line::plain("one")], state.clone());
    shown.screen_mut().leave().expect("written");
    shown.feed();
    assert_eq!((shown.text(), shown.cursor()), (vec!["one".to_owned()], Some((0, 1))));
    shown.update(&[Line::plain("two")], state);
    shown.screen_mut().enter().expect("written");
    shown.feed();
    assert_eq!(shown.text(), ["one", "two", "~ draft"]);
    assert_eq!(shown.cursor(), Some((2, 2)));
}

#[test]
fn a_terminal_that_cuts_rows_keeps_its_transcript() {
    // The emulator wraps rows again. Rows that are short are the same for both kinds of terminals.
    let settings = Settings { reflow: Reflow::Cuts, ..Settings::default() };
    let mut shown = Shown::with(40, 10, settings);
    for number in 0..30 {
        shown.resize([40, 12, 25][number % 3], 10);
        shown.update(
            &[Line::plain(&format!("line {number}"))],
            live(&[format!("{MARK} x"), format!("{MARK} y")], None),
        );
    }
    shown.update(&[], Live::default());
    let expected: Vec<String> = (0..30).map(|number| format!("line {number}")).collect();
    assert_eq!(shown.text(), expected);
}

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<String>),
    Live(Vec<String>, usize, usize),
    Resize(usize, usize),
}

/// Steps with texts that match a pattern.
fn step(text: &'static str) -> impl Strategy<Value = Step> {
    prop_oneof![
        prop::collection::vec(text, 1..4).prop_map(Step::Append),
        (prop::collection::vec(text, 0..5), 0usize..5, 0usize..60).prop_map(|(rows, row, column)| {
            Step::Live(rows.iter().map(|row| format!("{MARK}{}", row.to_uppercase())).collect(), row, column)
        }),
        (1usize..70, 1usize..14).prop_map(|(columns, rows)| Step::Resize(columns, rows)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is appended, drawn and resized: the transcript is shown once, in order, and otherwise only live rows.
    #[test]
    fn the_transcript_is_there_once_in_order(steps in prop::collection::vec(step("[a-z 水🙂éü]{0,50}"), 1..25)) {
        let mut shown = Shown::new(30, 8);
        let mut expected: Vec<String> = Vec::new();
        let mut state = Live::default();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Append(texts) => {
                    let lines: Vec<String> = texts.iter().map(|text| format!("#{number} {text}")).collect();
                    let styled: Vec<Line> = lines.iter().map(|line| Line::plain(line)).collect();
                    shown.update(&styled, state.clone());
                    expected.extend(lines.iter().map(|line| line.trim_end().to_owned()));
                }
                Step::Live(rows, row, column) => {
                    // As a caller does: the caret stands in the text.
                    let width = rows.get(row).map_or(0, |row| Line::plain(row).width(Settings::default().ambiguous));
                    state = live(&rows, Some(Caret { row, column: column.min(width) }));
                    shown.update(&[], state.clone());
                }
                Step::Resize(columns, rows) => shown.resize(columns, rows),
            }
        }
        // Wide enough that what was cut by narrow windows is joined again. What has left the screen of a live row can't be
        // erased, and the emulator may take it and the line that follows for one: live rows have capital letters. In a
        // window of one column it has no room for wide characters.
        shown.resize(200, 40);
        shown.update(&[], Live::default());
        let plain = |lines: &[String]| -> String {
            lines.concat().chars().filter(|c| !c.is_uppercase() && !matches!(c, '水' | '🙂' | ' ' | '~')).collect()
        };
        prop_assert_eq!(plain(&shown.text()), plain(&expected));
    }

    /// The live rows and the cursor are those that were wanted, whatever was drawn before.
    #[test]
    fn the_live_rows_are_the_wanted_ones(steps in prop::collection::vec(step("[a-z 水🙂éü]{0,24}"), 1..25)) {
        let mut shown = Shown::new(60, 12);
        let mut state = Live::default();
        for step in steps {
            match step {
                Step::Append(texts) => {
                    let lines: Vec<Line> = texts.iter().map(|text| Line::plain(text)).collect();
                    shown.update(&lines, state.clone());
                }
                Step::Live(rows, row, column) => {
                    let width = rows.get(row).map_or(0, |row| Line::plain(row).width(Settings::default().ambiguous));
                    state = live(&rows, Some(Caret { row, column: column.min(width) }));
                    shown.update(&[], state.clone());
                }
                Step::Resize(columns, _) => shown.resize(columns.max(56), 12),
            }
            let rows: Vec<String> = state.rows.iter().map(|row| row.text().trim_end().to_owned()).collect();
            let screen = shown.screen();
            let screen = &screen[..screen.iter().rposition(|row| !row.is_empty()).map_or(0, |last| last + 1)];
            prop_assert!(screen.ends_with(&rows), "{screen:?} does not end with {rows:?}");
            if let Some(caret) = state.caret.filter(|caret| caret.row < rows.len()) {
                let top = screen.len() - rows.len();
                prop_assert_eq!(shown.cursor(), Some((caret.column, top + caret.row)));
            }
        }
    }
}
