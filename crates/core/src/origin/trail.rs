//! The contents that led to a call.

use super::{
    From, Mark, Origin, Origins, Provenance,
    scalars::{same, scalars},
    words::{holds_token, names_host, names_place, stands_in},
};
use crate::{call_path::CallPath, model::Message};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::{fmt, sync::Arc};

/// A content that a conversation, or code that makes calls, has received.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Content {
    /// The way in which the content was received.
    pub kind: ContentKind,
    /// The call that it belongs to: the call that received these arguments or attachments, or that returned this result.
    pub call: CallPath,
    /// The function of that call.
    pub function: Arc<str>,
    /// The content. Null if it is known only by its origins.
    pub value: Arc<Value>,
    /// The origins of the content's parts.
    pub origins: Origins,
    /// The arguments of the call that returned the content, if they name the content: they identify the source that it
    /// was read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<Value>>,
}

/// The way in which a content was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentKind {
    /// Words of the operator: the input of the run, a chat message, an answer.
    Input,
    /// Arguments that a caller passed.
    Arguments,
    /// Files that were attached.
    Attachments,
    /// The result of a call, or its failure.
    Result,
    /// An answer of a model whose provider runs tools of its own.
    Provider,
}

/// The contents that led to a call, newest first: those of the conversation that makes it, followed by those that its
/// callers had received when they made their calls.
///
/// A trail belongs to the path of messages to the head of a conversation. It only grows at its end, in constant time,
/// and clones share their common contents. A conversation that returns to an earlier message takes the trail of that
/// message, and a trail that is untrusted stays untrusted.
#[derive(Clone, Default)]
pub struct Trail(Option<Arc<Node>>);

struct Node {
    content: Content,
    /// The most suspicious origin in the trail up to here.
    origin: Origin,
    before: Trail,
}

impl Trail {
    /// Adds a content at the end of the trail.
    #[must_use]
    pub fn with(self, content: Content) -> Self {
        let origin = self.origin().max(content.origins.greatest());
        Self(Some(Arc::new(Node { content, origin, before: self })))
    }

    /// Adds a content at the end of the trail.
    pub fn push(&mut self, content: Content) {
        *self = std::mem::take(self).with(content);
    }

    /// The trail of a conversation at its beginning, if its record says that it began with this origin. The contents of
    /// attached files are known only to the execution that recorded it.
    pub(crate) fn begun(self, origin: Origin, call: &CallPath, worker: &Arc<str>) -> Self {
        if origin <= self.origin() {
            return self;
        }
        self.with(Content {
            kind: ContentKind::Attachments,
            call: call.clone(),
            function: Arc::clone(worker),
            value: Arc::default(),
            origins: Origins::whole(origin),
            source: None,
        })
    }

    /// The operator's words since the trail was `begun`: the words of a conversation that count for its caller too.
    /// Words that an untrusted conversation offered to choose from are not included.
    pub(crate) fn said_since(&self, begun: &Self) -> Box<[Arc<Value>]> {
        let begun = begun.0.as_ref().map(Arc::as_ptr);
        let nodes = std::iter::successors(self.0.as_ref(), |node| node.before.0.as_ref());
        let since = nodes.take_while(|node| Some(Arc::as_ptr(node)) != begun).map(|node| &node.content);
        let mut said: Vec<Arc<Value>> =
            since.filter(|content| content.kind == ContentKind::Input).filter_map(Content::words).collect();
        said.reverse();
        said.into()
    }

    /// The most suspicious origin of the contents. Values that follow from an untrusted trail are untrusted.
    pub fn origin(&self) -> Origin {
        self.0.as_ref().map(|node| node.origin).unwrap_or_default()
    }

    /// Returns true if any content is untrusted.
    pub fn is_tainted(&self) -> bool {
        self.origin() == Origin::Untrusted
    }

    /// The contents, newest first.
    pub fn contents(&self) -> impl Iterator<Item = &Content> {
        std::iter::successors(self.0.as_deref(), |node| node.before.0.as_deref()).map(|node| &node.content)
    }

    /// The origins of a value that the owner of this trail makes: arguments, an output, a failure. A value that follows
    /// from an untrusted content is untrusted. In a value that follows from typed contents, only the scalars equal to
    /// typed ones are typed.
    pub fn emits(&self, value: &Value) -> Origins {
        match self.origin() {
            Origin::Trusted => Origins::TRUSTED,
            Origin::Untrusted => Origins::untrusted(),
            Origin::Typed => {
                let typed: Vec<&Value> = self.contents().flat_map(Content::typed).collect();
                let is_typed = |value: &Value| typed.iter().any(|typed| same(typed, value));
                scalars(value)
                    .into_iter()
                    .filter(|scalar| is_typed(scalar.value))
                    .fold(Origins::TRUSTED, |origins, scalar| origins.with(scalar.at, Origin::Typed))
            }
        }
    }
}

impl Content {
    /// The content for an answer of a model whose provider runs tools of its own. The answer may repeat words that
    /// these tools read and that the engine does not see.
    pub(crate) fn of_provider(call: &CallPath, worker: &Arc<str>, answer: &Message) -> Self {
        let (call, function, value) = (call.clone(), Arc::clone(worker), Arc::new(answer.text().into()));
        Self {
            kind: ContentKind::Provider,
            call,
            function,
            value,
            origins: Origins::untrusted(),
            source: None,
        }
    }

    /// The operator's words in the conversations of a call, as contents for its caller.
    pub(crate) fn said(
        call: &CallPath,
        function: &Arc<str>,
        said: &[Arc<Value>],
    ) -> impl Iterator<Item = Self> {
        said.iter().map(|value| Self {
            kind: ContentKind::Input,
            call: call.clone(),
            function: Arc::clone(function),
            value: Arc::clone(value),
            origins: Origins::TRUSTED,
            source: None,
        })
    }

    /// The trusted part of the content, if there is any.
    fn words(&self) -> Option<Arc<Value>> {
        if self.origins.is_trusted() {
            return Some(Arc::clone(&self.value));
        }
        let trusted: Vec<Value> = self.trusted().cloned().collect();
        (!trusted.is_empty()).then(|| Arc::new(Value::Array(trusted)))
    }

    /// Marks this result as words of the user, who answered a question with it.
    #[must_use]
    pub(crate) fn of_user(self) -> Self {
        Self { kind: ContentKind::Input, ..self }
    }

    /// Removes the value if it is trusted and long. For code, which can receive any number of results.
    pub(crate) fn shortened(mut self) -> Self {
        if self.origins.is_trusted() && !is_short(&self.value, &mut { SHORT }) {
            self.value = Arc::new(Value::Null);
        }
        self
    }

    /// The free scalars that a type has cleaned.
    fn typed(&self) -> impl Iterator<Item = &Value> {
        let typed = self.origins.marks().iter().filter(|mark| mark.origin == Origin::Typed);
        typed.filter_map(|Mark { at, .. }| self.value.pointer(at))
    }

    /// The scalars that are trusted.
    fn trusted(&self) -> impl Iterator<Item = &Value> {
        let all = if self.origins.greatest() == Origin::Untrusted && self.origins == Origins::untrusted() {
            Vec::new()
        } else {
            scalars(&self.value)
        };
        all.into_iter().filter(|scalar| self.origins.of(&scalar.at).is_trusted()).map(|scalar| scalar.value)
    }
}

/// Approximate size limit, in bytes, of a value that a trail of code keeps.
const SHORT: usize = 4096;

fn is_short(value: &Value, left: &mut usize) -> bool {
    let size = match value {
        Value::String(text) => text.len(),
        _ => 8,
    };
    let Some(rest) = left.checked_sub(size) else { return false };
    *left = rest;
    match value {
        Value::Object(fields) => fields.values().all(|field| is_short(field, left)),
        Value::Array(elements) => elements.iter().all(|element| is_short(element, left)),
        _ => true,
    }
}

/// Answers `from` conditions. Only contents on the trail count, so that the answer doesn't depend on the order in which
/// parallel calls end.
impl Provenance for Trail {
    fn holds(&self, words: From, value: &Value) -> bool {
        match (words, value) {
            (_, Value::Null | Value::Object(_) | Value::Array(_)) => false,
            (From::Known, value) => self.holds(From::Input, value) || self.holds(From::Trusted, value),
            (From::Source, value) => {
                let sources = self.contents().filter(|content| content.kind == ContentKind::Result);
                sources.filter_map(|content| Some((content, content.source.as_ref()?))).any(
                    |(content, arguments)| {
                        says(&content.value, value)
                            && !is_repeated(arguments, value)
                            && self.names_source(arguments)
                    },
                )
            }
            (From::Input, value) => {
                let inputs = self.contents().filter(|content| content.kind == ContentKind::Input);
                inputs.flat_map(Content::trusted).any(|own| match own {
                    Value::String(text) => stands_in(value, text),
                    own => value.is_number() && same(own, value),
                })
            }
            (From::Trusted, value) => self.contents().flat_map(Content::trusted).any(|own| {
                own.is_string() == value.is_string() && same(own, value)
                    || own.as_str().is_some_and(|text| holds_json(text, value))
            }),
        }
    }

    fn names_host(&self, words: From, host: &str) -> bool {
        let of = |content: &&Content| match words {
            From::Input => content.kind == ContentKind::Input,
            From::Trusted => content.kind != ContentKind::Input,
            From::Known => true,
            From::Source => false,
        };
        let texts = self.contents().filter(of).flat_map(Content::trusted).filter_map(Value::as_str);
        texts.into_iter().any(|text| names_host(text, host))
    }
}

impl Trail {
    /// Returns true if the operator's input names the source of a call: each text and each number among its arguments,
    /// where a text must be an address, a path, the name of a file or an ID. Search words are not a source: a search
    /// finds any content with these words.
    fn names_source(&self, arguments: &Value) -> bool {
        let arguments = scalars(arguments).into_iter().map(|scalar| scalar.value);
        let (texts, others): (Vec<&Value>, Vec<&Value>) = arguments.partition(|value| value.is_string());
        let texts: Vec<&str> = texts
            .into_iter()
            .filter_map(Value::as_str)
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .collect();
        let named = |text: &str| is_source(text) && self.inputs().any(|own| names_place(own, text));
        let mut numbers = others.into_iter().filter(|value| value.is_number());
        !texts.is_empty()
            && texts.into_iter().all(named)
            && numbers.all(|number| self.holds(From::Input, number))
    }

    /// The texts of the operator.
    fn inputs(&self) -> impl Iterator<Item = &str> {
        let inputs = self.contents().filter(|content| content.kind == ContentKind::Input);
        inputs.flat_map(Content::trusted).filter_map(Value::as_str)
    }
}

/// Returns true if the content of a source states a value; a text must occur as one or more whole tokens. Elements of
/// lists don't count, because the name of the source does not distinguish the contents of a list.
fn says(content: &Value, value: &Value) -> bool {
    match content {
        Value::Object(fields) => fields.values().any(|field| says(field, value)),
        Value::Array(_) => false,
        Value::String(text) => match document(text) {
            Some(document) => says(&document, value),
            None => holds_token(text, value),
        },
        own => value.is_number() && same(own, value),
    }
}

/// Returns true if a value is equal to one of the arguments of the call or occurs in one. The call's result may then
/// only repeat it.
fn is_repeated(arguments: &Value, value: &Value) -> bool {
    scalars(arguments).into_iter().any(|own| match own.value {
        Value::String(text) => stands_in(value, text),
        own => same(own, value),
    })
}

/// Returns true if a text has the form of an address, a path, the name of a file or an ID: one word with a sign or a
/// digit in it.
fn is_source(text: &str) -> bool {
    let text = text.trim();
    !text.contains(char::is_whitespace)
        && text.contains(|c: char| c.is_ascii_digit() || matches!(c, '/' | '.' | ':' | '@' | '_' | '-'))
}

/// Returns true if a text is a JSON document with that scalar, such as a file that a tool has read.
fn holds_json(text: &str, value: &Value) -> bool {
    document(text).is_some_and(|document| {
        scalars(&document)
            .iter()
            .any(|own| own.value.is_string() == value.is_string() && same(own.value, value))
    })
}

/// Parses a text as a JSON document.
fn document(text: &str) -> Option<Value> {
    text.trim_start().starts_with(['{', '[']).then(|| serde_json::from_str(text).ok())?
}

impl Drop for Node {
    /// Drops the contents before it one by one: a recursive drop of a long trail would exhaust the stack.
    fn drop(&mut self) {
        let mut next = self.before.0.take();
        while let Some(mut node) = next.and_then(Arc::into_inner) {
            next = node.before.0.take();
        }
    }
}

impl PartialEq for Trail {
    fn eq(&self, other: &Self) -> bool {
        self.contents().eq(other.contents())
    }
}

impl fmt::Debug for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.contents()).finish()
    }
}

/// Serialises the trail as a list, oldest first.
impl Serialize for Trail {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut contents: Vec<&Content> = self.contents().collect();
        contents.reverse();
        contents.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Trail {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::<Content>::deserialize(deserializer)?.into_iter().fold(Self::default(), Self::with))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn content(kind: ContentKind, value: Value, origins: Origins) -> Content {
        let function = "f".into();
        Content { kind, call: CallPath::root(), function, value: Arc::new(value), origins, source: None }
    }

    fn result(value: Value, origins: Origins) -> Content {
        content(ContentKind::Result, value, origins)
    }

    #[test]
    fn words_of_the_operator_and_of_trusted_results_are_known() {
        let trail = Trail::default()
            .with(content(
                ContentKind::Input,
                json!({"input": "pay 50 to Bob (bob@corp.com)"}),
                Origins::TRUSTED,
            ))
            .with(result(
                json!({"iban": "DE89", "page": "DE66"}),
                Origins::TRUSTED.with("/page", Origin::Untrusted),
            ))
            .with(result(json!("{\"vat\": \"DE77\"}"), Origins::TRUSTED))
            .with(result(json!("[\"DE55\"]"), Origins::untrusted()));
        for (words, value, holds) in [
            (From::Input, json!("bob@corp.com"), true),
            (From::Input, json!(50.0), true),
            (From::Input, json!("DE89"), false),
            (From::Trusted, json!("DE89"), true),
            (From::Trusted, json!("DE77"), true),
            (From::Trusted, json!("DE66"), false),
            (From::Trusted, json!("DE55"), false),
            (From::Trusted, json!("bob@corp.com"), false),
            (From::Known, json!("DE89"), true),
            (From::Known, json!("bob@corp.com"), true),
            (From::Known, json!(["DE89"]), false),
        ] {
            assert_eq!(trail.holds(words, &value), holds, "{words:?} {value}");
        }
    }

    #[test]
    fn a_named_source_knows_what_it_says() {
        let read = |arguments: Value, value: Value| Content {
            source: Some(Arc::new(arguments)),
            ..result(value, Origins::untrusted())
        };
        let input = json!(
            "Pay the bill in bill-12.txt (3 pages), see https://www.shop.example/orders/7. Mails about rent and \
             `old bills/9.txt` matter."
        );
        let listed = Content { source: None, ..read(json!({"path": "bill-12.txt"}), json!("DE00")) };
        let trail = Trail::default()
            .with(content(ContentKind::Input, input, Origins::TRUSTED))
            .with(read(
                json!({"path": "bill-12.txt", "n": 3}),
                json!({"text": "To DE89, 1200 EUR (\"DE88\")"}),
            ))
            .with(read(json!({"url": "www.shop.example/orders/7/"}), json!("{\"order\":\"DE77 DE78\"}")))
            .with(read(json!({"query": "rent"}), json!("attack DE66")))
            .with(read(json!({"path": "bill-1.txt"}), json!("attack DE55")))
            .with(read(json!({"path": "orders/7"}), json!("attack DE56")))
            .with(read(json!({"path": "bills/9.txt"}), json!("attack DE57")))
            .with(read(json!({"path": "BILL-12.txt"}), json!("attack DE58")))
            .with(read(json!({"url": "http://www.shop.example/orders/7"}), json!("attack DE59")))
            .with(read(json!({"path": "bill-12.txt", "also": "other.txt"}), json!("attack DE44")))
            .with(read(json!({"path": "bill-12.txt", "page": 2}), json!("attack DE43")))
            .with(read(json!({"path": "bill-12.txt"}), json!(["DE33", {"iban": "DE32"}])))
            .with(listed);
        for (value, holds) in [
            (json!("DE89"), true),
            (json!("DE88"), true),
            (json!(1200), true),
            (json!("DE77 DE78"), true),
            (json!("1200 EUR"), true),
            // Parts of tokens, arguments, and what other sources say.
            (json!("DE78\"}"), false),
            (json!("E89"), false),
            (json!("bill-12.txt"), false),
            (json!(3), false),
            (json!("DE66"), false),
            (json!("DE55"), false),
            (json!("DE56"), false),
            (json!("DE57"), false),
            (json!("DE58"), false),
            (json!("DE59"), false),
            (json!("DE44"), false),
            (json!("DE43"), false),
            (json!("DE33"), false),
            (json!("DE32"), false),
            (json!("DE00"), false),
        ] {
            assert_eq!(trail.holds(From::Source, &value), holds, "{value}");
        }
        assert!(
            trail.names_host(From::Input, "shop.example") && !trail.names_host(From::Input, "evil.example")
        );
        assert!(!trail.names_host(From::Trusted, "shop.example"));
    }

    #[test]
    fn a_typed_value_is_found_in_what_follows() {
        let typed = Origins::TRUSTED.with("/amount", Origin::Typed);
        let trail = Trail::default().with(result(json!({"amount": 12, "kind": "invoice"}), typed));
        let emitted = trail.emits(&json!({"pay": {"value": 12.0}, "text": "12", "kind": "invoice", "n": 13}));
        let at: Vec<&str> = emitted.marks().iter().map(|mark| &*mark.at).collect();
        assert_eq!(at, ["/pay/value", "/text"]);
        assert!(!trail.is_tainted());
    }

    #[test]
    fn a_long_trail_is_dropped_without_recursion() {
        let long =
            (0..500_000).fold(Trail::default(), |trail, _| trail.with(result(Value::Null, Origins::TRUSTED)));
        drop(long);
    }

    proptest! {
        #[test]
        fn a_trail_never_becomes_less_suspicious(origins in prop::collection::vec(0u8..3, 0..12)) {
            let mut trail = Trail::default();
            for origin in origins {
                let origin = [Origin::Trusted, Origin::Typed, Origin::Untrusted][usize::from(origin)];
                let before = trail.clone();
                trail.push(result(json!("x"), Origins::whole(origin)));
                prop_assert!(trail.origin() >= before.origin());
                prop_assert_eq!(trail.origin(), before.origin().max(origin));
                let read: Trail = serde_json::from_value(serde_json::to_value(&trail).unwrap()).unwrap();
                prop_assert_eq!(read.origin(), trail.origin());
            }
        }
    }
}
