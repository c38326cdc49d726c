//! Types without room for instructions (`docs/reference/origins.md`).
//!
//! A value of such a type can't give a model instructions: it is a number, one of a few words, a date, or a short text
//! of a declared form. A worker that reads text of others and answers with such a type separates its caller from that
//! text.

use super::{keywords::is_asserted, pattern::is_bounded};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Maximum nesting that is followed. A deeper type counts as one with room.
const DEEPEST: usize = 64;

/// Returns true if no value of this schema has room for instructions. A schema that this function does not understand
/// has room.
///
/// These types leave no room: numbers, booleans and null; `enum` and `const`; strings with `format` `date`, `time`,
/// `date-time` or `uuid`; strings with `maxLength` and either `clean: true` or a `pattern` that matches the whole
/// string and bounds its characters; objects with `additionalProperties: false` whose properties leave no room; lists
/// of items that leave no room; references to such schemas within the document. All keywords of a schema apply at once,
/// so a single keyword that leaves no room is enough. All alternatives of `anyOf` and `oneOf` must leave none. A schema
/// that contains itself leaves room.
pub fn leaves_no_room(schema: &Value) -> bool {
    Reading { root: schema, known: HashMap::new() }.clean(schema, 0)
}

struct Reading<'s> {
    root: &'s Value,
    /// The targets of references: `None` while a target is being read. Each is read once, because references can double
    /// with each level.
    known: HashMap<&'s str, Option<bool>>,
}

impl<'s> Reading<'s> {
    fn clean(&mut self, schema: &'s Value, depth: usize) -> bool {
        let keywords = match schema {
            // No value fits `false`.
            Value::Bool(fits) => return !fits,
            Value::Object(keywords) if depth < DEEPEST => keywords,
            _ => return false,
        };
        // References inside a schema with an identity of its own are relative to it.
        if depth > 0 && keywords.contains_key("$id") {
            return false;
        }
        let depth = depth + 1;
        keywords.contains_key("const")
            || keywords.contains_key("enum")
            || keywords.get("$ref").and_then(Value::as_str).is_some_and(|to| self.target(to, depth))
            || list(keywords, "allOf").iter().any(|part| self.clean(part, depth))
            || self.all(list(keywords, "anyOf"), depth)
            || self.all(list(keywords, "oneOf"), depth)
            || self.typed(keywords, depth)
    }

    /// Returns true if there are schemas, and none has room.
    fn all(&mut self, schemas: &'s [Value], depth: usize) -> bool {
        !schemas.is_empty() && schemas.iter().all(|schema| self.clean(schema, depth))
    }

    fn typed(&mut self, keywords: &'s Map<String, Value>, depth: usize) -> bool {
        let mut kinds = match keywords.get("type") {
            Some(Value::Array(kinds)) if !kinds.is_empty() => kinds.iter(),
            Some(kind @ Value::String(_)) => std::slice::from_ref(kind).iter(),
            _ => return false,
        };
        kinds.all(|kind| match kind.as_str() {
            Some("number" | "integer" | "boolean" | "null") => true,
            Some("string") => is_clean_string(keywords),
            Some("array") => self.array(keywords, depth),
            Some("object") => self.object(keywords, depth),
            _ => false,
        })
    }

    fn array(&mut self, keywords: &'s Map<String, Value>, depth: usize) -> bool {
        let first = list(keywords, "prefixItems");
        keywords.get("items").is_some_and(|items| self.clean(items, depth))
            && first.iter().all(|item| self.clean(item, depth))
    }

    fn object(&mut self, keywords: &'s Map<String, Value>, depth: usize) -> bool {
        // The names of other properties would be text.
        if keywords.get("additionalProperties") != Some(&Value::Bool(false))
            || keywords.contains_key("patternProperties")
        {
            return false;
        }
        match keywords.get("properties") {
            None => true,
            Some(Value::Object(properties)) => {
                properties.values().all(|property| self.clean(property, depth))
            }
            Some(_) => false,
        }
    }

    /// Returns true if the target of a reference leaves no room.
    fn target(&mut self, reference: &'s str, depth: usize) -> bool {
        if let Some(known) = self.known.get(reference) {
            return known.unwrap_or(false);
        }
        self.known.insert(reference, None);
        let clean = find(self.root, reference).is_some_and(|target| self.clean(target, depth));
        self.known.insert(reference, Some(clean));
        clean
    }
}

/// The target of a reference within the document: `#`, or a JSON Pointer without percent signs.
fn find<'s>(root: &'s Value, reference: &str) -> Option<&'s Value> {
    let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains('%'))?;
    // A schema with an identity on the way would make the reference mean another place.
    let mut ends = pointer.match_indices('/').map(|(at, _)| &pointer[..at]).filter(|part| !part.is_empty());
    if ends.any(|part| root.pointer(part).is_some_and(|on_the_way| on_the_way.get("$id").is_some())) {
        return None;
    }
    root.pointer(pointer)
}

fn list<'s>(keywords: &'s Map<String, Value>, name: &str) -> &'s [Value] {
    keywords.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_clean_string(keywords: &Map<String, Value>) -> bool {
    if keywords.get("format").and_then(Value::as_str).is_some_and(is_asserted) {
        return true;
    }
    let short = keywords.get("maxLength").is_some_and(Value::is_number);
    let formed = keywords.get("pattern").and_then(Value::as_str).is_some_and(is_bounded);
    short && (formed || keywords.get("clean") == Some(&Value::Bool(true)))
}

#[cfg(test)]
mod tests;
