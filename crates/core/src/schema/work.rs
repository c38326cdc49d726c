//! A limit for the work of one validation.
//!
//! `$ref` lets a short schema describe an endless tree: 30 definitions that each refer twice to the next make a
//! thousand million comparisons of one value. The author may be a stranger, and a validation can't be interrupted.
//! Therefore every reference is counted, with the size of its target and of the value, and a validation that exceeds
//! [`MOST`] ends without a result. The count depends on the schema and the value alone, so a resumed run gets the same
//! result.

use super::subschemas::NAMED;
use jsonschema::{Keyword, ValidationError, paths::Location};
use serde_json::{Map, Value, json};
use std::{borrow::Cow, cell::Cell, collections::BTreeSet};

/// Limit for the units of work in one validation. A unit is at most one comparison of a node of a schema with a node of
/// a value. The limit takes less than a second or two on a slow machine.
const MOST: u64 = 20_000_000;
/// Limit for the units of work in the list of violations, each of which takes longer.
const MOST_FOR_VIOLATIONS: u64 = 200_000;
/// Bytes of a text that count as one node.
const BYTES: usize = 64;
/// Number of nodes that count for a pattern which is only matched by backtracking.
const BACKTRACKING: u64 = 1_000;
/// The keyword of a check that counts.
const KEYWORD: &str = "x-llm-do-work";

thread_local! {
    /// Number of units left to the validation on this thread.
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

/// A schema whose references are counted, with its own cost.
pub(super) struct Counted {
    /// Nodes of the schema itself.
    weight: u64,
    validator: jsonschema::Validator,
}

/// A validation that exceeds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

impl Counted {
    /// Compiles a schema. References to other documents are refused.
    pub(super) fn new(schema: &Value) -> Result<Self, ValidationError<'static>> {
        let mut counted = Cow::Borrowed(schema);
        for pointer in places_of_references(schema) {
            if let Some(Value::Object(place)) = counted.to_mut().pointer_mut(&pointer) {
                count(place, schema);
            }
        }
        let validator = super::keywords::options()
            .with_pattern_options(jsonschema::PatternOptions::fancy_regex().backtrack_limit(100_000))
            .with_keyword(KEYWORD, |_, weight: &Value, _: Location| {
                Ok(Box::new(Reference { weight: weight.as_u64().unwrap_or(1) }))
            })
            .build(&counted)
            .map_err(ValidationError::to_owned)?;
        Ok(Self { weight: weight(schema), validator })
    }

    /// Returns true if a value fits.
    pub(super) fn is_valid(&self, value: &Value) -> Result<bool, TooMuch> {
        self.within(MOST, value, || self.validator.is_valid(value))
    }

    /// The violations of a value that does not fit.
    pub(super) fn violations<T>(
        &self,
        value: &Value,
        take: impl Fn(ValidationError<'_>) -> T,
    ) -> Result<Vec<T>, TooMuch> {
        self.within(MOST_FOR_VIOLATIONS, value, || {
            self.validator.iter_errors(value).take(20).map(take).collect()
        })
    }

    fn within<T>(&self, most: u64, value: &Value, work: impl FnOnce() -> T) -> Result<T, TooMuch> {
        LEFT.set(most);
        if !spend(self.weight, value) {
            return Err(TooMuch);
        }
        let found = work();
        if LEFT.get() == 0 { Err(TooMuch) } else { Ok(found) }
    }
}

/// The check before a reference is followed. Once no units are left, every reference fails at once.
struct Reference {
    weight: u64,
}

impl<'i> Keyword<'i> for Reference {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        if spend(self.weight, instance) { Ok(()) } else { Err(ValidationError::custom("too much work")) }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        spend(self.weight, instance)
    }
}

/// Takes the cost of a comparison between that number of nodes of a schema and a value. Returns false if not enough
/// units are left; then none are left.
fn spend(weight: u64, value: &Value) -> bool {
    let left = LEFT.get();
    let mut nodes = 0;
    let affordable = grow(value, left / weight.max(1), &mut nodes);
    let left = if affordable { left.saturating_sub(weight.max(1).saturating_mul(nodes)) } else { 0 };
    LEFT.set(left);
    left > 0
}

/// Adds the nodes of a value. Returns false if there are more than `most`.
fn grow(value: &Value, most: u64, nodes: &mut u64) -> bool {
    let own = match value {
        Value::String(text) => text.len() / BYTES,
        Value::Object(fields) => fields.keys().map(|key| key.len() / BYTES).sum(),
        _ => 0,
    };
    *nodes = nodes.saturating_add(1 + own as u64);
    *nodes <= most
        && match value {
            Value::Array(items) => items.iter().all(|item| grow(item, most, nodes)),
            Value::Object(fields) => fields.values().all(|item| grow(item, most, nodes)),
            _ => true,
        }
}

/// Nodes of a schema. Definitions count where they are referred to.
fn weight(schema: &Value) -> u64 {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "$defs" | "definitions"))
            .map(|(key, value)| {
                let pattern = match (key.as_str(), value) {
                    ("pattern", Value::String(pattern)) => backtracking(pattern),
                    ("patternProperties", Value::Object(of)) => of.keys().map(|key| backtracking(key)).sum(),
                    _ => 0,
                };
                pattern + weight(value)
            })
            .fold(1, u64::saturating_add),
        Value::Array(items) => items.iter().map(weight).fold(1, u64::saturating_add),
        _ => 1,
    }
}

/// The cost of a pattern beyond a comparison: those with lookaround and back references are matched by backtracking.
fn backtracking(pattern: &str) -> u64 {
    let fancy = ["(?=", "(?!", "(?<", "(?>", "(?("].iter().any(|group| pattern.contains(group));
    let back = pattern.as_bytes().windows(2).any(|pair| pair[0] == b'\\' && pair[1].is_ascii_digit());
    if fancy || back { BACKTRACKING } else { 0 }
}

/// Counts the references of one schema: `{"$ref": …}` becomes `{"allOf": [{KEYWORD: weight}, {"$ref": …}]}`, which means
/// the same and is checked in this order.
fn count(place: &mut Map<String, Value>, whole: &Value) {
    let mut parts = Vec::new();
    for keyword in REFERENCES {
        let Some(Value::String(target)) = place.get(keyword).cloned() else { continue };
        place.remove(keyword);
        let found = target.strip_prefix('#').and_then(|target| whole.pointer(target));
        parts.push(json!({ KEYWORD: weight(found.unwrap_or(whole)) }));
        parts.push(json!({ keyword: target }));
    }
    match place.get_mut("allOf") {
        Some(Value::Array(all)) => all.extend(parts),
        _ => drop(place.insert("allOf".into(), parts.into())),
    }
}

const REFERENCES: [&str; 2] = ["$ref", "$dynamicRef"];

/// The objects of a schema that refer to others.
#[derive(Default)]
struct References {
    /// The pointers of these objects.
    places: BTreeSet<String>,
    /// The pointers in the references, each relative to the schema or to a part with an `$id`.
    targets: BTreeSet<String>,
    /// The pointers of the parts with an `$id`, and of the whole.
    roots: BTreeSet<String>,
}

/// The pointers of all objects with a reference that may be used as a schema, wherever they are: a reference may lead
/// to a place that is not the value of a keyword for schemas.
fn places_of_references(schema: &Value) -> BTreeSet<String> {
    let mut found = References { roots: BTreeSet::from([String::new()]), ..References::default() };
    found.collect(schema, String::new(), false);
    let mut followed = BTreeSet::new();
    loop {
        let joined =
            found.roots.iter().flat_map(|root| found.targets.iter().map(move |to| format!("{root}{to}")));
        let new: Vec<String> = joined.filter(|pointer| !followed.contains(pointer)).collect();
        if new.is_empty() {
            return found.places;
        }
        for pointer in new {
            if let Some(place) = schema.pointer(&pointer) {
                found.collect(place, pointer.clone(), false);
            }
            followed.insert(pointer);
        }
    }
}

impl References {
    /// Visits a schema, or a map from names to schemas (`named`).
    fn collect(&mut self, schema: &Value, pointer: String, named: bool) {
        let below = |key: &str| format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
        match schema {
            Value::Object(fields) => {
                let text = |keyword: &str| fields.get(keyword).and_then(Value::as_str);
                for target in REFERENCES.into_iter().filter_map(text) {
                    self.targets.extend(target.strip_prefix('#').map(str::to_owned));
                    self.places.insert(pointer.clone());
                }
                if text("$id").is_some() {
                    self.roots.insert(pointer.clone());
                }
                for (key, value) in fields {
                    let is_data = matches!(key.as_str(), "const" | "enum" | "default" | "examples");
                    if named || !is_data {
                        self.collect(value, below(key), !named && NAMED.contains(&key.as_str()));
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.collect(item, below(&index.to_string()), false);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Definitions that each refer twice to the next, below that keyword.
    fn doubled(keyword: &str, below: &str, depth: usize, last: Value) -> Value {
        let mut definitions = Map::new();
        for level in 0..depth {
            let next = json!({"$ref": format!("#/{below}/d{}", level + 1)});
            definitions.insert(format!("d{level}"), json!({ keyword: [next, next] }));
        }
        definitions.insert(format!("d{depth}"), last);
        json!({"$ref": format!("#/{below}/d0"), below: definitions})
    }

    #[test]
    fn doubled_references_end() {
        for keyword in ["anyOf", "oneOf", "allOf"] {
            for below in ["$defs", "elsewhere"] {
                let schema = doubled(
                    keyword,
                    below,
                    40,
                    json!({"type": if keyword == "allOf" { "string" } else { "null" }}),
                );
                let counted = Counted::new(&schema).unwrap();
                assert_eq!(counted.is_valid(&json!("x")), Err(TooMuch), "{keyword} {below}");
            }
        }
        let schema = json!({
            "properties": {"child": {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}},
            "required": ["child"],
        });
        let value = (0..60).fold(json!({}), |child, _| json!({ "child": child }));
        // The library remembers what it has found of a part of the value, or the limit ends it.
        assert_ne!(Counted::new(&schema).unwrap().is_valid(&value), Ok(true));
    }

    #[test]
    fn ordinary_schemas_stay_far_below_the_limit() {
        let line = json!({"type": "object", "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/$defs/line"}}});
        let schema = json!({"type": "array", "items": {"$ref": "#/$defs/line"}, "$defs": {"line": line}});
        let counted = Counted::new(&schema).unwrap();
        let value: Value = (0..20_000).map(|n| json!({"n": n, "next": {"n": n}})).collect();
        assert_eq!(counted.is_valid(&value), Ok(true));
        assert!(LEFT.get() > MOST / 2, "{}", LEFT.get());
    }

    #[test]
    fn a_property_named_like_a_keyword_is_a_schema() {
        let schema = json!({"properties": {"const": {"$ref": "#/$defs/a"}, "$ref": {"type": "string"}}, "const": {"$ref": "#"}, "$defs": {"a": {}}});
        assert_eq!(places_of_references(&schema), BTreeSet::from(["/properties/const".to_owned()]));
    }

    proptest! {
        /// Tests that counting changes no result.
        #[test]
        fn a_counted_reference_means_the_same(
            kinds in proptest::collection::vec(proptest::sample::select(vec!["string", "integer", "null", "object"]), 3),
            value in proptest::sample::select(vec![json!("x"), json!(1), json!(null), json!({"a": 1}), json!({"a": null, "b": 2})]),
        ) {
            let schema = json!({
                "anyOf": [
                    {"$ref": "#/$defs/a", "type": kinds[0]},
                    {"allOf": [{"$ref": "#/$defs/b"}], "$ref": "#/$defs/a"},
                    {"type": kinds[1], "properties": {"a": {"$ref": "#/$defs/b"}}, "unevaluatedProperties": false},
                ],
                "$defs": {"a": {"type": kinds[2]}, "b": {"type": ["integer", "object"]}},
            });
            let plain = jsonschema::draft202012::new(&schema).unwrap();
            prop_assert_eq!(Counted::new(&schema).unwrap().is_valid(&value), Ok(plain.is_valid(&value)));
        }
    }
}
