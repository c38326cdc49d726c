use super::*;
use crate::{
    conversation::{FINAL_TOOL, OutputContract},
    json,
    model::Delta,
    schema::Schema,
};
use proptest::{prelude::*, sample::Index};
use serde_json::json;

fn tracker(schema: &Value) -> Tracker {
    let schema = Schema::new(schema.clone()).unwrap();
    Tracker::new(&OutputContract::new(Some(Arc::new(schema)), true), false).unwrap()
}

fn text(text: &str) -> Delta {
    Delta::Text { text: text.into() }
}

fn call(name: &str) -> Delta {
    Delta::Call { name: name.into() }
}

fn arguments(text: &str) -> Delta {
    Delta::Arguments { call: 0, text: text.into() }
}

/// A client: the value so far, and each state that it has had.
#[derive(Default)]
struct Client {
    value: Option<Value>,
    states: Vec<Value>,
    withdrawn: usize,
    /// Bytes of the events.
    bytes: usize,
}

impl Client {
    fn take(&mut self, change: Change) {
        match change {
            Change::None => return,
            Change::Grown(growth) => {
                assert!(!growth.is_empty());
                // As it arrives.
                let json = serde_json::to_string(&growth).unwrap();
                self.bytes += json.len();
                for growth in serde_json::from_str::<Vec<Growth>>(&json).unwrap() {
                    growth.apply(&mut self.value);
                }
            }
            Change::Withdrawn => {
                self.withdrawn += 1;
                self.value = None;
                self.states.clear();
            }
        }
        self.states.extend(self.value.clone());
    }

    /// Checks that each state has grown into the next, and the last one into the value.
    #[track_caller]
    fn grew_into(&self, value: &Value) {
        for (before, after) in self.states.iter().zip(self.states.iter().skip(1).chain([value])) {
            assert!(grows_into(before, after), "{before} became {after}");
        }
    }
}

/// The states of a client that gets these deltas.
fn shown(schema: &Value, deltas: &[Delta]) -> Client {
    let (mut tracker, mut client) = (tracker(schema), Client::default());
    for delta in deltas {
        client.take(tracker.take(delta));
    }
    assert_eq!(tracker.into_value(), client.value);
    client
}

/// The states for a text in pieces of one character.
fn by_characters(schema: &Value, whole: &str) -> Client {
    shown(schema, &whole.split_inclusive(|_| true).map(text).collect::<Vec<_>>())
}

#[test]
fn a_value_grows_with_its_text() {
    let schema = json!({
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "kind": {"enum": ["new", "newer"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "pages": {"type": "integer"},
        },
        "additionalProperties": false,
    });
    let pieces = [
        "{\"ti",
        "tle\": \"A \\u00e",
        "9b",
        "c\", \"kind\": \"new",
        "\", \"tags\": [",
        "\"x\", \"y",
        "\"],",
        " \"pages\": 1",
        "2",
        "}",
    ];
    let client = shown(&schema, &pieces.map(text));
    let expected = [
        json!({}),
        json!({"title": "A "}),
        json!({"title": "A éb"}),
        json!({"title": "A ébc"}),
        json!({"title": "A ébc", "kind": "new", "tags": []}),
        json!({"title": "A ébc", "kind": "new", "tags": ["x", "y"]}),
        json!({"title": "A ébc", "kind": "new", "tags": ["x", "y"], "pages": 12}),
    ];
    assert_eq!(client.states, expected);
}

#[test]
fn growth_is_written_as_documented() {
    let mut tracker = tracker(&json!({"type": "object"}));
    let first = tracker.take(&text("{\"items\": [{\"name\": \"Gr"));
    let Change::Grown(first) = first else { panic!("{first:?}") };
    assert_eq!(json!(first), json!([{"at": [], "set": {"items": [{"name": "Gr"}]}}]));
    let second = tracker.take(&text("ün\", \"n\": 1}, {"));
    let Change::Grown(second) = second else { panic!("{second:?}") };
    assert_eq!(
        json!(second),
        json!([
            {"at": ["items", 0, "name"], "append": "ün"},
            {"at": ["items", 0, "n"], "set": 1},
            {"at": ["items", 1], "set": {}},
        ])
    );
}

#[test]
fn only_the_value_that_is_the_answer_is_shown() {
    let object = json!({"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}});
    for (whole, last) in [
        ("<think>maybe {\"n\": 1}</think>{\"n\": 2}", Some(json!({"n": 2}))),
        ("```json\n{\"n\": 2}\n```", Some(json!({"n": 2}))),
        ("For example {\"n\": 1}. So: {\"n\": 2}", None),
        ("```python\n{\"n\": 1}\n```", None),
        ("[1, 2]", None),
        ("\"text\"", None),
        ("{\"n\": \"text\"}", Some(json!({}))),
        ("{\"n\": 1, \"n\": 2}", Some(json!({"n": 1}))),
        ("{\"n\": 123456789012345678901234567890, \"s\": \"x\"}", Some(json!({}))),
        ("{\"n\": 1e, \"s\": \"x\"}", Some(json!({}))),
        ("{\"s\": \"a\nb\"}", Some(json!({"s": "a"}))),
        ("{\"s\": \"\\ud83d\\u0041\"}", Some(json!({"s": ""}))),
        ("{\"s\": \"\\ud83d\\ude00\"}", Some(json!({"s": "😀"}))),
        ("{\"s\": \"\\ud83dx\"}", Some(json!({"s": ""}))),
        ("{\"n\": nul", Some(json!({}))),
        ("{\"n\": 12", Some(json!({}))),
    ] {
        assert_eq!(by_characters(&object, whole).value, last, "{whole}");
        assert_eq!(shown(&object, &[text(whole)]).value, last, "{whole}");
    }
}

#[test]
fn a_value_that_is_no_object_is_shown_without_its_wrapper() {
    let list = json!({"type": "array", "items": {"type": "integer"}});
    for whole in ["[1, 2]", "{\"result\": [1, 2]}", "{ \"result\" : [1, 2] }"] {
        assert_eq!(by_characters(&list, whole).value, Some(json!([1, 2])), "{whole}");
    }
    for whole in ["{}", "{\"other\": [1]}", "{\"result\": {\"a\": 1}}"] {
        assert_eq!(by_characters(&list, whole).value, None, "{whole}");
    }
    let in_call = [call(FINAL_TOOL), arguments("{\"res"), arguments("ult\": [1,"), arguments(" 2]}")];
    let client = shown(&list, &in_call);
    assert_eq!(client.states, [json!([1]), json!([1, 2])]);
    for wrong in ["[1]", "1", "\"a\"", "{}", "{\"more\": [1]}"] {
        assert_eq!(shown(&list, &[call(FINAL_TOOL), arguments(wrong)]).value, None, "{wrong}");
    }
    let either = json!({"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}], "$defs": {
        "A": {"type": "object", "properties": {"name": {"type": "string"}, "child": {"$ref": "#"}}},
    }});
    let value = json!({"name": "a", "child": {"name": "b", "child": null}});
    for whole in [value.to_string(), format!("{{\"result\": {value}}}")] {
        assert_eq!(by_characters(&either, &whole).value, Some(value.clone()), "{whole}");
    }
    let has_result = json!({"anyOf": [
        {"type": "object", "properties": {"result": {"type": "string"}}},
        {"type": "object", "properties": {"error": {"type": "string"}}},
    ]});
    assert_eq!(by_characters(&has_result, "{\"result\": \"ok\"}").value, Some(json!({"result": "ok"})));
}

#[test]
fn strings_with_a_form_appear_once_they_are_complete() {
    for form in [
        json!({"enum": ["ab", "abc"]}),
        json!({"const": "ab"}),
        json!({"type": "string", "format": "date"}),
        json!({"type": "string", "pattern": "^a"}),
        json!({"anyOf": [{"type": "null"}, {"enum": ["ab"]}]}),
    ] {
        let schema = json!({"type": "object", "properties": {"s": form}});
        let client = by_characters(&schema, "{\"s\": \"ab\"}");
        assert_eq!(client.states, [json!({}), json!({"s": "ab"})], "{form}");
    }
}

#[test]
fn a_value_that_is_not_the_answer_is_withdrawn() {
    let object = json!({"type": "object"});
    let drafted = [text("{\"n\": 1}"), call("search"), arguments("{\"n\": 2}")];
    let client = shown(&object, &drafted);
    assert_eq!((client.withdrawn, client.value), (1, None));
    let drafted = [text("{\"n\": 1}"), call(FINAL_TOOL), arguments("{\"n\": 2}")];
    let client = shown(&object, &drafted);
    assert_eq!((client.withdrawn, client.value), (1, Some(json!({"n": 2}))));
    // A result beside other calls is asked for again.
    let beside = [call("search"), arguments("{\"q\": 1}"), call(FINAL_TOOL), arguments("{\"n\": 2}")];
    assert_eq!(shown(&object, &beside).value, None);
    let beside = [call(FINAL_TOOL), arguments("{\"n\": 2}"), call("search")];
    let client = shown(&object, &beside);
    assert_eq!((client.withdrawn, client.value), (1, None));
    let thought = [Delta::Reasoning { text: "{\"n\": 1}".into() }, text("{\"n\": 2}")];
    assert_eq!(shown(&object, &thought).states, [json!({"n": 2})]);
}

#[test]
fn who_listens_late_gets_the_value_so_far() {
    let object = json!({"type": "object"});
    let (mut tracker, mut client) = (tracker(&object), Client::default());
    for missed in ["{\"s\"", ": \"a"] {
        tracker.miss(&text(missed));
    }
    client.take(tracker.take(&text("b")));
    assert_eq!(client.states, [json!({"s": "ab"})]);
    client.take(tracker.take(&text("c")));
    tracker.miss(&text("d"));
    tracker.miss(&Delta::Reasoning { text: "Hm.".into() });
    client.take(tracker.take(&text("e\"}")));
    assert_eq!(client.states, [json!({"s": "ab"}), json!({"s": "abc"}), json!({"s": "abcde"})]);
    tracker.miss(&call("search"));
    client.take(tracker.take(&arguments("{}")));
    assert_eq!((client.withdrawn, tracker.into_value()), (1, None));
    let mut unheard = self::tracker(&object);
    unheard.miss(&text("{\"s\": 1}"));
    assert_eq!(unheard.into_value(), None, "nobody has seen it");
}

#[test]
fn what_is_too_deep_too_long_or_too_far_stops_growing() {
    let any = json!({});
    for depth in [119, 120, 121, 127, 128, 100_000] {
        let whole = "[".repeat(depth) + &"]".repeat(depth);
        let client = shown(&any, &[text(&whole)]);
        let mut value = client.value.as_ref();
        let mut levels = 0;
        while let Some(Value::Array(items)) = value {
            (value, levels) = (items.first(), levels + 1);
        }
        // The last one is shown, and not entered.
        assert_eq!(levels, depth.min(121), "{depth}");
    }
    let far = format!("{{\"{}\": {{\"a\": 1}}}}", "n".repeat(600));
    assert_eq!(shown(&any, &[text(&far)]).value, Some(json!({})));
    let digits = format!("{{\"a\": 0.{}}}", "1".repeat(2000));
    assert_eq!(shown(&any, &[text(&digits)]).value, Some(json!({})));
    let mut client = Client::default();
    let mut tracker = tracker(&any);
    client.take(tracker.take(&text("{\"a\": \"")));
    let piece = "x".repeat(1 << 20);
    for _ in 0..20 {
        let Change::Grown(growth) = tracker.take(&text(&piece)) else { break };
        growth.into_iter().for_each(|growth| growth.apply(&mut client.value));
    }
    let length = client.value.unwrap()["a"].as_str().unwrap().len();
    assert!((16 << 20..18 << 20).contains(&length), "{length}");
}

#[test]
fn the_events_of_a_long_answer_grow_as_its_text_does() {
    let any = json!({});
    let of = |items: usize| {
        let item = json!({"name": "A name of some length", "n": 12, "tags": ["a", "b"]});
        let whole = json!({"items": vec![item; items]}).to_string();
        let (mut tracker, mut client) = (tracker(&any), Client::default());
        let pieces = whole.as_bytes().chunks(5);
        for piece in pieces {
            let change = tracker.take(&text(std::str::from_utf8(piece).unwrap()));
            if let Change::Grown(growth) = change {
                client.bytes += serde_json::to_string(&growth).unwrap().len();
                growth.into_iter().for_each(|growth| growth.apply(&mut client.value));
            }
        }
        assert_eq!(client.value, Some(serde_json::from_str(&whole).unwrap()));
        (whole.len(), client.bytes)
    };
    let (short, few) = of(100);
    let (long, many) = of(10_000);
    let ratio = |bytes: usize, length: usize| bytes / (length / 100);
    assert!(ratio(many, long) < ratio(few, short) * 5 / 4, "{few} bytes for {short}, {many} for {long}");
}

/// The typed answers of the recorded examples.
fn recorded() -> Vec<(Value, String)> {
    let mut answers = Vec::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/recorded");
    for example in std::fs::read_dir(examples).unwrap() {
        let journal = example.unwrap().path().join("journal.jsonl");
        let Ok(journal) = std::fs::read_to_string(journal) else { continue };
        for record in journal.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            for part in record["message"]["parts"].as_array().into_iter().flatten() {
                let text = part["text"].as_str().map(ToOwned::to_owned);
                let arguments =
                    || Some(part["arguments"]["json"].as_object()?).map(|it| json!(it).to_string());
                let Some(text) = text.or_else(arguments) else { continue };
                if let Ok(value @ Value::Object(_)) = serde_json::from_str(&text) {
                    answers.push((value, text));
                }
            }
        }
    }
    answers
}

#[test]
fn every_recorded_answer_grows_wherever_it_is_cut() {
    let (any, recorded) = (json!({"type": "object"}), recorded());
    assert!(recorded.len() > 20, "{}", recorded.len());
    for (value, whole) in recorded {
        let client = by_characters(&any, &whole);
        client.grew_into(&value);
        assert_eq!(client.value.as_ref(), Some(&value));
        for cut in whole.char_indices().map(|(at, _)| at) {
            for deltas in [
                vec![text(&whole[..cut]), text(&whole[cut..])],
                vec![call(FINAL_TOOL), arguments(&whole[..cut]), arguments(&whole[cut..])],
            ] {
                let client = shown(&any, &deltas);
                client.grew_into(&value);
                assert_eq!(client.value.as_ref(), Some(&value), "cut at {cut}: {whole}");
                assert_eq!(client.withdrawn, 0);
            }
        }
    }
}

fn values() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|n| json!(n)),
        (-1e9..1e9).prop_map(|n: f64| json!(n)),
        "\\PC{0,12}".prop_map(Value::String),
        ".{0,6}".prop_map(Value::String),
    ];
    scalar.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(".{0,5}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_value_in_any_pieces_only_grows(
        inner in values(),
        cuts in prop::collection::vec(any::<Index>(), 0..12),
        pretty in any::<bool>(),
        ascii in any::<bool>(),
    ) {
        let value = json!({"v": inner});
        let mut whole = if pretty { format!("{value:#}") } else { value.to_string() };
        if ascii {
            whole = whole.chars().map(|c| match c {
                ' '..='~' | '\n' => c.to_string(),
                c => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect(),
            }).collect();
        }
        let boundary = |cut: &Index| {
            let at = cut.index(whole.len());
            (0..=at).rev().find(|at| whole.is_char_boundary(*at)).unwrap_or_default()
        };
        let mut cuts: Vec<usize> = cuts.iter().map(boundary).chain([0, whole.len()]).collect();
        cuts.sort_unstable();
        let deltas: Vec<Delta> = cuts.windows(2).map(|cut| text(&whole[cut[0]..cut[1]])).collect();
        let client = shown(&json!({"type": "object"}), &deltas);
        client.grew_into(&value);
        prop_assert_eq!(client.value, Some(value));
    }

    #[test]
    fn any_text_is_shown_as_far_as_it_is_the_answer(
        whole in "(\\{|\\[|<think>|```json\n)?[\\[\\]{}\",:a0-9\\\\ \n.e+-]{0,40}",
        cut in any::<Index>(),
    ) {
        let any_schema = json!({});
        let client = by_characters(&any_schema, &whole);
        let at = cut.index(whole.len() + 1);
        let cut = shown(&any_schema, &[text(&whole[..at]), text(&whole[at..])]);
        prop_assert_eq!(&client.value, &cut.value, "the cuts change nothing");
        if let (Ok(value), Some(_)) = (json::read(whole.trim()), &client.value) {
            let unwrapped = value.get("result").unwrap_or(&value).clone();
            client.grew_into(&unwrapped);
        }
    }
}

#[test]
fn growth_of_another_value_changes_nothing() {
    let append = |at: Vec<Key>| Growth::Append { at, append: "x".into() };
    let name = |name: &str| Key::Name(name.into());
    let mut value = Some(json!({"a": [1], "b": 2}));
    for growth in [
        append(vec![name("b")]),
        append(vec![name("c"), Key::Index(0)]),
        append(vec![name("a"), Key::Index(7)]),
        Growth::Set { at: vec![name("a"), Key::Index(5)], set: json!(1) },
        Growth::Set { at: vec![name("b"), name("x")], set: json!(1) },
    ] {
        growth.apply(&mut value);
    }
    assert_eq!(value, Some(json!({"a": [1], "b": 2})));
    let mut none = None;
    append(Vec::new()).apply(&mut none);
    Growth::Set { at: vec![Key::Index(0)], set: json!(1) }.apply(&mut none);
    assert_eq!(none, None);
}
