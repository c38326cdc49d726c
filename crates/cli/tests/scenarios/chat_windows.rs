//! A chat in a window, as an emulator shows it: an answer that streams while the window changes, keys at the moment of a
//! question, what is written while nothing happens, and Ctrl-C. Each test records its page in `docs/sessions/`.

use crate::{
    chat_sessions::Page,
    chat_terminal::{chat, whole},
    emulator::Emulator,
    scenario::Scenario,
    terminal_session::Session,
};
use serde_json::{Value, json};
use std::{thread, time::Duration};

const CHAT: &[&str] = &["chat", "hi.worker"];

fn window(scenario: &Scenario, columns: u16, rows: u16) -> Emulator {
    let mut window = Emulator::start(scenario.command_on_terminal(CHAT), columns, rows);
    window.wait_for("/help");
    window
}

/// Waits until the chat waits for the next message, and nothing more is drawn.
fn wait_for_prompt(window: &mut Emulator) {
    window.wait_for_prompt("hi");
    window.settle();
}

fn answered(scenario: &Scenario) -> Vec<Value> {
    let journal = scenario.journal_of_home();
    journal.into_iter().filter(|record| record["kind"] == "answered").collect()
}

#[test]
fn the_emulator_shows_a_streamed_answer_once_in_order_while_the_window_changes() {
    let source: Vec<String> = (0..500)
        .map(|number| format!("line {number:03} {}", "abcdefghij ".repeat(number % 9)).trim_end().to_owned())
        .collect();
    // Two spaces at the end of a line break it in Markdown.
    let answer = json!({"text": source.join("  \n"), "stream": {"chars": 200, "pause_ms": 10}});
    let scenario = chat(&[answer]);
    let mut window = window(&scenario, 40, 10);
    window.type_keys("go\r");
    let widths = [120, 60, 40, 120, 60];
    for (number, columns) in widths.into_iter().enumerate() {
        let reached = format!("line {:03}", number * 90 + 20);
        window.wait(&reached, |window| window.lines().iter().any(|line| line.starts_with(&reached)));
        window.resize(columns, 10);
    }
    window.wait("the end", |window| window.lines().iter().any(|line| line.starts_with("line 499")));
    wait_for_prompt(&mut window);
    let lines: Vec<String> = window.lines().into_iter().filter(|line| line.starts_with("line ")).collect();
    assert_eq!(lines, source);
    let mut page = Page::of_window(
        "chat-streaming.md",
        "A chat: an answer that streams while the window changes",
        "An answer of 500 lines streams into a window of 40 columns and 10 rows. Meanwhile the window gets 120, 60, 40, 120 and 60 \
         columns.",
    );
    page.paragraph("The window at the end:");
    page.screen(&window.picture());
    page.paragraph(&format!(
        "The lines of the answer in the scrollback, with wrapped rows joined, are its {} lines, each once and in order:",
        lines.len()
    ));
    page.screen(&format!("{}\n{}\n{}\n…\n{}", lines[0], lines[1], lines[2], lines[499]));
    assert_eq!(window.leave(), Some(0));
    page.finish();
}

#[test]
fn keys_at_the_moment_of_a_question_decide_nothing() {
    let write = json!({"calls": [{"tool": "write_file", "arguments": {"path": "a.txt", "content": "a"}}], "delay_ms": 300});
    let scenario = chat(&[write]);
    let mut window = window(&scenario, 80, 24);
    window.type_keys("write it\r");
    // Two hundred keys around the moment at which the question appears, those of its answers among them.
    let mut state: u32 = 4711;
    let mut typed = String::from("x");
    while typed.len() < 200 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let letters = b"adreDvqxyn 0123456789.,";
        typed.push(letters[(state >> 16) as usize % letters.len()] as char);
    }
    for key in typed.chars() {
        window.type_keys(key.encode_utf8(&mut [0; 4]));
        thread::sleep(Duration::from_millis(3));
    }
    window.wait_for("Ctrl-G: answer");
    // The composer breaks rows anywhere.
    let without_blanks = |text: &str| text.split_whitespace().collect::<String>();
    let draft = format!(">{}", without_blanks(&typed));
    window.wait("the draft", |window| without_blanks(&window.picture()).contains(&draft));
    window.settle();
    assert!(answered(&scenario).is_empty());
    assert!(window.shows("waiting for you"), "{}", window.picture());
    assert_eq!(window.session().written_within(Duration::from_millis(1500)), 0, "while a question waits");
    let mut page = Page::of_window(
        "chat-question.md",
        "A chat: keys at the moment of a question",
        "The user types two hundred keys while a question appears. They go to the draft, also those that would answer the question.",
    );
    page.screen(&window.picture());
    page.paragraph("Ctrl-G goes to the question. `d` and Enter deny the call, and the draft is still there:");
    window.type_keys("\u{7}d\r");
    wait_for_prompt(&mut window);
    page.screen(&window.picture());
    page.paragraph("Enter sends it:");
    window.type_keys("\r");
    window.wait("the answer", |window| window.lines().iter().filter(|line| *line == "more").count() == 2);
    wait_for_prompt(&mut window);
    page.screen(&window.picture());
    assert_eq!((window.leave(), scenario.read("a.txt")), (Some(0), None));
    let answered = answered(&scenario);
    let said: Vec<&Value> = answered
        .iter()
        .filter(|record| record["step"] == "message.1")
        .map(|record| &record["value"])
        .collect();
    assert_eq!(said, [&json!(typed.trim_end())]);
    page.finish();
}

/// A chat that asks whether it may write a file.
fn asking() -> Scenario {
    let content = "one two three four five six seven eight nine ten\n";
    chat(&[json!({"calls": [{"tool": "write_file", "arguments": {"path": "a.txt", "content": content}}]})])
}

#[test]
fn an_open_question_is_shown_again_for_a_narrower_window() {
    let scenario = asking();
    let mut window = window(&scenario, 80, 24);
    window.type_keys("write it\r");
    window.wait_for("Ctrl-G: answer");
    window.type_keys("a draft");
    window.wait_for("> a draft");
    let subject = "hi wants to call write_file";
    let shown = |window: &Emulator| window.lines().iter().filter(|line| line.starts_with(subject)).count();
    assert_eq!(shown(&window), 1);
    // Nothing is shown again where there is more room, or the same.
    for columns in [100, 80] {
        window.resize(columns, 24);
        window.settle();
        assert_eq!(shown(&window), 1, "{}", window.picture());
    }
    window.resize(30, 24);
    window.wait("the question again", |window| shown(window) == 2);
    window.settle();
    let rows = window.rows();
    let again = rows.iter().rposition(|row| row.starts_with(subject)).expect("it is shown");
    let below = rows[again..].iter().position(|row| row.starts_with("│ ")).expect("the live rows");
    for row in &rows[again + 1..again + below] {
        assert!(row.starts_with("  │ ") || row.starts_with("  ┆ "), "{}", window.picture());
    }
    assert!(window.shows("  │  +one two three four five"), "{}", window.picture());
    assert!(window.shows("> a draft"), "{}", window.picture());
    // All of it was shown: then all of it is shown again.
    window.type_keys("\u{7}v");
    window.wait("all of it", |window| shown(window) == 3);
    window.resize(29, 24);
    window.wait("all of it again", |window| shown(window) == 4);
    window.type_keys("a");
    window.wait("the end of the question", |window| !window.shows("[a] approve"));
    wait_for_prompt(&mut window);
    window.resize(28, 24);
    window.settle();
    assert_eq!(shown(&window), 4, "an answered question is not shown again");
    assert_eq!(window.leave(), Some(0));
    assert!(scenario.read("a.txt").is_some());
}

#[test]
fn a_question_has_the_colours_that_it_has_in_a_run() {
    for (variable, value, coloured) in
        [("NO_COLOR", "", true), ("NO_COLOR", "1", false), ("TERM", "dumb", false)]
    {
        let scenario = asking().env(variable, value);
        let mut session = Session::start(scenario.command_on_terminal(CHAT));
        session.expect("hi");
        session.type_keys(if value == "dumb" { "write it\n" } else { "write it\r" });
        session.expect("+one two");
        session.settle();
        session.type_keys("\u{4}");
        let (code, shown) = session.end_raw();
        // The name of the worker, that of the function, the risk, and an added line.
        for style in ["\u{1b}[36mhi", "\u{1b}[1mwrite_file", "\u{1b}[33mwrite", "\u{1b}[32m"] {
            assert_eq!(shown.contains(style), coloured, "{variable}={value}, {style:?}: {shown:?}");
        }
        // Labelled lines leave the question for later.
        assert_eq!(code, Some(if value == "dumb" { 5 } else { 0 }), "{shown:?}");
    }
}

/// The bytes as text, escape sequences spelled out, and `…` for the seconds of the status row.
fn spelled(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::new();
    for (number, sequence) in text.split('\u{1b}').enumerate() {
        // `[11G4`: what follows the letter is text.
        let end = sequence.find(|c: char| c.is_ascii_alphabetic()).map_or(0, |at| at + 1);
        let (sequence, shown) = sequence.split_at(end);
        out.push_str(if number > 0 { "\\x1b" } else { "" });
        out.push_str(sequence);
        out.push_str(if shown.is_empty() { "" } else { "…" });
    }
    out
}

#[test]
fn nothing_is_written_while_nothing_happens_and_little_while_something_does() {
    let scenario = chat(&[json!({"text": "hello"}), json!({"text": "late", "delay_ms": 600_000})]);
    let mut window = window(&scenario, 80, 10);
    window.type_keys("hi\r");
    window.wait_for("hello");
    wait_for_prompt(&mut window);
    let mut page = Page::of_window(
        "chat-idle.md",
        "A chat: bytes that are written",
        "Idle, a chat writes nothing. While an answer is made, it writes the seconds of the status row.",
    );
    page.screen(&window.picture());
    let idle = Duration::from_secs(if whole() { 10 } else { 1 });
    assert_eq!(window.session().written_within(idle), 0, "while idle");
    page.paragraph("Bytes that are written from here on until the user presses a key: 0.");
    window.type_keys("again\r");
    window.wait_for("answering");
    window.settle();
    page.paragraph("The user asks something, and the answer takes long:");
    page.screen(&window.picture());
    let mut ticks: Vec<Vec<u8>> = Vec::new();
    for _ in 0..if whole() { 10 } else { 2 } {
        let before = window.session().raw().len();
        assert!(window.session().read(Duration::from_secs(60)), "the status row counts no seconds");
        window.session().settle();
        let tick = &window.session().raw()[before..];
        assert!(tick.len() <= 100, "{} bytes in a tick: {}", tick.len(), spelled(tick));
        ticks.push(tick.to_vec());
    }
    page.paragraph("Once a second, this is written:");
    page.screen(&spelled(&ticks[0]));
    window.type_keys("\u{3}");
    assert_eq!(window.leave(), Some(0));
    page.finish();
}

#[test]
fn control_c_does_what_the_table_says() {
    let text = "The first half of the answer.\n\nThe other half.";
    let cut_off = json!({"text": text, "stream": {"chars": 31, "pause_ms": 600_000}});
    let write = json!({"calls": [{"tool": "write_file", "arguments": {"path": "a.txt", "content": "a"}}]});
    let scenario = chat(&[json!({"text": "Hello."}), cut_off, write]);
    let mut window = window(&scenario, 80, 14);
    let mut page = Page::of_window(
        "chat-ctrl-c.md",
        "A chat: Ctrl-C",
        "What Ctrl-C does depends on the focus, the draft and whether an answer is made, in this order.",
    );
    let shown = |page: &mut Page, window: &mut Emulator, title: &str| {
        window.settle();
        page.paragraph(title);
        page.screen(&window.picture());
    };
    window.type_keys("hi\r");
    window.wait_for("Hello.");
    wait_for_prompt(&mut window);
    window.type_keys("\u{3}");
    window.wait_for("Ctrl-D ends the chat");
    shown(&mut page, &mut window, "Idle, without a draft: a hint.");

    window.type_keys("half a thought");
    window.wait_for("> half a thought");
    window.type_keys("\u{3}");
    window.wait("an empty composer", |window| !window.shows("half a thought"));
    shown(&mut page, &mut window, "With a draft: it is cleared.");
    window.type_keys("\u{1b}[A");
    window.wait_for("> half a thought");
    shown(&mut page, &mut window, "Up brings it back.");

    window.type_keys("\u{3}go\r");
    window.wait_for("The first half of the answer.");
    window.type_keys("and another");
    window.wait_for("> and another");
    window.type_keys("\u{3}");
    window.wait("an empty composer", |window| !window.shows("and another"));
    assert!(window.shows("answering"), "the answer goes on: {}", window.picture());
    shown(
        &mut page,
        &mut window,
        "While an answer is made, with a draft: the draft is cleared, and the answer is not touched.",
    );
    window.type_keys("\u{3}");
    window.wait_for("(cut off)");
    wait_for_prompt(&mut window);
    shown(&mut page, &mut window, "Without a draft: the answer is stopped. What was said stays, marked.");

    window.type_keys("write\r");
    window.wait_for("Ctrl-G: answer");
    window.type_keys("\u{7}");
    window.wait_for("Escape: back");
    window.type_keys("\u{3}");
    window.wait_for("Ctrl-G: answer");
    assert_eq!(answered(&scenario).len(), 2);
    shown(
        &mut page,
        &mut window,
        "At a question that has the focus: the focus goes back to the composer, and nothing is decided.",
    );
    window.type_keys("\u{3}");
    window.wait("no question", |window| !window.shows("Ctrl-G"));
    wait_for_prompt(&mut window);
    shown(
        &mut page,
        &mut window,
        "At a question without the focus, without a draft: the answer is stopped, and the call with it.",
    );
    assert_eq!((window.leave(), scenario.read("a.txt")), (Some(0), None));
    page.finish();
}
