//! The types that JSON Schemas describe, as far as programming languages can express them. Anything else becomes any
//! value: a type may be wider than its schema, and never narrower.

use super::names::{Taken, pascal};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The reference to the schema that is being read.
const WHOLE: &str = "#";
/// The depth below which schemas become any value.
const DEEPEST: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Any,
    Null,
    Bool,
    Int,
    Float,
    Text,
    /// A choice of these texts.
    Choice(Vec<String>),
    List(Box<Type>),
    Map(Box<Type>),
    /// An object by its name.
    Object(String),
    /// An object around this place, by its name.
    Around(String),
    Union(Vec<Type>),
}

/// An object with named fields.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) key: String,
    pub(super) of: Type,
    pub(super) required: bool,
    pub(super) description: Option<String>,
}

/// The objects of all workers. An object comes behind the objects of its fields, unless it contains itself.
pub(super) struct Model {
    pub(super) objects: Vec<Object>,
    taken: Taken,
}

/// The schema that is being read.
struct Reading<'a> {
    root: &'a Value,
    name: &'a str,
    /// The definitions by their references, and whether they are complete.
    known: BTreeMap<String, (Type, bool)>,
}

impl Model {
    /// Creates an empty model, in which these names are reserved.
    pub(super) fn new(reserved: &[&str]) -> Self {
        Self { objects: Vec::new(), taken: Taken::with(reserved) }
    }

    /// Returns a name that is not in use.
    pub(super) fn free(&mut self, name: &str) -> String {
        self.taken.free(name)
    }

    /// Reads the type of a whole schema.
    pub(super) fn read(&mut self, schema: &Value, name: &str) -> Type {
        let mut reading = Reading { root: schema, name, known: BTreeMap::new() };
        self.referred(WHOLE, &mut reading, 0)
    }

    /// Returns the object of that name.
    pub(super) fn object(&self, of: &Type) -> Option<&Object> {
        let Type::Object(name) = of else { return None };
        self.objects.iter().find(|object| object.name == *name)
    }

    fn of(&mut self, schema: &Value, name: &str, reading: &mut Reading<'_>, depth: usize) -> Type {
        let Value::Object(schema) = schema else { return Type::Any };
        if depth > DEEPEST {
            return Type::Any;
        }
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.referred(reference, reading, depth);
        }
        if let Some(choice) = choice(schema) {
            return choice;
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(alternatives)) = schema.get(key) {
                let of = alternatives.iter().map(|one| self.of(one, name, reading, depth + 1)).collect();
                return union(of);
            }
        }
        match schema.get("type") {
            Some(Value::String(kind)) => self.of_kind(kind, schema, name, reading, depth),
            Some(Value::Array(kinds)) => {
                let kinds = kinds.iter().filter_map(Value::as_str);
                union(kinds.map(|kind| self.of_kind(kind, schema, name, reading, depth)).collect())
            }
            _ => Type::Any,
        }
    }

    fn of_kind(
        &mut self,
        kind: &str,
        schema: &Map<String, Value>,
        name: &str,
        reading: &mut Reading<'_>,
        depth: usize,
    ) -> Type {
        match kind {
            "null" => Type::Null,
            "boolean" => Type::Bool,
            "integer" => Type::Int,
            "number" => Type::Float,
            "string" => Type::Text,
            "array" => {
                let items = schema.get("items").unwrap_or(&Value::Null);
                Type::List(Box::new(self.of(items, &format!("{name}Item"), reading, depth + 1)))
            }
            "object" => match schema.get("properties") {
                Some(Value::Object(properties)) if !properties.is_empty() => {
                    let free = self.free(name);
                    self.fields(free.clone(), schema, properties, reading, depth);
                    Type::Object(free)
                }
                _ => {
                    let further = schema.get("additionalProperties").unwrap_or(&Value::Null);
                    Type::Map(Box::new(self.of(further, &format!("{name}Value"), reading, depth + 1)))
                }
            },
            _ => Type::Any,
        }
    }

    fn fields(
        &mut self,
        name: String,
        schema: &Map<String, Value>,
        properties: &Map<String, Value>,
        reading: &mut Reading<'_>,
        depth: usize,
    ) {
        let required = schema.get("required").and_then(Value::as_array);
        let required = |key: &str| required.is_some_and(|names| names.iter().any(|name| name == key));
        let fields = properties
            .iter()
            .map(|(key, of)| Field {
                key: key.clone(),
                of: self.of(of, &format!("{name}{}", pascal(key)), reading, depth + 1),
                required: required(key),
                description: of.get("description").and_then(Value::as_str).map(str::to_owned),
            })
            .collect();
        self.objects.push(Object { name, fields });
    }

    fn referred(&mut self, reference: &str, reading: &mut Reading<'_>, depth: usize) -> Type {
        match reading.known.get(reference) {
            Some((of, true)) => return of.clone(),
            Some((Type::Object(name), false)) => return Type::Around(name.clone()),
            Some((_, false)) => return Type::Any,
            None => {}
        }
        let target = reference.strip_prefix('#').and_then(|pointer| reading.root.pointer(pointer));
        let Some(target) = target else { return Type::Any };
        let last = reference.rsplit('/').next().unwrap_or_default();
        let name = if reference == WHOLE { reading.name.to_owned() } else { pascal(last) };
        let of = match (target.get("type"), target.get("properties")) {
            (Some(Value::String(kind)), Some(Value::Object(properties)))
                if kind == "object" && !properties.is_empty() =>
            {
                let free = self.free(&name);
                let of = Type::Object(free.clone());
                reading.known.insert(reference.to_owned(), (of.clone(), false));
                let schema = target.as_object().cloned().unwrap_or_default();
                self.fields(free, &schema, properties, reading, depth + 1);
                of
            }
            _ => {
                reading.known.insert(reference.to_owned(), (Type::Any, false));
                self.of(target, &name, reading, depth + 1)
            }
        };
        reading.known.insert(reference.to_owned(), (of.clone(), true));
        of
    }
}

fn choice(schema: &Map<String, Value>) -> Option<Type> {
    let one = schema.get("const").map(std::slice::from_ref);
    let values = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice).or(one)?;
    let texts: Option<Vec<String>> = values.iter().map(|value| value.as_str().map(str::to_owned)).collect();
    let of = |value: &Value| match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Number(number) if number.is_f64() => Type::Float,
        Value::Number(_) => Type::Int,
        Value::String(_) => Type::Text,
        _ => Type::Any,
    };
    Some(match texts {
        Some(texts) if !texts.is_empty() => Type::Choice(texts),
        _ => union(values.iter().map(of).collect()),
    })
}

fn union(alternatives: Vec<Type>) -> Type {
    let mut flat: Vec<Type> = Vec::new();
    for one in alternatives {
        let parts = match one {
            Type::Union(parts) => parts,
            one => vec![one],
        };
        for part in parts {
            if !flat.contains(&part) {
                flat.push(part);
            }
        }
    }
    match flat.len() {
        _ if flat.contains(&Type::Any) => Type::Any,
        0 => Type::Any,
        1 => flat.remove(0),
        _ => Type::Union(flat),
    }
}
