//! Finds the JSON values in an answer (`docs/reference/loop.md`).
//!
//! Models wrap answers in fences and prose, think aloud before them, and are cut off. Only a value that stands by
//! itself counts. A value inside another value, inside reasoning, or inside broken JSON is only a part.

mod beginning;

pub(crate) use beginning::{Beginning, Begun};

use crate::json::{self, BadJson, Fault};
use serde_json::Value;

/// The JSON of an answer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Found {
    /// The values that stand by themselves, in order.
    pub(super) values: Vec<Value>,
    /// The first place that began like JSON but is not, counted in the whole answer.
    pub(super) broken: Option<BadJson>,
    /// True if the text ends inside a value or inside reasoning.
    pub(super) is_cut: bool,
    /// True if the answer is a single value, with at most a fence around it.
    pub(super) is_alone: bool,
    /// The place where reasoning at the beginning ends.
    pub(super) begins: usize,
}

/// Elements in which models think aloud. Their names match in any case.
const ELEMENTS: [&str; 11] = [
    "think",
    "thinking",
    "thought",
    "thoughts",
    "reasoning",
    "reflection",
    "analysis",
    "scratchpad",
    "antthinking",
    "seed:think",
    "inner_monologue",
];

/// Other pairs of marks around reasoning.
const MARKS: [(&str, &str); 6] = [
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel|>analysis", "<|channel|>final"),
    ("<|channel>thought", "<channel|>"),
    ("<unused94>", "<unused95>"),
];

/// Tags of fences whose content is JSON. Other fences contain code, in which a value is only a part.
const JSON_TAGS: [&str; 8] = ["", "json", "jsonc", "json5", "jsonl", "ndjson", "text", "plaintext"];

/// Finds the values of an answer.
pub(super) fn find(text: &str) -> Found {
    let trimmed = text.trim();
    match json::read(trimmed) {
        Ok(value) => return Found { values: vec![value], is_alone: true, ..Found::default() },
        Err(error) if error.fault == Fault::Refused => {
            let start = text.len() - text.trim_start().len();
            return Found { broken: Some(moved(error, text, start)), is_alone: true, ..Found::default() };
        }
        Err(_) => {}
    }
    let begins = spoken_final(text);
    let mut search = Search { text, found: Found { begins, ..Found::default() }, work: 16 * text.len() };
    search.run(begins, text.len(), true);
    let mut found = search.found;
    let rest = text[found.begins..].trim();
    let only_one = found.values.len() == 1 && found.broken.is_none();
    found.is_alone = only_one && (json::read(rest).is_ok() || is_one_fence(rest));
    found
}

/// The place after the name of the final channel, if a server has removed the marks around the names of channels.
fn spoken_final(text: &str) -> usize {
    const FINAL: &str = "assistantfinal";
    match text.rfind(FINAL) {
        Some(at) if text.trim_start().starts_with("analysis") => at + FINAL.len(),
        _ => 0,
    }
}

fn is_one_fence(text: &str) -> bool {
    let Some(fence) = Fence::at(text, 0) else { return false };
    fence.end == text.len()
}

/// Shifts the place of an error by the start of the faulty part within the whole text.
fn moved(error: BadJson, text: &str, start: usize) -> BadJson {
    let (line, column) = json::place(text, start);
    let column = if error.line == 1 { column - 1 + error.column } else { error.column };
    BadJson { line: line + error.line - 1, column, ..error }
}

struct Search<'t> {
    text: &'t str,
    found: Found,
    /// Number of bytes that may still be scanned a second time. A text may consist of brackets only.
    work: usize,
}

impl Search<'_> {
    /// Searches a part of the text. Fences are opened only in the text itself, not in a fence.
    fn run(&mut self, start: usize, end: usize, fences: bool) {
        let mut at = start;
        while at < end {
            let rest = &self.text[at..end];
            let Some(c) = rest.chars().next() else { return };
            at = match c {
                '<' | '[' | '◁' if let Some(close) = opening(rest) => {
                    let from = at + close.after;
                    match closing(&self.text[from..end], Some(close.with)) {
                        Some((_, after)) => {
                            if self.text[self.found.begins..at].trim().is_empty() {
                                self.found.begins = from + after;
                            }
                            from + after
                        }
                        None => {
                            self.found.is_cut = true;
                            return;
                        }
                    }
                }
                '<' | '[' | '◁' if let Some(after) = closes(rest) => {
                    // The text before a mark that only closes is reasoning.
                    self.found = Found { begins: at + after, ..Found::default() };
                    at + after
                }
                '`' | '~' if fences && let Some(fence) = Fence::at(&self.text[..end], at) => {
                    self.fence(&fence);
                    fence.end
                }
                '{' | '[' => match self.value(at, end) {
                    Some(after) => after,
                    None => return,
                },
                other => at + other.len_utf8(),
            };
        }
    }

    fn fence(&mut self, fence: &Fence) {
        let (start, end) = fence.body;
        let body = &self.text[start..end];
        match json::read(body.trim()) {
            Ok(value) => self.found.values.push(value),
            Err(_) if fence.is_json => self.run(start, end, false),
            Err(_) => {}
        }
    }

    /// Takes the value that begins with a bracket, and returns the place after it. `None` if the text ends in it.
    fn value(&mut self, at: usize, end: usize) -> Option<usize> {
        let rest = &self.text[at..end];
        let before = &self.text[..at];
        match json::read_first(rest) {
            Ok((value, length)) => {
                if !is_part(before, &rest[length..], rest) {
                    self.found.values.push(value);
                }
                Some(at + length)
            }
            Err(error) if error.fault == Fault::Cut => {
                // A draft that a mark ends, which is met next.
                let draft = closing(rest, None).map(|(before, _)| at + before);
                if draft.is_none() {
                    self.breaks(error, at);
                    self.found.is_cut = true;
                }
                draft
            }
            Err(error) => {
                let is_json = error.fault == Fault::Refused || looks_like_json(rest);
                let extent = if self.work > 0 { extent(rest) } else { None };
                self.work = self.work.saturating_sub(extent.unwrap_or(rest.len()));
                if is_json {
                    self.breaks(error, at);
                }
                match extent {
                    Some(length) => Some(at + length),
                    None if is_json => {
                        self.found.is_cut = true;
                        None
                    }
                    // A bracket of the prose.
                    None => Some(at + 1),
                }
            }
        }
    }

    fn breaks(&mut self, error: BadJson, at: usize) {
        let text = self.text;
        self.found.broken.get_or_insert_with(|| moved(error, text, at));
    }
}

/// Returns true if a value is a part of a text that is not JSON: a member without an object around it, an index, or the
/// text of a link.
fn is_part(before: &str, after: &str, value: &str) -> bool {
    let member = before.trim_end().strip_suffix(':').is_some_and(|name| name.trim_end().ends_with('"'));
    let is_list = value.starts_with('[');
    let index = before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ')'));
    member || is_list && (index || after.starts_with('('))
}

/// Returns true if brackets that are not valid JSON were meant as a value, such as an object with unquoted names. Other
/// brackets belong to the prose, such as those of `{name}`.
fn looks_like_json(text: &str) -> bool {
    let inside = text[1..].trim_start();
    let first = inside.chars().next();
    if text.starts_with('[') {
        let words = ["true", "false", "null", "None", "True", "False"];
        return first.is_none_or(|c| matches!(c, '"' | '\'' | '{' | '[' | '-') || c.is_ascii_digit())
            || words.iter().any(|word| {
                inside.strip_prefix(word).is_some_and(|rest| rest.trim_start().starts_with([',', ']']))
            });
    }
    match first {
        None | Some('"' | '\'' | '{' | '[' | '/') => true,
        Some(c) if c.is_alphabetic() || matches!(c, '_' | '$') => {
            let name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-');
            inside.trim_start_matches(name).trim_start().starts_with(':')
        }
        Some(_) => false,
    }
}

/// The length of a text that begins with a bracket, up to the bracket that closes it or a mark that ends reasoning.
/// Brackets in strings don't count; a string ends with its line.
fn extent(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    let mut in_string = false;
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        if matches!(c, '<' | '[' | '◁') && at > 0 && closes(&text[at..]).is_some() {
            return Some(at);
        }
        match c {
            '\\' if in_string => drop(characters.next()),
            '"' => in_string = !in_string,
            '\n' => in_string = false,
            '{' | '[' if !in_string => depth += 1,
            '}' | ']' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + c.len_utf8());
                }
            }
            _ => {}
        }
    }
    None
}

/// A mark that opens reasoning.
struct Opening {
    /// The number of the mark that closes it, in [`ELEMENTS`] or after those in [`MARKS`].
    with: usize,
    /// The length of the mark.
    after: usize,
}

/// The mark that opens reasoning at the start of the text.
fn opening(text: &str) -> Option<Opening> {
    if let Some(inside) = text.strip_prefix('<') {
        for (with, name) in ELEMENTS.iter().enumerate() {
            let Some(rest) = without_prefix(inside, name) else { continue };
            if !rest.starts_with('>') && !rest.starts_with(char::is_whitespace) {
                continue;
            }
            let Some(end) = rest.find('>').filter(|end| !rest[..*end].contains(['<', '\n'])) else {
                continue;
            };
            return Some(Opening { with, after: text.len() - rest.len() + end + 1 });
        }
    }
    let mark = MARKS.iter().position(|(open, _)| text.starts_with(open))?;
    Some(Opening { with: ELEMENTS.len() + mark, after: MARKS[mark].0.len() })
}

/// The length of a mark that closes reasoning, if the text begins with one.
fn closes(text: &str) -> Option<usize> {
    (0..ELEMENTS.len() + MARKS.len()).find_map(|with| closes_with(text, with))
}

fn closes_with(text: &str, with: usize) -> Option<usize> {
    match ELEMENTS.get(with) {
        Some(name) => {
            let rest = without_prefix(text.strip_prefix("</")?, name)?.trim_start().strip_prefix('>')?;
            Some(text.len() - rest.len())
        }
        None => {
            let (_, close) = MARKS[with - ELEMENTS.len()];
            text.starts_with(close).then_some(close.len())
        }
    }
}

/// The first mark that closes reasoning, or the one with the number `with`: its place, and the place after it.
fn closing(text: &str, with: Option<usize>) -> Option<(usize, usize)> {
    text.match_indices(['<', '[', '◁']).find_map(|(at, _)| {
        let rest = &text[at..];
        let length = with.map_or_else(|| closes(rest), |with| closes_with(rest, with))?;
        Some((at, at + length))
    })
}

/// The text after a prefix in any case.
fn without_prefix<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| &text[prefix.len()..])
}

/// A fenced block.
struct Fence {
    /// The places where the content begins and ends.
    body: (usize, usize),
    /// The place after the block.
    end: usize,
    /// True if the tag of the fence allows JSON in it.
    is_json: bool,
}

impl Fence {
    /// The fence that begins at this place. A fence that is not closed ends with the text.
    fn at(text: &str, at: usize) -> Option<Self> {
        let rest = &text[at..];
        let mark = ["```", "~~~"].into_iter().find(|mark| rest.starts_with(mark))?;
        let c = &mark[..1];
        let length = rest.len() - rest.trim_start_matches(c).len();
        let mark = &rest[..length];
        let behind = &rest[length..];
        let (first, in_line) = match behind.split_once('\n') {
            Some((first, _)) if !first.contains(['{', '[', '"', '`']) => (first.len() + 1, false),
            _ => (0, true),
        };
        let tag = if in_line { "" } else { behind[..first].trim() };
        let body = &behind[first..];
        // A fence over several lines is closed at the beginning of a line.
        let close = body.match_indices(mark).map(|(close, _)| close).find(|close| {
            in_line || body[..*close].rsplit('\n').next().is_some_and(|before| before.trim().is_empty())
        });
        let close = close.or_else(|| body.find(mark));
        let start = at + length + first;
        let (end_of_body, end) = match close {
            Some(close) => {
                let after = start + close;
                let marks = text[after..].len() - text[after..].trim_start_matches(c).len();
                (after, after + marks)
            }
            None => (text.len(), text.len()),
        };
        let tag = tag.split(|c: char| c.is_whitespace() || c == '{').next().unwrap_or_default();
        let is_json = JSON_TAGS.iter().any(|json| json.eq_ignore_ascii_case(tag));
        Some(Self { body: (start, end_of_body), end, is_json })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn values(text: &str) -> Vec<Value> {
        let found = find(text);
        assert!(!found.is_cut, "{text}: {found:?}");
        found.values
    }

    #[test]
    fn a_value_is_found_where_models_put_it() {
        let answer = json!({"kind": "other"});
        for text in [
            r#"{"kind": "other"}"#,
            "\n {\"kind\":\"other\"} \n",
            "```json\n{\"kind\": \"other\"}\n```",
            "Here it is:\n```\n{\"kind\": \"other\"}\n```\nBye.",
            "```JSON\r\n{\"kind\": \"other\"}\r\n```",
            "```{\"kind\": \"other\"}```",
            "~~~json\n{\"kind\": \"other\"}\n~~~",
            "```json\n{\"kind\": \"other\"}",
            "The answer is {\"kind\": \"other\"}.",
            "Answer: {\"kind\": \"other\"} as {name} said [see there], and [this](http://x/{id}).",
            "Use the { brace. {\"kind\": \"other\"}",
            "Mind [1: the note] and {don't}: {\"kind\": \"other\"}",
            "f\"{x!r:>{width}}\" gives {\"kind\": \"other\"}",
            "The keys of data[\"items\"] say `{\"kind\": \"other\"}`",
            "```python\nkinds = [{\"kind\": \"invoice\"}]\n```\nso {\"kind\": \"other\"}",
            "<answer>{\"kind\": \"other\"}</answer>",
        ] {
            assert_eq!(values(text), std::slice::from_ref(&answer), "{text}");
        }
        let with_marks = json!({"say": "<think> {\"kind\": 1} </think> ```json\n{}\n```"});
        assert_eq!(values(&with_marks.to_string()), std::slice::from_ref(&with_marks));
        assert_eq!(values(&format!("So: {with_marks}")), [with_marks]);
    }

    #[test]
    fn reasoning_holds_no_answer() {
        let answer = [json!({"kind": "other"})];
        for text in [
            "<think>maybe {\"kind\":\"invoice\"}? No, a letter.</think>{\"kind\":\"other\"}",
            "maybe {\"kind\":\"invoice\"}?</think>\n{\"kind\":\"other\"}",
            "<Thinking>\n{\"kind\":\"invoice\"}\n</THINKING>\n```json\n{\"kind\":\"other\"}\n```",
            "<reasoning effort=\"high\">[{\"kind\":\"invoice\"}]</reasoning >{\"kind\":\"other\"}",
            "<think><think>{\"kind\":\"invoice\"}</think>{\"kind\":\"invoice\"}</think>{\"kind\":\"other\"}",
            "{\"kind\": \"inv</think>{\"kind\":\"other\"}",
            "I begin with {\"kind\": [</think>{\"kind\":\"other\"}",
            "[THINK]{\"kind\":\"invoice\"}[/THINK]{\"kind\":\"other\"}",
            "◁think▷{\"kind\":\"invoice\"}◁/think▷{\"kind\":\"other\"}",
            "<|channel|>analysis<|message|>{\"kind\":\"invoice\"}<|end|><|start|>assistant<|channel|>final<|message|>{\"kind\":\"other\"}",
            "analysisMaybe {\"kind\":\"invoice\"}.assistantfinal{\"kind\":\"other\"}",
            "<think>\n\n</think>\n\n{\"kind\":\"other\"}",
            "{\"kind\":\"other\"}<think>or {\"kind\":\"invoice\"}</think>",
        ] {
            assert_eq!(values(text), answer, "{text}");
        }
        for open in
            ["<think>so {\"kind\":\"invoice\"}", "{\"kind\":\"other\"}<reasoning>{\"kind\":\"invoice\"}"]
        {
            assert!(find(open).is_cut, "{open}");
        }
        assert_eq!(values("<thinker>{\"a\":1}</thinker>"), [json!({"a": 1})]);
    }

    #[test]
    fn a_value_inside_another_is_none_of_its_own() {
        for text in [
            r#"{"rejected":["x"],,"accepted":["a","b"]}"#,
            r#"{rejected: ["x"], accepted: ["a","b"]}"#,
            r#"{'rejected': ["x"], 'accepted': ["a","b"]}"#,
            r#"{"a": ["x"], /* none */ "b": ["y"]}"#,
            "So:\n{\n  // first\n  \"a\": [\"x\"]\n}",
            r#"{"a": ["x"],}"#,
            r#"[["x"], None]"#,
            r#""rejected": ["x"], "accepted": ["a","b"]"#,
            "```json\n\"accepted\": [\"a\"]\n```",
            r#"data["items"]"#,
            r#"{"a": ["x"], "a": ["y"]}"#,
        ] {
            let found = find(text);
            assert_eq!(found.values, [] as [Value; 0], "{text}");
        }
        assert_eq!(values(r#"{"rejected":["x"],"accepted":["a","b"]}"#).len(), 1);
    }

    #[test]
    fn what_is_cut_off_is_no_value() {
        for text in [
            r#"["a", "b", "c"#,
            r#"{"items": [{"a": 1}, {"b": 2}, {"c""#,
            r#"Here: {"items": [{"a": 1}"#,
            "```json\n{\"items\": [{\"a\": 1},\n",
            r#"{"kind": "other"} {"kind": "inv"#,
            r#"{'items': [{"a": 1}, "#,
            r#"{items: [{"a": 1}, "#,
            "{",
            "[",
        ] {
            let found = find(text);
            assert!(found.is_cut, "{text}: {found:?}");
            assert!(found.values.len() < 2 && !found.values.contains(&json!({"a": 1})), "{text}: {found:?}");
        }
    }

    #[test]
    fn every_value_is_found() {
        for text in [
            "{\"n\": 1}\n{\"n\": 2}\n",
            "{\"n\": 1}{\"n\": 2}",
            "```json\n{\"n\": 1}\n```\nor\n```json\n{\"n\": 2}\n```",
            "```jsonl\n{\"n\": 1}\n{\"n\": 2}\n```",
            "Such as {\"n\": 1}? No: {\"n\": 2}",
        ] {
            assert_eq!(values(text), [json!({"n": 1}), json!({"n": 2})], "{text}");
        }
    }

    #[test]
    fn a_fault_has_its_place_in_the_answer() {
        let place = |text: &str| find(text).broken.map(|error| (error.line, error.column));
        assert_eq!(place("Well:\n {\"a\": 1,\n  \"b\": oops}"), Some((3, 8)));
        assert_eq!(place("\n{\"n\": 18446744073709551616}"), Some((2, 7)));
        assert_eq!(place("So {\"n\": 1, \"n\": 2}"), Some((1, 15)));
        assert_eq!(place("{name} is [a note]"), None);
        assert_eq!(find("{\"a\": 1, \"a\": 2}").broken.unwrap().fault, Fault::Refused);
    }

    #[test]
    fn an_answer_that_is_one_value_is_alone() {
        for (text, is_alone) in [
            ("\"x\"", true),
            ("```\n\"x\"\n```", true),
            ("<think>hm</think>\n```json\n\"x\"\n```", true),
            ("Say ```\"x\"``` to it", false),
            ("It is [\"x\"].", false),
        ] {
            assert_eq!(find(text).is_alone, is_alone, "{text}");
        }
        let text = "<think>hm</think> Yours, {name}";
        assert_eq!(text[find(text).begins..].trim(), "Yours, {name}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_searched(text in r#"([{}\[\]"',:\\a1 \n`~<>/◁▷|-]|think|</think>|<think>|```|\{"a":1\}){0,24}"#) {
            let found = find(&text);
            proptest::prop_assert!(found.begins <= text.len());
        }
    }
}
