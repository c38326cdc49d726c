//! Comparison of a worker's outputs with a type, as far as their schemas allow it.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};
use std::{any::type_name, collections::BTreeSet, fmt};

/// The greatest depth at which schemas are compared.
const DEEPEST: usize = 32;

/// The most differences that a message lists.
const LISTED: usize = 5;

/// A worker whose outputs a type can't hold.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Misfit {
    /// The worker.
    pub worker: String,
    /// The type.
    pub of: &'static str,
    /// Values that the worker may return and the type does not take, a sentence each.
    pub differences: Vec<String>,
    /// The worker's `returns`; `None` for text.
    pub returned: Option<Value>,
    /// The schema of the type.
    pub taken: Value,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worker, of, differences, returned, taken } = self;
        write!(f, "the outputs of `{worker}` don't fit the type `{of}`: ")?;
        let listed: Vec<&str> = differences.iter().take(LISTED).map(String::as_str).collect();
        f.write_str(&listed.join("; "))?;
        match returned {
            Some(returned) => write!(f, "\n  the worker returns: {returned}")?,
            None => f.write_str("\n  the worker returns: text")?,
        }
        write!(f, "\n  the type takes: {taken}")
    }
}

impl std::error::Error for Misfit {}

/// Compares the outputs of a worker with a type. `returned` is the worker's `returns`.
pub(crate) fn compare<T: JsonSchema>(worker: &str, returned: Option<&Value>) -> Result<(), Box<Misfit>> {
    let generator =
        SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None).into_generator();
    let taken = generator.into_root_schema_for::<T>().to_value();
    let text = json!({"type": "string"});
    let mut comparison =
        Comparison { taken: &taken, returned: returned.unwrap_or(&text), differences: Vec::new() };
    comparison.compare(&taken, comparison.returned, "", 0);
    let mut differences = comparison.differences;
    if differences.is_empty() {
        return Ok(());
    }
    if returned.is_none() {
        differences = vec!["it returns text: add `returns` to the worker".into()];
    }
    let (worker, returned) = (worker.to_owned(), returned.cloned());
    Err(Box::new(Misfit { worker, of: type_name::<T>(), differences, returned, taken }))
}

/// Two schemas under comparison, and the differences so far.
struct Comparison<'a> {
    taken: &'a Value,
    returned: &'a Value,
    differences: Vec<String>,
}

impl Comparison<'_> {
    /// Compares the schema of a type at a place with the schema of the output there. Parts that can't be compared count
    /// as fitting, because the output itself is later read into the type.
    fn compare(&mut self, taken: &Value, returned: &Value, at: &str, depth: usize) {
        let (taken, returned) = (resolved(taken, self.taken), resolved(returned, self.returned));
        if depth > DEEPEST || !taken.is_object() || !returned.is_object() {
            return;
        }
        if let Some(several) = alternatives(returned) {
            several.iter().for_each(|one| self.compare(taken, one, at, depth + 1));
        } else if let Some(choices) = alternatives(taken) {
            match each(returned) {
                Some(several) => several.iter().for_each(|one| self.compare(taken, one, at, depth + 1)),
                None => self.compare_with_choices(choices, returned, at, depth),
            }
        } else {
            self.compare_one(taken, returned, at, depth);
        }
    }

    /// Compares an output with several choices, of which it must fit one. If it fits none, the differences from the
    /// nearest choice are reported.
    fn compare_with_choices(&mut self, choices: &[Value], returned: &Value, at: &str, depth: usize) {
        let tries = choices.iter().map(|choice| {
            let mut one = Comparison { differences: Vec::new(), ..*self };
            one.compare(choice, returned, at, depth + 1);
            one.differences
        });
        self.differences.extend(tries.min_by_key(Vec::len).unwrap_or_default());
    }

    fn compare_one(&mut self, taken: &Value, returned: &Value, at: &str, depth: usize) {
        let place = if at.is_empty() { "the output".to_owned() } else { format!("`{at}`") };
        let (takes, gives) = (kinds(taken), kinds(returned));
        if let Some(takes) = &takes {
            let mut surplus = gives.clone().unwrap_or_else(|| BTreeSet::from(["anything".to_owned()]));
            let fits = |kind: &String| takes.contains(kind) || kind == "integer" && takes.contains("number");
            surplus.retain(|kind| !fits(kind));
            if !surplus.is_empty() {
                let (surplus, takes) = (listed(surplus), listed(takes.clone()));
                self.differences.push(format!("{place} may be {surplus}, and not only {takes}"));
                return;
            }
        }
        if let Some(values) = values(taken) {
            let given = self::values(returned);
            let unknown = given.as_ref().map(|given| given.iter().filter(|value| !values.contains(value)));
            let unknown = unknown.map(|unknown| listed(unknown.map(ToString::to_string)));
            match unknown {
                Some(unknown) if unknown.is_empty() => {}
                Some(unknown) => self.differences.push(format!("{place} may be {unknown}")),
                None => {
                    let values = listed(values.iter().map(ToString::to_string));
                    self.differences.push(format!("{place} may be other values than {values}"));
                }
            }
        }
        self.compare_properties(taken, returned, at, &place, depth);
        let is_list = gives.is_some_and(|gives| gives.contains("array"));
        if let Some(items) = taken.get("items").filter(|_| is_list) {
            let anything = json!({});
            let given = returned.get("items").filter(|given| given.is_object()).unwrap_or(&anything);
            self.compare(items, given, &format!("{at}[]"), depth + 1);
        }
    }

    fn compare_properties(&mut self, taken: &Value, returned: &Value, at: &str, place: &str, depth: usize) {
        let properties = |schema: &Value| schema.get("properties").and_then(Value::as_object).cloned();
        let (known, given) =
            (properties(taken).unwrap_or_default(), properties(returned).unwrap_or_default());
        let always = names(returned);
        for name in names(taken).iter().filter(|name| !always.contains(name)) {
            let lacks = if given.contains_key(name) || given.is_empty() { "may lack" } else { "has no" };
            self.differences.push(format!("{place} {lacks} `{name}`"));
        }
        if taken.get("additionalProperties") == Some(&Value::Bool(false)) {
            let surplus = given.keys().filter(|name| !known.contains_key(*name));
            self.differences.extend(surplus.map(|name| format!("{place} may have `{name}`")));
        }
        for (name, of) in &given {
            if let Some(known) = known.get(name) {
                let inner = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                self.compare(known, of, &inner, depth + 1);
            }
        }
    }
}

/// Returns the schema that a reference leads to.
fn resolved<'v>(schema: &'v Value, root: &'v Value) -> &'v Value {
    let mut schema = schema;
    for _ in 0..DEEPEST {
        let reference = schema.get("$ref").and_then(Value::as_str).and_then(|text| text.strip_prefix('#'));
        match reference.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

fn alternatives(schema: &Value) -> Option<&Vec<Value>> {
    ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array())
}

/// Splits a schema of several types or values into one schema for each.
fn each(schema: &Value) -> Option<Vec<Value>> {
    let several = |key: &str| schema.get(key)?.as_array().filter(|several| several.len() > 1);
    if let Some(values) = several("enum") {
        return Some(values.iter().map(|value| json!({"const": value})).collect());
    }
    let with = |kind: &Value| {
        let mut one = schema.clone();
        one["type"] = kind.clone();
        one
    };
    several("type").map(|kinds| kinds.iter().map(with).collect())
}

/// Returns the JSON types that a schema names or that its values have; `None` for any.
fn kinds(schema: &Value) -> Option<BTreeSet<String>> {
    match schema.get("type") {
        Some(Value::String(kind)) => Some(BTreeSet::from([kind.clone()])),
        Some(Value::Array(kinds)) => {
            Some(kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => Some(values(schema)?.iter().map(|value| kind_of(value).to_owned()).collect()),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Returns the only values that a schema allows.
fn values(schema: &Value) -> Option<&[Value]> {
    let listed = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice);
    listed.or_else(|| schema.get("const").map(std::slice::from_ref))
}

/// Returns the names of the required properties.
fn names(schema: &Value) -> Vec<String> {
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    required.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn listed(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[derive(JsonSchema)]
    #[allow(dead_code, reason = "only the schema counts")]
    struct Invoice {
        number: String,
        total: f64,
        note: Option<String>,
        lines: Vec<Line>,
        #[serde(default)]
        status: Status,
    }

    #[derive(JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only the schema counts")]
    struct Line {
        text: String,
        count: u32,
    }

    #[derive(Default, JsonSchema)]
    #[allow(dead_code, reason = "only the schema counts")]
    enum Status {
        /// A documented variant makes an alternative of its own.
        #[default]
        Open,
        Paid,
    }

    fn invoice() -> Value {
        json!({
            "type": "object",
            "properties": {
                "number": {"type": "string"},
                "total": {"type": "integer"},
                "note": {"type": ["string", "null"]},
                "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
                "status": {"enum": ["Open", "Paid"]},
                "more": {},
            },
            "required": ["number", "total", "lines"],
            "$defs": {"Line": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["text", "count"],
            }},
        })
    }

    fn differences(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut returned = invoice();
        change(&mut returned);
        compare::<Invoice>("extractor", Some(&returned))
            .err()
            .map(|misfit| misfit.differences)
            .unwrap_or_default()
    }

    #[test]
    fn outputs_that_a_type_can_hold_fit() {
        assert_eq!(differences(|_| {}), [""; 0]);
        assert!(compare::<Value>("any", Some(&invoice())).is_ok());
        assert!(compare::<Value>("any", None).is_ok());
        assert!(compare::<String>("text", None).is_ok());
        assert!(compare::<BTreeMap<String, Value>>("map", Some(&invoice())).is_ok());
        let nullable = json!({"anyOf": [invoice(), {"type": "null"}]});
        assert!(compare::<Option<Line>>("none", Some(&json!({"type": "null"}))).is_ok());
        assert!(compare::<Invoice>("nullable", Some(&nullable)).is_err());
    }

    #[test]
    fn each_difference_names_its_place() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 9] = [
            (
                |v| v["properties"]["number"]["type"] = json!("integer"),
                "`number` may be integer, and not only string",
            ),
            (|v| v["properties"]["total"] = json!({}), "`total` may be anything, and not only number"),
            (|v| v["required"] = json!(["number", "lines"]), "the output may lack `total`"),
            (|v| drop(v["properties"].as_object_mut().map(|map| map.remove("note"))), ""),
            (|v| v["properties"]["status"] = json!({"enum": ["Open", "Late"]}), "`status` may be \"Late\""),
            (|v| v["properties"]["status"] = json!({"type": "string"}), "`status` may be other values than"),
            (
                |v| v["$defs"]["Line"]["properties"]["count"] = json!({"type": "number"}),
                "`lines[].count` may be number",
            ),
            (|v| v["$defs"]["Line"]["properties"]["tax"] = json!({}), "`lines[]` may have `tax`"),
            (|v| v["properties"]["lines"] = json!({"type": "array"}), "`lines[]` may be anything"),
        ];
        for (change, expected) in cases {
            let found = differences(change).join("; ");
            assert!(
                found.starts_with(expected) && found.is_empty() == expected.is_empty(),
                "{expected}: {found}"
            );
        }
    }

    #[test]
    fn a_message_has_both_schemas() {
        let misfit = compare::<Invoice>("writer", None).unwrap_err().to_string();
        assert!(misfit.contains("`writer`") && misfit.contains("add `returns`"), "{misfit}");
        let misfit = compare::<Vec<Line>>("extractor", Some(&invoice())).unwrap_err().to_string();
        assert!(misfit.contains("may be object, and not only array"), "{misfit}");
        assert!(misfit.contains("the worker returns: {\"type\":\"object\""), "{misfit}");
        assert!(misfit.contains("the type takes: {") && misfit.contains("Line"), "{misfit}");
    }

    #[test]
    fn schemas_without_an_end_are_compared_to_a_depth() {
        #[derive(JsonSchema)]
        #[allow(dead_code, reason = "only the schema counts")]
        struct Tree {
            children: Vec<Tree>,
        }
        let own = json!({
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
            "required": ["children"],
        });
        assert!(compare::<Tree>("tree", Some(&own)).is_ok());
        assert!(compare::<Tree>("loop", Some(&json!({"$ref": "#"}))).is_err());
    }
}
