//! Bounds of the number of elements of values in a program, as far as the code shows them.

use super::tree::Node;
use std::{cell::Cell, collections::BTreeMap};

/// Greatest number of names that one bound is followed through.
const MOST_NAMES: u32 = 20;

/// Greatest number of values that one bound looks at. Names that hold each other several times would otherwise multiply.
const MOST_VALUES: u32 = 2_000;

/// Methods that add elements to a collection.
const GROWING: [&str; 6] = ["append", "extend", "insert", "add", "update", "setdefault"];

/// The values of the names of a function that are set once and never grow.
#[derive(Default)]
pub(super) struct Known<'a> {
    values: BTreeMap<&'a str, Node<'a>>,
    /// The values that the current bound may still look at.
    left: Cell<u32>,
}

impl<'a> Known<'a> {
    /// Finds the names in a function with these parameters, or in the top level of a program. Names of the top level are
    /// known in a function that does not set them.
    pub(super) fn of(body: impl Iterator<Item = Node<'a>>, parameters: &[&'a str], outside: &Self) -> Self {
        let mut bound: BTreeMap<&str, u32> = parameters.iter().map(|name| (*name, 2)).collect();
        let mut values = BTreeMap::new();
        let mut bind = |target: Node<'a>, times: u32| {
            target.walk(&mut |node| {
                if let Some(name) = node.name() {
                    *bound.entry(name).or_default() += times;
                }
            });
        };
        for statement in body {
            statement.walk(&mut |node| match node.kind() {
                "Assign" => {
                    let targets: Vec<Node<'a>> = node.all("targets").collect();
                    targets.iter().for_each(|target| bind(*target, 1));
                    if let ([target], Some(value)) = (targets.as_slice(), node.one("value"))
                        && let Some(name) = target.name()
                    {
                        values.insert(name, value);
                    }
                }
                // Each other way to set a name: its value is not known.
                "AugAssign" | "AnnAssign" | "NamedExpr" | "For" | "comprehension" => {
                    node.all("target").for_each(|target| bind(target, 2));
                }
                "withitem" => node.all("optional_vars").for_each(|target| bind(target, 2)),
                "Call" => {
                    let method = node.one("func").filter(|function| function.kind() == "Attribute");
                    if let Some(method) = method
                        && method.text("attr").is_some_and(|name| GROWING.contains(&name))
                        && let Some(value) = method.one("value")
                    {
                        bind(value, 2);
                    }
                }
                _ => {}
            });
        }
        values.retain(|name, _| bound.get(name) == Some(&1));
        let inherited = outside.values.iter().filter(|(name, _)| !bound.contains_key(*name));
        values.extend(inherited.map(|(name, value)| (*name, *value)));
        Self { values, left: Cell::new(0) }
    }

    /// The greatest number of elements of a value; `None` if it is not known.
    pub(super) fn bound(&self, value: Node<'a>) -> Option<u64> {
        self.left.set(MOST_VALUES);
        self.bound_within(value, MOST_NAMES)
    }

    fn bound_within(&self, value: Node<'a>, names: u32) -> Option<u64> {
        self.left.set(self.left.get().checked_sub(1)?);
        let of = |node: Node<'a>| self.bound_within(node, names);
        match value.kind() {
            "List" | "Tuple" | "Set" => {
                let count = value.all("elts").count() as u64;
                value.all("elts").all(|element| element.kind() != "Starred").then_some(count)
            }
            "Dict" => {
                let keys: Vec<Option<Node<'a>>> = value.elements("keys").collect();
                keys.iter().all(Option::is_some).then_some(keys.len() as u64)
            }
            "Constant" => value.literal().map(|text| text.chars().count() as u64),
            "Name" => {
                let known = *self.values.get(value.name()?)?;
                self.bound_within(known, names.checked_sub(1)?)
            }
            "Subscript" => slice_bound(value.one("slice")?),
            "IfExp" => Some(of(value.one("body")?)?.max(of(value.one("orelse")?)?)),
            "BoolOp" => value.all("values").map(of).try_fold(0, |most, bound| Some(bound?.max(most))),
            "BinOp" if value.one("op")?.kind() == "Add" => {
                of(value.one("left")?)?.checked_add(of(value.one("right")?)?)
            }
            "ListComp" | "SetComp" | "GeneratorExp" | "DictComp" => self.rounds_within(value, names),
            "Call" => self.bound_of_call(value, names),
            _ => None,
        }
    }

    fn bound_of_call(&self, call: Node<'a>, names: u32) -> Option<u64> {
        let of = |node: Node<'a>| self.bound_within(node, names);
        let function = call.one("func")?;
        let arguments: Vec<Node<'a>> = call.all("args").collect();
        if function.kind() == "Attribute" {
            return match (function.one("value")?.name(), function.text("attr")?) {
                (Some("ctx"), "map") => {
                    let limit = call.keyword("limit").or(arguments.get(2).copied());
                    u64::try_from(limit?.number()?).ok()
                }
                (_, "items" | "keys" | "values") => of(function.one("value")?),
                _ => None,
            };
        }
        match (function.name()?, arguments.as_slice()) {
            ("range", [end]) => Some(u64::try_from(end.number()?).unwrap_or(0)),
            ("range", [start, end]) => Some(u64::try_from(end.number()? - start.number()?).unwrap_or(0)),
            ("range", [start, end, step]) => {
                let (start, end, step) = (start.number()?, end.number()?, step.number()?);
                let (length, step) = if step > 0 { (end - start, step) } else { (start - end, -step) };
                Some(
                    u64::try_from(length).unwrap_or(0).div_ceil(u64::try_from(step).ok().filter(|s| *s > 0)?),
                )
            }
            (
                "enumerate" | "sorted" | "list" | "tuple" | "reversed" | "set" | "iter" | "dict",
                [first, ..],
            ) => of(*first),
            ("filter", [_, items]) => of(*items),
            ("zip", all) => all.iter().filter_map(|one| of(*one)).min(),
            _ => None,
        }
    }

    /// The greatest number of rounds of a comprehension.
    pub(super) fn rounds(&self, comprehension: Node<'a>) -> Option<u64> {
        self.left.set(MOST_VALUES);
        self.rounds_within(comprehension, MOST_NAMES)
    }

    fn rounds_within(&self, comprehension: Node<'a>, names: u32) -> Option<u64> {
        let mut generators =
            comprehension.all("generators").map(|one| self.bound_within(one.one("iter")?, names));
        generators.try_fold(1u64, |product, bound| product.checked_mul(bound?))
    }
}

/// The greatest number of elements of a slice: `[:20]`, `[-20:]`.
fn slice_bound(slice: Node<'_>) -> Option<u64> {
    if slice.kind() != "Slice" {
        return None;
    }
    match (slice.one("lower").map(Node::number), slice.one("upper").map(Node::number)) {
        (_, Some(Some(upper))) if upper >= 0 => u64::try_from(upper).ok(),
        (Some(Some(lower)), None) if lower < 0 => Some(lower.unsigned_abs()),
        _ => None,
    }
}
