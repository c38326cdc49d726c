//! The tree of a program, as the host's parser returns it (`host/src/syntax.py`).

use crate::wire;
use serde_json::Value;

/// The tree of a program. Its root is the first node.
pub(super) struct Tree {
    nodes: Vec<wire::Node>,
}

/// A node of a tree.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    tree: &'a Tree,
    number: usize,
}

impl Tree {
    /// Creates a tree. `None` if the nodes don't form one: each child has a greater number than its parent.
    pub(super) fn new(nodes: Vec<wire::Node>) -> Option<Self> {
        let children = |node: &wire::Node| node.3.values().flatten().copied().collect::<Vec<i64>>();
        let sound = nodes.iter().enumerate().all(|(number, node)| {
            let is_child =
                |child: i64| usize::try_from(child).is_ok_and(|at| at > number && at < nodes.len());
            children(node).into_iter().all(|child| child == -1 || is_child(child))
        });
        (sound && !nodes.is_empty()).then_some(Self { nodes })
    }

    pub(super) fn root(&self) -> Node<'_> {
        Node { tree: self, number: 0 }
    }
}

impl<'a> Node<'a> {
    fn own(self) -> &'a wire::Node {
        &self.tree.nodes[self.number]
    }

    /// The class of the node in Python's module `ast`.
    pub(super) fn kind(self) -> &'a str {
        &self.own().0
    }

    pub(super) fn line(self) -> u32 {
        self.own().1
    }

    pub(super) fn column(self) -> u32 {
        self.own().2
    }

    fn at(self, child: i64) -> Option<Node<'a>> {
        usize::try_from(child).ok().map(|number| Node { tree: self.tree, number })
    }

    /// The children in a field. A `None` is an element without a node, such as the key of `**x` in a dict.
    pub(super) fn elements(self, field: &str) -> impl Iterator<Item = Option<Node<'a>>> + use<'a> {
        let own = self.own();
        own.3.get(field).into_iter().flatten().map(move |child| self.at(*child))
    }

    /// The nodes in a field.
    pub(super) fn all(self, field: &str) -> impl Iterator<Item = Node<'a>> + use<'a> {
        self.elements(field).flatten()
    }

    /// The first node in a field.
    pub(super) fn one(self, field: &str) -> Option<Node<'a>> {
        self.all(field).next()
    }

    /// All children.
    pub(super) fn children(self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        self.own().3.values().flatten().filter_map(move |child| self.at(*child))
    }

    /// A constant in a field.
    pub(super) fn constant(self, field: &str) -> Option<&'a Value> {
        self.own().4.get(field)
    }

    /// A text in a field.
    pub(super) fn text(self, field: &str) -> Option<&'a str> {
        self.constant(field)?.as_str()
    }

    /// The name, if the node is one.
    pub(super) fn name(self) -> Option<&'a str> {
        (self.kind() == "Name").then(|| self.text("id")).flatten()
    }

    /// The text, if the node is the constant of one.
    pub(super) fn literal(self) -> Option<&'a str> {
        (self.kind() == "Constant").then(|| self.text("value")).flatten()
    }

    /// The whole number, if the node is the constant of one.
    pub(super) fn number(self) -> Option<i64> {
        match self.kind() {
            "Constant" => self.constant("value")?.as_i64(),
            "UnaryOp" if self.one("op")?.kind() == "USub" => self.one("operand")?.number()?.checked_neg(),
            _ => None,
        }
    }

    /// The argument of that name, if the node is a call with one.
    pub(super) fn keyword(self, name: &str) -> Option<Node<'a>> {
        self.all("keywords").find(|keyword| keyword.text("arg") == Some(name))?.one("value")
    }

    /// Walks over the node and everything below it.
    pub(super) fn walk(self, visit: &mut impl FnMut(Node<'a>)) {
        visit(self);
        self.children().for_each(|child| child.walk(visit));
    }
}
