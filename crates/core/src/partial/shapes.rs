//! The shapes that a schema allows at each place of a value, as far as they can be known before the value is whole.

use serde_json::{Map, Value};
use std::collections::HashMap;

/// A set of kinds of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind(u8);

impl Kind {
    pub(super) const OBJECT: Self = Self(1);
    pub(super) const ARRAY: Self = Self(2);
    pub(super) const STRING: Self = Self(4);
    pub(super) const NUMBER: Self = Self(8);
    pub(super) const BOOLEAN: Self = Self(16);
    pub(super) const NULL: Self = Self(32);
    const ANY: Self = Self(63);

    fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn named(name: &str) -> Self {
        match name {
            "object" => Self::OBJECT,
            "array" => Self::ARRAY,
            "string" => Self::STRING,
            "number" | "integer" => Self::NUMBER,
            "boolean" => Self::BOOLEAN,
            "null" => Self::NULL,
            _ => Self::ANY,
        }
    }

    fn of(value: &Value) -> Self {
        match value {
            Value::Object(_) => Self::OBJECT,
            Value::Array(_) => Self::ARRAY,
            Value::String(_) => Self::STRING,
            Value::Number(_) => Self::NUMBER,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Null => Self::NULL,
        }
    }
}

/// The number of a node.
pub(super) type Node = usize;

/// The node that allows everything.
const ANY: Node = 0;

/// Most nodes. What a larger schema says beyond them is not known.
const MOST: usize = 20_000;

/// The words of a schema that say something about the value itself.
const OWN: [&str; 10] = [
    "type",
    "enum",
    "const",
    "format",
    "pattern",
    "properties",
    "additionalProperties",
    "patternProperties",
    "items",
    "prefixItems",
];

/// The nodes of a schema. Alternatives are separate nodes, so a place of a value has several of them.
#[derive(Debug)]
pub(super) struct Shapes {
    nodes: Vec<Shape>,
    root: Vec<Node>,
}

/// A node.
#[derive(Debug)]
struct Shape {
    kinds: Kind,
    /// True if a string has a form which a beginning of it need not have.
    formed: bool,
    members: HashMap<String, Vec<Node>>,
    /// The nodes of members without a declaration. Empty: there are none.
    others: Vec<Node>,
    first_items: Vec<Vec<Node>>,
    items: Vec<Node>,
}

impl Shape {
    fn any() -> Self {
        Self {
            kinds: Kind::ANY,
            formed: false,
            members: HashMap::new(),
            others: vec![ANY],
            first_items: Vec::new(),
            items: vec![ANY],
        }
    }
}

impl Shapes {
    pub(super) fn of(schema: &Value) -> Self {
        let mut made =
            Made { whole: schema, nodes: vec![Shape::any()], known: HashMap::new(), empty: Vec::new() };
        let root = made.nodes_of(schema, 0);
        while let Some((node, words)) = made.empty.pop() {
            made.fill(node, words);
        }
        Self { nodes: made.nodes, root }
    }

    /// The nodes of the whole value.
    pub(super) fn root(&self) -> &[Node] {
        &self.root
    }

    /// Returns the nodes among these that allow a value of that kind.
    pub(super) fn of_kind(&self, nodes: &[Node], kind: Kind) -> Vec<Node> {
        nodes.iter().copied().filter(|node| self.nodes[*node].kinds.has(kind)).collect()
    }

    /// Returns true if a beginning of a string may be shown.
    pub(super) fn grows(&self, nodes: &[Node]) -> bool {
        nodes.iter().all(|node| !self.nodes[*node].formed)
    }

    /// The nodes of a member of an object. Empty: the object must not have it.
    pub(super) fn member(&self, nodes: &[Node], name: &str) -> Vec<Node> {
        self.children(nodes, |shape| shape.members.get(name).unwrap_or(&shape.others))
    }

    /// The nodes of an element of an array. Empty: the array must not have it.
    pub(super) fn item(&self, nodes: &[Node], index: usize) -> Vec<Node> {
        self.children(nodes, |shape| shape.first_items.get(index).unwrap_or(&shape.items))
    }

    /// Returns true if a node declares a member of that name.
    pub(super) fn declares(&self, nodes: &[Node], name: &str) -> bool {
        nodes.iter().any(|node| self.nodes[*node].members.contains_key(name))
    }

    fn children<'s>(&'s self, nodes: &[Node], of: impl Fn(&'s Shape) -> &'s Vec<Node>) -> Vec<Node> {
        if let [node] = nodes {
            return of(&self.nodes[*node]).clone();
        }
        let mut all: Vec<Node> = nodes.iter().flat_map(|node| of(&self.nodes[*node])).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

struct Made<'s> {
    whole: &'s Value,
    nodes: Vec<Shape>,
    /// The nodes of schemas by their address, since references may lead in a circle.
    known: HashMap<*const Value, Vec<Node>>,
    /// The nodes that are still to be filled in, with the words of their schemas. Only the nodes of alternatives are
    /// found at once, so those of a schema are complete before a schema inside it refers back to it.
    empty: Vec<(Node, &'s Map<String, Value>)>,
}

impl<'s> Made<'s> {
    /// The nodes of a schema: its own, and those of its alternatives.
    fn nodes_of(&mut self, schema: &'s Value, depth: usize) -> Vec<Node> {
        let members = match schema {
            Value::Bool(false) => return Vec::new(),
            Value::Object(members) if depth < 128 && self.nodes.len() < MOST => members,
            _ => return vec![ANY],
        };
        if let Some(known) = self.known.get(&std::ptr::from_ref(schema)) {
            return known.clone();
        }
        let mut nodes = Vec::new();
        if OWN.iter().any(|word| members.contains_key(*word)) {
            self.nodes.push(Shape::any());
            let own = self.nodes.len() - 1;
            nodes.push(own);
            self.empty.push((own, members));
        }
        // A reference that leads back here adds nothing.
        self.known.insert(schema, nodes.clone());
        for word in ["anyOf", "oneOf", "allOf"] {
            for part in members.get(word).and_then(Value::as_array).into_iter().flatten() {
                nodes.extend(self.nodes_of(part, depth + 1));
            }
        }
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            let meant = reference.strip_prefix('#').and_then(|pointer| self.whole.pointer(pointer));
            nodes.extend(meant.map_or_else(|| vec![ANY], |meant| self.nodes_of(meant, depth + 1)));
        }
        if nodes.is_empty() {
            nodes.push(ANY);
        }
        nodes.sort_unstable();
        nodes.dedup();
        self.known.insert(schema, nodes.clone());
        nodes
    }

    /// Fills in the node of a schema's own words.
    fn fill(&mut self, node: Node, words: &'s Map<String, Value>) {
        let mut shape = Shape::any();
        let named = |name: &Value| Kind::named(name.as_str().unwrap_or_default());
        let all = |kinds: &mut dyn Iterator<Item = Kind>| kinds.reduce(Kind::and).unwrap_or(Kind::ANY);
        shape.kinds = match words.get("type") {
            Some(Value::Array(names)) => all(&mut names.iter().map(named)),
            Some(name) => named(name),
            None => match (words.get("enum"), words.get("const")) {
                (Some(Value::Array(values)), _) => all(&mut values.iter().map(Kind::of)),
                (_, Some(value)) => Kind::of(value),
                _ => Kind::ANY,
            },
        };
        shape.formed = ["enum", "const", "format", "pattern"].iter().any(|word| words.contains_key(*word));
        let under = |made: &mut Self, word: &str| match words.get(word) {
            Some(schema) if !words.contains_key("patternProperties") || word == "items" => {
                made.nodes_of(schema, 0)
            }
            _ => vec![ANY],
        };
        shape.others = under(self, "additionalProperties");
        shape.items = under(self, "items");
        for (name, schema) in words.get("properties").and_then(Value::as_object).into_iter().flatten() {
            shape.members.insert(name.clone(), self.nodes_of(schema, 0));
        }
        for schema in words.get("prefixItems").and_then(Value::as_array).into_iter().flatten() {
            shape.first_items.push(self.nodes_of(schema, 0));
        }
        self.nodes[node] = shape;
    }
}
