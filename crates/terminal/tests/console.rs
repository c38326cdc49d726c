//! Routing of keys in a console, and the rows that it shows.

use anstyle::Style;
use llm_do_terminal::{
    Action, Ambiguous, Answer, Candidate, Candidates, Caret, Choice, Code, Completer, Composer, Console,
    Editing, Event, Field, FieldKind, History, Key, KeyText, Kind, Line, Modifiers, Question, Rejection,
    Settings, Size,
};
use proptest::prelude::*;
use std::{cell::Cell, rc::Rc};

const SIZE: (usize, usize) = (50, 12);

fn console() -> Console<Vec<u8>> {
    Console::new(Vec::new(), Size::new(SIZE.0, SIZE.1), Settings::default())
}

fn press(console: &mut Console<Vec<u8>>, key: Key) -> Option<Action> {
    console.event(Event::Key(key)).expect("a vector takes everything")
}

fn type_text(console: &mut Console<Vec<u8>>, text: &str) {
    for c in text.chars() {
        assert_eq!(press(console, Key::char(c)), None);
    }
}

/// The lines that an emulator shows.
fn shown(console: &Console<Vec<u8>>) -> Vec<String> {
    let mut emulator = avt::Terminal::with_scrollback(SIZE.0, SIZE.1, None).expect("a size");
    emulator.feed(std::str::from_utf8(console.get_ref()).expect("text"));
    emulator.screen().text().into_iter().filter(|line| !line.is_empty()).collect()
}

fn approval(id: &str) -> Question {
    let choice = |key, label: &str, text: Option<&str>| Choice {
        key,
        label: label.into(),
        text: text.map(|label| KeyText { label: label.into(), start: String::new() }),
        options: Vec::new(),
    };
    Question {
        id: id.into(),
        text: vec![Line::plain("main → notes wants to call write_file"), Line::plain("path \"a.md\"\x1b[2J")],
        kind: Kind::Keys(vec![
            choice('a', "approve", None),
            choice('r', "remember", None),
            choice('d', "deny", Some("reason")),
        ]),
    }
}

const FOCUS: Key = Key::control('g');
const ESCAPE: Key = Key::plain(Code::Escape);

#[test]
fn a_question_stands_above_the_draft_and_is_answered_with_the_focus() {
    let mut console = console();
    type_text(&mut console, "a draft");
    console.ask(approval("call 1"));
    type_text(&mut console, " ad");
    assert_eq!(
        shown(&console),
        [
            "│ main → notes wants to call write_file",
            "│ path \"a.md\"\\x1b[2J",
            "[a] approve  [r] remember  [d] deny",
            "(Ctrl-G: answer)",
            "> a draft ad",
        ]
    );
    press(&mut console, FOCUS);
    let answer = press(&mut console, Key::char('a'));
    assert_eq!(answer, Some(Action::Answered { id: "call 1".into(), answer: Answer::Key('a', None) }));
    assert_eq!(shown(&console), ["> a draft ad"]);
    assert_eq!(console.composer().draft().text(), "a draft ad");
}

#[test]
fn a_small_window_shows_what_is_asked_before_its_keys() {
    let small = Size::new(20, 8);
    let mut console = Console::new(Vec::new(), small, Settings::default());
    let shown = |console: &Console<Vec<u8>>| {
        let mut emulator = avt::Terminal::with_scrollback(20, 8, None).expect("a size");
        emulator.feed(std::str::from_utf8(console.get_ref()).expect("text"));
        emulator.screen().text().join("\n")
    };
    console.ask(approval("call 1"));
    console.draw().expect("written");
    let unfocused = shown(&console);
    assert!(unfocused.contains("s to call write_f") && unfocused.contains("path"), "{unfocused}");
    assert!(unfocused.contains("Ctrl-G: answer") && !unfocused.contains("approve"), "{unfocused}");
    press(&mut console, FOCUS);
    assert!(shown(&console).contains("[a] approve"), "{}", shown(&console));
}

#[test]
fn the_next_question_has_no_focus() {
    let mut console = console();
    console.ask(approval("call 1"));
    press(&mut console, FOCUS);
    press(&mut console, Key::char('a'));
    console.ask(approval("call 2"));
    assert_eq!(press(&mut console, Key::char('a')), None);
    assert_eq!(console.composer().draft().text(), "a");
    // Nor one that replaces the question that has it.
    press(&mut console, FOCUS);
    console.ask(approval("call 3"));
    assert_eq!(press(&mut console, Key::char('a')), None);
    console.withdraw("call 3");
    assert_eq!(press(&mut console, FOCUS), None);
    assert!(!console.is_question_focused());
}

#[test]
fn a_refusal_takes_a_reason() {
    let mut console = console();
    console.ask(approval("x"));
    for key in [FOCUS, Key::char('d'), Key::char('n'), ESCAPE, Key::char('z'), FOCUS, Key::char('d')] {
        assert_eq!(press(&mut console, key), None);
    }
    type_text(&mut console, "not now");
    let answer = press(&mut console, Key::ENTER);
    assert_eq!(
        answer,
        Some(Action::Answered { id: "x".into(), answer: Answer::Key('d', Some("not now".into())) })
    );
    assert_eq!(console.composer().draft().text(), "z");
}

#[test]
fn forms_are_filled_in_and_can_be_rejected() {
    let field = |name: &str, kind, required| Field { name: name.into(), note: String::new(), kind, required };
    let mut console = console();
    console.ask(Question {
        id: "form".into(),
        text: vec![Line::plain("Who are you?")],
        kind: Kind::Form(vec![
            field("name", FieldKind::Text, true),
            field("size", FieldKind::Pick(vec!["small".into(), "large".into()]), false),
            field("age", FieldKind::Text, false),
        ]),
    });
    press(&mut console, FOCUS);
    for _ in 0..3 {
        assert_eq!(press(&mut console, Key::ENTER), None);
    }
    assert!(shown(&console).iter().any(|line| line.contains("`name` is required")), "{:?}", shown(&console));
    type_text(&mut console, "Ada");
    press(&mut console, Key::plain(Code::Tab));
    type_text(&mut console, "l");
    assert!(shown(&console).contains(&"size:  small  [large]".to_owned()), "{:?}", shown(&console));
    press(&mut console, Key::ENTER);
    let filled = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let expected = Answer::Form(vec![filled("name", "Ada"), filled("size", "large")]);
    assert_eq!(
        press(&mut console, Key::ENTER),
        Some(Action::Answered { id: "form".into(), answer: expected })
    );
    console.reject("form", "`age` must be a number");
    console.draw().expect("written");
    type_text(&mut console, "36");
    let expected = Answer::Form(vec![filled("name", "Ada"), filled("size", "large"), filled("age", "36")]);
    assert_eq!(
        press(&mut console, Key::ENTER),
        Some(Action::Answered { id: "form".into(), answer: expected })
    );
    // The field that is wrong has the caret.
    console.reject("form", Rejection { problem: "too short".into(), field: Some("name".into()) });
    console.draw().expect("written");
    type_text(&mut console, "m");
    for key in [Key::ENTER, Key::ENTER] {
        assert_eq!(press(&mut console, key), None);
    }
    let expected = Answer::Form(vec![filled("name", "Adam"), filled("size", "large"), filled("age", "36")]);
    assert_eq!(
        press(&mut console, Key::ENTER),
        Some(Action::Answered { id: "form".into(), answer: expected })
    );
}

#[test]
fn options_are_picked_and_texts_entered() {
    let mut console = console();
    let options = vec!["one".into(), "two".into(), "three".into()];
    console.ask(Question { id: "p".into(), text: vec![], kind: Kind::Pick(options) });
    for key in [FOCUS, Key::plain(Code::Down), Key::char('3'), Key::plain(Code::Up)] {
        press(&mut console, key);
    }
    assert_eq!(shown(&console)[..3], ["  1 one", "* 2 two", "  3 three"]);
    let answer = press(&mut console, Key::ENTER);
    assert_eq!(answer, Some(Action::Answered { id: "p".into(), answer: Answer::Pick(1) }));
    console.ask(Question { id: "t".into(), text: vec![], kind: Kind::Text });
    press(&mut console, FOCUS);
    type_text(&mut console, "hi");
    press(&mut console, Key::control('j'));
    console.event(Event::Paste("there\n".into())).expect("written");
    let answer = press(&mut console, Key::ENTER);
    assert_eq!(answer, Some(Action::Answered { id: "t".into(), answer: Answer::Text("hi\nthere\n".into()) }));
}

#[test]
fn the_selected_option_can_be_read_in_a_narrow_window() {
    let long = "a text of more than fifty columns, of which the end is worth reading";
    let mut console = console();
    let pick = |id: &str, kind| Question { id: id.into(), text: vec![Line::plain("Which?")], kind };
    console.ask(pick("pick", Kind::Pick(vec![long.into(), "short".into()])));
    press(&mut console, FOCUS);
    let text = |console: &Console<Vec<u8>>| shown(console).concat();
    assert!(text(&console).contains(&format!("* 1 {long}")), "{:?}", shown(&console));
    press(&mut console, Key::plain(Code::Down));
    assert!(text(&console).contains("* 2 short") && !text(&console).contains("worth reading"));
    // The caret is on the row of the selected option.
    let options = ["first", "second", "third", "fourth", "fifth option"].map(str::to_owned).to_vec();
    let kind = FieldKind::Pick(options);
    let field = Field { name: "field".into(), note: String::new(), kind, required: true };
    console.ask(pick("form", Kind::Form(vec![field])));
    press(&mut console, FOCUS);
    press(&mut console, Key::char('5'));
    assert!(text(&console).contains("[fifthoption]"), "{:?}", shown(&console));
}

#[test]
fn keys_after_a_resize_are_drawn_for_the_new_size() {
    let size = Rc::new(Cell::new(Size::new(40, 30)));
    let asked = Rc::clone(&size);
    let mut console = Console::new(Vec::new(), size.get(), Settings::default()).measured(move || asked.get());
    let mut emulator = avt::Terminal::with_scrollback(40, 30, None).expect("a size");
    let mut fed = 0;
    let mut feed = |emulator: &mut avt::Terminal, console: &Console<Vec<u8>>| {
        let text = std::str::from_utf8(&console.get_ref()[fed..]).expect("text");
        emulator.feed(text);
        fed += text.len();
    };
    // The emulator keeps empty rows below the cursor where terminals give them up: here are none.
    console.print(&vec![Line::plain("said before"); 30]).expect("a vector takes everything");
    console.set_status(Line::plain(&"status ".repeat(5)));
    console.ask(approval("call 1"));
    type_text(&mut console, "a draft that takes all of the row");
    feed(&mut emulator, &console);
    // The window has changed, and the event that says so comes behind keys.
    size.set(Size::new(20, 30));
    emulator.resize(20, 30);
    type_text(&mut console, " and");
    press(&mut console, FOCUS);
    console.event(Event::Resize(size.get())).expect("a vector takes everything");
    feed(&mut emulator, &console);
    let lines = emulator.screen().text().into_iter();
    let questions = lines.filter(|line| line.contains("main → notes")).count();
    assert_eq!(questions, 1, "{:?}", emulator.screen().text());
}

#[test]
fn a_size_that_lasts_is_for_the_caller() {
    let mut console = console();
    type_text(&mut console, "a draft");
    let before = console.get_ref().len();
    let action = console.event(Event::Settled).expect("a vector takes everything");
    assert_eq!((action, console.get_ref().len()), (Some(Action::Settled), before));
}

#[test]
fn notes_of_candidates_begin_in_one_column() {
    struct Names;
    impl Completer for Names {
        fn candidates(&mut self, _: &str, caret: usize) -> Option<Candidates> {
            let candidate = |text: &str| Candidate { text: text.into(), note: "does it".into() };
            let list =
                ["/help ", "/tools", "/a-name-of-more-than-twenty-four-columns "].map(candidate).into();
            Some(Candidates { replaces: 0..caret, list })
        }
    }
    let composer = Composer::new(Editing::Emacs, History::default(), Box::new(Names));
    let mut console = console().with_composer(composer);
    type_text(&mut console, "/");
    assert_eq!(
        shown(&console),
        [
            "* /help                     does it",
            "  /tools                    does it",
            "  /a-name-of-more-than-twenty-four-columns  does",
            "> /",
        ]
    );
}

#[test]
fn control_c_clears_then_stops_then_hints() {
    let mut console = console();
    console.set_busy(true);
    type_text(&mut console, "draft");
    assert_eq!(press(&mut console, Key::control('c')), None);
    assert_eq!(press(&mut console, Key::control('c')), Some(Action::Interrupt));
    console.set_busy(false);
    assert_eq!(press(&mut console, Key::control('c')), None);
    assert_eq!(shown(&console), [">", "Ctrl-D ends the chat"]);
    press(&mut console, Key::plain(Code::Up));
    assert_eq!(shown(&console), ["> draft"]);
    press(&mut console, Key::control('c'));
    assert_eq!(press(&mut console, Key::control('d')), Some(Action::End));
}

#[test]
fn characters_of_all_scripts_are_one_step_each() {
    let characters = ["水", "e\u{301}", "👩\u{200d}🔬", "ש", "ل", "🇩🇪", "क्षि", "a"];
    let mut console = console();
    console.event(Event::Paste(characters.concat())).expect("written");
    let width = |text: &str| Line::plain(text).width(Ambiguous::Narrow);
    for rest in (0..characters.len()).rev() {
        let view = console.composer().view(Size::new(SIZE.0, SIZE.1), Ambiguous::Narrow, 5);
        let shown = characters[..=rest].concat();
        assert_eq!(view.caret, Some(Caret { row: 0, column: 2 + width(&shown) }));
        press(&mut console, Key::plain(Code::Backspace));
        assert_eq!(console.composer().draft().text(), characters[..rest].concat());
    }
    // A mark that is typed joins the character before the caret.
    type_text(&mut console, "e\u{301}");
    press(&mut console, Key::plain(Code::Left));
    assert_eq!(console.composer().draft().caret(), 0);
}

#[test]
fn queued_messages_are_seen_and_taken_back() {
    let mut console = console();
    console.set_queue((1..=4).map(|number| format!("message {number}\nmore")).collect());
    console.set_status(Line::styled("thinking", Style::new()));
    console.draw().expect("written");
    assert_eq!(
        shown(&console),
        ["queued: message 1 …", "queued: message 2 …", "queued: 2 more", ">", "thinking"]
    );
    assert_eq!(press(&mut console, Key::plain(Code::Up)), Some(Action::EditQueued));
}

#[test]
fn notifications_come_only_without_the_focus() {
    let mut console = console();
    let mut notified = |event: Option<Event>| {
        if let Some(event) = event {
            console.event(event).expect("written");
        }
        console.notify("a question waits").expect("written")
    };
    assert!(!notified(None));
    assert!(notified(Some(Event::Focus(false))));
    assert!(!notified(Some(Event::Focus(true))));
}

#[test]
fn a_title_is_written_when_it_changes() {
    let mut console = console();
    console.set_title("a\x07b").expect("written");
    console.set_title("a\x07b").expect("written");
    assert_eq!(console.get_ref(), b"\x1b]2;a\\x07b\x1b\\");
}

fn any_key() -> impl Strategy<Value = Key> {
    let code = prop_oneof![
        any::<char>().prop_filter("a character", |c| !c.is_control()).prop_map(Code::Char),
        prop::sample::select(vec!['a', 'd', 'r', 'e', 'y', 'n', '1', ' ', 'j', 'c', 'g'])
            .prop_map(Code::Char),
        prop::sample::select(vec![
            Code::Enter,
            Code::Tab,
            Code::Backspace,
            Code::Delete,
            Code::Escape,
            Code::Up,
            Code::Down,
            Code::Left,
            Code::Right,
            Code::Home,
            Code::End,
            Code::Function(1),
        ]),
    ];
    (code, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(code, control, alt, shift)| Key {
        code,
        modifiers: Modifiers { control: control && alt, alt: alt && shift, shift },
    })
}

/// A completer that completes everything with the same candidates.
struct Everything;

impl Completer for Everything {
    fn candidates(&mut self, _: &str, caret: usize) -> Option<Candidates> {
        let candidate = |text: &str| Candidate { text: text.into(), note: "a note".into() };
        let list = ["/help", "水", "a\x1b[2J"].map(candidate).to_vec();
        Some(Candidates { replaces: caret.saturating_sub(1)..caret, list })
    }
}

/// Something that happens to a console.
#[derive(Clone, Debug)]
enum Happening {
    Event(Event),
    Ask(Question),
    Reject,
    Queue(Vec<String>),
    Print(String),
}

fn form() -> Question {
    let field =
        |name: &str, kind, required| Field { name: name.into(), note: "a note".into(), kind, required };
    Question {
        id: "form".into(),
        text: vec![Line::plain("A form"); 4],
        kind: Kind::Form(vec![
            field("name", FieldKind::Text, true),
            field("size", FieldKind::Pick(vec!["small".into(), "large".into()]), true),
            field("none", FieldKind::Pick(Vec::new()), false),
        ]),
    }
}

fn happening() -> impl Strategy<Value = Happening> {
    let text = "[a-z /@水🙂e\u{301}\u{200d}\n\t\x1b\u{9b}\u{202e}]{0,40}";
    let question = |kind| Question { id: "q".into(), text: vec![Line::plain("a question")], kind };
    prop_oneof![
        12 => any_key().prop_map(|key| Happening::Event(Event::Key(key))),
        3 => Just(Happening::Event(Event::Key(FOCUS))),
        2 => text.prop_map(|text| Happening::Event(Event::Paste(text))),
        2 => (1usize..50, 1usize..10).prop_map(|(columns, rows)| Happening::Event(Event::Resize(Size::new(columns, rows)))),
        2 => prop::sample::select(vec![
            approval("call"),
            form(),
            question(Kind::Text),
            question(Kind::Pick(vec!["one".into(), "two".into()])),
            question(Kind::Pick(Vec::new())),
            question(Kind::Keys(Vec::new())),
        ]).prop_map(Happening::Ask),
        1 => Just(Happening::Reject),
        1 => prop::collection::vec(text, 0..6).prop_map(Happening::Queue),
        2 => text.prop_map(Happening::Print),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Keys that are typed when a question appears answer nothing, and have the same effect on the draft as without a
    /// question.
    #[test]
    fn no_key_typed_unaware_answers_a_question(
        keys in prop::collection::vec(any_key().prop_filter("not the focus", |key| *key != FOCUS), 200),
        at in 0usize..200,
    ) {
        let (mut asked, mut undisturbed) = (console(), console());
        for (number, key) in keys.into_iter().enumerate() {
            if number == at {
                asked.ask(approval("call 1"));
            }
            let action = press(&mut asked, key);
            let answered = matches!(action, Some(Action::Answered { .. }));
            prop_assert!(!answered);
            prop_assert_eq!(action, press(&mut undisturbed, key));
            prop_assert_eq!(asked.composer().draft().text(), undisturbed.composer().draft().text());
            prop_assert_eq!(asked.composer().draft().caret(), undisturbed.composer().draft().caret());
        }
        prop_assert!(!asked.is_question_focused());
    }

    /// Whatever happens in a window of whatever size: nothing that was pasted or printed commands the terminal.
    #[test]
    fn nothing_breaks_a_console(vi in any::<bool>(), happenings in prop::collection::vec(happening(), 0..60)) {
        let editing = if vi { Editing::Vi } else { Editing::Emacs };
        let composer = Composer::new(editing, History::new(vec!["older".into()]), Box::new(Everything));
        let mut console = console().with_composer(composer);
        for happening in happenings {
            match happening {
                Happening::Event(event) => _ = console.event(event).expect("written"),
                Happening::Ask(question) => console.ask(question),
                Happening::Reject => console.reject("form", "not like that"),
                Happening::Queue(queue) => console.set_queue(queue),
                Happening::Print(text) => console.print(&[Line::plain(&text)]).expect("written"),
            }
            console.draw().expect("written");
        }
        let text = std::str::from_utf8(console.get_ref()).expect("updates are whole");
        let hidden = text.contains(['\u{9b}', '\u{202e}']);
        prop_assert!(!hidden);
        // Each Escape begins a sequence that the screen writes.
        for sequence in text.split('\x1b').skip(1) {
            let end = sequence.find(|c: char| c != '[' && c != '?' && !c.is_ascii_digit());
            let last = end.and_then(|end| sequence[end..].chars().next());
            let known = matches!(last, Some('A' | 'B' | 'G' | 'J' | 'K' | 'h' | 'l'));
            prop_assert!(known, "{sequence:?}");
        }
    }
}
