//! Grammars that constrain a model's output: JSON of a schema, and calls of the offered tools
//! (`docs/guides/local-models.md`).
//!
//! A call is `<tool_call>{"name": "…", "arguments": …}</tool_call>`, the form that several model families were
//! trained on.

use llama_cpp_2::{model::LlamaModel, token::LlamaToken};
use llguidance::{
    Matcher, ParserFactory,
    api::TopLevelGrammar,
    toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie},
};
use llm_do_core::model::ToolSpec;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The start of a call.
pub(crate) const CALL_OPEN: &str = "<tool_call>";
/// The end of a call.
pub(crate) const CALL_CLOSE: &str = "</tool_call>";

/// Makes matchers for one vocabulary.
pub(crate) struct Grammars {
    factory: ParserFactory,
}

impl Grammars {
    /// Reads the vocabulary, which takes some tens of milliseconds; `None` if grammars can't work with it.
    pub(crate) fn new(model: &LlamaModel) -> Option<Self> {
        let mut factory = ParserFactory::new(
            &token_environment(model)?,
            InferenceCapabilities::default(),
            &llguidance::earley::SlicedBiasComputer::general_slices(),
        )
        .ok()?;
        factory.quiet();
        Some(Self { factory })
    }

    /// Makes a matcher for a JSON value of that schema, or a call of one of the tools.
    pub(crate) fn answer(&self, schema: &Value, tools: &[ToolSpec]) -> Option<Matcher> {
        let mut grammar = format!("answer: %json {}\n", self.usable(schema, &json!({})));
        if tools.is_empty() {
            grammar.push_str("start: answer\n");
        } else {
            grammar.push_str(&format!("start: answer | {} call\n", literal(CALL_OPEN)));
            self.push_call(&mut grammar, tools);
        }
        self.matcher(grammar)
    }

    /// Makes a matcher for the text after the opening tag of a call.
    pub(crate) fn call(&self, tools: &[ToolSpec]) -> Option<Matcher> {
        let mut grammar = "start: call\n".to_owned();
        self.push_call(&mut grammar, tools);
        self.matcher(grammar)
    }

    fn push_call(&self, grammar: &mut String, tools: &[ToolSpec]) {
        let names: Vec<_> = (0..tools.len()).map(|index| format!("tool{index}")).collect();
        grammar.push_str(&format!("call: /\\n?/ ({}) /\\n?/ {}\n", names.join(" | "), literal(CALL_CLOSE)));
        for (tool, rule) in tools.iter().zip(names) {
            let head = literal(&format!("{{\"name\": {}, \"arguments\": ", Value::from(&*tool.name)));
            let input = self.usable(&tool.input, &json!({"type": "object"}));
            grammar.push_str(&format!("{rule}: {head} {rule}_input \"}}\"\n{rule}_input: %json {input}\n"));
        }
    }

    /// Returns the schema in the form that the grammar takes, or `looser` where the schema can't be made a grammar. The
    /// engine validates the output in any case.
    fn usable(&self, schema: &Value, looser: &Value) -> Value {
        let written = one_way_to_write(schema);
        let grammar = TopLevelGrammar::from_lark(format!("start: %json {written}\n"));
        if self.factory.create_parser(grammar).is_ok() { written } else { one_way_to_write(looser) }
    }

    fn matcher(&self, grammar: String) -> Option<Matcher> {
        let matcher = Matcher::new(self.factory.create_parser(TopLevelGrammar::from_lark(grammar)));
        (!matcher.is_error()).then_some(matcher)
    }
}

/// Fixes the white space, in which a small model can lose itself, and ignores keywords that have no grammar: the
/// validator checks those.
fn one_way_to_write(schema: &Value) -> Value {
    let mut keys = schema.as_object().cloned().unwrap_or_else(Map::new);
    keys.insert(
        "x-guidance".into(),
        json!({"whitespace_flexible": false, "item_separator": ", ", "key_separator": ": ", "lenient": true}),
    );
    Value::Object(keys)
}

/// Makes a literal of the grammar language, which has all escapes of JSON.
fn literal(text: &str) -> Value {
    Value::from(text)
}

/// Returns the bytes of every token, in the form that the matcher needs.
fn token_environment(model: &LlamaModel) -> Option<TokEnv> {
    let vocab = model.vocab();
    let mut ends: Vec<u32> = Vec::new();
    let mut words = Vec::new();
    for token in 0..vocab.n_tokens() {
        let token = LlamaToken::new(token);
        if vocab.is_eog(token) {
            ends.push(token.0.cast_unsigned());
        }
        let mut bytes = vocab.token_to_piece(token, false, None);
        if bytes.is_empty() {
            bytes = vocab.token_to_piece(token, true, None);
            if !bytes.is_empty() {
                bytes.insert(0, TokTrie::SPECIAL_TOKEN_MARKER);
            }
        }
        words.push(bytes);
    }
    let info = TokRxInfo::new(u32::try_from(words.len()).ok()?, *ends.first()?);
    Some(Arc::new(ApproximateTokEnv::new(TokTrie::from(&info, &words).with_eos_tokens(&ends))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grammars() -> Grammars {
        let mut factory = ParserFactory::new_simple(&ApproximateTokEnv::single_byte_env()).unwrap();
        factory.quiet();
        Grammars { factory }
    }

    /// Returns true if the matcher accepts the whole text, and accepts its end there.
    fn accepts(matcher: Option<Matcher>, text: &str) -> bool {
        let mut matcher = matcher.expect("a grammar");
        let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
        matcher.try_consume_tokens(&tokens).unwrap() == tokens.len()
            && (matcher.is_stopped() || matcher.is_accepting().unwrap())
    }

    fn tools() -> Vec<ToolSpec> {
        let tool = |name: &str, input: Value| ToolSpec {
            name: name.into(),
            description: "".into(),
            input: Arc::new(input),
        };
        let path = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": false});
        let count = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["n"], "additionalProperties": false});
        vec![tool("read_file", path), tool("count", count)]
    }

    #[test]
    fn a_call_is_bound_to_the_schema_of_its_own_tool() {
        let grammars = grammars();
        let call = |text: &str| accepts(grammars.call(&tools()), text);
        assert!(call(r#"{"name": "read_file", "arguments": {"path": "a \"b\""}}</tool_call>"#));
        assert!(call("\n{\"name\": \"count\", \"arguments\": {\"n\": 3}}\n</tool_call>"));
        assert!(!call(r#"{"name": "count", "arguments": {"path": "a"}}</tool_call>"#));
        assert!(!call(r#"{"name": "count", "arguments": {"n": 12}}</tool_call>"#));
        assert!(!call(r#"{"name": "delete", "arguments": {}}</tool_call>"#));
        assert!(!call(r#"{"name": "count", "arguments": {"n": 3}}"#));
    }

    #[test]
    fn an_answer_is_the_schema_or_a_call() {
        let grammars = grammars();
        let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false});
        let both = |text: &str| accepts(grammars.answer(&schema, &tools()), text);
        assert!(both(r#"{"ok": true}"#));
        assert!(both(r#"<tool_call>{"name": "count", "arguments": {"n": 3}}</tool_call>"#));
        assert!(!both("Sure!"));
        assert!(!accepts(grammars.answer(&schema, &[]), r#"<tool_call>{"name": "count""#));
        assert!(!accepts(grammars.answer(&schema, &[]), "{ \"ok\":  true}"));
    }

    #[test]
    fn references_and_unions_are_followed() {
        let grammars = grammars();
        let schema = json!({
            "$defs": {"item": {"type": "object", "properties": {"of": {"enum": ["a", "b"]}, "sub": {"$ref": "#/$defs/item"}}, "required": ["of"], "additionalProperties": false}},
            "type": "array", "items": {"anyOf": [{"$ref": "#/$defs/item"}, {"type": "null"}]}, "maxItems": 2
        });
        let fits = |text: &str| accepts(grammars.answer(&schema, &[]), text);
        assert!(fits(r#"[{"of": "a", "sub": {"of": "b"}}, null]"#));
        assert!(!fits(r#"[{"of": "c"}]"#));
        assert!(!fits("[null, null, null]"));
    }

    #[test]
    fn what_has_no_grammar_is_left_to_the_validator() {
        let grammars = grammars();
        for schema in [
            json!({"type": "object", "properties": {"a": {"type": "string", "format": "no-such-format"}}, "required": ["a"]}),
            json!({"type": "object", "propertyNames": {"pattern": "^a"}}),
            json!({"not": {"type": "string"}}),
            json!({"$ref": "https://example.org/schema.json"}),
            json!({"type": "string", "pattern": "(?=look)ahead"}),
            json!({"type": "nonsense"}),
            json!(true),
        ] {
            let matcher = grammars.answer(&schema, &[]);
            assert!(matcher.is_some(), "{schema}");
            let tool = ToolSpec { name: "t".into(), description: "".into(), input: Arc::new(schema.clone()) };
            assert!(grammars.call(&[tool]).is_some(), "{schema}");
        }
    }
}
