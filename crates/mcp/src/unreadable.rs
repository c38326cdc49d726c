//! Messages of a server that can't be read, and the requests that they answer.
//!
//! Some servers write invalid JSON (`NaN`, a raw newline in a text, a trailing comma), or only a part of a message. The
//! request that such a message answers will have no other answer. Therefore the request ends at once, as far as the
//! message identifies it.

use rmcp::model::RequestId;
use serde_json::Value;
use std::collections::HashSet;

/// The facts that can be derived from a text that is no message.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Outline {
    /// The requests that the text answers.
    pub(crate) answered: Vec<RequestId>,
    /// True if the text has an answer that does not identify its request.
    pub(crate) is_anonymous: bool,
}

/// The members of an object that distinguish an answer from other texts.
#[derive(Default)]
struct Members {
    id: Option<RequestId>,
    has_version: bool,
    has_method: bool,
    has_outcome: bool,
}

impl Outline {
    /// Reads the outermost objects of a text, and those of an outermost list. Only brackets and texts are parsed: the
    /// rest need not be JSON.
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut outline = Self::default();
        let mut rest = text;
        // Something else may stand before it, such as a byte order mark or a log line that does not end.
        while let Some(start) = rest.iter().position(|byte| *byte == b'{') {
            let (members, end) = Members::read(&rest[start..]);
            outline.add(members, end.is_none());
            rest = end.map_or(&[], |end| &rest[start + end..]);
        }
        outline
    }

    /// Returns true if the text answers a request, even one that it does not identify.
    pub(crate) fn is_answer(&self) -> bool {
        self.is_anonymous || !self.answered.is_empty()
    }

    /// Adds an object. `is_cut`: the text ends before the object does.
    fn add(&mut self, members: Members, is_cut: bool) {
        let is_message = members.has_version || members.has_outcome || is_cut;
        if members.has_method || !is_message {
            return;
        }
        match members.id {
            Some(id) => self.answered.push(id),
            None => self.is_anonymous |= members.has_outcome && (members.has_version || is_cut),
        }
    }
}

impl Members {
    /// Reads the members of the object with which the text begins. Returns them and the offset after the object, if the
    /// text does not end before.
    fn read(text: &[u8]) -> (Self, Option<usize>) {
        let mut members = Self::default();
        let (mut depth, mut at) = (0_usize, 0);
        let mut before = b' ';
        while let Some(byte) = text.get(at) {
            match byte {
                b'"' => {
                    let Some(length) = quoted(&text[at..]) else { return (members, None) };
                    let end = at + length;
                    if depth == 1 && matches!(before, b'{' | b',') {
                        members.note(&text[at + 1..end - 1], &text[end..]);
                    }
                    at = end;
                    before = b'"';
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            at += 1;
            if depth == 0 {
                return (members, Some(at));
            }
            if !byte.is_ascii_whitespace() {
                before = *byte;
            }
        }
        (members, None)
    }

    /// Notes a key, which is followed by `after`.
    fn note(&mut self, key: &[u8], after: &[u8]) {
        let Some(value) = after.trim_ascii_start().strip_prefix(b":") else { return };
        match key {
            b"jsonrpc" => self.has_version = true,
            b"method" => self.has_method = true,
            b"result" | b"error" => self.has_outcome = true,
            b"id" => self.id = id(value.trim_ascii_start()),
            _ => {}
        }
    }
}

/// Returns the length of the text in quotes at the beginning, with the quotes. `None` if it does not end.
fn quoted(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map(|end| end + 2)
}

/// Returns the identifier at the beginning.
fn id(value: &[u8]) -> Option<RequestId> {
    let length = match value.first()? {
        b'"' => quoted(value)?,
        _ => value.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'-' | b'.'))?,
    };
    match serde_json::from_slice(&value[..length]).ok()? {
        Value::String(text) => Some(RequestId::String(text.into())),
        Value::Number(number) => {
            let whole = number.as_f64().filter(|whole| whole.fract() == 0.0 && whole.abs() < 1e15);
            number.as_i64().or(whole.map(|whole| whole as i64)).map(RequestId::Number)
        }
        _ => None,
    }
}

/// The requests of llm-do that a server has not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    requests: HashSet<RequestId>,
    /// The requests that each answer without an identifier may belong to.
    lost: Vec<HashSet<RequestId>>,
}

impl Waiting {
    /// Notes a request that is sent.
    pub(crate) fn sent(&mut self, request: RequestId) {
        self.requests.insert(request);
    }

    /// Notes that a request has its answer, or needs none any more.
    pub(crate) fn ended(&mut self, request: &RequestId) {
        self.requests.remove(request);
        for lost in &mut self.lost {
            lost.remove(request);
        }
    }

    /// Returns the request with this identifier. Some servers write a number as a text, or a text as a number.
    pub(crate) fn named(&self, id: &RequestId) -> Option<RequestId> {
        match self.requests.get(id) {
            Some(request) => Some(request.clone()),
            None => self.requests.iter().find(|request| request.to_string() == id.to_string()).cloned(),
        }
    }

    /// Returns the requests that are answered by a text that can't be read. They have ended.
    pub(crate) fn answered(&mut self, outline: Outline) -> Vec<RequestId> {
        let ended: Vec<RequestId> = outline.answered.iter().filter_map(|id| self.named(id)).collect();
        for request in &ended {
            self.ended(request);
        }
        if outline.is_anonymous {
            self.lost.push(self.requests.clone());
        }
        ended
    }

    /// Returns the requests whose answers are lost: no other request is left to which an unidentified answer could
    /// belong. They have ended.
    pub(crate) fn without_answer(&mut self) -> Vec<RequestId> {
        let mut ended = Vec::new();
        while let Some(at) = self.lost.iter().position(|lost| lost.len() <= 1) {
            for request in self.lost.swap_remove(at) {
                self.ended(&request);
                ended.push(request);
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(text: &str) -> Vec<String> {
        Outline::of(text.as_bytes()).answered.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_request_is_found_in_what_is_no_json() {
        for text in [
            r#"{"jsonrpc":"2.0","id":7,"result":{"v":NaN}}"#,
            r#"{"result":{"v":[Infinity, {"id": 9}]},"jsonrpc":"2.0","id":7}"#,
            r#"{"jsonrpc": "2.0", "id" : 7 , "result":{"content":[],}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","te"#,
            r#"{"result":{"text":"a \" } , \"id\": 9"},"id":"7",}"#,
            r#"[{"jsonrpc":"2.0","id":7,"result":{}}]"#,
            r#"{"jsonrpc":"2.0","id":7.0,"error":{"code":1}}"#,
            "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}",
            r#"DEBUG done {"jsonrpc":"2.0","id":7,"result":{}}"#,
            r#"{'id': 8} {"jsonrpc":"2.0","id":7,"result":{}}"#,
        ] {
            assert_eq!(answered(text), ["7"], "{text}");
        }
        assert_eq!(answered(r#"{"id":1,"result":{}}{"id":2,"result":{}}"#), ["1", "2"]);
    }

    #[test]
    fn a_text_that_is_no_answer_ends_no_request() {
        for text in [
            "",
            "no text",
            r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{,}}"#,
            r#"{"level":"info","id":7}"#,
            r#"{"level":"info","result":"done"}"#,
            r#"{"jsonrpc": "2.0"}"#,
            r#"{"params":{"id":7,"result":1}}"#,
            r#""id":7,"result":1}"#,
        ] {
            assert_eq!(Outline::of(text.as_bytes()), Outline::default(), "{text}");
        }
    }

    #[test]
    fn an_answer_without_a_request_is_of_the_last_one_that_waits() {
        let cut = || Outline::of(br#"{"result":{"content":[{"type":"te"#);
        let mut waiting = Waiting::default();
        let [first, second, third] = [1, 2, 3].map(RequestId::Number);
        waiting.sent(first.clone());
        assert_eq!(waiting.answered(cut()), []);
        assert_eq!(waiting.without_answer(), [first]);
        waiting.sent(second.clone());
        waiting.sent(third.clone());
        assert_eq!(waiting.answered(cut()), []);
        assert_eq!(waiting.without_answer(), []);
        waiting.ended(&second);
        assert_eq!(waiting.without_answer(), [third], "the other one has its answer");
        assert_eq!(waiting.answered(cut()), []);
        assert_eq!(waiting.without_answer(), [], "nothing waits");
    }
}
