//! Makes names, ids and parameters valid for a provider, whatever a model, a server or a change of models put into a
//! history.
//!
//! Providers refuse a whole request for one name that they don't take, and with it every later request of the
//! conversation. A valid name is sent unchanged. An invalid one is replaced by a name that is made from it alone, so
//! that every request has the same name, with a hash, so that two names never become one.

use crate::form::{Dialect, Form, Wire};
use llm_do_core::{model::ToolSpec, schema::sha256};
use serde_json::{Map, Value};
use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The longest name of a tool or a parameter.
const LONGEST_NAME: usize = 64;

/// The names that a provider takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// `[A-Za-z0-9_-]{1,64}`
    Plain,
    /// `[A-Za-z0-9_.-]{1,64}`
    Dotted,
    /// `[A-Za-z_][A-Za-z0-9_-]{0,63}`
    Gemini,
    /// `[A-Za-z_][A-Za-z0-9_]{0,63}`
    Words,
}

impl Names {
    fn takes(self, name: &str) -> bool {
        let first = name.as_bytes().first().is_some_and(|first| self.begins(*first));
        first && name.len() <= LONGEST_NAME && name.bytes().all(|byte| self.has(byte))
    }

    fn begins(self, byte: u8) -> bool {
        match self {
            Self::Plain | Self::Dotted => self.has(byte),
            Self::Gemini | Self::Words => byte.is_ascii_alphabetic() || byte == b'_',
        }
    }

    fn has(self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric()
            || match byte {
                b'_' => true,
                b'-' => self != Self::Words,
                b'.' => self == Self::Dotted,
                _ => false,
            }
    }

    /// Makes a valid name from an invalid one, different from the other names.
    fn instead(self, name: &str, others: &dyn Fn(&str) -> bool) -> String {
        let start: String = name
            .chars()
            .take(LONGEST_NAME - 10)
            .map(|c| if u8::try_from(c).is_ok_and(|byte| self.has(byte)) { c } else { '_' })
            .collect();
        let start = if start.is_empty() { "unnamed".to_owned() } else { start };
        let begin = if start.bytes().next().is_some_and(|byte| self.begins(byte)) { "" } else { "_" };
        let mut hash = sha256(name.as_bytes());
        loop {
            let made = format!("{begin}{start}_{}", &hash[..8]);
            if !others(&made) {
                return made;
            }
            hash = sha256(hash.as_bytes());
        }
    }
}

/// The names and ids that the provider of a model takes.
#[derive(Clone, Copy, Debug)]
struct Limits {
    tools: Names,
    /// The names of parameters. `None`: any.
    parameters: Option<Names>,
    ids: fn(&str) -> bool,
    /// The length of the ids that are made.
    made_ids: usize,
}

impl Limits {
    fn of(form: &Form) -> Self {
        let model = form.model.to_ascii_lowercase();
        // Gateways pass requests on to the provider of the model, whose limits then apply.
        let anthropic = matches!(form.wire, Wire::Anthropic | Wire::Bedrock) || model.contains("claude");
        let gemini = form.wire == Wire::Gemini || model.contains("gemini");
        let parameters = match (anthropic, gemini) {
            (true, _) => Some(Names::Dotted),
            (_, true) => Some(Names::Words),
            _ => None,
        };
        let (ids, made_ids): (fn(&str) -> bool, usize) = match form.wire {
            _ if form.dialect == Dialect::Mistral => {
                (|id| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), 9)
            }
            _ if anthropic => (|id| Names::Plain.takes(id), 29),
            Wire::OpenAi => (|id| is_printable(id, 40), 29),
            Wire::Responses => (|id| is_printable(id, 64), 29),
            _ => (|id| is_printable(id, 256), 29),
        };
        Self { tools: if gemini { Names::Gemini } else { Names::Plain }, parameters, ids, made_ids }
    }

    fn made_id(&self, seed: &str) -> String {
        let hash = sha256(seed.as_bytes());
        match self.made_ids {
            9 => hash[..9].to_owned(),
            length => format!("call_{}", &hash[..length - 5]),
        }
    }
}

fn is_printable(id: &str, longest: usize) -> bool {
    !id.is_empty() && id.len() <= longest && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The names of one request, in both directions.
#[derive(Debug, Default)]
pub(crate) struct Mapping {
    limits: Option<Limits>,
    /// The tools whose names differ at the provider: ours, and the provider's.
    tools: Vec<(Arc<str>, String)>,
    /// The parameters whose names differ, by our name of the tool: ours, and the provider's.
    parameters: HashMap<Arc<str>, Vec<(String, String)>>,
}

impl Mapping {
    /// Makes the mapping for a request with these tools.
    pub(crate) fn of(form: &Form, tools: &[ToolSpec]) -> Self {
        let limits = Limits::of(form);
        let mut mapping = Self { limits: Some(limits), ..Self::default() };
        let is_offered = |name: &str| tools.iter().any(|tool| *tool.name == *name);
        for tool in tools {
            if form.reserved().contains(&&*tool.name) {
                let plain = format!("{}_", tool.name);
                let told =
                    if is_offered(&plain) { limits.tools.instead(&tool.name, &is_offered) } else { plain };
                mapping.tools.push((Arc::clone(&tool.name), told));
            } else if !limits.tools.takes(&tool.name) {
                let told = limits.tools.instead(&tool.name, &is_offered);
                mapping.tools.push((Arc::clone(&tool.name), told));
            }
            let Some(names) = limits.parameters else { continue };
            let mut all = Vec::new();
            parameters(&tool.input, &mut all);
            if all.iter().all(|name| names.takes(name)) {
                continue;
            }
            let is_known = |name: &str| all.contains(&name);
            let mut renamed: Vec<(String, String)> = Vec::new();
            for name in all.iter().filter(|name| !names.takes(name)) {
                if !renamed.iter().any(|(ours, _)| ours == name) {
                    renamed.push(((*name).to_owned(), names.instead(name, &is_known)));
                }
            }
            mapping.parameters.insert(Arc::clone(&tool.name), renamed);
        }
        mapping
    }

    /// Returns a tool's name at the provider. The name may be one that a model made up.
    pub(crate) fn told<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if let Some((_, told)) = self.tools.iter().find(|(ours, _)| **ours == *name) {
            return told.clone().into();
        }
        match self.limits {
            Some(limits) if !limits.tools.takes(name) => {
                limits.tools.instead(name, &|made| self.tools.iter().any(|(ours, _)| **ours == *made)).into()
            }
            _ => name.into(),
        }
    }

    /// Returns the tool of that name at the provider.
    pub(crate) fn meant<'a>(&'a self, told: &'a str) -> &'a str {
        self.tools.iter().find(|(_, name)| name == told).map_or(told, |(ours, _)| ours)
    }

    /// Returns the schema of a tool's input for the provider.
    pub(crate) fn input<'a>(&self, tool: &'a ToolSpec) -> Cow<'a, Value> {
        match self.parameters.get(&tool.name) {
            None => Cow::Borrowed(&tool.input),
            Some(renamed) => Cow::Owned(renamed_schema(&tool.input, renamed)),
        }
    }

    /// Returns arguments of a tool for the provider.
    pub(crate) fn arguments<'a>(&self, tool: &str, arguments: Cow<'a, Value>) -> Cow<'a, Value> {
        match self.parameters.get(tool) {
            None => arguments,
            Some(renamed) => Cow::Owned(with_keys(arguments.into_owned(), &|key| {
                renamed.iter().find(|(ours, _)| ours == key).map(|(_, told)| told.clone())
            })),
        }
    }

    /// Returns true if parameters of a tool have other names at the provider.
    pub(crate) fn renames(&self, tool: &str) -> bool {
        self.parameters.contains_key(tool)
    }

    /// Returns arguments under our names of the parameters.
    pub(crate) fn meant_arguments(&self, tool: &str, arguments: Value) -> Value {
        match self.parameters.get(tool) {
            None => arguments,
            Some(renamed) => with_keys(arguments, &|key| {
                renamed.iter().find(|(_, told)| told == key).map(|(ours, _)| ours.clone())
            }),
        }
    }
}

/// The keywords whose values are data and not schemas.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];
/// The keywords whose values are schemas by names that are no parameters.
const BY_NAME: [&str; 3] = ["$defs", "definitions", "patternProperties"];

/// Collects the names of all parameters that a schema declares, at any depth.
fn parameters<'s>(schema: &'s Value, names: &mut Vec<&'s str>) {
    match schema {
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                match (keyword.as_str(), value) {
                    ("properties", Value::Object(declared)) => {
                        names.extend(declared.keys().map(String::as_str));
                        declared.values().for_each(|schema| parameters(schema, names));
                    }
                    (keyword, Value::Object(named)) if BY_NAME.contains(&keyword) => {
                        named.values().for_each(|schema| parameters(schema, names));
                    }
                    (keyword, _) if DATA.contains(&keyword) => {}
                    _ => parameters(value, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| parameters(item, names)),
        _ => {}
    }
}

/// Returns a schema whose parameters have these other names.
fn renamed_schema(schema: &Value, renamed: &[(String, String)]) -> Value {
    let told = |name: &str| renamed.iter().find(|(ours, _)| ours == name).map(|(_, told)| told.clone());
    let name_of = |name: &Value| match name.as_str().and_then(told) {
        Some(told) => Value::String(told),
        None => name.clone(),
    };
    match schema {
        Value::Object(keywords) => {
            let one = |(keyword, value): (&String, &Value)| {
                let value = match (keyword.as_str(), value) {
                    ("properties" | "dependentSchemas", Value::Object(declared)) => {
                        let declared = declared.iter().map(|(name, schema)| {
                            let inner = renamed_schema(schema, renamed);
                            match told(name) {
                                Some(told) => (told, named(inner, name)),
                                None => (name.clone(), inner),
                            }
                        });
                        Value::Object(declared.collect())
                    }
                    ("required", Value::Array(names)) => names.iter().map(name_of).collect(),
                    ("dependentRequired", Value::Object(of)) => {
                        let of = of.iter().map(|(name, needs)| {
                            let needs = match needs {
                                Value::Array(names) => names.iter().map(name_of).collect(),
                                other => other.clone(),
                            };
                            (told(name).unwrap_or_else(|| name.clone()), needs)
                        });
                        Value::Object(of.collect())
                    }
                    ("$ref", Value::String(pointer)) => Value::String(renamed_pointer(pointer, &told)),
                    (keyword, Value::Object(by_name)) if BY_NAME.contains(&keyword) => {
                        let all = by_name
                            .iter()
                            .map(|(name, schema)| (name.clone(), renamed_schema(schema, renamed)));
                        Value::Object(all.collect())
                    }
                    (keyword, data) if DATA.contains(&keyword) => with_keys(data.clone(), &told),
                    (_, value) => renamed_schema(value, renamed),
                };
                (keyword.clone(), value)
            };
            Value::Object(keywords.iter().map(one).collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(|item| renamed_schema(item, renamed)).collect(),
        other => other.clone(),
    }
}

/// Adds the parameter's own name to the description in its schema, so that the model learns its meaning.
fn named(mut schema: Value, name: &str) -> Value {
    if let Value::Object(keywords) = &mut schema {
        let description = match keywords.get("description").and_then(Value::as_str) {
            Some(description) => format!("`{name}`: {description}"),
            None => format!("`{name}`"),
        };
        keywords.insert("description".into(), description.into());
    }
    schema
}

/// Renames the names after `properties` in a pointer.
fn renamed_pointer(pointer: &str, told: &dyn Fn(&str) -> Option<String>) -> String {
    let mut after_properties = false;
    let segments = pointer.split('/').map(|segment| {
        let plain = segment.replace("~1", "/").replace("~0", "~");
        let renamed = told(&plain).filter(|_| after_properties);
        after_properties = segment == "properties" && !after_properties;
        renamed.map_or(Cow::Borrowed(segment), Cow::Owned)
    });
    segments.collect::<Vec<_>>().join("/")
}

/// Renames the keys of objects in a value, at any depth.
fn with_keys(value: Value, other: &dyn Fn(&str) -> Option<String>) -> Value {
    match value {
        Value::Object(members) => {
            let taken: HashSet<String> = members.keys().cloned().collect();
            let members = members.into_iter().map(|(key, value)| {
                let key = other(&key).filter(|other| !taken.contains(other)).unwrap_or(key);
                (key, with_keys(value, other))
            });
            Value::Object(members.collect())
        }
        Value::Array(items) => items.into_iter().map(|item| with_keys(item, other)).collect(),
        other => other,
    }
}

/// The ids of the calls of a history, as the provider gets them: valid, and each once.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// The ids that have been sent.
    sent: HashSet<String>,
    /// The id that is sent for the last call of an id that differs.
    told: HashMap<String, String>,
}

impl Ids {
    /// Returns the id of the next call.
    pub(crate) fn call<'a>(&mut self, mapping: &Mapping, id: &'a str) -> Cow<'a, str> {
        let Some(limits) = mapping.limits else { return id.into() };
        let mut told = if (limits.ids)(id) { Cow::Borrowed(id) } else { limits.made_id(id).into() };
        let mut number = 1;
        while self.sent.contains(&*told) {
            number += 1;
            told = limits.made_id(&format!("{id}#{number}")).into();
        }
        self.sent.insert(told.to_string());
        if told != id {
            self.told.insert(id.to_owned(), told.to_string());
        }
        told
    }

    /// Returns the id of the call that a result answers.
    pub(crate) fn result<'a>(&self, id: &'a str) -> Cow<'a, str> {
        self.told.get(id).map_or(Cow::Borrowed(id), |told| told.clone().into())
    }
}

/// The names and ids that make a history valid for a provider.
#[derive(Debug, Default)]
pub(crate) struct Valid {
    pub(crate) mapping: Mapping,
    pub(crate) ids: Ids,
    /// True if the message that is written already has an answer.
    pub(crate) is_answered: bool,
}

impl Valid {
    /// Makes the names for a request with these tools.
    pub(crate) fn of(form: &Form, tools: &[ToolSpec]) -> Self {
        Self { mapping: Mapping::of(form, tools), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn form(wire: Wire, dialect: Dialect, model: &str) -> Form {
        Form::new(wire, dialect, "p", model)
    }

    fn anthropic() -> Form {
        form(Wire::Anthropic, Dialect::Own, "claude-test")
    }

    fn gemini() -> Form {
        form(Wire::Gemini, Dialect::Own, "gemini-3-flash")
    }

    fn openai() -> Form {
        form(Wire::OpenAi, Dialect::Own, "gpt-test")
    }

    fn tool(name: &str, input: Value) -> ToolSpec {
        ToolSpec { name: name.into(), description: "".into(), input: Arc::new(input) }
    }

    #[test]
    fn a_name_that_a_model_made_up_is_valid_and_its_own() {
        let made_up = [
            "functions.ping",
            "ping<|channel|>commentary",
            "",
            &"p".repeat(65),
            "пинг",
            "a b",
            "ping\n",
            "功能",
        ];
        for form in [openai(), anthropic(), gemini()] {
            let mapping = Mapping::of(&form, &[tool("ping", json!({}))]);
            let mut told: HashSet<String> = HashSet::from(["ping".to_owned()]);
            for name in made_up {
                let name = mapping.told(name).into_owned();
                let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
                assert!((1..=64).contains(&name.len()) && name.chars().all(valid), "{name}");
                assert!(!name.starts_with(|c: char| c.is_ascii_digit() || c == '-'), "{name}");
                assert_eq!(mapping.told(&name), name, "it is mapped once");
                assert_eq!(mapping.meant(&name), name, "it is no tool");
                assert!(told.insert(name.clone()), "{name} is one of two");
            }
            assert_eq!((&*mapping.told("ping"), mapping.meant("ping")), ("ping", "ping"));
        }
    }

    #[test]
    fn a_tool_is_found_by_the_name_that_its_provider_got() {
        for (form, name, told) in [
            (anthropic(), "web_search", Some("web_search_")),
            (anthropic(), "code_execution", Some("code_execution_")),
            (gemini(), "codeExecution", Some("codeExecution")),
            (gemini(), "3d", None),
            (gemini(), "-x", None),
            (openai(), "web_search", Some("web_search")),
            (anthropic(), "mine_", Some("mine_")),
        ] {
            let mapping = Mapping::of(&form, &[tool(name, json!({}))]);
            let sent = mapping.told(name).into_owned();
            assert!(told.is_none_or(|told| told == sent), "{sent}");
            assert_eq!(mapping.meant(&sent), name);
        }
        let both =
            Mapping::of(&anthropic(), &[tool("web_search", json!({})), tool("web_search_", json!({}))]);
        for name in ["web_search", "web_search_"] {
            assert_eq!(both.meant(&both.told(name)), name);
        }
        assert_ne!(both.told("web_search"), both.told("web_search_"));
    }

    #[test]
    fn parameters_have_names_that_the_provider_takes_and_come_back_under_their_own() {
        let schema = json!({
            "type": "object",
            "properties": {
                "größe": {"type": "integer", "description": "In cm."},
                "filter[id]": {"$ref": "#/properties/$top"},
                "$top": {"type": "object", "properties": {"a b": {}}, "required": ["a b"]},
                "plain": {"enum": ["größe"], "default": {"größe": 1}},
                "properties": {"type": "array", "items": {"properties": {"": {}}}},
            },
            "required": ["größe", "plain"],
            "dependentRequired": {"$top": ["größe"]},
        });
        let tools = [tool("t", schema)];
        let arguments = json!({"größe": 3, "filter[id]": 1, "$top": {"a b": 2}, "plain": "größe", "properties": [{"": 1}]});
        for form in [anthropic(), gemini()] {
            let mapping = Mapping::of(&form, &tools);
            let told = mapping.input(&tools[0]).into_owned();
            let names = Limits::of(&form).parameters.unwrap();
            let mut all = Vec::new();
            parameters(&told, &mut all);
            assert!(all.len() == 7 && all.iter().all(|name| names.takes(name)), "{all:?}");
            let size = told["required"][0].as_str().unwrap();
            assert_eq!(
                told["properties"][size],
                json!({"type": "integer", "description": "`größe`: In cm."})
            );
            assert_eq!(told["required"][1], "plain");
            assert_eq!(told["properties"]["plain"]["enum"], json!(["größe"]), "a value is no name");
            assert_eq!(told["properties"]["plain"]["default"], json!({size: 1}));
            let (top, needs) = told["dependentRequired"].as_object().unwrap().iter().next().unwrap();
            assert_eq!(needs, &json!([size]));
            let filter = told["properties"].as_object().unwrap().values().nth(1).unwrap();
            assert_eq!(filter["$ref"], format!("#/properties/{top}"));

            let sent = mapping.arguments("t", Cow::Borrowed(&arguments)).into_owned();
            assert_eq!(sent[size], 3);
            assert_eq!(mapping.meant_arguments("t", sent), arguments);
            assert_eq!(mapping.meant_arguments("other", arguments.clone()), arguments);
        }
        let mapping = Mapping::of(&openai(), &tools);
        assert!(matches!(mapping.input(&tools[0]), Cow::Borrowed(_)), "OpenAI takes any name");
        let behind = form(Wire::OpenAi, Dialect::OpenRouter, "anthropic/claude-sonnet-4.5");
        assert!(matches!(Mapping::of(&behind, &tools).input(&tools[0]), Cow::Owned(_)));
    }

    #[test]
    fn ids_of_another_provider_are_valid_and_lead_to_their_calls() {
        let mistral = form(Wire::OpenAi, Dialect::Mistral, "mistral-large");
        let long = "x".repeat(65);
        for (form, fits) in [(anthropic(), "toolu_1"), (openai(), "functions.ping:0"), (mistral, "abcdefgh9")]
        {
            let mapping = Mapping::of(&form, &[]);
            let limits = Limits::of(&form);
            let mut ids = Ids::default();
            assert_eq!(ids.call(&mapping, fits), fits);
            let mut sent = HashSet::from([fits.to_owned()]);
            for id in
                ["functions.ping:0", "call#f#0#3.2", &long, "ид", "functions.ping:0", "toolu_2", "toolu_2"]
            {
                let told = ids.call(&mapping, id).into_owned();
                assert!((limits.ids)(&told), "{told}");
                assert_eq!(ids.result(id), told);
                assert!(sent.insert(told), "an id is one of two calls");
            }
        }
        let told = |id| Ids::default().call(&Mapping::of(&anthropic(), &[]), id).into_owned();
        assert_eq!(told("functions.ping:0"), told("functions.ping:0"), "each request has the same");
    }
}
